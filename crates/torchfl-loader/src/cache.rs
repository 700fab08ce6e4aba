//! Where a name leads outside every search path: `/etc/ld.so.cache`, read ([`Cache::parse`]) or worked out as
//! `ldconfig` would fill it ([`Cache::derive`]).
//!
//! Sources: glibc's `sysdeps/generic/dl-cache.h` (the format), `elf/dl-cache.c` (the lookup),
//! `elf/ldconfig.c` and `elf/cache.c` (what is entered, in which order).

mod derive;
mod pattern;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use torchfl_elf::{Class, Endian, Machine};

use crate::error::Error;

pub use derive::{Tree, TreeEntry, TreeLibrary};

/// Magic of the format before glibc 2.2; the newer table follows it where both are there.
const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
/// Magic and version of the table.
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// Bytes before the entries, and of one entry.
const HEADER: usize = 48;
const ENTRY: usize = 24;
/// The same of the old format.
const OLD_HEADER: usize = 16;
const OLD_ENTRY: usize = 12;
/// `cache_extension_magic`.
const EXTENSION_MAGIC: u32 = 0xeaa4_2174;
/// Longest name or path, in bytes (Linux `PATH_MAX`); longer ones cannot be opened.
const MAX_STRING: usize = 4096;
/// All strings together: entries of a hostile file may share one long string.
const MAX_STRINGS: usize = 64 << 20;

/// The kind of file that a process can load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abi {
    /// `e_machine`.
    pub machine: Machine,
    /// Width of addresses.
    pub class: Class,
    /// Byte order; the cache is in the machine's own.
    pub endian: Endian,
}

impl Abi {
    /// What `flags` of an entry says of a library of this kind, the one that `ldconfig` writes today first
    /// (glibc's `dl-cache.h` of each machine: `_DL_CACHE_DEFAULT_ID`, `_dl_cache_check_flags`). ARM is taken
    /// for hard-float, RISC-V and `LoongArch` for double-float.
    fn flags(self) -> &'static [u32] {
        const GENERIC: &[u32] = &[3, 1];
        match (self.machine.0, self.class) {
            (62, Class::Elf64) => &[0x303],         // EM_X86_64
            (62, Class::Elf32) => &[0x803],         // x32
            (183, Class::Elf64) => &[0xa03],        // EM_AARCH64
            (40, Class::Elf32) => &[0x903, 3],      // EM_ARM; 3: built before the float ABI was marked
            (21, Class::Elf64) => &[0x503],         // EM_PPC64
            (22, Class::Elf64) => &[0x403],         // EM_S390
            (243, Class::Elf64) => &[0x1003],       // EM_RISCV
            (258, Class::Elf64) => &[0x1203, 3, 1], // EM_LOONGARCH; glibc 2.36 writes the generic ones
            _ => GENERIC,
        }
    }
}

/// Names, and the paths that they lead to, for one kind of library.
#[derive(Debug, Clone, Default)]
pub struct Cache {
    /// In the cache's order: names descend, and of one name those of `glibc-hwcaps` come first.
    rows: Vec<Row>,
}

/// One line of `ldconfig -p`.
#[derive(Debug, Clone)]
struct Row {
    name: String,
    path: String,
    needs: Needs,
}

/// What the processor must offer for a row to count.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// Subfolder of `glibc-hwcaps`, and the x86 ISA level that the file is marked with, less one.
    Hwcap {
        name: String,
        level: u32,
    },
    /// A capability by number, which glibc gave up in 2.37. Such a row is passed over here: the plain
    /// library, which it is a faster build of, follows.
    Legacy,
}

impl Cache {
    /// Reads a cache file; `name` is what messages call it. Rows for other kinds than `abi` are left out.
    ///
    /// # Errors
    /// [`Error::Cache`] where the bytes are no cache, contradict themselves, or are in the other byte order.
    /// ld.so would go on as if there were none.
    pub fn parse(bytes: &[u8], name: &str, abi: Abi) -> Result<Self, Error> {
        Reader { file: bytes, table: &[], endian: abi.endian, left: MAX_STRINGS }
            .read(abi)
            .map_err(|what| Error::Cache { name: name.to_owned(), what })
    }

    /// The path that ld.so would try for `name` (`_dl_load_cache_lookup`). `hwcaps` are the subfolders that
    /// the machine's processor can use, the best first, with or without `glibc-hwcaps/` before them.
    pub fn lookup(&self, name: &str, hwcaps: &[String]) -> Option<&str> {
        let rank = |wanted: &str| {
            hwcaps.iter().position(|hwcap| hwcap.strip_prefix("glibc-hwcaps/").unwrap_or(hwcap) == wanted)
        };
        let start = self.rows.partition_point(|row| compare(name.as_bytes(), row.name.as_bytes()).is_lt());
        let same = |row: &&Row| compare(name.as_bytes(), row.name.as_bytes()).is_eq();
        let mut best: Option<(usize, &str)> = None;
        for row in self.rows[start..].iter().take_while(same) {
            match &row.needs {
                Needs::Hwcap { name, level } => {
                    if *level != 0 && rank(&format!("x86-64-v{}", level + 1)).is_none() {
                        continue;
                    }
                    let Some(rank) = rank(name) else { continue };
                    if best.is_none_or(|(other, _)| rank < other) {
                        best = Some((rank, &row.path));
                    }
                }
                // Rows of `glibc-hwcaps` have all been seen.
                _ if best.is_some() => break,
                Needs::Legacy => {}
                Needs::Nothing => return Some(&row.path),
            }
        }
        best.map(|(_, path)| path)
    }

    /// Each name and path in the order of the file, those for other processors among them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rows.iter().map(|row| (row.name.as_str(), row.path.as_str()))
    }
}

/// The order of names: runs of digits count as numbers, so `libz.so.10` is above `libz.so.9`, and
/// `libz.so.01` *is* `libz.so.1` (`_dl_cache_libcmp`).
fn compare(mut a: &[u8], mut b: &[u8]) -> Ordering {
    loop {
        match (a.split_first(), b.split_first()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some((x, _)), Some((y, _))) if x.is_ascii_digit() && y.is_ascii_digit() => {
                match number(&mut a).cmp(&number(&mut b)) {
                    Ordering::Equal => {}
                    other => return other,
                }
            }
            (Some((x, _)), Some(_)) if x.is_ascii_digit() => return Ordering::Greater,
            (Some(_), Some((y, _))) if y.is_ascii_digit() => return Ordering::Less,
            (Some((x, rest_a)), Some((y, rest_b))) => {
                if x != y {
                    return x.cmp(y);
                }
                (a, b) = (rest_a, rest_b);
            }
        }
    }
}

/// Takes the number that `text` starts with; it wraps as C's `int` does.
fn number(text: &mut &[u8]) -> i32 {
    let mut value = 0_i32;
    while let Some((digit, rest)) = text.split_first().filter(|(digit, _)| digit.is_ascii_digit()) {
        value = value.wrapping_mul(10).wrapping_add(i32::from(digit - b'0'));
        *text = rest;
    }
    value
}

/// A cache file in reading.
struct Reader<'b> {
    file: &'b [u8],
    /// The newer table, to which its strings are relative.
    table: &'b [u8],
    endian: Endian,
    left: usize,
}

impl<'b> Reader<'b> {
    fn read(mut self, abi: Abi) -> Result<Cache, &'static str> {
        self.table = self.newer_table()?;
        let flags = *self.table.get(28).ok_or("ends in its header")?;
        let wanted = if self.endian == Endian::Little { 2 } else { 3 };
        if flags != 0 && flags & 3 != wanted {
            return Err("is in the other byte order: it comes from another kind of machine");
        }
        let count = self.word(self.table, 20)? as usize;
        if self.table.len() < HEADER || (self.table.len() - HEADER) / ENTRY < count {
            return Err("ends before its last entry");
        }
        let hwcaps = self.hwcaps()?;
        let accepted = abi.flags();
        let mut rows = Vec::new();
        for at in (HEADER..).step_by(ENTRY).take(count) {
            if accepted.contains(&self.word(self.table, at)?) {
                rows.push(self.row(at, &hwcaps)?);
            }
        }
        // It is sorted, unless somebody made it by hand. Then ld.so would find some names and not others.
        if !rows.is_sorted_by(|a, b| compare(b.name.as_bytes(), a.name.as_bytes()).is_le()) {
            return Err("is not sorted");
        }
        Ok(Cache { rows })
    }

    fn newer_table(&self) -> Result<&'b [u8], &'static str> {
        if self.file.starts_with(MAGIC) {
            return Ok(self.file);
        }
        if !self.file.starts_with(OLD_MAGIC) {
            return Err("is no ld.so.cache");
        }
        let entries = (self.word(self.file, 12)? as usize).checked_mul(OLD_ENTRY);
        let start = entries.and_then(|bytes| (OLD_HEADER + 7).checked_add(bytes)).map(|end| end & !7);
        start
            .and_then(|start| self.file.get(start..))
            .filter(|table| table.starts_with(MAGIC))
            .ok_or("is in the format of before glibc 2.2 alone; `ldconfig` writes it anew")
    }

    fn row(&mut self, at: usize, hwcaps: &[String]) -> Result<Row, &'static str> {
        let table = self.table;
        let name = self.string(table, self.word(table, at + 4)?)?;
        let path = self.string(table, self.word(table, at + 8)?)?;
        let (first, second) = (self.word(table, at + 16)?, self.word(table, at + 20)?);
        let (low, high) = if self.endian == Endian::Little { (first, second) } else { (second, first) };
        // DL_CACHE_HWCAP_EXTENSION with ten bits of ISA level below it.
        let needs = if high & !0x3ff == 1 << 30 {
            let name = hwcaps.get(low as usize).ok_or("names a glibc-hwcaps folder that it does not list")?;
            Needs::Hwcap { name: name.clone(), level: high & 0x3ff }
        } else if low == 0 && high & !(1 << 31) == 0 {
            Needs::Nothing // the topmost bit: a folder `tls`, which every processor may use
        } else {
            Needs::Legacy
        };
        Ok(Row { name, path, needs })
    }

    /// Names of the subfolders of `glibc-hwcaps`, as entries number them. Unlike those of entries their
    /// strings are relative to the file.
    fn hwcaps(&mut self) -> Result<Vec<String>, &'static str> {
        const TAG_HWCAPS: u32 = 1;
        const SHORT: &str = "ends in its extensions";
        let directory = self.word(self.table, 32)? as usize;
        if directory == 0 {
            return Ok(Vec::new());
        }
        if self.word(self.file, directory)? != EXTENSION_MAGIC {
            return Err("has extensions of an unknown kind");
        }
        let count = self.word(self.file, directory.checked_add(4).ok_or(SHORT)?)? as usize;
        let mut names = Vec::new();
        for at in (directory + 8..).step_by(16).take(count) {
            let (tag, offset, size) =
                (self.word(self.file, at)?, self.word(self.file, at + 8)?, self.word(self.file, at + 12)?);
            if tag != TAG_HWCAPS {
                continue;
            }
            names.clear();
            for index in 0..size / 4 {
                let at = offset.checked_add(index * 4).ok_or(SHORT)?;
                let string = self.word(self.file, at as usize)?;
                names.push(self.string(self.file, string)?);
            }
        }
        Ok(names)
    }

    fn word(&self, bytes: &[u8], at: usize) -> Result<u32, &'static str> {
        let bytes =
            at.checked_add(4).and_then(|end| bytes.get(at..end)).and_then(|word| word.try_into().ok());
        let bytes: [u8; 4] = bytes.ok_or("is cut short")?;
        Ok(if self.endian == Endian::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    fn string(&mut self, bytes: &[u8], at: u32) -> Result<String, &'static str> {
        let rest = bytes.get(at as usize..).ok_or("has a string outside of it")?;
        let rest = &rest[..rest.len().min(MAX_STRING)];
        let end = rest.iter().position(|byte| *byte == 0).ok_or("has a string longer than a path may be")?;
        self.left = self.left.checked_sub(end + 1).ok_or("has strings of more than 64 MiB")?;
        Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
    }
}
