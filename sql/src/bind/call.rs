//! Calls: which are aggregates, whether a function takes these arguments, and the refusal of functions there are not.
//!
//! Invariant: an aggregate is applied to rows of the source, never to another aggregate; equal aggregates are one.

use super::expression::{Bound, Expressions, Form};
use crate::error::{Error, Hint, NameKind, Result};
use crate::functions::{self, Named};
use crate::query::{
    Affinity, Aggregate, AggregateFunction, Collation, Expression, ExpressionId, Matcher, Relation,
    Source,
};
use crate::suggest::did_you_mean;
use crate::syntax::{NodeId, NodeKind};

impl Expressions<'_> {
    /// The aggregate that a node calls, if it calls one.
    pub(super) fn aggregate_of(&self, id: NodeId) -> Option<AggregateFunction> {
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
        let mut argument = operand_row(arguments.first())?;
        if function == AggregateFunction::Count && !distinct {
            // To count rows the column need not be read.
            argument = argument.filter(|&argument| !self.is_never_null(argument));
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

    /// Whether an expression is a column of text, which always has a value.
    fn is_never_null(&self, expression: ExpressionId) -> bool {
        let has_values = matches!(
            self.scope.source,
            Source::Relation(
                Relation::Words { .. }
                    | Relation::Ngrams { .. }
                    | Relation::TermVectors { .. }
                    | Relation::Files { .. }
            )
        );
        has_values && matches!(self.arena.get(expression), Expression::Column(_))
    }

    fn add_aggregate(&mut self, aggregate: Aggregate) -> ExpressionId {
        let next = self.aggregates.len();
        let index = *self.aggregate_ids.entry(aggregate).or_insert(next);
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
    pub(super) fn check_call(&self, id: NodeId) -> Result<()> {
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
        if *distinct || filter.is_some() {
            let lower = name.to_ascii_lowercase();
            let word = if *distinct { "DISTINCT" } else { "FILTER" };
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
