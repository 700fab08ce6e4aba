//! An installed torch as the input, in place of a wheel.

use torchfl_wheel::Archive;

use crate::context::{Context, names, wheel_in};

/// Path and content of the bundle and the headers in a wheel.
fn bundle(context: &Context, folder: &str) -> Vec<(String, Vec<u8>)> {
    let archive = Archive::open(&wheel_in(&context.path(folder))).unwrap();
    let ours = archive
        .members()
        .iter()
        .filter(|m| m.name.starts_with("torch_fl/lib_") || m.name.contains("/overlay/"));
    ours.map(|m| (m.name.clone(), archive.read(&m.name, 1 << 24).unwrap())).collect()
}

#[test]
fn an_installed_torch_gives_the_same_bundle_as_its_wheel() {
    let context = Context::new();
    context.build("", "wheel");
    context.unpack("vendor", "site");
    // What an installer and a first run add.
    context.write("site/torch-2.13.0+sim1.0.skeleton.dist-info/INSTALLER", "pip\n");
    context.write("site/torch/__pycache__/version.cpython-311.pyc", "x");
    context.write("site/numpy/__init__.py", "");
    context.unpack("stock", "front");
    context.stdout("build sim --torch site --front front -o folder");
    context.stdout("build sim --torch site/torch --front front/torch -o inner");
    let wheel = bundle(&context, "wheel");
    assert!(wheel.iter().any(|(name, _)| name.starts_with("torch_fl/lib_sim/libsimblas")), "torch.libs");
    assert!(wheel == bundle(&context, "folder"));
    let same = |folder: &str| fs_err::read(wheel_in(&context.path(folder))).unwrap();
    assert!(same("folder") == same("inner"), "site-packages and the torch folder in it name the same torch");
    assert_eq!(wheel_in(&context.path("wheel")).file_name(), wheel_in(&context.path("folder")).file_name());
}

/// A wheel holds no links: the file that a link leads to is carried, once, as `libtorch_sim.so`.
#[test]
fn a_library_that_is_a_link_becomes_one_file() {
    let context = Context::new();
    context.build("", "wheel");
    context.unpack("vendor", "site");
    let library = context.path("site/torch/lib/libtorch_sim.so");
    fs_err::create_dir(context.path("elsewhere")).unwrap();
    fs_err::rename(&library, context.path("elsewhere/libtorch_sim.so.1.0")).unwrap();
    std::os::unix::fs::symlink("../../../elsewhere/libtorch_sim.so.1.0", &library).unwrap();
    context.stdout("build sim --torch site --front {stock} -o folder");
    assert!(bundle(&context, "wheel") == bundle(&context, "folder"));
}

/// `libsimblas.so` and `libsimblas.so.2`, links to `libsimblas-….so.2`, all match the glob.
#[test]
fn names_of_one_file_that_a_glob_matches_become_one_file() {
    let context = Context::new();
    context.build("", "wheel");
    context.unpack("vendor", "site");
    let real = names(&context.path("site/torch.libs")).pop().unwrap();
    for link in ["libsimblas.so", "libsimblas.so.2", "zzz.so"] {
        std::os::unix::fs::symlink(&real, context.path("site/torch.libs").join(link)).unwrap();
    }
    std::os::unix::fs::symlink("../torch/lib/libc10.so", context.path("site/torch.libs/libcore.so")).unwrap();
    context.stdout("build sim --torch site --front {stock} -o folder");
    let names = |folder: &str| bundle(&context, folder).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names("wheel"), names("folder"));
}

#[test]
fn a_folder_of_links_is_followed() {
    let context = Context::new();
    context.build("", "wheel");
    context.unpack("vendor", "real");
    fs_err::create_dir(context.path("site")).unwrap();
    for name in names(&context.path("real")) {
        std::os::unix::fs::symlink(format!("../real/{name}"), context.path("site").join(name)).unwrap();
    }
    context.stdout("build sim --torch site --front {stock} -o folder");
    assert!(bundle(&context, "wheel") == bundle(&context, "folder"));
}
