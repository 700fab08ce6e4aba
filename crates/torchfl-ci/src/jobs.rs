//! Rows as jobs: a job a vendor and processor, which is done once for each interpreter.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use torchfl_manifest::Artifact;

use crate::matrix::{Open, Row};

/// A job on the chip.
pub(crate) struct Job<'a> {
    /// `acme-x86_64`, which no other job of a workflow is called.
    pub(crate) id: String,
    /// The first of its rows: they differ by interpreter alone.
    pub(crate) row: &'a Row,
    /// `cp312`
    pub(crate) pythons: Vec<&'a str>,
    /// What no manifest states, of all its rows.
    open: Vec<&'a Open>,
}

impl Job<'_> {
    /// What the scripts of `ci/` read, but for the interpreter.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let row = self.row;
        let mut variables = vec![("VENDOR", row.vendor.clone())];
        if let Some(file) = &row.manifest {
            variables.push(("MANIFEST", file.clone()));
        }
        variables.extend([
            ("ARCH", row.arch.clone()),
            ("DEVICES", row.devices.join(" ")),
            ("TESTS", row.tests.join(" ")),
            ("ARTIFACT", row.artifact.to_string()),
        ]);
        variables
    }
}

/// The jobs of the rows whose runner is known.
pub(crate) fn jobs(rows: &[Row]) -> Vec<Job<'_>> {
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for row in rows.iter().filter(|row| !row.runner.is_empty()) {
        match jobs.last_mut() {
            Some(last) if (&last.row.vendor, &last.row.arch) == (&row.vendor, &row.arch) => {
                last.pythons.push(&row.python);
                let more: Vec<&Open> = row.open.iter().filter(|open| !last.open.contains(open)).collect();
                last.open.extend(more);
            }
            _ => jobs.push(Job {
                id: format!("{}-{}", row.vendor, row.arch),
                row,
                pythons: vec![&row.python],
                open: row.open.iter().collect(),
            }),
        }
    }
    jobs
}

/// Each vendor once, in the order of the rows.
pub(crate) fn vendors(rows: &[Row]) -> Vec<&Row> {
    let mut seen = BTreeSet::new();
    rows.iter().filter(|row| seen.insert(&row.vendor)).collect()
}

/// The processors that some job is for, by name.
pub(crate) fn arches(rows: &[Row]) -> Vec<&str> {
    let known: BTreeSet<&str> =
        jobs(rows).iter().map(|job| job.row.arch.as_str()).chain(["x86_64"]).collect();
    known.into_iter().collect()
}

/// The head of a workflow: where it comes from, and who has no job in it.
pub(crate) fn head(rows: &[Row], service: &str) -> String {
    let mut head = format!(
        "# Written by `torchfl ci workflow --format {service}` from the vendor manifests: `make ci` writes it anew.\n"
    );
    let homeless: Vec<&str> = vendors(rows)
        .into_iter()
        .filter(|row| row.runner.is_empty())
        .map(|row| row.vendor.as_str())
        .collect();
    if !homeless.is_empty() {
        head += "#\n# No job on the chip, as no manifest names a runner (`ci.runner`):\n";
        let _ = writeln!(head, "# {}.", homeless.join(", "));
    }
    head
}

/// What leaves the runner through the service.
pub(crate) fn uploaded(row: &Row) -> &'static str {
    match row.artifact {
        Artifact::Upload => "target/ci/job/dist/",
        Artifact::Local => "target/ci/job/report/",
    }
}

/// What the rows of a job leave open, as comments; `indent` stands before each.
pub(crate) fn open(job: &Job<'_>, indent: &str) -> String {
    let mut text = String::new();
    for open in &job.open {
        let _ = writeln!(text, "{indent}# {}: {}.", open.key, open.message);
    }
    text
}
