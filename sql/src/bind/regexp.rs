//! Regular expressions that are literals: what is wrong with one is said with its place in the statement.
//!
//! Invariant: what passes here may still be refused where it is compiled, as too large.

use regex_syntax::ParserBuilder;
use regex_syntax::ast::Span;

use super::Binder;
use super::expression::Expressions;
use crate::error::{Hint, Result, quote};
use crate::query::Matcher;
use crate::syntax::{NodeId, NodeKind};
use crate::value::Value;

impl Expressions<'_> {
    /// Checks a pattern of REGEXP if it is a literal.
    pub(super) fn check_pattern(&self, matcher: Matcher, pattern: NodeId) -> Result<()> {
        let node = self.nodes.node(pattern);
        match &node.kind {
            NodeKind::Literal(Value::Text(text)) if matcher == Matcher::Regexp => {
                self.binder.check_regexp(text, node.at)
            }
            _ => Ok(()),
        }
    }
}

impl Binder<'_> {
    /// Checks a regular expression that is a literal at a byte of the statement.
    fn check_regexp(&self, pattern: &str, at: usize) -> Result<()> {
        // As the database compiles it.
        let mut parser = ParserBuilder::new().utf8(false).build();
        let Err(error) = parser.parse(pattern) else {
            return Ok(());
        };
        let (reason, span): (String, &Span) = match &error {
            regex_syntax::Error::Parse(error) => (error.kind().to_string(), error.span()),
            regex_syntax::Error::Translate(error) => (error.kind().to_string(), error.span()),
            _ => return Ok(()),
        };
        let offset = span.start.offset;
        // Behind the quote; quotes in the text are written twice.
        let before = pattern.get(..offset).unwrap_or(pattern);
        let place = at + 1 + before.len() + before.matches('\'').count();
        let message = format!(
            "regular expression {} is not valid: {reason}",
            quote(pattern)
        );
        Err(self.conflict(place, message, Hint::NONE))
    }
}
