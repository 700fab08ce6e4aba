//! `docs/reference/cli.md`, made from the definitions in `args.rs`, and `audit.md`, made from the table of rules; and
//! the pin of `errors.md`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, ArgAction, Command, CommandFactory as _};
use torchfl_audit::{RULES, Rule};

use crate::args::Cli;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference");

const EXIT_CODES: &str = "\
## Exit codes

| code | meaning |
|---|---|
| 0 | Done. |
| 1 | The thing asked about is not right: `torchfl audit` or `torchfl closure` has errors, `torchfl fetch` a file that is missing or wrong, `torchfl vendor check` findings, `torchfl core-gap` a gap, `torchfl snapshot diff` something that is gone, `torchfl ci workflow --check` a difference. |
| 2 | It could not be done, or the command line is wrong. |

Data goes to stdout; messages, progress and errors go to stderr. With `--json` an error is also an object on stdout:
`{\"error\": {\"code\", \"message\", \"causes\", \"hint\", \"also\"}}`, where `also` holds further errors of the same input.
A wrong command line is told as text only. The codes are listed in [errors.md](errors.md).
";

const AUDIT: &str = "\
# Rules of the audit

Generated from the rules of `torchfl-audit`; `make docs` writes it anew.

`torchfl audit` ([guide](../guide/audit.md)) and `torchfl build` name a finding by the code of its rule. An error refuses
the wheel; a warning is something that will fail for some, or that somebody should look at; a note is good to know. A
manifest may set another severity, `[audit] severity = { AUD-005 = \"error\" }`, or leave a rule out: `\"ignore\"`.

| code | what | severity |
|---|---|---|
";

fn rules_page() -> String {
    let mut text = AUDIT.to_owned();
    let severity = |rule: &Rule| format!("{:?}", rule.severity).to_lowercase();
    for rule in RULES {
        let (code, anchor) = (rule.code, rule.code.to_lowercase());
        writeln!(text, "| [`{code}`](#{anchor}) | {} | {} |", rule.title, severity(rule)).unwrap();
    }
    for Rule { code, title, about, fix, .. } in RULES {
        write!(text, "\n## {code}\n\n**{title}.** {about}\n\nWhat to do: {fix}.\n").unwrap();
    }
    text
}

fn page() -> String {
    let mut root = Cli::command();
    root.build();
    let mut text =
        "# Commands\n\nGenerated from the command line's definitions; `make docs` writes it anew.\n\n"
            .to_owned();
    let global: Vec<&Arg> = root.get_arguments().filter(|arg| arg.is_global_set()).collect();
    write!(text, "{}\n\nEvery command takes:\n\n{}\n{EXIT_CODES}", about(&root), table(&global)).unwrap();
    for command in root.get_subcommands() {
        section(command, &mut text);
    }
    text
}

/// A command, or the commands of a group.
fn section(command: &Command, text: &mut String) {
    if command.is_subcommand_required_set() {
        command.get_subcommands().for_each(|inner| section(inner, text));
        return;
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").split_whitespace().collect::<Vec<_>>().join(" ");
    let usage = usage.replace(" torchfl ", "\ntorchfl "); // a command that also has commands
    let name = command.get_bin_name().unwrap_or_default();
    write!(text, "\n## {name}\n\n{}.\n\n```\n{usage}\n```\n", about(command)).unwrap();
    let own: Vec<&Arg> =
        command.get_arguments().filter(|arg| !arg.is_global_set() && arg.get_id() != "help").collect();
    if !own.is_empty() {
        write!(text, "\n{}", table(&own)).unwrap();
    }
    command.get_subcommands().for_each(|inner| section(inner, text));
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn table(args: &[&Arg]) -> String {
    let mut text = "| argument | meaning | default |\n|---|---|---|\n".to_owned();
    for arg in args {
        let mut names = Vec::new();
        names.extend(arg.get_short().map(|short| format!("-{short}")));
        names.extend(arg.get_long().map(|long| format!("--{long}")));
        let value = arg.get_value_names().unwrap_or_default().join(" ").replace('|', "\\|");
        let name = match (names.is_empty(), takes_value(arg)) {
            (true, _) => format!("`{value}`"),
            (false, true) => format!("`{} {value}`", names.join(", ")),
            (false, false) => format!("`{}`", names.join(", ")),
        };
        let (help, stated) = help(arg);
        let possible: Vec<_> = arg
            .get_possible_values()
            .iter()
            .filter(|_| takes_value(arg))
            .map(|v| format!("`{}`", v.get_name()))
            .collect();
        let possible =
            if possible.is_empty() { String::new() } else { format!(": {}", possible.join(" or ")) };
        let repeated =
            if matches!(arg.get_action(), ArgAction::Append) { "; may be given several times" } else { "" };
        let default = arg
            .get_default_values()
            .first()
            .map(|v| format!("`{}`", v.to_string_lossy()))
            .unwrap_or_default();
        let default = if takes_value(arg) && !default.is_empty() { default } else { stated };
        writeln!(text, "| {name} | {help}{possible}{repeated} | {default} |").unwrap();
    }
    text
}

/// A help text, and the default that it states itself where clap cannot know it.
fn help(arg: &Arg) -> (String, String) {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    match help.split_once(" [default: ") {
        Some((help, default)) => (help.to_owned(), default.trim_end_matches(']').to_owned()),
        None => (help, String::new()),
    }
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

fn no_drift(file: &str, page: &str) {
    let path = format!("{DOCS}/{file}");
    if std::env::var_os("UPDATE").is_some() {
        fs_err::write(&path, page).unwrap();
    }
    let committed = fs_err::read_to_string(&path).unwrap_or_default();
    assert!(committed == page, "{path} is out of date: run `make docs`");
}

#[test]
fn workflows_have_no_drift() {
    let subject = |(name, _): &(&str, &str)| torchfl_ci::Subject {
        manifest: torchfl_manifest::find(name).unwrap(),
        file: None,
    };
    let subjects: Vec<_> = torchfl_manifest::embedded().iter().map(subject).collect();
    let rows = torchfl_ci::matrix(&subjects).unwrap();
    for service in [torchfl_ci::Service::Github, torchfl_ci::Service::Gitlab] {
        for file in service.workflow(&rows) {
            no_drift(&format!("../../ci/{}/{}", service.name(), file.name), &file.text);
        }
    }
}

#[test]
fn reference_of_the_command_line_has_no_drift() {
    no_drift("cli.md", &page());
}

#[test]
fn reference_of_the_audit_has_no_drift() {
    no_drift("audit.md", &rules_page());
}

/// Every code in the sources of `folder` that a user can meet.
fn codes(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("tests") && !path.ends_with("__pycache__") {
                codes(&path, found);
            }
            continue;
        }
        if !path.extension().is_some_and(|e| e == "rs" || e == "py") || path.ends_with("reference.rs") {
            continue;
        }
        let text = fs_err::read_to_string(&path).unwrap();
        let starts = text.match_indices("\"E-").map(|(at, _)| &text[at + 1..]);
        found.extend(
            starts
                .filter_map(|rest| rest.split_once('"'))
                .map(|(code, _)| code.to_owned())
                .filter(|code| is_code(code)),
        );
    }
}

/// `E-ELF-001`.
fn is_code(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    matches!(parts[..], ["E", kind, number] if !kind.is_empty() && number.len() == 3 && number.bytes().all(|b| b.is_ascii_digit()))
}

/// The page is written by hand; that it names each code once, and no other, is not left to care.
#[test]
fn reference_of_the_errors_has_no_drift() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut used = BTreeSet::new();
    for folder in ["crates", "wheels/torch_fl"] {
        codes(&root.join(folder), &mut used);
    }
    for kind in [
        "E-AUD", "E-BLD", "E-BOOT", "E-CLI", "E-ELF", "E-FET", "E-LDR", "E-MAN", "E-RTE", "E-SHM", "E-SITE",
        "E-WHL",
    ] {
        assert!(used.iter().any(|code| code.starts_with(kind)), "no source names a code {kind}-…");
    }
    let page = fs_err::read_to_string(format!("{DOCS}/errors.md")).unwrap_or_default();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let rows: Vec<(&str, &str)> = rows.filter(|(code, _)| is_code(code)).collect();
    let described: BTreeSet<String> = rows.iter().map(|(code, _)| (*code).to_owned()).collect();
    assert_eq!(rows.len(), described.len(), "a code is described twice");
    let missing: Vec<_> = used.difference(&described).collect();
    let stale: Vec<_> = described.difference(&used).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "errors.md lacks {missing:?}, and describes {stale:?} that nobody raises"
    );
    for (code, rest) in rows {
        let cells: Vec<&str> = rest.trim_matches(['|', ' ']).split(" | ").collect();
        assert!(cells.len() == 2 && cells.iter().all(|cell| cell.len() > 3), "{code}: meaning and next step");
    }
}
