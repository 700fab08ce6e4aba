//! What can be seen in the wheel as a distribution.

use serde_json::json;

use super::{BUNDLE, Case};

#[test]
fn a_requirement_without_a_reason() {
    let mut case = Case::new();
    case.require("requests>=2");
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 0
    AUD-014 warning of torch_fl-2.13.0+sim1.0.skeleton.dist-info/METADATA
      requests: nothing in the plan asks for requests
    ");
}

#[test]
fn no_licences() {
    let mut case = Case::new();
    case.without_licences();
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-018 error of torch_fl-2.13.0+sim1.0.skeleton.dist-info/licenses/torch/
      torch: no licence file of torch is in the wheel
    ");
}

#[test]
fn a_record_with_another_size() {
    let mut case = Case::new();
    let text = case.remove("torch_fl/__main__.py");
    case.put("torch_fl/__main__.py", [&text[..], b"# a patch by hand\n"].concat());
    let path = case.pack_as_it_is();
    insta::assert_snapshot!(case.judge(&path, ""), @r"
    exit: 1
    AUD-019 error of torch_fl-2.13.0+sim1.0.skeleton.dist-info/RECORD
      torch_fl/__main__.py: 2119 bytes are listed, the file has 2137
    ");
}

#[test]
fn a_record_with_another_hash() {
    let mut case = Case::new();
    let path = format!("{BUNDLE}/libtorch.so");
    let mut bytes = case.remove(&path);
    // The build's identity: same size, same behaviour.
    let at = bytes.windows(4).rposition(|window| window == b"GNU\0").unwrap() + 4;
    bytes[at] ^= 1;
    case.put(&path, bytes);
    let path = case.pack_as_it_is();
    insta::assert_snapshot!(case.judge(&path, ""), @"exit: 0");
    insta::assert_snapshot!(case.judge(&path, "--hashes"), @r"
    exit: 1
    AUD-019 error of torch_fl-2.13.0+sim1.0.skeleton.dist-info/RECORD
      torch_fl/lib_sim/libtorch.so: sha256 [SHA256] is listed, the file has [SHA256]
    ");
}

#[test]
fn a_file_that_is_not_in_record_and_one_that_is_in_it_alone() {
    let mut case = Case::new();
    let bytes = case.remove("torch_fl/__main__.py");
    case.put("torch_fl/main.py", bytes);
    let path = case.pack_as_it_is();
    insta::assert_snapshot!(case.judge(&path, ""), @r"
    exit: 1
    AUD-019 error of torch_fl-2.13.0+sim1.0.skeleton.dist-info/RECORD
      torch_fl/__main__.py: the file is listed and not there
    AUD-019 error of torch_fl-2.13.0+sim1.0.skeleton.dist-info/RECORD
      torch_fl/main.py: the file is not listed
    ");
}

#[test]
fn a_file_in_torchs_folder() {
    let mut case = Case::new();
    case.put("torch/backends/sim.py", "");
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-020 error of torch/backends/sim.py
      torch: torch/ belongs to torch
    ");
}

#[test]
fn another_suppliers_triton() {
    let mut case = Case::new();
    case.build(|build| {
        build["audit"]["triton"] =
            json!({ "supplier": "vendor", "owners": [{ "name": "simtriton", "local": null }] });
    });
    insta::assert_snapshot!(case.audit(""), @"exit: 0");
    case.require("triton==3.4.0");
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-021 error of torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl
      triton: the wheel requires triton, which the vendor supplies
    ");
}

#[test]
fn a_torch_of_another_release() {
    let mut case = Case::new();
    case.build(|build| build["torch"]["release"] = json!("2.12.1"));
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 1
    AUD-029 error of torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl
      2.13.0+cpu.skeleton: it belongs to torch 2.12.1, and torch 2.13.0+cpu.skeleton was given
    ");
}

/// Stripped, or edited, or lost after the build: the import refuses it before anything is opened.
#[test]
fn libraries_that_are_not_those_of_the_build() {
    let mut case = Case::new();
    case.search("libc10_sim.so", &format!("$ORIGIN:/opt/sim/lib:{}", "/opt/sim/lib:".repeat(400)));
    case.remove(&case.find("libsimblas"));
    let wheel = case.pack_with_sizes_as_they_are();
    let sizes = regex::Regex::new(r"\b\d{5}\b").unwrap();
    insta::assert_snapshot!(sizes.replace_all(&case.judge(&wheel, ""), "[SIZE]"), @r"
    exit: 1
    AUD-011 error of torch_fl/lib_sim/libtorch_cpu.so
      libsimblas-[HASH].so.2: libsimblas-[HASH].so.2 is in DT_NEEDED; looked in torch_fl/lib_sim (DT_RPATH of torch_fl/lib_sim/libtorch_cpu.so), /opt/sim/lib (DT_RPATH of torch_fl/lib_sim/libtorch_cpu.so), /lib64 (default), /usr/lib64 (default)
    AUD-030 error of torch_fl/lib_sim/libc10_sim.so
      libc10_sim.so: build.json says [SIZE] bytes, the file has [SIZE]
    AUD-030 error of torch_fl/lib_sim/libsimblas-[HASH].so.2
      libsimblas-[HASH].so.2: build.json names it, and it is not there
    ");
}
