//! What needs the writer's inner parameters: zip64 with lowered limits, and threads that fail.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Options, Writer, ZipWriter};
use crate::deflate::{Encode, Job, encode};
use crate::format::Limits;
use crate::{Archive, Compression, Entry, Error, Metadata, MetadataVersion, WheelFile, WheelName, verify};

fn entries(name: &WheelName) -> Vec<Entry> {
    let metadata = Metadata::new(MetadataVersion::V2_4, &name.distribution, &name.version).render().unwrap();
    let text = |index: u32| index.to_string().repeat(600);
    let long = (0..700_000).map(text).take(1200).collect::<String>();
    vec![
        Entry::bytes("a/empty", ""),
        Entry::bytes("a/long", long),
        Entry::bytes("a/middle", text(7)),
        Entry::bytes("a/short", "x"),
        Entry::bytes(format!("{}/METADATA", name.dist_info()), metadata),
        Entry::bytes(
            format!("{}/WHEEL", name.dist_info()),
            WheelFile::new(name, "x", true).render().unwrap(),
        ),
    ]
}

fn write(folder: &Path, limits: Limits, encode: Encode) -> Result<PathBuf, Error> {
    let name: WheelName = "x-1-py3-none-any.whl".parse().unwrap();
    let options = Options { threads: 2, ..Options::default() };
    let mut writer = Box::new(ZipWriter::with(folder, &name, options, limits, encode).unwrap());
    let path = writer.path().to_owned();
    writer.add_all(entries(&name))?;
    writer.finish().map(|_| path)
}

/// Checks with our strict reader, the `zip` crate and Python, of which the last knows no local zip64 fields:
/// those are checked by `verify` and by the `zip` crate's stream reader.
fn check(path: &Path) {
    verify(path).unwrap();
    let ours = Archive::open(path).unwrap();
    let mut theirs = zip::ZipArchive::new(fs_err::File::open(path).unwrap()).unwrap();
    assert_eq!(theirs.len(), ours.members().len());
    for index in 0..theirs.len() {
        let mut member = theirs.by_index(index).unwrap();
        let mut bytes = Vec::new();
        std::io::copy(&mut member, &mut bytes).unwrap();
        assert_eq!(bytes, ours.read(&member.name().unwrap(), u64::MAX).unwrap());
    }
    let mut stream = fs_err::File::open(path).unwrap();
    for member in ours.members() {
        let mut streamed = zip::read::read_zipfile_from_stream(&mut stream).unwrap().unwrap();
        assert_eq!((&*streamed.name().unwrap(), streamed.size()), (member.name.as_str(), member.size));
        std::io::copy(&mut streamed, &mut std::io::sink()).unwrap();
    }
    let program = "import sys, zipfile; assert zipfile.ZipFile(sys.argv[1]).testzip() is None";
    assert!(Command::new("python3").args(["-c", program]).arg(path).status().unwrap().success());
}

/// Zip64 records only where a value needs them: one overflow at a time, and all together.
#[test]
fn zip64_fields_are_written_where_a_value_overflows() {
    let none = Limits::default();
    let folder = tempfile::tempdir().unwrap();
    let plain = fs_err::read(write(folder.path(), none, encode).unwrap()).unwrap();
    assert_eq!(find(&plain, b"PK\x06\x06"), 0);
    for limits in [
        Limits { size: 1, ..none },
        Limits { size: 500, ..none },
        Limits { size: 1200, ..none },
        Limits { size: 100_000, ..none },
        Limits { count: 1, ..none },
        Limits { count: 7, ..none },
        Limits { size: 0, count: 0 },
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), limits, encode).unwrap();
        check(&path);
        let bytes = fs_err::read(&path).unwrap();
        let far = Archive::open(&path).unwrap().index().start >= limits.size;
        let end64 = usize::from(far || limits.count <= 7);
        assert_eq!(find(&bytes, b"PK\x06\x06"), end64, "{limits:?}");
    }
}

/// The local field holds the two sizes even where the directory's has one value only, or an offset:
/// strict readers refuse a copy of the directory's field there.
#[test]
fn the_local_zip64_field_is_not_the_directorys() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), Limits { size: 600, ..Limits::default() }, encode).unwrap();
    let archive = Archive::open(&path).unwrap();
    let bytes = fs_err::read(&path).unwrap();
    for (name, extra) in [("a/middle", 20), ("a/short", 0)] {
        let at = archive.member(name).unwrap().raw.offset as usize;
        assert_eq!(u16::from_le_bytes([bytes[at + 28], bytes[at + 29]]), extra, "{name}");
    }
}

fn find(bytes: &[u8], signature: &[u8]) -> usize {
    bytes.windows(signature.len()).filter(|window| *window == signature).count()
}

fn fails(_: Compression, job: &mut Job) -> Result<(), String> {
    if job.len() > 500_000 { Err("out of luck".to_owned()) } else { encode(Compression::Normal, job) }
}

fn panics(_: Compression, job: &mut Job) -> Result<(), String> {
    assert!(job.len() <= 500_000, "on purpose");
    encode(Compression::Normal, job)
}

/// A panic in a thread once made the writer wait for ever.
#[test]
fn a_thread_that_fails_or_panics_is_an_error_and_leaves_nothing() {
    for (encode, expected) in [(fails as Encode, "out of luck"), (panics, "on purpose")] {
        let folder = tempfile::tempdir().unwrap();
        match write(folder.path(), Limits::default(), encode) {
            Err(Error::Worker { member, reason }) => {
                assert_eq!((member.as_str(), reason.as_str()), ("a/long", expected));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 0);
    }
}
