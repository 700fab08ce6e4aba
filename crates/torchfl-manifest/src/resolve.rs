//! From a manifest to what one build needs. Nothing is read but the manifest and the request.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::input::resolved::inputs;
use crate::model::{Manifest, Root};
use crate::names::{
    Arch, Artifact, AuditSeverity, Front, SearchTag, ShimKind, Status, Supplier, Swap, local, search_folder,
};
use crate::runtime::{RuntimeName, runtime_names};
use crate::{Error, model};

pub use crate::input::resolved::{Input, InputFile, Way};

/// What a build asks for beyond the manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// The interpreter, `cp311`; it must be one of the manifest's.
    pub python: Option<String>,
    /// The processor, `x86_64`; it must be one of the manifest's.
    pub arch: Option<String>,
    /// Where the SDK lies **on the target machine**. Without it the manifest's first `path` root is taken: that is
    /// the usual value, as a wheel is built for other machines.
    pub sdk_root: Option<PathBuf>,
    /// The whole local version, instead of `<vendor><sdk.version>[.<variant>]`; without the `+`.
    pub local: Option<String>,
    /// The tool's own revision of a release: 1 makes `2.13.0.post1+…` (PEP 440, post-releases).
    pub post: Option<u32>,
}

/// A manifest with everything filled in. It serialises to the JSON that `--dry-run` shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resolved {
    /// `cuda-slim`: the manifest's name.
    pub name: String,
    /// `cuda`
    pub vendor: String,
    /// `slim`
    pub variant: Option<String>,
    /// For people.
    pub title: String,
    /// How far the build is trusted.
    pub status: Status,
    /// `2.13.0+cuda13.0`: the wheel's version, normalised (PEP 440).
    pub version: String,
    /// The torch that is taken from, and the one that is met.
    pub torch: Torch,
    /// The interpreters that the manifest offers.
    pub python_tags: Vec<String>,
    /// The one that was asked for.
    pub python: Option<String>,
    /// The machines.
    pub target: Target,
    /// The SDK.
    pub sdk: Sdk,
    /// What is bundled; all empty but `dir` where `torch.swap` is `none`.
    pub bundle: Bundle,
    /// What stays on the target machine.
    pub host: Host,
    /// What a plugin finds below itself, where somebody said it.
    pub runtime: Option<Runtime>,
    /// What other wheels bring, in the order of opening.
    pub provided: Vec<Provided>,
    /// What is generated.
    pub shims: Vec<Shim>,
    /// Set at import where unset.
    pub env: BTreeMap<String, String>,
    /// The collective library.
    pub comm: Option<String>,
    /// Triton.
    pub triton: Option<Triton>,
    /// The vendor's name in `FlagGems`.
    pub flag_gems: Option<String>,
    /// What the audit makes of the wheel.
    pub audit: Audit,
    /// Where the wheel is tested.
    pub ci: Ci,
    /// What a build starts from.
    pub inputs: Vec<Input>,
}

/// [`model::Torch`] without spans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Torch {
    /// `2.13.0`
    pub release: String,
    /// The torch that is met.
    pub front: Front,
    /// Strings of the vendor's `version.py`.
    pub markers: Vec<String>,
    /// Preprocessor definitions.
    pub defines: Vec<String>,
    /// What is replaced.
    pub swap: Swap,
    /// Attributes of `torch.version`.
    pub attributes: BTreeMap<String, Attribute>,
    /// Entry points to leave out.
    pub rivals: Vec<String>,
}

/// The value of an attribute of `torch.version`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attribute {
    /// That of the vendor's `version.py`.
    FromVendor,
    /// This one.
    Value(String),
}

/// [`model::Target`] without spans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    /// Processors that the manifest offers, or the one that was asked for.
    pub arch: Vec<Arch>,
    /// Ceiling, as (major, minor); written `"2.28"`.
    #[serde(serialize_with = "dotted")]
    pub glibc: Option<(u32, u32)>,
}

#[expect(clippy::ref_option, reason = "serde passes the field by reference")]
fn dotted<S: Serializer>(glibc: &Option<(u32, u32)>, serializer: S) -> Result<S::Ok, S::Error> {
    glibc.map(|(major, minor)| format!("{major}.{minor}")).serialize(serializer)
}

/// The SDK on the target machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sdk {
    /// Its version.
    pub version: Option<String>,
    /// What `{sdk}` stands for, where the search path needs it or the manifest knows it.
    pub root: Option<String>,
    /// Environment variables that may name it on a machine, the likeliest first.
    pub env: Vec<String>,
    /// Folders where it may lie, the likeliest first.
    pub paths: Vec<String>,
}

/// [`model::Bundle`] without spans, its search path and order of opening filled in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bundle {
    /// The folder inside `torch_fl/`; `lib_<vendor>` where there is no bundle.
    pub dir: String,
    /// The library that tells the vendor's torch.
    pub probe: Option<String>,
    /// File names in the vendor's `torch/lib`.
    pub required: Vec<String>,
    /// File names in the vendor's `torch/lib`, where there.
    pub optional: Vec<String>,
    /// Globs below the root of the vendor's wheel.
    pub include: Vec<String>,
    /// One copy a process.
    pub never_duplicate: Vec<String>,
    /// In the order of opening.
    pub open: Vec<Open>,
    /// Entries of the search path, `{sdk}` filled in.
    pub search_path: Vec<String>,
    /// The tag that it is written under; `rpath` where there is no bundle.
    pub search_tag: SearchTag,
    /// The dispatch key of its kernels.
    pub kernels: Option<String>,
}

impl Bundle {
    /// The search path as it is written into a library: entries parted by `:`.
    pub fn search_path_value(&self) -> String {
        self.search_path.join(":")
    }
}

/// A library that is opened before torch is imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Open {
    /// Its file name.
    pub name: String,
    /// The folder that it is opened from.
    pub from: OpenFrom,
    /// One copy a process: skipped where one is loaded already.
    pub shared: bool,
    /// With `RTLD_GLOBAL`.
    pub global: bool,
}

/// Where a library is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpenFrom {
    /// In the bundle.
    Bundle,
    /// In `torch/lib` of the installed torch.
    Front,
}

/// [`model::Host`] without spans.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Host {
    /// Globs of file names: the driver's and all others.
    pub libraries: Vec<String>,
    /// Opened by name at run time.
    pub dlopen: Vec<String>,
    /// Globs of device nodes.
    pub devices: Vec<String>,
}

/// [`model::Runtime`] with its table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Runtime {
    /// The API, and the dispatch key underneath.
    pub api: String,
    /// What a plugin reaches, by logical name.
    pub names: BTreeMap<String, RuntimeName>,
}

/// [`model::Provided`] without spans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Provided {
    /// The distribution.
    pub dist: String,
    /// A specifier of its version.
    pub version: Option<String>,
    /// Relative to a site-packages folder.
    pub dir: Option<String>,
    /// In the order of opening.
    pub libraries: Vec<String>,
}

/// [`model::Shim`] without spans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shim {
    /// What it does.
    pub kind: ShimKind,
    /// Its file name in the bundle, and its SONAME.
    pub soname: String,
    /// Where calls go: of a versioned forwarder, and of no other.
    pub forward: Option<Forward>,
    /// What it defines.
    pub symbols: Symbols,
    /// Those that it answers itself, with what they return.
    pub stubs: BTreeMap<String, i64>,
}

/// Where a versioned forwarder's calls go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Forward {
    /// The library, opened by name.
    pub to: String,
    /// The version that each of the shim's symbols carries.
    pub version: String,
}

/// [`model::Symbols`] without spans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Symbols {
    /// The build finds them out.
    Computed,
    /// These.
    Listed(Vec<String>),
}

/// [`model::Triton`] without spans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Triton {
    /// Who supplies it.
    pub supplier: Supplier,
    /// A specifier of its version, where the package index supplies it.
    pub version: Option<String>,
    /// Distributions that may own the folder `triton/`.
    pub owners: Vec<Owner>,
    /// What it compiles for.
    pub target: Option<TritonTarget>,
}

/// [`model::Owner`] without spans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Owner {
    /// The distribution.
    pub name: String,
    /// What its local version starts with.
    pub local: Option<String>,
    /// The version for this torch and SDK.
    pub version: Option<String>,
}

/// [`model::TritonTarget`] without spans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TritonTarget {
    /// `GPUTarget.backend`.
    pub backend: String,
    /// The key in `triton.backends.backends`.
    pub key: String,
    /// Threads of a warp.
    pub warp_size: Option<i64>,
}

/// [`model::Audit`] without spans.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// By the rule's code, `AUD-007`.
    pub severity: BTreeMap<String, AuditSeverity>,
}

/// [`model::Ci`] without spans.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Ci {
    /// Labels of the runner.
    pub runner: Vec<String>,
    /// The container image.
    pub image: Option<String>,
    /// Options of the container.
    pub container_options: Vec<String>,
    /// The interpreters that the runner has; empty where it has all.
    pub python: Vec<String>,
    /// Names of files in `ci/tests/`.
    pub tests: Vec<String>,
    /// What becomes of the wheel, where somebody said so.
    pub artifact: Option<Artifact>,
}

/// Fills in `manifest` for `request`: the version, the SDK's place, the order of opening.
///
/// # Errors
///
/// An interpreter or processor that the manifest does not offer, a local version that PEP 440 forbids, an SDK
/// folder that cannot stand in a search path, or none where the search path needs one.
pub fn resolve(manifest: &Manifest, request: &Request) -> Result<Resolved, Error> {
    let name = manifest.name();
    let tags = strings(&manifest.python.tags.value);
    offered("python tag", &name, request.python.as_deref(), &tags)?;
    let arches = strings(&manifest.target.arch.value);
    offered("processor", &name, request.arch.as_deref(), &arches)?;
    let arch = manifest.target.arch.iter().map(|arch| arch.value);
    let sdk = sdk(manifest, request)?;
    Ok(Resolved {
        version: version(manifest, request)?,
        vendor: manifest.vendor.to_string(),
        variant: manifest.variant.as_ref().map(ToString::to_string),
        title: manifest.title.to_string(),
        status: *manifest.status,
        torch: torch(&manifest.torch),
        python_tags: tags,
        python: request.python.clone(),
        target: Target {
            arch: arch
                .filter(|arch| request.arch.as_deref().is_none_or(|one| one == arch.as_str()))
                .collect(),
            glibc: manifest.target.glibc.as_ref().map(|glibc| (glibc.major, glibc.minor)),
        },
        bundle: bundle(manifest, &name, &sdk)?,
        sdk,
        host: manifest.host.as_ref().map_or_else(Host::default, |host| Host {
            libraries: strings(host.driver.iter().chain(&host.libraries)),
            dlopen: strings(&host.dlopen),
            devices: strings(&host.devices),
        }),
        runtime: manifest.runtime.as_ref().map(runtime),
        provided: manifest.provided.iter().map(provided).collect(),
        shims: manifest.shim.iter().map(shim).collect(),
        env: manifest.env.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        comm: manifest.comm.as_ref().map(|comm| comm.library.to_string()),
        triton: manifest.triton.as_ref().map(triton),
        flag_gems: manifest.flag_gems.as_ref().map(|gems| gems.vendor.to_string()),
        audit: manifest.audit.as_ref().map(audit).unwrap_or_default(),
        ci: manifest.ci.as_ref().map_or_else(Ci::default, |ci| Ci {
            runner: strings(&ci.runner),
            image: ci.image.as_ref().map(ToString::to_string),
            container_options: strings(&ci.container_options),
            python: strings(&ci.python),
            tests: strings(&ci.tests),
            artifact: ci.artifact.as_ref().map(|artifact| **artifact),
        }),
        inputs: inputs(manifest, request),
        name,
    })
}

fn strings<'a, T: ToString + 'a>(items: impl IntoIterator<Item = &'a T>) -> Vec<String> {
    items.into_iter().map(ToString::to_string).collect()
}

fn offered(what: &'static str, manifest: &str, asked: Option<&str>, known: &[String]) -> Result<(), Error> {
    match asked {
        Some(asked) if !known.iter().any(|known| known == asked) => Err(Error::NotOffered {
            what,
            manifest: manifest.to_owned(),
            asked: asked.to_owned(),
            known: known.to_vec(),
        }),
        _ => Ok(()),
    }
}

fn version(manifest: &Manifest, request: &Request) -> Result<String, Error> {
    let tag = if let Some(tag) = &request.local {
        if let Err(complaint) = local(tag) {
            return Err(Error::Local { tag: tag.clone(), why: complaint.message });
        }
        tag.clone()
    } else {
        let sdk = manifest.sdk.as_ref().and_then(|sdk| sdk.version.as_ref());
        let variant = manifest.variant.as_ref().map(|variant| format!(".{variant}"));
        format!(
            "{}{}{}",
            manifest.vendor,
            sdk.map_or("", |version| version.as_str()),
            variant.unwrap_or_default()
        )
    };
    let post = request.post.map(|post| format!(".post{post}")).unwrap_or_default();
    let whole = format!("{}{post}+{tag}", manifest.torch.release);
    match pep440_rs::Version::from_str(&whole) {
        Ok(version) => Ok(version.to_string()),
        Err(error) => Err(Error::Local { tag, why: error.to_string() }),
    }
}

fn torch(torch: &model::Torch) -> Torch {
    let attribute = |value: &str| match value {
        "from-vendor" => Attribute::FromVendor,
        value => Attribute::Value(value.to_owned()),
    };
    Torch {
        release: torch.release.to_string(),
        front: *torch.front,
        markers: strings(&torch.markers),
        defines: strings(&torch.defines),
        swap: *torch.swap,
        attributes: torch.attributes.iter().map(|(key, value)| (key.to_string(), attribute(value))).collect(),
        rivals: strings(&torch.rivals),
    }
}

fn sdk(manifest: &Manifest, request: &Request) -> Result<Sdk, Error> {
    let mut sdk = Sdk { version: None, root: None, env: Vec::new(), paths: Vec::new() };
    if let Some(known) = &manifest.sdk {
        sdk.version = known.version.as_ref().map(ToString::to_string);
        for root in &known.roots {
            match root {
                Root::Env(variable) => sdk.env.push(variable.to_string()),
                Root::Path(folder) => sdk.paths.push(folder.to_string()),
            }
        }
    }
    sdk.root = match &request.sdk_root {
        None => sdk.paths.first().cloned(),
        Some(root) => {
            let text = root.to_str().ok_or_else(|| Error::SdkRoot {
                root: root.clone(),
                why: "the name is not UTF-8".to_owned(),
            })?;
            search_folder(text)
                .map_err(|complaint| Error::SdkRoot { root: root.clone(), why: complaint.message })?;
            Some(text.to_owned())
        }
    };
    // `{sdk}/lib` must not become `/opt/sim//lib`: the string is compared and written as it stands.
    sdk.root = sdk.root.map(|root| match root.trim_end_matches('/') {
        "" => "/".to_owned(),
        trimmed => trimmed.to_owned(),
    });
    Ok(sdk)
}

fn bundle(manifest: &Manifest, name: &str, sdk: &Sdk) -> Result<Bundle, Error> {
    let Some(bundle) = &manifest.bundle else {
        return Ok(Bundle {
            dir: format!("lib_{}", manifest.vendor),
            probe: None,
            required: Vec::new(),
            optional: Vec::new(),
            include: Vec::new(),
            never_duplicate: Vec::new(),
            open: Vec::new(),
            search_path: Vec::new(),
            search_tag: SearchTag::Rpath,
            kernels: None,
        });
    };
    let mut search_path = Vec::with_capacity(bundle.search_path.len());
    for entry in &bundle.search_path {
        let filled = match (&sdk.root, entry.contains("{sdk}")) {
            (_, false) => entry.to_string(),
            (Some(root), true) => entry.replace("{sdk}", root.trim_end_matches('/')),
            (None, true) => return Err(Error::NoSdkRoot { manifest: name.to_owned() }),
        };
        search_path.push(filled);
    }
    let sonames = || manifest.shim.iter().map(|shim| &shim.soname);
    let bundled = |name: &str| {
        bundle.required.iter().chain(&bundle.optional).chain(sonames()).any(|one| one.as_str() == name)
    };
    let gap = |name: &str| {
        manifest.shim.iter().any(|shim| *shim.kind == ShimKind::CoreGap && shim.soname.as_str() == name)
    };
    let open = bundle.preload.iter().map(|library| Open {
        name: library.to_string(),
        from: if bundled(library) { OpenFrom::Bundle } else { OpenFrom::Front },
        shared: bundle.never_duplicate.iter().any(|one| one.value == library.value),
        global: bundle.global.iter().any(|one| one.library.value == library.value) || gap(library),
    });
    Ok(Bundle {
        dir: bundle.dir.to_string(),
        probe: bundle.probe.as_ref().map(ToString::to_string),
        required: strings(&bundle.required),
        optional: strings(&bundle.optional),
        include: strings(&bundle.include),
        never_duplicate: strings(&bundle.never_duplicate),
        open: open.collect(),
        search_path,
        search_tag: *bundle.search_tag,
        kernels: bundle.kernels.as_ref().map(ToString::to_string),
    })
}

fn runtime(runtime: &model::Runtime) -> Runtime {
    let mut names = runtime_names(&runtime.api);
    for reached in names.values_mut() {
        let here = runtime.libraries.iter().find(|(table, _)| table.as_str() == reached.library);
        if let Some((_, here)) = here {
            reached.library = here.to_string();
        }
    }
    Runtime { api: runtime.api.to_string(), names }
}

fn provided(provided: &model::Provided) -> Provided {
    Provided {
        dist: provided.dist.to_string(),
        version: provided.version.as_ref().map(ToString::to_string),
        dir: provided.dir.as_ref().map(ToString::to_string),
        libraries: strings(&provided.libraries.value),
    }
}

fn shim(shim: &model::Shim) -> Shim {
    Shim {
        kind: *shim.kind,
        soname: shim.soname.to_string(),
        forward: shim
            .forward_to
            .as_ref()
            .zip(shim.version.as_ref())
            .map(|(to, version)| Forward { to: to.to_string(), version: version.to_string() }),
        symbols: match &shim.symbols.value {
            model::Symbols::Computed => Symbols::Computed,
            model::Symbols::Listed(symbols) => Symbols::Listed(strings(symbols)),
        },
        stubs: shim.stub.iter().map(|stub| (stub.name.to_string(), *stub.returns)).collect(),
    }
}

fn triton(triton: &model::Triton) -> Triton {
    let owner = |owner: &model::Owner| Owner {
        name: owner.name.to_string(),
        local: owner.local.as_ref().map(ToString::to_string),
        version: owner.version.as_ref().map(ToString::to_string),
    };
    Triton {
        supplier: *triton.supplier,
        version: triton.version.as_ref().map(ToString::to_string),
        owners: triton.owners.iter().map(owner).collect(),
        target: triton.target.as_ref().map(|target| TritonTarget {
            backend: target.backend.to_string(),
            key: target.key.to_string(),
            warp_size: target.warp_size.as_ref().map(|size| size.value),
        }),
    }
}

fn audit(audit: &model::Audit) -> Audit {
    Audit { severity: audit.severity.iter().map(|(code, severity)| (code.to_string(), **severity)).collect() }
}
