//! A small shared library made by hand, for machines that no compiler here serves.

/// What to make.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    pub(crate) is_64: bool,
    pub(crate) little: bool,
    pub(crate) machine: u16,
    pub(crate) align: u64,
    /// Tag and value of the search path.
    pub(crate) search_path: Option<(u64, &'static str)>,
    /// `DT_NULL` entries beyond the one that ends the table.
    pub(crate) spare: usize,
    /// A note segment behind the program headers.
    pub(crate) note: bool,
    pub(crate) sections: bool,
    /// Zero-filled memory behind the second segment, which then cannot grow in the file.
    pub(crate) bss: bool,
    /// Symbol and type of each relocation; the last is among the jump slots.
    pub(crate) relocations: Vec<(u64, u64)>,
}

impl Recipe {
    pub(crate) fn new(is_64: bool, little: bool, machine: u16, align: u64) -> Self {
        Self {
            is_64,
            little,
            machine,
            align,
            search_path: None,
            spare: 2,
            note: true,
            sections: true,
            bss: true,
            relocations: Vec::new(),
        }
    }
}

struct Bytes<'r> {
    recipe: &'r Recipe,
    bytes: Vec<u8>,
}

impl Bytes<'_> {
    fn number(&mut self, value: u64, width: usize) {
        let le = value.to_le_bytes();
        let mut bytes = le[..width].to_vec();
        if !self.recipe.little {
            bytes.reverse();
        }
        self.bytes.extend(bytes);
    }

    fn word(&mut self, value: u64) {
        self.number(value, if self.recipe.is_64 { 8 } else { 4 });
    }

    fn pad(&mut self, to: u64) {
        assert!(self.bytes.len() as u64 <= to, "{:#x} is past {to:#x}", self.bytes.len());
        self.bytes.resize(to as usize, 0);
    }

    fn program_header(&mut self, kind: u64, flags: u64, offset: u64, vaddr: u64, len: u64, align: u64) {
        let bss = if self.recipe.bss && (kind, flags) == (1, 6) { 0x100 } else { 0 };
        self.number(kind, 4);
        if self.recipe.is_64 {
            self.number(flags, 4);
        }
        for value in [offset, vaddr, vaddr, len, len + bss] {
            self.word(value);
        }
        if !self.recipe.is_64 {
            self.number(flags, 4);
        }
        self.word(align);
    }

    fn section(&mut self, kind: u64, flags: u64, place: [u64; 3], link: u64, item: u64) {
        self.number(0, 4);
        self.number(kind, 4);
        for value in [flags, place[0], place[1], place[2]] {
            self.word(value);
        }
        self.number(link, 4);
        self.number(1, 4);
        self.word(1);
        self.word(item);
    }

    fn relocation(&mut self, symbol: u64, kind: u64) {
        self.word(0x100);
        match (self.recipe.is_64, self.recipe.machine, self.recipe.little) {
            (true, 8, true) => {
                self.number(symbol, 4);
                self.bytes.extend([0, 0, 0, kind as u8]);
            }
            (true, ..) => self.word(symbol << 32 | kind),
            (false, ..) => self.word(symbol << 8 | kind),
        }
        self.word(0);
    }

    fn symbol(&mut self, name: u64, section: u64) {
        self.number(name, 4);
        if self.recipe.is_64 {
            self.number(0x12, 1);
            self.number(0, 1);
            self.number(section, 2);
            self.word(0x100);
            self.word(4);
        } else {
            self.word(0x100);
            self.word(4);
            self.number(0x12, 1);
            self.number(0, 1);
            self.number(section, 2);
        }
    }
}

/// Names in `.dynstr`; the search path comes last.
pub(crate) const SONAME: &str = "libhand.so.1";
pub(crate) const NEEDED: &str = "libother.so";
pub(crate) const SYMBOL: &str = "hand_made";

/// Layout: headers, note, symbols, hash and strings in a first segment, the dynamic table in a second.
pub(crate) fn library(recipe: &Recipe) -> Vec<u8> {
    let (ehsize, phsize, shsize, word) = if recipe.is_64 { (64, 56, 64, 8) } else { (52, 32, 40, 4) };
    let (note, symbols, hash, strings) = (0x200, 0x240, 0x2c0, 0x300);
    let mut table = b"\0".to_vec();
    let mut put = |text: &str| {
        let at = table.len() as u64;
        table.extend(text.as_bytes());
        table.push(0);
        at
    };
    let (soname, needed, symbol) = (put(SONAME), put(NEEDED), put(SYMBOL));
    let path = recipe.search_path.map(|(tag, value)| (tag, put(value)));
    let dynamic = 0x600;
    let vdynamic = recipe.align + dynamic;
    let mut entries = vec![(1, needed), (14, soname)];
    entries.extend(path);
    let rest = [
        (4, hash),
        (5, strings),
        (6, symbols),
        (10, table.len() as u64),
        (11, if recipe.is_64 { 24 } else { 16 }),
    ];
    entries.extend(rest);
    let (records, item) = (0x500, 3 * word as u64);
    if let Some(slots) = recipe.relocations.len().checked_sub(1) {
        let slots = slots as u64 * item;
        entries.extend([(7, records), (8, slots), (9, item), (20, 7), (23, records + slots), (2, item)]);
    }
    let count = entries.len() + 1 + recipe.spare;
    let dynamic_len = (count * 2 * word) as u64;
    let load_len = if recipe.relocations.is_empty() { strings + table.len() as u64 } else { dynamic };
    let end = dynamic + dynamic_len;

    let mut b = Bytes { recipe, bytes: Vec::new() };
    b.bytes.extend([0x7f, b'E', b'L', b'F', 1 + u8::from(recipe.is_64), 2 - u8::from(recipe.little), 1, 0]);
    b.pad(16);
    b.number(3, 2);
    b.number(recipe.machine.into(), 2);
    b.number(1, 4);
    for value in [0, ehsize, if recipe.sections { end.next_multiple_of(8) } else { 0 }] {
        b.word(value);
    }
    b.number(0, 4);
    let sections = if recipe.sections { 6 } else { 0 };
    let segments = 3 + u64::from(recipe.note);
    for value in [ehsize, phsize, segments, shsize, sections, 0] {
        b.number(value, 2);
    }
    b.program_header(1, 4, 0, 0, load_len, recipe.align);
    b.program_header(1, 6, dynamic, vdynamic, dynamic_len, recipe.align);
    b.program_header(2, 6, dynamic, vdynamic, dynamic_len, 8);
    let behind = b.bytes.len() as u64;
    let note = if recipe.note { behind + phsize } else { note };
    if recipe.note {
        b.program_header(4, 4, note, note, 0x24, 4);
        for value in [4, 0x14, 3] {
            b.number(value, 4);
        }
        b.bytes.extend(b"GNU\0");
        b.bytes.extend([0xab; 0x14]);
    } else {
        b.bytes.extend([0x77; 8]); // bytes that no header tells of
    }
    b.pad(symbols);
    b.symbol(0, 0);
    b.symbol(symbol, 1);
    b.symbol(soname, 0);
    b.pad(hash);
    let wide = if recipe.is_64 && recipe.machine == 22 { 8 } else { 4 };
    for value in [1, 3, 1, 0, 0, 0] {
        b.number(value, wide);
    }
    b.pad(strings);
    b.bytes.extend(&table);
    if !recipe.relocations.is_empty() {
        b.pad(records);
    }
    for (symbol, kind) in &recipe.relocations {
        b.relocation(*symbol, *kind);
    }
    b.pad(dynamic);
    for (tag, value) in entries {
        b.word(tag);
        b.word(value);
    }
    b.pad(end);
    if recipe.sections {
        b.pad(end.next_multiple_of(8));
        let item = if recipe.is_64 { 24 } else { 16 };
        b.section(0, 0, [0, 0, 0], 0, 0);
        b.section(7, 2, [note, note, if recipe.note { 0x24 } else { 0 }], 0, 0);
        b.section(11, 2, [symbols, symbols, 3 * item], 3, item);
        b.section(3, 2, [strings, strings, table.len() as u64], 0, 0);
        b.section(6, 3, [vdynamic, dynamic, dynamic_len], 3, 2 * word as u64);
        b.section(5, 2, [hash, hash, 6 * wide as u64], 2, 4);
    }
    b.bytes
}
