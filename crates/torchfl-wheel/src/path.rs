//! Which paths a wheel may hold, and which may stand beside each other.

use std::collections::HashMap;

use crate::Error;

/// The length field of a zip header is 16 bits wide.
const LONGEST: usize = u16::MAX as usize;
/// What the paths of one wheel may take, folders included. Those of torch take 3 MB.
const MOST_BYTES: usize = 64 << 20;

/// Why `path` cannot be a file's path in a wheel, or `None` if it can.
///
/// Refused: what leaves the folder (`..`, absolute, drive letters), what another system reads
/// differently (backslash, empty and `.` parts) and control characters.
pub(crate) fn fault(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        return Some("the path is empty");
    }
    if path.len() > LONGEST {
        return Some("the path is longer than 65535 bytes");
    }
    if path.starts_with('/') {
        return Some("the path is absolute");
    }
    if path.as_bytes().get(1) == Some(&b':') && path.as_bytes()[0].is_ascii_alphabetic() {
        return Some("the path starts with a drive letter");
    }
    if path.contains('\\') {
        return Some("the path holds a backslash");
    }
    if path.contains('\0') {
        return Some("the path holds a NUL");
    }
    if path.contains('\u{feff}') {
        return Some("the path holds a byte order mark");
    }
    if path.chars().any(char::is_control) {
        return Some("the path holds a control character");
    }
    for part in path.split('/') {
        match part {
            "" => return Some("the path has an empty part"),
            "." => return Some("the path has a part `.`"),
            ".." => return Some("the path has a part `..`"),
            _ => {}
        }
    }
    None
}

/// The paths of one wheel so far. Refuses a path that would meet another one after unpacking on a file
/// system that ignores case, and a path that is a file here and a folder there.
#[derive(Default)]
pub(crate) struct PathSet {
    /// Folded path to its first spelling, and whether it is a file.
    seen: HashMap<String, (String, bool)>,
    /// Bytes of all of them. A path of n parts costs n times its length.
    bytes: usize,
}

impl PathSet {
    pub(crate) fn insert(&mut self, path: &str) -> Result<(), Error> {
        if let Some(reason) = fault(path) {
            return Err(Error::Path { member: path.to_owned(), reason });
        }
        for (end, _) in path.match_indices('/') {
            self.claim(path, &path[..end], false)?;
        }
        self.claim(path, path, true)
    }

    fn claim(&mut self, path: &str, part: &str, is_file: bool) -> Result<(), Error> {
        let collision = |other: &str| Error::Collision { member: path.to_owned(), other: other.to_owned() };
        match self.seen.get(&part.to_lowercase()) {
            None => {
                self.bytes += 2 * part.len();
                if self.bytes > MOST_BYTES {
                    let reason = "the paths up to here are too many or too deep";
                    return Err(Error::Path { member: path.to_owned(), reason });
                }
                self.seen.insert(part.to_lowercase(), (part.to_owned(), is_file));
                Ok(())
            }
            Some((spelling, was_file)) if is_file || *was_file || spelling != part => {
                Err(collision(spelling))
            }
            Some(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(paths: &[&str]) -> bool {
        let mut set = PathSet::default();
        paths.iter().any(|path| set.insert(path).is_err())
    }

    #[test]
    fn paths_that_leave_the_folder_or_differ_by_system_are_refused() {
        let long = "a/".repeat(32768);
        for path in [
            "",
            "/a",
            "..",
            "a/../b",
            "./a",
            "a//b",
            "a/",
            "a\\b",
            "a\0b",
            "C:/x",
            "a\nb",
            "a\u{7f}",
            "a/.",
            "\u{feff}a",
            &long,
        ] {
            assert!(fault(path).is_some(), "{path:?}");
        }
        for path in ["a", "a/b", "..a/b..", "a b, \"c\"", "grün/ß", "torch_fl/lib.so.1"] {
            assert_eq!(fault(path), None, "{path:?}");
        }
    }

    /// 32,767 folders, each as long as the path down to it: 2 GB, from 64 KB of a hostile archive.
    #[test]
    fn a_deep_path_does_not_take_memory_without_bound() {
        let deep = format!("{}a", "a/".repeat(32_767));
        assert_eq!(fault(&deep), None);
        assert!(refused(&[&deep]));
    }

    #[test]
    fn collisions_are_refused() {
        assert!(refused(&["a", "a"]));
        assert!(refused(&["a/B", "a/b"]));
        assert!(refused(&["A/x", "a/y"]));
        assert!(refused(&["Ä", "ä"]));
        assert!(refused(&["a", "a/b"]));
        assert!(refused(&["a/b", "a"]));
        assert!(!refused(&["a/b", "a/c", "b", "ab"]));
    }
}
