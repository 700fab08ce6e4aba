//! The skeleton of one vendor: what is generated, and where it lies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::Serialize;
use torchfl_manifest::{Manifest, Swap};

use crate::Error;
use crate::compile::{Library, Search, Workshop, ident};
use crate::pack::{Dist, Tree};
use crate::python::Target;
use crate::recipe::{Forwarder, Provided, Recipe};
use crate::template::{self, fill};
use crate::torch;

/// The generator.
#[derive(Debug)]
pub struct Skeleton;

/// The paths of what was generated. Folders and wheels that the manifest has no use for are absent.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Generated {
    /// The manifest's vendor: what the libraries of its build answer.
    pub vendor: String,
    /// The dispatch key of its device's kernels, as `SIM`.
    pub key: String,
    /// `stock/torch-<release>+cpu.skeleton-….whl`: stands for the torch that users have.
    pub stock_wheel: PathBuf,
    /// `vendor/torch-<release>+<local>-….whl`: stands for the vendor's fork.
    pub vendor_wheel: Option<PathBuf>,
    /// The SDK's folder, at its usual place below the output folder: `opt/sim`.
    pub sdk_root: Option<PathBuf>,
    /// A folder of driver libraries, `driver/lib`, for a vendor whose manifest names no SDK folder.
    pub driver_dir: Option<PathBuf>,
    /// `provided/*.whl`: the wheels that bring the libraries of `[[provided]]`.
    pub provided_wheels: Vec<PathBuf>,
}

impl Skeleton {
    /// Generates the skeleton of `manifest` below `out_dir` for the interpreter `python` on this machine: see
    /// [`Skeleton::generate_for`].
    ///
    /// # Errors
    /// See [`Error`].
    pub fn generate(manifest: &Manifest, out_dir: &Path, python: &Path) -> Result<Generated, Error> {
        Self::generate_for(manifest, out_dir, &Target::here(python)?)
    }

    /// Generates the skeleton of `manifest` below `out_dir`. What is there of an earlier run is replaced, file by
    /// file. Whether the manifest offers the interpreter and the machine of `target` is not asked.
    ///
    /// # Errors
    /// See [`Error`]. Each file appears whole or not at all; those before a failure stay.
    pub fn generate_for(manifest: &Manifest, out_dir: &Path, target: &Target) -> Result<Generated, Error> {
        let recipe = Recipe::of(manifest);
        fs::create_dir_all(out_dir)?;
        let out_dir = fs::canonicalize(out_dir)?;

        let runtime = runtime(&recipe, target, &out_dir)?;
        let (sdk_root, driver_dir) = match &recipe.sdk {
            Some((root, _)) => (Some(out_dir.join(root)), None),
            None => (None, runtime.folder),
        };
        let stock = Build { name: "stock", local: "cpu.skeleton", recipe: None };
        let stock_wheel = stock.write(&recipe, target, &[], &out_dir.join("stock"))?;
        let vendor_wheel = if recipe.swap == Swap::None && !recipe.vendor_in_front {
            None
        } else {
            let fork = Build { name: &recipe.vendor, local: &recipe.local, recipe: Some(&recipe) };
            Some(fork.write(&recipe, target, &runtime.stubs, &out_dir.join("vendor"))?)
        };
        Ok(Generated {
            vendor: recipe.vendor.clone(),
            key: recipe.key(),
            stock_wheel,
            vendor_wheel,
            sdk_root,
            driver_dir,
            provided_wheels: runtime.wheels,
        })
    }
}

/// A library of the SDK, the driver or a runtime wheel, `libsimrt.so.1`, with the symbol versions `SIMRT_1.0`
/// and `SIMRT_1.1`.
fn stub(name: &str) -> Library {
    let (own, version) = (ident(name), ident(name).to_uppercase());
    let mut stub = Library::new(name, "stub.c");
    stub.versions = vec![
        (format!("{version}_1.0"), vec![format!("{own}_build"), "torch_build".to_owned()]),
        (format!("{version}_1.1"), vec![format!("{own}_launch")]),
    ];
    stub
}

/// A library that the fork was linked against, and that is nowhere: all its symbols have one version.
fn unfindable(forwarder: &Forwarder) -> Library {
    let own = ident(&forwarder.soname);
    let mut library = Library::new(&forwarder.soname, "stub.c");
    let symbols = [format!("{own}_build"), format!("{own}_launch"), "torch_build".to_owned()];
    library.versions = vec![(forwarder.version.clone(), symbols.to_vec())];
    library
}

/// What the vendor's libraries find on a target machine.
struct Runtime {
    /// The folder of the SDK's or the driver's libraries.
    folder: Option<PathBuf>,
    /// The wheels of `[[provided]]`.
    wheels: Vec<PathBuf>,
    /// All those libraries, for a workshop that links against them.
    stubs: Vec<Library>,
}

fn runtime(recipe: &Recipe, target: &Target, out_dir: &Path) -> Result<Runtime, Error> {
    let mut workshop = Workshop::open(target)?;
    let mut stubs = Vec::new();
    let mut compile = |name: &str| -> Result<Vec<u8>, Error> {
        let mut library = stub(name);
        if let Some(forwarder) = recipe.forwarders.iter().find(|forwarder| forwarder.to == name) {
            library.versions.clear();
            library = library.define(&format!("-DALSO={}", ident(&forwarder.soname)));
        }
        let bytes = workshop.library(&library, &recipe.vendor)?;
        stubs.push(library);
        Ok(bytes)
    };

    let mut tree = Tree::default();
    let lib = recipe.sdk.as_ref().map_or("driver/lib".to_owned(), |(root, lib)| format!("{root}/{lib}"));
    for name in &recipe.host {
        tree.add(format!("{lib}/{name}"), compile(name)?);
    }
    let folder = (!tree.is_empty()).then(|| out_dir.join(lib));
    if let Some((root, _)) = &recipe.sdk {
        tree.add(format!("{root}/version.txt"), format!("{}\n", recipe.sdk_version));
        tree.add(format!("{root}/LICENSE"), fill(template::LICENSE, &[("WHAT", "an SDK")]));
    }
    tree.write_to(out_dir)?;
    let mut wheels = Vec::new();
    for provided in &recipe.provided {
        let mut tree = Tree::default();
        for name in &provided.libraries {
            tree.add(format!("{}/{name}", provided.dir), compile(name)?);
        }
        let dist = Dist {
            name: &provided.dist,
            version: format!("{}+skeleton", provided.version),
            tag: format!("py3-none-{}", target.platform),
            summary: "Skeleton of a runtime wheel, for tests",
            requires: Vec::new(),
            licences: vec![("LICENSE".to_owned(), fill(template::LICENSE, &[("WHAT", &provided.dist)]))],
        };
        wheels.push(dist.write(tree, &out_dir.join("provided"))?);
    }
    stubs.extend(recipe.forwarders.iter().map(unfindable));
    Ok(Runtime { folder, wheels, stubs })
}

/// The extension module and the program of torch, the same in every build.
fn programs(workshop: &mut Workshop, target: &Target, tree: &mut Tree) -> Result<(), Error> {
    let module = Library::new(&format!("_C{}", target.ext_suffix), "_C.c")
        .needs(&["libtorch_python.so"])
        .search(Search::Runpath("$ORIGIN:$ORIGIN/lib".to_owned()));
    tree.add(format!("torch/{}", module.name), workshop.extension(&module)?);
    let program = Library::new("torch_shm_manager", "torch_shm_manager.c")
        .needs(&["libshm.so", "libc10.so"])
        .search(Search::Runpath("$ORIGIN/../lib".to_owned()));
    tree.add_program("torch/bin/torch_shm_manager", workshop.program(&program)?);
    Ok(())
}

/// What the METADATA of torch 2.13.0, as `PyPI` has it, says of Triton.
const TRITON: &str = "triton==3.7.1; platform_system == \"Linux\" and python_version < \"3.15\"";

/// One build of torch: the stock one, or the fork of a recipe.
struct Build<'a> {
    name: &'a str,
    local: &'a str,
    recipe: Option<&'a Recipe>,
}

impl Build<'_> {
    fn write(
        &self,
        names: &Recipe,
        target: &Target,
        stubs: &[Library],
        dir: &Path,
    ) -> Result<PathBuf, Error> {
        let mut workshop = Workshop::open(target)?;
        for library in stubs {
            workshop.library(library, self.name)?;
        }
        let mut tree = Tree::default();
        let libraries = match self.recipe {
            Some(recipe) => torch::fork(recipe),
            None => torch::stock().into_iter().map(|l| (format!("torch/lib/{}", l.name), l)).collect(),
        };
        for (path, library) in &libraries {
            tree.add(path.clone(), workshop.library(library, self.name)?);
        }
        programs(&mut workshop, target, &mut tree)?;
        self.files(names, &libraries, &mut tree);

        let release = &names.release;
        let dist = Dist {
            name: "torch",
            version: format!("{release}+{}", self.local),
            tag: format!("{0}-{0}-{1}", target.tag, target.platform),
            summary: "Skeleton of PyTorch, for tests; it is not PyTorch",
            requires: self.requires(),
            licences: self.licences(),
        };
        dist.write(tree, dir)
    }

    /// Everything that is not compiled. Only `version.py`, one header and `TorchConfig.cmake` differ between builds,
    /// and a fork has a header of its own.
    fn files(&self, names: &Recipe, libraries: &[(String, Library)], tree: &mut Tree) {
        for (name, text) in template::PYTHON {
            tree.add(format!("torch/{name}"), *text);
        }
        tree.add("torch/version.py", self.version_py(&names.release));
        tree.add("torch/include/ATen/core/Tensor.h", template::TENSOR_H);
        tree.add("torch/include/torch/build.h", fill(template::BUILD_H, &[("BUILD", self.name)]));
        if let Some(recipe) = self.recipe {
            let path = format!("torch/include/c10/{}/Stream.h", recipe.device());
            tree.add(path, fill(template::STREAM_H, &[("KEY", &recipe.key())]));
        }
        let listed: Vec<&str> = libraries.iter().map(|(_, library)| library.name.as_str()).collect();
        let values = [("BUILD", self.name), ("LIBRARIES", &listed.join(" "))];
        tree.add("torch/share/cmake/Torch/TorchConfig.cmake", fill(template::TORCH_CONFIG, &values));
    }

    fn version_py(&self, release: &str) -> String {
        let none = BTreeMap::new();
        let attributes = self.recipe.map_or(&none, |recipe| &recipe.attributes);
        let value = |name: &str| attributes.get(name).map_or("None".to_owned(), |v| format!("'{v}'"));
        let version = format!("{release}+{}", self.local);
        let mut text = fill(
            template::VERSION_PY,
            &[
                ("VERSION", &version),
                ("CUDA", &value("cuda")),
                // One commit for both builds, as where a fork is built from a release.
                ("GIT", "0123456789abcdef0123456789abcdef01234567"),
                ("HIP", &value("hip")),
                ("ROCM", &value("rocm")),
                ("XPU", &value("xpu")),
            ],
        );
        let known = ["cuda", "hip", "rocm", "xpu"];
        let own = attributes.iter().filter(|(name, _)| !known.contains(&name.as_str()));
        text.extend(own.map(|(name, value)| format!("{name} = '{value}'\n")));
        for marker in self.recipe.iter().flat_map(|recipe| &recipe.markers) {
            if !text.contains(marker.as_str()) {
                text.extend(["# ", marker, "\n"]);
            }
        }
        text
    }

    fn requires(&self) -> Vec<String> {
        let provided = self.recipe.iter().flat_map(|recipe| &recipe.provided);
        let line = |p: &Provided| {
            let pin = if p.pinned { format!("=={}", p.version) } else { String::new() };
            format!("{}{pin}; platform_system == \"Linux\"", p.dist)
        };
        let triton = self.recipe.filter(|recipe| recipe.pins_triton).map(|_| TRITON.to_owned());
        provided.map(line).chain(triton).collect()
    }

    fn licences(&self) -> Vec<(String, String)> {
        let text = |what: &str| fill(template::LICENSE, &[("WHAT", what)]);
        let mut licences = vec![("LICENSE".to_owned(), text("PyTorch"))];
        if let Some(recipe) = self.recipe {
            licences.push(("NOTICE".to_owned(), format!("Changed by the vendor {}.\n", recipe.vendor)));
            for path in &recipe.included {
                let part = ident(path.rsplit('/').next().unwrap_or(path).split('-').next().unwrap_or(path));
                licences.push((format!("third_party/{part}/LICENSE"), text(&part)));
            }
        }
        licences
    }
}
