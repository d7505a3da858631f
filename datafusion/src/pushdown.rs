//! The optimizer rule: counts by word, file or n-gram are asked of ZipfDB, and all scans of a query see one snapshot.
//!
//! Invariant: the plan gives the same rows under the same names. A count is replaced only where all that lies between it and
//! the scan is projections and aliases, and ZipfDB takes all conditions. Keys of groups are never NULL.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, TableReference};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::sum::sum;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{
    Aggregate, Expr, LogicalPlan, Projection, Sort, SortExpr, TableScan, TableScanBuilder, lit,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::resolve::{column_of, scan_below};
use crate::source::CorpusSource;
use crate::statement::quoted_name;
use crate::table::{Grouping, ZipfTable};

/// Columns whose counts ZipfDB takes from its grammar.
const KEYS: &[&str] = &["word", FILE, "ngram"];

/// The column of files, each of which one worker has whole.
const FILE: &str = "file";

/// The rule.
#[derive(Debug)]
pub(crate) struct ZipfPushdown;

impl ZipfPushdown {
    pub(crate) const NAME: &str = "zipfdb_pushdown";
}

impl OptimizerRule for ZipfPushdown {
    fn name(&self) -> &str {
        ZipfPushdown::NAME
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let mut frozen = HashMap::new();
        plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::TableScan(scan) => freeze(scan, &mut frozen),
            LogicalPlan::Aggregate(aggregate) => match grouped(&aggregate)? {
                Some(counts) => Ok(Transformed::yes(counts)),
                None => Ok(Transformed::no(LogicalPlan::Aggregate(aggregate))),
            },
            LogicalPlan::Sort(sort) => match first_groups(&sort)? {
                Some(sorted) => Ok(Transformed::yes(sorted)),
                None => Ok(Transformed::no(LogicalPlan::Sort(sort))),
            },
            other => Ok(Transformed::no(other)),
        })
    }
}

/// The table of a scan, if it is one of ours.
fn table_of(scan: &TableScan) -> Option<ZipfTable> {
    let provider = source_as_provider(&scan.source).ok()?;
    provider.downcast_ref::<ZipfTable>().cloned()
}

/// The same scan of another table.
fn scan_of(
    scan: &TableScan,
    table: ZipfTable,
    projection: Option<Vec<usize>>,
) -> Result<TableScan> {
    TableScanBuilder::new(scan.table_name.clone(), provider_as_source(Arc::new(table)))
        .with_projection(projection)
        .build()
}

/// Lets a scan read a frozen handle, the same for all scans of a plan.
fn freeze(
    mut scan: TableScan,
    frozen: &mut HashMap<*const CorpusSource, Arc<CorpusSource>>,
) -> Result<Transformed<LogicalPlan>> {
    let Some(mut table) = table_of(&scan).filter(|table| !table.source.is_frozen()) else {
        return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
    };
    let source = frozen
        .entry(Arc::as_ptr(&table.source))
        .or_insert_with(|| Arc::new(table.source.frozen()));
    table.source = source.clone();
    scan.source = provider_as_source(Arc::new(table));
    Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
}

/// Counts of groups as a scan of ZipfDB; none if they are not such.
fn grouped(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let input = &aggregate.input;
    let Some(scan) = scan_below(input).filter(|scan| scan.fetch.is_none()) else {
        return Ok(None);
    };
    let Some(table) = table_of(scan) else {
        return Ok(None);
    };
    let columns = table.schema();
    let key = |expression: &Expr| {
        let column = column_of(input, expression)?;
        let field = columns.field(column);
        let is_key = KEYS.contains(&field.name().as_str()) && !field.is_nullable();
        is_key.then_some(column)
    };
    let keys = aggregate.group_expr.iter().map(key);
    let Some(keys) = keys.collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let is_count = |expression| is_row_count(input, &columns, expression);
    if !aggregate.aggr_expr.iter().all(is_count) {
        return Ok(None);
    }
    let counted = match &table.grouping {
        None => table
            .translated(&scan.filters)
            .map(|filters| (keys.clone(), filters, "COUNT(*)".into(), true)),
        Some(groups) if scan.filters.is_empty() => groups_counted(&table, groups, &keys),
        Some(_) => None,
    };
    let Some((relation_keys, filters, count, is_sum)) = counted else {
        return Ok(None);
    };
    let of_relation = |key: &usize| table.relation.schema.field(*key).name() == FILE;
    let is_by_file = relation_keys.iter().any(of_relation);
    // Workers count each in some files. Groups by file are whole there, and others add up, or the answer is made here.
    let is_added = !is_by_file && is_sum && table.source.workers.is_some();
    let mut fields: Vec<Field> = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        // The same key twice needs two names.
        let name = if keys[..index].contains(key) {
            format!("key_{index}")
        } else {
            columns.field(*key).name().clone()
        };
        fields.push(columns.field(*key).clone().with_name(name));
    }
    for index in 0..aggregate.aggr_expr.len() {
        fields.push(Field::new(format!("count_{index}"), DataType::Int64, false));
    }
    let schema = Arc::new(Schema::new(fields));
    let counts = ZipfTable {
        grouping: Some(Grouping {
            keys: relation_keys,
            count,
            schema: schema.clone(),
            filters,
            order: Vec::new(),
            limit: None,
            is_by_files: is_by_file || is_added,
        }),
        ..table
    };
    let scan = scan_of(scan, counts, None)?;
    let name = scan.table_name.clone();
    let column = |field: &Arc<Field>| Expr::Column(Column::new(Some(name.clone()), field.name()));
    let columns: Vec<Expr> = schema.fields().iter().map(column).collect();
    let scan = LogicalPlan::TableScan(scan);
    let (plan, columns) = if is_added {
        added_up(scan, columns, keys.len())?
    } else {
        (scan, columns)
    };
    let named = (columns.into_iter().zip(aggregate.schema.iter()))
        .map(|(column, (qualifier, named))| {
            column.alias_qualified(qualifier.cloned(), named.name())
        })
        .collect();
    let projection =
        Projection::try_new_with_schema(named, Arc::new(plan), aggregate.schema.clone())?;
    Ok(Some(LogicalPlan::Projection(projection)))
}

/// Counts of the same groups that come in several rows, of which the first columns are keys, added up; and its columns.
fn added_up(
    scan: LogicalPlan,
    columns: Vec<Expr>,
    keys: usize,
) -> Result<(LogicalPlan, Vec<Expr>)> {
    let counts = columns[keys..].iter().cloned().map(sum).collect();
    let sums = Aggregate::try_new(Arc::new(scan), columns[..keys].to_vec(), counts)?;
    let column = |(qualifier, field): (Option<&TableReference>, &Arc<Field>)| {
        Expr::Column(Column::new(qualifier.cloned(), field.name()))
    };
    let mut columns: Vec<Expr> = sums.schema.iter().map(column).collect();
    for count in &mut columns[keys..] {
        // Where there is no row there is nothing.
        *count = coalesce(vec![count.clone(), lit(0_i64)]);
    }
    Ok((LogicalPlan::Aggregate(sums), columns))
}

/// How many groups there are for each value of some of their keys, where these are all keys but one: keys, conditions and the
/// count of a statement, and whether that of all files is the sum of those of some. That is what DataFusion makes of
/// `COUNT(DISTINCT key)`.
fn groups_counted(
    table: &ZipfTable,
    groups: &Grouping,
    keys: &[usize],
) -> Option<(Vec<usize>, Vec<String>, String, bool)> {
    let keys = keys.iter().map(|key| groups.keys.get(*key).copied());
    let keys = keys.collect::<Option<Vec<usize>>>()?;
    let mut others = (groups.keys.iter()).filter(|key| !keys.contains(key));
    let (other, None) = (others.next()?, others.next()) else {
        return None;
    };
    let other = table.relation.schema.field(*other).name();
    let count = format!("COUNT(DISTINCT {})", quoted_name(other));
    (groups.limit.is_none()).then(|| (keys, groups.filters.clone(), count, other == FILE))
}

/// Whether an aggregate is the number of rows: `COUNT` of what is never NULL.
fn is_row_count(input: &LogicalPlan, columns: &Schema, expression: &Expr) -> bool {
    let function = match expression {
        Expr::Alias(alias) => return is_row_count(input, columns, &alias.expr),
        Expr::AggregateFunction(function) => function,
        _ => return false,
    };
    let AggregateFunction { func, params } = function;
    let is_plain = *func == count_udaf()
        && !params.distinct
        && params.filter.is_none()
        && params.order_by.is_empty();
    let [argument] = &params.args[..] else {
        return false;
    };
    let is_never_null = match argument {
        Expr::Literal(value, _) => !value.is_null(),
        argument => {
            column_of(input, argument).is_some_and(|column| !columns.field(column).is_nullable())
        }
    };
    is_plain && is_never_null
}

/// A sort of counts that keeps the first ones, whose scan gives only these; none if it is not such.
fn first_groups(sort: &Sort) -> Result<Option<LogicalPlan>> {
    let (Some(limit), Some(scan)) = (sort.fetch, scan_below(&sort.input)) else {
        return Ok(None);
    };
    if scan.fetch.is_some() || !scan.filters.is_empty() || i64::try_from(limit).is_err() {
        return Ok(None);
    }
    let Some(mut table) = table_of(scan) else {
        return Ok(None);
    };
    let Some(grouping) = &mut table.grouping else {
        return Ok(None);
    };
    let key = |key: &SortExpr| {
        let direction = if key.asc { "ASC" } else { "DESC" };
        Some((column_of(&sort.input, &key.expr)?, direction))
    };
    let Some(order) = (sort.expr.iter().map(key)).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    if grouping.limit.is_some() {
        return Ok(None);
    }
    grouping.order = order;
    grouping.limit = Some(limit);
    let scan = LogicalPlan::TableScan(scan_of(scan, table, scan.projection.clone())?);
    let input = with_scan(&sort.input, scan)?;
    Ok(Some(LogicalPlan::Sort(Sort {
        input: Arc::new(input),
        ..sort.clone()
    })))
}

/// The same projections and aliases over another scan.
fn with_scan(plan: &LogicalPlan, scan: LogicalPlan) -> Result<LogicalPlan> {
    let transformed = plan.clone().transform_up(|plan| match plan {
        LogicalPlan::TableScan(_) => Ok(Transformed::yes(scan.clone())),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(transformed.data)
}
