//! Any text: read, then resolved where it is a manifest. Problems must lie inside the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use torchfl_manifest::{Error, Manifest, Request, check, resolve};

fuzz_target!(|text: &str| {
    match Manifest::parse(text, "fuzz") {
        Ok(manifest) => {
            check(&manifest);
            let _ = resolve(&manifest, &Request::default());
        }
        Err(error @ Error::Invalid { .. }) => {
            let _ = error.to_string();
            let Error::Invalid { problems, .. } = error else { return };
            assert!(problems.iter().all(|problem| text.get(problem.span.clone()).is_some()));
        }
        Err(other) => panic!("{other}"),
    }
});
