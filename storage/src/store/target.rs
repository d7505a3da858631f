//! The directory that a repair builds a new database in.
//!
//! Invariant: the file `REPAIR` is durable before anything else is in the directory, and goes, durably, when the new
//! database is complete. As long as it is there only the repair opens the database, and starts over. All of it happens in the
//! directory that was there when the repair began.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use crate::Result;
use crate::backend::{Backend, FileBackend};
use crate::error::io_error;
use crate::lock::{DirectoryLock, LOCK_NAME};
use crate::log::LOG_NAME;
use crate::manifest::MANIFEST_NAME;
use crate::reserve::RESERVE_NAME;
use crate::store::Store;
use crate::store::directory::SEGMENTS_NAME;
use crate::store::location::Location;
use crate::store::open::{self, parent, sync_directory};
use crate::store::registry::CATALOG_NAME;
use crate::store::unfinished::REPAIR_NAME;

/// A directory that a repair builds a new database in.
#[derive(Debug)]
pub struct RepairTarget {
    location: Location,
    /// Whether it was there before, with nothing in it.
    was_empty: bool,
}

/// What may stand where a repair is to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    EmptyDirectory,
    /// What a repair has left that did not finish.
    Unfinished,
    Other,
}

impl RepairTarget {
    /// Whether a repair can write to `path`: if nothing is there, an empty directory, or what a repair has left that
    /// did not finish.
    ///
    /// # Errors
    /// [`Io`](crate::Error::Io).
    pub fn is_free(path: &Path) -> Result<bool> {
        Ok(find(path)? != Found::Other)
    }

    /// Creates the directory `path` for what can be saved of the database in `source`, or clears what a repair has left
    /// there.
    ///
    /// # Errors
    /// [`Locked`](crate::Error::Locked) if a repair is writing there; [`Io`](crate::Error::Io), also if something else is there.
    pub fn begin(path: &Path, source: &Path) -> Result<RepairTarget> {
        let found = find(path)?;
        match found {
            Found::Nothing => create_as(path, source).map_err(io_error(path, "create"))?,
            Found::EmptyDirectory | Found::Unfinished => {}
            Found::Other => {
                return Err(io_error(path, "create")(
                    io::ErrorKind::AlreadyExists.into(),
                ));
            }
        }
        let target = RepairTarget {
            location: Location::find(Arc::new(FileBackend), path)?,
            was_empty: found == Found::EmptyDirectory,
        };
        match target.mark(source) {
            Ok(()) => Ok(target),
            Err(error) => {
                // What was there before may be what another repair is writing.
                if found == Found::Nothing {
                    let _ = target.abandon();
                }
                Err(error)
            }
        }
    }

    /// Makes the directory that of a repair which has written nothing yet.
    fn mark(&self, source: &Path) -> Result<()> {
        let location = &self.location;
        let (backend, held, path) = (&*location.backend, location.directory(), &location.path);
        let marker = path.join(REPAIR_NAME);
        let source = fs::canonicalize(source).unwrap_or_else(|_| source.to_path_buf());
        let mut file = (held.open_or_create(&marker)).map_err(io_error(&marker, "create"))?;
        (file.set_len(0))
            .and_then(|()| file.write_all(source.as_os_str().as_encoded_bytes()))
            .and_then(|()| file.sync_all())
            .map_err(io_error(&marker, "write"))?;
        sync_directory(backend, path)?;
        sync_directory(&*location.outer, parent(path))?;
        let _lock = DirectoryLock::acquire(held, SEGMENTS_NAME)?;
        location.check()?;
        clear(location)
    }

    /// Opens the new database for writing.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub fn open(&self) -> Result<Store> {
        Ok(Store {
            shared: Arc::new(open::open_writer(self.location.clone(), true)?),
        })
    }

    /// Makes the new database one like any other. All of it must be durable.
    ///
    /// # Errors
    /// [`Io`](crate::Error::Io), [`Displaced`](crate::Error::Displaced).
    pub fn finish(self) -> Result<()> {
        let Location { path, backend, .. } = &self.location;
        self.location.check()?;
        let marker = path.join(REPAIR_NAME);
        (backend.remove(&marker)).map_err(io_error(&marker, "remove"))?;
        sync_directory(&**backend, path)?;
        self.location.check()
    }

    /// Removes what was built, and the directory unless it was there before without a repair. The new database must be closed.
    ///
    /// # Errors
    /// [`Io`](crate::Error::Io). What is left is that of a repair that did not finish.
    pub fn abandon(self) -> Result<()> {
        clear(&self.location)?;
        let Location { path, backend, .. } = &self.location;
        // The marker last: without it what is left would not be known as that of a repair.
        for name in [LOCK_NAME, REPAIR_NAME] {
            let file = path.join(name);
            match backend.remove(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(io_error(&file, "remove")(error));
                }
                _ => {}
            }
        }
        if !self.was_empty {
            self.location.check()?;
            fs::remove_dir(path).map_err(io_error(path, "remove"))?;
        }
        Ok(())
    }
}

/// Creates a directory that is open to the users that another one is open to.
#[cfg(unix)]
fn create_as(path: &Path, other: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    let mode = |path| Ok::<u32, io::Error>(fs::metadata(path)?.permissions().mode());
    let access = mode(other)? & 0o777;
    fs::DirBuilder::new().mode(0o700).create(path)?;
    // Regardless of the umask; bits that it has of the directory around it stay.
    let access = mode(path)? | access;
    fs::set_permissions(path, fs::Permissions::from_mode(access))
}

#[cfg(not(unix))]
fn create_as(path: &Path, _other: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

fn find(path: &Path) -> Result<Found> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(io_error(path, "open")(error)),
        Ok(metadata) if !metadata.is_dir() => return Ok(Found::Other),
        Ok(_) => {}
    }
    let names = FileBackend.list(path).map_err(io_error(path, "list"))?;
    let is_marked = names.iter().any(|name| name == REPAIR_NAME);
    Ok(if names.is_empty() {
        Found::EmptyDirectory
    } else if is_marked && names.iter().all(|name| is_ours(name)) {
        Found::Unfinished
    } else {
        Found::Other
    })
}

/// Whether a repair writes what has this name.
fn is_ours(name: &OsStr) -> bool {
    let names = [
        SEGMENTS_NAME,
        LOG_NAME,
        CATALOG_NAME,
        LOCK_NAME,
        RESERVE_NAME,
        REPAIR_NAME,
    ];
    names.iter().any(|ours| name == *ours) || name.to_string_lossy().starts_with(MANIFEST_NAME)
}

/// Removes what a repair has written but its marker and the lock.
fn clear(location: &Location) -> Result<()> {
    let Location { path, backend, .. } = location;
    for name in backend.list(path).map_err(io_error(path, "list"))? {
        if !is_ours(&name) || name == REPAIR_NAME || name == LOCK_NAME {
            continue;
        }
        let entry = path.join(&name);
        (location.directory().remove_all(&entry)).map_err(io_error(&entry, "remove"))?;
    }
    sync_directory(&**backend, path)
}
