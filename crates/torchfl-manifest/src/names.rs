//! The strings of a manifest that have rules of their own.

use std::ops::RangeInclusive;
use std::str::FromStr as _;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::decode::{Complaint, Context, Field, Name, Node, choice, name};
use crate::problem::nearest;

name! {
    /// `acme`: lower-case letters and digits, a letter first. It starts the wheel's local version.
    pub struct Slug("short name", "E-MAN-020", slug)
}
name! {
    /// A version as it may stand in a wheel's local version (PEP 440): letters and digits, parted by `.`, `-` or `_`.
    pub struct LocalVersion("version", "E-MAN-020", local)
}
name! {
    /// `2.13.0`: a three-part torch release.
    pub struct Release("release N.N.N", "E-MAN-021", release)
}
name! {
    /// `cp312`: a `CPython` of at least 3.8 as wheel tags write it (PEP 425).
    pub struct PythonTag("python tag", "E-MAN-022", python_tag)
}
name! {
    /// The file name of a shared library, `libfoo.so.1`; a name, never a path.
    pub struct Library("library", "E-MAN-025", library)
}
name! {
    /// A shell glob: `*` does not cross `/`.
    pub struct Glob("glob", "E-MAN-026", glob)
}
name! {
    /// A shell glob of files below the root of the vendor torch's wheel, `torch.libs/*`.
    pub struct InnerGlob("relative glob", "E-MAN-026", inner_glob)
}
name! {
    /// The name of one folder.
    pub struct FolderName("folder name", "E-MAN-027", folder_name)
}
name! {
    /// A folder relative to a site-packages folder, `nvidia/cu13/lib`.
    pub struct InnerDir("relative folder", "E-MAN-050", inner_dir)
}
name! {
    /// The name of a distribution on a package index (PEP 508).
    pub struct Dist("distribution", "E-MAN-028", dist)
}
name! {
    /// An identifier: letters, digits and `_`, no digit first.
    pub struct Identifier("identifier", "E-MAN-028", identifier)
}
name! {
    /// `AUD-007`: the code of a rule of the audit.
    pub struct RuleCode("rule code", "E-MAN-029", rule_code)
}
name! {
    /// A symbol of a library, or a version of one: what assemblers and version scripts take as it stands.
    pub struct Symbol("symbol", "E-MAN-023", symbol)
}
name! {
    /// A version as package indexes know it (PEP 440), `2.13.0+cpu`.
    pub struct Version("version", "E-MAN-052", version)
}
name! {
    /// A file's name. `{python}` stands for the python tag and `{arch}` for the processor; `*` for a part that
    /// is not known.
    pub struct FileName("file name", "E-MAN-053", file_name)
}
name! {
    /// A SHA-256 sum: 64 hexadecimal digits, in lower case.
    pub struct Sha256("sha256", "E-MAN-054", sha256)
}
name! {
    /// Which file a sum is of: `cp311`, or `cp311-x86_64` where the manifest has several processors.
    pub struct SumKey("python tag, or python tag and processor", "E-MAN-055", sum_key)
}
name! {
    /// Text that says something.
    pub struct Text("text", "E-MAN-027", text)
}
name! {
    /// An absolute folder of the target machine that can stand in a library's search path.
    pub struct Folder("absolute folder", "E-MAN-046", search_folder)
}

choice! {
    /// How far a vendor's build is trusted.
    pub enum Status {
        /// Tested on the chip.
        Stable = "stable",
        /// Works, with known gaps.
        Beta = "beta",
        /// May not work.
        Experimental = "experimental",
        /// The chip's runtime is reached, but no operator runs on it.
        RuntimeOnly = "runtime-only",
    }
}
choice! {
    /// The torch that the wheel meets on the target machine.
    pub enum Front {
        /// A stock torch without cuda, hip or xpu in its `version.py`.
        Cpu = "cpu",
        /// Any stock torch of the release.
        Any = "any",
        /// The vendor's own torch.
        Vendor = "vendor",
    }
}
choice! {
    /// What the bundle replaces of the stock `torch/lib`, or adds to it.
    pub enum Swap {
        /// The core libraries are the vendor's.
        Core = "core",
        /// The core stays; the vendor's device libraries are added.
        Extra = "extra",
        /// Nothing is bundled of the vendor's torch.
        None = "none",
    }
}
choice! {
    /// The dynamic tag that holds a library's search path.
    pub enum SearchTag {
        /// `DT_RPATH`: searched before `LD_LIBRARY_PATH`, and for the libraries that a library brings in.
        Rpath = "rpath",
        /// `DT_RUNPATH`: searched after `LD_LIBRARY_PATH`, for the library's own needs alone.
        Runpath = "runpath",
    }
}
choice! {
    /// A processor, as `uname -m` and wheel tags name it.
    pub enum Arch {
        /// AMD and Intel, 64 bit.
        X86_64 = "x86_64",
        /// ARM, 64 bit.
        Aarch64 = "aarch64",
        /// `LoongArch`, 64 bit.
        Loongarch64 = "loongarch64",
        /// POWER, 64 bit, little-endian.
        Ppc64le = "ppc64le",
        /// RISC-V, 64 bit.
        Riscv64 = "riscv64",
        /// IBM Z.
        S390x = "s390x",
    }
}
choice! {
    /// What a generated library does.
    pub enum ShimKind {
        /// Passes each call on to a library of another name, under the symbol version that its users ask for.
        VersionedForwarder = "versioned-forwarder",
        /// Defines what the vendor's core exports, its device libraries need, and the stock core lacks. It is opened
        /// with `RTLD_GLOBAL`: no library names it in `DT_NEEDED`.
        CoreGap = "core-gap",
    }
}
choice! {
    /// Who supplies `triton`.
    pub enum Supplier {
        /// The package index.
        Pypi = "pypi",
        /// The vendor.
        Vendor = "vendor",
        /// Nobody: the vendor has none.
        None = "none",
    }
}
choice! {
    /// What a build does with an input.
    pub enum Role {
        /// The vendor's torch: `torchfl build --torch`.
        Torch = "torch",
        /// The stock torch that the wheel will meet: `torchfl build --front`.
        Front = "front",
        /// What is installed beside the wheel: `torchfl build --with`.
        With = "with",
        /// The vendor's SDK: install or unpack it, and `torchfl build --sysroot` proves the wheel with it.
        Sdk = "sdk",
    }
}
choice! {
    /// What becomes of a wheel that CI has built and tested.
    pub enum Artifact {
        /// The job that built it publishes it from where it lies.
        Local = "local",
        /// The job hands it to the CI service.
        Upload = "upload",
    }
}
choice! {
    /// How much a finding of the audit matters.
    pub enum AuditSeverity {
        /// The wheel is not to be used.
        Error = "error",
        /// Somebody should look at it.
        Warning = "warning",
        /// Worth knowing.
        Note = "note",
        /// It is left out.
        Ignore = "ignore",
    }
}

/// A glibc version, `2.28`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Glibc {
    /// 2 since 1997.
    pub major: u32,
    /// 28 of 2.28.
    pub minor: u32,
}

impl Field for Glibc {
    fn stand_in() -> Self {
        Self { major: 0, minor: 0 }
    }

    fn decode(node: &Node<'_>, context: &mut Context) -> Self {
        let Some(text) = node.get_ref().as_str() else {
            context.wrong_type(node, "a string (glibc version N.M)");
            return Self::stand_in();
        };
        let number =
            |part: &str| part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok()).flatten();
        let parts = text.split_once('.').and_then(|(major, minor)| number(major).zip(number(minor)));
        if let Some((major, minor)) = parts {
            return Self { major, minor };
        }
        let complaint = Complaint::new(format!("{text:?} is no glibc version N.M, such as 2.28"));
        context.report("E-MAN-024", node.span(), complaint);
        Self::stand_in()
    }
}

impl schemars::JsonSchema for Glibc {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Glibc".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "title": "glibc version N.M" })
    }
}

fn slug(text: &str) -> Result<(), Complaint> {
    let good = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if good && text.starts_with(|first: char| first.is_ascii_lowercase()) {
        return Ok(());
    }
    let message = format!("{text:?} is no short name: lower-case letters and digits, a letter first");
    let kept: String = text.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    let usable = kept.starts_with(|first: char| first.is_ascii_lowercase()) && kept.len() <= 100;
    Err(Complaint { message, nearest: usable.then_some(kept) })
}

/// A local version label without its `+` (PEP 440, "Local version identifiers").
pub(crate) fn local(text: &str) -> Result<(), Complaint> {
    if text.contains('+') {
        let message = format!("{text:?} holds a `+`: a version has one, and the tool writes it");
        return Err(Complaint::new(message));
    }
    if let Some(bad) = text.chars().find(|c| !c.is_ascii_alphanumeric() && !"._-".contains(*c)) {
        let message =
            format!("{text:?} holds {bad:?}: PEP 440 allows letters, digits and `.`, `-`, `_` here");
        return Err(Complaint::new(message));
    }
    if text.split(['.', '-', '_']).any(str::is_empty) {
        let message =
            format!("{text:?} has an empty part: PEP 440 wants a letter or digit on each side of a `.`");
        return Err(Complaint::new(message));
    }
    Ok(())
}

fn release(text: &str) -> Result<(), Complaint> {
    let parts: Vec<&str> = text.split('.').collect();
    let number = |part: &&str| {
        !part.is_empty()
            && part.len() <= 9
            && part.bytes().all(|b| b.is_ascii_digit())
            && (part.len() == 1 || !part.starts_with('0'))
    };
    if parts.len() == 3 && parts.iter().all(number) {
        return Ok(());
    }
    let message = format!("{text:?} is no three-part release N.N.N, such as 2.13.0");
    // 2.13.0+cu130, v2.13.0 and 2.13 are how people write it.
    let base = text.trim_start_matches('v').split('+').next().unwrap_or_default();
    let mut base: Vec<&str> = base.split('.').collect();
    if base.len() == 2 {
        base.push("0");
    }
    let usable = base.len() == 3 && base.iter().all(number);
    Err(Complaint { message, nearest: usable.then(|| base.join(".")) })
}

fn python_tag(text: &str) -> Result<(), Complaint> {
    let minor = text.strip_prefix("cp3").filter(|minor| minor.bytes().all(|b| b.is_ascii_digit()));
    if minor.is_some_and(|minor| minor.len() <= 2 && !minor.starts_with('0') && !minor.is_empty()) {
        return Ok(());
    }
    let message = format!("{text:?} is no python tag cpXY, such as cp312");
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let usable = digits.len() == 3 && digits.starts_with("31");
    Err(Complaint { message, nearest: usable.then(|| format!("cp{digits}")) })
}

fn library(text: &str) -> Result<(), Complaint> {
    if text.contains('/') {
        let last = text.rsplit('/').next().unwrap_or_default();
        let nearest = library(last).is_ok().then(|| last.to_owned());
        let message = format!("{text:?} is a path: a library is named by its file name");
        return Err(Complaint { message, nearest });
    }
    let plain = text.chars().all(|c| !c.is_whitespace() && !c.is_control() && !"*?[]{}:$\\".contains(c));
    let version = text.split_once(".so").map(|(stem, version)| (!stem.is_empty(), version));
    if plain && version.is_some_and(|(stem, v)| stem && (v.is_empty() || v.starts_with('.'))) {
        return Ok(());
    }
    Err(Complaint::new(format!("{text:?} is no library's file name, such as libfoo.so or libfoo.so.1")))
}

fn symbol(text: &str) -> Result<(), Complaint> {
    let good = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.$".contains(&b));
    if good && text.starts_with(|first: char| !first.is_ascii_digit()) {
        return Ok(());
    }
    let message = format!(
        "{text:?} is no symbol: letters, digits, `_`, `.` and `$`, no digit first; C++ names are mangled"
    );
    Err(Complaint::new(message))
}

fn glob(text: &str) -> Result<(), Complaint> {
    if text.is_empty() {
        return Err(Complaint::new("the glob is empty"));
    }
    // A name has at most 255 bytes (limits.h, NAME_MAX). A matcher's size grows with the glob, and has a limit.
    if text.len() > 255 {
        return Err(Complaint::new("the glob is longer than any file's name"));
    }
    match matcher(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(Complaint::new(format!("{text:?} is no glob: {}", error.kind()))),
    }
}

/// What a glob of a manifest matches. A set of one: `Glob::compile_matcher` panics where this returns an error.
pub(crate) fn matcher(glob: &str) -> Result<GlobSet, globset::Error> {
    let glob = GlobBuilder::new(glob).literal_separator(true).build()?;
    GlobSetBuilder::new().add(glob).build()
}

fn inner_glob(text: &str) -> Result<(), Complaint> {
    glob(text)?;
    inside(text, "glob")
}

fn inner_dir(text: &str) -> Result<(), Complaint> {
    if text.is_empty() {
        return Err(Complaint::new("the folder has no name"));
    }
    inside(text, "folder")
}

/// A path that cannot leave the folder that it starts in.
fn inside(text: &str, what: &str) -> Result<(), Complaint> {
    if text.starts_with('/') {
        let message = format!("{text:?} is absolute: this {what} starts in the site-packages folder");
        return Err(Complaint::new(message));
    }
    if text.split('/').any(|part| part.is_empty() || part == "." || part == "..") || text.contains('\\') {
        let message =
            format!("{text:?} holds an empty, `.` or `..` part: this {what} stays in site-packages");
        return Err(Complaint::new(message));
    }
    Ok(())
}

/// Folders of `torch_fl/` that hold something else.
const TAKEN: [&str; 4] = ["gate", "lib", "overlay", "__pycache__"];

fn folder_name(text: &str) -> Result<(), Complaint> {
    let good = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if text.is_empty() || !good {
        let message = format!("{text:?} is no folder name: letters, digits, `_` and `-`, such as lib_acme");
        return Err(Complaint::new(message));
    }
    if TAKEN.contains(&text) {
        let message = format!("{text:?} is taken: torch_fl keeps something else there; take lib_<vendor>");
        return Err(Complaint::new(message));
    }
    Ok(())
}

fn dist(text: &str) -> Result<(), Complaint> {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let good = text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    if good && edge(text.chars().next()) && edge(text.chars().next_back()) {
        return Ok(());
    }
    Err(Complaint::new(format!("{text:?} is no distribution's name: letters, digits, `.`, `-` and `_`")))
}

fn identifier(text: &str) -> Result<(), Complaint> {
    let good = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if good && text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        return Ok(());
    }
    Err(Complaint::new(format!("{text:?} is no identifier: letters, digits and `_`, no digit first")))
}

fn rule_code(text: &str) -> Result<(), Complaint> {
    let digits = |text: &str, lengths: RangeInclusive<usize>| {
        lengths.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
    };
    if text.strip_prefix("AUD-").is_some_and(|number| digits(number, 3..=3)) {
        return Ok(());
    }
    let message = format!("{text:?} is no rule's code: AUD- and three digits, such as AUD-007");
    // aud-7, AUD7 and 7 are how people write it.
    let upper = text.to_ascii_uppercase();
    let number = upper.trim_start_matches("AUD").trim_start_matches(['-', '_']);
    Err(Complaint { message, nearest: digits(number, 1..=3).then(|| format!("AUD-{number:0>3}")) })
}

fn version(text: &str) -> Result<(), Complaint> {
    match pep440_rs::Version::from_str(text) {
        Ok(version) if version.to_string() == text => Ok(()),
        Ok(version) => {
            let message = format!("{text:?} is not how package indexes write this version (PEP 440)");
            Err(Complaint { message, nearest: Some(version.to_string()) })
        }
        Err(error) => Err(Complaint::new(format!("{text:?} is no version: {error}"))),
    }
}

/// What a file's name may hold in braces.
const PLACEHOLDERS: [&str; 2] = ["python", "arch"];

fn file_name(text: &str) -> Result<(), Complaint> {
    if let Some(bad) = text.chars().find(|c| "/\\?[]".contains(*c) || c.is_whitespace() || c.is_control()) {
        return Err(Complaint::new(format!("{text:?} holds {bad:?}, which no file's name here has")));
    }
    // A hidden name is one of our own unfinished files; one with a dash is taken for an option.
    if text.is_empty() || text.starts_with(['.', '*', '-']) {
        return Err(Complaint::new(format!(
            "{text:?} is no file's name: it begins with a letter or a digit"
        )));
    }
    // Unfinished, it has a longer one, and 255 bytes are the most (limits.h, NAME_MAX).
    if text.len() > 200 {
        return Err(Complaint::new(format!("{text:?} is longer than 200 bytes")));
    }
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let word = rest[at..].strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let Some((word, after)) = word else {
            return Err(Complaint::new(format!("{text:?} opens or closes a brace alone")));
        };
        if !PLACEHOLDERS.contains(&word) {
            let nearest = nearest(word, PLACEHOLDERS).map(|name| format!("{{{name}}}"));
            let message =
                format!("{text:?}: there is no placeholder `{{{word}}}`, only `{{python}}` and `{{arch}}`");
            return Err(Complaint { message, nearest });
        }
        rest = after;
    }
    Ok(())
}

fn sha256(text: &str) -> Result<(), Complaint> {
    if text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
        return Ok(());
    }
    let message = format!("{text:?} is no SHA-256 sum: 64 hexadecimal digits, in lower case");
    // sha256:…, sha256=… and capitals are how tools write it.
    let lower = text.trim().to_lowercase();
    let bare = lower.trim_start_matches("sha256").trim_start_matches([':', '=', '-']);
    let usable = bare.len() == 64 && bare.bytes().all(|b| b.is_ascii_hexdigit());
    Err(Complaint { message, nearest: usable.then(|| bare.to_owned()) })
}

fn sum_key(text: &str) -> Result<(), Complaint> {
    let (tag, arch) = text.split_once('-').map_or((text, None), |(tag, arch)| (tag, Some(arch)));
    python_tag(tag)?;
    match arch {
        Some(arch) if !Arch::ALL.iter().any(|known| known.as_str() == arch) => {
            let nearest = nearest(arch, Arch::ALL.iter().map(|arch| arch.as_str()));
            let nearest = nearest.map(|arch| format!("{tag}-{arch}"));
            Err(Complaint { message: format!("{text:?}: `{arch}` is no processor"), nearest })
        }
        _ => Ok(()),
    }
}

fn text(text: &str) -> Result<(), Complaint> {
    if text.trim().is_empty() {
        return Err(Complaint::new("the text is empty"));
    }
    if text.contains(char::is_control) {
        return Err(Complaint::new("the text holds a line break or another control character"));
    }
    Ok(())
}

/// A folder that the dynamic loader takes as it stands: `:` parts entries, `$` starts a token (ld.so(8)).
pub(crate) fn search_folder(text: &str) -> Result<(), Complaint> {
    if !text.starts_with('/') {
        return Err(Complaint::new(format!("{text:?} is not absolute")));
    }
    if let Some(bad) = text.chars().find(|c| ":$;{}".contains(*c) || c.is_control()) {
        return Err(Complaint::new(format!("{text:?} holds {bad:?}, which a library's search path cannot")));
    }
    Ok(())
}

name! {
    /// One folder of a library's search path: `$ORIGIN…`, `{sdk}…` or absolute.
    pub struct SearchEntry("search path entry", "E-MAN-040", |_| Ok(()))
}

/// What is wrong with an entry of a search path; `E-MAN-040` to `E-MAN-044`.
///
/// glibc knows `$ORIGIN`, `$LIB` and `$PLATFORM`, also in braces, and takes anything else as it stands
/// (elf/dl-load.c, `_dl_dst_count`): a misspelt token is a folder that is not there.
pub(crate) fn search_entry(text: &str) -> Result<(), (&'static str, Complaint)> {
    const TOKENS: [&str; 3] = ["ORIGIN", "LIB", "PLATFORM"];
    let mut rest = text;
    let misplaced = |what: &str| {
        let message =
            format!("{text:?}: `{what}` is a whole folder: it comes first, and a `/` comes after it");
        ("E-MAN-044", Complaint::new(message))
    };
    while let Some(at) = rest.find(['$', '{']) {
        let dollar = rest[at..].starts_with('$');
        let body = &rest[at + usize::from(dollar)..];
        let braced = body.strip_prefix('{');
        let word: String = braced
            .unwrap_or(body)
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_' || (!dollar && *c == '-'))
            .collect();
        let end = rest.len() - braced.unwrap_or(body).len() + word.len();
        if braced.is_some() && !rest[end..].starts_with('}') {
            return Err((
                "E-MAN-043",
                Complaint::new(format!("{text:?} opens a brace that it does not close")),
            ));
        }
        if dollar && !TOKENS.contains(&word.as_str()) {
            let nearest = nearest(&word, TOKENS).map(|token| format!("${token}"));
            let message = format!("{text:?}: the loader knows no `${word}`");
            return Err(("E-MAN-040", Complaint { message, nearest }));
        }
        if !dollar && word != "sdk" {
            let nearest = nearest(&word, ["sdk"]).map(|name| format!("{{{name}}}"));
            let message = format!("{text:?}: there is no placeholder `{{{word}}}`, only `{{sdk}}`");
            return Err(("E-MAN-043", Complaint { message, nearest }));
        }
        let after = rest[end..].strip_prefix('}').unwrap_or(&rest[end..]);
        let first = at == 0 && rest.len() == text.len();
        if (word == "ORIGIN" || !dollar) && !(first && (after.is_empty() || after.starts_with('/'))) {
            return Err(misplaced(&rest[at..rest.len() - after.len()]));
        }
        rest = after;
    }
    if text.contains(':') || text.is_empty() || text.contains(char::is_control) {
        let message =
            format!("{text:?} is not one folder: `:` parts entries, so each is a string of its own");
        return Err(("E-MAN-044", Complaint::new(message)));
    }
    if ["$ORIGIN", "${ORIGIN}", "{sdk}", "/"].iter().any(|start| text.starts_with(start)) {
        return Ok(());
    }
    let first = text.split('/').next().unwrap_or_default();
    if nearest(first, ["ORIGIN"]).is_some() {
        let message = format!("{text:?} starts in a folder named `{first}`");
        return Err(("E-MAN-040", Complaint { message, nearest: Some("$ORIGIN".to_owned()) }));
    }
    let message = format!("{text:?} is relative: the loader would start in the working directory");
    Err(("E-MAN-041", Complaint { message, nearest: Some(format!("$ORIGIN/{text}")) }))
}

/// Reads a string with rules outside a manifest.
pub(crate) fn read<T: Name>(text: &str) -> Result<T, Complaint> {
    T::name(text)
}
