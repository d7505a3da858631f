//! Words to tokens: which word gets the space before it, and where gaps are cut.

/// Longest gap token; a longer gap becomes several.
pub const GAP_BYTES_MAX: usize = 64;

/// Takes the tokens of a text, in order.
pub trait Sink {
    /// Whether the sink needs only the number of words: it then gets counts of several words, and no gaps.
    const COUNTS_ONLY: bool = false;

    /// Takes `count` words that are only counted.
    #[inline(always)]
    fn more_words(&mut self, _count: u64) {}

    /// Takes the word token `text[start..end]`, its space included.
    fn word(&mut self, text: &[u8], start: usize, end: usize);

    /// Takes the gap token `text[start..end]`.
    fn gap(&mut self, text: &[u8], start: usize, end: usize);
}

/// Turns the words that a tokenizer finds into tokens: a word gets its space, and gaps are filled.
pub(super) struct Cutter<'a, S> {
    pub(super) text: &'a [u8],
    /// The end of the last token.
    pub(super) cursor: usize,
    pub(super) sink: &'a mut S,
}

impl<S: Sink> Cutter<'_, S> {
    /// Takes the word `text[start..end]`, which is not empty and starts at or after the last one's end.
    #[inline(always)]
    pub(super) fn word(&mut self, start: usize, end: usize) {
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
    pub(super) fn gap_to(&mut self, end: usize) {
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
