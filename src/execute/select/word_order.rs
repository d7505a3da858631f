//! How numbers of texts tell the order of the texts: by themselves, or by a rank for each.
//!
//! Invariant: where there is an order, comparing ranks is comparing values by the collation, for texts alone or for n-grams word
//! by word.

use std::cmp::Ordering;
use std::sync::Arc;

use rayon::ThreadPool;
use rayon::prelude::*;
use zipfdb_sql::query::Collation;

use super::context::Context;
use super::number_keys::{RADIX_ROWS_MIN, where_rows_are_sorted};
use crate::Result;
use crate::batch::TextDictionary;
use crate::runtime::interrupt::{Interrupt, check};
use crate::tokenize::fold;

/// Words that one task looks at, at least.
const TASK_WORDS: usize = 1 << 12;

/// Texts that are folded between two looks whether to go on.
const PACE_TEXTS: usize = 1 << 12;

/// How numbers of texts tell their order.
#[derive(Debug, Clone)]
pub(super) enum TextOrder {
    /// They are in order.
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

/// How the numbers of a dictionary tell the order of its texts, or of n-grams of them; none if they do not. BLOBs come after
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
        let mut folded: Vec<(Vec<u8>, u32)> = Vec::with_capacity(texts.len());
        for number in 0..texts.len() as u32 {
            if (number as usize).is_multiple_of(PACE_TEXTS) {
                check(stop)?;
            }
            let mut text = Vec::new();
            fold(texts.bytes(number), &mut text);
            folded.push((text, number));
        }
        // Words are numbered in this order already, and sorting sees that.
        folded.par_sort();
        Ok(Some(TextOrder::Folded(dense_ranks(&folded).into())))
    })
}

/// For each number below `count`, which is below 2^32, its place in the order that `compare` says; equal ones have one place.
///
/// # Errors
/// If the query has to end.
pub(super) fn ranks(
    count: usize,
    compare: impl Fn(u32, u32) -> Ordering + Send + Sync,
    context: &Context,
) -> Result<Vec<u32>> {
    where_rows_are_sorted(count, &context.pool, &context.interrupt, |stop| {
        let mut numbers: Vec<u32> = (0..count as u32).collect();
        if count < RADIX_ROWS_MIN {
            numbers.sort_unstable_by(|&left, &right| compare(left, right));
        } else {
            numbers.par_sort_unstable_by(|&left, &right| compare(left, right));
        }
        check(stop)?;
        let mut ranks = vec![0; count];
        let mut rank = 0;
        for (place, &number) in numbers.iter().enumerate() {
            if place > 0 && compare(numbers[place - 1], number).is_ne() {
                rank += 1;
            }
            ranks[number as usize] = rank;
        }
        Ok(ranks)
    })
}

/// The rank of each number, whose keys come in order: equal ones have one, and ranks have no gaps.
fn dense_ranks(sorted: &[(Vec<u8>, u32)]) -> Vec<u32> {
    let mut ranks = vec![0; sorted.len()];
    let mut rank = 0;
    for (index, (key, number)) in sorted.iter().enumerate() {
        if index > 0 && *key != sorted[index - 1].0 {
            rank += 1;
        }
        ranks[*number as usize] = rank;
    }
    ranks
}
