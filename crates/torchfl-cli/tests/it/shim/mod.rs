//! Vendors whose bundle has a generated library: a versioned forwarder (`metax`) and a core gap (`dcu-slim`).

mod glibc;
mod refused;
mod run;
mod wanted;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use torchfl_wheel::Archive;

use crate::context::{Context, SIM, build_json, skeleton, wheel_in};

const METAX: &str = include_str!("../../../../../vendor-manifests/metax.toml");
const DCU_SLIM: &str = include_str!("../../../../../vendor-manifests/dcu-slim.toml");

/// A context whose `m.toml` is that vendor's manifest, for this Python, edited; and the words that name its torches.
fn vendor(name: &str, text: &str, edits: &[(&str, &str)]) -> (Context, String) {
    let context = Context::new();
    let line = |text: &str| text.lines().find(|line| line.starts_with("tags = ")).unwrap().to_owned();
    let mut text = text.replace(&line(text), &line(SIM));
    for (old, new) in edits {
        assert_eq!(text.matches(old).count(), 1, "{old} must stand once in {name}.toml");
        text = text.replace(old, new);
    }
    context.write("m.toml", &text);
    let made = skeleton(name);
    for folder in ["vendor", "stock", "opt"] {
        let there = context.path(folder);
        std::os::unix::fs::symlink(made.join(folder), there).unwrap();
    }
    let wheel = |folder: &str| {
        let path = wheel_in(&context.path(folder));
        format!("{folder}/{}", path.file_name().unwrap().to_str().unwrap())
    };
    let words = format!("--manifest m.toml --torch {} --front {}", wheel("vendor"), wheel("stock"));
    (context, words)
}

fn metax(edits: &[(&str, &str)]) -> (Context, String) {
    vendor("metax", METAX, edits)
}

fn dcu_slim(edits: &[(&str, &str)]) -> (Context, String) {
    vendor("dcu-slim", DCU_SLIM, edits)
}

/// What the dry run says from `from` up to the next empty line.
fn part(text: &str, from: &str) -> String {
    let rest = &text[text.find(from).unwrap_or_else(|| panic!("no {from} in {text}"))..];
    rest.split("\n\n").next().unwrap().to_owned()
}

#[test]
fn a_dry_run_shows_the_forwarder() {
    let (context, words) = metax(&[]);
    let text = context.run(&format!("build {words} --dry-run"));
    insta::assert_snapshot!(part(&text, "generated:"), @r"
    generated:
      libcudart.so.12: versioned-forwarder, 2 symbols of version libcudart.so.12, forwarded to libsymbol_cu.so
        wanted by libtorch_cuda.so
    ");
    insta::assert_snapshot!(part(&text, "opened at import"), @r"
    opened at import, in this order:
      libgomp.so.1 from the installed torch, unless loaded already
      libcudart.so.12 from the bundle
      libc10.so from the bundle
      libtorch_cpu.so from the bundle
      libtorch.so from the bundle
      libtorch_global_deps.so from the bundle
      libc10_cuda.so from the bundle
      libtorch_cuda_linalg.so from the bundle
      libtorch_cuda.so from the bundle
      libshm.so from the bundle
      libtorch_python.so from the bundle
    ");
    assert!(text.contains("  libcudart.so.12 [SIZE]  rpath generated\n"), "{text}");
    let plan = context.json(&format!("build {words} --dry-run"));
    insta::assert_snapshot!(serde_json::to_string_pretty(&plan["shims"]).unwrap(), @r#"
    [
      {
        "forward_to": "libsymbol_cu.so",
        "kind": "versioned-forwarder",
        "soname": "libcudart.so.12",
        "stubs": {},
        "symbols": [
          "cudart_build",
          "cudart_launch"
        ],
        "version": "libcudart.so.12",
        "wanted_by": [
          "libtorch_cuda.so"
        ]
      }
    ]
    "#);
}

#[test]
fn a_dry_run_shows_the_core_gap_and_what_answers() {
    let stub =
        "symbols = \"computed\"\nstub = [{ name = \"_ZN2at8autocast15is_fork_enabledEv\", returns = 0 }]";
    for (edits, stubs) in [(&[][..], false), (&[("symbols = \"computed\"", stub)][..], true)] {
        let (context, words) = dcu_slim(edits);
        let text = context.run(&format!("build {words} --dry-run"));
        let generated = part(&text, "generated:");
        if stubs {
            insta::assert_snapshot!(generated, @r"
            generated:
              libtorch_core_gap.so: core-gap, 2 symbols; 1 answered; a call of the other ends the process
                wanted by libtorch_hip.so
            ");
        } else {
            insta::assert_snapshot!(generated, @r"
            generated:
              libtorch_core_gap.so: core-gap, 2 symbols; a call ends the process
                wanted by libtorch_hip.so
            ");
        }
    }
}

/// Built into `dist`, with the SDK where the skeleton has it.
fn built(context: &Context, words: &str, sdk: &str) -> PathBuf {
    let sdk = fs_err::canonicalize(context.path(sdk)).unwrap();
    context.stdout(&format!("build {words} --sdk-root {} -o dist", sdk.display()));
    wheel_in(&context.path("dist"))
}

#[test]
fn both_wheels_are_whole_and_pass_the_audit() {
    let cases =
        [(metax(&[]), "opt/maca", "libcudart.so.12"), (dcu_slim(&[]), "opt/dtk", "libtorch_core_gap.so")];
    for ((context, words), sdk, shim) in cases {
        let wheel = built(&context, &words, sdk);
        let build = build_json(&wheel);
        let dir = build["bundle"].as_str().unwrap();
        let member = format!("torch_fl/{dir}/{shim}");
        let bytes = Archive::open(&wheel).unwrap().read(&member, 1 << 20).unwrap();
        assert_eq!(build["files"][shim]["bytes"], bytes.len());
        assert_eq!(build["files"][shim]["soname"], shim);
        let opened = build["open"].as_array().unwrap().iter().find(|open| open["name"] == shim).unwrap();
        assert_eq!(
            (&opened["from"], &opened["global"]),
            (&"bundle".into(), &(shim == "libtorch_core_gap.so").into())
        );
        let cc = build["tool"]["cc"].as_str().unwrap();
        let version = Command::new("cc").arg("--version").env("LC_ALL", "C").output().unwrap();
        assert!(String::from_utf8(version.stdout).unwrap().starts_with(cc) && !cc.contains('\n'), "{cc}");
        assert!(build["tool"]["ld"].as_str().unwrap().contains("ld"), "{}", build["tool"]);
        let facts = torchfl_elf::facts(&bytes, shim).unwrap();
        let others = torchfl_elf::facts(
            &Archive::open(&wheel)
                .unwrap()
                .read(&format!("torch_fl/{dir}/{}", first(&build, shim)), 1 << 24)
                .unwrap(),
            "other",
        );
        assert_eq!(facts.search_path, others.unwrap().search_path);

        let stock = words.split("--front ").nth(1).unwrap();
        let audit = context
            .output(&format!("audit dist/{} --torch {stock}", wheel.file_name().unwrap().to_str().unwrap()));
        let text = context.show(&audit);
        assert!(audit.status.success() && !text.contains(" error "), "{text}");
        assert!(!text.contains(shim), "{text}");
    }
}

/// A library of the bundle that is no shim.
fn first(build: &serde_json::Value, shim: &str) -> String {
    build["files"].as_object().unwrap().keys().find(|name| *name != shim).unwrap().clone()
}

/// Runs a program over the stock torch and the wheel, unpacked.
fn python(context: &Context, wheel: &Path, code: &str) -> Output {
    let site = context.path("site");
    for wheel in [wheel, &wheel_in(&context.path("stock"))] {
        let archive = Archive::open(wheel).unwrap();
        for member in archive.members().iter().filter(|member| !member.name.ends_with('/')) {
            let path = site.join(&member.name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, archive.read(&member.name, 1 << 24).unwrap()).unwrap();
        }
    }
    let mut python = Command::new("python3");
    python.args(["-c", code]).env("PYTHONPATH", &site).env("TORCH_FL_CACHE_DIR", context.path("cache"));
    python.env_remove("LD_LIBRARY_PATH").current_dir(context.path("")).output().unwrap()
}

#[test]
fn the_same_inputs_give_the_same_bytes_in_every_folder() {
    let make = || {
        let (context, words) = metax(&[]);
        context.stdout(&format!("build {words} -o dist"));
        fs_err::read(wheel_in(&context.path("dist"))).unwrap()
    };
    assert!(make() == make());
}

#[test]
fn the_sources_are_there_to_look_at() {
    let (context, words) = metax(&[]);
    let words = format!("shim {words}");
    insta::assert_snapshot!(context.run(&format!("{words} -o shims")), @r"
    exit: 0
    --- stdout
      libcudart.so.12: versioned-forwarder, 2 symbols of version libcudart.so.12, forwarded to libsymbol_cu.so
        wanted by libtorch_cuda.so
        shims/libcudart.so.12.c
        shims/libcudart.so.12.map
        shims/libcudart.so.12
    --- stderr
    ");
    insta::assert_snapshot!(fs_err::read_to_string(context.path("shims/libcudart.so.12.map")).unwrap(), @r"
    libcudart.so.12 {
      global:
        cudart_build;
        cudart_launch;
      local: *;
    };
    ");
    let source = fs_err::read_to_string(context.path("shims/libcudart.so.12.c")).unwrap();
    assert_eq!(context.stdout(&words), source);
    let json = context.json(&words);
    assert_eq!((&json[0]["source"], &json[0]["soname"]), (&source.into(), &"libcudart.so.12".into()));
    // What is in the wheel is what was shown.
    context.stdout(&format!("build {} -o dist", words.trim_start_matches("shim ")));
    let inside = Archive::open(&wheel_in(&context.path("dist"))).unwrap();
    let inside = inside.read("torch_fl/lib_maca/libcudart.so.12", 1 << 20).unwrap();
    assert!(inside == fs_err::read(context.path("shims/libcudart.so.12")).unwrap());
    insta::assert_snapshot!(context.run("shim sim --torch {torch}"), @r"
    exit: 0
    --- stdout

    --- stderr
    the manifest has no [[shim]]
    ");
}

fn unpack(context: &Context, folder: &str, site: &str) {
    let archive = Archive::open(&wheel_in(&context.path(folder))).unwrap();
    for member in archive.members() {
        let path = context.path(site).join(&member.name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, archive.read(&member.name, 1 << 24).unwrap()).unwrap();
    }
}

/// The fork, unpacked, and the words of a command that takes it.
fn fork((context, words): (Context, String)) -> (Context, String) {
    unpack(&context, "vendor", "fork");
    let words = words.replace(words.split("--torch ").nth(1).unwrap().split(' ').next().unwrap(), "fork");
    (context, words)
}

fn cc(context: &Context, words: &str) {
    let made =
        Command::new("cc").args(words.split_whitespace()).current_dir(context.path("")).output().unwrap();
    assert!(made.status.success(), "{words}: {}", String::from_utf8_lossy(&made.stderr));
}
