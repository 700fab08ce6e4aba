//! Judges a wheel, together with the torch that it meets and the system that it lands on, before it ships.
//!
//! * [`promised`] is what the wheel's platform tag promises of that system, and [`allows`] asks it.

mod policy;

pub use policy::{Newest, Promise, Verdict, allows, promised};
