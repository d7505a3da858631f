//! What the tests share: databases and what they answer, stores that fail, and an S3 server.

#![allow(dead_code, clippy::unwrap_used)]

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use zipfdb::{Database, Value};
use zipfdb_remote::RemoteStore;

/// Files of words, some of which occur in all of them.
pub fn text_of(file: u64) -> String {
    let words = (0..400).map(|word: u64| match word % 5 {
        0 => "the ".to_owned(),
        1 => format!("w{} ", (word * word + file) % 97),
        _ => format!("f{file}x{} ", word % 41),
    });
    words.collect()
}

/// A database with a corpus of `files` files, some compressed and some only in the log.
pub fn create(path: &Path, files: u64) -> Database {
    let database = Database::options().threads(2).open(path).unwrap();
    database
        .execute_batch("CREATE CORPUS c; CREATE INDEX places ON c USING occurrences")
        .unwrap();
    insert(&database, 0..files);
    database.execute_batch("RECOMPRESS c").unwrap();
    insert(&database, files..files + 2);
    database
}

pub fn insert(database: &Database, files: Range<u64>) {
    for file in files {
        let sql = format!(
            "INSERT INTO c (file, content) VALUES ('f{file:03}', '{}')",
            text_of(file)
        );
        database.execute_batch(&sql).unwrap();
    }
}

/// The answers to statements of all kinds.
pub fn answers(database: &Database) -> Vec<Vec<Vec<Value>>> {
    const STATEMENTS: [&str; 7] = [
        "SELECT word, COUNT(*) FROM c GROUP BY word ORDER BY word",
        "SELECT file, COUNT(*) FROM c GROUP BY file ORDER BY file",
        "SELECT file, offset FROM c WHERE word = 'w3' ORDER BY file, offset",
        "SELECT file, position FROM c WHERE word = 'the' AND file = 'f001' ORDER BY position",
        "SELECT COUNT(*) FROM ngrams('c', 2) WHERE ngram = 'the w3'",
        "SELECT file, content FROM files('c') ORDER BY file",
        "SELECT file FROM files_with('c', 'w3', 'the') ORDER BY file",
    ];
    let rows = |sql: &&str| -> Vec<Vec<Value>> {
        let rows = database.query(sql, ()).unwrap();
        rows.map(|row| row.unwrap().into_values()).collect()
    };
    STATEMENTS.iter().map(rows).collect()
}

/// A database `remote.zdb` on a store.
pub fn remote(store: &Arc<FaultyStore>) -> RemoteStore {
    let prefix = ObjectPath::from("remote.zdb");
    RemoteStore::of(store.clone(), prefix, "memory://remote.zdb")
}

/// A store in memory that does a number of requests and fails then, as if the calling process had been
/// killed.
#[derive(Debug)]
pub struct FaultyStore {
    pub inner: InMemory,
    left: AtomicI64,
}

impl FaultyStore {
    pub fn new() -> Arc<FaultyStore> {
        Arc::new(FaultyStore {
            inner: InMemory::new(),
            left: AtomicI64::new(i64::MAX),
        })
    }

    pub fn fail_after(&self, requests: i64) {
        self.left.store(requests, Ordering::SeqCst);
    }

    /// How many requests are left of those that were allowed.
    pub fn left(&self) -> i64 {
        self.left.load(Ordering::SeqCst)
    }

    fn take(&self) -> Result<()> {
        if self.left.fetch_sub(1, Ordering::SeqCst) > 0 {
            Ok(())
        } else {
            Err(object_store::Error::Generic {
                store: "faulty",
                source: "no more requests".into(),
            })
        }
    }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("faulty")
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(
        &self,
        path: &ObjectPath,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.take()?;
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &ObjectPath,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.take()?;
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &ObjectPath, options: GetOptions) -> Result<GetResult> {
        self.take()?;
        self.inner.get_opts(path, options).await
    }

    async fn get_ranges(&self, path: &ObjectPath, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.take()?;
        self.inner.get_ranges(path, ranges).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<ObjectPath>>,
    ) -> BoxStream<'static, Result<ObjectPath>> {
        match self.take() {
            Ok(()) => self.inner.delete_stream(paths),
            Err(error) => Box::pin(futures::stream::once(async { Err(error) })),
        }
    }

    fn list(&self, prefix: Option<&ObjectPath>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.take() {
            Ok(()) => self.inner.list(prefix),
            Err(error) => Box::pin(futures::stream::once(async { Err(error) })),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&ObjectPath>) -> Result<ListResult> {
        self.take()?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &ObjectPath,
        to: &ObjectPath,
        options: CopyOptions,
    ) -> Result<()> {
        self.take()?;
        self.inner.copy_opts(from, to, options).await
    }
}

/// The files below a folder.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path))
        } else {
            found.push(path)
        }
    }
    found
}
