//! The order of words in a dictionary, and look-ups of words in it.
//!
//! The invariant: words are ordered by (case-folded word, word). The order depends on the tokenizer's folding alone; grammars are
//! not known here.

use std::cmp::Ordering;

use rayon::prelude::*;
use zipfdb_kernels::WordTerminals;
use zipfdb_search::fold::fold;
use zipfdb_storage::Dictionary;

/// Compares words in the order of dictionaries.
///
/// ASCII is compared in place; from the first other character on both words are
/// folded, which allocates.
pub(crate) fn compare(left: &[u8], right: &[u8]) -> Ordering {
    compare_folded(left, right).then_with(|| left.cmp(right))
}

fn compare_folded(left: &[u8], right: &[u8]) -> Ordering {
    for (index, (a, b)) in left.iter().zip(right).enumerate() {
        if !a.is_ascii() || !b.is_ascii() {
            // Only ASCII precedes, so both continue with a whole character.
            return folded(&left[index..]).cmp(&folded(&right[index..]));
        }
        let ordering = a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase());
        if ordering.is_ne() {
            return ordering;
        }
    }
    left.len().cmp(&right.len())
}

fn folded(word: &[u8]) -> Vec<u8> {
    let mut folded = Vec::with_capacity(word.len());
    fold(word, &mut folded);
    folded
}

/// The fault in the order of a dictionary's words, if there is one: damage, or a version of Unicode that folds other characters
/// than ours. Parallel on the current pool.
pub(crate) fn order_fault(dictionary: &Dictionary) -> Option<&'static str> {
    let fault = |token: u32| {
        let word = dictionary.word(token);
        if word.is_empty() {
            return Some("its dictionary has an empty word");
        }
        let previous = token.checked_sub(1).map(|token| dictionary.word(token))?;
        match compare(previous, word) {
            Ordering::Less => None,
            Ordering::Equal if dictionary.is_second_token(token) => None,
            Ordering::Equal => Some("its dictionary has a word twice"),
            Ordering::Greater => Some(
                "the words of its dictionary are not in the order of this version of Unicode; \
                 hint: copy the files of the corpus into a new one",
            ),
        }
    };
    let tokens = (0..dictionary.word_tokens()).into_par_iter();
    tokens.with_min_len(TASK_TOKENS).find_map_any(fault)
}

/// The least number of tokens that a task compares.
const TASK_TOKENS: usize = 1 << 12;

const KEY_BYTES: usize = 8;

/// The first eight bytes of the folded word as a number: words with different keys are ordered as their keys.
pub(crate) fn key(word: &[u8]) -> u64 {
    let mut bytes = [0; KEY_BYTES];
    let front = &word[..word.len().min(KEY_BYTES)];
    if front.is_ascii() {
        for (byte, folded) in front.iter().zip(&mut bytes) {
            *folded = byte.to_ascii_lowercase();
        }
    } else {
        for (byte, first) in folded(word).into_iter().zip(&mut bytes) {
            *first = byte;
        }
    }
    u64::from_be_bytes(bytes)
}

/// The number of tokens for each sampled key.
const SAMPLE_TOKENS: usize = 32;

/// The keys of every 32nd word token: small enough to stay in cache, where a
/// binary search of the dictionary would wait for memory at every step.
#[derive(Debug)]
pub(crate) struct WordIndex {
    keys: Vec<u64>,
}

impl WordIndex {
    /// The memory that it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.keys[..])
    }

    /// Work: O(words / 32).
    pub(crate) fn new(dictionary: &Dictionary) -> WordIndex {
        let sampled = (0..dictionary.word_tokens()).step_by(SAMPLE_TOKENS);
        WordIndex {
            keys: sampled.map(|id| key(dictionary.word(id))).collect(),
        }
    }

    /// The tokens of `word`, none if the dictionary does not have it.
    ///
    /// Work: O(log words), with about five comparisons in the dictionary.
    pub(crate) fn find(&self, dictionary: &Dictionary, word: &[u8]) -> WordTerminals {
        let key = key(word);
        let from = self.keys.partition_point(|&sample| sample < key);
        let to = self.keys.partition_point(|&sample| sample <= key);
        // Token ids are u32, and so are the samples' places.
        let mut first = (from.saturating_sub(1) * SAMPLE_TOKENS) as u32;
        let mut last = dictionary.word_tokens().min((to * SAMPLE_TOKENS) as u32);
        while first < last {
            let middle = first + (last - first) / 2;
            if compare(dictionary.word(middle), word).is_lt() {
                first = middle + 1;
            } else {
                last = middle;
            }
        }
        word_at(dictionary, first, word)
    }
}

/// The tokens of `word`, which begin at `first` if the dictionary has it; none otherwise.
pub(super) fn word_at(dictionary: &Dictionary, first: u32, word: &[u8]) -> WordTerminals {
    let mut found = WordTerminals {
        first,
        spaced: first,
        end: first,
    };
    while found.end < dictionary.word_tokens() && dictionary.word(found.end) == word {
        if !dictionary.has_glued_space(found.end) {
            found.spaced = found.end + 1;
        }
        found.end += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [&str; 17] = [
        "",
        "0",
        "a",
        "A",
        "aa",
        "AB",
        "ab",
        "abcdefgh",
        "abcdefghI",
        "abcdefghi",
        "abcdefghij",
        "kelvin",
        "\u{212A}elvin",
        "z",
        "\u{e4}",
        "\u{c4}b",
        "\u{e4}b",
    ];

    #[test]
    fn words_compare_by_folded_word_then_word() {
        for left in WORDS {
            for right in WORDS {
                let expected =
                    (folded(left.as_bytes()), left).cmp(&(folded(right.as_bytes()), right));
                assert_eq!(compare(left.as_bytes(), right.as_bytes()), expected);
            }
        }
        assert!(compare(b"\xff", b"\xfe").is_gt());
        assert!(compare(b"A\xff", b"a\xfe").is_gt());
    }

    #[test]
    fn keys_never_contradict_the_order() {
        for left in WORDS {
            for right in WORDS {
                let keys = key(left.as_bytes()).cmp(&key(right.as_bytes()));
                assert!(keys.is_eq() || keys == compare(left.as_bytes(), right.as_bytes()));
            }
        }
    }

    #[test]
    fn every_word_of_a_dictionary_is_found_with_its_tokens_and_no_other() {
        // Words in order; every third has both tokens, the others one.
        let mut words: Vec<String> = (0..500).map(|n| format!("commonprefix{n}")).collect();
        words.extend(WORDS[1..].iter().map(|word| (*word).to_owned()));
        words.sort_by(|left, right| compare(left.as_bytes(), right.as_bytes()));
        let (mut offsets, mut bytes) = (vec![0], Vec::new());
        for (index, word) in words.iter().enumerate() {
            for token in [word.clone(), format!(" {word}")]
                .iter()
                .skip(usize::from(index % 3 == 1))
            {
                bytes.extend_from_slice(token.as_bytes());
                offsets.push(bytes.len() as u64);
                if index % 3 == 2 {
                    break;
                }
            }
        }
        let word_tokens = offsets.len() as u32 - 1;
        bytes.extend_from_slice(b", ");
        offsets.push(bytes.len() as u64);
        let dictionary = Dictionary::new(offsets, bytes, word_tokens, Vec::new());
        let index = WordIndex::new(&dictionary);
        let mut next = 0;
        for (place, word) in words.iter().enumerate() {
            let found = index.find(&dictionary, word.as_bytes());
            let (plain, spaced) = [(1, 1), (0, 1), (1, 0)][place % 3];
            let expected = WordTerminals {
                first: next,
                spaced: next + plain,
                end: next + plain + spaced,
            };
            assert_eq!(found, expected, "{word}");
            next = found.end;
        }
        for absent in ["", " a", "commonprefix", "commonprefix9999", "zz", ", "] {
            let found = index.find(&dictionary, absent.as_bytes());
            assert_eq!(found.first, found.end, "{absent:?}");
        }
        let empty = Dictionary::default();
        let found = WordIndex::new(&empty).find(&empty, b"a");
        assert_eq!((found.first, found.end), (0, 0));
    }
}
