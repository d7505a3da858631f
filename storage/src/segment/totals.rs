//! How often each word occurs in the files of a segment: who counts words needs neither rules nor root.
//!
//! Invariant: totals follow from dictionary and grammar. What is stored is believed because of its checksum; `verify`
//! counts again. A word whose total does not fit 32 bits leaves the section empty, and nothing is stored.

use super::coding::{DecodeError, Fault, filled, numbers};
use crate::{Dictionary, Grammar};
use rayon::prelude::*;

/// Longer words are taken to be as rare as those of this many bytes.
const SIZE_MAX: usize = 15;

/// Tables: for each size of word and each way to have tokens.
const ROWS: usize = (SIZE_MAX + 1) * 3;

/// Encodes the totals of all words.
pub fn encode(dictionary: &Dictionary, grammar: &Grammar) -> Vec<u8> {
    let Some(totals) = count(dictionary, grammar) else {
        return Vec::new();
    };
    let mut rows = vec![0; totals.len()];
    set_rows(&mut rows, dictionary, &dictionary.word_offsets());
    let mut out = Vec::new();
    numbers::write(&mut out, &totals, ROWS, |word| usize::from(rows[word]));
    out
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

/// Words that one task looks at, at least.
const TASK_WORDS: usize = 1 << 12;

/// How often each word occurs; none if a count needs more than 32 bits.
///
/// Top-down: a rule's weight is final once all rules of higher levels are done.
fn count(dictionary: &Dictionary, grammar: &Grammar) -> Option<Vec<u32>> {
    let terminals = grammar.terminal_count as usize;
    let mut weights = vec![0u64; terminals + grammar.rule_count() as usize];
    for &symbol in &grammar.root {
        weights[symbol as usize] += 1;
    }
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
        let section = encode(&dictionary, &grammar);
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
        let section = encode(&dictionary, &grammar.check().unwrap());
        assert!(section.is_empty());
        assert_eq!(decode(&section, &dictionary).unwrap(), None);
    }

    #[test]
    fn damaged_totals_give_numbers_or_a_fault() {
        let (dictionary, grammar) = sample();
        let section = encode(&dictionary, &grammar);
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
