//! What can go wrong in reading the inputs of the model, each with a stable code and a next step.

/// An error of this crate. `name` is what the caller called the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes of an `ld.so.cache` contradict themselves, or are something else.
    #[error("{name}: not a usable ld.so.cache: it {what}")]
    Cache {
        /// The file.
        name: String,
        /// What is wrong, as the end of a sentence.
        what: &'static str,
    },
}

impl Error {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Cache { .. } => "E-LDR-001",
        }
    }

    /// The next step, where there is one.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Cache { .. } => "run `ldconfig` on that system and copy the file again, or leave it out",
        };
        Some(hint.to_owned())
    }
}
