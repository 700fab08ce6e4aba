//! What a manifest leaves unsaid: facts that a build can do without, and that somebody should find out.

use std::ops::Range;

use serde::Serialize;

use crate::input;
use crate::model::{Manifest, Symbols, Triton};
use crate::names::{ShimKind, Supplier, Swap};
use crate::spanned::Spanned;

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
    torch(manifest, &mut note);
    bundle(manifest, &mut note);
    machine(manifest, &mut note);
    if manifest.comm.is_none() {
        note("comm", &manifest.status.span, "no collective library: devices cannot be told how to talk");
    }
    if let Some(triton) = &manifest.triton {
        compiler(triton, &mut note);
    }
    input::note(manifest, &mut note);
    findings
}

/// Takes a key, the place where it would stand, and what is not known.
pub(crate) type Note<'a> = dyn FnMut(&str, &Range<usize>, &str) + 'a;

fn torch(manifest: &Manifest, note: &mut Note<'_>) {
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
    if manifest.sdk.as_ref().is_none_or(|sdk| sdk.roots.is_empty()) {
        note(
            "sdk.roots",
            &manifest.vendor.span,
            "no place of the SDK: only what the loader searches is found",
        );
    }
}

fn bundle(manifest: &Manifest, note: &mut Note<'_>) {
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
        if bundle.kernels.is_none() {
            note("bundle.kernels", span, "no dispatch key: a bundle without kernels passes the audit");
        }
    }
    for (index, shim) in manifest.shim.iter().enumerate() {
        let computed = shim.symbols.value == Symbols::Computed;
        if computed {
            let message = "the symbols are not listed: one more in a later bundle goes unnoticed";
            note(&format!("shim[{index}].symbols"), &shim.symbols.span, message);
        }
        // A forwarder with a list is taken at its word: there is a library that may have them all.
        if shim.stub.is_empty() && (computed || *shim.kind == ShimKind::CoreGap) {
            let message = "no stubs: a call of what nobody else defines ends the process";
            note(&format!("shim[{index}].stub"), &shim.soname.span, message);
        }
    }
}

fn machine(manifest: &Manifest, note: &mut Note<'_>) {
    if manifest.host.as_ref().is_none_or(|host| host.driver.is_empty() && host.libraries.is_empty()) {
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
}

fn compiler(triton: &Triton, note: &mut Note<'_>) {
    let supplier: &Spanned<Supplier> = &triton.supplier;
    if triton.owners.is_empty() && **supplier == Supplier::Vendor {
        note("triton.owners", &supplier.span, "no owners: the vendor's Triton cannot be told from another");
    }
    match &triton.target {
        None if **supplier != Supplier::None => {
            note("triton.target", &supplier.span, "no target: Triton is not told what to compile for");
        }
        Some(target) if target.warp_size.is_none() => {
            let message = "no warp size: it must be asked of the driver";
            note("triton.target.warp-size", &target.backend.span, message);
        }
        _ => {}
    }
}
