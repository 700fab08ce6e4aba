//! The CI services that rows are written for.

use serde_json::Value;

use crate::matrix::Row;
use crate::{github, gitlab};

/// A CI service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// GitHub Actions.
    Github,
    /// GitLab CI.
    Gitlab,
}

/// A file of a workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name.
    pub name: &'static str,
    /// Its text.
    pub text: String,
}

impl Service {
    /// As the command line and the folders of `ci/` name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Github => "github",
            Self::Gitlab => "gitlab",
        }
    }

    /// Rows as the matrix of one job. Those without a runner are left out: such a job would wait for ever.
    ///
    /// For GitHub it is what `strategy.matrix` takes through `fromJSON`, for GitLab what `parallel:matrix` takes: one
    /// object a row, all its values texts.
    pub fn matrix(self, rows: &[Row]) -> Value {
        let runnable = rows.iter().filter(|row| !row.runner.is_empty());
        match self {
            Self::Github => github::matrix(runnable),
            Self::Gitlab => gitlab::matrix(runnable),
        }
    }

    /// A whole workflow, whose steps are the scripts of `ci/`.
    pub fn workflow(self, rows: &[Row]) -> Vec<File> {
        let text = match self {
            Self::Github => github::workflow(rows),
            Self::Gitlab => gitlab::workflow(rows),
        };
        vec![File { name: "wheels.yml", text }]
    }
}
