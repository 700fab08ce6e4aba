use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::files::Entry;
use crate::object::Known;

mod diff;

/// A folder to compile libraries into.
struct Lab(TempDir);

impl Lab {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, inner: &str) -> PathBuf {
        // Some systems have a link to the folder for temporary files.
        fs_err::canonicalize(self.0.path()).unwrap().join(inner)
    }

    fn text(&self, inner: &str) -> String {
        self.path(inner).to_str().unwrap().to_owned()
    }

    fn write(&self, inner: &str, text: &str) {
        fs_err::create_dir_all(self.path(inner).parent().unwrap()).unwrap();
        fs_err::write(self.path(inner), text).unwrap();
    }

    /// Compiles `source`, which may hold `{versions}` of a linker script's text.
    fn library(&self, inner: &str, source: &str, options: &[&str]) {
        self.write("source.c", source);
        fs_err::create_dir_all(self.path(inner).parent().unwrap()).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-nostdlib", "-o"]).arg(self.path(inner)).arg(self.path("source.c"));
        let output = cc.args(options).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn link(&self, inner: &str, target: &str) {
        fs_err::create_dir_all(self.path(inner).parent().unwrap()).unwrap();
        symlink(target, self.path(inner)).unwrap();
    }

    fn take(&self, roots: &[(&str, Option<&str>)]) -> Snapshot {
        let roots: Vec<Root> = roots
            .iter()
            .map(|(folder, at)| Root { folder: self.path(folder), at: at.map(str::to_owned) })
            .collect();
        let (snapshot, skipped) = Snapshot::take("acme", &roots, &mut |_| {}).unwrap();
        assert_eq!(skipped, []);
        snapshot
    }
}

/// Text of the file that a snapshot is written as.
fn text(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    GzDecoder::new(&snapshot.write().unwrap()[..]).read_to_string(&mut text).unwrap();
    text
}

fn packed(text: &str) -> Vec<u8> {
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap()
}

fn parse(text: &str) -> Result<Snapshot, String> {
    Snapshot::parse(&packed(text), "acme.snapshot").map_err(|error| error.to_string())
}

const SOURCE: &str = "int counter = 1; char table[24]; __thread int per_thread = 1;\n\
    __attribute__((weak)) void maybe(void) {}\n\
    __attribute__((visibility(\"protected\"))) void mine(void) {}\n\
    __attribute__((visibility(\"hidden\"))) void inner(void) {}\n\
    static void *pick(void) { return (void *)mine; }\n\
    void chosen(void) __attribute__((ifunc(\"pick\")));\n\
    void first(void) {} void second(void) {}\n\
    __asm__(\".symver second,twice@V1\");\n\
    void third(void) {}\n\
    __asm__(\".symver third,twice@@V2\");\n\
    extern void outside(void); void calls(void) { outside(); }\n";

fn sample(lab: &Lab) {
    lab.write("versions", "V1 { global: first; twice; }; V2 { global: *; local: second; third; } V1;\n");
    let script = format!("-Wl,--version-script={}", lab.text("versions"));
    let options = ["-Wl,-soname,liba.so.1", &script, "-Wl,--enable-new-dtags,-rpath,$ORIGIN", "-Wl,-z,now"];
    lab.library("sdk/lib/liba.so.1.2", SOURCE, &options);
}

#[test]
fn what_is_kept_of_a_library() {
    let lab = Lab::new();
    sample(&lab);
    lab.link("sdk/lib/liba.so.1", "liba.so.1.2");
    lab.write("sdk/lib/liba.a", "no library");
    lab.write("sdk/include/a.h", "no library");
    let snapshot = lab.take(&[("sdk", Some("/opt/acme/"))]);
    let machine = snapshot.libraries[0].object.abi.machine.0;
    let text = text(&snapshot).replace(&format!("machine {machine} "), "machine [ARCH] ");
    let mut rows: Vec<&str> =
        text.lines().filter(|row| !row.ends_with(" _init") && !row.ends_with(" _fini")).collect();
    // Of one name the linker's order is kept.
    let first = rows.iter().position(|row| row.ends_with(" twice")).unwrap();
    rows[first..].sort_unstable();
    assert_eq!(
        rows,
        [
            "torchfl-snapshot 1",
            "title acme",
            "folder /opt/acme",
            "link /opt/acme/lib/liba.so.1",
            "to liba.so.1.2",
            "library /opt/acme/lib/liba.so.1.2",
            "machine [ARCH] elf64 little",
            "soname liba.so.1",
            "runpath $ORIGIN",
            "flag now",
            "flag version-table",
            "flag versioned",
            "tls 4 4",
            "version V1",
            "version V2",
            "symbols 12",
            "go 0 1 V1",
            "go 0 2 V2",
            "gf 2 calls",
            "gi 2 chosen",
            "go 4 2 counter",
            "gf 1 first",
            "wf 2 maybe",
            "gfp 2 mine",
            "gt 4 2 per_thread",
            "go 24 2 table",
            "gf 2 twice",
            "gfh 1 twice",
        ]
    );
}

/// Export by export and fact by fact, as if the library itself were there.
#[test]
fn a_file_is_read_as_it_was_written() {
    let lab = Lab::new();
    sample(&lab);
    lab.library(
        "sdk/lib/libplain.so",
        "void plain(void) {}\n",
        &["-Wl,--disable-new-dtags,-rpath,/x:$ORIGIN"],
    );
    lab.link("sdk/lib64", "lib");
    let taken = lab.take(&[("sdk", None)]);
    let bytes = taken.write().unwrap();
    let parsed = Snapshot::parse(&bytes, "acme.snapshot").unwrap();
    assert_eq!(parsed.write().unwrap(), bytes);
    assert_eq!((&parsed.title, &parsed.folders, &parsed.links), (&taken.title, &taken.folders, &taken.links));
    for (kept, again) in taken.libraries.iter().zip(&parsed.libraries) {
        let real =
            Object::read(&torchfl_elf::FileAt::open(Path::new(&kept.paths[0])).unwrap(), "real").unwrap();
        for object in [&kept.object, &again.object] {
            assert!(matches!(object.known, Known::Exports));
            assert_eq!((object.abi, object.kind, object.flags), (real.abi, real.kind, real.flags));
            assert_eq!((&object.soname, &object.needed), (&real.soname, &real.needed));
            assert_eq!((&object.search_path, object.tls), (&real.search_path, real.tls));
            assert_eq!(object.versions_defined, real.versions_defined);
            assert_eq!(object.version_table, real.version_table);
            assert_eq!(object.symbols.is_versioned(), real.symbols.is_versioned());
            let sorted = |object: &Object| {
                let mut exports: Vec<_> = object.symbols.exports().collect();
                exports
                    .iter_mut()
                    .filter(|export| matches!(export.kind, 2 | 10))
                    .for_each(|export| export.size = 0);
                exports.sort_by(|a, b| a.name.cmp(&b.name));
                exports
            };
            assert_eq!(sorted(object), sorted(&real));
        }
    }
    assert_eq!(parsed.symbols(), taken.symbols());
}

#[test]
fn where_the_tree_lies_does_not_show_in_the_file() {
    let lab = Lab::new();
    sample(&lab);
    let first = lab.take(&[("sdk", Some("/opt/acme"))]).write().unwrap();
    fs_err::rename(lab.path("sdk"), lab.path("moved")).unwrap();
    assert_eq!(lab.take(&[("moved", Some("/opt/acme"))]).write().unwrap(), first);
}

#[test]
fn hard_links_and_links_that_lead_out_share_one_entry() {
    let lab = Lab::new();
    lab.library("sdk/lib/liba.so", "void a(void) {}\n", &[]);
    fs_err::hard_link(lab.path("sdk/lib/liba.so"), lab.path("sdk/lib/libhard.so")).unwrap();
    lab.library("else/liba.so", "void a(void) {}\n", &[]);
    lab.link("sdk/lib/libout.so", &lab.text("else/liba.so"));
    lab.link("sdk/lib/libagain.so", "../../else/liba.so");
    lab.link("sdk/more", &lab.text("else"));
    let snapshot = lab.take(&[("sdk", None)]);
    let at = |inner: &str| lab.text(inner);
    let paths: Vec<Vec<String>> = snapshot.libraries.iter().map(|kept| kept.paths.clone()).collect();
    assert_eq!(
        paths,
        [
            vec![at("sdk/lib/liba.so"), at("sdk/lib/libhard.so")],
            vec![at("sdk/lib/libagain.so"), at("sdk/lib/libout.so"), at("sdk/more/liba.so")],
        ]
    );
    assert!(snapshot.links.is_empty());
    let mut files = Files::new();
    snapshot.mount(&mut files);
    let id = |inner: &str| match files.entry(&at(inner)) {
        Entry::File(entry) => entry.id,
        _ => panic!("{inner} is not there"),
    };
    assert_eq!(id("sdk/lib/liba.so"), id("sdk/lib/libhard.so"));
    assert_eq!(id("sdk/lib/libout.so"), id("sdk/more/liba.so"));
    assert_ne!(id("sdk/lib/liba.so"), id("sdk/lib/libout.so"));
}

/// `/opt/acme` leads to `/opt/acme-3.8`, whose own links may name either.
#[test]
fn a_folder_that_is_named_through_a_link() {
    let lab = Lab::new();
    lab.library("acme-3.8/lib/liba.so.1", "void a(void) {}\n", &[]);
    lab.link("acme", "acme-3.8");
    lab.link("acme-3.8/lib/real.so", &lab.text("acme-3.8/lib/liba.so.1"));
    lab.link("acme-3.8/lib/named.so", &lab.text("acme/lib/liba.so.1"));
    lab.link("acme-3.8/lib/plain.so", "liba.so.1");
    lab.link("acme-3.8/lib/up.so", "../../acme-3.8/lib/liba.so.1");
    lab.link("acme-3.8/lib/none.so", "libnone.so");
    let snapshot = lab.take(&[("acme", None)]);
    assert_eq!(snapshot.folders, [lab.text("acme")]);
    let mut files = Files::new();
    snapshot.mount(&mut files);
    for name in ["liba.so.1", "real.so", "named.so", "plain.so", "up.so"] {
        assert!(matches!(files.entry(&lab.text(&format!("acme/lib/{name}"))), Entry::File(_)), "{name}");
    }
    assert_eq!(snapshot.libraries.len(), 1);
    assert!(!snapshot.links.keys().any(|path| path.ends_with("none.so")));
    let targets: Vec<&str> = snapshot.links.values().map(String::as_str).collect();
    assert!(targets.iter().all(|target| !target.contains("acme-3.8")), "{targets:?}");
}

#[test]
fn links_of_another_machine_are_not_followed_on_this_one() {
    let lab = Lab::new();
    lab.library("image/opt/acme/lib/liba.so.1", "void a(void) {}\n", &[]);
    lab.library("image/usr/lib/libb.so.1", "void b(void) {}\n", &[]);
    lab.link("image/opt/acme/lib/libb.so", "/usr/lib/libb.so.1");
    lab.link("image/opt/acme/lib/libc.so", &lab.text("image/usr/lib/libb.so.1"));
    let one = lab.take(&[("image/opt/acme", Some("/opt/acme"))]);
    assert!(one.links.is_empty() && one.libraries.len() == 1);
    let both = lab.take(&[("image/opt/acme", Some("/opt/acme")), ("image/usr/lib", Some("/usr/lib"))]);
    assert_eq!(both.links.get("/opt/acme/lib/libb.so").unwrap(), "/usr/lib/libb.so.1");
    assert_eq!(both.libraries.len(), 2);
}

#[test]
fn links_in_circles_end() {
    let lab = Lab::new();
    lab.library("sdk/lib/liba.so", "void a(void) {}\n", &[]);
    lab.link("sdk/lib/up", "..");
    lab.link("sdk/self", "self");
    lab.link("sdk/out", &lab.text("else"));
    lab.link("else/back", &lab.text("sdk"));
    lab.link("else/again", &lab.text("else"));
    lab.link("else/other", &lab.text("other"));
    lab.link("other/else", &lab.text("else"));
    lab.library("other/libb.so", "void b(void) {}\n", &[]);
    let snapshot = lab.take(&[("sdk", None)]);
    let paths: Vec<&String> = snapshot.libraries.iter().flat_map(|kept| &kept.paths).collect();
    assert_eq!(paths, [&lab.text("sdk/lib/liba.so"), &lab.text("sdk/out/other/libb.so")]);
    assert_eq!(
        snapshot.write().unwrap(),
        Snapshot::parse(&snapshot.write().unwrap(), "x").unwrap().write().unwrap()
    );
}

/// A folder inside another, given as well: each library once.
#[test]
fn folders_that_overlap() {
    let lab = Lab::new();
    lab.library("sdk/lib64/liba.so", "void a(void) {}\n", &[]);
    lab.link("sdk/lib", "lib64");
    for roots in [["sdk", "sdk/lib"], ["sdk/lib", "sdk"], ["sdk/lib64", "sdk"], ["sdk", "sdk"]] {
        let snapshot = lab.take(&roots.map(|root| (root, None)));
        assert_eq!(snapshot.libraries.len(), 1, "{roots:?}");
        let mut files = Files::new();
        snapshot.mount(&mut files);
        for name in ["sdk/lib64/liba.so", "sdk/lib/liba.so"] {
            assert!(matches!(files.entry(&lab.text(name)), Entry::File(_)), "{roots:?} {name}");
        }
    }
}

/// `/usr/lib` is taken; the system has `/lib` too, which is a link to it.
#[test]
fn links_of_a_merged_usr_are_kept() {
    let lab = Lab::new();
    lab.library("usr/lib/arch/liba.so", "void a(void) {}\n", &[]);
    lab.link("lib", "usr/lib");
    lab.link("lib64", "usr/lib64");
    let take = |folder: &str| {
        let roots = [Root { folder: lab.path(folder), at: None }];
        Snapshot::take_of(&lab.text(""), "acme", &roots, &mut |_| {}).unwrap().0
    };
    for folder in ["usr/lib/arch", "usr"] {
        let snapshot = take(folder);
        let mut files = Files::new();
        snapshot.mount(&mut files);
        assert!(matches!(files.entry(&lab.text("lib/arch/liba.so")), Entry::File(_)), "{folder}");
        assert_eq!(snapshot.links.len(), 1);
    }
}

#[test]
fn what_looks_like_a_library_and_is_none_is_told() {
    let lab = Lab::new();
    lab.library("sdk/liba.so", "void a(void) {}\n", &[]);
    let bytes = fs_err::read(lab.path("sdk/liba.so")).unwrap();
    fs_err::write(lab.path("sdk/libcut.so"), &bytes[..bytes.len() / 3]).unwrap();
    fs_err::write(lab.path("sdk/cut.bin"), &bytes[..bytes.len() / 3]).unwrap();
    lab.write("sdk/libscript.so", "GROUP ( liba.so )\n");
    let roots = [Root { folder: lab.path("sdk"), at: None }];
    let (snapshot, skipped) = Snapshot::take("acme", &roots, &mut |_| {}).unwrap();
    assert_eq!(snapshot.libraries.len(), 1);
    assert_eq!(skipped.len(), 1, "{skipped:?}");
    assert_eq!(skipped[0].path, lab.text("sdk/libcut.so"));
}

#[test]
fn folders_that_cannot_be_taken() {
    let lab = Lab::new();
    lab.write("sdk/a", "");
    let take = |folder: &str, at: Option<&str>| {
        let roots = [Root { folder: lab.path(folder), at: at.map(str::to_owned) }];
        Snapshot::take("acme", &roots, &mut |_| {}).map(|_| ()).map_err(|error| error.code())
    };
    assert_eq!(take("none", None), Err("E-LDR-003"));
    assert_eq!(take("sdk/a", None), Err("E-LDR-003"));
    assert_eq!(take("sdk", Some("opt/acme")), Err("E-LDR-004"));
    assert_eq!(take("sdk", Some("/opt/../acme")), Err("E-LDR-004"));
    assert_eq!(take("sdk", Some("/")), Ok(()));
}

#[test]
fn the_example_of_the_reference_has_no_drift() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/snapshot.md");
    let page = fs_err::read_to_string(page).unwrap();
    let example = page.split("```\n").nth(1).unwrap();
    assert_eq!(text(&parse(example).unwrap()), example);
}

const HEAD: &str = "torchfl-snapshot 1\ntitle x\nfolder /\nlibrary /liba.so\nmachine 62 elf64 little\n";

#[test]
fn what_is_no_snapshot_is_refused() {
    assert!(parse(&format!("{HEAD}version V1\nsymbols 1\ngf 1 a\n")).is_ok());
    for (text, why) in [
        ("", "not a snapshot"),
        ("torchfl-snapshot 2\n", "format 2"),
        ("torchfl-snapshot 1\ntitle x", "cut short"),
        ("torchfl-snapshot 1\nacme x\n", "`acme`"),
        ("torchfl-snapshot 1\nto x\n", "without `link`"),
        ("torchfl-snapshot 1\nlink x\n", "not absolute"),
        ("torchfl-snapshot 1\nlink /a/../x\n", "not absolute"),
        ("torchfl-snapshot 1\nlibrary /\n", "not absolute"),
        ("torchfl-snapshot 1\ntitle \\x\n", "neither"),
        ("torchfl-snapshot 1\nlibrary /a\nsymbols 0\n", "without `machine`"),
        ("torchfl-snapshot 1\nlibrary /a\nmachine x elf64 little\n", "number"),
        (HEAD, "within a library"),
        (&format!("{HEAD}acme x\n"), "`acme`"),
        (&format!("{HEAD}flag acme\n"), "`acme`"),
        (&format!("{HEAD}tls 4\n"), "alignment"),
        (&format!("{HEAD}symbols 2\ngf 0 a\n"), "within a library"),
        (&format!("{HEAD}symbols 1\ngf 1 a\n"), "no symbol"),
        (&format!("{HEAD}symbols 1\ngx 0 a\n"), "no symbol"),
        (&format!("{HEAD}symbols 1\ngo 0 a\n"), "no symbol"),
        (&format!("{HEAD}symbols 1\ngfx 0 a\n"), "no symbol"),
        (&format!("{HEAD}symbols 99999999999\n"), "more than"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
    let good = packed(HEAD);
    assert!(Snapshot::parse(&good[..good.len() - 9], "x").is_err());
    assert!(Snapshot::parse(b"torchfl-snapshot 1\n", "x").unwrap_err().to_string().contains("unpacked"));
    let whole = packed(&format!("{HEAD}symbols 0\n"));
    assert!(Snapshot::parse(&whole, "x").is_ok());
    let more = [whole.clone(), vec![0]].concat();
    assert!(Snapshot::parse(&more, "x").unwrap_err().to_string().contains("follows the end"));
}

/// A few kilobytes that would be gigabytes.
#[test]
fn a_bomb_ends_in_an_error() {
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::fast());
    gzip.write_all(b"torchfl-snapshot 1\ntitle ").unwrap();
    let chunk = vec![b'x'; 1 << 16];
    (0..64).for_each(|_| gzip.write_all(&chunk).unwrap());
    let error = Snapshot::parse(&gzip.finish().unwrap(), "x").unwrap_err();
    assert!(error.to_string().contains("longer than a row"), "{error}");

    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::fast());
    gzip.write_all(b"torchfl-snapshot 1\n").unwrap();
    let chunk = "title x\n".repeat(1 << 14);
    (0..65).for_each(|_| gzip.write_all(chunk.as_bytes()).unwrap());
    let error = Snapshot::parse(&gzip.finish().unwrap(), "x").unwrap_err();
    assert!(error.to_string().contains("rows"), "{error}");

    let version = "V".repeat(1 << 19);
    let symbols = "gf 1 a\n".repeat(1000);
    let error = parse(&format!("{HEAD}version {version}\nsymbols 1000\n{symbols}")).unwrap_err();
    assert!(error.contains("too long names"), "{error}");

    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::fast());
    gzip.write_all(b"torchfl-snapshot 1\n").unwrap();
    let long = "x".repeat(500_000);
    (0..1100).for_each(|_| writeln!(gzip, "title {long}").unwrap());
    let error = Snapshot::parse(&gzip.finish().unwrap(), "x").unwrap_err();
    assert!(error.to_string().contains("cut short"), "{error}");
}
