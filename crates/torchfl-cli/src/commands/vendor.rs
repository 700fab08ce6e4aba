use std::io::{self, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use miette::{LabeledSpan, NamedSource};
use serde_json::json;
use torchfl_manifest::{Error, Finding, Manifest};

use crate::Outcome;
use crate::args::{VendorAdd, VendorShow, Which};
use crate::draft::{Draft, Existing};
use crate::report::{self, Failure};
use crate::screen::Screen;

/// The largest manifest that is read, in bytes.
const LONGEST: u64 = 1 << 20;
/// The most mistakes that are shown: each is shown with its place, which is looked for in the whole text.
const SHOWN: usize = 50;

/// The manifest that the command line names, with its file name and text.
pub(crate) fn load(which: &Which) -> Result<(Manifest, (String, String)), Failure> {
    let (origin, text) = source(which)?;
    let manifest = Manifest::parse(&text, &origin)?;
    let name = Path::new(&origin).file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok((manifest, (name, text)))
}

/// Where the manifest is from, and its text.
fn source(which: &Which) -> Result<(String, String), Failure> {
    match (&which.manifest, &which.vendor) {
        (Some(path), _) => Ok((path.display().to_string(), read(path)?)),
        (None, vendor) => {
            let name = vendor.as_deref().unwrap_or_default();
            Ok((format!("{name}.toml"), torchfl_manifest::text(name)?.to_owned()))
        }
    }
}

/// A manifest's text.
fn read(path: &Path) -> Result<String, Failure> {
    let refuse = |what| {
        let hint = "name the TOML file that describes the vendor";
        report::Error::NotFile { path: path.to_owned(), what, hint }
    };
    // Before it is opened: a FIFO would wait for a writer.
    if fs_err::metadata(path).is_ok_and(|facts| !facts.is_file()) {
        return Err(refuse("no file").into());
    }
    let mut text = Vec::new();
    fs_err::File::open(path)?.take(LONGEST + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LONGEST {
        return Err(refuse("larger than 1 MiB, which no manifest is").into());
    }
    let not_text =
        |_| io::Error::new(io::ErrorKind::InvalidData, format!("{} is not UTF-8 text", path.display()));
    Ok(String::from_utf8(text).map_err(not_text)?)
}

pub(crate) fn list(screen: &Screen) -> Result<Outcome, Failure> {
    let mut rows = Vec::new();
    for (name, _) in torchfl_manifest::embedded() {
        let manifest = torchfl_manifest::find(name)?;
        rows.push(json!({
            "name": name,
            "title": manifest.title.as_str(),
            "torch": manifest.torch.release.as_str(),
            "swap": manifest.torch.swap.as_str(),
            "status": manifest.status.as_str(),
        }));
    }
    screen.data(&rows, |rows| {
        let row = |r: &serde_json::Value| {
            let cell = |key: &str| r[key].as_str().unwrap_or_default().to_owned();
            format!(
                "{:<12} torch {:<8} {:<6} {:<13} {}\n",
                cell("name"),
                cell("torch"),
                cell("swap"),
                cell("status"),
                cell("title")
            )
        };
        rows.iter().map(row).collect()
    })?;
    Ok(Outcome::Done)
}

pub(crate) fn show(args: &VendorShow, screen: &Screen) -> Result<Outcome, Failure> {
    let (manifest, (_, text)) = load(&args.which)?;
    if args.source {
        screen.data(&json!({ "text": text }), |_| text.clone())?;
        return Ok(Outcome::Done);
    }
    let resolved = torchfl_manifest::resolve(&manifest, &torchfl_manifest::Request::default())?;
    let pretty = serde_json::to_string_pretty(&resolved)?;
    screen.data(&resolved, |_| pretty)?;
    Ok(Outcome::Done)
}

/// Mistakes are errors; facts that are left open are findings.
pub(crate) fn check(which: &Which, screen: &Screen) -> Result<Outcome, Failure> {
    let (manifest, (name, text)) = load(which)?;
    let findings = torchfl_manifest::check(&manifest);
    screen.data(&json!({ "manifest": name, "findings": findings }), |_| {
        if findings.is_empty() {
            return format!("{name}: complete");
        }
        let line = |span: &Range<usize>| text[..span.start.min(text.len())].matches('\n').count() + 1;
        let row = |f: &Finding| format!("{name}:{}: {}: {}", line(&f.span), f.key, f.message);
        let mut rows: Vec<_> = findings.iter().take(SHOWN).map(row).collect();
        if findings.len() > SHOWN {
            rows.push(format!("and {} more", findings.len() - SHOWN));
        }
        rows.join("\n")
    })?;
    Ok(if findings.is_empty() { Outcome::Done } else { Outcome::Findings })
}

pub(crate) fn add(args: &VendorAdd, screen: &Screen) -> Result<Outcome, Failure> {
    let from = match &args.from {
        Some(name) => Some((torchfl_manifest::text(name)?, format!("{name}.toml"))),
        None => None,
    };
    let text = torchfl_manifest::new_manifest(
        &args.name,
        from.as_ref().map(|(text, origin)| (*text, origin.as_str())),
    )?;
    let path = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.toml", args.name)));
    // A manifest is work of hours: never written over.
    Draft::new(&path, text.as_bytes())?.publish(Existing::Keep)?;
    screen.data(&json!({ "manifest": path.to_string_lossy() }), |_| {
        format!(
            "{}: written; `torchfl vendor check --manifest {}` says what is missing",
            path.display(),
            path.display()
        )
    })?;
    Ok(Outcome::Done)
}

pub(crate) fn schema(screen: &Screen) -> Result<Outcome, Failure> {
    let pretty = serde_json::to_string_pretty(&torchfl_manifest::schema())?;
    screen.data(&torchfl_manifest::schema(), |_| pretty)?;
    Ok(Outcome::Done)
}

/// Every problem of a manifest, each with its place in the text.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let Error::Invalid { origin, text, problems } = &error else {
            return Self::new(error.code(), error.hint(), error);
        };
        let one = |problem: &torchfl_manifest::Problem| {
            let hint = problem.nearest.as_ref().map(|nearest| format!("did you mean `{nearest}`?"));
            let message = match problem.key.as_str() {
                "" => problem.message.clone(),
                key => format!("{key}: {}", problem.message),
            };
            let label = LabeledSpan::underline(problem.span.clone());
            Self::new(
                problem.code,
                hint,
                Place { origin: origin.clone(), line: problem.line, column: problem.column, message },
            )
            .at(NamedSource::new(origin, text.clone()).with_language("TOML"), label)
        };
        let more = problems.len().saturating_sub(SHOWN);
        let more = (more > 0).then(|| Self::from(report::Error::More { count: more }));
        let mut all = problems.iter().take(SHOWN).map(one).chain(more);
        match all.next() {
            Some(first) => first.and(all.collect()),
            None => Self::new(error.code(), error.hint(), error),
        }
    }
}

/// A problem as one line: `file:line:column: what`.
#[derive(Debug, thiserror::Error)]
#[error("{origin}:{line}:{column}: {message}")]
struct Place {
    origin: String,
    line: usize,
    column: usize,
    message: String,
}
