use std::collections::{BTreeMap, BTreeSet};

use crate::{Arch, Error};

/// A library to generate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The machine that it is for.
    pub arch: Arch,
    /// Its `DT_SONAME`.
    pub soname: String,
    /// Where it looks for the library that it opens.
    pub search: Option<Search>,
    /// Its functions, by symbol. Those of `returns` are among them whether they stand here or not.
    pub functions: BTreeSet<String>,
    /// What some of them return, whatever they are called with.
    pub returns: BTreeMap<String, i64>,
    /// What becomes of a call of any other.
    pub rest: Answer,
}

/// A search path of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Search {
    /// `DT_RPATH`.
    Rpath(String),
    /// `DT_RUNPATH`.
    Runpath(String),
}

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It goes on to the function of that name in another library. Where that one cannot be opened, or has no such
    /// function, a line on stderr says so and the process ends (`abort`): at the call, not at the load.
    Forward {
        /// The library, as `dlopen` takes it.
        to: String,
        /// The version of all symbols here; the other library's are found under any.
        version: String,
    },
    /// A line on stderr, `torch_fl: NAME` and this text, and the end of the process.
    Refuse {
        /// What is wrong, without a line end.
        why: String,
    },
}

/// What the text is made with: a function of such a name would take its place.
const OWN: [&str; 5] = ["abort", "dlerror", "dlopen", "dlsym", "write"];

impl Spec {
    /// The functions that answer neither by themselves nor in vain: those of `rest`.
    pub(crate) fn others(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().filter(|name| !self.returns.contains_key(*name)).map(String::as_str)
    }

    /// All symbols, sorted.
    pub(crate) fn all(&self) -> BTreeSet<&str> {
        self.functions.iter().chain(self.returns.keys()).map(String::as_str).collect()
    }

    /// Names go into C strings, assembly and a linker's script as they are.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let file = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c))
        };
        let symbol = |name: &str| {
            let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_.$".contains(c));
            plain && !name.starts_with(|c: char| c.is_ascii_digit() || c == '$') && !name.is_empty()
        };
        let refused = |what, name: &str| Err(Error::Name { what, name: name.to_owned() });
        if !file(&self.soname) {
            return refused("the SONAME", &self.soname);
        }
        match &self.rest {
            Answer::Forward { to, .. } if !file(to) => return refused("the target", to),
            Answer::Forward { version, .. } if !file(version) => return refused("the version", version),
            Answer::Refuse { why } if why.chars().any(|c| c.is_control() || "\"\\?".contains(c)) => {
                return refused("the refusal", why);
            }
            _ => {}
        }
        let wrong = |name: &&str| !symbol(name) || OWN.contains(name) || name.starts_with("torchfl_shim_");
        match self.all().into_iter().find(wrong) {
            Some(name) => refused("a function", name),
            None => Ok(()),
        }
    }
}
