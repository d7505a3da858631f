//! Where units begin and end: lines, paragraphs, sentences, windows and files, found in words and gaps.
//!
//! Invariant: place `i` lies before word `i` of the file, the last place behind its last word; a boundary lies at a place if it is
//! in the gap there. Bits are in the order of the units asked for, and start and end of a unit are one boundary. What is read of a
//! file are the words and gaps asked for, and for sentences the lines around them: the end of a line ends a sentence.

use std::ops::Range;
use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation;
use zipfdb_search::algebra::Unit;

use super::context;
use crate::Result;
use crate::answer::access_path::Run;
use crate::answer::{CorpusView, Occurrence, PlaceRanges, WordStream};

/// Bytes that are searched first for the end of a line.
const LINE_BYTES: u64 = 256;

/// Consecutive words of a file with what lies between them.
#[derive(Default)]
pub(crate) struct Passage {
    /// The positions of the words.
    pub(crate) range: Range<u64>,
    pub(crate) words: Vec<Occurrence>,
    /// The text from the end of the word before to the start of the word behind; empty unless gaps were asked for.
    pub(crate) text: Vec<u8>,
    /// The offset of the text.
    pub(crate) base: u64,
    /// For each place, one more than there are words, a bit for each unit that has a boundary there; empty without units.
    pub(crate) places: Vec<u64>,
}

/// Reads passages of a file with the boundaries of units.
pub(crate) struct PassageReader<'a> {
    view: &'a Arc<CorpusView>,
    file: u32,
    units: &'a [Unit],
    sentences: Sentences,
}

/// The ends of sentences in lines of a file.
#[derive(Default)]
struct Sentences {
    /// The offsets of the lines.
    lines: Range<u64>,
    ends: Vec<u64>,
}

impl<'a> PassageReader<'a> {
    /// Nothing is read yet.
    pub(crate) fn new(view: &'a Arc<CorpusView>, file: u32, units: &'a [Unit]) -> Self {
        PassageReader {
            view,
            file,
            units,
            sentences: Sentences::default(),
        }
    }

    /// The words of a range, which the file has, by their numbers, and for each place the boundaries there.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn numbers(
        &mut self,
        range: Range<u64>,
        run: Run<'_>,
    ) -> Result<(Vec<u32>, Vec<u64>)> {
        let is_in_text =
            |unit: &Unit| matches!(unit, Unit::Line | Unit::Paragraph | Unit::Sentence);
        if self.units.iter().any(is_in_text) {
            let passage = self.read(range, false)?;
            let words = passage.words.iter().map(|word| word.word);
            return Ok((words.collect(), passage.places));
        }
        let words = context::read(self.view, self.file, range.clone(), run)?;
        let gaps = Gaps {
            first: range.start,
            file_words: self.view.files()[self.file as usize].words,
            base: 0,
            end: 0,
            text: &[],
            words: &vec![(0, 0); words.len()],
            sentences: &[],
        };
        Ok((words, gaps.boundaries(self.units)))
    }

    /// The words of a range, which the file has, and what lies between them; the text if `reads_gaps`.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn read(&mut self, range: Range<u64>, reads_gaps: bool) -> Result<Passage> {
        let (view, file) = (self.view, self.file);
        let summary = &view.files()[file as usize];
        // One word more on each side, between which the gaps lie.
        let wide = range.start.saturating_sub(1)..(range.end + 1).min(summary.words);
        let mut words: Vec<Occurrence> = Vec::new();
        if !wide.is_empty() {
            let wanted = PlaceRanges {
                positions: wide.start..=wide.end - 1,
                ..PlaceRanges::ALL
            };
            let mut stream = WordStream::within(view.clone(), vec![file], wanted, 0);
            let mut wanted = (wide.end - wide.start) as usize;
            // There may be words beside the wanted ones.
            while stream.fill(&mut words, wanted)?
                && (words.last()).is_some_and(|last| last.position + 1 < wide.end)
            {
                wanted = words.len() + 1;
            }
        }
        words.retain(|word| wide.contains(&word.position));
        let length = |word: &Occurrence| view.word(word.word).len() as u64;
        let base = match words.first() {
            Some(first) if first.position < range.start => first.offset + length(first),
            _ => 0,
        };
        let end = match words.last() {
            Some(last) if last.position >= range.end => last.offset,
            _ => summary.bytes,
        };
        words.retain(|word| range.contains(&word.position));
        let has = |unit: Unit| self.units.contains(&unit);
        let text = if reads_gaps || has(Unit::Line) || has(Unit::Paragraph) {
            view.extract(file as usize, base, end - base)?
        } else {
            Vec::new()
        };
        let mut places = Vec::new();
        if !self.units.is_empty() {
            let lengths = words.iter().map(|word| (word.offset, length(word)));
            let lengths: Vec<(u64, u64)> = lengths.collect();
            if has(Unit::Sentence) {
                self.read_sentences(base..end)?;
            }
            let gaps = Gaps {
                first: range.start,
                file_words: summary.words,
                base,
                end,
                text: &text,
                words: &lengths,
                sentences: &self.sentences.ends,
            };
            places = gaps.boundaries(self.units);
        }
        Ok(Passage {
            range,
            words,
            text,
            base,
            places,
        })
    }

    /// Finds the ends of the sentences in all lines that have some of `bytes`, unless they are known.
    fn read_sentences(&mut self, bytes: Range<u64>) -> Result<()> {
        let known = &self.sentences.lines;
        if known.start <= bytes.start && bytes.end <= known.end && !known.is_empty() {
            return Ok(());
        }
        let (view, file) = (self.view, self.file as usize);
        let file_bytes = view.files()[file].bytes;
        let (mut start, mut end) = (bytes.start, bytes.end);
        let mut step = LINE_BYTES;
        while start > 0 {
            let from = start.saturating_sub(step);
            let before = view.extract(file, from, start - from)?;
            if let Some(at) = memchr::memrchr(b'\n', &before) {
                start = from + at as u64 + 1;
                break;
            }
            (start, step) = (from, step * 2);
        }
        step = LINE_BYTES;
        while end < file_bytes {
            let behind = view.extract(file, end, step.min(file_bytes - end))?;
            if let Some(at) = memchr::memchr(b'\n', &behind) {
                end += at as u64 + 1;
                break;
            }
            (end, step) = (end + behind.len() as u64, step * 2);
        }
        let text = view.extract(file, start, end - start)?;
        let mut ends = Vec::new();
        let mut at = start;
        for chunk in text.utf8_chunks() {
            for sentence in chunk.valid().split_sentence_bounds() {
                at += sentence.len() as u64;
                ends.push(at);
            }
            at += chunk.invalid().len() as u64;
        }
        self.sentences = Sentences {
            lines: start..end,
            ends,
        };
        Ok(())
    }
}

/// Words and the gaps around them.
struct Gaps<'a> {
    /// The number of the first word in the file, and how many words the file has.
    first: u64,
    file_words: u64,
    /// The end of the word before, and the start of the word behind.
    base: u64,
    end: u64,
    /// The text between; empty unless a unit is decided by gaps.
    text: &'a [u8],
    /// Offset and length of each word in the file.
    words: &'a [(u64, u64)],
    /// Where sentences end in the text, ascending.
    sentences: &'a [u64],
}

impl Gaps<'_> {
    /// For each place, one more than there are words, the units that have a boundary there.
    fn boundaries(&self, units: &[Unit]) -> Vec<u64> {
        let mut places = vec![0; self.words.len() + 1];
        for (bit, unit) in units.iter().enumerate() {
            self.mark(*unit, 1 << bit, &mut places);
        }
        places
    }

    fn mark(&self, unit: Unit, bit: u64, places: &mut [u64]) {
        let last = places.len() - 1;
        if self.first == 0 {
            places[0] |= bit;
        }
        if self.first + last as u64 == self.file_words {
            places[last] |= bit;
        }
        match unit {
            Unit::File | Unit::Record => {}
            Unit::Window(words) => {
                let words = u64::from(words.max(1));
                for (place, bits) in (self.first..).zip(places) {
                    if place % words == 0 {
                        *bits |= bit;
                    }
                }
            }
            Unit::Line => self.mark_gaps(bit, places, has_line_end),
            Unit::Paragraph => self.mark_gaps(bit, places, has_empty_line),
            Unit::Sentence => self.mark_sentences(bit, places),
        }
    }

    /// Where the gap at a place lies in the file.
    fn gap_range(&self, place: usize) -> Range<u64> {
        let before = place.checked_sub(1).map(|before| self.words[before]);
        let start = before.map_or(self.base, |(offset, length)| offset + length);
        start..self.words.get(place).map_or(self.end, |word| word.0)
    }

    /// The gap at a place.
    fn gap(&self, place: usize) -> &[u8] {
        let range = self.gap_range(place);
        let (start, end) = (range.start - self.base, range.end - self.base);
        let gap = self.text.get(start as usize..end as usize);
        gap.unwrap_or_default()
    }

    fn mark_gaps(&self, bit: u64, places: &mut [u64], is_boundary: impl Fn(&[u8]) -> bool) {
        for (place, bits) in places.iter_mut().enumerate() {
            if is_boundary(self.gap(place)) {
                *bits |= bit;
            }
        }
    }

    /// Marks the places in whose gaps, the ends of these included, a sentence ends: one that ends within a word ends at no place.
    fn mark_sentences(&self, bit: u64, places: &mut [u64]) {
        let mut rest = self.sentences;
        for (place, bits) in places.iter_mut().enumerate() {
            let gap = self.gap_range(place);
            rest = &rest[rest.partition_point(|&at| at < gap.start)..];
            if rest.first().is_some_and(|&at| at <= gap.end) {
                *bits |= bit;
            }
        }
    }
}

/// Whether a line ends in a gap.
fn has_line_end(gap: &[u8]) -> bool {
    gap.iter().any(|byte| matches!(byte, b'\n' | b'\r'))
}

/// Whether a gap has an empty line: two line breaks with only spaces and tabs between them, or U+2029.
fn has_empty_line(gap: &[u8]) -> bool {
    let mut is_empty = false;
    let mut rest = gap;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match byte {
            b'\n' | b'\r' => {
                if *byte == b'\r' && rest.first() == Some(&b'\n') {
                    rest = &rest[1..];
                }
                if is_empty {
                    return true;
                }
                is_empty = true;
            }
            b' ' | b'\t' => {}
            0xe2 if rest.starts_with(&[0x80, 0xa9]) => return true,
            _ => is_empty = false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places of a text with a boundary of a unit; words are runs of letters.
    fn places(text: &str, unit: Unit) -> Vec<usize> {
        let mut words = Vec::new();
        let mut start = None;
        for (at, byte) in text.bytes().chain([b' ']).enumerate() {
            match (byte.is_ascii_alphanumeric(), start) {
                (true, None) => start = Some(at),
                (false, Some(from)) => {
                    words.push((from as u64, (at - from) as u64));
                    start = None;
                }
                _ => {}
            }
        }
        let mut at = 0;
        let ends = text.split_sentence_bounds().map(|sentence| {
            at += sentence.len() as u64;
            at
        });
        let gaps = Gaps {
            first: 0,
            file_words: words.len() as u64,
            base: 0,
            end: text.len() as u64,
            text: text.as_bytes(),
            words: &words,
            sentences: &ends.collect::<Vec<_>>(),
        };
        let found = gaps.boundaries(&[unit]);
        (0..found.len())
            .filter(|&place| found[place] == 1)
            .collect()
    }

    #[test]
    fn units_end_in_the_gaps_that_say_so() {
        let text = "One two. Three\nfour?\n \nFive\r\n--\r\nsix e.g. seven";
        assert_eq!(places(text, Unit::File), [0, 9]);
        assert_eq!(places(text, Unit::Line), [0, 3, 4, 5, 9]);
        assert_eq!(places(text, Unit::Paragraph), [0, 4, 9]);
        assert_eq!(places(text, Unit::Sentence), [0, 2, 3, 4, 5, 9]);
        assert_eq!(places(text, Unit::Window(4)), [0, 4, 8, 9]);
        assert_eq!(places("", Unit::Line), [0]);
    }
}
