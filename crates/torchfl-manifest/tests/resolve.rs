//! From manifest and request to what a build needs.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use torchfl_manifest::resolve::{Attribute, OpenFrom};
use torchfl_manifest::{Error, Manifest, Request, Severity, Swap, check, find, new_manifest, resolve, text};

fn metax(request: &Request) -> Result<torchfl_manifest::Resolved, Error> {
    resolve(&Manifest::parse(include_str!("metax.toml"), "metax.toml").unwrap(), request)
}

fn failure(request: &Request) -> String {
    let error = metax(request).unwrap_err();
    format!("{}: {error}\nhint: {}", error.code(), error.hint().unwrap_or_default())
}

#[test]
fn a_whole_manifest() {
    let resolved = metax(&Request { python: Some("cp312".to_owned()), ..Request::default() }).unwrap();
    // A line a list or table.
    let json = serde_json::to_string(&resolved).unwrap().replace("],", "],\n").replace("},", "},\n");
    insta::assert_snapshot!(json, @r#"
    {"name":"metax","vendor":"metax","variant":null,"title":"MetaX MACA","status":"stable","version":"2.10.0+metax3.8.1","torch":{"release":"2.10.0","front":"cpu","markers":["metax","maca"],
    "defines":["USE_MACA=1"],
    "swap":"core","attributes":{},
    "rivals":[]},
    "python_tags":["cp310","cp312"],
    "python":"cp312","target":{"arch":["x86_64"],
    "glibc":"2.35"},
    "sdk":{"version":"3.8.1","root":"/opt/maca","env":["MACA_PATH","MACA_HOME"],
    "paths":["/opt/maca"]},
    "bundle":{"dir":"lib_maca","probe":"libtorch_cuda.so","required":["libc10.so","libtorch_cpu.so","libtorch.so","libtorch_global_deps.so","libtorch_python.so"],
    "optional":["libc10_cuda.so","libtorch_cuda.so","libtorch_cuda_linalg.so","libshm.so"],
    "include":[],
    "never_duplicate":["libgomp.so.1"],
    "open":[{"name":"libcudart.so.12","from":"bundle","shared":false,"global":false},
    {"name":"libc10.so","from":"bundle","shared":false,"global":false},
    {"name":"libtorch_cpu.so","from":"bundle","shared":false,"global":false},
    {"name":"libc10_cuda.so","from":"bundle","shared":false,"global":true},
    {"name":"libtorch_cuda.so","from":"bundle","shared":false,"global":false},
    {"name":"libtorch.so","from":"bundle","shared":false,"global":false},
    {"name":"libshm.so","from":"bundle","shared":false,"global":false},
    {"name":"libtorch_python.so","from":"bundle","shared":false,"global":false}],
    "search_path":["$ORIGIN","/opt/maca/lib","/opt/maca/lib64"],
    "search_tag":"rpath","kernels":"CUDA"},
    "host":{"libraries":["libmcblas.so*","libmcruntime.so*"],
    "dlopen":["libsymbol_cu.so"],
    "devices":["/dev/mxcd*"]},
    "runtime":null,"provided":[{"dist":"nvidia-cublas","version":null,"dir":null,"libraries":["libcublas.so.13"]}],
    "shims":[{"kind":"versioned-forwarder","soname":"libcudart.so.12","forward":{"to":"libsymbol_cu.so","version":"libcudart.so.12"},
    "symbols":{"listed":["cudaMalloc","cudaFree","cudaGraphCreate"]},
    "stubs":{"cudaGraphCreate":801}}],
    "env":{"MACA_PATH":"/opt/maca"},
    "comm":"mccl","triton":{"supplier":"vendor","version":null,"owners":[{"name":"triton","local":"metax","version":null},
    {"name":"flagtree","local":"metax","version":null}],
    "target":{"backend":"maca","key":"metax","warp_size":64}},
    "flag_gems":"metax","audit":{"severity":{"AUD-007":"warning"}},
    "ci":{"runner":["mx-8g"],
    "image":"registry.example/metax:1","container_options":["--device=/dev/mxcd"],
    "python":[],
    "tests":[],
    "artifact":null},
    "inputs":[{"role":"torch","way":"file","login":"the portal","made":null,"files":[{"python":"cp312","arch":"x86_64","name":"torch-2.10.0+metax3.8.1-cp312-cp312-linux_x86_64.whl","sha256":"1111111111111111111111111111111111111111111111111111111111111111"}]},
    {"role":"front","way":"package","package":"torch","version":"2.10.0+cpu","files":[{"python":"cp312","arch":"x86_64","name":null,"sha256":null}]}]}
    "#);
}

#[test]
fn the_version_is_release_revision_and_local_version_normalised() {
    let version = |local: Option<&str>, post| {
        metax(&Request { local: local.map(str::to_owned), post, ..Request::default() }).unwrap().version
    };
    assert_eq!(version(None, None), "2.10.0+metax3.8.1");
    assert_eq!(version(None, Some(2)), "2.10.0.post2+metax3.8.1");
    assert_eq!(version(Some("MetaX-3_08"), None), "2.10.0+metax.3.8");
    assert_eq!(
        resolve(&find("cuda-slim").unwrap(), &Request::default()).unwrap().version,
        "2.13.0+cuda13.0.slim"
    );
}

#[test]
fn the_sdk_folder_is_the_one_asked_for_or_the_first_path() {
    let path = |root: &str| {
        let request = Request { sdk_root: Some(root.into()), ..Request::default() };
        metax(&request).unwrap().bundle.search_path_value()
    };
    assert_eq!(path("/srv/maca/"), "$ORIGIN:/srv/maca/lib:/srv/maca/lib64");
    assert_eq!(path("/"), "$ORIGIN:/lib:/lib64");
    assert_eq!(
        metax(&Request::default()).unwrap().bundle.search_path_value(),
        "$ORIGIN:/opt/maca/lib:/opt/maca/lib64"
    );
    let only_env = include_str!("metax.toml").replace(", { path = \"/opt/maca\" }", "");
    let error = resolve(&Manifest::parse(&only_env, "m").unwrap(), &Request::default()).unwrap_err();
    assert_eq!(error.code(), "E-MAN-105");
}

#[test]
fn requests_that_cannot_be_met() {
    let python = |tag: &str| failure(&Request { python: Some(tag.to_owned()), ..Request::default() });
    insta::assert_snapshot!(python("cp311"), @r##"
        E-MAN-102: manifest `metax` offers no python tag `cp311`
        hint: there are cp310, cp312
        "##);
    let arch = Request { arch: Some("aarch64".to_owned()), ..Request::default() };
    insta::assert_snapshot!(failure(&arch), @r##"
        E-MAN-102: manifest `metax` offers no processor `aarch64`
        hint: there are x86_64
        "##);
    let local = |tag: &str| failure(&Request { local: Some(tag.to_owned()), ..Request::default() });
    insta::assert_snapshot!(local("metax+x"), @r##"
        E-MAN-103: `metax+x` is no local version: "metax+x" holds a `+`: a version has one, and the tool writes it
        hint: write it without the `+`: letters and digits parted by dots, such as acme3.8.1
        "##);
    insta::assert_snapshot!(local(""), @r##"
        E-MAN-103: `` is no local version: "" has an empty part: PEP 440 wants a letter or digit on each side of a `.`
        hint: write it without the `+`: letters and digits parted by dots, such as acme3.8.1
        "##);
    let sdk = |root: &str| failure(&Request { sdk_root: Some(root.into()), ..Request::default() });
    insta::assert_snapshot!(sdk("opt/maca"), @r##"
        E-MAN-104: `opt/maca` cannot be the SDK's folder: "opt/maca" is not absolute
        hint: give an absolute folder of the target machine, such as /opt/sdk
        "##);
    insta::assert_snapshot!(sdk("/opt/$ORIGIN"), @r##"
        E-MAN-104: `/opt/$ORIGIN` cannot be the SDK's folder: "/opt/$ORIGIN" holds '$', which a library's search path cannot
        hint: give an absolute folder of the target machine, such as /opt/sdk
        "##);
}

#[test]
fn the_slim_manifest_opens_the_device_libraries_inside_the_stock_core() {
    let resolved = resolve(&find("cuda-slim").unwrap(), &Request::default()).unwrap();
    assert_eq!(resolved.torch.swap, Swap::Extra);
    let at = |name: &str| resolved.bundle.open.iter().position(|open| open.name == name).unwrap();
    for open in &resolved.bundle.open {
        let device = open.name.contains("cuda");
        assert_eq!(open.from, if device { OpenFrom::Bundle } else { OpenFrom::Front }, "{}", open.name);
        assert_eq!(open.shared, open.name == "libgomp.so.1");
    }
    assert!(at("libtorch_cpu.so") < at("libc10_cuda.so"));
    assert!(at("libtorch_cuda_linalg.so") < at("libtorch.so"));
    assert!(at("libshm.so") < at("libtorch_python.so"));
    assert!(
        !resolved.bundle.open.iter().any(|open| open.name.contains("nvshmem") || open.name.contains("nvrtc"))
    );
}

#[test]
fn the_cuda_manifest_takes_torch_version_cuda_from_the_vendor() {
    let resolved = resolve(&find("cuda").unwrap(), &Request::default()).unwrap();
    assert_eq!(resolved.version, "2.13.0+cuda13.0");
    assert_eq!(resolved.torch.attributes["cuda"], Attribute::FromVendor);
}

#[test]
fn an_unknown_vendor_is_told_its_neighbours() {
    let error = find("cuda-slm").unwrap_err();
    insta::assert_snapshot!(format!("{}: {error}\nhint: {}", error.code(), error.hint().unwrap()), @r##"
        E-MAN-101: no manifest is named `cuda-slm`
        hint: did you mean `cuda-slim`? There are ascend, bpu, cuda, cuda-slim, dcu, dcu-slim, gcu, kunlunxin, metax, musa, ppu, sim, tsingmicro
        "##);
}

#[test]
fn a_new_manifest_parses_and_is_listed_as_incomplete() {
    let new = new_manifest("acme", None).unwrap();
    let manifest = Manifest::parse(&new, "acme.toml").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(manifest.name(), "acme");
    assert_eq!(manifest.bundle.as_ref().unwrap().dir.as_str(), "lib_acme");
    let keys: Vec<String> = check(&manifest).into_iter().map(|finding| finding.key).collect();
    insta::assert_snapshot!(keys.join(" "), @r"
    title torch.markers target.glibc sdk.version sdk.roots bundle.probe bundle.kernels host.libraries host.devices comm input input
    ");
    assert!(check(&manifest).iter().all(|finding| finding.severity == Severity::Note));
}

#[test]
fn a_copied_manifest_keeps_facts_and_comments_and_changes_names() {
    let new = new_manifest("acme-lite", Some((text("sim").unwrap(), "sim.toml"))).unwrap();
    let manifest = Manifest::parse(&new, "acme-lite.toml").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(manifest.name(), "acme-lite");
    assert_eq!(manifest.bundle.as_ref().unwrap().dir.as_str(), "lib_acme");
    assert!(new.contains("# those of the stock torch 2.13.0"));
    assert_eq!(check(&manifest).len(), 1, "the title alone is still to be written");
    let back = new_manifest("acme", Some((&new, "acme-lite.toml"))).unwrap();
    assert_eq!(Manifest::parse(&back, "acme.toml").unwrap().name(), "acme");
}

#[test]
fn a_name_that_no_manifest_can_have() {
    for name in ["", "-", "Acme", "acme-", "acme-a-b", "3com", "acme+x"] {
        assert_eq!(new_manifest(name, None).unwrap_err().code(), "E-MAN-106", "{name}");
    }
}

#[test]
fn the_names_of_a_runtime_are_its_tables_with_the_vendors_libraries() {
    let resolved = |name: &str| torchfl_manifest::resolve(&find(name).unwrap(), &Request::default()).unwrap();
    let cuda = resolved("cuda").runtime.unwrap();
    assert_eq!(cuda.api, "cuda");
    assert_eq!(cuda.names, torchfl_manifest::runtime_names("cuda"));
    let metax = resolved("metax").runtime.unwrap();
    assert_eq!(cuda.names["ipc.open"].library, "libcudart.so.13");
    assert_eq!(metax.names["ipc.open"].library, "libcudart.so.12");
    assert_eq!(metax.names["ipc.open"].symbol, cuda.names["ipc.open"].symbol);
    assert!(resolved("sim").runtime.is_none());
}
