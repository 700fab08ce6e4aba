//! What is judged, put together: the wheel, the torch that it meets and what lies beside them in one site-packages
//! folder, over the target machine's tree.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use torchfl_elf::{Class, Endian, Facts, Machine as ElfMachine};
use torchfl_loader::{Abi, BadFile, Cover, Entry, Files, Object, Process, Settings, Snapshot};
use torchfl_wheel::normalize_name;

use crate::Error;
use crate::build::{Build, Provided};
use crate::dist::Dist;
use crate::policy::{Promise, promised};
use crate::rules::elf::base;
use crate::system::{self, Machine, Word};

/// Where all distributions lie in the model. Its depth does not matter: search paths stay inside.
pub(crate) const SITE: &str = "/site-packages";

/// What is given to an audit.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The torch that the wheel meets: a wheel file, a site-packages folder, or a `torch` folder in one.
    pub torch: Option<PathBuf>,
    /// What is installed beside it: wheel files and site-packages folders.
    pub with: Vec<PathBuf>,
    /// Trees and snapshots of the target machine.
    pub sysroot: Vec<PathBuf>,
    /// A folder for unlinked files: what is unpacked of wheels. Not a memory disk.
    pub scratch: PathBuf,
    /// Threads that read.
    pub threads: usize,
    /// Compare hashes of RECORD too.
    pub hashes: bool,
    /// Refuse what is taken on somebody's word.
    pub require_proof: bool,
    /// Symbols and libraries that may stay unresolved.
    pub allow_unresolved: Vec<String>,
    /// Globs of driver libraries of any vendor, which no wheel may carry.
    pub drivers: Vec<String>,
}

/// An ELF file of the wheel.
pub(crate) struct Elf {
    /// Its path below site-packages.
    pub path: String,
    pub facts: Facts,
}

/// All that is judged.
pub(crate) struct Site {
    pub files: Files,
    pub settings: Settings,
    pub abi: Abi,
    pub promise: Promise,
    pub machine: Machine,
    /// The wheel first, then torch where given, then the others.
    pub dists: Vec<Dist>,
    pub torch: Option<usize>,
    /// The distribution that holds `torch_fl/build.json`.
    pub fl: Option<usize>,
    pub build: Option<Build>,
    /// The wheel's ELF files.
    pub elfs: Vec<Elf>,
    /// Files of the wheel that look like ELF files and are broken, with the reason.
    pub broken: Vec<(String, String)>,
    /// Libraries that stand in for what was not given, by path below site-packages.
    pub stand_ins: BTreeMap<String, Word>,
    pub request: Request,
    owners: HashMap<String, usize>,
}

impl Site {
    pub(crate) fn new(subject: Dist, request: Request) -> Result<Self, Error> {
        let mut dists = vec![subject];
        let torch = request.torch.as_ref().map(|path| torch(path, &request.scratch)).transpose()?;
        let torch = torch.map(|torch| {
            // A torch that is judged itself is not there twice.
            if torch.name != dists[0].name {
                dists.push(torch);
            }
            dists.len() - 1
        });
        let mut shut = Vec::new();
        for path in &request.with {
            for dist in beside(path, &request.scratch)? {
                let known = dists.iter().any(|one| one.name == dist.name);
                if known { shut.push(dist) } else { dists.push(dist) }
            }
        }
        let fl = dists.iter().position(|dist| dist.has("torch_fl/build.json"));
        let build = fl.map(|fl| read_build(&dists[fl])).transpose()?;

        let mut files = Files::new();
        sysroots(&mut files, &request.sysroot)?;
        lay(&mut files, &dists, &shut);
        let (elfs, broken) = elfs(&files, &dists[0], request.threads);
        let tagged = || tag_abi(&dists[0].wheel.as_ref()?.platform);
        let abi = most(&elfs).or_else(tagged).unwrap_or(FALLBACK);
        let glibc = dists[0].wheel.as_ref().and_then(|wheel| tag_glibc(&wheel.platform));
        let arch = abi.machine.to_string().replace('-', "_");
        let promise = promised(glibc.unwrap_or((2, 99)), &arch);
        let host = build.as_ref().map(|build| build.audit.host.clone()).unwrap_or_default();
        let recorded = build.as_ref().map(|build| build.allow_unresolved.clone()).unwrap_or_default();
        let leave: Vec<String> = request.allow_unresolved.iter().cloned().chain(recorded).collect();
        let machine = Machine::new(abi, promise, &host, &leave)?;
        let mut stand_ins = BTreeMap::new();
        if let Some(build) = &build {
            stand_in(&mut files, build, &dists, abi, torch.is_some(), &mut stand_ins);
        }
        let settings = system::settings(&files, abi, &machine)?;
        let mut owners = HashMap::new();
        for (index, dist) in dists.iter().enumerate().rev() {
            owners.extend(dist.files.keys().map(|path| (path.clone(), index)));
        }
        Ok(Self {
            files,
            settings,
            abi,
            promise,
            machine,
            dists,
            torch,
            fl,
            build,
            elfs,
            broken,
            stand_ins,
            request,
            owners,
        })
    }

    /// The wheel that is judged.
    pub(crate) fn subject(&self) -> &Dist {
        &self.dists[0]
    }

    /// Whether the wheel that is judged is `torch_fl` itself; then this is its plan.
    pub(crate) fn own_build(&self) -> Option<&Build> {
        self.build.as_ref().filter(|_| self.fl == Some(0))
    }

    /// Whose file it is.
    pub(crate) fn owner(&self, path: &str) -> Option<&Dist> {
        self.owners.get(path).map(|index| &self.dists[*index])
    }

    /// A process with the interpreter in it, of which it is known what it defines.
    pub(crate) fn interpreter<'f>(&self, files: &'f Files, environment: &Environment) -> Process<'f> {
        let mut settings = self.settings.clone();
        settings.library_path.clone_from(&environment.library_path);
        settings.map_only = environment.map_only;
        let mut process = Process::new(files, settings);
        let python = Object::given("python", self.abi, system::interpreter());
        let libraries: Vec<&str> = system::interpreters_own(&self.promise).collect();
        process.stand_in("python", Arc::new(python), &libraries, self.promise.loader);
        process
    }
}

/// What a process is started with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    /// `LD_LIBRARY_PATH`.
    pub library_path: String,
    /// Symbols are of no interest.
    pub map_only: bool,
}

/// What most of the wheel's files are for: a single one may be of another machine.
fn most(elfs: &[Elf]) -> Option<Abi> {
    let abis: Vec<Abi> = elfs.iter().map(|elf| abi_of(&elf.facts)).collect();
    let count = |abi: &Abi| abis.iter().filter(|other| *other == abi).count();
    abis.iter().copied().max_by_key(count)
}

/// Where the wheel has no library at all and is for any machine, nothing depends on it.
const FALLBACK: Abi = Abi { machine: ElfMachine(62), class: Class::Elf64, endian: Endian::Little };

/// What a platform tag says of a wheel without any library. The numbers are `EM_X86_64` and `EM_AARCH64` of `elf.h`.
fn tag_abi(platform: &str) -> Option<Abi> {
    let known = [("_x86_64", 62), ("_aarch64", 183)];
    let (_, machine) = known.iter().find(|(end, _)| platform.ends_with(end))?;
    Some(Abi { machine: ElfMachine(*machine), ..FALLBACK })
}

pub(crate) fn abi_of(facts: &Facts) -> Abi {
    Abi { machine: facts.machine, class: facts.class, endian: facts.endian }
}

/// A path in the model as people know it: below site-packages, or as it is; without `..`, for there are no links to
/// folders in the site.
pub(crate) fn shown(path: &str) -> String {
    let Some(inner) = path.strip_prefix(SITE) else { return path.to_owned() };
    let mut parts: Vec<&str> = Vec::new();
    for part in inner.split('/').filter(|part| !part.is_empty()) {
        if part != ".." || parts.pop().is_none() {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// The glibc of a platform tag (PEP 600, and the older names for it); the oldest of several.
pub(crate) fn tag_glibc(platform: &str) -> Option<(u32, u32)> {
    let one = |tag: &str| {
        let rest = tag.strip_prefix("manylinux")?;
        match rest {
            _ if rest.starts_with("1_") => Some((2, 5)),
            _ if rest.starts_with("2010_") => Some((2, 12)),
            _ if rest.starts_with("2014_") => Some((2, 17)),
            _ => {
                let mut numbers = rest.strip_prefix('_')?.splitn(3, '_');
                Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
            }
        }
    };
    platform.split('.').filter_map(one).min()
}

/// The wheel to be judged: a file, or the one `torch_fl` that is installed in a folder.
pub(crate) fn subject(path: &Path, scratch: &Path) -> Result<Dist, Error> {
    fs_err::metadata(path).map_err(Error::Io)?;
    if !path.is_dir() {
        return Dist::wheel(path, scratch);
    }
    let mut installed = Dist::installed(&site_of(path))?;
    let named: Vec<String> = installed
        .iter()
        .filter(|dist| dist.name == "torch-fl")
        .filter_map(|dist| dist.info.clone())
        .collect();
    if named.len() > 1 {
        return Err(Error::TwoSubjects { folder: path.to_owned(), infos: named });
    }
    match installed.iter().position(|dist| dist.has("torch_fl/build.json") || dist.name == "torch-fl") {
        Some(at) => Ok(installed.swap_remove(at)),
        None => Err(Error::NoSubject { folder: path.to_owned() }),
    }
}

pub(crate) fn torch(path: &Path, scratch: &Path) -> Result<Dist, Error> {
    fs_err::metadata(path).map_err(Error::Io)?;
    if !path.is_dir() {
        let dist = Dist::wheel(path, scratch)?;
        return if dist.has("torch/version.py") {
            Ok(dist)
        } else {
            Err(Error::NoTorch { path: path.to_owned() })
        };
    }
    let installed = Dist::installed(&site_of(path))?;
    installed
        .into_iter()
        .find(|dist| dist.name == "torch" && (dist.files.is_empty() || dist.has("torch/version.py")))
        .ok_or_else(|| Error::NoTorch { path: path.to_owned() })
}

fn beside(path: &Path, scratch: &Path) -> Result<Vec<Dist>, Error> {
    fs_err::metadata(path).map_err(Error::Io)?;
    if path.is_dir() { Dist::installed(&site_of(path)) } else { Ok(vec![Dist::wheel(path, scratch)?]) }
}

/// The site-packages folder that a folder is, or holds a `torch` or `torch_fl` of.
fn site_of(path: &Path) -> PathBuf {
    let package = path.join("__init__.py").is_file();
    match path.parent().filter(|_| package) {
        Some(parent) => parent.to_owned(),
        None => path.to_owned(),
    }
}

fn sysroots(files: &mut Files, sysroots: &[PathBuf]) -> Result<(), Error> {
    for path in sysroots {
        if path.is_dir() {
            files.root("/", path);
        } else {
            Snapshot::read(path)?.mount(files);
        }
    }
    Ok(())
}

/// Lays the distributions over each other, the first on top. `shut` are those that another one stands for: their
/// files are out of sight.
fn lay(files: &mut Files, dists: &[Dist], shut: &[Dist]) {
    for dist in dists.iter().skip(1) {
        dist.mount(files, SITE);
    }
    let seen: BTreeSet<&str> = dists.iter().flat_map(|dist| dist.files.keys()).map(String::as_str).collect();
    for path in shut.iter().flat_map(Dist::candidates).filter(|path| !seen.contains(path)) {
        files.hide(&format!("{SITE}/{path}"));
    }
    dists[0].mount(files, SITE);
}

pub(crate) fn read_build(dist: &Dist) -> Result<Build, Error> {
    let text = dist.read("torch_fl/build.json")?;
    let build = serde_json::from_slice::<Build>(&text).and_then(Build::checked);
    build.map_err(|source| Error::BuildJson { path: dist.path.clone(), source })
}

/// What the wheel's plan names and was not given is put where it will lie, so that search paths are proved all the
/// same.
fn stand_in(
    files: &mut Files,
    build: &Build,
    dists: &[Dist],
    abi: Abi,
    has_torch: bool,
    stand_ins: &mut BTreeMap<String, Word>,
) {
    let mut put = |path: String, name: &str, cover: Cover, word: Word, files: &mut Files| {
        let at = format!("{SITE}/{path}");
        if matches!(files.entry(&at), Entry::Absent) {
            files.object(&at, Arc::new(Object::given(name, abi, cover)));
            stand_ins.insert(path, word);
        }
    };
    for provided in build.provided.iter().filter(|provided| !is_given(dists, provided)) {
        for name in &provided.libraries {
            put(format!("{}/{name}", provided.dir), name, system::others(), Word::Provided, files);
        }
    }
    if !has_torch {
        for open in build.open.iter().filter(|open| open.from == "front") {
            put(format!("torch/lib/{}", open.name), &open.name, Cover::new(|_, _| true), Word::Front, files);
        }
    }
}

/// Paths of a distribution's ELF files, which are read on the way; one in `torch/lib` that is broken is an error.
pub(crate) fn subject_files(files: &Files, dist: &Dist, threads: usize) -> Result<Vec<String>, Error> {
    let (elfs, broken) = elfs(files, dist, threads);
    match broken.into_iter().find(|(path, _)| path.starts_with("torch/lib/")) {
        Some((path, reason)) => Err(Error::Library { path: dist.path.join(path), source: BadFile(reason) }),
        None => Ok(elfs.into_iter().map(|elf| elf.path).collect()),
    }
}

/// Whether a distribution that brings libraries is there itself: then what it lacks is missing. Of a wheel file without
/// libraries of its own nobody knows whether the wheels that it requires were given too.
fn is_given(dists: &[Dist], provided: &Provided) -> bool {
    let name = normalize_name(&provided.dist);
    let folder = format!("{}/", provided.dir);
    let brings =
        |dist: &Dist| dist.wheel.is_none() || dist.files.keys().any(|file| file.starts_with(&folder));
    dists.iter().any(|dist| dist.name == name && brings(dist))
}

/// Reads the wheel's ELF files, several at a time: those of a wheel file have to be unpacked for it.
fn elfs(files: &Files, dist: &Dist, threads: usize) -> (Vec<Elf>, Vec<(String, String)>) {
    let paths: Vec<&str> = dist.candidates().collect();
    let next = AtomicUsize::new(0);
    let done = Mutex::new((Vec::new(), Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, paths.len().max(1)) {
            scope.spawn(|| {
                while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let Entry::File(entry) = files.entry(&format!("{SITE}/{path}")) else { continue };
                    let Some(bytes) = files.bytes(&entry) else { continue };
                    if !torchfl_elf::is_elf(&*bytes) {
                        // Programs have no ending, and may be scripts.
                        if base(path).contains(".so") {
                            let reason = "invalid ELF header".to_owned();
                            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                            done.1.push(((*path).to_owned(), reason));
                        }
                        continue;
                    }
                    let facts = torchfl_elf::facts(&*bytes, path);
                    // The symbols as well: they are needed anyway, and this is the parallel part.
                    let object = files.library(&entry);
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    match (facts, object) {
                        (Ok(facts), _) if !facts.dynamic => {
                            if base(path).contains(".so") {
                                done.1.push((
                                    (*path).to_owned(),
                                    "object file has no dynamic section".to_owned(),
                                ));
                            }
                        }
                        (Ok(facts), Ok(_)) => done.0.push(Elf { path: (*path).to_owned(), facts }),
                        (Err(error), _) => done.1.push(((*path).to_owned(), error.to_string())),
                        (_, Err(bad)) => done.1.push(((*path).to_owned(), bad.0)),
                    }
                }
            });
        }
    });
    let (mut elfs, mut broken) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    elfs.sort_by(|one, other| one.path.cmp(&other.path));
    broken.sort();
    (elfs, broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_without_libraries_is_for_the_machine_of_its_tag() {
        let machine = |tag: &str| tag_abi(tag).map(|abi| abi.machine.to_string());
        assert_eq!(machine("manylinux_2_17_aarch64").as_deref(), Some("aarch64"));
        assert_eq!(machine("manylinux_2_17_x86_64").as_deref(), Some("x86-64"));
        assert_eq!(machine("any"), None);
    }

    #[test]
    fn glibc_of_platform_tags() {
        assert_eq!(tag_glibc("manylinux_2_28_x86_64"), Some((2, 28)));
        assert_eq!(tag_glibc("manylinux_2_17_x86_64.manylinux2014_x86_64"), Some((2, 17)));
        assert_eq!(tag_glibc("manylinux2014_aarch64"), Some((2, 17)));
        assert_eq!(tag_glibc("linux_x86_64"), None);
    }
}
