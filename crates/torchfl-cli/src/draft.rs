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
            Err(error) => Err(error.error.into()),
        }
    }
}
