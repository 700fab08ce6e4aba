//! What a manifest leaves unsaid: facts that a build can do without, and that somebody should find out.

use std::ops::Range;

use serde::Serialize;

use crate::model::Manifest;
use crate::names::Swap;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// A fact is missing; a build works without it.
    Note,
}

/// A fact that is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The key that would say it, `torch.markers`.
    pub key: String,
    /// Bytes of the text where it would stand: the nearest value there is.
    pub span: Range<usize>,
    /// What is not known, and what follows from that.
    pub message: String,
}

/// The facts that `manifest` leaves out, in the order of the reference. A finished manifest has none.
pub fn check(manifest: &Manifest) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut note = |key: &str, span: &Range<usize>, message: &str| {
        let (key, span, message) = (key.to_owned(), span.clone(), message.to_owned());
        findings.push(Finding { severity: Severity::Note, key, span, message });
    };
    let torch = &manifest.torch;
    if manifest.title.contains("TODO") {
        note(
            "title",
            &manifest.title.span,
            "the title is still to be written: so are, perhaps, other values",
        );
    }
    if torch.markers.is_empty() && *torch.swap != Swap::None {
        note(
            "torch.markers",
            &torch.swap.span,
            "no markers: the vendor's torch cannot be told from a stock one",
        );
    }
    if torch.rivals.is_empty() {
        note("torch.rivals", &torch.swap.span, "no rivals: another backend may claim PrivateUse1 first");
    }
    if manifest.target.glibc.is_none() {
        let span = &manifest.target.arch.span;
        note("target.glibc", span, "no ceiling: a build on a newer system makes a wheel for newer systems");
    }
    if manifest.sdk.as_ref().is_none_or(|sdk| sdk.version.is_none()) {
        note("sdk.version", &manifest.vendor.span, "no SDK version: wheels for two SDKs have one name");
    }
    if let Some(bundle) = &manifest.bundle {
        let span = &bundle.dir.span;
        if bundle.probe.is_none() {
            note("bundle.probe", span, "no probe: a folder without the vendor's libraries is found out late");
        }
        if bundle.required.is_empty() {
            note("bundle.required", span, "no library is required: a build from an empty folder would pass");
        }
        if bundle.preload.is_empty() {
            note(
                "bundle.preload",
                span,
                "no order of opening: the stock libraries are loaded, not the bundle's",
            );
        }
        if bundle.search_path.is_empty() {
            note("bundle.search-path", span, "no search path: the libraries do not find each other");
        }
    }
    if manifest.host.as_ref().is_none_or(|host| host.libraries.is_empty()) {
        let message = "no host libraries: each library that is neither bundled nor provided is an error";
        note("host.libraries", &manifest.status.span, message);
    }
    if manifest.host.as_ref().is_none_or(|host| host.devices.is_empty()) {
        note(
            "host.devices",
            &manifest.status.span,
            "no device nodes: a machine without the chip looks like any",
        );
    }
    for (index, provided) in manifest.provided.iter().enumerate() {
        if provided.dir.is_none() {
            let message = "no dir: the libraries are found only where the search path leads to them";
            note(&format!("provided[{index}].dir"), &provided.dist.span, message);
        }
    }
    findings
}
