//! What a build starts from: the manifest, resolved for this torch, and the files that it names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use torchfl_elf::{Edit, FileAt, Tag};
use torchfl_manifest::{Front, Resolved, SearchTag, Swap};

use crate::plugin::{self, BuiltFor, Plugin};
use crate::{Error, Library, Request, Tree, VersionPy, libraries, skeleton, tag};

/// What a plan starts from: the manifest for this torch, and the files that it names.
pub(crate) struct Start {
    pub torch: Arc<Tree>,
    pub version: VersionPy,
    /// The interpreter that is asked for, or that a torch is built for.
    pub python: Option<String>,
    /// Its version says whether the wheel is made of a skeleton.
    pub resolved: Resolved,
    /// The torch that is met.
    pub front: Option<(Tree, VersionPy)>,
    /// Those of the inputs that are skeletons.
    pub skeletons: Vec<String>,
    pub edit: Edit,
    /// Names and origins of the bundle's libraries.
    pub chosen: BTreeMap<String, String>,
    pub libraries: Vec<Library>,
    pub plugin: Option<Library>,
    /// What the plugin says that it was built for.
    pub built_for: Option<BuiltFor>,
    /// Where its file is: given, or built just now.
    pub plugin_path: Option<PathBuf>,
}

/// Reads what a build is made of.
pub(crate) fn start(request: &Request) -> Result<Start, Error> {
    let (torch, version) = vendor_torch(request)?;
    let front = request.front.as_deref().map(Tree::open).transpose()?;
    let known = if torch.is_nothing() { front.as_ref() } else { Some(&*torch) };
    let python = python(request, known)?;
    let mut resolved = torchfl_manifest::resolve(
        &request.manifest,
        &torchfl_manifest::Request {
            python: python.clone(),
            arch: arch(request, known)?,
            sdk_root: request.sdk_root.clone(),
            local: request.local.clone(),
            post: request.post,
        },
    )?;
    if !torch.is_nothing() {
        fits(&resolved, &torch, &version)?;
    }
    served(&resolved)?;
    let front = front.map(|front| met(front, &resolved)).transpose()?;
    let torches = front.iter().map(|(front, version)| (front, version)).chain([(&*torch, &version)]);
    let skeletons = skeleton::among(request, torches, &resolved);
    resolved.version = skeleton::label(&resolved.version, &skeletons)?;

    let edit = Edit::Set { tag: elf_tag(&resolved), value: resolved.bundle.search_path_value() };
    let chosen = libraries::select(&resolved, &torch)?;
    let libraries = libraries::prepare(&chosen, &torch, &edit, &request.scratch, request.threads)?;
    let plugin_path = match (&request.plugin, &request.plugin_source) {
        (None, Some(source)) => {
            let headers = plugin::headers(&resolved, &torch, front.as_ref().map(|(front, _)| front))?;
            Some(plugin::build(source, headers, &resolved, &request.scratch)?)
        }
        (given, _) => given.clone(),
    };
    let own = plugin_edit(&resolved);
    let plugin = plugin_path.as_deref().map(|path| plugin::read(path, &resolved, python.as_deref(), &own));
    let (plugin, built_for) =
        plugin.transpose()?.map_or((None, None), |Plugin { library, built_for }| (Some(library), built_for));
    let python = python.or_else(|| built_for.as_ref().map(|built| built.python.clone()));
    Ok(Start {
        torch,
        version,
        python,
        resolved,
        front,
        skeletons,
        edit,
        chosen,
        libraries,
        plugin,
        built_for,
        plugin_path,
    })
}

/// The vendor's torch, and what its `version.py` says; nothing, where nothing is taken of one.
fn vendor_torch(request: &Request) -> Result<(Arc<Tree>, VersionPy), Error> {
    let manifest = || request.manifest.name();
    match (&request.torch, *request.manifest.torch.swap) {
        (Some(_), Swap::None) => Err(Error::TorchGiven { manifest: manifest() }),
        (None, Swap::None) => Ok((Arc::new(Tree::nothing()), VersionPy::parse(""))),
        (None, Swap::Core | Swap::Extra) => Err(Error::NoTorch { manifest: manifest() }),
        (Some(path), Swap::Core | Swap::Extra) => {
            let torch = Tree::open(path)?;
            let version = VersionPy::of(&torch)?;
            Ok((Arc::new(torch), version))
        }
    }
}

/// The Python that is asked for, or that a torch is built for; none where nobody says.
fn python(request: &Request, torch: Option<&Tree>) -> Result<Option<String>, Error> {
    let Some(torch) = torch else { return Ok(request.python.clone()) };
    let built_for = match &torch.wheel {
        Some(wheel) => Some(wheel.abi.clone()),
        None => torch.all().find_map(|path| {
            let tag = path.strip_prefix("torch/_C.cpython-")?.split('-').next()?;
            Some(format!("cp{tag}"))
        }),
    };
    match (&request.python, built_for) {
        (Some(wanted), Some(found)) if *wanted != found => {
            Err(Error::Python { path: torch.path.clone(), found, wanted: wanted.clone() })
        }
        (Some(wanted), _) => Ok(Some(wanted.clone())),
        (None, Some(found)) => Ok(Some(found)),
        (None, None) => Err(Error::NoPython { path: torch.path.clone() }),
    }
}

/// Refuses a torch that is not the manifest's.
fn fits(resolved: &Resolved, torch: &Tree, version: &VersionPy) -> Result<(), Error> {
    if version.release() != resolved.torch.release {
        return Err(Error::Release {
            path: torch.path.clone(),
            found: version.get("__version__").unwrap_or_default().to_owned(),
            vendor: resolved.name.clone(),
            wanted: resolved.torch.release.clone(),
        });
    }
    match version.lacks(&resolved.torch.markers) {
        None => Ok(()),
        Some(marker) => Err(Error::Marker {
            path: torch.path.clone(),
            vendor: resolved.name.clone(),
            marker: marker.to_owned(),
        }),
    }
}

/// What the torch that is met says of itself, which must be what the bootstrap will accept.
fn met(tree: Tree, resolved: &Resolved) -> Result<(Tree, VersionPy), Error> {
    let version = VersionPy::of(&tree)?;
    if version.release() != resolved.torch.release {
        return Err(Error::FrontRelease {
            path: tree.path,
            found: version.get("__version__").unwrap_or_default().to_owned(),
            wanted: resolved.torch.release.clone(),
        });
    }
    match resolved.torch.front {
        Front::Cpu if !version.is_cpu() => return Err(Error::NotStock { path: tree.path }),
        Front::Vendor => fits(resolved, &tree, &version)?,
        Front::Cpu | Front::Any => {}
    }
    Ok((tree, version))
}

/// Refuses what the manifest asks for and this packager does not do yet: a wheel without it would not load.
fn served(resolved: &Resolved) -> Result<(), Error> {
    match resolved.provided.iter().find(|provided| provided.dir.is_none()) {
        None => Ok(()),
        Some(provided) => Err(Error::NoFolder { dist: provided.dist.clone() }),
    }
}

/// The plugin finds the bundle's libraries open; its own path names only their folder, never a build machine's.
fn plugin_edit(resolved: &Resolved) -> Edit {
    Edit::Set { tag: elf_tag(resolved), value: format!("$ORIGIN:$ORIGIN/../{}", resolved.bundle.dir) }
}

/// The machine that the wheel is for: that of a torch, else the plugin's, else the only one that there is.
fn arch(request: &Request, torch: Option<&Tree>) -> Result<Option<String>, Error> {
    if let Some(torch) = torch {
        return arch_of(torch, &request.scratch);
    }
    if let Some(path) = &request.plugin {
        let facts = torchfl_elf::facts(&FileAt::open(path)?, &path.to_string_lossy())?;
        return Ok(Some(tag::arch(&facts.machine.to_string())));
    }
    match request.manifest.target.arch.as_slice() {
        [one] => Ok(Some(one.to_string())),
        _ => Err(Error::NoArch { manifest: request.manifest.name() }),
    }
}

/// The machine that a torch is for: a wheel's name says it, of a folder the first library does.
fn arch_of(torch: &Tree, scratch: &Path) -> Result<Option<String>, Error> {
    if let Some(wheel) = &torch.wheel {
        // linux_x86_64, manylinux_2_28_x86_64, manylinux2014_aarch64
        let first = wheel.platform.split('.').next().and_then(|platform| platform.split_once('_'));
        let arch = first.map(|(_, rest)| rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_'));
        return Ok(arch.map(str::to_owned));
    }
    for path in torch.below("torch/lib/") {
        let file = torch.file(path, scratch)?;
        if torchfl_elf::is_elf(&*file) {
            let machine = torchfl_elf::facts(&*file, path)?.machine;
            return Ok(Some(tag::arch(&machine.to_string())));
        }
    }
    Ok(None)
}

fn elf_tag(resolved: &Resolved) -> Tag {
    match resolved.bundle.search_tag {
        SearchTag::Rpath => Tag::Rpath,
        SearchTag::Runpath => Tag::Runpath,
    }
}
