//! The relocations that look up a symbol, in the order in which the loader carries them out.

use goblin::elf::dynamic as dt;
use goblin::elf::header as eh;

use crate::error::Error;
use crate::image::Image;
use crate::machine::{EM_LOONGARCH, Machine};
use crate::read_at::ReadAt;

const WHAT: &str = "a relocation table";

/// What a relocation asks a symbol for (glibc's `elf_machine_type_class`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Its address, where the address of a program's PLT entry counts as a definition.
    Data,
    /// A function to call, or a thread-local variable: only a real definition will do.
    Plt,
    /// The bytes of a library's variable, copied into the program; the program itself is not searched.
    Copy,
}

/// A relocation that looks up a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relocation {
    /// Index in the dynamic symbol table; never 0. Symbols that are local or hidden stand for themselves.
    pub symbol: u32,
    /// What for.
    pub how: Use,
    /// Bound at the first call, unless everything is to be bound at once.
    pub lazy: bool,
    /// The variable has to lie in the static TLS block, whichever library defines it.
    pub tls_static: bool,
    /// A descriptor of a thread-local variable: it is put into the static TLS block where there is room to spare.
    pub tls_descriptor: bool,
}

/// How a file reaches thread-local variables of its own that its relocations do not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnTls {
    /// Through the general-dynamic model, or not at all.
    Dynamic,
    /// Through descriptors.
    Descriptor,
    /// From the thread pointer: they have to lie in the static TLS block.
    Static,
}

/// Hands every relocation that looks up a symbol to `visit`, in glibc's order (`elf/dynamic-link.h`): `DT_REL` and
/// `DT_RELA`, each followed by `DT_JMPREL` where that is of the same kind. Relative ones and those without a symbol
/// are left out. Memory stays constant.
///
/// For machines whose relocation types are not known here, all are [`Use::Data`], and lazy in `DT_JMPREL`.
pub fn relocations(file: &dyn ReadAt, name: &str, visit: &mut dyn FnMut(Relocation)) -> Result<(), Error> {
    let image = Image::open(file, name)?;
    each(&image, |symbol, relocation| {
        if symbol != 0 {
            visit(relocation);
        }
    })
}

/// What the relocations that name no symbol ask for the file's own thread-local variables, which the linker bound:
/// the most demanding of them. glibc goes by these, and not by `DF_STATIC_TLS`.
pub fn own_tls(file: &dyn ReadAt, name: &str) -> Result<OwnTls, Error> {
    let image = Image::open(file, name)?;
    let mut own = OwnTls::Dynamic;
    each(&image, |symbol, relocation| match relocation {
        _ if symbol != 0 => {}
        Relocation { tls_static: true, .. } => own = OwnTls::Static,
        Relocation { tls_descriptor: true, .. } => own = own.max(OwnTls::Descriptor),
        _ => {}
    })?;
    Ok(own)
}

fn each(image: &Image<'_>, mut visit: impl FnMut(u32, Relocation)) -> Result<(), Error> {
    let types = Types::of(image.machine(), image.is_64());
    let little = image.ctx.is_little_endian();
    // A 64-bit r_info is the symbol over the type. The MIPS supplement has the symbol first in both byte orders.
    let type_first = little && image.machine().0 != eh::EM_MIPS;
    for range in ranges(image)? {
        image.stream(range.offset, range.len, range.item, WHAT, |piece| {
            for record in piece.chunks_exact(range.item as usize) {
                let word = |at: usize| word(&record[at..at + 4], little);
                let (symbol, kind) = match (image.is_64(), type_first) {
                    (true, true) => (word(12), word(8)),
                    (true, false) => (word(8), word(12)),
                    (false, _) => (word(4) >> 8, word(4) & 0xff),
                };
                if let Some(relocation) = types.relocation(symbol, kind, range.jump_slots) {
                    visit(symbol, relocation);
                }
            }
            true
        })?;
    }
    Ok(())
}

fn word(bytes: &[u8], little: bool) -> u32 {
    let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
    if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
}

struct Records {
    offset: u64,
    len: u64,
    item: u64,
    jump_slots: bool,
}

fn ranges(image: &Image<'_>) -> Result<Vec<Records>, Error> {
    let word = if image.is_64() { 8 } else { 4 };
    let mut ranges = Vec::new();
    let mut add = |vaddr: u64, len: u64, item: u64, jump_slots| {
        if len >= item {
            let offset = image.offset_of(vaddr, len, WHAT)?;
            ranges.push(Records { offset, len: len / item * item, item, jump_slots });
        }
        Ok::<_, Error>(())
    };
    for (tag, size, relative, item) in [
        (dt::DT_REL, dt::DT_RELSZ, dt::DT_RELCOUNT, 2 * word),
        (dt::DT_RELA, dt::DT_RELASZ, dt::DT_RELACOUNT, 3 * word),
    ] {
        let at = |tag| image.entry(tag).unwrap_or(0);
        let (start, mut len) = (at(tag), if at(tag) == 0 { 0 } else { at(size) });
        let slots = image.entry(dt::DT_PLTREL) == Some(tag);
        let slots = slots.then(|| (at(dt::DT_JMPREL), at(dt::DT_PLTRELSZ)));
        if let Some((first, slots)) = slots
            && start.saturating_add(len) == first.saturating_add(slots)
        {
            // Some machines' linkers count the jump slots in.
            len = len.saturating_sub(slots);
        }
        // The relative ones come first, and are counted.
        let skip = at(relative).saturating_mul(item).min(len);
        add(start.saturating_add(skip), len - skip, item, false)?;
        if let Some((first, len)) = slots {
            add(first, len, item, true)?;
        }
    }
    Ok(ranges)
}

/// A machine's relocation types, from its psABI supplement; the classes as in glibc's `dl-machine.h`.
struct Types {
    /// They look up nothing: none, relative, and by an indirect function.
    apart: &'static [u32],
    copy: u32,
    jump_slot: u32,
    /// Others of the class of jump slots, static ones included: first and last.
    plt: &'static [(u32, u32)],
    /// Offsets from the thread pointer.
    thread_pointer: &'static [u32],
    descriptor: &'static [u32],
    known: bool,
}

const UNKNOWN: Types = Types {
    apart: &[0],
    copy: 0,
    jump_slot: 0,
    plt: &[],
    thread_pointer: &[],
    descriptor: &[],
    known: false,
};

impl Types {
    fn of(machine: Machine, is_64: bool) -> Self {
        let new = |apart, copy, jump_slot, plt, thread_pointer, descriptor| Self {
            apart,
            copy,
            jump_slot,
            plt,
            thread_pointer,
            descriptor,
            known: true,
        };
        match machine.0 {
            eh::EM_X86_64 => new(&[0, 8, 37, 38], 5, 7, &[(16, 18), (36, 36)], &[18], &[36]),
            eh::EM_386 => new(&[0, 8, 42], 5, 7, &[(14, 14), (35, 37), (41, 41)], &[14, 37], &[41]),
            eh::EM_AARCH64 if is_64 => {
                new(&[0, 256, 1027, 1032], 1024, 1026, &[(1028, 1031)], &[1030], &[1031])
            }
            eh::EM_AARCH64 => new(&[0, 183, 188], 180, 182, &[(184, 187)], &[186], &[187]),
            eh::EM_ARM => new(&[0, 23, 160], 20, 22, &[(13, 13), (17, 19)], &[19], &[13]),
            eh::EM_PPC64 => {
                new(&[0, 22, 248], 19, 21, &[(2, 2), (67, 106), (112, 115)], &[69, 70, 71, 72, 73], &[])
            }
            eh::EM_S390 => new(&[0, 12, 61], 9, 11, &[(54, 56)], &[56], &[]),
            eh::EM_RISCV => new(&[0, 3, 58], 4, 5, &[(6, 12)], &[10, 11], &[12]),
            EM_LOONGARCH => new(&[0, 3, 12], 4, 5, &[(6, 11), (13, 14)], &[10, 11], &[13, 14]),
            _ => UNKNOWN,
        }
    }

    fn relocation(&self, symbol: u32, kind: u32, jump_slots: bool) -> Option<Relocation> {
        if self.apart.contains(&kind) {
            return None;
        }
        let within = |(first, last): &(u32, u32)| (*first..=*last).contains(&kind);
        let how = match kind {
            _ if !self.known => Use::Data,
            _ if kind == self.copy => Use::Copy,
            _ if kind == self.jump_slot || self.plt.iter().any(within) => Use::Plt,
            _ => Use::Data,
        };
        // Descriptors of thread-local variables lie among the jump slots too, and are never lazy.
        let lazy = jump_slots && (kind == self.jump_slot || !self.known);
        let tls_static = self.thread_pointer.contains(&kind);
        let tls_descriptor = self.descriptor.contains(&kind);
        Some(Relocation { symbol, how, lazy, tls_static, tls_descriptor })
    }
}
