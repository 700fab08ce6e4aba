//! One thing that is wrong with a manifest, and where.

use std::fmt;
use std::ops::Range;

/// One thing that is wrong with a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// A stable code, `E-MAN-010`; `docs/reference/manifest.md` lists them.
    pub code: &'static str,
    /// The key that it is about, `bundle.preload[2]`; empty for the whole file.
    pub key: String,
    /// Bytes of the text.
    pub span: Range<usize>,
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    /// What is wrong, without the place.
    pub message: String,
    /// The nearest spelling that would be right, where one is near.
    pub nearest: Option<String>,
}

impl fmt::Display for Problem {
    /// `4:10: E-MAN-013: "betta" is none of stable, beta (did you mean `beta`?)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.line, self.column, self.code, self.message)?;
        match &self.nearest {
            Some(nearest) => write!(f, " (did you mean `{nearest}`?)"),
            None => Ok(()),
        }
    }
}

/// Line and column, both from 1, of byte `at` of `text`.
pub(crate) fn place(text: &str, at: usize) -> (usize, usize) {
    let mut end = at.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}

/// The candidate most like `word`, if one is so like it that it was probably meant.
///
/// "Like" is the Damerau-Levenshtein distance without regard to case; up to a third of the longer word may differ.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    // Nobody misspells a word into a page, and the distance costs the product of the lengths.
    if word.len() > 100 {
        return None;
    }
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            let distance = strsim::osa_distance(&lower, &candidate.to_lowercase());
            (distance, candidate)
        })
        .filter(|(distance, candidate)| distance * 3 <= candidate.len().max(lower.len()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_and_stay_inside_the_text() {
        assert_eq!(place("a\nµb", 4), (2, 2));
        assert_eq!(place("a\nµb", 3), (2, 1));
        assert_eq!(place("a", 99), (1, 2));
    }

    #[test]
    fn a_far_word_is_no_suggestion() {
        assert_eq!(nearest("requierd", ["required", "optional"]).as_deref(), Some("required"));
        assert_eq!(nearest("xyzzy", ["required", "optional"]), None);
    }
}
