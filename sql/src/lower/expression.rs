//! Lowers expressions of sqlparser to nodes.
//!
//! Invariant: as in `lower`. Operands become nodes before what they are operands of. Chains lean to the left, however
//! long: they are walked down and up again in loops. Only what nests recurses, no deeper than sqlparser did.

use sqlparser::ast;
use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments};

use crate::dialect::{CUSTOM_CAST, CUSTOM_COLLATE, CUSTOM_IS};
use crate::error::{Error, Hint, Result, quote, shorten};
use crate::functions;
use crate::iso;
use crate::lower::lowering::Lowering;
use crate::lower::query;
use crate::mistake;
use crate::query::{Affinity, BinaryOperator, Collation, Comparison, Function, Matcher};
use crate::syntax::{CallOrder, NodeId, NodeKind, OperandKind, OrderTerm};
use crate::translate::is_moment;
use crate::types;
use crate::value::Value;

impl Lowering<'_, '_> {
    pub(super) fn expression(&mut self, expr: &Expr) -> Result<NodeId> {
        let mut operators = Vec::new();
        let mut leftmost = expr;
        while let Some(left) = left_operand(leftmost) {
            operators.push(leftmost);
            leftmost = left;
        }
        let mut node = self.prefix(leftmost)?;
        for operator in operators.into_iter().rev() {
            node = self.infix(operator, node)?;
        }
        Ok(node)
    }

    /// An operand that stands behind an operator, a keyword or an opening parenthesis.
    fn prefix(&mut self, expr: &Expr) -> Result<NodeId> {
        match expr {
            Expr::Value(_) if is_moment(self.cursor) => self.moment(),
            Expr::Value(_) => self.value(),
            Expr::Identifier(_) => self.column(1),
            Expr::CompoundIdentifier(parts) => self.column(parts.len()),
            Expr::Nested(inner) => {
                self.cursor.expect("(")?;
                let inner = self.expression(inner)?;
                self.cursor.expect(")")?;
                Ok(inner)
            }
            Expr::UnaryOp { op, expr } => self.unary(*op, expr),
            Expr::Case {
                case_token: _,
                end_token: _,
                operand,
                conditions,
                else_result,
            } => self.case(operand.as_deref(), conditions, else_result.as_deref()),
            Expr::Cast {
                kind: ast::CastKind::Cast,
                expr,
                data_type: ast::DataType::Custom(..),
                format: None,
            } => self.cast(expr),
            Expr::Function(function) => self.call(function),
            Expr::Subquery(subquery) => {
                let at = self.cursor.byte();
                let select = self.subquery(subquery)?;
                Ok(self.nodes.add(at, NodeKind::Subquery(select), &[]))
            }
            Expr::Exists { subquery, negated } => {
                let before = self.cursor.byte();
                self.negated(*negated)?;
                let at = self.cursor.byte();
                self.cursor.expect_word("EXISTS")?;
                let select = self.subquery(subquery)?;
                let exists = self.nodes.add(at, NodeKind::Exists(select), &[]);
                Ok(if *negated {
                    self.nodes.add(before, NodeKind::Not, &[exists])
                } else {
                    exists
                })
            }
            _ => Err(mistake::explain(self.cursor, "an expression")),
        }
    }

    /// A query in parentheses, by index.
    fn subquery(&mut self, subquery: &ast::Query) -> Result<usize> {
        self.cursor.expect("(")?;
        let select = query::query(self.cursor, subquery, self.selects)?;
        self.cursor.expect(")")?;
        self.inner.push((select, false));
        Ok(select)
    }

    fn value(&mut self) -> Result<NodeId> {
        let at = self.cursor.byte();
        let kind = match self.cursor.peek_operand()? {
            Some(OperandKind::Literal(value)) => NodeKind::Literal(value),
            Some(OperandKind::Parameter(number)) => NodeKind::Parameter(number),
            None => return Err(mistake::explain(self.cursor, "an expression")),
        };
        self.cursor.advance();
        Ok(self.nodes.add(at, kind, &[]))
    }

    /// `DATE 'text'` or `TIMESTAMP 'text'`: the text as such values have it.
    fn moment(&mut self) -> Result<NodeId> {
        let at = self.cursor.byte();
        let is_date = self.cursor.take_word("DATE");
        if !is_date {
            self.cursor.expect_word("TIMESTAMP")?;
        }
        let text_at = self.cursor.byte();
        let Some(OperandKind::Literal(Value::Text(text))) = self.cursor.peek_operand()? else {
            return Err(mistake::explain(self.cursor, "a text"));
        };
        self.cursor.advance();
        let (found, what, form) = if is_date {
            let day = iso::parse_date(&text).and_then(iso::date_text);
            (day, "date", "YYYY-MM-DD")
        } else {
            let moment = iso::parse_timestamp(&text).and_then(iso::timestamp_text);
            (moment, "moment", "YYYY-MM-DD HH:MM:SS")
        };
        let text = found.ok_or_else(|| Error::Conflict {
            at: self.cursor.source.at(text_at),
            message: format!("{} is no {what}", quote(&shorten(&text))),
            hint: Hint::new(format!("a {what} is written as `{form}`")),
        })?;
        Ok(self
            .nodes
            .add(at, NodeKind::Literal(Value::Text(text)), &[]))
    }

    /// A name of `parts` parts.
    fn column(&mut self, parts: usize) -> Result<NodeId> {
        let at = self.cursor.byte();
        let mut name = self.cursor.name("the name of a column")?;
        let mut table = None;
        if parts > 1 {
            self.cursor.expect(".")?;
            table = Some(name);
            name = self.cursor.name("the name of a column")?;
        }
        if parts > 2 {
            let hint = "a column is `column` or `alias.column`";
            return Err(self.cursor.refuse("a name with more than one dot", hint));
        }
        Ok(self.nodes.add(at, NodeKind::Column { table, name }, &[]))
    }

    fn unary(&mut self, op: ast::UnaryOperator, expr: &Expr) -> Result<NodeId> {
        let at = self.cursor.byte();
        let kind = match op {
            ast::UnaryOperator::Not => {
                self.cursor.expect_word("NOT")?;
                NodeKind::Not
            }
            ast::UnaryOperator::Minus | ast::UnaryOperator::Plus => {
                let is_number = matches!(
                    expr,
                    Expr::Value(ast::ValueWithSpan {
                        value: ast::Value::Number(..),
                        span: _,
                    })
                );
                if is_number {
                    return self.signed_number(at);
                }
                let negative = op == ast::UnaryOperator::Minus;
                self.cursor.expect(if negative { "-" } else { "+" })?;
                if negative {
                    NodeKind::Negate
                } else {
                    NodeKind::Plus
                }
            }
            _ => return Err(mistake::explain(self.cursor, "an expression")),
        };
        let operand = self.expression(expr)?;
        Ok(self.nodes.add(at, kind, &[operand]))
    }

    /// The sign belongs to the number: the smallest integer cannot be written otherwise.
    fn signed_number(&mut self, at: usize) -> Result<NodeId> {
        let kind = match self.cursor.operand("a number")?.kind {
            OperandKind::Literal(value) => NodeKind::Literal(value),
            OperandKind::Parameter(number) => NodeKind::Parameter(number),
        };
        Ok(self.nodes.add(at, kind, &[]))
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        conditions: &[ast::CaseWhen],
        else_result: Option<&Expr>,
    ) -> Result<NodeId> {
        let at = self.cursor.byte();
        self.cursor.expect_word("CASE")?;
        let mut operands = Vec::with_capacity(2 * conditions.len() + 2);
        if let Some(operand) = operand {
            operands.push(self.expression(operand)?);
        }
        for ast::CaseWhen { condition, result } in conditions {
            self.cursor.expect_word("WHEN")?;
            operands.push(self.expression(condition)?);
            self.cursor.expect_word("THEN")?;
            operands.push(self.expression(result)?);
        }
        if let Some(result) = else_result {
            self.cursor.expect_word("ELSE")?;
            operands.push(self.expression(result)?);
        }
        self.cursor.expect_word("END")?;
        let kind = NodeKind::Case {
            operand: operand.is_some(),
            otherwise: else_result.is_some(),
        };
        Ok(self.nodes.add(at, kind, &operands))
    }

    fn cast(&mut self, expr: &Expr) -> Result<NodeId> {
        let at = self.cursor.byte();
        self.cursor.expect_word("CAST")?;
        self.cursor.expect("(")?;
        let operand = self.expression(expr)?;
        self.cursor.expect_word("AS")?;
        let affinity = self.type_name()?;
        if !self.cursor.take(")") {
            return Err(self.cursor.unexpected("`)`", Hint::NONE));
        }
        Ok(self.nodes.add(at, NodeKind::Cast(affinity), &[operand]))
    }

    fn type_name(&mut self) -> Result<Affinity> {
        let Some(named) = types::at(self.cursor) else {
            return Err(mistake::explain(self.cursor, mistake::TYPE));
        };
        self.cursor.seek(self.cursor.index() + named.tokens);
        Ok(named.affinity)
    }

    fn call(&mut self, function: &ast::Function) -> Result<NodeId> {
        let ast::Function {
            name: _,
            uses_odbc_syntax: false,
            parameters: FunctionArguments::None,
            args: FunctionArguments::List(list),
            filter,
            null_treatment: None,
            over: None,
            within_group,
        } = function
        else {
            return Err(self.cursor.refuse("this form of call", ""));
        };
        let ast::FunctionArgumentList {
            duplicate_treatment,
            args,
            clauses,
        } = list;
        let at = self.cursor.byte();
        let Some(name) = self.cursor.word_at(0) else {
            return Err(self.cursor.unexpected_in_query("the name of a function"));
        };
        self.cursor.advance();
        self.cursor.expect("(")?;
        let distinct = match duplicate_treatment {
            None => false,
            Some(ast::DuplicateTreatment::All) => {
                self.cursor.expect_word("ALL")?;
                false
            }
            Some(ast::DuplicateTreatment::Distinct) => {
                self.cursor.expect_word("DISTINCT")?;
                true
            }
        };
        let mut operands = Vec::with_capacity(args.len());
        let star = duplicate_treatment.is_none()
            && matches!(
                args.as_slice(),
                [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]
            );
        if star {
            self.cursor.expect("*")?;
        } else {
            self.arguments(args, &mut operands)?;
        }
        let mut order = Vec::new();
        let mut clauses = clauses.as_slice();
        if let [ast::FunctionArgumentClause::OrderBy(terms), rest @ ..] = clauses {
            for (index, term) in terms.iter().enumerate() {
                self.separator(index, "ORDER")?;
                let OrderTerm {
                    root,
                    descending,
                    nulls_first,
                } = self.order_term(term)?;
                operands.push(root);
                order.push(CallOrder {
                    descending,
                    nulls_first,
                });
            }
            clauses = rest;
        }
        if !clauses.is_empty() {
            let word = self.cursor.word_at(0).unwrap_or_default();
            let clause = match word.to_ascii_uppercase().as_str() {
                "ORDER" => "`ORDER BY` in a call".to_owned(),
                word => format!("`{word}` in a call"),
            };
            return Err(self.cursor.refuse(clause, ""));
        }
        if !self.cursor.take(")") {
            return Err(self.cursor.unexpected_in_query(mistake::LIST));
        }
        if !within_group.is_empty() {
            self.within_group(name, within_group, &mut operands)?;
        }
        let filter = match filter {
            Some(condition) => {
                let at = self.cursor.byte();
                self.cursor.expect_word("FILTER")?;
                self.cursor.expect("(")?;
                self.cursor.expect_word("WHERE")?;
                operands.push(self.expression(condition)?);
                self.cursor.expect(")")?;
                Some(at)
            }
            None => None,
        };
        let kind = NodeKind::Call {
            name: name.to_owned(),
            named: functions::find(&name.to_ascii_lowercase()),
            star,
            distinct,
            order,
            filter,
        };
        Ok(self.nodes.add(at, kind, &operands))
    }

    /// `WITHIN GROUP (ORDER BY x)` of `percentile_cont(fraction)`: `x` is its first argument.
    fn within_group(
        &mut self,
        function: &str,
        terms: &[ast::OrderByExpr],
        operands: &mut Vec<NodeId>,
    ) -> Result<()> {
        let is_percentile = function.eq_ignore_ascii_case("percentile_cont");
        let ([term], [_], true) = (terms, operands.as_slice(), is_percentile) else {
            let hint = "`percentile_cont(0.9) WITHIN GROUP (ORDER BY x)` has it";
            return Err(self.cursor.refuse("this form of `WITHIN GROUP`", hint));
        };
        self.cursor.expect_word("WITHIN")?;
        self.cursor.expect_word("GROUP")?;
        self.cursor.expect("(")?;
        self.separator(0, "ORDER")?;
        let at = *self.cursor;
        let OrderTerm {
            root, descending, ..
        } = self.order_term(term)?;
        if descending {
            let hint = "take 1 minus the fraction instead";
            return Err(at.refuse("DESC in `WITHIN GROUP`", hint));
        }
        operands.insert(0, root);
        self.cursor.expect(")")
    }

    /// Arguments of a call; FROM and FOR may stand for commas, as in `substring(x FROM 2 FOR 3)`.
    fn arguments(&mut self, args: &[FunctionArg], operands: &mut Vec<NodeId>) -> Result<()> {
        for (index, arg) in args.iter().enumerate() {
            let separated = index == 0
                || self.cursor.take(",")
                || index == 1 && self.cursor.take_word("FROM")
                || index == 2 && self.cursor.take_word("FOR");
            if !separated {
                return Err(self.cursor.unexpected_in_query(mistake::LIST));
            }
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                    operands.push(self.expression(expr)?);
                }
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => {
                    return Err(self
                        .cursor
                        .unexpected("an expression", Hint::new(mistake::LONE_STAR)));
                }
                FunctionArg::Unnamed(
                    FunctionArgExpr::QualifiedWildcard(_) | FunctionArgExpr::WildcardWithOptions(_),
                ) => return Err(self.cursor.refuse("`*` behind a name", mistake::LONE_STAR)),
                FunctionArg::Named { .. } | FunctionArg::ExprNamed { .. } => {
                    let hint = "only table functions have names for arguments";
                    return Err(self.cursor.refuse("an argument with a name", hint));
                }
            }
        }
        Ok(())
    }

    /// What stands behind a left operand: an operator and perhaps more operands.
    fn infix(&mut self, expr: &Expr, left: NodeId) -> Result<NodeId> {
        let at = self.cursor.byte();
        match expr {
            Expr::BinaryOp { left: _, op, right } => self.binary(at, left, op, right),
            Expr::IsNotNull(_) => {
                let negated = !self.cursor.take_word("ISNULL");
                if negated && !self.cursor.take_word("NOTNULL") {
                    self.cursor.expect_word("NOT")?;
                    self.cursor.expect_word("NULL")?;
                }
                Ok(self.nodes.add(at, NodeKind::IsNull { negated }, &[left]))
            }
            Expr::InList {
                expr: _,
                list,
                negated,
            } => {
                self.negated(*negated)?;
                self.cursor.expect_word("IN")?;
                self.cursor.expect("(")?;
                let mut operands = Vec::with_capacity(1 + list.len());
                operands.push(left);
                for (index, item) in list.iter().enumerate() {
                    if index > 0 {
                        self.cursor.expect(",")?;
                    }
                    operands.push(self.expression(item)?);
                }
                self.cursor.expect(")")?;
                let negated = *negated;
                Ok(self.nodes.add(at, NodeKind::In { negated }, &operands))
            }
            Expr::InSubquery {
                expr: _,
                subquery,
                negated,
            } => {
                self.negated(*negated)?;
                self.cursor.expect_word("IN")?;
                let select = self.subquery(subquery)?;
                let negated = *negated;
                let kind = NodeKind::InSubquery { select, negated };
                Ok(self.nodes.add(at, kind, &[left]))
            }
            Expr::Between {
                expr: _,
                negated,
                low,
                high,
            } => {
                self.negated(*negated)?;
                self.cursor.expect_word("BETWEEN")?;
                let low = self.expression(low)?;
                self.cursor.expect_word("AND")?;
                let high = self.expression(high)?;
                let negated = *negated;
                let kind = NodeKind::Between { negated };
                Ok(self.nodes.add(at, kind, &[left, low, high]))
            }
            Expr::Like {
                negated,
                any: false,
                expr: _,
                pattern,
                escape_char,
            } => {
                self.negated(*negated)?;
                self.cursor.expect_word("LIKE")?;
                self.refuse_quantifier()?;
                let mut operands = vec![left, self.expression(pattern)?];
                if let Some(escape) = escape_char {
                    self.cursor.expect_word("ESCAPE")?;
                    operands.push(self.expression(escape)?);
                }
                let (matcher, negated) = (Matcher::Like, *negated);
                let kind = NodeKind::Match { matcher, negated };
                Ok(self.nodes.add(at, kind, &operands))
            }
            Expr::RLike {
                negated,
                expr: _,
                pattern,
                regexp: true,
            } => {
                self.negated(*negated)?;
                let matcher = if self.cursor.take_word("GLOB") {
                    Matcher::Glob
                } else {
                    self.cursor.expect_word("REGEXP")?;
                    Matcher::Regexp
                };
                self.refuse_quantifier()?;
                let pattern = self.expression(pattern)?;
                let negated = *negated;
                let kind = NodeKind::Match { matcher, negated };
                Ok(self.nodes.add(at, kind, &[left, pattern]))
            }
            Expr::AnyOp { .. } | Expr::AllOp { .. } => {
                self.cursor.advance();
                self.refuse_quantifier()?;
                Err(mistake::explain(self.cursor, "an expression"))
            }
            _ => Err(mistake::explain(self.cursor, "the end of the statement")),
        }
    }

    fn negated(&mut self, negated: bool) -> Result<()> {
        if negated {
            self.cursor.expect_word("NOT")?;
        }
        Ok(())
    }

    fn refuse_quantifier(&self) -> Result<()> {
        for word in ["ANY", "ALL", "SOME"] {
            if self.cursor.peek_word(word) && self.cursor.symbol_at(1) == Some("(") {
                return Err(self
                    .cursor
                    .refuse(format!("`{word}`"), "write IN with a list"));
            }
        }
        Ok(())
    }

    fn binary(
        &mut self,
        at: usize,
        left: NodeId,
        op: &ast::BinaryOperator,
        right: &Expr,
    ) -> Result<NodeId> {
        let kind = match op {
            ast::BinaryOperator::Or => NodeKind::Binary(BinaryOperator::Or),
            ast::BinaryOperator::And => NodeKind::Binary(BinaryOperator::And),
            ast::BinaryOperator::Plus => NodeKind::Binary(BinaryOperator::Add),
            ast::BinaryOperator::Minus => NodeKind::Binary(BinaryOperator::Subtract),
            ast::BinaryOperator::Multiply => NodeKind::Binary(BinaryOperator::Multiply),
            ast::BinaryOperator::Divide => NodeKind::Binary(BinaryOperator::Divide),
            ast::BinaryOperator::Modulo => NodeKind::Binary(BinaryOperator::Remainder),
            ast::BinaryOperator::StringConcat => NodeKind::Binary(BinaryOperator::Concatenate),
            ast::BinaryOperator::Eq => NodeKind::Compare(Comparison::Equal),
            ast::BinaryOperator::NotEq => NodeKind::Compare(Comparison::NotEqual),
            ast::BinaryOperator::Lt => NodeKind::Compare(Comparison::Less),
            ast::BinaryOperator::LtEq => NodeKind::Compare(Comparison::LessOrEqual),
            ast::BinaryOperator::Gt => NodeKind::Compare(Comparison::Greater),
            ast::BinaryOperator::GtEq => NodeKind::Compare(Comparison::GreaterOrEqual),
            ast::BinaryOperator::Custom(name) if name == CUSTOM_COLLATE => {
                return self.collate(at, left, right);
            }
            ast::BinaryOperator::Custom(name) if name == CUSTOM_CAST => {
                self.cursor.expect("::")?;
                let affinity = self.type_name()?;
                return Ok(self.nodes.add(at, NodeKind::Cast(affinity), &[left]));
            }
            ast::BinaryOperator::Arrow => NodeKind::JsonPart(Function::JsonPart),
            ast::BinaryOperator::LongArrow => NodeKind::JsonPart(Function::JsonValue),
            ast::BinaryOperator::Custom(name) if name == CUSTOM_IS => {
                return self.is(at, left, right);
            }
            _ => return Err(mistake::explain(self.cursor, "the end of the statement")),
        };
        self.cursor.advance();
        self.refuse_quantifier()?;
        let right = self.expression(right)?;
        Ok(self.nodes.add(at, kind, &[left, right]))
    }

    fn collate(&mut self, at: usize, left: NodeId, right: &Expr) -> Result<NodeId> {
        self.cursor.expect_word("COLLATE")?;
        let name = match right {
            Expr::Identifier(_) => self.cursor.peek_name().map(|name| name.text),
            _ => None,
        };
        let collation = match name.as_deref() {
            Some(name) if name.eq_ignore_ascii_case("BINARY") => Collation::Binary,
            Some(name) if name.eq_ignore_ascii_case("NOCASE") => Collation::NoCase,
            _ => return Err(self.cursor.unexpected(mistake::COLLATION, Hint::NONE)),
        };
        self.cursor.advance();
        Ok(self.nodes.add(at, NodeKind::Collate(collation), &[left]))
    }

    /// `IS`, `IS NOT`, `IS [NOT] DISTINCT FROM`.
    fn is(&mut self, at: usize, left: NodeId, right: &Expr) -> Result<NodeId> {
        self.cursor.expect_word("IS")?;
        let negated = self.cursor.take_word("NOT");
        let distinct = self.cursor.peek_word("DISTINCT") && self.cursor.is_word_at(1, "FROM");
        if distinct {
            self.cursor.advance();
            self.cursor.advance();
        }
        self.refuse_quantifier()?;
        let negated = negated != distinct;
        let operand = self.expression(right)?;
        let test = match unnested(right) {
            Expr::Value(ast::ValueWithSpan { value, span: _ }) => match value {
                ast::Value::Null => Some(NodeKind::IsNull { negated }),
                ast::Value::Boolean(truth) => {
                    let truth = *truth;
                    Some(NodeKind::IsTruth { truth, negated })
                }
                _ => None,
            },
            _ => None,
        };
        if let Some(kind) = test {
            self.nodes.remove_newest();
            return Ok(self.nodes.add(at, kind, &[left]));
        }
        let comparison = if negated {
            Comparison::IsNot
        } else {
            Comparison::Is
        };
        let kind = NodeKind::Compare(comparison);
        Ok(self.nodes.add(at, kind, &[left, operand]))
    }
}

fn unnested(mut expr: &Expr) -> &Expr {
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// The operand to the left of an infix or postfix operator.
fn left_operand(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::BinaryOp { left, .. } | Expr::AnyOp { left, .. } | Expr::AllOp { left, .. } => {
            Some(left)
        }
        Expr::IsNotNull(expr)
        | Expr::InList { expr, .. }
        | Expr::InSubquery { expr, .. }
        | Expr::Between { expr, .. }
        | Expr::Like { expr, .. }
        | Expr::RLike { expr, .. } => Some(expr),
        _ => None,
    }
}
