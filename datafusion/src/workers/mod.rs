//! Many machines: workers that answer statements on some segments of a database, and the coordinator's view of them.
//!
//! A database lies on an object store. The coordinator plans a query as ever; a scan that can be answered segment by segment
//! becomes one task for each worker, a statement of ZipfDB's own dialect with the numbers of the segments that it is about.
//! Workers send Arrow batches through Arrow Flight, and DataFusion merges them. A worker holds no state but its cache, so
//! any of them can do any task.
//!
//! An import is shared out too: each worker makes segments of some of the files and stores them, and the coordinator publishes all
//! segments as one version.
//!
//! Invariant: a query's answer is exact or an error. A task whose worker fails or is silent is done by another one, from
//! behind the rows that have been read, which are compared.

mod assignment;
mod attempt;
mod import;
mod pool;
mod service;
mod task;

pub use import::{Imported, import};
pub use pool::{WorkerOptions, WorkerPool};
pub use service::{Worker, WorkerLimits};

pub(crate) use attempt::run;
pub(crate) use pool::WorkerSegments;
pub(crate) use task::Task;

/// Bytes of a message at most: rows with contents of files are as large as these.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// The metadata that holds the shared token.
const AUTHORIZATION: &str = "authorization";
