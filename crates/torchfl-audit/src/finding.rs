//! What an audit finds, and the rules that it goes by.

use serde::{Deserialize, Serialize};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Not told at all.
    Ignore,
    /// Good to know.
    Note,
    /// Will fail for some.
    Warning,
    /// Will not load, or will load wrongly.
    Error,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// The rule, `AUD-002`.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The file it is about, below site-packages, or the wheel's own name.
    pub file: String,
    /// What it is about in the file: a library, a symbol, a version, a distribution.
    pub name: String,
    /// What is wrong, and how that was found.
    pub reason: String,
    /// What to do.
    pub fix: String,
}

/// A rule of the audit.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Rule {
    /// Its stable code.
    pub code: &'static str,
    /// A few words.
    pub title: &'static str,
    /// Unless the manifest says otherwise.
    pub severity: Severity,
    /// What it holds to be wrong, and the source of that.
    pub about: &'static str,
    /// What to do about it.
    pub fix: &'static str,
}

impl Rule {
    /// A finding of this rule.
    pub(crate) fn finding(
        &self,
        file: impl Into<String>,
        name: impl Into<String>,
        reason: impl Into<String>,
    ) -> Finding {
        Finding {
            code: self.code,
            severity: self.severity,
            file: file.into(),
            name: name.into(),
            reason: reason.into(),
            fix: self.fix.to_owned(),
        }
    }
}
