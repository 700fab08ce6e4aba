//! An archive of any bytes: opened, read member by member, and verified.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use torchfl_wheel::{Archive, WheelName, verify_source};

fuzz_target!(|data: &[u8]| {
    let path = Path::new("x-1-py3-none-any.whl");
    let Ok(name) = "x-1-py3-none-any.whl".parse::<WheelName>() else { return };
    if let Ok(archive) = Archive::from_source(Box::new(data.to_vec()), path) {
        for member in archive.members() {
            if let Ok(bytes) = archive.read(&member.name, 1 << 20) {
                assert_eq!(bytes.len() as u64, member.size);
            }
        }
        let _ = archive.metadata();
        let _ = archive.record();
    }
    let _ = verify_source(Box::new(data.to_vec()), path, &name);
});
