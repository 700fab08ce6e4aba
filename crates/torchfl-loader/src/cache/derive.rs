//! What `ldconfig` would write, from `/etc/ld.so.conf` and the folders that it names (glibc's
//! `elf/ldconfig.c`).

use std::collections::{BTreeMap, HashSet};

use super::pattern::{is_pattern, matches};
use super::{Abi, Cache, Needs, Row, compare};

/// Configuration files that are read, and that one pattern may mean.
const MAX_FILES: usize = 1000;

/// A tree of files, as far as `ldconfig` looks at it. Paths are absolute; links are followed.
pub trait Tree {
    /// The bytes of a file; `None` where there is none, or it cannot be read.
    fn read(&self, path: &str) -> Option<Vec<u8>>;
    /// What is in a folder; `None` where there is none.
    fn list(&self, folder: &str) -> Option<Vec<TreeEntry>>;
    /// The path without links: two paths of one folder have the same. `None` where there is nothing.
    fn canonical(&self, path: &str) -> Option<String>;
    /// A shared library (`ET_DYN` with a dynamic section), programs that are one included; `None` for
    /// anything else.
    fn library(&self, path: &str) -> Option<TreeLibrary>;
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// Its name.
    pub name: String,
    /// Whether it is a symbolic link.
    pub link: bool,
}

/// What a library says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeLibrary {
    /// What can load it.
    pub abi: Abi,
    /// `DT_SONAME`.
    pub soname: Option<String>,
}

/// A folder to be looked through.
struct Folder {
    path: String,
    /// Its name, where it is a subfolder of `glibc-hwcaps`.
    hwcap: Option<String>,
}

impl Cache {
    /// What `ldconfig` would enter: the folders of the configuration file `conf` and of those that it
    /// includes, then `defaults`. A cache that is there is not read.
    ///
    /// `ldconfig` also lays a link named after the SONAME beside each library, and enters that. Where the
    /// link is missing, the library itself is entered. Not followed: subfolders named after a capability
    /// (`tls`, `haswell`), which glibc gave up in 2.37, and the x86 ISA level that a file is marked with.
    pub fn derive(tree: &impl Tree, conf: &str, defaults: &[String], abi: Abi) -> Self {
        let mut folders = Folders { tree, found: Vec::new(), seen: HashSet::new(), read: HashSet::new() };
        folders.file(conf);
        for folder in defaults {
            folders.add(folder);
        }
        let mut rows = Vec::new();
        for folder in &folders.found {
            enter(tree, folder, abi, &mut rows);
        }
        // Stable: of equal rows the one of the earlier folder comes first.
        rows.sort_by(|a: &Row, b: &Row| {
            compare(b.name.as_bytes(), a.name.as_bytes()).then_with(|| match (&a.needs, &b.needs) {
                (Needs::Hwcap { name: a, .. }, Needs::Hwcap { name: b, .. }) => a.cmp(b),
                (a, b) => (a == &Needs::Nothing).cmp(&(b == &Needs::Nothing)),
            })
        });
        Self { rows }
    }
}

/// Collects the folders, each once.
struct Folders<'t, T> {
    tree: &'t T,
    found: Vec<Folder>,
    /// They, without links.
    seen: HashSet<String>,
    /// Configuration files that have been read.
    read: HashSet<String>,
}

impl<T: Tree> Folders<'_, T> {
    /// Reads one configuration file (`parse_conf`), once: again it could name no new folder.
    fn file(&mut self, path: &str) {
        if self.read.len() == MAX_FILES || !self.read.insert(path.to_owned()) {
            return;
        }
        let Some(bytes) = self.tree.read(path) else { return };
        for line in String::from_utf8_lossy(&bytes).lines() {
            let line = line.split('#').next().unwrap_or_default().trim_start_matches(is_space);
            let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
            if word == "include" && line.len() > word.len() {
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                for pattern in rest.split([' ', '\t']).filter(|pattern| !pattern.is_empty()) {
                    let pattern = if pattern.starts_with('/') {
                        pattern.to_owned()
                    } else {
                        format!("{folder}/{pattern}")
                    };
                    self.include(&pattern);
                }
            } else if !(word.eq_ignore_ascii_case("hwcap") && line.len() > word.len()) {
                // What follows `=` was the kind of the libraries, of which there is one today.
                let folder = line.split('=').next().unwrap_or_default();
                self.add(folder.trim_end_matches(is_space));
            }
        }
    }

    /// Reads the files that `pattern` means, in the order of their bytes.
    fn include(&mut self, pattern: &str) {
        let mut found = vec![String::new()];
        for part in pattern.split('/').filter(|part| !part.is_empty()) {
            if !is_pattern(part) {
                for path in &mut found {
                    path.push('/');
                    path.push_str(part);
                }
                continue;
            }
            let mut deeper = Vec::new();
            for folder in found {
                let entries =
                    self.tree.list(if folder.is_empty() { "/" } else { &folder }).unwrap_or_default();
                let names = entries.into_iter().map(|entry| entry.name).filter(|name| matches(part, name));
                deeper.extend(names.map(|name| format!("{folder}/{name}")));
            }
            deeper.truncate(MAX_FILES);
            found = deeper;
        }
        found.sort();
        for path in found {
            self.file(&path);
        }
    }

    /// Adds a folder and the subfolders of its `glibc-hwcaps` (`add_dir_1`).
    fn add(&mut self, folder: &str) {
        let path = folder.trim_end_matches('/');
        if !path.starts_with('/') || !self.once(path) {
            return;
        }
        self.found.push(Folder { path: path.to_owned(), hwcap: None });
        let hwcaps = format!("{path}/glibc-hwcaps");
        let mut names: Vec<String> =
            self.tree.list(&hwcaps).unwrap_or_default().into_iter().map(|entry| entry.name).collect();
        names.sort();
        for name in names.into_iter().filter(|name| !name.starts_with('.') && !name.contains(':')) {
            let path = format!("{hwcaps}/{name}");
            if self.tree.list(&path).is_some() && self.once(&path) {
                self.found.push(Folder { path, hwcap: Some(name) });
            }
        }
    }

    /// Whether there is such a folder, which was not there under another path.
    fn once(&mut self, path: &str) -> bool {
        self.tree.canonical(path).is_some_and(|path| self.seen.insert(path))
    }
}

/// C's `isspace`.
fn is_space(letter: char) -> bool {
    letter.is_ascii_whitespace() || letter == '\x0b'
}

/// A file that stands for a name.
struct Candidate {
    file: String,
    link: bool,
}

/// Enters the libraries of one folder (`search_dir`).
fn enter(tree: &impl Tree, folder: &Folder, abi: Abi, rows: &mut Vec<Row>) {
    let entries = tree.list(&folder.path).unwrap_or_default();
    let present: HashSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    let mut names: BTreeMap<String, Candidate> = BTreeMap::new();
    for TreeEntry { name: file, link } in &entries {
        if !is_library_name(file) {
            continue;
        }
        let Some(library) = tree.library(&format!("{}/{file}", folder.path)) else { continue };
        if library.abi != abi {
            continue;
        }
        let soname = library.soname.as_ref().unwrap_or(file);
        // A link counts as one where it is the SONAME, or what ld(1) asks for; others count as files.
        let asked_for = file.strip_suffix(".so").is_some() && soname.starts_with(file.as_str());
        let link = *link && (file == soname || asked_for);
        let name = if link { file } else { soname };
        let newer = |known: &Candidate| {
            (known.link && !link)
                || (known.link == link && compare(known.file.as_bytes(), file.as_bytes()).is_lt())
        };
        if names.get(name).is_none_or(newer) {
            names.insert(name.clone(), Candidate { file: file.clone(), link });
        }
    }
    for (name, candidate) in names {
        let linked = folder.hwcap.is_none() && present.contains(name.as_str());
        let path = format!("{}/{}", folder.path, if linked { &name } else { &candidate.file });
        let needs = match &folder.hwcap {
            Some(name) => Needs::Hwcap { name: name.clone(), level: 0 },
            None => Needs::Nothing,
        };
        rows.push(Row { name, path, needs });
    }
}

/// glibc's `elf/dl-is_dso.h`, less what prelink left behind.
fn is_library_name(name: &str) -> bool {
    let library = (name.starts_with("lib") || name.starts_with("ld-")) && name.contains(".so")
        || name.starts_with("ld.so.")
        || name.starts_with("ld64.so.");
    library && !name.contains(".#prelink#")
}
