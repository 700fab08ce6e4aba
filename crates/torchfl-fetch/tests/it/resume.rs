//! Cut connections, servers of every kind, and what is left for the next run.

use std::thread;
use std::time::Duration;

use torchfl_fetch::{Error, State};
use torchfl_wheel::Sha256;

use crate::context::{Context, NAME, body, want};
use crate::server::{Answer, Server};

/// The name that a part of these bytes has.
fn part(body: &[u8]) -> String {
    format!(".{NAME}.{}.part", &Sha256::of(body).to_string()[..16])
}

#[test]
fn a_whole_file_under_its_encoded_name() {
    let all = body(300_000);
    let copy = all.clone();
    let server = Server::start(move |asked, _| Answer::file(asked, &copy, "\"1\""));
    Context::new().brings(&all, &[&format!("{}/files/", server.url())]);
    let asked = &server.asked()[0];
    assert_eq!((asked.method.as_str(), asked.target.as_str()), ("GET", "/files/torch-1.0%2Bx-cp311.whl"));
    assert_eq!(asked.header("accept-encoding"), Some("identity"));
    assert_eq!((asked.header("authorization"), asked.header("range")), (None, None));
}

#[test]
fn a_cut_connection_goes_on_where_it_was_cut() {
    let all = body(3_000_000);
    let copy = all.clone();
    let server = Server::start(move |asked, before| match before {
        0 => Answer::file(asked, &copy, "\"1\"").cut(1_000_000),
        1 => Answer::file(asked, &copy, "\"1\"").cut(500_000),
        _ => Answer::file(asked, &copy, "\"1\""),
    });
    Context::new().brings(&all, &[&server.url()]);
    let starts = server.starts();
    assert_eq!(starts.len(), 3);
    // What arrived of a cut answer is at most what was sent.
    assert!(starts[1].is_some_and(|start| start > 0 && start <= 1_000_000), "{starts:?}");
    assert!(starts[2] > starts[1], "{starts:?}");
    assert_eq!(server.asked()[1].header("if-range"), Some("\"1\""));
}

#[test]
fn a_later_run_goes_on_with_what_an_earlier_one_left() {
    let all = body(2_000_000);
    let copy = all.clone();
    let server = Server::start(move |asked, before| match before {
        0..5 => Answer::file(asked, &copy, "\"1\"").cut(if before == 0 { 700_000 } else { 0 }),
        _ => Answer::file(asked, &copy, "\"1\""),
    });
    let context = Context::new();
    let why = context.misses(&all, &[&server.url()]);
    assert!(why.ends_with("given up after 5 attempts"), "{why}");
    assert_eq!(context.there(), [part(&all), part(&all) + ".tag"]);
    context.brings(&all, &[&server.url()]);
    let last = server.asked().pop().unwrap();
    assert!(last.start() > Some(0) && last.header("if-range") == Some("\"1\""), "{last:?}");
}

#[test]
fn a_server_that_knows_no_ranges_sends_all_again() {
    let all = body(2_000_000);
    let copy = all.clone();
    let server = Server::start(move |_, before| match before {
        0 => Answer::whole(&copy).cut(900_000),
        _ => Answer::whole(&copy),
    });
    Context::new().brings(&all, &[&server.url()]);
    assert!(server.starts()[1].is_some());
}

#[test]
fn another_version_in_between_is_taken_from_its_start() {
    let (old, new) = (body(2_000_000), body(2_000_001).split_off(1));
    let (first, second) = (old, new.clone());
    let server = Server::start(move |asked, before| match before {
        0 => Answer::file(asked, &first, "\"old\"").cut(900_000),
        _ => Answer::file(asked, &second, "\"new\""),
    });
    Context::new().brings(&new, &[&server.url()]);
    assert_eq!(server.asked()[1].header("if-range"), Some("\"old\""));
    assert_eq!(server.asked().len(), 2);
}

/// It sends the rest of the new file although the old one was asked for: the pieces have no right sum.
#[test]
fn a_server_that_heeds_no_if_range_is_found_out_by_the_sum() {
    let (old, new) = (body(2_000_000), body(2_000_001).split_off(1));
    let (first, second) = (old, new.clone());
    let server = Server::start(move |asked, before| {
        let mut asked = asked.clone();
        asked.headers.remove("if-range");
        match before {
            0 => Answer::file(&asked, &first, "\"same\"").cut(900_000),
            _ => Answer::file(&asked, &second, "\"same\""),
        }
    });
    let context = Context::new();
    context.brings(&new, &[&server.url()]);
    let starts = server.starts();
    assert!(starts.len() == 3 && starts[1].is_some() && starts[2].is_none(), "{starts:?}");
}

#[test]
fn a_part_that_is_whole_already_needs_no_network() {
    let all = body(100_000);
    let server = Server::start(|_, _| Answer::status("500 no"));
    let context = Context::new();
    context.write(&format!("dest/{}", part(&all)), &all);
    context.brings(&all, &[&server.url()]);
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_part_that_is_too_long_is_begun_anew() {
    let all = body(100_000);
    let copy = all.clone();
    let server = Server::start(move |asked, _| Answer::file(asked, &copy, "\"1\""));
    let context = Context::new();
    context.write(&format!("dest/{}", part(&all)), &body(100_001));
    context.brings(&all, &[&server.url()]);
    assert_eq!(server.starts(), [Some(100_001), None]);
}

/// 416 with the very length that is there: whole, but wrong.
#[test]
fn a_part_of_the_right_length_and_wrong_bytes_is_begun_anew() {
    let all = body(100_000);
    let copy = all.clone();
    let server = Server::start(move |asked, _| Answer::file(asked, &copy, "\"1\""));
    let context = Context::new();
    context.write(&format!("dest/{}", part(&all)), &vec![0; 100_000]);
    context.brings(&all, &[&server.url()]);
    assert_eq!(server.starts(), [Some(100_000), None]);
}

#[test]
fn another_range_than_asked_for_is_not_written() {
    let all = body(2_000_000);
    let copy = all.clone();
    let server = Server::start(move |asked, before| match before {
        0 => Answer::file(asked, &copy, "\"1\"").cut(900_000),
        1 => Answer::new(
            "206 Partial",
            &[("Content-Range", "bytes 7-8/2000000"), ("Content-Length", "2")],
            b"no",
        ),
        _ => Answer::file(asked, &copy, "\"1\""),
    });
    Context::new().brings(&all, &[&server.url()]);
    assert_eq!(server.starts()[2], None);
}

#[test]
fn a_body_shorter_than_its_length_is_never_whole() {
    let all = body(100_000);
    let copy = all.clone();
    let server =
        Server::start(move |_, _| Answer::new("200 OK", &[("Content-Length", "100000")], &copy).cut(99_999));
    let context = Context::new();
    let why = context.misses(&all, &[&server.url()]);
    assert!(why.contains("given up after 5 attempts"), "{why}");
    assert_eq!(context.there(), [part(&all)]);
}

#[test]
fn a_chunked_body_that_lacks_its_end_is_never_whole() {
    let server =
        Server::start(|_, _| Answer::new("200 OK", &[("Transfer-Encoding", "chunked")], b"4\r\nabcd\r\n"));
    let context = Context::new();
    let why = context.misses(b"abcd", &[&server.url()]);
    assert!(why.contains("given up after 5 attempts"), "{why}");
}

#[test]
fn a_chunked_body_is_put_together() {
    let server = Server::start(|_, _| {
        Answer::new("200 OK", &[("Transfer-Encoding", "chunked")], b"4\r\nabcd\r\n2\r\nef\r\n0\r\n\r\n")
    });
    Context::new().brings(b"abcdef", &[&server.url()]);
}

#[test]
fn a_body_without_a_length_is_judged_by_its_sum() {
    let server =
        Server::start(|_, before| Answer::new("200 OK", &[], if before == 0 { b"abc" } else { b"abcd" }));
    let context = Context::new();
    let fault = context.fetch(&want(b"abcd"), &[&server.url()]).unwrap_err();
    assert!(matches!(fault, Error::WrongSum(_)), "{fault}");
    assert_eq!(context.there(), Vec::<String>::new());
    context.brings(b"abcd", &[&server.url()]);
}

#[test]
fn two_runs_at_once_fetch_it_once() {
    let all = body(500_000);
    let copy = all.clone();
    let server = Server::start(move |asked, _| {
        Answer::file(asked, &copy, "\"1\"").stall(200_000, Duration::from_millis(300))
    });
    let (context, url) = (Context::new(), server.url());
    let states = thread::scope(|scope| {
        let run = || context.fetch(&want(&all), &[&url]).unwrap().state;
        let both = [scope.spawn(run), scope.spawn(run)];
        both.map(|one| one.join().unwrap())
    });
    let fetched = states.iter().filter(|state| matches!(state, State::Fetched(..))).count();
    let present = states.iter().filter(|state| matches!(state, State::Present(_))).count();
    assert_eq!((fetched, present, server.asked().len()), (1, 1, 1));
    assert_eq!(context.there(), [NAME]);
    let notes = context.notes.0.lock().unwrap().join("\n");
    assert!(notes.contains("another run fetches"), "{notes}");
}

/// Without a sum the server's own word must say that the rest is of the same file.
#[test]
fn without_a_sum_only_a_known_version_is_gone_on_with() {
    let all = body(2_000_000);
    for (tag, goes_on) in [("\"1\"", true), ("W/\"1\"", false)] {
        let copy = all.clone();
        let server = Server::start(move |asked, before| match before {
            0 => Answer::file(asked, &copy, tag).cut(900_000),
            _ => Answer::file(asked, &copy, tag),
        });
        let context = Context::new();
        let mut want = want(&all);
        (want.sha256, want.unhashed) = (None, true);
        let found = context.fetch(&want, &[&server.url()]).unwrap();
        let State::Fetched(whole, _) = found.state else { panic!("{found:?}") };
        assert_eq!(whole.sha256, Sha256::of(&all));
        assert_eq!(server.starts()[1].is_some(), goes_on, "{tag}");
    }
}
