//! Words of a segment: by text, by token and by number.

use zipfdb_kernels::WordTerminals;

use super::derived::WordTable;
use super::segment_view::SegmentView;
use super::word_order::WordIndex;
use crate::Result;

impl SegmentView {
    /// The tokens of a word; none if the segment does not have it.
    pub(crate) fn find_word(&self, word: &[u8]) -> Result<WordTerminals> {
        Ok(self.pin::<WordIndex>()?.find(self.dictionary()?, word))
    }

    /// The tokens of those of some words that the segment has.
    pub(crate) fn find_words(&self, words: &[&[u8]]) -> Result<Vec<WordTerminals>> {
        let found = words.iter().map(|word| self.find_word(word));
        let mut found: Vec<WordTerminals> = found.collect::<Result<_>>()?;
        found.retain(|word| word.first < word.end);
        Ok(found)
    }

    /// The word with a number below [`SegmentView::word_count`], which must have been called before.
    pub(crate) fn word(&self, number: u32) -> &[u8] {
        self.texts()(number)
    }

    /// A function from numbers to words, as [`SegmentView::word`], for many words.
    pub(crate) fn texts<'a>(&'a self) -> impl Fn(u32) -> &'a [u8] {
        let table = self.pinned::<WordTable>().expect("words have been counted");
        let dictionary = self.dictionary().expect("decoded when words were counted");
        let bytes = dictionary.bytes();
        move |number| match table.spans.get(number as usize) {
            Some(&[start, end]) => &bytes[start as usize..end as usize],
            None => dictionary.word(table.tokens[number as usize]),
        }
    }

    /// The number of a word; none if the segment does not have it.
    pub(crate) fn word_number(&self, word: &[u8]) -> Result<Option<u32>> {
        self.number_of(self.find_word(word)?)
    }

    /// The tokens of the word with a number.
    pub(crate) fn tokens_of(&self, number: u32) -> Result<WordTerminals> {
        let (table, dictionary) = (self.word_table()?, self.dictionary()?);
        let first = table.tokens[number as usize];
        let next = table.tokens.get(number as usize + 1);
        Ok(WordTerminals {
            first,
            spaced: first + u32::from(!dictionary.has_glued_space(first)),
            end: next.copied().unwrap_or(dictionary.word_tokens()),
        })
    }

    /// The number of the word with these tokens.
    pub(crate) fn number_of(&self, tokens: WordTerminals) -> Result<Option<u32>> {
        if tokens.first == tokens.end {
            return Ok(None);
        }
        Ok(Some(self.word_of()?[tokens.first as usize]))
    }
}
