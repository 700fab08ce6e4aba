//! A distribution as a set of files, whether it is a wheel, installed in a folder, or about to be written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fs_err as fs;
use torchfl_elf::{FileAt, ReadAt};
use torchfl_loader::Files;
use torchfl_wheel::{Archive, Metadata, Record, RecordRow, WheelName, normalize_name};

use crate::Error;

/// A text file above this size is not one.
const TEXT_LIMIT: u64 = 64 << 20;

/// One distribution. Paths are those below site-packages, with `/` between parts.
pub struct Dist {
    /// The normalised name (PEP 503).
    pub name: String,
    /// The version.
    pub version: String,
    /// The wheel's name; an installed one has none.
    pub wheel: Option<WheelName>,
    /// What it was given as.
    pub path: PathBuf,
    /// `NAME-VERSION.dist-info`.
    pub info: Option<String>,
    /// METADATA.
    pub metadata: Option<Metadata>,
    /// Its files, with their sizes where a list says them.
    pub files: BTreeMap<String, Option<u64>>,
    store: Store,
}

enum Store {
    Wheel {
        archive: Arc<Archive>,
        scratch: PathBuf,
        trouble: Trouble,
    },
    /// The site-packages folder.
    Folder(PathBuf),
    Parts(BTreeMap<String, Arc<dyn ReadAt>>),
}

/// The first error in unpacking a member: what was read after it says nothing about the wheel.
type Trouble = Arc<Mutex<Option<torchfl_wheel::Error>>>;

/// A file of a wheel that is not written yet.
pub struct Part {
    /// Its path below site-packages.
    pub path: String,
    /// Its bytes.
    pub bytes: Arc<dyn ReadAt>,
}

/// Whether a version says that its distribution was generated for tests: a part of its local version is the word.
pub fn is_skeleton(version: &str) -> bool {
    let local = version.split_once('+').map_or("", |(_, local)| local);
    local.split(['.', '-', '_']).any(|part| part.eq_ignore_ascii_case("skeleton"))
}

impl Dist {
    /// A wheel file. Its libraries are unpacked into unlinked files in `scratch` when they are looked at.
    pub fn wheel(path: &Path, scratch: &Path) -> Result<Self, Error> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let wheel: WheelName = name.parse()?;
        // Before it is opened: a FIFO would wait for a writer.
        if fs::metadata(path).is_ok_and(|facts| !facts.is_file()) {
            return Err(Error::Special { path: path.to_owned() });
        }
        let archive = Archive::open(path)?;
        let files = archive.members().iter().filter(|member| !member.name.ends_with('/'));
        let files = files.map(|member| (member.name.clone(), Some(member.size))).collect();
        let info = archive.dist_info()?.to_owned();
        let metadata = archive.metadata()?;
        Ok(Self {
            name: normalize_name(&wheel.distribution),
            version: wheel.version.to_string(),
            wheel: Some(wheel),
            path: path.to_owned(),
            info: Some(info),
            metadata: Some(metadata),
            files,
            store: Store::Wheel {
                archive: Arc::new(archive),
                scratch: scratch.to_owned(),
                trouble: Arc::default(),
            },
        })
    }

    /// A wheel that a build has planned and not written.
    pub fn planned(wheel: WheelName, metadata: Metadata, parts: Vec<Part>) -> Self {
        let files = parts.iter().map(|part| (part.path.clone(), Some(part.bytes.len()))).collect();
        Self {
            name: normalize_name(&wheel.distribution),
            version: wheel.version.to_string(),
            path: PathBuf::from(wheel.to_string()),
            info: Some(wheel.dist_info()),
            metadata: Some(metadata),
            wheel: Some(wheel),
            files,
            store: Store::Parts(parts.into_iter().map(|part| (part.path, part.bytes)).collect()),
        }
    }

    /// All distributions that are installed in a folder. `torch` without any metadata counts as one.
    pub fn installed(site: &Path) -> Result<Vec<Self>, Error> {
        let mut found = Vec::new();
        for entry in fs::read_dir(site).map_err(Error::Io)? {
            let name = entry.map_err(Error::Io)?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".dist-info") && site.join(&name).join("METADATA").is_file() {
                found.push(Self::of_info(site, &name)?);
            }
        }
        found.sort_by(|one, other| one.info.cmp(&other.info));
        for bare in ["torch", "torch_fl"] {
            let known = found.iter().any(|dist| dist.name == normalize_name(bare));
            if !known && site.join(bare).join("__init__.py").is_file() {
                found.push(Self::bare(site, bare)?);
            }
        }
        Ok(found)
    }

    fn of_info(site: &Path, info: &str) -> Result<Self, Error> {
        let text = text_of(&site.join(info).join("METADATA"))?;
        let metadata = Metadata::parse(&text, &format!("{}/{info}/METADATA", site.display()))?;
        let record = site.join(info).join("RECORD");
        let listed = record.symlink_metadata().is_ok();
        let rows = if listed {
            Record::parse(&text_of(&record)?, &record.to_string_lossy())?.rows
        } else {
            Vec::new()
        };
        let mut files: BTreeMap<String, Option<u64>> =
            rows.into_iter().filter(inside).map(|row| (row.path, row.size)).collect();
        // Distributions of the system's package manager have no list: what lies in the package's folder is theirs.
        let package = metadata.normalized_name().replace('-', "_");
        if files.is_empty() && site.join(&package).is_dir() {
            walk(&site.join(&package), &package, &mut files)?;
        }
        Ok(Self {
            name: metadata.normalized_name(),
            version: metadata.get("Version").unwrap_or_default().to_owned(),
            wheel: None,
            path: site.to_owned(),
            info: Some(info.to_owned()),
            metadata: Some(metadata),
            files,
            store: Store::Folder(site.to_owned()),
        })
    }

    /// A package of which only the files are there.
    fn bare(site: &Path, name: &str) -> Result<Self, Error> {
        let mut files = BTreeMap::new();
        walk(&site.join(name), name, &mut files)?;
        Ok(Self {
            name: normalize_name(name),
            version: String::new(),
            wheel: None,
            path: site.to_owned(),
            info: None,
            metadata: None,
            files,
            store: Store::Folder(site.to_owned()),
        })
    }

    /// An error in unpacking, if there was one since it was asked for last.
    pub(crate) fn trouble(&self) -> Result<(), Error> {
        let Store::Wheel { trouble, .. } = &self.store else { return Ok(()) };
        let error = trouble.lock().unwrap_or_else(PoisonError::into_inner).take();
        error.map_or(Ok(()), |error| Err(Error::Wheel(error)))
    }

    /// The name that findings about the distribution as a whole carry.
    pub(crate) fn file_name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Whether there is such a file.
    pub fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// A file's bytes, of at most 64 MiB.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        match &self.store {
            Store::Wheel { archive, .. } => Ok(archive.read(path, TEXT_LIMIT)?),
            Store::Folder(site) => text_of(&site.join(path)),
            Store::Parts(parts) => {
                let missing = || std::io::Error::new(std::io::ErrorKind::NotFound, path.to_owned());
                let part = parts.get(path).ok_or_else(missing).map_err(Error::Io)?;
                let mut bytes = vec![0; part.len().min(TEXT_LIMIT) as usize];
                part.read_exact_at(0, &mut bytes).map_err(Error::Io)?;
                Ok(bytes)
            }
        }
    }

    /// RECORD, where there is one.
    pub fn record(&self) -> Result<Option<Record>, Error> {
        let Some(path) =
            self.info.as_ref().map(|info| format!("{info}/RECORD")).filter(|path| self.has(path))
        else {
            return Ok(None);
        };
        let text = self.read(&path)?;
        Ok(Some(Record::parse(&text, &format!("{}: {path}", self.path.display()))?))
    }

    /// The wheel's archive, if it is a wheel file.
    pub fn archive(&self) -> Option<&Archive> {
        match &self.store {
            Store::Wheel { archive, .. } => Some(archive),
            _ => None,
        }
    }

    /// A file's place on this machine's disk, if it is installed.
    pub fn on_disk(&self, path: &str) -> Option<PathBuf> {
        match &self.store {
            Store::Folder(site) => Some(site.join(path)),
            _ => None,
        }
    }

    /// Paths that may be ELF files, by their names.
    pub fn candidates(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str).filter(|path| may_be_elf(path))
    }

    /// First parts of the paths: what it adds to site-packages.
    pub fn top_level(&self) -> BTreeSet<&str> {
        self.files.keys().filter_map(|path| path.split('/').next()).collect()
    }

    /// Lays the distribution's libraries over the folder `at`.
    pub fn mount(&self, files: &mut Files, at: &str) {
        match &self.store {
            Store::Wheel { archive, scratch, trouble } => {
                for path in self.candidates() {
                    let len = self.files.get(path).copied().flatten().unwrap_or(0);
                    let member = Member {
                        archive: archive.clone(),
                        name: path.to_owned(),
                        scratch: scratch.clone(),
                        trouble: trouble.clone(),
                        len,
                        file: OnceLock::new(),
                    };
                    files.file(&format!("{at}/{path}"), Arc::new(member));
                }
            }
            Store::Folder(site) => {
                for top in self.top_level().into_iter().filter(|top| !top.ends_with(".dist-info")) {
                    if site.join(top).is_dir() {
                        files.folder(&format!("{at}/{top}"), &site.join(top));
                    }
                }
            }
            Store::Parts(parts) => {
                for path in self.candidates() {
                    if let Some(bytes) = parts.get(path) {
                        files.file(&format!("{at}/{path}"), bytes.clone());
                    }
                }
            }
        }
    }
}

/// A text file's bytes; an error where it is none, or larger than any such file.
fn text_of(path: &Path) -> Result<Vec<u8>, Error> {
    let file = FileAt::open(path).map_err(Error::Io)?;
    if file.len() > TEXT_LIMIT {
        return Err(Error::TooLarge { path: path.to_owned(), limit: TEXT_LIMIT });
    }
    let mut bytes = vec![0; file.len() as usize];
    file.read_exact_at(0, &mut bytes).map_err(Error::Io)?;
    Ok(bytes)
}

/// Whether a RECORD's row lies in site-packages, and is no cache of the interpreter.
fn inside(row: &RecordRow) -> bool {
    !row.path.starts_with("../") && !row.path.starts_with('/') && !row.path.contains("__pycache__/")
}

/// `libx.so`, `libx.so.1.2`, and programs, which have no ending.
fn may_be_elf(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let versioned =
        name.split_once(".so.").is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()));
    let library = name.rsplit_once('.').is_some_and(|(_, ending)| ending == "so");
    library || versioned || path.contains("/bin/") || path.contains(".data/scripts/")
}

fn walk(folder: &Path, name: &str, files: &mut BTreeMap<String, Option<u64>>) -> Result<(), Error> {
    for entry in fs::read_dir(folder).map_err(Error::Io)? {
        let entry = entry.map_err(Error::Io)?;
        let inner = format!("{name}/{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type().map_err(Error::Io)?;
        if kind.is_dir() {
            walk(&entry.path(), &inner, files)?;
        } else {
            files.insert(inner, None);
        }
    }
    Ok(())
}

/// A wheel's member that is unpacked when somebody reads it.
struct Member {
    archive: Arc<Archive>,
    name: String,
    scratch: PathBuf,
    trouble: Trouble,
    len: u64,
    file: OnceLock<Option<FileAt>>,
}

impl Member {
    fn unpack(&self) -> Option<FileAt> {
        let file = self.archive.spool(&self.name, &self.scratch).map_err(|error| {
            let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
            trouble.get_or_insert(error);
        });
        FileAt::new(file.ok()?).ok()
    }
}

impl ReadAt for Member {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        match self.file.get_or_init(|| self.unpack()) {
            Some(file) => file.read_exact_at(offset, buf),
            None => Err(std::io::Error::other("cannot be unpacked")),
        }
    }
}
