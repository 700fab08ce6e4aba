use std::fmt::Write as _;
use std::path::PathBuf;

use torchfl_audit::{Assumption, Finding, Redirect, Report, Request, Severity, Way, Word};
use torchfl_wheel::Options;

use crate::Outcome;
use crate::args::{Audit, Company};
use crate::report::Failure;
use crate::screen::Screen;

/// By default no more: each holds a library in memory, and beyond this the disk is the limit.
const THREADS: usize = 16;
/// Findings of one rule in one file that are shown: a library that was built against another torch has thousands.
const SHOWN: usize = 10;
/// Files of one rule that are shown.
const FILES: usize = 20;
/// Reasons against one way to redirect that are shown.
const REASONS: usize = 3;

pub(crate) fn run(args: Audit, screen: &Screen) -> Result<Outcome, Failure> {
    let request = Request {
        hashes: args.hashes,
        require_proof: args.require_proof,
        allow_unresolved: args.allow_unresolved,
        ..request(args.company)?
    };
    let spinner = screen.spinner("carrying out the import");
    let report = torchfl_audit::audit(&args.wheel, request);
    spinner.finish_and_clear();
    let report = report?;
    screen.data(&report, text)?;
    Ok(if report.count(Severity::Error) == 0 { Outcome::Done } else { Outcome::Findings })
}

/// What the audit is told of the wheel's company.
pub(crate) fn request(company: Company) -> Result<Request, Failure> {
    Ok(Request {
        torch: company.torch,
        with: company.with,
        sysroot: company.sysroot,
        scratch: scratch(),
        threads: threads(company.threads),
        drivers: drivers()?,
        ..Request::default()
    })
}

pub(crate) fn threads(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| Options::default().threads.min(THREADS)).max(1)
}

/// Where libraries of wheels are unpacked: nothing is written beside the user's files.
pub(crate) fn scratch() -> PathBuf {
    std::env::temp_dir()
}

/// No wheel may carry a driver, whoever's it is.
pub(crate) fn drivers() -> Result<Vec<String>, Failure> {
    let mut globs = Vec::new();
    for (name, _) in torchfl_manifest::embedded() {
        let host = torchfl_manifest::find(name)?.host;
        globs.extend(host.iter().flat_map(|host| &host.driver).map(ToString::to_string));
    }
    globs.sort();
    globs.dedup();
    Ok(globs)
}

/// A report for people.
fn text(report: &Report) -> String {
    let mut text = report.wheel.clone();
    if let Some(torch) = &report.torch {
        let _ = write!(text, " with {torch}");
    }
    let _ = writeln!(text, ": {}", verdict(report));
    if !report.skeletons.is_empty() {
        let _ = writeln!(
            text,
            "\nskeleton: generated for tests, and says nothing of the real thing: {}",
            report.skeletons.join(", ")
        );
    }
    for severity in [Severity::Error, Severity::Warning, Severity::Note] {
        findings(&report.findings, severity, &mut text);
    }
    assumed(&report.assumed, &mut text);
    if !report.allowed.is_empty() {
        let _ = writeln!(text, "\nunresolved by leave: {}", report.allowed.join(", "));
    }
    for (code, severity) in &report.severities {
        let severity = serde_json::to_value(severity).unwrap_or_default();
        let _ = writeln!(
            text,
            "\n{code} counts as {}: so the manifest says",
            severity.as_str().unwrap_or_default()
        );
    }
    if let Some(judged) = &report.redirect {
        redirect(judged, &mut text);
    }
    text
}

/// `loads`, `loads; 1 warning`, `3 errors, 1 warning`.
fn verdict(report: &Report) -> String {
    let counts = [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Note, "note")];
    let counts = counts.map(|(severity, word)| (report.count(severity), word));
    let told: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| number(*count, word)).collect();
    match (counts[0].0, told.is_empty()) {
        (0, true) => "loads".to_owned(),
        (0, false) => format!("loads; {}", told.join(", ")),
        _ => told.join(", "),
    }
}

/// `1 error`, `3 errors`.
pub(crate) fn number(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

/// The findings of one severity, those of one rule together, and in it those of one file.
pub(crate) fn findings(all: &[Finding], severity: Severity, text: &mut String) {
    let all: Vec<&Finding> = all.iter().filter(|finding| finding.severity == severity).collect();
    if all.is_empty() {
        return;
    }
    let heading = match severity {
        Severity::Error => "errors",
        Severity::Warning => "warnings",
        Severity::Note | Severity::Ignore => "notes",
    };
    let _ = writeln!(text, "\n{heading}:");
    for rule in all.chunk_by(|one, other| one.code == other.code) {
        let title = torchfl_audit::rule(rule[0].code).map_or("", |rule| rule.title);
        let _ = writeln!(text, "  {} {title}", rule[0].code);
        let files: Vec<&[&Finding]> = rule.chunk_by(|one, other| one.file == other.file).collect();
        for findings in files.iter().take(FILES) {
            file(findings, text);
        }
        if files.len() > FILES {
            let _ = writeln!(text, "    … and {} more files", files.len() - FILES);
        }
        let _ = writeln!(text, "    fix: {}", rule[0].fix);
    }
}

/// What one rule says of one file.
fn file(findings: &[&Finding], text: &mut String) {
    let _ = writeln!(text, "    {}", findings[0].file);
    for Finding { name, reason, .. } in findings.iter().take(SHOWN) {
        // Mangled names are long: once is enough.
        let name = if reason.contains(name) { String::new() } else { format!("{name}: ") };
        let _ = writeln!(text, "      {name}{reason}");
    }
    if findings.len() > SHOWN {
        let _ = writeln!(text, "      … and {} more", findings.len() - SHOWN);
    }
}

/// What nobody has looked at, by whose word it is taken on.
pub(crate) fn assumed(assumed: &[Assumption], text: &mut String) {
    let words = [
        (Word::Tag, "the platform tag's word"),
        (Word::Host, "the manifest's word, [host]"),
        (Word::Provided, "the manifest's word, [[provided]]"),
        (Word::Front, "the word of the torch that it is for"),
    ];
    let mut before = "\n";
    for (word, whose) in words {
        let taken = assumed.iter().filter(|assumption| assumption.word == word);
        let libraries: Vec<&str> = taken.map(|assumption| assumption.library.as_str()).collect();
        if !libraries.is_empty() {
            let _ = writeln!(text, "{before}on {whose}: {}", libraries.join(", "));
            before = "";
        }
    }
}

/// Each way, and the reasons against it.
pub(crate) fn redirect(judged: &Redirect, text: &mut String) {
    let _ = writeln!(text, "\nways to redirect (swap {}):", judged.swap);
    for way in &judged.ways {
        let name = match way.way {
            Way::Finder => "finder",
            Way::Facade => "facade",
            Way::Links => "links",
            Way::Plain => "plain",
        };
        if way.sound {
            let _ = writeln!(text, "  {name:<7} sound");
        } else {
            let shown = &way.reasons[..way.reasons.len().min(REASONS)];
            let more = way.reasons.len() - shown.len();
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            let _ = writeln!(text, "  {name:<7} not sound: {}{more}", shown.join("; "));
        }
    }
}
