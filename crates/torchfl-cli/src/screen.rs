//! The one place that writes to stdout and stderr. Data goes to stdout; messages and progress, for people, to stderr.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::report::Failure;

pub(crate) struct Screen {
    pub json: bool,
    quiet: bool,
}

impl Screen {
    pub(crate) fn new(json: bool, quiet: bool) -> Self {
        Self { json, quiet }
    }

    /// Data: as JSON where asked for, else as `text` says it.
    pub(crate) fn data<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        let text = if self.json { serde_json::to_string_pretty(value)? } else { text(value) };
        match writeln!(io::stdout().lock(), "{}", text.trim_end_matches('\n')) {
            // `torchfl … | head` is no failure.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => Ok(other?),
        }
    }

    /// A line for people.
    pub(crate) fn note(&self, text: impl fmt::Display) {
        if !self.quiet {
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }

    /// Something that people should look at.
    pub(crate) fn warn(&self, text: impl fmt::Display) {
        self.note(format_args!("warning: {text}"));
    }

    pub(crate) fn failure(&self, failure: &Failure) {
        if self.json {
            let _ = writeln!(io::stdout().lock(), "{:#}", failure.json());
        }
        let _ = write!(io::stderr().lock(), "{}", failure.render());
    }

    /// A bar over `bytes`; silent when stderr is not a terminal.
    pub(crate) fn bytes(&self, what: &'static str, bytes: u64) -> ProgressBar {
        let target = if self.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(bytes), target).with_message(what);
        if let Ok(style) =
            ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}")
        {
            bar.set_style(style);
        }
        bar
    }

    /// A bar over a file that comes; a sign of life where its size is not known. Silent when stderr is no terminal.
    pub(crate) fn transfer(&self, name: &str, total: Option<u64>) -> ProgressBar {
        if total.is_some() {
            let bar = self.bytes("", total.unwrap_or_default());
            bar.set_message(name.to_owned());
            return bar;
        }
        let bar = self.spinner("");
        bar.set_message(name.to_owned());
        bar
    }

    /// A sign of life for work of unknown length.
    pub(crate) fn spinner(&self, what: &'static str) -> ProgressBar {
        let target = if self.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target).with_message(what);
        bar.enable_steady_tick(Duration::from_millis(120));
        bar
    }
}

/// `526.6 MB`.
pub(crate) fn megabytes(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let bytes = bytes as f64;
    if bytes < 1e6 { format!("{:.1} kB", bytes / 1e3) } else { format!("{:.1} MB", bytes / 1e6) }
}
