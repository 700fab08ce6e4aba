//! Where the bytes of a member come from.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::Error;

/// Random access to bytes whose number is constant. Many threads may read at once.
pub trait Source: Send + Sync {
    /// Number of bytes.
    fn len(&self) -> u64;

    /// Fills `buf` from `offset`, or fails: a range beyond the end is `UnexpectedEof`.
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Whether there are no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Source for [u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let piece = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..start.checked_add(buf.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(piece);
        Ok(())
    }
}

impl Source for Vec<u8> {
    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_exact_at(offset, buf)
    }
}

impl<S: Source + ?Sized> Source for std::sync::Arc<S> {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        (**self).read_exact_at(offset, buf)
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        (**self).read_exact_at(offset, buf)
    }
}

/// An open file and the length that it had when it was wrapped.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    len: u64,
}

impl FileSource {
    /// Opens `path`. Anything but a regular file (after following links) is refused.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = fs_err::File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other(format!("{}: not a regular file", path.display())));
        }
        Self::new(file.into_parts().0)
    }

    /// Wraps an open file, such as one from [`crate::Archive::spool`].
    pub fn new(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self { file, len })
    }
}

impl Source for FileSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }
}

/// An error of any kind, from the code that opens a source.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

type Opener = Box<dyn FnOnce() -> Result<Box<dyn Source>, BoxError>>;

/// One file of a wheel that is being written.
///
/// The source is opened when the entry's turn comes and closed when its bytes are written, so a list of
/// large entries costs neither memory nor disk.
pub struct Entry {
    /// Path in the wheel, `/` between parts.
    pub path: String,
    /// Mode 0755 instead of 0644. Nothing else of a file's mode travels.
    pub executable: bool,
    opener: Opener,
}

impl Entry {
    /// A file whose bytes `open` provides when the entry's turn comes.
    pub fn lazy<S, E>(path: impl Into<String>, open: impl FnOnce() -> Result<S, E> + 'static) -> Self
    where
        S: Source + 'static,
        E: Into<BoxError>,
    {
        let opener: Opener = Box::new(move || match open() {
            Ok(source) => Ok(Box::new(source)),
            Err(error) => Err(error.into()),
        });
        Self { path: path.into(), executable: false, opener }
    }

    /// A file whose bytes are at hand.
    pub fn bytes(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::lazy(path, move || Ok::<_, io::Error>(bytes))
    }

    /// A copy of the regular file at `from`.
    pub fn file(path: impl Into<String>, from: impl AsRef<Path>) -> Self {
        let from = from.as_ref().to_owned();
        Self::lazy(path, move || FileSource::open(&from))
    }

    /// Sets [`Entry::executable`].
    #[must_use]
    pub fn executable(mut self, executable: bool) -> Self {
        self.executable = executable;
        self
    }

    /// The permission bits that the wheel records: 0755 or 0644.
    pub fn mode(&self) -> u32 {
        if self.executable { 0o755 } else { 0o644 }
    }

    pub(crate) fn open(self) -> Result<Box<dyn Source>, Error> {
        (self.opener)().map_err(|source| Error::Source { member: self.path, source })
    }
}
