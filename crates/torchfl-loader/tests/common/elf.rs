//! Writes small x86-64 libraries and programs in microseconds, with tables as odd as a test wants them.
//!
//! What is written is what `ld` would write, less everything that the dynamic loader does not read: no sections, one
//! segment for code and tables, one for data. Functions are a `ret`; nothing calls them.

use super::tables::{self, Symbol, Versions};

/// `e_type` and what comes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Kind {
    #[default]
    Library,
    /// A position-independent program.
    Pie,
    /// A program at a fixed address: it may have copies and PLT entries that stand for functions.
    Fixed,
}

/// `--hash-style`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Hash {
    #[default]
    Gnu,
    Sysv,
    Both,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Function,
    /// `STT_GNU_IFUNC`.
    Indirect,
    /// `STT_NOTYPE`.
    Untyped,
    Object,
    Tls,
    /// `SHN_ABS`.
    Absolute,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bind {
    Global,
    Weak,
    Unique,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visibility {
    Default = 0,
    Hidden = 2,
    Protected = 3,
}

/// A symbol that a file defines.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) what: What,
    pub(crate) bind: Bind,
    pub(crate) visibility: Visibility,
    pub(crate) size: u64,
    /// A version of [`Spec::versions`], and whether it is hidden (`foo@V`).
    pub(crate) version: Option<(String, bool)>,
}

/// How a file refers to a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// `JUMP_SLOT`.
    Call,
    /// `GLOB_DAT`.
    Got,
    /// `R_X86_64_64`.
    Address,
    /// `DTPMOD64` and `DTPOFF64`.
    General,
    /// `TPOFF64`.
    Initial,
    /// `TLSDESC`.
    Descriptor,
    /// `COPY`, for a fixed program: it defines the symbol itself.
    Copy,
    /// `JUMP_SLOT` against an undefined symbol with an address, for a fixed program that takes a function's address.
    Canonical,
}

/// The version that a reference names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) file: String,
    pub(crate) name: String,
    pub(crate) weak: bool,
    /// The highest bit of `vna_other`.
    pub(crate) hidden: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Reference {
    pub(crate) name: String,
    pub(crate) how: How,
    pub(crate) weak: bool,
    pub(crate) version: Option<Need>,
    /// Of a copy, in bytes.
    pub(crate) size: u64,
}

/// What to write.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spec {
    pub(crate) kind: Kind,
    /// A position-independent program without `DF_1_PIE`, as older linkers made them.
    pub(crate) unmarked: bool,
    pub(crate) soname: Option<String>,
    pub(crate) needed: Vec<String>,
    pub(crate) rpath: Option<String>,
    pub(crate) runpath: Option<String>,
    pub(crate) flags: u64,
    pub flags_1: u64,
    /// The tag `DT_SYMBOLIC`.
    pub(crate) symbolic: bool,
    pub(crate) hash: Hash,
    pub(crate) definitions: Vec<Definition>,
    pub(crate) references: Vec<Reference>,
    /// Versions defined here, beside the file's own name.
    pub(crate) versions: Vec<String>,
    /// Versions needed that no reference names.
    pub(crate) extra_needs: Vec<Need>,
    /// Bytes of TLS that no symbol names, reached by initial-exec where `initial` says so.
    pub(crate) own_tls: u64,
    pub(crate) own_tls_initial: bool,
    pub(crate) tls_align: u64,
}

const DRIVER: &str = "driver_main";
const BASE: u64 = 0x40_0000;
/// `ret`, then `via`: it calls its first argument with the second and third, so that the call comes from here.
const VIA: [u8; 20] = [
    0x48, 0x83, 0xec, 8, 0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x89, 0xd6, 0xff, 0xd0, 0x48, 0x83, 0xc4, 8,
    0xc3, 0xc3,
];

impl Spec {
    pub(crate) fn library(name: &str) -> Self {
        Self { soname: Some(name.to_owned()), tls_align: 8, ..Self::default() }
    }

    /// The file.
    pub(crate) fn write(&self, file_name: &str) -> Vec<u8> {
        Writer::new(self, file_name).write()
    }
}

/// Appends to the file; addresses are offsets, and the base of a fixed program.
struct Writer<'s> {
    spec: &'s Spec,
    file_name: &'s str,
    base: u64,
    bytes: Vec<u8>,
    dynamic: Vec<(u64, u64)>,
    strings: tables::Strings,
}

impl<'s> Writer<'s> {
    fn new(spec: &'s Spec, file_name: &'s str) -> Self {
        let base = if spec.kind == Kind::Fixed { BASE } else { 0 };
        Self {
            spec,
            file_name,
            base,
            bytes: Vec::new(),
            dynamic: Vec::new(),
            strings: tables::Strings::new(),
        }
    }

    fn here(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    fn align(&mut self, to: usize) {
        let len = self.bytes.len().next_multiple_of(to);
        self.bytes.resize(len, 0);
    }

    /// Appends a table, and tells where it is.
    fn put(&mut self, tag: u64, table: &[u8]) -> u64 {
        self.align(8);
        let at = self.here();
        self.bytes.extend_from_slice(table);
        if tag != 0 {
            self.dynamic.push((tag, at));
        }
        at
    }

    fn write(mut self) -> Vec<u8> {
        const HEADERS: usize = 64 + 6 * 56;
        let spec = self.spec;
        let program = spec.kind != Kind::Library;
        self.names();
        let plan = Plan::new(spec, program);
        self.bytes.resize(HEADERS, 0);
        let interpreter = (self.here(), super::INTERPRETER.len() as u64 + 1);
        if program {
            self.bytes.extend(super::INTERPRETER.as_bytes());
            self.bytes.push(0);
        }
        // Code before the tables, which hold its addresses.
        self.align(16);
        let via = self.here();
        self.bytes.extend(VIA);
        let function = self.here() - 1;
        let start = self.here();
        let start_offset = self.bytes.len();
        if program {
            self.bytes.resize(start_offset + 32, 0xf4);
        }

        // The tables' length does not depend on the addresses in the data, which is laid out first.
        let data = self.data_start(&plan, via, function);
        let layout = plan.layout(data, via, function);
        self.tables(&plan, &layout);
        if program {
            self.start_code(start_offset, via, layout.driver);
        }
        let text_end = self.bytes.len() as u64;
        self.align(0x1000);
        assert!(self.here() <= data, "the tables are larger than expected");
        self.bytes.resize((data - self.base) as usize, 0);
        self.bytes.resize((layout.dynamic - self.base) as usize, 0);
        self.dynamic.push((0, 0));
        let dynamic = std::mem::take(&mut self.dynamic);
        for (tag, value) in &dynamic {
            self.bytes.extend(tag.to_le_bytes());
            self.bytes.extend(value.to_le_bytes());
        }
        let dynamic = (layout.dynamic, dynamic.len() as u64 * 16);
        let rw = (data, self.here() - data);
        let entry = if program { start } else { 0 };
        self.headers(entry, text_end, rw, dynamic, (layout.tls, plan.tls), program.then_some(interpreter));
        self.bytes
    }

    fn names(&mut self) {
        let spec = self.spec;
        if spec.kind != Kind::Library {
            let driver = super::driver().to_str().unwrap().to_owned();
            let at = self.strings.put(&driver);
            self.dynamic.push((1, at));
        }
        for name in &spec.needed {
            let at = self.strings.put(name);
            self.dynamic.push((1, at));
        }
        for (tag, text) in [(14, &spec.soname), (15, &spec.rpath), (29, &spec.runpath)] {
            if let Some(text) = text {
                let at = self.strings.put(text);
                self.dynamic.push((tag, at));
            }
        }
        let flags_1 = spec.flags_1 | if spec.kind == Kind::Pie && !spec.unmarked { 0x0800_0000 } else { 0 };
        for (tag, value) in [(30, spec.flags), (0x6fff_fffb, flags_1)] {
            if value != 0 {
                self.dynamic.push((tag, value));
            }
        }
        if spec.symbolic {
            self.dynamic.push((16, 0));
        }
        if spec.kind != Kind::Library {
            self.dynamic.push((21, 0)); // DT_DEBUG
        }
    }

    /// Where data begins: a page boundary behind tables of this size.
    fn data_start(&self, plan: &Plan, via: u64, function: u64) -> u64 {
        let mut trial =
            Self { bytes: self.bytes.clone(), strings: self.strings.clone(), dynamic: Vec::new(), ..*self };
        trial.tables(plan, &plan.layout(0, via, function));
        trial.here().next_multiple_of(0x1000)
    }

    fn tables(&mut self, plan: &Plan, layout: &Layout) {
        let spec = self.spec;
        let (symbols, relocations) = plan.symbols(spec, layout);
        let versions = Versions::new(spec, self.file_name);
        let table = tables::symbols(&symbols, &mut self.strings);
        let verneed = versions.needed(&mut self.strings);
        let verdef = versions.defined(&mut self.strings);
        self.put(6, &table);
        self.dynamic.push((11, 24));
        if matches!(spec.hash, Hash::Gnu | Hash::Both) {
            self.put(0x6fff_fef5, &tables::gnu_hash(&symbols));
        }
        if matches!(spec.hash, Hash::Sysv | Hash::Both) {
            self.put(4, &tables::sysv_hash(&symbols));
        }
        if versions.any() {
            let indices: Vec<u8> =
                symbols.iter().flat_map(|symbol| versions.index(symbol).to_le_bytes()).collect();
            self.put(0x6fff_fff0, &indices);
            for (tag, count, (table, n)) in
                [(0x6fff_fffe, 0x6fff_ffff, &verneed), (0x6fff_fffc, 0x6fff_fffd, &verdef)]
            {
                if *n > 0 {
                    self.put(tag, table);
                    self.dynamic.push((count, *n));
                }
            }
        }
        let of = |slots: bool| -> Vec<u8> {
            let some = relocations.iter().filter(|relocation| relocation.slot == slots);
            some.flat_map(|r| [r.at, r.symbol << 32 | r.kind, 0]).flat_map(u64::to_le_bytes).collect()
        };
        let (others, slots) = (of(false), of(true));
        if !others.is_empty() {
            self.put(7, &others);
            self.dynamic.extend([(8, others.len() as u64), (9, 24)]);
        }
        if !slots.is_empty() {
            self.put(23, &slots);
            self.dynamic.extend([(2, slots.len() as u64), (20, 7), (3, layout.got)]);
        }
        let strings = self.strings.bytes().to_vec();
        self.put(5, &strings);
        self.dynamic.push((10, strings.len() as u64));
    }

    /// `_start`: `driver_main(argc, argv, via)`.
    fn start_code(&mut self, at: usize, via: u64, slot: u64) {
        let address = self.base + at as u64;
        let to = |from: u64, target: u64| (target.wrapping_sub(address + from) as u32).to_le_bytes();
        let mut code = vec![0x48, 0x8b, 0x3c, 0x24, 0x48, 0x8d, 0x74, 0x24, 8, 0x48, 0x8d, 0x15];
        code.extend(to(16, via));
        code.extend([0x48, 0x83, 0xe4, 0xf0, 0xff, 0x15]);
        code.extend(to(26, slot));
        self.bytes[at..at + code.len()].copy_from_slice(&code);
    }

    fn headers(
        &mut self,
        entry: u64,
        text_end: u64,
        rw: (u64, u64),
        dynamic: (u64, u64),
        tls: (u64, u64),
        interpreter: Option<(u64, u64)>,
    ) {
        let base = self.base;
        let mut out = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let kind: u16 = if base == 0 { 3 } else { 2 };
        out.extend(kind.to_le_bytes());
        out.extend(62_u16.to_le_bytes());
        out.extend(1_u32.to_le_bytes());
        for word in [entry, 64, 0] {
            out.extend(word.to_le_bytes());
        }
        out.extend(0_u32.to_le_bytes());
        for half in [64_u16, 56, 6, 0, 0, 0] {
            out.extend(half.to_le_bytes());
        }
        let mut segment = |kind: u32, flags: u32, address: u64, file: u64, memory: u64, align: u64| {
            out.extend(kind.to_le_bytes());
            out.extend(flags.to_le_bytes());
            for word in [address - base, address, address, file, memory, align] {
                out.extend(word.to_le_bytes());
            }
        };
        if let Some((at, len)) = interpreter {
            // By PT_PHDR the loader knows where a program was put.
            segment(6, 4, base + 64, 6 * 56, 6 * 56, 8);
            segment(3, 4, at, len, len, 1);
        } else {
            segment(0, 0, base, 0, 0, 1);
            segment(0, 0, base, 0, 0, 1);
        }
        segment(1, 5, base, text_end, text_end, 0x1000);
        segment(1, 6, rw.0, rw.1, rw.1, 0x1000);
        segment(2, 6, dynamic.0, dynamic.1, dynamic.1, 8);
        if tls.1 > 0 {
            segment(7, 4, tls.0, 0, tls.1, self.spec.tls_align.max(1));
        } else {
            segment(0, 0, base, 0, 0, 1);
        }
        self.bytes[..out.len()].copy_from_slice(&out);
    }
}

struct Relocation {
    at: u64,
    symbol: u64,
    kind: u64,
    slot: bool,
}

/// Sizes, before addresses are known.
struct Plan {
    /// Bytes of variables.
    data: u64,
    /// Slots of the GOT, the three of the loader left out.
    slots: u64,
    tls: u64,
    program: bool,
}

/// Addresses.
struct Layout {
    got: u64,
    data: u64,
    tls: u64,
    /// The slot that holds `driver_main`.
    driver: u64,
    dynamic: u64,
    via: u64,
    function: u64,
}

impl Plan {
    fn new(spec: &Spec, program: bool) -> Self {
        let sizes = |what: What| {
            let all = spec.definitions.iter().filter(move |definition| definition.what == what);
            all.map(|definition| definition.size.next_multiple_of(8)).sum::<u64>()
        };
        let copies = spec.references.iter().filter(|reference| reference.how == How::Copy);
        let copies: u64 = copies.map(|reference| reference.size.next_multiple_of(8)).sum();
        let slots = 2 * spec.references.len() as u64 + u64::from(program) + u64::from(spec.own_tls_initial);
        Self { data: sizes(What::Object) + copies, slots, tls: sizes(What::Tls) + spec.own_tls, program }
    }

    fn layout(&self, start: u64, via: u64, function: u64) -> Layout {
        let slots = start + 24;
        let data = slots + self.slots * 8;
        let dynamic = (data + self.data).next_multiple_of(16);
        // All of it is zero: no byte in the file, but an address that is aligned as linkers do it.
        let tls = start;
        Layout { got: start, data, tls, driver: slots, dynamic, via, function }
    }

    /// The dynamic symbols in the table's order, and the relocations against them.
    fn symbols(&self, spec: &Spec, layout: &Layout) -> (Vec<Symbol>, Vec<Relocation>) {
        let mut symbols = Vec::new();
        let (mut data, mut tls) = (layout.data, 0);
        let via = Definition {
            name: "via".to_owned(),
            what: What::Function,
            bind: Bind::Global,
            visibility: Visibility::Default,
            size: 19,
            version: None,
        };
        for (at, definition) in [&via].into_iter().chain(&spec.definitions).enumerate() {
            let place = match definition.what {
                What::Function if at == 0 => layout.via,
                What::Function | What::Indirect | What::Untyped => layout.function,
                What::Absolute => 0x1234,
                What::Object => take(&mut data, definition.size),
                What::Tls => take(&mut tls, definition.size),
            };
            symbols.push(Symbol::defined(definition, place));
        }
        for reference in &spec.references {
            if reference.how == How::Copy {
                let place = take(&mut data, reference.size);
                symbols.push(Symbol::copied(reference, place));
            }
        }
        let mut wanted: Vec<usize> = Vec::new();
        for reference in &spec.references {
            let own = symbols.iter().position(|symbol| symbol.serves(reference));
            wanted.push(own.unwrap_or_else(|| {
                let place = if reference.how == How::Canonical { layout.function } else { 0 };
                symbols.push(Symbol::undefined(reference, place));
                symbols.len() - 1
            }));
        }
        if self.program {
            let driver =
                Reference { name: DRIVER.into(), how: How::Got, weak: false, version: None, size: 0 };
            wanted.push(symbols.len());
            symbols.push(Symbol::undefined(&driver, 0));
        }
        let (symbols, place) = tables::sorted(&symbols, spec.hash);
        let wanted: Vec<u64> = wanted.into_iter().map(|index| place[index] as u64).collect();
        let relocations = self.relocations(spec, layout, &symbols, &wanted);
        (symbols, relocations)
    }

    fn relocations(
        &self,
        spec: &Spec,
        layout: &Layout,
        symbols: &[Symbol],
        wanted: &[u64],
    ) -> Vec<Relocation> {
        let mut slot = layout.got + 24;
        let mut relocations = Vec::new();
        if self.program {
            relocations.push(Relocation { at: slot, symbol: wanted[wanted.len() - 1], kind: 6, slot: false });
            slot += 8;
        }
        if spec.own_tls_initial {
            relocations.push(Relocation { at: slot, symbol: 0, kind: 18, slot: false });
            slot += 8;
        }
        for (reference, symbol) in spec.references.iter().zip(wanted) {
            let mut add = |kind: u64, slot: bool, at: u64| {
                relocations.push(Relocation { at, symbol: *symbol, kind, slot });
            };
            match reference.how {
                How::Call | How::Canonical => add(7, true, slot),
                How::Got => add(6, false, slot),
                How::Address => add(1, false, slot),
                How::General => {
                    add(16, false, slot);
                    add(17, false, slot + 8);
                }
                How::Initial => add(18, false, slot),
                How::Descriptor => add(36, true, slot),
                How::Copy => add(5, false, symbols[*symbol as usize].value),
            }
            slot += 16;
        }
        relocations
    }
}

fn take(next: &mut u64, size: u64) -> u64 {
    let at = *next;
    *next += size.next_multiple_of(8);
    at
}
