//! Files that no patch may touch, and paths that are no files.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers may fail the test")]

mod common;

use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::process::Command;

use common::{Bench, facts_of, run, set};
use torchfl_elf::{Edit, FileAt, Tag, patch_in_place, patch_to, recover};

/// A path too long for any room in the file.
fn long() -> Edit {
    set(Tag::Runpath, &"/a/long/folder".repeat(9))
}

fn fifo(bench: &Bench, name: &str) -> PathBuf {
    let path = bench.path(name);
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

fn refused(bench: &Bench, file: &PathBuf) {
    let before = fs_err::read(file).unwrap();
    for edit in [long(), set(Tag::Rpath, ""), set(Tag::Runpath, "/x")] {
        assert_eq!(patch_in_place(file, &edit).unwrap_err().code(), "E-ELF-007");
        assert_eq!(patch_to(file, &bench.path("out"), &edit).unwrap_err().code(), "E-ELF-007");
    }
    assert_eq!(fs_err::read(file).unwrap(), before);
    assert!(!bench.path("out").exists());
}

#[test]
fn a_static_pie_is_refused() {
    let bench = Bench::new();
    let file = bench.cc("static", "int main(void) { return 7; }", &["-static-pie"]);
    refused(&bench, &file);
    assert_eq!(run(file.to_str().unwrap(), &[]).status.code(), Some(7));
}

#[test]
fn a_dynamic_loader_is_refused() {
    let bench = Bench::new();
    let program = bench.cc("program", "int main(void) { return 0; }", &[]);
    let loader = bench.path("copy.so");
    fs_err::copy(facts_of(&program).interpreter.unwrap(), &loader).unwrap();
    refused(&bench, &loader);
    assert!(run(loader.to_str().unwrap(), &[program.to_str().unwrap()]).status.success());
    // By either sign alone.
    let bare = ["-nostdlib", "-Wl,-soname,ld-linux-other.so.2"];
    refused(&bench, &bench.library("named.so", "int f(void) { return 0; }", &bare));
    refused(&bench, &bench.library("unnamed.so", "int _r_debug; int f(void) { return 0; }", &["-nostdlib"]));
}

#[test]
fn a_library_that_needs_nothing_is_no_loader() {
    let bench = Bench::new();
    let file = bench.library("a.so", "int f(void) { return 3; }", &["-nostdlib"]);
    patch_in_place(&file, &long()).unwrap();
    assert_eq!(bench.call(&file, "f"), Ok(3));
}

#[test]
fn an_output_that_is_no_file_is_not_replaced() {
    let bench = Bench::new();
    let file = bench.library("a.so", "int f(void) { return 3; }", &[]);
    let pipe = fifo(&bench, "pipe");
    let link = bench.path("link");
    std::os::unix::fs::symlink("pipe", &link).unwrap();
    let dir = bench.path("dir");
    fs_err::create_dir(&dir).unwrap();
    for edit in [long(), Edit::Remove] {
        for out in [&pipe, &link, &dir] {
            let error = patch_to(&file, out, &edit).unwrap_err();
            assert_eq!(error.code(), "E-ELF-013");
            assert!(!error.hint().unwrap().contains("link"), "{error}");
        }
    }
    assert!(fs_err::metadata(&pipe).unwrap().file_type().is_fifo());
    assert!(link.is_symlink() && dir.is_dir());
    // A link that leads nowhere is replaced, as one to a file is.
    std::os::unix::fs::symlink("absent", bench.path("dangling")).unwrap();
    patch_to(&file, &bench.path("dangling"), &long()).unwrap();
    assert!(!bench.path("dangling").is_symlink());
}

#[test]
fn a_fifo_is_refused_before_it_is_opened() {
    let bench = Bench::new();
    let pipe = fifo(&bench, "pipe");
    assert!(FileAt::open(&pipe).unwrap_err().to_string().contains("a FIFO"));
    for error in [patch_in_place(&pipe, &long()), patch_to(&pipe, &bench.path("out"), &long())] {
        let error = error.unwrap_err();
        assert_eq!(error.code(), "E-ELF-013");
        assert_eq!(error.hint().unwrap(), "name a library or a program");
    }
    // In the place of a journal.
    let file = bench.library("a.so", "int f(void) { return 3; }", &[]);
    fifo(&bench, ".a.so.torchfl-journal");
    assert_eq!(recover(&file).unwrap_err().code(), "E-ELF-015");
    assert_eq!(patch_in_place(&file, &long()).unwrap_err().code(), "E-ELF-015");
    fs_err::write(bench.path(".pipe.torchfl-journal"), "").unwrap();
    assert_eq!(recover(&pipe).unwrap_err().code(), "E-ELF-013");
}
