//! What a platform tag, `manylinux_2_28_x86_64`, promises of the machine that a wheel is installed on:
//! libraries that are there, and the newest versions that they define.
//!
//! Sources: PEP 513, 571, 599 and 600 (the libraries; PEP 600: any distribution with that glibc), and the
//! numbers that the auditwheel project keeps for them (`manylinux-policy.json` of auditwheel 6.8.2), gathered
//! from distributions.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

/// What a platform tag promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// The tag's glibc.
    pub glibc: (u32, u32),
    /// Libraries that are there, by SONAME, the loader left out.
    pub libraries: &'static [&'static str],
    /// The loader, by SONAME; `None` for an architecture that no tag knows.
    pub loader: Option<&'static str>,
    /// The newest version that each family reaches.
    pub newest: Newest,
}

/// The newest promised version of each family, `3.4.19` for `GLIBCXX_3.4.19`; `None`: no version of it at
/// all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newest {
    /// `GLIBCXX_` of `libstdc++.so.6`.
    pub glibcxx: Option<&'static str>,
    /// `CXXABI_` of `libstdc++.so.6`.
    pub cxxabi: Option<&'static str>,
    /// `GCC_` of `libgcc_s.so.1`.
    pub gcc: Option<&'static str>,
    /// `ZLIB_` of `libz.so.1`.
    pub zlib: Option<&'static str>,
    /// `LIBATOMIC_` of `libatomic.so.1`.
    pub atomic: Option<&'static str>,
}

/// Whether a needed version is promised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Yes,
    /// The library is there and may be older than that.
    TooNew {
        /// The newest promised version, `GLIBCXX_3.4.19`; `None`: none of that family.
        limit: Option<String>,
    },
    /// The library, or this kind of version, is not part of the promise.
    Unknown,
}

/// Libraries of every tag. The first are of 2.24 and 2.12.
const LIBRARIES: &[&str] = &[
    "libmvec.so.1",
    "libexpat.so.1",
    "libGL.so.1",
    "libICE.so.6",
    "libSM.so.6",
    "libX11.so.6",
    "libXext.so.6",
    "libXrender.so.1",
    "libanl.so.1",
    "libatomic.so.1",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libglib-2.0.so.0",
    "libgobject-2.0.so.0",
    "libgthread-2.0.so.0",
    "libm.so.6",
    "libnsl.so.1",
    "libpthread.so.0",
    "libresolv.so.2",
    "librt.so.1",
    "libstdc++.so.6",
    "libutil.so.1",
    "libz.so.1",
];

/// The loader of each architecture, as the psABIs name it (glibc's `shlib-versions`).
const LOADERS: &[(&str, &str)] = &[
    ("aarch64", "ld-linux-aarch64.so.1"),
    ("armv7l", "ld-linux-armhf.so.3"),
    ("i686", "ld-linux.so.2"),
    ("loongarch64", "ld-linux-loongarch-lp64d.so.1"),
    ("ppc64", "ld64.so.1"),
    ("ppc64le", "ld64.so.2"),
    ("riscv64", "ld-linux-riscv64-lp64d.so.1"),
    ("s390x", "ld64.so.1"),
    ("x86_64", "ld-linux-x86-64.so.2"),
];

/// From this glibc on, on these architectures (none named: all), up to the next row that fits.
type Row = ((u32, u32), &'static [&'static str], [&'static str; 5]);

/// `-`: no version. Between two rows the older holds: a distribution with that glibc may have no newer GCC.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    //                                        GLIBCXX   CXXABI    GCC       ZLIB       LIBATOMIC
    ((2,  5), &[],                          ["3.4.8",  "1.3.1",  "4.2.0",  "-",       "-"]),
    ((2, 12), &[],                          ["3.4.13", "1.3.3",  "4.5.0",  "1.2.2.4", "-"]),
    ((2, 17), &[],                          ["3.4.19", "1.3.7",  "4.8.0",  "1.2.5.2", "1.0"]),
    ((2, 17), &["x86_64", "s390x"],         ["3.4.19", "1.3.7",  "4.8.0",  "1.2.5.2", "-"]),
    ((2, 24), &[],                          ["3.4.22", "1.3.10", "4.8.0",  "1.2.5.2", "1.2"]),
    ((2, 26), &[],                          ["3.4.24", "1.3.11", "7.0.0",  "1.2.9",   "1.2"]),
    ((2, 26), &["aarch64"],                 ["3.4.24", "1.3.11", "7.0.0",  "1.2.5.2", "1.2"]),
    ((2, 26), &["x86_64"],                  ["3.4.22", "1.3.10", "4.8.0",  "1.2.5.2", "1.2"]),
    ((2, 27), &[],                          ["3.4.24", "1.3.11", "7.0.0",  "1.2.9",   "1.2"]),
    ((2, 31), &[],                          ["3.4.28", "1.3.12", "7.0.0",  "1.2.9",   "1.2"]),
    ((2, 34), &[],                          ["3.4.29", "1.3.13", "11.0",   "1.2.9",   "1.2"]),
    ((2, 35), &[],                          ["3.4.30", "1.3.13", "12.0.0", "1.2.9",   "1.2"]),
    ((2, 37), &[],                          ["3.4.30", "1.3.13", "12.0.0", "1.2.12",  "1.2"]),
    ((2, 39), &[],                          ["3.4.33", "1.3.15", "14.0.0", "1.2.12",  "1.2"]),
    ((2, 39), &["loongarch64"],             ["3.4.32", "1.3.15", "14.0.0", "1.2.12",  "1.2"]),
    ((2, 40), &[],                          ["3.4.33", "1.3.15", "14.0.0", "1.2.12",  "1.2"]),
];

/// Versions without a number, and the one that they came with.
const UNNUMBERED: &[(&str, &str)] = &[
    ("CXXABI_FLOAT128", "1.3.9"), // GCC 5
    ("CXXABI_TM_1", "1.3.6"),     // GCC 4.7
    ("GLIBC_ABI_DT_RELR", "2.36"),
];

/// What the tag for this glibc and architecture (`x86_64`) promises. Before 2.5 there is no tag: its row is
/// used.
pub fn promised(glibc: (u32, u32), arch: &str) -> Promise {
    let fits = |row: &&Row| row.0 <= glibc && (row.1.is_empty() || row.1.contains(&arch));
    let [glibcxx, cxxabi, gcc, zlib, atomic] =
        ROWS.iter().rfind(fits).unwrap_or(&ROWS[0]).2.map(|version| (version != "-").then_some(version));
    let missing = [(2, 24), (2, 12)].iter().filter(|since| glibc < **since).count();
    Promise {
        glibc,
        libraries: &LIBRARIES[missing..],
        loader: LOADERS.iter().find(|(name, _)| *name == arch).map(|(_, loader)| *loader),
        newest: Newest { glibcxx, cxxabi, gcc, zlib, atomic },
    }
}

impl Promise {
    /// Whether a library is there, by SONAME.
    pub fn has(&self, library: &str) -> bool {
        self.libraries.contains(&library) || self.loader == Some(library)
    }
}

/// Whether `version`, `GLIBCXX_3.4.30`, of `file`, `libstdc++.so.6`, is promised.
pub fn allows(promise: &Promise, file: &str, version: &str) -> Verdict {
    let Some((family, number)) = version.split_once('_').filter(|_| promise.has(file)) else {
        return Verdict::Unknown;
    };
    let glibc = format!("{}.{}", promise.glibc.0, promise.glibc.1);
    let limit = match family {
        "GLIBC" => Some(glibc.as_str()),
        "GLIBCXX" => promise.newest.glibcxx,
        "CXXABI" => promise.newest.cxxabi,
        "GCC" => promise.newest.gcc,
        "ZLIB" => promise.newest.zlib,
        "LIBATOMIC" => promise.newest.atomic,
        _ => return Verdict::Unknown,
    };
    let came_with = UNNUMBERED.iter().find(|(name, _)| *name == version).map(|(_, number)| *number);
    // Variants for other floating-point formats are numbered with the release that they came in.
    let plain = ["LDBL_", "IEEE128_", "ARM_"].iter().find_map(|variant| number.strip_prefix(variant));
    let number = came_with.or(plain).unwrap_or(number);
    match limit.map(|limit| order(number, limit)) {
        Some(None) => Verdict::Unknown,
        Some(Some(Ordering::Less | Ordering::Equal)) => Verdict::Yes,
        None | Some(Some(Ordering::Greater)) => {
            Verdict::TooNew { limit: limit.map(|limit| format!("{family}_{limit}")) }
        }
    }
}

/// The order of two dotted numbers; `None` where one is none.
fn order(a: &str, b: &str) -> Option<Ordering> {
    let parts = |text: &str| text.split('.').map(|part| part.parse::<u32>().ok()).collect::<Option<Vec<_>>>();
    Some(parts(a)?.cmp(&parts(b)?))
}
