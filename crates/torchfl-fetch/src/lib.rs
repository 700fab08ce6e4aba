//! Gets the files that a build starts from: whole, and with the right sum, or not at all.
//!
//! [`fetch`] takes a [`Want`] and looks for it where [`Settings`] say: in the destination, in folders, on
//! HTTP mirrors, and for a package through pip. A file appears in the destination by a rename once its
//! SHA-256 sum is right; until then it has a hidden name that no later run takes for whole. What stands there
//! already is hashed again, and never written over.
//!
//! Nothing is printed, no environment variable is read, and no address is built in: the caller says all of
//! it.

pub use error::{Error, WrongSum};
pub use fetch::{Found, Settings, State, Tried, Whole, fetch};
pub use http::{Client, Network, Proxies};
pub use installer::Installer;
pub use mirror::{Address, Mirror};
pub use netrc::{Login, Netrc};
pub use progress::{Progress, Silent};
pub use want::{Want, What};

mod download;
mod error;
mod fetch;
mod folder;
mod http;
mod installer;
mod mirror;
mod netrc;
mod progress;
mod store;
mod want;
