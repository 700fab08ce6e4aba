//! A vendor manifest, the vendor's torch and the plugin become one self-contained wheel.
//!
//! [`plan`] decides everything, proves that the wheel will load, and writes nothing; [`Plan::write`] carries out exactly that value, into any
//! [`torchfl_wheel::Writer`]. So `--dry-run` shows what a build does.

mod build_json;
mod constraints;
mod error;
mod libraries;
mod licences;
mod overlay;
mod package;
mod plan;
mod plugin;
mod prove;
mod requires;
mod shim;
mod skeleton;
mod start;
mod steps;
mod tag;
mod tree;
mod version;
mod write;

pub use build_json::{
    Audit, BuildJson, File, FlagGems, Input, Owner, Platform, Plugin, Provided, SCHEMA, Target, Torch, Triton,
};
pub use constraints::constraints;
pub use error::Error;
pub use libraries::{GENERATED, Library};
pub use package::ACTIVATE;
pub use plan::{Plan, Request, plan};
pub use plugin::{BuiltFor, PluginSource};
pub use prove::Proof;
pub use shim::{Generated, Shim, shims};
pub use tree::Tree;
pub use version::VersionPy;
pub use write::Summary;
