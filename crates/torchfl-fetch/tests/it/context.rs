//! A destination, and what a test asks for.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use tempfile::TempDir;
use torchfl_fetch::{
    Client, Error, Found, Installer, Mirror, Network, Progress, Settings, State, Want, What, Whole, fetch,
};
use torchfl_wheel::Sha256;

pub(crate) const NAME: &str = "torch-1.0+x-cp311.whl";

/// Bytes in which no piece is like another.
pub(crate) fn body(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// A file of this name with these bytes.
pub(crate) fn want(body: &[u8]) -> Want {
    Want { what: What::File { name: NAME.to_owned() }, sha256: Some(Sha256::of(body)), unhashed: false }
}

/// One that is in no hurry to give up, and in a hurry else.
pub(crate) fn quick() -> Network {
    Network { patience: Duration::from_millis(400), pause: Duration::from_millis(1), ..Network::default() }
}

/// Keeps what is told.
#[derive(Default)]
pub(crate) struct Notes(pub(crate) Mutex<Vec<String>>);

impl Progress for Notes {
    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

pub(crate) struct Context {
    dir: TempDir,
    pub(crate) network: Network,
    pub(crate) offline: bool,
    pub(crate) installer: Option<Installer>,
    pub(crate) notes: Notes,
}

impl Context {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir, network: quick(), offline: false, installer: None, notes: Notes::default() }
    }

    pub(crate) fn path(&self, inner: &str) -> PathBuf {
        self.dir.path().join(inner)
    }

    pub(crate) fn write(&self, inner: &str, bytes: &[u8]) {
        fs_err::create_dir_all(self.path(inner).parent().unwrap()).unwrap();
        fs_err::write(self.path(inner), bytes).unwrap();
    }

    /// All names in the destination.
    pub(crate) fn there(&self) -> Vec<String> {
        let Ok(entries) = fs_err::read_dir(self.path("dest")) else { return Vec::new() };
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) fn fetch(&self, want: &Want, mirrors: &[&str]) -> Result<Found, Error> {
        let client = Client::new(&self.network).unwrap();
        let settings = Settings {
            dest: self.path("dest"),
            mirrors: mirrors.iter().map(|mirror| Mirror::parse(mirror).unwrap()).collect(),
            client: (!self.offline).then_some(&client),
            installer: self.installer.as_ref(),
            dry_run: false,
        };
        fetch(want, &settings, &self.notes)
    }

    /// The file of these bytes is fetched, and is whole; nothing else is left.
    pub(crate) fn brings(&self, body: &[u8], mirrors: &[&str]) {
        let found = self.fetch(&want(body), mirrors).unwrap();
        let State::Fetched(Whole { path, sha256, bytes }, _) = found.state else { panic!("{found:?}") };
        assert_eq!((sha256, bytes), (Sha256::of(body), body.len() as u64));
        assert_eq!(path, self.path("dest").join(NAME));
        assert!(fs_err::read(path).unwrap() == body);
        assert_eq!(self.there(), [NAME]);
    }

    /// The file is missing, for this reason.
    pub(crate) fn misses(&self, body: &[u8], mirrors: &[&str]) -> String {
        let found = self.fetch(&want(body), mirrors).unwrap();
        assert_eq!(found.state, State::Missing);
        assert!(!self.path("dest").join(NAME).exists());
        found.tried.into_iter().map(|tried| tried.why).collect::<Vec<_>>().join("; ")
    }
}
