//! Which of the fork's headers and CMake files must lie over the stock ones.
//!
//! A fork differs from stock PyTorch in a handful of files: NVIDIA's build of 2.13 in one header, and eight more are
//! new. Only those travel; without a stock torch to compare with, all do.

use crate::{Error, Tree};

const FOLDERS: [&str; 2] = ["torch/include/", "torch/share/cmake/"];

/// Paths (below site-packages) of the vendor's files that the front lacks or has otherwise.
pub(crate) fn differing<'a>(vendor: &'a Tree, front: Option<&Tree>) -> Result<Vec<&'a str>, Error> {
    let mut paths = Vec::new();
    for folder in FOLDERS {
        for path in vendor.below(folder) {
            let same = match front {
                Some(front) if front.size(path) == vendor.size(path) => {
                    front.read(path)? == vendor.read(path)?
                }
                _ => false,
            };
            if !same {
                paths.push(path);
            }
        }
    }
    Ok(paths)
}
