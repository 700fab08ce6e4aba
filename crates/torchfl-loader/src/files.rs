//! A tree of files as a process would see it: folders laid over each other, links, identities.
//!
//! Real folders are read when somebody asks, a level at a time. Paths are walked as the kernel does it: a link is
//! followed where it stands, and `..` leads to the parent of the folder that one really is in (`path_resolution(7)`).

use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fs_err as fs;
use torchfl_elf::{FileAt, ReadAt};

use crate::cache::{Abi, Tree, TreeEntry, TreeLibrary};
use crate::object::{BadFile, Object, Verdict, verify};

/// Linux follows this many links in one path (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;
/// Largest text file that [`Files::read`] reads, in bytes.
const MAX_TEXT: u64 = 64 << 20;

/// What a file is, whatever its name: two names with one identity are one file to the loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileId {
    /// Device and inode.
    Real(u64, u64),
    /// A file that lies on no disk; the number is its own.
    Virtual(u64),
}

type Loaded = Result<Arc<Object>, BadFile>;

/// A tree of files. Cloning is cheap and shares what has been read.
#[derive(Clone)]
pub struct Files {
    root: Arc<Folder>,
    read: Arc<Mutex<HashMap<FileId, Loaded>>>,
}

#[derive(Clone)]
enum Node {
    Folder(Arc<Folder>),
    Link(String),
    File(Arc<File>),
    /// Known not to be there, whatever lies below.
    Absent,
}

/// A folder: what was put there by hand, over real folders, the first of which wins.
#[derive(Default)]
struct Folder {
    fixed: BTreeMap<String, Node>,
    below: Vec<Source>,
    listed: OnceLock<BTreeMap<String, Node>>,
}

#[derive(Clone)]
struct Source {
    path: PathBuf,
    /// Links stay links up to this folder; those that lead out of it are followed on the disk. `None`: all stay.
    within: Option<Arc<PathBuf>>,
}

struct File {
    id: OnceLock<Option<FileId>>,
    content: Content,
}

enum Content {
    Disk(PathBuf),
    Bytes(Arc<dyn ReadAt>),
    Object(Arc<Object>),
}

enum Walked {
    Absent,
    Loop,
    Folder(String, Arc<Folder>),
    File(String, Arc<File>),
}

/// What stands under a path.
pub enum Entry {
    /// Nothing.
    Absent,
    /// More links than the kernel follows.
    Loop,
    /// A folder.
    Folder,
    /// A file.
    File(FileEntry),
}

/// A file found in [`Files`].
pub struct FileEntry {
    /// Its identity.
    pub id: FileId,
    /// Its path with all links followed.
    pub path: String,
    file: Arc<File>,
}

impl FileEntry {
    /// A library that stands in no tree.
    pub(crate) fn given(name: &str, object: Arc<Object>) -> Self {
        let id = FileId::Virtual(Arc::as_ptr(&object) as u64);
        let file = Arc::new(File { id: known(id), content: Content::Object(object) });
        Self { id, path: name.to_owned(), file }
    }
}

impl Default for Files {
    fn default() -> Self {
        Self::new()
    }
}

impl Files {
    /// An empty tree.
    pub fn new() -> Self {
        Self { root: Arc::new(Folder::default()), read: Arc::default() }
    }

    /// This machine's own tree.
    pub fn host() -> Self {
        let mut files = Self::new();
        files.root("/", Path::new("/"));
        files
    }

    /// Lays a real folder at `at`. What is there already stays, and goes first. Links inside stay links; one that
    /// leads out of the folder counts as what it leads to on this machine.
    pub fn folder(&mut self, at: &str, folder: &Path) {
        let real = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        let within = Some(Arc::new(real.clone()));
        self.lay(at, Source { path: real, within });
    }

    /// Lays the root of another machine's tree at `at`: its links, absolute ones too, are followed inside this tree.
    pub fn root(&mut self, at: &str, folder: &Path) {
        self.lay(at, Source { path: folder.to_owned(), within: None });
    }

    fn lay(&mut self, at: &str, source: Source) {
        if let Some(folder) = self.make(&parts(at)) {
            folder.below.push(source);
            folder.listed = OnceLock::new();
        }
    }

    /// Puts a file at `at`. One `Arc` at two places is one file with two names.
    pub fn file(&mut self, at: &str, bytes: Arc<dyn ReadAt>) {
        let id = FileId::Virtual(Arc::as_ptr(&bytes).cast::<u8>() as u64);
        self.put(at, Node::File(Arc::new(File { id: known(id), content: Content::Bytes(bytes) })));
    }

    /// Puts a library at `at` of which only this is known: from a snapshot, or taken as given.
    pub fn object(&mut self, at: &str, object: Arc<Object>) {
        let id = FileId::Virtual(Arc::as_ptr(&object) as u64);
        self.put(at, Node::File(Arc::new(File { id: known(id), content: Content::Object(object) })));
    }

    /// Puts a symbolic link at `at`.
    pub fn link(&mut self, at: &str, target: &str) {
        self.put(at, Node::Link(target.to_owned()));
    }

    /// Takes away what stands at `at`, folders included.
    pub fn hide(&mut self, at: &str) {
        self.put(at, Node::Absent);
    }

    fn put(&mut self, at: &str, node: Node) {
        let parts = parts(at);
        if let Some((name, folders)) = parts.split_last()
            && let Some(folder) = self.make(folders)
        {
            folder.listed = OnceLock::new();
            folder.fixed.insert((*name).to_owned(), node);
        }
    }

    /// The folder at `parts`, made where it is not: a part that is a link or a file becomes a folder.
    fn make(&mut self, parts: &[&str]) -> Option<&mut Folder> {
        let mut folder = Arc::make_mut(&mut self.root);
        for part in parts {
            let listed = folder.child(part);
            folder.listed = OnceLock::new();
            let slot = folder.fixed.entry((*part).to_owned()).or_insert_with(|| match listed {
                Some(Node::Folder(inner)) => Node::Folder(inner),
                _ => Node::Folder(Arc::default()),
            });
            if !matches!(slot, Node::Folder(_)) {
                *slot = Node::Folder(Arc::default());
            }
            let Node::Folder(inner) = slot else { return None };
            folder = Arc::make_mut(inner);
        }
        Some(folder)
    }

    /// What stands at the absolute path `path`.
    pub fn entry(&self, path: &str) -> Entry {
        match self.walk(path) {
            Walked::Absent => Entry::Absent,
            Walked::Loop => Entry::Loop,
            Walked::Folder(..) => Entry::Folder,
            // A trailing slash asks for a folder.
            Walked::File(..) if path.ends_with('/') || path.ends_with("/.") => Entry::Absent,
            Walked::File(path, file) => match file.identity() {
                Some(id) => Entry::File(FileEntry { id, path, file }),
                None => Entry::Absent,
            },
        }
    }

    /// Names in the folder at `path`, sorted; none where it is no folder.
    pub fn list(&self, path: &str) -> Vec<String> {
        let Walked::Folder(_, folder) = self.walk(path) else { return Vec::new() };
        let there = folder.list().iter().filter(|(_, node)| !matches!(node, Node::Absent));
        there.map(|(name, _)| name.clone()).collect()
    }

    fn walk(&self, path: &str) -> Walked {
        let mut left: Vec<String> = parts(path).iter().rev().map(|part| (*part).to_owned()).collect();
        let mut above: Vec<(String, Arc<Folder>)> = Vec::new();
        let mut here = self.root.clone();
        let mut links = 0;
        while let Some(part) = left.pop() {
            if part == ".." {
                here = above.pop().map_or_else(|| self.root.clone(), |(_, parent)| parent);
                continue;
            }
            match here.child(&part) {
                Some(Node::Folder(inner)) => above.push((part, std::mem::replace(&mut here, inner))),
                Some(Node::Link(target)) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Walked::Loop;
                    }
                    if target.starts_with('/') {
                        above.clear();
                        here = self.root.clone();
                    }
                    left.extend(parts(&target).iter().rev().map(|part| (*part).to_owned()));
                }
                Some(Node::File(file)) if left.is_empty() => {
                    return Walked::File(joined(&above) + "/" + &part, file);
                }
                None | Some(Node::Absent | Node::File(_)) => return Walked::Absent,
            }
        }
        Walked::Folder(joined(&above), here)
    }

    /// The path with all links followed; `None` where nothing is.
    pub fn canonical(&self, path: &str) -> Option<String> {
        match self.walk(path) {
            Walked::Folder(path, _) if path.is_empty() => Some("/".to_owned()),
            Walked::Folder(path, _) | Walked::File(path, _) => Some(path),
            Walked::Absent | Walked::Loop => None,
        }
    }

    /// A text file's bytes, or `None` where there is none, or none that can be read.
    pub fn read(&self, path: &str) -> Option<Vec<u8>> {
        let Entry::File(entry) = self.entry(path) else { return None };
        match &entry.file.content {
            Content::Disk(path) => {
                let mut bytes = Vec::new();
                fs::File::open(path).ok()?.take(MAX_TEXT).read_to_end(&mut bytes).ok()?;
                Some(bytes)
            }
            Content::Bytes(source) => {
                let mut bytes = vec![0; usize::try_from(source.len().min(MAX_TEXT)).ok()?];
                source.read_exact_at(0, &mut bytes).ok()?;
                Some(bytes)
            }
            Content::Object(_) => None,
        }
    }

    /// The file's bytes, open for reading; `None` for one of which only an [`Object`] is known.
    pub fn bytes(&self, entry: &FileEntry) -> Option<Arc<dyn ReadAt>> {
        match &entry.file.content {
            Content::Disk(path) => FileAt::open(path).ok().map(|file| Arc::new(file) as Arc<dyn ReadAt>),
            Content::Bytes(bytes) => Some(bytes.clone()),
            Content::Object(_) => None,
        }
    }

    /// The library in a file; read once, however many names and trees it has.
    pub fn library(&self, entry: &FileEntry) -> Loaded {
        if let Content::Object(object) = &entry.file.content {
            return Ok(object.clone());
        }
        if let Some(known) = self.known(entry.id) {
            return known;
        }
        let loaded = match self.bytes(entry) {
            Some(bytes) => Object::read(&*bytes, &entry.path).map(Arc::new),
            None => Err(BadFile("cannot read file data".to_owned())),
        };
        self.read.lock().unwrap_or_else(PoisonError::into_inner).insert(entry.id, loaded.clone());
        loaded
    }

    /// What the file's headers say to a loader for `wanted`.
    pub(crate) fn verdict(&self, entry: &FileEntry, wanted: Abi) -> Verdict {
        match &entry.file.content {
            Content::Object(object) if object.abi.class != wanted.class => {
                Verdict::OtherClass(object.abi.class)
            }
            Content::Object(object) if object.abi != wanted => Verdict::OtherMachine,
            Content::Object(_) => Verdict::Fits,
            // Known to be sound.
            _ if self.known(entry.id).is_some_and(|known| known.is_ok_and(|object| object.abi == wanted)) => {
                Verdict::Fits
            }
            _ => match self.bytes(entry) {
                Some(bytes) => verify(&*bytes, Some(wanted)),
                None => Verdict::Bad(BadFile("cannot read file data".to_owned())),
            },
        }
    }

    fn known(&self, id: FileId) -> Option<Loaded> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }
}

impl Clone for Folder {
    fn clone(&self) -> Self {
        Self { fixed: self.fixed.clone(), below: self.below.clone(), listed: OnceLock::new() }
    }
}

impl Folder {
    fn child(&self, name: &str) -> Option<Node> {
        match self.fixed.get(name) {
            // A folder made by hand inside a real one shows both.
            Some(Node::Folder(_)) | None => self.list().get(name).cloned(),
            Some(node) => Some(node.clone()),
        }
    }

    fn list(&self) -> &BTreeMap<String, Node> {
        self.listed.get_or_init(|| {
            let mut all: BTreeMap<String, Node> = BTreeMap::new();
            for (name, node) in &self.fixed {
                all.insert(name.clone(), node.clone());
            }
            for source in &self.below {
                for (name, node) in source.list() {
                    match (all.get_mut(&name), node) {
                        (None, node) => drop(all.insert(name, node)),
                        (Some(Node::Folder(first)), Node::Folder(second)) => {
                            let merged = Arc::make_mut(first);
                            let known =
                                |source: &Source| merged.below.iter().any(|one| one.path == source.path);
                            let new: Vec<Source> =
                                second.below.iter().filter(|s| !known(s)).cloned().collect();
                            merged.below.extend(new);
                            merged.listed = OnceLock::new();
                        }
                        _ => {}
                    }
                }
            }
            all
        })
    }
}

impl Source {
    fn list(&self) -> Vec<(String, Node)> {
        let Ok(entries) = fs::read_dir(&self.path) else { return Vec::new() };
        let named = entries.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let kind = entry.file_type().ok()?;
            let path = entry.path();
            let node = if kind.is_dir() {
                self.inner(path)
            } else if kind.is_symlink() {
                self.linked(&path)?
            } else if kind.is_file() {
                disk(path)
            } else {
                return None;
            };
            Some((name, node))
        });
        named.collect()
    }

    fn inner(&self, path: PathBuf) -> Node {
        let below = vec![Self { path, within: self.within.clone() }];
        Node::Folder(Arc::new(Folder { below, ..Folder::default() }))
    }

    fn linked(&self, path: &Path) -> Option<Node> {
        let target = fs::read_link(path).ok()?;
        let Some(within) = &self.within else { return Some(Node::Link(target.to_str()?.to_owned())) };
        let Ok(real) = fs::canonicalize(path) else { return Some(Node::Link(target.to_str()?.to_owned())) };
        if target.is_relative() && real.starts_with(within.as_ref()) {
            return Some(Node::Link(target.to_str()?.to_owned()));
        }
        if real.is_dir() {
            let within = Some(Arc::new(real.clone()));
            let below = vec![Self { path: real, within }];
            return Some(Node::Folder(Arc::new(Folder { below, ..Folder::default() })));
        }
        Some(disk(real))
    }
}

impl File {
    fn identity(&self) -> Option<FileId> {
        let read = || match &self.content {
            Content::Disk(path) => fs::metadata(path).ok().map(|meta| FileId::Real(meta.dev(), meta.ino())),
            Content::Bytes(_) | Content::Object(_) => None,
        };
        *self.id.get_or_init(read)
    }
}

fn disk(path: PathBuf) -> Node {
    Node::File(Arc::new(File { id: OnceLock::new(), content: Content::Disk(path) }))
}

fn known(id: FileId) -> OnceLock<Option<FileId>> {
    let cell = OnceLock::new();
    let _ = cell.set(Some(id));
    cell
}

fn joined(folders: &[(String, Arc<Folder>)]) -> String {
    folders.iter().fold(String::new(), |path, (name, _)| path + "/" + name)
}

impl Tree for Files {
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        Files::read(self, path)
    }

    fn list(&self, folder: &str) -> Option<Vec<TreeEntry>> {
        let Walked::Folder(_, folder) = self.walk(folder) else { return None };
        let entry = |(name, node): (&String, &Node)| match node {
            Node::Absent => None,
            node => Some(TreeEntry { name: name.clone(), link: matches!(node, Node::Link(_)) }),
        };
        Some(folder.list().iter().filter_map(entry).collect())
    }

    fn canonical(&self, path: &str) -> Option<String> {
        Files::canonical(self, path)
    }

    fn library(&self, path: &str) -> Option<TreeLibrary> {
        let Entry::File(entry) = self.entry(path) else { return None };
        let facts = match &entry.file.content {
            Content::Object(object) => {
                return Some(TreeLibrary { abi: object.abi, soname: object.soname.clone() });
            }
            // Not the whole of it: there may be thousands of libraries.
            _ => torchfl_elf::facts(&*self.bytes(&entry)?, path).ok()?,
        };
        let abi = Abi { machine: facts.machine, class: facts.class, endian: facts.endian };
        facts.dynamic.then_some(TreeLibrary { abi, soname: facts.soname })
    }
}

/// The parts of a path that mean something, in order.
fn parts(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").collect()
}
