//! `Core`: one open directory of corpora, what was decoded of its segments, and edits that are not merged yet.
//!
//! Invariant: a live segment is opened once. All queries share what was derived of it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use zipfdb_storage::{CorpusRecord, Store};

use crate::Result;
use crate::answer::StoredView;
use crate::maintain::failures::Failures;
use crate::overlay::edits::Edits;
use crate::runtime::Runtime;
use crate::segment::LiveSegment;
use crate::segment::cache::Cache;

/// An open database, as far as recompression in the background needs it.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) runtime: Arc<Runtime>,
    /// What cannot be recompressed in the background.
    pub(crate) failures: Failures,
    /// The segments of each corpus, by name, with what was decoded of them.
    stored: Mutex<HashMap<String, Arc<StoredView>>>,
    pub(crate) edits: Edits,
    /// What was decoded and derived of segments.
    pub(crate) cache: Arc<Cache>,
}

impl Core {
    pub(crate) fn new(store: Store, runtime: Arc<Runtime>) -> Core {
        let limit = runtime.settings.lock().memory_limit();
        Core {
            store,
            runtime,
            cache: Arc::new(Cache::new(limit)),
            failures: Failures::default(),
            stored: Mutex::default(),
            edits: Edits::default(),
        }
    }

    /// Forgets what is in memory of a corpus.
    pub(crate) fn forget(&self, record: &CorpusRecord) {
        self.stored.lock().remove(&record.name);
        self.edits.forget(record.id);
        self.failures.clear(record.id);
    }

    /// A corpus and its segments as they are at one moment, without edits. Reads file tables.
    pub(crate) fn stored_view(&self, name: &str) -> Result<(CorpusRecord, Arc<StoredView>)> {
        let (record, segments) = self.store.open_corpus(name)?;
        let known = self.stored.lock().get(&record.name).cloned();
        let mut kept: HashMap<u64, Arc<LiveSegment>> = HashMap::new();
        if let Some(known) = known {
            let ids = known.segments().iter().map(|segment| segment.id());
            if ids.eq(record.segments.iter().copied()) {
                return Ok((record, known.again()));
            }
            let views = known.segments().iter();
            kept.extend(views.map(|view| (view.id(), view.clone())));
        }
        let views = segments.into_iter().map(|segment| {
            let known = kept.remove(&segment.id());
            known.unwrap_or_else(|| {
                Arc::new(LiveSegment::new(
                    segment,
                    self.runtime.devices.threads(),
                    &self.cache,
                ))
            })
        });
        let (name, views) = (record.name.clone(), views.collect());
        let devices = self.runtime.devices.clone();
        // Nothing in it is parallel, so it need not wait for the pool.
        let stored = Arc::new(StoredView::new(name, views, devices, &self.cache)?);
        let mut newest = self.stored.lock();
        if let Some(other) = newest.get(&record.name) {
            let ids = other.segments().iter().map(|segment| segment.id());
            if ids.eq(record.segments.iter().copied()) {
                // Another thread was first; what is derived serves all.
                return Ok((record, other.again()));
            }
        }
        newest.insert(record.name.clone(), stored.again());
        drop(newest);
        Ok((record, stored))
    }

    /// Takes up the edits that the log has.
    ///
    /// # Errors
    /// If it or a segment is damaged.
    pub(crate) fn replay(&self) -> Result<()> {
        let names = self.store.corpora().into_iter();
        let names: HashMap<u64, String> = names.map(|record| (record.id, record.name)).collect();
        self.edits.replay(&self.store, |corpus| {
            // The log holds records of live corpora only, and no writer has begun.
            let (record, stored) = self.stored_view(&names[&corpus])?;
            Ok((stored, record.segments.into()))
        })
    }
}
