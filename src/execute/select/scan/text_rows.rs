//! Rows of n-grams grouped by their texts, in an order of texts.
//!
//! Invariant: no two rows have the same text and file, and rows come in the wanted order; rows of equal keys have none. Rows are
//! sorted within memory and spilled beyond.

use std::sync::Arc;

use zipfdb_kernels::FileOrder;
use zipfdb_sql::query::Collation;

use super::super::external_sort::{ExternalSort, SortedRows};
use super::super::key::{KeyOrder, push_key};
use super::super::spill::SpilledRecord;
use super::counted::CountedNgram;
use super::rows::{RowCursor, SequenceRows};
use super::scan_spec::ScanSpec;
use crate::answer::MergedOrder;
use crate::answer::Ngram;
use crate::batch::BATCH_ROWS;
use crate::batch::text_or_blob;
use crate::{Result, Value};

/// The key that orders the row of an n-gram; without an order its text and file.
pub(super) fn key_of(
    question: &ScanSpec,
    order: Option<MergedOrder>,
    (words, file, times): (&[u32], u32, u64),
) -> Vec<u8> {
    let text = text_or_blob(Ngram::new(question.view(), words).text());
    // Counts are below 2^63: files have fewer words.
    let (file, times) = (Value::Integer(file.into()), Value::Integer(times as i64));
    let ascending = KeyOrder::ascending(Collation::Binary);
    let by_count = KeyOrder {
        descending: !matches!(
            order,
            Some(MergedOrder::Count {
                descending: false,
                ..
            })
        ),
        ..ascending
    };
    let [text, file, times] = [(&text, ascending), (&file, ascending), (&times, by_count)];
    let values = match order {
        None | Some(MergedOrder::Text(FileOrder::File)) => vec![text, file],
        Some(MergedOrder::Text(FileOrder::Count)) => vec![text, times, file],
        Some(MergedOrder::Count { .. }) => vec![times, text],
    };
    let mut key = Vec::new();
    for (value, order) in values {
        push_key(value, order, &mut key);
    }
    key
}

/// Takes a row: words, file and count.
type TakeRow<'a> = dyn FnMut((&[u32], u32, u64)) -> Result<()> + 'a;

/// Returns rows in order.
pub(super) struct TextRows {
    sorted: Option<SortedRows>,
    /// Records that were read, and the next one.
    read: std::vec::IntoIter<SpilledRecord>,
    next: Option<SpilledRecord>,
}

impl TextRows {
    /// The rows that `give` passes on, one for each text and file, in an order.
    ///
    /// # Errors
    /// If a run cannot be written or read, and those of `give`.
    pub(super) fn new(
        question: &ScanSpec,
        order: Option<MergedOrder>,
        give: impl FnOnce(&mut TakeRow<'_>) -> Result<()>,
    ) -> Result<TextRows> {
        let mut rows = TextRows::sorted(question, None, give)?;
        if matches!(order, None | Some(MergedOrder::Text(FileOrder::File))) {
            return Ok(rows);
        }
        TextRows::sorted(question, order, |take| {
            while let Some((_, row)) = rows.next()? {
                take((&row.words, row.file, row.times))?;
            }
            Ok(())
        })
    }

    /// The rows by their keys in an order, equal ones adjacent.
    fn sorted(
        question: &ScanSpec,
        order: Option<MergedOrder>,
        give: impl FnOnce(&mut TakeRow<'_>) -> Result<()>,
    ) -> Result<TextRows> {
        let context = &question.context;
        let mut sort = ExternalSort::by_columns(1, 2, context)?;
        give(&mut |(words, file, times)| {
            let mut payload = times.to_le_bytes().to_vec();
            let numbers = [&file].into_iter().chain(words);
            payload.extend(numbers.flat_map(|number| number.to_le_bytes()));
            let key = key_of(question, order, (words, file, times));
            sort.push([key, payload].map(Value::Blob))
        })?;
        let mut rows = TextRows {
            sorted: sort.finish()?,
            read: Vec::new().into_iter(),
            next: None,
        };
        rows.next = rows.read()?;
        Ok(rows)
    }

    /// The record behind the next one; none at the end.
    fn read(&mut self) -> Result<Option<SpilledRecord>> {
        if self.read.len() == 0
            && let Some(sorted) = &mut self.sorted
            && let Some(batch) = sorted.next_batch(BATCH_ROWS)?
        {
            let bytes = |column: usize, row: usize| {
                let mut bytes = Vec::new();
                batch.columns()[column].write_text(row, &mut bytes);
                bytes
            };
            let records = (0..batch.len()).map(|row| (bytes(0, row), bytes(1, row)));
            self.read = records.collect::<Vec<SpilledRecord>>().into_iter();
        }
        Ok(self.read.next())
    }

    /// The next row and its key; none at the end.
    ///
    /// # Errors
    /// If a run cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<(Vec<u8>, CountedNgram)>> {
        let Some((key, payload)) = self.next.take() else {
            return Ok(None);
        };
        let mut row = row_of(&payload);
        self.next = self.read()?;
        while let Some((_, payload)) = self.next.take_if(|(next, _)| *next == key) {
            row.times += row_of(&payload).times;
            self.next = self.read()?;
        }
        Ok(Some((key, row)))
    }
}

impl RowCursor for TextRows {
    fn advance(&mut self, _: &ScanSpec, rows: &mut SequenceRows) -> Result<bool> {
        let row = self.next()?;
        if let Some((_, row)) = &row {
            rows.push_counted(&row.words, row.file, row.times);
        }
        Ok(row.is_some())
    }
}

/// The row of a payload, which has the length of an encoded row.
fn row_of(payload: &[u8]) -> CountedNgram {
    let (times, numbers) = payload.split_at(size_of::<u64>());
    let mut numbers = numbers.chunks_exact(size_of::<u32>()).map(|bytes| {
        let bytes = bytes.first_chunk().copied();
        u32::from_le_bytes(bytes.unwrap_or_default())
    });
    CountedNgram {
        file: numbers.next().unwrap_or_default(),
        times: u64::from_le_bytes(times.first_chunk().copied().unwrap_or_default()),
        words: numbers.collect::<Arc<[u32]>>(),
    }
}
