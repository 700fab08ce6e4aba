//! The loader's rules by name, each on libraries that the compiler made, as ld.so and as the model have it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers may fail the test")]
#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]

#[path = "../common/mod.rs"]
mod common;
mod scope;
mod search;
mod threads;
mod versions;

use common::elf::{Bind, Definition, How, Reference, Visibility, What};

/// A function `name`, which calls those named behind it.
fn source(name: &str, calls: &[&str]) -> String {
    let join = |before: &str, after: &str| {
        calls.iter().map(|call| [before, call, after].concat()).collect::<String>()
    };
    let (declared, called) = (join("int ", "(void); "), join(" + ", "()"));
    format!("{declared}int {name}(void) {{ return 1{called}; }}")
}

fn function(name: &str) -> Definition {
    let (what, bind, visibility) = (What::Function, Bind::Global, Visibility::Default);
    Definition { name: name.to_owned(), what, bind, visibility, size: 1, version: None }
}

fn reference(name: &str) -> Reference {
    Reference { name: name.to_owned(), how: How::Got, weak: false, version: None, size: 0 }
}
