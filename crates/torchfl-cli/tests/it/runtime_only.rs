//! Vendors of whom nothing is bundled: no torch is taken apart, one may be met.

use std::env::consts::ARCH;

use torchfl_wheel::Archive;

use crate::context::{Context, build_json, wheel_in};

/// The sample vendor with nothing bundled, as `m.toml`.
fn manifest(context: &Context, edits: &[(&str, &str)]) {
    let text = crate::context::SIM;
    let start = text.find("\n[bundle]").unwrap();
    let end = text.find("\n[host]").unwrap();
    let mut text = format!("{}{}", &text[..start], &text[end..]);
    let none = [
        ("swap = \"core\"", "swap = \"none\""),
        ("status = \"experimental\"", "status = \"runtime-only\""),
        ("attributes = { sim = \"from-vendor\" }", ""),
        ("[\"x86_64\", \"aarch64\"]", &format!("[\"{ARCH}\"]")),
    ];
    for (old, new) in none.iter().chain(edits) {
        assert_eq!(text.matches(old).count(), 1, "{old} must stand once");
        text = text.replace(old, new);
    }
    context.write("m.toml", &text);
}

#[test]
fn no_torch_is_needed_and_the_wheel_is_for_every_python() {
    let context = Context::new();
    manifest(&context, &[]);
    context.stdout("build --manifest m.toml -o dist");
    let wheel = wheel_in(&context.path("dist"));
    let name = wheel.file_name().unwrap().to_str().unwrap();
    assert_eq!(name, format!("torch_fl-2.13.0+sim1.0-py3-none-manylinux_2_17_{ARCH}.whl"));
    let build = build_json(&wheel);
    assert_eq!((&build["skeleton"], &build["overlay"]), (&false.into(), &serde_json::Value::Null));
    assert_eq!(build["inputs"].as_array().unwrap().len(), 1, "{build}");
    insta::assert_snapshot!(build["notes"][0].as_str().unwrap(), @r"
    runtime-only: no kernels for Sim sample chip are inside. They are a library of the vendor's, which a plugin has to serve, and this wheel has none: operators run on the CPU
    ");
    let info = "torch_fl-2.13.0+sim1.0.dist-info/METADATA";
    let metadata = String::from_utf8(Archive::open(&wheel).unwrap().read(info, 1 << 20).unwrap()).unwrap();
    assert!(metadata.contains("\nSummary: [runtime-only] PyTorch's flagos device on"), "{metadata}");
    assert!(metadata.contains("\nLicense-Expression: Apache-2.0\n"), "{metadata}");
}

#[test]
fn a_torch_to_take_apart_is_refused_and_one_to_meet_is_not() {
    let context = Context::new();
    manifest(&context, &[]);
    insta::assert_snapshot!(context.run("build --manifest m.toml --torch {torch}"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-051

      x sim takes nothing of a torch: swap is none
      help: leave --torch out; --front names the torch that the wheel will meet
    ");
    let plan = context.json("build --manifest m.toml --front {stock} --dry-run");
    assert_eq!(plan["overlay"], serde_json::json!([]));
    assert_eq!(plan["build_json"]["version"], "2.13.0+sim1.0.skeleton");
}

#[test]
fn whoever_bundles_needs_the_vendors_torch() {
    let context = Context::new();
    insta::assert_snapshot!(context.run("build sim"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-050

      x sim is built from the vendor's torch, and none was given
      help: name it with --torch: a wheel, or the folder that it is installed in
    ");
}

#[test]
fn for_several_machines_somebody_has_to_say_which() {
    let context = Context::new();
    manifest(&context, &[(&format!("arch = [\"{ARCH}\"]"), "arch = [\"x86_64\", \"aarch64\"]")]);
    insta::assert_snapshot!(context.run("build --manifest m.toml"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-054

      x sim is for several machines, and nobody says for which
      help: give --front the torch that the wheel will meet
    ");
    context.stdout("build --manifest m.toml --front {stock} -o dist");
}

#[test]
fn the_vendors_own_torch_in_front_has_to_be_the_vendors() {
    let context = Context::new();
    manifest(
        &context,
        &[("front = \"cpu\"", "front = \"vendor\""), ("status = \"runtime-only\"", "status = \"beta\"")],
    );
    context.stdout("build --manifest m.toml --front {torch} -o dist");
    assert_eq!(build_json(&wheel_in(&context.path("dist")))["torch"]["front"], "vendor");
    insta::assert_snapshot!(context.run("build --manifest m.toml --front {stock}"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-013

      x sk/stock/torch-2.13.0+cpu.skeleton-cp3XX-cp3XX-linux_[ARCH].whl is not sim's torch: its version.py lacks `sim = '1.0'`
      help: bring the vendor's own torch; [torch] markers say how it is recognised
    ");
}

#[test]
fn a_plugin_that_calls_python_belongs_to_one() {
    let context = Context::new();
    manifest(&context, &[]);
    context.write(
        "plugin.c",
        "extern int PyRun_SimpleString(const char *);\nint go(void) { return PyRun_SimpleString(\"\"); }\n",
    );
    let made = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o", "libplugin.so", "plugin.c"])
        .current_dir(context.path("."))
        .status();
    assert!(made.unwrap().success());
    insta::assert_snapshot!(context.run("build --manifest m.toml --plugin libplugin.so"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-052

      x libplugin.so belongs to one Python, and nobody says which
      help: say it: --python cp3XX, or --front
    ");
    let plan = context.json("build --manifest m.toml --plugin libplugin.so --python cp312 --dry-run");
    assert_eq!(plan["build_json"]["python"], "cpython-312");
    assert_eq!(plan["build_json"]["notes"], serde_json::json!([]));
}
