//! N-grams in order of their texts, or of their counts.
//!
//! Texts compare as the ranks of their words, so n-grams that begin with one word come together, and in the tables they lie
//! together. Invariant: a unit has all n-grams of its first words, units ascend, and a unit is sorted when it is read: tables that it
//! does not need stay packed. Words with neighbouring ranks come from few tables; where they do not, and by counts, all n-grams are
//! one unit.

use std::collections::HashSet;
use std::sync::Arc;

use rayon::prelude::*;

use super::super::number_keys::{sorted_by_counts, sorted_ngrams, where_rows_are_sorted};
use super::ngram_cursor::{MakeRows, NgramCursor};
use super::ngram_rows::NgramRowPayload;
use super::question::ScanQuestion;
use super::rows::{RowCursor, concatenated};
use crate::Result;
use crate::answer::{NgramOrder, NgramPayload, NgramsPart};
use crate::segment::cache::Reservation;

/// N-grams of a unit: enough to be sorted by all threads.
const UNIT_NGRAMS: usize = 1 << 17;

/// All n-grams are one unit if units together would unpack each table more often than this.
const UNPACKED_MAX: usize = 6;

/// The n-grams of a table that begin with one word, or all of it.
#[derive(Clone, Copy)]
struct WordRows {
    rank: u32,
    table: u32,
    start: u32,
    end: u32,
}

/// N-grams in an order.
struct OrderedNgrams<P: NgramPayload> {
    question: Arc<ScanQuestion>,
    /// Unpacked each time that a unit needs them, unless they came unpacked.
    tables: Vec<NgramsPart<P>>,
    order: NgramOrder,
    /// In order of ranks.
    words: Vec<WordRows>,
    /// The units that are left, as the ends of their words, the last first.
    ends: Vec<usize>,
    /// The unit whose rows are begun, and its first n-gram that is not.
    unit: Arc<SortedUnit<P>>,
    next: usize,
    reservation: Reservation,
}

/// The n-grams that are read.
struct SortedUnit<P: NgramPayload> {
    /// The words that it has end here.
    end: usize,
    /// The tables that it needs, by number.
    tables: Vec<(u32, Arc<P::Table>)>,
    /// The words and counts of its n-grams; none if they have files.
    joined: Option<(Vec<u32>, Vec<u64>)>,
    /// The number in the unit of the first of each range of rows: a place in `tables`, and the first row there.
    ranges: Vec<(usize, usize, usize)>,
    /// Numbers of n-grams.
    order: Vec<u32>,
}

/// The rows of n-grams in an order other than by the numbers of words, from parts that are in that one. There are fewer than 2^32.
///
/// # Errors
/// If the statement has to end.
pub(super) fn rows_of<P: NgramRowPayload>(
    question: &Arc<ScanQuestion>,
    tables: Vec<NgramsPart<P>>,
    order: NgramOrder,
) -> Result<Box<dyn RowCursor>> {
    let mut ordered = OrderedNgrams::new(question, tables, order)?;
    let ahead = question.work_ahead();
    Ok(NgramCursor::boxed(question, ahead, move || ordered.next()))
}

impl<P: NgramRowPayload> OrderedNgrams<P> {
    fn new(
        question: &Arc<ScanQuestion>,
        tables: Vec<NgramsPart<P>>,
        order: NgramOrder,
    ) -> Result<OrderedNgrams<P>> {
        let (n, pool, interrupt) = (
            question.asked.n,
            question.view().pool(),
            question.interrupt(),
        );
        let rows_of = |(table, part): (usize, &NgramsPart<P>)| {
            interrupt.check()?;
            // Tables and rows are counted by u32.
            let all = |rank, start, end| WordRows {
                rank,
                table: table as u32,
                start,
                end,
            };
            let (None, Some(ranks)) = order.keys() else {
                return Ok(vec![all(0, 0, part.len() as u32)]);
            };
            let part = part.plain();
            let mut found: Vec<WordRows> = Vec::new();
            for (row, words) in (0..).zip(P::words(&part).chunks(n)) {
                let rank = ranks[words[0] as usize];
                match found.last_mut() {
                    Some(last) if last.rank == rank => last.end += 1,
                    _ => found.push(all(rank, row, row + 1)),
                }
            }
            Ok(found)
        };
        let found = pool.install(|| tables.par_iter().enumerate().map(rows_of).collect());
        let found: Result<Vec<Vec<WordRows>>> = found;
        let mut words = found?.concat();
        words.sort_by_key(|word| word.rank);
        let mut ends = unit_ends(&words, UNIT_NGRAMS);
        if tables_of_units(&words, &ends) > tables.len() * UNPACKED_MAX {
            ends = vec![words.len()];
        }
        ends.reverse();
        Ok(OrderedNgrams {
            question: question.clone(),
            tables,
            order,
            words,
            ends,
            unit: Arc::new(SortedUnit {
                end: 0,
                tables: Vec::new(),
                joined: None,
                ranges: Vec::new(),
                order: Vec::new(),
            }),
            next: 0,
            reservation: question.context.reservation(),
        })
    }

    /// Makes the next unit.
    fn open(&mut self, end: usize) -> Result<()> {
        let question = &self.question;
        let words = &self.words[self.unit.end..end];
        let (n, pool, interrupt) = (
            question.asked.n,
            question.view().pool(),
            question.interrupt(),
        );
        let (before, is_last) = (&self.unit.tables, self.ends.is_empty());
        let mut needed: Vec<u32> = words.iter().map(|word| word.table).collect();
        needed.sort_unstable();
        needed.dedup();
        let table = |(number, part): (u32, &mut NgramsPart<P>)| {
            needed.binary_search(&number).ok()?;
            let table = match before.binary_search_by_key(&number, |table| table.0) {
                Ok(place) => before[place].1.clone(),
                Err(_) if is_last => Arc::new(part.take().into_plain()),
                Err(_) => Arc::new(part.plain().into_owned()),
            };
            Some((number, table))
        };
        // Tables are counted by u32.
        let count = self.tables.len() as u32;
        let parts = (0..count).into_par_iter().zip(&mut self.tables);
        let mut tables: Vec<(u32, Arc<P::Table>)> =
            pool.install(|| parts.filter_map(table).collect());
        let rows: usize = (words.iter().map(|word| (word.end - word.start) as usize)).sum();
        let row_bytes = n * size_of::<u32>() + size_of::<u64>() + size_of::<u32>();
        self.reservation.cover(rows * row_bytes);
        let (descending, ranks) = self.order.keys();
        let unit = where_rows_are_sorted(rows, pool, interrupt, |stop| {
            let (mut ranges, mut pieces) = (Vec::with_capacity(words.len()), Vec::new());
            let mut first = 0;
            for word in words {
                // All tables of its words are there.
                let place = tables.partition_point(|(number, _)| *number < word.table);
                let rows = word.start as usize..word.end as usize;
                ranges.push((first, place, rows.start));
                first += rows.len();
                pieces.push((&*tables[place].1, rows));
            }
            let words_of_pieces = pieces
                .iter()
                .map(|(table, rows)| &P::words(table)[rows.start * n..rows.end * n]);
            let words = concatenated(words_of_pieces.collect());
            let counts = P::joined_counts(&pieces);
            let order = match descending {
                None => sorted_ngrams(&words, n, ranks.unwrap_or_default(), stop)?,
                Some(descending) => {
                    let counts = counts.as_deref().unwrap_or_default();
                    sorted_by_counts(&words, n, counts, (descending, ranks), stop)?
                }
            };
            if is_last && counts.is_some() {
                // Nothing reads them any more, and freeing takes as long as copying.
                tables.into_par_iter().for_each(drop);
                tables = Vec::new();
            }
            Ok(SortedUnit {
                end,
                joined: counts.map(|counts| (words, counts)),
                ranges,
                order,
                tables,
            })
        })?;
        (self.unit, self.next) = (Arc::new(unit), 0);
        Ok(())
    }

    /// The next piece.
    fn next(&mut self) -> Result<Option<MakeRows>> {
        while self.next == self.unit.order.len() {
            let Some(end) = self.ends.pop() else {
                return Ok(None);
            };
            self.open(end)?;
        }
        let places = self.next..self.unit.order.len().min(self.next + P::AHEAD);
        self.next = places.end;
        let unit = self.unit.clone();
        Ok(Some(Box::new(move |matcher, made| {
            if let Some((words, counts)) = &unit.joined {
                let n = matcher.question().asked.n;
                for &ngram in &unit.order[places] {
                    let ngram = ngram as usize;
                    let words = &words[ngram * n..(ngram + 1) * n];
                    if matcher.passes(words)? {
                        made.with_room().push_counted(words, 0, counts[ngram]);
                    }
                }
                return Ok(());
            }
            for &ngram in &unit.order[places] {
                let ngram = ngram as usize;
                let range = unit.ranges.partition_point(|&(first, ..)| first <= ngram) - 1;
                let (first, place, start) = unit.ranges[range];
                P::push_row(&unit.tables[place].1, start + ngram - first, matcher, made)?;
            }
            Ok(())
        })))
    }
}

/// Where units of at least `ngrams` n-grams end, by words.
fn unit_ends(words: &[WordRows], ngrams: usize) -> Vec<usize> {
    let (mut ends, mut end, mut held) = (Vec::new(), 0, 0);
    for same in words.chunk_by(|left, right| left.rank == right.rank) {
        end += same.len();
        held += same
            .iter()
            .map(|word| (word.end - word.start) as usize)
            .sum::<usize>();
        if held >= ngrams {
            ends.push(end);
            held = 0;
        }
    }
    if ends.last().copied().unwrap_or(0) < end {
        ends.push(end);
    }
    ends
}

/// How many tables all units unpack together.
fn tables_of_units(words: &[WordRows], ends: &[usize]) -> usize {
    let starts = [0].into_iter().chain(ends.iter().copied());
    let units = starts.zip(ends).map(|(start, &end)| {
        let tables: HashSet<u32> = words[start..end].iter().map(|word| word.table).collect();
        tables.len()
    });
    units.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_has_all_ngrams_of_a_word() {
        let word = |rank, table, end| WordRows {
            rank,
            table,
            start: 0,
            end,
        };
        let words = [
            word(0, 0, 1),
            word(1, 0, 1),
            word(2, 0, 3),
            word(2, 1, 1),
            word(3, 1, 2),
            word(4, 2, 2),
            word(5, 0, 1),
        ];
        let ends = unit_ends(&words, 4);
        assert_eq!(ends, [4, 6, 7]);
        assert_eq!(tables_of_units(&words, &ends), 2 + 2 + 1);
        assert_eq!(unit_ends(&words, 5), [4, 7]);
        assert_eq!(unit_ends(&[], 4), [0; 0]);
    }
}
