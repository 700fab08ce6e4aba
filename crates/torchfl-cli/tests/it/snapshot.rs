use std::process::Command;

use crate::context::{Context, names};

/// A library of this source, with a SONAME and, where `versions` is not empty, a version script.
fn library(context: &Context, inner: &str, soname: &str, source: &str, versions: &str) {
    context.write(&format!("{inner}.c"), source);
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-nostdlib", "-o"])
        .arg(context.path(inner))
        .arg(context.path(&format!("{inner}.c")));
    cc.arg(format!("-Wl,-soname,{soname}"));
    if !versions.is_empty() {
        context.write(&format!("{inner}.map"), versions);
        cc.arg(format!("-Wl,--version-script={}", context.path(&format!("{inner}.map")).display()));
    }
    let made = cc.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Two releases of an SDK, `acme-1` and `acme-2`.
fn sdks() -> Context {
    let context = Context::new();
    let versions = "ACME_1 { global: acme_*; local: *; };\n";
    library(
        &context,
        "acme-1/lib/libacme.so.1",
        "libacme.so.1",
        "int acme_open(void) { return 0; } int acme_old(void) { return 0; } int acme_table[2];\n",
        versions,
    );
    library(
        &context,
        "acme-2/lib/libacme.so.1",
        "libacme.so.1",
        "int acme_open(void) { return 0; } int acme_new(void) { return 0; } int acme_table[4];\n",
        versions,
    );
    library(&context, "acme-1/lib/libgone.so", "libgone.so", "int gone(void) { return 0; }\n", "");
    library(&context, "acme-2/lib/libmore.so", "libmore.so", "int more(void) { return 0; }\n", "");
    for sdk in ["acme-1", "acme-2"] {
        std::os::unix::fs::symlink("libacme.so.1", context.path(&format!("{sdk}/lib/libacme.so"))).unwrap();
    }
    context
}

#[test]
fn taken_and_compared() {
    let context = sdks();
    insta::assert_snapshot!(context.run("snapshot acme-1 -o 1.snapshot"), @r"
    exit: 0
    --- stdout
    1.snapshot: libraries 2, symbols 5, [SIZE]
    --- stderr
    ");
    insta::assert_snapshot!(context.run("snapshot acme-2 --name acme_2.0 -o 2.snapshot"), @r"
    exit: 0
    --- stdout
    2.snapshot: libraries 2, symbols 5, [SIZE]
    --- stderr
    ");
    insta::assert_snapshot!(context.run("snapshot diff 1.snapshot 2.snapshot"), @r"
    exit: 1
    --- stdout
    acme-1 -> acme_2.0
    gone          [DIR]/acme-1/lib/libgone.so
    new           [DIR]/acme-2/lib/libmore.so
    [DIR]/acme-1/lib/libacme.so.1
      symbol gone   acme_old@ACME_1
      symbol new    acme_new@ACME_1
      changed       acme_table@ACME_1: global, 8 bytes -> global, 16 bytes
    gone: names 1, versions 0, symbols 1
    --- stderr
    ");
    insta::assert_snapshot!(context.run("--json snapshot diff 1.snapshot 2.snapshot"), @r#"
    exit: 1
    --- stdout
    {
      "first": "acme-1",
      "second": "acme_2.0",
      "keeps_all": false,
      "gone": [
        "[DIR]/acme-1/lib/libgone.so"
      ],
      "new": [
        "[DIR]/acme-2/lib/libmore.so"
      ],
      "changed": [
        {
          "library": "[DIR]/acme-1/lib/libacme.so.1",
          "facts": [],
          "versions_gone": [],
          "versions_new": [],
          "symbols_gone": [
            "acme_old@ACME_1"
          ],
          "symbols_new": [
            "acme_new@ACME_1"
          ],
          "kinds": [],
          "details": [
            {
              "of": "acme_table@ACME_1",
              "from": "global, 8 bytes",
              "to": "global, 16 bytes"
            }
          ]
        }
      ]
    }
    --- stderr
    "#);
    insta::assert_snapshot!(context.run("snapshot diff 1.snapshot 1.snapshot"), @r"
    exit: 0
    --- stdout
    acme-1 -> acme-1
    nothing is gone that something made for the first could use
    --- stderr
    ");
    assert!(names(context.path("").as_path()).iter().all(|name| !name.starts_with(".torchfl")));
}

#[test]
fn as_json() {
    let context = sdks();
    insta::assert_snapshot!(context.run("--json snapshot acme-1 acme-2 --at /opt/acme --at /opt/more -o s"), @r#"
    exit: 0
    --- stdout
    {
      "bytes": [BYTES],
      "folders": [
        "/opt/acme",
        "/opt/more"
      ],
      "libraries": 4,
      "links": 2,
      "skipped": [],
      "snapshot": "s",
      "symbols": 10,
      "title": "acme-1, acme-2"
    }
    --- stderr
    "#);
}

/// Nothing of this machine is in a snapshot of another.
#[test]
fn the_same_wherever_it_is_taken() {
    let context = sdks();
    context.stdout("snapshot acme-1 --at /opt/acme -o one");
    fs_err::rename(context.path("acme-1"), context.path("else")).unwrap();
    context.stdout("snapshot else --at /opt/acme --name acme-1 -o two");
    assert_eq!(fs_err::read(context.path("one")).unwrap(), fs_err::read(context.path("two")).unwrap());
}

#[test]
fn a_damaged_library_is_told_and_left_out() {
    let context = sdks();
    let bytes = fs_err::read(context.path("acme-1/lib/libgone.so")).unwrap();
    fs_err::write(context.path("acme-1/lib/libgone.so"), &bytes[..60]).unwrap();
    insta::assert_snapshot!(context.run("snapshot acme-1 -o s"), @r"
    exit: 0
    --- stdout
    s: libraries 1, symbols 4, [SIZE]
    --- stderr
    warning: [DIR]/acme-1/lib/libgone.so is left out: cut short: the ELF header ends at offset 0x40, the file at 0x3c
    ");
}

#[test]
fn refusals() {
    let context = sdks();
    context.write("empty/a.txt", "text");
    context.write("bad", "no snapshot");
    insta::assert_snapshot!(context.run("snapshot empty -o s"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-CLI-009

      x no library in empty
      help: name the folders that the SDK's or the system's libraries are in
    ");
    insta::assert_snapshot!(context.run("snapshot none -o s"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-LDR-003

      x failed to read directory `none`: No such file or directory (os error 2)
      help: check the spelling of the path
    ");
    insta::assert_snapshot!(context.run("snapshot acme-1 -o empty"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-CLI-006

      x empty is a folder
      help: move it away, or choose another place
    ");
    insta::assert_snapshot!(context.run("snapshot acme-1 acme-2 --at /opt/acme -o s"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-CLI-008

      x --at is given 1 times, and there are 2 folders
      help: give it once for each folder, in their order, or not at all
    ");
    insta::assert_snapshot!(context.run("snapshot acme-1 --at opt -o s"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-LDR-004

      x opt: not an absolute path without `..`, in UTF-8
      help: say where the folder lies on the target machine, as `/opt/acme`
    ");
    insta::assert_snapshot!(context.run("snapshot acme-1"), @r"
    exit: 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      --output <FILE>

    Usage: torchfl snapshot --output <FILE> <DIR>...

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(context.run("snapshot diff bad bad"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-LDR-002

      x bad: not a usable snapshot: row 1: cannot be unpacked: invalid gzip header
      help: copy the file again, or take the snapshot anew with this version of the command
    ");
    insta::assert_snapshot!(context.run("snapshot diff empty bad"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-LDR-003

      x empty is a folder, no regular file
    ");
    insta::assert_snapshot!(context.run("snapshot diff one"), @r"
    exit: 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      <SECOND>

    Usage: torchfl snapshot diff <FIRST> <SECOND>

    For more information, try '--help'.
    ");
    assert!(!context.path("s").exists());
}

#[test]
fn help() {
    insta::assert_snapshot!(Context::new().run("snapshot --help"), @r"
    exit: 0
    --- stdout
    Keep what a machine's libraries export in one small file, to audit wheels without the machine

    Usage: torchfl snapshot [OPTIONS] --output <FILE> <DIR>...
           torchfl snapshot <COMMAND>

    Commands:
      diff  Say what a second snapshot lacks of a first, and what it adds

    Arguments:
      <DIR>...  Folders of libraries: the SDK, and what of the system a wheel may use

    Options:
          --json           Print data as JSON on stdout, errors too
          --at <PATH>      Where a DIR lies on the target machine, once for each; by default its own
                           path, and this is that machine
      -q, --quiet          Print nothing but errors on stderr
          --name <TITLE>   What the snapshot is of, for people [default: the names of the folders]
      -o, --output <FILE>  The file to write
      -h, --help           Print help
    --- stderr
    ");
}
