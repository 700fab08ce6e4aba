//! A skeleton never passes for the real thing, and the real thing never for a skeleton.

use torchfl_wheel::Archive;

use crate::context::{Context, build_json};

/// The vendor's torch in `site`, relabelled as the real one would be; the bytes stay.
fn real(context: &Context) {
    context.unpack("vendor", "site");
    let text = fs_err::read_to_string(context.path("site/torch/version.py")).unwrap();
    context.write("site/torch/version.py", &text.replace("2.13.0+sim1.0.skeleton", "2.13.0+sim1.0"));
    let info = |label: &str| context.path(&format!("site/torch-2.13.0+sim1.0{label}.dist-info"));
    fs_err::rename(info(".skeleton"), info("")).unwrap();
}

/// The version that a plan has, and whether it says skeleton.
fn planned(context: &Context, words: &str) -> (String, bool) {
    let plan = context.json(&format!("build sim --dry-run {words}"));
    let build = &plan["build_json"];
    let version = build["version"].as_str().unwrap().to_owned();
    assert!(plan["wheel"].as_str().unwrap().starts_with(&format!("torch_fl-{version}-")), "{plan}");
    assert_eq!(build["notes"].as_array().unwrap().is_empty(), build["skeleton"] == false);
    (version, build["skeleton"].as_bool().unwrap())
}

#[test]
fn what_is_made_of_a_skeleton_is_never_without_the_word() {
    let context = Context::new();
    let label = |words: &str| {
        let (version, skeleton) = planned(&context, &format!("--torch {{torch}} {words}"));
        assert!(skeleton, "{version}");
        version
    };
    assert_eq!(label(""), "2.13.0+sim1.0.skeleton");
    assert_eq!(label("--local acme1"), "2.13.0+acme1.skeleton");
    assert_eq!(label("--local acme1.skeleton"), "2.13.0+acme1.skeleton");
    assert_eq!(label("--post 3 --local acme"), "2.13.0.post3+acme.skeleton");
}

#[test]
fn a_real_torch_never_gets_the_word() {
    let context = Context::new();
    real(&context);
    assert_eq!(planned(&context, "--torch site"), ("2.13.0+sim1.0".to_owned(), false));
    assert_eq!(planned(&context, "--torch site --local skeletons"), ("2.13.0+skeletons".to_owned(), false));
    insta::assert_snapshot!(context.run("build sim --torch site --local acme.skeleton"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-053

      x `2.13.0+acme.skeleton` says skeleton, and nothing that the wheel is made of is one
      help: take another local version or SDK version
    ");
}

/// One of its labels is enough: a packager may have changed the other.
#[test]
fn either_label_tells_a_skeleton() {
    let context = Context::new();
    real(&context);
    let version = context.path("site/torch/version.py");
    let text = fs_err::read_to_string(&version).unwrap();
    fs_err::write(&version, text.replace("2.13.0+sim1.0", "2.13.0+Skeleton")).unwrap();
    assert_eq!(planned(&context, "--torch site"), ("2.13.0+sim1.0.skeleton".to_owned(), true));

    fs_err::write(&version, text).unwrap();
    let info = |label: &str| context.path(&format!("site/torch-2.13.0+sim1.0{label}.dist-info"));
    fs_err::rename(info(""), info(".skeleton")).unwrap();
    assert_eq!(planned(&context, "--torch site"), ("2.13.0+sim1.0.skeleton".to_owned(), true));
}

/// What is proved with a skeleton is proved of it alone.
#[test]
fn a_skeleton_of_the_torch_that_is_met_counts() {
    let context = Context::new();
    real(&context);
    let words = "--torch site --front {stock}";
    assert_eq!(planned(&context, words), ("2.13.0+sim1.0.skeleton".to_owned(), true));
}

#[test]
fn so_does_one_of_a_runtime_wheel_but_not_of_somebody_elses() {
    let context = Context::new();
    real(&context);
    let provided = "[[provided]]\ndist = \"acme-runtime\"\nversion = \"==1.0\"\ndir = \"acme\"\nlibraries = [\"libacme.so\"]\n";
    context.manifest(&[("[comm]", &format!("{provided}\n[comm]"))]);
    let metadata = |folder: &str, name: &str| {
        context.write(
            &format!("{folder}/METADATA"),
            &format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0+skeleton\n"),
        );
        context.write(&format!("{folder}/RECORD"), "acme/libacme.so,,\n");
    };
    metadata("beside/other-1.0+skeleton.dist-info", "other");
    let plan = |context: &Context| {
        context.json("build --manifest m.toml --torch site --with beside --dry-run")["build_json"]["skeleton"]
            .clone()
    };
    assert_eq!(plan(&context), false);
    fs_err::remove_dir_all(context.path("beside")).unwrap();
    metadata("beside/acme_runtime-1.0+skeleton.dist-info", "acme-runtime");
    fs_err::create_dir_all(context.path("beside/acme")).unwrap();
    context.library("beside/acme/libacme.so", &["-Wl,-soname,libacme.so"]);
    assert_eq!(plan(&context), true);
}

#[test]
fn the_wheel_says_so_wherever_it_is_looked_at() {
    let context = Context::new();
    let wheel = context.build("", "dist");
    let build = build_json(&wheel);
    insta::assert_snapshot!(build["notes"][0].as_str().unwrap(), @r"
    skeleton: for tests, not for Sim sample chip: it comes of torch 2.13.0+cpu.skeleton, torch 2.13.0+sim1.0.skeleton, generated from the manifest
    ");
    let info = "torch_fl-2.13.0+sim1.0.skeleton.dist-info/METADATA";
    let metadata = String::from_utf8(Archive::open(&wheel).unwrap().read(info, 1 << 20).unwrap()).unwrap();
    assert!(
        metadata.contains("\nSummary: [skeleton] PyTorch's flagos device on Sim sample chip\n"),
        "{metadata}"
    );
    assert!(metadata.contains("\n\n**skeleton: for tests"), "{metadata}");
    let wheel = wheel.file_name().unwrap().to_str().unwrap();
    assert!(context.run(&format!("inspect dist/{wheel}")).contains("\n  skeleton: for tests, not for Sim"));
    let audit = context.json(&format!("audit dist/{wheel} --torch {{stock}}"));
    assert_eq!(
        audit["skeletons"],
        serde_json::json!(["torch-fl 2.13.0+sim1.0.skeleton", "torch 2.13.0+cpu.skeleton"])
    );
}
