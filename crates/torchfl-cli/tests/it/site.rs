//! `activate`, `deactivate` and `facade`, on environments that hold a `torch_fl` made up of what they touch.

use std::path::PathBuf;
use std::process::Command;

use crate::context::{Context, names};

/// An environment `venv` without pip; its site-packages.
fn environment(context: &Context) -> PathBuf {
    let made = Command::new("python3")
        .args(["-m", "venv", "--without-pip"])
        .arg(context.path("venv"))
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let lib = context.path("venv/lib");
    lib.join(&names(&lib)[0]).join("site-packages")
}

fn with_torch_fl(context: &Context) -> PathBuf {
    let site = environment(context);
    for name in ["__init__.py", "gate/torch_fl_gate.py", "_facade.py"] {
        let path = site.join("torch_fl").join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, "").unwrap();
    }
    site
}

/// A run whose Python version is left out.
fn run(context: &Context, words: &str) -> String {
    context
        .run(&format!("{words} --python venv/bin/python"))
        .replace(&names(&context.path("venv/lib"))[0], "python3.X")
}

#[test]
fn on_and_off_again() {
    let context = Context::new();
    let site = with_torch_fl(&context);
    let before = names(&site);
    insta::assert_snapshot!(run(&context, "activate"), @r"
    exit: 0
    --- stdout
    [DIR]/venv/lib/python3.X/site-packages/00-torch_fl.pth: written; `import torch` now runs on torch_fl in every program
    --- stderr
    ");
    let file = site.join("00-torch_fl.pth");
    let line = include_str!("../../../../wheels/torch_fl/activate.pth");
    assert_eq!(fs_err::read_to_string(&file).unwrap(), line);
    insta::assert_snapshot!(run(&context, "activate"), @r"
    exit: 0
    --- stdout
    [DIR]/venv/lib/python3.X/site-packages/00-torch_fl.pth: is there already
    --- stderr
    ");
    insta::assert_snapshot!(run(&context, "deactivate"), @r"
    exit: 0
    --- stdout
    [DIR]/venv/lib/python3.X/site-packages/00-torch_fl.pth: removed
    --- stderr
    ");
    assert_eq!(names(&site), before);
    insta::assert_snapshot!(run(&context, "--json deactivate"), @r#"
    exit: 0
    --- stdout
    {
      "file": "[DIR]/venv/lib/python3.X/site-packages/00-torch_fl.pth",
      "changed": false
    }
    --- stderr
    "#);
}

/// `site` reads `.pth` files as whoever runs Python.
#[test]
fn everybody_can_read_the_switch() {
    use std::os::unix::fs::PermissionsExt as _;
    let context = Context::new();
    let site = with_torch_fl(&context);
    let command = context.command("activate --python venv/bin/python");
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 077; exec \"$@\"", "sh"]).arg(command.get_program()).args(command.get_args());
    let output = shell.current_dir(context.path("")).output().unwrap();
    assert!(output.status.success(), "{}", context.show(&output));
    assert_eq!(fs_err::metadata(site.join("00-torch_fl.pth")).unwrap().permissions().mode() & 0o777, 0o644);
}

#[test]
fn an_older_switch_is_brought_up_to_date() {
    let context = Context::new();
    let site = with_torch_fl(&context);
    let file = site.join("00-torch_fl.pth");
    fs_err::write(&file, "import torch_fl_gate\n").unwrap();
    context.stdout("activate --python venv/bin/python");
    assert!(fs_err::read_to_string(&file).unwrap().contains("torchfl activate"));
}

#[test]
fn somebody_elses_file_is_left_alone() {
    let context = Context::new();
    let site = with_torch_fl(&context);
    fs_err::write(site.join("00-torch_fl.pth"), "import mine\n").unwrap();
    insta::assert_snapshot!(run(&context, "activate"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-SITE-005

      x [DIR]/venv/lib/python3.X/site-packages/00-torch_fl.pth exists and was not written by `torchfl activate`
      help: look at the file, and move it away if it may go
    ");
    insta::assert_snapshot!(run(&context, "deactivate"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-SITE-005

      x [DIR]/venv/lib/python3.X/site-packages/00-torch_fl.pth exists and was not written by `torchfl activate`
      help: look at the file, and move it away if it may go
    ");
    assert_eq!(fs_err::read_to_string(site.join("00-torch_fl.pth")).unwrap(), "import mine\n");
}

#[test]
fn an_environment_without_torch_fl() {
    let context = Context::new();
    environment(&context);
    insta::assert_snapshot!(run(&context, "activate"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-SITE-004

      x torch_fl is not installed for venv/bin/python
      help: install the wheel first: venv/bin/python -m pip install torch_fl-….whl; or name another interpreter with --python
    ");
    insta::assert_snapshot!(run(&context, "deactivate"), @r"
    exit: 0
    --- stdout
    [DIR]/venv/lib/python3.X/site-packages/00-torch_fl.pth: is not there
    --- stderr
    ");
    insta::assert_snapshot!(run(&context, "facade out"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-SITE-004

      x torch_fl is not installed for venv/bin/python
      help: install the wheel first: venv/bin/python -m pip install torch_fl-….whl; or name another interpreter with --python
    ");
}

/// A checkout in the current folder is not what is installed.
#[test]
fn the_current_folder_does_not_count() {
    let context = Context::new();
    environment(&context);
    context.write("torch_fl/__init__.py", "");
    assert!(run(&context, "activate").contains("E-SITE-004"));
}

#[test]
fn a_python_that_is_none() {
    let context = Context::new();
    insta::assert_snapshot!(context.run("activate --python no-such-python"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-SITE-001

      x cannot start the Python no-such-python
      `-> No such file or directory (os error 2)
      help: name the environment's interpreter: --python VENV/bin/python
    ");
    insta::assert_snapshot!(context.run("activate --python /bin/false"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-SITE-002

      x the Python /bin/false failed: no message
    ");
    insta::assert_snapshot!(context.run("activate --python /bin/echo"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-SITE-003

      x the Python /bin/echo did not answer in JSON
      `-> invalid number at line 1 column 2
      help: look for a sitecustomize or .pth file of it that prints
    ");
}

#[test]
fn site_packages_that_cannot_be_written() {
    let context = Context::new();
    let site = with_torch_fl(&context);
    // Where even root cannot write: a folder that is not there. torch_fl is found along PYTHONPATH.
    fs_err::rename(&site, context.path("moved")).unwrap();
    let mut command = context.command("activate --python venv/bin/python");
    let output = command.env("PYTHONPATH", context.path("moved")).output().unwrap();
    let text = context.show(&output).replace(&names(&context.path("venv/lib"))[0], "python3.X");
    let text =
        regex::Regex::new(r"\.torchfl-\w+").unwrap().replace_all(&text, ".torchfl-[RANDOM]").into_owned();
    insta::assert_snapshot!(text, @r"
    exit: 2
    --- stdout
    --- stderr
    E-SITE-007

      x cannot write [DIR]/venv/lib/python3.X/site-packages/00-torch_fl.pth
      `-> entity not found
      help: run it as the user who installs packages there
    ");
}

#[test]
fn a_facade_is_published_by_the_bootstrap() {
    let context = Context::new();
    let site = with_torch_fl(&context);
    fs_err::write(
        site.join("torch_fl/_facade.py"),
        "import os, sys\nos.makedirs(sys.argv[1] + '/torch')\nprint('{}')\n",
    )
    .unwrap();
    insta::assert_snapshot!(run(&context, "facade out"), @r"
    exit: 0
    --- stdout
    out/torch: published
    --- stderr
    ");
    assert!(context.path("out/torch").is_dir());
    fs_err::remove_dir_all(context.path("out")).unwrap();
    insta::assert_snapshot!(run(&context, "--json facade out"), @r#"
    exit: 0
    --- stdout
    {
      "cmake_prefix": "out/torch/share/cmake",
      "torch": "out/torch"
    }
    --- stderr
    "#);
    fs_err::write(
        site.join("torch_fl/_facade.py"),
        "import sys\nsys.exit('E-BOOT-003: torch is not installed')\n",
    )
    .unwrap();
    insta::assert_snapshot!(run(&context, "facade out"), @r"
    exit: 2
    --- stdout
    --- stderr
    E-SITE-002

      x the Python venv/bin/python failed: E-BOOT-003: torch is not installed
    ");
}
