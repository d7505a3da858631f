//! The table as an index stores it: blocks of rows, each of which can be read alone.
//!
//! A block has whole words' rows: all that begin with a word are in one. It has, with numbers as varints, how many rows there are;
//! a byte a row, its words in the high half and what it shares with the row before in the low one; two blocks of numbers,
//! each behind its size: the words that rows do not share, and for each row its count, if there is one file, or else the number of
//! its list; then how many lists there are, and for each how many files, their distances, and their counts less one.
//!
//! The invariant: bytes of any content give rows in order whose numbers are in range, or nothing.

use std::cmp::Ordering;
use std::ops::Range;

use rayon::prelude::*;

use super::{DEPTH, NgramTable, PartWriter, RowRange};
use crate::numbers::varints::{put, take};
use crate::postings::list_block::FileCount;
use crate::postings::number_blocks::{NumberBlock, pack_numbers};

/// Rows of a block at least, except for the last.
const BLOCK_ROWS: usize = 1 << 12;

/// Rows that begin with some words, to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NgramBlock {
    /// The first of the words.
    pub first_word: u32,
    /// The rows.
    pub bytes: Vec<u8>,
}

impl NgramTable {
    /// The table in blocks, in order of words.
    pub fn blocks(&self) -> Vec<NgramBlock> {
        let parts = self.parts.par_iter().map(|part| {
            let mut blocks = Vec::new();
            let writer = |first| PartWriter::new(first, BLOCK_ROWS, self.files != 1);
            let mut block = writer(part.first);
            let mut last_first = None;
            part.each_row(|words, value| {
                let is_cut = last_first.is_some_and(|last| last != words[0]);
                if is_cut && block.part.lengths.len() >= BLOCK_ROWS {
                    let full = std::mem::replace(&mut block, writer(words[0]));
                    blocks.push(full.finish().stored(self.files));
                }
                last_first = Some(words[0]);
                match self.files {
                    1 => block.push(words, &[(0, value)]),
                    _ => block.push(words, part.lists.table.row(value as usize)),
                }
            });
            if !block.part.lengths.is_empty() {
                blocks.push(block.finish().stored(self.files));
            }
            blocks
        });
        parts.collect::<Vec<_>>().concat()
    }

    /// Decodes consecutive blocks, given with their first words, of a segment with `files` files and `words` words. None if a block
    /// is malformed.
    pub fn of_blocks(
        files: usize,
        words: u32,
        blocks: &[(u32, impl AsRef<[u8]> + Sync)],
    ) -> Option<NgramTable> {
        let ends = blocks.iter().skip(1).map(|(first, _)| *first);
        let ends = ends.chain([words]);
        let ranges = blocks.iter().zip(ends).map(|((first, _), end)| *first..end);
        let ranges: Vec<Range<u32>> = ranges.collect();
        let parts = (blocks.par_iter().zip(ranges))
            .map(|((_, bytes), range)| RowRange::of_stored(bytes.as_ref(), files, range, words))
            .collect::<Option<_>>()?;
        Some(NgramTable { files, parts })
    }
}

impl RowRange {
    /// Calls `take` with the words and the value of each row.
    fn each_row(&self, mut take: impl FnMut(&[u32], u32)) {
        let (mut words, mut at) = ([0; DEPTH], 0);
        for (row, &value) in self.values.iter().enumerate() {
            let (length, shared) = (self.length(row), self.shared(row));
            words[shared..length].copy_from_slice(&self.words[at..][..length - shared]);
            at += length - shared;
            take(&words[..length], value);
        }
    }

    fn stored(&self, files: usize) -> NgramBlock {
        let mut bytes = Vec::new();
        put(&mut bytes, self.lengths.len() as u64);
        bytes.extend(&self.lengths);
        let own = &self.words[..self.words.len() - DEPTH];
        let mut packed = Vec::new();
        for numbers in [own, &self.values] {
            packed.clear();
            pack_numbers(numbers.iter().copied().map(u64::from), &mut packed);
            put(&mut bytes, packed.len() as u64);
            bytes.extend(&packed);
        }
        if files != 1 {
            let table = &self.lists.table;
            put(&mut bytes, table.rows() as u64);
            for list in 0..table.rows() {
                let entries = table.row(list);
                put(&mut bytes, entries.len() as u64);
                let mut next = 0;
                for &(file, count) in entries {
                    put(&mut bytes, u64::from(file - next));
                    put(&mut bytes, u64::from(count - 1));
                    next = file + 1;
                }
            }
        }
        NgramBlock {
            first_word: self.first,
            bytes,
        }
    }

    /// The rows that are stored in `bytes`, all of which begin with one of `words`; none if there are no such rows of words below
    /// `word_count`.
    fn of_stored(
        bytes: &[u8],
        files: usize,
        words: Range<u32>,
        word_count: u32,
    ) -> Option<RowRange> {
        let mut rest = bytes;
        let rows = usize::try_from(take(&mut rest)?).ok()?;
        let (lengths, behind) = rest.split_at_checked(rows)?;
        rest = behind;
        let mut own_words = 0;
        for &byte in lengths {
            let (length, shared) = (usize::from(byte >> 4), usize::from(byte & 15));
            if length == 0 || length > DEPTH || shared > length {
                return None;
            }
            own_words += length - shared;
        }
        let mut numbers = |len: usize| {
            let size = usize::try_from(take(&mut rest)?).ok()?;
            let (block, behind) = rest.split_at_checked(size)?;
            rest = behind;
            NumberBlock::new(block, len)
        };
        let (own, values) = (numbers(own_words)?, numbers(rows)?);
        let lists = match files {
            1 => None,
            _ => Some(take_lists(&mut rest, files)?),
        };
        if !rest.is_empty() {
            return None;
        }
        let mut writer = PartWriter::new(words.start, rows, files != 1);
        // Whatever is shared between neighbours is examined again.
        let (mut row, mut before) = ([0; DEPTH], 0);
        let mut own = own.iter();
        for (&byte, value) in lengths.iter().zip(values.iter()) {
            let (length, shared) = (usize::from(byte >> 4), usize::from(byte & 15));
            if shared > before {
                return None;
            }
            let last = row;
            for place in &mut row[shared..length] {
                *place = u32::try_from(own.next()?).ok()?;
            }
            let follows = row[..length].cmp(&last[..before]) == Ordering::Greater;
            let are_words = row[shared..length].iter().all(|&word| word < word_count);
            if !follows || !are_words || !words.contains(&row[0]) {
                return None;
            }
            before = length;
            match &lists {
                None => writer.push(&row[..length], &[(0, u32::try_from(value).ok()?)]),
                Some(lists) => {
                    let list = usize::try_from(value).ok()?;
                    writer.push(&row[..length], lists.get(list)?);
                }
            }
        }
        Some(writer.finish())
    }
}

/// Lists of files with counts.
fn take_lists(rest: &mut &[u8], files: usize) -> Option<Vec<Vec<FileCount>>> {
    let mut lists = Vec::new();
    for _ in 0..take(rest)? {
        let mut list = Vec::new();
        let mut next = 0u64;
        for _ in 0..take(rest)? {
            let file = next.checked_add(take(rest)?)?;
            let count = u32::try_from(take(rest)?.checked_add(1)?).ok()?;
            list.push((u32::try_from(file).ok()?, count));
            if file >= files as u64 {
                return None;
            }
            next = file + 1;
        }
        lists.push(list);
    }
    Some(lists)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::pairs::mix;
    use crate::grammar::test_grammars::{self, TestGrammar};
    use crate::ngrams::all_ngrams::testing::{words_and_counts, words_and_rows};
    use crate::{FileOrder, WordUses};
    use std::sync::atomic::AtomicBool;

    static GO: AtomicBool = AtomicBool::new(false);

    fn table(grammar: &TestGrammar) -> (NgramTable, u32) {
        let words = grammar.word_grammar();
        let (view, weights) = (words.view(), words.weights());
        let table = NgramTable::new(view, weights, &WordUses::new(view), 1 << 14, &GO);
        (table.expect("not stopped"), view.terminal_count)
    }

    fn pairs(blocks: &[NgramBlock]) -> Vec<(u32, &[u8])> {
        let blocks = blocks.iter();
        blocks
            .map(|block| (block.first_word, &block.bytes[..]))
            .collect()
    }

    #[test]
    fn tables_come_back_from_their_blocks() {
        let grammars = test_grammars::random_many(12).chain([
            test_grammars::repeated_text(40),
            test_grammars::many_files(40),
            test_grammars::runs(9),
        ]);
        for grammar in grammars {
            let (table, words) = table(&grammar);
            let blocks = table.blocks();
            let read = NgramTable::of_blocks(table.files, words, &pairs(&blocks));
            let read = read.expect("just stored");
            for n in 1..=DEPTH {
                let counts = |table: &NgramTable| {
                    words_and_counts(table.ngram_counts(n, &GO).expect("not stopped"))
                };
                assert_eq!(counts(&read), counts(&table));
                let files = |table: &NgramTable| {
                    let found = table.ngram_file_counts(n, FileOrder::Count, &GO);
                    words_and_rows(n, found.expect("not stopped"))
                };
                assert_eq!(files(&read), files(&table));
            }
            // A block alone answers for its words.
            for (number, block) in pairs(&blocks).iter().enumerate() {
                let end = blocks.get(number + 1).map_or(words, |next| next.first_word);
                let alone = NgramTable::of_blocks(table.files, words, &[*block]).expect("stored");
                for word in (block.0..end).take(20) {
                    for other in 0..words.min(20) {
                        let ngram = [word, other];
                        assert_eq!(alone.count(&ngram), table.count(&ngram));
                    }
                }
            }
        }
    }

    #[test]
    fn changed_blocks_are_refused_or_give_rows_in_order() {
        for grammar in [test_grammars::many_files(10), test_grammars::runs(6)] {
            let (table, words) = table(&grammar);
            let blocks = table.blocks();
            for seed in 0..3_000 {
                let mut changed = blocks.clone();
                let block = mix(seed) as usize % changed.len();
                let bytes = &mut changed[block].bytes;
                let at = mix(seed + 1) as usize % bytes.len();
                match mix(seed + 2) % 3 {
                    0 => bytes[at] ^= 1 << (mix(seed + 3) % 8),
                    1 => bytes.truncate(at),
                    _ => bytes.push(mix(seed + 4) as u8),
                }
                let Some(read) = NgramTable::of_blocks(table.files, words, &pairs(&changed)) else {
                    continue;
                };
                for n in 1..=DEPTH {
                    let found = read.ngram_counts(n, &GO).expect("not stopped");
                    let (keys, _) = words_and_counts(found);
                    assert!(keys.chunks(n).is_sorted_by(|left, right| left < right));
                }
            }
        }
    }
}
