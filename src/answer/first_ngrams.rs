//! The n-grams that occur most often in several segments or in edited texts, without adding up all.
//!
//! In   segments with suffix arrays, each of which finds its most frequent n-grams without the others
//! Out  at least the n-grams that are used, with their exact counts
//!
//! Invariant: an n-gram that occurs `least` times occurs at least `least / segments` times in one of the segments, so no others
//! are read (the threshold algorithm TPUT, of Cao and Wang, PODC 2004). N-grams whose counts in the segments are not those in the
//! corpus, those across cuts between the parts of files and those that edits change, are looked up one by one.

use std::collections::HashMap;

use rayon::prelude::*;
use zipfdb_kernels::WordSuffixes;

use super::access_path::{Run, answer};
use super::corpus_view::CorpusView;
use super::correction::{Window, window_of};
use super::counted_ngrams::WithCounts;
use super::ngram_payload::{NgramPayload, NgramQuestion, NgramsPart};
use super::ngrams::{NgramCounting, has_ngrams};
use super::phrase::PhraseCount;
use super::tables::Ngram;
use super::top_k::Top;
use crate::Result;
use crate::overlay::changed_count::changed;
use crate::segment::SegmentStructure;

/// Looking up more n-grams than this takes longer than adding up all.
const LOOKED_UP_MAX: usize = 1 << 10;

/// The least count in a segment: below it too many n-grams have the same count, so all are added up.
const LEAST_MIN: u64 = if cfg!(test) { 2 } else { 1 << 4 };

/// The count of an n-gram in the segments that returned it, and the number of these.
type Partial = (u64, u64);

impl CorpusView {
    /// The n-grams that `top` uses, and perhaps others; none if adding up all is as fast.
    pub(super) fn first_ngrams(
        &self,
        n: usize,
        top: Top,
        run: Run<'_>,
    ) -> Result<Option<Vec<NgramsPart<WithCounts>>>> {
        let stored = self.stored();
        let segments = stored.segments().len() as u64;
        let has_suffixes = |index: usize| stored.segment_at(index).has(WordSuffixes::KIND);
        // With an upper bound on counts the most frequent n-grams of a segment may all be above it.
        let is_cut_above = top.limit < u64::MAX && top.counts.1 < u64::MAX;
        if !top.descending
            || is_cut_above
            || !has_ngrams(n)
            || segments == 0
            || (segments == 1 && self.pending().is_none())
            || stored.devices().are_demanded()
            || !(0..stored.segments().len()).all(has_suffixes)
        {
            return Ok(None);
        }
        let Some(changes) = self.changed_ngrams(n, run)? else {
            return Ok(None);
        };
        let best = |limit: u64| Top {
            limit: limit.saturating_add(changes.len() as u64),
            descending: true,
            counts: (0, u64::MAX),
        };
        let first = match top.limit {
            u64::MAX => HashMap::new(),
            limit => self.asked_ngrams(n, best(limit), &changes, run)?,
        };
        let least_of = |found: &HashMap<Window, Partial>| {
            top.counts
                .0
                .max(top.last(found.values().map(|partial| partial.0)))
        };
        let least = least_of(&first);
        let least_of_one = least.div_ceil(segments);
        let mut found = first;
        if segments > 1 || top.limit == u64::MAX {
            if least_of_one < LEAST_MIN {
                return Ok(None);
            }
            let frequent = Top {
                limit: u64::MAX,
                descending: true,
                counts: (least_of_one, u64::MAX),
            };
            found = self.asked_ngrams(n, frequent, &changes, run)?;
            let least = least.max(least_of(&found));
            found.retain(|_, &mut (count, given)| {
                count + (segments - given) * (least_of_one - 1) >= least
            });
        }
        if found.len() > LOOKED_UP_MAX {
            return Ok(None);
        }
        let unchanged = found
            .into_iter()
            .map(|(window, partial)| (window, 0, partial));
        let of_changes = changes
            .into_iter()
            .map(|(window, change)| (window, change, (0, 0)));
        let sought: Vec<(Window, i64, Partial)> = unchanged.chain(of_changes).collect();
        let counted = sought
            .into_par_iter()
            .map(|(window, change, (count, given))| {
                let count = if given == segments {
                    count
                } else {
                    self.stored_ngram_count(&window[..n], Run::until(run.stop))?
                };
                let subject = || format!("the n-gram {:?}", Ngram::new(self, &window[..n]));
                Ok((window, changed(count, change, subject)?))
            });
        let mut counted: Vec<(Window, u64)> = counted.collect::<Result<_>>()?;
        counted.retain(|&(_, count)| count > 0);
        counted.sort_unstable();
        let words = counted.iter().flat_map(|(window, _)| window[..n].to_vec());
        let counts = counted.iter().map(|&(_, count)| count);
        let table = WithCounts::table(words.collect(), counts.collect());
        Ok(Some(vec![NgramsPart::Plain(table)]))
    }

    /// The changes of counts by cuts and edits; none if there are too many.
    fn changed_ngrams(&self, n: usize, run: Run<'_>) -> Result<Option<HashMap<Window, i64>>> {
        let stored = self.stored();
        let mut cut = stored.cut_ngrams(n, |_| true)?;
        let mut changes: HashMap<Window, i64> = HashMap::new();
        let mut add = |words: &[u32], change: i64| {
            *changes.entry(window_of(words.iter().copied())).or_default() += change;
        };
        if let Some(pending) = self.pending() {
            pending.renumber([&mut cut.words].into_iter());
            for (window, _, change) in &pending.windows(n, run.stop)?.changes {
                add(&window[..n], *change);
            }
            for &file in &pending.gone {
                if stored.index.files()[file as usize].words > LOOKED_UP_MAX as u64 {
                    return Ok(None);
                }
                let words = stored.words_of(file as usize)?;
                let words: Vec<u32> = words.iter().map(|&w| pending.numbering.number(w)).collect();
                words.windows(n).for_each(|words| add(words, -1));
            }
        }
        cut.words.chunks_exact(n).for_each(|words| add(words, 1));
        Ok((changes.len() <= LOOKED_UP_MAX).then_some(changes))
    }

    /// The n-grams that `top` uses of some segment, except the changed ones.
    fn asked_ngrams(
        &self,
        n: usize,
        top: Top,
        changes: &HashMap<Window, i64>,
        run: Run<'_>,
    ) -> Result<HashMap<Window, Partial>> {
        let stored = self.stored();
        let vocabulary = stored.vocabulary()?;
        let question = NgramQuestion {
            top: Some(top),
            ..stored.all_ngrams(n)
        };
        let of_segment = |index: usize| {
            let segment = stored.segment_at(index);
            let parts =
                answer::<NgramCounting<WithCounts>>(&question, &segment, run)?.into_parts()?;
            let mut found: Vec<(Window, u64)> = Vec::new();
            for part in parts {
                let part = part.into_plain();
                let last = top.last(part.iter(n).map(|(_, count)| count));
                for (words, count) in part.iter(n) {
                    if top.is_used(count, last) {
                        let numbers = words.iter().map(|&word| {
                            let word = vocabulary.number(index, word);
                            self.pending()
                                .map_or(word, |pending| pending.numbering.number(word))
                        });
                        found.push((window_of(numbers), count));
                    }
                }
            }
            Ok(found)
        };
        let segments = 0..stored.segments().len();
        let found: Vec<Vec<(Window, u64)>> = (segments.into_par_iter())
            .map(of_segment)
            .collect::<Result<_>>()?;
        let mut sums: HashMap<Window, Partial> = HashMap::new();
        for (window, count) in found.into_iter().flatten() {
            if !changes.contains_key(&window) {
                let sum = sums.entry(window).or_default();
                *sum = (sum.0 + count, sum.1 + 1);
            }
        }
        Ok(sums)
    }

    /// The count of an n-gram in the segments.
    fn stored_ngram_count(&self, words: &[u32], run: Run<'_>) -> Result<u64> {
        let stored = self.stored();
        let words = match self.pending() {
            None => words.into(),
            Some(pending) => match pending.numbering.to_stored(words) {
                None => return Ok(0),
                Some(words) => words,
            },
        };
        let mut sum = 0;
        for index in 0..stored.segments().len() {
            if let Some(words) = stored.segment_words(index, &words)? {
                sum += answer::<PhraseCount>(&&words[..], &stored.segment_at(index), run)?;
            }
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use super::super::ngram_payload::NgramRequest;
    use super::*;
    use crate::ingest::CopyOptions;
    use crate::runtime::interrupt::Interrupt;
    use crate::segment::NgramStructure;
    use crate::{CorpusSettings, Database};

    /// Words of which each occurs half as often as the one before.
    fn text(seed: u64, words: usize) -> String {
        let mut state = seed;
        let words = (0..words).map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            format!("w{} ", ((state >> 20) as u32).trailing_zeros())
        });
        words.collect()
    }

    #[test]
    fn the_first_ngrams_of_segments_and_edits_are_among_those_that_are_found() {
        check(20_000);
        check(1 << 30);
    }

    fn check(segment_size: u64) {
        let database = Database::options().threads(2).in_memory().unwrap();
        let settings = CorpusSettings {
            segment_size,
            ..CorpusSettings::default()
        };
        let corpus = database.create_corpus("c", settings).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for (file, words) in [(1, 30), (2, 9_000), (3, 100), (4, 11_000)] {
            std::fs::write(folder.path().join(format!("f{file}")), text(file, words)).unwrap();
        }
        corpus
            .copy_from(folder.path(), &CopyOptions::default())
            .unwrap();
        let edits = [
            "",
            "INSERT INTO c (file, offset, content) VALUES ('f2', 500, 'w0 w1 new '), ('f4', 100, 'w0 w0 w0 ')",
            "DELETE FROM c WHERE file = 'f3'; INSERT INTO c (file, content) VALUES ('new', 'w0 w0 w1 w0')",
        ];
        for edit in edits {
            database.execute_batch(edit).unwrap();
            let snapshot = database.inner().reader("c", &Interrupt::never()).unwrap();
            let view = snapshot.view();
            let is_only = view.segments().len() == 1;
            assert_eq!(is_only, segment_size > 1 << 20);
            if is_only && edit.is_empty() {
                continue;
            }
            view.stored()
                .build_ngrams(NgramStructure::Suffixes)
                .unwrap();
            let stop = Arc::default();
            let run = Run::until(&stop);
            for n in [2, 3] {
                let rows = |parts: &[NgramsPart<WithCounts>]| {
                    let mut rows: Vec<(Vec<u32>, u64)> = Vec::new();
                    for part in parts {
                        part.for_each(n, |(words, count)| rows.push((words.to_vec(), count)));
                    }
                    rows.sort_unstable();
                    rows
                };
                let all = view.ngrams(NgramRequest::all(n), run).unwrap();
                let all = rows(&all.into_parts().unwrap());
                for (limit, least) in [(1, 0), (5, 0), (20, 7), (u64::MAX, 100)] {
                    let top = Top {
                        limit,
                        descending: true,
                        counts: (least, u64::MAX),
                    };
                    let mut expected = all.clone();
                    top.retain(&mut expected, |row| row.1);
                    let first = view.first_ngrams(n, top, run).unwrap();
                    let mut found = rows(&first.unwrap_or_else(|| panic!("{top:?}")));
                    top.retain(&mut found, |row| row.1);
                    assert_eq!(found, expected, "{top:?} after {edit:?}");
                }
            }
        }
    }
}
