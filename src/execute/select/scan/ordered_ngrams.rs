//! The cursor of n-grams with their files in order of their texts.
//!
//! Texts compare as the ranks of their words, so n-grams that begin with one word come together, and in the tables they lie
//! together. Invariant: a unit has all n-grams of its first words, units ascend, and a unit is sorted when it is read: tables that it
//! does not need stay packed. Words with neighbouring ranks come from few tables; where they do not, all n-grams are one unit.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use zipfdb_kernels::{NgramFiles, PackedNgramFiles};

use super::super::number_keys::{sorted_ngrams, where_rows_are_sorted};
use super::ngram_tables::{NGRAMS_AHEAD, ngram_of};
use super::question::ScanQuestion;
use super::rows::{NgramRows, NgramRowsAhead, RowCursor, SequenceRows};
use crate::Result;
use crate::answer::NgramFilePart;

/// A unit has so many n-grams: enough to be sorted by all threads.
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

/// A table that is unpacked each time a unit needs it, unless it came unpacked.
enum StoredTable {
    Plain(Arc<NgramFiles>),
    Packed(PackedNgramFiles),
}

impl StoredTable {
    fn unpacked(&self) -> Arc<NgramFiles> {
        match self {
            StoredTable::Plain(plain) => plain.clone(),
            StoredTable::Packed(packed) => Arc::new(packed.unpacked()),
        }
    }
}

/// Gives n-grams with their files in order of their texts.
pub(super) struct OrderedNgramFileCursor {
    question: Arc<ScanQuestion>,
    tables: Vec<StoredTable>,
    /// By word; empty if numbers are in order.
    ranks: Arc<[u32]>,
    /// In order of ranks.
    words: Vec<WordRows>,
    /// The units that are left, as the ends of their words, the last first.
    ends: Vec<usize>,
    /// The unit whose rows are begun, and its first n-gram that is not.
    unit: Arc<SortedUnit>,
    next: usize,
    rows: NgramRowsAhead,
}

/// The n-grams that are read.
#[derive(Default)]
struct SortedUnit {
    /// The words that it has end here.
    end: usize,
    /// The tables that it needs, by number.
    tables: Vec<(u32, Arc<NgramFiles>)>,
    /// The number in the unit of the first of each range of rows: a place in `tables`, and the first row there.
    ranges: Vec<(usize, usize, usize)>,
    /// Numbers of n-grams.
    order: Vec<u32>,
}

impl OrderedNgramFileCursor {
    /// Of n-grams whose texts compare as the ranks of their words.
    pub(super) fn new(
        question: &Arc<ScanQuestion>,
        tables: Vec<NgramFilePart>,
        ranks: Arc<[u32]>,
    ) -> Result<OrderedNgramFileCursor> {
        let (n, pool, interrupt) = (question.n, question.view().pool(), question.interrupt());
        let count = |(table, part): (usize, &NgramFilePart)| {
            interrupt.check()?;
            let part = part.plain();
            let mut found: Vec<WordRows> = Vec::new();
            for (row, words) in (0..).zip(part.words.chunks(n)) {
                let rank = ranks.get(words[0] as usize).copied().unwrap_or(words[0]);
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
        let found = pool.install(|| tables.par_iter().enumerate().map(count).collect());
        let found: Result<Vec<Vec<WordRows>>> = found;
        let mut words = found?.concat();
        words.sort_by_key(|word| word.rank);
        let mut ends = unit_ends(&words, UNIT_NGRAMS);
        if tables_of_units(&words, &ends) > tables.len() * UNPACKED_MAX {
            ends = vec![words.len()];
        }
        ends.reverse();
        let stored = |part| match part {
            NgramFilePart::Plain(plain) => StoredTable::Plain(Arc::new(plain)),
            NgramFilePart::Packed(packed) => StoredTable::Packed(packed),
        };
        Ok(OrderedNgramFileCursor {
            question: question.clone(),
            tables: tables.into_iter().map(stored).collect(),
            ranks,
            words,
            ends,
            unit: Arc::default(),
            next: 0,
            rows: NgramRowsAhead::new(question),
        })
    }

    /// Makes the next unit.
    fn open(&mut self, end: usize) -> Result<()> {
        let question = &self.question;
        let words = &self.words[self.unit.end..end];
        let (n, pool, interrupt) = (question.n, question.view().pool(), question.interrupt());
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
        let rows = words.iter().map(|word| (word.end - word.start) as usize);
        let unit = where_rows_are_sorted(rows.sum(), pool, interrupt, |stop| {
            let (mut ranges, mut of_rows) = (Vec::with_capacity(words.len()), Vec::new());
            for word in words {
                // All tables of its words are there.
                let place = tables.partition_point(|(number, _)| *number < word.table);
                let (start, end) = (word.start as usize, word.end as usize);
                ranges.push((of_rows.len() / n, place, start));
                of_rows.extend_from_slice(&tables[place].1.words[start * n..end * n]);
            }
            Ok(SortedUnit {
                end,
                ranges,
                order: sorted_ngrams(&of_rows, n, &self.ranks, stop)?,
                tables,
            })
        })?;
        (self.unit, self.next) = (Arc::new(unit), 0);
        Ok(())
    }

    /// Begins to make some rows; `false` if all are begun.
    fn begin(&mut self) -> Result<bool> {
        while self.next == self.unit.order.len() {
            let Some(end) = self.ends.pop() else {
                return Ok(false);
            };
            self.open(end)?;
        }
        let places = self.next..self.unit.order.len().min(self.next + NGRAMS_AHEAD);
        self.next = places.end;
        let (unit, question) = (self.unit.clone(), self.question.clone());
        self.rows.begin(move || unit.rows_of(places, &question));
        Ok(true)
    }
}

/// Where units of so many n-grams end, by words.
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

impl SortedUnit {
    /// The rows of some n-grams, by their places in order: those of n-grams that pass.
    fn rows_of(&self, places: Range<usize>, question: &ScanQuestion) -> Result<NgramRows> {
        let mut rows = NgramRows::new();
        for &ngram in &self.order[places] {
            let ngram = ngram as usize;
            let range = self.ranges.partition_point(|&(first, ..)| first <= ngram) - 1;
            let (first, place, start) = self.ranges[range];
            let table = &self.tables[place].1;
            let (words, files) = ngram_of(table, start + ngram - first, question.n);
            rows.push(words, files, |entry| entry, question)?;
        }
        Ok(rows)
    }
}

impl RowCursor for OrderedNgramFileCursor {
    fn advance(&mut self, question: &ScanQuestion, rows: &mut SequenceRows) -> Result<bool> {
        while !self.rows.is_full() && self.begin()? {}
        self.rows.give(question.n, rows)
    }
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
