//! Counts of words.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use zipfdb_kernels::CountTable;

use super::{NONE, PendingTable, PendingView};
use crate::Result;
use crate::overlay::add_up;
use crate::overlay::changed_count::{changed, changed_in_file, word_subject};
use crate::runtime::device::Run;

impl PendingView {
    /// How much more or less often each word occurs than in the stored files; ascending.
    fn changes(&self) -> Result<&[(u32, i64)]> {
        if let Some(changes) = self.changes.get() {
            return Ok(changes);
        }
        // The numbers of all words are faster than a search for each of many.
        self.numbering.numbers();
        let of_edits = (self.edits.par_iter()).flat_map_iter(|edit| edit.changes(&self.numbering));
        let mut changes: Vec<(u32, i64)> = of_edits.copied().collect();
        for &file in &self.gone {
            let counts = self.stored.totals_of(file as usize)?.into_iter();
            // Counts are below 2^63.
            changes.extend(counts.map(|(word, n)| (self.numbering.number(word), -(n as i64))));
        }
        add_up(&mut changes);
        let changes = self.changes.get_or_init(|| changes);
        self.book();
        Ok(changes)
    }

    /// As [`super::StoredView::totals`].
    pub(crate) fn totals(&self, run: Run<'_>) -> Result<Vec<u64>> {
        let bytes = |totals: &Vec<u64>| size_of_val(&totals[..]);
        let totals = self.table(PendingTable::Totals, bytes, || self.make_totals(run))?;
        Ok(totals.to_vec())
    }

    fn make_totals(&self, run: Run<'_>) -> Result<Vec<u64>> {
        let stored = self.stored.totals(run)?;
        let mut totals = match self.numbering.numbers() {
            None => stored,
            Some(numbers) => {
                let mut totals = vec![0; self.numbering.len()];
                for (&number, count) in numbers.iter().zip(stored) {
                    totals[number as usize] = count;
                }
                totals
            }
        };
        for &(word, change) in self.changes()? {
            let total = &mut totals[word as usize];
            *total = changed(*total, change, || self.subject(word))?;
        }
        Ok(totals)
    }

    /// As [`super::StoredView::totals_of`].
    pub(crate) fn totals_of(&self, file: usize) -> Result<Vec<(u32, u64)>> {
        let mut counts = match self.stored_file(file) {
            None => Vec::new(),
            Some(stored) => self.stored.totals_of(stored)?,
        };
        for (word, _) in &mut counts {
            *word = self.numbering.number(*word);
        }
        let Some(edit) = self.edit(file) else {
            return Ok(counts);
        };
        let changes = edit.changes(&self.numbering);
        let mut merged = Vec::with_capacity(counts.len() + changes.len());
        let mut rest = counts.into_iter().peekable();
        for &(word, change) in changes {
            while let Some(count) = rest.next_if(|count| count.0 < word) {
                merged.push(count);
            }
            let count = rest.next_if(|count| count.0 == word).map_or(0, |c| c.1);
            let count = changed(count, change, || self.subject(word))?;
            if count > 0 {
                merged.push((word, count));
            }
        }
        merged.extend(rest);
        Ok(merged)
    }

    /// As [`super::StoredView::file_words`].
    pub(crate) fn file_words(&self, run: Run<'_>) -> Result<Arc<CountTable>> {
        self.table(PendingTable::FileWords, CountTable::bytes, || {
            self.make_file_words(run)
        })
    }

    fn make_file_words(&self, run: Run<'_>) -> Result<CountTable> {
        let stored = self.stored.file_words(run)?;
        let rows = (0..self.files.len()).into_par_iter().map(|file| {
            let row = match self.stored_file(file) {
                None => &[][..],
                Some(stored_file) => stored.row(stored_file),
            };
            let number = |&(word, count): &(u32, u32)| (self.numbering.number(word), count);
            let row: Vec<(u32, u32)> = row.iter().map(number).collect();
            match self.edit(file) {
                None => Ok(row),
                Some(edit) => {
                    let changes = edit.changes(&self.numbering).iter().copied();
                    corrected(&row, changes, |word| self.subject(word))
                }
            }
        });
        self.numbering.numbers();
        let rows: Vec<Vec<(u32, u32)>> = rows.collect::<Result<_>>()?;
        Ok(CountTable::of_rows(rows))
    }

    /// As [`super::StoredView::word_files`].
    pub(crate) fn word_files(&self, run: Run<'_>) -> Result<Arc<CountTable>> {
        self.table(PendingTable::WordFiles, CountTable::bytes, || {
            self.make_word_files(run)
        })
    }

    fn make_word_files(&self, run: Run<'_>) -> Result<CountTable> {
        let stored = self.stored.word_files(run)?;
        let mut changes: Vec<(u32, u32, i64)> = Vec::new();
        for edit in &self.edits {
            let of_edit = edit.changes(&self.numbering).iter();
            changes.extend(of_edit.map(|&(word, change)| (word, edit.file, change)));
        }
        changes.par_sort_unstable();
        let words = (0..self.numbering.len() as u32).into_par_iter();
        let rows = words.map(|word| {
            let row = match self.numbering.source(word) {
                super::WordSource::Fresh(_) => &[][..],
                super::WordSource::Stored(stored_word) => stored.row(stored_word as usize),
            };
            let row: Vec<(u32, u32)> = self.files_now(row).collect();
            let from = changes.partition_point(|&(changed, ..)| changed < word);
            let of_word = changes[from..].iter();
            let of_word = of_word.take_while(|&&(changed, ..)| changed == word);
            let of_files = of_word.map(|&(_, file, change)| (file, change));
            corrected(&row, of_files, |_| self.subject(word))
        });
        let rows: Vec<Vec<(u32, u32)>> = rows.collect::<Result<_>>()?;
        Ok(CountTable::of_rows(rows))
    }

    /// Stored files with counts, by their numbers now, without those that are gone.
    pub(super) fn files_now(&self, row: &[(u32, u32)]) -> impl Iterator<Item = (u32, u32)> {
        let now = row
            .iter()
            .map(|&(file, count)| (self.number_of[file as usize], count));
        now.filter(|&(file, _)| file != NONE)
    }

    /// As [`super::StoredView::word_set_counts`].
    pub(crate) fn word_set_counts(&self, in_set: &[bool], stop: &AtomicBool) -> Result<Vec<u64>> {
        let found = match self.numbering.numbers() {
            None => self.stored.word_set_counts(in_set, stop)?,
            Some(numbers) => {
                let stored: Vec<bool> = (numbers.iter())
                    .map(|&number| in_set[number as usize])
                    .collect();
                self.stored.word_set_counts(&stored, stop)?
            }
        };
        let mut counts: Vec<u64> = (0..self.files.len())
            .map(|file| self.stored_file(file).map_or(0, |stored| found[stored]))
            .collect();
        for edit in &self.edits {
            let changes = edit.changes(&self.numbering).iter();
            let of_set = changes.filter(|(word, _)| in_set[*word as usize]);
            let change = of_set.map(|(_, change)| change).sum();
            let count = &mut counts[edit.file as usize];
            *count = changed(*count, change, || "the words asked for".into())?;
        }
        Ok(counts)
    }

    /// How often a word occurs.
    pub(crate) fn count(&self, word: &[u8]) -> Result<u64> {
        let count = self.stored.count(word)?;
        let Some(number) = self.find_word(word)? else {
            return Ok(count);
        };
        let changes = self.changes()?;
        let found = changes.binary_search_by_key(&number, |&(word, _)| word);
        let change = found.map_or(0, |at| changes[at].1);
        changed(count, change, || word_subject(word))
    }

    /// How often each of some words occurs.
    pub(crate) fn count_words<W: AsRef<[u8]> + Sync>(&self, words: &[W]) -> Result<Vec<u64>> {
        self.changes()?;
        words
            .par_iter()
            .map(|word| self.count(word.as_ref()))
            .collect()
    }

    /// How an error calls a word.
    fn subject(&self, word: u32) -> String {
        word_subject(self.word(word))
    }

    /// How often a word occurs in a file.
    pub(crate) fn count_in(&self, file: usize, word: &[u8]) -> Result<u64> {
        let count = match self.stored_file(file) {
            None => 0,
            Some(stored) => self.stored.count_in(stored, word)?,
        };
        match self.edit(file) {
            None => Ok(count),
            Some(edit) => changed(count, edit.text.change_of(word), || word_subject(word)),
        }
    }

    /// How often each word occurs in its file.
    pub(crate) fn count_many<F, W>(&self, questions: &[(F, W)], run: Run<'_>) -> Result<Vec<u64>>
    where
        F: AsRef<str> + Sync,
        W: AsRef<[u8]> + Sync,
    {
        let files = self.find_files(questions.iter().map(|(file, _)| file.as_ref()))?;
        let asked = questions.iter().zip(&files);
        let asked: Vec<(usize, &[u8])> = asked
            .filter_map(|((_, word), &file)| Some((self.stored_file(file)?, word.as_ref())))
            .collect();
        let mut found = self.stored.count_each(&asked, run)?.into_iter();
        let mut counts = Vec::with_capacity(questions.len());
        for ((_, word), &file) in questions.iter().zip(&files) {
            let mut count = match self.stored_file(file) {
                None => 0,
                Some(_) => found.next().expect("each stored file was asked"),
            };
            if let Some(edit) = self.edit(file) {
                let word = word.as_ref();
                count = changed(count, edit.text.change_of(word), || word_subject(word))?;
            }
            counts.push(count);
        }
        Ok(counts)
    }
}

/// A row of a table with changes, both ascending; what becomes 0 goes. `subject` says what a column counts, for errors.
pub(super) fn corrected(
    row: &[(u32, u32)],
    changes: impl Iterator<Item = (u32, i64)>,
    subject: impl Fn(u32) -> String,
) -> Result<Vec<(u32, u32)>> {
    let mut merged = Vec::with_capacity(row.len());
    let mut rest = row.iter().copied().peekable();
    for (column, change) in changes {
        while let Some(entry) = rest.next_if(|entry| entry.0 < column) {
            merged.push(entry);
        }
        let count = rest
            .next_if(|entry| entry.0 == column)
            .map_or(0, |entry| entry.1);
        let count = changed_in_file(count, change, || subject(column))?;
        if count > 0 {
            merged.push((column, count));
        }
    }
    merged.extend(rest);
    Ok(merged)
}

/// The same of few entries, in any order before and afterwards.
pub(super) fn correct_few(
    entries: &mut Vec<(u32, u32)>,
    changes: impl Iterator<Item = (u32, i64)>,
    subject: impl Fn() -> String,
) -> Result<()> {
    for (column, change) in changes {
        let found = entries.iter().position(|entry| entry.0 == column);
        let at = found.unwrap_or(entries.len());
        let before = entries.get(at).map_or(0, |entry| entry.1);
        let count = changed_in_file(before, change, &subject)?;
        match entries.get_mut(at) {
            Some(entry) if count > 0 => entry.1 = count,
            Some(_) => drop(entries.swap_remove(at)),
            None if count > 0 => entries.push((column, count)),
            None => {}
        }
    }
    Ok(())
}
