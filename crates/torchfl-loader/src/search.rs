//! Where a library is looked for (glibc `elf/dl-load.c`: `_dl_map_object`, `fillin_rpath`, `open_path`).

use serde::Serialize;
use torchfl_elf::{Class, Tag};

use crate::failure::Failure;
use crate::files::{Entry, FileEntry};
use crate::object::Verdict;
use crate::process::{MapId, Process};

/// Why a folder is searched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// `DT_RPATH` of this file.
    Rpath(String),
    /// `LD_LIBRARY_PATH`.
    LibraryPath,
    /// `DT_RUNPATH` of this file.
    Runpath(String),
    /// `ldconfig`'s list.
    Cache,
    /// A default folder.
    Default,
    /// The name is a path.
    Path,
    /// The program itself.
    Program,
    /// The machine is said to have it.
    Given,
}

/// What was found at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// No such file.
    Absent,
    /// No such folder.
    NoFolder,
    /// Links that lead to each other.
    Loop,
    /// A library of the other width, which is passed over.
    OtherClass(Class),
    /// A library for another machine, which is passed over.
    OtherMachine,
    /// This is the one.
    Taken,
}

/// One step of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Why the loader looked there.
    pub why: Why,
    /// The path that it tried.
    pub path: String,
    /// What it found.
    pub outcome: Outcome,
}

/// A file that a search ended at, with the path that it was opened by.
pub(crate) struct Hit {
    pub path: String,
    pub entry: FileEntry,
}

impl Process<'_> {
    /// Looks for `name`, which `loader` asked for; the steps are noted in `steps`.
    pub(crate) fn search(
        &self,
        name: &str,
        loader: Option<MapId>,
        steps: &mut Vec<Step>,
    ) -> Result<Option<Hit>, Failure> {
        if name.contains('/') {
            let path = match loader {
                Some(loader) => self.substitute(name, loader),
                None => Some(name.to_owned()),
            };
            let Some(path) = path.filter(|path| !path.is_empty()) else { return Ok(None) };
            return self.probe(Why::Path, path, steps);
        }
        for (why, folders) in self.lists(loader) {
            if let Some(hit) = self.search_list(&why, &folders, name, steps)? {
                return Ok(Some(hit));
            }
        }
        let no_default = self.flagged_no_default(loader);
        if let Some(path) = self.settings.cache.lookup(name, &self.settings.hwcaps)
            && !(no_default
                && self.settings.default_folders.iter().any(|folder| path.starts_with(&format!("{folder}/"))))
            && let Some(hit) = self.probe(Why::Cache, path.to_owned(), steps)?
        {
            return Ok(Some(hit));
        }
        if !no_default {
            let folders: Vec<_> =
                self.settings.default_folders.iter().map(|folder| format!("{folder}/")).collect();
            if let Some(hit) = self.search_list(&Why::Default, &folders, name, steps)? {
                return Ok(Some(hit));
            }
        }
        Ok(self.settings.given.find(name).map(|object| {
            steps.push(Step { why: Why::Given, path: name.to_owned(), outcome: Outcome::Taken });
            Hit { path: name.to_owned(), entry: FileEntry::given(name, object) }
        }))
    }

    /// `DF_1_NODEFLIB` of who asks, or of the program.
    fn flagged_no_default(&self, loader: Option<MapId>) -> bool {
        let asks = loader.or((!self.maps.is_empty()).then_some(MapId(0)));
        asks.is_some_and(|map| self.map(map).object.flags.no_default_folders)
    }

    /// The search paths in the order of searching, before cache and default folders.
    fn lists(&self, loader: Option<MapId>) -> Vec<(Why, Vec<String>)> {
        let mut lists = Vec::new();
        let tagged = |map: MapId, tag: Tag| {
            let path = self.map(map).object.search_path.as_ref().filter(|path| path.tag == tag)?;
            Some(self.folders(&path.value, &[':'], Some(map)))
        };
        if loader.is_none_or(|loader| tagged(loader, Tag::Runpath).is_none()) {
            // Of who asks, of who loaded that one, and on up; the program's last, once.
            let mut at = loader;
            let mut program = false;
            while let Some(map) = at {
                if let Some(folders) = tagged(map, Tag::Rpath) {
                    program |= map.0 == 0;
                    lists.push((Why::Rpath(self.display(map)), folders));
                }
                at = self.map(map).loader;
            }
            if !program
                && self.program
                && let Some(folders) = tagged(MapId(0), Tag::Rpath)
            {
                lists.push((Why::Rpath(self.display(MapId(0))), folders));
            }
        }
        let environment = &self.settings.library_path;
        if !environment.is_empty() {
            let program = (!self.maps.is_empty()).then_some(MapId(0));
            lists.push((Why::LibraryPath, self.folders(environment, &[':', ';'], program)));
        }
        if let Some(loader) = loader
            && let Some(folders) = tagged(loader, Tag::Runpath)
        {
            lists.push((Why::Runpath(self.display(loader)), folders));
        }
        lists
    }

    /// A search path as folders that end in a slash; the empty entry is the working folder and stays empty.
    fn folders(&self, value: &str, separators: &[char], map: Option<MapId>) -> Vec<String> {
        let mut folders: Vec<String> = Vec::new();
        if value.is_empty() {
            return folders;
        }
        for part in value.split(separators) {
            let folder = if part.is_empty() {
                String::new()
            } else {
                let full = match map {
                    Some(map) => self.substitute(part, map),
                    None => Some(part.to_owned()),
                };
                let Some(full) = full.filter(|full| !full.is_empty()) else { continue };
                match full.trim_end_matches('/') {
                    "" => "/".to_owned(),
                    trimmed => format!("{trimmed}/"),
                }
            };
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        folders
    }

    /// Looks through the folders of one search path (`open_path`).
    fn search_list(
        &self,
        why: &Why,
        folders: &[String],
        name: &str,
        steps: &mut Vec<Step>,
    ) -> Result<Option<Hit>, Failure> {
        for folder in folders {
            if let Some(hit) = self.search_folder(why, folder, name, steps)? {
                return Ok(Some(hit));
            }
            // Any other error than that there is no such file ends this path, though not the search.
            let looped = steps.last().is_some_and(|step| step.outcome == Outcome::Loop);
            if looped && matches!(self.files.entry(&self.absolute(folder)), Entry::Folder) {
                break;
            }
        }
        Ok(None)
    }

    fn search_folder(
        &self,
        why: &Why,
        folder: &str,
        name: &str,
        steps: &mut Vec<Step>,
    ) -> Result<Option<Hit>, Failure> {
        for hwcap in &self.settings.hwcaps {
            let inner = format!("{folder}{hwcap}/");
            if matches!(self.files.entry(&self.absolute(&inner)), Entry::Folder)
                && let Some(hit) = self.probe(why.clone(), format!("{inner}{name}"), steps)?
            {
                return Ok(Some(hit));
            }
        }
        self.probe(why.clone(), format!("{folder}{name}"), steps)
    }

    /// Tries one path. A file that is no library ends the search with an error, one for another machine does not.
    fn probe(&self, why: Why, path: String, steps: &mut Vec<Step>) -> Result<Option<Hit>, Failure> {
        let full = self.absolute(&path);
        let entry = match self.files.entry(&full) {
            Entry::File(entry) => entry,
            Entry::Folder => {
                return Err(Failure::BadFile {
                    path,
                    reason: "cannot read file data: Is a directory".to_owned(),
                });
            }
            Entry::Loop => {
                steps.push(Step { why, path, outcome: Outcome::Loop });
                return Ok(None);
            }
            Entry::Absent => {
                let folder = full.rsplit_once('/').map_or("/", |(folder, _)| folder);
                let there = matches!(self.files.entry(folder), Entry::Folder);
                let outcome = if there { Outcome::Absent } else { Outcome::NoFolder };
                steps.push(Step { why, path, outcome });
                return Ok(None);
            }
        };
        let outcome = match self.files.verdict(&entry, self.settings.abi) {
            Verdict::Bad(bad) => return Err(Failure::BadFile { path, reason: bad.0 }),
            Verdict::OtherClass(class) => Outcome::OtherClass(class),
            Verdict::OtherMachine => Outcome::OtherMachine,
            Verdict::Fits => Outcome::Taken,
        };
        if outcome != Outcome::Taken {
            steps.push(Step { why, path, outcome });
            return Ok(None);
        }
        steps.push(Step { why, path: path.clone(), outcome: Outcome::Taken });
        Ok(Some(Hit { path, entry }))
    }

    pub(crate) fn absolute(&self, path: &str) -> String {
        if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("{}/{path}", self.settings.working_folder.trim_end_matches('/'))
        }
    }

    /// Fills in `$ORIGIN`, `$LIB` and `$PLATFORM` (`_dl_dst_substitute`). `None`: one of them has no value here.
    pub(crate) fn substitute(&self, text: &str, map: MapId) -> Option<String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let tokens = [
                ("ORIGIN", self.map(map).origin.as_deref()),
                ("PLATFORM", self.settings.platform.as_deref()),
                ("LIB", Some(&*self.settings.lib)),
            ];
            match tokens.iter().find_map(|(token, value)| Some((token_len(rest, token)?, value))) {
                Some((len, value)) => {
                    out.push_str((*value)?);
                    rest = &rest[len..];
                }
                None => out.push('$'),
            }
        }
        out.push_str(rest);
        Some(out)
    }
}

/// Length of `token` at the start of `text`, with braces or followed by what cannot be part of a name.
fn token_len(text: &str, token: &str) -> Option<usize> {
    if let Some(inner) = text.strip_prefix('{') {
        return inner.strip_prefix(token)?.starts_with('}').then_some(token.len() + 2);
    }
    let rest = text.strip_prefix(token)?;
    let ends = !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    ends.then_some(token.len())
}
