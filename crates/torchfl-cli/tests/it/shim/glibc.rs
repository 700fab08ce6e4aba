//! Machines with one glibc and another.

use std::collections::{BTreeMap, BTreeSet};

use crate::context::{Context, wheel_in};

use super::{cc, metax, python};

/// A system's libraries with what the files of `site` ask of them; `opens`: which one has `dlopen` and its like.
fn machine(context: &Context, root: &str, opens: Option<&str>) {
    let mut wanted: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    let mut folders = vec![context.path("site")];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let bytes = if path.is_dir() { Vec::new() } else { fs_err::read(&path).unwrap() };
            if path.is_dir() {
                folders.push(path);
            } else if torchfl_elf::is_elf(&bytes) {
                for symbol in torchfl_elf::symbols(&bytes, "one").unwrap().map(Result::unwrap) {
                    let Some(version) = symbol.version.filter(|v| v.name.starts_with("GLIBC_")) else {
                        continue;
                    };
                    let file = match opens {
                        Some(opens) if symbol.name.starts_with("dl") => opens.to_owned(),
                        None if symbol.name.starts_with("dl") => continue,
                        _ => version.file.unwrap(),
                    };
                    wanted.entry(file).or_default().entry(version.name).or_default().insert(symbol.name);
                }
            }
        }
    }
    // In one glibc or another libdl.so.2 is empty; it keeps its versions.
    let oldest = if cfg!(target_arch = "x86_64") { "GLIBC_2.2.5" } else { "GLIBC_2.17" };
    let dl = wanted.entry("libdl.so.2".to_owned()).or_default();
    dl.entry(oldest.to_owned()).or_default().insert("__libdl_version_placeholder".to_owned());
    let folder = format!("{root}/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    for (file, versions) in wanted {
        let names = versions.values().flatten();
        context.write(
            "system.c",
            &names.map(|name| format!("void {name}(void) {{}}\n")).collect::<Vec<_>>().concat(),
        );
        let node = |(version, names): (&String, &BTreeSet<String>)| {
            let names = names.iter().map(|name| format!("{name}; ")).collect::<Vec<_>>().concat();
            format!("{version} {{ {names} }};\n")
        };
        context.write("system.map", &versions.iter().map(node).collect::<String>());
        context.write(&format!("{folder}/{file}"), "");
        cc(
            context,
            &format!(
                "-w -ffreestanding -nostdlib -shared -fPIC system.c -o {folder}/{file} -Wl,-soname,{file} -Wl,--version-script=system.map"
            ),
        );
    }
    let sdk = context.path(&format!("{root}/opt"));
    std::os::unix::fs::symlink(fs_err::canonicalize(context.path("opt")).unwrap(), sdk).unwrap();
}

/// Before 2.34 `dlopen` is libdl.so.2's, since then libc.so.6's, in the version that it had. A shim finds it in both.
#[test]
fn a_forwarder_loads_with_a_glibc_before_and_after_libdl_was_emptied() {
    let (context, words) = metax(&[]);
    context.stdout(&format!("build {words} -o dist"));
    let wheel = wheel_in(&context.path("dist"));
    python(&context, &wheel, "");
    let audit = |root: &str, opens: Option<&str>| {
        machine(&context, root, opens);
        let text = context.run(&format!("audit site --torch site --sysroot {root}"));
        let findings =
            text.split("errors:").nth(1).unwrap_or_default().split("\n\n").next().unwrap_or_default();
        assert!(!text.contains("on the platform tag's word: libdl"), "{text}");
        assert_eq!(text.starts_with("exit: 0"), findings.is_empty(), "{text}");
        findings.to_owned()
    };
    assert_eq!(audit("old", Some("libdl.so.2")), "");
    assert_eq!(audit("new", Some("libc.so.6")), "");
    insta::assert_snapshot!(audit("none", None), @r"
    AUD-002 Undefined symbol
      torch_fl/lib_maca/libcudart.so.12
        torch_fl/lib_maca/libcudart.so.12 refers to dlerror in version GLIBC_[VERSION] of libdl.so.2, which no library in its scope defines
        torch_fl/lib_maca/libcudart.so.12 refers to dlopen in version GLIBC_[VERSION] of libdl.so.2, which no library in its scope defines
        torch_fl/lib_maca/libcudart.so.12 refers to dlsym in version GLIBC_[VERSION] of libdl.so.2, which no library in its scope defines
      fix: build it against the torch that it will meet, or add the library that defines the symbol
    ");
}
