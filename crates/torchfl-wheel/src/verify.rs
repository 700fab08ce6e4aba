//! The strict second reader: what every wheel must pass before it appears.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;

use crate::archive::{Archive, MemberReader, OUTPUT};
use crate::digest::Hasher;
use crate::index::{Fields, Member, OTHER_FIELDS, extra_fields, local, member_error};
use crate::name::normalize_name;
use crate::path::PathSet;
use crate::record::{RecordHash, RecordRow};
use crate::{Error, Sha256, Source, WheelName};

/// What a wheel that passed holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Parts of the file name.
    pub name: WheelName,
    /// Number of files.
    pub members: usize,
    /// Bytes after unpacking.
    pub unpacked: u64,
    /// Size of the wheel's file.
    pub bytes: u64,
    /// Of the wheel's file.
    pub sha256: Sha256,
}

/// Checks the wheel at `path` completely, on all processors:
///
/// * the archive has no gaps, no trailing bytes, no comments, no data descriptors, no directory entries, no
///   links, no extra fields but zip64's; local headers agree with the directory; paths are safe and do not collide;
/// * every member's CRC-32 is right; RECORD lists every member with its SHA-256 and size, and nothing else;
/// * the file name agrees with the `.dist-info` folder, METADATA and WHEEL.
pub fn verify(path: &Path) -> Result<Summary, Error> {
    let file_name = path.file_name().unwrap_or(path.as_os_str());
    let name = file_name.to_string_lossy().parse()?;
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    check(&Archive::open(path)?, &name, threads)
}

/// [`verify()`] of the wheel `name` in any source; `file` is how errors call it.
pub fn verify_source(source: Box<dyn Source>, file: &Path, name: &WheelName) -> Result<Summary, Error> {
    check(&Archive::from_source(source, file)?, name, 1)
}

pub(crate) fn check(archive: &Archive, name: &WheelName, threads: usize) -> Result<Summary, Error> {
    let starts = structure(archive)?;
    let digests = Digests::compute(archive, &starts, threads)?;
    record(archive, name, &digests.members)?;
    names(archive, name)?;
    Ok(Summary {
        name: name.clone(),
        members: archive.members().len(),
        unpacked: archive.members().iter().map(|member| member.size).sum(),
        bytes: archive.source().len(),
        sha256: digests.whole,
    })
}

/// Checks everything about the archive but the members' bytes. Gives where each member's data starts.
fn structure(archive: &Archive) -> Result<Vec<u64>, Error> {
    let (file, index) = (archive.path(), archive.index());
    let broken = |reason: &str| Error::Structure { file: file.to_owned(), reason: reason.to_owned() };
    if index.comment {
        return Err(broken("has a comment, or bytes behind the archive"));
    }
    let mut paths = PathSet::default();
    let mut starts = Vec::new();
    for member in archive.members() {
        let fail = |what| Error::Irregular { file: file.to_owned(), member: member.name.clone(), what };
        if let Some(oddity) = member.raw.oddity {
            return Err(fail(oddity));
        }
        if member.is_dir() {
            return Err(fail("it is a directory entry"));
        }
        if !member.is_regular() {
            return Err(fail("it is not a regular file"));
        }
        if member.has_descriptor() {
            return Err(fail("it has a data descriptor"));
        }
        paths.insert(&member.name)?;
        starts.push(header(archive, member)?);
    }
    gaps(archive, &starts)?;
    Ok(starts)
}

/// Compares the local header with the directory. Gives where the data starts.
fn header(archive: &Archive, member: &Member) -> Result<u64, Error> {
    let fail = |reason: &str| member_error(archive.path(), &member.name, reason);
    let local = local(archive.source(), member, archive.path())?;
    let extra = extra_fields(&local.extra).map_err(fail)?;
    if extra.others {
        let (file, member) = (archive.path().to_owned(), member.name.clone());
        return Err(Error::Irregular { file, member, what: OTHER_FIELDS });
    }
    let (size, compressed) = match extra.zip64 {
        None => (u64::from(local.size), u64::from(local.compressed)),
        Some(values) => {
            // Both sizes and nothing else: a copy of the directory's field has others (4.5.3).
            let mut fields = Fields(values);
            let (size, compressed) = (fields.u64(), fields.u64());
            if !fields.0.is_empty() || (local.size, local.compressed) != (u32::MAX, u32::MAX) {
                return Err(fail("its local zip64 field is not the two sizes"));
            }
            (size.unwrap_or_default(), compressed.unwrap_or_default())
        }
    };
    let raw = &member.raw;
    for (what, agrees) in [
        ("flags", local.flags == raw.flags),
        ("method", local.method == raw.method),
        ("time", local.time == raw.time),
        ("CRC-32", local.crc32 == member.crc32),
        ("size", size == member.size),
        ("compressed size", compressed == member.compressed_size),
        ("needed version", local.needed == raw.needed),
    ] {
        if !agrees {
            return Err(fail(&format!("its local header and the directory disagree about the {what}")));
        }
    }
    Ok(local.data)
}

/// Whether the members fill the file from its start to the directory.
fn gaps(archive: &Archive, starts: &[u64]) -> Result<(), Error> {
    let members = archive.members();
    let fail = |at: u64| Error::Structure {
        file: archive.path().to_owned(),
        reason: format!("bytes at {at} belong to no member"),
    };
    if members.iter().map(|member| member.raw.offset).min().unwrap_or(archive.index().start) != 0 {
        return Err(fail(0));
    }
    for (member, start) in members.iter().zip(starts) {
        let end = start + member.compressed_size;
        if end != member.raw.bound {
            return Err(fail(end));
        }
    }
    Ok(())
}

/// SHA-256 of every member, whose CRC-32 is right, and of the whole file.
struct Digests {
    members: Vec<Sha256>,
    whole: Sha256,
}

impl Digests {
    /// Shares the members out among threads, the longest first.
    fn compute(archive: &Archive, starts: &[u64], threads: usize) -> Result<Self, Error> {
        let members = archive.members();
        // The whole file is one more piece of work, behind the last member.
        let whole = members.len();
        let cost = |job: &usize| members.get(*job).map_or(archive.source().len(), |member| member.size);
        let mut order: Vec<usize> = (0..=whole).collect();
        order.sort_by_key(|job| (std::cmp::Reverse(cost(job)), *job));
        let next = AtomicUsize::new(0);
        let results = Mutex::new(vec![None; whole + 1]);
        let first_error: Mutex<Option<(usize, Error)>> = Mutex::new(None);
        let work = || {
            let mut buffer = vec![0; OUTPUT];
            while let Some(job) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                let result = match members.get(*job) {
                    Some(member) => member_digest(archive, member, starts[*job], &mut buffer),
                    None => whole_digest(archive, &mut buffer),
                };
                match result {
                    Ok(digest) => lock(&results)[*job] = Some(digest),
                    Err(error) => {
                        // The first in the archive's order, whichever thread is faster.
                        let mut slot = lock(&first_error);
                        if slot.as_ref().is_none_or(|(other, _)| job < other) {
                            *slot = Some((*job, error));
                        }
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            let handles: Vec<_> = (1..threads.min(members.len()))
                .map_while(|_| {
                    std::thread::Builder::new().name("verify".to_owned()).spawn_scoped(scope, work).ok()
                })
                .collect();
            work();
            for handle in handles {
                // A result that a thread owes is missed below.
                let _ = handle.join();
            }
        });
        if let Some((_, error)) = lock(&first_error).take() {
            return Err(error);
        }
        let mut digests = lock(&results).drain(..).collect::<Option<Vec<_>>>().unwrap_or_default();
        let whole = digests.pop().ok_or_else(|| Error::Worker {
            member: archive.path().display().to_string(),
            reason: "a checking thread ended early".to_owned(),
        })?;
        Ok(Self { members: digests, whole })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn member_digest(archive: &Archive, member: &Member, start: u64, buffer: &mut [u8]) -> Result<Sha256, Error> {
    let mut reader = MemberReader::new(archive.source(), archive.path(), member, start);
    let mut sha256 = Hasher::default();
    loop {
        match reader.fill(buffer)? {
            0 => return Ok(sha256.finish()),
            len => sha256.update(&buffer[..len]),
        }
    }
}

fn whole_digest(archive: &Archive, buffer: &mut [u8]) -> Result<Sha256, Error> {
    let mut sha256 = Hasher::default();
    let (len, mut at) = (archive.source().len(), 0);
    while at < len {
        let piece = (len - at).min(buffer.len() as u64) as usize;
        archive
            .source()
            .read_exact_at(at, &mut buffer[..piece])
            .map_err(Error::io("read", archive.path()))?;
        sha256.update(&buffer[..piece]);
        at += piece as u64;
    }
    Ok(sha256.finish())
}

/// Compares RECORD with the members, in both directions.
fn record(archive: &Archive, name: &WheelName, digests: &[Sha256]) -> Result<(), Error> {
    let found = archive.dist_info()?;
    if found != name.dist_info() {
        return Err(disagree(archive, "the `.dist-info` folder", found, &name.dist_info()));
    }
    let own = format!("{found}/RECORD");
    let rows = archive.record()?.rows;
    let mut listed: HashSet<&str> = HashSet::new();
    for (number, row) in (1..).zip(&rows) {
        if !listed.insert(&row.path) {
            let reason = format!("`{}` is listed twice", row.path);
            return Err(Error::Record {
                file: format!("{}: {own}", archive.path().display()),
                row: number,
                reason,
            });
        }
        let Some(position) = archive.index().names.get(&row.path) else {
            return Err(Error::Absent { file: archive.path().to_owned(), member: row.path.clone() });
        };
        if row.path != own {
            compare(archive, row, archive.members()[*position].size, digests[*position])?;
        }
    }
    match archive.members().iter().find(|member| !listed.contains(member.name.as_str())) {
        None => Ok(()),
        Some(member) => Err(Error::Unlisted { file: archive.path().to_owned(), member: member.name.clone() }),
    }
}

fn compare(archive: &Archive, row: &RecordRow, size: u64, digest: Sha256) -> Result<(), Error> {
    let mismatch = |what, recorded: Option<String>, computed: String| {
        let recorded = recorded.unwrap_or_else(|| "nothing".to_owned());
        Err(Error::RecordMismatch {
            file: archive.path().to_owned(),
            member: row.path.clone(),
            what,
            recorded,
            computed,
        })
    };
    if row.size != Some(size) {
        return mismatch("size", row.size.map(|size| size.to_string()), size.to_string());
    }
    if row.hash.as_ref().and_then(RecordHash::sha256) != Some(digest) {
        let recorded = row.hash.as_ref().map(|hash| format!("{}={}", hash.algorithm, hash.value));
        return mismatch("sha256", recorded, digest.record());
    }
    Ok(())
}

/// Compares the file name with METADATA and WHEEL.
fn names(archive: &Archive, name: &WheelName) -> Result<(), Error> {
    let metadata = archive.metadata()?;
    metadata.check(&format!("{}: METADATA", archive.path().display()))?;
    if metadata.normalized_name() != normalize_name(&name.distribution) {
        return Err(disagree(archive, "the name in METADATA", metadata.name(), &name.distribution));
    }
    let version = metadata.version()?;
    if version != name.version {
        return Err(disagree(
            archive,
            "the version in METADATA",
            &version.to_string(),
            &name.version.to_string(),
        ));
    }
    let wheel = archive.wheel_file()?;
    let listed: Vec<_> = wheel.tags.iter().map(ToString::to_string).collect();
    let expected: Vec<_> = name.tags().iter().map(ToString::to_string).collect();
    if listed != expected {
        return Err(disagree(archive, "the tags in WHEEL", &listed.join(" "), &expected.join(" ")));
    }
    Ok(())
}

fn disagree(archive: &Archive, what: &'static str, found: &str, expected: &str) -> Error {
    Error::Disagree {
        file: archive.path().to_owned(),
        what,
        found: found.to_owned(),
        expected: expected.to_owned(),
    }
}
