//! The plugin in the wheel. These plugins are of a few lines of C: what the real one does, its own tests tell.

use std::process::Command;

use torchfl_wheel::Archive;

use crate::context::{Context, build_json, wheel_in};

/// A library that says what it is built for, and asks for a symbol of Python and one of torch.
fn plugin(context: &Context, note: &str) {
    let escaped = note.replace('"', "\\\"");
    let source = format!(
        "__attribute__((section(\".torch_fl\"), used)) static const char note[] = \"{escaped}\\n\";
         extern void *PyModule_Create2(void *, int);
         void *PyInit_libtorch_fl(void) {{ return PyModule_Create2(0, 1013); }}\n"
    );
    context.write("plugin.c", &source);
    let mut cc = Command::new("cc");
    let made =
        cc.args(["-shared", "-fPIC", "-o"]).arg(context.path("libtorch_fl.so")).arg(context.path("plugin.c"));
    let made = made.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// The tag of the Python that the skeleton is for.
fn tag() -> String {
    let out = Command::new("python3")
        .args(["-c", "import sys; print('cp%d%d' % sys.version_info[:2])"])
        .output()
        .unwrap();
    String::from_utf8(out.stdout).unwrap().trim().to_owned()
}

fn note(torch: &str, python: &str, target: &str, defines: &str) -> String {
    format!(r#"{{"torch": "{torch}", "python": "{python}", "target": "{target}", "defines": [{defines}]}}"#)
}

/// The sample vendor with a runtime.
fn cuda_like(context: &Context) {
    context.manifest(&[("[host]", "[runtime]\napi = \"cuda\"\n\n[host]")]);
}

const WORDS: &str = "build --manifest m.toml --torch {torch} --front {stock} --plugin libtorch_fl.so";

#[test]
fn a_plugin_that_says_what_it_is_for_goes_into_the_wheel_with_its_entry_point() {
    let context = Context::new();
    cuda_like(&context);
    plugin(&context, &note("2.13.0", &tag(), "cuda", ""));
    let plan = context.json(&format!("{WORDS} --dry-run"));
    assert_eq!(plan["build_json"]["plugin"]["target"], "cuda");
    let text = context.run(&format!("{WORDS} --dry-run"));
    let line = text.lines().skip_while(|line| *line != "plugin:").nth(1).unwrap();
    assert!(line.starts_with("  lib/libtorch_fl.so for torch 2.13 and cp3XX, over cuda; "), "{line}");
    context.stdout(&format!("{WORDS} -o dist"));
    let wheel = wheel_in(&context.path("dist"));
    assert_eq!(plan["wheel"], wheel.file_name().unwrap().to_str().unwrap());
    let build = build_json(&wheel);
    let plugin = &build["plugin"];
    assert_eq!(
        (&plugin["library"], &plugin["torch"], &plugin["python"]),
        (&"lib/libtorch_fl.so".into(), &"2.13".into(), &tag().into())
    );
    assert_eq!(plugin["runtime"]["graph.replay"]["library"], "libtorch_cuda.so");
    assert!(build["inputs"].as_array().unwrap().iter().any(|input| input["role"] == "plugin"));
    let archive = Archive::open(&wheel).unwrap();
    let read = |name: &str| String::from_utf8(archive.read(name, 1 << 20).unwrap()).unwrap();
    assert!(read("_torch_fl_autoload/__init__.py").contains("def register():"));
    let info = archive.members().iter().find(|one| one.name.ends_with("/entry_points.txt")).unwrap();
    assert_eq!(read(&info.name), "[torch.backends]\ntorch_fl = _torch_fl_autoload:register\n");
    // It is audited like any other library, and nothing in it is another package's.
    let name = wheel.file_name().unwrap().to_str().unwrap();
    let audit = context.json(&format!("audit dist/{name} --torch {{stock}} --sysroot sk"));
    let codes: Vec<&str> =
        audit["findings"].as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap()).collect();
    assert!(!codes.contains(&"AUD-025"), "{codes:?}");
}

#[test]
fn a_plugin_that_says_nothing_is_opened_and_no_more() {
    let context = Context::new();
    context.manifest(&[]);
    context.library("libtorch_fl.so", &[]);
    let wheel = context.build("--plugin libtorch_fl.so", "dist");
    assert_eq!(build_json(&wheel)["plugin"], serde_json::json!({ "library": "lib/libtorch_fl.so" }));
    let archive = Archive::open(&wheel).unwrap();
    assert!(
        !archive.members().iter().any(|one| one.name.contains("autoload") || one.name.contains("entry_p"))
    );
    cuda_like(&context);
    insta::assert_snapshot!(context.run(WORDS), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-060

      x libtorch_fl.so does not say what it was built for
      help: build it for this wheel: --plugin-from-source DIR
    ");
}

#[test]
fn a_plugin_for_something_else_is_refused() {
    let context = Context::new();
    context.manifest(&[
        ("[host]", "[runtime]\napi = \"cuda\"\n\n[host]"),
        ("swap = \"core\"", "defines = [\"USE_SIM=1\"]\nswap = \"core\""),
    ]);
    let define = "\"USE_SIM=1\"";
    for (wrong, said) in [
        (note("2.12.0", &tag(), "cuda", define), "built for torch 2.12.0, and the wheel is for 2.13.0"),
        (note("2.13.0", "cp38", "cuda", define), "built for Python cp3XX, and the wheel is for cp3XX"),
        (note("2.13.0", &tag(), "cpu", define), "built for the runtime cpu, and the wheel is for cuda"),
        (note("2.13.0", &tag(), "cuda", ""), "built for the defines none, and the wheel is for USE_SIM=1"),
        ("{".to_owned(), "what it says of itself cannot be read"),
    ] {
        plugin(&context, &wrong);
        let text = context.run(WORDS);
        assert!(text.starts_with("exit: 2") && text.contains(said), "{wrong}: {text}");
        assert!(text.contains("--plugin-from-source DIR"), "{text}");
    }
    // A patch release of torch has the same headers.
    plugin(&context, &note("2.13.1", &tag(), "cuda", define));
    context.stdout(&format!("{WORDS} -o dist"));
}

#[test]
fn a_source_is_built_with_what_the_manifest_and_the_torch_say() {
    let context = Context::new();
    context.manifest(&[("swap = \"core\"", "defines = [\"USE_SIM=1\"]\nswap = \"core\"")]);
    context.write("headers/Python.h", "");
    // A crate of the plugin's name, which shows what it was given, and that its paths are gone.
    context.write(
        "source/Cargo.toml",
        "[package]\nname = \"torch-fl-plugin\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [lib]\nname = \"torch_fl\"\ncrate-type = [\"cdylib\"]\n[features]\ntorch = []\n[workspace]\n",
    );
    context.write(
        "source/Cargo.lock",
        "version = 4\n\n[[package]]\nname = \"torch-fl-plugin\"\nversion = \"0.0.0\"\n",
    );
    context.write(
        "source/build.rs",
        r#"use std::{env, fs, path::Path};
        fn main() {
            let torch = env::var("TORCH_FL_TORCH").unwrap();
            assert!(Path::new(&torch).join("include").is_dir() && Path::new(&torch).join("lib/libc10.so").is_file());
            assert!(Path::new(&env::var("TORCH_FL_PYTHON_INCLUDE").unwrap()).join("Python.h").is_file());
            assert!(env::var_os("CARGO_FEATURE_TORCH").is_some());
            let defines = env::var("TORCH_FL_DEFINES").unwrap();
            let python = fs::read_to_string("tag").unwrap();
            let note = format!(
                "{{\"torch\": \"2.13.0\", \"python\": \"{python}\", \"target\": \"cuda\", \"defines\": [\"{defines}\"]}}"
            );
            fs::write(Path::new(&env::var("OUT_DIR").unwrap()).join("note"), &note).unwrap();
            println!("cargo:rustc-env=NOTE_LEN={}", note.len());
        }"#,
    );
    context.write("source/tag", &tag());
    context.write(
        "source/src/lib.rs",
        r#"const NOTE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/note"));
        #[used]
        #[unsafe(link_section = ".torch_fl")]
        static KEPT: [u8; NOTE.len()] = { let mut all = [0; NOTE.len()]; let mut i = 0;
            while i < all.len() { all[i] = NOTE[i]; i += 1; } all };
        #[unsafe(no_mangle)] pub extern "C" fn boom(i: usize) -> u8 { KEPT[i] }
        "#,
    );
    let words = "build --manifest m.toml --torch {torch} --front {stock} --plugin-from-source source";
    context.stdout(&format!("{words} --python-include headers -o dist"));
    let wheel = wheel_in(&context.path("dist"));
    assert_eq!(build_json(&wheel)["plugin"]["target"], "cuda");
    let bytes = Archive::open(&wheel).unwrap().read("torch_fl/lib/libtorch_fl.so", 1 << 24).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let folder = fs_err::canonicalize(context.path("")).unwrap();
    assert!(!text.contains(folder.to_str().unwrap()), "a path of this machine is in the plugin");

    insta::assert_snapshot!(context.run(&format!("{words} --python-include source")), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-065

      x [DIR]/source has no Python.h
      help: give --python-include the headers of that Python
    ");
    context.write("source/src/lib.rs", "compile_error!(\"no\");");
    let failed = context.run(&format!("{words} --python-include headers"));
    assert!(
        failed.starts_with("exit: 2") && failed.contains("E-BLD-063") && failed.contains("error: no"),
        "{failed}"
    );
}

#[test]
fn a_plugin_whose_symbol_nobody_has_is_refused() {
    let context = Context::new();
    context.write("plugin.c", "extern int at_acme_gone(void); int call(void) { return at_acme_gone(); }");
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wl,-z,now", "-o"])
        .args([context.path("libtorch_fl.so"), context.path("plugin.c")])
        .output()
        .unwrap();
    assert!(made.status.success());
    let text = context.run("build sim --torch {torch} --front {stock} --plugin libtorch_fl.so");
    assert!(text.contains("E-BLD-032") && text.contains("at_acme_gone"), "{text}");
}
