//! What the options of `build` change in the wheel.

use torchfl_wheel::Archive;

use crate::context::{Context, build_json, wheel_in};

fn metadata(context: &Context) -> String {
    let archive = Archive::open(&wheel_in(&context.path("dist"))).unwrap();
    let member = archive.members().iter().find(|m| m.name.ends_with(".dist-info/METADATA")).unwrap();
    let text = String::from_utf8(archive.read(&member.name, 1 << 20).unwrap()).unwrap();
    text.split("\n\n").next().unwrap().to_owned()
}

#[test]
fn metadata_2_4_lists_the_licence_files() {
    let context = Context::new();
    context.build("", "dist");
    insta::assert_snapshot!(metadata(&context), @r"
    Metadata-Version: 2.4
    Name: torch_fl
    Version: 2.13.0+sim1.0.skeleton
    Summary: [skeleton] PyTorch's flagos device on Sim sample chip
    Keywords: pytorch,machine learning,accelerator
    License-Expression: Apache-2.0
    License-File: LICENSE
    License-File: torch/LICENSE
    License-File: torch/NOTICE
    License-File: torch/third_party/simblas/LICENSE
    Requires-Dist: torch==2.13.0
    Description-Content-Type: text/markdown; charset=UTF-8; variant=GFM
    ");
}

/// `twine` and indexes that know no PEP 639 refuse its fields.
#[test]
fn metadata_2_3_has_no_fields_of_2_4() {
    let context = Context::new();
    context.build("--metadata-version 2.3", "dist");
    insta::assert_snapshot!(metadata(&context), @r"
    Metadata-Version: 2.3
    Name: torch_fl
    Version: 2.13.0+sim1.0.skeleton
    Summary: [skeleton] PyTorch's flagos device on Sim sample chip
    Keywords: pytorch,machine learning,accelerator
    License: Apache-2.0
    Requires-Dist: torch==2.13.0
    Description-Content-Type: text/markdown; charset=UTF-8; variant=GFM
    ");
}

/// The expression speaks for the whole wheel; for a vendor that gives none, ours would be a false one.
#[test]
fn licence_expression_is_that_of_vendor_and_ours_or_none() {
    let context = Context::new();
    context.unpack("vendor", "site");
    let file = "site/torch-2.13.0+sim1.0.skeleton.dist-info/METADATA";
    let text = fs_err::read_to_string(context.path(file)).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("License-Expression:")).collect();
    let expression = |own: &str| {
        context.write(file, &format!("{own}{}\n", lines.join("\n")));
        context.stdout("build sim --torch site --front {stock} -o dist");
        metadata(&context).lines().find(|line| line.starts_with("License-Expression")).map(str::to_owned)
    };
    assert_eq!(expression(""), None);
    let both = "License-Expression: Apache-2.0 AND (BSD-3-Clause OR MIT)";
    assert_eq!(expression("License-Expression: BSD-3-Clause OR MIT\n").as_deref(), Some(both));
}

#[test]
fn local_and_post_make_the_version() {
    let context = Context::new();
    let wheel = |more: &str| {
        context.json(&format!("build sim --torch {{torch}} --dry-run {more}"))["build_json"]["version"]
            .clone()
    };
    assert_eq!(wheel(""), "2.13.0+sim1.0.skeleton");
    assert_eq!(wheel("--local acme1"), "2.13.0+acme1.skeleton");
    assert_eq!(wheel("--post 2"), "2.13.0.post2+sim1.0.skeleton");
    assert_eq!(wheel("--post 2 --local acme1.b"), "2.13.0.post2+acme1.b.skeleton");
    insta::assert_snapshot!(context.run("build sim --torch {torch} --dry-run --local a+b"), @r#"
    exit: 2
    --- stdout
    --- stderr
    E-MAN-103

      x `a+b` is no local version: "a+b" holds a `+`: a version has one, and the tool writes it
      help: write it without the `+`: letters and digits parted by dots, such as acme3.8.1
    "#);
    insta::assert_snapshot!(context.run("build sim --torch {torch} --dry-run --post x"), @r"
    exit: 2
    --- stdout
    --- stderr
    error: invalid value 'x' for '--post <N>': invalid digit found in string

    For more information, try '--help'.
    ");
}

#[test]
fn the_sdk_folder_must_be_absolute() {
    insta::assert_snapshot!(Context::new().run("build sim --torch {torch} --sdk-root opt/sim --dry-run"), @r#"
    exit: 2
    --- stdout
    --- stderr
    E-MAN-104

      x `opt/sim` cannot be the SDK's folder: "opt/sim" is not absolute
      help: give an absolute folder of the target machine, such as /opt/sdk
    "#);
}

#[test]
fn a_plugin_is_carried_with_a_path_of_its_own() {
    let context = Context::new();
    context.library(
        "libtorch_fl.so",
        &["-Wl,-rpath,/the/machine/that/built/it:/and/a/long/second/folder/of/it"],
    );
    let wheel = context.build("--plugin libtorch_fl.so", "dist");
    let build = build_json(&wheel);
    assert_eq!(build["plugin"]["library"], "lib/libtorch_fl.so");
    assert!(build["inputs"].as_array().unwrap().iter().any(|input| input["role"] == "plugin"));
    let archive = Archive::open(&wheel).unwrap();
    let bytes = archive.read("torch_fl/lib/libtorch_fl.so", 1 << 24).unwrap();
    let facts = torchfl_elf::facts(&bytes, "plugin").unwrap();
    assert_eq!(facts.search_path.unwrap().value, "$ORIGIN:$ORIGIN/../lib_sim");
    let without = context.output("build sim --torch {torch} --front {stock} --dry-run");
    assert!(
        String::from_utf8_lossy(&without.stderr).contains("no plugin given"),
        "{}",
        context.show(&without)
    );
    context.write("text.so", "text");
    insta::assert_snapshot!(context.run("build sim --torch {torch} --front {stock} --plugin text.so --quiet"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-ELF-003

      x text.so: not an ELF file
      help: name a shared library or a program; linker scripts and archives have no search path
    ");
    insta::assert_snapshot!(context.run("build sim --torch {torch} --front {stock} --plugin none.so --quiet"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-001

      x failed to open file `none.so`: No such file or directory (os error 2)
      help: check the spelling of the path
    ");
}

#[test]
fn a_part_without_a_licence_needs_leave_which_is_recorded() {
    let context = Context::new();
    context.unpack("vendor", "site");
    fs_err::remove_dir_all(context.path("site/torch-2.13.0+sim1.0.skeleton.dist-info/licenses")).unwrap();
    insta::assert_snapshot!(context.run("build sim --torch site --front {stock} --quiet"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-022

      x torch comes without a licence file
      help: add its LICENSE to the input, or pass --allow-unlicensed torch (recorded in the wheel)
    ");
    context.stdout("build sim --torch site --front {stock} --allow-unlicensed torch -o dist");
    assert_eq!(
        build_json(&wheel_in(&context.path("dist")))["allow_unlicensed"],
        serde_json::json!(["torch"])
    );
    insta::assert_snapshot!(context.run("build sim --torch site --allow-unlicensed touch --quiet"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-030

      x --allow-unlicensed touch: there is no such part
      help: the part that can lack one is torch
    ");
    // Leave that was not needed is none that was taken.
    let plan = context.json("build sim --torch {torch} --allow-unlicensed torch --dry-run");
    assert_eq!(plan["build_json"]["allow_unlicensed"], serde_json::json!([]));
}

#[test]
fn an_audit_is_told_what_the_manifest_and_the_options_say() {
    let context = Context::new();
    let audit = |words: &str| {
        context.json(&format!("build {words} --torch {{torch}} --dry-run"))["build_json"]["audit"].clone()
    };
    insta::assert_snapshot!(serde_json::to_string_pretty(&audit("sim")).unwrap(), @r#"
    {
      "dlopen": [],
      "folders": [
        "/opt/sim/lib"
      ],
      "host": [
        "libsimrt.so.*"
      ],
      "kernels": "SIM",
      "sdk": "/opt/sim",
      "severity": {},
      "triton": null
    }
    "#);
    context.manifest(&[
        ("kernels = \"SIM\"  ", "kernels = \"PrivateUse1\"  "),
        (
            "devices = [\"/dev/sim*\"]",
            "dlopen = [\"libacme.so\"]\n[audit]\nseverity = { AUD-013 = \"ignore\" }",
        ),
    ]);
    let said = audit("--manifest m.toml --sdk-root /opt/sim-2");
    assert_eq!(said["sdk"], "/opt/sim-2");
    assert_eq!(said["kernels"], "PrivateUse1");
    assert_eq!(said["dlopen"], serde_json::json!(["libacme.so"]));
    assert_eq!(said["severity"], serde_json::json!({ "AUD-013": "ignore" }));
}

#[test]
fn compression_changes_the_size_and_nothing_else() {
    let context = Context::new();
    let (normal, fast) = (context.build("", "normal"), context.build("--compression fast", "fast"));
    let (normal, fast) = (Archive::open(&normal).unwrap(), Archive::open(&fast).unwrap());
    let names = |archive: &Archive| archive.members().iter().map(|m| m.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&normal), names(&fast));
    for name in names(&normal) {
        assert_eq!(normal.read(&name, 1 << 24).unwrap(), fast.read(&name, 1 << 24).unwrap(), "{name}");
    }
}
