//! What the loader would stop at.

use super::{BUNDLE, Case};

/// The case of the field: built for one generation of chips only, and the call of the other one's kernel left in.
#[test]
fn a_kernel_behind_a_run_time_if_that_was_never_compiled_in() {
    let mut case = Case::new();
    case.device(
        "void _ZN2at3sim18flash_attn_sm100_fERKNS_6TensorE(void *);\n\
         void _ZN2at3sim17flash_attn_sm80_fERKNS_6TensorE(void *tensor) { *(int *)tensor = 80; }\n\
         void torch_sim_attention(void *tensor, int generation) {\n\
           if (generation >= 100) _ZN2at3sim18flash_attn_sm100_fERKNS_6TensorE(tensor);\n\
           else _ZN2at3sim17flash_attn_sm80_fERKNS_6TensorE(tensor);\n\
         }",
        &[],
    );
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-002 error of torch_fl/lib_sim/libtorch_sim.so
      _ZN2at3sim18flash_attn_sm100_fERKNS_6TensorE: torch_fl/lib_sim/libtorch_sim.so refers to _ZN2at3sim18flash_attn_sm100_fERKNS_6TensorE, which no library in its scope defines
    ");
}

/// In nobody's namespace: the SDK could define it, until somebody looks at the SDK.
#[test]
fn a_kernel_that_was_never_compiled_in_and_that_the_sdk_could_have() {
    let mut case = Case::new();
    let more = "void launch_sm100(void);\n\
                void torch_sim_launch(int generation) { if (generation >= 100) launch_sm100(); }";
    case.device(more, &[]);
    insta::assert_snapshot!(case.audit(""), @"exit: 0");
    insta::assert_snapshot!(case.audit("--sysroot sk"), @r"
    exit: 1
    AUD-002 error of torch_fl/lib_sim/libtorch_sim.so
      launch_sm100: torch_fl/lib_sim/libtorch_sim.so refers to launch_sm100, which no library in its scope defines
    ");
}

#[test]
fn a_library_that_was_left_out() {
    let mut case = Case::new();
    case.remove(&format!("{BUNDLE}/libc10_sim.so"));
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-001 error of torch_fl/lib_sim/libc10_sim.so
      libc10_sim.so: torch_fl/lib_sim/libc10_sim.so is opened by the bootstrap; it is not there
    AUD-001 error of torch_fl/lib_sim/libtorch_python.so
      libc10_sim.so: libc10_sim.so is in DT_NEEDED; looked in torch_fl/lib_sim (DT_RPATH of torch_fl/lib_sim/libtorch_python.so), /opt/sim/lib (DT_RPATH of torch_fl/lib_sim/libtorch_python.so), /lib64 (default), /usr/lib64 (default)
    AUD-001 error of torch_fl/lib_sim/libtorch_sim.so
      libc10_sim.so: libc10_sim.so is in DT_NEEDED; looked in torch_fl/lib_sim (DT_RPATH of torch_fl/lib_sim/libtorch_sim.so), /opt/sim/lib (DT_RPATH of torch_fl/lib_sim/libtorch_sim.so), /lib64 (default), /usr/lib64 (default)
    ");
}

#[test]
fn a_library_that_nobody_brings() {
    let mut case = Case::new();
    let nowhere = case.compile("libnowhere.so.1", "int nowhere(void) { return 0; }", &[]);
    let path = case.context.path("libnowhere.so.1");
    fs_err::write(&path, nowhere).unwrap();
    case.add("libextra.so", "int extra(void) { return 0; }", &[path.to_str().unwrap()]);
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-001 error of torch_fl/lib_sim/libextra.so
      libnowhere.so.1: libnowhere.so.1 is in DT_NEEDED; looked in torch_fl/lib_sim (DT_RPATH of torch_fl/lib_sim/libextra.so), /opt/sim/lib (DT_RPATH of torch_fl/lib_sim/libextra.so), /lib64 (default), /usr/lib64 (default)
    ");
}

#[test]
fn a_version_that_the_library_lost() {
    let mut case = Case::new();
    let blas = case.find("libsimblas-");
    let name = blas.rsplit('/').next().unwrap().to_owned();
    let own = name.replace("lib", "").replace('-', "_").replace(".so.2", "");
    case.context.write("map", &format!("SIMBLAS_1 {{ global: {own}_build; torch_build; }};\n"));
    let source = format!(
        "const char *torch_build(void) {{ return 0; }} const char *{own}_build(void) {{ return 0; }}"
    );
    let script = format!("-Wl,--version-script={}", case.context.path("map").display());
    case.add(&name, &source, &[&script]);
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-003 error of torch_fl/lib_sim/libtorch_cpu.so
      SIMBLAS_0: torch_fl/lib_sim/libsimblas-[HASH].so.2 does not define version SIMBLAS_0
    ");
}

#[test]
fn a_library_that_lost_all_its_versions() {
    let mut case = Case::new();
    let blas = case.find("libsimblas-");
    let name = blas.rsplit('/').next().unwrap().to_owned();
    let own = name.replace("lib", "").replace('-', "_").replace(".so.2", "");
    let source = format!(
        "const char *torch_build(void) {{ return 0; }} const char *{own}_build(void) {{ return 0; }}"
    );
    // Without the C library there are no versions of others either.
    case.add(&name, &source, &["-nostdlib"]);
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-003 error of torch_fl/lib_sim/libtorch_cpu.so
      simblas_297cf1f8_build: torch_fl/lib_sim/libtorch_cpu.so: simblas_297cf1f8_build is wanted in version SIMBLAS_0 of torch_fl/lib_sim/libsimblas-[HASH].so.2, which has no versions at all
    ");
}

#[test]
fn a_hash_named_library_that_was_left_out() {
    let mut case = Case::new();
    case.remove(&case.find("libsimblas-"));
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-011 error of torch_fl/lib_sim/libtorch_cpu.so
      libsimblas-[HASH].so.2: libsimblas-[HASH].so.2 is in DT_NEEDED; looked in torch_fl/lib_sim (DT_RPATH of torch_fl/lib_sim/libtorch_cpu.so), /opt/sim/lib (DT_RPATH of torch_fl/lib_sim/libtorch_cpu.so), /lib64 (default), /usr/lib64 (default)
    ");
}

#[test]
fn a_hash_named_library_that_nobody_needs() {
    let mut case = Case::new();
    case.add("libsimfft-1a2b3c4d.so.3", "int fft(void) { return 0; }", &[]);
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 0
    AUD-011 warning of torch_fl/lib_sim/libsimfft-1a2b3c4d.so.3
      libsimfft-1a2b3c4d.so.3: no file of the wheel needs it under this name
    ");
}

#[test]
fn thread_local_variables_that_do_not_fit() {
    let mut case = Case::new();
    case.device(
        "static __thread char state[4000] __attribute__((tls_model(\"initial-exec\")));\n\
         char *torch_sim_state(int at) { return &state[at]; }",
        &[],
    );
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-022 error of torch_fl/lib_sim/libtorch_sim.so
      : needs 4000 bytes of the static TLS block, 1664 are left
    ");
}
