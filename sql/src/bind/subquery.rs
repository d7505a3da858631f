//! Subqueries in expressions: what each becomes, and the refusal of those that use columns of the query around them.
//!
//! Invariant: a subquery is bound before what it stands in and depends on nothing around it, so it is answered once.

use super::blocks::Blocks;
use super::expression::{Bound, Expressions};
use crate::error::{Error, Hint, Result, quote};
use crate::query::{Affinity, Expression, ExpressionId};
use crate::syntax::{FromKind, Item, Name, NodeId, NodeKind, OuterSelect};

impl Expressions<'_> {
    /// Whether a subquery that stands for a value or a set of values gives one column.
    pub(super) fn check_subquery(&self, id: NodeId) -> Result<()> {
        let node = self.nodes.node(id);
        let (select, what) = match node.kind {
            NodeKind::Subquery(select) => (select, "a subquery in an expression"),
            NodeKind::InSubquery { select, .. } => (select, "the subquery of IN"),
            _ => return Ok(()),
        };
        match self.surroundings.bound[select].columns.len() {
            1 => Ok(()),
            found => {
                let message = format!("{what} gives one column, not {found}");
                let at = self.surroundings.selects[select].at;
                Err(self.binder.conflict(at, message, Hint::NONE))
            }
        }
    }

    /// The affinity of a subquery's only column.
    pub(super) fn subquery_affinity(&self, select: usize) -> Affinity {
        let columns = &self.surroundings.bound[select].columns;
        columns
            .first()
            .map_or(Affinity::None, |column| column.affinity)
    }

    /// `operand IN (SELECT ...)`: affinities as of `operand = column`.
    pub(super) fn in_subquery(
        &mut self,
        operand: Bound,
        id: ExpressionId,
        select: usize,
        negated: bool,
    ) -> Expression {
        let is_number = |affinity| {
            matches!(
                affinity,
                Affinity::Integer | Affinity::Real | Affinity::Numeric
            )
        };
        let column = self.subquery_affinity(select);
        let (mut affinity, mut id) = (Affinity::None, id);
        match (operand.affinity, column) {
            (a, b) if is_number(a) && is_number(b) => {}
            (a, _) if is_number(a) => affinity = Affinity::Integer,
            (_, b) if is_number(b) => id = self.affine_to(id, Affinity::Integer),
            (Affinity::Text, Affinity::None) => affinity = Affinity::Text,
            (Affinity::None, Affinity::Text) => id = self.affine_to(id, Affinity::Text),
            _ => {}
        }
        Expression::InSubquery {
            operand: id,
            block: self.surroundings.bound[select].block,
            affinity,
            negated,
            collation: operand.collation(),
        }
    }

    /// The error for a name that is a column of a query around this one.
    pub(super) fn correlated(&self, table: Option<&Name>, name: &Name) -> Option<Error> {
        let selects = self.surroundings.selects;
        let mut inner = selects.get(self.surroundings.index)?;
        while let Some(OuterSelect { select, in_from }) = inner.outer {
            if !in_from && self.knows(select, table, name) {
                let what = format!(
                    "column {} of the query around a subquery",
                    quote(&name.text)
                );
                let hint = Hint::new(
                    "a subquery is answered once, before the query around it; GROUP BY, or a subquery in FROM, may do instead",
                );
                return Some(self.binder.not_supported(name.at, what, hint));
            }
            inner = &selects[select];
        }
        None
    }

    /// Whether a name is a column of a SELECT around this one, which is not bound yet.
    fn knows(&self, select: usize, table: Option<&Name>, name: &Name) -> bool {
        let surroundings = self.surroundings;
        let Some(from) = &surroundings.selects[select].from else {
            return false;
        };
        let is = |known: &str, name: &Name| known.eq_ignore_ascii_case(&name.text);
        match &from.kind {
            FromKind::Subquery(inner) if *inner >= surroundings.bound.len() => {
                let has_alias = |table| {
                    from.alias
                        .as_ref()
                        .is_some_and(|alias| is(&alias.text, table))
                };
                table.is_none_or(has_alias)
                    && surroundings.selects[*inner].items.iter().any(|item| match item {
                        Item::Star { .. } => false,
                        Item::Expression { alias: Some(alias), .. } => is(&alias.text, name),
                        Item::Expression { root, .. } => {
                            let nodes = &surroundings.selects[*inner].nodes;
                            matches!(&nodes.node(*root).kind, NodeKind::Column { name: shown, .. } if is(&shown.text, name))
                        }
                    })
            }
            _ => {
                let mut blocks = Blocks::default();
                let bound = self
                    .binder
                    .from(Some(from), surroundings.bound, &mut blocks);
                bound.is_ok_and(|scope| {
                    let of_table =
                        table.is_none_or(|table| self.binder.check_table(&scope, table).is_ok());
                    of_table && scope.find(&name.text).is_some()
                })
            }
        }
    }
}
