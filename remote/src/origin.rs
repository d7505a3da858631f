//! The note in a local database that says which version of which remote one it is.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::error::io_error;

/// The name of the file in the directory of the database.
const NAME: &str = "REMOTE";

/// Where a local database was pulled from or pushed to last, and the version whose content it had then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) url: String,
    pub(crate) version: u64,
}

impl Origin {
    pub(crate) fn new(url: &str, version: u64) -> Origin {
        Origin {
            url: url.to_owned(),
            version,
        }
    }

    /// That of the database in a directory; none if it has none. A damaged one is none: it says only what a push expects.
    pub(crate) fn read(database: &Path) -> Result<Option<Origin>> {
        let path = database.join(NAME);
        match fs::read(&path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error(&path, "read")(error)),
        }
    }

    pub(crate) fn write(&self, database: &Path) -> Result<()> {
        let path = database.join(NAME);
        let temporary = database.join(format!("{NAME}.tmp"));
        let bytes = serde_json::to_vec(self).expect("numbers and texts are JSON");
        let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, &path));
        written.map_err(io_error(
            &path,
            "note that it is a version that was published",
        ))
    }
}
