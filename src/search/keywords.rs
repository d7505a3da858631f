//! Words that are more frequent in one corpus, or in some of its files, than in another.
//!
//! Invariant: words are compared by their bytes; a word that one side lacks counts zero there.

use rayon::prelude::*;
use zipfdb_search::measures::{KeynessCounts, KeynessMeasure, SIMPLE_MATHS_SMOOTHING};

use super::subcorpus::Subcorpus;
use super::{MeasuredWord, sort_by_measure};
use crate::Result;
use crate::answer::CorpusView;
use crate::answer::access_path::Run;

/// The sizes of both sides in words, and the words of the first, by the first measure, greatest first, then by count and word.
pub(crate) struct Keywords {
    pub(crate) size: u64,
    pub(crate) reference_size: u64,
    pub(crate) words: Vec<MeasuredWord>,
}

/// What the words of a corpus are compared with.
pub(crate) enum Reference<'a> {
    /// Another corpus.
    Corpus(&'a CorpusView),
    /// The other files of the same corpus.
    Rest,
}

/// Compares the words of a subcorpus with those of a reference. Words with fewer than `minimum` occurrences
/// in the files are left out.
///
/// # Errors
/// If a segment is damaged, or the run must end.
pub(crate) fn keywords(
    view: &CorpusView,
    of: &Subcorpus,
    reference: &Reference<'_>,
    measures: &[KeynessMeasure],
    minimum: u64,
    run: Run<'_>,
) -> Result<Keywords> {
    let (counts, size) = (of.totals(view, run)?, of.words);
    let (other, reference_size) = match reference {
        Reference::Rest => {
            let all = view.totals(run)?.into_iter();
            let rest = all.zip(&counts).map(|(all, count)| all - count);
            (rest.collect(), view.total_words() - size)
        }
        Reference::Corpus(corpus) => {
            let totals = corpus.totals(run)?;
            let words = corpus.vocabulary()?;
            let text = view.words();
            // Words are numbered by u32.
            let found = (0..counts.len() as u32).into_par_iter().map(|word| {
                let found = words.find(text(word))?;
                Ok(found.map_or(0, |word| totals[word as usize]))
            });
            (found.collect::<Result<Vec<u64>>>()?, corpus.total_words())
        }
    };
    let least = minimum.max(1);
    let mut words: Vec<MeasuredWord> = (0..counts.len())
        .into_par_iter()
        .filter(|&word| counts[word] >= least)
        .map(|word| {
            let known = KeynessCounts {
                target: counts[word],
                target_size: size,
                reference: other[word],
                reference_size,
            };
            let values = measures.iter();
            MeasuredWord {
                word: word as u32,
                count: counts[word],
                other_count: other[word],
                values: values
                    .map(|measure| measure.value(&known, SIMPLE_MATHS_SMOOTHING))
                    .collect(),
            }
        })
        .collect();
    sort_by_measure(&mut words);
    Ok(Keywords {
        size,
        reference_size,
        words,
    })
}
