//! Builds the file of an index of a segment, of any kind.

use std::sync::atomic::AtomicBool;

use zipfdb_storage::{IndexKind, IndexRecord};

use super::ngram_index::NgramIndex;
use super::occurrence_index::OccurrenceIndex;
use super::postings::PostingsIndex;
use super::segment_view::SegmentView;
use super::stored_index::IndexContent;
use super::suffix_index::SuffixIndex;
use crate::Result;

impl SegmentView {
    /// Builds the file of an index.
    ///
    /// # Errors
    /// If the segment is damaged, the file cannot be written, the index was dropped, or `stop` is set.
    pub(crate) fn build_index(&self, record: &IndexRecord, stop: &AtomicBool) -> Result<()> {
        let Some(segment) = self.stored_segment() else {
            return Ok(());
        };
        let write = match record.kind {
            IndexKind::Postings => PostingsIndex::write,
            IndexKind::Occurrences => OccurrenceIndex::write,
            IndexKind::Suffixes => SuffixIndex::write,
            IndexKind::Ngrams => NgramIndex::write,
        };
        segment.write_index(record, |writer| write(self, record, writer, stop))
    }
}
