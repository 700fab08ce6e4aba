//! The trailing segment: a readable, writable `PT_LOAD` at the end of the file, whose last part is `.dynstr`.

use goblin::elf::dynamic::{DT_STRSZ, DT_STRTAB, Dyn};
use goblin::elf::program_header::{PF_R, PF_W, PF_X, PT_DYNAMIC, PT_LOAD, ProgramHeader};
use goblin::elf::section_header::{SHF_ALLOC, SHT_DYNAMIC, SHT_STRTAB};

use crate::error::Error;
use crate::front::Slot;
use crate::image::section_end;
use crate::plan::Draft;

/// Alignment of what is placed in the segment, in bytes.
const ALIGN: u64 = 16;
/// Free entries in a dynamic table that had to move, so that it never moves again.
const SPARE_ENTRIES: u64 = 4;
/// Zero bytes that may follow a last segment that is extended (patchelf leaves one or two).
const MAX_STRAY: u64 = 0x1_0000;
/// Largest believable segment alignment, in bytes.
const MAX_ALIGN: u64 = 1 << 30;
/// The most zero bytes put before the segment of a program, to keep its headers where kernels before 5.18
/// expect them. They are a hole in the file.
const MAX_HOLE: u64 = 64 << 20;

/// The trailing segment while it is being filled.
pub(crate) struct Tail {
    /// Its program header.
    segment: usize,
    /// Address less file offset.
    delta: u64,
    /// End of what is in it, in the file.
    cursor: u64,
}

impl Tail {
    /// Reserves `len` bytes whose address is congruent to `phase` modulo [`ALIGN`]; returns offset and address.
    pub(crate) fn reserve(&mut self, len: u64, phase: u64) -> (u64, u64) {
        let misfit = self.cursor.wrapping_add(self.delta).wrapping_sub(phase) % ALIGN;
        let offset = self.cursor + (ALIGN - misfit) % ALIGN;
        self.cursor = offset.saturating_add(len);
        (offset, offset.wrapping_add(self.delta))
    }
}

impl Draft<'_> {
    /// Puts `value` behind everything else; returns its index in `.dynstr`.
    pub(crate) fn append(&mut self, value: &[u8]) -> Result<u64, Error> {
        let last = self.trailing_load()?;
        if let Some(segment) = last.filter(|_| self.has_slot())
            && self.strings_are_last(segment)?
        {
            return self.extend_strings(segment, value);
        }
        let mut tail = match last {
            Some(segment) => self.reopen(segment),
            None => self.open_segment()?,
        };
        if !self.has_slot() {
            self.move_dynamic(&mut tail);
        }
        let index = self.move_strings(&mut tail, value)?;
        self.close(&tail)?;
        Ok(index)
    }

    /// The last segment in the file and in memory, if it may grow: writable, no zero-filled end (`.bss`), and
    /// nothing behind it but some zeros. One that an earlier run or patchelf made is recognised by this.
    fn trailing_load(&self) -> Result<Option<usize>, Error> {
        let loads = self.segments.iter().enumerate().filter(|(_, segment)| segment.p_type == PT_LOAD);
        let Some((at, load)) = loads.max_by_key(|(_, segment)| segment.p_vaddr) else { return Ok(None) };
        let end = load.p_offset + load.p_filesz;
        let grows = load.p_filesz == load.p_memsz && load.p_flags & (PF_R | PF_W | PF_X) == PF_R | PF_W;
        if !grows || self.content_end() > end || self.len - end > MAX_STRAY {
            return Ok(None);
        }
        Ok(self.is_zero(end, self.len)?.then_some(at))
    }

    /// Where the last thing that the headers tell of ends.
    fn content_end(&self) -> u64 {
        let table = self.sections.len() as u64 * u64::from(self.header.e_shentsize);
        let table = if table == 0 { 0 } else { self.header.e_shoff.saturating_add(table) };
        let sections = self.sections.iter().filter_map(section_end);
        let segments = self.segments.iter().map(|segment| segment.p_offset.saturating_add(segment.p_filesz));
        sections.chain(segments).fold(table, u64::max)
    }

    pub(crate) fn is_zero(&self, from: u64, to: u64) -> Result<bool, Error> {
        let mut zero = true;
        self.image.stream(from, to.saturating_sub(from), 1, "padding", |piece| {
            zero = piece.iter().all(|byte| *byte == 0);
            zero
        })?;
        Ok(zero)
    }

    /// Whether nothing but padding lies between the end of `.dynstr` and that of the segment. patchelf rounds
    /// the segment up to 8 bytes; that the bytes belong to nothing else is known by the section headers only.
    fn strings_are_last(&self, segment: usize) -> Result<bool, Error> {
        let end = self.segments[segment].p_offset + self.segments[segment].p_filesz;
        let from = self.strings.offset + self.strings.len;
        if from == end {
            return Ok(true);
        }
        let padding = from < end && end - from < ALIGN && !self.sections.is_empty();
        let used = |to: Option<u64>, at: u64| at < end && to.is_some_and(|to| from < to);
        let dynamic = self.image.dynamic.as_ref().map_or(0, |dynamic| dynamic.offset);
        if !padding
            || self.sections.iter().any(|section| used(section_end(section), section.sh_offset))
            || (from..end).contains(&dynamic)
            || (from..end).contains(&self.header.e_phoff)
            || (from..end).contains(&self.header.e_shoff)
        {
            return Ok(false);
        }
        self.is_zero(from, end)
    }

    /// The table is the last thing in the file: the value goes behind its last string, or over it if that
    /// is the old search path.
    fn extend_strings(&mut self, segment: usize, value: &[u8]) -> Result<u64, Error> {
        let (index, over) = self.string_end()?;
        self.wipe(over);
        let mut bytes = value.to_vec();
        bytes.push(0);
        let len = index + bytes.len() as u64;
        let offset = self.strings.offset + index;
        self.write(offset, bytes);
        self.set_strings(self.strings.offset, self.strings.vaddr, len);
        let delta = self.segments[segment].p_vaddr.wrapping_sub(self.segments[segment].p_offset);
        self.close(&Tail { segment, delta, cursor: self.strings.offset + len })?;
        Ok(index)
    }

    /// The index at which a new string goes, and the search path that is overwritten by it.
    fn string_end(&self) -> Result<(u64, Option<usize>), Error> {
        for (at, text) in self.texts.iter().enumerate() {
            let rest = self.strings.len - text.start - 1;
            if !text.shared && text.limit == self.strings.len && self.room(text)? == rest {
                return Ok((text.start, Some(at)));
            }
        }
        let ends = self.strings.len == 0
            || self.is_zero(
                self.strings.offset + self.strings.len - 1,
                self.strings.offset + self.strings.len,
            )?;
        Ok((self.strings.len + u64::from(!ends), None))
    }

    fn reopen(&self, segment: usize) -> Tail {
        let load = &self.segments[segment];
        Tail {
            segment,
            delta: load.p_vaddr.wrapping_sub(load.p_offset),
            cursor: load.p_offset + load.p_filesz,
        }
    }

    /// Adds a program header for a new last segment.
    fn open_segment(&mut self) -> Result<Tail, Error> {
        let end = self.content_end();
        if !self.sections.is_empty() && end < self.len && !self.is_zero(end, self.len)? {
            return Err(
                self.no_room("data follows the end of the ELF file, and its reader may look for it there")
            );
        }
        let loads = || self.segments.iter().filter(|segment| segment.p_type == PT_LOAD);
        let page = self.image.machine().max_page_size().unwrap_or(1);
        let align = loads().map(|load| load.p_align).max().unwrap_or(1).max(page);
        if !align.is_power_of_two() || align > MAX_ALIGN {
            return Err(self.no_room(format!("a segment's alignment is {align:#x}")));
        }
        let top = loads().map(|load| load.p_vaddr.saturating_add(load.p_memsz)).max().unwrap_or(0);
        let top = top.checked_next_multiple_of(align);
        let (Some(mut offset), Some(mut vaddr)) = (self.len.checked_next_multiple_of(ALIGN), top) else {
            return Err(self.no_room("the address space is full"));
        };
        let slot = self.find_slot()?;
        if slot == Slot::Moved && self.is_program() {
            // Kernels before 5.18 tell a program that its headers are at e_phoff from the first segment's
            // start (AT_PHDR), wherever they are mapped: this holds where address and offset differ alike.
            let delta = loads().next().map_or(0, |first| first.p_vaddr.wrapping_sub(first.p_offset));
            let least = vaddr.saturating_sub(delta).max(offset);
            if delta % align != 0 || least - offset > MAX_HOLE || delta > vaddr {
                return Err(self.no_room("the program headers cannot grow or move"));
            }
            offset = least;
            vaddr = offset.saturating_add(delta);
        } else {
            vaddr = vaddr.saturating_add(offset % align);
        }
        let header = ProgramHeader {
            p_type: PT_LOAD,
            p_flags: PF_R | PF_W,
            p_offset: offset,
            p_vaddr: vaddr,
            p_paddr: vaddr,
            p_filesz: 0,
            p_memsz: 0,
            p_align: align,
        };
        if let Slot::Null(at) = slot {
            self.segments.remove(at);
        }
        let behind = self.segments.iter().rposition(|segment| segment.p_type == PT_LOAD);
        let segment = behind.map_or(self.segments.len(), |at| at + 1);
        self.segments.insert(segment, header);
        let mut tail = Tail { segment, delta: vaddr.wrapping_sub(offset), cursor: offset };
        self.use_slot(&slot, &mut tail)?;
        Ok(tail)
    }

    /// Moves the dynamic table, with room for more entries. A symbol `_DYNAMIC` keeps naming the old one.
    fn move_dynamic(&mut self, tail: &mut Tail) {
        let count = self.entries.len() as u64 + 2 + SPARE_ENTRIES;
        let len = count * self.image.size::<Dyn>();
        let (offset, vaddr) = tail.reserve(len, 0);
        self.dynamic_at = offset;
        self.dynamic_moved = true;
        for segment in self.segments.iter_mut().filter(|segment| segment.p_type == PT_DYNAMIC) {
            (segment.p_offset, segment.p_vaddr, segment.p_paddr) = (offset, vaddr, vaddr);
            (segment.p_filesz, segment.p_memsz) = (len, len);
        }
        for section in self.sections.iter_mut().filter(|section| section.sh_type == SHT_DYNAMIC) {
            (section.sh_offset, section.sh_addr, section.sh_size) = (offset, vaddr, len);
        }
    }

    /// Copies `.dynstr` and puts `value` behind it. Every index into it stays what it was.
    fn move_strings(&mut self, tail: &mut Tail, value: &[u8]) -> Result<u64, Error> {
        let (index, over) = self.string_end()?;
        let keep = if over.is_some() { index } else { self.strings.len };
        let len = index + value.len() as u64 + 1;
        let (offset, vaddr) = tail.reserve(len, 0);
        let mut from = 0;
        for (start, end) in self.wipes(None) {
            if from < start.min(keep) {
                self.copy(offset + from, self.strings.offset + from, start.min(keep) - from);
            }
            from = end;
        }
        if from < keep {
            self.copy(offset + from, self.strings.offset + from, keep - from);
        }
        self.wipe(None);
        self.write(offset + index, value.to_vec());
        self.set_strings(offset, vaddr, len);
        Ok(index)
    }

    fn set_strings(&mut self, offset: u64, vaddr: u64, len: u64) {
        self.set_entry(DT_STRTAB, vaddr);
        self.set_entry(DT_STRSZ, len);
        let old = self.strings.vaddr;
        for section in &mut self.sections {
            let alloc = section.sh_flags & u64::from(SHF_ALLOC) != 0;
            if section.sh_type == SHT_STRTAB && alloc && section.sh_addr == old {
                (section.sh_offset, section.sh_addr, section.sh_size) = (offset, vaddr, len);
            }
        }
    }

    /// Gives the segment and the file the size of what is in them.
    fn close(&mut self, tail: &Tail) -> Result<(), Error> {
        let start = self.segments[tail.segment].p_vaddr;
        let end = tail.cursor.wrapping_add(tail.delta);
        if end < start || end.max(tail.cursor) > self.image.max_address() {
            return Err(self.no_room("the address space is full"));
        }
        let segment = &mut self.segments[tail.segment];
        segment.p_filesz = tail.cursor - segment.p_offset;
        segment.p_memsz = segment.p_filesz;
        self.len = self.len.max(tail.cursor);
        Ok(())
    }
}
