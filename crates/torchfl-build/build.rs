//! Embeds `wheels/torch_fl/`, so that the one binary holds all that it writes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, io};

use fs_err as fs;

fn main() -> io::Result<()> {
    let root =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../wheels/torch_fl");
    let mut files = Vec::new();
    walk(&root, &root, &mut files)?;
    files.sort();
    let mut text = "&[\n".to_owned();
    for (name, path) in files {
        let _ = writeln!(text, "    ({name:?}, include_bytes!({path:?})),");
    }
    text.push_str("]\n");
    fs::write(PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("package.rs"), text)?;
    println!("cargo:rustc-env=TORCHFL_RUSTC={}", rustc_version());
    Ok(())
}

fn walk(root: &Path, folder: &Path, files: &mut Vec<(String, String)>) -> io::Result<()> {
    println!("cargo:rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if !path.ends_with("__pycache__") {
                walk(root, &path, files)?;
            }
        } else if let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str) {
            let real = fs::canonicalize(&path)?;
            let real =
                real.to_str().ok_or_else(|| io::Error::other(format!("{name}: its folder is not UTF-8")))?;
            files.push((name.to_owned(), real.to_owned()));
        }
    }
    Ok(())
}

fn rustc_version() -> String {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = std::process::Command::new(rustc).arg("--version").output();
    output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default()
}
