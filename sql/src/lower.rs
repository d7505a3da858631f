//! sqlparser's tree of a query to our flat `Select`s, or a refusal of what this version does not support.
//!
//! The tree says how the tokens belong together. What they are, and where, is read from the tokens themselves: they are
//! walked along with the tree, in the order in which they were written.
//!
//! Invariant: every field of the tree is either used or refused: the tree's types are taken apart without `..`, except
//! where a rest is refused whole. Whatever the tree says, a token that does not fit is an error at that token. Chains are
//! walked in a loop. Nothing here prints, clones or drops a part of the tree.

mod expression;
mod from;
mod lowering;
mod query;

use sqlparser::ast;

use crate::cursor::Cursor;
use crate::error::Result;
use crate::syntax::{NodeId, Nodes, Select};
use lowering::{LoweredSelects, Lowering};

/// Turns a query into `Select`s, each after those that it reads; the cursor goes from its first token to its end.
pub(crate) fn query(cursor: &mut Cursor<'_>, query: &ast::Query) -> Result<Vec<Select>> {
    let mut selects = LoweredSelects::default();
    query::query(cursor, query, &mut selects)?;
    Ok(selects.list)
}

/// Adds an expression to nodes, and the subqueries in it to `subqueries`; the cursor goes from its first token to its end.
pub(crate) fn expression(
    cursor: &mut Cursor<'_>,
    nodes: &mut Nodes,
    subqueries: &mut Vec<Select>,
    expression: &ast::Expr,
) -> Result<NodeId> {
    let mut selects = LoweredSelects {
        list: std::mem::take(subqueries),
        ..LoweredSelects::default()
    };
    let mut lowering = Lowering {
        cursor,
        nodes: std::mem::take(nodes),
        selects: &mut selects,
        inner: Vec::new(),
    };
    let root = lowering.expression(expression);
    *nodes = lowering.nodes;
    *subqueries = selects.list;
    root
}
