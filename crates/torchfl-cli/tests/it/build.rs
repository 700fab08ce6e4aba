use std::collections::BTreeSet;

use serde_json::Value;
use torchfl_wheel::Archive;

use crate::context::{Context, build_json, names, wheel_in};

#[test]
fn dry_run_for_people() {
    let context = Context::new();
    insta::assert_snapshot!(context.run("build sim --torch {torch} --front {stock} --dry-run"), @r"
    exit: 0
    --- stdout
    torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl

      libc10.so [SIZE]  rpath appended
      libc10_sim.so [SIZE]  rpath appended
      libshm.so [SIZE]  rpath appended
      libsimblas-[HASH].so.2 [SIZE]  rpath appended
      libtorch.so [SIZE]  rpath appended
      libtorch_cpu.so [SIZE]  rpath in place
      libtorch_global_deps.so [SIZE]  rpath in place
      libtorch_python.so [SIZE]  rpath in place
      libtorch_sim.so [SIZE]  rpath in place

    search path (rpath): $ORIGIN:/opt/sim/lib

    opened at import, in this order:
      libgomp.so.1 from the installed torch, unless loaded already
      libc10.so from the bundle
      libtorch_cpu.so from the bundle
      libc10_sim.so from the bundle
      libtorch_sim.so from the bundle
      libtorch.so from the bundle
      libshm.so from the bundle
      libtorch_python.so from the bundle

    on the platform tag's word: ld-linux-[ARCH].so.2, libc.so.6, libdl.so.2, libm.so.6, libpthread.so.0, librt.so.1, libutil.so.1
    on the manifest's word, [host]: libsimrt.so.1

    ways to redirect (swap core):
      finder  not sound: opening torch/lib/libc10.so by path gives a second copy; opening torch/lib/libshm.so by path gives a second copy; opening torch/lib/libtorch.so by path gives a second copy; and 2 more
      facade  sound
      links   sound

    requires:
      torch==2.13.0

    3 headers and CMake files laid over the stock ones
    3 licence files
    --- stderr
    warning: no plugin given: the wheel carries none, and the `flagos` device is not registered
    ");
    assert_eq!(names(&context.path("")), ["sk"]);
}

#[test]
fn a_build_for_people() {
    let context = Context::new();
    insta::assert_snapshot!(context.run("build sim --torch {torch} --front {stock}"), @r"
    exit: 0
    --- stdout
      libc10.so [SIZE]  rpath appended
      libc10_sim.so [SIZE]  rpath appended
      libshm.so [SIZE]  rpath appended
      libsimblas-[HASH].so.2 [SIZE]  rpath appended
      libtorch.so [SIZE]  rpath appended
      libtorch_cpu.so [SIZE]  rpath in place
      libtorch_global_deps.so [SIZE]  rpath in place
      libtorch_python.so [SIZE]  rpath in place
      libtorch_sim.so [SIZE]  rpath in place

    dist/torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl
     [SIZE] in [TIME], sha256 [SHA256]
    --- stderr
    warning: no plugin given: the wheel carries none, and the `flagos` device is not registered
    ");
}

#[test]
fn quiet_leaves_the_warnings_out() {
    let context = Context::new();
    let loud = context.output("build sim --torch {torch} --dry-run");
    let quiet = context.output("build sim --torch {torch} --dry-run --quiet");
    assert!(
        String::from_utf8_lossy(&loud.stderr).contains("warning: no plugin given"),
        "{}",
        context.show(&loud)
    );
    assert_eq!(String::from_utf8_lossy(&quiet.stderr), "");
    assert_eq!(loud.stdout, quiet.stdout);
}

/// What `--dry-run` prints is what the build carries out.
#[test]
fn the_plan_is_what_the_wheel_holds() {
    let context = Context::new();
    let words = "build sim --torch {torch} --front {stock} --sdk-root /opt/sim-2";
    let plan = context.json(&format!("{words} --dry-run"));
    let built = context.json(&format!("{words} -o dist"));
    let wheel = wheel_in(&context.path("dist"));
    assert_eq!(plan["wheel"], built["wheel"]);
    assert_eq!(plan["libraries"], built["libraries"]);
    assert_eq!(plan["build_json"], build_json(&wheel));

    let archive = Archive::open(&wheel).unwrap();
    let members: BTreeSet<&str> = archive.members().iter().map(|m| m.name.as_str()).collect();
    let strings = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect()
    };
    let metadata = archive.read("torch_fl-2.13.0+sim1.0.skeleton.dist-info/METADATA", 1 << 20).unwrap();
    let metadata = String::from_utf8(metadata).unwrap();
    for line in strings(&plan["requires"]) {
        assert!(metadata.contains(&format!("Requires-Dist: {line}\n")), "{line}");
    }
    for path in strings(&plan["licences"]) {
        assert!(
            members.contains(format!("torch_fl-2.13.0+sim1.0.skeleton.dist-info/licenses/{path}").as_str()),
            "{path}"
        );
    }
    for path in strings(&plan["overlay"]) {
        assert!(members.contains(path.replacen("torch/", "torch_fl/overlay/", 1).as_str()), "{path}");
    }
    let mut libraries = BTreeSet::new();
    for library in plan["libraries"].as_array().unwrap() {
        let name = format!("torch_fl/lib_sim/{}", library["name"].as_str().unwrap());
        let member = archive.members().iter().find(|m| m.name == name).unwrap();
        assert_eq!(Value::from(member.size), library["bytes"], "{name}");
        let bytes = archive.read(&name, 1 << 24).unwrap();
        let facts = torchfl_elf::facts(&bytes, &name).unwrap();
        let path = facts.search_path.unwrap();
        assert_eq!(
            (path.tag.to_string(), path.value),
            ("rpath".to_owned(), "$ORIGIN:/opt/sim-2/lib".to_owned())
        );
        libraries.insert(name);
    }
    let bundled = members.iter().filter(|m| m.starts_with("torch_fl/lib_sim/")).map(|m| (*m).to_owned());
    assert_eq!(bundled.collect::<BTreeSet<_>>(), libraries);
}

#[test]
fn the_summary_has_what_scripts_need() {
    let context = Context::new();
    let built = context.json("build sim --torch {torch} --front {stock} -o dist");
    let wheel = wheel_in(&context.path("dist"));
    let bytes = fs_err::read(&wheel).unwrap();
    assert_eq!(built["wheel"], wheel.file_name().unwrap().to_str().unwrap());
    assert_eq!(built["path"], format!("dist/{}", built["wheel"].as_str().unwrap()));
    assert_eq!(built["bytes"], bytes.len());
    assert_eq!(built["sha256"], torchfl_wheel::Sha256::of(&bytes).to_string());
    assert!(built["seconds"].as_f64().is_some());
    let libraries = built["libraries"].as_array().unwrap();
    assert_eq!(libraries.len(), 9);
    for library in libraries {
        for key in ["name", "bytes", "search_path", "tag", "how"] {
            assert!(library.get(key).is_some_and(|v| !v.is_null()), "{key} in {library}");
        }
    }
}

#[test]
fn constraints_lie_beside_the_wheel() {
    let context = Context::new();
    let wheel = context.build("", "dist");
    let name = wheel.file_stem().unwrap().to_str().unwrap();
    let mut both = [format!("{name}.constraints.txt"), format!("{name}.whl")];
    both.sort();
    assert_eq!(names(&context.path("dist")), both);
    let text = fs_err::read_to_string(context.path("dist").join(&both[0])).unwrap();
    assert_eq!(text, "torch==2.13.0+cpu.skeleton\ntorch_fl==2.13.0+sim1.0.skeleton\n");
}

#[test]
fn the_package_in_the_wheel_is_the_one_in_the_sources() {
    let context = Context::new();
    let archive = Archive::open(&context.build("", "dist")).unwrap();
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wheels/torch_fl");
    for name in
        ["__init__.py", "_boot.py", "gate/torch/TORCH_FL_GATE", "gate/sitecustomize.py", "activate.pth"]
    {
        let bytes = archive.read(&format!("torch_fl/{name}"), 1 << 20).unwrap();
        assert_eq!(bytes, fs_err::read(format!("{sources}/{name}")).unwrap(), "{name}");
    }
    assert!(!archive.members().iter().any(|m| m.name.contains("__pycache__")));
}

#[test]
fn the_inputs_are_recorded_and_tell_nothing_of_this_machine() {
    let context = Context::new();
    context.unpack("vendor", "site");
    context.stdout("build sim --torch site --front {stock} -o dist");
    let wheel = wheel_in(&context.path("dist"));
    let build = build_json(&wheel);
    let inputs = build["inputs"].as_array().unwrap();
    let rows: Vec<String> = inputs.iter().map(|i| format!("{} {}", i["role"], i["name"])).collect();
    insta::assert_snapshot!(context.filter(&rows.join("\n")), @r#"
    "manifest" "sim.toml"
    "torch" "torch 2.13.0+sim1.0.skeleton"
    "front" "torch-2.13.0+cpu.skeleton-cp3XX-cp3XX-linux_[ARCH].whl"
    "#);
    let archive = Archive::open(&wheel).unwrap();
    let needle = context.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    for member in archive.members() {
        let bytes = archive.read(&member.name, 1 << 24).unwrap();
        let found = bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
        assert!(!found, "{} holds {needle}", member.name);
    }
}

#[test]
fn an_answer_that_cannot_be_written_is_a_failure() {
    let context = Context::new();
    let full = fs_err::OpenOptions::new().write(true).open("/dev/full").unwrap().into_parts().0;
    let output = context.command("vendor list").stdout(full).output().unwrap();
    insta::assert_snapshot!(context.show(&output), @r"
    exit: 2
    --- stdout
    --- stderr
    E-CLI-001

      x No space left on device (os error 28)
      help: make room on that file system
    ");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let context = Context::new();
    let mut child = context.command("vendor schema").stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
