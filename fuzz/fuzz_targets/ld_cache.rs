//! Any bytes as an `ld.so.cache`: read for machines of both byte orders, and asked for names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use torchfl_elf::{Class, Endian, Machine};
use torchfl_loader::{Abi, Cache};

fuzz_target!(|data: &[u8]| {
    let hwcaps = ["glibc-hwcaps/x86-64-v3".to_owned(), "glibc-hwcaps/x86-64-v2".to_owned()];
    for (machine, endian) in [(62, Endian::Little), (22, Endian::Big)] {
        let abi = Abi { machine: Machine(machine), class: Class::Elf64, endian };
        let Ok(cache) = Cache::parse(data, "fuzz", abi) else { continue };
        cache.lookup("libc.so.6", &hwcaps);
        // A name that is there is found unless it asks for another processor.
        let names: Vec<&str> = cache.iter().map(|(name, _)| name).collect();
        for name in names.into_iter().take(100) {
            cache.lookup(name, &hwcaps);
        }
    }
});
