//! What can be said of each ELF file by itself.

use std::collections::BTreeSet;

use torchfl_elf::{Facts, Kind};
use torchfl_loader::Entry;

use crate::finding::{Finding, Severity};
use crate::policy::{Verdict, allows};
use crate::rules::{self, load::is_hash_named};
use crate::site::{Elf, SITE, Site, abi_of};
use crate::{Error, system};

const PT_LOAD: u32 = 1;
const AARCH64: u16 = 183;

/// All of them, for every file.
pub(crate) fn check(site: &Site, found: &mut Vec<Finding>) -> Result<(), Error> {
    let drivers = system::globs(&[site.request.drivers.clone(), host(site)].concat())?;
    let needed: BTreeSet<&str> =
        site.elfs.iter().flat_map(|elf| &elf.facts.needed).map(String::as_str).collect();
    for (path, reason) in &site.broken {
        found.push(rules::BROKEN.finding(path, "", reason));
    }
    for elf in &site.elfs {
        let name = base(&elf.path);
        stack(elf, found);
        alignment(site, elf, found);
        machine(site, elf, found);
        search_path(site, elf, found);
        floor(site, elf, found);
        version_needs(elf, found);
        if drivers.is_match(name)
            || elf.facts.soname.as_deref().is_some_and(|soname| drivers.is_match(soname))
        {
            found.push(rules::DRIVER.finding(
                &elf.path,
                name,
                format!("{name} belongs to the target machine"),
            ));
        }
        if is_hash_named(name) && !needed.contains(name) && elf.facts.kind == Kind::Library {
            let reason = "no file of the wheel needs it under this name";
            let finding = rules::HASH_NAMED.finding(&elf.path, name, reason);
            // Dead weight: what needs its partner and lacks it is told by who needs it.
            found.push(Finding { severity: Severity::Warning, ..finding });
        }
    }
    Ok(())
}

fn host(site: &Site) -> Vec<String> {
    site.build.as_ref().map(|build| build.audit.host.clone()).unwrap_or_default()
}

pub(crate) fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn stack(elf: &Elf, found: &mut Vec<Finding>) {
    let reason = match elf.facts.executable_stack {
        Some(false) => return,
        Some(true) => "PT_GNU_STACK is executable",
        None => "there is no PT_GNU_STACK, which means an executable stack",
    };
    found.push(rules::EXEC_STACK.finding(&elf.path, "", reason));
}

fn alignment(site: &Site, elf: &Elf, found: &mut Vec<Finding>) {
    let page = if site.abi.machine.0 == AARCH64 { 0x1_0000 } else { 0x1000 };
    for segment in elf.facts.segments.iter().filter(|segment| segment.kind == PT_LOAD) {
        let align = segment.align.max(1);
        let reason = if !align.is_power_of_two() {
            format!("p_align {align:#x} is no power of two")
        } else if segment.offset % align != segment.vaddr % align {
            format!("offset {:#x} and address {:#x} differ modulo {align:#x}", segment.offset, segment.vaddr)
        } else if align < page {
            format!("p_align {align:#x} is below the largest page, {page:#x}")
        } else {
            continue;
        };
        found.push(rules::ALIGNMENT.finding(&elf.path, format!("PT_LOAD at {:#x}", segment.vaddr), reason));
        return;
    }
}

fn machine(site: &Site, elf: &Elf, found: &mut Vec<Finding>) {
    let own = elf.facts.machine.to_string().replace('-', "_");
    let wheel = site.subject().wheel.as_ref();
    let tagged = wheel.map(|wheel| wheel.platform.as_str()).filter(|platform| *platform != "any");
    let wrong = match tagged {
        Some(platform) => !platform.split('.').any(|tag| tag.ends_with(&format!("_{own}"))),
        None => abi_of(&elf.facts) != site.abi,
    };
    if wrong {
        let wanted = tagged.unwrap_or("the other libraries");
        found.push(rules::MACHINE.finding(
            &elf.path,
            &own,
            format!("the file is for {own}, {wanted} is not"),
        ));
    }
}

fn search_path(site: &Site, elf: &Elf, found: &mut Vec<Finding>) {
    let Some(path) = &elf.facts.search_path else { return };
    let facts = site.build.as_ref().map(|build| &build.audit);
    let of_target = facts.iter().flat_map(|facts| facts.folders.iter().chain(&facts.sdk));
    let folder = elf.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    for entry in path.value.split(':').filter(|entry| !entry.is_empty()) {
        let full = entry.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", &format!("{SITE}/{folder}"));
        let there = matches!(site.files.entry(&full), Entry::Folder);
        if entry.starts_with('$') {
            let outside = !inside(&full);
            if !there && outside {
                found.push(rules::BUILD_PATH.finding(&elf.path, entry, "it leads out of site-packages"));
            } else if !there {
                found.push(rules::NOWHERE.finding(
                    &elf.path,
                    entry,
                    format!("{} is no folder", crate::site::shown(&full)),
                ));
            }
            continue;
        }
        let default =
            site.settings.default_folders.iter().chain([&"/usr/local/lib".to_owned()]).any(|d| d == entry);
        let theirs = of_target.clone().any(|folder| {
            entry == folder || entry.starts_with(&format!("{}/", folder.trim_end_matches('/')))
        });
        if !(there || default || theirs) {
            let reason = format!(
                "{} {} names a folder of the machine that built it",
                elf.facts.search_path.as_ref().map_or("", |p| tag(p.tag)),
                entry
            );
            found.push(rules::BUILD_PATH.finding(&elf.path, entry, reason));
        }
    }
}

fn tag(tag: torchfl_elf::Tag) -> &'static str {
    match tag {
        torchfl_elf::Tag::Rpath => "DT_RPATH",
        torchfl_elf::Tag::Runpath => "DT_RUNPATH",
    }
}

/// Whether `..` stays below site-packages.
fn inside(path: &str) -> bool {
    let mut depth = 0_i32;
    for part in path.strip_prefix(SITE).unwrap_or("/..").split('/').filter(|p| !p.is_empty() && *p != ".") {
        depth += if part == ".." { -1 } else { 1 };
        if depth < 0 {
            return false;
        }
    }
    true
}

/// Versions of system libraries above what the platform tag promises, with the symbol that needs each.
fn floor(site: &Site, elf: &Elf, found: &mut Vec<Finding>) {
    let tagged = site.subject().wheel.as_ref().and_then(|wheel| crate::site::tag_glibc(&wheel.platform));
    let Some((major, minor)) = tagged else { return };
    for need in &elf.facts.versions_needed {
        // One that the wheel or its company brings is judged by what that one defines.
        if site.machine.word(&need.file) != Some(system::Word::Tag) || brought(site, &need.file) {
            continue;
        }
        for version in need.versions.iter().filter(|version| !version.weak) {
            let Verdict::TooNew { limit } = allows(&site.promise, &need.file, &version.name) else {
                continue;
            };
            let symbol = asks_for(site, elf, &version.name);
            let because = symbol.map(|symbol| format!("{symbol} needs ")).unwrap_or_default();
            let most =
                limit.map_or_else(|| "none of that family".to_owned(), |limit| format!("{limit} at most"));
            found.push(rules::TAG_FLOOR.finding(
                &elf.path,
                &version.name,
                format!(
                    "{because}{} of {}; the tag's glibc {major}.{minor} promises {most}",
                    version.name, need.file
                ),
            ));
        }
    }
}

fn brought(site: &Site, soname: &str) -> bool {
    site.elfs.iter().any(|elf| base(&elf.path) == soname || elf.facts.soname.as_deref() == Some(soname))
}

/// A symbol of the file that is wanted in this version.
fn asks_for(site: &Site, elf: &Elf, version: &str) -> Option<String> {
    let Entry::File(entry) = site.files.entry(&format!("{SITE}/{}", elf.path)) else { return None };
    let object = site.files.library(&entry).ok()?;
    let symbols = &object.symbols;
    (0..symbols.len() as u32)
        .find(|index| {
            symbols.is_undefined(*index) && symbols.version(*index).is_some_and(|(name, _)| name == version)
        })
        .map(|index| symbols.text(index))
}

fn version_needs(elf: &Elf, found: &mut Vec<Finding>) {
    let Facts { needed, versions_needed, .. } = &elf.facts;
    for need in versions_needed.iter().filter(|need| !needed.contains(&need.file)) {
        let loader = need.file.starts_with("ld-linux") || need.file.starts_with("ld64.so");
        // The loader itself is in every process.
        if !loader {
            let versions: Vec<&str> = need.versions.iter().map(|version| version.name.as_str()).collect();
            let reason = format!(
                "versions {} are needed of {}, which is not in DT_NEEDED",
                versions.join(", "),
                need.file
            );
            found.push(rules::VERSION_OF_NOBODY.finding(&elf.path, &need.file, reason));
        }
    }
}
