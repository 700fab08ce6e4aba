//! Machines, widths and byte orders for which no compiler is at hand: libraries made byte by byte.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers may fail the test")]

mod common;

use common::bytes::{self, NEEDED, Recipe, SONAME, SYMBOL};
use common::set;
use torchfl_elf::{
    Class, Data, Edit, Endian, Error, Facts, How, Patch, Patched, ReadAt, Tag, facts, plan, symbols,
};

const I386: u16 = 3;
const MIPS: u16 = 8;
const PPC: u16 = 20;
const S390: u16 = 22;
const ARM: u16 = 40;
const AARCH64: u16 = 183;
const RISCV: u16 = 243;

fn machines() -> Vec<Recipe> {
    vec![
        Recipe::new(false, true, I386, 0x1000),
        Recipe::new(false, true, ARM, 0x1_0000),
        Recipe::new(false, false, PPC, 0x1_0000),
        Recipe::new(true, true, AARCH64, 0x1000),
        Recipe::new(true, true, AARCH64, 0x20_0000),
        Recipe::new(true, false, S390, 0x1000),
        Recipe::new(true, true, RISCV, 0x1000),
        Recipe::new(false, true, 62, 0x1000), // x32
    ]
}

fn apply(bytes: &[u8], edit: &Edit) -> (Patch, Vec<u8>) {
    let patch = plan(&bytes, "hand", edit).unwrap();
    let view = Patched::new(bytes, patch.clone());
    let mut out = vec![0; view.len() as usize];
    view.read_exact_at(0, &mut out).unwrap();
    // The same by hand: what others do with the writes.
    let mut by_hand = bytes.to_vec();
    by_hand.resize(patch.len as usize, 0);
    for write in &patch.writes {
        let new = match &write.data {
            Data::Bytes(bytes) => bytes.clone(),
            Data::Copy { from, len } => bytes[*from as usize..][..*len as usize].to_vec(),
        };
        by_hand[write.offset as usize..][..new.len()].copy_from_slice(&new);
    }
    assert_eq!(out, by_hand);
    (patch, out)
}

fn read(bytes: &[u8]) -> Facts {
    let facts = facts(&bytes, "hand").unwrap();
    assert_eq!(facts.soname.as_deref(), Some(SONAME));
    assert_eq!(facts.needed, [NEEDED]);
    let names: Vec<_> = symbols(&bytes, "hand").unwrap().map(|symbol| symbol.unwrap().name).collect();
    assert_eq!(names, [SYMBOL, SONAME]);
    facts
}

#[test]
fn every_width_and_byte_order_is_read() {
    for recipe in machines() {
        let facts = read(&bytes::library(&recipe));
        assert_eq!(facts.class == Class::Elf64, recipe.is_64);
        assert_eq!(facts.endian == Endian::Little, recipe.little);
        assert_eq!(facts.machine.0, recipe.machine);
        assert_eq!(facts.build_id.as_deref(), Some("abababababababababababababababababababab"));
        assert_eq!(facts.executable_stack, None);
    }
}

#[test]
fn every_width_and_byte_order_is_patched() {
    for base in machines() {
        for (note, sections, spare, bss) in [
            (true, true, 2, true),
            (true, false, 2, true),
            (false, true, 1, true),
            (false, false, 0, true),
            (true, true, 0, false),
            (false, false, 2, false),
        ] {
            for search_path in [None, Some((15, "/old/path")), Some((29, "/old/path"))] {
                let recipe = Recipe { search_path, spare, note, sections, bss, ..base.clone() };
                let before = bytes::library(&recipe);
                let mut now = before.clone();
                let mut segments = 0;
                for value in ["/p", "$ORIGIN/a:$ORIGIN/b", &"/long".repeat(50), "/p", &"/longer".repeat(100)]
                {
                    for tag in [Tag::Rpath, Tag::Runpath] {
                        let (patch, after) = apply(&now, &set(tag, value));
                        let facts = read(&after);
                        let found = facts.search_path.as_ref().map(|path| (path.tag, path.value.as_str()));
                        assert_eq!(found, Some((tag, value)), "{recipe:?}");
                        check_new_segment(&recipe, &facts);
                        if segments > 0 && patch.how == How::Appended {
                            assert_eq!(facts.segments.len(), segments, "{recipe:?}");
                        }
                        if facts.segments.len() > read(&before).segments.len() {
                            segments = facts.segments.len();
                        }
                        let again = plan(&after, "hand", &set(tag, value)).unwrap();
                        assert_eq!((again.how, again.writes.len()), (How::Unchanged, 0));
                        now = after;
                    }
                }
                let (_, after) = apply(&now, &Edit::Remove);
                assert_eq!(read(&after).search_path, None);
                assert!(
                    !after.windows(4).any(|w| w == b"/lon" || w == b"/old"),
                    "no text is left: {recipe:?}"
                );
            }
        }
    }
}

fn check_new_segment(recipe: &Recipe, facts: &Facts) {
    let loads: Vec<_> = facts.segments.iter().filter(|segment| segment.kind == 1).collect();
    if let [.., last] = &loads[2..] {
        let page = if matches!(recipe.machine, AARCH64 | ARM | PPC) { 0x1_0000 } else { 0x1000 };
        assert!(last.align >= page && last.align >= recipe.align, "{recipe:?}");
        assert_eq!(last.vaddr % last.align, last.offset % last.align);
        assert!(last.writable && !last.executable);
    }
}

#[test]
fn headers_move_to_the_tail_only_where_nothing_else_helps() {
    let offset = |bytes: &[u8]| u64::from_le_bytes(bytes[32..40].try_into().unwrap());
    let moved = Recipe { note: false, sections: false, ..Recipe::new(true, true, AARCH64, 0x1_0000) };
    let (_, after) = apply(&bytes::library(&moved), &set(Tag::Runpath, "/p"));
    assert_ne!(offset(&after), 64);
    let stays = Recipe { sections: false, note: true, ..moved };
    let (_, after) = apply(&bytes::library(&stays), &set(Tag::Runpath, "/p"));
    assert_eq!(offset(&after), 64);
}

#[test]
fn mips_and_unknown_machines_are_read_but_not_patched() {
    for machine in [MIPS, 0x9999] {
        let bytes = bytes::library(&Recipe::new(true, false, machine, 0x1_0000));
        read(&bytes);
        let error = plan(&bytes, "hand", &Edit::Remove).unwrap_err();
        assert_eq!(error.code(), "E-ELF-006");
        assert!(
            error.to_string().contains(if machine == MIPS { "mips" } else { "machine-39321" }),
            "{error}"
        );
    }
}

#[test]
fn a_32_bit_address_space_that_is_full_is_refused() {
    let mut bytes = bytes::library(&Recipe::new(false, true, I386, 0x1000));
    // The second segment (at 52 + 32) and PT_DYNAMIC move to the top of memory.
    let top = 0xffff_f600_u32.to_le_bytes();
    for header in [52 + 32, 52 + 64] {
        bytes[header + 8..header + 12].copy_from_slice(&top);
    }
    let error = plan(&bytes, "hand", &set(Tag::Rpath, "/p")).unwrap_err();
    assert!(matches!(error, Error::NoRoom { .. }), "{error}");
}

#[test]
fn every_cut_of_a_file_is_an_error_and_not_a_panic() {
    let whole = bytes::library(&Recipe {
        search_path: Some((29, "/old/path")),
        ..Recipe::new(true, true, AARCH64, 0x1000)
    });
    for len in 0..whole.len() {
        let cut = &whole[..len];
        let error = facts(&cut, "cut").unwrap_err();
        assert!(matches!(error, Error::NotElf { .. } | Error::Truncated { .. }), "{len}: {error}");
        assert!(plan(&cut, "cut", &Edit::Remove).is_err());
    }
}

#[test]
fn what_is_not_a_dynamic_file_is_named() {
    let mut object = bytes::library(&Recipe::new(true, true, AARCH64, 0x1000));
    object[16] = 1;
    assert_eq!(plan(&object, "o", &Edit::Remove).unwrap_err().code(), "E-ELF-007");
    assert_eq!(plan(&b"!<arch>\n not elf ".as_slice(), "o", &Edit::Remove).unwrap_err().code(), "E-ELF-003");
    let mut fixed = bytes::library(&Recipe::new(true, true, AARCH64, 0x1000));
    fixed[64 + 2 * 56] = 0; // PT_DYNAMIC → PT_NULL: a static program
    assert_eq!(plan(&fixed, "o", &Edit::Remove).unwrap_err().code(), "E-ELF-007");
    let nul = plan(&fixed, "o", &set(Tag::Rpath, "a\0b")).unwrap_err();
    assert_eq!(nul.code(), "E-ELF-008");
}
