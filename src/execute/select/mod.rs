//! SELECT: operators that pull rows from one another, one operator per file.
//!
//! `build` connects them, `scan` makes rows, `external_sort`, `spill`, `key` and `codec` serve those that keep rows. Invariant:
//! kept rows stay within the memory limit and spill beyond it; every loop over rows can be interrupted. How text is read from a
//! grammar is not known here.

mod accumulate;
mod aggregate;
mod aggregate_unique;
mod argument;
mod build;
mod codec;
mod context;
mod distinct;
mod explain;
mod external_sort;
mod fetch;
mod filter;
mod group;
mod group_index;
mod group_keys;
mod group_table;
mod grouped_aggregate;
mod groups;
mod intersections;
mod key;
mod key_interner;
mod limit;
mod literals;
mod number_keys;
mod parameter_batch;
mod project;
mod row;
mod run_file;
mod scan;
mod sort;
mod sort_column;
mod spill;
mod stable_sort;
mod subquery;
mod union;
mod unmatched;
mod value_interner;
mod values;
mod word_order;
mod word_text;

use std::sync::Arc;

use zipfdb_sql::plan::ExplainFormat;
use zipfdb_sql::query::Query;

use self::build::{Builder, OpenScan};
use self::context::{Context, KnownLookups};
use self::explain::{Explained, Plan};
use self::row::Input;
use self::unmatched::UnmatchedNotices;
use crate::batch::{BATCH_ROWS, Batch};
use crate::handles::row::Column;
use crate::handles::rows::{RowSource, Rows};
use crate::handles::session::Session;
use crate::runtime::interrupt::{Interrupt, Pace};
use crate::{Result, Value, ValueKind};

/// Answers a query.
///
/// # Errors
/// If a corpus is gone or damaged, or a constant pattern is not valid. Rows can fail later.
pub(crate) fn select(session: &Arc<Session>, query: Query, interrupt: &Interrupt) -> Result<Rows> {
    select_from(session, vec![query], scan::open, interrupt)
}

/// Answers the queries of one statement with many parameter sets, in their order, as one statement: it has one timeout and is
/// interrupted as a whole. A query begins when the rows of those before it are returned.
///
/// # Errors
/// As `select`, for the first query.
pub(crate) fn select_many(
    session: &Arc<Session>,
    queries: Vec<Query>,
    interrupt: &Interrupt,
) -> Result<Rows> {
    select_from(session, queries, scan::open, interrupt)
}

fn select_from(
    session: &Arc<Session>,
    mut queries: Vec<Query>,
    open: OpenScan,
    interrupt: &Interrupt,
) -> Result<Rows> {
    literals::settle(session, &mut queries);
    let notices = unmatched::notices(session, &queries, interrupt);
    let context = Context::new(session, interrupt);
    if context.settings.strategy.is_none() {
        intersections::settle(&mut queries);
    }
    let handle = context.interrupt.handle();
    let Some(first) = queries.first() else {
        return Ok(Rows::none());
    };
    let columns = first.columns().zip(first.column_kinds());
    let columns = columns
        .map(|(name, kind)| Column::new(name, kind))
        .collect();
    let mut answers = QueryRows {
        session: session.clone(),
        pace: context.pace(),
        context,
        open,
        batch_end: 0,
        queries: queries.into_iter(),
        input: None,
        rest: None,
        ahead: 1,
        notices,
    };
    // So that an error in a query is known before its rows are asked for.
    answers.begin()?;
    let notices = std::mem::take(&mut answers.notices).into_notices();
    let rows = Rows::of(columns, answers).with_interrupt(handle);
    Ok(rows.with_notices(notices))
}

/// EXPLAIN: the operators of a query as an indented tree, one line a row, or as one row of JSON. With `analyze` the query runs
/// first; subqueries in expressions always do, since the plan of the query depends on their values.
///
/// # Errors
/// As `select`, and with `analyze` the errors of its rows.
pub(crate) fn explain(
    session: &Arc<Session>,
    query: &Query,
    analyze: bool,
    format: ExplainFormat,
    interrupt: &Interrupt,
) -> Result<Rows> {
    explain_from(session, query, (analyze, format), scan::open, interrupt)
}

fn explain_from(
    session: &Arc<Session>,
    query: &Query,
    (analyze, format): (bool, ExplainFormat),
    open: OpenScan,
    interrupt: &Interrupt,
) -> Result<Rows> {
    let mut queries = [query.clone()];
    literals::settle(session, &mut queries);
    let mut notices = unmatched::notices(session, &queries, interrupt);
    let context = Context::new(session, interrupt).explained();
    if context.settings.strategy.is_none() {
        intersections::settle(&mut queries);
    }
    let [query] = queries;
    let mut builder = Builder {
        session,
        context,
        plan: Plan::new(if analyze {
            Explained::Analyzed
        } else {
            Explained::Operators
        }),
        open,
        notices: UnmatchedNotices::default(),
    };
    let mut input = builder.query(&query)?;
    notices.add_all(std::mem::take(&mut builder.notices));
    if analyze {
        while input.next_batch(BATCH_ROWS)?.is_some() {}
    }
    let lines = match format {
        ExplainFormat::Text => builder.plan.lines(),
        ExplainFormat::Json => vec![builder.plan.json()],
    };
    let lines = lines.into_iter();
    let rows = lines.map(|line| Ok(vec![Value::Text(line)]));
    let rows = Rows::new(vec![Column::new("plan", Some(ValueKind::Text))], rows);
    Ok(rows.with_notices(notices.into_notices()))
}

/// The rows of one query after the other, each with its multiplicity.
struct QueryRows {
    session: Arc<Session>,
    /// For the next query; its binding is the number of that query.
    context: Context,
    open: OpenScan,
    /// The first query without known answers.
    batch_end: u64,
    /// The queries that have not begun.
    queries: std::vec::IntoIter<Query>,
    /// The current query.
    input: Option<Input>,
    /// Rows that come before those of the input.
    rest: Option<RestOfBatch>,
    /// The number of rows to ask for next: few at first, as few may be wanted.
    ahead: usize,
    pace: Pace,
    /// The notices of the queries that have begun, until the first rows are asked for.
    notices: UnmatchedNotices,
}

/// The growth of the number of rows to ask for, each time that all were used.
const AHEAD_FACTOR: usize = 8;

impl QueryRows {
    /// Begins the next query. Returns whether there is one.
    fn begin(&mut self) -> Result<bool> {
        if self.context.binding == self.batch_end {
            let queries = self.queries.as_slice();
            let next = &queries[..queries.len().min(parameter_batch::SETS_MAX)];
            // The known answers are dropped before new ones are made.
            self.context.batch = None;
            let batch = parameter_batch::batch(&self.session, next, &self.context)?;
            self.batch_end += batch
                .as_ref()
                .map_or(parameter_batch::SETS_MAX as u64, KnownLookups::sets);
            self.context.batch = batch.map(Arc::new);
        }
        let Some(query) = self.queries.next() else {
            return Ok(false);
        };
        let mut builder = Builder {
            session: &self.session,
            context: self.context.clone(),
            plan: Plan::new(Explained::Nothing),
            open: self.open,
            notices: UnmatchedNotices::default(),
        };
        self.input = Some(builder.query(&query)?);
        self.notices.add_all(builder.notices);
        self.context.binding += 1;
        Ok(true)
    }

    /// The next batch of the queries; none at the end of all.
    fn next_of_queries(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        loop {
            let Some(input) = &mut self.input else {
                if !self.begin()? {
                    return Ok(None);
                }
                continue;
            };
            match input.next_batch(rows_max)? {
                Some(batch) => return Ok(Some(batch)),
                None => self.input = None,
            }
        }
    }

    fn row(&mut self) -> Result<Option<Vec<Value>>> {
        loop {
            self.pace.step()?;
            if let Some(rest) = &mut self.rest {
                match rest.take() {
                    Some(row) => return Ok(Some(rest.batch.row(row))),
                    None => self.rest = None,
                }
            }
            let Some(batch) = self.next_of_queries(self.ahead)? else {
                return Ok(None);
            };
            self.ahead = (self.ahead * AHEAD_FACTOR).min(BATCH_ROWS);
            self.rest = Some(RestOfBatch::new(batch));
        }
    }
}

/// Rows of a batch, each with its multiplicity.
struct RestOfBatch {
    batch: Batch,
    /// None if each is 1.
    times: Option<Vec<u64>>,
    /// The next row, and how often it was returned.
    row: usize,
    given: u64,
}

impl RestOfBatch {
    fn new(mut batch: Batch) -> RestOfBatch {
        RestOfBatch {
            times: batch.times.take(),
            batch,
            row: 0,
            given: 0,
        }
    }

    /// The next row.
    fn take(&mut self) -> Option<usize> {
        while self.row < self.batch.len() {
            let times = self.times.as_ref().map_or(1, |times| times[self.row]);
            if self.given < times {
                self.given += 1;
                return Some(self.row);
            }
            self.row += 1;
            self.given = 0;
        }
        None
    }
}

impl RowSource for QueryRows {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        self.pace.step()?;
        loop {
            if let Some(rest) = &mut self.rest {
                // A batch has fewer rows than 2^32.
                let rows = std::iter::from_fn(|| rest.take()).map(|row| row as u32);
                let rows: Vec<u32> = rows.take(rows_max).collect();
                if !rows.is_empty() {
                    return Ok(Some(rest.batch.select(&rows)));
                }
                self.rest = None;
            }
            let Some(mut batch) = self.next_of_queries(rows_max)? else {
                return Ok(None);
            };
            match &batch.times {
                Some(times) if times.iter().any(|&times| times > 1) => {
                    self.rest = Some(RestOfBatch::new(batch));
                }
                _ => {
                    batch.times = None;
                    return Ok(Some(batch));
                }
            }
        }
    }
}

impl Iterator for QueryRows {
    type Item = Result<Vec<Value>>;

    fn next(&mut self) -> Option<Result<Vec<Value>>> {
        self.row().transpose()
    }
}

#[cfg(test)]
mod tests;
