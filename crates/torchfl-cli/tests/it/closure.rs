//! The owners of `triton/` in what a resolver answers. Here it is a script; tests/boot/test_closure.py asks uv.

use std::os::unix::fs::PermissionsExt as _;

use crate::context::Context;

const VENDORS: &str = r#"[comm]
library = "none"

[triton]
supplier = "vendor"
owners = [{ name = "triton", local = "sim", version = "3.6.0+sim1" }, { name = "flagtree", local = "sim" }]
"#;

/// A wheel for which the vendor supplies Triton, and a resolver that answers like this.
fn case(answer: &str, code: u8) -> Context {
    let context = Context::new();
    context.manifest(&[("[comm]\nlibrary = \"none\"\n", VENDORS)]);
    context.stdout("build --manifest m.toml --torch {torch} --front {stock} -o dist");
    let wheel = crate::context::wheel_in(&context.path("dist"));
    fs_err::rename(&wheel, context.path("w.whl").with_file_name(wheel.file_name().unwrap())).unwrap();
    let stream = if code == 0 { 1 } else { 2 };
    context.write(
        "uv",
        &format!("#!/bin/sh\ncat > asked\ncat >&{stream} <<'END'\n{answer}\nEND\nexit {code}\n"),
    );
    let mode = std::fs::Permissions::from_mode(0o755);
    fs_err::set_permissions(context.path("uv"), mode).unwrap();
    context
}

fn closure(context: &Context, more: &str) -> String {
    let wheel = crate::context::wheel_in(&context.path(""));
    let wheel = wheel.file_name().unwrap().to_str().unwrap();
    context.run(&format!("closure {wheel} --uv ./uv {more}"))
}

const WHEEL: &str = "torch-fl @ file:///d/torch_fl-2.13.0%2Bsim1.0-cp311-cp311-manylinux_2_28_x86_64.whl";

#[test]
fn the_vendors_own() {
    let answer = format!(
        "puller==1.0\ntorch==2.13.0+cpu\n    # via torch-fl\n{WHEEL}\ntriton==3.6.0+sim1\n    # via\n    #   -c c.txt\n    #   puller"
    );
    let context = case(&answer, 0);
    insta::assert_snapshot!(closure(&context, "--with puller"), @"");
    let asked = fs_err::read_to_string(context.path("asked")).unwrap();
    assert!(
        asked.starts_with("torch_fl @ file:///")
            && asked.ends_with("%2Bsim1.0-cp311-cp311-manylinux_2_28_x86_64.whl\npuller")
            || asked.ends_with("\npuller"),
        "{asked}"
    );
}

#[test]
fn the_stock_one_beside_the_vendors() {
    let answer = format!(
        "flagtree==0.6.1+sim3\ntorch==2.13.0\n    # via torch-fl\n{WHEEL}\ntriton==3.7.1\n    # via\n    #   puller\n    #   torch"
    );
    insta::assert_snapshot!(closure(&case(&answer, 0), ""), @"");
}

#[test]
fn nobody() {
    insta::assert_snapshot!(closure(&case(&format!("torch==2.13.0+cpu\n    # via torch-fl\n{WHEEL}"), 0), ""), @"");
}

#[test]
fn no_solution() {
    let answer = "error: No solution found when resolving dependencies\n  cause: Because you require torch==2.13.0+cpu, we can\n         conclude that your requirements are unsatisfiable.";
    insta::assert_snapshot!(closure(&case(answer, 1), ""), @"");
}

#[test]
fn a_resolver_that_fails() {
    insta::assert_snapshot!(closure(&case("error: unexpected argument", 2), ""), @"");
}

#[test]
fn an_answer_that_is_none() {
    insta::assert_snapshot!(closure(&case("Hello", 0), ""), @"");
}

#[test]
fn no_resolver() {
    insta::assert_snapshot!(closure(&case("", 0), ""), @"");
}

#[test]
fn a_wheel_of_somebody_else() {
    let context = case("puller==1.0", 0);
    insta::assert_snapshot!(context.run("closure {stock} --uv ./uv"), @"");
}
