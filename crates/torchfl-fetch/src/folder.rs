//! Folders that may have the file.

use std::path::{Path, PathBuf};

use torchfl_wheel::Sha256;

use crate::store::sum;
use crate::{Error, Want};

/// What of a folder is the wanted file.
#[derive(Debug)]
pub(crate) enum Hit {
    /// Nothing has such a name.
    None,
    /// This is it, by its sum; or by its name alone, where nobody says the sum.
    Found(PathBuf, Sha256, u64),
    /// By its name this may be it, and its sum is another.
    Other(PathBuf, Sha256, u64),
}

/// Looks in `folder`, which need not be there, and hashes what has the name.
pub(crate) fn look(folder: &Path, want: &Want) -> Result<Hit, Error> {
    let names = names(folder, want)?;
    let mut other = Hit::None;
    let several = names.len() > 1;
    for name in &names {
        let path = folder.join(name);
        let (found, bytes) = sum(&path)?;
        match want.sha256 {
            Some(expected) if expected == found => return Ok(Hit::Found(path, found, bytes)),
            None if !several => return Ok(Hit::Found(path, found, bytes)),
            _ => other = Hit::Other(path, found, bytes),
        }
    }
    if several && want.sha256.is_none() {
        return Err(Error::Several { what: want.what.to_string(), folder: folder.to_owned(), names });
    }
    Ok(other)
}

/// What in `folder` has a name that fits, sorted.
fn names(folder: &Path, want: &Want) -> Result<Vec<String>, Error> {
    if let Some(name) = want.what.exact() {
        let there = fs_err::symlink_metadata(folder.join(name)).is_ok();
        return Ok(if there { vec![name.to_owned()] } else { Vec::new() });
    }
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        // A name that is not UTF-8 is none that a manifest can hold.
        if let Ok(name) = entry?.file_name().into_string()
            && want.what.is_named(&name)
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
