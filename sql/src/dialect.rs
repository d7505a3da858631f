//! How sqlparser is to read queries: which words are keywords, what an operand may begin with, how tightly operators bind.
//!
//! Invariant: it opts in to nothing that is not ours, and every operand is read by its first token: no reading is tried
//! that could fail and be taken back. Statements other than queries never get here.

use sqlparser::ast::{CastKind, Expr, Ident, ObjectName, UnaryOperator};
use sqlparser::dialect::{Dialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Span, Token, TokenWithSpan, Word};

use crate::cursor::{is_alias, is_callable, is_reserved};
use crate::lex;

/// Everything that sqlparser takes for a keyword. Other words are names to it, so that the syntax of other databases
/// ends a query, and is refused where it stands.
const KEYWORDS: &[Keyword] = &[
    Keyword::ALL,
    Keyword::AND,
    Keyword::AS,
    Keyword::ASC,
    Keyword::BETWEEN,
    Keyword::BY,
    Keyword::CASE,
    Keyword::CAST,
    Keyword::DESC,
    Keyword::DISTINCT,
    Keyword::ELSE,
    Keyword::END,
    Keyword::ESCAPE,
    Keyword::EXISTS,
    Keyword::FALSE,
    Keyword::FILTER,
    Keyword::FIRST,
    Keyword::FROM,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::IN,
    Keyword::LAST,
    Keyword::LIKE,
    Keyword::LIMIT,
    Keyword::NOT,
    Keyword::NOTNULL,
    Keyword::NULL,
    Keyword::NULLS,
    Keyword::OFFSET,
    Keyword::OR,
    Keyword::ORDER,
    Keyword::RECURSIVE,
    Keyword::REGEXP,
    Keyword::ROW,
    Keyword::ROWS,
    Keyword::SELECT,
    Keyword::THEN,
    Keyword::TRUE,
    Keyword::UNION,
    Keyword::WHEN,
    Keyword::WHERE,
    Keyword::WITH,
    Keyword::WITHIN,
];

/// How tightly operators bind, as in SQLite.
const OR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
/// `=`, `<>`, IS, IN, LIKE, BETWEEN and so on.
const EQUALITY: u8 = 4;
/// `=` and the others, between BETWEEN and its AND.
const BOUND_EQUALITY: u8 = 5;
/// `<`, `<=`, `>`, `>=`.
const ORDER: u8 = 6;
const SUM: u8 = 7;
const PRODUCT: u8 = 8;
const CONCATENATION: u8 = 9;
const COLLATE: u8 = 10;
/// Unary `-` and `+`.
const SIGN: u8 = 11;
/// `::`.
const CAST: u8 = 12;

/// Operators that sqlparser reads as any other database's: by name.
pub(crate) const CUSTOM_IS: &str = "IS";
pub(crate) const CUSTOM_COLLATE: &str = "COLLATE";
/// Its right operand is a type, which is given as one name.
pub(crate) const CUSTOM_CAST: &str = "::";

/// Whether the token stands between BETWEEN and its AND, and not within anything there.
fn is_in_bound(span: Span) -> bool {
    span.end.line == BOUND_LINE
}

/// Where the tokens end for which `is_in_bound` holds. The others end on line 1.
pub(crate) const BOUND_LINE: u64 = 2;

/// A word as sqlparser is to see it.
pub(crate) fn word(text: &str) -> Word {
    let keyword = match Token::make_word(text, None) {
        Token::Word(word) if KEYWORDS.contains(&word.keyword) => word.keyword,
        _ => Keyword::NoKeyword,
    };
    Word {
        value: text.to_owned(),
        quote_style: None,
        keyword,
    }
}

/// ZipfDB's dialect: SQLite's operators and literals.
#[derive(Debug)]
pub(crate) struct ZipfDialect;

impl Dialect for ZipfDialect {
    fn is_identifier_start(&self, character: char) -> bool {
        lex::is_name_start(character)
    }

    fn is_identifier_part(&self, character: char) -> bool {
        lex::is_name_part(character)
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_in_empty_list(&self) -> bool {
        true
    }

    fn supports_limit_comma(&self) -> bool {
        true
    }

    fn supports_notnull_operator(&self) -> bool {
        true
    }

    fn is_select_item_alias(&self, explicit: bool, _: &Keyword, parser: &mut Parser) -> bool {
        is_alias_token(explicit, parser.get_current_token())
    }

    fn is_table_factor_alias(&self, explicit: bool, _: &Keyword, parser: &mut Parser) -> bool {
        is_alias_token(explicit, parser.get_current_token())
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        match precedence {
            Precedence::Or => OR,
            Precedence::And => AND,
            Precedence::UnaryNot => NOT,
            Precedence::Between | Precedence::Is | Precedence::Eq => EQUALITY,
            // The strength of the right operand of LIKE.
            Precedence::Like => BOUND_EQUALITY,
            Precedence::PlusMinus => SUM,
            Precedence::MulDivModOp => PRODUCT,
            Precedence::Period
            | Precedence::DoubleColon
            | Precedence::AtTz
            | Precedence::Xor
            | Precedence::Ampersand
            | Precedence::Caret
            | Precedence::Pipe
            | Precedence::Colon
            | Precedence::PgOther => self.prec_unknown(),
        }
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        let token = parser.peek_token_ref();
        // sqlparser ends both bounds of BETWEEN at any operator that binds no tighter. In the lower one nothing else
        // could be meant than an operand, unless it has an upper bound itself.
        let (equality, between) = if is_in_bound(token.span) {
            (BOUND_EQUALITY, self.prec_unknown())
        } else {
            (EQUALITY, EQUALITY)
        };
        Some(Ok(match &token.token {
            Token::Word(word) => match word.keyword {
                Keyword::OR => OR,
                Keyword::AND => AND,
                Keyword::BETWEEN => between,
                Keyword::IN | Keyword::LIKE | Keyword::REGEXP | Keyword::NOTNULL => equality,
                Keyword::NOT => match &parser.peek_nth_token_ref(1).token {
                    Token::Word(word) => match word.keyword {
                        Keyword::BETWEEN => between,
                        Keyword::IN | Keyword::LIKE | Keyword::REGEXP | Keyword::NULL => equality,
                        _ => self.prec_unknown(),
                    },
                    _ => self.prec_unknown(),
                },
                _ => self.prec_unknown(),
            },
            Token::CustomBinaryOperator(operator) if operator == CUSTOM_COLLATE => COLLATE,
            Token::CustomBinaryOperator(operator) if operator == CUSTOM_CAST => CAST,
            Token::CustomBinaryOperator(_) | Token::Eq | Token::DoubleEq | Token::Neq => equality,
            Token::Lt | Token::LtEq | Token::Gt | Token::GtEq => ORDER,
            Token::Plus | Token::Minus => SUM,
            Token::Mul | Token::Div | Token::Mod => PRODUCT,
            Token::StringConcat | Token::Arrow | Token::LongArrow => CONCATENATION,
            _ => self.prec_unknown(),
        }))
    }

    /// Reads an operand by its first token. sqlparser's own way tries types and keywords one after the other.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let token = parser.peek_token_ref();
        Some(match &token.token {
            Token::Word(word) => {
                let name = Ident {
                    value: word.value.clone(),
                    quote_style: word.quote_style,
                    span: token.span,
                };
                let keyword = word.keyword;
                let opens = parser.peek_nth_token_ref(1).token == Token::LParen;
                parse_word(parser, keyword, name, opens)
            }
            Token::Number(..)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::Placeholder(_) => parser.parse_value().map(Expr::Value),
            Token::Plus => parse_sign(parser, UnaryOperator::Plus),
            Token::Minus => parse_sign(parser, UnaryOperator::Minus),
            Token::LParen => parse_parentheses(parser),
            _ => parser.expected_ref("an expression", token),
        })
    }
}

fn parse_word(
    parser: &mut Parser,
    keyword: Keyword,
    name: Ident,
    opens: bool,
) -> Result<Expr, ParserError> {
    if name.quote_style.is_some() {
        parser.advance_token();
        return Ok(Expr::Identifier(name));
    }
    match keyword {
        Keyword::NULL | Keyword::TRUE | Keyword::FALSE => {
            return parser.parse_value().map(Expr::Value);
        }
        Keyword::CASE => {
            parser.advance_token();
            return parser.parse_case_expr();
        }
        Keyword::NOT => {
            parser.advance_token();
            return parser.parse_not();
        }
        Keyword::EXISTS if opens => {
            parser.advance_token();
            parser.advance_token();
            let subquery = parser.parse_query()?;
            parser.expect_token(&Token::RParen)?;
            let negated = false;
            return Ok(Expr::Exists { subquery, negated });
        }
        Keyword::CAST if opens => {
            parser.advance_token();
            return parser.parse_cast_expr(CastKind::Cast);
        }
        _ => {}
    }
    if opens && is_callable(&name.value) {
        parser.advance_token();
        return parser.parse_function(ObjectName::from(vec![name]));
    }
    if is_reserved(&name.value) {
        return parser.expected_ref("an expression", parser.peek_token_ref());
    }
    parser.advance_token();
    Ok(Expr::Identifier(name))
}

fn parse_sign(parser: &mut Parser, op: UnaryOperator) -> Result<Expr, ParserError> {
    parser.advance_token();
    let expr = Box::new(parser.parse_subexpr(SIGN)?);
    Ok(Expr::UnaryOp { op, expr })
}

fn parse_parentheses(parser: &mut Parser) -> Result<Expr, ParserError> {
    parser.advance_token();
    if begins_query(&parser.peek_token_ref().token) {
        let subquery = parser.parse_query()?;
        parser.expect_token(&Token::RParen)?;
        return Ok(Expr::Subquery(subquery));
    }
    let inner = parser.parse_expr()?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Nested(Box::new(inner)))
}

/// Whether a query begins with the token.
pub(crate) fn begins_query(token: &Token) -> bool {
    matches!(token, Token::Word(word) if matches!(word.keyword, Keyword::SELECT | Keyword::WITH))
}

fn is_alias_token(explicit: bool, token: &TokenWithSpan) -> bool {
    match &token.token {
        Token::Word(word) => word.quote_style.is_some() || is_alias(explicit, &word.value),
        _ => false,
    }
}
