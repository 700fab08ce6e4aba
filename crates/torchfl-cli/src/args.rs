//! The command line as typed. The help texts here are the reference: `docs/reference/cli.md` is made from them.

#![expect(clippy::doc_markdown, reason = "a terminal shows help texts as they are")]

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

/// Turn a vendor's torch into one self-contained, reproducible wheel that runs under the stock PyTorch.
///
/// Exit codes: 0 done; 1 the thing asked about is not right (findings); 2 it could not be done, or the command line
/// is wrong. Data goes to stdout, everything for people to stderr.
#[derive(Debug, Parser)]
#[command(name = "torchfl", version, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Print data as JSON on stdout, errors too
    #[arg(long, global = true)]
    pub json: bool,
    /// Print nothing but errors on stderr
    #[arg(long, short, global = true)]
    pub quiet: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a vendor's wheel
    Build(Build),
    /// Get what a vendor's build starts from, or say who has it
    Fetch(Fetch),
    /// Judge a wheel before it ships: will it load, beside this torch, on that machine?
    Audit(Audit),
    /// Resolve what an installer would bring beside a wheel: has `triton/` one owner, and the right one
    Closure(Closure),
    /// Say why a library is found where it is, or what a symbol is bound to
    Why(Why),
    /// Say what of a fork's core the stock core lacks
    CoreGap(CoreGap),
    /// Generate the libraries of a manifest's [[shim]] alone, to look at them
    Shim(Shim),
    /// Keep what a machine's libraries export in one small file, to audit wheels without the machine
    Snapshot(Snapshot),
    /// Show what an ELF file or a wheel says of itself
    Inspect(Inspect),
    /// Change the search path (RPATH or RUNPATH) of a library or program
    Patch(Patch),
    /// List, show, check or start vendor manifests
    #[command(subcommand)]
    Vendor(Vendor),
    /// Say what CI builds and tests where, and write workflows that do it
    #[command(subcommand)]
    Ci(Ci),
    /// Put torch_fl in front of every program of a Python environment, by one .pth file
    Activate(Python),
    /// Take that .pth file away
    Deactivate(Python),
    /// Publish a torch tree of symlinks (the facade) for a build system to compile against
    Facade(Facade),
}

/// Where a manifest comes from.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Which {
    /// A built-in vendor, as `torchfl vendor list` shows them
    pub vendor: Option<String>,
    /// A manifest of your own
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Build {
    #[command(flatten)]
    pub which: Which,
    /// The vendor's torch: a wheel file, or the site-packages folder it is installed in; none where swap is `none`
    #[arg(long, value_name = "WHEEL|DIR")]
    pub torch: Option<PathBuf>,
    /// The plugin's library; without one the wheel carries none, and says so
    #[arg(long, value_name = "SO", help_heading = "The plugin")]
    pub plugin: Option<PathBuf>,
    /// Build the plugin from this project's source, against the torch whose core the wheel runs on
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with = "plugin",
        requires = "python_include",
        help_heading = "The plugin"
    )]
    pub plugin_from_source: Option<PathBuf>,
    /// The folder with the headers (Python.h) of the Python that the wheel is for
    #[arg(long, value_name = "DIR", requires = "plugin_from_source", help_heading = "The plugin")]
    pub python_include: Option<PathBuf>,
    /// The Python to build for; by default the one that the vendor's torch was built for, or the one that is met
    #[arg(long, value_name = "TAG", help_heading = "What to build")]
    pub python: Option<String>,
    /// The torch that the wheel will meet; of the fork's headers only those that differ from its are bundled
    #[arg(long, value_name = "WHEEL|DIR")]
    pub front: Option<PathBuf>,
    /// Where the vendor's SDK lies on the target machine; by default the manifest's first path
    #[arg(long, value_name = "DIR")]
    pub sdk_root: Option<PathBuf>,
    /// The version's local part, in place of vendor and SDK
    #[arg(long, value_name = "TAG", help_heading = "What to build")]
    pub local: Option<String>,
    /// Our own revision of the same torch release: `.postN`
    #[arg(long, value_name = "N", help_heading = "What to build")]
    pub post: Option<u32>,
    /// METADATA's version; 2.3 for indexes that refuse 2.4
    #[arg(long, value_enum, default_value = "2.4", help_heading = "What to build")]
    pub metadata_version: MetadataVersion,
    /// What is installed beside the wheel, as wheels or site-packages folders: proves what `[[provided]]` says
    #[arg(long, value_name = "WHEEL|DIR", help_heading = "What to prove it with")]
    pub with: Vec<PathBuf>,
    /// A tree or a snapshot of the target machine: proves what `[host]` and the platform tag say
    #[arg(long, value_name = "DIR|SNAPSHOT", help_heading = "What to prove it with")]
    pub sysroot: Vec<PathBuf>,
    /// Refuse what would be taken on somebody's word
    #[arg(long, help_heading = "What to prove it with")]
    pub require_proof: bool,
    /// Let a symbol or library stay unresolved; recorded in the wheel
    #[arg(long, value_name = "NAME", help_heading = "What to prove it with")]
    pub allow_unresolved: Vec<String>,
    /// Let a part without a licence file through; recorded in the wheel
    #[arg(long, value_name = "NAME", help_heading = "What to build")]
    pub allow_unlicensed: Vec<String>,
    /// The C compiler that makes shims: one program, for the machine of the wheel [default: $CC, else cc, or ARCH-linux-gnu-gcc where that is another machine]
    #[arg(long, value_name = "PROGRAM", help_heading = "What to build")]
    pub cc: Option<PathBuf>,
    /// Threads that compress; the wheel's bytes do not depend on it [default: all processors, 16 at most]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// How hard to compress
    #[arg(long, value_enum, default_value = "normal")]
    pub compression: Compression,
    /// The folder to write the wheel and its constraints into
    #[arg(long, short, value_name = "DIR", default_value = "dist")]
    pub output: PathBuf,
    /// Print the plan, and write nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Fetch {
    #[command(flatten)]
    pub which: Which,
    /// Only the inputs of this role: torch, front, with, sdk [default: all]
    #[arg(long, value_name = "ROLE")]
    pub role: Vec<Role>,
    /// The Python to build for; by default the manifest's, where it offers one
    #[arg(long, value_name = "TAG")]
    pub python: Option<String>,
    /// The processor to build for; by default the manifest's, where it offers one, else this machine's
    #[arg(long, value_name = "ARCH")]
    pub arch: Option<String>,
    /// The folder that files appear in
    #[arg(long, value_name = "DIR", default_value = "inputs")]
    pub dest: PathBuf,
    /// Where files may be: a folder, or an address (https, http, file) that has them under their names; the earlier
    /// one is asked first
    #[arg(long, value_name = "URL|DIR")]
    pub mirror: Vec<String>,
    /// A sum that the manifest does not have, or another one: of a role, a package or a file
    #[arg(long, value_name = "NAME=SUM")]
    pub sha256: Vec<String>,
    /// Take what comes, where nobody says its sum: a role, a package or a file
    #[arg(long, value_name = "NAME")]
    pub allow_unhashed: Vec<String>,
    /// Do not touch the network: what is in DIR and in folders counts
    #[arg(long)]
    pub offline: bool,
    /// Say what is there and where the rest would be asked for, and bring nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Who asks a package index [default: pip, or uv where there is no pip]
    #[arg(long, value_enum, help_heading = "How to get there")]
    pub installer: Option<InstallerName>,
    /// The Python whose pip is run
    #[arg(long, value_name = "PY", default_value = "python3", help_heading = "How to get there")]
    pub interpreter: PathBuf,
    /// The package index, in place of the one that pip is set up with
    #[arg(long, value_name = "URL", help_heading = "How to get there")]
    pub index_url: Option<String>,
    /// Certificates that are trusted beside the system's, in PEM
    #[arg(long, value_name = "FILE", help_heading = "How to get there")]
    pub ca_file: Option<PathBuf>,
    /// How often a file is tried again without having come further
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "How to get there")]
    pub retries: u32,
    /// Seconds that a connection may take, and that a server may send nothing
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600), help_heading = "How to get there")]
    pub timeout: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    Torch,
    Front,
    With,
    Sdk,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InstallerName {
    Pip,
    Uv,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum MetadataVersion {
    #[value(name = "2.3")]
    V2_3,
    #[value(name = "2.4")]
    V2_4,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Compression {
    Fast,
    Normal,
}

/// What a wheel meets on the target machine.
#[derive(Debug, Args)]
pub(crate) struct Company {
    /// The torch that it meets: a wheel file, or the site-packages folder it is installed in
    #[arg(long, value_name = "WHEEL|DIR", help_heading = "What to prove it with")]
    pub torch: Option<PathBuf>,
    /// What is installed beside it: a wheel file, or a site-packages folder
    #[arg(long, value_name = "WHEEL|DIR", help_heading = "What to prove it with")]
    pub with: Vec<PathBuf>,
    /// The target machine: a tree of its files, or a snapshot; the earlier one wins
    #[arg(long, value_name = "DIR|SNAPSHOT", help_heading = "What to prove it with")]
    pub sysroot: Vec<PathBuf>,
    /// Threads that read [default: all processors, 16 at most]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// The wheel, or a site-packages folder with torch_fl in it
    pub wheel: PathBuf,
    #[command(flatten)]
    pub company: Company,
    /// Compare every file with its hash in RECORD, too
    #[arg(long)]
    pub hashes: bool,
    /// Take nothing on anybody's word: what is not seen in a file is an error
    #[arg(long, help_heading = "What to prove it with")]
    pub require_proof: bool,
    /// A library or symbol that may stay unresolved
    #[arg(long, value_name = "NAME", help_heading = "What to prove it with")]
    pub allow_unresolved: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Closure {
    /// The wheel
    pub wheel: PathBuf,
    /// What else is installed, `flag_gems` or `acme-triton==3.6.0+acme1`
    #[arg(long, value_name = "REQUIREMENT", help_heading = "What is installed")]
    pub with: Vec<String>,
    /// The torch that is installed: a wheel file; by default the resolver chooses
    #[arg(long, value_name = "WHEEL", help_heading = "What is installed")]
    pub torch: Option<PathBuf>,
    /// Constraints, as those beside the wheel
    #[arg(long, short, value_name = "FILE", help_heading = "What is installed")]
    pub constraint: Vec<PathBuf>,
    /// Requirements that replace those of distributions, as uv understands them
    #[arg(long, value_name = "FILE", help_heading = "What is installed")]
    pub r#override: Vec<PathBuf>,
    /// The site-packages folder that it is installed into: who owns `triton/` there counts too
    #[arg(long, value_name = "DIR", help_heading = "What is installed")]
    pub installed: Vec<PathBuf>,
    /// The Python to resolve for, `3.12` [default: the wheel's; where it is for any, uv's]
    #[arg(long, value_name = "VERSION", help_heading = "What for")]
    pub python: Option<String>,
    /// The platform to resolve for, as uv names it [default: the wheel's]
    #[arg(long, value_name = "NAME", help_heading = "What for")]
    pub platform: Option<String>,
    /// The package index, in place of PyPI
    #[arg(long, value_name = "URL", help_heading = "Where from")]
    pub index_url: Option<String>,
    /// A further package index, asked first
    #[arg(long, value_name = "URL", help_heading = "Where from")]
    pub extra_index_url: Vec<String>,
    /// A folder of wheels, which are looked into, or a page of links
    #[arg(long, short, value_name = "DIR|URL", help_heading = "Where from")]
    pub find_links: Vec<String>,
    /// Ask no index, only `--find-links`
    #[arg(long, help_heading = "Where from")]
    pub no_index: bool,
    /// The resolver
    #[arg(long, value_name = "UV", default_value = "uv")]
    pub uv: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Why {
    /// The wheel, or a site-packages folder with torch_fl in it
    pub wheel: PathBuf,
    /// A library's file name, SONAME or path, or a symbol's name as `nm -D` prints it
    pub name: String,
    #[command(flatten)]
    pub company: Company,
}

#[derive(Debug, Args)]
pub(crate) struct CoreGap {
    /// The vendor's torch: a wheel file, or the site-packages folder it is installed in
    #[arg(long, value_name = "WHEEL|DIR")]
    pub vendor: PathBuf,
    /// The stock torch of the same release
    #[arg(long, value_name = "WHEEL|DIR")]
    pub stock: PathBuf,
    /// A plugin that was compiled against the vendor's headers
    #[arg(long, value_name = "SO")]
    pub plugin: Option<PathBuf>,
    /// Threads that read [default: all processors, 16 at most]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct Shim {
    #[command(flatten)]
    pub which: Which,
    /// The vendor's torch: a wheel file, or the site-packages folder it is installed in
    #[arg(long, value_name = "WHEEL|DIR")]
    pub torch: PathBuf,
    /// The stock torch that the wheel will meet; a core gap needs it
    #[arg(long, value_name = "WHEEL|DIR")]
    pub front: Option<PathBuf>,
    /// The plugin's library, which may want symbols too
    #[arg(long, value_name = "SO")]
    pub plugin: Option<PathBuf>,
    /// The Python to build for; by default the one that the vendor's torch was built for
    #[arg(long, value_name = "TAG")]
    pub python: Option<String>,
    /// Where the vendor's SDK lies on the target machine; by default the manifest's first path
    #[arg(long, value_name = "DIR")]
    pub sdk_root: Option<PathBuf>,
    /// The C compiler: one program, for the machine of the wheel [default: $CC, else cc, or ARCH-linux-gnu-gcc where that is another machine]
    #[arg(long, value_name = "PROGRAM")]
    pub cc: Option<PathBuf>,
    /// The folder for the libraries and what each is made of: SONAME, SONAME.c, SONAME.map; without one the C is printed
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Snapshot {
    #[command(subcommand)]
    pub command: Option<SnapshotCommand>,
    /// Folders of libraries: the SDK, and what of the system a wheel may use
    #[arg(value_name = "DIR", required = true)]
    pub folders: Vec<PathBuf>,
    /// Where a DIR lies on the target machine, once for each; by default its own path, and this is that machine
    #[arg(long, value_name = "PATH")]
    pub at: Vec<String>,
    /// What the snapshot is of, for people [default: the names of the folders]
    #[arg(long, value_name = "TITLE")]
    pub name: Option<String>,
    /// The file to write
    #[arg(long, short, value_name = "FILE", required = true)]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Say what a second snapshot lacks of a first, and what it adds
    Diff(SnapshotDiff),
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotDiff {
    /// What wheels were made for
    pub first: PathBuf,
    /// What they will meet
    pub second: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// An ELF file or a wheel
    pub file: PathBuf,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("edit").required(true))]
pub(crate) struct Patch {
    /// The library or program
    pub file: PathBuf,
    /// Set DT_RUNPATH (not inherited by dependencies; LD_LIBRARY_PATH beats it)
    #[arg(long, value_name = "PATH", group = "edit")]
    pub runpath: Option<String>,
    /// Set DT_RPATH (inherited by dependencies; beats LD_LIBRARY_PATH)
    #[arg(long, value_name = "PATH", group = "edit")]
    pub rpath: Option<String>,
    /// Remove both
    #[arg(long, group = "edit")]
    pub remove: bool,
    /// Write a new file, and leave FILE as it is
    #[arg(long, short, value_name = "OUT")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Vendor {
    /// The built-in vendors
    List,
    /// A manifest as the build uses it: resolved
    Show(VendorShow),
    /// Say what is wrong with a manifest, and which facts it leaves open
    Check(Which),
    /// Start a new manifest
    Add(VendorAdd),
    /// Print the manifests' JSON schema
    Schema,
}

#[derive(Debug, Args)]
pub(crate) struct VendorShow {
    #[command(flatten)]
    pub which: Which,
    /// Print the manifest's own text
    #[arg(long)]
    pub source: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VendorAdd {
    /// The vendor's name
    pub name: String,
    /// A built-in vendor to start from
    #[arg(long, value_name = "VENDOR")]
    pub from: Option<String>,
    /// The file to write [default: NAME.toml]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Ci {
    /// Every wheel that the manifests offer: vendor, torch, Python and processor, its runner, inputs and tests
    Matrix(CiMatrix),
    /// Write the workflow that builds and tests them, or say where a written one differs
    Workflow(CiWorkflow),
}

/// Which wheels.
#[derive(Debug, Args)]
pub(crate) struct Wheels {
    /// Only this vendor's [default: all]
    #[arg(long, value_name = "VENDOR", help_heading = "Which wheels")]
    pub vendor: Vec<String>,
    /// A manifest of your own, beside the built-in ones; it replaces the one of its name
    #[arg(long, value_name = "FILE", help_heading = "Which wheels")]
    pub manifest: Vec<PathBuf>,
    /// Only vendors that are trusted so far: stable, beta, experimental, runtime-only [default: all]
    #[arg(long, value_name = "STATUS", help_heading = "Which wheels")]
    pub status: Vec<VendorStatus>,
    /// Only for this Python [default: all]
    #[arg(long, value_name = "TAG", help_heading = "Which wheels")]
    pub python: Vec<String>,
    /// Only for this processor [default: all]
    #[arg(long, value_name = "ARCH", help_heading = "Which wheels")]
    pub arch: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CiMatrix {
    #[command(flatten)]
    pub wheels: Wheels,
    /// For a machine: all that is known of each, or what a job's matrix takes, without wheels that have no runner
    /// [default: a table for people]
    #[arg(long, value_enum)]
    pub format: Option<MatrixFormat>,
}

#[derive(Debug, Args)]
pub(crate) struct CiWorkflow {
    #[command(flatten)]
    pub wheels: Wheels,
    /// The service that runs it
    #[arg(long, value_enum)]
    pub format: CiService,
    /// The folder of the workflow [default: ci/github or ci/gitlab]
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Write nothing, and say whether what is there is what would be written
    #[arg(long)]
    pub check: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum VendorStatus {
    Stable,
    Beta,
    Experimental,
    RuntimeOnly,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MatrixFormat {
    Json,
    Github,
    Gitlab,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CiService {
    Github,
    Gitlab,
}

#[derive(Debug, Args)]
pub(crate) struct Python {
    /// The environment's interpreter
    #[arg(long, value_name = "PY", default_value = "python3")]
    pub python: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Facade {
    /// The folder to publish; it must not exist, or be a facade
    pub folder: PathBuf,
    #[command(flatten)]
    pub python: Python,
}

/// Where Cargo and rustup keep crates and compilers, whose names must not stay in what is compiled.
pub(crate) fn rust_homes() -> Vec<PathBuf> {
    let home = |variable: &str, folder: &str| {
        let named = std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
        named.or_else(|| std::env::home_dir().map(|home| home.join(folder)))
    };
    [home("CARGO_HOME", ".cargo"), home("RUSTUP_HOME", ".rustup")].into_iter().flatten().collect()
}

/// The C compiler of the environment. An empty `CC` is none, as make has it.
pub(crate) fn cc() -> Option<PathBuf> {
    std::env::var_os("CC").filter(|cc| !cc.is_empty()).map(Into::into)
}
