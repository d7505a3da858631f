//! A digest of an answer: enough to compare two answers without keeping either.
//!
//! The invariant: equal answers have equal sums whatever the order of their rows and the numbers of their words, since
//! words count by their bytes. Order within a row counts, and that of [`Answer::of_sequence`].

use std::hash::{DefaultHasher, Hasher};

use serde::{Deserialize, Serialize};

/// Sums over the rows of an answer.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Answer {
    rows: u64,
    /// All counts together.
    total: u64,
    /// Wrapping sum of a hash of each row.
    digest: u64,
}

impl Answer {
    /// The answer of words with their counts, in any order.
    pub fn of_words<'a>(words: impl Iterator<Item = (&'a [u8], u64)>) -> Answer {
        let mut answer = Answer::default();
        for (word, count) in words {
            answer.add([word].into_iter(), [(0, count)].into_iter());
        }
        answer
    }

    /// The answer of words with their counts, in this order.
    pub fn of_sequence<'a>(words: impl Iterator<Item = (&'a [u8], u64)>) -> Answer {
        let mut answer = Answer::default();
        for (index, (word, count)) in words.enumerate() {
            answer.add([word].into_iter(), [(index as u64, count)].into_iter());
        }
        answer
    }

    /// Adds the row of some words or of none, with what belongs to it, files or words by number, and counts.
    pub fn add<'a>(
        &mut self,
        words: impl Iterator<Item = &'a [u8]>,
        entries: impl Iterator<Item = (u64, u64)>,
    ) {
        let mut hasher = DefaultHasher::new();
        for word in words {
            hasher.write_usize(word.len());
            hasher.write(word);
        }
        for (number, count) in entries {
            hasher.write_u64(number);
            hasher.write_u64(count);
            self.total += count;
        }
        self.rows += 1;
        self.digest = self.digest.wrapping_add(hasher.finish());
    }
}
