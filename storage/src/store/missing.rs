//! Paths at which there is no database, and directories that hold something else.
//!
//! Invariant: nothing is written here. A directory that holds other files is never taken for a database, or for a place for one.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::backend::{Backend, ReadOnlyBackend};
use crate::catalog::Corpora;
use crate::error::io_error;
use crate::lock::LOCK_NAME;
use crate::log::Scan;
use crate::manifest::MANIFEST_NAME;
use crate::reserve::RESERVE_NAME;
use crate::store::directory::{SEGMENTS_NAME, SegmentDirectory, without_segments};
use crate::store::location::Location;
use crate::store::open::parent;
use crate::store::registry::CATALOG_NAME;
use crate::store::shared::Shared;
use crate::{Error, Result};

/// Files of a directory before it is a database.
const FIRST: [&str; 2] = [LOCK_NAME, RESERVE_NAME];

/// Files that only a database has.
const OURS: [&str; 2] = [CATALOG_NAME, MANIFEST_NAME];

/// Whether there is no database at a path: nothing, or a directory that holds at most what a creation begins with.
///
/// # Errors
/// [`Error::NotADatabase`] for a directory that holds something else, [`Error::Corrupt`] for a database that lacks its directory of
/// segments, [`Error::Io`], also if there could be no directory at the path.
pub(super) fn is_missing(backend: &dyn Backend, path: &Path) -> Result<bool> {
    if !backend.exists(path).map_err(io_error(path, "open"))? {
        let above = parent(path);
        let has_place =
            !backend.is_file_system() || backend.exists(above).map_err(io_error(above, "open"))?;
        return if has_place {
            Ok(true)
        } else {
            Err(io_error(above, "open")(io::ErrorKind::NotFound.into()))
        };
    }
    let segments = path.join(SEGMENTS_NAME);
    if backend
        .exists(&segments)
        .map_err(io_error(&segments, "open"))?
    {
        return Ok(false);
    }
    let names = backend.list(path).map_err(io_error(path, "open"))?;
    let has = |of: &[&str]| names.iter().any(|name| of.iter().any(|own| name == own));
    let is_first = |name| FIRST.iter().any(|first| name == first);
    if names.iter().all(is_first) {
        Ok(true)
    } else if has(&OURS) {
        Err(without_segments(path))
    } else {
        Err(Error::NotADatabase {
            path: path.to_path_buf(),
        })
    }
}

/// What is shown of a database that may be created and is not there: one without corpora, for reading.
pub(super) fn missing(backend: Arc<dyn Backend>, path: &Path) -> Shared {
    let location = Location {
        path: path.to_path_buf(),
        backend: Arc::clone(&backend),
        outer: Arc::clone(&backend),
        held: None,
    };
    let shared = Shared::new(
        location,
        Arc::new(ReadOnlyBackend::new(backend)),
        SegmentDirectory::new(path.join(SEGMENTS_NAME)),
        Corpora::new(),
        Scan::default(),
        Box::new(|_| Ok(())),
    );
    Shared {
        read_only: true,
        missing: true,
        ..shared
    }
}
