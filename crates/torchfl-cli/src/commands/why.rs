use std::fmt::Write as _;

use torchfl_audit::{Found, Reference, Why};
use torchfl_loader::{Failure as Stop, Outcome as Seen, Step, Why as Reason};

use crate::Outcome;
use crate::args;
use crate::commands::audit::request;
use crate::report::Failure;
use crate::screen::Screen;

pub(crate) fn run(args: args::Why, screen: &Screen) -> Result<Outcome, Failure> {
    let request = request(args.company)?;
    let spinner = screen.spinner("carrying out the import");
    let why = torchfl_audit::explain(&args.wheel, request, &args.name);
    spinner.finish_and_clear();
    screen.data(&why?, |why| match why {
        Why::Library { found, missing } => library(found, missing),
        Why::Symbol { defined_by, references } => symbol(&args.name, defined_by, references),
    })?;
    Ok(Outcome::Done)
}

fn library(found: &[Found], missing: &[Stop]) -> String {
    let mut text = String::new();
    for found in found {
        let scope = if found.global { "global" } else { "local" };
        let _ = writeln!(text, "{}\n  asked for by {}; {scope} scope", found.file, found.by);
        steps(&found.steps, &mut text);
    }
    for stop in missing {
        if let Stop::NotFound { name, by, searched } | Stop::WrongClass { name, by, searched, .. } = stop {
            let by = by.as_deref().unwrap_or("whoever opens it");
            let _ = writeln!(text, "{name}: not found\n  asked for by {by}");
            steps(searched, &mut text);
        }
    }
    text
}

/// The search, in its order.
fn steps(steps: &[Step], text: &mut String) {
    for (index, step) in steps.iter().enumerate() {
        let _ =
            writeln!(text, "  {}. {} ({}): {}", index + 1, step.path, reason(&step.why), seen(&step.outcome));
    }
}

fn reason(why: &Reason) -> String {
    match why {
        Reason::Rpath(of) => format!("DT_RPATH of {of}"),
        Reason::Runpath(of) => format!("DT_RUNPATH of {of}"),
        Reason::LibraryPath => "LD_LIBRARY_PATH".to_owned(),
        Reason::Cache => "ld.so.cache".to_owned(),
        Reason::Default => "default folder".to_owned(),
        Reason::Path => "opened by path".to_owned(),
        Reason::Program => "the program".to_owned(),
        Reason::Given => "the target machine".to_owned(),
    }
}

fn seen(outcome: &Seen) -> &'static str {
    match outcome {
        Seen::Absent => "not there",
        Seen::NoFolder => "no such folder",
        Seen::Loop => "a link that leads back to itself",
        Seen::OtherClass(_) => "of another class, passed over",
        Seen::OtherMachine => "for another machine, passed over",
        Seen::Taken => "taken",
    }
}

fn symbol(name: &str, defined_by: &[String], references: &[Reference]) -> String {
    let by = if defined_by.is_empty() { "nobody".to_owned() } else { defined_by.join(", ") };
    let mut text = format!("{name}\n  defined by {by}\n");
    for reference in references {
        let version = reference.version.as_ref().map(|version| format!(" in version {version}"));
        let to = reference.to.as_ref().map(|to| format!("{to}, ")).unwrap_or_default();
        let _ = writeln!(
            text,
            "\n{} refers to it{}\n  bound to: {to}{}",
            reference.by,
            version.unwrap_or_default(),
            reference.how
        );
        let _ = writeln!(text, "  looked into: {}", reference.looked_into.join(", "));
    }
    text
}
