//! One `.pth` file in site-packages puts the finder in front of every program of the environment.
//!
//! `site` runs the file's line at every start (CPython's `Lib/site.py`); the line does nothing where the wheel is gone.

use std::io::Write;
use std::path::PathBuf;

use fs_err as fs;
use serde::Serialize;

use crate::{Environment, Error};

const NAME: &str = "torch_fl_activate.pth";

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
    let mut new = tempfile::NamedTempFile::new_in(&environment.purelib)?;
    new.write_all(line.as_bytes())?;
    // site reads it as any user; NamedTempFile is for its owner alone.
    let mut mode = new.as_file().metadata()?.permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o644);
    new.as_file().set_permissions(mode)?;
    new.persist(&file).map_err(|e| e.error)?;
    Ok(Switch { file, changed: true })
}

/// Removes the `.pth` file, whether or not the wheel is still there.
pub fn deactivate(environment: &Environment) -> Result<Switch, Error> {
    let file = environment.purelib.join(NAME);
    let changed = ours(&file)?.is_some();
    if changed {
        fs::remove_file(&file)?;
    }
    Ok(Switch { file, changed })
}

/// The file's text, if there is one; an error if somebody else wrote it.
fn ours(file: &PathBuf) -> Result<Option<String>, Error> {
    match fs::read_to_string(file) {
        Ok(text) if text.contains("torch_fl") => Ok(Some(text)),
        Ok(_) => Err(Error::Foreign { path: file.clone() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}
