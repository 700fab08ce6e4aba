//! Other tools run over our output: binutils, and patchelf where `TORCH_FL_PATCHELF` names one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers may fail the test")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{Bench, assert_kept, run, search_path, set, text_of};
use torchfl_elf::{Edit, How, Tag, patch_to};

const SOURCE: &str = "#include <math.h>\nint global = 7; __thread int t = 35; double m(double x) { return cos(x); }\n\
                      int lib(void) { return global + t; }";

/// Fixtures with a path of our making: over the old one, and in a trailing segment.
fn fixtures(bench: &Bench) -> Vec<(std::path::PathBuf, &'static str)> {
    let mut all = Vec::new();
    for (name, args) in [
        ("plain.so", &["-lm"][..]),
        ("rpath.so", &["-lm", "-Wl,-rpath,/opt/some/where/that/is/long"]),
        ("now.so", &["-lm", "-Wl,-z,now,-z,noseparate-code,--hash-style=both"]),
        ("bare.so", &["-lm", "-Wl,--build-id=none,-z,max-page-size=0x10000"]),
    ] {
        let lib = bench.library(name, SOURCE, args);
        for value in ["$ORIGIN/x", "/a/path/that/is/quite/a/lot/longer/than/the/one/that/was/there/before"] {
            let after = bench.path(&format!("{}-{name}", value.len()));
            patch_to(&lib, &after, &set(Tag::Runpath, value)).unwrap();
            all.push((after, value));
        }
    }
    all
}

#[test]
fn strip_and_objcopy_keep_the_path_and_the_library() {
    let bench = Bench::new();
    for (lib, value) in fixtures(&bench) {
        for tool in [&["strip"][..], &["strip", "-g"], &["strip", "--strip-unneeded"], &["objcopy"]] {
            let out = bench.path("out.so");
            let output = Command::new(tool[0])
                .args(&tool[1..])
                .arg(&lib)
                .args((tool[0] == "strip").then_some("-o"))
                .arg(&out)
                .output()
                .unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{tool:?}: {}", text_of(&output));
            assert_eq!(search_path(&out), Some((Tag::Runpath, value.to_owned())), "{tool:?}");
            assert_kept(&lib, &out);
            assert_eq!(bench.call(&out, "lib"), Ok(42), "{tool:?}");
            // And once more over their output.
            let again = bench.path("again.so");
            patch_to(&out, &again, &set(Tag::Rpath, &"/more".repeat(60))).unwrap();
            assert_kept(&lib, &again);
            assert_eq!(bench.call(&again, "lib"), Ok(42), "{tool:?}");
        }
    }
}

#[test]
fn readelf_shows_the_path_without_complaint() {
    let bench = Bench::new();
    for (lib, value) in fixtures(&bench) {
        let output = run("readelf", &["-aW", lib.to_str().unwrap()]);
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(text_of(&output).contains(&format!("Library runpath: [{value}]")));
    }
}

#[test]
fn patchelf_agrees() {
    let Some(patchelf) = std::env::var_os("TORCH_FL_PATCHELF") else {
        eprintln!("NOT RUN: patchelf as an oracle; set TORCH_FL_PATCHELF to a patchelf of 0.18 or later");
        return;
    };
    let bench = Bench::new();
    let patchelf = |args: &[&str], file: &Path| {
        let output = Command::new(&patchelf).args(args).arg(file).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", text_of(&output));
        text_of(&output).trim_end().to_owned()
    };
    for (lib, value) in fixtures(&bench) {
        assert_eq!(patchelf(&["--print-rpath"], &lib), value);
        let out = bench.path("out.so");
        for theirs in ["/t", &"/theirs".repeat(90)] {
            fs_err::copy(&lib, &out).unwrap();
            patchelf(&["--set-rpath", theirs], &out);
            assert_eq!(search_path(&out), Some((Tag::Runpath, theirs.to_owned())));
            assert_eq!(bench.call(&out, "lib"), Ok(42));
            // Ours over theirs over ours: their trailing segment is taken up.
            let again = bench.path("again.so");
            let ours = "/ours".repeat(300);
            assert_eq!(patch_to(&out, &again, &set(Tag::Rpath, &ours)).unwrap(), How::Appended);
            let untouched =
                lib.with_file_name(lib.file_name().unwrap().to_str().unwrap().split_once('-').unwrap().1);
            // patchelf may add a segment of its own; ours takes it up.
            let bound = common::loads(&out).max(common::loads(&untouched) + 1);
            assert!(common::loads(&again) <= bound);
            if theirs.len() > 100 {
                let grown = fs_err::metadata(&again).unwrap().len() - fs_err::metadata(&out).unwrap().len();
                assert!(grown <= ours.len() as u64, "the string table was not copied again: {grown}");
            }
            assert_eq!(patchelf(&["--print-rpath"], &again), ours);
            assert_eq!(bench.call(&again, "lib"), Ok(42));
            patch_to(&again, &again, &Edit::Remove).unwrap();
            assert_eq!(patchelf(&["--print-rpath"], &again), "");
            assert_eq!(bench.call(&again, "lib"), Ok(42));
        }
    }
}
