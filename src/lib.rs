//! An embeddable database for text that stays compressed while it is queried.
//!
//! Text is stored as a grammar over its words, and SQL is answered on that grammar. Start with [`Database`]; a [`Corpus`] is a
//! named collection of files in it; every read goes through a [`Snapshot`] of one.
//!
//! # A first program
//!
//! Open a database, import a folder, ask, and edit:
//!
//! ```
//! use zipfdb::ingest::CopyOptions;
//! use zipfdb::{CorpusSettings, Database, Result};
//!
//! fn main() -> Result<()> {
//! #   let folder = tempfile::tempdir().expect("a temporary directory");
//! #   let (texts, path) = (folder.path().join("texts"), folder.path().join("pets.zdb"));
//! #   std::fs::create_dir(&texts).expect("a directory");
//! #   std::fs::write(texts.join("a.txt"), "the cat and the dog").expect("a file");
//!     // A directory, made if there is none.
//!     let db = Database::open(path)?;
//!     let pets = db.create_corpus("pets", CorpusSettings::default())?;
//!     let report = pets.copy_from(texts, &CopyOptions::default())?;
//!     assert_eq!((report.files, report.words), (1, 5));
//!
//!     // A row of a corpus is a word. Rows are made as they are asked for, and each can fail.
//!     let sql = "SELECT word, COUNT(*) AS n FROM pets WHERE length >= ? GROUP BY word ORDER BY n DESC, word";
//!     for row in db.query(sql, [2])? {
//!         let row = row?;
//!         let (word, n): (String, u64) = (row.get("word")?, row.get("n")?);
//!         println!("{word}: {n}");
//!     }
//!
//!     // Edits happen together or not at all: without `commit` nothing has changed.
//!     let mut edits = db.begin()?;
//!     edits.append("pets", "b.txt", "a black cat")?;
//!     edits.execute("DELETE FROM pets WHERE file = ?", ["a.txt"])?;
//!     edits.commit()?;
//!
//!     let cats: u64 = db.query_row("SELECT COUNT(*) FROM pets WHERE word = ?", ["cat"], |row| row.get(0))?;
//!     assert_eq!(cats, 1);
//!     // The same questions without SQL.
//!     assert_eq!(pets.snapshot()?.search("cat")?, [("b.txt".to_owned(), vec![8])]);
//!     Ok(())
//! }
//! ```
//!
//! # Where to go
//!
//! | for | see |
//! |---|---|
//! | statements and their values | [`Database::query`], [`Database::execute`], [`Statement`], [`params!`], [`Row::get`] |
//! | edits | [`Transaction`], [`Corpus::append`] |
//! | questions without SQL | [`Snapshot`], [`answers`] |
//! | files by rank, spans, excerpts | [`query`] |
//! | one state for many statements and threads | [`Reader`] |
//! | imports | [`ingest`] |
//! | many questions and edits at once | [`mixed`], [`Statement::query_many`] |
//! | columns in place of rows | [`Rows::next_batch`], [`batch`] |
//! | rows as CSV, TSV and JSON | [`output`] |
//! | settings, GPUs, memory | [`sql`], [`gpu`], [`memory`] |
//! | ending work | [`Database::interrupt_handle`], [`InterruptHandle`] |
//! | what is stored, checks and repair | [`storage`], [`repair`](mod@repair) |
//! | files in packed blocks, without a database | [`pack`] |
//!
//! The package has more: [docs/RUST.md][rust], the library by examples, [docs/SQL.md][sql], the dialect, [examples][examples] and
//! [ARCHITECTURE.md][architecture].
//!
//! [rust]: https://docs.rs/crate/zipfdb/latest/source/docs/RUST.md
//! [sql]: https://docs.rs/crate/zipfdb/latest/source/docs/SQL.md
//! [examples]: https://docs.rs/crate/zipfdb/latest/source/examples/
//! [architecture]: https://docs.rs/crate/zipfdb/latest/source/ARCHITECTURE.md
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
mod search;
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
pub use handles::record::Record;
pub use handles::row::{Column, FromValue, Row, RowIndex};
pub use handles::rows::Rows;
pub use handles::snapshot::Snapshot;
pub use notice::Notice;
pub use runtime::interrupt::InterruptHandle;
pub use zipfdb_sql::setting::Durability;
pub use zipfdb_sql::{Value, ValueKind};
pub use zipfdb_storage::{
    CorpusSettings, IngestMode, MetadataColumn, MetadataKind, MetadataSchema, Tokenizer,
};

/// Answers of a [`Snapshot`] about all words, n-grams or files at once.
pub mod answers {
    pub use crate::answer::{
        FileCounts, FileList, LongestMatch, NextWord, NextWords, Ngram, NgramCounts,
        RepeatedPassage, RepeatedPassages, TermVectors, TextOverlap, WordCounts,
    };
}

/// GPUs: their errors.
///
/// GPUs are found and used by themselves. [`sql::Setting::Device`] chooses among them, or none; `devices()` in SQL lists them. On a
/// machine without one the CPU gives the same answers.
///
/// ```
/// use zipfdb::Database;
/// use zipfdb::sql::{Device, Setting};
///
/// let db = Database::in_memory()?;
/// for row in db.query("SELECT device, model FROM devices()", ())? {
///     println!("{:?}", row?);
/// }
/// db.set(Setting::Device(Device::Cpu))?;
/// # Ok::<(), zipfdb::Error>(())
/// ```
pub mod gpu {
    pub use zipfdb_kernels::gpu::GpuError;
}

/// Imports: how files become part of a corpus, and what an import reports.
///
/// [`Corpus::copy_from`] takes a file, a folder with all files below it, or a glob. All files are added in one step or none is,
/// unless [`OnError::Skip`](ingest::OnError::Skip) leaves out those that cannot be read.
///
/// ```
/// use zipfdb::ingest::{CopyOptions, OnConflict, OnError};
/// use zipfdb::{CorpusSettings, Database};
///
/// # let folder = tempfile::tempdir().expect("a temporary directory");
/// # let texts = folder.path();
/// # std::fs::write(texts.join("a.txt"), "the cat").expect("a file");
/// let db = Database::in_memory()?;
/// let pets = db.create_corpus("pets", CorpusSettings::default())?;
/// let options = CopyOptions {
///     on_error: OnError::Skip,
///     on_conflict: OnConflict::Replace,
///     ..CopyOptions::default()
/// };
/// let report = pets.copy_from(texts, &options)?;
/// println!("{} files, {} words", report.files, report.words);
/// for skipped in &report.unreadable {
///     println!("left out: {}", skipped.reason);
/// }
/// assert_eq!(pets.files()?.len(), 1);
/// # Ok::<(), zipfdb::Error>(())
/// ```
pub mod ingest {
    pub use crate::execute::CopyOptions;
    pub use crate::maintain::ingest::{Report, Times};
    pub use crate::paths::encodings::TextEncoding;
    pub use crate::paths::sources::{OnConflict, OnError, Unreadable};
    pub use crate::runtime::progress::{NoProgress, Progress};
    pub use zipfdb_sql::plan::RecordOptions;
}

/// For the crates of this workspace and their tests: no part of the interface.
#[doc(hidden)]
pub mod internal {
    pub use crate::maintain::device_coder::DeviceCoder;
    pub use zipfdb_sql::shorten;
}

/// Memory that the program and the database share: [`Database::memory_share`] charges the program's own to `memory_limit`.
pub mod memory {
    pub use crate::handles::memory_share::MemoryShare;
    pub use zipfdb_kernels::give_back_large_blocks;
}

/// Files in packed blocks, which unpack in parallel; no database is involved.
///
/// ```
/// use zipfdb::InterruptHandle;
/// use zipfdb::ingest::NoProgress;
/// use zipfdb::pack::{PackCodec, PackOptions, pack_file, unpack_file};
///
/// # let folder = tempfile::tempdir().expect("a temporary directory");
/// # let [text, packed, copy] = ["a.txt", "a.zpk", "copy.txt"].map(|name| folder.path().join(name));
/// # std::fs::write(&text, "the cat and the dog ".repeat(100)).expect("a file");
/// let (options, interrupt) = (PackOptions::new(PackCodec::Byte), InterruptHandle::new());
/// let sizes = pack_file(&text, &packed, &options, &NoProgress, &interrupt)?;
/// assert!(sizes.packed < sizes.text);
/// unpack_file(&packed, &copy, &NoProgress, &interrupt)?;
/// # assert_eq!(std::fs::read(copy).expect("a file"), std::fs::read(text).expect("a file"));
/// # Ok::<(), zipfdb::Error>(())
/// ```
pub mod pack {
    pub use crate::packed_files::{PackedSizes, pack_file, unpack_file};
    pub use zipfdb_kernels::gompresso::{Elimination, PackCodec, PackOptions, PackedError};
}

/// Queries in the languages of search: [`Snapshot::ranked`] takes a [`Query`](query::Query) for files or units, best first,
/// [`Snapshot::spans`] one in CQL for spans.
pub mod query {
    pub use crate::handles::queries::{
        Query, QueryUnit, RankedMatch, RankedMatches, SpanContext, SpanMatch, SpanMatches,
    };
    pub use crate::search::excerpt::ExcerptStyle;
}

/// A new database of what can be read of a damaged one.
pub mod repair {
    pub use crate::api::repair::{RepairReport, repair};
}

/// Text of SQL: statements cut out of a longer text, their errors, and the settings of SET.
///
/// ```
/// use zipfdb::sql::{Setting, StatementStream};
/// use zipfdb::{Database, Error};
///
/// let db = Database::in_memory()?;
/// db.set(Setting::StatementTimeout(1000))?;
/// let mut script = StatementStream::new();
/// script.feed("CREATE CORPUS a; SELECT 1 AS one;");
/// while let Some(statement) = script.next_statement() {
///     db.prepare(&statement?.text)?.execute(())?;
/// }
/// // An error of SQL has its place in the text.
/// let Err(Error::Sql(error)) = db.query("SELECT\n  wrod FROM a", ()) else { panic!("no such column") };
/// let place = error.position();
/// assert_eq!((place.line, place.column), (2, 3));
/// # Ok::<(), zipfdb::Error>(())
/// ```
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
