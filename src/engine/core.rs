//! `Core`: one open directory of corpora, the decoded parts of its segments, and edits that are not merged yet.
//!
//! Invariant: a live segment is opened once. All queries share its derived structures.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use zipfdb_storage::{CorpusRecord, IndexRecord, LogPosition, Segment, Store};

use crate::Result;
use crate::answer::StoredView;
use crate::engine::failures::Failures;
use crate::overlay::edits::Edits;
use crate::runtime::Runtime;
use crate::segment::LiveSegment;
use crate::segment::cache::Cache;

/// The part of an open database that recompression in the background needs.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) runtime: Arc<Runtime>,
    /// The failures of recompressions in the background.
    pub(crate) failures: Failures,
    /// The segments of each corpus, by name, with their decoded parts.
    stored: Mutex<HashMap<String, Arc<StoredView>>>,
    pub(crate) edits: Edits,
    /// The position up to which the log is in `edits`.
    taken_up: Mutex<LogPosition>,
    /// The decoded parts and derived structures of segments.
    pub(crate) cache: Arc<Cache>,
}

impl Core {
    pub(crate) fn new(store: Store, runtime: Arc<Runtime>, cache: Arc<Cache>) -> Core {
        Core {
            store,
            runtime,
            cache,
            failures: Failures::default(),
            stored: Mutex::default(),
            edits: Edits::default(),
            taken_up: Mutex::default(),
        }
    }

    /// Another store of the directory of `previous`, with the decoded parts of the segments that both have, and its edits if they
    /// are the same.
    pub(crate) fn following(previous: &Core, store: Store) -> Core {
        store.inherit(&previous.store);
        let sequence = previous.store.sequence();
        // An opening for writing may complete work that a crash interrupted. The log begins at its first file again when the
        // corpus with the highest merged position was dropped: new commits would be taken for replayed ones. A copy of the
        // directory that is restored in its place may have the same manifest and another log.
        let is_continued = sequence.is_some()
            && store.sequence() == sequence
            && store.corpora() == previous.store.corpora()
            && store.log_position() >= *previous.taken_up.lock()
            && store.continues(&previous.store);
        let core = Core::new(store, previous.runtime.clone(), previous.cache.clone());
        *core.stored.lock() = previous.stored.lock().clone();
        if is_continued {
            core.edits.take_over(&previous.edits);
            *core.taken_up.lock() = *previous.taken_up.lock();
        }
        core
    }

    /// Marks the whole log as applied: every commit so far went through `edits`.
    pub(crate) fn note_taken_up(&self) {
        *self.taken_up.lock() = self.store.log_position();
    }

    /// Drops what is in memory of a corpus.
    pub(crate) fn forget(&self, record: &CorpusRecord) {
        self.stored.lock().remove(&record.name);
        self.edits.forget(record.id);
        self.failures.clear(record.id);
    }

    /// A corpus and its segments at one moment, without edits. Reads file tables.
    pub(crate) fn stored_view(&self, name: &str) -> Result<(CorpusRecord, Arc<StoredView>)> {
        let (record, segments) = self.store.open_corpus(name)?;
        let known = self.stored.lock().get(&record.name).cloned();
        let mut kept: HashMap<u64, Arc<LiveSegment>> = HashMap::new();
        if let Some(known) = known {
            if is_of(&known, &segments) {
                return Ok((record, known.again()));
            }
            let views = known.segments().iter();
            kept.extend(views.map(|view| (view.id(), view.clone())));
        }
        let indexes = self.indexes_of(record.id);
        let views = segments.iter().map(|segment| {
            let known = kept.remove(&segment.id());
            let known = known.filter(|live| live.is_of(segment));
            known.unwrap_or_else(|| {
                let threads = self.runtime.devices.threads();
                let live = LiveSegment::new(segment.clone(), threads, &self.cache);
                live.set_indexes(&indexes);
                Arc::new(live)
            })
        });
        let (name, views) = (record.name.clone(), views.collect());
        let devices = self.runtime.devices.clone();
        // The construction is not parallel, so it need not wait for the pool.
        let stored = Arc::new(StoredView::new(name, views, devices, &self.cache)?);
        let mut newest = self.stored.lock();
        if let Some(other) = newest.get(&record.name)
            && is_of(other, &segments)
        {
            // Another thread was first; its derived structures serve all.
            return Ok((record, other.again()));
        }
        newest.insert(record.name.clone(), stored.again());
        drop(newest);
        Ok((record, stored))
    }

    /// The indexes of a corpus; none if their list is damaged, as queries work without indexes.
    pub(crate) fn indexes_of(&self, corpus: u64) -> Vec<IndexRecord> {
        let records = self.store.indexes().unwrap_or_else(|error| {
            let warning = format!("no index is used: {error}");
            self.runtime.warnings.warn(self.store.path(), warning);
            Vec::new()
        });
        let records = records.into_iter();
        records.filter(|record| record.corpus == corpus).collect()
    }

    /// As [`Core::indexes_of`], by name; none if the corpus is gone.
    pub(crate) fn indexes_of_name(&self, corpus: &str) -> Vec<IndexRecord> {
        let record = self.store.corpus(corpus);
        record.map_or_else(|_| Vec::new(), |record| self.indexes_of(record.id))
    }

    /// Gives the open segments of a corpus its current indexes.
    pub(crate) fn attach_indexes(&self, record: &CorpusRecord) {
        let indexes = self.indexes_of(record.id);
        let stored = self.stored.lock().get(&record.name).cloned();
        for live in stored.iter().flat_map(|stored| stored.segments()) {
            live.set_indexes(&indexes);
        }
    }

    /// Applies the edits in the log that were not applied before.
    ///
    /// # Errors
    /// If the log or a segment is damaged.
    pub(crate) fn replay(&self) -> Result<()> {
        let names = self.store.corpora().into_iter();
        let names: HashMap<u64, String> = names.map(|record| (record.id, record.name)).collect();
        let (after, end) = (*self.taken_up.lock(), self.store.log_position());
        self.edits.replay(&self.store, after, |corpus| {
            // The log holds records of live corpora only, and no writer has begun.
            let (record, stored) = self.stored_view(&names[&corpus])?;
            Ok((stored, record.segments.into()))
        })?;
        *self.taken_up.lock() = end;
        Ok(())
    }
}

/// Whether a view is of exactly these segments.
fn is_of(view: &StoredView, segments: &[Arc<Segment>]) -> bool {
    let live = view.segments();
    live.len() == segments.len()
        && live
            .iter()
            .zip(segments)
            .all(|(live, segment)| live.is_of(segment))
}
