//! All words of a snapshot or a file with their counts, in order of word.
//!
//! The invariant: every word stands once, in dictionary order, with the sum over
//! all segments and both its tokens. Words stay where they are, in the segments'
//! dictionaries.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use rayon::prelude::*;

use super::segment_view::SegmentView;
use super::word_order::{compare, is_second_token, key};
use crate::Result;

/// A word, as the first of its tokens in a segment, and its count so far.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The word's key: tells most words apart without looking at them.
    key: u64,
    count: u64,
    segment: u32,
    token: u32,
}

/// Words with their counts, in dictionary order: by case-folded word, then word.
#[derive(Clone)]
pub struct WordCounts {
    segments: Vec<Arc<SegmentView>>,
    entries: Vec<Entry>,
}

impl WordCounts {
    /// How many different words there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no word.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Each word with its count. With tokenizer `whitespace` a word may be no UTF-8.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], u64)> {
        (self.entries.iter()).map(|entry| (self.word(entry), entry.count))
    }

    /// All counts together.
    pub fn total(&self) -> u64 {
        self.entries.iter().map(|entry| entry.count).sum()
    }

    fn word(&self, entry: &Entry) -> &[u8] {
        word(&self.segments, entry)
    }

    /// Joins the counts of word tokens of some segments, ascending by token.
    ///
    /// Work: O(words), times the logarithm of the number of segments; parallel.
    pub(crate) fn new(
        segments: &[Arc<SegmentView>],
        counts: Vec<(u32, TokenCounts<'_>)>,
    ) -> Result<WordCounts> {
        let single = counts.len() == 1;
        let lists: Vec<Vec<Entry>> = counts
            .into_par_iter()
            .map(|(segment, counts)| entries(segments, segment, counts, !single))
            .collect::<Result<_>>()?;
        Ok(WordCounts {
            segments: segments.to_vec(),
            entries: merge(segments, lists, TASK_WORDS),
        })
    }
}

impl fmt::Debug for WordCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (formatter.debug_struct("WordCounts"))
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Counts of the word tokens of a segment.
pub(crate) enum TokenCounts<'a> {
    /// Of every word token.
    All(&'a [u64]),
    /// Of those that occur, ascending.
    Some(Vec<(u32, u64)>),
}

/// The words of a segment that occur: their tokens joined.
fn entries(
    segments: &[Arc<SegmentView>],
    segment: u32,
    counts: TokenCounts<'_>,
    with_keys: bool,
) -> Result<Vec<Entry>> {
    let dictionary = segments[segment as usize].dictionary()?;
    let mut entries: Vec<Entry> = Vec::new();
    let mut add = |token: u32, count: u64| {
        // Tokens of one word are neighbours, the one without space first.
        if let Some(last) = entries.last_mut()
            && last.token + 1 == token
            && is_second_token(dictionary, token)
        {
            last.count += count;
            return;
        }
        let key = if with_keys {
            key(dictionary.word(token))
        } else {
            0
        };
        entries.push(Entry {
            key,
            count,
            segment,
            token,
        });
    };
    match counts {
        TokenCounts::All(counts) => (0..).zip(counts).for_each(|(token, &count)| {
            if count > 0 {
                add(token, count);
            }
        }),
        TokenCounts::Some(counts) => (counts.into_iter()).for_each(|(token, n)| add(token, n)),
    }
    Ok(entries)
}

fn word<'a>(segments: &'a [Arc<SegmentView>], entry: &Entry) -> &'a [u8] {
    let dictionary = segments[entry.segment as usize].dictionary();
    dictionary
        .expect("decoded when its words were counted")
        .word(entry.token)
}

fn compare_entries(segments: &[Arc<SegmentView>], left: &Entry, right: &Entry) -> Ordering {
    (left.key.cmp(&right.key)).then_with(|| compare(word(segments, left), word(segments, right)))
}

/// Words merged by one parallel task.
const TASK_WORDS: usize = 1 << 15;

/// Merges lists in order of word to one; counts of equal words are added. Cut
/// into parallel tasks of about `task_words` words of each list.
fn merge(
    segments: &[Arc<SegmentView>],
    mut lists: Vec<Vec<Entry>>,
    task_words: usize,
) -> Vec<Entry> {
    if lists.len() <= 1 {
        return lists.pop().unwrap_or_default();
    }
    // Cut all lists at the same words, every so many of the longest.
    let longest = (lists.iter().max_by_key(|list| list.len())).expect("there are two lists");
    let cuts: Vec<Entry> = longest
        .iter()
        .step_by(task_words)
        .skip(1)
        .copied()
        .collect();
    let ranges: Vec<Vec<Entry>> = (0..=cuts.len())
        .into_par_iter()
        .map(|range| {
            let before = |cut: usize, list: &[Entry]| {
                list.partition_point(|entry| compare_entries(segments, entry, &cuts[cut]).is_lt())
            };
            let mut parts: Vec<Vec<Entry>> = (lists.iter())
                .map(|list| {
                    let from = if range == 0 {
                        0
                    } else {
                        before(range - 1, list)
                    };
                    let to = if range == cuts.len() {
                        list.len()
                    } else {
                        before(range, list)
                    };
                    list[from..to].to_vec()
                })
                .collect();
            while parts.len() > 1 {
                parts = (parts.chunks(2))
                    .map(|pair| match pair {
                        [left, right] => merge_two(segments, left, right),
                        _ => pair[0].clone(),
                    })
                    .collect();
            }
            parts.swap_remove(0)
        })
        .collect();
    ranges.concat()
}

fn merge_two(segments: &[Arc<SegmentView>], left: &[Entry], right: &[Entry]) -> Vec<Entry> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left, right);
    while let ([first, left_rest @ ..], [second, right_rest @ ..]) = (left, right) {
        match compare_entries(segments, first, second) {
            Ordering::Less => {
                merged.push(*first);
                left = left_rest;
            }
            Ordering::Greater => {
                merged.push(*second);
                right = right_rest;
            }
            Ordering::Equal => {
                merged.push(Entry {
                    count: first.count + second.count,
                    ..*first
                });
                (left, right) = (left_rest, right_rest);
            }
        }
    }
    merged.extend_from_slice(left);
    merged.extend_from_slice(right);
    merged
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use zipfdb_storage::{Dictionary, Grammar};

    fn segment(words: &[&str]) -> Arc<SegmentView> {
        let (mut offsets, mut bytes) = (vec![0], Vec::new());
        for word in words {
            bytes.extend_from_slice(word.as_bytes());
            offsets.push(bytes.len() as u64);
        }
        let dictionary = Dictionary::new(offsets, bytes, words.len() as u32, Vec::new());
        let grammar = Grammar::default();
        Arc::new(SegmentView::in_memory(0, Vec::new(), dictionary, grammar))
    }

    #[test]
    fn merging_is_the_same_however_it_is_cut() {
        let segments = [
            segment(&["a", " a", "A", "b", "internationalA", "internationalb", "z"]),
            segment(&[" a", "B", "internationalb"]),
            segment(&[]),
            segment(&["A", "\u{e9}", "\u{c9}a"]),
        ];
        let expected: [(&str, u64); 9] = [
            ("A", 2),
            ("a", 3),
            ("B", 1),
            ("b", 1),
            ("internationalA", 1),
            ("internationalb", 2),
            ("z", 1),
            ("\u{e9}", 1),
            ("\u{c9}a", 1),
        ];
        for task_words in 1..8 {
            let lists = (0..4).map(|number| {
                let words = segments[number as usize]
                    .dictionary()
                    .unwrap()
                    .word_tokens();
                let ones = vec![1; words as usize];
                let mut list = entries(&segments, number, TokenCounts::All(&ones), true).unwrap();
                list.sort_by(|left, right| compare_entries(&segments, left, right));
                list
            });
            let counts = WordCounts {
                segments: segments.to_vec(),
                entries: merge(&segments, lists.collect(), task_words),
            };
            let found = counts
                .iter()
                .map(|(word, n)| (std::str::from_utf8(word).unwrap(), n));
            assert_eq!(found.collect::<Vec<_>>(), expected);
        }
    }
}
