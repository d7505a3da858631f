//! Searches text that is not tokenized for a word: finds its bytes, and tokenizes only the text around them.
//!
//! Invariant: counts are those of all words of the text. A stretch is tokenized alone if its ends are edges of words whatever
//! else the text holds; without an edge nearby, all of the text is.

use std::ops::Range;

use memchr::memmem::Finder;
use zipfdb_storage::Tokenizer;

use crate::tokenize::{Sink, has_glued_space, tokenize, word_edge};

/// The distance, in bytes, to which an edge is searched on either side of the word's bytes.
const EDGE_DISTANCE_MAX: usize = 256;

/// A word to search for.
pub(super) struct WordSearch<'a> {
    tokenizer: Tokenizer,
    word: &'a [u8],
    finder: Finder<'a>,
}

/// Counts the tokens of a word.
struct SameWords<'a> {
    tokenizer: Tokenizer,
    word: &'a [u8],
    count: u64,
}

impl Sink for SameWords<'_> {
    #[inline(always)]
    fn word(&mut self, text: &[u8], start: usize, end: usize) {
        // The token is longer by one space at most.
        if end - start > self.word.len() + 1 {
            return;
        }
        let token = &text[start..end];
        let word = &token[usize::from(has_glued_space(self.tokenizer, token))..];
        self.count += u64::from(word == self.word);
    }

    #[inline(always)]
    fn gap(&mut self, _: &[u8], _: usize, _: usize) {}
}

impl<'a> WordSearch<'a> {
    pub(super) fn new(tokenizer: Tokenizer, word: &'a [u8]) -> WordSearch<'a> {
        WordSearch {
            tokenizer,
            word,
            finder: Finder::new(word),
        }
    }

    /// The count of the word in a text that begins and ends where chunks of texts do.
    pub(super) fn count(&self, text: &[u8]) -> u64 {
        if self.word.is_empty() {
            return 0;
        }
        let (mut from, mut count) = (0, 0);
        while let Some(found) = self.finder.find(&text[from..]) {
            let Some(around) = self.around(text, from, from + found) else {
                return count + self.count_all(&text[from..]);
            };
            count += self.count_all(&text[around.clone()]);
            from = around.end;
        }
        count
    }

    /// A stretch from `from` or an edge behind it to another edge, with the bytes at `place`; none if no edge is near.
    fn around(&self, text: &[u8], from: usize, place: usize) -> Option<Range<usize>> {
        let is_edge = |&at: &usize| word_edge(self.tokenizer, text, at).is_some();
        let end = place + self.word.len();
        let first = from.max(place.saturating_sub(EDGE_DISTANCE_MAX));
        let start = (first.max(1)..place).rev().find(is_edge);
        let start = start.or((first == from).then_some(from))?;
        let last = text.len().min(end + EDGE_DISTANCE_MAX);
        let after = (end..last).find(is_edge);
        let after = after.or((last == text.len()).then_some(last))?;
        Some(start..after)
    }

    fn count_all(&self, text: &[u8]) -> u64 {
        let mut same = SameWords {
            tokenizer: self.tokenizer,
            word: self.word,
            count: 0,
        };
        tokenize(self.tokenizer, text, &mut same);
        same.count
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            "[a-c]{1,3}",
            "[ \\n,._'-]{1,2}",
            "[\u{301}\u{4e2d}\u{3042}\u{30ab}\u{e9}\u{202f}\u{1f1e6}]",
            Just("a".to_owned()),
        ];
        let text = proptest::collection::vec(piece, 0..120).prop_map(|pieces| pieces.concat());
        (text, proptest::collection::vec(any::<u8>(), 0..3)).prop_map(|(text, bytes)| {
            let mut text = text.into_bytes();
            text.extend(bytes);
            text
        })
    }

    proptest! {
        #[test]
        fn words_are_counted_as_in_all_of_the_text(
            text in texts(),
            far in 0..400usize,
            word in prop_oneof![Just("a"), Just("ab"), Just("a.b"), Just("\u{4e2d}"), Just(" a"), Just(","), Just("b'c")],
        ) {
            // Edges that are far apart.
            let text = [&text[..], &b"_".repeat(far), &text].concat();
            for tokenizer in Tokenizer::ALL {
                let search = WordSearch::new(tokenizer, word.as_bytes());
                prop_assert_eq!(search.count(&text), search.count_all(&text), "{:?}", tokenizer);
            }
        }
    }
}
