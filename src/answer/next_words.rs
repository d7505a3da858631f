//! The words that stand behind a phrase of any length, with how often: the distribution of the next word.
//!
//! Invariant: counts are those of the current texts: each segment answers for what edits left of it, and the places across cuts
//! and edits are added. The last word of a file has no next word.

use super::access_path::{Run, answer};
use super::corpus_view::CorpusView;
use super::long_suffixes::{LongQuestion, NextWordCounts};
use crate::Result;
use crate::merge::sum_equal;

impl CorpusView {
    /// The words behind a phrase, given by the numbers of its words, with how often, ascending; without words all words.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn next_words(&self, words: &[u32], run: Run<'_>) -> Result<Vec<(u32, u64)>> {
        if words.is_empty() {
            let totals = self.totals(run)?;
            let counted = (0..).zip(totals).filter(|&(_, count)| count > 0);
            return Ok(counted.collect());
        }
        let (stored, pending) = (self.stored(), self.pending());
        let known = match pending {
            None => Some(words.into()),
            Some(pending) => pending.numbering.to_stored(words),
        };
        let broken = pending
            .map(|pending| pending.broken(run.stop))
            .transpose()?;
        let mut counts = Vec::new();
        for index in 0..stored.segments().len() {
            let own = known
                .as_deref()
                .map(|words| stored.segment_words(index, words));
            let Some(words) = own.transpose()?.flatten() else {
                continue;
            };
            let question = LongQuestion {
                words: &words,
                broken: broken.map_or(&[], |broken| &broken[index]),
            };
            let next = answer::<NextWordCounts>(&question, &stored.segment_at(index), run)?;
            let vocabulary = stored.vocabulary()?;
            counts.extend(next.into_iter().map(|(word, count)| {
                let word = vocabulary.number(index, word);
                let now = pending.map_or(word, |pending| pending.numbering.number(word));
                (now, count)
            }));
        }
        let at_seams = self.next_words_at_seams(words, run.stop)?.into_iter();
        counts.extend(at_seams.map(|word| (word, 1)));
        counts.sort_unstable();
        sum_equal(
            &mut counts,
            |left, right| left.0 == right.0,
            |sum, next| sum.1 += next.1,
        );
        Ok(counts)
    }

    /// As [`CorpusView::next_words`], behind the longest end of a phrase that any word follows, with the length of that end. Words
    /// that the corpus lacks are none.
    ///
    /// # Errors
    /// As [`CorpusView::next_words`].
    pub(crate) fn next_words_of_end(
        &self,
        words: &[Option<u32>],
        run: Run<'_>,
    ) -> Result<(usize, Vec<(u32, u64)>)> {
        let known: Vec<u32> = words.iter().rev().map_while(|word| *word).collect();
        let known: Vec<u32> = known.into_iter().rev().collect();
        let end = |length: usize| &known[known.len() - length..];
        // Longer ends occur at most where shorter ones do.
        let (mut least, mut most) = (0, known.len() + 1);
        while least + 1 < most {
            let middle = least + (most - least) / 2;
            if self.phrase_count(end(middle), run)? > 0 {
                least = middle;
            } else {
                most = middle;
            }
        }
        loop {
            let next = self.next_words(end(least), run)?;
            if least == 0 || !next.is_empty() {
                return Ok((least, next));
            }
            least -= 1;
        }
    }

    /// The count of a phrase or a single word, given by numbers.
    pub(super) fn phrase_count(&self, words: &[u32], run: Run<'_>) -> Result<u64> {
        self.vocabulary()?;
        match *words {
            [word] => self.count(self.word(word), run),
            _ => self.ngram_count(words, run),
        }
    }
}
