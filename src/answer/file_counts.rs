//! The tasks of TADOC on a corpus: counts of all words, in the whole and file by file.
//!
//! The invariant: answers are those on the plain files, however these are spread over segments or cut into parts. Each
//! segment answers on its grammar; here numbers of words and files become those of the corpus, and tables are merged.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zipfdb_kernels::{CountTable, Stopped, word_set_counts};

use crate::answer::cost::Task;
use crate::answer::merge::{merge, renumber};
use crate::answer::stored_view::StoredView;
use crate::runtime::device::Run;
use crate::runtime::interrupt::check;
use crate::segment::SegmentView;
use crate::{Error, Result};

impl StoredView {
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

    pub(super) fn file_number(&self, segment: usize, number: u32) -> u32 {
        // Both are counted by u32.
        self.index.file_of(segment as u32, number) as u32
    }

    /// For each entry of a segment's file table the file that it is a part of.
    pub(super) fn file_numbers(&self, segment: usize) -> Result<Vec<u32>> {
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
