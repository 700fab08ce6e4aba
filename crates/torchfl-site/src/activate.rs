//! One `.pth` file in site-packages puts the finder in front of every program of the environment.
//!
//! `site` runs the file's line at every start (CPython's `Lib/site.py`); the line does nothing where the wheel is gone.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::Serialize;

use crate::{Environment, Error};

// Python runs them in the order of their names, and ours must come before one that imports torch.
const NAME: &str = "00-torch_fl.pth";

/// What `activate` or `deactivate` did.
#[derive(Debug, Clone, Serialize)]
pub struct Switch {
    /// The `.pth` file.
    pub file: PathBuf,
    /// Whether anything had to be done.
    pub changed: bool,
}

/// Writes the `.pth` file; `line` is the wheel's own `activate.pth`.
pub fn activate(environment: &Environment, line: &str) -> Result<Switch, Error> {
    environment.torch_fl()?;
    let file = environment.purelib.join(NAME);
    if ours(&file)?.is_some_and(|old| old == line) {
        return Ok(Switch { file, changed: false });
    }
    // The kind alone: the system's text names a temporary file.
    let wrong = |error: io::Error| Error::Write { path: file.clone(), source: error.kind().into() };
    let mut new =
        tempfile::Builder::new().prefix(".torchfl-").tempfile_in(&environment.purelib).map_err(wrong)?;
    new.write_all(line.as_bytes()).map_err(wrong)?;
    // site reads it as any user; a temporary file is for its owner alone.
    new.as_file().set_permissions(Permissions::from_mode(0o644)).map_err(wrong)?;
    new.persist(&file).map_err(|error| wrong(error.error))?;
    Ok(Switch { file, changed: true })
}

/// Removes the `.pth` file, whether or not the wheel is still there.
pub fn deactivate(environment: &Environment) -> Result<Switch, Error> {
    let file = environment.purelib.join(NAME);
    let changed = ours(&file)?.is_some();
    if changed {
        fs::remove_file(&file).map_err(|source| Error::Write { path: file.clone(), source })?;
    }
    Ok(Switch { file, changed })
}

/// The file's text, if there is one; an error if somebody else wrote it.
fn ours(file: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(file) {
        Ok(text) if text.contains("torch_fl") => Ok(Some(text)),
        Ok(_) => Err(Error::Foreign { path: file.to_owned() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}
