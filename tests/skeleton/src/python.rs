//! What the skeleton must know of the interpreter and the machine that its wheels are for.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::Error;

/// The interpreter and the machine that a skeleton is for.
#[derive(Debug, Clone, Deserialize)]
pub struct Target {
    /// The tag of interpreter and ABI, `cp311`.
    pub(crate) tag: String,
    /// The platform tag of a wheel that is built here, `linux_x86_64`.
    pub(crate) platform: String,
    /// The end of an extension module's name, `.cpython-311-x86_64-linux-gnu.so`.
    pub(crate) ext_suffix: String,
    /// The folder of `Python.h`; none: stand-ins of ours.
    pub(crate) include: Option<PathBuf>,
    /// The C compiler.
    #[serde(default = "cc")]
    pub(crate) compiler: String,
}

fn cc() -> String {
    "cc".to_owned()
}

const ASK: &str = r#"
import json, sys, sysconfig
print(json.dumps({
    "tag": "cp%d%d" % sys.version_info[:2],
    "platform": sysconfig.get_platform().replace("-", "_").replace(".", "_"),
    "ext_suffix": sysconfig.get_config_var("EXT_SUFFIX"),
    "include": sysconfig.get_path("include"),
}))"#;

impl Target {
    /// The interpreter `program`, which must have its C headers, on this machine: what is generated can be imported.
    ///
    /// # Errors
    /// It cannot be run, or has no headers.
    pub fn here(program: &Path) -> Result<Target, Error> {
        let failed = |why: String| Error::Python { program: program.to_owned(), why };
        // Isolated: neither the user's site packages nor PYTHONPATH may have a say.
        let output =
            Command::new(program).args(["-I", "-c", ASK]).output().map_err(|e| failed(e.to_string()))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let target: Target = serde_json::from_slice(&output.stdout).map_err(|e| failed(e.to_string()))?;
        match &target.include {
            Some(include) if !include.join("Python.h").is_file() => {
                Err(failed(format!("no Python.h in {}", include.display())))
            }
            _ => Ok(target),
        }
    }

    /// Any interpreter (`cp312`) on any machine (`aarch64`; none: this one), neither of which need be here: names, tags
    /// and undefined symbols are right, but nothing of it can be imported, as its `Python.h` is a stand-in.
    ///
    /// # Errors
    /// `tag` is not of the form `cpXY`.
    pub fn elsewhere(tag: &str, arch: Option<&str>) -> Result<Target, Error> {
        let digits = tag.strip_prefix("cp").filter(|n| n.len() > 1 && n.bytes().all(|b| b.is_ascii_digit()));
        let digits = digits.ok_or_else(|| Error::Tag { tag: tag.to_owned() })?;
        let here = std::env::consts::ARCH;
        let arch = arch.unwrap_or(here);
        Ok(Target {
            tag: tag.to_owned(),
            platform: format!("linux_{arch}"),
            ext_suffix: format!(".cpython-{digits}-{arch}-linux-gnu.so"),
            include: None,
            compiler: if arch == here { cc() } else { format!("{arch}-linux-gnu-gcc") },
        })
    }
}
