//! Random libraries, paths and damage.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers may fail the test")]

mod common;

use std::sync::OnceLock;

use common::bytes::{self, Recipe};
use common::{Bench, assert_kept, loads, search_path, set};
use proptest::prelude::*;
use torchfl_elf::{
    Edit, How, Patched, ReadAt, Tag, facts, own_tls, patch_to, plan, relocations, symbol_table, symbols,
};

fn path() -> impl Strategy<Value = String> {
    prop_oneof![
        "(/[a-z]{1,8}){1,6}(:\\$ORIGIN(/[a-z.]{1,6}){0,3}){0,4}:?",
        "/opt/(lib|x|libself\\.so|v1|f1|f11)",
        Just(String::new()),
        "\\PC{0,40}".prop_filter("no NUL", |text| !text.contains('\0')),
    ]
}

fn tag() -> impl Strategy<Value = Tag> {
    prop_oneof![Just(Tag::Rpath), Just(Tag::Runpath)]
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        4 => (tag(), path()).prop_map(|(tag, value)| Edit::Set { tag, value }),
        1 => Just(Edit::Remove),
    ]
}

fn recipe() -> impl Strategy<Value = Recipe> {
    let machine = prop_oneof![Just(3_u16), Just(22), Just(40), Just(62), Just(183), Just(243)];
    let search_path = prop_oneof![Just(None), Just(Some((15, "/old/path"))), Just(Some((29, "hand_made")))];
    let bools = any::<[bool; 5]>();
    let relocations = prop::collection::vec((0_u64..4, 0_u64..40), 0..6);
    (bools, machine, search_path, 0_usize..3, relocations).prop_map(
        |(bools, machine, search_path, spare, relocations)| {
            let [is_64, little, note, sections, bss] = bools;
            let base = Recipe::new(is_64, little, machine, 0x1000);
            Recipe { search_path, spare, note, sections, bss, relocations, ..base }
        },
    )
}

/// Everything there is to read; an error is fine.
fn read(bytes: &[u8]) {
    let _ = (facts(&bytes, "x"), own_tls(&bytes, "x"));
    if let Ok(symbols) = symbols(&bytes, "x") {
        symbols.for_each(drop);
    }
    if let Ok(table) = symbol_table(&bytes, "x") {
        for (index, symbol) in table.iter() {
            assert!(!table.name(index).contains(&0));
            let _ = (table.version(symbol.version), table.hashed(index));
        }
    }
    let _ = relocations(&bytes, "x", &mut |relocation| assert_ne!(relocation.symbol, 0));
}

fn whole(view: &dyn ReadAt) -> Vec<u8> {
    let mut bytes = vec![0; view.len() as usize];
    view.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Functions `f1`, `f11`… of a compiled library keep working through a sequence of edits.
    #[test]
    fn compiled_libraries_survive_any_edits(
        functions in 1..30_i32,
        old in "(/[a-z]{1,4}){0,2}/(lib|f1|f11|libself\\.so)",
        merged in any::<bool>(),
        edits in prop::collection::vec(edit(), 1..5),
    ) {
        let bench = Bench::new();
        let sources = (0..functions).map(|n| format!("int f{n}(void) {{ return {n}; }}\n"));
        let source = sources.fold("int lib(void) { return 42; }\n".to_owned(), |all, one| all + &one);
        let rpath = format!("-Wl,-O{},-rpath,{old},-soname,libself.so", u8::from(merged));
        let before = bench.library("a.so", &source, &[&rpath]);
        let after = bench.path("b.so");
        fs_err::copy(&before, &after).unwrap();
        for edit in &edits {
            patch_to(&after, &after, edit).unwrap();
            prop_assert_eq!(patch_to(&after, &after, edit).unwrap(), How::Unchanged);
            let expected = match edit {
                Edit::Set { tag, value } => Some((*tag, value.clone())),
                Edit::Remove => None,
            };
            prop_assert_eq!(search_path(&after), expected);
        }
        assert_kept(&before, &after);
        prop_assert!(loads(&after) <= loads(&before) + 1);
        prop_assert_eq!(bench.call(&after, &format!("f{}", functions - 1)), Ok(functions - 1));
        prop_assert_eq!(bench.call(&after, "lib"), Ok(42));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hand_made_libraries_take_any_edits(recipe in recipe(), edits in prop::collection::vec(edit(), 1..6)) {
        let mut bytes = bytes::library(&recipe);
        let names: Vec<_> = symbols(&bytes, "x").unwrap().map(|symbol| symbol.unwrap().name).collect();
        for edit in &edits {
            let patch = plan(&bytes, "x", edit).unwrap();
            bytes = whole(&Patched::new(&bytes, patch));
            let found = facts(&bytes, "x").unwrap().search_path;
            let expected = match edit {
                Edit::Set { tag, value } => Some((*tag, value.clone())),
                Edit::Remove => None,
            };
            prop_assert_eq!(found.map(|path| (path.tag, path.value)), expected);
            prop_assert_eq!(plan(&bytes, "x", edit).unwrap().how, How::Unchanged);
        }
        let after: Vec<_> = symbols(&bytes, "x").unwrap().map(|symbol| symbol.unwrap().name).collect();
        prop_assert_eq!(names, after);
    }

    /// Damage is an error or another reading, never a panic; what is planned all the same holds.
    #[test]
    fn damage_never_panics(
        recipe in recipe(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        near in any::<bool>(),
        edit in edit(),
    ) {
        let mut bytes = bytes::library(&recipe);
        let len = if near { 0x180 } else { bytes.len() };
        for (at, value) in damage {
            let at = at.index(len);
            bytes[at] = value;
        }
        read(&bytes);
        // A refusal is fine, also by the plan's own check: the damage may make tables overlap.
        if let Ok(patch) = plan(&bytes, "x", &edit) {
            let after = whole(&Patched::new(&bytes, patch));
            prop_assert_eq!(plan(&after, "x", &edit).unwrap().how, How::Unchanged);
        }
    }
}

/// A compiled library with versions, relocations of every sort and thread-local variables.
fn compiled() -> &'static [u8] {
    static LIBRARY: OnceLock<Vec<u8>> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let bench = Bench::new();
        fs_err::write(bench.path("map"), "one { global: f; }; two { global: g; t; } one;").unwrap();
        let source = "int atoi(const char *); __thread int t; extern __thread int u; int d;
            int f(void) { return atoi(\"1\") + t + u; } int *g = &d; int (*h)(void) = f;";
        fs_err::read(bench.library("a.so", source, &["-Wl,--version-script=map,--hash-style=both"])).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damage_to_a_compiled_library_never_panics(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        tables in any::<bool>(),
    ) {
        let mut bytes = compiled().to_vec();
        // The headers and tables are in the first kilobytes.
        let len = if tables { 0x900 } else { bytes.len() };
        for (at, value) in damage {
            bytes[at.index(len)] = value;
        }
        read(&bytes);
    }
}

#[test]
fn a_large_table_of_zeros_and_ones_is_no_trouble() {
    for fill in [0_u8, 1, 0xff] {
        let mut bytes = bytes::library(&Recipe::new(true, true, 62, 0x1000));
        let len = bytes.len();
        bytes[0x240..len].fill(fill);
        assert!(plan(&bytes, "x", &set(Tag::Rpath, "/a")).is_err());
    }
}
