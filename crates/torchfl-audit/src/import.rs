//! What an import opens, in its order: the bootstrap's list, then what torch itself opens.

use torchfl_loader::{Entry, Failure, Files, MapId, Open, Process};

use crate::build::Opened;
use crate::rules::load;
use crate::site::{Environment, SITE, Site, shown};

/// Where a facade lies in the model: outside of site-packages, as on a user's machine.
const FACADE: &str = "/cache/facade";

/// How torch gets to the bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// The bootstrap opens the libraries, torch stays where it is.
    Finder,
    /// The bootstrap opens them, and torch is a tree of links whose `lib` leads to the bundle first.
    Facade,
    /// Links in the installed `torch/lib`, and no bootstrap.
    Links,
    /// No `torch_fl` at all: torch as it is installed.
    Plain,
}

/// Something that was opened.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    /// The path in the model.
    pub path: String,
    /// Who opens it, for people.
    pub by: &'static str,
    /// What came of it.
    pub result: Result<MapId, Failure>,
    /// What was found wrong on the way.
    pub problems: Vec<Failure>,
    /// How many libraries were mapped after it.
    pub mapped: usize,
}

impl Opening {
    /// What is wrong with it, less what follows from something else.
    pub(crate) fn failures(&self) -> Vec<Failure> {
        load::causes(self.problems.iter().chain(self.result.as_ref().err()).cloned().collect())
    }
}

/// An import, carried out in the model.
pub(crate) struct Import<'f> {
    pub process: Process<'f>,
    pub openings: Vec<Opening>,
}

impl Import<'_> {
    /// Everything that went wrong, each once, in order.
    pub(crate) fn problems(&self) -> Vec<Failure> {
        let mut all = Vec::new();
        for opening in &self.openings {
            let failed = opening.result.as_ref().err();
            for failure in opening.problems.iter().chain(failed) {
                if !all.contains(failure) {
                    all.push(failure.clone());
                }
            }
        }
        all
    }
}

/// The tree of files as this way has it.
pub(crate) fn tree(site: &Site, way: Way) -> Files {
    let mut files = site.files.clone();
    let Some(build) = site.build.as_ref() else { return files };
    let bundle = format!("{SITE}/torch_fl/{}", build.bundle);
    match way {
        Way::Facade => {
            let torch = format!("{SITE}/torch");
            for name in files.list(&torch).into_iter().filter(|name| name != "lib") {
                files.link(&format!("{FACADE}/torch/{name}"), &format!("{torch}/{name}"));
            }
            for name in site.files.list(&format!("{torch}/lib")) {
                files.link(&format!("{FACADE}/torch/lib/{name}"), &format!("{torch}/lib/{name}"));
            }
            for name in site.files.list(&bundle) {
                files.link(&format!("{FACADE}/torch/lib/{name}"), &format!("{bundle}/{name}"));
            }
        }
        Way::Links => {
            for name in site.files.list(&bundle) {
                files.link(
                    &format!("{SITE}/torch/lib/{name}"),
                    &format!("../../torch_fl/{}/{name}", build.bundle),
                );
            }
        }
        Way::Finder | Way::Plain => {}
    }
    files
}

/// Where torch is imported from.
pub(crate) fn torch_folder(way: Way) -> String {
    match way {
        Way::Facade => format!("{FACADE}/torch"),
        _ => format!("{SITE}/torch"),
    }
}

/// The path of a library of the bootstrap's list.
pub(crate) fn planned(site: &Site, open: &Opened) -> String {
    match (&site.build, open.from.as_str()) {
        (Some(build), "bundle") => format!("{SITE}/torch_fl/{}/{}", build.bundle, open.name),
        _ => format!("{SITE}/torch/lib/{}", open.name),
    }
}

/// Carries out an import of torch.
pub(crate) fn import<'f>(site: &Site, files: &'f Files, way: Way, environment: &Environment) -> Import<'f> {
    let mut import = Import { process: site.interpreter(files, environment), openings: Vec::new() };
    if let Some(build) = &site.build
        && matches!(way, Way::Finder | Way::Facade)
    {
        for open in &build.open {
            if open.shared && import.process.loaded(&open.name).is_some() {
                continue;
            }
            import.open(planned(site, open), "the bootstrap", open.global);
        }
    }
    import.torch(files, &torch_folder(way));
    if let Some(plugin) = site.build.as_ref().and_then(|build| build.plugin.as_ref())
        && matches!(way, Way::Finder | Way::Facade)
    {
        import.open(format!("{SITE}/torch_fl/{}", plugin.library), "the bootstrap", false);
    }
    import
}

impl Import<'_> {
    /// What `torch/__init__.py` opens: `_load_global_deps`, then the extension module `torch._C`.
    fn torch(&mut self, files: &Files, folder: &str) {
        let deps = format!("{folder}/lib/libtorch_global_deps.so");
        if matches!(files.entry(&deps), Entry::File(_)) {
            self.open(deps, "torch", true);
        }
        for name in files.list(folder).into_iter().filter(|name| is_core_module(name)) {
            self.open(format!("{folder}/{name}"), "Python", false);
        }
    }

    pub(crate) fn open(&mut self, path: String, by: &'static str, global: bool) -> Option<MapId> {
        let before = self.process.problems().len();
        let result = self.process.open(&path, Open { global, ..Open::default() });
        let problems = self.process.problems()[before..].to_vec();
        let map = result.as_ref().ok().copied();
        let mapped = self.process.maps().len();
        self.openings.push(Opening { path, by, result, problems, mapped });
        map
    }
}

/// `_C.cpython-311-x86_64-linux-gnu.so`
fn is_core_module(name: &str) -> bool {
    name.strip_prefix("_C.").is_some_and(|rest| rest.rsplit('.').next() == Some("so"))
}

/// One more library, opened in a process of its own.
pub(crate) struct Alone<'f> {
    pub process: Process<'f>,
    pub opening: Opening,
}

/// Opens one more library after `import`, in a process of its own: what is wrong with it, beside what was before.
pub(crate) fn alone<'f>(import: &Import<'f>, path: &str) -> Alone<'f> {
    let mut process = import.process.clone();
    let before = process.problems().len();
    let result = process.open(path, Open::default());
    let problems = process.problems()[before..].to_vec();
    let mapped = process.maps().len();
    let opening = Opening { path: path.to_owned(), by: "whoever needs it", result, problems, mapped };
    Alone { process, opening }
}

/// The first thing that went wrong, for people.
pub(crate) fn first_problem(opening: &Opening) -> Option<String> {
    let failure = opening.problems.first().or(opening.result.as_ref().err())?;
    Some(plain(failure))
}

/// A failure with paths as people know them.
pub(crate) fn plain(failure: &Failure) -> String {
    plainly(&failure.to_string())
}

/// A text with paths as people know them.
pub(crate) fn plainly(text: &str) -> String {
    text.split(' ').map(shown).collect::<Vec<_>>().join(" ")
}

/// Whether a failure is of a name that may stay unresolved.
pub(crate) fn is_forgiven(site: &Site, failure: &Failure) -> bool {
    match failure {
        Failure::NotFound { name, .. } => site.machine.may_lack(name.rsplit('/').next().unwrap_or(name)),
        Failure::Undefined { symbol, .. } => site.machine.may_lack(symbol),
        Failure::Version { version, .. } => site.machine.may_lack(version),
        _ => false,
    }
}
