//! N-grams with their counts in order of their texts, or of their counts.
//!
//! Invariant: parts are joined in memory and sorted by numbers, all at once by all threads: the ranks of words compare as their
//! texts. N-grams with equal counts and without ranks keep the order of their parts, as where a device sorts them. There are
//! fewer than 2^32.

use std::mem;
use std::sync::Arc;

use rayon::prelude::*;

use super::super::number_keys::{sorted_by_counts, sorted_ngrams, where_rows_are_sorted};
use super::ngram_cursor::{MakeRows, NgramCursor};
use super::rows::RowCursor;
use super::scan_spec::ScanSpec;
use crate::Result;
use crate::answer::{NgramOrder, NgramsPart, WithCounts};
use crate::batch::BATCH_ROWS;
use crate::runtime::interrupt::check;

/// N-grams whose rows are made at a time.
const NGRAMS_AHEAD: usize = 4 * BATCH_ROWS;

/// N-grams of all parts.
struct JoinedNgrams {
    /// `[n-grams * n]`
    words: Vec<u32>,
    /// `[n-grams]`
    counts: Vec<u64>,
    /// The numbers of n-grams.
    order: Vec<u32>,
}

/// The rows of n-grams in an order, from parts that are in the order of their words' numbers.
///
/// # Errors
/// If the statement must end.
pub(super) fn rows_of(
    question: &Arc<ScanSpec>,
    parts: Vec<NgramsPart<WithCounts>>,
    order: &NgramOrder,
) -> Result<Box<dyn RowCursor>> {
    let n = question.asked.n;
    let rows: usize = parts.iter().map(NgramsPart::len).sum();
    let mut reservation = question.context.reservation();
    reservation.cover(rows * (n * size_of::<u32>() + size_of::<u64>() + size_of::<u32>()));
    let (pool, interrupt) = (question.view().pool(), question.interrupt());
    let joined = where_rows_are_sorted(rows, pool, interrupt, |stop| {
        let (mut words, mut counts) = (vec![0; rows * n], vec![0; rows]);
        let (mut words_left, mut counts_left) = (&mut words[..], &mut counts[..]);
        let places = parts.into_iter().map(|part| {
            let (words, counts);
            (words, words_left) = mem::take(&mut words_left).split_at_mut(part.len() * n);
            (counts, counts_left) = mem::take(&mut counts_left).split_at_mut(part.len());
            (part, words, counts)
        });
        let places: Vec<_> = places.collect();
        let copied = places.into_par_iter().map(|(part, words, counts)| {
            check(stop)?;
            let part = part.into_plain();
            words.copy_from_slice(&part.words);
            part.counts.copy_to(counts);
            Ok(())
        });
        copied.collect::<Result<()>>()?;
        let order = match order.keys() {
            (None, ranks) => sorted_ngrams(&words, n, ranks.unwrap_or_default(), stop)?,
            (Some(descending), ranks) => {
                sorted_by_counts(&words, n, &counts, (descending, ranks), stop)?
            }
        };
        Ok(JoinedNgrams {
            words,
            counts,
            order,
        })
    })?;
    let (joined, mut next) = (Arc::new(joined), 0);
    Ok(NgramCursor::boxed(
        question,
        question.work_ahead(),
        move || {
            let _held = &reservation;
            let places = next..joined.order.len().min(next + NGRAMS_AHEAD);
            if places.is_empty() {
                return Ok(None);
            }
            next = places.end;
            let joined = joined.clone();
            let make: MakeRows = Box::new(move |matcher, made| {
                for &ngram in &joined.order[places] {
                    let ngram = ngram as usize;
                    let words = &joined.words[ngram * n..(ngram + 1) * n];
                    if matcher.passes(words)? {
                        made.with_room()
                            .push_counted(words, 0, joined.counts[ngram]);
                    }
                }
                Ok(())
            });
            Ok(Some(make))
        },
    ))
}
