//! Marks of the words of a dictionary for the conditions on n-grams.
//!
//! A text can only match if it has certain parts; these are searched in words once: a string that the pattern needs, cut at its
//! spaces, and the range of texts. Invariant: an n-gram that is left out here does not match. An n-gram with a word that holds a
//! space or is not UTF-8 is undecided: its text has spaces within words, or is a BLOB.

use std::ops::Bound;

use rayon::prelude::*;

use super::selection::{TASK_WORDS, is_text};
use crate::Result;
use crate::answer::CorpusView;
use crate::expression::ColumnFilter;

/// The word holds a space or is not UTF-8.
const IS_ODD: u16 = 1 << 15;

/// No n-gram of several words that begins with this word lies in the range of the conditions.
const IS_OUT_OF_RANGE: u16 = 1 << 14;

/// The most parts of a needed string, a bit each: no n-gram has more words.
const PARTS_MAX: usize = 8;

/// The marks of words for the conditions.
pub(super) struct NgramWordMarks {
    /// By word: bit i if it can stand at part i of the needed string, and the bits above.
    marks: Vec<u16>,
    /// The bit of the last part; 0 without a needed string.
    last_part: u16,
    /// Whether every text that has the string matches.
    is_enough: bool,
}

/// The verdict of the words of an n-gram.
pub(super) enum NgramVerdict {
    Matches,
    Fails,
    Unknown,
}

impl NgramWordMarks {
    /// The marks for the conditions on n-grams of `n` words; none if they do not depend on words.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(super) fn new(
        view: &CorpusView,
        filters: &[ColumnFilter],
        n: usize,
    ) -> Result<Option<NgramWordMarks>> {
        let [filter] = filters else {
            return Ok(None);
        };
        let literal = filter.literal();
        let parts: Vec<&[u8]> = literal.map_or(Vec::new(), |literal| {
            literal.bytes.split(|&byte| byte == b' ').collect()
        });
        let range = filter.range();
        let has_range =
            n > 1 && (&range.lower, &range.upper) != (&Bound::Unbounded, &Bound::Unbounded);
        if parts.len() > PARTS_MAX || (parts.is_empty() && !has_range) {
            return Ok(None);
        }
        let ignores_case = literal.is_some_and(|literal| literal.ignores_case);
        let mark = |word: &[u8]| {
            if word.contains(&b' ') || !is_text(word) {
                return IS_ODD;
            }
            let mut mark = 0;
            for (place, part) in parts.iter().enumerate() {
                let is_at = |start: Option<usize>| {
                    let text = start.and_then(|start| word.get(start..start + part.len()));
                    text.is_some_and(|text| is_equal(text, part, ignores_case))
                };
                // Only the first part may follow other bytes, and only the last one may precede some.
                let has_part = match (place == 0, place + 1 == parts.len()) {
                    (true, true) => (0..word.len()).any(|start| is_at(Some(start))),
                    (true, false) => is_at(word.len().checked_sub(part.len())),
                    (false, true) => is_at(Some(0)),
                    (false, false) => is_equal(word, part, ignores_case),
                };
                mark |= u16::from(has_part) << place;
            }
            if has_range && is_out_of_range(word, filter) {
                mark |= IS_OUT_OF_RANGE;
            }
            mark
        };
        let vocabulary = view.vocabulary()?;
        // Words are numbered by u32.
        let words = (0..vocabulary.len() as u32).into_par_iter();
        let marks = words
            .with_min_len(TASK_WORDS)
            .map(|word| mark(vocabulary.word(word)));
        Ok(Some(NgramWordMarks {
            marks: marks.collect(),
            last_part: parts.len().checked_sub(1).map_or(0, |last| 1 << last),
            is_enough: literal.is_some_and(|literal| literal.is_enough),
        }))
    }

    pub(super) fn verdict(&self, words: &[u32]) -> NgramVerdict {
        // Bit i if the words up to this one end with the parts up to i.
        let (mut parts, mut has_literal, mut all) = (0, self.last_part == 0, 0);
        for &word in words {
            let mark = self.marks[word as usize];
            parts = (parts << 1 | 1) & mark;
            has_literal |= parts & self.last_part != 0;
            all |= mark;
        }
        let is_out = words
            .first()
            .is_some_and(|&first| self.marks[first as usize] & IS_OUT_OF_RANGE != 0);
        if all & IS_ODD != 0 {
            NgramVerdict::Unknown
        } else if is_out || !has_literal {
            NgramVerdict::Fails
        } else if self.is_enough {
            NgramVerdict::Matches
        } else {
            NgramVerdict::Unknown
        }
    }
}

fn is_equal(text: &[u8], other: &[u8], ignores_case: bool) -> bool {
    if ignores_case {
        text.eq_ignore_ascii_case(other)
    } else {
        text == other
    }
}

/// Whether no text that begins with a word and a space lies in the range of a filter.
fn is_out_of_range(word: &[u8], filter: &ColumnFilter) -> bool {
    let range = filter.range();
    let start = [word, b" "].concat();
    let is_below = match &range.lower {
        Bound::Unbounded => false,
        Bound::Included(lower) | Bound::Excluded(lower) => {
            start < *lower && !lower.starts_with(&start)
        }
    };
    let is_above = match &range.upper {
        Bound::Unbounded => false,
        Bound::Included(upper) => start > *upper,
        Bound::Excluded(upper) => start >= *upper,
    };
    is_below || is_above
}
