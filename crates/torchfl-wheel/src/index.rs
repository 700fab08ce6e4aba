//! Reading a zip's directory (APPNOTE.TXT 6.3.10, sections 4.3.12 to 4.3.16).
//!
//! Written apart from the code that writes these structures, so that one checks the other.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::format::{CENTRAL, DEFLATED, END, END64, LOCAL, LOCATOR64, STORED, UTF8, ZIP64_EXTRA};
use crate::{Error, Source, path};

const END_LEN: u64 = 22;
const LOCATOR_LEN: u64 = 20;
const LOCAL_LEN: u64 = 30;
/// The largest wheels known need 2 MB. The shortest record, 47 bytes, takes 290 in memory: 100 MB for a directory
/// of this size, and 200 MB while [`crate::verify()`] compares it with a RECORD as long.
const LARGEST_DIRECTORY: u64 = 16 << 20;
/// Deflate makes at most 1032 bytes of one (a match of 258 in two bits).
const RATIO: u64 = 1032;
/// The oddity of [`Extra::others`].
pub(crate) const OTHER_FIELDS: &str = "it has extra fields other than zip64's";
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
const PATCH: u16 = 1 << 5;
const DESCRIPTOR: u16 = 1 << 3;
const TYPE_MASK: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;

/// One member of an archive, as its directory describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Member {
    /// Path; ends in `/` for a directory entry.
    pub name: String,
    /// Uncompressed, in bytes.
    pub size: u64,
    /// In the archive, in bytes.
    pub compressed_size: u64,
    /// Of the uncompressed bytes.
    pub crc32: u32,
    /// Unix mode with the type bits, where a Unix tool made the archive.
    pub mode: Option<u32>,
    #[serde(skip)]
    pub(crate) raw: Raw,
}

/// What only the reading of the archive needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Raw {
    pub(crate) needed: u16,
    pub(crate) flags: u16,
    pub(crate) method: u16,
    /// MS-DOS date and time.
    pub(crate) time: u32,
    /// Of the local header.
    pub(crate) offset: u64,
    /// Where the next header, or the directory, starts: this member's data ends there or before.
    pub(crate) bound: u64,
    /// Something that readers put up with and [`crate::verify()`] does not.
    pub(crate) oddity: Option<&'static str>,
}

impl Member {
    /// Whether this is a directory entry, which holds no bytes.
    pub fn is_dir(&self) -> bool {
        self.name.ends_with('/')
    }

    pub(crate) fn is_link(&self) -> bool {
        self.mode.is_some_and(|mode| mode & TYPE_MASK == SYMLINK)
    }

    /// No type bits at all is what Python's `writestr` leaves, and means a file.
    pub(crate) fn is_regular(&self) -> bool {
        self.mode.is_none_or(|mode| matches!(mode & TYPE_MASK, 0 | REGULAR))
    }

    pub(crate) fn has_descriptor(&self) -> bool {
        self.raw.flags & DESCRIPTOR != 0
    }

    pub(crate) fn is_deflated(&self) -> bool {
        self.raw.method == DEFLATED
    }
}

/// The directory of an archive.
#[derive(Debug)]
pub(crate) struct Index {
    /// In the directory's order.
    pub(crate) members: Vec<Member>,
    /// Name to position in `members`.
    pub(crate) names: HashMap<String, usize>,
    /// Where the directory starts.
    pub(crate) start: u64,
    /// Whether the archive carries a comment.
    pub(crate) comment: bool,
}

/// Little-endian fields in order; `None` at the end of the bytes.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

/// Where the directory lies.
struct Place {
    count: u64,
    size: u64,
    offset: u64,
    /// Of whatever follows the directory.
    end: u64,
    comment: bool,
}

/// Reads and checks the directory of `source`; `file` is how errors call it.
pub(crate) fn read(source: &dyn Source, file: &Path) -> Result<Index, Error> {
    let fail = |reason: &str| Error::Structure { file: file.to_owned(), reason: reason.to_owned() };
    let place = find(source, file)?;
    if place.offset.checked_add(place.size) != Some(place.end) {
        return Err(fail("the directory does not end where the end record starts"));
    }
    if place.size > LARGEST_DIRECTORY {
        return Err(fail("the directory is larger than 16 MiB"));
    }
    let mut bytes = vec![0; place.size as usize];
    source.read_exact_at(place.offset, &mut bytes).map_err(Error::io("read", file))?;
    let mut fields = Fields(&bytes);
    let mut members = Vec::new();
    let mut names = HashMap::new();
    while !fields.0.is_empty() {
        let member = record(&mut fields, file)?;
        if names.insert(member.name.clone(), members.len()).is_some() {
            return Err(member_error(file, &member.name, "is in the directory twice"));
        }
        members.push(member);
    }
    if members.len() as u64 != place.count {
        return Err(fail(&format!(
            "the directory has {} records, its end says {}",
            members.len(),
            place.count
        )));
    }
    bound(&mut members, place.offset, file)?;
    Ok(Index { members, names, start: place.offset, comment: place.comment })
}

fn find(source: &dyn Source, file: &Path) -> Result<Place, Error> {
    let fail = |reason: &str| Error::Structure { file: file.to_owned(), reason: reason.to_owned() };
    let len = source.len();
    let tail_len = len.min(END_LEN + u64::from(u16::MAX));
    let mut tail = vec![0; tail_len as usize];
    source.read_exact_at(len - tail_len, &mut tail).map_err(Error::io("read", file))?;
    let is_end = |at: &usize| {
        let mut fields = Fields(&tail[*at..]);
        fields.u32() == Some(END)
            && fields.bytes(16).is_some()
            && fields.u16().is_some_and(|comment| usize::from(comment) == fields.0.len())
    };
    let last =
        tail.len().checked_sub(END_LEN as usize).ok_or_else(|| fail("is too short for a zip archive"))?;
    let at = (0..=last)
        .rev()
        .find(is_end)
        .ok_or_else(|| fail("has no end record: not a zip archive, or cut short"))?;
    let truncated = || fail("the end record is cut short");
    let mut fields = Fields(&tail[at + 4..]);
    let disks = fields.u32().ok_or_else(truncated)?;
    let here = fields.u16().ok_or_else(truncated)?;
    let count = fields.u16().ok_or_else(truncated)?;
    let size = fields.u32().ok_or_else(truncated)?;
    let offset = fields.u32().ok_or_else(truncated)?;
    if (disks != 0 && disks != u32::MAX) || here != count {
        return Err(fail("is one part of several"));
    }
    let end = len - tail_len + at as u64;
    let short = Place {
        count: count.into(),
        size: size.into(),
        offset: offset.into(),
        end,
        comment: end + END_LEN != len,
    };
    match find64(source, end, file)? {
        None => Ok(short),
        Some(long) => {
            let agree = |short: u64, long: u64, none: u64| short == none || short == long;
            if agree(short.count, long.count, u16::MAX.into())
                && agree(short.size, long.size, u32::MAX.into())
                && agree(short.offset, long.offset, u32::MAX.into())
            {
                Ok(Place { comment: short.comment, ..long })
            } else {
                Err(fail("the two end records disagree"))
            }
        }
    }
}

/// The zip64 end record, if its locator stands before the end record at `end`.
fn find64(source: &dyn Source, end: u64, file: &Path) -> Result<Option<Place>, Error> {
    let fail = |reason: &str| Error::Structure { file: file.to_owned(), reason: reason.to_owned() };
    let Some(locator_at) = end.checked_sub(LOCATOR_LEN) else { return Ok(None) };
    let mut locator = [0; LOCATOR_LEN as usize];
    source.read_exact_at(locator_at, &mut locator).map_err(Error::io("read", file))?;
    let mut fields = Fields(&locator);
    if fields.u32() != Some(LOCATOR64) {
        return Ok(None);
    }
    let broken = || fail("the zip64 end record is damaged");
    let disk = fields.u32().ok_or_else(broken)?;
    let at = fields.u64().ok_or_else(broken)?;
    let disks = fields.u32().ok_or_else(broken)?;
    if disk != 0 || disks > 1 {
        return Err(fail("is one part of several"));
    }
    let mut record = [0; 56];
    if at.checked_add(record.len() as u64).is_none_or(|record_end| record_end > locator_at) {
        return Err(broken());
    }
    source.read_exact_at(at, &mut record).map_err(Error::io("read", file))?;
    let mut fields = Fields(&record);
    let signature = fields.u32();
    let length = fields.u64().ok_or_else(broken)?;
    if signature != Some(END64) || length.checked_add(12 + at) != Some(locator_at) {
        return Err(broken());
    }
    fields.u32(); // versions
    let disks = fields.u64().ok_or_else(broken)?;
    let here = fields.u64().ok_or_else(broken)?;
    let count = fields.u64().ok_or_else(broken)?;
    let size = fields.u64().ok_or_else(broken)?;
    let offset = fields.u64().ok_or_else(broken)?;
    if disks != 0 || here != count {
        return Err(fail("is one part of several"));
    }
    Ok(Some(Place { count, size, offset, end: at, comment: false }))
}

/// Reads one record of the directory.
fn record(fields: &mut Fields, file: &Path) -> Result<Member, Error> {
    let cut =
        || Error::Structure { file: file.to_owned(), reason: "a directory record is damaged".to_owned() };
    if fields.u32() != Some(CENTRAL) {
        return Err(cut());
    }
    let made_by = fields.u16().ok_or_else(cut)?;
    let needed = fields.u16().ok_or_else(cut)?;
    let flags = fields.u16().ok_or_else(cut)?;
    let method = fields.u16().ok_or_else(cut)?;
    let time = fields.u32().ok_or_else(cut)?;
    let crc32 = fields.u32().ok_or_else(cut)?;
    let short_compressed = fields.u32().ok_or_else(cut)?;
    let short_size = fields.u32().ok_or_else(cut)?;
    let name_len = fields.u16().ok_or_else(cut)?;
    let extra_len = fields.u16().ok_or_else(cut)?;
    let comment_len = fields.u16().ok_or_else(cut)?;
    let disk = fields.u16().ok_or_else(cut)?;
    fields.u16(); // internal attributes
    let attributes = fields.u32().ok_or_else(cut)?;
    let short_offset = fields.u32().ok_or_else(cut)?;
    let name = name(fields.bytes(name_len.into()).ok_or_else(cut)?, flags, file)?;
    let extra = fields.bytes(extra_len.into()).ok_or_else(cut)?;
    fields.bytes(comment_len.into()).ok_or_else(cut)?;

    let damaged = |reason: &str| member_error(file, &name, reason);
    let extra = extra_fields(extra).map_err(damaged)?;
    let mut large = Fields(extra.zip64.unwrap_or_default());
    let mut field = |short: u32| match short {
        u32::MAX if !large.0.is_empty() => large.u64().ok_or_else(|| damaged("its zip64 field is too short")),
        short => Ok(u64::from(short)),
    };
    let size = field(short_size)?;
    let compressed_size = field(short_compressed)?;
    let offset = field(short_offset)?;
    let oddity = if !large.0.is_empty() {
        Some("its zip64 field holds more than it should")
    } else if extra.others {
        Some(OTHER_FIELDS)
    } else if comment_len != 0 {
        Some("it has a comment")
    } else {
        None
    };
    let unsupported =
        |what: String| Err(Error::Unsupported { file: file.to_owned(), member: name.clone(), what });
    if flags & ENCRYPTED != 0 {
        return unsupported("encryption".to_owned());
    }
    if flags & PATCH != 0 || !matches!(method, STORED | DEFLATED) {
        return unsupported(format!("compression method {method}"));
    }
    if disk != 0 {
        return unsupported("an archive in several parts".to_owned());
    }
    if method == STORED && size != compressed_size {
        return Err(damaged("it is stored, but its two sizes differ"));
    }
    if size > compressed_size.saturating_mul(RATIO) {
        return Err(damaged("its size is more than its compressed bytes can make"));
    }
    let mode = (made_by >> 8 == 3).then_some(attributes >> 16);
    let raw = Raw { needed, flags, method, time, offset, bound: 0, oddity };
    Ok(Member { name, size, compressed_size, crc32, mode, raw })
}

/// What a header's extra fields hold.
#[derive(Default)]
pub(crate) struct Extra<'a> {
    /// The value of the zip64 field, if there is one.
    pub(crate) zip64: Option<&'a [u8]>,
    /// There are other fields: some readers take a name (0x7075) or a time from them.
    pub(crate) others: bool,
}

pub(crate) fn extra_fields(extra: &[u8]) -> Result<Extra<'_>, &'static str> {
    let mut fields = Fields(extra);
    let mut found = Extra::default();
    while !fields.0.is_empty() {
        let kind = fields.u16();
        let value = fields.u16().and_then(|len| fields.bytes(len.into()));
        let value = value.ok_or("its extra fields are damaged")?;
        if kind != Some(ZIP64_EXTRA) {
            found.others = true;
        } else if found.zip64.replace(value).is_some() {
            return Err("it has two zip64 fields");
        }
    }
    Ok(found)
}

fn name(bytes: &[u8], flags: u16, file: &Path) -> Result<String, Error> {
    let shown = || String::from_utf8_lossy(bytes).into_owned();
    let text = match str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() || flags & UTF8 != 0 => text,
        _ => {
            let what = "a name in another encoding than UTF-8".to_owned();
            return Err(Error::Unsupported { file: file.to_owned(), member: shown(), what });
        }
    };
    match path::fault(text.strip_suffix('/').unwrap_or(text)) {
        None => Ok(text.to_owned()),
        Some(reason) => Err(member_error(file, text, reason)),
    }
}

/// Fills in [`Raw::bound`]; refuses members that share bytes.
fn bound(members: &mut [Member], start: u64, file: &Path) -> Result<(), Error> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|index| members[*index].raw.offset);
    let mut next = start;
    for index in order.into_iter().rev() {
        let member = &mut members[index];
        let shortest = LOCAL_LEN + member.name.len() as u64;
        let end =
            member.raw.offset.checked_add(shortest).and_then(|data| data.checked_add(member.compressed_size));
        if end.is_none_or(|end| end > next) {
            return Err(member_error(file, &member.name, "it overlaps another member or the directory"));
        }
        member.raw.bound = next;
        next = member.raw.offset;
    }
    Ok(())
}

/// A local header, as far as its fields are fixed.
pub(crate) struct Local {
    pub(crate) needed: u16,
    pub(crate) flags: u16,
    pub(crate) method: u16,
    pub(crate) time: u32,
    pub(crate) crc32: u32,
    pub(crate) compressed: u32,
    pub(crate) size: u32,
    pub(crate) extra: Vec<u8>,
    /// Where the data starts.
    pub(crate) data: u64,
}

/// Reads the local header of `member` and finds its data, which lies before [`Raw::bound`].
pub(crate) fn local(source: &dyn Source, member: &Member, file: &Path) -> Result<Local, Error> {
    let fail = |reason: &str| member_error(file, &member.name, reason);
    let damaged = || fail("its local header is damaged");
    let mut head = [0; LOCAL_LEN as usize];
    source.read_exact_at(member.raw.offset, &mut head).map_err(Error::io("read", file))?;
    let mut fields = Fields(&head);
    if fields.u32() != Some(LOCAL) {
        return Err(damaged());
    }
    let needed = fields.u16().ok_or_else(damaged)?;
    let flags = fields.u16().ok_or_else(damaged)?;
    let method = fields.u16().ok_or_else(damaged)?;
    let time = fields.u32().ok_or_else(damaged)?;
    let crc32 = fields.u32().ok_or_else(damaged)?;
    let compressed = fields.u32().ok_or_else(damaged)?;
    let size = fields.u32().ok_or_else(damaged)?;
    let name_len = usize::from(fields.u16().ok_or_else(damaged)?);
    let extra_len = usize::from(fields.u16().ok_or_else(damaged)?);
    let mut rest = vec![0; name_len + extra_len];
    let rest_at = member.raw.offset + LOCAL_LEN;
    let data = rest_at + rest.len() as u64;
    if data.checked_add(member.compressed_size).is_none_or(|end| end > member.raw.bound) {
        return Err(fail("its data reaches into the next member or the directory"));
    }
    source.read_exact_at(rest_at, &mut rest).map_err(Error::io("read", file))?;
    let extra = rest.split_off(name_len);
    if rest != member.name.as_bytes() {
        return Err(fail("its local header has another name"));
    }
    if method != member.raw.method || (flags ^ member.raw.flags) & (ENCRYPTED | PATCH | DESCRIPTOR) != 0 {
        return Err(fail("its local header names another method or other flags"));
    }
    Ok(Local { needed, flags, method, time, crc32, compressed, size, extra, data })
}

pub(crate) fn member_error(file: &Path, member: &str, reason: &str) -> Error {
    Error::Member { file: PathBuf::from(file), member: member.to_owned(), reason: reason.to_owned() }
}
