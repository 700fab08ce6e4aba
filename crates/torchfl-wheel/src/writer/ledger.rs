//! What every writer keeps: which paths came, in which order, with which hashes.

use super::Added;
use crate::path::PathSet;
use crate::record::{Record, RecordRow};
use crate::{Entry, Error, WheelName};

/// Signatures of RECORD, which cannot be listed in it (and are deprecated, PEP 815).
const SIGNATURES: [&str; 2] = ["RECORD.jws", "RECORD.p7s"];

/// The rules of the archive's order and the rows of RECORD.
pub(crate) struct Ledger {
    dist_info: String,
    paths: PathSet,
    last: Option<String>,
    rows: Vec<RecordRow>,
    /// An entry was begun and not recorded: it failed.
    open: Option<String>,
}

impl Ledger {
    pub(crate) fn new(name: &WheelName) -> Self {
        Self {
            dist_info: name.dist_info(),
            paths: PathSet::default(),
            last: None,
            rows: Vec::new(),
            open: None,
        }
    }

    /// RECORD's own path.
    pub(crate) fn record_path(&self) -> String {
        format!("{}/RECORD", self.dist_info)
    }

    /// Judges an entry that is about to be written.
    pub(crate) fn begin(&mut self, entry: &Entry) -> Result<(), Error> {
        self.check_open()?;
        let fail = |reason| Err(Error::Path { member: entry.path.clone(), reason });
        let inside = entry.path.strip_prefix(&self.dist_info).and_then(|rest| rest.strip_prefix('/'));
        if inside == Some("RECORD") {
            return fail("the writer makes RECORD itself");
        }
        if inside.is_some_and(|file| SIGNATURES.contains(&file)) {
            return fail("a wheel is not signed inside (PEP 815)");
        }
        if inside.is_none() && is_dist_info(&entry.path) {
            return fail("belongs to another distribution's `.dist-info`");
        }
        self.paths.insert(&entry.path)?;
        if let Some(last) = &self.last
            && key(last) >= key(&entry.path)
        {
            return Err(Error::Order { member: entry.path.clone(), previous: last.clone() });
        }
        self.last = Some(entry.path.clone());
        self.open = Some(entry.path.clone());
        Ok(())
    }

    /// Notes that the entry was written.
    pub(crate) fn end(&mut self, added: &Added) {
        self.open = None;
        self.rows.push(RecordRow {
            path: added.path.clone(),
            hash: Some(added.sha256.into()),
            size: Some(added.bytes),
        });
    }

    /// The text of RECORD: rows by path, its own last. Fails unless the wheel is complete.
    pub(crate) fn record(&mut self) -> Result<String, Error> {
        self.check_open()?;
        for file in ["METADATA", "WHEEL"] {
            let path = format!("{}/{file}", self.dist_info);
            if !self.rows.iter().any(|row| row.path == path) {
                return Err(Error::Incomplete { missing: path });
            }
        }
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_by(|a, b| a.path.cmp(&b.path));
        rows.push(RecordRow { path: self.record_path(), hash: None, size: None });
        Record { rows }.render()
    }

    fn check_open(&self) -> Result<(), Error> {
        match &self.open {
            None => Ok(()),
            Some(path) => Err(Error::Incomplete { missing: format!("`{path}`, which failed") }),
        }
    }
}

fn is_dist_info(path: &str) -> bool {
    path.split_once('/').is_some_and(|(top, _)| top.ends_with(".dist-info"))
}

/// What the archive's order goes by: `.dist-info` is last.
pub(crate) fn key(path: &str) -> (bool, &str) {
    (is_dist_info(path), path)
}
