//! Reading anybody's wheel.

use std::fs::File;
use std::io::{self, Read, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::{Decompress, FlushDecompress, Status};

use crate::index::{Index, Member, local, member_error, read};
use crate::{Error, FileSource, Metadata, Record, Source, WheelFile};

/// Compressed bytes that are held at once.
const INPUT: usize = 128 << 10;
/// Uncompressed bytes that are copied at once.
pub(crate) const OUTPUT: usize = 256 << 10;
/// What METADATA and WHEEL may take; descriptions are the most of it.
const LARGEST_TEXT: u64 = 4 << 20;
/// RECORD of torch has 1.5 MB.
const LARGEST_RECORD: u64 = 16 << 20;
/// What a member may take on disk. The largest library of torch has 0.5 GB.
const LARGEST_FILE: u64 = 16 << 30;

/// An open wheel, or any other zip archive of stored and deflated members.
///
/// Opening reads the directory only. It refuses names that lead out of a folder, members that overlap and
/// sizes that deflate cannot reach; every member is read in constant memory and checked against its CRC-32.
pub struct Archive {
    file: PathBuf,
    source: Box<dyn Source>,
    index: Index,
}

impl Archive {
    /// Opens the archive at `path`.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let source = FileSource::open(path).map_err(Error::io("open", path))?;
        Self::from_source(Box::new(source), path)
    }

    /// Reads an archive from any source; `file` is how errors call it.
    pub fn from_source(source: Box<dyn Source>, file: &Path) -> Result<Self, Error> {
        let index = read(&*source, file)?;
        Ok(Self { file: file.to_owned(), source, index })
    }

    /// The path that the archive was opened by.
    pub fn path(&self) -> &Path {
        &self.file
    }

    /// Members in the order of the archive's directory.
    pub fn members(&self) -> &[Member] {
        &self.index.members
    }

    /// The member of that name, if there is one.
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.index.names.get(name).and_then(|position| self.index.members.get(*position))
    }

    /// All bytes of a member that has at most `limit`.
    pub fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, Error> {
        let mut reader = self.limited(name, limit)?;
        let size = reader.member.size;
        // The declared size is bounded by the compressed one, but not by what is there: grow as it comes.
        let mut bytes = Vec::with_capacity(OUTPUT.min(size as usize));
        let mut buffer = vec![0; OUTPUT.min(size as usize).max(1)];
        loop {
            match reader.fill(&mut buffer)? {
                0 => return Ok(bytes),
                len => bytes.extend_from_slice(&buffer[..len]),
            }
        }
    }

    /// A member's bytes, one after the other.
    pub fn stream(&self, name: &str) -> Result<MemberReader<'_>, Error> {
        let missing = || Error::Missing { file: self.file.clone(), member: name.to_owned() };
        let member = self.member(name).ok_or_else(missing)?;
        if member.is_link() {
            let what = "a symbolic link".to_owned();
            return Err(Error::Unsupported { file: self.file.clone(), member: name.to_owned(), what });
        }
        let data = local(&*self.source, member, &self.file)?.data;
        Ok(MemberReader::new(&*self.source, &self.file, member, data))
    }

    /// [`Archive::stream`], unless the directory's size is above `limit`. The reader never gives more bytes
    /// than that size: a stream that would make more is an error.
    fn limited(&self, name: &str, limit: u64) -> Result<MemberReader<'_>, Error> {
        match self.member(name) {
            Some(&Member { size, .. }) if size > limit => {
                Err(Error::TooLarge { file: self.file.clone(), member: name.to_owned(), size, limit })
            }
            _ => self.stream(name),
        }
    }

    /// Unpacks a member of at most 16 GiB into a file in `folder` that has no name and goes away when it is
    /// closed.
    pub fn spool(&self, name: &str, folder: &Path) -> Result<File, Error> {
        let mut reader = self.limited(name, LARGEST_FILE)?;
        let mut file = tempfile::tempfile_in(folder).map_err(Error::io("create a file in", folder))?;
        let mut buffer = vec![0; OUTPUT];
        loop {
            match reader.fill(&mut buffer)? {
                0 => break,
                len => file.write_all(&buffer[..len]).map_err(Error::io("write a file in", folder))?,
            }
        }
        file.rewind().map_err(Error::io("write a file in", folder))?;
        Ok(file)
    }

    /// The name of the one `.dist-info` folder.
    pub fn dist_info(&self) -> Result<&str, Error> {
        let mut found: Option<&str> = None;
        for member in &self.index.members {
            let Some((top, _)) = member.name.split_once('/') else { continue };
            if top.ends_with(".dist-info")
                && found.is_none_or(|other| other != top)
                && found.replace(top).is_some()
            {
                return Err(Error::Structure {
                    file: self.file.clone(),
                    reason: "has more than one `.dist-info` folder".to_owned(),
                });
            }
        }
        found.ok_or_else(|| Error::Missing {
            file: self.file.clone(),
            member: "*.dist-info/METADATA".to_owned(),
        })
    }

    /// The wheel's METADATA.
    pub fn metadata(&self) -> Result<Metadata, Error> {
        let (name, bytes) = self.text("METADATA", LARGEST_TEXT)?;
        Metadata::parse(&bytes, &name)
    }

    /// The wheel's RECORD.
    pub fn record(&self) -> Result<Record, Error> {
        let (name, bytes) = self.text("RECORD", LARGEST_RECORD)?;
        Record::parse(&bytes, &name)
    }

    /// The wheel's WHEEL.
    pub(crate) fn wheel_file(&self) -> Result<WheelFile, Error> {
        let (name, bytes) = self.text("WHEEL", LARGEST_TEXT)?;
        WheelFile::parse(&bytes, &name)
    }

    /// A file of `.dist-info`, and how errors should call it.
    fn text(&self, file: &str, limit: u64) -> Result<(String, Vec<u8>), Error> {
        let member = format!("{}/{file}", self.dist_info()?);
        let bytes = self.read(&member, limit)?;
        Ok((format!("{}: {member}", self.file.display()), bytes))
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    pub(crate) fn source(&self) -> &dyn Source {
        &*self.source
    }
}

/// Reads one member. The last bytes come only if the length and the CRC-32 are right.
pub struct MemberReader<'a> {
    source: &'a dyn Source,
    file: &'a Path,
    member: &'a Member,
    /// The next compressed byte to fetch, and how many are left.
    at: u64,
    left: u64,
    /// Bytes that are still to come out.
    missing: u64,
    inflate: Option<Box<Inflate>>,
    crc: crc32fast::Hasher,
    ended: bool,
}

struct Inflate {
    stream: Decompress,
    input: Vec<u8>,
    used: usize,
    filled: usize,
    /// The stream has said that it ends.
    done: bool,
}

impl<'a> MemberReader<'a> {
    /// `data` is where the member's bytes start.
    pub(crate) fn new(source: &'a dyn Source, file: &'a Path, member: &'a Member, data: u64) -> Self {
        let capacity = INPUT.min(member.compressed_size as usize);
        let inflate = member.is_deflated().then(|| {
            let stream = Decompress::new(false);
            Box::new(Inflate { stream, input: vec![0; capacity], used: 0, filled: 0, done: false })
        });
        Self {
            source,
            file,
            member,
            at: data,
            left: member.compressed_size,
            missing: member.size,
            inflate,
            crc: crc32fast::Hasher::new(),
            ended: false,
        }
    }

    /// As `Read::read`, with this crate's errors: 0 means that all bytes came and were right.
    pub(crate) fn fill(&mut self, buf: &mut [u8]) -> Result<usize, Error> {
        if buf.is_empty() || self.ended {
            return Ok(0);
        }
        let wanted = (buf.len() as u64).min(self.missing) as usize;
        let buf = &mut buf[..wanted];
        let len = match self.inflate {
            _ if wanted == 0 => 0,
            None => self.stored(buf)?,
            Some(_) => self
                .inflate(buf)?
                .ok_or_else(|| self.fail("its deflate stream ends before its size is reached"))?,
        };
        self.crc.update(&buf[..len]);
        self.missing -= len as u64;
        if self.missing == 0 {
            self.end()?;
        }
        Ok(len)
    }

    fn stored(&mut self, buf: &mut [u8]) -> Result<usize, Error> {
        self.source.read_exact_at(self.at, buf).map_err(Error::io("read", self.file))?;
        self.at += buf.len() as u64;
        self.left -= buf.len() as u64;
        Ok(buf.len())
    }

    /// Some bytes, at least one; `None` where the stream has ended.
    fn inflate(&mut self, buf: &mut [u8]) -> Result<Option<usize>, Error> {
        let fail = |reason: &str| member_error(self.file, &self.member.name, reason);
        let Some(inflate) = self.inflate.as_mut().filter(|inflate| !inflate.done) else { return Ok(None) };
        loop {
            if inflate.used == inflate.filled && self.left > 0 {
                let len = (inflate.input.len() as u64).min(self.left) as usize;
                let piece = &mut inflate.input[..len];
                self.source.read_exact_at(self.at, piece).map_err(Error::io("read", self.file))?;
                (inflate.used, inflate.filled) = (0, len);
                self.at += len as u64;
                self.left -= len as u64;
            }
            let (input, output) = (inflate.stream.total_in(), inflate.stream.total_out());
            let piece = &inflate.input[inflate.used..inflate.filled];
            let status = inflate
                .stream
                .decompress(piece, buf, FlushDecompress::None)
                .map_err(|error| fail(&format!("its deflate stream is damaged: {error}")))?;
            let taken = (inflate.stream.total_in() - input) as usize;
            let made = (inflate.stream.total_out() - output) as usize;
            inflate.used += taken;
            inflate.done = status == Status::StreamEnd;
            if made > 0 {
                return Ok(Some(made));
            }
            if inflate.done {
                return Ok(None);
            }
            if taken == 0 && self.left == 0 {
                return Err(fail("its deflate stream is cut short"));
            }
        }
    }

    /// All bytes came: the stream must end here, with none left over, and the CRC-32 must be right.
    fn end(&mut self) -> Result<(), Error> {
        if self.inflate(&mut [0])?.is_some() {
            return Err(self.fail("its deflate stream makes more bytes than its size says"));
        }
        if self.left != 0 || self.inflate.as_ref().is_some_and(|inflate| inflate.used != inflate.filled) {
            return Err(self.fail("bytes follow the end of its deflate stream"));
        }
        let (recorded, computed) = (self.member.crc32, self.crc.clone().finalize());
        if recorded != computed {
            let (file, member) = (self.file.to_owned(), self.member.name.clone());
            return Err(Error::Crc { file, member, recorded, computed });
        }
        self.ended = true;
        Ok(())
    }

    fn fail(&self, reason: &str) -> Error {
        member_error(self.file, &self.member.name, reason)
    }
}

impl Read for MemberReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.fill(buf).map_err(io::Error::other)
    }
}
