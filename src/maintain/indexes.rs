//! Builds indexes: the file of each index beside each segment of a corpus.
//!
//! Invariant: a file is complete when it has its name, so building may be ended and resumed at any point. Answers do not depend
//! on indexes, so no query waits for one to be built.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::ThreadPool;
use zipfdb_storage::IndexRecord;

use crate::Error;
use crate::Result;
use crate::engine::core::Core;
use crate::ingest::Progress;
use crate::runtime::interrupt::{Interrupt, check};
use crate::segment::{LiveSegment, SegmentView};

/// Builds the missing indexes of a corpus, segment by segment, in `pool`; with `is_thorough` also damaged ones. Units of progress
/// are bytes of text.
///
/// # Errors
/// If a segment is damaged, the disk is full, the corpus or an index was dropped, or `stop` is set; finished files stay.
pub(crate) fn build_indexes(
    core: &Core,
    pool: &ThreadPool,
    corpus: &str,
    is_thorough: bool,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<()> {
    // Files in the making have one name, and another thread may build the same ones.
    let _one = core.runtime.indexing.wait_while(|| check(stop))?;
    let missing = missing_indexes(core, corpus, is_thorough)?;
    if missing.is_empty() {
        return Ok(());
    }
    let bytes = missing.iter().map(|(live, _)| live.text_bytes()).sum();
    progress.begin("index", bytes);
    for (live, record) in missing {
        check(stop)?;
        pool.install(|| build(&live, &record, stop))?;
        progress.advance(live.text_bytes());
    }
    progress.end();
    Ok(())
}

/// As [`complete_indexes`], until `interrupt` ends it.
pub(crate) fn complete_indexes_until(
    core: &Core,
    corpus: &str,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) {
    if core.indexes_of_name(corpus).is_empty() {
        return;
    }
    let attended = interrupt.attend(|stop| {
        complete_indexes(core, &core.runtime.pool, corpus, progress, stop);
        Ok(())
    });
    if let Err(error) = attended {
        warn_incomplete(corpus, &error);
    }
}

fn warn_incomplete(corpus: &str, error: &Error) {
    tracing::warn!(
        "indexes of {corpus:?} are not complete, queries go on without: {error}; \
         hint: CREATE INDEX IF NOT EXISTS builds what is missing"
    );
}

/// Builds the missing indexes of a corpus whose segments have changed; a failure is a warning.
pub(crate) fn complete_indexes(
    core: &Core,
    pool: &ThreadPool,
    corpus: &str,
    progress: &dyn Progress,
    stop: &AtomicBool,
) {
    match build_indexes(core, pool, corpus, false, progress, stop) {
        Ok(()) | Err(Error::Interrupted) => {}
        Err(error) => warn_incomplete(corpus, &error),
    }
}

/// The segments of a corpus, each with an index that has no file for it; with `is_thorough` no undamaged one. Segments of packed
/// text are left out: they are replaced soon.
pub(crate) fn missing_indexes(
    core: &Core,
    corpus: &str,
    is_thorough: bool,
) -> Result<Vec<(Arc<LiveSegment>, IndexRecord)>> {
    let records = core.indexes_of(core.store.corpus(corpus)?.id);
    if records.is_empty() {
        return Ok(Vec::new());
    }
    let (_, stored) = core.stored_view(corpus)?;
    let mut missing = Vec::new();
    for live in stored.segments().iter().filter(|live| !live.is_packed()) {
        let lacking = (records.iter()).filter(|record| !live.has_index_file(record, is_thorough));
        missing.extend(lacking.map(|record| (live.clone(), record.clone())));
    }
    Ok(missing)
}

fn build(live: &Arc<LiveSegment>, record: &IndexRecord, stop: &AtomicBool) -> Result<()> {
    SegmentView::of(live).build_index(record, stop)?;
    live.reopen_index(record);
    Ok(())
}
