//! Everything that a build decides, before it writes anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;

use serde::Serialize;
use torchfl_elf::{Edit, FileAt, Tag};
use torchfl_manifest::resolve::{Open, OpenFrom};
use torchfl_manifest::{Front, Manifest, Resolved, SearchTag};
use torchfl_wheel::{Metadata, MetadataVersion, Requirement, Version, WheelName};

use crate::build_json::{BuildJson, Input};
use crate::licences::{self, Licence};
use crate::requires::{self, Wanted};
use crate::steps::{self, Facts};
use crate::{Error, Library, Proof, Shim, Tree, VersionPy, libraries, overlay, prove, shim, tag, tree};

/// What to build.
#[derive(Debug, Clone)]
pub struct Request {
    /// The vendor's manifest.
    pub manifest: Manifest,
    /// Its file name and text, which are an input of the wheel.
    pub manifest_text: (String, String),
    /// The vendor's torch: a wheel file or an installed folder.
    pub torch: PathBuf,
    /// The stock torch that the wheel will meet.
    pub front: Option<PathBuf>,
    /// The plugin's library.
    pub plugin: Option<PathBuf>,
    /// `cp311`; by default the vendor's torch says it.
    pub python: Option<String>,
    /// The SDK's place on the target machine.
    pub sdk_root: Option<PathBuf>,
    /// The version's local part.
    pub local: Option<String>,
    /// `.postN`.
    pub post: Option<u32>,
    /// METADATA's version.
    pub metadata_version: MetadataVersion,
    /// Parts that may come without a licence.
    pub allow_unlicensed: Vec<String>,
    /// What is installed beside the wheel: wheels and site-packages folders.
    pub with: Vec<PathBuf>,
    /// Trees and snapshots of the target machine.
    pub sysroot: Vec<PathBuf>,
    /// Globs of driver libraries of any vendor, which no wheel may carry.
    pub drivers: Vec<String>,
    /// Refuse what would be taken on somebody's word.
    pub require_proof: bool,
    /// Symbols and libraries that may stay unresolved.
    pub allow_unresolved: Vec<String>,
    /// A folder for unlinked files: libraries inflated out of a wheel, as large as the bundle. Not a memory disk.
    pub scratch: PathBuf,
    /// Threads that inflate.
    pub threads: usize,
    /// The C compiler of shims; by default the usual one of the wheel's machine.
    pub cc: Option<PathBuf>,
}

impl Request {
    /// A build with nothing else said about it.
    pub fn new(
        manifest: Manifest,
        manifest_text: (String, String),
        torch: PathBuf,
        scratch: PathBuf,
    ) -> Self {
        Self {
            manifest,
            manifest_text,
            torch,
            front: None,
            plugin: None,
            python: None,
            sdk_root: None,
            local: None,
            post: None,
            metadata_version: MetadataVersion::V2_4,
            allow_unlicensed: Vec::new(),
            with: Vec::new(),
            sysroot: Vec::new(),
            drivers: Vec::new(),
            require_proof: false,
            allow_unresolved: Vec::new(),
            scratch,
            threads: 1,
            cc: None,
        }
    }
}

/// A decided build: what `--dry-run` prints and [`Plan::write`] carries out.
#[derive(Debug, Serialize)]
pub struct Plan {
    /// File name of the wheel.
    pub wheel: String,
    /// The bundle's libraries.
    pub libraries: Vec<Library>,
    /// Those of them that are generated.
    pub shims: Vec<Shim>,
    /// Headers and CMake files that lie over the stock ones, below site-packages.
    pub overlay: Vec<String>,
    /// `Requires-Dist` lines.
    pub requires: Vec<String>,
    /// Licence files, below `dist-info/licenses/`.
    pub licences: Vec<String>,
    /// What the bootstrap will do.
    pub build_json: BuildJson,
    /// What people should know before they build.
    pub notes: Vec<String>,
    /// What was proved, and what was not.
    pub proof: Proof,
    #[serde(skip)]
    pub(crate) parts: Parts,
}

/// What the writer needs beside what people need to see.
#[derive(Debug)]
pub(crate) struct Parts {
    pub name: WheelName,
    pub title: String,
    pub torch: Arc<Tree>,
    pub plugin: Option<Library>,
    pub licence_files: Vec<Licence>,
    pub licence_expression: Option<String>,
    pub metadata_version: MetadataVersion,
    pub requires_python: Option<String>,
}

/// What a plan starts from: the manifest for this torch, and the files that it names.
pub(crate) struct Start {
    pub torch: Arc<Tree>,
    pub version: VersionPy,
    pub python: String,
    pub resolved: Resolved,
    pub front: Option<Tree>,
    pub edit: Edit,
    /// Names and origins of the bundle's libraries.
    pub chosen: BTreeMap<String, String>,
    pub libraries: Vec<Library>,
    pub plugin: Option<Library>,
}

/// Reads what a build is made of.
pub(crate) fn start(request: &Request) -> Result<Start, Error> {
    let torch = Arc::new(Tree::open(&request.torch)?);
    let version = VersionPy::of(&torch)?;
    let python = python(request, &torch)?;
    let resolved = torchfl_manifest::resolve(
        &request.manifest,
        &torchfl_manifest::Request {
            python: Some(python.clone()),
            arch: arch_of(&torch, &request.scratch)?,
            sdk_root: request.sdk_root.clone(),
            local: request.local.clone(),
            post: request.post,
        },
    )?;
    fits(&resolved, &torch, &version)?;
    served(&resolved)?;
    let front = request.front.as_deref().map(|path| front(path, &resolved)).transpose()?;

    let edit = Edit::Set { tag: elf_tag(&resolved), value: resolved.bundle.search_path_value() };
    let chosen = libraries::select(&resolved, &torch)?;
    let libraries = libraries::prepare(&chosen, &torch, &edit, &request.scratch, request.threads)?;
    let plugin = request.plugin.as_deref().map(|path| plugin(path, &resolved)).transpose()?;
    Ok(Start { torch, version, python, resolved, front, edit, chosen, libraries, plugin })
}

/// Decides a build.
pub fn plan(request: &Request) -> Result<Plan, Error> {
    let start = start(request)?;
    let (shims, mut notes) = shim::resolve(request, &start)?;
    let generated = shim::libraries(&shims, request, &start)?;
    let Start { torch, version, python, resolved, front, chosen, mut libraries, plugin, .. } = start;
    opened_from_front(&resolved, front.as_ref())?;
    libraries.extend(generated.libraries);
    libraries.sort_by(|one, other| one.name.cmp(&other.name));
    libraries::one_of_each_name(&libraries)?;
    notes.splice(0..0, self::notes(request));

    let bound = libraries.iter().chain(&plugin).any(|l| l.python);
    let with_plugin: Vec<Library> = libraries.iter().chain(&plugin).cloned().collect();
    let (python_tag, abi) = if bound { (python.as_str(), python.as_str()) } else { ("py3", "none") };
    let platform = tag::platform(&resolved, &with_plugin)?;
    let name = WheelName::new("torch_fl", version_of(&resolved)?, python_tag, abi, &platform)?;

    let overlay = overlay::differing(&torch, front.as_ref())?;
    let vendor_metadata = torch.metadata()?.map(|text| Metadata::parse(&text, &torch.name)).transpose()?;
    let vendor_requires =
        vendor_metadata.as_ref().map(Metadata::requires_dist).transpose()?.unwrap_or_default();
    let requires = requirements(&resolved, &vendor_requires, &torch)?;
    let triton = requires::triton(resolved.triton.as_ref(), &vendor_requires, &torch.path)?;
    let mut allowed = Vec::new();
    let licence_files = licence_files(&torch, request, &mut allowed)?;
    let inputs = inputs(request, &torch, &version, front.as_ref(), &chosen, &overlay)?;
    let build_json = steps::resolve(Facts {
        resolved: &resolved,
        version: &version,
        torch: &torch,
        libraries: &libraries,
        plugin: plugin.as_ref(),
        requires: &requires,
        python: bound.then(|| python.replacen("cp", "cpython-", 1)),
        overlay: !overlay.is_empty(),
        inputs,
        allowed,
        compiler: generated.compiler.as_ref(),
    })?;
    let mut lines = vec![format!("torch=={}", resolved.torch.release)];
    lines.extend(requires.into_values().flatten());
    lines.extend(triton);
    lines.sort();
    lines.dedup();
    let mut plan = Plan {
        wheel: name.to_string(),
        overlay: overlay.iter().map(|p| (*p).to_owned()).collect(),
        requires: lines,
        licences: licence_files.iter().map(|l| l.to.clone()).collect(),
        build_json,
        notes,
        proof: Proof::default(),
        parts: Parts {
            name,
            title: resolved.title.clone(),
            plugin,
            licence_files,
            licence_expression: vendor_metadata
                .as_ref()
                .and_then(|m| m.get("License-Expression").map(str::to_owned)),
            metadata_version: request.metadata_version,
            requires_python: vendor_metadata
                .as_ref()
                .and_then(|m| m.get("Requires-Python").map(str::to_owned)),
            torch,
        },
        libraries,
        shims,
    };
    prove::prove(&mut plan, request)?;
    Ok(plan)
}

/// What people should know before they build.
fn notes(request: &Request) -> Vec<String> {
    let plugin = "no plugin given: the wheel carries none, and the `flagos` device is not registered";
    let front = "no --front given: all of the fork's headers are bundled, not only those that differ";
    let said = [(request.plugin.is_none(), plugin), (request.front.is_none(), front)];
    said.into_iter().filter(|(missing, _)| *missing).map(|(_, note)| note.to_owned()).collect()
}

/// The Python that the vendor's torch is built for, or the one asked for.
fn python(request: &Request, torch: &Tree) -> Result<String, Error> {
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
        (Some(wanted), _) => Ok(wanted.clone()),
        (None, Some(found)) => Ok(found),
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

/// Refuses what the manifest asks for and this packager does not do yet: a wheel without it would not load.
fn served(resolved: &Resolved) -> Result<(), Error> {
    match resolved.provided.iter().find(|provided| provided.dir.is_none()) {
        None => Ok(()),
        Some(provided) => Err(Error::NoFolder { dist: provided.dist.clone() }),
    }
}

/// The stock torch, which must be what the bootstrap will accept.
fn front(path: &Path, resolved: &Resolved) -> Result<Tree, Error> {
    let tree = Tree::open(path)?;
    let version = VersionPy::of(&tree)?;
    if version.release() != resolved.torch.release {
        return Err(Error::FrontRelease {
            path: path.to_owned(),
            found: version.get("__version__").unwrap_or_default().to_owned(),
            wanted: resolved.torch.release.clone(),
        });
    }
    if resolved.torch.front == Front::Cpu && !version.is_cpu() {
        return Err(Error::NotStock { path: path.to_owned() });
    }
    Ok(tree)
}

/// The plugin finds the bundle's libraries open; its own path names only their folder, never a build machine's.
fn plugin(path: &Path, resolved: &Resolved) -> Result<Library, Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = FileAt::open(path)?;
    let value = format!("$ORIGIN:$ORIGIN/../{}", resolved.bundle.dir);
    let edit = Edit::Set { tag: elf_tag(resolved), value };
    libraries::planned(&name, &path.to_string_lossy(), Arc::new(file), &edit)
}

/// What is opened from the installed torch must be in it.
fn opened_from_front(resolved: &Resolved, front: Option<&Tree>) -> Result<(), Error> {
    let Some(front) = front else { return Ok(()) };
    let from_front = |open: &&Open| open.from == OpenFrom::Front;
    match resolved
        .bundle
        .open
        .iter()
        .filter(from_front)
        .find(|open| !front.has(&format!("torch/lib/{}", open.name)))
    {
        None => Ok(()),
        Some(open) => Err(Error::FrontLacks { path: front.path.clone(), name: open.name.clone() }),
    }
}

/// The machine that the vendor's torch is for: a wheel's name says it, of a folder the first library does.
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

fn version_of(resolved: &Resolved) -> Result<Version, Error> {
    Version::from_str(&resolved.version)
        .map_err(|error| Error::Version { version: resolved.version.clone(), message: error.to_string() })
}

/// The requirements of each provided distribution, by its name.
fn requirements(
    resolved: &Resolved,
    vendor: &[Requirement],
    torch: &Tree,
) -> Result<BTreeMap<String, Vec<String>>, Error> {
    let wanted: Vec<_> =
        resolved.provided.iter().map(|p| Wanted { dist: &p.dist, version: p.version.as_deref() }).collect();
    let lines = requires::provided(&wanted, vendor, &torch.path)?;
    Ok(resolved.provided.iter().map(|p| p.dist.clone()).zip(lines).collect())
}

/// Licence files of every part; a part without one is an error, or is allowed by name and recorded.
fn licence_files(torch: &Tree, request: &Request, allowed: &mut Vec<String>) -> Result<Vec<Licence>, Error> {
    // The plugin is this project's own, and comes under its licence.
    let part = "torch";
    let files = licences::of(torch, part);
    if let Some(part) = request.allow_unlicensed.iter().find(|name| *name != part) {
        return Err(Error::NoSuchPart { part: part.clone() });
    }
    if files.is_empty() {
        if request.allow_unlicensed.is_empty() {
            return Err(Error::Unlicensed { part: part.to_owned() });
        }
        allowed.push(part.to_owned());
    }
    Ok(files)
}

fn inputs(
    request: &Request,
    torch: &Tree,
    version: &VersionPy,
    front: Option<&Tree>,
    chosen: &BTreeMap<String, String>,
    overlay: &[&str],
) -> Result<Vec<Input>, Error> {
    let input =
        |role: &str, name: &str, sha256: String| Input { role: role.into(), name: name.into(), sha256 };
    // A folder's name is its machine's business; what it holds is not.
    let name = |tree: &Tree, version: &VersionPy| match &tree.wheel {
        Some(_) => tree.name.clone(),
        None => format!("torch {}", version.get("__version__").unwrap_or_default()),
    };
    let used: BTreeSet<&str> = chosen
        .values()
        .map(String::as_str)
        .chain(overlay.iter().copied())
        .chain(["torch/version.py"])
        .collect();
    let (manifest, text) = &request.manifest_text;
    let mut inputs = vec![
        input("manifest", manifest, tree::sha256(text.as_bytes())),
        input("torch", &name(torch, version), torch.sha256(used.into_iter())?),
    ];
    if let Some(front) = front {
        let compared: Vec<&str> =
            ["torch/include/", "torch/share/cmake/"].iter().flat_map(|f| front.below(f)).collect();
        let compared = compared.into_iter().chain(["torch/version.py"]);
        inputs.push(input("front", &name(front, &VersionPy::of(front)?), front.sha256(compared)?));
    }
    if let Some(path) = &request.plugin {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        inputs.push(input("plugin", &file, tree::sha256_file(path)?));
    }
    Ok(inputs)
}
