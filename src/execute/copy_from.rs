//! COPY ... FROM: files of the operating system become new segments of a corpus.
//!
//! All or nothing: segments are written beside the live ones and published in
//! one step at the end; on any error they are removed again.

use std::path::Path;

use zipfdb_storage::SegmentWriter;

use crate::corpus::Corpus;
use crate::ingest::{OnError, Report, ingest};
use crate::sources::list_sources;
use crate::tokenize::UNICODE_VERSION;
use crate::{Error, Progress, Result};

/// Imports what `path` means.
pub(crate) fn copy_from(
    corpus: &Corpus,
    path: &Path,
    on_error: OnError,
    progress: &dyn Progress,
) -> Result<Report> {
    let shared = corpus.shared();
    let _writing = shared.writing.lock();
    let mut publication = shared.store.begin_publication(corpus.name())?;
    let listing = list_sources(path, shared.directory())?;
    let snapshot = corpus.snapshot()?;
    let known = |name: &str| snapshot.file(name).is_some();
    if let Some(source) = listing.sources.iter().find(|source| known(&source.name)) {
        return Err(Error::FileExists {
            corpus: corpus.name().to_owned(),
            file: source.name.clone(),
            path: source.path.clone(),
        });
    }
    let settings = publication.corpus().settings.clone();
    let report = shared.pool.install(|| {
        ingest(listing, &settings, on_error, progress, &mut |segment| {
            let (header, path) = publication.next_segment(UNICODE_VERSION, segment.is_last)?;
            let info = SegmentWriter::write(
                shared.store.backend(),
                &path,
                &header,
                &segment.files,
                &segment.dictionary,
                &segment.grammar,
            )?;
            Ok(info)
        })
    })?;
    publication.commit()?;
    Ok(report)
}
