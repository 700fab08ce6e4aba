//! All symbols at once: the same as the stream tells, and what only the loader wants to know.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers may fail the test")]

mod common;

use std::path::Path;

use common::{Bench, facts_of, symbols_of};
use torchfl_elf::{Bind, FileAt, Place, SymbolTable, TableSymbol, TableVersion, facts, symbol_table};

fn table_of(path: &Path) -> SymbolTable {
    symbol_table(&FileAt::open(path).unwrap(), "x").unwrap()
}

fn named(table: &SymbolTable, name: &str) -> Vec<(u32, TableSymbol)> {
    table.iter().filter(|(index, _)| table.name(*index) == name.as_bytes()).collect()
}

fn one(table: &SymbolTable, name: &str) -> (u32, TableSymbol) {
    let [found] = named(table, name)[..] else { panic!("{name}") };
    found
}

const SOURCE: &str = r#"
    #include <stdlib.h>
    __attribute__((weak)) int absent(void);
    __attribute__((visibility("protected"))) int f(void) { return absent ? atoi("1") : 2; }
    int g(void) { return 3; }
    int old_h(void) { return 4; }
    __thread int t[2] = {1};
    __asm__(".symver old_h, h@one");
    __asm__(".globl fixed\n.set fixed, 0x1234");
    __asm__(".pushsection .bss\n.globl u\n.type u, @gnu_unique_object\n.size u, 4\nu: .zero 4\n.popsection");
"#;

fn library(bench: &Bench, hash: &str) -> std::path::PathBuf {
    fs_err::write(bench.path("map"), "one { global: f; old*; }; two { global: g; t; u; fixed; } one;")
        .unwrap();
    let args = format!("-Wl,-soname,liba.so,--version-script=map,--hash-style={hash}");
    bench.library("a.so", SOURCE, &[&args])
}

#[test]
fn the_table_holds_what_the_stream_tells() {
    let bench = Bench::new();
    for hash in ["sysv", "gnu", "both"] {
        let lib = library(&bench, hash);
        let (table, symbols) = (table_of(&lib), symbols_of(&lib));
        assert_eq!(table.len(), symbols.len() + 1);
        assert!(table.versioned() && !table.is_empty());
        for ((index, symbol), known) in table.iter().skip(1).zip(&symbols) {
            assert_eq!(table.get(index), Some(symbol));
            assert_eq!(table.name(index), known.name.as_bytes());
            assert_eq!(
                (symbol.bind, symbol.kind, symbol.visibility),
                (known.bind, known.kind, known.visibility)
            );
            assert_eq!((symbol.has_value, symbol.size), (known.value != 0, known.size));
            assert_eq!(symbol.place != Place::Undefined, known.defined);
            let version = table.version(symbol.version).filter(|version| !version.base);
            let expected = known.version.as_ref().filter(|version| version.name != "liba.so");
            assert_eq!(
                version.map(|version| (&version.name, &version.file, symbol.version & 0x8000 != 0)),
                expected.map(|version| (&version.name, &version.file, version.hidden)),
                "{known:?}"
            );
        }
        assert_eq!((table.get(0).unwrap().place, table.name(0)), (Place::Undefined, &b""[..]));
        let past = table.len() as u32;
        assert_eq!((table.get(past), table.name(past), table.hashed(past)), (None, &b""[..], false));
    }
}

#[test]
fn places_bindings_and_visibilities_are_told_apart() {
    let bench = Bench::new();
    let table = table_of(&library(&bench, "both"));
    let of = |name| one(&table, name).1;
    assert_eq!((of("f").place, of("f").visibility), (Place::Defined, 3));
    assert_eq!(of("fixed").place, Place::Absolute);
    assert_eq!((of("absent").place, of("absent").bind), (Place::Undefined, Bind::Weak));
    assert_eq!((of("u").bind, of("u").size), (Bind::Unique, 4));
    assert_eq!((of("t").kind, of("t").size, of("t").has_value), (6, 8, false));
}

#[test]
fn versions_are_those_of_the_file_and_of_its_needs() {
    let bench = Bench::new();
    let table = table_of(&library(&bench, "gnu"));
    let of = |name| table.version(one(&table, name).1.version).cloned();
    let here = |name: &str| TableVersion {
        name: name.to_owned(),
        file: None,
        base: false,
        weak: false,
        hidden: false,
    };
    assert_eq!(of("f"), Some(here("one")));
    assert_eq!(of("g"), Some(here("two")));
    assert_eq!(table.version(0x8000 | 2), Some(&here("one")));
    assert_eq!(table.version(1), Some(&TableVersion { base: true, ..here("liba.so") }));
    assert_eq!((table.version(0), table.version(0x7fff)), (None, None));
    let atoi = of("atoi").unwrap();
    assert_eq!((atoi.file.as_deref(), atoi.base, atoi.weak), (Some("libc.so.6"), false, false));
    assert!(of("absent").unwrap().base, "global");
    // One name, two versions.
    let source = "int a(void) { return 1; } int b(void) { return 2; }\
                  __asm__(\".symver a, h@one\\n.symver b, h@@two\");";
    fs_err::write(bench.path("map"), "one {}; two {} one;").unwrap();
    let table = table_of(&bench.library("b.so", source, &["-Wl,--version-script=map"]));
    let mut both: Vec<_> = named(&table, "h")
        .iter()
        .map(|(_, symbol)| (table.version(symbol.version).unwrap().name.clone(), symbol.version >> 15))
        .collect();
    both.sort();
    assert_eq!(both, [("one".to_owned(), 1), ("two".to_owned(), 0)]);
}

#[test]
fn only_hashed_symbols_can_be_found() {
    let bench = Bench::new();
    for hash in ["sysv", "gnu", "both"] {
        let table = table_of(&library(&bench, hash));
        assert!(!table.hashed(0));
        for (index, symbol) in table.iter().skip(1) {
            let defined = symbol.place != Place::Undefined;
            assert_eq!(table.hashed(index), defined || hash == "sysv", "{hash} {symbol:?}");
        }
    }
    // Nothing is exported: the linker still writes a hash table, whose header tells of index 1.
    let source = "int atoi(const char *); static int f(void) { return atoi(\"1\"); }\
                  __attribute__((visibility(\"hidden\"))) int (*p)(void) = f;";
    let table = table_of(&bench.library("b.so", source, &["-nostdlib", "-Wl,--hash-style=gnu"]));
    assert_eq!(table.version(2), None);
    assert!(!table.versioned());
    let (index, atoi) = one(&table, "atoi");
    assert_eq!((table.hashed(index), atoi.version), (false, 1));
}

#[test]
fn a_file_without_dynamic_symbols_has_an_empty_table() {
    let bench = Bench::new();
    let object = bench.cc("a.o", "int f(void) { return 1; }", &["-c"]);
    let table = table_of(&object);
    assert_eq!((table.len(), table.is_empty(), table.versioned()), (0, true, false));
    assert_eq!(table.iter().count(), 0);
}

#[test]
fn a_name_without_an_end_is_an_error() {
    let bench = Bench::new();
    let lib = bench.library("a.so", "int a_name(void) { return 1; }", &["-nostdlib"]);
    let mut bytes = fs_err::read(&lib).unwrap();
    let at = bytes.windows(10).position(|window| window == b"\0\0\0\0a_name").map(|at| at + 4);
    let at = at.or_else(|| bytes.windows(7).position(|window| window == b"a_name\0")).unwrap();
    // The table ends with the name's last letter.
    let strings = facts_of(&lib);
    assert!(strings.dynamic);
    let size = bytes
        .windows(16)
        .position(|entry| entry[0] == 10 && entry[1..8] == [0; 7] && entry[10..] == [0; 6])
        .unwrap();
    bytes[size + 8] = 7;
    bytes[at + 6] = b'x';
    let error = symbol_table(&bytes, "x").unwrap_err();
    assert_eq!(error.code(), "E-ELF-005", "{error}");
}

#[test]
fn older_tags_count_as_flags() {
    let bench = Bench::new();
    let args = ["-nostdlib", "-Wl,-Bsymbolic,-z,now,-z,nodelete,-z,nodlopen"];
    let lib = bench.library("a.so", "__thread int t __attribute__((aligned(32))); int f;", &args);
    let known = facts_of(&lib);
    assert!(known.symbolic() && known.bind_now() && known.no_delete() && known.no_open());
    assert_eq!(known.tls_align, 32);
    // Without DT_FLAGS and DT_FLAGS_1, DT_SYMBOLIC is left.
    let mut bytes = fs_err::read(&lib).unwrap();
    for tag in [30_u64, 0x6fff_fffb] {
        let at = bytes.windows(8).position(|window| window == tag.to_le_bytes()).unwrap();
        bytes[at..at + 8].copy_from_slice(&0x6fff_0000_u64.to_le_bytes());
    }
    let bare = facts(&bytes, "x").unwrap();
    assert!(bare.symbolic() && !bare.no_delete());
    let plain = facts_of(&bench.library("b.so", "int f;", &["-nostdlib"]));
    assert!(!plain.symbolic() && !plain.no_delete() && !plain.no_open());
    assert_eq!(plain.tls_align, 0);
}
