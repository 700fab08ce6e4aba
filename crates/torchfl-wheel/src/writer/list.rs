//! A writer that writes nothing.

use super::ledger::Ledger;
use super::{Added, Options, Writer, Written};
use crate::deflate::BLOCK;
use crate::digest::Hasher;
use crate::{Entry, Error, Sha256, Source, WheelName};

/// Reads and hashes every entry and checks everything that another writer checks, but keeps nothing:
/// tells what a wheel would hold.
pub struct ListWriter {
    ledger: Ledger,
    options: Options,
    bytes: u64,
}

impl ListWriter {
    /// Begins the list of the wheel `name`.
    pub fn new(name: &WheelName, options: Options) -> Self {
        Self { ledger: Ledger::new(name), options, bytes: 0 }
    }
}

impl Writer for ListWriter {
    fn add(&mut self, entry: Entry) -> Result<Added, Error> {
        self.ledger.begin(&entry)?;
        let path = entry.path.clone();
        let source = entry.open()?;
        let sha256 = copy(&path, &*source, &self.options, &mut |_| Ok(()))?;
        self.bytes += source.len();
        let added = Added { path, bytes: source.len(), sha256, compressed: source.len() };
        self.ledger.end(&added);
        Ok(added)
    }

    fn finish(mut self: Box<Self>) -> Result<Written, Error> {
        let record = self.ledger.record()?;
        Ok(Written { bytes: self.bytes + record.len() as u64, sha256: Sha256::of(record.as_bytes()) })
    }
}

/// Reads all of `source` once, in pieces.
pub(super) fn copy(
    member: &str,
    source: &dyn Source,
    options: &Options,
    sink: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<Sha256, Error> {
    let mut sha256 = Hasher::default();
    let mut buffer = vec![0; BLOCK.min(source.len() as usize)];
    let mut offset = 0;
    while offset < source.len() {
        let piece = &mut buffer[..(source.len() - offset).min(BLOCK as u64) as usize];
        source.read_exact_at(offset, piece).map_err(|error| Error::SourceRead {
            member: member.to_owned(),
            offset,
            source: error,
        })?;
        sha256.update(piece);
        sink(piece)?;
        offset += piece.len() as u64;
        options.progress(piece.len() as u64);
    }
    Ok(sha256.finish())
}
