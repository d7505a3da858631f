//! Words around hits, by number.
//!
//! Invariant: a word is read once however many hits it is near to. Where hits are dense the file is read as a whole, else only the
//! ranges around them.

use std::ops::Range;
use std::sync::Arc;

use super::hit::Hit;
use crate::Result;
use crate::answer::access_path::Run;
use crate::answer::{CorpusView, NumberStream};
use crate::runtime::interrupt::check;

/// Ranges that lie nearer than this are read as one: entering a file anew takes about as long.
pub(super) const NEAR_WORDS: u64 = 64;

/// Words that are read at a time.
const READ_WORDS: usize = 1 << 16;

/// The words of a file in some ranges.
pub(crate) struct NearWords {
    /// The first position of each range, ascending, with its words.
    ranges: Vec<(u64, Vec<u32>)>,
}

impl NearWords {
    /// Reads the words of some hits of one file, ascending by start, and those around them.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn around(
        view: &Arc<CorpusView>,
        hits: &[Hit],
        left: u64,
        right: u64,
        run: Run<'_>,
    ) -> Result<NearWords> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for hit in hits {
            let words = view.files()[hit.file as usize].words;
            let (start, end) = (
                hit.start.saturating_sub(left),
                hit.end.saturating_add(right).min(words),
            );
            match ranges.last_mut() {
                Some(last) if start <= last.end + NEAR_WORDS => last.end = last.end.max(end),
                _ => ranges.push(start..end),
            }
        }
        let file = hits.first().map_or(0, |hit| hit.file);
        let read = ranges.into_iter().map(|range| {
            let words = read(view, file, range.clone(), run)?;
            Ok((range.start, words))
        });
        Ok(NearWords {
            ranges: read.collect::<Result<_>>()?,
        })
    }

    /// All words of a file.
    pub(crate) fn all(words: Vec<u32>) -> NearWords {
        NearWords {
            ranges: vec![(0, words)],
        }
    }

    /// The words of a range, as far as they were read.
    pub(crate) fn get(&self, range: Range<u64>) -> &[u32] {
        let after = self
            .ranges
            .partition_point(|(first, _)| *first <= range.start);
        let Some((first, words)) = after.checked_sub(1).map(|at| &self.ranges[at]) else {
            return &[];
        };
        let end = (range.end - first).min(words.len() as u64);
        words
            .get((range.start - first) as usize..end as usize)
            .unwrap_or_default()
    }

    /// The word at a position, if it was read.
    pub(crate) fn word(&self, position: u64) -> Option<u32> {
        self.get(position..position + 1).first().copied()
    }
}

/// The words of a file in a range.
///
/// # Errors
/// If a segment is damaged, or the run must end.
pub(crate) fn read(
    view: &Arc<CorpusView>,
    file: u32,
    range: Range<u64>,
    run: Run<'_>,
) -> Result<Vec<u32>> {
    let wanted = range.end.saturating_sub(range.start) as usize;
    let mut words = Vec::with_capacity(wanted);
    if wanted == 0 {
        return Ok(words);
    }
    let mut stream = NumberStream::within(view.clone(), vec![file], range.start..=range.end - 1);
    while words.len() < wanted {
        check(run.stop)?;
        let mut next = stream.read((wanted - words.len()).min(READ_WORDS))?;
        if next.words.is_empty() {
            break;
        }
        words.append(&mut next.words);
    }
    words.truncate(wanted);
    Ok(words)
}

/// The hits of each file; `hits` are in order of file.
pub(crate) fn by_file(hits: &[Hit]) -> impl Iterator<Item = &[Hit]> {
    hits.chunk_by(|left, right| left.file == right.file)
}
