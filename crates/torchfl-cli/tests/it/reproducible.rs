//! The same inputs give the same bytes, wherever and however they are built.

use std::path::Path;
use std::process::Command;

use crate::context::{Context, wheel_in};

/// A copy of a folder that is made in the reverse order of names, so that `readdir` answers in another order.
fn copy_backwards(from: &Path, to: &Path) {
    fs_err::create_dir_all(to).unwrap();
    let mut entries: Vec<_> = fs_err::read_dir(from).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries.into_iter().rev() {
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_backwards(&path, &to);
        } else {
            fs_err::copy(&path, to).unwrap();
        }
    }
}

/// Builds through a shell with another umask, and with these variables.
fn built(context: &Context, words: &str, umask: &str, variables: &[(&str, &str)]) -> Vec<u8> {
    let command = context.command(&format!("build sim {words} --quiet -o dist"));
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("umask {umask}; exec \"$@\""), "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    shell.current_dir(command.get_current_dir().unwrap()).envs(variables.iter().copied());
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{}", context.show(&output));
    fs_err::read(wheel_in(&context.path("dist"))).unwrap()
}

#[test]
fn folder_umask_zone_language_and_threads_do_not_show() {
    let words = "--torch {torch} --front {stock} --threads";
    let one = built(&Context::new(), &format!("{words} 1"), "022", &[("TZ", "UTC"), ("LC_ALL", "C")]);
    let two = built(
        &Context::new(),
        &format!("{words} 2"),
        "077",
        &[("TZ", "Asia/Shanghai"), ("LC_ALL", "C.UTF-8")],
    );
    let eight = built(
        &Context::new(),
        &format!("{words} 8"),
        "000",
        &[("TZ", "America/New_York"), ("LC_ALL", "tr_TR.UTF-8")],
    );
    assert!(one == two && two == eight);
}

#[test]
fn the_order_of_a_folder_does_not_show() {
    let (one, two) = (Context::new(), Context::new());
    one.unpack("vendor", "site");
    copy_backwards(&one.path("site"), &two.path("elsewhere/packages"));
    let (one, two) = (
        built(&one, "--torch site --front {stock} --threads 2", "022", &[]),
        built(&two, "--torch elsewhere/packages --front {stock} --threads 1", "027", &[]),
    );
    assert!(one == two);
}

#[test]
fn another_input_does_show() {
    let words = "--torch {torch} --front {stock}";
    let one = built(&Context::new(), words, "022", &[]);
    assert!(one != built(&Context::new(), &format!("{words} --sdk-root /opt/sim-2"), "022", &[]));
}
