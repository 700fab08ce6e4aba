//! The Python package that travels in every wheel, and what the wheel says of itself.

/// The files of `wheels/torch_fl/`, by their path in the package.
pub(crate) const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/package.rs"));

/// The `.pth` file of `torchfl activate`.
pub const ACTIVATE: &str = include_str!("../../../wheels/torch_fl/activate.pth");

/// Our own licence.
pub(crate) const LICENSE: &str = include_str!("../../../LICENSE");

/// The wheel's description on an index.
pub(crate) const README: &str = include_str!("../../../wheels/README.md");

/// The version of the compiler that built this tool.
pub(crate) const RUSTC: &str = env!("TORCHFL_RUSTC");
