//! The proof that a planned wheel will load, before it is written.

use std::sync::Arc;

use serde::Serialize;
use torchfl_audit::{Assumption, Dist, Finding, Opened, Part, Redirect, Severity, Word};
use torchfl_elf::Patched;
use torchfl_manifest::resolve::{Open, OpenFrom};

use crate::{Error, Plan, Request};

/// What was proved of a plan, and what was not.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Proof {
    /// Warnings and notes of the audit; an error refuses the build.
    pub findings: Vec<Finding>,
    /// What was taken on somebody's word.
    pub assumed: Vec<Assumption>,
    /// The ways to redirect torch, judged.
    pub redirect: Option<Redirect>,
}

/// Works out the order of opening, and has the wheel judged as it will be. `build.json` is told of both.
pub(crate) fn prove(plan: &mut Plan, request: &Request) -> Result<(), Error> {
    let audit = torchfl_audit::Request {
        torch: request.front.clone(),
        with: request.with.clone(),
        sysroot: request.sysroot.clone(),
        scratch: request.scratch.clone(),
        threads: request.threads,
        drivers: request.drivers.clone(),
        require_proof: request.require_proof,
        allow_unresolved: request.allow_unresolved.clone(),
        ..torchfl_audit::Request::default()
    };
    let (order, report) = torchfl_audit::prove(planned(plan)?, audit)?;
    if !order.as_given && order.stuck.is_empty() {
        plan.notes.push(reordered(&order));
        plan.build_json.open = order.open.iter().map(open).collect();
    }
    let (errors, findings): (Vec<_>, Vec<_>) =
        report.findings.into_iter().partition(|finding| finding.severity == Severity::Error);
    if !errors.is_empty() {
        return Err(Error::Unsound { wheel: plan.wheel.clone(), findings: errors });
    }
    for finding in findings.iter().filter(|finding| finding.severity == Severity::Warning) {
        let Finding { code, file, name, reason, .. } = finding;
        let name = if reason.contains(name) { String::new() } else { format!("{name}: ") };
        plan.notes.push(format!("{code}: {file}: {name}{reason}"));
    }
    let unused = request.allow_unresolved.iter().filter(|name| !report.allowed.contains(name));
    plan.notes
        .extend(unused.map(|name| format!("--allow-unresolved {name}: nothing of that name is unresolved")));
    plan.build_json.allow_unresolved = report.allowed;
    plan.build_json.assumed = report.assumed.iter().map(word).collect();
    plan.proof = Proof { findings, assumed: report.assumed, redirect: report.redirect };
    Ok(())
}

/// The wheel as it will be, its libraries with their edits applied.
fn planned(plan: &Plan) -> Result<Dist, Error> {
    let part = |path: String, bytes: Vec<u8>| Part { path, bytes: Arc::new(bytes) };
    let info = plan.parts.name.dist_info();
    let mut parts = vec![part("torch_fl/build.json".to_owned(), plan.build_json.render()?)];
    let bundle = &plan.build_json.bundle;
    let libraries =
        plan.libraries.iter().map(|library| (format!("torch_fl/{bundle}/{}", library.name), library));
    let plugin = plan.parts.plugin.iter().map(|library| (format!("torch_fl/lib/{}", library.name), library));
    for (path, library) in libraries.chain(plugin) {
        let content = &library.content;
        let bytes = Arc::new(Patched::new(content.file.clone(), (*content.patch).clone()));
        parts.push(Part { path, bytes });
    }
    // Of these it counts that they are there.
    parts.extend(plan.licences.iter().map(|to| part(format!("{info}/licenses/{to}"), Vec::new())));
    Ok(Dist::planned(plan.parts.name.clone(), plan.metadata(), parts))
}

fn open(opened: &Opened) -> Open {
    Open {
        name: opened.name.clone(),
        from: if opened.from == "front" { OpenFrom::Front } else { OpenFrom::Bundle },
        shared: opened.shared,
        global: opened.global,
    }
}

fn reordered(order: &torchfl_audit::Order) -> String {
    let names: Vec<&str> = order.open.iter().map(|open| open.name.as_str()).collect();
    let along = order.comes_along.iter().map(|(library, by)| format!("; {library} comes in with {by}"));
    let along: String = along.collect();
    format!("the manifest's order of opening is not sound, this one is: {}{along}", names.join(", "))
}

fn word(assumption: &Assumption) -> String {
    let word = match assumption.word {
        Word::Tag => "tag",
        Word::Host => "host",
        Word::Provided => "provided",
        Word::Front => "front",
        Word::Leave => "leave",
    };
    format!("{word}: {}", assumption.library)
}
