//! Finding an n-gram in a suffix array, in memory or wherever its arrays can be read.

use std::cmp::Ordering;
use std::ops::Range;

use crate::ngrams::windows::NGRAM_WORDS_MAX;

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

/// The ranks of an n-gram of at most [`NGRAM_WORDS_MAX`] words.
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

/// The places of a phrase of any length: those of its first words, at most [`NGRAM_WORDS_MAX`], that the
/// rest follows.
///
/// Work: as [`find_ranks`], and a comparison for each place of the first words.
///
/// # Errors
/// If reading fails.
pub fn find_places<S: SuffixSource>(source: &S, words: &[u32]) -> Result<Vec<u32>, S::Error> {
    let (first, rest) = words.split_at(words.len().min(NGRAM_WORDS_MAX));
    let mut found = Vec::new();
    if rest.iter().any(|&word| word >= source.words()) {
        return Ok(found);
    }
    'ranks: for rank in find_ranks(source, first)? {
        let place = source.place(rank)?;
        for (distance, &word) in (NGRAM_WORDS_MAX as u32..).zip(rest) {
            // A zero stands behind the end of a file, so what comes after it is never examined.
            if source.item(place.saturating_add(distance))? != word + 1 {
                continue 'ranks;
            }
        }
        found.push(place);
    }
    Ok(found)
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
