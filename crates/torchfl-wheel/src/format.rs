//! The zip structures that the writer emits (APPNOTE.TXT 6.3.10, sections 4.3.7 to 4.3.16, 4.5.3).

pub(crate) const LOCAL: u32 = 0x0403_4b50;
pub(crate) const CENTRAL: u32 = 0x0201_4b50;
pub(crate) const END: u32 = 0x0605_4b50;
pub(crate) const END64: u32 = 0x0606_4b50;
pub(crate) const LOCATOR64: u32 = 0x0706_4b50;
pub(crate) const ZIP64_EXTRA: u16 = 1;
pub(crate) const STORED: u16 = 0;
pub(crate) const DEFLATED: u16 = 8;
pub(crate) const UTF8: u16 = 1 << 11;

/// 1980-01-01 00:00:00, the first moment that the format can say: date in the high half, time in the low.
const TIME: u32 = 0x0021_0000;
/// Host system 3: the upper half of the external attributes is a Unix mode.
const UNIX: u16 = 3 << 8;
/// Versions of the format, which a reader must know.
const KNOWS_DEFLATE: u16 = 20;
const KNOWS_ZIP64: u16 = 45;
const REGULAR: u32 = 0o100_000;

/// From which value on a field moves to its zip64 form. Lowered by tests only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) size: u64,
    pub(crate) count: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { size: u64::from(u32::MAX), count: u64::from(u16::MAX) }
    }
}

impl Limits {
    /// The 32-bit field for `value`, and whether the value stands in the zip64 form instead.
    fn field(self, value: u64) -> (u32, bool) {
        if value >= self.size { (u32::MAX, true) } else { (value as u32, false) }
    }
}

/// What the archive says about one member.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) permissions: u32,
    pub(crate) method: u16,
    pub(crate) crc: u32,
    pub(crate) compressed: u64,
    pub(crate) size: u64,
    pub(crate) offset: u64,
}

impl Header {
    /// The header before the data. Its length depends on `name` and `size` only, so it can be written
    /// before the compressed size is known and again after.
    ///
    /// A zip64 extra field here holds both sizes (4.5.3), never the offset: that is the central directory's.
    /// A compressed size above the limit needs no case of its own, as it never exceeds `size`.
    pub(crate) fn local(&self, limits: Limits) -> Vec<u8> {
        let (size, zip64) = limits.field(self.size);
        let compressed = if zip64 { u32::MAX } else { self.compressed as u32 };
        let mut out = Vec::with_capacity(30 + self.name.len() + 20);
        put32(&mut out, LOCAL);
        self.common(&mut out, limits, compressed, size);
        put16(&mut out, if zip64 { 20 } else { 0 });
        out.extend_from_slice(self.name.as_bytes());
        if zip64 {
            zip64_extra(&mut out, &[self.size, self.compressed]);
        }
        out
    }

    /// The directory's record: a zip64 extra field holds only those values that do not fit.
    pub(crate) fn central(&self, limits: Limits) -> Vec<u8> {
        let mut large = Vec::new();
        let mut field = |value| {
            let (short, zip64) = limits.field(value);
            if zip64 {
                large.push(value);
            }
            short
        };
        let size = field(self.size);
        let compressed = field(self.compressed);
        let offset = field(self.offset);
        let mut out = Vec::with_capacity(46 + self.name.len() + 28);
        put32(&mut out, CENTRAL);
        put16(&mut out, UNIX | self.version(limits));
        self.common(&mut out, limits, compressed, size);
        put16(&mut out, if large.is_empty() { 0 } else { 4 + 8 * large.len() as u16 });
        put16(&mut out, 0); // comment
        put16(&mut out, 0); // disk
        put16(&mut out, 0); // internal attributes
        put32(&mut out, (REGULAR | self.permissions) << 16);
        put32(&mut out, offset);
        out.extend_from_slice(self.name.as_bytes());
        if !large.is_empty() {
            zip64_extra(&mut out, &large);
        }
        out
    }

    /// From "version needed" to the length of the name: equal in both headers.
    fn common(&self, out: &mut Vec<u8>, limits: Limits, compressed: u32, size: u32) {
        put16(out, self.version(limits));
        put16(out, if self.name.is_ascii() { 0 } else { UTF8 });
        put16(out, self.method);
        put32(out, TIME);
        put32(out, self.crc);
        put32(out, compressed);
        put32(out, size);
        put16(out, self.name.len() as u16);
    }

    /// What a reader must know. The same in both headers, whichever of them has the zip64 field.
    fn version(&self, limits: Limits) -> u16 {
        if self.size.max(self.offset) >= limits.size { KNOWS_ZIP64 } else { KNOWS_DEFLATE }
    }
}

/// What follows the directory of `count` records at `offset`, `size` bytes long.
pub(crate) fn end(count: u64, offset: u64, size: u64, limits: Limits) -> Vec<u8> {
    let many = count >= limits.count;
    let (short_count, (short_size, large), (short_offset, far)) =
        (if many { u16::MAX } else { count as u16 }, limits.field(size), limits.field(offset));
    let mut out = Vec::new();
    if many || large || far {
        put32(&mut out, END64);
        put64(&mut out, 44); // what follows this field
        put16(&mut out, UNIX | KNOWS_ZIP64);
        put16(&mut out, KNOWS_ZIP64);
        put32(&mut out, 0); // this disk
        put32(&mut out, 0); // the directory's disk
        put64(&mut out, count);
        put64(&mut out, count);
        put64(&mut out, size);
        put64(&mut out, offset);
        put32(&mut out, LOCATOR64);
        put32(&mut out, 0); // the record's disk
        put64(&mut out, offset + size);
        put32(&mut out, 1); // disks
    }
    put32(&mut out, END);
    put16(&mut out, 0);
    put16(&mut out, 0);
    put16(&mut out, short_count);
    put16(&mut out, short_count);
    put32(&mut out, short_size);
    put32(&mut out, short_offset);
    put16(&mut out, 0); // comment
    out
}

fn zip64_extra(out: &mut Vec<u8>, values: &[u64]) {
    put16(out, ZIP64_EXTRA);
    put16(out, 8 * values.len() as u16);
    for value in values {
        put64(out, *value);
    }
}

fn put16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}
