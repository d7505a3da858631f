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
//! What SQL there is: `docs/SQL.md`. How it works: `ARCHITECTURE.md`.
#![forbid(unsafe_code)]

mod background;
mod bisect;
mod core;
mod corpus;
mod database;
mod edits;
mod error;
mod execute;
mod expression;
mod failures;
#[doc(hidden)]
pub mod fuzzing;
mod ingest;
#[cfg(test)]
mod interleavings;
mod mixed;
mod overlay;
mod paths;
mod recompress;
mod renamed;
mod repair;
mod rows;
mod runtime;
mod session;
mod shared;
mod snapshot;
mod sources;
mod statement;
mod strategy;
mod streams;
mod tokenize;
mod transaction;

pub use corpus::Corpus;
pub use database::{Database, DatabaseOptions};
pub use error::{Error, Result};
pub use execute::{CopyOptions, SegmentCheck};
pub use ingest::{Report, Times};
pub use mixed::{Answer, Operation};
pub use recompress::Recompression;
pub use repair::{RepairReport, repair};
pub use rows::{Column, Row, Rows};
pub use runtime::interrupt::InterruptHandle;
pub use runtime::progress::{NoProgress, Progress};
pub use snapshot::{
    FileCounts, FileSummary, Ngram, NgramCounts, Snapshot, TermVectors, WordCounts,
};
pub use sources::{OnError, Unreadable};
pub use statement::Statement;
pub use transaction::Transaction;
pub use zipfdb_sql::{Error as SqlError, Pending, Position, StatementStream, StatementText, Value};
pub use zipfdb_storage::{
    CorpusSettings, Durability, Error as StorageError, Section, SegmentInfo, Tokenizer,
};
