//! Requests: redirects, logins, proxies, and what may be said of a fault.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::fmt;
use std::io;
use std::time::Duration;

use reqwest::blocking::{Client as Inner, Response};
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue, LOCATION, USER_AGENT};
use reqwest::{Certificate, NoProxy, Proxy, StatusCode, Url};

use crate::mirror::{Address, shown, strip};
use crate::{Error, Login, Netrc};

/// A chain of redirects has at most so many links: browsers and curl stop between 20 and 50, and a mirror has
/// one.
const HOPS: usize = 10;

/// How the network is reached.
#[derive(Clone)]
pub struct Network {
    /// Proxies, as the variables say them.
    pub proxies: Proxies,
    /// Logins by host.
    pub netrc: Netrc,
    /// Certificates that are trusted beside the system's, in PEM.
    pub authorities: Option<Vec<u8>>,
    /// How long a connection may take, and how long a server may send nothing.
    pub patience: Duration,
    /// How often one file is tried again without having come further.
    pub retries: u32,
    /// The pause before the first of them; each further one doubles it.
    pub pause: Duration,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            proxies: Proxies::default(),
            netrc: Netrc::default(),
            authorities: None,
            patience: Duration::from_secs(30),
            retries: 4,
            pause: Duration::from_millis(500),
        }
    }
}

/// Proxies by the scheme of what is fetched.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For `http`, `http://[name:password@]host:port`.
    pub http: Option<String>,
    /// For `https`.
    pub https: Option<String>,
    /// Hosts that are reached without one: `host`, `.domain`, `10.0.0.0/8`, `*`, parted by commas.
    pub except: Option<String>,
}

/// A client for one run. It keeps no cookies and follows no redirect by itself.
pub struct Client {
    inner: Inner,
    netrc: Netrc,
    pub(crate) retries: u32,
    pub(crate) pause: Duration,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client(…)")
    }
}

/// Why a request had no answer that helps.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The file is not there.
    Absent,
    /// Another attempt may succeed, not before so long.
    Passing { why: String, after: Option<Duration> },
    /// No other attempt will.
    Lasting(String),
}

impl Client {
    /// Sets up TLS and proxies. No connection is made.
    ///
    /// # Errors
    ///
    /// [`Error::Network`]: certificates that are none, a proxy that is no address.
    pub fn new(network: &Network) -> Result<Self, Error> {
        // The first one stays; it is the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let fault = |why: String| Error::Network { why };
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("torchfl/", env!("CARGO_PKG_VERSION"))));
        // The bytes are those of the file, or their sum is not the file's.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let mut builder = Inner::builder()
            .default_headers(headers)
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .no_proxy()
            .connect_timeout(network.patience)
            // Of the blocking client this is the time of one read.
            .timeout(network.patience);
        let Proxies { http, https, except } = &network.proxies;
        let except = except.as_deref().and_then(NoProxy::from_string);
        let proxies = [http.clone().map(Proxy::http), https.clone().map(Proxy::https)];
        for proxy in proxies.into_iter().flatten() {
            let proxy = proxy.map_err(|_| fault("a proxy is no address".to_owned()))?;
            builder = builder.proxy(proxy.no_proxy(except.clone()));
        }
        if let Some(pem) = &network.authorities {
            let certificates = Certificate::from_pem_bundle(pem)
                .map_err(|error| fault(format!("no certificate in PEM: {}", told(error))))?;
            if certificates.is_empty() {
                return Err(fault("no certificate in PEM".to_owned()));
            }
            builder = builder.tls_certs_merge(certificates);
        }
        let inner = builder.build().map_err(|error| fault(told(error)))?;
        Ok(Self { inner, netrc: network.netrc.clone(), retries: network.retries, pause: network.pause })
    }

    /// Asks for the file `name` of a mirror, with these headers, and follows redirects.
    ///
    /// The login, of the address or else of netrc, goes to the mirror's own scheme, host and port alone, and
    /// not even there once a redirect has led away.
    pub(crate) fn get(&self, mirror: &Address, name: &str, headers: &HeaderMap) -> Result<Response, Fault> {
        let mut url = mirror.of(name);
        let start = url.origin();
        let mut login =
            mirror.login.as_ref().or_else(|| self.netrc.login(url.host_str().unwrap_or_default())).cloned();
        let mut seen = BTreeSet::new();
        loop {
            if !seen.insert(url.to_string()) {
                return Err(Fault::Lasting("redirects lead in a circle".to_owned()));
            }
            if seen.len() > HOPS {
                return Err(Fault::Lasting(format!("more than {HOPS} redirects")));
            }
            let mut request = self.inner.get(url.clone()).headers(headers.clone());
            if let Some(Login { name, password }) = &login {
                request = request.basic_auth(name, Some(password));
            }
            let response = request.send().map_err(unsent)?;
            if !response.status().is_redirection() || response.status() == StatusCode::NOT_MODIFIED {
                return judge(response);
            }
            let place = response.headers().get(LOCATION).and_then(|place| place.to_str().ok());
            let next = next(&url, place)?;
            if next.origin() != start {
                login = None;
            }
            url = next;
        }
    }
}

/// Why nothing was answered. A certificate does not get better.
fn unsent(error: reqwest::Error) -> Fault {
    let tls = is_tls(&error);
    let why = told(error);
    if tls { Fault::Lasting(why) } else { Fault::Passing { why, after: None } }
}

/// Whether rustls refused. What an `io::Error` holds is not its source, but the holder of its source.
fn is_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    error.is::<rustls::Error>() || held.is_some_and(|held| is_tls(held)) || error.source().is_some_and(is_tls)
}

/// Where a redirect leads.
fn next(from: &Url, place: Option<&str>) -> Result<Url, Fault> {
    let lasting = |why: String| Fault::Lasting(why);
    let place = place.ok_or_else(|| lasting("a redirect to nowhere".to_owned()))?;
    let mut next = from.join(place).map_err(|_| lasting("a redirect to what is no address".to_owned()))?;
    strip(&mut next);
    match (from.scheme(), next.scheme()) {
        ("https", "http") => Err(lasting(format!("a redirect from https to http, {}", shown(&next)))),
        (_, "https" | "http") => Ok(next),
        (_, other) => Err(lasting(format!("a redirect to `{other}:`"))),
    }
}

/// An answer that brings bytes or a range's end, or what its status says instead.
fn judge(response: Response) -> Result<Response, Fault> {
    let status = response.status();
    match status {
        StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => Ok(response),
        StatusCode::NOT_FOUND | StatusCode::GONE => Err(Fault::Absent),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => Err(passing(&response)),
        status if status.is_server_error() => Err(passing(&response)),
        StatusCode::UNAUTHORIZED => {
            Err(Fault::Lasting(format!("{status}: a login is needed, or another one")))
        }
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            Err(Fault::Lasting(format!("{status}: the proxy needs a login, or another one")))
        }
        status => Err(Fault::Lasting(status.to_string())),
    }
}

fn passing(response: &Response) -> Fault {
    // Its other form, a date, would need the server's clock and ours to agree (RFC 9110, 10.2.3).
    let after =
        response.headers().get("retry-after").and_then(|after| after.to_str().ok()?.trim().parse().ok());
    Fault::Passing { why: response.status().to_string(), after: after.map(Duration::from_secs) }
}

/// An error with its causes, without the address, which may hold a token.
pub(crate) fn told(error: reqwest::Error) -> String {
    let timeout = error.is_timeout();
    let error = error.without_url();
    let mut text = if timeout { "nothing came for too long".to_owned() } else { error.to_string() };
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_keep_to_https_and_carry_no_login() {
        let from = Url::parse("https://h/a/b").unwrap();
        let to = |place: Option<&str>| match next(&from, place) {
            Ok(url) => url.to_string(),
            Err(Fault::Lasting(why)) => why,
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(to(Some("c?x=1")), "https://h/a/c?x=1");
        assert_eq!(to(Some("//me:SECRET@other/c#d")), "https://other/c");
        assert_eq!(
            to(Some("http://me:SECRET@h/c?token=SECRET")),
            "a redirect from https to http, http://h/c"
        );
        assert_eq!(to(Some("file:///etc/passwd")), "a redirect to `file:`");
        assert_eq!(to(Some("https://[")), "a redirect to what is no address");
        assert_eq!(to(None), "a redirect to nowhere");
    }
}
