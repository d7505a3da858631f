//! Regular expressions that are literals of an expression: errors in one are reported with their place in the statement.
//!
//! Invariant: those that are no literals are left to where they are compiled. The checks themselves are in `regexp_check`.

use super::expression::Expressions;
use super::regexp_check::RegexpPlace;
use crate::error::Result;
use crate::functions::Named;
use crate::query::{Function, Matcher};
use crate::syntax::{NodeId, NodeKind};
use crate::value::Value;

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
            Some((NodeKind::Literal(Value::Text(text)), at)) => {
                let place = RegexpPlace {
                    at,
                    is_literal: true,
                };
                self.binder.check_regexp(text, "", place)
            }
            _ => Ok(()),
        }
    }
}
