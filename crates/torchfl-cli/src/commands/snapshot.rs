use std::fmt::Write as _;

use serde::Serialize;
use serde_json::json;
use torchfl_loader::{Change, Diff, Difference, Root, Skipped};

use crate::Outcome;
use crate::args::{Snapshot, SnapshotCommand, SnapshotDiff};
use crate::draft::{Draft, Existing, check_replaceable};
use crate::report::{Error, Failure};
use crate::screen::{Screen, megabytes};

/// Entries of one list that are shown to people.
const SHOWN: usize = 10;

pub(crate) fn run(args: Snapshot, screen: &Screen) -> Result<Outcome, Failure> {
    match args.command {
        Some(SnapshotCommand::Diff(args)) => diff(&args, screen),
        None => take(args, screen),
    }
}

fn take(args: Snapshot, screen: &Screen) -> Result<Outcome, Failure> {
    let Snapshot { command: _, folders, at, name, output } = args;
    if !at.is_empty() && at.len() != folders.len() {
        return Err(Error::Places { places: at.len(), folders: folders.len() }.into());
    }
    // clap asks for it.
    let output = output.unwrap_or_default();
    check_replaceable(&output)?;
    let mut places = at.into_iter();
    let roots: Vec<Root> =
        folders.iter().map(|folder| Root { folder: folder.clone(), at: places.next() }).collect();
    let title = name.unwrap_or_else(|| {
        let names = folders.iter().map(|folder| folder.file_name().unwrap_or(folder.as_os_str()));
        names.map(|name| name.to_string_lossy().into_owned()).collect::<Vec<_>>().join(", ")
    });
    let spinner = screen.spinner("reading libraries");
    let taken = torchfl_loader::Snapshot::take(&title, &roots, &mut |path| {
        spinner.set_message(path.rsplit('/').next().unwrap_or_default().to_owned());
    });
    spinner.finish_and_clear();
    let (snapshot, skipped) = taken?;
    if snapshot.libraries.is_empty() {
        let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        return Err(Error::NoLibrary { folders: folders.join(", ") }.into());
    }
    let bytes = snapshot.write()?;
    Draft::new(&output, &bytes)?.publish(Existing::Replace)?;
    for Skipped { path, why } in skipped.iter().take(SHOWN) {
        screen.warn(format_args!("{path} is left out: {why}"));
    }
    if skipped.len() > SHOWN {
        screen.warn(format_args!("{} more are left out; --json lists all", skipped.len() - SHOWN));
    }
    let value = json!({
        "snapshot": output.to_string_lossy(),
        "title": snapshot.title,
        "folders": snapshot.folders,
        "libraries": snapshot.libraries.len(),
        "symbols": snapshot.symbols(),
        "links": snapshot.links.len(),
        "bytes": bytes.len(),
        "skipped": skipped,
    });
    screen.data(&value, |value| {
        format!(
            "{}: libraries {}, symbols {}, {}",
            output.display(),
            value["libraries"],
            value["symbols"],
            megabytes(bytes.len() as u64)
        )
    })?;
    Ok(Outcome::Done)
}

/// [`Diff`] with what it is between.
#[derive(Serialize)]
struct Told<'a> {
    first: &'a str,
    second: &'a str,
    keeps_all: bool,
    #[serde(flatten)]
    diff: &'a Diff,
}

fn diff(args: &SnapshotDiff, screen: &Screen) -> Result<Outcome, Failure> {
    let first = torchfl_loader::Snapshot::read(&args.first)?;
    let second = torchfl_loader::Snapshot::read(&args.second)?;
    let diff = Diff::between(&first, &second);
    let keeps_all = diff.keeps_all();
    screen.data(&Told { first: &first.title, second: &second.title, keeps_all, diff: &diff }, text)?;
    Ok(if keeps_all { Outcome::Done } else { Outcome::Findings })
}

/// A comparison for people.
fn text(told: &Told<'_>) -> String {
    let diff = told.diff;
    let mut text = format!("{} -> {}\n", told.first, told.second);
    list(&mut text, "", "gone", &diff.gone);
    list(&mut text, "", "new", &diff.new);
    for change in &diff.changed {
        let _ = writeln!(text, "{}", change.library);
        one(&mut text, change);
    }
    let gone = |of: fn(&Change) -> usize| diff.changed.iter().map(of).sum::<usize>();
    let verdict = if told.keeps_all {
        "nothing is gone that something made for the first could use".to_owned()
    } else {
        format!(
            "gone: names {}, versions {}, symbols {}",
            diff.gone.len(),
            gone(|change| change.versions_gone.len()),
            gone(|change| change.symbols_gone.len() + change.kinds.len())
        )
    };
    text + &verdict
}

fn one(text: &mut String, change: &Change) {
    let told = |differences: &[Difference]| -> Vec<String> {
        let row = |d: &Difference| format!("{}: {} -> {}", d.of, d.from, d.to);
        differences.iter().map(row).collect()
    };
    list(text, "  ", "now", &told(&change.facts));
    list(text, "  ", "version gone", &change.versions_gone);
    list(text, "  ", "symbol gone", &change.symbols_gone);
    list(text, "  ", "other kind", &told(&change.kinds));
    list(text, "  ", "version new", &change.versions_new);
    list(text, "  ", "symbol new", &change.symbols_new);
    list(text, "  ", "changed", &told(&change.details));
}

fn list(text: &mut String, indent: &str, what: &str, entries: &[String]) {
    for entry in entries.iter().take(SHOWN) {
        let _ = writeln!(text, "{indent}{what:<14}{entry}");
    }
    if entries.len() > SHOWN {
        let _ = writeln!(text, "{indent}{what:<14}and {} more; --json lists all", entries.len() - SHOWN);
    }
}
