//! The bound part of a statement while the rest is bound: columns, SELECTs and the blocks that they have become.
//!
//! Invariant: a block reads only blocks before it, so the extent of each is known when it is added.

use std::borrow::Cow;

use crate::query::{Affinity, Block, Collation, Expression, Query, Source};
use crate::syntax::Select;

/// A column that a SELECT can use.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Column {
    pub(super) name: Cow<'static, str>,
    pub(super) affinity: Affinity,
    pub(super) collation: Collation,
}

impl Column {
    pub(super) fn new(name: impl Into<Cow<'static, str>>, affinity: Affinity) -> Column {
        Column {
            name: name.into(),
            affinity,
            collation: Collation::Binary,
        }
    }
}

/// A SELECT that has been bound.
#[derive(Debug, Clone)]
pub(super) struct BoundSelect {
    /// The block that gives its rows, by index.
    pub(super) block: usize,
    pub(super) columns: Vec<Column>,
}

/// The SELECTs of a statement while one of them is bound.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) selects: &'a [Select],
    /// The SELECTs that are bound already, the first ones.
    pub(super) bound: &'a [BoundSelect],
    /// The one that is bound now.
    pub(super) index: usize,
}

impl Surroundings<'_> {
    /// Surroundings of an expression in no SELECT.
    pub(super) const NONE: Surroundings<'static> = Surroundings {
        selects: &[],
        bound: &[],
        index: 0,
    };
}

/// The blocks of a query while it is bound.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    pub(super) blocks: Vec<Block>,
    /// For each block how many there are with those that it reads, counted as often as they are read, and how deep they lie.
    pub(super) extents: Vec<(usize, usize)>,
}

impl Blocks {
    pub(super) fn into_query(self) -> Query {
        Query {
            blocks: self.blocks,
        }
    }

    /// The extent of a block that reads others.
    pub(super) fn extent(&self, block: &Block) -> (usize, usize) {
        let mut inner: Vec<usize> = match &block.source {
            Source::Block(inner) => vec![*inner],
            Source::Union(inner) => inner.clone(),
            Source::Nothing | Source::Relation(_) | Source::Values { .. } => Vec::new(),
        };
        inner.extend(
            block
                .expressions
                .iter()
                .filter_map(|expression| match expression {
                    Expression::InSubquery { block, .. }
                    | Expression::Subquery { block }
                    | Expression::Exists { block } => Some(*block),
                    _ => None,
                }),
        );
        inner.iter().fold((1, 1), |(count, depth), inner| {
            let (inner_count, inner_depth) = self.extents[*inner];
            (
                count.saturating_add(inner_count),
                depth.max(inner_depth + 1),
            )
        })
    }
}
