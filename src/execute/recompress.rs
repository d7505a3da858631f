//! RECOMPRESS: all edits and segments of a corpus become new segments now.

use crate::api::corpus::Corpus;
use crate::maintain::indexes::complete_indexes_until;
use crate::maintain::recompress::{self, Recompression, Scope};
use crate::runtime::interrupt::Interrupt;
use crate::{Progress, Result};

impl Corpus {
    /// Merges all edits and segments into new segments: those that one import of the current files would make. None if they
    /// are so already.
    ///
    /// Readers and writers go on meanwhile.
    ///
    /// # Errors
    /// If the corpus has been dropped, a segment is damaged, the disk is full or the database cannot be written. Nothing has
    /// changed then.
    pub fn recompress(&self, progress: &dyn Progress) -> Result<Option<Recompression>> {
        self.recompress_until(progress, &self.shared().runtime.interrupt())
    }

    /// The same, in work that has begun.
    pub(crate) fn recompress_until(
        &self,
        progress: &dyn Progress,
        interrupt: &Interrupt,
    ) -> Result<Option<Recompression>> {
        let shared = self.shared();
        let writing = shared.writing(interrupt)?;
        let id = writing.store.corpus(self.name())?.id;
        let done = interrupt.attend(|stop| {
            recompress::recompress(
                &writing,
                &shared.runtime.pool,
                self.name(),
                Scope::All,
                progress,
                stop,
                &|| interrupt.check(),
            )
        })?;
        shared.background.recompressed(&writing, id);
        complete_indexes_until(&writing, self.name(), progress, interrupt);
        Ok(done)
    }
}
