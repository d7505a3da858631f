//! N-grams with their files in order of their texts.
//!
//! Texts compare as the ranks of their words, so n-grams that begin with one word come together, and in the tables they lie
//! together. Invariant: a unit has all n-grams of its first words, units ascend, and a unit is sorted when it is read: tables
//! that it does not need stay packed. Words with neighbouring ranks come from few tables; where they do not, all n-grams are one
//! unit.

use std::collections::HashSet;
use std::sync::Arc;

use rayon::prelude::*;
use zipfdb_kernels::NgramFiles;

use super::super::number_keys::{sorted_ngrams, where_rows_are_sorted};
use super::ngram_cursor::{MakeRows, NgramCursor};
use super::ngram_rows::{NgramRowPayload, push_row};
use super::rows::{RowCursor, concatenated};
use super::scan_spec::ScanSpec;
use crate::Result;
use crate::answer::{NgramsPart, WithFiles};

/// N-grams of a unit: enough to be sorted by all threads.
const UNIT_NGRAMS: usize = 1 << 17;

/// All n-grams are one unit if units together would unpack each table more often than this.
const UNPACKED_MAX: usize = 6;

/// The n-grams of a table that begin with one word.
#[derive(Clone, Copy)]
struct WordRows {
    rank: u32,
    table: u32,
    start: u32,
    end: u32,
}

/// A table, which is unpacked each time that a unit needs it unless it came unpacked.
enum StoredTable {
    Plain(Arc<NgramFiles>),
    Packed(NgramsPart<WithFiles>),
}

impl StoredTable {
    fn unpacked(&self) -> Arc<NgramFiles> {
        match self {
            StoredTable::Plain(plain) => plain.clone(),
            StoredTable::Packed(packed) => Arc::new(packed.plain().into_owned()),
        }
    }
}

/// N-grams in an order.
struct OrderedNgrams {
    question: Arc<ScanSpec>,
    tables: Vec<StoredTable>,
    /// By word.
    ranks: Arc<[u32]>,
    /// In order of ranks.
    words: Vec<WordRows>,
    /// The remaining units, as the ends of their words, the last first.
    ends: Vec<usize>,
    /// The current unit, and its first n-gram without rows.
    unit: Arc<SortedUnit>,
    next: usize,
}

/// The n-grams of the current unit.
#[derive(Default)]
struct SortedUnit {
    /// The end of its words.
    end: usize,
    /// The tables that it needs, by number.
    tables: Vec<(u32, Arc<NgramFiles>)>,
    /// The number in the unit of the first of each range of rows: a place in `tables`, and the first row there.
    ranges: Vec<(usize, usize, usize)>,
    /// Numbers of n-grams.
    order: Vec<u32>,
}

/// The rows of n-grams in the order of ranks, from parts that are in the order of their words' numbers. There are fewer than
/// 2^32.
///
/// # Errors
/// If the statement must end.
pub(super) fn rows_of(
    question: &Arc<ScanSpec>,
    tables: Vec<NgramsPart<WithFiles>>,
    ranks: Arc<[u32]>,
) -> Result<Box<dyn RowCursor>> {
    let mut ordered = OrderedNgrams::new(question, tables, ranks)?;
    let ahead = question.work_ahead();
    Ok(NgramCursor::boxed(question, ahead, move || ordered.next()))
}

impl OrderedNgrams {
    fn new(
        question: &Arc<ScanSpec>,
        tables: Vec<NgramsPart<WithFiles>>,
        ranks: Arc<[u32]>,
    ) -> Result<OrderedNgrams> {
        let (n, pool) = (question.asked.n, question.view().pool());
        let rows_of = |(table, part): (usize, &NgramsPart<WithFiles>)| {
            question.interrupt().check()?;
            let part = part.plain();
            let mut found: Vec<WordRows> = Vec::new();
            for (row, words) in (0..).zip(part.words.chunks(n)) {
                let rank = ranks[words[0] as usize];
                match found.last_mut() {
                    Some(last) if last.rank == rank => last.end += 1,
                    // Tables and rows are counted by u32.
                    _ => found.push(WordRows {
                        rank,
                        table: table as u32,
                        start: row,
                        end: row + 1,
                    }),
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
        let stored = |part| match part {
            NgramsPart::Plain(plain) => StoredTable::Plain(Arc::new(plain)),
            packed => StoredTable::Packed(packed),
        };
        Ok(OrderedNgrams {
            question: question.clone(),
            tables: tables.into_iter().map(stored).collect(),
            ranks,
            words,
            ends,
            unit: Arc::default(),
            next: 0,
        })
    }

    /// Makes the next unit.
    fn open(&mut self, end: usize) -> Result<()> {
        let question = &self.question;
        let (n, pool) = (question.asked.n, question.view().pool());
        let words = &self.words[self.unit.end..end];
        let before = &self.unit.tables;
        let mut needed: Vec<u32> = words.iter().map(|word| word.table).collect();
        needed.sort_unstable();
        needed.dedup();
        let table = |number: u32| match before.binary_search_by_key(&number, |table| table.0) {
            Ok(place) => before[place].clone(),
            Err(_) => (number, self.tables[number as usize].unpacked()),
        };
        let tables: Vec<(u32, Arc<NgramFiles>)> =
            pool.install(|| needed.into_par_iter().map(table).collect());
        let rows: usize = (words.iter().map(|word| (word.end - word.start) as usize)).sum();
        let unit = where_rows_are_sorted(rows, pool, question.interrupt(), |stop| {
            let (mut ranges, mut pieces) = (Vec::with_capacity(words.len()), Vec::new());
            let mut first = 0;
            for word in words {
                // All tables of its words are there.
                let place = tables.partition_point(|(number, _)| *number < word.table);
                let rows = word.start as usize..word.end as usize;
                ranges.push((first, place, rows.start));
                first += rows.len();
                pieces.push(&tables[place].1.words[rows.start * n..rows.end * n]);
            }
            Ok(SortedUnit {
                end,
                ranges,
                order: sorted_ngrams(&concatenated(pieces), n, &self.ranks, stop)?,
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
        let places = self.next..self.unit.order.len().min(self.next + WithFiles::AHEAD);
        self.next = places.end;
        let unit = self.unit.clone();
        Ok(Some(Box::new(move |matcher, made| {
            for &ngram in &unit.order[places] {
                let ngram = ngram as usize;
                let range = unit.ranges.partition_point(|&(first, ..)| first <= ngram) - 1;
                let (first, place, start) = unit.ranges[range];
                let table = &unit.tables[place].1;
                push_row(table, start + ngram - first, matcher, made)?;
            }
            Ok(())
        })))
    }
}

/// The ends of units of at least `ngrams` n-grams, by words.
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

/// The number of tables that all units unpack together.
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
