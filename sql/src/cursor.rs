//! `Cursor`: a walk over the tokens of a statement, and the errors for tokens that do not fit.
//!
//! Invariant: it never moves past the end, and every syntax error names the token that stands at its place.

use crate::error::{Error, Hint, Result, shorten};
use crate::lex::{SourceText, Token, TokenKind};
use crate::suggest;
use crate::syntax::{Name, Operand, OperandKind};
use crate::value::Value;

/// Words that cannot be names unless they are quoted, since they would be taken for something else.
const RESERVED: &str = "\
    ALL AND AS BETWEEN BY CASE COLLATE CREATE DELETE DISTINCT DROP ELSE END ESCAPE EXCEPT EXISTS FALSE FROM GLOB GROUP \
    HAVING IN INSERT INTERSECT INTO IS ISNULL JOIN LIKE LIMIT NOT NOTNULL NULL ON OR ORDER REGEXP SELECT SET TABLE \
    THEN TO TRUE UNION UPDATE USING VALUES WHEN WHERE WITH";

/// Words that cannot follow a table or an expression as its alias, unless AS stands between.
const NO_ALIAS: &str = "\
    ASC CROSS DESC EXCLUDE FETCH FILTER FOR FULL ILIKE INNER LEFT MATCH NATURAL NULLS OFFSET OVER QUALIFY RIGHT RLIKE SIMILAR \
    START TABLESAMPLE WINDOW WITHIN";

/// The words that clauses begin with.
const CLAUSES: &[&str] = &[
    "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "AND", "DESC", "SELECT",
];

pub(crate) fn is_one_of(words: &str, word: &str) -> bool {
    words
        .split(' ')
        .any(|known| known.eq_ignore_ascii_case(word))
}

pub(crate) fn is_reserved(word: &str) -> bool {
    is_one_of(RESERVED, word)
}

/// Whether a word without quotes can be an alias; `explicit` if it stands behind AS.
pub(crate) fn is_alias(explicit: bool, word: &str) -> bool {
    !is_reserved(word) && (explicit || !is_one_of(NO_ALIAS, word))
}

/// Whether a word can be the name of a function.
pub(crate) fn is_callable(word: &str) -> bool {
    !is_reserved(word) || is_one_of("LIKE GLOB REGEXP", word)
}

#[cfg(test)]
pub(crate) fn special_words() -> impl Iterator<Item = &'static str> {
    RESERVED
        .split(' ')
        .chain(NO_ALIAS.split(' '))
        .chain(CLAUSES.iter().copied())
}

#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    pub(crate) source: &'a SourceText,
    tokens: &'a [Token],
    next: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(source: &'a SourceText, tokens: &'a [Token]) -> Cursor<'a> {
        Cursor {
            source,
            tokens,
            next: 0,
        }
    }

    pub(crate) fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.next)
    }

    pub(crate) fn advance(&mut self) {
        self.next = self.tokens.len().min(self.next + 1);
    }

    /// The number of tokens before the next one.
    pub(crate) fn index(&self) -> usize {
        self.next
    }

    /// Goes to the token with this index, or to the end.
    pub(crate) fn seek(&mut self, index: usize) {
        self.next = self.tokens.len().min(index);
    }

    /// The number of tokens from the next one on.
    pub(crate) fn remaining(&self) -> usize {
        self.tokens.len() - self.next
    }

    /// The tokens from the next one up to this index.
    pub(crate) fn tokens_until(&self, end: usize) -> &'a [Token] {
        &self.tokens[self.next..end]
    }

    /// A cursor that ends before this index.
    pub(crate) fn until(&self, end: usize) -> Cursor<'a> {
        Cursor {
            tokens: &self.tokens[..end],
            ..*self
        }
    }

    /// A cursor at this index.
    pub(crate) fn at(&self, index: usize) -> Cursor<'a> {
        let mut cursor = *self;
        cursor.seek(index);
        cursor
    }

    /// A cursor `count` tokens further back; `None` before the first token.
    pub(crate) fn back(&self, count: usize) -> Option<Cursor<'a>> {
        self.next.checked_sub(count).map(|index| self.at(index))
    }

    /// The token before the next one, if it is a word without quotes.
    pub(crate) fn previous_word(&self) -> Option<&'a str> {
        self.back(1)?.word_at(0)
    }

    /// The byte of the next token, or the end of the text.
    pub(crate) fn byte(&self) -> usize {
        self.peek()
            .map_or(self.source.text.trim_end().len(), |token| token.begin)
    }

    /// The byte just behind the token before.
    pub(crate) fn end_of_previous(&self) -> usize {
        let previous = self.next.checked_sub(1).and_then(|at| self.tokens.get(at));
        previous.map_or(0, |token| token.end)
    }

    pub(crate) fn text_of(&self, token: &Token) -> &'a str {
        &self.source.text[token.begin..token.end]
    }

    /// What the token behind the next one is.
    pub(crate) fn after_next(&self) -> Option<&'a TokenKind> {
        self.tokens.get(self.next + 1).map(|token| &token.kind)
    }

    /// The token `ahead` of the next one, if it is a word without quotes.
    pub(crate) fn word_at(&self, ahead: usize) -> Option<&'a str> {
        let token = self.tokens.get(self.next + ahead)?;
        (token.kind == TokenKind::Word).then(|| self.text_of(token))
    }

    pub(crate) fn symbol_at(&self, ahead: usize) -> Option<&'static str> {
        match self.tokens.get(self.next + ahead)?.kind {
            TokenKind::Symbol(symbol) => Some(symbol),
            _ => None,
        }
    }

    pub(crate) fn is_word_at(&self, ahead: usize, keyword: &str) -> bool {
        self.word_at(ahead)
            .is_some_and(|word| word.eq_ignore_ascii_case(keyword))
    }

    pub(crate) fn peek_word(&self, keyword: &str) -> bool {
        self.is_word_at(0, keyword)
    }

    pub(crate) fn peek_symbol(&self, symbol: &str) -> bool {
        self.symbol_at(0) == Some(symbol)
    }

    pub(crate) fn take_word(&mut self, keyword: &str) -> bool {
        let found = self.peek_word(keyword);
        self.next += usize::from(found);
        found
    }

    pub(crate) fn take(&mut self, symbol: &str) -> bool {
        let found = self.peek_symbol(symbol);
        self.next += usize::from(found);
        found
    }

    /// The next token as it was written.
    pub(crate) fn found(&self) -> String {
        match self.peek() {
            None => "the end of the statement".to_owned(),
            Some(token) => format!("`{}`", shorten(self.text_of(token))),
        }
    }

    pub(crate) fn unexpected(&self, expected: impl Into<String>, hint: Hint) -> Error {
        Error::Syntax {
            at: self.source.at(self.byte()),
            expected: expected.into(),
            found: self.found(),
            hint,
        }
    }

    /// As `unexpected`, with a hint if the next token or one shortly before is nearly the beginning of a clause.
    pub(crate) fn unexpected_in_query(&self, expected: &str) -> Error {
        let nearby = self.next.saturating_sub(2)..self.tokens.len().min(self.next + 1);
        let misspelt = self.tokens[nearby]
            .iter()
            .filter(|token| token.kind == TokenKind::Word && token.end - token.begin > 2)
            .map(|token| self.text_of(token))
            .filter(|word| {
                !is_reserved(word)
                    && !CLAUSES
                        .iter()
                        .any(|clause| clause.eq_ignore_ascii_case(word))
            })
            .find_map(|word| Some((word, suggest::nearest(word, CLAUSES.iter().copied())?)));
        let hint = misspelt.map_or(Hint::NONE, |(word, keyword)| {
            Hint::new(format!(
                "did you write `{}` for `{keyword}`?",
                shorten(word)
            ))
        });
        self.unexpected(expected, hint)
    }

    pub(crate) fn not_supported(&self, byte: usize, what: impl Into<String>, hint: Hint) -> Error {
        Error::NotSupported {
            at: self.source.at(byte),
            what: what.into(),
            hint,
        }
    }

    /// Refuses what begins at the next token.
    pub(crate) fn refuse(&self, what: impl Into<String>, hint: &str) -> Error {
        self.not_supported(self.byte(), what, Hint::maybe(hint))
    }

    pub(crate) fn expect_word(&mut self, keyword: &str) -> Result<()> {
        if self.take_word(keyword) {
            return Ok(());
        }
        Err(self.unexpected(format!("`{keyword}`"), self.misspelt(keyword)))
    }

    /// A hint if the next word is nearly the keyword that should stand there.
    pub(crate) fn misspelt(&self, keyword: &str) -> Hint {
        match self.word_at(0) {
            Some(word) if suggest::nearest(word, [keyword]).is_some() => {
                Hint::new(format!("did you mean `{keyword}`?"))
            }
            _ => Hint::NONE,
        }
    }

    pub(crate) fn expect(&mut self, symbol: &str) -> Result<()> {
        if self.take(symbol) {
            return Ok(());
        }
        Err(self.unexpected(format!("`{symbol}`"), Hint::NONE))
    }

    /// The next token if it is a name.
    pub(crate) fn peek_name(&self) -> Option<Name> {
        let token = self.peek()?;
        let (text, quoted) = match &token.kind {
            TokenKind::Word if !is_reserved(self.text_of(token)) => {
                (self.text_of(token).to_owned(), false)
            }
            TokenKind::QuotedName(name) => (name.clone(), true),
            _ => return None,
        };
        let at = token.begin;
        Some(Name { text, at, quoted })
    }

    pub(crate) fn name(&mut self, expected: &str) -> Result<Name> {
        if let Some(name) = self.peek_name() {
            self.advance();
            return Ok(name);
        }
        let hint = match self.peek().map(|token| (&token.kind, self.text_of(token))) {
            Some((TokenKind::Word, word)) => Hint::new(format!(
                "a reserved word can be a name in double quotes: \"{word}\""
            )),
            Some((TokenKind::Text(text), _)) => Hint::new(format!(
                "names are written bare or in double quotes: \"{}\"",
                shorten(text)
            )),
            _ => Hint::NONE,
        };
        Err(self.unexpected(expected, hint))
    }

    /// The name of an argument: any word, reserved or not, since `=>` follows it.
    pub(crate) fn argument_name(&mut self) -> Result<Name> {
        let word = self
            .peek()
            .filter(|token| matches!(token.kind, TokenKind::Word));
        match word {
            Some(token) => {
                let name = Name {
                    text: self.text_of(token).to_owned(),
                    at: token.begin,
                    quoted: false,
                };
                self.advance();
                Ok(name)
            }
            None => self.name("the name of an argument"),
        }
    }

    /// `AS name`, or a name that can only be an alias, or nothing.
    pub(crate) fn alias(&mut self) -> Result<Option<Name>> {
        if self.take_word("AS") {
            return self.name("an alias").map(Some);
        }
        let name = self
            .peek_name()
            .filter(|name| name.quoted || is_alias(false, &name.text));
        self.next += usize::from(name.is_some());
        Ok(name)
    }

    /// A literal, perhaps with a sign, or a parameter.
    pub(crate) fn operand(&mut self, expected: &str) -> Result<Operand> {
        let at = self.byte();
        let signed = matches!(self.symbol_at(0), Some("-" | "+"));
        if signed {
            let negative = self.peek_symbol("-");
            let after = self.tokens.get(self.next + 1);
            let Some(digits) = after.filter(|token| token.kind == TokenKind::Number) else {
                return Err(self.unexpected(expected, Hint::NONE));
            };
            let value = number(self.source, at, self.text_of(digits), negative)?;
            self.next += 2;
            let kind = OperandKind::Literal(value);
            return Ok(Operand { at, kind });
        }
        if let Some(kind) = self.peek_operand()? {
            self.advance();
            return Ok(Operand { at, kind });
        }
        let written = match self.peek() {
            Some(token) if token.kind == TokenKind::Word => Some(self.text_of(token)),
            Some(Token {
                kind: TokenKind::QuotedName(name),
                ..
            }) => Some(name.as_str()),
            _ => None,
        };
        let hint = written.map_or(Hint::NONE, |word| {
            Hint::new(format!(
                "text is written in single quotes: '{}'",
                shorten(word)
            ))
        });
        Err(self.unexpected(expected, hint))
    }

    /// The next token, if it is a literal or a parameter.
    pub(crate) fn peek_operand(&self) -> Result<Option<OperandKind>> {
        let Some(token) = self.peek() else {
            return Ok(None);
        };
        let literal = match &token.kind {
            TokenKind::Parameter(parameter) => return Ok(Some(OperandKind::Parameter(*parameter))),
            TokenKind::Text(text) => Value::Text(text.clone()),
            TokenKind::Blob(bytes) => Value::Blob(bytes.clone()),
            TokenKind::Number => number(self.source, token.begin, self.text_of(token), false)?,
            TokenKind::Word => match self.text_of(token) {
                word if word.eq_ignore_ascii_case("NULL") => Value::Null,
                word if word.eq_ignore_ascii_case("TRUE") => Value::Integer(1),
                word if word.eq_ignore_ascii_case("FALSE") => Value::Integer(0),
                _ => return Ok(None),
            },
            TokenKind::QuotedName(_) | TokenKind::Symbol(_) => return Ok(None),
        };
        Ok(Some(OperandKind::Literal(literal)))
    }
}

/// The value of a number: an integer if it is written as one.
pub(crate) fn number(
    source: &SourceText,
    at: usize,
    digits: &str,
    negative: bool,
) -> Result<Value> {
    let sign = if negative { "-" } else { "" };
    let text = format!("{sign}{digits}");
    let out_of_range = |bounds: &str| Error::OutOfRange {
        at: source.at(at),
        what: "a number".to_owned(),
        bounds: bounds.to_owned(),
        found: shorten(&text),
        hint: Hint::NONE,
    };
    if digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return match text.parse() {
            Ok(value) => Ok(Value::Integer(value)),
            Err(_) => Err(out_of_range(
                "in -9223372036854775808..=9223372036854775807 if it has no fraction",
            )),
        };
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Value::Real(value)),
        _ => Err(out_of_range("below 1.8e308")),
    }
}
