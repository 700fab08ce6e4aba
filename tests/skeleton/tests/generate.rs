//! What a generated skeleton is: the same bytes every time, wheels that pip installs, a torch that imports, and
//! libraries with the links and search paths that the packager has to deal with.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;
use torchfl_elf::{Facts, SearchPath, Tag};
use torchfl_manifest::Manifest;
use torchfl_skeleton::{Generated, Skeleton, Target};
use torchfl_wheel::Archive;

/// A vendor that only adds libraries to the stock core, and whose runtime comes in wheels.
const MOCK: &str = r#"
schema = 1
vendor = "mock"
title = "Mock"
status = "experimental"
[torch]
release = "2.13.0"
front = "cpu"
markers = ["cuda: Optional[str] = '3.0'"]
swap = "extra"
attributes = { cuda = "3.0" }
[python]
tags = ["cp310", "cp311", "cp312", "cp313", "cp314"]
[target]
arch = ["x86_64", "aarch64"]
[sdk]
version = "3.0"
[bundle]
dir = "lib_mock"
probe = "libtorch_mock.so"
required = ["libc10_mock.so", "libtorch_mock.so", "libtorch_mock_linalg.so"]
optional = ["libcaffe2_mockrtc.so"]
front = ["libgomp.so.1", "libc10.so", "libtorch_cpu.so", "libtorch.so", "libshm.so", "libtorch_python.so"]
never-duplicate = ["libgomp.so.1"]
preload = [
    "libgomp.so.1", "libc10.so", "libtorch_cpu.so", "libc10_mock.so", "libtorch_mock.so", "libtorch_mock_linalg.so",
    "libtorch.so", "libshm.so", "libtorch_python.so",
]
search-path = ["$ORIGIN/../../mock/lib", "$ORIGIN"]
search-tag = "rpath"
[host]
libraries = ["libmockdriver.so.1"]
[[provided]]
dist = "mock-runtime"
dir = "mock/lib"
libraries = ["libmockrt.so.3"]
"#;

struct Made {
    dir: TempDir,
    generated: Generated,
}

fn make(manifest: &Manifest) -> Made {
    let dir = TempDir::new().unwrap();
    let generated = Skeleton::generate(manifest, dir.path(), Path::new("python3")).unwrap();
    Made { dir, generated }
}

fn sim() -> &'static Made {
    static SIM: OnceLock<Made> = OnceLock::new();
    SIM.get_or_init(|| make(&torchfl_manifest::find("sim").unwrap()))
}

fn mock() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| make(&Manifest::parse(MOCK, "mock.toml").unwrap()))
}

fn run(command: &mut Command) -> Output {
    // Nothing of the caller's may change what is loaded.
    for name in ["LD_PRELOAD", "PYTHONPATH", "TORCH_DEVICE_BACKEND_AUTOLOAD"] {
        command.env_remove(name);
    }
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}{}", out.trim(), err.trim())
}

/// A fresh environment with wheels installed in it, by pip and without the network.
struct Env {
    dir: TempDir,
}

impl Env {
    fn with(wheels: &[&PathBuf]) -> Env {
        let env = Env { dir: TempDir::new().unwrap() };
        let made = run(Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(env.dir.path()));
        assert!(made.status.success(), "{}", text(&made));
        let pip = ["-m", "pip", "--disable-pip-version-check", "--python"];
        let install = ["install", "--quiet", "--no-index", "--no-deps", "--no-compile"];
        let installed = run(Command::new("python3").args(pip).arg(env.python()).args(install).args(wheels));
        assert!(installed.status.success(), "{}", text(&installed));
        env
    }

    fn python(&self) -> PathBuf {
        self.dir.path().join("bin/python")
    }

    fn site(&self) -> PathBuf {
        PathBuf::from(self.run("import sysconfig; print(sysconfig.get_path('platlib'))", None))
    }

    fn run(&self, code: &str, library_path: Option<&Path>) -> String {
        let mut command = Command::new(self.python());
        command.args(["-c", code]).current_dir(self.dir.path()).env_remove("LD_LIBRARY_PATH");
        command.envs(library_path.map(|path| ("LD_LIBRARY_PATH", path)));
        text(&run(&mut command))
    }
}

fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(dir).unwrap().to_owned(), fs_err::read(&path).unwrap());
            }
        }
    }
    found
}

fn member(wheel: &Path, name: &str) -> Vec<u8> {
    Archive::open(wheel).unwrap().read(name, 1 << 20).unwrap()
}

fn facts(wheel: &Path, name: &str) -> Facts {
    torchfl_elf::facts(&member(wheel, name), name).unwrap()
}

const BUILDS: &str =
    "import torch; print(sorted(set(torch._C._builds().values())), torch._C._device_hooks())";

#[test]
fn two_runs_in_two_folders_give_the_same_bytes() {
    for (first, second) in [
        (sim(), make(&torchfl_manifest::find("sim").unwrap())),
        (mock(), make(&Manifest::parse(MOCK, "mock.toml").unwrap())),
    ] {
        let (first, second) = (files(first.dir.path()), files(second.dir.path()));
        assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
        for (path, bytes) in &first {
            assert!(*bytes == second[path], "{} differs", path.display());
        }
    }
}

#[test]
fn no_library_names_the_folder_that_it_was_compiled_in() {
    let temp = std::env::temp_dir().display().to_string();
    let wheel = sim().generated.vendor_wheel.as_ref().unwrap();
    for part in Archive::open(wheel).unwrap().members() {
        let bytes = member(wheel, &part.name);
        let found = bytes.windows(temp.len()).any(|window| window == temp.as_bytes());
        assert!(!found, "{} holds {temp}", part.name);
    }
}

#[test]
fn the_stock_wheel_installs_and_imports_as_stock() {
    let env = Env::with(&[&sim().generated.stock_wheel]);
    assert_eq!(env.run(BUILDS, None), "['stock'] None");
    assert_eq!(
        env.run("import torch; print(torch.__version__, torch.version.cuda)", None),
        "2.13.0+cpu.skeleton None"
    );
    let program = run(&mut Command::new(env.site().join("torch/bin/torch_shm_manager")));
    assert_eq!(text(&program), "c10 stock, shm stock");
}

#[test]
fn a_spawned_worker_imports_torch_by_unpickling_a_tensor() {
    let env = Env::with(&[&sim().generated.stock_wheel]);
    let code = "
import multiprocessing, torch._skeleton
with multiprocessing.get_context('spawn').Pool(1) as pool:
    where, total = pool.apply(torch._skeleton.where_of, (torch.tensor([1, 2]),))
print(total, where['builds']['libc10.so'], len(where['mapped']['libc10.so']))";
    assert_eq!(env.run(code, None), "[2.0, 4.0] stock 1");
}

#[test]
fn backends_are_imported_through_their_entry_points_unless_switched_off() {
    let env = Env::with(&[&sim().generated.stock_wheel]);
    let info = env.site().join("rival-1.0.dist-info");
    fs_err::create_dir_all(&info).unwrap();
    fs_err::write(info.join("METADATA"), "Metadata-Version: 2.1\nName: rival\nVersion: 1.0\n").unwrap();
    fs_err::write(info.join("entry_points.txt"), "[torch.backends]\nrival = no_such_module:load\n").unwrap();
    assert!(env.run("import torch", None).contains("Failed to load the backend extension: rival."));
    let off = "import os; os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'; import torch; print('fine')";
    assert_eq!(env.run(off, None), "fine");
}

#[test]
fn the_vendor_torch_needs_its_sdk_and_then_has_its_device() {
    let made = sim();
    let wheel = made.generated.vendor_wheel.as_ref().unwrap();
    let env = Env::with(&[wheel]);
    assert!(env.run(BUILDS, None).contains("libsimrt.so.1: cannot open shared object file"));
    let sdk = made.generated.sdk_root.as_ref().unwrap().join("lib");
    assert_eq!(env.run(BUILDS, Some(&sdk)), "['sim'] SIM");
    let code = "import torch; torch._C._init_device('SIM'); \
                print(torch._C._dispatch_has_kernel_for_dispatch_key('aten::mm', 'SIM'), torch.version.sim)";
    assert_eq!(env.run(code, Some(&sdk)), "True 1.0");
    let version = String::from_utf8(member(wheel, "torch/version.py")).unwrap();
    assert!(version.contains("\nsim = '1.0'\n"), "{version}");
}

#[test]
fn a_fork_of_the_core_exports_what_its_device_library_needs_and_stock_lacks() {
    let made = sim();
    let stock = Env::with(&[&made.generated.stock_wheel]);
    let fork = Env::with(&[made.generated.vendor_wheel.as_ref().unwrap()]);
    let lib = fork.site().join("torch/lib");
    let code = format!(
        "import torch, ctypes\nfor n in ['c10', 'torch']: ctypes.CDLL('{}/lib%s_sim.so' % n)",
        lib.display()
    );
    let sdk = made.generated.sdk_root.as_ref().unwrap().join("lib");
    let said = stock.run(&code, Some(&sdk));
    assert!(said.contains("undefined symbol: at_fork_autocast"), "{said}");
}

#[test]
fn extra_libraries_give_the_stock_core_a_device_if_they_come_before_torch() {
    let made = &mock().generated;
    let env = Env::with(&[&made.stock_wheel, &made.provided_wheels[0]]);
    let bundle = env.site().join("torch_fl/lib_mock");
    fs_err::create_dir_all(&bundle).unwrap();
    for name in ["libc10_mock.so", "libtorch_mock.so"] {
        let bytes = member(made.vendor_wheel.as_ref().unwrap(), &format!("torch/lib/{name}"));
        fs_err::write(bundle.join(name), bytes).unwrap();
    }
    let open = format!(
        "import ctypes\nfor p in ['torch/lib/libgomp.so.1', 'torch/lib/libc10.so', 'torch/lib/libtorch_cpu.so',\n\
         'torch_fl/lib_mock/libc10_mock.so', 'torch_fl/lib_mock/libtorch_mock.so']: ctypes.CDLL('{}/' + p)\n",
        env.site().display()
    );
    let ask = "print(torch._C._dispatch_has_kernel_for_dispatch_key('aten::mm', 'MOCK')); torch._C._init_device('MOCK')";
    assert_eq!(env.run(&format!("{open}{BUILDS}\n{ask}"), None), "['stock'] MOCK\nTrue");
    let late = env.run(&format!("import torch\n{open}{ask}"), None);
    assert!(late.starts_with("True"), "{late}");
    assert!(late.ends_with("RuntimeError: Cannot initialize MOCK without ATen_MOCK library."), "{late}");
}

#[test]
fn libraries_of_other_wheels_and_of_the_driver_lie_where_the_manifest_says() {
    let made = &mock().generated;
    assert_eq!(made.sdk_root, None);
    assert!(made.driver_dir.as_ref().unwrap().join("libmockdriver.so.1").is_file());
    let wheel = made.vendor_wheel.as_ref().unwrap();
    assert!(wheel.ends_with(format!("torch-2.13.0+mock3.0.skeleton-{}", tags(wheel))), "{}", wheel.display());
    let metadata = member(wheel, "torch-2.13.0+mock3.0.skeleton.dist-info/METADATA");
    let metadata = String::from_utf8(metadata).unwrap();
    assert!(
        metadata.contains("Requires-Dist: mock-runtime==3.0; platform_system == \"Linux\""),
        "{metadata}"
    );
    let main = facts(wheel, "torch/lib/libtorch_mock.so");
    assert!(main.needed.contains(&"libmockrt.so.3".to_owned()), "{:?}", main.needed);
    // What torch opens lazily may need the driver; what it opens at once may not.
    assert!(!main.needed.contains(&"libmockdriver.so.1".to_owned()));
    assert!(facts(wheel, "torch/lib/libcaffe2_mockrtc.so").needed.contains(&"libmockdriver.so.1".to_owned()));
}

fn tags(wheel: &Path) -> String {
    let name = wheel.file_name().unwrap().to_string_lossy().into_owned();
    name.splitn(3, '-').nth(2).unwrap().to_owned()
}

#[test]
fn stock_libraries_have_the_graph_of_the_real_ones() {
    let wheel = &sim().generated.stock_wheel;
    let needed = |name: &str| facts(wheel, &format!("torch/lib/{name}")).needed;
    assert_eq!(needed("libtorch.so"), ["libtorch_cpu.so", "libc.so.6"]);
    assert_eq!(
        needed("libtorch_python.so"),
        ["libtorch.so", "libshm.so", "libtorch_cpu.so", "libc10.so", "libc.so.6"]
    );
    let module = Archive::open(wheel).unwrap();
    let module = module.members().iter().find(|m| m.name.starts_with("torch/_C.")).unwrap();
    let module = facts(wheel, &module.name);
    assert_eq!(module.soname, None);
    assert_eq!(module.search_path, Some(runpath("$ORIGIN:$ORIGIN/lib")));
    for name in ["libc10.so", "libtorch_cpu.so", "libgomp.so.1"] {
        let facts = facts(wheel, &format!("torch/lib/{name}"));
        assert_eq!((facts.soname.as_deref(), facts.search_path), (Some(name), Some(runpath("$ORIGIN"))));
    }
}

fn runpath(value: &str) -> SearchPath {
    SearchPath { tag: Tag::Runpath, value: value.to_owned() }
}

#[test]
fn the_fork_has_search_paths_of_every_kind_and_versioned_symbols() {
    let wheel = sim().generated.vendor_wheel.as_ref().unwrap();
    let of = |name: &str| facts(wheel, &format!("torch/lib/{name}"));
    for name in ["libtorch_cpu.so", "libtorch_sim.so", "libtorch_python.so"] {
        let path = of(name).search_path.unwrap();
        assert!(path.tag == Tag::Rpath && path.value.len() > 160, "{name}: {path:?}");
    }
    assert_eq!(
        of("libc10.so").search_path,
        Some(SearchPath { tag: Tag::Rpath, value: "$ORIGIN".to_owned() })
    );
    assert_eq!(of("libtorch.so").search_path, Some(runpath("$ORIGIN")));
    assert_eq!(of("libtorch_global_deps.so").search_path.unwrap().tag, Tag::Runpath);
    assert_eq!(of("libc10_sim.so").search_path, None);

    let runtime = of("libtorch_sim.so").versions_needed;
    let runtime = runtime.iter().find(|need| need.file == "libsimrt.so.1").unwrap();
    let mut names: Vec<&str> = runtime.versions.iter().map(|version| version.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["SIMRT_1.0", "SIMRT_1.1"]);

    let members = Archive::open(wheel).unwrap();
    let carried = members.members().iter().find(|m| m.name.starts_with("torch.libs/libsimblas-")).unwrap();
    let carried = facts(wheel, &carried.name);
    let soname = carried.soname.unwrap();
    assert!(of("libtorch_cpu.so").needed.contains(&soname), "{soname}");
}

#[test]
fn headers_differ_in_one_file_and_the_fork_has_one_more() {
    let made = &sim().generated;
    let headers = |wheel: &Path| -> BTreeMap<String, Vec<u8>> {
        let archive = Archive::open(wheel).unwrap();
        let names =
            archive.members().iter().map(|m| m.name.clone()).filter(|n| n.starts_with("torch/include/"));
        names.map(|name| (name.clone(), member(wheel, &name))).collect()
    };
    let (stock, fork) = (headers(&made.stock_wheel), headers(made.vendor_wheel.as_ref().unwrap()));
    let differ: Vec<_> = stock.keys().filter(|name| stock[*name] != fork[*name]).collect();
    let new: Vec<_> = fork.keys().filter(|name| !stock.contains_key(*name)).collect();
    assert_eq!(differ, ["torch/include/torch/build.h"]);
    assert_eq!(new, ["torch/include/c10/sim/Stream.h"]);
}

/// Undefined symbols of the Python interpreter.
fn of_python(wheel: &Path) -> BTreeSet<String> {
    let name = "torch/lib/libtorch_python.so";
    let bytes = member(wheel, name);
    let symbols = torchfl_elf::symbols(&bytes, name).unwrap().map(Result::unwrap);
    let names = symbols.filter(|symbol| !symbol.defined).map(|symbol| symbol.name);
    names.filter(|name| name.starts_with("Py") || name.starts_with("_Py")).collect()
}

#[test]
fn for_a_python_that_is_not_here_names_and_undefined_symbols_are_as_for_one_that_is() {
    let manifest = torchfl_manifest::find("sim").unwrap();
    let dir = TempDir::new().unwrap();
    let made =
        Skeleton::generate_for(&manifest, dir.path(), &Target::elsewhere("cp399", None).unwrap()).unwrap();
    let wheel = made.vendor_wheel.unwrap();
    assert_eq!(tags(&wheel), format!("cp399-cp399-linux_{}.whl", std::env::consts::ARCH));
    let module = format!("torch/_C.cpython-399-{}-linux-gnu.so", std::env::consts::ARCH);
    assert!(facts(&wheel, &module).needed.contains(&"libtorch_python.so".to_owned()));
    let (mut here, elsewhere) =
        (of_python(sim().generated.vendor_wheel.as_ref().unwrap()), of_python(&wheel));
    // A macro there, a function here.
    here.insert("PyTuple_GetItem".to_owned());
    here.retain(|name| !["_Py_Dealloc", "_Py_IncRef"].contains(&name.as_str()));
    assert_eq!(elsewhere, here);
}

#[test]
fn a_tag_that_is_none_is_an_error_with_a_next_step() {
    for tag in ["py3", "cp", "cp3", "cp3x", "312"] {
        let error = Target::elsewhere(tag, None).unwrap_err();
        assert_eq!(
            (error.code(), error.hint().as_deref()),
            ("E-SKEL-006", Some("write it as cp312")),
            "{tag}"
        );
    }
}

#[test]
fn a_cross_compiler_that_is_not_there_is_named() {
    let manifest = torchfl_manifest::find("sim").unwrap();
    let dir = TempDir::new().unwrap();
    let target = Target::elsewhere("cp312", Some("nosuch")).unwrap();
    let error = Skeleton::generate_for(&manifest, dir.path(), &target).unwrap_err();
    assert_eq!(error.code(), "E-SKEL-002");
    assert!(error.hint().unwrap().contains("gcc-nosuch-linux-gnu"), "{:?}", error.hint());
}

#[test]
fn a_missing_interpreter_is_an_error_with_a_next_step() {
    let manifest = torchfl_manifest::find("sim").unwrap();
    let dir = TempDir::new().unwrap();
    let error = Skeleton::generate(&manifest, dir.path(), Path::new("no-such-python")).unwrap_err();
    assert_eq!(error.code(), "E-SKEL-001");
    assert!(error.hint().unwrap().contains("--python"));
    assert!(files(dir.path()).is_empty());
}

#[test]
fn every_embedded_manifest_has_a_skeleton_whose_own_torch_imports() {
    for (name, text) in torchfl_manifest::embedded() {
        let manifest = Manifest::parse(text, name).unwrap();
        // Without a fork a skeleton is the stock torch and the host's libraries: one such vendor stands for all.
        if manifest.bundle.is_none() && *name != "ascend" {
            continue;
        }
        let made = make(&manifest);
        let Some(wheel) = &made.generated.vendor_wheel else { continue };
        let archive = Archive::open(wheel).unwrap();
        let inside = |name: &str| archive.members().iter().any(|m| m.name == format!("torch/lib/{name}"));
        let bundle = manifest.bundle.as_ref().unwrap();
        for library in bundle.required.iter().chain(&bundle.optional) {
            assert!(inside(library), "{name}: no {}", library.as_str());
        }
        let version = String::from_utf8(member(wheel, "torch/version.py")).unwrap();
        for marker in &manifest.torch.markers {
            assert!(version.contains(marker.as_str()), "{name}: no {} in {version}", marker.as_str());
        }
        let wheels: Vec<&PathBuf> = made.generated.provided_wheels.iter().chain([wheel]).collect();
        let lib = bundle.search_path.iter().find_map(|entry| entry.strip_prefix("{sdk}/"));
        let sdk = made.generated.sdk_root.as_ref().zip(lib).map(|(root, lib)| root.join(lib));
        let (vendor, key) = (&made.generated.vendor, &made.generated.key);
        // A fork that asks for a library that nobody has waits for the one that the build generates.
        if let Some(shim) = manifest.shim.iter().find(|shim| shim.forward_to.is_some()) {
            let said = Env::with(&wheels).run(BUILDS, sdk.as_deref());
            assert!(said.contains(&format!("{}: cannot open shared object", shim.soname)), "{name}: {said}");
            continue;
        }
        assert_eq!(Env::with(&wheels).run(BUILDS, sdk.as_deref()), format!("['{vendor}'] {key}"), "{name}");
    }
}

#[test]
fn the_program_prints_paths_as_json_and_errors_with_code_and_hint() {
    let program = env!("CARGO_BIN_EXE_torchfl-skeleton");
    let dir = TempDir::new().unwrap();
    let made = run(Command::new(program).args(["sim", "--json", "-o"]).arg(dir.path()));
    let json: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    assert!(Path::new(json["vendor_wheel"].as_str().unwrap()).is_file(), "{json}");
    let failed = run(Command::new(program).args(["simm", "-o"]).arg(dir.path()));
    assert!(!failed.status.success());
    let said = text(&failed);
    assert!(said.starts_with("error[E-MAN-101]: ") && said.contains("hint: did you mean `sim`?"), "{said}");
}
