//! N-grams of a segment: from the grammar, and from a derived structure once queries without it have taken as long as
//! building it.
//!
//! The invariant: the structure stays in proportion to the grammar, and answers do not depend on whether it is there. Text
//! that the grammar does not shorten much has all its places sorted (a suffix array), other text its distinct n-grams of
//! eight words. Nothing is built here that no query asked for twice.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use zipfdb_kernels::{
    FileOrder, NGRAM_WORDS_MAX, NgramSet, NgramTable, RuleFiles, WordGrammar, WordSuffixes,
    ngram_count, ngram_counts_packed, ngram_file_counts_packed, ngram_positions,
};

use super::ngram_packing::{NgramCountPart, NgramFilePart};
use crate::Result;
use crate::answer::cost::{SUFFIX_BUILD_COST, TABLE_BUILD_COST};
use crate::segment::{NgramPlan, NgramStructure, SegmentView};

/// Words a symbol of the grammar at most: 9 bytes a word are then no more than some times the grammar.
const SYMBOL_WORDS_MAX: u64 = 4;

/// Bytes that a suffix array takes for each word.
const SUFFIX_BYTES: u64 = 9;

/// Bytes that a table takes for each symbol, about.
const TABLE_BYTES: u64 = 40;

/// Where n-grams come from beside the grammar.
#[derive(Clone, Copy)]
enum NgramSource<'a> {
    Suffixes(&'a WordSuffixes),
    Table(&'a NgramTable),
}

impl SegmentView {
    /// What answers queries for n-grams of so many words, if it is there. Single words are answered elsewhere.
    fn ngram_source(&self, n: usize) -> Option<NgramSource<'_>> {
        if !(2..=NGRAM_WORDS_MAX).contains(&n) {
            return None;
        }
        let table = || self.pinned().map(NgramSource::Table);
        self.pinned().map(NgramSource::Suffixes).or_else(table)
    }

    /// The suffix array, if it is there and has n-grams of so many words.
    pub(crate) fn suffixes(&self, n: usize) -> Option<&WordSuffixes> {
        match self.ngram_source(n) {
            Some(NgramSource::Suffixes(suffixes)) => Some(suffixes),
            _ => None,
        }
    }

    fn ngram_plan(&self) -> Result<NgramPlan> {
        // Once: to add up all words takes longer than to find a phrase.
        if let Some(&plan) = self.ngram_plan.get() {
            return Ok(plan);
        }
        let plan = plan_of(self.word_grammar()?);
        Ok(*self.ngram_plan.get_or_init(|| plan))
    }

    /// Says that a query for n-grams took until now, and builds what it lacked if that is due.
    fn spend_on_ngrams(&self, n: usize, begin: Instant, stop: &AtomicBool) -> Result<()> {
        // Another query may have built it while this one went on without.
        if !(2..=NGRAM_WORDS_MAX).contains(&n) || self.ngram_source(n).is_some() {
            return Ok(());
        }
        let budget = &self.budgets.ngrams;
        let plan = self.ngram_plan()?;
        let price = (plan.price / rayon::current_num_threads() as f64) as u64;
        // A single query, however slow, does not pay with its own time: its memory would be that of the structure too.
        let is_due = budget.is_due(price);
        budget.add_since(begin);
        if is_due && self.has_room(plan.bytes) {
            // An error ends no query that has its answer; a later one tries again.
            drop(budget.build_if_due(price, || self.build_ngrams(plan.structure, stop)));
        }
        Ok(())
    }

    /// Likewise of a query for places, which a table does not tell.
    fn spend_on_places(&self, n: usize, begin: Instant, stop: &AtomicBool) -> Result<()> {
        match self.ngram_plan()?.structure {
            NgramStructure::Suffixes => self.spend_on_ngrams(n, begin, stop),
            NgramStructure::Table => Ok(()),
        }
    }

    /// Builds a structure now.
    pub(crate) fn build_ngrams(&self, structure: NgramStructure, stop: &AtomicBool) -> Result<()> {
        match structure {
            NgramStructure::Suffixes => self.pin_until::<WordSuffixes>(stop).map(drop),
            NgramStructure::Table => self.pin_until::<NgramTable>(stop).map(drop),
        }
    }

    /// N-grams with their counts, in parts. `memory` bounds the bytes for windows.
    pub(crate) fn ngram_counts(
        &self,
        set: &NgramSet,
        memory: usize,
        stop: &AtomicBool,
    ) -> Result<Vec<NgramCountPart>> {
        let some = || set.clone();
        let found = match self.ngram_source(set.n) {
            Some(NgramSource::Suffixes(suffixes)) => Some(suffixes.ngram_counts(some(), stop)?),
            Some(NgramSource::Table(table)) => Some(table.ngram_counts(some(), stop)?),
            None => None,
        };
        if let Some(found) = found {
            return Ok(found.into_iter().map(NgramCountPart::Plain).collect());
        }
        let grammar = self.word_grammar()?;
        let begin = Instant::now();
        let (view, weights) = (grammar.view(), grammar.weights());
        let counts = ngram_counts_packed(view, weights, some(), memory, stop)?;
        self.spend_on_ngrams(set.n, begin, stop)?;
        Ok(counts.into_iter().map(NgramCountPart::Packed).collect())
    }

    /// What the files of n-grams of n words are added up from; none if that needs nothing.
    fn rule_files(&self, n: usize, stop: &AtomicBool) -> Result<Option<&RuleFiles>> {
        match n > 1 && self.files()?.len() > 1 {
            true => self.pin_until(stop).map(Some),
            false => Ok(None),
        }
    }

    /// Pins what n-grams of n words are made of, with or without their files, unless a derived structure has them.
    pub(crate) fn prepare_ngrams(
        &self,
        n: usize,
        with_files: bool,
        stop: &AtomicBool,
    ) -> Result<()> {
        if self.ngram_source(n).is_none() {
            self.word_grammar()?;
            if with_files {
                self.rule_files(n, stop)?;
            }
        }
        Ok(())
    }

    /// N-grams with the files that have them, in parts. `memory` bounds the bytes for windows.
    pub(crate) fn ngram_files(
        &self,
        set: &NgramSet,
        order: FileOrder,
        memory: usize,
        stop: &AtomicBool,
    ) -> Result<Vec<NgramFilePart>> {
        let some = || set.clone();
        let found = match self.ngram_source(set.n) {
            Some(NgramSource::Suffixes(suffixes)) => {
                Some(suffixes.ngram_file_counts(some(), order, stop)?)
            }
            Some(NgramSource::Table(table)) => {
                Some(table.ngram_file_counts(some(), order, stop)?)
            }
            None => None,
        };
        if let Some(found) = found {
            return Ok(found.into_iter().map(NgramFilePart::Plain).collect());
        }
        let grammar = self.word_grammar()?;
        let lists = self.rule_files(set.n, stop)?;
        let (view, weights) = (grammar.view(), grammar.weights());
        let begin = Instant::now();
        let files = ngram_file_counts_packed(view, weights, lists, some(), order, memory, stop)?;
        self.spend_on_ngrams(set.n, begin, stop)?;
        Ok(files.into_iter().map(NgramFilePart::Packed).collect())
    }

    /// How often an n-gram occurs in the segment's files, told by the segment's numbers of its words.
    pub(crate) fn ngram_count(&self, words: &[u32], stop: &AtomicBool) -> Result<u64> {
        self.totals()?;
        match self.ngram_source(words.len()) {
            Some(NgramSource::Suffixes(suffixes)) => return Ok(suffixes.count(words)),
            Some(NgramSource::Table(table)) => return Ok(table.count(words)),
            None => (),
        }
        let (grammar, uses, ends) = (self.word_grammar()?, self.word_uses()?, self.pin()?);
        let (view, weights) = (grammar.view(), grammar.weights());
        let begin = Instant::now();
        let count = ngram_count(view, uses, ends, weights, words, stop)?;
        self.spend_on_ngrams(words.len(), begin, stop)?;
        Ok(count)
    }

    /// Where an n-gram occurs: file, and number of its first word in it.
    pub(crate) fn ngram_positions(
        &self,
        words: &[u32],
        stop: &AtomicBool,
    ) -> Result<Vec<(u32, u64)>> {
        if let Some(NgramSource::Suffixes(suffixes)) = self.ngram_source(words.len()) {
            return Ok(suffixes.positions(words));
        }
        let (grammar, uses, ends) = (self.word_grammar()?, self.word_uses()?, self.pin()?);
        let view = grammar.view();
        let lengths = self.word_lengths()?;
        let begin = Instant::now();
        let positions = ngram_positions(view, uses, ends, lengths, words, stop)?;
        self.spend_on_places(words.len(), begin, stop)?;
        Ok(positions)
    }
}

/// What to build of a grammar.
fn plan_of(grammar: &WordGrammar) -> NgramPlan {
    let view = grammar.view();
    let counts = grammar.weights()[..view.terminal_count as usize].iter();
    let words: u64 = counts.map(|&count| u64::from(count)).sum();
    let symbols = (view.symbols.len() + view.root.len()) as u64;
    match words <= symbols * SYMBOL_WORDS_MAX {
        true => NgramPlan {
            structure: NgramStructure::Suffixes,
            price: words as f64 * SUFFIX_BUILD_COST,
            bytes: words * SUFFIX_BYTES,
        },
        false => NgramPlan {
            structure: NgramStructure::Table,
            price: symbols as f64 * TABLE_BUILD_COST,
            bytes: symbols * TABLE_BYTES,
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;
    use std::time::Duration;

    use zipfdb_storage::{Dictionary, FileEntry, Grammar};

    use super::*;
    use crate::segment::LiveSegment;

    /// A file of so many words, each `copies` times in a row, and all of them eight times.
    fn segment(words: u32, copies: u32) -> Arc<LiveSegment> {
        let file = FileEntry {
            name: "a".into(),
            bytes: 0,
            words: u64::from(8 * words * copies),
            crc32: 0,
            first_byte: 0,
            first_word: 0,
            last_part: true,
        };
        let bytes: Vec<u8> = (0..words as u8).map(|word| b'a' + word).collect();
        let dictionary =
            Dictionary::new((0..=u64::from(words)).collect(), bytes, words, Vec::new());
        let grammar = Grammar {
            terminal_count: words,
            rule_offsets: (0..=words).map(|rule| rule * copies).collect(),
            symbols: (0..words * copies).map(|at| at / copies).collect(),
            level_offsets: vec![0, words],
            root_offsets: vec![0, 8 * words],
            root: (0..8 * words).map(|at| words + at % words).collect(),
        };
        Arc::new(LiveSegment::in_memory(0, vec![file], dictionary, grammar))
    }

    #[test]
    fn what_pays_is_built_when_queries_have_taken_as_long_as_that_takes() {
        let (stop, stopped) = (AtomicBool::new(false), AtomicBool::new(true));
        let now = Instant::now();
        // Text that the grammar shortens is better left in it.
        for (live, structure) in [
            (segment(10, 2), NgramStructure::Suffixes),
            (segment(10, 90), NgramStructure::Table),
        ] {
            let segment = SegmentView::of(&live);
            let budget = &live.budgets.ngrams;
            (segment.spend_on_ngrams(3, now + Duration::from_secs(60), &stop)).unwrap();
            assert!(live.ngram_structure().is_none());
            budget.make_due();
            segment.spend_on_ngrams(1, now, &stop).unwrap();
            segment.spend_on_ngrams(9, now, &stop).unwrap();
            assert!(live.ngram_structure().is_none());
            segment.spend_on_ngrams(3, now, &stopped).unwrap();
            assert!(live.ngram_structure().is_none());
            budget.make_due();
            segment.spend_on_places(2, now, &stop).unwrap();
            let is_there = live.ngram_structure().is_some();
            assert_eq!(is_there, structure == NgramStructure::Suffixes);
            segment.spend_on_ngrams(3, now, &stop).unwrap();
            assert_eq!(live.ngram_structure(), Some(structure));
            assert!(segment.ngram_source(1).is_none() && segment.ngram_source(9).is_none());
            // What is there is not built again, which would begin to count anew.
            budget.make_due();
            segment.spend_on_ngrams(3, now, &stop).unwrap();
            assert!(budget.is_due(1));
        }
    }
}
