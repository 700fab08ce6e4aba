//! Writes a planned edit: into the file itself, journaled, or into a new file.
#![allow(clippy::similar_names, reason = "`path` and `patch` are what this is about")]

use std::fs::{File, Metadata, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

use crate::error::Error;
use crate::image::Image;
use crate::journal::{self, Journal, Range};
use crate::mapped::mapped;
use crate::patch::{Edit, How, Patch, Patched};
use crate::plan::{is_done, plan};
use crate::read_at::{FileAt, ReadAt, not_regular};
use crate::verify;

const INPUT: &str = "name a library or a program";
const OUTPUT: &str = "name a new file, or one that may be replaced";
/// Bytes copied at a time.
const CHUNK: u64 = 1 << 20;

/// Patches the file at `path` itself.
///
/// The bytes to be changed are first written to `.NAME.torchfl-journal` beside it and synced; then come the
/// writes, a sync, a check by reading the file again, and the journal's removal. An interrupted patch is undone
/// by the next one (or by [`crate::recover`]). Mode and owner stay; the modification time moves on, so that
/// those who compare it notice.
///
/// Refused, unless there is nothing to change: a symbolic link, a file with more than one hard link, a file
/// that a process has mapped. Processes that may not be looked at are not counted: [`crate::mapped`] tells
/// how many there are.
pub fn patch_in_place(path: &Path, edit: &Edit) -> Result<How, Error> {
    check_regular(path)?;
    let name = path.display().to_string();
    if !journal::journal_path(path)?.exists() {
        // Nothing is opened for writing where nothing is to be done.
        let file = FileAt::open(path).map_err(|source| io_error(path, "open", source))?;
        if is_done(&file, &name, edit)? {
            return Ok(How::Unchanged);
        }
    }
    check_unshared(path)?;
    let file = open_locked(path)?;
    journal::recover_locked(path, &file)?;
    let source = FileAt::new(file).map_err(|source| io_error(path, "look at", source))?;
    let patch = plan(&source, &name, edit)?;
    if patch.how == How::Unchanged {
        return Ok(How::Unchanged);
    }
    let journal = Journal::of(&source, &patch).map_err(|source| io_error(path, "read", source))?;
    commit_or_undo(path, &source, &patch, &journal, edit)?;
    Ok(patch.how)
}

/// [`commit`]; where it fails, also by its own check, the file is put back.
fn commit_or_undo(
    path: &Path,
    source: &FileAt,
    patch: &Patch,
    journal: &Journal,
    edit: &Edit,
) -> Result<(), Error> {
    let done = commit(path, source, patch, journal, edit, &mut || Ok(()));
    if done.is_err() {
        // Best effort: where this fails as well, the journal stays for a later run.
        if journal::journal_path(path)?.exists() {
            let _ = journal.undo(path, source.file());
        }
        let _ = journal::discard_unfinished(path);
    }
    done
}

/// Writes a patched copy of `path` to `out`: a whole new file by rename, or none. `out` may be `path`; a file
/// that shares its bytes with others then stops sharing. Where `out` is a symbolic link to a file or to nothing, the
/// link is replaced; a folder, a device, a FIFO or a socket never is.
/// The permission bits are kept; owner and modification time are those of a new file.
pub fn patch_to(path: &Path, out: &Path, edit: &Edit) -> Result<How, Error> {
    let at = journal::journal_path(path)?;
    if at.exists() {
        return Err(Error::Journal { path: at, why: "the file beside it is half patched" });
    }
    // Before anything is opened: a FIFO would wait for a writer.
    check_followed(path, INPUT)?;
    check_followed(out, OUTPUT)?;
    let name = path.display().to_string();
    // A plain File: the standard library then copies inside the kernel.
    let mut file: File = fs_err::File::open(path).map_err(|source| io_error(path, "open", source))?.into();
    let meta = file.metadata().map_err(|source| io_error(path, "look at", source))?;
    check_kind(path, &meta, INPUT)?;
    let view = file.try_clone().and_then(FileAt::new);
    let view = view.map_err(|source| io_error(path, "open", source))?;
    let patch = plan(&view, &name, edit)?;
    let same = fs_err::metadata(out).is_ok_and(|out| (out.dev(), out.ino()) == (meta.dev(), meta.ino()));
    if same && patch.how == How::Unchanged && !out.is_symlink() {
        return Ok(How::Unchanged);
    }
    let fail = |action| move |source| io_error(out, action, source);
    let folder = out.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let mut temp = tempfile::NamedTempFile::new_in(folder).map_err(fail("create"))?;
    io::copy(&mut file, temp.as_file_mut()).map_err(fail("write"))?;
    write_patch(temp.as_file(), &view, &patch, &mut || Ok(())).map_err(fail("write"))?;
    let mode = Permissions::from_mode(meta.mode() & 0o777);
    temp.as_file().set_permissions(mode).map_err(fail("set the mode of"))?;
    temp.as_file().sync_all().map_err(fail("sync"))?;
    check_written(&view, temp.as_file(), &name, &patch, edit)?;
    check_followed(out, OUTPUT)?; // again: the copy took its time
    temp.persist(out).map_err(|error| io_error(out, "rename", error.error))?;
    journal::sync_folder(out)?;
    Ok(patch.how)
}

/// Opens for writing, and takes the file's lock.
pub(crate) fn open_locked(path: &Path) -> Result<File, Error> {
    let opened = fs_err::OpenOptions::new().read(true).write(true).open(path);
    let file: File = match opened {
        // The kernel refuses to open a running program for writing.
        Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy => {
            return Err(Error::Mapped { path: path.to_owned(), pids: mapped(path)?.pids });
        }
        opened => opened.map_err(|source| io_error(path, "open for writing", source))?.into(),
    };
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Busy { path: path.to_owned() }),
        // Some network file systems have no locks; then two patches at a time are the caller's to avoid.
        Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => Ok(file),
        Err(TryLockError::Error(source)) => Err(io_error(path, "lock", source)),
    }
}

fn io_error(path: &Path, action: &'static str, source: io::Error) -> Error {
    Error::Io { path: path.to_owned(), action, source }
}

pub(crate) fn check_regular(path: &Path) -> Result<(), Error> {
    let meta = fs_err::symlink_metadata(path).map_err(|source| io_error(path, "look at", source))?;
    if !meta.is_symlink() {
        return check_kind(path, &meta, INPUT);
    }
    let target = fs_err::read_link(path).unwrap_or_default();
    let what = format!("a symbolic link to {}", target.display());
    let hint = "name the file that the link points to, or write a new file with `-o OUT`";
    Err(Error::NotRegular { path: path.to_owned(), what, hint })
}

/// Refuses what is there and, after following links, no file: an output such as `/dev/null`, which a rename would put
/// a file in the place of.
fn check_followed(path: &Path, hint: &'static str) -> Result<(), Error> {
    match fs_err::metadata(path) {
        Ok(meta) => check_kind(path, &meta, hint),
        // Absent, or a link that leads nowhere. Other faults show when the file is opened or created.
        Err(_) => Ok(()),
    }
}

fn check_kind(path: &Path, meta: &Metadata, hint: &'static str) -> Result<(), Error> {
    match not_regular(meta) {
        None => Ok(()),
        Some(what) => Err(Error::NotRegular { path: path.to_owned(), what: what.to_owned(), hint }),
    }
}

fn check_unshared(path: &Path) -> Result<(), Error> {
    let meta = fs_err::metadata(path).map_err(|source| io_error(path, "look at", source))?;
    if meta.nlink() > 1 {
        return Err(Error::HardLinked { path: path.to_owned(), links: meta.nlink() });
    }
    let users = mapped(path)?;
    if !users.pids.is_empty() {
        return Err(Error::Mapped { path: path.to_owned(), pids: users.pids });
    }
    Ok(())
}

impl Journal {
    /// What `patch` changes inside the old file; what lies beyond is undone by length.
    fn of(source: &FileAt, patch: &Patch) -> io::Result<Self> {
        let view = Patched::new(source, patch.clone());
        let mut ranges = Vec::new();
        for write in &patch.writes {
            let len = write.end().min(source.len()).saturating_sub(write.offset) as usize;
            if len > 0 {
                let (mut old, mut new) = (vec![0; len], vec![0; len]);
                source.read_exact_at(write.offset, &mut old)?;
                view.read_exact_at(write.offset, &mut new)?;
                ranges.push(Range { offset: write.offset, old, new });
            }
        }
        let mut crc = crc32fast::Hasher::new();
        let mut at = source.len();
        let mut buf = vec![0; CHUNK.min(patch.len - at) as usize];
        while at < patch.len {
            let piece = &mut buf[..CHUNK.min(patch.len - at) as usize];
            view.read_exact_at(at, piece)?;
            crc.update(piece);
            at += piece.len() as u64;
        }
        Ok(Self { old_len: source.len(), new_len: patch.len, tail: crc.finalize(), ranges })
    }

    /// The patch that undoes it, for reading the old file through the new one.
    fn inverse(&self) -> Patch {
        let writes = self.ranges.iter().map(|range| crate::patch::Write {
            offset: range.offset,
            data: crate::patch::Data::Bytes(range.old.clone()),
        });
        Patch { how: How::InPlace, len: self.old_len, writes: writes.collect() }
    }
}

/// Journal, writes, sync, check, journal away. `step` is called before each change on disk; tests stop there.
fn commit(
    path: &Path,
    source: &FileAt,
    patch: &Patch,
    journal: &Journal,
    edit: &Edit,
    step: &mut dyn FnMut() -> io::Result<()>,
) -> Result<(), Error> {
    journal.write(path, step)?;
    let fail = |action| move |source| io_error(path, action, source);
    write_patch(source.file(), source, patch, step).map_err(fail("write"))?;
    step().map_err(fail("sync"))?;
    source.file().sync_data().map_err(fail("sync"))?;
    let name = path.display().to_string();
    let now = FileAt::open(path).map_err(fail("open"))?;
    let before = Patched::new(&now, journal.inverse());
    verify::check_edit(&Image::open(&before, &name)?, &now, edit)?;
    step().map_err(fail("write"))?;
    journal::remove(path)
}

/// Applies `patch` to a file that holds the bytes of `source`.
fn write_patch(
    file: &File,
    source: &FileAt,
    patch: &Patch,
    step: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let view = Patched::new(source, patch.clone());
    if patch.len > source.len() {
        step()?;
        file.set_len(patch.len)?;
    }
    // From the end on: what is beyond the old end is copied from bytes that are overwritten later.
    for write in patch.writes.iter().rev() {
        let mut at = write.offset;
        let mut buf = vec![0; CHUNK.min(write.len()) as usize];
        while at < write.end() {
            let piece = &mut buf[..CHUNK.min(write.end() - at) as usize];
            view.read_exact_at(at, piece)?;
            step()?;
            file.write_all_at(piece, at)?;
            at += piece.len() as u64;
        }
    }
    Ok(())
}

fn check_written(
    source: &FileAt,
    written: &File,
    name: &str,
    patch: &Patch,
    edit: &Edit,
) -> Result<(), Error> {
    let read = |source| Error::Read { name: name.to_owned(), offset: 0, len: 0, source };
    let written = written.try_clone().and_then(FileAt::new).map_err(read)?;
    if written.len() != patch.len {
        return Err(Error::SelfCheck {
            name: name.to_owned(),
            what: "its length changed meanwhile".to_owned(),
        });
    }
    let before = Image::open(source, name)?;
    if patch.how == How::Unchanged {
        return Ok(());
    }
    verify::check_edit(&before, &written, edit)
}

#[cfg(test)]
#[path = "../tests/common/bytes.rs"]
mod bytes;

#[cfg(test)]
mod tests {
    use super::bytes::{Recipe, library};
    use super::*;
    use crate::journal::{Recovered, recover};
    use crate::patch::Tag;

    struct Case {
        dir: tempfile::TempDir,
        old: Vec<u8>,
        edit: Edit,
    }

    impl Case {
        fn all() -> Vec<Self> {
            let recipe =
                Recipe { search_path: Some((15, "/old/path")), ..Recipe::new(true, true, 62, 0x1000) };
            let set = |value: &str| Edit::Set { tag: Tag::Runpath, value: value.to_owned() };
            [set("/short"), set(&"/a/longer/path".repeat(9)), Edit::Remove]
                .into_iter()
                .map(|edit| Self { dir: tempfile::TempDir::new().unwrap(), old: library(&recipe), edit })
                .collect()
        }

        fn path(&self) -> std::path::PathBuf {
            let path = self.dir.path().join("a.so");
            if !path.exists() {
                fs_err::write(&path, &self.old).unwrap();
            }
            path
        }

        /// Stops before change number `at`; `None` where the patch has fewer.
        fn stop_at(&self, at: usize) -> Option<Patch> {
            let path = self.path();
            let source = FileAt::new(open_locked(&path).unwrap()).unwrap();
            let patch = plan(&source, "a.so", &self.edit).unwrap();
            let journal = Journal::of(&source, &patch).unwrap();
            let mut left = at;
            let mut step = || {
                left = left.checked_sub(1).ok_or_else(|| io::Error::other("power cut"))?;
                Ok(())
            };
            commit(&path, &source, &patch, &journal, &self.edit, &mut step).is_err().then_some(patch)
        }

        fn names(&self) -> usize {
            fs_err::read_dir(self.dir.path()).unwrap().count()
        }
    }

    #[test]
    fn a_patch_stopped_before_any_change_on_disk_is_undone_or_completed() {
        for case in Case::all() {
            let path = case.path();
            let mut stops = 0;
            while let Some(patch) = case.stop_at(stops) {
                let found = recover(&path).unwrap();
                let bytes = fs_err::read(&path).unwrap();
                if found == Recovered::Completed {
                    let view = Patched::new(&case.old, patch);
                    let mut new = vec![0; view.len() as usize];
                    view.read_exact_at(0, &mut new).unwrap();
                    assert_eq!(bytes, new);
                    fs_err::write(&path, &case.old).unwrap();
                } else {
                    assert_eq!(bytes, case.old, "stopped at {stops}");
                }
                assert_eq!(recover(&path).unwrap(), Recovered::Nothing);
                stops += 1;
            }
            assert!(stops > 6, "{stops} changes");
            assert_eq!(plan(&fs_err::read(&path).unwrap(), "a.so", &case.edit).unwrap().how, How::Unchanged);
            assert_eq!(case.names(), 1);
        }
    }

    #[test]
    fn a_patch_that_fails_its_own_check_is_put_back() {
        for case in Case::all() {
            let path = case.path();
            let source = FileAt::new(open_locked(&path).unwrap()).unwrap();
            let patch = plan(&source, "a.so", &case.edit).unwrap();
            let journal = Journal::of(&source, &patch).unwrap();
            let another = Edit::Set { tag: Tag::Rpath, value: "/not/what/was/planned".to_owned() };
            commit_or_undo(&path, &source, &patch, &journal, &another).unwrap_err();
            assert_eq!(fs_err::read(&path).unwrap(), case.old);
            assert_eq!(case.names(), 1);
        }
    }

    #[test]
    fn a_journal_that_is_a_link_is_not_followed() {
        let case = &Case::all()[0];
        let at = journal::journal_path(&case.path()).unwrap();
        std::os::unix::fs::symlink("/dev/null", &at).unwrap();
        assert_eq!(recover(&case.path()).unwrap_err().code(), "E-ELF-015");
        assert_eq!(fs_err::read(case.path()).unwrap(), case.old);
    }

    #[test]
    fn the_next_patch_takes_over_from_a_stopped_one() {
        for case in Case::all() {
            for stop in 0.. {
                fs_err::write(case.path(), &case.old).unwrap();
                if case.stop_at(stop).is_none() {
                    break;
                }
                let next = Edit::Set { tag: Tag::Rpath, value: "/next".to_owned() };
                patch_in_place(&case.path(), &next).unwrap();
                let bytes = fs_err::read(case.path()).unwrap();
                assert_eq!(plan(&bytes, "a.so", &next).unwrap().how, How::Unchanged);
                assert_eq!(case.names(), 1);
            }
        }
    }

    #[test]
    fn torn_writes_are_undone_and_foreign_bytes_are_not() {
        for case in Case::all() {
            let path = case.path();
            let source = FileAt::open(&path).unwrap();
            let patch = plan(&source, "a.so", &case.edit).unwrap();
            let journal = Journal::of(&source, &patch).unwrap();
            for mask in [0b0101_0101_u8, 0b1111_0000, 0b0000_0001] {
                fs_err::write(&path, &case.old).unwrap();
                let file: File = fs_err::OpenOptions::new().write(true).open(&path).unwrap().into();
                file.set_len(patch.len).unwrap();
                for range in &journal.ranges {
                    for (at, new) in range.new.iter().enumerate().filter(|(at, _)| mask >> (at % 8) & 1 == 1)
                    {
                        file.write_all_at(&[*new], range.offset + at as u64).unwrap();
                    }
                }
                journal.write(&path, &mut || Ok(())).unwrap();
                assert_eq!(recover(&path).unwrap(), Recovered::Undone);
                assert_eq!(fs_err::read(&path).unwrap(), case.old);
            }
            // A lost tail: the length is there, its bytes are not.
            if patch.len > source.len() {
                let mut lost = case.old.clone();
                lost.resize(patch.len as usize, 0);
                for range in &journal.ranges {
                    lost[range.offset as usize..][..range.new.len()].copy_from_slice(&range.new);
                }
                fs_err::write(&path, &lost).unwrap();
                journal.write(&path, &mut || Ok(())).unwrap();
                assert_eq!(recover(&path).unwrap(), Recovered::Undone);
                assert_eq!(fs_err::read(&path).unwrap(), case.old);
            }
            // Installed anew meanwhile: the journal is not for these bytes.
            journal.write(&path, &mut || Ok(())).unwrap();
            let mut other = case.old.clone();
            other[journal.ranges[0].offset as usize] ^= 0x55;
            fs_err::write(&path, &other).unwrap();
            assert_eq!(recover(&path).unwrap_err().code(), "E-ELF-015");
            assert_eq!(fs_err::read(&path).unwrap(), other);
        }
    }
}
