//! `METADATA`: the core metadata of a distribution, versions 2.4 and 2.3.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use pep440_rs::Version;
use pep508_rs::Pep508Url;

use crate::name::{is_valid_name, normalize_name};
use crate::{Error, headers};

/// The version of the metadata format to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetadataVersion {
    /// For indexes that do not know 2.4: see [`Metadata::to_version`].
    V2_3,
    /// With `License-Expression` and `License-File` (PEP 639).
    #[default]
    V2_4,
}

impl fmt::Display for MetadataVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V2_3 => "2.3",
            Self::V2_4 => "2.4",
        })
    }
}

/// The address in a `name @ address` requirement, exactly as written.
///
/// The parser's own type replaces `${NAME}` by environment variables, which no file's meaning may hang on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Link(pub String);

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Pep508Url for Link {
    type Err = std::convert::Infallible;

    fn parse_url(url: &str, _working_dir: Option<&Path>) -> Result<Self, Self::Err> {
        Ok(Self(url.to_owned()))
    }
}

/// One `Requires-Dist` value.
pub type Requirement = pep508_rs::Requirement<Link>;

/// Fields that may appear once only.
const SINGLE: [&str; 19] = [
    "Metadata-Version",
    "Name",
    "Version",
    "Summary",
    "Description",
    "Description-Content-Type",
    "Keywords",
    "Home-page",
    "Download-URL",
    "Author",
    "Author-email",
    "Maintainer",
    "Maintainer-email",
    "License",
    "License-Expression",
    "Requires-Python",
    // Not in the specification, but harmful when doubled.
    "Generator",
    "Root-Is-Purelib",
    "Wheel-Version",
];

/// The file METADATA: headers in order, and the description that follows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Names and values. A value of several lines holds `\n`, without the indentation of the file.
    pub headers: Vec<(String, String)>,
    /// The long description, after the headers.
    pub description: Option<String>,
}

impl Metadata {
    /// The three fields that every METADATA has.
    pub fn new(version: MetadataVersion, name: &str, release: &Version) -> Self {
        let mut new = Self { headers: Vec::new(), description: None };
        new.push("Metadata-Version", version.to_string());
        new.push("Name", name);
        new.push("Version", release.to_string());
        new
    }

    /// Reads METADATA; `file` is how errors call it. Checks the form, not the values: see [`Metadata::check`].
    pub fn parse(bytes: &[u8], file: &str) -> Result<Self, Error> {
        let text = str::from_utf8(bytes).map_err(|error| Error::Headers {
            file: file.to_owned(),
            line: bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count(),
            reason: "not UTF-8".to_owned(),
        })?;
        let headers::Parsed { headers, body } = headers::parse(text, file)?;
        Ok(Self { headers, description: body })
    }

    /// The file's text. Fails on a value that a reader would not get back, and where [`Metadata::check`] does.
    pub fn render(&self) -> Result<String, Error> {
        self.check("METADATA")?;
        headers::render(&self.headers, self.description.as_deref(), "METADATA")
    }

    /// Whether the fields hold what the specification asks for: those that must be there are, single ones
    /// are single, the name is valid, version and requirements can be read.
    pub fn check(&self, file: &str) -> Result<(), Error> {
        let fail = |header: &'static str, reason: &str| {
            let value = self.get(header).unwrap_or_default().to_owned();
            Err(Error::Value { file: file.to_owned(), header, value, reason: reason.to_owned() })
        };
        for header in ["Metadata-Version", "Name", "Version"] {
            if self.get(header).is_none() {
                return fail(header, "is missing");
            }
        }
        for header in SINGLE {
            if self.get_all(header).nth(1).is_some() {
                return fail(header, "is given more than once");
            }
        }
        if !self
            .get("Metadata-Version")
            .is_some_and(|version| version.starts_with("1.") || version.starts_with("2."))
        {
            return fail("Metadata-Version", "neither 1.x nor 2.x");
        }
        if !is_valid_name(self.name()) {
            return fail("Name", "not a distribution's name");
        }
        self.version().and_then(|_| self.requires_dist()).map(|_| ()).map_err(|error| error.in_file(file))
    }

    /// The first value of a header; names are compared without case.
    pub fn get(&self, header: &str) -> Option<&str> {
        self.get_all(header).next()
    }

    /// All values of a header, in order.
    pub fn get_all(&self, header: &str) -> impl Iterator<Item = &str> {
        self.headers
            .iter()
            .filter(move |(name, _)| name.eq_ignore_ascii_case(header))
            .map(|(_, value)| value.as_str())
    }

    /// Appends a header.
    pub fn push(&mut self, header: &str, value: impl Into<String>) {
        self.headers.push((header.to_owned(), value.into()));
    }

    /// Removes every header of that name.
    pub fn remove(&mut self, header: &str) {
        self.headers.retain(|(name, _)| !name.eq_ignore_ascii_case(header));
    }

    /// Sets the description to a Markdown text.
    pub fn set_markdown(&mut self, text: impl Into<String>) {
        self.remove("Description");
        self.remove("Description-Content-Type");
        self.push("Description-Content-Type", "text/markdown; charset=UTF-8; variant=GFM");
        self.description = Some(text.into());
    }

    /// `Name`, or nothing.
    pub fn name(&self) -> &str {
        self.get("Name").unwrap_or_default().trim()
    }

    /// [`Metadata::name`] as indexes compare it.
    pub fn normalized_name(&self) -> String {
        normalize_name(self.name())
    }

    /// `Version`.
    pub fn version(&self) -> Result<Version, Error> {
        let text = self.get("Version").unwrap_or_default().trim();
        // The parser's time grows with the length; no release comes near this.
        if text.len() > 256 {
            return Err(value_error("Version", text, "longer than 256 bytes"));
        }
        Version::from_str(text).map_err(|error| value_error("Version", text, &error.to_string()))
    }

    /// `Requires-Dist`, in order.
    pub fn requires_dist(&self) -> Result<Vec<Requirement>, Error> {
        self.get_all("Requires-Dist").map(parse_requirement).collect()
    }

    /// The long description, from wherever this metadata version keeps it.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref().or_else(|| self.get("Description"))
    }

    /// The same metadata in another version of the format. For 2.3 `License-Expression` becomes `License`
    /// (free text there) and `License-File` is left out; the files themselves stay in the wheel.
    #[must_use]
    pub fn to_version(&self, version: MetadataVersion) -> Self {
        let mut new = self.clone();
        let has_license = self.get("License").is_some();
        for (name, value) in &mut new.headers {
            if name.eq_ignore_ascii_case("Metadata-Version") {
                *value = version.to_string();
            } else if version == MetadataVersion::V2_3
                && !has_license
                && name.eq_ignore_ascii_case("License-Expression")
            {
                "License".clone_into(name);
            }
        }
        if version == MetadataVersion::V2_3 {
            new.remove("License-Expression");
            new.remove("License-File");
        }
        new
    }
}

/// Reads one `Requires-Dist` value.
pub fn parse_requirement(text: &str) -> Result<Requirement, Error> {
    let fail = |reason: &str| Err(value_error("Requires-Dist", text, reason));
    // Markers nest, and the parser recurses: bound the depth that a hostile file can ask for.
    if text.len() > 16_384 || text.bytes().filter(|b| *b == b'(').count() > 64 {
        return fail("longer or deeper than any requirement");
    }
    // The grammar has ASCII only (PEP 508), and the parser panics on some of the rest.
    if !text.is_ascii() {
        return fail("holds something else than ASCII");
    }
    if !names_are_sound(text) {
        return fail("a name that does not begin and end with a letter or a digit");
    }
    Requirement::from_str(text).or_else(|error| fail(&error.to_string().replace('\n', " ")))
}

/// Whether the name and the extras in brackets behind it are names. The parser panics where one ends in `-`,
/// `.` or `_` before something else.
fn names_are_sound(text: &str) -> bool {
    let text = text.trim_start();
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '.' | '_'))
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let extras = rest.trim_start().strip_prefix('[').map(|rest| rest.split(']').next().unwrap_or(rest));
    is_valid_name(name)
        && extras
            .into_iter()
            .flat_map(|extras| extras.split(','))
            .map(str::trim)
            .all(|extra| extra.is_empty() || is_valid_name(extra))
}

fn value_error(header: &'static str, value: &str, reason: &str) -> Error {
    Error::Value { file: "METADATA".to_owned(), header, value: value.to_owned(), reason: reason.to_owned() }
}
