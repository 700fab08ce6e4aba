//! Skeletons: torches and runtime wheels that were generated from a manifest, for tests. A wheel that is made of one, or
//! proved with one, says so in its version, and no other wheel does.

use std::path::Path;

use torchfl_audit::is_skeleton;
use torchfl_manifest::Resolved;
use torchfl_wheel::{WheelName, normalize_name};

use crate::{Error, Request, Tree, VersionPy};

/// Those of a build's inputs that are skeletons, for people: `torch 2.13.0+acme1.0.skeleton`.
pub(crate) fn among<'a>(
    request: &Request,
    torches: impl Iterator<Item = (&'a Tree, &'a VersionPy)>,
    resolved: &Resolved,
) -> Vec<String> {
    let mut found: Vec<String> = torches
        .filter(|(tree, _)| !tree.is_nothing())
        .filter_map(|(tree, version)| torch(tree, version))
        .chain(request.with.iter().flat_map(|path| beside(path, resolved)))
        .collect();
    found.sort();
    found.dedup();
    found
}

/// The version that says it: `version.py`'s, or that of the distribution, which a packager may have relabelled.
fn torch(tree: &Tree, version: &VersionPy) -> Option<String> {
    let own = version.get("__version__").map(str::to_owned);
    let wheel = tree.wheel.as_ref().map(|wheel| wheel.version.to_string());
    let info = tree.dist_info();
    let info = info.as_deref().and_then(|info| version_of(info.trim_end_matches('/')));
    let said = own.into_iter().chain(wheel).chain(info.map(|(_, version)| version));
    said.filter(|version| is_skeleton(version)).map(|version| format!("torch {version}")).next()
}

/// Torch, and those that the manifest says bring libraries, in a wheel or a site-packages folder.
fn beside(path: &Path, resolved: &Resolved) -> Vec<String> {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let names: Vec<(String, String)> = match file.parse::<WheelName>() {
        Ok(wheel) => vec![(wheel.distribution.clone(), wheel.version.to_string())],
        // What cannot be read is the proof's to complain of.
        Err(_) => fs_err::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| version_of(&entry.file_name().to_string_lossy()))
            .collect(),
    };
    let counts = |name: &str| {
        let known = resolved.provided.iter().map(|provided| provided.dist.as_str());
        known.chain(["torch"]).any(|known| normalize_name(known) == normalize_name(name))
    };
    let skeletons = names.into_iter().filter(|(name, version)| counts(name) && is_skeleton(version));
    skeletons.map(|(name, version)| format!("{name} {version}")).collect()
}

/// Name and version of `torch-2.13.0+cpu.dist-info`.
fn version_of(info: &str) -> Option<(String, String)> {
    let (name, version) = info.strip_suffix(".dist-info")?.split_once('-')?;
    Some((name.to_owned(), version.to_owned()))
}

/// The wheel's version, which says whether it is one.
pub(crate) fn label(version: &str, skeletons: &[String]) -> Result<String, Error> {
    match (skeletons.is_empty(), is_skeleton(version)) {
        (true, true) => Err(Error::SaysSkeleton { version: version.to_owned() }),
        (true, false) | (false, true) => Ok(version.to_owned()),
        (false, false) => Ok(format!("{version}.skeleton")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_added_once_and_never_without_a_reason() {
        let one = ["torch 2.13.0+acme1.skeleton".to_owned()];
        assert_eq!(label("2.13.0+acme1", &one).unwrap(), "2.13.0+acme1.skeleton");
        assert_eq!(label("2.13.0+acme1.skeleton", &one).unwrap(), "2.13.0+acme1.skeleton");
        assert_eq!(label("2.13.0+acme1", &[]).unwrap(), "2.13.0+acme1");
        assert_eq!(label("2.13.0+skeleton", &[]).unwrap_err().code(), "E-BLD-053");
        // A part of the local version, not of a word.
        assert_eq!(label("2.13.0+skeletons.of.acme", &[]).unwrap(), "2.13.0+skeletons.of.acme");
    }
}
