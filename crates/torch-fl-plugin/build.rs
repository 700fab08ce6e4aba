//! Compiles `shim/` against a torch (feature `torch`), and writes what its headers say as tables for both languages.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "torch")]
    torch::build();
}

#[cfg(feature = "torch")]
#[path = "src/autocast.rs"]
#[allow(dead_code, unreachable_pub, reason = "the library uses all of it")]
mod autocast;
#[cfg(feature = "torch")]
#[path = "src/signatures.rs"]
#[allow(dead_code, unreachable_pub, reason = "the library uses all of it")]
mod signatures;

#[cfg(feature = "torch")]
mod torch {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::SystemTime;
    use std::{env, process};

    use super::{autocast, signatures};

    /// So many signatures serve nearly all operators that have a kernel of their own; the rest are boxed.
    const SIGNATURES: usize = 420;
    /// Translation units for them: what two processors need to be busy to the end.
    const PARTS: usize = 6;

    fn fail(message: &str) -> ! {
        println!("cargo:error={message}");
        process::exit(1);
    }

    fn need(name: &str, what: &str) -> String {
        println!("cargo:rerun-if-env-changed={name}");
        env::var(name).unwrap_or_else(|_| fail(&format!("{name} is not set: {what}")))
    }

    fn read(path: &Path) -> String {
        println!("cargo:rerun-if-changed={}", path.display());
        fs_err::read_to_string(path).unwrap_or_else(|e| fail(&e.to_string()))
    }

    /// Leaves a file alone that says so already: what depends on it stays fresh.
    fn write(path: &Path, text: &str) {
        if fs_err::read_to_string(path).is_ok_and(|old| old == text) {
            return;
        }
        fs_err::write(path, text).unwrap_or_else(|e| fail(&e.to_string()));
    }

    struct Inputs {
        include: PathBuf,
        lib: PathBuf,
        python: PathBuf,
        defines: Vec<String>,
        sanitize: Option<String>,
        out: PathBuf,
    }

    impl Inputs {
        fn from_environment() -> Inputs {
            let torch =
                PathBuf::from(need("TORCH_FL_TORCH", "the folder of the torch package to compile against"));
            println!("cargo:rerun-if-env-changed=TORCH_FL_SANITIZE");
            let sanitize = env::var("TORCH_FL_SANITIZE").ok().filter(|s| !s.is_empty());
            if sanitize.as_deref().is_some_and(|s| s != "address" && s != "thread") {
                fail("TORCH_FL_SANITIZE is neither address nor thread");
            }
            println!("cargo:rerun-if-env-changed=TORCH_FL_DEFINES");
            let defines = env::var("TORCH_FL_DEFINES").unwrap_or_default();
            Inputs {
                include: torch.join("include"),
                lib: torch.join("lib"),
                python: need("TORCH_FL_PYTHON_INCLUDE", "the folder that has Python.h").into(),
                defines: defines.split_whitespace().map(str::to_owned).collect(),
                sanitize,
                out: need("OUT_DIR", "").into(),
            }
        }
    }

    pub(crate) fn build() {
        let inputs = Inputs::from_environment();
        let generated = write_tables(&inputs);
        write(&inputs.out.join("built.json"), &built(&inputs));
        compile(&inputs, &generated);
        link(&inputs);
    }

    /// `ATen/ops/*_ops.h` and its like, as tables; the C++ files that follow from them.
    fn write_tables(inputs: &Inputs) -> Vec<PathBuf> {
        let ops = inputs.include.join("ATen/ops");
        let entries = fs_err::read_dir(&ops).unwrap_or_else(|e| fail(&e.to_string()));
        let mut headers: Vec<PathBuf> = entries
            .filter_map(|e| Some(e.ok()?.path()))
            .filter(|p| p.to_str().is_some_and(|p| p.ends_with("_ops.h")))
            .collect();
        headers.sort();
        let text = |p: &PathBuf| fs_err::read_to_string(p).unwrap_or_else(|e| fail(&e.to_string()));
        let operators: Vec<_> = headers.iter().flat_map(|p| signatures::read_header(&text(p))).collect();
        let dispatched =
            signatures::read_dispatched(&read(&inputs.include.join("ATen/RegistrationDeclarations.h")));
        let choice = signatures::choose(&operators, &dispatched, SIGNATURES);
        let policies = autocast::read(&read(&inputs.include.join("ATen/autocast_mode.h")));
        if choice.operators.is_empty() || policies.len() < 2 {
            fail("the headers of this torch do not read as expected: no operators, or no autocast policies");
        }
        write(&inputs.out.join("tables.rs"), &(signatures::table(&choice) + &autocast::table(&policies)));
        let mut files = vec![inputs.out.join("typed_index.cpp")];
        write(&files[0], &signatures::index_source(PARTS));
        for part in 0..PARTS {
            files.push(inputs.out.join(format!("typed_{part}.cpp")));
            write(&files[part + 1], &signatures::source(&choice, part, PARTS));
        }
        files
    }

    /// What this build is, as JSON: in the extension as `BUILT`, and in the file as its section `.torch_fl`.
    fn built(inputs: &Inputs) -> String {
        let version = read(&inputs.include.join("torch/headeronly/version.h"));
        let python = read(&inputs.python.join("patchlevel.h"));
        let number = |text: &str, name: &str| {
            let define = format!("#define {name}");
            let line =
                text.lines().find(|l| l.split_whitespace().nth(1) == Some(name) && l.starts_with("#define"));
            let value = line.and_then(|l| l[define.len()..].split_whitespace().next().map(str::to_owned));
            value.unwrap_or_else(|| fail(&format!("no {name} in the headers")))
        };
        let torch =
            ["MAJOR", "MINOR", "PATCH"].map(|n| number(&version, &format!("TORCH_VERSION_{n}"))).join(".");
        let tag = format!("cp{}{}", number(&python, "PY_MAJOR_VERSION"), number(&python, "PY_MINOR_VERSION"));
        let defines: Vec<_> = inputs.defines.iter().map(|d| format!("{d:?}")).collect();
        let sanitize = inputs.sanitize.as_deref().unwrap_or_default();
        format!(
            "{{\"torch\": \"{torch}\", \"python\": \"{tag}\", \"target\": \"cuda\", \"defines\": [{}], \"sanitize\": \"{sanitize}\"}}\n",
            defines.join(", ")
        )
    }

    fn compile(inputs: &Inputs, generated: &[PathBuf]) {
        let mut build = cc::Build::new();
        build.cpp(true).std("c++20").opt_level(2).debug(inputs.sanitize.is_some()).pic(true).warnings(true);
        build.extra_warnings(true).flag("-Wno-unused-parameter").flag("-fvisibility=hidden");
        build
            .flag("-fvisibility-inlines-hidden")
            .define("NDEBUG", None)
            .define("AT_PER_OPERATOR_HEADERS", None)
            .include("shim");
        for path in [&inputs.include, &inputs.include.join("torch/csrc/api/include"), &inputs.python] {
            build.flag("-isystem").flag(path);
        }
        for (from, to) in [
            (&inputs.out, "out"),
            (&inputs.include, "torch"),
            (&env::current_dir().unwrap_or_default(), "plugin"),
        ] {
            build.flag(format!("-ffile-prefix-map={}={to}", from.display()));
        }
        for define in &inputs.defines {
            let (name, value) = define.split_once('=').map_or((define.as_str(), None), |(n, v)| (n, Some(v)));
            build.define(name, value);
        }
        if let Some(kind) = &inputs.sanitize {
            build
                .define("FL_SANITIZE", None)
                .flag(format!("-fsanitize={kind}"))
                .flag("-fno-omit-frame-pointer");
        }
        // Not the command as a whole: it has the environment in it, which differs from run to run.
        let compiler = build.get_compiler();
        let flags = format!("{:?} {:?}", compiler.path(), compiler.args());
        write(&inputs.out.join("flags"), &flags);
        let shim = fs_err::read_dir("shim").unwrap_or_else(|e| fail(&e.to_string()));
        let mut files: Vec<PathBuf> = shim.filter_map(|e| Some(e.ok()?.path())).collect();
        files.sort();
        for file in &files {
            println!("cargo:rerun-if-changed={}", file.display());
        }
        let common = ["compat.h", "ffi.h", "fl.h"].map(|h| modified(&Path::new("shim").join(h)));
        let common = common.into_iter().chain([modified(&inputs.out.join("flags"))]).max().flatten();
        precompile(&build, inputs, common);
        build.flag("-include").flag(inputs.out.join("pch/fl.h"));
        // The slow ones first.
        let shim = files.into_iter().filter(|p| p.extension().is_some_and(|e| e == "cpp"));
        let all: Vec<PathBuf> = generated.iter().rev().cloned().chain(shim).collect();
        let objects = objects(&build, inputs, &all, common);
        cc::Build::new().link_lib_modifier("+whole-archive").objects(objects).compile("flshim");
    }

    fn modified(path: &Path) -> Option<SystemTime> {
        path.metadata().and_then(|m| m.modified()).ok()
    }

    /// Compiles what is older than its source or the headers: a change to one file of the shim costs that file.
    fn objects(
        build: &cc::Build,
        inputs: &Inputs,
        files: &[PathBuf],
        common: Option<SystemTime>,
    ) -> Vec<PathBuf> {
        let folder = inputs.out.join("objects");
        fs_err::create_dir_all(&folder).unwrap_or_else(|e| fail(&e.to_string()));
        let object = |file: &PathBuf| folder.join(file.file_stem().unwrap_or_default()).with_extension("o");
        let typed = modified(Path::new("shim/typed.h"));
        let stale = |file: &&PathBuf| {
            let headers = if file.starts_with(&inputs.out) { common.max(typed) } else { common };
            modified(&object(file)) <= modified(file).max(headers)
        };
        let stale: Vec<&PathBuf> = files.iter().filter(stale).collect();
        let workers = env::var("NUM_JOBS").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some(file) = stale.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let mut compiler = build.get_compiler().to_command();
                        compiler.arg("-c").arg(file).arg("-o").arg(object(file));
                        if !compiler.status().is_ok_and(|s| s.success()) {
                            failed.store(true, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        if failed.into_inner() {
            fail("the shim does not compile: the compiler's messages are above");
        }
        files.iter().map(object).collect()
    }

    /// PyTorch's headers are most of what a file of the shim compiles: once is enough.
    fn precompile(build: &cc::Build, inputs: &Inputs, common: Option<SystemTime>) {
        let folder = inputs.out.join("pch");
        let result = folder.join("fl.h.gch");
        if modified(&result) > common {
            return;
        }
        fs_err::create_dir_all(&folder).unwrap_or_else(|e| fail(&e.to_string()));
        fs_err::copy("shim/fl.h", folder.join("fl.h")).unwrap_or_else(|e| fail(&e.to_string()));
        let mut compiler = build.get_compiler().to_command();
        compiler.args(["-x", "c++-header"]).arg(folder.join("fl.h")).arg("-o").arg(&result);
        match compiler.status() {
            Ok(status) if status.success() => {}
            Ok(status) => fail(&format!("the compiler ended with {status} on shim/fl.h")),
            Err(e) => fail(&format!("the compiler does not start: {e}")),
        }
    }

    fn link(inputs: &Inputs) {
        println!("cargo:rustc-link-search=native={}", inputs.lib.display());
        for library in ["torch_python", "torch", "torch_cpu", "c10"] {
            println!("cargo:rustc-link-lib=dylib={library}");
        }
        println!("cargo:rustc-link-lib=dylib=stdc++");
        println!("cargo:rustc-cdylib-link-arg=-Wl,--as-needed");
        if let Some(kind) = &inputs.sanitize {
            println!("cargo:rustc-cdylib-link-arg=-fsanitize={kind}");
        }
    }
}
