//! Expressions of one SELECT, bound node by node: names become columns, aliases what they stand for, and what rows are
//! grouped by becomes keys. Calls are checked in `call`, expressions made in `make`.
//!
//! Invariant: nodes are bound in a loop, operands first. Where rows are grouped every node is bound in two forms: of a
//! row of the source and of a group. What equals a GROUP BY expression as the one is that key as the other.

use std::collections::HashMap;

use super::Binder;
use super::arena::Arena;
use super::blocks::Surroundings;
use super::from::{NameIndex, Scope};
use crate::error::Result;
use crate::query::{Affinity, Aggregate, Collation, Expression, ExpressionId};
use crate::syntax::{Name, NodeId, NodeKind, Nodes, Select};

/// A node, bound.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    /// Evaluated on rows of the source; else the byte of the aggregate that forbids it.
    pub(super) row: std::result::Result<ExpressionId, usize>,
    /// Evaluated on groups; else the byte of the column that is not grouped by.
    pub(super) group: std::result::Result<ExpressionId, usize>,
    pub(super) affinity: Affinity,
    pub(super) collation: Option<Rule>,
}

/// The collation that an operand asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    pub(super) collation: Collation,
    /// By COLLATE; otherwise it is that of a column.
    pub(super) explicit: bool,
}

impl Bound {
    pub(super) fn collation(&self) -> Collation {
        self.collation
            .map_or(Collation::Binary, |rule| rule.collation)
    }
}

/// Which form of an expression is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Row,
    Group,
}

/// What a column of the result is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Slot {
    /// A column that `*` stands for, and the byte of `*`.
    Column { index: usize, at: usize },
    /// An item of the SELECT list, and its number there.
    Item { root: NodeId, item: usize },
}

/// A SELECT while it is bound.
pub(super) struct Expressions<'a> {
    pub(super) binder: &'a Binder<'a>,
    pub(super) nodes: &'a Nodes,
    pub(super) scope: Scope<'a>,
    pub(super) surroundings: Surroundings<'a>,
    pub(super) arena: Arena,
    /// By node: its newest binding.
    bound: Vec<Option<Bound>>,
    pub(super) slots: Vec<Slot>,
    /// By slot.
    pub(super) aliases: Vec<Option<&'a str>>,
    alias_names: NameIndex,
    /// By slot, as a row: bound when an alias in WHERE or GROUP BY first needs it.
    row_slots: Vec<Option<Bound>>,
    /// By slot: the result, once it is bound.
    pub(super) outputs: Vec<Bound>,
    /// Whether rows are grouped.
    pub(super) grouped: bool,
    pub(super) keys: HashMap<ExpressionId, usize>,
    pub(super) aggregates: Vec<Aggregate>,
    pub(super) aggregate_ids: HashMap<Aggregate, usize>,
    /// Ids of operands, for the node that is bound.
    pub(super) operands: Vec<ExpressionId>,
}

impl<'a> Expressions<'a> {
    pub(super) fn new(
        binder: &'a Binder<'a>,
        select: &'a Select,
        scope: Scope<'a>,
        slots: Vec<(Slot, Option<&'a str>)>,
        surroundings: Surroundings<'a>,
    ) -> Expressions<'a> {
        let (slots, aliases): (Vec<Slot>, Vec<Option<&str>>) = slots.into_iter().unzip();
        let mut expressions = Expressions {
            row_slots: vec![None; slots.len()],
            slots,
            aliases,
            surroundings,
            ..Expressions::of_nodes(binder, &select.nodes, scope)
        };
        expressions.grouped = !select.group_by.is_empty()
            || select
                .nodes
                .ids()
                .any(|id| expressions.aggregate_of(id).is_some());
        expressions
    }

    /// Expressions that no SELECT list is near.
    pub(super) fn of_nodes(
        binder: &'a Binder<'a>,
        nodes: &'a Nodes,
        scope: Scope<'a>,
    ) -> Expressions<'a> {
        Expressions {
            binder,
            nodes,
            scope,
            surroundings: Surroundings::NONE,
            arena: Arena::default(),
            bound: vec![None; nodes.len()],
            row_slots: Vec::new(),
            slots: Vec::new(),
            aliases: Vec::new(),
            alias_names: NameIndex::default(),
            outputs: Vec::new(),
            grouped: false,
            keys: HashMap::new(),
            aggregates: Vec::new(),
            aggregate_ids: HashMap::new(),
            operands: Vec::new(),
        }
    }

    /// The slot that has this alias.
    pub(super) fn alias(&self, name: &str) -> Option<usize> {
        self.alias_names.find(self.aliases.iter().copied(), name)
    }

    /// Binds a node and all below it. `aliases`: names that are no columns may be aliases of the SELECT list.
    pub(super) fn bind(&mut self, root: NodeId, form: Form, aliases: bool) -> Result<Bound> {
        let mut last = None;
        for id in self.nodes.below(root) {
            let bound = self.node(id, form, aliases)?;
            self.bound[id.index()] = Some(bound);
            last = Some(bound);
        }
        Ok(last.expect("a node is below itself"))
    }

    /// Binds a slot as a row of the source.
    pub(super) fn row_slot(&mut self, slot: usize) -> Result<Bound> {
        if let Some(bound) = self.row_slots[slot] {
            return Ok(bound);
        }
        let bound = match self.slots[slot] {
            Slot::Column { index, at } => self.column(index, at, Form::Row),
            Slot::Item { root, .. } => self.bind(root, Form::Row, false)?,
        };
        self.row_slots[slot] = Some(bound);
        Ok(bound)
    }

    pub(super) fn at(&self, id: NodeId) -> usize {
        self.nodes.node(id).at
    }

    /// The byte at which an expression begins.
    pub(super) fn start(&self, root: NodeId) -> usize {
        let below = self.nodes.below(root);
        below.map(|id| self.at(id)).min().unwrap_or(0)
    }

    pub(super) fn operand(&self, id: NodeId) -> Bound {
        self.bound[id.index()].expect("operands are bound first")
    }

    pub(super) fn column(&mut self, index: usize, at: usize, form: Form) -> Bound {
        let column = &self.scope.columns[index];
        let (affinity, collation) = (column.affinity, column.collation);
        let id = self.arena.add(Expression::Column(index));
        let group = match self.keys.get(&id) {
            Some(key) if form == Form::Group => Ok(self.arena.add(Expression::Key(*key))),
            _ => Err(at),
        };
        Bound {
            row: Ok(id),
            group,
            affinity,
            collation: Some(Rule {
                collation,
                explicit: false,
            }),
        }
    }

    fn node(&mut self, id: NodeId, form: Form, aliases: bool) -> Result<Bound> {
        let node = self.nodes.node(id);
        if let NodeKind::Column { table, name } = &node.kind {
            return self.name(node.at, table.as_ref(), name, form, aliases);
        }
        let operands = self.nodes.operands(id);
        if let Some(function) = self.aggregate_of(id) {
            return self.aggregate(id, function, form);
        }
        self.check_call(id)?;
        if let Some(function) = self.excerpt_of(id) {
            return self.excerpt(id, function, form);
        }
        self.check_pattern(&node.kind, operands)?;
        self.check_subquery(id)?;
        let row = match self.collect(operands, |bound| bound.row) {
            Ok(()) => Ok(self.make(id)),
            Err(at) => Err(at),
        };
        let mut group = Err(node.at);
        if form == Form::Group {
            let key = row.ok().and_then(|row| self.keys.get(&row).copied());
            group = match key {
                Some(key) => Ok(self.arena.add(Expression::Key(key))),
                None => match self.collect(operands, |bound| bound.group) {
                    Ok(()) => Ok(self.make(id)),
                    Err(at) => Err(at),
                },
            };
        }
        let first = operands.first().map(|operand| self.operand(*operand));
        let affinity = match (&node.kind, first) {
            (NodeKind::Cast(affinity), _) => *affinity,
            (NodeKind::Subquery(select), _) => self.subquery_affinity(*select),
            (NodeKind::Collate(_), Some(first)) => first.affinity,
            _ => Affinity::None,
        };
        let collation = match (&node.kind, first) {
            (NodeKind::Collate(collation), _) => Some(Rule {
                collation: *collation,
                explicit: true,
            }),
            (NodeKind::Cast(_) | NodeKind::Plus, Some(first)) => first.collation,
            _ => self.explicit_collation(operands),
        };
        Ok(Bound {
            row,
            group,
            affinity,
            collation,
        })
    }

    /// Puts the ids of operands in `self.operands`, or gives the reason why one has none.
    fn collect(
        &mut self,
        operands: &[NodeId],
        form: impl Fn(&Bound) -> std::result::Result<ExpressionId, usize>,
    ) -> std::result::Result<(), usize> {
        self.operands.clear();
        for operand in operands {
            let id = form(&self.operand(*operand))?;
            self.operands.push(id);
        }
        Ok(())
    }

    pub(super) fn explicit_collation(&self, operands: &[NodeId]) -> Option<Rule> {
        operands
            .iter()
            .filter_map(|operand| self.operand(*operand).collation)
            .find(|rule| rule.explicit)
    }

    fn name(
        &mut self,
        at: usize,
        table: Option<&Name>,
        name: &Name,
        form: Form,
        aliases: bool,
    ) -> Result<Bound> {
        if let Some(table) = table
            && let Err(error) = self.binder.check_table(&self.scope, table)
        {
            return Err(self.correlated(Some(table), name).unwrap_or(error));
        }
        if let Some(index) = self.scope.find(&name.text) {
            return Ok(self.column(index, at, form));
        }
        if aliases
            && table.is_none()
            && let Some(slot) = self.alias(&name.text)
        {
            let bound = if self.outputs.is_empty() {
                self.row_slot(slot)?
            } else {
                self.outputs[slot]
            };
            // What forbids it is then where the alias stands.
            return Ok(Bound {
                row: bound.row.map_err(|_| at),
                group: bound.group.map_err(|_| at),
                ..bound
            });
        }
        if let Some(error) = self.correlated(table, name) {
            return Err(error);
        }
        let known = self.aliases.iter().filter(|_| aliases).flatten().copied();
        Err(self.binder.no_column(&self.scope, name, known))
    }
}
