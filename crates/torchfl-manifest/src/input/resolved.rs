//! Inputs without spans, placeholders filled in.

use serde::Serialize;

use crate::model::Manifest;
use crate::names::Role;
use crate::resolve::Request;

/// An input, and its files for the interpreters and processors that were asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Input {
    /// What a build does with it.
    pub role: Role,
    /// How it is come by.
    #[serde(flatten)]
    pub way: Way,
    /// One for each; files of one name and sum stand here once.
    pub files: Vec<InputFile>,
}

/// How an input is come by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "way", rename_all = "kebab-case")]
pub enum Way {
    /// From a package index.
    Package {
        /// The distribution.
        package: String,
        /// Its exact version.
        version: String,
    },
    /// By its name, from a folder or a mirror; by hand where neither has it.
    File {
        /// Where it is had after signing in.
        login: Option<String>,
        /// How it is made, where nobody publishes it.
        made: Option<String>,
    },
}

/// One file of an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InputFile {
    /// The interpreter, `cp311`.
    pub python: String,
    /// The processor, `x86_64`.
    pub arch: String,
    /// Its name; `*` in it stands for what is not known. `None` of a package: its index knows the name.
    pub name: Option<String>,
    /// 64 hexadecimal digits, where known.
    pub sha256: Option<String>,
}

/// The inputs of `manifest`, for the interpreter and the processor of `request`, or for all.
pub(crate) fn inputs(manifest: &Manifest, request: &Request) -> Vec<Input> {
    let wanted = |asked: &Option<String>, one: &str| asked.as_deref().is_none_or(|asked| asked == one);
    let mut inputs = Vec::with_capacity(manifest.input.len());
    for input in &manifest.input {
        let way = match (&input.package, &input.version) {
            (Some(package), Some(version)) => {
                Way::Package { package: package.to_string(), version: version.to_string() }
            }
            _ => Way::File {
                login: input.login.as_ref().map(ToString::to_string),
                made: input.made.as_ref().map(ToString::to_string),
            },
        };
        let mut files: Vec<InputFile> = Vec::new();
        for one in super::offered(manifest) {
            if !wanted(&request.python, one.python) || !wanted(&request.arch, one.arch) {
                continue;
            }
            let filled = |name: &str| name.replace("{python}", one.python).replace("{arch}", one.arch);
            let file = InputFile {
                name: input.file.as_ref().map(|name| filled(name)),
                sha256: input.sum(one.python, one.arch, manifest.target.arch.len()).map(str::to_owned),
                python: one.python.to_owned(),
                arch: one.arch.to_owned(),
            };
            // A file without placeholders is the same for all.
            let same = |other: &InputFile| {
                file.name.is_some() && (&other.name, &other.sha256) == (&file.name, &file.sha256)
            };
            if !files.iter().any(same) {
                files.push(file);
            }
        }
        inputs.push(Input { role: *input.role, way, files });
    }
    inputs
}
