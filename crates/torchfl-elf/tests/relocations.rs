//! The relocations that look up a symbol: against readelf, and by hand for machines without a compiler here.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers may fail the test")]

mod common;

use std::path::Path;

use common::bytes::{self, Recipe, SYMBOL};
use common::{Bench, run, text_of};
use torchfl_elf::{FileAt, OwnTls, ReadAt, Relocation, Use, own_tls, relocations, symbol_table};

/// Name, use, lazy, static TLS.
type Seen = (String, Use, bool, bool);

fn seen(file: &dyn ReadAt) -> Vec<Seen> {
    let table = symbol_table(file, "x").unwrap();
    let mut seen = Vec::new();
    relocations(file, "x", &mut |Relocation { symbol, how, lazy, tls_static, .. }| {
        assert_ne!(symbol, 0);
        seen.push((String::from_utf8(table.name(symbol).to_vec()).unwrap(), how, lazy, tls_static));
    })
    .unwrap();
    seen
}

fn of(path: &Path) -> Vec<Seen> {
    seen(&FileAt::open(path).unwrap())
}

const SOURCE: &str = r"
    int data_1, data_2; int call_1(void); int call_2(void);
    extern int other; extern __thread int general, initial __attribute__((tls_model(#initial-exec#)));
    __attribute__((visibility(#hidden#))) int hidden(void) { return 1; }
    int *pointer = &other; int *local = &data_1; int (*function)(void) = call_1; int (*own)(void) = hidden;
    int f(void) { return call_1() + call_2() + other + general + initial + data_2; }
";

fn library(bench: &Bench, args: &[&str]) -> std::path::PathBuf {
    let args = [&["-nostdlib", "-fPIC", "-fno-builtin"], args].concat();
    bench.library("a.so", &SOURCE.replace('#', "\""), &args)
}

#[test]
fn they_come_in_the_order_of_readelf_which_is_that_of_the_loader() {
    let bench = Bench::new();
    for args in [&[][..], &["-Wl,-z,now"], &["-mtls-dialect=gnu2"], &["-fno-plt"]] {
        let lib = library(&bench, args);
        let text = text_of(&run("readelf", &["-rW", lib.to_str().unwrap()]));
        let expected: Vec<_> = text
            .lines()
            .filter_map(|line| {
                let words: Vec<_> = line.split_whitespace().collect();
                (words.get(2)?.starts_with("R_") && words.len() > 4).then(|| words[4].to_owned())
            })
            .collect();
        assert!(expected.len() > 5, "{text}");
        let names: Vec<_> = of(&lib).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, expected, "{text}");
    }
}

#[test]
fn uses_are_told_apart() {
    let bench = Bench::new();
    let seen = of(&library(&bench, &["-Wl,-z,lazy"]));
    let all = |name: &str| -> Vec<_> {
        let mut all: Vec<_> =
            seen.iter().filter(|seen| seen.0 == name).map(|seen| (seen.1, seen.2, seen.3)).collect();
        all.sort_by_key(|seen| seen.1);
        all
    };
    assert_eq!(all("call_2"), [(Use::Plt, true, false)]);
    assert_eq!(all("call_1"), [(Use::Data, false, false), (Use::Plt, true, false)]);
    assert!(all("other").iter().all(|seen| *seen == (Use::Data, false, false)));
    assert!(!all("general").is_empty());
    assert!(all("general").iter().all(|seen| *seen == (Use::Plt, false, false)));
    assert_eq!(all("initial"), [(Use::Plt, false, true)]);
    assert!(all("hidden").is_empty() && all("data_1") == [(Use::Data, false, false)]);
}

#[test]
fn a_copy_relocation_is_one() {
    let bench = Bench::new();
    bench.library("libd.so", "int datum = 3;", &["-nostdlib"]);
    let source = "extern int datum; int main(void) { return datum; }";
    let program = bench.cc("program", source, &["-no-pie", "-fno-pic", "libd.so"]);
    assert!(of(&program).contains(&("datum".to_owned(), Use::Copy, false, false)));
}

#[test]
fn the_files_own_static_tls_is_seen() {
    let bench = Bench::new();
    let model = |model: &str, dialect: &str| {
        let source = format!(
            "static __attribute__((tls_model(\"{model}\"))) __thread int t; int *f(void) {{ return &t; }}"
        );
        bench.library(&format!("{model}.so"), &source, &["-nostdlib", dialect])
    };
    let own = |path: &Path| own_tls(&FileAt::open(path).unwrap(), "x").unwrap();
    let initial = model("initial-exec", "-O2");
    assert_eq!((own(&initial), of(&initial)), (OwnTls::Static, vec![]));
    assert_eq!(own(&model("global-dynamic", "-O2")), OwnTls::Dynamic);
    if cfg!(target_arch = "x86_64") {
        assert_eq!(own(&model("global-dynamic", "-mtls-dialect=gnu2")), OwnTls::Descriptor);
    }
    // The variable is another file's: not this file's block.
    assert_eq!(own(&library(&bench, &[])), OwnTls::Dynamic);
}

#[test]
fn relative_ones_are_skipped_also_where_their_count_is_a_lie() {
    let bench = Bench::new();
    let lib = library(&bench, &[]);
    let honest = of(&lib);
    let mut bytes = fs_err::read(&lib).unwrap();
    let at = bytes.windows(8).position(|window| window == 0x6fff_fff9_u64.to_le_bytes()).unwrap();
    for (count, same) in [(0, true), (u64::MAX, false), (1 << 60, false)] {
        bytes[at + 8..at + 16].copy_from_slice(&count.to_le_bytes());
        let told = seen(&bytes);
        assert_eq!(told == honest, same, "{count}");
        assert!(told.iter().any(|(.., lazy, _)| *lazy), "the jump slots are another table");
    }
}

/// Machine, class, byte order, and the types of: a word's address, a TLS offset, a copy, relative, a jump slot.
const MACHINES: [(u16, bool, bool, [u64; 5]); 11] = [
    (62, true, true, [1, 18, 5, 8, 7]),
    (62, false, true, [1, 18, 5, 8, 7]),
    (3, false, true, [1, 14, 5, 8, 7]),
    (183, true, true, [257, 1030, 1024, 1027, 1026]),
    (183, false, true, [1, 186, 180, 183, 182]),
    (40, false, true, [2, 19, 20, 23, 22]),
    (21, true, true, [38, 73, 19, 22, 21]),
    (21, true, false, [38, 73, 19, 22, 21]),
    (22, true, false, [22, 56, 9, 12, 11]),
    (243, true, true, [2, 11, 4, 3, 5]),
    (258, true, true, [2, 11, 4, 3, 5]),
];

#[test]
fn every_machines_types_are_known() {
    let name = || SYMBOL.to_owned();
    for (machine, is_64, little, kinds) in MACHINES {
        let mut recipe = Recipe::new(is_64, little, machine, 0x1000);
        recipe.relocations = kinds.into_iter().map(|kind| (1, kind)).collect();
        let file = bytes::library(&recipe);
        let expected = [
            (name(), Use::Data, false, false),
            (name(), Use::Plt, false, true),
            (name(), Use::Copy, false, false),
            (name(), Use::Plt, true, false),
        ];
        assert_eq!(seen(&file), expected, "{recipe:?}");
        recipe.relocations[1].0 = 0;
        let file = bytes::library(&recipe);
        assert_eq!((seen(&file).len(), own_tls(&file, "x").unwrap()), (3, OwnTls::Static));
    }
}

#[test]
fn unknown_machines_relocations_are_data() {
    let name = || SYMBOL.to_owned();
    for (machine, little) in [(8, true), (8, false), (0x9999, true)] {
        let mut recipe = Recipe::new(true, little, machine, 0x1000);
        recipe.relocations = vec![(1, 3), (0, 3), (1, 7)];
        let seen = seen(&bytes::library(&recipe));
        assert_eq!(seen, [(name(), Use::Data, false, false), (name(), Use::Data, true, false)]);
    }
}

#[test]
fn jump_slots_that_the_other_table_counts_in_come_once() {
    let mut recipe = Recipe::new(true, true, 62, 0x1000);
    recipe.relocations = vec![(1, 1), (1, 7)];
    let mut file = bytes::library(&recipe);
    let once = seen(&file);
    let at = file.windows(16).position(|entry| entry[..8] == 8_u64.to_le_bytes() && entry[8] == 24).unwrap();
    file[at + 8] = 48; // DT_RELASZ
    assert_eq!(seen(&file), once);
    assert_eq!(once.len(), 2);
}
