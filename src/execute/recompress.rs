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
        recompress(self, progress, &self.shared().runtime.interrupt())
    }
}

/// Merges everything of a corpus; none if there is nothing to merge.
pub(crate) fn recompress(
    corpus: &Corpus,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<Option<Recompression>> {
    let shared = corpus.shared();
    let writing = shared.writing(interrupt)?;
    let id = writing.store.corpus(corpus.name())?.id;
    let done = interrupt.attend(|stop| {
        recompress::recompress(
            &writing,
            &shared.runtime.pool,
            corpus.name(),
            Scope::All,
            progress,
            stop,
            &|| interrupt.check(),
        )
    })?;
    shared.background.recompressed(&writing, id);
    complete_indexes_until(&writing, corpus.name(), progress, interrupt);
    Ok(done)
}
