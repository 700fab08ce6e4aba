//! What can go wrong in reading the inputs of the model, each with a stable code and a next step.

use std::io;
use std::path::PathBuf;

/// An error of this crate. `name` is what the caller called the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes of an `ld.so.cache` contradict themselves, or are something else.
    #[error("{name}: not a usable ld.so.cache: it {what}")]
    Cache {
        /// The file.
        name: String,
        /// What is wrong, as the end of a sentence.
        what: &'static str,
    },
    /// The bytes of a snapshot file cannot be understood.
    #[error("{name}: not a usable snapshot: row {row}: {what}")]
    Snapshot {
        /// The file.
        name: String,
        /// The row, from 1.
        row: u64,
        /// What is wrong there.
        what: String,
    },
    /// A folder cannot be looked through.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A folder's path on the machine that a snapshot is of.
    #[error("{}: not an absolute path without `..`, in UTF-8", path.display())]
    Place {
        /// The path.
        path: PathBuf,
    },
}

impl Error {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Cache { .. } => "E-LDR-001",
            Self::Snapshot { .. } => "E-LDR-002",
            Self::Io(_) => "E-LDR-003",
            Self::Place { .. } => "E-LDR-004",
        }
    }

    /// The next step, where there is one.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Cache { .. } => "run `ldconfig` on that system and copy the file again, or leave it out",
            Self::Snapshot { .. } => {
                "copy the file again, or take the snapshot anew with this version of the command"
            }
            Self::Io(error) if error.kind() == io::ErrorKind::NotFound => "check the spelling of the path",
            Self::Io(_) => return None,
            Self::Place { .. } => "say where the folder lies on the target machine, as `/opt/acme`",
        };
        Some(hint.to_owned())
    }
}
