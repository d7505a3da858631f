//! What the handles of an open store share: what is live, what queries see, and how both change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};

use crate::backend::Backend;
use crate::catalog::{Corpora, CorpusRecord};
use crate::error::IoReason;
use crate::lock::DirectoryLock;
use crate::log::{Durability, KeepExtent, Log, LogFile, LogPosition, Scan};
use crate::ownership::Ownership;
use crate::path_text::PathText;
use crate::poison::Poison;
use crate::reserve::Reserve;
use crate::segment::SegmentReader;
use crate::store::directory::SegmentDirectory;
use crate::store::follow::Follower;
use crate::store::location::Location;
use crate::store::registry::Registry;
use crate::{Error, Result};

/// A live segment, opened.
///
/// If its corpus is dropped or it is replaced meanwhile, its file is removed when the last handle goes.
#[derive(Debug)]
pub struct Segment {
    id: u64,
    reader: SegmentReader,
    /// Weak: handles may outlive the store, which then leaves the file to the next open, or to the store that inherited them.
    pub(super) shared: Mutex<Weak<Shared>>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) location: Location,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) directory: SegmentDirectory,
    pub(super) read_only: bool,
    /// Whether the directory has no database yet.
    pub(super) missing: bool,
    pub(super) warnings: Vec<String>,
    /// What of the log is dropped, in words.
    pub(super) cuts: Vec<String>,
    /// The next number for a corpus, publication or segment.
    pub(super) next_id: AtomicU64,
    /// A change failed half way: no more are made.
    pub(super) poison: Arc<Poison>,
    /// Held while anything but the log is changed. Of several locks this comes first, then `tidying`, then those within
    /// the log, then `visible`.
    pub(super) writer: Mutex<Writer>,
    pub(super) log: Log,
    /// Held while files of the log are removed or opened.
    pub(super) tidying: Mutex<()>,
    /// The open could not remove what it should: what speaks for it must stay.
    pub(super) untidy: bool,
    pub(super) visible: Mutex<Visible>,
    /// `None` in memory and read-only.
    pub(super) reserve: Option<Arc<Reserve>>,
    /// `None` in memory and read-only.
    pub(super) ownership: Option<Arc<Ownership>>,
    /// What a reader knows of the files; `None` if it is open for writing.
    pub(super) follower: Option<Follower>,
    /// The number of the manifest that a writer found, and once it is closed of the one it left.
    pub(super) sequence: Mutex<Option<u64>>,
    /// Whether it was closed: other processes may write now.
    pub(super) closed: AtomicBool,
    /// Last, so that the catalog is closed before the lock is released.
    pub(super) lock: Mutex<Option<DirectoryLock>>,
}

#[derive(Debug)]
pub(super) struct Writer {
    /// `None` in memory and read-only.
    pub(super) registry: Option<Registry>,
    pub(super) poison: Arc<Poison>,
}

/// What queries see. Held for moments only, never during I/O other than opening a segment.
#[derive(Debug)]
pub(super) struct Visible {
    pub(super) corpora: Corpora,
    pub(super) open: HashMap<u64, Weak<Segment>>,
    /// Segments that a store of the same directory had open before, until they are asked for here.
    pub(super) inherited: HashMap<u64, Weak<Segment>>,
    /// Segments of dropped corpora, and replaced ones of others, that still have a file.
    pub(super) doomed: BTreeMap<u64, BTreeSet<u64>>,
    /// Dropped corpora that still have a tombstone.
    pub(super) buried: BTreeSet<u64>,
}

impl Shared {
    pub(super) fn new(
        location: Location,
        backend: Arc<dyn Backend>,
        directory: SegmentDirectory,
        corpora: Corpora,
        found: Scan,
        keep_extent: KeepExtent,
    ) -> Shared {
        let poison = Arc::<Poison>::default();
        let merged = corpora.values().map(|record| record.merged_position).max();
        let log = Log::new(
            Arc::clone(&backend),
            &location.path,
            found,
            merged.unwrap_or_default(),
            keep_extent,
            Arc::clone(&poison),
        );
        Shared {
            location,
            backend,
            directory,
            read_only: false,
            missing: false,
            warnings: Vec::new(),
            cuts: Vec::new(),
            next_id: AtomicU64::new(1),
            poison: Arc::clone(&poison),
            writer: Mutex::new(Writer {
                registry: None,
                poison,
            }),
            log,
            tidying: Mutex::default(),
            untidy: false,
            visible: Mutex::new(Visible {
                corpora,
                open: HashMap::new(),
                inherited: HashMap::new(),
                doomed: BTreeMap::new(),
                buried: BTreeSet::new(),
            }),
            reserve: None,
            ownership: None,
            follower: None,
            sequence: Mutex::default(),
            closed: AtomicBool::new(false),
            lock: Mutex::default(),
        }
    }

    pub(super) fn take_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Fails on a full disk: what adds text must not take what is left.
    pub(super) fn require_space(&self) -> Result<()> {
        self.reserve
            .as_ref()
            .map_or(Ok(()), |reserve| reserve.require())
    }

    /// Whether nothing can be changed (any more).
    pub(super) fn is_reader(&self) -> bool {
        self.read_only || self.closed.load(Ordering::Acquire)
    }

    pub(super) fn refuse_reader(&self) -> Result<()> {
        if self.is_reader() {
            return Err(Error::ReadOnly {
                path: self.path().to_path_buf(),
            });
        }
        Ok(())
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        self.refuse_reader()?;
        self.poison.check(self.path())?;
        let ownership = self.ownership.as_ref();
        ownership.map_or(Ok(()), |ownership| ownership.refuse_lost())
    }

    /// The directory of the database, as it was given.
    pub(super) fn path(&self) -> &Path {
        &self.location.path
    }

    /// Makes sure that this process is still the writer of the directory before it acknowledges a commit. If it is not, writing ends.
    pub(super) fn check_ownership(&self, durability: Durability) -> Result<()> {
        let Some(ownership) = &self.ownership else {
            return Ok(());
        };
        let checked = match durability {
            // The sync ended with it.
            Durability::Full => Ok(()),
            // The write began with it, a moment ago.
            Durability::Normal => ownership.check_path(),
            Durability::Off => ownership.check(),
        };
        if let Err(error) = &checked {
            self.poison.set(error);
        }
        checked
    }

    /// The right to change something.
    pub(super) fn writer(&self) -> Result<MutexGuard<'_, Writer>> {
        let writer = self.writer.lock();
        self.check_writable()?;
        Ok(writer)
    }

    /// The right to change something, with all commits before that durable.
    pub(super) fn change(&self) -> Result<MutexGuard<'_, Writer>> {
        let writer = self.writer()?;
        self.log.sync()?;
        Ok(writer)
    }

    pub(super) fn open_segment(
        self: &Arc<Self>,
        visible: &mut Visible,
        corpus: &str,
        id: u64,
    ) -> Result<Arc<Segment>> {
        if let Some(segment) = visible.open.get(&id).and_then(Weak::upgrade) {
            return Ok(segment);
        }
        let path = self.directory.segment(id);
        let reader = SegmentReader::open(&*self.backend, &path)?;
        if reader.header().segment_id != id || reader.header().corpus != corpus {
            return Err(Error::Corrupt {
                path,
                part: "header",
                fault: "it is the header of another segment",
            });
        }
        let shared = Arc::downgrade(self);
        let inherited = visible.inherited.remove(&id);
        let inherited = inherited.and_then(|segment| segment.upgrade());
        let segment = match inherited.filter(|segment| segment.reader.is_same(&reader)) {
            Some(segment) => {
                *segment.shared.lock() = shared;
                segment
            }
            None => Arc::new(Segment {
                id,
                reader,
                shared: Mutex::new(shared),
            }),
        };
        visible.open.insert(id, Arc::downgrade(&segment));
        Ok(segment)
    }

    /// The last handle of a segment is gone.
    pub(super) fn release(&self, segment: u64) {
        let mut visible = self.visible.lock();
        if visible.is_open(segment) {
            return; // opened anew between the last drop and here
        }
        visible.open.remove(&segment);
        let corpus = (visible.doomed.iter())
            .find_map(|(corpus, segments)| segments.contains(&segment).then_some(*corpus));
        drop(visible);
        if let Some(corpus) = corpus {
            self.remove_doomed(corpus, &[segment]);
        }
    }

    /// Removes doomed segments of a corpus, and what spoke for them. What fails is left to the next open.
    pub(super) fn remove_doomed(&self, corpus: u64, segments: &[u64]) {
        if self.is_reader() {
            return; // the writer decides what is removed
        }
        for &segment in segments {
            let path = self.directory.segment(segment);
            match self.backend.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!("{}: cannot remove: {}", PathText(&path), IoReason(&error));
                    return;
                }
                _ => {}
            }
        }
        self.remove_indexes(segments);
        // A tombstone, or the record of their replacement, speaks for them until they are gone for good.
        if !segments.is_empty() && self.directory.sync(&*self.backend).is_err() {
            return;
        }
        let mut visible = self.visible.lock();
        if let Some(left) = visible.doomed.get_mut(&corpus) {
            left.retain(|segment| !segments.contains(segment));
            if left.is_empty() {
                visible.doomed.remove(&corpus);
            }
        }
        drop(visible);
        self.tidy();
    }

    /// Removes log files that are not needed and tombstones without segments or records. What fails is left to the
    /// next open.
    pub(super) fn tidy(&self) {
        if self.untidy || self.is_reader() {
            return;
        }
        let _tidying = self.tidying.lock();
        if let Err(error) = self.log.remove_files(|file| self.visible.lock().need(file)) {
            tracing::warn!("the record log could not be cleaned up: {error}");
        }
        let visible = self.visible.lock();
        let idle = |corpus: &u64| !visible.doomed.contains_key(corpus);
        let tombstones: Vec<u64> = visible.buried.iter().copied().filter(idle).collect();
        drop(visible);
        for corpus in tombstones {
            if !self.log.mentions(corpus) {
                let _ = self.backend.remove(&self.directory.tombstone(corpus));
                self.visible.lock().buried.remove(&corpus);
            }
        }
        if let Some(reserve) = &self.reserve {
            let _ = reserve.refill();
        }
    }
}

impl Writer {
    /// Runs the part of a change that must not be left half done. If it fails nothing more is written: what is on
    /// disk is decided by the next open.
    pub(super) fn change(
        &mut self,
        run: impl FnOnce(Option<&mut Registry>) -> Result<()>,
    ) -> Result<()> {
        let changed = run(self.registry.as_mut());
        if let Err(error) = &changed {
            self.poison.set(error);
        }
        changed
    }
}

impl Visible {
    pub(super) fn corpus(&self, name: &str) -> Result<&CorpusRecord> {
        let mut matches = self
            .corpora
            .values()
            .filter(|record| record.answers_to(name));
        matches.next().ok_or_else(|| Error::NoSuchCorpus {
            corpus: name.to_owned(),
            missing: None,
        })
    }

    /// Whether a handle of a segment is held.
    pub(super) fn is_open(&self, segment: u64) -> bool {
        // Counting and not upgrading: a handle dropped here would take the lock again.
        self.open
            .get(&segment)
            .is_some_and(|handle| handle.strong_count() > 0)
    }

    /// Notes segments of a corpus that are not live any more; returns those without a handle, which can be removed.
    pub(super) fn doom(&mut self, corpus: u64, segments: &[u64]) -> Vec<u64> {
        if !segments.is_empty() {
            self.doomed.entry(corpus).or_default().extend(segments);
        }
        let segments = segments.iter().copied();
        segments.filter(|id| !self.is_open(*id)).collect()
    }

    /// Whether a file of the log holds records that are not merged, or of a corpus that nothing else is known of, or
    /// says that segments which still have a file are replaced.
    pub(super) fn need(&self, file: &LogFile) -> bool {
        let unmerged = |(corpus, end): (&u64, &u64)| match self.corpora.get(corpus) {
            Some(record) => {
                let last = LogPosition {
                    file: file.number,
                    offset: *end,
                };
                record.merged_position < last
            }
            None => !self.buried.contains(corpus),
        };
        let speaks_for = |segments: &BTreeSet<u64>| !segments.is_disjoint(&file.replaced);
        file.corpora.iter().any(unmerged) || self.doomed.values().any(speaks_for)
    }
}

impl Segment {
    /// Its number, unique in the database.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Deref for Segment {
    type Target = SegmentReader;

    fn deref(&self) -> &SegmentReader {
        &self.reader
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let shared = self.shared.lock().upgrade();
        if let Some(shared) = shared {
            shared.release(self.id);
        }
    }
}

pub(super) fn store_corpora(
    registry: Option<&mut Registry>,
    corpora: &Corpora,
    log: &Log,
) -> Result<()> {
    registry.map_or(Ok(()), |registry| registry.store(corpora, log.durable()))
}
