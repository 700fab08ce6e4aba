//! Who owns `triton/` in what an installer would bring beside a wheel. The resolver is somebody else's; here its answer
//! is read and judged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Serialize;
use torchfl_wheel::{Archive, WheelName, normalize_name};

use crate::build::{Build, Triton};
use crate::dist::Dist;
use crate::finding::Finding;
use crate::rules::wheel::requires;
use crate::{Error, report, rules, site};

/// The file by which a folder `triton/` is a package.
const PACKAGE: &str = "triton/__init__.py";
/// Ways to one distribution that are told.
const CHAINS: usize = 3;

/// A distribution of the closure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resolved {
    /// The normalised name (PEP 503).
    pub name: String,
    /// The version.
    pub version: String,
    /// Who requires it, by normalised names; empty where it was asked for.
    pub required_by: Vec<String>,
    /// The wheel, where it was asked for as a file.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

/// What the resolver answered.
#[derive(Debug, Clone)]
pub enum Resolution {
    /// These distributions, the wheel among them.
    Found(Vec<Resolved>),
    /// There is no such set; its reason.
    Refused(String),
}

/// What to judge.
#[derive(Debug, Clone)]
pub struct ClosureRequest {
    /// The wheel.
    pub wheel: PathBuf,
    /// The resolver's answer.
    pub resolution: Resolution,
    /// Wheel files and folders of them: what of the closure lies there is looked into.
    pub wheels: Vec<PathBuf>,
    /// Site-packages folders that the closure is installed into.
    pub installed: Vec<PathBuf>,
    /// Normalised names of distributions that install `triton/`; the owners of the wheel's own vendor are known.
    pub known: Vec<String>,
    /// A folder for unlinked files.
    pub scratch: PathBuf,
}

/// A judged closure.
#[derive(Debug, Clone, Serialize)]
pub struct Closure {
    /// The wheel's file name.
    pub wheel: String,
    /// Who supplies Triton: `pypi`, `vendor`, `none`, or null: the manifest does not say.
    pub supplier: Option<String>,
    /// Who installs `triton/`.
    pub owners: Vec<Claim>,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// The closure.
    pub resolved: Vec<Resolved>,
}

/// A distribution that installs `triton/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// Its normalised name.
    pub name: String,
    /// Its version; empty where nothing says it.
    pub version: String,
    /// Who brings it, `torch-fl -> torch -> triton`; the name alone where it was asked for.
    pub chains: Vec<String>,
    /// Whether it is an owner on this platform.
    pub right: bool,
}

/// Judges what a resolver found for a wheel of `torch_fl`.
pub fn closure(request: &ClosureRequest) -> Result<Closure, Error> {
    let subject = Dist::wheel(&request.wheel, &request.scratch)?;
    if !subject.has("torch_fl/build.json") {
        return Err(Error::NotOurs { path: request.wheel.clone() });
    }
    let build = site::read_build(&subject)?;
    let triton = build.audit.triton.as_ref();
    let file = subject.file_name();
    let mut found = Vec::new();
    own_requirements(&subject, triton, request, &mut found)?;
    let (resolved, owners) = match &request.resolution {
        Resolution::Refused(reason) => {
            found.push(rules::NO_CLOSURE.finding(&file, "resolution", reason));
            (Vec::new(), Vec::new())
        }
        Resolution::Found(resolved) => {
            if !resolved.iter().any(|one| one.name == subject.name) {
                return Err(Error::Incomplete { wheel: file });
            }
            let owners = claims(resolved, triton, request)?;
            torch(&file, &build, resolved, &owners, &mut found);
            count(&file, triton, &owners, &mut found);
            (resolved.clone(), owners)
        }
    };
    Ok(Closure {
        wheel: file,
        supplier: triton.map(|triton| triton.supplier.clone()),
        owners,
        findings: report::settle_by(Some(&build), &request.wheel, found)?,
        resolved,
    })
}

fn is_known(name: &str, triton: Option<&Triton>, known: &[String]) -> bool {
    let own = || triton.iter().flat_map(|triton| &triton.owners);
    known.iter().any(|known| known == name) || own().any(|owner| normalize_name(&owner.name) == name)
}

/// The wheel itself requires no Triton but the package index's.
fn own_requirements(
    subject: &Dist,
    triton: Option<&Triton>,
    request: &ClosureRequest,
    found: &mut Vec<Finding>,
) -> Result<(), Error> {
    let Some(triton) = triton.filter(|triton| triton.supplier != "pypi") else { return Ok(()) };
    let metadata = format!("{}/METADATA", subject.info.as_deref().unwrap_or_default());
    for name in requires(subject)? {
        if is_known(&name, Some(triton), &request.known) {
            let reason = format!("the wheel requires {name}, {}", triton.why_not());
            found.push(rules::TRITON.finding(&metadata, name, reason));
        }
    }
    Ok(())
}

/// All that install `triton/`: known by name, or looked into.
fn claims(
    resolved: &[Resolved],
    triton: Option<&Triton>,
    request: &ClosureRequest,
) -> Result<Vec<Claim>, Error> {
    let local = local(&request.wheels)?;
    let right = |name: &str, version: &str| triton.is_none_or(|triton| triton.owns(name, version));
    let mut claims = Vec::new();
    for one in resolved {
        let file = one.file.as_ref().filter(|file| file.is_file());
        let at_hand = file.or_else(|| local.get(&(one.name.clone(), one.version.clone())));
        let inside = match at_hand {
            Some(wheel) => Archive::open(wheel)?.member(PACKAGE).is_some(),
            None => false,
        };
        if inside || is_known(&one.name, triton, &request.known) {
            claims.push(Claim {
                name: one.name.clone(),
                version: one.version.clone(),
                chains: chains(&one.name, resolved),
                right: right(&one.name, &one.version),
            });
        }
    }
    let replaced: BTreeSet<&str> = resolved.iter().map(|one| one.name.as_str()).collect();
    for folder in &request.installed {
        let dists = Dist::installed(folder)?;
        let owners: Vec<&Dist> = dists.iter().filter(|dist| dist.has(PACKAGE)).collect();
        let chains = vec![format!("installed in {}", folder.display())];
        for dist in owners.iter().filter(|dist| !replaced.contains(dist.name.as_str())) {
            let right = right(&dist.name, &dist.version);
            let (name, version) = (dist.name.clone(), dist.version.clone());
            claims.push(Claim { name, version, chains: chains.clone(), right });
        }
        // Some SDKs unpack it without a dist-info: whose it is, nobody can tell.
        if owners.is_empty() && folder.join(PACKAGE).is_file() {
            let name = "triton/ without dist-info".to_owned();
            claims.push(Claim { name, version: String::new(), chains, right: triton.is_none() });
        }
    }
    Ok(claims)
}

/// The wheels at hand, by name and version.
fn local(places: &[PathBuf]) -> Result<BTreeMap<(String, String), PathBuf>, Error> {
    let mut wheels = BTreeMap::new();
    let mut add = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Ok(wheel) = name.parse::<WheelName>() {
            let key = (normalize_name(&wheel.distribution), wheel.version.to_string());
            wheels.insert(key, path.to_owned());
        }
    };
    for place in places {
        if place.is_dir() {
            for entry in fs_err::read_dir(place).map_err(Error::Io)? {
                add(&entry.map_err(Error::Io)?.path());
            }
        } else {
            add(place);
        }
    }
    Ok(wheels)
}

/// A few ways from what was asked for to `name`, the shortest for each that requires it.
fn chains(name: &str, resolved: &[Resolved]) -> Vec<String> {
    let by_name: BTreeMap<&str, &Resolved> = resolved.iter().map(|one| (one.name.as_str(), one)).collect();
    let above = |name: &str| by_name.get(name).map_or(&[][..], |one| &one.required_by[..]);
    let mut chains = Vec::new();
    for first in above(name).iter().take(CHAINS) {
        // Breadth first, from the one that requires it up to one that nobody does.
        let mut seen = BTreeSet::from([name, first.as_str()]);
        let mut paths = std::collections::VecDeque::from([vec![name, first.as_str()]]);
        while let Some(path) = paths.pop_front() {
            let next = above(path[path.len() - 1]);
            if next.is_empty() {
                chains.push(path.into_iter().rev().collect::<Vec<_>>().join(" -> "));
                break;
            }
            for one in next.iter().filter(|one| seen.insert(one.as_str())) {
                paths.push_back([&path[..], &[one.as_str()]].concat());
            }
        }
    }
    if chains.is_empty() { vec![name.to_owned()] } else { chains }
}

/// The stock CPU torch has a local version of its own, or at least requires no Triton; those for a device do.
fn torch(file: &str, build: &Build, resolved: &[Resolved], owners: &[Claim], found: &mut Vec<Finding>) {
    let Some(torch) = resolved.iter().find(|one| one.name == "torch") else { return };
    if build.torch.front != "cpu" {
        return;
    }
    let (_, local) = torch.version.split_once('+').unwrap_or_default();
    let brings = |claim: &&Claim| {
        resolved.iter().any(|one| one.name == claim.name && one.required_by.iter().any(|by| by == "torch"))
    };
    let reason = match owners.iter().find(brings) {
        _ if local.split('.').next() == Some("cpu") => return,
        Some(claim) => format!("torch {} requires {}: it", torch.version, claim.name),
        None if !local.is_empty() => format!("torch {}", torch.version),
        None => return,
    };
    let reason = format!("{reason} is built for an accelerator, and the wheel stands on the CPU build");
    let mut finding = rules::WRONG_TORCH.finding(file, "torch", reason);
    finding.fix =
        format!("add PyTorch's index of CPU wheels, and ask for torch=={}+cpu", build.torch.release);
    found.push(finding);
}

/// Exactly one owner, and a right one; none where the platform has no Triton.
fn count(file: &str, triton: Option<&Triton>, owners: &[Claim], found: &mut Vec<Finding>) {
    let pin = triton.and_then(Triton::pin);
    if let Some(triton) = triton {
        for claim in owners.iter().filter(|claim| !claim.right) {
            let (who, chains) = (title(claim), claim.chains.join("; "));
            let reason = format!("{who} brings triton/, {}: {chains}", triton.why_not());
            let mut finding = rules::TRITON.finding(file, &claim.name, reason);
            let or = pin.as_ref().map_or_else(String::new, |pin| format!(", or ask for {pin} yourself"));
            finding.fix =
                format!("install with the constraints beside the wheel (pip -c, uv --constraints){or}");
            found.push(finding);
        }
        if owners.is_empty() && triton.supplier != "none" {
            let mut finding = rules::NO_TRITON.finding(file, "triton/", "no distribution brings triton/");
            if let Some(pin) = &pin {
                finding.fix = format!("install {pin} too, from the vendor's index");
            }
            found.push(finding);
        }
    }
    if owners.len() > 1 {
        let all: Vec<String> =
            owners.iter().map(|claim| format!("{} ({})", title(claim), claim.chains.join("; "))).collect();
        found.push(rules::TWO_TRITONS.finding(file, "triton/", all.join(" and ")));
    }
}

fn title(claim: &Claim) -> String {
    format!("{} {}", claim.name, claim.version).trim_end().to_owned()
}

/// Reads `uv pip compile --annotation-style split`: a line `NAME==VERSION`, `NAME @ URL` or `PATH` a distribution, and
/// below it comments that say who requires it.
pub fn resolved(answer: &str) -> Result<Vec<Resolved>, Error> {
    let mut all: Vec<Resolved> = Vec::new();
    for line in answer.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(comment) = line.trim_start().strip_prefix('#') {
            let who = comment.trim();
            let who = who.strip_prefix("via").map_or(who, str::trim);
            // `-r` and `-c` name files: somebody asked for it, or pinned it.
            if let Some(last) = all.last_mut().filter(|_| !who.is_empty() && !who.starts_with('-')) {
                last.required_by.push(normalize_name(who));
            }
            continue;
        }
        all.push(distribution(line).ok_or_else(|| Error::Answer { line: line.to_owned() })?);
    }
    Ok(all)
}

fn distribution(line: &str) -> Option<Resolved> {
    let line = line.split(" ;").next()?.trim();
    let (name, version, file) = if let Some((name, version)) = line.split_once("==") {
        (name.to_owned(), version.to_owned(), None)
    } else {
        let place = line.split_once(" @ ").map_or(line, |(_, url)| url).split(['#', '?']).next()?;
        let path = file_path(place);
        let wheel: WheelName = decoded(place.rsplit('/').next()?).parse().ok()?;
        (wheel.distribution.clone(), wheel.version.to_string(), path)
    };
    let name = normalize_name(name.split('[').next()?.trim());
    let required_by = Vec::new();
    (torchfl_wheel::is_valid_name(&name) && !version.is_empty()).then_some(Resolved {
        name,
        version,
        required_by,
        file,
    })
}

/// The path that a `file:` URL or a plain path names; none of an address elsewhere.
pub fn file_path(place: &str) -> Option<PathBuf> {
    match place.strip_prefix("file://") {
        Some(path) => Some(decoded(path).into()),
        None => (!place.contains("://")).then(|| place.into()),
    }
}

/// A URL's text without percent-encoding (RFC 3986).
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(&part.as_bytes()[2..]);
            }
            None => bytes.extend([b"%", part.as_bytes()].concat()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, version: &str, by: &[&str]) -> Resolved {
        let required_by = by.iter().map(|by| (*by).to_owned()).collect();
        Resolved { name: name.to_owned(), version: version.to_owned(), required_by, file: None }
    }

    #[test]
    fn uvs_answer_is_read() {
        let answer = "\
puller==1.0
    # via -r -
torch==2.13.0+cpu
    # via
    #   -c c.txt
    #   torch-fl
torch-fl @ file:///i/torch_fl-2.13.0%2Bacme1-py3-none-any.whl
    # via -c c.txt
triton[x]==3.6.0 ; python_version > '3'
    # via
    #   -c c.txt
    #   Torch_Fl
/a b/fork_compiler-1.0-py3-none-any.whl
    # via -r -
";
        let mut expected = [
            one("puller", "1.0", &[]),
            one("torch", "2.13.0+cpu", &["torch-fl"]),
            one("torch-fl", "2.13.0+acme1", &[]),
            one("triton", "3.6.0", &["torch-fl"]),
            one("fork-compiler", "1.0", &[]),
        ];
        expected[2].file = Some("/i/torch_fl-2.13.0+acme1-py3-none-any.whl".into());
        expected[4].file = Some("/a b/fork_compiler-1.0-py3-none-any.whl".into());
        assert_eq!(resolved(answer).unwrap(), expected);
        for line in ["triton", "triton>=3", "triton @ https://host/triton.tar.gz", "== 3"] {
            assert_eq!(resolved(line).unwrap_err().code(), "E-AUD-015", "{line}");
        }
    }

    #[test]
    fn places_of_files() {
        for (place, path) in [
            ("file:///a%20b/%C3%A9", Some("/a b/é")),
            ("file:///50%", Some("/50%")),
            ("wheels", Some("wheels")),
            ("https://host/x.whl", None),
        ] {
            assert_eq!(file_path(place), path.map(PathBuf::from), "{place}");
        }
    }

    #[test]
    fn chains_begin_at_what_was_asked_for_and_pass_cycles() {
        let all = [
            one("a", "1", &[]),
            one("b", "1", &["a", "c"]),
            one("c", "1", &["b"]),
            one("triton", "1", &["b", "c"]),
        ];
        assert_eq!(chains("triton", &all), ["a -> b -> triton", "a -> b -> c -> triton"]);
        assert_eq!(chains("a", &all), ["a"]);
        let loose = [one("x", "1", &["y"]), one("y", "1", &["x"])];
        assert_eq!(chains("x", &loose), ["x"]);
    }
}
