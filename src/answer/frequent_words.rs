//! Term vectors: of each file the words that occur most often there.
//!
//! Invariant: a row has at least the words that any order by count, and by further keys, puts first: all words with the count of
//! the last one are there. The segment of a whole file answers alone; for files in parts, or edited ones, tables of all words are
//! cut short.

use zipfdb_kernels::CountTable;

use super::access_path::{AccessPath, PartitionOperation, Run};
use super::corpus_view::CorpusView;
use super::file_counts::FileWordTable;
use super::placement::{DeviceOperation, PlacementPlan};
use super::stored_view::StoredView;
use crate::Result;
use crate::runtime::device::OnDevice;
use crate::segment::SegmentView;
use crate::segment::cost::{DEVICE_FREQUENT_COST, Size};

/// A row for each file of a segment, with its `limit` most frequent words and their counts. Words with the same count as the last
/// of them are in the row too.
pub(crate) struct FrequentWords;

/// A path of the table of all words.
macro_rules! of_table {
    ($index:literal) => {
        AccessPath {
            name: FileWordTable::PATHS[$index].name,
            needs: FileWordTable::PATHS[$index].needs,
            cost: |_, segment| (FileWordTable::PATHS[$index].cost)(&(), segment),
            run: |&limit, segment, run| {
                let table = (FileWordTable::PATHS[$index].run)(&(), segment, run)?;
                Ok(table.largest(limit))
            },
        }
    };
}

impl PartitionOperation for FrequentWords {
    /// The limit.
    type Question<'a> = u32;
    type Answer = CountTable;

    const PATHS: &'static [AccessPath<FrequentWords>] =
        &[of_table!(0), of_table!(1), of_table!(2), of_table!(3)];
}

const _: () = assert!(FrequentWords::PATHS.len() == FileWordTable::PATHS.len());

impl DeviceOperation for FrequentWords {
    fn device_work(size: Size) -> f64 {
        size.symbols as f64 * DEVICE_FREQUENT_COST
    }

    fn run_on(&limit: &u32, segment: &SegmentView, device: &OnDevice<'_>) -> Result<CountTable> {
        let table = segment.file_tables_on(device, |gpu, table| Ok(table.largest(gpu, limit)?))?;
        Ok(table.largest(limit))
    }
}

impl StoredView {
    /// As [`CorpusView::frequent_words`], of the stored files, which are whole.
    fn frequent_words(&self, limit: u32, run: Run<'_>) -> Result<CountTable> {
        let vocabulary = run.preparing("vocabulary", || self.vocabulary())?;
        let tables = self.each_segment::<FrequentWords>(&limit, run)?;
        self.joined_files(tables, vocabulary)
    }
}

impl CorpusView {
    /// Plans [`CorpusView::frequent_words`].
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_frequent_words(&self, limit: u32) -> Result<PlacementPlan<'_>> {
        if self.has_whole_files() {
            self.stored().plan::<FrequentWords>(&limit, None)
        } else {
            self.plan_file_words()
        }
    }

    /// The table of [`FrequentWords`] for all files of the corpus.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn frequent_words(&self, limit: u32, run: Run<'_>) -> Result<CountTable> {
        if self.has_whole_files() {
            self.stored().frequent_words(limit, run)
        } else {
            Ok(self.file_words(run)?.largest(limit))
        }
    }
}
