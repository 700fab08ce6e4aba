//! Which libraries a torch wheel holds and what each is linked against: the real torch's graph, and a fork's.

use torchfl_manifest::Swap;

use crate::compile::{Library, Search, ident};
use crate::recipe::Recipe;

/// `lib/` of the stock CPU torch, in an order in which each can be linked.
const STOCK: &[&str] = &[
    "libgomp.so.1",
    "libc10.so",
    "libtorch_cpu.so",
    "libtorch.so",
    "libtorch_global_deps.so",
    "libshm.so",
    "libtorch_python.so",
];

/// Whether stock torch has a library of this name.
pub(crate) fn is_stock(name: &str) -> bool {
    STOCK.contains(&name)
}

/// The libraries of stock torch: their `DT_NEEDED` (less the C and C++ runtimes) and `DT_RUNPATH` are those of
/// torch 2.13.0+cpu.
pub(crate) fn stock() -> Vec<Library> {
    STOCK.iter().map(|name| stock_library(name).search(Search::Runpath("$ORIGIN".to_owned()))).collect()
}

fn stock_library(name: &str) -> Library {
    match name {
        "libgomp.so.1" => {
            let mut gomp = Library::new(name, "gomp.c");
            let all = ["omp_get_max_threads", "torch_build", "gomp_build"].map(str::to_owned);
            gomp.versions = vec![("OMP_1.0".to_owned(), all.to_vec())];
            gomp
        }
        "libc10.so" => Library::new(name, "c10.c"),
        "libtorch_cpu.so" => Library::new(name, "torch_cpu.c").needs(&["libc10.so", "libgomp.so.1"]),
        "libtorch.so" => Library::new(name, "plain.c").needs(&["libtorch_cpu.so"]),
        "libtorch_global_deps.so" => Library::new(name, "plain.c").needs(&["libgomp.so.1"]),
        "libshm.so" => Library::new(name, "plain.c").needs(&["libtorch_cpu.so", "libc10.so", "libgomp.so.1"]),
        _ => Library::new(name, "torch_python.c").needs(&[
            "libtorch.so",
            "libshm.so",
            "libtorch_cpu.so",
            "libc10.so",
        ]),
    }
}

/// The libraries of a fork, each with its path in the wheel, in an order in which each can be linked. They
/// differ as real forks' do: libraries that it carries along, device libraries, what the core is linked against,
/// and search paths of every kind.
pub(crate) fn fork(recipe: &Recipe) -> Vec<(String, Library)> {
    let carried: Vec<(String, Library)> =
        recipe.included.iter().map(|path| (path.clone(), carried(path))).collect();
    let carried_names: Vec<String> = carried.iter().map(|(_, library)| library.name.clone()).collect();
    let mut libraries = carried;
    let mut add = |library: Library| libraries.push((format!("torch/lib/{}", library.name), library));

    let (before_core, before_main, others) = extra_libraries(recipe);
    for name in &before_core {
        add(plain(name));
    }
    for name in STOCK {
        let mut library = stock_library(name).search(core_search(recipe, name));
        match *name {
            "libtorch_cpu.so" => {
                library = library.needs(&before_core).needs(&carried_names);
                if recipe.swap == Swap::Core {
                    library = library.define("-DFORK");
                }
                if recipe.gap {
                    library = library.define("-DGAP");
                }
            }
            // libtorch leads to the device's library, as in any CUDA torch: so that one comes first.
            "libtorch.so" => {
                for name in &before_main {
                    add(plain(name));
                }
                device_libraries(recipe, &before_main).into_iter().for_each(&mut add);
                library = library.needs(&recipe.main().into_iter().collect::<Vec<_>>());
            }
            "libtorch_global_deps.so" => library = library.needs(&provided(recipe)),
            "libtorch_python.so" => {
                library = library.needs(&recipe.main().into_iter().chain(recipe.c10()).collect::<Vec<_>>());
            }
            _ => {}
        }
        add(library);
    }
    for name in &others {
        add(other(recipe, name));
    }
    libraries
}

fn plain(name: &str) -> Library {
    Library::new(name, "plain.c")
}

/// A library that came out of `auditwheel`: a hash in its name, symbols with a version.
fn carried(path: &str) -> Library {
    let name = path.rsplit('/').next().unwrap_or(path);
    let mut library = plain(name);
    let (own, version) = (ident(name), ident(name.split('-').next().unwrap_or(name)).to_uppercase());
    library.versions = vec![(format!("{version}_0"), vec![format!("{own}_build"), "torch_build".to_owned()])];
    library
}

/// The bundle's libraries that are neither the core's nor the device's two, by where the opening order has
/// them: before the core (which is then linked against them), before the device's library (likewise), or later.
fn extra_libraries(recipe: &Recipe) -> (Vec<&str>, Vec<&str>, Vec<&str>) {
    let place = |name: &str| recipe.preload.iter().position(|n| n == name);
    let known = |name: &str| is_stock(name) || Some(name) == recipe.main() || Some(name) == recipe.c10();
    let comes_before = |name: &str, other: Option<&str>| match (place(name), other.and_then(place)) {
        (Some(a), Some(b)) => a < b,
        _ => false,
    };
    let (mut core, mut main, mut later) = (Vec::new(), Vec::new(), Vec::new());
    for name in recipe.bundled.iter().map(String::as_str).filter(|n| !known(n)) {
        if comes_before(name, Some("libtorch_cpu.so")) {
            core.push(name);
        } else if comes_before(name, recipe.main()) {
            main.push(name);
        } else {
            later.push(name);
        }
    }
    (core, main, later)
}

/// The device's c10 and the library with its kernels.
fn device_libraries(recipe: &Recipe, before_main: &[&str]) -> Vec<Library> {
    let c10 = recipe.c10().map(|name| device(recipe, name).needs(&["libc10.so"]));
    let main = recipe.main().map(|name| {
        let add = format!("-DADD=\"{}\"", recipe.kernel_add());
        let mut main = device(recipe, name).define("-DHOOKS").define(&add).search(long_rpath(recipe));
        if recipe.swap == Swap::Core {
            main = main.define("-DFORK");
        }
        if recipe.gap {
            main = main.define("-DGAP");
        }
        let main = forwarded(recipe, main);
        let main = main.needs(&recipe.c10().into_iter().collect::<Vec<_>>());
        main.needs(&["libtorch_cpu.so", "libc10.so"]).needs(before_main).needs(&provided(recipe))
    });
    let linked = |library| if recipe.sdk.is_some() { with_host(recipe, library) } else { library };
    c10.into_iter().chain(main).map(linked).collect()
}

/// A later library: one that the opening order lists goes with the device's library; one that it does not list
/// is opened lazily, and may then need the driver.
fn other(recipe: &Recipe, name: &str) -> Library {
    let library =
        device(recipe, name).needs(&recipe.c10().into_iter().collect::<Vec<_>>()).needs(&["libc10.so"]);
    if recipe.preload.iter().any(|n| n == name) {
        library.needs(&recipe.main().into_iter().collect::<Vec<_>>()).search(long_rpath(recipe))
    } else {
        with_host(recipe, library)
    }
}

fn device(recipe: &Recipe, name: &str) -> Library {
    Library::new(name, "device.c").define(&format!("-DKEY=\"{}\"", recipe.key()))
}

/// Linked against the host's libraries, each by a symbol of both of its versions.
fn with_host(recipe: &Recipe, library: Library) -> Library {
    let mut library = library.needs(&recipe.linked);
    library.uses.extend(recipe.linked.iter().map(|name| format!("{}_launch", ident(name))));
    library
}

/// Linked against what the SDK has under another name only.
fn forwarded(recipe: &Recipe, library: Library) -> Library {
    let sonames: Vec<&str> = recipe.forwarders.iter().map(|forwarder| forwarder.soname.as_str()).collect();
    let mut library = library.needs(&sonames);
    library.uses.extend(sonames.iter().map(|name| format!("{}_launch", ident(name))));
    library
}

fn provided(recipe: &Recipe) -> Vec<String> {
    recipe.provided.iter().flat_map(|p| p.libraries.iter().cloned()).collect()
}

/// Search paths of every kind, so that a new one fits in place here, and must be appended there.
fn core_search(recipe: &Recipe, name: &str) -> Search {
    match name {
        "libtorch_cpu.so" | "libtorch_python.so" => long_rpath(recipe),
        "libtorch_global_deps.so" => Search::Runpath(build_machine(recipe)),
        "libtorch.so" => Search::Runpath("$ORIGIN".to_owned()),
        "libgomp.so.1" => Search::Absent,
        _ => Search::Rpath("$ORIGIN".to_owned()),
    }
}

fn long_rpath(recipe: &Recipe) -> Search {
    Search::Rpath(build_machine(recipe))
}

/// A search path as forks bring it along: their own folders, and many of the machine that built them.
fn build_machine(recipe: &Recipe) -> String {
    let mut path = vec!["$ORIGIN".to_owned()];
    let folder =
        |path: &str| path.rsplit_once('/').map_or(String::new(), |(dir, _)| format!("$ORIGIN/../../{dir}"));
    let folders = recipe.included.iter().map(|p| folder(p));
    path.extend(folders.chain(recipe.provided.iter().map(|p| format!("$ORIGIN/../../{}", p.dir))));
    path.dedup();
    let home = format!("/home/builder/workspace/{}-torch-release", recipe.vendor);
    path.push(format!("{home}/pytorch/build/lib"));
    path.push(format!("{home}/third_party/install/lib64"));
    path.push(format!("{home}/conda/envs/release/lib"));
    path.extend(recipe.sdk.iter().map(|(root, lib)| format!("/{root}/{lib}")));
    path.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stock_libraries_come_in_an_order_in_which_each_can_be_linked() {
        let mut seen = Vec::new();
        for library in stock() {
            assert!(library.needed.iter().all(|n| seen.contains(n)), "{}", library.name);
            seen.push(library.name);
        }
    }
}
