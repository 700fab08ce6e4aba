//! Measures the writer: unpacks the libraries of a vendor's wheel one by one into spool files, writes a new
//! wheel of them, and verifies it. Prints sizes and the CPU time of each part.
//!
//! `cargo run --release -p torchfl-wheel --example repack -- VENDOR.whl FOLDER [THREADS] [fast]`
#![expect(clippy::print_stdout, reason = "a program that prints figures")]

use std::path::Path;
use std::sync::Arc;

use torchfl_wheel::{
    Archive, BoxError, Compression, Entry, FileSource, Metadata, MetadataVersion, Options, WheelFile,
    WheelName, Writer, ZipWriter, verify,
};

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let vendor = arguments.next().ok_or("which wheel?")?;
    let folder = arguments.next().ok_or("which folder?")?;
    let threads = arguments.next().map_or(Ok(2), |text| text.parse())?;
    let compression = if arguments.next().is_some() { Compression::Fast } else { Compression::Normal };
    let folder = Path::new(&folder);
    let start = cpu()?;

    let archive = Arc::new(Archive::open(Path::new(&vendor))?);
    let name: WheelName = "torch_fl-2.13.0+cuda13.0-cp311-cp311-manylinux_2_28_x86_64.whl".parse()?;
    let mut entries = Vec::new();
    for member in archive.members() {
        let Some(library) = member.name.strip_prefix("torch/lib/").filter(|rest| rest.contains(".so")) else {
            continue;
        };
        let (archive, from, to) = (Arc::clone(&archive), member.name.clone(), folder.to_owned());
        let open =
            move || -> Result<FileSource, BoxError> { Ok(FileSource::new(archive.spool(&from, &to)?)?) };
        entries.push(Entry::lazy(format!("torch_fl/lib_cuda/{library}"), open).executable(true));
    }
    let metadata = Metadata::new(MetadataVersion::V2_4, "torch-fl", &name.version).render()?;
    entries.push(Entry::bytes(format!("{}/METADATA", name.dist_info()), metadata));
    let wheel = WheelFile::new(&name, "repack", false).render()?;
    entries.push(Entry::bytes(format!("{}/WHEEL", name.dist_info()), wheel));

    let options = Options { threads, compression, ..Options::default() };
    let mut writer = Box::new(ZipWriter::create(folder, &name, options)?);
    let path = writer.path().to_owned();
    let added = writer.add_all(entries)?;
    let packed = cpu()?;
    let written = writer.finish()?;
    let finished = cpu()?;
    let summary = verify(&path)?;
    let verified = cpu()?;
    for part in added {
        println!("{:>12} -> {:>12} {}", part.bytes, part.compressed, part.path);
    }
    println!("{} -> {} bytes, sha256 {}", summary.unpacked, written.bytes, written.sha256);
    println!(
        "unpack and compress {:.2}, self-check {:.2}, verify again {:.2} CPU s",
        packed - start,
        finished - packed,
        verified - finished
    );
    Ok(())
}

/// User and system time of this process so far, in seconds.
fn cpu() -> Result<f64, Box<dyn std::error::Error + Send + Sync>> {
    let stat = fs_err::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u32 =
        fields.get(11).ok_or("stat")?.parse::<u32>()? + fields.get(12).ok_or("stat")?.parse::<u32>()?;
    Ok(f64::from(ticks) / 100.0)
}
