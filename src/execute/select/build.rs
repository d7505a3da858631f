//! From a `Query` to operators: their order, and those that can be left out.
//!
//! Invariant: an operator is left out only on a promise of the scan. Rows are sorted and cut before outputs are made of them,
//! unless DISTINCT needs the outputs first, so outputs are only computed for rows that are shown.

use std::sync::Arc;

use zipfdb_sql::query::{
    Aggregation, Block, Collation, Expression, ExpressionId, Query, SortKey, Source,
};

use super::accumulate::needs_order;
use super::aggregate::Aggregate;
use super::aggregate_unique::AggregateUnique;
use super::context::Context;
use super::distinct::{Distinct, Once};
use super::explain::{Description, Plan};
use super::fetch::FetchDeferred;
use super::filter::Filter;
use super::limit::Limit;
use super::project::Project;
use super::row::{Input, Operator};
use super::scan::{self, Fetch, Nothing, OrderKey, Properties, Scan, Sourced};
use super::sort::Sort;
use super::union::Union;
use super::unmatched::UnmatchedNotices;
use super::values::Values;
use crate::batch::Batch;
use crate::expression::{Layout, Program, truth};
use crate::handles::session::Session;
use crate::segment::cache::Reservation;
use crate::{Error, Result};

/// Builds the operators of a query.
pub(super) struct Builder<'a> {
    pub(super) session: &'a Arc<Session>,
    pub(super) context: Context,
    pub(super) plan: Plan,
    /// Opens scans; tests pass their own.
    pub(super) open: OpenScan,
    /// Notices on comparisons with the answers of subqueries.
    pub(super) notices: UnmatchedNotices,
}

pub(super) type OpenScan = fn(&Arc<Session>, scan::ScanRequest, &Context) -> Result<Box<dyn Scan>>;

/// The input of a block, ready.
struct Ready {
    input: Input,
    /// The block's expressions on rows of the input.
    expressions: Vec<Expression>,
    /// The number of columns of the input.
    width: usize,
    /// Conditions that the input does not decide.
    rest: Vec<ExpressionId>,
    properties: Properties,
    fetch: Option<Box<dyn Fetch>>,
}

impl Builder<'_> {
    /// Builds all blocks.
    ///
    /// # Errors
    /// If a corpus is gone or damaged, or a constant pattern is not valid.
    pub(super) fn query(&mut self, query: &Query) -> Result<Input> {
        self.context.begin_query();
        self.context.memory /= keeping_operators(query).max(1);
        match query.blocks.len().checked_sub(1) {
            Some(last) => self.block(query, last),
            None => Ok(Box::new(Nothing::new())),
        }
    }

    /// Builds a block, by index, and those that it reads. Recursion is as deep as blocks read one another, which binding bounds.
    pub(super) fn block(&mut self, query: &Query, index: usize) -> Result<Input> {
        let written = &query.blocks[index];
        if !has_subqueries(written) {
            return self.plain_block(query, written);
        }
        let (block, reservation) = self.answered(query, written)?;
        let asked = (self.context.binding, &self.context.interrupt);
        self.notices.look_at(self.session, query, &block, asked);
        let input = self.plain_block(query, &block)?;
        Ok(Box::new(Reserved {
            input,
            _reservation: reservation,
        }))
    }

    /// Builds a block that has no subquery in its expressions.
    fn plain_block(&mut self, query: &Query, block: &Block) -> Result<Input> {
        let Ready {
            mut input,
            expressions,
            width,
            rest,
            mut properties,
            fetch,
        } = self.source(query, block)?;
        let layout = Layout::whole(width, 0);
        let mut program = self.program(&expressions, &layout)?;
        input = self.filter(input, &program, rest);
        if let Some(aggregation) = &block.aggregation {
            let once = distinct_once(aggregation, &expressions, width, &properties);
            if !is_grouped(aggregation, &expressions, width, &properties) {
                properties = Properties::default();
            }
            let is_grouped = properties.is_unique;
            if aggregation.aggregates.iter().any(needs_order) {
                // Groups that were written to runs come in order of their keys.
                properties.order.clear();
            }
            input = self.aggregate(input, program, aggregation, (is_grouped, once))?;
            let layout = Layout {
                keys: aggregation.keys.len(),
                ..Layout::default()
            };
            program = self.program(&expressions, &layout)?;
            input = self.filter(input, &program, block.having.clone());
        }
        let outputs = block.outputs.iter().map(|output| output.expression);
        let outputs: Vec<ExpressionId> = outputs.collect();
        let given = given_keys(block, &expressions, width, &properties);
        let row_width = match &block.aggregation {
            Some(aggregation) => aggregation.keys.len() + aggregation.aggregates.len(),
            None => width,
        };
        if block.distinct && !is_distinct(block, &expressions, width, &properties) {
            input = self.project(input, program, outputs.clone());
            let distinct = Distinct::new(input, outputs.len(), &self.context)?;
            input = (self.plan).add(distinct, |rows| {
                Description::new("distinct", String::new(), rows)
            });
            let keys = keys_of_outputs(block)?;
            let program = self.context.columns(outputs.len())?;
            input = self.sort(input, (program, outputs.len()), keys, 0, block);
            return Ok(self.limit(input, block));
        }
        if block.distinct {
            input = Box::new(Once(input));
        }
        if given < block.order_by.len() {
            let keys = block.order_by.clone();
            input = self.sort(input, (program.clone(), row_width), keys, given, block);
        }
        input = self.limit(input, block);
        if let Some(fetch) = fetch {
            let fetch = Box::new(FetchDeferred::new(input, fetch));
            input = (self.plan).add(fetch, |rows| {
                Description::new("fetch", "content".into(), rows)
            });
        }
        Ok(self.project(input, program, outputs))
    }

    fn source(&mut self, query: &Query, block: &Block) -> Result<Ready> {
        let Source::Relation(relation) = &block.source else {
            let mut columns = 0;
            let width_of = |block: usize| query.blocks[block].outputs.len();
            let input = match &block.source {
                Source::Block(inner) => {
                    columns = width_of(*inner);
                    self.block(query, *inner)?
                }
                Source::Union(inner) => {
                    columns = inner.first().map_or(0, |&block| width_of(block));
                    let beside = self.plan.begin_union();
                    let (mut inputs, mut operands) = (Vec::new(), Vec::new());
                    for &block in inner {
                        inputs.push(self.block(query, block)?);
                        operands.extend(self.plan.end_operand());
                    }
                    let union = Box::new(Union::new(inputs));
                    self.plan.add_union(operands, beside, union)
                }
                Source::Values { width, values } => {
                    columns = *width;
                    let program = self.program(&block.expressions, &Layout::whole(*width, 0))?;
                    // The number of rows in memory.
                    let rows = (values.len() / width.max(&1)) as u64;
                    let values = Values::new(program, values.clone(), *width, self.context.pace());
                    (self.plan).add(Box::new(values), |_| {
                        Description::new("values", String::new(), Some(rows))
                    })
                }
                _ => {
                    let about = |_| Description::new("nothing", "one row".into(), Some(1));
                    self.plan.add(Box::new(Nothing::new()), about)
                }
            };
            return Ok(Ready {
                input,
                expressions: block.expressions.clone(),
                width: columns,
                rest: block.filter.clone(),
                properties: Properties::default(),
                fetch: None,
            });
        };
        let Sourced {
            request,
            expressions,
            rest,
        } = scan::request(
            block,
            relation,
            self.context.binding,
            &self.context.interrupt,
            &self.context.values,
        )?;
        let width = request.columns.len();
        let scan = (self.open)(self.session, request, &self.context)?;
        (scan.notices().into_iter()).for_each(|notice| self.notices.add(notice));
        let (properties, fetch, about) = (scan.properties(), scan.fetch(), scan.description());
        Ok(Ready {
            input: (self.plan).add_described(scan.into_operator(), |_| about),
            expressions,
            width,
            rest,
            properties,
            fetch,
        })
    }

    fn program(&self, expressions: &[Expression], layout: &Layout) -> Result<Arc<Program>> {
        let Context {
            binding,
            interrupt,
            values,
            ..
        } = &self.context;
        let program = Program::new(expressions, layout, *binding, interrupt, values)?;
        program.check_constants()?;
        Ok(Arc::new(program))
    }

    fn filter(
        &mut self,
        input: Input,
        program: &Arc<Program>,
        conditions: Vec<ExpressionId>,
    ) -> Input {
        if conditions.is_empty() {
            return input;
        }
        let fails = |&id: &ExpressionId| {
            program
                .constant(id)
                .is_some_and(|value| truth(value) != Some(true))
        };
        if conditions.iter().any(fails) {
            let nothing = Limit::new(input, 0, Some(0), self.context.pace());
            let about = |_| Description::new("filter", "nothing passes".into(), Some(0));
            return self.plan.add(Box::new(nothing), about);
        }
        /// A condition is assumed to pass 1/`SHARE` of the rows.
        const SHARE: u64 = 4;
        let count = conditions.len();
        let filter = Filter::new(input, program.clone(), conditions, &self.context);
        self.plan.add(Box::new(filter), |rows: Option<u64>| {
            let rows = rows.map(|rows| rows.div_ceil(SHARE));
            Description::new("filter", counted(count, "condition"), rows)
        })
    }

    fn aggregate(
        &mut self,
        input: Input,
        program: Arc<Program>,
        aggregation: &Aggregation,
        (is_grouped, once): (bool, Vec<bool>),
    ) -> Result<Input> {
        let (keys, aggregates) = (aggregation.keys.len(), aggregation.aggregates.len());
        let detail = move || {
            let (keys, aggregates) = (counted(keys, "key"), counted(aggregates, "aggregate"));
            format!("{keys}, {aggregates}")
        };
        let mut aggregation = aggregation.clone();
        let is_sorted = aggregation.aggregates.iter().any(needs_order);
        if is_grouped && !is_sorted {
            let groups = AggregateUnique::new(input, program, aggregation, self.context.memory);
            let about = |rows| Description::new("group rows as they are", detail(), rows);
            return Ok(self.plan.add(Box::new(groups), about));
        }
        /// 1/`SHARE` of the rows are assumed to be the first of their group.
        const SHARE: u64 = 10;
        let rows_of = move |rows: Option<u64>| match keys {
            0 => Some(1),
            _ => rows.map(|rows| rows.div_ceil(SHARE)),
        };
        for (aggregate, &once) in aggregation.aggregates.iter_mut().zip(&once) {
            aggregate.distinct &= !once;
        }
        let groups = Aggregate::new(input, program, aggregation, once, &self.context)?;
        let what = if is_sorted {
            "aggregate in order"
        } else {
            "aggregate"
        };
        Ok(self.plan.add(Box::new(groups), |rows| {
            Description::new(what, detail(), rows_of(rows))
        }))
    }

    fn project(
        &mut self,
        input: Input,
        program: Arc<Program>,
        outputs: Vec<ExpressionId>,
    ) -> Input {
        let count = outputs.len();
        let project = Project::new(input, program, outputs, self.context.memory);
        self.plan.add(Box::new(project), |rows| {
            Description::new("project", counted(count, "column"), rows)
        })
    }

    fn sort(
        &mut self,
        input: Input,
        (program, width): (Arc<Program>, usize),
        keys: Vec<SortKey>,
        given: usize,
        block: &Block,
    ) -> Input {
        if keys.is_empty() {
            return input;
        }
        let limit = block.limit.map(|limit| limit.saturating_add(block.offset));
        let count = keys.len();
        let sort = Sort::new(input, (program, width), keys, given, limit, &self.context);
        self.plan.add(Box::new(sort), |mut rows| {
            let mut detail = counted(count, "key");
            if given > 0 {
                detail.push_str(&format!(", {given} in order"));
            }
            if let Some(limit) = limit {
                detail.push_str(&format!(", first {limit}"));
                rows = rows.map(|rows| rows.min(limit));
            }
            Description::new("sort", detail, rows)
        })
    }

    fn limit(&mut self, input: Input, block: &Block) -> Input {
        if block.limit.is_none() && block.offset == 0 {
            return input;
        }
        let limit = Limit::new(input, block.offset, block.limit, self.context.pace());
        self.plan.add(Box::new(limit), |rows| {
            let detail = match block.limit {
                Some(limit) => format!("{limit} after {}", block.offset),
                None => format!("all after {}", block.offset),
            };
            let rows = rows.map(|rows| rows.saturating_sub(block.offset));
            let rows = rows.map(|rows| rows.min(block.limit.unwrap_or(u64::MAX)));
            Description::new("limit", detail, rows)
        })
    }
}

/// The number of operators of a query that may keep rows, those of blocks that are read several times counted each time.
fn keeping_operators(query: &Query) -> usize {
    let mut keeping: Vec<usize> = Vec::with_capacity(query.blocks.len());
    for block in &query.blocks {
        let own = usize::from(block.aggregation.is_some())
            + usize::from(block.distinct)
            + usize::from(!block.order_by.is_empty());
        let of_source: usize = match &block.source {
            Source::Block(inner) => keeping[*inner],
            Source::Union(inner) => inner.iter().map(|&inner| keeping[inner]).sum(),
            Source::Nothing | Source::Relation(_) | Source::Values { .. } => 0,
        };
        let of_expressions = block.expressions.iter().map(|expression| match expression {
            // Its values are kept while the block is answered.
            Expression::InSubquery { block, .. } => 2 + keeping[*block],
            Expression::Subquery { block } | Expression::Exists { block } => keeping[*block],
            _ => 0,
        });
        keeping.push(own + of_source + of_expressions.sum::<usize>());
    }
    keeping.last().copied().unwrap_or(0)
}

fn has_subqueries(block: &Block) -> bool {
    block.expressions.iter().any(|expression| {
        matches!(
            expression,
            Expression::InSubquery { .. } | Expression::Subquery { .. } | Expression::Exists { .. }
        )
    })
}

/// An operator with the memory of the values of its subqueries.
struct Reserved {
    input: Input,
    _reservation: Reservation,
}

impl Operator for Reserved {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        self.input.next_batch(rows_max)
    }
}

/// Whether every row of a scan is a group of its own: rows are unique, and all their columns are keys.
fn is_grouped(
    aggregation: &Aggregation,
    expressions: &[Expression],
    width: usize,
    properties: &Properties,
) -> bool {
    let keys = aggregation.keys.iter().filter_map(|key| {
        match (&expressions[key.expression.0 as usize], key.collation) {
            (Expression::Column(column), Collation::Binary) => Some(*column),
            _ => None,
        }
    });
    let keys: Vec<usize> = keys.collect();
    let covers = (0..width).all(|column| keys.contains(&column));
    let is_plain = keys.len() == aggregation.keys.len();
    properties.is_unique && is_plain && covers && !keys.is_empty()
}

/// For each aggregate whether it is DISTINCT and no two rows of a group have the same argument: rows are unique, and all their
/// columns are keys or its argument.
fn distinct_once(
    aggregation: &Aggregation,
    expressions: &[Expression],
    width: usize,
    properties: &Properties,
) -> Vec<bool> {
    let column_of = |id: ExpressionId, collation: Collation| match expressions[id.0 as usize] {
        Expression::Column(column) if collation == Collation::Binary => Some(column),
        _ => None,
    };
    let keys = aggregation.keys.iter();
    let keys: Vec<usize> = keys
        .filter_map(|key| column_of(key.expression, key.collation))
        .collect();
    let is_once = |aggregate: &zipfdb_sql::query::Aggregate| {
        let argument = aggregate.argument;
        let argument = argument.and_then(|id| column_of(id, aggregate.collation));
        properties.is_unique
            && aggregate.distinct
            && argument.is_some()
            && (0..width).all(|column| keys.contains(&column) || argument == Some(column))
    };
    aggregation.aggregates.iter().map(is_once).collect()
}

/// The number of first keys of ORDER BY by which rows come in order already.
fn given_keys(
    block: &Block,
    expressions: &[Expression],
    width: usize,
    properties: &Properties,
) -> usize {
    let columns = properties.order.iter();
    let columns = columns.filter(|order| matches!(order.key, OrderKey::Column(_)));
    let is_decided = properties.is_unique && columns.count() == width;
    let mut given = properties.order.iter();
    for (index, key) in block.order_by.iter().enumerate() {
        match given.next() {
            // Among unique rows no two are equal in all columns, so further keys decide nothing.
            None if is_decided => return block.order_by.len(),
            None => return index,
            Some(order) => {
                if scan::row_order(block, expressions, key) != Some(*order) {
                    return index;
                }
            }
        }
    }
    block.order_by.len()
}

/// Whether no two rows of outputs can be equal: they show every key of the groups, or every column of unique rows.
fn is_distinct(
    block: &Block,
    expressions: &[Expression],
    width: usize,
    properties: &Properties,
) -> bool {
    let shows = |wanted: &Expression| {
        let mut outputs = block.outputs.iter();
        outputs.any(|output| expressions[output.expression.0 as usize] == *wanted)
    };
    match &block.aggregation {
        Some(aggregation) => {
            let is_binary = |key: &zipfdb_sql::query::GroupKey| key.collation == Collation::Binary;
            aggregation.keys.iter().all(is_binary)
                && (0..aggregation.keys.len()).all(|key| shows(&Expression::Key(key)))
        }
        None => properties.is_unique && (0..width).all(|column| shows(&Expression::Column(column))),
    }
}

/// The keys of ORDER BY on rows of outputs.
fn keys_of_outputs(block: &Block) -> Result<Vec<SortKey>> {
    let keys = block.order_by.iter().map(|key| {
        let mut outputs = block.outputs.iter();
        let is_key = |expression: ExpressionId| {
            let same = &block.expressions[expression.0 as usize];
            expression == key.expression || *same == block.expressions[key.expression.0 as usize]
        };
        let output = outputs.position(|output| is_key(output.expression));
        match output.and_then(|output| u32::try_from(output).ok()) {
            Some(output) => Ok(SortKey {
                expression: ExpressionId(output),
                ..*key
            }),
            None => Err(Error::Invalid {
                subject: "ORDER BY".into(),
                reason: "with DISTINCT, only what is selected can order rows".into(),
            }),
        }
    });
    keys.collect()
}

fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}
