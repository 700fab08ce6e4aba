//! The model, with what it must know of this machine.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use torchfl_elf::{Class, Endian, FileAt, Machine};
use torchfl_loader::{Abi, Binding, Cache, Failure, Files, MapId, Object, Open, Process, Settings};

use super::{Bound, Ended, Outcome, Run};

/// What `ld.so` tells of itself.
pub(super) fn settings() -> Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS
        .get_or_init(|| {
            let said = |argument: &str| {
                let output = super::output(Command::new(super::INTERPRETER).arg(argument));
                String::from_utf8(output.stdout).unwrap()
            };
            let (help, diagnostics) = (said("--help"), said("--list-diagnostics"));
            let value = |key: &str| -> Vec<String> {
                let lines = diagnostics.lines().filter(|line| line.starts_with(key));
                lines.map(|line| line.split_once('=').unwrap().1.trim_matches('"').to_owned()).collect()
            };
            let supported =
                |line: &str| line.trim().strip_suffix(" (supported, searched)").map(str::to_owned);
            let hwcaps = help.lines().skip_while(|line| !line.starts_with("Subdirectories of glibc-hwcaps"));
            let hwcaps = hwcaps.take_while(|line| !line.is_empty()).filter_map(supported);
            let abi = Abi { machine: Machine(62), class: Class::Elf64, endian: Endian::Little };
            let cache =
                fs_err::read("/etc/ld.so.cache").map(|bytes| Cache::parse(&bytes, "cache", abi).unwrap());
            Settings {
                default_folders: value("path.system_dirs[")
                    .iter()
                    .map(|folder| folder.trim_end_matches('/').to_owned())
                    .collect(),
                hwcaps: hwcaps.map(|name| format!("glibc-hwcaps/{name}")).collect(),
                lib: value("dl_dst_lib").remove(0),
                platform: value("dl_platform").pop(),
                cache: cache.unwrap_or_default(),
                ..Settings::of(abi)
            }
        })
        .clone()
}

/// The system's files that a graph can need; read once.
fn system() -> &'static [(String, Arc<Object>)] {
    static SYSTEM: OnceLock<Vec<(String, Arc<Object>)>> = OnceLock::new();
    SYSTEM.get_or_init(|| {
        let cache = settings().cache;
        let cached = ["libc.so.6", "libm.so.6"].map(|name| cache.lookup(name, &[]).unwrap().to_owned());
        let paths = cached
            .into_iter()
            .chain([super::INTERPRETER, super::driver().to_str().unwrap()].map(String::from));
        paths
            .map(|path| {
                let file = FileAt::open(Path::new(&path)).unwrap();
                let object = Object::read(&file, &path).unwrap();
                (path, Arc::new(object))
            })
            .collect()
    })
}

fn files(run: &Run) -> Files {
    let mut files = Files::new();
    for (path, object) in system() {
        files.object(path, object.clone());
    }
    files.root(run.folder.to_str().unwrap(), &run.folder);
    files
}

fn process<'f>(run: &Run, files: &'f Files, keep_going: bool) -> Process<'f> {
    let settings = Settings {
        library_path: run.library_path.clone(),
        bind_now: run.bind_now,
        working_folder: run.folder.to_str().unwrap().to_owned(),
        keep_going,
        ..settings()
    };
    Process::new(files, settings)
}

/// The libraries of a program of the machine, and all that it binds at its start when everything is bound at once.
pub(crate) fn start(program: &str) -> (Vec<String>, Vec<Bound>) {
    let files = Files::host();
    let mut process = Process::new(&files, Settings { bind_now: true, ..settings() });
    process.start(program, &[]).unwrap();
    let maps = (0..process.maps().len()).map(|map| process.display(MapId(map))).collect();
    (maps, process.bindings().iter().filter_map(|binding| shown(&process, binding)).collect())
}

fn shown(process: &Process<'_>, binding: &Binding) -> Option<Bound> {
    let symbols = &process.map(binding.from).object.symbols;
    Some(Bound {
        from: process.display(binding.from),
        to: process.display(binding.to?),
        symbol: symbols.text(binding.symbol),
        version: symbols.version(binding.symbol).map(|(version, _)| version.to_owned()),
    })
}

/// A model that goes on after a failure has to note what ld.so stopped at, and nothing where ld.so did not stop.
pub(crate) fn keeps_going(run: &Run, real: &[Outcome]) -> Result<(), String> {
    let files = files(run);
    let mut process = process(run, &files, true);
    let mut told = Vec::new();
    for (at, outcome) in real.iter().enumerate() {
        let result = match at.checked_sub(1).map(|at| &run.steps[at]) {
            None => process.start(&run.program_path(), &run.preload),
            Some(_) if outcome.ended == Ended::Nobody => continue,
            Some(step) => {
                let by = step.by.as_ref().and_then(|name| caller(run, &process, name));
                let (lazy, global, deepbind) = (!step.now, step.global, step.deepbind);
                process.open(&step.name, Open { by, lazy, global, deepbind })
            }
        };
        told.extend(result.err());
        // What waits for a call does not fail here, and versions at the first call do not either.
        let counts = |failure: &&Failure| {
            !matches!(failure, Failure::Undefined { lazy: true, .. } | Failure::Unversioned { .. })
        };
        let mut noted = process.problems().iter().chain(&told);
        let said = |failure: &Failure| super::comparable(failure.to_string());
        match &outcome.ended {
            Ended::Failed(message) if noted.any(|failure| said(failure) == *message) => return Ok(()),
            Ended::Failed(message) => return Err(format!("going on, the model does not note: {message}")),
            Ended::Ok => {
                if let Some(failure) = noted.find(counts) {
                    return Err(format!("going on, the model notes: {failure}"));
                }
            }
            _ => return Ok(()),
        }
    }
    Ok(())
}

pub(crate) fn model(run: &Run) -> Vec<Outcome> {
    let files = files(run);
    let mut process = process(run, &files, false);
    let started = process.start(&run.program_path(), &run.preload);
    let mut outcomes = vec![outcome(run, &process, ended(started), None)];
    for step in &run.steps {
        if matches!(outcomes[0].ended, Ended::Failed(_)) || outcomes.last().unwrap().ended == Ended::Aborted {
            break;
        }
        let before = process.bindings().len();
        let by = step.by.as_ref().map(|name| caller(run, &process, name));
        let ended = match by {
            Some(None) => Ended::Nobody,
            by => {
                let (lazy, global, deepbind) = (!step.now, step.global, step.deepbind);
                ended(process.open(&step.name, Open { by: by.flatten(), lazy, global, deepbind }))
            }
        };
        outcomes.push(outcome(run, &process, ended, Some(before)));
    }
    outcomes
}

/// As the driver looks for it; libraries of the system cannot call.
fn caller(run: &Run, process: &Process<'_>, name: &str) -> Option<MapId> {
    let file_name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let found = process.maps().iter().position(|map| file_name(&map.path) == name)?;
    run.inside(&process.maps()[found].path).then_some(MapId(found))
}

fn ended(result: Result<MapId, Failure>) -> Ended {
    match result {
        Ok(_) => Ended::Ok,
        Err(failure) if failure.aborts() => Ended::Aborted,
        Err(failure) => Ended::Failed(failure.to_string()),
    }
}

/// `before`: how many bindings there were; `None` for the start.
fn outcome(run: &Run, process: &Process<'_>, ended: Ended, before: Option<usize>) -> Outcome {
    let path = |map: MapId| process.display(map);
    let maps = process.maps().iter().map(|map| map.path.clone());
    let maps = maps.filter(|path| !path.is_empty() && path != super::INTERPRETER);
    let bindings = process.bindings().iter().skip(before.unwrap_or(0));
    let bound = bindings.filter_map(|binding| shown(process, binding));
    let bound = bound.filter(|bound| run.counts(bound)).collect();
    // A process that has ended has no libraries.
    let gone = ended == Ended::Aborted || before.is_none() && ended != Ended::Ok;
    let mut outcome = Outcome { ended, bound, ..Outcome::default() };
    if !gone {
        outcome.maps = maps.collect();
        let inside = (1..process.maps().len()).map(MapId).filter(|map| run.inside(&process.map(*map).path));
        // A program that is opened as a library has one path twice.
        let scope = |map| {
            let all: Vec<String> = process.scope(map).into_iter().map(path).collect();
            (0..all.len()).filter(|at| !all[..*at].contains(&all[*at])).map(|at| all[at].clone()).collect()
        };
        outcome.scopes = inside.map(|map| (path(map), scope(map))).collect();
    }
    outcome.tidy();
    outcome
}
