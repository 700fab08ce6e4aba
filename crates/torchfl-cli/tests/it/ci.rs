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
    insta::assert_snapshot!(acme().run("ci matrix --manifest acme.toml --vendor acme --vendor metax"), @r"
    exit: 0
    --- stdout
    vendor       torch    python arch     artifact runner
    acme         2.12.1   cp3XX  [ARCH]   upload   -
    acme         2.12.1   cp3XX  [ARCH]   upload   acme-lab, acme-[ARCH]
    acme         2.12.1   cp3XX  [ARCH]  upload   -
    acme         2.12.1   cp3XX  [ARCH]  upload   acme-lab, acme-[ARCH]
    metax        2.10.0   cp3XX  [ARCH]   local    mx-8g-cicd-pytorch

    What no manifest states:
    acme: ci.python: the runner has no cp3XX: the wheel is built from a skeleton alone
    acme: input: nobody said what the build starts from
    metax: ci.image: no image is known: the job runs as its runner starts it, which gives it --device=/dev/mxcd --device=/dev/dri --group-add=video
    metax: input.sha256: no sum of torch-2.10.0+metax*-cp3XX-cp3XX-*.whl: TORCH_FL_SHA256 has to state it
    metax: input.sha256: no sum of torch==2.10.0+cpu: TORCH_FL_SHA256 has to state it
    --- stderr
    ");
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
        @r#"
        exit: 0
        --- stdout
        {
          "include": [
            {
              "arch": "[ARCH]",
              "artifact": "upload",
              "container": {
                "image": "registry.acme.example/torch:2.12-[ARCH]",
                "options": "--device=/dev/acme0 --ipc=host"
              },
              "devices": "/dev/acme*",
              "manifest": "acme.toml",
              "name": "acme-cp3XX-[ARCH]",
              "python": "cp3XX",
              "python_version": "3.14",
              "runner": [
                "acme-lab",
                "acme-[ARCH]"
              ],
              "status": "experimental",
              "tests": "devices import",
              "torch": "2.12.1",
              "vendor": "acme",
              "version": "2.12.1+acme3.8"
            }
          ]
        }
        --- stderr
        1 of 2 wheels are left out: their runner is not known
        "#
    );
    insta::assert_snapshot!(
        context.run("ci matrix --manifest acme.toml --vendor acme --arch x86_64 --format gitlab"),
        @r#"
        exit: 0
        --- stdout
        [
          {
            "ARCH": "[ARCH]",
            "ARTIFACT": "upload",
            "CONTAINER_OPTIONS": "--device=/dev/acme0 --ipc=host",
            "DEVICES": "/dev/acme*",
            "IMAGE": "registry.acme.example/torch:2.12-[ARCH]",
            "MANIFEST": "acme.toml",
            "NAME": "acme-cp3XX-[ARCH]",
            "PYTHON_TAG": "cp3XX",
            "PYTHON_VERSION": "3.14",
            "RUNNER": "acme-lab,acme-[ARCH]",
            "STATUS": "experimental",
            "TESTS": "devices import",
            "TORCH": "2.12.1",
            "VENDOR": "acme",
            "VERSION": "2.12.1+acme3.8"
          }
        ]
        --- stderr
        1 of 2 wheels are left out: their runner is not known
        "#
    );
}

#[test]
fn no_wheel_is_left() {
    let context = Context::new();
    insta::assert_snapshot!(context.run("ci matrix --vendor sim --status stable --python cp399"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-CLI-016

      x there is no wheel with --vendor sim --status stable --python cp3XX
      help: `torchfl ci matrix` without options lists them all
    ");
    insta::assert_snapshot!(context.run("ci matrix --vendor simm"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-MAN-101

      x no manifest is named `simm`
      help: did you mean `sim`? There are ascend, bpu, cuda, cuda-slim, dcu, dcu-slim, gcu, kunlunxin, metax, musa, ppu, sim, tsingmicro
    ");
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
    insta::assert_snapshot!(context.run(&format!("{words} --check")), @r"
    exit: 1
    --- stdout
    flows/wheels.yml
    --- stderr
    flows/wheels.yml: is not there
    ");
    insta::assert_snapshot!(context.run(words), @r"
    exit: 0
    --- stdout
    flows/wheels.yml
    --- stderr
    ");
    let state = |words: &str| -> Value {
        serde_json::from_slice(&context.output(&format!("--json {words}")).stdout).unwrap()
    };
    assert_eq!(state(words)["files"][0]["state"], "unchanged");
    assert_eq!(state(&format!("{words} --check"))["files"][0]["state"], "unchanged");
    let path = context.path("flows/wheels.yml");
    let text = fs_err::read_to_string(&path).unwrap();
    fs_err::write(&path, text.replace("stages: [tools, skeleton, wheel]", "stages: [wheel]")).unwrap();
    insta::assert_snapshot!(context.run(&format!("{words} --check")), @r"
    exit: 1
    --- stdout
    flows/wheels.yml
    --- stderr
    flows/wheels.yml: line 5 is `stages: [wheel]`, and the manifests make it `stages: [tools, skeleton, wheel]`
    ");
    assert!(fs_err::read_to_string(&path).unwrap().contains("stages: [wheel]"), "a check writes nothing");
}

#[test]
fn a_python_that_no_wheel_is_for() {
    let context = Context::new();
    context.write("acme.toml", &ACME.replace("python = [\"cp314\"]", "python = [\"cp313\"]"));
    insta::assert_snapshot!(context.run("ci matrix --manifest acme.toml"), @r#"
    exit: 2
    --- stdout
    --- stderr
    E-MAN-062

      x acme.toml:76:11: ci.python: `cp3XX` is none of `python.tags`
        ,-[acme.toml:76:11]
     75 | image = "registry.acme.example/torch:2.12-{arch}"
     76 | python = ["cp3XX"]
        :           ^^^^^^^
     77 | container-options = ["--device=/dev/acme0", "--ipc=host"]
        `----
    "#);
}
