//! `Shared`: what the handles of one open database share.

use std::collections::HashMap;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use zipfdb_storage::CorpusRecord;

use crate::Result;
use crate::answer::CorpusView;
use crate::api::core::Core;
use crate::maintain::background::Background;
use crate::overlay::Overlay;
use crate::runtime::interrupt::Interrupt;

/// What the handles of one open database share. When the last of them goes, recompression in the background ends.
pub(crate) struct Shared {
    core: Arc<Core>,
    in_memory: bool,
    /// The newest view of each corpus, by name, so that what was derived for one query serves the next.
    pub(crate) views: Mutex<HashMap<String, Arc<CorpusView>>>,
    background: Background,
}

impl Deref for Shared {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl Shared {
    pub(crate) fn new(core: Core, in_memory: bool) -> Shared {
        Shared {
            core: Arc::new(core),
            in_memory,
            views: Mutex::default(),
            background: Background::default(),
        }
    }

    /// Makes sure that the database can be written, and waits while far more of one of the corpora is pending than a writer
    /// may leave.
    ///
    /// # Errors
    /// `ReadOnly`, and that of `interrupt`.
    pub(crate) fn hold(
        &self,
        corpora: impl IntoIterator<Item = CorpusRecord>,
        interrupt: &Interrupt,
    ) -> Result<()> {
        self.store.check_writable()?;
        for record in corpora {
            self.background.hold(&self.core, &record, interrupt)?;
        }
        Ok(())
    }

    /// Has the edits of a corpus recompressed if there are many, and waits if there are too many.
    pub(crate) fn recompress_if_due(&self, corpus: u64, interrupt: &Interrupt) {
        (self.background).recompress_if_due(&self.core, corpus, interrupt);
    }

    /// As `Background::refuse_if_held`.
    pub(crate) fn refuse_if_held(&self, record: &CorpusRecord, overlay: &Overlay) -> Result<()> {
        (self.background).refuse_if_held(&self.core, record, overlay)
    }

    /// As `Background::recompressed`.
    pub(crate) fn recompressed(&self, corpus: u64) {
        self.background.recompressed(&self.core, corpus);
    }

    /// A corpus is there no more: forgets what is in memory of it.
    pub(crate) fn dropped(&self, record: &CorpusRecord) {
        self.views.lock().remove(&record.name);
        self.core.forget(record);
        self.background.cancel(record.id);
    }

    /// The directory of the database; none if it lives in memory.
    pub(crate) fn directory(&self) -> Option<&Path> {
        (!self.in_memory).then(|| self.store.path())
    }
}
