//! Wrong sums, missing sums, and files that are there already.

use torchfl_fetch::{Error, State};
use torchfl_wheel::Sha256;

use crate::context::{Context, NAME, body, want};
use crate::server::{Answer, Server};

#[test]
fn a_wrong_sum_names_both_and_leaves_nothing() {
    let server = Server::start(|_, _| Answer::whole(b"another"));
    let context = Context::new();
    let fault = context.fetch(&want(b"right"), &[&server.url()]).unwrap_err();
    let expected = format!(
        "{NAME} from {}/ is another file: sha256 {} in 7 bytes, and {} is expected",
        server.url(),
        Sha256::of(b"another"),
        Sha256::of(b"right")
    );
    assert_eq!(fault.to_string(), expected);
    assert_eq!((fault.code(), fault.is_finding()), ("E-FET-002", true));
    assert_eq!(context.there(), Vec::<String>::new());
}

#[test]
fn a_wrong_sum_is_no_reason_not_to_ask_the_next_mirror() {
    let portal = Server::start(|_, _| Answer::whole(b"<html>sign in</html>"));
    let right = Server::start(|_, _| Answer::whole(b"right"));
    let context = Context::new();
    context.write(&format!("old/{NAME}"), b"stale");
    let old = context.path("old").to_str().unwrap().to_owned();
    context.brings(b"right", &[&portal.url(), &old, &right.url()]);
    let context = Context::new();
    let fault = context.fetch(&want(b"right"), &[&portal.url(), &old]).unwrap_err().to_string();
    assert!(fault.contains(&portal.url()), "the first one is told: {fault}");
}

/// Whoever owns it could change it after its sum was found right. Only root can give a file away.
#[test]
fn a_part_of_another_user_is_refused() {
    let server = Server::start(|_, _| Answer::whole(b"right"));
    let context = Context::new();
    let part = format!("dest/.{NAME}.{}.part", &Sha256::of(b"right").to_string()[..16]);
    context.write(&part, b"ri");
    if std::os::unix::fs::chown(context.path(&part), Some(1234), None).is_err() {
        println!("not run: only root can give a file to another user");
        return;
    }
    let fault = context.fetch(&want(b"right"), &[&server.url()]).unwrap_err();
    assert_eq!((fault.code(), server.connections()), ("E-FET-006", 0), "{fault}");
}

#[test]
fn a_packed_body_is_not_unpacked_and_said_to_be_packed() {
    let answer = |_: &_, _| {
        Answer::new("200 OK", &[("Content-Encoding", "gzip"), ("Content-Length", "3")], b"\x1f\x8bx")
    };
    let server = Server::start(answer);
    let context = Context::new();
    let fault = context.fetch(&want(b"right"), &[&server.url()]).unwrap_err().to_string();
    assert!(fault.ends_with("is expected; the server says that it sent it packed"), "{fault}");
    // Some servers say so of files that are archives themselves: what is sent counts.
    context.brings(b"\x1f\x8bx", &[&server.url()]);
}

#[test]
fn a_right_file_is_hashed_again_and_left_alone() {
    let server = Server::start(|_, _| Answer::status("500 no"));
    let context = Context::new();
    context.write(&format!("dest/{NAME}"), b"right");
    let before = fs_err::metadata(context.path("dest").join(NAME)).unwrap().modified().unwrap();
    let found = context.fetch(&want(b"right"), &[&server.url()]).unwrap();
    assert!(matches!(found.state, State::Present(_)), "{found:?}");
    assert_eq!(fs_err::metadata(context.path("dest").join(NAME)).unwrap().modified().unwrap(), before);
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_wrong_file_is_an_error_and_not_written_over() {
    let server = Server::start(|_, _| Answer::whole(b"right"));
    let context = Context::new();
    context.write(&format!("dest/{NAME}"), b"wrong");
    let fault = context.fetch(&want(b"right"), &[&server.url()]).unwrap_err();
    assert_eq!(fault.code(), "E-FET-003");
    assert_eq!(fs_err::read(context.path("dest").join(NAME)).unwrap(), b"wrong");
    assert_eq!(server.connections(), 0);
}

#[test]
fn without_a_sum_nothing_is_fetched_unless_allowed() {
    let all = body(1000);
    let copy = all.clone();
    let server = Server::start(move |asked, _| Answer::file(asked, &copy, "\"1\""));
    let context = Context::new();
    let mut want = want(&all);
    want.sha256 = None;
    let fault = context.fetch(&want, &[&server.url()]).unwrap_err();
    assert_eq!(fault.to_string(), format!("nobody says which sha256 {NAME} must have"));
    assert_eq!(server.connections(), 0);
    want.unhashed = true;
    let found = context.fetch(&want, &[&server.url()]).unwrap();
    let State::Fetched(whole, _) = found.state else { panic!("{found:?}") };
    assert_eq!(whole.sha256, Sha256::of(&all));
}

#[test]
fn without_a_sum_a_file_that_is_there_is_refused_with_the_sum_that_it_has() {
    let context = Context::new();
    context.write(&format!("dest/{NAME}"), b"brought");
    let mut want = want(b"");
    want.sha256 = None;
    let fault = context.fetch(&want, &[]).unwrap_err().to_string();
    assert!(fault.ends_with(&format!("{NAME} has {}", Sha256::of(b"brought"))), "{fault}");
    want.unhashed = true;
    assert!(matches!(context.fetch(&want, &[]).unwrap().state, State::Present(_)));
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let context = Context::new();
    fs_err::create_dir_all(context.path("dest").join(NAME)).unwrap();
    assert_eq!(context.fetch(&want(b""), &[]).unwrap_err().code(), "E-FET-006");
    fs_err::remove_dir(context.path("dest").join(NAME)).unwrap();
    let fifo = context.path("dest").join(NAME);
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    assert!(matches!(context.fetch(&want(b""), &[]).unwrap_err(), Error::NotFile { .. }));
}

/// A link under the name of a part must not have its target written to.
#[test]
fn a_part_that_is_a_link_is_refused() {
    let server = Server::start(|_, _| Answer::whole(b"right"));
    let context = Context::new();
    context.write("precious", b"precious");
    let part = format!(".{NAME}.{}.part", &Sha256::of(b"right").to_string()[..16]);
    fs_err::create_dir_all(context.path("dest")).unwrap();
    std::os::unix::fs::symlink(context.path("precious"), context.path("dest").join(part)).unwrap();
    let fault = context.fetch(&want(b"right"), &[&server.url()]).unwrap_err();
    assert_eq!(fault.code(), "E-FET-006");
    assert_eq!(fs_err::read(context.path("precious")).unwrap(), b"precious");
}
