//! RECORD of any bytes; what was read is read again from what is written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use torchfl_wheel::Record;

fuzz_target!(|data: &[u8]| {
    let Ok(record) = Record::parse(data, "RECORD") else { return };
    // A path that starts with a byte order mark cannot be written.
    let Ok(text) = record.render() else { return };
    assert!(Record::parse(text.as_bytes(), "RECORD").is_ok_and(|again| again == record));
});
