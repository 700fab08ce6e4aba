//! The plugin: given as a file, or built from its source; and what it says it was built for.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use fs_err as fs;
use serde::Deserialize;
use torchfl_elf::{Edit, FileAt, ReadAt as _, section};
use torchfl_manifest::{Resolved, Swap};

use crate::{Error, Library, Tree, libraries};

/// The file that the crate makes.
const NAME: &str = "libtorch_fl.so";
/// The crate.
const CRATE: &str = "torch-fl-plugin";
/// The section in which a plugin says what it was built for, as JSON.
const SECTION: &str = ".torch_fl";
/// What the plugin links against, in `torch/lib/`.
const LINKED: &[&str] = &["libc10.so", "libtorch_cpu.so", "libtorch.so", "libtorch_python.so"];

/// Where the plugin's source is, and what it is compiled with beside a torch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginSource {
    /// The folder of the workspace that has the crate, or of the crate itself.
    pub folder: PathBuf,
    /// The folder that has `Python.h`, of the Python that the wheel is for.
    pub python_include: PathBuf,
    /// Folders of the machine whose names must not stay in the library: Cargo's, the compiler's.
    pub hide: Vec<PathBuf>,
}

/// What a plugin was built for, as it says itself. One that says nothing is a library that is opened, and no more.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct BuiltFor {
    /// The torch release, `2.13.0`.
    pub torch: String,
    /// The interpreter, `cp311`.
    pub python: String,
    /// The dispatch key underneath, `cuda`.
    pub target: String,
    /// Preprocessor definitions, `USE_ACME=1`.
    #[serde(default)]
    pub defines: Vec<String>,
    /// The sanitizer that it was built with, if any.
    #[serde(default)]
    pub sanitize: String,
}

/// A plugin, ready to be written.
#[derive(Debug, Clone)]
pub(crate) struct Plugin {
    pub library: Library,
    pub built_for: Option<BuiltFor>,
}

/// Reads the plugin at `path`, which has to be for this manifest and this `python`.
pub(crate) fn read(
    path: &Path,
    resolved: &Resolved,
    python: Option<&str>,
    edit: &Edit,
) -> Result<Plugin, Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = FileAt::open(path)?;
    let built_for = built_for(&file, path)?;
    match &built_for {
        Some(built_for) => fits(built_for, path, resolved, python)?,
        // The names that it would be given are of no use to a library that asks for none.
        None if resolved.runtime.is_some() => return Err(Error::PluginSilent { plugin: path.to_owned() }),
        None => {}
    }
    let library = libraries::planned(&name, &path.to_string_lossy(), Arc::new(file), edit)?;
    Ok(Plugin { library, built_for })
}

fn built_for(file: &FileAt, path: &Path) -> Result<Option<BuiltFor>, Error> {
    let Some(bytes) = section(file, &path.to_string_lossy(), SECTION)? else { return Ok(None) };
    let text = bytes.trim_ascii_end().strip_suffix(b"\0").unwrap_or(bytes.trim_ascii_end());
    let wrong = |source| Error::PluginSection { plugin: path.to_owned(), source };
    serde_json::from_slice(text).map(Some).map_err(wrong)
}

/// Refuses a plugin that the bootstrap would refuse on the target machine, or that would crash there.
fn fits(is: &BuiltFor, path: &Path, resolved: &Resolved, python: Option<&str>) -> Result<(), Error> {
    let other = |what: &'static str, found: &str, wanted: &str| {
        let (found, wanted) = (found.to_owned(), wanted.to_owned());
        Err(Error::PluginFor { plugin: path.to_owned(), what, found, wanted })
    };
    if minor(&is.torch) != minor(&resolved.torch.release) {
        return other("torch", &is.torch, &resolved.torch.release);
    }
    if let Some(python) = python.filter(|python| **python != is.python) {
        return other("Python", &is.python, python);
    }
    if let Some(runtime) = resolved.runtime.as_ref().filter(|runtime| runtime.api != is.target) {
        return other("the runtime", &is.target, &runtime.api);
    }
    let sorted = |defines: &[String]| {
        let mut defines = defines.to_vec();
        defines.sort();
        defines.join(" ")
    };
    let (found, wanted) = (sorted(&is.defines), sorted(&resolved.torch.defines));
    if found != wanted {
        let named = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
        return other("the defines", &named(&found), &named(&wanted));
    }
    if !is.sanitize.is_empty() {
        return other("the sanitizer", &is.sanitize, "none");
    }
    Ok(())
}

/// `2.13` of `2.13.0`: a plugin serves every patch release.
pub(crate) fn minor(release: &str) -> &str {
    match release.match_indices('.').nth(1) {
        Some((end, _)) => &release[..end],
        None => release,
    }
}

/// Builds the plugin for this manifest, against `torch`, the one whose core a process will have; returns the library.
///
/// It is Cargo that builds, in its own target folder: a second build for the same torch is short.
pub(crate) fn build(
    source: &PluginSource,
    torch: &Tree,
    resolved: &Resolved,
    scratch: &Path,
) -> Result<PathBuf, Error> {
    let folder = fs::canonicalize(&source.folder).map_err(Error::Io)?;
    let python = fs::canonicalize(&source.python_include).map_err(Error::Io)?;
    if !python.join("Python.h").is_file() {
        return Err(Error::NoPythonHeader { folder: python });
    }
    // Headers and what is linked against lie in a folder of their own where the torch is a wheel.
    let unpacked = tempfile::TempDir::with_prefix_in(".torchfl-plugin-", scratch).map_err(Error::Io)?;
    let torch_folder = match torch.site() {
        Some(site) => site.join("torch"),
        None => unpack(torch, unpacked.path(), scratch)?,
    };
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--release", "--locked", "--package", CRATE, "--features", "torch"])
        .arg("--message-format=json-render-diagnostics")
        // Not where other builds of the folder go: these flags are not theirs.
        .arg("--target-dir")
        .arg(folder.join("target/plugin-wheel"))
        .current_dir(&folder)
        .env("TORCH_FL_TORCH", &torch_folder)
        .env("TORCH_FL_PYTHON_INCLUDE", &python)
        .env("TORCH_FL_DEFINES", resolved.torch.defines.join(" "))
        .env_remove("TORCH_FL_SANITIZE")
        .env("CARGO_ENCODED_RUSTFLAGS", remapped(&folder, &source.hide))
        .stdin(std::process::Stdio::null());
    let failed = |message: String| Error::PluginBuild { folder: folder.clone(), message };
    let output = cargo.output().map_err(|error| failed(format!("cargo cannot be started: {error}")))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        return Err(failed(lines[lines.len().saturating_sub(30)..].join("\n")));
    }
    let made = String::from_utf8_lossy(&output.stdout).lines().filter_map(artifact).next_back();
    made.ok_or_else(|| failed(format!("cargo made no {NAME}")))
}

/// The library of a line of Cargo's messages.
fn artifact(line: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let mut files = message["filenames"].as_array()?.iter().filter_map(|file| file.as_str());
    files.find(|file| Path::new(file).ends_with(NAME)).map(PathBuf::from)
}

/// No path of the machine stays in the library: neither the source's, nor that of crates, nor the compiler's.
fn remapped(folder: &Path, hide: &[PathBuf]) -> String {
    let hidden = hide.iter().enumerate().map(|(index, path)| (path.as_path(), format!("/hidden{index}")));
    let flags: Vec<String> = hidden
        .chain([(folder, "/torch-fl".to_owned())])
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
        .collect();
    // Cargo's own separator, which no path holds.
    flags.join("\u{1f}")
}

/// Copies headers and the linked libraries of a wheel.
fn unpack(torch: &Tree, to: &Path, scratch: &Path) -> Result<PathBuf, Error> {
    for path in torch.below("torch/include/") {
        let target = to.join(path);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).map_err(Error::Io)?;
        }
        fs::write(target, torch.read(path)?).map_err(Error::Io)?;
    }
    let lib = to.join("torch/lib");
    fs::create_dir_all(&lib).map_err(Error::Io)?;
    for name in LINKED {
        let Some(path) = libraries::origin(name, torch) else { continue };
        let from = torch.file(&path, scratch)?;
        let mut file = fs::File::create(lib.join(name)).map_err(Error::Io)?;
        let mut buffer = vec![0; 1 << 20];
        let mut at = 0;
        while at < from.len() {
            let piece = buffer.len().min((from.len() - at) as usize);
            from.read_exact_at(at, &mut buffer[..piece]).map_err(Error::Io)?;
            file.write_all(&buffer[..piece]).map_err(Error::Io)?;
            at += piece as u64;
        }
    }
    Ok(to.join("torch"))
}

/// The torch whose headers a plugin is compiled against: the one whose core a process will have.
pub(crate) fn headers<'a>(
    resolved: &Resolved,
    torch: &'a Tree,
    front: Option<&'a Tree>,
) -> Result<&'a Tree, Error> {
    match resolved.torch.swap {
        Swap::Core => Ok(torch),
        Swap::Extra | Swap::None => {
            front.ok_or_else(|| Error::PluginFront { manifest: resolved.name.clone() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_serves_a_minor_release() {
        assert_eq!((minor("2.13.0"), minor("2.1"), minor("2")), ("2.13", "2.1", "2"));
    }

    #[test]
    fn cargo_names_the_library() {
        let line =
            r#"{"reason":"compiler-artifact","filenames":["/t/libtorch_fl.rlib","/t/libtorch_fl.so"]}"#;
        assert_eq!(artifact(line), Some(PathBuf::from("/t/libtorch_fl.so")));
        assert_eq!(artifact(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(artifact("warning: no json"), None);
    }
}
