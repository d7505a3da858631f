//! `Session`: what a connection and its statements share.
//!
//! Invariant: with autocommit off, a transaction begins with the first statement and ends with `end`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use adbc_core::CancelHandle;
use adbc_core::error::Result;
use arrow_array::RecordBatchReader;
use zipfdb::InterruptHandle;

use super::status::failed;

/// Batches of an answer.
pub(crate) type Batches = Box<dyn RecordBatchReader + Send + 'static>;

/// A session, shared by a connection and its statements.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) database: zipfdb::Database,
    is_autocommit: Arc<AtomicBool>,
}

impl Session {
    /// A session whose statements are committed by themselves.
    pub(crate) fn new(database: zipfdb::Database) -> Session {
        let is_autocommit = Arc::new(AtomicBool::new(true));
        Session {
            database,
            is_autocommit,
        }
    }

    /// Whether statements are committed by themselves.
    pub(crate) fn is_autocommit(&self) -> bool {
        self.is_autocommit.load(Ordering::Acquire)
    }

    /// Sets whether statements are committed by themselves.
    pub(crate) fn set_autocommit(&self, is_on: bool) {
        self.is_autocommit.store(is_on, Ordering::Release);
    }

    /// Begins a transaction if statements are not committed by themselves and none has begun.
    pub(crate) fn begin(&self) -> Result<()> {
        if self.is_autocommit() || self.database.is_in_transaction() {
            return Ok(());
        }
        self.database.execute_batch("BEGIN").map_err(failed)
    }

    /// Ends the transaction, if one has begun, by COMMIT or ROLLBACK.
    pub(crate) fn end(&self, sql: &str) -> Result<()> {
        if self.database.is_in_transaction() {
            self.database.execute_batch(sql).map_err(failed)?;
        }
        Ok(())
    }
}

/// Ends what runs on a database.
pub(crate) struct Cancel(pub(crate) InterruptHandle);

impl CancelHandle for Cancel {
    fn try_cancel(&self) -> Result<()> {
        self.0.interrupt();
        Ok(())
    }
}
