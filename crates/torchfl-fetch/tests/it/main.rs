//! Files from a server on loopback, from folders, and through pip: whole and right, or not at all.

#![expect(clippy::unwrap_used, clippy::panic, reason = "the helpers of tests are tests")]

mod context;
mod folders;
mod logins;
mod packages;
mod resume;
#[path = "../common/server.rs"]
mod server;
mod sums;
mod tls;
mod transient;
