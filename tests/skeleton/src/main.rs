//! `torchfl-skeleton`: the generator as a program, for `make demo` and for work by hand.

use std::error::Error as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use torchfl_manifest::Manifest;
use torchfl_skeleton::{Error, Generated, Skeleton, Target};

/// Generate the skeleton of a vendor: miniature torch wheels, SDK and runtime wheels.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// The name of an embedded manifest, such as sim
    #[arg(required_unless_present = "manifest")]
    vendor: Option<String>,
    /// A manifest's file, instead of an embedded one
    #[arg(long, value_name = "FILE", conflicts_with = "vendor")]
    manifest: Option<PathBuf>,
    /// The output folder
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// The interpreter that the wheels are for
    #[arg(long, value_name = "PY", default_value = "python3")]
    python: PathBuf,
    /// Instead of an interpreter at hand, the tag of any, such as cp312: to build and audit with, not to import
    #[arg(long, value_name = "TAG", conflicts_with = "python")]
    tag: Option<String>,
    /// The machine, with --tag; aarch64 takes a cross compiler, aarch64-linux-gnu-gcc [default: this machine's]
    #[arg(long, value_name = "ARCH", requires = "tag")]
    arch: Option<String>,
    /// Print the paths as JSON
    #[arg(long)]
    json: bool,
}

fn run(args: &Args) -> Result<Generated, Error> {
    let manifest = match (&args.manifest, &args.vendor) {
        (Some(path), _) => Manifest::parse(&fs_err::read_to_string(path)?, &path.display().to_string())?,
        (None, vendor) => torchfl_manifest::find(vendor.as_deref().unwrap_or_default())?,
    };
    let target = match &args.tag {
        Some(tag) => Target::elsewhere(tag, args.arch.as_deref())?,
        None => Target::here(&args.python)?,
    };
    Skeleton::generate_for(&manifest, &args.out, &target)
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program's edge")]
fn main() -> ExitCode {
    let args = Args::parse();
    let generated = match run(&args) {
        Ok(generated) => generated,
        Err(error) => {
            eprintln!("error[{}]: {error}", error.code());
            let mut cause = error.source();
            while let Some(inner) = cause {
                eprintln!("  caused by: {inner}");
                cause = inner.source();
            }
            if let Some(hint) = error.hint() {
                eprintln!("hint: {hint}");
            }
            return ExitCode::FAILURE;
        }
    };
    if args.json {
        println!("{:#}", serde_json::json!(generated));
        return ExitCode::SUCCESS;
    }
    println!("stock torch: {}", generated.stock_wheel.display());
    let optional = [
        ("vendor torch", &generated.vendor_wheel),
        ("SDK root", &generated.sdk_root),
        ("driver", &generated.driver_dir),
    ];
    for (what, path) in optional {
        if let Some(path) = path {
            println!("{what}: {}", path.display());
        }
    }
    for path in &generated.provided_wheels {
        println!("provided: {}", path.display());
    }
    ExitCode::SUCCESS
}
