//! `torch_fl/build.json`: what the bootstrap checks, links and opens, in which order. It holds no policy of its own;
//! its bytes' sha256 is the build's identity. `docs/reference/build-json.md` describes every key.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};

/// The version of the format that the bootstrap must understand.
pub const SCHEMA: u32 = 1;

/// The content of `build.json`.
#[derive(Debug, Clone, Serialize)]
pub struct BuildJson {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The manifest's vendor.
    pub vendor: String,
    /// What narrows the vendor (`slim`).
    pub variant: Option<String>,
    /// For people.
    pub title: String,
    /// stable, beta, experimental or runtime-only.
    pub status: String,
    /// The wheel's version.
    pub version: String,
    /// Whether the bundle was generated from a manifest and is nobody's real torch.
    pub skeleton: bool,
    /// What made the wheel: tool and compiler versions.
    pub tool: BTreeMap<String, String>,
    /// The files that the wheel is made of.
    pub inputs: Vec<Input>,
    /// The torch that it belongs to.
    pub torch: Torch,
    /// `sys.implementation.cache_tag`, or none where no part is bound to one Python.
    pub python: Option<String>,
    /// core, extra or none.
    pub swap: String,
    /// The folder of the libraries, in `torch_fl/`.
    pub bundle: String,
    /// The libraries that the bundle promises.
    pub files: BTreeMap<String, File>,
    /// What is opened, in this order.
    pub open: Vec<torchfl_manifest::resolve::Open>,
    /// Libraries that other distributions bring.
    pub provided: Vec<Provided>,
    /// Environment variables to set where unset.
    pub env: BTreeMap<String, String>,
    /// Environment variables that name folders of compiled code, and this build's folder for each.
    pub caches: BTreeMap<String, String>,
    /// The folder of headers and CMake files that differ from the stock ones.
    pub overlay: Option<String>,
    /// The plugin, if there is one.
    pub plugin: Option<Plugin>,
    /// What was taken on the manifest's word.
    pub assumed: Vec<String>,
    /// Parts that were let through without a licence.
    pub allow_unlicensed: Vec<String>,
}

/// One input.
#[derive(Debug, Clone, Serialize)]
pub struct Input {
    /// torch, front, plugin or manifest.
    pub role: String,
    /// File name.
    pub name: String,
    /// sha256, in hex.
    pub sha256: String,
}

/// The torch that the wheel belongs to.
#[derive(Debug, Clone, Serialize)]
pub struct Torch {
    /// Three-part release.
    pub release: String,
    /// cpu, any or vendor.
    pub front: String,
    /// Strings that the vendor's own `version.py` holds.
    pub markers: Vec<String>,
    /// `torch.version.*` to restore after the import.
    pub attributes: BTreeMap<String, String>,
    /// Entry points of `torch.backends` that are left out.
    pub rivals: Vec<String>,
    /// Commands that install the right stock torch, by installer.
    pub install: BTreeMap<String, String>,
}

/// A promised library.
#[derive(Debug, Clone, Serialize)]
pub struct File {
    /// Size.
    pub bytes: u64,
    /// `DT_SONAME`.
    pub soname: Option<String>,
}

/// A distribution that brings libraries.
#[derive(Debug, Clone, Serialize)]
pub struct Provided {
    /// Its name.
    pub dist: String,
    /// The requirement, as in `Requires-Dist`.
    pub requires: String,
    /// The libraries' folder, below site-packages.
    pub dir: String,
    /// File names, in the order of opening.
    pub libraries: Vec<String>,
}

/// The plugin.
#[derive(Debug, Clone, Serialize)]
pub struct Plugin {
    /// Path in `torch_fl/`.
    pub library: String,
}

impl BuildJson {
    /// The file's bytes: sorted keys, one space of indent, one line end.
    pub fn render(&self) -> Result<Vec<u8>, serde_json::Error> {
        // A Value's object is a BTreeMap: that sorts the keys.
        let value = serde_json::to_value(self)?;
        let mut bytes = Vec::new();
        value.serialize(&mut Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(b" ")))?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}
