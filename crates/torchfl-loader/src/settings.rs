//! What the loader knows besides the files: the environment, the machine, how it was built.

use std::fmt;
use std::sync::Arc;

use torchfl_elf::Class;

use crate::cache::{Abi, Cache};
use crate::object::Object;

/// The machine and the environment of a process.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The machine, its width and byte order; files of others are passed over.
    pub abi: Abi,
    /// `LD_LIBRARY_PATH`, as it stands.
    pub library_path: String,
    /// The default folders, in order.
    pub default_folders: Vec<String>,
    /// Subfolders that are tried before each folder of a search: `glibc-hwcaps/x86-64-v3`, best first.
    pub hwcaps: Vec<String>,
    /// `$LIB`, as `lib64`.
    pub lib: String,
    /// `$PLATFORM`, as `x86_64`; `None`: entries that use it are dropped.
    pub platform: Option<String>,
    /// Libraries that `ldconfig` has put on its list.
    pub cache: Cache,
    /// `LD_BIND_NOW`.
    pub bind_now: bool,
    /// Room for static TLS of libraries that are opened late, in bytes. glibc's default is 1664
    /// (`elf/dl-tls.c`, `_dl_tls_static_surplus_init`).
    pub static_tls: u64,
    /// The working folder.
    pub working_folder: String,
    /// What stands in for a library that is found nowhere.
    pub given: Given,
    /// Find and map libraries, and bind no symbol: what is mapped does not depend on it.
    pub map_only: bool,
    /// Go on after a failure and note it, to find all there are. Otherwise stop as the loader does.
    pub keep_going: bool,
}

impl Settings {
    /// A common Linux of this machine: `/lib64` and `/usr/lib64`, an empty environment, no `ld.so.cache`.
    pub fn of(abi: Abi) -> Self {
        let wide = abi.class == Class::Elf64;
        let lib = if wide { "lib64" } else { "lib" };
        Self {
            abi,
            library_path: String::new(),
            default_folders: vec![format!("/{lib}"), format!("/usr/{lib}")],
            hwcaps: Vec::new(),
            lib: lib.to_owned(),
            platform: Some(abi.machine.to_string().replace('-', "_")),
            cache: Cache::default(),
            bind_now: false,
            static_tls: 1664,
            working_folder: "/".to_owned(),
            given: Given::default(),
            map_only: false,
            keep_going: false,
        }
    }
}

/// Libraries that the target machine is said to have, and that nobody has looked at. The same name must always
/// give the same object.
#[derive(Clone)]
pub struct Given(Arc<Find>);

type Find = dyn Fn(&str) -> Option<Arc<Object>> + Send + Sync;

impl Given {
    /// `find(name)` gives what stands in for the library of that name.
    pub fn new(find: impl Fn(&str) -> Option<Arc<Object>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<Object>> {
        (self.0)(name)
    }
}

impl Default for Given {
    fn default() -> Self {
        Self::new(|_| None)
    }
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Given")
    }
}
