//! Faults that pass, and the end of patience.

use std::time::{Duration, Instant};

use crate::context::{Context, body};
use crate::server::{Answer, Server};

#[test]
fn a_busy_server_is_asked_again() {
    for status in ["503 Busy", "429 Too Many Requests", "408 Timeout", "500 Oops"] {
        let server = Server::start(move |_, before| match before {
            0 | 1 => Answer::status(status),
            _ => Answer::whole(b"right"),
        });
        Context::new().brings(b"right", &[&server.url()]);
        assert_eq!(server.asked().len(), 3, "{status}");
    }
}

#[test]
fn a_pause_that_the_server_wants_is_kept() {
    let server = Server::start(|_, before| match before {
        0 => Answer::new("429 Slow down", &[("Retry-After", "1"), ("Content-Length", "0")], b""),
        _ => Answer::whole(b"right"),
    });
    let start = Instant::now();
    Context::new().brings(b"right", &[&server.url()]);
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[test]
fn a_pause_that_is_too_long_is_the_end() {
    let server = Server::start(|_, _| {
        Answer::new("503 Later", &[("Retry-After", "86400"), ("Content-Length", "0")], b"")
    });
    let why = Context::new().misses(b"right", &[&server.url()]);
    assert_eq!(why, "503 Service Unavailable; it wants to be left alone for 86400 s");
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn patience_ends() {
    let server = Server::start(|_, _| Answer::status("502 Bad Gateway"));
    let mut context = Context::new();
    context.network.retries = 2;
    assert_eq!(context.misses(b"right", &[&server.url()]), "502 Bad Gateway; given up after 3 attempts");
    assert_eq!(server.asked().len(), 3);
    assert_eq!(context.there(), Vec::<String>::new());
}

#[test]
fn what_cannot_get_better_is_asked_once_and_the_next_mirror_is_asked() {
    let none = Server::start(|_, _| Answer::status("404 Not Found"));
    let closed = Server::start(|_, _| Answer::status("403 Forbidden"));
    let good = Server::start(|_, _| Answer::whole(b"right"));
    Context::new().brings(b"right", &[&none.url(), &closed.url(), &good.url()]);
    assert_eq!((none.asked().len(), closed.asked().len(), good.asked().len()), (1, 1, 1));
}

#[test]
fn a_server_that_falls_silent_is_left_and_asked_for_the_rest() {
    let all = body(2_000_000);
    let copy = all.clone();
    let server = Server::start(move |asked, before| match before {
        0 => Answer::file(asked, &copy, "\"1\"").stall(900_000, Duration::from_secs(3)),
        _ => Answer::file(asked, &copy, "\"1\""),
    });
    let context = Context::new();
    context.brings(&all, &[&server.url()]);
    assert!(server.starts()[1].is_some_and(|start| start > 0));
    let notes = context.notes.0.lock().unwrap().join("\n");
    assert!(notes.contains("nothing came for too long"), "{notes}");
}

#[test]
fn a_server_that_is_not_there() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut context = Context::new();
    context.network.retries = 1;
    let why = context.misses(b"right", &[&format!("http://me:SECRET@127.0.0.1:{port}/?token=SECRET")]);
    assert!(why.contains("refused") && why.ends_with("given up after 2 attempts"), "{why}");
    assert!(!why.contains("SECRET"), "{why}");
}

/// A long file over a bad line: each attempt comes further, so none is counted against the next.
#[test]
fn attempts_that_come_further_are_not_counted() {
    let all = body(12_000_000);
    let copy = all.clone();
    let server = Server::start(move |asked, _| {
        let rest = copy.len() - asked.start().unwrap_or_default();
        let answer = Answer::file(asked, &copy, "\"1\"");
        if rest > 1_500_000 { answer.cut(1_500_000) } else { answer }
    });
    let mut context = Context::new();
    context.network.retries = 2;
    context.brings(&all, &[&server.url()]);
    assert!(server.asked().len() > 4, "{}", server.asked().len());
}
