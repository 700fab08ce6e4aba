//! What another version of the same libraries takes away and adds, for those that were made for the first.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;
use torchfl_elf::Bind;

use super::take::{is_data, within};
use super::{Kept, Snapshot};
use crate::files::{Entry, Files};
use crate::object::Object;
use crate::symbols::{Export, Wanted, hash};

/// Differences between two snapshots, from the first to the second.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// Names by which a library, or a folder of some, could be found, and now cannot; as paths of the first.
    pub gone: Vec<String>,
    /// Names that are new; as paths of the second.
    pub new: Vec<String>,
    /// Libraries that differ, of those that are found by the same name in both.
    pub changed: Vec<Change>,
}

/// A library that differs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Its path in the first snapshot.
    pub library: String,
    /// Machine, SONAME: what it was and what it is.
    pub facts: Vec<Difference>,
    /// Versions that it no longer defines.
    pub versions_gone: Vec<String>,
    /// Versions that are new.
    pub versions_new: Vec<String>,
    /// Exports that a reference to them no longer finds, as `name` or `name@VERSION`.
    pub symbols_gone: Vec<String>,
    /// Exports that are new.
    pub symbols_new: Vec<String>,
    /// Exports whose kind changed between code, data and thread-local data: a reference finds the wrong
    /// thing.
    pub kinds: Vec<Difference>,
    /// Exports whose binding, or size in bytes, changed. Libraries do not notice; programs that copied such
    /// data do.
    pub details: Vec<Difference>,
}

/// Something that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What.
    pub of: String,
    /// As it was.
    pub from: String,
    /// As it is.
    pub to: String,
}

impl Diff {
    /// Compares two snapshots. Their folders correspond where they have the same path, else in order.
    ///
    /// Libraries are compared by the names that they are asked for: file names and links. The file name
    /// behind a SONAME (`liba.so.1.2.3` for `liba.so.1`) is none: nobody asks for it.
    pub fn between(first: &Snapshot, second: &Snapshot) -> Self {
        let (mut a, mut b) = (Names::of(first), Names::of(second));
        a.pair(second);
        b.pair(first);
        let mut diff = Self::default();
        let mut pairs = BTreeSet::new();
        for (name, found) in &a.found {
            let other = a.partner(name).and_then(|name| b.found.get(&name));
            match (found.what, other.map(|other| other.what)) {
                (What::Library(from), Some(What::Library(to))) => drop(pairs.insert((from, to))),
                (What::Folder, Some(What::Folder)) => {}
                _ if found.asked_for => diff.gone.push(found.path.to_owned()),
                _ => {}
            }
        }
        for (name, found) in b.found.iter().filter(|(_, found)| found.asked_for) {
            if b.partner(name).is_none_or(|name| !a.found.contains_key(&name)) {
                diff.new.push(found.path.to_owned());
            }
        }
        let preferred = a.preferred();
        let path = |library: &usize| preferred.get(library).copied().unwrap_or_default();
        let compared = pairs.into_iter().map(|(from, to)| (path(&from), from, to));
        let changes = compared.map(|(path, from, to)| {
            let mut change = facts(path, &first.libraries[from].object, &second.libraries[to].object);
            exports(&mut change, &a.scope(from), &b.scope(to));
            change
        });
        diff.changed = changes.filter(|change| !change.is_empty()).collect();
        diff.changed.sort_by(|a, b| a.library.cmp(&b.library));
        diff
    }

    /// Whether the second has all that something made for the first could use.
    pub fn keeps_all(&self) -> bool {
        self.gone.is_empty() && !self.changed.iter().any(Change::takes_away)
    }
}

impl Change {
    /// Whether something that could be used is gone.
    pub fn takes_away(&self) -> bool {
        let other_machine = self.facts.iter().any(|fact| fact.of == MACHINE);
        other_machine
            || !(self.versions_gone.is_empty() && self.symbols_gone.is_empty() && self.kinds.is_empty())
    }

    fn is_empty(&self) -> bool {
        *self == Self { library: self.library.clone(), ..Self::default() }
    }
}

const MACHINE: &str = "machine";

/// Libraries that are looked into for a symbol: real ones need some dozens.
const MAX_SCOPE: usize = 200;

/// A name: the folder that it lies in, by its place among the snapshot's, and the path below that.
type Name<'s> = (Option<usize>, &'s str);

#[derive(Clone, Copy)]
enum What {
    Library(usize),
    Folder,
}

struct Found<'s> {
    path: &'s str,
    what: What,
    asked_for: bool,
}

/// All names of a snapshot.
struct Names<'s> {
    snapshot: &'s Snapshot,
    found: BTreeMap<Name<'s>, Found<'s>>,
    by_soname: HashMap<&'s str, usize>,
    /// The folders of the other snapshot that those of this one correspond to.
    partners: Vec<Option<usize>>,
}

impl<'s> Names<'s> {
    fn of(snapshot: &'s Snapshot) -> Self {
        let mut files = Files::new();
        snapshot.mount(&mut files);
        let paths = snapshot
            .libraries
            .iter()
            .enumerate()
            .flat_map(|(index, kept)| kept.paths.iter().map(move |path| (path.as_str(), index)));
        let by_path: HashMap<&str, usize> = paths.collect();
        let sonames = snapshot.libraries.iter().enumerate().rev();
        let sonames = sonames.filter_map(|(index, kept)| Some((kept.object.soname.as_deref()?, index)));
        let mut names =
            Self { snapshot, found: BTreeMap::new(), by_soname: sonames.collect(), partners: Vec::new() };
        for path in by_path.keys().copied().chain(snapshot.links.keys().map(String::as_str)) {
            let what = match files.entry(path) {
                Entry::File(entry) => by_path.get(entry.path.as_str()).map(|index| What::Library(*index)),
                Entry::Folder => Some(What::Folder),
                Entry::Absent | Entry::Loop => None,
            };
            if let Some(what) = what {
                let asked_for = match what {
                    What::Library(index) => !is_behind_soname(path, &snapshot.libraries[index]),
                    What::Folder => true,
                };
                names.found.insert(names.name(path), Found { path, what, asked_for });
            }
        }
        names.ask_for_the_rest();
        names
    }

    fn name(&self, path: &'s str) -> Name<'s> {
        let folders = self.snapshot.folders.iter().map(|folder| folder.trim_end_matches('/'));
        let mut below =
            folders.enumerate().filter_map(|(at, folder)| Some((Some(at), within(path, folder)?)));
        below.next().unwrap_or((None, path))
    }

    /// A library that has only the name behind its SONAME is asked for by that.
    fn ask_for_the_rest(&mut self) {
        let asked = self.found.values().filter(|found| found.asked_for);
        let reached: BTreeSet<usize> = asked.filter_map(Found::library).collect();
        for found in self.found.values_mut() {
            found.asked_for |= found.library().is_some_and(|index| !reached.contains(&index));
        }
    }

    /// Works out which folder of `other` each folder here corresponds to.
    fn pair(&mut self, other: &Snapshot) {
        let (here, there) = (&self.snapshot.folders, &other.folders);
        let place = |folders: &[String], folder: &String| folders.iter().position(|one| one == folder);
        let mut unmatched = (0..there.len()).filter(|at| place(here, &there[*at]).is_none());
        let partner = |folder: &String| place(there, folder).or_else(|| unmatched.next());
        self.partners = here.iter().map(partner).collect();
    }

    /// The name in the other snapshot that corresponds to `name` here.
    fn partner(&self, name: &Name<'s>) -> Option<Name<'s>> {
        match name.0 {
            None => Some(*name),
            Some(folder) => self.partners[folder].map(|folder| (Some(folder), name.1)),
        }
    }

    /// A library, and what comes with it: what it needs, and they need, as far as it is here.
    fn scope(&self, library: usize) -> Vec<&'s Object> {
        let mut scope = vec![library];
        let mut at = 0;
        while at < scope.len() && scope.len() < MAX_SCOPE {
            let needed = &self.snapshot.libraries[scope[at]].object.needed;
            for index in needed.iter().filter_map(|name| self.by_soname.get(name.as_str())) {
                if !scope.contains(index) {
                    scope.push(*index);
                }
            }
            at += 1;
        }
        scope.iter().map(|index| &*self.snapshot.libraries[*index].object).collect()
    }

    /// The path that each library is best known by: one that is asked for, its SONAME, the shortest.
    fn preferred(&self) -> HashMap<usize, &'s str> {
        let mut best: HashMap<usize, &Found<'s>> = HashMap::new();
        for found in self.found.values() {
            let Some(library) = found.library() else { continue };
            let soname = self.snapshot.libraries[library].object.soname.as_deref();
            let rank =
                |found: &Found<'_>| (!found.asked_for, Some(base(found.path)) != soname, found.path.len());
            if best.get(&library).is_none_or(|known| rank(found) < rank(known)) {
                best.insert(library, found);
            }
        }
        best.into_iter().map(|(library, found)| (library, found.path)).collect()
    }
}

impl Found<'_> {
    fn library(&self) -> Option<usize> {
        match self.what {
            What::Library(index) => Some(index),
            What::Folder => None,
        }
    }
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// `liba.so.1.2.3` of a library whose SONAME is `liba.so.1`.
fn is_behind_soname(path: &str, kept: &Kept) -> bool {
    let rest = kept.object.soname.as_deref().and_then(|soname| base(path).strip_prefix(soname));
    rest.is_some_and(|rest| rest.starts_with('.'))
}

/// What differs apart from symbols.
fn facts(path: &str, a: &Object, b: &Object) -> Change {
    let mut change = Change { library: path.to_owned(), ..Change::default() };
    let machine = |object: &Object| {
        format!("{} {:?} {:?}", object.abi.machine, object.abi.class, object.abi.endian).to_lowercase()
    };
    let soname = |object: &Object| object.soname.clone().unwrap_or_default();
    for (of, from, to) in [(MACHINE, machine(a), machine(b)), ("soname", soname(a), soname(b))] {
        differ(&mut change.facts, of, from, to);
    }
    let missing = |from: &Object, to: &Object| -> Vec<String> {
        let there: BTreeSet<&String> = to.versions_defined.iter().collect();
        from.versions_defined.iter().filter(|version| !there.contains(version)).cloned().collect()
    };
    change.versions_gone = missing(a, b);
    change.versions_new = missing(b, a);
    change
}

/// What differs in the exports of the first library of each scope. A symbol may move to a library that comes
/// with it: it is found there as well.
fn exports(change: &mut Change, a: &[&Object], b: &[&Object]) {
    let own = |scope: &[&Object]| scope.first().map(|object| object.symbols.exports().collect::<Vec<_>>());
    for export in own(a).unwrap_or_default() {
        // What a reference found, which need not be this definition: a file may have two of one name.
        match (find(a, &export), find(b, &export)) {
            (Some(was), Some(is)) => compare(change, &label(&export), was, is),
            (Some(_), None) => change.symbols_gone.push(label(&export)),
            (None, _) => {}
        }
    }
    let new = own(b).unwrap_or_default().into_iter();
    let new = new.filter(|export| find(a, export).is_none() && find(b, export).is_some());
    change.symbols_new = new.map(|export| label(&export)).collect();
    for symbols in [&mut change.symbols_gone, &mut change.symbols_new] {
        symbols.dedup();
    }
}

/// A definition, as a reference finds it.
#[derive(Clone, Copy)]
struct Definition {
    bind: Bind,
    kind: u8,
    size: u64,
}

impl Definition {
    fn sort(self) -> &'static str {
        match self.kind {
            6 => "thread-local data",
            kind if is_data(kind) => "data",
            _ => "code",
        }
    }

    fn details(self, sized: bool) -> String {
        let bind = format!("{:?}", self.bind).to_lowercase();
        if sized { format!("{bind}, {} bytes", self.size) } else { bind }
    }
}

/// What a reference to `export` finds in these libraries.
fn find(scope: &[&Object], export: &Export) -> Option<Definition> {
    let name = export.name.as_bytes();
    let version = export.version.as_deref().map(|version| (version, false));
    let wanted = Wanted { name, hash: hash(name), version };
    scope.iter().find_map(|object| {
        let (bind, kind, _, size) = object.symbols.facts(object.symbols.find(&wanted, true)?)?;
        Some(Definition { bind, kind, size })
    })
}

fn compare(change: &mut Change, label: &str, was: Definition, is: Definition) {
    // Without a kind it may be either: assembly and linker scripts define such.
    if was.kind != 0 && is.kind != 0 && was.sort() != is.sort() {
        return differ(&mut change.kinds, label, was.sort().to_owned(), is.sort().to_owned());
    }
    let sized = is_data(was.kind) && is_data(is.kind);
    differ(&mut change.details, label, was.details(sized), is.details(sized));
}

fn differ(differences: &mut Vec<Difference>, of: &str, from: String, to: String) {
    if from != to {
        differences.push(Difference { of: of.to_owned(), from, to });
    }
}

fn label(export: &Export) -> String {
    match &export.version {
        Some(version) => format!("{}@{version}", export.name),
        None => export.name.clone(),
    }
}
