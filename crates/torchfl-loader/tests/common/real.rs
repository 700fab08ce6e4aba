//! The machine's own loader, watched through `LD_DEBUG`.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::RwLock;

use super::{Bound, Ended, Outcome, Run};

/// A program that is open for writing cannot be started, and a process that another thread is just starting has what
/// is open in this one.
static STARTING: RwLock<()> = RwLock::new(());

/// Writes a file that can be executed.
pub(crate) fn write(path: &Path, bytes: &[u8]) {
    let _nobody_starts = STARTING.read().unwrap();
    fs_err::write(path, bytes).unwrap();
    fs_err::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// Runs a program while no other is being written.
pub(crate) fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = {
        let _alone = STARTING.write().unwrap();
        command.spawn().unwrap()
    };
    child.wait_with_output().unwrap()
}

fn command(run: &Run, debug: &str) -> Output {
    let mut command = Command::new(run.program_path());
    command.current_dir(&run.folder).env_clear().env("LD_DEBUG", debug).env("LC_ALL", "C");
    if !run.library_path.is_empty() {
        command.env("LD_LIBRARY_PATH", &run.library_path);
    }
    if !run.preload.is_empty() {
        command.env("LD_PRELOAD", run.preload.join(" "));
    }
    if run.bind_now {
        command.env("LD_BIND_NOW", "1");
    }
    for step in &run.steps {
        let flag = |set: bool, letter| if set { letter } else { "" };
        let flags = [flag(step.now, "n"), flag(step.global, "g"), flag(step.deepbind, "d")].concat();
        command.arg(format!("{flags}:{}:{}", step.by.as_deref().unwrap_or_default(), step.name));
    }
    output(&mut command)
}

/// All that the loader has to say, for a person.
pub(crate) fn explain(run: &Run) -> String {
    let output = command(run, "libs,files,bindings,versions,scopes");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    // Not what the system's libraries need of each other.
    let system =
        [":\tbinding file /lib", ":\tbinding file linux-vdso", "trying file=/lib", "trying file=/usr"];
    let lines = text.lines().filter(|line| !system.iter().any(|text| line.contains(text)));
    lines.fold(String::new(), |all, line| all + line + "\n")
}

/// Runs the program. The first outcome is that of the start; after a failed start there are no others.
pub(crate) fn real(run: &Run) -> Vec<Outcome> {
    let output = command(run, "bindings,scopes");
    let text = String::from_utf8_lossy(&output.stderr);
    let mut outcomes = Vec::new();
    let mut now = Outcome::default();
    let (mut scopes, mut before) = (Scopes::default(), Scopes::default());
    let mut other: Vec<&str> = Vec::new();
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("@map ") {
            // The program has no name.
            if !path.is_empty() && path != super::KERNEL && path != super::INTERPRETER {
                now.maps.push(path.to_owned());
            }
        } else if line == "@end" {
            if now.ended != Ended::Ok {
                scopes.clone_from(&before);
            }
            before.clone_from(&scopes);
            let inside = now.maps.iter().filter(|path| run.inside(path));
            now.scopes = inside.map(|path| (path.clone(), scopes.of(path))).collect();
            now.tidy();
            outcomes.push(std::mem::take(&mut now));
        } else if line == "@nobody" {
            now.ended = Ended::Nobody;
        } else if let Some(message) = line.strip_prefix("@fail ") {
            now.ended = Ended::Failed(message.to_owned());
        } else if let Some(bound) = bound(line) {
            if run.counts(&bound) {
                now.bound.push(bound);
            }
        } else if let Some((_, said)) = line.split_once(":\t") {
            scopes.hear(said);
        } else if !line.starts_with('@') {
            other.push(line);
        }
    }
    if !output.status.success() {
        now.ended = if output.status.code().is_some() { ended(run, &other) } else { Ended::Crashed };
        now.maps.clear();
        now.tidy();
        outcomes.push(now);
    }
    outcomes
}

/// All that a program of the machine binds when everything is bound at once, also what it opens itself.
pub(crate) fn started(program: &str, argument: &str) -> Vec<Bound> {
    let mut command = Command::new(program);
    command.arg(argument).env_clear().env("LD_DEBUG", "bindings").env("LD_BIND_NOW", "1");
    let said = output(&mut command);
    assert!(said.status.success(), "{program} {argument}");
    String::from_utf8_lossy(&said.stderr).lines().filter_map(bound).collect()
}

/// What `LD_DEBUG=scopes` tells: the parts of each library's scope, and what is added to the global one, which is the
/// part that begins with the program.
#[derive(Default, Clone)]
struct Scopes {
    of: HashMap<String, BTreeMap<usize, Vec<String>>>,
    global: Vec<String>,
    now: String,
}

impl Scopes {
    fn hear(&mut self, line: &str) {
        if let Some(object) = line.strip_prefix("object=").and_then(|line| line.strip_suffix(" [0]")) {
            object.clone_into(&mut self.now);
        } else if let Some(path) =
            line.strip_prefix("add ").and_then(|line| line.strip_suffix(" [0] to global scope"))
        {
            self.global.push(path.to_owned());
        } else if let Some((number, list)) =
            line.strip_prefix(" scope ").and_then(|line| line.split_once(':'))
        {
            let list: Vec<String> = list.split_whitespace().map(str::to_owned).collect();
            if self.global.is_empty() {
                self.global.clone_from(&list);
            }
            self.of.entry(self.now.clone()).or_default().insert(number.parse().unwrap(), list);
        }
    }

    fn of(&self, path: &str) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for part in self.of.get(path).into_iter().flat_map(BTreeMap::values) {
            let part = if part.first() == self.global.first() { &self.global } else { part };
            for path in part {
                if !all.contains(path) {
                    all.push(path.clone());
                }
            }
        }
        all
    }
}

/// What the loader said as it ended the process: `PROGRAM: WHAT: MESSAGE`.
fn ended(run: &Run, lines: &[&str]) -> Ended {
    let program = format!("{}: ", run.program_path());
    // What it reports, and goes on.
    let warnings = [
        "from LD_PRELOAD",
        "has different size in shared object",
        "no version information available",
        ": weak version `",
        "warning: ",
        "Relink `",
    ];
    let line = lines.iter().find(|line| !warnings.iter().any(|warning| line.contains(warning)));
    let line = line.unwrap_or_else(|| panic!("the loader said nothing"));
    if line.starts_with("Inconsistency detected by ld.so") {
        return Ended::Aborted;
    }
    let line = line.strip_prefix(&program).unwrap_or(line);
    let what = ["error while loading shared libraries: ", "symbol lookup error: ", "relocation error: "];
    let message = what.iter().find_map(|what| line.strip_prefix(what)).unwrap_or(line);
    Ended::Failed(message.to_owned())
}

/// ``binding file A [0] to B [0]: normal symbol `foo' [V]``, behind the process id.
fn bound(line: &str) -> Option<Bound> {
    let (from, rest) = line.split_once(":\tbinding file ")?.1.split_once(" [0] to ")?;
    let (to, rest) = rest.split_once(" [0]: ")?;
    let (symbol, rest) = rest.split_once('`')?.1.split_once('\'')?;
    let version = rest.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    Some(Bound {
        from: from.to_owned(),
        to: to.to_owned(),
        symbol: symbol.to_owned(),
        version: version.map(str::to_owned),
    })
}
