//! The scan of `search()`: files or units of them that match a query, best first, with excerpts.
//!
//! Invariant: the query is read when the scan opens, so its errors and notices come before the first row. Rows come in the order of
//! rank; files without a column are counted and not scored. Excerpts that are not needed before sorting and LIMIT are deferred: a
//! row then has the number of its rank in their place. What is known from earlier queries answers on the calling thread.

use std::fmt::Display;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;
use zipfdb_search::algebra::{Stemmer, Unit};
use zipfdb_search::measures::Bm25;
use zipfdb_search::simple::FileQuery;
use zipfdb_sql::search_call::SearchCall;
use zipfdb_storage::Tokenizer;

use super::super::context::Context;
use super::super::explain::{Describe, Description};
use super::super::row::{LateError, Operator, RowCollector};
use super::boundary::{Fetch, Properties, RowOrder, Scan, ScanColumn, ScanRequest, passes};
use crate::answer::CorpusReader;
use crate::answer::access_path::Run;
use crate::batch::{Batch, text_or_blob};
use crate::expression::from_count;
use crate::notice::Notice;
use crate::runtime::interrupt::Interrupt;
use crate::runtime::memory::{Held, ValueMemory};
use crate::search::ranking::{Ranked, Ranking};
use crate::search::{self, QueryMode, argument_error};
use crate::{Result, Value};

/// Columns of the relation.
const FILE: usize = 0;
const SCORE: usize = 1;
const POSITION: usize = 3;
const OFFSET: usize = 5;
const COLUMNS: usize = 7;

pub(super) struct RankedScan {
    found: Arc<FoundRows>,
    query: FileQuery,
    bm25: Bm25,
    unit: Unit,
    notices: Vec<Notice>,
    order: Vec<RowOrder>,
    /// The most rows that are used, if the order of rank is the one that is wanted.
    limit: Option<usize>,
    /// The rank of the next row.
    next: usize,
    late: LateError,
    description: Arc<Description>,
}

/// What matches, once it was asked for.
struct FoundRows {
    reader: CorpusReader,
    interrupt: Interrupt,
    memory: ValueMemory,
    request: ScanRequest,
    rows: OnceLock<(Ranking, Vec<Ranked>)>,
}

impl RankedScan {
    pub(super) fn new(
        reader: CorpusReader,
        tokenizer: Tokenizer,
        call: &SearchCall,
        request: ScanRequest,
        context: &Context,
    ) -> Result<RankedScan> {
        let wrong =
            |argument: &str, reason: &dyn Display| argument_error(call.function, argument, reason);
        let (query, notices) = read_query(call, tokenizer)?;
        let (k1, b) = (
            call.number("k1").unwrap_or(1.2),
            call.number("b").unwrap_or(0.75),
        );
        let bm25 = Bm25::new(k1, b).map_err(|error| wrong("k1 and b", &error))?;
        let unit = unit(call)?;
        let column = |wanted: usize| {
            let mut columns = request.columns.iter();
            columns.position(|requested| requested.column == ScanColumn::Column(wanted))
        };
        let order = [(SCORE, true), (FILE, false), (POSITION, false)];
        let order = order.into_iter().map_while(|(wanted, descending)| {
            let key = RowOrder::ascending(column(wanted)?);
            Some(RowOrder { descending, ..key })
        });
        let order: Vec<RowOrder> = order.collect();
        let is_cut = order.starts_with(&request.wanted_order) && request.filters.is_empty();
        let limit = request.limit.filter(|_| is_cut);
        let detail = call.text("unit").unwrap_or_default().to_owned();
        Ok(RankedScan {
            query,
            bm25,
            unit,
            notices,
            order,
            limit: limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
            next: 0,
            late: LateError::default(),
            description: Arc::new(Description::new(call.function.name(), detail, None)),
            found: Arc::new(FoundRows {
                reader,
                interrupt: context.interrupt.clone(),
                memory: context.values.clone(),
                request,
                rows: OnceLock::new(),
            }),
        })
    }

    /// Whether only the number of rows is asked for, and rows are files.
    fn is_counted(&self) -> bool {
        let request = &self.found.request;
        let is_of_files = matches!(self.unit, Unit::File | Unit::Record);
        is_of_files && request.columns.is_empty() && request.filters.is_empty()
    }

    /// Asks the prepared query.
    fn ask<A: Send + 'static>(
        &self,
        answer: impl FnOnce(&Ranking, Run<'_>) -> Result<A> + Send + 'static,
    ) -> Result<(Ranking, A)> {
        let (found, bm25, unit) = (&self.found, self.bm25, self.unit);
        found.interrupt.check()?;
        let view = found.reader.view();
        if let Some(ranking) = Ranking::at_hand(view, &self.query, bm25, unit)? {
            let answer = answer(&ranking, Run::to_the_end())?;
            return Ok((ranking, answer));
        }
        let (view, query) = (view.clone(), self.query.clone());
        found.reader.ask(&found.interrupt, move |_, stop| {
            let run = Run::until(stop);
            let ranking = Ranking::new(&view, &query, bm25, unit, run)?;
            let answer = answer(&ranking, run)?;
            Ok((ranking, answer))
        })
    }

    /// Whether a value of a row is made of its text.
    fn reads_texts(&self) -> bool {
        let request = &self.found.request;
        let is_of_files = matches!(self.unit, Unit::File | Unit::Record);
        let is_read = |column: usize| column >= OFFSET && !is_of_files;
        let mut columns = request.columns.iter();
        let mut filters = request.filters.iter();
        filters.any(|filter| is_read(filter.column()))
            || columns.any(|requested| match requested.column {
                ScanColumn::Column(column) => is_read(column),
                ScanColumn::Excerpt(_) | ScanColumn::Substr { .. } => !requested.is_deferred,
            })
    }

    /// Finds what matches, unless that is done.
    fn find(&self) -> Result<()> {
        if self.found.rows.get().is_none() {
            let limit = self.limit;
            let rows = self.ask(move |ranking, run| ranking.best(limit, run))?;
            self.found.rows.get_or_init(|| rows);
        }
        Ok(())
    }

    /// The number of files that match, as one row that occurs as often.
    fn counted(&mut self) -> Result<Option<Batch>> {
        if std::mem::replace(&mut self.next, 1) > 0 {
            return Ok(None);
        }
        let (_, count) = self.ask(Ranking::count_files)?;
        Ok((count > 0).then(|| Batch::new(Vec::new(), 1, Some(vec![count]))))
    }
}

/// The query of a call, and notices on what of it means nothing.
fn read_query(call: &SearchCall, tokenizer: Tokenizer) -> Result<(FileQuery, Vec<Notice>)> {
    let wrong = |argument: &str, reason: String| argument_error(call.function, argument, reason);
    let mode = match call.text("mode").unwrap_or("any") {
        "any" => QueryMode::Any,
        "all" => QueryMode::All,
        "lenient" => QueryMode::Lenient,
        other => {
            let reason = format!("no such mode `{other}`; hint: modes are any, all, lenient");
            return Err(wrong("mode", reason));
        }
    };
    let stemmer = match call.text("stemmer") {
        None | Some("none") => None,
        Some(name) => match Stemmer::named(name) {
            Some(stemmer) => Some(stemmer),
            None => {
                let reason = format!("no such stemmer `{name}`; hint: stemmers are none, english");
                return Err(wrong("stemmer", reason));
            }
        },
    };
    let text = call.text("query").unwrap_or_default();
    let read = search::read_query(text, mode, stemmer, tokenizer);
    read.map_err(|error| wrong("query", error.to_string()))
}

/// The unit of a call.
fn unit(call: &SearchCall) -> Result<Unit> {
    let wrong =
        |argument: &str, reason: String| Err(argument_error(call.function, argument, reason));
    let size = call.integer("size");
    let unit = match call.text("unit").unwrap_or("file") {
        "file" => Unit::File,
        "line" => Unit::Line,
        "paragraph" => Unit::Paragraph,
        "sentence" => Unit::Sentence,
        "window" => {
            let Some(size) = size else {
                let reason = "a window has none; hint: unit => 'window', size => 50".to_owned();
                return wrong("size", reason);
            };
            return match u32::try_from(size) {
                Ok(size) => Ok(Unit::Window(size)),
                Err(_) => wrong("size", format!("{size} words are more than {}", u32::MAX)),
            };
        }
        other => {
            let reason = format!(
                "no such unit `{other}`; hint: units are file, line, paragraph, sentence, window"
            );
            return wrong("unit", reason);
        }
    };
    if size.is_some() {
        let reason = "only windows have a size; hint: unit => 'window', size => 50".to_owned();
        return wrong("size", reason);
    }
    Ok(unit)
}

impl FoundRows {
    /// The values of the row of a rank, as the request has them, and those that conditions ask for by column of the relation.
    fn row(&self, rank: usize, run: Run<'_>) -> Result<(Vec<Value>, Vec<Value>)> {
        let Some((ranking, ranked)) = self.rows.get() else {
            return Ok((Vec::new(), Vec::new()));
        };
        let row = &ranked[rank];
        let filters = self.request.filters.iter();
        let mut filtered = vec![Value::Null; COLUMNS];
        for column in filters.map(|filter| filter.column()) {
            filtered[column] = column_of(ranking, row, column)?;
        }
        let columns = self.request.columns.iter();
        let values = columns.map(|requested| match requested.column {
            _ if requested.is_deferred => Ok(from_count(rank as u64)),
            ScanColumn::Column(column) => column_of(ranking, row, column),
            ScanColumn::Excerpt(number) => self.excerpt(rank, number, run),
            ScanColumn::Substr { .. } => Ok(Value::Null),
        });
        Ok((values.collect::<Result<_>>()?, filtered))
    }

    fn excerpt(&self, rank: usize, number: usize, run: Run<'_>) -> Result<Value> {
        let Some((ranking, ranked)) = self.rows.get() else {
            return Ok(Value::Null);
        };
        let style = &self.request.excerpts[number];
        let text = ranking.excerpt(&ranked[rank], style, &self.memory, run)?;
        Ok(text_or_blob(text))
    }
}

/// The value of a column of a row.
fn column_of(ranking: &Ranking, row: &Ranked, column: usize) -> Result<Value> {
    let file = &ranking.view().files()[row.file as usize];
    Ok(match column {
        FILE => Value::Text(file.name.clone()),
        SCORE => Value::Real(row.score),
        2 => from_count(row.hits),
        POSITION => from_count(row.start),
        4 => from_count(row.words),
        OFFSET => from_count(ranking.extent(row)?.start),
        _ => {
            let Range { start, end } = ranking.extent(row)?;
            from_count(end - start)
        }
    })
}

impl Operator for RankedScan {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        self.late.check()?;
        if self.is_counted() {
            return self.counted();
        }
        self.find()?;
        let count = self.found.rows.get().map_or(0, |(_, rows)| rows.len());
        let mut collector = RowCollector::default();
        let mut rows = 0;
        while rows < rows_max.max(1) && self.next < count {
            let end = count.min(self.next.saturating_add(rows_max.max(1) - rows));
            let (found, ranks) = (self.found.clone(), self.next..end);
            let made = if self.reads_texts() {
                found
                    .clone()
                    .reader
                    .ask(&self.found.interrupt, move |_, stop| {
                        let made = ranks
                            .into_par_iter()
                            .map(|rank| found.row(rank, Run::until(stop)));
                        made.collect::<Result<Vec<_>>>()
                    })?
            } else {
                self.found.interrupt.check()?;
                let made = ranks.map(|rank| found.row(rank, Run::to_the_end()));
                made.collect::<Result<Vec<_>>>()?
            };
            self.next = end;
            for (values, filtered) in made {
                if passes(&self.found.request.filters, |column| {
                    filtered[column].clone()
                })? {
                    collector.push(values);
                    rows += 1;
                }
            }
        }
        Ok(collector.finish())
    }
}

impl Scan for RankedScan {
    fn properties(&self) -> Properties {
        Properties {
            order: self.order.clone(),
            is_unique: false,
        }
    }

    fn notices(&self) -> Vec<Notice> {
        self.notices.clone()
    }

    fn fetch(&self) -> Option<Box<dyn Fetch>> {
        let columns = self.found.request.columns.iter().enumerate();
        let deferred = columns.filter(|(_, requested)| requested.is_deferred);
        let deferred = DeferredExcerpts {
            columns: deferred.map(|(column, _)| column).collect(),
            found: self.found.clone(),
            held: self.found.memory.hold(),
        };
        (!deferred.columns.is_empty()).then(|| Box::new(deferred) as Box<dyn Fetch>)
    }

    fn description(&self) -> Arc<dyn Describe> {
        self.description.clone()
    }

    fn into_operator(self: Box<Self>) -> Box<dyn Operator> {
        self
    }
}

/// Makes the excerpts of rows that are shown.
struct DeferredExcerpts {
    columns: Vec<usize>,
    found: Arc<FoundRows>,
    held: Held,
}

/// Bytes that a word of an excerpt takes about.
const WORD_BYTES: u64 = 8;

impl Fetch for DeferredExcerpts {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn bytes(&self, column: usize, stand_in: &Value) -> u64 {
        let (Value::Integer(rank), Some((_, ranked))) = (stand_in, self.found.rows.get()) else {
            return 0;
        };
        let ScanColumn::Excerpt(number) = self.found.request.columns[column].column else {
            return 0;
        };
        // The scan put a rank there.
        let words = ranked[*rank as usize].words;
        let most = self.found.request.excerpts[number].words_max;
        most.map_or(words, |most| most.min(words)) * WORD_BYTES
    }

    fn value(&mut self, column: usize, stand_in: &Value) -> Result<Value> {
        let (Value::Integer(rank), ScanColumn::Excerpt(number)) =
            (stand_in, self.found.request.columns[column].column)
        else {
            return Ok(stand_in.clone());
        };
        let (found, rank) = (self.found.clone(), *rank as usize);
        let excerpt = (self.found.reader).ask(&self.found.interrupt, move |_, stop| {
            found.excerpt(rank, number, Run::until(stop))
        })?;
        self.held.add(&excerpt);
        Ok(excerpt)
    }

    fn forget(&mut self) {
        self.held.clear();
    }
}
