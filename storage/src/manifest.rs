//! The manifest: one small file that says what a database holds. Readers need no more of the catalog than this.
//!
//! Invariant: `MANIFEST` is replaced as a whole, by a rename, and each content has a larger sequence number than the one
//! before. What [`ManifestFile::read`] returns is therefore a state that was stored once, whole and unchanged; anything
//! else is a [`ContentFault`]. Bytes: `storage/FORMAT.md`.
//!
//! It knows neither which of its segments have files nor what the record log holds: recovery compares them.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::Result;
use crate::backend::Backend;
use crate::catalog::{ContentFault, Corpora, CorpusRecord};
use crate::error::io_error;
use crate::log::{LogExtent, LogPosition};
use crate::poison::Poison;
use crate::settings::ID_MAX;

/// The name of the file in a database directory.
pub(crate) const MANIFEST_NAME: &str = "MANIFEST";

/// The name that it has while it is written.
const TEMPORARY_NAME: &str = "MANIFEST.tmp";

/// Starts the file; the last byte is its version.
const MAGIC: &[u8; 8] = b"ZIPFMAN\x01";

/// The version of the format.
pub(crate) const VERSION: u8 = MAGIC[7];

/// The content of a database, as readers see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Larger than that of every content before.
    pub(crate) sequence: u64,
    pub(crate) corpora: Corpora,
    /// What the record log held at least when this was written. `None`: no log file has to be there.
    pub(crate) log: Option<LogExtent>,
}

impl Manifest {
    /// The content of the file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.sequence.to_le_bytes());
        let (oldest, end) = match self.log {
            Some(LogExtent { oldest, end }) => (oldest, end),
            None => (0, LogPosition::START),
        };
        for number in [oldest, end.file, end.offset] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend((self.corpora.len() as u64).to_le_bytes());
        let mut record = Vec::new();
        for corpus in self.corpora.values() {
            record.clear();
            corpus.encode(&mut record);
            bytes.extend((record.len() as u64).to_le_bytes());
            bytes.extend(&record);
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> std::result::Result<Manifest, ContentFault> {
        let damaged = |what: &str| ContentFault::Damaged(format!("{MANIFEST_NAME}: {what}"));
        let (content, crc) = bytes
            .split_last_chunk::<4>()
            .ok_or_else(|| damaged("it is too short"))?;
        if crc32fast::hash(content) != u32::from_le_bytes(*crc) {
            return Err(damaged("it has a wrong checksum"));
        }
        let (magic, mut rest) = content
            .split_first_chunk::<8>()
            .ok_or_else(|| damaged("it is too short"))?;
        if magic[..7] != MAGIC[..7] {
            return Err(damaged("it does not begin like one"));
        }
        if magic[7] != VERSION {
            return Err(ContentFault::Version(magic[7]));
        }
        Manifest::decode_content(&mut rest)
            .filter(|_| rest.is_empty())
            .ok_or_else(|| damaged("it makes no sense"))
    }

    fn decode_content(rest: &mut &[u8]) -> Option<Manifest> {
        let sequence = take_number(rest)?;
        let oldest = take_number(rest)?;
        let end = LogPosition {
            file: take_number(rest)?,
            offset: take_number(rest)?,
        };
        let log = match (oldest, end) {
            (0, LogPosition::START) => None,
            _ if oldest == 0 || oldest > end.file || end.file > ID_MAX => return None,
            _ => Some(LogExtent { oldest, end }),
        };
        let mut corpora = Corpora::new();
        let mut last = None;
        for _ in 0..take_number(rest)? {
            let size = usize::try_from(take_number(rest)?).ok()?;
            let (record, behind) = rest.split_at_checked(size)?;
            *rest = behind;
            let record = CorpusRecord::decode(record)?;
            if last >= Some(record.id) {
                return None;
            }
            last = Some(record.id);
            corpora.insert(record.id, record);
        }
        Some(Manifest {
            sequence,
            corpora,
            log,
        })
    }
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*number))
}

/// The manifest of a database that is open for writing: the file, and its newest content.
///
/// Has a lock of its own, the innermost of the store.
#[derive(Debug)]
pub(crate) struct ManifestFile {
    backend: Arc<dyn Backend>,
    database: PathBuf,
    state: Mutex<ManifestState>,
}

#[derive(Debug)]
struct ManifestState {
    content: Manifest,
    /// The file has this content.
    stored: bool,
    /// A replacement failed half way: which content the file has is not known.
    failed: Poison,
}

impl ManifestFile {
    /// Reads the manifest of the database in the directory `database`.
    pub(crate) fn read(
        backend: &dyn Backend,
        database: &Path,
    ) -> std::result::Result<Manifest, ContentFault> {
        match backend.read(&database.join(MANIFEST_NAME)) {
            Ok(bytes) => Manifest::decode(&bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ContentFault::Missing),
            Err(error) => Err(ContentFault::Io(error)),
        }
    }

    /// The file of the database in the directory `database`, which has the content `stored`, if any.
    ///
    /// Sequence numbers go on after that of `stored`, and after `sequence` at least.
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        database: &Path,
        stored: Option<Manifest>,
        sequence: u64,
    ) -> ManifestFile {
        let is_stored = stored.is_some();
        let mut content = stored.unwrap_or_default();
        content.sequence = content.sequence.max(sequence);
        ManifestFile {
            backend,
            database: database.to_path_buf(),
            state: Mutex::new(ManifestState {
                content,
                stored: is_stored,
                failed: Poison::default(),
            }),
        }
    }

    /// The sequence number of the newest content.
    pub(crate) fn sequence(&self) -> u64 {
        self.state.lock().content.sequence
    }

    /// Replaces the corpora, and says that the record log is durable up to `durable` if it is in the newest file. Durable
    /// when it returns; an error leaves the file as it was, or in an unknown state, and then everything that follows fails
    /// as well.
    pub(crate) fn store_corpora(&self, corpora: &Corpora, durable: LogPosition) -> Result<()> {
        self.store(|content| {
            content.corpora.clone_from(corpora);
            if let Some(log) = &mut content.log {
                log.raise(durable);
            }
        })
    }

    /// Replaces what is said of the record log, but that more of its newest file is durable. Durable when it returns, and
    /// fails like [`ManifestFile::store_corpora`].
    pub(crate) fn store_log(&self, log: Option<LogExtent>) -> Result<()> {
        self.store(|content| {
            let before = content.log;
            content.log = log;
            if let (Some(log), Some(before)) = (&mut content.log, before) {
                log.raise(before.end);
            }
        })
    }

    fn store(&self, change: impl FnOnce(&mut Manifest)) -> Result<()> {
        let mut state = self.state.lock();
        state.failed.check(&self.database)?;
        let mut content = state.content.clone();
        change(&mut content);
        if state.stored && content == state.content {
            return Ok(());
        }
        content.sequence += 1;
        let (source, target) = (
            self.database.join(TEMPORARY_NAME),
            self.database.join(MANIFEST_NAME),
        );
        let _ = self.backend.remove(&source); // left by a crash
        if let Err(error) = self.write(&source, &content.encode()) {
            let _ = self.backend.remove(&source);
            return Err(io_error(&source, "write")(error));
        }
        let renamed = (self.backend.rename(&source, &target)).map_err(io_error(&target, "replace"));
        let durable = renamed.and_then(|()| {
            let synced = self.backend.sync_directory(&self.database);
            synced.map_err(io_error(&self.database, "sync"))
        });
        match &durable {
            Ok(()) => (state.content, state.stored) = (content, true),
            Err(error) => state.failed.set(error),
        }
        durable
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.backend.create(path)?;
        file.write_all(bytes)?;
        file.sync()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::CorpusSettings;
    use crate::Error;
    use crate::backend::{MemoryBackend, ReadOnlyBackend};

    const DATABASE: &str = "a.zdb";

    fn memory() -> Arc<MemoryBackend> {
        let backend = MemoryBackend::new();
        backend.create_directory(Path::new(DATABASE)).unwrap();
        Arc::new(backend)
    }

    fn corpora(ids: impl IntoIterator<Item = u64>) -> Corpora {
        let record = |id| CorpusRecord {
            id,
            name: format!("corpus {id}"),
            settings: CorpusSettings::default(),
            merged_position: LogPosition { file: 1, offset: 9 },
            segments: (id + 1..id + 4).collect(),
        };
        ids.into_iter().map(|id| (id, record(id))).collect()
    }

    fn read(backend: &dyn Backend) -> Manifest {
        ManifestFile::read(backend, Path::new(DATABASE)).unwrap()
    }

    #[test]
    fn what_is_stored_is_read_back_and_the_sequence_number_rises() {
        let backend = memory();
        let path = Path::new(DATABASE);
        let fault = ManifestFile::read(&*backend, path).unwrap_err();
        assert!(matches!(fault, ContentFault::Missing));

        let file = ManifestFile::new(Arc::clone(&backend) as _, path, None, 6);
        file.store_corpora(&Corpora::new(), LogPosition::START)
            .unwrap();
        assert_eq!((read(&*backend).sequence, file.sequence()), (7, 7));
        file.store_corpora(&corpora([3, 8]), LogPosition::START)
            .unwrap();
        let log = LogExtent {
            oldest: 1,
            end: LogPosition {
                file: 2,
                offset: 40,
            },
        };
        file.store_log(Some(log)).unwrap();
        let expected = Manifest {
            sequence: 9,
            corpora: corpora([3, 8]),
            log: Some(log),
        };
        assert_eq!(read(&*backend), expected);
        file.store_log(Some(log)).unwrap();
        assert_eq!(read(&*backend), expected, "nothing changed");

        let file = ManifestFile::new(Arc::clone(&backend) as _, path, Some(expected), 0);
        assert_eq!(read(&*backend).log, Some(log));
        file.store_log(None).unwrap();
        assert_eq!(read(&*backend).log, None);
        assert_eq!(read(&*backend).corpora, corpora([3, 8]));
        assert_eq!(backend.list(path).unwrap(), [MANIFEST_NAME]);
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_damage() {
        let manifest = Manifest {
            sequence: 1 << 40,
            corpora: corpora([1, 5, 90]),
            log: Some(LogExtent {
                oldest: 5,
                end: LogPosition { file: 7, offset: 8 },
            }),
        };
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes).unwrap(), manifest);
        for at in 0..bytes.len() {
            assert!(matches!(
                Manifest::decode(&bytes[..at]),
                Err(ContentFault::Damaged(_))
            ));
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(matches!(
                    Manifest::decode(&flipped),
                    Err(ContentFault::Damaged(_))
                ));
            }
        }
    }

    /// Bytes under a right checksum that no writer makes are refused as well.
    #[test]
    fn content_that_no_writer_makes_is_damage() {
        type Change<'a> = &'a dyn Fn(&mut Vec<u8>);
        let sealed = |change: Change<'_>| {
            let mut bytes = Manifest {
                sequence: 1,
                corpora: corpora([4]),
                log: None,
            }
            .encode();
            bytes.truncate(bytes.len() - 4);
            change(&mut bytes);
            bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
            Manifest::decode(&bytes)
        };
        assert!(sealed(&|_| ()).is_ok());
        let changes: [Change<'_>; 6] = [
            &|bytes| bytes.push(0),
            &|bytes| bytes[0] = b'X',
            &|bytes| bytes[32] = 1,    // an offset in no file
            &|bytes| bytes[31] = 0xff, // a file number that cannot be
            &|bytes| bytes[40] = 2,    // one corpus more
            &|bytes| bytes[55] = 0xff, // a record larger than all
        ];
        for change in changes {
            assert!(matches!(sealed(change), Err(ContentFault::Damaged(_))));
        }
        let twice = |bytes: &mut Vec<u8>| {
            bytes[40] = 2;
            bytes.extend_from_within(48..);
        };
        assert!(matches!(sealed(&twice), Err(ContentFault::Damaged(_))));
        let later = sealed(&|bytes| bytes[7] = VERSION + 1);
        assert!(matches!(later, Err(ContentFault::Version(version)) if version == VERSION + 1));
    }

    #[test]
    fn a_replacement_that_fails_early_may_be_tried_again_and_a_later_one_may_not() {
        let backend = memory();
        let path = Path::new(DATABASE);
        let refusing = Arc::new(ReadOnlyBackend::new(Arc::clone(&backend) as _));
        let file = ManifestFile::new(refusing, path, None, 0);
        for _ in 0..2 {
            let error = file
                .store_corpora(&corpora([1]), LogPosition::START)
                .unwrap_err();
            assert!(matches!(error, Error::Io { .. }), "{error}");
        }

        // A directory cannot be synced that is not there.
        let gone = Path::new("gone.zdb");
        let file = ManifestFile::new(Arc::clone(&backend) as _, gone, None, 0);
        let error = file
            .store_corpora(&corpora([1]), LogPosition::START)
            .unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        let error = file
            .store_corpora(&corpora([1]), LogPosition::START)
            .unwrap_err();
        assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    }
}
