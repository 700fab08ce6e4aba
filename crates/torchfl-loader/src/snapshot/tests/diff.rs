//! Two snapshots compared.

use super::*;

/// Two SDKs, and what the second takes away.
struct Two(Lab);

impl Two {
    fn new() -> Self {
        Self(Lab::new())
    }

    fn library(&self, which: &str, name: &str, source: &str, options: &[&str]) {
        self.0.library(&format!("{which}/lib/{name}"), source, options);
    }

    fn diff(&self) -> Diff {
        let take = |which: &str| self.0.take(&[(which, Some(&format!("/opt/{which}")))]);
        Diff::between(&take("a"), &take("b"))
    }
}

#[test]
fn the_same_sdk_elsewhere_has_no_difference() {
    let two = Two::new();
    for which in ["a", "b"] {
        two.library(which, "liba.so.1", "void a(void) {}\n", &["-Wl,-soname,liba.so.1"]);
    }
    assert_eq!(two.diff(), Diff::default());
    assert!(two.diff().keeps_all());
}

#[test]
fn symbols_versions_and_kinds() {
    let two = Two::new();
    two.0.write("versions", "V1 { global: old; same; data; }; V2 { global: *; } V1;\n");
    two.0.write("fewer", "V1 { global: same; data; }; V3 { global: *; } V1;\n");
    let script = |name: &str| format!("-Wl,--version-script={}", two.0.text(name));
    let a = "void old(void) {} void same(void) {} int data; void turned(void) {} void late(void) {}\n";
    let b = "void same(void) {} long data[2]; int turned; void late(void) {} void fresh(void) {}\n";
    two.library("a", "liba.so.1", a, &["-Wl,-soname,liba.so.1", &script("versions")]);
    two.library("b", "liba.so.1", b, &["-Wl,-soname,liba.so.1", &script("fewer")]);
    let diff = two.diff();
    assert!(!diff.keeps_all());
    let change = &diff.changed[0];
    assert_eq!(change.library, "/opt/a/lib/liba.so.1");
    assert_eq!(
        (&change.versions_gone, &change.versions_new),
        (&vec!["V2".to_owned()], &vec!["V3".to_owned()])
    );
    assert_eq!(change.symbols_gone, ["V2@V2", "late@V2", "old@V1", "turned@V2"]);
    assert_eq!(change.symbols_new, ["V3@V3", "fresh@V3", "late@V3", "turned@V3"]);
    let of: Vec<&str> = change.details.iter().map(|detail| detail.of.as_str()).collect();
    assert_eq!(of, ["data@V1"]);
    assert_eq!(
        (change.details[0].from.as_str(), change.details[0].to.as_str()),
        ("global, 4 bytes", "global, 16 bytes")
    );
}

#[test]
fn a_function_that_becomes_data_is_gone() {
    let two = Two::new();
    two.library("a", "liba.so", "void a(void) {}\n", &[]);
    two.library("b", "liba.so", "int a;\n", &[]);
    let diff = two.diff();
    let kind = Difference { of: "a".to_owned(), from: "code".to_owned(), to: "data".to_owned() };
    assert_eq!(diff.changed[0].kinds, [kind]);
    assert!(!diff.keeps_all());
}

/// An unversioned reference finds the default version, one that names a version any file without versions.
#[test]
fn versions_that_come_or_go_altogether() {
    let two = Two::new();
    two.0.write("versions", "V1 { global: *; };\n");
    let script = format!("-Wl,--version-script={}", two.0.text("versions"));
    two.library("a", "liba.so", "void a(void) {}\n", &[]);
    two.library("b", "liba.so", "void a(void) {}\n", &[&script]);
    assert!(two.diff().keeps_all(), "{:?}", two.diff());
    let back = Diff::between(&two.0.take(&[("b", None)]), &two.0.take(&[("a", None)]));
    assert_eq!(back.changed[0].versions_gone, ["V1"]);
    assert!(!back.keeps_all());
}

#[test]
fn more_and_weaker_takes_nothing_away() {
    let two = Two::new();
    two.library("a", "liba.so", "void a(void) {}\n", &[]);
    two.library("b", "liba.so", "__attribute__((weak)) void a(void) {} void more(void) {}\n", &[]);
    two.library("b", "libnew.so", "void b(void) {}\n", &[]);
    let diff = two.diff();
    assert!(diff.keeps_all());
    assert_eq!(diff.new, ["/opt/b/lib/libnew.so"]);
    assert_eq!(diff.changed[0].symbols_new, ["more"]);
    assert_eq!(diff.changed[0].details[0].to, "weak");
}

#[test]
fn a_symbol_that_moved_to_a_needed_library_is_there() {
    let two = Two::new();
    two.library("a", "liba.so", "void a(void) {} void b(void) {}\n", &["-Wl,-soname,liba.so"]);
    two.library("b", "libb.so", "void b(void) {}\n", &["-Wl,-soname,libb.so"]);
    let folder = format!("-L{}", two.0.text("b/lib"));
    two.library(
        "b",
        "liba.so",
        "void a(void) {}\n",
        &["-Wl,-soname,liba.so", &folder, "-Wl,--no-as-needed", "-lb"],
    );
    assert!(two.diff().keeps_all(), "{:?}", two.diff());
}

#[test]
fn names_behind_a_soname_do_not_count() {
    let two = Two::new();
    let soname = ["-Wl,-soname,liba.so.1"];
    two.library("a", "liba.so.1.2", "void a(void) {}\n", &soname);
    two.0.link("a/lib/liba.so.1", "liba.so.1.2");
    two.0.link("a/lib/liba.so", "liba.so.1");
    two.library("b", "liba.so.1.3", "void a(void) {}\n", &soname);
    two.0.link("b/lib/liba.so.1", "liba.so.1.3");
    assert_eq!(two.diff().gone, ["/opt/a/lib/liba.so"]);
    fs_err::remove_file(two.0.path("b/lib/liba.so.1")).unwrap();
    assert_eq!(two.diff().gone, ["/opt/a/lib/liba.so", "/opt/a/lib/liba.so.1"]);
    assert_eq!(two.diff().new, ["/opt/b/lib/liba.so.1.3"]);
}

/// Two definitions of one name, of which a reference finds the first: found by fuzzing.
#[test]
fn what_a_reference_does_not_find_does_not_differ() {
    let snapshot = parse(&format!("{HEAD}version V1\nsymbols 2\ngfh 1 b\ngo 24 1 b\n")).unwrap();
    assert_eq!(Diff::between(&snapshot, &snapshot), Diff::default());
}

#[test]
fn a_new_soname_under_the_old_name_is_told() {
    let two = Two::new();
    two.library("a", "liba.so", "void a(void) {}\n", &["-Wl,-soname,liba.so.1"]);
    two.library("b", "liba.so", "void a(void) {}\n", &["-Wl,-soname,liba.so.2"]);
    let diff = two.diff();
    assert_eq!(diff.changed[0].facts[0].to, "liba.so.2");
    assert!(diff.keeps_all());
}

#[test]
fn folders_correspond_by_path_then_by_order() {
    let two = Two::new();
    for which in ["a", "b"] {
        two.library(which, "liba.so", "void a(void) {}\n", &[]);
    }
    two.0.library("usr/libc.so", "void c(void) {}\n", &[]);
    let first = two.0.take(&[("a", Some("/opt/acme-1")), ("usr", Some("/usr/lib"))]);
    let second = two.0.take(&[("usr", Some("/usr/lib")), ("b", Some("/opt/acme-2"))]);
    assert_eq!(Diff::between(&first, &second), Diff::default());
    let less = two.0.take(&[("usr", Some("/usr/lib"))]);
    assert_eq!(Diff::between(&first, &less).gone, ["/opt/acme-1/lib/liba.so"]);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(torchfl-snapshot 1\n)?([a-z]{1,7} [ -~]{0,20}\n){0,8}") {
        let _ = parse(&text);
    }

    /// Names of any characters come back.
    #[test]
    fn any_names_come_back(name in "[^\0/]{1,20}", soname in "[^\0]{0,20}", symbol in "[^\0]{1,20}") {
        let mut snapshot = parse(&format!("{HEAD}symbols 1\ngf 0 a\n")).unwrap();
        snapshot.title.clone_from(&name);
        let kept = &mut snapshot.libraries[0];
        let part = if name == "." || name == ".." { "x" } else { &name };
        kept.paths = vec![format!("/{part}")];
        let mut object = (*kept.object).clone();
        let mut exports: Vec<_> = object.symbols.exports().collect();
        exports[0].name.clone_from(&symbol);
        object.symbols = crate::symbols::Symbols::from_exports(&exports, &[], false);
        object.soname = Some(soname.clone());
        kept.object = Arc::new(object);
        let read = Snapshot::parse(&snapshot.write().unwrap(), "x").unwrap();
        prop_assert_eq!(&read.title, &name);
        prop_assert_eq!(&read.libraries[0].paths, &snapshot.libraries[0].paths);
        prop_assert_eq!(read.libraries[0].object.soname.as_ref(), Some(&soname));
        prop_assert_eq!(&read.libraries[0].object.symbols.exports().next().unwrap().name, &symbol);
    }
}
