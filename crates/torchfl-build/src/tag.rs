//! The wheel's platform tag, from what its libraries ask of glibc (PEP 600).

use torchfl_manifest::Resolved;

use crate::{Error, Library};

/// The oldest glibc that PEP 599 and PEP 600 know a Linux distribution of; nothing older is worth a promise.
const OLDEST: (u32, u32) = (2, 17);

/// `manylinux_2_28_x86_64`; an error if a library is for another machine, or asks for more than the manifest allows.
///
/// The ceiling is one on what is bundled. A plugin is compiled by whoever builds the wheel: where its compiler's glibc
/// is newer, the tag says so, and a note.
pub(crate) fn platform(
    resolved: &Resolved,
    libraries: &[Library],
    plugin: Option<&Library>,
    notes: &mut Vec<String>,
) -> Result<String, Error> {
    let ceiling = resolved.target.glibc;
    // A wheel is for one machine: the vendor's wheel says which, or the manifest has one only.
    let arch = resolved.target.arch.first().map_or("", |arch| arch.as_str());
    let mut floor = OLDEST;
    for library in libraries.iter().chain(plugin) {
        if self::arch(&library.facts.machine.to_string()) != arch {
            return Err(Error::Machine {
                library: library.name.clone(),
                found: library.facts.machine.to_string(),
                wanted: arch.to_owned(),
            });
        }
        let Some(needed) = library.glibc else { continue };
        if let Some(ceiling) = ceiling.filter(|ceiling| needed > *ceiling) {
            let error = above(library, needed, ceiling);
            if plugin.is_none_or(|plugin| !std::ptr::eq(plugin, library)) {
                return Err(error);
            }
            notes.push(format!("{error}: the wheel is for glibc {}.{}", needed.0, needed.1));
        }
        floor = floor.max(needed);
    }
    Ok(format!("manylinux_{}_{}_{arch}", floor.0, floor.1))
}

/// A machine's name in a wheel's spelling: `x86_64` for `x86-64`.
pub(crate) fn arch(machine: &str) -> String {
    machine.replace('-', "_")
}

/// Names the version as the library spells it (`GLIBC_2.2.5`), and the file that it is asked of.
fn above(library: &Library, needed: (u32, u32), ceiling: (u32, u32)) -> Error {
    let release = format!("GLIBC_{}.{}", needed.0, needed.1);
    let is =
        |name: &str| name.strip_prefix(&release).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let wanted = library.facts.versions_needed.iter().find_map(|need| {
        let version = need.versions.iter().find(|version| !version.weak && is(&version.name))?;
        Some((version.name.clone(), need.file.clone()))
    });
    let (version, file) = wanted.unwrap_or_else(|| (release.clone(), "glibc".to_owned()));
    Error::AboveCeiling {
        library: library.name.clone(),
        version,
        file,
        ceiling: format!("{}.{}", ceiling.0, ceiling.1),
    }
}
