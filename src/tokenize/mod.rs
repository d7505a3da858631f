//! Bytes to tokens: the only module that knows the rules for words.
//!
//! A text is cut into *word tokens*, a word with at most one U+0020 glued to its front, and *gap tokens*, maximal runs of the
//! other bytes, cut after every [`GAP_BYTES_MAX`] bytes. The corpus' [`Tokenizer`] defines words. The invariant: for any bytes at
//! all, the tokens put one after the other are the text.
//!
//! This module reads no files and knows no segments; its rules depend on the bytes alone, not on the locale. A text may be cut
//! where [`chunk_end`] says and tokenized in chunks; the tokens are those of the whole.

mod block;
mod chunk;
mod cutter;
mod dictionary;
mod interner;
mod runs;
mod unicode;

pub use chunk::{WordEdge, chunk_end, chunk_end_near, word_edge};
pub use cutter::{GAP_BYTES_MAX, Sink};
pub use dictionary::{merge, sort_distinct};
pub use interner::{Interner, LocalDictionary};

use std::ops::Range;

use cutter::Cutter;
use zipfdb_storage::Tokenizer;

/// The version of Unicode that defines words, for every tokenizer.
///
/// The boundaries are those of `unicode_segmentation`, the classes of the other tokenizers those of the standard library. A test
/// checks that the versions are equal.
pub const UNICODE_VERSION: (u8, u8, u8) = char::UNICODE_VERSION;

/// Whether a word token of this tokenizer starts with a space that was glued to its word.
pub fn has_glued_space(tokenizer: Tokenizer, token: &[u8]) -> bool {
    token.first() == Some(&b' ')
        && !(tokenizer == Tokenizer::Unicode && unicode::owns_its_space(token))
}

/// Cuts `text` into tokens and hands them to `sink` in order.
///
/// Linear in the text, and no token is empty.
pub fn tokenize<S: Sink>(tokenizer: Tokenizer, text: &[u8], sink: &mut S) {
    let mut cutter = Cutter {
        text,
        cursor: 0,
        sink,
    };
    match tokenizer {
        Tokenizer::Unicode => unicode::words(&mut cutter),
        Tokenizer::Alnum => runs::words::<runs::Alphanumeric, S>(&mut cutter),
        Tokenizer::Whitespace => runs::words::<runs::NotWhitespace, S>(&mut cutter),
    }
    if !S::COUNTS_ONLY {
        cutter.gap_to(text.len());
    }
}

/// The number of words in a text.
pub fn count_words(tokenizer: Tokenizer, text: &[u8]) -> u64 {
    let mut count = WordCounter(0);
    tokenize(tokenizer, text, &mut count);
    count.0
}

/// The bytes of each word of a text, in order.
pub(crate) fn word_ranges(tokenizer: Tokenizer, text: &[u8]) -> Vec<Range<usize>> {
    struct WordRanges(Tokenizer, Vec<Range<usize>>);
    impl Sink for WordRanges {
        fn word(&mut self, text: &[u8], start: usize, end: usize) {
            let space = has_glued_space(self.0, &text[start..end]);
            self.1.push(start + usize::from(space)..end);
        }

        fn gap(&mut self, _: &[u8], _: usize, _: usize) {}
    }
    let mut ranges = WordRanges(tokenizer, Vec::new());
    tokenize(tokenizer, text, &mut ranges);
    ranges.1
}

/// Whether no word contains this text, whatever stands around it. False for some texts that are in no word.
pub fn is_never_within_word(tokenizer: Tokenizer, text: &str) -> bool {
    match tokenizer {
        Tokenizer::Unicode => unicode::has_boundary(text.as_bytes()),
        Tokenizer::Alnum => !text.chars().all(char::is_alphanumeric),
        Tokenizer::Whitespace => text.contains(char::is_whitespace),
    }
}

/// Counts words.
struct WordCounter(u64);

impl Sink for WordCounter {
    const COUNTS_ONLY: bool = true;

    #[inline(always)]
    fn more_words(&mut self, count: u64) {
        self.0 += count;
    }

    #[inline(always)]
    fn word(&mut self, _: &[u8], _: usize, _: usize) {
        self.0 += 1;
    }

    #[inline(always)]
    fn gap(&mut self, _: &[u8], _: usize, _: usize) {}
}

#[cfg(test)]
mod tests;
