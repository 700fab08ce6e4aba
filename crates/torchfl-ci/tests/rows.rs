//! What rows say, and what workflows are made of them.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use torchfl_ci::{Row, Service, Subject, Way, matrix};
use torchfl_manifest::{Artifact, Manifest};

const ACME: &str = include_str!("../../../tests/vendors/acme.toml");
const SIM: &str = include_str!("../../../vendor-manifests/sim.toml");

fn rows(texts: &[(&str, Option<&str>)]) -> Vec<Row> {
    let subject = |(text, file): &(&str, Option<&str>)| Subject {
        manifest: Manifest::parse(text, "test.toml").unwrap(),
        file: file.map(str::to_owned),
    };
    matrix(&texts.iter().map(subject).collect::<Vec<_>>()).unwrap()
}

fn open(row: &Row) -> Vec<&str> {
    row.open.iter().map(|open| open.key.as_str()).collect()
}

#[test]
fn a_row_a_python_and_processor() {
    let rows = rows(&[(ACME, Some("acme.toml"))]);
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["acme-cp310-x86_64", "acme-cp314-x86_64", "acme-cp310-aarch64", "acme-cp314-aarch64"]);
    let row = &rows[3];
    assert_eq!(row.runner, ["acme-lab", "acme-aarch64"]);
    assert_eq!(row.image.as_deref(), Some("registry.acme.example/torch:2.12-aarch64"));
    assert_eq!((row.version.as_str(), row.python_version.as_str()), ("2.12.1+acme3.8", "3.14"));
    assert_eq!(row.artifact, Artifact::Upload);
    assert_eq!(open(row), ["input"]);
    assert!(rows[0].runner.is_empty(), "the image has no 3.10");
    assert_eq!(open(&rows[0]), ["ci.python", "input"]);
}

#[test]
fn what_no_manifest_states_is_open_and_not_made_up() {
    let rows = rows(&[(SIM, None)]);
    let row = &rows[0];
    assert!(row.runner.is_empty() && row.image.is_none() && row.container_options.is_empty());
    assert_eq!(open(row), ["ci.runner", "ci.container-options"]);
    assert_eq!(row.tests, ["devices", "import"]);
    assert_eq!(row.artifact, Artifact::Local, "a fork's core is gigabytes");
    assert!(row.inputs.iter().all(|input| input.way == Way::Make && input.from.is_some()));
}

#[test]
fn nodes_are_passed_on_where_no_option_does() {
    let text = ACME
        .replace(r#""--device=/dev/acme0", "#, "")
        .replace(r#"["/dev/acme*"]"#, r#"["/dev/acme_ctl", "/dev/acme[0-9]"]"#);
    let rows = rows(&[(&text, None)]);
    assert_eq!(rows[1].container_options, ["--ipc=host", "--device=/dev/acme_ctl"]);
    assert_eq!(open(&rows[1]), ["ci.container-options", "input"], "no node is made of a glob");
    let privileged = text.replace("--ipc=host", "--privileged");
    assert_eq!(self::rows(&[(&privileged, None)])[1].container_options, ["--privileged"]);
}

#[test]
fn a_vendor_appears_in_every_workflow_with_its_file() {
    for service in [Service::Github, Service::Gitlab] {
        let before = &service.workflow(&rows(&[(SIM, None)]))[0].text;
        let after = &service.workflow(&rows(&[(ACME, Some("lab/acme.toml")), (SIM, None)]))[0].text;
        assert!(!before.contains("acme"), "{before}");
        for part in ["acme-x86_64:", "acme-aarch64:", "lab/acme.toml", "registry.acme.example", "/dev/acme*"]
        {
            assert!(after.contains(part), "{part} is not in\n{after}");
        }
        assert!(!after.contains("cp310\""), "its image has no 3.10:\n{after}");
    }
}

#[test]
fn a_matrix_of_a_service_has_only_rows_with_a_runner() {
    let rows = rows(&[(ACME, None), (SIM, None)]);
    let github = Service::Github.matrix(&rows);
    let include = github["include"].as_array().unwrap();
    assert_eq!(include.len(), 2);
    assert_eq!(include[0]["container"]["options"], "--device=/dev/acme0 --ipc=host");
    let gitlab = Service::Gitlab.matrix(&rows);
    let all = gitlab.as_array().unwrap();
    assert_eq!(all.len(), 2);
    let texts = all.iter().flat_map(|row| row.as_object().unwrap().values());
    assert!(texts.into_iter().all(serde_json::Value::is_string), "{gitlab}");
}

#[test]
fn what_a_value_holds_is_no_syntax() {
    let evil = ACME.replace("registry.acme.example/torch:2.12-{arch}", r#"a: \"b\" # $X"#);
    let rows = rows(&[(&evil, None)]);
    let github = &Service::Github.workflow(&rows)[0].text;
    assert!(github.contains(r#"image: "a: \"b\" # $X""#), "{github}");
    let gitlab = &Service::Gitlab.workflow(&rows)[0].text;
    assert!(gitlab.contains(r#"image: "a: \"b\" # $$X""#), "{gitlab}");
}
