use crate::audit_faults::{BUNDLE, Case};
use crate::context::Context;

/// What `torchfl why` says of a name in the sample vendor's wheel.
fn why(name: &str, more: &str) -> String {
    let context = Context::new();
    let wheel = context.build("", "dist");
    let wheel = wheel.file_name().unwrap().to_str().unwrap();
    context.run(&format!("why dist/{wheel} {name} --torch {{stock}} {more}"))
}

#[test]
fn a_library_of_the_bundle() {
    insta::assert_snapshot!(why("libc10.so", ""), @r"
    exit: 0
    --- stdout
    torch_fl/lib_sim/libc10.so
      asked for by the bootstrap; local scope
      1. torch_fl/lib_sim/libc10.so (opened by path): taken
    --- stderr
    ");
}

#[test]
fn a_library_of_the_installed_torch() {
    insta::assert_snapshot!(why("libgomp.so.1", ""), @r"
    exit: 0
    --- stdout
    torch/lib/libgomp.so.1
      asked for by the bootstrap; global scope
      1. torch/lib/libgomp.so.1 (opened by path): taken
    --- stderr
    ");
}

#[test]
fn a_library_of_the_sdk() {
    insta::assert_snapshot!(why("libsimrt.so.1", ""), @r"
    exit: 0
    --- stdout
    libsimrt.so.1
      asked for by torch_fl/lib_sim/libc10_sim.so; local scope
      1. torch_fl/lib_sim/libsimrt.so.1 (DT_RPATH of torch_fl/lib_sim/libc10_sim.so): not there
      2. /opt/sim/lib/libsimrt.so.1 (DT_RPATH of torch_fl/lib_sim/libc10_sim.so): no such folder
      3. /lib64/libsimrt.so.1 (default folder): no such folder
      4. /usr/lib64/libsimrt.so.1 (default folder): no such folder
      5. libsimrt.so.1 (the target machine): taken
    --- stderr
    ");
    insta::assert_snapshot!(why("libsimrt.so.1", "--sysroot sk"), @r"
    exit: 0
    --- stdout
    /opt/sim/lib/libsimrt.so.1
      asked for by torch_fl/lib_sim/libc10_sim.so; local scope
      1. torch_fl/lib_sim/libsimrt.so.1 (DT_RPATH of torch_fl/lib_sim/libc10_sim.so): not there
      2. /opt/sim/lib/libsimrt.so.1 (DT_RPATH of torch_fl/lib_sim/libc10_sim.so): taken
    --- stderr
    ");
}

#[test]
fn a_symbol_of_the_fork() {
    insta::assert_snapshot!(why("at_fork_autocast", ""), @r"
    exit: 0
    --- stdout
    at_fork_autocast
      defined by torch_fl/lib_sim/libtorch_cpu.so

    torch_fl/lib_sim/libtorch_sim.so refers to it
      bound to: torch_fl/lib_sim/libtorch_cpu.so, seen
      looked into: python, libc.so.6, libm.so.6, libdl.so.2, libpthread.so.0, librt.so.1, libutil.so.1, torch/lib/libgomp.so.1, torch_fl/lib_sim/libtorch_sim.so, torch_fl/lib_sim/libc10_sim.so, torch_fl/lib_sim/libtorch_cpu.so
    --- stderr
    ");
}

#[test]
fn a_symbol_that_nobody_has_looked_for() {
    insta::assert_snapshot!(why("simrt_launch", ""), @r"
    exit: 0
    --- stdout
    simrt_launch
      defined by nobody

    torch_fl/lib_sim/libc10_sim.so refers to it in version SIMRT_1.1
      bound to: libsimrt.so.1, taken on its word
      looked into: python, libc.so.6, libm.so.6, libdl.so.2, libpthread.so.0, librt.so.1, libutil.so.1, torch/lib/libgomp.so.1, torch_fl/lib_sim/libc10_sim.so, torch_fl/lib_sim/libc10.so, libsimrt.so.1

    torch_fl/lib_sim/libtorch_sim.so refers to it in version SIMRT_1.1
      bound to: libsimrt.so.1, taken on its word
      looked into: python, libc.so.6, libm.so.6, libdl.so.2, libpthread.so.0, librt.so.1, libutil.so.1, torch/lib/libgomp.so.1, torch_fl/lib_sim/libtorch_sim.so, torch_fl/lib_sim/libc10_sim.so, torch_fl/lib_sim/libtorch_cpu.so, torch_fl/lib_sim/libc10.so, libsimrt.so.1
    --- stderr
    ");
    insta::assert_snapshot!(why("simrt_launch", "--sysroot sk"), @r"
    exit: 0
    --- stdout
    simrt_launch
      defined by /opt/sim/lib/libsimrt.so.1

    torch_fl/lib_sim/libc10_sim.so refers to it in version SIMRT_1.1
      bound to: /opt/sim/lib/libsimrt.so.1, seen
      looked into: python, libc.so.6, libm.so.6, libdl.so.2, libpthread.so.0, librt.so.1, libutil.so.1, torch/lib/libgomp.so.1, torch_fl/lib_sim/libc10_sim.so, torch_fl/lib_sim/libc10.so, /opt/sim/lib/libsimrt.so.1

    torch_fl/lib_sim/libtorch_sim.so refers to it in version SIMRT_1.1
      bound to: /opt/sim/lib/libsimrt.so.1, seen
      looked into: python, libc.so.6, libm.so.6, libdl.so.2, libpthread.so.0, librt.so.1, libutil.so.1, torch/lib/libgomp.so.1, torch_fl/lib_sim/libtorch_sim.so, torch_fl/lib_sim/libc10_sim.so, torch_fl/lib_sim/libtorch_cpu.so, torch_fl/lib_sim/libc10.so, /opt/sim/lib/libsimrt.so.1
    --- stderr
    ");
}

#[test]
fn a_name_that_nobody_knows() {
    insta::assert_snapshot!(why("libacme.so.7", ""), @r"
    exit: 2
    --- stdout
    --- stderr
    E-AUD-009

      x libacme.so.7: no library of this name is looked for, and no symbol of it is defined or referred to
      help: give a SONAME or file name, or a symbol's mangled name (`nm -D LIBRARY`)
    ");
}

#[test]
fn a_library_and_a_symbol_that_are_missing() {
    let mut case = Case::new();
    case.device("void _ZN2at3sim5laterEv(void); void torch_sim_later(void) { _ZN2at3sim5laterEv(); }", &[]);
    case.remove(&format!("{BUNDLE}/libshm.so"));
    let wheel = case.pack();
    let words = format!("why dist/{} --torch {{stock}}", wheel.file_name().unwrap().to_str().unwrap());
    insta::assert_snapshot!(case.context.run(&format!("{words} libshm.so")), @r"
    exit: 0
    --- stdout
    torch_fl/lib_sim/libshm.so: not found
      asked for by whoever opens it
      1. torch_fl/lib_sim/libshm.so (opened by path): not there
    libshm.so: not found
      asked for by torch_fl/lib_sim/libtorch_python.so
      1. torch_fl/lib_sim/libshm.so (DT_RPATH of torch_fl/lib_sim/libtorch_python.so): not there
      2. /opt/sim/lib/libshm.so (DT_RPATH of torch_fl/lib_sim/libtorch_python.so): no such folder
      3. /lib64/libshm.so (default folder): no such folder
      4. /usr/lib64/libshm.so (default folder): no such folder
    --- stderr
    ");
    insta::assert_snapshot!(case.context.run(&format!("{words} _ZN2at3sim5laterEv")), @r"
    exit: 0
    --- stdout
    _ZN2at3sim5laterEv
      defined by nobody

    torch_fl/lib_sim/libtorch_sim.so refers to it
      bound to: undefined: the loader stops here
      looked into: python, libc.so.6, libm.so.6, libdl.so.2, libpthread.so.0, librt.so.1, libutil.so.1, torch/lib/libgomp.so.1, torch_fl/lib_sim/libtorch_sim.so, torch_fl/lib_sim/libc10_sim.so, torch_fl/lib_sim/libtorch_cpu.so, torch_fl/lib_sim/libc10.so, libsimrt.so.1, torch_fl/lib_sim/libsimblas-[HASH].so.2
    --- stderr
    ");
}

#[test]
fn json_has_paths_below_site_packages() {
    let context = Context::new();
    let wheel = context.build("", "dist");
    let wheel = wheel.file_name().unwrap().to_str().unwrap();
    let why = context.json(&format!("why dist/{wheel} libsimrt.so.1 --torch {{stock}} --sysroot sk"));
    insta::assert_snapshot!(serde_json::to_string_pretty(&why).unwrap(), @r#"
    {
      "found": [
        {
          "by": "torch_fl/lib_sim/libc10_sim.so",
          "file": "/opt/sim/lib/libsimrt.so.1",
          "global": false,
          "opened_as": "/opt/sim/lib/libsimrt.so.1",
          "steps": [
            {
              "outcome": "absent",
              "path": "torch_fl/lib_sim/libsimrt.so.1",
              "why": {
                "rpath": "torch_fl/lib_sim/libc10_sim.so"
              }
            },
            {
              "outcome": "taken",
              "path": "/opt/sim/lib/libsimrt.so.1",
              "why": {
                "rpath": "torch_fl/lib_sim/libc10_sim.so"
              }
            }
          ]
        }
      ],
      "kind": "library",
      "missing": []
    }
    "#);
}
