//! Publishing a local database as the next version.
//!
//! Invariant: a version is there as a whole or not at all, and follows the one it was made from. Objects are written under names
//! of their own first, those that the version before has are named again, and the version, which is created only if there
//! is none of its number, makes them count. A publication says that it is going on before it writes anything, and as long
//! as it does nothing that it wrote is collected. A collection that takes a publication for dead first publishes a version
//! itself, so that the publication fails.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use uuid::Uuid;
use zipfdb_storage::{BackendReader, ImageFile, OpenOptions, Store};

use crate::blocks::Content;
use crate::error::io_error;
use crate::origin::Origin;
use crate::store::{OBJECTS, PART_BYTES, PUBLISHING, RemoteStore, for_each};
use crate::version::{Version, VersionFile};
use crate::{Error, Result};

/// Files that are uploaded at once.
pub(crate) const FILES_AT_ONCE: usize = 4;

/// Interval at which a publication reports that it is going on.
const RENEWED: Duration = Duration::from_secs(30);

/// What was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The number of the version.
    pub version: u64,
    /// Files that it has.
    pub files: usize,
    /// Bytes of the files that were uploaded.
    pub uploaded: u64,
    /// Bytes of the files that the version before has too.
    pub kept: u64,
}

impl RemoteStore {
    /// Publishes the database in the directory `database` as it is now, beside a writer too, as the next version. Files that
    /// the newest version has are not uploaded again.
    ///
    /// The directory notes in a file `REMOTE` which version it is. It must be the newest one, or there must be none yet, unless
    /// `replace`: then the database replaces whatever is there. If the note cannot be written the version is published all the
    /// same, and the next push has to replace it.
    ///
    /// # Errors
    /// [`Error::Conflict`] if there is another version than the one this database was made from, or another publisher was
    /// faster; [`Error::Local`], [`Error::Io`], [`Error::Store`], [`Error::TimedOut`].
    pub fn push(&self, database: impl AsRef<Path>, replace: bool) -> Result<Pushed> {
        let database = database.as_ref();
        let options = OpenOptions {
            read_only: true,
            create: false,
        };
        let store = Store::open(database, options)?;
        for warning in store.warnings() {
            tracing::warn!("{}: {warning}", database.display());
        }
        let publication = Publication::begin(self)?;
        let before = self.newest()?;
        let found = before.as_ref().map_or(0, |version| version.content);
        let expected = match Origin::read(database)? {
            Some(origin) if origin.url == self.url() => origin.version,
            _ => 0,
        };
        if found != expected && !replace {
            return Err(self.conflict(expected, found));
        }
        let known: HashMap<&str, &VersionFile> = (before.iter())
            .flat_map(|version| &version.files)
            .map(|file| (&file.path[..], file))
            .collect();
        let image = store.image()?;
        let published = Mutex::new((Vec::with_capacity(image.len()), 0, 0));
        for_each(&image, FILES_AT_ONCE, |file| {
            let Some(content) = file.open()? else {
                return Ok(());
            };
            let size = content.size();
            let name = &publication.name;
            let (file, is_new) = upload(self, name, database, file, content, &known)?;
            let (files, uploaded, kept) = &mut *published.lock();
            files.push(file);
            *(if is_new { uploaded } else { kept }) += size;
            Ok(())
        })?;
        let (files, uploaded, kept) = published.into_inner();
        let last = before.as_ref().map_or(0, |version| version.number);
        let pushed = Pushed {
            version: last + 1,
            files: files.len(),
            uploaded,
            kept,
        };
        publication.create(pushed.version, files, found)?;
        drop(publication);
        Origin::new(self.url(), pushed.version).write(database)?;
        Ok(pushed)
    }

    fn conflict(&self, expected: u64, found: u64) -> Error {
        Error::Conflict {
            url: self.url().into(),
            expected,
            found,
        }
    }
}

/// A file in an object: that of the version before if it has the same content, else a new one of a publication.
pub(crate) fn upload(
    store: &RemoteStore,
    publication: &str,
    database: &Path,
    file: &ImageFile,
    content: Arc<dyn BackendReader>,
    known: &HashMap<&str, &VersionFile>,
) -> Result<(VersionFile, bool)> {
    let path = name_of(file.path());
    let local = database.join(file.path());
    let digests = Content::new(content.clone()).digests();
    let digests = digests.map_err(io_error(&local, "read"))?;
    let size = content.size();
    if let Some(&same) = known.get(&path[..])
        && (same.size, &same.sha256) == (size, &digests.sha256)
    {
        return Ok((same.clone(), false));
    }
    let object = format!("{}-{}", publication, Uuid::new_v4().simple());
    let name = format!("{OBJECTS}/{object}");
    let mut all = Content::new(content).chain(&digests.sums[..]);
    if size + digests.sums.len() as u64 <= PART_BYTES as u64 {
        let mut bytes = Vec::with_capacity(size as usize + digests.sums.len());
        all.read_to_end(&mut bytes)
            .map_err(io_error(&local, "read"))?;
        store.write(&name, Bytes::from(bytes))?;
    } else {
        store.write_parts(&name, || {
            let mut part = Vec::with_capacity(PART_BYTES);
            let read = (&mut all).take(PART_BYTES as u64).read_to_end(&mut part);
            let count = read.map_err(io_error(&local, "read"))?;
            Ok((count > 0).then_some(part))
        })?;
    }
    let file = VersionFile {
        path,
        size,
        sha256: digests.sha256,
        object,
        sums_crc32: crc32fast::hash(&digests.sums),
    };
    Ok((file, true))
}

/// A path with `/` between names.
fn name_of(path: &Path) -> String {
    let names = path.iter().map(|name| name.to_string_lossy());
    names.collect::<Vec<_>>().join("/")
}

/// A publication that is going on: an object says so, which is written again and again, and removed at the end.
pub(crate) struct Publication {
    store: RemoteStore,
    name: String,
    /// Dropped to end the thread, which writes the object.
    ended: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Publication {
    /// What objects that it writes begin with.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Creates the version `number` with these files, which follows what was made from version `expected`.
    ///
    /// # Errors
    /// [`Error::Conflict`] if there is one of this number already; those of the store.
    pub(crate) fn create(
        &self,
        number: u64,
        mut files: Vec<VersionFile>,
        expected: u64,
    ) -> Result<()> {
        files.sort_by(|left, right| left.path.cmp(&right.path));
        let version = Version::new(number, self.name.clone(), files);
        if !self.store.create_version(&version)? {
            let newest = self.store.versions()?.pop().unwrap_or(number);
            return Err(self.store.conflict(expected, newest));
        }
        Ok(())
    }

    /// Says that a publication is going on.
    pub(crate) fn begin(store: &RemoteStore) -> Result<Publication> {
        let name = Uuid::new_v4().simple().to_string();
        let object = format!("{PUBLISHING}/{name}");
        store.write(&object, Bytes::new())?;
        let (ended, end) = mpsc::channel();
        let renewing = store.clone();
        let thread = std::thread::spawn(move || {
            while end.recv_timeout(RENEWED) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = renewing.write(&object, Bytes::new()) {
                    tracing::warn!("{error}");
                }
            }
        });
        Ok(Publication {
            store: store.clone(),
            name,
            ended: Some(ended),
            thread: Some(thread),
        })
    }
}

impl Drop for Publication {
    fn drop(&mut self) {
        drop(self.ended.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // If this fails, a collection removes it.
        if let Err(error) = self.store.remove(&format!("{PUBLISHING}/{}", self.name)) {
            tracing::warn!("{error}");
        }
    }
}
