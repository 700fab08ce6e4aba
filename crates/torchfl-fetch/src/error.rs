use std::io;
use std::path::PathBuf;

use torchfl_wheel::Sha256;

/// A file that came, and is another one.
#[derive(Debug, thiserror::Error)]
#[error(
    "{name} from {origin} is another file: sha256 {found}{}, and {expected} is expected{note}",
    size(*.bytes)
)]
pub struct WrongSum {
    /// The file.
    pub name: String,
    /// The folder, the mirror or the tool that it came from.
    pub origin: String,
    /// As wanted.
    pub expected: Sha256,
    /// As it came.
    pub found: Sha256,
    /// How much came; `None` where pip threw it away.
    pub bytes: Option<u64>,
    /// More to say about it, or nothing.
    pub note: &'static str,
}

fn after(seen: Option<&str>) -> String {
    seen.map(|seen| format!("; {seen}")).unwrap_or_default()
}

fn size(bytes: Option<u64>) -> String {
    bytes.map(|bytes| format!(" in {bytes} bytes")).unwrap_or_default()
}

/// What can go wrong, apart from a file that is nowhere: that is a [`crate::State::Missing`].
///
/// No message holds a password, a query or another secret of an address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused to read or write.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// What came has another sum. It was thrown away.
    #[error(transparent)]
    WrongSum(#[from] Box<WrongSum>),
    /// A file of the name stands in the destination, and is another one.
    #[error(
        "{} is another file: its sha256 is {found} in {bytes} bytes, and {expected} is expected",
        path.display()
    )]
    OtherThere {
        /// The file, which was not touched.
        path: PathBuf,
        /// As wanted.
        expected: Sha256,
        /// As it stands there.
        found: Sha256,
        /// Its size.
        bytes: u64,
    },
    /// Nobody says what the bytes must be.
    #[error("nobody says which sha256 {what} must have{}", after(seen.as_deref()))]
    Unhashed {
        /// The file or package.
        what: String,
        /// Where one was found, and its sum.
        seen: Option<String>,
    },
    /// Several files may be the one that is wanted.
    #[error("{} files in {} may be {what}: {}", names.len(), folder.display(), names.join(", "))]
    Several {
        /// As wanted.
        what: String,
        /// Where they are.
        folder: PathBuf,
        /// Their names.
        names: Vec<String>,
    },
    /// Something that is no file has the name.
    #[error("{} is {what}", path.display())]
    NotFile {
        /// The path.
        path: PathBuf,
        /// "a folder", "a link, a FIFO or a device", "another user's"; of the destination "a file, and no folder".
        what: &'static str,
    },
    /// A mirror that is neither a folder nor an address.
    #[error("`{given}` is no mirror: {why}")]
    Mirror {
        /// As given, without secrets.
        given: String,
        /// What is wrong.
        why: String,
    },
    /// A netrc file that cannot be understood.
    #[error("line {line}: {what}")]
    Netrc {
        /// From 1.
        line: usize,
        /// What is wrong; never what stands there.
        what: &'static str,
    },
    /// Certificates or proxies that cannot be used.
    #[error("the network cannot be set up: {why}")]
    Network {
        /// What is wrong.
        why: String,
    },
    /// pip or uv cannot be run.
    #[error("`{program}` cannot be run: {why}")]
    Installer {
        /// The program.
        program: String,
        /// What is wrong.
        why: String,
    },
}

impl Error {
    /// A stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io(_) => "E-FET-001",
            Self::WrongSum(_) => "E-FET-002",
            Self::OtherThere { .. } => "E-FET-003",
            Self::Unhashed { .. } => "E-FET-004",
            Self::Several { .. } => "E-FET-005",
            Self::NotFile { .. } => "E-FET-006",
            Self::Mirror { .. } => "E-FET-007",
            Self::Netrc { .. } => "E-FET-008",
            Self::Network { .. } => "E-FET-009",
            Self::Installer { .. } => "E-FET-010",
        }
    }

    /// The next step, where one can be told.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Io(error) => match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "make room there, and run again: what has come stays, and is not fetched twice"
                }
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "name a folder that you may write to: --dest"
                }
                _ => return None,
            },
            Self::WrongSum(_) => {
                "ask whoever keeps that mirror; or give the right sum if it has changed: --sha256"
            }
            Self::OtherThere { .. } => {
                "move it away, or name another folder: --dest; nothing is written over"
            }
            Self::Unhashed { .. } => {
                "give its sum, NAME=SUM to --sha256; or take what comes: --allow-unhashed NAME"
            }
            Self::Several { .. } => "leave one of them there, or say which by its sum: --sha256",
            Self::NotFile { .. } => "move it away, or name another folder: --dest",
            Self::Mirror { .. } => "name a folder, or an address that begins with https:// or http://",
            Self::Netrc { .. } => {
                "write `machine HOST login NAME password WORD`, quoted where a word has spaces"
            }
            Self::Network { .. } => "see --ca-file, and the variables HTTPS_PROXY, HTTP_PROXY and NO_PROXY",
            Self::Installer { .. } => {
                "name a Python that has pip: --interpreter; or install uv, and --installer uv"
            }
        };
        Some(hint.to_owned())
    }

    /// Whether it is about the one file, and another run with the same words would say the same: not a fault
    /// of the machine or the command line.
    pub fn is_finding(&self) -> bool {
        matches!(
            self,
            Self::WrongSum(_) | Self::OtherThere { .. } | Self::Unhashed { .. } | Self::Several { .. }
        )
    }
}
