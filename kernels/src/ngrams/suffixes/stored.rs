//! A suffix array as an index stores it, and read back whole.
//!
//! The invariant: what is read back is what was stored, or nothing: arrays that contradict each other are refused.

use rayon::prelude::*;

use super::{DEPTH, WordSuffixes, files_of};
use crate::memory::huge_pages::on_huge_pages;

/// The arrays that a suffix array is stored as, without the places: [`LongSuffixes::ranked_places`](crate::LongSuffixes::ranked_places) has them.
#[derive(Clone, Copy, Debug)]
pub struct SuffixArrays<'a> {
    /// The words of all files, each plus one, and a zero behind every file.
    pub text: &'a [u32],
    /// `[distinct words + 1]`: the first rank of each word.
    pub word_offsets: &'a [u32],
    /// For each rank in the low four bits how many words its place shares with the one before.
    pub shared: &'a [u8],
}

impl WordSuffixes {
    /// The arrays to store.
    pub fn arrays(&self) -> SuffixArrays<'_> {
        SuffixArrays {
            text: &self.text,
            word_offsets: &self.word_offsets,
            shared: &self.shared,
        }
    }

    /// Builds a suffix array of a segment with `files` files from stored arrays, of which `shared` has values in its low four bits;
    /// all words order the places if `is_fully_ordered`. None if the arrays contradict each other.
    ///
    /// Work: O(words), a read of the text for each.
    pub fn of_arrays(
        files: usize,
        text: Vec<u32>,
        places: Vec<u32>,
        word_offsets: Vec<u32>,
        mut shared: Vec<u8>,
        is_fully_ordered: bool,
    ) -> Option<WordSuffixes> {
        let ends = (text.par_iter().enumerate()).filter(|&(_, &word)| word == 0);
        // Places are u32.
        let ends: Vec<u32> = ends.map(|(place, _)| place as u32 + 1).collect();
        let file_offsets: Vec<u32> = std::iter::once(0).chain(ends).collect();
        let is_consistent = u32::try_from(text.len()).is_ok()
            && file_offsets.len() - 1 == files
            && file_offsets.last().copied() == Some(text.len() as u32)
            && places.len() + files == text.len()
            && shared.len() == places.len()
            && word_offsets.first() == Some(&0)
            && word_offsets.last().copied() == Some(places.len() as u32)
            && word_offsets.is_sorted();
        if !is_consistent {
            return None;
        }
        let files = files_of(&file_offsets, text.len());
        let suffixes = WordSuffixes {
            text: on_huge_pages(text),
            places: on_huge_pages(places),
            shared: Vec::new(),
            word_offsets,
            file_offsets,
            files,
            is_fully_ordered,
        };
        let short = suffixes.short_places();
        let length = suffixes.text.len();
        (shared.par_iter_mut().zip(&suffixes.places)).try_for_each(|(shared, &place)| {
            let length = match short.get(place) {
                _ if place as usize >= length => return None,
                0 => DEPTH,
                // The end of a file is no place of a word.
                _ => Some(suffixes.window_length(place)).filter(|&length| length > 0)?,
            };
            // Neither is above `DEPTH`.
            *shared = (length << 4) as u8 | (*shared & 15).min(length as u8);
            Some(())
        })?;
        Some(WordSuffixes {
            shared: on_huge_pages(shared),
            ..suffixes
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::test_grammars;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn stored_arrays_come_back_and_others_are_refused() {
        for grammar in test_grammars::random_many(40).chain([test_grammars::repeated_text(3)]) {
            let words = grammar.word_grammar();
            let stop = AtomicBool::new(false);
            let made = WordSuffixes::new(words.view(), words.weights(), 1 << 20, &stop);
            let suffixes = made.expect("not stopped");
            let SuffixArrays {
                text,
                word_offsets,
                shared,
            } = suffixes.arrays();
            let places = &suffixes.places[..];
            let low = || shared.iter().map(|byte| byte & 15).collect();
            let read = |text: &[u32], places: &[u32], word_offsets: &[u32]| {
                let [text, places, word_offsets] = [text, places, word_offsets].map(<[_]>::to_vec);
                let files = words.view().files();
                WordSuffixes::of_arrays(files, text, places, word_offsets, low(), false)
            };
            assert_eq!(read(text, places, word_offsets).as_ref(), Some(&suffixes));
            let changed = |array: &[u32], at: usize, number: u32| {
                let mut array = array.to_vec();
                array[at] = number;
                array
            };
            for at in 0..places.len().min(50) {
                for number in [u32::MAX, text.len() as u32, text.len() as u32 - 1] {
                    assert_eq!(read(text, &changed(places, at, number), word_offsets), None);
                }
            }
            for at in 0..text.len().min(50) {
                let number = if text[at] == 0 { 1 } else { 0 };
                assert_eq!(read(&changed(text, at, number), places, word_offsets), None);
            }
            let more = changed(
                word_offsets,
                word_offsets.len() - 1,
                places.len() as u32 + 1,
            );
            assert_eq!(read(text, places, &more), None);
            assert_eq!(read(text, places, &[]), None);
            if let Some((_, fewer)) = text.split_last() {
                assert_eq!(read(fewer, places, word_offsets), None);
            }
        }
    }
}
