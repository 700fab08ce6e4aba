//! Reads ELF files and changes the search path (`DT_RPATH`, `DT_RUNPATH`) inside them. No policy.
//!
//! * [`facts`] reads what the dynamic loader would read: piecewise, never the whole file.
//! * [`symbols`] walks the dynamic symbols, with their versions, as a stream; [`symbol_table`] holds them all.
//! * [`section`] reads one section by its name.
//! * [`relocations`] tells which symbols the loader looks up, in its order.
//! * [`plan`] works out the smallest edit that gives a file one search path, and checks the edited view
//!   as the loader would see it; [`Patched`] is that view, without a copy.
//! * [`patch_in_place`] writes such an edit into the file, journaled; [`patch_to`] writes a new file.
//!
//! What is done to a file, step by step, is in `docs/internals/elf.md`. Sources: the System V gABI
//! (chapters 4 and 5), the GNU extensions in glibc's `elf/elf.h`, and glibc's `elf/dl-load.c` and
//! `elf/dl-version.c` for what the loader makes of them.

mod apply;
mod error;
mod facts;
mod front;
mod image;
mod journal;
mod machine;
mod mapped;
mod patch;
mod plan;
mod read_at;
mod relocations;
mod section;
mod symbols;
mod table;
mod tables;
mod tail;
mod verify;

pub use apply::{patch_in_place, patch_to};
pub use error::Error;
pub use facts::{Class, Endian, Facts, Kind, Segment, VersionName, VersionNeed, facts, is_elf};
pub use journal::{Recovered, recover};
pub use machine::Machine;
pub use mapped::{Mapped, mapped};
pub use patch::{Data, Edit, How, Patch, Patched, SearchPath, Tag, Write};
pub use plan::plan;
pub use read_at::{FileAt, ReadAt};
pub use relocations::{OwnTls, Relocation, Use, own_tls, relocations};
pub use section::section;
pub use symbols::{Bind, Symbol, SymbolVersion, Symbols, symbols};
pub use table::{Place, SymbolTable, TableSymbol, TableVersion, symbol_table};
