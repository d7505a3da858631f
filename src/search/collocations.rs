//! Words around hits, with measures of association.
//!
//! Invariant: a word counts once for each hit in whose window it stands; a window ends where the file does and does not have the
//! words of the hit.

use std::collections::HashMap;

use rayon::prelude::*;
use zipfdb_search::measures::{AssociationMeasure, ContextWidths, Contingency};

use super::context::NearWords;
use super::spans::SpanSearch;
use super::{MeasuredWord, sort_by_measure};
use crate::answer::access_path::Run;
use crate::runtime::interrupt::check;
use crate::{Error, Result};

/// What is asked of collocations.
pub(crate) struct CollocationRequest {
    pub(crate) window: ContextWidths,
    pub(crate) measures: Vec<AssociationMeasure>,
    /// The least count of a collocate.
    pub(crate) minimum: u64,
    /// Whether windows are expected to have as many more words as they are long.
    pub(crate) has_window_factor: bool,
}

/// The collocates of the hits of a query, by the first measure, greatest first, then by count and word.
///
/// # Errors
/// If a segment is damaged, or the run must end.
pub(crate) fn collocations(
    search: &SpanSearch,
    request: &CollocationRequest,
    run: Run<'_>,
) -> Result<Vec<MeasuredWord>> {
    let (left, right) = (
        u64::from(request.window.left),
        u64::from(request.window.right),
    );
    // Files are numbered by u32. Hits are held for one file at a time.
    let files = 0..search.view().files().len() as u32;
    let counts = files.into_par_iter().map(|file| {
        let hits = search.hits_of(file, run)?;
        let words = NearWords::around(search.view(), &hits, left, right, run)?;
        let mut counts: HashMap<u32, u64> = HashMap::new();
        for hit in &hits {
            check(run.stop)?;
            let before = words.get(hit.start.saturating_sub(left)..hit.start);
            let after = words.get(hit.end..hit.end.saturating_add(right));
            for &word in before.iter().chain(after) {
                *counts.entry(word).or_default() += 1;
            }
        }
        Ok::<_, Error>((hits.len() as u64, counts))
    });
    let (node, counts) = counts.try_reduce(Default::default, |left, right| {
        let (hits, (mut left, mut right)) = (left.0 + right.0, (left.1, right.1));
        if left.len() < right.len() {
            (left, right) = (right, left);
        }
        for (word, count) in right {
            *left.entry(word).or_default() += count;
        }
        Ok((hits, left))
    })?;
    let view = search.view();
    let totals = view.totals(run)?;
    let window = if request.has_window_factor {
        request.window.words()
    } else {
        1
    };
    let size = view.total_words();
    let mut found: Vec<MeasuredWord> = counts
        .into_par_iter()
        .filter(|&(_, count)| count >= request.minimum)
        .map(|(word, count)| {
            let total = totals[word as usize];
            let counts = Contingency {
                pairs: count,
                node,
                collocate: total,
                size,
                window,
            };
            let values = request.measures.iter();
            MeasuredWord {
                word,
                count,
                other_count: total,
                values: values.map(|measure| measure.value(&counts)).collect(),
            }
        })
        .collect();
    sort_by_measure(&mut found);
    Ok(found)
}
