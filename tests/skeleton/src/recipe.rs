//! What a manifest says that matters to a skeleton: names, nothing computed from files.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use torchfl_manifest::Manifest;

use crate::Error;

/// What a vendor's torch replaces of the stock one, or adds to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Swap {
    Core,
    Extra,
    None,
}

/// Libraries that another wheel brings.
#[derive(Debug, Clone)]
pub(crate) struct Provided {
    /// The distribution's name.
    pub(crate) dist: String,
    /// The version that the vendor torch's METADATA pins.
    pub(crate) version: String,
    /// Where the libraries lie, relative to a site-packages folder.
    pub(crate) dir: String,
    pub(crate) libraries: Vec<String>,
}

/// The names that a skeleton is generated from.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    /// The manifest's vendor; every library of its build answers with it.
    pub(crate) vendor: String,
    /// The local version of the vendor's torch, `sim1.0`.
    pub(crate) local: String,
    /// The torch release, `2.13.0`.
    pub(crate) release: String,
    pub(crate) sdk_version: String,
    pub(crate) swap: Swap,
    pub(crate) markers: Vec<String>,
    /// `torch.version` attributes, with their values.
    pub(crate) attributes: BTreeMap<String, String>,
    /// The library that the manifest names as the fork's sign.
    pub(crate) probe: String,
    /// Required and optional libraries of the bundle, by file name.
    pub(crate) bundled: Vec<String>,
    /// Paths, relative to a site-packages folder, of the files that the bundle's globs are to match.
    pub(crate) included: Vec<String>,
    pub(crate) preload: Vec<String>,
    /// Libraries of the SDK or the driver, by file name.
    pub(crate) host: Vec<String>,
    /// Those of them that are opened by name, so that nothing is linked against them.
    pub(crate) host_opened: Vec<String>,
    /// The SDK's folder below an output folder, `opt/sim`, and where its libraries lie in it; absent: the
    /// bundle's search path names no SDK, and the host's libraries are a driver's.
    pub(crate) sdk: Option<(String, String)>,
    pub(crate) provided: Vec<Provided>,
}

/// A file name that the glob `pattern` matches: stars before `.so` become a hash, as `auditwheel` names the
/// libraries that it carries along, those after it a version.
pub(crate) fn name_for(pattern: &str, vendor: &str) -> String {
    if pattern == "*" {
        return name_for("libblas*.so*", vendor);
    }
    let (stem, end) = match pattern.find(".so") {
        Some(at) => pattern.split_at(at),
        None => (pattern, ".so.0"),
    };
    let digest = Sha256::digest(format!("{vendor} {pattern}"));
    let hash: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{}{}", stem.replace('*', &format!("-{hash}")), end.replace('*', ".0"))
}

/// The file name of a host library: `libsimrt.so*` stands for `libsimrt.so.1`.
pub(crate) fn host_name(pattern: &str) -> String {
    match pattern.strip_suffix('*') {
        Some(stem) => format!("{}.1", stem.trim_end_matches('.')).replace('*', ""),
        None => pattern.replace('*', ""),
    }
}

impl Recipe {
    /// Reads the names out of a manifest.
    pub(crate) fn of(m: &Manifest) -> Result<Recipe, Error> {
        Ok(Recipe {
            vendor: m.vendor.clone(),
            local: format!("{}{}", m.vendor, m.sdk.version),
            release: m.torch.release.clone(),
            sdk_version: m.sdk.version.clone(),
            swap: match m.torch.swap.as_str() { "core" => Swap::Core, "extra" => Swap::Extra, _ => Swap::None },
            markers: m.torch.markers.clone(),
            attributes: BTreeMap::new(),
            probe: m.bundle.probe.clone(),
            bundled: m.bundle.required.iter().chain(&m.bundle.optional).cloned().collect(),
            included: m.bundle.include.iter().map(|p| { let (d, f) = p.rsplit_once('/').unwrap(); format!("{d}/{}", name_for(f, &m.vendor)) }).collect(),
            preload: m.bundle.preload.clone(),
            host: m.host.libraries.iter().map(|h| host_name(h)).collect(),
            host_opened: Vec::new(),
            sdk: m.bundle.search_path.iter().find_map(|p| p.strip_prefix("{sdk}/")).map(|l| (format!("opt/{}", m.vendor), l.to_owned())),
            provided: m.provided.iter().map(|p| Provided { dist: p.dist.clone(), version: "1.0".into(), dir: p.dir.clone(), libraries: p.libraries.clone() }).collect(),
        })
    }

    /// `sim` of `libtorch_sim.so`: how the fork calls its device.
    pub(crate) fn device(&self) -> String {
        let stem = self.main().unwrap_or(&self.vendor);
        let stem = stem.strip_prefix("libtorch_").unwrap_or(stem);
        stem.split(['.', '_']).next().unwrap_or(stem).to_owned()
    }

    /// The dispatch key that its kernels are registered under.
    pub(crate) fn key(&self) -> String {
        self.device().to_uppercase()
    }

    /// The library that registers the device: the probe, else the first `libtorch_*` that stock torch lacks.
    pub(crate) fn main(&self) -> Option<&str> {
        let devices = || self.bundled.iter().filter(|n| n.starts_with("libtorch_") && !crate::torch::is_stock(n));
        devices().find(|n| **n == self.probe).or_else(|| devices().next()).map(String::as_str)
    }

    /// The device's part of c10.
    pub(crate) fn c10(&self) -> Option<&str> {
        self.bundled.iter().find(|n| n.starts_with("libc10_")).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_give_names_that_they_match() {
        let name = name_for("*", "sim");
        assert!(name.starts_with("libblas-") && name.ends_with(".so.0"), "{name}");
        assert!(name_for("libmagma*.so", "sim").ends_with(".so"));
        assert_eq!(host_name("libsimrt.so*"), "libsimrt.so.1");
        assert_eq!(host_name("libsimrt.so.*"), "libsimrt.so.1");
        assert_eq!(host_name("libcuda.so.1"), "libcuda.so.1");
    }
}
