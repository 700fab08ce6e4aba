//! A machine to run on: this one, and `AArch64` by qemu.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use torchfl_shim::{Answer, Arch, Compiler, Spec, compile};

pub(crate) const SONAME: &str = "libacmert.so.12";
pub(crate) const TARGET: &str = "libacmesym.so";

/// Functions that go on, but for the one that answers.
const FUNCTIONS: &[&str] = &[
    "acme_ints",
    "acme_reals",
    "acme_ten",
    "acme_large",
    "acme_pair",
    "acme_vector",
    "acme_sum",
    "acme_list",
    "acme_call_back",
    "acme_absent",
    "acme_self",
];

pub(crate) fn forwarder(arch: Arch) -> Spec {
    Spec {
        arch,
        soname: SONAME.to_owned(),
        search: None,
        functions: FUNCTIONS.iter().map(|name| (*name).to_owned()).collect(),
        returns: BTreeMap::from([("acme_answered".to_owned(), 801)]),
        rest: Answer::Forward { to: TARGET.to_owned(), version: SONAME.to_owned() },
    }
}

pub(crate) fn refuser(arch: Arch, functions: &[&str], returns: &[(&str, i64)]) -> Spec {
    Spec {
        arch,
        soname: "libacme_gap.so".to_owned(),
        search: None,
        functions: functions.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(),
        returns: returns.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        rest: Answer::Refuse { why: " is not in the stock core; nobody said what it returns".to_owned() },
    }
}

pub(crate) fn own() -> Arch {
    std::env::consts::ARCH.parse().unwrap()
}

pub(crate) struct Rig {
    pub(crate) arch: Arch,
    pub(crate) dir: TempDir,
    pub(crate) compiler: Compiler,
    /// What a program is started with.
    runner: Vec<String>,
}

/// This machine, and `AArch64` where its compiler and an emulator are.
pub(crate) fn rigs() -> Vec<Rig> {
    let mut rigs = vec![Rig::new(own(), Vec::new()).unwrap()];
    if own() != Arch::Aarch64 {
        let emulator = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"].map(str::to_owned).to_vec();
        match Rig::new(Arch::Aarch64, emulator) {
            Ok(rig) => rigs.push(rig),
            // Not by eprintln, which the test harness keeps to itself.
            Err(why) => drop(writeln!(std::io::stderr(), "not run: the calls on aarch64: {why}")),
        }
    }
    rigs
}

impl Rig {
    fn new(arch: Arch, runner: Vec<String>) -> Result<Self, String> {
        let compiler = Compiler::ask(Path::new(&arch.compiler()), arch).map_err(|error| error.to_string())?;
        if let Some(emulator) = runner.first() {
            let there = Command::new(emulator).arg("--version").output();
            there.map_err(|error| format!("{emulator}: {error}"))?;
        }
        let dir = TempDir::new().unwrap();
        for (name, text) in [
            ("acme.h", include_str!("acme.h")),
            ("target.c", include_str!("target.c")),
            ("program.c", include_str!("program.c")),
        ] {
            fs_err::write(dir.path().join(name), text).unwrap();
        }
        Ok(Self { arch, dir, compiler, runner })
    }

    pub(crate) fn path(&self, inner: &str) -> PathBuf {
        self.dir.path().join(inner)
    }

    pub(crate) fn write(&self, inner: &str, text: &str) {
        let path = self.path(inner);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }

    /// Runs the compiler with these words in the rig's folder.
    pub(crate) fn cc(&self, words: &str) {
        let mut cc = Command::new(&self.compiler.program);
        let made = cc.args(words.split_whitespace()).current_dir(self.dir.path()).output().unwrap();
        assert!(made.status.success(), "{words}: {}", String::from_utf8_lossy(&made.stderr));
    }

    /// Generates a library into `folder`, under its SONAME.
    pub(crate) fn shim(&self, spec: &Spec, folder: &str) -> PathBuf {
        let bytes = compile(spec, &self.compiler, self.dir.path()).unwrap();
        let path = self.path(&format!("{folder}/{}", spec.soname));
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, bytes).unwrap();
        path
    }

    /// Compiles the program against what the fork was built with: a library with the real names, one version, and
    /// other answers. It is not what the program meets at run time.
    pub(crate) fn program(&self) {
        let all = FUNCTIONS.iter().map(|name| format!("void {name}(void) {{}}\n"));
        self.write(
            "link/real.c",
            &all.chain(["void acme_answered(void) {}\n".to_owned()]).collect::<String>(),
        );
        self.write("link/real.map", &format!("{SONAME} {{ global: *; }};\n"));
        self.cc(&format!(
            "-shared -fPIC -w link/real.c -o link/{SONAME} -Wl,-soname,{SONAME} -Wl,--version-script=link/real.map"
        ));
        self.cc(&format!("-O1 program.c -o program link/{SONAME} -ldl -pthread"));
    }

    /// Compiles the library that calls go to.
    pub(crate) fn target(&self, folder: &str, more: &str) {
        fs_err::create_dir_all(self.path(folder)).unwrap();
        self.cc(&format!("-shared -fPIC -O1 target.c -o {folder}/{TARGET} -Wl,-soname,{TARGET} {more}"));
    }

    /// Starts a program with these words, and `folders` to look for libraries in.
    pub(crate) fn run(&self, words: &str, folders: &[&str]) -> Output {
        let folders: Vec<String> =
            folders.iter().map(|folder| self.path(folder).to_str().unwrap().to_owned()).collect();
        let library_path = format!("LD_LIBRARY_PATH={}", folders.join(":"));
        let mut all = self.runner.clone();
        if !all.is_empty() {
            all.extend(["-E".to_owned(), library_path.clone()]);
        }
        let mut words = words.split_whitespace();
        all.push(self.path(words.next().unwrap()).to_str().unwrap().to_owned());
        all.extend(words.map(str::to_owned));
        let mut command = Command::new(&all[0]);
        if self.runner.is_empty() {
            command.env("LD_LIBRARY_PATH", folders.join(":"));
        }
        command.args(&all[1..]).current_dir(self.dir.path()).output().unwrap()
    }
}

/// What a run said, and how it ended: an exit code, or a signal.
pub(crate) fn told(output: &Output) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    let ended = match (output.status.code(), output.status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or_default()),
    };
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // qemu says so itself that its guest died.
    let err: Vec<&str> = err.lines().filter(|line| !line.starts_with("qemu: ")).collect();
    format!("{ended}\n{out}{}", err.join("\n")).trim_end().to_owned()
}
