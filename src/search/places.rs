//! Where units begin and end: lines, paragraphs, sentences, windows and files, found in words and gaps.
//!
//! Invariant: place `i` lies before word `i` of the file, the last place behind its last word; a boundary lies at a place if it is
//! in the gap there. Bits are in the order of the units asked for, and start and end of a unit are one boundary.

use unicode_segmentation::UnicodeSegmentation;
use zipfdb_search::algebra::Unit;

/// Words of a stretch of a file with its text.
pub(crate) struct Stretch<'a> {
    /// The number of the first word in the file, and how many words the file has.
    pub(crate) first: u64,
    pub(crate) file_words: u64,
    /// The text from `base` on; it has all words.
    pub(crate) text: &'a [u8],
    /// The offset of the text in the file.
    pub(crate) base: u64,
    /// Offset and length of each word in the file.
    pub(crate) words: &'a [(u64, u32)],
}

impl Stretch<'_> {
    /// For each place of the stretch, one more than it has words, the units that have a boundary there.
    pub(crate) fn boundaries(&self, units: &[Unit]) -> Vec<u64> {
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

    /// The gap at a place, as far as the text of the stretch has it.
    fn gap(&self, place: usize) -> &[u8] {
        let start = match place.checked_sub(1) {
            None => self.base,
            Some(before) => {
                let (offset, length) = self.words[before];
                offset + u64::from(length)
            }
        };
        let text_end = self.base + self.text.len() as u64;
        let end = self.words.get(place).map_or(text_end, |word| word.0);
        let range = start.max(self.base) - self.base..end.max(self.base).min(text_end) - self.base;
        self.text
            .get(range.start as usize..range.end.max(range.start) as usize)
            .unwrap_or_default()
    }

    fn mark_gaps(&self, bit: u64, places: &mut [u64], is_boundary: impl Fn(&[u8]) -> bool) {
        for (place, bits) in places.iter_mut().enumerate() {
            if is_boundary(self.gap(place)) {
                *bits |= bit;
            }
        }
    }

    /// Marks the places with a boundary of UAX #29 between the words around them.
    fn mark_sentences(&self, bit: u64, places: &mut [u64]) {
        let mut place = 0;
        let mut at = self.base;
        for chunk in self.text.utf8_chunks() {
            for sentence in chunk.valid().split_sentence_bounds() {
                at += sentence.len() as u64;
                while self.words.get(place).is_some_and(|word| word.0 < at) {
                    place += 1;
                }
                // A boundary within a word is none between words.
                let before = place.checked_sub(1).map(|before| self.words[before]);
                let is_between =
                    before.is_none_or(|(offset, length)| offset + u64::from(length) <= at);
                if is_between {
                    places[place] |= bit;
                }
            }
            at += chunk.invalid().len() as u64;
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
                    words.push((from as u64, (at - from) as u32));
                    start = None;
                }
                _ => {}
            }
        }
        let stretch = Stretch {
            first: 0,
            file_words: words.len() as u64,
            text: text.as_bytes(),
            base: 0,
            words: &words,
        };
        let found = stretch.boundaries(&[unit]);
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
