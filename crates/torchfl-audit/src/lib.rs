//! Judges a wheel, together with the torch that it meets and the system that it lands on, before it ships.
//!
//! * [`audit`] puts the files together as they will lie, carries out the import in the loader's model, and says what
//!   is wrong: [`Finding`]s of [`RULES`]. What nobody has looked at is an [`Assumption`].
//! * [`explain`] says why a library was found where it was, or a symbol bound to what it is.
//! * [`core_gap`] says what of a fork's core the stock core lacks.
//! * [`closure`] says who owns `triton/` in what an installer would bring beside a wheel.
//! * [`promised`] is what a platform tag promises of a system, and [`allows`] asks it.

mod build;
mod closure;
mod dist;
mod error;
mod finding;
mod gap;
mod import;
mod policy;
mod redirect;
mod report;
mod rules;
mod site;
mod system;
mod why;

pub use build::Opened;
pub use closure::{Claim, Closure, ClosureRequest, Resolution, Resolved, closure, file_path, resolved};
pub use dist::{Dist, Part, is_skeleton};
pub use error::Error;
pub use finding::{Finding, Rule, Severity};
pub use gap::{Gap, GapRequest, Missing, core_gap};
pub use import::Way;
pub use policy::{Newest, Promise, Verdict as Promised, allows, promised};
pub use redirect::{Judged, Order, Redirect};
pub use report::{Assumption, Mapped, Report, Verdict, audit, audit_dist, explain, prove};
pub use rules::{RULES, rule};
pub use site::Request;
pub use system::Word;
pub use why::{Found, Reference, Why};
