use std::io;
use std::path::PathBuf;

/// Why a library was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message says it")]
pub enum Error {
    #[error("cannot write what is to be compiled")]
    Io(#[from] io::Error),
    #[error("no shim can be generated for {arch}")]
    Arch { arch: String },
    #[error("`{name}` cannot be {what} of a shim")]
    Name { what: &'static str, name: String },
    #[error("the C compiler {program} cannot be run", program = .program.display())]
    NoCompiler { program: PathBuf, arch: String, source: io::Error },
    #[error("{program} does not say what it is: {option} fails\n{told}", program = .program.display())]
    Odd { program: PathBuf, option: &'static str, told: String },
    #[error("{program} compiles for {found}, and the shim is for {wanted}", program = .program.display())]
    Machine { program: PathBuf, found: String, wanted: String },
    #[error("{program} cannot make {soname}\n{told}", program = .program.display())]
    Compile { program: PathBuf, soname: String, told: String },
}

impl Error {
    /// A stable code, documented in `docs/reference/errors.md`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io(_) => "E-SHM-001",
            Self::Arch { .. } => "E-SHM-002",
            Self::Name { .. } => "E-SHM-003",
            Self::NoCompiler { .. } => "E-SHM-004",
            Self::Odd { .. } => "E-SHM-005",
            Self::Machine { .. } => "E-SHM-006",
            Self::Compile { .. } => "E-SHM-007",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Io(_) | Self::Name { .. } => return None,
            Self::Arch { .. } => "those for x86_64 and aarch64 can".to_owned(),
            Self::NoCompiler { arch, .. } if arch == std::env::consts::ARCH => {
                "install gcc, or name a compiler: --cc PROGRAM".to_owned()
            }
            Self::NoCompiler { arch, .. } | Self::Machine { wanted: arch, .. } => {
                let package = arch.replace('_', "-");
                format!("name one for {arch}: --cc {arch}-linux-gnu-gcc (Debian: gcc-{package}-linux-gnu)")
            }
            Self::Odd { .. } | Self::Compile { .. } => {
                "gcc and clang are known to do; name one: --cc PROGRAM".to_owned()
            }
        };
        Some(text)
    }
}
