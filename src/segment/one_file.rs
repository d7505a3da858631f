//! One file of a segment, whose root alone has been decoded: answers the first questions about files, before the roots of all are
//! worth decoding.
//!
//! The invariant: answers are those of the whole segment. A file that is read to its end has the bytes and words of the file
//! table, and reading stops there, however long its grammar goes on. It builds and keeps nothing.

use std::cell::Cell;
use std::ops::ControlFlow;

use zipfdb_kernels::{
    GrammarView, Pattern, Reading, WordReading, WordTerminals, fold_expansions, readings,
};
use zipfdb_storage::{Bodies, Dictionary, FileEntry};

/// A file by its root.
pub(crate) struct OneFile<'a> {
    pub(crate) dictionary: &'a Dictionary,
    pub(crate) entry: &'a FileEntry,
    pub(crate) bodies: &'a Bodies,
    pub(crate) root: Vec<u32>,
}

/// Consecutive words, by their tokens in a segment.
pub(crate) struct Phrase {
    /// The distinct words.
    words: Vec<WordTerminals>,
    /// The phrase by their places in `words`.
    pattern: Pattern<usize>,
}

impl Phrase {
    /// A phrase of at least one word.
    pub(crate) fn new(phrase: &[WordTerminals]) -> Phrase {
        let mut words: Vec<WordTerminals> = Vec::with_capacity(phrase.len());
        let place = |word: &WordTerminals| {
            let known = words.iter().position(|known| known.first == word.first);
            known.unwrap_or_else(|| {
                words.push(*word);
                words.len() - 1
            })
        };
        let pattern = Pattern::new(phrase.iter().map(place).collect());
        Phrase { words, pattern }
    }

    /// The step of the phrase's automaton at a token; tokens below `word_tokens` are words.
    pub(crate) fn reading(&self, token: u32, word_tokens: u32) -> WordReading {
        if token >= word_tokens {
            return WordReading::NOTHING;
        }
        let item = self.item(token);
        WordReading::new(|state| self.step(state, item))
    }

    /// The word of a token, if the phrase has it.
    fn item(&self, token: u32) -> Option<(usize, &WordTerminals)> {
        let mut words = self.words.iter().enumerate();
        words.find(|(_, word)| (word.first..word.end).contains(&token))
    }

    fn step(&self, state: usize, item: Option<(usize, &WordTerminals)>) -> (usize, bool) {
        match item {
            Some((item, _)) => self.pattern.step(state, &item),
            None => (0, false),
        }
    }
}

/// The steps of a phrase's automaton at each symbol of a grammar.
pub(crate) struct PhraseReadings {
    readings: Vec<WordReading>,
    /// The size of each symbol's expansion, if known.
    extents: Option<Vec<Extent>>,
}

/// The size of a text.
#[derive(Clone, Copy, Default)]
struct Extent {
    bytes: u64,
    words: u64,
}

impl PhraseReadings {
    /// The steps of a phrase in the bodies of a segment.
    pub(crate) fn new(phrase: &Phrase, view: GrammarView<'_>, word_tokens: u32) -> PhraseReadings {
        PhraseReadings {
            readings: readings(view, |token| phrase.reading(token, word_tokens)),
            extents: None,
        }
    }

    /// Whether the phrase is in the expansion of these symbols.
    pub(crate) fn find(&self, symbols: &[u32]) -> bool {
        WordReading::finds(&self.readings, symbols)
    }

    /// Measures expansions, so that files are not read where the phrase is not. It pays for files with more words than there are
    /// symbols.
    pub(crate) fn measure(&mut self, view: GrammarView<'_>, dictionary: &Dictionary) {
        let terminal = |token| Extent {
            bytes: dictionary.token(token).len() as u64,
            words: u64::from(token < dictionary.word_tokens()),
        };
        // A sum that saturates is longer than any file.
        let extents = fold_expansions(view, terminal, Extent::default(), |left, right| Extent {
            bytes: left.bytes.saturating_add(right.bytes),
            words: left.words.saturating_add(right.words),
        });
        self.extents = Some(extents);
    }

    /// The size of a symbol's expansion, if the phrase neither ends nor begins in it.
    fn pass_over(&self, symbol: u32, state: usize) -> Option<Extent> {
        let extents = self.extents.as_ref()?;
        let none = self.readings[symbol as usize].step(state) == (0, false);
        none.then(|| extents[symbol as usize])
    }
}

/// The contradiction between a file and the file table.
pub(crate) type Mismatch = &'static str;

impl OneFile<'_> {
    /// The count of a word.
    pub(crate) fn count(&self, word: WordTerminals) -> Result<u64, Mismatch> {
        let tokens = word.first..word.end;
        let mut count = 0;
        self.walk(|_, token| {
            count += u64::from(tokens.contains(&token));
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    /// The offsets of a word's own first bytes.
    pub(crate) fn locate(&self, word: WordTerminals) -> Result<Vec<u64>, Mismatch> {
        let tokens = word.first..word.end;
        let mut offsets = Vec::new();
        self.walk(|offset, token| {
            if tokens.contains(&token) {
                offsets.push(offset + u64::from(token >= word.spaced));
            }
            ControlFlow::Continue(())
        })?;
        Ok(offsets)
    }

    /// The positions, from 0, of a word's occurrences among all words.
    pub(crate) fn positions(&self, word: WordTerminals) -> Result<Vec<u64>, Mismatch> {
        let tokens = word.first..word.end;
        let (mut positions, mut words) = (Vec::new(), 0);
        self.walk(|_, token| {
            if tokens.contains(&token) {
                positions.push(words);
            }
            words += u64::from(token < self.dictionary.word_tokens());
            ControlFlow::Continue(())
        })?;
        Ok(positions)
    }

    /// The places of a phrase: the position of its first word, from 0, and the offset of that word's own first byte.
    pub(crate) fn phrase(
        &self,
        phrase: &Phrase,
        readings: &PhraseReadings,
    ) -> Result<Vec<(u64, u64)>, Mismatch> {
        let length = phrase.pattern.len();
        let mut places = Vec::new();
        let state = Cell::new(0);
        // The offsets of the last `length` words, by their numbers modulo `length`.
        let mut offsets = vec![0; length];
        let pass_over = |symbol| {
            let extent = readings.pass_over(symbol, state.get())?;
            state.set(0);
            Some(extent)
        };
        self.walk_past(pass_over, |at, token| {
            if token >= self.dictionary.word_tokens() {
                return ControlFlow::Continue(());
            }
            let item = phrase.item(token);
            // A word that is in no phrase begins none.
            if let Some((_, word)) = item {
                let place = at.words as usize % length;
                offsets[place] = at.bytes + u64::from(token >= word.spaced);
            }
            let (next, is_found) = phrase.step(state.get(), item);
            state.set(next);
            if is_found {
                let first = at.words + 1 - length as u64;
                places.push((first, offsets[first as usize % length]));
            }
            ControlFlow::Continue(())
        })?;
        Ok(places)
    }

    /// The words that occur, ascending, with their counts; `word_of` has the word of each token.
    pub(crate) fn word_counts(&self, word_of: &[u32]) -> Result<Vec<(u32, u64)>, Mismatch> {
        let mut words = Vec::new();
        self.walk(|_, token| {
            if token < self.dictionary.word_tokens() {
                words.push(word_of[token as usize]);
            }
            ControlFlow::Continue(())
        })?;
        words.sort_unstable();
        let same = words.chunk_by(|left, right| left == right);
        Ok(same.map(|same| (same[0], same.len() as u64)).collect())
    }

    /// The bytes from `offset` on, `length` of them or fewer where the file ends.
    pub(crate) fn extract(&self, offset: u64, length: u64) -> Result<Vec<u8>, Mismatch> {
        let end = offset.saturating_add(length).min(self.entry.bytes);
        let mut bytes = Vec::new();
        self.walk(|start, token| {
            if start >= end {
                return ControlFlow::Break(());
            }
            let token = self.dictionary.token(token);
            // The part that is cut off is less than the token.
            let from = offset.saturating_sub(start).min(token.len() as u64) as usize;
            let to = (end - start).min(token.len() as u64) as usize;
            bytes.extend_from_slice(&token[from.min(to)..to]);
            ControlFlow::Continue(())
        })?;
        Ok(bytes)
    }

    /// Calls `visit` with the offset and number of each token in order, until it breaks.
    fn walk(&self, mut visit: impl FnMut(u64, u32) -> ControlFlow<()>) -> Result<(), Mismatch> {
        self.walk_past(|_| None, |at, token| visit(at.bytes, token))
    }

    /// Calls `visit` with the place and number of each token in order, until it breaks; `pass_over` returns the size of a
    /// symbol's expansion that need not be read.
    fn walk_past(
        &self,
        pass_over: impl Fn(u32) -> Option<Extent>,
        mut visit: impl FnMut(Extent, u32) -> ControlFlow<()>,
    ) -> Result<(), Mismatch> {
        let rules = self.bodies.rules();
        let mut at = Extent::default();
        let mut stack = vec![&self.root[..]];
        while let Some(symbols) = stack.last_mut() {
            let Some((&symbol, rest)) = symbols.split_first() else {
                stack.pop();
                continue;
            };
            *symbols = rest;
            let extent = match (pass_over(symbol), symbol.checked_sub(rules.terminal_count)) {
                (Some(extent), _) => extent,
                (None, Some(rule)) => {
                    stack.push(rules.body(rule));
                    continue;
                }
                (None, None) => {
                    if visit(at, symbol).is_break() {
                        return Ok(());
                    }
                    Extent {
                        bytes: self.dictionary.token(symbol).len() as u64,
                        words: u64::from(symbol < self.dictionary.word_tokens()),
                    }
                }
            };
            at.bytes = at.bytes.saturating_add(extent.bytes);
            at.words = at.words.saturating_add(extent.words);
            if at.bytes > self.entry.bytes {
                break;
            }
        }
        if (at.bytes, at.words) == (self.entry.bytes, self.entry.words) {
            Ok(())
        } else {
            Err("the size or number of words of a file differs from its file table")
        }
    }
}
