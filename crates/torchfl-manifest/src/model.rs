//! The manifest as it is written. Field comments are the reference (`docs/reference/manifest.md`).

use std::collections::BTreeMap;

use crate::decode::{Complaint, Context, Field, Node, record};
use crate::input::Input;
use crate::names::{
    Arch, Artifact, AuditSeverity, Dist, Folder, FolderName, Front, Glibc, Glob, Identifier, InnerDir,
    InnerGlob, Library, LocalVersion, PythonTag, Release, RuleCode, SearchEntry, SearchTag, ShimKind, Slug,
    Status, Supplier, Swap, Symbol, Text, Version,
};
use crate::problem::nearest;
use crate::spanned::Spanned;

record! {
    /// A vendor manifest: all that the tool knows about one vendor and one line of its SDK.
    pub struct Manifest {
        /// Version of this format: 1.
        pub schema: Spanned<i64>,
        /// The vendor's short name; the wheel's local version starts with it.
        pub vendor: Spanned<Slug>,
        /// Tells two manifests of one vendor apart. The manifest is named `vendor` or `vendor-variant`, and its
        /// file after that.
        pub variant: Option<Spanned<Slug>>,
        /// The vendor and its platform, for people.
        pub title: Spanned<Text>,
        /// How far the build is trusted.
        pub status: Spanned<Status>,
        /// The vendor's torch, and the torch that it meets.
        pub torch: Torch,
        /// The interpreters that wheels are built for.
        pub python: Python,
        /// The machines that the wheel is for.
        pub target: Target,
        /// The vendor's SDK on the target machine.
        pub sdk: Option<Sdk>,
        /// What is carried along of the vendor's torch; left out exactly where `torch.swap` is `none`.
        pub bundle: Option<Bundle>,
        /// What stays on the target machine and is never bundled.
        pub host: Option<Host>,
        /// What a plugin finds below itself.
        pub runtime: Option<Runtime>,
        /// Libraries that other wheels bring. Their order, and that of the libraries in each, is an order in which
        /// they can be opened one by one.
        #[schemars(default)]
        pub provided: Vec<Provided>,
        /// Small libraries that are generated and compiled by the build.
        #[schemars(default)]
        pub shim: Vec<Shim>,
        /// Environment variables, set at import where they are unset.
        #[schemars(default)]
        pub env: BTreeMap<Identifier, Spanned<Text>>,
        /// Communication between devices.
        pub comm: Option<Comm>,
        /// The vendor's Triton.
        pub triton: Option<Triton>,
        /// `FlagGems`, the operator library.
        pub flag_gems: Option<FlagGems>,
        /// What `torchfl audit` makes of this vendor's wheels.
        pub audit: Option<Audit>,
        /// Where the wheel is tested on the chip.
        pub ci: Option<Ci>,
        /// The files that a build starts from, and how each is come by.
        #[schemars(default)]
        pub input: Vec<Input>,
    }
}

record! {
    /// `[torch]`: the vendor's torch, and the torch that it meets.
    pub struct Torch {
        /// The torch release that the vendor's torch is built from; the wheel's public version.
        pub release: Spanned<Release>,
        /// The torch that the wheel meets on the target machine, judged by `cuda`, `hip` and `xpu` in its
        /// `version.py`, not by its version's label.
        pub front: Spanned<Front>,
        /// Strings that stand in the `version.py` of the vendor's torch and in no stock one. All of them present
        /// means: this torch is the vendor's.
        #[schemars(default)]
        pub markers: Vec<Spanned<Text>>,
        /// Preprocessor definitions for compiling against the vendor's headers.
        #[schemars(default)]
        pub defines: Vec<Spanned<Text>>,
        /// What the bundle replaces of the stock `torch/lib`, or adds to it.
        pub swap: Spanned<Swap>,
        /// Attributes of `torch.version` to restore: a value, or `from-vendor` to read it from the `version.py` of
        /// the vendor's torch.
        #[schemars(default)]
        pub attributes: BTreeMap<Identifier, Spanned<Text>>,
        /// Entry points of group `torch.backends` that claim `PrivateUse1` too and are therefore left out.
        #[schemars(default)]
        pub rivals: Vec<Spanned<Text>>,
    }
}

record! {
    /// `[python]`: the interpreters that wheels are built for.
    pub struct Python {
        /// One wheel is built for each. A bundled `libtorch_python` or plugin binds a wheel to one.
        pub tags: Spanned<Vec<Spanned<PythonTag>>>,
    }
}

record! {
    /// `[target]`: the machines that the wheel is for.
    pub struct Target {
        /// Processors.
        pub arch: Spanned<Vec<Spanned<Arch>>>,
        /// The highest glibc that a bundled library may ask for. The wheel's tag is computed from the libraries.
        pub glibc: Option<Spanned<Glibc>>,
    }
}

record! {
    /// `[sdk]`: the vendor's SDK on the target machine.
    pub struct Sdk {
        /// The SDK's version. The wheel's local version is `<vendor><version>[.<variant>]`.
        pub version: Option<Spanned<LocalVersion>>,
        /// Where the SDK may lie, the likeliest place first: `{ env = "ACME_HOME" }` for an environment variable that
        /// holds the folder, or `{ path = "/opt/acme" }`. `{sdk}` in a search path stands for the first `path`:
        /// the wheel is for other machines, so the environment of the build does not count.
        #[schemars(default)]
        pub roots: Vec<Root>,
    }
}

/// A place where an SDK lies: `{ env = "ACME_HOME" }` or `{ path = "/opt/acme" }`.
#[derive(Debug, Clone, PartialEq, Eq, schemars::JsonSchema)]
#[schemars(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Root {
    /// An environment variable that holds the folder.
    Env(Spanned<Identifier>),
    /// The folder.
    Path(Spanned<Folder>),
}

impl Field for Root {
    fn stand_in() -> Self {
        Self::Path(Spanned::stand_in())
    }

    fn decode(node: &Node<'_>, context: &mut Context) -> Self {
        let Some(table) = context.table(node) else { return Self::stand_in() };
        context.known_keys(table, &["env".to_owned(), "path".to_owned()]);
        match (table.get("env"), table.get("path")) {
            (Some(env), None) => {
                Self::Env(context.inside("env".to_owned(), |inner| Field::decode(env, inner)))
            }
            (None, Some(path)) => {
                Self::Path(context.inside("path".to_owned(), |inner| Field::decode(path, inner)))
            }
            (env, _) => {
                let has = if env.is_some() { "both" } else { "neither" };
                let message = format!("a root has either `env` or `path`, this one has {has}");
                context.report("E-MAN-045", node.span(), Complaint::new(message));
                Self::stand_in()
            }
        }
    }
}

record! {
    /// `[bundle]`: what is carried along of the vendor's torch.
    pub struct Bundle {
        /// The folder inside `torch_fl/`.
        pub dir: Spanned<FolderName>,
        /// The bundled library whose presence says that a torch is the vendor's.
        pub probe: Option<Spanned<Library>>,
        /// Libraries of the vendor's `torch/lib` that must be there.
        #[schemars(default)]
        pub required: Vec<Spanned<Library>>,
        /// Libraries of the vendor's `torch/lib` that are taken where they are there.
        #[schemars(default)]
        pub optional: Vec<Spanned<Library>>,
        /// Further files of the vendor's wheel, relative to its root: `torch.libs/*` for what auditwheel copied
        /// and renamed. They must not be opened, only be found.
        #[schemars(default)]
        pub include: Vec<Spanned<InnerGlob>>,
        /// Libraries of the installed torch's `torch/lib` that are opened from there, between the bundled ones.
        #[schemars(default)]
        pub front: Vec<Spanned<Library>>,
        /// Libraries of which a process has one copy, whoever brings it: opened from the installed torch, unless
        /// bundled, and not at all where one is loaded already.
        #[schemars(default)]
        pub never_duplicate: Vec<Spanned<Library>>,
        /// The order in which libraries are opened, by path, before torch is imported. Each must open with only
        /// those before it open. What is not named here comes in as a dependency, or when torch asks for it.
        #[schemars(default)]
        pub preload: Vec<Spanned<Library>>,
        /// Which of `preload` are opened with `RTLD_GLOBAL`, each with the symbol that needs it.
        #[schemars(default)]
        pub global: Vec<Global>,
        /// The search path that each bundled library gets. An entry starts with `$ORIGIN` (the bundle), with
        /// `{sdk}`, or with `/`.
        #[schemars(default)]
        pub search_path: Vec<Spanned<SearchEntry>>,
        /// The tag that it is written under.
        pub search_tag: Spanned<SearchTag>,
        /// The dispatch key that the bundled libraries register their kernels under, `CUDA`. PyTorch's
        /// generator (`torchgen/gen.py`) puts them into the namespace of that name in lower case, `at::cuda`.
        pub kernels: Option<Spanned<Identifier>>,
    }
}

record! {
    /// An entry of `bundle.global`.
    pub struct Global {
        /// The library.
        pub library: Spanned<Library>,
        /// A symbol that another library looks for without naming this one in `DT_NEEDED`.
        pub symbol: Spanned<Text>,
    }
}

record! {
    /// `[host]`: what stays on the target machine and is never bundled.
    pub struct Host {
        /// Libraries of the driver, as globs of file names: whoever's wheel it is, none carries them.
        #[schemars(default)]
        pub driver: Vec<Spanned<Glob>>,
        /// Libraries of the SDK and the system, as globs of file names. Another vendor's wheel may carry them.
        #[schemars(default)]
        pub libraries: Vec<Spanned<Glob>>,
        /// Libraries that are opened by name at run time, and so are in no `DT_NEEDED`.
        #[schemars(default)]
        pub dlopen: Vec<Spanned<Library>>,
        /// Device nodes, as globs.
        #[schemars(default)]
        pub devices: Vec<Spanned<Glob>>,
    }
}

record! {
    /// `[runtime]`: the API of the device's runtime. What a plugin reaches there by name, as no interface of PyTorch has
    /// it, is a table that all vendors of the API share: `vendor-manifests/runtime/`.
    pub struct Runtime {
        /// The API, which is PyTorch's dispatch key underneath too: `cuda` on every chip whose torch keeps CUDA's names.
        pub api: Spanned<Slug>,
        /// Libraries of the table that have another SONAME here: `{ "libcudart.so.13" = "libcudart.so.12" }`.
        #[schemars(default)]
        pub libraries: BTreeMap<Library, Spanned<Library>>,
    }
}

record! {
    /// `[[provided]]`: libraries that another wheel brings.
    pub struct Provided {
        /// The distribution that the METADATA of the vendor's torch names. Version, extras and markers are taken
        /// from there.
        pub dist: Spanned<Dist>,
        /// A version specifier, `==13.1`, where the METADATA of the vendor's torch has none.
        pub version: Option<Spanned<Text>>,
        /// Where the libraries lie, relative to a site-packages folder.
        pub dir: Option<Spanned<InnerDir>>,
        /// File names, in an order in which they can be opened.
        pub libraries: Spanned<Vec<Spanned<Library>>>,
    }
}

record! {
    /// `[[shim]]`: a small library that the build generates and compiles into the bundle, where `preload` opens it.
    pub struct Shim {
        /// What it does.
        pub kind: Spanned<ShimKind>,
        /// Its file name and its `DT_SONAME`.
        pub soname: Spanned<Library>,
        /// Of a versioned forwarder: the library that calls go to. It is opened by name, on the bundle's search path,
        /// so `host.dlopen` names it too where it stays on the target machine.
        pub forward_to: Option<Spanned<Library>>,
        /// Of a versioned forwarder: the version that each of its symbols carries.
        pub version: Option<Spanned<Symbol>>,
        /// What it defines. `computed` leaves it to the build: of a versioned forwarder, all that bundled libraries
        /// want of its SONAME; of a core gap, what `torchfl core-gap` finds. A list must hold these, or the build
        /// stops and says what it lacks.
        pub symbols: Spanned<Symbols>,
        /// Which of them the shim answers itself. Any other is forwarded; where there is nowhere to, or the library
        /// there lacks it, a call says the symbol's name and ends the process.
        #[schemars(default)]
        pub stub: Vec<Stub>,
    }
}

record! {
    /// An entry of `shim.stub`.
    pub struct Stub {
        /// The function, by its symbol.
        pub name: Spanned<Symbol>,
        /// What it returns, as an integer: 0 for false, for a null pointer, for a success.
        pub returns: Spanned<i64>,
    }
}

/// The symbols of a shim: `"computed"`, or a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Symbols {
    /// The build finds them out.
    Computed,
    /// These.
    Listed(Vec<Spanned<Symbol>>),
}

impl Symbols {
    const COMPUTED: &str = "computed";
}

impl Field for Symbols {
    fn stand_in() -> Self {
        Self::Computed
    }

    fn decode(node: &Node<'_>, context: &mut Context) -> Self {
        if node.get_ref().is_array() {
            return Self::Listed(Field::decode(node, context));
        }
        match node.get_ref().as_str() {
            Some(Self::COMPUTED) => {}
            Some(other) => {
                let message = format!("{other:?} is neither `computed` nor an array of symbols");
                let nearest = nearest(other, [Self::COMPUTED]);
                context.report("E-MAN-013", node.span(), Complaint { message, nearest });
            }
            None => context.wrong_type(node, "`computed` or an array"),
        }
        Self::Computed
    }
}

impl schemars::JsonSchema for Symbols {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Symbols".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let list = generator.subschema_for::<Vec<Symbol>>();
        let computed = serde_json::json!({ "const": Self::COMPUTED });
        schemars::json_schema!({ "title": "`computed`, or list: symbol", "oneOf": [computed, list] })
    }
}

record! {
    /// `[comm]`: communication between devices.
    pub struct Comm {
        /// The vendor's collective library: `nccl`, `mccl`, `hccl`; `none` where there is none.
        pub library: Spanned<Text>,
    }
}

record! {
    /// `[triton]`: the vendor's Triton.
    pub struct Triton {
        /// Who supplies it. Of the package index's, the wheel requires the version that the METADATA of the vendor's
        /// torch pins; of the others it requires none.
        pub supplier: Spanned<Supplier>,
        /// Where the package index supplies it: a version specifier, `==3.7.1`, where the METADATA of the vendor's torch
        /// has none.
        pub version: Option<Spanned<Text>>,
        /// Distributions that may own the folder `triton/` on this vendor's machines.
        #[schemars(default)]
        pub owners: Vec<Owner>,
        /// What Triton compiles for.
        pub target: Option<TritonTarget>,
    }
}

record! {
    /// An entry of `triton.owners`.
    pub struct Owner {
        /// The distribution.
        pub name: Spanned<Dist>,
        /// What its local version starts with. Left out where it has none that tells it from others.
        pub local: Option<Spanned<LocalVersion>>,
        /// The version for this manifest's torch and SDK, `3.6.0+acme3.8`: it goes into the wheel's constraints. Without
        /// `local`, the distribution is an owner in this version alone.
        pub version: Option<Spanned<Version>>,
    }
}

record! {
    /// `triton.target`: what Triton compiles for.
    pub struct TritonTarget {
        /// `GPUTarget.backend`.
        pub backend: Spanned<Text>,
        /// The key in `triton.backends.backends`.
        pub key: Spanned<Text>,
        /// Threads of a warp; 0 where the chip has none. Left out where the vendor's chips differ.
        pub warp_size: Option<Spanned<i64>>,
    }
}

record! {
    /// `[flag-gems]`: `FlagGems`, the operator library.
    pub struct FlagGems {
        /// The vendor's backend there, which `GEMS_VENDOR` names: set at import where it is unset.
        pub vendor: Spanned<Text>,
    }
}

record! {
    /// `[audit]`: what `torchfl audit` makes of this vendor's wheels.
    pub struct Audit {
        /// The severity of a rule's findings, by the rule's code, instead of the rule's own:
        /// `{ "AUD-007" = "warning" }`. Whether there is such a rule is checked by the audit.
        #[schemars(default)]
        pub severity: BTreeMap<RuleCode, Spanned<AuditSeverity>>,
    }
}

record! {
    /// `[ci]`: where the wheel is built and tested on the chip. `torchfl ci` makes workflows of it; what is left
    /// out stays open there.
    pub struct Ci {
        /// Labels of the runner. `{arch}` stands for the processor.
        #[schemars(default)]
        pub runner: Vec<Spanned<Text>>,
        /// The container image, as the container's program takes it. `{arch}` stands for the processor.
        pub image: Option<Spanned<Text>>,
        /// The interpreters that the runner, or its image, has; by default all of `python.tags`. For the others no wheel
        /// is built there.
        #[schemars(default)]
        pub python: Vec<Spanned<PythonTag>>,
        /// Options of the container. Where none of them passes a device on, those of `host.devices` that are no
        /// globs are.
        #[schemars(default)]
        pub container_options: Vec<Spanned<Text>>,
        /// What is run on the chip once the wheel is installed there: names of files in `ci/tests/`, without their
        /// ending. Where none is named: `devices` and `import`.
        #[schemars(default)]
        pub tests: Vec<Spanned<Slug>>,
        /// What becomes of the wheel. By default it stays where it was built if a fork's libraries are in it, which
        /// are gigabytes.
        pub artifact: Option<Spanned<Artifact>>,
    }
}
