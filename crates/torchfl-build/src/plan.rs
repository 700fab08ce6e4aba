//! Everything that a build decides, before it writes anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;

use serde::Serialize;
use torchfl_audit::is_skeleton;
use torchfl_manifest::resolve::{Open, OpenFrom};
use torchfl_manifest::{Manifest, Resolved};
use torchfl_wheel::{Metadata, MetadataVersion, Requirement, Version, WheelName};

use crate::build_json::{BuildJson, Input};
use crate::licences::{self, Licence};
use crate::plugin::PluginSource;
use crate::requires::{self, Wanted};
use crate::start::{Start, start};
use crate::steps::{self, Facts};
use crate::{
    Error, Library, Proof, Shim, Tree, VersionPy, libraries, overlay, package, prove, shim, tag, tree,
};

/// What to build.
#[derive(Debug, Clone)]
pub struct Request {
    /// The vendor's manifest.
    pub manifest: Manifest,
    /// Its file name and text, which are an input of the wheel.
    pub manifest_text: (String, String),
    /// The vendor's torch: a wheel file or an installed folder. None where the manifest's swap is `none`.
    pub torch: Option<PathBuf>,
    /// The torch that the wheel will meet.
    pub front: Option<PathBuf>,
    /// The plugin's library.
    pub plugin: Option<PathBuf>,
    /// The plugin's source, to build it from where no library is given.
    pub plugin_source: Option<PluginSource>,
    /// `cp311`; by default the vendor's torch says it, or the one that is met.
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
        torch: Option<PathBuf>,
        scratch: PathBuf,
    ) -> Self {
        Self {
            manifest,
            manifest_text,
            torch,
            front: None,
            plugin: None,
            plugin_source: None,
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
    /// The version of the torch that is met, where that is a skeleton.
    pub front_skeleton: Option<String>,
}

/// Decides a build.
pub fn plan(request: &Request) -> Result<Plan, Error> {
    let start = start(request)?;
    let (shims, mut notes) = shim::resolve(request, &start)?;
    let generated = shim::libraries(&shims, request, &start)?;
    let Start { torch, version, python, resolved, front, skeletons, chosen, mut libraries, .. } = start;
    let (plugin, built_for) = (start.plugin, start.built_for);
    opened_from_front(&resolved, front.as_ref().map(|(front, _)| front))?;
    libraries.extend(generated.libraries);
    libraries.sort_by(|one, other| one.name.cmp(&other.name));
    libraries::one_of_each_name(&libraries)?;
    notes.splice(0..0, self::notes(request, &torch));

    let bound = libraries.iter().chain(&plugin).any(|l| l.python);
    let bound = bound.then(|| python.ok_or_else(|| no_python(request))).transpose()?;
    let (python_tag, abi) = bound.as_deref().map_or(("py3", "none"), |python| (python, python));
    let platform = tag::platform(&resolved, &libraries, plugin.as_ref(), &mut notes)?;
    let name = WheelName::new("torch_fl", version_of(&resolved)?, python_tag, abi, &platform)?;

    let overlay = overlay::differing(&torch, front.as_ref().map(|(front, _)| front))?;
    // Where nothing is taken of a torch, the one that is met says what its users need.
    let known = if torch.is_nothing() { front.as_ref().map(|(front, _)| front) } else { Some(&*torch) };
    let said = known.map(metadata).transpose()?.flatten();
    let said_by = known.map_or_else(PathBuf::new, |torch| torch.path.clone());
    let vendor_requires = said.as_ref().map(Metadata::requires_dist).transpose()?.unwrap_or_default();
    let requires = requirements(&resolved, &vendor_requires, &said_by)?;
    let triton = requires::triton(resolved.triton.as_ref(), &vendor_requires, &said_by)?;
    let mut allowed = Vec::new();
    let licence_files = licence_files(&torch, request, &mut allowed)?;
    let mut inputs = inputs(request, &torch, &version, front.as_ref(), &chosen, &overlay)?;
    if let Some(path) = &start.plugin_path {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        inputs.push(Input { role: "plugin".into(), name, sha256: tree::sha256_file(path)? });
    }
    let build_json = steps::resolve(Facts {
        resolved: &resolved,
        version: &version,
        torch: &torch,
        libraries: &libraries,
        plugin: plugin.as_ref(),
        built_for: built_for.as_ref(),
        requires: &requires,
        python: bound.map(|python| python.replacen("cp", "cpython-", 1)),
        overlay: !overlay.is_empty(),
        skeletons: &skeletons,
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
            licence_expression: if torch.is_nothing() {
                Some(package::EXPRESSION.to_owned())
            } else {
                said.as_ref().and_then(|m| m.get("License-Expression").map(str::to_owned))
            },
            metadata_version: request.metadata_version,
            requires_python: said.as_ref().and_then(|m| m.get("Requires-Python").map(str::to_owned)),
            front_skeleton: front.as_ref().and_then(|(_, version)| {
                version.get("__version__").filter(|version| is_skeleton(version)).map(str::to_owned)
            }),
            torch,
        },
        libraries,
        shims,
    };
    prove::prove(&mut plan, request)?;
    Ok(plan)
}

/// What people should know before they build.
fn notes(request: &Request, torch: &Tree) -> Vec<String> {
    let plugin = "no plugin given: the wheel carries none, and the `flagos` device is not registered";
    let front = "no --front given: all of the fork's headers are bundled, not only those that differ";
    let headers = request.front.is_none() && !torch.is_nothing();
    let without = request.plugin.is_none() && request.plugin_source.is_none();
    let said = [(without, plugin), (headers, front)];
    said.into_iter().filter(|(missing, _)| *missing).map(|(_, note)| note.to_owned()).collect()
}

/// Of all parts only a plugin comes without a torch.
fn no_python(request: &Request) -> Error {
    Error::PluginPython { plugin: request.plugin.clone().unwrap_or_default() }
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

fn version_of(resolved: &Resolved) -> Result<Version, Error> {
    Version::from_str(&resolved.version)
        .map_err(|error| Error::Version { version: resolved.version.clone(), message: error.to_string() })
}

/// What a torch's METADATA says.
fn metadata(torch: &Tree) -> Result<Option<Metadata>, Error> {
    Ok(torch.metadata()?.map(|text| Metadata::parse(&text, &torch.name)).transpose()?)
}

/// The requirements of each provided distribution, by its name.
fn requirements(
    resolved: &Resolved,
    vendor: &[Requirement],
    vendor_path: &Path,
) -> Result<BTreeMap<String, Vec<String>>, Error> {
    let wanted: Vec<_> =
        resolved.provided.iter().map(|p| Wanted { dist: &p.dist, version: p.version.as_deref() }).collect();
    let lines = requires::provided(&wanted, vendor, vendor_path)?;
    Ok(resolved.provided.iter().map(|p| p.dist.clone()).zip(lines).collect())
}

/// Licence files of every part; a part without one is an error, or is allowed by name and recorded.
fn licence_files(torch: &Tree, request: &Request, allowed: &mut Vec<String>) -> Result<Vec<Licence>, Error> {
    // The plugin is this project's own, and comes under its licence.
    let part = "torch";
    let files = licences::of(torch, part);
    if let Some(part) = request.allow_unlicensed.iter().find(|name| torch.is_nothing() || *name != part) {
        return Err(Error::NoSuchPart { part: part.clone() });
    }
    if files.is_empty() && !torch.is_nothing() {
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
    front: Option<&(Tree, VersionPy)>,
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
    let mut inputs = vec![input("manifest", manifest, tree::sha256(text.as_bytes()))];
    if !torch.is_nothing() {
        inputs.push(input("torch", &name(torch, version), torch.sha256(used.into_iter())?));
    }
    if let Some((front, version)) = front {
        let compared: Vec<&str> =
            ["torch/include/", "torch/share/cmake/"].iter().flat_map(|f| front.below(f)).collect();
        let compared = compared.into_iter().chain(["torch/version.py"]);
        inputs.push(input("front", &name(front, version), front.sha256(compared)?));
    }
    Ok(inputs)
}
