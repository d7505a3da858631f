//! The order of texts by their numbers: by the numbers themselves, or by a rank for each.
//!
//! Invariant: where there is an order, comparing ranks is comparing values by the collation, for texts alone or for n-grams word
//! by word.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::ThreadPool;
use rayon::prelude::*;
use zipfdb_search::fold::fold;
use zipfdb_sql::query::Collation;

use super::number_keys::RADIX_ROWS_MIN;
use crate::Result;
use crate::batch::{TextColumn, TextDictionary};
use crate::runtime::interrupt::{Interrupt, check};

/// The least number of words of a task.
const TASK_WORDS: usize = 1 << 12;

/// Texts that are folded between two checks for interruption.
const PACE_TEXTS: usize = 1 << 12;

/// The order of the numbers of texts.
#[derive(Debug, Clone)]
pub(super) enum TextOrder {
    /// The numbers are in order.
    Numbers,
    /// By the ranks of the dictionary.
    Bytes,
    /// By these ranks; texts that are equal by the collation have one.
    Folded(Arc<[u32]>),
}

impl TextOrder {
    /// The rank of each number; none if the numbers are in order.
    pub(super) fn ranks<'a>(&'a self, dictionary: &'a TextDictionary) -> Option<&'a [u32]> {
        match self {
            TextOrder::Numbers => None,
            TextOrder::Bytes => dictionary.byte_ranks(),
            TextOrder::Folded(ranks) => Some(ranks),
        }
    }
}

/// The order of the texts of a dictionary, or of n-grams of them, by their numbers; none without such an order. BLOBs come after
/// texts whatever their bytes; a byte up to that of the space between the words of an n-gram would come before it.
pub(super) fn text_order(
    dictionary: &TextDictionary,
    in_ngrams: bool,
    collation: Collation,
    (pool, interrupt): (&ThreadPool, &Interrupt),
) -> Result<Option<TextOrder>> {
    if collation == Collation::Binary && dictionary.is_of_files() {
        // Files are numbered in order of their names.
        return Ok(Some(TextOrder::Numbers));
    }
    let texts = dictionary.clone();
    interrupt.apart(pool, move |stop| {
        let is_plain = |number: u32| {
            let text = texts.bytes(number);
            std::str::from_utf8(text).is_ok()
                && !(in_ngrams && text.iter().any(|&byte| byte <= b' '))
        };
        // Numbers are u32.
        let numbers = (0..texts.len() as u32).into_par_iter();
        if !numbers.with_min_len(TASK_WORDS).all(is_plain) {
            return Ok(None);
        }
        check(stop)?;
        if collation == Collation::Binary {
            texts.byte_ranks();
            return Ok(Some(TextOrder::Bytes));
        }
        let (mut folded, mut text) = (TextColumn::default(), Vec::new());
        for number in 0..texts.len() as u32 {
            if (number as usize).is_multiple_of(PACE_TEXTS) {
                check(stop)?;
            }
            text.clear();
            fold(texts.bytes(number), &mut text);
            folded.push(&text);
        }
        Ok(Some(TextOrder::Folded(ranks(&folded, stop)?.into())))
    })
}

/// The rank of each text, of which there are fewer than 2^32, in order of bytes; equal ones have one rank. Many are sorted by the
/// threads of the current pool.
///
/// # Errors
/// `Interrupted` if `stop` is set.
pub(super) fn ranks(texts: &TextColumn, stop: &AtomicBool) -> Result<Vec<u32>> {
    let text = |number: u32| texts.get(number as usize);
    // Most comparisons need no more than the first bytes.
    let first_bytes = |number: u32| {
        let mut first = [0; size_of::<u64>()];
        let text = text(number);
        let length = text.len().min(first.len());
        first[..length].copy_from_slice(&text[..length]);
        u64::from_be_bytes(first)
    };
    let numbers = 0..texts.len() as u32;
    let mut sorted: Vec<(u64, u32)> = numbers
        .map(|number| (first_bytes(number), number))
        .collect();
    let compare = |left: &(u64, u32), right: &(u64, u32)| {
        let first = left.0.cmp(&right.0);
        first.then_with(|| text(left.1).cmp(text(right.1)))
    };
    if sorted.len() < RADIX_ROWS_MIN {
        sorted.sort_unstable_by(compare);
    } else {
        sorted.par_sort_unstable_by(compare);
    }
    check(stop)?;
    let mut ranks = vec![0; sorted.len()];
    let mut rank = 0;
    for (place, next) in sorted.iter().enumerate() {
        if place > 0 && compare(&sorted[place - 1], next).is_ne() {
            rank += 1;
        }
        ranks[next.1 as usize] = rank;
    }
    Ok(ranks)
}
