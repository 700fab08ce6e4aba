//! Reads an edited file as the loader would, and compares it with what it was.
//!
//! Independent of the planner: it knows the two views and what was asked, not how it was done.

use goblin::elf::dynamic as dt;
use goblin::elf::program_header::{PF_W, PT_DYNAMIC, PT_INTERP, PT_LOAD, PT_NULL, PT_PHDR, ProgramHeader};
use goblin::elf::section_header::{SHF_ALLOC, SHT_DYNAMIC, SHT_STRTAB, SectionHeader};

use crate::error::Error;
use crate::facts::MAX_PATH;
use crate::image::{Image, Strings, section_end};
use crate::patch::{Edit, Tag};
use crate::read_at::ReadAt;

/// Bytes compared at a time.
const CHUNK: u64 = 0x1_0000;
/// The most changed strings that an honest edit of `.dynstr` leaves, and their padding.
const MAX_CHANGES: usize = 1 << 16;

/// What ld.so and the kernel require of the headers; `Err` says which rule is broken.
pub(crate) fn check_loadable(image: &Image<'_>) -> Result<(), String> {
    let mut top = 0;
    for load in image.loads() {
        let at = load.p_vaddr;
        if load.p_align > 1 && !load.p_align.is_power_of_two() {
            return Err(format!("the segment at {at:#x} has the alignment {:#x}", load.p_align));
        }
        if load.p_align > 1 && load.p_vaddr % load.p_align != load.p_offset % load.p_align {
            return Err(format!("the segment at {at:#x}: address and offset differ modulo its alignment"));
        }
        if load.p_filesz > load.p_memsz {
            return Err(format!("the segment at {at:#x} is larger in the file than in memory"));
        }
        if at < top {
            return Err(format!("the segment at {at:#x} overlaps the one before it, or is out of order"));
        }
        let end = at.checked_add(load.p_memsz).filter(|end| *end <= image.max_address());
        top = end.ok_or_else(|| format!("the segment at {at:#x} leaves the address space"))?;
    }
    if top == 0 {
        return Err("no loadable segment".to_owned());
    }
    let len = image.segments.len() as u64 * image.size::<ProgramHeader>();
    let table = image.header.e_phoff;
    let mut mapped = image.loads().filter(|load| load.p_offset <= table);
    let mapped = mapped.find(|load| table + len <= load.p_offset + load.p_filesz);
    if let Some(own) = image.segments.iter().find(|segment| segment.p_type == PT_PHDR) {
        if own.p_offset != table || own.p_filesz != len {
            return Err("PT_PHDR and the ELF header disagree".to_owned());
        }
        if mapped.is_none_or(|load| own.p_vaddr.wrapping_sub(load.p_vaddr) != table - load.p_offset) {
            return Err("PT_PHDR lies in no segment".to_owned());
        }
    }
    if let Some(interpreter) = image.segments.iter().find(|segment| segment.p_type == PT_INTERP) {
        if mapped.is_none() {
            return Err("the program headers lie in no segment".to_owned());
        }
        if image.locate(interpreter.p_vaddr).is_none_or(|(offset, _)| offset != interpreter.p_offset) {
            return Err("PT_INTERP's offset and address name different bytes".to_owned());
        }
    }
    Ok(())
}

/// Checks that `after` is `before` with `edit` done, and nothing else of what the loader reads changed.
pub(crate) fn check_edit(before: &Image<'_>, after: &dyn ReadAt, edit: &Edit) -> Result<(), Error> {
    let fail = |what: String| Error::SelfCheck { name: before.name.to_owned(), what };
    let after = Image::open(after, before.name).map_err(|error| fail(error.to_string()))?;
    check_loadable(&after).map_err(fail)?;
    let strings = |image: &Image<'_>| image.strings()?.ok_or_else(|| fail("no DT_STRTAB".to_owned()));
    let (old, new) = (strings(before)?, strings(&after)?);
    if !has_search_path(&after, edit)? {
        return Err(fail("the search path is not the one asked for".to_owned()));
    }
    check_entries(before, &after).map_err(fail)?;
    check_segments(before, &after)?.map_err(fail)?;
    check_sections(before, &after, new)?.map_err(fail)?;
    check_strings(before, old, &after, new)?.map_err(fail)
}

type Verdict = Result<Result<(), String>, Error>;

/// Whether the file has exactly the search path that `edit` leaves.
pub(crate) fn has_search_path(image: &Image<'_>, edit: &Edit) -> Result<bool, Error> {
    let entries = image.dynamic.iter().flat_map(|dynamic| &dynamic.entries);
    let mut paths = entries.filter_map(|entry| Some((Tag::of(entry.d_tag)?, entry.d_val)));
    let (first, second) = (paths.next(), paths.next());
    match (edit, first, second) {
        (Edit::Remove, None, _) => Ok(true),
        (Edit::Set { tag, value }, Some((found, index)), None) if *tag == found => {
            let strings = image.strings()?.ok_or_else(|| image.malformed("no DT_STRTAB"))?;
            Ok(image.string(strings, index, MAX_PATH)? == value.as_bytes())
        }
        _ => Ok(false),
    }
}

/// All other dynamic entries are the same, but for the addresses of tables that may move.
fn check_entries(before: &Image<'_>, after: &Image<'_>) -> Result<(), String> {
    let entries = |image: &Image<'_>| {
        let entries = image.dynamic.iter().flat_map(|dynamic| dynamic.entries.clone());
        entries
            .filter(|entry| Tag::of(entry.d_tag).is_none())
            .map(|entry| if may_move(entry.d_tag) { (entry.d_tag, 0) } else { (entry.d_tag, entry.d_val) })
            .collect::<Vec<_>>()
    };
    if entries(before) != entries(after) {
        return Err("another dynamic entry changed".to_owned());
    }
    Ok(())
}

fn may_move(tag: u64) -> bool {
    const GNU_HASH: u64 = 0x6fff_fef5;
    const VERSYM: u64 = 0x6fff_fff0;
    const VERDEF: u64 = 0x6fff_fffc;
    const VERNEED: u64 = 0x6fff_fffe;
    matches!(
        tag,
        dt::DT_STRTAB | dt::DT_STRSZ | dt::DT_HASH | dt::DT_SYMTAB | GNU_HASH | VERSYM | VERDEF | VERNEED
    )
}

/// Segments are the same, in the same order, but for a trailing one and for what moved into it.
fn check_segments(before: &Image<'_>, after: &Image<'_>) -> Verdict {
    let (old_loads, new_loads): (Vec<_>, Vec<_>) = (before.loads().collect(), after.loads().collect());
    if new_loads.len() < old_loads.len() {
        return Ok(Err("a segment was lost".to_owned()));
    }
    if new_loads.len() > old_loads.len() + 1 {
        return Ok(Err("more than one segment was added".to_owned()));
    }
    for (at, old) in old_loads.iter().enumerate() {
        let grown = ProgramHeader {
            p_filesz: new_loads[at].p_filesz,
            p_memsz: new_loads[at].p_memsz,
            ..(*old).clone()
        };
        let last = at + 1 == new_loads.len();
        if *new_loads[at] != if last { grown } else { (*old).clone() } {
            return Ok(Err(format!("the segment at {:#x} changed", old.p_vaddr)));
        }
    }
    let others = |image: &Image<'_>| {
        let others = image.segments.iter().filter(|s| !matches!(s.p_type, PT_LOAD | PT_NULL | PT_PHDR));
        others.cloned().collect::<Vec<_>>()
    };
    let (old, new) = (others(before), others(after));
    if old.len() != new.len() {
        return Ok(Err("a program header was lost".to_owned()));
    }
    for (old, new) in old.iter().zip(&new) {
        if old == new {
            continue;
        }
        let same_kind = old.p_type == new.p_type && old.p_flags == new.p_flags && old.p_align == new.p_align;
        let placed = after.locate(new.p_vaddr).is_some_and(|(offset, _)| offset == new.p_offset);
        let same =
            old.p_type == PT_DYNAMIC || same_bytes(before, old.p_offset, after, new.p_offset, old.p_filesz)?;
        if !same_kind || !placed || !same {
            return Ok(Err(format!("the program header of type {:#x} changed", old.p_type)));
        }
    }
    let writable = |image: &Image<'_>| {
        let dynamic = image.segments.iter().find(|segment| segment.p_type == PT_DYNAMIC);
        let vaddr = dynamic.map_or(0, |dynamic| dynamic.p_vaddr);
        let mut loads = image.loads();
        loads.any(|load| load.p_flags & PF_W != 0 && vaddr.wrapping_sub(load.p_vaddr) < load.p_filesz)
    };
    Ok(if writable(before) && !writable(after) {
        Err("the dynamic table became read-only".to_owned())
    } else {
        Ok(())
    })
}

/// Section headers, where there are any, tell the same as the dynamic table, and what moved is the same.
fn check_sections(before: &Image<'_>, after: &Image<'_>, strings: Strings) -> Verdict {
    let (old, new) = (before.sections()?, after.sections()?);
    if old.len() != new.len() {
        return Ok(Err("the number of sections changed".to_owned()));
    }
    let old_strings = before.entry(dt::DT_STRTAB).unwrap_or_default();
    for (old, new) in old.iter().zip(&new) {
        if old == new {
            continue;
        }
        let kept = SectionHeader {
            sh_addr: new.sh_addr,
            sh_offset: new.sh_offset,
            sh_size: new.sh_size,
            ..old.clone()
        };
        let alloc = old.sh_flags & u64::from(SHF_ALLOC) != 0;
        let good = kept == *new
            && match old.sh_type {
                SHT_STRTAB => {
                    alloc
                        && old.sh_addr == old_strings
                        && (new.sh_offset, new.sh_addr, new.sh_size)
                            == (strings.offset, strings.vaddr, strings.len)
                }
                SHT_DYNAMIC => after.dynamic.as_ref().is_some_and(|dynamic| dynamic.offset == new.sh_offset),
                _ => {
                    section_end(old).is_some()
                        && old.sh_size == new.sh_size
                        && after.locate(new.sh_addr).is_some_and(|(offset, _)| offset == new.sh_offset)
                        && same_bytes(before, old.sh_offset, after, new.sh_offset, old.sh_size)?
                }
            };
        if !good {
            return Ok(Err(format!("the section at {:#x} changed", old.sh_addr)));
        }
    }
    Ok(Ok(()))
}

/// Every string that anything refers to, search paths excepted, reads as before.
fn check_strings(before: &Image<'_>, old: Strings, after: &Image<'_>, new: Strings) -> Verdict {
    let changed = match changes(before, old, after, new)? {
        Ok(changed) => changed,
        Err(what) => return Ok(Err(what)),
    };
    // A reference is hit where its string reaches a changed byte: where it starts in the string that the
    // first changed byte belongs to, or later.
    let mut hit = Vec::new();
    for (from, to) in changed {
        hit.push((string_start(before, old, from)?, to));
    }
    let mut broken = None;
    let mut digests = [Digest::default(), Digest::default()];
    before.each_string_use(|index| {
        digests[0].add(index);
        if hit.iter().any(|(from, to)| (*from..*to).contains(&index)) {
            broken = Some(index);
        }
    })?;
    after.each_string_use(|index| digests[1].add(index))?;
    if let Some(index) = broken {
        return Ok(Err(format!("the string {index:#x}, which something else uses, changed")));
    }
    Ok(if digests[0] == digests[1] { Ok(()) } else { Err("the uses of .dynstr changed".to_owned()) })
}

/// The ranges of the old table that read differently in the new one. Changes within one string are one range:
/// whatever refers to a part of it reaches the last of them.
fn changes(
    before: &Image<'_>,
    old: Strings,
    after: &Image<'_>,
    new: Strings,
) -> Result<Result<Vec<(u64, u64)>, String>, Error> {
    let common = old.len.min(new.len);
    let mut found: Vec<(u64, u64)> = Vec::new();
    let (mut a, mut b) = (vec![0; CHUNK as usize], vec![0; CHUNK as usize]);
    let (mut at, mut same_string) = (0, false);
    while at < common {
        let len = CHUNK.min(common - at) as usize;
        before.read(old.offset + at, &mut a[..len], ".dynstr")?;
        after.read(new.offset + at, &mut b[..len], ".dynstr")?;
        if a[..len] == b[..len] {
            same_string &= !a[..len].contains(&0);
            at += len as u64;
            continue;
        }
        for (i, (a, b)) in (at..).zip(a[..len].iter().zip(&b[..len])) {
            if a != b {
                match found.last_mut().filter(|_| same_string) {
                    Some(last) => last.1 = i + 1,
                    None => found.push((i, i + 1)),
                }
                same_string = true;
            }
            same_string &= *a != 0;
        }
        if found.len() > MAX_CHANGES {
            return Ok(Err(".dynstr changed in too many places".to_owned()));
        }
        at += len as u64;
    }
    if common < old.len {
        found.push((common, old.len));
    }
    Ok(Ok(found))
}

/// Start of the string that holds the byte at `index`.
fn string_start(image: &Image<'_>, strings: Strings, index: u64) -> Result<u64, Error> {
    let mut end = index;
    while end > 0 {
        let len = end.min(4096);
        let bytes = image.bytes(strings.offset + end - len, len, ".dynstr")?;
        if let Some(nul) = bytes.iter().rposition(|byte| *byte == 0) {
            return Ok(end - len + nul as u64 + 1);
        }
        end -= len;
    }
    Ok(0)
}

fn same_bytes(before: &Image<'_>, from: u64, after: &Image<'_>, to: u64, len: u64) -> Result<bool, Error> {
    let mut same = true;
    let mut done = 0;
    before.stream(from, len, 1, "a moved range", |piece| {
        let mut other = vec![0; piece.len()];
        same = after.read(to.saturating_add(done), &mut other, "a moved range").is_ok() && other == piece;
        done += piece.len() as u64;
        same
    })?;
    Ok(same)
}

/// Order-dependent FNV-1a over numbers: enough to notice a table read differently.
#[derive(PartialEq, Eq)]
struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    fn add(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x100_0000_01b3);
    }
}
