//! `Program`: the expressions of a block, made ready to be evaluated on many rows.
//!
//! Invariant: as in the plan, a node refers only to nodes before it. What is constant has become a value, constant patterns
//! are compiled and constant IN lists are sorted. Which row is at hand is the evaluator's business.

use std::collections::HashMap;

use zipfdb_sql::query::{Collation, Expression, ExpressionId, Matcher};

use super::Evaluator;
use super::compare::compare;
use super::evaluator::check_pattern;
use super::pattern::Pattern;
use crate::runtime::interrupt::Interrupt;
use crate::runtime::memory::{self, ValueMemory};
use crate::{Error, Result, Value};

/// Expressions, ready to be evaluated.
#[derive(Debug)]
pub(crate) struct Program {
    nodes: Vec<Node>,
    /// Where an evaluator keeps the value of each node; of no meaning for constants and values of the row.
    slots: Vec<usize>,
    pub(super) slot_count: usize,
    /// Number of the parameter set.
    pub(super) binding: u64,
    /// Ends the statement that the expressions are of.
    pub(super) interrupt: Interrupt,
    /// What values may take where the program is evaluated.
    pub(super) memory: ValueMemory,
    /// Bytes of values that have been computed.
    folded_bytes: u64,
}

/// What computed constants of a program take at most. Others are computed for each row, where they count.
const FOLDED_BYTES_MAX: u64 = 64 << 10;

/// An expression, or what it was made into.
#[derive(Debug, Clone)]
pub(super) enum Node {
    /// A constant.
    Constant(Value),
    /// A value of the row, by index.
    Row(usize),
    /// `IN` a list of constants.
    InConstants {
        operand: ExpressionId,
        list: ConstantList,
        negated: bool,
        collation: Collation,
    },
    /// A match with a constant pattern; none if the pattern is NULL.
    MatchConstant {
        text: ExpressionId,
        pattern: Option<Pattern>,
        negated: bool,
    },
    /// Anything else, as in the plan.
    Other(Expression),
}

/// The items of a constant IN list.
#[derive(Debug, Clone)]
pub(super) struct ConstantList {
    /// Sorted by the collation, without NULL.
    pub(super) sorted: Vec<Value>,
    pub(super) has_null: bool,
}

/// Where the parts of a row of the program are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    /// Where each column of the source is in a row; a column that is not there is not used.
    pub(crate) columns: HashMap<usize, usize>,
    /// How many keys come before the aggregates.
    pub(crate) keys: usize,
}

impl Layout {
    /// Rows that have all columns in order, or keys and then aggregates.
    pub(crate) fn whole(width: usize, keys: usize) -> Layout {
        Layout {
            columns: (0..width).map(|column| (column, column)).collect(),
            keys,
        }
    }
}

impl Program {
    /// Prepares expressions.
    ///
    /// # Errors
    /// If a constant pattern is not valid, or the statement has to end.
    pub(crate) fn new(
        expressions: &[Expression],
        layout: &Layout,
        binding: u64,
        interrupt: &Interrupt,
    ) -> Result<Program> {
        let mut program = Program {
            nodes: Vec::with_capacity(expressions.len()),
            slots: Vec::with_capacity(expressions.len()),
            slot_count: 0,
            binding,
            interrupt: interrupt.clone(),
            memory: ValueMemory::default(),
            folded_bytes: 0,
        };
        for expression in expressions {
            let node = program.prepare(expression, layout)?;
            let is_leaf = matches!(node, Node::Constant(_) | Node::Row(_));
            program.nodes.push(node);
            program.slots.push(program.slot_count);
            program.slot_count += usize::from(!is_leaf);
        }
        Ok(program)
    }

    /// The same, its values counted with those of a statement.
    ///
    /// # Errors
    /// If a constant of the statement is too long.
    pub(crate) fn within(mut self, memory: &ValueMemory) -> Result<Program> {
        self.count_in(memory);
        for node in &self.nodes {
            if let Node::Constant(value) = node {
                memory.check_length("a value of the statement", memory::size(value))?;
            }
        }
        Ok(self)
    }

    pub(super) fn count_in(&mut self, memory: &ValueMemory) {
        self.memory = memory.clone();
    }

    /// The value of an expression that does not depend on the row.
    pub(crate) fn constant(&self, id: ExpressionId) -> Option<&Value> {
        match self.node(id) {
            Node::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// The value of the row that an expression is.
    pub(crate) fn column(&self, id: ExpressionId) -> Option<usize> {
        match self.node(id) {
            Node::Row(index) => Some(*index),
            _ => None,
        }
    }

    pub(super) fn node(&self, id: ExpressionId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub(super) fn slot(&self, id: ExpressionId) -> usize {
        self.slots[id.0 as usize]
    }

    fn prepare(&mut self, expression: &Expression, layout: &Layout) -> Result<Node> {
        match expression {
            Expression::Value(value) => return Ok(Node::Constant(value.clone())),
            // A column without a place is in no expression that is evaluated.
            Expression::Column(column) => {
                let place = layout.columns.get(column);
                return Ok(place.map_or(Node::Constant(Value::Null), |&place| Node::Row(place)));
            }
            Expression::Key(key) => return Ok(Node::Row(*key)),
            Expression::Aggregate(aggregate) => return Ok(Node::Row(layout.keys + aggregate)),
            _ => {}
        }
        let mut is_constant = true;
        operands(expression, |id| is_constant &= self.constant(id).is_some());
        if is_constant && let Some(value) = self.folded(expression)? {
            return Ok(Node::Constant(value));
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
    /// If a constant pattern is not valid, or the statement has to end.
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
        // For as long as it takes, the expression is a node and the only one that needs a slot.
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
        let values: Option<Vec<&Value>> = list.iter().map(|&id| self.constant(id)).collect();
        let (nulls, values): (Vec<&Value>, Vec<&Value>) = values?
            .into_iter()
            .partition(|value| matches!(value, Value::Null));
        let mut sorted: Vec<Value> = values.into_iter().cloned().collect();
        sorted.sort_by(|a, b| compare(a, b, collation));
        Some(ConstantList {
            sorted,
            has_null: !nulls.is_empty(),
        })
    }

    /// The pattern, if it and its escape are constant.
    fn constant_pattern(
        &self,
        matcher: Matcher,
        pattern: ExpressionId,
        escape: Option<ExpressionId>,
    ) -> Result<Option<Option<Pattern>>> {
        let escape = escape.map(|escape| self.constant(escape));
        if let Some(pattern) = self.constant(pattern) {
            check_pattern(pattern, &self.memory)?;
        }
        match (self.constant(pattern), escape) {
            (Some(pattern), None) => Pattern::new(matcher, pattern, None).map(Some),
            (Some(pattern), Some(Some(escape))) => {
                Pattern::new(matcher, pattern, Some(escape)).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// Shows the operands of an expression to `visit`.
pub(crate) fn operands(expression: &Expression, mut visit: impl FnMut(ExpressionId)) {
    match expression {
        Expression::Value(_)
        | Expression::Column(_)
        | Expression::Key(_)
        | Expression::Aggregate(_) => {}
        Expression::Affine { operand, .. }
        | Expression::Cast { operand, .. }
        | Expression::Not(operand)
        | Expression::Negate(operand)
        | Expression::IsNull { operand, .. } => visit(*operand),
        Expression::Binary { left, right, .. } | Expression::Compare { left, right, .. } => {
            visit(*left);
            visit(*right);
        }
        Expression::In { operand, list, .. } => {
            visit(*operand);
            list.iter().copied().for_each(visit);
        }
        Expression::Match {
            text,
            pattern,
            escape,
            ..
        } => {
            visit(*text);
            visit(*pattern);
            escape.iter().copied().for_each(visit);
        }
        Expression::Case {
            branches,
            otherwise,
        } => {
            for (condition, value) in branches {
                visit(*condition);
                visit(*value);
            }
            otherwise.iter().copied().for_each(visit);
        }
        Expression::Call { arguments, .. } => arguments.iter().copied().for_each(visit),
    }
}
