//! From real folders to a [`Snapshot`].

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use fs_err as fs;
use serde::Serialize;
use torchfl_elf::{FileAt, Kind};

use super::{Kept, Snapshot};
use crate::error::Error;
use crate::files::{Entry, Files};
use crate::object::{Flags, Known, Object};
use crate::symbols::{Export, Symbols};

/// A folder to be taken.
#[derive(Debug, Clone)]
pub struct Root {
    /// The folder.
    pub folder: PathBuf,
    /// Its absolute path on the machine that the snapshot is of; `None`: this is the machine, and the
    /// folder's own path is meant, as it is given and with its links: search paths name it so.
    pub at: Option<String>,
}

/// A library that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Its path on this machine.
    pub path: String,
    /// Why not.
    pub why: String,
}

/// Folders of the system that are links where `/usr` holds it all: search paths and caches use either name.
const SYSTEM: [&str; 4] = ["/lib", "/lib32", "/lib64", "/libx32"];

impl Snapshot {
    /// Takes all libraries below `roots`, and says which it had to leave out. `seen` is told each path that
    /// is kept.
    ///
    /// Links stay links as long as they lead to another of the folders. One that leads elsewhere counts as
    /// what is there, unless it is absolute and the folder is another machine's. Programs are left out, as is
    /// all that is not ELF.
    pub fn take(
        title: &str,
        roots: &[Root],
        seen: &mut dyn FnMut(&str),
    ) -> Result<(Self, Vec<Skipped>), Error> {
        Self::take_of("", title, roots, seen)
    }

    /// The same of a machine whose `/` is the folder `base`.
    pub(super) fn take_of(
        base: &str,
        title: &str,
        roots: &[Root],
        seen: &mut dyn FnMut(&str),
    ) -> Result<(Self, Vec<Skipped>), Error> {
        let roots = roots.iter().map(Placed::new).collect::<Result<Vec<_>, _>>()?;
        let mut walk = Walk {
            snapshot: Self { title: title.to_owned(), ..Self::default() },
            roots: &roots,
            walked: HashMap::new(),
            known: HashMap::new(),
            placed: HashSet::new(),
            skipped: Vec::new(),
            seen,
        };
        for root in &roots {
            walk.folder(Path::new(&root.real), &root.at, root);
        }
        for name in SYSTEM {
            walk.system_link(format!("{base}{name}"));
        }
        let Walk { mut snapshot, skipped, .. } = walk;
        snapshot.folders = roots.iter().map(|root| folder(root.at.clone())).collect();
        for kept in &mut snapshot.libraries {
            kept.paths.sort();
        }
        // Where another folder had their paths first.
        snapshot.libraries.retain(|kept| !kept.paths.is_empty());
        snapshot.libraries.sort_by(|a, b| a.paths.cmp(&b.paths));
        snapshot.drop_dangling();
        Ok((snapshot, skipped))
    }

    fn drop_dangling(&mut self) {
        let mut files = Files::new();
        self.mount(&mut files);
        self.links.retain(|path, _| matches!(files.entry(path), Entry::File(_) | Entry::Folder));
    }
}

/// A [`Root`] that has been looked at.
struct Placed {
    /// On this one, without links.
    real: String,
    /// On the machine that the snapshot is of; empty for `/`.
    at: String,
    /// Whether this is that machine.
    here: bool,
}

impl Placed {
    fn new(root: &Root) -> Result<Self, Error> {
        fs::read_dir(&root.folder)?; // it is a folder, and may be read
        let real = fs::canonicalize(&root.folder)?;
        let mut at = match &root.at {
            Some(at) => PathBuf::from(at),
            None => std::path::absolute(&root.folder)?,
        };
        if root.at.is_none() && at.components().any(|part| part == Component::ParentDir) {
            at.clone_from(&real);
        }
        let normal = at.to_str().and_then(normal).filter(|_| at.is_absolute());
        match (normal, real.into_os_string().into_string()) {
            (Some(at), Ok(real)) => Ok(Self { real, at, here: root.at.is_none() }),
            _ => Err(Error::Place { path: at }),
        }
    }
}

/// An absolute path without `.` and superfluous slashes, and none at its end; `None` where it holds `..`.
pub(super) fn normal(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    (!parts.contains(&"..")).then(|| parts.iter().fold(String::new(), |path, part| path + "/" + part))
}

/// A normal path as a folder's: that of the root is empty.
fn folder(normal: String) -> String {
    if normal.is_empty() { "/".to_owned() } else { normal }
}

/// `target` as seen from the folder `from`, with `..` taken back.
fn joined(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = if target.starts_with('/') { Vec::new() } else { from.split('/').collect() };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.iter().filter(|part| !part.is_empty()).fold(String::new(), |path, part| path + "/" + part)
}

/// Whether `path` is `folder` or lies in it.
pub(super) fn within<'p>(path: &'p str, folder: &str) -> Option<&'p str> {
    path.strip_prefix(folder).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

struct Walk<'w> {
    snapshot: Snapshot,
    roots: &'w [Placed],
    /// Folders by device and inode, and the path of each.
    walked: HashMap<(u64, u64), String>,
    /// Files by device and inode, and which library each is.
    known: HashMap<(u64, u64), Option<usize>>,
    /// Paths that are taken.
    placed: HashSet<String>,
    skipped: Vec<Skipped>,
    seen: &'w mut dyn FnMut(&str),
}

impl Walk<'_> {
    fn skip(&mut self, path: &Path, why: &dyn ToString) {
        self.skipped.push(Skipped { path: path.to_string_lossy().into_owned(), why: why.to_string() });
    }

    /// A folder, looked through once: where it is met again there is a link.
    fn folder(&mut self, real: &Path, at: &str, root: &Placed) {
        let id = match fs::metadata(real) {
            Ok(meta) => (meta.dev(), meta.ino()),
            Err(error) => return self.skip(real, &error.kind()),
        };
        if let Some(first) = self.walked.get(&id) {
            if first != at {
                let first = folder(first.clone());
                self.place_link(at.to_owned(), first);
            }
            return;
        }
        self.walked.insert(id, at.to_owned());
        match fs::read_dir(real) {
            Ok(entries) => {
                let mut entries: Vec<_> = entries.flatten().collect();
                entries.sort_by_key(fs::DirEntry::file_name);
                for entry in entries {
                    self.entry(&entry, at, root);
                }
            }
            Err(error) => self.skip(real, &error.kind()),
        }
    }

    fn entry(&mut self, entry: &fs::DirEntry, folder: &str, root: &Placed) {
        let (path, name) = (entry.path(), entry.file_name());
        let Ok(kind) = entry.file_type() else { return };
        let Some(name) = name.to_str() else {
            return self.skip(&path, &"its name is not UTF-8");
        };
        let at = format!("{folder}/{name}");
        if kind.is_dir() {
            self.folder(&path, &at, root);
        } else if kind.is_file() {
            self.file(&path, at);
        } else if kind.is_symlink() {
            self.link(&path, folder, at, root);
        }
    }

    fn link(&mut self, path: &Path, folder: &str, at: String, root: &Placed) {
        let Ok(target) = fs::read_link(path) else { return };
        let Some(target) = target.to_str() else {
            return self.skip(path, &"its target is not UTF-8");
        };
        let real = fs::canonicalize(path).ok();
        let inside = |path: &str, of: fn(&Placed) -> &str| {
            self.roots.iter().find_map(|root| Some(format!("{}{}", root.at, within(path, of(root))?)))
        };
        let leads_to = joined(folder, target);
        // By a folder that is a link itself it may lead out nonetheless.
        let real_text = real.as_deref().and_then(Path::to_str);
        let stays = real_text.is_none_or(|real| inside(real, |root| &root.real).is_some());
        if stays && inside(&leads_to, |root| &root.at).is_some() {
            self.keep_link(at, target.to_owned());
        } else if let Some(inner) = inside(target, |root| &root.real) {
            // The folder was named through a link, which its own links do not go through.
            self.keep_link(at, inner);
        } else if root.here || !target.starts_with('/') {
            match real {
                Some(real) if real.is_dir() => self.folder(&real, &at, root),
                Some(real) if real.is_file() => self.file(&real, at),
                _ => {}
            }
        }
    }

    /// Keeps a link of the system that leads to one of the folders, to one above or to one below.
    fn system_link(&mut self, path: String) {
        let Ok(target) = fs::read_link(&path) else { return };
        let real = fs::canonicalize(&path).ok().and_then(|real| real.into_os_string().into_string().ok());
        let meets = |real: &str| {
            let mut here = self.roots.iter().filter(|root| root.here);
            here.any(|root| within(real, &root.real).or(within(&root.real, real)).is_some())
        };
        if let (Some(target), true) = (target.to_str(), real.is_some_and(|real| meets(&real))) {
            self.place_link(path, target.to_owned());
        }
    }

    /// Keeps a link, unless it is one of the folders that were asked for: that is looked through itself.
    fn keep_link(&mut self, at: String, target: String) {
        if self.roots.iter().all(|root| root.at != at) {
            self.place_link(at, target);
        }
    }

    fn place_link(&mut self, at: String, target: String) {
        if self.placed.insert(at.clone()) {
            self.snapshot.links.insert(at, target);
        }
    }

    fn file(&mut self, real: &Path, at: String) {
        let id = match fs::metadata(real) {
            Ok(meta) => (meta.dev(), meta.ino()),
            Err(error) => return self.skip(real, &error.kind()),
        };
        let known = if let Some(known) = self.known.get(&id) {
            *known
        } else {
            let object = library(real).unwrap_or_else(|why| {
                self.skip(real, &why);
                None
            });
            let known = object.map(|object| {
                self.snapshot.libraries.push(Kept { paths: Vec::new(), object: Arc::new(object) });
                self.snapshot.libraries.len() - 1
            });
            self.known.insert(id, known);
            known
        };
        let Some(index) = known else { return };
        if self.placed.insert(at.clone()) {
            (self.seen)(&at);
            self.snapshot.libraries[index].paths.push(at);
        }
    }
}

/// The library in a file; `None` for anything else.
fn library(path: &Path) -> Result<Option<Object>, String> {
    let name = path.to_string_lossy();
    // Of files that are named like no library only those that can be read as one are of interest.
    let named = path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
    let told = |why: String| {
        // The errors of tables name the file, which is told beside them.
        let why = why.strip_prefix(&format!("{name}: ")).unwrap_or(&why).to_owned();
        if named { Err(why) } else { Ok(None) }
    };
    let file = match FileAt::open(path) {
        Ok(file) => file,
        Err(error) => return told(error.kind().to_string()),
    };
    if !torchfl_elf::is_elf(&file) {
        return Ok(None);
    }
    match torchfl_elf::facts(&file, &name) {
        Ok(facts) if facts.kind != Kind::Library || !facts.dynamic => return Ok(None),
        Ok(_) => {}
        Err(error) => return told(error.to_string()),
    }
    match Object::read(&file, &name) {
        Ok(object) => Ok(Some(exports_of(object))),
        Err(error) => told(error.to_string()),
    }
}

/// What a snapshot keeps of a library.
fn exports_of(object: Object) -> Object {
    let mut exports: Vec<Export> = object.symbols.exports().collect();
    // Stable: of one name the order of the file decides which definition is found first.
    exports.sort_by(|a, b| a.name.cmp(&b.name));
    for export in exports.iter_mut().filter(|export| !is_data(export.kind)) {
        export.size = 0;
    }
    let symbols = Symbols::from_exports(&exports, &object.versions_defined, object.symbols.is_versioned());
    Object {
        interpreter: None,
        versions_needed: Vec::new(),
        flags: Flags { pie: false, ..object.flags },
        symbols,
        known: Known::Exports,
        ..object
    }
}

/// Whether a symbol of this kind (`STT_*`) has a size that matters to others: functions have none.
pub(super) fn is_data(kind: u8) -> bool {
    !matches!(kind, 2 | 10)
}
