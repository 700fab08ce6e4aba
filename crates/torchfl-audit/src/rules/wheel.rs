//! What can be said of the wheel as a distribution: requirements, licences, RECORD, whose folders it touches.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use sha2::{Digest as _, Sha256 as Hasher};
use torchfl_loader::Entry;
use torchfl_wheel::{RecordRow, Sha256, normalize_name};

use crate::dist::Dist;
use crate::finding::Finding;
use crate::site::{SITE, Site};
use crate::{Error, rules};

/// Folders that a wheel of `torch_fl` adds to site-packages.
const OWN: [&str; 2] = ["torch_fl", "_torch_fl_autoload"];

/// All of them.
pub(crate) fn check(site: &Site, found: &mut Vec<Finding>) -> Result<(), Error> {
    licence(site, found);
    promised(site, found);
    provided(site, found);
    torch(site, found);
    record(site, found)?;
    folders(site, found);
    triton(site, found)?;
    unjustified(site, found)
}

/// Names that a distribution requires, whatever the markers.
pub(crate) fn requires(dist: &Dist) -> Result<Vec<String>, Error> {
    let Some(metadata) = &dist.metadata else { return Ok(Vec::new()) };
    Ok(metadata
        .requires_dist()?
        .iter()
        .map(|requirement| normalize_name(requirement.name.as_ref()))
        .collect())
}

/// All that the wheel requires, through others too, as far as they are given. Torch and `torch_fl` count as one.
pub(crate) fn required(site: &Site) -> BTreeSet<String> {
    let by_name: BTreeMap<&str, &Dist> = site.dists.iter().map(|dist| (dist.name.as_str(), dist)).collect();
    let mut seen: BTreeSet<String> =
        BTreeSet::from(["torch-fl".to_owned(), "torch".to_owned(), site.subject().name.clone()]);
    let mut left: Vec<String> = seen.iter().cloned().collect();
    while let Some(name) = left.pop() {
        let Some(dist) = by_name.get(name.as_str()) else { continue };
        for other in requires(dist).unwrap_or_default() {
            if seen.insert(other.clone()) {
                left.push(other);
            }
        }
    }
    seen
}

fn licence(site: &Site, found: &mut Vec<Finding>) {
    let Some(build) = site.own_build().filter(|build| !build.files.is_empty()) else { return };
    let subject = site.subject();
    let Some(info) = &subject.info else { return };
    let part = "torch";
    let folder = format!("{info}/licenses/{part}/");
    let there = subject.files.keys().any(|path| path.starts_with(&folder));
    if !there && !build.allow_unlicensed.iter().any(|allowed| allowed == part) {
        found.push(rules::LICENCE.finding(
            folder,
            part,
            format!("no licence file of {part} is in the wheel"),
        ));
    }
}

/// The bundle's libraries, as the bootstrap counts them before it starts.
fn promised(site: &Site, found: &mut Vec<Finding>) {
    let Some(build) = site.own_build() else { return };
    let subject = site.subject();
    for (name, promised) in &build.files {
        let path = format!("torch_fl/{}/{name}", build.bundle);
        let reason = match size(subject, &path) {
            Some(bytes) if bytes == promised.bytes => continue,
            Some(bytes) => format!("build.json says {} bytes, the file has {bytes}", promised.bytes),
            None => "build.json names it, and it is not there".to_owned(),
        };
        found.push(rules::PROMISED.finding(path, name, reason));
    }
}

/// The torch that is there has to be the one that the wheel belongs to.
fn torch(site: &Site, found: &mut Vec<Finding>) {
    let (Some(build), Some(torch)) = (site.own_build(), site.torch.map(|torch| &site.dists[torch])) else {
        return;
    };
    let release = torch.version.split('+').next().unwrap_or_default();
    if !torch.version.is_empty() && release != build.torch.release {
        let reason =
            format!("it belongs to torch {}, and torch {} was given", build.torch.release, torch.version);
        found.push(rules::WRONG_TORCH.finding(site.subject().file_name(), &torch.version, reason));
    }
    let python = |dist: &Dist| dist.wheel.as_ref().map(|wheel| wheel.python.clone());
    if let (Some(own), Some(theirs)) = (python(site.subject()), python(torch))
        && own != theirs
        && own.starts_with("cp")
    {
        let reason = format!("it is for {own}, and the torch that was given for {theirs}");
        found.push(rules::WRONG_TORCH.finding(site.subject().file_name(), theirs, reason));
    }
}

/// Libraries that the bootstrap looks for before it starts, in distributions that are there without them.
fn provided(site: &Site, found: &mut Vec<Finding>) {
    for provided in site.own_build().iter().flat_map(|build| &build.provided) {
        for name in &provided.libraries {
            let path = format!("{SITE}/{}/{name}", provided.dir);
            if matches!(site.files.entry(&path), Entry::Absent) {
                let reason = format!("{} is there without it", provided.dist);
                found.push(rules::NOT_FOUND.finding("torch_fl/build.json", name, reason));
            }
        }
    }
}

fn record(site: &Site, found: &mut Vec<Finding>) -> Result<(), Error> {
    let subject = site.subject();
    let path = format!("{}/RECORD", subject.info.as_deref().unwrap_or_default());
    let Some(record) = subject.record()? else {
        if subject.archive().is_some() {
            found.push(rules::RECORD.finding(path, "RECORD", "the wheel has none"));
        }
        return Ok(());
    };
    let listed: BTreeSet<&str> = record.rows.iter().map(|row| row.path.as_str()).collect();
    for file in subject.files.keys().filter(|file| !listed.contains(file.as_str())) {
        // Signatures are not listed (PEP 427).
        if !file.ends_with("/RECORD.jws") && !file.ends_with("/RECORD.p7s") {
            found.push(rules::RECORD.finding(&path, file, "the file is not listed"));
        }
    }
    for row in &record.rows {
        if let Some(reason) = disagrees(site, subject, row)? {
            found.push(rules::RECORD.finding(&path, &row.path, reason));
        }
    }
    Ok(())
}

/// What a row says that is not so.
fn disagrees(site: &Site, dist: &Dist, row: &RecordRow) -> Result<Option<String>, Error> {
    if row.path.starts_with("../") || row.path.starts_with('/') || row.path.contains("__pycache__/") {
        return Ok(None);
    }
    let Some(bytes) = size(dist, &row.path) else {
        return Ok(Some("the file is listed and not there".to_owned()));
    };
    if let Some(listed) = row.size.filter(|listed| *listed != bytes) {
        return Ok(Some(format!("{listed} bytes are listed, the file has {bytes}")));
    }
    let Some(listed) =
        row.hash.as_ref().filter(|_| site.request.hashes).and_then(torchfl_wheel::RecordHash::sha256)
    else {
        return Ok(None);
    };
    let actual = hash(dist, &row.path)?;
    Ok((actual != listed).then(|| format!("sha256 {listed} is listed, the file has {actual}")))
}

/// A file's size in bytes, where it is there.
fn size(dist: &Dist, path: &str) -> Option<u64> {
    match dist.on_disk(path) {
        Some(path) => fs_err::metadata(path).ok().map(|meta| meta.len()),
        None => dist.files.get(path).copied().flatten(),
    }
}

fn hash(dist: &Dist, path: &str) -> Result<Sha256, Error> {
    let mut source: Box<dyn std::io::Read> = match (dist.on_disk(path), dist.archive()) {
        (Some(path), _) => {
            // Not a FIFO, which would wait for a writer.
            torchfl_elf::FileAt::open(&path).map_err(Error::Io)?;
            Box::new(fs_err::File::open(path).map_err(Error::Io)?)
        }
        (None, Some(archive)) => Box::new(archive.stream(path)?),
        (None, None) => Box::new(std::io::Cursor::new(dist.read(path)?)),
    };
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match source.read(&mut buffer).map_err(Error::Io)? {
            0 => return Ok(Sha256(hasher.finalize().into())),
            read => hasher.update(&buffer[..read]),
        }
    }
}

/// Files in the folder of another package, or over one of its files.
fn folders(site: &Site, found: &mut Vec<Finding>) {
    let subject = site.subject();
    let own = site.own_build().is_some();
    for path in subject.files.keys().filter(|path| !is_metadata(path)) {
        let top = path.split('/').next().unwrap_or(path);
        if own && OWN.contains(&top) {
            continue;
        }
        let taken = site.dists.iter().skip(1).find(|dist| {
            let package = format!("{top}/__init__.py");
            dist.has(path) || dist.has(&package) && !subject.has(&package)
        });
        match taken {
            Some(dist) => {
                let reason = format!("{top}/ belongs to {}", dist.name);
                found.push(rules::FOREIGN_FOLDER.finding(path, top, reason));
            }
            None if own => {
                let reason = "torch_fl has no business outside of its own folder";
                found.push(rules::FOREIGN_FOLDER.finding(path, top, reason));
            }
            None => {}
        }
    }
}

fn is_metadata(path: &str) -> bool {
    path.split('/').next().is_some_and(|top| matches!(top.rsplit_once('.'), Some((_, "dist-info" | "data"))))
}

fn is_stock_triton(name: &str) -> bool {
    name == "triton" || name == "pytorch-triton"
}

/// Requirements that bring Triton past the vendor's own, and distributions that already have.
fn triton(site: &Site, found: &mut Vec<Finding>) -> Result<(), Error> {
    let Some(triton) = site.build.as_ref().and_then(|build| build.audit.triton.as_ref()) else {
        return Ok(());
    };
    if triton.supplier == "pypi" {
        return Ok(());
    }
    let why = triton.why_not();
    let subject = site.subject();
    let file = subject.file_name();
    for (index, dist) in site.dists.iter().enumerate() {
        let owns = is_stock_triton(&dist.name) || dist.has("triton/__init__.py");
        if owns && !triton.owns(&dist.name, &dist.version) {
            let reason = format!("{} {} brings triton/, {why}", dist.name, dist.version);
            found.push(rules::TRITON.finding(&file, &dist.name, reason));
        }
        for name in requires(dist)?.into_iter().filter(|name| is_stock_triton(name)) {
            let who = if index == 0 { "the wheel" } else { dist.name.as_str() };
            let reason = format!("{who} requires {name}, {why}");
            found.push(rules::TRITON.finding(&file, name, reason));
        }
    }
    Ok(())
}

/// Requirements that nothing in the wheel's plan asks for. Of other wheels, Python code may import what they require.
fn unjustified(site: &Site, found: &mut Vec<Finding>) -> Result<(), Error> {
    let Some(build) = site.own_build() else { return Ok(()) };
    let subject = site.subject();
    let named: BTreeSet<String> =
        build.provided.iter().map(|provided| normalize_name(&provided.dist)).collect();
    let triton = build.audit.triton.as_ref();
    let owners: BTreeSet<String> =
        triton.iter().flat_map(|triton| &triton.owners).map(|owner| normalize_name(&owner.name)).collect();
    // Told of as the wrong one.
    let wrong = |name: &str| is_stock_triton(name) && triton.is_some_and(|triton| triton.supplier != "pypi");
    for name in requires(subject)? {
        if name != "torch" && !named.contains(&name) && !owners.contains(&name) && !wrong(&name) {
            let info = subject.info.as_deref().unwrap_or_default();
            let reason = format!("nothing in the plan asks for {name}");
            found.push(rules::UNJUSTIFIED.finding(format!("{info}/METADATA"), name, reason));
        }
    }
    Ok(())
}
