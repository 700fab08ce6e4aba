//! What can be said of the process after the import.

use serde_json::json;

use super::case::forget;
use super::{BUNDLE, Case};
use crate::context::Context;

const SONAME: u64 = 14;

#[test]
fn a_second_libc10() {
    let mut case = Case::new();
    let core = case.remove(&format!("{BUNDLE}/libc10.so"));
    case.put(&format!("{BUNDLE}/libc10.so"), core.clone());
    case.put(&format!("{BUNDLE}/libc10_before.so"), core);
    case.open("libc10_before.so", 1);
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-004 error of torch_fl/lib_sim/libc10.so
      libc10.so: torch_fl/lib_sim/libc10_before.so and torch_fl/lib_sim/libc10.so are both mapped
    ");
}

#[test]
fn a_library_that_is_opened_by_name_and_that_the_machine_lacks() {
    let mut case = Case::new();
    case.build(|build| build["audit"]["dlopen"] = json!(["libsimrt.so.1", "libsimprof.so.1"]));
    insta::assert_snapshot!(case.audit("--sysroot sk"), @r"
    exit: 0
    AUD-010 warning of torch_fl/lib_sim
      libsimprof.so.1: the target machine does not have it
    ");
    // Without a machine to look at, the manifest's word stands.
    insta::assert_snapshot!(case.audit(""), @"exit: 0");
}

#[test]
fn kernels_that_nobody_registers() {
    let mut case = Case::new();
    case.device("", &["-DNO_KERNELS"]);
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-013 error of torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl
      SIM: no library that the import opens defines at::sim::add
    ");
}

/// A wheel beside ours, with one library.
fn beside(context: &Context, case: &Case, library: &str) -> String {
    use torchfl_wheel::{Compression, Entry, Metadata, MetadataVersion, Options, WheelFile, WheelName};
    use torchfl_wheel::{Writer as _, ZipWriter};
    let name: WheelName = "acme_math-1.0-py3-none-any.whl".parse().unwrap();
    let info = name.dist_info();
    let folder = context.path("with");
    fs_err::create_dir_all(&folder).unwrap();
    let options = Options { compression: Compression::Fast, threads: 1, ..Options::default() };
    let mut writer = ZipWriter::create(&folder, &name, options).unwrap();
    let metadata = Metadata::new(MetadataVersion::V2_3, "acme_math", &name.version).render().unwrap();
    let wheel = WheelFile::new(&name, "a test", true).render().unwrap();
    let bytes = case.compile(library, "int acme_add(void) { return 0; }", &[]);
    let entries = vec![
        Entry::bytes(format!("acme_math/lib/{library}"), bytes),
        Entry::bytes(format!("{info}/METADATA"), metadata),
        Entry::bytes(format!("{info}/WHEEL"), wheel),
    ];
    writer.add_all(entries).unwrap();
    Box::new(writer).finish().unwrap();
    format!("with/{name}")
}

#[test]
fn a_library_of_a_wheel_that_is_not_required() {
    let mut case = Case::new();
    let wheel = beside(&case.context, &case, "libacme.so.1");
    let path = case.context.path("libacme.so.1");
    fs_err::write(&path, case.compile("libacme.so.1", "int acme_add(void) { return 0; }", &[])).unwrap();
    let search = "-Wl,-rpath,$ORIGIN:/opt/sim/lib:$ORIGIN/../../acme_math/lib";
    let more = "int acme_add(void); int torch_sim_add(void) { return acme_add(); }";
    case.device(more, &[path.to_str().unwrap(), search]);
    insta::assert_snapshot!(case.audit(&format!("--with {wheel}")), @r"
    exit: 0
    AUD-015 warning of torch_fl/lib_sim/libtorch_sim.so
      libacme.so.1: libacme.so.1 is found in acme-math, which is not required
    ");
}

#[test]
fn a_library_that_a_required_wheel_brings_too() {
    let mut case = Case::new();
    case.build(|build| {
        build["provided"] = json!([
            { "dist": "simblas", "dir": "simblas/lib", "libraries": ["libsimblas.so.2"], "requires": "simblas==2.0" }
        ]);
    });
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 0
    AUD-016 warning of torch_fl/lib_sim/libsimblas-[HASH].so.2
      libsimblas-[HASH].so.2: simblas brings libsimblas as well
    ");
}

#[test]
fn two_openmp_runtimes() {
    let mut case = Case::new();
    case.add("libiomp5.so", "int omp_get_num_procs(void) { return 1; }", &[]);
    case.device("", &["{libiomp5.so}"]);
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 0
    AUD-017 warning of torch_fl/lib_sim/libiomp5.so
      libiomp5.so: torch/lib/libgomp.so.1 and torch_fl/lib_sim/libiomp5.so are both mapped
    ");
}

#[test]
fn a_stock_library_in_the_place_of_ours() {
    let mut case = Case::new();
    // Without a SONAME a library that is loaded is not known by name: it is looked for again.
    let source = "const char *c10_build(void) { return 0; } const char *torch_build(void) { return 0; }\n\
                  void c10_register_kernel(void) {} int c10_has_kernel(void) { return 0; }\n\
                  void c10_register_hooks(void) {} void *c10_registered_hooks(void) { return 0; }";
    let mut core = case.compile("libc10.so", source, &[]);
    forget(&mut core, SONAME);
    case.put(&format!("{BUNDLE}/libc10.so"), core);
    case.search("libtorch_cpu.so", "$ORIGIN/../../torch/lib:$ORIGIN:/opt/sim/lib");
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-023 error of torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl
      libc10.so: torch/lib/libc10.so is mapped, torch_fl/lib_sim/libc10.so is planned
    ");
}

#[test]
fn a_library_that_is_opened_before_what_it_needs() {
    let mut case = Case::new();
    // It uses the core without naming it, so it opens only in the scope of the device's library.
    case.add(
        "libsim_early.so",
        "int at_fork_autocast(void); int early(void) { return at_fork_autocast(); }",
        &[],
    );
    case.device("", &["{libsim_early.so}"]);
    insta::assert_snapshot!(case.audit(""), @"exit: 0");
    case.open("libsim_early.so", 1);
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-024 error of torch_fl/lib_sim/libsim_early.so
      libsim_early.so: torch_fl/lib_sim/libsim_early.so: undefined symbol: at_fork_autocast; it comes in with libtorch_sim.so, whose scope it needs
    ");
}

#[test]
fn what_nobody_has_looked_at() {
    let mut case = Case::new();
    insta::assert_snapshot!(case.audit("--require-proof"), @r"
    exit: 1
    AUD-028 error of the import
      ld-linux-[ARCH].so.2: ld-linux-[ARCH].so.2 is taken on the platform tag's word
    AUD-028 error of the import
      libc.so.6: libc.so.6 is taken on the platform tag's word
    AUD-028 error of the import
      libdl.so.2: libdl.so.2 is taken on the platform tag's word
    AUD-028 error of the import
      libm.so.6: libm.so.6 is taken on the platform tag's word
    AUD-028 error of the import
      libpthread.so.0: libpthread.so.0 is taken on the platform tag's word
    AUD-028 error of the import
      librt.so.1: librt.so.1 is taken on the platform tag's word
    AUD-028 error of the import
      libutil.so.1: libutil.so.1 is taken on the platform tag's word
    AUD-028 error of torch_fl/lib_sim/libc10_sim.so
      libsimrt.so.1: libsimrt.so.1 is taken on the manifest's [host] word
    ");
    insta::assert_snapshot!(case.audit("--require-proof --sysroot sk"), @r"
    exit: 1
    AUD-028 error of the import
      ld-linux-[ARCH].so.2: ld-linux-[ARCH].so.2 is taken on the platform tag's word
    AUD-028 error of the import
      libc.so.6: libc.so.6 is taken on the platform tag's word
    AUD-028 error of the import
      libdl.so.2: libdl.so.2 is taken on the platform tag's word
    AUD-028 error of the import
      libm.so.6: libm.so.6 is taken on the platform tag's word
    AUD-028 error of the import
      libpthread.so.0: libpthread.so.0 is taken on the platform tag's word
    AUD-028 error of the import
      librt.so.1: librt.so.1 is taken on the platform tag's word
    AUD-028 error of the import
      libutil.so.1: libutil.so.1 is taken on the platform tag's word
    ");
}
