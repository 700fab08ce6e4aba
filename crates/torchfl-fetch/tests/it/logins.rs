//! Who is told a login: the mirror, and nobody else. Proxies.

use torchfl_fetch::{Client, Netrc, Network, Proxies};

use crate::context::{Context, NAME, quick};
use crate::server::{Answer, Asked, Server};

/// `me:pass` and `you:word` (RFC 7617).
const ME: &str = "Basic bWU6cGFzcw==";
const YOU: &str = "Basic eW91OndvcmQ=";

/// A server that wants this login.
fn locked(login: &'static str) -> Server {
    Server::start(move |asked, _| match asked.header("authorization") {
        Some(given) if given == login => Answer::whole(b"right"),
        _ => Answer::new("401 Unauthorized", &[("WWW-Authenticate", "Basic"), ("Content-Length", "0")], b""),
    })
}

fn with_login(server: &Server) -> String {
    server.url().replace("://", "://me:pass@")
}

#[test]
fn a_login_of_the_address() {
    let server = locked(ME);
    Context::new().brings(b"right", &[&with_login(&server)]);
}

#[test]
fn a_login_of_netrc_by_its_host() {
    let server = locked(YOU);
    let mut context = Context::new();
    context.network.netrc =
        Netrc::parse("machine other login me password pass\nmachine 127.0.0.1 login you password word")
            .unwrap();
    context.brings(b"right", &[&server.url()]);
}

#[test]
fn a_wrong_login_is_told_once_and_not_shown() {
    let server = locked(YOU);
    let context = Context::new();
    let found = context.fetch(&crate::context::want(b"right"), &[&with_login(&server)]).unwrap();
    assert_eq!(found.tried[0].why, "401 Unauthorized: a login is needed, or another one");
    assert_eq!(found.tried[0].place, format!("{}/", server.url()));
    assert!(!format!("{found:?}").contains("pass"), "{found:?}");
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn a_redirect_to_another_host_has_no_login() {
    let target = Server::start(|_, _| Answer::whole(b"right"));
    // Another port, and the same address under another name; the target's host is in netrc, too.
    for to in [target.url(), target.other_host()] {
        let place = format!("{to}/elsewhere");
        let server = Server::start(move |_, _| Answer::redirect(&place.replace("://", "://x:y@")));
        let mut context = Context::new();
        context.network.netrc = Netrc::parse("default login you password word").unwrap();
        context.brings(b"right", &[&with_login(&server)]);
        assert_eq!(server.asked()[0].header("authorization"), Some(ME));
    }
    let asked = target.asked();
    assert_eq!(asked.len(), 2);
    for one in asked {
        assert_eq!((one.target.as_str(), one.header("authorization")), ("/elsewhere", None));
        assert!(one.headers.values().all(|value| !value.contains("bWU6")), "{one:?}");
    }
}

#[test]
fn a_redirect_on_the_same_host_keeps_the_login_until_it_leaves() {
    let server = Server::start(|asked, _| match asked.target.as_str() {
        "/again" => Answer::whole(b"right"),
        _ => Answer::redirect("/again"),
    });
    Context::new().brings(b"right", &[&with_login(&server)]);
    assert!(server.asked().iter().all(|asked| asked.header("authorization") == Some(ME)));

    // There and back again: whoever is between may have changed where it leads.
    let home = Server::start(|_, _| Answer::whole(b"right"));
    let back = format!("{}/back", home.url());
    let between = Server::start(move |_, _| Answer::redirect(&back));
    let away = between.url();
    let first = Server::start(move |_, before| match before {
        0 => Answer::redirect(&away),
        _ => Answer::whole(b"right"),
    });
    Context::new().brings(b"right", &[&with_login(&first)]);
    assert_eq!(home.asked()[0].header("authorization"), None);
}

#[test]
fn redirects_end() {
    let circle = Server::start(|asked, _| Answer::redirect(if asked.target == "/a" { "/b" } else { "/a" }));
    assert_eq!(Context::new().misses(b"right", &[&circle.url()]), "redirects lead in a circle");
    assert_eq!(circle.asked().len(), 3);
    let endless = Server::start(|_, before| Answer::redirect(&format!("/{before}")));
    assert_eq!(Context::new().misses(b"right", &[&endless.url()]), "more than 10 redirects");
    assert_eq!(endless.asked().len(), 10);
}

fn proxied(proxy: &Server) -> Network {
    let with_login = proxy.url().replace("://", "://you:word@");
    let proxies =
        Proxies { http: Some(with_login.clone()), https: Some(with_login), except: Some("127.0.0.1".into()) };
    Network { proxies, ..quick() }
}

#[test]
fn a_proxy_is_asked_for_the_whole_address() {
    let proxy = Server::start(|_, _| Answer::whole(b"right"));
    let mut context = Context::new();
    context.network = proxied(&proxy);
    context.brings(b"right", &["http://me:pass@files.invalid/a"]);
    let asked = &proxy.asked()[0];
    assert_eq!(asked.target, format!("http://files.invalid/a/{}", NAME.replace('+', "%2B")));
    assert_eq!((asked.header("proxy-authorization"), asked.header("authorization")), (Some(YOU), Some(ME)));
}

#[test]
fn hosts_that_need_no_proxy_are_asked_themselves() {
    let proxy = Server::start(|_, _| Answer::status("500 no"));
    let server = Server::start(|_, _| Answer::whole(b"right"));
    let mut context = Context::new();
    context.network = proxied(&proxy);
    context.brings(b"right", &[&server.url()]);
    assert_eq!(proxy.connections(), 0);
    assert_eq!(server.asked()[0].header("proxy-authorization"), None);
}

#[test]
fn https_goes_through_a_proxys_tunnel() {
    let proxy = Server::start(|_, _| Answer::status("403 Forbidden"));
    let mut context = Context::new();
    context.network = Network { retries: 0, ..proxied(&proxy) };
    let why = context.misses(b"right", &["https://me:pass@files.invalid/a"]);
    assert!(!why.contains("pass") && !why.contains("word"), "{why}");
    let Asked { method, target, headers } = &proxy.asked()[0];
    assert_eq!((method.as_str(), target.as_str()), ("CONNECT", "files.invalid:443"));
    assert_eq!(headers.get("authorization"), None);
    assert_eq!(headers.get("proxy-authorization").map(String::as_str), Some(YOU));
}

#[test]
fn certificates_and_proxies_that_are_none_are_told_without_their_text() {
    let fault = |network: Network| Client::new(&network).unwrap_err();
    let pem = fault(Network { authorities: Some(b"SECRET".to_vec()), ..quick() });
    assert_eq!(pem.code(), "E-FET-009");
    let proxies = Proxies { http: Some("http://me:SECRET@[".to_owned()), ..Proxies::default() };
    let proxy = fault(Network { proxies, ..quick() });
    assert_eq!(proxy.to_string(), "the network cannot be set up: a proxy is no address");
}
