//! GitLab CI.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::jobs::{Job, arches, head, jobs, open, uploaded, vendors};
use crate::matrix::Row;
use crate::yaml::{list, text};

/// What `parallel:matrix` takes. A value may hold `$`, which GitLab expands.
pub(crate) fn matrix<'a>(rows: impl Iterator<Item = &'a Row>) -> Value {
    let variables = rows.map(|row| {
        json!({
            "NAME": row.name,
            "VENDOR": plain(&row.vendor),
            "MANIFEST": plain(row.manifest.as_deref().unwrap_or_default()),
            "STATUS": row.status,
            "TORCH": row.torch,
            "VERSION": row.version,
            "PYTHON_TAG": row.python,
            "PYTHON_VERSION": row.python_version,
            "ARCH": row.arch,
            "RUNNER": plain(&row.runner.join(",")),
            "IMAGE": plain(row.image.as_deref().unwrap_or_default()),
            "CONTAINER_OPTIONS": plain(&row.container_options.join(" ")),
            "DEVICES": plain(&row.devices.join(" ")),
            "TESTS": row.tests.join(" "),
            "ARTIFACT": row.artifact,
        })
    });
    Value::Array(variables.collect())
}

/// A value that GitLab does not expand.
fn plain(value: &str) -> String {
    value.replace('$', "$$")
}

/// The whole workflow.
pub(crate) fn workflow(rows: &[Row]) -> String {
    let mut workflow = head(rows, "gitlab");
    let _ = write!(
        workflow,
        r#"stages: [tools, skeleton, wheel]

variables:
  TORCH_FL_CI_IMAGE:
    value: "rust:1.95-bookworm"
    description: The image of the jobs that need no chip
  ONLY_VENDOR:
    value: ""
    description: The vendor whose wheels are built; where empty, all

# One torchfl for all machines: it runs on glibc 2.17.
torchfl:
  stage: tools
  image: $TORCH_FL_CI_IMAGE
  parallel:
    matrix:
      - ARCH: {}
  script:
    - ci/prepare.sh
    - ci/torchfl.sh
  artifacts:
    paths: [target/ci/]
    expire_in: 1 week

# Every vendor without its chip and its files: built from a skeleton, audited, installed, imported, removed.
skeleton:
  stage: skeleton
  image: $TORCH_FL_CI_IMAGE
  variables:
    ARCH: x86_64
  parallel:
    matrix:
"#,
        list(&arches(rows))
    );
    for row in vendors(rows) {
        let manifest = row.manifest.as_deref().unwrap_or_default();
        let _ = writeln!(
            workflow,
            "      - VENDOR: {}\n        MANIFEST: {}",
            text(&plain(&row.vendor)),
            text(&plain(manifest))
        );
    }
    workflow += SKELETON;
    for job in jobs(rows) {
        workflow += &on_the_chip(&job);
    }
    workflow
}

const SKELETON: &str = r#"  script:
    - ci/prepare.sh
    - ci/skeleton.sh

.wheel:
  stage: wheel
  needs: [torchfl]
  rules:
    # Not for a merge request: anybody's code would run on the vendor's own machine.
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
      when: never
    - if: $ONLY_VENDOR == "" || $ONLY_VENDOR == $VENDOR
  script:
    - ci/job.py inputs
    - ci/job.py wheel
    - ci/job.py install
    - ci/job.py test
    - ci/job.py publish
"#;

/// The job that builds a vendor's wheels where the chip is.
fn on_the_chip(job: &Job<'_>) -> String {
    let row = job.row;
    let mut yaml = format!("\n# {}\n", row.title.replace('\n', " "));
    yaml += &open(job, "");
    if row.image.is_some() && !row.container_options.is_empty() {
        // A job of GitLab cannot say this; its runner's config.toml can.
        let _ = writeln!(yaml, "# The runner starts the container with {}.", row.container_options.join(" "));
    }
    let runner: Vec<String> = row.runner.iter().map(|label| plain(label)).collect();
    let _ = writeln!(yaml, "{}:\n  extends: .wheel\n  tags: {}", job.id, list(&runner));
    if let Some(image) = &row.image {
        let _ = writeln!(yaml, "  image: {}", text(&plain(image)));
    }
    let _ =
        writeln!(yaml, "  parallel:\n    matrix:\n      - PYTHON_TAG: {}\n  variables:", list(&job.pythons));
    for (name, value) in job.variables() {
        let _ = writeln!(yaml, "    {name}: {}", text(&plain(&value)));
    }
    let _ = writeln!(yaml, "  artifacts:\n    paths: [{}]", uploaded(row));
    yaml
}
