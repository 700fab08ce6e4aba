//! The wheel format (Python's "binary distribution format", PEP 427): names and tags, `METADATA`, `WHEEL`,
//! `RECORD`, and the zip archive, which is written so that the same files give the same bytes.
//!
//! * [`WheelName`], [`Metadata`], [`WheelFile`], [`Record`]: the formats inside, parsed and rendered.
//! * [`Writer`]: takes [`Entry`]s; [`ZipWriter`], [`DirectoryWriter`] and [`ListWriter`] are the places.
//! * [`Archive`]: reads anybody's wheel, member by member, in constant memory.
//! * [`verify()`]: a strict second reader; every wheel passes it before it appears.

mod archive;
mod deflate;
mod digest;
mod error;
mod format;
mod headers;
mod index;
mod metadata;
mod name;
mod path;
mod probe;
mod record;
mod source;
mod verify;
mod wheel_file;
mod writer;

pub use archive::{Archive, MemberReader};
pub use digest::Sha256;
pub use error::Error;
pub use index::Member;
pub use metadata::{Link, Metadata, MetadataVersion, Requirement, parse_requirement};
pub use name::{BuildTag, Tag, WheelName, escape_name, is_valid_name, normalize_name};
pub use pep440_rs::Version;
pub use record::{Record, RecordHash, RecordRow};
pub use source::{BoxError, Entry, FileSource, Source};
pub use verify::{Summary, verify, verify_source};
pub use wheel_file::WheelFile;
pub use writer::{
    Added, Compression, DirectoryWriter, ListWriter, Options, Progress, Writer, Written, ZipWriter,
};
