//! Why an audit could not be made.

use std::path::PathBuf;

/// An error of this crate. What is wrong with a wheel is a finding, not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder cannot be read.
    #[error("cannot read what is to be judged")]
    Io(#[source] std::io::Error),
    /// A wheel cannot be read.
    #[error(transparent)]
    Wheel(#[from] torchfl_wheel::Error),
    /// A snapshot cannot be read.
    #[error(transparent)]
    Loader(#[from] torchfl_loader::Error),
    /// A folder without a `torch_fl` in it.
    #[error("{}: no torch_fl is installed in this folder", folder.display())]
    NoSubject {
        /// The folder.
        folder: PathBuf,
    },
    /// What was given as torch is none.
    #[error("{}: no torch: there is no torch/version.py", path.display())]
    NoTorch {
        /// The wheel or folder.
        path: PathBuf,
    },
    /// `build.json` is not what `torchfl build` writes.
    #[error("{}: torch_fl/build.json cannot be read", path.display())]
    BuildJson {
        /// The wheel or folder.
        path: PathBuf,
        /// Where, and what was expected.
        #[source]
        source: serde_json::Error,
    },
    /// A glob cannot be read.
    #[error("`{glob}` is no glob of file names")]
    Glob {
        /// The glob.
        glob: String,
        /// Why.
        #[source]
        source: globset::Error,
    },
    /// A severity is set for a rule that does not exist.
    #[error("{}: the manifest sets a severity for {code}, which is no rule", path.display())]
    NoRule {
        /// The wheel.
        path: PathBuf,
        /// The code.
        code: String,
    },
    /// A library that was given is none.
    #[error("{}: not a library", path.display())]
    Library {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: torchfl_loader::BadFile,
    },
    /// Two torches without a library in common.
    #[error("{} and {} have no library of torch/lib in common", vendor.display(), stock.display())]
    NoCore {
        /// The vendor's torch.
        vendor: PathBuf,
        /// The stock torch.
        stock: PathBuf,
    },
    /// A FIFO or a device.
    #[error("{} is neither a file nor a folder", path.display())]
    Special {
        /// The path.
        path: PathBuf,
    },
    /// Two of one in one folder.
    #[error("{}: more than one torch_fl is installed: {}", folder.display(), infos.join(", "))]
    TwoSubjects {
        /// The folder.
        folder: PathBuf,
        /// Their metadata folders.
        infos: Vec<String>,
    },
    /// A text file that is none.
    #[error("{}: larger than {limit} bytes, which no such file is", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// In bytes.
        limit: u64,
    },
    /// The vendor's torch has no library that the stock one lacks.
    #[error("{}: no library of torch/lib that {} lacks", vendor.display(), stock.display())]
    NoExtra {
        /// The vendor's torch.
        vendor: PathBuf,
        /// The stock torch.
        stock: PathBuf,
    },
    /// A wheel without `build.json`.
    #[error("{}: no wheel of torch_fl: it holds no torch_fl/build.json", path.display())]
    NotOurs {
        /// The wheel.
        path: PathBuf,
    },
    /// The resolver's answer is not in its usual form.
    #[error("the resolver's answer has a line that cannot be read: `{line}`")]
    Answer {
        /// The line.
        line: String,
    },
    /// The resolver's answer leaves the wheel out.
    #[error("the resolver's answer does not hold {wheel}, which it was asked for")]
    Incomplete {
        /// Its file name.
        wheel: String,
    },
    /// Neither a library nor a symbol.
    #[error("{name}: no library of this name is looked for, and no symbol of it is defined or referred to")]
    Unknown {
        /// What was asked for.
        name: String,
    },
}

impl Error {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io(_) => "E-AUD-001",
            Self::Wheel(error) => error.code(),
            Self::Loader(error) => error.code(),
            Self::NoSubject { .. } => "E-AUD-002",
            Self::NoTorch { .. } => "E-AUD-003",
            Self::BuildJson { .. } => "E-AUD-004",
            Self::Glob { .. } => "E-AUD-005",
            Self::NoRule { .. } => "E-AUD-006",
            Self::Library { .. } => "E-AUD-007",
            Self::NoCore { .. } => "E-AUD-008",
            Self::Unknown { .. } => "E-AUD-009",
            Self::TwoSubjects { .. } => "E-AUD-011",
            Self::TooLarge { .. } => "E-AUD-012",
            Self::NoExtra { .. } => "E-AUD-013",
            Self::Special { .. } => "E-AUD-010",
            Self::NotOurs { .. } => "E-AUD-014",
            Self::Answer { .. } => "E-AUD-015",
            Self::Incomplete { .. } => "E-AUD-016",
        }
    }

    /// The next step, where there is one.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Wheel(error) => return error.hint(),
            Self::Loader(error) => return error.hint(),
            Self::Io(error) if error.kind() == std::io::ErrorKind::NotFound => {
                "check the spelling of the path"
            }
            Self::Io(_) => return None,
            Self::NoSubject { .. } => {
                "name the wheel file, or the site-packages folder that torch_fl is installed in"
            }
            Self::NoTorch { .. } => {
                "name the torch wheel, or the site-packages folder that torch is installed in"
            }
            Self::BuildJson { .. } => "build the wheel again with this version of torchfl",
            Self::Glob { .. } => "`*`, `?` and `[…]` are understood; escape others with a backslash",
            Self::NoRule { .. } => "the rules are listed in docs/reference/audit.md",
            Self::Library { .. } => "name a shared library that is linked against torch",
            Self::NoCore { .. } => "name two torches for the same machine",
            Self::NotOurs { .. } => "name a wheel that `torchfl build` wrote",
            Self::Answer { .. } | Self::Incomplete { .. } => {
                "try another release of uv; 0.13.9 is understood"
            }
            Self::Special { .. } => "name a wheel file, or a site-packages folder",
            Self::TwoSubjects { .. } => "uninstall torch_fl, and remove what is left of the older one",
            Self::TooLarge { .. } => "install that distribution again",
            Self::NoExtra { .. } => "is --vendor the vendor's torch, and --stock the stock one?",
            Self::Unknown { .. } => {
                "give a SONAME or file name, or a symbol's mangled name (`nm -D LIBRARY`)"
            }
        };
        Some(hint.to_owned())
    }
}
