//! The static TLS block: what the program starts with, and the room that is left for libraries opened late.
//!
//! glibc `elf/dl-tls.c`, `_dl_determine_tlsoffset`, and `elf/dl-reloc.c`, `_dl_try_allocate_static_tls`. The images of
//! real files begin at a multiple of their alignment, so that nothing has to be said of `l_tls_firstbyte_offset`.

use torchfl_elf::Machine;

/// `TCB_ALIGNMENT`: of glibc's `struct pthread`.
const TCB_ALIGN: u64 = 64;
/// Bytes that descriptors may take (the tunable `glibc.rtld.optional_static_tls`).
const OPTIONAL: u64 = 512;

/// What is taken for a size or an alignment at most, in bytes.
const MAX: u64 = 1 << 40;

/// Bytes and alignment of a library's thread-local storage.
pub(crate) type Image = (u64, u64);

/// The block of one process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StaticTls {
    /// The block ends at the thread pointer, as on x86, and does not begin there.
    before: bool,
    surplus: u64,
    used: u64,
    size: u64,
    align: u64,
    optional: u64,
}

impl StaticTls {
    /// A block with `surplus` bytes of room and nothing in it.
    pub(crate) fn new(machine: Machine, surplus: u64) -> Self {
        const I386: u16 = 3;
        const S390: u16 = 22;
        const X86_64: u16 = 62;
        let before = matches!(machine.0, I386 | S390 | X86_64);
        let size = surplus.next_multiple_of(TCB_ALIGN);
        Self { before, surplus, used: 0, size, align: TCB_ALIGN, optional: OPTIONAL }
    }

    /// Lays out what a program starts with, in the order of mapping. A gap that alignment leaves takes a later
    /// library, if that fits.
    pub(crate) fn start(&mut self, images: impl Iterator<Item = Image>) {
        let (mut used, mut gap) = (0, (0, 0));
        for (size, align) in images.filter(|(size, _)| *size > 0) {
            // No honest file comes near; sums stay in range.
            let (size, align) = (size.min(MAX), align.clamp(1, MAX));
            self.align = self.align.max(align);
            // Both directions count from the thread pointer; what is aligned is the far end, or the near one.
            let end = |start: u64| {
                if self.before {
                    (start + size).next_multiple_of(align)
                } else {
                    start.next_multiple_of(align) + size
                }
            };
            if end(gap.0) <= gap.1 && gap.1 > gap.0 {
                gap.0 = end(gap.0);
                continue;
            }
            let new = end(used);
            if new - size - used > gap.1 - gap.0 {
                gap = (used, new - size);
            }
            used = new;
        }
        self.used = used;
        let align = if self.before { self.align } else { TCB_ALIGN };
        self.size = (used + self.surplus).next_multiple_of(align);
    }

    /// Makes room for a library; `optional` where it can do without. Whether there was any.
    pub(crate) fn place(&mut self, (size, align): Image, optional: bool) -> bool {
        let (align, free) = (align.max(1), self.left());
        if align > self.align || size > free {
            return false;
        }
        let bytes = if self.before {
            free - (free - size) / align * align
        } else {
            self.used.next_multiple_of(align) + size - self.used
        };
        if bytes > free || optional && bytes > self.optional {
            return false;
        }
        if optional {
            self.optional -= bytes;
        }
        self.used += bytes;
        true
    }

    /// Gives back the room that was taken since; what descriptors may take is not (`elf/dl-close.c`).
    pub(crate) fn back_to(&mut self, before: Self) {
        self.used = before.used;
    }

    /// Bytes that are left.
    pub(crate) fn left(&self) -> u64 {
        self.size - self.used
    }
}
