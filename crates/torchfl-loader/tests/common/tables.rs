//! The tables of a library: symbols, hashes, versions, strings.

use std::collections::HashMap;

use super::elf::{Bind, Definition, Hash, How, Need, Reference, Spec, Visibility, What};

/// `.dynstr`.
#[derive(Clone)]
pub(super) struct Strings {
    bytes: Vec<u8>,
    known: HashMap<String, u64>,
}

impl Strings {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0], known: HashMap::new() }
    }

    pub(super) fn put(&mut self, text: &str) -> u64 {
        if text.is_empty() {
            return 0;
        }
        *self.known.entry(text.to_owned()).or_insert_with(|| {
            let at = self.bytes.len() as u64;
            self.bytes.extend(text.as_bytes());
            self.bytes.push(0);
            at
        })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Which version a symbol has.
#[derive(Clone, PartialEq)]
enum Version {
    Global,
    Own(String, bool),
    Needed(Need),
}

/// A row of `.dynsym`.
#[derive(Clone)]
pub(super) struct Symbol {
    name: String,
    info: u8,
    visibility: u8,
    section: u16,
    pub(super) value: u64,
    size: u64,
    version: Version,
}

impl Symbol {
    fn null() -> Self {
        let (name, version) = (String::new(), Version::Global);
        Self { name, info: 0, visibility: 0, section: 0, value: 0, size: 0, version }
    }

    pub(super) fn defined(definition: &Definition, value: u64) -> Self {
        let kind = match definition.what {
            What::Untyped => 0,
            What::Function => 2,
            What::Indirect => 10,
            What::Object | What::Absolute => 1,
            What::Tls => 6,
        };
        let bind = match definition.bind {
            Bind::Global => 1,
            Bind::Weak => 2,
            Bind::Unique => 10,
        };
        let version = &definition.version;
        Self {
            name: definition.name.clone(),
            info: bind << 4 | kind,
            visibility: definition.visibility as u8,
            section: if definition.what == What::Absolute { 0xfff1 } else { 1 },
            value,
            size: definition.size,
            version: version.clone().map_or(Version::Global, |(name, hidden)| Version::Own(name, hidden)),
        }
    }

    /// A program's copy has the version of what it copies.
    pub(super) fn copied(reference: &Reference, value: u64) -> Self {
        Self { section: 1, info: 1 << 4 | 1, size: reference.size, ..Self::undefined(reference, value) }
    }

    pub(super) fn undefined(reference: &Reference, value: u64) -> Self {
        let kind = match reference.how {
            How::General | How::Initial | How::Descriptor => 6,
            How::Canonical => 2,
            _ => 0,
        };
        Self {
            name: reference.name.clone(),
            info: if reference.weak { 2 } else { 1 } << 4 | kind,
            visibility: Visibility::Default as u8,
            section: 0,
            value,
            size: 0,
            version: reference.version.clone().map_or(Version::Global, Version::Needed),
        }
    }

    /// Whether the reference is to this very row: a definition here, or the same as another reference's.
    pub(super) fn serves(&self, reference: &Reference) -> bool {
        if self.name != reference.name {
            return false;
        }
        match &self.version {
            Version::Needed(need) => reference.version.as_ref() == Some(need),
            Version::Own(_, hidden) => !hidden,
            Version::Global => self.section != 0 || reference.version.is_none(),
        }
    }
}

/// The null symbol, the undefined ones, then the defined ones in the order of their buckets; and where each went.
pub(super) fn sorted(symbols: &[Symbol], hash: Hash) -> (Vec<Symbol>, Vec<usize>) {
    let buckets = buckets(symbols.iter().filter(|symbol| symbol.section != 0).count());
    let mut order: Vec<usize> = (0..symbols.len()).collect();
    order.sort_by_key(|index| {
        let symbol = &symbols[*index];
        let bucket = if hash == Hash::Sysv { 0 } else { gnu(&symbol.name) % buckets };
        if symbol.section == 0 { (0, 0) } else { (1, bucket) }
    });
    let mut place = vec![0; symbols.len()];
    for (at, index) in order.iter().enumerate() {
        place[*index] = at + 1;
    }
    let rows = order.iter().map(|index| symbols[*index].clone());
    ([Symbol::null()].into_iter().chain(rows).collect(), place)
}

pub(super) fn symbols(symbols: &[Symbol], strings: &mut Strings) -> Vec<u8> {
    let mut out = Vec::new();
    for symbol in symbols {
        out.extend((strings.put(&symbol.name) as u32).to_le_bytes());
        out.extend([symbol.info, symbol.visibility]);
        out.extend(symbol.section.to_le_bytes());
        out.extend(symbol.value.to_le_bytes());
        out.extend(symbol.size.to_le_bytes());
    }
    out
}

fn buckets(defined: usize) -> u32 {
    (defined as u32 / 2).max(1)
}

fn gnu(name: &str) -> u32 {
    name.bytes().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
}

/// gABI, "Hash Table".
pub(super) fn sysv(name: &str) -> u32 {
    name.bytes().fold(0, |hash: u32, byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let high = hash & 0xf000_0000;
        (hash ^ high >> 24) & !high
    })
}

pub(super) fn gnu_hash(symbols: &[Symbol]) -> Vec<u8> {
    const SHIFT: u32 = 6;
    let first = symbols.iter().skip(1).take_while(|symbol| symbol.section == 0).count() + 1;
    let hashes: Vec<u32> = symbols[first..].iter().map(|symbol| gnu(&symbol.name)).collect();
    let count = buckets(hashes.len());
    let mut filter = 0_u64;
    let mut heads = vec![0_u32; count as usize];
    let mut chain = hashes.clone();
    for (at, hash) in hashes.iter().enumerate() {
        filter |= 1 << (hash % 64) | 1 << ((hash >> SHIFT) % 64);
        let bucket = hash % count;
        if heads[bucket as usize] == 0 {
            heads[bucket as usize] = (first + at) as u32;
        }
        let last = hashes.get(at + 1).is_none_or(|next| next % count != bucket);
        chain[at] = hash & !1 | u32::from(last);
    }
    let mut out: Vec<u8> = [count, first as u32, 1, SHIFT].into_iter().flat_map(u32::to_le_bytes).collect();
    out.extend(filter.to_le_bytes());
    out.extend(heads.into_iter().chain(chain).flat_map(u32::to_le_bytes));
    out
}

/// As bfd does, undefined symbols are in it too.
pub(super) fn sysv_hash(symbols: &[Symbol]) -> Vec<u8> {
    let count = buckets(symbols.len());
    let mut heads = vec![0_u32; count as usize];
    let mut chain = vec![0_u32; symbols.len()];
    for (at, symbol) in symbols.iter().enumerate().skip(1) {
        let bucket = (sysv(&symbol.name) % count) as usize;
        chain[at] = std::mem::replace(&mut heads[bucket], at as u32);
    }
    let header = [count, symbols.len() as u32];
    header.into_iter().chain(heads).chain(chain).flat_map(u32::to_le_bytes).collect()
}

/// `.gnu.version`, `.gnu.version_d` and `.gnu.version_r`.
pub(super) struct Versions {
    /// The file's own name and the versions defined here: indices from 1.
    own: Vec<String>,
    /// Indices follow.
    needed: Vec<Need>,
}

impl Versions {
    pub(super) fn new(spec: &Spec, file_name: &str) -> Self {
        let mut own = Vec::new();
        if !spec.versions.is_empty() {
            own.push(spec.soname.clone().unwrap_or_else(|| file_name.to_owned()));
            own.extend(spec.versions.iter().cloned());
        }
        let mut needed: Vec<Need> = Vec::new();
        for need in
            spec.references.iter().filter_map(|reference| reference.version.as_ref()).chain(&spec.extra_needs)
        {
            if !needed.contains(need) {
                needed.push(need.clone());
            }
        }
        // References to one file stand together.
        let files: Vec<String> = needed.iter().map(|need| need.file.clone()).collect();
        needed.sort_by_key(|need| files.iter().position(|file| *file == need.file));
        Self { own, needed }
    }

    pub(super) fn any(&self) -> bool {
        !self.own.is_empty() || !self.needed.is_empty()
    }

    /// The entry of `.gnu.version`.
    pub(super) fn index(&self, symbol: &Symbol) -> u16 {
        let needed_from = self.own.len().max(1) as u16 + 1;
        match &symbol.version {
            _ if symbol.name.is_empty() => 0,
            Version::Global => 1,
            Version::Own(name, hidden) => {
                let at = self.own.iter().skip(1).position(|own| own == name).expect("a version of the file");
                (at as u16 + 2) | if *hidden { 0x8000 } else { 0 }
            }
            Version::Needed(need) => {
                let at = self.needed.iter().position(|one| one == need).expect("a needed version");
                at as u16 + needed_from
            }
        }
    }

    /// `DT_VERDEF` and the number of its records.
    pub(super) fn defined(&self, strings: &mut Strings) -> (Vec<u8>, u64) {
        let mut out = Vec::new();
        for (at, name) in self.own.iter().enumerate() {
            let next: u32 = if at + 1 == self.own.len() { 0 } else { 28 };
            for half in [1, u16::from(at == 0), at as u16 + 1, 1] {
                out.extend(half.to_le_bytes());
            }
            for word in [sysv(name), 20, next, strings.put(name) as u32, 0] {
                out.extend(word.to_le_bytes());
            }
        }
        (out, self.own.len() as u64)
    }

    /// `DT_VERNEED` and the number of its records.
    pub(super) fn needed(&self, strings: &mut Strings) -> (Vec<u8>, u64) {
        let needed_from = self.own.len().max(1) as u16 + 1;
        let (mut out, mut files) = (Vec::new(), 0);
        let mut at = 0;
        while at < self.needed.len() {
            let of = self.needed[at..].iter().take_while(|need| need.file == self.needed[at].file).count();
            let next = if at + of == self.needed.len() { 0 } else { 16 + 16 * of as u32 };
            out.extend(1_u16.to_le_bytes());
            out.extend((of as u16).to_le_bytes());
            for word in [strings.put(&self.needed[at].file) as u32, 16, next] {
                out.extend(word.to_le_bytes());
            }
            for (inner, need) in self.needed[at..at + of].iter().enumerate() {
                let index = needed_from + (at + inner) as u16;
                out.extend(sysv(&need.name).to_le_bytes());
                out.extend((if need.weak { 2_u16 } else { 0 }).to_le_bytes());
                out.extend((index | if need.hidden { 0x8000 } else { 0 }).to_le_bytes());
                out.extend((strings.put(&need.name) as u32).to_le_bytes());
                out.extend((if inner + 1 == of { 0_u32 } else { 16 }).to_le_bytes());
            }
            at += of;
            files += 1;
        }
        (out, files)
    }
}
