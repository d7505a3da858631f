//! The files of a database as a store that is open for reading shows it: what a copy of the database is made of.
//!
//! Invariant: a directory with these files is a database, and shows what the store shows, whatever a writer has done to the
//! directory since the store was opened. Files that only a writer needs (lock, catalog, reserve) are not among them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::backend::{Backend, BackendReader, Bytes, ReadOnlyBackend};
use crate::error::io_error;
use crate::indexes;
use crate::log::{self, LOG_NAME, LogExtent};
use crate::manifest::{MANIFEST_NAME, Manifest};
use crate::store::Store;
use crate::store::directory::{SEGMENTS_NAME, marker_bytes};
use crate::views;
use crate::{Error, Result};

/// A file of an image.
pub struct ImageFile {
    path: PathBuf,
    source: Source,
}

enum Source {
    Content(Bytes),
    /// A file of the directory, of which the first `size` bytes count.
    Stored {
        backend: Arc<ReadOnlyBackend>,
        path: PathBuf,
        size: u64,
    },
    /// An index file, which may go at any time.
    Index {
        backend: Arc<ReadOnlyBackend>,
        path: PathBuf,
    },
}

impl ImageFile {
    /// Its path in the directory of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its content is that of a file of the directory.
    pub fn is_stored(&self) -> bool {
        !matches!(self.source, Source::Content(_))
    }

    /// Its content; none of an index file that was dropped meanwhile, which a database can do without.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(&self) -> Result<Option<Arc<dyn BackendReader>>> {
        match &self.source {
            Source::Content(bytes) => Ok(Some(Arc::new(bytes.clone()))),
            Source::Stored {
                backend,
                path,
                size,
            } => {
                let inner = backend.open(path).map_err(io_error(path, "open"))?;
                Ok(Some(Arc::new(Front { inner, size: *size })))
            }
            Source::Index { backend, path } => match backend.open(path) {
                Ok(file) => Ok(Some(file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(io_error(path, "open")(error)),
            },
        }
    }
}

impl fmt::Debug for ImageFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ImageFile({})", self.path.display())
    }
}

/// The first bytes of a file.
#[derive(Debug)]
struct Front {
    inner: Arc<dyn BackendReader>,
    size: u64,
}

impl BackendReader for Front {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, size: u64) -> io::Result<Bytes> {
        match offset.checked_add(size) {
            Some(end) if end <= self.size => self.inner.read_at(offset, size),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Store {
    /// The files of a copy of this database, by path, as this store shows it. The store must be open for reading, and stay
    /// open until they are copied. Bytes in memory: the manifest and the markers.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is open for writing or not in a directory; [`Error::Corrupt`], [`Error::Io`].
    pub fn image(&self) -> Result<Vec<ImageFile>> {
        self.image_of(None)
    }

    /// As [`Store::image`], of a copy in which a corpus has more segments, whose numbers no segment of this database has and whose
    /// files come from elsewhere: they are not among these.
    ///
    /// # Errors
    /// As [`Store::image`]; [`Error::NoSuchCorpus`].
    pub fn image_with(&self, corpus: &str, segments: &[u64]) -> Result<Vec<ImageFile>> {
        self.image_of(Some((corpus, segments)))
    }

    fn image_of(&self, added: Option<(&str, &[u64])>) -> Result<Vec<ImageFile>> {
        let shared = &self.shared;
        let Some(follower) = &shared.follower else {
            return Err(Error::Invalid {
                what: "store",
                fault: "it is open for writing; hint: open it for reading to copy it",
            });
        };
        let backend = follower.backend();
        let relative = |path: &Path| {
            let path = path.strip_prefix(shared.path());
            path.expect("files lie in the directory").to_path_buf()
        };
        let stored = |path: PathBuf, size: u64| ImageFile {
            path: relative(&path),
            source: Source::Stored {
                backend: Arc::clone(backend),
                path,
                size,
            },
        };
        let size_of = |path: &Path| {
            let file = backend.open(path).map_err(io_error(path, "open"))?;
            Ok::<u64, Error>(file.size())
        };
        let mut corpora = shared.visible.lock().corpora.clone();
        let mut sequence = follower.sequence().unwrap_or(1);
        let elsewhere = added.map_or(&[][..], |(_, segments)| segments);
        if let Some((corpus, segments)) = added {
            let record = corpora.values_mut().find(|record| record.name == corpus);
            let record = record.ok_or_else(|| Error::NoSuchCorpus {
                corpus: corpus.into(),
                missing: None,
            })?;
            record.segments.extend(segments);
            record.segments.sort_unstable();
            sequence += 1;
        }
        let mut files = Vec::new();

        let (end, log) = (shared.log.end(), shared.path().join(LOG_NAME));
        let mut oldest = None;
        for path in backend.pinned() {
            let in_log = path.strip_prefix(&log).ok();
            let number = in_log.and_then(|name| log::number_of(name.as_os_str()));
            let Some(number) = number.filter(|number| *number <= end.file) else {
                continue;
            };
            oldest = oldest.or(Some(number));
            let size = size_of(&path)?;
            // What follows was cut short, or is a commit that was being written.
            let whole = number < end.file;
            files.push(stored(
                path,
                if whole { size } else { size.min(end.offset) },
            ));
        }
        let manifest = Manifest {
            sequence,
            corpora,
            log: oldest.map(|oldest| LogExtent { oldest, end }),
        };
        files.push(ImageFile {
            path: MANIFEST_NAME.into(),
            source: Source::Content(manifest.encode().into()),
        });
        for name in [indexes::FILE_NAME, views::FILE_NAME] {
            match backend.read(&shared.path().join(name)) {
                Ok(content) => files.push(ImageFile {
                    path: name.into(),
                    source: Source::Content(content),
                }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(io_error(&shared.path().join(name), "read")(error)),
            }
        }
        let indexes = self.indexes()?;
        for corpus in manifest.corpora.values() {
            files.push(ImageFile {
                path: relative(&shared.directory.marker(corpus.id)),
                source: Source::Content(marker_bytes(corpus).into()),
            });
            for &segment in &corpus.segments {
                if elsewhere.contains(&segment) {
                    continue;
                }
                let path = shared.directory.segment(segment);
                let size = size_of(&path)?;
                files.push(stored(path, size));
                for index in indexes.iter().filter(|index| index.corpus == corpus.id) {
                    let path = shared.directory.index(segment, &index.name);
                    files.push(ImageFile {
                        path: relative(&path),
                        source: Source::Index {
                            backend: Arc::clone(backend),
                            path,
                        },
                    });
                }
            }
        }
        files.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(files)
    }

    /// The directories that the files of an image lie in, in that of the database.
    pub const IMAGE_DIRECTORIES: [&'static str; 2] = [SEGMENTS_NAME, LOG_NAME];
}
