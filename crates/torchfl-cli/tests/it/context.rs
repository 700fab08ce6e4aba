//! A folder to run the command in, and its runs as texts that do not depend on the machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use regex::Regex;
use serde_json::Value;
use tempfile::TempDir;
use torchfl_skeleton::Skeleton;
use torchfl_wheel::Archive;

pub(crate) const SIM: &str = include_str!("../../../../vendor-manifests/sim.toml");

/// What differs between machines and runs, and what stands for it.
const FILTERS: &[(&str, &str)] = &[
    (r"cp3\d+", "cp3XX"),
    (r"cpython-3\d+", "cpython-3XX"),
    (r"x86[_-]64|aarch64", "[ARCH]"),
    (r"libsimblas-[0-9a-f]{8}", "libsimblas-[HASH]"),
    (r"manylinux_2_\d+", "manylinux_2_XX"),
    (r"GLIBC_2\.[\d.]+", "GLIBC_[VERSION]"),
    (r"(?m)^(  glibc +)2\.\d+$", "${1}[VERSION]"),
    (r" +\d+\.\d [kM]B", " [SIZE]"),
    (r"\.[A-Za-z0-9]{6}\.tmp", ".[RANDOM].tmp"),
    (r"in \d+\.\d s", "in [TIME]"),
    (r"[0-9a-f]{64}", "[SHA256]"),
    (r"(?m)^(  build-id +)[0-9a-f]+$", "${1}[ID]"),
    (r#""(bytes|compressed)": \d+"#, r#""$1": [BYTES]"#),
    (r#""seconds": [\d.]+"#, r#""seconds": [SECONDS]"#),
    (r"torchfl \d+\.\d+\.\d+", "torchfl [VERSION]"),
];

/// The folder that holds a vendor's skeleton: `stock/`, `vendor/`, and for `sim` `opt/sim/`.
///
/// Each test may be a process of its own, so it is kept beside the build outputs, for as long as this very program,
/// which the generator is part of, stays the same.
pub(crate) fn skeleton(vendor: &str) -> PathBuf {
    let keep = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("skeleton-{vendor}"));
    fs_err::create_dir_all(&keep).unwrap();
    let lock = fs_err::File::create(keep.join("lock")).unwrap().into_parts().0;
    lock.lock().unwrap();
    let program = fs_err::metadata(std::env::current_exe().unwrap()).unwrap();
    let stamp = format!("{} {:?}", program.len(), program.modified().unwrap());
    let made = keep.join("made");
    if fs_err::read_to_string(keep.join("stamp")).unwrap_or_default() != stamp {
        if made.exists() {
            fs_err::remove_dir_all(&made).unwrap();
        }
        Skeleton::generate(&torchfl_manifest::find(vendor).unwrap(), &made, Path::new("python3")).unwrap();
        fs_err::write(keep.join("stamp"), stamp).unwrap();
    }
    made
}

/// The one wheel in a folder.
pub(crate) fn wheel_in(folder: &Path) -> PathBuf {
    let files = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let wheels: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|e| e == "whl")).collect();
    assert_eq!(wheels.len(), 1, "{wheels:?}");
    wheels[0].clone()
}

/// All names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs_err::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// `build.json` of a wheel.
pub(crate) fn build_json(wheel: &Path) -> Value {
    serde_json::from_slice(&Archive::open(wheel).unwrap().read("torch_fl/build.json", 1 << 20).unwrap())
        .unwrap()
}

pub(crate) struct Context {
    dir: TempDir,
}

impl Context {
    /// A fresh folder. In it `sk` leads to the sample vendor.
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        std::os::unix::fs::symlink(skeleton("sim"), dir.path().join("sk")).unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self, inner: &str) -> PathBuf {
        self.dir.path().join(inner)
    }

    pub(crate) fn write(&self, inner: &str, text: &str) {
        let path = self.path(inner);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }

    /// The sample vendor's manifest with `old` replaced by `new`, as `m.toml`.
    pub(crate) fn manifest(&self, edits: &[(&str, &str)]) {
        let mut text = SIM.to_owned();
        for (old, new) in edits {
            assert_eq!(text.matches(old).count(), 1, "{old} must stand once in sim.toml");
            text = text.replace(old, new);
        }
        self.write("m.toml", &text);
    }

    /// Unpacks the vendor's torch (`vendor`) or the stock one (`stock`) into the folder `site`.
    pub(crate) fn unpack(&self, which: &str, site: &str) {
        let archive = Archive::open(&wheel_in(&skeleton("sim").join(which))).unwrap();
        for member in archive.members() {
            let path = self.path(site).join(&member.name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, archive.read(&member.name, 1 << 24).unwrap()).unwrap();
        }
    }

    /// Compiles an empty library with these options.
    pub(crate) fn library(&self, inner: &str, options: &[&str]) {
        self.write("empty.c", "int nothing(void) { return 0; }\n");
        let path = self.path(inner);
        let mut cc = Command::new("cc");
        let made = cc
            .args(["-shared", "-fPIC", "-o"])
            .arg(path)
            .arg(self.path("empty.c"))
            .args(options)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    /// The command with these words; `{torch}`, `{stock}` and `{sdk}` stand for the sample vendor's.
    pub(crate) fn command(&self, words: &str) -> Command {
        let inner = |folder: &str| {
            let wheel = wheel_in(&self.path(&format!("sk/{folder}")));
            format!("sk/{folder}/{}", wheel.file_name().unwrap().to_string_lossy())
        };
        let words = words.replace("{torch}", &inner("vendor")).replace("{stock}", &inner("stock"));
        let words = words.replace("{sdk}", "sk/opt/sim");
        let mut command = Command::new(env!("CARGO_BIN_EXE_torchfl"));
        command.args(words.split_whitespace()).current_dir(self.dir.path());
        for name in ["PYTHONPATH", "PYTHONHOME", "FORCE_COLOR", "CLICOLOR_FORCE", "CC"] {
            command.env_remove(name);
        }
        command.env("NO_COLOR", "1").env("COLUMNS", "100");
        command
    }

    pub(crate) fn output(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    /// The whole run as one text.
    pub(crate) fn run(&self, words: &str) -> String {
        self.show(&self.output(words))
    }

    pub(crate) fn show(&self, output: &Output) -> String {
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let code = output.status.code().map_or_else(|| output.status.to_string(), |code| code.to_string());
        self.filter(&format!("exit: {code}\n--- stdout\n{out}--- stderr\n{err}"))
    }

    /// A text without what is this machine's and this run's.
    pub(crate) fn filter(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for path in [self.dir.path().to_owned(), fs_err::canonicalize(self.dir.path()).unwrap()] {
            text = text.replace(path.to_str().unwrap(), "[DIR]");
        }
        for (pattern, instead) in FILTERS {
            text = Regex::new(pattern).unwrap().replace_all(&text, *instead).into_owned();
        }
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }

    /// stdout of a run that succeeds.
    pub(crate) fn stdout(&self, words: &str) -> String {
        let output = self.output(words);
        assert!(output.status.success(), "{}", self.show(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// stdout of a run that succeeds, as JSON.
    pub(crate) fn json(&self, words: &str) -> Value {
        serde_json::from_str(&self.stdout(&format!("--json {words}"))).unwrap()
    }

    /// Builds the sample vendor into `folder`, and returns the wheel.
    pub(crate) fn build(&self, more: &str, folder: &str) -> PathBuf {
        self.stdout(&format!("build sim --torch {{torch}} --front {{stock}} {more} -o {folder}"));
        wheel_in(&self.path(folder))
    }
}
