//! Any bytes as an ELF file, read by every reader and patched. The first byte picks the edit; the rest is the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use torchfl_elf::{Edit, How, Patched, Tag, facts, own_tls, plan, relocations, symbol_table, symbols};

fuzz_target!(|data: &[u8]| {
    let Some((pick, file)) = data.split_first() else { return };
    let _ = facts(&file, "fuzz");
    if let Ok(symbols) = symbols(&file, "fuzz") {
        symbols.for_each(drop);
    }
    if let Ok(table) = symbol_table(&file, "fuzz") {
        for (index, symbol) in table.iter() {
            assert!(!table.name(index).contains(&0));
            let _ = (table.version(symbol.version), table.hashed(index));
        }
    }
    let _ = relocations(&file, "fuzz", &mut |relocation| assert_ne!(relocation.symbol, 0));
    let _ = own_tls(&file, "fuzz");
    let value = "/p:$ORIGIN/".repeat(usize::from(pick >> 2));
    let edit = match pick & 3 {
        0 => Edit::Remove,
        1 => Edit::Set { tag: Tag::Rpath, value },
        _ => Edit::Set { tag: Tag::Runpath, value },
    };
    // A refusal is fine, also by the plan's own check: tables of a hostile file may overlap.
    let Ok(patch) = plan(&file, "fuzz", &edit) else { return };
    assert!(patch.writes.windows(2).all(|pair| pair[0].offset + pair[0].len() <= pair[1].offset));
    let again = plan(&Patched::new(file, patch), "fuzz", &edit);
    assert!(again.is_ok_and(|patch| patch.how == How::Unchanged));
});
