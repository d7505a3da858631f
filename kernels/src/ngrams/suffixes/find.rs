//! Finding phrases in a suffix array, in memory or wherever its arrays can be read.
//!
//! Invariant: answers are the same for an order of eight words and for one of all words; the latter reads O(log places) of them for a
//! phrase of any length. Nothing is known of places that edits broke.

use std::cmp::Ordering;
use std::ops::Range;

use crate::ngrams::windows::NGRAM_WORDS_MAX;

/// Whether the places of a phrase of some words are neighbours in the order.
fn is_ordered<S: SuffixSource>(source: &S, words: usize) -> bool {
    words <= NGRAM_WORDS_MAX || source.is_fully_ordered()
}

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

    /// Whether all words behind places order them, to the ends of their files; otherwise [`NGRAM_WORDS_MAX`] words do, and equal ones
    /// ascend.
    fn is_fully_ordered(&self) -> bool;

    /// The first rank of a word, or for the number of words that behind the last.
    fn first_rank(&self, word: u32) -> Result<u32, Self::Error>;
}

/// The ranks of a phrase of at most [`NGRAM_WORDS_MAX`] words, or of any length in an order of all words.
///
/// Work: O(log occurrences of the first word) places, and for each as many words as it shares.
///
/// # Errors
/// If reading fails.
pub fn find_ranks<S: SuffixSource>(source: &S, words: &[u32]) -> Result<Range<u32>, S::Error> {
    let Some(&first) = words.first() else {
        return Ok(0..0);
    };
    if words.iter().any(|&word| word >= source.words()) {
        return Ok(0..0);
    }
    let ranks = source.first_rank(first)?..source.first_rank(first + 1)?;
    let order = |rank: u32| Ok(compare(source, source.place(rank)?, words)?.1);
    let start = partition_point(ranks.clone(), |rank| Ok(order(rank)?.is_lt()))?;
    let end = partition_point(start..ranks.end, |rank| Ok(order(rank)?.is_eq()))?;
    Ok(start..end)
}

/// The ranks of a phrase of any length; none if its places are no neighbours in the order.
///
/// Work: two binary searches in the ranks of the first word, each comparison as long as the common beginning.
///
/// # Errors
/// If reading fails.
pub fn find_ordered<S: SuffixSource>(
    source: &S,
    words: &[u32],
) -> Result<Option<Range<u32>>, S::Error> {
    is_ordered(source, words.len())
        .then(|| find_ranks(source, words))
        .transpose()
}

/// How often a phrase of any length occurs.
///
/// Work: as [`find_places`], without reading the places in order.
///
/// # Errors
/// If reading fails.
pub fn count_places<S: SuffixSource>(source: &S, words: &[u32]) -> Result<u64, S::Error> {
    if let Some(ranks) = find_ordered(source, words)? {
        return Ok(u64::from(ranks.end - ranks.start));
    }
    Ok(find_places(source, words)?.len() as u64)
}

/// The places of a phrase of any length.
///
/// Work: as [`find_ordered`]; in an order of eight words a comparison for each place of the first eight.
///
/// # Errors
/// If reading fails.
pub fn find_places<S: SuffixSource>(source: &S, words: &[u32]) -> Result<Vec<u32>, S::Error> {
    if words.iter().any(|&word| word >= source.words()) {
        return Ok(Vec::new());
    }
    let is_ordered = is_ordered(source, words.len());
    let head = if is_ordered {
        words
    } else {
        &words[..NGRAM_WORDS_MAX]
    };
    let mut found = Vec::new();
    for rank in find_ranks(source, head)? {
        let place = source.place(rank)?;
        if is_ordered || compare(source, place, words)?.1.is_eq() {
            found.push(place);
        }
    }
    Ok(found)
}

/// The words that stand behind a phrase of at least one word, ascending, with how often.
///
/// Work: as [`find_ordered`], for the phrase and for each of these words; if fewer words order places than the phrase has, as [`find_places`].
///
/// # Errors
/// If reading fails.
pub fn find_next_words<S: SuffixSource>(
    source: &S,
    words: &[u32],
) -> Result<Vec<(u32, u64)>, S::Error> {
    // A phrase has fewer words than a u32 counts.
    let behind = |place: u32| source.item(place.saturating_add(words.len() as u32));
    let mut next = Vec::new();
    if !is_ordered(source, words.len() + 1) {
        let places = find_places(source, words)?.into_iter();
        let mut items = places.map(behind).collect::<Result<Vec<u32>, S::Error>>()?;
        items.sort_unstable();
        let runs = items.chunk_by(|left, right| left == right);
        let words = runs.filter(|run| run[0] > 0);
        next.extend(words.map(|run| (run[0] - 1, run.len() as u64)));
        return Ok(next);
    }
    let ranks = find_ranks(source, words)?;
    let mut start = ranks.start;
    while start < ranks.end {
        let item = behind(source.place(start)?)?;
        let is_same = |rank: u32| Ok(behind(source.place(rank)?)? == item);
        let (mut known, mut step) = (start, 1);
        while known + step < ranks.end && is_same(known + step)? {
            known += step;
            step = step.saturating_mul(2).min(ranks.end - known);
        }
        let end = partition_point(known + 1..ranks.end.min(known + step), is_same)?;
        // A zero is the end of a file.
        next.extend((item > 0).then(|| (item - 1, u64::from(end - start))));
        start = end;
    }
    Ok(next)
}

/// The longest beginning of some words that occurs, by its length, and a place of it; none if the first word does not occur. All words
/// must order places.
///
/// Work: as [`find_ordered`].
///
/// # Errors
/// If reading fails.
pub fn find_longest<S: SuffixSource>(
    source: &S,
    words: &[u32],
) -> Result<Option<(usize, u32)>, S::Error> {
    let known = words.iter().take_while(|&&word| word < source.words());
    let words = &words[..known.count()];
    let Some(&first) = words.first() else {
        return Ok(None);
    };
    let ranks = source.first_rank(first)?..source.first_rank(first + 1)?;
    let shared = |rank: u32| {
        let place = source.place(rank)?;
        Ok((compare(source, place, words)?, place))
    };
    let behind = partition_point(ranks.clone(), |rank| Ok(shared(rank)?.0.1.is_lt()))?;
    // What is further away in the order shares no more.
    let mut best = None;
    for rank in behind.saturating_sub(1).max(ranks.start)..ranks.end.min(behind.saturating_add(1)) {
        let ((length, _), place) = shared(rank)?;
        if best.is_none_or(|(longest, _)| longest < length) {
            best = Some((length, place));
        }
    }
    Ok(best)
}

/// How many of some words stand at a place of the first of them, and how what stands there compares.
fn compare<S: SuffixSource>(
    source: &S,
    place: u32,
    words: &[u32],
) -> Result<(usize, Ordering), S::Error> {
    for (distance, &word) in (1..).zip(&words[1..]) {
        // A zero is below any word, so what is behind the end of a file is never examined.
        let item = source.item(place.saturating_add(distance))?;
        let order = item.cmp(&(word + 1));
        if order.is_ne() {
            return Ok((distance as usize, order));
        }
    }
    Ok((words.len(), Ordering::Equal))
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
