//! The Python package that travels in every wheel, and what the wheel says of itself.

/// The files of `wheels/torch_fl/`, by their path in the package.
pub(crate) const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/package.rs"));

/// The `.pth` file of `torchfl activate`.
pub const ACTIVATE: &str = include_str!("../../../wheels/torch_fl/activate.pth");

/// The package whose entry point registers the device on a bare `import torch`, and its one file.
pub(crate) const AUTOLOAD: (&str, &str) =
    ("_torch_fl_autoload/__init__.py", include_str!("../../../wheels/_torch_fl_autoload/__init__.py"));

/// The entry point itself.
pub(crate) const ENTRY_POINTS: &str = "[torch.backends]\ntorch_fl = _torch_fl_autoload:register\n";

/// Our own licence, as an expression.
pub(crate) const EXPRESSION: &str = "Apache-2.0";

/// Our own licence.
pub(crate) const LICENSE: &str = include_str!("../../../LICENSE");

/// The wheel's description on an index.
pub(crate) const README: &str = include_str!("../../../wheels/README.md");

/// The version of the compiler that built this tool.
pub(crate) const RUSTC: &str = env!("TORCHFL_RUSTC");

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// All files below `folder`, but for what Python writes by itself.
    fn walk(folder: &Path, above: &str, found: &mut BTreeSet<String>) {
        for entry in fs_err::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{above}{}", path.file_name().unwrap().to_str().unwrap());
            if !path.is_dir() {
                found.insert(name);
            } else if !path.ends_with("__pycache__") {
                walk(&path, &format!("{name}/"), found);
            }
        }
    }

    #[test]
    fn every_file_of_the_package_travels_and_nothing_else() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wheels/torch_fl");
        let mut there = BTreeSet::new();
        walk(Path::new(folder), "", &mut there);
        let carried: Vec<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(carried.iter().cloned().collect::<BTreeSet<_>>(), there);
        assert_eq!(carried.len(), there.len(), "a file is listed twice");
        for (name, bytes) in FILES {
            assert_eq!(&fs_err::read(format!("{folder}/{name}")).unwrap(), bytes, "{name}");
        }
    }

    /// A file of another kind is a leftover (an editor's backup, a compiled module), or deserves a line here.
    #[test]
    fn the_package_holds_no_leftovers() {
        for (name, _) in FILES {
            let kinds = [".py", ".pth", "/TORCH_FL_GATE"];
            assert!(kinds.iter().any(|kind| name.ends_with(kind)), "{name}");
            // build.json, the bundle, the overlay and the plugin's folder are written by the build.
            let own = ["build.json", "lib_", "lib/", "overlay/"];
            assert!(!own.iter().any(|start| name.starts_with(start)), "{name}");
        }
    }
}
