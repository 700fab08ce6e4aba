//! Symbol versions, and libraries that were built again since.

use crate::common::bench::Bench;
use crate::common::elf::{Need, Reference, Spec};
use crate::{function, reference};

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
fn a_definition_without_a_version_serves_one_unless_the_reference_forbids_it() {
    for hidden in [false, true] {
        let mut bench = Bench::plain();
        let one = Spec {
            definitions: vec![function("f")],
            versions: vec!["V9".to_owned()],
            ..Spec::library("libv.so")
        };
        bench.spec("libv.so", &one);
        let need = Need { file: "libv.so".to_owned(), name: "V9".to_owned(), weak: false, hidden };
        let user = Spec { extra_needs: vec![], ..needing("libv.so", false) };
        let version = Some(need);
        bench.spec("liba.so", &Spec { references: vec![Reference { version, ..reference("f") }], ..user });
        bench.open("~/liba.so");
        if hidden {
            bench.last().fails("liba.so: undefined symbol: f, version V9");
        } else {
            bench.last().binds("liba.so f@V9 libv.so");
        }
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
