//! A server on loopback that does what a test tells it to.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What a client asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// As it was sent: a path, or a proxy's whole address.
    pub(crate) target: String,
    /// By names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The first byte of its range, if it has one.
    pub(crate) fn start(&self) -> Option<usize> {
        self.header("range").map(|range| range["bytes=".len()..].trim_end_matches('-').parse().unwrap())
    }
}

/// What the server does with it: sends these bytes, and then one thing more.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    head: String,
    body: Vec<u8>,
    /// So much of the body is sent before `stall`, and nothing after it where `cut`.
    sent: usize,
    stall: Duration,
    cut: bool,
}

impl Answer {
    pub(crate) fn new(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Self {
        let mut head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
        for (name, value) in headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        Self { head, body: body.to_vec(), sent: body.len(), stall: Duration::ZERO, cut: false }
    }

    pub(crate) fn status(status: &str) -> Self {
        Self::new(status, &[("Content-Length", "0")], b"")
    }

    pub(crate) fn redirect(to: &str) -> Self {
        Self::new("302 Found", &[("Location", to), ("Content-Length", "0")], b"")
    }

    /// The whole file, whatever was asked.
    pub(crate) fn whole(body: &[u8]) -> Self {
        Self::new("200 OK", &[("Content-Length", &body.len().to_string())], body)
    }

    /// The file or the range of it that was asked for, as a good server sends it.
    pub(crate) fn file(asked: &Asked, body: &[u8], tag: &str) -> Self {
        let total = body.len();
        let same = asked.header("if-range").is_none_or(|known| known == tag);
        match asked.start().filter(|_| same) {
            None => Self::new("200 OK", &[("Content-Length", &total.to_string()), ("ETag", tag)], body),
            Some(start) if start < total => {
                let range = format!("bytes {start}-{}/{total}", total - 1);
                let length = (total - start).to_string();
                let headers = [("Content-Length", length.as_str()), ("Content-Range", &range), ("ETag", tag)];
                Self::new("206 Partial Content", &headers, &body[start..])
            }
            Some(_) => {
                let range = format!("bytes */{total}");
                Self::new(
                    "416 Range Not Satisfiable",
                    &[("Content-Range", &range), ("Content-Length", "0")],
                    b"",
                )
            }
        }
    }

    /// Ends the connection after so many bytes of the body.
    pub(crate) fn cut(mut self, after: usize) -> Self {
        (self.sent, self.cut) = (after, true);
        self
    }

    /// Sends nothing for so long after so many bytes.
    pub(crate) fn stall(mut self, after: usize, how_long: Duration) -> Self {
        (self.sent, self.stall) = (after, how_long);
        self
    }
}

/// Runs until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    connections: Arc<Mutex<usize>>,
}

impl Server {
    /// `answer` is given each request, with how many came before it.
    pub(crate) fn start(answer: impl Fn(&Asked, usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(Mutex::new(0));
        let (log, count) = (asked.clone(), connections.clone());
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (log, answer) = (log.clone(), answer.clone());
                *count.lock().unwrap() += 1;
                thread::spawn(move || {
                    // A client that goes away is a part of some tests.
                    let _ = serve(stream.unwrap(), &log, &*answer);
                });
            }
        });
        Self { address, asked, connections }
    }

    /// `http://127.0.0.1:PORT`
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The same address by another name: for a client another host.
    pub(crate) fn other_host(&self) -> String {
        format!("http://localhost:{}", self.address.port())
    }

    /// All requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The first byte of each request's range.
    pub(crate) fn starts(&self) -> Vec<Option<usize>> {
        self.asked().iter().map(Asked::start).collect()
    }

    /// Connections so far, whether anything was asked or not.
    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

fn serve(
    mut stream: TcpStream,
    log: &Mutex<Vec<Asked>>,
    answer: &dyn Fn(&Asked, usize) -> Answer,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let mut words = first.split(' ').map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = BTreeMap::new();
    for line in lines {
        let line = line?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    if method.is_empty() {
        return Ok(());
    }
    let asked = Asked { method, target, headers };
    let before = {
        let mut log = log.lock().unwrap();
        log.push(asked.clone());
        log.len() - 1
    };
    let Answer { head, body, sent, stall, cut } = answer(&asked, before);
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    stream.write_all(&body[..sent])?;
    stream.flush()?;
    thread::sleep(stall);
    if !cut {
        stream.write_all(&body[sent..])?;
    }
    stream.shutdown(Shutdown::Write)?;
    // So that the end is not a reset: what the client still sends is read.
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let _ = stream.read(&mut [0; 1024]);
    Ok(())
}
