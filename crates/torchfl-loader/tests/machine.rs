//! Programs of this machine, as ld.so starts them and as the model does: real libraries, with all that is in them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers may fail the test")]
#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]

mod common;

use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Those of them that are there; the compiler's are, for the other tests.
const PROGRAMS: [&str; 7] = [
    "/usr/bin/as",
    "/usr/bin/ld",
    "/usr/bin/cc",
    "/usr/bin/bash",
    "/usr/bin/git",
    "/usr/bin/perl",
    "/usr/bin/python3",
];

#[test]
fn every_reference_of_real_programs_is_bound_as_the_loader_does() {
    let mut all = 0;
    for program in PROGRAMS {
        if !Path::new(program).exists() {
            eprintln!("not run: {program} is not there");
            continue;
        }
        let real = common::started(program, "--version");
        let (maps, ours) = common::start(program);
        let key = |bound: &common::Bound| (bound.from.clone(), bound.symbol.clone(), bound.version.clone());
        let mut theirs: HashMap<_, HashSet<String>> = HashMap::new();
        for bound in &real {
            theirs.entry(key(bound)).or_default().insert(bound.to.clone());
        }
        for bound in &ours {
            let to = theirs.get(&key(bound));
            assert!(to.is_some_and(|to| to.contains(&bound.to)), "{program}: {bound:?}, and not to {to:?}");
        }
        // The rest is what the program and the loader look up by themselves.
        let known: HashSet<_> = ours.iter().map(key).collect();
        let more: Vec<_> =
            real.iter().filter(|one| maps.contains(&one.from) && !known.contains(&key(one))).collect();
        assert!(more.len() <= 10, "{program}: {more:#?}");
        println!("{program}: {} libraries, {} bindings, {} by name", maps.len(), ours.len(), more.len());
        all += ours.len();
    }
    assert!(all > 1000, "{all}");
}
