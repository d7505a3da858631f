//! Calls: which are aggregates, whether a function takes these arguments, and the refusal of functions there are not.
//!
//! Invariant: an aggregate is applied to rows of the source, never to another aggregate; equal aggregates are one.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use super::arena::for_each_operand;
use super::expression::{Bound, Expressions, Form};
use crate::error::{Error, Hint, NameKind, Result};
use crate::functions::{self, Named};
use crate::query::{
    Affinity, Aggregate, AggregateFunction, Collation, Expression, ExpressionId, Function, Matcher,
    Relation, SortKey, Source,
};
use crate::search_call::SearchFunction;
use crate::suggest::did_you_mean;
use crate::syntax::{CallOrder, NodeId, NodeKind};
use crate::value::Value;

/// The column of `search()` that says where in its file a unit begins.
const POSITION: usize = 3;

/// Words that a snippet may have.
const SNIPPET_WORDS: RangeInclusive<i64> = 1..=1000;

impl Expressions<'_> {
    /// The aggregate that a node calls, if it calls one.
    pub(super) fn aggregate_of(&self, id: NodeId) -> Option<AggregateFunction> {
        let NodeKind::Call {
            named,
            order,
            filter,
            ..
        } = &self.nodes.node(id).kind
        else {
            return None;
        };
        let arguments = self.nodes.operands(id).len() - order.len() - usize::from(filter.is_some());
        match named {
            Some(Named::Aggregate(function)) => Some(*function),
            Some(Named::Extreme(function, _)) if arguments <= 1 => Some(*function),
            _ => None,
        }
    }

    pub(super) fn aggregate(
        &mut self,
        id: NodeId,
        function: AggregateFunction,
        form: Form,
    ) -> Result<Bound> {
        let node = self.nodes.node(id);
        let NodeKind::Call {
            name,
            named: _,
            star,
            distinct,
            order,
            filter,
        } = &node.kind
        else {
            unreachable!("only calls are aggregates");
        };
        let operands = self.nodes.operands(id);
        let (operands_before, condition) =
            operands.split_at(operands.len() - usize::from(filter.is_some()));
        let (arguments, terms) = operands_before.split_at(operands_before.len() - order.len());
        let (least, most, expected) = match function {
            AggregateFunction::Count => (1, 1, "`*` or one argument"),
            AggregateFunction::GroupConcat => (1, 2, "a value and perhaps a separator"),
            AggregateFunction::PercentileCont => (2, 2, "a number and a fraction"),
            _ => (1, 1, "one argument"),
        };
        let counts_rows = *star && function == AggregateFunction::Count;
        if !counts_rows && !(least..=most).contains(&arguments.len()) {
            let found = if *star { "`*`" } else { "" };
            return Err(self.wrong_arguments(id, name, expected, found, arguments.len()));
        }
        if let Some(term) = terms.first()
            && function != AggregateFunction::GroupConcat
        {
            let message = format!("ORDER BY in {}()", name.to_ascii_lowercase());
            let hint = Hint::new(
                "group_concat and string_agg have it: for others the order means nothing",
            );
            return Err(self.binder.conflict(self.start(*term), message, hint));
        }
        let operand_row = |operand: Option<&NodeId>| match operand {
            None => Ok(None),
            Some(operand) => self.operand(*operand).row.map(Some).map_err(|at| {
                let hint = Hint::new("a subquery in FROM can aggregate first");
                self.binder
                    .conflict(at, "an aggregate within an aggregate", hint)
            }),
        };
        let mut argument = operand_row(arguments.first())?;
        if function == AggregateFunction::Count && !distinct {
            // To count rows the column need not be read.
            argument = argument.filter(|&argument| !self.is_never_null(argument));
        }
        let parameter = operand_row(arguments.get(1))?;
        if let (Some(parameter), Some(operand)) = (parameter, arguments.get(1))
            && !self.is_constant(parameter)
        {
            let message = format!(
                "the second argument of {}() depends on rows",
                name.to_ascii_lowercase()
            );
            let hint =
                Hint::new("it is the same for all rows of a group: a literal or a parameter");
            return Err(self.binder.conflict(self.start(*operand), message, hint));
        }
        let mut order_by = Vec::with_capacity(order.len());
        for (
            term,
            CallOrder {
                descending,
                nulls_first,
            },
        ) in terms.iter().zip(order)
        {
            let Some(expression) = operand_row(Some(term))? else {
                continue;
            };
            if *distinct && Some(expression) != argument {
                let message = "with DISTINCT only the argument itself can be ordered by";
                return Err(self.binder.conflict(self.start(*term), message, Hint::NONE));
            }
            order_by.push(SortKey {
                expression,
                descending: *descending,
                nulls_first: nulls_first.unwrap_or(!descending),
                collation: self.operand(*term).collation(),
            });
        }
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
                parameter,
                order_by,
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

    /// Whether an expression has the same value for all rows.
    fn is_constant(&self, expression: ExpressionId) -> bool {
        let mut seen = HashSet::new();
        let mut pending = vec![expression];
        while let Some(id) = pending.pop() {
            if !seen.insert(id) {
                continue;
            }
            let mut expression = self.arena.get(id).clone();
            if let Expression::Column(_) | Expression::Key(_) | Expression::Aggregate(_) =
                expression
            {
                return false;
            }
            for_each_operand(&mut expression, |operand| pending.push(*operand));
        }
        true
    }

    /// Whether an expression is a column of text, which always has a value.
    fn is_never_null(&self, expression: ExpressionId) -> bool {
        let has_values = matches!(
            self.scope.source,
            Source::Relation(
                Relation::Words { .. }
                    | Relation::Ngrams { .. }
                    | Relation::TermVectors { .. }
                    | Relation::Files { .. }
                    | Relation::Grep { .. }
                    | Relation::Lines { .. }
            )
        );
        let own = self.scope.columns.len() - self.scope.metadata.len();
        has_values
            && matches!(self.arena.get(expression), Expression::Column(column) if *column < own)
    }

    fn add_aggregate(&mut self, aggregate: Aggregate) -> ExpressionId {
        let next = self.aggregates.len();
        let index = *self.aggregate_ids.entry(aggregate.clone()).or_insert(next);
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

    /// The function of excerpts that a node calls, if it calls one.
    pub(super) fn excerpt_of(&self, id: NodeId) -> Option<Function> {
        match &self.nodes.node(id).kind {
            NodeKind::Call {
                named: Some(Named::Scalar(function @ (Function::Highlight | Function::Snippet))),
                ..
            } => Some(*function),
            _ => None,
        }
    }

    /// A call of `highlight` or `snippet`, whose number of arguments is right. It depends on the row of `search()`, so the
    /// expression has a column of it as its first argument.
    pub(super) fn excerpt(&mut self, id: NodeId, function: Function, form: Form) -> Result<Bound> {
        let (at, operands) = (self.at(id), self.nodes.operands(id));
        let name = if function == Function::Snippet {
            "snippet"
        } else {
            "highlight"
        };
        let is_search = matches!(&self.scope.source, Source::Relation(Relation::Search(call))
            if call.function == SearchFunction::Search);
        if !is_search {
            let message = format!("{name}() shows rows of search(), and FROM has none");
            let hint = Hint::new("the same SELECT reads them: FROM search('corpus', query)");
            return Err(self.binder.conflict(at, message, hint));
        }
        let mut arguments = vec![self.arena.add(Expression::Column(0))];
        for (number, &operand) in operands.iter().enumerate() {
            let value = match &self.nodes.node(operand).kind {
                NodeKind::Literal(value) => Some(value.clone()),
                NodeKind::Parameter(number) => {
                    let known = self.binder.parameters.get(*number - 1);
                    Some(known.map_or(Value::Null, |value| (**value).clone()))
                }
                _ => None,
            };
            let is_counted = number == 3;
            let is_unknown = value == Some(Value::Null) && self.binder.parameters.is_empty();
            let is_right = match &value {
                Some(Value::Text(_)) => !is_counted,
                Some(Value::Integer(words)) => is_counted && SNIPPET_WORDS.contains(words),
                _ => false,
            };
            if !is_right && !is_unknown {
                let (last, first) = (SNIPPET_WORDS.end(), SNIPPET_WORDS.start());
                let expected = if is_counted {
                    format!("an integer from {first} to {last}")
                } else {
                    "a text".to_owned()
                };
                let message = format!(
                    "argument {} of {name}() is not {expected}, as a literal or parameter",
                    number + 1
                );
                let hint = Hint::new(
                    "as in snippet('<b>', '</b>', '...', 16) and highlight('<b>', '</b>')",
                );
                return Err(self.binder.conflict(self.start(operand), message, hint));
            }
            arguments
                .push((self.arena).add(Expression::Value(value.unwrap_or(Value::Null).into())));
        }
        // A unit is not known by its file alone, so no condition on files may decide by an excerpt.
        arguments.push(self.arena.add(Expression::Column(POSITION)));
        let row = self.arena.add(Expression::Call {
            function,
            arguments,
            collation: Collation::Binary,
        });
        let group = match self.keys.get(&row) {
            Some(key) if form == Form::Group => Ok(self.arena.add(Expression::Key(*key))),
            _ => Err(at),
        };
        Ok(Bound {
            row: Ok(row),
            group,
            affinity: Affinity::None,
            collation: None,
        })
    }

    /// Checks a call of a function that is no aggregate.
    pub(super) fn check_call(&self, id: NodeId) -> Result<()> {
        let node = self.nodes.node(id);
        let NodeKind::Call {
            name,
            named,
            star,
            distinct,
            order,
            filter,
        } = &node.kind
        else {
            return Ok(());
        };
        let Some(named) = named else {
            return Err(self.no_function(node.at, name));
        };
        let operands = self.nodes.operands(id);
        let found = operands.len() - order.len() - usize::from(filter.is_some());
        let (least, most, expected) = match named {
            Named::Scalar(function) | Named::Extreme(_, function) => {
                functions::arguments(*function)
            }
            Named::Matcher(Matcher::Like) => {
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
        if *distinct || filter.is_some() || !order.is_empty() {
            let lower = name.to_ascii_lowercase();
            let word = match (distinct, filter) {
                (true, _) => "DISTINCT",
                (false, Some(_)) => "FILTER",
                (false, None) => "ORDER BY",
            };
            let at = filter.unwrap_or(node.at);
            let message = format!("{lower}() is no aggregate and cannot have {word}");
            return Err(self.binder.conflict(at, message, Hint::NONE));
        }
        Ok(())
    }

    fn no_function(&self, at: usize, name: &str) -> Error {
        let lower = name.to_ascii_lowercase();
        let foreign = functions::FOREIGN.iter().find(|(known, _)| *known == lower);
        if let Some((_, instead)) = foreign {
            let hint = Hint::maybe(instead);
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
