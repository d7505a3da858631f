//! Terms of a query for files: which files have the words, phrases and NEARs that it asks for, and where.
//!
//! Invariant: hits of a term are those of its span, so counts, units and excerpts agree. Only files that have all words of a
//! phrase or NEAR are searched for it.

use std::ops::Range;
use std::sync::Arc;

use zipfdb_search::algebra::{SpanQuery, Strategy, TextTest};
use zipfdb_search::measures::Bm25Word;
use zipfdb_search::simple::FileQuery;

use super::file_postings::{BlockCursors, FilePostings, files_of};
use super::formula::{FileSets, Formula};
use super::hit::Hit;
use super::known_terms::{KnownTerm, PostingScores, TermSource};
use super::phrases::PhraseSearch;
use super::query_error;
use super::spans::SpanSearch;
use crate::Result;
use crate::answer::CorpusView;
use crate::answer::access_path::Run;

/// A term that was prepared for a corpus.
pub(super) struct TermSearch {
    view: Arc<CorpusView>,
    kind: TermKind,
}

enum TermKind {
    Word(Arc<KnownTerm>),
    Phrase {
        search: PhraseSearch,
        postings: FilePostings,
    },
    Span {
        /// None where no file has all words.
        search: Option<Box<SpanSearch>>,
        /// What of a hit is marked.
        parts: Vec<TermSearch>,
        postings: FilePostings,
    },
}

impl TermSearch {
    /// Prepares a word, phrase or NEAR: finds the files that have it. None if that is not known from what is kept, and nothing else
    /// may be asked.
    ///
    /// # Errors
    /// If it is wrong, a segment is damaged, or the run must end.
    pub(super) fn new(source: TermSource<'_>, query: &FileQuery) -> Result<Option<TermSearch>> {
        let made = |kind| TermSearch {
            view: source.view.clone(),
            kind,
        };
        let terms = |tests: &[TextTest]| {
            let terms = tests.iter().map(|test| source.term(test));
            terms.collect::<Result<Option<Vec<Arc<KnownTerm>>>>>()
        };
        let (words, parts): (Vec<&TextTest>, Vec<FileQuery>) = match query {
            FileQuery::Word(test) => {
                let found = source.term(test)?;
                return Ok(found.map(|term| made(TermKind::Word(term))));
            }
            FileQuery::Phrase { words, slop: 0 } => {
                let Some(found) = terms(words)? else {
                    return Ok(None);
                };
                let search = PhraseSearch::new(found);
                let postings = search.postings(source)?;
                return Ok(postings.map(|postings| made(TermKind::Phrase { search, postings })));
            }
            FileQuery::Phrase { words, .. } => {
                let parts = words.iter().cloned().map(FileQuery::Word);
                (words.iter().collect(), parts.collect())
            }
            FileQuery::Near { phrases, .. } => {
                let parts = phrases.iter().map(|words| match &words[..] {
                    [word] => FileQuery::Word(word.clone()),
                    words => FileQuery::Phrase {
                        words: words.to_vec(),
                        slop: 0,
                    },
                });
                (phrases.iter().flatten().collect(), parts.collect())
            }
            _ => (Vec::new(), Vec::new()),
        };
        let Some(span) = query.span() else {
            return Err(query_error("a part of it is no span"));
        };
        let words = words.into_iter().map(|test| source.term(test));
        let Some(words) = words.collect::<Result<Option<Vec<_>>>>()? else {
            return Ok(None);
        };
        let files = common_files(source.view, &words);
        let none = TermKind::Span {
            search: None,
            parts: Vec::new(),
            postings: FilePostings::default(),
        };
        if files.is_empty() {
            return Ok(Some(made(none)));
        }
        let Some(run) = source.run else {
            return Ok(None);
        };
        let query = SpanQuery {
            span,
            constraint: None,
            strategy: Strategy::Shortest,
            show: None,
        };
        let search = SpanSearch::new(source.view, query, run)?;
        let counts = files.iter().copied().zip(search.counts(&files, run)?);
        let postings = counts.filter(|(_, count)| *count > 0).collect();
        let parts = parts.iter().map(|part| TermSearch::new(source, part));
        Ok(Some(made(TermKind::Span {
            search: Some(Box::new(search)),
            parts: parts
                .collect::<Result<Option<Vec<TermSearch>>>>()?
                .unwrap_or_default(),
            postings,
        })))
    }

    /// The files that have it, with the number of its hits.
    pub(super) fn postings(&self) -> &FilePostings {
        match &self.kind {
            TermKind::Word(term) => term.postings(),
            TermKind::Phrase { postings, .. } | TermKind::Span { postings, .. } => postings,
        }
    }

    /// The scores of these files.
    pub(super) fn scores(&self, source: TermSource<'_>, word: Bm25Word) -> Arc<PostingScores> {
        match &self.kind {
            TermKind::Word(term) => source.scores(term, word),
            TermKind::Phrase { postings, .. } | TermKind::Span { postings, .. } => {
                Arc::new(PostingScores::new(&self.view, postings, word))
            }
        }
    }

    /// The ranges of words of a file that are hits, by start.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(super) fn hits(&self, file: u32, run: Run<'_>) -> Result<Vec<Range<u64>>> {
        if self.postings().place_of(file).is_none() {
            return Ok(Vec::new());
        }
        let starts = match &self.kind {
            TermKind::Word(term) => term.places(&self.view, file, run)?,
            TermKind::Phrase { search, .. } => {
                let mut starts = Vec::new();
                search.starts(&self.view, file, &mut starts, run)?;
                starts
            }
            TermKind::Span { search: None, .. } => Vec::new(),
            TermKind::Span {
                search: Some(search),
                ..
            } => {
                let hits = search.hits_of(file, run)?.into_iter();
                return Ok(hits.map(|Hit { start, end, .. }| start..end).collect());
            }
        };
        let length = match &self.kind {
            TermKind::Phrase { search, .. } => search.length(),
            _ => 1,
        };
        let starts = starts.into_iter();
        Ok(starts.map(|start| start..start + length).collect())
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

/// The files that have all of some words, ascending.
fn common_files(view: &CorpusView, words: &[Arc<KnownTerm>]) -> Vec<u32> {
    let mut sets = FileSets {
        terms: BlockCursors::new(words.iter().map(|word| word.postings())),
        names: &[],
        // Files are numbered by u32.
        files: view.files().len() as u32,
    };
    let all = Formula::All((0..words.len()).map(Formula::Term).collect());
    let (mut files, mut from) = (Vec::new(), 0);
    while let Some((block, common)) = all.next_files(from, &mut sets) {
        files.extend(files_of(block, common));
        from = block + 1;
    }
    files
}
