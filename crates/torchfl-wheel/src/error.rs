//! Everything that can go wrong, with a stable code and a next step for each.

use std::io;
use std::path::{Path, PathBuf};

use crate::BoxError;

/// What went wrong, where. [`Error::code`] is stable; [`Error::hint`] says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused to open, read, write or rename.
    #[error("cannot {action} {}", file.display())]
    Io {
        /// The file in question.
        file: PathBuf,
        /// What was tried: `read`, `write`, ….
        action: &'static str,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// Not a wheel's file name, or parts that cannot make one.
    #[error("wheel name `{name}`: {part}: {reason}")]
    Name {
        /// The whole name.
        name: String,
        /// The part at fault: `distribution`, `version`, `build`, `python`, `abi`, `platform` or `name`.
        part: &'static str,
        /// Why.
        reason: String,
    },
    /// METADATA or WHEEL cannot be read or written.
    #[error("{file}: line {line}: {reason}")]
    Headers {
        /// The file, as the caller named it.
        file: String,
        /// Line, from 1; 0 where there is none.
        line: usize,
        /// Why.
        reason: String,
    },
    /// A header's value is not what the specification asks for.
    #[error("{file}: {header}: `{value}`: {reason}")]
    Value {
        /// The file.
        file: String,
        /// The header.
        header: &'static str,
        /// Its value.
        value: String,
        /// Why.
        reason: String,
    },
    /// RECORD cannot be read.
    #[error("{file}: row {row}: {reason}")]
    Record {
        /// The file.
        file: String,
        /// Row, from 1.
        row: u64,
        /// Why.
        reason: String,
    },
    /// A path that no wheel may hold.
    #[error("`{}`: {reason}", member.escape_debug())]
    Path {
        /// The path.
        member: String,
        /// Why.
        reason: &'static str,
    },
    /// Two paths that would meet after unpacking.
    #[error("`{member}` collides with `{other}`")]
    Collision {
        /// The later path.
        member: String,
        /// The earlier path, or a folder of one.
        other: String,
    },
    /// Entries did not come in the archive's order.
    #[error("`{member}` was added after `{previous}`, which belongs behind it")]
    Order {
        /// The entry.
        member: String,
        /// The entry before it.
        previous: String,
    },
    /// The entry's source could not be opened.
    #[error("cannot open the source of `{member}`")]
    Source {
        /// The entry.
        member: String,
        /// The opener's error.
        #[source]
        source: BoxError,
    },
    /// The entry's source could not be read.
    #[error("cannot read the source of `{member}` at byte {offset}")]
    SourceRead {
        /// The entry.
        member: String,
        /// Where.
        offset: u64,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A compressing thread failed.
    #[error("compressing `{member}` failed: {reason}")]
    Worker {
        /// The entry, or the work, that failed.
        member: String,
        /// What the thread reported.
        reason: String,
    },
    /// The destination is there already.
    #[error("{} exists", file.display())]
    Exists {
        /// The destination.
        file: PathBuf,
    },
    /// A wheel cannot be finished: something is missing, or an entry failed before.
    #[error("the wheel is not complete: {missing}")]
    Incomplete {
        /// What is missing.
        missing: String,
    },
    /// The file is no zip archive, or a damaged one.
    #[error("{}: {reason}", file.display())]
    Structure {
        /// The archive.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// A member is damaged, or differs from what the archive's directory says.
    #[error("{}: `{}`: {reason}", file.display(), member.escape_debug())]
    Member {
        /// The archive.
        file: PathBuf,
        /// The member.
        member: String,
        /// Why.
        reason: String,
    },
    /// A member is sound for a lenient reader, but not as the strict one wants it.
    #[error("{}: `{}`: {what}", file.display(), member.escape_debug())]
    Irregular {
        /// The archive.
        file: PathBuf,
        /// The member.
        member: String,
        /// What is irregular.
        what: &'static str,
    },
    /// The archive uses something that no wheel needs.
    #[error("{}: `{}`: {what} is not supported", file.display(), member.escape_debug())]
    Unsupported {
        /// The archive.
        file: PathBuf,
        /// The member.
        member: String,
        /// What.
        what: String,
    },
    /// The bytes of a member do not have the recorded CRC-32.
    #[error("{}: `{member}`: the CRC-32 is {computed:08x}, the archive says {recorded:08x}", file.display())]
    Crc {
        /// The archive.
        file: PathBuf,
        /// The member.
        member: String,
        /// In the archive's directory.
        recorded: u32,
        /// Of the bytes.
        computed: u32,
    },
    /// There is no such member.
    #[error("{}: there is no `{member}`", file.display())]
    Missing {
        /// The archive.
        file: PathBuf,
        /// The member.
        member: String,
    },
    /// A member is larger than the caller allows.
    #[error("{}: `{member}` has {size} bytes, more than the {limit} allowed", file.display())]
    TooLarge {
        /// The archive.
        file: PathBuf,
        /// The member.
        member: String,
        /// Its declared size.
        size: u64,
        /// The caller's limit.
        limit: u64,
    },
    /// RECORD and the archive disagree about a file's hash or size.
    #[error("{}: `{member}`: the {what} is {computed}, RECORD says {recorded}", file.display())]
    RecordMismatch {
        /// The archive.
        file: PathBuf,
        /// The member.
        member: String,
        /// `sha256` or `size`.
        what: &'static str,
        /// In RECORD.
        recorded: String,
        /// Of the bytes.
        computed: String,
    },
    /// A member that RECORD does not list.
    #[error("{}: `{member}` is not in RECORD", file.display())]
    Unlisted {
        /// The archive.
        file: PathBuf,
        /// The member.
        member: String,
    },
    /// A RECORD row without a member.
    #[error("{}: RECORD lists `{member}`, which the archive does not hold", file.display())]
    Absent {
        /// The archive.
        file: PathBuf,
        /// The path in RECORD.
        member: String,
    },
    /// The file name, the `.dist-info` folder, METADATA and WHEEL do not name the same thing.
    #[error("{}: {what}: `{found}`, expected `{expected}`", file.display())]
    Disagree {
        /// The archive.
        file: PathBuf,
        /// What disagrees.
        what: &'static str,
        /// What stands there.
        found: String,
        /// What follows from the file name.
        expected: String,
    },
}

impl Error {
    /// The stable code of this kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "E-WHL-001",
            Self::Name { .. } => "E-WHL-002",
            Self::Headers { .. } => "E-WHL-003",
            Self::Value { .. } => "E-WHL-004",
            Self::Record { .. } => "E-WHL-005",
            Self::Path { .. } => "E-WHL-010",
            Self::Collision { .. } => "E-WHL-011",
            Self::Order { .. } => "E-WHL-012",
            Self::Source { .. } => "E-WHL-013",
            Self::SourceRead { .. } => "E-WHL-014",
            Self::Worker { .. } => "E-WHL-015",
            Self::Exists { .. } => "E-WHL-016",
            Self::Incomplete { .. } => "E-WHL-017",
            Self::Structure { .. } => "E-WHL-020",
            Self::Member { .. } => "E-WHL-021",
            Self::Irregular { .. } => "E-WHL-026",
            Self::Unsupported { .. } => "E-WHL-022",
            Self::Crc { .. } => "E-WHL-023",
            Self::Missing { .. } => "E-WHL-024",
            Self::TooLarge { .. } => "E-WHL-025",
            Self::RecordMismatch { .. } => "E-WHL-030",
            Self::Unlisted { .. } => "E-WHL-031",
            Self::Absent { .. } => "E-WHL-032",
            Self::Disagree { .. } => "E-WHL-033",
        }
    }

    /// The next step, where there is one.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Io { source, .. } | Self::SourceRead { source, .. } => return io_hint(source),
            Self::Name { .. } => {
                "a wheel is named DISTRIBUTION-VERSION[-BUILD]-PYTHON-ABI-PLATFORM.whl, such as \
                 torch_fl-2.13.0+cuda13.0-cp311-cp311-manylinux_2_28_x86_64.whl"
            }
            Self::Headers { .. } => {
                "each header is `Name: value`; a continued line starts with a blank; an empty line ends them"
            }
            Self::Value { .. } => "see the core metadata specification for the form of this field",
            Self::Record { .. } => "each row of RECORD is PATH,sha256=HASH,SIZE in CSV quoting",
            Self::Path { .. } => "use a relative path with `/` between parts and no `..`",
            Self::Collision { .. } => {
                "rename one of them: on a file system that ignores case they would be one file"
            }
            Self::Order { .. } => "pass all entries to `add_all`, which sorts them",
            Self::Source { .. } => return None,
            Self::Worker { .. } => "please report this; one thread, or another compression, may get round it",
            Self::Exists { .. } => "remove it or choose another destination",
            Self::Incomplete { .. } => {
                "add METADATA and WHEEL to the `.dist-info` folder, and finish only after every entry was added"
            }
            Self::Structure { .. } | Self::Member { .. } | Self::Crc { .. } => {
                "the file is damaged or was not completely copied; fetch it again and compare its sha256"
            }
            Self::Irregular { .. } => "some installers refuse this; write the wheel again with another tool",
            Self::Unsupported { .. } => {
                "repack it with `wheel unpack` and `wheel pack`, which store and deflate only"
            }
            Self::Missing { .. } => "list the members with `unzip -l` and compare the spelling",
            Self::TooLarge { .. } => {
                "this is far more than such a file needs; check where the archive comes from"
            }
            Self::RecordMismatch { .. } | Self::Unlisted { .. } | Self::Absent { .. } => {
                "the archive was changed after RECORD was written; build or fetch it again"
            }
            Self::Disagree { .. } => {
                "the file was renamed or edited by hand; build it again under the name that it should have"
            }
        };
        Some(hint.to_owned())
    }

    /// The same error, about another file of the same kind.
    pub(crate) fn in_file(mut self, name: &str) -> Self {
        if let Self::Value { file, .. } | Self::Headers { file, .. } | Self::Record { file, .. } = &mut self {
            name.clone_into(file);
        }
        self
    }

    pub(crate) fn io(action: &'static str, file: &Path) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_owned();
        move |source| Self::Io { file, action, source }
    }
}

fn io_hint(error: &io::Error) -> Option<String> {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room on that file system, or choose another folder"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "choose a folder that you may write to"
        }
        io::ErrorKind::NotFound => "check the spelling of the path",
        io::ErrorKind::UnexpectedEof => {
            "the file became shorter while it was read; let whatever writes it finish first"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}
