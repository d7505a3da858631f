//! Repeated passages of a corpus: every maximal repeat of at least some words, once.
//!
//! Invariant: passages, counts and places are those of the current texts, across segments, cuts and edits. All words of the corpus
//! are sorted once: a segment that is the whole corpus answers by its own suffix array, which it keeps; any other corpus is
//! expanded to one text, which lives as long as the answer.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use zipfdb_kernels::{LongOrder, LongSuffixes, Repeat, Repeats, WordSuffixes};

use super::access_path::Run;
use super::corpus_view::CorpusView;
use crate::runtime::interrupt::check;
use crate::segment::SegmentView;
use crate::segment::cache::Reservation;
use crate::{Error, Result};

/// Memory for each word while passages are found, at most: a suffix array and the order of all its words, with what sorting takes.
const WORD_BYTES: u64 = 24;

/// The repeated passages of a corpus, the largest product of words and count first.
pub(crate) struct CorpusRepeats {
    suffixes: Suffixes,
    found: Vec<Repeat>,
    _memory: Reservation,
}

enum Suffixes {
    /// Those of the only segment, by its place.
    Segment(Box<SegmentView>),
    /// Files in their order.
    Own(Box<(WordSuffixes, LongOrder)>),
}

impl CorpusView {
    /// Finds the maximal repeats of at least `words_min` words.
    ///
    /// # Errors
    /// If a segment is damaged, the run must end, or memory is short.
    pub(crate) fn repeats(&self, words_min: u32, run: Run<'_>) -> Result<CorpusRepeats> {
        let (words, stored) = (self.total_words(), self.stored());
        let limit = stored.cache().limit();
        let needed = (words + self.files().len() as u64).saturating_mul(WORD_BYTES);
        if needed > limit || words + self.files().len() as u64 >= u64::from(u32::MAX) {
            return Err(Error::Invalid {
                subject: "duplicates".into(),
                reason: format!(
                    "{words} words take {needed} bytes, more than memory_limit has or 2^32 words; hint: SET memory_limit, or look \
                     in fewer files"
                ),
            });
        }
        let mut memory = stored.cache().reservation();
        if let ([_], None) = (stored.segments(), self.pending()) {
            let segment = Box::new(stored.segment_at(0));
            let all = segment.ordered_suffixes(run.stop)?;
            let found = Repeats::new(all, words_min, run.stop)?.found;
            memory.cover(size_of_val(&found[..]));
            return Ok(CorpusRepeats {
                suffixes: Suffixes::Segment(segment),
                found,
                _memory: memory,
            });
        }
        // At most the memory limit.
        memory.cover(needed as usize);
        let word_count = self.vocabulary()?.len() as u32; // words are numbered by u32
        let files: Vec<Vec<u32>> = (0..self.files().len())
            .into_par_iter()
            .map(|file| {
                check(run.stop)?;
                // Files are numbered by u32; a file has fewer words than the corpus.
                self.words_from(file as u32, 0, self.files()[file].words as usize)
            })
            .collect::<Result<_>>()?;
        let round_bytes = usize::try_from(limit / 16).unwrap_or(usize::MAX);
        let texts = files.iter().map(|words| &words[..]);
        let suffixes = WordSuffixes::of_files(texts, word_count, round_bytes, run.stop)?;
        drop(files);
        let order = LongOrder::new(&suffixes, run.stop)?;
        let all = LongSuffixes::new(&suffixes, Some(&order), &[]);
        let found = Repeats::new(all, words_min, run.stop)?.found;
        Ok(CorpusRepeats {
            suffixes: Suffixes::Own(Box::new((suffixes, order))),
            found,
            _memory: memory,
        })
    }

    /// The places of a repeat, ascending: files, and numbers of its first word.
    ///
    /// # Errors
    /// If the segment is damaged.
    pub(crate) fn places_of_repeat(
        &self,
        repeats: &CorpusRepeats,
        repeat: Repeat,
    ) -> Result<Vec<(u32, u64)>> {
        match &repeats.suffixes {
            Suffixes::Own(own) => {
                let all = LongSuffixes::new(&own.0, Some(&own.1), &[]);
                Ok(repeat.positions(all))
            }
            Suffixes::Segment(segment) => {
                // All is pinned, so nothing is built.
                let places = repeat
                    .positions(segment.ordered_suffixes(&AtomicBool::new(false))?)
                    .into_iter();
                let now = |(file, position)| (self.stored().file_number(0, file), position);
                let mut places: Vec<(u32, u64)> = places.map(now).collect();
                places.sort_unstable();
                Ok(places)
            }
        }
    }
}

impl CorpusRepeats {
    /// All repeats.
    pub(crate) fn all(&self) -> &[Repeat] {
        &self.found
    }
}
