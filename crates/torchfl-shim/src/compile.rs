//! One library by a run of the C compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;

use crate::{Answer, Arch, Error, Search, Source, Spec, source};

/// Of every compilation. No unwind tables: nothing of a generated function is left on the stack when it goes on.
const FLAGS: &[&str] = &[
    "-shared",
    "-fPIC",
    "-O1",
    "-g0",
    "-s",
    "-std=c11",
    "-ffreestanding",
    "-nostdlib",
    "-fno-ident",
    "-fno-lto",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fno-unwind-tables",
    "-Wl,--build-id=none",
    "-Wl,--hash-style=gnu",
    "-Wl,--no-as-needed",
    "-Wl,-z,defs",
    "-Wl,-z,noexecstack",
    "-Wl,-z,now",
    "-Wl,-z,relro",
];

/// Variables that add to what the compiler or the linker is told.
const MEDDLERS: &[&str] = &[
    "CCC_OVERRIDE_OPTIONS",
    "COMPILER_PATH",
    "CPATH",
    "C_INCLUDE_PATH",
    "DEPENDENCIES_OUTPUT",
    "GCC_EXEC_PREFIX",
    "LD_RUN_PATH",
    "LIBRARY_PATH",
    "NIX_CFLAGS_COMPILE",
    "NIX_CFLAGS_LINK",
    "NIX_LDFLAGS",
    "SUNPRO_DEPENDENCIES",
];

/// A C compiler that has said what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    /// The program.
    pub program: PathBuf,
    /// The first line of `--version`.
    pub version: String,
    /// The first line of its linker's `--version`.
    pub linker: String,
}

impl Compiler {
    /// Asks a program, gcc or clang, what it is, and whether it compiles for `arch`.
    pub fn ask(program: &Path, arch: Arch) -> Result<Self, Error> {
        // It is run from another folder later; a bare name is looked for in PATH.
        let program = match program.components().count() {
            0 | 1 => program.to_owned(),
            _ => std::path::absolute(program)?,
        };
        let program = program.as_path();
        let line = |option: &'static str| {
            let output = command(program).arg(option).output().map_err(|source| Error::NoCompiler {
                program: program.to_owned(),
                arch: arch.to_string(),
                source,
            })?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            match text.lines().next().filter(|_| output.status.success()) {
                Some(first) => Ok(first.trim().to_owned()),
                None => Err(Error::Odd { program: program.to_owned(), option, told: told(&output.stderr) }),
            }
        };
        let version = line("--version")?;
        let machine = line("-dumpmachine")?;
        let found = machine.split('-').next().unwrap_or(&machine);
        if found != arch.as_str() {
            let (found, wanted) = (machine.clone(), arch.to_string());
            return Err(Error::Machine { program: program.to_owned(), found, wanted });
        }
        Ok(Self { program: program.to_owned(), version, linker: line("-Wl,--version")? })
    }
}

/// Makes a library and returns its bytes. `scratch` is a folder for its sources, which are gone afterwards.
pub fn compile(spec: &Spec, compiler: &Compiler, scratch: &Path) -> Result<Vec<u8>, Error> {
    let Source { c, versions } = source(spec)?;
    let folder = tempfile::Builder::new().prefix(".torchfl-shim-").tempdir_in(scratch)?;
    let folder = folder.path();
    fs::write(folder.join("shim.c"), c)?;
    fs::write(folder.join("shim.map"), versions)?;
    let cc = Cc { compiler, arch: spec.arch, folder };

    let mut words: Vec<&str> = vec!["shim.c", "-o", "shim.so", "-Wl,--version-script=shim.map"];
    words.extend(["-Xlinker", "-soname", "-Xlinker", &spec.soname]);
    match &spec.search {
        None => {}
        Some(Search::Rpath(path)) => {
            words.extend(["-Wl,--disable-new-dtags", "-Xlinker", "-rpath", "-Xlinker", path]);
        }
        Some(Search::Runpath(path)) => {
            words.extend(["-Wl,--enable-new-dtags", "-Xlinker", "-rpath", "-Xlinker", path]);
        }
    }
    // Since glibc 2.34 libdl.so.2 is empty and libc.so.6 has its functions, in the version that it had; in an older
    // one libdl.so.2 has them. It is there in both, so who names it is served by both.
    let stand_ins: &[(&str, &str, &[&str])] = match spec.rest {
        Answer::Forward { .. } => {
            &[("dl", "libdl.so.2", &["dlopen", "dlsym", "dlerror"]), ("c", "libc.so.6", &["abort", "write"])]
        }
        Answer::Refuse { .. } => &[("c", "libc.so.6", &["abort", "write"])],
    };
    for (stem, soname, functions) in stand_ins {
        cc.stand_in(stem, soname, functions)?;
    }
    let files: Vec<String> = stand_ins.iter().map(|(stem, ..)| format!("{stem}.so")).collect();
    words.extend(files.iter().map(String::as_str));
    cc.run(&spec.soname, &words)?;
    match fs::read(folder.join("shim.so")) {
        Ok(bytes) if bytes.starts_with(b"\x7fELF") => Ok(bytes),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Err(Error::Compile {
            program: compiler.program.clone(),
            soname: spec.soname.clone(),
            told: "it ended well, and wrote no library".to_owned(),
        }),
    }
}

struct Cc<'a> {
    compiler: &'a Compiler,
    arch: Arch,
    folder: &'a Path,
}

impl Cc<'_> {
    /// A library with glibc's names in their oldest version, to link against.
    fn stand_in(&self, stem: &str, soname: &str, functions: &[&str]) -> Result<(), Error> {
        let text: Vec<String> = functions.iter().map(|name| format!("void {name}(void) {{}}\n")).collect();
        let (c, map) = (format!("{stem}.c"), format!("{stem}.map"));
        fs::write(self.folder.join(&c), text.concat())?;
        fs::write(
            self.folder.join(&map),
            format!("{} {{ {}; }};\n", self.arch.oldest(), functions.join("; ")),
        )?;
        let (out, script) = (format!("{stem}.so"), format!("-Wl,--version-script={map}"));
        self.run(soname, &[&c, "-o", &out, &script, "-Xlinker", "-soname", "-Xlinker", soname])
    }

    fn run(&self, soname: &str, words: &[&str]) -> Result<(), Error> {
        let program = &self.compiler.program;
        let mut command = command(program);
        // Relative names alone: the folder shows in nothing.
        let output =
            command.current_dir(self.folder).args(FLAGS).args(self.arch.flags()).args(words).output();
        let output = output.map_err(|source| Error::NoCompiler {
            program: program.clone(),
            arch: self.arch.to_string(),
            source,
        })?;
        if output.status.success() {
            return Ok(());
        }
        let mut told = told(&output.stderr);
        if told.is_empty() {
            told = output.status.to_string();
        }
        Err(Error::Compile { program: program.clone(), soname: soname.to_owned(), told })
    }
}

/// The compiler, of whose environment nothing counts that would change what it makes.
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for name in MEDDLERS {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C");
    command
}

/// The end of what a compiler said, without empty lines.
fn told(stderr: &[u8]) -> String {
    const LINES: usize = 20;
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
