//! Machines: their names, and the largest page their kernels may use.

use goblin::elf::header as eh;
use serde::{Serialize, Serializer};

/// `e_machine`. Serialises as its name, `x86-64`, or `machine-9999` where none is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Machine(pub u16);

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.0 {
            eh::EM_386 => "i386",
            eh::EM_X86_64 => "x86-64",
            eh::EM_ARM => "arm",
            eh::EM_AARCH64 => "aarch64",
            eh::EM_PPC => "ppc",
            eh::EM_PPC64 => "ppc64",
            eh::EM_S390 => "s390",
            eh::EM_RISCV => "riscv",
            EM_LOONGARCH => "loongarch",
            eh::EM_MIPS => "mips",
            other => return write!(f, "machine-{other}"),
        };
        f.write_str(name)
    }
}

impl Serialize for Machine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

pub(crate) const EM_LOONGARCH: u16 = 258;

impl Machine {
    /// The largest page size a kernel for this machine may be built with, in bytes (binutils'
    /// `ELF_MAXPAGESIZE`, x86 excepted: its 2 MiB there is a layout choice, its pages are 4 KiB).
    /// `None`: this crate does not patch files of this machine. MIPS is left out on purpose: its
    /// dynamic section holds addresses relative to its own entries (`DT_MIPS_RLD_MAP_REL`).
    pub(crate) fn max_page_size(self) -> Option<u64> {
        match self.0 {
            eh::EM_386 | eh::EM_X86_64 | eh::EM_S390 | eh::EM_RISCV => Some(0x1000),
            eh::EM_ARM | eh::EM_AARCH64 | eh::EM_PPC | eh::EM_PPC64 | EM_LOONGARCH => Some(0x1_0000),
            _ => None,
        }
    }

    /// Bytes of a word in `DT_HASH` (gABI: 4; the s390x and Alpha supplements: 8 in 64-bit files).
    pub(crate) fn hash_word(self, is_64: bool) -> u64 {
        const EM_ALPHA: u16 = 0x9026;
        if is_64 && matches!(self.0, eh::EM_S390 | EM_ALPHA) { 8 } else { 4 }
    }
}
