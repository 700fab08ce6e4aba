//! What several test files share: a small wheel and ways to break it.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "each test file uses a part"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use torchfl_wheel::{
    Compression, Entry, Metadata, MetadataVersion, Options, WheelFile, WheelName, Writer, Written, ZipWriter,
};

pub const NAME: &str = "torch_fl-2.13.0+cuda13.0-cp311-cp311-manylinux_2_28_x86_64.whl";

pub fn name() -> WheelName {
    NAME.parse().unwrap()
}

/// METADATA and WHEEL.
pub fn dist_info() -> Vec<Entry> {
    let name = name();
    let mut metadata = Metadata::new(MetadataVersion::V2_4, "torch-fl", &name.version);
    metadata.push("Summary", "One device, many chips");
    metadata.push("Requires-Dist", "torch==2.13.0");
    metadata.set_markdown("# torch-fl\n\nGrüße.\n");
    let wheel = WheelFile::new(&name, "torchfl 0.1.0", false);
    vec![
        Entry::bytes(format!("{}/METADATA", name.dist_info()), metadata.render().unwrap()),
        Entry::bytes(format!("{}/WHEEL", name.dist_info()), wheel.render().unwrap()),
    ]
}

/// Bytes that look like code: neither constant nor random.
pub fn code(len: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let word = [0x48, 0x8b, (state >> 28) as u8, 0, (state >> 20) as u8 & 0x1f, 0x24];
        bytes.extend_from_slice(&word);
    }
    bytes.truncate(len);
    bytes
}

/// Bytes that nothing makes smaller.
pub fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// A wheel with every kind of member: empty, tiny, awkwardly named, several blocks long, incompressible.
pub fn entries() -> Vec<Entry> {
    of_size(1)
}

/// The same without long members.
pub fn short_entries() -> Vec<Entry> {
    of_size(50)
}

fn of_size(divisor: usize) -> Vec<Entry> {
    let mut mixed = code(1_500_000 / divisor);
    mixed.extend(noise(1_200_000 / divisor));
    mixed.extend(code(700_000 / divisor));
    let mut entries = vec![
        Entry::bytes("torch_fl/__init__.py", ""),
        Entry::bytes("torch_fl/build.json", "{}\n"),
        Entry::bytes("torch_fl/a, \"b\"/grün.txt", "x"),
        Entry::bytes("torch_fl/lib_cuda/libmixed.so", mixed).executable(true),
        Entry::bytes("torch_fl/lib_cuda/libnoise.so.1", noise(2_300_000 / divisor)).executable(true),
        Entry::bytes("torch_fl/lib_cuda/libsmall.so", code(100_000 / divisor)).executable(true),
    ];
    entries.extend(dist_info());
    entries
}

pub fn options(threads: usize) -> Options {
    Options { threads, compression: Compression::Normal, on_progress: None }
}

pub fn write(folder: &Path, entries: Vec<Entry>, options: Options) -> (PathBuf, Written) {
    let mut writer = Box::new(ZipWriter::create(folder, &name(), options).unwrap());
    let path = writer.path().to_owned();
    writer.add_all(entries).unwrap();
    (path, writer.finish().unwrap())
}

/// Runs a Python program with arguments; gives its output.
pub fn python(program: &str, arguments: &[&Path]) -> String {
    let output =
        Command::new("python3").arg("-c").arg(program).args(arguments).output().expect("python3 runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
