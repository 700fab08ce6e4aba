//! What is read from real files.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers may fail the test")]

mod common;

use common::{Bench, facts_of, run, symbols_of, text_of};
use torchfl_elf::{Bind, Facts, FileAt, Kind, Tag, VersionName, VersionNeed, facts, is_elf};

#[test]
fn a_library_tells_its_names_versions_and_needs() {
    let bench = Bench::new();
    bench.library("libdep.so", "int dep(void) { return 1; }", &["-Wl,-soname,libdep.so.9"]);
    fs_err::write(bench.path("map"), "one { global: f; local: *; }; two { global: g; } one;").unwrap();
    let source =
        "int dep(void); __thread int t[3]; int f(void) { return dep(); } int g(void) { return t[1]; }";
    let lib = bench.library("a.so", source, &[
        "libdep.so",
        "-Wl,-soname,liba.so.1,--version-script=map,--build-id=0xc0ffee,-rpath,/opt/x,--disable-new-dtags,-z,now",
    ]);
    let facts = facts_of(&lib);
    assert_eq!(facts.kind, Kind::Library);
    assert_eq!(facts.soname.as_deref(), Some("liba.so.1"));
    assert_eq!(facts.needed[0], "libdep.so.9");
    assert_eq!(facts.versions_defined, ["liba.so.1", "one", "two"]);
    assert_eq!(facts.search_path.as_ref().map(|path| path.tag), Some(Tag::Rpath));
    assert_eq!(facts.build_id.as_deref(), Some("c0ffee"));
    assert_eq!(facts.executable_stack, Some(false));
    assert_eq!(facts.tls_size, 12);
    assert!(facts.bind_now() && !facts.text_relocations());
    assert!(facts.max_align() >= 0x1000);
    assert_eq!(facts.interpreter, None);
}

#[test]
fn a_program_is_told_from_a_library() {
    let bench = Bench::new();
    let source = "int main(void) { return 0; }";
    for args in [&["-pie"][..], &["-no-pie"]] {
        let facts = facts_of(&bench.cc("program", source, args));
        assert_eq!(facts.kind, Kind::Program, "{args:?}");
        assert_eq!(facts.fixed, args == ["-no-pie"]);
        assert!(facts.interpreter.unwrap().contains("ld"), "{args:?}");
    }
    let object = facts_of(&bench.cc("program.o", source, &["-c"]));
    assert_eq!((object.kind, object.dynamic), (Kind::Object, false));
    let fixed =
        facts_of(&bench.cc("fixed", "void _start(void) { for (;;); }", &["-static", "-nostdlib", "-no-pie"]));
    assert_eq!((fixed.kind, fixed.dynamic), (Kind::Program, false));
}

#[test]
fn an_executable_stack_is_seen() {
    let bench = Bench::new();
    let lib = bench.library("a.so", "int f;", &["-Wl,-z,execstack"]);
    assert_eq!(facts_of(&lib).executable_stack, Some(true));
}

#[test]
fn symbols_are_those_that_nm_lists() {
    let bench = Bench::new();
    fs_err::write(bench.path("map"), "one { global: f; old*; }; two { global: g; };").unwrap();
    let source = r#"
        #include <stdlib.h>
        __attribute__((weak)) int absent(void);
        int f(void) { return absent ? atoi("1") : 2; }
        int g(void) { return 3; }
        int old_h(void) { return 4; }
        __asm__(".symver old_h, h@one");
    "#;
    for hash in ["sysv", "gnu", "both"] {
        let args = format!("-Wl,--version-script=map,--hash-style={hash}");
        let lib = bench.library("a.so", source, &[&args]);
        let nm = text_of(&run("nm", &["-D", "--with-symbol-versions", lib.to_str().unwrap()]));
        let symbols = symbols_of(&lib);
        assert_eq!(symbols.len(), nm.lines().count(), "{nm}");
        for symbol in &symbols {
            let version = symbol.version.as_ref().filter(|version| version.name != symbol.name);
            let at = |version: &torchfl_elf::SymbolVersion| {
                let sign = if version.hidden || version.file.is_some() { "@" } else { "@@" };
                format!("{sign}{}", version.name)
            };
            let shown = format!(" {}{}\n", symbol.name, version.map(at).unwrap_or_default());
            assert!(nm.contains(&shown), "{shown} in {nm}");
        }
        let of = |name: &str| symbols.iter().find(|symbol| symbol.name == name).unwrap();
        assert_eq!((of("absent").bind, of("absent").defined), (Bind::Weak, false));
        assert_eq!((of("f").bind, of("f").defined), (Bind::Global, true));
        assert!(of("h").version.as_ref().unwrap().hidden);
        assert_eq!(of("atoi").version.as_ref().unwrap().file.as_deref(), Some("libc.so.6"));
    }
}

#[test]
fn undefined_symbols_are_found_without_section_headers_and_hashed_symbols() {
    let bench = Bench::new();
    let source =
        "int atoi(const char *); __attribute__((visibility(\"hidden\"))) int f(void) { return atoi(0); }";
    let lib = bench.library("a.so", source, &["-nostdlib", "-Wl,--hash-style=gnu"]);
    let before = symbols_of(&lib);
    assert!(before.iter().any(|symbol| symbol.name == "atoi"));
    let mut bytes = fs_err::read(&lib).unwrap();
    bytes[40..48].fill(0); // e_shoff
    bytes[58..64].fill(0); // e_shentsize, e_shnum, e_shstrndx
    fs_err::write(&lib, bytes).unwrap();
    assert_eq!(symbols_of(&lib), before);
}

#[test]
fn the_glibc_floor_counts_what_stops_the_load() {
    let need = |names: &[(&str, bool)]| {
        let version = |(name, weak): &(&str, bool)| VersionName { name: (*name).to_owned(), weak: *weak };
        VersionNeed { file: "libc.so.6".to_owned(), versions: names.iter().map(version).collect() }
    };
    let bench = Bench::new();
    let base = facts_of(&bench.library("a.so", "int f;", &["-nostdlib"]));
    let floor = |needs: Vec<VersionNeed>| Facts { versions_needed: needs, ..base.clone() }.glibc_floor();
    assert_eq!(floor(vec![]), None);
    assert_eq!(
        floor(vec![need(&[("GLIBC_2.2.5", false), ("GLIBC_2.17", false), ("GLIBC_PRIVATE", false)])]),
        Some((2, 17))
    );
    assert_eq!(floor(vec![need(&[("GLIBC_2.9", false)]), need(&[("GLIBC_2.34", true)])]), Some((2, 9)));
    assert_eq!(floor(vec![need(&[("GLIBC_2.4", false), ("GLIBC_ABI_DT_RELR", false)])]), Some((2, 36)));
}

#[test]
fn facts_are_plain_json() {
    let bench = Bench::new();
    let lib = bench.library("a.so", "int f;", &["-Wl,-rpath,/opt/x"]);
    let json = serde_json::to_value(facts_of(&lib)).unwrap();
    assert_eq!(json["class"], "elf64");
    assert_eq!(json["kind"], "library");
    assert_eq!(json["search_path"]["tag"], "runpath");
    assert_eq!(serde_json::to_value(torchfl_elf::How::InPlace).unwrap(), "in-place");
}

#[test]
fn elf_is_known_by_its_magic() {
    let bench = Bench::new();
    fs_err::write(bench.path("script"), "/* GNU ld script */ INPUT(libm.so.6)").unwrap();
    let script = FileAt::open(&bench.path("script")).unwrap();
    assert!(!is_elf(&script));
    let error = facts(&script, "libm.so").unwrap_err();
    assert_eq!((error.code(), error.to_string()), ("E-ELF-003", "libm.so: not an ELF file".to_owned()));
    assert!(error.hint().is_some());
    assert!(!is_elf(&Vec::new()));
}

#[test]
fn a_section_is_found_by_its_whole_name() {
    let bench = Bench::new();
    let source = "__attribute__((section(\".torch_fl\"), used)) static const char note[] = \"{}\";
        __attribute__((section(\".torch_flx\"), used)) static const char other[] = \"x\"; int zeros[64];";
    let lib = FileAt::open(&bench.library("a.so", source, &[])).unwrap();
    assert_eq!(torchfl_elf::section(&lib, "a.so", ".torch_fl").unwrap().as_deref(), Some(&b"{}\0"[..]));
    assert_eq!(torchfl_elf::section(&lib, "a.so", ".torch").unwrap(), None);
    assert_eq!(torchfl_elf::section(&lib, "a.so", ".bss").unwrap(), None, "it has no bytes");
    let long = "__attribute__((section(\".torch_fl\"), used)) static const char note[65537] = \"{}\";";
    let lib = FileAt::open(&bench.library("b.so", long, &[])).unwrap();
    let error = torchfl_elf::section(&lib, "b.so", ".torch_fl").unwrap_err();
    assert!(error.to_string().contains("longer than 64 KiB"), "{error}");
}
