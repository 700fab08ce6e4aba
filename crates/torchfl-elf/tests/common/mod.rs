//! Fixtures: small C sources compiled at test time, a loader program, and checks of a patched file.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers may fail the test")]
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod bytes;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use torchfl_elf::{Edit, Facts, FileAt, SearchPath, Symbol, Tag, facts, symbols};

/// Opens `argv[1]`, calls the function `argv[2]` of it and prints what it returns.
const LOADER: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
    void *lib = dlopen(argv[1], RTLD_NOW);
    if (!lib) { puts(dlerror()); return 1; }
    int (*f)(void) = (int (*)(void))dlsym(lib, argv[2]);
    if (!f) { puts(dlerror()); return 2; }
    printf("%d\n", f());
    return 0;
}
"#;

/// A folder of fixtures; gone when dropped.
pub(crate) struct Bench {
    pub(crate) dir: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Compiles `source`; panics with the compiler's words where that fails.
    pub(crate) fn cc(&self, name: &str, source: &str, args: &[&str]) -> PathBuf {
        self.try_cc(name, source, args).unwrap_or_else(|why| panic!("cc {args:?}: {why}"))
    }

    pub(crate) fn try_cc(&self, name: &str, source: &str, args: &[&str]) -> Result<PathBuf, String> {
        let out = self.path(name);
        fs_err::create_dir_all(out.parent().unwrap()).unwrap();
        let text = self.path("source.c");
        fs_err::write(&text, source).unwrap();
        let mut cc = Command::new("cc");
        cc.arg(&text).arg("-o").arg(&out).args(args).current_dir(self.dir.path());
        let output = cc.output().map_err(|e| e.to_string())?;
        if output.status.success() { Ok(out) } else { Err(text_of(&output)) }
    }

    pub(crate) fn library(&self, name: &str, source: &str, args: &[&str]) -> PathBuf {
        self.cc(name, source, &[&["-shared", "-fPIC"], args].concat())
    }

    /// What `function` of `library` returns in a process of its own; `Err` is what the loader said.
    pub(crate) fn call(&self, library: &Path, function: &str) -> Result<i32, String> {
        let loader = self.path("loader");
        if !loader.exists() {
            self.cc("loader", LOADER, &["-ldl"]);
        }
        let output = Command::new(loader).arg(library).arg(function).output().unwrap();
        if output.status.success() {
            Ok(text_of(&output).trim().parse().unwrap())
        } else {
            Err(text_of(&output))
        }
    }
}

pub(crate) fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

pub(crate) fn run(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).output().unwrap_or_else(|e| panic!("{program}: {e}"))
}

pub(crate) fn set(tag: Tag, value: &str) -> Edit {
    Edit::Set { tag, value: value.to_owned() }
}

pub(crate) fn facts_of(path: &Path) -> Facts {
    facts(&FileAt::open(path).unwrap(), &path.display().to_string()).unwrap()
}

pub(crate) fn search_path(path: &Path) -> Option<(Tag, String)> {
    facts_of(path).search_path.map(|SearchPath { tag, value }| (tag, value))
}

pub(crate) fn symbols_of(path: &Path) -> Vec<Symbol> {
    let file = FileAt::open(path).unwrap();
    symbols(&file, "x").unwrap().collect::<Result<_, _>>().unwrap()
}

pub(crate) fn loads(path: &Path) -> usize {
    facts_of(path).segments.iter().filter(|segment| segment.kind == 1).count()
}

/// Everything that must survive a patch: names, versions, symbols, and readelf's silence.
pub(crate) fn assert_kept(before: &Path, after: &Path) {
    let (old, new) = (facts_of(before), facts_of(after));
    assert_eq!(old.soname, new.soname);
    assert_eq!(old.needed, new.needed);
    assert_eq!(old.versions_needed, new.versions_needed);
    assert_eq!(old.versions_defined, new.versions_defined);
    assert_eq!(old.interpreter, new.interpreter);
    assert_eq!(old.build_id, new.build_id);
    assert_eq!(symbols_of(before), symbols_of(after));
    let said = |path: &Path| {
        let output = run("readelf", &["-lSdsVW", path.to_str().unwrap()]);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_eq!(said(after), said(before), "readelf complains");
}
