//! Package indexes, through pip: it knows where this user's are, and how to sign in there.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use torchfl_wheel::Sha256;

use crate::{Error, Want, What, WrongSum};

/// The newest glibc whose tag is asked for, 2.N; newer than any that is out.
const NEWEST_GLIBC: u32 = 50;
/// The oldest one that has a tag of its own (PEP 600).
const OLDEST_GLIBC: u32 = 5;

/// Who asks a package index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Installer {
    /// The pip of this interpreter.
    Pip {
        /// `python3`, or a path.
        python: PathBuf,
        /// In place of the index that pip is set up with.
        index: Option<String>,
    },
    /// uv has no command that brings a wheel, so it runs a pip of its own for this interpreter (`uv tool
    /// run`).
    Uv {
        /// `uv`, or a path.
        program: PathBuf,
        /// `python3`, or a path.
        python: PathBuf,
        /// In place of the index that pip is set up with.
        index: Option<String>,
    },
}

impl fmt::Display for Installer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pip { python, .. } => write!(f, "pip of {}", python.display()),
            Self::Uv { python, .. } => write!(f, "pip of {}, which uv runs", python.display()),
        }
    }
}

impl Installer {
    /// Whether it can be run.
    pub fn is_there(&self) -> bool {
        self.command().arg("--version").output().is_ok_and(|output| output.status.success())
    }

    /// `pip`, with nothing to do yet. It has the whole environment of this process.
    fn command(&self) -> Command {
        let (mut command, index) = match self {
            Self::Pip { python, index } => {
                let mut command = Command::new(python);
                command.args(["-m", "pip"]);
                (command, index)
            }
            Self::Uv { program, python, index } => {
                let mut command = Command::new(program);
                command.args(["tool", "run", "--python"]).arg(python).arg("pip");
                (command, index)
            }
        };
        if let Some(index) = index {
            // Not as an argument: other users of the machine see those, and an index may have a password in
            // it.
            command.env("PIP_INDEX_URL", index).env_remove("PIP_EXTRA_INDEX_URL");
        }
        command.env("PIP_DISABLE_PIP_VERSION_CHECK", "1").env("PIP_NO_INPUT", "1");
        command
    }

    /// Has the wheel of `want` brought into `folder`; where that fails, says why. Its sum is still to be
    /// checked.
    pub(crate) fn download(&self, want: &Want, folder: &Path) -> Result<Result<PathBuf, String>, Error> {
        let What::Package { name, version, python, arch } = &want.what else {
            return Ok(Err("it is no package".to_owned()));
        };
        let list = folder.join("requirements.txt");
        let sum = want.sha256.map(|sum| format!(" --hash=sha256:{sum}")).unwrap_or_default();
        fs_err::write(&list, format!("{name}=={version}{sum}\n"))?;
        let wheels = folder.join("wheels");
        let mut command = self.command();
        command.args(["download", "--no-deps", "--only-binary", ":all:", "--progress-bar", "off"]);
        if want.sha256.is_some() {
            command.arg("--require-hashes");
        }
        command.args(target(python, arch)).arg("--dest").arg(&wheels).arg("--requirement").arg(&list);
        let output = command.output().map_err(|error| self.fault(error.to_string()))?;
        if !output.status.success() {
            return self.failure(want, &output).map(Err);
        }
        let mut files = fs_err::read_dir(&wheels)?.collect::<Result<Vec<_>, _>>()?;
        match (files.pop(), files.pop()) {
            (Some(one), None) if want.what.is_named(&one.file_name().to_string_lossy()) => Ok(Ok(one.path())),
            (Some(one), None) => Ok(Err(format!("it gave {}", one.file_name().to_string_lossy()))),
            _ => Ok(Err("it did not give one file".to_owned())),
        }
    }

    fn fault(&self, why: String) -> Error {
        let program = match self {
            Self::Pip { python, .. } => format!("{} -m pip", python.display()),
            Self::Uv { program, .. } => program.display().to_string(),
        };
        Error::Installer { program, why }
    }

    /// What pip says.
    fn failure(&self, want: &Want, output: &Output) -> Result<String, Error> {
        let text = String::from_utf8_lossy(&output.stderr);
        if text.contains("No module named pip") {
            return Err(self.fault("this Python has no pip".to_owned()));
        }
        // pip names both sums (its own message since version 8), the found one after `Got`.
        let found =
            text.lines().find_map(|line| line.trim().strip_prefix("Got")?.trim().parse::<Sha256>().ok());
        if let (Some(expected), Some(found)) = (want.sha256, found) {
            return Err(Box::new(WrongSum {
                name: want.what.to_string(),
                origin: format!("the package index, by {self}"),
                expected,
                found,
                bytes: None,
                note: "; pip threw it away",
            })
            .into());
        }
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("ERROR:")).collect();
        let said = lines
            .last()
            .map_or_else(|| text.lines().last().unwrap_or_default(), |line| &line["ERROR:".len()..]);
        Ok(format!("{self}: {}", hidden(said.trim())))
    }
}

/// The interpreter and the processor of the target, which need not be those of pip.
fn target(python: &str, arch: &str) -> Vec<OsString> {
    let digits = python.trim_start_matches("cp");
    let (major, minor) = digits.split_at(digits.len().min(1));
    let mut words: Vec<String> = vec![
        format!("--python-version={major}.{minor}"),
        "--implementation=cp".to_owned(),
        format!("--abi={python}"),
        "--abi=abi3".to_owned(),
        "--abi=none".to_owned(),
    ];
    // Given one by one, as pip derives none of them from another (PEP 600).
    words.extend(
        (OLDEST_GLIBC..=NEWEST_GLIBC).rev().map(|minor| format!("--platform=manylinux_2_{minor}_{arch}")),
    );
    words.extend(["manylinux2014", "linux"].map(|platform| format!("--platform={platform}_{arch}")));
    words.into_iter().map(OsString::from).collect()
}

/// A text without the logins of addresses in it. pip hides them as well.
fn hidden(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        shown += before;
        let end = after
            .find(|c: char| c == '/' || c == '"' || c == '\'' || c.is_whitespace())
            .unwrap_or(after.len());
        rest = after[..end].rfind('@').map_or(after, |at| &after[at + 1..]);
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_in_what_pip_says_are_hidden() {
        let said = "no https://me:SEC@RET@h/simple/, nor http://h/a@b (from https://token@h2)";
        assert_eq!(hidden(said), "no https://h/simple/, nor http://h/a@b (from https://h2)");
    }

    #[test]
    fn the_target_is_spelt_out() {
        let words = target("cp311", "aarch64");
        assert_eq!(words[0], "--python-version=3.11");
        assert!(words.contains(&"--platform=manylinux_2_28_aarch64".into()));
    }
}
