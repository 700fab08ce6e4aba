//! `torch/version.py`, read and never run.

use std::collections::BTreeMap;
use std::path::Path;

use torchfl_manifest::resolve::Attribute;

use crate::{Error, Tree};

/// Assignments of a `version.py`: a string, or `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionPy {
    values: BTreeMap<String, Option<String>>,
    text: String,
}

impl VersionPy {
    /// Reads a torch's `version.py`.
    pub fn of(tree: &Tree) -> Result<Self, Error> {
        let parsed = Self::parse(&tree.text("torch/version.py")?);
        if parsed.get("__version__").is_none() {
            return Err(Error::NoVersion { path: tree.path.join("torch/version.py") });
        }
        Ok(parsed)
    }

    /// Takes the lines of the form `name: annotation = 'value'`; all others do not matter.
    pub fn parse(text: &str) -> Self {
        let assignment = |line: &str| {
            let (left, right) = line.split_once('=')?;
            let name = left.split(':').next()?.trim();
            let plain = !name.is_empty() && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric());
            let right = right.trim();
            let value = match right.as_bytes() {
                b"None" => None,
                [q @ (b'\'' | b'"'), .., last] if q == last && right.len() >= 2 => {
                    Some(right[1..right.len() - 1].to_owned())
                }
                _ => return None,
            };
            (plain && !line.starts_with(char::is_whitespace)).then(|| (name.to_owned(), value))
        };
        Self { values: text.lines().filter_map(assignment).collect(), text: text.to_owned() }
    }

    /// A value that is a string.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.as_deref()
    }

    /// The three-part release: `2.13.0` of `2.13.0+cpu` and of `2.13.0a0+gitabc`, as the bootstrap judges it.
    pub fn release(&self) -> &str {
        let version = self.get("__version__").unwrap_or_default();
        let mut dots = 0;
        let end = version.find(|c: char| {
            dots += usize::from(c == '.');
            !(c.is_ascii_digit() || c == '.' && dots < 3)
        });
        &version[..end.unwrap_or(version.len())]
    }

    /// Whether this is a build for no accelerator: judged by what it says, not by its label.
    pub fn is_cpu(&self) -> bool {
        ["cuda", "hip", "xpu"].iter().all(|name| self.get(name).is_none())
    }

    /// The first marker that the file does not hold.
    pub fn lacks<'a>(&self, markers: &'a [String]) -> Option<&'a str> {
        markers.iter().map(String::as_str).find(|marker| !self.text.contains(marker))
    }

    /// `torch.version.NAME` values to restore.
    pub(crate) fn attributes(
        &self,
        wanted: &BTreeMap<String, Attribute>,
        path: &Path,
    ) -> Result<BTreeMap<String, String>, Error> {
        let value = |(name, value): (&String, &Attribute)| match (value, self.get(name)) {
            (Attribute::Value(value), _) => Ok((name.clone(), value.clone())),
            (Attribute::FromVendor, Some(own)) => Ok((name.clone(), own.to_owned())),
            (Attribute::FromVendor, None) => {
                Err(Error::NoAttribute { path: path.to_owned(), name: name.clone() })
            }
        };
        wanted.iter().map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_three_parts() {
        for (version, release) in [
            ("2.13.0", "2.13.0"),
            ("2.13.0+cpu", "2.13.0"),
            ("2.13.0a0+git1", "2.13.0"),
            ("2.13.0.post1", "2.13.0"),
            ("2.13", "2.13"),
        ] {
            assert_eq!(VersionPy::parse(&format!("__version__ = '{version}'")).release(), release);
        }
    }

    #[test]
    fn reads_both_ways_of_writing_it() {
        let parsed = VersionPy::parse(
            "from typing import Optional\n__all__ = ['x']\n__version__ = '2.13.0+cu130'\ndebug = False\ncuda: Optional[str] = \"13.0\"\nhip: Optional[str] = None\n  xpu = '1'\n",
        );
        assert_eq!(parsed.release(), "2.13.0");
        assert_eq!(parsed.get("cuda"), Some("13.0"));
        assert_eq!(parsed.get("hip"), None);
        assert_eq!(parsed.get("xpu"), None);
        assert!(!parsed.is_cpu());
        let markers = ["\"13.0\"".to_owned(), "acme".to_owned()];
        assert_eq!(parsed.lacks(&markers), Some("acme"));
    }
}
