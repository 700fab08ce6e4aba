//! Which definition a reference is bound to.

use crate::common::bench::Bench;
use crate::common::elf::{Bind, Definition, Spec, What};
use crate::{function, reference, source};

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
    let unique =
        ".pushsection .bss\\n.globl u\\n.type u, @gnu_unique_object\\n.size u, 4\\nu: .zero 4\\n.popsection";
    let text = format!("__asm__(\"{unique}\"); extern int u; int *p = &u;");
    let mut bench = Bench::plain();
    bench.library("liba.so", &text, &[]);
    bench.library("libb.so", &text, &[]);
    bench.open("~/liba.so");
    bench.open("~/libb.so");
    bench.last().binds("libb.so u liba.so");
}

#[test]
fn a_failed_open_takes_its_unique_symbols_with_it() {
    let unique = |name: &str, needs: &[&str]| {
        let one = Definition { what: What::Object, bind: Bind::Unique, ..function("u") };
        let needs = ["u"].iter().chain(needs).map(|name| reference(name));
        Spec { definitions: vec![one], references: needs.collect(), ..Spec::library(name) }
    };
    let mut bench = Bench::plain();
    bench.spec("liba.so", &unique("liba.so", &["missing"]));
    bench.spec("libb.so", &unique("libb.so", &[]));
    bench.spec("libc_.so", &unique("libc_.so", &[]));
    bench.spec("libplain.so", &Spec::library("libplain.so"));
    bench.open("~/liba.so");
    bench.open("~/libplain.so");
    bench.open("~/libb.so");
    bench.open("~/libc_.so");
    let all = bench.agreed();
    all[1].fails("liba.so: undefined symbol: missing");
    all[3].binds("libb.so u libb.so");
    all[4].binds("libc_.so u libb.so");
}

#[test]
fn an_older_library_sees_what_came_with_one_that_needs_it() {
    let mut bench = Bench::plain();
    bench.library("libold.so", &source("old", &[]), &[]);
    bench.library("libnew.so", &source("new", &["old"]), &["libold.so", "-Wl,-rpath,$ORIGIN"]);
    // Lazy references of the older one may be bound to the new one from now on; both tell the scopes.
    bench.open("~/libold.so").now = false;
    bench.open("~/libnew.so").now = false;
    let [.., before, after] = &bench.agreed()[..] else { panic!() };
    assert!(!before.looks("libold.so", "libnew.so") && after.looks("libold.so", "libnew.so"));
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

#[test]
fn a_call_passes_over_the_programs_stub() {
    let mut bench = Bench::new();
    bench.library("liba.so", &source("f", &[]), &[]);
    bench.library("libb.so", "int f(void); int g(void) { return f(); } int (*p)(void) = f;", &[]);
    let program = "int f(void); int (*q)(void); void get(void) { q = f; }";
    bench.program(program, &["-no-pie", "-fno-pic", "liba.so", "-Wl,-rpath,$ORIGIN"]);
    bench.open("~/libb.so");
    bench.last().binds("libb.so f liba.so").binds("libb.so f program");
}
