//! The boundary between operators and what reads a relation.
//!
//! A block says what it needs of its relation in a `ScanRequest`; a `Scan` answers with rows of exactly the columns that were
//! asked for. Invariant: a scan gives the rows that pass all column filters, each as often as it occurs in the relation, in any
//! order and with equal rows merged or not, unless its `Properties` promise more.

mod catalog;
mod files;
mod ngrams;
mod nothing;
#[cfg(test)]
mod reference;
mod request;
mod selection;
mod term_vectors;
#[cfg(test)]
mod tests;
mod words;

use std::sync::Arc;

use zipfdb_sql::query::Relation;

use super::context::Context;
use super::explain::Describe;
use super::row::Operator;
use crate::expression::ColumnFilter;
use crate::session::Session;
use crate::{Result, Value};

pub(crate) use nothing::Nothing;
pub(super) use request::{Sourced, column_order, request};

/// What a block needs of its relation.
#[derive(Debug)]
pub(crate) struct ScanRequest {
    pub(crate) relation: Relation,
    /// The columns of the rows to give, in this order.
    pub(crate) columns: Vec<RequestedColumn>,
    /// All of these must be true, also of columns that are not asked for.
    pub(crate) filters: Vec<ColumnFilter>,
    /// Whether merging equal rows saves work above: rows are grouped or made distinct.
    pub(crate) merge: bool,
    /// An order that would save sorting, by index into `columns`. A scan that gives its rows so says it in `Properties`.
    pub(crate) wanted_order: Vec<ColumnOrder>,
    /// No more rows than this are used, counted with how often they occur. With a wanted order only a scan that gives its rows
    /// in this order may stop there.
    pub(crate) limit: Option<u64>,
}

/// A column that a scan is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestedColumn {
    pub(crate) column: ScanColumn,
    /// Not looked at before sorting and LIMIT: the scan may give anything from which its `Fetch` can make the value. Only
    /// what is made from content is deferred.
    pub(crate) is_deferred: bool,
}

/// What a scan can compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ScanColumn {
    /// A column of the relation, by index.
    Column(usize),
    /// `substr(content, start, length)` of files.
    Substr { start: i64, length: Option<i64> },
}

/// A column that rows are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ColumnOrder {
    /// By index into the columns asked for.
    pub(crate) column: usize,
    /// Greatest first.
    pub(crate) descending: bool,
}

/// What a scan promises of its rows beyond the columns and filters asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    /// Rows come in this order, values compared by bytes.
    pub(crate) order: Vec<ColumnOrder>,
    /// No two rows are equal.
    pub(crate) is_unique: bool,
}

/// Reads a relation.
pub(crate) trait Scan: Operator {
    /// What may be relied on, settled before the first row.
    fn properties(&self) -> Properties {
        Properties::default()
    }

    /// Makes the values of deferred columns; none if the scan defers nothing.
    fn fetch(&self) -> Option<Box<dyn Fetch>> {
        None
    }

    /// What EXPLAIN shows of it. Asked again after the last row by EXPLAIN ANALYZE.
    fn description(&self) -> Arc<dyn Describe>;

    /// The scan as an operator.
    fn into_operator(self: Box<Self>) -> Box<dyn Operator>;
}

/// Makes the values of deferred columns in rows that were given by a scan.
pub(crate) trait Fetch: Send {
    /// Puts them into the row.
    fn fetch(&mut self, row: &mut [Value]) -> Result<()>;
}

/// Starts the scan of a relation.
pub(super) fn open(
    session: &Arc<Session>,
    request: ScanRequest,
    context: &Context,
) -> Result<Box<dyn Scan>> {
    Ok(match &request.relation {
        Relation::Files { corpus } => {
            let snapshot = context.snapshot(session, corpus)?;
            Box::new(files::FilesScan::new(snapshot, request, context)?)
        }
        Relation::Corpora => Box::new(catalog::corpora(session, request, context)?),
        Relation::Segments { corpus } => {
            let corpus = session.corpus(corpus)?;
            Box::new(catalog::segments(&corpus, request, context)?)
        }
        Relation::Devices => Box::new(catalog::devices(session, request, context)?),
        Relation::Settings => Box::new(catalog::settings(request, context)?),
        Relation::Words { corpus } => {
            let snapshot = context.snapshot(session, corpus)?;
            Box::new(words::WordsScan::new(snapshot, request, context)?)
        }
        Relation::TermVectors { corpus, k } => {
            let (snapshot, k) = (session.snapshot(corpus)?, *k);
            Box::new(term_vectors::TermVectorsScan::new(
                snapshot, k, request, context,
            )?)
        }
        Relation::Ngrams { corpus, n } => {
            let (snapshot, n) = (session.snapshot(corpus)?, *n);
            Box::new(ngrams::NgramsScan::new(snapshot, n, request, context)?)
        }
    })
}

/// Whether a row passes the filters; `value` gives the value of a column of the relation.
fn passes(filters: &[ColumnFilter], value: impl Fn(usize) -> Value) -> Result<bool> {
    for filter in filters {
        if !filter.matches(&value(filter.column()))? {
            return Ok(false);
        }
    }
    Ok(true)
}
