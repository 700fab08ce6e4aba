//! A vendor that leaves the stock core in place and whose runtime comes in other wheels: `cuda-slim`.

use torchfl_wheel::Archive;

use crate::context::{Context, build_json, skeleton, wheel_in};

fn built(context: &Context) -> std::path::PathBuf {
    let made = skeleton("cuda-slim");
    let (torch, stock) = (wheel_in(&made.join("vendor")), wheel_in(&made.join("stock")));
    let words = format!("build cuda-slim --torch {} --front {} -o dist", torch.display(), stock.display());
    context.stdout(&words);
    wheel_in(&context.path("dist"))
}

#[test]
fn the_stock_core_is_opened_from_the_installed_torch_and_not_carried() {
    let context = Context::new();
    let build = build_json(&built(&context));
    assert_eq!((&build["swap"], &build["skeleton"]), (&"extra".into(), &true.into()));
    let from = |name: &str| {
        let open = build["open"].as_array().unwrap().iter().find(|open| open["name"] == name);
        open.map(|open| open["from"].as_str().unwrap().to_owned())
    };
    assert_eq!(from("libtorch_cpu.so").as_deref(), Some("front"));
    assert_eq!(from("libtorch_cuda.so").as_deref(), Some("bundle"));
    assert!(build["files"].get("libtorch_cpu.so").is_none());
    // One core, so one set of compiled code, as in the stock torch.
    assert_eq!(build["caches"], serde_json::json!({}));
}

/// Nothing inside calls into the interpreter, so one wheel serves every Python.
#[test]
fn without_a_part_for_one_python_the_wheel_is_for_all() {
    let context = Context::new();
    let wheel = built(&context);
    let name = wheel.file_name().unwrap().to_str().unwrap();
    assert!(name.contains("-py3-none-manylinux_2_"), "{name}");
    assert_eq!(build_json(&wheel)["python"], serde_json::Value::Null);
}

#[test]
fn what_other_wheels_bring_is_required_with_the_vendors_pins() {
    let context = Context::new();
    let wheel = built(&context);
    let build = build_json(&wheel);
    let archive = Archive::open(&wheel).unwrap();
    let member = archive.members().iter().find(|m| m.name.ends_with(".dist-info/METADATA")).unwrap();
    let metadata = String::from_utf8(archive.read(&member.name, 1 << 20).unwrap()).unwrap();
    let provided = build["provided"].as_array().unwrap();
    assert!(!provided.is_empty());
    for item in provided {
        let line = item["requires"].as_str().unwrap();
        assert!(line.contains("=="), "{line}");
        assert!(metadata.contains(&format!("Requires-Dist: {line}\n")), "{line} in {metadata}");
        for library in item["libraries"].as_array().unwrap() {
            assert!(build["files"].get(library.as_str().unwrap()).is_none(), "{library}");
        }
    }
}

/// The wheel alone tells an audit what the manifest says.
#[test]
fn what_an_audit_needs_of_the_manifest_is_in_the_wheel() {
    let context = Context::new();
    let build = build_json(&built(&context));
    assert_eq!(build["allow_unresolved"], serde_json::json!([]));
    insta::assert_snapshot!(serde_json::to_string_pretty(&build["audit"]).unwrap(), @r#"
    {
      "dlopen": [
        "libcuda.so.1",
        "libnvidia-ml.so.1",
        "libibverbs.so.1"
      ],
      "folders": [],
      "host": [
        "libcuda.so.*",
        "libnvidia-*.so.*"
      ],
      "kernels": "CUDA",
      "sdk": "/usr/local/cuda",
      "severity": {},
      "triton": {
        "owners": [
          {
            "local": null,
            "name": "triton",
            "version": null
          },
          {
            "local": null,
            "name": "flagtree",
            "version": null
          }
        ],
        "supplier": "pypi"
      }
    }
    "#);
}
