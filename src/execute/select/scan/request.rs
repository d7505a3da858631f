//! From a block to the request to its scan.
//!
//! The request has the needed columns: values for sorting, grouping and conditions come with the scan's rows, content that is
//! only shown is fetched for the rows that are shown. Invariant: the returned expressions refer to columns by their index in the
//! request, and mean the same.

use std::collections::BTreeSet;
use std::sync::Arc;

use zipfdb_sql::query::Collation;
use zipfdb_sql::query::{
    Block, Expression, ExpressionId, FilesColumn, Function, Relation, SortKey,
};

use super::boundary::{
    FileConditions, OrderKey, RequestedColumn, RowOrder, ScanColumn, ScanRequest,
};
use super::top::{is_count, top_of};
use crate::Result;
use crate::Value;
use crate::expression::{FilterSplit, Layout, Program, operands, to_integer};
use crate::runtime::interrupt::Interrupt;
use crate::runtime::memory::ValueMemory;
use crate::search::excerpt::ExcerptStyle;

/// A block with the request to its relation.
pub(in super::super) struct Sourced {
    pub(in super::super) request: ScanRequest,
    /// The block's expressions, on rows of the scan.
    pub(in super::super) expressions: Vec<Expression>,
    /// Conditions that the scan does not decide.
    pub(in super::super) rest: Vec<ExpressionId>,
}

/// Computes the needs of a block from its relation.
///
/// # Errors
/// If a constant pattern is not valid, or the statement must end.
pub(in super::super) fn request(
    block: &Block,
    relation: &Relation,
    binding: u64,
    interrupt: &Interrupt,
    memory: &ValueMemory,
) -> Result<Sourced> {
    let expressions = &block.expressions;
    let mut split = FilterSplit::new(expressions, &block.filter, binding, interrupt, memory)?;
    let file_conditions = file_conditions(block, relation, &mut split.rest, |layout| {
        Program::new(expressions, layout, binding, interrupt, memory)
    })?;
    let excerpts = excerpts(expressions);
    let computed = match relation {
        Relation::Search(_) => excerpt_columns(expressions, &excerpts),
        _ => computed_columns(block, relation, binding, interrupt, memory)?,
    };
    let is_plain = block.aggregation.is_none() && !block.distinct;

    let mut early: Vec<ExpressionId> = split.rest.clone();
    if let Some(aggregation) = &block.aggregation {
        early.extend(aggregation.keys.iter().map(|key| key.expression));
        for aggregate in &aggregation.aggregates {
            early.extend(aggregate.argument.iter().chain(&aggregate.filter));
            early.extend(aggregate.parameter);
            early.extend(aggregate.order_by.iter().map(|key| key.expression));
        }
    } else {
        early.extend(block.order_by.iter().map(|key| key.expression));
    }
    let outputs = || block.outputs.iter().map(|output| output.expression);
    let mut late: Vec<ExpressionId> = Vec::new();
    if is_plain {
        late.extend(outputs());
    } else if block.aggregation.is_none() {
        early.extend(outputs());
    }
    let early = used(&block.expressions, &computed, &early);
    let late = used(&block.expressions, &computed, &late);

    let mut columns: Vec<RequestedColumn> = Vec::new();
    let of = |used: &[bool]| {
        let pairs = computed.iter().zip(used);
        let mut found: Vec<ScanColumn> = pairs
            .filter_map(|(column, used)| column.filter(|_| *used))
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    };
    for column in of(&early) {
        columns.push(RequestedColumn {
            column,
            is_deferred: false,
        });
    }
    for column in of(&late) {
        if columns.iter().all(|known| known.column != column) {
            columns.push(RequestedColumn {
                column,
                is_deferred: is_content(relation, column)
                    || matches!(column, ScanColumn::Excerpt(_)),
            });
        }
    }
    let place = |column: ScanColumn| columns.iter().position(|known| known.column == column);
    let expressions: Vec<Expression> = block
        .expressions
        .iter()
        .zip(&computed)
        .map(|(expression, column)| match column {
            None => expression.clone(),
            // Unneeded columns are in no expression that is evaluated.
            Some(column) => place(*column)
                .map_or_else(|| Expression::Value(Value::Null.into()), Expression::Column),
        })
        .collect();
    let wanted_order = wanted_order(block, &expressions);
    let is_cut = is_plain && split.rest.is_empty() && wanted_order.len() == block.order_by.len();
    let limit = block.limit.filter(|_| is_cut);
    let top = top_of(block, &expressions, columns.len()).filter(|_| split.rest.is_empty());
    Ok(Sourced {
        request: ScanRequest {
            relation: relation.clone(),
            metadata: block.metadata.clone(),
            file_conditions,
            files: None,
            columns,
            excerpts,
            filters: split.columns,
            merge: !is_plain,
            wanted_order,
            limit: limit.map(|limit| limit.saturating_add(block.offset)),
            top,
        },
        expressions,
        rest: split.rest,
    })
}

/// Takes the conditions that depend on metadata and names of files alone.
fn file_conditions(
    block: &Block,
    relation: &Relation,
    rest: &mut Vec<ExpressionId>,
    program: impl FnOnce(&Layout) -> Result<Program>,
) -> Result<Option<FileConditions>> {
    let Some((own, file)) = relation.columns_of_files() else {
        return Ok(None);
    };
    if block.metadata.is_empty() {
        return Ok(None);
    }
    let columns_of = |id: ExpressionId| {
        let used = used(
            &block.expressions,
            &vec![None; block.expressions.len()],
            &[id],
        );
        let used = block.expressions.iter().zip(used);
        used.filter_map(|(expression, used)| match expression {
            Expression::Column(column) if used => Some(*column),
            _ => None,
        })
        .collect::<BTreeSet<usize>>()
    };
    let mut columns = BTreeSet::new();
    let is_of_files = |columns: &BTreeSet<usize>| {
        let mut all = columns.iter();
        columns.last() >= Some(&own) && all.all(|&column| column >= own || Some(column) == file)
    };
    let (conjuncts, others): (Vec<_>, Vec<_>) = rest.iter().partition(|&&id| {
        let used = columns_of(id);
        let is_of_files = is_of_files(&used);
        if is_of_files {
            columns.extend(used);
        }
        is_of_files
    });
    if conjuncts.is_empty() {
        return Ok(None);
    }
    *rest = others;
    let columns: Vec<usize> = columns.into_iter().collect();
    let width = own + block.metadata.len();
    let layout = Layout {
        columns: (0..width)
            .map(|column| columns.iter().position(|&used| used == column))
            .collect(),
        keys: 0,
    };
    Ok(Some(FileConditions {
        program: Arc::new(program(&layout)?),
        columns,
        conjuncts,
    }))
}

/// The excerpts that expressions ask for, each once.
fn excerpts(expressions: &[Expression]) -> Vec<ExcerptStyle> {
    let mut excerpts = Vec::new();
    for style in expressions
        .iter()
        .filter_map(|one| excerpt(expressions, one))
    {
        if !excerpts.contains(&style) {
            excerpts.push(style);
        }
    }
    excerpts
}

/// For each expression on rows of search the column that has its value.
fn excerpt_columns(
    expressions: &[Expression],
    excerpts: &[ExcerptStyle],
) -> Vec<Option<ScanColumn>> {
    let columns = expressions.iter().map(|expression| match expression {
        Expression::Column(column) => Some(ScanColumn::Column(*column)),
        other => {
            let style = excerpt(expressions, other)?;
            let number = excerpts.iter().position(|known| *known == style);
            number.map(ScanColumn::Excerpt)
        }
    });
    columns.collect()
}

/// The excerpt that an expression is, if it is one. Its arguments behind the column are literals.
fn excerpt(expressions: &[Expression], expression: &Expression) -> Option<ExcerptStyle> {
    let Expression::Call {
        function: function @ (Function::Snippet | Function::Highlight),
        arguments,
        ..
    } = expression
    else {
        return None;
    };
    let argument = |number: usize| match &expressions[arguments.get(number)?.0 as usize] {
        Expression::Value(value) => Some(&**value),
        _ => None,
    };
    let text = |number: usize, default: String| match argument(number) {
        Some(Value::Text(text)) => text.clone(),
        _ => default,
    };
    let style = ExcerptStyle::default();
    let words = match argument(4) {
        // Binding has bounded it.
        Some(Value::Integer(words)) => Some(*words as u64),
        _ => style.words_max,
    };
    Some(ExcerptStyle {
        before: text(1, style.before),
        after: text(2, style.after),
        ellipsis: text(3, style.ellipsis),
        words_max: words.filter(|_| *function == Function::Snippet),
    })
}

/// For each expression the column of a scan that has its value, if one does.
fn computed_columns(
    block: &Block,
    relation: &Relation,
    binding: u64,
    interrupt: &Interrupt,
    memory: &ValueMemory,
) -> Result<Vec<Option<ScanColumn>>> {
    let expressions = &block.expressions;
    let plain = |expression: &Expression| match expression {
        Expression::Column(column) => Some(ScanColumn::Column(*column)),
        _ => None,
    };
    let is_files = matches!(relation, Relation::Files { .. });
    let has_calls = expressions
        .iter()
        .any(|expression| matches!(expression, Expression::Call { .. }));
    if !is_files || !has_calls {
        return Ok(expressions.iter().map(plain).collect());
    }
    // Only the constant arguments matter here.
    let width = FilesColumn::ALL.len() + block.metadata.len();
    let layout = Layout::whole(width, 0);
    let program = Program::new(expressions, &layout, binding, interrupt, memory)?;
    let integer = |id: ExpressionId| match program.constant(id) {
        None | Some(Value::Null) => None,
        Some(value) => Some(to_integer(value)),
    };
    let is_content = |id: &ExpressionId| {
        let column = plain(&expressions[id.0 as usize]);
        column.is_some_and(|column| is_content(relation, column))
    };
    let computed = expressions.iter().map(|expression| {
        let Expression::Call {
            function,
            arguments,
            ..
        } = expression
        else {
            return plain(expression);
        };
        match (function, &arguments[..]) {
            (Function::Substr, [content, start]) if is_content(content) => {
                Some(ScanColumn::Substr {
                    start: integer(*start)?,
                    length: None,
                })
            }
            (Function::Substr, [content, start, length]) if is_content(content) => {
                Some(ScanColumn::Substr {
                    start: integer(*start)?,
                    length: Some(integer(*length)?),
                })
            }
            (Function::Length | Function::OctetLength, [content]) if is_content(content) => {
                let bytes = FilesColumn::ALL
                    .iter()
                    .position(|column| *column == FilesColumn::Bytes);
                bytes.map(ScanColumn::Column)
            }
            _ => None,
        }
    });
    Ok(computed.collect())
}

/// Whether a column of a relation costs reading the text of a file.
fn is_content(relation: &Relation, column: ScanColumn) -> bool {
    let is_files = matches!(relation, Relation::Files { .. });
    is_files
        && match column {
            ScanColumn::Substr { .. } => true,
            ScanColumn::Excerpt(_) => false,
            ScanColumn::Column(column) => {
                FilesColumn::ALL.get(column) == Some(&FilesColumn::Content)
            }
        }
}

/// The expressions that `roots` depend on, themselves included; columns computed by a scan depend on none.
fn used(
    expressions: &[Expression],
    computed: &[Option<ScanColumn>],
    roots: &[ExpressionId],
) -> Vec<bool> {
    let mut used = vec![false; expressions.len()];
    for root in roots {
        used[root.0 as usize] = true;
    }
    // Expressions refer only to ones before them.
    for index in (0..expressions.len()).rev() {
        if used[index] && computed[index].is_none() {
            operands(&expressions[index], |operand| {
                used[operand.0 as usize] = true;
            });
        }
    }
    used
}

/// The keys of ORDER BY up to the first that no scan can order by.
fn wanted_order(block: &Block, expressions: &[Expression]) -> Vec<RowOrder> {
    let keys = block.order_by.iter();
    keys.map_while(|key| row_order(block, expressions, key))
        .collect()
}

/// A key of ORDER BY in terms of a scan: a column by its index in the request, or the multiplicity of rows, provided that they
/// are grouped by all columns.
pub(in super::super) fn row_order(
    block: &Block,
    expressions: &[Expression],
    key: &SortKey,
) -> Option<RowOrder> {
    let (expression, collation) = match expressions[key.expression.0 as usize] {
        Expression::Key(index) => {
            let key = block.aggregation.as_ref()?.keys.get(index)?;
            (key.expression, key.collation)
        }
        Expression::Aggregate(index) => {
            let aggregate = block.aggregation.as_ref()?.aggregates.get(index)?;
            return is_count(aggregate).then_some(RowOrder {
                key: OrderKey::Times,
                descending: key.descending,
            });
        }
        _ => (key.expression, Collation::Binary),
    };
    let Expression::Column(column) = expressions[expression.0 as usize] else {
        return None;
    };
    let is_binary = key.collation == Collation::Binary && collation == Collation::Binary;
    is_binary.then_some(RowOrder {
        key: OrderKey::Column(column),
        descending: key.descending,
    })
}
