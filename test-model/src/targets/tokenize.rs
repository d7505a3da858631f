//! Any bytes into the three tokenizers: tokens put together are the text, and tokens of chunks are those of the whole.
//!
//! The words of `unicode` are compared with those of `unicode_segmentation` too. Two bytes before the text say where it
//! is cut into chunks.

use unicode_segmentation::UnicodeSegmentation;
use zipfdb::fuzzing::{Sink, Tokenizer, chunk_end, has_glued_space, tokenize};

/// Longest gap token of the format.
const GAP_BYTES_MAX: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Token {
    start: usize,
    end: usize,
    is_word: bool,
}

#[derive(Default)]
struct Tokens {
    /// Where the chunk that is cut now starts in its text.
    base: usize,
    tokens: Vec<Token>,
}

impl Sink for Tokens {
    fn word(&mut self, _text: &[u8], start: usize, end: usize) {
        let (start, end) = (self.base + start, self.base + end);
        self.tokens.push(Token {
            start,
            end,
            is_word: true,
        });
    }

    fn gap(&mut self, _text: &[u8], start: usize, end: usize) {
        let (start, end) = (self.base + start, self.base + end);
        self.tokens.push(Token {
            start,
            end,
            is_word: false,
        });
    }
}

/// One input.
pub fn run(bytes: &[u8]) {
    let Some((cut, text)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let chunk_size = usize::from(u16::from_le_bytes(*cut)) % (text.len() + 1);
    for tokenizer in [Tokenizer::Unicode, Tokenizer::Alnum, Tokenizer::Whitespace] {
        let mut whole = Tokens::default();
        tokenize(tokenizer, text, &mut whole);
        check_lossless(text, &whole.tokens);
        check_spaces(tokenizer, text, &whole.tokens);
        assert_eq!(
            whole.tokens,
            chunked(tokenizer, text, chunk_size),
            "{tokenizer:?}"
        );
        if tokenizer == Tokenizer::Unicode {
            let words = whole.tokens.iter().filter(|token| token.is_word);
            let words: Vec<_> = words.map(|token| word(tokenizer, text, token)).collect();
            assert_eq!(words, reference_words(text));
        }
    }
}

/// Tokens cover the text without overlap, gaps lie apart and are cut only for their length.
fn check_lossless(text: &[u8], tokens: &[Token]) {
    let mut cursor = 0;
    let mut after_short_gap = false;
    for token in tokens {
        assert_eq!(token.start, cursor);
        assert!(token.end > token.start);
        cursor = token.end;
        if !token.is_word {
            assert!(!after_short_gap);
            assert!(token.end - token.start <= GAP_BYTES_MAX);
        }
        after_short_gap = !token.is_word && token.end - token.start < GAP_BYTES_MAX;
    }
    assert_eq!(cursor, text.len());
}

/// A space directly before a word is its token's, and no word is empty.
fn check_spaces(tokenizer: Tokenizer, text: &[u8], tokens: &[Token]) {
    for pair in tokens.windows(2) {
        let (start, end) = word(tokenizer, text, &pair[1]);
        assert!(start < end);
        if pair[1].is_word && !pair[0].is_word && text[start] != b' ' {
            assert!(start > pair[1].start || text[start - 1] != b' ');
        }
    }
}

/// Where the word of a token is; all of the token if it is a gap.
fn word(tokenizer: Tokenizer, text: &[u8], token: &Token) -> (usize, usize) {
    let has_space = token.is_word && has_glued_space(tokenizer, &text[token.start..token.end]);
    (token.start + usize::from(has_space), token.end)
}

/// Tokens of the text when it is read in pieces of `size` bytes, or more where a piece has no place to cut.
fn chunked(tokenizer: Tokenizer, text: &[u8], size: usize) -> Vec<Token> {
    let mut tokens = Tokens::default();
    let mut wanted = size.max(1);
    while text.len() - tokens.base > wanted {
        let piece = &text[tokens.base..tokens.base + wanted];
        match chunk_end(tokenizer, piece) {
            Some(end) => {
                assert!(end > 0);
                assert!(end < piece.len());
                tokenize(tokenizer, &piece[..end], &mut tokens);
                tokens.base += end;
                wanted = size.max(1);
            }
            // Doubling, as adding a byte at a time would take quadratic time in a text without a place to cut.
            None => wanted *= 2,
        }
    }
    tokenize(tokenizer, &text[tokens.base..], &mut tokens);
    tokens.tokens
}

/// The words that `unicode_segmentation` finds.
fn reference_words(text: &[u8]) -> Vec<(usize, usize)> {
    let mut words = Vec::new();
    let mut base = 0;
    for chunk in text.utf8_chunks() {
        for (start, word) in chunk.valid().unicode_word_indices() {
            words.push((base + start, base + start + word.len()));
        }
        base += chunk.valid().len() + chunk.invalid().len();
    }
    words
}
