use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

/// Why a wheel was not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message says it")]
pub enum Error {
    #[error(transparent)]
    Manifest(#[from] torchfl_manifest::Error),
    #[error(transparent)]
    Elf(#[from] torchfl_elf::Error),
    #[error(transparent)]
    Wheel(#[from] torchfl_wheel::Error),
    #[error(transparent)]
    Audit(#[from] torchfl_audit::Error),
    #[error("{wheel} would not load{}", told(.findings))]
    Unsound { wheel: String, findings: Vec<torchfl_audit::Finding> },
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("cannot write build.json")]
    Json(#[from] serde_json::Error),

    #[error("{path} is neither a file nor a folder", path = .path.display())]
    Special { path: PathBuf },
    #[error("{path} holds no torch: there is no torch/version.py", path = .path.display())]
    NotTorch { path: PathBuf },
    #[error("{tree}: {path} is not UTF-8 text", tree = .tree.display())]
    NotText { tree: PathBuf, path: String },
    #[error("{path} is larger than {limit} bytes, which no such file is", path = .path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    #[error("{path} is not a UTF-8 file name", path = .path.display())]
    NotUtf8 { path: PathBuf },
    #[error("{path} is a link that leads nowhere", path = .path.display())]
    DanglingLink { path: PathBuf, source: io::Error },
    #[error("{path} is a link back to one of its own parents", path = .path.display())]
    LinkLoop { path: PathBuf },
    #[error("{path} names no __version__", path = .path.display())]
    NoVersion { path: PathBuf },
    #[error("{path}: torch.version.{name} is to be restored from the vendor's torch, which sets none", path = .path.display())]
    NoAttribute { path: PathBuf, name: String },
    #[error("{dist} brings libraries, but {torch} does not pin it", torch = .torch.display())]
    Unpinned { dist: String, torch: PathBuf },
    #[error("{path} is torch {found}, and {vendor} is for {wanted}", path = .path.display())]
    Release { path: PathBuf, found: String, vendor: String, wanted: String },
    #[error("{path} is torch {found}, and the wheel stands on {wanted}", path = .path.display())]
    FrontRelease { path: PathBuf, found: String, wanted: String },
    #[error("{path} is not {vendor}'s torch: its version.py lacks `{marker}`", path = .path.display())]
    Marker { path: PathBuf, vendor: String, marker: String },
    #[error("{path} is not a stock torch for front = \"cpu\": its version.py names an accelerator", path = .path.display())]
    NotStock { path: PathBuf },
    #[error("{path} is built for {found}, and {wanted} is asked for", path = .path.display())]
    Python { path: PathBuf, found: String, wanted: String },
    #[error("cannot tell which Python {path} is built for: it holds no torch/_C.cpython-….so", path = .path.display())]
    NoPython { path: PathBuf },
    #[error("{torch} lacks {}", .names.join(", "), torch = .torch.display())]
    MissingLibraries { torch: PathBuf, names: Vec<String>, has: Vec<String> },
    #[error("bundle.include: nothing in {torch} matches `{glob}`", torch = .torch.display())]
    NoMatch { torch: PathBuf, glob: String },
    #[error("bundle.include: `{glob}` is not a glob")]
    Glob { glob: String, source: globset::Error },
    #[error("{torch}: {first} and {second} would be one file of the bundle", torch = .torch.display())]
    TwoFiles { torch: PathBuf, first: String, second: String },
    #[error("{first} and {second} both call themselves {soname}")]
    TwoOfOneName { first: String, second: String, soname: String },
    #[error("{library} is for {found}, and the wheel is for {wanted}")]
    Machine { library: String, found: String, wanted: String },
    #[error("{library} needs {version} of {file}, above the ceiling of glibc {ceiling}")]
    AboveCeiling { library: String, version: String, file: String, ceiling: String },
    #[error("`{version}` is no version: {message}")]
    Version { version: String, message: String },
    #[error("{soname} cannot be generated")]
    Shim { soname: String, source: torchfl_shim::Error },
    #[error("{soname} is to define what the stock core lacks, and no stock torch is given")]
    ShimFront { soname: String },
    #[error("{soname} is to be generated, and {torch} has it: {path}", torch = .torch.display())]
    ShimThere { soname: String, torch: PathBuf, path: String },
    #[error("{soname} would lack {}", .missing.join(", "))]
    ShimLacks { soname: String, missing: Vec<String> },
    #[error("{soname} cannot stand in for data: {}", .symbols.join(", "))]
    ShimData { soname: String, symbols: Vec<String> },
    #[error("{dist} brings libraries, and the manifest does not say into which folder")]
    NoFolder { dist: String },
    #[error("{manifest} is built from the vendor's torch, and none was given")]
    NoTorch { manifest: String },
    #[error("{manifest} takes nothing of a torch: swap is none")]
    TorchGiven { manifest: String },
    #[error("{plugin} belongs to one Python, and nobody says which", plugin = .plugin.display())]
    PluginPython { plugin: PathBuf },
    #[error("{plugin} does not say what it was built for", plugin = .plugin.display())]
    PluginSilent { plugin: PathBuf },
    #[error("{plugin}: what it says of itself cannot be read", plugin = .plugin.display())]
    PluginSection { plugin: PathBuf, source: serde_json::Error },
    #[error("{plugin} is built for {what} {found}, and the wheel is for {wanted}", plugin = .plugin.display())]
    PluginFor { plugin: PathBuf, what: &'static str, found: String, wanted: String },
    #[error("the plugin of {folder} cannot be built:\n{message}", folder = .folder.display())]
    PluginBuild { folder: PathBuf, message: String },
    #[error("{manifest} stands on the core of the torch that is met, and no such torch is given")]
    PluginFront { manifest: String },
    #[error("{folder} has no Python.h", folder = .folder.display())]
    NoPythonHeader { folder: PathBuf },
    #[error("`{version}` says skeleton, and nothing that the wheel is made of is one")]
    SaysSkeleton { version: String },
    #[error("{manifest} is for several machines, and nobody says for which")]
    NoArch { manifest: String },
    #[error("--allow-unlicensed {part}: there is no such part")]
    NoSuchPart { part: String },
    #[error("{part} comes without a licence file")]
    Unlicensed { part: String },
    #[error("{path} lacks torch/lib/{name}, which is opened from the installed torch", path = .path.display())]
    FrontLacks { path: PathBuf, name: String },
}

impl Error {
    /// A stable code, documented in `docs/reference/errors.md`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Manifest(inner) => inner.code(),
            Self::Elf(inner) => inner.code(),
            Self::Wheel(inner) => inner.code(),
            Self::Io(_) => "E-BLD-001",
            Self::Json(_) => "E-BLD-002",
            Self::NotTorch { .. } => "E-BLD-003",
            Self::NotText { .. } => "E-BLD-004",
            Self::NotUtf8 { .. } => "E-BLD-005",
            Self::DanglingLink { .. } => "E-BLD-006",
            Self::LinkLoop { .. } => "E-BLD-007",
            Self::NoVersion { .. } => "E-BLD-008",
            Self::NoAttribute { .. } => "E-BLD-009",
            Self::NoMatch { .. } => "E-BLD-010",
            Self::Unpinned { .. } => "E-BLD-011",
            Self::Release { .. } => "E-BLD-012",
            Self::Marker { .. } => "E-BLD-013",
            Self::NotStock { .. } => "E-BLD-014",
            Self::Python { .. } => "E-BLD-015",
            Self::NoPython { .. } => "E-BLD-016",
            Self::MissingLibraries { .. } => "E-BLD-017",
            Self::Glob { .. } => "E-BLD-018",
            Self::TwoOfOneName { .. } => "E-BLD-019",
            Self::Machine { .. } => "E-BLD-020",
            Self::AboveCeiling { .. } => "E-BLD-021",
            Self::Unlicensed { .. } => "E-BLD-022",
            Self::FrontLacks { .. } => "E-BLD-023",
            Self::Version { .. } => "E-BLD-024",
            Self::TwoFiles { .. } => "E-BLD-025",
            Self::TooLarge { .. } => "E-BLD-026",
            Self::FrontRelease { .. } => "E-BLD-027",
            Self::Shim { source: torchfl_shim::Error::Arch { .. }, .. } => "E-BLD-028",
            Self::Shim { source, .. } => source.code(),
            Self::NoFolder { .. } => "E-BLD-029",
            Self::NoSuchPart { .. } => "E-BLD-030",
            Self::Special { .. } => "E-BLD-031",
            Self::Unsound { .. } => "E-BLD-032",
            Self::ShimFront { .. } => "E-BLD-033",
            Self::ShimThere { .. } => "E-BLD-034",
            Self::ShimLacks { .. } => "E-BLD-035",
            Self::ShimData { .. } => "E-BLD-036",
            Self::NoTorch { .. } => "E-BLD-050",
            Self::TorchGiven { .. } => "E-BLD-051",
            Self::PluginPython { .. } => "E-BLD-052",
            Self::SaysSkeleton { .. } => "E-BLD-053",
            Self::NoArch { .. } => "E-BLD-054",
            Self::PluginSilent { .. } => "E-BLD-060",
            Self::PluginSection { .. } => "E-BLD-061",
            Self::PluginFor { .. } => "E-BLD-062",
            Self::PluginBuild { .. } => "E-BLD-063",
            Self::PluginFront { .. } => "E-BLD-064",
            Self::NoPythonHeader { .. } => "E-BLD-065",
            Self::Audit(error) => error.code(),
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Manifest(inner) => return inner.hint(),
            Self::Elf(inner) => return inner.hint(),
            Self::Wheel(inner) => return inner.hint(),
            Self::Io(error) if error.kind() == io::ErrorKind::NotFound => {
                "check the spelling of the path".into()
            }
            Self::TooLarge { .. } | Self::NoVersion { .. } | Self::NotText { .. } => {
                "install that torch again".into()
            }
            Self::NoAttribute { name, .. } => {
                format!("give its value: [torch] attributes = {{ {name} = \"…\" }}")
            }
            Self::FrontRelease { wanted, .. } => format!("give --front the stock torch {wanted}"),
            Self::NotTorch { .. } | Self::Special { .. } => {
                "name a torch wheel, or the site-packages folder that torch is installed in".into()
            }
            Self::Unpinned { dist, .. } if dist == "triton" => {
                "give its version in the manifest: [triton] version = \"==…\"".to_owned()
            }
            Self::Unpinned { dist, .. } => {
                format!("give its version in the manifest: [[provided]] dist = \"{dist}\", version = \"…\"")
            }
            Self::Release { wanted, .. } => {
                format!(
                    "bring the vendor's torch {wanted}, or a manifest for this one (`torchfl vendor add --from`)"
                )
            }
            Self::Marker { .. } => {
                "bring the vendor's own torch; [torch] markers say how it is recognised".into()
            }
            Self::NotStock { .. } => "give --front the stock CPU torch".into(),
            Self::Python { found, .. } => {
                format!("leave --python out, or bring a torch other than {found}'s")
            }
            Self::NoPython { .. } => "say it: --python cp311".into(),
            Self::MissingLibraries { has, .. } => format!("torch/lib holds {}", has.join(", ")),
            Self::NoMatch { .. } => {
                "take the glob out of the manifest, or bring the torch that has these files".into()
            }
            Self::DanglingLink { .. } | Self::LinkLoop { .. } => {
                "a wheel holds files, no links; repair the folder, or take the vendor's wheel".into()
            }
            Self::TwoFiles { .. } => {
                "the bundle is one folder; leave one of them out of [bundle] include".into()
            }
            Self::TwoOfOneName { .. } => {
                "a process can hold one of them; leave the other out of [bundle]".into()
            }
            Self::Machine { .. } => "[target] arch says which machines the vendor has".into(),
            Self::AboveCeiling { .. } => {
                "raise [target] glibc, or have the library built on an older system".into()
            }
            Self::Unlicensed { part } => {
                format!(
                    "add its LICENSE to the input, or pass --allow-unlicensed {part} (recorded in the wheel)"
                )
            }
            Self::Shim { source, .. } => return source.hint(),
            Self::ShimFront { .. } => "give --front the stock torch that the wheel will meet".into(),
            Self::ShimThere { .. } => "take the [[shim]] out and bundle that one, or rename the shim".into(),
            Self::ShimLacks { .. } => {
                "add them to [[shim]] symbols, or leave it to the build: symbols = \"computed\"".into()
            }
            Self::ShimData { .. } => {
                "a shim has functions only; `swap = \"core\"`, or a library that the vendor builds".into()
            }
            Self::NoFolder { dist } => {
                format!("say it: [[provided]] dist = \"{dist}\", dir = \"…\", below site-packages")
            }
            Self::NoTorch { .. } => {
                "name it with --torch: a wheel, or the folder that it is installed in".into()
            }
            Self::TorchGiven { .. } => {
                "leave --torch out; --front names the torch that the wheel will meet".into()
            }
            Self::PluginPython { .. } => "say it: --python cp311, or --front".into(),
            Self::PluginSilent { .. } | Self::PluginSection { .. } | Self::PluginFor { .. } => {
                "build it for this wheel: --plugin-from-source DIR".into()
            }
            Self::PluginBuild { .. } => "it takes Cargo and a C++20 compiler; their words are above".into(),
            Self::PluginFront { .. } => "give --front that torch: it is compiled against its headers".into(),
            Self::NoPythonHeader { .. } => "give --python-include the headers of that Python".into(),
            Self::SaysSkeleton { .. } => "take another local version or SDK version".into(),
            Self::NoArch { .. } => "give --front the torch that the wheel will meet".into(),
            Self::NoSuchPart { .. } => "the part that can lack one is torch".into(),
            Self::FrontLacks { .. } => "bundle it, or take it out of the preload list".into(),
            Self::Audit(inner) => return inner.hint(),
            Self::Unsound { findings, .. } => {
                let first = findings.first().map(|finding| format!("{}; ", finding.fix)).unwrap_or_default();
                format!("{first}--allow-unresolved NAME lets a name stay unresolved (recorded in the wheel)")
            }
            _ => return None,
        };
        Some(text)
    }
}

/// The first findings, a line each.
fn told(findings: &[torchfl_audit::Finding]) -> String {
    const MOST: usize = 10;
    let line =
        |finding: &torchfl_audit::Finding| format!("\n{} {}: {}", finding.code, finding.file, finding.reason);
    let mut text: String = findings.iter().take(MOST).map(line).collect();
    if findings.len() > MOST {
        let _ = write!(text, "\n… and {} more findings", findings.len() - MOST);
    }
    text
}
