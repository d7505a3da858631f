//! All words of a corpus, numbered.
//!
//! The invariant: numbers follow dictionary order (case-folded word, then word), each word has one, and within a segment the
//! numbers of its words ascend with its own. Words of a single segment stay in its dictionary; those of several are copied, so
//! that no dictionary is pinned for them.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;
use zipfdb_kernels::{PackedNumbers, give_back_free_memory, sort_rows};

use crate::Result;
use crate::bisect::partition_point;
use crate::runtime::interrupt::NEVER;
use crate::segment::word_order::{compare, key};
use crate::segment::{LiveSegment, SegmentView};

/// Words of the segments of a corpus.
pub(crate) struct Vocabulary {
    words: VocabularyWords,
    /// Words in order of their bytes, and the place of each in it.
    byte_order: OnceLock<(Vec<u32>, Vec<u32>)>,
}

enum VocabularyWords {
    /// The dictionary of the only segment, which is pinned, by its numbers.
    Segment(Box<SegmentView>),
    /// The merged dictionaries of several segments, or of none.
    Merged(MergedWords),
}

/// Words of some segments.
#[derive(Default)]
struct MergedWords {
    list: WordList,
    /// For each segment the numbers of its words.
    numbers: Vec<PackedNumbers>,
    /// The keys of every 32nd word, once all words are there: small enough to stay in cache.
    keys: Vec<u64>,
}

/// Words in dictionary order, each once.
#[derive(Default)]
struct WordList {
    /// The bytes of all words.
    bytes: Vec<u8>,
    /// The end of each word.
    ends: PackedNumbers,
}

/// The number of words for which one key is kept.
const SAMPLE_WORDS: usize = 32;

/// Words of the longer list that one task merges.
const TASK_WORDS: usize = 1 << 14;

impl Vocabulary {
    /// Merges the dictionaries of all segments.
    ///
    /// Work: O(words), times the logarithm of the number of segments, on all threads. Nothing for one segment. Memory: the
    /// words twice, and a dictionary for each thread, beside those that the cache holds.
    pub(crate) fn new(segments: &[Arc<LiveSegment>]) -> Result<Vocabulary> {
        let words = match segments {
            [segment] => {
                let view = Box::new(SegmentView::of(segment));
                view.word_count()?;
                VocabularyWords::Segment(view)
            }
            _ => {
                let merged = MergedWords::new(segments, TASK_WORDS)?;
                give_back_free_memory();
                VocabularyWords::Merged(merged)
            }
        };
        Ok(Vocabulary {
            words,
            byte_order: OnceLock::new(),
        })
    }

    /// The memory that it takes, in bytes, without what it pins.
    pub(crate) fn bytes(&self) -> usize {
        let words = match &self.words {
            VocabularyWords::Segment(_) => 0,
            VocabularyWords::Merged(words) => words.memory(),
        };
        // The order by bytes is made later, if at all.
        words + 2 * size_of::<u32>() * self.len()
    }

    /// The number of words.
    pub(crate) fn len(&self) -> usize {
        match &self.words {
            VocabularyWords::Segment(segment) => segment
                .word_count()
                .expect("counted when the vocabulary was made")
                as usize,
            VocabularyWords::Merged(words) => words.list.len(),
        }
    }

    /// The word with a number.
    pub(crate) fn word(&self, number: u32) -> &[u8] {
        match &self.words {
            VocabularyWords::Segment(segment) => segment.word(number),
            VocabularyWords::Merged(words) => words.list.word(number as usize),
        }
    }

    /// A function from numbers to words, for many words.
    pub(crate) fn texts<'a>(&'a self) -> impl Fn(u32) -> &'a [u8] {
        let only = match &self.words {
            VocabularyWords::Segment(segment) => Some(segment.texts()),
            VocabularyWords::Merged(_) => None,
        };
        move |number| match &only {
            Some(text) => text(number),
            None => self.word(number),
        }
    }

    /// The numbers of a segment's words; none if they are the segment's own.
    pub(crate) fn numbers(&self, segment: usize) -> Option<&PackedNumbers> {
        match &self.words {
            VocabularyWords::Segment(_) => None,
            VocabularyWords::Merged(words) => words.numbers.get(segment),
        }
    }

    /// The number of a word of a segment.
    pub(crate) fn number(&self, segment: usize, word: u32) -> u32 {
        // Words are numbered by u32.
        self.numbers(segment)
            .map_or(word, |numbers| numbers.get(word as usize) as u32)
    }

    /// The number of `word`, if a segment has it.
    pub(crate) fn find(&self, word: &[u8]) -> Result<Option<u32>> {
        match &self.words {
            VocabularyWords::Segment(segment) => segment.word_number(word),
            VocabularyWords::Merged(words) => Ok(words.find(word)),
        }
    }

    /// As `byte_order`, if it has been made.
    pub(crate) fn known_byte_order(&self) -> Option<&(Vec<u32>, Vec<u32>)> {
        self.byte_order.get()
    }

    /// All words in order of their bytes, and the place of each in it.
    pub(crate) fn byte_order(&self) -> &(Vec<u32>, Vec<u32>) {
        if let Some(known) = self.byte_order.get() {
            return known;
        }
        // Without a lock: see `segment_view`.
        let order = order_by_bytes(self.len(), self.texts());
        let mut ranks = vec![0; order.len()];
        for (rank, &word) in (0..).zip(&order) {
            ranks[word as usize] = rank;
        }
        self.byte_order.get_or_init(|| (order, ranks))
    }
}

/// The numbers of `words` different words, in order of their bytes: by the first eight as a number, and then by all.
fn order_by_bytes<'a>(words: usize, text: impl Fn(u32) -> &'a [u8] + Sync) -> Vec<u32> {
    // Numbers are u32.
    let mut order: Vec<u32> = (0..words as u32).collect();
    let first_bytes = |&word: &u32| {
        let mut bytes = [0; size_of::<u64>()];
        for (byte, &first) in bytes.iter_mut().zip(text(word)) {
            *byte = first;
        }
        u64::from_be_bytes(bytes)
    };
    let firsts: Vec<u64> = order.par_iter().map(first_bytes).collect();
    let first = |word: u32| firsts[word as usize];
    // The sort is never stopped.
    let _ = sort_rows(&mut order, first, &NEVER);
    order
        .par_chunk_by_mut(|&left, &right| first(left) == first(right))
        .for_each(|alike| alike.sort_unstable_by_key(|&word| text(word)));
    order
}

impl MergedWords {
    /// The words of all segments, merged by tasks of `task_words` words.
    fn new(segments: &[Arc<LiveSegment>], task_words: usize) -> Result<MergedWords> {
        let mut merged = MergedWords::of_segments(segments, task_words)?;
        merged.list.bytes.shrink_to_fit();
        let samples = (0..merged.list.len()).step_by(SAMPLE_WORDS);
        merged.keys = samples.map(|word| key(merged.list.word(word))).collect();
        Ok(merged)
    }

    /// The words of two parts of the segments with about equal numbers of tokens, which are decoded in parallel and merged.
    fn of_segments(segments: &[Arc<LiveSegment>], task_words: usize) -> Result<MergedWords> {
        let (first, last) = match segments {
            [] => return Ok(MergedWords::default()),
            [segment] => return MergedWords::of_segment(segment),
            _ => segments.split_at(middle(segments)),
        };
        let (first, last) = rayon::join(
            || MergedWords::of_segments(first, task_words),
            || MergedWords::of_segments(last, task_words),
        );
        let (first, last) = (first?, last?);
        let mut reservation = segments[0].slots().cache().reservation();
        // What is made of both takes their memory again.
        reservation.cover(2 * (first.memory() + last.memory()));
        Ok(first.merge(last, task_words))
    }

    /// The words of a segment, by its own numbers.
    fn of_segment(segment: &Arc<LiveSegment>) -> Result<MergedWords> {
        let view = SegmentView::of(segment);
        let dictionary = view.dictionary()?;
        let mut list = WordList::default();
        for token in 0..dictionary.word_tokens() {
            if !dictionary.is_second_token(token) {
                list.push(dictionary.word(token));
            }
        }
        let numbers = vec![(0..list.len() as u64).collect()];
        Ok(MergedWords {
            list,
            numbers,
            keys: Vec::new(),
        })
    }

    fn memory(&self) -> usize {
        let numbers = self.numbers.iter().map(PackedNumbers::bytes);
        let list = self.list.bytes.len() + self.list.ends.bytes();
        list + numbers.sum::<usize>() + size_of_val(&self.keys[..])
    }

    /// The number of a word, if it is there.
    ///
    /// Work: O(log words), with about five comparisons of words.
    fn find(&self, word: &[u8]) -> Option<u32> {
        let key = key(word);
        let from = self.keys.partition_point(|&sample| sample < key);
        let to = self.keys.partition_point(|&sample| sample <= key);
        let from = from.saturating_sub(1) * SAMPLE_WORDS;
        let to = self.list.len().min(to * SAMPLE_WORDS);
        let is_before = |index| compare(self.list.word(from + index), word).is_lt();
        let found = from + partition_point(to - from, is_before);
        let is_it = found < self.list.len() && self.list.word(found) == word;
        // There are fewer than tokens in all segments of a corpus that fits into memory.
        is_it.then_some(found as u32)
    }

    /// Merges these words with those of later segments.
    fn merge(self, other: MergedWords, task_words: usize) -> MergedWords {
        let mut list = WordList::default();
        let mut maps = [PackedNumbers::default(), PackedNumbers::default()];
        let ranges = task_ranges(&self.list, &other.list, task_words);
        // Merged parts wait for their turn: few at a time.
        for ranges in ranges.chunks(2 * rayon::current_num_threads()) {
            let parts: Vec<MergedPart> = (ranges.par_iter())
                .map(|[left, right]| {
                    let left = ListCursor::new(&self.list, left);
                    merge_part(left, ListCursor::new(&other.list, right))
                })
                .collect();
            for part in parts {
                let mut begin = 0;
                for (end, owners) in part.words {
                    let number = list.len() as u64;
                    let owned = maps.iter_mut().zip([LEFT, RIGHT]);
                    let owned = owned.filter(|(_, owner)| owners & owner != 0);
                    owned.for_each(|(map, _)| map.push(number));
                    list.push(&part.bytes[begin..end]);
                    begin = end;
                }
            }
        }
        let numbers = [self.numbers, other.numbers].into_iter().zip(&maps);
        let numbers = numbers.flat_map(|(numbers, map)| {
            let renumbered = move |numbers: PackedNumbers| {
                numbers.iter().map(|word| map.get(word as usize)).collect()
            };
            numbers.into_iter().map(renumbered)
        });
        MergedWords {
            list,
            numbers: numbers.collect(),
            keys: Vec::new(),
        }
    }
}

impl WordList {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn word(&self, number: usize) -> &[u8] {
        let begin = number
            .checked_sub(1)
            .map_or(0, |before| self.ends.get(before));
        &self.bytes[begin as usize..self.ends.get(number) as usize]
    }

    fn push(&mut self, word: &[u8]) {
        self.bytes.extend_from_slice(word);
        self.ends.push(self.bytes.len() as u64);
    }
}

/// Flags: which of two lists has a word.
const LEFT: u8 = 1;
const RIGHT: u8 = 2;

/// Words that a task has merged.
struct MergedPart {
    bytes: Vec<u8>,
    /// For each word its end, and the lists that have it.
    words: Vec<(usize, u8)>,
}

/// The place that cuts two or more segments into parts of about equal numbers of tokens, neither of them empty.
fn middle(segments: &[Arc<LiveSegment>]) -> usize {
    let tokens = |segment: &Arc<LiveSegment>| segment.size().1 + 1;
    let all: u64 = segments.iter().map(tokens).sum();
    let mut before = 0;
    let middle = segments.iter().position(|segment| {
        before += tokens(segment);
        2 * before >= all
    });
    middle.map_or(1, |place| (place + 1).min(segments.len() - 1))
}

/// Cuts two lists into ranges that are merged alone, of about `task_words` words of the longer one.
fn task_ranges(left: &WordList, right: &WordList, task_words: usize) -> Vec<[Range<usize>; 2]> {
    let longer = if left.len() < right.len() {
        right
    } else {
        left
    };
    let mut ranges = Vec::new();
    let mut from = [0, 0];
    for cut in (task_words..longer.len()).step_by(task_words) {
        let word = longer.word(cut);
        let to = [left, right].map(|list| {
            partition_point(list.len(), |place| compare(list.word(place), word).is_lt())
        });
        ranges.push([from[0]..to[0], from[1]..to[1]]);
        from = to;
    }
    ranges.push([from[0]..left.len(), from[1]..right.len()]);
    ranges
}

fn merge_part(left: ListCursor<'_>, right: ListCursor<'_>) -> MergedPart {
    let (mut left, mut right) = (left, right);
    let mut part = MergedPart {
        bytes: Vec::new(),
        words: Vec::new(),
    };
    loop {
        let (word, owners) = match (left.current, right.current) {
            (None, None) => return part,
            (Some((_, word)), None) => (word, LEFT),
            (None, Some((_, word))) => (word, RIGHT),
            (Some((_, word)), Some((_, other))) if word == other => (word, LEFT | RIGHT),
            (Some((key, word)), Some((other_key, other))) => {
                let order = key.cmp(&other_key).then_with(|| compare(word, other));
                match order {
                    Ordering::Greater => (other, RIGHT),
                    Ordering::Less | Ordering::Equal => (word, LEFT),
                }
            }
        };
        part.bytes.extend_from_slice(word);
        part.words.push((part.bytes.len(), owners));
        if owners & LEFT != 0 {
            left.advance();
        }
        if owners & RIGHT != 0 {
            right.advance();
        }
    }
}

/// Passes through a range of a list.
struct ListCursor<'a> {
    list: &'a WordList,
    rest: Range<usize>,
    /// A word with its key.
    current: Option<(u64, &'a [u8])>,
}

impl<'a> ListCursor<'a> {
    fn new(list: &'a WordList, range: &Range<usize>) -> ListCursor<'a> {
        let mut cursor = ListCursor {
            list,
            rest: range.clone(),
            current: None,
        };
        cursor.advance();
        cursor
    }

    fn advance(&mut self) {
        self.current = self.rest.next().map(|number| {
            let word = self.list.word(number);
            (key(word), word)
        });
    }
}

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
    fn words_are_ordered_by_their_bytes() {
        let alike = (0..9_000u32).map(|number| format!("{}lophophora{number}", number % 3));
        let short = ["", "a", "a\0", "a\0\0b", "lophopho", "lophophor", "\u{ff}"];
        let words: Vec<String> = alike.chain(short.map(str::to_owned)).collect();
        let text = |word: u32| words[word as usize].as_bytes();
        let mut expected: Vec<u32> = (0..words.len() as u32).collect();
        expected.sort_by_key(|&word| text(word));
        assert_eq!(order_by_bytes(words.len(), text), expected);
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
    fn merging_is_the_same_however_many_segments_there_are_and_however_it_is_cut() {
        let mut state = 1u32;
        let mut random = move |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        for count in 2..12 {
            let all: Vec<Vec<String>> = (0..count)
                .map(|_| {
                    let words = (0..random(300)).map(|_| match random(9) {
                        0 => format!("\u{e9}{}", random(20)),
                        1 => format!("Commonprefix{}", random(200)),
                        _ => format!("commonprefix{}", random(200)),
                    });
                    let mut words: Vec<String> = words.collect();
                    words.sort_by(|left, right| compare(left.as_bytes(), right.as_bytes()));
                    words.dedup();
                    words
                })
                .collect();
            let segments: Vec<Arc<LiveSegment>> = (all.iter())
                .map(|words| segment(&words.iter().map(|word| &**word).collect::<Vec<_>>()))
                .collect();
            let mut expected = all.concat();
            expected.sort_by(|left, right| compare(left.as_bytes(), right.as_bytes()));
            expected.dedup();
            for task_words in [1, 2, 7, 100, 1000] {
                let merged = MergedWords::new(&segments, task_words).unwrap();
                assert_eq!(merged.list.len(), expected.len());
                for (number, word) in (0..).zip(&expected) {
                    assert_eq!(merged.list.word(number), word.as_bytes());
                    assert_eq!(merged.find(word.as_bytes()), Some(number as u32));
                }
                for (words, numbers) in all.iter().zip(&merged.numbers) {
                    assert_eq!(words.len(), numbers.len());
                    for (word, number) in words.iter().zip(numbers.iter()) {
                        assert_eq!(merged.list.word(number as usize), word.as_bytes());
                    }
                }
                for absent in ["", "a", "commonprefix", "commonprefix999", "zz", "\u{e9}"] {
                    assert_eq!(merged.find(absent.as_bytes()), None);
                }
            }
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
