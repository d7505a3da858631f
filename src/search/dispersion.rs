//! How hits are spread: measures of dispersion, and the hits of each part of a corpus.
//!
//! Invariant: every part counts, also one without hits; a part without words is none. Hits are at the place of their first word,
//! and places of the corpus follow each other in order of file. Hits are counted first, then their places read some at a time.

use std::sync::Arc;

use zipfdb_search::measures::{
    PartDispersion, PartMeasures, PartTotals, PositionDispersion, PositionMeasures,
};

use super::spans::{HitPages, SpanSearch};
use crate::Result;
use crate::answer::CorpusView;
use crate::answer::access_path::Run;

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

/// The parts of a corpus, without hits.
fn empty_parts(view: &CorpusView, parts: CorpusParts) -> Vec<PartHits> {
    let total = view.total_words();
    match parts {
        CorpusParts::Files => (0..)
            .zip(view.files())
            .zip(file_starts(view))
            .filter(|((_, file), _)| file.words > 0)
            .map(|((file, summary), position)| PartHits {
                file: Some(file),
                position,
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
    }
}

/// Calls `visit` with the place of each hit in the corpus, in order. Hits are held for some files at a time.
fn visit_places(search: &Arc<SpanSearch>, run: Run<'_>, mut visit: impl FnMut(u64)) -> Result<()> {
    let view = search.view();
    let starts = file_starts(view);
    let files: Vec<u32> = (0..view.files().len() as u32).collect();
    let mut pages = HitPages::new(search.clone(), &files);
    while let Some(hits) = pages.next(run)? {
        for hit in hits {
            visit(starts[hit.file as usize] + hit.start);
        }
    }
    Ok(())
}

/// Adds the hits of a query to the parts; returns their number.
fn add_hits(search: &Arc<SpanSearch>, parts: &mut [PartHits], run: Run<'_>) -> Result<u64> {
    if parts.iter().all(|part| part.file.is_some()) {
        let files = parts.iter().filter_map(|part| part.file);
        let counts = search.counts(&files.collect::<Vec<u32>>(), run)?;
        for (part, count) in parts.iter_mut().zip(&counts) {
            part.hits = *count;
        }
        return Ok(counts.iter().sum());
    }
    let (mut part, mut hits) = (0, 0);
    visit_places(search, run, |place| {
        while parts[part].position + parts[part].words <= place {
            part += 1;
        }
        parts[part].hits += 1;
        hits += 1;
    })?;
    Ok(hits)
}

/// The parts of a corpus with the number of hits in each.
///
/// # Errors
/// If a segment is damaged, or the run must end.
pub(crate) fn distribution(
    search: &Arc<SpanSearch>,
    parts: CorpusParts,
    run: Run<'_>,
) -> Result<Vec<PartHits>> {
    let mut found = empty_parts(search.view(), parts);
    add_hits(search, &mut found, run)?;
    Ok(found)
}

/// The measures of the dispersion of hits over parts and over places.
///
/// # Errors
/// If a segment is damaged, or the run must end.
pub(crate) fn dispersion(
    search: &Arc<SpanSearch>,
    parts: CorpusParts,
    run: Run<'_>,
) -> Result<(PartMeasures, PositionMeasures)> {
    let view = search.view();
    let mut found = empty_parts(view, parts);
    let hits = add_hits(search, &mut found, run)?;
    let mut by_parts = PartDispersion::new(PartTotals {
        parts: found.len() as u64,
        size: view.total_words(),
        smallest: found.iter().map(|part| part.words).min().unwrap_or(0),
        hits,
    });
    for part in &found {
        by_parts.add(part.words, part.hits);
    }
    let mut by_places = PositionDispersion::new(view.total_words(), hits);
    visit_places(search, run, |place| by_places.add(place))?;
    Ok((by_parts.finish(), by_places.finish()))
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
