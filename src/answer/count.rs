//! Counts of words in a segment and its files.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use zipfdb_kernels::{FileCounting, WordTerminals, count_in_file, file_weights};

use crate::Result;
use crate::answer::cost::Task;
use crate::segment::{LiveSegment, SegmentView, StructureKind, WordFiles};

/// Nanoseconds that counting all words in all files takes for each symbol, about.
const COUNT_ALL_SYMBOL_COST: u64 = 30;

impl SegmentView {
    /// How often a word occurs in the segment.
    pub(crate) fn count(&self, word: &[u8]) -> Result<u64> {
        match self.count_in_blocks(word)? {
            Some(count) => Ok(count),
            None => self.count_number(self.word_number(word)?),
        }
    }

    /// How often the word with a number occurs in the segment; 0 if there is none.
    fn count_number(&self, number: Option<u32>) -> Result<u64> {
        match number {
            None => Ok(0),
            Some(number) => Ok(u64::from(self.totals()?[number as usize])),
        }
    }

    /// How often a word occurs in a file.
    pub(crate) fn count_in_file(&self, file: u32, word: WordTerminals) -> Result<u64> {
        if word.first == word.end {
            return Ok(0);
        }
        if self.files()?.len() == 1 {
            return self.count_number(self.number_of(word)?);
        }
        if let Some(table) = self.pinned::<WordFiles>() {
            let number = self.number_of(word)?;
            let files = number.map_or(&[][..], |number| table.0.row(number as usize));
            let found = files.binary_search_by_key(&file, |&(file, _)| file);
            return Ok(found.map_or(0, |at| u64::from(files[at].1)));
        }
        if let Some(count) =
            self.ask_alone(file, StructureKind::Grammar, |alone| alone.count(word))?
        {
            return Ok(count);
        }
        let begin = Instant::now();
        let view = self.view()?;
        let tokens = self.about_tokens(view, file)?;
        let parents = self.parents(view, view.root_range(file), tokens)?;
        let signatures = self.signatures()?;
        let terminals = word.first..word.end;
        let count = count_in_file(view, parents, signatures, terminals, file, tokens);
        let budget = &self.budgets.counts;
        budget.add_since(begin);
        let (symbols, _) = self.size();
        // A table has at least an entry for each distinct word, and about one for each symbol.
        let bytes = symbols * size_of::<(u32, u32)>() as u64;
        let never = AtomicBool::new(false);
        self.pin_if_due::<WordFiles>(budget, symbols * COUNT_ALL_SYMBOL_COST, bytes, &never)?;
        Ok(count)
    }

    /// The words that occur in a file, ascending, and how often.
    pub(crate) fn word_counts(&self, file: u32) -> Result<Vec<(u32, u64)>> {
        let word_of = self.word_of()?;
        let grammar = StructureKind::WordGrammar;
        if let Some(counts) = self.ask_alone(file, grammar, |alone| alone.word_counts(word_of))? {
            return Ok(counts);
        }
        let view = self.word_grammar()?.view();
        let entry = &self.files()?[file as usize];
        Ok(file_weights(view, file, entry.words, entry.words))
    }

    /// Builds what counts in files need.
    pub(crate) fn prepare_counts(&self) -> Result<()> {
        self.signatures().map(drop)
    }
}

impl LiveSegment {
    /// Whether words are counted in files by a look-up in a table.
    pub(crate) fn can_count_now(&self) -> bool {
        let is_single = || self.files().is_ok_and(|files| files.len() == 1);
        self.has(StructureKind::WordFiles) || (self.counted.get().is_some() && is_single())
    }

    /// Where counts of words by file come from.
    pub(crate) fn counts_source(&self) -> &'static str {
        match self.counting() {
            _ if self.has_answer(Task::FileCounts) => "kept",
            _ if self.files().is_ok_and(|files| files.len() == 1) => "totals",
            FileCounting::Rules => "by rules",
            FileCounting::Words => "by words",
        }
    }
}
