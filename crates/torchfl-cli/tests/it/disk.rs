//! What is on the disk after a build, whole or failed.

use std::io::Read as _;
use std::process::Command;

use crate::context::{Context, names, wheel_in};

#[test]
fn a_folder_that_is_not_there_yet_is_made() {
    let context = Context::new();
    context.build("", "a/b/dist");
    assert_eq!(names(&context.path("a/b")), ["dist"]);
}

#[test]
fn an_output_that_cannot_be_a_folder() {
    let context = Context::new();
    context.write("dist", "a file");
    insta::assert_snapshot!(context.run("build sim --torch {torch} --front {stock} --quiet -o dist/new"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-CLI-001

      x failed to create directory `dist/new`: Not a directory (os error 20)
      help: a part of this path is a file where a folder must be: name another
    ");
    insta::assert_snapshot!(context.run("build sim --torch {torch} --front {stock} --quiet -o dist"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-CLI-001

      x failed to create directory `dist`: File exists (os error 17)
      help: a part of this path is a file where a folder must be: name another
    ");
    assert_eq!(names(&context.path("")), ["dist", "sk"]);
}

/// The largest file allowed stands for a full disk.
fn with_little_room(context: &Context, words: &str) -> std::process::Output {
    let command = context.command(words);
    let mut shell = Command::new("bash");
    // Ignored signals stay ignored: the write fails with EFBIG in place of killing the process.
    shell.args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "bash"]);
    shell.arg(command.get_program()).args(command.get_args()).current_dir(command.get_current_dir().unwrap());
    shell.env("NO_COLOR", "1").output().unwrap()
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let context = Context::new();
    context.unpack("vendor", "site");
    // Of a wheel file, a library would be unpacked for the proof, which takes room as well.
    context.unpack("stock", "front");
    let words = "build sim --torch site --front front --quiet -o new/dist";
    let output = with_little_room(&context, words);
    insta::assert_snapshot!(context.show(&output), @r#"
    exit: 2
    --- stdout
    --- stderr
    E-WHL-001

      x cannot write new/dist/torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl
      `-> File too large (os error 27) at path "[DIR]/new/dist/.torch_fl-2.13.0+sim1.0.skeleton-cp3XX-cp3XX-manylinux_2_XX_[ARCH].whl.[RANDOM].tmp"
    "#);
    assert_eq!(names(&context.path("")), ["front", "site", "sk"]);
}

#[test]
fn a_full_disk_leaves_the_old_wheel_as_it_is() {
    let context = Context::new();
    context.unpack("vendor", "site");
    let wheel = context.build("", "dist");
    let (before, files) = (fs_err::read(&wheel).unwrap(), names(&context.path("dist")));
    let output = with_little_room(&context, "build sim --torch site --front {stock} -o dist");
    assert_eq!(output.status.code(), Some(2), "{}", context.show(&output));
    assert!(fs_err::read(&wheel).unwrap() == before);
    assert_eq!(names(&context.path("dist")), files);
}

/// Who reads the old wheel goes on reading the old one; there is no moment without one.
#[test]
fn a_wheel_that_is_there_is_replaced_as_a_whole() {
    let context = Context::new();
    let wheel = context.build("", "dist");
    let before = fs_err::read(&wheel).unwrap();
    let mut reader = fs_err::File::open(&wheel).unwrap();
    let again = context.build("--sdk-root /opt/other", "dist");
    assert_eq!(wheel, again);
    assert!(fs_err::read(&again).unwrap() != before);
    let mut read = Vec::new();
    reader.read_to_end(&mut read).unwrap();
    assert!(read == before);
    assert_eq!(names(&context.path("dist")).len(), 2, "{:?}", names(&context.path("dist")));
}

#[test]
fn a_new_wheel_has_the_mode_of_any_new_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let context = Context::new();
    context.build("", "dist");
    context.write("plain", "");
    let mode = |path: &std::path::Path| fs_err::metadata(path).unwrap().permissions().mode();
    for name in names(&context.path("dist")) {
        assert_eq!(mode(&context.path("dist").join(&name)), mode(&context.path("plain")), "{name}");
    }
    assert_eq!(mode(&wheel_in(&context.path("dist"))) & 0o111, 0);
}
