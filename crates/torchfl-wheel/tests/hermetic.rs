//! Umask, time zone and current folder do not show in a wheel.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::{NAME, entries, options, write};

/// Writes the usual wheel: into a folder that `environments_do_not_show` names when it runs this test in
/// other environments, else into one of its own.
#[test]
fn writes_the_usual_wheel() {
    let own = tempfile::tempdir().unwrap();
    let folder = std::env::var_os("WHEEL_TEST_FOLDER").map_or(own.path().to_owned(), PathBuf::from);
    let (path, written) = write(&folder, entries(), options(2));
    assert_eq!(fs_err::metadata(path).unwrap().len(), written.bytes);
}

#[test]
fn environments_do_not_show() {
    use std::os::unix::fs::PermissionsExt as _;
    let test = std::env::current_exe().unwrap();
    let mut wheels = Vec::new();
    for (umask, zone, locale, mode) in [
        ("022", "UTC", "C", 0o644),
        ("077", "Asia/Tokyo", "de_DE.UTF-8", 0o600),
        ("000", "America/St_Johns", "tr_TR", 0o666),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("umask {umask}; exec \"$0\" --exact writes_the_usual_wheel");
        let status = Command::new("sh")
            .args(["-c", &script])
            .arg(&test)
            .env("TZ", zone)
            .env("LC_ALL", locale)
            .env("SOURCE_DATE_EPOCH", "1700000000")
            .env("WHEEL_TEST_FOLDER", folder.path())
            .current_dir(folder.path())
            .status()
            .unwrap();
        assert!(status.success());
        let wheel = folder.path().join(NAME);
        assert_eq!(fs_err::metadata(&wheel).unwrap().permissions().mode() & 0o777, mode);
        wheels.push(fs_err::read(wheel).unwrap());
    }
    assert!(wheels[0] == wheels[1] && wheels[0] == wheels[2]);
}
