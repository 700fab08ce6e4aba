//! Which symbols a forwarder has to define, from what the fork's libraries say.

use crate::context::Context;

use super::{cc, fork, metax};

/// Compiles the fork's device library anew: linked against a runtime with these `versions`, and what else is named.
fn device(context: &Context, source: &str, versions: &str, more: &str) {
    context.write(
        "runtime.c",
        "int cudart_new(void) { return 0; } int cudart_maybe(void) { return 0; } int cudart_table[2];",
    );
    context.write("device.c", source);
    let script = if versions.is_empty() { "" } else { "-Wl,--version-script=runtime.map" };
    context.write("runtime.map", versions);
    cc(context, &format!("-shared -fPIC runtime.c -o libcudart.so.12 -Wl,-soname,libcudart.so.12 {script}"));
    context.write("blas.c", "int mcblas_new(void) { return 0; }");
    cc(context, "-shared -fPIC blas.c -o libmcblas.so.1 -Wl,-soname,libmcblas.so.1");
    let path = "fork/torch/lib/libtorch_cuda.so";
    cc(
        context,
        &format!(
            "-shared -fPIC device.c -o {path} -Wl,-soname,libtorch_cuda.so -Wl,--no-as-needed libcudart.so.12 {more}"
        ),
    );
}

const DEVICE: &str = "
    #include <stdio.h>
    int cudart_new(void), c10_uses(void);
    __attribute__((weak)) int cudart_maybe(void);
    int use(void) { return cudart_new() + c10_uses() + puts(\"\") + (cudart_maybe ? cudart_maybe() : 0); }";

/// Without versions it does not show whose a symbol is: it is the shim's if nobody else can have it.
#[test]
fn a_fork_that_was_linked_against_a_runtime_without_versions() {
    let (context, words) = fork(metax(&[]));
    device(&context, DEVICE, "", "fork/torch/lib/libc10.so");
    let shims = context.json(&format!("shim {words}"));
    assert_eq!(shims[0]["symbols"], serde_json::json!(["cudart_new"]));

    device(
        &context,
        &DEVICE
            .replace("+ puts", "+ mcblas_new() + puts")
            .replace("int cudart_new", "int mcblas_new(void), cudart_new"),
        "",
        "libmcblas.so.1 fork/torch/lib/libc10.so",
    );
    let output = context.output(&format!("shim {words} -o shims"));
    insta::assert_snapshot!(context.show(&output), @r"
    exit: 0
    --- stdout
      libcudart.so.12: versioned-forwarder, 0 symbols of version libcudart.so.12, forwarded to libsymbol_cu.so
        shims/libcudart.so.12.c
        shims/libcudart.so.12.map
        shims/libcudart.so.12
    --- stderr
    warning: libcudart.so.12: libtorch_cuda.so needs it under no version, and 2 of its symbols may be of it, or of libmcblas.so.1, which nobody has looked into: name those of libcudart.so.12 in [[shim]] symbols
    ");
}

/// Whoever refers to a weak symbol asks whether it is there: a shim that had it would answer yes for the SDK.
#[test]
fn a_symbol_that_may_be_absent_is_left_out_and_data_is_refused() {
    let (context, words) = fork(metax(&[]));
    let versions = "libcudart.so.12 { global: *; };";
    device(&context, DEVICE, versions, "fork/torch/lib/libc10.so");
    let shims = context.json(&format!("shim {words}"));
    assert_eq!(shims[0]["symbols"], serde_json::json!(["cudart_new"]));

    let source = format!("{DEVICE} extern int cudart_table[]; int *table(void) {{ return cudart_table; }}");
    device(&context, &source, versions, "fork/torch/lib/libc10.so");
    insta::assert_snapshot!(context.run(&format!("shim {words}")), @r#"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-036

      x libcudart.so.12 cannot stand in for data: cudart_table (needed by libtorch_cuda.so)
      help: a shim has functions only; `swap = "core"`, or a library that the vendor builds
    "#);
}

#[test]
fn a_shim_that_nobody_wants_and_a_target_that_no_audit_looks_for() {
    let (context, words) = fork(metax(&[("dlopen = [\"libsymbol_cu.so\"]", "dlopen = []")]));
    device(&context, "int nothing(void) { return 0; }", "libcudart.so.12 { global: *; };", "");
    insta::assert_snapshot!(context.run(&format!("shim {words} -o shims")), @r"
    exit: 0
    --- stdout
      libcudart.so.12: versioned-forwarder, 0 symbols of version libcudart.so.12, forwarded to libsymbol_cu.so
        shims/libcudart.so.12.c
        shims/libcudart.so.12.map
        shims/libcudart.so.12
    --- stderr
    warning: libcudart.so.12: nothing in the bundle wants a symbol of it
    warning: libcudart.so.12 opens libsymbol_cu.so: no audit looks for it, as [host] dlopen does not name it
    ");
}
