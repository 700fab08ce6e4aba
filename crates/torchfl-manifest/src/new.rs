//! The first text of a new vendor's manifest.

use toml_edit::{DocumentMut, Formatted, Item, TableLike, Value};

use crate::decode::Complaint;
use crate::names::{Slug, read};
use crate::{Error, Manifest};

/// A manifest with its keys explained, most of them still to be filled in.
const TEMPLATE: &str = include_str!("template.toml");

/// The text of a starting manifest for `name`, `acme` or `acme-slim`; it parses, and [`crate::check`] lists what
/// is missing. With `from`, the text of another manifest (and its origin, for messages), everything but the names
/// is taken from there, comments too.
///
/// # Errors
///
/// [`Error::Name`] for a name that no manifest can have, [`Error::Invalid`] where `from` holds mistakes.
pub fn new_manifest(name: &str, from: Option<(&str, &str)>) -> Result<String, Error> {
    let (vendor, variant) = match name.split_once('-') {
        Some((vendor, variant)) => (vendor, Some(variant)),
        None => (name, None),
    };
    for part in [Some(vendor), variant].into_iter().flatten() {
        read::<Slug>(part)
            .map_err(|Complaint { message, .. }| Error::Name { name: name.to_owned(), why: message })?;
    }
    let (text, origin) = from.unwrap_or((TEMPLATE, "the template"));
    let old = Manifest::parse(text, origin)?;
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| Error::Name {
        name: name.to_owned(),
        why: format!("{origin} cannot be edited: {}", error.message()),
    })?;
    let root = document.as_table_mut();
    set(root, "vendor", vendor);
    set(root, "title", &format!("TODO: title of {name}"));
    set(root, "status", "experimental");
    match (variant, root.get_mut("variant").is_some()) {
        (Some(variant), true) => set(root, "variant", variant),
        (Some(variant), false) => drop(root.insert("variant", Item::Value(Value::from(variant)))),
        (None, _) => drop(root.remove("variant")),
    }
    // Two vendors' bundles must not meet in one folder; two variants of a vendor never do.
    if old.vendor.as_str() != vendor
        && let Some(bundle) = root.get_mut("bundle").and_then(Item::as_table_like_mut)
    {
        set(bundle, "dir", &format!("lib_{vendor}"));
    }
    Ok(document.to_string())
}

/// Replaces the string at `key`, if there is one, and keeps the comment behind it.
fn set(table: &mut dyn TableLike, key: &str, text: &str) {
    if let Some(Item::Value(value)) = table.get_mut(key) {
        let decor = value.decor().clone();
        *value = Value::String(Formatted::new(text.to_owned()));
        *value.decor_mut() = decor;
    }
}
