//! An embeddable database for text that stays compressed while it is queried.
//!
//! Text is stored as a grammar over its words, and SQL is answered on that
//! grammar. Start with [`Database`]; a [`Corpus`] is a named collection of files
//! in it; every read goes through a [`Snapshot`] of one.
//!
//! ```
//! use zipfdb::ingest::CopyOptions;
//! use zipfdb::{CorpusSettings, Database};
//!
//! # let folder = tempfile::tempdir().expect("a temporary directory");
//! # std::fs::write(folder.path().join("a.txt"), "the cat and the dog").expect("a file");
//! let db = Database::open(folder.path().join("pets.zdb"))?;
//! let corpus = db.create_corpus("pets", CorpusSettings::default())?;
//! corpus.copy_from(folder.path().join("a.txt"), &CopyOptions::default())?;
//! for row in db.query("SELECT word, COUNT(*) AS n FROM pets GROUP BY word ORDER BY n DESC, word", ())? {
//!     println!("{:?}", row?.values());
//! }
//! # Ok::<(), zipfdb::Error>(())
//! ```
//!
//! What is needed less often is in modules: imports in [`ingest`], batches of columns in [`batch`], answers of snapshots in
//! [`answers`], text of SQL and settings in [`sql`], rows as text in [`output`].
//!
//! `docs/RUST.md` shows the library by examples, `docs/SQL.md` describes the SQL, `ARCHITECTURE.md` the implementation.
#![forbid(unsafe_code)]

mod answer;
mod api;
pub mod batch;
mod bisect;
mod drafts;
mod engine;
mod error;
mod execute;
mod expression;
#[doc(hidden)]
pub mod fuzzing;
mod handles;
#[cfg(test)]
mod interleavings;
mod maintain;
mod merge;
pub mod mixed;
mod new_files;
mod notice;
pub mod output;
mod overlay;
mod packed_files;
mod paths;
mod runtime;
mod segment;
mod tokenize;

pub use answer::FileSummary;
pub use api::database::{Database, DatabaseOptions};
pub use api::params::Params;
pub use api::reader::Reader;
pub use api::statement::Statement;
pub use api::transaction::Transaction;
pub use error::{Error, Result};
pub use handles::corpus::Corpus;
pub use handles::row::{Column, FromValue, Row, RowIndex};
pub use handles::rows::Rows;
pub use handles::snapshot::Snapshot;
pub use notice::Notice;
pub use runtime::interrupt::InterruptHandle;
pub use zipfdb_sql::setting::Durability;
pub use zipfdb_sql::{Value, ValueKind};
pub use zipfdb_storage::{CorpusSettings, IngestMode, Tokenizer};

/// Answers of a [`Snapshot`] about all words, n-grams or files at once.
pub mod answers {
    pub use crate::answer::{FileCounts, FileList, Ngram, NgramCounts, TermVectors, WordCounts};
}

/// GPUs: their errors. `SET device` chooses among them, `devices()` in SQL lists them.
pub mod gpu {
    pub use zipfdb_kernels::gpu::GpuError;
}

/// Imports: how files become part of a corpus, and what an import reports.
pub mod ingest {
    pub use crate::execute::CopyOptions;
    pub use crate::maintain::ingest::{Report, Times};
    pub use crate::paths::encodings::TextEncoding;
    pub use crate::paths::sources::{OnConflict, OnError, Unreadable};
    pub use crate::runtime::progress::{NoProgress, Progress};
}

/// For the crates of this workspace and their tests: no part of the interface.
#[doc(hidden)]
pub mod internal {
    pub use crate::maintain::device_coder::DeviceCoder;
    pub use zipfdb_sql::shorten;
}

/// Memory that the program and the database share.
pub mod memory {
    pub use crate::handles::memory_share::MemoryShare;
    pub use zipfdb_kernels::give_back_large_blocks;
}

/// Files in packed blocks, which unpack in parallel; no database is involved.
pub mod pack {
    pub use crate::packed_files::{PackedSizes, pack_file, unpack_file};
    pub use zipfdb_kernels::gompresso::{Elimination, PackCodec, PackOptions, PackedError};
}

/// A new database of what can be read of a damaged one.
pub mod repair {
    pub use crate::api::repair::{RepairReport, repair};
}

/// Text of SQL: statements cut out of a longer text, their errors, and the settings of SET.
pub mod sql {
    pub use zipfdb_sql::setting::{Device, Setting, Strategy};
    pub use zipfdb_sql::{Error as SqlError, Pending, Position, StatementStream, StatementText};
}

/// What is stored: segments, their parts and checks, and the errors of the files.
pub mod storage {
    pub use crate::execute::SegmentCheck;
    pub use crate::handles::snapshot::Partition;
    pub use crate::maintain::recompress::Recompression;
    pub use zipfdb_storage::{
        Error as StorageError, IoReason, PathText, Section, SegmentForm, SegmentInfo,
    };
}
