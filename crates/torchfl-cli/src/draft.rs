//! Small files that appear whole or not at all.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::report::{Error, Failure};

/// What becomes of a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    Keep,
    Replace,
}

/// Refuses a path that a rename must not put a file in the place of: a folder, where it fails when all else is done, a
/// FIFO, a device.
pub(crate) fn check_replaceable(path: &Path) -> Result<(), Failure> {
    let what = match fs_err::metadata(path) {
        Ok(facts) if facts.is_dir() => "a folder",
        Ok(facts) if !facts.is_file() => "a FIFO or a device",
        // A file, or nothing. Other faults show when it is written.
        _ => return Ok(()),
    };
    let hint = "move it away, or choose another place";
    Err(Error::NotFile { path: path.to_owned(), what, hint }.into())
}

/// A file that is written, under another name in its folder.
#[derive(Debug)]
pub(crate) struct Draft {
    path: PathBuf,
    file: NamedTempFile,
}

impl Draft {
    pub(crate) fn new(path: &Path, bytes: &[u8]) -> Result<Self, Failure> {
        // The kind alone: the system's text names a temporary file.
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot write {}: {}", path.display(), error.kind()))
        };
        check_replaceable(path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new()
            .prefix(".torchfl-")
            .permissions(Permissions::from_mode(0o666)) // less the umask, as for any new file
            .tempfile_in(folder)
            .map_err(named)?;
        file.write_all(bytes).map_err(named)?;
        Ok(Self { path: path.to_owned(), file })
    }

    pub(crate) fn publish(self, existing: Existing) -> Result<(), Failure> {
        let Self { path, file } = self;
        let done = match existing {
            Existing::Replace => file.persist(&path),
            Existing::Keep => file.persist_noclobber(&path),
        };
        match done {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                Err(Error::Exists { path }.into())
            }
            Err(error) => {
                let kind = error.error.kind();
                Err(io::Error::new(kind, format!("cannot write {}: {kind}", path.display())).into())
            }
        }
    }
}
