//! Builds the file of an index of a segment, of any kind: beside the segment, or a temporary one for a structure that the cache has no
//! room for.
//!
//! Invariant: a temporary index answers as the structure in memory would; queries read the blocks of it that they need, and it ends
//! with the live segment. Building takes memory beyond the limit of the cache, but no more than a fixed multiple of it.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use zipfdb_storage::{IndexKind, IndexRecord, IndexWriter};

use super::build_budget::BuildBudget;
use super::live_segment::Parts;
use super::ngram_index::NgramIndex;
use super::occurrence_index::OccurrenceIndex;
use super::postings::PostingsIndex;
use super::segment_view::SegmentView;
use super::stored_index::IndexContent;
use super::suffix_index::SuffixIndex;
use crate::Result;
use crate::runtime::spill_directory::SpillDirectory;

/// The structure that is written to a temporary index may take this multiple of the limit of the cache while it is built.
const TEMPORARY_FACTOR: u64 = 4;

/// Writes the sections of an index.
type WriteIndex = fn(&SegmentView, &IndexRecord, &mut IndexWriter, &AtomicBool) -> Result<()>;

fn writer_of(kind: IndexKind) -> WriteIndex {
    match kind {
        IndexKind::Postings => PostingsIndex::write,
        IndexKind::Occurrences => OccurrenceIndex::write,
        IndexKind::Suffixes => SuffixIndex::write,
        IndexKind::Ngrams => NgramIndex::write,
    }
}

impl SegmentView {
    /// Builds the file of an index.
    ///
    /// # Errors
    /// If the segment is damaged, the file cannot be written, the index was dropped, or `stop` is set.
    pub(crate) fn build_index(&self, record: &IndexRecord, stop: &AtomicBool) -> Result<()> {
        let Some(segment) = self.stored_segment() else {
            return Ok(());
        };
        let write = writer_of(record.kind);
        segment.write_index(record, |writer| write(self, record, writer, stop))
    }

    /// Builds a temporary index of a kind if there is none of the kind, not even a damaged one, and the time that queries have spent without it equals its
    /// price of `price` nanoseconds. For a structure of `bytes` bytes that the cache has no room for.
    ///
    /// # Errors
    /// If the segment is damaged, or `stop` is set. An index that cannot be written is not there, and due again later.
    pub(crate) fn write_index_if_due(
        &self,
        kind: IndexKind,
        budget: &BuildBudget,
        price: u64,
        bytes: u64,
        stop: &AtomicBool,
    ) -> Result<()> {
        let limit = self
            .slots()
            .cache()
            .limit()
            .saturating_mul(TEMPORARY_FACTOR);
        let is_due = budget.is_due(price) && matches!(self.parts, Parts::Stored(_));
        if !is_due || bytes > limit || !self.indexes.of_kind(kind).is_empty() {
            return Ok(());
        }
        let written = budget.build_if_due(price, || self.write_temporary_index(kind, stop));
        match written {
            Err(error @ (crate::Error::Spill { .. } | crate::Error::Storage(_))) => {
                tracing::debug!("no temporary index of segment {}: {error}", self.id());
                Ok(())
            }
            written => written.map(drop),
        }
    }

    /// Writes an index of a kind to a temporary file, and uses it.
    ///
    /// # Errors
    /// If the segment is damaged, the file cannot be written, or `stop` is set.
    pub(crate) fn write_temporary_index(&self, kind: IndexKind, stop: &AtomicBool) -> Result<()> {
        let Some(segment) = self.stored_segment() else {
            return Ok(());
        };
        let record = IndexRecord {
            name: "temporary".to_owned(),
            corpus: 0,
            kind,
            codec: 0,
            unit: 0,
            is_reordered: false,
        };
        // Segments lie in a directory of the database.
        let database = segment.path().parent().and_then(Path::parent);
        let directory = SpillDirectory::beside(database);
        let file = directory.temporary_file();
        let file = file.map_err(|error| directory.failed(error))?;
        // What the index is written from ends with this view.
        let source = self.apart();
        let write = match kind {
            // The order of the words behind these costs as much again.
            IndexKind::Suffixes => SuffixIndex::write_by_eight_words,
            kind => writer_of(kind),
        };
        let reader = segment.write_temporary_index(file, &record, |writer| {
            write(&source, &record, writer, stop)
        })?;
        self.indexes.add_temporary(reader);
        // A later question opens it.
        self.slots()
            .forget(super::StructureKind::of_index(kind) as usize);
        Ok(())
    }
}
