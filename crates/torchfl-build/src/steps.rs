//! What the bootstrap will do, put together from the plan.

use std::collections::BTreeMap;

use torchfl_manifest::resolve::{self, OpenFrom};
use torchfl_manifest::{Front, Resolved, Status, Swap};

use crate::build_json::{self, BuildJson, Input};
use crate::plugin::{BuiltFor, minor};
use crate::{Error, Library, SCHEMA, Tree, VersionPy, package};

/// What the steps are made of.
pub(crate) struct Facts<'a> {
    pub resolved: &'a Resolved,
    pub version: &'a VersionPy,
    pub torch: &'a Tree,
    pub libraries: &'a [Library],
    pub plugin: Option<&'a Library>,
    /// What the plugin says that it was built for.
    pub built_for: Option<&'a BuiltFor>,
    pub requires: &'a BTreeMap<String, Vec<String>>,
    /// The cache tag that the wheel is bound to.
    pub python: Option<String>,
    pub overlay: bool,
    /// Those of the inputs that are skeletons.
    pub skeletons: &'a [String],
    pub inputs: Vec<Input>,
    pub allowed: Vec<String>,
    /// The compiler of the shims, if there are any.
    pub compiler: Option<&'a torchfl_shim::Compiler>,
}

/// The bootstrap's steps.
pub(crate) fn resolve(from: Facts<'_>) -> Result<BuildJson, Error> {
    let Facts { resolved, version, libraries, .. } = from;
    let bundle = &resolved.bundle;
    let has = |name: &str| libraries.iter().any(|l| l.name == name);
    let open = bundle
        .open
        .iter()
        // An optional library that the vendor's torch lacks is not opened.
        .filter(|open| open.from == OpenFrom::Front || has(&open.name))
        .cloned()
        .collect();
    // Two builds of one release must not share compiled code (docs/adr/0001-redirect.md).
    let caches = [
        ("TORCHINDUCTOR_CACHE_DIR", "inductor"),
        ("TORCH_EXTENSIONS_DIR", "extensions"),
        ("TRITON_CACHE_DIR", "triton"),
    ];
    let owned = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    };
    Ok(BuildJson {
        schema: SCHEMA,
        vendor: resolved.vendor.clone(),
        variant: resolved.variant.clone(),
        title: resolved.title.clone(),
        status: resolved.status.as_str().to_owned(),
        version: resolved.version.clone(),
        skeleton: !from.skeletons.is_empty(),
        notes: notes(resolved, from.plugin.is_some(), from.skeletons),
        tool: owned(&[("torchfl", env!("CARGO_PKG_VERSION")), ("rustc", package::RUSTC)])
            .into_iter()
            .chain(
                from.compiler.iter().flat_map(|cc| {
                    [("cc".to_owned(), cc.version.clone()), ("ld".to_owned(), cc.linker.clone())]
                }),
            )
            .collect(),
        inputs: from.inputs,
        torch: build_json::Torch {
            release: resolved.torch.release.clone(),
            front: resolved.torch.front.as_str().to_owned(),
            markers: resolved.torch.markers.clone(),
            attributes: version.attributes(&resolved.torch.attributes, &from.torch.path)?,
            rivals: resolved.torch.rivals.clone(),
            install: install(resolved),
        },
        python: from.python,
        swap: resolved.torch.swap.as_str().to_owned(),
        bundle: bundle.dir.clone(),
        files: libraries
            .iter()
            .map(|l| (l.name.clone(), build_json::File { bytes: l.bytes, soname: l.soname.clone() }))
            .collect(),
        open,
        provided: resolved
            .provided
            .iter()
            .map(|p| build_json::Provided {
                dist: p.dist.clone(),
                requires: from.requires.get(&p.dist).map(|lines| lines.join(", ")).unwrap_or_default(),
                dir: p.dir.clone().unwrap_or_default(),
                libraries: p.libraries.clone(),
            })
            .collect(),
        platform: platform(resolved),
        env: resolved.env.clone(),
        caches: if resolved.torch.swap == Swap::Core { owned(&caches) } else { BTreeMap::new() },
        overlay: from.overlay.then(|| "overlay".to_owned()),
        plugin: from.plugin.map(|library| plugin(library, from.built_for, resolved)),
        // The proof fills it in.
        assumed: Vec::new(),
        allow_unlicensed: from.allowed,
        allow_unresolved: Vec::new(),
        audit: audit(resolved),
    })
}

/// The plugin. One that does not say what it was built for is a library that the bootstrap opens, and no more.
fn plugin(library: &Library, built_for: Option<&BuiltFor>, resolved: &Resolved) -> build_json::Plugin {
    build_json::Plugin {
        library: format!("lib/{}", library.name),
        torch: built_for.map(|built| minor(&built.torch).to_owned()),
        python: built_for.map(|built| built.python.clone()),
        target: built_for.map(|built| built.target.clone()),
        runtime: built_for
            .map(|_| resolved.runtime.as_ref().map(|runtime| runtime.names.clone()).unwrap_or_default()),
    }
}

/// What whoever installs the wheel should know.
fn notes(resolved: &Resolved, plugin: bool, skeletons: &[String]) -> Vec<String> {
    let title = &resolved.title;
    let mut notes = Vec::new();
    if !skeletons.is_empty() {
        let made = skeletons.join(", ");
        notes.push(format!(
            "skeleton: for tests, not for {title}: it comes of {made}, generated from the manifest"
        ));
    }
    if resolved.status == Status::RuntimeOnly && !plugin {
        notes.push(format!(
            "runtime-only: no kernels for {title} are inside. They are a library of the vendor's, which a plugin has to \
             serve, and this wheel has none: operators run on the CPU"
        ));
    }
    notes
}

/// Commands that install the right stock torch. Where it lies is the site's to say: no index is written down here.
fn install(resolved: &Resolved) -> BTreeMap<String, String> {
    let release = &resolved.torch.release;
    let (pip, uv) = match resolved.torch.front {
        Front::Cpu => (
            format!(
                "pip install --force-reinstall \"torch=={release}+cpu\" --index-url INDEX, PyTorch's index of CPU wheels or a mirror of it"
            ),
            format!("uv pip install --reinstall-package torch \"torch=={release}\" --torch-backend cpu"),
        ),
        Front::Any => (
            format!("pip install --force-reinstall \"torch=={release}\""),
            format!("uv pip install --reinstall-package torch \"torch=={release}\""),
        ),
        Front::Vendor => {
            let wheel = format!("the torch {release} wheel of {}", resolved.title);
            (
                format!("pip install --force-reinstall WHEEL, {wheel}"),
                format!("uv pip install --reinstall-package torch WHEEL, {wheel}"),
            )
        }
    };
    BTreeMap::from([("pip".to_owned(), pip), ("uv".to_owned(), uv)])
}

/// What the runtime needs to know of the platform.
fn platform(resolved: &Resolved) -> build_json::Platform {
    let target = resolved.triton.as_ref().and_then(|triton| triton.target.as_ref());
    build_json::Platform {
        comm: resolved.comm.clone(),
        flag_gems: build_json::FlagGems {
            vendor: resolved.flag_gems.clone(),
            backends: torchfl_manifest::flag_gems_backends()
                .map(|(name, variable)| (name.to_owned(), variable.map(str::to_owned)))
                .collect(),
        },
        triton: target.map(|target| build_json::Target {
            backend: target.backend.clone(),
            key: target.key.clone(),
            warp_size: target.warp_size,
        }),
    }
}

/// What an audit of the wheel needs of the manifest.
fn audit(resolved: &Resolved) -> build_json::Audit {
    let owner = |owner: &resolve::Owner| build_json::Owner {
        name: owner.name.clone(),
        local: owner.local.clone(),
        version: owner.version.clone(),
    };
    let severity = &resolved.audit.severity;
    build_json::Audit {
        host: resolved.host.libraries.clone(),
        dlopen: resolved.host.dlopen.clone(),
        sdk: resolved.sdk.root.clone(),
        folders: resolved.bundle.search_path.iter().filter(|entry| entry.starts_with('/')).cloned().collect(),
        kernels: resolved.bundle.kernels.clone(),
        triton: resolved.triton.as_ref().map(|triton| build_json::Triton {
            supplier: triton.supplier.as_str().to_owned(),
            owners: triton.owners.iter().map(owner).collect(),
        }),
        severity: severity.iter().map(|(code, severity)| (code.clone(), severity.to_string())).collect(),
    }
}
