//! Vendor manifests: one TOML file for a vendor and a line of its SDK, the only place that knows vendor facts.
//!
//! A manifest goes through two stages. [`Manifest`] is what was written: every value keeps its place in the text,
//! and all mistakes are reported at once. [`resolve`] makes a [`Resolved`] of it and a [`Request`]: names, the
//! wheel's version, the search path, the order of opening; no places, nothing left to look up.

use std::path::PathBuf;

pub use crate::check::{Finding, Severity, check};
pub use crate::embedded::{embedded, find, text};
pub use crate::input::{Input, Sums};
pub use crate::lists::{flag_gems_backends, triton_owners};
pub use crate::model::{
    Audit, Bundle, Ci, Comm, FlagGems, Global, Host, Manifest, Owner, Provided, Python, Root, Runtime, Sdk,
    Shim, Stub, Symbols, Target, Torch, Triton, TritonTarget,
};
pub use crate::names::{
    Arch, Artifact, AuditSeverity, Dist, FileName, Folder, FolderName, Front, Glibc, Glob, Identifier,
    InnerDir, InnerGlob, Library, LocalVersion, PythonTag, Release, Role, RuleCode, SearchEntry, SearchTag,
    Sha256, ShimKind, Slug, Status, SumKey, Supplier, Swap, Symbol, Text, Version,
};
pub use crate::new::new_manifest;
pub use crate::problem::Problem;
pub use crate::reference::{reference, schema};
pub use crate::resolve::{Request, Resolved, resolve};
pub use crate::runtime::{RuntimeName, runtime_apis, runtime_names};
pub use crate::spanned::Spanned;

mod check;
mod decode;
mod embedded;
mod input;
mod lists;
mod model;
mod names;
mod new;
mod parse;
mod problem;
mod reference;
/// What [`resolve`] makes; its parts are named as those of [`Manifest`].
pub mod resolve;
mod rules;
mod runtime;
mod spanned;
mod triton;

/// What can go wrong with a manifest or a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The manifest holds mistakes; all of them are here.
    #[error("{}", parse::listing(origin, problems))]
    Invalid {
        /// The file, as it was named to [`Manifest::parse`].
        origin: String,
        /// The whole text, which the spans of the problems count in.
        text: String,
        /// At least one, in the order of the text.
        problems: Vec<Problem>,
    },
    /// No embedded manifest has this name.
    #[error("no manifest is named `{name}`")]
    UnknownVendor {
        /// As asked for.
        name: String,
        /// The nearest name, where one is near.
        nearest: Option<String>,
        /// All names.
        known: Vec<String>,
    },
    /// The manifest offers no such interpreter or processor.
    #[error("manifest `{manifest}` offers no {what} `{asked}`")]
    NotOffered {
        /// "python tag" or "processor".
        what: &'static str,
        /// The manifest's name.
        manifest: String,
        /// As asked for.
        asked: String,
        /// All that it offers.
        known: Vec<String>,
    },
    /// A local version that PEP 440 forbids.
    #[error("`{tag}` is no local version: {why}")]
    Local {
        /// As asked for.
        tag: String,
        /// What is wrong.
        why: String,
    },
    /// An SDK folder that cannot stand in a library's search path.
    #[error("`{}` cannot be the SDK's folder: {why}", root.display())]
    SdkRoot {
        /// As asked for.
        root: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The search path has `{sdk}` in it, and nobody knows the SDK's folder.
    #[error("manifest `{manifest}` names no folder for the SDK, and its search path needs one")]
    NoSdkRoot {
        /// The manifest's name.
        manifest: String,
    },
    /// A name that no manifest can have.
    #[error("`{name}` cannot be a manifest's name: {why}")]
    Name {
        /// As asked for.
        name: String,
        /// What is wrong.
        why: String,
    },
}

impl Error {
    /// A stable code. Of [`Error::Invalid`] it is the first problem's.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { problems, .. } => problems.first().map_or("E-MAN-001", |problem| problem.code),
            Self::UnknownVendor { .. } => "E-MAN-101",
            Self::NotOffered { .. } => "E-MAN-102",
            Self::Local { .. } => "E-MAN-103",
            Self::SdkRoot { .. } => "E-MAN-104",
            Self::NoSdkRoot { .. } => "E-MAN-105",
            Self::Name { .. } => "E-MAN-106",
        }
    }

    /// The next step, where one can be told.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Invalid { .. } => None,
            Self::UnknownVendor { known, .. } if known.is_empty() => {
                Some("this build carries no manifests: name a file".to_owned())
            }
            Self::UnknownVendor { nearest: Some(nearest), known, .. } => {
                Some(format!("did you mean `{nearest}`? There are {}", known.join(", ")))
            }
            Self::UnknownVendor { known, .. } | Self::NotOffered { known, .. } => {
                Some(format!("there are {}", known.join(", ")))
            }
            Self::Local { .. } => Some(
                "write it without the `+`: letters and digits parted by dots, such as acme3.8.1".to_owned(),
            ),
            Self::SdkRoot { .. } => {
                Some("give an absolute folder of the target machine, such as /opt/sdk".to_owned())
            }
            Self::NoSdkRoot { .. } => {
                Some("say where it lies on the target machine: --sdk-root FOLDER".to_owned())
            }
            Self::Name { .. } => {
                Some("name it after the vendor, `acme`, or vendor-variant, `acme-slim`".to_owned())
            }
        }
    }
}
