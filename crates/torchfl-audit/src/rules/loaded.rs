//! What can be said of the process after the import.

use std::collections::BTreeMap;

use torchfl_loader::{Map, Open, Process};

use crate::finding::Finding;
use crate::import::{Import, Way};
use crate::redirect;
use crate::rules::{self, elf::base, load};
use crate::site::{SITE, Site, shown};
use crate::system::Word;

/// OpenMP runtimes by the start of their names: GCC's, Intel's, LLVM's.
const OPENMP: [&str; 3] = ["libgomp", "libiomp5", "libomp"];

/// All of them.
pub(crate) fn check(site: &Site, import: &Import<'_>, way: Way, found: &mut Vec<Finding>) {
    mixed(site, &import.process, found);
    dlopen(site, import, found);
    provided_too(site, found);
    if found.iter().any(load::stops) {
        // The rest speaks of what loads, and would say the same thing twice.
        return;
    }
    kernels(site, import, found);
    let twice: Vec<String> =
        found.iter().filter(|f| f.code == rules::TWO_FILES.code).map(|f| f.name.clone()).collect();
    for (library, reason) in redirect::misplaced(site, import, way) {
        if twice.contains(&library) {
            continue;
        }
        found.push(rules::REDIRECT.finding(site.subject().file_name(), library, reason));
    }
}

/// What one process shows, that of a library opened by itself as well.
pub(crate) fn mixed(site: &Site, process: &Process<'_>, found: &mut Vec<Finding>) {
    two_files(process, found);
    openmp(process, found);
    unrequired(site, process, found);
}

fn is_openmp(name: &str) -> Option<&'static str> {
    OPENMP
        .into_iter()
        .find(|runtime| name.strip_prefix(runtime).is_some_and(|rest| rest.starts_with(['.', '-'])))
}

fn two_files(process: &Process<'_>, found: &mut Vec<Finding>) {
    let mut first: BTreeMap<&str, &Map> = BTreeMap::new();
    for map in process.maps() {
        let Some(soname) = map.object.soname.as_deref() else { continue };
        if is_openmp(soname).is_some() {
            continue;
        }
        if let Some(other) = first.get(soname) {
            let reason = format!("{} and {} are both mapped", shown(&other.real), shown(&map.real));
            found.push(rules::TWO_FILES.finding(shown(&map.real), soname, reason));
        } else {
            first.insert(soname, map);
        }
    }
}

fn openmp(process: &Process<'_>, found: &mut Vec<Finding>) {
    let runtimes: Vec<&Map> = process
        .maps()
        .iter()
        .filter(|map| is_openmp(map.object.soname.as_deref().unwrap_or_else(|| base(&map.real))).is_some())
        .collect();
    if let [first, rest @ ..] = &runtimes[..] {
        for other in rest {
            let reason = format!("{} and {} are both mapped", shown(&first.real), shown(&other.real));
            found.push(rules::OPENMP.finding(shown(&other.real), base(&other.real), reason));
        }
    }
}

/// Only where a machine was given: without one the manifest's word stands.
fn dlopen(site: &Site, import: &Import<'_>, found: &mut Vec<Finding>) {
    let Some(build) = site.own_build().filter(|_| !site.request.sysroot.is_empty()) else { return };
    for name in &build.audit.dlopen {
        let mut process = import.process.clone();
        if site.machine.word(name) != Some(Word::Host) && process.open(name, Open::default()).is_err() {
            let file = format!("torch_fl/{}", build.bundle);
            found.push(rules::DLOPEN.finding(file, name, "the target machine does not have it"));
        }
    }
}

/// A name without version and hash: `libcudart` of `libcudart-1a2b3c4d.so.13.0.1`.
fn stem(name: &str) -> &str {
    let stem = name.split(".so").next().unwrap_or(name);
    if rules::load::is_hash_named(name) { stem.split('-').next().unwrap_or(stem) } else { stem }
}

fn provided_too(site: &Site, found: &mut Vec<Finding>) {
    let Some(build) = &site.build else { return };
    for elf in &site.elfs {
        let name = base(&elf.path);
        let other = build
            .provided
            .iter()
            .find(|provided| provided.libraries.iter().any(|library| stem(library) == stem(name)));
        if let Some(provided) = other {
            let reason = format!("{} brings {} as well", provided.dist, stem(name));
            found.push(rules::PROVIDED_TOO.finding(&elf.path, name, reason));
        }
    }
}

/// Libraries that the wheel's own need, of distributions that it does not require.
fn unrequired(site: &Site, process: &Process<'_>, found: &mut Vec<Finding>) {
    let required = crate::rules::wheel::required(site);
    for map in process.maps().iter().filter(|map| site.subject().has(&shown(&map.real))) {
        for (name, needed) in map.object.needed.iter().zip(&map.needed) {
            let Some(needed) = needed.map(|needed| process.map(needed)) else { continue };
            let Some(owner) = site.owner(&shown(&needed.real)) else { continue };
            if !required.contains(owner.name.as_str()) {
                let reason = format!("{name} is found in {}, which is not required", owner.name);
                found.push(rules::UNREQUIRED.finding(shown(&map.real), name, reason));
            }
        }
    }
}

fn kernels(site: &Site, import: &Import<'_>, found: &mut Vec<Finding>) {
    let Some(key) = site.own_build().and_then(|build| build.audit.kernels.as_deref()) else { return };
    let namespace = key.to_lowercase();
    let add = format!("_ZN2at{}{namespace}3addE", namespace.len());
    let own = format!("{SITE}/torch_fl/");
    let registers = import.process.maps().iter().filter(|map| map.real.starts_with(&own)).any(|map| {
        let symbols = &map.object.symbols;
        (0..symbols.len() as u32)
            .any(|index| symbols.name(index).starts_with(add.as_bytes()) && !symbols.is_undefined(index))
    });
    if !registers {
        let reason = format!("no library that the import opens defines at::{namespace}::add");
        found.push(rules::KERNELS.finding(site.subject().file_name(), key, reason));
    }
}
