//! `[[shim]]`: what each generated library has to define, and the library.
//!
//! The manifest says what a shim is for; the files say which functions that comes to.

mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::sync::Arc;

use serde::Serialize;
use torchfl_audit::GapRequest;
use torchfl_elf::{Edit, FileAt, Tag};
use torchfl_manifest::ShimKind;
use torchfl_manifest::resolve::{self, Symbols};
use torchfl_shim::{Answer, Arch, Compiler, Search, Source, Spec};

use crate::libraries::{self, GENERATED};
use crate::start::{Start, start};
use crate::{Error, Library, Request};
use wanted::Wanted;

/// A library that the build generates, as the plan shows it.
#[derive(Debug, Clone, Serialize)]
pub struct Shim {
    /// Its file name and SONAME.
    pub soname: String,
    /// What it does.
    pub kind: ShimKind,
    /// The library that calls go to.
    pub forward_to: Option<String>,
    /// The version of its symbols.
    pub version: Option<String>,
    /// What it defines.
    pub symbols: Vec<String>,
    /// Those of them that answer themselves, with what they return.
    pub stubs: BTreeMap<String, i64>,
    /// The libraries that want something of it.
    pub wanted_by: BTreeSet<String>,
    #[serde(skip)]
    spec: Spec,
}

/// A generated library with all that it is made of.
#[derive(Debug)]
pub struct Generated {
    /// What it is.
    pub shim: Shim,
    /// Its text.
    pub source: Source,
    /// The file.
    pub bytes: Vec<u8>,
}

/// The shims of a build alone, and what people should know about them: nothing else is decided or proved.
pub fn shims(request: &Request) -> Result<(Vec<Generated>, Vec<String>), Error> {
    let start = start(request)?;
    let (shims, notes) = resolve(request, &start)?;
    let Some(compiler) = compiler(&shims, request)? else { return Ok((Vec::new(), notes)) };
    let generated = shims.into_iter().map(|shim| {
        let refused = |source| Error::Shim { soname: shim.soname.clone(), source };
        let source = torchfl_shim::source(&shim.spec).map_err(refused)?;
        let bytes = torchfl_shim::compile(&shim.spec, &compiler, &request.scratch).map_err(refused)?;
        Ok(Generated { shim, source, bytes })
    });
    Ok((generated.collect::<Result<_, Error>>()?, notes))
}

/// What the shims define, and what people should know about it.
pub(crate) fn resolve(request: &Request, start: &Start) -> Result<(Vec<Shim>, Vec<String>), Error> {
    let mut notes = Vec::new();
    let shims = start.resolved.shims.iter().map(|shim| {
        let soname = shim.soname.clone();
        if let Some(path) = libraries::origin(&soname, &start.torch).or(start.chosen.get(&soname).cloned()) {
            return Err(Error::ShimThere { soname, torch: start.torch.path.clone(), path });
        }
        let wanted = match shim.kind {
            ShimKind::VersionedForwarder => wanted::of(&soname, request, start)?,
            ShimKind::CoreGap => gap(&soname, request, start)?,
        };
        one(shim, wanted, start, &mut notes)
    });
    let shims: Result<Vec<Shim>, Error> = shims.collect();
    Ok((shims?, notes))
}

fn one(shim: &resolve::Shim, wanted: Wanted, start: &Start, notes: &mut Vec<String>) -> Result<Shim, Error> {
    let soname = shim.soname.clone();
    if !wanted.data.is_empty() {
        return Err(Error::ShimData { soname, symbols: told(&wanted.data) });
    }
    match &shim.symbols {
        // Who lists them has decided.
        Symbols::Computed if !wanted.unclear.is_empty() => notes.extend(wanted.unclear),
        _ if wanted.functions.is_empty() => {
            notes.push(format!("{soname}: nothing in the bundle wants a symbol of it"));
        }
        _ => {}
    }
    if let Some(forward) = &shim.forward
        && !start.resolved.host.dlopen.contains(&forward.to)
        && !start.libraries.iter().any(|library| library.name == forward.to)
    {
        notes.push(format!(
            "{soname} opens {}: no audit looks for it, as [host] dlopen does not name it",
            forward.to
        ));
    }
    let mut functions: BTreeSet<String> = match &shim.symbols {
        Symbols::Computed => wanted.functions.keys().cloned().collect(),
        Symbols::Listed(listed) => listed.iter().cloned().collect(),
    };
    functions.extend(shim.stubs.keys().cloned());
    let missing: Wanting =
        wanted.functions.iter().filter(|(name, _)| !functions.contains(*name)).map(owned).collect();
    if !missing.is_empty() {
        return Err(Error::ShimLacks { soname, missing: told(&missing) });
    }
    let rest = match &shim.forward {
        Some(forward) => Answer::Forward { to: forward.to.clone(), version: forward.version.clone() },
        None => Answer::Refuse {
            why: format!(
                " is not in the stock core; {soname} only holds its place, and no [[shim]] stub says what it returns"
            ),
        },
    };
    let arch = start.resolved.target.arch.first().map_or("", |arch| arch.as_str());
    let arch: Arch = arch.parse().map_err(|source| Error::Shim { soname: soname.clone(), source })?;
    Ok(Shim {
        kind: shim.kind,
        forward_to: shim.forward.as_ref().map(|forward| forward.to.clone()),
        version: shim.forward.as_ref().map(|forward| forward.version.clone()),
        symbols: functions.iter().cloned().collect(),
        stubs: shim.stubs.clone(),
        wanted_by: wanted.functions.into_values().flatten().collect(),
        spec: Spec {
            arch,
            soname: soname.clone(),
            search: search(&start.edit),
            functions,
            returns: shim.stubs.clone(),
            rest,
        },
        soname,
    })
}

/// Symbols, each with the libraries that want it.
type Wanting = BTreeMap<String, BTreeSet<String>>;

fn owned((name, by): (&String, &BTreeSet<String>)) -> (String, BTreeSet<String>) {
    (name.clone(), by.clone())
}

fn told(symbols: &Wanting) -> Vec<String> {
    let by = |by: &BTreeSet<String>| by.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    symbols.iter().map(|(name, wanting)| format!("{name} (needed by {})", by(wanting))).collect()
}

/// The path that all libraries of the bundle have: a forwarder looks there for the library that it opens.
fn search(edit: &Edit) -> Option<Search> {
    match edit {
        Edit::Set { tag: Tag::Rpath, value } => Some(Search::Rpath(value.clone())),
        Edit::Set { tag: Tag::Runpath, value } => Some(Search::Runpath(value.clone())),
        Edit::Remove => None,
    }
}

/// What the bundled libraries and the plugin import, the fork's core exports, and the stock core lacks.
fn gap(soname: &str, request: &Request, start: &Start) -> Result<Wanted, Error> {
    let Some(stock) = request.front.clone() else {
        return Err(Error::ShimFront { soname: soname.to_owned() });
    };
    let gap = torchfl_audit::core_gap(&GapRequest {
        vendor: start.torch.path.clone(),
        stock,
        plugin: start.plugin_path.clone(),
        scratch: request.scratch.clone(),
        threads: request.threads,
    })?;
    let here: BTreeSet<&str> =
        start.libraries.iter().chain(&start.plugin).map(|library| library.name.as_str()).collect();
    let mut wanted = Wanted::default();
    let resized = gap.resized.into_iter().map(|symbol| (true, symbol));
    for (data, symbol) in gap.missing.into_iter().map(|symbol| (symbol.data, symbol)).chain(resized) {
        // The vendor's torch may have libraries that the bundle leaves out.
        let by: BTreeSet<String> =
            symbol.needed_by.into_iter().filter(|name| here.contains(name.as_str())).collect();
        if !by.is_empty() {
            let symbols = if data { &mut wanted.data } else { &mut wanted.functions };
            symbols.insert(symbol.symbol, by);
        }
    }
    Ok(wanted)
}

/// Shims as libraries of the bundle.
pub(crate) struct Made {
    pub libraries: Vec<Library>,
    pub compiler: Option<Compiler>,
}

/// Compiles the shims.
pub(crate) fn libraries(shims: &[Shim], request: &Request, start: &Start) -> Result<Made, Error> {
    let compiler = compiler(shims, request)?;
    let made = shims.iter().zip(compiler.iter().cycle()).map(|(shim, compiler)| {
        let bytes = torchfl_shim::compile(&shim.spec, compiler, &request.scratch)
            .map_err(|source| Error::Shim { soname: shim.soname.clone(), source })?;
        let mut file = tempfile::tempfile_in(&request.scratch)?;
        file.write_all(&bytes)?;
        libraries::planned(&shim.soname, GENERATED, Arc::new(FileAt::new(file)?), &start.edit)
    });
    Ok(Made { libraries: made.collect::<Result<_, _>>()?, compiler })
}

/// The compiler, once there is something to compile.
fn compiler(shims: &[Shim], request: &Request) -> Result<Option<Compiler>, Error> {
    let Some(first) = shims.first() else { return Ok(None) };
    let program = request.cc.clone().unwrap_or_else(|| first.spec.arch.compiler().into());
    let compiler = Compiler::ask(&program, first.spec.arch);
    compiler.map(Some).map_err(|source| Error::Shim { soname: first.soname.clone(), source })
}
