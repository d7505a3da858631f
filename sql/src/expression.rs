//! The parser of expressions: SQLite's operators with SQLite's precedence.
//!
//! Invariant: it reads every token once, and operands become nodes before what they are operands of. Operators wait on a
//! stack of their own for their right operands. Only what nests recurses, and that is counted and held to a limit.
//! Names of columns are not looked up here.

use crate::cursor::{Cursor, is_one_of, is_reserved};
use crate::error::{Error, Hint, Result};
use crate::functions;
use crate::lex::TokenKind;
use crate::limits::NESTING_MAX;
use crate::query::{Affinity, BinaryOperator, Collation, Comparison, Matcher};
use crate::syntax::{Name, NodeId, NodeKind, Nodes, OperandKind};
use crate::value::Value;

/// How tightly an operator binds.
const OR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
/// `=`, `<>`, IS, IN, LIKE, BETWEEN and so on.
const EQUALITY: u8 = 4;
/// `<`, `<=`, `>`, `>=`.
const INEQUALITY: u8 = 5;
const SUM: u8 = 6;
const PRODUCT: u8 = 7;
const CONCATENATION: u8 = 8;
const COLLATE: u8 = 9;
/// Unary `-` and `+`.
const SIGN: u8 = 10;

/// Refuses what stands in more parentheses, CASEs and the like than the limit.
pub(crate) fn check_depth(cursor: &Cursor<'_>, depth: usize) -> Result<()> {
    if depth <= NESTING_MAX {
        return Ok(());
    }
    Err(Error::TooLarge {
        at: cursor.source.at(cursor.byte()),
        what: "the nesting",
        limit: NESTING_MAX as u64,
        hint: Hint::NONE,
    })
}

/// An operator that waits for its right operand.
struct Operator {
    precedence: u8,
    at: usize,
    kind: NodeKind,
    left: NodeId,
}

/// What an infix or postfix operator makes of the operand before it.
enum Infix {
    Complete(NodeId),
    Waits(Operator),
}

pub(crate) struct ExpressionParser<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    nodes: &'c mut Nodes,
    depth: usize,
}

impl<'c, 'a> ExpressionParser<'c, 'a> {
    /// A parser that stands in `depth` parentheses already.
    pub(crate) fn new(
        cursor: &'c mut Cursor<'a>,
        nodes: &'c mut Nodes,
        depth: usize,
    ) -> ExpressionParser<'c, 'a> {
        ExpressionParser {
            cursor,
            nodes,
            depth,
        }
    }

    pub(crate) fn expression(&mut self) -> Result<NodeId> {
        self.climb(OR)
    }

    /// An expression of operators that bind at least as tightly as `minimum`.
    fn climb(&mut self, minimum: u8) -> Result<NodeId> {
        let mut waiting: Vec<Operator> = Vec::new();
        let mut operand = self.prefix()?;
        loop {
            let next = self.precedence().filter(|next| *next >= minimum);
            // Operators of equal precedence belong together from the left.
            if let Some(operator) =
                waiting.pop_if(|waiting| next.is_none_or(|next| next <= waiting.precedence))
            {
                operand = self.finish(operator, operand)?;
                continue;
            }
            let Some(precedence) = next else {
                return Ok(operand);
            };
            operand = match self.infix(operand, precedence)? {
                Infix::Complete(node) => node,
                Infix::Waits(operator) => {
                    waiting.push(operator);
                    self.prefix()?
                }
            };
        }
    }

    /// An operator whose right operand is there.
    fn finish(&mut self, operator: Operator, right: NodeId) -> Result<NodeId> {
        let Operator { at, kind, left, .. } = operator;
        if let NodeKind::Match { matcher, .. } = kind
            && self.cursor.peek_word("ESCAPE")
        {
            if matcher != Matcher::Like {
                let hint = Hint::new("only LIKE has ESCAPE");
                return Err(self.cursor.unexpected("an operator", hint));
            }
            self.cursor.advance();
            let escape = self.nested(INEQUALITY)?;
            return Ok(self.nodes.add(at, kind, &[left, right, escape]));
        }
        if let Some(test) = self.test(&kind, right) {
            self.nodes.remove_newest();
            return Ok(self.nodes.add(at, test, &[left]));
        }
        Ok(self.nodes.add(at, kind, &[left, right]))
    }

    /// What stands one level deeper: behind a prefix operator, in parentheses, in CASE.
    fn nested(&mut self, minimum: u8) -> Result<NodeId> {
        check_depth(self.cursor, self.depth + 1)?;
        self.depth += 1;
        let inner = self.climb(minimum);
        self.depth -= 1;
        inner
    }

    /// How tightly the next token binds, if it is an operator behind an operand.
    fn precedence(&self) -> Option<u8> {
        if let Some(symbol) = self.cursor.symbol_at(0) {
            return Some(match symbol {
                "=" | "==" | "<>" | "!=" => EQUALITY,
                "<" | "<=" | ">" | ">=" => INEQUALITY,
                "+" | "-" => SUM,
                "*" | "/" | "%" => PRODUCT,
                "||" => CONCATENATION,
                // Refused wherever they stand.
                "&" | "|" | "<<" | ">>" | "::" | "~" => SIGN,
                _ => return None,
            });
        }
        let word = self.cursor.word_at(0)?;
        let is = |keyword: &str| word.eq_ignore_ascii_case(keyword);
        if is("OR") {
            Some(OR)
        } else if is("AND") {
            Some(AND)
        } else if is("COLLATE") {
            Some(COLLATE)
        } else if is("NOT") {
            let follows = self.cursor.word_at(1)?;
            let negatable = ["IN", "BETWEEN", "LIKE", "GLOB", "REGEXP", "NULL"];
            let negatable = negatable
                .iter()
                .any(|known| known.eq_ignore_ascii_case(follows));
            (negatable || foreign_operator(follows)).then_some(EQUALITY)
        } else if [
            "IS", "IN", "BETWEEN", "LIKE", "GLOB", "REGEXP", "ISNULL", "NOTNULL", "MATCH",
        ]
        .iter()
        .any(|known| is(known))
        {
            Some(EQUALITY)
        } else {
            // These could be aliases. They are not if an operand follows.
            let operand_follows = self
                .cursor
                .word_at(1)
                .is_some_and(|next| !is_reserved(next) || next.eq_ignore_ascii_case("TO"))
                || matches!(
                    self.cursor.after_next(),
                    Some(TokenKind::Text(_) | TokenKind::Number | TokenKind::Parameter(_))
                );
            (foreign_operator(word) && operand_follows).then_some(SIGN)
        }
    }

    fn infix(&mut self, left: NodeId, precedence: u8) -> Result<Infix> {
        let at = self.cursor.byte();
        if let Some(symbol) = self.cursor.symbol_at(0) {
            let kind = match symbol {
                "=" | "==" => NodeKind::Compare(Comparison::Equal),
                "<>" | "!=" => NodeKind::Compare(Comparison::NotEqual),
                "<" => NodeKind::Compare(Comparison::Less),
                "<=" => NodeKind::Compare(Comparison::LessOrEqual),
                ">" => NodeKind::Compare(Comparison::Greater),
                ">=" => NodeKind::Compare(Comparison::GreaterOrEqual),
                "+" => NodeKind::Binary(BinaryOperator::Add),
                "-" => NodeKind::Binary(BinaryOperator::Subtract),
                "*" => NodeKind::Binary(BinaryOperator::Multiply),
                "/" => NodeKind::Binary(BinaryOperator::Divide),
                "%" => NodeKind::Binary(BinaryOperator::Remainder),
                "||" => NodeKind::Binary(BinaryOperator::Concatenate),
                "::" => return Err(self.cursor.refuse("`::`", "write `CAST(x AS TEXT)`")),
                _ => return Err(self.cursor.refuse(format!("`{symbol}`"), "")),
            };
            self.cursor.advance();
            return self.binary(at, kind, left, precedence);
        }
        if self.cursor.take_word("OR") {
            return self.binary(at, NodeKind::Binary(BinaryOperator::Or), left, precedence);
        }
        if self.cursor.take_word("AND") {
            return self.binary(at, NodeKind::Binary(BinaryOperator::And), left, precedence);
        }
        if self.cursor.take_word("COLLATE") {
            let collation = self.collation()?;
            return Ok(self.complete(at, NodeKind::Collate(collation), &[left]));
        }
        if self.cursor.take_word("ISNULL") {
            return Ok(self.complete(at, NodeKind::IsNull { negated: false }, &[left]));
        }
        if self.cursor.take_word("NOTNULL") {
            return Ok(self.complete(at, NodeKind::IsNull { negated: true }, &[left]));
        }
        if self.cursor.take_word("IS") {
            return self.is(at, left);
        }
        let negated = self.cursor.take_word("NOT");
        if negated && self.cursor.take_word("NULL") {
            return Ok(self.complete(at, NodeKind::IsNull { negated }, &[left]));
        }
        if self.cursor.take_word("IN") {
            return self.in_list(at, left, negated);
        }
        if self.cursor.take_word("BETWEEN") {
            let low = self.nested(EQUALITY)?;
            if !self.cursor.take_word("AND") {
                return Err(self.cursor.unexpected("`AND` of BETWEEN", Hint::NONE));
            }
            let high = self.nested(INEQUALITY)?;
            return Ok(self.complete(at, NodeKind::Between { negated }, &[left, low, high]));
        }
        for (keyword, matcher) in [
            ("LIKE", Matcher::Like),
            ("GLOB", Matcher::Glob),
            ("REGEXP", Matcher::Regexp),
        ] {
            if self.cursor.take_word(keyword) {
                let kind = NodeKind::Match { matcher, negated };
                return self.binary(at, kind, left, precedence);
            }
        }
        let word = self
            .cursor
            .word_at(0)
            .unwrap_or_default()
            .to_ascii_uppercase();
        let hint = match word.as_str() {
            "ILIKE" => "`LIKE` ignores the case of ASCII letters",
            "RLIKE" | "SIMILAR" => "`REGEXP` matches regular expressions",
            "DIV" => "`/` of integers is an integer",
            _ => "",
        };
        Err(self.cursor.refuse(format!("`{word}`"), hint))
    }

    fn binary(&mut self, at: usize, kind: NodeKind, left: NodeId, precedence: u8) -> Result<Infix> {
        for word in ["ANY", "ALL", "SOME"] {
            if self.cursor.peek_word(word) && self.cursor.symbol_at(1) == Some("(") {
                return Err(self
                    .cursor
                    .refuse(format!("`{word}`"), "write IN with a list"));
            }
        }
        Ok(Infix::Waits(Operator {
            precedence,
            at,
            kind,
            left,
        }))
    }

    fn complete(&mut self, at: usize, kind: NodeKind, operands: &[NodeId]) -> Infix {
        Infix::Complete(self.nodes.add(at, kind, operands))
    }

    fn collation(&mut self) -> Result<Collation> {
        let name = self.cursor.peek_name().map(|name| name.text);
        let collation = match name.as_deref() {
            Some(name) if name.eq_ignore_ascii_case("BINARY") => Collation::Binary,
            Some(name) if name.eq_ignore_ascii_case("NOCASE") => Collation::NoCase,
            _ => return Err(self.cursor.unexpected("`BINARY` or `NOCASE`", Hint::NONE)),
        };
        self.cursor.advance();
        Ok(collation)
    }

    fn is(&mut self, at: usize, left: NodeId) -> Result<Infix> {
        let negated = self.cursor.take_word("NOT");
        let distinct = self.cursor.peek_word("DISTINCT") && self.cursor.is_word_at(1, "FROM");
        if distinct {
            self.cursor.advance();
            self.cursor.advance();
        }
        let comparison = if negated == distinct {
            Comparison::Is
        } else {
            Comparison::IsNot
        };
        self.binary(at, NodeKind::Compare(comparison), left, EQUALITY)
    }

    /// What a comparison by IS is if its right side is just NULL, TRUE or FALSE.
    fn test(&self, kind: &NodeKind, right: NodeId) -> Option<NodeKind> {
        let negated = match kind {
            NodeKind::Compare(Comparison::Is) => false,
            NodeKind::Compare(Comparison::IsNot) => true,
            _ => return None,
        };
        let right = self.nodes.node(right);
        match right.kind {
            NodeKind::Literal(Value::Null) => Some(NodeKind::IsNull { negated }),
            // An integer that is written in letters.
            NodeKind::Literal(Value::Integer(truth))
                if self.cursor.source.text[right.at..].starts_with(char::is_alphabetic) =>
            {
                let truth = truth == 1;
                Some(NodeKind::IsTruth { truth, negated })
            }
            _ => None,
        }
    }

    fn in_list(&mut self, at: usize, left: NodeId, negated: bool) -> Result<Infix> {
        if !self.cursor.peek_symbol("(") {
            let hint = Hint::new("write the values in parentheses: IN ('a', 'b')");
            return Err(self.cursor.unexpected("`(`", hint));
        }
        self.cursor.advance();
        if self.cursor.peek_word("SELECT") {
            let hint = "run the subquery first and give its rows as a list";
            return Err(self.cursor.refuse("`IN (SELECT ...)`", hint));
        }
        let mut operands = vec![left];
        self.list(&mut operands)?;
        Ok(self.complete(at, NodeKind::In { negated }, &operands))
    }

    /// Expressions between commas, up to and with the closing parenthesis; perhaps none.
    fn list(&mut self, operands: &mut Vec<NodeId>) -> Result<()> {
        if self.cursor.take(")") {
            return Ok(());
        }
        loop {
            operands.push(self.nested(OR)?);
            if self.cursor.take(")") {
                return Ok(());
            }
            if !self.cursor.take(",") {
                return Err(self.cursor.unexpected_in_query("`,` or `)`"));
            }
        }
    }

    /// An operand: a literal, a name, a call, or something in parentheses, perhaps with operators before it.
    fn prefix(&mut self) -> Result<NodeId> {
        let at = self.cursor.byte();
        match self.cursor.symbol_at(0) {
            Some("(") => return self.parentheses(),
            Some("-" | "+") => return self.sign(at),
            Some("~") => return Err(self.cursor.refuse("`~`", "")),
            Some("*") => {
                let hint = Hint::new("`*` stands alone, or in COUNT(*)");
                return Err(self.cursor.unexpected("an expression", hint));
            }
            _ => {}
        }
        if self.cursor.take_word("NOT") {
            if self.cursor.peek_word("EXISTS") {
                return Err(self.exists());
            }
            let operand = self.nested(NOT)?;
            return Ok(self.nodes.add(at, NodeKind::Not, &[operand]));
        }
        if let Some(operand) = self.cursor.peek_operand()? {
            self.cursor.advance();
            let kind = match operand {
                OperandKind::Literal(value) => NodeKind::Literal(value),
                OperandKind::Parameter(number) => NodeKind::Parameter(number),
            };
            return Ok(self.nodes.add(at, kind, &[]));
        }
        if self.cursor.peek_word("CASE") {
            return self.case();
        }
        if self.cursor.symbol_at(1) == Some("(")
            && let Some(word) = self.cursor.word_at(0)
        {
            if word.eq_ignore_ascii_case("CAST") {
                return self.cast();
            }
            if word.eq_ignore_ascii_case("EXISTS") {
                return Err(self.exists());
            }
            let callable = ["LIKE", "GLOB", "REGEXP"];
            if !is_reserved(word)
                || callable
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(word))
            {
                return self.call(word);
            }
        }
        let Some(name) = self.cursor.peek_name() else {
            return Err(self.cursor.unexpected_in_query("an expression"));
        };
        self.cursor.advance();
        self.column(at, name)
    }

    fn exists(&self) -> Error {
        self.cursor
            .refuse("`EXISTS`", "subqueries stand only in FROM")
    }

    fn column(&mut self, at: usize, name: Name) -> Result<NodeId> {
        let (table, name) = if self.cursor.take(".") {
            (Some(name), self.cursor.name("the name of a column")?)
        } else {
            (None, name)
        };
        if self.cursor.peek_symbol(".") {
            let hint = "a column is `column` or `alias.column`";
            return Err(self.cursor.refuse("a name with more than one dot", hint));
        }
        if table.is_none() && !name.quoted {
            let typed = ["DATE", "TIME", "TIMESTAMP", "INTERVAL"];
            let is_text = matches!(
                self.cursor.peek().map(|token| &token.kind),
                Some(TokenKind::Text(_))
            );
            if is_text
                && typed
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(&name.text))
            {
                let what = format!("`{} '...'`", name.text.to_ascii_uppercase());
                return Err(self.cursor.not_supported(at, what, Hint::NONE));
            }
        }
        Ok(self.nodes.add(at, NodeKind::Column { table, name }, &[]))
    }

    fn sign(&mut self, at: usize) -> Result<NodeId> {
        let negative = self.cursor.peek_symbol("-");
        if matches!(self.cursor.after_next(), Some(TokenKind::Number)) {
            // The sign belongs to the number: the smallest integer cannot be written otherwise.
            if let OperandKind::Literal(value) = self.cursor.operand("a number")?.kind {
                return Ok(self.nodes.add(at, NodeKind::Literal(value), &[]));
            }
        }
        self.cursor.advance();
        let operand = self.nested(SIGN)?;
        let kind = if negative {
            NodeKind::Negate
        } else {
            NodeKind::Plus
        };
        Ok(self.nodes.add(at, kind, &[operand]))
    }

    fn parentheses(&mut self) -> Result<NodeId> {
        if self.cursor.is_word_at(1, "SELECT") {
            let hint = "subqueries stand only in FROM";
            return Err(self.cursor.refuse("a subquery in an expression", hint));
        }
        self.cursor.advance();
        let inner = self.nested(OR)?;
        if self.cursor.peek_symbol(",") {
            return Err(self
                .cursor
                .refuse("a list in parentheses", "lists stand only behind IN"));
        }
        if !self.cursor.take(")") {
            return Err(self.cursor.unexpected_in_query("`)`"));
        }
        Ok(inner)
    }

    fn case(&mut self) -> Result<NodeId> {
        let at = self.cursor.byte();
        self.cursor.advance();
        let mut operands = Vec::new();
        let operand = !self.cursor.peek_word("WHEN");
        if operand {
            operands.push(self.nested(OR)?);
        }
        self.cursor.expect_word("WHEN")?;
        loop {
            operands.push(self.nested(OR)?);
            self.cursor.expect_word("THEN")?;
            operands.push(self.nested(OR)?);
            if !self.cursor.take_word("WHEN") {
                break;
            }
        }
        let otherwise = self.cursor.take_word("ELSE");
        if otherwise {
            operands.push(self.nested(OR)?);
        }
        if !self.cursor.take_word("END") {
            let expected = if otherwise {
                "`END`"
            } else {
                "`WHEN`, `ELSE` or `END`"
            };
            return Err(self.cursor.unexpected_in_query(expected));
        }
        let kind = NodeKind::Case { operand, otherwise };
        Ok(self.nodes.add(at, kind, &operands))
    }

    fn cast(&mut self) -> Result<NodeId> {
        let at = self.cursor.byte();
        self.cursor.advance();
        self.cursor.advance();
        let operand = self.nested(OR)?;
        self.cursor.expect_word("AS")?;
        let affinity = self.cursor.word_at(0).and_then(affinity_of_type);
        let Some(affinity) = affinity else {
            return Err(self.cursor.unexpected(
                "a type",
                Hint::new("types are INTEGER, REAL, TEXT and BLOB"),
            ));
        };
        self.cursor.advance();
        if !self.cursor.take(")") {
            return Err(self.cursor.unexpected("`)`", Hint::NONE));
        }
        Ok(self.nodes.add(at, NodeKind::Cast(affinity), &[operand]))
    }

    fn call(&mut self, name: &str) -> Result<NodeId> {
        let at = self.cursor.byte();
        self.cursor.advance();
        self.cursor.advance();
        let star = self.cursor.peek_symbol("*") && self.cursor.symbol_at(1) == Some(")");
        let mut distinct = false;
        let mut operands = Vec::new();
        if star {
            self.cursor.advance();
            self.cursor.advance();
        } else {
            distinct = self.cursor.take_word("DISTINCT");
            if !distinct {
                self.cursor.take_word("ALL");
            }
            self.arguments(&mut operands)?;
        }
        let mut kind = NodeKind::Call {
            name: name.to_owned(),
            named: functions::find(&name.to_ascii_lowercase()),
            star,
            distinct,
            filter: None,
        };
        for word in ["WITHIN", "OVER"] {
            if self.cursor.peek_word(word)
                && (self.cursor.symbol_at(1) == Some("(") || self.cursor.word_at(1).is_some())
            {
                return Err(self.cursor.refuse(format!("`{word}`"), ""));
            }
        }
        let filter_at = self.cursor.byte();
        if self.cursor.peek_word("FILTER") && self.cursor.symbol_at(1) == Some("(") {
            self.cursor.advance();
            self.cursor.advance();
            self.cursor.expect_word("WHERE")?;
            operands.push(self.nested(OR)?);
            if !self.cursor.take(")") {
                return Err(self.cursor.unexpected_in_query("`)`"));
            }
            if let NodeKind::Call { filter, .. } = &mut kind {
                *filter = Some(filter_at);
            }
            if self.cursor.peek_word("OVER") {
                return Err(self.cursor.refuse("`OVER`", ""));
            }
        }
        Ok(self.nodes.add(at, kind, &operands))
    }

    /// Arguments of a call up to and with its closing parenthesis; FROM and FOR may stand for commas, as in
    /// `substring(x FROM 2 FOR 3)`.
    fn arguments(&mut self, operands: &mut Vec<NodeId>) -> Result<()> {
        if self.cursor.take(")") {
            return Ok(());
        }
        loop {
            if self.cursor.symbol_at(1) == Some("=>") {
                let hint = "only table functions have names for arguments";
                return Err(self.cursor.refuse("an argument with a name", hint));
            }
            if self.cursor.peek_word("SELECT") {
                return Err(self.cursor.refuse(
                    "a subquery in an expression",
                    "subqueries stand only in FROM",
                ));
            }
            operands.push(self.nested(OR)?);
            if self.cursor.take(")") {
                return Ok(());
            }
            if self.cursor.peek_word("ORDER") {
                return Err(self.cursor.refuse("`ORDER BY` in a call", ""));
            }
            let separated = self.cursor.take(",")
                || operands.len() == 1 && self.cursor.take_word("FROM")
                || operands.len() == 2 && self.cursor.take_word("FOR");
            if !separated {
                return Err(self.cursor.unexpected_in_query("`,` or `)`"));
            }
        }
    }
}

/// What a name of a type in CAST stands for.
fn affinity_of_type(name: &str) -> Option<Affinity> {
    Some(match name.to_ascii_uppercase().as_str() {
        "INTEGER" | "INT" | "BIGINT" => Affinity::Integer,
        "REAL" | "DOUBLE" | "FLOAT" => Affinity::Real,
        "TEXT" | "VARCHAR" | "STRING" => Affinity::Text,
        "BLOB" | "BYTEA" => Affinity::Blob,
        _ => return None,
    })
}

/// Operators that other databases have.
fn foreign_operator(word: &str) -> bool {
    is_one_of("AT DIV ILIKE MATCH MEMBER OVERLAPS RLIKE SIMILAR XOR", word)
}
