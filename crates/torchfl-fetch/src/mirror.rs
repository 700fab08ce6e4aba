//! Where files may be: folders, and addresses.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use reqwest::Url;

use crate::{Error, Login};

/// A place that may have files under their names.
#[derive(Clone, PartialEq, Eq)]
pub enum Mirror {
    /// A folder of this machine.
    Folder(PathBuf),
    /// `https://host/path`: a file lies at `https://host/path/<name>`.
    Http(Address),
}

/// An address without a login, and the login that it came with.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub(crate) url: Url,
    pub(crate) login: Option<Login>,
}

impl Mirror {
    /// Reads `https://…`, `http://…`, `file:///…` or a folder's path.
    ///
    /// # Errors
    ///
    /// [`Error::Mirror`] for another scheme, an address that is none, and a folder that is not there.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |why: String| Error::Mirror { given: without_secrets(text), why };
        let Some((scheme, _)) = text.split_once("://") else { return Self::folder(Path::new(text)) };
        let url = Url::parse(text).map_err(|error| wrong(error.to_string()))?;
        match scheme.to_ascii_lowercase().as_str() {
            "file" => {
                let path = url
                    .to_file_path()
                    .map_err(|()| wrong("a file address names a folder of this machine".into()))?;
                Self::folder(&path)
            }
            "http" | "https" => Ok(Self::Http(Address::new(url))),
            _ => Err(wrong(format!("`{scheme}` is neither https, http nor file"))),
        }
    }

    fn folder(path: &Path) -> Result<Self, Error> {
        if path.is_dir() {
            return Ok(Self::Folder(path.to_owned()));
        }
        let why = if path.exists() { "it is no folder" } else { "there is no such folder" };
        Err(Error::Mirror { given: path.display().to_string(), why: why.to_owned() })
    }
}

/// The address or the path, without secrets.
impl fmt::Display for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::Http(address) => f.write_str(&shown(&address.url)),
        }
    }
}

impl fmt::Debug for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.url))
    }
}

impl Address {
    fn new(mut url: Url) -> Self {
        let plain = |text: &str| decoded(text);
        let login = (!url.username().is_empty() || url.password().is_some()).then(|| Login {
            name: plain(url.username()),
            password: plain(url.password().unwrap_or_default()),
        });
        strip(&mut url);
        Self { url, login }
    }

    /// The address of the file `name`.
    pub(crate) fn of(&self, name: &str) -> Url {
        let mut url = self.url.clone();
        url.set_path(&format!("{}/{}", self.url.path().trim_end_matches('/'), encoded(name)));
        url
    }
}

/// Takes name and password out of an address.
pub(crate) fn strip(url: &mut Url) {
    // Neither can fail where there is a host, and http has one.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
}

/// An address as it may be shown: no login, no query, which may hold a token.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    strip(&mut url);
    url.set_query(None);
    url.to_string()
}

/// As [`shown`], of a text that may be no address.
fn without_secrets(text: &str) -> String {
    match Url::parse(text) {
        Ok(url) => shown(&url),
        Err(_) => text.split("://").next().map_or_else(String::new, |scheme| format!("{scheme}://…")),
    }
}

/// A name as a part of a path (RFC 3986, 2.3): all but letters, digits and `-._~` in percent signs. `+` is
/// among them, which some servers read as a blank.
fn encoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|two| byte == b'%' && two.iter().all(u8::is_ascii_hexdigit));
        let value = hex.and_then(|two| u8::from_str_radix(str::from_utf8(two).ok()?, 16).ok());
        bytes.push(value.unwrap_or(byte));
        rest = if value.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(text: &str) -> Address {
        match Mirror::parse(text).unwrap() {
            Mirror::Http(address) => address,
            Mirror::Folder(path) => panic!("{}", path.display()),
        }
    }

    #[test]
    fn a_files_address_is_the_mirrors_with_its_name() {
        let name = "torch-2.13.0+cpu-cp311 é.whl";
        let of = |mirror: &str| http(mirror).of(name).to_string();
        assert_eq!(of("http://h:8080/a%20b/"), "http://h:8080/a%20b/torch-2.13.0%2Bcpu-cp311%20%C3%A9.whl");
        assert_eq!(of("http://h?token=x"), "http://h/torch-2.13.0%2Bcpu-cp311%20%C3%A9.whl?token=x");
        assert_eq!(http("http://h/a").of("../x").path(), "/a/..%2Fx");
    }

    #[test]
    fn secrets_are_neither_kept_in_the_address_nor_shown() {
        let address = http("https://me:p%40ss@h/a?token=SECRET#b");
        assert_eq!(address.login, Some(Login { name: "me".into(), password: "p@ss".into() }));
        let mirror = Mirror::Http(address.clone());
        assert_eq!(format!("{mirror} {mirror:?} {address:?}"), "https://h/a https://h/a https://h/a");
        let fault = Mirror::parse("ftp://me:SECRET@h/").unwrap_err();
        assert_eq!(fault.to_string(), "`ftp://h/` is no mirror: `ftp` is neither https, http nor file");
        let fault = Mirror::parse("https://me:SECRET@[h/").unwrap_err().to_string();
        assert!(!fault.contains("SECRET"), "{fault}");
    }

    #[test]
    fn folders() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        assert_eq!(Mirror::parse(path.to_str().unwrap()).unwrap(), Mirror::Folder(path.clone()));
        assert_eq!(
            Mirror::parse(&format!("file://{}", path.display())).unwrap(),
            Mirror::Folder(path.clone())
        );
        assert!(Mirror::parse(path.join("none").to_str().unwrap()).is_err());
    }
}
