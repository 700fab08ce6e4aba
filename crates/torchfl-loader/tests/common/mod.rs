//! The same steps by the machine's own loader and by the model.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's helpers may fail the test"
)]
#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

pub(crate) mod bench;
pub(crate) mod elf;
mod model;
mod real;
mod tables;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

pub(crate) use model::{model, start};
pub(crate) use real::{explain, output, real, started, write};

/// glibc's on x86-64.
pub(crate) const INTERPRETER: &str = "/lib64/ld-linux-x86-64.so.2";

/// The kernel's library, which is no file.
const KERNEL: &str = "linux-vdso.so.1";

/// A `dlopen`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) now: bool,
    pub(crate) global: bool,
    pub(crate) deepbind: bool,
    /// File name of the library that calls; the program otherwise.
    pub(crate) by: Option<String>,
}

/// A program to start and what it opens then, in a folder of its own, which is also the working folder.
#[derive(Debug, Clone, Default)]
pub(crate) struct Run {
    pub(crate) folder: PathBuf,
    /// Relative to the folder.
    pub(crate) program: String,
    pub(crate) library_path: String,
    pub(crate) preload: Vec<String>,
    pub(crate) bind_now: bool,
    pub(crate) steps: Vec<Step>,
}

/// A reference that was bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) symbol: String,
    pub(crate) version: Option<String>,
}

/// How a step ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Ended {
    #[default]
    Ok,
    /// The library that should have called is not there.
    Nobody,
    /// The message, of a `dlopen` or of the start.
    Failed(String),
    /// The loader ended the process for a mistake that it did not expect.
    Aborted,
    /// A signal ended the process; the model never says so.
    Crashed,
}

/// What came of the start, or of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) ended: Ended,
    /// All libraries in the process, by the path that they were opened by, in the order of mapping.
    pub(crate) maps: Vec<String>,
    /// What was bound in this step: by files of the folder, each once, in order.
    pub(crate) bound: Vec<Bound>,
    /// Where each library of the folder looks for symbols from now on, in order.
    pub(crate) scopes: Vec<(String, Vec<String>)>,
}

impl Ended {
    fn says(&self, text: &str) -> bool {
        matches!(self, Self::Failed(message) if message.contains(text))
    }
}

impl Run {
    pub(crate) fn program_path(&self) -> String {
        self.folder.join(&self.program).to_str().unwrap().to_owned()
    }

    /// Whether a path, as the loader shows it, is of a file of the folder: relative ones are.
    fn inside(&self, path: &str) -> bool {
        !path.starts_with('/') || Path::new(path).starts_with(&self.folder)
    }

    /// Whether a binding is of a file of the folder. What the driver is called by is left
    /// out, and what the loader looks up for itself in the program's name.
    fn counts(&self, bound: &Bound) -> bool {
        const ITS_OWN: [&str; 5] = ["driver_main", "calloc", "free", "malloc", "realloc"];
        self.inside(&bound.from) && bound.from != KERNEL && !ITS_OWN.contains(&&*bound.symbol)
    }
}

impl Outcome {
    /// Every binding once; none of a step that failed, which a process forgets.
    fn tidy(&mut self) {
        if let Ended::Failed(message) = &mut self.ended {
            *message = comparable(std::mem::take(message));
        }
        let mut seen: Vec<Bound> = Vec::new();
        for one in std::mem::take(&mut self.bound) {
            if self.ended == Ended::Ok && !seen.contains(&one) {
                seen.push(one);
            }
        }
        self.bound = seen;
    }
}

/// A message without the system error that came last in a search: where nothing was tried it is none at all, and at
/// the start it is a number.
fn comparable(mut message: String) -> String {
    for end in ["cannot open shared object file", "cannot read file data"] {
        if let Some(at) = message.find(end) {
            message.truncate(at + end.len());
        }
    }
    message
}

/// Runs both, and says where they differ.
pub(crate) fn compare(run: &Run) -> Result<Vec<Outcome>, String> {
    let (mut real, model) = (real(run), model(run));
    for (at, (theirs, ours)) in real.iter().zip(&model).enumerate() {
        if theirs == ours {
            continue;
        }
        // What a failed dlopen gives back of the static TLS block depends on the padding in it: where libraries do not
        // touch, glibc forgets some (elf/dl-close.c, "One of them will be leaked"). The model gives all of it back.
        let no_room = |outcome: &Outcome| outcome.ended.says("static TLS block");
        if real[..at].iter().any(no_room) && no_room(theirs) && !no_room(ours) {
            real.truncate(at);
            return Ok(real);
        }
        return Err(difference(run, at, theirs, ours));
    }
    if real.len() != model.len() {
        return Err(format!("steps: {} and {}", real.len(), model.len()));
    }
    model::keeps_going(run, &real)?;
    Ok(real)
}

fn difference(run: &Run, at: usize, theirs: &Outcome, ours: &Outcome) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "step {at} (0 is the start) differs; - is ld.so, + is the model");
    if theirs.ended != ours.ended {
        let _ = writeln!(text, "- {:?}\n+ {:?}", theirs.ended, ours.ended);
    }
    if theirs.maps != ours.maps {
        let _ = writeln!(text, "- {:#?}\n+ {:#?}", theirs.maps, ours.maps);
    }
    for (theirs, ours) in theirs.scopes.iter().zip(&ours.scopes).filter(|(a, b)| a != b) {
        let _ = writeln!(text, "scope of {}\n- {:?}\n+ {} {:?}", theirs.0, theirs.1, ours.0, ours.1);
    }
    let show = |bound: &Bound| {
        let version = bound.version.as_ref().map(|version| format!("@{version}")).unwrap_or_default();
        format!("{} {}{version} -> {}", bound.from, bound.symbol, bound.to)
    };
    let only = |of: &[Bound], others: &[Bound]| -> Vec<String> {
        of.iter().filter(|bound| !others.contains(bound)).map(show).collect()
    };
    for line in only(&theirs.bound, &ours.bound) {
        let _ = writeln!(text, "- {line}");
    }
    for line in only(&ours.bound, &theirs.bound) {
        let _ = writeln!(text, "+ {line}");
    }
    if theirs.bound != ours.bound && theirs.bound.len() == ours.bound.len() {
        for (theirs, ours) in theirs.bound.iter().zip(&ours.bound).filter(|(a, b)| a != b) {
            let _ = writeln!(text, "order: - {}\n       + {}", show(theirs), show(ours));
        }
    }
    text.replace(&*run.folder.to_string_lossy(), "~")
}

/// The library that does the steps; compiled once.
pub(crate) fn driver() -> &'static Path {
    static DRIVER: OnceLock<PathBuf> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/driver.c");
        let new = folder.join(format!("libdriver.{}.so", std::process::id()));
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-Wall", "-shared", "-fPIC", "-Wl,-z,now", "-o"]).arg(&new).arg(source);
        let cc = output(&mut cc);
        assert!(cc.status.success(), "{}", String::from_utf8_lossy(&cc.stderr));
        let path = folder.join("libdriver.so");
        fs_err::rename(&new, &path).unwrap();
        path
    })
}
