//! Text to manifest.

use std::fmt::Write;

use toml::de::{DeTable, DeValue};

use crate::Error;
use crate::decode::{Complaint, Context, Field, Node};
use crate::model::Manifest;
use crate::problem::Problem;
use crate::rules;

impl Manifest {
    /// Reads a manifest; `origin` names the file in messages.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] with every mistake: where the text is no TOML those of syntax (TOML 1.1), else those of
    /// keys, types and values, and of values that contradict each other.
    pub fn parse(text: &str, origin: &str) -> Result<Self, Error> {
        let (table, mistakes) = DeTable::parse_recoverable(text);
        let mut context = Context::default();
        for mistake in &mistakes {
            let span = mistake.span().unwrap_or(0..0);
            context.report("E-MAN-001", span, Complaint::new(mistake.message()));
        }
        let mut manifest = None;
        if mistakes.is_empty() {
            let root = Node::new(0..0, DeValue::Table(table.into_inner()));
            let read = Self::decode(&root, &mut context);
            context.read();
            rules::check(&read, &mut context);
            manifest = Some(read);
        }
        let problems = context.finish(text);
        match manifest {
            Some(manifest) if problems.is_empty() => Ok(manifest),
            _ => Err(Error::Invalid { origin: origin.to_owned(), text: text.to_owned(), problems }),
        }
    }

    /// `cuda-slim`: vendor and variant; the file is named after it.
    pub fn name(&self) -> String {
        match &self.variant {
            Some(variant) => format!("{}-{variant}", self.vendor),
            None => self.vendor.to_string(),
        }
    }
}

/// The text of [`Error::Invalid`]: one line a problem, each with its place.
pub(crate) fn listing(origin: &str, problems: &[Problem]) -> String {
    let mut text = match problems {
        [_] => format!("the manifest {origin} holds a mistake"),
        _ => format!("the manifest {origin} holds {} mistakes", problems.len()),
    };
    for problem in problems {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {origin}:{problem}");
    }
    text
}
