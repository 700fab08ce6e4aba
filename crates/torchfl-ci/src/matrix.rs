//! Rows of the matrix.

use serde::Serialize;
use torchfl_manifest::resolve::Resolved;
use torchfl_manifest::{Artifact, Error, Manifest, Request, Role, Status, Swap, resolve};

/// What is run on the chip where a manifest names no tests.
const TESTS: &[&str] = &["devices", "import"];
/// Options of a container that pass devices on.
const PASSES: &[&str] = &["--device", "--privileged", "--gpus", "--volume=/dev:", "-v=/dev:"];

/// A manifest, and the file that a job has to name to find it.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The manifest.
    pub manifest: Manifest,
    /// Its file; `None` of one that `torchfl` carries.
    pub file: Option<String>,
}

/// One wheel: a vendor, an interpreter and a processor, and where it is built and tested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// `acme-cp312-x86_64`.
    pub name: String,
    /// The manifest's name, `acme-slim`.
    pub vendor: String,
    /// The manifest's file; `None` of one that `torchfl` carries.
    pub manifest: Option<String>,
    /// For people.
    pub title: String,
    /// How far the build is trusted.
    pub status: Status,
    /// The torch release, `2.13.0`.
    pub torch: String,
    /// The wheel's version, `2.13.0+acme3.8`.
    pub version: String,
    /// `cp312`.
    pub python: String,
    /// `3.12`.
    pub python_version: String,
    /// `x86_64`.
    pub arch: String,
    /// Labels of the runner that has the chip; empty where nobody said which one has it.
    pub runner: Vec<String>,
    /// The container image.
    pub image: Option<String>,
    /// Options of the container, devices included.
    pub container_options: Vec<String>,
    /// Globs of device nodes that a job must see.
    pub devices: Vec<String>,
    /// What the build starts from.
    pub inputs: Vec<Input>,
    /// What is run on the chip: names of files in `ci/tests/`.
    pub tests: Vec<String>,
    /// What becomes of the wheel.
    pub artifact: Artifact,
    /// What no manifest states.
    pub open: Vec<Open>,
}

/// A file that a build starts from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Input {
    /// What the build does with it.
    pub role: Role,
    /// A package with its version, `torch==2.13.0`, or a file's name, where `*` stands for what is not known.
    pub what: String,
    /// How it comes.
    pub way: Way,
    /// Who has it or makes it, for people.
    pub from: Option<String>,
    /// 64 hexadecimal digits, where known.
    pub sha256: Option<String>,
}

/// How an input comes to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// `torchfl fetch` gets it from a package index.
    Fetch,
    /// Somebody puts it where `TORCH_FL_MIRROR` leads to.
    Bring,
    /// The same, of a file that somebody has to make first.
    Make,
}

/// A fact that is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Open {
    /// The manifest's key that would state it.
    pub key: String,
    /// What follows.
    pub message: String,
}

/// A row for each manifest, interpreter and processor, in this order.
///
/// # Errors
///
/// A manifest that cannot be resolved.
pub fn matrix(subjects: &[Subject]) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for subject in subjects {
        let all = resolve(&subject.manifest, &Request::default())?;
        for arch in &all.target.arch {
            for python in &all.python_tags {
                let request = Request {
                    python: Some(python.clone()),
                    arch: Some(arch.to_string()),
                    ..Request::default()
                };
                let resolved = resolve(&subject.manifest, &request)?;
                rows.push(row(resolved, python, arch.as_str(), subject.file.clone()));
            }
        }
    }
    Ok(rows)
}

fn row(vendor: Resolved, python: &str, arch: &str, manifest: Option<String>) -> Row {
    let filled = |text: &String| text.replace("{arch}", arch);
    let inputs: Vec<Input> = vendor.inputs.iter().flat_map(inputs).collect();
    let ci = &vendor.ci;
    let tests = match ci.tests.as_slice() {
        [] => TESTS.iter().map(|&name| name.to_owned()).collect(),
        named => named.to_vec(),
    };
    // A fork's libraries are gigabytes; what has none of them is small.
    let artifact = ci.artifact.unwrap_or(if vendor.torch.swap == Swap::None {
        Artifact::Upload
    } else {
        Artifact::Local
    });
    Row {
        name: format!("{}-{python}-{arch}", vendor.name),
        open: open(&vendor, python, &inputs),
        torch: vendor.torch.release.clone(),
        python: python.to_owned(),
        python_version: python.replacen("cp3", "3.", 1),
        arch: arch.to_owned(),
        runner: if has_python(&vendor, python) { ci.runner.iter().map(filled).collect() } else { Vec::new() },
        image: ci.image.as_ref().map(filled),
        container_options: container_options(&vendor),
        devices: vendor.host.devices.clone(),
        vendor: vendor.name,
        title: vendor.title,
        status: vendor.status,
        version: vendor.version,
        manifest,
        inputs,
        tests,
        artifact,
    }
}

fn inputs(input: &resolve::Input) -> impl Iterator<Item = Input> + '_ {
    input.files.iter().map(|file| {
        let name = file.name.clone().unwrap_or_default();
        let (what, way, from) = match &input.way {
            resolve::Way::Package { package, version } => (format!("{package}=={version}"), Way::Fetch, None),
            resolve::Way::File { made: Some(made), .. } => (name, Way::Make, Some(made.clone())),
            resolve::Way::File { login, .. } => (name, Way::Bring, login.clone()),
        };
        Input { role: input.role, what, way, from, sha256: file.sha256.clone() }
    })
}

/// Whether the runner has the interpreter.
fn has_python(vendor: &Resolved, python: &str) -> bool {
    vendor.ci.python.is_empty() || vendor.ci.python.iter().any(|known| known == python)
}

/// What a container is started with.
fn container_options(vendor: &Resolved) -> Vec<String> {
    let mut options = vendor.ci.container_options.clone();
    if !passes(&options) {
        options.extend(
            vendor.host.devices.iter().filter(|node| is_node(node)).map(|node| format!("--device={node}")),
        );
    }
    options
}

fn passes(options: &[String]) -> bool {
    options.iter().any(|option| PASSES.iter().any(|pass| option.starts_with(pass)))
}

/// A name of one device node, where a manifest may have a glob.
fn is_node(glob: &str) -> bool {
    !glob.contains(['*', '?', '[', '{'])
}

fn open(vendor: &Resolved, python: &str, inputs: &[Input]) -> Vec<Open> {
    let mut open = Vec::new();
    let mut note = |key: &str, message: String| open.push(Open { key: key.to_owned(), message });
    let (ci, devices) = (&vendor.ci, &vendor.host.devices);
    if ci.runner.is_empty() {
        note(
            "ci.runner",
            "nobody said which runner has the chip: the wheel is built from a skeleton alone".to_owned(),
        );
    } else if !has_python(vendor, python) {
        note("ci.python", format!("the runner has no {python}: the wheel is built from a skeleton alone"));
    } else if ci.image.is_none() {
        let options = container_options(vendor).join(" ");
        let such = if options.is_empty() { String::new() } else { format!(", which gives it {options}") };
        note("ci.image", format!("no image is known: the job runs as its runner starts it{such}"));
    }
    if devices.is_empty() {
        note("host.devices", "no device nodes are known: a job without the chip looks like any".to_owned());
    }
    let globs: Vec<&str> = devices.iter().map(String::as_str).filter(|node| !is_node(node)).collect();
    if !globs.is_empty() && !passes(&ci.container_options) {
        let globs = globs.join(", ");
        note(
            "ci.container-options",
            format!("{globs} is no name of one node: nobody said which ones a container gets"),
        );
    }
    if inputs.is_empty() {
        note("input", "nobody said what the build starts from".to_owned());
    }
    for input in inputs {
        if input.sha256.is_none() && input.way != Way::Make {
            note("input.sha256", format!("no sum of {}: TORCH_FL_SHA256 has to state it", input.what));
        }
    }
    open
}
