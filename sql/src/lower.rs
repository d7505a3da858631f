//! sqlparser's tree of a query to our flat `Select`, or a refusal of what this version does not support.
//!
//! Invariant: every field of the tree is either used or refused: the tree's types are taken apart without `..`, except
//! where a rest is refused whole. Chains are walked in a loop. Nothing here prints, clones or drops a part of the tree.

use std::ops::Range;

use sqlparser::ast;
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, SelectItem, SetExpr, TableFactor,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{Error, Hint, Result, shorten};
use crate::functions;
use crate::lex::{self, Source, byte_of, end_of};
use crate::statement::{blob, number, parameter_number};
use crate::syntax::{
    Argument, Call, ColumnName, Condition, Expression, ExpressionKind, From, Item, Name, Operand,
    OperandKind, OrderTerm, Select,
};
use crate::value::Value;

/// The bytes of each item of the SELECT list.
///
/// An item without an alias is named by its text, and sqlparser's spans do not cover all of an expression.
pub(crate) fn item_texts(source: &Source, tokens: &[TokenWithSpan]) -> Vec<Range<usize>> {
    let is_word =
        |token: &Token, keyword| matches!(token, Token::Word(word) if word.keyword == keyword);
    let mut items = Vec::new();
    let mut begin = None;
    let mut end = 0;
    let mut depth = 0usize;
    for (index, token) in tokens.iter().enumerate().skip(1) {
        if index == 1
            && (is_word(&token.token, Keyword::ALL) || is_word(&token.token, Keyword::DISTINCT))
        {
            continue;
        }
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => {
                items.push(begin.take().unwrap_or(end)..end);
                continue;
            }
            _ if depth == 0 && is_word(&token.token, Keyword::FROM) => break,
            _ => {}
        }
        begin = begin.or(byte_of(token.span));
        end = end_of(token.span).unwrap_or(end);
    }
    items.push(begin.unwrap_or(source.text.len().min(end))..end);
    items
}

/// Turns a query into a `Select`; `items` as `item_texts` gave them.
pub(crate) fn query(
    source: &Source,
    query: &ast::Query,
    items: Vec<Range<usize>>,
) -> Result<Select> {
    let lowering = Lowering { source, items };
    lowering.query(query)
}

struct Lowering<'a> {
    source: &'a Source,
    items: Vec<Range<usize>>,
}

const CONDITIONS: &str =
    "conditions are `file = '...'` and `word = '...'`, or IN with a list, joined by AND";

impl Lowering<'_> {
    fn refuse(&self, at: usize, what: impl Into<String>, hint: Hint) -> Error {
        Error::NotSupported {
            at: self.source.at(at),
            what: what.into(),
            hint,
        }
    }

    /// Refuses a clause at its keyword: the first `word` that stands outside of parentheses, else anywhere.
    fn refuse_clause(&self, word: &str, hint: Hint) -> Error {
        self.refuse(self.find(0, word), format!("`{word}`"), hint)
    }

    /// The byte of the first token from `from` on that is the first word of `text`, outside of parentheses if there is
    /// one; else `from`. Only for errors: it reads the text once more.
    fn find(&self, from: usize, text: &str) -> usize {
        let word = text.split(' ').next().unwrap_or(text);
        let Ok(lexed) = lex::lex(self.source) else {
            return from;
        };
        let mut depth = 0usize;
        let mut nested = None;
        for token in &lexed.tokens {
            let begin = byte_of(token.span).unwrap_or(0);
            let end = end_of(token.span).unwrap_or(begin);
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ => {}
            }
            if begin >= from && self.source.text[begin..end].eq_ignore_ascii_case(word) {
                if depth == 0 {
                    return begin;
                }
                nested = nested.or(Some(begin));
            }
        }
        nested.unwrap_or(from)
    }

    /// The byte of the token behind the one that `find` finds.
    fn behind(&self, from: usize, text: &str) -> usize {
        let found = self.find(from, text);
        let tokens = lex::lex(self.source)
            .map(|lexed| lexed.tokens)
            .unwrap_or_default();
        let next = tokens
            .iter()
            .filter_map(|token| byte_of(token.span))
            .find(|byte| *byte > found);
        next.unwrap_or(found)
    }

    fn query(&self, query: &ast::Query) -> Result<Select> {
        let ast::Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        if with.is_some() {
            return Err(self.refuse_clause("WITH", Hint::NONE));
        }
        let select = match body.as_ref() {
            SetExpr::Select(select) => select,
            SetExpr::SetOperation { op, .. } => {
                return Err(self.refuse_clause(&op.to_string(), Hint::NONE));
            }
            SetExpr::Query(_) => return Err(self.refuse(0, "a query in parentheses", Hint::NONE)),
            SetExpr::Values(_) => return Err(self.refuse_clause("VALUES", Hint::NONE)),
            SetExpr::Insert(_)
            | SetExpr::Update(_)
            | SetExpr::Delete(_)
            | SetExpr::Merge(_)
            | SetExpr::Table(_) => return Err(self.refuse(0, "this statement", Hint::NONE)),
        };
        if fetch.is_some() {
            return Err(self.refuse_clause("FETCH", Hint::new("`LIMIT n` keeps the first n rows")));
        }
        if !locks.is_empty() || for_clause.is_some() {
            return Err(self.refuse_clause("FOR", Hint::NONE));
        }
        if settings.is_some() || format_clause.is_some() || !pipe_operators.is_empty() {
            return Err(self.refuse(0, "a clause of this query", Hint::NONE));
        }
        let mut lowered = self.select(select)?;
        if let Some(order_by) = order_by {
            lowered.order_by = self.order_by(order_by)?;
        }
        if let Some(limit_clause) = limit_clause {
            (lowered.limit, lowered.offset) = self.limit(limit_clause)?;
        }
        Ok(lowered)
    }

    fn select(&self, select: &ast::Select) -> Result<Select> {
        let ast::Select {
            select_token,
            optimizer_hints,
            distinct,
            select_modifiers,
            top,
            top_before_distinct: _,
            projection,
            exclude,
            into,
            from,
            lateral_views,
            prewhere,
            selection,
            connect_by,
            group_by,
            cluster_by,
            distribute_by,
            sort_by,
            having,
            named_window,
            qualify,
            window_before_qualify: _,
            value_table_mode,
            flavor,
        } = select;
        let at = byte_of(select_token.0.span).unwrap_or(0);
        let refused = [
            (into.is_some(), "INTO"),
            (top.is_some(), "TOP"),
            (!lateral_views.is_empty(), "LATERAL"),
            (prewhere.is_some(), "PREWHERE"),
            (!connect_by.is_empty(), "CONNECT"),
            (!cluster_by.is_empty(), "CLUSTER"),
            (!distribute_by.is_empty(), "DISTRIBUTE"),
            (!sort_by.is_empty(), "SORT"),
            (having.is_some(), "HAVING"),
            (!named_window.is_empty(), "WINDOW"),
            (qualify.is_some(), "QUALIFY"),
            (exclude.is_some(), "EXCLUDE"),
        ];
        if let Some((_, word)) = refused.iter().find(|(present, _)| *present) {
            return Err(self.refuse_clause(word, Hint::NONE));
        }
        if matches!(
            distinct,
            Some(ast::Distinct::Distinct | ast::Distinct::On(_))
        ) {
            let hint = Hint::new("`SELECT word FROM corpus GROUP BY word` gives each word once");
            return Err(self.refuse_clause("DISTINCT", hint));
        }
        if !optimizer_hints.is_empty()
            || select_modifiers.is_some()
            || value_table_mode.is_some()
            || *flavor != ast::SelectFlavor::Standard
        {
            return Err(self.refuse(at, "this form of SELECT", Hint::NONE));
        }
        let mut items = Vec::with_capacity(projection.len());
        for (index, item) in projection.iter().enumerate() {
            items.push(self.item(index, item)?);
        }
        Ok(Select {
            at,
            items,
            from: self.from(at, from)?,
            conditions: self.conditions(selection.as_ref())?,
            group_by: self.group_by(group_by)?,
            order_by: Vec::new(),
            limit: None,
            offset: None,
        })
    }

    fn item(&self, index: usize, item: &SelectItem) -> Result<Item> {
        let range = self.items.get(index).cloned().unwrap_or(0..0);
        let text = self.source.text.get(range.clone()).unwrap_or_default();
        let star = |options: &ast::WildcardAdditionalOptions, table| {
            let ast::WildcardAdditionalOptions {
                wildcard_token: _,
                opt_ilike,
                opt_exclude,
                opt_except,
                opt_replace,
                opt_rename,
                opt_alias,
            } = options;
            if opt_ilike.is_some()
                || opt_exclude.is_some()
                || opt_except.is_some()
                || opt_replace.is_some()
                || opt_rename.is_some()
                || opt_alias.is_some()
            {
                return Err(self.refuse(range.start, "`*` with a change to it", Hint::NONE));
            }
            Ok(Item::Star {
                at: range.start,
                table,
            })
        };
        match item {
            SelectItem::UnnamedExpr(expr) => Ok(Item::Expression {
                expression: self.expression(expr, range.start)?,
                alias: None,
                text: text.to_owned(),
            }),
            SelectItem::ExprWithAlias { expr, alias } => Ok(Item::Expression {
                expression: self.expression(expr, range.start)?,
                alias: Some(name(alias, range.start)),
                text: text.to_owned(),
            }),
            SelectItem::Wildcard(options) => star(options, None),
            SelectItem::QualifiedWildcard(
                ast::SelectItemQualifiedWildcardKind::ObjectName(object),
                options,
            ) => {
                let table = self.single_name(object, range.start)?;
                star(options, Some(table))
            }
            SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::Expr(_), _)
            | SelectItem::ExprWithAliases { .. } => {
                Err(self.refuse(range.start, "this item", Hint::NONE))
            }
        }
    }

    /// A name that must not have dots in it.
    fn single_name(&self, object: &ast::ObjectName, fallback: usize) -> Result<Name> {
        match object.0.as_slice() {
            [ast::ObjectNamePart::Identifier(ident)] => Ok(name(ident, fallback)),
            [ast::ObjectNamePart::Identifier(ident), ..] => {
                let at = byte_of(ident.span).unwrap_or(fallback);
                Err(self.refuse(
                    at,
                    "a name with a dot",
                    Hint::new("names that contain a dot need double quotes"),
                ))
            }
            _ => Err(self.refuse(fallback, "this name", Hint::NONE)),
        }
    }

    fn from(&self, select_at: usize, from: &[ast::TableWithJoins]) -> Result<From> {
        let (first, rest) = from
            .split_first()
            .ok_or_else(|| self.refuse(select_at, "SELECT without FROM", Hint::NONE))?;
        let ast::TableWithJoins { relation, joins } = first;
        if !joins.is_empty() {
            return Err(self.refuse_clause(
                "JOIN",
                Hint::new("query one corpus or table function at a time"),
            ));
        }
        if !rest.is_empty() {
            let at = self.find(self.find(0, "FROM"), ",");
            let hint = Hint::new("query one corpus or table function at a time");
            return Err(self.refuse(at, "more than one source in FROM", hint));
        }
        let from_at = || self.find(select_at, "FROM");
        let (object, alias, args) = match relation {
            TableFactor::Table {
                name,
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
                    return Err(self.refuse(from_at(), "this form of FROM", Hint::NONE));
                }
                (name, alias, args)
            }
            TableFactor::Derived { .. } => {
                return Err(self.refuse(from_at(), "a subquery in FROM", Hint::NONE));
            }
            _ => return Err(self.refuse(from_at(), "this form of FROM", Hint::NONE)),
        };
        let name = self.single_name(object, select_at)?;
        let is_text = |part: &ast::ObjectNamePart| {
            part.as_ident()
                .is_some_and(|ident| ident.quote_style == Some('\''))
        };
        if object.0.iter().any(is_text) {
            let written = shorten(&name.text);
            return Err(Error::Syntax {
                at: self.source.at(self.behind(select_at, "FROM")),
                expected: "the name of a corpus or a table function".to_owned(),
                found: format!("'{written}'"),
                hint: Hint::new(format!(
                    "names are written bare or in double quotes: \"{written}\""
                )),
            });
        }
        let alias = match alias {
            Some(ast::TableAlias {
                explicit: _,
                name: alias,
                columns,
                at,
            }) => {
                if !columns.is_empty() || at.is_some() {
                    return Err(self.refuse(name.at, "an alias with columns", Hint::NONE));
                }
                Some(self::name(alias, name.at))
            }
            None => None,
        };
        let arguments = match args {
            Some(ast::TableFunctionArgs { args, settings }) => {
                if settings.is_some() {
                    return Err(self.refuse(name.at, "SETTINGS", Hint::NONE));
                }
                // Other functions are refused for their name, whatever their arguments.
                let known = functions::TABLE
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(&name.text));
                let args: &[FunctionArg] = if known { args } else { &[] };
                Some(self.arguments(args, name.at)?)
            }
            None => None,
        };
        Ok(From {
            name,
            arguments,
            alias,
        })
    }

    /// Splits a chain of ANDs, without recursion since chains may be long.
    fn conditions(&self, selection: Option<&Expr>) -> Result<Vec<Condition>> {
        let mut conditions = Vec::new();
        let mut pending: Vec<&Expr> = selection.into_iter().collect();
        while let Some(expr) = pending.pop() {
            match expr {
                Expr::Nested(inner) => pending.push(inner),
                Expr::BinaryOp {
                    left,
                    op: ast::BinaryOperator::And,
                    right,
                } => pending.extend([right.as_ref(), left.as_ref()]),
                Expr::BinaryOp {
                    left,
                    op: ast::BinaryOperator::Eq,
                    right,
                } => conditions.push(self.equality(left, right)?),
                Expr::InList {
                    expr: left,
                    list,
                    negated: false,
                } => {
                    let fallback = start_of(left).unwrap_or(0);
                    let values = list
                        .iter()
                        .map(|value| self.operand(value, fallback))
                        .collect::<Result<Vec<Operand>>>()?;
                    conditions.push(Condition {
                        left: self.expression(left, fallback)?,
                        values,
                    });
                }
                other => return Err(self.refuse_expression(other, 0, Hint::new(CONDITIONS))),
            }
        }
        Ok(conditions)
    }

    fn equality(&self, left: &Expr, right: &Expr) -> Result<Condition> {
        let fallback = start_of(left).unwrap_or(0);
        let left = self.expression(left, fallback)?;
        let right_at = start_of(right).unwrap_or(left.at);
        let right = self.expression(right, right_at)?;
        match (left.kind, right.kind) {
            (ExpressionKind::Operand(kind), other)
                if !matches!(other, ExpressionKind::Operand(_)) =>
            {
                Ok(Condition {
                    left: Expression {
                        at: right.at,
                        kind: other,
                    },
                    values: vec![Operand { at: left.at, kind }],
                })
            }
            (kind, ExpressionKind::Operand(value)) => Ok(Condition {
                left: Expression { at: left.at, kind },
                values: vec![Operand {
                    at: right.at,
                    kind: value,
                }],
            }),
            (_, ExpressionKind::Column(ColumnName { name, .. })) if name.quoted => Err(self
                .refuse(
                    right.at,
                    "a comparison of two columns",
                    Hint::new(format!(
                        "text is written in single quotes: '{}'",
                        shorten(&name.text)
                    )),
                )),
            _ => Err(self.refuse(
                left.at,
                "a comparison of two columns",
                Hint::new(CONDITIONS),
            )),
        }
    }

    fn group_by(&self, group_by: &ast::GroupByExpr) -> Result<Vec<Expression>> {
        match group_by {
            ast::GroupByExpr::Expressions(exprs, modifiers) if modifiers.is_empty() => exprs
                .iter()
                .map(|expr| self.expression(expr, start_of(expr).unwrap_or(0)))
                .collect(),
            ast::GroupByExpr::Expressions(..) | ast::GroupByExpr::All(_) => {
                Err(self.refuse(self.find(0, "GROUP"), "this form of GROUP BY", Hint::NONE))
            }
        }
    }

    fn order_by(&self, order_by: &ast::OrderBy) -> Result<Vec<OrderTerm>> {
        let ast::OrderBy { kind, interpolate } = order_by;
        let refuse = |what: &str| self.refuse(self.find(0, "ORDER"), what, Hint::NONE);
        let exprs = match kind {
            ast::OrderByKind::Expressions(exprs) if interpolate.is_none() => exprs,
            _ => return Err(refuse("this form of ORDER BY")),
        };
        let mut terms = Vec::with_capacity(exprs.len());
        for ast::OrderByExpr {
            expr,
            options: ast::OrderByOptions { sort, nulls_first },
            with_fill,
        } in exprs
        {
            let descending = match sort {
                None | Some(ast::OrderBySort::Asc) => false,
                Some(ast::OrderBySort::Desc) => true,
                Some(ast::OrderBySort::Using(_)) => return Err(refuse("`USING` in ORDER BY")),
            };
            if nulls_first.is_some() {
                return Err(
                    self.refuse_clause("NULLS", Hint::new("NULL sorts before all other values"))
                );
            }
            if with_fill.is_some() {
                return Err(refuse("`FILL` in ORDER BY"));
            }
            let at = start_of(expr).unwrap_or_else(|| self.find(0, "ORDER"));
            terms.push(OrderTerm {
                expression: self.expression(expr, at)?,
                descending,
            });
        }
        Ok(terms)
    }

    fn limit(&self, clause: &ast::LimitClause) -> Result<(Option<Operand>, Option<Operand>)> {
        match clause {
            ast::LimitClause::LimitOffset {
                limit,
                offset,
                limit_by,
            } => {
                if !limit_by.is_empty() {
                    return Err(self.refuse_clause("BY", Hint::NONE));
                }
                let operand = |expr: &Expr| self.operand(expr, start_of(expr).unwrap_or(0));
                let offset = match offset {
                    Some(ast::Offset { value, rows: _ }) => Some(operand(value)?),
                    None => None,
                };
                Ok((limit.as_ref().map(operand).transpose()?, offset))
            }
            ast::LimitClause::OffsetCommaLimit { .. } => {
                let hint = Hint::new("`LIMIT a, b` is written `LIMIT b OFFSET a`");
                Err(self.refuse(self.find(0, "LIMIT"), "LIMIT with a comma", hint))
            }
        }
    }

    /// `at` is where the expression begins, if it is not clear from itself.
    fn expression(&self, expr: &Expr, at: usize) -> Result<Expression> {
        let expr = unnested(expr);
        let start = start_of(expr).unwrap_or(at);
        if let Some(column) = self.column(expr, start)? {
            return Ok(Expression {
                at: start,
                kind: ExpressionKind::Column(column),
            });
        }
        if let Some(operand) = self.literal(expr, start)? {
            return Ok(Expression {
                at: start,
                kind: ExpressionKind::Operand(operand),
            });
        }
        match expr {
            Expr::Function(function) => Ok(Expression {
                at: start,
                kind: ExpressionKind::Call(self.call(function, start)?),
            }),
            Expr::Substring {
                expr: content,
                substring_from,
                substring_for,
                special: _,
                shorthand: _,
            } => {
                let parts = [
                    Some(content),
                    substring_from.as_ref(),
                    substring_for.as_ref(),
                ];
                let arguments = parts
                    .into_iter()
                    .flatten()
                    .map(|part| self.argument(part, start))
                    .collect::<Result<Vec<Argument>>>()?;
                Ok(Expression {
                    at,
                    kind: ExpressionKind::Call(Call {
                        function: "substr".to_owned(),
                        arguments,
                    }),
                })
            }
            other => Err(self.refuse_expression(other, at, Hint::NONE)),
        }
    }

    fn column(&self, expr: &Expr, at: usize) -> Result<Option<ColumnName>> {
        match expr {
            Expr::Identifier(ident) => Ok(Some(ColumnName {
                table: None,
                name: name(ident, at),
            })),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, column] => Ok(Some(ColumnName {
                    table: Some(name(table, at)),
                    name: name(column, at),
                })),
                _ => Err(self.refuse(at, "a name with more than one dot", Hint::NONE)),
            },
            _ => Ok(None),
        }
    }

    fn literal(&self, expr: &Expr, at: usize) -> Result<Option<OperandKind>> {
        let value = match expr {
            Expr::Value(value) => &value.value,
            Expr::UnaryOp {
                op: op @ (ast::UnaryOperator::Minus | ast::UnaryOperator::Plus),
                expr,
            } => {
                let Expr::Value(value) = expr.as_ref() else {
                    return Ok(None);
                };
                let ast::Value::Number(digits, _) = &value.value else {
                    return Ok(None);
                };
                let negative = *op == ast::UnaryOperator::Minus;
                return Ok(Some(OperandKind::Literal(number(
                    self.source,
                    at,
                    digits,
                    negative,
                )?)));
            }
            _ => return Ok(None),
        };
        Ok(Some(match value {
            ast::Value::Placeholder(placeholder) => {
                OperandKind::Parameter(parameter_number(placeholder))
            }
            ast::Value::Null => OperandKind::Literal(Value::Null),
            ast::Value::Boolean(truth) => OperandKind::Literal(Value::Integer(i64::from(*truth))),
            ast::Value::SingleQuotedString(text) => OperandKind::Literal(Value::Text(text.clone())),
            ast::Value::HexStringLiteral(digits) => OperandKind::Literal(Value::Blob(blob(digits))),
            ast::Value::Number(digits, _) => {
                OperandKind::Literal(number(self.source, at, digits, false)?)
            }
            _ => return Ok(None),
        }))
    }

    fn operand(&self, expr: &Expr, fallback: usize) -> Result<Operand> {
        let expr = unnested(expr);
        let at = start_of(expr).unwrap_or(fallback);
        if let Some(kind) = self.literal(expr, at)? {
            return Ok(Operand { at, kind });
        }
        let hint = match expr {
            Expr::Identifier(ident) if ident.quote_style == Some('"') => {
                Hint::new("text is written in single quotes, names in double quotes")
            }
            _ => Hint::NONE,
        };
        Err(self.refuse(at, "anything but a literal or a parameter here", hint))
    }

    fn call(&self, function: &ast::Function, at: usize) -> Result<Call> {
        let ast::Function {
            name: object,
            uses_odbc_syntax,
            parameters,
            args,
            within_group,
            filter,
            null_treatment,
            over,
        } = function;
        let function = self.single_name(object, at)?.text;
        let refused = [
            (over.is_some(), "OVER"),
            (filter.is_some(), "FILTER"),
            (!within_group.is_empty(), "WITHIN GROUP"),
            (null_treatment.is_some(), "NULLS"),
        ];
        if let Some((_, word)) = refused.iter().find(|(present, _)| *present) {
            return Err(self.refuse(self.find(at, word), format!("`{word}`"), Hint::NONE));
        }
        let ast::FunctionArgumentList {
            duplicate_treatment,
            args,
            clauses,
        } = match (args, parameters) {
            (FunctionArguments::List(list), FunctionArguments::None) if !uses_odbc_syntax => list,
            _ => {
                return Err(self.refuse(
                    at,
                    format!("this form of {}()", shorten(&function)),
                    Hint::NONE,
                ));
            }
        };
        if matches!(duplicate_treatment, Some(ast::DuplicateTreatment::Distinct)) {
            let hint = Hint::new(
                "`SELECT tokens FROM segments('corpus')` tells the size of the dictionaries",
            );
            let hint = if function.eq_ignore_ascii_case("count") {
                hint
            } else {
                Hint::NONE
            };
            return Err(self.refuse(
                self.find(at, "DISTINCT"),
                format!("`{}(DISTINCT ...)`", shorten(&function)),
                hint,
            ));
        }
        if !clauses.is_empty() {
            return Err(self.refuse(
                at,
                format!("a clause within {}()", shorten(&function)),
                Hint::NONE,
            ));
        }
        Ok(Call {
            function,
            arguments: self.arguments(args, at)?,
        })
    }

    fn arguments(&self, args: &[FunctionArg], fallback: usize) -> Result<Vec<Argument>> {
        args.iter()
            .map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => self.argument(expr, fallback),
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => {
                    Ok(Argument::Star { at: fallback })
                }
                FunctionArg::Unnamed(
                    FunctionArgExpr::QualifiedWildcard(_) | FunctionArgExpr::WildcardWithOptions(_),
                ) => Err(self.refuse(fallback, "this form of `*`", Hint::NONE)),
                FunctionArg::Named { .. } | FunctionArg::ExprNamed { .. } => {
                    Err(self.refuse(fallback, "an argument with a name", Hint::NONE))
                }
            })
            .collect()
    }

    fn argument(&self, expr: &Expr, fallback: usize) -> Result<Argument> {
        let expr = unnested(expr);
        let at = start_of(expr).unwrap_or(fallback);
        if let Some(column) = self.column(expr, at)? {
            return Ok(Argument::Column(column));
        }
        if let Some(kind) = self.literal(expr, at)? {
            return Ok(Argument::Operand(Operand { at, kind }));
        }
        match expr {
            Expr::Function(_) => Err(self.refuse(at, "a call within a call", Hint::NONE)),
            other => Err(self.refuse_expression(other, at, Hint::NONE)),
        }
    }

    /// The refusal of an expression that `expression` does not know, at its operator if it has one.
    fn refuse_expression(&self, expr: &Expr, fallback: usize, hint: Hint) -> Error {
        let start = start_of(expr).unwrap_or(fallback);
        let operator = |word: &str, negated: bool| {
            let written = if negated {
                format!("NOT {word}")
            } else {
                word.to_owned()
            };
            self.refuse(self.find(start, word), format!("`{written}`"), hint.clone())
        };
        match expr {
            // Operators print without their operands.
            Expr::BinaryOp { op, .. } => operator(&op.to_string(), false),
            Expr::UnaryOp { op, .. } => {
                let written = op.to_string();
                let at = self.source.text[..start]
                    .rfind(written.trim())
                    .unwrap_or(start);
                self.refuse(at, format!("`{}`", written.trim()), hint)
            }
            Expr::Like { negated, .. } => operator("LIKE", *negated),
            Expr::ILike { negated, .. } => operator("ILIKE", *negated),
            Expr::RLike {
                negated, regexp, ..
            } => operator(if *regexp { "REGEXP" } else { "RLIKE" }, *negated),
            Expr::SimilarTo { negated, .. } => operator("SIMILAR", *negated),
            Expr::Between { negated, .. } => operator("BETWEEN", *negated),
            Expr::InList { .. } => operator("IN", true),
            Expr::InSubquery { .. } => operator("IN (SELECT ...)", false),
            Expr::InUnnest { .. } => operator("IN UNNEST", false),
            Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotUnknown(_)
            | Expr::IsDistinctFrom(..)
            | Expr::IsNotDistinctFrom(..) => operator("IS", false),
            Expr::Collate { .. } => operator("COLLATE", false),
            Expr::Cast { .. } => self.refuse(start, "`CAST`", hint),
            Expr::Case { .. } => self.refuse(start, "`CASE`", hint),
            Expr::Exists { .. } => self.refuse(self.find(fallback, "EXISTS"), "`EXISTS`", hint),
            Expr::Subquery(_) => self.refuse(start, "a subquery in an expression", hint),
            Expr::Tuple(_) => self.refuse(start, "a list in parentheses", hint),
            Expr::Trim { .. } => self.refuse(fallback, "`trim()`", hint),
            Expr::Position { .. } => self.refuse(fallback, "`position()`", hint),
            Expr::Identifier(_)
            | Expr::CompoundIdentifier(_)
            | Expr::Value(_)
            | Expr::Function(_) => self.refuse(start, "a condition without a comparison", hint),
            _ => self.refuse(start, "this expression", hint),
        }
    }
}

fn name(ident: &ast::Ident, fallback: usize) -> Name {
    Name {
        text: ident.value.clone(),
        at: byte_of(ident.span).unwrap_or(fallback),
        quoted: ident.quote_style == Some('"'),
    }
}

fn unnested(mut expr: &Expr) -> &Expr {
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// The byte where an expression's first operand begins, if the tree knows it. A loop, since chains lean to the left.
fn start_of(mut expr: &Expr) -> Option<usize> {
    loop {
        expr = match expr {
            Expr::Identifier(ident) => return byte_of(ident.span),
            Expr::CompoundIdentifier(parts) => return byte_of(parts.first()?.span),
            Expr::Value(value) => return byte_of(value.span),
            Expr::Function(function) => match function.name.0.first()? {
                ast::ObjectNamePart::Identifier(ident) => return byte_of(ident.span),
                ast::ObjectNamePart::Function(_) => return None,
            },
            Expr::Case { case_token, .. } => return byte_of(case_token.0.span),
            Expr::Subquery(query) => match query.body.as_ref() {
                SetExpr::Select(select) => return byte_of(select.select_token.0.span),
                _ => return None,
            },
            Expr::Tuple(values) => values.first()?,
            Expr::BinaryOp { left, .. } => left,
            Expr::AnyOp { left, .. } | Expr::AllOp { left, .. } => left,
            Expr::IsDistinctFrom(left, _) | Expr::IsNotDistinctFrom(left, _) => left,
            Expr::Nested(expr)
            | Expr::UnaryOp { expr, .. }
            | Expr::IsNull(expr)
            | Expr::IsNotNull(expr)
            | Expr::IsTrue(expr)
            | Expr::IsNotTrue(expr)
            | Expr::IsFalse(expr)
            | Expr::IsNotFalse(expr)
            | Expr::IsUnknown(expr)
            | Expr::IsNotUnknown(expr)
            | Expr::InList { expr, .. }
            | Expr::InSubquery { expr, .. }
            | Expr::InUnnest { expr, .. }
            | Expr::Between { expr, .. }
            | Expr::Like { expr, .. }
            | Expr::ILike { expr, .. }
            | Expr::RLike { expr, .. }
            | Expr::SimilarTo { expr, .. }
            | Expr::Collate { expr, .. }
            | Expr::Cast { expr, .. } => expr,
            _ => return None,
        };
    }
}
