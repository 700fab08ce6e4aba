//! Builds that are refused before anything is written.

use crate::context::{Context, names, wheel_in};

/// Runs a build that must fail, and must leave nothing.
fn refused(context: &Context, words: &str) -> String {
    let before = names(&context.path(""));
    let text = context.run(&format!("build {words} --quiet -o dist"));
    assert!(text.starts_with("exit: 2\n--- stdout\n--- stderr\n"), "{text}");
    assert_eq!(names(&context.path("")), before);
    text
}

/// The same with an edited manifest.
fn edited(edits: &[(&str, &str)]) -> String {
    let context = Context::new();
    context.manifest(edits);
    refused(&context, "--manifest m.toml --torch {torch} --front {stock}")
}

#[test]
fn a_torch_of_another_release() {
    insta::assert_snapshot!(edited(&[("release = \"2.13.0\"", "release = \"2.12.0\"")]), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-012

      x sk/vendor/torch-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-linux_[ARCH].whl is torch 2.13.0+sim1.0.skeleton, and sim is for 2.12.0
      help: bring the vendor's torch 2.12.0, or a manifest for this one (`torchfl vendor add --from`)
    ");
}

#[test]
fn a_torch_of_another_vendor() {
    insta::assert_snapshot!(edited(&[("sim = '1.0'", "sim = '9.9'")]), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-013

      x sk/vendor/torch-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-linux_[ARCH].whl is not sim's torch: its version.py lacks `sim = '9.9'`
      help: bring the vendor's own torch; [torch] markers say how it is recognised
    ");
    insta::assert_snapshot!(refused(&Context::new(), "cuda --torch {torch}"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-013

      x sk/vendor/torch-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-linux_[ARCH].whl is not cuda's torch: its version.py lacks `cuda: Optional[str] = '13.0'`
      help: bring the vendor's own torch; [torch] markers say how it is recognised
    ");
}

#[test]
fn a_torch_for_another_python() {
    let context = Context::new();
    let built_for = context.json("build sim --torch {torch} --dry-run")["build_json"]["python"].clone();
    let other = if built_for == "cpython-312" { "cp310" } else { "cp312" };
    insta::assert_snapshot!(refused(&context, &format!("sim --torch {{torch}} --python {other}")), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-015

      x sk/vendor/torch-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-linux_[ARCH].whl is built for cp3XX, and cp3XX is asked for
      help: leave --python out, or bring a torch other than cp3XX's
    ");
    insta::assert_snapshot!(edited(&[("\"cp310\", \"cp311\", \"cp312\", \"cp313\", \"cp314\"", "\"cp39\"")]), @r"
    exit: 2
    --- stdout
    --- stderr
    E-MAN-102

      x manifest `sim` offers no python tag `cp3XX`
      help: there are cp3XX
    ");
}

#[test]
fn a_folder_that_does_not_show_its_python() {
    let context = Context::new();
    context.unpack("vendor", "site");
    for name in names(&context.path("site/torch")) {
        if name.starts_with("_C.") {
            fs_err::remove_file(context.path("site/torch").join(name)).unwrap();
        }
    }
    insta::assert_snapshot!(refused(&context, "sim --torch site --front {stock}"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-016

      x cannot tell which Python site is built for: it holds no torch/_C.cpython-….so
      help: say it: --python cp3XX
    ");
}

#[test]
fn required_libraries_that_are_missing() {
    insta::assert_snapshot!(edited(&[("\"libtorch_sim.so\",\n]", "\"libtorch_sim.so\", \"liba.so\", \"libb.so\",\n]")]), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-017

      x sk/vendor/torch-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-linux_[ARCH].whl lacks liba.so, libb.so
      help: torch/lib holds libc10.so, libc10_sim.so, libgomp.so.1, libshm.so, libtorch.so, libtorch_cpu.so, libtorch_global_deps.so, libtorch_python.so, libtorch_sim.so
    ");
}

#[test]
fn a_glob_that_matches_nothing() {
    insta::assert_snapshot!(edited(&[("[\"torch.libs/*\"]", "[\"torch.libs/*\", \"torch.extra/*\"]")]), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-010

      x bundle.include: nothing in sk/vendor/torch-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-linux_[ARCH].whl matches `torch.extra/*`
      help: take the glob out of the manifest, or bring the torch that has these files
    ");
}

#[test]
fn a_distribution_that_nobody_pins() {
    let more = "[[provided]]\ndist = \"sim-runtime\"\ndir = \"sim/lib\"\nlibraries = [\"libsimrt.so.1\"]\n\n[host]\nlibraries = []\n";
    insta::assert_snapshot!(edited(&[("[host]\nlibraries = [\"libsimrt.so.*\"]", more)]), @r#"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-011

      x sim-runtime brings libraries, but sk/vendor/torch-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-linux_[ARCH].whl does not pin it
      help: give its version in the manifest: [[provided]] dist = "sim-runtime", version = "…"
    "#);
}

#[test]
fn a_library_that_needs_a_newer_glibc() {
    insta::assert_snapshot!(edited(&[("glibc = \"2.28\"", "glibc = \"2.1\"")]), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-021

      x libc10.so needs GLIBC_[VERSION] of libc.so.6, above the ceiling of glibc 2.1
      help: raise [target] glibc, or have the library built on an older system
    ");
}

#[test]
fn a_library_for_another_machine() {
    let context = Context::new();
    context.unpack("vendor", "site");
    let path = context.path("site/torch/lib/libtorch_sim.so");
    let mut bytes = fs_err::read(&path).unwrap();
    // e_machine, gABI: at 18; 22 is s390.
    bytes[18..20].copy_from_slice(&22u16.to_le_bytes());
    fs_err::write(&path, bytes).unwrap();
    insta::assert_snapshot!(refused(&context, "sim --torch site --front {stock}"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-020

      x libtorch_sim.so is for s390, and the wheel is for [ARCH]
      help: [target] arch says which machines the vendor has
    ");
}

#[test]
fn links_that_lead_nowhere_or_back() {
    let context = Context::new();
    context.unpack("vendor", "site");
    let link = context.path("site/torch/lib/libgone.so");
    std::os::unix::fs::symlink("/nowhere/libgone.so", &link).unwrap();
    insta::assert_snapshot!(refused(&context, "sim --torch site --front {stock}"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-006

      x [DIR]/site/torch/lib/libgone.so is a link that leads nowhere
      `-> failed to query resolved metadata `[DIR]/site/torch/lib/libgone.so`: No such file or directory (os error 2)
      help: a wheel holds files, no links; repair the folder, or take the vendor's wheel
    ");
    fs_err::remove_file(&link).unwrap();
    // Two such links in one folder: each level would double the work.
    std::os::unix::fs::symlink("..", context.path("site/torch/lib/back")).unwrap();
    std::os::unix::fs::symlink("..", context.path("site/torch/lib/too")).unwrap();
    let text = refused(&context, "sim --torch site --front {stock}").replace("lib/too", "lib/back");
    insta::assert_snapshot!(text, @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-007

      x [DIR]/site/torch/lib/back is a link back to one of its own parents
      help: a wheel holds files, no links; repair the folder, or take the vendor's wheel
    ");
}

#[test]
fn two_libraries_of_one_soname() {
    let context = Context::new();
    context.unpack("vendor", "site");
    context.library("site/torch.libs/libcopy.so", &["-Wl,-soname,libtorch_sim.so"]);
    insta::assert_snapshot!(refused(&context, "sim --torch site --front {stock}"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-019

      x libcopy.so and libtorch_sim.so both call themselves libtorch_sim.so
      help: a process can hold one of them; leave the other out of [bundle]
    ");
}

#[test]
fn two_files_of_one_name() {
    let context = Context::new();
    context.unpack("vendor", "site");
    context.library("site/torch.libs/libc10.so", &["-Wl,-soname,libother.so"]);
    insta::assert_snapshot!(refused(&context, "sim --torch site --front {stock}"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-025

      x site: torch/lib/libc10.so and torch.libs/libc10.so would be one file of the bundle
      help: the bundle is one folder; leave one of them out of [bundle] include
    ");
}

#[test]
fn what_is_no_torch() {
    let context = Context::new();
    fs_err::create_dir(context.path("site")).unwrap();
    insta::assert_snapshot!(refused(&context, "sim --torch site"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-003

      x site holds no torch: there is no torch/version.py
      help: name a torch wheel, or the site-packages folder that torch is installed in
    ");
    insta::assert_snapshot!(refused(&context, "sim --torch none.whl"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-001

      x failed to query resolved metadata `none.whl`: No such file or directory (os error 2)
      help: check the spelling of the path
    ");
    context.write("torch-2.13.0+sim1.0.skeleton-cp311-cp311-linux_x86_64.whl", "text");
    insta::assert_snapshot!(refused(&context, "sim --torch torch-2.13.0+sim1.0.skeleton-cp311-cp311-linux_x86_64.whl"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-WHL-020

      x torch-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-linux_[ARCH].whl: is too short for a zip archive
      help: the file is damaged or was not completely copied; fetch it again and compare its sha256
    ");
    context.write("torch.whl", "text");
    insta::assert_snapshot!(refused(&context, "sim --torch torch.whl"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-WHL-002

      x wheel name `torch.whl`: name: has 1 parts between `-`, not 5 or 6
      help: a wheel is named DISTRIBUTION-VERSION[-BUILD]-PYTHON-ABI-PLATFORM.whl, such as torch_fl-2.13.0+cuda13.0-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl
    ");
}

#[test]
fn a_front_that_the_bootstrap_would_refuse() {
    let context = Context::new();
    context.unpack("stock", "front");
    let version = fs_err::read_to_string(context.path("front/torch/version.py")).unwrap();
    assert!(version.contains("cuda: Optional[str] = None"), "{version}");
    context.write(
        "front/torch/version.py",
        &version.replace("cuda: Optional[str] = None", "cuda: Optional[str] = '13.0'"),
    );
    insta::assert_snapshot!(refused(&context, "sim --torch {torch} --front front"), @r#"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-014

      x front is not a stock torch for front = "cpu": its version.py names an accelerator
      help: give --front the stock CPU torch
    "#);
    context.write("front/torch/version.py", &version.replace("2.13.0", "2.12.1"));
    insta::assert_snapshot!(refused(&context, "sim --torch {torch} --front front"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-027

      x front is torch 2.12.1+cpu.skeleton, and the wheel stands on 2.13.0
      help: give --front the stock torch 2.13.0
    ");
    context.write("front/torch/version.py", &version);
    fs_err::remove_file(context.path("front/torch/lib/libgomp.so.1")).unwrap();
    insta::assert_snapshot!(refused(&context, "sim --torch {torch} --front front"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-023

      x front lacks torch/lib/libgomp.so.1, which is opened from the installed torch
      help: bundle it, or take it out of the preload list
    ");
}

#[test]
fn an_attribute_that_the_vendor_does_not_have() {
    insta::assert_snapshot!(edited(&[("sim = \"from-vendor\"", "hip = \"from-vendor\"")]), @r#"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-009

      x sk/vendor/torch-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-linux_[ARCH].whl: torch.version.hip is to be restored from the vendor's torch, which sets none
      help: give its value: [torch] attributes = { hip = "…" }
    "#);
}

#[test]
fn a_header_that_is_no_header() {
    let context = Context::new();
    context.unpack("vendor", "site");
    let file = fs_err::File::create(context.path("site/torch/include/huge.h")).unwrap();
    file.set_len((16 << 20) + 1).unwrap();
    context.unpack("stock", "front");
    fs_err::copy(context.path("site/torch/include/huge.h"), context.path("front/torch/include/huge.h"))
        .unwrap();
    insta::assert_snapshot!(refused(&context, "sim --torch site --front front"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-026

      x [DIR]/front/torch/include/huge.h is larger than 16777216 bytes, which no such file is
      help: install that torch again
    ");
}

/// Of several errors the first by name is told, however many threads there are.
#[test]
fn the_error_does_not_depend_on_the_threads() {
    let context = Context::new();
    context.unpack("vendor", "site");
    for name in ["libshm.so", "libtorch.so", "libc10_sim.so"] {
        context.write(&format!("site/torch/lib/{name}"), "text");
    }
    for threads in [1, 2, 8] {
        let text = refused(&context, &format!("sim --torch site --threads {threads}"));
        assert!(text.contains("libc10_sim.so: not an ELF file"), "{text}");
    }
}

#[test]
fn both_a_vendor_and_a_manifest_or_neither() {
    let context = Context::new();
    insta::assert_snapshot!(context.run("build sim --manifest m.toml --torch x"), @r"
    exit: 2
    --- stdout
    --- stderr
    error: the argument '[VENDOR]' cannot be used with '--manifest <FILE>'

    Usage: torchfl build --torch <WHEEL|DIR> <VENDOR|--manifest <FILE>>

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(context.run("build --torch x"), @r"
    exit: 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      <VENDOR|--manifest <FILE>>

    Usage: torchfl build --torch <WHEEL|DIR> <VENDOR|--manifest <FILE>>

    For more information, try '--help'.
    ");
}

/// The sample vendor's wheel under another name.
fn renamed(old: &str, new: &str) -> String {
    let context = Context::new();
    let wheel = wheel_in(&context.path("sk/vendor"));
    let name = wheel.file_name().unwrap().to_str().unwrap();
    let other = regex::Regex::new(old).unwrap().replace_all(name, new).into_owned();
    assert_ne!(name, other);
    fs_err::copy(&wheel, context.path(&other)).unwrap();
    refused(&context, &format!("sim --torch {other} --front {{stock}}"))
}

#[test]
fn a_wheel_renamed_to_another_python() {
    insta::assert_snapshot!(renamed("cp3[0-9]+", "cp39"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-WHL-033

      x torch-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-linux_[ARCH].whl: the tags in WHEEL: `cp3XX-cp3XX`, expected `cp3XX-cp3XX`
      help: the file was renamed or edited by hand; build it again under the name that it should have
    ");
}

#[test]
fn a_wheel_renamed_to_another_version() {
    insta::assert_snapshot!(renamed(r"\+sim1\.0", "+sim2.0"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-WHL-033

      x torch-2.13.0+sim2.0.skeleton-cp3XX-cp3XX-linux_[ARCH].whl: the folder in the wheel: `torch-2.13.0+sim1.0.skeleton.dist-info`, expected `torch-2.13.0+sim2.0.skeleton.dist-info`
      help: the file was renamed or edited by hand; build it again under the name that it should have
    ");
}

#[test]
fn a_wheel_renamed_to_another_distribution() {
    insta::assert_snapshot!(renamed("^torch-", "torch_other-"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-WHL-033

      x torch_other-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-linux_[ARCH].whl: the folder in the wheel: `torch-2.13.0+sim1.0.skeleton.dist-info`, expected `torch_other-2.13.0+sim1.0.skeleton.dist-info`
      help: the file was renamed or edited by hand; build it again under the name that it should have
    ");
}

#[test]
fn a_wheel_whose_platform_alone_was_renamed_is_taken() {
    let context = Context::new();
    let wheel = wheel_in(&context.path("sk/vendor"));
    let other = wheel.file_name().unwrap().to_str().unwrap().replace("-linux_", "-manylinux_2_28_");
    fs_err::copy(&wheel, context.path(&other)).unwrap();
    context.stdout(&format!("build sim --torch {other} --front {{stock}} --dry-run"));
}
