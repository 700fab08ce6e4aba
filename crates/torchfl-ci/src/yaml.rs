//! Values in YAML. Workflows are texts of a fixed shape; only what stands in them as a value is written here.

use serde_json::Value;

/// A double-quoted scalar: JSON's strings are YAML's (YAML 1.2, 1.3 "Relation to JSON").
pub(crate) fn text(value: &str) -> String {
    Value::from(value).to_string()
}

/// A flow sequence of such scalars.
pub(crate) fn list<T: AsRef<str>>(values: &[T]) -> String {
    let texts: Vec<String> = values.iter().map(|value| text(value.as_ref())).collect();
    format!("[{}]", texts.join(", "))
}
