//! Paths that are no files, names that are no text, manifests that are far too large or too wrong.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::context::{Context, names};

fn fifo(context: &Context, name: &str) {
    assert!(Command::new("mkfifo").arg(context.path(name)).status().unwrap().success());
}

/// A run that must end by itself: 124 is `timeout`'s.
fn bounded(context: &Context, words: &str) -> String {
    let command = context.command(words);
    let mut timeout = Command::new("timeout");
    timeout.arg("60").arg(command.get_program()).args(command.get_args());
    context.show(&timeout.current_dir(context.path("")).env("NO_COLOR", "1").output().unwrap())
}

#[test]
fn a_fifo_is_refused_and_waited_for_by_no_command() {
    let context = Context::new();
    fifo(&context, "pipe");
    fifo(&context, "acme-1-py3-none-any.whl");
    context.library("a.so", &[]);
    for (words, code) in [
        ("inspect pipe", "E-CLI-004"),
        ("patch --rpath x pipe", "E-ELF-013"),
        ("patch --rpath x pipe -o b.so", "E-ELF-013"),
        ("patch --rpath x a.so -o pipe", "E-ELF-013"),
        ("vendor check --manifest pipe", "E-CLI-006"),
        ("build sim --torch pipe", "E-BLD-031"),
        ("build sim --torch {torch} --front pipe", "E-BLD-031"),
        ("build sim --torch {torch} --front {stock} --plugin pipe", "E-BLD-001"),
        ("audit acme-1-py3-none-any.whl", "E-AUD-010"),
        ("audit {stock} --with acme-1-py3-none-any.whl", "E-AUD-010"),
        ("audit {stock} --sysroot pipe", "E-LDR-003"),
        ("why acme-1-py3-none-any.whl libc10.so", "E-AUD-010"),
        ("core-gap --vendor {torch} --stock acme-1-py3-none-any.whl", "E-AUD-010"),
        ("core-gap --vendor {torch} --stock {stock} --plugin pipe", "E-AUD-001"),
    ] {
        let text = bounded(&context, words);
        assert!(text.starts_with("exit: 2\n") && text.contains(code), "{words}: {text}");
    }
    assert!(fs_err::metadata(context.path("pipe")).unwrap().file_type().is_fifo());
    assert_eq!(names(&context.path("")), ["a.so", "acme-1-py3-none-any.whl", "empty.c", "pipe", "sk"]);
}

#[test]
fn a_folder_is_called_one_and_no_link() {
    let context = Context::new();
    fs_err::create_dir(context.path("dir")).unwrap();
    insta::assert_snapshot!(context.run("patch --rpath x dir"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-ELF-013

      x dir: a folder
      help: name a library or a program
    ");
}

#[test]
fn a_name_that_is_not_utf_8_is_no_panic() {
    let context = Context::new();
    context.library("a.so", &[]);
    let name = OsStr::from_bytes(b"\xff.so");
    fs_err::rename(context.path("a.so"), context.path("").join(name)).unwrap();
    for words in ["patch --rpath /some/where", "--json patch --rpath /other/where", "--json inspect"] {
        let output = context.command(words).arg(name).output().unwrap();
        assert!(output.status.success(), "{}", context.show(&output));
    }
    let folder = OsStr::from_bytes(b"dist\xff");
    let words = "--json build sim --torch {torch} --front {stock} -o";
    let output = context.command(words).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", context.show(&output));
    let output =
        context.command("--json vendor add mine -o").arg(OsStr::from_bytes(b"\xff.toml")).output().unwrap();
    assert!(output.status.success(), "{}", context.show(&output));
}

#[test]
fn a_manifest_of_more_than_a_mebibyte_is_not_read() {
    let context = Context::new();
    context.write("m.toml", &"# long\n".repeat(160_000));
    insta::assert_snapshot!(context.run("vendor check --manifest m.toml"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-CLI-006

      x m.toml is larger than 1 MiB, which no manifest is
      help: name the TOML file that describes the vendor
    ");
}

#[test]
fn of_thousands_of_mistakes_fifty_are_shown() {
    use std::fmt::Write as _;
    let context = Context::new();
    let mut text = crate::context::SIM.to_owned();
    text += "\n[wrong]\n";
    text.insert_str(
        0,
        &(0..4000).fold(String::new(), |mut text, n| {
            let _ = writeln!(text, "wrong{n} = 1");
            text
        }),
    );
    context.write("m.toml", &text);
    let text = bounded(&context, "vendor check --manifest m.toml");
    assert!(text.starts_with("exit: 2\n"), "{text}");
    assert_eq!(text.matches("E-MAN-010").count(), 50);
    assert!(text.contains("and 3951 more mistakes"), "{text}");
    let json = context.output("--json vendor check --manifest m.toml").stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["error"]["also"].as_array().unwrap().len(), 50);
}

#[test]
fn constraints_that_cannot_be_written_leave_no_wheel() {
    let context = Context::new();
    let plan = context.json("build sim --torch {torch} --front {stock} --dry-run");
    let wheel = plan["wheel"].as_str().unwrap();
    for inner in [wheel.replace(".whl", ".constraints.txt"), wheel.to_owned()] {
        fs_err::create_dir_all(context.path("dist").join(&inner)).unwrap();
        let text = context.run("build sim --torch {torch} --front {stock} --quiet -o dist");
        assert!(text.starts_with("exit: 2\n") && text.contains("E-CLI-006"), "{text}");
        assert!(text.contains(&format!("dist/{}", context.filter(&inner))), "{text}");
        assert_eq!(names(&context.path("dist")), [inner.as_str()]);
        fs_err::remove_dir(context.path("dist").join(&inner)).unwrap();
    }
}

#[test]
fn leftovers_of_killed_builds_are_swept_after_a_day() {
    let context = Context::new();
    let old = [".torch_fl-2.13.0+sim1.0-py3-none-any.whl.aB3dE6.tmp", ".torchfl-aB3dE6"];
    let foreign = [".torchfl-mine", ".torch_fl-notes.tmp", ".a.so.torchfl-journal", "torch_fl-1.whl"];
    for name in old.iter().chain(&foreign) {
        context.write(&format!("dist/{name}"), "");
        let file = fs_err::OpenOptions::new().write(true).open(context.path("dist").join(name)).unwrap();
        let days = SystemTime::now() - Duration::from_hours(49);
        file.into_parts().0.set_modified(days).unwrap();
    }
    context.write("dist/.torchfl-fresh1", "");
    context.stdout("build sim --torch {torch} --front {stock} -o dist");
    let left = names(&context.path("dist"));
    assert!(!left.iter().any(|name| old.contains(&name.as_str())), "{left:?}");
    for name in foreign.iter().chain(&[".torchfl-fresh1"]) {
        assert!(left.iter().any(|left| left == name), "{name}: {left:?}");
    }
}
