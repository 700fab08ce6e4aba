//! What a manifest says that matters to a skeleton: names, nothing computed from files.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};
use torchfl_manifest::{Front, Glob, Manifest, Root, Shim, ShimKind, Spanned, Supplier, Swap};
use torchfl_wheel::escape_name;

/// Libraries that another wheel brings.
#[derive(Debug, Clone)]
pub(crate) struct Provided {
    /// The distribution's name.
    pub(crate) dist: String,
    pub(crate) version: String,
    /// Whether the METADATA of the vendor's torch names that version.
    pub(crate) pinned: bool,
    /// Where the libraries lie, relative to a site-packages folder.
    pub(crate) dir: String,
    pub(crate) libraries: Vec<String>,
}

/// The names that a skeleton is generated from.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    /// The manifest's vendor; every library of its build answers with it.
    pub(crate) vendor: String,
    /// The local version of the vendor's torch, `sim1.0.skeleton`.
    pub(crate) local: String,
    /// The torch release, `2.13.0`.
    pub(crate) release: String,
    pub(crate) sdk_version: String,
    pub(crate) swap: Swap,
    /// Whether the torch that the wheel meets is the vendor's own.
    pub(crate) vendor_in_front: bool,
    pub(crate) markers: Vec<String>,
    /// `torch.version` attributes, with their values.
    pub(crate) attributes: BTreeMap<String, String>,
    /// The library that the manifest names as the fork's sign.
    pub(crate) probe: String,
    /// The dispatch key of the manifest, where it names one.
    pub(crate) kernels: Option<String>,
    /// Required and optional libraries of the bundle, by file name.
    pub(crate) bundled: Vec<String>,
    /// Paths, relative to a site-packages folder, of the files that the bundle's globs are to match.
    pub(crate) included: Vec<String>,
    pub(crate) preload: Vec<String>,
    /// Libraries of the SDK or the driver, by file name.
    pub(crate) host: BTreeSet<String>,
    /// Those of them that others are linked against: neither the ones that are only opened by name, nor the
    /// stand-ins for a whole family (`libnvidia-*.so.*`).
    pub(crate) linked: Vec<String>,
    /// The SDK's folder below an output folder, `opt/sim`, and where its libraries lie in it; absent: the
    /// bundle's search path names no SDK, and the host's libraries are a driver's.
    pub(crate) sdk: Option<(String, String)>,
    pub(crate) provided: Vec<Provided>,
    /// Whether the METADATA of the vendor's torch pins Triton.
    pub(crate) pins_triton: bool,
    /// Libraries that the fork asks for and nobody has: the build generates them.
    pub(crate) forwarders: Vec<Forwarder>,
    /// Whether the fork's core has symbols of its own that a shim is to stand in for.
    pub(crate) gap: bool,
}

/// What a versioned forwarder stands for.
#[derive(Debug, Clone)]
pub(crate) struct Forwarder {
    /// What the fork was linked against.
    pub(crate) soname: String,
    /// The version of its symbols.
    pub(crate) version: String,
    /// The library that has them, under no version.
    pub(crate) to: String,
}

impl Provided {
    fn of(provided: &torchfl_manifest::Provided, sdk_version: &str) -> Provided {
        // The METADATA of the vendor's torch pins the version, unless the manifest has to.
        let own = provided
            .version
            .as_ref()
            .map(|version| version.trim_start_matches(['=', '~', '>', ' ']).to_owned());
        Provided {
            dist: provided.dist.to_string(),
            pinned: own.is_none(),
            version: own.unwrap_or_else(|| sdk_version.to_owned()),
            dir: provided.dir.as_ref().map_or_else(|| escape_name(&provided.dist), ToString::to_string),
            libraries: strings(provided.libraries.iter()),
        }
    }
}

impl Forwarder {
    fn of(shim: &Shim) -> Option<Forwarder> {
        Some(Forwarder {
            soname: shim.soname.to_string(),
            version: shim.version.as_ref()?.to_string(),
            to: shim.forward_to.as_ref()?.to_string(),
        })
    }
}

fn strings<'a, T: ToString + 'a>(values: impl IntoIterator<Item = &'a Spanned<T>>) -> Vec<String> {
    values.into_iter().map(|value| value.value.to_string()).collect()
}

/// The local version of the vendor's torch.
fn local(vendor: &str, sdk_version: &str, variant: Option<&str>) -> String {
    let variant = variant.map_or(String::new(), |variant| format!(".{variant}"));
    format!("{vendor}{sdk_version}{variant}.skeleton")
}

/// The attributes of `torch.version` that the fork sets, with their values: the manifest's own, and those that its
/// markers spell out (`cuda: Optional[str] = '13.0'`).
fn attributes(manifest: &Manifest, sdk_version: &str) -> BTreeMap<String, String> {
    let value = |text: &str| if text == "from-vendor" { sdk_version.to_owned() } else { text.to_owned() };
    let own = manifest.torch.attributes.iter().map(|(name, text)| (name.to_string(), value(text)));
    own.chain(manifest.torch.markers.iter().filter_map(|marker| assignment(marker))).collect()
}

/// The name and the value of a line that assigns a plain string.
fn assignment(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once('=')?;
    let name = name.split(':').next()?.trim();
    let value = value.trim().strip_prefix('\'')?.strip_suffix('\'')?;
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c));
    (!name.is_empty() && plain(name) && plain(value)).then(|| (name.to_owned(), value.to_owned()))
}

/// A build's own requirement on Triton comes from there where the package index supplies it, unless the manifest has one.
fn pins_triton(manifest: &Manifest) -> bool {
    let triton = manifest.triton.as_ref();
    triton.is_some_and(|triton| *triton.supplier == Supplier::Pypi && triton.version.is_none())
}

/// Where the SDK lies: its folder less the leading `/`, and the first folder of it that the search path names; `lib`
/// where nothing is bundled.
fn sdk(manifest: &Manifest) -> Option<(String, String)> {
    let lib = match &manifest.bundle {
        Some(bundle) => {
            bundle.search_path.iter().find_map(|entry| entry.strip_prefix("{sdk}"))?.trim_matches('/')
        }
        None => "lib",
    };
    let roots = &manifest.sdk.as_ref()?.roots;
    let root = roots.iter().find_map(|root| match root {
        Root::Path(path) => Some(path.trim_matches('/').to_owned()),
        Root::Env(_) => None,
    });
    Some((root.unwrap_or_else(|| format!("opt/{}", manifest.vendor)), lib.to_owned()))
}

/// A path that the glob matches; its folders are taken as they are.
fn path_for(glob: &str, vendor: &str) -> String {
    match glob.rsplit_once('/') {
        Some((dir, file)) => format!("{dir}/{}", name_for(file, vendor)),
        None => name_for(glob, vendor),
    }
}

/// A file name that the glob `pattern` matches: stars before `.so` become a hash, as `auditwheel` names the
/// libraries that it carries along, those after it a version.
fn name_for(pattern: &str, vendor: &str) -> String {
    if pattern == "*" {
        return name_for(&format!("lib{vendor}blas*.so*"), vendor);
    }
    let stem = stem(pattern);
    let end = if stem == pattern { ".so.2" } else { &pattern[stem.len()..] };
    let digest: [u8; 32] = Sha256::digest(format!("{vendor} {pattern}")).into();
    let hash = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    format!("{}{}", stem.replace('*', &format!("-{hash:08x}")), end.replace(".*", ".2").replace('*', ".2"))
}

/// The file name of a host library that the glob matches: `libsimrt.so*` stands for `libsimrt.so.1`.
fn host_name(glob: &str) -> String {
    let stem = stem(glob);
    let version = glob[stem.len()..].trim_end_matches('*').trim_end_matches('.');
    let version = if version == ".so" && glob.ends_with('*') { ".so.1" } else { version };
    stem.replace('*', "stub") + &version.replace('*', "1")
}

/// A library's name as far as `.so`.
fn stem(name: &str) -> &str {
    name.find(".so").map_or(name, |at| &name[..at])
}

impl Recipe {
    /// Reads the names out of a manifest.
    pub(crate) fn of(manifest: &Manifest) -> Recipe {
        let vendor = manifest.vendor.to_string();
        let sdk_version = manifest.sdk.as_ref().and_then(|sdk| sdk.version.as_ref());
        let sdk_version = sdk_version.map_or("1.0".to_owned(), ToString::to_string);
        let mut recipe = Recipe {
            local: local(&vendor, &sdk_version, manifest.variant.as_deref().map(|variant| &**variant)),
            release: manifest.torch.release.to_string(),
            swap: *manifest.torch.swap,
            vendor_in_front: *manifest.torch.front == Front::Vendor,
            markers: strings(&manifest.torch.markers),
            attributes: attributes(manifest, &sdk_version),
            probe: String::new(),
            kernels: None,
            bundled: Vec::new(),
            included: Vec::new(),
            preload: Vec::new(),
            host: BTreeSet::new(),
            linked: Vec::new(),
            sdk: None,
            provided: manifest.provided.iter().map(|provided| Provided::of(provided, &sdk_version)).collect(),
            pins_triton: pins_triton(manifest),
            forwarders: manifest.shim.iter().filter_map(Forwarder::of).collect(),
            gap: manifest.shim.iter().any(|shim| *shim.kind == ShimKind::CoreGap),
            sdk_version,
            vendor,
        };
        if let Some(bundle) = &manifest.bundle {
            recipe.probe = bundle.probe.as_ref().map_or(String::new(), ToString::to_string);
            recipe.kernels = bundle.kernels.as_ref().map(ToString::to_string);
            recipe.bundled = strings(bundle.required.iter().chain(&bundle.optional));
            recipe.included = bundle.include.iter().map(|glob| path_for(glob, &recipe.vendor)).collect();
            recipe.preload = strings(&bundle.preload);
        }
        if recipe.vendor_in_front {
            // Nothing of that torch is bundled, so the manifest names none of its libraries: the usual two.
            recipe.bundled =
                vec![format!("libc10_{}.so", recipe.vendor), format!("libtorch_{}.so", recipe.vendor)];
        }
        if let Some(host) = &manifest.host {
            let named = |glob: &&Spanned<Glob>| !stem(glob).contains('*');
            let globs = || host.driver.iter().chain(&host.libraries);
            recipe.linked = globs().filter(named).map(|glob| host_name(glob)).collect();
            let all: BTreeSet<String> = globs().map(|glob| host_name(glob)).collect();
            recipe.host = all.into_iter().chain(strings(&host.dlopen)).collect();
        }
        recipe.sdk = sdk(manifest);
        recipe
    }

    /// `sim` of `libtorch_sim.so`: how the fork calls its device.
    pub(crate) fn device(&self) -> String {
        let stem = self.main().unwrap_or(&self.vendor);
        let stem = stem.strip_prefix("libtorch_").unwrap_or(stem);
        stem.split(['.', '_']).next().unwrap_or(stem).to_owned()
    }

    /// The dispatch key that its kernels are registered under.
    pub(crate) fn key(&self) -> String {
        self.kernels.clone().unwrap_or_else(|| self.device().to_uppercase())
    }

    /// `at::sim::add` of its kernels, mangled.
    pub(crate) fn kernel_add(&self) -> String {
        let namespace = self.key().to_lowercase();
        format!("_ZN2at{}{namespace}3addERKNS_6TensorES3_RKN3c106ScalarE", namespace.len())
    }

    /// The library that registers the device: the probe, else the first `libtorch_*` that stock torch lacks.
    pub(crate) fn main(&self) -> Option<&str> {
        let devices =
            || self.bundled.iter().filter(|n| n.starts_with("libtorch_") && !crate::torch::is_stock(n));
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
        assert!(name.starts_with("libsimblas-") && name.ends_with(".so.2"), "{name}");
        assert_eq!(stem(&name_for("libmagma*.so", "sim")).len(), "libmagma-12345678".len());
        assert_eq!(host_name("libsimrt.so*"), "libsimrt.so.1");
        assert_eq!(host_name("libsimrt.so.*"), "libsimrt.so.1");
        assert_eq!(host_name("libcuda.so.1"), "libcuda.so.1");
        assert_eq!(host_name("libnvidia-*.so.*"), "libnvidia-stub.so.1");
    }

    #[test]
    fn a_marker_that_assigns_a_string_gives_an_attribute() {
        let cuda = Some(("cuda".to_owned(), "13.0".to_owned()));
        assert_eq!(assignment("cuda: Optional[str] = '13.0'"), cuda);
        assert_eq!(assignment("cuda = '13.0'"), cuda);
        assert_eq!(assignment("acme"), None);
        assert_eq!(assignment("a = b'c'"), None);
    }
}
