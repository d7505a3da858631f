//! Warnings about an open database.
//!
//! Invariant: a warning is traced once, however often the directory is opened again or the same fault is found again.

use std::path::Path;

use parking_lot::Mutex;
use zipfdb_storage::PathText;

/// Repairs and oddities, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    /// Records and traces a warning about the database in a directory, unless it was recorded before.
    pub(crate) fn warn(&self, database: &Path, warning: String) {
        let mut warnings = self.0.lock();
        if warnings.contains(&warning) {
            return;
        }
        let path = PathText(database).to_string();
        // A warning about a file of the database begins with the path of the directory.
        if warning.starts_with(&path) {
            tracing::warn!("{warning}")
        } else {
            tracing::warn!("{path}: {warning}")
        }
        warnings.push(warning);
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}
