//! One file a command.

pub(crate) mod audit;
pub(crate) mod build;
pub(crate) mod ci;
pub(crate) mod closure;
pub(crate) mod core_gap;
pub(crate) mod fetch;
pub(crate) mod inspect;
pub(crate) mod patch;
pub(crate) mod shim;
pub(crate) mod site;
pub(crate) mod snapshot;
pub(crate) mod vendor;
pub(crate) mod why;
