//! Finding an n-gram in a suffix array, in memory or wherever its arrays can be read.

use std::cmp::Ordering;
use std::ops::Range;

/// Where the arrays of a suffix array are read, number by number.
pub trait SuffixSource {
    /// What reading may fail with.
    type Error;

    /// How many distinct words there are.
    fn words(&self) -> u32;

    /// The word at a place of the text, plus one; 0 behind the end of each file.
    fn item(&self, place: u32) -> Result<u32, Self::Error>;

    /// The place of a rank.
    fn place(&self, rank: u32) -> Result<u32, Self::Error>;

    /// The first rank of a word, or for the number of words that behind the last.
    fn first_rank(&self, word: u32) -> Result<u32, Self::Error>;
}

/// The ranks of an n-gram of at most [`NGRAM_WORDS_MAX`](crate::NGRAM_WORDS_MAX) words.
///
/// Work: O(log occurrences of the first word) places, and for each as many words as it shares.
///
/// # Errors
/// If reading fails.
pub fn find_ranks<S: SuffixSource>(source: &S, words: &[u32]) -> Result<Range<u32>, S::Error> {
    let Some((&first, rest)) = words.split_first() else {
        return Ok(0..0);
    };
    if first >= source.words() {
        return Ok(0..0);
    }
    let ranks = source.first_rank(first)?..source.first_rank(first + 1)?;
    let compare = |rank: u32| {
        let place = source.place(rank)?;
        for (distance, &word) in (1..).zip(rest) {
            // A zero is below any word, so what is behind the end of a file is never examined.
            match source
                .item(place.saturating_add(distance))?
                .cmp(&(word + 1))
            {
                Ordering::Equal => {}
                unequal => return Ok(unequal),
            }
        }
        Ok(Ordering::Equal)
    };
    let start = partition_point(ranks.clone(), |rank| Ok(compare(rank)?.is_lt()))?;
    let end = partition_point(start..ranks.end, |rank| Ok(compare(rank)?.is_eq()))?;
    Ok(start..end)
}

/// The first number of a range of which `is_before` is false; it is true of all before.
fn partition_point<E>(
    mut range: Range<u32>,
    is_before: impl Fn(u32) -> Result<bool, E>,
) -> Result<u32, E> {
    while range.start < range.end {
        let middle = range.start + (range.end - range.start) / 2;
        if is_before(middle)? {
            range.start = middle + 1;
        } else {
            range.end = middle;
        }
    }
    Ok(range.start)
}
