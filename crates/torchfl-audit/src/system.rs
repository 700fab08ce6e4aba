//! The target machine: from a sysroot or a snapshot, or on somebody's word.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use globset::{Glob, GlobSet, GlobSetBuilder};
use serde::Serialize;
use torchfl_loader::{Abi, Cache, Cover, Entry, Files, Given, Object, Settings};

use crate::Error;
use crate::policy::Promise;

/// Libraries of which every symbol has a version: a name without one is not theirs.
const VERSIONED: [&str; 15] = [
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
    "libresolv.so.2",
    "libnsl.so.1",
    "libcrypt.so.1",
    "libanl.so.1",
    "libmvec.so.1",
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "libatomic.so.1",
    "libgomp.so.1",
];

/// Those of them that are glibc's, and are in every process that runs Python.
const GLIBC: [&str; 6] =
    ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1"];

/// What glibc defines, by name.
static GLIBC_SYMBOLS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    include_str!("../data/glibc.txt").lines().filter(|line| !line.starts_with('#')).collect()
});

/// The machine that the list is of; others have a few symbols of their own.
const X86_64: torchfl_elf::Machine = torchfl_elf::Machine(62);

/// Whether a version came after the list: `GLIBC_2.38`. `GLIBC_PRIVATE` is promised to nobody.
fn is_newer(version: &str) -> bool {
    let minor =
        version.strip_prefix("GLIBC_2.").and_then(|minor| minor.split('.').next()?.parse::<u32>().ok());
    minor.is_some_and(|minor| minor > 36)
}

/// On whose word a library counts as there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Word {
    /// The platform tag promises it.
    Tag,
    /// The manifest's `[host]`.
    Host,
    /// The manifest's `[[provided]]`: a distribution that was not given.
    Provided,
    /// The torch that the wheel meets, which was not given.
    Front,
    /// `--allow-unresolved`: nobody says that it is there.
    Leave,
}

/// What the machine has, as far as nobody has looked.
#[derive(Clone)]
pub(crate) struct Machine {
    abi: Abi,
    promise: Promise,
    host: GlobSet,
    leave: Vec<String>,
    made: Arc<Mutex<HashMap<String, Arc<Object>>>>,
}

impl Machine {
    /// `leave`: names that may stay unresolved.
    pub(crate) fn new(abi: Abi, promise: Promise, host: &[String], leave: &[String]) -> Result<Self, Error> {
        Ok(Self { abi, promise, host: globs(host)?, leave: leave.to_vec(), made: Arc::default() })
    }

    /// Whether a library or symbol may stay unresolved.
    pub(crate) fn may_lack(&self, name: &str) -> bool {
        self.leave.iter().any(|one| one == name)
    }

    /// On whose word a library is there, if on any.
    pub(crate) fn word(&self, name: &str) -> Option<Word> {
        // A driver may carry the name of a library that the tag knows too; the manifest is nearer.
        if self.host.is_match(name) {
            Some(Word::Host)
        } else if self.promise.has(name) || self.promise.loader == Some(name) {
            Some(Word::Tag)
        } else {
            self.may_lack(name).then_some(Word::Leave)
        }
    }

    /// What stands in for a library of the machine.
    fn stand_in(&self, name: &str) -> Option<Arc<Object>> {
        let word = self.word(name)?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let object = made.entry(name.to_owned()).or_insert_with(|| {
            let loader = self.promise.loader == Some(name);
            let cover = if word == Word::Tag && GLIBC.contains(&name) {
                // Libraries that were linked without naming libc refer to it without a version.
                let listed = self.abi.machine == X86_64;
                Cover::new(move |name, version| {
                    GLIBC_SYMBOLS.contains(name)
                        || version.is_some_and(|version| !listed || is_newer(version))
                })
            } else if word == Word::Tag && name == "libstdc++.so.6" {
                Cover::new(|name, version| version.is_some() || is_std(name))
            } else if word == Word::Tag && (VERSIONED.contains(&name) || loader) {
                Cover::new(|_, version| version.is_some())
            } else {
                others()
            };
            Arc::new(Object::given(name, self.abi, cover))
        });
        Some(object.clone())
    }

    pub(crate) fn given(&self) -> Given {
        let machine = self.clone();
        Given::new(move |name| machine.stand_in(name))
    }
}

/// What a library of somebody else may define: anything but what is torch's own.
pub(crate) fn others() -> Cover {
    Cover::new(|name, _| !is_torch(name))
}

/// What the interpreter defines (`Include/` of `CPython`).
pub(crate) fn interpreter() -> Cover {
    Cover::new(|name, _| name.starts_with("Py") || name.starts_with("_Py"))
}

/// What the interpreter brings with it.
pub(crate) fn interpreters_own(promise: &Promise) -> impl Iterator<Item = &'static str> {
    GLIBC.into_iter().filter(|name| promise.has(name))
}

/// Whether a symbol's name lies in a namespace of torch, which nobody else fills.
pub(crate) fn is_torch(symbol: &str) -> bool {
    let Some(rest) = scope(symbol) else { return false };
    ["2at", "3c10", "5torch", "6caffe2", "9torch_fl"].iter().any(|namespace| rest.starts_with(namespace))
}

/// Whether a symbol is the C++ library's: `std`, `__gnu_cxx`, `__cxxabiv1` (the ABI's abbreviations among them),
/// operators `new` and `delete`, and the ABI's own functions.
fn is_std(symbol: &str) -> bool {
    if let Some(rest) = scope(symbol) {
        let abbreviated = ["St", "Sa", "Ss", "Sb", "Si", "So", "Sd", "9__gnu_cxx", "10__cxxabiv1"];
        let operators = ["nw", "na", "dl", "da"];
        return abbreviated.iter().chain(&operators).any(|start| rest.starts_with(start));
    }
    symbol.starts_with("__cxa_") || symbol.starts_with("__gxx_") || symbol == "__dynamic_cast"
}

/// What a mangled name starts with, behind what says that it is a table, type information, nested or qualified
/// (Itanium C++ ABI, section 5.1).
fn scope(symbol: &str) -> Option<&str> {
    let rest = symbol.strip_prefix("_Z")?;
    let tables = ["TV", "TI", "TS", "TT", "TW", "TH", "GV", "GR"];
    let rest = tables.iter().find_map(|prefix| rest.strip_prefix(prefix)).unwrap_or(rest);
    // A thunk: how far `this` moves, and the function.
    let thunk = rest.strip_prefix("Th").or_else(|| rest.strip_prefix("Tv"));
    let rest = thunk
        .map_or(rest, |thunk| thunk.trim_start_matches(|c: char| c == 'n' || c == '_' || c.is_ascii_digit()));
    Some(rest.trim_start_matches('N').trim_start_matches(['r', 'V', 'K']).trim_start_matches(['R', 'O']))
}

/// A set of globs of file names.
pub(crate) fn globs(patterns: &[String]) -> Result<GlobSet, Error> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = Glob::new(pattern).map_err(|source| Error::Glob { glob: pattern.clone(), source })?;
        set.add(glob);
    }
    set.build().map_err(|source| Error::Glob { glob: patterns.join(" "), source })
}

/// The loader's settings for a machine whose tree is in `files`, as far as one was given.
pub(crate) fn settings(files: &Files, abi: Abi, machine: &Machine) -> Result<Settings, Error> {
    let mut settings = Settings::of(abi);
    let triplet = format!("{}-linux-gnu", abi.machine.to_string().replace('-', "_"));
    let multiarch = format!("/lib/{triplet}");
    if matches!(files.entry(&multiarch), Entry::Folder)
        || matches!(files.entry(&format!("/usr{multiarch}")), Entry::Folder)
    {
        settings.lib = format!("lib/{triplet}");
        settings.default_folders = [&multiarch, "/usr", "/lib", "/usr/lib"].map(str::to_owned).to_vec();
        settings.default_folders[1] = format!("/usr{multiarch}");
    }
    settings.cache = match files.read("/etc/ld.so.cache") {
        Some(bytes) => Cache::parse(&bytes, "/etc/ld.so.cache", abi)?,
        None => Cache::derive(files, "/etc/ld.so.conf", &settings.default_folders, abi),
    };
    settings.given = machine.given();
    settings.keep_going = true;
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_torchs_namespaces() {
        for name in [
            "_ZN2at4cuda3addEv",
            "_ZNK3c1010TensorImpl3dimEv",
            "_ZTVN5torch3jit4NodeE",
            "_ZTIN3c105ErrorE",
            "_ZN3c10lsERSoNS_6DeviceE",
            "_ZThn16_N2at6Tensor3addEv",
        ] {
            assert!(is_torch(name), "{name}");
        }
        for name in
            ["_ZNSdD2Ev", "_ZNKSt6localeE", "_ZTTNSt7__cxx1119basic_istringstreamE", "_Znwm", "__cxa_throw"]
        {
            assert!(is_std(name) && !is_torch(name), "{name}");
        }
        for name in ["cudaMalloc", "_ZNSt6vectorIiE", "_ZN4nccl3fooEv", "at", "_ZSt4cout"] {
            assert!(!is_torch(name), "{name}");
        }
    }
}
