//! Expressions of one SELECT: names become columns, functions are checked, comparisons get SQLite's affinities and
//! collations.
//!
//! Invariant: nodes are bound in a loop, operands first. Where rows are grouped every node is bound in two forms: of a
//! row of the source and of a group. What equals a GROUP BY expression as the one is that key as the other.

use std::collections::HashMap;

use super::Binder;
use super::arena::Arena;
use super::from::{NameIndex, Scope};
use crate::error::{Error, Hint, NameKind, Result};
use crate::functions::{self, Named};
use crate::query::{
    Affinity, Aggregate, AggregateFunction, BinaryOperator, Collation, Comparison, Expression,
    ExpressionId, Function,
};
use crate::suggest::did_you_mean;
use crate::syntax::{Name, NodeId, NodeKind, Nodes, Select};
use crate::value::Value;

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
    aggregate_ids: HashMap<AggregateKey, usize>,
    /// Ids of operands, for the node that is bound.
    operands: Vec<ExpressionId>,
}

type AggregateKey = (
    AggregateFunction,
    Option<ExpressionId>,
    bool,
    Collation,
    Option<ExpressionId>,
);

impl<'a> Expressions<'a> {
    pub(super) fn new(
        binder: &'a Binder<'a>,
        select: &'a Select,
        scope: Scope<'a>,
        slots: Vec<(Slot, Option<&'a str>)>,
    ) -> Expressions<'a> {
        let (slots, aliases): (Vec<Slot>, Vec<Option<&str>>) = slots.into_iter().unzip();
        let mut expressions = Expressions {
            binder,
            nodes: &select.nodes,
            scope,
            arena: Arena::default(),
            bound: vec![None; select.nodes.len()],
            row_slots: vec![None; slots.len()],
            slots,
            aliases,
            alias_names: NameIndex::default(),
            outputs: Vec::new(),
            grouped: false,
            keys: HashMap::new(),
            aggregates: Vec::new(),
            aggregate_ids: HashMap::new(),
            operands: Vec::new(),
        };
        expressions.grouped = !select.group_by.is_empty()
            || select
                .nodes
                .ids()
                .any(|id| expressions.aggregate_of(id).is_some());
        expressions
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

    fn at(&self, id: NodeId) -> usize {
        self.nodes.node(id).at
    }

    /// The byte at which an expression begins.
    pub(super) fn start(&self, root: NodeId) -> usize {
        let below = self.nodes.below(root);
        below.map(|id| self.at(id)).min().unwrap_or(0)
    }

    fn operand(&self, id: NodeId) -> Bound {
        self.bound[id.index()].expect("operands are bound first")
    }

    /// The aggregate that a node calls, if it calls one.
    fn aggregate_of(&self, id: NodeId) -> Option<AggregateFunction> {
        let NodeKind::Call { named, filter, .. } = &self.nodes.node(id).kind else {
            return None;
        };
        let arguments = self.nodes.operands(id).len() - usize::from(filter.is_some());
        match named {
            Some(Named::Aggregate(function)) => Some(*function),
            Some(Named::Extreme(function, _)) if arguments <= 1 => Some(*function),
            _ => None,
        }
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
        if let NodeKind::Call { .. } = &node.kind {
            self.check_call(id)?;
        }
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

    fn explicit_collation(&self, operands: &[NodeId]) -> Option<Rule> {
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
        if let Some(table) = table {
            self.binder.check_table(&self.scope, table)?;
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
        let known = self.aliases.iter().filter(|_| aliases).flatten().copied();
        Err(self.binder.no_column(&self.scope, name, known))
    }

    fn value(&mut self, value: Value) -> ExpressionId {
        self.arena.add(Expression::Value(value))
    }

    /// The expression of a node whose operands are in `self.operands`.
    fn make(&mut self, id: NodeId) -> ExpressionId {
        let ids = std::mem::take(&mut self.operands);
        let made = self.make_of(id, &ids);
        self.operands = ids;
        made
    }

    fn make_of(&mut self, id: NodeId, ids: &[ExpressionId]) -> ExpressionId {
        let nodes = self.nodes;
        let operands = nodes.operands(id);
        let expression = match &nodes.node(id).kind {
            NodeKind::Literal(value) => Expression::Value(value.clone()),
            NodeKind::Parameter(number) => {
                Expression::Value(self.binder.parameter(*number).clone())
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
                Some(Named::Scalar(Function::NullIf)) => {
                    return self.null_if(operands, ids);
                }
                Some(Named::Scalar(function) | Named::Extreme(_, function)) => Expression::Call {
                    function: *function,
                    arguments: ids.to_vec(),
                },
                Some(Named::Aggregate(_)) | None => {
                    unreachable!("aggregates are bound apart, unknown functions refused")
                }
            },
        };
        self.arena.add(expression)
    }

    /// `nullif(x, y)` compares without affinities, but with a collation, which a call cannot say.
    fn null_if(&mut self, operands: &[NodeId], ids: &[ExpressionId]) -> ExpressionId {
        let collation = self.collation_of(operands[0], operands[1]);
        if collation == Collation::Binary {
            return self.arena.add(Expression::Call {
                function: Function::NullIf,
                arguments: ids.to_vec(),
            });
        }
        let condition = self.arena.add(Expression::Compare {
            comparison: Comparison::Equal,
            left: ids[0],
            right: ids[1],
            collation,
        });
        let null = self.value(Value::Null);
        self.arena.add(Expression::Case {
            branches: vec![(condition, null)],
            otherwise: Some(ids[0]),
        })
    }

    /// A comparison of two operands, each a node and its expression: datatype3.html, sections 4.2 and 7.1.
    fn compare(
        &mut self,
        comparison: Comparison,
        (left_node, left): (NodeId, ExpressionId),
        (right_node, right): (NodeId, ExpressionId),
    ) -> ExpressionId {
        let left_affinity = self.operand(left_node).affinity;
        let right_affinity = self.operand(right_node).affinity;
        let is_number = |affinity| matches!(affinity, Affinity::Integer | Affinity::Real);
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

    /// The expression with an affinity applied. Values that stay as they are stay bare, so that whoever reads the plan
    /// sees `word = 'a'` as a column and a value.
    fn affine_to(&mut self, operand: ExpressionId, affinity: Affinity) -> ExpressionId {
        let affinity = match affinity {
            Affinity::None | Affinity::Blob => return operand,
            Affinity::Integer | Affinity::Real => Affinity::Integer,
            Affinity::Text => Affinity::Text,
        };
        match (self.arena.get(operand), affinity) {
            (Expression::Value(Value::Null | Value::Blob(_)), _)
            | (Expression::Value(Value::Text(_)), Affinity::Text)
            | (Expression::Value(Value::Integer(_) | Value::Real(_)), Affinity::Integer) => operand,
            (Expression::Value(Value::Integer(value)), Affinity::Text) => {
                let text = value.to_string();
                self.value(Value::Text(text))
            }
            _ => self.arena.add(Expression::Affine { operand, affinity }),
        }
    }

    fn aggregate(&mut self, id: NodeId, function: AggregateFunction, form: Form) -> Result<Bound> {
        let node = self.nodes.node(id);
        let NodeKind::Call {
            name,
            named: _,
            star,
            distinct,
            filter,
        } = &node.kind
        else {
            unreachable!("only calls are aggregates");
        };
        let operands = self.nodes.operands(id);
        let (arguments, condition) =
            operands.split_at(operands.len() - usize::from(filter.is_some()));
        let expected = if function == AggregateFunction::Count {
            "`*` or one argument"
        } else {
            "one argument"
        };
        let counts_rows = *star && function == AggregateFunction::Count;
        if !counts_rows && arguments.len() != 1 {
            let found = if *star { "`*`" } else { "" };
            return Err(self.wrong_arguments(id, name, expected, found, arguments.len()));
        }
        let operand_row = |operand: Option<&NodeId>| match operand {
            None => Ok(None),
            Some(operand) => self.operand(*operand).row.map(Some).map_err(|at| {
                let hint = Hint::new("a subquery in FROM can aggregate first");
                self.binder
                    .conflict(at, "an aggregate within an aggregate", hint)
            }),
        };
        let argument = operand_row(arguments.first())?;
        let condition = operand_row(condition.first())?;
        let collation = self.explicit_collation(operands);
        let mut group = Err(node.at);
        if form == Form::Group {
            let ordered =
                *distinct || matches!(function, AggregateFunction::Min | AggregateFunction::Max);
            let aggregate = Aggregate {
                function,
                argument,
                distinct: *distinct,
                collation: match arguments.first() {
                    Some(argument) if ordered => self.operand(*argument).collation(),
                    _ => Collation::Binary,
                },
                filter: condition,
            };
            group = Ok(self.add_aggregate(aggregate));
        }
        Ok(Bound {
            row: Err(node.at),
            group,
            affinity: Affinity::None,
            collation,
        })
    }

    fn add_aggregate(&mut self, aggregate: Aggregate) -> ExpressionId {
        let key = (
            aggregate.function,
            aggregate.argument,
            aggregate.distinct,
            aggregate.collation,
            aggregate.filter,
        );
        let next = self.aggregates.len();
        let index = *self.aggregate_ids.entry(key).or_insert(next);
        if index == next {
            self.aggregates.push(aggregate);
        }
        self.arena.add(Expression::Aggregate(index))
    }

    fn wrong_arguments(
        &self,
        id: NodeId,
        name: &str,
        expected: &'static str,
        found: &str,
        count: usize,
    ) -> Error {
        Error::WrongArguments {
            at: self.binder.source.at(self.at(id)),
            function: format!("{}()", name.to_ascii_lowercase()),
            expected,
            found: match count {
                _ if !found.is_empty() => found.to_owned(),
                0 => "none".to_owned(),
                count => count.to_string(),
            },
            hint: Hint::NONE,
        }
    }

    /// Checks a call of a function that is no aggregate.
    fn check_call(&self, id: NodeId) -> Result<()> {
        let node = self.nodes.node(id);
        let NodeKind::Call {
            name,
            named,
            star,
            distinct,
            filter,
        } = &node.kind
        else {
            return Ok(());
        };
        let Some(named) = named else {
            return Err(self.no_function(node.at, name));
        };
        let operands = self.nodes.operands(id);
        let found = operands.len() - usize::from(filter.is_some());
        let (least, most, expected) = match named {
            Named::Scalar(function) | Named::Extreme(_, function) => {
                functions::arguments(*function)
            }
            Named::Matcher(crate::query::Matcher::Like) => {
                (2, 3, "a pattern, a text and perhaps an escape character")
            }
            Named::Matcher(_) => (2, 2, "a pattern and a text"),
            Named::Aggregate(_) => return Ok(()),
        };
        if *star {
            return Err(self.wrong_arguments(id, name, expected, "`*`", 0));
        }
        if !(least..=most).contains(&found) {
            return Err(self.wrong_arguments(id, name, expected, "", found));
        }
        let lower = name.to_ascii_lowercase();
        if *distinct || filter.is_some() {
            let word = if *distinct { "DISTINCT" } else { "FILTER" };
            let at = filter.unwrap_or(node.at);
            let message = format!("{lower}() is no aggregate and cannot have {word}");
            return Err(self.binder.conflict(at, message, Hint::NONE));
        }
        let is_extreme = matches!(named, Named::Extreme(..));
        let rule = operands
            .iter()
            .find_map(|operand| self.operand(*operand).collation);
        if is_extreme && rule.is_some_and(|rule| rule.collation != Collation::Binary) {
            let what = format!("COLLATE in {lower}() of several arguments");
            let hint = Hint::new("compare with CASE");
            return Err(self.binder.not_supported(node.at, what, hint));
        }
        Ok(())
    }

    fn no_function(&self, at: usize, name: &str) -> Error {
        let lower = name.to_ascii_lowercase();
        let foreign = functions::FOREIGN.iter().find(|(known, _)| *known == lower);
        if let Some((_, instead)) = foreign {
            let hint = if instead.is_empty() {
                Hint::NONE
            } else {
                Hint::new(*instead)
            };
            return self.binder.not_supported(at, format!("`{lower}()`"), hint);
        }
        let hint = if functions::TABLE.contains(&lower.as_str()) {
            Hint::new("table functions stand behind FROM")
        } else {
            let names: Vec<&str> = functions::names().collect();
            did_you_mean(&lower, &names, "functions are")
        };
        self.binder.no_such(at, NameKind::Function, name, hint)
    }
}
