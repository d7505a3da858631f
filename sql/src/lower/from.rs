//! FROM: a corpus, a table function or a subquery.
//!
//! Invariant: as in `lower`. A subquery, and one that WITH has named, is a `Select` before the one that reads it.

use sqlparser::ast;
use sqlparser::ast::{FunctionArg, TableFactor};

use crate::error::{Hint, Result, shorten};
use crate::lower::{Lowering, query};
use crate::mistake::{self, ONE_SOURCE};
use crate::syntax::{Argument, From, FromKind, Name};

impl Lowering<'_, '_> {
    pub(super) fn from(&mut self, from: &[ast::TableWithJoins]) -> Result<Option<From>> {
        let Some((first, rest)) = from.split_first() else {
            return Ok(None);
        };
        let ast::TableWithJoins { relation, joins } = first;
        self.cursor.expect_word("FROM")?;
        let (kind, alias) = match relation {
            TableFactor::Table {
                name: _,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => {
                if !with_hints.is_empty()
                    || version.is_some()
                    || *with_ordinality
                    || !partitions.is_empty()
                    || json_path.is_some()
                    || sample.is_some()
                    || !index_hints.is_empty()
                {
                    return Err(self.cursor.refuse("this form of FROM", ""));
                }
                (self.relation(args.as_ref())?, alias)
            }
            TableFactor::Derived {
                lateral,
                subquery,
                alias,
                sample,
            } => {
                if *lateral || sample.is_some() {
                    return Err(self.cursor.refuse("this form of subquery", ""));
                }
                self.cursor.expect("(")?;
                let select = query::query(self.cursor, subquery, self.selects)?;
                self.cursor.expect(")")?;
                self.inner.push((select, true));
                (FromKind::Subquery(select), alias)
            }
            _ => return Err(self.cursor.refuse("this form of FROM", ONE_SOURCE)),
        };
        let named = match &kind {
            FromKind::Corpus(name) => self
                .selects
                .named(name)
                .map(|select| (name.clone(), select)),
            _ => None,
        };
        let mut kind = kind;
        let mut alias = self.table_alias(alias.as_ref())?;
        if let Some((name, select)) = named {
            kind = FromKind::Subquery(select);
            alias = alias.or(Some(name));
        }
        if !joins.is_empty() || !rest.is_empty() {
            return Err(self
                .cursor
                .refuse("more than one source in FROM", ONE_SOURCE));
        }
        Ok(Some(From { kind, alias }))
    }

    fn table_alias(&mut self, alias: Option<&ast::TableAlias>) -> Result<Option<Name>> {
        let Some(ast::TableAlias {
            explicit: _,
            name: _,
            columns,
            at,
        }) = alias
        else {
            return Ok(None);
        };
        let alias = self.alias(true)?;
        if !columns.is_empty() || at.is_some() {
            let (what, hint) = mistake::ALIAS_WITH_COLUMNS;
            return Err(self.cursor.refuse(what, hint));
        }
        Ok(alias)
    }

    /// A corpus, or a call of a table function if there are arguments.
    fn relation(&mut self, args: Option<&ast::TableFunctionArgs>) -> Result<FromKind> {
        for word in ["LATERAL", "UNNEST"] {
            if self.cursor.peek_word(word) && args.is_some() {
                return Err(self.cursor.refuse(format!("`{word}`"), ""));
            }
        }
        let expected = "the name of a corpus or a table function";
        let name = self.cursor.name(expected)?;
        if self.cursor.peek_symbol(".") {
            let hint = "a name that contains a dot needs double quotes";
            return Err(self.cursor.refuse("a name with a dot", hint));
        }
        let Some(ast::TableFunctionArgs { args, settings }) = args else {
            return Ok(FromKind::Corpus(name));
        };
        if settings.is_some() {
            return Err(self.cursor.refuse("`SETTINGS`", ""));
        }
        self.cursor.expect("(")?;
        let mut arguments = Vec::with_capacity(args.len());
        for (index, arg) in args.iter().enumerate() {
            if index > 0 && !self.cursor.take(",") {
                return Err(self.cursor.unexpected(mistake::LIST, Hint::NONE));
            }
            arguments.push(self.table_argument(&name, arg)?);
        }
        if !self.cursor.take(")") {
            return Err(self.cursor.unexpected(mistake::LIST, Hint::NONE));
        }
        Ok(FromKind::TableFunction { name, arguments })
    }

    /// `value` or `name => value`. The value can only be a literal or a parameter, which is one token with or without a
    /// sign: of any other, a token is left over.
    fn table_argument(&mut self, function: &Name, arg: &FunctionArg) -> Result<Argument> {
        let name = match arg {
            FunctionArg::Unnamed(_) => None,
            FunctionArg::Named {
                name: _,
                arg: _,
                operator: ast::FunctionArgOperator::RightArrow,
            } => {
                let name = self.cursor.argument_name()?;
                self.cursor.expect("=>")?;
                Some(name)
            }
            FunctionArg::Named { .. } | FunctionArg::ExprNamed { .. } => {
                return Err(self
                    .cursor
                    .refuse("this form of argument", "write `name => value`"));
            }
        };
        if let Some(word) = self.cursor.peek_name() {
            let hint = Hint::new(format!(
                "write `{}('{}')`",
                shorten(&function.text),
                shorten(&word.text)
            ));
            return Err(self.cursor.unexpected(mistake::VALUE, hint));
        }
        let value = self.cursor.operand(mistake::VALUE)?;
        Ok(Argument { name, value })
    }
}
