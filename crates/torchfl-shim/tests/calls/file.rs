//! What the file says of itself: to our reader, and to binutils'.

use std::collections::BTreeSet;
use std::process::Command;

use torchfl_elf::{Bind, Kind, facts, symbols};
use torchfl_shim::{Arch, Compiler, Error, Search, Spec, compile};

use crate::rig::{Rig, SONAME, forwarder, own, refuser, rigs};

fn readelf(rig: &Rig, options: &str, path: &std::path::Path) -> String {
    let output =
        Command::new("readelf").arg(options).arg("-W").arg(path).env("LC_ALL", "C").output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}: {output:?}", rig.arch);
    String::from_utf8(output.stdout).unwrap()
}

/// `name@@version` of all that is defined, as readelf shows them.
fn defined(text: &str) -> BTreeSet<String> {
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.len() >= 8 && row[4] == "GLOBAL" && row[6] != "UND")
        .map(|row| row[7].to_owned())
        .collect()
}

#[test]
fn a_forwarder_exports_its_functions_under_its_version_and_nothing_else() {
    for rig in rigs() {
        let spec = forwarder(rig.arch);
        let path = rig.shim(&spec, "shim");
        let wanted: BTreeSet<String> = spec
            .functions
            .iter()
            .chain(spec.returns.keys())
            .map(|name| format!("{name}@@{SONAME}"))
            .collect();
        assert_eq!(wanted.len(), 12);
        let exported: BTreeSet<String> = defined(&readelf(&rig, "--dyn-syms", &path))
            .into_iter()
            // The version itself is a symbol.
            .filter(|name| name != SONAME)
            .collect();
        assert_eq!(exported, wanted, "{}", rig.arch);

        let bytes = fs_err::read(&path).unwrap();
        let mut ours = BTreeSet::new();
        let exports = symbols(&bytes, "shim")
            .unwrap()
            .map(Result::unwrap)
            .filter(|s| s.defined && s.bind != Bind::Local);
        for symbol in exports.filter(|symbol| symbol.name != SONAME) {
            let version = symbol.version.unwrap();
            assert_eq!(
                (symbol.bind, symbol.kind, version.hidden),
                (Bind::Global, 2, false),
                "{}",
                symbol.name
            );
            ours.insert(format!("{}@@{}", symbol.name, version.name));
        }
        assert_eq!(ours, wanted, "{}", rig.arch);
    }
}

/// Linked on whatever machine, it loads with the first glibc of its architecture.
#[test]
fn nothing_is_asked_of_a_newer_glibc_than_the_first() {
    for rig in rigs() {
        let oldest = if rig.arch == Arch::X86_64 { "GLIBC_2.2.5" } else { "GLIBC_2.17" };
        for (spec, libraries) in [
            (forwarder(rig.arch), vec!["libdl.so.2", "libc.so.6"]),
            (refuser(rig.arch, &["gap"], &[("known", 0)]), vec!["libc.so.6"]),
        ] {
            let bytes = compile(&spec, &rig.compiler, rig.dir.path()).unwrap();
            let facts = facts(&bytes, "shim").unwrap();
            assert_eq!(facts.needed, libraries, "{}", rig.arch);
            let needs = facts.versions_needed.iter().flat_map(|need| &need.versions);
            assert_eq!(
                needs.map(|version| version.name.as_str()).collect::<BTreeSet<_>>(),
                BTreeSet::from([oldest])
            );
            // Nothing undefined comes without a version, and so without an owner.
            for symbol in
                symbols(&bytes, "shim").unwrap().map(Result::unwrap).filter(|symbol| !symbol.defined)
            {
                assert_eq!(symbol.version.unwrap().name, oldest, "{}", symbol.name);
            }
        }
    }
}

#[test]
fn the_file_is_hardened_and_tells_nothing_of_where_it_was_made() {
    for rig in rigs() {
        let search = Some(Search::Rpath("$ORIGIN:/opt/acme/lib".to_owned()));
        let path = rig.shim(&Spec { search, ..forwarder(rig.arch) }, "shim");
        let bytes = fs_err::read(&path).unwrap();
        let facts = facts(&bytes, "shim").unwrap();
        assert_eq!((facts.soname.as_deref(), facts.kind), (Some(SONAME), Kind::Library));
        assert_eq!((facts.executable_stack, facts.build_id.as_deref()), (Some(false), None));
        assert!(facts.bind_now() && !facts.text_relocations() && !facts.static_tls(), "{facts:?}");
        assert!(facts.segments.iter().any(|segment| segment.name == "PT_GNU_RELRO"), "{facts:?}");
        assert!(!facts.segments.iter().any(|segment| segment.writable && segment.executable), "{facts:?}");
        let path_of = facts.search_path.unwrap();
        assert_eq!(
            (path_of.tag.to_string(), path_of.value.as_str()),
            ("rpath".to_owned(), "$ORIGIN:/opt/acme/lib")
        );
        let sections = readelf(&rig, "-S", &path);
        for name in [".comment", ".note.gnu.build-id", ".symtab", ".debug"] {
            assert!(!sections.contains(name), "{sections}");
        }
        for words in [rig.dir.path().to_str().unwrap(), "shim.c", "GCC", "/usr/lib", "/tmp"] {
            let found = bytes.windows(words.len()).any(|window| window == words.as_bytes());
            assert!(!found, "{words} is in the file");
        }
    }
}

#[test]
fn two_folders_give_the_same_bytes_and_other_inputs_other_ones() {
    for rig in rigs() {
        let make = |spec: &Spec, folder: &str| {
            fs_err::create_dir_all(rig.path(folder)).unwrap();
            compile(spec, &rig.compiler, &rig.path(folder)).unwrap()
        };
        let spec = forwarder(rig.arch);
        let first = make(&spec, "a");
        assert_eq!(first, make(&spec, "another/deeper folder"), "{}", rig.arch);
        assert_eq!(fs_err::read_dir(rig.path("a")).unwrap().count(), 0, "the sources are gone");
        let mut other = spec.clone();
        other.returns.insert("acme_answered".to_owned(), 802);
        assert_ne!(first, make(&other, "a"), "{}", rig.arch);
    }
}

#[test]
fn a_library_of_no_functions_is_one_all_the_same() {
    for rig in rigs() {
        let spec = Spec {
            functions: BTreeSet::new(),
            returns: std::collections::BTreeMap::new(),
            ..forwarder(rig.arch)
        };
        let path = rig.shim(&spec, "shim");
        let bytes = fs_err::read(path).unwrap();
        assert_eq!(facts(&bytes, "shim").unwrap().versions_defined, [SONAME, SONAME]);
        rig.shim(&refuser(rig.arch, &[], &[]), "shim");
    }
}

#[test]
fn a_compiler_that_is_not_there_or_is_for_another_machine() {
    let ask = |program: &str, arch| Compiler::ask(std::path::Path::new(program), arch).unwrap_err();
    let error = ask("acme-cc", own());
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("E-SHM-004", "the C compiler acme-cc cannot be run")
    );
    assert!(error.hint().unwrap().contains("--cc"), "{error:?}");
    let other = if own() == Arch::X86_64 { Arch::Aarch64 } else { Arch::X86_64 };
    let error = ask("cc", other);
    assert_eq!(error.code(), "E-SHM-006");
    assert!(error.to_string().starts_with("cc compiles for "), "{error}");
    assert_eq!(ask("true", own()).code(), "E-SHM-005");
    assert_eq!("s390x".parse::<Arch>().unwrap_err().code(), "E-SHM-002");
}

#[test]
fn a_name_that_would_change_the_text_is_refused() {
    let refused = |spec: &Spec| match torchfl_shim::source(spec) {
        Err(Error::Name { what, name }) => format!("{what}: {name}"),
        other => panic!("{other:?}"),
    };
    for name in ["", "a b", "a\"b", "1a", "$a", "a\n", "write", "dlsym", "torchfl_shim_find", "ä"] {
        assert_eq!(refused(&refuser(own(), &[name], &[])), format!("a function: {name}"));
    }
    let spec = |change: fn(&mut Spec)| {
        let mut spec = forwarder(own());
        change(&mut spec);
        refused(&spec)
    };
    assert_eq!(spec(|spec| spec.soname = "a/b".to_owned()), "the SONAME: a/b");
    let forward = |to: &str, version: &str| torchfl_shim::Answer::Forward {
        to: to.to_owned(),
        version: version.to_owned(),
    };
    let mut one = forwarder(own());
    one.rest = forward("a\"b", "1");
    assert_eq!(refused(&one), "the target: a\"b");
    one.rest = forward("a", "1;");
    assert_eq!(refused(&one), "the version: 1;");
    one.rest = torchfl_shim::Answer::Refuse { why: "a\\".to_owned() };
    assert_eq!(refused(&one), "the refusal: a\\");
}
