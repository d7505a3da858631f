//! Our tokens as sqlparser's.
//!
//! Invariant: a span carries the index of the token among ours: column = index + 1 on line 1. `index_of` reads it back.
//! sqlparser gets what it needs to see the structure, which is not the literals: `lower` reads those, and the places,
//! from our tokens. What sqlparser has no operator for is given to it as one that it has. Linear in the tokens.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Word};

use crate::cursor::{Cursor, is_one_of, is_reserved};
use crate::dialect::{self, BOUND_LINE, CUSTOM_CAST, CUSTOM_COLLATE, CUSTOM_IS};
use crate::error::{Error, Hint, Result};
use crate::lex::TokenKind;
use crate::limits::NESTING_MAX;
use crate::types;

/// The index of the token at a location, or none for the end.
pub(crate) fn index_of(location: Location) -> Option<usize> {
    // A statement has at most TOKENS_MAX tokens, so the cast loses nothing.
    location.column.checked_sub(1).map(|index| index as usize)
}

/// The tokens from the cursor on.
pub(crate) fn tokens(cursor: &Cursor<'_>) -> Result<Vec<TokenWithSpan>> {
    let mut translation = Translation {
        cursor: *cursor,
        tokens: Vec::with_capacity(cursor.remaining()),
        parentheses: Vec::new(),
        cases: 0,
        bounds: Vec::new(),
        prefixes: 0,
    };
    while translation.cursor.peek().is_some() {
        translation.step()?;
    }
    Ok(translation.tokens)
}

/// What a parenthesis is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parenthesis {
    /// `substring(`.
    Substring,
    /// `CAST(`.
    Cast,
    Other,
}

/// Whether `DATE 'text'` or `TIMESTAMP 'text'` follows.
pub(crate) fn is_moment(cursor: &Cursor<'_>) -> bool {
    let is_named = cursor.peek_word("DATE") || cursor.peek_word("TIMESTAMP");
    is_named && matches!(cursor.after_next(), Some(TokenKind::Text(_)))
}

struct Translation<'a> {
    cursor: Cursor<'a>,
    tokens: Vec<TokenWithSpan>,
    /// What each open parenthesis is of.
    parentheses: Vec<Parenthesis>,
    /// Open CASEs.
    cases: usize,
    /// For each BETWEEN whose AND has not come, how deep it stands.
    bounds: Vec<usize>,
    /// Operators in a row that take an operand to their right.
    prefixes: usize,
}

impl Translation<'_> {
    /// Translates the next token, or several that make one.
    fn step(&mut self) -> Result<()> {
        let index = self.cursor.index();
        let Some(token) = self.cursor.peek() else {
            return Ok(());
        };
        let text = self.cursor.text_of(token);
        let type_tokens = self.type_tokens();
        let (translated, taken) = match &token.kind {
            _ if type_tokens > 0 => {
                let name = Word {
                    value: text.to_owned(),
                    quote_style: Some('"'),
                    keyword: Keyword::NoKeyword,
                };
                (Token::Word(name), type_tokens)
            }
            // One literal.
            TokenKind::Word if is_moment(&self.cursor) => {
                (Token::NationalStringLiteral(String::new()), 2)
            }
            TokenKind::Word => self.word(text),
            TokenKind::QuotedName(name) => {
                let name = Word {
                    value: name.clone(),
                    quote_style: Some('"'),
                    keyword: Keyword::NoKeyword,
                };
                (Token::Word(name), 1)
            }
            // sqlparser takes a plain text for a name in some places.
            TokenKind::Text(_) => (Token::NationalStringLiteral(String::new()), 1),
            TokenKind::Blob(_) => (Token::HexStringLiteral(String::new()), 1),
            TokenKind::Number => (Token::Number(String::new(), false), 1),
            TokenKind::Parameter(_) => (Token::Placeholder(String::new()), 1),
            TokenKind::Symbol(symbol) => (symbol_token(symbol), 1),
        };
        self.check_nesting(&translated)?;
        // As in `index_of`.
        let location = Location::new(1, index as u64 + 1);
        let mut end = location;
        if self.is_bound(&translated) {
            end.line = BOUND_LINE;
        }
        self.tokens
            .push(TokenWithSpan::new(translated, Span::new(location, end)));
        self.cursor.seek(index + taken);
        Ok(())
    }

    /// How many tokens from here on are a type, which stands behind `::` or the AS of CAST.
    fn type_tokens(&self) -> usize {
        let follows = match self.tokens.last().map(|before| &before.token) {
            Some(Token::CustomBinaryOperator(operator)) => operator == CUSTOM_CAST,
            Some(Token::Word(word)) => {
                word.keyword == Keyword::AS && self.parentheses.last() == Some(&Parenthesis::Cast)
            }
            _ => false,
        };
        let named = follows.then(|| types::at(&self.cursor)).flatten();
        named.map_or(0, |named| named.tokens)
    }

    /// Whether a token stands in the lower bound of a BETWEEN, and counts those.
    fn is_bound(&mut self, token: &Token) -> bool {
        let depth = self.parentheses.len() + self.cases;
        while self.bounds.last().is_some_and(|bound| *bound > depth) {
            self.bounds.pop();
        }
        let is_bound = self.bounds.last() == Some(&depth);
        match token {
            Token::Word(word) if word.keyword == Keyword::BETWEEN => self.bounds.push(depth),
            Token::Word(word) if word.keyword == Keyword::AND && is_bound => {
                self.bounds.pop();
            }
            _ => {}
        }
        is_bound
    }

    fn check_nesting(&mut self, token: &Token) -> Result<()> {
        match token {
            Token::LParen => {
                let function = self.cursor.previous_word();
                self.parentheses.push(match function {
                    Some(word) if is_one_of("SUBSTR SUBSTRING", word) => Parenthesis::Substring,
                    Some(word) if is_one_of("CAST", word) => Parenthesis::Cast,
                    _ => Parenthesis::Other,
                });
            }
            Token::RParen => {
                self.parentheses.pop();
            }
            Token::Word(word) if word.keyword == Keyword::CASE => self.cases += 1,
            Token::Word(word) if word.keyword == Keyword::END => {
                self.cases = self.cases.saturating_sub(1);
            }
            _ => {}
        }
        self.prefixes = match token {
            Token::Plus | Token::Minus | Token::Tilde => self.prefixes + 1,
            Token::Word(word) if word.keyword == Keyword::NOT => self.prefixes + 1,
            _ => 0,
        };
        if self.parentheses.len() + self.cases > NESTING_MAX || self.prefixes > NESTING_MAX {
            return Err(too_deep(&self.cursor));
        }
        Ok(())
    }

    /// The next token, which is a word, and of how many it is made.
    fn word(&self, text: &str) -> (Token, usize) {
        let cursor = &self.cursor;
        let keyword = |keyword: &str| {
            let word = Word {
                value: text.to_owned(),
                ..dialect::word(keyword)
            };
            (Token::Word(word), 1)
        };
        let is = |keyword: &str| text.eq_ignore_ascii_case(keyword);
        if is("IS") {
            // All its forms are one operator here, whatever its right operand: NULL and TRUE too.
            let mut taken = 1 + usize::from(cursor.is_word_at(1, "NOT"));
            if cursor.is_word_at(taken, "DISTINCT") && cursor.is_word_at(taken + 1, "FROM") {
                taken += 2;
            }
            return (Token::CustomBinaryOperator(CUSTOM_IS.to_owned()), taken);
        }
        if is("COLLATE") {
            return (Token::CustomBinaryOperator(CUSTOM_COLLATE.to_owned()), 1);
        }
        if is("GLOB") {
            return keyword("REGEXP");
        }
        if is("ISNULL") {
            return keyword("NOTNULL");
        }
        if self.parentheses.last() == Some(&Parenthesis::Substring) && (is("FROM") || is("FOR")) {
            return (Token::Comma, 1);
        }
        let before = self.tokens.last().map(|before| &before.token);
        let behind = match before {
            Some(Token::Word(before)) => before.keyword,
            _ => Keyword::NoKeyword,
        };
        if is("NULL") && behind == Keyword::REGEXP {
            // sqlparser loses a NULL that stands right there, but no other literal.
            return (Token::Number(String::new(), false), 1);
        }
        let name_follows =
            behind == Keyword::FROM || before.is_some_and(|token| *token == Token::Period);
        if name_follows && is_reserved(text) {
            // sqlparser would take any word for the name that must stand here.
            return (Token::ExclamationMark, 1);
        }
        if is("FILTER") && !(cursor.symbol_at(1) == Some("(") && cursor.is_word_at(2, "WHERE")) {
            return keyword("");
        }
        keyword(text)
    }
}

/// What nests deeper than the limit at the next token.
pub(crate) fn too_deep(cursor: &Cursor<'_>) -> Error {
    Error::TooLarge {
        at: cursor.source.at(cursor.byte()),
        what: "the nesting",
        limit: NESTING_MAX as u64,
        hint: Hint::NONE,
    }
}

fn symbol_token(symbol: &str) -> Token {
    match symbol {
        "," => Token::Comma,
        "(" => Token::LParen,
        ")" => Token::RParen,
        "." => Token::Period,
        "=" => Token::Eq,
        "==" => Token::DoubleEq,
        "=>" => Token::RArrow,
        "!=" | "<>" => Token::Neq,
        "<" => Token::Lt,
        "<=" => Token::LtEq,
        "<<" => Token::ShiftLeft,
        ">" => Token::Gt,
        ">=" => Token::GtEq,
        ">>" => Token::ShiftRight,
        "+" => Token::Plus,
        "-" => Token::Minus,
        "*" => Token::Mul,
        "/" => Token::Div,
        "%" => Token::Mod,
        "||" => Token::StringConcat,
        "|" => Token::Pipe,
        "&" => Token::Ampersand,
        "~" => Token::Tilde,
        "->" => Token::Arrow,
        "->>" => Token::LongArrow,
        "::" => Token::CustomBinaryOperator(CUSTOM_CAST.to_owned()),
        _ => Token::ExclamationMark,
    }
}
