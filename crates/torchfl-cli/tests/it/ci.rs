use serde_json::Value;

use crate::context::Context;

const ACME: &str = include_str!("../../../../tests/vendors/acme.toml");

fn acme() -> Context {
    let context = Context::new();
    context.write("acme.toml", ACME);
    context
}

#[test]
fn a_table_for_people() {
    insta::assert_snapshot!(acme().run("ci matrix --manifest acme.toml --vendor acme --vendor metax"), @"");
}

#[test]
fn a_matrix_for_machines() {
    let context = acme();
    let rows = context.json("ci matrix --manifest acme.toml");
    assert_eq!(rows, context.json("ci matrix --manifest acme.toml --format json"));
    let vendors = |status: &str| {
        let rows = context.json(&format!("ci matrix {status}"))["rows"].take();
        let names = rows.as_array().unwrap().iter().map(|row| row["vendor"].as_str().unwrap().to_owned());
        let mut names: Vec<String> = names.collect();
        names.dedup();
        names
    };
    assert_eq!(vendors("--status runtime-only"), ["ascend", "bpu", "gcu", "musa", "tsingmicro"]);
    assert_eq!(vendors("--arch aarch64 --python cp312"), ["ascend", "sim"]);
    insta::assert_snapshot!(
        context.run("ci matrix --manifest acme.toml --vendor acme --arch x86_64 --format github"),
        @""
    );
    insta::assert_snapshot!(
        context.run("ci matrix --manifest acme.toml --vendor acme --arch x86_64 --format gitlab"),
        @""
    );
}

#[test]
fn no_wheel_is_left() {
    let context = Context::new();
    insta::assert_snapshot!(context.run("ci matrix --vendor sim --status stable --python cp399"), @"");
    insta::assert_snapshot!(context.run("ci matrix --vendor simm"), @"");
}

#[test]
fn a_manifest_of_ones_own_replaces_that_of_its_name() {
    let context = Context::new();
    context.manifest(&[("title = \"Sim sample chip\"", "title = \"Ours\"")]);
    let rows = context.json("ci matrix --manifest m.toml --vendor sim")["rows"].take();
    assert!(rows.as_array().unwrap().iter().all(|row| row["title"] == "Ours" && row["manifest"] == "m.toml"));
}

#[test]
fn a_workflow_is_written_once_and_checked() {
    let context = acme();
    let words = "ci workflow --format gitlab --manifest acme.toml --vendor acme -o flows";
    insta::assert_snapshot!(context.run(&format!("{words} --check")), @"");
    insta::assert_snapshot!(context.run(words), @"");
    let state = |words: &str| -> Value {
        serde_json::from_slice(&context.output(&format!("--json {words}")).stdout).unwrap()
    };
    assert_eq!(state(words)["files"][0]["state"], "unchanged");
    assert_eq!(state(&format!("{words} --check"))["files"][0]["state"], "unchanged");
    let path = context.path("flows/wheels.yml");
    let text = fs_err::read_to_string(&path).unwrap();
    fs_err::write(&path, text.replace("stages: [tools, skeleton, wheel]", "stages: [wheel]")).unwrap();
    insta::assert_snapshot!(context.run(&format!("{words} --check")), @"");
    assert!(fs_err::read_to_string(&path).unwrap().contains("stages: [wheel]"), "a check writes nothing");
}

#[test]
fn a_python_that_no_wheel_is_for() {
    let context = Context::new();
    context.write("acme.toml", &ACME.replace("python = [\"cp314\"]", "python = [\"cp313\"]"));
    insta::assert_snapshot!(context.run("ci matrix --manifest acme.toml"), @"");
}
