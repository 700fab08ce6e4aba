use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use torchfl_elf::{Class, Endian, FileAt, Kind, Machine};

use super::pattern::matches;
use super::*;

const X86_64: Abi = Abi { machine: Machine(62), class: Class::Elf64, endian: Endian::Little };
const I386: Abi = Abi { machine: Machine(3), class: Class::Elf32, endian: Endian::Little };
const S390X: Abi = Abi { machine: Machine(22), class: Class::Elf64, endian: Endian::Big };

/// An entry to be written: flags, name, path, hwcap.
type Written<'a> = (u32, &'a str, &'a str, u64);

const EXTENSION: u64 = 1 << 62;

fn word(endian: Endian, value: u32) -> [u8; 4] {
    if endian == Endian::Little { value.to_le_bytes() } else { value.to_be_bytes() }
}

/// A cache as `ldconfig` lays it out: header, entries, strings, extensions.
fn cache(endian: Endian, entries: &[Written], hwcaps: &[&str]) -> Vec<u8> {
    let mut strings = Vec::new();
    let base = HEADER + ENTRY * entries.len();
    let mut string = |text: &str| {
        let at = base + strings.len();
        strings.extend(text.as_bytes());
        strings.push(0);
        at as u32
    };
    let mut table = Vec::new();
    for (flags, name, path, hwcap) in entries {
        let mut halves = [*hwcap as u32, (hwcap >> 32) as u32];
        if endian == Endian::Big {
            halves.reverse();
        }
        for value in [*flags, string(name), string(path), 0, halves[0], halves[1]] {
            table.extend(word(endian, value));
        }
    }
    let names: Vec<u32> = hwcaps.iter().map(|name| string(name)).collect();
    let mut file = MAGIC.to_vec();
    let extensions = (base + strings.len()).next_multiple_of(4);
    let directory = if hwcaps.is_empty() { 0 } else { extensions as u32 };
    for value in [entries.len() as u32, strings.len() as u32] {
        file.extend(word(endian, value));
    }
    file.extend([if endian == Endian::Little { 2 } else { 3 }, 0, 0, 0]);
    file.extend(word(endian, directory));
    file.extend([0; 12]);
    file.extend(table);
    file.extend(strings);
    if !hwcaps.is_empty() {
        file.resize(extensions, 0);
        for value in [EXTENSION_MAGIC, 1, 1, 0, directory + 24, 4 * names.len() as u32] {
            file.extend(word(endian, value));
        }
        for name in names {
            file.extend(word(endian, name));
        }
    }
    file
}

fn parse(bytes: &[u8], abi: Abi) -> Result<Cache, String> {
    Cache::parse(bytes, "ld.so.cache", abi).map_err(|error| error.to_string())
}

fn list(hwcaps: &[&str]) -> Vec<String> {
    hwcaps.iter().map(|name| format!("glibc-hwcaps/{name}")).collect()
}

#[test]
fn names_are_compared_as_glibc_does() {
    for (a, b) in
        [("libz.so.9", "libz.so.10"), ("liba.so", "liba.so.1"), ("libb-1.so", "libb1.so"), ("", "l")]
    {
        assert_eq!(compare(a.as_bytes(), b.as_bytes()), Ordering::Less, "{a} {b}");
        assert_eq!(compare(b.as_bytes(), a.as_bytes()), Ordering::Greater, "{a} {b}");
    }
    assert_eq!(compare(b"libz.so.01", b"libz.so.1"), Ordering::Equal);
}

#[test]
fn only_entries_for_the_machine_count() {
    let entries: [Written; 4] = [
        (0x803, "liba.so.1", "/x32/liba.so.1", 0),
        (0x303, "liba.so.1", "/lib64/liba.so.1", 0),
        (0x3, "liba.so.1", "/lib/liba.so.1", 0),
        (0x1, "liba.so.1", "/old/liba.so.1", 0),
    ];
    let bytes = cache(Endian::Little, &entries, &[]);
    assert_eq!(parse(&bytes, X86_64).unwrap().lookup("liba.so.1", &[]), Some("/lib64/liba.so.1"));
    assert_eq!(parse(&bytes, I386).unwrap().lookup("liba.so.1", &[]), Some("/lib/liba.so.1"));
    assert_eq!(parse(&bytes, I386).unwrap().lookup("liba.so", &[]), None);
}

#[test]
fn the_best_usable_hwcap_wins() {
    let entries: [Written; 6] = [
        (0x303, "liba.so.1", "/lib/glibc-hwcaps/x86-64-v2/liba.so.1", EXTENSION),
        (0x303, "liba.so.1", "/lib/glibc-hwcaps/x86-64-v3/liba.so.1", EXTENSION | 1),
        (0x303, "liba.so.1", "/lib/haswell/liba.so.1", 1 << 50),
        (0x303, "liba.so.1", "/lib/tls/liba.so.1", 1 << 63),
        (0x303, "liba.so.1", "/lib/liba.so.1", 0),
        // Lies in v2, and is marked as v3.
        (0x303, "libA.so.1", "/lib/glibc-hwcaps/x86-64-v2/libA.so.1", EXTENSION | 2 << 32),
    ];
    let bytes = cache(Endian::Little, &entries, &["x86-64-v2", "x86-64-v3"]);
    let cache = parse(&bytes, X86_64).unwrap();
    let found = |name: &str, hwcaps: &[&str]| cache.lookup(name, &list(hwcaps)).map(str::to_owned);
    let at = |folder: &str| Some(format!("/lib/{folder}/liba.so.1"));
    assert_eq!(found("liba.so.1", &["x86-64-v4", "x86-64-v3", "x86-64-v2"]), at("glibc-hwcaps/x86-64-v3"));
    assert_eq!(found("liba.so.1", &["x86-64-v2"]), at("glibc-hwcaps/x86-64-v2"));
    assert_eq!(found("liba.so.1", &["x86-64-v2", "x86-64-v3"]), at("glibc-hwcaps/x86-64-v2"));
    assert_eq!(found("liba.so.1", &[]), at("tls"));
    assert_eq!(found("libA.so.1", &["x86-64-v2"]), None);
    assert!(found("libA.so.1", &["x86-64-v3", "x86-64-v2"]).is_some());
}

#[test]
fn big_endian_with_hwcaps() {
    let entries: [Written; 2] = [
        (0x403, "liba.so.1", "/lib64/glibc-hwcaps/z15/liba.so.1", EXTENSION),
        (0x403, "liba.so.1", "/lib64/liba.so.1", 0),
    ];
    let cache = parse(&cache(Endian::Big, &entries, &["z15"]), S390X).unwrap();
    assert_eq!(cache.lookup("liba.so.1", &list(&["z15"])), Some("/lib64/glibc-hwcaps/z15/liba.so.1"));
    assert_eq!(cache.lookup("liba.so.1", &[]), Some("/lib64/liba.so.1"));
}

/// `ldconfig -c compat`, glibc's default until 2.31: strings are relative to the newer table.
#[test]
fn the_old_format_before_the_new_one_is_skipped() {
    let new = cache(Endian::Little, &[(0x303, "liba.so.1", "/lib/liba.so.1", 0)], &[]);
    for entries in [1_u32, 2] {
        let mut file = OLD_MAGIC.to_vec();
        file.push(0);
        file.extend(entries.to_le_bytes());
        file.resize(OLD_HEADER + OLD_ENTRY * entries as usize, 0);
        assert!(parse(&file, X86_64).unwrap_err().contains("before glibc 2.2 alone"));
        file.resize(file.len().next_multiple_of(8), 0);
        file.extend(&new);
        assert_eq!(parse(&file, X86_64).unwrap().lookup("liba.so.1", &[]), Some("/lib/liba.so.1"));
    }
}

#[test]
fn what_is_no_cache_is_refused() {
    let good = cache(Endian::Little, &[(0x303, "liba.so.1", "/lib/liba.so.1", EXTENSION)], &["x86-64-v2"]);
    assert!(parse(&good, X86_64).is_ok());
    assert!(parse(&good, S390X).unwrap_err().contains("other byte order"));
    assert!(parse(b"", X86_64).unwrap_err().contains("is no ld.so.cache"));
    for end in 0..good.len() {
        assert!(parse(&good[..end], X86_64).is_err(), "{end}");
    }
    let reversed: [Written; 2] = [(0x303, "liba.so.1", "/a", 0), (0x303, "libb.so.1", "/b", 0)];
    let reversed = cache(Endian::Little, &reversed, &[]);
    assert!(parse(&reversed, X86_64).unwrap_err().contains("not sorted"));
    let long = "x".repeat(MAX_STRING);
    let long = cache(Endian::Little, &[(0x303, "liba.so.1", &long, 0)], &[]);
    assert!(parse(&long, X86_64).unwrap_err().contains("longer than a path"));
}

/// Entries that all name one long string take no more memory than the bound.
#[test]
fn entries_that_share_a_string_are_bounded() {
    let path = "x".repeat(MAX_STRING - 1);
    let mut bytes = cache(Endian::Little, &[(0x303, "liba.so.1", &path, 0)], &[]);
    let first = bytes[HEADER..HEADER + ENTRY].to_vec();
    let strings = bytes.split_off(HEADER + ENTRY);
    let count = MAX_STRINGS / MAX_STRING + 1;
    (1..count).for_each(|_| bytes.extend(&first));
    let moved = (ENTRY * (count - 1)) as u32;
    for at in (HEADER..).step_by(ENTRY).take(count) {
        for field in [at + 4, at + 8] {
            let value = u32::from_le_bytes(bytes[field..field + 4].try_into().unwrap()) + moved;
            bytes[field..field + 4].copy_from_slice(&value.to_le_bytes());
        }
    }
    bytes[20..24].copy_from_slice(&(count as u32).to_le_bytes());
    bytes.extend(strings);
    assert!(parse(&bytes, X86_64).unwrap_err().contains("more than 64 MiB"));
}

#[test]
fn patterns_as_glob_3_reads_them() {
    for (pattern, name) in [
        ("*.conf", "a.conf"),
        ("*", "a"),
        ("a*b*c", "a--b-b-c"),
        ("?.conf", "x.conf"),
        ("[a-c]x", "bx"),
        ("[!a-c]x", "dx"),
        ("[]x]", "]"),
        ("[a-]", "-"),
        ("[", "["),
        (r"\*", "*"),
        (".*", ".hidden"),
    ] {
        assert!(matches(pattern, name), "{pattern} {name}");
    }
    for (pattern, name) in [
        ("*.conf", ".conf"),
        ("*.conf", "a.conf~"),
        ("?", ""),
        ("[a-c]", "d"),
        ("[!a-c]", "a"),
        (r"\*", "a"),
        ("[a-a]", "-"),
        ("a", "ab"),
        ("", "a"),
    ] {
        assert!(!matches(pattern, name), "{pattern} {name}");
    }
    assert!(!matches(&"*a".repeat(500), &"a".repeat(499)));
}

/// A tree in memory: files by path, libraries among them by their SONAME, and links.
#[derive(Default)]
struct Memory {
    texts: BTreeMap<&'static str, &'static str>,
    libraries: BTreeMap<&'static str, (&'static str, Abi)>,
    links: BTreeMap<&'static str, &'static str>,
}

impl Memory {
    fn follow(&self, path: &str) -> String {
        let mut path = path.to_owned();
        while let Some((link, target)) =
            self.links.iter().find(|(link, _)| path == **link || path.starts_with(&format!("{link}/")))
        {
            path = format!("{target}{}", &path[link.len()..]);
        }
        path
    }

    fn paths(&self) -> impl Iterator<Item = &str> {
        self.texts.keys().chain(self.libraries.keys()).chain(self.links.keys()).copied()
    }
}

impl Tree for Memory {
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.texts.get(self.follow(path).as_str()).map(|text| text.as_bytes().to_vec())
    }

    fn list(&self, folder: &str) -> Option<Vec<TreeEntry>> {
        let inner = format!("{}/", self.follow(folder).trim_end_matches('/'));
        let names = self.paths().filter_map(|path| path.strip_prefix(&inner));
        let names: BTreeSet<&str> = names.filter_map(|rest| rest.split('/').next()).collect();
        let link = |name: &str| self.links.contains_key(format!("{inner}{name}").as_str());
        let entries = names.iter().map(|name| TreeEntry { name: (*name).to_owned(), link: link(name) });
        (!names.is_empty()).then(|| entries.collect())
    }

    fn canonical(&self, path: &str) -> Option<String> {
        let path = self.follow(path);
        self.paths().any(|known| known.starts_with(&path)).then_some(path)
    }

    fn library(&self, path: &str) -> Option<TreeLibrary> {
        let (soname, abi) = self.libraries.get(self.follow(path).as_str())?;
        Some(TreeLibrary { abi: *abi, soname: (!soname.is_empty()).then(|| (*soname).to_owned()) })
    }
}

fn rows(cache: &Cache) -> Vec<(&str, &str)> {
    cache.iter().collect()
}

#[test]
fn configuration_is_read_as_ldconfig_does() {
    let tree = Memory {
        texts: BTreeMap::from([
            (
                "/etc/ld.so.conf",
                "# top\n  /opt/one/ # the first\ninclude ld.so.conf.d/*.conf /etc/more\t/none\n/opt/five=libc6\n",
            ),
            ("/etc/ld.so.conf.d/b.conf", "/opt/three \n"),
            ("/etc/ld.so.conf.d/a.conf", "/opt/two\nhwcap 1 nosegneg\ninclude *.conf\n"),
            ("/etc/ld.so.conf.d/.z.conf", "/opt/hidden\n"),
            ("/etc/ld.so.conf.d/c.txt", "/opt/hidden\n"),
            ("/etc/more", "include /etc/ld.so.conf\n/opt/four\n/\nrelative\n/opt/none\n"),
        ]),
        libraries: BTreeMap::from([
            ("/opt/one/liba.so", ("", X86_64)),
            ("/opt/two/libb.so", ("", X86_64)),
            ("/opt/three/libc.so", ("", X86_64)),
            ("/opt/four/libd.so", ("", X86_64)),
            ("/opt/five/libe.so", ("", X86_64)),
            ("/opt/hidden/libf.so", ("", X86_64)),
            ("/usr/lib/libg.so", ("", X86_64)),
            ("/usr/lib/libA.so", ("", I386)),
        ]),
        links: BTreeMap::from([("/lib", "/usr/lib")]),
    };
    let cache = Cache::derive(&tree, "/etc/ld.so.conf", &["/lib".to_owned(), "/usr/lib".to_owned()], X86_64);
    let expected = [
        ("libg.so", "/lib/libg.so"),
        ("libe.so", "/opt/five/libe.so"),
        ("libd.so", "/opt/four/libd.so"),
        ("libc.so", "/opt/three/libc.so"),
        ("libb.so", "/opt/two/libb.so"),
        ("liba.so", "/opt/one/liba.so"),
    ];
    assert_eq!(rows(&cache), expected);
}

#[test]
fn the_folder_named_first_wins() {
    let tree = Memory {
        texts: BTreeMap::from([("/etc/ld.so.conf", "/b\n/a\n")]),
        libraries: BTreeMap::from([("/a/libx.so.1", ("", X86_64)), ("/b/libx.so.1", ("", X86_64))]),
        ..Memory::default()
    };
    let cache = Cache::derive(&tree, "/etc/ld.so.conf", &[], X86_64);
    assert_eq!(cache.lookup("libx.so.1", &[]), Some("/b/libx.so.1"));
}

#[test]
fn links_and_sonames() {
    let tree = Memory {
        libraries: BTreeMap::from([
            // As packages lay it: the name that ld(1) asks for, the SONAME, the file.
            ("/lib/libz.so.1.2.13", ("libz.so.1", X86_64)),
            // Two files of one SONAME, and no link: the newer one.
            ("/lib/liby.so.1.9", ("liby.so.1", X86_64)),
            ("/lib/liby.so.1.10", ("liby.so.1", X86_64)),
            // A link that is neither: it counts as another file of that SONAME, and here as the newer one.
            ("/lib/libx.so.1.0", ("libx.so.1", X86_64)),
            // Not named as a library.
            ("/lib/plugin.so", ("plugin.so", X86_64)),
            ("/lib/glibc-hwcaps/x86-64-v3/libz.so.1.2.13", ("libz.so.1", X86_64)),
            ("/lib/ld-linux-x86-64.so.2", ("ld-linux-x86-64.so.2", X86_64)),
        ]),
        links: BTreeMap::from([
            ("/lib/libz.so", "/lib/libz.so.1.2.13"),
            ("/lib/libz.so.1", "/lib/libz.so.1.2.13"),
            ("/lib/libxx.so.2", "/lib/libx.so.1.0"),
            ("/lib/libgone.so", "/lib/none"),
        ]),
        ..Memory::default()
    };
    let cache = Cache::derive(&tree, "/etc/ld.so.conf", &["/lib".to_owned()], X86_64);
    let expected = [
        ("libz.so.1", "/lib/glibc-hwcaps/x86-64-v3/libz.so.1.2.13"),
        ("libz.so.1", "/lib/libz.so.1"),
        ("libz.so", "/lib/libz.so"),
        ("liby.so.1", "/lib/liby.so.1.10"),
        ("libx.so.1", "/lib/libxx.so.2"),
        ("ld-linux-x86-64.so.2", "/lib/ld-linux-x86-64.so.2"),
    ];
    assert_eq!(rows(&cache), expected);
    assert_eq!(cache.lookup("libz.so.1", &list(&["x86-64-v3"])), Some(expected[0].1));
}

/// Real files, below a folder.
struct Below<'r>(&'r Path);

impl Below<'_> {
    fn real(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }
}

impl Tree for Below<'_> {
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        fs_err::read(self.real(path)).ok()
    }

    fn list(&self, folder: &str) -> Option<Vec<TreeEntry>> {
        let entries = fs_err::read_dir(self.real(folder)).ok()?.map(|entry| {
            let entry = entry.unwrap();
            let link = entry.file_type().unwrap().is_symlink();
            TreeEntry { name: entry.file_name().to_string_lossy().into_owned(), link }
        });
        Some(entries.collect())
    }

    fn canonical(&self, path: &str) -> Option<String> {
        Some(fs_err::canonicalize(self.real(path)).ok()?.to_str()?.to_owned())
    }

    fn library(&self, path: &str) -> Option<TreeLibrary> {
        let facts = torchfl_elf::facts(&FileAt::open(&self.real(path)).ok()?, path).ok()?;
        let abi = Abi { machine: facts.machine, class: facts.class, endian: facts.endian };
        let shared = facts.dynamic && matches!(facts.kind, Kind::Library | Kind::Program);
        shared.then_some(TreeLibrary { abi, soname: facts.soname })
    }
}

/// This machine's own kind, by the running program.
fn own() -> Abi {
    Below(Path::new("/")).library("/proc/self/exe").unwrap().abi
}

/// Runs `ldconfig`, which need not be in the search path of a user.
fn ldconfig(arguments: &[&str]) -> String {
    let path = format!("/sbin:/usr/sbin:{}", std::env::var("PATH").unwrap_or_default());
    let output =
        Command::new("ldconfig").args(arguments).env("PATH", path).env("LC_ALL", "C").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Names and paths as `ldconfig -p` prints them, for one kind of library.
fn printed(cache: &Path, kind: &str) -> Vec<(String, String)> {
    let text = ldconfig(&["-p", "-C", cache.to_str().unwrap()]);
    let rows = text.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix('\t')?.split_once(" (")?;
        let (kinds, path) = rest.split_once(") => ")?;
        (kinds == kind || kinds.starts_with(&format!("{kind}, "))).then(|| (name.to_owned(), path.to_owned()))
    });
    rows.collect()
}

fn owned(cache: &Cache) -> Vec<(String, String)> {
    cache.iter().map(|(name, path)| (name.to_owned(), path.to_owned())).collect()
}

/// What `ldconfig -p` writes in the brackets for libraries of this machine.
fn own_kind() -> &'static str {
    match own().machine.0 {
        62 => "libc6,x86-64",
        183 => "libc6,AArch64",
        other => panic!("machine {other}: say what ldconfig -p prints for it"),
    }
}

/// A tree of its own, that this machine's `ldconfig` looks through.
#[test]
fn a_cache_that_ldconfig_wrote() {
    let dir = tempfile::TempDir::new().unwrap();
    let at = |inner: &str| dir.path().join(inner).to_str().unwrap().to_owned();
    for folder in ["etc/more", "opt/a/glibc-hwcaps/x86-64-v2", "opt/b", "lib", "usr/lib"] {
        fs_err::create_dir_all(at(folder)).unwrap();
    }
    fs_err::write(at("a.c"), "int a(void) { return 1; }\n").unwrap();
    for (file, soname) in [
        ("opt/a/liba.so.1.9", "liba.so.1"),
        ("opt/a/liba.so.1.10", "liba.so.1"),
        ("opt/a/libplain.so", ""),
        ("opt/a/glibc-hwcaps/x86-64-v2/liba.so.1.10", "liba.so.1"),
        ("opt/b/liba.so.1", "liba.so.1"),
        ("opt/b/libb.so.02", "libb.so.2"),
        ("opt/b/other.so", "libother.so.1"),
        ("lib/libb.so.1", "libb.so.1"),
        ("usr/lib/libb.so.1", "libb.so.1"),
    ] {
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-o", &at(file), &at("a.c")]);
        if !soname.is_empty() {
            cc.arg(format!("-Wl,-soname,{soname}"));
        }
        assert!(cc.status().unwrap().success());
    }
    std::os::unix::fs::symlink("liba.so.1.10", at("opt/a/liba.so")).unwrap();
    fs_err::write(at("etc/ld.so.conf"), "# of a test\ninclude /etc/more/*.conf\n/opt/a\n").unwrap();
    fs_err::write(at("etc/more/x.conf"), "/opt/b\n").unwrap();
    let root = dir.path().to_str().unwrap();
    for format in ["new", "compat"] {
        let told = ldconfig(&["-r", root, "-c", format, "-v"]);
        let defaults = told.lines().filter_map(|line| line.strip_suffix(": (from <builtin>:0)"));
        let defaults: Vec<String> = defaults.map(str::to_owned).collect();
        let file = PathBuf::from(at("etc/ld.so.cache"));
        let read = Cache::parse(&fs_err::read(&file).unwrap(), "cache", own()).unwrap();
        assert_eq!(owned(&read), printed(&file, own_kind()), "{format}");
        let derived = Cache::derive(&Below(dir.path()), "/etc/ld.so.conf", &defaults, own());
        assert_eq!(owned(&derived), owned(&read), "{format}");
        for cache in [&read, &derived] {
            assert_eq!(cache.lookup("liba.so.1", &[]), Some("/opt/b/liba.so.1"));
            assert_eq!(cache.lookup("libplain.so", &[]), Some("/opt/a/libplain.so"));
        }
        let faster = Some("/opt/a/glibc-hwcaps/x86-64-v2/liba.so.1.10");
        assert_eq!(derived.lookup("liba.so.1", &list(&["x86-64-v2"])), faster);
        // In the mixed format ldconfig writes the folders' names where ld.so does not look for them.
        let found = read.lookup("liba.so.1", &list(&["x86-64-v2"]));
        assert_eq!(found, if format == "new" { faster } else { Some("/opt/b/liba.so.1") });
    }
}

/// The cache that this machine's processes use.
#[test]
fn the_cache_of_this_machine() {
    let path = Path::new("/etc/ld.so.cache");
    let cache = Cache::parse(&fs_err::read(path).unwrap(), "/etc/ld.so.cache", own()).unwrap();
    let printed = printed(path, own_kind());
    assert!(printed.len() > 10, "{printed:?}");
    assert_eq!(owned(&cache), printed);
    assert!(cache.lookup("libc.so.6", &[]).is_some_and(|path| path.ends_with("/libc.so.6")));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes, X86_64);
        let _ = parse(&[MAGIC, &bytes].concat(), X86_64);
        let _ = parse(&[MAGIC, &bytes].concat(), S390X);
    }

    /// One byte changed: read or refused, and no lookup panics.
    #[test]
    fn a_damaged_cache_is_read_or_refused(at in 20_usize..200, byte: u8) {
        let entries: [Written; 3] = [
            (0x303, "libb.so.1", "/lib/libb.so.1", 0),
            (0x303, "liba.so.1", "/lib/glibc-hwcaps/x86-64-v2/liba.so.1", EXTENSION),
            (0x303, "liba.so.1", "/lib/liba.so.1", 0),
        ];
        let mut bytes = cache(Endian::Little, &entries, &["x86-64-v2"]);
        let at = at.min(bytes.len() - 1);
        bytes[at] = byte;
        if let Ok(cache) = parse(&bytes, X86_64) {
            for name in ["liba.so.1", "libb.so.1", ""] {
                cache.lookup(name, &list(&["x86-64-v2"]));
            }
        }
    }

    /// Names in the order of `compare`, as they must be to be found.
    #[test]
    fn every_name_is_found(names in prop::collection::btree_set("lib[ab]{0,2}\\.so(\\.[0-9]{1,3})?", 1..20)) {
        let mut names: Vec<String> = names.into_iter().collect();
        names.sort_by(|a, b| compare(b.as_bytes(), a.as_bytes()));
        names.dedup_by(|a, b| compare(a.as_bytes(), b.as_bytes()).is_eq());
        let entries: Vec<Written> = names.iter().map(|name| (0x303, name.as_str(), name.as_str(), 0)).collect();
        let cache = parse(&cache(Endian::Little, &entries, &[]), X86_64).unwrap();
        for name in &names {
            prop_assert_eq!(cache.lookup(name, &[]), Some(name.as_str()));
        }
    }
}
