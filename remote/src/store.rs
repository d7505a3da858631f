//! The object store that a database lies on, asked from threads that wait.
//!
//! Invariant: every request ends, with an answer or an error, within the time that is allowed for it. Requests run on an async
//! runtime of this crate; the calling thread waits on a channel, so any thread may call, one of another async runtime too.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, WriteMultipart};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use url::Url;

use crate::version::{PublishedVersion, Version};
use crate::{Error, Result};

/// The time that a request may take, retries of the store's client included.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of a part of an upload; S3 takes up to 10,000 parts of one object.
pub(crate) const PART_BYTES: usize = 16 << 20;

/// Parts that are on their way at once.
const PARTS_AT_ONCE: usize = 4;

/// Most attempts of a request, each with the retries of the store's client.
const ATTEMPTS: u32 = 3;

/// Directory of versions, below the database.
const VERSIONS: &str = "versions";

/// Directory of the contents of files.
pub(crate) const OBJECTS: &str = "objects";

/// Directory of the marks of publications that are going on.
pub(crate) const PUBLISHING: &str = "publishing";

/// A database on an object store.
///
/// Cheap to clone; all methods may be called from any thread and wait for the store.
#[derive(Clone)]
pub struct RemoteStore {
    inner: Arc<Inner>,
    timeout: Duration,
}

struct Inner {
    url: String,
    objects: Arc<dyn ObjectStore>,
    prefix: Path,
    traffic: Mutex<Traffic>,
}

/// What was asked of an object store, retries of its client not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests.
    pub requests: u64,
    /// Bytes of objects that were read.
    pub read: u64,
    /// Bytes of objects that were written.
    pub written: u64,
}

impl fmt::Debug for RemoteStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RemoteStore({})", self.inner.url)
    }
}

impl RemoteStore {
    /// The database at a URL: `s3://BUCKET/PATH`, `gs://`, `az://` or `file://`. Credentials, region and endpoint come from the
    /// environment, by the names that `object_store` documents (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`, ...). Nothing is
    /// asked yet.
    ///
    /// # Errors
    /// [`Error::Url`].
    pub fn new(url: &str) -> Result<RemoteStore> {
        let refused = |reason: String| Error::Url {
            url: url.into(),
            reason,
        };
        let parsed = Url::parse(url).map_err(|error| refused(error.to_string()))?;
        let environment = std::env::vars_os().filter_map(|(name, value)| {
            let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
            Some((name.to_ascii_lowercase(), value))
        });
        let (objects, prefix) = object_store::parse_url_opts(&parsed, environment)
            .map_err(|error| refused(error.to_string()))?;
        if prefix.as_ref().is_empty() {
            return Err(refused("it has no path".into()));
        }
        Ok(RemoteStore::of(Arc::from(objects), prefix, url))
    }

    /// The database below `prefix` of a store, called `url` in errors.
    pub fn of(objects: Arc<dyn ObjectStore>, prefix: Path, url: &str) -> RemoteStore {
        RemoteStore {
            inner: Arc::new(Inner {
                url: url.trim_end_matches('/').to_owned(),
                objects,
                prefix,
                traffic: Mutex::default(),
            }),
            timeout: TIMEOUT,
        }
    }

    /// The same database, whose requests may take `timeout` each, retries of the store's client included. The default is 60 seconds.
    pub fn with_timeout(self, timeout: Duration) -> RemoteStore {
        RemoteStore { timeout, ..self }
    }

    /// Where it lies.
    pub fn url(&self) -> &str {
        &self.inner.url
    }

    /// What was asked of the object store until now by this store and its clones.
    pub fn traffic(&self) -> Traffic {
        *self.inner.traffic.lock()
    }

    /// The numbers of the versions that are there, ascending.
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::TimedOut`].
    pub fn versions(&self) -> Result<Vec<u64>> {
        let versions = self.version_objects()?.into_iter();
        Ok(versions.map(|(number, _)| number).collect())
    }

    /// The newest version, or the one with a number: what others have to open to see the same.
    ///
    /// # Errors
    /// [`Error::NoSuchVersion`], [`Error::Corrupt`], [`Error::Store`], [`Error::TimedOut`].
    pub fn published(&self, version: Option<u64>) -> Result<PublishedVersion> {
        let version = self.find_version(version)?;
        Ok(PublishedVersion {
            number: version.number,
            publication: version.publication,
        })
    }

    /// The objects of the versions that are there, by number, ascending.
    pub(crate) fn version_objects(&self) -> Result<Vec<(u64, ObjectMeta)>> {
        let found = self.list(VERSIONS)?.into_iter();
        let mut numbered: Vec<(u64, ObjectMeta)> = found
            .filter_map(|(name, meta)| Some((number_of(&name)?, meta)))
            .collect();
        numbered.sort_unstable_by_key(|(number, _)| *number);
        Ok(numbered)
    }

    /// A version; none if it is not there.
    pub(crate) fn version(&self, number: u64) -> Result<Option<Version>> {
        let name = version_name(number);
        let mut fault = String::new();
        // An answer that was cut off looks like damage.
        for _ in 0..ATTEMPTS {
            let Some(bytes) = self.read(&name)? else {
                return Ok(None);
            };
            match Version::decode(number, &bytes) {
                Ok(version) => return Ok(Some(version)),
                Err(found) => fault = found,
            }
        }
        Err(self.corrupt(&name, fault))
    }

    /// The newest version, or the one with a number.
    ///
    /// # Errors
    /// [`Error::NoSuchVersion`], and those of reading.
    pub(crate) fn find_version(&self, number: Option<u64>) -> Result<Version> {
        let found = match number {
            Some(number) => self.version(number)?,
            None => self.newest()?,
        };
        found.ok_or_else(|| Error::NoSuchVersion {
            url: self.url().into(),
            version: number,
        })
    }

    /// The newest version; none if nothing was published.
    pub(crate) fn newest(&self) -> Result<Option<Version>> {
        loop {
            let Some(newest) = self.versions()?.pop() else {
                return Ok(None);
            };
            // Collected between the two requests: there is a newer one.
            if let Some(version) = self.version(newest)? {
                return Ok(Some(version));
            }
        }
    }

    /// Publishes a version. False if there is one of its number already that another publication made.
    pub(crate) fn create_version(&self, version: &Version) -> Result<bool> {
        let name = version_name(version.number);
        let (path, objects) = (self.path(&name), self.inner.objects.clone());
        let payload = Bytes::from(version.encode());
        let created = self.wait(&name, "publish", async move {
            let options = PutOptions::from(PutMode::Create);
            match objects.put_opts(&path, payload.into(), options).await {
                Ok(_) => Ok(true),
                Err(
                    object_store::Error::AlreadyExists { .. }
                    | object_store::Error::Precondition { .. },
                ) => Ok(false),
                Err(error) => Err(error),
            }
        });
        match created {
            Ok(true) => Ok(true),
            // An attempt whose answer was lost may have published it: a version names its publication.
            unclear => {
                let found = self.version(version.number)?;
                if found.is_some_and(|found| found.publication == version.publication) {
                    Ok(true)
                } else {
                    unclear
                }
            }
        }
    }

    /// The whole content of an object; none if it is not there.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Bytes>> {
        let found = self.persist(|| {
            let (path, objects) = (self.path(name), self.inner.objects.clone());
            self.wait(name, "read", async move {
                let found = match objects.get(&path).await {
                    Ok(found) => found.bytes().await,
                    Err(error) => Err(error),
                };
                match found {
                    Ok(bytes) => Ok(Some(bytes)),
                    Err(object_store::Error::NotFound { .. }) => Ok(None),
                    Err(error) => Err(error),
                }
            })
        })?;
        self.inner.traffic.lock().read += found.as_ref().map_or(0, Bytes::len) as u64;
        Ok(found)
    }

    /// Parts of an object, each asked for by a request of its own, at once.
    pub(crate) fn read_ranges(&self, name: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let found = self.persist(|| {
            let (path, objects) = (self.path(name), self.inner.objects.clone());
            let ranges = ranges.to_vec();
            self.wait(name, "read", async move {
                let requests = ranges
                    .iter()
                    .map(|range| objects.get_range(&path, range.clone()));
                futures::future::try_join_all(requests).await
            })
        })?;
        let mut traffic = self.inner.traffic.lock();
        traffic.requests += (ranges.len() as u64).saturating_sub(1);
        traffic.read += found.iter().map(|part| part.len() as u64).sum::<u64>();
        Ok(found)
    }

    /// Creates or replaces an object.
    pub(crate) fn write(&self, name: &str, content: Bytes) -> Result<()> {
        self.inner.traffic.lock().written += content.len() as u64;
        self.persist(|| {
            let (path, objects) = (self.path(name), self.inner.objects.clone());
            let content = content.clone();
            self.wait(name, "write", async move {
                objects.put(&path, content.into()).await.map(drop)
            })
        })
    }

    /// Writes an object part by part; it is there once all are, and not before.
    pub(crate) fn write_parts(
        &self,
        name: &str,
        mut next: impl FnMut() -> Result<Option<Vec<u8>>>,
    ) -> Result<()> {
        let (path, objects) = (self.path(name), self.inner.objects.clone());
        let mut upload = self.wait(name, "write", async move {
            let upload = objects.put_multipart(&path).await?;
            Ok(WriteMultipart::new_with_chunk_size(upload, PART_BYTES))
        })?;
        loop {
            let part = match next() {
                Ok(Some(part)) => part,
                Ok(None) => break,
                Err(error) => {
                    // What is there of it is garbage that costs money; the error before is the one to report.
                    let _ = self.wait(name, "give up", upload.abort());
                    return Err(error);
                }
            };
            self.inner.traffic.lock().written += part.len() as u64;
            upload = self.wait(name, "write", async move {
                upload.wait_for_capacity(PARTS_AT_ONCE).await?;
                upload.put(part.into());
                Ok(upload)
            })?;
        }
        self.wait(
            name,
            "write",
            async move { upload.finish().await.map(drop) },
        )
    }

    /// Removes an object; no error if it is not there.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        self.persist(|| {
            let (path, objects) = (self.path(name), self.inner.objects.clone());
            self.wait(name, "remove", async move {
                match objects.delete(&path).await {
                    Err(object_store::Error::NotFound { .. }) => Ok(()),
                    done => done,
                }
            })
        })
    }

    /// The objects in a folder below the database, by name.
    pub(crate) fn list(&self, folder: &str) -> Result<Vec<(String, ObjectMeta)>> {
        let found: Vec<ObjectMeta> = self.persist(|| {
            let (path, objects) = (self.path(folder), self.inner.objects.clone());
            self.wait(folder, "list", async move {
                objects.list(Some(&path)).try_collect().await
            })
        })?;
        let named = found.into_iter().filter_map(|meta| {
            let name = meta.location.filename()?.to_owned();
            Some((name, meta))
        });
        Ok(named.collect())
    }

    pub(crate) fn corrupt(&self, object: &str, fault: impl Into<String>) -> Error {
        Error::Corrupt {
            url: self.url().into(),
            object: object.into(),
            fault: fault.into(),
        }
    }

    fn path(&self, name: &str) -> Path {
        name.split('/')
            .fold(self.inner.prefix.clone(), |path, part| path.join(part))
    }

    /// Tries a request again that failed, though the store's own client has tried: an answer may have been cut off.
    fn persist<T>(&self, request: impl Fn() -> Result<T>) -> Result<T> {
        for _ in 1..ATTEMPTS {
            match request() {
                Err(error @ Error::Store { .. }) => tracing::warn!("{error}; it is tried again"),
                answer => return answer,
            }
        }
        request()
    }

    /// Waits for a request to the store.
    fn wait<T: Send + 'static>(
        &self,
        object: &str,
        action: &'static str,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.inner.traffic.lock().requests += 1;
        let (sender, receiver) = mpsc::channel();
        let waited = self.timeout;
        runtime().spawn(async move {
            // Without a receiver the calling thread has gone.
            let _ = sender.send(timeout(waited, request).await);
        });
        let (url, object) = (self.url().to_owned(), object.to_owned());
        match receiver.recv() {
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Ok(Err(source))) => Err(Error::Store {
                url,
                object,
                action,
                source: Box::new(source),
            }),
            // The sender is dropped without an answer only if the request panicked.
            Ok(Err(_)) | Err(_) => Err(Error::TimedOut {
                url,
                object,
                action,
                waited,
            }),
        }
    }
}

/// Does something for each of some items, several at once, and stops at the first error.
pub(crate) fn for_each<T: Sync>(
    items: &[T],
    at_once: usize,
    work: impl Fn(&T) -> Result<()> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..at_once.min(items.len()) {
            scope.spawn(|| {
                while failed.lock().is_none() {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    if let Err(error) = work(item) {
                        failed.lock().get_or_insert(error);
                    }
                }
            });
        }
    });
    failed.into_inner().map_or(Ok(()), Err)
}

/// The runtime of all requests of this process.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("zipfdb-remote")
            .enable_all()
            .build();
        runtime.expect("the system has two threads more")
    })
}

/// The name of the object of a version.
pub(crate) fn version_name(number: u64) -> String {
    format!("{VERSIONS}/{number:020}.json")
}

/// The number of the version of this object.
fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".json")?;
    let number = digits.parse().ok()?;
    (number > 0 && format!("{number:020}") == digits).then_some(number)
}
