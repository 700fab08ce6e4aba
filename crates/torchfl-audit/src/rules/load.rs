//! What the loader would stop at, as findings.

use torchfl_loader::{Failure, Outcome, Process, Step, Why};

use crate::finding::Finding;
use crate::import::{plain, plainly};
use crate::rules::{self, elf::base};
use crate::site::{Site, shown};

/// A failure as a finding. `opened`: who opens libraries by path, for those that nobody else asks for.
pub(crate) fn finding(failure: &Failure, opener: &str) -> Finding {
    match failure {
        Failure::NotFound { name, by, searched } | Failure::WrongClass { name, by, searched, .. } => {
            let base = name.rsplit('/').next().unwrap_or(name);
            let rule = if is_hash_named(base) { rules::HASH_NAMED } else { rules::NOT_FOUND };
            let file = shown(by.as_deref().unwrap_or(name));
            let asks = match by {
                Some(_) => "is in DT_NEEDED".to_owned(),
                None => format!("is opened by {opener}"),
            };
            rule.finding(file, base, format!("{} {asks}; {}", shown(name), looked(searched)))
        }
        Failure::BadFile { path, reason } => rules::BROKEN.finding(shown(path), "", plainly(reason)),
        Failure::Version { file, version, by } => rules::VERSION.finding(
            shown(by),
            version,
            format!("{} does not define version {version}", shown(file)),
        ),
        Failure::VersionOfNobody { file, by } => rules::VERSION_OF_NOBODY.finding(
            shown(by),
            file,
            format!("versions are needed of {file}, which nobody has loaded: the loader aborts the process"),
        ),
        Failure::Undefined { symbol, version, file, by, lazy } => {
            let of = match (version, file) {
                (Some(version), Some(file)) => format!(" in version {version} of {file}"),
                (Some(version), None) => format!(" in version {version}"),
                _ => String::new(),
            };
            let when = if *lazy { "; it fails at the first call, not at the start" } else { "" };
            rules::UNDEFINED.finding(
                shown(by),
                symbol,
                format!("{} refers to {symbol}{of}, which no library in its scope defines{when}", shown(by)),
            )
        }
        Failure::Unversioned { symbol, by, .. } => rules::VERSION.finding(shown(by), symbol, plain(failure)),
        Failure::StaticTls { by, bytes, left } => rules::STATIC_TLS.finding(
            shown(by),
            "",
            format!("needs {bytes} bytes of the static TLS block, {left} are left"),
        ),
    }
}

/// Where a library was looked for, for people.
fn looked(searched: &[Step]) -> String {
    match searched {
        [] => return "there is nothing to search".to_owned(),
        [Step { why: Why::Path, outcome, .. }] if is_odd(outcome) => {
            return "it is for another machine".to_owned();
        }
        [Step { why: Why::Path, .. }] => return "it is not there".to_owned(),
        _ => {}
    }
    let folders: Vec<String> = searched
        .iter()
        .map(|step| {
            let folder = step.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let why = match &step.why {
                Why::Rpath(of) => format!("DT_RPATH of {}", shown(of)),
                Why::Runpath(of) => format!("DT_RUNPATH of {}", shown(of)),
                Why::LibraryPath => "LD_LIBRARY_PATH".to_owned(),
                Why::Cache => "ld.so.cache".to_owned(),
                Why::Default => "default".to_owned(),
                Why::Path => "as it stands".to_owned(),
                Why::Program | Why::Given => "given".to_owned(),
            };
            let odd = if is_odd(&step.outcome) { ", of another machine" } else { "" };
            format!("{} ({why}{odd})", shown(folder))
        })
        .collect();
    format!("looked in {}", folders.join(", "))
}

fn is_odd(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::OtherClass(_) | Outcome::OtherMachine)
}

/// `libfoo-1a2b3c4d.so.1`: what wheel repair tools make of a name.
pub(crate) fn is_hash_named(name: &str) -> bool {
    let stem = name.split(".so").next().unwrap_or(name);
    // The version may stand before the hash or behind it: libx-1a2b3c4d.so.1, libx-1a2b3c4d-2.0.so
    stem.split('-').skip(1).any(|part| {
        let part = part.split('.').next().unwrap_or(part);
        part.len() >= 8
            && part.bytes().all(|b| b.is_ascii_hexdigit())
            && part.bytes().any(|b| b.is_ascii_digit())
    })
}

/// Leaves out what follows from another failure of the same opening. The loader stops at the first; the model goes on,
/// and then misses what a library that is not there, or too old, would have brought.
pub(crate) fn causes(mut failures: Vec<Failure>) -> Vec<Failure> {
    // Undefined symbols, of which there may be thousands, explain nothing.
    let causes = failures.iter().filter(|failure| !matches!(failure, Failure::Undefined { .. }));
    let causes: Vec<Failure> = causes.cloned().collect();
    failures.retain(|failure| !causes.iter().any(|cause| explains(cause, failure)));
    failures
}

/// Whether `failure` would be gone without `cause`.
fn explains(cause: &Failure, failure: &Failure) -> bool {
    // The library that `user` asks for by `name` is not there.
    let lacks = |user: &str, name: &str| match cause {
        Failure::NotFound { name: missing, by: Some(by), .. }
        | Failure::WrongClass { name: missing, by: Some(by), .. } => by == user && missing == name,
        _ => false,
    };
    match failure {
        Failure::VersionOfNobody { file, by } => lacks(by, file),
        Failure::Undefined { version: Some(wanted), file: Some(file), by, .. } => match cause {
            Failure::Version { version, by: user, .. } => user == by && version == wanted,
            Failure::VersionOfNobody { file: of, by: user } => user == by && of == file,
            _ => lacks(by, file),
        },
        // Without a version it may be of any library that is missing.
        Failure::Undefined { by: user, .. } => {
            matches!(cause, Failure::NotFound { by: Some(by), .. } | Failure::WrongClass { by: Some(by), .. } if by == user)
        }
        _ => false,
    }
}

/// The file that a failure is about; `opened` where it is the one that was opened.
pub(crate) fn blamed<'f>(failure: &'f Failure, opened: &'f str) -> &'f str {
    match failure {
        Failure::NotFound { by, .. } | Failure::WrongClass { by, .. } => by.as_deref().unwrap_or(opened),
        Failure::BadFile { path, .. } => path,
        Failure::Version { by, .. }
        | Failure::VersionOfNobody { by, .. }
        | Failure::Undefined { by, .. }
        | Failure::Unversioned { by, .. }
        | Failure::StaticTls { by, .. } => by,
    }
}

/// Libraries that the machine is said to have, where it has one of that name for another machine.
pub(crate) fn passed_over(process: &Process<'_>, found: &mut Vec<Finding>) {
    for map in process.maps().iter().filter(|map| map.object.is_given()) {
        let other = |step: &&Step| matches!(step.outcome, Outcome::OtherClass(_) | Outcome::OtherMachine);
        if let Some(step) = map.steps.iter().find(other) {
            let reason = "it is for another machine, and passed over";
            found.push(rules::MACHINE.finding(shown(&step.path), base(&step.path), reason));
        }
    }
}

/// Whether a finding is of what the loader stops at.
pub(crate) fn stops(finding: &Finding) -> bool {
    let rules = [
        rules::NOT_FOUND,
        rules::UNDEFINED,
        rules::VERSION,
        rules::HASH_NAMED,
        rules::VERSION_OF_NOBODY,
        rules::STATIC_TLS,
        rules::ORDER,
        rules::BROKEN,
        rules::MACHINE,
    ];
    rules.iter().any(|rule| rule.code == finding.code)
}

/// Leaves out that a library is not found where it is there, for another machine.
pub(crate) fn other_machine(found: &mut Vec<Finding>) {
    let others: Vec<String> = found
        .iter()
        .filter(|finding| finding.code == rules::MACHINE.code)
        .map(|finding| base(&finding.file).to_owned())
        .collect();
    found.retain(|finding| finding.code != rules::NOT_FOUND.code || !others.contains(&finding.name));
}

/// Leaves out what may stay unresolved by leave, and tells which names those were.
pub(crate) fn allow(site: &Site, findings: Vec<Finding>) -> (Vec<Finding>, Vec<String>) {
    let allowed = |finding: &Finding| {
        let unresolved = [rules::NOT_FOUND, rules::UNDEFINED, rules::VERSION, rules::HASH_NAMED];
        unresolved.iter().any(|rule| rule.code == finding.code) && site.machine.may_lack(&finding.name)
    };
    let (out, kept): (Vec<_>, Vec<_>) = findings.into_iter().partition(allowed);
    let mut names: Vec<String> = out.into_iter().map(|finding| finding.name).collect();
    names.sort();
    names.dedup();
    (kept, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_repair_tools_make() {
        for name in ["libgomp-a34b3233.so.1", "libcudart-1a2b3c4d.so.13.0.0", "libjpeg-0123abcd.so"] {
            assert!(is_hash_named(name), "{name}");
        }
        for name in [
            "libtorch_cuda.so",
            "libcudnn.so.9",
            "libstdc++.so.6",
            "libfoo-deadline.so",
            "ld-linux-x86-64.so.2",
        ] {
            assert!(!is_hash_named(name), "{name}");
        }
    }
}
