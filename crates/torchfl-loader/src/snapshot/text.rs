//! A [`Snapshot`] as a file: a gzip stream of rows (`docs/reference/snapshot.md`).

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::sync::Arc;

use flate2::bufread::GzDecoder;
use flate2::{Compression, GzBuilder};
use torchfl_elf::{Bind, Class, Endian, Kind, Machine, SearchPath, Tag};

use super::take::{is_data, normal};
use super::{Kept, Snapshot};
use crate::cache::Abi;
use crate::error::Error;
use crate::object::{Flags, Known, Object};
use crate::symbols::{Export, Symbols};

/// The first row is this and the format's version.
const FORMAT: &str = "torchfl-snapshot";
const VERSION: &str = "1";
/// Bounds for hostile files: bytes of text, bytes of one row, symbols of one library and of all, other rows,
/// folders.
const MAX_TEXT: u64 = 512 << 20;
const MAX_ROW: u64 = 1 << 20;
const MAX_SYMBOLS: usize = 1 << 20;
const MAX_ALL_SYMBOLS: usize = 8 << 20;
const MAX_ROWS: usize = 1 << 20;
const MAX_FOLDERS: usize = 1000;
/// Bytes of the versions of one library's symbols, each of which has its own copy.
const MAX_VERSION_TEXT: usize = 128 << 20;
/// Versions have 15 bits in `.gnu.version`.
const MAX_VERSIONS: usize = 0x7000;

/// `STT_*` and the letters that stand for them.
const KINDS: &[(u8, char)] = &[(0, 'n'), (1, 'o'), (2, 'f'), (5, 'c'), (6, 't'), (10, 'i')];
const BINDS: &[(Bind, char)] = &[(Bind::Global, 'g'), (Bind::Weak, 'w'), (Bind::Unique, 'u')];

impl Snapshot {
    /// The bytes of a snapshot file. Of one snapshot they are always the same.
    pub fn write(&self) -> io::Result<Vec<u8>> {
        let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
        writeln!(gzip, "{FORMAT} {VERSION}")?;
        writeln!(gzip, "title {}", escaped(&self.title))?;
        for folder in &self.folders {
            writeln!(gzip, "folder {}", escaped(folder))?;
        }
        for (path, target) in &self.links {
            writeln!(gzip, "link {}", escaped(path))?;
            writeln!(gzip, "to {}", escaped(target))?;
        }
        for kept in &self.libraries {
            library(&mut gzip, kept)?;
        }
        gzip.finish()
    }

    /// Reads a snapshot file; `name` is what messages call it.
    pub fn parse(bytes: &[u8], name: &str) -> Result<Self, Error> {
        let mut rows = Rows {
            input: BufReader::new(GzDecoder::new(bytes).take(MAX_TEXT)),
            buffer: Vec::new(),
            number: 0,
            left: MAX_ROWS,
            symbols: MAX_ALL_SYMBOLS,
        };
        rows.snapshot().map_err(|what| Error::Snapshot { name: name.to_owned(), row: rows.number, what })
    }
}

fn library(out: &mut impl io::Write, kept: &Kept) -> io::Result<()> {
    let object = &kept.object;
    for (path, word) in kept.paths.iter().zip(["library"].into_iter().chain(std::iter::repeat("also"))) {
        writeln!(out, "{word} {}", escaped(path))?;
    }
    let class = if object.abi.class == Class::Elf64 { "elf64" } else { "elf32" };
    let endian = if object.abi.endian == Endian::Little { "little" } else { "big" };
    writeln!(out, "machine {} {class} {endian}", object.abi.machine.0)?;
    if let Some(soname) = &object.soname {
        writeln!(out, "soname {}", escaped(soname))?;
    }
    for needed in &object.needed {
        writeln!(out, "needed {}", escaped(needed))?;
    }
    if let Some(SearchPath { tag, value }) = &object.search_path {
        writeln!(out, "{tag} {}", escaped(value))?;
    }
    for (_, word) in flags(object).into_iter().filter(|(set, _)| *set) {
        writeln!(out, "flag {word}")?;
    }
    if object.tls.0 > 0 {
        writeln!(out, "tls {} {}", object.tls.0, object.tls.1)?;
    }
    for version in &object.versions_defined {
        writeln!(out, "version {}", escaped(version))?;
    }
    writeln!(out, "symbols {}", object.symbols.exports().count())?;
    let numbers: HashMap<&String, u64> =
        (1..).zip(&object.versions_defined).map(|(number, version)| (version, number)).collect();
    for export in object.symbols.exports() {
        symbol(out, &export, &numbers)?;
    }
    Ok(())
}

/// The flags of a library, and their words.
fn flags(object: &Object) -> [(bool, &'static str); 9] {
    let flags = object.flags;
    [
        (flags.now, "now"),
        (flags.symbolic, "symbolic"),
        (flags.no_default_folders, "no-default-folders"),
        (flags.no_delete, "no-delete"),
        (flags.no_open, "no-open"),
        (flags.static_tls, "static-tls"),
        (flags.tls_descriptors, "tls-descriptors"),
        (object.version_table, "version-table"),
        (object.symbols.is_versioned(), "versioned"),
    ]
}

fn symbol(out: &mut impl io::Write, export: &Export, versions: &HashMap<&String, u64>) -> io::Result<()> {
    let bind = BINDS.iter().find(|(bind, _)| *bind == export.bind).map_or('g', |(_, letter)| *letter);
    let kind = KINDS.iter().find(|(kind, _)| *kind == export.kind).map_or('n', |(_, letter)| *letter);
    write!(out, "{bind}{kind}")?;
    if export.visibility != 0 {
        write!(out, "p")?;
    }
    if export.hidden {
        write!(out, "h")?;
    }
    if is_data(export.kind) {
        write!(out, " {}", export.size)?;
    }
    let version = export.version.as_ref().and_then(|version| versions.get(version));
    writeln!(out, " {} {}", version.unwrap_or(&0), escaped(&export.name))
}

/// A text as the end of a row.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('\n', r"\n")
}

fn unescaped(text: &str) -> Result<String, String> {
    if !text.contains('\\') {
        return Ok(text.to_owned());
    }
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(match (letter, letter == '\\') {
            (letter, false) => letter,
            _ => match letters.next() {
                Some('\\') => '\\',
                Some('n') => '\n',
                _ => return Err(r"a `\` that is neither `\\` nor `\n`".to_owned()),
            },
        });
    }
    Ok(plain)
}

/// The rows of a file in reading.
struct Rows<'b> {
    input: BufReader<io::Take<GzDecoder<&'b [u8]>>>,
    buffer: Vec<u8>,
    /// The row that was read last, from 1.
    number: u64,
    /// Rows and symbols that may still come.
    left: usize,
    symbols: usize,
}

impl Rows<'_> {
    fn snapshot(&mut self) -> Result<Snapshot, String> {
        match self.next()? {
            Some((FORMAT, VERSION)) => {}
            Some((FORMAT, other)) => {
                return Err(format!("format {other:.20}, and this torchfl reads {VERSION}"));
            }
            _ => return Err("not a snapshot".to_owned()),
        }
        let mut snapshot = Snapshot::default();
        let mut link: Option<String> = None;
        while let Some((word, rest)) = self.next()? {
            match word {
                "title" => snapshot.title = unescaped(rest)?,
                "folder" if rest == "/" => snapshot.folders.push(rest.to_owned()),
                "folder" => snapshot.folders.push(path(rest)?),
                "link" => link = Some(path(rest)?),
                "to" => {
                    let from = link.take().ok_or("`to` without `link`")?;
                    snapshot.links.insert(from, unescaped(rest)?);
                }
                "library" => {
                    let first = path(rest)?;
                    snapshot.libraries.push(self.library(first)?);
                }
                other => return Err(format!("a row `{other:.20}` in this place")),
            }
        }
        if snapshot.folders.len() > MAX_FOLDERS {
            return Err(format!("more than {MAX_FOLDERS} folders"));
        }
        if self.input.get_ref().limit() == 0 {
            return Err(format!("more than {MAX_TEXT} bytes"));
        }
        if !self.input.get_ref().get_ref().get_ref().is_empty() {
            return Err("something follows the end".to_owned());
        }
        Ok(snapshot)
    }

    /// The next row: its first word, and the rest.
    fn next(&mut self) -> Result<Option<(&str, &str)>, String> {
        self.left = self.left.checked_sub(1).ok_or_else(|| format!("more than {MAX_ROWS} rows"))?;
        Ok(self.row()?.map(|row| row.split_once(' ').unwrap_or((row, ""))))
    }

    fn row(&mut self) -> Result<Option<&str>, String> {
        self.number += 1;
        self.buffer.clear();
        let read = (&mut self.input).take(MAX_ROW).read_until(b'\n', &mut self.buffer);
        match read {
            Err(error) => return Err(format!("cannot be unpacked: {error}")),
            Ok(0) => return Ok(None),
            Ok(_) if self.buffer.pop() != Some(b'\n') => {
                return Err("cut short, or longer than a row may be".to_owned());
            }
            Ok(_) => {}
        }
        std::str::from_utf8(&self.buffer).map(Some).map_err(|_| "not UTF-8".to_owned())
    }

    /// The rows after `library`, up to its last symbol.
    fn library(&mut self, first: String) -> Result<Kept, String> {
        let mut paths = vec![first];
        let mut abi = None;
        let mut object = Object {
            abi: Abi { machine: Machine(0), class: Class::Elf64, endian: Endian::Little },
            kind: Kind::Library,
            soname: None,
            needed: Vec::new(),
            search_path: None,
            interpreter: None,
            versions_needed: Vec::new(),
            versions_defined: Vec::new(),
            version_table: false,
            flags: Flags::default(),
            tls: (0, 0),
            symbols: Symbols::default(),
            known: Known::Exports,
        };
        let mut versioned = false;
        let count = loop {
            let Some((word, rest)) = self.next()? else {
                return Err("the end comes within a library".to_owned());
            };
            match word {
                "also" => paths.push(path(rest)?),
                "machine" => abi = Some(machine(rest)?),
                "soname" => object.soname = Some(unescaped(rest)?),
                "needed" => object.needed.push(unescaped(rest)?),
                "rpath" => object.search_path = Some(SearchPath { tag: Tag::Rpath, value: unescaped(rest)? }),
                "runpath" => {
                    object.search_path = Some(SearchPath { tag: Tag::Runpath, value: unescaped(rest)? });
                }
                "flag" => match rest {
                    "versioned" => versioned = true,
                    _ => *flag(&mut object, rest)? = true,
                },
                "tls" => {
                    let (size, align) = rest.split_once(' ').ok_or("`tls` without an alignment")?;
                    object.tls = (number(size)?, number(align)?);
                }
                "version" => object.versions_defined.push(unescaped(rest)?),
                "symbols" => break number(rest)?,
                other => return Err(format!("a row `{other:.20}` in a library")),
            }
        };
        object.abi = abi.ok_or("a library without `machine`")?;
        if object.versions_defined.len() > MAX_VERSIONS {
            return Err(format!("a library with more than {MAX_VERSIONS} versions"));
        }
        let exports = self.exports(count, &object.versions_defined)?;
        object.symbols = Symbols::from_exports(&exports, &object.versions_defined, versioned);
        Ok(Kept { paths, object: Arc::new(object) })
    }

    fn exports(&mut self, count: u64, versions: &[String]) -> Result<Vec<Export>, String> {
        let count = usize::try_from(count).ok().filter(|count| *count <= MAX_SYMBOLS);
        let count = count.ok_or_else(|| format!("a library with more than {MAX_SYMBOLS} symbols"))?;
        self.symbols =
            self.symbols.checked_sub(count).ok_or_else(|| format!("more than {MAX_ALL_SYMBOLS} symbols"))?;
        let mut exports = Vec::new();
        let mut left = MAX_VERSION_TEXT;
        for _ in 0..count {
            let row = self.row()?.ok_or("the end comes within a library")?;
            let export = export(row, versions).ok_or_else(|| format!("no symbol: {row:.80}"))?;
            let version = export.version.as_ref().map_or(0, String::len);
            left = left.checked_sub(version).ok_or("versions with too long names")?;
            exports.push(export);
        }
        Ok(exports)
    }
}

fn path(text: &str) -> Result<String, String> {
    let plain = unescaped(text)?;
    let sound = plain.starts_with('/') && !plain.contains('\0');
    let path = normal(&plain).filter(|path| sound && !path.is_empty());
    path.ok_or_else(|| "a path that is not absolute, or holds `..`".to_owned())
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:.20?} is no number"))
}

fn machine(text: &str) -> Result<Abi, String> {
    let words: Vec<&str> = text.split(' ').collect();
    let [machine, class, endian] = words[..] else { return Err("`machine` has three words".to_owned()) };
    let class = match class {
        "elf32" => Class::Elf32,
        "elf64" => Class::Elf64,
        _ => return Err("neither elf32 nor elf64".to_owned()),
    };
    let endian = match endian {
        "little" => Endian::Little,
        "big" => Endian::Big,
        _ => return Err("neither little nor big".to_owned()),
    };
    let machine = machine.parse().map_err(|_| "`machine` starts with a number".to_owned())?;
    Ok(Abi { machine: Machine(machine), class, endian })
}

fn flag<'o>(object: &'o mut Object, word: &str) -> Result<&'o mut bool, String> {
    let flags = &mut object.flags;
    Ok(match word {
        "now" => &mut flags.now,
        "symbolic" => &mut flags.symbolic,
        "no-default-folders" => &mut flags.no_default_folders,
        "no-delete" => &mut flags.no_delete,
        "no-open" => &mut flags.no_open,
        "static-tls" => &mut flags.static_tls,
        "tls-descriptors" => &mut flags.tls_descriptors,
        "version-table" => &mut object.version_table,
        other => return Err(format!("a flag `{other:.20}`")),
    })
}

/// A symbol's row, `goh 24 2 name`.
fn export(row: &str, versions: &[String]) -> Option<Export> {
    let (letters, mut rest) = row.split_once(' ')?;
    let mut letters = letters.chars();
    let (bind, kind) = (letters.next()?, letters.next()?);
    let bind = BINDS.iter().find(|(_, letter)| *letter == bind)?.0;
    let kind = KINDS.iter().find(|(_, letter)| *letter == kind)?.0;
    let marks = letters.as_str();
    let (visibility, hidden) = match marks {
        "" => (0, false),
        "p" => (3, false),
        "h" => (0, true),
        "ph" => (3, true),
        _ => return None,
    };
    let mut size = 0;
    if is_data(kind) {
        let (text, after) = rest.split_once(' ')?;
        size = text.parse().ok()?;
        rest = after;
    }
    let (version, name) = rest.split_once(' ')?;
    let version = match version.parse::<usize>().ok()? {
        0 => None,
        index => Some(versions.get(index - 1)?.clone()),
    };
    Some(Export { name: unescaped(name).ok()?, version, hidden, bind, kind, visibility, size })
}
