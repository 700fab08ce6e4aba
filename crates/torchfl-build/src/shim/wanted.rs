//! What the libraries of a bundle want of one SONAME.

use std::collections::BTreeSet;

use torchfl_elf::{Bind, Symbol};

use super::Wanting;
use crate::start::Start;
use crate::{Error, Library, Request};

/// Symbols that a shim has to define.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Functions, as far as one can see.
    pub functions: Wanting,
    /// What cannot be one.
    pub data: Wanting,
    /// Notes on symbols of which it does not show whose they are.
    pub unclear: Vec<String>,
}

/// `STT_OBJECT`, `STT_TLS`. Most linkers note of an undefined symbol what it was when they saw it defined.
const DATA: [u8; 2] = [1, 6];

/// Libraries whose every symbol has a version, so that nothing without one is meant of them.
const VERSIONED: &[&str] = &[
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libgomp.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "libstdc++.so.6",
    "libutil.so.1",
];

/// What is wanted of `soname`: all names under one of its versions; and of a library that was linked against one without
/// versions, what nobody else can give. Names that may stay undefined (weak ones) are not wanted: whoever refers to one
/// asks whether it is there.
pub(super) fn of(soname: &str, request: &Request, start: &Start) -> Result<Wanted, Error> {
    let mut wanted = Wanted::default();
    for library in start.libraries.iter().chain(&start.plugin) {
        let facts = &library.facts;
        let versioned = facts.versions_needed.iter().any(|need| need.file == soname);
        let names = facts.needed.iter().any(|needed| needed == soname);
        // A linker that sees versions notes them for every symbol: then those without one are somebody else's.
        let mut open = Vec::new();
        for symbol in imports(library, versioned || names)? {
            match &symbol.version {
                Some(version) if version.file.as_deref() == Some(soname) => {
                    wanted.add(&symbol, &library.name);
                }
                None if names && !versioned => open.push(symbol),
                _ => {}
            }
        }
        if !open.is_empty() {
            unversioned(soname, library, &open, request, start, &mut wanted)?;
        }
    }
    Ok(wanted)
}

impl Wanted {
    fn add(&mut self, symbol: &Symbol, by: &str) {
        let symbols = if DATA.contains(&symbol.kind) { &mut self.data } else { &mut self.functions };
        symbols.entry(symbol.name.clone()).or_default().insert(by.to_owned());
    }
}

/// The symbols that a library has to find elsewhere.
fn imports(library: &Library, any: bool) -> Result<Vec<Symbol>, Error> {
    let mut found = Vec::new();
    if any {
        for symbol in torchfl_elf::symbols(&*library.content.file, &library.name)? {
            let symbol = symbol?;
            if !symbol.defined && symbol.bind != Bind::Weak {
                found.push(symbol);
            }
        }
    }
    Ok(found)
}

/// Of a library's symbols without a version, those that only the shim can give.
fn unversioned(
    soname: &str,
    library: &Library,
    symbols: &[Symbol],
    request: &Request,
    start: &Start,
    wanted: &mut Wanted,
) -> Result<(), Error> {
    let mut given = BTreeSet::new();
    for other in start.libraries.iter().chain(&start.plugin) {
        definitions(&*other.content.file, &other.name, &mut given)?;
    }
    let mut unseen = Vec::new();
    let here = |name: &str| {
        let of = |other: &Library| other.name == name || other.soname.as_deref() == Some(name);
        start.libraries.iter().any(of) || start.resolved.shims.iter().any(|shim| shim.soname == name)
    };
    for needed in library.facts.needed.iter().filter(|name| !here(name)) {
        let path = format!("torch/lib/{needed}");
        match &start.front {
            Some((front, _)) if front.has(&path) => {
                definitions(&*front.file(&path, &request.scratch)?, needed, &mut given)?;
            }
            _ if VERSIONED.contains(&needed.as_str()) || needed.starts_with("ld-linux") => {}
            _ => unseen.push(needed.as_str()),
        }
    }
    let left: Vec<&Symbol> = symbols.iter().filter(|symbol| !given.contains(&symbol.name)).collect();
    if unseen.is_empty() || left.is_empty() {
        for symbol in left {
            wanted.add(symbol, &library.name);
        }
    } else {
        wanted.unclear.push(format!(
            "{soname}: {} needs it under no version, and {} of its symbols may be of it, or of {}, which nobody has \
             looked into: name those of {soname} in [[shim]] symbols",
            library.name,
            left.len(),
            unseen.join(", ")
        ));
    }
    Ok(())
}

fn definitions(file: &dyn torchfl_elf::ReadAt, name: &str, all: &mut BTreeSet<String>) -> Result<(), Error> {
    for symbol in torchfl_elf::symbols(file, name)? {
        let symbol = symbol?;
        if symbol.defined && symbol.bind != Bind::Local {
            all.insert(symbol.name);
        }
    }
    Ok(())
}
