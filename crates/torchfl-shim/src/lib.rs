//! Small libraries, generated: each of their functions goes on to another library, answers by itself, or refuses.
//!
//! * [`Spec`] says what such a library is: its SONAME, its functions, and what becomes of a call.
//! * [`source`] is the text that it is compiled from, C with a few lines of assembly a function.
//! * [`compile`] makes the library. The same spec and compiler give the same bytes, in every folder.
//!
//! No header, start file or library of the machine takes part: the library is linked against stand-ins of glibc that
//! define the few symbols it needs, in the oldest version that glibc has of them. So it loads wherever the machine's
//! first glibc does, however new the one is that it was compiled beside.

mod arch;
mod compile;
mod error;
mod source;
mod spec;

pub use arch::Arch;
pub use compile::{Compiler, compile};
pub use error::Error;
pub use source::{Source, source};
pub use spec::{Answer, Search, Spec};
