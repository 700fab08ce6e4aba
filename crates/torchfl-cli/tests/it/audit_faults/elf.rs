//! What can be seen in each file by itself.

use super::case::{at, forget, headers};
use super::{BUNDLE, Case};

const NEEDED: u64 = 1;
const EXTRA: &str = "int extra(void) { return 0; }";

#[test]
fn a_search_path_of_the_build_machine() {
    let mut case = Case::new();
    case.search("libc10_sim.so", "$ORIGIN:/opt/sim/lib:/home/builder/pytorch/build/lib");
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 0
    AUD-005 warning of torch_fl/lib_sim/libc10_sim.so
      /home/builder/pytorch/build/lib: DT_RPATH /home/builder/pytorch/build/lib names a folder of the machine that built it
    ");
}

#[test]
fn a_search_path_out_of_site_packages() {
    let mut case = Case::new();
    case.search("libc10_sim.so", "$ORIGIN:$ORIGIN/../../../../lib:/opt/sim/lib");
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 0
    AUD-005 warning of torch_fl/lib_sim/libc10_sim.so
      $ORIGIN/../../../../lib: it leads out of site-packages
    ");
}

#[test]
fn a_search_path_that_leads_nowhere() {
    let mut case = Case::new();
    case.search("libc10_sim.so", "$ORIGIN:$ORIGIN/../../acme/lib:/opt/sim/lib");
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 0
    AUD-027 note of torch_fl/lib_sim/libc10_sim.so
      $ORIGIN/../../acme/lib: acme/lib is no folder
    ");
}

#[test]
fn an_executable_stack() {
    let mut case = Case::new();
    case.add("libextra.so", EXTRA, &["-Wl,-z,execstack"]);
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-006 error of torch_fl/lib_sim/libextra.so
      : PT_GNU_STACK is executable
    ");
}

#[test]
fn no_word_about_the_stack() {
    let mut case = Case::new();
    let mut bytes = case.compile("libextra.so", EXTRA, &[]);
    // PT_GNU_STACK becomes PT_NULL.
    let header = headers(&bytes, 0x6474_e551)[0];
    bytes[header..header + 4].fill(0);
    case.put(&format!("{BUNDLE}/libextra.so"), bytes);
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-006 error of torch_fl/lib_sim/libextra.so
      : there is no PT_GNU_STACK, which means an executable stack
    ");
}

#[test]
fn a_segment_that_does_not_map() {
    let mut case = Case::new();
    let mut bytes = case.compile("libextra.so", EXTRA, &[]);
    let header = *headers(&bytes, 1).last().unwrap();
    let address = u64::from_le_bytes(at(&bytes, header + 16)) + 0x1000;
    // Offset and address, congruent modulo 4 KiB, are not so modulo 2 MiB.
    bytes[header + 48..header + 56].copy_from_slice(&0x20_0000_u64.to_le_bytes());
    assert_ne!(address % 0x20_0000, u64::from_le_bytes(at(&bytes, header + 8)) % 0x20_0000);
    case.put(&format!("{BUNDLE}/libextra.so"), bytes);
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-007 error of torch_fl/lib_sim/libextra.so
      PT_LOAD at 0x3e08: offset 0x2e08 and address 0x3e08 differ modulo 0x200000
    ");
}

#[test]
fn a_glibc_newer_than_the_tag() {
    let mut case = Case::new();
    // A C library of tomorrow, to link against.
    case.context.write("map", "GLIBC_2.99 { global: of_tomorrow; };\n");
    let script = format!("-Wl,--version-script={}", case.context.path("map").display());
    let libc = case.compile("libc.so.6", "int of_tomorrow(void) { return 0; }", &["-nostdlib", &script]);
    let path = case.context.path("libc.so.6");
    fs_err::write(&path, libc).unwrap();
    let source = "int of_tomorrow(void); int extra(void) { return of_tomorrow(); }";
    case.add("libextra.so", source, &["-nostdlib", path.to_str().unwrap()]);
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-008 error of torch_fl/lib_sim/libextra.so
      GLIBC_[VERSION]: of_tomorrow needs GLIBC_[VERSION] of libc.so.6; the tag's glibc [VERSION] promises GLIBC_[VERSION] at most
    ");
}

#[test]
fn a_library_of_the_sdk() {
    let mut case = Case::new();
    let runtime = fs_err::read(case.context.path("sk/opt/sim/lib/libsimrt.so.1")).unwrap();
    case.put(&format!("{BUNDLE}/libsimrt.so.1"), runtime);
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-009 error of torch_fl/lib_sim/libsimrt.so.1
      libsimrt.so.1: libsimrt.so.1 belongs to the target machine
    ");
}

/// No manifest of this wheel's names it.
#[test]
fn a_driver_of_another_vendor() {
    let mut case = Case::new();
    case.add("libcuda.so.1", "int cuInit(int flags) { return flags; }", &[]);
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-009 error of torch_fl/lib_sim/libcuda.so.1
      libcuda.so.1: libcuda.so.1 belongs to the target machine
    ");
}

#[test]
fn a_needed_entry_that_was_removed() {
    let mut case = Case::new();
    case.context.write("map", "ACME_1 { global: acme; };\n");
    let script = format!("-Wl,--version-script={}", case.context.path("map").display());
    let acme = case.compile("libacme.so.1", "int acme(void) { return 0; }", &[&script]);
    let path = case.context.path("libacme.so.1");
    fs_err::write(&path, acme).unwrap();
    let source = "__attribute__((weak)) int acme(void); int extra(void) { return acme ? acme() : 0; }";
    let mut bytes = case.compile("libextra.so", source, &["-nostdlib", path.to_str().unwrap()]);
    forget(&mut bytes, NEEDED);
    case.put(&format!("{BUNDLE}/libextra.so"), bytes);
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-012 error of torch_fl/lib_sim/libextra.so
      libacme.so.1: versions are needed of libacme.so.1, which nobody has loaded: the loader aborts the process
    ");
}

#[test]
fn a_library_that_was_cut_short() {
    let mut case = Case::new();
    let bytes = case.compile("libextra.so", EXTRA, &[]);
    case.put(&format!("{BUNDLE}/libextra.so"), &bytes[..bytes.len() / 4]);
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-025 error of torch_fl/lib_sim/libextra.so
      : torch_fl/lib_sim/libextra.so: cut short: a segment ends at offset 0x1109, the file at 0xdc0
    ");
}

#[test]
fn a_library_of_another_machine() {
    let mut case = Case::new();
    let mut bytes = case.compile("libextra.so", EXTRA, &[]);
    // s390x's number in this machine's byte order: nobody's.
    bytes[0x12] = 22;
    bytes[0x13] = 0;
    case.put(&format!("{BUNDLE}/libextra.so"), bytes);
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-026 error of torch_fl/lib_sim/libextra.so
      s390: the file is for s390, manylinux_2_XX_[ARCH] is not
    ");
}
