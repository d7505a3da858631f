//! The cursor of n-grams in order of their counts.
//!
//! Tables are joined and their rows sorted by numbers. Invariant: n-grams that occur as often come in order of the ranks of their
//! words, or without ranks in order of their words' numbers, as where a device sorts them.

use std::mem::take;
use std::sync::Arc;

use rayon::prelude::*;

use super::super::number_keys::{sorted_by_counts, where_rows_are_sorted};
use super::ngram_tables::COUNTED_AHEAD;
use super::question::ScanQuestion;
use super::rows::{NgramRows, NgramRowsAhead, RowCursor, SequenceRows};
use crate::Result;
use crate::answer::{CountOrder, NgramsPart};
use crate::runtime::interrupt::check;
use crate::segment::cache::Reservation;

/// Gives n-grams that were sorted here.
struct CountOrderedCursor {
    question: Arc<ScanQuestion>,
    table: Arc<SortedTable>,
    /// The first row that is not begun.
    next: usize,
    rows: NgramRowsAhead,
    _reservation: Reservation,
}

/// A table of n-grams, and the order of its rows.
struct SortedTable {
    /// `[n-grams * n]`
    words: Vec<u32>,
    /// `[n-grams]`
    counts: Vec<u64>,
    /// `[n-grams]`
    order: Vec<u32>,
}

/// Gives n-grams in an order, from parts that are in the order of their words' numbers. There are fewer than 2^32.
pub(super) fn by_count(
    question: &Arc<ScanQuestion>,
    parts: Vec<NgramsPart>,
    order: &CountOrder,
) -> Result<Box<dyn RowCursor>> {
    let n = question.n;
    let rows: usize = parts.iter().map(NgramsPart::len).sum();
    let mut reservation = question.context.reservation();
    reservation.cover(rows * (n * size_of::<u32>() + size_of::<u64>() + size_of::<u32>()));
    let (pool, interrupt) = (question.view().pool(), question.interrupt());
    let table = where_rows_are_sorted(rows, pool, interrupt, |stop| {
        let (mut words, mut counts) = (vec![0; rows * n], vec![0; rows]);
        let (mut words_left, mut counts_left) = (&mut words[..], &mut counts[..]);
        let mut tasks = Vec::with_capacity(parts.len());
        for part in parts {
            let (words, counts);
            (words, words_left) = take(&mut words_left).split_at_mut(part.len() * n);
            (counts, counts_left) = take(&mut counts_left).split_at_mut(part.len());
            tasks.push((part, words, counts));
        }
        tasks
            .into_par_iter()
            .try_for_each(|(part, words, counts)| {
                check(stop)?;
                let part = part.into_counted();
                words.copy_from_slice(&part.words);
                for (row, count) in counts.iter_mut().enumerate() {
                    *count = part.counts.get(row);
                }
                Result::Ok(())
            })?;
        let ranks = order.ranks.as_deref();
        Ok(SortedTable {
            order: sorted_by_counts(&words, n, &counts, (order.descending, ranks), stop)?,
            words,
            counts,
        })
    })?;
    Ok(Box::new(CountOrderedCursor {
        question: question.clone(),
        table: Arc::new(table),
        next: 0,
        rows: NgramRowsAhead::new(question),
        _reservation: reservation,
    }))
}

impl RowCursor for CountOrderedCursor {
    fn advance(&mut self, question: &ScanQuestion, rows: &mut SequenceRows) -> Result<bool> {
        while !self.rows.is_full() && self.next < self.table.order.len() {
            let places = self.next..self.table.order.len().min(self.next + COUNTED_AHEAD);
            self.next = places.end;
            let (table, n) = (self.table.clone(), self.question.n);
            self.rows.begin(move || {
                let mut made = NgramRows::new();
                for &row in &table.order[places] {
                    let row = row as usize;
                    let words = &table.words[row * n..(row + 1) * n];
                    made.with_room().push_counted(words, 0, table.counts[row]);
                }
                Ok(made)
            });
        }
        self.rows.give(question.n, rows)
    }
}
