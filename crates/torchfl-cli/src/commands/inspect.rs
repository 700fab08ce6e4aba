use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use torchfl_elf::{Facts, FileAt};
use torchfl_wheel::Archive;

use crate::Outcome;
use crate::args::Inspect;
use crate::report::{Error, Failure};
use crate::screen::{Screen, megabytes};

pub(crate) fn run(args: &Inspect, screen: &Screen) -> Result<Outcome, Failure> {
    // Before it is opened: a FIFO would wait for a writer.
    if fs_err::metadata(&args.file).is_ok_and(|facts| !facts.is_file()) {
        return Err(Error::Neither { path: args.file.clone() }.into());
    }
    let file = FileAt::open(&args.file)?;
    let name = args.file.display().to_string();
    if torchfl_elf::is_elf(&file) {
        screen.data(&torchfl_elf::facts(&file, &name)?, library)?;
    } else if args.file.extension().is_some_and(|e| e == "whl") {
        screen.data(&wheel(&args.file)?, text)?;
    } else {
        return Err(Error::Neither { path: args.file.clone() }.into());
    }
    Ok(Outcome::Done)
}

/// An ELF file for people.
fn library(facts: &Facts) -> String {
    let mut text = format!("{:?} {}, {}\n", facts.class, facts.machine, kind(facts));
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<12} {value}");
    };
    if let Some(soname) = &facts.soname {
        row("SONAME", soname);
    }
    match &facts.search_path {
        Some(path) => row(&path.tag.to_string().to_uppercase(), &path.value),
        None => row("search path", "none"),
    }
    for needed in &facts.needed {
        row("NEEDED", needed);
    }
    if let Some((major, minor)) = facts.glibc_floor() {
        row("glibc", &format!("{major}.{minor}"));
    }
    if let Some(id) = &facts.build_id {
        row("build-id", id);
    }
    if facts.executable_stack == Some(true) {
        row("stack", "executable: newer glibc refuses to load it");
    }
    text
}

fn kind(facts: &Facts) -> String {
    format!("{:?}", facts.kind).to_lowercase()
}

/// A wheel's facts: what it says of itself, its members, and the ELF files among them.
fn wheel(path: &Path) -> Result<Value, Failure> {
    let archive = Archive::open(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().parse::<torchfl_wheel::WheelName>()?;
    let info = name.dist_info();
    let limit = 16 << 20;
    let text = |file: &str| -> Result<String, Failure> {
        Ok(String::from_utf8_lossy(&archive.read(&format!("{info}/{file}"), limit)?).into_owned())
    };
    let metadata = torchfl_wheel::Metadata::parse(text("METADATA")?.as_bytes(), "METADATA")?;
    // Other people's wheels have none.
    let build = if archive.members().iter().any(|member| member.name == "torch_fl/build.json") {
        serde_json::from_slice(&archive.read("torch_fl/build.json", limit)?)
            .map_err(|source| Error::BuildJson { path: path.to_owned(), source })?
    } else {
        Value::Null
    };
    // The wheel's own disk has room for what is in it, but may be somebody else's.
    let beside = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let spool = |member: &str| {
        archive.spool(member, beside).or_else(|_| archive.spool(member, &std::env::temp_dir()))
    };
    let mut libraries = Vec::new();
    let mut size = 0;
    for member in archive.members() {
        size += member.size;
        if !member.name.rsplit('/').next().is_some_and(|n| n.contains(".so")) {
            continue;
        }
        let file = FileAt::new(spool(&member.name)?)?;
        if torchfl_elf::is_elf(&file) {
            let facts = torchfl_elf::facts(&file, &member.name)?;
            libraries.push(json!({ "path": member.name, "bytes": member.size, "compressed": member.compressed_size, "elf": facts }));
        }
    }
    Ok(json!({
        "wheel": path.file_name().unwrap_or_default().to_string_lossy(),
        "name": metadata.name(),
        "version": name.version.to_string(),
        "tags": name.tags().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "requires": metadata.get_all("Requires-Dist").collect::<Vec<_>>(),
        "members": archive.members().len(),
        "bytes": size,
        "libraries": libraries,
        "build": build,
    }))
}

/// A wheel for people.
fn text(value: &Value) -> String {
    let str = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut text = format!(
        "{} {}\n  {} files, {} unpacked\n",
        str(&value["name"]),
        str(&value["version"]),
        value["members"],
        megabytes(value["bytes"].as_u64().unwrap_or_default())
    );
    for note in list(&value["build"]["notes"]) {
        let _ = writeln!(text, "  {}", str(&note));
    }
    for tag in list(&value["tags"]) {
        let _ = writeln!(text, "  tag       {}", str(&tag));
    }
    for line in list(&value["requires"]) {
        let _ = writeln!(text, "  requires  {}", str(&line));
    }
    for library in list(&value["libraries"]) {
        let path = &library["elf"]["search_path"];
        let path = if path.is_null() {
            "no search path".into()
        } else {
            format!("{} {}", str(&path["tag"]), str(&path["value"]))
        };
        let _ = writeln!(
            text,
            "  {:<44} {:>10}  {path}",
            str(&library["path"]),
            megabytes(library["bytes"].as_u64().unwrap_or_default())
        );
    }
    text
}
