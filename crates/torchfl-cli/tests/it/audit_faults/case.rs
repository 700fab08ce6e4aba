//! The sample vendor's wheel, taken apart, changed in one thing, and packed again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use torchfl_elf::Edit;
use torchfl_wheel::{Archive, Compression, Entry, Options, WheelName, Writer as _, ZipWriter};

use crate::context::Context;

/// Where the wheel has its libraries.
pub(crate) const BUNDLE: &str = "torch_fl/lib_sim";
const INFO: &str = "torch_fl-2.13.0+sim1.0.skeleton.dist-info";
/// What the build gives each library.
const SEARCH: &str = "-Wl,--disable-new-dtags,-rpath,$ORIGIN:/opt/sim/lib";

pub(crate) struct Case {
    pub context: Context,
    name: WheelName,
    members: BTreeMap<String, Vec<u8>>,
}

impl Case {
    /// The wheel as it is built, which is sound.
    pub(crate) fn new() -> Self {
        let context = Context::new();
        let wheel = context.build("", "built");
        let archive = Archive::open(&wheel).unwrap();
        let read = |name: &str| (name.to_owned(), archive.read(name, 1 << 24).unwrap());
        let members = archive.members().iter().map(|member| read(&member.name)).collect();
        let name = wheel.file_name().unwrap().to_str().unwrap().parse().unwrap();
        Self { context, name, members }
    }

    pub(crate) fn put(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.members.insert(path.to_owned(), bytes.into());
    }

    pub(crate) fn remove(&mut self, path: &str) -> Vec<u8> {
        self.members.remove(path).unwrap()
    }

    /// The one member of the bundle whose name starts so.
    pub(crate) fn find(&self, start: &str) -> String {
        let start = format!("{BUNDLE}/{start}");
        let mut names = self.members.keys().filter(|name| name.starts_with(&start));
        let found = names.next().unwrap().clone();
        assert_eq!(names.next(), None);
        found
    }

    /// Changes a text of the dist-info.
    pub(crate) fn info(&mut self, file: &str, edit: impl FnOnce(String) -> String) {
        let path = format!("{INFO}/{file}");
        let text = String::from_utf8(self.remove(&path)).unwrap();
        self.put(&path, edit(text));
    }

    /// Adds a line to METADATA.
    pub(crate) fn require(&mut self, requirement: &str) {
        self.info("METADATA", |text| {
            text.replacen("\n\n", &format!("\nRequires-Dist: {requirement}\n\n"), 1)
        });
    }

    pub(crate) fn without_licences(&mut self) {
        let licences = format!("{INFO}/licenses/");
        self.members.retain(|path, _| !path.starts_with(&licences));
    }

    /// Changes `build.json`.
    pub(crate) fn build(&mut self, edit: impl FnOnce(&mut Value)) {
        let path = "torch_fl/build.json";
        let mut value = serde_json::from_slice(&self.remove(path)).unwrap();
        edit(&mut value);
        self.put(path, serde_json::to_vec(&value).unwrap());
    }

    /// Has the bootstrap open one more library of the bundle, at this place of its list.
    pub(crate) fn open(&mut self, name: &str, at: usize) {
        let open = serde_json::json!({ "name": name, "from": "bundle", "shared": false, "global": false });
        self.build(|build| build["open"].as_array_mut().unwrap().insert(at, open));
    }

    /// Compiles a library of this name, with the bundle's search path. `{NAME}` in an option is the path of a
    /// member of the bundle, and `{sdk}` the SDK's folder, to link against; later options win.
    pub(crate) fn compile(&self, name: &str, source: &str, options: &[&str]) -> Vec<u8> {
        let folder = self.context.path("parts");
        fs_err::create_dir_all(&folder).unwrap();
        for (path, bytes) in &self.members {
            if let Some(inner) = path.strip_prefix(&format!("{BUNDLE}/")) {
                fs_err::write(folder.join(inner), bytes).unwrap();
            }
        }
        self.context.write("source.c", source);
        let sdk = self.context.path("sk/opt/sim/lib");
        let option = |text: &&str| {
            let text = text.replace("{sdk}", sdk.to_str().unwrap());
            match text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
                Some(name) => folder.join(name).to_str().unwrap().to_owned(),
                None => text,
            }
        };
        let out = self.context.path("compiled.so");
        let made = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-s", "-Wl,--no-as-needed", "-Wl,-z,noexecstack", SEARCH])
            .arg(format!("-Wl,-soname,{name}"))
            .arg(self.context.path("source.c"))
            .args(options.iter().map(option))
            .arg("-o")
            .arg(&out)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        fs_err::read(out).unwrap()
    }

    /// Compiles a library into the bundle.
    pub(crate) fn add(&mut self, name: &str, source: &str, options: &[&str]) {
        let bytes = self.compile(name, source, options);
        self.put(&format!("{BUNDLE}/{name}"), bytes);
    }

    /// Compiles the device's library anew, with `more` in it and linked against `options` too: the rest of what it
    /// does for others stays.
    pub(crate) fn device(&mut self, more: &str, options: &[&str]) {
        let source = format!(
            "const char *torch_build(void) {{ return \"sim\"; }}\n\
             const char *torch_sim_build(void) {{ return \"sim\"; }}\n\
             int at_fork_autocast(void);\n\
             int torch_sim_autocast(void) {{ return at_fork_autocast(); }}\n\
             #ifndef NO_KERNELS\n\
             void _ZN2at3sim3addERKNS_6TensorES3_RKN3c106ScalarE(void) {{}}\n\
             #endif\n{more}\n"
        );
        let linked = ["{libc10_sim.so}", "{libtorch_cpu.so}", "{libc10.so}", "{sdk}/libsimrt.so.1"];
        self.add("libtorch_sim.so", &source, &[options, &linked].concat());
    }

    /// Sets the search path of a library of the bundle.
    pub(crate) fn search(&mut self, name: &str, path: &str) {
        let bytes = self.members.get(&format!("{BUNDLE}/{name}")).unwrap();
        let file = self.context.path("patched.so");
        fs_err::write(&file, bytes).unwrap();
        let edit = Edit::Set { tag: torchfl_elf::Tag::Rpath, value: path.to_owned() };
        torchfl_elf::patch_in_place(&file, &edit).unwrap();
        self.put(&format!("{BUNDLE}/{name}"), fs_err::read(file).unwrap());
    }

    /// The sizes of `build.json`, which the bootstrap compares first of all.
    fn keep_promises(&mut self) {
        let bundle = format!("{BUNDLE}/");
        let sizes: BTreeMap<String, usize> = self
            .members
            .iter()
            .filter_map(|(path, bytes)| Some((path.strip_prefix(&bundle)?.to_owned(), bytes.len())))
            .collect();
        self.build(|build| {
            let files = build["files"].as_object_mut().unwrap();
            files.retain(|name, _| sizes.contains_key(name));
            for (name, file) in files {
                file["bytes"] = sizes[name].into();
            }
        });
    }

    /// Packs the wheel anew, with the RECORD and sizes that it needs, into the folder `dist`.
    pub(crate) fn pack(&mut self) -> PathBuf {
        self.keep_promises();
        self.pack_with_sizes_as_they_are()
    }

    pub(crate) fn pack_with_sizes_as_they_are(&self) -> PathBuf {
        let folder = self.context.path("dist");
        fs_err::create_dir_all(&folder).unwrap();
        let options = Options { compression: Compression::Fast, threads: 1, ..Options::default() };
        let mut writer = ZipWriter::create(&folder, &self.name, options).unwrap();
        let members = self.members.iter().filter(|(path, _)| !path.ends_with("/RECORD"));
        writer.add_all(members.map(|(path, bytes)| Entry::bytes(path, bytes.clone())).collect()).unwrap();
        Box::new(writer).finish().unwrap();
        folder.join(self.name.to_string())
    }

    /// Packs the wheel with the RECORD that it has, right or wrong.
    pub(crate) fn pack_as_it_is(&self) -> PathBuf {
        let path = self.context.path("dist").join(self.name.to_string());
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        let mut zip = zip::ZipWriter::new(fs_err::File::create(&path).unwrap().into_parts().0);
        for (name, bytes) in &self.members {
            zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            std::io::Write::write_all(&mut zip, bytes).unwrap();
        }
        zip.finish().unwrap();
        path
    }

    /// What an audit beside the stock torch finds.
    pub(crate) fn audit(&mut self, more: &str) -> String {
        let wheel = self.pack();
        self.judge(&wheel, more)
    }

    /// What an audit of this wheel finds: the exit code, and each finding.
    pub(crate) fn judge(&self, wheel: &Path, more: &str) -> String {
        let name = wheel.file_name().unwrap().to_str().unwrap();
        let output = self.context.output(&format!("audit dist/{name} --torch {{stock}} --json {more}"));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut text = format!("exit: {}\n", output.status.code().unwrap());
        assert!(report["findings"].is_array(), "{report:#}");
        for finding in report["findings"].as_array().unwrap() {
            let cell = |key: &str| finding[key].as_str().unwrap();
            let _ = writeln!(text, "{} {} of {}", cell("code"), cell("severity"), cell("file"));
            let _ = writeln!(text, "  {}: {}", cell("name"), cell("reason"));
        }
        let tag = regex::Regex::new(r"the tag's glibc 2\.\d+").unwrap();
        tag.replace_all(&self.context.filter(&text), "the tag's glibc [VERSION]").into_owned()
    }
}

/// A number in a file of this machine.
pub(crate) fn at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes[offset..offset + N].try_into().unwrap()
}

/// Offsets of the program headers of a kind (gABI, chapter 5: 64-bit).
pub(crate) fn headers(bytes: &[u8], kind: u32) -> Vec<usize> {
    let start = u64::from_le_bytes(at(bytes, 0x20)) as usize;
    let count = usize::from(u16::from_le_bytes(at(bytes, 0x38)));
    let all = (0..count).map(|index| start + index * 56);
    all.filter(|header| u32::from_le_bytes(at(bytes, *header)) == kind).collect()
}

/// Makes the first entry of this tag in the dynamic section one of `DT_DEBUG`, which says nothing in a library.
pub(crate) fn forget(bytes: &mut [u8], tag: u64) {
    const DYNAMIC: u32 = 2;
    const DEBUG: u8 = 21;
    let header = headers(bytes, DYNAMIC)[0];
    let start = u64::from_le_bytes(at(bytes, header + 8)) as usize;
    let mut entries = (0..).map(|index| start + index * 16);
    let entry = entries.find(|entry| u64::from_le_bytes(at(bytes, *entry)) == tag).unwrap();
    bytes[entry] = DEBUG;
}
