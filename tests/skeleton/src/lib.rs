//! Skeleton vendors: from a vendor's manifest, miniature wheels and an SDK root whose libraries have the names,
//! the links, the search paths and the symbol versions of the real ones, and nothing else of them.
//!
//! [`Skeleton::generate`] compiles small C templates, so it needs `cc` and a Python with its C headers,
//! and takes seconds. The same manifest, interpreter and compiler give the same bytes, whatever the folder.
//!
//! Every library answers `torch_build()`, called on a handle of it, with the build that it belongs to: `stock`
//! or the vendor. `torch._C._builds()` tells which copies of the core a process has bound,
//! `torch._C._dispatch_has_kernel_for_dispatch_key` whether the device's kernels are registered, and
//! `torch._C._init_device` fails where the device library came after torch's own initialisation.
//!
//! The local version of every wheel ends in `skeleton`, as in `torch-<release>+<vendor><sdk>.skeleton`: nobody is to
//! take it for the real one.

mod compile;
mod error;
mod generate;
mod pack;
mod python;
mod recipe;
mod template;
mod torch;

pub use error::Error;
pub use generate::{Generated, Skeleton};
pub use python::Target;
