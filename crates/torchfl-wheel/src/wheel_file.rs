//! `WHEEL`: the wheel's description of itself.

use std::collections::BTreeSet;

use crate::{BuildTag, Error, Tag, WheelName, headers};

/// The file WHEEL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WheelFile {
    /// What wrote the wheel: `torchfl 0.1.0`.
    pub generator: String,
    /// Whether the files go to `purelib`; false as soon as a library is inside.
    pub root_is_purelib: bool,
    /// Every tag of the file name's compressed sets.
    pub tags: BTreeSet<Tag>,
    /// The build number of the file name.
    pub build: Option<String>,
}

impl WheelFile {
    /// What belongs into the wheel of that name.
    pub fn new(name: &WheelName, generator: impl Into<String>, root_is_purelib: bool) -> Self {
        Self {
            generator: generator.into(),
            root_is_purelib,
            tags: name.tags().into_iter().collect(),
            build: name.build.as_ref().map(BuildTag::to_string),
        }
    }

    /// Reads WHEEL; `file` is how errors call it. A wheel of another major version than 1 is refused, as
    /// the specification demands.
    pub fn parse(bytes: &[u8], file: &str) -> Result<Self, Error> {
        let fail = |header, value: &str, reason: &str| Error::Value {
            file: file.to_owned(),
            header,
            value: value.to_owned(),
            reason: reason.to_owned(),
        };
        let text = str::from_utf8(bytes).map_err(|_| fail("WHEEL", "", "not UTF-8"))?;
        let fields = headers::parse(text, file)?.headers;
        let get = |header: &str| {
            fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(header)).map(|(_, value)| value.trim())
        };
        let version = get("Wheel-Version").unwrap_or_default();
        if version.split('.').next() != Some("1") {
            return Err(fail("Wheel-Version", version, "not 1.x"));
        }
        let root_is_purelib = match get("Root-Is-Purelib") {
            Some(value) if value.eq_ignore_ascii_case("true") => true,
            Some(value) if value.eq_ignore_ascii_case("false") => false,
            other => {
                return Err(fail("Root-Is-Purelib", other.unwrap_or_default(), "neither `true` nor `false`"));
            }
        };
        let mut tags = BTreeSet::new();
        for (_, value) in fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("Tag")) {
            let [python, abi, platform] = value.trim().split('-').collect::<Vec<_>>()[..] else {
                return Err(fail("Tag", value, "not PYTHON-ABI-PLATFORM"));
            };
            tags.insert(Tag { python: python.into(), abi: abi.into(), platform: platform.into() });
        }
        Ok(Self {
            generator: get("Generator").unwrap_or_default().to_owned(),
            root_is_purelib,
            tags,
            build: get("Build").map(str::to_owned),
        })
    }

    /// The file's text.
    pub fn render(&self) -> Result<String, Error> {
        let mut fields = vec![
            ("Wheel-Version".to_owned(), "1.0".to_owned()),
            ("Generator".to_owned(), self.generator.clone()),
            ("Root-Is-Purelib".to_owned(), self.root_is_purelib.to_string()),
        ];
        fields.extend(self.tags.iter().map(|tag| ("Tag".to_owned(), tag.to_string())));
        fields.extend(self.build.iter().map(|build| ("Build".to_owned(), build.clone())));
        headers::render(&fields, None, "WHEEL")
    }
}
