//! The symbols of one file: found by name, matched as `check_match` of glibc's `elf/dl-lookup.c` does.

use std::collections::HashMap;

use torchfl_elf::{Bind, Place, ReadAt, Relocation, SymbolTable, Use};

/// Index of a version that is global and has no name (`VER_NDX_GLOBAL`).
const GLOBAL: u16 = 1;
/// The bit of `.gnu.version` that hides a version from references without one.
const HIDDEN: u16 = 0x8000;
const NONE: u32 = u32::MAX;
/// `STT_TLS`.
const TLS: u8 = 6;

/// Definitions, references and versions of one file.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    names: Vec<u8>,
    entries: Vec<Entry>,
    versions: Vec<Option<Version>>,
    versioned: bool,
    references: Vec<Reference>,
    // A hash table of what can be found: heads by hash, the rest chained, and a filter before it.
    heads: Vec<u32>,
    filter: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    at: u32,
    len: u32,
    hash: u32,
    next: u32,
    size: u64,
    version: u16,
    bind: Bind,
    kind: u8,
    visibility: u8,
    place: Place,
    has_value: bool,
}

/// The first entry of every table.
const NULL: Entry = Entry {
    at: 0,
    len: 0,
    hash: 0,
    next: NONE,
    size: 0,
    version: 0,
    bind: Bind::Local,
    kind: 0,
    visibility: 0,
    place: Place::Undefined,
    has_value: false,
};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    name: String,
    file: Option<String>,
    base: bool,
    hidden: bool,
}

/// A symbol that the loader has to look up to relocate the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// Index in the file's table.
    pub symbol: u32,
    /// What for.
    pub how: Use,
    /// May wait for the first call.
    pub lazy: bool,
    /// Needs room in the static TLS block.
    pub tls_static: bool,
    /// Takes room there if there is some to spare.
    pub tls_descriptor: bool,
}

/// An exported symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
    /// `foo@V`: only for references that name the version.
    pub hidden: bool,
    /// Its binding.
    pub bind: Bind,
    /// `STT_*`.
    pub kind: u8,
    /// `STV_*`.
    pub visibility: u8,
    /// Size in bytes.
    pub size: u64,
}

/// A name as it is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The name.
    pub name: &'a [u8],
    /// Its hash, see [`hash`].
    pub hash: u32,
    /// The version, its name and whether the reference is marked hidden.
    pub version: Option<(&'a str, bool)>,
}

/// The GNU hash of a symbol's name (`_dl_new_hash`).
pub fn hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add((*byte).into()))
}

impl Symbols {
    /// Reads a file's symbols and what its relocations ask of them.
    pub(crate) fn read(file: &dyn ReadAt, name: &str) -> Result<Self, torchfl_elf::Error> {
        let table = torchfl_elf::symbol_table(file, name)?;
        let mut symbols = Self::from_table(&table);
        let mut seen = vec![0_u8; symbols.entries.len()];
        torchfl_elf::relocations(file, name, &mut |relocation: Relocation| {
            let Relocation { symbol, how, lazy, tls_static, tls_descriptor } = relocation;
            let bit = 1
                << (match how {
                    Use::Data => 0,
                    Use::Plt => 1,
                    Use::Copy => 2,
                } + if lazy { 3 } else { 0 });
            let bit = bit | if tls_static { 0x80 } else { 0 } | if tls_descriptor { 0x40 } else { 0 };
            // The loader asks again for each relocation, and gets the same answer.
            if let Some(seen) = seen.get_mut(symbol as usize)
                && *seen & bit != bit
            {
                *seen |= bit;
                symbols.references.push(Reference { symbol, how, lazy, tls_static, tls_descriptor });
            }
        })?;
        Ok(symbols)
    }

    fn from_table(table: &SymbolTable) -> Self {
        let mut symbols = Self::default();
        for (index, symbol) in table.iter() {
            let name = table.name(index);
            // A reference in DT_HASH can answer to another one: with an address, or where it is thread-local.
            let answers = symbol.place != Place::Undefined || symbol.has_value || symbol.kind == TLS;
            let findable = table.hashed(index) && answers;
            symbols.push(
                name,
                findable,
                Entry {
                    at: 0,
                    len: 0,
                    hash: 0,
                    next: NONE,
                    size: symbol.size,
                    version: symbol.version,
                    bind: symbol.bind,
                    kind: symbol.kind,
                    visibility: symbol.visibility,
                    place: symbol.place,
                    has_value: symbol.has_value,
                },
            );
        }
        for (index, version) in table.versions() {
            symbols.versions.resize(usize::from(index) + 1, None);
            symbols.versions[usize::from(index)] = Some(Version {
                name: version.name.clone(),
                file: version.file.clone(),
                base: version.base,
                hidden: version.hidden,
            });
        }
        // Without any version the loader does not look at the symbols' indices.
        symbols.versioned = table.versioned() && !symbols.versions.is_empty();
        symbols.index();
        symbols
    }

    /// The symbols of a snapshot. `versions` are those that the file defines, in order.
    pub fn from_exports(exports: &[Export], versions: &[String], versioned: bool) -> Self {
        let mut symbols = Self { versioned, ..Self::default() };
        symbols.versions = vec![None, None];
        for name in versions {
            let version = Version { name: name.clone(), file: None, base: false, hidden: false };
            symbols.versions.push(Some(version));
        }
        let numbers: HashMap<&String, u16> =
            (2..).zip(versions).map(|(index, version)| (version, index)).collect();
        symbols.push(b"", false, NULL);
        for export in exports {
            let index = export.version.as_ref().and_then(|version| numbers.get(version)).copied();
            let index = index.unwrap_or(GLOBAL);
            symbols.push(
                export.name.as_bytes(),
                true,
                Entry {
                    at: 0,
                    len: 0,
                    hash: 0,
                    next: NONE,
                    size: export.size,
                    version: index | if export.hidden { HIDDEN } else { 0 },
                    bind: export.bind,
                    kind: export.kind,
                    visibility: export.visibility,
                    place: Place::Defined,
                    has_value: true,
                },
            );
        }
        symbols.index();
        symbols
    }

    fn push(&mut self, name: &[u8], findable: bool, mut entry: Entry) {
        entry.at = self.names.len() as u32;
        entry.len = name.len() as u32;
        entry.hash = hash(name);
        // NONE marks what is in no hash table; the index fills in the rest.
        entry.next = if findable { 0 } else { NONE };
        self.names.extend_from_slice(name);
        self.entries.push(entry);
    }

    fn index(&mut self) {
        let findable = self.entries.iter().filter(|entry| entry.next != NONE).count();
        if findable == 0 {
            return;
        }
        let size = (findable * 2).next_power_of_two();
        self.heads = vec![NONE; size];
        self.filter = vec![0; (findable / 4).next_power_of_two()];
        // From the end, so that a chain is in the order of the table, as in `.gnu.hash`.
        for index in (0..self.entries.len()).rev() {
            if self.entries[index].next == NONE {
                continue;
            }
            let hash = self.entries[index].hash;
            let slot = hash as usize & (size - 1);
            self.entries[index].next = self.heads[slot];
            self.heads[slot] = index as u32;
            let word = (hash >> 6) as usize & (self.filter.len() - 1);
            self.filter[word] |= 1 << (hash & 63);
        }
    }

    /// The definition that answers to `wanted`, as `check_match` chooses it: for a `call`, an undefined symbol with
    /// an address (a program's own stub for a function) does not count.
    pub fn find(&self, wanted: &Wanted<'_>, call: bool) -> Option<u32> {
        if self.heads.is_empty() {
            return None;
        }
        let word = (wanted.hash >> 6) as usize & (self.filter.len() - 1);
        if self.filter[word] >> (wanted.hash & 63) & 1 == 0 {
            return None;
        }
        let mut at = self.heads[wanted.hash as usize & (self.heads.len() - 1)];
        let mut only: Option<u32> = None;
        let mut versions = 0;
        while at != NONE {
            let entry = &self.entries[at as usize];
            if entry.hash == wanted.hash && entry.counts(call) && self.name(at) == wanted.name {
                match self.fits(entry, wanted) {
                    Fits::Yes => return Some(at),
                    // The only version of a name also serves a reference without one.
                    Fits::Version => {
                        versions += 1;
                        only = only.or(Some(at));
                    }
                    Fits::No => {}
                }
            }
            at = entry.next;
        }
        only.filter(|_| versions == 1)
    }

    fn fits(&self, entry: &Entry, wanted: &Wanted<'_>) -> Fits {
        if !self.versioned {
            return Fits::Yes;
        }
        let index = entry.version & !HIDDEN;
        let hidden = entry.version & HIDDEN != 0;
        let Some((version, reference_hidden)) = wanted.version else {
            return match (index >= 3, hidden) {
                (false, _) => Fits::Yes,
                (true, true) => Fits::No,
                (true, false) => Fits::Version,
            };
        };
        let named =
            self.versions.get(index as usize).and_then(Option::as_ref).filter(|version| !version.base);
        if named.is_some_and(|named| named.name == version) {
            return Fits::Yes;
        }
        // The base definition serves any version that the file does not define otherwise.
        if reference_hidden || named.is_some() || hidden { Fits::No } else { Fits::Yes }
    }

    /// Whether the loader looks at versions in this file at all.
    pub fn is_versioned(&self) -> bool {
        self.versioned
    }

    /// Number of symbols, the null symbol included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A symbol's name.
    pub fn name(&self, index: u32) -> &[u8] {
        let Some(entry) = self.entries.get(index as usize) else { return &[] };
        &self.names[entry.at as usize..(entry.at + entry.len) as usize]
    }

    /// A symbol's name as text.
    pub fn text(&self, index: u32) -> String {
        String::from_utf8_lossy(self.name(index)).into_owned()
    }

    /// What the file refers to, in the order in which the loader asks.
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// What a reference looks for. `None`: it is bound to the file itself without a search.
    pub fn wanted(&self, index: u32) -> Option<Wanted<'_>> {
        let entry = self.entries.get(index as usize)?;
        // Hidden and internal references, and local ones.
        if entry.bind == Bind::Local || entry.visibility == 1 || entry.visibility == 2 {
            return None;
        }
        let version = self.named_version(entry).map(|version| (version.name.as_str(), version.hidden));
        Some(Wanted { name: self.name(index), hash: entry.hash, version })
    }

    /// The version of a symbol, and the file that a needed one is asked of.
    pub fn version(&self, index: u32) -> Option<(&str, Option<&str>)> {
        let version = self.named_version(self.entries.get(index as usize)?)?;
        Some((&version.name, version.file.as_deref()))
    }

    fn named_version(&self, entry: &Entry) -> Option<&Version> {
        let version = self.versions.get((entry.version & !HIDDEN) as usize)?.as_ref();
        version.filter(|version| self.versioned && !version.base)
    }

    /// Whether a symbol is only referred to here.
    pub fn is_undefined(&self, index: u32) -> bool {
        self.entries.get(index as usize).is_some_and(|entry| entry.place == Place::Undefined)
    }

    /// Whether a reference may stay without a definition.
    pub fn is_weak(&self, index: u32) -> bool {
        self.entries.get(index as usize).is_some_and(|entry| entry.bind == Bind::Weak)
    }

    /// Binding, `STT_*`, `STV_*` and size of a symbol.
    pub fn facts(&self, index: u32) -> Option<(Bind, u8, u8, u64)> {
        let entry = self.entries.get(index as usize)?;
        Some((entry.bind, entry.kind, entry.visibility, entry.size))
    }

    /// Names of the versions that the file defines, its own name left out.
    pub fn versions_defined(&self) -> Vec<String> {
        let defined =
            self.versions.iter().flatten().filter(|version| version.file.is_none() && !version.base);
        defined.map(|version| version.name.clone()).collect()
    }

    /// What others can bind to, in the order of the table.
    pub fn exports(&self) -> impl Iterator<Item = Export> + '_ {
        let exported = self.entries.iter().enumerate().filter(|(index, entry)| {
            let seen = *index > 0 && entry.counts(true) && entry.place != Place::Undefined;
            seen && matches!(entry.bind, Bind::Global | Bind::Weak | Bind::Unique)
                && (entry.visibility == 0 || entry.visibility == 3)
        });
        exported.map(|(index, entry)| Export {
            name: self.text(index as u32),
            version: self.named_version(entry).map(|version| version.name.clone()),
            hidden: entry.version & HIDDEN != 0,
            bind: entry.bind,
            kind: entry.kind,
            visibility: entry.visibility,
            size: entry.size,
        })
    }
}

enum Fits {
    Yes,
    Version,
    No,
}

impl Entry {
    fn counts(&self, call: bool) -> bool {
        // No type, object, function, common, TLS, indirect function.
        let code_or_data = matches!(self.kind, 0 | 1 | 2 | 5 | TLS | 10);
        let valued = self.has_value || self.place == Place::Absolute || self.kind == TLS;
        code_or_data && valued && !(call && self.place == Place::Undefined)
    }
}
