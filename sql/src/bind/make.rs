//! Nodes to expressions: what each operator and function becomes once its operands are bound.
//!
//! Invariant: comparisons carry SQLite's affinities and collations (datatype3.html, sections 4 and 7), so that the code that
//! evaluates them need not know where operands come from. Names and numbers of arguments have been checked.

use std::sync::Arc;

use super::expression::Expressions;
use crate::functions::Named;
use crate::query::{
    Affinity, BinaryOperator, Collation, Comparison, Expression, ExpressionId, Function,
};
use crate::syntax::{NodeId, NodeKind};
use crate::value::Value;

impl Expressions<'_> {
    fn value(&mut self, value: Value) -> ExpressionId {
        self.arena.add(Expression::Value(Arc::new(value)))
    }

    fn constant(&self, id: ExpressionId) -> Option<&Value> {
        match self.arena.get(id) {
            Expression::Value(value) => Some(value),
            _ => None,
        }
    }

    /// The expression of a node whose operands are in `self.operands`.
    pub(super) fn make(&mut self, id: NodeId) -> ExpressionId {
        let ids = std::mem::take(&mut self.operands);
        let made = self.make_of(id, &ids);
        self.operands = ids;
        made
    }

    fn make_of(&mut self, id: NodeId, ids: &[ExpressionId]) -> ExpressionId {
        let nodes = self.nodes;
        let operands = nodes.operands(id);
        let expression = match &nodes.node(id).kind {
            NodeKind::Literal(value) => Expression::Value(Arc::new(value.clone())),
            NodeKind::Parameter(number) => {
                let known = self.binder.parameters.get(*number - 1);
                Expression::Value(known.cloned().unwrap_or_else(|| Arc::new(Value::Null)))
            }
            NodeKind::Column { .. } => unreachable!("names have no operands to make them of"),
            NodeKind::Plus | NodeKind::Collate(_) => return ids[0],
            NodeKind::Negate => Expression::Negate(ids[0]),
            NodeKind::Not => Expression::Not(ids[0]),
            NodeKind::Binary(operator) => Expression::Binary {
                operator: *operator,
                left: ids[0],
                right: ids[1],
            },
            NodeKind::Compare(comparison) => {
                return self.compare(*comparison, (operands[0], ids[0]), (operands[1], ids[1]));
            }
            NodeKind::IsTruth { truth, negated } => {
                let mut tested = self.arena.add(Expression::Not(ids[0]));
                if *truth {
                    tested = self.arena.add(Expression::Not(tested));
                }
                Expression::Compare {
                    comparison: if *negated {
                        Comparison::IsNot
                    } else {
                        Comparison::Is
                    },
                    left: tested,
                    right: self.value(Value::Integer(1)),
                    collation: Collation::Binary,
                }
            }
            NodeKind::IsNull { negated } => Expression::IsNull {
                operand: ids[0],
                negated: *negated,
            },
            NodeKind::In { negated } => {
                let left = self.operand(operands[0]);
                let list = ids[1..].iter();
                let list = list
                    .map(|item| self.affine_to(*item, left.affinity))
                    .collect();
                Expression::In {
                    operand: ids[0],
                    list,
                    negated: *negated,
                    collation: left.collation(),
                }
            }
            NodeKind::InSubquery { select, negated } => {
                let operand = self.operand(operands[0]);
                self.in_subquery(operand, ids[0], *select, *negated)
            }
            NodeKind::Subquery(select) => Expression::Subquery {
                block: self.surroundings.bound[*select].block,
            },
            NodeKind::Exists(select) => Expression::Exists {
                block: self.surroundings.bound[*select].block,
            },
            NodeKind::Between { negated } => {
                let value = (operands[0], ids[0]);
                let low = (operands[1], ids[1]);
                let high = (operands[2], ids[2]);
                let left = self.compare(Comparison::GreaterOrEqual, value, low);
                let right = self.compare(Comparison::LessOrEqual, value, high);
                let operator = BinaryOperator::And;
                let between = self.arena.add(Expression::Binary {
                    operator,
                    left,
                    right,
                });
                if !negated {
                    return between;
                }
                Expression::Not(between)
            }
            NodeKind::Match { matcher, negated } => Expression::Match {
                matcher: *matcher,
                text: ids[0],
                pattern: ids[1],
                escape: ids.get(2).copied(),
                negated: *negated,
            },
            NodeKind::Case { operand, otherwise } => {
                let skipped = usize::from(*operand);
                let end = ids.len() - usize::from(*otherwise);
                let mut branches = Vec::with_capacity((end - skipped) / 2);
                for at in (skipped..end).step_by(2) {
                    let condition = if *operand {
                        let value = (operands[0], ids[0]);
                        self.compare(Comparison::Equal, value, (operands[at], ids[at]))
                    } else {
                        ids[at]
                    };
                    branches.push((condition, ids[at + 1]));
                }
                Expression::Case {
                    branches,
                    otherwise: otherwise.then(|| ids[end]),
                }
            }
            NodeKind::JsonPart(function) => Expression::Call {
                function: *function,
                arguments: ids.to_vec(),
                collation: Collation::Binary,
            },
            NodeKind::Cast(affinity) => Expression::Cast {
                operand: ids[0],
                affinity: *affinity,
            },
            NodeKind::Call { named, .. } => match named {
                Some(Named::Matcher(matcher)) => Expression::Match {
                    matcher: *matcher,
                    text: ids[1],
                    pattern: ids[0],
                    escape: ids.get(2).copied(),
                    negated: false,
                },
                Some(Named::Scalar(function) | Named::Extreme(_, function)) => Expression::Call {
                    function: *function,
                    arguments: ids.to_vec(),
                    collation: match function {
                        Function::Greatest
                        | Function::Least
                        | Function::Max
                        | Function::Min
                        | Function::NullIf => self.first_collation(operands),
                        _ => Collation::Binary,
                    },
                },
                Some(Named::Aggregate(_)) | None => {
                    unreachable!("aggregates are bound apart, unknown functions refused")
                }
            },
        };
        self.arena.add(expression)
    }

    /// The collation of a function that compares its arguments: of the first one that has any, as every column has.
    fn first_collation(&self, operands: &[NodeId]) -> Collation {
        let mut rules = operands
            .iter()
            .filter_map(|operand| self.operand(*operand).collation);
        rules
            .next()
            .map_or(Collation::Binary, |rule| rule.collation)
    }

    /// A comparison of two operands, each a node and its expression: datatype3.html, sections 4.2 and 7.1.
    fn compare(
        &mut self,
        comparison: Comparison,
        (left_node, left): (NodeId, ExpressionId),
        (right_node, right): (NodeId, ExpressionId),
    ) -> ExpressionId {
        if let Comparison::Is | Comparison::IsNot = comparison {
            let is_null = |id| matches!(self.constant(id), Some(Value::Null));
            let operand = match (is_null(left), is_null(right)) {
                (_, true) => Some(left),
                (true, false) => Some(right),
                (false, false) => None,
            };
            // However it is written, there is one expression for it.
            if let Some(operand) = operand {
                let negated = comparison == Comparison::IsNot;
                return self.arena.add(Expression::IsNull { operand, negated });
            }
        }
        let left_affinity = self.operand(left_node).affinity;
        let right_affinity = self.operand(right_node).affinity;
        let is_number = |affinity| {
            matches!(
                affinity,
                Affinity::Integer | Affinity::Real | Affinity::Numeric
            )
        };
        let (mut left, mut right) = (left, right);
        match (left_affinity, right_affinity) {
            (a, b) if is_number(a) && is_number(b) => {}
            (a, _) if is_number(a) => right = self.affine_to(right, Affinity::Integer),
            (_, b) if is_number(b) => left = self.affine_to(left, Affinity::Integer),
            (Affinity::Text, Affinity::None) => right = self.affine_to(right, Affinity::Text),
            (Affinity::None, Affinity::Text) => left = self.affine_to(left, Affinity::Text),
            _ => {}
        }
        let collation = self.collation_of(left_node, right_node);
        self.arena.add(Expression::Compare {
            comparison,
            left,
            right,
            collation,
        })
    }

    fn collation_of(&self, left: NodeId, right: NodeId) -> Collation {
        let rules = [left, right].map(|node| self.operand(node).collation);
        let mut rules = rules.into_iter().flatten();
        let first = rules.next();
        match (first, rules.next()) {
            (Some(first), Some(second)) if second.explicit && !first.explicit => second.collation,
            (Some(first), _) => first.collation,
            (None, _) => Collation::Binary,
        }
    }

    /// The expression with an affinity applied. Values that stay as they are stay bare, so that the plan
    /// shows `word = 'a'` as a column and a value.
    pub(super) fn affine_to(&mut self, operand: ExpressionId, affinity: Affinity) -> ExpressionId {
        let affinity = match affinity {
            Affinity::None | Affinity::Blob => return operand,
            Affinity::Integer | Affinity::Real | Affinity::Numeric => Affinity::Integer,
            Affinity::Text => Affinity::Text,
        };
        match (self.constant(operand), affinity) {
            (Some(Value::Null | Value::Blob(_)), _)
            | (Some(Value::Text(_)), Affinity::Text)
            | (Some(Value::Integer(_) | Value::Real(_)), Affinity::Integer) => operand,
            (Some(Value::Integer(value)), Affinity::Text) => {
                let text = value.to_string();
                self.value(Value::Text(text))
            }
            _ => self.arena.add(Expression::Affine { operand, affinity }),
        }
    }
}
