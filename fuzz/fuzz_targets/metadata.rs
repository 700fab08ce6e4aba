//! METADATA and WHEEL of any bytes; what can be written is read back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use torchfl_wheel::{Metadata, WheelFile};

fuzz_target!(|data: &[u8]| {
    let _ = WheelFile::parse(data, "WHEEL");
    let Ok(metadata) = Metadata::parse(data, "METADATA") else { return };
    let _ = metadata.requires_dist();
    if let Ok(text) = metadata.render() {
        let again = Metadata::parse(text.as_bytes(), "METADATA");
        assert!(again.is_ok_and(|again| again.headers == metadata.headers));
    }
});
