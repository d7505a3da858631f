//! Seams: the places of the current texts where words stand beside each other that no part of a stored file has together, at
//! cuts between parts and at edits.
//!
//! Invariant: an occurrence of words in the current texts lies either within one part of a stored file, where no broken place
//! touches it, or across a seam, and what is found here are exactly the latter. A match of more than eight words across a seam
//! has eight of its words across it, so windows of eight words lead to all of them; further words are read around them.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::AtomicBool;

use zipfdb_kernels::NGRAM_WORDS_MAX;

use super::corpus_view::CorpusView;
use super::correction::{BrokenPlaces, Window, range_of, window_of};
use super::pending_view::{NONE, PendingView};
use super::stored_view::StoredView;
use crate::Result;
use crate::overlay::RegionWord;
use crate::runtime::interrupt::check;

/// A stretch of a text that stands across a seam.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeamMatch {
    /// The number of its first word in the text.
    pub(super) start: usize,
    pub(super) words: usize,
    /// The place of its first word.
    pub(super) file: u32,
    pub(super) position: u64,
}

/// Words that are read at first on either side of a window that matches, and at most at a time.
const READ_WORDS: (usize, usize) = (8, 512);

impl PendingView {
    /// The broken places of each segment.
    ///
    /// # Errors
    /// If a segment is damaged, or `stop` is set.
    pub(super) fn broken(&self, stop: &AtomicBool) -> Result<&[BrokenPlaces]> {
        if let Some(known) = self.broken.get() {
            return Ok(known);
        }
        let stored = &self.stored;
        let mut broken = vec![BrokenPlaces::new(); stored.segments().len()];
        let starts = (0..broken.len()).map(|index| stored.segment_at(index).file_places());
        let starts: Vec<Vec<u64>> = starts.collect::<Result<_>>()?;
        let mut add = |file: usize, start: u64, end: u64| -> Result<()> {
            let mut first = 0;
            for part in stored.index.parts(file) {
                let (segment, number) = (part.segment as usize, part.file as usize);
                let last = first + stored.live(part).files()?[number].words;
                let inside = if start == end {
                    first < start && start < last
                } else {
                    start.max(first) < end.min(last)
                };
                if inside {
                    let place = |position: u64| starts[segment][number] + position - first;
                    let range = (place(start.max(first)), place(end.min(last)));
                    // A segment has fewer places than a u32 counts.
                    broken[segment].push((range.0 as u32, range.1 as u32));
                }
                first = last;
            }
            Ok(())
        };
        for &file in &self.gone {
            check(stop)?;
            add(file as usize, 0, stored.files()[file as usize].words)?;
        }
        for edit in &self.edits {
            check(stop)?;
            let Some(file) = self.stored_file(edit.file as usize) else {
                continue;
            };
            for region in &edit.regions().regions {
                if let Some(changed) = region.changed_words() {
                    add(file, changed.start, changed.end)?;
                }
            }
        }
        broken.iter_mut().for_each(|places| places.sort_unstable());
        let broken = self.broken.get_or_init(|| broken);
        self.book();
        Ok(broken)
    }

    /// The current place of `words` words of a stored file; none if an edit broke them.
    fn window_now(&self, file: u32, position: u64, words: usize) -> Option<(u32, u64)> {
        let now = self.file_now(file)?;
        let position = match self.edit(now as usize) {
            None => position,
            Some(edit) => edit.moved_window(position, words)?,
        };
        Some((now, position))
    }
}

impl StoredView {
    /// Words of a stored file, from number `position` on, at most `count`, as far as it goes.
    fn words_from(&self, file: usize, position: u64, count: usize) -> Result<Vec<u32>> {
        let (mut words, mut first) = (Vec::new(), 0);
        for part in self.index.parts(file) {
            let segment = self.segment(part);
            let last = first + segment.files()?[part.file as usize].words;
            let start = position.max(first);
            let end = position.saturating_add(count as u64).min(last);
            if start < end {
                // At most `count`.
                let count = (end - start) as usize;
                let mut found = segment.words_from(part.file, start - first, count)?;
                self.to_numbers(part.segment as usize, &mut found)?;
                words.append(&mut found);
            }
            first = last;
        }
        Ok(words)
    }
}

impl CorpusView {
    /// Words of a file, from number `position` on, at most `count`, as far as it goes.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(super) fn words_from(&self, file: u32, position: u64, count: usize) -> Result<Vec<u32>> {
        let (stored, edit) = self.resolve(file as usize);
        let of_stored = |position: u64, count: usize| {
            let words = stored.map(|file| self.stored().words_from(file, position, count));
            let mut words = words.unwrap_or_else(|| Ok(Vec::new()))?;
            if let Some(pending) = self.pending() {
                let number = |word: &mut u32| *word = pending.numbering.number(*word);
                words.iter_mut().for_each(number);
            }
            Result::Ok(words)
        };
        let (Some(edit), Some(pending)) = (edit, self.pending()) else {
            return of_stored(position, count);
        };
        let regions = &edit.regions().regions;
        let end = position.saturating_add(count as u64);
        let (mut words, mut at) = (Vec::new(), position);
        let first = regions.partition_point(|region| region.words.end <= position);
        for index in first..=regions.len() {
            // The unchanged words up to the region, then its words.
            let next = regions.get(index);
            let until = next.map_or(end, |region| region.words.start.min(end));
            if at < until {
                let last = index.checked_sub(1).map(|last| &regions[last]);
                let moved = last.map_or(at, |last| at - last.words.end + last.stored_words.end);
                // At most `count`.
                let mut found = of_stored(moved, (until - at) as usize)?;
                at += found.len() as u64;
                words.append(&mut found);
            }
            let Some(region) = next.filter(|region| region.words.start <= at && at < end) else {
                break;
            };
            // Words of a region are in memory.
            let from = (at - region.words.start) as usize;
            let to = (end.min(region.words.end) - region.words.start) as usize;
            let number = |word: &RegionWord| pending.numbering.number_met(word.word);
            words.extend(region.text.words[from..to].iter().map(number));
            at += (to - from) as u64;
        }
        Ok(words)
    }

    /// The places across seams that edits made of a phrase, ascending: files, and numbers of its first word.
    pub(super) fn made_places(
        &self,
        pending: &PendingView,
        words: &[u32],
        stop: &AtomicBool,
    ) -> Result<Vec<(u32, u64)>> {
        let place = |&(_, file, position): &(Window, u32, u64)| (file, position);
        let windows = |words: &[u32]| {
            let places = &pending.windows(words.len(), stop)?.places;
            let window = window_of(words.iter().copied());
            Result::Ok(range_of(places, |place| &place.0, window))
        };
        if words.len() <= NGRAM_WORDS_MAX {
            return Ok(windows(words)?.iter().map(place).collect());
        }
        let mut candidates = BTreeSet::new();
        for (distance, eight) in (0..).zip(words.windows(NGRAM_WORDS_MAX)) {
            let places = windows(eight)?.iter().map(place);
            candidates.extend(
                places.filter_map(|(file, position)| Some((file, position.checked_sub(distance)?))),
            );
        }
        self.matching(candidates, words, stop)
    }

    /// The places of candidates where a phrase stands.
    fn matching(
        &self,
        candidates: BTreeSet<(u32, u64)>,
        words: &[u32],
        stop: &AtomicBool,
    ) -> Result<Vec<(u32, u64)>> {
        let mut found = Vec::new();
        for (file, position) in candidates {
            check(stop)?;
            if self.words_from(file, position, words.len())? == words {
                found.push((file, position));
            }
        }
        Ok(found)
    }

    /// The words behind the places of a phrase that together stand across a seam, one for each place.
    pub(super) fn next_words_at_seams(&self, words: &[u32], stop: &AtomicBool) -> Result<Vec<u32>> {
        let n = words.len() + 1;
        let mut found = Vec::new();
        let pending = self.pending();
        let stored = match pending {
            None => Some(words.into()),
            Some(pending) => pending.numbering.to_stored(words),
        };
        if let Some(stored) = stored {
            self.stored().for_each_cut_ngram(
                n,
                |_| true,
                |window, file, position| {
                    if window[..n - 1] == stored[..] {
                        let next = window[n - 1];
                        found.extend(match pending {
                            None => Some(next),
                            Some(pending) => (pending.window_now(file, position, n))
                                .map(|_| pending.numbering.number(next)),
                        });
                    }
                },
            )?;
        }
        let Some(pending) = pending else {
            return Ok(found);
        };
        let ahead = words.len().min(NGRAM_WORDS_MAX - 1);
        let last = &words[words.len() - ahead..];
        let places = &pending.windows(ahead + 1, stop)?.places;
        let from = places.partition_point(|(window, ..)| window[..ahead] < *last);
        let ends = places[from..].iter();
        let ends = ends.take_while(|(window, ..)| window[..ahead] == *last);
        if n <= NGRAM_WORDS_MAX {
            found.extend(ends.map(|(window, ..)| window[ahead]));
            return Ok(found);
        }
        let shift = (words.len() - ahead) as u64;
        let mut candidates: BTreeSet<(u32, u64)> = ends
            .filter_map(|&(_, file, position)| Some((file, position.checked_sub(shift)?)))
            .collect();
        for (distance, eight) in (0..).zip(words.windows(NGRAM_WORDS_MAX)) {
            let window = window_of(eight.iter().copied());
            let made = range_of(
                &pending.windows(NGRAM_WORDS_MAX, stop)?.places,
                |place| &place.0,
                window,
            );
            candidates.extend(
                made.iter().filter_map(|&(_, file, position)| {
                    Some((file, position.checked_sub(distance)?))
                }),
            );
        }
        for (file, position) in candidates {
            check(stop)?;
            let read = self.words_from(file, position, n)?;
            if read.len() == n && read[..n - 1] == *words {
                found.push(read[n - 1]);
            }
        }
        Ok(found)
    }

    /// Stretches of a text that stand across seams, such that each longest one is within one of them. Words that the corpus lacks
    /// are none.
    pub(super) fn seam_matches(
        &self,
        text: &[Option<u32>],
        stop: &AtomicBool,
    ) -> Result<Vec<SeamMatch>> {
        let (pending, has_cuts) = (self.pending(), !self.stored().index.cut().is_empty());
        let mut found = Vec::new();
        if pending.is_none() && !has_cuts {
            return Ok(found);
        }
        // For each alignment of the text with a file, the end of the text's words that were compared.
        let mut compared: HashMap<(u32, i64), usize> = HashMap::new();
        for n in (1..=NGRAM_WORDS_MAX).rev() {
            let mut windows: HashMap<Window, Vec<usize>> = HashMap::new();
            for (start, window) in text.windows(n).enumerate() {
                if let Some(words) = window.iter().copied().collect::<Option<Vec<u32>>>() {
                    let window = window_of(words.into_iter());
                    windows.entry(window).or_default().push(start);
                }
            }
            let mut seeds: Vec<(usize, u32, u64)> = Vec::new();
            let mut add = |window: &Window, file: u32, position: u64| {
                let starts = windows.get(window).into_iter().flatten();
                seeds.extend(starts.map(|&start| (start, file, position)));
            };
            if let Some(pending) = pending {
                let places = &pending.windows(n, stop)?.places;
                // One place of a short window is enough; longer matches may go on from each place of eight words.
                let count = if n < NGRAM_WORDS_MAX { 1 } else { usize::MAX };
                for window in windows.keys() {
                    let found = range_of(places, |place| &place.0, *window).iter();
                    for (window, file, position) in found.take(count) {
                        add(window, *file, *position);
                    }
                }
            }
            if n > 1 && has_cuts {
                self.stored().for_each_cut_ngram(
                    n,
                    |_| true,
                    |words, file, position| {
                        let number = |&word: &u32| match pending {
                            None => word,
                            Some(pending) => pending.numbering.number(word),
                        };
                        let place = match pending {
                            None => Some((file, position)),
                            Some(pending) => pending.window_now(file, position, n),
                        };
                        if let Some((file, position)) = place {
                            add(&window_of(words.iter().map(number)), file, position);
                        }
                    },
                )?;
            }
            seeds.sort_unstable();
            for (start, file, position) in seeds {
                check(stop)?;
                let seed = SeamMatch {
                    start,
                    words: n,
                    file,
                    position,
                };
                if n < NGRAM_WORDS_MAX {
                    found.push(seed);
                    continue;
                }
                // Positions are below 2^63.
                let end = compared
                    .entry((file, position as i64 - start as i64))
                    .or_default();
                if start + n > *end {
                    let whole = self.extended(text, seed)?;
                    *end = whole.start + whole.words;
                    found.push(whole);
                }
            }
        }
        Ok(found)
    }

    /// A match with all words of the text that go on matching on either side.
    fn extended(&self, text: &[Option<u32>], seed: SeamMatch) -> Result<SeamMatch> {
        let SeamMatch {
            mut start,
            mut words,
            file,
            mut position,
        } = seed;
        let mut step = READ_WORDS.0;
        while start > 0 && position > 0 {
            // At most `step`.
            let count = step
                .min(start)
                .min(position.min(usize::MAX as u64) as usize);
            let read = self.words_from(file, position - count as u64, count)?;
            let beside = read.iter().rev().zip(text[..start].iter().rev());
            let same = beside
                .take_while(|(word, other)| **other == Some(**word))
                .count();
            (start, position, words) = (start - same, position - same as u64, words + same);
            if same < count {
                break;
            }
            step = (step * 2).min(READ_WORDS.1);
        }
        step = READ_WORDS.0;
        while start + words < text.len() {
            let rest = &text[start + words..];
            let count = step.min(rest.len());
            let read = self.words_from(file, position + words as u64, count)?;
            let beside = read.iter().zip(rest);
            let same = beside
                .take_while(|(word, other)| **other == Some(**word))
                .count();
            words += same;
            if same < count {
                break;
            }
            step = (step * 2).min(READ_WORDS.1);
        }
        Ok(SeamMatch {
            start,
            words,
            file,
            position,
        })
    }

    /// The file and place now of a match in a stored file; none if the file is gone or an edit broke it.
    pub(super) fn match_now(&self, file: u32, position: u64, words: usize) -> Option<(u32, u64)> {
        match self.pending() {
            None => (file != NONE).then_some((file, position)),
            Some(pending) => pending.window_now(file, position, words),
        }
    }
}
