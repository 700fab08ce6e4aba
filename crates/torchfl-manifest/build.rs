//! Lists `vendor-manifests/*.toml` for `include_str!`, in the order of their names.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../../vendor-manifests");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut list = String::from("&[\n");
    if std::env::var_os("CARGO_FEATURE_EMBEDDED").is_some() {
        let mut files: Vec<PathBuf> =
            folder.read_dir()?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
        files.sort_by(|a, b| a.file_stem().cmp(&b.file_stem()));
        for path in &files {
            let path = path.canonicalize()?;
            let name = path.file_stem().and_then(|stem| stem.to_str()).ok_or("a name that is not UTF-8")?;
            let path = path.to_str().ok_or("a path that is not UTF-8")?;
            println!("cargo::rerun-if-changed={path}");
            writeln!(list, "    ({name:?}, include_str!({path:?})),")?;
        }
    }
    list.push(']');
    // Build scripts have no fs_err: it would be one more crate to compile before this one.
    #[expect(clippy::disallowed_methods, reason = "the error ends the build script, which names itself")]
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("embedded.rs"), list)?;
    Ok(())
}
