//! `Program`: the expressions of a block, made ready to be evaluated on many rows.
//!
//! Invariant: as in the plan, a node refers only to nodes before it. Constants have become values, constant patterns are compiled
//! and constant IN lists are sorted. The evaluator knows the current row.

use std::sync::Arc;

use zipfdb_sql::query::{Collation, Expression, ExpressionId};

use super::pattern::Pattern;
use crate::runtime::interrupt::Interrupt;
use crate::runtime::memory::{self, ValueMemory};
use crate::{Result, Value};

/// Expressions, ready to be evaluated.
#[derive(Debug)]
pub(crate) struct Program {
    pub(super) nodes: Vec<Node>,
    /// The slot of an evaluator for the value of each node; without meaning for constants and values of the row.
    pub(super) slots: Vec<usize>,
    pub(super) slot_count: usize,
    /// The column of the row that alone decides each node.
    pub(super) columns: Vec<NodeColumns>,
    /// Number of the parameter set.
    pub(super) binding: u64,
    /// Ends the statement that the expressions are of.
    pub(super) interrupt: Interrupt,
    /// The memory of values where the program is evaluated.
    pub(super) memory: ValueMemory,
    /// The part of it for compiled patterns.
    pub(super) pattern_memory: ValueMemory,
    /// Bytes of computed constants.
    pub(super) folded_bytes: u64,
}

/// The columns of the row that decide a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeColumns {
    None,
    One(usize),
    Several,
}

impl NodeColumns {
    /// The columns that decide both.
    pub(super) fn and(self, other: NodeColumns) -> NodeColumns {
        match (self, other) {
            (columns, NodeColumns::None) | (NodeColumns::None, columns) => columns,
            (left, right) if left == right => left,
            _ => NodeColumns::Several,
        }
    }
}

/// An expression, or the node it was made into.
#[derive(Debug)]
pub(super) enum Node {
    /// A constant.
    Constant(Arc<Value>),
    /// A value of the row, by index.
    Row(usize),
    /// Depends on a column that rows do not have: it is not evaluated.
    Absent,
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
    /// Any other expression, as in the plan.
    Other(Expression),
}

/// The items of a constant IN list.
#[derive(Debug, Clone)]
pub(super) struct ConstantList {
    /// Sorted by the collation, without NULL.
    pub(super) sorted: Vec<Arc<Value>>,
    pub(super) has_null: bool,
}

/// The layout of a row of the program.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    /// The place of each column of the source in a row; a missing column is not used.
    pub(crate) columns: Vec<Option<usize>>,
    /// The number of keys before the aggregates.
    pub(crate) keys: usize,
}

impl Layout {
    /// Rows that have one column only.
    pub(crate) fn only(column: usize) -> Layout {
        let mut columns = vec![None; column];
        columns.push(Some(0));
        Layout { columns, keys: 0 }
    }

    /// Rows that have all columns in order, or keys and then aggregates.
    pub(crate) fn whole(width: usize, keys: usize) -> Layout {
        Layout {
            columns: (0..width).map(Some).collect(),
            keys,
        }
    }
}

impl Program {
    /// Checks the length of all constants.
    ///
    /// # Errors
    /// If one is too long.
    pub(crate) fn check_constants(&self) -> Result<()> {
        for node in &self.nodes {
            if let Node::Constant(value) = node {
                let bytes = memory::size(value);
                self.memory
                    .check_length("a value of the statement", bytes)?;
            }
        }
        Ok(())
    }

    /// The value of an expression that does not depend on the row.
    pub(crate) fn constant(&self, id: ExpressionId) -> Option<&Value> {
        match self.node(id) {
            Node::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// The index of the row's value that an expression is.
    pub(crate) fn column(&self, id: ExpressionId) -> Option<usize> {
        match self.node(id) {
            Node::Row(index) => Some(*index),
            _ => None,
        }
    }

    /// The column of the row that alone decides an expression.
    #[inline]
    pub(crate) fn decisive_column(&self, id: ExpressionId) -> Option<usize> {
        match self.columns[id.0 as usize] {
            NodeColumns::One(column) => Some(column),
            NodeColumns::None | NodeColumns::Several => None,
        }
    }

    pub(super) fn node(&self, id: ExpressionId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub(super) fn slot(&self, id: ExpressionId) -> usize {
        self.slots[id.0 as usize]
    }
}

/// Calls `visit` with the operands of an expression.
pub(crate) fn operands(expression: &Expression, mut visit: impl FnMut(ExpressionId)) {
    match expression {
        Expression::Value(_)
        | Expression::Column(_)
        | Expression::Key(_)
        | Expression::Aggregate(_)
        | Expression::Subquery { .. }
        | Expression::Exists { .. } => {}
        Expression::InSubquery { operand, .. } | Expression::InValues { operand, .. } => {
            visit(*operand)
        }
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
