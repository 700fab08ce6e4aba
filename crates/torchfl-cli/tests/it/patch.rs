use std::os::unix::fs::PermissionsExt as _;

use crate::context::Context;

/// A library with a long RPATH, which a short one fits into.
fn with_path(context: &Context) {
    context.library("a.so", &["-Wl,--disable-new-dtags,-rpath,/a/long/path/of/the/machine/that/built/it"]);
}

fn path_of(context: &Context, file: &str) -> String {
    let facts = context.json(&format!("inspect {file}"));
    match &facts["search_path"] {
        serde_json::Value::Null => "none".to_owned(),
        path => format!("{} {}", path["tag"].as_str().unwrap(), path["value"].as_str().unwrap()),
    }
}

#[test]
fn the_tag_is_the_one_asked_for_and_a_second_run_changes_nothing() {
    let context = Context::new();
    with_path(&context);
    insta::assert_snapshot!(context.run("patch --rpath $ORIGIN a.so"), @r"
    exit: 0
    --- stdout
    a.so: patched in place
    --- stderr
    ");
    assert_eq!(path_of(&context, "a.so"), "rpath $ORIGIN");
    insta::assert_snapshot!(context.run("patch --runpath $ORIGIN:/opt/x a.so"), @r"
    exit: 0
    --- stdout
    a.so: patched in place
    --- stderr
    ");
    assert_eq!(path_of(&context, "a.so"), "runpath $ORIGIN:/opt/x");
    let bytes = fs_err::read(context.path("a.so")).unwrap();
    insta::assert_snapshot!(context.run("patch --runpath $ORIGIN:/opt/x a.so"), @r"
    exit: 0
    --- stdout
    a.so: is so already
    --- stderr
    ");
    assert_eq!(fs_err::read(context.path("a.so")).unwrap(), bytes);
    assert_eq!(context.json("patch --remove a.so")["how"], "in-place");
    assert_eq!(path_of(&context, "a.so"), "none");
    assert_eq!(context.json("patch --remove a.so")["how"], "unchanged");
}

#[test]
fn a_path_that_does_not_fit_goes_into_a_trailing_segment() {
    let context = Context::new();
    context.library("a.so", &[]);
    insta::assert_snapshot!(context.run("patch --rpath /opt/a/very/long/folder a.so"), @r"
    exit: 0
    --- stdout
    a.so: patched; the new path did not fit, so it is in a trailing segment
    --- stderr
    ");
    assert_eq!(path_of(&context, "a.so"), "rpath /opt/a/very/long/folder");
    insta::assert_snapshot!(context.run("--json patch --rpath /opt/a/very/long/folder a.so"), @r#"
    exit: 0
    --- stdout
    {
      "file": "a.so",
      "how": "unchanged"
    }
    --- stderr
    "#);
}

#[test]
fn a_new_file_leaves_the_old_one_and_keeps_its_mode() {
    let context = Context::new();
    with_path(&context);
    fs_err::set_permissions(context.path("a.so"), std::fs::Permissions::from_mode(0o751)).unwrap();
    let before = fs_err::read(context.path("a.so")).unwrap();
    insta::assert_snapshot!(context.run("patch --rpath $ORIGIN a.so -o b.so"), @r"
    exit: 0
    --- stdout
    b.so: patched in place
    --- stderr
    ");
    assert_eq!(fs_err::read(context.path("a.so")).unwrap(), before);
    assert_eq!(path_of(&context, "b.so"), "rpath $ORIGIN");
    assert_eq!(fs_err::metadata(context.path("b.so")).unwrap().permissions().mode() & 0o777, 0o751);
}

#[test]
fn a_hard_linked_file_is_refused_with_the_way_out() {
    let context = Context::new();
    with_path(&context);
    fs_err::hard_link(context.path("a.so"), context.path("other.so")).unwrap();
    insta::assert_snapshot!(context.run("patch --rpath $ORIGIN a.so"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-ELF-011

      x a.so: 2 names share this file's bytes (hard links); all of them would change
      help: write a new file with `-o OUT`; OUT may be the same path, which then stops sharing
    ");
    let before = fs_err::read(context.path("other.so")).unwrap();
    context.stdout("patch --rpath $ORIGIN a.so -o a.so");
    assert_eq!(fs_err::read(context.path("other.so")).unwrap(), before);
    assert_eq!(path_of(&context, "a.so"), "rpath $ORIGIN");
}

#[test]
fn what_is_no_library() {
    let context = Context::new();
    context.write("a.txt", "text");
    insta::assert_snapshot!(context.run("patch --rpath $ORIGIN a.txt"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-ELF-003

      x a.txt: not an ELF file
      help: name a shared library or a program; linker scripts and archives have no search path
    ");
    insta::assert_snapshot!(context.run("patch --rpath $ORIGIN none.so"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-ELF-001

      x could not look at none.so
      `-> failed to query raw metadata `none.so`: No such file or directory (os error 2)
    ");
    insta::assert_snapshot!(context.run("--json patch --remove a.txt"), @r#"
    exit: 2
    --- stdout
    {
      "error": {
        "also": [],
        "causes": [],
        "code": "E-ELF-003",
        "hint": "name a shared library or a program; linker scripts and archives have no search path",
        "message": "a.txt: not an ELF file"
      }
    }
    --- stderr
    E-ELF-003

      x a.txt: not an ELF file
      help: name a shared library or a program; linker scripts and archives have no search path
    "#);
}

#[test]
fn one_edit_is_needed_and_no_more() {
    let context = Context::new();
    insta::assert_snapshot!(context.run("patch a.so"), @r"
    exit: 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      <--runpath <PATH>|--rpath <PATH>|--remove>

    Usage: torchfl patch <--runpath <PATH>|--rpath <PATH>|--remove> <FILE>

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(context.run("patch --remove --rpath x a.so"), @r"
    exit: 2
    --- stdout
    --- stderr
    error: the argument '--remove' cannot be used with '--rpath <PATH>'

    Usage: torchfl patch <--runpath <PATH>|--rpath <PATH>|--remove> <FILE>

    For more information, try '--help'.
    ");
}
