//! What the loader looks at in one file.

use std::fmt;
use std::sync::Arc;

use goblin::elf::header as eh;
use serde::Serialize;
use torchfl_elf::{Class, Endian, Kind, OwnTls, ReadAt, SearchPath, VersionNeed};

use crate::cache::Abi;
use crate::symbols::Symbols;

/// A library or program as the loader sees it.
#[derive(Debug, Clone)]
pub struct Object {
    /// The machine, its width and byte order.
    pub abi: Abi,
    /// Program or library.
    pub kind: Kind,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// `DT_NEEDED`, in order.
    pub needed: Vec<String>,
    /// The search path that the loader uses: `DT_RUNPATH`, or `DT_RPATH` without one.
    pub search_path: Option<SearchPath>,
    /// `PT_INTERP`.
    pub interpreter: Option<String>,
    /// Versions needed of others.
    pub versions_needed: Vec<VersionNeed>,
    /// Versions defined here, the file's own name (the base version) left out.
    pub versions_defined: Vec<String>,
    /// Whether there is a `DT_VERDEF` at all: without one the loader takes any version as provided.
    pub version_table: bool,
    /// What the flags ask for.
    pub flags: Flags,
    /// Bytes and alignment of thread-local storage.
    pub tls: (u64, u64),
    /// Definitions and references.
    pub symbols: Symbols,
    /// How much of the file is known.
    pub known: Known,
}

/// What a file asks of the loader: `DT_FLAGS`, `DT_FLAGS_1`, and how it reaches its thread-local storage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags {
    /// `DF_BIND_NOW`, `DF_1_NOW`.
    pub now: bool,
    /// `DF_SYMBOLIC`: looks into itself first.
    pub symbolic: bool,
    /// `DF_1_NODEFLIB`: neither the default folders nor what the cache has of them.
    pub no_default_folders: bool,
    /// `DF_1_NODELETE`.
    pub no_delete: bool,
    /// `DF_1_NOOPEN`.
    pub no_open: bool,
    /// `DF_1_PIE`.
    pub pie: bool,
    /// `ET_EXEC`: at an address of its own, so that it cannot be loaded into a process.
    pub fixed: bool,
    /// Uses its own thread-local variables from the static TLS block.
    pub static_tls: bool,
    /// Reaches its own thread-local variables by descriptors.
    pub tls_descriptors: bool,
}

/// How much of a file is known.
#[derive(Clone)]
pub enum Known {
    /// All of it.
    Whole,
    /// What it exports, from a snapshot; what it imports is not checked.
    Exports,
    /// Nothing: it is taken to define what this says for (symbol name, version).
    Given(Cover),
}

/// What a library that nobody has looked at is taken to define.
#[derive(Clone)]
pub struct Cover(Arc<Test>);

/// Whether a symbol of this name and version is taken as defined.
type Test = dyn Fn(&str, Option<&str>) -> bool + Send + Sync;

impl Cover {
    /// Symbols for which `covers(name, version)` holds.
    pub fn new(covers: impl Fn(&str, Option<&str>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(covers))
    }

    /// Whether this symbol is taken as defined.
    pub fn covers(&self, name: &str, version: Option<&str>) -> bool {
        (self.0)(name, version)
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Whole => "Whole",
            Self::Exports => "Exports",
            Self::Given(_) => "Given",
        })
    }
}

/// Why a file is no library for the loader, in glibc's words where it has some.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{0}")]
pub struct BadFile(pub String);

impl Object {
    /// Reads a file; `name` is used in messages.
    ///
    /// # Errors
    ///
    /// What makes the loader stop at the file (glibc `elf/dl-load.c`, `open_verify`), or malformed tables.
    pub fn read(file: &dyn ReadAt, name: &str) -> Result<Self, BadFile> {
        if let Verdict::Bad(bad) = verify(file, None) {
            return Err(bad);
        }
        let malformed = |error: torchfl_elf::Error| BadFile(error.to_string());
        let facts = torchfl_elf::facts(file, name).map_err(malformed)?;
        if !facts.dynamic {
            return Err(BadFile("object file has no dynamic section".to_owned()));
        }
        let symbols = Symbols::read(file, name).map_err(malformed)?;
        let now = facts.bind_now();
        let own_tls = match facts.tls_size {
            0 => OwnTls::Dynamic,
            _ => torchfl_elf::own_tls(file, name).map_err(malformed)?,
        };
        Ok(Self {
            abi: Abi { machine: facts.machine, class: facts.class, endian: facts.endian },
            kind: facts.kind,
            flags: Flags {
                now,
                symbolic: facts.symbolic(),
                no_default_folders: facts.no_default_folders(),
                no_delete: facts.no_delete(),
                no_open: facts.no_open(),
                pie: facts.flags_1 & goblin::elf::dynamic::DF_1_PIE != 0,
                fixed: facts.fixed,
                static_tls: own_tls == OwnTls::Static,
                tls_descriptors: own_tls == OwnTls::Descriptor,
            },
            versions_defined: symbols.versions_defined(),
            version_table: !facts.versions_defined.is_empty(),
            tls: (facts.tls_size, facts.tls_align),
            soname: facts.soname,
            needed: facts.needed,
            search_path: facts.search_path,
            interpreter: facts.interpreter,
            versions_needed: facts.versions_needed,
            symbols,
            known: Known::Whole,
        })
    }

    /// A library that nobody has looked at. It defines what `cover` says, in any version.
    pub fn given(soname: &str, abi: Abi, cover: Cover) -> Self {
        Self {
            abi,
            kind: Kind::Library,
            soname: Some(soname.to_owned()),
            needed: Vec::new(),
            search_path: None,
            interpreter: None,
            versions_needed: Vec::new(),
            versions_defined: Vec::new(),
            version_table: false,
            flags: Flags::default(),
            tls: (0, 0),
            symbols: Symbols::default(),
            known: Known::Given(cover),
        }
    }

    /// Whether it is taken as given, and not known.
    pub fn is_given(&self) -> bool {
        matches!(self.known, Known::Given(_))
    }
}

/// What the headers of a file say to a loader that looks for a library.
pub(crate) enum Verdict {
    /// It may be one.
    Fits,
    /// Passed over: the other width.
    OtherClass(Class),
    /// Passed over.
    OtherMachine,
    /// Ends the search.
    Bad(BadFile),
}

/// The checks of the ELF header, in the order and words of glibc's `elf/dl-load.c`, `open_verify`. Without `wanted`,
/// those that do not depend on the loader's own machine.
pub(crate) fn verify(file: &dyn ReadAt, wanted: Option<Abi>) -> Verdict {
    let bad = |text: &str| Verdict::Bad(BadFile(text.to_owned()));
    let mut head = [0; 64];
    let len = usize::try_from(file.len()).unwrap_or(usize::MAX).min(head.len());
    if file.read_exact_at(0, &mut head[..len]).is_err() {
        return bad("cannot read file data");
    }
    let wide = wanted.map_or(head[eh::EI_CLASS] != eh::ELFCLASS32, |wanted| wanted.class == Class::Elf64);
    if len < if wide { 64 } else { 52 } {
        return bad("file too short");
    }
    if &head[..4] != eh::ELFMAG {
        return bad("invalid ELF header");
    }
    let class = if head[eh::EI_CLASS] == eh::ELFCLASS32 { Class::Elf32 } else { Class::Elf64 };
    if wanted.is_some_and(|wanted| wanted.class != class) || !(1..=2).contains(&head[eh::EI_CLASS]) {
        return Verdict::OtherClass(class);
    }
    let little = head[eh::EI_DATA] == eh::ELFDATA2LSB;
    match wanted.map(|wanted| wanted.endian) {
        Some(Endian::Little) if !little => return bad("ELF file data encoding not little-endian"),
        Some(Endian::Big) if little => return bad("ELF file data encoding not big-endian"),
        _ => {}
    }
    if head[eh::EI_VERSION] != eh::EV_CURRENT {
        return bad("ELF file version ident does not match current one");
    }
    // GNU/Linux (3) marks files with IFUNC and unique symbols.
    if head[eh::EI_OSABI] != eh::ELFOSABI_NONE && head[eh::EI_OSABI] != eh::ELFOSABI_LINUX {
        return bad("ELF file OS ABI invalid");
    }
    if head[9..16].iter().any(|byte| *byte != 0) {
        return bad("nonzero padding in e_ident");
    }
    let half = |at: usize| {
        let bytes = [head[at], head[at + 1]];
        if little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) }
    };
    if half(if little { 20 } else { 22 }) != 1 || half(if little { 22 } else { 20 }) != 0 {
        return bad("ELF file version does not match current one");
    }
    if wanted.is_some_and(|wanted| wanted.machine.0 != half(18)) {
        return Verdict::OtherMachine;
    }
    if half(16) != eh::ET_DYN && half(16) != eh::ET_EXEC {
        return bad("only ET_DYN and ET_EXEC can be loaded");
    }
    if half(if class == Class::Elf64 { 54 } else { 42 }) != if class == Class::Elf64 { 56 } else { 32 } {
        return bad("ELF file's phentsize not the expected size");
    }
    Verdict::Fits
}
