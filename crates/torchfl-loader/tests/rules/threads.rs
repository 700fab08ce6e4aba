//! Thread-local variables and the static TLS block.

use crate::common::bench::Bench;

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
