//! Excerpts of files or units that match: what matched is marked, and the part is chosen that has most of it.
//!
//! Invariant: marks are hits of the terms of the query, without those that exclude files; where marks overlap they are one. Bytes
//! are those of the text between whole words: nothing is escaped. Only the text that is shown is read.

use std::ops::Range;

use super::ranking::{Ranked, Ranking};
use crate::Result;
use crate::answer::access_path::Run;
use crate::answer::{Occurrence, PlaceRanges, WordStream};
use crate::runtime::interrupt::check;
use crate::runtime::memory::ValueMemory;

/// How an excerpt looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExcerptStyle {
    /// What stands before each match.
    pub before: String,
    /// What stands behind each match.
    pub after: String,
    /// What stands for text of the file or unit that is left out on either side.
    pub ellipsis: String,
    /// At most this many words; none: all text.
    pub words_max: Option<u64>,
}

impl Default for ExcerptStyle {
    /// `<b>` and `</b>` around matches, `...` for what is left out, at most 16 words.
    fn default() -> ExcerptStyle {
        ExcerptStyle {
            before: "<b>".to_owned(),
            after: "</b>".to_owned(),
            ellipsis: "...".to_owned(),
            words_max: Some(16),
        }
    }
}

impl Ranking {
    /// The excerpt of a file or unit.
    ///
    /// # Errors
    /// If it is too large, a segment is damaged, or the run must end.
    pub(crate) fn excerpt(
        &self,
        ranked: &Ranked,
        style: &ExcerptStyle,
        memory: &ValueMemory,
        run: Run<'_>,
    ) -> Result<Vec<u8>> {
        let view = self.view();
        // Words of terms that were kept were found without it.
        view.vocabulary()?;
        let file = &view.files()[ranked.file as usize];
        let all = ranked.start..ranked.start + ranked.words;
        let is_in = |hit: &Range<u64>| all.start <= hit.start && hit.end <= all.end;
        let (mut hits, mut marks) = (Vec::new(), Vec::new());
        for (number, term) in self.terms().iter().enumerate() {
            check(run.stop)?;
            if term.is_excluded {
                continue;
            }
            let mut found = term.search.hits(ranked.file, run)?;
            found.retain(is_in);
            marks.extend(term.search.marks(ranked.file, &found, run)?);
            hits.extend(found.into_iter().map(|range| TermHit {
                range,
                term: number,
            }));
        }
        let shown = match style.words_max {
            Some(words) => window(all.clone(), hits, self.terms().len(), words.max(1)),
            None => all.clone(),
        };
        let marks = joined(marks, &shown);
        // A unit is the text from its first word to its last; a file is all of its text.
        let is_whole = style.words_max.is_none() && self.is_of_files();
        let places: Vec<(u64, u64)> = if shown.is_empty() {
            Vec::new()
        } else {
            self.places(ranked.file, &shown, is_whole.then_some(&marks[..]))?
        };
        let end_of = |place: &(u64, u64)| place.0 + place.1;
        let (text_start, text_end) = match (places.first(), places.last()) {
            _ if is_whole => (0, file.bytes),
            (Some(first), Some(last)) => (first.0, end_of(last)),
            _ => (0, 0),
        };
        let what = "an excerpt";
        let marked = marks.len() as u64 * (style.before.len() + style.after.len()) as u64;
        let size = (text_end - text_start).saturating_add(marked);
        memory.check(what, size)?;
        let text = view.extract(ranked.file as usize, text_start, text_end - text_start)?;
        let mut excerpt = Vec::with_capacity(text.len());
        if shown.start > all.start {
            excerpt.extend_from_slice(style.ellipsis.as_bytes());
        }
        let mut at = text_start;
        let mut copy_to = |excerpt: &mut Vec<u8>, offset: u64| {
            let range = (at - text_start) as usize..(offset - text_start) as usize;
            excerpt.extend_from_slice(text.get(range).unwrap_or_default());
            at = offset;
        };
        for (number, mark) in marks.iter().enumerate() {
            let (first, last) = if is_whole {
                (places[2 * number], places[2 * number + 1])
            } else {
                let place = |word: u64| places[(word - shown.start) as usize];
                (place(mark.start), place(mark.end - 1))
            };
            copy_to(&mut excerpt, first.0);
            excerpt.extend_from_slice(style.before.as_bytes());
            copy_to(&mut excerpt, end_of(&last));
            excerpt.extend_from_slice(style.after.as_bytes());
        }
        copy_to(&mut excerpt, text_end);
        if shown.end < all.end {
            excerpt.extend_from_slice(style.ellipsis.as_bytes());
        }
        Ok(excerpt)
    }

    /// The bytes of a file or unit. A unit is the text from its first word to its last; a file is all of its text.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn extent(&self, ranked: &Ranked) -> Result<Range<u64>> {
        if self.is_of_files() {
            return Ok(0..self.view().files()[ranked.file as usize].bytes);
        }
        let last = ranked.start + ranked.words - 1;
        let first = self.places(ranked.file, &(ranked.start..ranked.start + 1), None)?;
        let last = self.places(ranked.file, &(last..last + 1), None)?;
        let (start, end) = (first.first(), last.last());
        let end = end.map_or(0, |(offset, length)| offset + length);
        Ok(start.map_or(0, |(offset, _)| *offset)..end)
    }

    /// The offsets and lengths of the words of a range, or of the first and the last word of each mark.
    fn places(
        &self,
        file: u32,
        words: &Range<u64>,
        marks: Option<&[Range<u64>]>,
    ) -> Result<Vec<(u64, u64)>> {
        let view = self.view();
        view.vocabulary()?;
        let mut places = Vec::new();
        let wanted = PlaceRanges {
            positions: words.start..=words.end - 1,
            ..PlaceRanges::ALL
        };
        let mut stream = WordStream::within(view.clone(), vec![file], wanted, 0);
        let ends = marks.map(|marks| {
            let ends = marks.iter().flat_map(|mark| [mark.start, mark.end - 1]);
            ends.collect::<Vec<u64>>()
        });
        let mut ends = ends.as_deref();
        let mut read: Vec<Occurrence> = Vec::new();
        let mut has_more = true;
        while has_more {
            has_more = stream.fill(&mut read, READ_WORDS)?;
            for word in read.drain(..).filter(|word| words.contains(&word.position)) {
                let place = (word.offset, view.word(word.word).len() as u64);
                let Some(ends) = &mut ends else {
                    places.push(place);
                    continue;
                };
                while ends.first() == Some(&word.position) {
                    places.push(place);
                    *ends = &ends[1..];
                }
            }
        }
        Ok(places)
    }
}

/// Words that are read at a time.
const READ_WORDS: usize = 1 << 14;

/// A hit of a term.
struct TermHit {
    range: Range<u64>,
    term: usize,
}

/// The words to show: of the stretches that begin with a hit the first that has most terms, of those most hits, moved so that what
/// it has stands in the middle.
fn window(all: Range<u64>, mut hits: Vec<TermHit>, terms: usize, words: u64) -> Range<u64> {
    hits.sort_unstable_by_key(|hit| (hit.range.start, hit.range.end, hit.term));
    let mut best: Option<((usize, usize), Range<u64>)> = None;
    let mut seen = vec![usize::MAX; terms];
    for (number, first) in hits.iter().enumerate() {
        let end = first.range.start.saturating_add(words);
        let (mut of_terms, mut of_hits, mut last) = (0, 0, first.range.start);
        for hit in hits[number..]
            .iter()
            .take_while(|hit| hit.range.start < end)
        {
            let is_first = hit.range == first.range;
            if hit.range.end > end && !is_first {
                continue;
            }
            of_hits += 1;
            if seen[hit.term] != number {
                seen[hit.term] = number;
                of_terms += 1;
            }
            last = last.max(hit.range.end.min(end));
        }
        let found = (of_terms, of_hits);
        if best.as_ref().is_none_or(|(known, _)| found > *known) {
            best = Some((found, first.range.start..last));
        }
    }
    let chosen = best.map_or(all.start..all.start, |(_, chosen)| chosen);
    let room = words.saturating_sub(chosen.end - chosen.start);
    let latest = all.end.saturating_sub(words).max(all.start);
    let start = (chosen.start.saturating_sub(room / 2)).clamp(all.start, latest);
    start..start.saturating_add(words).min(all.end)
}

/// Marks within a range of words, apart and ascending.
fn joined(mut marks: Vec<Range<u64>>, shown: &Range<u64>) -> Vec<Range<u64>> {
    marks.sort_unstable_by_key(|mark| (mark.start, mark.end));
    let mut joined: Vec<Range<u64>> = Vec::new();
    for mark in marks {
        let mark = mark.start.max(shown.start)..mark.end.min(shown.end);
        match joined.last_mut() {
            _ if mark.is_empty() => {}
            Some(last) if mark.start < last.end => last.end = last.end.max(mark.end),
            _ => joined.push(mark),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(ranges: &[(Range<u64>, usize)], words: u64) -> Range<u64> {
        let hits = ranges.iter().map(|(range, term)| TermHit {
            range: range.clone(),
            term: *term,
        });
        window(0..100, hits.collect(), 2, words)
    }

    #[test]
    fn the_first_stretch_with_most_terms_is_shown_around_its_hits() {
        assert_eq!(chosen(&[], 10), 0..10);
        assert_eq!(chosen(&[(50..51, 0)], 11), 45..56);
        assert_eq!(chosen(&[(2..3, 0), (99..100, 0)], 11), 0..11);
        assert_eq!(chosen(&[(99..100, 0)], 11), 89..100);
        assert_eq!(
            chosen(&[(10..11, 0), (11..12, 0), (40..41, 0), (42..43, 1)], 5),
            39..44
        );
        assert_eq!(chosen(&[(10..30, 0)], 5), 10..15);
        assert_eq!(chosen(&[(10..11, 0)], 500), 0..100);
    }

    #[test]
    fn marks_that_overlap_are_one() {
        let marks = vec![8..12, 3..5, 4..6, 6..7, 1..2, 20..21];
        assert_eq!(joined(marks, &(2..10)), [3..6, 6..7, 8..10]);
    }
}
