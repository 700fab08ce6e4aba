use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde::{Deserialize, Serialize};

use crate::Error;

/// Asks the import system where things are, and imports none of them.
const PROBE: &str = r"
import importlib.machinery as m, importlib.util as u, json, os, sys, sysconfig
def where(name):
    # An editable install has a finder of its own; for torch that would be ours, where it is switched on.
    spec = u.find_spec(name) if name != 'torch' else m.PathFinder.find_spec(name)
    return os.path.dirname(spec.origin) if spec and spec.origin else None
json.dump({'version': '%d.%d.%d' % sys.version_info[:3], 'cache_tag': sys.implementation.cache_tag,
           'purelib': sysconfig.get_path('purelib'), 'torch_fl': where('torch_fl'), 'torch': where('torch')}, sys.stdout)
";

/// A Python environment, as its own interpreter describes it.
#[derive(Debug, Clone, Serialize)]
pub struct Environment {
    /// The interpreter that was asked.
    pub python: PathBuf,
    /// `3.11.7`.
    pub version: String,
    /// `cpython-311`.
    pub cache_tag: String,
    /// Where pure Python packages are installed: site-packages.
    pub purelib: PathBuf,
    /// The folder of the installed `torch_fl`.
    pub torch_fl: Option<PathBuf>,
    /// The folder of the installed `torch`.
    pub torch: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Answer {
    version: String,
    cache_tag: String,
    purelib: PathBuf,
    torch_fl: Option<PathBuf>,
    torch: Option<PathBuf>,
}

impl Environment {
    /// Asks `python`.
    pub fn probe(python: &Path) -> Result<Self, Error> {
        // -c puts the current folder on sys.path; a checkout of torch there is not what is installed.
        let code = format!("import sys\nsys.path[:] = [p for p in sys.path if p]\n{PROBE}");
        let output = run(python, Command::new(python).arg("-c").arg(code))?;
        let answer: Answer = serde_json::from_slice(&output.stdout)
            .map_err(|source| Error::Answer { python: python.to_owned(), source })?;
        let Answer { version, cache_tag, purelib, torch_fl, torch } = answer;
        Ok(Self { python: python.to_owned(), version, cache_tag, purelib, torch_fl, torch })
    }

    /// The folder of the installed `torch_fl`, or an error that says how to get one.
    pub fn torch_fl(&self) -> Result<&Path, Error> {
        self.torch_fl.as_deref().ok_or_else(|| Error::NotInstalled { python: self.python.clone() })
    }
}

/// Publishes the environment's facade at `folder`, by the bootstrap's own code, so that there is one way to lay it out.
pub fn facade(environment: &Environment, folder: &Path) -> Result<(), Error> {
    let code = environment.torch_fl()?.join("_facade.py");
    run(&environment.python, Command::new(&environment.python).arg(code).arg(folder)).map(drop)
}

fn run(python: &Path, command: &mut Command) -> Result<Output, Error> {
    let output = command.output().map_err(|source| Error::Start { python: python.to_owned(), source })?;
    if output.status.success() {
        return Ok(output);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    // Of a traceback the last line is the error.
    let line = stderr.trim().lines().last().unwrap_or("no message").to_owned();
    Err(Error::Python { python: python.to_owned(), stderr: line })
}
