//! The files of a database on disk, and their durability.
//!
//! Everything a database directory holds is written and read here: segment files, the record log, the catalog and the lock. The
//! invariant: bytes that come from disk are verified before they are trusted, so a damaged file is an [`Error`], never
//! a panic and never a wrong answer. This crate knows no query, no SQL and no GPU.

#![deny(unsafe_code)]

mod backend;
mod catalog;
mod error;
mod fingerprint;
mod grammar;
mod held;
mod index_file;
mod indexes;
mod lock;
mod log;
mod manifest;
mod metadata;
mod ownership;
mod path_text;
mod poison;
mod replace;
mod reserve;
mod segment;
mod settings;
mod shown;
mod store;
mod views;

pub use backend::{
    Backend, BackendFile, BackendReader, Bytes, FileBackend, MemoryBackend, ReadOnlyBackend,
};
pub use catalog::CorpusRecord;
pub use error::{Error, IoReason, Result};
pub use grammar::Grammar;
pub use held::HeldDirectory;
pub use index_file::{IndexHeader, IndexReader, IndexWriter};
pub use indexes::{IndexKind, IndexRecord};
pub use log::{
    Durability, Edit, Edits, LOG_BUFFER_SIZE, LogPosition, LogRecord, RECORD_SIZE_MAX, SetValues,
    decode_values, encode_values, read_log,
};
pub use metadata::{
    METADATA_COLUMNS_MAX, METADATA_TEXT_MAX, MetadataColumn, MetadataKind, MetadataSchema,
    MetadataValue,
};
pub use path_text::{PathText, escaped, restored};
pub use segment::{
    Bodies, ColumnValues, Dictionary, EncodedGrammar, FileEntry, Section, SegmentColumn,
    SegmentForm, SegmentHeader, SegmentInfo, SegmentParts, SegmentReader, SegmentWriter, TextParts,
    TokenRun, WordBlocks, symbol_coder,
};
pub use settings::{CorpusSettings, IngestMode, Tokenizer};
pub use store::{
    Followed, ImageFile, LogCheck, OpenOptions, Publication, RepairTarget, Salvage, SalvagedCorpus,
    Segment, Store,
};
pub use views::ViewRecord;
