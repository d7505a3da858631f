//! Regular expressions that are literals: errors in one are reported with their place in the statement.
//!
//! Invariant: all of them together take a fraction of a second here, where nothing polls. Those that are left, and those that are no
//! literals, are checked by the same rules where they are compiled.

use super::Binder;
use super::expression::Expressions;
use crate::error::{Hint, Result, quote};
use crate::functions::Named;
use crate::query::{Function, Matcher};
use crate::regexp::parse;
use crate::syntax::{NodeId, NodeKind};
use crate::value::Value;

/// Nanoseconds of work on all regular expressions of a statement.
const WORK_MAX: u64 = 200_000_000;

impl Expressions<'_> {
    /// Checks the regular expression of a node that matches one, if it is a literal.
    pub(super) fn check_pattern(&self, kind: &NodeKind, operands: &[NodeId]) -> Result<()> {
        let index = match kind {
            NodeKind::Match {
                matcher: Matcher::Regexp,
                ..
            } => 1,
            NodeKind::Call { named, .. } => match named {
                Some(Named::Matcher(Matcher::Regexp)) => 0,
                Some(Named::Scalar(Function::RegexpExtract | Function::RegexpReplace)) => 1,
                _ => return Ok(()),
            },
            _ => return Ok(()),
        };
        let node = operands.get(index).map(|operand| self.nodes.node(*operand));
        match node.map(|node| (&node.kind, node.at)) {
            Some((NodeKind::Literal(Value::Text(text)), at)) => self.binder.check_regexp(text, at),
            _ => Ok(()),
        }
    }
}

impl Binder<'_> {
    /// Checks a regular expression that is a literal at a byte of the statement.
    fn check_regexp(&self, pattern: &str, at: usize) -> Result<()> {
        if self.regexp_work.get() > WORK_MAX {
            return Ok(());
        }
        let fault = match parse(pattern, self.schema.regexp_memory_limit()) {
            Ok(parsed) => {
                self.regexp_work
                    .update(|work| work.saturating_add(parsed.work));
                return Ok(());
            }
            Err(fault) => fault,
        };
        let place = match fault.byte() {
            None => at,
            // Behind the quote; quotes in the text are written twice.
            Some(byte) => {
                let before = pattern.get(..byte).unwrap_or(pattern);
                at + 1 + before.len() + before.matches('\'').count()
            }
        };
        let message = format!("regular expression {}: {fault}", quote(pattern));
        Err(self.conflict(place, message, Hint::maybe(fault.hint())))
    }
}
