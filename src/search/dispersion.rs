//! How hits are spread: measures of dispersion, and the hits of each part of a corpus.
//!
//! Invariant: every part counts, also one without hits; a part without words is none. Hits are at the place of their first word,
//! and places of the corpus follow each other in order of file.

use zipfdb_search::measures::{
    PartDispersion, PartMeasures, PartTotals, PositionDispersion, PositionMeasures,
};

use super::hit::Hit;
use crate::answer::CorpusView;

/// A part of a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartHits {
    /// The file that it is; none for a slice.
    pub(crate) file: Option<u32>,
    /// Words of the corpus before it.
    pub(crate) position: u64,
    pub(crate) words: u64,
    pub(crate) hits: u64,
}

/// What a corpus is divided into.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CorpusParts {
    Files,
    /// This many parts of as many words, as equal as can be.
    Slices(u64),
}

/// The parts of a corpus with the number of hits in each. `hits` are in order.
pub(crate) fn distribution(view: &CorpusView, hits: &[Hit], parts: CorpusParts) -> Vec<PartHits> {
    let starts = file_starts(view);
    let total = view.total_words();
    let mut found: Vec<PartHits> = match parts {
        CorpusParts::Files => (0..)
            .zip(view.files())
            .filter(|(_, file)| file.words > 0)
            .map(|(file, summary)| PartHits {
                file: Some(file),
                position: starts[file as usize],
                words: summary.words,
                hits: 0,
            })
            .collect(),
        CorpusParts::Slices(slices) => {
            let slices = slices.min(total);
            let bound = |slice: u64| {
                (u128::from(slice) * u128::from(total) / u128::from(slices.max(1))) as u64
            };
            (0..slices)
                .map(|slice| PartHits {
                    file: None,
                    position: bound(slice),
                    words: bound(slice + 1) - bound(slice),
                    hits: 0,
                })
                .collect()
        }
    };
    let mut part = 0;
    for hit in hits {
        let place = starts[hit.file as usize] + hit.start;
        while found[part].position + found[part].words <= place {
            part += 1;
        }
        found[part].hits += 1;
    }
    found
}

/// The measures of the dispersion of hits over parts and over places. `hits` are in order.
pub(crate) fn dispersion(
    view: &CorpusView,
    hits: &[Hit],
    parts: CorpusParts,
) -> (PartMeasures, PositionMeasures) {
    let found = distribution(view, hits, parts);
    let mut by_parts = PartDispersion::new(PartTotals {
        parts: found.len() as u64,
        size: view.total_words(),
        smallest: found.iter().map(|part| part.words).min().unwrap_or(0),
        hits: hits.len() as u64,
    });
    for part in &found {
        by_parts.add(part.words, part.hits);
    }
    let starts = file_starts(view);
    let mut by_places = PositionDispersion::new(view.total_words(), hits.len() as u64);
    for hit in hits {
        by_places.add(starts[hit.file as usize] + hit.start);
    }
    (by_parts.finish(), by_places.finish())
}

/// For each file the words of the corpus before it.
fn file_starts(view: &CorpusView) -> Vec<u64> {
    let mut before = 0;
    let files = view.files().iter();
    files
        .map(|file| {
            before += file.words;
            before - file.words
        })
        .collect()
}
