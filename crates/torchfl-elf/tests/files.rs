//! Patches of files on disk: what is refused, what is kept, and what an interruption leaves.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers may fail the test")]

mod common;

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Bench, search_path, set};
use torchfl_elf::{Edit, Error, How, Recovered, Tag, mapped, patch_in_place, patch_to, recover};

fn library(bench: &Bench) -> PathBuf {
    bench.library("a.so", "int lib(void) { return 42; }", &["-Wl,-rpath,/opt/some/where,--enable-new-dtags"])
}

/// What is in the folder, the compiler's leftovers aside.
fn names(bench: &Bench) -> Vec<String> {
    let entries = fs_err::read_dir(bench.dir.path()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != "source.c" && name != "loader");
    names.sort();
    names
}

#[test]
fn in_place_keeps_inode_mode_and_neighbours() {
    let bench = Bench::new();
    let lib = library(&bench);
    fs_err::set_permissions(&lib, PermissionsExt::from_mode(0o640)).unwrap();
    let before = fs_err::metadata(&lib).unwrap();
    assert_eq!(patch_in_place(&lib, &set(Tag::Runpath, "/x")).unwrap(), How::InPlace);
    assert_eq!(patch_in_place(&lib, &set(Tag::Runpath, &"/x".repeat(99))).unwrap(), How::Appended);
    let after = fs_err::metadata(&lib).unwrap();
    assert_eq!((before.ino(), before.mode()), (after.ino(), after.mode()));
    assert_eq!(names(&bench), ["a.so"]);
}

#[test]
fn hard_linked_files_are_refused_and_o_unshares() {
    let bench = Bench::new();
    let lib = library(&bench);
    let other = bench.path("cache.so");
    fs_err::hard_link(&lib, &other).unwrap();
    let bytes = fs_err::read(&lib).unwrap();
    let error = patch_in_place(&lib, &set(Tag::Runpath, "/x")).unwrap_err();
    assert!(matches!(error, Error::HardLinked { links: 2, .. }), "{error}");
    assert!(error.hint().unwrap().contains("-o"));
    assert_eq!(fs_err::read(&other).unwrap(), bytes);
    // Nothing to do is no reason to refuse.
    assert_eq!(patch_in_place(&lib, &set(Tag::Runpath, "/opt/some/where")).unwrap(), How::Unchanged);
    assert_eq!(patch_to(&lib, &lib, &set(Tag::Runpath, "/opt/some/where")).unwrap(), How::Unchanged);
    assert_eq!(fs_err::metadata(&lib).unwrap().nlink(), 2);
    patch_to(&lib, &lib, &set(Tag::Runpath, "/x")).unwrap();
    assert_eq!(fs_err::read(&other).unwrap(), bytes);
    assert_eq!(search_path(&lib), Some((Tag::Runpath, "/x".to_owned())));
    assert_eq!(fs_err::metadata(&lib).unwrap().nlink(), 1);
}

#[test]
fn symbolic_links_are_refused_and_o_follows_them() {
    let bench = Bench::new();
    let lib = library(&bench);
    let link = bench.path("link.so");
    symlink("a.so", &link).unwrap();
    let error = patch_in_place(&link, &set(Tag::Runpath, "/x")).unwrap_err();
    assert_eq!(error.code(), "E-ELF-013");
    assert!(error.to_string().contains("a.so"), "{error}");
    let out = bench.path("out.so");
    symlink("a.so", &out).unwrap();
    patch_to(&link, &out, &set(Tag::Runpath, "/x")).unwrap();
    assert!(!out.is_symlink(), "the link itself is replaced");
    assert_eq!(search_path(&lib), Some((Tag::Runpath, "/opt/some/where".to_owned())));
    assert_eq!(patch_in_place(bench.dir.path(), &Edit::Remove).unwrap_err().code(), "E-ELF-013");
}

#[test]
fn a_library_in_use_is_refused_and_o_leaves_its_user_alone() {
    let bench = Bench::new();
    let lib = library(&bench);
    let source = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        int main(int c, char **v) { if (!dlopen(v[1], RTLD_NOW)) return 1; puts("up"); fflush(stdout); getchar(); return 0; }
    "#;
    let holder = bench.cc("holder", source, &["-ldl"]);
    let mut child =
        Command::new(&holder).arg(&lib).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut up = [0; 3];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut up).unwrap();
    assert_eq!(mapped(&lib).unwrap().pids, [child.id()]);
    let library_in_use = patch_in_place(&lib, &set(Tag::Runpath, "/x")).unwrap_err();
    let program_in_use = patch_in_place(&holder, &set(Tag::Runpath, "/x")).unwrap_err();
    patch_to(&lib, &lib, &set(Tag::Runpath, "/x")).unwrap();
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    for error in [library_in_use, program_in_use] {
        assert!(matches!(&error, Error::Mapped { pids, .. } if *pids == [child.id()]), "{error:?}");
    }
    assert!(mapped(&lib).unwrap().pids.is_empty());
    assert_eq!(patch_in_place(&holder, &set(Tag::Runpath, "/x")).unwrap(), How::Appended);
}

#[test]
fn a_locked_file_is_busy() {
    let bench = Bench::new();
    let lib = library(&bench);
    let file: std::fs::File = fs_err::File::open(&lib).unwrap().into();
    file.lock().unwrap();
    assert_eq!(patch_in_place(&lib, &Edit::Remove).unwrap_err().code(), "E-ELF-014");
}

#[test]
fn a_new_file_has_the_mode_and_nothing_else_appears() {
    let bench = Bench::new();
    let lib = library(&bench);
    fs_err::set_permissions(&lib, PermissionsExt::from_mode(0o4751)).unwrap();
    let out = bench.path("b.so");
    patch_to(&lib, &out, &set(Tag::Rpath, "/x")).unwrap();
    assert_eq!(fs_err::metadata(&out).unwrap().mode() & 0o7777, 0o751, "without the set-user-id bit");
    assert_eq!(names(&bench), ["a.so", "b.so"]);
    fs_err::write(bench.path("c.so"), "not elf").unwrap();
    assert!(patch_to(&bench.path("c.so"), &bench.path("d.so"), &Edit::Remove).is_err());
    assert!(patch_to(&lib, &bench.path("no/such/folder.so"), &Edit::Remove).is_err());
    assert_eq!(names(&bench), ["a.so", "b.so", "c.so"]);
}

#[test]
fn a_foreign_journal_is_refused() {
    let bench = Bench::new();
    let lib = library(&bench);
    let bytes = fs_err::read(&lib).unwrap();
    fs_err::write(bench.path(".a.so.torchfl-journal"), "something else").unwrap();
    for error in [
        patch_in_place(&lib, &Edit::Remove).unwrap_err(),
        patch_to(&lib, &bench.path("b.so"), &Edit::Remove).unwrap_err(),
        recover(&lib).unwrap_err(),
    ] {
        assert_eq!(error.code(), "E-ELF-015");
    }
    assert_eq!(fs_err::read(&lib).unwrap(), bytes);
}

const CHILD: &str = "TORCHFL_ELF_TEST_PATCH_FOR_EVER";

/// Not a test of its own: with the variable set it patches for ever, until killed.
#[test]
fn patch_for_ever() {
    let Some(path) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    for turn in 0.. {
        let value = ["/a", &"/b".repeat(70), &"/c".repeat(700)][turn % 3].to_owned();
        patch_in_place(&path, &set(Tag::Rpath, &value)).unwrap();
    }
}

#[test]
fn a_killed_patch_is_undone_or_done() {
    let bench = Bench::new();
    let lib = library(&bench);
    let journal = bench.path(".a.so.torchfl-journal");
    let mut met = 0;
    for turn in 0..40 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "patch_for_ever"])
            .env(CHILD, &lib)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // The machine may be busy: the clock starts when the child is at work.
        while !journal.exists() {
            assert!(child.try_wait().unwrap().is_none(), "the child ended");
            std::thread::sleep(Duration::from_micros(50));
        }
        std::thread::sleep(Duration::from_micros(turn * 400));
        child.kill().unwrap();
        child.wait().unwrap();
        met += u32::from(recover(&lib).unwrap() != Recovered::Nothing);
        let (_, value) = search_path(&lib).unwrap();
        assert!(["/opt/some/where", "/a", &"/b".repeat(70), &"/c".repeat(700)].contains(&value.as_str()));
        assert_eq!(bench.call(&lib, "lib"), Ok(42));
    }
    assert!(met > 0, "no interruption met a journal in 40 turns");
    assert_no_leftovers(&lib);
}

fn assert_no_leftovers(lib: &Path) {
    patch_in_place(lib, &set(Tag::Rpath, "/last")).unwrap();
    let hidden = fs_err::read_dir(lib.parent().unwrap()).unwrap();
    let hidden: Vec<_> = hidden.map(|entry| entry.unwrap().file_name()).collect();
    assert!(!hidden.iter().any(|name| name.to_string_lossy().starts_with('.')), "{hidden:?}");
}
