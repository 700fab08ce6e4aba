//! Random access to the bytes of a file, of a buffer, or of an edited view of either.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

/// Random access to a file's bytes; `len` is constant.
pub trait ReadAt: Send + Sync {
    /// Length in bytes.
    fn len(&self) -> u64;

    /// Fills `buf` from `offset`, or fails with [`io::ErrorKind::UnexpectedEof`] where the bytes end earlier.
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Whether there are no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        (**self).read_exact_at(offset, buf)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for std::sync::Arc<T> {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        (**self).read_exact_at(offset, buf)
    }
}

impl ReadAt for [u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..start.checked_add(buf.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(bytes);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_exact_at(offset, buf)
    }
}

/// An open file and the length it had when it was opened.
#[derive(Debug)]
pub struct FileAt {
    file: std::fs::File,
    len: u64,
}

impl FileAt {
    /// Opens `path` for reading; fails with [`io::ErrorKind::InvalidInput`] where it is no regular file.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Before it is opened: a FIFO would wait for a writer, and a device may act on it.
        if let Some(what) = fs_err::metadata(path).ok().as_ref().and_then(not_regular) {
            return Err(invalid(format!("{} is {what}, no regular file", path.display())));
        }
        Self::new(fs_err::File::open(path)?.into())
    }

    /// Takes an open regular file; its position does not matter and is not moved.
    pub fn new(file: std::fs::File) -> io::Result<Self> {
        let meta = file.metadata()?;
        match not_regular(&meta) {
            None => Ok(Self { file, len: meta.len() }),
            Some(what) => Err(invalid(format!("{what}, no regular file"))),
        }
    }

    pub(crate) fn file(&self) -> &std::fs::File {
        &self.file
    }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// What something other than a regular file is.
pub(crate) fn not_regular(meta: &Metadata) -> Option<&'static str> {
    let kind = meta.file_type();
    if kind.is_file() {
        None
    } else if kind.is_dir() {
        Some("a folder")
    } else if kind.is_fifo() {
        Some("a FIFO")
    } else if kind.is_socket() {
        Some("a socket")
    } else if kind.is_symlink() {
        Some("a symbolic link")
    } else {
        Some("a device")
    }
}

impl ReadAt for FileAt {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }
}
