//! Errors as people and machines read them.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::{fmt, io};

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};
use serde_json::{Value, json};

/// An error of one of the libraries, ready to be shown.
#[derive(Debug)]
pub(crate) struct Failure {
    code: &'static str,
    hint: Option<String>,
    cause: Box<dyn StdError + Send + Sync>,
    /// For a problem in a text: the text, and the place in it.
    place: Option<Box<(NamedSource<String>, LabeledSpan)>>,
    /// Further problems of the same input.
    also: Vec<Failure>,
}

impl Failure {
    pub(crate) fn new(
        code: &'static str,
        hint: Option<String>,
        cause: impl StdError + Send + Sync + 'static,
    ) -> Self {
        Self { code, hint, cause: Box::new(cause), place: None, also: Vec::new() }
    }

    pub(crate) fn at(mut self, source: NamedSource<String>, label: LabeledSpan) -> Self {
        self.place = Some(Box::new((source, label)));
        self
    }

    pub(crate) fn and(mut self, also: Vec<Self>) -> Self {
        self.also = also;
        self
    }

    /// Code, message, causes and hint, for `--json`.
    pub(crate) fn json(&self) -> Value {
        let mut causes = Vec::new();
        let mut cause = self.cause.source();
        while let Some(inner) = cause {
            causes.push(inner.to_string());
            cause = inner.source();
        }
        let also: Vec<Value> = self.also.iter().map(|f| f.json()["error"].clone()).collect();
        json!({ "error": { "code": self.code, "message": self.to_string(), "causes": causes, "hint": self.hint, "also": also } })
    }

    /// The text for people.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        // A terminal wraps long lines; a wrapped path or place could not be searched for or copied.
        let handler = miette::GraphicalReportHandler::new().with_links(false).with_wrap_lines(false);
        match handler.render_report(&mut text, self) {
            Ok(()) => text,
            Err(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.source()
    }
}

impl Diagnostic for Failure {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.code))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.hint.as_ref().map(|hint| Box::new(hint) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.place.as_ref().map(|place| &place.0 as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let (_, label) = self.place.as_deref()?;
        Some(Box::new(std::iter::once(label.clone())))
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        (!self.also.is_empty()).then(|| Box::new(self.also.iter().map(|f| f as &dyn Diagnostic)) as Box<_>)
    }
}

/// Every library's error has a code and a hint.
macro_rules! failures {
    ($($error:ty),*) => { $(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(error.code(), error.hint(), error)
            }
        }
    )* };
}

failures!(
    Error,
    torchfl_audit::Error,
    torchfl_build::Error,
    torchfl_elf::Error,
    torchfl_fetch::Error,
    torchfl_loader::Error,
    torchfl_site::Error,
    torchfl_wheel::Error
);

/// What goes wrong at the edge itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("cannot write the answer as JSON")]
    Json(#[from] serde_json::Error),
    #[error("{path} is {what}", path = .path.display())]
    NotFile { path: PathBuf, what: &'static str, hint: &'static str },
    #[error("and {count} more mistakes")]
    More { count: usize },
    #[error("{path} exists", path = .path.display())]
    Exists { path: PathBuf },
    #[error("{path} is neither an ELF file nor a wheel", path = .path.display())]
    Neither { path: PathBuf },
    #[error("{path}: its build.json is no JSON", path = .path.display())]
    BuildJson { path: PathBuf, source: serde_json::Error },
    #[error("--at is given {places} times, and there are {folders} folders")]
    Places { places: usize, folders: usize },
    #[error("no library in {folders}")]
    NoLibrary { folders: String },
    #[error("the manifest offers several of {what}: {offered}")]
    Choose { what: &'static str, option: &'static str, offered: String },
    #[error("{option} {given}: {why}")]
    Option { option: &'static str, given: String, why: String },
    #[error("the manifest names no input{role}")]
    NoInput { role: String },
    #[error("{path}: its logins cannot be read", path = .path.display())]
    Netrc { path: PathBuf, source: torchfl_fetch::Error },
    #[error("cannot start the resolver {}", .uv.display())]
    NoResolver { uv: PathBuf, source: io::Error },
    #[error("the resolver failed: {message}")]
    Resolver { message: String },
    #[error("there is no wheel{asked}")]
    NoRow { asked: String },
}

impl Error {
    fn code(&self) -> &'static str {
        match self {
            Self::Io(_) => "E-CLI-001",
            Self::Json(_) => "E-CLI-002",
            Self::Exists { .. } => "E-CLI-003",
            Self::Neither { .. } => "E-CLI-004",
            Self::BuildJson { .. } => "E-CLI-005",
            Self::NotFile { .. } => "E-CLI-006",
            Self::More { .. } => "E-CLI-007",
            Self::Places { .. } => "E-CLI-008",
            Self::NoLibrary { .. } => "E-CLI-009",
            Self::Choose { .. } => "E-CLI-010",
            Self::Option { .. } => "E-CLI-011",
            Self::NoInput { .. } => "E-CLI-012",
            Self::Netrc { .. } => "E-CLI-013",
            Self::NoResolver { .. } => "E-CLI-014",
            Self::Resolver { .. } => "E-CLI-015",
            Self::NoRow { .. } => "E-CLI-016",
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Io(error) => match error.kind() {
                io::ErrorKind::NotFound => "check the spelling of the path",
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room on that file system",
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "choose a folder that you may write to"
                }
                io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                    "a part of this path is a file where a folder must be: name another"
                }
                _ => return None,
            },
            Self::Json(_) => return None,
            Self::NotFile { hint, .. } => hint,
            Self::More { .. } => "correct those above, and run again",
            Self::Exists { .. } => "it is never written over: name another file with -o, or move it away",
            Self::BuildJson { .. } => "it was changed by hand; build the wheel again",
            Self::Neither { .. } => "name a shared library, a program, or a .whl file",
            Self::Places { .. } => "give it once for each folder, in their order, or not at all",
            Self::NoResolver { .. } => "install uv (`pip install uv`), or name it: --uv",
            Self::Resolver { .. } => {
                "it does not come to an answer: check the options, and whether the index is there"
            }
            Self::NoRow { .. } => "`torchfl ci matrix` without options lists them all",
            Self::NoLibrary { .. } => "name the folders that the SDK's or the system's libraries are in",
            Self::Choose { option, .. } => return Some(format!("say which: {option}")),
            Self::Option { .. } => {
                "NAME is a role, a package or a file's name; SUM has 64 hexadecimal digits"
            }
            Self::NoInput { .. } => "`torchfl vendor show` prints its inputs; an [[input]] names one",
            Self::Netrc { .. } => {
                "write `machine HOST login NAME password WORD`, or name another file in NETRC"
            }
        };
        Some(hint.to_owned())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Error::Io(error).into()
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Error::Json(error).into()
    }
}
