//! Which processes have a file mapped, from `/proc/*/maps`.

use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::Error;

/// Who has a file mapped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mapped {
    /// Their process ids, ascending.
    pub pids: Vec<u32>,
    /// Number of processes that could not be asked: other users' processes, unless run as root.
    pub unreadable: usize,
}

/// Looks for processes that have `path` mapped: by device and inode, or (where a layered file system reports
/// another device) by inode and path. On systems without `/proc` none are found.
pub fn mapped(path: &Path) -> Result<Mapped, Error> {
    let io = |action| move |source| Error::Io { path: path.to_owned(), action, source };
    let meta = fs_err::metadata(path).map_err(io("look at"))?;
    let real = fs_err::canonicalize(path).map_err(io("look at"))?;
    let device = (major(meta.dev()), minor(meta.dev()));
    let mut found = Mapped::default();
    let Ok(processes) = fs_err::read_dir("/proc") else { return Ok(found) };
    let mut maps = Vec::new();
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        match read_whole(&process.path().join("maps"), &mut maps) {
            Ok(()) if maps_hold(&maps, device, meta.ino(), real.as_os_str().as_bytes()) => {
                found.pids.push(pid);
            }
            Ok(()) => {}
            // A process that ended meanwhile has nothing mapped.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound || e.raw_os_error() == Some(3) => {}
            Err(_) => found.unreadable += 1,
        }
    }
    found.pids.sort_unstable();
    Ok(found)
}

/// Files in `/proc` have no size to go by, and `read_to_end` would probe them in small steps.
fn read_whole(path: &Path, into: &mut Vec<u8>) -> io::Result<()> {
    const STEP: usize = 0x1_0000;
    let mut file = fs_err::File::open(path)?;
    let mut len = 0;
    loop {
        into.resize(into.len().max(len + STEP), 0);
        match file.read(&mut into[len..])? {
            0 => break,
            more => len += more,
        }
    }
    into.truncate(len);
    Ok(())
}

/// Lines read `start-end perms offset major:minor inode path` (`proc_pid_maps(5)`).
fn maps_hold(maps: &[u8], device: (u64, u64), inode: u64, path: &[u8]) -> bool {
    let inode = inode.to_string();
    maps.split(|byte| *byte == b'\n').any(|line| {
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let (dev, ino) = (fields.nth(3).unwrap_or_default(), fields.next().unwrap_or_default());
        if ino != inode.as_bytes() {
            return false;
        }
        let name = fields.next().unwrap_or_default().trim_ascii_start();
        parse_device(dev) == Some(device) || name == path
    })
}

fn parse_device(text: &[u8]) -> Option<(u64, u64)> {
    let (major, minor) = std::str::from_utf8(text).ok()?.split_once(':')?;
    Some((u64::from_str_radix(major, 16).ok()?, u64::from_str_radix(minor, 16).ok()?))
}

/// Linux's encoding of a device number (`gnu_dev_major`).
fn major(dev: u64) -> u64 {
    ((dev >> 8) & 0xfff) | ((dev >> 32) & 0xffff_f000)
}

fn minor(dev: u64) -> u64 {
    (dev & 0xff) | ((dev >> 12) & 0xffff_ff00)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &[u8] = b"7f00-7f01 r-xp 00000000 fd:1a 1234                       /opt/a b/lib.so\n";

    #[test]
    fn a_map_is_found_by_device_and_inode_or_by_path_and_inode() {
        assert!(maps_hold(LINE, (0xfd, 0x1a), 1234, b"/elsewhere"));
        assert!(maps_hold(LINE, (0, 5), 1234, b"/opt/a b/lib.so"));
        assert!(!maps_hold(LINE, (0xfd, 0x1a), 123, b"/opt/a b/lib.so"));
        assert!(!maps_hold(LINE, (0, 5), 1234, b"/opt/a b/lib"));
    }

    #[test]
    fn own_executable_is_mapped_by_this_process() {
        let own = std::env::current_exe().unwrap();
        assert!(mapped(&own).unwrap().pids.contains(&std::process::id()));
    }
}
