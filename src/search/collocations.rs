//! Words around hits, with measures of association.
//!
//! Invariant: a word counts once for each hit in whose window it stands; a window ends where the file does and does not have the
//! words of the hit. Where hits are words that are not rare, windows are counted on the grammar: every body once, times the
//! occurrences of its rule. Around other hits, and in files with pending edits or of several parts, words are read.
//!
//! Why both: `"the"` has 1.1 million hits in rfc_txt, and reading their windows takes two threads 700 ms, while a pass over the grammar
//! takes the same for any word, so that of a rare one the few windows are read.

use rayon::prelude::*;
use zipfdb_kernels::NEAR_WORDS_MAX;
use zipfdb_search::measures::{AssociationMeasure, ContextWidths, Contingency};

use super::spans::SpanSearch;
use super::subcorpus::Subcorpus;
use super::{MeasuredWord, sort_by_measure};
use crate::answer::NearCounts;
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

/// Reading the window of a hit takes about as long as reading this many symbols of a grammar.
const WINDOW_SYMBOLS: u64 = 64;

/// The collocates of the hits of a query in a subcorpus, by the first measure, greatest first, then by count and word.
///
/// # Errors
/// If a segment is damaged, or the run must end.
pub(crate) fn collocations(
    search: &SpanSearch,
    of: &Subcorpus,
    request: &CollocationRequest,
    run: Run<'_>,
) -> Result<Vec<MeasuredWord>> {
    let view = search.view();
    let totals = of.totals(view, run)?;
    let by_grammar = count_on_grammar(search, of, (request.window, &totals), run)?;
    let (node, counts) = match by_grammar {
        None => count_windows(search, &of.files, request.window, run)?,
        Some((node, NearCounts { mut counts, left })) => {
            let (_, more) = count_windows(search, &left, request.window, run)?;
            add(&mut counts, more);
            (node, counts)
        }
    };
    let window = if request.has_window_factor {
        request.window.words()
    } else {
        1
    };
    let size = of.words;
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

/// The number of hits, and how often words stand near them, by the grammar, as far as it has the files; none where windows are better
/// read.
fn count_on_grammar(
    search: &SpanSearch,
    of: &Subcorpus,
    (window, totals): (ContextWidths, &[u64]),
    run: Run<'_>,
) -> Result<Option<(u64, NearCounts)>> {
    let view = search.view();
    let reach = (window.left as usize, window.right as usize);
    let Some(is_hit) = search
        .hit_words()
        .filter(|_| reach.0.max(reach.1) <= NEAR_WORDS_MAX)
    else {
        return Ok(None);
    };
    let hits = totals.iter().zip(&is_hit).filter(|(_, is_hit)| **is_hit);
    let hits = hits.map(|(count, _)| count).sum::<u64>();
    if hits.saturating_mul(WINDOW_SYMBOLS) < view.symbols() {
        return Ok(None);
    }
    let found = view.near_word_counts(&of.files, &is_hit, reach, run)?;
    Ok(Some((hits, found)))
}

/// The number of hits in some files, and how often each word stands in their windows, which are read.
fn count_windows(
    search: &SpanSearch,
    files: &[u32],
    window: ContextWidths,
    run: Run<'_>,
) -> Result<(u64, Vec<u64>)> {
    let (left, right) = (u64::from(window.left), u64::from(window.right));
    let word_count = search.view().vocabulary()?.len();
    if files.is_empty() {
        return Ok((0, vec![0; word_count]));
    }
    search.prepare_all(run)?;
    // Hits are held for one file at a time, and counts of all words for each task.
    let tasks = files.len().div_ceil(rayon::current_num_threads());
    let counts = files.par_iter().with_min_len(tasks).try_fold(
        || (0, vec![0; word_count]),
        |(mut node, mut counts): (u64, Vec<u64>), &file| {
            let (hits, words) = search.hits_in_context(file, (left, right), run)?;
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
    counts.try_reduce(Default::default, |left, right| {
        let (hits, mut left, mut right) = (left.0 + right.0, left.1, right.1);
        if left.len() < right.len() {
            (left, right) = (right, left);
        }
        add(&mut left, right);
        Ok((hits, left))
    })
}

fn add(counts: &mut [u64], more: Vec<u64>) {
    for (count, more) in counts.iter_mut().zip(more) {
        *count += more;
    }
}
