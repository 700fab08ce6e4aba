//! Any bytes as a snapshot, as they are and packed; what is read is written, read again, and compared with
//! itself.
#![no_main]

use std::io::Write as _;

use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;
use torchfl_loader::{Diff, Files, Snapshot};

fuzz_target!(|data: &[u8]| {
    let _ = Snapshot::parse(data, "fuzz");
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let Ok(packed) = gzip.write_all(data).and_then(|()| gzip.finish()) else { return };
    let Ok(snapshot) = Snapshot::parse(&packed, "fuzz") else { return };
    let written = snapshot.write().unwrap();
    let again = Snapshot::parse(&written, "again").unwrap();
    assert_eq!(again.write().unwrap(), written);
    assert_eq!(Diff::between(&snapshot, &again), Diff::default());
    snapshot.mount(&mut Files::new());
});
