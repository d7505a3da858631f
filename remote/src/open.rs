//! Opening a version where it lies, and pulling it to a local directory.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use uuid::Uuid;
use zipfdb::{Database, DatabaseOptions};

use crate::Result;
use crate::backend::RemoteBackend;
use crate::blocks::hexadecimal;
use crate::cache::{BlockCache, CacheOptions};
use crate::error::io_error;
use crate::origin::Origin;
use crate::store::{OBJECTS, RemoteStore, for_each};
use crate::version::{Version, VersionFile};

/// Files that are pulled at once.
const FILES_AT_ONCE: usize = 8;

/// Bytes of a request for a part of a file.
const REQUEST_BYTES: u64 = 16 << 20;

impl RemoteStore {
    /// Opens a version, the newest if none is named, for reading: what a query needs is fetched, and kept as `cache` says. The
    /// database shows this version until it is closed, whatever is published meanwhile; a collection leaves it alone for
    /// its grace time.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchVersion`], [`crate::Error::Corrupt`], [`crate::Error::Store`], [`crate::Error::TimedOut`]; [`crate::Error::Io`] of the folder of the
    /// cache; [`crate::Error::Database`].
    pub fn open(
        &self,
        version: Option<u64>,
        options: DatabaseOptions,
        cache: &CacheOptions,
    ) -> Result<Database> {
        let backend = self.backend(&self.find_version(version)?, cache)?;
        let options = options.read_only(true).backend(backend);
        Ok(options.open(self.root())?)
    }

    /// The files of a version, of which those that opening reads are fetched.
    pub(crate) fn backend(
        &self,
        version: &Version,
        cache: &CacheOptions,
    ) -> Result<Arc<RemoteBackend>> {
        let cache = Arc::new(BlockCache::new(cache)?);
        let backend = RemoteBackend::new(self, version, &cache, &self.root());
        backend.fetch_edges()?;
        Ok(Arc::new(backend))
    }

    /// The directory that files of versions seem to lie in.
    pub(crate) fn root(&self) -> PathBuf {
        PathBuf::from(self.url())
    }

    /// Copies a version, the newest if none is named, to the directory `target`, which must not exist yet or be empty. It has
    /// its name once all is there. Gives the number of the version.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchVersion`], [`crate::Error::Corrupt`], [`crate::Error::Store`], [`crate::Error::TimedOut`], [`crate::Error::Io`].
    pub fn pull(&self, version: Option<u64>, target: impl AsRef<Path>) -> Result<u64> {
        let target = target.as_ref();
        let version = self.find_version(version)?;
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let partial = target.with_file_name(format!("{name}.{}.partial", Uuid::new_v4().simple()));
        let pulled = self.pull_to(&version, &partial).and_then(|()| {
            // An empty directory is replaced, anything else is an error.
            fs::rename(&partial, target).map_err(io_error(target, "replace"))?;
            sync_directory(target.parent().unwrap_or(Path::new("")))
        });
        if pulled.is_err() {
            // The error before is the one to report.
            let _ = fs::remove_dir_all(&partial);
        }
        pulled.map(|()| version.number)
    }

    fn pull_to(&self, version: &Version, directory: &Path) -> Result<()> {
        let directories = zipfdb_storage::Store::IMAGE_DIRECTORIES.map(|name| directory.join(name));
        for path in [directory]
            .into_iter()
            .chain(directories.iter().map(PathBuf::as_path))
        {
            fs::create_dir(path).map_err(io_error(path, "create"))?;
        }
        for_each(&version.files, FILES_AT_ONCE, |file| {
            self.pull_file(file, &directory.join(&file.path))
        })?;
        Origin::new(self.url(), version.content).write(directory)?;
        let directories = directories.iter().map(PathBuf::as_path);
        directories.chain([directory]).try_for_each(sync_directory)
    }

    fn pull_file(&self, file: &VersionFile, path: &Path) -> Result<()> {
        let object = format!("{OBJECTS}/{}", file.object);
        let mut target = File::create_new(path).map_err(io_error(path, "create"))?;
        let mut sha256 = Sha256::new();
        let mut start = 0;
        while start < file.size {
            let end = file.size.min(start + REQUEST_BYTES);
            let range = start..end;
            for part in self.read_ranges(&object, slice::from_ref(&range))? {
                sha256.update(&part);
                target.write_all(&part).map_err(io_error(path, "write"))?;
            }
            start = end;
        }
        if hexadecimal(&sha256.finalize()) != file.sha256 {
            let size = file.size;
            let fault = format!("its first {size} bytes are not the ones that were published");
            return Err(self.corrupt(&object, fault));
        }
        target.sync_all().map_err(io_error(path, "sync"))
    }
}

/// Makes the names in a directory durable.
fn sync_directory(path: &Path) -> Result<()> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    match synced {
        // Not every system opens directories.
        Err(error) if cfg!(unix) => Err(io_error(path, "sync")(error)),
        _ => Ok(()),
    }
}
