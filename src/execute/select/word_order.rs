//! Whether texts of a dictionary compare as the places of their words in order of bytes.
//!
//! Invariant: where it says so, comparing places is comparing values by BINARY, for words alone or for n-grams word by word.

use rayon::prelude::*;

use crate::Result;
use crate::batch::TextDictionary;
use crate::runtime::interrupt::{Interrupt, check};

/// Words that one task looks at, at least.
const TASK_WORDS: usize = 1 << 12;

/// Whether the order of words is that of their places by bytes, which are there then. BLOBs come after texts whatever their
/// bytes; a byte up to that of the space between the words of an n-gram would come before it.
pub(super) fn orders_by_ranks(
    dictionary: &TextDictionary,
    in_ngrams: bool,
    interrupt: &Interrupt,
) -> Result<bool> {
    if dictionary.is_of_files() {
        // Files are numbered in order of their names.
        return Ok(true);
    }
    let words = dictionary.clone();
    interrupt.apart(dictionary.view().pool(), move |stop| {
        words.byte_ranks();
        let is_plain = |number: u32| {
            let word = words.bytes(number);
            std::str::from_utf8(word).is_ok()
                && !(in_ngrams && word.iter().any(|&byte| byte <= b' '))
        };
        check(stop)?;
        // Numbers are u32.
        let numbers = (0..words.len() as u32).into_par_iter();
        Ok(numbers.with_min_len(TASK_WORDS).all(is_plain))
    })
}
