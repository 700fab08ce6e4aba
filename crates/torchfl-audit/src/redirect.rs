//! Which ways to redirect torch are sound for a wheel, and in which order its libraries can be opened.

use std::collections::BTreeMap;

use serde::Serialize;
use torchfl_loader::{Entry, Files, MapId, Open, Process};

use crate::build::Opened;
use crate::import::{self, Import, Way};
use crate::site::{Environment, SITE, Site, shown};

/// What is known about the redirect.
#[derive(Debug, Clone, Serialize)]
pub struct Redirect {
    /// `core`, `extra` or `none`.
    pub swap: String,
    /// Each way, and whether it is sound.
    pub ways: Vec<Judged>,
}

/// A way to redirect, judged.
#[derive(Debug, Clone, Serialize)]
pub struct Judged {
    /// The way.
    pub way: Way,
    /// Whether everything loads and every library is the planned one.
    pub sound: bool,
    /// Why not; or what makes it sound.
    pub reasons: Vec<String>,
}

/// The way that the bootstrap takes by itself: a facade where the core is replaced.
pub(crate) fn usual(site: &Site) -> Way {
    match site.build.as_ref().map(|build| build.swap.as_str()) {
        Some("core") => Way::Facade,
        Some(_) => Way::Finder,
        None => Way::Plain,
    }
}

/// Judges every way: with nothing in `LD_LIBRARY_PATH`, with the stock `torch/lib` in it, and with the bundle.
/// `usual` is the import as the bootstrap does it by itself. Without the torch that it meets there is nothing to judge.
pub(crate) fn judge(site: &Site, usual: &Import<'_>) -> Option<Redirect> {
    let build = site.build.as_ref().filter(|_| site.torch.is_some())?;
    let ways = [Way::Finder, Way::Facade, Way::Links];
    let ways = ways.into_iter().map(|way| judge_way(site, way, usual)).collect();
    Some(Redirect { swap: build.swap.clone(), ways })
}

fn judge_way(site: &Site, way: Way, usual: &Import<'_>) -> Judged {
    let files = import::tree(site, way);
    let mut reasons = Vec::new();
    for (library_path, said) in library_paths(site) {
        let mut environment = Environment { library_path, map_only: true };
        let mut import = import::import(site, &files, way, &environment);
        // The same files in the same order bind in the same way.
        if mapped(&import) != mapped(usual) {
            environment.map_only = false;
            import = import::import(site, &files, way, &environment);
        }
        let problems = if environment.map_only { usual.problems() } else { import.problems() };
        let problems = problems.iter().filter(|problem| !import::is_forgiven(site, problem));
        let mut wrong: Vec<String> = problems.take(3).map(import::plain).collect();
        wrong.extend(misplaced(site, &import, way).into_iter().map(|(_, reason)| reason));
        if environment.library_path.is_empty() {
            wrong.extend(by_path(site, &files, &import, way));
        }
        reasons.extend(wrong.into_iter().map(|reason| format!("{reason}{said}")));
    }
    let sound = reasons.is_empty();
    if sound {
        let planned = site.build.as_ref().map_or(0, |build| build.open.len());
        reasons.push(format!(
            "{planned} libraries are the planned ones with LD_LIBRARY_PATH empty, naming torch/lib and naming the bundle"
        ));
    }
    Judged { way, sound, reasons }
}

/// What is mapped, in order, which of it is global, and what brought it in.
fn mapped<'i>(import: &'i Import<'_>) -> Vec<(&'i str, bool, Option<MapId>)> {
    import.process.maps().iter().map(|map| (map.real.as_str(), map.global, map.by)).collect()
}

/// Values of `LD_LIBRARY_PATH` that people have, and how to say them.
fn library_paths(site: &Site) -> Vec<(String, &'static str)> {
    let mut all =
        vec![(String::new(), ""), (format!("{SITE}/torch/lib"), ", with torch/lib in LD_LIBRARY_PATH")];
    if let Some(build) = &site.build {
        all.push((format!("{SITE}/torch_fl/{}", build.bundle), ", with the bundle in LD_LIBRARY_PATH"));
    }
    all
}

/// Libraries of the plan that are not mapped, or that another file stands for: the library, and what is wrong.
pub(crate) fn misplaced(site: &Site, import: &Import<'_>, way: Way) -> Vec<(String, String)> {
    let Some(build) = &site.build else { return Vec::new() };
    let opened = build.open.iter().filter(|open| !open.shared);
    let mut planned: BTreeMap<&str, (String, bool)> = BTreeMap::new();
    // All of the bundle: what is not opened comes in as a dependency, or later.
    for name in build.files.keys() {
        planned.insert(name, (format!("{SITE}/torch_fl/{}/{name}", build.bundle), false));
    }
    for open in opened {
        planned.insert(&open.name, (import::planned(site, open), true));
    }
    let mut wrong = Vec::new();
    for (name, (planned, opened)) in planned {
        let answers = import.process.maps().iter().filter(|map| {
            map.object.soname.as_deref() == Some(name) || map.real.rsplit('/').next() == Some(name)
        });
        let mut there = false;
        for map in answers {
            if map.real == planned {
                there = true;
            } else if way != Way::Finder || !is_opened_by_torch(&map.path) {
                let reason = format!("{} is mapped, {} is planned", shown(&map.real), shown(&planned));
                wrong.push((name.to_owned(), reason));
            }
        }
        // Without the bootstrap, what the fork's core asks for by name comes later.
        let later = way == Way::Links && build.swap == "core";
        if opened && !(there || later) {
            wrong.push((name.to_owned(), format!("{} is not mapped", shown(&planned))));
        }
    }
    wrong
}

/// `libtorch_global_deps.so` defines nothing: a second copy of it does no harm.
fn is_opened_by_torch(path: &str) -> bool {
    path.ends_with("/libtorch_global_deps.so")
}

/// Whoever opens a library of `torch.__path__[0]/lib` by path has to meet the one that is loaded.
fn by_path(site: &Site, files: &Files, import: &Import<'_>, way: Way) -> Vec<String> {
    let Some(build) = site.build.as_ref().filter(|build| build.swap == "core") else { return Vec::new() };
    let folder = format!("{}/lib", import::torch_folder(way));
    let mut wrong = Vec::new();
    for name in build.files.keys() {
        let Entry::File(entry) = files.entry(&format!("{folder}/{name}")) else { continue };
        let real = format!("{SITE}/torch_fl/{}/{name}", build.bundle);
        if entry.path != real && import.process.loaded_file(entry.id).is_none() {
            wrong.push(format!("opening {}/{name} by path gives a second copy", shown(&folder)));
        }
    }
    wrong
}

/// An order in which every library can be opened, with only those before it open.
#[derive(Debug, Clone, Serialize)]
pub struct Order {
    /// In this order.
    pub open: Vec<Opened>,
    /// Whether it is the one that was asked for.
    pub as_given: bool,
    /// Libraries that cannot be opened by themselves, and come in with another one: the library, and that one.
    pub comes_along: Vec<(String, String)>,
    /// Libraries that do not open at all, and why.
    pub stuck: Vec<(String, String)>,
}

/// Works out a sound order for the libraries of `wanted`: as they stand, where that is one. Else each step takes the
/// first all of whose own dependencies in the list are open; one that does not open waits until others are.
pub(crate) fn order(site: &Site, way: Way, wanted: &[Opened]) -> Order {
    let files = import::tree(site, way);
    let start = site.interpreter(&files, &Environment::default());
    let sound = wanted.iter().try_fold(start.clone(), |process, open| opened(site, &process, open));
    let mut order =
        Order { open: Vec::new(), as_given: sound.is_some(), comes_along: Vec::new(), stuck: Vec::new() };
    if sound.is_some() {
        order.open = wanted.to_vec();
        return order;
    }
    let mut process = start;
    let mut left: Vec<Opened> = wanted.to_vec();
    while !left.is_empty() {
        let (mut first, later): (Vec<usize>, Vec<usize>) =
            (0..left.len()).partition(|at| is_ready(site, &files, &left, *at));
        first.extend(later);
        let next = first.into_iter().find_map(|at| Some((at, opened(site, &process, &left[at])?)));
        let Some((at, after)) = next else { break };
        let open = left.remove(at);
        let planned = import::planned(site, &open);
        // Here already, as a dependency of another one; could it have gone before that one?
        let there = process.maps().iter().find(|map| map.real == planned);
        if let Some(by) = there.and_then(|map| map.by)
            && alone_fails(site, &files, &open, &order.open)
        {
            let by = shown(&process.map(by).real);
            order.comes_along.push((open.name.clone(), by.rsplit('/').next().unwrap_or(&by).to_owned()));
        }
        process = after;
        order.open.push(open);
    }
    for open in left {
        let before = process.problems().len();
        let mut trial = process.clone();
        let result = trial.open(&import::planned(site, &open), Open::default());
        let why = trial.problems().get(before).cloned().or(result.err());
        order.stuck.push((open.name, why.as_ref().map(import::plain).unwrap_or_default()));
    }
    order
}

/// The process with one more library in it, if that opens without any fault.
fn opened<'f>(site: &Site, process: &Process<'f>, open: &Opened) -> Option<Process<'f>> {
    let mut after = process.clone();
    if open.shared && after.loaded(&open.name).is_some() {
        return Some(after);
    }
    let known = after.problems().len();
    let how = Open { global: open.global, ..Open::default() };
    let opens = after.open(&import::planned(site, open), how).is_ok();
    let fine = after.problems()[known..].iter().all(|problem| import::is_forgiven(site, problem));
    (opens && fine).then_some(after)
}

/// Whether the library does not open with only those before the one that brings it in.
fn alone_fails(site: &Site, files: &Files, open: &Opened, before: &[Opened]) -> bool {
    let planned = import::planned(site, open);
    let mut process = site.interpreter(files, &Environment::default());
    for one in before {
        let Some(after) = opened(site, &process, one) else { return true };
        if after.maps().iter().any(|map| map.real == planned) {
            break;
        }
        process = after;
    }
    opened(site, &process, open).is_none()
}

/// Whether nothing that it needs is still on the list.
fn is_ready(site: &Site, files: &Files, left: &[Opened], at: usize) -> bool {
    let Entry::File(entry) = files.entry(&import::planned(site, &left[at])) else { return true };
    let Ok(object) = files.library(&entry) else { return true };
    !left.iter().enumerate().any(|(other, open)| other != at && object.needed.contains(&open.name))
}
