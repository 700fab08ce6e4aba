//! What the files of a graph define and refer to, in which versions.

use crate::common::elf::{Bind, Definition, How, Kind, Need, Reference, Spec, Visibility, What};
use crate::graph::{Graph, Mood};
use crate::random::Random;

const FUNCTIONS: [&str; 8] = ["f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7"];
const OBJECTS: [&str; 5] = ["d0", "d1", "d2", "d3", "d4"];
const ABSOLUTE: [&str; 1] = ["a0"];
const UNIQUE: [&str; 3] = ["u0", "u1", "u2"];
const THREAD: [&str; 3] = ["t0", "t1", "t2"];
const VERSIONS: [&str; 3] = ["V1", "V2", "V3"];

pub(crate) fn symbols(graph: &mut Graph, random: &mut Random) {
    let Mood { mishaps, threads, .. } = graph.mood;
    for library in &mut graph.libraries {
        define(&mut library.spec, threads, random);
    }
    for at in 0..graph.libraries.len() {
        let mut spec = graph.libraries[at].spec.clone();
        refer(graph, &mut spec, mishaps, random);
        graph.libraries[at].spec = spec;
    }
    let mut program = graph.program.clone();
    if !program.needed.is_empty() {
        if random.chance(40) {
            for name in FUNCTIONS.iter().chain(&OBJECTS) {
                if random.chance(15) {
                    let mut one = definition(name, threads, random);
                    // The loader calls the resolver while the program is not relocated yet, and says so.
                    if one.what == What::Indirect {
                        one.what = What::Function;
                    }
                    program.definitions.push(one);
                }
            }
        }
        refer(graph, &mut program, mishaps, random);
    }
    graph.program = program;
}

fn definition(name: &str, threads: bool, random: &mut Random) -> Definition {
    let what = match &name[..1] {
        "f" => random.weighted(&[(90, What::Function), (5, What::Indirect), (5, What::Untyped)]),
        "t" => What::Tls,
        "a" => What::Absolute,
        _ => What::Object,
    };
    let bind = match &name[..1] {
        "u" if random.chance(90) => Bind::Unique,
        _ if random.chance(15) => Bind::Weak,
        _ => Bind::Global,
    };
    let visibility =
        random.weighted(&[(88, Visibility::Default), (8, Visibility::Protected), (4, Visibility::Hidden)]);
    let size = match what {
        What::Tls if threads => random.pick(&[1, 8, 64, 100, 200, 400, 700]),
        What::Tls => random.weighted(&[(80, 8), (18, 64), (2, 900)]),
        _ => random.pick(&[4, 8, 8, 16]),
    };
    Definition { name: name.to_owned(), what, bind, visibility, size, version: None }
}

fn define(spec: &mut Spec, threads: bool, random: &mut Random) {
    let all = FUNCTIONS.iter().chain(&OBJECTS).chain(&ABSOLUTE).chain(&UNIQUE).chain(&THREAD);
    for name in all {
        if random.chance(30) {
            spec.definitions.push(definition(name, threads, random));
        }
    }
    if random.chance(if threads { 40 } else { 6 }) {
        spec.own_tls = random.weighted(&[(70, 8), (20, 200), (10, 1200)]);
        spec.own_tls_initial = random.chance(60);
    }
    if random.chance(40) {
        spec.versions = VERSIONS[..=random.below(3)].iter().map(|name| (*name).to_owned()).collect();
        let mut older = Vec::new();
        for one in &mut spec.definitions {
            if random.chance(80) {
                let version = random.below(spec.versions.len());
                one.version = Some((spec.versions[version].clone(), random.chance(8)));
                // foo@V1 beside foo@@V2.
                if version > 0 && random.chance(30) {
                    let version = Some((spec.versions[random.below(version)].clone(), true));
                    older.push(Definition { version, ..one.clone() });
                }
            }
        }
        for one in older {
            let at = random.below(spec.definitions.len() + 1);
            spec.definitions.insert(at, one);
        }
    }
}

/// References to what its needs define, as linked; to its own; and to others.
fn refer(graph: &Graph, spec: &mut Spec, mishaps: u64, random: &mut Random) {
    let provider = |name: &str| {
        let known = graph.libraries.iter().find(|library| {
            library.needed_name() == name || library.name == name || name.ends_with(&library.path())
        })?;
        Some((name.to_owned(), known.spec.clone()))
    };
    let providers: Vec<(String, Spec)> = spec.needed.iter().filter_map(|name| provider(name)).collect();
    for (file, of) in &providers {
        for one in &of.definitions {
            if one.visibility != Visibility::Hidden && random.chance(50) {
                let file = of.soname.as_ref().unwrap_or(file);
                let version = one.version.as_ref().map(|(name, _)| need(file, name));
                add(spec, &one.name, version, random);
            }
        }
    }
    for one in spec.definitions.clone() {
        if one.visibility != Visibility::Hidden && random.chance(25) {
            add(spec, &one.name, None, random);
        }
    }
    // Of nobody in particular: whoever else is in scope.
    let all: Vec<_> =
        FUNCTIONS.iter().chain(&OBJECTS).chain(&ABSOLUTE).chain(&UNIQUE).chain(&THREAD).collect();
    while random.chance(45) {
        let name = random.pick(&all);
        add(spec, name, None, random);
        if random.chance(88)
            && let Some(last) = spec.references.last_mut()
        {
            last.weak = true;
        }
    }
    for at in 0..spec.references.len() {
        if random.chance(mishaps) {
            mishap(spec, at, &providers, random);
        }
    }
    if random.chance(mishaps) {
        let file = providers.first().map_or("libabsent.so", |(file, of)| of.soname.as_ref().unwrap_or(file));
        let weak = random.chance(50);
        spec.extra_needs.push(Need { weak, ..need(file, random.pick(&["V1", "V9"])) });
    }
}

fn need(file: &str, name: &str) -> Need {
    Need { file: file.to_owned(), name: name.to_owned(), weak: false, hidden: false }
}

fn add(spec: &mut Spec, name: &str, version: Option<Need>, random: &mut Random) {
    let fixed = spec.kind == Kind::Fixed;
    let how = match &name[..1] {
        "t" => random.weighted(&[(50, How::General), (30, How::Initial), (20, How::Descriptor)]),
        "f" if fixed && random.chance(20) => How::Canonical,
        "f" => random.weighted(&[(60, How::Call), (25, How::Got), (15, How::Address)]),
        "d" | "u" if fixed && random.chance(50) => How::Copy,
        _ => random.pick(&[How::Got, How::Got, How::Address]),
    };
    let own = spec.definitions.iter().any(|one| one.name == name)
        || spec
            .references
            .iter()
            .any(|one| one.name == name && matches!(one.how, How::Copy | How::Canonical));
    let how = match how {
        How::Copy if own => How::Got,
        How::Canonical if own => How::Call,
        how => how,
    };
    let weak = random.chance(8) && how != How::Copy;
    let size = random.pick(&[4, 8, 8]);
    spec.references.push(Reference { name: name.to_owned(), how, weak, version, size });
}

/// The library was built again since, or never had this; or the file was made by hand.
fn mishap(spec: &mut Spec, at: usize, providers: &[(String, Spec)], random: &mut Random) {
    let file = match random.below(8) {
        0 => "libabsent.so".to_owned(),
        1 => "libc.so.6".to_owned(),
        _ => match providers.first() {
            Some(_) => {
                let (file, of) = random.pick(providers);
                of.soname.unwrap_or(file)
            }
            None => return,
        },
    };
    let reference = &mut spec.references[at];
    match random.below(6) {
        0 => reference.version = Some(need(&file, "V9")),
        1 => reference.version = Some(Need { weak: true, ..need(&file, "V9") }),
        2 => reference.version = Some(need(&file, random.pick(&VERSIONS))),
        3 => reference.version = None,
        4 => {
            if let Some(version) = &mut reference.version {
                version.hidden = true;
            }
        }
        _ => "gone".clone_into(&mut reference.name),
    }
}
