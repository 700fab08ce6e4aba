//! Why a library was found where it was, and a symbol bound to what it is.

use serde::Serialize;
use torchfl_loader::{Failure, MapId, Step, Why as Reason};

use crate::import::{self, Import};
use crate::redirect;
use crate::rules::elf::base;
use crate::site::{Environment, SITE, Site, shown};

/// References that are told, of one symbol.
const MOST: usize = 100;

/// An answer.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Why {
    /// About a library.
    Library {
        /// Every file that answers to the name.
        found: Vec<Found>,
        /// Who asked in vain.
        missing: Vec<Failure>,
    },
    /// About a symbol.
    Symbol {
        /// Who defines it, in the order of mapping.
        defined_by: Vec<String>,
        /// Who refers to it, and what each was bound to.
        references: Vec<Reference>,
    },
}

/// A library that is mapped.
#[derive(Debug, Clone, Serialize)]
pub struct Found {
    /// The file.
    pub file: String,
    /// The path that it was opened by.
    pub opened_as: String,
    /// Who asked for it first.
    pub by: String,
    /// The search, step by step; the last found it.
    pub steps: Vec<Step>,
    /// In the global scope.
    pub global: bool,
}

/// A reference to a symbol.
#[derive(Debug, Clone, Serialize)]
pub struct Reference {
    /// The library that refers.
    pub by: String,
    /// The version that it asks for.
    pub version: Option<String>,
    /// The library that it was bound to.
    pub to: Option<String>,
    /// Taken on somebody's word, or weak and undefined, or seen.
    pub how: &'static str,
    /// The libraries that were looked into, up to the one that has it.
    pub looked_into: Vec<String>,
}

/// Looks for `name`, a library's file name, SONAME or path, or else a symbol's (mangled) name.
pub(crate) fn why(site: &Site, name: &str) -> Option<Why> {
    let way = redirect::usual(site);
    let files = import::tree(site, way);
    let mut import = import::import(site, &files, way, &Environment::default());
    for elf in &site.elfs {
        let path = format!("{SITE}/{}", elf.path);
        if !import.process.maps().iter().any(|map| map.real == path) {
            import.open(path, "the audit", false);
        }
    }
    library(&import, name).or_else(|| symbol(&import, name))
}

fn library(import: &Import<'_>, name: &str) -> Option<Why> {
    let process = &import.process;
    let answers = process.maps().iter().filter(|map| {
        let soname = map.object.soname.as_deref() == Some(name);
        soname || base(&map.real) == name || shown(&map.real) == name || map.answers(name)
    });
    let found: Vec<Found> = answers
        .map(|map| Found {
            file: shown(&map.real),
            opened_as: shown(&map.path),
            by: map.by.map_or_else(|| opener(import, &map.path), |by| shown(&process.map(by).real)),
            steps: map.steps.iter().map(plainly).collect(),
            global: map.global,
        })
        .collect();
    let missing: Vec<Failure> =
        import.problems().into_iter().filter_map(|failure| in_vain(failure, name)).collect();
    (!found.is_empty() || !missing.is_empty()).then_some(Why::Library { found, missing })
}

/// A search for `name` that found nothing, with paths as people know them.
fn in_vain(mut failure: Failure, name: &str) -> Option<Failure> {
    let (Failure::NotFound { name: wanted, by, searched }
    | Failure::WrongClass { name: wanted, by, searched, .. }) = &mut failure
    else {
        return None;
    };
    if base(wanted) != name {
        return None;
    }
    *wanted = shown(wanted);
    *by = by.as_deref().map(shown);
    *searched = searched.iter().map(plainly).collect();
    Some(failure)
}

/// A step with paths as people know them.
fn plainly(step: &Step) -> Step {
    let why = match &step.why {
        Reason::Rpath(of) => Reason::Rpath(shown(of)),
        Reason::Runpath(of) => Reason::Runpath(shown(of)),
        other => other.clone(),
    };
    Step { why, path: shown(&step.path), outcome: step.outcome.clone() }
}

fn opener(import: &Import<'_>, path: &str) -> String {
    let opening = import.openings.iter().find(|opening| opening.path == path);
    opening.map_or("the interpreter", |opening| opening.by).to_owned()
}

fn symbol(import: &Import<'_>, name: &str) -> Option<Why> {
    let process = &import.process;
    let defines = |map: &&torchfl_loader::Map| {
        let symbols = &map.object.symbols;
        symbols.exports().any(|export| export.name == name)
    };
    let defined_by: Vec<String> = process.maps().iter().filter(defines).map(|map| shown(&map.real)).collect();
    let mut references = Vec::new();
    for binding in process.bindings() {
        let from = process.map(binding.from);
        if from.object.symbols.name(binding.symbol) != name.as_bytes() || references.len() == MOST {
            continue;
        }
        let to = binding.to.map(|to| process.map(to));
        references.push(Reference {
            by: shown(&from.real),
            version: from.object.symbols.version(binding.symbol).map(|(version, _)| version.to_owned()),
            to: to.map(|to| shown(&to.real)),
            how: match to {
                None => "weak, and nobody defines it",
                Some(to) if to.object.is_given() => "taken on its word",
                Some(_) => "seen",
            },
            looked_into: looked_into(import, binding.from, binding.to),
        });
    }
    for failure in import.problems() {
        if let Failure::Undefined { symbol, version, by, .. } = failure
            && symbol == name
        {
            let from = process.maps().iter().position(|map| map.path == by).map(MapId);
            references.push(Reference {
                by: shown(&by),
                version,
                to: None,
                how: "undefined: the loader stops here",
                looked_into: from.map(|from| looked_into(import, from, None)).unwrap_or_default(),
            });
        }
    }
    (!defined_by.is_empty() || !references.is_empty()).then_some(Why::Symbol { defined_by, references })
}

/// The scope of `from` when it was bound: what was mapped later was not in it.
fn looked_into(import: &Import<'_>, from: MapId, to: Option<MapId>) -> Vec<String> {
    let process = &import.process;
    let opening = import.openings.iter().find(|opening| from.0 < opening.mapped);
    let mapped = opening.map_or(process.maps().len(), |opening| opening.mapped);
    let mut all = Vec::new();
    for map in process.scope(from).into_iter().filter(|map| map.0 < mapped) {
        all.push(shown(&process.map(map).real));
        if Some(map) == to {
            break;
        }
    }
    all
}
