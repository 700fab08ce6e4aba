//! `torchfl audit` of wheels that are sound, and how it tells what it finds. The faults are in `audit_faults`.

use serde_json::Value;

use crate::audit_faults::Case;
use crate::context::{Context, wheel_in};

/// The sample vendor's wheel in `dist`, by its path in the command line.
fn built(context: &Context) -> String {
    let wheel = context.build("", "dist");
    format!("dist/{}", wheel.file_name().unwrap().to_str().unwrap())
}

#[test]
fn a_sound_wheel() {
    let context = Context::new();
    let wheel = built(&context);
    insta::assert_snapshot!(context.run(&format!("audit {wheel} --torch {{stock}}")), @r"
    exit: 0
    --- stdout
    torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl with torch-2.13.0+cpu.skeleton-cp3XX-cp3XX-linux_[ARCH].whl: loads

    skeleton: generated for tests, and says nothing of the real thing: torch-fl 2.13.0+sim1.0.skeleton, torch 2.13.0+cpu.skeleton

    on the platform tag's word: ld-linux-[ARCH].so.2, libc.so.6, libdl.so.2, libm.so.6, libpthread.so.0, librt.so.1, libutil.so.1
    on the manifest's word, [host]: libsimrt.so.1

    ways to redirect (swap core):
      finder  not sound: opening torch/lib/libc10.so by path gives a second copy; opening torch/lib/libshm.so by path gives a second copy; opening torch/lib/libtorch.so by path gives a second copy; and 2 more
      facade  sound
      links   sound
    --- stderr
    ");
}

#[test]
fn with_the_sdk_less_is_taken_on_somebodys_word() {
    let context = Context::new();
    let wheel = built(&context);
    insta::assert_snapshot!(context.run(&format!("audit {wheel} --torch {{stock}} --sysroot sk --hashes")), @r"
    exit: 0
    --- stdout
    torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl with torch-2.13.0+cpu.skeleton-cp3XX-cp3XX-linux_[ARCH].whl: loads

    skeleton: generated for tests, and says nothing of the real thing: torch-fl 2.13.0+sim1.0.skeleton, torch 2.13.0+cpu.skeleton

    on the platform tag's word: ld-linux-[ARCH].so.2, libc.so.6, libdl.so.2, libm.so.6, libpthread.so.0, librt.so.1, libutil.so.1

    ways to redirect (swap core):
      finder  not sound: opening torch/lib/libc10.so by path gives a second copy; opening torch/lib/libshm.so by path gives a second copy; opening torch/lib/libtorch.so by path gives a second copy; and 2 more
      facade  sound
      links   sound
    --- stderr
    ");
}

#[test]
fn without_a_torch_its_libraries_are_taken_on_the_manifests_word() {
    let context = Context::new();
    let wheel = built(&context);
    insta::assert_snapshot!(context.run(&format!("audit {wheel}")), @r"
    exit: 0
    --- stdout
    torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl: loads

    skeleton: generated for tests, and says nothing of the real thing: torch-fl 2.13.0+sim1.0.skeleton

    on the platform tag's word: ld-linux-[ARCH].so.2, libc.so.6, libdl.so.2, libm.so.6, libpthread.so.0, librt.so.1, libutil.so.1
    on the manifest's word, [host]: libsimrt.so.1
    on the word of the torch that it is for: libgomp.so.1, torch
    --- stderr
    ");
}

#[test]
fn an_installed_torch_fl() {
    let context = Context::new();
    let wheel = context.build("", "dist");
    context.unpack("stock", "site");
    for member in torchfl_wheel::Archive::open(&wheel).unwrap().members() {
        let path = context.path("site").join(&member.name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        let bytes = torchfl_wheel::Archive::open(&wheel).unwrap().read(&member.name, 1 << 24).unwrap();
        fs_err::write(path, bytes).unwrap();
    }
    insta::assert_snapshot!(context.run("audit site --torch site --sysroot sk --hashes"), @r"
    exit: 0
    --- stdout
    torch-fl 2.13.0+sim1.0.skeleton with torch 2.13.0+cpu.skeleton: loads

    skeleton: generated for tests, and says nothing of the real thing: torch-fl 2.13.0+sim1.0.skeleton, torch 2.13.0+cpu.skeleton

    on the platform tag's word: ld-linux-[ARCH].so.2, libc.so.6, libdl.so.2, libm.so.6, libpthread.so.0, librt.so.1, libutil.so.1

    ways to redirect (swap core):
      finder  not sound: opening torch/lib/libc10.so by path gives a second copy; opening torch/lib/libshm.so by path gives a second copy; opening torch/lib/libtorch.so by path gives a second copy; and 2 more
      facade  sound
      links   sound
    --- stderr
    ");
}

/// Any wheel can be judged: here torch itself.
#[test]
fn somebody_elses_wheel() {
    let context = Context::new();
    insta::assert_snapshot!(context.run("audit {stock}"), @r"
    exit: 0
    --- stdout
    torch-2.13.0+cpu.skeleton-cp3XX-cp3XX-linux_[ARCH].whl: loads

    skeleton: generated for tests, and says nothing of the real thing: torch 2.13.0+cpu.skeleton

    on the platform tag's word: ld-linux-[ARCH].so.2, libc.so.6, libdl.so.2, libm.so.6, libpthread.so.0, librt.so.1, libutil.so.1
    --- stderr
    ");
}

#[test]
fn json_is_the_report() {
    let context = Context::new();
    let wheel = built(&context);
    let report = context.json(&format!("audit {wheel} --torch {{stock}}"));
    let keys: Vec<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "allowed",
            "assumed",
            "findings",
            "libraries",
            "mapped",
            "redirect",
            "severities",
            "skeletons",
            "torch",
            "way",
            "wheel"
        ]
    );
    assert_eq!(report["wheel"], wheel.trim_start_matches("dist/"));
    assert_eq!(report["findings"], Value::Array(Vec::new()));
    let libraries = report["libraries"].as_array().unwrap();
    assert_eq!(libraries.len(), 9);
    assert!(libraries.iter().all(|library| library["loads"] == true), "{libraries:?}");
}

/// All is in the JSON; for people ten of a kind are enough.
#[test]
fn of_many_findings_ten_are_told() {
    let mut case = Case::new();
    let calls: Vec<String> = (10..60).map(|n| format!("_ZN2at3sim4fn{n}Ev();")).collect();
    let calls = calls.join(" ");
    let declared = calls.replace("_ZN", "void _ZN");
    case.device(&format!("{declared} void torch_sim_all(void) {{ {calls} }}"), &[]);
    case.search("libc10_sim.so", "$ORIGIN:/opt/sim/lib:/home/builder/lib");
    let wheel = case.pack();
    let words = format!("audit dist/{} --torch {{stock}}", wheel.file_name().unwrap().to_str().unwrap());
    insta::assert_snapshot!(case.context.run(&words), @r"
    exit: 1
    --- stdout
    torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl with torch-2.13.0+cpu.skeleton-cp3XX-cp3XX-linux_[ARCH].whl: 50 errors, 1 warning

    skeleton: generated for tests, and says nothing of the real thing: torch-fl 2.13.0+sim1.0.skeleton, torch 2.13.0+cpu.skeleton

    errors:
      AUD-002 Undefined symbol
        torch_fl/lib_sim/libtorch_sim.so
          torch_fl/lib_sim/libtorch_sim.so refers to _ZN2at3sim4fn10Ev, which no library in its scope defines
          torch_fl/lib_sim/libtorch_sim.so refers to _ZN2at3sim4fn11Ev, which no library in its scope defines
          torch_fl/lib_sim/libtorch_sim.so refers to _ZN2at3sim4fn12Ev, which no library in its scope defines
          torch_fl/lib_sim/libtorch_sim.so refers to _ZN2at3sim4fn13Ev, which no library in its scope defines
          torch_fl/lib_sim/libtorch_sim.so refers to _ZN2at3sim4fn14Ev, which no library in its scope defines
          torch_fl/lib_sim/libtorch_sim.so refers to _ZN2at3sim4fn15Ev, which no library in its scope defines
          torch_fl/lib_sim/libtorch_sim.so refers to _ZN2at3sim4fn16Ev, which no library in its scope defines
          torch_fl/lib_sim/libtorch_sim.so refers to _ZN2at3sim4fn17Ev, which no library in its scope defines
          torch_fl/lib_sim/libtorch_sim.so refers to _ZN2at3sim4fn18Ev, which no library in its scope defines
          torch_fl/lib_sim/libtorch_sim.so refers to _ZN2at3sim4fn19Ev, which no library in its scope defines
          … and 40 more
        fix: build it against the torch that it will meet, or add the library that defines the symbol

    warnings:
      AUD-005 Search path into the build machine
        torch_fl/lib_sim/libc10_sim.so
          DT_RPATH /home/builder/lib names a folder of the machine that built it
        fix: set the search path to `$ORIGIN` folders: `torchfl patch --rpath`

    on the platform tag's word: ld-linux-[ARCH].so.2, libc.so.6, libdl.so.2, libm.so.6, libpthread.so.0, librt.so.1, libutil.so.1
    on the manifest's word, [host]: libsimrt.so.1

    ways to redirect (swap core):
      finder  not sound: torch_fl/lib_sim/libtorch_sim.so: undefined symbol: _ZN2at3sim4fn57Ev; torch_fl/lib_sim/libtorch_sim.so: undefined symbol: _ZN2at3sim4fn51Ev; torch_fl/lib_sim/libtorch_sim.so: undefined symbol: _ZN2at3sim4fn18Ev; and 11 more
      facade  not sound: torch_fl/lib_sim/libtorch_sim.so: undefined symbol: _ZN2at3sim4fn57Ev; torch_fl/lib_sim/libtorch_sim.so: undefined symbol: _ZN2at3sim4fn51Ev; torch_fl/lib_sim/libtorch_sim.so: undefined symbol: _ZN2at3sim4fn18Ev; and 6 more
      links   not sound: torch/lib/libtorch_sim.so: undefined symbol: _ZN2at3sim4fn57Ev; torch/lib/libtorch_sim.so: undefined symbol: _ZN2at3sim4fn51Ev; torch/lib/libtorch_sim.so: undefined symbol: _ZN2at3sim4fn18Ev; and 6 more
    --- stderr
    ");
    let output = case.context.output(&format!("{words} --json"));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["findings"].as_array().unwrap().len(), 51);
}

#[test]
fn what_may_stay_unresolved_is_told() {
    let mut case = Case::new();
    case.device("void _ZN2at3sim5laterEv(void); void torch_sim_later(void) { _ZN2at3sim5laterEv(); }", &[]);
    let wheel = case.pack();
    let name = wheel.file_name().unwrap().to_str().unwrap();
    let words = format!("audit dist/{name} --torch {{stock}} --allow-unresolved _ZN2at3sim5laterEv");
    insta::assert_snapshot!(case.context.run(&words), @r"
    exit: 0
    --- stdout
    torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl with torch-2.13.0+cpu.skeleton-cp3XX-cp3XX-linux_[ARCH].whl: loads

    skeleton: generated for tests, and says nothing of the real thing: torch-fl 2.13.0+sim1.0.skeleton, torch 2.13.0+cpu.skeleton

    on the platform tag's word: ld-linux-[ARCH].so.2, libc.so.6, libdl.so.2, libm.so.6, libpthread.so.0, librt.so.1, libutil.so.1
    on the manifest's word, [host]: libsimrt.so.1

    unresolved by leave: _ZN2at3sim5laterEv

    ways to redirect (swap core):
      finder  not sound: opening torch/lib/libc10.so by path gives a second copy; opening torch/lib/libshm.so by path gives a second copy; opening torch/lib/libtorch.so by path gives a second copy; and 2 more
      facade  sound
      links   sound
    --- stderr
    ");
}

#[test]
fn severities_are_the_manifests() {
    let mut case = Case::new();
    case.build(|build| {
        build["audit"]["severity"] = serde_json::json!({ "AUD-018": "note", "AUD-020": "ignore" });
    });
    case.without_licences();
    case.put("torch/backends/sim.py", "");
    insta::assert_snapshot!(case.audit(""), @r"
    exit: 0
    AUD-018 note of torch_fl-2.13.0+sim1.0.skeleton.dist-info/licenses/torch/
      torch: no licence file of torch is in the wheel
    ");
}

#[test]
fn what_cannot_be_audited() {
    let context = Context::new();
    insta::assert_snapshot!(context.run("audit nowhere-1.0-py3-none-any.whl"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-AUD-001

      x cannot read what is to be judged
      `-> failed to query resolved metadata `nowhere-1.0-py3-none-any.whl`: No such file or directory (os error 2)
      help: check the spelling of the path
    ");
    context.write("empty/readme.txt", "");
    insta::assert_snapshot!(context.run("audit empty"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-AUD-002

      x empty: no torch_fl is installed in this folder
      help: name the wheel file, or the site-packages folder that torch_fl is installed in
    ");
    insta::assert_snapshot!(context.run("audit {stock} --torch empty"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-AUD-003

      x empty: no torch: there is no torch/version.py
      help: name the torch wheel, or the site-packages folder that torch is installed in
    ");
    let mut case = Case::new();
    case.build(|build| build["audit"]["severity"] = serde_json::json!({ "AUD-999": "note" }));
    let wheel = case.pack();
    let words = format!("audit dist/{}", wheel.file_name().unwrap().to_str().unwrap());
    insta::assert_snapshot!(case.context.run(&words), @r"
    exit: 2
    --- stdout
    --- stderr
    E-AUD-006

      x dist/torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl: the manifest sets a severity for AUD-999, which is no rule
      help: the rules are listed in docs/reference/audit.md
    ");
    case.build(|build| build["audit"] = serde_json::json!({ "host": ["lib[.so"] }));
    case.pack();
    insta::assert_snapshot!(case.context.run(&words), @r"
    exit: 2
    --- stdout
    --- stderr
    E-AUD-005

      x `lib[.so` is no glob of file names
      `-> error parsing glob 'lib[.so': unclosed character class; missing ']'
      help: `*`, `?` and `[…]` are understood; escape others with a backslash
    ");
    case.put("torch_fl/build.json", "{}");
    case.pack_with_sizes_as_they_are();
    insta::assert_snapshot!(case.context.run(&words), @r"
    exit: 2
    --- stdout
    --- stderr
    E-AUD-004

      x dist/torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl: torch_fl/build.json cannot be read
      `-> missing field `schema` at line 1 column 2
      help: build the wheel again with this version of torchfl
    ");
}

/// An audit writes nothing: neither beside the wheel nor where it runs.
#[test]
fn nothing_is_written() {
    let context = Context::new();
    let wheel = built(&context);
    let before = (crate::context::names(&context.path("")), crate::context::names(&context.path("dist")));
    context.stdout(&format!("audit {wheel} --torch {{stock}}"));
    context.stdout(&format!("why {wheel} libc10.so --torch {{stock}}"));
    let after = (crate::context::names(&context.path("")), crate::context::names(&context.path("dist")));
    assert_eq!(before, after);
    assert!(wheel_in(&context.path("dist")).is_file());
}
