//! What is reached by name in libraries that are open already, because no interface of PyTorch has it.
//!
//! The names are the vendor's, so they are data: `logical name -> library, symbol`. A few symbols serve several logical
//! names and take a number (`cudaDeviceGetAttribute`).

use std::collections::BTreeMap;

/// Where a logical name is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// `libcudart.so.13`, as the loader knows it.
    pub library: String,
    /// `cudaDeviceGetAttribute`; C++ names mangled.
    pub symbol: String,
    /// The number that the function takes for this name.
    pub argument: Option<i32>,
}

/// All names that the plugin can use, for [`Runtime::missing`]. Device properties are `property.` and any name.
pub const KNOWN: [&str; 17] = [
    "device.get",
    "device.name",
    "device.memory",
    "device.uuid",
    "graph.new",
    "graph.drop",
    "graph.begin",
    "graph.end",
    "graph.instantiate",
    "graph.replay",
    "graph.reset",
    "graph.pool",
    "graph.pool-handle",
    "ipc.export",
    "ipc.open",
    "ipc.close",
    "ipc.range",
];

/// The vendor's names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runtime {
    /// By logical name.
    pub symbols: BTreeMap<String, Symbol>,
}

/// A logical name that cannot be used here.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// A name that the plugin does not know: a slip in the data.
    #[error("unknown runtime name {name:?}")]
    Unknown {
        /// As written.
        name: String,
    },
    /// The vendor's data do not have it.
    #[error("{name} is not among this vendor's runtime names")]
    Unnamed {
        /// The logical name.
        name: String,
    },
    /// The library is not open, or has no such symbol.
    #[error("{name} needs {symbol} of {library}, which this process has not")]
    Absent {
        /// The logical name.
        name: String,
        /// The library.
        library: String,
        /// The symbol.
        symbol: String,
    },
}

impl Error {
    /// Stable between releases.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Unknown { .. } => "E-RTE-020",
            Error::Unnamed { .. } => "E-RTE-021",
            Error::Absent { .. } => "E-RTE-022",
        }
    }
}

impl Runtime {
    /// Refuses names that the plugin does not know.
    pub fn new(symbols: BTreeMap<String, Symbol>) -> Result<Runtime, Error> {
        match symbols.keys().find(|n| !n.starts_with("property.") && !KNOWN.contains(&n.as_str())) {
            Some(name) => Err(Error::Unknown { name: name.clone() }),
            None => Ok(Runtime { symbols }),
        }
    }

    /// The address of a logical name; `open` finds a symbol in a library that is open.
    pub fn find(
        &self,
        name: &str,
        open: impl Fn(&str, &str) -> Option<usize>,
    ) -> Result<(usize, Option<i32>), Error> {
        let s = self.symbols.get(name).ok_or_else(|| Error::Unnamed { name: name.to_owned() })?;
        match open(&s.library, &s.symbol) {
            Some(address) => Ok((address, s.argument)),
            None => Err(Error::Absent {
                name: name.to_owned(),
                library: s.library.clone(),
                symbol: s.symbol.clone(),
            }),
        }
    }

    /// The known names that cannot be used, each with the reason.
    pub fn missing(&self, open: impl Fn(&str, &str) -> Option<usize>) -> BTreeMap<String, String> {
        let given = self.symbols.keys().map(String::as_str);
        let names = KNOWN.into_iter().chain(given);
        names.filter_map(|n| Some((n.to_owned(), self.find(n, &open).err()?.to_string()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> Runtime {
        let symbol =
            |s: &str| Symbol { library: "libacme.so.1".into(), symbol: s.into(), argument: Some(16) };
        let names = [("ipc.open", "acmeIpcOpen"), ("property.warp_size", "acmeAttribute")];
        Runtime::new(names.iter().map(|(n, s)| ((*n).to_owned(), symbol(s))).collect()).unwrap()
    }
    fn open(library: &str, symbol: &str) -> Option<usize> {
        (library == "libacme.so.1" && symbol == "acmeAttribute").then_some(7)
    }

    #[test]
    fn found_with_its_argument() {
        assert_eq!(runtime().find("property.warp_size", open), Ok((7, Some(16))));
    }

    #[test]
    fn a_missing_one_is_named() {
        let e = runtime().find("ipc.open", open).unwrap_err();
        assert_eq!(e.to_string(), "ipc.open needs acmeIpcOpen of libacme.so.1, which this process has not");
        assert_eq!(runtime().find("graph.new", open).unwrap_err().code(), "E-RTE-021");
        let missing = runtime().missing(open);
        assert!(missing.contains_key("ipc.open") && missing.contains_key("graph.new"));
        assert!(!missing.contains_key("property.warp_size"));
    }

    #[test]
    fn a_slip_in_the_data() {
        let symbol = Symbol { library: "l".into(), symbol: "s".into(), argument: None };
        let e = Runtime::new(BTreeMap::from([("grph.new".to_owned(), symbol)])).unwrap_err();
        assert_eq!(e, Error::Unknown { name: "grph.new".into() });
    }
}
