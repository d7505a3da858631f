//! The scan of table functions of search but `search()`.
//!
//! Invariant: the text of a query in CQL is read when the scan opens, so its errors come before the first row. The query is prepared
//! for the corpus when that row is asked for. `hits` and `concordance` without an order then find the hits of some files at a time;
//! all other functions make their rows at once.

use std::fmt::Display;
use std::mem;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use rayon::prelude::*;
use zipfdb_search::algebra::{Pattern, Span, SpanQuery, Strategy, TextTest, WordTest};
use zipfdb_search::cql;
use zipfdb_search::matcher::{MatcherLimits, TextMatcher};
use zipfdb_search::measures::{
    AssociationMeasure, ContextWidths, KeynessMeasure, KwicKey, KwicSlot, PartMeasures,
    PositionMeasures, SampleSize,
};
use zipfdb_sql::search_call::{SearchCall, SearchFunction};
use zipfdb_storage::MetadataColumn;

use super::super::context::Context;
use super::super::explain::{Describe, Description};
use super::super::row::{BatchRest, LateError, Operator, RowCollector};
use super::boundary::{Scan, ScanColumn, ScanRequest, passes};
use super::selection::files_that_pass;
use crate::answer::access_path::Run;
use crate::answer::{CorpusReader, CorpusView};
use crate::batch::{Batch, BatchColumn, TextDictionary, text_or_blob};
use crate::expression::{ColumnFilter, from_count};
use crate::runtime::interrupt::Interrupt;
use crate::runtime::memory::Held;
use crate::search::argument_error;
use crate::search::collocations::{CollocationRequest, collocations};
use crate::search::concordance::{ConcordanceLine, HitContext, line, sample, sort};
use crate::search::dispersion::{
    CorpusParts, PartName, WORD_BYTES, dispersion, dispersion_of_words, distribution,
};
use crate::search::frequencies::{GroupKey, frequencies};
use crate::search::growth::vocabulary_growth;
use crate::search::hit::Hit;
use crate::search::keywords::{Reference, keywords};
use crate::search::spans::{HitPages, SpanSearch};
use crate::search::subcorpus::{FileGroups, Subcorpus};
use crate::segment::cache::Reservation;
use crate::{Error, Result, Value};

/// Words on each side of a hit in a concordance.
const CONTEXT_WORDS: i64 = 5;

/// Bytes of a hit and its keys while hits are sorted, about.
const SORTED_HIT_BYTES: u64 = 96;

/// Slices of `distribution`, and steps of `vocabulary_growth`.
const SLICES: i64 = 100;

/// Columns of hits and concordances.
const FILE: usize = 0;
const OFFSET: usize = 3;
const CAPTURES: usize = 6;
const COLUMNS: usize = 8;

/// A row that was made.
type RowValues = Vec<Value>;

pub(super) struct SearchScan {
    reader: CorpusReader,
    reference: Option<CorpusReader>,
    /// The columns of metadata that the corpus declares.
    declared: Vec<MetadataColumn>,
    call: SearchCall,
    request: ScanRequest,
    /// Conditions on the file of hits, which `request` has no more.
    of_files: Vec<ColumnFilter>,
    /// The query for spans; none for functions without one.
    query: Option<SpanQuery>,
    /// The query prepared for the corpus, if EXPLAIN has needed it.
    prepared: Option<Arc<SpanSearch>>,
    /// Only the number of hits of each file is wanted.
    is_counted: bool,
    /// Captures of hits are wanted.
    reads_captures: bool,
    /// Offsets or texts of hits are wanted.
    reads_text: bool,
    source: SearchRows,
    /// What is held of sorted hits, for the limits of values and of the cache.
    held: Held,
    taken: Reservation,
    interrupt: Interrupt,
    late: LateError,
    description: Arc<Description>,
}

/// Where the next rows come from.
enum SearchRows {
    /// Nothing was asked for yet.
    Unopened,
    /// Hits that are found as they are asked for.
    Pages {
        pages: HitPages,
        hits: std::vec::IntoIter<Hit>,
    },
    /// Hits in an order of their own.
    Hits {
        search: Arc<SpanSearch>,
        hits: std::vec::IntoIter<Hit>,
    },
    Rows(BatchRest),
}

impl SearchScan {
    pub(super) fn new(
        reader: CorpusReader,
        reference: Option<CorpusReader>,
        declared: Vec<MetadataColumn>,
        call: SearchCall,
        mut request: ScanRequest,
        context: &Context,
    ) -> Result<SearchScan> {
        let function = call.function;
        let mut of_files = Vec::new();
        if call.has_hits_by_file() {
            let all = mem::take(&mut request.filters).into_iter();
            (of_files, request.filters) = all.partition(|filter| filter.column() == 0);
        }
        let query = match (function, call.text("query")) {
            (_, Some(text)) => {
                let wrong = |error| argument_error(function, "query", error);
                Some(cql::parse(text).map_err(wrong)?)
            }
            (SearchFunction::Frequencies, None) => Some(every_word()),
            (_, None) => None,
        };
        let detail = query
            .as_ref()
            .map_or_else(String::new, |query| query.to_string());
        let is_column = |column: usize| {
            request
                .columns
                .iter()
                .any(|requested| requested.column == ScanColumn::Column(column))
        };
        let is_filtered = |column: usize| {
            request
                .filters
                .iter()
                .any(|filter| filter.column() == column)
        };
        let is_counted = call.has_hits_by_file()
            && request.filters.is_empty()
            && (request.columns.iter())
                .all(|requested| requested.column == ScanColumn::Column(FILE));
        let mut scan = SearchScan {
            is_counted,
            reads_text: (OFFSET..COLUMNS).any(|column| is_column(column) || is_filtered(column)),
            reads_captures: function == SearchFunction::Hits
                && (is_column(CAPTURES) || is_filtered(CAPTURES)),
            prepared: None,
            reader,
            reference,
            declared,
            call,
            request,
            of_files,
            query,
            source: SearchRows::Unopened,
            held: context.values.hold(),
            taken: context.reservation(),
            interrupt: context.interrupt.clone(),
            late: LateError::default(),
            description: Arc::new(Description::new(function.name(), String::new(), None)),
        };
        let mut lines = Vec::new();
        if context.is_explained && scan.query.is_some() {
            let search = scan.search()?;
            lines.push(search.describe());
            scan.prepared = Some(search);
        }
        scan.description = Arc::new(Description {
            lines,
            ..Description::new(function.name(), detail, None)
        });
        Ok(scan)
    }

    /// Runs work on the threads of the database until the statement must end.
    fn ask<A: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<CorpusView>, Run<'_>) -> Result<A> + Send + 'static,
    ) -> Result<A> {
        let view = self.reader.view().clone();
        self.reader.ask(&self.interrupt, move |_, stop| {
            work(&view, Run::until(stop))
        })
    }

    fn search(&self) -> Result<Arc<SpanSearch>> {
        if let Some(prepared) = &self.prepared {
            return Ok(prepared.clone());
        }
        let query = self.query.clone().unwrap_or_else(every_word);
        self.ask(move |view, run| SpanSearch::new(view, query, run).map(Arc::new))
    }

    fn open(&mut self) -> Result<SearchRows> {
        let rows = match self.call.function {
            SearchFunction::Hits => return self.open_files(),
            SearchFunction::Concordance => {
                if self.call.has_hits_by_file() {
                    return self.open_files();
                }
                return self.open_sorted();
            }
            // It has a scan of its own.
            SearchFunction::Search => Vec::new(),
            SearchFunction::Frequencies => self.frequency_rows()?,
            SearchFunction::Collocations => self.collocation_rows()?,
            SearchFunction::Keywords => self.keyword_rows()?,
            SearchFunction::Dispersion => self.dispersion_rows()?,
            SearchFunction::Distribution => self.distribution_rows()?,
            SearchFunction::VocabularyGrowth => self.growth_rows()?,
        };
        Ok(SearchRows::Rows(self.collected(rows)?))
    }

    /// The rows that pass, with the requested columns.
    fn collected(&self, rows: Vec<RowValues>) -> Result<BatchRest> {
        let mut collector = RowCollector::default();
        for row in rows {
            if passes(&self.request.filters, |column| row[column].clone())? {
                collector.push(self.requested(&row));
            }
        }
        Ok(BatchRest::of(collector.finish()))
    }

    fn requested<'a>(&'a self, row: &'a RowValues) -> impl Iterator<Item = Value> + 'a {
        let columns = self.request.columns.iter();
        columns.map(|requested| match requested.column {
            ScanColumn::Column(column) => row[column].clone(),
            ScanColumn::Substr { .. } | ScanColumn::Excerpt(_) => Value::Null,
        })
    }

    fn open_files(&self) -> Result<SearchRows> {
        let search = self.search()?;
        let files = files_that_pass(
            self.reader.view(),
            &self.of_files,
            self.request.files.as_deref(),
        )?;
        if self.is_counted {
            return self.counted(search, files.numbers().to_vec());
        }
        Ok(SearchRows::Pages {
            pages: HitPages::new(search, files.numbers()),
            hits: Vec::new().into_iter(),
        })
    }

    /// The files with hits, each as often as it has some.
    fn counted(&self, search: Arc<SpanSearch>, mut files: Vec<u32>) -> Result<SearchRows> {
        let is_sum = self.request.columns.is_empty() && self.of_files.is_empty();
        let (mut times, mut files) = self.ask(move |_, run| {
            if is_sum && let Some(count) = search.known_count(run)? {
                files.truncate(1);
                return Ok((vec![count], files));
            }
            let counts = search.counts(&files, run)?;
            let mut counts = counts.into_iter();
            let mut times = Vec::new();
            files.retain(|_| {
                let count = counts.next().filter(|count| *count > 0);
                times.extend(count);
                count.is_some()
            });
            Ok((times, files))
        })?;
        if self.request.columns.is_empty() {
            let sum: u64 = times.iter().sum();
            times = (sum > 0).then_some(sum).into_iter().collect();
            files.truncate(times.len());
        }
        if files.is_empty() {
            return Ok(SearchRows::Rows(BatchRest::of(None)));
        }
        let columns = self.request.columns.iter().map(|_| BatchColumn::Words {
            indices: files.clone(),
            dictionary: TextDictionary::files(self.reader.view()),
        });
        let batch = Batch::new(columns.collect(), files.len(), Some(times));
        Ok(SearchRows::Rows(BatchRest::of(Some(batch))))
    }

    fn open_sorted(&mut self) -> Result<SearchRows> {
        let search = self.search()?;
        let seed = self.call.integer("seed").unwrap_or(0) as u64;
        let work = search.clone();
        let mut hits = if let Some(size) = self.call.argument("sample") {
            let size = match size {
                Value::Text(text) => text.to_string(),
                Value::Integer(count) => count.to_string(),
                _ => String::new(),
            };
            let size = SampleSize::from_str(&size).map_err(|error| self.wrong("sample", error))?;
            self.ask(move |_, run| sample(&work, size, seed, run))?
        } else {
            self.ask(move |_, run| work.all_hits(run))?
        };
        // Hits are held until their rows are made.
        let bytes = hits.len() as u64 * SORTED_HIT_BYTES;
        self.held.reserve("the hits to sort", bytes)?;
        self.taken
            .cover(usize::try_from(bytes).unwrap_or(usize::MAX));
        if let Some(keys) = self.call.text("sort") {
            let keys = self.keys(&search, "sort", keys)?;
            let search = search.clone();
            hits = self.ask(move |_, run| sort(&search, hits, &keys, run))?;
        }
        Ok(SearchRows::Hits {
            search,
            hits: hits.into_iter(),
        })
    }

    /// The error for an argument that is wrong.
    fn wrong(&self, argument: &str, reason: impl Display) -> Error {
        argument_error(self.call.function, argument, reason)
    }

    /// The keys of an argument, which may name captures.
    fn keys(&self, search: &SpanSearch, argument: &str, list: &str) -> Result<Vec<KwicKey>> {
        let captures: Vec<&str> = search.captures().iter().map(String::as_str).collect();
        KwicKey::parse_list(list, &captures).map_err(|error| self.wrong(argument, error))
    }

    /// The context of hits of a concordance, or none.
    fn context(&self) -> Result<HitContext> {
        let width = |name| self.call.integer(name).unwrap_or(CONTEXT_WORDS) as u64;
        if self.call.function == SearchFunction::Hits {
            return Ok(HitContext::Words { left: 0, right: 0 });
        }
        let (left, right) = (width("left"), width("right"));
        match self.call.text("unit").unwrap_or("words") {
            "words" => Ok(HitContext::Words { left, right }),
            "bytes" => Ok(HitContext::Bytes { left, right }),
            other => {
                let reason =
                    format!("no such unit of context `{other}`; hint: units are words, bytes");
                Err(self.wrong("unit", reason))
            }
        }
    }

    /// Rows of the next hits.
    fn next_hits(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        let maker = HitRows {
            function: self.call.function,
            context: self.context()?,
            reads_captures: self.reads_captures,
            reads_text: self.reads_text,
        };
        let mut collector = RowCollector::default();
        let mut count = 0;
        let mut source = mem::replace(&mut self.source, SearchRows::Unopened);
        while count < rows_max.max(1) {
            self.interrupt.check()?;
            let wanted = rows_max.max(1) - count;
            let (search, some): (Arc<SpanSearch>, Vec<Hit>) = match &mut source {
                SearchRows::Pages { pages, hits } => {
                    if hits.len() == 0 {
                        let mut work = pages.clone();
                        let (work, found) = self.ask(move |_, run| {
                            let found = work.next(run)?;
                            Ok((work, found))
                        })?;
                        *pages = work;
                        let Some(found) = found else { break };
                        *hits = found.into_iter();
                    }
                    (pages.search().clone(), hits.take(wanted).collect())
                }
                SearchRows::Hits { search, hits } => (search.clone(), hits.take(wanted).collect()),
                SearchRows::Unopened | SearchRows::Rows(_) => break,
            };
            if some.is_empty() {
                match source {
                    SearchRows::Pages { .. } => continue,
                    _ => break,
                }
            }
            let rows = self.ask(move |_, run| {
                let rows = some.into_par_iter().map(|hit| maker.row(&search, hit, run));
                rows.collect::<Result<Vec<RowValues>>>()
            })?;
            for row in rows {
                if passes(&self.request.filters, |column| row[column].clone())? {
                    collector.push(self.requested(&row));
                    count += 1;
                }
            }
        }
        self.source = source;
        Ok(collector.finish())
    }

    /// The files that statistics are of.
    fn subcorpus(&self) -> Subcorpus {
        Subcorpus::new(self.reader.view(), self.request.files.as_deref())
    }

    /// The files by their values in a declared column; none if there is no such column.
    fn groups(&self, name: &str) -> Result<Option<FileGroups>> {
        let mut declared = self.declared.iter();
        let Some(column) = declared.find(|known| known.name.eq_ignore_ascii_case(name)) else {
            return Ok(None);
        };
        let column = column.clone();
        self.ask(move |view, run| {
            let values = view.metadata(&column, run.stop)?;
            Ok(Some(FileGroups::new(&values)))
        })
    }

    /// The keys of groups: those of concordances, and declared columns. Captures of the query come before these.
    fn group_keys(&self, search: &SpanSearch, list: &str) -> Result<Vec<GroupKey>> {
        let names = search.captures().iter().map(String::as_str);
        // Names of columns are without regard to case.
        let written = list.split(',').map(str::trim);
        let is_declared = |name: &&str| {
            let mut declared = self.declared.iter();
            declared.any(|column| column.name.eq_ignore_ascii_case(name))
        };
        let names: Vec<&str> = names.chain(written.filter(is_declared)).collect();
        let keys = KwicKey::parse_list(list, &names).map_err(|error| self.wrong("by", error))?;
        let keys = keys.into_iter().map(|key| {
            let groups = match &key.slot {
                KwicSlot::Capture(name) if !search.captures().contains(name) => {
                    self.groups(name)?
                }
                _ => None,
            };
            Ok(groups.map_or_else(|| GroupKey::Words(key), GroupKey::Metadata))
        });
        keys.collect()
    }

    fn frequency_rows(&self) -> Result<Vec<RowValues>> {
        let keys = match self.call.text("by") {
            None => "hit",
            Some("lc") => "hit:i",
            Some(keys) => keys,
        };
        let per = self.call.number("per").unwrap_or(1e6);
        let search = self.search()?;
        let keys = self.group_keys(&search, keys)?;
        let of = self.subcorpus();
        let found = self.ask(move |_, run| frequencies(&search, &of, &keys, run))?;
        let rows = found.into_iter().map(|group| {
            vec![
                group.text.map_or(Value::Null, text_or_blob),
                from_count(group.count),
                from_count(group.files),
                Value::Real(group.count as f64 / group.words as f64 * per),
            ]
        });
        Ok(rows.collect())
    }

    fn collocation_rows(&self) -> Result<Vec<RowValues>> {
        let call = &self.call;
        let window = call.text("window").unwrap_or("5:5");
        let request = CollocationRequest {
            window: ContextWidths::parse_window(window)
                .map_err(|error| self.wrong("window", error))?,
            measures: AssociationMeasure::parse_list(&call.measures.join(","))
                .map_err(|error| self.wrong("measures", error))?,
            minimum: call.integer("min").unwrap_or(3) as u64,
            has_window_factor: call.integer("window_factor").unwrap_or(1) != 0,
        };
        let search = self.search()?;
        let of = self.subcorpus();
        let found = self.ask(move |_, run| collocations(&search, &of, &request, run))?;
        let view = self.reader.view();
        let rows = found.into_iter().map(|collocate| {
            let mut row = vec![
                text_or_blob(view.word(collocate.word).to_vec()),
                from_count(collocate.count),
                from_count(collocate.other_count),
            ];
            row.extend(collocate.values.into_iter().map(real));
            row
        });
        Ok(rows.collect())
    }

    fn keyword_rows(&self) -> Result<Vec<RowValues>> {
        let call = &self.call;
        let measures = KeynessMeasure::parse_list(&call.measures.join(","))
            .map_err(|error| self.wrong("measures", error))?;
        let minimum = call.integer("min").unwrap_or(3) as u64;
        let mut files = self.request.files.as_deref().map(<[u32]>::to_vec);
        if let Some(pattern) = call.text("files") {
            let mut like = self.files_like(pattern)?;
            if let Some(among) = &files {
                like.retain(|file| among.binary_search(file).is_ok());
            }
            files = Some(like);
        }
        if files.is_none() && self.reference.is_none() {
            let reason = "nothing to compare with; hint: name another corpus, or some files by `files => 'pattern'` or by \
                          conditions on metadata";
            return Err(self.wrong("reference", reason));
        }
        let other = self.reference.clone();
        let found = self.ask(move |view, run| {
            let reference = match &other {
                Some(other) => Reference::Corpus(other.view()),
                None => Reference::Rest,
            };
            let of = Subcorpus::new(view, files.as_deref());
            keywords(view, &of, &reference, &measures, minimum, run)
        })?;
        let view = self.reader.view();
        let million = |count: u64, size: u64| {
            let rate = count as f64 / size as f64 * 1e6;
            real(rate.is_finite().then_some(rate))
        };
        let sizes = (found.size, found.reference_size);
        let rows = found.words.into_iter().map(|keyword| {
            let mut row = vec![
                text_or_blob(view.word(keyword.word).to_vec()),
                from_count(keyword.count),
                from_count(keyword.other_count),
                million(keyword.count, sizes.0),
                million(keyword.other_count, sizes.1),
            ];
            row.extend(keyword.values.into_iter().map(real));
            row
        });
        Ok(rows.collect())
    }

    /// The files whose names match a pattern with `*` and `?`.
    fn files_like(&self, pattern: &str) -> Result<Vec<u32>> {
        let test = TextTest {
            pattern: Pattern::Wildcard(pattern.as_bytes().to_vec()),
            folds_case: false,
            folds_diacritics: false,
        };
        let matcher = TextMatcher::new(&test, MatcherLimits::default())
            .map_err(|error| self.wrong("files", error))?;
        let files = (0..).zip(self.reader.view().files());
        let files = files.filter(|(_, file)| matcher.matches(file.name.as_bytes()));
        Ok(files.map(|(file, _)| file).collect())
    }

    /// The parts that the arguments name.
    fn parts(&self, default: NamedParts) -> Result<NamedParts> {
        let (by, slices) = (self.call.text("by"), self.call.integer("slices"));
        match (by, slices) {
            (None, None) => Ok(default),
            (Some("file"), None) => Ok(NamedParts::Files),
            (None, Some(slices)) => Ok(NamedParts::Slices(slices as u64)),
            (Some(name), None) => match self.groups(name)? {
                Some(groups) => Ok(NamedParts::Groups(groups)),
                None => {
                    let reason = format!(
                        "no such part `{name}`; hint: write `by => 'file'`, the name of a column of metadata, or `slices => 100`"
                    );
                    Err(self.wrong("by", reason))
                }
            },
            (Some(_), Some(_)) => {
                let reason = "parts are files or slices; hint: leave out `by` or `slices`";
                Err(self.wrong("by", reason))
            }
        }
    }

    fn dispersion_rows(&mut self) -> Result<Vec<RowValues>> {
        let (parts, of) = (self.parts(NamedParts::Files)?, self.subcorpus());
        if self.query.is_some() {
            let search = self.search()?;
            let work = move |_: &Arc<CorpusView>, run: Run<'_>| {
                dispersion(&search, &of, parts.as_parts(), run)
            };
            let (by_parts, by_places) = self.ask(work)?;
            return Ok(vec![dispersion_row(&by_parts, &by_places, Value::Null)]);
        }
        if matches!(parts, NamedParts::Groups(_)) {
            let reason = "words are measured over files or slices; hint: write `by => 'file'` or `slices => 100`, or a query";
            return Err(self.wrong("by", reason));
        }
        let words = self.reader.view().vocabulary()?.len() as u64;
        self.held
            .reserve("the dispersion of words", words * WORD_BYTES)?;
        let found =
            self.ask(move |view, run| dispersion_of_words(view, &of, parts.as_parts(), run))?;
        let view = self.reader.view();
        let rows = found.into_iter().map(|found| {
            let word = text_or_blob(view.word(found.word).to_vec());
            dispersion_row(&found.by_parts, &found.by_places, word)
        });
        Ok(rows.collect())
    }

    fn distribution_rows(&self) -> Result<Vec<RowValues>> {
        let parts = self.parts(NamedParts::Slices(SLICES as u64))?;
        let (search, of) = (self.search()?, self.subcorpus());
        let (found, parts) = self.ask(move |_, run| {
            let found = distribution(&search, &of, parts.as_parts(), run)?;
            Ok((found, parts))
        })?;
        let files = self.reader.view().files();
        let text = |text: &String| Value::Text(text.clone());
        let rows = (1..).zip(found).map(|(number, part): (u64, _)| {
            let name = match (part.name, &parts) {
                (PartName::File(file), _) => text(&files[file as usize].name),
                (PartName::Group(group), NamedParts::Groups(groups)) => {
                    let value = groups.texts[group as usize].as_ref();
                    value.map_or(Value::Null, text)
                }
                _ => Value::Text(number.to_string()),
            };
            vec![
                name,
                from_count(part.position),
                from_count(part.words),
                from_count(part.hits),
                Value::Real(part.hits as f64 / part.words as f64 * 1e6),
            ]
        });
        Ok(rows.collect())
    }

    fn growth_rows(&self) -> Result<Vec<RowValues>> {
        let steps = self.call.integer("steps").unwrap_or(SLICES) as u64;
        let of = self.subcorpus();
        let points = self.ask(move |view, run| vocabulary_growth(view, &of, steps, run))?;
        let rows = points.into_iter().map(|point| {
            vec![
                from_count(point.tokens),
                from_count(point.types),
                from_count(point.hapaxes),
                Value::Real(point.types as f64 / point.tokens as f64),
            ]
        });
        Ok(rows.collect())
    }
}

/// The parts of a corpus that arguments name.
enum NamedParts {
    Files,
    Groups(FileGroups),
    Slices(u64),
}

impl NamedParts {
    fn as_parts(&self) -> CorpusParts<'_> {
        match self {
            NamedParts::Files => CorpusParts::Files,
            NamedParts::Groups(groups) => CorpusParts::Groups(groups),
            NamedParts::Slices(slices) => CorpusParts::Slices(*slices),
        }
    }
}

/// A row of `dispersion`; its word is NULL where a query was measured.
fn dispersion_row(by_parts: &PartMeasures, by_places: &PositionMeasures, word: Value) -> RowValues {
    vec![
        from_count(by_parts.hits),
        from_count(by_parts.parts),
        from_count(by_parts.range),
        real(by_parts.dp),
        real(by_parts.dp_norm),
        real(by_parts.juilland_d),
        real(by_parts.carroll_d2),
        real(by_parts.rosengren_s),
        real(by_parts.kl_divergence),
        real(by_places.arf),
        real(by_places.ald),
        real(by_places.awt),
        word,
    ]
}

/// `[]`: every word is a hit.
fn every_word() -> SpanQuery {
    SpanQuery {
        span: Span::Word(WordTest::Any),
        constraint: None,
        strategy: Strategy::Shortest,
        show: None,
    }
}

/// Makes the rows of hits.
#[derive(Clone, Copy)]
struct HitRows {
    function: SearchFunction,
    context: HitContext,
    reads_captures: bool,
    reads_text: bool,
}

impl HitRows {
    /// The row of a hit.
    fn row(&self, search: &SpanSearch, hit: Hit, run: Run<'_>) -> Result<RowValues> {
        let view = search.view();
        let (mut hit, mut captures) = (hit, Vec::new());
        if self.reads_captures || search.shows_captures() {
            captures = search.captures_of(&hit, run)?;
            hit = search.shown(hit, &captures);
        }
        let line = if self.reads_text {
            line(view, hit, self.context)?
        } else {
            ConcordanceLine::default()
        };
        let mut row = vec![
            Value::Text(view.files()[hit.file as usize].name.clone()),
            from_count(hit.start),
            from_count(hit.end - hit.start),
            from_count(line.offset),
            from_count(line.text.len() as u64),
        ];
        if self.function == SearchFunction::Concordance {
            row.push(text_or_blob(line.left));
        }
        row.push(text_or_blob(line.text));
        row.push(if self.function == SearchFunction::Concordance {
            text_or_blob(line.right)
        } else {
            captures_value(search.captures(), &captures)
        });
        Ok(row)
    }
}

/// The captures as a JSON object: for each name the position and the number of its words. NULL without captures.
fn captures_value(names: &[String], captures: &[Option<Range<u64>>]) -> Value {
    let found = names.iter().zip(captures);
    let found = found.filter_map(|(name, range)| Some((name, range.as_ref()?)));
    // Names are letters, digits and underscores.
    let found = found
        .map(|(name, range)| format!("\"{name}\":[{},{}]", range.start, range.end - range.start));
    let found: Vec<String> = found.collect();
    if found.is_empty() {
        return Value::Null;
    }
    Value::Text(format!("{{{}}}", found.join(",")))
}

fn real(value: Option<f64>) -> Value {
    value.map_or(Value::Null, Value::Real)
}

impl Operator for SearchScan {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        self.late.check()?;
        if matches!(self.source, SearchRows::Unopened) {
            self.source = self.open()?;
        }
        if let SearchRows::Rows(rows) = &mut self.source {
            return Ok(rows.take(rows_max));
        }
        self.next_hits(rows_max)
    }
}

impl Scan for SearchScan {
    fn description(&self) -> Arc<dyn Describe> {
        self.description.clone()
    }

    fn into_operator(self: Box<Self>) -> Box<dyn Operator> {
        self
    }
}
