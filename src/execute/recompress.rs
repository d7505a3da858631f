//! RECOMPRESS: all edits and segments of a corpus become new segments now.

use crate::Result;
use crate::handles::corpus::Corpus;
use crate::ingest::Progress;
use crate::maintain::indexes::complete_indexes_until;
use crate::maintain::recompress::{self, Recompression, Scope};
use crate::runtime::interrupt::Interrupt;

/// Merges all edits and segments of a corpus, and builds the indexes of the new segments.
pub(crate) fn recompress(
    corpus: &Corpus,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<Option<Recompression>> {
    let (shared, name) = (corpus.shared(), corpus.name());
    let writing = shared.writing(interrupt)?;
    let id = writing.store.corpus(name)?.id;
    let done = interrupt.attend(|stop| {
        recompress::recompress(
            &writing,
            &shared.runtime.pool,
            name,
            Scope::All,
            progress,
            stop,
            &|| interrupt.check(),
        )
    })?;
    shared.background.recompressed(&writing, id);
    complete_indexes_until(&writing, name, progress, interrupt);
    Ok(done)
}
