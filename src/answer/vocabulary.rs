//! All words of a corpus, numbered.
//!
//! The invariant: numbers follow dictionary order (case-folded word, then word), each word has one, and within a segment
//! the numbers of its words ascend with its own. Words stay where they are, in the segments' dictionaries.

use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use crate::Result;
use crate::segment::word_order::{compare, key};
use crate::segment::{LiveSegment, SegmentView};

/// A word as a segment has it.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The word's key: tells most words apart without looking at them.
    key: u64,
    segment: u32,
    /// Its number in the segment.
    word: u32,
}

/// Words of the segments of a corpus, whose dictionaries it pins.
pub(crate) struct Vocabulary {
    segments: Vec<SegmentView>,
    /// Each word once, in a segment that has it. Empty if there is at most one segment, whose numbers are then used.
    words: Vec<(u32, u32)>,
    /// For each segment the numbers of its words; empty likewise.
    numbers: Vec<Vec<u32>>,
    /// Words in order of their bytes, and the place of each in it.
    byte_order: OnceLock<(Vec<u32>, Vec<u32>)>,
}

impl Vocabulary {
    /// Merges the dictionaries of all segments.
    ///
    /// Work: O(words), times the logarithm of the number of segments; parallel. Nothing for one segment.
    pub(crate) fn new(segments: &[Arc<LiveSegment>]) -> Result<Vocabulary> {
        let mut vocabulary = Vocabulary {
            segments: segments.iter().map(SegmentView::of).collect(),
            words: Vec::new(),
            numbers: Vec::new(),
            byte_order: OnceLock::new(),
        };
        let counts: Vec<u32> = (vocabulary.segments.par_iter())
            .map(|segment| segment.word_count())
            .collect::<Result<_>>()?;
        if segments.len() <= 1 {
            return Ok(vocabulary);
        }
        let lists = (0..).zip(&counts).collect::<Vec<(u32, _)>>();
        let lists = lists.into_par_iter().map(|(segment, &count)| {
            let view = &vocabulary.segments[segment as usize];
            let entry = |word| Entry {
                key: key(view.word(word)),
                segment,
                word,
            };
            (0..count).map(entry).collect()
        });
        let merged = vocabulary.merge(lists.collect(), TASK_WORDS);
        let mut numbers: Vec<Vec<u32>> = counts.iter().map(|&n| vec![0; n as usize]).collect();
        let mut last: Option<&Entry> = None;
        for entry in &merged {
            if last.is_none_or(|last| vocabulary.compare(last, entry).is_ne()) {
                vocabulary.words.push((entry.segment, entry.word));
            }
            // Fewer than there are tokens in all segments of a corpus that fits in memory.
            numbers[entry.segment as usize][entry.word as usize] =
                vocabulary.words.len() as u32 - 1;
            last = Some(entry);
        }
        vocabulary.numbers = numbers;
        Ok(vocabulary)
    }

    /// Bytes of memory that it takes, what it pins not counted.
    pub(crate) fn bytes(&self) -> usize {
        let numbers = self.numbers.iter().map(|numbers| size_of_val(&numbers[..]));
        // The order by bytes comes later, if at all.
        let order = 2 * size_of::<u32>() * self.len();
        size_of_val(&self.words[..]) + numbers.sum::<usize>() + order
    }

    /// How many words there are.
    pub(crate) fn len(&self) -> usize {
        match &self.segments[..] {
            [] => 0,
            [segment] => segment
                .word_count()
                .expect("counted when the vocabulary was made") as usize,
            _ => self.words.len(),
        }
    }

    /// The word with a number.
    pub(crate) fn word(&self, number: u32) -> &[u8] {
        match &self.segments[..] {
            [segment] => segment.word(number),
            segments => {
                let (segment, word) = self.words[number as usize];
                segments[segment as usize].word(word)
            }
        }
    }

    /// Gives words by their numbers, for whoever wants many.
    pub(crate) fn texts<'a>(&'a self) -> impl Fn(u32) -> &'a [u8] {
        let only = match &self.segments[..] {
            [segment] => Some(segment.texts()),
            _ => None,
        };
        move |number| match &only {
            Some(text) => text(number),
            None => self.word(number),
        }
    }

    /// The numbers of a segment's words; none if they are the segment's own.
    pub(crate) fn numbers(&self, segment: usize) -> Option<&[u32]> {
        self.numbers.get(segment).map(Vec::as_slice)
    }

    /// The number of a word that a segment has.
    pub(crate) fn number(&self, segment: usize, word: u32) -> u32 {
        self.numbers(segment)
            .map_or(word, |numbers| numbers[word as usize])
    }

    /// The number of `word`, if a segment has it.
    pub(crate) fn find(&self, word: &[u8]) -> Result<Option<u32>> {
        for (index, segment) in self.segments.iter().enumerate() {
            if let Some(found) = segment.word_number(word)? {
                return Ok(Some(self.number(index, found)));
            }
        }
        Ok(None)
    }

    /// As `byte_order`, if that was asked for before.
    pub(crate) fn known_byte_order(&self) -> Option<&(Vec<u32>, Vec<u32>)> {
        self.byte_order.get()
    }

    /// All words in order of their bytes, and the place of each in it.
    pub(crate) fn byte_order(&self) -> &(Vec<u32>, Vec<u32>) {
        if let Some(known) = self.byte_order.get() {
            return known;
        }
        // Without a lock: see `segment_view`. Numbers are u32.
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.par_sort_unstable_by(|&left, &right| self.word(left).cmp(self.word(right)));
        let mut ranks = vec![0; order.len()];
        for (rank, &word) in (0..).zip(&order) {
            ranks[word as usize] = rank;
        }
        self.byte_order.get_or_init(|| (order, ranks))
    }

    fn entry_word(&self, entry: &Entry) -> &[u8] {
        self.segments[entry.segment as usize].word(entry.word)
    }

    fn compare(&self, left: &Entry, right: &Entry) -> Ordering {
        (left.key.cmp(&right.key))
            .then_with(|| compare(self.entry_word(left), self.entry_word(right)))
    }

    /// Merges sorted lists, cut into parallel tasks of about `task_words` words of the longest.
    fn merge(&self, lists: Vec<Vec<Entry>>, task_words: usize) -> Vec<Entry> {
        let Some(longest) = lists.iter().max_by_key(|list| list.len()) else {
            return Vec::new();
        };
        let cuts: Vec<Entry> = (longest.iter().step_by(task_words).skip(1))
            .copied()
            .collect();
        let before = |cut: usize, list: &[Entry]| match cuts.get(cut) {
            Some(cut) => list.partition_point(|entry| self.compare(entry, cut).is_lt()),
            None => list.len(),
        };
        let ranges: Vec<Vec<Entry>> = (0..=cuts.len())
            .into_par_iter()
            .map(|range| {
                let parts = lists.iter().map(|list| {
                    let from = range.checked_sub(1).map_or(0, |cut| before(cut, list));
                    list[from..before(range, list)].to_vec()
                });
                let mut parts: Vec<Vec<Entry>> = parts.collect();
                while parts.len() > 1 {
                    let pairs = parts.chunks(2);
                    parts = pairs
                        .map(|pair| match pair {
                            [left, right] => self.merge_two(left, right),
                            _ => pair[0].clone(),
                        })
                        .collect();
                }
                parts.swap_remove(0)
            })
            .collect();
        ranges.concat()
    }

    fn merge_two(&self, mut left: &[Entry], mut right: &[Entry]) -> Vec<Entry> {
        let mut merged = Vec::with_capacity(left.len() + right.len());
        while let ([first, left_rest @ ..], [second, right_rest @ ..]) = (left, right) {
            if self.compare(first, second).is_le() {
                merged.push(*first);
                left = left_rest;
            } else {
                merged.push(*second);
                right = right_rest;
            }
        }
        merged.extend_from_slice(left);
        merged.extend_from_slice(right);
        merged
    }
}

/// Words merged by one parallel task.
const TASK_WORDS: usize = 1 << 15;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use zipfdb_storage::{Dictionary, Grammar};

    fn segment(tokens: &[&str]) -> Arc<LiveSegment> {
        let (mut offsets, mut bytes) = (vec![0], Vec::new());
        for token in tokens {
            bytes.extend_from_slice(token.as_bytes());
            offsets.push(bytes.len() as u64);
        }
        let count = tokens.len() as u32;
        let dictionary = Dictionary::new(offsets, bytes, count, Vec::new());
        let grammar = Grammar {
            terminal_count: count,
            ..Grammar::default()
        };
        Arc::new(LiveSegment::in_memory(0, Vec::new(), dictionary, grammar))
    }

    #[test]
    fn every_word_has_one_number_in_dictionary_order() {
        let segments = [
            segment(&["A", "a", " a", "b", "internationalA", "internationalb", "z"]),
            segment(&[" a", "B", "internationalb"]),
            segment(&[]),
            segment(&["A", "\u{e9}", "\u{c9}a"]),
        ];
        let expected = [
            "A",
            "a",
            "B",
            "b",
            "internationalA",
            "internationalb",
            "z",
            "\u{e9}",
            "\u{c9}a",
        ];
        let vocabulary = Vocabulary::new(&segments).unwrap();
        let words = (0..vocabulary.len() as u32).map(|number| vocabulary.word(number));
        assert_eq!(
            words.collect::<Vec<_>>(),
            expected.map(str::as_bytes).to_vec()
        );
        for (index, segment) in segments.iter().map(SegmentView::of).enumerate() {
            for word in 0..segment.word_count().unwrap() {
                let number = vocabulary.number(index, word);
                assert_eq!(vocabulary.word(number), segment.word(word));
            }
        }
        for (number, word) in (0..).zip(expected) {
            assert_eq!(vocabulary.find(word.as_bytes()).unwrap(), Some(number));
        }
        assert_eq!(vocabulary.find(b"c").unwrap(), None);
        assert_eq!(vocabulary.byte_order().1, [0, 2, 1, 3, 4, 5, 6, 8, 7]);
    }

    #[test]
    fn merging_is_the_same_however_it_is_cut() {
        let segments = [
            segment(&["a", "b", "c", "e", "f"]),
            segment(&["B", "c", "d"]),
            segment(&["g"]),
        ];
        let vocabulary = Vocabulary::new(&segments).unwrap();
        for task_words in 1..8 {
            let lists = (0..3u32).map(|segment| {
                let view = SegmentView::of(&segments[segment as usize]);
                (0..view.word_count().unwrap())
                    .map(|word| Entry {
                        key: key(view.word(word)),
                        segment,
                        word,
                    })
                    .collect()
            });
            let merged = vocabulary.merge(lists.collect(), task_words);
            let words = merged.iter().map(|entry| vocabulary.entry_word(entry));
            let expected = ["a", "B", "b", "c", "c", "d", "e", "f", "g"];
            assert!(words.eq(expected.map(str::as_bytes)), "{task_words}");
        }
    }

    #[test]
    fn one_segment_or_none_keeps_its_numbers() {
        let one = [segment(&["x", "Y", "y"])];
        let vocabulary = Vocabulary::new(&one).unwrap();
        assert_eq!(vocabulary.len(), 3);
        assert_eq!(vocabulary.word(1), b"Y");
        assert_eq!(vocabulary.find(b"y").unwrap(), Some(2));
        assert_eq!(Vocabulary::new(&[]).unwrap().len(), 0);
    }
}
