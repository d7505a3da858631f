//! SELECT: its clauses in the order in which they take effect.
//!
//! Invariant: a block's expressions are those that its clauses need. Subqueries are bound one after the other, from the
//! innermost outwards.

use std::collections::HashSet;

use super::Binder;
use super::blocks::{Blocks, BoundSelect, Column, Surroundings};
use super::expression::{Bound, Expressions, Form, Slot};
use super::from::Scope;
use crate::error::{Error, Hint, Result, quote};
use crate::limits;
use crate::query::{
    Aggregation, BinaryOperator, Block, Collation, Expression, ExpressionId, GroupKey, Output,
    Query, SortKey, Source,
};
use crate::syntax::{
    From, FromKind, Item, NodeId, NodeKind, Nodes, Operand, OperandKind, OrderTerm, Select,
};
use crate::value::Value;

impl Binder<'_> {
    pub(super) fn query(&self, selects: &[Select]) -> Result<Query> {
        let mut blocks = Blocks::default();
        self.selects(selects, &mut blocks)?;
        Ok(blocks.into_query())
    }

    /// Binds SELECTs, each after those that it reads.
    pub(super) fn selects(
        &self,
        selects: &[Select],
        blocks: &mut Blocks,
    ) -> Result<Vec<BoundSelect>> {
        let mut bound: Vec<BoundSelect> = Vec::with_capacity(selects.len());
        for (index, select) in selects.iter().enumerate() {
            if let Some(From {
                kind: FromKind::Union(terms),
                ..
            }) = &select.from
            {
                self.check_widths(selects, terms, &bound)?;
            }
            let scope = self.from(select.from.as_ref(), &bound, blocks)?;
            let surroundings = Surroundings {
                selects,
                bound: &bound,
                index,
            };
            let (block, mut columns) = self.select(select, scope, surroundings)?;
            let collated = columns
                .iter()
                .any(|column| column.collation != Collation::Binary);
            let mut last = self.add_block(blocks, block, select.at)?;
            if select.distinct && collated {
                let outer = distinct(&mut blocks.blocks[last], last, &columns);
                last = self.add_block(blocks, outer, select.at)?;
            }
            self.rename(select, &mut blocks.blocks[last], &mut columns)?;
            bound.push(BoundSelect {
                block: last,
                columns,
            });
        }
        Ok(bound)
    }

    /// Adds a block, and gives its index.
    pub(super) fn add_block(&self, blocks: &mut Blocks, block: Block, at: usize) -> Result<usize> {
        let (count, depth) = blocks.extent(&block);
        let too_large = |what, limit: usize| Error::TooLarge {
            at: self.source.at(at),
            what,
            limit: limit as u64,
            hint: Hint::new("those of WITH and views count as often as they are read"),
        };
        if count.max(blocks.blocks.len()) > limits::BLOCKS_MAX {
            return Err(too_large("the number of SELECTs", limits::BLOCKS_MAX));
        }
        if depth > limits::BLOCKS_DEEP_MAX {
            let limit = limits::BLOCKS_DEEP_MAX;
            return Err(too_large(
                "the number of SELECTs that read one another",
                limit,
            ));
        }
        blocks.blocks.push(block);
        blocks.extents.push((count, depth));
        Ok(blocks.blocks.len() - 1)
    }

    /// Whether all operands of UNION have as many columns.
    fn check_widths(
        &self,
        selects: &[Select],
        terms: &[usize],
        bound: &[BoundSelect],
    ) -> Result<()> {
        let width = |term: &usize| bound[*term].columns.len();
        let expected = terms.first().map_or(0, width);
        match terms.iter().find(|term| width(term) != expected) {
            None => Ok(()),
            Some(term) => {
                let found = width(term);
                let s = if found == 1 { "" } else { "s" };
                let message = format!("UNION of {expected} and {found} column{s}");
                let hint = Hint::new("the SELECTs of UNION have as many columns each");
                Err(self.conflict(selects[*term].at, message, hint))
            }
        }
    }

    /// Gives columns the names that WITH says.
    fn rename(&self, select: &Select, block: &mut Block, columns: &mut [Column]) -> Result<()> {
        let Some(first) = select.columns.first() else {
            return Ok(());
        };
        if select.columns.len() != columns.len() {
            let (names, found) = (select.columns.len(), columns.len());
            let message = format!("{names} names for the {found} columns of a subquery in WITH");
            return Err(self.conflict(first.at, message, Hint::NONE));
        }
        for ((name, column), output) in (select.columns.iter()).zip(columns).zip(&mut block.outputs)
        {
            column.name = name.text.clone().into();
            output.name.clone_from(&name.text);
        }
        Ok(())
    }

    pub(super) fn select<'a>(
        &'a self,
        select: &'a Select,
        scope: Scope<'a>,
        surroundings: Surroundings<'a>,
    ) -> Result<(Block, Vec<Column>)> {
        let (source, metadata) = (scope.source.clone(), scope.metadata.clone());
        let slots = self.slots(select, &scope)?;
        let mut expressions = Expressions::new(self, select, scope, slots, surroundings);
        let mut filter = match select.filter {
            Some(root) => {
                let bound = expressions.bind(root, Form::Row, true)?;
                let hint = "HAVING takes conditions on groups";
                vec![self.row(&bound, "WHERE", hint)?]
            }
            None => Vec::new(),
        };
        let keys = self.group_by(select, &mut expressions)?;
        let form = if expressions.grouped {
            Form::Group
        } else {
            Form::Row
        };
        let mut outputs = Vec::with_capacity(expressions.slots.len());
        let mut bounds = Vec::with_capacity(expressions.slots.len());
        for slot in 0..expressions.slots.len() {
            let bound = match expressions.slots[slot] {
                Slot::Column { index, at } => expressions.column(index, at, form),
                Slot::Item { root, .. } => expressions.bind(root, form, false)?,
            };
            let expression = self.settled(&expressions, &bound, form)?;
            let name = self.output_name(select, &expressions, slot);
            outputs.push(Output { name, expression });
            bounds.push(bound);
        }
        expressions.outputs = bounds;
        let having = self.having(select, &mut expressions)?;
        let mut having = conjuncts(&expressions, having);
        filter.extend(conditions_on_rows(&mut expressions, &keys, &mut having));
        let mut order_by = Vec::with_capacity(select.order_by.len());
        for term in &select.order_by {
            order_by.push(self.order_term(&mut expressions, term, form)?);
        }
        if select.distinct {
            let mut selected: Vec<ExpressionId> =
                outputs.iter().map(|output| output.expression).collect();
            selected.sort_unstable();
            for (key, term) in order_by.iter().zip(&select.order_by) {
                if selected.binary_search(&key.expression).is_err() {
                    let at = expressions.start(term.root);
                    let hint = Hint::new("select it too, or leave out DISTINCT");
                    let message = "with DISTINCT only what is selected can be sorted by";
                    return Err(self.conflict(at, message, hint));
                }
            }
        }
        let columns = expressions
            .outputs
            .iter()
            .zip(&outputs)
            .map(|(bound, output)| Column {
                name: output.name.clone().into(),
                affinity: bound.affinity,
                collation: bound.collation(),
            })
            .collect();
        let mut block = Block {
            source,
            metadata,
            expressions: Vec::new(),
            filter: conjuncts(&expressions, filter),
            aggregation: expressions.grouped.then(|| Aggregation {
                keys,
                aggregates: std::mem::take(&mut expressions.aggregates),
            }),
            having,
            outputs,
            distinct: select.distinct,
            order_by,
            limit: self.row_count(&select.nodes, select.limit, "LIMIT")?,
            offset: self
                .row_count(&select.nodes, select.offset, "OFFSET")?
                .unwrap_or(0),
        };
        expressions.arena.finish(&mut block);
        Ok((block, columns))
    }

    /// What each column of the result is, and its alias.
    fn slots<'a>(
        &self,
        select: &'a Select,
        scope: &Scope<'_>,
    ) -> Result<Vec<(Slot, Option<&'a str>)>> {
        let mut slots = Vec::with_capacity(select.items.len());
        for (item, written) in select.items.iter().enumerate() {
            match written {
                Item::Star { at, table } => {
                    if let Some(table) = table {
                        self.check_table(scope, table)?;
                    }
                    if scope.source == Source::Nothing {
                        let hint = Hint::new("`*` stands for the columns of what FROM names");
                        return Err(self.conflict(*at, "`*` without FROM", hint));
                    }
                    let columns = 0..scope.shown;
                    slots.extend(columns.map(|index| (Slot::Column { index, at: *at }, None)));
                }
                Item::Expression { root, alias, .. } => {
                    let alias = alias.as_ref().map(|alias| alias.text.as_str());
                    slots.push((Slot::Item { root: *root, item }, alias));
                }
            }
            if slots.len() > limits::COLUMNS_MAX {
                return Err(Error::TooLarge {
                    at: self.source.at(select.at),
                    what: "the number of columns",
                    limit: limits::COLUMNS_MAX as u64,
                    hint: Hint::NONE,
                });
            }
        }
        Ok(slots)
    }

    /// A column of the result is named by its alias, else as the column it shows is declared, else by its text.
    fn output_name(&self, select: &Select, expressions: &Expressions<'_>, slot: usize) -> String {
        if let Some(alias) = expressions.aliases[slot] {
            return alias.to_owned();
        }
        let (index, item) = match expressions.slots[slot] {
            Slot::Column { index, .. } => (Some(index), None),
            Slot::Item { root, item } => match &select.nodes.node(root).kind {
                NodeKind::Column { name, .. } => (expressions.scope.find(&name.text), None),
                _ => (None, select.items.get(item)),
            },
        };
        if let Some(index) = index {
            return expressions.scope.columns[index].name.clone().into_owned();
        }
        match item {
            Some(Item::Expression { text, .. }) => self.source.text[text.clone()].to_owned(),
            Some(Item::Star { .. }) | None => String::new(),
        }
    }

    /// The form of an expression that is evaluated on rows; `clause` has no aggregates.
    pub(super) fn row(&self, bound: &Bound, clause: &str, hint: &str) -> Result<ExpressionId> {
        bound.row.map_err(|at| {
            let message = format!("an aggregate cannot stand in {clause}");
            self.conflict(at, message, Hint::new(hint))
        })
    }

    /// The form of an expression that is evaluated on what the SELECT list is evaluated on.
    fn settled(
        &self,
        expressions: &Expressions<'_>,
        bound: &Bound,
        form: Form,
    ) -> Result<ExpressionId> {
        match form {
            Form::Row => Ok(bound.row.expect("a query with aggregates is grouped")),
            Form::Group => bound.group.map_err(|at| {
                let mut named = expressions.nodes.ids().filter_map(|id| {
                    let node = expressions.nodes.node(id);
                    match &node.kind {
                        NodeKind::Column { name, .. } if node.at == at => Some(&name.text),
                        _ => None,
                    }
                });
                let what = match named.next() {
                    Some(name) => format!("column {} is", quote(name)),
                    None => "`*` has columns that are".to_owned(),
                };
                let message = format!("{what} neither in GROUP BY nor in an aggregate");
                let hint = Hint::new("add it to GROUP BY, or say which value: min(x) or max(x)");
                self.conflict(at, message, hint)
            }),
        }
    }

    fn group_by(
        &self,
        select: &Select,
        expressions: &mut Expressions<'_>,
    ) -> Result<Vec<GroupKey>> {
        let mut keys = Vec::new();
        let mut bounds = Vec::with_capacity(select.group_by.len());
        for root in &select.group_by {
            let at = expressions.start(*root);
            bounds.push(match &select.nodes.node(*root).kind {
                NodeKind::Literal(Value::Integer(number)) => {
                    let slot = self.ordinal(at, *number, expressions.slots.len(), "GROUP BY")?;
                    expressions.row_slot(slot)?
                }
                NodeKind::Literal(_) | NodeKind::Parameter(_) => {
                    return Err(self.constant(at, "GROUP BY"));
                }
                _ => expressions.bind(*root, Form::Row, true)?,
            });
        }
        for bound in bounds {
            let expression =
                self.row(&bound, "GROUP BY", "a subquery in FROM can aggregate first")?;
            let collation = bound.collation();
            let next = keys.len();
            if *expressions.keys.entry(expression).or_insert(next) == next {
                keys.push(GroupKey {
                    expression,
                    collation,
                });
            }
        }
        Ok(keys)
    }

    fn having(
        &self,
        select: &Select,
        expressions: &mut Expressions<'_>,
    ) -> Result<Vec<ExpressionId>> {
        let Some(root) = select.having else {
            return Ok(Vec::new());
        };
        if !expressions.grouped {
            let hint = Hint::new("WHERE takes conditions on rows");
            let message = "HAVING without GROUP BY or an aggregate";
            return Err(self.conflict(expressions.start(root), message, hint));
        }
        let bound = expressions.bind(root, Form::Group, true)?;
        Ok(vec![self.settled(expressions, &bound, Form::Group)?])
    }

    fn order_term(
        &self,
        expressions: &mut Expressions<'_>,
        term: &OrderTerm,
        form: Form,
    ) -> Result<SortKey> {
        let at = expressions.start(term.root);
        let nodes = expressions.nodes;
        // COLLATE around an alias or a number is about the output, as in SQLite.
        let mut core = term.root;
        let mut collation = None;
        while let NodeKind::Collate(written) = nodes.node(core).kind {
            collation = collation.or(Some(written));
            core = nodes.operands(core)[0];
        }
        let output = match &nodes.node(core).kind {
            NodeKind::Literal(Value::Integer(number)) => {
                Some(self.ordinal(at, *number, expressions.slots.len(), "ORDER BY")?)
            }
            NodeKind::Literal(_) | NodeKind::Parameter(_) => {
                return Err(self.constant(at, "ORDER BY"));
            }
            NodeKind::Column { table: None, name } => expressions.alias(&name.text),
            _ => None,
        };
        let bound = match output {
            Some(output) => expressions.outputs[output],
            None => expressions.bind(term.root, form, true)?,
        };
        Ok(SortKey {
            expression: self.settled(expressions, &bound, form)?,
            descending: term.descending,
            nulls_first: term.nulls_first.unwrap_or(!term.descending),
            collation: collation.unwrap_or(bound.collation()),
        })
    }

    fn constant(&self, at: usize, clause: &str) -> Error {
        let hint = Hint::new("name a column, an alias or the number of a column");
        self.conflict(at, format!("{clause} a constant"), hint)
    }

    /// The index that a column's number in ORDER BY or GROUP BY stands for.
    fn ordinal(&self, at: usize, number: i64, columns: usize, clause: &str) -> Result<usize> {
        match usize::try_from(number) {
            Ok(number) if (1..=columns).contains(&number) => Ok(number - 1),
            _ => Err(Error::OutOfRange {
                at: self.source.at(at),
                what: format!("the number of a column in {clause}"),
                bounds: format!("in 1..={columns}"),
                found: number.to_string(),
                hint: Hint::NONE,
            }),
        }
    }

    /// As in SQLite, a negative number is as if the clause were missing. None also where a parameter has no value yet.
    fn row_count(
        &self,
        nodes: &Nodes,
        root: Option<NodeId>,
        clause: &'static str,
    ) -> Result<Option<u64>> {
        let Some(root) = root else {
            return Ok(None);
        };
        let is_arithmetic = |kind: &NodeKind| match kind {
            NodeKind::Literal(_) | NodeKind::Parameter(_) | NodeKind::Plus | NodeKind::Negate => {
                true
            }
            NodeKind::Binary(operator) => !matches!(
                operator,
                BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Concatenate
            ),
            _ => false,
        };
        let mut other = nodes
            .below(root)
            .filter(|id| !is_arithmetic(&nodes.node(*id).kind));
        if let Some(other) = other.next() {
            return Err(self.no_row_count(nodes.node(other).at, clause));
        }
        let mut values: Vec<i64> = Vec::new();
        // Operands come first, so the newest values are those of the node at hand.
        for id in nodes.below(root) {
            let at = nodes.node(id).at;
            let right = if nodes.operands(id).is_empty() {
                None
            } else {
                values.pop()
            };
            let value = match (&nodes.node(id).kind, right) {
                (NodeKind::Literal(value), None) => {
                    let kind = OperandKind::Literal(value.clone());
                    Some(self.whole_number(&Operand { at, kind }, clause)?)
                }
                (NodeKind::Parameter(number), None) => {
                    let kind = OperandKind::Parameter(*number);
                    let operand = Operand { at, kind };
                    if !self.is_known(&operand) {
                        return Ok(None);
                    }
                    Some(self.whole_number(&operand, clause)?)
                }
                (NodeKind::Plus, Some(right)) => Some(right),
                (NodeKind::Negate, Some(right)) => right.checked_neg(),
                (NodeKind::Binary(operator), Some(right)) => {
                    let left = values.pop().unwrap_or(0);
                    match operator {
                        BinaryOperator::Add => left.checked_add(right),
                        BinaryOperator::Subtract => left.checked_sub(right),
                        BinaryOperator::Multiply => left.checked_mul(right),
                        BinaryOperator::Divide => left.checked_div(right),
                        BinaryOperator::Remainder => left.checked_rem(right),
                        BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Concatenate => {
                            return Err(self.no_row_count(at, clause));
                        }
                    }
                }
                _ => return Err(self.no_row_count(at, clause)),
            };
            values.push(value.ok_or_else(|| Error::OutOfRange {
                at: self.source.at(at),
                what: clause.to_owned(),
                bounds: "a whole number of 64 bits".to_owned(),
                found: "none".to_owned(),
                hint: Hint::NONE,
            })?);
        }
        Ok(values.pop().and_then(|count| u64::try_from(count).ok()))
    }

    fn whole_number(&self, operand: &Operand, clause: &str) -> Result<i64> {
        match self.value(&operand.kind) {
            Value::Integer(number) => Ok(*number),
            _ => Err(self.wrong_type(operand, clause, "INTEGER", Hint::NONE)),
        }
    }

    fn no_row_count(&self, at: usize, clause: &str) -> Error {
        let hint = Hint::new("it takes whole numbers, parameters, and `+ - * / %` of them");
        self.not_supported(at, format!("such an expression in {clause}"), hint)
    }
}

/// Takes those conditions on groups which only read keys, as conditions on rows of the source: as in SQLite, they are asked
/// before groups are made. Keys by another collation show one text of several, so what is asked of those is not known of a row.
fn conditions_on_rows(
    expressions: &mut Expressions<'_>,
    keys: &[GroupKey],
    having: &mut Vec<ExpressionId>,
) -> Vec<ExpressionId> {
    let is_binary = |key: &GroupKey| key.collation == Collation::Binary;
    if having.is_empty() || keys.is_empty() || !keys.iter().all(is_binary) {
        return Vec::new();
    }
    let of_rows = expressions.arena.without_keys(keys);
    let mut rows = Vec::new();
    having.retain(|id| {
        let row = of_rows[id.0 as usize];
        rows.extend(row);
        row.is_none()
    });
    rows
}

/// The parts of conditions between their ANDs.
fn conjuncts(expressions: &Expressions<'_>, conditions: Vec<ExpressionId>) -> Vec<ExpressionId> {
    let mut found = Vec::new();
    // A condition may be there twice, by an alias. Once is enough, and keeps this linear.
    let mut seen = HashSet::new();
    let mut pending = conditions;
    pending.reverse();
    while let Some(id) = pending.pop() {
        match expressions.arena.get(id) {
            _ if !seen.insert(id) => {}
            Expression::Binary {
                operator: BinaryOperator::And,
                left,
                right,
            } => pending.extend([*right, *left]),
            _ => found.push(id),
        }
    }
    found
}

/// DISTINCT compares by bytes. Where the columns of a block ask for another collation, a block around it groups what
/// is left, and sorts and cuts it.
fn distinct(inner: &mut Block, index: usize, columns: &[Column]) -> Block {
    // A block has at most COLUMNS_MAX outputs.
    let id = |index: usize| ExpressionId(index as u32);
    let width = columns.len();
    let source = (0..width).map(Expression::Column);
    let order_by = inner.order_by.drain(..).map(|key| {
        let same = |output: &Output| output.expression == key.expression;
        let output = inner.outputs.iter().position(same);
        SortKey {
            expression: id(width + output.expect("what is sorted by has been found selected")),
            ..key
        }
    });
    let order_by = order_by.collect();
    Block {
        source: Source::Block(index),
        metadata: Vec::new(),
        expressions: source.chain((0..width).map(Expression::Key)).collect(),
        filter: Vec::new(),
        aggregation: Some(Aggregation {
            keys: columns
                .iter()
                .enumerate()
                .map(|(index, column)| GroupKey {
                    expression: id(index),
                    collation: column.collation,
                })
                .collect(),
            aggregates: Vec::new(),
        }),
        having: Vec::new(),
        outputs: inner
            .outputs
            .iter()
            .enumerate()
            .map(|(index, output)| Output {
                name: output.name.clone(),
                expression: id(width + index),
            })
            .collect(),
        distinct: false,
        order_by,
        limit: inner.limit.take(),
        offset: std::mem::take(&mut inner.offset),
    }
}
