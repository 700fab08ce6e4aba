//! Random graphs of libraries, by the machine's own loader and by the model.
//!
//! `GRAPHS` is the number of graphs, `FIRST` the seed of the first, and `GRAPH=SEED` runs one of them and shows it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers may fail the test")]
#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]

#[path = "../common/mod.rs"]
mod common;
mod graph;
mod random;
mod steps;
mod symbols;

use std::collections::BTreeMap;
use std::env::VarError;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use common::{Ended, Outcome};
use graph::Graph;

/// Disagreements that are shown in full.
const SHOWN: usize = 3;

fn number(name: &str) -> Option<u64> {
    match std::env::var(name) {
        Ok(value) => Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number"))),
        Err(VarError::NotPresent) => None,
        Err(error) => panic!("{name}: {error}"),
    }
}

#[derive(Default)]
struct Tally {
    started: u64,
    steps: u64,
    opened: u64,
    libraries: usize,
    bindings: usize,
    /// Libraries in all scopes.
    scopes: usize,
    /// Failures by kind.
    failures: BTreeMap<String, u64>,
}

impl Tally {
    fn add(&mut self, outcomes: &[Outcome]) {
        let ok = |outcome: &&Outcome| outcome.ended == Ended::Ok;
        self.started += u64::from(outcomes[0].ended == Ended::Ok);
        self.steps += outcomes.len() as u64 - 1;
        self.opened += outcomes[1..].iter().filter(ok).count() as u64;
        self.libraries += outcomes.last().map_or(0, |outcome| outcome.maps.len());
        for outcome in outcomes {
            let kind = match &outcome.ended {
                Ended::Ok => continue,
                Ended::Failed(message) => message.split_once(": ").map_or("", |(_, what)| what),
                Ended::Aborted => "the process was aborted",
                Ended::Nobody => "nobody to open it",
                Ended::Crashed => "the process crashed",
            };
            // Without the names in it.
            let words = kind.split(' ').filter(|word| !word.contains(['`', '/', '0', '9']));
            *self.failures.entry(words.collect::<Vec<_>>().join(" ")).or_default() += 1;
        }
        self.bindings += outcomes.iter().map(|outcome| outcome.bound.len()).sum::<usize>();
        let scopes = outcomes.iter().flat_map(|outcome| &outcome.scopes);
        self.scopes += scopes.map(|(_, scope)| scope.len()).sum::<usize>();
    }
}

#[test]
fn the_model_agrees_with_the_loader() {
    if let Some(seed) = number("GRAPH") {
        let graph = Graph::new(seed);
        let bench = graph.lay();
        if let Ok(keep) = std::env::var("KEEP") {
            std::process::Command::new("cp").arg("-a").arg(&bench.run.folder).arg(keep).status().unwrap();
        }
        println!("{graph}\n{}", common::explain(&bench.run));
        common::compare(&bench.run).unwrap_or_else(|difference| panic!("graph {seed}: {difference}"));
        return;
    }
    let (first, graphs) = (number("FIRST").unwrap_or(0), number("GRAPHS").unwrap_or(300));
    let (next, tally, disagreements) =
        (AtomicU64::new(0), Mutex::new(Tally::default()), Mutex::new(Vec::new()));
    let start = Instant::now();
    common::driver();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= graphs {
                        break;
                    }
                    let seed = first + at;
                    match common::compare(&Graph::new(seed).lay().run) {
                        Ok(outcomes) => tally.lock().unwrap().add(&outcomes),
                        Err(difference) => disagreements.lock().unwrap().push((seed, difference)),
                    }
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap();
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{graphs} graphs in {seconds:.1} s: {} started, {} of {} opens succeeded, {} libraries, {} bindings, \
         {} libraries in scopes",
        tally.started, tally.opened, tally.steps, tally.libraries, tally.bindings, tally.scopes
    );
    for (kind, count) in &tally.failures {
        println!("{count:6} {kind}");
    }
    let mut disagreements = disagreements.into_inner().unwrap();
    disagreements.sort();
    let mut seeds = String::new();
    for (at, (seed, difference)) in disagreements.iter().enumerate() {
        if at < SHOWN {
            println!("\n=== GRAPH={seed}\n{}\n{difference}", Graph::new(*seed));
        } else {
            println!("\n=== GRAPH={seed}\n{difference}");
        }
        let _ = write!(seeds, " {seed}");
    }
    assert!(disagreements.is_empty(), "{} of {graphs} disagree:{seeds}", disagreements.len());
    // A generator that makes nothing but failures would agree too.
    assert!(graphs < 100 || tally.opened * 3 > tally.steps && tally.bindings as u64 > graphs);
}

/// In a `DT_HASH` the reference of one library to a thread-local variable answers to a copy relocation of the program.
#[test]
fn a_thread_local_reference_answers_to_a_copy_relocation() {
    common::compare(&Graph::new(5_001_609).lay().run).unwrap_or_else(|difference| panic!("{difference}"));
}
