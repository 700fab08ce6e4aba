//! A torch as a set of files, whether it came as a wheel or as an installed folder.
//!
//! Paths are those below site-packages (`torch/lib/libc10.so`), with `/` between parts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err as fs;
use sha2::{Digest, Sha256};
use torchfl_elf::FileAt;
use torchfl_wheel::{Archive, Tag, Version, WheelFile, WheelName, normalize_name};

use crate::{Error, VersionPy};

/// A text file of a torch (`version.py`, METADATA, a header) above this size is not one.
const TEXT_LIMIT: u64 = 16 << 20;

/// One torch distribution: the vendor's, or the stock one that the wheel will meet.
pub struct Tree {
    /// What the user named.
    pub path: PathBuf,
    /// File name of the wheel, or of the folder.
    pub name: String,
    /// The wheel's tags; an installed folder has none.
    pub wheel: Option<WheelName>,
    files: BTreeMap<String, u64>,
    store: Store,
}

enum Store {
    Nothing,
    Wheel(Box<Archive>),
    /// The folder that holds `torch/`.
    Folder(PathBuf),
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tree").field(&self.path).finish()
    }
}

impl Tree {
    /// Opens a wheel file, a site-packages folder, or a `torch` folder inside one.
    pub fn open(path: &Path) -> Result<Self, Error> {
        match fs::metadata(path).map_err(Error::Io)? {
            facts if facts.is_dir() => Self::folder(path),
            facts if facts.is_file() => Self::archive(path),
            // Never opened: a FIFO would wait for a writer.
            _ => Err(Error::Special { path: path.to_owned() }),
        }
    }

    /// No torch at all: where nothing is taken of one.
    pub(crate) fn nothing() -> Self {
        Self {
            path: PathBuf::new(),
            name: String::new(),
            wheel: None,
            files: BTreeMap::new(),
            store: Store::Nothing,
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self.store, Store::Nothing)
    }

    fn archive(path: &Path) -> Result<Self, Error> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let wheel = name.parse::<WheelName>()?;
        let archive = Archive::open(path)?;
        check_name(&archive, &wheel)?;
        let files = archive
            .members()
            .iter()
            .filter(|m| !m.name.ends_with('/'))
            .map(|m| (m.name.clone(), m.size))
            .collect();
        Self::checked(Self {
            path: path.to_owned(),
            name,
            wheel: Some(wheel),
            files,
            store: Store::Wheel(Box::new(archive)),
        })
    }

    fn folder(path: &Path) -> Result<Self, Error> {
        let real = fs::canonicalize(path).map_err(Error::Io)?;
        let site = match real.parent() {
            Some(parent) if real.join("version.py").is_file() && real.ends_with("torch") => parent.to_owned(),
            _ => real,
        };
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(&site).map_err(Error::Io)? {
            let entry = entry.map_err(Error::Io)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // `torch.libs` is where wheel repair tools put what they bring along.
            if name == "torch"
                || name == "torch.libs"
                || name.starts_with("torch-") && name.ends_with(".dist-info")
            {
                walk(&entry.path(), &name, &mut files, &mut Vec::new())?;
            }
        }
        let name = site.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self::checked(Self { path: path.to_owned(), name, wheel: None, files, store: Store::Folder(site) })
    }

    fn checked(self) -> Result<Self, Error> {
        if self.has("torch/version.py") { Ok(self) } else { Err(Error::NotTorch { path: self.path }) }
    }

    /// Whether there is such a file.
    pub fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// A file's size in bytes.
    pub fn size(&self, path: &str) -> Option<u64> {
        self.files.get(path).copied()
    }

    /// All files below `folder` (which ends in `/`), sorted.
    pub fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> {
        self.files
            .range(folder.to_owned()..)
            .map(|(n, _)| n.as_str())
            .take_while(move |n| n.starts_with(folder))
    }

    /// All files, sorted.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// The folder that holds `torch/`; a wheel has none.
    pub(crate) fn site(&self) -> Option<&Path> {
        match &self.store {
            Store::Folder(site) => Some(site),
            Store::Nothing | Store::Wheel(_) => None,
        }
    }

    /// A small file's content.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        match &self.store {
            Store::Nothing => Err(Error::NotTorch { path: self.path.clone() }),
            Store::Wheel(archive) => Ok(archive.read(path, TEXT_LIMIT)?),
            Store::Folder(site) => {
                let mut bytes = Vec::new();
                let file = fs::File::open(site.join(path)).map_err(Error::Io)?;
                file.take(TEXT_LIMIT + 1).read_to_end(&mut bytes).map_err(Error::Io)?;
                if bytes.len() as u64 > TEXT_LIMIT {
                    return Err(Error::TooLarge { path: site.join(path), limit: TEXT_LIMIT });
                }
                Ok(bytes)
            }
        }
    }

    /// A small file's content as text.
    pub fn text(&self, path: &str) -> Result<String, Error> {
        String::from_utf8(self.read(path)?)
            .map_err(|_| Error::NotText { tree: self.path.clone(), path: path.to_owned() })
    }

    /// A file open for random access. A wheel's member is inflated once, into an unlinked file in `scratch`.
    pub fn file(&self, path: &str, scratch: &Path) -> Result<Arc<FileAt>, Error> {
        let file = match &self.store {
            Store::Nothing => return Err(Error::NotTorch { path: self.path.clone() }),
            Store::Wheel(archive) => archive.spool(path, scratch)?,
            Store::Folder(site) => fs::File::open(site.join(path)).map_err(Error::Io)?.into_parts().0,
        };
        Ok(Arc::new(FileAt::new(file).map_err(Error::Io)?))
    }

    /// What a file is, where two names may be links to one: its real path. Members of a wheel are files of their own.
    pub(crate) fn real(&self, path: &str) -> PathBuf {
        match &self.store {
            Store::Nothing | Store::Wheel(_) => PathBuf::from(path),
            Store::Folder(site) => fs::canonicalize(site.join(path)).unwrap_or_else(|_| site.join(path)),
        }
    }

    /// The distribution's own `METADATA`, if it is there.
    pub fn metadata(&self) -> Result<Option<Vec<u8>>, Error> {
        self.dist_info().map(|folder| self.read(&format!("{folder}METADATA"))).transpose()
    }

    /// `torch-….dist-info/`, of the version that `version.py` names: an upgrade may have left another one.
    pub fn dist_info(&self) -> Option<String> {
        let version = VersionPy::of(self).ok()?;
        let own = format!("torch-{}.dist-info/METADATA", version.get("__version__")?);
        let is = |n: &&str| n.starts_with("torch-") && n.ends_with(".dist-info/METADATA");
        let mut all = self.all().filter(is);
        // A label that the packager gave the wheel alone is in no version.py.
        let found =
            if self.has(&own) { own } else { all.next().filter(|_| all.next().is_none())?.to_owned() };
        Some(found.trim_end_matches("METADATA").to_owned())
    }

    /// sha256 of the wheel file; of a folder, of the names and contents of `used`, which is what the wheel depends on.
    pub fn sha256<'a>(&self, used: impl Iterator<Item = &'a str>) -> Result<String, Error> {
        let mut hash = Sha256::new();
        match &self.store {
            Store::Nothing => {}
            Store::Wheel(_) => feed(&mut hash, &self.path)?,
            Store::Folder(site) => {
                for path in used {
                    let mut inner = Sha256::new();
                    feed(&mut inner, &site.join(path))?;
                    hash.update(format!("{path}\0{}\n", hex(&inner.finalize())));
                }
            }
        }
        Ok(hex(&hash.finalize()))
    }
}

/// Refuses a wheel whose file name is not what the wheel says of itself: the plan goes by the name. The platform is not
/// compared: packagers rename `linux_…` to `manylinux_…` alone, and the libraries show their machine themselves.
fn check_name(archive: &Archive, name: &WheelName) -> Result<(), Error> {
    let disagree = |what, found: &str, expected: String| {
        Err(torchfl_wheel::Error::Disagree {
            file: archive.path().to_owned(),
            what,
            found: found.to_owned(),
            expected,
        }
        .into())
    };
    let folder = archive.dist_info()?;
    let same = folder.trim_end_matches(".dist-info").split_once('-').is_some_and(|(dist, version)| {
        normalize_name(dist) == normalize_name(&name.distribution)
            && version.parse::<Version>().is_ok_and(|version| version == name.version)
    });
    if !same {
        return disagree("the folder in the wheel", folder, name.dist_info());
    }
    let text = archive.read(&format!("{folder}/WHEEL"), TEXT_LIMIT)?;
    let inside = WheelFile::parse(&text, &format!("{}: WHEEL", archive.path().display()))?.tags;
    let interpreters = |tags: &mut dyn Iterator<Item = Tag>| -> BTreeSet<String> {
        tags.map(|tag| format!("{}-{}", tag.python, tag.abi)).collect()
    };
    let (found, expected) =
        (interpreters(&mut inside.into_iter()), interpreters(&mut name.tags().into_iter()));
    if found != expected {
        let list = |tags: BTreeSet<String>| tags.into_iter().collect::<Vec<_>>().join(" ");
        return disagree("the tags in WHEEL", &list(found), list(expected));
    }
    Ok(())
}

/// sha256 of bytes, as hex.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// sha256 of a file, as hex.
pub(crate) fn sha256_file(path: &Path) -> Result<String, Error> {
    let mut hash = Sha256::new();
    feed(&mut hash, path)?;
    Ok(hex(&hash.finalize()))
}

fn feed(hash: &mut Sha256, path: &Path) -> Result<(), Error> {
    let mut file = fs::File::open(path).map_err(Error::Io)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(Error::Io)? {
            0 => return Ok(()),
            n => hash.update(&buffer[..n]),
        }
    }
}

/// Bytes as lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Collects the regular files below `folder`; a link counts as the file it leads to, one that leads nowhere is an error.
/// `above` holds device and inode of the folders on the way here.
fn walk(
    folder: &Path,
    name: &str,
    files: &mut BTreeMap<String, u64>,
    above: &mut Vec<(u64, u64)>,
) -> Result<(), Error> {
    let facts = fs::metadata(folder).map_err(Error::Io)?;
    let here = (facts.dev(), facts.ino());
    if above.contains(&here) {
        return Err(Error::LinkLoop { path: folder.to_owned() });
    }
    above.push(here);
    for entry in fs::read_dir(folder).map_err(Error::Io)? {
        let entry = entry.map_err(Error::Io)?;
        let Ok(part) = entry.file_name().into_string() else {
            return Err(Error::NotUtf8 { path: entry.path() });
        };
        let inner = format!("{name}/{part}");
        let meta = fs::metadata(entry.path())
            .map_err(|source| Error::DanglingLink { path: entry.path(), source })?;
        if meta.is_dir() {
            if part != "__pycache__" {
                walk(&entry.path(), &inner, files, above)?;
            }
        } else if meta.is_file() {
            files.insert(inner, meta.len());
        }
    }
    above.pop();
    Ok(())
}
