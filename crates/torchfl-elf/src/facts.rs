//! What the dynamic loader would read from a file, and what a packager wants to know besides.

use std::fmt::Write as _;

use goblin::elf::dynamic as dt;
use goblin::elf::header as eh;
use goblin::elf::program_header as ph;
use serde::Serialize;

use crate::error::Error;
use crate::image::{Image, Strings};
use crate::machine::Machine;
use crate::patch::{SearchPath, Tag};
use crate::read_at::ReadAt;
use crate::tables::Need;

/// Longest library or version name, in bytes (Linux `PATH_MAX`).
const MAX_NAME: u64 = 4096;
/// Longest search path, in bytes.
pub(crate) const MAX_PATH: u64 = 1 << 20;
/// All strings of one file together, so that a hostile table of many references to one long string ends.
const MAX_STRINGS: usize = 16 << 20;
/// Largest note segment that is searched for a build id.
const MAX_NOTES: u64 = 0x1_0000;

/// Width of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// 32-bit.
    Elf32,
    /// 64-bit.
    Elf64,
}

/// Byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// What the file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `ET_EXEC`, or `ET_DYN` marked as a program (`DF_1_PIE`; older linkers: an interpreter and no SONAME).
    Program,
    /// Any other `ET_DYN`.
    Library,
    /// `ET_REL`.
    Object,
    /// `ET_CORE`.
    Core,
    /// Another `e_type`.
    Other,
}

/// One program header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Segment {
    /// `p_type`.
    pub kind: u32,
    /// `p_type` by name, as in `PT_LOAD`.
    pub name: &'static str,
    /// May be read.
    pub readable: bool,
    /// May be written.
    pub writable: bool,
    /// May be executed.
    pub executable: bool,
    /// Bytes from the start of the file.
    pub offset: u64,
    /// Address before relocation.
    pub vaddr: u64,
    /// Bytes in the file.
    pub file_size: u64,
    /// Bytes in memory.
    pub mem_size: u64,
    /// Alignment in bytes.
    pub align: u64,
}

/// The versions one library has to define.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VersionNeed {
    /// The library, by SONAME.
    pub file: String,
    /// The versions.
    pub versions: Vec<VersionName>,
}

/// One needed version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VersionName {
    /// For instance `GLIBC_2.17`.
    pub name: String,
    /// `VER_FLG_WEAK`: its absence does not stop the load (glibc `elf/dl-version.c`, `match_symbol`).
    pub weak: bool,
}

/// What [`facts`] found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// Width of addresses.
    pub class: Class,
    /// Byte order.
    pub endian: Endian,
    /// The machine.
    pub machine: Machine,
    /// What the file is for.
    pub kind: Kind,
    /// `ET_EXEC`: a program that only runs at the address it was linked for.
    pub fixed: bool,
    /// Whether there is a dynamic table at all.
    pub dynamic: bool,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// `DT_NEEDED`, in order.
    pub needed: Vec<String>,
    /// The search path that glibc uses.
    pub search_path: Option<SearchPath>,
    /// A `DT_RPATH` that glibc ignores because of a `DT_RUNPATH` beside it.
    pub ignored_rpath: Option<String>,
    /// Versions needed of other libraries.
    pub versions_needed: Vec<VersionNeed>,
    /// Versions defined here; the first is usually the file's own name.
    pub versions_defined: Vec<String>,
    /// `PT_INTERP`.
    pub interpreter: Option<String>,
    /// The program headers, in order.
    pub segments: Vec<Segment>,
    /// Whether the stack must be executable; `None` without `PT_GNU_STACK` (the kernel's default: it must).
    pub executable_stack: Option<bool>,
    /// The GNU build id in hexadecimal.
    pub build_id: Option<String>,
    /// `DT_FLAGS`, with the bits that `DT_SYMBOLIC`, `DT_TEXTREL` and `DT_BIND_NOW` stand for: glibc treats the
    /// tags and the bits alike (`elf/get-dynamic-info.h`).
    pub flags: u64,
    /// `DT_FLAGS_1`.
    pub flags_1: u64,
    /// Bytes of thread-local storage (`PT_TLS`).
    pub tls_size: u64,
    /// Its alignment in bytes.
    pub tls_align: u64,
}

impl Facts {
    /// The newest glibc release that the needed versions name: `GLIBC_2.34` gives `(2, 34)`. Weak versions do
    /// not count, since glibc loads without them. `GLIBC_ABI_DT_RELR` means 2.36, the first to define it.
    pub fn glibc_floor(&self) -> Option<(u32, u32)> {
        self.versions_needed
            .iter()
            .flat_map(|need| &need.versions)
            .filter(|version| !version.weak)
            .filter_map(|version| glibc_release(&version.name))
            .max()
    }

    /// The largest alignment of a `PT_LOAD`, in bytes.
    pub fn max_align(&self) -> u64 {
        let loads = self.segments.iter().filter(|segment| segment.kind == ph::PT_LOAD);
        loads.map(|segment| segment.align).max().unwrap_or(0)
    }

    /// `DF_BIND_NOW` or `DF_1_NOW`: every function is bound when the file is loaded.
    pub fn bind_now(&self) -> bool {
        self.flags & dt::DF_BIND_NOW != 0 || self.flags_1 & dt::DF_1_NOW != 0
    }

    /// `DF_STATIC_TLS`: needs room in the static TLS block, which may run out for libraries opened late.
    pub fn static_tls(&self) -> bool {
        self.flags & dt::DF_STATIC_TLS != 0
    }

    /// `DF_TEXTREL`: the loader has to write into code.
    pub fn text_relocations(&self) -> bool {
        self.flags & dt::DF_TEXTREL != 0
    }

    /// `DF_SYMBOLIC`: its own definitions come first for its own references.
    pub fn symbolic(&self) -> bool {
        self.flags & dt::DF_SYMBOLIC != 0
    }

    /// `DF_1_NODELETE`: stays until the process ends.
    pub fn no_delete(&self) -> bool {
        self.flags_1 & dt::DF_1_NODELETE != 0
    }

    /// `DF_1_NOOPEN`: `dlopen` refuses it.
    pub fn no_open(&self) -> bool {
        self.flags_1 & dt::DF_1_NOOPEN != 0
    }

    /// `DF_1_NODEFLIB`: the system's default folders are not searched.
    pub fn no_default_folders(&self) -> bool {
        self.flags_1 & dt::DF_1_NODEFLIB != 0
    }
}

/// Whether the bytes begin with the ELF magic.
pub fn is_elf(file: &dyn ReadAt) -> bool {
    let mut magic = [0; 4];
    file.read_exact_at(0, &mut magic).is_ok() && &magic == eh::ELFMAG
}

/// Reads a file's headers, dynamic table, versions and the strings they name: a few kilobytes whatever the
/// file's size. `name` is used in errors.
pub fn facts(file: &dyn ReadAt, name: &str) -> Result<Facts, Error> {
    let image = Image::open(file, name)?;
    let mut texts = Texts::new(&image)?;

    let soname = texts.tagged(dt::DT_SONAME, MAX_NAME)?;
    let rpath = texts.tagged(dt::DT_RPATH, MAX_PATH)?;
    let runpath = texts.tagged(dt::DT_RUNPATH, MAX_PATH)?;
    let (search_path, ignored_rpath) = match (runpath, rpath) {
        (Some(value), ignored) => (Some(SearchPath { tag: Tag::Runpath, value }), ignored),
        (None, rpath) => (rpath.map(|value| SearchPath { tag: Tag::Rpath, value }), None),
    };
    let mut needed = Vec::new();
    for entry in image.dynamic.iter().flat_map(|dynamic| &dynamic.entries) {
        if entry.d_tag == dt::DT_NEEDED {
            needed.push(texts.text(entry.d_val, MAX_NAME)?);
        }
    }
    let versions_needed = texts.versions_needed()?;
    let versions_defined = texts.versions_defined()?;
    let interpreter = interpreter(&image)?;
    let flags_1 = image.entry(dt::DT_FLAGS_1).unwrap_or(0);
    let kind = kind(&image, flags_1, interpreter.is_some() && soname.is_none());
    let one = |kind| image.segments.iter().find(move |segment| segment.p_type == kind);

    Ok(Facts {
        class: if image.is_64() { Class::Elf64 } else { Class::Elf32 },
        endian: if image.ctx.is_little_endian() { Endian::Little } else { Endian::Big },
        machine: image.machine(),
        kind,
        fixed: image.header.e_type == eh::ET_EXEC,
        dynamic: image.dynamic.is_some(),
        soname,
        needed,
        search_path,
        ignored_rpath,
        versions_needed,
        versions_defined,
        interpreter,
        executable_stack: one(ph::PT_GNU_STACK).map(|stack| stack.p_flags & ph::PF_X != 0),
        build_id: build_id(&image)?,
        flags: flags(&image),
        flags_1,
        tls_size: one(ph::PT_TLS).map_or(0, |tls| tls.p_memsz),
        tls_align: one(ph::PT_TLS).map_or(0, |tls| tls.p_align),
        segments: image.segments.iter().map(segment).collect(),
    })
}

/// `GLIBC_2.34` → `(2, 34)`; the patch level of `GLIBC_2.2.5` is dropped; others, as `GLIBC_PRIVATE`: `None`.
fn glibc_release(version: &str) -> Option<(u32, u32)> {
    if version == "GLIBC_ABI_DT_RELR" {
        return Some((2, 36));
    }
    let mut numbers = version.strip_prefix("GLIBC_")?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn kind(image: &Image<'_>, flags_1: u64, runs: bool) -> Kind {
    match image.header.e_type {
        eh::ET_EXEC => Kind::Program,
        eh::ET_DYN if flags_1 & dt::DF_1_PIE != 0 || runs => Kind::Program,
        eh::ET_DYN => Kind::Library,
        eh::ET_REL => Kind::Object,
        eh::ET_CORE => Kind::Core,
        _ => Kind::Other,
    }
}

fn flags(image: &Image<'_>) -> u64 {
    let older = [
        (dt::DT_SYMBOLIC, dt::DF_SYMBOLIC),
        (dt::DT_TEXTREL, dt::DF_TEXTREL),
        (dt::DT_BIND_NOW, dt::DF_BIND_NOW),
    ];
    let older = older.into_iter().filter(|(tag, _)| image.entry(*tag).is_some());
    older.fold(image.entry(dt::DT_FLAGS).unwrap_or(0), |flags, (_, bit)| flags | bit)
}

fn segment(header: &ph::ProgramHeader) -> Segment {
    Segment {
        kind: header.p_type,
        name: ph::pt_to_str(header.p_type),
        readable: header.p_flags & ph::PF_R != 0,
        writable: header.p_flags & ph::PF_W != 0,
        executable: header.p_flags & ph::PF_X != 0,
        offset: header.p_offset,
        vaddr: header.p_vaddr,
        file_size: header.p_filesz,
        mem_size: header.p_memsz,
        align: header.p_align,
    }
}

fn interpreter(image: &Image<'_>) -> Result<Option<String>, Error> {
    let Some(segment) = image.segments.iter().find(|segment| segment.p_type == ph::PT_INTERP) else {
        return Ok(None);
    };
    if segment.p_filesz == 0 {
        return Ok(None); // a file of debug information only
    }
    if segment.p_filesz > MAX_NAME {
        return Err(image.malformed("PT_INTERP is longer than a path may be"));
    }
    let bytes = image.bytes(segment.p_offset, segment.p_filesz, "PT_INTERP")?;
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(Some(String::from_utf8_lossy(text).into_owned()))
}

/// Looks for `NT_GNU_BUILD_ID` in the note segments. Notes that make no sense end the search there.
fn build_id(image: &Image<'_>) -> Result<Option<String>, Error> {
    for segment in image.segments.iter().filter(|segment| segment.p_type == ph::PT_NOTE) {
        if segment.p_filesz == 0 {
            continue;
        }
        let notes = image.bytes(segment.p_offset, segment.p_filesz.min(MAX_NOTES), "a note segment")?;
        // gABI: 4; the GNU property notes of 64-bit files use 8.
        let align = if segment.p_align == 8 { 8 } else { 4 };
        let mut at = 0;
        while let Some((kind, name, desc, next)) = note(image, &notes, at, align) {
            const NT_GNU_BUILD_ID: u32 = 3;
            if kind == NT_GNU_BUILD_ID && name == b"GNU\0" && desc.len() <= 64 {
                let mut text = String::new();
                for byte in desc {
                    // Writing to a String cannot fail.
                    let _ = write!(text, "{byte:02x}");
                }
                return Ok(Some(text));
            }
            at = next;
        }
    }
    Ok(None)
}

fn note<'b>(
    image: &Image<'_>,
    notes: &'b [u8],
    at: usize,
    align: usize,
) -> Option<(u32, &'b [u8], &'b [u8], usize)> {
    let word = |at| image.parse::<u32>(notes, at, "note").ok();
    let (name_len, desc_len, kind) = (word(at)?, word(at + 4)?, word(at + 8)?);
    let name_end = (at + 12).checked_add(name_len as usize)?;
    let desc = name_end.checked_next_multiple_of(align)?;
    let desc_end = desc.checked_add(desc_len as usize)?;
    let name = notes.get(at + 12..name_end)?;
    Some((kind, name, notes.get(desc..desc_end)?, desc_end.checked_next_multiple_of(align)?))
}

/// A library's name, and the versions needed of it with their indices in `.gnu.version`.
type IndexedNeed = (String, Vec<(u16, VersionName)>);

/// Strings of one file, with a bound on their sum.
pub(crate) struct Texts<'i> {
    image: &'i Image<'i>,
    strings: Option<Strings>,
    left: usize,
}

impl<'i> Texts<'i> {
    pub(crate) fn new(image: &'i Image<'i>) -> Result<Self, Error> {
        Ok(Self { image, strings: image.strings()?, left: MAX_STRINGS })
    }

    fn text(&mut self, index: u64, limit: u64) -> Result<String, Error> {
        let strings = self.strings.ok_or_else(|| self.image.malformed("strings without DT_STRTAB"))?;
        let bytes = self.image.string(strings, index, limit)?;
        self.charge(bytes.len())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Counts the bytes of a string, also of one that is copied.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), Error> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| self.image.malformed("names of more than 16 MiB"))?;
        Ok(())
    }

    fn tagged(&mut self, tag: u64, limit: u64) -> Result<Option<String>, Error> {
        self.image.entry(tag).map(|index| self.text(index, limit)).transpose()
    }

    /// `.gnu.version_r`, with the index that `.gnu.version` uses for each.
    pub(crate) fn indexed_needs(&mut self) -> Result<Vec<IndexedNeed>, Error> {
        let image = self.image;
        let mut files: Vec<IndexedNeed> = Vec::new();
        image.each_need(|need| {
            match need {
                Need::File(name) => files.push((self.text(name.into(), MAX_NAME)?, Vec::new())),
                Need::Version { name, flags, index } => {
                    const VER_FLG_WEAK: u16 = 2;
                    let name = self.text(name.into(), MAX_NAME)?;
                    if let Some((_, versions)) = files.last_mut() {
                        versions.push((index, VersionName { name, weak: flags & VER_FLG_WEAK != 0 }));
                    }
                }
            }
            Ok(())
        })?;
        Ok(files)
    }

    /// `.gnu.version_d`: index of each version, whether it is the file's own name, and its name.
    pub(crate) fn indexed_definitions(&mut self) -> Result<Vec<(u16, bool, String)>, Error> {
        const VER_FLG_BASE: u16 = 1;
        let image = self.image;
        let mut definitions = Vec::new();
        image.each_definition(|definition| {
            if definition.first {
                let base = definition.flags & VER_FLG_BASE != 0;
                definitions.push((definition.index, base, self.text(definition.name.into(), MAX_NAME)?));
            }
            Ok(())
        })?;
        Ok(definitions)
    }

    fn versions_needed(&mut self) -> Result<Vec<VersionNeed>, Error> {
        let files = self.indexed_needs()?.into_iter();
        Ok(files
            .map(|(file, versions)| VersionNeed {
                file,
                versions: versions.into_iter().map(|(_, version)| version).collect(),
            })
            .collect())
    }

    fn versions_defined(&mut self) -> Result<Vec<String>, Error> {
        Ok(self.indexed_definitions()?.into_iter().map(|(_, _, name)| name).collect())
    }
}
