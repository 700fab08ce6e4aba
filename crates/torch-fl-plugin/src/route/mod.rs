//! Which kernel each operator gets, and why.
//!
//! [`Rules`] are what people write (files, `FLAGOS_OP_<name>`), read with their places; [`Table`] is what there is in
//! the dispatcher; [`decide`](Table::decide) brings them together, or says everything that is wrong.

mod decide;
mod error;
mod parse;
mod table;

pub use decide::{Decision, Way};
pub use error::Error;
pub use parse::{Backend, Place, Rule, Rules};
pub use table::{Entry, Facts, Table};

#[cfg(test)]
mod tests;
