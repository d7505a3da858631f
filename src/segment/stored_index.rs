//! Answers of indexes on disk: opened at first use, given up when damaged.
//!
//! Invariant: an answer is that of the segment, or there is none: queries work without indexes.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zipfdb_storage::{IndexKind, IndexReader, IndexRecord, IndexWriter};

use super::indexes::SegmentIndex;
use super::live_segment::LiveSegment;
use super::segment_view::{SegmentStructure, SegmentView};
use super::structure::StructureKind;
use crate::{Error, Result};

/// The content of a file of one kind of index, as far as it is read at opening.
pub(super) trait IndexContent: Sized + Send + Sync + 'static {
    const INDEX: IndexKind;

    /// Reads the directories of the file, which is one of this segment.
    fn open(live: &LiveSegment, reader: &Arc<IndexReader>) -> Result<Self>;

    /// The memory that it takes, in bytes.
    fn memory(&self) -> usize;

    /// Writes the sections.
    ///
    /// # Errors
    /// If the segment is damaged, `stop` is set or the file cannot be written.
    fn write(
        segment: &SegmentView,
        record: &IndexRecord,
        writer: &mut IndexWriter,
        stop: &AtomicBool,
    ) -> Result<()>;
}

/// The first index of a kind whose file is whole, if there is one.
pub(super) struct StoredIndex<C>(Option<(Arc<SegmentIndex>, C)>);

impl<C: IndexContent> SegmentStructure for StoredIndex<C> {
    const KIND: StructureKind = StructureKind::of_index(C::INDEX);

    fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |(_, content)| content.memory())
    }

    fn make(segment: &SegmentView, _: &AtomicBool) -> Result<Arc<StoredIndex<C>>> {
        let Some(stored) = segment.stored_segment() else {
            return Ok(Arc::new(StoredIndex(None)));
        };
        for index in segment.indexes.of_kind(C::INDEX) {
            let Some(reader) = index.reader(stored) else {
                continue;
            };
            match C::open(segment, &reader) {
                Ok(content) => return Ok(Arc::new(StoredIndex(Some((index, content))))),
                Err(Error::Storage(error)) => give_up::<C>(segment, &index, &error),
                Err(error) => return Err(error),
            }
        }
        segment.indexes.forget(C::INDEX);
        Ok(Arc::new(StoredIndex(None)))
    }
}

/// Gives up a damaged index.
fn give_up<C: IndexContent>(live: &LiveSegment, index: &SegmentIndex, error: &dyn Display) {
    index.give_up(error);
    live.indexes.forget(C::INDEX);
    live.forget_index(C::INDEX);
}

impl SegmentView {
    /// The answer of an index of a kind to `read`; none without a readable index.
    ///
    /// # Errors
    /// Those of `read` that are not about the file.
    pub(super) fn ask_index<C: IndexContent, A>(
        &self,
        read: impl FnOnce(&C) -> Result<A>,
    ) -> Result<Option<A>> {
        if !self.has_index(C::INDEX) {
            return Ok(None);
        }
        let Some((index, content)) = &self.pin::<StoredIndex<C>>()?.0 else {
            return Ok(None);
        };
        index.note_use();
        match read(content) {
            Ok(answer) => Ok(Some(answer)),
            // The segment itself is not damaged.
            Err(Error::Storage(error)) => {
                give_up::<C>(self, index, &error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
