//! File names of any text; one that is read is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use torchfl_wheel::WheelName;

fuzz_target!(|text: &str| {
    for text in [text.to_owned(), format!("{text}.whl")] {
        if let Ok(name) = text.parse::<WheelName>() {
            assert_eq!(name.to_string().parse::<WheelName>().ok().as_ref(), Some(&name));
            assert!(!name.tags().is_empty());
        }
    }
});
