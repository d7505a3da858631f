//! N-grams of the stored files: all with their counts, or with the files that have them; how often and where one stands.
//!
//! Invariant: answers are those on the plain files. Each segment answers in its own numbers of words; here they become
//! those of the corpus, and the n-grams that a cut between the parts of a file goes through are added.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use zipfdb_kernels::{
    CountTable, FileOrder, NgramCounts, NgramFiles, NgramSet, PackedNgramCounts, WordSuffixes,
};

use super::file_index::Part;
use super::merge::{Ngrams, add_up, join, merge_all, renumber, rows};
use super::ngram_packing::{NgramCountPart, NgramFilePart};
use super::stored_view::StoredView;
use super::top::Top;
use crate::answer::cost::Task;
use crate::runtime::device::Run;
use crate::segment::{SegmentView, edge_words};
use crate::{Error, Result};

/// Bytes for the windows of one segment's n-grams: this part of what the cache may hold,
const WINDOW_SHARE: u64 = 4;

/// and at least and at most so many.
const WINDOW_BYTES: (u64, u64) = (1 << 20, 72 << 20);

/// Counts of n-grams: those of a segment fit 32 bits.
pub(crate) enum Counts {
    OfSegment(Vec<u32>),
    Merged(Vec<u64>),
}

impl Counts {
    pub(crate) fn len(&self) -> usize {
        match self {
            Counts::OfSegment(counts) => counts.len(),
            Counts::Merged(counts) => counts.len(),
        }
    }

    /// Appends those of some n-grams to `target`.
    pub(crate) fn append_to(&self, rows: Range<usize>, target: &mut Vec<u64>) {
        match self {
            Counts::OfSegment(counts) => target.extend(counts[rows].iter().copied().map(u64::from)),
            Counts::Merged(counts) => target.extend_from_slice(&counts[rows]),
        }
    }

    pub(crate) fn get(&self, index: usize) -> u64 {
        match self {
            Counts::OfSegment(counts) => u64::from(counts[index]),
            Counts::Merged(counts) => counts[index],
        }
    }
}

/// A sorted table of n-grams with their counts.
pub(crate) struct CountedNgrams {
    /// `[n-grams * n]`: the words of each.
    pub(crate) words: Vec<u32>,
    pub(crate) counts: Counts,
}

impl CountedNgrams {
    /// No n-grams.
    pub(crate) fn none() -> CountedNgrams {
        CountedNgrams {
            words: Vec::new(),
            counts: Counts::Merged(Vec::new()),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.counts.len()
    }

    /// The words and count of each, of n words.
    pub(crate) fn iter(&self, n: usize) -> impl Iterator<Item = (&[u32], u64)> {
        let words = self.words.chunks_exact(n);
        words.zip((0..self.len()).map(|index| self.counts.get(index)))
    }
}

/// Some n-grams of an answer: as they are read, or packed until they are.
pub(crate) enum NgramsPart {
    Counted(CountedNgrams),
    Packed(PackedNgramCounts),
}

impl NgramsPart {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            NgramsPart::Counted(counted) => counted.len(),
            NgramsPart::Packed(packed) => packed.len(),
        }
    }

    /// The table of a part that is read no more.
    pub(crate) fn into_counted(self) -> CountedNgrams {
        match self {
            NgramsPart::Counted(counted) => counted,
            NgramsPart::Packed(packed) => of_segment(packed.unpacked()),
        }
    }

    /// Calls `visit` with the words and count of each, of n words.
    pub(crate) fn for_each(&self, n: usize, visit: impl FnMut((&[u32], u64))) {
        match self {
            NgramsPart::Counted(counted) => counted.iter(n).for_each(visit),
            NgramsPart::Packed(packed) => of_segment(packed.unpacked()).iter(n).for_each(visit),
        }
    }
}

/// A part of the only segment, whose words have the numbers of those of the corpus.
pub(super) fn part_of_segment(part: NgramCountPart) -> NgramsPart {
    match part {
        NgramCountPart::Plain(plain) => NgramsPart::Counted(of_segment(plain)),
        NgramCountPart::Packed(packed) => NgramsPart::Packed(packed),
    }
}

impl Top {
    /// The n-grams that are among the first of their part of a suffix array: no others are among the first of all.
    fn of_suffixes(
        self,
        suffixes: &WordSuffixes,
        n: usize,
        stop: &AtomicBool,
    ) -> Result<Vec<NgramCounts>> {
        let choose = |counts: &mut dyn Iterator<Item = u32>| {
            let last = self.last(counts.map(u64::from));
            move |count| self.is_used(u64::from(count), last)
        };
        Ok(suffixes.ngram_counts_if(n, choose, stop)?)
    }

    /// The n-grams of n words that are used, of all.
    pub(crate) fn of_ngrams(self, parts: Vec<NgramsPart>, n: usize) -> Vec<NgramsPart> {
        let counts = parts.iter().flat_map(|part| {
            let mut counts = Vec::with_capacity(part.len());
            part.for_each(n, |(_, times)| counts.push(times));
            counts
        });
        let last = self.last(counts);
        let used = parts.into_iter().map(|part| {
            let (mut words, mut counts) = (Vec::new(), Vec::new());
            part.for_each(n, |(row, times)| {
                if self.is_used(times, last) {
                    words.extend_from_slice(row);
                    counts.push(times);
                }
            });
            NgramsPart::Counted(CountedNgrams {
                words,
                counts: Counts::Merged(counts),
            })
        });
        used.collect()
    }
}

/// The words of the only segment have the numbers of those of the corpus.
pub(super) fn of_segment(part: NgramCounts) -> CountedNgrams {
    CountedNgrams {
        words: part.words,
        counts: Counts::OfSegment(part.counts),
    }
}

impl StoredView {
    /// Bytes for the windows of one segment's n-grams.
    pub(super) fn window_bytes(&self) -> usize {
        let (least, most) = WINDOW_BYTES;
        // At most the second of them.
        (self.cache().limit() / WINDOW_SHARE).clamp(least, most) as usize
    }

    /// All n-grams with their counts, in parts that follow each other. Those that `top` does not use may be missing.
    pub(crate) fn ngrams(
        &self,
        n: usize,
        top: Option<Top>,
        run: Run<'_>,
    ) -> Result<Vec<NgramsPart>> {
        self.vocabulary()?;
        let set = NgramSet::from(n);
        // With several segments only the sum of their counts tells what is used.
        let top = top.filter(|_| self.segments.len() == 1);
        let counts = |segment: &SegmentView| match top.zip(segment.suffixes(n)) {
            Some((top, suffixes)) => {
                let found = top.of_suffixes(suffixes, n, run.stop)?.into_iter();
                Ok(found.map(NgramCountPart::Plain).collect())
            }
            None => segment.ngram_counts(&set, self.window_bytes(), run.stop),
        };
        let mut answers = self.each_segment(Task::Ngrams, run, counts, |segment, device| {
            segment.ngrams_on(device, &set)
        })?;
        if self.segments.len() == 1 {
            let only = answers.pop().unwrap_or_default().into_iter();
            return Ok(only.map(part_of_segment).collect());
        }
        let mut lists = Vec::new();
        for (index, parts) in answers.into_iter().enumerate() {
            let wide = |part: NgramCounts| Ngrams {
                words: part.words,
                values: part.counts.into_iter().map(u64::from).collect(),
            };
            let parts = parts.into_iter().map(NgramCountPart::into_plain);
            let mut found = join(parts.map(wide));
            self.to_numbers(index, &mut found.words)?;
            lists.push(found);
        }
        let cut = self.cut_ngrams(n)?;
        lists.push(Ngrams {
            values: vec![1; cut.values.len()],
            words: cut.words,
        });
        let merged = merge_all(lists, n, |sum, count| *sum += count);
        Ok(vec![NgramsPart::Counted(CountedNgrams {
            words: merged.words,
            counts: Counts::Merged(merged.values),
        })])
    }

    /// All n-grams, and for each a row of files with counts, in parts that follow each other.
    pub(crate) fn ngram_files(
        &self,
        n: usize,
        order: FileOrder,
        run: Run<'_>,
    ) -> Result<Vec<NgramFilePart>> {
        self.vocabulary()?;
        let set = NgramSet::from(n);
        // The files of the only segment are those of the corpus, in the same order.
        let is_only = self.segments.len() == 1;
        let first_order = if is_only { order } else { FileOrder::File };
        let mut answers = self.each_segment(
            Task::NgramFiles,
            run,
            |segment| segment.ngram_files(&set, first_order, self.window_bytes(), run.stop),
            |segment, device| segment.ngram_files_on(device, &set, first_order),
        )?;
        if is_only {
            return Ok(answers.pop().unwrap_or_default());
        }
        let mut lists = Vec::new();
        for (index, parts) in answers.into_iter().enumerate() {
            let numbers = self.file_numbers(index)?;
            let parts = parts.into_iter().map(|part| {
                let part = part.into_plain();
                let mut files = part.files.into_table();
                renumber(&mut files, &numbers);
                Ngrams {
                    values: rows(&files),
                    words: part.words,
                }
            });
            let mut found = join(parts);
            self.to_numbers(index, &mut found.words)?;
            lists.push(found);
        }
        let cut = self.cut_ngrams(n)?;
        lists.push(Ngrams {
            words: cut.words,
            values: cut.values.into_iter().map(|file| vec![(file, 1)]).collect(),
        });
        let mut merged = merge_all(lists, n, |row: &mut Vec<(u32, u32)>, more| row.extend(more));
        merged.values.par_iter_mut().try_for_each(|row| {
            add_up(row)?;
            if order == FileOrder::Count {
                row.sort_unstable_by_key(|&(file, count)| (std::cmp::Reverse(count), file));
            }
            Ok::<(), Error>(())
        })?;
        Ok(vec![NgramFilePart::Plain(NgramFiles {
            words: merged.words,
            files: CountTable::of_rows(merged.values).into(),
        })])
    }

    /// How often an n-gram occurs, told by the numbers of its words.
    pub(crate) fn ngram_count(&self, words: &[u32], stop: &AtomicBool) -> Result<u64> {
        let mut count = 0;
        for index in 0..self.segments.len() {
            if let Some(words) = self.segment_words(index, words)? {
                count += self.segment_at(index).ngram_count(&words, stop)?;
            }
        }
        let mut cut = 0;
        self.for_each_cut(words.len(), |found, _, _| cut += u64::from(found == words))?;
        Ok(count + cut)
    }

    /// Where an n-gram occurs: file, and number of its first word in it; ascending.
    pub(crate) fn ngram_positions(
        &self,
        words: &[u32],
        stop: &AtomicBool,
    ) -> Result<Vec<(u32, u64)>> {
        let mut places = Vec::new();
        for (index, segment) in self.segments.iter().enumerate() {
            let Some(words) = self.segment_words(index, words)? else {
                continue;
            };
            let entries = segment.files()?;
            let segment = SegmentView::of(segment);
            let found = segment.ngram_positions(&words, stop)?.into_iter();
            places.extend(found.map(|(number, position)| {
                let before = entries[number as usize].first_word;
                (self.file_number(index, number), before + position)
            }));
        }
        self.for_each_cut(words.len(), |found, file, position| {
            if found == words {
                places.push((file, position));
            }
        })?;
        places.sort_unstable();
        Ok(places)
    }

    /// The segment's numbers of words; none if it has not all of them.
    fn segment_words(&self, segment: usize, words: &[u32]) -> Result<Option<Vec<u32>>> {
        let Some(numbers) = self.vocabulary()?.numbers(segment) else {
            return Ok(Some(words.to_vec()));
        };
        let words = words.iter();
        // Numbers are u32.
        let found = words.map(|word| numbers.binary_search(word).ok().map(|at| at as u32));
        Ok(found.collect())
    }

    /// The n-grams that begin in one part of a file and end in a later one, sorted, each with its file; one for each place.
    pub(super) fn cut_ngrams(&self, n: usize) -> Result<Ngrams<u32>> {
        let mut found: Vec<(Vec<u32>, u32)> = Vec::new();
        self.for_each_cut(n, |words, file, _| found.push((words.to_vec(), file)))?;
        found.sort_unstable();
        let values = found.iter().map(|&(_, file)| file).collect();
        let words = found.into_iter().flat_map(|(words, _)| words).collect();
        Ok(Ngrams { words, values })
    }

    /// Calls `visit` with the n-grams that begin in one part of a file and end in a later one, their files, and the numbers
    /// of their first words in these.
    fn for_each_cut(&self, n: usize, mut visit: impl FnMut(&[u32], u32, u64)) -> Result<()> {
        let vocabulary = self.vocabulary()?;
        for file in 0..self.index.files().len() {
            let parts = self.index.parts(file);
            let mut end = 0;
            for (place, part) in parts.iter().enumerate().take(parts.len() - 1) {
                let segment = self.segment(part);
                end += segment.files()?[part.file as usize].words;
                let numbers = |part: &Part, from_end| -> Result<Vec<u32>> {
                    let segment = self.segment(part);
                    let view = segment.word_grammar()?.view();
                    let words = edge_words(view, part.file, n - 1, from_end).into_iter();
                    let number = |word| vocabulary.number(part.segment as usize, word);
                    Ok(words.map(number).collect())
                };
                let mut words = numbers(part, true)?;
                let before = words.len();
                for next in &parts[place + 1..] {
                    if words.len() - before >= n - 1 {
                        break;
                    }
                    words.extend(numbers(next, false)?);
                }
                words.truncate(before + n - 1);
                for (index, window) in words.windows(n).enumerate() {
                    // A file's place is a u32. At most n - 1 words lie before the cut.
                    visit(window, file as u32, end - before as u64 + index as u64);
                }
            }
        }
        Ok(())
    }

    pub(super) fn to_numbers(&self, segment: usize, words: &mut [u32]) -> Result<()> {
        if let Some(numbers) = self.vocabulary()?.numbers(segment) {
            words
                .par_iter_mut()
                .for_each(|word| *word = numbers[*word as usize]);
        }
        Ok(())
    }
}
