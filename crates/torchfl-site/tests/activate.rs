//! The switch in an environment that is only a folder: no Python is needed to write or remove it.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests")]

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use torchfl_site::{Environment, activate, deactivate};

fn environment(site: &Path, installed: bool) -> Environment {
    Environment {
        python: PathBuf::from("venv/bin/python"),
        version: "3.11.7".to_owned(),
        cache_tag: "cpython-311".to_owned(),
        purelib: site.to_owned(),
        torch_fl: installed.then(|| site.join("torch_fl")),
        torch: None,
    }
}

fn files(site: &Path) -> Vec<String> {
    let entries = fs_err::read_dir(site).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn the_switch_is_written_once_and_removed_once() {
    let site = TempDir::new().unwrap();
    let here = environment(site.path(), true);
    let changes = [activate(&here, "import torch_fl\n"), activate(&here, "import torch_fl\n")];
    assert_eq!(changes.map(|switch| switch.unwrap().changed), [true, false]);
    assert_eq!(files(site.path()), ["00-torch_fl.pth"]);
    let changes = [deactivate(&here), deactivate(&here)];
    assert_eq!(changes.map(|switch| switch.unwrap().changed), [true, false]);
    assert!(files(site.path()).is_empty());
}

#[test]
fn without_the_wheel_it_is_not_written_but_removed() {
    let site = TempDir::new().unwrap();
    activate(&environment(site.path(), true), "import torch_fl\n").unwrap();
    let gone = environment(site.path(), false);
    let error = activate(&gone, "import torch_fl\n").unwrap_err();
    assert_eq!(error.code(), "E-SITE-004");
    assert!(error.hint().unwrap().contains("venv/bin/python -m pip install"));
    assert!(deactivate(&gone).unwrap().changed);
}

#[test]
fn a_file_that_is_somebody_elses_stays() {
    let site = TempDir::new().unwrap();
    let file = site.path().join("00-torch_fl.pth");
    fs_err::write(&file, "import mine\n").unwrap();
    let here = environment(site.path(), true);
    assert_eq!(activate(&here, "import torch_fl\n").unwrap_err().code(), "E-SITE-005");
    assert_eq!(deactivate(&here).unwrap_err().code(), "E-SITE-005");
    assert_eq!(fs_err::read_to_string(&file).unwrap(), "import mine\n");
}

#[test]
fn a_file_that_cannot_be_read_or_written() {
    let site = TempDir::new().unwrap();
    let here = environment(&site.path().join("none"), true);
    let error = activate(&here, "import torch_fl\n").unwrap_err();
    assert_eq!(error.code(), "E-SITE-007");
    assert!(!error.to_string().contains(".torchfl-"), "{error}");
    // A folder under the name of the file.
    fs_err::create_dir(site.path().join("00-torch_fl.pth")).unwrap();
    assert_eq!(deactivate(&environment(site.path(), true)).unwrap_err().code(), "E-SITE-006");
}
