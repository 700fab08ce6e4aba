//! Black-box tests of `torchfl`: whole runs, with exit code, stdout and stderr as one text.
//!
//! Where a torch is needed it is that of the sample vendor, generated once for all tests.

#![expect(clippy::panic, clippy::unwrap_used, reason = "the helpers of tests are tests")]

mod audit;
mod audit_faults;
mod build;
mod ci;
mod closure;
mod context;
mod core_gap;
mod disk;
mod extra;
mod fetch;
mod folder;
mod help;
mod inspect;
mod options;
mod patch;
mod plugin;
mod refusals;
mod reproducible;
mod runtime_only;
mod shim;
mod site;
mod skeleton;
mod snapshot;
mod special;
mod vendor;
mod why;
