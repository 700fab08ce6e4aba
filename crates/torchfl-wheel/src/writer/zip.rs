//! The deterministic zip.

use std::fs::{File, Permissions};
use std::io::{BufWriter, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::ledger::Ledger;
use super::{Added, Options, Writer, Written};
use crate::deflate::{BLOCK, Digests, Encode, Pool, encode};
use crate::digest::Hasher;
use crate::format::{DEFLATED, Header, Limits, STORED, end};
use crate::{Archive, Entry, Error, FileSource, Sha256, Source, WheelName, verify};

/// Writes `FOLDER/NAME.whl`.
///
/// The bytes depend on the entries and [`Options::compression`] only. The file is written under another
/// name in the same folder, read back by [`verify()`]'s checks, synced, and renamed.
pub struct ZipWriter {
    name: WheelName,
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
    /// Bytes written so far.
    position: u64,
    headers: Vec<Header>,
    ledger: Ledger,
    pool: Pool,
    options: Options,
    limits: Limits,
}

impl ZipWriter {
    /// Begins the wheel `name` in `folder`, which must exist. A wheel of that name is replaced at the end.
    pub fn create(folder: &Path, name: &WheelName, options: Options) -> Result<Self, Error> {
        Self::with(folder, name, options, Limits::default(), encode)
    }

    pub(crate) fn with(
        folder: &Path,
        name: &WheelName,
        options: Options,
        limits: Limits,
        encode: Encode,
    ) -> Result<Self, Error> {
        let path = folder.join(name.to_string());
        let file = tempfile::Builder::new()
            .prefix(&format!(".{name}."))
            .suffix(".tmp")
            .permissions(Permissions::from_mode(0o666)) // less the umask, as for any new file
            .tempfile_in(folder)
            .map_err(Error::io("create", &path))?;
        Ok(Self {
            ledger: Ledger::new(name),
            name: name.clone(),
            path,
            file: BufWriter::with_capacity(256 << 10, file),
            position: 0,
            headers: Vec::new(),
            pool: Pool::new(options.threads, options.compression, encode),
            options,
            limits,
        })
    }

    /// Where the wheel will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes header and data of one member.
    fn member(&mut self, path: &str, permissions: u32, source: &dyn Source) -> Result<Added, Error> {
        let mut header = Header {
            name: path.to_owned(),
            permissions,
            method: STORED,
            crc: 0,
            compressed: 0,
            size: source.len(),
            offset: self.position,
        };
        let sha256 = if source.len() <= BLOCK as u64 {
            self.small(&mut header, source)?
        } else {
            self.large(&mut header, source)?
        };
        let added =
            Added { path: path.to_owned(), bytes: header.size, sha256, compressed: header.compressed };
        self.headers.push(header);
        Ok(added)
    }

    /// A member of one block: everything is known before anything is written.
    fn small(&mut self, header: &mut Header, source: &dyn Source) -> Result<Sha256, Error> {
        let mut packed = Vec::new();
        let digests = if source.is_empty() {
            Digests { crc: 0, sha256: Sha256::of(b"") }
        } else {
            let options = &self.options;
            self.pool.compress(&header.name, source, &mut |bytes| options.progress(bytes), &mut |piece| {
                packed.extend_from_slice(piece);
                Ok(())
            })?
        };
        header.crc = digests.crc;
        if (packed.len() as u64) < header.size {
            header.method = DEFLATED;
        } else {
            packed = read(&header.name, source, 0, header.size as usize)?;
        }
        header.compressed = packed.len() as u64;
        self.put(&header.local(self.limits))?;
        self.put(&packed)?;
        Ok(digests.sha256)
    }

    /// A member of many blocks: its header is written twice, as only the second one can know.
    fn large(&mut self, header: &mut Header, source: &dyn Source) -> Result<Sha256, Error> {
        self.put(&header.local(self.limits))?;
        let start = self.position;
        let Self { pool, options, file, position, path, .. } = self;
        let digests =
            pool.compress(&header.name, source, &mut |bytes| options.progress(bytes), &mut |piece| {
                *position += piece.len() as u64;
                file.write_all(piece).map_err(Error::io("write", path))
            })?;
        header.crc = digests.crc;
        header.method = DEFLATED;
        if self.position - start >= header.size {
            header.method = STORED;
            self.store(header, source, start, &digests)?;
        }
        header.compressed = self.position - start;
        let local = header.local(self.limits);
        self.file.flush().map_err(Error::io("write", &self.path))?;
        self.file().write_all_at(&local, header.offset).map_err(Error::io("write", &self.path))?;
        Ok(digests.sha256)
    }

    /// Replaces the data from `start` on by the source's own bytes, which take less room.
    fn store(
        &mut self,
        header: &Header,
        source: &dyn Source,
        start: u64,
        digests: &Digests,
    ) -> Result<(), Error> {
        self.file.flush().map_err(Error::io("write", &self.path))?;
        let mut file = self.file();
        let rewind = file.set_len(start).and_then(|()| file.seek(SeekFrom::Start(start)));
        rewind.map_err(Error::io("write", &self.path))?;
        self.position = start;
        let mut sha256 = Hasher::default();
        while self.position - start < header.size {
            let offset = self.position - start;
            let piece =
                read(&header.name, source, offset, (header.size - offset).min(BLOCK as u64) as usize)?;
            sha256.update(&piece);
            self.put(&piece)?;
        }
        if sha256.finish() == digests.sha256 {
            return Ok(());
        }
        let source = std::io::Error::other("the second reading gave other bytes than the first");
        Err(Error::SourceRead { member: header.name.clone(), offset: 0, source })
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.position += bytes.len() as u64;
        self.file.write_all(bytes).map_err(Error::io("write", &self.path))
    }

    fn file(&self) -> &File {
        self.file.get_ref().as_file()
    }

    fn directory(&mut self) -> Result<(), Error> {
        let start = self.position;
        for header in std::mem::take(&mut self.headers) {
            self.put(&header.central(self.limits))?;
            self.headers.push(header);
        }
        let tail = end(self.headers.len() as u64, start, self.position - start, self.limits);
        self.put(&tail)
    }
}

impl Writer for ZipWriter {
    fn add(&mut self, entry: Entry) -> Result<Added, Error> {
        self.ledger.begin(&entry)?;
        let (path, permissions) = (entry.path.clone(), entry.mode());
        let source = entry.open()?;
        let added = self.member(&path, permissions, &*source)?;
        self.ledger.end(&added);
        Ok(added)
    }

    fn finish(mut self: Box<Self>) -> Result<Written, Error> {
        let record = self.ledger.record()?.into_bytes();
        let path = self.ledger.record_path();
        self.member(&path, 0o644, &record)?;
        self.directory()?;
        let Self { name, path, file, position, options, pool, .. } = *self;
        drop(pool);
        let file = file.into_inner().map_err(|error| Error::io("write", &path)(error.into_error()))?;
        let source = file.reopen().and_then(FileSource::new).map_err(Error::io("read", &path))?;
        let checked = verify::check(&Archive::from_source(Box::new(source), &path)?, &name, options.threads)?;
        // Without this a crash could leave the new name in front of bytes that never reached the disk.
        file.as_file().sync_all().map_err(Error::io("write", &path))?;
        file.persist(&path).map_err(|error| Error::io("rename to", &path)(error.error))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs_err::File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io("sync", folder))?;
        Ok(Written { bytes: position, sha256: checked.sha256 })
    }
}

fn read(member: &str, source: &dyn Source, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; len];
    source.read_exact_at(offset, &mut bytes).map_err(|error| Error::SourceRead {
        member: member.to_owned(),
        offset,
        source: error,
    })?;
    Ok(bytes)
}
