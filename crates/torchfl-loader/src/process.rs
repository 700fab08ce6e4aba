//! A process and the libraries in it: what `dlopen` and the start of a program do.

use std::collections::HashMap;
use std::sync::Arc;

use torchfl_elf::Class;

use crate::failure::Failure;
use crate::files::{Entry, FileEntry, FileId, Files};
use crate::object::Object;
use crate::search::{Hit, Outcome, Step, Why};
use crate::settings::Settings;
use crate::tls::StaticTls;

/// A library in a process, by the order of mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MapId(pub usize);

/// A library in a process.
#[derive(Debug, Clone)]
pub struct Map {
    /// The path that it was opened by; empty for the program.
    pub path: String,
    /// The path with all links followed.
    pub real: String,
    /// The names that it answers to beside its path and SONAME.
    pub names: Vec<String>,
    /// What is in it.
    pub object: Arc<Object>,
    /// Which file it is.
    pub id: FileId,
    /// The library whose `DT_NEEDED` brought it in; `None` for one that was asked for.
    pub by: Option<MapId>,
    /// Where it was looked for; the last step found it.
    pub steps: Vec<Step>,
    /// What answers each of its `DT_NEEDED`; `None` for what was not found.
    pub needed: Vec<Option<MapId>>,
    /// In the global scope.
    pub global: bool,
    /// Part of the program's start.
    pub initial: bool,
    pub(crate) loader: Option<MapId>,
    pub(crate) origin: Option<String>,
    pub(crate) scope: Vec<Scope>,
    pub(crate) searchlist: Option<Vec<MapId>>,
    /// Itself and its dependencies, for the order of relocation.
    pub(crate) order: Option<Vec<MapId>>,
    pub(crate) relocated: bool,
    pub(crate) tls_placed: bool,
    soname_added: bool,
    versions_checked: bool,
}

/// Where a library's symbols are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Global,
    /// What came with this library.
    List(MapId),
    /// This library alone (`DF_SYMBOLIC`).
    Own(MapId),
}

/// How a library is opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct Open {
    /// Who calls `dlopen`; the program by default. Its search path counts.
    pub by: Option<MapId>,
    /// `RTLD_LAZY` and not `RTLD_NOW`.
    pub lazy: bool,
    /// `RTLD_GLOBAL`.
    pub global: bool,
    /// `RTLD_DEEPBIND`.
    pub deepbind: bool,
}

/// What a reference was bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding {
    /// The library that refers.
    pub from: MapId,
    /// The symbol's index there.
    pub symbol: u32,
    /// The library that defines it; `None` where a weak one stays undefined.
    pub to: Option<MapId>,
    /// The definition's index there; `None` also for a library that is taken as given.
    pub definition: Option<u32>,
}

/// A process, as the dynamic loader keeps it.
#[derive(Clone)]
pub struct Process<'f> {
    pub(crate) files: &'f Files,
    pub(crate) settings: Settings,
    pub(crate) maps: Vec<Map>,
    pub(crate) global: Vec<MapId>,
    pub(crate) unique: HashMap<Vec<u8>, (MapId, u32)>,
    pub(crate) bindings: Vec<Binding>,
    pub(crate) problems: Vec<Failure>,
    pub(crate) tls: StaticTls,
    /// Whether the first map is a program, and not a stand-in.
    pub(crate) program: bool,
    name: String,
}

impl<'f> Process<'f> {
    /// A process before its program.
    pub fn new(files: &'f Files, settings: Settings) -> Self {
        Self {
            files,
            tls: StaticTls::new(settings.abi.machine, settings.static_tls),
            settings,
            maps: Vec::new(),
            global: Vec::new(),
            unique: HashMap::new(),
            bindings: Vec::new(),
            problems: Vec::new(),
            program: false,
            name: String::new(),
        }
    }

    /// The tree that it sees.
    pub fn files(&self) -> &'f Files {
        self.files
    }

    /// The libraries, in the order of mapping.
    pub fn maps(&self) -> &[Map] {
        &self.maps
    }

    /// One library.
    pub fn map(&self, id: MapId) -> &Map {
        &self.maps[id.0]
    }

    /// What was bound, in order.
    pub fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// What went wrong so far, where the settings say to go on.
    pub fn problems(&self) -> &[Failure] {
        &self.problems
    }

    /// The library that answers to a name or path now.
    pub fn loaded(&self, name: &str) -> Option<MapId> {
        let answers = |map: &Map| map.answers(name) || map.object.soname.as_deref() == Some(name);
        self.maps.iter().position(answers).map(MapId)
    }

    /// The library that is this file.
    pub fn loaded_file(&self, id: FileId) -> Option<MapId> {
        // Which file the program is the loader does not know.
        let program = usize::from(self.program);
        self.maps.iter().skip(program).position(|map| map.id == id).map(|at| MapId(at + program))
    }

    /// A library's path for people; the program's is its own.
    pub fn display(&self, map: MapId) -> String {
        let path = &self.map(map).path;
        if path.is_empty() { self.name.clone() } else { path.clone() }
    }

    /// Starts a program: `preload` as `LD_PRELOAD` names it. Its `$ORIGIN` is the folder of the file itself, whatever
    /// links led there (`/proc/self/exe`).
    pub fn start(&mut self, program: &str, preload: &[String]) -> Result<MapId, Failure> {
        let Entry::File(entry) = self.files.entry(&self.absolute(program)) else {
            return Err(not_found(program, None, Vec::new()));
        };
        let object = match self.files.library(&entry) {
            Ok(object) => object,
            Err(bad) => return Err(Failure::BadFile { path: program.to_owned(), reason: bad.0 }),
        };
        program.clone_into(&mut self.name);
        self.program = true;
        let interpreter = object.interpreter.clone();
        let step = Step { why: Why::Program, path: program.to_owned(), outcome: Outcome::Taken };
        let real = entry.path.clone();
        let main = self.add(Hit { path: String::new(), entry }, String::new(), object, None, None, false);
        self.maps[0].steps.push(step);
        self.maps[0].origin = Some(folder_of(&real));
        if let Some(path) = interpreter {
            self.interpreter(&path)?;
        }
        let mut first = Vec::new();
        for name in preload {
            // One that cannot be preloaded is ignored.
            if let Ok(map) = self.map_object(name, Some(main), Some(main), false, false) {
                first.push(map);
            }
        }
        self.begin(main, &first)?;
        Ok(main)
    }

    /// Takes `object` for the program, of which no more is known than that it brought `libraries` with it, and the
    /// loader, as far as they are there.
    pub fn stand_in(&mut self, name: &str, object: Arc<Object>, libraries: &[&str], loader: Option<&str>) {
        name.clone_into(&mut self.name);
        let map = Map::new(String::new(), name.to_owned(), FileId::Virtual(0), object);
        self.maps.push(Map {
            relocated: true,
            global: true,
            initial: true,
            searchlist: Some(vec![MapId(0)]),
            scope: vec![Scope::Global],
            ..map
        });
        self.global = vec![MapId(0)];
        for library in libraries {
            // One that is not there is told of where something needs it.
            let _ = self.open(library, Open { global: true, ..Open::default() });
        }
        let _ = loader.map(|loader| self.open(loader, Open::default()));
        for map in &mut self.maps {
            map.initial = true;
            map.tls_placed = true;
        }
        self.tls = StaticTls::new(self.settings.abi.machine, self.settings.static_tls);
        self.tls.start(self.maps.iter().map(|map| map.object.tls));
    }

    /// The loader itself is in every process, and answers to the name under which programs ask for it.
    fn interpreter(&mut self, path: &str) -> Result<(), Failure> {
        let entry = if let Entry::File(entry) = self.files.entry(path) {
            entry
        } else {
            let name = path.rsplit('/').next().unwrap_or(path);
            let Some(object) = self.settings.given.find(name) else {
                return Err(not_found(path, None, Vec::new()));
            };
            FileEntry::given(path, object)
        };
        let object = match self.files.library(&entry) {
            Ok(object) => object,
            Err(bad) => return Err(Failure::BadFile { path: path.to_owned(), reason: bad.0 }),
        };
        let hit = Hit { path: path.to_owned(), entry };
        let map = self.add(hit, path.to_owned(), object, None, None, false);
        self.maps[map.0].relocated = true;
        Ok(())
    }

    fn begin(&mut self, main: MapId, preload: &[MapId]) -> Result<(), Failure> {
        self.dependencies(main, preload, false)?;
        for map in 0..self.maps.len() {
            self.check_versions(MapId(map))?;
        }
        let list = self.maps[main.0].searchlist.clone().unwrap_or_default();
        for map in &mut self.maps {
            map.initial = true;
            map.tls_placed = true;
        }
        self.tls.start(self.maps.iter().map(|map| map.object.tls));
        for map in &list {
            self.maps[map.0].global = true;
        }
        self.global.clone_from(&list);
        self.relocate_list(main, true)
    }

    /// `dlopen`. One that fails leaves nothing behind, but that names may have been added to libraries that were there.
    pub fn open(&mut self, name: &str, how: Open) -> Result<MapId, Failure> {
        let (maps, bindings, tls) = (self.maps.len(), self.bindings.len(), self.tls);
        let placed = self.placed(maps);
        let result = self.try_open(name, how, maps);
        if result.is_err() {
            self.maps.truncate(maps);
            self.bindings.truncate(bindings);
            // Older libraries keep what they got.
            if self.placed(maps) == placed {
                self.tls.back_to(tls);
            }
            self.unique.retain(|_, (map, _)| map.0 < maps);
        }
        result
    }

    /// How many of the first `maps` libraries are in the static TLS block.
    fn placed(&self, maps: usize) -> usize {
        self.maps[..maps].iter().filter(|map| map.tls_placed).count()
    }

    fn try_open(&mut self, name: &str, how: Open, before: usize) -> Result<MapId, Failure> {
        // A path without tokens does not depend on who asks.
        let asks = (!name.contains('/') || name.contains('$')).then(|| how.by.unwrap_or(MapId(0)));
        let new = self.map_object(name, asks, None, true, how.deepbind)?;
        if self.maps[new.0].searchlist.is_some() {
            if how.global {
                self.add_to_global(new);
            }
            return Ok(new);
        }
        self.dependencies(new, &[], how.deepbind)?;
        let list = self.maps[new.0].searchlist.clone().unwrap_or_default();
        for map in &list {
            self.check_versions(*map)?;
        }
        self.relocate_list(new, how.lazy)?;
        // Libraries that were there before now see this one's, for what they bind later.
        for map in list.iter().filter(|map| map.0 < before) {
            let map = &mut self.maps[map.0];
            if !map.initial && !map.scope.contains(&Scope::List(new)) {
                map.scope.push(Scope::List(new));
            }
        }
        if how.global {
            self.add_to_global(new);
        }
        Ok(new)
    }

    fn add_to_global(&mut self, new: MapId) {
        for map in self.maps[new.0].searchlist.clone().unwrap_or_default() {
            if !std::mem::replace(&mut self.maps[map.0].global, true) {
                self.global.push(map);
            }
        }
    }

    /// Finds or maps a library (`_dl_map_object`). `opened`: by `dlopen`, so that who asked is not its loader.
    fn map_object(
        &mut self,
        name: &str,
        asks: Option<MapId>,
        by: Option<MapId>,
        opened: bool,
        deepbind: bool,
    ) -> Result<MapId, Failure> {
        for map in &mut self.maps {
            if map.answers(name) {
                return Ok(self.position(name));
            }
            if !map.soname_added && map.object.soname.as_deref() == Some(name) {
                map.soname_added = true;
                map.names.push(name.to_owned());
                return Ok(self.position(name));
            }
        }
        let mut steps = Vec::new();
        let by_name = by.map(|map| self.display(map));
        let Some(hit) = self.search(name, asks, &mut steps)? else {
            return Err(not_found(name, by_name, steps));
        };
        if let Some(known) = self.loaded_file(hit.entry.id) {
            let map = &mut self.maps[known.0];
            if !map.answers(name) {
                map.names.push(name.to_owned());
            }
            return Ok(known);
        }
        let object = match self.files.library(&hit.entry) {
            Ok(object) => object,
            Err(bad) => return Err(Failure::BadFile { path: hit.path, reason: bad.0 }),
        };
        loadable(&object, name, self.maps[0].initial)?;
        let loader = if opened { None } else { asks };
        let map = self.add(hit, name.to_owned(), object, loader, by, deepbind);
        self.maps[map.0].steps = steps;
        Ok(map)
    }

    fn position(&self, name: &str) -> MapId {
        MapId(self.maps.iter().position(|map| map.answers(name)).unwrap_or_default())
    }

    fn add(
        &mut self,
        hit: Hit,
        name: String,
        object: Arc<Object>,
        loader: Option<MapId>,
        by: Option<MapId>,
        deepbind: bool,
    ) -> MapId {
        let id = MapId(self.maps.len());
        let mut top = loader;
        while let Some(above) = top.and_then(|map| self.map(map).loader) {
            top = Some(above);
        }
        let local = Scope::List(top.unwrap_or(id));
        // The program's own list is the global scope.
        let mut scope = if id.0 == 0 || local == Scope::List(MapId(0)) {
            vec![Scope::Global]
        } else if deepbind {
            vec![local, Scope::Global]
        } else {
            vec![Scope::Global, local]
        };
        if object.flags.symbolic && !deepbind && id.0 != 0 {
            scope.insert(0, Scope::Own(id));
        }
        let origin = (!hit.path.is_empty()).then(|| folder_of(&self.absolute(&hit.path)));
        let mut map = Map::new(hit.path, hit.entry.path, hit.entry.id, object);
        map.names.push(name);
        self.maps.push(Map { by, loader, origin, scope, ..map });
        id
    }

    /// Maps what `map` needs, breadth first (`_dl_map_object_deps`).
    fn dependencies(&mut self, map: MapId, preload: &[MapId], deepbind: bool) -> Result<(), Failure> {
        let mut list = vec![map];
        list.extend(preload);
        let mut at = 0;
        while let Some(&here) = list.get(at) {
            let object = self.maps[here.0].object.clone();
            let mut needed = Vec::with_capacity(object.needed.len());
            for name in &object.needed {
                let found = self.dependency(name, here, deepbind);
                match found {
                    Ok(dependency) => {
                        if !list.contains(&dependency) {
                            list.push(dependency);
                        }
                        needed.push(Some(dependency));
                    }
                    Err(failure) if self.settings.keep_going => {
                        self.note(failure);
                        needed.push(None);
                    }
                    Err(failure) => return Err(failure),
                }
            }
            let one = &mut self.maps[here.0];
            if one.searchlist.is_none() && one.order.is_none() && here != map {
                one.order = Some([here].into_iter().chain(needed.iter().flatten().copied()).collect());
            }
            one.needed = needed;
            at += 1;
        }
        let order = self.sorted(&list);
        self.maps[map.0].searchlist = Some(list);
        self.maps[map.0].order = Some(order);
        Ok(())
    }

    fn dependency(&mut self, name: &str, here: MapId, deepbind: bool) -> Result<MapId, Failure> {
        let full = match self.substitute(name, here) {
            Some(full) if !full.is_empty() => full,
            _ => {
                let reason = "empty dynamic string token substitution".to_owned();
                return Err(Failure::BadFile { path: name.to_owned(), reason });
            }
        };
        self.map_object(&full, Some(here), Some(here), false, deepbind)
    }

    pub(crate) fn note(&mut self, failure: Failure) {
        if !self.problems.contains(&failure) {
            self.problems.push(failure);
        }
    }

    /// Every version that a library needs is defined where it is needed of (`_dl_check_map_versions`).
    fn check_versions(&mut self, map: MapId) -> Result<(), Failure> {
        if std::mem::replace(&mut self.maps[map.0].versions_checked, true) {
            return Ok(());
        }
        let object = self.maps[map.0].object.clone();
        for need in &object.versions_needed {
            let Some(provider) = self.maps.iter().position(|one| one.answers(&need.file)) else {
                // One that is missing has been told of.
                if !(self.settings.keep_going && object.needed.contains(&need.file)) {
                    let by = self.display(map);
                    self.fail(Failure::VersionOfNobody { file: need.file.clone(), by })?;
                }
                continue;
            };
            let defines = self.maps[provider].object.clone();
            if !defines.version_table || defines.is_given() {
                continue;
            }
            for version in &need.versions {
                if !version.weak && !defines.versions_defined.contains(&version.name) {
                    let file = self.display(MapId(provider));
                    let by = self.display(map);
                    self.fail(Failure::Version { file, version: version.name.clone(), by })?;
                }
            }
        }
        Ok(())
    }

    /// Stops, or notes the failure and goes on.
    pub(crate) fn fail(&mut self, failure: Failure) -> Result<(), Failure> {
        if !self.settings.keep_going {
            return Err(failure);
        }
        self.note(failure);
        Ok(())
    }
}

impl Map {
    fn new(path: String, real: String, id: FileId, object: Arc<Object>) -> Self {
        Self {
            path,
            real,
            names: Vec::new(),
            object,
            id,
            by: None,
            steps: Vec::new(),
            needed: Vec::new(),
            global: false,
            initial: false,
            loader: None,
            origin: None,
            scope: Vec::new(),
            searchlist: None,
            order: None,
            relocated: false,
            tls_placed: false,
            soname_added: false,
            versions_checked: false,
        }
    }

    /// `_dl_name_match_p`: by the path it was opened by, or a name under which it was asked for.
    pub fn answers(&self, name: &str) -> bool {
        self.path == name || self.names.iter().any(|known| known == name)
    }
}

/// What stops at a file that is a library for its headers; the message has the name that was asked for.
fn loadable(object: &Object, name: &str, running: bool) -> Result<(), Failure> {
    let bad = |reason: &str| Err(Failure::BadFile { path: name.to_owned(), reason: reason.to_owned() });
    if object.flags.pie {
        return bad("cannot dynamically load position-independent executable");
    }
    if object.flags.fixed {
        return bad("cannot dynamically load executable");
    }
    if object.flags.no_open && running {
        return bad("shared object cannot be dlopen()ed");
    }
    Ok(())
}

fn not_found(name: &str, by: Option<String>, searched: Vec<Step>) -> Failure {
    let other = searched.iter().find_map(|step| match step.outcome {
        Outcome::OtherClass(class) => Some(class),
        _ => None,
    });
    let name = name.to_owned();
    match other {
        Some(Class::Elf32) => Failure::WrongClass { name, by, class: "ELFCLASS32", searched },
        Some(Class::Elf64) => Failure::WrongClass { name, by, class: "ELFCLASS64", searched },
        None => Failure::NotFound { name, by, searched },
    }
}

fn folder_of(path: &str) -> String {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/".to_owned(),
        Some((folder, _)) => folder.to_owned(),
    }
}
