//! The manifests of `vendor-manifests/` are right, and say what is known about them.

use torchfl_manifest::{Manifest, Request, ShimKind, Swap, check, embedded, find, resolve};

#[test]
fn every_manifest_parses_resolves_and_is_named_after_its_file() {
    for (name, text) in embedded() {
        let manifest = Manifest::parse(text, name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(manifest.name(), *name);
        for tag in manifest.python.tags.iter() {
            let request = Request { python: Some(tag.to_string()), ..Request::default() };
            let resolved = resolve(&manifest, &request).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(resolved.name, *name);
            assert_eq!(resolved.bundle.open.is_empty(), resolved.torch.swap == Swap::None, "{name}");
            assert!(resolved.version.starts_with(&format!("{}+", resolved.torch.release)));
        }
    }
}

/// A fact that somebody finds out leaves this list; one that is taken out of a manifest comes into it.
#[test]
fn open_facts() {
    let open = |(name, _): &(&str, &str)| {
        let findings = check(&find(name).unwrap());
        let keys: Vec<String> = findings.into_iter().map(|finding| finding.key).collect();
        format!("{name}: {}", if keys.is_empty() { "none".to_owned() } else { keys.join(", ") })
    };
    let lines: Vec<String> = embedded().iter().map(open).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    ascend: input[0].sha256
    bpu: target.glibc, sdk.version, host.devices, comm, input[0].sha256
    cuda: input[1].sha256
    cuda-slim: input[1].sha256
    dcu: input[0].file, input[0].sha256, input[1].sha256
    dcu-slim: shim[0].symbols, shim[0].stub, input[0].file, input[0].sha256, input[1].sha256
    gcu: host.devices, input[0].sha256
    kunlunxin: comm, input[0].file, input[0].sha256
    metax: shim[0].symbols, shim[0].stub, input[0].file, input[0].sha256, input[1].sha256
    musa: triton.target.warp-size, input[0].sha256
    ppu: torch.markers, target.glibc, input[1].sha256
    sim: none
    tsingmicro: comm, input[0].sha256
    ");
}

/// Wheels of different vendors can be told apart by their versions.
#[test]
fn versions() {
    let version = |(name, _): &(&str, &str)| {
        let resolved = resolve(&find(name).unwrap(), &Request::default()).unwrap();
        format!("{name}: {}", resolved.version)
    };
    let lines: Vec<String> = embedded().iter().map(version).collect();
    insta::assert_snapshot!(lines.join("\n"), @r##"
    ascend: 2.10.0+ascend9.0.0
    bpu: 2.10.0+bpu
    cuda: 2.13.0+cuda13.0
    cuda-slim: 2.13.0+cuda13.0.slim
    dcu: 2.10.0+dcu2604
    dcu-slim: 2.10.0+dcu2604.slim
    gcu: 2.10.0+gcu1.9.10
    kunlunxin: 2.9.0+kunlunxin5.37.1
    metax: 2.10.0+metax3.8.1
    musa: 2.10.0+musa5.2.0
    ppu: 2.10.0+ppu2.0.0
    sim: 2.13.0+sim1.0
    tsingmicro: 2.10.0+tsingmicro260610
    "##);
}

#[test]
fn a_driver_stays_on_the_host_in_front_of_all_else() {
    let ppu = find("ppu").unwrap();
    assert_eq!(ppu.host.as_ref().unwrap().driver[0].as_str(), "libcuda.so*");
    let resolved = resolve(&ppu, &Request::default()).unwrap();
    assert_eq!(resolved.host.libraries, ["libcuda.so*", "libcudart.so.13", "libnccl.so.2"]);
}

/// One vendor's wheel may hold what another's leaves to the machine, but no driver.
#[test]
fn no_vendor_bundles_or_makes_what_is_another_ones_driver() {
    let all: Vec<_> = embedded().iter().map(|(name, _)| find(name).unwrap()).collect();
    let drivers = all.iter().filter_map(|one| one.host.as_ref()).flat_map(|host| &host.driver);
    let stems: Vec<&str> = drivers.map(|glob| glob.split(['.', '*']).next().unwrap()).collect();
    assert!(stems.contains(&"libcuda") && stems.contains(&"libascend_hal"), "{stems:?}");
    for manifest in &all {
        let bundle = manifest.bundle.iter().flat_map(|bundle| bundle.required.iter().chain(&bundle.optional));
        let made = manifest.shim.iter().map(|shim| &shim.soname);
        let provided = manifest.provided.iter().flat_map(|provided| provided.libraries.iter());
        for library in bundle.chain(made).chain(provided) {
            let stem = library.split('.').next().unwrap();
            assert!(!stems.contains(&stem), "{}: {library}", manifest.name());
        }
    }
}

#[test]
fn a_core_gap_is_opened_globally_after_the_stock_core_and_before_who_needs_it() {
    let resolved = resolve(&find("dcu-slim").unwrap(), &Request::default()).unwrap();
    let [shim] = resolved.shims.as_slice() else { panic!("{:?}", resolved.shims) };
    assert_eq!((shim.kind, &shim.forward), (ShimKind::CoreGap, &None));
    let at = |name: &str| resolved.bundle.open.iter().position(|open| open.name == name).unwrap();
    assert!(at("libtorch.so") < at(&shim.soname) && at(&shim.soname) < at("libc10_hip.so"));
    let global: Vec<&str> =
        resolved.bundle.open.iter().filter(|open| open.global).map(|open| open.name.as_str()).collect();
    assert_eq!(global, [&shim.soname]);
}

#[test]
fn the_forwarder_goes_where_the_host_has_the_symbols() {
    let resolved = resolve(&find("metax").unwrap(), &Request::default()).unwrap();
    let forward = resolved.shims[0].forward.as_ref().unwrap();
    assert!(resolved.host.dlopen.contains(&forward.to));
    assert_eq!(forward.version, resolved.shims[0].soname);
    assert_eq!(resolved.bundle.open[1].name, resolved.shims[0].soname, "before all that need it");
}
