//! Questions of a `Snapshot` in the languages of search: files or units by rank, spans with the words around them.
//!
//! Invariant: answers are those of `search()`, `hits()` and `concordance()` in SQL, made by the same operations. Nothing is
//! rendered before it is asked for.

use std::sync::Arc;

use zipfdb_search::algebra::{Stemmer, Unit};
use zipfdb_search::cql;
use zipfdb_search::measures::Bm25;
use zipfdb_storage::Tokenizer;

use super::snapshot::Snapshot;
use crate::Result;
use crate::answer::CorpusReader;
use crate::answer::access_path::Run;
use crate::notice::Notice;
use crate::runtime::memory::ValueMemory;
use crate::search::concordance::{HitContext, line};
use crate::search::excerpt::ExcerptStyle;
use crate::search::hit::Hit;
use crate::search::ranking::{Ranked, Ranking};
use crate::search::spans::SpanSearch;
use crate::search::{QueryMode, query_error, read_query};

/// A query in the simple language, with what its answer is of. docs/SEARCH.md describes the language.
///
/// ```
/// use zipfdb::query::{ExcerptStyle, Query, QueryUnit};
/// use zipfdb::{CorpusSettings, Database};
///
/// let db = Database::in_memory()?;
/// let corpus = db.create_corpus("pets", CorpusSettings::default())?;
/// corpus.append("a.txt", "The cat sat. The dog ran after the cat.")?;
/// corpus.append("b.txt", "A dog barks.")?;
///
/// let tokenizer = corpus.settings()?.tokenizer;
/// let found = corpus.snapshot()?.ranked(&Query::new("+dog cat", tokenizer).limit(10))?;
/// let files: Vec<&str> = found.iter().map(|found| found.file).collect();
/// assert_eq!(files, ["a.txt", "b.txt"]);
/// assert_eq!(found.excerpt(1, &ExcerptStyle::default())?, b"A <b>dog</b> barks");
///
/// let query = Query::new("\"the dog\"", tokenizer).by(QueryUnit::Sentence);
/// let found = corpus.snapshot()?.ranked(&query)?;
/// let sentence = found.iter().next().unwrap();
/// assert_eq!((found.len(), sentence.position, sentence.words), (1, 3, 6));
/// # Ok::<(), zipfdb::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Query {
    text: String,
    tokenizer: Tokenizer,
    mode: QueryMode,
    stemmer: Option<Stemmer>,
    unit: Unit,
    parameters: (f64, f64),
    limit: Option<usize>,
}

/// What a ranked match is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueryUnit {
    /// A file.
    File,
    /// A line.
    Line,
    /// What ends with an empty line.
    Paragraph,
    /// A sentence of UAX #29.
    Sentence,
    /// This number of consecutive words, at least 1.
    Window(u32),
}

impl Query {
    /// A query for files, whose words are cut as the tokenizer of the corpus does
    /// ([`Corpus::settings`](crate::Corpus::settings)).
    pub fn new(text: impl Into<String>, tokenizer: Tokenizer) -> Query {
        Query {
            text: text.into(),
            tokenizer,
            mode: QueryMode::Any,
            stemmer: None,
            unit: Unit::File,
            parameters: (1.2, 0.75),
            limit: None,
        }
    }

    /// The query for units of files.
    pub fn by(mut self, unit: QueryUnit) -> Query {
        self.unit = match unit {
            QueryUnit::File => Unit::File,
            QueryUnit::Line => Unit::Line,
            QueryUnit::Paragraph => Unit::Paragraph,
            QueryUnit::Sentence => Unit::Sentence,
            QueryUnit::Window(words) => Unit::Window(words.max(1)),
        };
        self
    }

    /// The query with terms joined by AND.
    pub fn all(mut self) -> Query {
        self.mode = QueryMode::All;
        self
    }

    /// The query read leniently: what is no query is ignored, with a notice.
    pub fn lenient(mut self) -> Query {
        self.mode = QueryMode::Lenient;
        self
    }

    /// The query with plain words compared by their English stems.
    pub fn english_stems(mut self) -> Query {
        self.stemmer = Some(Stemmer::English);
        self
    }

    /// The query with parameters of BM25; without them `k1` is 1.2 and `b` 0.75.
    pub fn bm25(mut self, k1: f64, b: f64) -> Query {
        self.parameters = (k1, b);
        self
    }

    /// The query for the best matches alone.
    pub fn limit(mut self, limit: usize) -> Query {
        self.limit = Some(limit);
        self
    }
}

/// Files or units that match a query, best first; equal scores in order of file and position.
pub struct RankedMatches {
    reader: CorpusReader,
    ranking: Ranking,
    ranked: Vec<Ranked>,
    notices: Vec<Notice>,
}

/// A file or unit that matches a query.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct RankedMatch<'a> {
    /// The name of the file.
    pub file: &'a str,
    /// The number of its first word in the file.
    pub position: u64,
    /// The number of its words.
    pub words: u64,
    /// Its score by BM25.
    pub score: f64,
    /// Hits of all terms in it.
    pub hits: u64,
}

impl RankedMatches {
    /// The number of matches, up to the limit of the query.
    pub fn len(&self) -> usize {
        self.ranked.len()
    }

    /// Whether nothing matches.
    pub fn is_empty(&self) -> bool {
        self.ranked.is_empty()
    }

    /// The matches, best first.
    pub fn iter(&self) -> impl Iterator<Item = RankedMatch<'_>> {
        let files = self.ranking.view().files();
        self.ranked.iter().map(|ranked| RankedMatch {
            file: &files[ranked.file as usize].name,
            position: ranked.start,
            words: ranked.words,
            score: ranked.score,
            hits: ranked.hits,
        })
    }

    /// The excerpt of the match of a rank, from 0: the bytes of its text with what matched marked.
    ///
    /// # Errors
    /// If it is too large, or a segment is damaged.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn excerpt(&self, rank: usize, style: &ExcerptStyle) -> Result<Vec<u8>> {
        let memory = ValueMemory::new(&self.reader.settings());
        (self.reader).watched(|run| {
            self.ranking
                .excerpt(&self.ranked[rank], style, &memory, run)
        })
    }

    /// What the lenient mode has ignored.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }
}

/// Spans that match a query in CQL, in order of file and position.
pub struct SpanMatches {
    search: Arc<SpanSearch>,
    hits: Vec<Hit>,
}

/// A span that matches a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpanMatch<'a> {
    /// The name of the file.
    pub file: &'a str,
    /// The number of its first word in the file.
    pub position: u64,
    /// The number of its words.
    pub words: u64,
}

/// A span with the text around it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpanContext {
    /// The offset of its first byte in the file.
    pub offset: u64,
    /// The text before it.
    pub left: Vec<u8>,
    /// Its text.
    pub text: Vec<u8>,
    /// The text behind it.
    pub right: Vec<u8>,
}

impl SpanMatches {
    /// The number of hits.
    pub fn len(&self) -> usize {
        self.hits.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.hits.is_empty()
    }

    /// The hits.
    pub fn iter(&self) -> impl Iterator<Item = SpanMatch<'_>> {
        let files = self.search.view().files();
        self.hits.iter().map(|hit| SpanMatch {
            file: &files[hit.file as usize].name,
            position: hit.start,
            words: hit.end - hit.start,
        })
    }

    /// A hit, by its number from 0, with some words on each side.
    ///
    /// # Errors
    /// If a segment is damaged.
    ///
    /// # Panics
    /// If there is no such hit.
    pub fn context(&self, number: usize, left: u64, right: u64) -> Result<SpanContext> {
        let context = HitContext::Words { left, right };
        let line = line(self.search.view(), self.hits[number], context)?;
        Ok(SpanContext {
            offset: line.offset,
            left: line.left,
            text: line.text,
            right: line.right,
        })
    }
}

impl Snapshot {
    /// The files or units that match a query in the simple language, as `search()` in SQL.
    ///
    /// # Errors
    /// If the query is wrong, with the place in it, or a segment is damaged.
    pub fn ranked(&self, query: &Query) -> Result<RankedMatches> {
        let (parsed, notices) = read_query(&query.text, query.mode, query.stemmer, query.tokenizer)
            .map_err(query_error)?;
        let (k1, b) = query.parameters;
        let bm25 = Bm25::new(k1, b).map_err(query_error)?;
        let view = self.view();
        let at_hand = Ranking::at_hand(view, &parsed, bm25, query.unit)?;
        let (ranking, ranked) = if let Some(ranking) = at_hand {
            let ranked = ranking.best(query.limit, Run::to_the_end())?;
            (ranking, ranked)
        } else {
            self.reader().watched(|run| {
                let ranking = Ranking::new(view, &parsed, bm25, query.unit, run)?;
                let ranked = ranking.best(query.limit, run)?;
                Ok((ranking, ranked))
            })?
        };
        Ok(RankedMatches {
            reader: self.reader().clone(),
            ranking,
            ranked,
            notices,
        })
    }

    /// The spans that match a query in CQL, as `hits()` and `concordance()` in SQL.
    ///
    /// ```
    /// use zipfdb::{CorpusSettings, Database};
    ///
    /// let db = Database::in_memory()?;
    /// let corpus = db.create_corpus("pets", CorpusSettings::default())?;
    /// corpus.append("a.txt", "The cat sat. The black dog ran.")?;
    ///
    /// let found = corpus.snapshot()?.spans("\"The\" []{0,1} \"cat|dog\"")?;
    /// let places: Vec<(u64, u64)> = found.iter().map(|hit| (hit.position, hit.words)).collect();
    /// assert_eq!(places, [(0, 2), (3, 3)]);
    /// assert_eq!(found.context(1, 1, 1)?.left, b"sat. ");
    /// # Ok::<(), zipfdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the query is wrong, with the place in it, or a segment is damaged.
    pub fn spans(&self, cql: &str) -> Result<SpanMatches> {
        let query = cql::parse(cql).map_err(query_error)?;
        let view = self.view();
        self.reader().watched(|run| {
            let search = SpanSearch::new(view, query, run)?;
            let mut hits = search.all_hits(run)?;
            if search.shows_captures() {
                for hit in &mut hits {
                    *hit = search.shown(*hit, &search.captures_of(hit, run)?);
                }
            }
            Ok(SpanMatches {
                search: Arc::new(search),
                hits,
            })
        })
    }
}
