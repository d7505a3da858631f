//! The tasks of TADOC on a corpus: counts of all words and n-grams, in the whole and file by file.
//!
//! The invariant: answers are those on the plain files, however these are spread over segments or cut into parts. Each
//! segment answers on its grammar; here numbers of words and files become those of the corpus, tables are merged, and the
//! n-grams that a cut goes through are added.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use zipfdb_kernels::{
    CountTable, FileOrder, NgramCounts, NgramFiles, Stopped, WordSuffixes, word_set_counts,
};

use crate::answer::file_index::Part;
use crate::answer::stored_view::StoredView;
use crate::answer::top::Top;
use crate::runtime::device::Run;
use crate::runtime::interrupt::check;
use crate::segment::{SegmentView, edge_words};
use crate::strategy::Task;
use crate::{Error, Result};

/// Bytes for the windows of one segment's n-grams: this part of what the cache may hold,
const WINDOW_SHARE: u64 = 4;

/// and at least and at most so many.
const WINDOW_BYTES: (u64, u64) = (1 << 20, 128 << 20);

/// A sorted table of n-grams.
pub(super) struct Ngrams<T> {
    /// `[n-grams * n]`: the words of each.
    pub(super) words: Vec<u32>,
    /// What belongs to each.
    pub(super) values: Vec<T>,
}

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
    pub(super) fn append_to(&self, rows: Range<usize>, target: &mut Vec<u64>) {
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
    pub(crate) fn of_ngrams(self, parts: Vec<CountedNgrams>, n: usize) -> Vec<CountedNgrams> {
        let counts = parts.iter().flat_map(|part| part.iter(n));
        let last = self.last(counts.map(|(_, times)| times));
        let used = parts.into_iter().map(|part| {
            let rows = part.iter(n).filter(|&(_, times)| self.is_used(times, last));
            let (mut words, mut counts) = (Vec::new(), Vec::new());
            for (row, times) in rows {
                words.extend_from_slice(row);
                counts.push(times);
            }
            CountedNgrams {
                words,
                counts: Counts::Merged(counts),
            }
        });
        used.collect()
    }
}

/// The words of the only segment have the numbers of those of the corpus.
fn of_segment(part: NgramCounts) -> CountedNgrams {
    CountedNgrams {
        words: part.words,
        counts: Counts::OfSegment(part.counts),
    }
}

impl StoredView {
    /// Bytes for the windows of one segment's n-grams.
    fn window_bytes(&self) -> usize {
        let (least, most) = WINDOW_BYTES;
        // At most the second of them.
        (self.cache().limit() / WINDOW_SHARE).clamp(least, most) as usize
    }

    /// How often each word occurs; by its number.
    pub(crate) fn totals(&self, run: Run<'_>) -> Result<Vec<u64>> {
        let vocabulary = self.vocabulary()?;
        let mut totals = vec![0u64; vocabulary.len()];
        let tables = self.each_segment(
            Task::Totals,
            run,
            |segment| segment.totals().map(<[u32]>::to_vec),
            |segment, device| segment.totals_on(device),
        )?;
        for (index, counts) in tables.iter().enumerate() {
            match vocabulary.numbers(index) {
                None => {
                    let counts = counts.iter().map(|&count| u64::from(count));
                    totals = counts.collect();
                }
                Some(numbers) => {
                    for (&number, &count) in numbers.iter().zip(&counts[..]) {
                        totals[number as usize] += u64::from(count);
                    }
                }
            }
        }
        Ok(totals)
    }

    /// The words of a file and how often each occurs there, ascending.
    pub(crate) fn totals_of(&self, file: usize) -> Result<Vec<(u32, u64)>> {
        let vocabulary = self.vocabulary()?;
        let parts = self.index.parts(file);
        let mut counts = Vec::new();
        for part in parts {
            let found = self.segment(part).word_counts(part.file)?.into_iter();
            counts
                .extend(found.map(|(word, n)| (vocabulary.number(part.segment as usize, word), n)));
        }
        if parts.len() > 1 {
            counts.sort_unstable_by_key(|&(word, _)| word);
            counts.dedup_by(|next, kept| {
                let same = next.0 == kept.0;
                if same {
                    kept.1 += next.1;
                }
                same
            });
        }
        Ok(counts)
    }

    /// A row for each file: its words with counts.
    pub(crate) fn file_words(&self, run: Run<'_>) -> Result<Arc<CountTable>> {
        let vocabulary = self.vocabulary()?;
        let mut tables = self.each_segment(
            Task::FileCounts,
            run,
            |segment| segment.file_words(run.stop).cloned(),
            |segment, device| segment.file_words_held(device),
        )?;
        if self.segments.len() == 1 {
            return tables.pop().ok_or(Error::Interrupted);
        }
        let tables = tables.iter().enumerate().map(|(index, table)| {
            let mut table = CountTable::clone(table);
            if let Some(numbers) = vocabulary.numbers(index) {
                renumber(&mut table, numbers);
            }
            Ok(table)
        });
        let tables: Vec<CountTable> = tables.collect::<Result<_>>()?;
        let merged = merge(self.index.files().len(), tables, |segment, row| {
            self.file_number(segment, row)
        });
        merged.map(Arc::new)
    }

    /// A row for each word: its files with counts.
    pub(crate) fn word_files(&self, run: Run<'_>) -> Result<Arc<CountTable>> {
        let vocabulary = self.vocabulary()?;
        let mut tables = self.each_segment(
            Task::FileCounts,
            run,
            |segment| segment.word_files(run.stop).cloned(),
            |segment, device| segment.word_files_held(device),
        )?;
        if self.segments.len() == 1 {
            // The files of the only segment are those of the corpus, in the same order.
            return tables.pop().ok_or(Error::Interrupted);
        }
        let tables = tables.iter().enumerate().map(|(index, table)| {
            let mut table = CountTable::clone(table);
            renumber(&mut table, &self.file_numbers(index)?);
            Ok(table)
        });
        let tables: Vec<CountTable> = tables.collect::<Result<_>>()?;
        let merged = merge(vocabulary.len(), tables, |segment, row| {
            vocabulary.number(segment, row)
        });
        merged.map(Arc::new)
    }

    /// For each file how often words of a set, told by their numbers, occur in it.
    pub(crate) fn word_set_counts(&self, in_set: &[bool], stop: &AtomicBool) -> Result<Vec<u64>> {
        let vocabulary = self.vocabulary()?;
        let mut counts = vec![0u64; self.index.files().len()];
        for (index, segment) in self.segments.iter().map(SegmentView::of).enumerate() {
            check(stop)?;
            let view = segment.word_grammar()?.view();
            let found =
                word_set_counts(view, |word| in_set[vocabulary.number(index, word) as usize]);
            for (number, count) in (0..).zip(found) {
                counts[self.file_number(index, number) as usize] += count;
            }
        }
        Ok(counts)
    }

    /// Where a word stands in a file: offsets of its first bytes, ascending.
    pub(crate) fn offsets_of(&self, file: usize, word: u32, stop: &AtomicBool) -> Result<Vec<u64>> {
        self.search_in(file, self.known_vocabulary().word(word), stop)
    }

    /// Where a word stands in a file, counted in words; ascending.
    pub(crate) fn positions_of(
        &self,
        file: usize,
        word: u32,
        stop: &AtomicBool,
    ) -> Result<Vec<u64>> {
        let (mut positions, mut before) = (Vec::new(), 0);
        for part in self.index.parts(file) {
            let segment = self.segment(part);
            let tokens = segment.find_word(self.known_vocabulary().word(word))?;
            let found = segment
                .positions_in_file(part.file, tokens, stop)?
                .into_iter();
            positions.extend(found.map(|position| before + position));
            before += segment.files()?[part.file as usize].words;
        }
        Ok(positions)
    }

    /// All n-grams with their counts, in parts that follow each other. Those that `top` does not use may be missing.
    pub(crate) fn ngrams(
        &self,
        n: usize,
        top: Option<Top>,
        run: Run<'_>,
    ) -> Result<Vec<CountedNgrams>> {
        self.vocabulary()?;
        // With several segments only the sum of their counts tells what is used.
        let top = top.filter(|_| self.segments.len() == 1);
        let counts = |segment: &SegmentView| match top.zip(segment.suffixes(n)) {
            Some((top, suffixes)) => top.of_suffixes(suffixes, n, run.stop),
            None => segment.ngram_counts(n, self.window_bytes(), run.stop),
        };
        let mut answers = self.each_segment(Task::Ngrams, run, counts, |segment, device| {
            segment.ngrams_on(device, n)
        })?;
        if self.segments.len() == 1 {
            let only = answers.pop().unwrap_or_default().into_iter();
            return Ok(only.map(of_segment).collect());
        }
        let mut lists = Vec::new();
        for (index, parts) in answers.into_iter().enumerate() {
            let wide = |part: NgramCounts| Ngrams {
                words: part.words,
                values: part.counts.into_iter().map(u64::from).collect(),
            };
            let mut found = join(parts.into_iter().map(wide));
            self.to_numbers(index, &mut found.words)?;
            lists.push(found);
        }
        let cut = self.cut_ngrams(n)?;
        lists.push(Ngrams {
            values: vec![1; cut.values.len()],
            words: cut.words,
        });
        let merged = merge_all(lists, n, |sum, count| *sum += count);
        Ok(vec![CountedNgrams {
            words: merged.words,
            counts: Counts::Merged(merged.values),
        }])
    }

    /// All n-grams, and for each a row of files with counts, in parts that follow each other.
    pub(crate) fn ngram_files(
        &self,
        n: usize,
        order: FileOrder,
        run: Run<'_>,
    ) -> Result<Vec<NgramFiles>> {
        self.vocabulary()?;
        // The files of the only segment are those of the corpus, in the same order.
        let is_only = self.segments.len() == 1;
        let first_order = if is_only { order } else { FileOrder::File };
        let mut answers = self.each_segment(
            Task::NgramFiles,
            run,
            |segment| segment.ngram_files(n, first_order, self.window_bytes(), run.stop),
            |segment, device| segment.ngram_files_on(device, n, first_order),
        )?;
        if is_only {
            return Ok(answers.pop().unwrap_or_default());
        }
        let mut lists = Vec::new();
        for (index, parts) in answers.into_iter().enumerate() {
            let numbers = self.file_numbers(index)?;
            let parts = parts.into_iter().map(|part| {
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
        Ok(vec![NgramFiles {
            words: merged.words,
            files: CountTable::of_rows(merged.values).into(),
        }])
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

    /// The offset of the own first byte of a word, told by its number in its file.
    pub(crate) fn offset_of_word(&self, file: u32, position: u64) -> Result<u64> {
        let mut before = 0;
        for part in self.index.parts(file as usize) {
            let segment = self.segment(part);
            let words = segment.files()?[part.file as usize].words;
            if position < before + words {
                let offset = segment.offset_of_word(part.file, position - before)?;
                return Ok(part.first_byte + offset);
            }
            before += words;
        }
        Err(Error::Invalid {
            subject: self.index.files()[file as usize].name.clone(),
            reason: format!("it has no word number {position}"),
        })
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
    fn cut_ngrams(&self, n: usize) -> Result<Ngrams<u32>> {
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

    fn to_numbers(&self, segment: usize, words: &mut [u32]) -> Result<()> {
        if let Some(numbers) = self.vocabulary()?.numbers(segment) {
            words
                .par_iter_mut()
                .for_each(|word| *word = numbers[*word as usize]);
        }
        Ok(())
    }

    fn file_number(&self, segment: usize, number: u32) -> u32 {
        // Both are counted by u32.
        self.index.file_of(segment as u32, number) as u32
    }

    /// For each entry of a segment's file table the file that it is a part of.
    fn file_numbers(&self, segment: usize) -> Result<Vec<u32>> {
        let entries = self.segments[segment].files()?.len() as u32;
        Ok((0..entries)
            .map(|number| self.file_number(segment, number))
            .collect())
    }
}

impl From<Stopped> for Error {
    fn from(_: Stopped) -> Error {
        Error::Interrupted
    }
}

/// Gives the columns of a table the numbers of the corpus, which ascend as the columns do.
fn renumber(table: &mut CountTable, numbers: &[u32]) {
    let entries = table.entries.par_iter_mut();
    entries.for_each(|entry| entry.0 = numbers[entry.0 as usize]);
}

/// Merges tables, one a segment, to one of `row_count` rows; `number` says which row the row of a segment becomes. Counts
/// of one column of one row are added up.
fn merge(
    row_count: usize,
    tables: Vec<CountTable>,
    number: impl Fn(usize, u32) -> u32 + Sync,
) -> Result<CountTable> {
    let mut sources: Vec<Vec<(usize, usize)>> = vec![Vec::new(); row_count];
    for (segment, table) in tables.iter().enumerate() {
        for row in 0..table.rows() {
            // Rows are words or files, which are u32.
            sources[number(segment, row as u32) as usize].push((segment, row));
        }
    }
    let rows: Vec<Vec<(u32, u32)>> = (sources.par_iter())
        .map(|sources| {
            let rows = sources.iter();
            let rows = rows.map(|&(segment, row)| tables[segment].row(row));
            let mut merged = rows.collect::<Vec<_>>().concat();
            add_up(&mut merged)?;
            Ok(merged)
        })
        .collect::<Result<_>>()?;
    Ok(CountTable::of_rows(rows))
}

/// Sorts a row by column and adds up the counts of each.
pub(super) fn add_up(row: &mut Vec<(u32, u32)>) -> Result<()> {
    row.sort_unstable_by_key(|&(column, _)| column);
    let mut fits = true;
    row.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            let sum = kept.1.checked_add(next.1);
            fits &= sum.is_some();
            kept.1 = sum.unwrap_or(u32::MAX);
        }
        same
    });
    match fits {
        true => Ok(()),
        false => Err(Error::Invalid {
            subject: "count".into(),
            reason: "a word or n-gram occurs more than 4294967295 times in one file".into(),
        }),
    }
}

/// Puts parts that follow each other together.
pub(super) fn join<T>(parts: impl Iterator<Item = Ngrams<T>>) -> Ngrams<T> {
    let mut whole = Ngrams {
        words: Vec::new(),
        values: Vec::new(),
    };
    for part in parts {
        whole.words.extend(part.words);
        whole.values.extend(part.values);
    }
    whole
}

pub(super) fn rows(table: &CountTable) -> Vec<Vec<(u32, u32)>> {
    let rows = (0..table.rows()).into_par_iter();
    rows.map(|row| table.row(row).to_vec()).collect()
}

/// Merges sorted lists of n-grams, two at a time; what belongs to equal n-grams is `join`ed.
pub(super) fn merge_all<T: Send>(
    mut lists: Vec<Ngrams<T>>,
    n: usize,
    join: impl Fn(&mut T, T) + Sync,
) -> Ngrams<T> {
    lists.retain(|list| !list.values.is_empty());
    while lists.len() > 1 {
        let mut pairs = Vec::new();
        let mut rest = lists.into_iter();
        while let Some(left) = rest.next() {
            pairs.push((left, rest.next()));
        }
        let merged = pairs.into_par_iter().map(|(left, right)| match right {
            None => left,
            Some(right) => merge_two(left, right, n, &join),
        });
        lists = merged.collect();
    }
    let mut merged = lists.pop().unwrap_or(Ngrams {
        words: Vec::new(),
        values: Vec::new(),
    });
    join_equal(&mut merged, n, &join);
    merged
}

fn merge_two<T>(
    left: Ngrams<T>,
    right: Ngrams<T>,
    n: usize,
    join: &impl Fn(&mut T, T),
) -> Ngrams<T> {
    let mut merged = Ngrams {
        words: Vec::with_capacity(left.words.len() + right.words.len()),
        values: Vec::with_capacity(left.values.len() + right.values.len()),
    };
    let mut left = left.words.chunks_exact(n).zip(left.values).peekable();
    let mut right = right.words.chunks_exact(n).zip(right.values).peekable();
    loop {
        let take_left = match (left.peek(), right.peek()) {
            (Some((left, _)), Some((right, _))) => left <= right,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return merged,
        };
        let next = if take_left { left.next() } else { right.next() };
        let (words, value) = next.expect("it has been peeked at");
        let same = merged.words.len().checked_sub(n);
        match (same, merged.values.last_mut()) {
            (Some(last), Some(kept)) if merged.words[last..] == *words => join(kept, value),
            _ => {
                merged.words.extend_from_slice(words);
                merged.values.push(value);
            }
        }
    }
}

/// Joins neighbours that are equal: a list of places that was never merged may have them.
fn join_equal<T>(list: &mut Ngrams<T>, n: usize, join: &impl Fn(&mut T, T)) {
    let has_equal = |words: &[u32]| {
        let next = words.chunks_exact(n).skip(1);
        words.chunks_exact(n).zip(next).any(|(a, b)| a == b)
    };
    if has_equal(&list.words) {
        let whole = Ngrams {
            words: std::mem::take(&mut list.words),
            values: std::mem::take(&mut list.values),
        };
        let nothing = Ngrams {
            words: Vec::new(),
            values: Vec::new(),
        };
        *list = merge_two(whole, nothing, n, join);
    }
}
