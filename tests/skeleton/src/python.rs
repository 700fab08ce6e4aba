//! What the skeleton must know of the interpreter that its wheels are for.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::Error;

/// Facts of one interpreter, as `sysconfig` tells them.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Python {
    /// The tag of interpreter and ABI, `cp311`.
    pub(crate) tag: String,
    /// The platform tag of a wheel that is built here, `linux_x86_64`.
    pub(crate) platform: String,
    /// The end of an extension module's name, `.cpython-311-x86_64-linux-gnu.so`.
    pub(crate) ext_suffix: String,
    /// The folder of `Python.h`.
    pub(crate) include: PathBuf,
}

const ASK: &str = r#"
import json, sys, sysconfig
print(json.dumps({
    "tag": "cp%d%d" % sys.version_info[:2],
    "platform": sysconfig.get_platform().replace("-", "_").replace(".", "_"),
    "ext_suffix": sysconfig.get_config_var("EXT_SUFFIX"),
    "include": sysconfig.get_path("include"),
}))"#;

impl Python {
    /// Asks the interpreter `program`, which must have its C headers.
    pub(crate) fn ask(program: &Path) -> Result<Python, Error> {
        let failed = |why: String| Error::Python { program: program.to_owned(), why };
        // Isolated: neither the user's site packages nor PYTHONPATH may have a say.
        let output =
            Command::new(program).args(["-I", "-c", ASK]).output().map_err(|e| failed(e.to_string()))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let python: Python = serde_json::from_slice(&output.stdout).map_err(|e| failed(e.to_string()))?;
        if !python.include.join("Python.h").is_file() {
            return Err(failed(format!("no Python.h in {}", python.include.display())));
        }
        Ok(python)
    }
}
