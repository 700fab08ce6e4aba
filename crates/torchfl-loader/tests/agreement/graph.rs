//! A graph: files in folders, a program, and what it opens.

use std::fmt;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use crate::common::elf::{Kind, Spec};
use crate::common::{self, Run};
use crate::random::Random;
use crate::{steps, symbols};

/// Folders, relative to the graph's. The last ones are reached by links, hwcaps and `$LIB`.
pub(crate) const FOLDERS: [&str; 7] =
    ["one", "two", "two/in", "three", "lib", "one/glibc-hwcaps/x86-64-v2", "lib/x86_64-linux-gnu"];
/// Links to folders.
const LINKS: [(&str, &str); 3] = [("link", "two"), ("three/up", ".."), ("deep", "two/in/../in")];
const PROGRAM: &str = "bin/program";

/// What stands at a path.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    Library(Spec),
    /// A library, damaged.
    Damaged(Spec, Damage),
    Text(&'static str),
    Folder,
    /// A symbolic link.
    Link(String),
    /// Another name of the file at this path.
    Same(String),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Damage {
    Class32,
    BigEndian,
    Machine,
    Version,
    OsAbi,
    Object,
    Short,
}

/// A library's place in the graph.
#[derive(Debug, Clone)]
pub(crate) struct Library {
    pub(crate) name: String,
    pub(crate) folder: &'static str,
    pub(crate) spec: Spec,
}

impl Library {
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.folder, self.name)
    }

    /// What a linker would put into `DT_NEEDED`.
    pub(crate) fn needed_name(&self) -> String {
        self.spec.soname.clone().unwrap_or_else(|| self.name.clone())
    }
}

/// What a graph is out for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mood {
    /// Libraries are found, mostly.
    pub(crate) careful: bool,
    /// Of a hundred libraries, those that do not lie where most do.
    spread: u64,
    /// Of a hundred references, those that are not as linked.
    pub(crate) mishaps: u64,
    /// Thread-local variables are large, and many.
    pub(crate) threads: bool,
}

pub(crate) struct Graph {
    seed: u64,
    pub(crate) mood: Mood,
    pub(crate) program: Spec,
    pub(crate) libraries: Vec<Library>,
    pub(crate) others: Vec<(String, Content)>,
    pub(crate) run: Run,
}

/// A graph on the disk.
pub(crate) struct Bench {
    pub(crate) run: Run,
    _folder: TempDir,
}

impl Graph {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let random = &mut random;
        let careful = random.chance(60);
        let mood = Mood {
            careful,
            spread: random.pick(&[5, 30, 100]),
            mishaps: random.weighted(&[(65, 0), (25, 3), (10, 12)]),
            threads: random.chance(12),
        };
        let libraries = libraries(mood, random);
        let kind = if random.chance(50) { Kind::Fixed } else { Kind::Pie };
        let program = Spec { kind, unmarked: random.chance(20), tls_align: 8, ..Spec::default() };
        let mut graph = Self { seed, mood, program, libraries, others: Vec::new(), run: Run::default() };
        steps::needs(&mut graph, random);
        symbols::symbols(&mut graph, random);
        steps::search_paths(&mut graph, random);
        steps::other_files(&mut graph, random);
        steps::run(&mut graph, random);
        let alias = random.pick(&[PROGRAM, PROGRAM, PROGRAM, "link/alias"]);
        alias.clone_into(&mut graph.run.program);
        graph
    }

    /// Writes it into a new folder.
    pub(crate) fn lay(&self) -> Bench {
        let folder = TempDir::new().unwrap();
        let root = fs_err::canonicalize(folder.path()).unwrap();
        let here = |text: &str| text.replace('~', root.to_str().unwrap());
        for folder in FOLDERS.iter().chain(&["bin"]) {
            fs_err::create_dir_all(root.join(folder)).unwrap();
        }
        for (link, target) in LINKS {
            symlink(target, root.join(link)).unwrap();
        }
        symlink("../bin/program", root.join("two/alias")).unwrap();
        let write = |path: &str, spec: &Spec, damage: Option<Damage>| {
            let spec = placed(spec, &here);
            let mut bytes = spec.write(path.rsplit('/').next().unwrap());
            if let Some(damage) = damage {
                damage.to(&mut bytes);
            }
            common::write(&root.join(path), &bytes);
        };
        for library in &self.libraries {
            write(&library.path(), &library.spec, None);
        }
        for (path, content) in &self.others {
            let full = root.join(path);
            if fs_err::symlink_metadata(&full).is_ok() {
                continue;
            }
            match content {
                Content::Library(spec) => write(path, spec, None),
                Content::Damaged(spec, damage) => write(path, spec, Some(*damage)),
                Content::Text(text) => fs_err::write(full, text).unwrap(),
                Content::Folder => fs_err::create_dir(full).unwrap(),
                Content::Link(target) => symlink(here(target), full).unwrap(),
                Content::Same(other) => fs_err::hard_link(root.join(other), full).unwrap(),
            }
        }
        write(PROGRAM, &self.program, None);
        let mut run = self.run.clone();
        run.library_path = here(&run.library_path);
        for name in run.preload.iter_mut().chain(run.steps.iter_mut().map(|step| &mut step.name)) {
            *name = here(name);
        }
        run.folder = root;
        Bench { run, _folder: folder }
    }
}

/// `~` stands for the graph's folder, which is not known before it is laid.
fn placed(spec: &Spec, here: &dyn Fn(&str) -> String) -> Spec {
    let mut spec = spec.clone();
    for name in spec.needed.iter_mut().chain(spec.rpath.as_mut()).chain(spec.runpath.as_mut()) {
        *name = here(name);
    }
    for reference in &mut spec.references {
        if let Some(need) = &mut reference.version {
            need.file = here(&need.file);
        }
    }
    spec
}

/// Libraries without needs and symbols.
fn libraries(mood: Mood, random: &mut Random) -> Vec<Library> {
    let count = 2 + random.below(9);
    let mut libraries: Vec<Library> = Vec::new();
    let home = random.pick(&FOLDERS[..4]);
    for letter in ('a'..).take(count) {
        let name = format!("libq{letter}.so");
        let folder = random.weighted(&[
            (30, FOLDERS[0]),
            (30, FOLDERS[1]),
            (10, FOLDERS[2]),
            (10, FOLDERS[3]),
            (5, FOLDERS[4]),
            (5, FOLDERS[5]),
            (10, FOLDERS[6]),
        ]);
        let folder = if random.chance(mood.spread) { folder } else { home };
        let soname = match random.below(10) {
            0 => None,
            1 => Some(format!("{name}.1")),
            2 if !libraries.is_empty() && !mood.careful => {
                let of = random.below(libraries.len());
                libraries[of].spec.soname.clone()
            }
            _ => Some(name.clone()),
        };
        let mut spec = Spec { soname, ..Spec::library(&name) };
        flags(&mut spec, random);
        if mood.threads {
            spec.tls_align = random.pick(&[1, 8, 16, 32, 64, 128]);
        }
        libraries.push(Library { name, folder, spec });
    }
    // A second build of one of them, elsewhere, which defines and needs something else.
    if random.chance(30) {
        let mut twin = random.pick(&libraries);
        twin.folder = random.pick(&FOLDERS);
        if libraries.iter().all(|library| library.path() != twin.path()) {
            libraries.push(twin);
        }
    }
    libraries
}

fn flags(spec: &mut Spec, random: &mut Random) {
    use crate::common::elf::Hash;
    const DF_SYMBOLIC: u64 = 2;
    const DF_BIND_NOW: u64 = 8;
    const DF_1_NOW: u64 = 1;
    const DF_1_NODELETE: u64 = 8;
    const DF_1_NOOPEN: u64 = 0x40;
    const DF_1_NODEFLIB: u64 = 0x800;
    let mut flag = |percent, bit| if random.chance(percent) { bit } else { 0 };
    spec.flags = flag(8, DF_SYMBOLIC) | flag(8, DF_BIND_NOW);
    spec.flags_1 = flag(8, DF_1_NOW) | flag(8, DF_1_NODELETE) | flag(1, DF_1_NOOPEN) | flag(8, DF_1_NODEFLIB);
    spec.symbolic = random.chance(2);
    spec.hash = random.weighted(&[(70, Hash::Gnu), (15, Hash::Sysv), (14, Hash::Both), (1, Hash::None)]);
}

impl Damage {
    fn to(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Class32 => bytes[4] = 1,
            Self::BigEndian => bytes[5] = 2,
            Self::Machine => bytes[18] = 183,
            Self::Version => bytes[6] = 9,
            Self::OsAbi => bytes[7] = 99,
            Self::Object => bytes[16] = 1,
            Self::Short => bytes.truncate(40),
        }
    }
}

impl fmt::Display for Graph {
    /// In words; `~` is the graph's folder.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "graph {}: {:?}", self.seed, self.mood)?;
        show(f, PROGRAM, &self.program)?;
        for library in &self.libraries {
            show(f, &library.path(), &library.spec)?;
        }
        for (path, content) in &self.others {
            match content {
                Content::Library(spec) => show(f, path, spec)?,
                Content::Damaged(_, damage) => writeln!(f, "{path}: a library, {damage:?}")?,
                other => writeln!(f, "{path}: {other:?}")?,
            }
        }
        let run = &self.run;
        writeln!(
            f,
            "LD_LIBRARY_PATH={:?} LD_PRELOAD={:?} now {}",
            run.library_path, run.preload, run.bind_now
        )?;
        for step in &run.steps {
            let flag = |set: bool, text| if set { text } else { "" };
            let [now, global, deep] =
                [flag(step.now, " now"), flag(step.global, " global"), flag(step.deepbind, " deepbind")];
            writeln!(
                f,
                "open {:?}{now}{global}{deep} by {:?}",
                step.name,
                step.by.as_deref().unwrap_or("the program")
            )?;
        }
        Ok(())
    }
}

fn show(f: &mut fmt::Formatter<'_>, path: &str, spec: &Spec) -> fmt::Result {
    write!(f, "{path}: {:?} soname {:?} hash {:?}", spec.kind, spec.soname, spec.hash)?;
    for (tag, text) in [("rpath", &spec.rpath), ("runpath", &spec.runpath)] {
        if let Some(text) = text {
            write!(f, " {tag} {text:?}")?;
        }
    }
    let align = if spec.tls_align == 8 { 0 } else { spec.tls_align };
    for (name, value) in
        [("flags", spec.flags), ("flags_1", spec.flags_1), ("tls", spec.own_tls), ("tls_align", align)]
    {
        if value != 0 {
            write!(f, " {name} {value:#x}")?;
        }
    }
    writeln!(f, "{}", if spec.symbolic { " DT_SYMBOLIC" } else { "" })?;
    if !spec.needed.is_empty() {
        writeln!(f, "    needs {:?}", spec.needed)?;
    }
    if !spec.versions.is_empty() {
        writeln!(f, "    versions {:?}", spec.versions)?;
    }
    for one in &spec.definitions {
        let version =
            one.version.as_ref().map(|(name, hidden)| format!("{}{name}", if *hidden { "@" } else { "@@" }));
        let version = version.unwrap_or_default();
        writeln!(
            f,
            "    def {}{version} {:?} {:?} {:?} {}",
            one.name, one.what, one.bind, one.visibility, one.size
        )?;
    }
    for one in &spec.references {
        let version = one.version.as_ref().map(|need| {
            let flags = [(need.weak, " weak"), (need.hidden, " hidden")];
            let flags: String = flags.iter().filter(|(set, _)| *set).map(|(_, text)| *text).collect();
            format!("@{} of {}{flags}", need.name, need.file)
        });
        let weak = if one.weak { " weak" } else { "" };
        writeln!(f, "    ref {}{} {:?}{weak}", one.name, version.unwrap_or_default(), one.how)?;
    }
    for need in &spec.extra_needs {
        writeln!(f, "    verneed {} of {}{}", need.name, need.file, if need.weak { " weak" } else { "" })?;
    }
    Ok(())
}
