//! An embeddable database for text that stays compressed while it is queried.
//!
//! Text is stored as a grammar over its words, and SQL is answered on that
//! grammar. Start with [`Database`]; a [`Corpus`] is a named collection of files
//! in it; every read goes through a [`Snapshot`] of one.
//!
//! ```
//! use zipfdb::{CopyOptions, CorpusSettings, Database};
//!
//! # let folder = tempfile::tempdir().expect("a temporary directory");
//! # std::fs::write(folder.path().join("a.txt"), "the cat and the dog").expect("a file");
//! let db = Database::open(folder.path().join("pets.zdb"))?;
//! let corpus = db.create_corpus("pets", CorpusSettings::default())?;
//! corpus.copy_from(folder.path().join("a.txt"), &CopyOptions::default())?;
//! for row in db.query("SELECT word, COUNT(*) AS n FROM pets GROUP BY word ORDER BY n DESC, word")? {
//!     println!("{:?}", row?.values());
//! }
//! # Ok::<(), zipfdb::Error>(())
//! ```
//!
//! `docs/SQL.md` describes the SQL, `ARCHITECTURE.md` the implementation.
#![forbid(unsafe_code)]

mod answer;
mod api;
mod batch;
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
mod mixed;
mod new_files;
mod notice;
pub mod output;
mod overlay;
mod packed_files;
mod paths;
mod runtime;
mod segment;
mod tokenize;

pub use answer::{FileCounts, FileList, FileSummary, Ngram, NgramCounts, TermVectors, WordCounts};
pub use api::database::{Database, DatabaseOptions};
pub use api::repair::{RepairReport, repair};
pub use api::statement::Statement;
pub use batch::{Batch, BatchColumn, TextColumn, TextDictionary, WeakTextDictionary};
pub use error::{Error, Result};
pub use execute::{CopyOptions, SegmentCheck};
pub use handles::corpus::Corpus;
pub use handles::memory_share::MemoryShare;
pub use handles::rows::{Column, Row, Rows};
pub use handles::snapshot::{Partition, Snapshot};
pub use handles::transaction::Transaction;
#[doc(hidden)]
pub use maintain::device_coder::DeviceCoder;
pub use maintain::ingest::{Report, Times};
pub use maintain::recompress::Recompression;
pub use mixed::{Answer, Operation};
pub use notice::Notice;
pub use packed_files::{PackedSizes, pack_file, unpack_file};
pub use paths::encodings::TextEncoding;
pub use paths::sources::{OnConflict, OnError, Unreadable};
pub use runtime::interrupt::InterruptHandle;
pub use runtime::progress::{NoProgress, Progress};
pub use zipfdb_kernels::give_back_large_blocks;
pub use zipfdb_kernels::gompresso::{Elimination, PackCodec, PackOptions, PackedError};
#[doc(hidden)]
pub use zipfdb_sql::shorten;
pub use zipfdb_sql::{Error as SqlError, Pending, Position, StatementStream, StatementText, Value};
pub use zipfdb_storage::{
    CorpusSettings, Durability, Error as StorageError, IngestMode, IoReason, PathText, Section,
    SegmentForm, SegmentInfo, Tokenizer,
};
