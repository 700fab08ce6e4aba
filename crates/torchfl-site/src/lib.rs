//! What is installed in a Python environment: where our wheel is, the switch that turns it on for every program
//! (`activate`), and the tree of links that a build system compiles against (`facade`).
//!
//! The environment's own Python is asked, once; it imports neither torch nor `torch_fl`.

mod activate;
mod environment;

use std::io;
use std::path::PathBuf;

pub use activate::{Switch, activate, deactivate};
pub use environment::{Environment, facade};

/// Why an environment could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message says it")]
pub enum Error {
    #[error("cannot start the Python {python}", python = .python.display())]
    Start { python: PathBuf, source: io::Error },
    #[error("the Python {python} failed: {stderr}", python = .python.display())]
    Python { python: PathBuf, stderr: String },
    #[error("the Python {python} did not answer in JSON", python = .python.display())]
    Answer { python: PathBuf, source: serde_json::Error },
    #[error("torch_fl is not installed for {python}", python = .python.display())]
    NotInstalled { python: PathBuf },
    #[error("{path} exists and was not written by `torchfl activate`", path = .path.display())]
    Foreign { path: PathBuf },
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("cannot write {path}", path = .path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl Error {
    /// A stable code, documented in `docs/reference/errors.md`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Start { .. } => "E-SITE-001",
            Self::Python { .. } => "E-SITE-002",
            Self::Answer { .. } => "E-SITE-003",
            Self::NotInstalled { .. } => "E-SITE-004",
            Self::Foreign { .. } => "E-SITE-005",
            Self::Io(_) => "E-SITE-006",
            Self::Write { .. } => "E-SITE-007",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Start { .. } => {
                Some("name the environment's interpreter: --python VENV/bin/python".to_owned())
            }
            Self::NotInstalled { python } => Some(format!(
                "install the wheel first: {} -m pip install torch_fl-….whl; or name another interpreter with --python",
                python.display()
            )),
            Self::Answer { .. } => Some("look for a sitecustomize or .pth file of it that prints".to_owned()),
            Self::Write { .. } => Some("run it as the user who installs packages there".to_owned()),
            Self::Foreign { .. } => Some("look at the file, and move it away if it may go".to_owned()),
            _ => None,
        }
    }
}
