//! Small graphs on which the model once differed from ld.so.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers may fail the test")]
#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]

mod common;

use common::bench::Bench;
use common::elf::{Bind, Definition, How, Kind, Reference, Spec, Visibility, What};

const DF_1_NOOPEN: u64 = 0x40;

fn needing(name: &str, needed: &[&str]) -> Spec {
    let needed = needed.iter().map(|name| (*name).to_owned()).collect();
    Spec { needed, runpath: Some("$ORIGIN".to_owned()), ..Spec::library(name) }
}

fn defining(what: What, name: &str, size: u64) -> Definition {
    let (bind, visibility) = (Bind::Global, Visibility::Default);
    Definition { name: name.to_owned(), what, bind, visibility, size, version: None }
}

fn wanting(how: How, name: &str) -> Reference {
    Reference { name: name.to_owned(), how, weak: false, version: None, size: 0 }
}

/// A bench with a program that needs nothing.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.spec("program", &Spec { kind: Kind::Pie, ..Spec::library("") });
    bench
}

/// A library with `size` bytes of its own in the static TLS block.
fn threads(name: &str, size: u64, align: u64) -> Spec {
    Spec { own_tls: size, own_tls_initial: true, tls_align: align, ..Spec::library(name) }
}

#[test]
fn in_a_cycle_the_opened_library_is_relocated_last() {
    let mut bench = bench();
    let mut first = needing("liba.so", &["libb.so"]);
    first.references.push(wanting(How::Got, "gone_from_a"));
    let mut second = needing("libb.so", &["liba.so"]);
    second.references.push(wanting(How::Got, "gone_from_b"));
    bench.spec("liba.so", &first);
    bench.spec("libb.so", &second);
    bench.open("~/liba.so");
    bench.last().fails("libb.so: undefined symbol: gone_from_b");
}

#[test]
fn the_program_is_not_known_by_its_file() {
    for (kind, message) in [
        (Kind::Pie, "program: cannot dynamically load position-independent executable"),
        (Kind::Fixed, "program: cannot dynamically load executable"),
    ] {
        let mut bench = Bench::new();
        bench.spec("program", &Spec { kind, ..Spec::default() });
        bench.open("~/program");
        bench.last().fails(message);
    }
}

#[test]
fn a_program_that_is_not_marked_as_one_loads_a_second_time() {
    let mut bench = Bench::new();
    bench.spec("program", &Spec { kind: Kind::Pie, unmarked: true, ..Spec::default() });
    bench.open("~/program");
    bench.last().maps(&["program"]);
}

#[test]
fn nodlopen_counts_for_dlopen_alone_and_is_told_by_the_name_asked_for() {
    let mut bench = Bench::new();
    let program = Spec { kind: Kind::Pie, needed: vec!["libn.so".to_owned()], ..needing("", &["libn.so"]) };
    bench.spec("program", &Spec { soname: None, ..program });
    bench.spec("libn.so", &Spec { flags_1: DF_1_NOOPEN, ..Spec::library("libn.so") });
    bench.spec("libm.so", &Spec { flags_1: DF_1_NOOPEN, ..Spec::library("libm.so") });
    bench.spec("libuser.so", &needing("libuser.so", &["libm.so"]));
    bench.open("~/libuser.so");
    let all = bench.agreed();
    all[0].maps(&["libn.so"]);
    all[1].fails("libm.so: shared object cannot be dlopen()ed");
}

#[test]
fn headers_are_judged_before_tables() {
    let good = Spec::library("libb.so").write("libb.so");
    for (at, value, message) in [
        // Cut off behind the header, too: nothing else of the file makes sense.
        (4, 1, None),
        (18, 183, None),
        (5, 2, Some("bad/libb.so: ELF file data encoding not little-endian")),
        (6, 9, Some("bad/libb.so: ELF file version ident does not match current one")),
        (7, 99, Some("bad/libb.so: ELF file OS ABI invalid")),
        (16, 1, Some("bad/libb.so: only ET_DYN and ET_EXEC can be loaded")),
    ] {
        let mut bench = bench();
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes[64..].fill(0xff);
        fs_err::write(bench.path("bad/libb.so"), bytes).unwrap();
        bench.spec("good/libb.so", &Spec::library("libb.so"));
        let user =
            Spec { runpath: Some("$ORIGIN/bad:$ORIGIN/good".to_owned()), ..needing("liba.so", &["libb.so"]) };
        bench.spec("liba.so", &user);
        bench.open("~/liba.so");
        match message {
            Some(message) => bench.last().fails(message),
            None => drop(bench.last().maps(&["liba.so", "good/libb.so"])),
        }
    }
}

#[test]
fn a_link_to_itself_ends_one_search_path_and_not_the_search() {
    let mut bench = bench();
    bench.link("loop/libb.so", "libb.so");
    bench.spec("good/libb.so", &Spec::library("libb.so"));
    bench.spec(
        "liba.so",
        &Spec { runpath: Some("$ORIGIN/good".to_owned()), ..needing("liba.so", &["libb.so"]) },
    );
    let folder = |name: &str| bench.path(name).parent().unwrap().to_str().unwrap().to_owned();
    let (bad, good) = (folder("loop/x"), folder("good/x"));
    bench.run.library_path = format!("{bad}:{good}");
    bench.open("~/liba.so");
    // Found by DT_RUNPATH, in the same folder that LD_LIBRARY_PATH has behind the link.
    bench.last().maps(&["liba.so", "good/libb.so"]);
    bench.spec("liba.so", &Spec { runpath: None, ..needing("liba.so", &["libb.so"]) });
    bench.last().fails("libb.so: cannot open shared object file");
}

#[test]
fn static_tls_is_told_of_the_library_whose_variables_have_no_room() {
    let mut bench = bench();
    let mut owner = Spec::library("libowner.so");
    owner.definitions.push(defining(What::Tls, "t", 4000));
    bench.spec("libowner.so", &owner);
    let mut user = needing("libuser.so", &["libowner.so"]);
    user.references.push(wanting(How::Initial, "t"));
    bench.spec("libuser.so", &user);
    bench.open("~/libuser.so");
    bench.last().fails("libowner.so: cannot allocate memory in static TLS block");
}

#[test]
fn a_hidden_variable_takes_room_in_the_static_block() {
    let mut bench = bench();
    let mut library = Spec::library("liba.so");
    let hidden = Definition { visibility: Visibility::Hidden, ..defining(What::Tls, "t", 4000) };
    library.definitions.push(hidden);
    library.references.push(wanting(How::Initial, "t"));
    bench.spec("liba.so", &library);
    bench.open("~/liba.so");
    bench.last().fails("liba.so: cannot allocate memory in static TLS block");
}

#[test]
fn room_in_the_static_block_is_counted_to_the_byte() {
    let room = |before: &[(u64, u64)], size: u64, align: u64| {
        let mut bench = bench();
        for (at, (size, align)) in before.iter().chain(&[(size, align)]).enumerate() {
            let name = format!("lib{at}.so");
            bench.spec(&name, &threads(&name, *size, *align));
            bench.open(&format!("~/{name}"));
        }
        bench.last().is_ok()
    };
    for (before, align) in [(&[][..], 8), (&[], 64), (&[(1, 64), (1, 64)], 1), (&[(1, 8), (500, 32)], 4)] {
        let used: u64 = before.iter().map(|(size, _)| size).sum();
        // Where exactly depends on the variables of the C library; that it ends is known.
        let sizes = (1440 - used..1760 - used).step_by(16);
        let fit: Vec<_> = sizes.map(|size| room(before, size, align)).collect();
        assert!(
            fit[0] && fit.is_sorted_by(|first, second| first >= second) && !fit[fit.len() - 1],
            "{fit:?}"
        );
    }
    assert!(!room(&[], 8, 128), "more aligned than the block");
}

#[test]
fn descriptors_take_room_to_spare_and_no_more() {
    let mut bench = bench();
    for name in ["lib0.so", "lib1.so", "lib2.so"] {
        let mut library = Spec::library(name);
        library.definitions.push(defining(What::Tls, name, 400));
        library.references.push(wanting(How::Descriptor, name));
        bench.spec(name, &library);
        bench.open(&format!("~/{name}"));
    }
    // The first is in the block; the others exceed the 512 bytes that descriptors may take, and do without.
    bench.spec("lib3.so", &threads("lib3.so", 1200, 8));
    bench.spec("lib4.so", &threads("lib4.so", 200, 8));
    bench.open("~/lib3.so");
    bench.open("~/lib4.so");
    let all = bench.agreed();
    all[4].maps(&["lib0.so", "lib1.so", "lib2.so", "lib3.so"]);
    all[5].fails("lib4.so: cannot allocate memory in static TLS block");
}
