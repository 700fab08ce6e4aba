//! The committed schema and reference page are those of the code. `UPDATE=1` writes them anew.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use torchfl_manifest::{reference, schema};

fn same(name: &str, text: &str) {
    let path = format!("{}/../../docs/reference/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE").is_some() {
        fs_err::write(&path, text).unwrap();
    }
    let committed = fs_err::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "{path} is out of date: run UPDATE=1 cargo test -p torchfl-manifest");
}

#[test]
fn drift_of_the_schema() {
    same("manifest.schema.json", &(serde_json::to_string_pretty(&schema()).unwrap() + "\n"));
}

#[test]
fn drift_of_the_reference() {
    same("manifest.md", &reference());
}
