//! A tree of files in memory, and a wheel made of it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;
use torchfl_wheel::{
    Compression, Entry, Metadata, MetadataVersion, Options, WheelFile, WheelName, Writer as _, ZipWriter,
    escape_name,
};

use crate::Error;

/// One file.
struct Member {
    bytes: Vec<u8>,
    executable: bool,
}

/// Files by their path, which has `/` between its parts.
#[derive(Default)]
pub(crate) struct Tree(BTreeMap<String, Member>);

impl Tree {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), Member { bytes: bytes.into(), executable: false });
    }

    pub(crate) fn add_program(&mut self, path: impl Into<String>, bytes: Vec<u8>) {
        self.0.insert(path.into(), Member { bytes, executable: true });
    }

    /// Writes the files below `dir`, each by an atomic rename.
    pub(crate) fn write_to(self, dir: &Path) -> Result<(), Error> {
        for (path, member) in self.0 {
            let path = dir.join(path);
            let folder = path.parent().unwrap_or(dir);
            fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(&member.bytes)?;
            let mode = if member.executable { 0o755 } else { 0o644 };
            file.as_file().set_permissions(std::fs::Permissions::from_mode(mode))?;
            file.persist(&path).map_err(|error| error.error)?;
        }
        Ok(())
    }
}

/// A distribution's own data.
pub(crate) struct Dist<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: String,
    /// Interpreter, ABI and platform: `cp311-cp311-linux_x86_64`.
    pub(crate) tag: String,
    pub(crate) summary: &'a str,
    pub(crate) requires: Vec<String>,
    /// Path in `licenses/`, text.
    pub(crate) licences: Vec<(String, String)>,
}

impl Dist<'_> {
    /// Writes the wheel of `tree` into `dir` and returns its path.
    pub(crate) fn write(&self, mut tree: Tree, dir: &Path) -> Result<PathBuf, Error> {
        let name = format!("{}-{}-{}.whl", escape_name(self.name), self.version, self.tag);
        let name: WheelName = name.parse()?;
        let info = name.dist_info();
        for (path, text) in &self.licences {
            tree.add(format!("{info}/licenses/{path}"), text.as_str());
        }
        tree.add(format!("{info}/METADATA"), self.metadata(&name).render()?);
        let generator = concat!("torchfl-skeleton ", env!("CARGO_PKG_VERSION"));
        tree.add(format!("{info}/WHEEL"), WheelFile::new(&name, generator, false).render()?);

        fs::create_dir_all(dir)?;
        let options = Options { compression: Compression::Fast, ..Options::default() };
        let mut writer = ZipWriter::create(dir, &name, options)?;
        let path = writer.path().to_owned();
        let entries = tree.0.into_iter();
        let entry =
            |(path, member): (String, Member)| Entry::bytes(path, member.bytes).executable(member.executable);
        writer.add_all(entries.map(entry).collect())?;
        Box::new(writer).finish()?;
        Ok(path)
    }

    fn metadata(&self, name: &WheelName) -> Metadata {
        let mut metadata = Metadata::new(MetadataVersion::V2_4, self.name, &name.version);
        metadata.push("Summary", self.summary);
        metadata.push("License-Expression", "Apache-2.0");
        self.licences.iter().for_each(|(path, _)| metadata.push("License-File", path.as_str()));
        self.requires.iter().for_each(|requirement| metadata.push("Requires-Dist", requirement.as_str()));
        metadata
    }
}
