//! The places where a text can be cut so that its tokens stay the same.
//!
//! The invariant: the tokens of `text[..end]` followed by the tokens of the rest are the tokens of the whole, whatever bytes come
//! after `text`. So the tokens of a file do not depend on the sizes in which it is read. The caller chooses the size of the
//! pieces.

use super::runs::decode;
use super::unicode::is_other;
use super::{Sink, tokenize};
use std::str;
use zipfdb_storage::Tokenizer;

/// A token that starts a chunk has at least this many after it. Two show that it is complete and what follows it; the
/// last one may be the beginning of a character.
const TOKENS_AFTER: usize = 3;

/// U+202F, the only white space that UAX #29 joins to a word behind it. The word does not hold it, but may start with a
/// mark that would stand alone without it.
const JOINING_SPACE: &[u8] = "\u{202F}".as_bytes();

/// The last place in `text` where a chunk may end and the next one start, if any is certain.
///
/// `text` starts a file or a chunk and has more bytes of its file after it. The place is neither the start nor the end of `text`.
/// The cost is small in text with spaces or lines, and a tokenizer's pass over text without.
pub fn chunk_end(tokenizer: Tokenizer, text: &[u8]) -> Option<usize> {
    last_edge(tokenizer, text, 1).or_else(|| last_certain_token(tokenizer, text))
}

/// As [`chunk_end`], of a text of which only the last bytes are known; none if they do not show the place.
pub fn chunk_end_near(tokenizer: Tokenizer, last_bytes: &[u8]) -> Option<usize> {
    // The characters on both sides decide about an edge, so the one before it must be complete.
    last_edge(tokenizer, last_bytes, char::MAX.len_utf8())
}

/// The last edge of a word in `text`, at `first` or after it.
fn last_edge(tokenizer: Tokenizer, text: &[u8], first: usize) -> Option<usize> {
    (first..text.len())
        .rev()
        .find(|&place| word_edge(tokenizer, text, place).is_some())
}

/// A place between two characters, and the words around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordEdge {
    /// A word starts there.
    Start,
    /// A word ends there.
    End,
    /// A word ends there and another one starts.
    Between,
}

/// The edge at `place`, which is neither start nor end of `text`, if the characters before and after it show one, whatever else
/// the text holds. No word crosses it.
///
/// Text with spaces or lines has such edges for every tokenizer. Han and Hiragana, which have neither for long stretches, have
/// them for `unicode` between two characters, and for `alnum` before punctuation.
pub fn word_edge(tokenizer: Tokenizer, text: &[u8], place: usize) -> Option<WordEdge> {
    // Nothing joins white space to an alphanumeric character before it, and nothing at all crosses a line feed.
    match (text[place - 1], text[place]) {
        (before, b' ' | b'\t' | b'\n' | b'\r') => {
            let ends_word = before.is_ascii_alphanumeric()
                || before >= 0x80
                    && last_character(&text[..place]).is_some_and(char::is_alphanumeric);
            ends_word.then_some(WordEdge::End)
        }
        (b'\n', after) => {
            let starts_word = after.is_ascii_alphanumeric()
                || after >= 0x80 && decode(&text[place..]).is_some_and(char::is_alphanumeric);
            starts_word.then_some(WordEdge::Start)
        }
        (0x80.., 0x80..) => {
            let after = decode(&text[place..])?;
            let before = last_character(&text[..place])?;
            match tokenizer {
                Tokenizer::Unicode if stands_alone(before) && stands_alone(after) => {
                    Some(WordEdge::Between)
                }
                Tokenizer::Alnum if before.is_alphanumeric() && !after.is_alphanumeric() => {
                    Some(WordEdge::End)
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether a character is a word of `unicode` by itself unless a mark follows it: UAX #29 has no rule that joins Han or Hiragana
/// letters to others.
fn stands_alone(character: char) -> bool {
    matches!(character, '\u{3041}'..='\u{3096}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}')
}

/// The character that `text` ends with, if it ends with one.
fn last_character(text: &[u8]) -> Option<char> {
    (1..=text.len().min(4)).find_map(|size| {
        let last = str::from_utf8(&text[text.len() - size..]).ok()?;
        last.chars().next()
    })
}

/// The start of the last token that is certain to start in the whole file, and after which no rule looks back.
fn last_certain_token(tokenizer: Tokenizer, text: &[u8]) -> Option<usize> {
    let mut starts = TokenStarts::default();
    tokenize(tokenizer, text, &mut starts);
    starts.certain
}

/// The starts of the last tokens; a gap that was cut for its length counts as one.
#[derive(Default)]
struct TokenStarts {
    certain: Option<usize>,
    /// The starts after `certain`, the latest first.
    later: [Option<usize>; TOKENS_AFTER],
    after_word: bool,
}

impl TokenStarts {
    fn push(&mut self, start: usize) {
        self.later.rotate_right(1);
        self.certain = self.later[0].or(self.certain);
        self.later[0] = (start > 0).then_some(start);
    }
}

impl Sink for TokenStarts {
    fn word(&mut self, text: &[u8], start: usize, _end: usize) {
        // 0 is never certain.
        self.push(if text[..start].ends_with(JOINING_SPACE) {
            0
        } else {
            start
        });
        self.after_word = true;
    }

    fn gap(&mut self, text: &[u8], start: usize, _end: usize) {
        // Within a gap, cut only between bytes that no rule joins to anything, and where the next one shows that no mark
        // makes a word of them: a pair of regional indicators, for one, must not lose its first half. Spaces join, and a
        // mark far behind them may make one word of them all.
        let stands_alone = |byte: &u8| is_other(*byte) || matches!(*byte, 0xC0 | 0xC1 | 0xF5..);
        if start == 0 || self.after_word {
            self.push(start);
        } else if let Some(around) = text.get(start - 1..start + 2)
            && around.iter().all(stands_alone)
            && !around.starts_with(b"  ")
        {
            self.certain = Some(start);
            self.later = Default::default();
        }
        self.after_word = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_segmentation::UnicodeSegmentation;

    #[test]
    fn han_and_hiragana_end_and_start_words_whatever_is_around() {
        let alone = ('\0'..=char::MAX).filter(|&character| stands_alone(character));
        for character in alone {
            for (before, after) in [("", ""), ("a", "b"), ("_", "_"), ("\u{30ab}", "\u{30ab}")] {
                let text = format!("{before}{character}\u{3042}{character}{after}");
                let first = before.len() + character.len_utf8();
                for place in [first, first + 3] {
                    let edge = word_edge(Tokenizer::Unicode, text.as_bytes(), place);
                    assert_eq!(edge, Some(WordEdge::Between), "{text:?}");
                    let mut words = text.unicode_word_indices();
                    assert!(words.any(|(start, _)| start == place), "{text:?}");
                    let mut words = text.unicode_word_indices();
                    let is_end = |(start, word): (usize, &str)| start + word.len() == place;
                    assert!(words.any(is_end), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn a_mark_or_another_tokenizer_makes_no_edge_between_two_han() {
        let text = "\u{4e2d}\u{301}\u{4e2d}\u{4e2d}\u{3002}";
        let edges = |tokenizer| {
            let edge = |&place: &usize| word_edge(tokenizer, text.as_bytes(), place).is_some();
            (1..text.len()).filter(edge).collect::<Vec<_>>()
        };
        assert_eq!(edges(Tokenizer::Unicode), [8]);
        assert_eq!(edges(Tokenizer::Alnum), [3, 11]);
        assert!(edges(Tokenizer::Whitespace).is_empty());
    }
}
