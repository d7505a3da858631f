//! The indexes of a segment, and their files once they are needed.
//!
//! Invariant: a file that is returned is of this segment and index. A missing or damaged one is given up with a warning, and
//! queries continue without it; CREATE INDEX IF NOT EXISTS or the next recompression builds it anew. Temporary indexes, which no
//! statement made, are read behind the others and listed nowhere. The content of files is not known here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use zipfdb_storage::{IndexHeader, IndexKind, IndexReader, IndexRecord, Segment};

/// The indexes of a live segment.
#[derive(Default)]
pub(crate) struct SegmentIndexes {
    all: RwLock<Vec<Arc<SegmentIndex>>>,
    /// In temporary files.
    temporary: RwLock<Vec<Arc<SegmentIndex>>>,
    /// A bit for each kind of which there may be an index: tested before each look-up.
    kinds: AtomicU8,
}

/// An index of a segment, with its file if that is open.
pub(crate) struct SegmentIndex {
    pub(crate) record: IndexRecord,
    /// Opened at first use; none if it is missing or damaged.
    file: Mutex<IndexFile>,
    /// The number of queries that have read it.
    uses: AtomicU64,
}

enum IndexFile {
    Unopened,
    Open(Arc<IndexReader>),
    /// Missing, or damaged.
    GivenUp,
}

impl SegmentIndexes {
    /// Sets the indexes. The state of those that were there before is kept.
    pub(super) fn set(&self, records: &[IndexRecord]) {
        let mut all = self.all.write();
        let known = std::mem::take(&mut *all);
        let index = |record: &IndexRecord| {
            let mut known = known.iter();
            let known = known.find(|index| index.record == *record);
            known.cloned().unwrap_or_else(|| {
                Arc::new(SegmentIndex {
                    record: record.clone(),
                    file: Mutex::new(IndexFile::Unopened),
                    uses: AtomicU64::new(0),
                })
            })
        };
        *all = records.iter().map(index).collect();
        self.note_kinds(&all);
    }

    /// Opens the new file of an index at its next use.
    pub(super) fn reopen(&self, record: &IndexRecord) {
        let all = self.all.read();
        if let Some(index) = all.iter().find(|index| index.record == *record) {
            *index.file.lock() = IndexFile::Unopened;
        }
        self.note_kinds(&all);
    }

    /// Adds an index in a temporary file.
    pub(super) fn add_temporary(&self, reader: IndexReader) {
        let index = SegmentIndex {
            record: reader.header().record.clone(),
            file: Mutex::new(IndexFile::Open(Arc::new(reader))),
            uses: AtomicU64::new(0),
        };
        self.temporary.write().push(Arc::new(index));
        self.note_kinds(&self.all.read());
    }

    fn note_kinds(&self, all: &[Arc<SegmentIndex>]) {
        let temporary = self.temporary.read();
        let kinds = all.iter().chain(&*temporary);
        let kinds = kinds.map(|index| bit_of(index.record.kind));
        let kinds = kinds.fold(0, |kinds, kind| kinds | kind);
        self.kinds.store(kinds, Ordering::Relaxed);
    }

    /// All indexes, in the order of [`SegmentIndexes::set`].
    pub(super) fn all(&self) -> Vec<Arc<SegmentIndex>> {
        self.all.read().clone()
    }

    /// The indexes of a kind, those in temporary files last.
    pub(super) fn of_kind(&self, kind: IndexKind) -> Vec<Arc<SegmentIndex>> {
        let (all, temporary) = (self.all.read(), self.temporary.read());
        let indexes = all.iter().chain(&*temporary);
        (indexes.filter(|index| index.record.kind == kind).cloned()).collect()
    }

    /// Whether there may be an index of a kind.
    #[inline]
    pub(super) fn has(&self, kind: IndexKind) -> bool {
        self.kinds.load(Ordering::Relaxed) & bit_of(kind) != 0
    }

    /// Stops using the indexes of a kind.
    pub(super) fn forget(&self, kind: IndexKind) {
        self.kinds.fetch_and(!bit_of(kind), Ordering::Relaxed);
    }
}

fn bit_of(kind: IndexKind) -> u8 {
    // There are four kinds, from 1 on.
    1 << (kind as u8)
}

impl SegmentIndex {
    /// The header of the segment's file, and its size; none if it is missing or damaged.
    pub(super) fn header(&self, segment: &Segment) -> Option<(IndexHeader, u64)> {
        let reader = self.reader(segment)?;
        Some((reader.header().clone(), reader.size()))
    }

    /// The number of queries that have read it.
    pub(crate) fn uses(&self) -> u64 {
        self.uses.load(Ordering::Relaxed)
    }

    /// Counts a query that has read it.
    pub(super) fn note_use(&self) {
        self.uses.fetch_add(1, Ordering::Relaxed);
    }

    /// The file of the segment; none if it is missing or damaged.
    pub(super) fn reader(&self, segment: &Segment) -> Option<Arc<IndexReader>> {
        let mut file = self.file.lock();
        if let IndexFile::Unopened = *file {
            *file = match segment.index(&self.record) {
                Ok(Some(reader)) => IndexFile::Open(Arc::new(reader)),
                Ok(None) => IndexFile::GivenUp,
                Err(error) => {
                    self.warn(&error);
                    IndexFile::GivenUp
                }
            };
        }
        match &*file {
            IndexFile::Open(reader) => Some(reader.clone()),
            IndexFile::Unopened | IndexFile::GivenUp => None,
        }
    }

    /// Gives up a damaged file.
    pub(super) fn give_up(&self, error: &dyn std::fmt::Display) {
        self.warn(error);
        *self.file.lock() = IndexFile::GivenUp;
    }

    fn warn(&self, error: &dyn std::fmt::Display) {
        tracing::warn!(
            "index `{}` is not used: {error}; hint: CREATE INDEX IF NOT EXISTS builds it anew",
            self.record.name
        );
    }
}
