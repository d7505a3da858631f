//! `Arena`: the expressions of a block while it is bound.
//!
//! Invariant: equal expressions are one expression, so two are equal exactly if their ids are; operands come first. What
//! turns out not to be needed goes when the block is finished. It does not know what expressions mean.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;

use crate::query::{Block, Expression, ExpressionId, GroupKey, Source};
use crate::value::Value;

#[derive(Debug, Default)]
pub(super) struct Arena {
    expressions: Vec<Expression>,
    /// The first expression of each fingerprint.
    known: HashMap<u64, ExpressionId>,
}

impl Arena {
    pub(super) fn get(&self, id: ExpressionId) -> &Expression {
        &self.expressions[id.0 as usize]
    }

    /// The id of an expression equal to this one.
    pub(super) fn add(&mut self, expression: Expression) -> ExpressionId {
        let fingerprint = fingerprint(&expression);
        // A statement has at most INSERT_TOKENS_MAX tokens, and each makes a handful of expressions.
        let next = ExpressionId(self.expressions.len() as u32);
        let known = *self.known.entry(fingerprint).or_insert(next);
        if known != next && is_same(self.get(known), &expression) {
            return known;
        }
        self.expressions.push(expression);
        next
    }

    /// By expression: the same with what is grouped by in place of keys; none for what needs an aggregate.
    pub(super) fn without_keys(&mut self, keys: &[GroupKey]) -> Vec<Option<ExpressionId>> {
        let mut found: Vec<Option<ExpressionId>> = Vec::with_capacity(self.expressions.len());
        for index in 0..self.expressions.len() {
            let mut expression = self.expressions[index].clone();
            let mut is_known = true;
            for_each_operand(&mut expression, |id| match found[id.0 as usize] {
                Some(same) => *id = same,
                None => is_known = false,
            });
            found.push(match expression {
                Expression::Key(key) => Some(keys[key].expression),
                Expression::Aggregate(_) => None,
                expression => is_known.then(|| self.add(expression)),
            });
        }
        found
    }

    /// Keeps what the block refers to, and changes its ids accordingly.
    pub(super) fn finish(self, block: &mut Block) {
        let mut expressions = self.expressions;
        let mut needed = vec![false; expressions.len()];
        for_each_root(block, |id| needed[id.0 as usize] = true);
        // Operands come before what they are operands of.
        for (index, expression) in expressions.iter_mut().enumerate().rev() {
            if needed[index] {
                for_each_operand(expression, |id| needed[id.0 as usize] = true);
            }
        }
        let mut ids = Vec::with_capacity(expressions.len());
        block.expressions.reserve_exact(expressions.len());
        for (index, mut expression) in expressions.into_iter().enumerate() {
            // No more than before.
            ids.push(ExpressionId(block.expressions.len() as u32));
            if needed[index] {
                for_each_operand(&mut expression, |id| *id = ids[id.0 as usize]);
                block.expressions.push(expression);
            }
        }
        for_each_root(block, |id| *id = ids[id.0 as usize]);
    }
}

/// Calls `f` with every id that a block holds outside of its expressions.
pub(super) fn for_each_root(block: &mut Block, mut f: impl FnMut(&mut ExpressionId)) {
    if let Source::Values { values, .. } = &mut block.source {
        values.iter_mut().for_each(&mut f);
    }
    block.filter.iter_mut().for_each(&mut f);
    block.having.iter_mut().for_each(&mut f);
    for output in &mut block.outputs {
        f(&mut output.expression);
    }
    for key in &mut block.order_by {
        f(&mut key.expression);
    }
    if let Some(aggregation) = &mut block.aggregation {
        for key in &mut aggregation.keys {
            f(&mut key.expression);
        }
        for aggregate in &mut aggregation.aggregates {
            aggregate.argument.iter_mut().for_each(&mut f);
            aggregate.filter.iter_mut().for_each(&mut f);
            aggregate.parameter.iter_mut().for_each(&mut f);
            for key in &mut aggregate.order_by {
                f(&mut key.expression);
            }
        }
    }
}

/// Calls `f` with the id of every operand.
pub(super) fn for_each_operand(expression: &mut Expression, mut f: impl FnMut(&mut ExpressionId)) {
    match expression {
        Expression::Value(_)
        | Expression::Column(_)
        | Expression::Key(_)
        | Expression::Aggregate(_)
        | Expression::Subquery { .. }
        | Expression::Exists { .. } => {}
        Expression::InSubquery { operand, .. } | Expression::InValues { operand, .. } => f(operand),
        Expression::Affine { operand, .. }
        | Expression::Cast { operand, .. }
        | Expression::Not(operand)
        | Expression::Negate(operand)
        | Expression::IsNull { operand, .. } => f(operand),
        Expression::Binary { left, right, .. } | Expression::Compare { left, right, .. } => {
            f(left);
            f(right);
        }
        Expression::In { operand, list, .. } => {
            f(operand);
            list.iter_mut().for_each(f);
        }
        Expression::Match {
            text,
            pattern,
            escape,
            ..
        } => {
            f(text);
            f(pattern);
            escape.iter_mut().for_each(f);
        }
        Expression::Case {
            branches,
            otherwise,
        } => {
            for (condition, result) in branches {
                f(condition);
                f(result);
            }
            otherwise.iter_mut().for_each(f);
        }
        Expression::Call { arguments, .. } => arguments.iter_mut().for_each(f),
    }
}

/// Equality that distinguishes `0.0` from `-0.0`.
fn is_same(a: &Expression, b: &Expression) -> bool {
    match (a, b) {
        (Expression::Value(a), Expression::Value(b)) => match (&**a, &**b) {
            (Value::Real(a), Value::Real(b)) => a.to_bits() == b.to_bits(),
            (a, b) => a == b,
        },
        _ => a == b,
    }
}

/// Equal expressions have equal fingerprints.
fn fingerprint(expression: &Expression) -> u64 {
    let mut hasher = DefaultHasher::new();
    let state = &mut hasher;
    discriminant(expression).hash(state);
    match expression {
        Expression::Value(value) => {
            discriminant(&**value).hash(state);
            match &**value {
                Value::Null => {}
                Value::Integer(value) => value.hash(state),
                Value::Real(value) => value.to_bits().hash(state),
                Value::Text(text) => text.hash(state),
                Value::Blob(bytes) => bytes.hash(state),
            }
        }
        Expression::Column(index) | Expression::Key(index) | Expression::Aggregate(index) => {
            index.hash(state);
        }
        Expression::Affine { operand, affinity } | Expression::Cast { operand, affinity } => {
            (operand, affinity).hash(state);
        }
        Expression::Not(operand) | Expression::Negate(operand) => operand.hash(state),
        Expression::Binary {
            operator,
            left,
            right,
        } => (operator, left, right).hash(state),
        Expression::Compare {
            comparison,
            left,
            right,
            collation,
        } => (comparison, left, right, collation).hash(state),
        Expression::IsNull { operand, negated } => (operand, negated).hash(state),
        Expression::In {
            operand,
            list,
            negated,
            collation,
        } => (operand, list, negated, collation).hash(state),
        Expression::InSubquery {
            operand,
            block,
            affinity,
            negated,
            collation,
        } => (operand, block, affinity, negated, collation).hash(state),
        // Binding makes none, and equal ones are found by comparing them.
        Expression::InValues { operand, .. } => operand.hash(state),
        Expression::Subquery { block } | Expression::Exists { block } => block.hash(state),
        Expression::Match {
            matcher,
            text,
            pattern,
            escape,
            negated,
        } => (matcher, text, pattern, escape, negated).hash(state),
        Expression::Case {
            branches,
            otherwise,
        } => (branches, otherwise).hash(state),
        Expression::Call {
            function,
            arguments,
            collation,
        } => (function, arguments, collation).hash(state),
    }
    hasher.finish()
}
