//! The dynamic symbols as a stream.

use std::collections::HashMap;

use goblin::elf::dynamic as dt;
use goblin::elf::sym::Sym;
use serde::Serialize;

use crate::error::Error;
use crate::facts::Texts;
use crate::image::{Image, Strings};
use crate::read_at::ReadAt;

/// Longest symbol name, in bytes. C++ templates reach tens of kilobytes.
const MAX_SYMBOL: usize = 1 << 20;
/// Symbols read at a time.
const BATCH: u64 = 1024;
/// Bytes of `.dynstr` kept: names follow each other in it, as symbols do.
const WINDOW: u64 = 512;

/// `STB_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bind {
    /// `STB_LOCAL`.
    Local,
    /// `STB_GLOBAL`.
    Global,
    /// `STB_WEAK`: may stay undefined.
    Weak,
    /// `STB_GNU_UNIQUE`: one in the process, whatever the scope.
    Unique,
    /// Another binding.
    Other,
}

impl Bind {
    /// `ELF64_ST_BIND`.
    pub(crate) fn of(bits: u8) -> Self {
        match bits {
            0 => Self::Local,
            1 => Self::Global,
            2 => Self::Weak,
            10 => Self::Unique,
            _ => Self::Other,
        }
    }
}

/// The version a symbol belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SymbolVersion {
    /// For instance `GLIBC_2.17`.
    pub name: String,
    /// The library that has to define it; `None` for a version defined here.
    pub file: Option<String>,
    /// `foo@V` and not `foo@@V`: not the one that new links bind to.
    pub hidden: bool,
}

/// One dynamic symbol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Symbol {
    /// The name; bytes that are not UTF-8 are replaced.
    pub name: String,
    /// Defined here (`st_shndx` is not `SHN_UNDEF`).
    pub defined: bool,
    /// The binding.
    pub bind: Bind,
    /// `STT_*`: 1 object, 2 function, 6 thread-local, 10 indirect function.
    pub kind: u8,
    /// `STV_*`: 0 default, 1 internal, 2 hidden, 3 protected.
    pub visibility: u8,
    /// Address before relocation.
    pub value: u64,
    /// Size in bytes.
    pub size: u64,
    /// Its version; `None` for unversioned, local and global (base) symbols.
    pub version: Option<SymbolVersion>,
}

/// Iterator over the dynamic symbols; made by [`symbols`]. Ends after the first error.
pub struct Symbols<'a> {
    image: Image<'a>,
    strings: Option<Strings>,
    versions: HashMap<u16, SymbolVersion>,
    version_table: Option<u64>,
    offset: u64,
    count: u64,
    next: u64,
    batch: Vec<(Sym, u16)>,
    window: (u64, Vec<u8>),
}

/// Walks the dynamic symbols in order, the null symbol at index 0 left out. Memory stays constant but for the
/// names of the versions.
pub fn symbols<'a>(file: &'a dyn ReadAt, name: &'a str) -> Result<Symbols<'a>, Error> {
    let image = Image::open(file, name)?;
    let table = image.symbol_table()?;
    let mut texts = Texts::new(&image)?;
    let mut versions = HashMap::new();
    for (index, _, name) in texts.indexed_definitions()? {
        versions.insert(index & 0x7fff, SymbolVersion { name, file: None, hidden: false });
    }
    for (file, needs) in texts.indexed_needs()? {
        for (index, need) in needs {
            let version = SymbolVersion { name: need.name, file: Some(file.clone()), hidden: false };
            versions.insert(index & 0x7fff, version);
        }
    }
    let (offset, count) = table.map_or((0, 0), |table| (table.offset, table.count));
    let version_table = match image.entry(dt::DT_VERSYM) {
        Some(vaddr) => Some(image.offset_of(vaddr, count * 2, "DT_VERSYM")?),
        None => None,
    };
    Ok(Symbols {
        strings: image.strings()?,
        image,
        versions,
        version_table,
        offset,
        count,
        next: 1,
        batch: Vec::new(),
        window: (0, Vec::new()),
    })
}

impl Symbols<'_> {
    /// Number of entries in the table, the null symbol included.
    pub fn table_len(&self) -> u64 {
        self.count
    }

    fn refill(&mut self) -> Result<(), Error> {
        const WHAT: &str = "the dynamic symbols";
        let n = BATCH.min(self.count - self.next);
        let item = self.image.size::<Sym>();
        let records = self.image.bytes(self.offset + self.next * item, n * item, WHAT)?;
        let records = self.image.table::<Sym>(&records, WHAT)?;
        let versions = match self.version_table {
            Some(offset) => self.image.bytes(offset + self.next * 2, n * 2, "DT_VERSYM")?,
            None => vec![0; n as usize * 2],
        };
        self.batch.clear();
        for (at, record) in records.into_iter().enumerate() {
            self.batch.push((record, self.image.parse(&versions, at * 2, "DT_VERSYM")?));
        }
        self.batch.reverse();
        self.next += n;
        Ok(())
    }

    fn symbol(&mut self, record: &Sym, version: u16) -> Result<Symbol, Error> {
        // glibc: 0 is local, 1 is global without a version; bit 15 hides a version from new links.
        let version = self
            .versions
            .get(&(version & 0x7fff))
            .filter(|_| version & 0x7fff > 1)
            .map(|known| SymbolVersion { hidden: version & 0x8000 != 0, ..known.clone() });
        Ok(Symbol {
            name: self.name(record.st_name as u64)?,
            defined: record.st_shndx != 0,
            bind: Bind::of(record.st_bind()),
            kind: record.st_type(),
            visibility: record.st_visibility(),
            value: record.st_value,
            size: record.st_size,
            version,
        })
    }

    fn name(&mut self, index: u64) -> Result<String, Error> {
        let strings = self.strings.ok_or_else(|| self.image.malformed("symbols without DT_STRTAB"))?;
        if let Some(text) = self.windowed(index) {
            return Ok(text);
        }
        let len = strings.len.saturating_sub(index).min(WINDOW);
        self.window = (index, self.image.bytes(strings.offset.saturating_add(index), len, ".dynstr")?);
        if let Some(text) = self.windowed(index) {
            return Ok(text);
        }
        let text = self.image.string(strings, index, MAX_SYMBOL as u64)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn windowed(&self, index: u64) -> Option<String> {
        let (start, bytes) = &self.window;
        let bytes = bytes.get(usize::try_from(index.checked_sub(*start)?).ok()?..)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

impl Iterator for Symbols<'_> {
    type Item = Result<Symbol, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.batch.is_empty()
            && self.next < self.count
            && let Err(error) = self.refill()
        {
            self.next = self.count;
            return Some(Err(error));
        }
        let (record, version) = self.batch.pop()?;
        let symbol = self.symbol(&record, version);
        if symbol.is_err() {
            self.batch.clear();
            self.next = self.count;
        }
        Some(symbol)
    }
}
