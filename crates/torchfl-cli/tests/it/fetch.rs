//! `torchfl fetch`, against a server on loopback and folders.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use torchfl_wheel::Sha256;

use crate::context::{Context, SIM, names};
use server::{Answer, Server};

#[expect(dead_code, reason = "the library's tests use the rest of it")]
#[path = "../../../torchfl-fetch/tests/common/server.rs"]
mod server;

const NAME: &str = "torch-2.13.0+acme-cp311.whl";

/// A manifest with these inputs alone.
fn manifest(context: &Context, inputs: &str) {
    let (before, _) = SIM.split_once("[[input]]").unwrap();
    context.write("m.toml", &format!("{before}{inputs}\n"));
}

/// One input, whose bytes are these.
fn one(context: &Context, body: &[u8]) {
    manifest(
        context,
        &format!(
            "[[input]]\nrole = 'torch'\nfile = 'torch-2.13.0+acme-{{python}}.whl'\nsha256 = {{ cp311-x86_64 = '{0}', \
             cp311-aarch64 = '{0}' }}",
            Sha256::of(body)
        ),
    );
}

/// The command, in an environment that names neither proxies nor logins.
fn command(context: &Context, words: &str) -> Command {
    let mut command = context.command(words);
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    command.env_remove("NETRC").env("HOME", context.path(""));
    command
}

fn fetch(context: &Context, words: &str) -> Output {
    command(context, &format!("fetch --manifest m.toml --python cp311 {words}")).output().unwrap()
}

fn shown(context: &Context, words: &str) -> String {
    let text = context.show(&fetch(context, words));
    regex::Regex::new(r"127\.0\.0\.1:\d+").unwrap().replace_all(&text, "[SERVER]").into_owned()
}

/// The files of the answer, and the exit code.
fn answer(context: &Context, words: &str) -> (Value, Option<i32>) {
    let output = fetch(context, &format!("--json {words}"));
    assert!(output.stdout.starts_with(b"{"), "{}", context.show(&output));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    (value["files"].clone(), output.status.code())
}

#[test]
fn a_file_from_a_mirror_and_the_second_run() {
    let context = Context::new();
    one(&context, b"right");
    let server = Server::start(|asked, _| Answer::file(asked, b"right", "\"1\""));
    let words = format!("--mirror {}/files", server.url());
    insta::assert_snapshot!(shown(&context, &words), @r"
    exit: 0
    --- stdout
    inputs/torch-2.13.0+acme-cp3XX.whl
    --- stderr
    torch: inputs/torch-2.13.0+acme-cp3XX.whl comes from http://[SERVER]/files (0.0 kB, sha256 is right)
    ");
    assert_eq!(fs_err::read(context.path("inputs").join(NAME)).unwrap(), b"right");
    insta::assert_snapshot!(shown(&context, &words), @r"
    exit: 0
    --- stdout
    inputs/torch-2.13.0+acme-cp3XX.whl
    --- stderr
    torch: inputs/torch-2.13.0+acme-cp3XX.whl is there (0.0 kB, sha256 is right)
    ");
    assert_eq!(server.asked().len(), 1);
    insta::assert_snapshot!(shown(&context, &format!("--json {words}")), @r#"
    exit: 0
    --- stdout
    {
      "files": [
        {
          "arch": "[ARCH]",
          "bytes": [BYTES],
          "error": null,
          "instructions": null,
          "name": "torch-2.13.0+acme-cp3XX.whl",
          "path": "inputs/torch-2.13.0+acme-cp3XX.whl",
          "python": "cp3XX",
          "role": "torch",
          "sha256": "[SHA256]",
          "source": null,
          "state": "present",
          "tried": [],
          "wanted": "torch-2.13.0+acme-cp3XX.whl"
        }
      ]
    }
    --- stderr
    torch: inputs/torch-2.13.0+acme-cp3XX.whl is there (0.0 kB, sha256 is right)
    "#);
}

/// What `torchfl build cuda --torch $(torchfl fetch …)` reads.
#[test]
fn stdout_is_the_path_alone() {
    let context = Context::new();
    one(&context, b"right");
    context.write(&format!("mirror/{NAME}"), "right");
    let output = fetch(&context, "--role torch --mirror mirror --dest d");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("d/{NAME}\n"));
}

#[test]
fn a_login_says_which_file_from_where_and_where_to_put_it() {
    let context = Context::new();
    manifest(
        &context,
        "[[input]]\nrole = 'torch'\nfile = 'torch-2.13.0+acme*-{python}.whl'\nlogin = \"Acme's portal, Downloads\"\n\
         [[input]]\nrole = 'sdk'\nfile = 'acme-sdk-1.0.tar'\nsha256 = \
         '1111111111111111111111111111111111111111111111111111111111111111'",
    );
    insta::assert_snapshot!(shown(&context, "--mirror http://files.invalid --offline"), @r"
    exit: 1
    --- stdout
    --- stderr
    torch: torch-2.13.0+acme*-cp3XX.whl is missing
      http://files.invalid/: it cannot be asked: the file's whole name is not known
      bring:    torch-2.13.0+acme*-cp3XX.whl, where * stands for what is not known
      from:     Acme's portal, Downloads, after signing in
      put into: [DIR]/inputs, or name the folder that has it: --mirror
    sdk: acme-sdk-1.0.tar is missing
      http://files.invalid/: not asked: offline
      bring:    acme-sdk-1.0.tar
      sha256:   [SHA256]
      from:     whoever has it: that is not known here
      put into: [DIR]/inputs, or name the folder that has it: --mirror
    ");
    insta::assert_snapshot!(shown(&context, "--role torch --json"), @r#"
    exit: 1
    --- stdout
    {
      "files": [
        {
          "arch": "[ARCH]",
          "bytes": null,
          "error": null,
          "instructions": {
            "bring": "torch-2.13.0+acme*-cp3XX.whl",
            "from": "Acme's portal, Downloads, after signing in",
            "put_into": "[DIR]/inputs",
            "sha256": null
          },
          "name": "torch-2.13.0+acme*-cp3XX.whl",
          "path": null,
          "python": "cp3XX",
          "role": "torch",
          "sha256": null,
          "source": null,
          "state": "missing",
          "tried": [],
          "wanted": "torch-2.13.0+acme*-cp3XX.whl"
        }
      ]
    }
    --- stderr
    torch: torch-2.13.0+acme*-cp3XX.whl is missing
      bring:    torch-2.13.0+acme*-cp3XX.whl, where * stands for what is not known
      from:     Acme's portal, Downloads, after signing in
      put into: [DIR]/inputs, or name the folder that has it: --mirror
    "#);
    // It is brought, and nobody says its sum.
    context.write("inputs/torch-2.13.0+acme1.2-cp311.whl", "brought");
    insta::assert_snapshot!(shown(&context, "--role torch"), @r"
    exit: 1
    --- stdout
    --- stderr
    torch: nobody says which sha256 torch-2.13.0+acme*-cp3XX.whl must have; inputs/torch-2.13.0+acme1.2-cp3XX.whl has [SHA256] (E-FET-004)
      help: give its sum, NAME=SUM to --sha256; or take what comes: --allow-unhashed NAME
    ");
    let sum = Sha256::of(b"brought");
    for words in ["--allow-unhashed torch".to_owned(), format!("--sha256 torch={sum}")] {
        let (files, code) = answer(&context, &format!("--role torch {words}"));
        assert_eq!(
            (&files[0]["state"], &files[0]["sha256"], code),
            (&json!("present"), &json!(sum), Some(0))
        );
    }
    let (files, code) = answer(&context, &format!("--role torch --sha256 torch={}", Sha256::of(b"other")));
    assert_eq!(
        (&files[0]["state"], &files[0]["error"]["code"], code),
        (&json!("wrong"), &json!("E-FET-003"), Some(1))
    );
}

#[test]
fn a_built_in_vendor_says_what_is_missing() {
    let context = Context::new();
    let run = |words: &str| context.show(&command(&context, words).output().unwrap());
    insta::assert_snapshot!(run("fetch metax --offline"), @r"
    exit: 1
    --- stdout
    --- stderr
    torch: torch-2.10.0+metax*-cp3XX-cp3XX-*.whl is missing
      bring:    torch-2.10.0+metax*-cp3XX-cp3XX-*.whl, where * stands for what is not known
      from:     MetaX's developer portal (SoftNova): the PyTorch 2.10.0 wheel for MACA 3.8, after signing in
      put into: [DIR]/inputs, or name the folder that has it: --mirror
    front: torch 2.10.0+cpu for cp3XX on [ARCH] is missing
      the package index: not asked: offline
      bring:    torch 2.10.0+cpu for cp3XX on [ARCH]
      from:     a package index that has it, or a folder with its wheel
      put into: [DIR]/inputs, or name the folder that has it: --mirror
    ");
    insta::assert_snapshot!(run("fetch cuda --python cp311 --arch x86_64 --offline"), @r"
    exit: 1
    --- stdout
    --- stderr
    torch: torch 2.13.0 for cp3XX on [ARCH] is missing
      the package index: not asked: offline
      bring:    torch 2.13.0 for cp3XX on [ARCH]
      sha256:   [SHA256]
      from:     a package index that has it, or a folder with its wheel
      put into: [DIR]/inputs, or name the folder that has it: --mirror
    front: torch-2.13.0+cpu-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl is missing
      bring:    torch-2.13.0+cpu-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl
      sha256:   [SHA256]
      from:     whoever has it: that is not known here
      put into: [DIR]/inputs, or name the folder that has it: --mirror
    ");
    insta::assert_snapshot!(run("fetch cuda"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-CLI-010

      x the manifest offers several of Python: cp3XX, cp3XX, cp3XX, cp3XX, cp3XX
      help: say which: --python TAG
    ");
    insta::assert_snapshot!(run("fetch ascend --python cp311 --role torch"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-CLI-012

      x the manifest names no input of role torch
      help: `torchfl vendor show` prints its inputs; an [[input]] names one
    ");
}

#[test]
fn a_wrong_sum_is_a_finding_and_leaves_nothing() {
    let context = Context::new();
    one(&context, b"right");
    let server = Server::start(|asked, _| Answer::file(asked, b"wrong", "\"1\""));
    insta::assert_snapshot!(shown(&context, &format!("--mirror {}", server.url())), @r"
    exit: 1
    --- stdout
    --- stderr
    torch: torch-2.13.0+acme-cp3XX.whl from http://[SERVER]/ is another file: sha256 [SHA256] in 5 bytes, and [SHA256] is expected (E-FET-002)
      help: ask whoever keeps that mirror; or give the right sum if it has changed: --sha256
    ");
    assert_eq!(names(&context.path("inputs")), Vec::<String>::new());
    let (files, code) = answer(&context, &format!("--mirror {}", server.url()));
    assert_eq!(
        (&files[0]["state"], &files[0]["error"]["code"], code),
        (&json!("wrong"), &json!("E-FET-002"), Some(1))
    );
}

#[test]
fn offline_touches_no_network() {
    let context = Context::new();
    let server = Server::start(|asked, _| Answer::file(asked, b"right", "\"1\""));
    one(&context, b"right");
    let offline = |words: &str| {
        let words = format!("fetch --manifest m.toml --python cp311 --offline {words}");
        let mut command = command(&context, &words);
        for name in ["http_proxy", "https_proxy", "all_proxy"] {
            command.env(name, server.url());
        }
        command.env("PIP_INDEX_URL", server.url()).output().unwrap().status.code()
    };
    let url = server.url();
    assert_eq!(
        offline(&format!("--mirror {url} --mirror http://files.invalid --mirror https://files.invalid")),
        Some(1)
    );
    manifest(&context, "[[input]]\nrole = 'torch'\npackage = 'acme'\nversion = '1.0'");
    assert_eq!(offline(&format!("--allow-unhashed acme --index-url {url}")), Some(1));
    assert_eq!(server.connections(), 0);
    one(&context, b"right");
    context.write(&format!("mirror/{NAME}"), "right");
    assert_eq!(offline(&format!("--mirror {url} --mirror mirror")), Some(0));
    assert_eq!(server.connections(), 0);
}

/// Not even a socket is made: what the kernel was asked for says so. Where there is no strace, the tests that
/// count connections stand alone.
#[test]
fn offline_makes_no_socket() {
    let context = Context::new();
    one(&context, b"right");
    let run = |offline: &str| {
        let plain = command(
            &context,
            &format!(
                "fetch --manifest m.toml --python cp311 --retries 0 {offline} --mirror http://127.0.0.1:9"
            ),
        );
        let mut traced = Command::new("strace");
        traced.args(["-f", "-qq", "-e", "trace=socket,connect,execve", "-o"]).arg(context.path("trace"));
        traced.arg(plain.get_program()).args(plain.get_args()).current_dir(context.path(""));
        let output = traced.output().ok()?;
        let trace = fs_err::read_to_string(context.path("trace")).ok()?;
        (output.status.code() == Some(1)).then_some(trace)
    };
    let Some(online) = run("") else {
        eprintln!("not run: strace cannot trace here");
        return;
    };
    assert!(online.contains("socket(AF_INET"), "{online}");
    let offline = run("--offline").unwrap();
    assert!(!offline.contains("socket(") && !offline.contains("connect("), "{offline}");
    assert_eq!(offline.matches("execve(").count(), 1, "{offline}");
}

#[test]
fn a_killed_run_leaves_a_part_that_the_next_one_goes_on_with() {
    let context = Context::new();
    let body: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).take(3_000_000).collect();
    one(&context, &body);
    let copy = body.clone();
    let server = Server::start(move |asked, before| match before {
        0 => Answer::file(asked, &copy, "\"1\"").stall(1_500_000, Duration::from_mins(1)),
        _ => Answer::file(asked, &copy, "\"1\""),
    });
    let mirror = format!("--mirror {}", server.url());
    let mut child = command(&context, &format!("fetch --manifest m.toml --python cp311 {mirror}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let part = context.path("inputs").join(format!(".{NAME}.{}.part", &Sha256::of(&body).to_string()[..16]));
    let start = Instant::now();
    while !fs_err::metadata(&part).is_ok_and(|facts| facts.len() >= 1_000_000) {
        assert!(start.elapsed() < Duration::from_mins(1), "nothing came");
        thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!context.path("inputs").join(NAME).exists());
    // Nobody takes the part for whole.
    let (files, code) = answer(&context, "--offline");
    assert_eq!((&files[0]["state"], code), (&json!("missing"), Some(1)));
    let (files, code) = answer(&context, &mirror);
    assert_eq!((&files[0]["state"], code), (&json!("fetched"), Some(0)));
    assert!(fs_err::read(context.path("inputs").join(NAME)).unwrap() == body);
    assert!(server.starts()[1].is_some_and(|start| start >= 1_000_000), "{:?}", server.starts());
    assert_eq!(names(&context.path("inputs")), [NAME]);
}

#[test]
fn logins_and_proxies_of_the_environment() {
    let context = Context::new();
    one(&context, b"right");
    let proxy = Server::start(|asked, _| match asked.header("authorization") {
        // me:pass
        Some("Basic bWU6cGFzcw==") => Answer::file(asked, b"right", "\"1\""),
        _ => Answer::status("401 Unauthorized"),
    });
    let run = |netrc: &str, mirror: &str| {
        let words = format!("--json fetch --manifest m.toml --python cp311 --retries 0 --mirror {mirror}");
        let mut command = command(&context, &words);
        command.env("http_proxy", proxy.url().replace("://", "://you:SECRET@")).env("no_proxy", "127.0.0.1");
        context.write("netrc", netrc);
        command.env("NETRC", context.path("netrc")).output().unwrap()
    };
    let wrong = run("machine files.invalid login me password SECRET", "http://files.invalid");
    let broken = run("machine files.invalid pasword SECRET", "http://files.invalid");
    let direct = run("", "http://127.0.0.1:9");
    let right = run("machine files.invalid login me password pass", "http://files.invalid");
    let codes = [&wrong, &broken, &direct, &right].map(|output| output.status.code());
    assert_eq!(codes, [Some(1), Some(2), Some(1), Some(0)], "{}", context.show(&right));
    for output in [wrong, direct, right] {
        let text = context.show(&output);
        assert!(!text.contains("SECRET") && !text.contains("pass"), "{text}");
    }
    insta::assert_snapshot!(context.show(&broken), @r#"
    exit: 2
    --- stdout
    {
      "error": {
        "also": [],
        "causes": [
          "line 1: a word that is none of machine, default, login, password, account, macdef"
        ],
        "code": "E-CLI-013",
        "hint": "write `machine HOST login NAME password WORD`, or name another file in NETRC",
        "message": "[DIR]/netrc: its logins cannot be read"
      }
    }
    --- stderr
    E-CLI-013

      x [DIR]/netrc: its logins cannot be read
      `-> line 1: a word that is none of machine, default, login, password, account, macdef
      help: write `machine HOST login NAME password WORD`, or name another file in NETRC
    "#);
    fs_err::create_dir(context.path("here")).unwrap();
    let unneeded = run("machine files.invalid pasword SECRET", "here");
    assert_eq!(unneeded.status.code(), Some(0), "a folder asks for no login: {}", context.show(&unneeded));
    assert_eq!(proxy.asked().len(), 2, "what no_proxy names is not asked of the proxy");
}

#[test]
fn a_dry_run_says_who_would_be_asked_and_brings_nothing() {
    let context = Context::new();
    one(&context, b"right");
    context.write(&format!("mirror/{NAME}"), "right");
    let server = Server::start(|asked, _| Answer::file(asked, b"right", "\"1\""));
    insta::assert_snapshot!(shown(&context, &format!("--dry-run --mirror {} --mirror mirror", server.url())), @r"
    exit: 1
    --- stdout
    --- stderr
    torch: torch-2.13.0+acme-cp3XX.whl is missing
      http://[SERVER]/: it would be asked
      mirror: it is there
      bring:    torch-2.13.0+acme-cp3XX.whl
      sha256:   [SHA256]
      from:     whoever has it: that is not known here
      put into: [DIR]/inputs, or name the folder that has it: --mirror
    ");
    assert!(!context.path("inputs").exists());
    assert_eq!(server.connections(), 0);
}

#[test]
fn what_cannot_be_meant() {
    let context = Context::new();
    one(&context, b"right");
    let sum = Sha256::of(b"");
    let all = [
        shown(&context, "--mirror ftp://me:SECRET@files.invalid"),
        shown(&context, "--mirror none"),
        shown(&context, "--sha256 torch"),
        shown(&context, "--sha256 torch=12"),
        shown(&context, &format!("--sha256 front={sum}")),
        shown(&context, "--allow-unhashed front"),
        shown(&context, "--role sdk"),
        shown(&context, "--ca-file m.toml"),
        shown(&context, "--dest m.toml --mirror sk"),
    ];
    insta::assert_snapshot!(all.join("\n\n"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-FET-007

      x `ftp://files.invalid/` is no mirror: `ftp` is neither https, http nor file
      help: name a folder, or an address that begins with https:// or http://

    exit: 2
    --- stdout
    --- stderr
    E-FET-007

      x `none` is no mirror: there is no such folder
      help: name a folder, or an address that begins with https:// or http://

    exit: 2
    --- stdout
    --- stderr
    E-CLI-011

      x --sha256 torch: NAME=SUM is wanted
      help: NAME is a role, a package or a file's name; SUM has 64 hexadecimal digits

    exit: 2
    --- stdout
    --- stderr
    E-CLI-011

      x --sha256 torch=12: not 64 hexadecimal digits: `12`
      help: NAME is a role, a package or a file's name; SUM has 64 hexadecimal digits

    exit: 2
    --- stdout
    --- stderr
    E-CLI-011

      x --sha256 front=[SHA256]: nothing that is asked for has this name
      help: NAME is a role, a package or a file's name; SUM has 64 hexadecimal digits

    exit: 2
    --- stdout
    --- stderr
    E-CLI-011

      x --allow-unhashed front: nothing that is asked for has this name
      help: NAME is a role, a package or a file's name; SUM has 64 hexadecimal digits

    exit: 2
    --- stdout
    --- stderr
    E-CLI-012

      x the manifest names no input of role sdk
      help: `torchfl vendor show` prints its inputs; an [[input]] names one

    exit: 2
    --- stdout
    --- stderr
    E-FET-009

      x the network cannot be set up: no certificate in PEM
      help: see --ca-file, and the variables HTTPS_PROXY, HTTP_PROXY and NO_PROXY

    exit: 2
    --- stdout
    --- stderr
    E-FET-006

      x m.toml is a file, and no folder
      help: move it away, or name another folder: --dest
    ");
}

/// A package through the pip of this machine's Python, from a folder that pip is told to look in.
#[test]
fn a_package_through_pip() {
    let context = Context::new();
    let program = "import sys, zipfile\n\
        with zipfile.ZipFile(sys.argv[1], 'w') as wheel:\n\
        \x20   info = 'acme-1.0.dist-info/'\n\
        \x20   wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: acme\\nVersion: 1.0\\n')\n\
        \x20   wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nTag: py3-none-any\\n')\n\
        \x20   wheel.writestr(info + 'RECORD', '')\n";
    let wheel = context.path("acme-1.0-py3-none-any.whl");
    assert!(Command::new("python3").arg("-c").arg(program).arg(&wheel).status().unwrap().success());
    let sum = Sha256::of(&fs_err::read(&wheel).unwrap());
    manifest(
        &context,
        &format!("[[input]]\nrole = 'with'\npackage = 'acme'\nversion = '1.0'\nsha256 = '{sum}'"),
    );
    let run = |folder: &Path| {
        let mut command = command(&context, "--json fetch --manifest m.toml --python cp312 --installer pip");
        // The pip settings of the user are heeded: here they name a folder and no index.
        command
            .env("PIP_FIND_LINKS", folder)
            .env("PIP_NO_INDEX", "1")
            .env("HOME", std::env::home_dir().unwrap());
        let output = command.output().unwrap();
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        (value["files"][0].clone(), output.status.code())
    };
    let (missing, code) = run(&context.path("sk"));
    assert_eq!((&missing["state"], code), (&json!("missing"), Some(1)), "{missing}");
    let (fetched, code) = run(&context.path(""));
    assert_eq!((&fetched["state"], code), (&json!("fetched"), Some(0)), "{fetched}");
    assert_eq!(fetched["source"], "the package index, by pip of python3");
    assert_eq!(names(&context.path("inputs")), ["acme-1.0-py3-none-any.whl"]);
}
