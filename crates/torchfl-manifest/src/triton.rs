//! Rules on `[triton]` and `[flag-gems]`.

use crate::decode::{Complaint, Context};
use crate::lists::flag_gems_backends;
use crate::model::{FlagGems, Manifest, Triton};
use crate::names::Supplier;
use crate::problem::nearest;
use crate::rules::report;

/// The variable that tells `FlagGems` its backend.
const GEMS_VENDOR: &str = "GEMS_VENDOR";

pub(crate) fn check(manifest: &Manifest, context: &mut Context) {
    if let Some(triton) = &manifest.triton {
        owners(triton, context);
    }
    if let Some(gems) = manifest.flag_gems.as_ref().filter(|_| context.sound("flag-gems")) {
        backend(gems, context);
        let twice = manifest.env.iter().find(|(key, _)| key.as_str() == GEMS_VENDOR);
        if let Some((_, value)) = twice.filter(|(_, value)| value.as_str() != gems.vendor.as_str()) {
            let message = format!("{GEMS_VENDOR} is `{value}` here and `{}` in [flag-gems]", gems.vendor);
            report(context, &format!("env.{GEMS_VENDOR}"), "E-MAN-061", &value.span, message);
        }
    }
}

/// What is said of versions fits who supplies, and a pin is one that its owner is told by.
fn owners(triton: &Triton, context: &mut Context) {
    if let Some(version) = &triton.version
        && *triton.supplier != Supplier::Pypi
        && context.sound("triton.supplier")
    {
        let message = format!("the supplier is `{}`, and the wheel requires no triton", triton.supplier);
        report(context, "triton.version", "E-MAN-060", &version.span, message);
    }
    for (index, owner) in triton.owners.iter().enumerate() {
        let key = format!("triton.owners[{index}]");
        let (Some(local), Some(version)) = (&owner.local, &owner.version) else { continue };
        let own = version.split_once('+').map_or("", |(_, own)| own);
        if context.sound(&key) && !own.starts_with(local.as_str()) {
            let message = format!("the local version of `{version}` does not start with `{local}`");
            report(context, &format!("{key}.version"), "E-MAN-060", &version.span, message);
        }
    }
}

/// `FlagGems` passes over a name that it does not know, and guesses.
fn backend(gems: &FlagGems, context: &mut Context) {
    let known: Vec<&str> = flag_gems_backends().map(|(name, _)| name).collect();
    if !known.contains(&gems.vendor.as_str()) {
        let message =
            format!("{:?} is none of FlagGems' backends: {}", gems.vendor.as_str(), known.join(", "));
        let nearest = nearest(&gems.vendor, known);
        let complaint = Complaint { message, nearest };
        context.report_at("flag-gems.vendor".into(), "E-MAN-013", gems.vendor.span.clone(), complaint);
    }
}
