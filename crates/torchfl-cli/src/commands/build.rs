use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use torchfl_build::{Plan, Request, Summary};
use torchfl_manifest::resolve::OpenFrom;
use torchfl_wheel::{Options, ZipWriter};

use crate::Outcome;
use crate::args::{Build, Compression, MetadataVersion};
use crate::commands::{audit, shim, vendor};
use crate::draft::{Draft, Existing, check_replaceable};
use crate::report::Failure;
use crate::screen::{Screen, megabytes};

/// By default no more: each takes memory, and beyond this the disk is the limit.
const THREADS: usize = 16;

pub(crate) fn run(args: Build, screen: &Screen) -> Result<Outcome, Failure> {
    let (manifest, manifest_text) = vendor::load(&args.which)?;
    let threads = args.threads.unwrap_or_else(|| Options::default().threads.min(THREADS)).max(1);
    let scratch = existing(&args.output);
    let request = Request {
        manifest,
        manifest_text,
        torch: args.torch,
        front: args.front,
        plugin: args.plugin,
        plugin_source: args.plugin_from_source.zip(args.python_include).map(|(folder, python_include)| {
            torchfl_build::PluginSource { folder, python_include, hide: crate::args::rust_homes() }
        }),
        python: args.python,
        sdk_root: args.sdk_root,
        local: args.local,
        post: args.post,
        metadata_version: match args.metadata_version {
            MetadataVersion::V2_3 => torchfl_wheel::MetadataVersion::V2_3,
            MetadataVersion::V2_4 => torchfl_wheel::MetadataVersion::V2_4,
        },
        allow_unlicensed: args.allow_unlicensed,
        with: args.with,
        sysroot: args.sysroot,
        drivers: audit::drivers()?,
        require_proof: args.require_proof,
        allow_unresolved: args.allow_unresolved,
        scratch,
        threads,
        cc: args.cc.or_else(crate::args::cc),
    };
    let spinner = screen.spinner("reading the vendor's torch and proving that it will load");
    let plan = torchfl_build::plan(&request);
    spinner.finish_and_clear();
    let plan = plan?;
    for note in &plan.notes {
        screen.warn(note);
    }
    if args.dry_run {
        screen.data(&plan, describe)?;
        return Ok(Outcome::Done);
    }

    let bar = screen.bytes("writing", plan.bytes());
    let ticks = bar.clone();
    let options = Options {
        threads,
        compression: match args.compression {
            Compression::Fast => torchfl_wheel::Compression::Fast,
            Compression::Normal => torchfl_wheel::Compression::Normal,
        },
        on_progress: Some(Arc::new(move |bytes| ticks.inc(bytes))),
    };
    let made: Vec<&Path> =
        args.output.ancestors().take_while(|f| !f.as_os_str().is_empty() && !f.exists()).collect();
    let written = write(&plan, &args.output, options);
    bar.finish_and_clear();
    if written.is_err() {
        // Nothing is left behind, folders neither. One that somebody else uses by now is not empty, and stays.
        for folder in made {
            let _ = fs_err::remove_dir(folder);
        }
    }
    let summary = written?;
    let path = args.output.join(&summary.wheel);
    let mut value = serde_json::to_value(&summary)?;
    value["path"] = json!(path.to_string_lossy());
    screen.data(&value, |_| told(&summary, &path))?;
    Ok(Outcome::Done)
}

/// Writes wheel and constraints into `folder`. What can fail of the latter is done before the wheel appears.
fn write(plan: &Plan, folder: &Path, options: Options) -> Result<Summary, Failure> {
    fs_err::create_dir_all(folder)?;
    sweep(folder);
    check_replaceable(&folder.join(&plan.wheel))?;
    let writer = ZipWriter::create(folder, plan.name(), options)?;
    let (name, text) = torchfl_build::constraints(plan);
    let draft = Draft::new(&folder.join(name), text.as_bytes())?;
    let summary = plan.write(Box::new(writer))?;
    draft.publish(Existing::Replace)?;
    Ok(summary)
}

/// Removes what killed builds left in `folder`: unfinished wheels and constraints. Only regular files under the names
/// that we give them count, and only those that nobody wrote to for a day: a build at work writes all the time.
fn sweep(folder: &Path) {
    const DAY: Duration = Duration::from_hours(24);
    let Ok(entries) = fs_err::read_dir(folder) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_leftover)) {
        // Of the entry itself: a link is not followed.
        let Ok(facts) = entry.metadata() else { continue };
        let idle = facts.modified().ok().and_then(|at| at.elapsed().ok());
        if facts.is_file() && idle.is_some_and(|idle| idle > DAY) {
            // Best effort: what may not be removed is in nobody's way.
            let _ = fs_err::remove_file(entry.path());
        }
    }
}

/// `.torch_fl-….whl.XXXXXX.tmp`, `.torchfl-XXXXXX`
fn is_leftover(name: &str) -> bool {
    let random = |text: &str| text.len() == 6 && text.bytes().all(|b| b.is_ascii_alphanumeric());
    let wheel = name.strip_prefix(".torch_fl-").and_then(|rest| rest.strip_suffix(".tmp"));
    wheel.and_then(|rest| rest.rsplit_once(".whl.")).is_some_and(|(_, rest)| random(rest))
        || name.strip_prefix(".torchfl-").is_some_and(random)
}

/// The nearest folder that exists: the scratch files go to the disk that will hold the wheel.
fn existing(output: &Path) -> PathBuf {
    let found = output.ancestors().find(|folder| folder.is_dir());
    found.map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

fn told(summary: &Summary, path: &Path) -> String {
    let mut text = table(summary.libraries.iter());
    let _ = writeln!(
        text,
        "\n{}\n  {} in {:.1} s, sha256 {}",
        path.display(),
        megabytes(summary.bytes),
        summary.seconds,
        summary.sha256
    );
    text
}

/// The plan for people: the same values that the build uses.
fn describe(plan: &Plan) -> String {
    let mut text = format!("{}\n\n", plan.wheel);
    text += &table(plan.libraries.iter());
    if let Some(library) = plan.libraries.first() {
        let _ = writeln!(text, "\nsearch path ({}): {}", library.tag, library.search_path);
    }
    if !plan.shims.is_empty() {
        text += "\ngenerated:\n";
        plan.shims.iter().for_each(|shim| text += &shim::line(shim));
    }
    text += "\nopened at import, in this order:\n";
    for open in &plan.build_json.open {
        let from = match open.from {
            OpenFrom::Bundle => "bundle",
            OpenFrom::Front => "installed torch",
        };
        let shared = if open.shared { ", unless loaded already" } else { "" };
        let scope = if open.global { ", global" } else { "" };
        let _ = writeln!(text, "  {} from the {}{shared}{scope}", open.name, from);
    }
    if let Some(plugin) = &plan.build_json.plugin {
        let _ = writeln!(text, "\nplugin:\n  {}", line_of(plugin));
    }
    text += &proved(plan);
    text += "\nrequires:\n";
    for line in &plan.requires {
        let _ = writeln!(text, "  {line}");
    }
    let _ = write!(text, "\n{} headers and CMake files laid over the stock ones", plan.overlay.len());
    let _ = writeln!(text, "\n{} licence files", plan.licences.len());
    text
}

/// The plugin in a line.
fn line_of(plugin: &torchfl_build::Plugin) -> String {
    let names = plugin.runtime.as_ref().map_or(0, std::collections::BTreeMap::len);
    match (&plugin.torch, &plugin.python, &plugin.target) {
        (Some(torch), Some(python), Some(target)) => format!(
            "{} for torch {torch} and {python}, over {target}; {names} names of its runtime",
            plugin.library
        ),
        _ => {
            format!("{}, which does not say what it is built for: it is opened, and no more", plugin.library)
        }
    }
}

/// What the proof rests on, and which ways to redirect torch it found sound.
fn proved(plan: &Plan) -> String {
    let mut text = String::new();
    audit::assumed(&plan.proof.assumed, &mut text);
    if let Some(judged) = &plan.proof.redirect {
        audit::redirect(judged, &mut text);
    }
    text
}

fn table<'a>(libraries: impl Iterator<Item = &'a torchfl_build::Library>) -> String {
    let mut text = String::new();
    for library in libraries {
        let how = match library.how {
            _ if library.from == torchfl_build::GENERATED => "generated",
            torchfl_elf::How::Unchanged => "unchanged",
            torchfl_elf::How::InPlace => "in place",
            torchfl_elf::How::Appended => "appended",
        };
        let _ =
            writeln!(text, "  {:<34} {:>10}  {} {how}", library.name, megabytes(library.bytes), library.tag);
    }
    text
}
