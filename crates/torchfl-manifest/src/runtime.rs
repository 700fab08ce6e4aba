//! What a plugin reaches by name in libraries that are open already: a table for each API of devices, which all vendors
//! of that API share (`vendor-manifests/runtime/`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

const TABLES: &[(&str, &str)] = &[("cuda", include_str!("../../../vendor-manifests/runtime/cuda.toml"))];

/// A function of a library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimeName {
    /// The library, by its SONAME.
    pub library: String,
    /// The function, by its symbol.
    pub symbol: String,
    /// Where one function answers for many names: the number that it takes for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument: Option<i64>,
}

/// A file, but for its `api`, which says to people what it is of.
#[derive(Deserialize)]
struct Table {
    names: BTreeMap<String, RuntimeName>,
}

/// The APIs that there are tables of.
pub fn runtime_apis() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|(api, _)| *api)
}

/// The names of an API; none of one that there is no table of.
pub fn runtime_names(api: &str) -> BTreeMap<String, RuntimeName> {
    let text = TABLES.iter().find(|(known, _)| *known == api).map(|(_, text)| *text);
    text.and_then(|text| toml::from_str::<Table>(text).ok()).map(|table| table.names).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_of_its_name_and_can_be_read() {
        for (api, text) in TABLES {
            let table: toml::Table = text.parse().unwrap();
            assert_eq!(table["api"].as_str(), Some(*api));
            let names = runtime_names(api);
            assert_eq!(names.len(), table["names"].as_table().unwrap().len(), "{api}");
            for (name, reached) in names {
                assert!(name.contains('.') && !reached.symbol.is_empty(), "{name}");
                assert!(reached.library.contains(".so"), "{name}: {}", reached.library);
            }
        }
    }
}
