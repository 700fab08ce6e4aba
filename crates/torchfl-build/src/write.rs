//! Carrying out a plan.

use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use torchfl_elf::{FileAt, Patched, ReadAt as _};
use torchfl_wheel::{Entry, Metadata, MetadataVersion, Source, WheelFile, WheelName, Writer};

use crate::libraries::Content;
use crate::plan::Plan;
use crate::{Error, Library, package};

/// The licence of our own files.
const OWN: &str = package::EXPRESSION;

/// What was written.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// File name of the wheel.
    pub wheel: String,
    /// sha256 of the wheel file, in hex; empty for back-ends that write no file.
    pub sha256: String,
    /// Size of the wheel file.
    pub bytes: u64,
    /// How long it took to write and check.
    pub seconds: f64,
    /// The bundle.
    pub libraries: Vec<Library>,
}

impl Plan {
    /// Bytes that will go into the writer, for a progress bar.
    pub fn bytes(&self) -> u64 {
        self.libraries.iter().chain(&self.parts.plugin).map(|l| l.bytes).sum()
    }

    /// The wheel's name, in parts.
    pub fn name(&self) -> &WheelName {
        &self.parts.name
    }

    /// Writes the wheel through `writer`.
    pub fn write(&self, mut writer: Box<dyn Writer>) -> Result<Summary, Error> {
        let start = Instant::now();
        writer.add_all(self.entries()?)?;
        let written = writer.finish()?;
        Ok(Summary {
            wheel: self.wheel.clone(),
            sha256: written.sha256.to_string(),
            bytes: written.bytes,
            seconds: (start.elapsed().as_secs_f64() * 1000.0).round() / 1000.0,
            libraries: self.libraries.clone(),
        })
    }

    /// All files but RECORD, which the writer writes; it also puts them in order.
    fn entries(&self) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        for (name, bytes) in package::FILES {
            entries.push(Entry::bytes(format!("torch_fl/{name}"), *bytes));
        }
        entries.push(Entry::bytes("torch_fl/build.json", self.build_json.render()?));
        for library in &self.libraries {
            let path = format!("torch_fl/{}/{}", self.build_json.bundle, library.name);
            entries.push(library.content.entry(path));
        }
        if let Some(plugin) = &self.parts.plugin {
            entries.push(plugin.content.entry(format!("torch_fl/lib/{}", plugin.name)));
        }
        if self.registers() {
            let (path, text) = package::AUTOLOAD;
            entries.push(Entry::bytes(path, text));
        }
        for path in &self.overlay {
            entries.push(self.copied(path.replacen("torch/", "torch_fl/overlay/", 1), path));
        }
        let info = self.parts.name.dist_info();
        let generator = concat!("torchfl ", env!("CARGO_PKG_VERSION"));
        entries.push(Entry::bytes(format!("{info}/METADATA"), self.metadata().render()?));
        entries.push(Entry::bytes(
            format!("{info}/WHEEL"),
            WheelFile::new(&self.parts.name, generator, false).render()?,
        ));
        if self.registers() {
            entries.push(Entry::bytes(format!("{info}/entry_points.txt"), package::ENTRY_POINTS));
        }
        entries.push(Entry::bytes(format!("{info}/licenses/LICENSE"), package::LICENSE));
        for licence in &self.parts.licence_files {
            entries.push(self.copied(format!("{info}/licenses/{}", licence.to), &licence.from));
        }
        Ok(entries)
    }

    /// Whether a plugin is inside that registers the device.
    fn registers(&self) -> bool {
        self.build_json.plugin.as_ref().is_some_and(|plugin| plugin.target.is_some())
    }

    /// A small file of the vendor's torch, read when its turn comes.
    fn copied(&self, to: String, from: &str) -> Entry {
        let (torch, from) = (self.parts.torch.clone(), from.to_owned());
        Entry::lazy(to, move || torch.read(&from))
    }

    pub(crate) fn metadata(&self) -> Metadata {
        let parts = &self.parts;
        let mut metadata = Metadata::new(MetadataVersion::V2_4, "torch_fl", &parts.name.version);
        metadata.push("Summary", format!("{}PyTorch's flagos device on {}", self.kind(), parts.title));
        metadata.push("Keywords", "pytorch,machine learning,accelerator");
        if let Some(range) = &parts.requires_python {
            metadata.push("Requires-Python", range);
        }
        // The expression speaks for the whole wheel: without the vendor's there is none.
        if let Some(vendor) = &parts.licence_expression {
            let both = if vendor == OWN { OWN.to_owned() } else { format!("{OWN} AND ({vendor})") };
            metadata.push("License-Expression", both);
        }
        metadata.push("License-File", "LICENSE");
        for licence in &parts.licence_files {
            metadata.push("License-File", &licence.to);
        }
        for line in &self.requires {
            metadata.push("Requires-Dist", line);
        }
        metadata.set_markdown(self.description());
        metadata.to_version(parts.metadata_version)
    }
}

impl Plan {
    /// What the summary begins with: the words of the notes.
    fn kind(&self) -> String {
        let word = |note: &String| note.split_once(": ").map(|(word, _)| format!("[{word}] "));
        self.build_json.notes.iter().filter_map(word).collect()
    }

    /// The description on an index: the notes, then what holds for every wheel.
    fn description(&self) -> String {
        let note = |note: &String| format!("**{note}.**\n\n");
        let notes: String = self.build_json.notes.iter().map(note).collect();
        format!("{notes}{}", package::README)
    }
}

impl Content {
    fn entry(&self, path: String) -> Entry {
        let edited = Edited(Patched::new(self.file.clone(), (*self.patch).clone()));
        Entry::lazy(path, move || Ok::<_, std::io::Error>(edited)).executable(true)
    }
}

/// The library with its edit applied, as the writer reads it: no patched copy exists on disk.
struct Edited(Patched<Arc<FileAt>>);

impl Source for Edited {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        self.0.read_exact_at(offset, buffer)
    }
}
