//! Warnings about an open database.
//!
//! Invariant: a warning is traced once, however often the directory is opened anew or the same is found again.

use std::path::Path;

use parking_lot::Mutex;
use zipfdb_storage::PathText;

/// What was repaired or looked wrong, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    /// Warns of something about the database in a directory, unless that has been done.
    pub(crate) fn warn(&self, database: &Path, warning: String) {
        let mut warnings = self.0.lock();
        if warnings.contains(&warning) {
            return;
        }
        let path = PathText(database).to_string();
        // One about a file of the database begins with its path.
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
