//! The libraries of the bundle: which files they are, and what is done to each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use torchfl_elf::{Edit, Facts, FileAt, How, Patch};
use torchfl_manifest::Resolved;

use crate::{Error, Tree};

/// Where a library comes from that the build makes.
pub const GENERATED: &str = "[[shim]]";

/// A library of the bundle, as it will be.
#[derive(Debug, Clone, Serialize)]
pub struct Library {
    /// File name in the bundle.
    pub name: String,
    /// The file it comes from, below the vendor's site-packages; [`GENERATED`] for a shim.
    pub from: String,
    /// Size after the edit.
    pub bytes: u64,
    /// The search path after the edit.
    pub search_path: String,
    /// rpath or runpath.
    pub tag: String,
    /// What the edit does to the file.
    pub how: How,
    /// The newest glibc that it asks for.
    pub glibc: Option<(u32, u32)>,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// Whether it calls into the Python interpreter, so that it belongs to one Python.
    pub python: bool,
    #[serde(skip)]
    pub(crate) facts: Facts,
    #[serde(skip)]
    pub(crate) content: Content,
}

/// Where the bytes are, and the edit to them.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    pub file: Arc<FileAt>,
    pub patch: Arc<Patch>,
}

/// Names and origins of all libraries that the manifest wants and the torch has, by file name.
pub(crate) fn select(resolved: &Resolved, torch: &Tree) -> Result<BTreeMap<String, String>, Error> {
    let mut chosen = BTreeMap::new();
    let mut missing = Vec::new();
    for name in &resolved.bundle.required {
        match origin(name, torch) {
            Some(path) => drop(chosen.insert(name.clone(), path)),
            None => missing.push(name.clone()),
        }
    }
    if !missing.is_empty() {
        let has = torch.below("torch/lib/").map(|p| p["torch/lib/".len()..].to_owned()).collect();
        return Err(Error::MissingLibraries { torch: torch.path.clone(), names: missing, has });
    }
    for name in &resolved.bundle.optional {
        if let Some(path) = origin(name, torch) {
            chosen.insert(name.clone(), path);
        }
    }
    let named = chosen.len();
    for glob in &resolved.bundle.include {
        let matcher = globset::GlobBuilder::new(glob)
            .literal_separator(true)
            .build()
            .map_err(|source| Error::Glob { glob: glob.clone(), source })?
            .compile_matcher();
        let mut any = false;
        for path in torch.all().filter(|p| matcher.is_match(p)) {
            any = true;
            let name = path.rsplit('/').next().unwrap_or(path);
            if resolved.bundle.never_duplicate.iter().any(|n| n == name) {
                continue;
            }
            if let Some(first) = chosen.insert(name.to_owned(), path.to_owned())
                && torch.real(&first) != torch.real(path)
            {
                return Err(Error::TwoFiles { torch: torch.path.clone(), first, second: path.to_owned() });
            }
        }
        if !any {
            return Err(Error::NoMatch { torch: torch.path.clone(), glob: glob.clone() });
        }
    }
    if chosen.len() > named {
        one_of_each_file(&mut chosen, resolved, torch);
    }
    Ok(chosen)
}

/// A glob also matches links (`libx.so` beside `libx.so.1`). Of the names of one file, those that the manifest spells
/// out stay, else the file's own: a copy a name would be as many libraries.
fn one_of_each_file(chosen: &mut BTreeMap<String, String>, resolved: &Resolved, torch: &Tree) {
    let mut names: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    for (name, path) in chosen.iter() {
        names.entry(torch.real(path)).or_default().push(name.clone());
    }
    let spelt =
        |name: &String| resolved.bundle.required.contains(name) || resolved.bundle.optional.contains(name);
    for (real, names) in names.into_iter().filter(|(_, names)| names.len() > 1) {
        let any = names.iter().any(spelt);
        let own = names.iter().find(|name| real.ends_with(name)).or(names.first()).cloned();
        for name in &names {
            let stays = if any { spelt(name) } else { own.as_ref() == Some(name) };
            if !stays {
                chosen.remove(name);
            }
        }
    }
}

pub(crate) fn origin(name: &str, torch: &Tree) -> Option<String> {
    ["torch/lib/", "torch.libs/"].iter().map(|folder| format!("{folder}{name}")).find(|path| torch.has(path))
}

/// Reads every chosen library and plans its edit, a few at a time.
pub(crate) fn prepare(
    chosen: &BTreeMap<String, String>,
    torch: &Tree,
    edit: &Edit,
    scratch: &Path,
    threads: usize,
) -> Result<Vec<Library>, Error> {
    let jobs: Vec<_> = chosen.iter().collect();
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((name, from)) = jobs.get(index) else { break };
                    let result = library(name, from, torch, edit, scratch);
                    if result.is_err() {
                        // No further jobs; those before this one are under way.
                        next.store(jobs.len(), Ordering::Relaxed);
                    }
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    // In the order of names: of several errors the same one is told, however many threads there are.
    done.sort_by_key(|(index, _)| *index);
    let libraries = done.into_iter().map(|(_, result)| result).collect::<Result<Vec<_>, _>>()?;
    one_of_each_name(&libraries)?;
    Ok(libraries)
}

fn library(name: &str, from: &str, torch: &Tree, edit: &Edit, scratch: &Path) -> Result<Library, Error> {
    planned(name, from, torch.file(from, scratch)?, edit)
}

/// A library whose bytes are at hand.
pub(crate) fn planned(name: &str, from: &str, file: Arc<FileAt>, edit: &Edit) -> Result<Library, Error> {
    let facts = torchfl_elf::facts(&*file, name)?;
    let patch = torchfl_elf::plan(&*file, name, edit)?;
    let (tag, search_path) = match edit {
        Edit::Set { tag, value } => (tag.to_string(), value.clone()),
        Edit::Remove => (String::new(), String::new()),
    };
    let python = torchfl_elf::symbols(&*file, name)?.any(|symbol| {
        symbol.is_ok_and(|s| !s.defined && (s.name.starts_with("Py") || s.name.starts_with("_Py")))
    });
    Ok(Library {
        name: name.to_owned(),
        from: from.to_owned(),
        bytes: patch.len,
        search_path,
        tag,
        how: patch.how,
        glibc: facts.glibc_floor(),
        soname: facts.soname.clone(),
        python,
        facts,
        content: Content { file, patch: Arc::new(patch) },
    })
}

/// A process holds one library of a name: a second one would be ignored, or mixed in.
pub(crate) fn one_of_each_name(libraries: &[Library]) -> Result<(), Error> {
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for library in libraries {
        if let Some(soname) = library.soname.as_deref()
            && let Some(first) = seen.insert(soname, &library.name)
        {
            return Err(Error::TwoOfOneName {
                first: first.to_owned(),
                second: library.name.clone(),
                soname: soname.to_owned(),
            });
        }
    }
    Ok(())
}
