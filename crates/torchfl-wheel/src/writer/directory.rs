//! A wheel's files as a folder, as they look after unpacking.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::ledger::Ledger;
use super::list::copy;
use super::{Added, Options, Writer, Written};
use crate::{Entry, Error, Sha256, WheelName};

/// Writes the files into a new folder. They are written beside it, and the folder is renamed at the end.
pub struct DirectoryWriter {
    path: PathBuf,
    folder: TempDir,
    ledger: Ledger,
    options: Options,
    bytes: u64,
}

impl DirectoryWriter {
    /// Begins the folder `path`, which must not exist (an empty folder may); its parent must.
    pub fn create(path: &Path, name: &WheelName, options: Options) -> Result<Self, Error> {
        if fs_err::read_dir(path).is_ok_and(|mut files| files.next().is_some()) || path.is_file() {
            return Err(Error::Exists { file: path.to_owned() });
        }
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let folder = tempfile::Builder::new()
            .prefix(".torchfl-")
            .permissions(Permissions::from_mode(0o777)) // less the umask, as for any new folder
            .tempdir_in(parent)
            .map_err(Error::io("create", path))?;
        Ok(Self { path: path.to_owned(), folder, ledger: Ledger::new(name), options, bytes: 0 })
    }

    fn file(&self, member: &str, mode: u32) -> Result<fs_err::File, Error> {
        let path = self.folder.path().join(member);
        if let Some(parent) = path.parent() {
            fs_err::create_dir_all(parent).map_err(Error::io("create", parent))?;
        }
        let mut options = fs_err::OpenOptions::new();
        options.write(true).create_new(true);
        options.options_mut().mode(mode);
        let file = options.open(&path).map_err(Error::io("create", &path))?;
        // The umask applied to the mode above; a wheel's modes do not depend on it.
        file.set_permissions(Permissions::from_mode(mode)).map_err(Error::io("write", &path))?;
        Ok(file)
    }
}

impl Writer for DirectoryWriter {
    fn add(&mut self, entry: Entry) -> Result<Added, Error> {
        self.ledger.begin(&entry)?;
        let (path, mode) = (entry.path.clone(), entry.mode());
        let source = entry.open()?;
        let mut file = self.file(&path, mode)?;
        let place = self.path.join(&path);
        let sha256 = copy(&path, &*source, &self.options, &mut |piece| {
            file.write_all(piece).map_err(Error::io("write", &place))
        })?;
        self.bytes += source.len();
        let added = Added { path, bytes: source.len(), sha256, compressed: source.len() };
        self.ledger.end(&added);
        Ok(added)
    }

    fn finish(mut self: Box<Self>) -> Result<Written, Error> {
        let record = self.ledger.record()?;
        let path = self.ledger.record_path();
        self.file(&path, 0o644)?.write_all(record.as_bytes()).map_err(Error::io("write", &self.path))?;
        let Self { path, folder, bytes, .. } = *self;
        // Renaming replaces an empty folder, and fails on one that was filled meanwhile.
        fs_err::rename(folder.path(), &path).map_err(Error::io("rename to", &path))?;
        // It is no temporary folder any more.
        let _ = folder.keep();
        Ok(Written { bytes: bytes + record.len() as u64, sha256: Sha256::of(record.as_bytes()) })
    }
}
