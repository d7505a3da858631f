//! How hits are spread: measures of dispersion, of a query or of every word, and the hits of each part of a corpus.
//!
//! Invariant: every part counts, also one without hits; a part without words is none. Hits are at the place of their first word,
//! and places of the corpus follow each other in order of file. Hits are counted first, then their places read some at a time; where every
//! word is measured, all words are read in order, once.

use std::sync::Arc;

use rayon::prelude::*;
use zipfdb_search::measures::{
    PartDispersion, PartMeasures, PartTotals, PositionDispersion, PositionMeasures,
};

use super::spans::{HitPages, SpanSearch};
use super::subcorpus::{FileGroups, Subcorpus};
use crate::Result;
use crate::answer::access_path::Run;
use crate::answer::{CorpusView, NumberStream};
use crate::runtime::interrupt::check;

/// What a part of a corpus is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartName {
    File(u32),
    /// A group of files.
    Group(u32),
    Slice,
}

/// A part of a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartHits {
    pub(crate) name: PartName,
    /// Words of the corpus before it.
    pub(crate) position: u64,
    pub(crate) words: u64,
    pub(crate) hits: u64,
}

/// What a corpus is divided into.
#[derive(Clone, Copy)]
pub(crate) enum CorpusParts<'a> {
    Files,
    /// The files of each group.
    Groups(&'a FileGroups),
    /// This many parts of as many words, as equal as can be.
    Slices(u64),
}

/// A subcorpus in parts.
struct Divided {
    parts: Vec<PartHits>,
    /// For each file of the subcorpus its part, if parts are of whole files. Files without words may have none.
    part_of: Option<Vec<Option<u32>>>,
}

impl Divided {
    /// The parts of a subcorpus, without hits.
    fn new(view: &CorpusView, of: &Subcorpus, parts: CorpusParts<'_>) -> Divided {
        let mut divided = Divided {
            parts: Vec::new(),
            part_of: None,
        };
        let name_of = |file: u32| match parts {
            CorpusParts::Files => (file, PartName::File(file)),
            CorpusParts::Groups(groups) => {
                let group = groups.numbers[file as usize];
                (group, PartName::Group(group))
            }
            CorpusParts::Slices(_) => (0, PartName::Slice),
        };
        if let CorpusParts::Slices(slices) = parts {
            let slices = slices.min(of.words);
            let bound = |slice: u64| {
                (u128::from(slice) * u128::from(of.words) / u128::from(slices.max(1))) as u64
            };
            divided.parts.extend((0..slices).map(|slice| PartHits {
                name: PartName::Slice,
                position: bound(slice),
                words: bound(slice + 1) - bound(slice),
                hits: 0,
            }));
            return divided;
        }
        let mut known: Vec<Option<u32>> = vec![None; view.files().len()];
        let mut before = 0;
        let part_of = of.files.iter().map(|&file| {
            let (number, name) = name_of(file);
            let words = view.files()[file as usize].words;
            if words > 0 {
                let part = *known[number as usize].get_or_insert_with(|| {
                    divided.parts.push(PartHits {
                        name,
                        position: before,
                        words: 0,
                        hits: 0,
                    });
                    // At most one for each file, which are numbered by u32.
                    divided.parts.len() as u32 - 1
                });
                divided.parts[part as usize].words += words;
            }
            before += words;
            known[number as usize]
        });
        divided.part_of = Some(part_of.collect());
        divided
    }

    /// The measures of the parts, of this many hits.
    fn dispersion(&self, size: u64, hits: u64) -> PartDispersion {
        PartDispersion::new(PartTotals {
            parts: self.parts.len() as u64,
            size,
            smallest: self.parts.iter().map(|part| part.words).min().unwrap_or(0),
            hits,
        })
    }

    /// Adds the hits of a query; returns their number.
    fn add_hits(&mut self, search: &Arc<SpanSearch>, of: &Subcorpus, run: Run<'_>) -> Result<u64> {
        let parts = &mut self.parts;
        if let Some(part_of) = &self.part_of {
            let counts = search.counts(&of.files, run)?;
            for (part, count) in part_of.iter().zip(&counts) {
                if let Some(part) = part {
                    parts[*part as usize].hits += count;
                }
            }
            return Ok(counts.iter().sum());
        }
        let (mut part, mut hits) = (0, 0);
        visit_places(search, of, run, |place| {
            while parts[part].position + parts[part].words <= place {
                part += 1;
            }
            parts[part].hits += 1;
            hits += 1;
        })?;
        Ok(hits)
    }
}

/// Calls `visit` with the place of each hit in the subcorpus, in order. Hits are held for some files at a time.
fn visit_places(
    search: &Arc<SpanSearch>,
    of: &Subcorpus,
    run: Run<'_>,
    mut visit: impl FnMut(u64),
) -> Result<()> {
    let starts = of.starts(search.view());
    let mut pages = HitPages::new(search.clone(), &of.files);
    while let Some(hits) = pages.next(run)? {
        for hit in hits {
            visit(starts[hit.file as usize] + hit.start);
        }
    }
    Ok(())
}

/// The parts of a subcorpus with the number of hits in each.
///
/// # Errors
/// If a segment is damaged, or the run must end.
pub(crate) fn distribution(
    search: &Arc<SpanSearch>,
    of: &Subcorpus,
    parts: CorpusParts<'_>,
    run: Run<'_>,
) -> Result<Vec<PartHits>> {
    let mut divided = Divided::new(search.view(), of, parts);
    divided.add_hits(search, of, run)?;
    Ok(divided.parts)
}

/// The measures of the dispersion of hits over parts and over places.
///
/// # Errors
/// If a segment is damaged, or the run must end.
pub(crate) fn dispersion(
    search: &Arc<SpanSearch>,
    of: &Subcorpus,
    parts: CorpusParts<'_>,
    run: Run<'_>,
) -> Result<(PartMeasures, PositionMeasures)> {
    let mut divided = Divided::new(search.view(), of, parts);
    let hits = divided.add_hits(search, of, run)?;
    let mut by_parts = divided.dispersion(of.words, hits);
    for part in &divided.parts {
        by_parts.add(part.words, part.hits);
    }
    let mut by_places = PositionDispersion::new(of.words, hits);
    visit_places(search, of, run, |place| by_places.add(place))?;
    Ok((by_parts.finish(), by_places.finish()))
}

/// The dispersion of a word.
pub(crate) struct WordDispersion {
    pub(crate) word: u32,
    pub(crate) by_parts: PartMeasures,
    pub(crate) by_places: PositionMeasures,
}

/// Words that are read at a time.
const READ_WORDS: usize = 1 << 16;

/// Bytes of what is known of a word, about.
pub(crate) const WORD_BYTES: u64 = 2 * (size_of::<WordState>() as u64 + 8);

/// The tasks that read words; a fixed number, as measures are sums of floating-point numbers.
const TASKS: u64 = 2;

/// What is known of a word while all words are read.
#[derive(Clone)]
struct WordState {
    places: PositionDispersion,
    parts: PartDispersion,
    /// The part of the last occurrence, and the occurrences in it so far.
    part: u32,
    in_part: u64,
}

impl WordState {
    /// Visits the occurrences in the last part.
    fn end_part(&mut self, parts: &[PartHits]) {
        if self.in_part > 0 {
            let size = parts[self.part as usize].words;
            self.parts.add(size, self.in_part);
        }
        self.in_part = 0;
    }
}

/// The dispersion of every word of a subcorpus over files, or over slices, in the order of the dictionary. All words are read once.
///
/// # Errors
/// If a segment is damaged, or the run must end.
pub(crate) fn dispersion_of_words(
    view: &Arc<CorpusView>,
    of: &Subcorpus,
    parts: CorpusParts<'_>,
    run: Run<'_>,
) -> Result<Vec<WordDispersion>> {
    let divided = Divided::new(view, of, parts);
    let totals = of.totals(view, run)?;
    // Tasks are of whole parts, so that each is visited once.
    let tasks = if divided.part_of.is_some() { TASKS } else { 1 };
    let starts = of.starts(view);
    // A file without words may be behind all words.
    let task_of = |file: u32| (starts[file as usize] * tasks / of.words.max(1)).min(tasks - 1);
    let files: Vec<&[u32]> = (of.files)
        .chunk_by(|left, right| task_of(*left) == task_of(*right))
        .collect();
    let read = files.into_par_iter().map(|files| {
        let new = |&hits: &u64| WordState {
            places: PositionDispersion::new(of.words, hits),
            parts: divided.dispersion(of.words, hits),
            part: 0,
            in_part: 0,
        };
        let mut states: Vec<WordState> = totals.iter().map(new).collect();
        let first = files.first().map_or(0, |&file| starts[file as usize]);
        let mut part = divided
            .parts
            .partition_point(|part| part.position + part.words <= first);
        let mut stream = NumberStream::within(view.clone(), files.to_vec(), 0..=u64::MAX);
        loop {
            check(run.stop)?;
            let read = stream.read(READ_WORDS)?;
            if read.words.is_empty() {
                break;
            }
            let first = starts[read.file as usize] + read.position;
            for (place, word) in (first..).zip(read.words) {
                while let Some(ended) = divided.parts.get(part)
                    && ended.position + ended.words <= place
                {
                    part += 1;
                }
                let state = &mut states[word as usize];
                // There are at most as many parts as words, which are numbered by u32 in a segment.
                if state.part != part as u32 {
                    state.end_part(&divided.parts);
                    state.part = part as u32;
                }
                state.in_part += 1;
                state.places.add(place);
            }
        }
        states
            .iter_mut()
            .for_each(|state| state.end_part(&divided.parts));
        Ok(states)
    });
    let mut read = read.collect::<Result<Vec<_>>>()?.into_iter();
    let Some(mut states) = read.next() else {
        return Ok(Vec::new());
    };
    for later in read {
        for (state, later) in states.iter_mut().zip(later) {
            state.places.join(later.places);
            state.parts.join(&later.parts);
        }
    }
    // Words are numbered by u32.
    let measured = (0..).zip(states).zip(totals);
    let measured = measured.filter(|(_, hits)| *hits > 0);
    let measured = measured.map(|((word, state), _)| WordDispersion {
        word,
        by_parts: state.parts.finish(),
        by_places: state.places.finish(),
    });
    Ok(measured.collect())
}
