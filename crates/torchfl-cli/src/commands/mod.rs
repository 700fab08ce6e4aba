//! One file a command.

pub(crate) mod build;
pub(crate) mod inspect;
pub(crate) mod patch;
pub(crate) mod site;
pub(crate) mod vendor;
