//! `libtorch_fl`: the `flagos` device. Its tensors are device memory of the chip underneath, and the chip's own kernels
//! compute: C++ (`shim/`) shows them aliases, everything that can be decided is decided here.
//!
//! * [`route`]: which kernel each operator gets, by rules, files and variables;
//! * [`schema`]: what an operator does with its arguments;
//! * [`signatures`], [`autocast`]: what the headers of a torch say, read when this is built;
//! * [`runtime`]: what is reached by name in the vendor's libraries.
//!
//! With the feature `torch` this is a CPython extension, `libtorch_fl`: `edge` has its functions, `ffi` the boundary to
//! C++. Without it, plain Rust.

pub mod autocast;
pub mod route;
pub mod runtime;
pub mod schema;
pub mod signatures;

#[cfg(feature = "torch")]
mod edge;
#[cfg(feature = "torch")]
mod ffi;
#[cfg(feature = "torch")]
mod log;
#[cfg(feature = "torch")]
mod vendor;
