//! `torch_fl/build.json`: what the bootstrap checks, links and opens, in which order. It holds no policy of its own;
//! its bytes' sha256 is the build's identity. `docs/reference/build-json.md` describes every key.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};

/// The version of the format that the bootstrap must understand.
pub const SCHEMA: u32 = 1;

/// The content of `build.json`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BuildJson {
    /// The version of this format: 1.
    pub schema: u32,
    /// The manifest's vendor, `cuda`.
    pub vendor: String,
    /// What narrows the vendor (`slim`).
    pub variant: Option<String>,
    /// The vendor and its platform, for people.
    pub title: String,
    /// stable, beta, experimental or runtime-only.
    pub status: String,
    /// The wheel's version, `2.13.0+cuda13.0`.
    pub version: String,
    /// Whether the wheel was made of, or proved with, a torch or runtime wheels that were generated from a manifest for
    /// tests. Its local version ends in `skeleton` then.
    pub skeleton: bool,
    /// What whoever installs it should know, a sentence each, after a word for what it is about: `skeleton: …`,
    /// `runtime-only: …`.
    pub notes: Vec<String>,
    /// What made the wheel, each with its version: `torchfl` and `rustc`; where a shim is inside, `cc` and `ld`.
    pub tool: BTreeMap<String, String>,
    /// The files that the wheel is made of.
    pub inputs: Vec<Input>,
    /// The torch that it belongs to.
    pub torch: Torch,
    /// `sys.implementation.cache_tag`, or none where no part is bound to one Python.
    pub python: Option<String>,
    /// What the bundle replaces of torch's libraries: `core` (all), `extra` (nothing, it adds some), `none`.
    pub swap: String,
    /// The folder of the libraries, in `torch_fl/`.
    pub bundle: String,
    /// The bundle's libraries, by file name. Their sizes are checked at import.
    pub files: BTreeMap<String, File>,
    /// The libraries that are opened before torch is imported, in this order.
    #[cfg_attr(test, schemars(with = "Vec<tests::Open>"))]
    pub open: Vec<torchfl_manifest::resolve::Open>,
    /// Distributions that bring libraries; these are opened first where they lie in another folder than our own.
    pub provided: Vec<Provided>,
    /// The platform, for what runs on it.
    pub platform: Platform,
    /// Environment variables to set where unset.
    pub env: BTreeMap<String, String>,
    /// Environment variables that name folders of compiled code, and the folder for each below the build's own cache
    /// folder; empty unless `swap` is `core`.
    pub caches: BTreeMap<String, String>,
    /// The folder, in `torch_fl/`, of headers and CMake files that lie over the stock ones in a facade.
    pub overlay: Option<String>,
    /// The plugin, or null: this wheel carries none.
    pub plugin: Option<Plugin>,
    /// What was taken on the manifest's word, and not seen in a file.
    pub assumed: Vec<String>,
    /// Parts that `--allow-unlicensed` let through without a licence file.
    pub allow_unlicensed: Vec<String>,
    /// Names of libraries that are needed and that nothing known brings,
    /// and that the build let through all the same.
    pub allow_unresolved: Vec<String>,
    /// What `torchfl audit` needs of the manifest, so that a wheel is enough for it. The bootstrap does not read
    /// it.
    pub audit: Audit,
}

/// One input.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Input {
    /// `manifest`, `torch`, `front` or `plugin`.
    pub role: String,
    /// Its file name; of an installed torch, its version.
    pub name: String,
    /// sha256 in hex; of an installed torch, over names and contents of the files that were used.
    pub sha256: String,
}

/// The torch that the wheel belongs to.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Torch {
    /// The torch release, `2.13.0`. Another one is refused.
    pub release: String,
    /// The torch that must be installed: `cpu` (no accelerator), `any`, or `vendor` (its own).
    pub front: String,
    /// Strings of the vendor's `version.py`: an installed torch that has all of them is the vendor's own.
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct File {
    /// Its size in bytes.
    pub bytes: u64,
    /// Its `DT_SONAME`.
    pub soname: Option<String>,
}

/// A distribution that brings libraries.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Plugin {
    /// Its path in `torch_fl/`. It is loaded after torch.
    pub library: String,
    /// The minor release of torch that it is built for, `2.13`. Like the rest it is not there where the library does
    /// not say what it is built for: then it is opened, and no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub torch: Option<String>,
    /// The interpreter that it is built for, `cp311`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// The dispatch key underneath, `cuda`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// What it reaches by name in libraries that are open already, by logical name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<BTreeMap<String, tests::RuntimeName>>"))]
    pub runtime: Option<BTreeMap<String, torchfl_manifest::RuntimeName>>,
}

/// The platform, for what runs on it: `torch_fl.boot_info()` shows it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Platform {
    /// The collective library: `nccl`, `mccl`, `hccl`, or `none`; null where the manifest does not say.
    pub comm: Option<String>,
    /// `FlagGems`, the operator library.
    pub flag_gems: FlagGems,
    /// What Triton compiles for; null where the vendor has no Triton, or the manifest does not say.
    pub triton: Option<Target>,
}

/// `FlagGems`, the operator library.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FlagGems {
    /// The vendor's backend there: `GEMS_VENDOR` is set to it where unset. Null where the manifest names none.
    pub vendor: Option<String>,
    /// All backends: what `GEMS_VENDOR` may say. With each, the environment variable for which `FlagGems` takes it
    /// whatever `GEMS_VENDOR` says, or null.
    pub backends: BTreeMap<String, Option<String>>,
}

/// What Triton compiles for.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Target {
    /// `GPUTarget.backend`.
    pub backend: String,
    /// The key in `triton.backends.backends`.
    pub key: String,
    /// Threads of a warp, 0 where the chip has none; null where the vendor's chips differ: the driver says it.
    pub warp_size: Option<i64>,
}

/// What `torchfl audit` needs of the manifest.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Audit {
    /// Libraries of the driver and the SDK, as globs of file names: on the target machine, and in no wheel.
    pub host: Vec<String>,
    /// Libraries that are opened by name at run time, and so are in no `DT_NEEDED`.
    pub dlopen: Vec<String>,
    /// The SDK's folder on the target machine, `/opt/acme`.
    pub sdk: Option<String>,
    /// Absolute folders of the search path, which belong to the target machine.
    pub folders: Vec<String>,
    /// The dispatch key that the bundled libraries register their kernels under, `CUDA`.
    pub kernels: Option<String>,
    /// The vendor's Triton, or null: the manifest says nothing of it.
    pub triton: Option<Triton>,
    /// The severity of a rule's findings, by the rule's code: `error`, `warning`, `note`, or `ignore`. A rule that
    /// is not named here has its own.
    pub severity: BTreeMap<String, String>,
}

/// The vendor's Triton.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Triton {
    /// Who supplies it: `pypi`, `vendor` or `none`.
    pub supplier: String,
    /// Distributions that may own the folder `triton/` on this vendor's machines.
    pub owners: Vec<Owner>,
}

/// A distribution that may own the folder `triton/`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Owner {
    /// Its name.
    pub name: String,
    /// What its local version starts with.
    pub local: Option<String>,
    /// The version for this torch and SDK, which the constraints pin. Without `local`, no other is an owner.
    pub version: Option<String>,
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

#[cfg(test)]
mod tests;
