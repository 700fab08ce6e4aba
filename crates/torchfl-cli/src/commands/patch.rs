use serde_json::json;
use torchfl_elf::{Edit, How, Tag};

use crate::Outcome;
use crate::args::Patch;
use crate::report::Failure;
use crate::screen::Screen;

pub(crate) fn run(args: Patch, screen: &Screen) -> Result<Outcome, Failure> {
    let edit = match (args.runpath, args.rpath) {
        (Some(value), _) => Edit::Set { tag: Tag::Runpath, value },
        (_, Some(value)) => Edit::Set { tag: Tag::Rpath, value },
        // clap asks for exactly one of the three.
        (None, None) => Edit::Remove,
    };
    let how = match &args.output {
        Some(out) => torchfl_elf::patch_to(&args.file, out, &edit)?,
        None => torchfl_elf::patch_in_place(&args.file, &edit)?,
    };
    let written = args.output.as_ref().unwrap_or(&args.file);
    screen.data(&json!({ "file": written.to_string_lossy(), "how": how }), |_| {
        let what = match how {
            How::Unchanged => "is so already",
            How::InPlace => "patched in place",
            How::Appended => "patched; the new path did not fit, so it is in a trailing segment",
        };
        format!("{}: {what}", written.display())
    })?;
    Ok(Outcome::Done)
}
