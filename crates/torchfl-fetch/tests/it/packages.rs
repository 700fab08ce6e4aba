//! Wheels of a package index that a test serves, through the pip of this machine's Python.

use std::path::{Path, PathBuf};
use std::process::Command;

use torchfl_fetch::{Error, Found, Installer, State, Want, What};
use torchfl_wheel::Sha256;

use crate::context::Context;
use crate::server::{Answer, Server};

const WHEEL: &str = "acme-1.0+x-cp311-cp311-manylinux_2_28_x86_64.whl";

/// A wheel as small as they get, made by Python's zipfile.
fn wheel(folder: &Path) -> Vec<u8> {
    let program = "import sys, zipfile\n\
        with zipfile.ZipFile(sys.argv[1], 'w') as wheel:\n\
        \x20   info = 'acme-1.0+x.dist-info/'\n\
        \x20   wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: acme\\nVersion: 1.0+x\\n')\n\
        \x20   wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nTag: cp311-cp311-manylinux_2_28_x86_64\\n')\n\
        \x20   wheel.writestr(info + 'RECORD', '')\n";
    let path = folder.join(WHEEL);
    let made = Command::new("python3").arg("-c").arg(program).arg(&path).status().unwrap();
    assert!(made.success());
    fs_err::read(path).unwrap()
}

/// An index (PEP 503) with that wheel, and without a word on its sum.
fn index(wheel: Vec<u8>) -> Server {
    Server::start(move |asked, _| match asked.target.as_str() {
        "/simple/acme/" => {
            let page = format!("<a href=\"../../files/{WHEEL}\">{WHEEL}</a>");
            let length = page.len().to_string();
            let headers = [("Content-Type", "text/html"), ("Content-Length", length.as_str())];
            Answer::new("200 OK", &headers, page.as_bytes())
        }
        target if target.starts_with("/files/") => Answer::whole(&wheel),
        _ => Answer::status("404 Not Found"),
    })
}

fn want(sha256: Option<Sha256>) -> Want {
    let what = What::Package {
        name: "acme".to_owned(),
        version: "1.0+x".parse().unwrap(),
        python: "cp311".to_owned(),
        arch: "x86_64".to_owned(),
    };
    Want { what, sha256, unhashed: false }
}

fn ask(context: &mut Context, server: &Server, want: &Want) -> Result<Found, Error> {
    let index = Some(format!("{}/simple", server.url()).replace("://", "://me:SECRET@"));
    context.installer = Some(Installer::Pip { python: PathBuf::from("python3"), index });
    context.fetch(want, &[])
}

#[test]
fn a_wheel_by_name_version_and_sum() {
    let mut context = Context::new();
    let wheel = wheel(context.path("").as_path());
    let server = index(wheel.clone());
    let want = want(Some(Sha256::of(&wheel)));
    let found = ask(&mut context, &server, &want).unwrap();
    let State::Fetched(whole, _) = &found.state else { panic!("{found:?}") };
    assert_eq!((whole.sha256, whole.path.clone()), (Sha256::of(&wheel), context.path("dest").join(WHEEL)));
    assert_eq!(context.there(), [WHEEL]);
    // The second time it is there, and nobody is asked, offline or not.
    let before = server.connections();
    assert!(matches!(ask(&mut context, &server, &want).unwrap().state, State::Present(_)));
    assert_eq!(server.connections(), before);
}

#[test]
fn another_sum_is_refused() {
    let mut context = Context::new();
    let wheel = wheel(context.path("").as_path());
    let fault = ask(&mut context, &index(wheel.clone()), &want(Some(Sha256::of(b"other")))).unwrap_err();
    let text = fault.to_string();
    assert!(fault.code() == "E-FET-002" && text.contains(&Sha256::of(&wheel).to_string()), "{text}");
    assert!(text.contains(&Sha256::of(b"other").to_string()) && !text.contains("SECRET"), "{text}");
    assert_eq!(context.there(), Vec::<String>::new());
}

#[test]
fn without_a_sum_pip_is_not_run_unless_allowed() {
    let mut context = Context::new();
    let wheel = wheel(context.path("").as_path());
    let server = index(wheel);
    let mut want = want(None);
    assert_eq!(ask(&mut context, &server, &want).unwrap_err().code(), "E-FET-004");
    assert_eq!(server.connections(), 0);
    want.unhashed = true;
    let found = ask(&mut context, &server, &want).unwrap();
    assert!(matches!(found.state, State::Fetched(..)), "{found:?}");
}

#[test]
fn a_version_that_the_index_does_not_have_is_missing() {
    let mut context = Context::new();
    let wheel = wheel(context.path("").as_path());
    let mut want = want(Some(Sha256::of(&wheel)));
    if let What::Package { version, .. } = &mut want.what {
        *version = "2.0".parse().unwrap();
    }
    let found = ask(&mut context, &index(wheel), &want).unwrap();
    assert_eq!(found.state, State::Missing);
    let why = &found.tried[0].why;
    assert!(why.contains("acme==2.0") && !why.contains("SECRET"), "{why}");
}

#[test]
fn offline_runs_no_pip_and_finds_the_wheel_in_a_folder() {
    let mut context = Context::new();
    fs_err::create_dir(context.path("mirror")).unwrap();
    let wheel = wheel(&context.path("mirror"));
    let server = index(wheel.clone());
    context.offline = true;
    let want = want(Some(Sha256::of(&wheel)));
    let found = ask(&mut context, &server, &want).unwrap();
    assert_eq!((found.state, found.tried[0].why.as_str()), (State::Missing, "not asked: offline"));
    let found = context.fetch(&want, &[context.path("mirror").to_str().unwrap()]).unwrap();
    assert!(matches!(found.state, State::Fetched(..)), "{found:?}");
    assert_eq!(server.connections(), 0);
}

/// A uv that does what it is told to: `tool run --python PY pip …` is `PY -m pip …`.
#[test]
fn uv_runs_a_pip_of_its_own() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut context = Context::new();
    let wheel = wheel(context.path("").as_path());
    let server = index(wheel.clone());
    let uv = context.path("uv");
    fs_err::write(&uv, "#!/bin/sh\n[ \"$1 $2 $3 $5\" = 'tool run --python pip' ] || exit 9\npython=$4\nshift 5\nexec \"$python\" -m pip \"$@\"\n")
        .unwrap();
    fs_err::set_permissions(&uv, std::fs::Permissions::from_mode(0o755)).unwrap();
    let index = Some(format!("{}/simple", server.url()));
    let installer = Installer::Uv { program: uv, python: PathBuf::from("python3"), index };
    assert!(installer.is_there());
    context.installer = Some(installer);
    let found = context.fetch(&want(Some(Sha256::of(&wheel))), &[]).unwrap();
    assert!(matches!(found.state, State::Fetched(..)), "{found:?}");
}

#[test]
fn a_python_that_is_not_there() {
    let mut context = Context::new();
    let python = PathBuf::from("/none/python3");
    context.installer = Some(Installer::Pip { python, index: None });
    let fault = context.fetch(&want(Some(Sha256::of(b""))), &[]).unwrap_err();
    assert_eq!((fault.code(), fault.is_finding()), ("E-FET-010", false));
}
