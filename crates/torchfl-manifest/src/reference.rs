//! The JSON schema of a manifest, and the reference page made from it.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::input::Input;
use crate::model::{
    Audit, Bundle, Ci, Comm, FlagGems, Global, Host, Manifest, Owner, Provided, Python, Runtime, Sdk, Shim,
    Stub, Target, Torch, Triton, TritonTarget,
};

/// Heading, name in the schema, fields.
const TABLES: &[(&str, &str, &[&str])] = &[
    ("Top level", "", Manifest::FIELDS),
    ("`[torch]`", "Torch", Torch::FIELDS),
    ("`[python]`", "Python", Python::FIELDS),
    ("`[target]`", "Target", Target::FIELDS),
    ("`[sdk]`", "Sdk", Sdk::FIELDS),
    ("`[bundle]`", "Bundle", Bundle::FIELDS),
    ("`bundle.global`", "Global", Global::FIELDS),
    ("`[host]`", "Host", Host::FIELDS),
    ("`[runtime]`", "Runtime", Runtime::FIELDS),
    ("`[[provided]]`", "Provided", Provided::FIELDS),
    ("`[[shim]]`", "Shim", Shim::FIELDS),
    ("`shim.stub`", "Stub", Stub::FIELDS),
    ("`[comm]`", "Comm", Comm::FIELDS),
    ("`[triton]`", "Triton", Triton::FIELDS),
    ("`triton.owners`", "Owner", Owner::FIELDS),
    ("`triton.target`", "TritonTarget", TritonTarget::FIELDS),
    ("`[flag-gems]`", "FlagGems", FlagGems::FIELDS),
    ("`[audit]`", "Audit", Audit::FIELDS),
    ("`[ci]`", "Ci", Ci::FIELDS),
    ("`[[input]]`", "Input", Input::FIELDS),
];

/// Every code of this crate, with what it stands for.
pub(crate) const CODES: &[(&str, &str)] = &[
    ("E-MAN-001", "the text is no TOML"),
    ("E-MAN-002", "the schema version is not 1"),
    ("E-MAN-010", "an unknown key"),
    ("E-MAN-011", "a value of the wrong type"),
    ("E-MAN-012", "a key is missing, or a list that must say something is empty"),
    ("E-MAN-013", "a word that is none of the possible ones"),
    ("E-MAN-020", "a vendor, variant or version that cannot stand in a wheel's local version (PEP 440)"),
    ("E-MAN-021", "a release that has not three parts"),
    ("E-MAN-022", "a python tag that is not cpXY"),
    ("E-MAN-023", "a symbol or a symbol version that cannot be one"),
    ("E-MAN-024", "a glibc version that is not N.M"),
    ("E-MAN-025", "a library that is not a shared library's file name"),
    ("E-MAN-026", "a glob that is none, or that leaves the wheel"),
    ("E-MAN-027", "a folder's name or a text that cannot be one"),
    ("E-MAN-028", "a distribution or an identifier that cannot be one"),
    ("E-MAN-029", "a rule's code that is not AUD- and three digits"),
    ("E-MAN-030", "a name is listed twice"),
    ("E-MAN-031", "a library is in two lists that exclude each other: required, optional, front"),
    ("E-MAN-032", "a library in `preload` comes from nowhere"),
    ("E-MAN-033", "a library in `global` is not in `preload`"),
    ("E-MAN-034", "the probe is not bundled"),
    ("E-MAN-035", "a library in `front`, or a shim, is not in `preload`"),
    ("E-MAN-036", "a library of the bundle, or a shim, comes from somewhere else too"),
    ("E-MAN-037", "`swap`, `front`, `[bundle]` and `[[shim]]` contradict each other"),
    ("E-MAN-038", "a shim's keys do not fit its kind"),
    ("E-MAN-039", "a stub is not among the shim's symbols"),
    ("E-MAN-040", "`$ORIGIN` is misspelt"),
    ("E-MAN-041", "a relative search path entry"),
    ("E-MAN-042", "`{sdk}` without `[sdk] roots`"),
    ("E-MAN-043", "a placeholder that there is not"),
    ("E-MAN-044", "a search path entry that is not one folder"),
    ("E-MAN-045", "an SDK root that is not one of `env` and `path`"),
    ("E-MAN-046", "an SDK folder that is not absolute, or cannot stand in a search path"),
    ("E-MAN-050", "a folder that does not lie in site-packages"),
    ("E-MAN-051", "`[[provided]]` without libraries"),
    ("E-MAN-052", "a version that is none, or that package indexes write otherwise (PEP 440)"),
    ("E-MAN-053", "a file's name that is none, or holds a placeholder that there is not"),
    ("E-MAN-054", "a SHA-256 sum that is none"),
    ("E-MAN-055", "a sum of a file that the manifest does not offer"),
    ("E-MAN-056", "an input that is not to be had in exactly one way"),
    ("E-MAN-060", "a version in `[triton]` contradicts its supplier, or its owner's `local`"),
    ("E-MAN-061", "`[env]` and `[flag-gems]` give GEMS_VENDOR two values"),
    ("E-MAN-062", "`[ci] python` names an interpreter that no wheel is for"),
    ("E-MAN-101", "no manifest has the name"),
    ("E-MAN-102", "the manifest does not offer the interpreter or the processor"),
    ("E-MAN-103", "a local version that PEP 440 forbids"),
    ("E-MAN-104", "an SDK folder that is not absolute, or cannot stand in a search path"),
    ("E-MAN-105", "the search path needs the SDK's folder, and nobody knows it"),
    ("E-MAN-106", "a name that no manifest can have"),
];

/// The JSON schema of a manifest (draft 2020-12), for editors and other tools. It says which keys there are and of
/// which type; rules of the names, and rules between keys, are checked by [`Manifest::parse`] alone.
pub fn schema() -> Value {
    sorted(schemars::schema_for!(Manifest).to_value())
}

/// The same value whatever features other crates switch on in `serde_json`.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(String, Value)> =
                map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(entries.into_iter().collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// The reference page of the manifest, in Markdown: a table of keys for each table of the file.
pub fn reference() -> String {
    let schema = schema();
    let mut page = String::from(
        "# The vendor manifest\n\n\
         Generated from the doc comments of `torchfl-manifest`; `UPDATE=1 cargo test -p torchfl-manifest` writes it \
         anew.\nThe same as a JSON schema: [manifest.schema.json](manifest.schema.json).\n",
    );
    for (heading, name, fields) in TABLES {
        let table = if name.is_empty() { &schema } else { &schema["$defs"][name] };
        let about = about(table);
        // Doc comments start with the heading; here it stands above.
        let about = about.strip_prefix(&format!("{heading}: ")).unwrap_or(&about);
        let _ = writeln!(page, "\n## {heading}\n\n{about}\n");
        page.push_str("| key | value | | meaning |\n|---|---|---|---|\n");
        for field in *fields {
            let key = field.replace('_', "-");
            let property = &table["properties"][&key];
            let needed =
                table["required"].as_array().is_some_and(|keys| keys.contains(&Value::from(key.as_str())));
            let needed = if needed { "required" } else { "" };
            let meaning = meaning(&schema, property);
            let _ = writeln!(page, "| `{key}` | {} | {needed} | {meaning} |", kind(&schema, property));
        }
    }
    page.push_str("\n## Errors\n\n| code | meaning |\n|---|---|\n");
    for (code, meaning) in CODES {
        let _ = writeln!(page, "| {code} | {meaning} |");
    }
    page
}

/// A description on one line.
fn about(node: &Value) -> String {
    node["description"].as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A field's own description, and those of the words it may be.
fn meaning(schema: &Value, property: &Value) -> String {
    let mut text = about(property);
    let words = definition(schema, element(property)).and_then(|definition| definition["oneOf"].as_array());
    for word in words.into_iter().flatten() {
        if let Some(name) = word["const"].as_str() {
            let _ = write!(text, "<br>`{name}`: {}", about(word));
        }
    }
    text.replace('|', "\\|")
}

/// What a list or a table of free names is of, or the node itself; without an optional key's `null`.
fn element(node: &Value) -> &Value {
    if let Some(choice) = node["anyOf"].as_array().and_then(|choices| choices.first()) {
        return element(choice);
    }
    ["items", "additionalProperties"]
        .iter()
        .find(|of| node[**of].is_object())
        .map_or(node, |of| element(&node[*of]))
}

fn definition<'a>(schema: &'a Value, node: &Value) -> Option<&'a Value> {
    let name = node["$ref"].as_str()?.strip_prefix("#/$defs/")?;
    schema["$defs"].get(name)
}

/// The type of a value, in words.
fn kind(schema: &Value, node: &Value) -> String {
    if node["items"].is_object() {
        return format!("list: {}", kind(schema, &node["items"]));
    }
    if let Some(choice) = node["anyOf"].as_array().and_then(|choices| choices.first()) {
        return kind(schema, choice);
    }
    if let Some(definition) = definition(schema, node) {
        let words = definition["oneOf"].as_array().into_iter().flatten();
        let words: Vec<&str> = words.filter_map(|word| word["const"].as_str()).collect();
        return if words.is_empty() { "table".to_owned() } else { "one word".to_owned() };
    }
    if node["additionalProperties"].is_object() {
        return format!("names with: {}", kind(schema, &node["additionalProperties"]));
    }
    // A value that may be left out is of two types, the second of which is null.
    let plain = node["type"].as_str().or_else(|| node["type"][0].as_str());
    node["title"].as_str().or(plain).unwrap_or("value").to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use toml::de::DeValue;

    use super::*;
    use crate::decode::{Context, Field, Node};

    /// Keys that the reader misses in an empty table, and keys that the schema requires.
    fn required<T: Field + schemars::JsonSchema>() -> [BTreeSet<String>; 2] {
        let mut context = Context::default();
        T::decode(&Node::new(0..0, DeValue::Table(toml::de::DeTable::new())), &mut context);
        let missed = context.finish("").into_iter().map(|problem| problem.key).collect();
        let schema = schemars::schema_for!(T).to_value();
        let keys = schema["required"].as_array().cloned().unwrap_or_default();
        [missed, keys.iter().map(|key| key.as_str().unwrap().to_owned()).collect()]
    }

    #[test]
    fn the_schema_requires_what_the_reader_requires() {
        let all = [
            required::<Manifest>(),
            required::<Torch>(),
            required::<Python>(),
            required::<Target>(),
            required::<Sdk>(),
            required::<Bundle>(),
            required::<Global>(),
            required::<Host>(),
            required::<Runtime>(),
            required::<Provided>(),
            required::<Shim>(),
            required::<Stub>(),
            required::<Comm>(),
            required::<Triton>(),
            required::<Owner>(),
            required::<TritonTarget>(),
            required::<FlagGems>(),
            required::<Audit>(),
            required::<Ci>(),
            required::<Input>(),
        ];
        assert_eq!(all.len(), TABLES.len());
        for [reader, schema] in all {
            assert_eq!(reader, schema);
        }
    }

    #[test]
    fn every_code_is_explained_and_every_explained_code_is_used() {
        let mut used = BTreeSet::new();
        for entry in fs_err::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("reference.rs")
            {
                let text = fs_err::read_to_string(path).unwrap();
                used.extend(text.match_indices("\"E-MAN-").map(|(at, _)| text[at + 1..at + 10].to_owned()));
            }
        }
        let explained: BTreeSet<String> = CODES.iter().map(|(code, _)| (*code).to_owned()).collect();
        assert_eq!(used, explained);
    }
}
