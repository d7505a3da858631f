//! How often words stand near hits that are words, counted on the grammars of segments.
//!
//! Invariant: counts are those of the current texts. Files with pending edits or of several parts are left to the caller, which reads
//! their words; in all others every body is looked at once, however often its rule occurs.

use zipfdb_kernels::{ChosenFiles, near_word_counts};

use super::access_path::Run;
use super::corpus_view::CorpusView;
use crate::runtime::interrupt::check;
use crate::{Error, Result};

/// How often each word stands near hits, and the files that were not counted.
pub(crate) struct NearCounts {
    pub(crate) counts: Vec<u64>,
    pub(crate) left: Vec<u32>,
}

impl CorpusView {
    /// Counts all words near hits in some files: up to `reach.0` words before one, and up to `reach.1` behind. `is_hit` has an item
    /// for each word.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn near_word_counts(
        &self,
        files: &[u32],
        is_hit: &[bool],
        reach: (usize, usize),
        run: Run<'_>,
    ) -> Result<NearCounts> {
        let vocabulary = self.stored().vocabulary()?;
        let mut counts = vec![0; self.vocabulary()?.len()];
        let mut left = Vec::new();
        let mut by_segment: Vec<Vec<u32>> = vec![Vec::new(); self.segments().len()];
        for &file in files {
            match self.only_part(file as usize) {
                Some(part) => by_segment[part.segment as usize].push(part.file),
                None => left.push(file),
            }
        }
        for (place, mut files) in by_segment.into_iter().enumerate() {
            check(run.stop)?;
            if files.is_empty() {
                continue;
            }
            files.sort_unstable();
            let segment = self.stored().segment_at(place);
            let grammar = segment.word_grammar()?;
            let view = grammar.view();
            let number = |word: u32| {
                let stored = vocabulary.number(place, word);
                let pending = self.pending();
                pending.map_or(stored, |pending| pending.numbering.number(stored)) as usize
            };
            let words = 0..view.terminal_count;
            let is_hit: Vec<bool> = words.map(|word| is_hit[number(word)]).collect();
            let chosen = (files.len() < view.files()).then(|| ChosenFiles::new(view, &files));
            let (view, weights) = match &chosen {
                Some(chosen) => (chosen.view(view), chosen.weights()),
                None => (view, grammar.weights()),
            };
            let found = near_word_counts(view, weights, &is_hit, reach, run.stop);
            for (word, count) in (0..).zip(found.map_err(|_| Error::Interrupted)?) {
                if count > 0 {
                    counts[number(word)] += count;
                }
            }
        }
        Ok(NearCounts { counts, left })
    }

    /// The symbols of the roots and bodies of all segments, about.
    pub(crate) fn symbols(&self) -> u64 {
        let segments = 0..self.segments().len();
        segments.map(|place| self.segments()[place].size().0).sum()
    }
}
