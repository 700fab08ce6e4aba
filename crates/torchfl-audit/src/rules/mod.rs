//! The rules: what each holds to be wrong, and where it is looked for.

pub(crate) mod elf;
pub(crate) mod load;
pub(crate) mod loaded;
mod table;
pub(crate) mod wheel;

pub(crate) use table::*;
pub use table::{RULES, rule};
