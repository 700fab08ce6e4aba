//! Why a library does not load.

use serde::Serialize;

use crate::search::Step;

/// What the loader stops at. `Display` is what glibc's `dlerror` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case", tag = "failure")]
pub enum Failure {
    /// A library is nowhere on its search path.
    #[error("{name}: cannot open shared object file: No such file or directory")]
    NotFound {
        /// The name that was looked for.
        name: String,
        /// The file that needs it, by the path that it was opened by; `None` for the one asked for.
        by: Option<String>,
        /// Where it was looked for.
        searched: Vec<Step>,
    },
    /// Only files of the other width have the name.
    #[error("{name}: wrong ELF class: {class}")]
    WrongClass {
        /// The name that was looked for.
        name: String,
        /// The file that needs it.
        by: Option<String>,
        /// The width that was found.
        class: &'static str,
        /// Where it was looked for.
        searched: Vec<Step>,
    },
    /// A file that ends the search, and is no library.
    #[error("{path}: {reason}")]
    BadFile {
        /// The path that it was opened by.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A version that a file needs is not defined by the file that it is needed of.
    #[error("{file}: version `{version}' not found (required by {by})")]
    Version {
        /// The file that should define it.
        file: String,
        /// The version.
        version: String,
        /// The file that needs it.
        by: String,
    },
    /// Versions are needed of a file that nobody has loaded: the loader aborts the process.
    #[error("{by}: versions are needed of {file}, which is in no DT_NEEDED")]
    VersionOfNobody {
        /// The name of the file.
        file: String,
        /// The file that needs its versions.
        by: String,
    },
    /// No library in scope defines a symbol.
    #[error("{by}: undefined symbol: {symbol}{}", version.as_ref().map(|v| format!(", version {v}")).unwrap_or_default())]
    Undefined {
        /// The symbol.
        symbol: String,
        /// Its version.
        version: Option<String>,
        /// The library that the version is asked of.
        file: Option<String>,
        /// The file that refers to it.
        by: String,
        /// It fails at the first call only, and not when the library is opened.
        lazy: bool,
    },
    /// A versioned reference meets a definition without any version in the very file it names: the loader aborts.
    #[error("{by}: {symbol} is wanted in version {version} of {file}, which has no versions at all")]
    Unversioned {
        /// The symbol.
        symbol: String,
        /// The version.
        version: String,
        /// The file that lost its versions.
        file: String,
        /// The file that refers to it.
        by: String,
    },
    /// There is no room left in the static TLS block.
    #[error("{by}: cannot allocate memory in static TLS block")]
    StaticTls {
        /// The library.
        by: String,
        /// What it needs, in bytes.
        bytes: u64,
        /// What is left, in bytes.
        left: u64,
    },
}

impl Failure {
    /// Whether the loader ends the process, where other failures are reported to who opened the library.
    pub fn aborts(&self) -> bool {
        matches!(self, Self::VersionOfNobody { .. } | Self::Unversioned { .. })
    }
}
