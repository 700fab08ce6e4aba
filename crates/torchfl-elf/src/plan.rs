//! Works out an edit. The ways, in the order tried: nothing; over the old text; after the last string of a
//! trailing segment; a copy of the string table in a trailing segment (`tail.rs`).

use goblin::elf::dynamic::{DF_1_PIE, DT_FLAGS_1, DT_NEEDED, DT_SONAME, Dyn};
use goblin::elf::header::{self as eh, Header};
use goblin::elf::program_header::{PT_INTERP, ProgramHeader};
use goblin::elf::section_header::{SHF_ALLOC, SHT_STRTAB, SHT_SYMTAB, SectionHeader};

use crate::error::Error;
use crate::facts::MAX_PATH;
use crate::image::{Dynamic, Image, Strings, section_end};
use crate::patch::{Data, Edit, How, Patch, Patched, Tag, Write};
use crate::read_at::ReadAt;
use crate::symbols::symbols;
use crate::verify;

/// How far before a text its string is looked for, in bytes; further away counts as shared.
const MAX_LOOK_BACK: u64 = 0x1_0000;

/// Whether the file is as `edit` asks already; reads little more than its headers.
pub(crate) fn is_done(file: &dyn ReadAt, name: &str, edit: &Edit) -> Result<bool, Error> {
    check_value(edit)?;
    let image = Image::open(file, name)?;
    check_patchable(&image)?;
    verify::has_search_path(&image, edit)
}

/// Plans `edit` for the file, and checks the result through [`Patched`] as the loader would see it. Reads the
/// headers, the dynamic symbols and `.dynstr`, in constant memory. `name` is used in errors.
pub fn plan(file: &dyn ReadAt, name: &str, edit: &Edit) -> Result<Patch, Error> {
    if is_done(file, name, edit)? {
        return Ok(Patch { how: How::Unchanged, len: file.len(), writes: Vec::new() });
    }
    let image = Image::open(file, name)?;
    check_no_loader(&image)?;
    verify::check_loadable(&image).map_err(|what| image.malformed(what))?;
    let patch = Draft::new(&image)?.run(edit)?;
    verify::check_edit(&image, &Patched::new(file, patch.clone()), edit)?;
    Ok(patch)
}

fn check_value(edit: &Edit) -> Result<(), Error> {
    let Edit::Set { value, .. } = edit else { return Ok(()) };
    let why = if value.contains('\0') {
        "it holds a NUL byte"
    } else if value.len() as u64 > MAX_PATH {
        "it is longer than 1 MiB"
    } else {
        return Ok(());
    };
    Err(Error::Value { value: value.chars().take(80).collect(), why })
}

fn check_patchable(image: &Image<'_>) -> Result<(), Error> {
    let not_dynamic = |what| Err(Error::NotDynamic { name: image.name.to_owned(), what });
    match image.header.e_type {
        eh::ET_EXEC | eh::ET_DYN => {}
        eh::ET_REL => return not_dynamic("an object file"),
        eh::ET_CORE => return not_dynamic("a core dump"),
        _ => return not_dynamic("an unknown type of ELF file"),
    }
    if image.machine().max_page_size().is_none() {
        return Err(Error::Machine { name: image.name.to_owned(), machine: image.machine().to_string() });
    }
    if image.dynamic.is_none() {
        return not_dynamic("it has no dynamic table (a static program, or debug information only)");
    }
    // A static program may have a dynamic table, which its own start-up code reads, at addresses fixed when it
    // was linked. No loader looks for libraries there.
    let interpreted = image.segments.iter().any(|segment| segment.p_type == PT_INTERP);
    let pie = image.entry(DT_FLAGS_1).is_some_and(|flags| flags & DF_1_PIE != 0);
    if !interpreted && (pie || image.header.e_type == eh::ET_EXEC) {
        return not_dynamic("a static program");
    }
    Ok(())
}

/// Refuses a dynamic loader: nobody loads it, it relocates itself by what it knew when it was linked.
///
/// It needs no library, and defines what a debugger looks for in a loader: `_r_debug` (glibc, the BSDs, bionic) or
/// `_dl_debug_addr` (musl). Its usual names count as well.
fn check_no_loader(image: &Image<'_>) -> Result<(), Error> {
    let mut entries = image.dynamic.iter().flat_map(|dynamic| &dynamic.entries);
    if entries.any(|entry| entry.d_tag == DT_NEEDED) {
        return Ok(());
    }
    let soname = match (image.entry(DT_SONAME), image.strings()?) {
        (Some(index), Some(strings)) => image.string(strings, index, MAX_PATH)?,
        _ => Vec::new(),
    };
    let named = ["ld-linux", "ld.so", "ld64.so", "ld-musl", "ld-android"]
        .iter()
        .any(|known| soname.starts_with(known.as_bytes()));
    if named || defines_one_of(image, &["_r_debug", "_dl_debug_addr"])? {
        let what = "a dynamic loader, which finds itself without one";
        return Err(Error::NotDynamic { name: image.name.to_owned(), what });
    }
    Ok(())
}

fn defines_one_of(image: &Image<'_>, names: &[&str]) -> Result<bool, Error> {
    for symbol in symbols(image.file, image.name)? {
        let symbol = symbol?;
        if symbol.defined && names.contains(&symbol.name.as_str()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The tables that an edit changes do not overlap: else one change would be two.
fn check_apart(image: &Image<'_>, strings: Strings, dynamic: &Dynamic, sections: u64) -> Result<(), Error> {
    let entries = (dynamic.entries.len() + dynamic.nulls) as u64;
    let mut tables = [
        (0, u64::from(image.header.e_ehsize)),
        (image.header.e_phoff, image.segments.len() as u64 * image.size::<ProgramHeader>()),
        (image.header.e_shoff, sections * image.size::<SectionHeader>()),
        (dynamic.offset, entries * image.size::<Dyn>()),
        (strings.offset, strings.len),
    ];
    tables.sort_unstable();
    let mut end = 0;
    for (from, len) in tables.into_iter().filter(|(_, len)| *len > 0) {
        if from < end {
            return Err(image.malformed(format!("two tables overlap at offset {from:#x}")));
        }
        end = from.saturating_add(len);
    }
    Ok(())
}

/// A search path in the file.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) value: Vec<u8>,
    /// Index into `.dynstr`.
    pub(crate) start: u64,
    /// Start of the whole string that the text is (the tail of).
    run: u64,
    /// Another reference uses some of its bytes.
    pub(crate) shared: bool,
    /// The first byte after `start` that another reference uses, or the table's end.
    pub(crate) limit: u64,
}

impl Text {
    /// Index of the NUL that ends it.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.value.len() as u64
    }
}

/// The file's headers while they are being changed, and the writes so far.
pub(crate) struct Draft<'i> {
    pub(crate) image: &'i Image<'i>,
    pub(crate) strings: Strings,
    pub(crate) texts: Vec<Text>,
    pub(crate) header: Header,
    pub(crate) segments: Vec<ProgramHeader>,
    pub(crate) entries: Vec<Dyn>,
    pub(crate) old_sections: Vec<SectionHeader>,
    pub(crate) sections: Vec<SectionHeader>,
    /// Where the dynamic table is written: file offset and number of entries that are written at least.
    pub(crate) dynamic_at: u64,
    pub(crate) dynamic_moved: bool,
    /// Bytes from `e_phoff` on that belong to the program headers; past their end they become zero.
    pub(crate) header_zone: u64,
    pub(crate) writes: Vec<Write>,
    pub(crate) len: u64,
}

impl<'i> Draft<'i> {
    fn new(image: &'i Image<'i>) -> Result<Self, Error> {
        let strings = image.strings()?.ok_or_else(|| image.malformed("no DT_STRTAB"))?;
        let dynamic = image.dynamic.as_ref().ok_or_else(|| image.malformed("no dynamic table"))?;
        let sections = image.sections()?;
        check_apart(image, strings, dynamic, sections.len() as u64)?;
        Ok(Self {
            image,
            strings,
            texts: texts(image, strings, &sections)?,
            header: image.header,
            segments: image.segments.clone(),
            entries: dynamic.entries.clone(),
            old_sections: sections.clone(),
            sections,
            dynamic_at: dynamic.offset,
            dynamic_moved: false,
            header_zone: image.segments.len() as u64 * image.size::<ProgramHeader>(),
            writes: Vec::new(),
            len: image.file.len(),
        })
    }

    fn run(mut self, edit: &Edit) -> Result<Patch, Error> {
        match edit {
            Edit::Remove => {
                self.wipe(None);
                self.set_entries(None);
                self.finish(How::InPlace)
            }
            Edit::Set { tag, value } => {
                let value = value.as_bytes();
                if let Some(index) = self.place(value)? {
                    self.set_entries(Some((*tag, index)));
                    return self.finish(How::InPlace);
                }
                let index = self.append(value)?;
                self.set_entries(Some((*tag, index)));
                self.finish(How::Appended)
            }
        }
    }

    /// Finds room for `value` among the bytes that only search paths use; returns its index in `.dynstr`.
    fn place(&mut self, value: &[u8]) -> Result<Option<u64>, Error> {
        if self.texts.is_empty() {
            // Without an entry to reuse there is no text to overwrite, but the empty string is at index 0.
            let empty = value.is_empty() && self.strings.len > 0 && self.has_slot();
            return Ok(
                (empty && self.image.string(self.strings, 0, 0).is_ok_and(|s| s.is_empty())).then_some(0)
            );
        }
        // The same text with another tag.
        if let Some(same) = self.texts.iter().position(|text| text.value == value) {
            let start = self.texts[same].start;
            self.wipe(Some(same));
            return Ok(Some(start));
        }
        for at in 0..self.texts.len() {
            let text = &self.texts[at];
            if text.shared || self.room(text)? < value.len() as u64 {
                continue;
            }
            let (start, old) = (text.start, text.value.len());
            let mut bytes = value.to_vec();
            bytes.resize(old.max(value.len()), 0);
            bytes.push(0);
            self.wipe(Some(at));
            self.write(self.strings.offset + start, bytes);
            return Ok(Some(start));
        }
        Ok(None)
    }

    /// The longest text that fits: over the old one, and over padding behind it that nothing refers to.
    /// Padding is NUL (ours), or `X` (how patchelf blanks what it frees).
    pub(crate) fn room(&self, text: &Text) -> Result<u64, Error> {
        let padding = text.limit.min(self.strings.len).saturating_sub(text.end() + 1);
        let mut spare = 0;
        let from = self.strings.offset + text.end() + 1;
        self.image.stream(from, padding, 1, ".dynstr", |piece| {
            let used = piece.iter().position(|byte| !matches!(byte, 0 | b'X'));
            spare += used.unwrap_or(piece.len()) as u64;
            used.is_none()
        })?;
        Ok(text.value.len() as u64 + spare)
    }

    /// Overwrites the search paths with NUL, where nothing else uses their bytes.
    pub(crate) fn wipe(&mut self, except: Option<usize>) {
        for (from, to) in self.wipes(except) {
            self.write(self.strings.offset + from, vec![0; (to - from) as usize]);
        }
    }

    /// The ranges of `.dynstr` that are wiped: sorted, without overlap. `except` stays whole.
    pub(crate) fn wipes(&self, except: Option<usize>) -> Vec<(u64, u64)> {
        let kept = except.map_or((u64::MAX, u64::MAX), |at| (self.texts[at].start, self.texts[at].end()));
        let mut texts: Vec<_> = self.texts.iter().filter(|text| !text.shared).collect();
        texts.sort_by_key(|text| text.start);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for text in texts {
            // Two search paths may share a tail; both end at the same NUL then.
            let from = text.start.max(ranges.last().map_or(0, |(_, to)| *to));
            let to = if text.start <= kept.1 { text.end().min(kept.0) } else { text.end() };
            if from < to {
                ranges.push((from, to));
            }
        }
        ranges
    }

    /// Whether the table has room for the entry of a search path.
    pub(crate) fn has_slot(&self) -> bool {
        !self.texts.is_empty() || self.image.dynamic.as_ref().is_some_and(|dynamic| dynamic.nulls > 1)
    }

    /// Leaves exactly the given search path in the dynamic table, in the place of the first one it had.
    fn set_entries(&mut self, new: Option<(Tag, u64)>) {
        let mut new = new.map(|(tag, index)| Dyn { d_tag: tag.number(), d_val: index });
        let old = std::mem::take(&mut self.entries);
        for entry in old {
            if Tag::of(entry.d_tag).is_none() {
                self.entries.push(entry);
            } else if let Some(new) = new.take() {
                self.entries.push(new);
            }
        }
        self.entries.extend(new);
    }

    pub(crate) fn set_entry(&mut self, tag: u64, value: u64) {
        for entry in self.entries.iter_mut().filter(|entry| entry.d_tag == tag) {
            entry.d_val = value;
        }
    }

    pub(crate) fn is_program(&self) -> bool {
        self.header.e_type == eh::ET_EXEC || self.segments.iter().any(|segment| segment.p_type == PT_INTERP)
    }

    pub(crate) fn no_room(&self, why: impl Into<String>) -> Error {
        Error::NoRoom { name: self.image.name.to_owned(), why: why.into() }
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.writes.push(Write { offset, data: Data::Bytes(bytes) });
        }
    }

    pub(crate) fn copy(&mut self, offset: u64, from: u64, len: u64) {
        if len > 0 {
            self.writes.push(Write { offset, data: Data::Copy { from, len } });
        }
    }

    /// Writes the bytes of `new` that differ from the file's; differences closer than a word are one write.
    fn write_changes(&mut self, offset: u64, new: &[u8]) -> Result<(), Error> {
        const NEAR: usize = 8;
        let known = self.image.file.len().saturating_sub(offset).min(new.len() as u64);
        let old = if known == 0 { Vec::new() } else { self.image.bytes(offset, known, "a header")? };
        let mut run: Option<(usize, usize)> = None;
        for at in (0..new.len()).filter(|at| old.get(*at) != Some(&new[*at])) {
            run = match run {
                Some((start, end)) if at < end + NEAR => Some((start, at + 1)),
                Some((start, end)) => {
                    self.write(offset + start as u64, new[start..end].to_vec());
                    Some((at, at + 1))
                }
                None => Some((at, at + 1)),
            };
        }
        if let Some((start, end)) = run {
            self.write(offset + start as u64, new[start..end].to_vec());
        }
        Ok(())
    }

    fn finish(mut self, how: How) -> Result<Patch, Error> {
        self.emit_header()?;
        self.emit_dynamic()?;
        self.emit_sections()?;
        self.writes.sort_by_key(|write| write.offset);
        if let Some(pair) = self.writes.windows(2).find(|pair| pair[0].end() > pair[1].offset) {
            let what = format!("two writes meet at offset {:#x}", pair[1].offset);
            return Err(Error::SelfCheck { name: self.image.name.to_owned(), what });
        }
        Ok(Patch { how, len: self.len, writes: self.writes })
    }

    /// The two fields of the ELF header that may change, and the program headers.
    fn emit_header(&mut self) -> Result<(), Error> {
        let (phoff, phnum) = if self.image.is_64() { (32, 56) } else { (28, 44) };
        let word = self.image.word(self.header.e_phoff)?;
        self.write_changes(phoff, &word)?;
        let le = self.image.ctx.is_little_endian();
        let count = self.header.e_phnum;
        self.write_changes(phnum, &if le { count.to_le_bytes() } else { count.to_be_bytes() })?;
        let mut table = self.image.encode(&self.segments)?;
        table.resize(table.len().max(self.header_zone as usize), 0);
        self.write_changes(self.header.e_phoff, &table)
    }

    fn emit_dynamic(&mut self) -> Result<(), Error> {
        let old = self.image.dynamic.as_ref().map_or(0, |dynamic| dynamic.entries.len());
        let mut entries = self.entries.clone();
        if self.dynamic_moved {
            let bytes = self.image.encode(&entries)?; // the NULs behind it are the tail's zeros
            self.write(self.dynamic_at, bytes);
            return Ok(());
        }
        entries.resize(entries.len().max(old), Dyn::default());
        let bytes = self.image.encode(&entries)?;
        self.write_changes(self.dynamic_at, &bytes)
    }

    fn emit_sections(&mut self) -> Result<(), Error> {
        let size = self.image.size::<SectionHeader>();
        for at in 0..self.sections.len() {
            if self.sections[at] != self.old_sections[at] {
                let bytes = self.image.encode(&self.sections[at..=at])?;
                self.write_changes(self.header.e_shoff + at as u64 * size, &bytes)?;
            }
        }
        Ok(())
    }
}

/// Reads the file's search paths, and finds out who else uses their bytes: linkers let a name point into the
/// tail of another (`-O1` and up), so `lib` may be the end of `/opt/x/lib`.
fn texts(image: &Image<'_>, strings: Strings, sections: &[SectionHeader]) -> Result<Vec<Text>, Error> {
    let mut texts = Vec::new();
    for entry in image.dynamic.iter().flat_map(|dynamic| &dynamic.entries) {
        if Tag::of(entry.d_tag).is_none() {
            continue;
        }
        if texts.len() == 16 {
            return Err(image.malformed("more than 16 search paths"));
        }
        let start = entry.d_val;
        let value = image.string(strings, start, MAX_PATH)?;
        let (run, cut) = run_start(image, strings, start)?;
        texts.push(Text { value, start, run, shared: cut, limit: strings.len });
    }
    if texts.is_empty() {
        return Ok(texts);
    }
    let mut mark = |index: u64| {
        for text in &mut texts {
            if index >= text.start && index < text.limit {
                text.limit = index;
            }
            text.shared |= (text.run..text.end()).contains(&index) || index == text.start;
        }
    };
    image.each_string_use(&mut mark)?;
    for entry in image.dynamic.iter().flat_map(|dynamic| &dynamic.entries) {
        // A tag that is not known here may hold the index of a string.
        if !is_known(entry.d_tag) {
            mark(entry.d_val);
        }
    }
    let starts: Vec<u64> = texts.iter().map(|text| text.start).collect();
    for text in &mut texts {
        let next = starts.iter().filter(|start| **start > text.end()).min();
        text.limit = next.map_or(text.limit, |next| text.limit.min(*next));
    }
    let foreign = image.entry(DT_GNU_LIBLIST).is_some();
    for text in &mut texts {
        text.shared |= foreign || used_by_sections(image, strings, sections, text);
    }
    Ok(texts)
}

/// The last of gABI's own tags.
const DT_RELRENT: u64 = 37;
/// Prelink's list of libraries: its names are in `.dynstr` too.
const DT_GNU_LIBLIST: u64 = 0x6fff_fef9;

/// Tags whose values are known not to be strings, or are handled as strings elsewhere: gABI's, and those of
/// the GNU and versioning ranges that glibc's `elf/elf.h` lists.
fn is_known(tag: u64) -> bool {
    tag <= DT_RELRENT
        || (0x6fff_fdf5..=0x6fff_feff).contains(&tag)
        || (0x6fff_fff0..=0x6fff_ffff).contains(&tag)
        || matches!(tag, 0x7fff_fffd | 0x7fff_ffff)
}

/// Start of the string that `index` lies in, and whether the search for it was cut short.
fn run_start(image: &Image<'_>, strings: Strings, index: u64) -> Result<(u64, bool), Error> {
    let back = index.min(MAX_LOOK_BACK);
    let bytes = image.bytes(strings.offset + index - back, back, ".dynstr")?;
    Ok(match bytes.iter().rposition(|byte| *byte == 0) {
        Some(nul) => (index - back + nul as u64 + 1, false),
        None => (index - back, back < index),
    })
}

/// Whether a section other than `.dynstr` itself covers the text, or a table other than the loader's takes
/// its names from it.
fn used_by_sections(image: &Image<'_>, strings: Strings, sections: &[SectionHeader], text: &Text) -> bool {
    let (from, to) = (strings.offset + text.run, strings.offset + text.end());
    let covers = |section: &SectionHeader| {
        section_end(section).is_some_and(|end| section.sh_offset <= to && from < end)
    };
    let is_dynstr = |section: &SectionHeader| {
        section.sh_type == SHT_STRTAB
            && section.sh_addr == strings.vaddr
            && section.sh_flags & u64::from(SHF_ALLOC) != 0
    };
    let names_here = |at: u64| usize::try_from(at).ok().and_then(|at| sections.get(at)).is_some_and(covers);
    sections.iter().any(|section| {
        (covers(section) && !is_dynstr(section))
            || (section.sh_type == SHT_SYMTAB && names_here(section.sh_link.into()))
    }) || (!sections.is_empty() && names_here(image.header.e_shstrndx.into()))
}
