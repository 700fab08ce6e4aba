//! Shims that are refused.

use crate::context::Context;

use super::{cc, dcu_slim, fork, metax};

/// Runs a build that must fail, and must leave nothing.
fn refused((context, words): &(Context, String), more: &str) -> String {
    let text = context.run(&format!("build {words} {more} --quiet -o dist"));
    assert!(!context.path("dist").exists());
    text
}

#[test]
fn a_list_that_lacks_what_the_bundle_wants() {
    let edits = [("symbols = \"computed\"", "symbols = [\"cudart_build\", \"cudart_other\"]")];
    insta::assert_snapshot!(refused(&metax(&edits), ""), @r#"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-035

      x libcudart.so.12 would lack cudart_launch (needed by libtorch_cuda.so)
      help: add them to [[shim]] symbols, or leave it to the build: symbols = "computed"
    "#);
}

#[test]
fn a_compiler_that_is_not_there() {
    insta::assert_snapshot!(refused(&metax(&[]), "--cc acme-cc"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-SHM-004

      x libcudart.so.12 cannot be generated
      |-> the C compiler acme-cc cannot be run
      `-> No such file or directory (os error 2)
      help: install gcc, or name a compiler: --cc PROGRAM
    ");
}

#[test]
fn a_core_gap_without_a_stock_torch() {
    let (context, words) = dcu_slim(&[]);
    let words = words.split(" --front").next().unwrap().to_owned();
    insta::assert_snapshot!(refused(&(context, words), ""), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-033

      x libtorch_core_gap.so is to define what the stock core lacks, and no stock torch is given
      help: give --front the stock torch that the wheel will meet
    ");
}

#[test]
fn a_library_that_the_vendors_torch_has() {
    let edits = [
        ("soname = \"libcudart.so.12\"", "soname = \"libtorch_acme.so\""),
        (
            "\"libgomp.so.1\", \"libcudart.so.12\", \"libc10.so\"",
            "\"libgomp.so.1\", \"libtorch_acme.so\", \"libc10.so\"",
        ),
    ];
    let (context, words) = fork(metax(&edits));
    context.write("fork/torch/lib/libtorch_acme.so", "whatever it is");
    insta::assert_snapshot!(refused(&(context, words), ""), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-034

      x libtorch_acme.so is to be generated, and fork has it: torch/lib/libtorch_acme.so
      help: take the [[shim]] out and bundle that one, or rename the shim
    ");
}

/// A gap with data in it: nobody can make up what it holds.
#[test]
fn data_in_the_gap_is_refused_by_name() {
    let (context, words) = fork(dcu_slim(&[]));
    let lib = "fork/torch/lib";
    context.write(
        "data.c",
        "int acme_table[4] = {1}; __thread int acme_local = 2; int acme_function(void) { return 1; }",
    );
    cc(&context, &format!("-shared -fPIC data.c -o {lib}/libtorch_cpu.so -Wl,-soname,libtorch_cpu.so"));
    let source = "extern int acme_table[]; extern __thread int acme_local; int acme_function(void);\n\
                  int use(void) { return acme_table[0] + acme_local + acme_function(); }";
    context.write("device.c", source);
    cc(
        &context,
        &format!(
            "-shared -fPIC device.c -o {lib}/libtorch_hip.so {lib}/libtorch_cpu.so -Wl,-soname,libtorch_hip.so"
        ),
    );
    insta::assert_snapshot!(refused(&(context, words), ""), @r#"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-036

      x libtorch_core_gap.so cannot stand in for data: acme_local (needed by libtorch_hip.so), acme_table (needed by libtorch_hip.so)
      help: a shim has functions only; `swap = "core"`, or a library that the vendor builds
    "#);
}

/// A script of this text, as the compiler `./mine`.
fn compiler(context: &Context, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    context.write("mine", text);
    fs_err::set_permissions(context.path("mine"), std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_compiler_that_writes_nothing() {
    let (context, words) = metax(&[]);
    let asked = "case $1 in --version | -dumpmachine | -Wl,--version) exec cc \"$@\";; esac";
    compiler(&context, &format!("#!/bin/sh\n{asked}\n"));
    let text = refused(&(context, words), "--cc ./mine");
    assert!(text.contains("E-SHM-007") && text.contains("wrote no library"), "{text}");
}

#[test]
fn a_compiler_is_found_from_where_it_was_named() {
    let (context, words) = metax(&[]);
    compiler(&context, "#!/bin/sh\nexec cc \"$@\"\n");
    context.stdout(&format!("build {words} --cc ./mine -o dist"));
}

/// make and CI systems set variables to nothing.
#[test]
fn an_empty_cc_is_none() {
    let (context, words) = metax(&[]);
    let output = context.command(&format!("build {words} -o dist")).env("CC", "").output().unwrap();
    assert!(output.status.success(), "{}", context.show(&output));
}
