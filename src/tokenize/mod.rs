//! Bytes to tokens: the only module that knows what a word is.
//!
//! A text is cut into *word tokens*, a word with at most one U+0020 glued to its front, and *gap tokens*, maximal runs
//! of the other bytes, cut after every [`GAP_BYTES_MAX`] bytes. What a word is, the corpus' [`Tokenizer`] says. The
//! invariant: for any bytes at all, the tokens put one after the other are the text.
//!
//! Nothing here reads files or knows segments, and no rule depends on the locale or on anything but the bytes. A text
//! may be cut where [`chunk_end`] says and tokenized in chunks; the tokens are those of the whole.

mod block;
mod chunk;
mod dictionary;
mod fold;
mod fold_table;
mod interner;
mod runs;
mod unicode;

pub use chunk::{chunk_end, is_word_edge};
pub use dictionary::merge;
pub use fold::fold;
pub use interner::{Interner, LocalDictionary};

use zipfdb_storage::Tokenizer;

/// Longest gap token; a longer gap becomes several.
pub const GAP_BYTES_MAX: usize = 64;

/// The version of Unicode that decides what a word is, whichever the tokenizer.
///
/// The boundaries are those of `unicode_segmentation`, the classes of the other tokenizers those of the standard
/// library. A test holds the two together.
pub const UNICODE_VERSION: (u8, u8, u8) = char::UNICODE_VERSION;

/// Takes the tokens of a text, in order.
pub trait Sink {
    /// Takes the word token `text[start..end]`, its space included.
    fn word(&mut self, text: &[u8], start: usize, end: usize);

    /// Takes the gap token `text[start..end]`.
    fn gap(&mut self, text: &[u8], start: usize, end: usize);
}

/// Whether a word token of this tokenizer starts with a space that was glued to its word.
pub fn has_glued_space(tokenizer: Tokenizer, token: &[u8]) -> bool {
    token.first() == Some(&b' ')
        && !(tokenizer == Tokenizer::Unicode && unicode::owns_its_space(token))
}

/// Cuts `text` into tokens and hands them to `sink` in order.
///
/// Linear in the text, and no token is empty.
pub fn tokenize(tokenizer: Tokenizer, text: &[u8], sink: &mut impl Sink) {
    let mut cutter = Cutter {
        text,
        cursor: 0,
        sink,
    };
    match tokenizer {
        Tokenizer::Unicode => unicode::words(&mut cutter),
        Tokenizer::Alnum => runs::words::<runs::Alphanumeric>(&mut cutter),
        Tokenizer::Whitespace => runs::words::<runs::NotWhitespace>(&mut cutter),
    }
    cutter.gap_to(text.len());
}

/// Turns the words that a tokenizer finds into tokens: decides about spaces and fills the gaps.
struct Cutter<'a, S> {
    text: &'a [u8],
    /// Where the last token ended.
    cursor: usize,
    sink: &'a mut S,
}

impl<S: Sink> Cutter<'_, S> {
    /// Takes the word `text[start..end]`, which is not empty and starts at or after the last one's end.
    #[inline(always)]
    fn word(&mut self, start: usize, end: usize) {
        let mut start = start;
        if start > self.cursor {
            start -= usize::from(self.text[start - 1] == b' ');
            if start > self.cursor {
                self.gap_to(start);
            }
        }
        self.sink.word(self.text, start, end);
        self.cursor = end;
    }

    /// Makes gap tokens of everything up to `end`.
    #[inline(always)]
    fn gap_to(&mut self, end: usize) {
        while end - self.cursor > GAP_BYTES_MAX {
            self.sink
                .gap(self.text, self.cursor, self.cursor + GAP_BYTES_MAX);
            self.cursor += GAP_BYTES_MAX;
        }
        if end > self.cursor {
            self.sink.gap(self.text, self.cursor, end);
            self.cursor = end;
        }
    }
}

#[cfg(test)]
mod tests;
