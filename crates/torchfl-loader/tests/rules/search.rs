//! Where libraries are looked for, and by what they are known.

use crate::common::bench::Bench;
use crate::source;

/// one/liba.so has a search path and needs one/libb.so, which needs deep/libdeep.so and has none.
fn chain(tag: &str) -> Bench {
    let mut bench = Bench::plain();
    bench.library("deep/libdeep.so", &source("c", &[]), &[]);
    bench.library("one/libb.so", &source("b", &["c"]), &["deep/libdeep.so"]);
    let path = format!("-Wl,-rpath,$ORIGIN:$ORIGIN/../deep,{tag},--allow-shlib-undefined");
    bench.library("one/liba.so", &source("a", &["b"]), &["one/libb.so", &path]);
    bench.open("~/one/liba.so");
    bench
}

#[test]
fn rpath_is_inherited() {
    chain("--disable-new-dtags").last().maps(&["one/liba.so", "one/libb.so", "one/../deep/libdeep.so"]);
}

#[test]
fn runpath_is_not_inherited() {
    chain("--enable-new-dtags").last().fails("libdeep.so: cannot open shared object file");
}

#[test]
fn a_runpath_makes_the_loader_ignore_all_rpaths() {
    let mut bench = Bench::new();
    bench.library("deep/libdeep.so", &source("c", &[]), &[]);
    let own = ["deep/libdeep.so", "-Wl,-rpath,/nowhere,--enable-new-dtags"];
    bench.library("one/libb.so", &source("b", &["c"]), &own);
    bench.program("", &["-Wl,-rpath,$ORIGIN/deep,--disable-new-dtags"]);
    bench.open("~/one/libb.so");
    bench.last().fails("libdeep.so: cannot open shared object file");
    // Without one, the program's is the last.
    bench.library("one/libb.so", &source("b", &["c"]), &["deep/libdeep.so"]);
    bench.last().maps(&["one/libb.so", "deep/libdeep.so"]);
}

#[test]
fn library_path_goes_behind_rpath_and_before_runpath() {
    for (tag, expected) in [("--disable-new-dtags", "own/libb.so"), ("--enable-new-dtags", "env/libb.so")] {
        let mut bench = Bench::plain();
        bench.library("own/libb.so", &source("b", &[]), &[]);
        bench.library("env/libb.so", &source("b", &[]), &[]);
        let path = format!("-Wl,-rpath,$ORIGIN/own,{tag}");
        bench.library("liba.so", &source("a", &["b"]), &["own/libb.so", &path]);
        bench.run.library_path = bench.path("env").to_str().unwrap().to_owned();
        bench.open("~/liba.so");
        bench.last().maps(&["liba.so", expected]);
    }
}

#[test]
fn library_path_takes_semicolons_and_tokens_of_the_program() {
    let mut bench = Bench::plain();
    bench.library("env/libb.so", &source("b", &[]), &[]);
    bench.library("deep/liba.so", &source("a", &["b"]), &["env/libb.so"]);
    bench.run.library_path = "/nowhere;$ORIGIN/env".to_owned();
    bench.open("~/deep/liba.so");
    bench.last().maps(&["deep/liba.so", "env/libb.so"]);
}

#[test]
fn the_callers_path_counts_for_what_it_opens() {
    let mut bench = Bench::plain();
    bench.library("deep/libb.so", &source("b", &[]), &[]);
    bench.library("liba.so", &source("a", &[]), &["-Wl,-rpath,$ORIGIN/deep,--enable-new-dtags"]);
    bench.open("~/liba.so");
    bench.open("libb.so").by = Some("liba.so".to_owned());
    bench.last().maps(&["liba.so", "deep/libb.so"]);
    bench.run.steps[1].by = None;
    bench.last().fails("libb.so: cannot open shared object file");
}

#[test]
fn origin_is_the_folder_of_the_path_that_was_opened() {
    let mut bench = Bench::plain();
    for folder in ["store", "seen", "other"] {
        bench.library(&format!("{folder}/libdep.so"), &source("dep", &[]), &[]);
    }
    let path = "-Wl,-rpath,$ORIGIN,--enable-new-dtags";
    bench.library("store/liba.so", &source("a", &["dep"]), &["store/libdep.so", path]);
    bench.link("seen/liba.so", "../store/liba.so");
    bench.open("~/seen/liba.so");
    bench.last().maps(&["seen/liba.so", "seen/libdep.so"]);
    bench.link("folder", "store");
    bench.run.steps.clear();
    bench.open("~/folder/liba.so");
    bench.last().maps(&["folder/liba.so", "folder/libdep.so"]);
}

#[test]
fn a_programs_origin_is_that_of_the_file() {
    let mut bench = Bench::new();
    bench.library("bin/libdep.so", &source("dep", &[]), &[]);
    bench.program("", &["bin/libdep.so", "-Wl,-rpath,$ORIGIN,--enable-new-dtags"]);
    fs_err::rename(bench.path("program"), bench.path("bin/program")).unwrap();
    bench.link("program", "bin/program");
    // Linked by its path, as it has no SONAME of its own to be found by.
    bench.last().maps(&["bin/libdep.so"]);
    bench.run.program = "bin/program".to_owned();
    bench.last().maps(&["bin/libdep.so"]);
}

#[test]
fn one_file_is_one_library_whatever_its_names() {
    let mut bench = Bench::plain();
    bench.library("liba.so", &source("a", &[]), &[]);
    fs_err::hard_link(bench.path("liba.so"), bench.path("hard/libother.so")).unwrap();
    bench.link("soft/libmore.so", "../liba.so");
    for name in ["~/liba.so", "~/hard/libother.so", "~/soft/libmore.so", "~/soft/../liba.so"] {
        bench.open(name);
    }
    bench.last().maps(&["liba.so"]);
}

#[test]
fn a_library_is_known_by_every_name_it_was_found_by() {
    let mut bench = Bench::plain();
    bench.library("one/liba.so", &source("a", &[]), &[]);
    // Another file's SONAME goes into DT_NEEDED, and another name of the first file answers to it.
    bench.library("stub/libother.so", &source("a", &[]), &[]);
    fs_err::hard_link(bench.path("one/liba.so"), bench.path("two/libother.so")).unwrap();
    let path = "-Wl,-rpath,$ORIGIN/two";
    bench.library("libfirst.so", &source("first", &["a"]), &["stub/libother.so", path]);
    bench.library("libsecond.so", &source("second", &["a"]), &["stub/libother.so"]);
    bench.open("~/one/liba.so");
    bench.open("~/libsecond.so");
    bench.last().fails("libother.so: cannot open shared object file");
    bench.run.steps.pop();
    bench.open("~/libfirst.so");
    bench.open("~/libsecond.so");
    bench.last().maps(&["one/liba.so", "libfirst.so", "libsecond.so"]);
}

#[test]
fn a_loaded_soname_answers_for_another_file() {
    let mut bench = Bench::plain();
    bench.library("one/libx.so", &source("x", &[]), &[]);
    bench.library("two/libx.so", &source("x", &[]), &[]);
    bench.library("liba.so", &source("a", &["x"]), &["two/libx.so", "-Wl,-rpath,$ORIGIN/two"]);
    bench.open("~/one/libx.so");
    bench.open("~/liba.so");
    bench.last().maps(&["one/libx.so", "liba.so"]).binds("liba.so x one/libx.so");
    bench.open("~/two/libx.so");
    bench.last().maps(&["one/libx.so", "liba.so", "two/libx.so"]);
}

#[test]
fn files_of_another_width_or_machine_are_passed_over_and_a_text_file_is_not() {
    for (at, value, found) in [(4, 1, true), (18, 183, true), (0, b'/', false)] {
        let mut bench = Bench::plain();
        bench.library("good/libb.so", &source("b", &[]), &[]);
        let mut bytes = fs_err::read(bench.path("good/libb.so")).unwrap();
        bytes[at] = value;
        fs_err::write(bench.path("bad/libb.so"), bytes).unwrap();
        let path = "-Wl,-rpath,$ORIGIN/bad:$ORIGIN/good";
        bench.library("liba.so", &source("a", &["b"]), &["good/libb.so", path]);
        bench.open("~/liba.so");
        if found {
            bench.last().maps(&["liba.so", "good/libb.so"]);
        } else {
            bench.last().fails("bad/libb.so: invalid ELF header");
        }
    }
}

#[test]
fn tokens_relative_and_empty_elements_and_hwcaps() {
    let lib = "lib/x86_64-linux-gnu";
    for (path, at, found) in [
        ("$ORIGIN/../$LIB", format!("one/{lib}"), None),
        ("$ORIGIN/$LIB", format!("one/{lib}"), Some(format!("one/{lib}/libb.so"))),
        ("${ORIGIN}/${LIB}/", format!("one/{lib}"), Some(format!("one/{lib}/libb.so"))),
        ("two", "two".to_owned(), Some("two/libb.so".to_owned())),
        ("./two//", "two".to_owned(), Some("./two/libb.so".to_owned())),
        ("/nowhere:", ".".to_owned(), Some("libb.so".to_owned())),
        ("$ORIGINAL", "oneAL".to_owned(), None),
        ("${ORIGIN", "one".to_owned(), None),
        (
            "$ORIGIN",
            "one/glibc-hwcaps/x86-64-v2".to_owned(),
            Some("one/glibc-hwcaps/x86-64-v2/libb.so".to_owned()),
        ),
    ] {
        let mut bench = Bench::plain();
        bench.library(&format!("{at}/libb.so"), &source("b", &[]), &[]);
        let b = format!("{at}/libb.so");
        bench.library("one/liba.so", &source("a", &["b"]), &[&b, &format!("-Wl,-rpath,{path}")]);
        bench.open("~/one/liba.so");
        match found {
            Some(found) => drop(bench.last().maps(&["one/liba.so", &found])),
            None => bench.last().fails("libb.so: cannot open shared object file"),
        }
    }
}

#[test]
fn nodeflib_leaves_out_the_default_folders_and_what_the_cache_has_of_them() {
    let mut bench = Bench::plain();
    bench.library("liba.so", &source("a", &[]), &["-lm"]);
    bench.library("libb.so", &source("b", &[]), &["-lm", "-Wl,-z,nodefaultlib"]);
    bench.open("~/liba.so");
    bench.last().maps(&["liba.so"]);
    bench.run.steps.clear();
    bench.open("~/libb.so");
    bench.last().fails("libm.so.6: cannot open shared object file");
}

#[test]
fn a_preloaded_library_goes_first_and_a_missing_one_is_ignored() {
    let mut bench = Bench::new();
    bench.library("liba.so", &source("f", &[]), &[]);
    bench.library("libfirst.so", &source("f", &[]), &[]);
    let user = "int f(void); int (*p)(void) = f;";
    bench.program(user, &["liba.so", "-Wl,-rpath,$ORIGIN"]);
    bench.last().maps(&["liba.so"]).binds("program f liba.so");
    bench.run.preload =
        vec!["libmissing.so".to_owned(), bench.path("libfirst.so").to_str().unwrap().to_owned()];
    bench.last().maps(&["libfirst.so", "liba.so"]).binds("program f libfirst.so");
}
