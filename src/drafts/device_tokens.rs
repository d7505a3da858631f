//! Tokens that are cut on the CPU and numbered by a device.
//!
//! Invariant: the tokens are those that an interner would get, and the dictionary is that of all of them, sorted, so the result
//! does not depend on where they are numbered.

use crate::tokenize::{Sink, sort_distinct};
use zipfdb_kernels::gpu::{CutText, TokenCut};
use zipfdb_storage::{Dictionary, Tokenizer};

/// How the tokens of some texts are cut.
#[derive(Default)]
pub(super) struct Cuts {
    /// [`TokenCut::bits`] of each token.
    cuts: Vec<u16>,
    words: u64,
    /// Whether a token was too large for a cut.
    has_larger: bool,
}

impl Cuts {
    /// The numbers of tokens and words so far.
    pub(super) fn counts(&self) -> (usize, u64) {
        (self.cuts.len(), self.words)
    }

    /// The cuts of all tokens; none if a token was too large for a cut.
    pub(super) fn take(&mut self) -> Option<Vec<u16>> {
        let Cuts {
            mut cuts,
            has_larger,
            ..
        } = std::mem::take(self);
        cuts.shrink_to_fit();
        (!has_larger).then_some(cuts)
    }

    #[inline(always)]
    fn push(&mut self, size: usize, is_word: bool) {
        let cut = TokenCut::new(size, is_word);
        self.has_larger |= cut.is_none();
        self.cuts.push(cut.map_or(0, TokenCut::bits));
    }
}

impl Sink for Cuts {
    #[inline(always)]
    fn word(&mut self, _text: &[u8], start: usize, end: usize) {
        self.words += 1;
        self.push(end - start, true);
    }

    #[inline(always)]
    fn gap(&mut self, _text: &[u8], start: usize, end: usize) {
        self.push(end - start, false);
    }
}

/// Sorts the distinct tokens of texts, given where the texts begin and how they are cut: a dictionary, and for each token its
/// number there. Parallel on the current pool.
pub(crate) fn sorted_tokens(
    tokenizer: Tokenizer,
    texts: &[CutText<'_>],
    tokens: &[(u32, TokenCut)],
) -> (Dictionary, Vec<u32>) {
    let begins: Vec<usize> = texts
        .iter()
        .scan(0, |begin, piece| {
            let this = *begin;
            *begin += piece.text.len();
            Some(this)
        })
        .collect();
    sort_distinct(tokenizer, tokens.len(), |token| {
        let (start, cut) = tokens[token];
        let start = start as usize;
        // Empty texts share their beginning with the next one.
        let text = begins.partition_point(|&begin| begin <= start) - 1;
        let start = start - begins[text];
        let token = &texts[text].text[start..start + cut.size()];
        (token, cut.is_word())
    })
}
