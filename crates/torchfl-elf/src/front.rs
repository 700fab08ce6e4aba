//! Room for one more program header, as near to the file's start as can be had.
//!
//! Program headers are best left where they are: kernels before 5.18, debuggers and binutils expect them
//! behind the ELF header. What lies behind them is, in most files, notes, the interpreter's name or a table
//! that only one pointer refers to, and can be moved instead.

use goblin::elf::dynamic as dt;
use goblin::elf::program_header::{
    PT_GNU_PROPERTY, PT_INTERP, PT_LOAD, PT_NOTE, PT_NULL, PT_PHDR, ProgramHeader,
};
use goblin::elf::section_header as sh;

use crate::error::Error;
use crate::image::section_end;
use crate::plan::Draft;
use crate::tail::Tail;

/// The largest area that is zeroed behind the grown program headers, in bytes.
const MAX_ZEROED: u64 = 4096;

/// Tags whose value is an address that the loader follows (gABI; glibc `elf/elf.h`).
const POINTERS: [u64; 20] = [
    dt::DT_PLTGOT,
    dt::DT_HASH,
    dt::DT_STRTAB,
    dt::DT_SYMTAB,
    dt::DT_RELA,
    dt::DT_INIT,
    dt::DT_FINI,
    dt::DT_REL,
    dt::DT_JMPREL,
    dt::DT_INIT_ARRAY,
    dt::DT_FINI_ARRAY,
    dt::DT_PREINIT_ARRAY,
    36,          // DT_RELR
    0x6fff_fef5, // DT_GNU_HASH
    0x6fff_fef6, // DT_TLSDESC_PLT
    0x6fff_fef7, // DT_TLSDESC_GOT
    0x6fff_fef8, // DT_GNU_CONFLICT
    0x6fff_fff0, // DT_VERSYM
    0x6fff_fffc, // DT_VERDEF
    0x6fff_fffe, // DT_VERNEED
];

/// Tables that hold no address and that nothing but their tag refers to: section type and tag.
const MOVABLE: [(u32, u64); 6] = [
    (sh::SHT_HASH, dt::DT_HASH),
    (sh::SHT_GNU_HASH, dt::DT_GNU_HASH),
    (sh::SHT_DYNSYM, dt::DT_SYMTAB),
    (sh::SHT_GNU_VERSYM, dt::DT_VERSYM),
    (sh::SHT_GNU_VERDEF, dt::DT_VERDEF),
    (sh::SHT_GNU_VERNEED, dt::DT_VERNEED),
];

/// Where a program header comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// An unused entry (`PT_NULL`).
    Null(usize),
    /// Unused zero bytes behind the table.
    Gap,
    /// What lies behind the table moves to the trailing segment: file offset and end.
    Front(u64, u64),
    /// The table itself moves there.
    Moved,
}

/// Something behind the program headers.
struct Occupant {
    from: u64,
    to: u64,
    movable: bool,
}

impl Draft<'_> {
    pub(crate) fn find_slot(&self) -> Result<Slot, Error> {
        if let Some(at) = self.segments.iter().position(|segment| segment.p_type == PT_NULL) {
            return Ok(Slot::Null(at));
        }
        if self.segments.len() >= 0xfffe {
            return Err(self.no_room("there are 65534 program headers"));
        }
        Ok(self.behind_headers()?.unwrap_or(Slot::Moved))
    }

    /// Whether what follows the program headers is free or can be moved.
    fn behind_headers(&self) -> Result<Option<Slot>, Error> {
        let size = self.image.size::<ProgramHeader>();
        let start = self.header.e_phoff + self.segments.len() as u64 * size;
        let mut end = start + size;
        let occupants = self.occupants();
        loop {
            let mut inside = occupants.iter().filter(|occupant| occupant.from < end && start < occupant.to);
            if inside.any(|occupant| !occupant.movable || occupant.from < start) {
                return Ok(None);
            }
            let inside = occupants.iter().filter(|occupant| occupant.from < end && start < occupant.to);
            let reach = inside.map(|occupant| occupant.to).fold(end, u64::max);
            if reach == end {
                break;
            }
            end = reach;
        }
        let mut covered: Vec<(u64, u64)> =
            occupants.iter().filter(|o| o.from < end && start < o.to).map(|o| (o.from, o.to)).collect();
        covered.sort_unstable();
        if !self.in_one_load(self.header.e_phoff, end) || self.is_pointed_at(start, end, &occupants) {
            return Ok(None);
        }
        // Bytes that no header tells of are free only where they are zero.
        let mut from = start;
        for (next, to) in covered.iter().copied().chain([(end, end)]) {
            if from < next && !self.is_zero(from, next)? {
                return Ok(None);
            }
            from = from.max(to);
        }
        Ok(Some(if covered.is_empty() { Slot::Gap } else { Slot::Front(start, end) }))
    }

    /// Everything but the loadable segments and the program headers themselves that has bytes in the file.
    fn occupants(&self) -> Vec<Occupant> {
        let mut all = Vec::new();
        let range = |from: u64, len: u64, movable| Occupant { from, to: from.saturating_add(len), movable };
        for segment in &self.segments {
            if segment.p_filesz > 0 && !matches!(segment.p_type, PT_LOAD | PT_PHDR | PT_NULL) {
                let movable = matches!(segment.p_type, PT_NOTE | PT_GNU_PROPERTY | PT_INTERP)
                    && self.is_mapped_at(segment.p_vaddr, segment.p_offset);
                all.push(range(segment.p_offset, segment.p_filesz, movable));
            }
        }
        for section in &self.sections {
            if let Some(to) = section_end(section) {
                let movable =
                    self.is_movable(section) && self.is_mapped_at(section.sh_addr, section.sh_offset);
                all.push(Occupant { from: section.sh_offset, to, movable });
            }
        }
        all.push(range(
            self.header.e_shoff,
            self.sections.len() as u64 * u64::from(self.header.e_shentsize),
            false,
        ));
        all.push(range(0, u64::from(self.header.e_ehsize), false));
        all.push(range(self.strings.offset, self.strings.len, false));
        let dynamic = self.image.dynamic.as_ref();
        all.extend(dynamic.map(|dynamic| range(dynamic.offset, 1, false)));
        all.retain(|occupant| occupant.from < occupant.to);
        all
    }

    fn is_mapped_at(&self, vaddr: u64, offset: u64) -> bool {
        self.image.locate(vaddr).is_some_and(|(found, _)| found == offset)
    }

    fn is_movable(&self, section: &sh::SectionHeader) -> bool {
        let inside = |segment: &&ProgramHeader| {
            matches!(segment.p_type, PT_NOTE | PT_GNU_PROPERTY | PT_INTERP)
                && segment.p_offset <= section.sh_offset
                && section_end(section)
                    .is_some_and(|end| end <= segment.p_offset.saturating_add(segment.p_filesz))
        };
        self.segments.iter().find(inside).is_some()
            || MOVABLE.iter().any(|(kind, tag)| {
                section.sh_type == *kind && self.image.entry(*tag) == Some(section.sh_addr)
            })
    }

    fn in_one_load(&self, from: u64, to: u64) -> bool {
        self.image.loads().any(|load| load.p_offset <= from && to <= load.p_offset + load.p_filesz)
    }

    /// Whether an address of the dynamic table or the entry point lies in the range, other than the start of
    /// a section that moves with its pointer.
    fn is_pointed_at(&self, start: u64, end: u64, occupants: &[Occupant]) -> bool {
        let offset = |vaddr: u64| self.image.locate(vaddr).map(|(offset, _)| offset);
        let inside = |vaddr: u64| offset(vaddr).is_some_and(|offset| (start..end).contains(&offset));
        let moves = |tag: u64, vaddr: u64| {
            MOVABLE.iter().any(|(_, movable)| *movable == tag)
                && occupants.iter().any(|o| o.movable && Some(o.from) == offset(vaddr))
        };
        let entry = &self.entries;
        inside(self.header.e_entry) && self.header.e_entry != 0
            || entry.iter().any(|entry| {
                POINTERS.contains(&entry.d_tag) && inside(entry.d_val) && !moves(entry.d_tag, entry.d_val)
            })
    }

    /// Makes the table one entry longer (the entry is in `segments` already), by way of `slot`.
    pub(crate) fn use_slot(&mut self, slot: &Slot, tail: &mut Tail) -> Result<(), Error> {
        let len = self.segments.len() as u64 * self.image.size::<ProgramHeader>();
        self.header.e_phnum =
            u16::try_from(self.segments.len()).map_err(|_| self.no_room("program headers"))?;
        self.header_zone = len;
        match *slot {
            Slot::Null(_) | Slot::Gap => {}
            Slot::Front(from, to) => {
                self.move_front(from, to, tail)?;
                if to - self.header.e_phoff <= MAX_ZEROED {
                    self.header_zone = to - self.header.e_phoff;
                }
            }
            Slot::Moved => {
                let (offset, vaddr) = tail.reserve(len, 0);
                self.header.e_phoff = offset;
                for segment in self.segments.iter_mut().filter(|segment| segment.p_type == PT_PHDR) {
                    (segment.p_offset, segment.p_vaddr, segment.p_paddr) = (offset, vaddr, vaddr);
                }
            }
        }
        for segment in self.segments.iter_mut().filter(|segment| segment.p_type == PT_PHDR) {
            (segment.p_filesz, segment.p_memsz) = (len, len);
        }
        Ok(())
    }

    /// Copies a range from behind the program headers into the trailing segment, and redirects all that
    /// refers to it.
    fn move_front(&mut self, from: u64, to: u64, tail: &mut Tail) -> Result<(), Error> {
        let load =
            self.image.loads().find(|load| load.p_offset <= from && from < load.p_offset + load.p_filesz);
        let load = load.ok_or_else(|| self.image.malformed("program headers outside the segments"))?;
        let old_vaddr = load.p_vaddr + (from - load.p_offset);
        let (offset, vaddr) = tail.reserve(to - from, old_vaddr);
        self.copy(offset, from, to - from);
        let (by, by_vaddr) = (offset.wrapping_sub(from), vaddr.wrapping_sub(old_vaddr));
        let moved = |at: u64, len: u64| from <= at && len > 0 && at.saturating_add(len) <= to;
        for segment in &mut self.segments {
            let fixed = matches!(segment.p_type, PT_LOAD | PT_PHDR | PT_NULL);
            if !fixed && moved(segment.p_offset, segment.p_filesz) {
                segment.p_offset = segment.p_offset.wrapping_add(by);
                segment.p_vaddr = segment.p_vaddr.wrapping_add(by_vaddr);
                segment.p_paddr = segment.p_paddr.wrapping_add(by_vaddr);
            }
        }
        for section in &mut self.sections {
            if section_end(section).is_some() && moved(section.sh_offset, section.sh_size) {
                section.sh_offset = section.sh_offset.wrapping_add(by);
                section.sh_addr = section.sh_addr.wrapping_add(by_vaddr);
            }
        }
        let end = old_vaddr + (to - from);
        for entry in &mut self.entries {
            if POINTERS.contains(&entry.d_tag) && (old_vaddr..end).contains(&entry.d_val) {
                entry.d_val = entry.d_val.wrapping_add(by_vaddr);
            }
        }
        Ok(())
    }
}
