//! One section by its name: what a file says to those who do not load it.

use goblin::elf::section_header::{SHN_XINDEX, SHT_NOBITS};

use crate::image::Image;
use crate::{Error, ReadAt};

/// The longest section that is read, in bytes: it is a note, not a program.
const LONGEST: u64 = 1 << 16;
/// The longest table of names, in bytes; that of a large library has some hundred.
const NAMES: u64 = 1 << 20;

/// The bytes of the section `section`, or `None` where the file has no section headers, or none of this name.
/// `name` is used in errors.
///
/// # Errors
///
/// A file that is no ELF file, whose headers lead out of it, or whose section is longer than 64 KiB.
pub fn section(file: &dyn ReadAt, name: &str, section: &str) -> Result<Option<Vec<u8>>, Error> {
    let image = Image::open(file, name)?;
    let sections = image.sections()?;
    // gABI, "ELF Header": an index that does not fit stands in the first section's sh_link.
    let index = match u32::from(image.header.e_shstrndx) {
        SHN_XINDEX => sections.first().map_or(0, |first| first.sh_link),
        index => index,
    };
    let Some(strings) = sections.get(index as usize).filter(|_| index != 0) else { return Ok(None) };
    if strings.sh_size > NAMES {
        return Err(image.malformed("the section names are longer than 1 MiB"));
    }
    let names = image.bytes(strings.sh_offset, strings.sh_size, "the section names")?;
    let is = |start: usize| {
        let rest = names.get(start..).unwrap_or_default();
        rest.strip_prefix(section.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    };
    let Some(found) = sections.iter().find(|one| one.sh_type != SHT_NOBITS && is(one.sh_name)) else {
        return Ok(None);
    };
    if found.sh_size > LONGEST {
        return Err(image.malformed(format!("section {section} is longer than 64 KiB")));
    }
    Ok(Some(image.bytes(found.sh_offset, found.sh_size, "a section")?))
}
