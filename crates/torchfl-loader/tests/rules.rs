//! The loader's rules by name, each on libraries that the compiler made, as ld.so and as the model have it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers may fail the test")]
#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]

mod common;

use common::bench::Bench;
use common::elf::{Need, Spec};

/// A function `name`, which calls those named behind it.
fn source(name: &str, calls: &[&str]) -> String {
    let join = |before: &str, after: &str| {
        calls.iter().map(|call| [before, call, after].concat()).collect::<String>()
    };
    let (declared, called) = (join("int ", "(void); "), join(" + ", "()"));
    format!("{declared}int {name}(void) {{ return 1{called}; }}")
}

mod search {
    use super::*;

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
        for (tag, expected) in [("--disable-new-dtags", "own/libb.so"), ("--enable-new-dtags", "env/libb.so")]
        {
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
}

mod scope {
    use super::*;

    #[test]
    fn global_libraries_serve_later_ones_and_local_ones_do_not() {
        let mut bench = Bench::plain();
        bench.library("liba.so", &source("a", &[]), &[]);
        bench.library("libb.so", &source("b", &["a"]), &[]);
        bench.open("~/liba.so");
        bench.open("~/libb.so");
        bench.last().fails("libb.so: undefined symbol: a");
        bench.run.steps[0].global = true;
        bench.last().binds("libb.so a liba.so");
    }

    #[test]
    fn opening_again_makes_a_library_global() {
        let mut bench = Bench::plain();
        bench.library("liba.so", &source("a", &[]), &[]);
        bench.library("libb.so", &source("b", &["a"]), &[]);
        bench.open("~/liba.so");
        bench.open("~/liba.so").global = true;
        bench.open("~/libb.so");
        bench.last().binds("libb.so a liba.so");
    }

    #[test]
    fn a_plugin_does_not_see_who_opened_it() {
        let mut bench = Bench::plain();
        bench.library("libhost.so", &source("host", &[]), &[]);
        bench.library("libplugin.so", &source("plugin", &["host"]), &[]);
        bench.open("~/libhost.so");
        bench.open("~/libplugin.so").by = Some("libhost.so".to_owned());
        bench.last().fails("libplugin.so: undefined symbol: host");
        // One that names it in DT_NEEDED does.
        let args = ["libhost.so", "-Wl,-rpath,$ORIGIN"];
        bench.library("libplugin.so", &source("plugin", &["host"]), &args);
        bench.last().maps(&["libhost.so", "libplugin.so"]).binds("libplugin.so host libhost.so");
    }

    #[test]
    fn a_failed_open_leaves_nothing() {
        let mut bench = Bench::plain();
        bench.library("liba.so", &source("a", &[]), &[]);
        bench.library("libdep.so", &source("dep", &["missing"]), &[]);
        bench.library("libb.so", &source("b", &["dep", "a"]), &["libdep.so", "-Wl,-rpath,$ORIGIN"]);
        bench.open("~/libb.so").global = true;
        bench.open("~/liba.so");
        bench.last().maps(&["liba.so"]);
        bench.run.steps[0].now = false;
        bench.last().maps(&["libb.so", "libdep.so", "liba.so"]);
        bench.run.bind_now = true;
        bench.last().maps(&["liba.so"]);
    }

    #[test]
    fn breadth_first_and_the_first_definition_wins() {
        let mut bench = Bench::plain();
        let path = "-Wl,-rpath,$ORIGIN";
        bench.library("libdeep.so", "int f(void) { return 1; } int only(void) { return 1; }", &[]);
        bench.library("libleft.so", &source("left", &["only"]), &["libdeep.so", path]);
        bench.library("libright.so", "int f(void) { return 2; }", &[]);
        let both = ["libleft.so", "libright.so", path];
        bench.library("libtop.so", &source("top", &["f", "left"]), &both);
        bench.open("~/libtop.so");
        let expected = ["libtop.so", "libleft.so", "libright.so", "libdeep.so"];
        bench.last().maps(&expected).binds("libtop.so f libright.so").binds("libleft.so only libdeep.so");
    }

    #[test]
    fn the_program_goes_before_its_libraries() {
        let mut bench = Bench::new();
        bench.library("liba.so", "int f(void) { return 1; } int (*p)(void) = f;", &[]);
        bench.program("int f(void) { return 2; }", &["liba.so", "-Wl,-rpath,$ORIGIN,--export-dynamic"]);
        bench.last().binds("liba.so f program");
        bench.library("libb.so", "int f(void); int (*q)(void) = f;", &[]);
        bench.open("~/libb.so");
        bench.last().binds("libb.so f program");
    }

    #[test]
    fn deepbind_symbolic_and_protected_prefer_the_library_itself() {
        let function = "int f(void) { return 2; } int g(void) { return f(); }";
        let protected =
            "__attribute__((visibility(\"protected\"))) int f(void) { return 2; } int (*p)(void) = f;";
        for (text, args, deepbind, expected) in [
            (function, &[][..], false, "libb.so f liba.so"),
            (function, &[], true, "libb.so f libb.so"),
            (function, &["-Wl,-Bsymbolic"], false, ""),
            (protected, &[], false, "libb.so f libb.so"),
        ] {
            let mut bench = Bench::plain();
            bench.library("liba.so", "int f(void) { return 1; }", &[]);
            bench.library("libb.so", text, args);
            bench.open("~/liba.so").global = true;
            bench.open("~/libb.so").deepbind = deepbind;
            let seen = bench.last();
            seen.maps(&["liba.so", "libb.so"]);
            if !expected.is_empty() {
                seen.binds(expected);
            }
        }
    }

    #[test]
    fn symbolic_is_a_scope_of_its_own() {
        let mut bench = Bench::plain();
        bench.library("liba.so", "int f(void) { return 1; }", &[]);
        // ld binds these itself; what is left are references by name, of which a GOT entry is one.
        let symbolic = Spec {
            flags: 2,
            definitions: vec![function("f")],
            references: vec![reference("f")],
            ..Spec::library("libb.so")
        };
        bench.spec("libb.so", &symbolic);
        bench.open("~/liba.so").global = true;
        bench.open("~/libb.so");
        bench.last().binds("libb.so f libb.so");
        bench.spec("libb.so", &Spec { flags: 0, ..symbolic });
        bench.last().binds("libb.so f liba.so");
    }

    #[test]
    fn a_unique_symbol_is_one_in_the_process() {
        let unique = ".pushsection .bss\\n.globl u\\n.type u, @gnu_unique_object\\n.size u, 4\\nu: .zero 4\\n.popsection";
        let text = format!("__asm__(\"{unique}\"); extern int u; int *p = &u;");
        let mut bench = Bench::plain();
        bench.library("liba.so", &text, &[]);
        bench.library("libb.so", &text, &[]);
        bench.open("~/liba.so");
        bench.open("~/libb.so");
        bench.last().binds("libb.so u liba.so");
    }

    #[test]
    fn lazy_references_wait_and_data_do_not() {
        let mut bench = Bench::plain();
        bench.library("liba.so", &source("a", &["missing"]), &[]);
        bench.library("libb.so", "extern int missing; int *p = &missing;", &[]);
        bench.library("libdeep.so", "extern int missing __attribute__((weak)); int *p = &missing;", &[]);
        bench.open("~/liba.so").now = false;
        bench.open("~/libdeep.so").now = false;
        bench.open("~/libb.so").now = false;
        bench.last().fails("libb.so: undefined symbol: missing");
    }

    #[test]
    fn libraries_use_the_programs_copy_of_a_variable() {
        let library = "int datum = 3; int *own = &datum; int f(void) { return 1; } int (*p)(void) = f;";
        let program = "extern int datum; int f(void); int (*q)(void); int get(void) { q = f; return datum; }";
        let bench = Bench::new();
        bench.library("liba.so", library, &[]);
        bench.program(program, &["-no-pie", "-fno-pic", "liba.so", "-Wl,-rpath,$ORIGIN"]);
        bench
            .last()
            .binds("program datum liba.so")
            .binds("liba.so datum program")
            // The address of a function is that of the program's own stub.
            .binds("liba.so f program");
    }
}

mod versions {
    use super::*;

    const TWO: &str = "int old_f(void) { return 1; } int new_f(void) { return 2; }
        __asm__(\".symver old_f, f@V1\\n.symver new_f, f@@V2\");";
    const MAP: &str = "V1 { global: old_f; }; V2 { global: new_f; } V1;";

    fn map(bench: &Bench, text: &str) -> &'static str {
        fs_err::write(bench.path("map"), text).unwrap();
        "-Wl,--version-script=map"
    }

    #[test]
    fn a_reference_gets_the_version_it_was_linked_to() {
        let mut bench = Bench::plain();
        let script = map(&bench, MAP);
        bench.library("libv.so", TWO, &[script]);
        let user = "int f(void); int (*p)(void) = f;";
        bench.library("libnew.so", user, &["libv.so", "-Wl,-rpath,$ORIGIN"]);
        let user = "__asm__(\".symver old, f@V1\"); int old(void); int (*p)(void) = old;";
        bench.library("libold.so", user, &["libv.so", "-Wl,-rpath,$ORIGIN"]);
        bench.open("~/libnew.so");
        bench.last().binds("libnew.so f@V2 libv.so");
        bench.open("~/libold.so");
        bench.last().binds("libold.so f@V1 libv.so");
    }

    #[test]
    fn a_reference_without_a_version_does_not_see_a_hidden_one() {
        let mut bench = Bench::plain();
        let hidden = "int old_f(void) { return 1; } __asm__(\".symver old_f, f@V3\");";
        let script = map(&bench, "V1 { global: a; }; V2 { global: b; } V1; V3 { local: *; } V2;");
        let others = "int a(void) { return 1; } int b(void) { return 1; }";
        bench.library("libv.so", &[hidden, others].concat(), &[script]);
        bench.library("libuser.so", "int f(void); int (*p)(void) = f;", &[]);
        bench.open("~/libv.so").global = true;
        bench.open("~/libuser.so");
        bench.last().fails("libuser.so: undefined symbol: f");
        // The only version of a name serves it, if that is not hidden.
        bench.library(
            "libv.so",
            "int f(void) { return 1; }",
            &[map(&bench, "V1 {}; V2 {} V1; V3 { global: f; } V2;")],
        );
        bench.last().binds("libuser.so f libv.so");
    }

    #[test]
    fn a_version_that_the_library_lost_stops_the_load() {
        let mut bench = Bench::plain();
        let script = map(&bench, "V1 { global: g; }; V2 { global: f; } V1;");
        let text = "int f(void) { return 1; } int g(void) { return 2; }";
        bench.library("libv.so", text, &[script]);
        bench.library("liba.so", "int f(void); int (*p)(void) = f;", &["libv.so", "-Wl,-rpath,$ORIGIN"]);
        bench.open("~/liba.so");
        bench.last().binds("liba.so f@V2 libv.so");
        bench.library("libv.so", text, &[map(&bench, "V1 { global: f; g; };")]);
        bench.last().fails("libv.so: version `V2' not found (required by liba.so)");
        // The version is there, the symbol is not.
        bench.library("libv.so", "int g(void) { return 2; }", &[map(&bench, "V1 { global: g; }; V2 {} V1;")]);
        bench.last().fails("liba.so: undefined symbol: f, version V2");
    }

    #[test]
    fn a_library_that_lost_all_versions_ends_the_process() {
        let mut bench = Bench::plain();
        bench.library("libv.so", "int f(void) { return 1; }", &[map(&bench, "V1 { global: f; };")]);
        bench.library("liba.so", "int f(void); int (*p)(void) = f;", &["libv.so", "-Wl,-rpath,$ORIGIN"]);
        bench.library("libv.so", "int f(void) { return 1; }", &[]);
        bench.open("~/liba.so");
        bench.last().aborts();
    }

    #[test]
    fn another_library_without_versions_may_serve_a_version() {
        let mut bench = Bench::plain();
        bench.library("libv.so", "int f(void) { return 1; }", &[map(&bench, "V1 { global: f; };")]);
        bench.library("liba.so", "int f(void); int (*p)(void) = f;", &["libv.so", "-Wl,-rpath,$ORIGIN"]);
        bench.library("libfirst.so", "int f(void) { return 2; }", &[]);
        bench.open("~/libfirst.so").global = true;
        bench.open("~/liba.so");
        bench.last().binds("liba.so f@V1 libfirst.so");
    }

    fn needing(file: &str, weak: bool) -> Spec {
        let need = Need { file: file.to_owned(), name: "V9".to_owned(), weak, hidden: false };
        Spec {
            needed: vec!["libv.so".to_owned()],
            runpath: Some("$ORIGIN".to_owned()),
            extra_needs: vec![need],
            ..Spec::library("liba.so")
        }
    }

    #[test]
    fn a_weak_version_may_be_missing() {
        let mut bench = Bench::plain();
        bench.library("libv.so", "int f(void) { return 1; }", &[map(&bench, "V1 { global: f; };")]);
        bench.open("~/liba.so");
        bench.spec("liba.so", &needing("libv.so", true));
        bench.last().maps(&["liba.so", "libv.so"]);
        bench.spec("liba.so", &needing("libv.so", false));
        bench.last().fails("libv.so: version `V9' not found (required by liba.so)");
    }

    #[test]
    fn versions_of_a_file_that_nobody_loads_end_the_process() {
        let mut bench = Bench::plain();
        bench.library("libv.so", "int f(void) { return 1; }", &[]);
        bench.open("~/liba.so");
        bench.spec("liba.so", &needing("libabsent.so", true));
        bench.last().aborts();
    }
}

mod threads {
    use super::*;

    fn text(size: u32) -> String {
        format!(
            "__attribute__((tls_model(\"initial-exec\"))) __thread char t[{size}]; char *f(void) {{ return t; }}"
        )
    }

    #[test]
    fn late_libraries_share_the_static_surplus() {
        let mut bench = Bench::plain();
        for name in ["liba.so", "libb.so"] {
            bench.library(name, &text(1000), &[]);
        }
        bench.open("~/liba.so");
        bench.open("~/libb.so");
        let all = bench.agreed();
        all[1].maps(&["liba.so"]);
        all[2].fails("libb.so: cannot allocate memory in static TLS block");
    }

    #[test]
    fn what_the_program_starts_with_has_a_block_of_its_own() {
        let bench = Bench::new();
        bench.library("liba.so", &text(100_000), &[]);
        bench.program("", &["liba.so", "-Wl,-rpath,$ORIGIN"]);
        bench.last().maps(&["liba.so"]);
    }

    #[test]
    fn general_dynamic_variables_need_no_room() {
        let mut bench = Bench::plain();
        bench.library("liba.so", "__thread char t[100000]; char *f(void) { return t; }", &[]);
        bench.open("~/liba.so");
        bench.last().maps(&["liba.so"]);
    }
}

fn function(name: &str) -> common::elf::Definition {
    use common::elf::{Bind, Definition, Visibility, What};
    let (what, bind, visibility) = (What::Function, Bind::Global, Visibility::Default);
    Definition { name: name.to_owned(), what, bind, visibility, size: 1, version: None }
}

fn reference(name: &str) -> common::elf::Reference {
    use common::elf::{How, Reference};
    Reference { name: name.to_owned(), how: How::Got, weak: false, version: None, size: 0 }
}
