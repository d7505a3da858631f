//! How often each word occurs in the files of a segment: counting words needs neither rules nor root.
//!
//! Invariant: totals follow from dictionary and grammar. What is stored is believed because of its checksum; `verify`
//! counts again. A word whose total does not fit 32 bits leaves the section empty, and nothing is stored.

use super::coding::{DecodeError, Fault, blocks, filled, numbers, reserved};
use super::tokens::BLOCK_TOKENS;
use crate::{Dictionary, Grammar};
use rayon::prelude::*;

/// Words longer than this many bytes count as this long.
const SIZE_MAX: usize = 15;

/// Tables: for each size of word and each way to have tokens.
const ROWS: usize = (SIZE_MAX + 1) * 3;

/// Encodes the totals of all words, and how many words begin in each block. Returns the section and how many bytes of it
/// the totals take.
pub fn encode(dictionary: &Dictionary, grammar: &Grammar) -> (Vec<u8>, usize) {
    let Some(totals) = count(dictionary, grammar) else {
        return (Vec::new(), 0);
    };
    let offsets = dictionary.word_offsets();
    let mut rows = vec![0; totals.len()];
    set_rows(&mut rows, dictionary, &offsets);
    let mut out = Vec::new();
    numbers::write(&mut out, &totals, ROWS, |word| usize::from(rows[word]));
    let size = out.len();
    // A single block is decoded sooner than examined.
    if offsets[offsets.len() - 1] as usize > BLOCK_TOKENS {
        let words = words_of_blocks(&offsets);
        numbers::write(&mut out, &words, 1, |_| 0);
    }
    (out, size)
}

/// How many words begin in each block of tokens, for words whose tokens begin at `offsets`, and end at the last of them.
fn words_of_blocks(offsets: &[u32]) -> Vec<u32> {
    let tokens = offsets[offsets.len() - 1] as usize;
    let mut words = vec![0; tokens.div_ceil(BLOCK_TOKENS)];
    for &first in &offsets[..offsets.len() - 1] {
        words[first as usize / BLOCK_TOKENS] += 1;
    }
    words
}

/// How many words begin before each block of tokens, and how many there are, if the section says so; `tokens` is how many
/// word tokens there are.
pub fn read_words_before(section: &[u8], tokens: usize) -> Result<Option<Vec<u32>>, DecodeError> {
    let mut input = section;
    if input.is_empty() {
        return Ok(None);
    }
    blocks::read_part(&mut input)?;
    if input.is_empty() {
        return Ok(None);
    }
    let words = numbers::read(&mut input, tokens.div_ceil(BLOCK_TOKENS), 1, |_| 0)?;
    let mut before = reserved(words.len() + 1)?;
    before.push(0u32);
    for words in words {
        let sum = before[before.len() - 1].checked_add(words);
        let sum = sum.filter(|_| words as usize <= BLOCK_TOKENS);
        before.push(sum.ok_or(Fault("a block has too many words"))?);
    }
    Ok(Some(before))
}

/// The total of the last of some words; `words` are all of them that come after `first` of a block of numbers, `count` is how
/// many words there are in all.
///
/// The words of `dictionary` that count are those whose first tokens are `offsets`, and the last of those is where they end.
pub fn read_one(
    section: &[u8],
    count: usize,
    first: usize,
    dictionary: &Dictionary,
    offsets: &[u32],
) -> Result<u32, DecodeError> {
    let mut rows = filled(0, offsets.len() - 1)?;
    set_rows(&mut rows, dictionary, offsets);
    let word = first + rows.len() - 1;
    let row = |word: usize| usize::from(rows[word - first]);
    let mut input = section;
    let totals = numbers::read_block(&mut input, count, ROWS, word..word + 1, row)?;
    Ok(totals[totals.len() - 1])
}

/// Decodes a section; none if nothing is stored.
pub fn decode(section: &[u8], dictionary: &Dictionary) -> Result<Option<Vec<u32>>, DecodeError> {
    if section.is_empty() {
        return Ok(None);
    }
    let mut input = section;
    let offsets = dictionary.try_word_offsets()?;
    let mut rows = filled(0, offsets.len() - 1)?;
    set_rows(&mut rows, dictionary, &offsets);
    let row = |word: usize| usize::from(rows[word]);
    numbers::read(&mut input, rows.len(), ROWS, row).map(Some)
}

/// Compares stored counts of words with the dictionary.
pub fn verify_words_before(stored: &[u32], dictionary: &Dictionary) -> Result<(), Fault> {
    let words = words_of_blocks(&dictionary.word_offsets());
    let counts = stored.windows(2).map(|pair| pair[1] - pair[0]);
    if counts.eq(words) {
        Ok(())
    } else {
        Err(Fault(
            "a block of words has another number of words than it says",
        ))
    }
}

/// Compares stored totals with the grammar.
pub fn verify(stored: &[u32], dictionary: &Dictionary, grammar: &Grammar) -> Result<(), Fault> {
    match count(dictionary, grammar) {
        Some(totals) if totals == stored => Ok(()),
        _ => Err(Fault("a word does not occur as often as it says")),
    }
}

/// Sets for each word its table: how long it is, and which of its two tokens it has. Short ones are frequent, and those that
/// have both occur twice at least.
fn set_rows(rows: &mut [u8], dictionary: &Dictionary, offsets: &[u32]) {
    let row = |tokens: &[u32]| {
        let kind = match tokens[1] - tokens[0] {
            1 => usize::from(dictionary.has_glued_space(tokens[0])),
            _ => 2,
        };
        let size = dictionary.word(tokens[0]).len().min(SIZE_MAX);
        (kind * (SIZE_MAX + 1) + size) as u8 // below ROWS
    };
    let words = offsets.par_windows(2).with_min_len(TASK_WORDS);
    (rows.par_iter_mut().zip(words)).for_each(|(of, tokens)| *of = row(tokens));
}

/// Words that one task examines, at least.
const TASK_WORDS: usize = 1 << 12;

/// How often each of `symbols` symbols occurs in the root. Each part of it has counts of its own, so there are few.
fn root_counts(root: &[u32], symbols: usize) -> Vec<u64> {
    let parts = (root.len() / symbols.max(1)).clamp(1, rayon::current_num_threads());
    let parts = root.par_chunks(root.len().div_ceil(parts).max(1));
    let counted = parts.map(|root| {
        let mut counts = vec![0u64; symbols];
        for &symbol in root {
            counts[symbol as usize] += 1;
        }
        counts
    });
    let added = counted.reduce_with(|mut left, right| {
        (left.par_iter_mut().zip(right)).for_each(|(left, right)| *left += right);
        left
    });
    added.unwrap_or_else(|| vec![0; symbols])
}

/// How often each word occurs; none if a count needs more than 32 bits.
///
/// Top-down: a rule's weight is final once all rules of higher levels are done.
fn count(dictionary: &Dictionary, grammar: &Grammar) -> Option<Vec<u32>> {
    let terminals = grammar.terminal_count as usize;
    let mut weights = root_counts(&grammar.root, terminals + grammar.rule_count() as usize);
    for rule in (0..grammar.rule_count()).rev() {
        let weight = weights[terminals + rule as usize];
        for &symbol in grammar.body(rule) {
            let sum = &mut weights[symbol as usize];
            *sum = sum.saturating_add(weight);
        }
    }
    let total = |tokens: &[u32]| {
        let weights = &weights[tokens[0] as usize..tokens[1] as usize];
        let sum = weights.iter().copied().fold(0, u64::saturating_add);
        u32::try_from(sum).ok()
    };
    dictionary.word_offsets().windows(2).map(total).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn sample() -> (Dictionary, Grammar) {
        let offsets = vec![0, 1, 3, 4, 6, 7];
        let dictionary = Dictionary::new(offsets, b"a ab c.".to_vec(), 4, Vec::new());
        let grammar = Grammar {
            terminal_count: 5,
            rule_offsets: vec![0, 3, 6],
            symbols: vec![0, 1, 4, 5, 5, 3],
            level_offsets: vec![0, 1, 2],
            root_offsets: vec![0, 2, 3],
            root: vec![6, 2, 5],
        };
        (dictionary, grammar)
    }

    #[test]
    fn a_total_counts_both_tokens_of_a_word_through_rules_in_all_files() {
        let (dictionary, grammar) = sample();
        let (section, _) = encode(&dictionary, &grammar);
        let totals = decode(&section, &dictionary).unwrap().unwrap();
        assert_eq!(totals, [6, 1, 1]);
        assert!(verify(&totals, &dictionary, &grammar).is_ok());
        assert!(verify(&[6, 1, 2], &dictionary, &grammar).is_err());
        assert!(verify(&[6, 1], &dictionary, &grammar).is_err());
    }

    #[test]
    fn a_total_of_more_than_32_bits_is_not_stored() {
        let (dictionary, mut grammar) = sample();
        // 33 levels of doubling.
        grammar.symbols = vec![0, 0];
        grammar
            .symbols
            .extend((0..32).flat_map(|rule| [5 + rule; 2]));
        grammar.rule_offsets = (0..=33).map(|rule| rule * 2).collect();
        grammar.level_offsets = (0..=33).collect();
        grammar.root = vec![2, 5 + 32];
        grammar.root_offsets = vec![0, 2];
        let (section, _) = encode(&dictionary, &grammar.check().unwrap());
        assert!(section.is_empty());
        assert_eq!(decode(&section, &dictionary).unwrap(), None);
    }

    #[test]
    fn damaged_totals_give_numbers_or_a_fault() {
        let (dictionary, grammar) = sample();
        let (section, _) = encode(&dictionary, &grammar);
        for length in 0..section.len() {
            let _ = decode(&section[..length], &dictionary);
        }
        for index in 0..section.len() {
            for flip in 1..=255 {
                let mut damaged = section.clone();
                damaged[index] ^= flip;
                let _ = decode(&damaged, &dictionary);
            }
        }
    }
}
