//! The parts of `torch_fl/build.json` that an audit goes by. What wrote it is `torchfl-build`; a wheel of an older
//! version has fewer keys.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use torchfl_wheel::normalize_name;

use crate::finding::Severity;

/// `torch_fl/build.json`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Build {
    /// The version of the format.
    pub schema: u32,
    /// Whether it was made of a skeleton.
    #[serde(default)]
    pub skeleton: bool,
    /// The torch that it belongs to.
    pub torch: Torch,
    /// `core`, `extra` or `none`.
    pub swap: String,
    /// The folder of the libraries, in `torch_fl/`.
    pub bundle: String,
    /// The bundle's libraries, by file name.
    pub files: BTreeMap<String, File>,
    /// What is opened before torch is imported, in this order.
    pub open: Vec<Opened>,
    /// Distributions that bring libraries.
    #[serde(default)]
    pub provided: Vec<Provided>,
    /// The plugin.
    pub plugin: Option<Plugin>,
    /// Parts that came without a licence by leave.
    #[serde(default)]
    pub allow_unlicensed: Vec<String>,
    /// Symbols and libraries that may stay unresolved by leave.
    #[serde(default)]
    pub allow_unresolved: Vec<String>,
    /// What the manifest says to an audit.
    #[serde(default)]
    pub audit: Facts,
}

impl Build {
    /// Refuses words that no build writes.
    pub(crate) fn checked(self) -> serde_json::Result<Self> {
        let unknown = |what: String| Err(serde::de::Error::custom(what));
        if self.schema != 1 {
            return unknown(format!("schema {} is not 1, which this audit reads", self.schema));
        }
        if !["core", "extra", "none"].contains(&self.swap.as_str()) {
            return unknown(format!("swap `{}` is none of core, extra, none", self.swap));
        }
        match self.open.iter().find(|open| open.from != "bundle" && open.from != "front") {
            Some(open) => {
                unknown(format!("open: {} from `{}`, neither bundle nor front", open.name, open.from))
            }
            None => Ok(self),
        }
    }
}

/// A promised library.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct File {
    /// Its size in bytes.
    pub bytes: u64,
}

/// The torch that a wheel belongs to.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Torch {
    /// The release.
    pub release: String,
    /// `cpu`, `any` or `vendor`.
    #[serde(default)]
    pub front: String,
}

/// A library that is opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// Its file name.
    pub name: String,
    /// `bundle` or `front`.
    pub from: String,
    /// Skipped where one is loaded already.
    pub shared: bool,
    /// With `RTLD_GLOBAL`.
    pub global: bool,
}

/// A distribution that brings libraries.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Provided {
    /// Its name.
    pub dist: String,
    /// Where the libraries lie, below site-packages.
    pub dir: String,
    /// Their file names.
    pub libraries: Vec<String>,
}

/// The plugin.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Plugin {
    /// Its path in `torch_fl/`.
    pub library: String,
}

/// What the manifest says to an audit.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Facts {
    /// Globs of the libraries that the target machine has.
    pub host: Vec<String>,
    /// Libraries that are opened by name at run time.
    pub dlopen: Vec<String>,
    /// The SDK's place on the target machine.
    pub sdk: Option<String>,
    /// Folders of the search path that belong to the target machine.
    pub folders: Vec<String>,
    /// The dispatch key under which the bundle registers kernels.
    pub kernels: Option<String>,
    /// Who supplies Triton.
    pub triton: Option<Triton>,
    /// Severities that the manifest sets, by rule.
    pub severity: BTreeMap<String, Severity>,
}

/// Who supplies Triton.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Triton {
    /// `pypi`, `vendor` or `none`.
    pub supplier: String,
    /// Distributions that may own the folder `triton/`.
    #[serde(default)]
    pub owners: Vec<Owner>,
}

/// A distribution that may own `triton/`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Owner {
    /// Its name.
    pub name: String,
    /// What its local version starts with.
    pub local: Option<String>,
    /// The version for this torch and SDK.
    #[serde(default)]
    pub version: Option<String>,
}

impl Triton {
    /// Whether this distribution (by its normalised name) may own `triton/` here.
    pub(crate) fn owns(&self, name: &str, version: &str) -> bool {
        self.owners.iter().any(|owner| normalize_name(&owner.name) == name && owner.is(version))
    }

    /// The first owner whose version is known, as a requirement.
    pub(crate) fn pin(&self) -> Option<String> {
        self.owners.iter().find_map(|owner| Some(format!("{}=={}", owner.name, owner.version.as_ref()?)))
    }

    /// What speaks against another one's.
    pub(crate) fn why_not(&self) -> &'static str {
        match self.supplier.as_str() {
            "vendor" => "which the vendor supplies",
            "none" => "and the platform has no Triton",
            _ => "and is no owner of it here",
        }
    }
}

impl Owner {
    fn is(&self, version: &str) -> bool {
        let local = version.split_once('+').map_or("", |(_, local)| local);
        match (&self.local, &self.version) {
            (Some(wanted), _) => local.starts_with(wanted),
            (None, Some(known)) => version == known,
            (None, None) => true,
        }
    }
}
