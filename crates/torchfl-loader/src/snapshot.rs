//! The libraries of a machine without the machine: what each exports, under the paths that they have there.
//!
//! An SDK or a system that cannot be copied is taken once ([`Snapshot::take`]), kept as one small file
//! (`docs/reference/snapshot.md`), and laid into [`Files`] wherever a wheel is to be judged. What the
//! libraries ask of each other is not kept beyond `DT_NEEDED`.

mod diff;
mod take;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use torchfl_elf::{FileAt, ReadAt as _};

use crate::error::Error;
use crate::files::Files;
use crate::object::Object;

pub use diff::{Change, Diff, Difference};
pub use take::{Root, Skipped};

/// The libraries below some folders of one machine.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// What it is of, for people.
    pub title: String,
    /// The folders, by their paths on that machine.
    pub folders: Vec<String>,
    /// The libraries, in the order of their first paths.
    pub libraries: Vec<Kept>,
    /// Symbolic links that lead to one of the libraries, or to a folder that holds some: path and target.
    pub links: BTreeMap<String, String>,
}

/// A library in a [`Snapshot`].
#[derive(Debug, Clone)]
pub struct Kept {
    /// Its paths, sorted; several where it has hard links, or links that lead out of the folders.
    pub paths: Vec<String>,
    /// What is known of it: [`Known::Exports`](crate::Known::Exports).
    pub object: Arc<Object>,
}

/// Largest snapshot file, in bytes: one of a whole system has a few millions.
const MAX_FILE: u64 = 256 << 20;

impl Snapshot {
    /// Reads the snapshot file `path`.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let file = FileAt::open(path)?;
        let name = path.display().to_string();
        let len = usize::try_from(file.len()).ok().filter(|_| file.len() <= MAX_FILE);
        let Some(len) = len else {
            let what = "the file is larger than 256 MiB".to_owned();
            return Err(Error::Snapshot { name, row: 0, what });
        };
        let mut bytes = vec![0; len];
        file.read_exact_at(0, &mut bytes)?;
        Self::parse(&bytes, &name)
    }

    /// Lays the libraries and links into `files`, at their paths.
    pub fn mount(&self, files: &mut Files) {
        for kept in &self.libraries {
            for path in &kept.paths {
                files.object(path, kept.object.clone());
            }
        }
        for (path, target) in &self.links {
            files.link(path, target);
        }
    }

    /// Number of exported symbols.
    pub fn symbols(&self) -> usize {
        self.libraries.iter().map(|kept| kept.object.symbols.exports().count()).sum()
    }
}
