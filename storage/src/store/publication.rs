//! Publishing new segments of a corpus, all or none.
//!
//! Invariant: until [`Publication::commit`] has renamed the last of its files, nothing of a publication counts; after
//! the directory is synced, all of it does. Segments are written by whoever builds them, to the paths handed out here.

use std::path::PathBuf;
use std::sync::Arc;

use crate::catalog::CorpusRecord;
use crate::segment::{SegmentHeader, SegmentReader};
use crate::store::directory::temporary;
use crate::store::{Shared, io_error, store_catalog};
use crate::{Error, Result};

/// New segments of a corpus that are not visible yet. Dropped without [`Publication::commit`], its files are removed.
///
/// The store stays open, and locked, as long as a publication of it lives.
#[derive(Debug)]
pub struct Publication {
    shared: Arc<Shared>,
    corpus: CorpusRecord,
    id: u64,
    /// The headers handed out. Empty once the files are no longer ours to remove.
    headers: Vec<SegmentHeader>,
}

impl Publication {
    pub(super) fn new(shared: Arc<Shared>, corpus: CorpusRecord) -> Publication {
        let id = shared.take_id();
        Publication {
            shared,
            corpus,
            id,
            headers: Vec::new(),
        }
    }

    /// The corpus as it was when the publication began.
    pub fn corpus(&self) -> &CorpusRecord {
        &self.corpus
    }

    /// The header and the path for one more segment; `last` for the last one.
    ///
    /// Write it with [`crate::SegmentWriter::write`] and the store's backend; segments may be written in any order, in
    /// parallel.
    ///
    /// # Errors
    /// [`Error::Invalid`] after the last one.
    pub fn next_segment(
        &mut self,
        unicode_version: (u8, u8, u8),
        last: bool,
    ) -> Result<(SegmentHeader, PathBuf)> {
        if self
            .headers
            .last()
            .is_some_and(|header| header.publication_last)
        {
            return Err(invalid("a segment follows the last one"));
        }
        let index = u32::try_from(self.headers.len()).map_err(|_| invalid("too many segments"))?;
        let header = SegmentHeader {
            corpus: self.corpus.name.clone(),
            settings: self.corpus.settings.clone(),
            segment_id: self.shared.take_id(),
            unicode_version,
            publication: self.id,
            publication_index: index,
            publication_last: last,
        };
        self.headers.push(header.clone());
        let path = temporary(&self.shared.directory.segment(header.segment_id));
        Ok((header, path))
    }

    /// Publishes the segments: they are visible, and durable, when it returns. One without segments does nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] if no segment was the last, [`Error::NoSuchCorpus`] if the corpus was dropped meanwhile, those
    /// of [`SegmentReader::open`] if a segment was not written whole: then nothing has happened. [`Error::Io`] from the
    /// publication itself: nothing is visible, the store is poisoned, and the next open finds either all of the
    /// segments or none.
    pub fn commit(mut self) -> Result<()> {
        let Some(last) = self.headers.last() else {
            return Ok(());
        };
        if !last.publication_last {
            return Err(invalid("no segment is the last one"));
        }
        let shared = Arc::clone(&self.shared);
        let (backend, directory) = (&*shared.backend, &shared.directory);
        for header in &self.headers {
            let path = temporary(&directory.segment(header.segment_id));
            if SegmentReader::open(backend, &path)?.header() != header {
                return Err(Error::Corrupt {
                    path,
                    part: "header",
                    fault: "it is not the one handed out",
                });
            }
        }

        let mut writer = shared.writer()?;
        let mut corpora = shared.visible.lock().corpora.clone();
        let record = corpora
            .get_mut(&self.corpus.id)
            .ok_or_else(|| Error::NoSuchCorpus {
                corpus: self.corpus.name.clone(),
            })?;
        (record.segments).extend(self.headers.iter().map(|header| header.segment_id));
        record.segments.sort_unstable();
        writer.change(|catalog| {
            for header in &self.headers {
                let path = directory.segment(header.segment_id);
                backend
                    .rename(&temporary(&path), &path)
                    .map_err(io_error(&path, "rename"))?;
            }
            directory.sync(backend)?;
            self.headers.clear();
            store_catalog(catalog, &corpora)
        })?;
        shared.visible.lock().corpora = corpora;
        Ok(())
    }
}

impl Drop for Publication {
    fn drop(&mut self) {
        // The last one first: without it the others mean nothing, whatever cannot be removed.
        for header in self.headers.iter().rev() {
            let path = self.shared.directory.segment(header.segment_id);
            let _ = self.shared.backend.remove(&temporary(&path));
            let _ = self.shared.backend.remove(&path);
        }
    }
}

fn invalid(fault: &'static str) -> Error {
    Error::Invalid {
        what: "publication",
        fault,
    }
}
