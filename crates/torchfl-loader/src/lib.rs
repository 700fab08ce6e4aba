//! A model of glibc's dynamic loader: which file each name leads to, what each symbol is bound to, and why.
//!
//! * [`Files`] is the tree of files that a process would see: real folders, wheels, snapshots, links.
//! * [`Object`] is what the loader looks at in one of them.
//! * [`Process`] does what the loader does at a program's start ([`Process::start`]) and in `dlopen`
//!   ([`Process::open`]): search, scopes, versions, binding. A [`Failure`] is what it would stop at.
//!
//! Nothing is executed. The rules are glibc's (`elf/dl-load.c`, `dl-deps.c`, `dl-open.c`, `dl-version.c`,
//! `dl-lookup.c`, `dl-reloc.c`, of 2.36); `tests/agreement` compares them with the real loader on random graphs.
//! What is not modelled: `LD_AUDIT`, `dlmopen`, filters (`DT_FILTER`, `DT_AUXILIARY`), set-user-id programs, and what
//! an IFUNC resolver or a constructor does when it runs.

mod cache;
mod error;
mod failure;
mod files;
mod object;
mod process;
mod relocate;
mod search;
mod settings;
mod snapshot;
mod symbols;
mod tls;

pub use cache::{Abi, Cache, Tree, TreeEntry, TreeLibrary};
pub use error::Error;
pub use failure::Failure;
pub use files::{Entry, FileEntry, FileId, Files};
pub use object::{BadFile, Cover, Flags, Known, Object};
pub use process::{Binding, Map, MapId, Open, Process};
pub use search::{Outcome, Step, Why};
pub use settings::{Given, Settings};
pub use snapshot::{Change, Diff, Difference, Kept, Root, Skipped, Snapshot};
pub use symbols::{Export, Reference, Symbols, Wanted, hash};
