use std::path::PathBuf;

use super::parse::Place;

/// What is wrong with a route, and where.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A routing file that is not there.
    #[error("{}cannot read {}", at(place.as_ref()), path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The line that includes it.
        place: Option<Place>,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A line that is neither `op = backend` nor `include file`.
    #[error("{place}: neither `op = backend` nor `include file`: {text:?}")]
    Line {
        /// Where.
        place: Place,
        /// The line.
        text: String,
    },
    /// A backend that there is not.
    #[error("{place}: unknown backend {backend:?}")]
    Backend {
        /// Where.
        place: Place,
        /// As written.
        backend: String,
        /// The nearest right spelling.
        near: Option<&'static str>,
    },
    /// An operator that there is not.
    #[error("{place}: there is no operator {operator:?}")]
    Operator {
        /// Where.
        place: Place,
        /// As written.
        operator: String,
        /// The nearest right spelling.
        near: Option<String>,
    },
    /// The backend has no kernel for this operator.
    #[error("{place}: {operator} has no kernel of the backend {backend:?}")]
    NoKernel {
        /// Where.
        place: Place,
        /// The operator, in full.
        operator: String,
        /// The backend.
        backend: &'static str,
    },
    /// A file that includes itself.
    #[error("{place}: {} includes itself", path.display())]
    Cycle {
        /// The line that closes the circle.
        place: Place,
        /// The file.
        path: PathBuf,
    },
    /// A variable that may mean two operators.
    #[error("{place}: may mean {} or {}", first, second)]
    Ambiguous {
        /// The variable.
        place: Place,
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
    /// One file says two things of one operator.
    #[error("{place}: {operator} has a backend already, at {first}")]
    Twice {
        /// Where.
        place: Place,
        /// As written.
        operator: String,
        /// The other line.
        first: Place,
    },
    /// A backend that this build has not.
    #[error("{place}: the backend {backend:?} is not in this build")]
    NotBuilt {
        /// Where.
        place: Place,
        /// As written.
        backend: String,
    },
}

fn at(place: Option<&Place>) -> String {
    place.map(|p| format!("{p}: ")).unwrap_or_default()
}

impl Error {
    /// Stable between releases.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Read { .. } => "E-RTE-001",
            Error::Line { .. } => "E-RTE-002",
            Error::Backend { .. } => "E-RTE-003",
            Error::Operator { .. } => "E-RTE-004",
            Error::NoKernel { .. } => "E-RTE-005",
            Error::Cycle { .. } => "E-RTE-006",
            Error::Ambiguous { .. } => "E-RTE-007",
            Error::Twice { .. } => "E-RTE-008",
            Error::NotBuilt { .. } => "E-RTE-009",
        }
    }

    /// The next step.
    pub fn hint(&self) -> String {
        match self {
            Error::Read { .. } => {
                "correct the name; an included file is looked up beside the file that names it".into()
            }
            Error::Line { .. } => {
                "write `add.Tensor = cpu`, `include other.conf`, or a comment after #".into()
            }
            Error::Backend { near: Some(near), .. } => format!("did you mean {near:?}?"),
            Error::Backend { .. } => "the backends are vendor, cpu and composite".into(),
            Error::Operator { near: Some(near), .. } => format!("did you mean {near}?"),
            Error::Operator { .. } => "write it as PyTorch does: add, add.Tensor, aten::add.Tensor".into(),
            Error::NoKernel { .. } => "take another backend, or the line out".into(),
            Error::Cycle { .. } => "take one of the include lines out".into(),
            Error::Ambiguous { .. } => "say it in a file, where the overload stands after a dot".into(),
            Error::Twice { .. } => "take one of the two lines out".into(),
            Error::NotBuilt { .. } => "take vendor, cpu or composite".into(),
        }
    }
}
