//! The journal of a patch in place: what every changed byte was, and what it becomes.
//!
//! Written and synced beside the file before the file is touched, removed after the file is synced. A later run
//! that finds it puts the old bytes back, unless all the new ones are there. Layout, little-endian: magic, old length (8), new length
//! (8), CRC-32 of what is appended (4), number of ranges (4); for each range offset (8), length (4), old bytes, new bytes; CRC-32 of all that (4).

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::error::Error;

const MAGIC: &[u8] = b"torchfl-elf journal 1\n";
/// Largest journal that is read. A search path is at most 1 MiB; headers are far smaller.
const MAX_LEN: u64 = 64 << 20;

/// What [`recover`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovered {
    /// No patch was interrupted.
    Nothing,
    /// The old bytes and the old length were put back.
    Undone,
    /// The patch was complete but for its journal, which is gone now.
    Completed,
}

/// One changed range inside the old file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) offset: u64,
    pub(crate) old: Vec<u8>,
    pub(crate) new: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Journal {
    pub(crate) old_len: u64,
    pub(crate) new_len: u64,
    /// CRC-32 of the bytes from the old end to the new one.
    pub(crate) tail: u32,
    pub(crate) ranges: Vec<Range>,
}

/// Undoes an interrupted patch of `path`, if its journal is there. [`crate::patch_in_place`] does this first.
pub fn recover(path: &Path) -> Result<Recovered, Error> {
    let journal = journal_path(path)?;
    if !journal.exists() {
        return Ok(Recovered::Nothing);
    }
    crate::apply::check_regular(path)?;
    let file = crate::apply::open_locked(path)?;
    recover_locked(path, &file)
}

/// As [`recover`], with the file open for writing and locked.
pub(crate) fn recover_locked(path: &Path, file: &File) -> Result<Recovered, Error> {
    let at = journal_path(path)?;
    let Some(bytes) = read(&at, file)? else { return Ok(Recovered::Nothing) };
    let stale = |why| Error::Journal { path: at.clone(), why };
    let journal = Journal::parse(&bytes).ok_or_else(|| stale("it is damaged"))?;
    let io = |action| move |source| Error::Io { path: path.to_owned(), action, source };
    let len = file.metadata().map_err(io("look at"))?.len();
    if len < journal.old_len || len > journal.new_len {
        return Err(stale("the file has another length than before or after the patch"));
    }
    let mut complete = len == journal.new_len;
    for range in &journal.ranges {
        let mut now = vec![0; range.old.len()];
        file.read_exact_at(&mut now, range.offset).map_err(io("read"))?;
        let known = now.iter().zip(range.old.iter().zip(&range.new));
        if !{ known }.all(|(now, (old, new))| now == old || now == new) {
            return Err(stale("the file holds bytes from neither before nor after the patch"));
        }
        complete &= now == range.new;
    }
    // Bytes beyond the old end may be missing after a power cut, though the length is there.
    if complete && tail_crc(file, journal.old_len, len).map_err(io("read"))? == journal.tail {
        file.sync_data().map_err(io("sync"))?;
        remove(path)?;
        return Ok(Recovered::Completed);
    }
    journal.undo(path, file)?;
    Ok(Recovered::Undone)
}

/// CRC-32 of a range of the file.
fn tail_crc(file: &File, mut from: u64, to: u64) -> io::Result<u32> {
    let mut crc = crc32fast::Hasher::new();
    let mut buf = vec![0; 0x1_0000];
    while from < to {
        let piece = &mut buf[..(to - from).min(0x1_0000) as usize];
        file.read_exact_at(piece, from)?;
        crc.update(piece);
        from += piece.len() as u64;
    }
    Ok(crc.finalize())
}

impl Journal {
    /// Puts the old bytes and the old length back, durably, and removes the journal.
    pub(crate) fn undo(&self, path: &Path, file: &File) -> Result<(), Error> {
        let io = |action| move |source| Error::Io { path: path.to_owned(), action, source };
        for range in &self.ranges {
            file.write_all_at(&range.old, range.offset).map_err(io("write"))?;
        }
        file.set_len(self.old_len).map_err(io("write"))?;
        file.sync_all().map_err(io("sync"))?;
        remove(path)
    }

    /// Writes the journal beside `path`, durably: whole or not at all.
    pub(crate) fn write(&self, path: &Path, step: &mut dyn FnMut() -> io::Result<()>) -> Result<(), Error> {
        let at = journal_path(path)?;
        let fresh = with_suffix(&at, ".new");
        let io = |action| {
            let at = at.clone();
            move |source| Error::Io { path: at, action, source }
        };
        let bytes = self.bytes();
        step().map_err(io("write"))?;
        discard_unfinished(path)?;
        let mut file =
            fs_err::OpenOptions::new().write(true).create_new(true).open(&fresh).map_err(io("create"))?;
        step().map_err(io("write"))?;
        file.write_all(&bytes).map_err(io("write"))?;
        file.sync_data().map_err(io("sync"))?;
        step().map_err(io("write"))?;
        fs_err::rename(&fresh, &at).map_err(io("rename"))?;
        sync_folder(path)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.old_len.to_le_bytes());
        bytes.extend(self.new_len.to_le_bytes());
        bytes.extend(self.tail.to_le_bytes());
        bytes.extend((self.ranges.len() as u32).to_le_bytes());
        for range in &self.ranges {
            bytes.extend(range.offset.to_le_bytes());
            bytes.extend((range.old.len() as u32).to_le_bytes());
            bytes.extend(&range.old);
            bytes.extend(&range.new);
        }
        let crc = crc32fast::hash(&bytes);
        bytes.extend(crc.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
            return None;
        }
        let mut rest = body.strip_prefix(MAGIC)?;
        let (old_len, new_len) = (take_u64(&mut rest)?, take_u64(&mut rest)?);
        let (tail, count) = (take_u32(&mut rest)?, take_u32(&mut rest)?);
        let mut ranges = Vec::new();
        for _ in 0..count {
            let offset = take_u64(&mut rest)?;
            let len = take_u32(&mut rest)? as usize;
            let old = take(&mut rest, len)?.to_vec();
            let new = take(&mut rest, len)?.to_vec();
            offset.checked_add(len as u64).filter(|end| *end <= old_len && old_len <= new_len)?;
            ranges.push(Range { offset, old, new });
        }
        rest.is_empty().then_some(Self { old_len, new_len, tail, ranges })
    }
}

fn take<'b>(rest: &mut &'b [u8], len: usize) -> Option<&'b [u8]> {
    let (head, behind) = rest.split_at_checked(len)?;
    *rest = behind;
    Some(head)
}

fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(take(rest, 8)?.try_into().ok()?))
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(take(rest, 4)?.try_into().ok()?))
}

/// `.NAME.torchfl-journal` beside the file.
pub(crate) fn journal_path(path: &Path) -> Result<PathBuf, Error> {
    let name = path.file_name().ok_or_else(|| Error::NotRegular {
        path: path.to_owned(),
        what: "not the name of a file".to_owned(),
        hint: "name a library or a program",
    })?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(".torchfl-journal");
    Ok(path.with_file_name(hidden))
}

/// Removes the journal of `path`. Not synced: one that comes back after a power cut is found complete.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    let at = journal_path(path)?;
    fs_err::remove_file(&at).map_err(|source| Error::Io { path: at.clone(), action: "remove", source })
}

/// Removes a journal that was never put in its place.
pub(crate) fn discard_unfinished(path: &Path) -> Result<(), Error> {
    let at = with_suffix(&journal_path(path)?, ".new");
    match fs_err::remove_file(&at) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(Error::Io { path: at, action: "remove", source: e })
        }
        _ => Ok(()),
    }
}

/// Makes the names in the folder of `path` durable.
pub(crate) fn sync_folder(path: &Path) -> Result<(), Error> {
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let synced = fs_err::File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|source| Error::Io { path: folder.to_owned(), action: "sync", source })
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut text = path.as_os_str().to_owned();
    text.push(suffix);
    text.into()
}

/// The journal's bytes. In a folder that others can write to, anybody can lay a file of this name: it counts only
/// if it is a plain file that belongs to the owner of `patched`, or to us.
fn read(path: &Path, patched: &File) -> Result<Option<Vec<u8>>, Error> {
    let io = |source| Error::Io { path: path.to_owned(), action: "read", source };
    let seen = match fs_err::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        seen => seen.map_err(io)?,
    };
    let foreign = || Error::Journal { path: path.to_owned(), why: "somebody else laid it there" };
    // Before it is opened: a FIFO would wait for a writer.
    if !seen.is_file() {
        return Err(foreign());
    }
    let file = fs_err::File::open(path).map_err(io)?;
    let (facts, target) = (file.metadata().map_err(io)?, patched.metadata().map_err(io)?);
    let ours = fs_err::metadata("/proc/self").is_ok_and(|own| own.uid() == facts.uid());
    if (seen.dev(), seen.ino()) != (facts.dev(), facts.ino()) || !(ours || facts.uid() == target.uid()) {
        return Err(foreign());
    }
    let mut bytes = Vec::new();
    file.take(MAX_LEN).read_to_end(&mut bytes).map_err(io)?;
    Ok(Some(bytes))
}
