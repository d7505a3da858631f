//! The request of a block to its relation, and the promises of a scan.

use std::sync::Arc;

use zipfdb_sql::query::{ExpressionId, MetadataColumn, Relation};

use crate::answer::Top;
use crate::execute::select::explain::Describe;
use crate::execute::select::row::Operator;
use crate::expression::{ColumnFilter, Program};
use crate::notice::Notice;
use crate::search::excerpt::ExcerptStyle;
use crate::{Result, Value};

/// The needs of a block from its relation.
#[derive(Debug)]
pub(crate) struct ScanRequest {
    pub(crate) relation: Relation,
    /// The metadata of files, whose columns stand behind those of the relation.
    pub(crate) metadata: Vec<MetadataColumn>,
    /// Conditions on several columns of files, decided for each file before the scan is opened.
    pub(crate) file_conditions: Option<FileConditions>,
    /// The files that rows may be of, ascending; none for all. Only of relations whose rows name a file.
    pub(crate) files: Option<Arc<[u32]>>,
    /// The columns of the rows, in this order.
    pub(crate) columns: Vec<RequestedColumn>,
    /// The excerpts among the columns.
    pub(crate) excerpts: Vec<ExcerptStyle>,
    /// Conditions that must all be true, also on columns that are not requested.
    pub(crate) filters: Vec<ColumnFilter>,
    /// Whether merging equal rows saves work above: rows are grouped or made distinct.
    pub(crate) merge: bool,
    /// An order that would save sorting, by index into `columns`. A scan in this order says it in `Properties`.
    pub(crate) wanted_order: Vec<RowOrder>,
    /// The most rows that are used, counted with their multiplicities. With a wanted order only a scan in this order may stop
    /// there.
    pub(crate) limit: Option<u64>,
    /// The used rows by multiplicity, if not all are used. A scan whose rows are unique may leave out the others.
    pub(crate) top: Option<Top>,
}

/// Conditions that must all be true, on metadata and names of files.
#[derive(Debug)]
pub(crate) struct FileConditions {
    /// The columns that `program` reads, by index in the relation, in order of its rows.
    pub(crate) columns: Vec<usize>,
    pub(crate) program: Arc<Program>,
    pub(crate) conjuncts: Vec<ExpressionId>,
}

/// A requested column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestedColumn {
    pub(crate) column: ScanColumn,
    /// Not read before sorting and LIMIT: the scan may return any value from which its `Fetch` can make the requested one. Only
    /// values made from content and excerpts are deferred.
    pub(crate) is_deferred: bool,
}

/// A value that a scan can compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ScanColumn {
    /// A column of the relation, by index.
    Column(usize),
    /// `substr(content, start, length)` of files.
    Substr { start: i64, length: Option<i64> },
    /// An excerpt of a row of `search()`, by its number in [`ScanRequest::excerpts`].
    Excerpt(usize),
}

/// A key of the order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowOrder {
    pub(crate) key: OrderKey,
    /// Greatest first.
    pub(crate) descending: bool,
}

/// The keys by which a scan can order rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderKey {
    /// A column, by index into the requested ones.
    Column(usize),
    /// The multiplicity of a row.
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

    /// By multiplicity, greatest first.
    pub(crate) const MOST_OFTEN: RowOrder = RowOrder::by_times(true);

    /// By multiplicity.
    pub(crate) const fn by_times(descending: bool) -> RowOrder {
        RowOrder {
            key: OrderKey::Times,
            descending,
        }
    }
}

/// The promises of a scan on its rows, beyond the requested columns and filters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    /// The order of rows, with values compared by bytes. Only unique rows come in order of their multiplicity.
    pub(crate) order: Vec<RowOrder>,
    /// No two rows are equal.
    pub(crate) is_unique: bool,
}

/// Reads a relation.
pub(crate) trait Scan: Operator {
    /// The promises, fixed before the first row.
    fn properties(&self) -> Properties {
        Properties::default()
    }

    /// Notices on the relation, known when the scan opens.
    fn notices(&self) -> Vec<Notice> {
        Vec::new()
    }

    /// The reader of deferred columns; none if the scan defers nothing.
    fn fetch(&self) -> Option<Box<dyn Fetch>> {
        None
    }

    /// Its description for EXPLAIN. Read again after the last row by EXPLAIN ANALYZE.
    fn description(&self) -> Arc<dyn Describe>;

    /// The scan as an operator.
    fn into_operator(self: Box<Self>) -> Box<dyn Operator>;
}

/// Makes the values of deferred columns, which have a stand-in until then.
pub(crate) trait Fetch: Send {
    /// The deferred columns, by index.
    fn columns(&self) -> &[usize];

    /// The size of a value in bytes.
    fn bytes(&self, column: usize, stand_in: &Value) -> u64;

    /// A value, which counts as held from now on.
    ///
    /// # Errors
    /// If it cannot be read, or takes too much memory beside the held values.
    fn value(&mut self, column: usize, stand_in: &Value) -> Result<Value>;

    /// Counts no values as held any longer.
    fn forget(&mut self);
}

/// Whether a row passes the filters; `value` returns the value of a column of the relation.
pub(super) fn passes(filters: &[ColumnFilter], value: impl Fn(usize) -> Value) -> Result<bool> {
    for filter in filters {
        if !filter.matches(&value(filter.column()))? {
            return Ok(false);
        }
    }
    Ok(true)
}
