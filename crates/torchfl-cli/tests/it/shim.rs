//! Vendors whose bundle has a generated library: a versioned forwarder (`metax`) and a core gap (`dcu-slim`).

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use torchfl_wheel::Archive;

use crate::context::{Context, SIM, build_json, skeleton, wheel_in};

const METAX: &str = include_str!("../../../../vendor-manifests/metax.toml");
const DCU_SLIM: &str = include_str!("../../../../vendor-manifests/dcu-slim.toml");

/// A context whose `m.toml` is that vendor's manifest, for this Python, edited; and the words that name its torches.
fn vendor(name: &str, text: &str, edits: &[(&str, &str)]) -> (Context, String) {
    let context = Context::new();
    let line = |text: &str| text.lines().find(|line| line.starts_with("tags = ")).unwrap().to_owned();
    let mut text = text.replace(&line(text), &line(SIM));
    for (old, new) in edits {
        assert_eq!(text.matches(old).count(), 1, "{old} must stand once in {name}.toml");
        text = text.replace(old, new);
    }
    context.write("m.toml", &text);
    let made = skeleton(name);
    for folder in ["vendor", "stock", "opt"] {
        let there = context.path(folder);
        std::os::unix::fs::symlink(made.join(folder), there).unwrap();
    }
    let wheel = |folder: &str| {
        let path = wheel_in(&context.path(folder));
        format!("{folder}/{}", path.file_name().unwrap().to_str().unwrap())
    };
    let words = format!("--manifest m.toml --torch {} --front {}", wheel("vendor"), wheel("stock"));
    (context, words)
}

fn metax(edits: &[(&str, &str)]) -> (Context, String) {
    vendor("metax", METAX, edits)
}

fn dcu_slim(edits: &[(&str, &str)]) -> (Context, String) {
    vendor("dcu-slim", DCU_SLIM, edits)
}

/// What the dry run says from `from` up to the next empty line.
fn part(text: &str, from: &str) -> String {
    let rest = &text[text.find(from).unwrap_or_else(|| panic!("no {from} in {text}"))..];
    rest.split("\n\n").next().unwrap().to_owned()
}

#[test]
fn a_dry_run_shows_the_forwarder() {
    let (context, words) = metax(&[]);
    let text = context.run(&format!("build {words} --dry-run"));
    insta::assert_snapshot!(part(&text, "generated:"), @r"
    generated:
      libcudart.so.12: versioned-forwarder, 2 symbols of version libcudart.so.12, forwarded to libsymbol_cu.so
        wanted by libtorch_cuda.so
    ");
    insta::assert_snapshot!(part(&text, "opened at import"), @r"
    opened at import, in this order:
      libgomp.so.1 from the installed torch, unless loaded already
      libcudart.so.12 from the bundle
      libc10.so from the bundle
      libtorch_cpu.so from the bundle
      libtorch.so from the bundle
      libtorch_global_deps.so from the bundle
      libc10_cuda.so from the bundle
      libtorch_cuda_linalg.so from the bundle
      libtorch_cuda.so from the bundle
      libshm.so from the bundle
      libtorch_python.so from the bundle
    ");
    assert!(text.contains("  libcudart.so.12 [SIZE]  rpath generated\n"), "{text}");
    let plan = context.json(&format!("build {words} --dry-run"));
    insta::assert_snapshot!(serde_json::to_string_pretty(&plan["shims"]).unwrap(), @r#"
    [
      {
        "forward_to": "libsymbol_cu.so",
        "kind": "versioned-forwarder",
        "soname": "libcudart.so.12",
        "stubs": {},
        "symbols": [
          "cudart_build",
          "cudart_launch"
        ],
        "version": "libcudart.so.12",
        "wanted_by": [
          "libtorch_cuda.so"
        ]
      }
    ]
    "#);
}

#[test]
fn a_dry_run_shows_the_core_gap_and_what_answers() {
    let stub =
        "symbols = \"computed\"\nstub = [{ name = \"_ZN2at8autocast15is_fork_enabledEv\", returns = 0 }]";
    for (edits, stubs) in [(&[][..], false), (&[("symbols = \"computed\"", stub)][..], true)] {
        let (context, words) = dcu_slim(edits);
        let text = context.run(&format!("build {words} --dry-run"));
        let generated = part(&text, "generated:");
        if stubs {
            insta::assert_snapshot!(generated, @r"
            generated:
              libtorch_core_gap.so: core-gap, 2 symbols; 1 answered; a call of the other ends the process
                wanted by libtorch_hip.so
            ");
        } else {
            insta::assert_snapshot!(generated, @r"
            generated:
              libtorch_core_gap.so: core-gap, 2 symbols; a call ends the process
                wanted by libtorch_hip.so
            ");
        }
    }
}

/// Built into `dist`, with the SDK where the skeleton has it.
fn built(context: &Context, words: &str, sdk: &str) -> PathBuf {
    let sdk = fs_err::canonicalize(context.path(sdk)).unwrap();
    context.stdout(&format!("build {words} --sdk-root {} -o dist", sdk.display()));
    wheel_in(&context.path("dist"))
}

#[test]
fn both_wheels_are_whole_and_pass_the_audit() {
    let cases =
        [(metax(&[]), "opt/maca", "libcudart.so.12"), (dcu_slim(&[]), "opt/dtk", "libtorch_core_gap.so")];
    for ((context, words), sdk, shim) in cases {
        let wheel = built(&context, &words, sdk);
        let build = build_json(&wheel);
        let dir = build["bundle"].as_str().unwrap();
        let member = format!("torch_fl/{dir}/{shim}");
        let bytes = Archive::open(&wheel).unwrap().read(&member, 1 << 20).unwrap();
        assert_eq!(build["files"][shim]["bytes"], bytes.len());
        assert_eq!(build["files"][shim]["soname"], shim);
        let opened = build["open"].as_array().unwrap().iter().find(|open| open["name"] == shim).unwrap();
        assert_eq!(
            (&opened["from"], &opened["global"]),
            (&"bundle".into(), &(shim == "libtorch_core_gap.so").into())
        );
        let cc = build["tool"]["cc"].as_str().unwrap();
        let version = Command::new("cc").arg("--version").env("LC_ALL", "C").output().unwrap();
        assert!(String::from_utf8(version.stdout).unwrap().starts_with(cc) && !cc.contains('\n'), "{cc}");
        assert!(build["tool"]["ld"].as_str().unwrap().contains("ld"), "{}", build["tool"]);
        let facts = torchfl_elf::facts(&bytes, shim).unwrap();
        let others = torchfl_elf::facts(
            &Archive::open(&wheel)
                .unwrap()
                .read(&format!("torch_fl/{dir}/{}", first(&build, shim)), 1 << 24)
                .unwrap(),
            "other",
        );
        assert_eq!(facts.search_path, others.unwrap().search_path);

        let stock = words.split("--front ").nth(1).unwrap();
        let audit = context
            .output(&format!("audit dist/{} --torch {stock}", wheel.file_name().unwrap().to_str().unwrap()));
        let text = context.show(&audit);
        assert!(audit.status.success() && !text.contains(" error "), "{text}");
        assert!(!text.contains(shim), "{text}");
    }
}

/// A library of the bundle that is no shim.
fn first(build: &serde_json::Value, shim: &str) -> String {
    build["files"].as_object().unwrap().keys().find(|name| *name != shim).unwrap().clone()
}

/// Runs a program over the stock torch and the wheel, unpacked.
fn python(context: &Context, wheel: &Path, code: &str) -> Output {
    let site = context.path("site");
    for wheel in [wheel, &wheel_in(&context.path("stock"))] {
        let archive = Archive::open(wheel).unwrap();
        for member in archive.members().iter().filter(|member| !member.name.ends_with('/')) {
            let path = site.join(&member.name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, archive.read(&member.name, 1 << 24).unwrap()).unwrap();
        }
    }
    let mut python = Command::new("python3");
    python.args(["-c", code]).env("PYTHONPATH", &site).env("TORCH_FL_CACHE_DIR", context.path("cache"));
    python.env_remove("LD_LIBRARY_PATH").current_dir(context.path("")).output().unwrap()
}

/// Answers of what a library is linked against, the SDK's under other names: each is a pointer to a text.
const CALLS: &str = "
import ctypes, torch_fl, torch
for path in {line.split()[-1] for line in open('/proc/self/maps') if 'libtorch_cuda.so' in line}:
    device = ctypes.CDLL(path)
device.cudart_launch.restype = device.cudart_build.restype = ctypes.c_char_p
print(device.cudart_launch(), device.cudart_build(), device.torch_cuda_uses())
";

#[test]
fn the_forwarder_leads_into_the_sdk_of_the_machine() {
    let (context, words) = metax(&[]);
    let wheel = built(&context, &words, "opt/maca");
    let ran = python(&context, &wheel, CALLS);
    let said = context.show(&ran);
    assert!(ran.status.success(), "{said}");
    insta::assert_snapshot!(said, @r"
    exit: 0
    --- stdout
    b'forwarded' b'metax' 16
    --- stderr
    ");
}

/// The stub's answer is its own, whatever the SDK has; a function that the SDK lacks is told by name.
#[test]
fn a_stub_answers_and_what_the_sdk_lacks_ends_the_process() {
    let stubs = "symbols = \"computed\"\nstub = [{ name = \"cudart_build\", returns = 801 }, { name = \"cudart_new\", returns = -1 }]";
    let (context, words) = metax(&[("symbols = \"computed\"", stubs)]);
    let wheel = built(&context, &words, "opt/maca");
    let code = CALLS
        .replace("device.cudart_build.restype = ", "")
        .replace("device.torch_cuda_uses()", "device.cudart_new()");
    insta::assert_snapshot!(context.show(&python(&context, &wheel, &code)), @r"
    exit: 0
    --- stdout
    b'forwarded' 801 -1
    --- stderr
    ");

    let listed = "symbols = [\"cudart_build\", \"cudart_launch\", \"cudart_gone\"]";
    let (context, words) = metax(&[("symbols = \"computed\"", listed)]);
    let wheel = built(&context, &words, "opt/maca");
    let ran = python(&context, &wheel, &CALLS.replace("device.cudart_launch()", "device.cudart_gone()"));
    insta::assert_snapshot!(context.show(&ran), @r"
    exit: signal: 6 (SIGABRT)
    --- stdout
    --- stderr
    torch_fl: cudart_gone of libcudart.so.12 was called, and libsymbol_cu.so has no such function
    ");
}

#[test]
fn a_symbol_of_the_gap_that_nobody_described_ends_the_process_when_it_is_called() {
    let (context, words) = dcu_slim(&[]);
    let wheel = built(&context, &words, "opt/dtk");
    let code = "
import ctypes, sys, torch_fl, torch
for path in {line.split()[-1] for line in open('/proc/self/maps') if 'libtorch_hip.so' in line}:
    device = ctypes.CDLL(path)
print('imported', flush=True)
if sys.argv[1:]:
    device.torch_hip_gap()
";
    insta::assert_snapshot!(context.show(&python(&context, &wheel, code)), @r"
    exit: 0
    --- stdout
    imported
    --- stderr
    ");
    let code = code.replace("sys.argv[1:]", "True");
    insta::assert_snapshot!(context.show(&python(&context, &wheel, &code)), @r"
    exit: signal: 6 (SIGABRT)
    --- stdout
    imported
    --- stderr
    torch_fl: _ZN2at8autocast16set_fork_enabledEb is not in the stock core; libtorch_core_gap.so only holds its place, and no [[shim]] stub says what it returns
    ");
}

/// The incumbents' fault: a shim by hand that lacks what the fork wants shows as `undefined symbol` at import.
#[test]
fn a_shim_that_lacks_a_symbol_is_found_by_the_audit() {
    let (context, words) = metax(&[]);
    let wheel = built(&context, &words, "opt/maca");
    python(&context, &wheel, "");
    context.write("hand.c", "const char *cudart_build(void) { return \"by hand\"; }\n");
    context.write("hand.map", "libcudart.so.12 { global: *; };\n");
    let cc = Command::new("cc")
        .args(["-shared", "-fPIC", "hand.c", "-o", "site/torch_fl/lib_maca/libcudart.so.12"])
        .args(["-Wl,-soname,libcudart.so.12", "-Wl,--version-script=hand.map"])
        .current_dir(context.path(""))
        .output()
        .unwrap();
    assert!(cc.status.success(), "{cc:?}");
    let text = context.run("audit site");
    assert!(text.starts_with("exit: 1\n"), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| line.contains("AUD-002")).unwrap_or_else(|| panic!("{text}"));
    insta::assert_snapshot!(lines[at..at + 3].join("\n"), @r"
    AUD-002 Undefined symbol
      torch_fl/lib_maca/libtorch_cuda.so
        torch_fl/lib_maca/libtorch_cuda.so refers to cudart_launch in version libcudart.so.12 of libcudart.so.12, which no library in its scope defines
    ");
}

#[test]
fn the_same_inputs_give_the_same_bytes_in_every_folder() {
    let make = || {
        let (context, words) = metax(&[]);
        context.stdout(&format!("build {words} -o dist"));
        fs_err::read(wheel_in(&context.path("dist"))).unwrap()
    };
    assert!(make() == make());
}

#[test]
fn the_sources_are_there_to_look_at() {
    let (context, words) = metax(&[]);
    let words = format!("shim {words}");
    insta::assert_snapshot!(context.run(&format!("{words} -o shims")), @r"
    exit: 0
    --- stdout
      libcudart.so.12: versioned-forwarder, 2 symbols of version libcudart.so.12, forwarded to libsymbol_cu.so
        wanted by libtorch_cuda.so
        shims/libcudart.so.12.c
        shims/libcudart.so.12.map
        shims/libcudart.so.12
    --- stderr
    ");
    insta::assert_snapshot!(fs_err::read_to_string(context.path("shims/libcudart.so.12.map")).unwrap(), @r"
    libcudart.so.12 {
      global:
        cudart_build;
        cudart_launch;
      local: *;
    };
    ");
    let source = fs_err::read_to_string(context.path("shims/libcudart.so.12.c")).unwrap();
    assert_eq!(context.stdout(&words), source);
    let json = context.json(&words);
    assert_eq!((&json[0]["source"], &json[0]["soname"]), (&source.into(), &"libcudart.so.12".into()));
    // What is in the wheel is what was shown.
    context.stdout(&format!("build {} -o dist", words.trim_start_matches("shim ")));
    let inside = Archive::open(&wheel_in(&context.path("dist"))).unwrap();
    let inside = inside.read("torch_fl/lib_maca/libcudart.so.12", 1 << 20).unwrap();
    assert!(inside == fs_err::read(context.path("shims/libcudart.so.12")).unwrap());
    insta::assert_snapshot!(context.run("shim sim --torch {torch}"), @r"
    exit: 0
    --- stdout

    --- stderr
    the manifest has no [[shim]]
    ");
}

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
    let (context, words) = metax(&edits);
    unpack(&context, "vendor", "fork");
    context.write("fork/torch/lib/libtorch_acme.so", "whatever it is");
    let words = words.replace(words.split("--torch ").nth(1).unwrap().split(' ').next().unwrap(), "fork");
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
    let (context, words) = dcu_slim(&[]);
    unpack(&context, "vendor", "fork");
    let lib = "fork/torch/lib";
    let cc = |words: &str| {
        let made =
            Command::new("cc").args(words.split_whitespace()).current_dir(context.path("")).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    context.write(
        "data.c",
        "int acme_table[4] = {1}; __thread int acme_local = 2; int acme_function(void) { return 1; }",
    );
    cc(&format!("-shared -fPIC data.c -o {lib}/libtorch_cpu.so -Wl,-soname,libtorch_cpu.so"));
    let source = "extern int acme_table[]; extern __thread int acme_local; int acme_function(void);\n\
                  int use(void) { return acme_table[0] + acme_local + acme_function(); }";
    context.write("device.c", source);
    cc(&format!(
        "-shared -fPIC device.c -o {lib}/libtorch_hip.so {lib}/libtorch_cpu.so -Wl,-soname,libtorch_hip.so"
    ));
    let words = words.replace(words.split("--torch ").nth(1).unwrap().split(' ').next().unwrap(), "fork");
    insta::assert_snapshot!(refused(&(context, words), ""), @r#"
    exit: 2
    --- stdout
    --- stderr
    E-BLD-036

      x libtorch_core_gap.so cannot stand in for data: acme_local (needed by libtorch_hip.so), acme_table (needed by libtorch_hip.so)
      help: a shim has functions only; `swap = "core"`, or a library that the vendor builds
    "#);
}

fn unpack(context: &Context, folder: &str, site: &str) {
    let archive = Archive::open(&wheel_in(&context.path(folder))).unwrap();
    for member in archive.members() {
        let path = context.path(site).join(&member.name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, archive.read(&member.name, 1 << 24).unwrap()).unwrap();
    }
}
