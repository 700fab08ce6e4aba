//! What can go wrong, each with a stable code and a next step.

use std::io;
use std::path::PathBuf;

/// An error of this crate. `name` is what the caller called the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to read, write or rename.
    #[error("could not {action} {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried: `open`, `write`, `rename`…
        action: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The bytes of an open file could not be read.
    #[error("{name}: could not read {len} bytes at offset {offset:#x}")]
    Read {
        /// The file.
        name: String,
        /// Where.
        offset: u64,
        /// How many bytes.
        len: u64,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// No ELF magic.
    #[error("{name}: not an ELF file")]
    NotElf {
        /// The file.
        name: String,
    },
    /// The file ends before something that its headers promise.
    #[error("{name}: cut short: {what} ends at offset {end:#x}, the file at {len:#x}")]
    Truncated {
        /// The file.
        name: String,
        /// What lies beyond the end.
        what: &'static str,
        /// Where it would end.
        end: u64,
        /// The file's length.
        len: u64,
    },
    /// The headers or tables contradict themselves or the loader's rules.
    #[error("{name}: malformed: {what}")]
    Malformed {
        /// The file.
        name: String,
        /// What is wrong, and where.
        what: String,
    },
    /// A machine whose dynamic section this crate does not know how to change safely.
    #[error("{name}: patching is not supported for the machine {machine}")]
    Machine {
        /// The file.
        name: String,
        /// The machine's name, or its number.
        machine: String,
    },
    /// Nothing for the dynamic loader in the file: an object file, a core, a static program.
    #[error("{name}: has no search path to change: {what}")]
    NotDynamic {
        /// The file.
        name: String,
        /// What it is instead.
        what: &'static str,
    },
    /// The value asked for cannot be stored.
    #[error("not a search path: {why}: {value:?}")]
    Value {
        /// The value.
        value: String,
        /// Why not.
        why: &'static str,
    },
    /// The value does not fit in place, and the file cannot be extended.
    #[error("{name}: no room for the new search path: {why}")]
    NoRoom {
        /// The file.
        name: String,
        /// What stands in the way.
        why: String,
    },
    /// The edited file did not pass the check that follows every edit.
    #[error("{name}: the edited file failed its check: {what}")]
    SelfCheck {
        /// The file.
        name: String,
        /// What differs from what was asked.
        what: String,
    },
    /// Other names share the file's bytes.
    #[error("{}: {links} names share this file's bytes (hard links); all of them would change", path.display())]
    HardLinked {
        /// The file.
        path: PathBuf,
        /// Number of names.
        links: u64,
    },
    /// Processes run with the file mapped.
    #[error("{}: in use: mapped by process {}", path.display(), list(pids))]
    Mapped {
        /// The file.
        path: PathBuf,
        /// Process ids.
        pids: Vec<u32>,
    },
    /// A symbolic link, a folder, a device.
    #[error("{}: {what}", path.display())]
    NotRegular {
        /// The path as given.
        path: PathBuf,
        /// What it is.
        what: String,
        /// The next step.
        hint: &'static str,
    },
    /// Another process holds the file's lock.
    #[error("{}: another patch of this file is running", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// A journal lies beside the file, and does not belong to what the file holds now.
    #[error("{}: an interrupted patch left this journal, and it cannot be applied: {why}", path.display())]
    Journal {
        /// The journal.
        path: PathBuf,
        /// Why not.
        why: &'static str,
    },
}

impl Error {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "E-ELF-001",
            Self::Read { .. } => "E-ELF-002",
            Self::NotElf { .. } => "E-ELF-003",
            Self::Truncated { .. } => "E-ELF-004",
            Self::Malformed { .. } => "E-ELF-005",
            Self::Machine { .. } => "E-ELF-006",
            Self::NotDynamic { .. } => "E-ELF-007",
            Self::Value { .. } => "E-ELF-008",
            Self::NoRoom { .. } => "E-ELF-009",
            Self::SelfCheck { .. } => "E-ELF-010",
            Self::HardLinked { .. } => "E-ELF-011",
            Self::Mapped { .. } => "E-ELF-012",
            Self::NotRegular { .. } => "E-ELF-013",
            Self::Busy { .. } => "E-ELF-014",
            Self::Journal { .. } => "E-ELF-015",
        }
    }

    /// The next step, where there is one.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Io { .. } | Self::Read { .. } | Self::Machine { .. } => return None,
            Self::NotElf { .. } => {
                "name a shared library or a program; linker scripts and archives have no search path"
            }
            Self::Truncated { .. } => "fetch or build the file again: its end is missing",
            Self::Malformed { .. } => {
                "the dynamic loader would refuse or misread this file; build it again, or look at it with `readelf -lWd`"
            }
            Self::NotDynamic { .. } => {
                "only shared libraries and dynamically linked programs have a search path"
            }
            Self::Value { .. } => "give directories separated by `:`, or remove the search path instead",
            Self::NoRoom { .. } => {
                "a value no longer than the present one is written in place; a longer one has to be set by the linker"
            }
            Self::SelfCheck { .. } => {
                "the file was left as it was; if `readelf -aW` has no complaint about it, please report this with the file"
            }
            Self::HardLinked { .. } => {
                "write a new file with `-o OUT`; OUT may be the same path, which then stops sharing"
            }
            Self::Mapped { .. } => {
                "end these processes, or write a new file with `-o OUT`; OUT may be the same path"
            }
            Self::NotRegular { hint, .. } => hint,
            Self::Busy { .. } => "wait for it to end, then run again",
            Self::Journal { .. } => "install the file again if it was damaged, then delete the journal",
        };
        Some(hint.to_owned())
    }
}

fn list(pids: &[u32]) -> String {
    pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}
