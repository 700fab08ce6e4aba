//! `RECORD`: the list of a wheel's files with hash and size (PEP 376, PEP 427).

use crate::{Error, Sha256};

/// A hash as RECORD writes it, `algorithm=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordHash {
    /// `sha256`; other tools may use any of Python's `hashlib` at least as strong.
    pub algorithm: String,
    /// URL-safe base64 without padding.
    pub value: String,
}

impl RecordHash {
    /// The digest, if this is a well-formed SHA-256.
    pub fn sha256(&self) -> Option<Sha256> {
        if self.algorithm == "sha256" { Sha256::from_record(&self.value) } else { None }
    }
}

impl From<Sha256> for RecordHash {
    fn from(digest: Sha256) -> Self {
        Self { algorithm: "sha256".to_owned(), value: digest.record() }
    }
}

/// One row of RECORD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordRow {
    /// Path in the wheel.
    pub path: String,
    /// Absent for RECORD itself (and for signatures).
    pub hash: Option<RecordHash>,
    /// In bytes; absent for RECORD itself.
    pub size: Option<u64>,
}

/// More rows than an archive that is read can have members.
const MOST_ROWS: usize = 1 << 19;

/// The file RECORD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// In the file's order.
    pub rows: Vec<RecordRow>,
}

impl Record {
    /// Reads RECORD; `file` is how errors call it. Paths are not judged here.
    pub fn parse(bytes: &[u8], file: &str) -> Result<Self, Error> {
        let fail = |row: u64, reason: String| Error::Record { file: file.to_owned(), row, reason };
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
        let mut rows = Vec::new();
        let mut fields = csv::StringRecord::new();
        loop {
            let number = rows.len() as u64 + 1;
            if !reader.read_record(&mut fields).map_err(|error| fail(number, error.to_string()))? {
                return Ok(Self { rows });
            }
            if rows.len() == MOST_ROWS {
                return Err(fail(number, "more rows than a wheel can have files".to_owned()));
            }
            rows.push(row(&fields).map_err(|reason| fail(number, reason))?);
        }
    }

    /// The file's text: commas and quotes in paths are quoted, lines end in LF.
    pub fn render(&self) -> Result<String, Error> {
        let fail = |reason: String| Error::Record { file: "RECORD".to_owned(), row: 0, reason };
        let mut writer =
            csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(Vec::new());
        for row in &self.rows {
            if row.path.starts_with('\u{feff}') {
                return Err(fail("a path starts with a byte order mark, which readers drop".to_owned()));
            }
            let hash = row.hash.as_ref().map(|hash| format!("{}={}", hash.algorithm, hash.value));
            let size = row.size.map(|size| size.to_string());
            writer
                .write_record([row.path.as_str(), &hash.unwrap_or_default(), &size.unwrap_or_default()])
                .map_err(|error| fail(error.to_string()))?;
        }
        let bytes = writer.into_inner().map_err(|error| fail(error.to_string()))?;
        String::from_utf8(bytes).map_err(|error| fail(error.to_string()))
    }
}

fn row(fields: &csv::StringRecord) -> Result<RecordRow, String> {
    let (path, hash, size) = match fields.iter().collect::<Vec<_>>()[..] {
        [path] => (path, "", ""),
        [path, hash] => (path, hash, ""),
        [path, hash, size] => (path, hash, size),
        _ => return Err(format!("has {} fields, not 3", fields.len())),
    };
    let hash = match hash.split_once('=') {
        None if hash.is_empty() => None,
        Some((algorithm, value)) if !algorithm.is_empty() && !value.is_empty() => {
            Some(RecordHash { algorithm: algorithm.to_owned(), value: value.to_owned() })
        }
        _ => return Err(format!("`{hash}` is not ALGORITHM=HASH")),
    };
    let size = match size {
        "" => None,
        digits => Some(digits.parse().map_err(|error| format!("size `{digits}`: {error}"))?),
    };
    if path.is_empty() {
        return Err("the path is empty".to_owned());
    }
    Ok(RecordRow { path: path.to_owned(), hash, size })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_golden_row_with_commas_quotes_and_umlauts() {
        let record = Record {
            rows: vec![
                RecordRow {
                    path: "a, \"b\"/grün.py".into(),
                    hash: Some(Sha256::of(b"").into()),
                    size: Some(0),
                },
                RecordRow { path: "x-1.dist-info/RECORD".into(), hash: None, size: None },
            ],
        };
        let text = record.render().unwrap();
        assert_eq!(
            text,
            "\"a, \"\"b\"\"/grün.py\",sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\nx-1.dist-info/RECORD,,\n"
        );
        assert_eq!(Record::parse(text.as_bytes(), "RECORD").unwrap(), record);
    }

    #[test]
    fn crlf_and_quoted_line_breaks_are_read() {
        let record = Record::parse(b"a,sha256=x,1\r\n\"b\nc\",,\r\n", "RECORD").unwrap();
        assert_eq!(record.rows[0].size, Some(1));
        assert_eq!(record.rows[1].path, "b\nc");
    }

    #[test]
    fn errors_name_the_row() {
        for bad in ["a,,\nb,md5,\n", "a,,\nb,,-1\n", "a,,\nb,,,\n", "a,,\n,,\n", "a,,\nb,=x,\n"] {
            match Record::parse(bad.as_bytes(), "RECORD") {
                Err(Error::Record { row: 2, .. }) => {}
                other => panic!("{bad:?}: {other:?}"),
            }
        }
        assert!(Record::parse(b"\xff,,\n", "RECORD").is_err());
    }

    #[test]
    fn more_rows_than_members_that_are_read_are_refused() {
        let text = "a,,\n".repeat(MOST_ROWS);
        assert_eq!(Record::parse(text.as_bytes(), "RECORD").unwrap().rows.len(), MOST_ROWS);
        assert!(Record::parse((text + "a,,\n").as_bytes(), "RECORD").is_err());
    }

    #[test]
    fn a_hash_in_hexadecimal_is_no_sha256() {
        let hash = RecordHash { algorithm: "sha256".into(), value: Sha256::of(b"").to_string() };
        assert_eq!(hash.sha256(), None);
    }

    proptest! {
        #[test]
        fn parsing_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Record::parse(&bytes, "RECORD");
        }

        #[test]
        fn rows_are_read_back(rows in prop::collection::vec(("[^\0\u{feff}]{1,20}", any::<[u8; 4]>(), any::<u64>()), 0..8)) {
            let rows = rows.into_iter().map(|(path, bytes, size)| RecordRow {
                path,
                hash: Some(Sha256::of(&bytes).into()),
                size: Some(size),
            });
            let record = Record { rows: rows.collect() };
            prop_assert_eq!(Record::parse(record.render().unwrap().as_bytes(), "RECORD").unwrap(), record);
        }
    }
}
