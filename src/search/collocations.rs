//! Words around hits, with measures of association.
//!
//! Invariant: a word counts once for each hit in whose window it stands; a window ends where the file does and does not have the
//! words of the hit.

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
    let view = search.view();
    let word_count = view.vocabulary()?.len();
    search.prepare_all(run)?;
    // Files are numbered by u32. Hits are held for one file at a time, and counts of all words for each task.
    let files = (0..view.files().len() as u32).into_par_iter();
    let files = files.with_min_len(view.files().len().div_ceil(rayon::current_num_threads()));
    let counts = files.try_fold(
        || (0, vec![0; word_count]),
        |(mut node, mut counts): (u64, Vec<u64>), file| {
            let hits = search.hits_of(file, run)?;
            let words = NearWords::around(view, &hits, left, right, run)?;
            for hit in &hits {
                check(run.stop)?;
                let before = words.get(hit.start.saturating_sub(left)..hit.start);
                let after = words.get(hit.end..hit.end.saturating_add(right));
                for &word in before.iter().chain(after) {
                    counts[word as usize] += 1;
                }
            }
            node += hits.len() as u64;
            Ok::<_, Error>((node, counts))
        },
    );
    let (node, counts) = counts.try_reduce(Default::default, |left, right| {
        let (hits, mut left, mut right) = (left.0 + right.0, left.1, right.1);
        if left.len() < right.len() {
            (left, right) = (right, left);
        }
        for (count, more) in left.iter_mut().zip(right) {
            *count += more;
        }
        Ok((hits, left))
    })?;
    let totals = view.totals(run)?;
    let window = if request.has_window_factor {
        request.window.words()
    } else {
        1
    };
    let size = view.total_words();
    let least = request.minimum.max(1);
    let mut found: Vec<MeasuredWord> = counts
        .into_par_iter()
        .enumerate()
        .filter(|&(_, count)| count >= least)
        .map(|(word, count)| {
            let total = totals[word];
            let counts = Contingency {
                pairs: count,
                node,
                collocate: total,
                size,
                window,
            };
            let values = request.measures.iter();
            MeasuredWord {
                // Words are numbered by u32.
                word: word as u32,
                count,
                other_count: total,
                values: values.map(|measure| measure.value(&counts)).collect(),
            }
        })
        .collect();
    sort_by_measure(&mut found);
    Ok(found)
}
