//! Folders, names that are not known, and doing without the network.

use torchfl_fetch::{State, Want, What};
use torchfl_wheel::Sha256;

use crate::context::{Context, NAME, want};
use crate::server::{Answer, Server};

#[test]
fn a_folder_and_a_file_address() {
    let context = Context::new();
    context.write(&format!("mirror/{NAME}"), b"right");
    let folder = context.path("mirror").to_str().unwrap().to_owned();
    context.brings(b"right", &[&folder]);
    fs_err::remove_file(context.path("dest").join(NAME)).unwrap();
    context.brings(b"right", &[&format!("file://{folder}")]);
    assert_eq!(fs_err::read(context.path("mirror").join(NAME)).unwrap(), b"right");
}

#[test]
fn a_wrong_file_in_a_folder_is_an_error() {
    let context = Context::new();
    context.write(&format!("mirror/{NAME}"), b"wrong");
    let fault = context.fetch(&want(b"right"), &[context.path("mirror").to_str().unwrap()]).unwrap_err();
    assert_eq!(fault.code(), "E-FET-002");
    assert_eq!(context.there(), Vec::<String>::new());
}

#[test]
fn a_name_with_an_unknown_part_is_found_by_its_sum() {
    let context = Context::new();
    context.write("mirror/torch-1.0+a-cp311-linux.whl", b"one");
    context.write("mirror/torch-1.0+b-cp311-linux.whl", b"two");
    let what = What::File { name: "torch-1.0+*-cp311-*.whl".to_owned() };
    let mut want = Want { what, sha256: Some(Sha256::of(b"two")), unhashed: false };
    let server = Server::start(|_, _| Answer::whole(b"two"));
    let mirror = context.path("mirror");
    let mirrors = [server.url(), mirror.to_str().unwrap().to_owned()];
    let mirrors: Vec<&str> = mirrors.iter().map(String::as_str).collect();
    let found = context.fetch(&want, &mirrors).unwrap();
    let State::Fetched(whole, _) = &found.state else { panic!("{found:?}") };
    assert_eq!(whole.path, context.path("dest/torch-1.0+b-cp311-linux.whl"));
    assert_eq!(found.tried[0].why, "it cannot be asked: the file's whole name is not known");
    assert_eq!(server.connections(), 0);
    // It is found again in the destination, and in a folder of two without a sum nobody chooses.
    assert!(matches!(context.fetch(&want, &mirrors).unwrap().state, State::Present(_)));
    fs_err::remove_dir_all(context.path("dest")).unwrap();
    (want.sha256, want.unhashed) = (None, true);
    let fault = context.fetch(&want, &mirrors).unwrap_err();
    assert!(fault.code() == "E-FET-005" && fault.to_string().contains("2 files in"), "{fault}");
}

#[test]
fn offline_asks_nobody() {
    let server = Server::start(|_, _| Answer::whole(b"right"));
    let mut context = Context::new();
    context.offline = true;
    context.network.proxies.http = Some(server.url());
    assert_eq!(
        context.misses(b"right", &[&server.url(), "http://files.invalid"]),
        "not asked: offline; not asked: offline"
    );
    context.write(&format!("mirror/{NAME}"), b"right");
    context.brings(b"right", &[&server.url(), context.path("mirror").to_str().unwrap()]);
    assert_eq!(server.connections(), 0);
}

#[test]
fn the_destination_may_be_a_mirror_too() {
    let context = Context::new();
    fs_err::create_dir_all(context.path("dest")).unwrap();
    let dest = context.path("dest");
    assert_eq!(context.misses(b"right", &[dest.to_str().unwrap()]), "it is the destination");
}
