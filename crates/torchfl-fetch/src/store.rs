//! The destination: files that are whole, and parts that nobody takes for whole.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use sha2::Digest as _;
use torchfl_wheel::Sha256;

use crate::{Error, Progress};

/// What is read at once.
const CHUNK: usize = 1 << 20;

/// The sum and the size of a file.
///
/// # Errors
///
/// [`Error::NotFile`] for what is none: a FIFO would be waited for.
pub(crate) fn sum(path: &Path) -> Result<(Sha256, u64), Error> {
    let facts = fs_err::metadata(path)?;
    if !facts.is_file() {
        let what = if facts.is_dir() { "a folder" } else { "a FIFO or a device" };
        return Err(Error::NotFile { path: path.to_owned(), what });
    }
    let mut file = fs_err::File::open(path)?;
    let mut hasher = sha2::Sha256::new();
    let bytes = copy(&mut file, u64::MAX, |chunk| {
        hasher.update(chunk);
        Ok(())
    })?;
    Ok((Sha256(hasher.finalize().into()), bytes))
}

/// Hands at most `most` bytes of `from` to `take`, and returns how many there were.
fn copy(from: &mut impl Read, most: u64, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<u64> {
    let mut buffer = vec![0; CHUNK];
    let mut done = 0;
    while done < most {
        let room = usize::try_from(most - done).unwrap_or(CHUNK).min(CHUNK);
        match from.read(&mut buffer[..room]) {
            Ok(0) => break,
            Ok(count) => {
                take(&buffer[..count])?;
                done += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// A file on its way, under a hidden name that carries the sum it must have, and locked: a second run waits.
#[derive(Debug)]
pub(crate) struct Part {
    file: File,
    path: PathBuf,
    /// Beside it: what the server called the version that its bytes are of.
    tag: PathBuf,
    hasher: sha2::Sha256,
    len: u64,
}

impl Part {
    /// Opens the part of `name` in `folder`, or begins one, and hashes what is there. `None`: while another
    /// run was waited for, it brought the file.
    pub(crate) fn open(
        folder: &Path,
        name: &str,
        sha256: Option<&Sha256>,
        progress: &dyn Progress,
    ) -> Result<Option<Self>, Error> {
        fs_err::create_dir_all(folder)?;
        let mark = sha256.map_or_else(|| "unhashed".to_owned(), |sum| sum.to_string()[..16].to_owned());
        let path = folder.join(format!(".{name}.{mark}.part"));
        let tag = folder.join(format!(".{name}.{mark}.part.tag"));
        let whole = folder.join(name);
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        loop {
            if fs_err::symlink_metadata(&path).is_ok_and(|facts| !facts.is_file()) {
                return Err(Error::NotFile { path, what: "a link, a folder, a FIFO or a device" });
            }
            let file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
                .open(&path)
                .map_err(named)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    progress.note(&format!("another run fetches {name}: waiting for it"));
                    file.lock().map_err(named)?;
                }
                Err(TryLockError::Error(error)) => return Err(named(error).into()),
            }
            // Whoever held the lock may have given the file its name, or thrown it away.
            let facts = file.metadata().map_err(named)?;
            // Its owner could change it after its sum was found right.
            if facts.uid() != rustix::process::geteuid().as_raw() {
                return Err(Error::NotFile { path, what: "another user's" });
            }
            let still = fs_err::symlink_metadata(&path)
                .is_ok_and(|there| (there.dev(), there.ino()) == (facts.dev(), facts.ino()));
            if !still {
                if whole.exists() {
                    return Ok(None);
                }
                continue;
            }
            let mut part = Self { file, path: path.clone(), tag, hasher: sha2::Sha256::new(), len: 0 };
            if whole.exists() {
                part.discard()?;
                return Ok(None);
            }
            part.read()?;
            return Ok(Some(part));
        }
    }

    /// Hashes what is there; afterwards the next byte is written behind it.
    fn read(&mut self) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        let Self { file, hasher, .. } = self;
        let len = copy(file, u64::MAX, |chunk| {
            hasher.update(chunk);
            Ok(())
        })?;
        self.len = len;
        Ok(())
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Begins anew.
    pub(crate) fn restart(&mut self) -> io::Result<()> {
        let _ = fs_err::remove_file(&self.tag);
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.hasher = sha2::Sha256::new();
        self.len = 0;
        Ok(())
    }

    /// Takes bytes from `source` to its end. A fault of the source is the inner one; what came before it
    /// stays.
    pub(crate) fn take(
        &mut self,
        source: &mut impl Read,
        progress: &dyn Progress,
    ) -> io::Result<Result<(), io::Error>> {
        let mut buffer = vec![0; CHUNK >> 4];
        loop {
            let count = match source.read(&mut buffer) {
                Ok(0) => return Ok(Ok(())),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Ok(Err(error)),
            };
            let named =
                |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", self.path.display()));
            self.file.write_all(&buffer[..count]).map_err(named)?;
            self.hasher.update(&buffer[..count]);
            self.len += count as u64;
            progress.advance(count as u64);
        }
    }

    /// What the server `origin` called the version that the bytes are of, if they are of `origin`.
    pub(crate) fn validator(&self, origin: &str) -> Option<String> {
        let text = fs_err::read_to_string(&self.tag).ok()?;
        let (from, tag) = text.split_once('\n')?;
        (from == origin && !tag.is_empty()).then(|| tag.trim_end().to_owned())
    }

    /// Keeps that for a later run. `None`: it said nothing.
    pub(crate) fn set_validator(&self, origin: &str, validator: Option<&str>) -> io::Result<()> {
        match validator {
            Some(validator) => fs_err::write(&self.tag, format!("{origin}\n{validator}\n")),
            None => match fs_err::remove_file(&self.tag) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }

    /// The sum of what is there.
    pub(crate) fn sum(&self) -> Sha256 {
        Sha256(self.hasher.clone().finalize().into())
    }

    /// Gives it its name: on the disk first, then by a rename that replaces nothing.
    pub(crate) fn publish(self, name: &str) -> Result<PathBuf, Error> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let whole = folder.join(name);
        self.file.sync_all()?;
        settle(&self.path, &whole)?;
        let _ = fs_err::remove_file(&self.tag);
        // So that the name outlives a power cut; where a folder cannot be synced, the bytes were.
        let _ = fs_err::File::open(folder).and_then(|folder| folder.sync_all());
        Ok(whole)
    }

    /// Throws it away.
    pub(crate) fn discard(self) -> io::Result<()> {
        let _ = fs_err::remove_file(&self.tag);
        fs_err::remove_file(&self.path)
    }
}

/// Renames `from` to `to`, unless there is a `to`.
fn settle(from: &Path, to: &Path) -> Result<(), Error> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        // A file system without it (renameat2(2)): look, then rename.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) if !to.exists() => {
            Ok(fs_err::rename(from, to)?)
        }
        Err(error) => {
            let error = io::Error::from(error);
            Err(io::Error::new(error.kind(), format!("{} cannot be named: {error}", to.display())).into())
        }
    }
}
