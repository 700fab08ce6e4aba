//! The tables the dynamic entries point at: symbols, versions, and every use of a dynamic string.

use std::ops::Range;

use goblin::elf::dynamic as dt;
use goblin::elf::section_header::SHT_DYNSYM;
use goblin::elf::sym::Sym;

use crate::error::Error;
use crate::image::Image;

/// The most version records a file may have, needed and defined each.
const MAX_VERSIONS: u32 = 0x1_0000;

/// Tags whose value is an index into the dynamic string table, search paths excepted
/// (glibc `elf/elf.h`; the last four are Solaris' and glibc's auditing and filters).
pub(crate) const STRING_TAGS: [u64; 7] =
    [dt::DT_NEEDED, dt::DT_SONAME, 0x6fff_fefa, 0x6fff_fefb, 0x6fff_fefc, 0x7fff_fffd, 0x7fff_ffff];

/// The dynamic symbol table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Located {
    pub(crate) offset: u64,
    pub(crate) count: u64,
    /// Indices that a look-up by name can reach.
    pub(crate) hashed: Range<u64>,
}

/// One record of `.gnu.version_r`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Need {
    /// A file's name (`vn_file`).
    File(u32),
    /// A version of the file named before.
    Version { name: u32, flags: u16, index: u16 },
}

/// One name in `.gnu.version_d`; `first` marks the version itself, the others are its predecessors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Definition {
    pub(crate) name: u32,
    pub(crate) index: u16,
    /// `vd_flags`.
    pub(crate) flags: u16,
    pub(crate) first: bool,
}

impl Image<'_> {
    /// The dynamic symbols. Their number is not stored: it is the largest that the hash tables and, beside
    /// them, the section header or (without one) the relocations tell.
    pub(crate) fn symbol_table(&self) -> Result<Option<Located>, Error> {
        let Some(vaddr) = self.entry(dt::DT_SYMTAB) else { return Ok(None) };
        let (offset, room) =
            self.locate(vaddr).ok_or_else(|| self.malformed("the dynamic symbols are not in the file"))?;
        let (sysv, gnu) = (self.symbols_by_sysv_hash()?, self.symbols_by_gnu_hash()?);
        let mut count = sysv.end.max(gnu.end);
        let section = self
            .sections()?
            .iter()
            .find(|section| section.sh_type == SHT_DYNSYM && section.sh_addr == vaddr)
            .map(|section| section.sh_size / self.size::<Sym>());
        count = match section {
            Some(by_section) => count.max(by_section),
            None => count.max(self.symbols_by_relocations()?),
        };
        if count > room / self.size::<Sym>() {
            return Err(self.malformed(format!("{count} dynamic symbols do not fit their segment")));
        }
        // Where both are there, glibc uses the latter (elf/dl-setup_hash.c).
        let hashed = if self.entry(dt::DT_GNU_HASH).is_some() { gnu } else { sysv };
        Ok(Some(Located { offset, count, hashed }))
    }

    /// Up to `nchain` of `DT_HASH`.
    fn symbols_by_sysv_hash(&self) -> Result<Range<u64>, Error> {
        let Some(vaddr) = self.entry(dt::DT_HASH) else { return Ok(0..0) };
        let word = self.machine().hash_word(self.is_64());
        let offset = self.offset_of(vaddr, 2 * word, "DT_HASH")?;
        let (buckets, end) = if word == 8 {
            (self.number(offset, "DT_HASH")?, self.number(offset + 8, "DT_HASH")?)
        } else {
            let word = |at| self.number::<u32>(at, "DT_HASH").map(u64::from);
            (word(offset)?, word(offset + 4)?)
        };
        Ok(if buckets == 0 { end..end } else { 1..end })
    }

    /// Up to the end of the chain that holds the largest bucket of `DT_GNU_HASH`. Symbols that are not hashed
    /// come first; without any hashed symbol the header's `symoffset` says nothing (bfd writes 1).
    fn symbols_by_gnu_hash(&self) -> Result<Range<u64>, Error> {
        const WHAT: &str = "DT_GNU_HASH";
        let Some(vaddr) = self.entry(dt::DT_GNU_HASH) else { return Ok(0..0) };
        let (offset, room) = self.locate(vaddr).ok_or_else(|| self.malformed(WHAT))?;
        let buckets: u64 = self.number::<u32>(offset, WHAT)?.into();
        let first: u64 = self.number::<u32>(offset + 4, WHAT)?.into();
        let filter: u64 = self.number::<u32>(offset + 8, WHAT)?.into();
        let chains = 16 + filter * if self.is_64() { 8 } else { 4 } + buckets * 4;
        if chains > room {
            return Err(self.malformed(WHAT));
        }
        let le = self.ctx.le.is_little();
        let word = |bytes: &[u8]| {
            let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
            if le { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
        };
        let mut last = 0;
        self.stream(offset + chains - buckets * 4, buckets * 4, 4, WHAT, |piece| {
            last = piece.chunks_exact(4).map(word).fold(last, u32::max);
            true
        })?;
        let Some(mut chain) = u64::from(last).checked_sub(first).filter(|_| last != 0) else {
            return Ok(0..0);
        };
        let mut ended = false;
        let start = chains.saturating_add(chain * 4);
        let len = room.saturating_sub(start) & !3;
        self.stream(offset.saturating_add(start), len, 4, WHAT, |piece| {
            let end = piece.chunks_exact(4).position(|bytes| word(bytes) & 1 == 1);
            ended = end.is_some();
            chain += end.map_or(piece.len() as u64 / 4, |end| end as u64 + 1);
            !ended
        })?;
        if ended {
            Ok(first..first + chain)
        } else {
            Err(self.malformed("a chain of DT_GNU_HASH has no end"))
        }
    }

    /// One more than the largest symbol that a relocation names.
    fn symbols_by_relocations(&self) -> Result<u64, Error> {
        let word = if self.is_64() { 8 } else { 4 };
        let (rela, rel) = (3 * word, 2 * word);
        let plt = if self.entry(dt::DT_PLTREL) == Some(dt::DT_RELA) { rela } else { rel };
        let mut largest = 0;
        for (table, size, item) in [
            (dt::DT_RELA, dt::DT_RELASZ, rela),
            (dt::DT_REL, dt::DT_RELSZ, rel),
            (dt::DT_JMPREL, dt::DT_PLTRELSZ, plt),
        ] {
            let (Some(vaddr), Some(len)) = (self.entry(table), self.entry(size)) else { continue };
            let offset = self.offset_of(vaddr, len, "a relocation table")?;
            self.stream(offset, len / item * item, item, "a relocation table", |piece| {
                for record in piece.chunks_exact(item as usize) {
                    let info = &record[word as usize..];
                    let symbol = if word == 8 {
                        self.parse::<u64>(info, 0, "").map_or(0, |info| info >> 32)
                    } else {
                        self.parse::<u32>(info, 0, "").map_or(0, |info| u64::from(info) >> 8)
                    };
                    largest = largest.max(symbol);
                }
                true
            })?;
        }
        Ok(if largest == 0 { 0 } else { largest + 1 })
    }

    /// Hands every `st_name` to `visit`. It is the first member in both classes (gABI, `Elf32_Sym`, `Elf64_Sym`),
    /// and nothing else of the symbol is parsed: large libraries have a hundred thousand.
    fn each_symbol_name(&self, mut visit: impl FnMut(u64)) -> Result<(), Error> {
        let Some(table) = self.symbol_table()? else { return Ok(()) };
        let item = self.size::<Sym>();
        let little = self.ctx.is_little_endian();
        self.stream(table.offset, table.count * item, item, "the dynamic symbols", |piece| {
            for symbol in piece.chunks_exact(item as usize) {
                if let Some(name) = symbol.first_chunk::<4>() {
                    let name = if little { u32::from_le_bytes(*name) } else { u32::from_be_bytes(*name) };
                    visit(name.into());
                }
            }
            true
        })
    }

    /// Walks `.gnu.version_r` as glibc does: by `vn_next` and `vna_next`.
    pub(crate) fn each_need(&self, mut visit: impl FnMut(Need) -> Result<(), Error>) -> Result<(), Error> {
        const WHAT: &str = "DT_VERNEED";
        let Some(start) = self.entry(dt::DT_VERNEED) else { return Ok(()) };
        let mut budget = MAX_VERSIONS;
        self.each_record(start, WHAT, &mut budget, |at, budget| {
            let record = self.bytes(self.offset_of(at, 16, WHAT)?, 16, WHAT)?;
            visit(Need::File(self.parse(&record, 4, WHAT)?))?;
            let mut left: u16 = self.parse(&record, 2, WHAT)?;
            let first = at.saturating_add(u64::from(self.parse::<u32>(&record, 8, WHAT)?));
            let next: u32 = self.parse(&record, 12, WHAT)?;
            if left > 0 {
                self.each_record(first, WHAT, budget, |at, _| {
                    let aux = self.bytes(self.offset_of(at, 16, WHAT)?, 16, WHAT)?;
                    visit(Need::Version {
                        name: self.parse(&aux, 8, WHAT)?,
                        flags: self.parse(&aux, 4, WHAT)?,
                        index: self.parse(&aux, 6, WHAT)?,
                    })?;
                    left -= 1;
                    let next: u32 = self.parse(&aux, 12, WHAT)?;
                    Ok(if left == 0 { 0 } else { next })
                })?;
            }
            Ok(next)
        })
    }

    /// Walks `.gnu.version_d`.
    pub(crate) fn each_definition(
        &self,
        mut visit: impl FnMut(Definition) -> Result<(), Error>,
    ) -> Result<(), Error> {
        const WHAT: &str = "DT_VERDEF";
        let Some(start) = self.entry(dt::DT_VERDEF) else { return Ok(()) };
        let mut budget = MAX_VERSIONS;
        self.each_record(start, WHAT, &mut budget, |at, budget| {
            let record = self.bytes(self.offset_of(at, 20, WHAT)?, 20, WHAT)?;
            let (flags, index) = (self.parse(&record, 2, WHAT)?, self.parse(&record, 4, WHAT)?);
            let mut left: u16 = self.parse(&record, 6, WHAT)?;
            let aux = at.saturating_add(u64::from(self.parse::<u32>(&record, 12, WHAT)?));
            let next: u32 = self.parse(&record, 16, WHAT)?;
            let mut first = true;
            if left > 0 {
                self.each_record(aux, WHAT, budget, |at, _| {
                    let record = self.bytes(self.offset_of(at, 8, WHAT)?, 8, WHAT)?;
                    visit(Definition { name: self.parse(&record, 0, WHAT)?, index, flags, first })?;
                    first = false;
                    left -= 1;
                    let next: u32 = self.parse(&record, 4, WHAT)?;
                    Ok(if left == 0 { 0 } else { next })
                })?;
            }
            Ok(next)
        })
    }

    /// Follows a chain of records by the distance that `visit` returns, until it is 0. The distances are
    /// unsigned, so a chain cannot loop; `budget` bounds lists that many heads share.
    fn each_record(
        &self,
        start: u64,
        what: &'static str,
        budget: &mut u32,
        mut visit: impl FnMut(u64, &mut u32) -> Result<u32, Error>,
    ) -> Result<(), Error> {
        let mut at = start;
        loop {
            *budget = budget.checked_sub(1).ok_or_else(|| self.malformed(format!("{what} is too long")))?;
            let next = visit(at, budget)?;
            if next == 0 {
                return Ok(());
            }
            at = at.saturating_add(u64::from(next));
        }
    }

    /// Hands every index into the dynamic string table to `visit`, the search paths' own excepted.
    pub(crate) fn each_string_use(&self, mut visit: impl FnMut(u64)) -> Result<(), Error> {
        for entry in self.dynamic.iter().flat_map(|dynamic| &dynamic.entries) {
            if STRING_TAGS.contains(&entry.d_tag) {
                visit(entry.d_val);
            }
        }
        self.each_need(|need| {
            visit(match need {
                Need::File(name) | Need::Version { name, .. } => name.into(),
            });
            Ok(())
        })?;
        self.each_definition(|definition| {
            visit(definition.name.into());
            Ok(())
        })?;
        self.each_symbol_name(visit)
    }
}
