//! `docs/reference/build-json.md`, made from the types and their doc comments.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde_json::{Map, Value};
use torchfl_manifest::resolve;

use super::BuildJson;

const HEAD: &str = "\
# build.json

Generated from the doc comments of `torchfl-build`; `make docs` writes it anew.

`torch_fl/build.json` in every wheel is what the bootstrap checks and opens at `import torch_fl`. It is UTF-8 with sorted
keys and one space of indent. The sha256 of its bytes is the build's identity: `build_id` of `torch_fl.boot_info()`.
`torchfl inspect --json WHEEL` shows it under `build`.
";

/// A library that is opened.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct Open {
    /// Its file name.
    name: String,
    /// `bundle`: the folder `bundle` in `torch_fl/`; `front`: `lib/` of the installed torch.
    from: String,
    /// One copy a process, whoever brought it: skipped where one is loaded already.
    shared: bool,
    /// With `RTLD_GLOBAL`.
    global: bool,
}

/// A function of a library.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct RuntimeName {
    /// The library, by its `DT_SONAME`.
    library: String,
    /// The function, by its symbol.
    symbol: String,
    /// Where one function answers for many names: the number that it takes for this one.
    argument: Option<i64>,
}

fn page() -> String {
    let schema = serde_json::to_value(schemars::schema_for!(BuildJson)).unwrap();
    let mut text = format!("{HEAD}\n## Top level\n\n{}", table(&schema));
    for (name, part) in schema["$defs"].as_object().unwrap() {
        write!(text, "\n## {name}\n\n{}\n\n{}", part["description"].as_str().unwrap(), table(part)).unwrap();
    }
    text
}

fn table(schema: &Value) -> String {
    let mut text = "| key | value | meaning |\n|---|---|---|\n".to_owned();
    for (key, property) in schema["properties"].as_object().unwrap() {
        let meaning = property["description"].as_str().unwrap().replace('\n', " ");
        writeln!(text, "| `{key}` | {} | {meaning} |", kind(property)).unwrap();
    }
    text
}

/// A property's type in words.
fn kind(property: &Value) -> String {
    if let Some(reference) = property["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(any) = property["anyOf"].as_array() {
        return any.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    let types: Vec<&str> = match &property["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        other => other.as_str().into_iter().collect(),
    };
    let word = |kind: &&str| match *kind {
        "string" => "text".to_owned(),
        "boolean" => "true or false".to_owned(),
        "array" => format!("list: {}", self::kind(&property["items"])),
        "object" => format!("names with: {}", self::kind(&property["additionalProperties"])),
        other => other.to_owned(),
    };
    types.iter().map(word).collect::<Vec<_>>().join(" or ")
}

#[test]
fn reference_of_build_json_has_no_drift() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/build-json.md");
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        fs_err::write(path, &page).unwrap();
    }
    let committed = fs_err::read_to_string(path).unwrap_or_default();
    assert!(committed == page, "{path} is out of date: run `make docs`");
}

#[test]
fn opened_libraries_are_described_as_they_are_written() {
    let open =
        resolve::Open { name: String::new(), from: resolve::OpenFrom::Front, shared: true, global: true };
    let written = serde_json::to_value(open).unwrap();
    let described = serde_json::to_value(schemars::schema_for!(Open)).unwrap();
    let keys = |map: &Map<String, Value>| map.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(keys(written.as_object().unwrap()), keys(described["properties"].as_object().unwrap()));
}

/// The keys that the bootstrap demands.
fn demanded() -> Vec<&'static str> {
    let plan = include_str!("../../../../wheels/torch_fl/_plan.py");
    let list = plan.split_once("KEYS = {").unwrap().1.split_once('}').unwrap().0;
    list.split('"').skip(1).step_by(2).collect()
}

/// The bootstrap refuses a build.json without these keys; one that it asks for and nobody writes would break every wheel.
#[test]
fn every_key_that_the_bootstrap_demands_is_written() {
    let demanded = demanded();
    let schema = serde_json::to_value(schemars::schema_for!(BuildJson)).unwrap();
    assert!(demanded.contains(&"open"), "{demanded:?}");
    for key in demanded {
        assert!(schema["properties"].get(key).is_some(), "{key}");
    }
}

/// They came into the format later and are nothing to the bootstrap: wheels that were built before lack them.
#[test]
fn keys_of_the_audit_are_not_demanded_by_the_bootstrap() {
    for key in ["audit", "allow_unresolved"] {
        assert!(!demanded().contains(&key), "{key}");
    }
}
