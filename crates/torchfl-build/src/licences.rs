//! The licence files of every bundled part.

use crate::Tree;

/// Names that people give to licence files, in lower case.
const STEMS: [&str; 5] = ["license", "licence", "copying", "notice", "copyright"];

/// A licence file of a tree, and where it goes below `dist-info/licenses/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Licence {
    pub from: String,
    pub to: String,
}

/// Every licence file of a torch: what its `dist-info` lists, and what lies beside its own files.
pub(crate) fn of(tree: &Tree, part: &str) -> Vec<Licence> {
    let mut found = Vec::new();
    if let Some(info) = tree.dist_info() {
        let listed = format!("{info}licenses/");
        for path in tree.below(&info) {
            // PEP 639 puts them in licenses/; older wheels beside METADATA.
            let inner =
                path.strip_prefix(&listed).or_else(|| path.strip_prefix(&info).filter(|p| is_licence(p)));
            if let Some(inner) = inner {
                found.push(Licence { from: path.to_owned(), to: format!("{part}/{inner}") });
            }
        }
    }
    for folder in ["torch/", "torch.libs/"] {
        let beside = tree.below(folder).filter(|p| is_licence(&p[folder.len()..]));
        found.extend(beside.map(|p| Licence { from: p.to_owned(), to: format!("{part}/{p}") }));
    }
    found
}

/// Whether a path without folders is a licence file's.
fn is_licence(path: &str) -> bool {
    let name = path.to_ascii_lowercase();
    !name.contains('/') && STEMS.iter().any(|stem| name.starts_with(stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_count() {
        let yes = ["LICENSE", "NOTICE.txt", "COPYING.LESSER", "License-3rd-party"];
        assert!(yes.iter().all(|n| is_licence(n)));
        assert!(!["third_party/LICENSE", "METADATA", "RECORD"].iter().any(|n| is_licence(n)));
    }
}
