//! Terms of a query for files: where the words, phrases and NEARs stand that it asks for.
//!
//! Invariant: hits of a term are those of its span, so counts, units and excerpts agree. Hits of one word are found by the places
//! of that word; only a pattern of many words reads all words of a file.

use std::ops::Range;
use std::sync::Arc;

use zipfdb_search::algebra::{SpanQuery, Strategy, WordTest};
use zipfdb_search::simple::FileQuery;

use super::query_error;
use super::spans::SpanSearch;
use super::words::passing;
use super::{context, hit::Hit};
use crate::Result;
use crate::answer::CorpusView;
use crate::answer::access_path::Run;

/// More words than this are counted together by a pass over all words of the files.
const COUNTED_WORDS_MAX: usize = 256;

/// Places of more words than this are found by reading all words of a file.
const PLACED_WORDS_MAX: usize = 64;

/// A term that was prepared for a corpus.
pub(super) struct TermSearch {
    view: Arc<CorpusView>,
    kind: TermKind,
}

enum TermKind {
    /// One of these words, ascending.
    Words(Vec<u32>),
    Span {
        search: Box<SpanSearch>,
        /// What of a hit is marked; nothing: all of it.
        parts: Vec<TermSearch>,
    },
}

impl TermSearch {
    /// Prepares a word, phrase or NEAR.
    ///
    /// # Errors
    /// If it is wrong, a segment is damaged, or the run must end.
    pub(super) fn new(
        view: &Arc<CorpusView>,
        query: &FileQuery,
        run: Run<'_>,
    ) -> Result<TermSearch> {
        let term = |query: &FileQuery| TermSearch::new(view, query, run);
        let parts = match query {
            FileQuery::Word(test) => {
                let words = passing(view, &WordTest::Text(test.clone()), run)?;
                let kind = TermKind::Words(words);
                return Ok(TermSearch {
                    view: view.clone(),
                    kind,
                });
            }
            FileQuery::Phrase { words, slop } if *slop > 0 => {
                let words = words.iter().cloned().map(FileQuery::Word);
                words.map(|word| term(&word)).collect::<Result<_>>()?
            }
            FileQuery::Near { phrases, .. } => {
                let phrases = phrases.iter().map(|words| match &words[..] {
                    [word] => FileQuery::Word(word.clone()),
                    words => FileQuery::Phrase {
                        words: words.to_vec(),
                        slop: 0,
                    },
                });
                phrases.map(|phrase| term(&phrase)).collect::<Result<_>>()?
            }
            _ => Vec::new(),
        };
        let Some(span) = query.span() else {
            return Err(query_error("a part of it is no span"));
        };
        let query = SpanQuery {
            span,
            constraint: None,
            strategy: Strategy::Shortest,
            show: None,
        };
        let search = Box::new(SpanSearch::new(view, query, run)?);
        Ok(TermSearch {
            view: view.clone(),
            kind: TermKind::Span { search, parts },
        })
    }

    /// For each file the number of its hits.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(super) fn counts(&self, run: Run<'_>) -> Result<Vec<u64>> {
        let (view, files) = (&self.view, self.view.files().len());
        match &self.kind {
            TermKind::Words(words) if words.is_empty() => Ok(vec![0; files]),
            TermKind::Words(words) if words.len() > COUNTED_WORDS_MAX => {
                let mut in_set = vec![false; view.vocabulary()?.len()];
                words.iter().for_each(|&word| in_set[word as usize] = true);
                view.word_set_counts(&in_set, run)
            }
            TermKind::Words(words) => {
                let texts = words.iter().map(|&word| view.word(word).to_vec());
                view.files_of_words(&texts.collect::<Vec<_>>(), run)
            }
            TermKind::Span { search, .. } => {
                // Files are numbered by u32.
                let all: Vec<u32> = (0..files as u32).collect();
                search.counts(&all, run)
            }
        }
    }

    /// The ranges of words of a file that are hits, by start.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(super) fn hits(&self, file: u32, run: Run<'_>) -> Result<Vec<Range<u64>>> {
        let words = match &self.kind {
            TermKind::Words(words) => words,
            TermKind::Span { search, .. } => {
                let hits = search.hits_of(file, run)?.into_iter();
                return Ok(hits.map(|Hit { start, end, .. }| start..end).collect());
            }
        };
        let mut places: Vec<u64> = Vec::new();
        if words.len() <= PLACED_WORDS_MAX {
            for &word in words {
                places.extend(self.view.positions_of(file as usize, word, run)?);
            }
            places.sort_unstable();
        } else {
            let length = self.view.files()[file as usize].words;
            let read = context::read(&self.view, file, 0..length, run)?;
            let found = (0..).zip(read);
            let found = found.filter(|(_, word)| words.binary_search(word).is_ok());
            places.extend(found.map(|(place, _): (u64, _)| place));
        }
        Ok(places.into_iter().map(|place| place..place + 1).collect())
    }

    /// The ranges of words of a file that are marked for some of its hits, in any order.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(super) fn marks(
        &self,
        file: u32,
        hits: &[Range<u64>],
        run: Run<'_>,
    ) -> Result<Vec<Range<u64>>> {
        let parts = match &self.kind {
            TermKind::Span { parts, .. } if !parts.is_empty() => parts,
            _ => return Ok(hits.to_vec()),
        };
        let mut marks = Vec::new();
        for part in parts {
            let found = part.hits(file, run)?.into_iter();
            // Starts of hits ascend, their ends need not.
            let mut open: &[Range<u64>] = hits;
            marks.extend(found.filter(|mark| {
                while open.first().is_some_and(|hit| hit.end <= mark.start) {
                    open = &open[1..];
                }
                let before = open.partition_point(|hit| hit.start <= mark.start);
                open[..before].iter().any(|hit| mark.end <= hit.end)
            }));
        }
        Ok(marks)
    }
}
