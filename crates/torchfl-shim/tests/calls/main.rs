//! A program that was linked against the real names runs through the shim onto another library.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests")]

mod file;
mod forward;
mod refuse;
mod rig;
mod source;
