//! A folder of libraries and a program, made by hand: from C, or as a [`Spec`] says.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::elf::Spec;
use super::{Bound, Ended, Outcome, Run, Step, compare, driver, explain, output, write};

/// Opens a library from the file that it is in.
const VIA: &str = "
void *via(void *(*open)(const char *, int), const char *name, int flags) {
    void *handle = open(name, flags);
    __asm__ volatile(\"\" : : \"r\"(handle)); /* no tail call */
    return handle;
}
";
const MAIN: &str = "
void driver_main(int, char **, void *);
int main(int argc, char **argv) { driver_main(argc, argv, (void *)via); }
";

/// What is run.
pub(crate) struct Bench {
    pub(crate) run: Run,
    _folder: TempDir,
}

impl Bench {
    /// Folders are made as files are put into them. The program is `program`, and has to be made.
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let path = fs_err::canonicalize(folder.path()).unwrap();
        let run = Run { folder: path, program: "program".to_owned(), ..Run::default() };
        Self { run, _folder: folder }
    }

    /// With a program that needs nothing.
    pub(crate) fn plain() -> Self {
        let bench = Self::new();
        bench.program("", &[]);
        bench
    }

    /// The path of a file in the folder, whose own folder is there.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let path = self.run.folder.join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    /// Compiles a library in `path`; arguments are relative to the folder. Its SONAME is its file name.
    pub(crate) fn library(&self, path: &str, source: &str, args: &[&str]) {
        let soname = format!("-Wl,-soname,{}", path.rsplit('/').next().unwrap());
        let fixed = ["-shared", "-fPIC", "-nostdlib", "-fno-builtin", "-Wl,-z,lazy,--no-as-needed", &soname];
        self.cc(path, &[source, VIA].concat(), &[&fixed[..], args].concat());
    }

    /// Compiles the program.
    pub(crate) fn program(&self, source: &str, args: &[&str]) {
        let driver = driver().to_str().unwrap();
        self.cc("program", &[source, VIA, MAIN].concat(), &[&["-Wl,--no-as-needed", driver], args].concat());
    }

    fn cc(&self, path: &str, source: &str, args: &[&str]) {
        let text = self.run.folder.join("source.c");
        fs_err::write(&text, source).unwrap();
        let mut cc = Command::new("cc");
        cc.current_dir(&self.run.folder).arg("-o").arg(self.path(path)).arg(&text).args(args);
        let said = output(&mut cc);
        assert!(said.status.success(), "{path}: {}", String::from_utf8_lossy(&said.stderr));
    }

    /// Writes a library or program.
    pub(crate) fn spec(&self, path: &str, spec: &Spec) {
        write(&self.path(path), &spec.write(path.rsplit('/').next().unwrap()));
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        std::os::unix::fs::symlink(target, self.path(path)).unwrap();
    }

    /// A step that opens `name` at once, in which `~` is the folder.
    pub(crate) fn open(&mut self, name: &str) -> &mut Step {
        let name = name.replace('~', self.run.folder.to_str().unwrap());
        self.run.steps.push(Step { name, now: true, ..Step::default() });
        self.run.steps.last_mut().unwrap()
    }

    /// Runs it by both, which have to agree; what came of the start, and of each step.
    pub(crate) fn agreed(&self) -> Vec<Seen> {
        let outcomes = compare(&self.run);
        let outcomes = outcomes.unwrap_or_else(|difference| panic!("{}\n{difference}", explain(&self.run)));
        outcomes.into_iter().map(|outcome| Seen::new(&self.run, outcome)).collect()
    }

    /// What came of the last step, or of the start where there is none.
    pub(crate) fn last(&self) -> Seen {
        let mut all = self.agreed();
        assert_eq!(all.len(), self.run.steps.len() + 1, "{all:?}");
        all.pop().unwrap()
    }
}

/// An outcome in few words: paths are relative to the folder.
#[derive(Debug)]
pub(crate) struct Seen {
    ended: Ended,
    maps: Vec<String>,
    bound: Vec<String>,
    scopes: Vec<(String, Vec<String>)>,
}

impl Seen {
    fn new(run: &Run, outcome: Outcome) -> Self {
        let here = format!("{}/", run.folder.to_str().unwrap());
        let short = |text: &str| text.replace(&here, "");
        let bound = |bound: &Bound| {
            let version = bound.version.as_ref().map(|version| format!("@{version}")).unwrap_or_default();
            short(&format!("{} {}{version} {}", bound.from, bound.symbol, bound.to))
        };
        let ended = match outcome.ended {
            Ended::Failed(message) => Ended::Failed(short(&message)),
            other => other,
        };
        let inside = outcome.maps.iter().filter(|path| path.starts_with(&here) || !path.starts_with('/'));
        let all = |paths: &[String]| paths.iter().map(|path| short(path)).collect::<Vec<_>>();
        Self {
            ended,
            maps: inside.map(|path| short(path)).collect(),
            bound: outcome.bound.iter().map(bound).collect(),
            scopes: outcome.scopes.iter().map(|(path, scope)| (short(path), all(scope))).collect(),
        }
    }

    /// It succeeded, and these are the libraries of the folder that are mapped.
    #[track_caller]
    pub(crate) fn maps(&self, expected: &[&str]) -> &Self {
        assert_eq!(self.ended, Ended::Ok, "{self:?}");
        assert_eq!(self.maps, expected);
        self
    }

    /// `FROM SYMBOL[@VERSION] TO` was bound in it.
    #[track_caller]
    pub(crate) fn binds(&self, expected: &str) -> &Self {
        assert_eq!(self.ended, Ended::Ok, "{self:?}");
        assert!(self.bound.iter().any(|bound| bound == expected), "{expected}: {self:#?}");
        self
    }

    /// Whether one library looks for symbols in another.
    pub(crate) fn looks(&self, from: &str, to: &str) -> bool {
        let scope = self.scopes.iter().find(|(path, _)| path == from);
        scope.is_some_and(|(_, scope)| scope.iter().any(|path| path == to))
    }

    pub(crate) fn is_ok(&self) -> bool {
        self.ended == Ended::Ok
    }

    #[track_caller]
    pub(crate) fn fails(&self, message: &str) {
        assert_eq!(self.ended, Ended::Failed(message.to_owned()));
    }

    #[track_caller]
    pub(crate) fn aborts(&self) {
        assert_eq!(self.ended, Ended::Aborted);
    }
}
