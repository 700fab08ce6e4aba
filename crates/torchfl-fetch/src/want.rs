//! What is asked for.

use std::fmt;

use torchfl_wheel::{Sha256, Version, WheelName, normalize_name};

/// One file that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// Which.
    pub what: What,
    /// What its bytes must be.
    pub sha256: Option<Sha256>,
    /// Without a sum: take what comes.
    pub unhashed: bool,
}

/// Which file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// The wheel of a package.
    Package {
        /// The distribution.
        name: String,
        /// The exact version.
        version: Version,
        /// `cp311`
        python: String,
        /// `x86_64`
        arch: String,
    },
    /// A file of this name, in which `*` stands for what is not known.
    File {
        /// One plain name.
        name: String,
    },
}

impl What {
    /// Its name, where it is known to the last letter.
    pub(crate) fn exact(&self) -> Option<&str> {
        match self {
            Self::File { name } if !name.contains('*') => Some(name),
            _ => None,
        }
    }

    /// Whether a file of this name may be it.
    pub(crate) fn is_named(&self, file: &str) -> bool {
        match self {
            Self::File { name } => matches(name, file),
            Self::Package { name, version, python, arch } => {
                let Ok(wheel) = file.parse::<WheelName>() else { return false };
                normalize_name(&wheel.distribution) == normalize_name(name)
                    && wheel.version == *version
                    && wheel.python.split('.').any(|tag| runs_on(tag, python))
                    && wheel.abi.split('.').any(|abi| abi == python || abi == "abi3" || abi == "none")
                    && wheel.platform.split('.').any(|tag| tag == "any" || is_linux(tag, arch))
            }
        }
    }
}

/// Whether a wheel of interpreter tag `tag` is for `python`, `cp311`: that very one, an older one (`abi3`),
/// `py3`.
fn runs_on(tag: &str, python: &str) -> bool {
    let minor = |tag: &str| tag.strip_prefix("cp3").and_then(|minor| minor.parse::<u32>().ok());
    tag == python || tag == "py3" || minor(tag).zip(minor(python)).is_some_and(|(tag, wanted)| tag <= wanted)
}

/// `linux_x86_64`, `manylinux_2_28_x86_64`, `manylinux2014_x86_64`.
fn is_linux(tag: &str, arch: &str) -> bool {
    tag.strip_suffix(arch).is_some_and(|rest| rest.contains("linux") && rest.ends_with('_'))
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name } => f.write_str(name),
            Self::Package { name, version, python, arch } => {
                write!(f, "{name} {version} for {python} on {arch}")
            }
        }
    }
}

/// Whether `name` is `pattern` with something, or nothing, in place of each `*`.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        assert!(matches("a-*-cp312-*.whl", "a-1+x2-cp312-linux.whl"));
        assert!(matches("a*", "a"));
        assert!(!matches("a*b*b", "ab"));
        assert!(!matches("a", "ab"));
        assert!(!matches("a-*.whl", "a-1.whl.part"));
    }

    #[test]
    fn a_wheel_is_known_by_its_name() {
        let what = |version: &str| What::Package {
            name: "Torch-Thing".to_owned(),
            version: version.parse().unwrap(),
            python: "cp311".to_owned(),
            arch: "x86_64".to_owned(),
        };
        let torch = what("2.10.0+cpu");
        assert!(torch.is_named("torch_thing-2.10.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"));
        assert!(torch.is_named("torch_thing-2.10.0+cpu-cp39-abi3-linux_x86_64.whl"));
        assert!(torch.is_named("torch_thing-2.10.0+cpu-py3-none-any.whl"));
        for other in [
            "torch_thing-2.10.0-cp311-cp311-linux_x86_64.whl",
            "torch_thing-2.10.0+cpu-cp312-cp312-linux_x86_64.whl",
            "torch_thing-2.10.0+cpu-cp311-cp311-linux_aarch64.whl",
            "torch_thing-2.10.0+cpu-cp311-cp311-win_amd64.whl",
            "torch-2.10.0+cpu-cp311-cp311-linux_x86_64.whl",
            ".torch_thing-2.10.0+cpu-cp311-cp311-linux_x86_64.whl.0123.part",
        ] {
            assert!(!torch.is_named(other), "{other}");
        }
    }
}
