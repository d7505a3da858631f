//! Expressions of a plan to a [`Program`].

use std::sync::Arc;

use zipfdb_sql::query::{Collation, Expression, ExpressionId, Matcher};

use super::compare::compare;
use super::evaluator::Evaluator;
use super::pattern::Pattern;
use super::program::{ConstantList, Layout, Node, NodeColumns, Program, operands};
use crate::runtime::interrupt::Interrupt;
use crate::runtime::memory::{self, ValueMemory};
use crate::{Error, Result, Value};

/// The most bytes of computed constants of a program. Others are computed for each row, where they count.
const FOLDED_BYTES_MAX: u64 = 64 << 10;

impl Program {
    /// Prepares expressions, whose values and patterns are counted in `memory`.
    ///
    /// # Errors
    /// If a constant pattern is not valid, or the statement must end.
    pub(crate) fn new(
        expressions: &[Expression],
        layout: &Layout,
        binding: u64,
        interrupt: &Interrupt,
        memory: &ValueMemory,
    ) -> Result<Program> {
        let mut program = Program {
            nodes: Vec::with_capacity(expressions.len()),
            slots: Vec::with_capacity(expressions.len()),
            slot_count: 0,
            columns: Vec::with_capacity(expressions.len()),
            binding,
            interrupt: interrupt.clone(),
            memory: memory.clone(),
            pattern_memory: memory.clone(),
            folded_bytes: 0,
        };
        for expression in expressions {
            let node = program.prepare(expression, layout)?;
            let is_leaf = matches!(node, Node::Constant(_) | Node::Absent);
            program.columns.push(program.columns_of(expression, &node));
            program.nodes.push(node);
            program.slots.push(program.slot_count);
            program.slot_count += usize::from(!is_leaf);
        }
        Ok(program)
    }

    /// The columns of the row that decide the node of an expression.
    fn columns_of(&self, expression: &Expression, node: &Node) -> NodeColumns {
        match node {
            Node::Constant(_) | Node::Absent => NodeColumns::None,
            Node::Row(column) => NodeColumns::One(*column),
            _ => {
                let mut columns = NodeColumns::None;
                operands(expression, |operand| {
                    columns = columns.and(self.columns[operand.0 as usize]);
                });
                columns
            }
        }
    }

    fn prepare(&mut self, expression: &Expression, layout: &Layout) -> Result<Node> {
        match expression {
            Expression::Value(value) => return Ok(Node::Constant(Arc::clone(value))),
            Expression::Column(column) => {
                let place = layout.columns.get(*column).copied().flatten();
                return Ok(place.map_or(Node::Absent, Node::Row));
            }
            Expression::Key(key) => return Ok(Node::Row(*key)),
            Expression::Aggregate(aggregate) => return Ok(Node::Row(layout.keys + aggregate)),
            _ => {}
        }
        let (mut is_constant, mut is_absent) = (true, false);
        operands(expression, |id| {
            is_constant &= self.constant(id).is_some();
            is_absent |= matches!(self.node(id), Node::Absent);
        });
        if is_absent {
            return Ok(Node::Absent);
        }
        if let Expression::InValues {
            operand,
            values,
            negated,
            collation,
        } = expression
        {
            return Ok(Node::InConstants {
                operand: *operand,
                list: constants(values.iter().cloned().collect(), *collation),
                negated: *negated,
                collation: *collation,
            });
        }
        let is_subquery = matches!(
            expression,
            Expression::Subquery { .. } | Expression::Exists { .. }
        );
        if is_constant
            && !is_subquery
            && let Some(value) = self.folded(expression)?
        {
            return Ok(Node::Constant(Arc::new(value)));
        }
        Ok(match expression {
            Expression::In {
                operand,
                list,
                negated,
                collation,
            } => match self.constant_list(list, *collation) {
                Some(list) => Node::InConstants {
                    operand: *operand,
                    list,
                    negated: *negated,
                    collation: *collation,
                },
                None => Node::Other(expression.clone()),
            },
            Expression::Match {
                matcher,
                text,
                pattern,
                escape,
                negated,
            } => match self.constant_pattern(*matcher, *pattern, *escape)? {
                Some(pattern) => Node::MatchConstant {
                    text: *text,
                    pattern,
                    negated: *negated,
                },
                None => Node::Other(expression.clone()),
            },
            _ => Node::Other(expression.clone()),
        })
    }

    /// The value of an expression of constants; none if it fails, so that it fails only where it is evaluated.
    ///
    /// # Errors
    /// If a constant pattern is not valid, or the statement must end.
    fn folded(&mut self, expression: &Expression) -> Result<Option<Value>> {
        if let Expression::Match {
            matcher,
            pattern,
            escape,
            ..
        } = expression
        {
            self.constant_pattern(*matcher, *pattern, *escape)?;
        }
        // Meanwhile the expression is a node and the only one that needs a slot.
        let id = ExpressionId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        let slot_count = std::mem::replace(&mut self.slot_count, 1);
        self.nodes.push(Node::Other(expression.clone()));
        self.slots.push(0);
        let left = FOLDED_BYTES_MAX.saturating_sub(self.folded_bytes);
        let memory = std::mem::replace(&mut self.memory, ValueMemory::of(left));
        let value = Evaluator::of(&*self).take(&[], id);
        self.memory = memory;
        self.nodes.pop();
        self.slots.pop();
        self.slot_count = slot_count;
        if let Err(error @ (Error::Interrupted | Error::Timeout { .. })) = value {
            return Err(error);
        }
        let value = value.ok();
        self.folded_bytes += value.as_ref().map_or(0, memory::size);
        Ok(value)
    }

    fn constant_list(&self, list: &[ExpressionId], collation: Collation) -> Option<ConstantList> {
        let value = |&id: &ExpressionId| match self.node(id) {
            Node::Constant(value) => Some(Arc::clone(value)),
            _ => None,
        };
        let values: Option<Vec<Arc<Value>>> = list.iter().map(value).collect();
        Some(constants(values?, collation))
    }

    /// The pattern, if it and its escape are constant.
    fn constant_pattern(
        &self,
        matcher: Matcher,
        pattern: ExpressionId,
        escape: Option<ExpressionId>,
    ) -> Result<Option<Option<Pattern>>> {
        let escape = escape.map(|escape| self.constant(escape));
        let (pattern, escape) = match (self.constant(pattern), escape) {
            (Some(pattern), None) => (pattern, None),
            (Some(pattern), Some(Some(escape))) => (pattern, Some(escape)),
            _ => return Ok(None),
        };
        self.interrupt.check()?;
        Pattern::new(matcher, pattern, escape, &self.pattern_memory).map(Some)
    }
}

fn constants(values: Vec<Arc<Value>>, collation: Collation) -> ConstantList {
    let is_null = |value: &Arc<Value>| matches!(**value, Value::Null);
    let (nulls, mut sorted): (Vec<_>, Vec<_>) = values.into_iter().partition(is_null);
    // Values of subqueries come nearly sorted, which takes one pass.
    sorted.sort_by(|a, b| compare(a, b, collation));
    ConstantList {
        sorted,
        has_null: !nulls.is_empty(),
    }
}
