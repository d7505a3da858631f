//! `Shared`: what the handles of one open database share.

use std::collections::HashMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use zipfdb_storage::CorpusRecord;

use crate::Result;
use crate::answer::CorpusView;
use crate::engine::core::Core;
use crate::handles::opened::{Opened, Writing};
use crate::handles::statement_cache::StatementCache;
use crate::overlay::Overlay;
use crate::runtime::interrupt::Interrupt;

/// The state that the handles of one open database share. When the last handle is dropped, recompression in the background ends.
pub(crate) struct Shared {
    opened: Arc<Opened>,
    in_memory: bool,
    /// The newest view of each corpus, by name: the next query uses what the last one derived.
    pub(crate) views: Mutex<HashMap<String, Arc<CorpusView>>>,
    pub(crate) parsed: StatementCache,
}

impl Deref for Shared {
    type Target = Opened;

    fn deref(&self) -> &Opened {
        &self.opened
    }
}

impl Shared {
    pub(crate) fn new(opened: Arc<Opened>, in_memory: bool) -> Shared {
        Shared {
            opened,
            in_memory,
            views: Mutex::default(),
            parsed: StatementCache::default(),
        }
    }

    /// As `Opened::writing`.
    pub(crate) fn writing(&self, interrupt: &Interrupt) -> Result<Writing> {
        self.opened.writing(interrupt)
    }

    /// Checks that the database can be written, and waits while far more of one of the corpora is pending than a writer may
    /// leave.
    ///
    /// # Errors
    /// `ReadOnly`, and that of `interrupt`.
    pub(crate) fn hold(
        &self,
        core: &Core,
        corpora: impl IntoIterator<Item = CorpusRecord>,
        interrupt: &Interrupt,
    ) -> Result<()> {
        core.store.check_writable()?;
        for record in corpora {
            self.background.hold(core, &record, interrupt)?;
        }
        Ok(())
    }

    /// Drops what is in memory of a dropped corpus.
    pub(crate) fn dropped(&self, core: &Core, record: &CorpusRecord) {
        self.views.lock().remove(&record.name);
        core.forget(record);
        self.background.cancel(record.id);
    }

    /// As `Background::refuse_if_held`.
    pub(crate) fn refuse_if_held(
        &self,
        core: &Arc<Core>,
        record: &CorpusRecord,
        overlay: &Overlay,
    ) -> Result<()> {
        self.background.refuse_if_held(core, record, overlay)
    }

    /// The directory of the database; none if it lives in memory.
    pub(crate) fn directory(&self) -> Option<PathBuf> {
        (!self.in_memory).then(|| self.core().store.path().to_path_buf())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.opened.close();
    }
}
