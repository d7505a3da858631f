//! The dictionary of a segment: token id to bytes.
//!
//! Word tokens come first, in dictionary order, then gap tokens in byte order. The order itself is the tokenizer's
//! business (it needs case folding); here it only decides how well the bytes compress.

use crate::segment::coding::{NoMemory, filled, reserved};
use rayon::prelude::*;

/// Tokens that one task examines, at least.
const TASK_TOKENS: usize = 1 << 12;

/// The tokens of a segment, by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dictionary {
    /// `[tokens + 1]`, from 0, never falling, ends at `bytes.len()`.
    offsets: Vec<u64>,
    bytes: Vec<u8>,
    /// Tokens below this are word tokens.
    word_tokens: u32,
    /// The word tokens, ascending, whose word starts with a space itself: UAX #29 lets a mark join the space before it.
    own_spaces: Vec<u32>,
}

impl Default for Dictionary {
    fn default() -> Dictionary {
        Dictionary {
            offsets: vec![0],
            bytes: Vec::new(),
            word_tokens: 0,
            own_spaces: Vec::new(),
        }
    }
}

impl Dictionary {
    /// Takes token `id` as `bytes[offsets[id]..offsets[id + 1]]`; ids below `word_tokens` are word tokens, and
    /// those in `own_spaces` start with a space that belongs to the word.
    ///
    /// # Panics
    /// If the offsets do not divide the bytes into at most `u32::MAX` tokens that are not empty, or there are fewer
    /// than `word_tokens` of them.
    pub fn new(
        offsets: Vec<u64>,
        bytes: Vec<u8>,
        word_tokens: u32,
        own_spaces: Vec<u32>,
    ) -> Dictionary {
        assert_eq!(offsets.first(), Some(&0), "token offsets start at 0");
        assert_eq!(
            offsets.last(),
            Some(&(bytes.len() as u64)),
            "token offsets end where the bytes end"
        );
        assert!(
            offsets.windows(2).all(|pair| pair[0] < pair[1]),
            "no token is empty"
        );
        assert!(
            u32::try_from(offsets.len() - 1).is_ok_and(|tokens| word_tokens <= tokens),
            "token ids fit 32 bits"
        );
        assert!(
            own_spaces.is_sorted() && own_spaces.last().is_none_or(|id| *id < word_tokens),
            "only words have spaces of their own"
        );
        Dictionary {
            offsets,
            bytes,
            word_tokens,
            own_spaces,
        }
    }

    /// Bytes of memory that it takes.
    pub fn memory(&self) -> usize {
        size_of_val(&*self.offsets) + self.bytes.len() + size_of_val(&*self.own_spaces)
    }

    /// Where each token begins in [`Dictionary::bytes`], and where the last one ends: `[tokens + 1]`.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// All tokens, one after the other.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many tokens there are.
    pub fn len(&self) -> u32 {
        // Bounded in `new`.
        (self.offsets.len() - 1) as u32
    }

    /// Whether there is no token.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of the tokens, the first ones, are word tokens.
    pub fn word_tokens(&self) -> u32 {
        self.word_tokens
    }

    /// The bytes of token `id`.
    ///
    /// # Panics
    /// If there is no such token.
    pub fn token(&self, id: u32) -> &[u8] {
        let id = id as usize;
        &self.bytes[self.offsets[id] as usize..self.offsets[id + 1] as usize]
    }

    /// The word of word token `id`: its bytes without the space that may stand before them.
    ///
    /// # Panics
    /// If there is no such token or it is a gap token.
    pub fn word(&self, id: u32) -> &[u8] {
        assert!(id < self.word_tokens, "token {id} is a gap token");
        &self.token(id)[usize::from(self.has_glued_space(id))..]
    }

    /// Whether word token `id` is its word with a space before it.
    ///
    /// # Panics
    /// If there is no such token.
    pub fn has_glued_space(&self, id: u32) -> bool {
        self.token(id)[0] == b' ' && self.own_spaces.binary_search(&id).is_err()
    }

    /// Whether word token `id` has the same word as the token before it: that is the word alone, and `id` the word with
    /// a space.
    ///
    /// # Panics
    /// If there is no such token.
    pub fn is_second_token(&self, id: u32) -> bool {
        id > 0
            && self.token(id).strip_prefix(b" ") == Some(self.token(id - 1))
            && self.has_glued_space(id)
    }

    /// `[words + 1]`: the tokens of word `w` are `word_offsets[w]..word_offsets[w + 1]`. Parallel on the current pool.
    pub fn word_offsets(&self) -> Vec<u32> {
        let mut is_second = vec![false; self.word_tokens as usize];
        self.find_second_tokens(&mut is_second);
        first_tokens(&is_second).collect()
    }

    /// As [`Dictionary::word_offsets`], unless the system has no memory for them.
    pub(crate) fn try_word_offsets(&self) -> Result<Vec<u32>, NoMemory> {
        let mut is_second = filled(false, self.word_tokens as usize)?;
        self.find_second_tokens(&mut is_second);
        let mut offsets = reserved(first_tokens(&is_second).count())?;
        offsets.extend(first_tokens(&is_second));
        Ok(offsets)
    }

    fn find_second_tokens(&self, is_second: &mut [bool]) {
        let tokens = (0..self.word_tokens)
            .into_par_iter()
            .with_min_len(TASK_TOKENS);
        (is_second.par_iter_mut().zip(tokens))
            .for_each(|(is_second, token)| *is_second = self.is_second_token(token));
    }

    /// The word tokens, ascending, whose word starts with a space itself.
    pub fn own_spaces(&self) -> &[u32] {
        &self.own_spaces
    }

    /// All tokens in order of id.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.offsets
            .windows(2)
            .map(|pair| &self.bytes[pair[0] as usize..pair[1] as usize])
    }
}

/// The first tokens of words, and the number of word tokens.
fn first_tokens(is_second: &[bool]) -> impl Iterator<Item = u32> {
    let firsts = (0..).zip(is_second).filter(|(_, is_second)| !**is_second);
    let firsts = firsts.map(|(token, _)| token);
    firsts.chain([is_second.len() as u32]) // at most the tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_its_token_without_the_space() {
        let dictionary = Dictionary::new(vec![0, 3, 7, 9], b"the the, ".to_vec(), 2, Vec::new());
        assert_eq!(dictionary.len(), 3);
        assert_eq!(dictionary.token(1), b" the");
        assert_eq!(dictionary.word(1), b"the");
        assert_eq!(dictionary.word(0), b"the");
        assert_eq!(dictionary.token(2), b", ");
        assert_eq!(
            dictionary.iter().collect::<Vec<_>>(),
            [&b"the"[..], b" the", b", "]
        );
        assert!(Dictionary::default().is_empty());
    }

    #[test]
    fn a_word_has_the_token_without_and_the_one_with_a_space() {
        // Of the last word only the token with a space, and before it a word that begins with a space of its own.
        let bytes = b"a ab b \xcc\x80 d".to_vec();
        let dictionary = Dictionary::new(vec![0, 1, 3, 4, 6, 9, 11], bytes, 6, vec![4]);
        assert_eq!(dictionary.word_offsets(), [0, 2, 4, 5, 6]);
        assert_eq!(Dictionary::default().word_offsets(), [0]);
    }

    #[test]
    #[should_panic(expected = "no token is empty")]
    fn an_empty_token_is_refused() {
        Dictionary::new(vec![0, 0], Vec::new(), 0, Vec::new());
    }
}
