//! One shared library (or program) by one run of the C compiler, with the same bytes every time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use fs_err as fs;
use tempfile::TempDir;

use crate::{Error, Target, template};

/// The search path that the linker writes into a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Search {
    Absent,
    Rpath(String),
    Runpath(String),
}

/// One library to compile.
#[derive(Debug, Clone)]
pub(crate) struct Library {
    /// Its file name; for a library, the SONAME as well.
    pub(crate) name: String,
    /// The template that it is compiled from.
    pub(crate) source: &'static str,
    /// File names of the libraries that it is linked against, in the order of its `DT_NEEDED`.
    pub(crate) needed: Vec<String>,
    /// Functions that it refers to, beyond one of each needed library.
    pub(crate) uses: Vec<String>,
    pub(crate) search: Search,
    /// `-D` flags beyond those of `skeleton.h`.
    pub(crate) defines: Vec<String>,
    /// Symbol versions that it defines, oldest first, with their symbols; none: its symbols have no version.
    pub(crate) versions: Vec<(String, Vec<String>)>,
}

impl Library {
    /// A library of this name with nothing else said about it.
    pub(crate) fn new(name: &str, source: &'static str) -> Library {
        Library {
            name: name.to_owned(),
            source,
            needed: Vec::new(),
            uses: Vec::new(),
            search: Search::Absent,
            defines: Vec::new(),
            versions: Vec::new(),
        }
    }

    pub(crate) fn needs<S: AsRef<str>>(mut self, names: &[S]) -> Library {
        self.needed.extend(names.iter().map(|n| n.as_ref().to_owned()));
        self
    }

    pub(crate) fn search(mut self, search: Search) -> Library {
        self.search = search;
        self
    }

    pub(crate) fn define(mut self, flag: &str) -> Library {
        self.defines.push(flag.to_owned());
        self
    }
}

/// The C identifier that stands for a library in its functions: `libc10_sim.so` is `c10_sim`.
pub(crate) fn ident(name: &str) -> String {
    let stem = name.split(".so").next().unwrap_or(name);
    let stem = stem.strip_prefix("lib").unwrap_or(stem);
    // `torch_build` is the name that every library exports for a handle.
    if stem == "torch" {
        return "torch_lib".to_owned();
    }
    stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// A folder with the templates and all that has been compiled from them.
pub(crate) struct Workshop {
    dir: TempDir,
    built: BTreeMap<String, PathBuf>,
    include: PathBuf,
    compiler: String,
}

impl Workshop {
    pub(crate) fn open(target: &Target) -> Result<Workshop, Error> {
        let dir = TempDir::new()?;
        for (name, text) in template::SOURCES {
            fs::write(dir.path().join(name), text)?;
        }
        let stand_in = dir.path().join("python");
        fs::create_dir(&stand_in)?;
        fs::write(stand_in.join("Python.h"), template::PYTHON_H)?;
        let include = target.include.clone().unwrap_or(stand_in);
        Ok(Workshop { dir, built: BTreeMap::new(), include, compiler: target.compiler.clone() })
    }

    /// Compiles `library` for the build `build` and returns its bytes; what it needs was compiled before.
    pub(crate) fn library(&mut self, library: &Library, build: &str) -> Result<Vec<u8>, Error> {
        let mut flags =
            vec!["-shared".to_owned(), "-fPIC".to_owned(), format!("-Wl,-soname,{}", library.name)];
        flags.push(format!("-DBUILD=\"{build}\""));
        flags.push(format!("-DNAME={}", ident(&library.name)));
        let uses = library.needed.iter().map(|name| format!("{}_build", ident(name)));
        let uses: Vec<String> =
            uses.chain(library.uses.iter().cloned()).map(|f| format!("USE({f})")).collect();
        flags.push(format!("-DUSES={}", uses.join(" ")));
        flags.extend(library.defines.iter().cloned());
        if !library.versions.is_empty() {
            let script = self.dir.path().join("versions.map");
            fs::write(&script, version_script(&library.versions))?;
            flags.push(format!("-Wl,--version-script={}", script.display()));
        }
        self.cc(library, flags)
    }

    /// Compiles a Python extension module: no SONAME, nothing exported but its init function.
    pub(crate) fn extension(&mut self, module: &Library) -> Result<Vec<u8>, Error> {
        self.cc(module, vec!["-shared".to_owned(), "-fPIC".to_owned()])
    }

    /// Compiles a program.
    pub(crate) fn program(&mut self, program: &Library) -> Result<Vec<u8>, Error> {
        // What the needed libraries need in turn is looked for at run time, not here.
        self.cc(
            program,
            vec!["-pie".to_owned(), "-fPIE".to_owned(), "-Wl,--allow-shlib-undefined".to_owned()],
        )
    }

    fn cc(&mut self, library: &Library, mut flags: Vec<String>) -> Result<Vec<u8>, Error> {
        let out = self.dir.path().join("out");
        fs::create_dir_all(&out)?;
        let out = out.join(&library.name);
        let (tags, path) = match &library.search {
            Search::Absent => ("", None),
            Search::Rpath(path) => ("-Wl,--disable-new-dtags", Some(path)),
            Search::Runpath(path) => ("-Wl,--enable-new-dtags", Some(path)),
        };
        if let Some(path) = path {
            flags.extend([tags.to_owned(), format!("-Wl,-rpath,{path}")]);
        }
        let mut command = Command::new(&self.compiler);
        command
            .current_dir(self.dir.path())
            .args(["-O1", "-g0", "-s", "-Wall", "-Werror", "-std=gnu11"])
            // Same bytes in every folder: no path of the workshop, and an identity made from the contents.
            .arg(format!("-ffile-prefix-map={}=.", self.dir.path().display()))
            .args(["-Wl,--build-id=sha1", "-Wl,-z,noexecstack", "-Wl,--no-as-needed"])
            .arg("-I")
            .arg(&self.include)
            .args(&flags)
            .arg(library.source);
        for name in &library.needed {
            let path = self
                .built
                .get(name)
                .ok_or_else(|| Error::Graph { library: library.name.clone(), needed: name.clone() })?;
            command.arg(path);
        }
        command.arg("-o").arg(&out);
        let output = command
            .output()
            .map_err(|source| Error::NoCompiler { compiler: self.compiler.clone(), source })?;
        if !output.status.success() {
            return Err(Error::Compile {
                library: library.name.clone(),
                why: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            });
        }
        let bytes = fs::read(&out)?;
        self.built.insert(library.name.clone(), out);
        Ok(bytes)
    }
}

/// A linker's version script in which each version inherits from the one before it.
fn version_script(versions: &[(String, Vec<String>)]) -> String {
    let version = |(index, (name, symbols)): (usize, &(String, Vec<String>))| {
        let rest = if index + 1 == versions.len() { " local: *;" } else { "" };
        let parent =
            index.checked_sub(1).and_then(|before| versions.get(before)).map_or("", |(name, _)| name);
        format!("{name} {{ global: {};{rest} }} {parent};\n", symbols.join("; "))
    };
    versions.iter().enumerate().map(version).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_legal_c_and_differ_from_the_common_name() {
        assert_eq!(ident("libtorch.so"), "torch_lib");
        assert_eq!(ident("libsimblas-1a2b3c4d.so.0"), "simblas_1a2b3c4d");
        assert_eq!(ident("libc10_sim.so"), "c10_sim");
    }

    #[test]
    fn a_version_inherits_from_the_one_before() {
        let versions = [
            ("A_1".to_owned(), vec!["f".to_owned()]),
            ("A_2".to_owned(), vec!["g".to_owned(), "h".to_owned()]),
        ];
        assert_eq!(version_script(&versions), "A_1 { global: f; } ;\nA_2 { global: g; h; local: *; } A_1;\n");
    }
}
