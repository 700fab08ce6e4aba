//! Wheel file names and tags (Python's "binary distribution format"; PEP 425, 427, 440, 503, 625).

use std::fmt;
use std::str::FromStr;

use pep440_rs::Version;
use serde::{Serialize, Serializer};

use crate::Error;

/// A distribution's name as indexes compare it: lower case, each run of `-`, `_` and `.` one `-` (PEP 503).
pub fn normalize_name(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    let mut in_run = false;
    for c in name.chars() {
        let separator = matches!(c, '-' | '_' | '.');
        if !separator {
            normal.push(c.to_ascii_lowercase());
        } else if !in_run {
            normal.push('-');
        }
        in_run = separator;
    }
    normal
}

/// The name's form in file names: [`normalize_name`] with `_` for `-`.
pub fn escape_name(name: &str) -> String {
    normalize_name(name).replace('-', "_")
}

/// Whether `name` may name a distribution: ASCII letters and digits, with `-`, `_`, `.` inside.
pub fn is_valid_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    matches!((bytes.first(), bytes.last()), (Some(first), Some(last))
        if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric())
        && bytes.iter().all(inner)
}

/// One compatibility tag, `cp311-cp311-manylinux_2_28_x86_64`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag {
    /// Interpreter: `cp311`, `py3`.
    pub python: String,
    /// ABI: `cp311`, `abi3`, `none`.
    pub abi: String,
    /// Platform: `manylinux_2_28_x86_64`, `any`.
    pub platform: String,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.python, self.abi, self.platform)
    }
}

impl Serialize for Tag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The optional build number: decides between two wheels that are equal otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BuildTag {
    /// The leading digits.
    pub number: u64,
    /// What follows them.
    pub suffix: String,
}

impl fmt::Display for BuildTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, self.suffix)
    }
}

/// The file name of a wheel, in parts. `Display` writes it with `.whl`; `FromStr` reads it.
///
/// `python`, `abi` and `platform` are compressed tag sets: `.` between members (`py2.py3`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WheelName {
    /// The distribution, in the file name's spelling.
    pub distribution: String,
    /// The version; written in its normal form.
    pub version: Version,
    /// The build number, if there is one.
    pub build: Option<BuildTag>,
    /// Interpreter tags.
    pub python: String,
    /// ABI tags.
    pub abi: String,
    /// Platform tags.
    pub platform: String,
}

impl WheelName {
    /// The name of a wheel to be written. Escapes the distribution and sorts the tag sets.
    pub fn new(
        distribution: &str,
        version: Version,
        python: &str,
        abi: &str,
        platform: &str,
    ) -> Result<Self, Error> {
        let name = Self {
            distribution: escape_name(distribution),
            version,
            build: None,
            python: sorted(python),
            abi: sorted(abi),
            platform: sorted(platform),
        };
        let text = name.to_string();
        let fail = |part, reason| Error::Name { name: text.clone(), part, reason };
        if !is_valid_name(distribution) {
            return Err(fail("distribution", format!("`{distribution}` is not a distribution's name")));
        }
        for (part, set) in name.tag_sets() {
            check_tag_set(set).map_err(|reason| fail(part, reason))?;
        }
        Ok(name)
    }

    /// Every tag of the compressed sets, sorted.
    pub fn tags(&self) -> Vec<Tag> {
        let mut tags = Vec::new();
        for python in self.python.split('.') {
            for abi in self.abi.split('.') {
                for platform in self.platform.split('.') {
                    tags.push(Tag { python: python.into(), abi: abi.into(), platform: platform.into() });
                }
            }
        }
        tags.sort();
        tags.dedup();
        tags
    }

    /// `torch_fl-2.13.0+cuda13.0.dist-info`.
    pub fn dist_info(&self) -> String {
        format!("{}-{}.dist-info", self.distribution, self.version)
    }

    /// `torch_fl-2.13.0+cuda13.0.data`.
    pub fn data_dir(&self) -> String {
        format!("{}-{}.data", self.distribution, self.version)
    }

    fn tag_sets(&self) -> [(&'static str, &str); 3] {
        [("python", &self.python), ("abi", &self.abi), ("platform", &self.platform)]
    }
}

impl fmt::Display for WheelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.distribution, self.version)?;
        if let Some(build) = &self.build {
            write!(f, "-{build}")?;
        }
        write!(f, "-{}-{}-{}.whl", self.python, self.abi, self.platform)
    }
}

impl FromStr for WheelName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let fail = |part, reason: String| Error::Name { name: text.to_owned(), part, reason };
        if text.len() > 255 {
            return Err(fail("name", "is longer than a file name can be, 255 bytes".into()));
        }
        let stem = text.strip_suffix(".whl").ok_or_else(|| fail("name", "does not end in `.whl`".into()))?;
        let parts: Vec<&str> = stem.split('-').collect();
        let (distribution, version, build, tags) = match parts[..] {
            [distribution, version, python, abi, platform] => {
                (distribution, version, None, [python, abi, platform])
            }
            [distribution, version, build, python, abi, platform] => {
                (distribution, version, Some(build), [python, abi, platform])
            }
            _ => return Err(fail("name", format!("has {} parts between `-`, not 5 or 6", parts.len()))),
        };
        if !is_valid_name(distribution) {
            return Err(fail("distribution", format!("`{distribution}` is not a distribution's name")));
        }
        let version = parse_version(version).map_err(|reason| fail("version", reason))?;
        let build = build.map(parse_build).transpose().map_err(|reason| fail("build", reason))?;
        let [python, abi, platform] = tags.map(str::to_owned);
        let name = Self { distribution: distribution.to_owned(), version, build, python, abi, platform };
        for (part, set) in name.tag_sets() {
            check_tag_set(set).map_err(|reason| fail(part, reason))?;
        }
        Ok(name)
    }
}

impl Serialize for WheelName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads a version in a file name's spelling, where `_` stands for `-`.
fn parse_version(text: &str) -> Result<Version, String> {
    // A longer number than any release has; the version parser's time grows with the length.
    if text.len() > 256 {
        return Err("is longer than 256 bytes".into());
    }
    if text.bytes().filter(|b| *b == b'+').count() > 1 {
        return Err(format!("`{text}` has more than one `+` (PEP 440 allows one local part)"));
    }
    Version::from_str(&text.replace('_', "-")).map_err(|error| format!("`{text}`: {error}"))
}

fn parse_build(text: &str) -> Result<BuildTag, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    if number.is_empty() {
        return Err(format!("`{text}` does not start with a digit"));
    }
    if !suffix.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.')) {
        return Err(format!("`{text}` holds something else than letters, digits, `_` and `.`"));
    }
    let number = number.parse().map_err(|error| format!("`{text}`: {error}"))?;
    Ok(BuildTag { number, suffix: suffix.to_owned() })
}

fn sorted(set: &str) -> String {
    let mut members: Vec<&str> = set.split('.').collect();
    members.sort_unstable();
    members.dedup();
    members.join(".")
}

fn check_tag_set(set: &str) -> Result<(), String> {
    for member in set.split('.') {
        if member.is_empty() {
            return Err(format!("`{set}` has an empty tag"));
        }
        if !member.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(format!("tag `{member}` holds something else than letters, digits and `_`"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn part(name: &str) -> &'static str {
        match name.parse::<WheelName>() {
            Err(Error::Name { part, .. }) => part,
            other => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn a_local_version_and_its_dist_info() {
        let text = "torch_fl-2.13.0+cuda13.0-cp311-cp311-manylinux_2_28_x86_64.whl";
        let name: WheelName = text.parse().unwrap();
        assert_eq!(name.to_string(), text);
        assert_eq!(name.dist_info(), "torch_fl-2.13.0+cuda13.0.dist-info");
        assert_eq!(name.tags()[0].to_string(), "cp311-cp311-manylinux_2_28_x86_64");
        let version = "2.13.0+CUDA13-0".parse().unwrap();
        let new = WheelName::new("Torch.-FL", version, "cp311", "cp311", "manylinux_2_28_x86_64").unwrap();
        assert_eq!(new, name);
    }

    #[test]
    fn compressed_sets_are_sorted_and_expanded() {
        let name = WheelName::new("x", "1".parse().unwrap(), "py3.py2", "none", "b_1.a_1").unwrap();
        assert_eq!(name.to_string(), "x-1-py2.py3-none-a_1.b_1.whl");
        assert_eq!(name.tags().len(), 4);
    }

    #[test]
    fn build_numbers() {
        let name: WheelName = "x-1-2post1-py3-none-any.whl".parse().unwrap();
        assert_eq!(name.build, Some(BuildTag { number: 2, suffix: "post1".into() }));
        assert_eq!(name.to_string(), "x-1-2post1-py3-none-any.whl");
        assert!(
            BuildTag { number: 2, suffix: String::new() } < BuildTag { number: 10, suffix: String::new() }
        );
    }

    #[test]
    fn an_underscore_in_a_version_is_a_hyphen() {
        let name: WheelName = "x-1.0+ubuntu_1-py3-none-any.whl".parse().unwrap();
        assert_eq!(name.version.to_string(), "1.0+ubuntu.1");
    }

    #[test]
    fn errors_name_the_part() {
        assert_eq!(part("x-1-py3-none-any.zip"), "name");
        assert_eq!(part("x-py3-none-any.whl"), "name");
        assert_eq!(part("-1-py3-none-any.whl"), "distribution");
        assert_eq!(part("x-one-py3-none-any.whl"), "version");
        assert_eq!(part("x-1+a+b-py3-none-any.whl"), "version");
        assert_eq!(part("x-1-b1-py3-none-any.whl"), "build");
        assert_eq!(part("x-1-py3..py2-none-any.whl"), "python");
        assert_eq!(part("x-1-py3--any.whl"), "abi");
        assert_eq!(part("x-1-py3-none-ä.whl"), "platform");
        assert!(WheelName::new("a/b", "1".parse().unwrap(), "py3", "none", "any").is_err());
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in ".{0,80}") {
            let _ = text.parse::<WheelName>();
            let _ = format!("{text}.whl").parse::<WheelName>();
        }

        #[test]
        fn a_name_is_read_back(
            distribution in "[A-Za-z0-9]([A-Za-z0-9._-]{0,9}[A-Za-z0-9])?",
            version in r"[0-9]{1,3}(\.[0-9]{1,3}){0,3}(\.post[0-9])?(\+[a-z0-9]{1,5}([._-][a-z0-9]{1,5}){0,2})?",
            python in "[a-z]{2}[0-9]{1,3}(\\.[a-z]{2}[0-9]{1,3}){0,2}",
            platform in "[a-z0-9_]{1,12}",
        ) {
            let name = WheelName::new(&distribution, version.parse().unwrap(), &python, "none", &platform).unwrap();
            prop_assert_eq!(name.to_string().parse::<WheelName>().unwrap(), name);
        }
    }
}
