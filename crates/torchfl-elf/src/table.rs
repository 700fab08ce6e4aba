//! All dynamic symbols of a file at once, as the dynamic loader uses them.

use std::ffi::CStr;
use std::ops::Range;

use goblin::elf::dynamic as dt;
use goblin::elf::section_header::SHN_UNDEF;
use goblin::elf::sym::Sym;

use crate::error::Error;
use crate::facts::Texts;
use crate::image::Image;
use crate::read_at::ReadAt;
use crate::symbols::Bind;
use crate::tables::Located;

/// The most symbols that are held. TensorFlow's library, the largest known, has a third of a million.
const MAX_SYMBOLS: u64 = 4 << 20;
/// The largest string table that is held, and the largest sum of the names in it, in bytes.
const MAX_NAMES: u64 = 256 << 20;
/// Bits of a `.gnu.version` entry that are the index; the highest hides the version from new links.
const VERSION_INDEX: u16 = 0x7fff;
/// A global symbol without a version (glibc `elf/elf.h`, `VER_NDX_GLOBAL`).
const GLOBAL: u16 = 1;

/// gABI.
const SHN_ABS: u64 = 0xfff1;

const WHAT: &str = "the dynamic symbols";

/// Where a symbol's value comes from (`st_shndx`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// `SHN_UNDEF`: another file's.
    Undefined,
    /// `SHN_ABS`: a number that relocation leaves alone.
    Absolute,
    /// This file.
    Defined,
}

/// One entry of a [`SymbolTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSymbol {
    /// Where the name begins, in bytes from the start of the string table.
    pub name: u32,
    /// The entry of `.gnu.version`, with its highest bit; 1 (global) where the file has no such table.
    pub version: u16,
    /// The binding.
    pub bind: Bind,
    /// `STT_*`: 1 object, 2 function, 6 thread-local, 10 indirect function.
    pub kind: u8,
    /// `STV_*`: 0 default, 1 internal, 2 hidden, 3 protected.
    pub visibility: u8,
    /// Where the value comes from.
    pub place: Place,
    /// `st_value` is not 0. An undefined symbol has a value where a program's PLT entry is its address.
    pub has_value: bool,
    /// Size in bytes.
    pub size: u64,
}

/// What one index of `.gnu.version` stands for (glibc `elf/dl-version.c`, `l_versions`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableVersion {
    /// For instance `GLIBC_2.17`.
    pub name: String,
    /// The library that has to define it; `None` for a version defined here.
    pub file: Option<String>,
    /// `VER_FLG_BASE`: the file's own name, which no reference can ask for.
    pub base: bool,
    /// `VER_FLG_WEAK` of a needed version.
    pub weak: bool,
    /// The highest bit of `vna_other`: only a definition of this very version will do.
    pub hidden: bool,
}

/// The dynamic symbols with their names and versions; made by [`symbol_table`].
#[derive(Debug)]
pub struct SymbolTable {
    symbols: Vec<TableSymbol>,
    /// Bytes of each name.
    lengths: Vec<u32>,
    strings: Vec<u8>,
    versions: Vec<Option<TableVersion>>,
    versioned: bool,
    hashed: Range<u64>,
}

/// Reads all dynamic symbols. Memory is about the size of the tables in the file; more than four million
/// symbols, or names of more than 256 MiB together, are an error.
pub fn symbol_table(file: &dyn ReadAt, name: &str) -> Result<SymbolTable, Error> {
    let image = Image::open(file, name)?;
    let located = image.symbol_table()?.unwrap_or_default();
    if located.count > MAX_SYMBOLS {
        return Err(image.malformed(format!("{} dynamic symbols", located.count)));
    }
    let strings = match image.strings()? {
        _ if located.count == 0 => Vec::new(),
        Some(strings) => image.bytes_within(strings.offset, strings.len, MAX_NAMES, ".dynstr")?,
        None => return Err(image.malformed("symbols without DT_STRTAB")),
    };
    let mut table = SymbolTable {
        symbols: read_symbols(&image, &located)?,
        lengths: Vec::new(),
        strings,
        versions: read_versions(&image)?,
        versioned: image.entry(dt::DT_VERSYM).is_some(),
        hashed: located.hashed,
    };
    table.lengths = measure(&image, &table)?;
    Ok(table)
}

impl SymbolTable {
    /// Number of entries, the null symbol at index 0 included; 0 without a table.
    pub fn len(&self) -> usize {
        self.symbols.len()
    }

    /// Whether there is no entry at all.
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// The entry at `index`.
    pub fn get(&self, index: u32) -> Option<TableSymbol> {
        self.symbols.get(index as usize).copied()
    }

    /// The name of the entry at `index`, without the NUL; empty where there is no such entry.
    pub fn name(&self, index: u32) -> &[u8] {
        let name = self.get(index).zip(self.lengths.get(index as usize));
        let name = name
            .and_then(|(symbol, length)| self.strings.get(symbol.name as usize..)?.get(..*length as usize));
        name.unwrap_or_default()
    }

    /// Whether the file has `DT_VERSYM`.
    pub fn versioned(&self) -> bool {
        self.versioned
    }

    /// The version with this index, whose highest bit does not count; `None` for indices that no version has,
    /// which 0 (local) and 1 (global) are unless 1 is the file's own name.
    pub fn version(&self, index: u16) -> Option<&TableVersion> {
        self.versions.get(usize::from(index & VERSION_INDEX))?.as_ref()
    }

    /// All versions with their indices, in order.
    pub fn versions(&self) -> impl Iterator<Item = (u16, &TableVersion)> {
        let numbered = (0..).zip(&self.versions);
        numbered.filter_map(|(index, version)| Some((index, version.as_ref()?)))
    }

    /// All entries with their indices, from the null symbol on.
    pub fn iter(&self) -> impl Iterator<Item = (u32, TableSymbol)> {
        (0..).zip(self.symbols.iter().copied())
    }

    /// Whether the loader can find the entry by name: through `DT_GNU_HASH` where the file has it, else
    /// through `DT_HASH`.
    pub fn hashed(&self, index: u32) -> bool {
        self.hashed.contains(&u64::from(index))
    }
}

fn read_symbols(image: &Image<'_>, located: &Located) -> Result<Vec<TableSymbol>, Error> {
    let versions = match image.entry(dt::DT_VERSYM) {
        Some(vaddr) => {
            let len = located.count * 2;
            let offset = image.offset_of(vaddr, len, "DT_VERSYM")?;
            image.bytes_within(offset, len, MAX_NAMES, "DT_VERSYM")?
        }
        None => Vec::new(),
    };
    let (is_64, little, item) = (image.is_64(), image.ctx.is_little_endian(), image.size::<Sym>());
    let mut versions = versions.chunks_exact(2).map(|bytes| number(bytes, little) as u16);
    let mut symbols = Vec::with_capacity(located.count as usize);
    image.stream(located.offset, located.count * item, item, WHAT, |piece| {
        for record in piece.chunks_exact(item as usize) {
            let version = versions.next().unwrap_or(GLOBAL);
            symbols.push(symbol(record, is_64, little, version));
        }
        true
    })?;
    Ok(symbols)
}

/// gABI, `Elf32_Sym` and `Elf64_Sym`.
fn symbol(record: &[u8], is_64: bool, little: bool, version: u16) -> TableSymbol {
    let number = |at: Range<usize>| number(&record[at], little);
    let (info, other, section, value, size) = if is_64 {
        (record[4], record[5], number(6..8), number(8..16), number(16..24))
    } else {
        (record[12], record[13], number(14..16), number(4..8), number(8..12))
    };
    TableSymbol {
        name: number(0..4) as u32,
        version,
        bind: Bind::of(info >> 4),
        kind: info & 0xf,
        visibility: other & 3,
        place: match section {
            SHN_ABS => Place::Absolute,
            section if section == u64::from(SHN_UNDEF) => Place::Undefined,
            _ => Place::Defined,
        },
        has_value: value != 0,
        size,
    }
}

/// A number of at most eight bytes.
fn number(bytes: &[u8], little: bool) -> u64 {
    let mut wide = [0; 8];
    if little {
        wide[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(wide)
    } else {
        wide[8 - bytes.len()..].copy_from_slice(bytes);
        u64::from_be_bytes(wide)
    }
}

/// The length of every name. Many symbols may share one long string, hence the bound on the sum.
fn measure(image: &Image<'_>, table: &SymbolTable) -> Result<Vec<u32>, Error> {
    let mut left = MAX_NAMES as usize;
    let mut lengths = Vec::with_capacity(table.len());
    for symbol in &table.symbols {
        let rest = table.strings.get(symbol.name as usize..).unwrap_or_default();
        let Ok(name) = CStr::from_bytes_until_nul(rest) else {
            return Err(image.malformed(format!("string {:#x} does not end in .dynstr", symbol.name)));
        };
        let length = name.count_bytes();
        left =
            left.checked_sub(length).ok_or_else(|| image.malformed("symbol names of more than 256 MiB"))?;
        lengths.push(length as u32);
    }
    Ok(lengths)
}

/// The versions by index. glibc enters the needed ones first, then those defined here.
fn read_versions(image: &Image<'_>) -> Result<Vec<Option<TableVersion>>, Error> {
    let mut versions = Vec::new();
    let mut enter = |index: u16, version: TableVersion| {
        let index = usize::from(index & VERSION_INDEX);
        if versions.len() <= index {
            versions.resize(index + 1, None);
        }
        if !version.base || versions[index].is_none() {
            versions[index] = Some(version);
        }
    };
    let mut texts = Texts::new(image)?;
    for (file, needs) in texts.indexed_needs()? {
        for (index, need) in needs {
            texts.charge(file.len())?;
            let hidden = index & !VERSION_INDEX != 0;
            let file = Some(file.clone());
            enter(index, TableVersion { name: need.name, file, base: false, weak: need.weak, hidden });
        }
    }
    for (index, base, name) in texts.indexed_definitions()? {
        enter(index, TableVersion { name, file: None, base, weak: false, hidden: false });
    }
    Ok(versions)
}
