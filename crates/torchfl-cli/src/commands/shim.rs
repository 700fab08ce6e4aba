use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use torchfl_build::{Generated, Request};
use torchfl_manifest::ShimKind;

use crate::Outcome;
use crate::args::Shim;
use crate::commands::audit::{number, scratch, threads};
use crate::commands::vendor;
use crate::draft::{Draft, Existing};
use crate::report::Failure;
use crate::screen::Screen;

/// A generated library, for `--json`.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    shim: &'a torchfl_build::Shim,
    source: &'a str,
    version_script: &'a str,
    files: Vec<PathBuf>,
}

pub(crate) fn run(args: Shim, screen: &Screen) -> Result<Outcome, Failure> {
    let (manifest, manifest_text) = vendor::load(&args.which)?;
    let request = Request {
        front: args.front,
        plugin: args.plugin,
        python: args.python,
        sdk_root: args.sdk_root,
        cc: args.cc.or_else(crate::args::cc),
        threads: threads(None),
        ..Request::new(manifest, manifest_text, Some(args.torch), scratch())
    };
    let spinner = screen.spinner("reading what the vendor's libraries want");
    let generated = torchfl_build::shims(&request);
    spinner.finish_and_clear();
    let (generated, notes) = generated?;
    for note in notes {
        screen.warn(note);
    }
    if generated.is_empty() {
        screen.note("the manifest has no [[shim]]");
    }
    let mut told = Vec::new();
    for one in &generated {
        let files = args.output.as_deref().map(|folder| write(one, folder)).transpose()?.unwrap_or_default();
        let (source, version_script) = (one.source.c.as_str(), one.source.versions.as_str());
        told.push(Told { shim: &one.shim, source, version_script, files });
    }
    screen.data(&told, |told| text(told))?;
    Ok(Outcome::Done)
}

/// The library, and what it is made of.
fn write(generated: &Generated, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    fs_err::create_dir_all(folder)?;
    let soname = &generated.shim.soname;
    let parts: [(String, &[u8]); 3] = [
        (format!("{soname}.c"), generated.source.c.as_bytes()),
        (format!("{soname}.map"), generated.source.versions.as_bytes()),
        (soname.clone(), &generated.bytes),
    ];
    let mut files = Vec::new();
    for (name, bytes) in parts {
        let path = folder.join(name);
        Draft::new(&path, bytes)?.publish(Existing::Replace)?;
        files.push(path);
    }
    Ok(files)
}

fn text(told: &[Told<'_>]) -> String {
    let mut text = String::new();
    for one in told {
        if one.files.is_empty() {
            text += one.source;
            continue;
        }
        text += &line(one.shim);
        for file in &one.files {
            let _ = writeln!(text, "    {}", file.display());
        }
    }
    text
}

/// A shim in a line, or two.
pub(crate) fn line(shim: &torchfl_build::Shim) -> String {
    let (all, stubs) = (shim.symbols.len(), shim.stubs.len());
    let mut text = format!("  {}: {}, {}", shim.soname, shim.kind, number(all, "symbol"));
    if let (Some(version), Some(to)) = (&shim.version, &shim.forward_to) {
        let _ = write!(text, " of version {version}, forwarded to {to}");
    }
    if stubs > 0 {
        let _ = write!(text, "; {stubs} answered");
    }
    let open = all - stubs;
    if shim.kind == ShimKind::CoreGap && open > 0 {
        let which = match (stubs, open) {
            (0, _) => String::new(),
            (_, 1) => " of the other".to_owned(),
            (_, open) => format!(" of the other {open}"),
        };
        let _ = write!(text, "; a call{which} ends the process");
    }
    text.push('\n');
    if !shim.wanted_by.is_empty() {
        let by: Vec<&str> = shim.wanted_by.iter().map(String::as_str).collect();
        let _ = writeln!(text, "    wanted by {}", by.join(", "));
    }
    text
}
