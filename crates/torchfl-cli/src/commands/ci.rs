use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use torchfl_ci::{File, Row, Service, Subject};
use torchfl_manifest::Manifest;

use crate::Outcome;
use crate::args::{CiMatrix, CiService, CiWorkflow, MatrixFormat, Wheels, Which};
use crate::commands::vendor;
use crate::draft::{Draft, Existing};
use crate::report::{Error, Failure};
use crate::screen::Screen;

pub(crate) fn matrix(args: &CiMatrix, screen: &Screen) -> Result<Outcome, Failure> {
    let rows = rows(&args.wheels)?;
    let value = match args.format {
        None => {
            screen.data(&json!({ "rows": rows }), |_| table(&rows))?;
            return Ok(Outcome::Done);
        }
        Some(MatrixFormat::Json) => json!({ "rows": rows }),
        Some(MatrixFormat::Github) => for_service(Service::Github, &rows, screen),
        Some(MatrixFormat::Gitlab) => for_service(Service::Gitlab, &rows, screen),
    };
    let pretty = serde_json::to_string_pretty(&value)?;
    screen.data(&value, |_| pretty)?;
    Ok(Outcome::Done)
}

fn for_service(service: Service, rows: &[Row], screen: &Screen) -> Value {
    let homeless = rows.iter().filter(|row| row.runner.is_empty()).count();
    if homeless > 0 {
        screen.note(format_args!(
            "{homeless} of {} wheels are left out: their runner is not known",
            rows.len()
        ));
    }
    service.matrix(rows)
}

pub(crate) fn workflow(args: &CiWorkflow, screen: &Screen) -> Result<Outcome, Failure> {
    let service = match args.format {
        CiService::Github => Service::Github,
        CiService::Gitlab => Service::Gitlab,
    };
    let folder = args.output.clone().unwrap_or_else(|| Path::new("ci").join(service.name()));
    let files = service.workflow(&rows(&args.wheels)?);
    let mut outcome = Outcome::Done;
    let mut told = Vec::new();
    for file in &files {
        let path = folder.join(file.name);
        let state = if args.check { differs(file, &path)? } else { write(file, &path)? };
        if let Some(what) = &state.differs {
            outcome = Outcome::Findings;
            screen.note(format_args!("{}: {what}", path.display()));
        }
        told.push(json!({ "path": path.to_string_lossy(), "state": state.word, "why": state.differs }));
    }
    screen.data(&json!({ "files": told }), |_| {
        let paths = files.iter().map(|file| folder.join(file.name).display().to_string());
        paths.collect::<Vec<_>>().join("\n")
    })?;
    Ok(outcome)
}

/// What became of a file, or would.
struct State {
    word: &'static str,
    differs: Option<String>,
}

fn write(file: &File, path: &Path) -> Result<State, Failure> {
    if fs_err::read(path).is_ok_and(|bytes| bytes == file.text.as_bytes()) {
        return Ok(State { word: "unchanged", differs: None });
    }
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder)?;
    }
    Draft::new(path, file.text.as_bytes())?.publish(Existing::Replace)?;
    Ok(State { word: "written", differs: None })
}

fn differs(file: &File, path: &Path) -> Result<State, Failure> {
    let bytes = match fs_err::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(State { word: "missing", differs: Some("is not there".to_owned()) });
        }
        Err(error) => return Err(error.into()),
    };
    let there = String::from_utf8_lossy(&bytes);
    if there == file.text {
        return Ok(State { word: "unchanged", differs: None });
    }
    let same = there.lines().zip(file.text.lines()).take_while(|(there, made)| there == made).count();
    let line = |text: &str| {
        text.lines().nth(same).map_or_else(|| "the end".to_owned(), |line| format!("`{}`", line.trim()))
    };
    let why =
        format!("line {} is {}, and the manifests make it {}", same + 1, line(&there), line(&file.text));
    Ok(State { word: "differs", differs: Some(why) })
}

/// The wheels that are asked for.
fn rows(args: &Wheels) -> Result<Vec<Row>, Failure> {
    let mut subjects = subjects(&args.manifest)?;
    for name in &args.vendor {
        if !subjects.iter().any(|subject| subject.manifest.name() == *name) {
            torchfl_manifest::find(name)?; // it is not there: the error knows the nearest name
        }
    }
    let statuses: Vec<String> = args.status.iter().map(|status| word(*status)).collect();
    let among = |asked: &[String], one: &str| asked.is_empty() || asked.iter().any(|asked| asked == one);
    subjects.retain(|subject| {
        among(&args.vendor, &subject.manifest.name()) && among(&statuses, subject.manifest.status.as_str())
    });
    let wanted = |row: &Row| among(&args.python, &row.python) && among(&args.arch, &row.arch);
    let rows: Vec<Row> = torchfl_ci::matrix(&subjects)?.into_iter().filter(wanted).collect();
    if rows.is_empty() {
        let all =
            [("vendor", &args.vendor), ("status", &statuses), ("python", &args.python), ("arch", &args.arch)];
        let asked = all
            .iter()
            .flat_map(|(name, values)| values.iter().map(move |value| format!(" --{name} {value}")));
        let asked: String = asked.collect();
        let asked = if asked.is_empty() { asked } else { format!(" with{asked}") };
        return Err(Error::NoRow { asked }.into());
    }
    Ok(rows)
}

/// The built-in manifests and those of `files`, by name.
fn subjects(files: &[PathBuf]) -> Result<Vec<Subject>, Failure> {
    let mut subjects = Vec::new();
    for (name, _) in torchfl_manifest::embedded() {
        subjects.push(Subject { manifest: torchfl_manifest::find(name)?, file: None });
    }
    for path in files {
        let (manifest, _): (Manifest, _) =
            vendor::load(&Which { vendor: None, manifest: Some(path.clone()) })?;
        subjects.retain(|subject| subject.manifest.name() != manifest.name());
        subjects.push(Subject { manifest, file: Some(path.to_string_lossy().into_owned()) });
    }
    subjects.sort_by_key(|subject| subject.manifest.name());
    Ok(subjects)
}

fn word(status: crate::args::VendorStatus) -> String {
    use clap::ValueEnum as _;
    status.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// The rows for people: a line each, and what is open once for each vendor.
fn table(rows: &[Row]) -> String {
    let mut lines = vec![line("vendor", "torch", "python", "arch", "artifact", "runner")];
    for row in rows {
        let runner = if row.runner.is_empty() { "-".to_owned() } else { row.runner.join(", ") };
        lines.push(line(&row.vendor, &row.torch, &row.python, &row.arch, row.artifact.as_str(), &runner));
    }
    let mut open = Vec::new();
    for row in rows {
        let known = row.open.iter().map(|open| format!("{}: {}: {}", row.vendor, open.key, open.message));
        open.extend(known);
    }
    let mut seen = std::collections::BTreeSet::new();
    open.retain(|line| seen.insert(line.clone()));
    if !open.is_empty() {
        lines.push("\nWhat no manifest states:".to_owned());
        lines.append(&mut open);
    }
    lines.join("\n")
}

fn line(vendor: &str, torch: &str, python: &str, arch: &str, artifact: &str, runner: &str) -> String {
    format!("{vendor:<12} {torch:<8} {python:<6} {arch:<8} {artifact:<8} {runner}")
}
