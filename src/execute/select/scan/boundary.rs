//! What a block asks of a relation, and what a scan promises.

use std::sync::Arc;

use zipfdb_sql::query::Relation;

use crate::answer::Top;
use crate::execute::select::explain::Describe;
use crate::execute::select::row::Operator;
use crate::expression::ColumnFilter;
use crate::{Result, Value};

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
    pub(crate) wanted_order: Vec<RowOrder>,
    /// No more rows than this are used, counted with how often they occur. With a wanted order only a scan that gives its rows
    /// in this order may stop there.
    pub(crate) limit: Option<u64>,
    /// Only the rows that occur so often, or most often, or least, are used. A scan whose rows are unique may leave out the others.
    pub(crate) top: Option<Top>,
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

/// What rows are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowOrder {
    pub(crate) key: OrderKey,
    /// Greatest first.
    pub(crate) descending: bool,
}

/// What a scan can order rows by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderKey {
    /// A column, by index into those asked for.
    Column(usize),
    /// How often a row occurs.
    Times,
}

impl RowOrder {
    /// By a column, least first.
    pub(crate) fn ascending(column: usize) -> RowOrder {
        RowOrder {
            key: OrderKey::Column(column),
            descending: false,
        }
    }

    /// By how often rows occur, greatest first.
    pub(crate) const MOST_OFTEN: RowOrder = RowOrder::by_times(true);

    /// By how often rows occur.
    pub(crate) const fn by_times(descending: bool) -> RowOrder {
        RowOrder {
            key: OrderKey::Times,
            descending,
        }
    }
}

/// What a scan promises of its rows beyond the columns and filters asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    /// Rows come in this order, values compared by bytes. Only unique rows come in order of how often they occur.
    pub(crate) order: Vec<RowOrder>,
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

/// Makes the values of deferred columns, which have something else that stands in for each until then.
pub(crate) trait Fetch: Send {
    /// The deferred columns, by index.
    fn columns(&self) -> &[usize];

    /// How many bytes a value takes.
    fn bytes(&self, column: usize, stand_in: &Value) -> u64;

    /// A value, which counts as held from now on.
    ///
    /// # Errors
    /// If it cannot be read, or takes too much memory beside what is held.
    fn value(&mut self, column: usize, stand_in: &Value) -> Result<Value>;

    /// Counts nothing as held any longer.
    fn forget(&mut self);
}

/// Whether a row passes the filters; `value` gives the value of a column of the relation.
pub(super) fn passes(filters: &[ColumnFilter], value: impl Fn(usize) -> Value) -> Result<bool> {
    for filter in filters {
        if !filter.matches(&value(filter.column()))? {
            return Ok(false);
        }
    }
    Ok(true)
}
