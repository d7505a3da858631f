//! The longest matches of a text in the corpus: for each of its words the longest stretch from there on that occurs.
//!
//! Invariant: matches are those in the current texts: each segment answers for what edits left of it, and stretches across cuts and
//! edits are found around their seams. A match is maximal if no other one contains it.

use super::access_path::{Run, answer};
use super::corpus_view::CorpusView;
use super::long_suffixes::{FirstPlace, LongQuestion, LongestInSegment, NO_WORD};
use crate::Result;

/// A stretch of a text that occurs in the corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextMatch {
    /// The number of its first word in the text.
    pub(crate) start: usize,
    /// At least 1.
    pub(crate) words: usize,
    /// A place of its first word.
    pub(crate) file: u32,
    pub(crate) position: u64,
}

impl CorpusView {
    /// The maximal matches of a text of at least `words_min` words, in order. Words that the corpus lacks are none.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn longest_matches(
        &self,
        text: &[Option<u32>],
        words_min: usize,
        run: Run<'_>,
    ) -> Result<Vec<TextMatch>> {
        let mut best: Vec<TextMatch> = (0..text.len())
            .map(|start| TextMatch {
                start,
                words: 0,
                file: 0,
                position: 0,
            })
            .collect();
        self.match_segments(text, &mut best, run)?;
        for found in self.seam_matches(text, run.stop)? {
            for shift in 0..found.words {
                let this = &mut best[found.start + shift];
                if this.words < found.words - shift {
                    *this = TextMatch {
                        start: found.start + shift,
                        words: found.words - shift,
                        file: found.file,
                        position: found.position + shift as u64,
                    };
                }
            }
        }
        let mut end = 0;
        best.retain(|found| {
            let is_maximal = found.start + found.words > end;
            end = end.max(found.start + found.words);
            is_maximal && found.words >= words_min
        });
        Ok(best)
    }

    /// A place of a phrase within a part of a stored file, always the same one: the first of those that are first in their
    /// segments. None if it stands at seams only.
    ///
    /// # Errors
    /// As [`CorpusView::longest_matches`].
    pub(super) fn first_place(&self, words: &[u32], run: Run<'_>) -> Result<Option<(u32, u64)>> {
        let (stored, pending) = (self.stored(), self.pending());
        let known = match pending {
            None => Some(words.into()),
            Some(pending) => pending.numbering.to_stored(words),
        };
        let Some(known) = known else {
            return Ok(None);
        };
        let broken = pending
            .map(|pending| pending.broken(run.stop))
            .transpose()?;
        let mut first = None;
        for index in 0..stored.segments().len() {
            let Some(words) = stored.segment_words(index, &known)? else {
                continue;
            };
            let question = LongQuestion {
                words: &words,
                broken: broken.map_or(&[], |broken| &broken[index]),
            };
            let segment = stored.segment_at(index);
            if let Some((file, position)) = answer::<FirstPlace>(&question, &segment, run)? {
                let position = segment.files()?[file as usize].first_word + position;
                let file = stored.file_number(index, file);
                let place = self.match_now(file, position, words.len());
                first = first.into_iter().chain(place).min();
            }
        }
        Ok(first)
    }

    /// Enters the longest matches within segments.
    fn match_segments(
        &self,
        text: &[Option<u32>],
        best: &mut [TextMatch],
        run: Run<'_>,
    ) -> Result<()> {
        let (stored, pending) = (self.stored(), self.pending());
        let known = |word: &Option<u32>| -> Option<u32> {
            match pending {
                None => *word,
                Some(pending) => Some(*pending.numbering.to_stored(&[(*word)?])?.first()?),
            }
        };
        let text: Vec<Option<u32>> = text.iter().map(known).collect();
        let broken = pending
            .map(|pending| pending.broken(run.stop))
            .transpose()?;
        for index in 0..stored.segments().len() {
            let own = |word: &Option<u32>| -> Result<u32> {
                let Some(word) = word else {
                    return Ok(NO_WORD);
                };
                let own = stored.segment_words(index, &[*word])?;
                Ok(own.map_or(NO_WORD, |own| own[0]))
            };
            let words: Vec<u32> = text.iter().map(own).collect::<Result<_>>()?;
            if words.iter().all(|&word| word == NO_WORD) {
                continue;
            }
            let question = LongQuestion {
                words: &words,
                broken: broken.map_or(&[], |broken| &broken[index]),
            };
            let segment = stored.segment_at(index);
            let entries = segment.files()?;
            let found = answer::<LongestInSegment>(&question, &segment, run)?;
            for (this, found) in best.iter_mut().zip(found) {
                if found.words <= this.words {
                    continue;
                }
                let file = stored.file_number(index, found.file);
                let position = entries[found.file as usize].first_word + found.position;
                if let Some((file, position)) = self.match_now(file, position, found.words) {
                    *this = TextMatch {
                        words: found.words,
                        file,
                        position,
                        ..*this
                    };
                }
            }
        }
        Ok(())
    }
}
