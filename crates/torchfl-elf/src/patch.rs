//! An edit as data, and the view of a file with it applied.

use std::io;

use serde::Serialize;

use crate::read_at::ReadAt;

/// Which dynamic tag holds the search path. glibc ignores `DT_RPATH` where a `DT_RUNPATH` is present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tag {
    /// `DT_RPATH`: searched before `LD_LIBRARY_PATH`, and also for what the dependencies need.
    Rpath,
    /// `DT_RUNPATH`: searched after `LD_LIBRARY_PATH`, and for the file's own `DT_NEEDED` only.
    Runpath,
}

impl Tag {
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Rpath => goblin::elf::dynamic::DT_RPATH,
            Self::Runpath => goblin::elf::dynamic::DT_RUNPATH,
        }
    }

    pub(crate) fn of(number: u64) -> Option<Self> {
        [Self::Rpath, Self::Runpath].into_iter().find(|tag| tag.number() == number)
    }
}

impl std::fmt::Display for Tag {
    /// As the field writes them in options and manifests: `rpath`, `runpath`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Rpath => "rpath",
            Self::Runpath => "runpath",
        })
    }
}

/// A search path as stored: directories separated by `:`, `$ORIGIN` unexpanded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SearchPath {
    /// The tag that holds it.
    pub tag: Tag,
    /// The text; bytes that are not UTF-8 are replaced.
    pub value: String,
}

/// What the file's search path is to be afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Exactly one entry, with this tag and value; any other search path entry is removed.
    Set {
        /// The tag: always explicit, never kept or switched silently.
        tag: Tag,
        /// The value. Empty is allowed and differs from none: an empty `DT_RUNPATH` hides inherited paths.
        value: String,
    },
    /// No entry of either tag.
    Remove,
}

/// How an edit was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// The file already was as asked; no byte changes.
    Unchanged,
    /// Some bytes change, the length does not.
    InPlace,
    /// The trailing segment was added or extended.
    Appended,
}

/// A planned edit: a few writes over the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// How the edit is done.
    pub how: How,
    /// Length of the result in bytes; never less than the source's.
    pub len: u64,
    /// Sorted by offset, never overlapping. Bytes past the source's end that no write covers are zero.
    pub writes: Vec<Write>,
}

/// New bytes for one range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Where, in the result.
    pub offset: u64,
    /// What.
    pub data: Data,
}

/// The bytes of a [`Write`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// These.
    Bytes(Vec<u8>),
    /// A range of the source as it was before the edit. Written past what it is read from.
    Copy {
        /// Where in the source.
        from: u64,
        /// How many bytes.
        len: u64,
    },
}

impl Write {
    /// Number of bytes written.
    pub fn len(&self) -> u64 {
        match &self.data {
            Data::Bytes(bytes) => bytes.len() as u64,
            Data::Copy { len, .. } => *len,
        }
    }

    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where it ends, in the result.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.len()
    }
}

/// The source with a patch applied; nothing is copied.
#[derive(Debug, Clone)]
pub struct Patched<R> {
    source: R,
    patch: Patch,
}

impl<R: ReadAt> Patched<R> {
    /// Lays `patch`, planned for the same bytes, over `source`.
    pub fn new(source: R, patch: Patch) -> Self {
        Self { source, patch }
    }

    /// The patch.
    pub fn patch(&self) -> &Patch {
        &self.patch
    }
}

impl<R: ReadAt> ReadAt for Patched<R> {
    fn len(&self) -> u64 {
        self.patch.len
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64).filter(|end| *end <= self.patch.len);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        let old = (self.source.len().clamp(offset, end) - offset) as usize;
        if old > 0 {
            self.source.read_exact_at(offset, &mut buf[..old])?;
        }
        buf[old..].fill(0);
        let first = self.patch.writes.partition_point(|write| write.end() <= offset);
        for write in self.patch.writes[first..].iter().take_while(|write| write.offset < end) {
            let (from, to) = (write.offset.max(offset), write.end().min(end));
            let room = &mut buf[(from - offset) as usize..(to - offset) as usize];
            match &write.data {
                Data::Bytes(bytes) => {
                    room.copy_from_slice(
                        &bytes[(from - write.offset) as usize..(to - write.offset) as usize],
                    );
                }
                Data::Copy { from: source, .. } => {
                    self.source.read_exact_at(source + (from - write.offset), room)?;
                }
            }
        }
        Ok(())
    }
}
