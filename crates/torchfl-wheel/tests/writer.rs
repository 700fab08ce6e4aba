//! What the zip writer writes, and that nothing but the entries shows in it.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use common::{code, dist_info, entries, name, noise, options, python, write};
use torchfl_wheel::{
    Archive, Compression, DirectoryWriter, Entry, Error, ListWriter, Options, Sha256, Source, Writer,
    ZipWriter, verify,
};

/// Pins encoder and layout: when this changes, every wheel's sha256 changes.
#[test]
fn golden_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (_, written) = write(folder.path(), entries(), options(2));
    assert_eq!(
        written.sha256.to_string(),
        "64365d71a16a81eeac04fc2dd83575f5fd8f661288504d6d654408341b06af76"
    );
}

#[test]
fn one_two_and_eight_threads_write_the_same_bytes() {
    for compression in [Compression::Normal, Compression::Fast] {
        let sums: Vec<_> = [1, 2, 8]
            .iter()
            .map(|threads| {
                let folder = tempfile::tempdir().unwrap();
                write(folder.path(), entries(), Options { compression, ..options(*threads) }).1.sha256
            })
            .collect();
        assert_eq!(sums[0], sums[1]);
        assert_eq!(sums[0], sums[2]);
    }
}

#[test]
fn entries_are_sorted_and_dist_info_is_last() {
    let folder = tempfile::tempdir().unwrap();
    let mut shuffled = entries();
    shuffled.reverse();
    let (path, written) = write(folder.path(), shuffled, options(2));
    let other = tempfile::tempdir().unwrap();
    assert_eq!(write(other.path(), entries(), options(2)).1, written);
    let names: Vec<_> =
        Archive::open(&path).unwrap().members().iter().map(|member| member.name.clone()).collect();
    assert_eq!(
        names,
        [
            "torch_fl/__init__.py",
            "torch_fl/a, \"b\"/grün.txt",
            "torch_fl/build.json",
            "torch_fl/lib_cuda/libmixed.so",
            "torch_fl/lib_cuda/libnoise.so.1",
            "torch_fl/lib_cuda/libsmall.so",
            "torch_fl-2.13.0+cuda13.0.dist-info/METADATA",
            "torch_fl-2.13.0+cuda13.0.dist-info/WHEEL",
            "torch_fl-2.13.0+cuda13.0.dist-info/RECORD",
        ]
    );
}

#[test]
fn pythons_zipfile_reads_every_member() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = write(folder.path(), entries(), options(2));
    let program = r#"
import csv, hashlib, base64, io, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
assert archive.testzip() is None
infos = archive.infolist()
record = infos[-1]
assert record.filename.endswith("/RECORD")
rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(archive.read(record).decode()))}
assert rows.pop(record.filename) == ["", ""]
for info in infos:
    assert info.date_time == (1980, 1, 1, 0, 0, 0), info
    assert info.flag_bits == (0 if info.filename.isascii() else 0x800), info
    assert info.create_system == 3 and info.extract_version == 20 and not info.extra and not info.comment, info
    assert info.external_attr >> 16 == (0o100755 if ".so" in info.filename else 0o100644), info
    if info is not record:
        data = archive.read(info)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        assert rows.pop(info.filename) == ["sha256=" + digest, str(len(data))], info
assert not rows
print(len(infos))
"#;
    assert_eq!(python(program, &[&path]), "9\n");
}

#[test]
fn the_zip_crate_reads_every_member() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = write(folder.path(), entries(), options(2));
    let ours = Archive::open(&path).unwrap();
    let mut theirs = zip::ZipArchive::new(fs_err::File::open(&path).unwrap()).unwrap();
    assert_eq!(theirs.len(), ours.members().len());
    for index in 0..theirs.len() {
        let mut member = theirs.by_index(index).unwrap();
        let mut bytes = Vec::new();
        io::copy(&mut member, &mut bytes).unwrap();
        assert_eq!(bytes, ours.read(&member.name().unwrap(), u64::MAX).unwrap());
    }
}

/// Not run where there is no `unzip`: it says so.
#[test]
fn info_zip_reads_every_member() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = write(folder.path(), entries(), options(2));
    match std::process::Command::new("unzip").arg("-tqq").arg(&path).output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => println!("not run: unzip: {error}"),
    }
}

#[test]
fn what_deflate_does_not_make_smaller_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = dist_info();
    all.push(Entry::bytes("a/large", noise(3_000_000)));
    all.push(Entry::bytes("a/medium", noise(1 << 20)));
    all.push(Entry::bytes("a/small", noise(100)));
    all.push(Entry::bytes("a/code", code(3_000_000)));
    let (path, _) = write(folder.path(), all, options(2));
    let archive = Archive::open(&path).unwrap();
    for name in ["a/large", "a/medium", "a/small"] {
        let member = archive.member(name).unwrap();
        assert_eq!(member.size, member.compressed_size, "{name}");
    }
    let code = archive.member("a/code").unwrap();
    assert!(code.compressed_size * 3 < code.size, "{code:?}");
    verify(&path).unwrap();
}

/// Fixed codes make 9 bits of each of these bytes: the encoder ran out of room.
#[test]
fn bytes_that_grow_under_fixed_codes_are_stored() {
    let high: Vec<u8> = noise(2_500_000).iter().map(|byte| 144 + byte % 112).collect();
    for compression in [Compression::Normal, Compression::Fast] {
        let folder = tempfile::tempdir().unwrap();
        let mut all = dist_info();
        all.push(Entry::bytes("a/high", high.clone()));
        all.push(Entry::bytes("a/higher", high[..70_000].to_vec()));
        let (path, _) = write(folder.path(), all, Options { compression, ..options(2) });
        assert!(Archive::open(&path).unwrap().read("a/high", 3_000_000).unwrap() == high);
    }
}

#[test]
fn fast_is_larger_and_normal_is_the_default() {
    let size = |compression| {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), entries(), Options { compression, ..options(2) }).1.bytes
    };
    assert!(size(Compression::Fast) > size(Compression::Normal));
    assert_eq!(Options::default().compression, Compression::Normal);
}

#[test]
fn the_list_and_the_folder_agree_with_the_zip() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = write(folder.path(), entries(), options(2));
    let archive = Archive::open(&path).unwrap();
    let record = archive.read(&format!("{}/RECORD", name().dist_info()), 1 << 20).unwrap();

    let mut list = Box::new(ListWriter::new(&name(), options(1)));
    list.add_all(entries()).unwrap();
    assert_eq!(list.finish().unwrap().sha256, Sha256::of(&record));

    let tree = folder.path().join("tree");
    let mut writer = Box::new(DirectoryWriter::create(&tree, &name(), options(1)).unwrap());
    writer.add_all(entries()).unwrap();
    assert!(!tree.exists());
    assert_eq!(writer.finish().unwrap().sha256, Sha256::of(&record));
    for member in archive.members() {
        use std::os::unix::fs::PermissionsExt as _;
        let file = tree.join(&member.name);
        assert_eq!(fs_err::read(&file).unwrap(), archive.read(&member.name, u64::MAX).unwrap());
        assert_eq!(Some(fs_err::metadata(&file).unwrap().permissions().mode()), member.mode);
    }
    assert!(matches!(DirectoryWriter::create(&tree, &name(), options(1)), Err(Error::Exists { .. })));
}

#[test]
fn nothing_appears_before_the_end_or_after_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let count = || fs_err::read_dir(folder.path()).unwrap().count();
    let mut writer = Box::new(ZipWriter::create(folder.path(), &name(), options(2)).unwrap());
    let path = writer.path().to_owned();
    writer.add(Entry::bytes("a", "b")).unwrap();
    assert!(!path.exists());
    drop(writer);
    assert_eq!(count(), 0);

    let mut writer = Box::new(ZipWriter::create(folder.path(), &name(), options(2)).unwrap());
    let mut all = entries();
    all.push(Entry::lazy("torch_fl/lib_cuda/libgone.so", || {
        Err::<Vec<u8>, _>(io::Error::other("no such library"))
    }));
    match writer.add_all(all) {
        Err(Error::Source { member, source }) => {
            assert_eq!(member, "torch_fl/lib_cuda/libgone.so");
            assert_eq!(source.to_string(), "no such library");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(writer.finish(), Err(Error::Incomplete { .. })));
    assert_eq!(count(), 0);
}

#[test]
fn a_wheel_without_metadata_is_not_finished() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Box::new(ZipWriter::create(folder.path(), &name(), options(1)).unwrap());
    writer.add(Entry::bytes("a", "b")).unwrap();
    assert!(matches!(writer.finish(), Err(Error::Incomplete { .. })));
}

/// A source that says it has more bytes than it has, or gives others the second time.
struct Liar {
    len: u64,
    calls: AtomicU64,
}

impl Source for Liar {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let salt = self.calls.fetch_add(1, Ordering::Relaxed);
        if offset + buf.len() as u64 > 3_000_000 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut bytes = noise(buf.len());
        bytes[0] = salt as u8;
        buf.copy_from_slice(&bytes);
        Ok(())
    }
}

#[test]
fn a_source_that_shrinks_or_changes_is_an_error() {
    for len in [4_000_000, 2_500_000] {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = ZipWriter::create(folder.path(), &name(), options(2)).unwrap();
        let liar = Liar { len, calls: AtomicU64::new(0) };
        let added = writer.add(Entry::lazy("a", move || Ok::<_, io::Error>(liar)));
        assert!(matches!(added, Err(Error::SourceRead { .. })), "{added:?}");
    }
}

/// A source that counts how many of its kind are open.
struct Counted(Arc<AtomicUsize>, Vec<u8>);
impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
impl Source for Counted {
    fn len(&self) -> u64 {
        self.1.len() as u64
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.1.read_exact_at(offset, buf)
    }
}

#[test]
fn one_source_is_open_at_a_time() {
    let open = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let mut all = dist_info();
    for index in 0..20 {
        let (open, most) = (Arc::clone(&open), Arc::clone(&most));
        all.push(Entry::lazy(format!("a/{index}"), move || {
            let now = open.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            Ok::<_, io::Error>(Counted(open, code(200_000)))
        }));
    }
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), all, options(2));
    assert_eq!(open.load(Ordering::SeqCst), 0);
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

#[test]
fn awkward_paths_and_orders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refuse = |paths: &[&str]| {
        let mut writer = ZipWriter::create(folder.path(), &name(), options(1)).unwrap();
        let results: Vec<_> = paths.iter().map(|path| writer.add(Entry::bytes(*path, "x"))).collect();
        results.into_iter().find_map(Result::err).map_or("", |error| error.code())
    };
    for path in ["../a", "/a", "a\\b", "a\0", "a//b", "other-1.dist-info/METADATA"] {
        assert_eq!(refuse(&[path]), "E-WHL-010", "{path:?}");
    }
    assert_eq!(refuse(&["torch_fl-2.13.0+cuda13.0.dist-info/RECORD"]), "E-WHL-010");
    assert_eq!(refuse(&["A", "a"]), "E-WHL-011");
    assert_eq!(refuse(&["a", "a/b"]), "E-WHL-011");
    assert_eq!(refuse(&["b", "a"]), "E-WHL-012");
    assert_eq!(refuse(&["torch_fl-2.13.0+cuda13.0.dist-info/WHEEL", "x"]), "E-WHL-012");
    assert_eq!(refuse(&["a", "b"]), "");
}

#[test]
fn progress_adds_up_to_the_input() {
    let seen = Arc::new(AtomicU64::new(0));
    let sum = Arc::clone(&seen);
    let on_progress = Some(Arc::new(move |bytes| {
        sum.fetch_add(bytes, Ordering::Relaxed);
    }) as torchfl_wheel::Progress);
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = write(folder.path(), entries(), Options { on_progress, ..options(2) });
    let unpacked = verify(&path).unwrap().unpacked;
    assert_eq!(seen.load(Ordering::Relaxed), unpacked);
}
