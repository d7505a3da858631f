//! `ZipfTable`: a relation of ZipfDB, or counts of groups of its rows, as a table of DataFusion.
//!
//! Invariant: a scan gives the rows of one statement, which has all that DataFusion asked for: columns, conditions, limit.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{exec_datafusion_err, internal_err, not_impl_err, plan_err};
use datafusion::datasource::TableType;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::error::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, Operator, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use zipfdb::{Reader, Value};

use crate::filter::{translate, translate_each};
use crate::insert::{CorpusSink, Insertion};
use crate::partitions::partitions;
use crate::relation::{Relation, failed};
use crate::scan::{ScanExec, ScanPart};
use crate::source::{CorpusSource, blocking};
use crate::statement::{Select, quoted_name};

/// The column of `files()` that is no part of a file table.
const CONTENT: &str = "content";

/// Batches of a partition at least: less is over before another thread has begun.
const PARTITION_BATCHES_MIN: usize = 64;

/// Counts of groups in place of rows.
#[derive(Debug, Clone)]
pub(crate) struct Grouping {
    /// Keys, as columns of the relation.
    pub(crate) keys: Vec<usize>,
    /// What is counted, as an expression of the statement.
    pub(crate) count: String,
    /// Keys, and then counts.
    pub(crate) schema: SchemaRef,
    /// Translated conditions on rows.
    pub(crate) filters: Vec<String>,
    /// Columns of `schema` to sort by, each with its direction.
    pub(crate) order: Vec<(usize, &'static str)>,
    /// Groups at most, the first of that order.
    pub(crate) limit: Option<usize>,
    /// Whether groups of some files are groups of all, or are added up above the scan.
    pub(crate) is_by_files: bool,
}

/// A corpus or a call of a table function, as a table.
#[derive(Debug, Clone)]
pub(crate) struct ZipfTable {
    pub(crate) source: Arc<CorpusSource>,
    pub(crate) relation: Arc<Relation>,
    /// None for the rows themselves.
    pub(crate) grouping: Option<Grouping>,
    /// The corpus whose files are inserted into this table, if it takes any.
    pub(crate) target: Option<String>,
}

impl ZipfTable {
    pub(crate) fn new(source: &Arc<CorpusSource>, relation: Relation) -> ZipfTable {
        ZipfTable {
            source: source.clone(),
            relation: Arc::new(relation),
            grouping: None,
            target: None,
        }
    }

    /// The same table, which takes files of a corpus.
    pub(crate) fn with_target(self, corpus: &str) -> ZipfTable {
        ZipfTable {
            target: Some(corpus.to_owned()),
            ..self
        }
    }

    /// Conditions on rows in ZipfDB's dialect; none if one of them cannot be said there.
    pub(crate) fn translated(&self, filters: &[Expr]) -> Option<Vec<String>> {
        let filters = filters.iter();
        filters
            .map(|filter| translate(filter, &self.relation))
            .collect()
    }

    /// A column of the table as the statement has it.
    fn column_sql(&self, column: usize) -> String {
        let name = |column: usize| quoted_name(self.relation.schema.field(column).name());
        match &self.grouping {
            None => name(column),
            Some(grouping) => match grouping.keys.get(column) {
                Some(key) => name(*key),
                None => grouping.count.clone(),
            },
        }
    }

    /// The statement of a scan. Without columns it is the number of rows, which has no limit.
    fn statement(
        &self,
        projection: &[usize],
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Select> {
        let Some(mut filters) = self.translated(filters) else {
            return internal_err!("a condition that was not taken: {filters:?}");
        };
        let mut select = Select {
            columns: projection.iter().map(|c| self.column_sql(*c)).collect(),
            from: self.relation.from.clone(),
            limit,
            ..Select::default()
        };
        if let Some(grouping) = &self.grouping {
            filters.extend(grouping.filters.iter().cloned());
            select.groups = (0..grouping.keys.len())
                .map(|key| self.column_sql(key))
                .collect();
            let order = grouping.order.iter();
            select.order = order
                .map(|(column, direction)| format!("{} {direction}", self.column_sql(*column)))
                .collect();
            select.limit = [limit, grouping.limit].into_iter().flatten().min();
        }
        select.filters = filters;
        if projection.is_empty() {
            return Ok(counting(select));
        }
        Ok(select)
    }

    /// How many rows a scan gives, if that is cheap to say.
    async fn row_count(&self, has_filters: bool) -> Result<Precision<usize>> {
        if self.grouping.is_some() {
            return Ok(Precision::Absent);
        }
        let Some(sql) = self.relation.count.clone() else {
            return Ok(Precision::Absent);
        };
        let source = self.source.clone();
        let rows = blocking(move || count(&source.reader(), &sql)).await?;
        Ok(if has_filters {
            Precision::Inexact(rows)
        } else {
            Precision::Exact(rows)
        })
    }

    /// Conditions that split a scan of `rows` rows among the threads of a query; none if the scan is small.
    async fn partitions(
        &self,
        config: &SessionConfig,
        rows: &Precision<usize>,
        filters: &[Expr],
    ) -> Result<Vec<ScanPart>> {
        let (Some(rows), Some(sql)) = (rows.get_value(), self.relation.file_rows.clone()) else {
            return Ok(Vec::new());
        };
        let rows_min = config.batch_size().saturating_mul(PARTITION_BATCHES_MIN);
        let ranges = config.target_partitions().min(rows / rows_min.max(1));
        if ranges < 2 {
            return Ok(Vec::new());
        }
        let source = self.source.clone();
        // Words that are named are looked up, a file at a time.
        let cuts_files = !filters.iter().any(names_words);
        let find = move || partitions(&source.reader(), &sql, ranges, cuts_files);
        let conditions = blocking(find).await?;
        Ok(match conditions.len() {
            0 | 1 => Vec::new(),
            _ => conditions.into_iter().map(ScanPart::Where).collect(),
        })
    }

    /// What workers read of a scan; none if it is answered here: there are none, or it is not answered segment by segment,
    /// or by file tables alone.
    async fn segments_of_workers(&self, select: &Select) -> Result<Option<Vec<ScanPart>>> {
        let Some(corpus) = self.relation.corpus.clone() else {
            return Ok(None);
        };
        let is_by_files = self
            .grouping
            .as_ref()
            .is_none_or(|groups| groups.is_by_files);
        if self.source.workers.is_none() || !is_by_files || self.reads_file_tables(select) {
            return Ok(None);
        }
        let source = self.source.clone();
        let assigned = blocking(move || {
            let assigned = source.assign(&corpus);
            assigned.map_err(|error| failed(&corpus, error))
        });
        let parts = assigned.await?.map(|assigned| {
            let parts = assigned.into_iter();
            parts.map(|(worker, segments)| ScanPart::Segments(worker, segments))
        });
        Ok(parts.map(Iterator::collect))
    }

    /// Whether a statement asks for names and sizes of files only.
    fn reads_file_tables(&self, select: &Select) -> bool {
        self.relation.column(CONTENT).is_some() && !select.to_string().contains(CONTENT)
    }
}

/// Whether a condition names the words that it holds for.
fn names_words(condition: &Expr) -> bool {
    let is_word = |operand: &Expr| matches!(operand, Expr::Column(column) if column.name == "word");
    match condition {
        Expr::BinaryExpr(binary) if binary.op == Operator::Eq => {
            is_word(&binary.left) || is_word(&binary.right)
        }
        Expr::InList(list) => !list.negated && is_word(&list.expr),
        _ => false,
    }
}

/// The number of rows of a statement without its limit.
fn counting(mut select: Select) -> Select {
    select.limit = None;
    select.order.clear();
    if select.groups.is_empty() {
        select.columns = vec!["COUNT(*)".into()];
        return select;
    }
    select.columns = vec!["1".into()];
    Select {
        columns: vec!["COUNT(*)".into()],
        from: format!("({select})"),
        ..Select::default()
    }
}

/// The only value of a statement, a number of rows.
fn count(reader: &Reader, sql: &str) -> Result<usize> {
    let mut rows = reader.query(sql, ()).map_err(|error| failed(sql, error))?;
    let row = rows
        .next()
        .transpose()
        .map_err(|error| failed(sql, error))?;
    let value = row.and_then(|row| row.into_values().into_iter().next());
    let count = match value {
        Some(Value::Integer(count)) => usize::try_from(count).ok(),
        _ => None,
    };
    count.ok_or_else(|| exec_datafusion_err!("{sql}: no number of rows"))
}

#[async_trait]
impl TableProvider for ZipfTable {
    fn schema(&self) -> SchemaRef {
        match &self.grouping {
            Some(grouping) => grouping.schema.clone(),
            None => self.relation.schema.clone(),
        }
    }

    fn table_type(&self) -> TableType {
        if self.relation.is_view {
            TableType::View
        } else {
            TableType::Base
        }
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let taken = match self.grouping {
            None => translate_each(filters, &self.relation),
            Some(_) => vec![None; filters.len()],
        };
        let answer = taken.into_iter().map(|translated| match translated {
            Some(_) => TableProviderFilterPushDown::Exact,
            None => TableProviderFilterPushDown::Unsupported,
        });
        Ok(answer.collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = self.schema();
        let all: Vec<usize> = (0..schema.fields().len()).collect();
        let projection = projection.map_or(&all[..], |columns| columns);
        let select = self.statement(projection, filters, limit)?;
        let mut rows = self.row_count(!filters.is_empty()).await?;
        if let Some(limit) = limit {
            rows = match rows {
                Precision::Absent => Precision::Absent,
                rows => rows.min(&Precision::Exact(limit)),
            };
        }
        let fields = projection
            .iter()
            .map(|column| schema.field(*column).clone());
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let grouped = self.grouping.as_ref().and_then(|grouping| grouping.limit);
        let limit = [limit, grouped].into_iter().flatten().min();
        let is_whole = self.grouping.is_none() && limit.is_none() && !projection.is_empty();
        let of_workers = self.segments_of_workers(&select).await?;
        let partitions = match of_workers {
            Some(partitions) => partitions,
            None if is_whole => self.partitions(state.config(), &rows, filters).await?,
            None => Vec::new(),
        };
        let (source, relation) = (self.source.clone(), self.relation.clone());
        let scan = ScanExec::new(source, relation, select, schema, limit, rows);
        Ok(Arc::new(if partitions.is_empty() {
            scan
        } else {
            scan.parted(partitions)
        }))
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        operation: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(corpus) = &self.target else {
            return plan_err!(
                "{} takes no rows; hint: INSERT INTO files.corpus (file, content) adds files to a corpus",
                self.relation.from
            );
        };
        let insertion = match operation {
            InsertOp::Append => Insertion::Append,
            InsertOp::Replace => Insertion::Replace,
            InsertOp::Overwrite => {
                return not_impl_err!(
                    "INSERT OVERWRITE; hint: REPLACE INTO files.{corpus} makes the text all that a file holds"
                );
            }
        };
        let sink = CorpusSink::new(&self.source, corpus, insertion, &self.relation.schema);
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
    }
}
