//! https, with an authority that openssl makes and a server of Python's.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use crate::context::{Context, NAME};

/// An authority (`ca.pem`), and a key and a certificate of it for loopback.
const CERTIFICATES: &str = "\
openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority
openssl req -newkey rsa:2048 -nodes -keyout key.pem -out request.pem -subj /CN=mirror
echo subjectAltName=IP:127.0.0.1 > names
openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out cert.pem
";

const SERVER: &str = "\
import http.server, ssl
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('cert.pem', 'key.pem')
server = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
";

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_authority_of_ones_own_is_trusted_where_it_is_named() {
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("not run: there is no openssl to make certificates with");
        return;
    }
    let mut context = Context::new();
    let made = Command::new("sh").args(["-ec", CERTIFICATES]).current_dir(context.path("")).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    context.write(NAME, b"right");
    let mut python = Command::new("python3");
    python.arg("-c").arg(SERVER).current_dir(context.path("")).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = Killed(python.spawn().unwrap());
    let mut port = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let mirror = format!("https://127.0.0.1:{}", port.trim());

    let why = context.misses(b"right", &[&mirror]);
    // Asked once: a certificate does not get better.
    assert!(why.contains("certificate") && !why.contains("given up"), "{why}");
    context.network.authorities = Some(fs_err::read(context.path("ca.pem")).unwrap());
    context.brings(b"right", &[&mirror]);
}
