//! The poison flag: a change failed half way, with the reason.
//!
//! Invariant: the first failure stays; what comes later follows from it.

use std::path::Path;
use std::sync::OnceLock;

use crate::{Error, Result};

/// Shared by whatever writes one database.
#[derive(Debug, Default)]
pub(crate) struct Poison {
    reason: OnceLock<String>,
}

impl Poison {
    /// Remembers a failure.
    pub(crate) fn set(&self, failure: &Error) {
        let reason = failure.to_string();
        // What helped then is not what helps now.
        let reason = reason.split("; hint: ").next().unwrap_or(&reason);
        // Only the first is kept.
        let _ = self.reason.set(reason.to_owned());
    }

    /// Whether something failed.
    pub(crate) fn is_set(&self) -> bool {
        self.reason.get().is_some()
    }

    /// The error of a write to the database after the failure; none if nothing failed.
    pub(crate) fn error(&self, database: &Path) -> Option<Error> {
        self.reason.get().map(|reason| Error::Poisoned {
            path: database.to_path_buf(),
            reason: reason.clone(),
        })
    }

    /// # Errors
    /// If something failed.
    pub(crate) fn check(&self, database: &Path) -> Result<()> {
        self.error(database).map_or(Ok(()), Err)
    }
}
