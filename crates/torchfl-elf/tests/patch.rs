//! Edits of real libraries and programs, each followed by a real load.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers may fail the test")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{Bench, assert_kept, facts_of, loads, run, search_path, set, text_of};
use torchfl_elf::{Edit, How, Tag, patch_in_place, patch_to};

const ANSWER: &str = "int lib(void) { return 42; }";

/// Patches a copy, checks everything that must hold, and gives the copy's path.
fn patched(bench: &Bench, before: &Path, edit: &Edit, how: How) -> std::path::PathBuf {
    let after = before.with_extension("patched");
    assert_eq!(patch_to(before, &after, edit).unwrap(), how, "{edit:?}");
    assert_kept(before, &after);
    match edit {
        Edit::Set { tag, value } => assert_eq!(search_path(&after), Some((*tag, value.clone()))),
        Edit::Remove => assert_eq!(search_path(&after), None),
    }
    assert_eq!(facts_of(&after).ignored_rpath, None);
    let bytes = fs_err::read(&after).unwrap();
    assert_eq!(patch_in_place(&after, edit).unwrap(), How::Unchanged);
    assert_eq!(fs_err::read(&after).unwrap(), bytes, "a second run changes nothing");
    assert_eq!(bench.call(&after, "lib"), bench.call(before, "lib"));
    after
}

#[test]
fn a_shorter_path_goes_over_the_old_one() {
    let bench = Bench::new();
    let lib = bench.library("a.so", ANSWER, &["-Wl,-rpath,/opt/some/where,--enable-new-dtags"]);
    let after = patched(&bench, &lib, &set(Tag::Runpath, "$ORIGIN"), How::InPlace);
    let bytes = fs_err::read(&after).unwrap();
    assert_eq!(bytes.len() as u64, fs_err::metadata(&lib).unwrap().len());
    assert!(!contains(&bytes, b"some/where"), "the rest of the old path is wiped");
}

#[test]
fn the_tag_is_the_one_asked_for() {
    let bench = Bench::new();
    for old in ["--enable-new-dtags", "--disable-new-dtags"] {
        let lib = bench.library("a.so", ANSWER, &[&format!("-Wl,-rpath,/opt/x,{old}")]);
        for tag in [Tag::Rpath, Tag::Runpath] {
            let same = (tag == Tag::Runpath) == (old == "--enable-new-dtags");
            patched(&bench, &lib, &set(tag, "/opt/x"), if same { How::Unchanged } else { How::InPlace });
            patched(&bench, &lib, &set(tag, "/opt/y"), How::InPlace);
            patched(&bench, &lib, &set(tag, "/opt/longer"), How::Appended);
        }
    }
}

#[test]
fn both_tags_in_a_file_become_the_chosen_one() {
    let bench = Bench::new();
    let lib = bench.library("a.so", ANSWER, &["-Wl,-rpath,/opt/some/where,--disable-new-dtags"]);
    // A spare entry becomes a DT_RUNPATH that points into the DT_RPATH's text.
    let mut bytes = fs_err::read(&lib).unwrap();
    let dynamic = facts_of(&lib).segments.into_iter().find(|segment| segment.kind == 2).unwrap();
    let range = dynamic.offset as usize..(dynamic.offset + dynamic.file_size) as usize;
    let tag = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
    let (mut rpath, mut spare) = (None, None);
    for at in range.step_by(16) {
        match tag(&bytes[at..]) {
            15 => rpath = Some(at),
            0 if spare.is_none() => spare = Some(at),
            _ => {}
        }
    }
    let (rpath, spare) = (rpath.unwrap(), spare.unwrap());
    bytes.copy_within(rpath + 8..rpath + 16, spare + 8);
    bytes[spare] = 29;
    let index = u64::from_le_bytes(bytes[spare + 8..spare + 16].try_into().unwrap()) + 4;
    bytes[spare + 8..spare + 16].copy_from_slice(&index.to_le_bytes());
    let both = bench.path("both.so");
    fs_err::write(&both, &bytes).unwrap();
    let facts = facts_of(&both);
    assert_eq!(facts.ignored_rpath.as_deref(), Some("/opt/some/where"));
    assert_eq!(facts.search_path.unwrap().value, "/some/where");

    for edit in [
        set(Tag::Runpath, "/some/where"),
        set(Tag::Rpath, "/opt/some/where"),
        set(Tag::Rpath, "/z"),
        Edit::Remove,
    ] {
        let after = patched(&bench, &both, &edit, How::InPlace);
        if edit != set(Tag::Rpath, "/opt/some/where") {
            assert!(!contains(&fs_err::read(after).unwrap(), b"/opt/some"), "{edit:?}");
        }
    }
    patched(&bench, &both, &set(Tag::Runpath, "/much/longer/than/before/it/was"), How::Appended);
}

#[test]
fn tail_merged_symbol_keeps_its_name() {
    let bench = Bench::new();
    // ld lets the symbol `lib` point into the end of the path.
    let lib = bench.library("a.so", ANSWER, &["-O1", "-Wl,-O1,-rpath,/x/lib,--enable-new-dtags"]);
    let dynstr = text_of(&run("readelf", &["-p", ".dynstr", lib.to_str().unwrap()]));
    assert!(!dynstr.lines().any(|line| line.trim_end().ends_with("]  lib")), "the linker merged: {dynstr}");
    for value in ["/y", "/x/lic", "/much/longer/than/before"] {
        let after = patched(&bench, &lib, &set(Tag::Runpath, value), How::Appended);
        assert_eq!(bench.call(&after, "lib"), Ok(42));
    }
    // Removing needs no room, and leaves the shared bytes alone.
    let after = patched(&bench, &lib, &Edit::Remove, How::InPlace);
    assert_eq!(bench.call(&after, "lib"), Ok(42));
}

#[test]
fn tail_merged_soname_needed_and_version_names_stay() {
    let bench = Bench::new();
    bench.library("libdep.so", "int dep(void) { return 1; }", &["-Wl,-soname,libdep.so"]);
    let script = bench.path("map");
    fs_err::write(&script, "v1.0 { global: lib; local: *; };").unwrap();
    let script = format!("-Wl,--version-script={}", script.display());
    let source = "int dep(void); int lib(void) { return dep() + 41; }";
    for path in ["/opt/libself.so", "/opt/libdep.so", "/opt/v1.0", "/opt/libc.so.6", "/opt/GLIBC_2.2.5"] {
        let rpath = format!("-Wl,-O1,-rpath,{path},-soname,libself.so");
        let lib = bench.library("self.so", source, &[&rpath, &script, "libdep.so"]);
        for value in ["/a", "/opt/longer/than/it/was/before"] {
            let after = lib.with_extension("patched");
            patch_to(&lib, &after, &set(Tag::Rpath, value)).unwrap();
            assert_kept(&lib, &after);
            patch_in_place(&after, &set(Tag::Rpath, &bench.dir.path().display().to_string())).unwrap();
            assert_kept(&lib, &after);
            assert_eq!(bench.call(&after, "lib"), Ok(42));
        }
    }
}

#[test]
fn a_path_that_is_itself_the_tail_of_a_name_is_left_alone() {
    let bench = Bench::new();
    let lib = bench.library(
        "a.so",
        "int lib(void) { return 7; } int xlib(void) { return 8; }",
        &["-Wl,-O1,-rpath,lib,--enable-new-dtags"],
    );
    let after = patched(&bench, &lib, &set(Tag::Runpath, "q"), How::Appended);
    assert_eq!(bench.call(&after, "xlib"), Ok(8));
    let after = patched(&bench, &lib, &Edit::Remove, How::InPlace);
    assert_eq!(bench.call(&after, "xlib"), Ok(8));
}

#[test]
fn remove_leaves_no_text_and_no_hole_in_the_table() {
    let bench = Bench::new();
    for tags in ["--enable-new-dtags", "--disable-new-dtags"] {
        let lib = bench.library("a.so", ANSWER, &["-lm", &format!("-Wl,-rpath,/build/secret,{tags}")]);
        let after = patched(&bench, &lib, &Edit::Remove, How::InPlace);
        assert!(!contains(&fs_err::read(&after).unwrap(), b"secret"));
        let count =
            |path: &Path| text_of(&run("readelf", &["-dW", path.to_str().unwrap()])).matches(" 0x0").count();
        assert_eq!(count(&after) + 1, count(&lib), "one entry less");
        patched(&bench, &lib.with_extension("patched"), &set(Tag::Runpath, "/again"), How::Appended);
    }
}

#[test]
fn remove_of_none_and_of_a_kept_text_change_nothing_else() {
    let bench = Bench::new();
    let lib = bench.library("a.so", ANSWER, &[]);
    patched(&bench, &lib, &Edit::Remove, How::Unchanged);
}

#[test]
fn an_empty_path_is_not_the_same_as_none() {
    let bench = Bench::new();
    let lib = bench.library("a.so", ANSWER, &[]);
    let empty = patched(&bench, &lib, &set(Tag::Runpath, ""), How::InPlace);
    let empty = fs_err::rename(empty, bench.path("empty.so")).map(|()| bench.path("empty.so")).unwrap();
    let path = patched(&bench, &empty, &set(Tag::Runpath, "/opt/x:"), How::Appended);
    fs_err::rename(path, bench.path("colon.so")).unwrap();
    patched(&bench, &bench.path("colon.so"), &set(Tag::Rpath, ""), How::InPlace);
    patched(&bench, &bench.path("colon.so"), &set(Tag::Runpath, "${ORIGIN}"), How::Appended);
}

#[test]
fn every_shape_of_file_takes_a_longer_path_and_loads() {
    let bench = Bench::new();
    let source = r#"
        #include <stdlib.h>
        __thread int local = 40;
        static int *where;
        static int ready;
        __attribute__((constructor)) static void init(void) { ready = 2; where = &ready; }
        int zero[5000];
        int lib(void) { return atoi(getenv("NOBODY") ? "1" : "0") + local + *where + zero[17]; }
    "#;
    let mut not_run = Vec::new();
    for linker in ["bfd", "gold", "lld", "mold"] {
        let linker = format!("-fuse-ld={linker}");
        if let Err(why) = bench.try_cc("probe.so", ANSWER, &["-shared", "-fPIC", &linker]) {
            assert_ne!(linker, "-fuse-ld=bfd", "{why}");
            not_run.push(linker);
            continue;
        }
        for shape in [
            &["-Wl,-z,relro,-z,now"][..],
            &["-Wl,-z,norelro,-z,lazy"],
            &["-Wl,-z,max-page-size=0x200000"],
            &["-Wl,-z,noseparate-code"],
            &["-Wl,-z,separate-code"],
            &["-Wl,--hash-style=both"],
            &["-Wl,--hash-style=sysv"],
            &["-Wl,--build-id=none"],
            &["-Wl,--build-id=sha1"],
            &["-g", "-Wl,-rpath,/a"],
            &["-s"],
        ] {
            let args = [&["-shared", "-fPIC", &linker], shape].concat();
            let lib = match bench.try_cc("a.so", source, &args) {
                Ok(lib) => lib,
                Err(why) => {
                    // Only bfd knows all of these.
                    assert_ne!(linker, "-fuse-ld=bfd", "{why}");
                    not_run.push(format!("{linker} {shape:?}"));
                    continue;
                }
            };
            assert_eq!(bench.call(&lib, "lib"), Ok(42), "before: {linker} {shape:?}");
            let after = patched(&bench, &lib, &set(Tag::Runpath, "$ORIGIN/../some/where"), How::Appended);
            assert!(loads(&after) <= loads(&lib) + 1);
            assert_headers_stay(&lib, &after);
            three_growing_runs(&bench, &lib, &after);
        }
    }
    if !not_run.is_empty() {
        eprintln!("NOT RUN, a linker or its option is missing: {not_run:?}");
    }
}

fn assert_headers_stay(before: &Path, after: &Path) {
    let offset = |path: &Path| fs_err::read(path).unwrap()[32..40].to_vec();
    assert_eq!(offset(before), offset(after), "the program headers stay behind the ELF header");
}

fn three_growing_runs(bench: &Bench, before: &Path, after: &Path) {
    let segments = loads(after);
    for times in [10, 100, 1000] {
        let value = "/grown".repeat(times);
        assert_eq!(patch_in_place(after, &set(Tag::Rpath, &value)).unwrap(), How::Appended);
        assert_eq!(search_path(after), Some((Tag::Rpath, value)));
        assert_kept(before, after);
        assert_eq!(loads(after), segments);
        assert_eq!(bench.call(after, "lib"), Ok(42));
    }
}

#[test]
fn ten_growing_edits_share_one_segment_and_leave_no_garbage() {
    let bench = Bench::new();
    let lib = bench.library("a.so", ANSWER, &[]);
    let after = bench.path("b.so");
    for times in 1..=10 {
        let out = if times == 1 { &lib } else { &after };
        patch_to(out, &after, &set(Tag::Runpath, &"/x".repeat(times * 50))).unwrap();
    }
    assert_eq!(loads(&after), loads(&lib) + 1);
    let once = bench.path("once.so");
    patch_to(&lib, &once, &set(Tag::Runpath, &"/x".repeat(500))).unwrap();
    assert_eq!(fs_err::read(after).unwrap().len(), fs_err::read(once).unwrap().len());
}

#[test]
fn a_hundred_alternating_values_add_one_segment() {
    let bench = Bench::new();
    let lib = bench.library("a.so", ANSWER, &["-Wl,-rpath,/start"]);
    let after = bench.path("b.so");
    fs_err::copy(&lib, &after).unwrap();
    let mut longest = 0;
    for turn in 0..100 {
        let value = format!("/v{}", "y".repeat(if turn % 2 == 0 { 3 } else { 90 }));
        let tag = if turn % 3 == 0 { Tag::Rpath } else { Tag::Runpath };
        patch_to(&after, &after, &set(tag, &value)).unwrap();
        assert_eq!(search_path(&after), Some((tag, value)));
        let len = fs_err::metadata(&after).unwrap().len();
        if turn > 2 {
            assert_eq!(len, longest, "turn {turn}");
        }
        longest = len;
    }
    assert!(loads(&after) <= loads(&lib) + 1);
    assert_kept(&lib, &after);
    assert_eq!(bench.call(&after, "lib"), Ok(42));
}

#[test]
fn programs_run_after_a_longer_path() {
    let bench = Bench::new();
    fs_err::create_dir_all(bench.path("deep/er")).unwrap();
    bench.library("deep/er/libdep.so", "int dep(void) { return 3; }", &["-Wl,-soname,libdep.so"]);
    let source = "int dep(void); int big[90000]; int main(int c, char **v) { return dep() + big[c]; }";
    for shape in [
        &["-pie"][..],
        &["-no-pie"],
        &["-pie", "-Wl,-z,noseparate-code"],
        &["-no-pie", "-Wl,--build-id=none", "-Wl,-z,max-page-size=0x200000"],
        &["-no-pie", "-fuse-ld=gold"],
    ] {
        let args = [shape, &["deep/er/libdep.so"]].concat();
        let program = match bench.try_cc("program", source, &args) {
            Ok(program) => program,
            Err(why) if shape.contains(&"-fuse-ld=gold") => {
                eprintln!("NOT RUN, gold is missing: {why}");
                continue;
            }
            Err(why) => panic!("{why}"),
        };
        let exit = |path: &Path| Command::new(path).current_dir("/").output().unwrap().status.code();
        assert_ne!(exit(&program), Some(3), "not found before");
        let after = bench.path("patched");
        for tag in [Tag::Runpath, Tag::Rpath] {
            patch_to(&program, &after, &set(tag, "/nowhere:$ORIGIN/deep/er")).unwrap();
            assert_kept(&program, &after);
            assert_eq!(exit(&after), Some(3), "{shape:?}");
            patch_to(&after, &after, &set(tag, &format!("{}:$ORIGIN/deep/er", "/no".repeat(400)))).unwrap();
            assert_kept(&program, &after);
            assert_eq!(exit(&after), Some(3), "{shape:?}");
        }
    }
}

#[test]
fn the_search_path_reaches_what_the_library_needs() {
    let bench = Bench::new();
    bench.library("dep/libdep.so", "int dep(void) { return 41; }", &["-Wl,-soname,libdep.so"]);
    let lib =
        bench.library("top.so", "int dep(void); int lib(void) { return dep() + 1; }", &["dep/libdep.so"]);
    assert!(bench.call(&lib, "lib").unwrap_err().contains("libdep.so"));
    patch_in_place(&lib, &set(Tag::Runpath, "$ORIGIN/dep")).unwrap();
    assert_eq!(bench.call(&lib, "lib"), Ok(42));
    patch_in_place(&lib, &Edit::Remove).unwrap();
    assert!(bench.call(&lib, "lib").is_err());
}

#[test]
fn a_full_dynamic_table_moves_into_the_trailing_segment() {
    let bench = Bench::new();
    let lib = bench.library("a.so", ANSWER, &["-Wl,-z,nodynamic-undefined-weak"]);
    // Without spare entries: PT_DYNAMIC ends with its first DT_NULL, as lld writes it.
    let mut bytes = fs_err::read(&lib).unwrap();
    let segments = facts_of(&lib).segments;
    let at = segments.iter().position(|segment| segment.kind == 2).unwrap();
    let dynamic = &segments[at];
    let used = (0..99).find(|i| bytes[dynamic.offset as usize + i * 16..][..8] == [0; 8]).unwrap() as u64 + 1;
    let field = 64 + at * 56 + 32;
    bytes[field..field + 8].copy_from_slice(&(used * 16).to_le_bytes());
    bytes[field + 8..field + 16].copy_from_slice(&(used * 16).to_le_bytes());
    fs_err::write(&lib, bytes).unwrap();
    let after = patched(&bench, &lib, &set(Tag::Rpath, "/opt/x"), How::Appended);
    let moved = facts_of(&after).segments.into_iter().find(|segment| segment.kind == 2).unwrap();
    assert_ne!(moved.offset, dynamic.offset);
    three_growing_runs(&bench, &lib, &after);
}

#[test]
fn data_behind_the_file_is_not_buried() {
    let bench = Bench::new();
    let lib = bench.library("a.so", ANSWER, &["-Wl,-rpath,/opt/payload"]);
    let mut bytes = fs_err::read(&lib).unwrap();
    bytes.extend(b"PAYLOAD that a self-extractor looks for at the end");
    fs_err::write(&lib, &bytes).unwrap();
    let error = patch_to(&lib, &bench.path("o.so"), &set(Tag::Rpath, &"/x".repeat(99))).unwrap_err();
    assert_eq!(error.code(), "E-ELF-009");
    assert!(error.hint().unwrap().contains("in place"));
    patched(&bench, &lib, &set(Tag::Rpath, "/short"), How::InPlace);
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

/// Without section headers, and with symbols right behind the program headers, nothing can make room for one
/// more: the whole table moves, and the kernel has to find it again.
#[test]
fn moved_program_headers_are_found_by_the_kernel_and_the_loader() {
    let bench = Bench::new();
    let default = text_of(&run("ld", &["--verbose"]));
    let default = default.split(&"=".repeat(50)).nth(1).unwrap();
    let line = ".interp         : { *(.interp) }";
    assert!(default.contains(line), "ld's script changed");
    let script =
        default.replacen(line, "", 1).replacen("  .gnu.version ", &format!("  {line}\n  .gnu.version "), 1);
    fs_err::write(bench.path("script"), script).unwrap();
    let source = "#include <stdio.h>\nint zero[9000]; int lib(void) { return 42; }\n\
                  int main(int argc, char **argv) { printf(\"%d\", lib() + zero[argc]); return 0; }";
    let layout = ["-Wl,-T,script", "-Wl,--build-id=none,--hash-style=gnu", "-fcf-protection=none"];
    for kind in [&["-no-pie"][..], &["-shared", "-fPIC"]] {
        let before = bench.cc("moved", source, &[&layout[..], kind].concat());
        let mut bytes = fs_err::read(&before).unwrap();
        bytes[40..48].fill(0); // e_shoff
        bytes[58..64].fill(0); // e_shentsize, e_shnum, e_shstrndx
        fs_err::write(&before, &bytes).unwrap();
        let after = bench.path("after");
        for times in [1, 100, 1000] {
            let from = if times == 1 { &before } else { &after };
            assert_eq!(
                patch_to(from, &after, &set(Tag::Runpath, &"/x".repeat(times))).unwrap(),
                How::Appended
            );
            assert_eq!(loads(&after), loads(&before) + 1);
            assert_ne!(fs_err::read(&after).unwrap()[32..40], bytes[32..40], "{kind:?}: the table has moved");
            if kind == ["-no-pie"] {
                let output = Command::new(&after).output().unwrap();
                assert_eq!(String::from_utf8_lossy(&output.stdout), "42");
            } else {
                assert_eq!(bench.call(&after, "lib"), Ok(42));
            }
        }
    }
}
