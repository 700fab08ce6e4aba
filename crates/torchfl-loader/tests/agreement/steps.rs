//! What needs what, where it is looked for, what else lies in the folders, and what the program opens.

use crate::common::Step;
use crate::common::elf::Spec;
use crate::graph::{Content, Damage, FOLDERS, Graph};
use crate::random::Random;

/// Names in `DT_NEEDED`.
pub(crate) fn needs(graph: &mut Graph, random: &mut Random) {
    let count = graph.libraries.len();
    for at in 0..count {
        let wanted = random.weighted(&[(25, 0), (35, 1), (25, 2), (15, 3)]);
        let mut needed = Vec::new();
        for _ in 0..wanted {
            // Mostly libraries behind it, so that cycles are not the rule.
            let of = if random.chance(80) { at + 1 + random.below(count - at) } else { random.below(count) };
            if of < count {
                let from = graph.libraries[at].folder;
                needed.push(need(graph, from, of, random));
            }
        }
        graph.libraries[at].spec.needed = needed;
    }
    if random.chance(50) {
        let wanted = 1 + random.below(3);
        for _ in 0..wanted {
            let of = random.below(count);
            let name = need(graph, "bin", of, random);
            graph.program.needed.push(name);
        }
    }
}

fn need(graph: &Graph, from: &str, of: usize, random: &mut Random) -> String {
    let library = &graph.libraries[of];
    let path = library.path();
    let odd = if graph.mood.careful { 300 } else { 100 };
    match random.below(odd) {
        0 => "libmissing.so".to_owned(),
        1 => format!("~/{path}"),
        2 => format!("./{path}"),
        3 => format!("$ORIGIN/{}{path}", up(from)),
        4 => format!("${{ORIGIN}}/{}three/up/{path}", up(from)),
        5 => "libm.so.6".to_owned(),
        6..20 => library.name.clone(),
        _ => library.needed_name(),
    }
}

/// From a folder of the graph to the graph's own.
fn up(from: &str) -> String {
    "../".repeat(from.split('/').count())
}

fn element(from: &str, random: &mut Random) -> String {
    let folder = random.pick(&FOLDERS);
    let up = up(from);
    match random.below(24) {
        0..6 => "$ORIGIN".to_owned(),
        6..11 => format!("$ORIGIN/{up}{folder}"),
        11 => format!("${{ORIGIN}}/{up}{folder}/"),
        12..16 => format!("~/{folder}"),
        16 => format!("~/{folder}//"),
        17 => folder.to_owned(),
        18 => String::new(),
        19 => format!("$ORIGIN/{up}$LIB"),
        20 => format!("~/{}", random.pick(&["link", "deep", "three/up/one", "one/../two", "two/in/.."])),
        21 => random
            .pick(&["/nonexistent", "~/absent", "$UNKNOWN/x", "$ORIGINAL", ".", "/", "~/bin/program"])
            .to_owned(),
        22 => format!("~/${{LIB}}/$PLATFORM/../../{folder}"),
        _ => format!("./{folder}"),
    }
}

fn path(from: &str, count: usize, random: &mut Random) -> String {
    let separator = ":";
    let elements: Vec<_> = (0..count).map(|_| element(from, random)).collect();
    elements.join(separator)
}

pub(crate) fn search_paths(graph: &mut Graph, random: &mut Random) {
    let folders: Vec<_> = graph.libraries.iter().map(|library| library.folder).collect();
    let specs = graph.libraries.iter_mut().map(|library| &mut library.spec);
    for (spec, from) in specs.zip(folders).chain([(&mut graph.program, "bin")]) {
        let (rpath, runpath) = random.weighted(&[
            (35, (false, false)),
            (30, (true, false)),
            (30, (false, true)),
            (5, (true, true)),
        ]);
        let mut value = |set: bool| {
            let count = random.weighted(&[(30, 1), (40, 2), (20, 4), (10, 6)]);
            set.then(|| path(from, count, random))
        };
        (spec.rpath, spec.runpath) = (value(rpath), value(runpath));
    }
}

/// Links, second names, and what is no library though it is called one.
pub(crate) fn other_files(graph: &mut Graph, random: &mut Random) {
    let count = graph.libraries.len();
    for _ in 0..random.below(4) {
        let library = graph.libraries[random.below(count)].clone();
        let place = random.pick(&FOLDERS);
        let name = random.weighted(&[
            (3, library.name.clone()),
            (3, library.needed_name()),
            (1, "libalias.so".to_owned()),
        ]);
        let content = match random.below(3) {
            0 => Content::Link(format!("{}{}", up(place), library.path())),
            1 => Content::Link(format!("~/{}", library.path())),
            _ => Content::Same(library.path()),
        };
        graph.others.push((format!("{place}/{name}"), content));
    }
    // A SONAME that is no file's name usually has a link to the file.
    for library in graph.libraries.clone() {
        if library.needed_name() != library.name && (graph.mood.careful || random.chance(70)) {
            let path = format!("{}/{}", library.folder, library.needed_name());
            graph.others.push((path, Content::Link(library.name.clone())));
        }
    }
    if random.chance(25) {
        let library = &graph.libraries[random.below(count)];
        let name = random.pick(&[library.name.clone(), library.needed_name()]);
        let spec = library.spec.clone();
        let damaged = |damage| Content::Damaged(spec.clone(), damage);
        let content = random.pick(&[
            damaged(Damage::Class32),
            damaged(Damage::Class32),
            damaged(Damage::Machine),
            damaged(Damage::Machine),
            damaged(Damage::BigEndian),
            damaged(Damage::Version),
            damaged(Damage::OsAbi),
            damaged(Damage::Object),
            damaged(Damage::Short),
            Content::Text(""),
            Content::Text(
                "/* GNU ld script */ INPUT(libm.so.6) and some more text, so that it is as long as a header",
            ),
            Content::Folder,
            Content::Link("nowhere".to_owned()),
            Content::Link(name.clone()),
            Content::Library(Spec::library("libother.so")),
        ]);
        graph.others.push((format!("{}/{name}", random.pick(&FOLDERS)), content));
    }
}

pub(crate) fn run(graph: &mut Graph, random: &mut Random) {
    let mut run = std::mem::take(&mut graph.run);
    if graph.mood.careful || random.chance(75) {
        let mut folders: Vec<String> = Vec::new();
        let many = if graph.mood.careful { 100 } else { random.pick(&[30, 70, 100]) };
        for folder in FOLDERS {
            if random.chance(many) {
                let at = random.below(folders.len() + 1);
                folders.insert(at, format!("~/{folder}"));
            }
        }
        while random.chance(25) {
            let at = random.below(folders.len() + 1);
            folders.insert(at, element("bin", random));
        }
        run.library_path = folders.join(if random.chance(20) { ";" } else { ":" });
    }
    run.bind_now = random.chance(15);
    if random.chance(20) {
        for _ in 0..=random.below(2) {
            let name = name(graph, random);
            if !name.contains(' ') {
                run.preload.push(name);
            }
        }
    }
    for _ in 0..=random.below(5) {
        // Mostly one that is there by then.
        let opened = run.steps.last().map(|step| step.name.rsplit('/').next().unwrap_or_default().to_owned());
        let any = graph.libraries[random.below(graph.libraries.len())].name.clone();
        let by = random.chance(30).then(|| opened.filter(|_| random.chance(85)).unwrap_or(any));
        run.steps.push(Step {
            name: name(graph, random),
            now: random.chance(50),
            global: random.chance(35),
            deepbind: random.chance(10),
            by,
        });
    }
    graph.run = run;
}

/// A library as somebody would name it.
fn name(graph: &Graph, random: &mut Random) -> String {
    let library = &graph.libraries[random.below(graph.libraries.len())];
    let path = library.path();
    match random.below(40) {
        0 => "libmissing.so".to_owned(),
        1 => format!("./{path}"),
        2 => path,
        3 => format!("~/three/up/{path}"),
        4 => format!("$ORIGIN/../{path}"),
        5 => format!("~/link/{}", library.name),
        6 => "libalias.so".to_owned(),
        7 => random.pick(&["~/two", "~/bin/program", "bin/program"]).to_owned(),
        8 => format!("~//{}/./{}", library.folder, library.name),
        9 => format!("$ORIGIN/../$LIB/{}", library.name),
        10 => "libm.so.6".to_owned(),
        11 => format!("{}/../{path}", library.folder.split('/').next().unwrap()),
        12..17 => library.name.clone(),
        17..25 => library.needed_name(),
        _ => format!("~/{path}"),
    }
}
