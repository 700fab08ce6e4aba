//! An audit, from the files to the findings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use torchfl_elf::Kind;
use torchfl_loader::Process;

use crate::Error;
use crate::build::Build;
use crate::dist::{Dist, is_skeleton};
use crate::finding::{Finding, Severity};
use crate::import::{self, Import, Way};
use crate::redirect::{self, Order, Redirect};
use crate::rules::{self, elf::base, load};
use crate::site::{self, Environment, Request, SITE, Site, shown};
use crate::system::Word;
use crate::why::{self, Why};

/// What an audit says.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The wheel's file name, or the name and version of what is installed.
    pub wheel: String,
    /// The torch that it was judged with.
    pub torch: Option<String>,
    /// Of all that was given, what was generated for tests: name and version. What is proved with it is proved of it
    /// alone.
    pub skeletons: Vec<String>,
    /// The way that torch gets to the bundle, which the findings speak of.
    pub way: Way,
    /// The worst first.
    pub findings: Vec<Finding>,
    /// Every ELF file of the wheel, and whether it loads.
    pub libraries: Vec<Verdict>,
    /// Every library that the import brings into the process, in the order of mapping.
    pub mapped: Vec<Mapped>,
    /// What was taken on somebody's word.
    pub assumed: Vec<Assumption>,
    /// What was left unresolved by leave.
    pub allowed: Vec<String>,
    /// Severities that the manifest sets, by rule.
    pub severities: BTreeMap<String, Severity>,
    /// The ways to redirect torch, judged; for a wheel of `torch_fl`, or with one beside.
    pub redirect: Option<Redirect>,
}

/// Whether a file loads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The file, below site-packages.
    pub file: String,
    /// Whether it loads.
    pub loads: bool,
    /// The first thing that the loader stops at, in its words.
    pub reason: Option<String>,
}

/// A library in the process after the import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mapped {
    /// The file, with all links followed; below site-packages where it lies there.
    pub file: String,
    /// The path that it was opened by.
    pub opened_as: String,
    /// The library whose `DT_NEEDED` brought it in first; `None` for one that was opened by itself.
    pub by: Option<String>,
    /// Its SONAME.
    pub soname: Option<String>,
    /// Nobody has looked at it.
    pub given: bool,
}

/// Something that nobody has looked at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Assumption {
    /// On whose word.
    pub word: Word,
    /// The library.
    pub library: String,
    /// A file that needs it.
    pub needed_by: String,
    /// Symbols that were asked for without a version and taken to be its own: each may be missing in truth.
    pub symbols: BTreeSet<String>,
}

impl Report {
    /// How many findings there are of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

/// Judges a wheel file, or the `torch_fl` that is installed in a folder.
pub fn audit(wheel: &Path, request: Request) -> Result<Report, Error> {
    let subject = site::subject(wheel, &request.scratch)?;
    audit_dist(subject, request)
}

/// Judges a distribution, which may be a planned one.
pub fn audit_dist(subject: Dist, request: Request) -> Result<Report, Error> {
    let site = Site::new(subject, request)?;
    report(&site)
}

/// Why a library was found where it was, or a symbol bound to what it is.
pub fn explain(wheel: &Path, request: Request, name: &str) -> Result<Why, Error> {
    let site = Site::new(site::subject(wheel, &request.scratch)?, request)?;
    let why = why::why(&site, name);
    site.dists.iter().try_for_each(Dist::trouble)?;
    why.ok_or_else(|| Error::Unknown { name: name.to_owned() })
}

/// Works out a sound order to open a planned wheel's libraries in, and judges the wheel with that order.
pub fn prove(subject: Dist, request: Request) -> Result<(Order, Report), Error> {
    let mut site = Site::new(subject, request)?;
    let wanted = site.build.as_ref().map(|build| build.open.clone()).unwrap_or_default();
    let order = redirect::order(&site, redirect::usual(&site), &wanted);
    // What does not open at all stays, to be found.
    if let Some(build) = site.build.as_mut().filter(|_| order.stuck.is_empty()) {
        build.open.clone_from(&order.open);
    }
    let report = report(&site)?;
    Ok((order, report))
}

fn report(site: &Site) -> Result<Report, Error> {
    let way = redirect::usual(site);
    let files = import::tree(site, way);
    let import = import::import(site, &files, way, &Environment::default());
    let mut found = Vec::new();
    openings(site, &import, way, &mut found);
    load::passed_over(&import.process, &mut found);
    let mut assumed = BTreeMap::new();
    assume(site, &import.process, &mut assumed);
    let libraries = libraries(site, &import, &mut found, &mut assumed);
    rules::elf::check(site, &mut found)?;
    load::other_machine(&mut found);
    rules::wheel::check(site, &mut found)?;
    let (mut found, mut allowed) = load::allow(site, found);
    rules::loaded::check(site, &import, way, &mut found);
    let redirect = redirect::judge(site, &import);
    unsound(site, way, redirect.as_ref(), &mut found);
    site.dists.iter().try_for_each(Dist::trouble)?;
    if site.build.is_some() && site.torch.is_none() {
        assumed.insert("torch".to_owned(), front());
    }
    let mut assumed: Vec<Assumption> = assumed.into_values().collect();
    assumed.sort();
    let left = assumed.iter().filter(|assumption| assumption.word == Word::Leave);
    allowed.extend(left.map(|assumption| assumption.library.clone()));
    allowed.sort();
    allowed.dedup();
    assumed.retain(|assumption| assumption.word != Word::Leave);
    if site.request.require_proof {
        found.extend(assumed.iter().map(unproved));
    }
    Ok(Report {
        wheel: named(site.subject()),
        torch: site.torch.map(|torch| named(&site.dists[torch])),
        skeletons: skeletons(site),
        way,
        findings: settle(site, found)?,
        libraries,
        mapped: mapped(&import.process),
        assumed,
        allowed,
        severities: site.build.as_ref().map(|build| build.audit.severity.clone()).unwrap_or_default(),
        redirect,
    })
}

/// The way that the bootstrap takes by itself has to be sound.
fn unsound(site: &Site, way: Way, redirect: Option<&Redirect>, found: &mut Vec<Finding>) {
    let told = [rules::REDIRECT.code, rules::TWO_FILES.code];
    if found.iter().any(|finding| load::stops(finding) || told.contains(&finding.code)) {
        return;
    }
    let judged = redirect.iter().flat_map(|redirect| &redirect.ways).find(|judged| judged.way == way);
    for reason in judged.iter().filter(|judged| !judged.sound).flat_map(|judged| &judged.reasons) {
        found.push(rules::REDIRECT.finding(site.subject().file_name(), reason, reason));
    }
}

/// What is said of a torch that was not given.
fn front() -> Assumption {
    let (library, needed_by) = ("torch".to_owned(), "the import".to_owned());
    Assumption { word: Word::Front, library, needed_by, symbols: BTreeSet::new() }
}

fn mapped(process: &Process<'_>) -> Vec<Mapped> {
    let maps = process.maps().iter().filter(|map| !map.path.is_empty());
    let one = maps.map(|map| Mapped {
        file: shown(&map.real),
        opened_as: shown(&map.path),
        by: map.by.map(|by| shown(&process.map(by).real)),
        soname: map.object.soname.clone(),
        given: map.object.is_given(),
    });
    one.collect()
}

fn skeletons(site: &Site) -> Vec<String> {
    let own = site.own_build().is_some_and(|build| build.skeleton);
    let all = site.dists.iter().enumerate();
    all.filter(|(index, dist)| is_skeleton(&dist.version) || *index == 0 && own)
        .map(|(_, dist)| format!("{} {}", dist.name, dist.version))
        .collect()
}

fn named(dist: &Dist) -> String {
    match &dist.wheel {
        Some(wheel) => wheel.to_string(),
        None => format!("{} {}", dist.name, dist.version),
    }
}

/// Every ELF file of the wheel: one that the import has not brought in is opened by itself, after it.
fn libraries(
    site: &Site,
    import: &Import<'_>,
    found: &mut Vec<Finding>,
    assumed: &mut BTreeMap<String, Assumption>,
) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut blamed: BTreeMap<String, String> = BTreeMap::new();
    for opening in &import.openings {
        for failure in opening.failures() {
            blamed
                .entry(shown(load::blamed(&failure, &opening.path)))
                .or_insert_with(|| import::plain(&failure));
        }
    }
    let elfs = site.elfs.iter().map(|elf| (&elf.path, elf.facts.kind == Kind::Program));
    // One that cannot be read is opened as well, for the loader's words.
    for (file, is_program) in elfs.chain(site.broken.iter().map(|(file, _)| (file, false))) {
        let path = format!("{SITE}/{file}");
        let mapped = import.process.maps().iter().any(|map| map.real == path);
        let reason = if let Some(reason) = blamed.get(file) {
            Some(reason.clone())
        } else if mapped {
            None
        } else if is_program {
            program(site, import, &path, found, assumed)
        } else {
            let opening = import::alone(import, &path);
            let failures = opening.opening.failures();
            found.extend(failures.iter().map(|failure| load::finding(failure, opening.opening.by)));
            assume(site, &opening.process, assumed);
            rules::loaded::mixed(site, &opening.process, found);
            import::first_problem(&opening.opening)
        };
        verdicts.push(Verdict { file: file.clone(), loads: reason.is_none(), reason });
    }
    verdicts.sort_by(|one, other| one.file.cmp(&other.file));
    verdicts
}

/// A program is started, in a process of its own.
fn program(
    site: &Site,
    import: &Import<'_>,
    path: &str,
    found: &mut Vec<Finding>,
    assumed: &mut BTreeMap<String, Assumption>,
) -> Option<String> {
    let mut process = Process::new(import.process.files(), site.settings.clone());
    let failed = process.start(path, &[]).err();
    let failures = load::causes(process.problems().iter().cloned().chain(failed).collect());
    found.extend(failures.iter().map(|failure| load::finding(failure, "the system")));
    assume(site, &process, assumed);
    failures.first().map(import::plain)
}

/// Notes what is in the process on somebody's word.
fn assume(site: &Site, process: &Process<'_>, assumed: &mut BTreeMap<String, Assumption>) {
    for map in process.maps().iter().filter(|map| map.object.is_given()) {
        let path = shown(&map.real);
        let library = base(&path);
        let word = site.stand_ins.get(&path).copied().or_else(|| site.machine.word(library));
        let Some(word) = word else { continue };
        let symbols = on_its_word(process, library);
        let known = assumed.entry(library.to_owned()).or_insert_with(|| {
            let needed_by = map.by.map_or_else(|| "the import".to_owned(), |by| shown(&process.map(by).real));
            Assumption { word, library: library.to_owned(), needed_by, symbols: BTreeSet::new() }
        });
        known.symbols.extend(symbols);
    }
}

/// Names, without a version, that were bound to a library that nobody has looked at.
fn on_its_word(process: &Process<'_>, library: &str) -> BTreeSet<String> {
    let bound = process.bindings().iter().filter(|binding| {
        let to = binding.to.map(|to| process.map(to));
        to.is_some_and(|to| to.object.is_given() && base(&to.real) == library)
    });
    bound
        .filter_map(|binding| {
            let symbols = &process.map(binding.from).object.symbols;
            symbols.version(binding.symbol).is_none().then(|| symbols.text(binding.symbol))
        })
        .collect()
}

fn unproved(assumption: &Assumption) -> Finding {
    let Assumption { word, library, needed_by, .. } = assumption;
    let whose = match word {
        Word::Tag => "the platform tag's",
        Word::Host => "the manifest's [host]",
        Word::Provided => "the manifest's [[provided]]",
        Word::Front => "the front's release",
        Word::Leave => "nobody's",
    };
    rules::UNPROVED.finding(needed_by, library, format!("{library} is taken on {whose} word"))
}

/// What is wrong with each opening. Where the plan's libraries would open in another order, that is what is wrong.
fn openings(site: &Site, import: &Import<'_>, way: Way, found: &mut Vec<Finding>) {
    let planned = site.own_build().map(|build| build.open.as_slice()).unwrap_or_default();
    let own =
        |opening: &import::Opening| planned.iter().any(|open| import::planned(site, open) == opening.path);
    let fails = import.openings.iter().any(|opening| {
        own(opening) && opening.failures().iter().any(|failure| !import::is_forgiven(site, failure))
    });
    let order = fails.then(|| redirect::order(site, way, planned)).filter(|order| order.stuck.is_empty());
    for opening in &import.openings {
        let failures = opening.failures();
        match (&order, failures.first()) {
            (Some(order), Some(first)) if own(opening) => {
                let file = shown(&opening.path);
                let name = base(&file).to_owned();
                let along = order.comes_along.iter().find(|(library, _)| *library == name);
                let instead = match along {
                    Some((_, by)) => format!("it comes in with {by}, whose scope it needs"),
                    None => "it opens once others are open".to_owned(),
                };
                found.push(rules::ORDER.finding(file, name, format!("{}; {instead}", import::plain(first))));
            }
            _ => found.extend(failures.iter().map(|failure| load::finding(failure, opening.by))),
        }
    }
}

/// Severities as the manifest sets them; each finding once, the worst first.
fn settle(site: &Site, found: Vec<Finding>) -> Result<Vec<Finding>, Error> {
    settle_by(site.build.as_ref(), &site.subject().path, found)
}

/// The same, of the wheel at `path`.
pub(crate) fn settle_by(
    build: Option<&Build>,
    path: &Path,
    mut found: Vec<Finding>,
) -> Result<Vec<Finding>, Error> {
    if let Some(build) = build {
        for (code, severity) in &build.audit.severity {
            if rules::rule(code).is_none() {
                return Err(Error::NoRule { path: path.to_owned(), code: code.clone() });
            }
            for finding in found.iter_mut().filter(|finding| finding.code == *code) {
                finding.severity = *severity;
            }
        }
    }
    found.retain(|finding| finding.severity != Severity::Ignore);
    let mut seen = BTreeSet::new();
    found.retain(|finding| seen.insert((finding.code, finding.file.clone(), finding.name.clone())));
    found.sort_by(|one, other| {
        (other.severity, one.code, &one.file, &one.name).cmp(&(
            one.severity,
            other.code,
            &other.file,
            &other.name,
        ))
    });
    Ok(found)
}
