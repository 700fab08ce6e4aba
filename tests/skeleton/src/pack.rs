//! A tree of files in memory, and a wheel made of it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;

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
        let escaped = self.name.replace(['-', '.'], "_");
        let info = format!("{escaped}-{}.dist-info", self.version);
        for (path, text) in &self.licences {
            tree.add(format!("{info}/licenses/{path}"), text.as_str());
        }
        tree.add(format!("{info}/METADATA"), self.metadata());
        let pure = if self.tag.ends_with("-any") { "true" } else { "false" };
        let wheel = format!(
            "Wheel-Version: 1.0\nGenerator: torchfl-skeleton ({})\nRoot-Is-Purelib: {pure}\nTag: {}\n",
            env!("CARGO_PKG_VERSION"),
            self.tag
        );
        tree.add(format!("{info}/WHEEL"), wheel);
        fs::create_dir_all(dir)?;
        let path = dir.join(format!("{escaped}-{}-{}.whl", self.version, self.tag));
        let names: Vec<String> = tree.0.keys().map(|n| format!("{n},,\n")).collect();
        tree.add(format!("{info}/RECORD"), names.concat() + &format!("{info}/RECORD,,\n"));
        let mut zip = zip::ZipWriter::new(fs::File::create(&path)?);
        for (name, member) in tree.0 {
            let o = zip::write::SimpleFileOptions::default().unix_permissions(if member.executable { 0o755 } else { 0o644 });
            zip.start_file(name, o).unwrap();
            zip.write_all(&member.bytes)?;
        }
        zip.finish().unwrap();
        Ok(path)
    }

    fn metadata(&self) -> String {
        let mut text = format!("Metadata-Version: 2.4\nName: {}\nVersion: {}\n", self.name, self.version);
        text += &format!("Summary: {}\nLicense-Expression: Apache-2.0\n", self.summary);
        for (path, _) in &self.licences {
            text += &format!("License-File: {path}\n");
        }
        for requirement in &self.requires {
            text += &format!("Requires-Dist: {requirement}\n");
        }
        text
    }
}
