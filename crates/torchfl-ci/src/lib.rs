//! What CI builds and tests, and where: vendor manifests in, a matrix or workflows out.
//!
//! [`matrix`] makes one [`Row`] of each manifest, interpreter and processor. A fact that no manifest states is left
//! out of the row and named in [`Row::open`]; nothing is made up for it. [`Service`] writes rows as one CI service
//! reads them: a matrix for a job of one's own, or a whole workflow, whose steps are the scripts of `ci/`.

pub use crate::matrix::{Input, Open, Row, Subject, Way, matrix};
pub use crate::service::{File, Service};

mod github;
mod gitlab;
mod jobs;
mod matrix;
mod service;
mod yaml;
