//! Merges n-grams of partitions, for ranges of first words.
//!
//! In   for each partition, a segment or a part of a root, its n-grams in consecutive parts; and the n-grams across cuts
//! Out  the n-grams of all, with the values of equal ones joined, in consecutive parts, packed unless all were plain
//! Work O(n-grams * log partitions)
//!
//! The invariant: numbers of words ascend in the whole as they do in a partition, so sorted rows stay sorted. Of packed parts
//! only those with words of the merged range are unpacked.

use std::cmp::Ordering;
use std::ops::Range;

use rayon::prelude::*;
use zipfdb_kernels::FileOrder;

use super::merge::CutNgrams;
use super::ngram_payload::{NgramPayload, NgramsPart};
use crate::Result;
use crate::bisect::partition_point;
use crate::merge::{KWayMerge, MergeSource};

/// The least number of n-grams that one task merges: in all, which is about what a packed part has, and for each partition.
const TASK_NGRAMS_MIN: usize = if cfg!(test) { 1 << 5 } else { 1 << 18 };
const PARTITION_NGRAMS_MIN: usize = if cfg!(test) { 1 << 3 } else { 1 << 16 };

/// Words that a number of 128 bits holds.
const FIRST_WORDS: usize = 4;

/// Maps the numbers of a partition to those of the whole.
pub(super) struct Numbers<W, F> {
    /// The word of a partition; ascending.
    pub(super) word: W,
    /// The file of a partition.
    pub(super) file: F,
}

/// Cuts first words into ranges with about the n-grams of a task. `stretches` has the first word and the number of n-grams of
/// each stretch of all parts.
fn ranges(mut stretches: Vec<(u32, usize)>, partitions: usize) -> Vec<Range<u32>> {
    let task = TASK_NGRAMS_MIN.max(partitions * PARTITION_NGRAMS_MIN);
    stretches.sort_unstable();
    let (mut ranges, mut start, mut held, mut last) = (Vec::new(), 0, 0, 0);
    for (word, ngrams) in stretches {
        if held >= task && word > last {
            ranges.push(start..word);
            (start, held) = (word, 0);
        }
        (held, last) = (held + ngrams, word);
    }
    // No word has the largest number.
    ranges.push(start..u32::MAX);
    ranges
}

/// The rows of sorted n-grams that begin with a word in a range; `word` maps a word to the numbers of the range.
fn rows_in(words: &[u32], n: usize, range: &Range<u32>, word: impl Fn(u32) -> u32) -> Range<usize> {
    let rows = words.len() / n;
    let before = |end: u32| partition_point(rows, |row| word(words[row * n]) < end);
    before(range.start)..before(range.end)
}

/// The parts that may have n-grams that begin with a word in a range.
fn parts_in<P>(parts: &[P], range: &Range<u32>, first: impl Fn(&P) -> u32) -> Range<usize> {
    // N-grams that begin with one word may be in several parts.
    let start = partition_point(parts.len(), |part| first(&parts[part]) < range.start);
    let end = partition_point(parts.len(), |part| first(&parts[part]) < range.end);
    start.saturating_sub(1)..end
}

/// Goes through the sorted n-grams of a list.
struct ListSource<'a> {
    list: usize,
    n: usize,
    words: &'a [u32],
    /// The row that comes next.
    next: usize,
    /// The words of the row before that: the first of them as one number, which decides most comparisons, and the rest.
    current: (u128, &'a [u32]),
}

impl<'a> ListSource<'a> {
    fn new(list: usize, n: usize, words: &'a [u32]) -> ListSource<'a> {
        ListSource {
            list,
            n,
            words,
            next: 0,
            current: (0, &[]),
        }
    }

    /// The list and the row of the current n-gram.
    fn place(&self) -> (usize, usize) {
        (self.list, self.next - 1)
    }
}

impl MergeSource for ListSource<'_> {
    fn advance(&mut self) -> Result<bool> {
        let words = self.words.get(self.next * self.n..(self.next + 1) * self.n);
        self.next += 1;
        let Some(words) = words else {
            return Ok(false);
        };
        let (first, rest) = words.split_at(self.n.min(FIRST_WORDS));
        let number = |number: u128, &word: &u32| number << u32::BITS | u128::from(word);
        self.current = (first.iter().fold(0, number), rest);
        Ok(true)
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.current.cmp(&other.current)
    }
}

/// Calls `visit` with each n-gram of sorted lists, in order, and its rows: the list and the place there of each.
fn for_each_row(
    lists: &[&[u32]],
    n: usize,
    mut visit: impl FnMut(&[u32], &[(usize, usize)]) -> Result<()>,
) -> Result<()> {
    let sources = lists.iter().enumerate();
    let sources = sources.map(|(list, words)| ListSource::new(list, n, words));
    let mut merge = KWayMerge::new(sources.collect())?;
    let (mut ngram, mut rows) = (None, Vec::new());
    let words_of = |&(list, row): &(usize, usize)| &lists[list][row * n..(row + 1) * n];
    while let Some(source) = merge.next()? {
        if ngram != Some(source.current) {
            if let Some(first) = rows.first() {
                visit(words_of(first), &rows)?;
            }
            rows.clear();
            ngram = Some(source.current);
        }
        rows.push(source.place());
    }
    match rows.first() {
        Some(first) => visit(words_of(first), &rows),
        None => Ok(()),
    }
}

/// Merges the n-grams of partitions, and those across cuts, each once for each place with its file.
pub(super) fn merge_parts<P, W, F>(
    n: usize,
    order: FileOrder,
    mut partitions: Vec<Vec<NgramsPart<P>>>,
    cut: &CutNgrams,
    numbers: Numbers<W, F>,
) -> Result<Vec<NgramsPart<P>>>
where
    P: NgramPayload,
    W: Fn(usize, u32) -> u32 + Sync,
    F: Fn(usize, u32) -> u32 + Sync,
{
    // Without the empty parts first words ascend.
    for parts in &mut partitions {
        parts.retain(|part| part.len() > 0);
    }
    // Tables that are not packed have room as they are.
    let is_plain = |part: &NgramsPart<P>| matches!(part, NgramsPart::Plain(_));
    let is_plain = partitions.iter().flatten().all(is_plain);
    let numbers = &numbers;
    let stretches = partitions.iter().enumerate().flat_map(|(at, parts)| {
        let stretches = parts
            .iter()
            .flat_map(move |part| part.stretches(n, PARTITION_NGRAMS_MIN));
        stretches.map(move |(word, ngrams)| ((numbers.word)(at, word), ngrams))
    });
    let ranges = ranges(stretches.collect(), partitions.len());
    let merged = ranges.into_par_iter().map(|range| {
        let mut lists: Vec<(Vec<u32>, P::Rows)> = Vec::with_capacity(partitions.len() + 1);
        for (at, parts) in partitions.iter().enumerate() {
            let number = |word| (numbers.word)(at, word);
            let (mut words, mut payloads) = (Vec::new(), P::Rows::default());
            let first = |part: &NgramsPart<P>| part.first_word().map_or(0, number);
            for part in &parts[parts_in(parts, &range, first)] {
                let part = part.plain();
                let all = P::words(&part);
                let rows = rows_in(all, n, &range, number);
                let found = all[rows.start * n..rows.end * n].iter();
                words.extend(found.map(|&word| number(word)));
                P::append(&mut payloads, &part, rows, |file| (numbers.file)(at, file));
            }
            lists.push((words, payloads));
        }
        let places = rows_in(&cut.words, n, &range, |word| word);
        let words = cut.words[places.start * n..places.end * n].to_vec();
        lists.push((words, P::once(&cut.files[places])));
        let words: Vec<&[u32]> = lists.iter().map(|(words, _)| &words[..]).collect();
        let (mut ngrams, mut sums) = (Vec::new(), P::Rows::default());
        for_each_row(&words, n, |ngram, rows| {
            ngrams.extend_from_slice(ngram);
            P::push_sum(&mut sums, &lists, rows, order)
        })?;
        let table = P::table(ngrams, sums);
        Ok(if is_plain {
            NgramsPart::Plain(table)
        } else {
            P::pack(n, table)
        })
    });
    merged.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use zipfdb_kernels::{CountTable, NgramFiles, PackedNgramFiles};

    use super::super::counted_ngrams::WithCounts;
    use super::super::ngram_files::WithFiles;
    use super::*;

    /// Partitions of n-grams of two words below 40 in files of their own, some parts of which begin with the same word.
    fn partitions(seed: u64) -> Vec<Vec<NgramsPart<WithFiles>>> {
        let mut state = seed;
        let mut below = |most: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            ((state >> 33) % most) as u32
        };
        let of_partition = |partition: u32| {
            let mut rows: BTreeMap<Vec<u32>, BTreeMap<u32, u32>> = BTreeMap::new();
            for _ in 0..below(400) {
                let row = rows.entry(vec![below(40), below(9)]).or_default();
                row.insert(partition * 10 + below(10), 1 + below(3));
            }
            let rows: Vec<_> = rows.into_iter().collect();
            // Some of them are empty.
            let chunks = rows
                .chunks(1 + below(60) as usize)
                .flat_map(|rows| [rows, &[]]);
            let parts = chunks.map(|rows| {
                let files = rows
                    .iter()
                    .map(|(_, files)| files.clone().into_iter().collect());
                let part = NgramFiles {
                    words: rows.iter().flat_map(|(words, _)| words.clone()).collect(),
                    files: CountTable::of_rows(files.collect()).into(),
                };
                match rows.len() % 2 {
                    0 => NgramsPart::Plain(part),
                    _ => NgramsPart::Packed(PackedNgramFiles::new(2, &part)),
                }
            });
            parts.collect()
        };
        (0..5).map(of_partition).collect()
    }

    #[test]
    fn what_is_merged_is_the_sum_of_partitions_and_cuts() {
        for seed in 0..20 {
            let partitions = partitions(seed);
            // Words of the second partition are the odd ones of the whole, all others the even ones.
            let word = |at: usize, word: u32| 2 * word + u32::from(at == 1);
            let cut = CutNgrams {
                words: vec![0, 3, 4, 4, 4, 4, 78, 2],
                files: vec![7, 7, 7, 50],
            };
            let mut expected: BTreeMap<Vec<u32>, BTreeMap<u32, u32>> = BTreeMap::new();
            for (at, parts) in partitions.iter().enumerate() {
                for part in parts.iter().map(NgramsPart::plain) {
                    for (row, words) in part.words.chunks(2).enumerate() {
                        let words = words.iter().map(|&found| word(at, found)).collect();
                        let files = expected.entry(words).or_default();
                        for &(file, count) in part.files.row(row) {
                            *files.entry(file + 1).or_default() += count;
                        }
                    }
                }
            }
            for (words, &file) in cut.words.chunks(2).zip(&cut.files) {
                let files = expected.entry(words.to_vec()).or_default();
                *files.entry(file).or_default() += 1;
            }
            let counts: Vec<Vec<NgramsPart<WithCounts>>> = (partitions.iter())
                .map(|parts| parts.iter().map(|part| counts_of(&part.plain())).collect())
                .collect();
            let numbers = Numbers {
                word,
                file: |_, file| file + 1,
            };
            let merged = merge_parts(2, FileOrder::File, partitions, &cut, numbers).unwrap();
            let mut found = Vec::new();
            for part in merged.iter().map(NgramsPart::plain) {
                for (row, words) in part.words.chunks(2).enumerate() {
                    found.push((words.to_vec(), part.files.row(row).to_vec()));
                }
            }
            let rows = expected.iter().map(|(words, files)| {
                let files: Vec<(u32, u32)> = files.clone().into_iter().collect();
                (words.clone(), files)
            });
            assert_eq!(found, rows.collect::<Vec<_>>(), "seed {seed}");

            let mut found = Vec::new();
            let numbers = Numbers {
                word,
                file: |_, file| file,
            };
            for part in merge_parts(2, FileOrder::File, counts, &cut, numbers).unwrap() {
                part.for_each(2, |(words, count)| found.push((words.to_vec(), count)));
            }
            let sums = expected.into_iter().map(|(words, files)| {
                let counts = files.into_values().map(u64::from);
                (words, counts.sum::<u64>())
            });
            assert_eq!(found, sums.collect::<Vec<_>>(), "seed {seed}");
        }
    }

    fn counts_of(part: &NgramFiles) -> NgramsPart<WithCounts> {
        let rows = (0..part.files.rows()).map(|row| part.files.row(row));
        let counts = rows.map(|row| row.iter().map(|entry| u64::from(entry.1)).sum());
        NgramsPart::Plain(WithCounts::table(part.words.clone(), counts.collect()))
    }

    #[test]
    fn words_that_begin_much_are_ranges_of_their_own() {
        let many = TASK_NGRAMS_MIN;
        let found = ranges(vec![(3, many), (3, many), (9, 5), (5, many), (9, many)], 1);
        assert_eq!(found, [0..5, 5..9, 9..u32::MAX]);
        assert_eq!(ranges(Vec::new(), 0), vec![0..u32::MAX]);
    }
}
