//! What people write: files of `op = backend` lines, and variables.

use std::fmt;
use std::path::{Path, PathBuf};

use super::Error;

/// Who computes an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The kernels of the chip underneath.
    Vendor,
    /// The host: arguments are copied there, results and what was written back.
    Cpu,
    /// PyTorch's own kernel, made of other operators.
    Composite,
}

impl Backend {
    /// As written.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Vendor => "vendor",
            Backend::Cpu => "cpu",
            Backend::Composite => "composite",
        }
    }

    fn read(text: &str, place: &Place) -> Result<Backend, Error> {
        const ALL: [Backend; 3] = [Backend::Vendor, Backend::Cpu, Backend::Composite];
        // The place of the kernels that are written in Python.
        if text == "flaggems" {
            return Err(Error::NotBuilt { place: place.clone(), backend: text.to_owned() });
        }
        ALL.into_iter().find(|b| b.name() == text).ok_or_else(|| Error::Backend {
            place: place.clone(),
            backend: text.to_owned(),
            near: super::table::nearest(text, ALL.iter().map(|b| b.name())),
        })
    }
}

/// Where something is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of a file, from 1.
    File(PathBuf, usize),
    /// An environment variable.
    Variable(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path, line) => write!(f, "{}:{line}", path.display()),
            Place::Variable(name) => f.write_str(name),
        }
    }
}

/// One wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// `add`, `add.Tensor`, `aten::add.Tensor`; of a variable `add_Tensor`.
    pub operator: String,
    /// Who is to compute it.
    pub backend: Backend,
    /// Where it stands.
    pub place: Place,
}

/// All wishes. A later one wins; among those of one file and its includes, so does an overload over a bare name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// In the order in which they were read: files first, then variables.
    pub all: Vec<Rule>,
}

impl Rules {
    /// Reads a file and all that it includes.
    pub fn read_file(&mut self, path: &Path) -> Result<(), Error> {
        self.include(path, None, &mut Vec::new())
    }

    /// Takes the variables `FLAGOS_OP_<name>` among these.
    pub fn read_variables(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), Error> {
        let mut found: Vec<_> =
            variables.into_iter().filter(|(name, _)| name.starts_with("FLAGOS_OP_")).collect();
        found.sort();
        for (name, value) in found {
            let operator = name["FLAGOS_OP_".len()..].to_owned();
            let place = Place::Variable(name);
            let backend = Backend::read(value.trim(), &place)?;
            self.all.push(Rule { operator, backend, place });
        }
        Ok(())
    }

    fn include(&mut self, path: &Path, from: Option<Place>, open: &mut Vec<PathBuf>) -> Result<(), Error> {
        let read_error = |source, place| Error::Read { path: path.to_owned(), place, source };
        let real = fs_err::canonicalize(path).map_err(|e| read_error(e, from.clone()))?;
        if let (true, Some(place)) = (open.contains(&real), &from) {
            return Err(Error::Cycle { place: place.clone(), path: path.to_owned() });
        }
        let text = fs_err::read_to_string(path).map_err(|e| read_error(e, from))?;
        open.push(real);
        let first = self.all.len();
        for (i, line) in text.lines().enumerate() {
            let place = Place::File(path.to_owned(), i + 1);
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if let Some(other) = line.strip_prefix("include ") {
                let other = path.parent().unwrap_or(Path::new("")).join(other.trim());
                self.include(&other, Some(place), open)?;
                continue;
            }
            let Some((operator, backend)) = line.split_once('=') else {
                return Err(Error::Line { place, text: line.to_owned() });
            };
            let (operator, backend) = (operator.trim().to_owned(), Backend::read(backend.trim(), &place)?);
            let same_file =
                |r: &&Rule| matches!(&r.place, Place::File(p, _) if p == path) && r.operator == operator;
            if let Some(other) = self.all[first..].iter().find(same_file) {
                return Err(Error::Twice { place, operator, first: other.place.clone() });
            }
            self.all.push(Rule { operator, backend, place });
        }
        open.pop();
        Ok(())
    }
}
