//! All rules, in the order of their codes. The reference page is written from this table.

use crate::finding::{Rule, Severity};
use Severity::{Error, Note, Warning};

macro_rules! rules {
    ($($name:ident = $code:literal, $severity:ident, $title:literal, $about:literal, $fix:literal;)*) => {
        $(pub(crate) const $name: Rule =
            Rule { code: $code, title: $title, severity: $severity, about: $about, fix: $fix };)*
        /// Every rule.
        pub const RULES: &[Rule] = &[$($name),*];
    };
}

rules! {
    NOT_FOUND = "AUD-001", Error, "Library not found",
        "A library that is opened, or that another one names in DT_NEEDED, is nowhere on the search path of who asks (glibc elf/dl-load.c).",
        "bundle the library, add its folder to the search path, or name who brings it: `[host]` or `[[provided]]` in the manifest";
    UNDEFINED = "AUD-002", Error, "Undefined symbol",
        "No library in the scope of the one that refers to it defines the symbol (glibc elf/dl-lookup.c). It was built against another torch, or a part was left out of the build.",
        "build it against the torch that it will meet, or add the library that defines the symbol";
    VERSION = "AUD-003", Error, "Version not provided",
        "A library needs a symbol version that the library it is needed of does not define (glibc elf/dl-version.c).",
        "build against the oldest release of that library that the wheel is for, or bundle the newer one";
    TWO_FILES = "AUD-004", Error, "Two files for one SONAME",
        "One process maps two files with the same SONAME: two copies of one library, each with its own state, for instance two libc10.",
        "leave one of them out, or open the planned one by path before anything asks for it by name";
    BUILD_PATH = "AUD-005", Warning, "Search path into the build machine",
        "DT_RPATH or DT_RUNPATH names an absolute folder that is neither a default folder nor the SDK's: on the target machine nothing is there, or somebody else's library is.",
        "set the search path to `$ORIGIN` folders: `torchfl patch --rpath`";
    EXEC_STACK = "AUD-006", Error, "Executable stack",
        "PT_GNU_STACK asks for an executable stack, or is missing, which means the same. glibc 2.41 refuses to open such a library; hardened kernels refuse it in any case.",
        "link with `-z noexecstack`, and mark assembly files with `.section .note.GNU-stack,\"\",@progbits`";
    ALIGNMENT = "AUD-007", Error, "Segment alignment",
        "A PT_LOAD whose offset and address differ modulo its alignment does not map (gABI chapter 5), and one aligned to less than the largest page of the machine does not map where pages are that large (64 KiB on AArch64).",
        "link with `-z max-page-size=0x10000` on AArch64; do not edit the file with tools that ignore p_align";
    TAG_FLOOR = "AUD-008", Error, "Newer than the platform tag",
        "A library needs a version of a system library that the wheel's platform tag does not promise (PEP 600; the lists of the manylinux profiles).",
        "build on the older system, or give the wheel the tag that fits";
    DRIVER = "AUD-009", Error, "Driver library bundled",
        "The library belongs to the driver or SDK of the target machine. A second copy of it does not fit the kernel module there.",
        "leave it out of the bundle, and name it in `[host] libraries`";
    DLOPEN = "AUD-010", Warning, "Library opened by name is absent",
        "The manifest says that a library is opened by name at run time, and the target machine does not have it.",
        "install it there, or drop the name from `[host] dlopen`";
    HASH_NAMED = "AUD-011", Error, "Hash-named library without its partner",
        "Wheel repair tools rename what they bundle after a hash and rewrite who needs it. One half is here without the other. A library that nobody needs under its name is dead weight, a warning.",
        "take both from the same wheel: `[bundle] include`";
    VERSION_OF_NOBODY = "AUD-012", Error, "Versions needed of a library that is not in DT_NEEDED",
        ".gnu.version_r names a library that DT_NEEDED does not: the loader aborts the process unless somebody else has loaded it (glibc elf/dl-version.c, find_needed). Tools that remove or rename DT_NEEDED entries leave this behind.",
        "link the library anew, or edit both places";
    KERNELS = "AUD-013", Error, "Promised kernels are not registered",
        "The manifest names a dispatch key, and no library that the import opens holds its operators (`at::cuda::add` for CUDA, as torchgen names them).",
        "add the library that registers them to `[bundle] required` and `preload`";
    UNJUSTIFIED = "AUD-014", Warning, "Requirement without a reason",
        "Requires-Dist names a distribution of which no library is needed and that no line of the manifest names.",
        "drop the requirement, or name the distribution in `[[provided]]`";
    UNREQUIRED = "AUD-015", Warning, "Library of a distribution that is not required",
        "A library is found in a distribution that the wheel does not require, directly or through others: it is there by luck.",
        "add the distribution to the requirements: `[[provided]]`";
    PROVIDED_TOO = "AUD-016", Warning, "Library bundled that another wheel brings",
        "The wheel carries a library that a distribution it requires brings as well: two copies, of which a process may map both.",
        "leave it out of the bundle, or out of `[[provided]]`";
    OPENMP = "AUD-017", Warning, "Two OpenMP runtimes",
        "One process maps two OpenMP runtimes (libgomp, libiomp5, libomp, or two files of one of them). Threads are oversubscribed, and some abort.",
        "name the library in `[bundle] never-duplicate`, and leave the other copy out";
    LICENCE = "AUD-018", Error, "Part without a licence",
        "Bundled files of somebody else come without a licence file in dist-info/licenses (PEP 639).",
        "add the licence files of the vendor's torch, or build with `--allow-unlicensed NAME`";
    RECORD = "AUD-019", Error, "RECORD does not agree",
        "A file is not in RECORD, or RECORD lists one that is not there or has another size or hash (PEP 376, PEP 427).",
        "build the wheel again; do not edit it by hand";
    FOREIGN_FOLDER = "AUD-020", Error, "File in another package's folder",
        "The wheel installs a file into the folder of another distribution, or over one of its files. Installing and removing either damages the other.",
        "move the file into the wheel's own package";
    TRITON = "AUD-021", Error, "Triton of the wrong supplier",
        "The vendor supplies Triton, or has none, and a requirement or another distribution brings an owner of `triton/` that is not of this platform.",
        "require the vendor's distribution instead: `[triton] owners`";
    STATIC_TLS = "AUD-022", Error, "No room in the static TLS block",
        "Libraries that are opened late use thread-local variables of the initial-exec model, and together need more than the surplus that glibc keeps for them (elf/dl-tls.c: 1664 bytes).",
        "compile without `-ftls-model=initial-exec`, or set GLIBC_TUNABLES=glibc.rtld.optional_static_tls";
    REDIRECT = "AUD-023", Error, "A planned library is not the one that is used",
        "After the import another file stands for a library of the plan, or somebody who opens it by path gets a second copy.",
        "see the ways in the report; `[bundle] search-tag = \"rpath\"` keeps LD_LIBRARY_PATH out";
    ORDER = "AUD-024", Error, "Opening order is not sound",
        "A library of the plan does not open with only those before it open: it may need the scope of the one that brings it in.",
        "let the build work out the order, or change `[bundle] preload`";
    BROKEN = "AUD-025", Error, "Not a library",
        "The file has the name of a library or program and cannot be read as one.",
        "build the wheel again from undamaged files";
    MACHINE = "AUD-026", Error, "Library of another machine",
        "The file is for another processor than the wheel's platform tag says.",
        "take the libraries of the right machine, or give the wheel the tag that fits";
    NOWHERE = "AUD-027", Note, "Search path that leads nowhere",
        "An entry of the search path names a folder that is neither in the wheel nor in what was given beside it.",
        "drop the entry";
    UNPROVED = "AUD-028", Error, "Taken on somebody's word",
        "With `--require-proof`, everything has to be seen in a file.",
        "give the file: `--front` or `--torch`, `--with`, `--sysroot`";
    WRONG_TORCH = "AUD-029", Error, "Torch of another release or build",
        "The torch that was given is of another release, or for another Python, than the wheel belongs to: no installer would put the two together. In a closure: it is built for an accelerator, and the import accepts the CPU build alone.",
        "give the torch that the wheel's Requires-Dist names";
    PROMISED = "AUD-030", Error, "Not the library that was promised",
        "build.json names the bundle's libraries and their sizes, and one is not there or has another size. The import refuses that before it opens anything.",
        "build the wheel again; libraries are stripped and edited before a build, not after it";
    NO_TRITON = "AUD-031", Error, "Nobody brings Triton",
        "`torchfl closure`: no distribution of the closure installs `triton/`, and the platform has a Triton: `torch.compile` and FlagGems have no compiler.",
        "install the vendor's too: `[triton] owners`";
    TWO_TRITONS = "AUD-032", Error, "Two owners of triton/",
        "Two distributions install the folder `triton/`. The one that is unpacked last overwrites the other, and no installer sees it.",
        "leave one of them out: the constraints beside the wheel shut those that are not this platform's";
    NO_CLOSURE = "AUD-033", Error, "No set of distributions fits",
        "`torchfl closure`: the resolver finds no versions that satisfy the wheel, what is asked for beside it, and the constraints.",
        "the reason names who asks for what: add the index that has it, or leave out who asks";
}

/// The rule of a code.
pub fn rule(code: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.code == code)
}
