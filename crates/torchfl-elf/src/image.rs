//! One ELF file: its headers, its dynamic entries, and bounded reads of what they point at.

use goblin::container::{Container, Ctx, Endian};
use goblin::elf::dynamic::{DT_STRSZ, DT_STRTAB, Dyn};
use goblin::elf::header::{self, Header};
use goblin::elf::program_header::{PT_DYNAMIC, PT_LOAD, ProgramHeader};
use goblin::elf::section_header::{SHT_NOBITS, SectionHeader};
use scroll::ctx::{SizeWith, TryFromCtx, TryIntoCtx};
use scroll::{Pread, Pwrite};

use crate::error::Error;
use crate::machine::Machine;
use crate::read_at::ReadAt;

/// Bytes read at a time where a table is streamed.
const CHUNK: u64 = 0x1_0000;
/// The largest range that is held in memory at once.
const MAX_HELD: u64 = 16 << 20;
/// The most dynamic entries a file may have. Real files have fewer than a hundred.
const MAX_DYNAMIC: u64 = 4096;

/// The file's bytes and its parsed headers.
pub(crate) struct Image<'a> {
    pub(crate) file: &'a dyn ReadAt,
    pub(crate) name: &'a str,
    pub(crate) ctx: Ctx,
    pub(crate) header: Header,
    pub(crate) segments: Vec<ProgramHeader>,
    pub(crate) dynamic: Option<Dynamic>,
}

/// The dynamic table, as far as its first `DT_NULL`.
#[derive(Debug, Clone)]
pub(crate) struct Dynamic {
    /// Offset of the first entry in the file.
    pub(crate) offset: u64,
    /// Entries before the first `DT_NULL`.
    pub(crate) entries: Vec<Dyn>,
    /// `DT_NULL` entries in a row after them; at least one.
    pub(crate) nulls: usize,
}

/// The dynamic string table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Strings {
    pub(crate) offset: u64,
    pub(crate) vaddr: u64,
    pub(crate) len: u64,
}

impl<'a> Image<'a> {
    /// Reads the headers and the dynamic table.
    pub(crate) fn open(file: &'a dyn ReadAt, name: &'a str) -> Result<Self, Error> {
        let (header, ctx) = read_header(file, name)?;
        let mut image = Self { file, name, ctx, header, segments: Vec::new(), dynamic: None };
        image.segments = image.read_segments()?;
        image.check_extents()?;
        image.dynamic = image.read_dynamic()?;
        Ok(image)
    }

    pub(crate) fn malformed(&self, what: impl Into<String>) -> Error {
        Error::Malformed { name: self.name.to_owned(), what: what.into() }
    }

    pub(crate) fn machine(&self) -> Machine {
        Machine(self.header.e_machine)
    }

    pub(crate) fn is_64(&self) -> bool {
        self.ctx.is_big()
    }

    /// Largest address and file offset of the class.
    pub(crate) fn max_address(&self) -> u64 {
        if self.is_64() { u64::MAX } else { u64::from(u32::MAX) }
    }

    /// Bytes of one `T` in this file's class.
    pub(crate) fn size<T: SizeWith<Ctx>>(&self) -> u64 {
        T::size_with(&self.ctx) as u64
    }

    /// Fills `buf`, naming `what` where the file ends too early.
    pub(crate) fn read(&self, offset: u64, buf: &mut [u8], what: &'static str) -> Result<(), Error> {
        read(self.file, self.name, offset, buf, what)
    }

    /// A range held in memory; for tables that are small in any honest file.
    pub(crate) fn bytes(&self, offset: u64, len: u64, what: &'static str) -> Result<Vec<u8>, Error> {
        self.bytes_within(offset, len, MAX_HELD, what)
    }

    /// A range held in memory, of at most `limit` bytes.
    pub(crate) fn bytes_within(
        &self,
        offset: u64,
        len: u64,
        limit: u64,
        what: &'static str,
    ) -> Result<Vec<u8>, Error> {
        in_file(self.file, self.name, offset, len, what)?;
        if len > limit {
            return Err(self.malformed(format!("{what} of {len} bytes")));
        }
        let mut buf = vec![0; len as usize];
        self.read(offset, &mut buf, what)?;
        Ok(buf)
    }

    /// Hands a range to `visit` in pieces; each is a whole number of `item` bytes. `false` stops.
    pub(crate) fn stream(
        &self,
        offset: u64,
        len: u64,
        item: u64,
        what: &'static str,
        mut visit: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), Error> {
        in_file(self.file, self.name, offset, len, what)?;
        let step = (CHUNK / item).max(1) * item;
        let mut buf = vec![0; step.min(len) as usize];
        let mut done = 0;
        while done < len {
            let piece = &mut buf[..step.min(len - done) as usize];
            self.read(offset + done, piece, what)?;
            if !visit(piece) {
                return Ok(());
            }
            done += piece.len() as u64;
        }
        Ok(())
    }

    /// The 16-, 32- or 64-bit number at an offset.
    pub(crate) fn number<T>(&self, offset: u64, what: &'static str) -> Result<T, Error>
    where
        T: for<'b> TryFromCtx<'b, Endian, Error = scroll::Error> + Copy + Default,
    {
        let mut buf = [0; 8];
        let buf = &mut buf[..size_of::<T>()];
        self.read(offset, buf, what)?;
        self.parse(buf, 0, what)
    }

    /// A number in bytes already read.
    pub(crate) fn parse<T>(&self, bytes: &[u8], at: usize, what: &'static str) -> Result<T, Error>
    where
        T: for<'b> TryFromCtx<'b, Endian, Error = scroll::Error>,
    {
        bytes.pread_with(at, self.ctx.le).map_err(|_| self.malformed(what))
    }

    /// Parses a table held in memory.
    pub(crate) fn table<T>(&self, bytes: &[u8], what: &'static str) -> Result<Vec<T>, Error>
    where
        T: for<'b> TryFromCtx<'b, Ctx, Error = goblin::error::Error> + SizeWith<Ctx>,
    {
        bytes
            .chunks_exact(T::size_with(&self.ctx))
            .map(|record| record.pread_with(0, self.ctx).map_err(|_| self.malformed(what)))
            .collect()
    }

    /// The bytes of a table.
    pub(crate) fn encode<T>(&self, records: &[T]) -> Result<Vec<u8>, Error>
    where
        T: Clone + TryIntoCtx<Ctx, Error = goblin::error::Error> + SizeWith<Ctx>,
    {
        let size = T::size_with(&self.ctx);
        let mut bytes = vec![0; size * records.len()];
        for (record, room) in records.iter().zip(bytes.chunks_exact_mut(size)) {
            room.pwrite_with(record.clone(), 0, self.ctx).map_err(|e| self.malformed(e.to_string()))?;
        }
        Ok(bytes)
    }

    /// An address or offset in this file's width and byte order.
    pub(crate) fn word(&self, value: u64) -> Result<Vec<u8>, Error> {
        let le = self.ctx.is_little_endian();
        if self.is_64() {
            return Ok(if le { value.to_le_bytes() } else { value.to_be_bytes() }.to_vec());
        }
        let value = u32::try_from(value).map_err(|_| self.malformed("an offset of more than 32 bits"))?;
        Ok(if le { value.to_le_bytes() } else { value.to_be_bytes() }.to_vec())
    }

    pub(crate) fn loads(&self) -> impl Iterator<Item = &ProgramHeader> {
        self.segments.iter().filter(|segment| segment.p_type == PT_LOAD)
    }

    /// Where an address lies in the file, and how many bytes of the file are mapped from there on.
    pub(crate) fn locate(&self, vaddr: u64) -> Option<(u64, u64)> {
        locate(&self.segments, vaddr)
    }

    /// The file offset of `len` mapped bytes.
    pub(crate) fn offset_of(&self, vaddr: u64, len: u64, what: &'static str) -> Result<u64, Error> {
        match self.locate(vaddr) {
            Some((offset, room)) if room >= len => Ok(offset),
            _ => Err(self.malformed(format!("{what} at address {vaddr:#x} is not in the file"))),
        }
    }

    /// The value of the last entry with this tag: the one glibc keeps (`elf_get_dynamic_info`).
    pub(crate) fn entry(&self, tag: u64) -> Option<u64> {
        let entries = &self.dynamic.as_ref()?.entries;
        entries.iter().rev().find(|entry| entry.d_tag == tag).map(|entry| entry.d_val)
    }

    /// The dynamic string table, if there is one.
    pub(crate) fn strings(&self) -> Result<Option<Strings>, Error> {
        let Some(vaddr) = self.entry(DT_STRTAB) else { return Ok(None) };
        let len = self.entry(DT_STRSZ).ok_or_else(|| self.malformed("DT_STRTAB without DT_STRSZ"))?;
        let offset = self.offset_of(vaddr, len.max(1), "the dynamic string table")?;
        Ok(Some(Strings { offset, vaddr, len }))
    }

    /// The NUL-terminated string at `index` of the dynamic string table; at most `limit` bytes of it.
    pub(crate) fn string(&self, strings: Strings, index: u64, limit: u64) -> Result<Vec<u8>, Error> {
        let room = strings.len.checked_sub(index).filter(|room| *room > 0);
        let room = room.ok_or_else(|| self.malformed(format!("string {index:#x} is outside .dynstr")))?;
        let mut text = Vec::new();
        let mut buf = [0; 256];
        loop {
            let piece = &mut buf[..(room - text.len() as u64).min(256) as usize];
            self.read(strings.offset + index + text.len() as u64, piece, ".dynstr")?;
            if let Some(end) = piece.iter().position(|byte| *byte == 0) {
                text.extend_from_slice(&piece[..end]);
                return Ok(text);
            }
            text.extend_from_slice(piece);
            if text.len() as u64 >= room {
                return Err(self.malformed(format!("string {index:#x} runs past the end of .dynstr")));
            }
            if text.len() as u64 > limit {
                return Err(self.malformed(format!("string {index:#x} is longer than {limit} bytes")));
            }
        }
    }

    /// The section headers; empty where the file has none.
    pub(crate) fn sections(&self) -> Result<Vec<SectionHeader>, Error> {
        let count = self.section_count()?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let len = count * self.size::<SectionHeader>();
        let bytes = self.bytes(self.header.e_shoff, len, "the section headers")?;
        self.table(&bytes, "section header")
    }

    /// Number of section headers (gABI: 0 with a table means that the first header's `sh_size` holds it).
    pub(crate) fn section_count(&self) -> Result<u64, Error> {
        if self.header.e_shoff == 0 {
            return Ok(0);
        }
        let size = self.size::<SectionHeader>();
        if u64::from(self.header.e_shentsize) != size {
            // A file whose table was cut off by hand often keeps e_shoff.
            return if self.header.e_shnum == 0 { Ok(0) } else { Err(self.malformed("e_shentsize")) };
        }
        if self.header.e_shnum != 0 {
            return Ok(u64::from(self.header.e_shnum));
        }
        let first = self.bytes(self.header.e_shoff, size, "the section headers")?;
        let first = self.table::<SectionHeader>(&first, "section header")?;
        Ok(first.first().map_or(0, |section| section.sh_size))
    }

    fn read_segments(&self) -> Result<Vec<ProgramHeader>, Error> {
        let count = u64::from(self.header.e_phnum);
        if count == 0 {
            return Ok(Vec::new());
        }
        if count == 0xffff {
            return Err(self.malformed("more than 65534 program headers"));
        }
        if u64::from(self.header.e_phentsize) != self.size::<ProgramHeader>() {
            return Err(self.malformed("e_phentsize"));
        }
        let len = count * self.size::<ProgramHeader>();
        self.table(&self.bytes(self.header.e_phoff, len, "the program headers")?, "program header")
    }

    /// Segments and the section table end inside the file: a download that was cut short does not pass.
    fn check_extents(&self) -> Result<(), Error> {
        for segment in self.loads() {
            in_file(self.file, self.name, segment.p_offset, segment.p_filesz, "a segment")?;
        }
        let count = self.section_count()?;
        let len = count.checked_mul(self.size::<SectionHeader>());
        let len = len.ok_or_else(|| self.malformed("the number of section headers"))?;
        if count > 0 {
            in_file(self.file, self.name, self.header.e_shoff, len, "the section headers")?;
        }
        Ok(())
    }

    fn read_dynamic(&self) -> Result<Option<Dynamic>, Error> {
        let Some(segment) = self.segments.iter().find(|segment| segment.p_type == PT_DYNAMIC) else {
            return Ok(None);
        };
        if segment.p_filesz == 0 {
            return Ok(None); // a file of debug information only
        }
        // ld.so goes by the address; readelf by the offset. A file where they differ deceives one of them.
        let offset = self.offset_of(segment.p_vaddr, segment.p_filesz, "the dynamic table")?;
        if offset != segment.p_offset {
            return Err(self.malformed("PT_DYNAMIC's offset and address name different bytes"));
        }
        let size = self.size::<Dyn>();
        let bytes = self.bytes(offset, segment.p_filesz.min(MAX_DYNAMIC * size), "the dynamic table")?;
        let mut entries: Vec<Dyn> = self.table(&bytes, "dynamic entry")?;
        let end = entries.iter().position(|entry| entry.d_tag == 0);
        let end = end.ok_or_else(|| self.malformed("the dynamic table has no end (DT_NULL)"))?;
        let nulls = entries[end..].iter().take_while(|entry| entry.d_tag == 0).count();
        entries.truncate(end);
        Ok(Some(Dynamic { offset, entries, nulls }))
    }
}

/// Where an address lies in the file, by these program headers.
pub(crate) fn locate(segments: &[ProgramHeader], vaddr: u64) -> Option<(u64, u64)> {
    segments.iter().filter(|segment| segment.p_type == PT_LOAD).find_map(|segment| {
        let inside = vaddr.checked_sub(segment.p_vaddr)?;
        (inside < segment.p_filesz).then(|| (segment.p_offset + inside, segment.p_filesz - inside))
    })
}

/// The end of a section's bytes in the file; `None` where it has none.
pub(crate) fn section_end(section: &SectionHeader) -> Option<u64> {
    if section.sh_type == SHT_NOBITS || section.sh_type == 0 || section.sh_size == 0 {
        return None;
    }
    Some(section.sh_offset.saturating_add(section.sh_size))
}

fn read_header(file: &dyn ReadAt, name: &str) -> Result<(Header, Ctx), Error> {
    let not_elf = || Error::NotElf { name: name.to_owned() };
    let mut bytes = [0; header::header64::SIZEOF_EHDR];
    if file.len() < header::SIZEOF_IDENT as u64 {
        return Err(not_elf());
    }
    read(file, name, 0, &mut bytes[..header::SIZEOF_IDENT], "the ELF header")?;
    if &bytes[..4] != header::ELFMAG {
        return Err(not_elf());
    }
    let malformed = |what: &str| Error::Malformed { name: name.to_owned(), what: what.to_owned() };
    let (container, len) = match bytes[header::EI_CLASS] {
        header::ELFCLASS32 => (Container::Little, header::header32::SIZEOF_EHDR),
        header::ELFCLASS64 => (Container::Big, header::header64::SIZEOF_EHDR),
        _ => return Err(malformed("the ELF class")),
    };
    let endian = match bytes[header::EI_DATA] {
        header::ELFDATA2LSB => Endian::Little,
        header::ELFDATA2MSB => Endian::Big,
        _ => return Err(malformed("the byte order")),
    };
    read(file, name, 0, &mut bytes[..len], "the ELF header")?;
    let header: Header = bytes.pread(0).map_err(|e: goblin::error::Error| malformed(&e.to_string()))?;
    Ok((header, Ctx::new(container, endian)))
}

fn in_file(file: &dyn ReadAt, name: &str, offset: u64, len: u64, what: &'static str) -> Result<(), Error> {
    let end = offset.saturating_add(len);
    if end > file.len() {
        return Err(Error::Truncated { name: name.to_owned(), what, end, len: file.len() });
    }
    Ok(())
}

fn read(file: &dyn ReadAt, name: &str, offset: u64, buf: &mut [u8], what: &'static str) -> Result<(), Error> {
    in_file(file, name, offset, buf.len() as u64, what)?;
    file.read_exact_at(offset, buf).map_err(|source| Error::Read {
        name: name.to_owned(),
        offset,
        len: buf.len() as u64,
        source,
    })
}
