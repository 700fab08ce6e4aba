//! The owners of `triton/` in what a resolver answers. Here it is a script; `tests/boot/test_closure.py` asks uv.

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

const WHEELS_TORCH: &str = "\
torch==2.13.0+cpu
    # via torch-fl
";

#[test]
fn the_vendors_own() {
    let rest = "triton==3.6.0+sim1\n    # via\n    #   -c c.txt\n    #   puller";
    let context = case(&format!("puller==1.0\n{WHEELS_TORCH}{WHEEL}\n{rest}"), 0);
    insta::assert_snapshot!(closure(&context, "--with puller"), @r"
    exit: 0
    --- stdout
    torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl: triton/ is of triton 3.6.0+sim1 alone
      puller -> triton

    of puller 1.0, torch 2.13.0+cpu, torch-fl 2.13.0+sim1.0, triton 3.6.0+sim1
    --- stderr
    ");
    let asked = fs_err::read_to_string(context.path("asked")).unwrap();
    assert!(asked.starts_with("torch_fl @ file:///") && asked.ends_with(".whl\npuller"), "{asked}");
}

#[test]
fn the_stock_one_beside_the_vendors() {
    let torch = "torch==2.13.0\n    # via torch-fl\n";
    let triton = "triton==3.7.1\n    # via\n    #   puller\n    #   torch";
    let answer = format!("flagtree==0.6.1+sim3\npuller==1.0\n{torch}{WHEEL}\n{triton}");
    insta::assert_snapshot!(closure(&case(&answer, 0), ""), @r"
    exit: 1
    --- stdout
    torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl: 3 errors

    errors:
      AUD-021 Triton of the wrong supplier
        torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl
          triton 3.7.1 brings triton/, which the vendor supplies: puller -> triton; torch-fl -> torch -> triton
        fix: install with the constraints beside the wheel (pip -c, uv --constraints), or ask for triton==3.6.0+sim1 yourself
      AUD-029 Torch of another release or build
        torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl
          torch 2.13.0 requires triton: it is built for an accelerator, and the wheel stands on the CPU build
        fix: add PyTorch's index of CPU wheels, and ask for torch==2.13.0+cpu
      AUD-032 Two owners of triton/
        torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl
          triton/: flagtree 0.6.1+sim3 (flagtree) and triton 3.7.1 (puller -> triton; torch-fl -> torch -> triton)
        fix: leave one of them out: the constraints beside the wheel shut those that are not this platform's

    of flagtree 0.6.1+sim3, puller 1.0, torch 2.13.0, torch-fl 2.13.0+sim1.0, triton 3.7.1
    --- stderr
    ");
}

#[test]
fn nobody() {
    insta::assert_snapshot!(closure(&case(&format!("{WHEELS_TORCH}{WHEEL}"), 0), ""), @r"
    exit: 1
    --- stdout
    torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl: 1 error

    errors:
      AUD-031 Nobody brings Triton
        torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl
          no distribution brings triton/
        fix: install triton==3.6.0+sim1 too, from the vendor's index

    of torch 2.13.0+cpu, torch-fl 2.13.0+sim1.0
    --- stderr
    ");
}

#[test]
fn no_solution() {
    let answer = "\
warning: The requested Python version 3.12 is not available
error: No solution found when resolving dependencies
  cause: Because you require torch==2.13.0+cpu, we can
         conclude that your requirements are unsatisfiable.";
    insta::assert_snapshot!(closure(&case(answer, 1), ""), @r"
    exit: 1
    --- stdout
    torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl: 1 error

    errors:
      AUD-033 No set of distributions fits
        torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl
          resolution: No solution found when resolving dependencies cause: Because you require torch==2.13.0+cpu, we can conclude that your requirements are unsatisfiable.
        fix: the reason names who asks for what: add the index that has it, or leave out who asks
    --- stderr
    ");
}

#[test]
fn a_resolver_that_fails() {
    insta::assert_snapshot!(closure(&case("error: unexpected argument", 2), ""), @r"
    exit: 2
    --- stdout
    --- stderr
    E-CLI-015

      x the resolver failed: unexpected argument
      help: it does not come to an answer: check the options, and whether the index is there
    ");
}

#[test]
fn an_answer_that_is_none() {
    insta::assert_snapshot!(closure(&case("Hello", 0), ""), @r"
    exit: 2
    --- stdout
    --- stderr
    E-AUD-015

      x the resolver's answer has a line that cannot be read: `Hello`
      help: try another release of uv; 0.13.9 is understood
    ");
}

#[test]
fn no_resolver() {
    let context = case("", 0);
    fs_err::remove_file(context.path("uv")).unwrap();
    insta::assert_snapshot!(closure(&context, ""), @r"
    exit: 2
    --- stdout
    --- stderr
    E-CLI-014

      x cannot start the resolver ./uv
      `-> No such file or directory (os error 2)
      help: install uv (`pip install uv`), or name it: --uv
    ");
}

#[test]
fn a_wheel_of_somebody_else() {
    let context = case("puller==1.0", 0);
    insta::assert_snapshot!(context.run("closure {stock} --uv ./uv"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-AUD-014

      x sk/stock/torch-2.13.0+cpu.skeleton-cp3XX-cp3XX-linux_[ARCH].whl: no wheel of torch_fl: it holds no torch_fl/build.json
      help: name a wheel that `torchfl build` wrote
    ");
}

#[test]
fn an_answer_without_the_wheel() {
    insta::assert_snapshot!(closure(&case("", 0), ""), @r"
    exit: 2
    --- stdout
    --- stderr
    E-AUD-016

      x the resolver's answer does not hold torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl, which it was asked for
      help: try another release of uv; 0.13.9 is understood
    ");
}

/// No list knows the name, and no folder was given: the answer says where the wheel lies.
#[test]
fn an_owner_that_was_asked_for_as_a_file() {
    let context = case("", 0);
    context.write("other/readme", "");
    let wheel = context.path("other/fork_compiler-1.0-py3-none-any.whl");
    let mut zip = zip::ZipWriter::new(fs_err::File::create(&wheel).unwrap().into_parts().0);
    zip.start_file("triton/__init__.py", zip::write::SimpleFileOptions::default()).unwrap();
    zip.finish().unwrap();
    let answer = format!("fork-compiler @ file://{}\n{WHEELS_TORCH}{WHEEL}", wheel.display());
    context.write("answer", &answer);
    context.write("uv", "#!/bin/sh\ncat > asked\ncat answer\n");
    let text = closure(&context, "");
    assert!(text.contains("fork-compiler 1.0 brings triton/, which the vendor supplies"), "{text}");
}
