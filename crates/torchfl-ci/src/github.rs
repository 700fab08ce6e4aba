//! GitHub Actions.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::jobs::{Job, arches, head, jobs, open, uploaded, vendors};
use crate::matrix::Row;
use crate::yaml::{list, text};

const CHECKOUT: &str = "actions/checkout@de0fac2e4500dabe0009e67214ff5f5447ce83dd # v6.0.2";
const UPLOAD: &str = "actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02 # v4.6.2";
const DOWNLOAD: &str = "actions/download-artifact@d3f86a106a0bac45b974a628896c90dbdf5c8093 # v4.3.0";

/// What `strategy.matrix` takes.
pub(crate) fn matrix<'a>(rows: impl Iterator<Item = &'a Row>) -> Value {
    let include: Vec<Value> = rows
        .map(|row| {
            let container = row
                .image
                .as_ref()
                .map(|image| json!({ "image": image, "options": row.container_options.join(" ") }));
            json!({
                "name": row.name,
                "vendor": row.vendor,
                "manifest": row.manifest.as_deref().unwrap_or_default(),
                "status": row.status,
                "torch": row.torch,
                "version": row.version,
                "python": row.python,
                "python_version": row.python_version,
                "arch": row.arch,
                "runner": row.runner,
                "container": container,
                "devices": row.devices.join(" "),
                "tests": row.tests.join(" "),
                "artifact": row.artifact,
            })
        })
        .collect();
    json!({ "include": include })
}

/// The whole workflow.
pub(crate) fn workflow(rows: &[Row]) -> String {
    let mut workflow = head(rows, "github");
    workflow += START;
    let arches = list(&arches(rows));
    let _ = write!(
        workflow,
        "\
jobs:
  # One torchfl for all machines: it runs on glibc 2.17.
  torchfl:
    name: torchfl (${{{{ matrix.arch }}}})
    runs-on: ubuntu-24.04
    strategy:
      matrix:
        arch: {arches}
    steps:
      - uses: {CHECKOUT}
        with:
          persist-credentials: false
      - run: ci/prepare.sh
      - run: ci/torchfl.sh
        env:
          ARCH: ${{{{ matrix.arch }}}}
      - uses: {UPLOAD}
        with:
          name: torchfl-${{{{ matrix.arch }}}}
          path: target/ci/bin-${{{{ matrix.arch }}}}/
          if-no-files-found: error

  # Every vendor without its chip and its files: built from a skeleton, audited, installed, imported, removed.
  skeleton:
    name: skeleton (${{{{ matrix.vendor }}}})
    needs: torchfl
    runs-on: ubuntu-24.04
    strategy:
      fail-fast: false
      matrix:
        include:
"
    );
    for row in vendors(rows) {
        let manifest = row.manifest.as_deref().unwrap_or_default();
        let _ = writeln!(
            workflow,
            "          - {{ vendor: {}, manifest: {} }}",
            text(&row.vendor),
            text(manifest)
        );
    }
    let _ = write!(
        workflow,
        "    \
    steps:
      - uses: {CHECKOUT}
        with:
          persist-credentials: false
      - uses: {DOWNLOAD}
        with:
          name: torchfl-x86_64
          path: target/ci/bin-x86_64
      - run: ci/prepare.sh
      - run: ci/skeleton.sh
        env:
          ARCH: x86_64
          VENDOR: ${{{{ matrix.vendor }}}}
          MANIFEST: ${{{{ matrix.manifest }}}}
"
    );
    for job in jobs(rows) {
        workflow += &on_the_chip(&job);
    }
    workflow
}

const START: &str = r#"name: wheels

on:
  push:
    branches: [main]
  pull_request:
  workflow_dispatch:
    inputs:
      vendor:
        description: The vendor whose wheels are built; where empty, all
        type: string
        required: false
        default: ""

permissions:
  contents: read

concurrency:
  group: wheels-${{ github.ref }}
  cancel-in-progress: ${{ github.event_name == 'pull_request' }}

defaults:
  run:
    shell: bash

"#;

/// The job that builds a vendor's wheels where the chip is.
fn on_the_chip(job: &Job<'_>) -> String {
    let (row, id) = (job.row, &job.id);
    let mut yaml = format!("\n  # {}\n", row.title.replace('\n', " "));
    yaml += &open(job, "  ");
    let vendor = &row.vendor;
    let _ = write!(
        yaml,
        "  {id}:
    name: {vendor} (${{{{ matrix.python }}}}, {arch})
    needs: torchfl
    # Not for a pull request: anybody's code would run on the vendor's own machine.
    if: github.event_name != 'pull_request' && (inputs.vendor == '' || inputs.vendor == '{vendor}')
    runs-on: {runner}
",
        arch = row.arch,
        runner = list(&row.runner),
    );
    if let Some(image) = &row.image {
        let _ = writeln!(yaml, "    container:\n      image: {}", text(image));
        if !row.container_options.is_empty() {
            let _ = writeln!(yaml, "      options: {}", text(&row.container_options.join(" ")));
        }
    }
    let _ = writeln!(
        yaml,
        "    strategy:\n      fail-fast: false\n      matrix:\n        python: {}\n    env:",
        list(&job.pythons)
    );
    for (name, value) in job.variables() {
        let _ = writeln!(yaml, "      {name}: {}", text(&value));
    }
    let (arch, upload) = (&row.arch, uploaded(row));
    let _ = write!(
        yaml,
        "      PYTHON_TAG: ${{{{ matrix.python }}}}
      TORCH_FL_MIRROR: ${{{{ vars.TORCH_FL_MIRROR }}}}
      TORCH_FL_SHA256: ${{{{ vars.TORCH_FL_SHA256 }}}}
      TORCH_FL_WHEELHOUSE: ${{{{ vars.TORCH_FL_WHEELHOUSE }}}}
    steps:
      - uses: {CHECKOUT}
        with:
          persist-credentials: false
      - uses: {DOWNLOAD}
        with:
          name: torchfl-{arch}
          path: target/ci/bin-{arch}
      - run: ci/job.py inputs
      - run: ci/job.py wheel
      - run: ci/job.py install
      - run: ci/job.py test
      - run: ci/job.py publish
      - uses: {UPLOAD}
        with:
          name: {vendor}-${{{{ matrix.python }}}}-{arch}
          path: {upload}
          if-no-files-found: error
"
    );
    yaml
}
