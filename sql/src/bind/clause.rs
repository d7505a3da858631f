//! The clauses of SELECT: its list, WHERE, ORDER BY, LIMIT, and the columns and functions in them.
//!
//! Invariant: nothing here knows a relation; what columns there are comes with a `Relation`, what expressions there are
//! with a function.

use super::Binder;
use crate::error::{Error, Hint, NameKind, Result, quote, shorten};
use crate::functions;
use crate::plan::{Keys, OrderBy, Query, Rows};
use crate::suggest::{did_you_mean, nearest};
use crate::syntax::{
    Call, ColumnName, Condition, Expression, ExpressionKind, From, Item, Name, Operand,
    OperandKind, Select,
};
use crate::value::Value;

/// The columns of a relation by their names.
pub(super) struct Relation<'a, C> {
    pub(super) from: &'a From,
    pub(super) columns: Vec<(String, C)>,
}

impl<C> Relation<'_, C> {
    pub(super) fn find(&self, name: &str) -> Option<&(String, C)> {
        self.columns
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// The column's name as it was declared, which names the result's column, as in SQLite.
    fn declared_name<'n>(&'n self, name: &'n str) -> &'n str {
        self.find(name).map_or(name, |(known, _)| known)
    }
}

/// What SELECT and ORDER BY come to.
pub(super) struct Output<C> {
    pub(super) columns: Vec<C>,
    pub(super) names: Vec<String>,
    pub(super) order_by: Vec<OrderBy>,
}

impl Binder<'_> {
    pub(super) fn query<C>(
        &self,
        select: &Select,
        output: Output<C>,
        rows: impl FnOnce(Vec<C>) -> Rows,
    ) -> Result<Query> {
        let Output {
            columns,
            names,
            order_by,
        } = output;
        Ok(Query {
            rows: rows(columns),
            columns: names,
            order_by,
            limit: self.row_count(select.limit.as_ref(), "LIMIT")?,
            offset: self
                .row_count(select.offset.as_ref(), "OFFSET")?
                .unwrap_or(0),
        })
    }

    /// As in SQLite, a negative number is as if the clause were missing.
    fn row_count(&self, operand: Option<&Operand>, clause: &str) -> Result<Option<u64>> {
        let Some(operand) = operand else {
            return Ok(None);
        };
        match self.value(&operand.kind) {
            Value::Integer(count) => Ok(u64::try_from(*count).ok()),
            _ => Err(self.wrong_type(operand, clause, "INTEGER", Hint::NONE)),
        }
    }

    /// Binds SELECT and ORDER BY. `column_of` knows which expressions there are; `star` what `*` stands for.
    pub(super) fn output<C: Clone + PartialEq, R>(
        &self,
        select: &Select,
        relation: &Relation<'_, R>,
        star: Option<&[(String, C)]>,
        column_of: &dyn Fn(&Expression) -> Result<C>,
    ) -> Result<Output<C>> {
        let mut columns = Vec::new();
        let mut names = Vec::new();
        let mut aliases = Vec::new();
        for item in &select.items {
            match item {
                Item::Star { at, table } => {
                    if let Some(table) = table {
                        self.check_table(&select.from, table)?;
                    }
                    let Some(star) = star else {
                        return Err(self.not_supported(
                            *at,
                            "`*` here",
                            Hint::new(
                                "name the columns, such as `file, offset` or `word, COUNT(*)`",
                            ),
                        ));
                    };
                    for (name, column) in star {
                        columns.push(column.clone());
                        names.push(name.clone());
                        aliases.push(None);
                    }
                }
                Item::Expression {
                    expression,
                    alias,
                    text,
                } => {
                    columns.push(column_of(expression)?);
                    names.push(match (alias, &expression.kind) {
                        (Some(alias), _) => alias.text.clone(),
                        (None, ExpressionKind::Column(column)) => {
                            relation.declared_name(&column.name.text).to_owned()
                        }
                        (None, _) => text.clone(),
                    });
                    aliases.push(alias.as_ref().map(|alias| alias.text.as_str()));
                }
            }
        }
        let mut order_by = Vec::with_capacity(select.order_by.len());
        for term in &select.order_by {
            let expression = &term.expression;
            let alias_of = |name: &Name| {
                aliases.iter().position(|alias| {
                    alias.is_some_and(|alias| alias.eq_ignore_ascii_case(&name.text))
                })
            };
            let index = match &expression.kind {
                ExpressionKind::Operand(OperandKind::Literal(Value::Integer(number))) => {
                    self.ordinal(expression.at, *number, names.len(), "ORDER BY")?
                }
                ExpressionKind::Operand(_) => {
                    let hint = Hint::new("sort by a column, an alias or the number of a column");
                    return Err(self.not_supported(expression.at, "ORDER BY a constant", hint));
                }
                ExpressionKind::Column(ColumnName { table: None, name })
                    if alias_of(name).is_some() =>
                {
                    alias_of(name).unwrap_or_default()
                }
                ExpressionKind::Column(_) | ExpressionKind::Call(_) => {
                    let column = column_of(expression)?;
                    columns
                        .iter()
                        .position(|other| *other == column)
                        .unwrap_or_else(|| {
                            columns.push(column);
                            columns.len() - 1
                        })
                }
            };
            order_by.push(OrderBy {
                column: index,
                descending: term.descending,
            });
        }
        Ok(Output {
            columns,
            names,
            order_by,
        })
    }

    /// The index that a column's number in ORDER BY or GROUP BY stands for.
    pub(super) fn ordinal(
        &self,
        at: usize,
        number: i64,
        columns: usize,
        clause: &str,
    ) -> Result<usize> {
        match usize::try_from(number) {
            Ok(number) if (1..=columns).contains(&number) => Ok(number - 1),
            _ => Err(Error::OutOfRange {
                at: self.source.at(at),
                what: format!("the number of a column in {clause}"),
                bounds: format!("in 1..={columns}"),
                found: number.to_string(),
                hint: Hint::NONE,
            }),
        }
    }

    fn check_table(&self, from: &From, table: &Name) -> Result<()> {
        let known = from.alias.as_ref().unwrap_or(&from.name);
        if known.text.eq_ignore_ascii_case(&table.text) {
            return Ok(());
        }
        let hint = Hint::new(format!(
            "columns of this query belong to {}",
            quote(&known.text)
        ));
        Err(self.no_such(table.at, NameKind::Table, &table.text, hint))
    }

    pub(super) fn column<C: Clone>(
        &self,
        relation: &Relation<'_, C>,
        column: &ColumnName,
    ) -> Result<C> {
        if let Some(table) = &column.table {
            self.check_table(relation.from, table)?;
        }
        let name = &column.name;
        if let Some((_, column)) = relation.find(&name.text) {
            return Ok(column.clone());
        }
        let is_corpus = relation.from.arguments.is_none();
        if is_corpus && name.text.eq_ignore_ascii_case("position") {
            let hint = Hint::new("`offset` is the byte where the word begins");
            return Err(self.not_supported(name.at, "the column `position`", hint));
        }
        let known: Vec<&str> = relation
            .columns
            .iter()
            .map(|(known, _)| known.as_str())
            .collect();
        let hint = if let Some(nearest) = nearest(&name.text, known.iter().copied()) {
            Hint::new(format!("did you mean {}?", quote(nearest)))
        } else if name.quoted {
            Hint::new(format!(
                "text is written in single quotes: '{}'",
                shorten(&name.text)
            ))
        } else if ["content", "bytes", "words"].contains(&name.text.to_ascii_lowercase().as_str())
            && is_corpus
        {
            Hint::new(format!(
                "files have it: `FROM files('{}')`",
                shorten(&relation.from.name.text)
            ))
        } else {
            did_you_mean(&name.text, &known, "columns are")
        };
        Err(self.no_such(name.at, NameKind::Column, &name.text, hint))
    }

    /// An expression that must be a column.
    pub(super) fn plain_column<C: Clone>(
        &self,
        relation: &Relation<'_, C>,
        expression: &Expression,
    ) -> Result<C> {
        match &expression.kind {
            ExpressionKind::Column(column) => self.column(relation, column),
            ExpressionKind::Operand(_) => {
                Err(self.not_supported(expression.at, "a constant in SELECT", Hint::NONE))
            }
            ExpressionKind::Call(call) => Err(self.unknown_function(expression.at, call)),
        }
    }

    /// The error for a function that cannot stand where it does.
    pub(super) fn unknown_function(&self, at: usize, call: &Call) -> Error {
        let function = call.function.to_ascii_lowercase();
        if is_count(call) {
            return self.conflict(at, "COUNT cannot stand here", Hint::NONE);
        }
        if is_substr(call) {
            let hint =
                Hint::new("`SELECT substr(content, 1, 100) FROM files('corpus')` reads from files");
            return self.not_supported(at, "substr() here", hint);
        }
        if functions::SCALAR_LATER.contains(&function.as_str()) {
            let hint = match function.as_str() {
                "length" | "octet_length" => Hint::new("`bytes` of files() is the size of a file"),
                _ => Hint::NONE,
            };
            return self.not_supported(at, format!("`{function}()`"), hint);
        }
        if functions::TABLE.contains(&function.as_str())
            || functions::TABLE_LATER.contains(&function.as_str())
        {
            let hint = Hint::new("table functions stand behind FROM");
            return self.no_such(at, NameKind::Function, &call.function, hint);
        }
        let hint = did_you_mean(&function, &functions::SCALAR, "functions are");
        self.no_such(at, NameKind::Function, &call.function, hint)
    }

    pub(super) fn condition_column<C: Clone>(
        &self,
        relation: &Relation<'_, C>,
        condition: &Condition,
    ) -> Result<C> {
        let at = condition.left.at;
        match &condition.left.kind {
            ExpressionKind::Column(column) => self.column(relation, column),
            ExpressionKind::Operand(_) => {
                Err(self.not_supported(at, "a condition without a column", Hint::NONE))
            }
            ExpressionKind::Call(call) if is_count(call) => {
                Err(self.conflict(at, "COUNT cannot stand in WHERE", Hint::NONE))
            }
            ExpressionKind::Call(call) => Err(self.unknown_function(at, call)),
        }
    }

    pub(super) fn no_condition(&self, condition: &Condition, column: &str, others: &str) -> Error {
        let hint = Hint::new(format!("conditions can be on {others}"));
        self.not_supported(condition.left.at, format!("a condition on {column}"), hint)
    }

    /// Narrows `keys` to what a condition allows. A comparison with NULL is never true.
    pub(super) fn restrict(
        &self,
        keys: &mut Keys,
        condition: &Condition,
        column: &str,
    ) -> Result<()> {
        let mut wanted = Vec::with_capacity(condition.values.len());
        for operand in &condition.values {
            match self.value(&operand.kind) {
                Value::Text(text) => wanted.push(text.clone()),
                Value::Null => {}
                value @ (Value::Integer(_) | Value::Real(_) | Value::Blob(_)) => {
                    let hint = match (value, &operand.kind) {
                        (Value::Integer(number), OperandKind::Literal(_)) => {
                            Hint::new(format!("write '{number}'"))
                        }
                        _ => Hint::NONE,
                    };
                    return Err(self.wrong_type(operand, column, "TEXT", hint));
                }
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        if let Keys::These(before) = keys {
            wanted.retain(|key| before.binary_search(key).is_ok());
        }
        *keys = Keys::These(wanted);
        Ok(())
    }
}

pub(super) fn is_count(call: &Call) -> bool {
    call.function.eq_ignore_ascii_case("count")
}

pub(super) fn is_substr(call: &Call) -> bool {
    call.function.eq_ignore_ascii_case("substr") || call.function.eq_ignore_ascii_case("substring")
}
