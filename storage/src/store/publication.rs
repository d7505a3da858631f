//! Publishing new segments of a corpus, all or none, beside the live ones or in their place.
//!
//! Invariant: until [`Publication::commit`] has renamed the last of its files, nothing of a publication counts; after
//! the directory is synced, all of it does. One that replaces segments counts as soon as the log says so: its files
//! are complete by then, and the next open renames them. The builders of segments write them to the paths handed out
//! here.

use std::path::PathBuf;
use std::sync::Arc;

use crate::catalog::CorpusRecord;
use crate::error::io_error;
use crate::log::{LogPosition, Merge};
use crate::segment::{SegmentHeader, SegmentReader};
use crate::store::directory::temporary;
use crate::store::shared::{Shared, store_corpora};
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
    recompression: Option<Recompression>,
}

/// What a publication takes away.
#[derive(Debug)]
struct Recompression {
    /// Segments it replaces.
    replaced: Vec<u64>,
    /// The records it contains.
    merged: LogPosition,
}

impl Publication {
    pub(super) fn new(shared: Arc<Shared>, corpus: CorpusRecord) -> Publication {
        let id = shared.take_id();
        Publication {
            shared,
            corpus,
            id,
            headers: Vec::new(),
            recompression: None,
        }
    }

    pub(super) fn replacing(mut self, replaced: &[u64], merged: LogPosition) -> Publication {
        let replaced = replaced.to_vec();
        self.recompression = Some(Recompression { replaced, merged });
        self
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
            settings: self.corpus.settings.of_segments(),
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

    /// Publishes the segments: they are visible, and durable, when it returns. One without segments that replaces none
    /// does nothing.
    ///
    /// Files of replaced segments go with the last handle of each, and log files that are not needed any more with
    /// them.
    ///
    /// # Errors
    /// [`Error::Invalid`] if no segment was the last, if a replaced segment is not live, or if more is merged already;
    /// [`Error::NoSuchCorpus`] if the corpus was dropped meanwhile; those of [`SegmentReader::open`] if a segment was
    /// not written whole: then nothing has happened. [`Error::Io`] from the publication itself: nothing is visible, the
    /// store is poisoned, and the next open finds either all of the segments or none.
    pub fn commit(self) -> Result<()> {
        self.commit_with(|show| show())
    }

    /// As [`Publication::commit`]; `around` calls what it is given, once, which makes the segments visible to this process
    /// and takes but a moment. They are durable by then, and files that went with them are removed afterwards.
    ///
    /// # Errors
    /// As [`Publication::commit`].
    pub fn commit_with(mut self, around: impl FnOnce(&mut dyn FnMut())) -> Result<()> {
        match self.headers.last() {
            Some(last) if !last.publication_last => {
                return Err(invalid("no segment is the last one"));
            }
            None if self.recompression.is_none() => return Ok(()),
            _ => {}
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

        let mut writer = shared.change()?;
        let mut corpora = shared.visible.lock().corpora.clone();
        let record = corpora
            .get_mut(&self.corpus.id)
            .ok_or_else(|| Error::NoSuchCorpus {
                corpus: self.corpus.name.clone(),
                missing: None,
            })?;
        let merge = match &self.recompression {
            Some(recompression) => Some(self.merge(record, recompression)?),
            None => None,
        };
        let replaced = merge.as_ref().map_or(&[][..], |merge| &merge.replaced);
        record.segments.retain(|id| !replaced.contains(id));
        (record.segments).extend(self.headers.iter().map(|header| header.segment_id));
        record.segments.sort_unstable();
        if let Some(merge) = &merge {
            record.merged_position = merge.position;
        }
        writer.change(|registry| {
            let mut renamed = Vec::new();
            if let Some(merge) = &merge {
                // The names they have now must outlast a power cut: from here on the log may speak for the files, even
                // if that fails.
                directory.write_marker(backend, &corpora[&merge.corpus])?;
                directory.sync(backend)?;
                renamed = std::mem::take(&mut self.headers);
                shared.log.append_merge(merge)?;
            }
            for header in renamed.iter().chain(&self.headers) {
                let path = directory.segment(header.segment_id);
                backend
                    .rename(&temporary(&path), &path)
                    .map_err(io_error(&path, "rename"))?;
            }
            if let Some(merge) = &merge {
                // Last: it says that there are no more temporary names.
                directory.place_marker(backend, merge.corpus)?;
            }
            directory.sync(backend)?;
            self.headers.clear();
            store_corpora(registry, &corpora, &shared.log)
        })?;
        let mut idle = Vec::new();
        around(&mut || {
            let mut visible = shared.visible.lock();
            visible.corpora = std::mem::take(&mut corpora);
            idle = visible.doom(self.corpus.id, replaced);
        });
        if merge.is_some() {
            shared.remove_doomed(self.corpus.id, &idle);
        }
        Ok(())
    }

    /// The record of a recompression for the log, if it still fits the corpus.
    fn merge(&self, record: &CorpusRecord, recompression: &Recompression) -> Result<Merge> {
        let replaced = &recompression.replaced;
        if !replaced.iter().all(|id| record.segments.contains(id)) {
            return Err(invalid("a replaced segment is not live"));
        }
        if recompression.merged < record.merged_position {
            return Err(invalid("more of the log is merged already"));
        }
        Ok(Merge {
            corpus: record.id,
            publication: self.id,
            position: recompression.merged,
            added: (self.headers.iter())
                .map(|header| header.segment_id)
                .collect(),
            replaced: replaced.clone(),
        })
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
