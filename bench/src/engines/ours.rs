//! ZipfDB itself.

use super::{Account, Job};
use crate::Result;
use crate::corpus::Corpus;

/// How it is run, for the table.
pub fn configuration(threads: usize) -> String {
    format!(
        "ZipfDB {}: default settings, {threads} threads.",
        env!("CARGO_PKG_VERSION")
    )
}

/// Fills a new database.
pub fn ingest(_job: &Job, _corpus: &Corpus) -> Result<Account> {
    Err("the database has no COPY yet".into())
}
