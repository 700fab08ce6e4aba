//! The manifests that the library carries.

use crate::problem::nearest;
use crate::{Error, Manifest};

const EMBEDDED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Name and text of each manifest of `vendor-manifests/`, in the order of their names; empty without the feature
/// `embedded`.
pub fn embedded() -> &'static [(&'static str, &'static str)] {
    EMBEDDED
}

/// The embedded manifest `name`, `cuda-slim`.
///
/// # Errors
///
/// [`Error::UnknownVendor`] names all that there are.
pub fn find(name: &str) -> Result<Manifest, Error> {
    let text = text(name)?;
    Manifest::parse(text, &format!("{name}.toml (embedded)"))
}

/// The text of the embedded manifest `name`.
///
/// # Errors
///
/// [`Error::UnknownVendor`] names all that there are.
pub fn text(name: &str) -> Result<&'static str, Error> {
    let found = EMBEDDED.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text).ok_or_else(|| Error::UnknownVendor {
        name: name.to_owned(),
        nearest: nearest(name, EMBEDDED.iter().map(|(known, _)| *known)),
        known: EMBEDDED.iter().map(|(known, _)| (*known).to_owned()).collect(),
    })
}
