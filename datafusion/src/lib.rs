//! Joins, windows and set operations over ZipfDB corpora through [Apache DataFusion](https://datafusion.apache.org).
//!
//! [`context`] makes a DataFusion context in which corpora are tables and ZipfDB's table functions are table functions;
//! [`register`] adds them to one that is there. What a corpus is asked for is written as a statement of ZipfDB's own dialect,
//! which EXPLAIN shows: columns, the conditions that mean the same in both, counts by word, file or n-gram, and limits. All
//! scans of a query see one snapshot of each corpus. `INSERT INTO files.corpus (file, content)` writes files.
//!
//! ```
//! # tokio::runtime::Runtime::new().expect("a runtime").block_on(async {
//! use zipfdb::{CorpusSettings, Database};
//!
//! let database = Database::in_memory()?;
//! let pets = database.create_corpus("pets", CorpusSettings::default())?;
//! pets.append_many(&[("a.txt", "the cat and the dog"), ("b.txt", "a dog")])?;
//! let context = zipfdb_datafusion::context(&database);
//! let sql = "SELECT word FROM pets WHERE file = 'a.txt' INTERSECT SELECT word FROM pets WHERE file = 'b.txt'";
//! let batches = context.sql(sql).await?.collect().await?;
//! assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).expect("an answer");
//! ```

#![forbid(unsafe_code)]

mod catalog;
mod dynamic;
mod filter;
mod functions;
mod insert;
mod memory;
mod merged_sort;
mod partitions;
mod pushdown;
mod relation;
mod resolve;
mod scan;
mod source;
mod statement;
mod table;
mod workers;

pub use catalog::{
    CATALOG, FILES_SCHEMA, SCHEMA, ZipfCatalog, context, context_with_workers, register,
};
pub use workers::{Imported, Worker, WorkerLimits, WorkerOptions, WorkerPool, import};
