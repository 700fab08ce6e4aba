//! Writing a wheel: one trait, three places to write to.

mod directory;
mod ledger;
mod list;
#[cfg(test)]
mod tests;
mod zip;

use std::sync::Arc;

use serde::Serialize;

pub use self::directory::DirectoryWriter;
pub use self::list::ListWriter;
pub use self::zip::ZipWriter;
use crate::{Entry, Error, Sha256};

/// How hard the zip writer tries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// For wheels that are shipped.
    #[default]
    Normal,
    /// For wheels that are tried out: less time, more bytes.
    Fast,
}

/// Hears how many input bytes were taken since the last call; called from the thread that runs the writer.
pub type Progress = Arc<dyn Fn(u64) + Send + Sync>;

/// How to write. The number of threads does not show in the output.
#[derive(Clone)]
pub struct Options {
    /// Threads that compress and check; at least one is used.
    pub threads: usize,
    /// How hard to compress.
    pub compression: Compression,
    /// Told about progress.
    pub on_progress: Option<Progress>,
}

impl Default for Options {
    /// All processors, normal compression, no progress.
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { threads, compression: Compression::Normal, on_progress: None }
    }
}

impl Options {
    pub(crate) fn progress(&self, bytes: u64) {
        if let Some(progress) = &self.on_progress {
            progress(bytes);
        }
    }
}

/// One entry, written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Added {
    /// Path in the wheel.
    pub path: String,
    /// Size of the file.
    pub bytes: u64,
    /// Of the file.
    pub sha256: Sha256,
    /// Bytes that it takes in the wheel; equal to `bytes` where nothing is compressed.
    pub compressed: u64,
}

/// The whole wheel, written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Written {
    /// Size of the wheel's file; of all files together, where there is none.
    pub bytes: u64,
    /// Of the wheel's file; of RECORD, where there is none.
    pub sha256: Sha256,
}

/// Takes the files of a wheel one by one, and writes RECORD itself, as the last one.
///
/// Entries must come in the archive's order: all files by path, then those in `.dist-info` by path (PEP 427
/// wants these at the physical end). [`Writer::add_all`] sorts.
/// Nothing appears at the destination before [`Writer::finish`] succeeds; a writer that is dropped, or
/// whose `add` failed, leaves nothing.
pub trait Writer {
    /// Writes one entry.
    fn add(&mut self, entry: Entry) -> Result<Added, Error>;

    /// Writes RECORD, checks the result and lets it appear.
    fn finish(self: Box<Self>) -> Result<Written, Error>;

    /// Sorts the entries and adds them.
    fn add_all(&mut self, mut entries: Vec<Entry>) -> Result<Vec<Added>, Error> {
        entries.sort_by(|a, b| ledger::key(&a.path).cmp(&ledger::key(&b.path)));
        entries.into_iter().map(|entry| self.add(entry)).collect()
    }
}
