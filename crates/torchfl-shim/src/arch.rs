use std::fmt;
use std::str::FromStr;

use crate::Error;

/// A machine that functions are written for. What goes on to another library is a few lines of assembly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    /// 64-bit x86.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

impl Arch {
    /// Its name in wheels and in the names of compilers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// The compiler's usual name: `cc` on the machine itself, `aarch64-linux-gnu-gcc` on another one.
    pub fn compiler(self) -> String {
        if self.as_str() == std::env::consts::ARCH {
            "cc".to_owned()
        } else {
            format!("{}-linux-gnu-gcc", self.as_str())
        }
    }

    /// The version that the machine's first glibc gave its symbols (`DEFAULT` in its `shlib-versions`).
    pub(crate) fn oldest(self) -> &'static str {
        match self {
            Self::X86_64 => "GLIBC_2.2.5",
            Self::Aarch64 => "GLIBC_2.17",
        }
    }

    /// What the compiler is told for this machine alone. Control-flow marks are left out: they hold for a whole
    /// library, so the assembly would have to carry them too. The page is the largest that kernels have there.
    pub(crate) fn flags(self) -> [&'static str; 2] {
        match self {
            Self::X86_64 => ["-fcf-protection=none", "-Wl,-z,max-page-size=0x1000"],
            Self::Aarch64 => ["-mbranch-protection=none", "-Wl,-z,max-page-size=0x10000"],
        }
    }

    /// The assembly of a function that goes on.
    pub(crate) fn assembly(self) -> &'static str {
        match self {
            Self::X86_64 => include_str!("parts/x86_64.c"),
            Self::Aarch64 => include_str!("parts/aarch64.c"),
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Arch {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let known = [Self::X86_64, Self::Aarch64].into_iter().find(|arch| arch.as_str() == text);
        known.ok_or_else(|| Error::Arch { arch: text.to_owned() })
    }
}
