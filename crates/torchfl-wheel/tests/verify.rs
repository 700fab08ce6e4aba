//! The reader and the strict verifier against damaged, hostile and merely foreign archives.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::path::{Path, PathBuf};

use common::{NAME, name, options, python, short_entries, write};
use proptest::prelude::*;
use torchfl_wheel::{Archive, Error, Member, Sha256, verify, verify_source};

struct Wheel {
    folder: tempfile::TempDir,
    path: PathBuf,
}

fn good() -> Wheel {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = write(folder.path(), short_entries(), options(2));
    Wheel { folder, path }
}

impl Wheel {
    fn edit(&self, edit: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
        let mut bytes = fs_err::read(&self.path).unwrap();
        edit(&mut bytes);
        fs_err::write(&self.path, bytes).unwrap();
        verify(&self.path).map(|_| ())
    }

    /// Writes the wheel again through Python's zipfile. `change` may edit `files` (name to bytes, in order),
    /// `record` (rows) and, by `late`, the directory's records before they are written.
    fn rewrite(&self, change: &str, late: &str) -> PathBuf {
        let other = self.folder.path().join("other");
        fs_err::create_dir_all(&other).unwrap();
        let other = other.join(NAME);
        let program = format!(
            r#"
import csv, io, stat, sys, warnings, zipfile
warnings.simplefilter("ignore")
class Pipe(io.RawIOBase):
    def __init__(self, path): self.file = open(path, "wb")
    def writable(self): return True
    def write(self, data): return self.file.write(data)
    def seekable(self): return False
source = zipfile.ZipFile(sys.argv[1])
files = [[i.filename, source.read(i)] for i in source.infolist()]
own = files[-1][0]
record = list(csv.reader(io.StringIO(files[-1][1].decode())))
method, comment, extra, sink = zipfile.ZIP_DEFLATED, b"", b"", sys.argv[2]
attr = (stat.S_IFREG | 0o644) << 16
def find(name):
    return next(f for f in files if f[0].endswith(name))
{change}
if find("/RECORD")[1] == source.read(own):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(record)
    find("/RECORD")[1] = out.getvalue().encode()
with zipfile.ZipFile(sink, "w", method) as z:
    z.comment = comment
    for name, data in files:
        info = zipfile.ZipInfo(name)
        info.compress_type = method
        info.external_attr = attr
        info.extra = extra
        z.writestr(info, data)
    infos = z.filelist
    pass
{late}
"#
        );
        python(&program, &[&self.path, &other]);
        other
    }
}

fn code(result: Result<(), Error>) -> &'static str {
    result.err().map_or("", |error| error.code())
}

fn strict(path: &Path) -> &'static str {
    code(verify(path).map(|_| ()))
}

#[test]
fn a_good_wheel_passes_and_its_summary_is_true() {
    let wheel = good();
    let summary = verify(&wheel.path).unwrap();
    let bytes = fs_err::read(&wheel.path).unwrap();
    assert_eq!(summary.sha256, Sha256::of(&bytes));
    assert_eq!((summary.bytes, summary.members), (bytes.len() as u64, 9));
    assert_eq!(strict(&wheel.rewrite("", "")), "");
}

#[test]
fn trailing_leading_and_missing_bytes() {
    assert_eq!(code(good().edit(|bytes| bytes.push(0))), "E-WHL-020");
    assert_eq!(code(good().edit(|bytes| bytes.insert(0, 0))), "E-WHL-020");
    assert_eq!(code(good().edit(|bytes| bytes.truncate(bytes.len() - 1))), "E-WHL-020");
    assert_eq!(code(good().edit(Vec::clear)), "E-WHL-020");
    // A comment that hides bytes behind the end record.
    let hidden = good().edit(|bytes| {
        let at = bytes.len() - 2;
        bytes[at] = 3;
        bytes.extend_from_slice(b"abc");
    });
    assert_eq!(code(hidden), "E-WHL-020");
}

#[test]
fn bytes_between_members() {
    let wheel = good();
    let other = wheel.rewrite("sink = Pipe(sys.argv[2])", "    for i in infos: i.flag_bits &= ~8");
    // Without the flag, the descriptors are bytes that belong to nobody.
    assert_eq!(strict(&other), "E-WHL-021");
    let gap = good().edit(|bytes| {
        let end = bytes.len() - 22;
        let start = u32::from_le_bytes(bytes[end + 16..end + 20].try_into().unwrap());
        bytes[end + 16..end + 20].copy_from_slice(&(start + 1).to_le_bytes());
        bytes.insert(start as usize, 0);
    });
    assert_eq!(code(gap), "E-WHL-020");
}

#[test]
fn headers_that_disagree() {
    for (field, offset) in [("time", 10), ("crc", 14), ("compressed size", 18), ("size", 22), ("flags", 7)] {
        let result = good().edit(|bytes| bytes[offset] ^= 8);
        assert_eq!(code(result), "E-WHL-021", "{field}");
    }
    let name = good().edit(|bytes| bytes[30] = b'T');
    assert_eq!(code(name), "E-WHL-021");
}

#[test]
fn damaged_bytes() {
    // The member before holds one stored byte.
    let marker = "grün.txt".as_bytes();
    let stored = good().edit(|bytes| {
        let at = bytes.windows(marker.len()).position(|window| window == marker).unwrap() + marker.len();
        assert_eq!(bytes[at], b'x');
        bytes[at] = b'y';
    });
    assert_eq!(code(stored), "E-WHL-023");
    let deflated = good().edit(|bytes| bytes[2_000] ^= 0x10);
    assert!(matches!(code(deflated), "E-WHL-021" | "E-WHL-023"));
}

#[test]
fn record_is_compared_in_both_directions() {
    for (change, code) in [
        ("record[0][1] = 'sha256=' + 'A' * 43", "E-WHL-030"),
        ("record[0][1] = record[0][1].replace('sha256', 'md5')", "E-WHL-030"),
        ("record[0][1] = ''", "E-WHL-030"),
        ("record[0][2] = '99'", "E-WHL-030"),
        ("del record[0]", "E-WHL-031"),
        ("record.append(['torch_fl/ghost.py', '', ''])", "E-WHL-032"),
        ("record.append(record[0])", "E-WHL-005"),
        ("record[0].append('x')", "E-WHL-005"),
        ("files.insert(0, ['torch_fl/new.py', b''])", "E-WHL-031"),
    ] {
        assert_eq!(strict(&good().rewrite(change, "")), code, "{change}");
    }
}

#[test]
fn structures_that_a_wheel_does_not_need() {
    for (change, late, code) in [
        ("files.insert(1, files[0])", "", "E-WHL-021"),
        ("files.insert(1, [files[0][0].upper(), b''])", "", "E-WHL-011"),
        ("files.insert(0, ['torch_fl/', b''])", "", "E-WHL-026"),
        ("sink = Pipe(sys.argv[2])", "", "E-WHL-026"),
        ("comment = b'hello'", "", "E-WHL-020"),
        ("method = zipfile.ZIP_BZIP2", "", "E-WHL-022"),
        ("attr = (stat.S_IFLNK | 0o777) << 16", "", "E-WHL-026"),
        ("", "    infos[0].flag_bits |= 1", "E-WHL-022"),
        ("", "    infos[0].comment = b'x'", "E-WHL-026"),
        ("", "    infos[1].header_offset = infos[0].header_offset", "E-WHL-021"),
        ("", "    infos[2].file_size = 1 << 30", "E-WHL-021"),
        ("", "    infos[2].file_size += 1", "E-WHL-021"),
        ("", "    infos[2].compress_size += 1", "E-WHL-021"),
        ("", "    infos[0].extra = b'\\x01\\x00\\x08\\x00' + bytes(8)", "E-WHL-026"),
        // Unicode Path (0x7075): another name for some readers.
        ("extra = b'\\x75\\x70\\x06\\x00' + bytes(5) + b'y'", "", "E-WHL-026"),
        (
            "extra = b'\\x75\\x70\\x06\\x00' + bytes(5) + b'y'",
            "    for i in infos: i.extra = b''",
            "E-WHL-026",
        ),
        ("", "    infos[0].extra = b'\\x75\\x70\\x06\\x00' + bytes(5) + b'y'", "E-WHL-026"),
        ("files.insert(0, ['../x', b''])", "", "E-WHL-021"),
        ("files.insert(0, ['/x', b''])", "", "E-WHL-021"),
        ("files.insert(0, ['a\\\\b', b''])", "", "E-WHL-021"),
    ] {
        assert_eq!(strict(&good().rewrite(change, late)), code, "{change}{late}");
    }
}

#[test]
fn names_that_disagree() {
    for (change, code) in [
        ("find('METADATA')[1] = find('METADATA')[1].replace(b'Name: torch-fl', b'Name: torch')", "E-WHL-030"),
        ("files = [[n.replace('13.0.dist', '13.1.dist'), d] for n, d in files]", "E-WHL-033"),
        ("files.append(['other-1.dist-info/METADATA', b''])", "E-WHL-020"),
    ] {
        assert_eq!(strict(&good().rewrite(change, "")), code, "{change}");
    }
    // The same, with a RECORD that fits.
    let fix = "
import base64, hashlib
for row in record:
    if row[0].endswith(('METADATA', 'WHEEL')):
        data = find(row[0])[1]
        row[1] = 'sha256=' + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')
        row[2] = str(len(data))
";
    for change in [
        "find('METADATA')[1] = find('METADATA')[1].replace(b'Name: torch-fl', b'Name: torch')",
        "find('METADATA')[1] = find('METADATA')[1].replace(b'cuda13.0', b'cuda13.1')",
        "find('WHEEL')[1] = find('WHEEL')[1].replace(b'Tag: cp311', b'Tag: cp312')",
    ] {
        assert_eq!(strict(&good().rewrite(&format!("{change}{fix}"), "")), "E-WHL-033", "{change}");
    }
    let wheel = good();
    let renamed = wheel.folder.path().join(NAME.replace("cp311", "cp312"));
    fs_err::rename(&wheel.path, &renamed).unwrap();
    assert_eq!(strict(&renamed), "E-WHL-033");
}

/// What `verify` refuses and people ship: the reader takes it.
#[test]
fn foreign_archives_are_read() {
    let wheel = good();
    let ours = Archive::open(&wheel.path).unwrap();
    for change in [
        "files.insert(0, ['torch_fl/', b''])",
        "sink = Pipe(sys.argv[2])",
        "method = zipfile.ZIP_STORED",
        "comment = b'hello'",
        "zipfile.ZIP64_LIMIT = 10",
        "zipfile.ZIP64_LIMIT = 10; sink = Pipe(sys.argv[2])",
    ] {
        let other = Archive::open(&wheel.rewrite(change, "")).unwrap();
        assert_eq!(other.dist_info().unwrap(), name().dist_info());
        assert_eq!(other.metadata().unwrap().name(), "torch-fl");
        for member in ours.members().iter().filter(|member| !member.name.ends_with("RECORD")) {
            let bytes = other.read(&member.name, u64::MAX).unwrap();
            assert_eq!(bytes, ours.read(&member.name, u64::MAX).unwrap(), "{change}: {}", member.name);
        }
    }
}

#[test]
fn a_symbolic_link_is_not_read_as_a_file() {
    let wheel = good();
    let other = wheel.rewrite("attr = (stat.S_IFLNK | 0o777) << 16", "");
    let archive = Archive::open(&other).unwrap();
    assert_eq!(archive.read("torch_fl/build.json", 100).unwrap_err().code(), "E-WHL-022");
}

#[test]
fn limits_missing_members_and_spool_files() {
    use std::io::Read as _;
    let wheel = good();
    let archive = Archive::open(&wheel.path).unwrap();
    assert_eq!(archive.read("torch_fl/build.json", 3).unwrap(), b"{}\n");
    assert_eq!(archive.read("torch_fl/build.json", 2).unwrap_err().code(), "E-WHL-025");
    assert_eq!(archive.read("torch_fl/none", 2).unwrap_err().code(), "E-WHL-024");
    let before = fs_err::read_dir(wheel.folder.path()).unwrap().count();
    let mut file = archive.spool("torch_fl/lib_cuda/libmixed.so", wheel.folder.path()).unwrap();
    assert_eq!(fs_err::read_dir(wheel.folder.path()).unwrap().count(), before);
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, archive.read("torch_fl/lib_cuda/libmixed.so", u64::MAX).unwrap());
}

/// A stream may make less than its size says, or more, or claim a size that no library has.
#[test]
fn a_member_whose_size_is_a_lie_is_not_spooled() {
    let library = "torch_fl/lib_cuda/libmixed.so";
    for (change, late, name, code) in [
        ("", "    next(i for i in infos if 'libmixed' in i.filename).file_size -= 1", library, "E-WHL-021"),
        ("", "    next(i for i in infos if 'libmixed' in i.filename).file_size += 1", library, "E-WHL-021"),
        (
            "method = zipfile.ZIP_STORED; files.insert(0, ['a', bytes(17 << 20)])",
            "    infos[0].compress_type = 8; infos[0].file_size = 17 << 30",
            "a",
            "E-WHL-025",
        ),
    ] {
        let wheel = good();
        let archive = Archive::open(&wheel.rewrite(change, late)).unwrap();
        let spooled = archive.spool(name, wheel.folder.path());
        assert_eq!(spooled.err().map_or("", |error| error.code()), code, "{change}{late}");
    }
}

/// In memory it takes six times its size.
#[test]
fn a_directory_far_larger_than_any_wheels_is_refused() {
    for (size, reason) in [(16 << 20, "record is damaged"), ((16 << 20) + 1, "larger than 16 MiB")] {
        let mut bytes = vec![0; size as usize];
        bytes.extend_from_slice(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
        bytes.extend_from_slice(&u32::to_le_bytes(size));
        bytes.extend_from_slice(&[0; 6]);
        match Archive::from_source(Box::new(bytes), Path::new("x.whl")).map(|_| ()) {
            Err(Error::Structure { reason: found, .. }) => assert!(found.contains(reason), "{found}"),
            other => panic!("{other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_are_refused_quietly(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(verify_source(Box::new(bytes), Path::new("x.whl"), &name()).is_err());
    }

    /// No single changed byte passes the strict reader, but in the fields that say nothing about the files.
    #[test]
    fn a_changed_byte_is_found(at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let folder = tempfile::tempdir().unwrap();
        let small = common::dist_info();
        let (path, _) = write(folder.path(), small, options(1));
        let mut bytes = fs_err::read(&path).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(summary) = verify_source(Box::new(bytes.clone()), &path, &name()) {
            let changed = Archive::from_source(Box::new(bytes), &path).unwrap();
            let original = Archive::open(&path).unwrap();
            prop_assert_eq!(summary.members, 3);
            let facts = |member: &Member| (member.name.clone(), member.size, member.crc32);
            prop_assert!(changed.members().iter().map(facts).eq(original.members().iter().map(facts)));
        }
    }

    /// What the writer writes, the reader and the `zip` crate read.
    #[test]
    fn any_files_are_read_back(files in prop::collection::btree_map("[a-z]{1,8}(/[a-zü,\" ]{0,6}[a-z]){0,2}", prop::collection::vec(any::<u8>(), 0..500), 0..8)) {
        let folder = tempfile::tempdir().unwrap();
        let mut all = common::dist_info();
        let mut kept: Vec<(String, Vec<u8>)> = Vec::new();
        for (path, bytes) in files {
            let clash = |other: &String| path.starts_with(&format!("{other}/")) || other.starts_with(&format!("{path}/"));
            if !kept.iter().any(|(other, _)| clash(other)) {
                kept.push((path, bytes));
            }
        }
        all.extend(kept.iter().map(|(path, bytes)| torchfl_wheel::Entry::bytes(path.clone(), bytes.clone())));
        let (path, _) = write(folder.path(), all, options(2));
        let ours = Archive::open(&path).unwrap();
        let mut theirs = zip::ZipArchive::new(fs_err::File::open(&path).unwrap()).unwrap();
        for (name, bytes) in kept {
            prop_assert_eq!(&ours.read(&name, 1000).unwrap(), &bytes);
            let mut other = Vec::new();
            std::io::copy(&mut theirs.by_name(&name).unwrap(), &mut other).unwrap();
            prop_assert_eq!(&other, &bytes);
        }
    }
}
