//! The crate's error.

use std::io;
use std::path::PathBuf;

/// Why a skeleton was not generated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The interpreter did not say what wheels for it need.
    #[error("{}: {why}", program.display())]
    Python {
        /// The interpreter.
        program: PathBuf,
        /// What it said.
        why: String,
    },
    /// Not the tag of a CPython.
    #[error("{tag} is no tag of a Python")]
    Tag {
        /// What was asked for.
        tag: String,
    },
    /// There is no C compiler.
    #[error("the C compiler `{compiler}` cannot be run")]
    NoCompiler {
        /// Its name.
        compiler: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A template did not compile.
    #[error("{library} does not compile: {why}")]
    Compile {
        /// The library's file name.
        library: String,
        /// The compiler's messages.
        why: String,
    },
    /// A library is linked against one that comes later, or never.
    #[error("{library} is linked against {needed}, which is not compiled before it")]
    Graph {
        /// The library's file name.
        library: String,
        /// The other's.
        needed: String,
    },
    /// The manifest cannot be resolved.
    #[error(transparent)]
    Manifest(#[from] torchfl_manifest::Error),
    /// A wheel cannot be written.
    #[error(transparent)]
    Wheel(#[from] torchfl_wheel::Error),
    /// A file cannot be read or written; the message names it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    /// The error's stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Python { .. } => "E-SKEL-001",
            Error::NoCompiler { .. } => "E-SKEL-002",
            Error::Compile { .. } => "E-SKEL-003",
            Error::Graph { .. } => "E-SKEL-004",
            Error::Io(_) => "E-SKEL-005",
            Error::Tag { .. } => "E-SKEL-006",
            Error::Manifest(error) => error.code(),
            Error::Wheel(error) => error.code(),
        }
    }

    /// The next step, where there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::Python { .. } => Some("name a CPython that has its headers with --python".to_owned()),
            Error::Tag { .. } => Some("write it as cp312".to_owned()),
            Error::NoCompiler { compiler, .. } => Some(match compiler.strip_suffix("-linux-gnu-gcc") {
                Some(arch) => format!("install the cross compiler, such as Debian's gcc-{arch}-linux-gnu"),
                None => "install a C compiler; it must be called cc".to_owned(),
            }),
            Error::Graph { .. } => Some("check the order of `preload` in the manifest".to_owned()),
            Error::Compile { .. } | Error::Io(_) => None,
            Error::Manifest(error) => error.hint(),
            Error::Wheel(error) => error.hint(),
        }
    }
}
