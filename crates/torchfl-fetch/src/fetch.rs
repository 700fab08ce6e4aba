//! The order of looking: the destination, the mirrors as they are given, the package index.

use std::path::{Path, PathBuf};

use torchfl_wheel::Sha256;

use crate::download::{from_file, from_mirror};
use crate::folder::{Hit, look};
use crate::http::Client;
use crate::mirror::Address;
use crate::store::Part;
use crate::{Error, Installer, Mirror, Progress, Want, What, WrongSum};

/// Where files go, and where they are looked for.
#[derive(Debug)]
pub struct Settings<'a> {
    /// The folder that files appear in. It is made where it is not there.
    pub dest: PathBuf,
    /// Asked in their order.
    pub mirrors: Vec<Mirror>,
    /// For mirrors with an address. `None`: the network is not touched, and pip, which may touch it, is not
    /// run.
    pub client: Option<&'a Client>,
    /// For packages.
    pub installer: Option<&'a Installer>,
    /// Look in the destination and in folders, and bring nothing.
    pub dry_run: bool,
}

/// What became of a [`Want`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it is, or that it is not.
    pub state: State,
    /// The places that did not have it, in the order of asking.
    pub tried: Vec<Tried>,
}

/// Whether a file is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It was there, and its sum is right.
    Present(Whole),
    /// It was brought.
    Fetched(Whole, String),
    /// It is nowhere.
    Missing,
}

/// A whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// In the destination.
    pub path: PathBuf,
    /// As its bytes have it.
    pub sha256: Sha256,
    /// Its size.
    pub bytes: u64,
}

/// A place that did not have the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// A folder, an address without secrets, or `pip`.
    pub place: String,
    /// Why not.
    pub why: String,
}

/// Looks for `want`, and brings it into the destination where it is not there yet.
///
/// # Errors
///
/// What [`Error::is_finding`] says of a file that is wrong, and faults of the machine. A file that is nowhere
/// is none: [`State::Missing`].
pub fn fetch(want: &Want, settings: &Settings<'_>, progress: &dyn Progress) -> Result<Found, Error> {
    Search { want, settings, progress, tried: Vec::new() }.run()
}

struct Search<'a> {
    want: &'a Want,
    settings: &'a Settings<'a>,
    progress: &'a dyn Progress,
    tried: Vec<Tried>,
}

impl Search<'_> {
    fn run(mut self) -> Result<Found, Error> {
        let dest = &self.settings.dest;
        if dest.exists() && !dest.is_dir() {
            return Err(Error::NotFile { path: dest.clone(), what: "a file, and no folder" });
        }
        if let Some(whole) = self.here()? {
            return Ok(Found { state: State::Present(whole), tried: self.tried });
        }
        let settings = self.settings;
        // A portal's page in the place of a file is no reason not to ask the next mirror.
        let mut wrong = None;
        for mirror in &settings.mirrors {
            let place = mirror.to_string();
            let answer = match mirror {
                Mirror::Folder(folder) => self.folder(folder),
                Mirror::Http(address) => self.address(address),
            };
            let answer = match answer {
                Err(error @ Error::WrongSum(_)) => {
                    let why = error.to_string();
                    wrong.get_or_insert(error);
                    Err(why)
                }
                other => other?,
            };
            match answer {
                Ok(state) => return Ok(Found { state, tried: self.tried }),
                Err(why) => self.tried.push(Tried { place, why }),
            }
        }
        if let What::Package { .. } = self.want.what {
            match self.package()? {
                Ok(state) => return Ok(Found { state, tried: self.tried }),
                Err(why) => self.tried.push(Tried { place: "the package index".to_owned(), why }),
            }
        }
        match wrong {
            Some(error) => Err(error),
            None => Ok(Found { state: State::Missing, tried: self.tried }),
        }
    }

    /// What stands in the destination.
    fn here(&self) -> Result<Option<Whole>, Error> {
        match look(&self.settings.dest, self.want)? {
            Hit::None => Ok(None),
            Hit::Found(path, sha256, bytes) => {
                self.hashed(Some((&path, &sha256)))?;
                Ok(Some(Whole { path, sha256, bytes }))
            }
            Hit::Other(path, found, bytes) => {
                let expected = self.want.sha256.unwrap_or(found);
                Err(Error::OtherThere { path, expected, found, bytes })
            }
        }
    }

    /// Refuses what nobody says the sum of; where one was seen, with its sum.
    fn hashed(&self, seen: Option<(&Path, &Sha256)>) -> Result<(), Error> {
        if self.want.sha256.is_some() || self.want.unhashed {
            return Ok(());
        }
        let seen = seen.map(|(path, sum)| format!("{} has {sum}", path.display()));
        Err(Error::Unhashed { what: self.want.what.to_string(), seen })
    }

    fn folder(&self, folder: &Path) -> Result<Result<State, String>, Error> {
        let canonical = |path: &Path| fs_err::canonicalize(path).ok();
        if canonical(folder).is_some_and(|one| canonical(&self.settings.dest) == Some(one)) {
            return Ok(Err("it is the destination".to_owned()));
        }
        // Of a gigabyte that is copied anyway the sum is taken on the way.
        if let (Some(name), Some(_), false) =
            (self.want.what.exact(), self.want.sha256, self.settings.dry_run)
            && folder.join(name).is_file()
        {
            return self.adopt(&folder.join(name), &folder.display().to_string()).map(Ok);
        }
        match look(folder, self.want)? {
            Hit::None => Ok(Err("it is not there".to_owned())),
            Hit::Found(path, sha256, _) => {
                self.hashed(Some((&path, &sha256)))?;
                if self.settings.dry_run {
                    return Ok(Err("it is there".to_owned()));
                }
                self.adopt(&path, &folder.display().to_string()).map(Ok)
            }
            Hit::Other(path, found, bytes) => Err(Box::new(WrongSum {
                name: name_of(&path),
                origin: folder.display().to_string(),
                expected: self.want.sha256.unwrap_or(found),
                found,
                bytes: Some(bytes),
                note: "",
            })
            .into()),
        }
    }

    fn address(&self, address: &Address) -> Result<Result<State, String>, Error> {
        let Some(name) = self.want.what.exact() else {
            return Ok(Err("it cannot be asked: the file's whole name is not known".to_owned()));
        };
        let Some(client) = self.settings.client else {
            return Ok(Err("not asked: offline".to_owned()));
        };
        self.hashed(None)?;
        if self.settings.dry_run {
            return Ok(Err("it would be asked".to_owned()));
        }
        let expected = self.want.sha256.as_ref();
        let Some(mut part) = Part::open(&self.settings.dest, name, expected, self.progress)? else {
            return self.brought();
        };
        // An earlier run may have been stopped between the last byte and the name.
        if part.len() > 0 && Some(&part.sum()) == expected {
            return publish(part, name, "an earlier run").map(Ok);
        }
        match from_mirror(client, address, name, &mut part, expected, self.progress) {
            Ok(Ok(())) => publish(part, name, &Mirror::Http(address.clone()).to_string()).map(Ok),
            Ok(Err(why)) => {
                if part.len() == 0 {
                    part.discard()?;
                }
                Ok(Err(why))
            }
            Err(error) => {
                if matches!(error, Error::WrongSum(_)) {
                    part.discard()?;
                }
                Err(error)
            }
        }
    }

    /// Another run brought it while this one waited.
    fn brought(&self) -> Result<Result<State, String>, Error> {
        Ok(self
            .here()?
            .map(State::Present)
            .ok_or_else(|| "another run brought it, and it is gone".to_owned()))
    }

    fn package(&self) -> Result<Result<State, String>, Error> {
        if self.settings.client.is_none() {
            return Ok(Err("not asked: offline".to_owned()));
        }
        let Some(installer) = self.settings.installer else {
            return Ok(Err("not asked: there is no pip to ask it with".to_owned()));
        };
        self.hashed(None)?;
        if self.settings.dry_run {
            return Ok(Err(format!("it would be asked, by {installer}")));
        }
        fs_err::create_dir_all(&self.settings.dest)?;
        // Beside the destination's files, so that nothing is copied to another disk only to be copied again.
        let scratch = tempfile::Builder::new().prefix(".torchfl-fetch-").tempdir_in(&self.settings.dest)?;
        self.progress.start(&self.want.what.to_string(), 0, None);
        let got = installer.download(self.want, scratch.path());
        self.progress.stop();
        match got? {
            Ok(path) => self.adopt(&path, &format!("the package index, by {installer}")).map(Ok),
            Err(why) => Ok(Err(why)),
        }
    }

    /// Copies the file at `path` into the destination, and checks it on the way.
    fn adopt(&self, path: &Path, origin: &str) -> Result<State, Error> {
        let name = name_of(path);
        let expected = self.want.sha256.as_ref();
        let Some(mut part) = Part::open(&self.settings.dest, &name, expected, self.progress)? else {
            return self.brought()?.map_err(|why| std::io::Error::other(why).into());
        };
        match from_file(path, &name, &mut part, expected, origin, self.progress) {
            Ok(()) => publish(part, &name, origin),
            Err(error) => {
                part.discard()?;
                Err(error)
            }
        }
    }
}

fn publish(part: Part, name: &str, origin: &str) -> Result<State, Error> {
    let (sha256, bytes) = (part.sum(), part.len());
    let path = part.publish(name)?;
    Ok(State::Fetched(Whole { path, sha256, bytes }, origin.to_owned()))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
