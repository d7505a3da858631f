//! Statement text to tokens.
//!
//! The tokens are sqlparser's, but its own tokenizer is not used: this one knows the byte of every token, holds the
//! limits before anything is parsed, numbers the parameters, and says what to write instead of foreign syntax.
//!
//! Invariant: a token's span carries bytes, not lines and columns: column = byte + 1 on line 1. `byte_of` reads it back.
//! Whitespace and comments give no tokens. Linear in the text. What the tokens mean together is not decided here.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Word};

use crate::error::{Error, Hint, Place, Position, Result, shorten};
use crate::limits;

/// The text of one statement and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Source {
    pub(crate) text: String,
    /// Position of the text's first character within the whole input.
    pub(crate) start: Position,
}

impl Source {
    /// The place of a byte of the text, for an error.
    pub(crate) fn at(&self, byte: usize) -> Place {
        Place::new(&self.text, self.start, byte)
    }
}

/// Whether a character separates tokens. A byte order mark does, so that files which begin with one can be read.
pub(crate) fn is_space(character: char) -> bool {
    character.is_whitespace() || character == '\u{feff}'
}

/// Whether a character may begin a name that is not in quotes.
pub(crate) fn is_name_start(character: char) -> bool {
    character == '_' || character.is_alphabetic()
}

/// Whether a character may continue a name that is not in quotes.
pub(crate) fn is_name_part(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

/// The byte at which a span begins, or none for the empty span that sqlparser gives to things without a place.
pub(crate) fn byte_of(span: Span) -> Option<usize> {
    // A statement is at most STATEMENT_BYTES_MAX long, so the cast loses nothing.
    span.start.column.checked_sub(1).map(|byte| byte as usize)
}

/// The byte just behind a span.
pub(crate) fn end_of(span: Span) -> Option<usize> {
    // As above.
    span.end.column.checked_sub(1).map(|byte| byte as usize)
}

/// A statement's tokens.
#[derive(Debug)]
pub(crate) struct Tokens {
    pub(crate) tokens: Vec<TokenWithSpan>,
    /// The highest parameter number.
    pub(crate) parameters: usize,
}

/// Cuts a statement into tokens, or says what is wrong with it or which limit it exceeds.
pub(crate) fn lex(source: &Source) -> Result<Tokens> {
    if source.text.len() > limits::STATEMENT_BYTES_MAX {
        return Err(too_large(
            source,
            0,
            "the statement's size in bytes",
            limits::STATEMENT_BYTES_MAX,
        ));
    }
    let mut lexer = Lexer {
        source,
        text: &source.text,
        at: 0,
        nesting: 0,
        prefixes: 0,
        parameters: 0,
        tokens: Vec::with_capacity(source.text.len().min(1 << 12) / 4),
    };
    while let Some(character) = lexer.peek() {
        lexer.step(character)?;
        if lexer.tokens.len() > limits::TOKENS_MAX {
            return Err(too_large(
                source,
                lexer.at,
                "the number of tokens",
                limits::TOKENS_MAX,
            ));
        }
    }
    let Lexer {
        tokens, parameters, ..
    } = lexer;
    check_chain(source, &tokens)?;
    Ok(Tokens { tokens, parameters })
}

fn too_large(source: &Source, byte: usize, what: &'static str, limit: usize) -> Error {
    Error::TooLarge {
        at: source.at(byte),
        what,
        limit: limit as u64,
        hint: Hint::NONE,
    }
}

/// Counts the tokens outside of flat lists: see `CHAIN_TOKENS_MAX`.
fn check_chain(source: &Source, tokens: &[TokenWithSpan]) -> Result<()> {
    if tokens.len() <= limits::CHAIN_TOKENS_MAX {
        return Ok(());
    }
    let opens = |token: Option<&TokenWithSpan>| {
        token.is_some_and(|token| matches!(token.token, Token::Comma | Token::LParen))
    };
    let closes = |token: Option<&TokenWithSpan>| {
        token.is_some_and(|token| matches!(token.token, Token::Comma | Token::RParen))
    };
    let mut chain = 0;
    for (index, token) in tokens.iter().enumerate() {
        let is_item = index > 0 && opens(tokens.get(index - 1)) && closes(tokens.get(index + 1));
        chain += usize::from(!is_item && token.token != Token::Comma);
        if chain > limits::CHAIN_TOKENS_MAX {
            let at = byte_of(token.span).unwrap_or(0);
            return Err(too_large(
                source,
                at,
                "the number of tokens outside of lists",
                limits::CHAIN_TOKENS_MAX,
            ));
        }
    }
    Ok(())
}

struct Lexer<'a> {
    source: &'a Source,
    text: &'a str,
    at: usize,
    /// Open parentheses and CASEs.
    nesting: usize,
    /// Operators in a row that take an operand to their right.
    prefixes: usize,
    parameters: usize,
    tokens: Vec<TokenWithSpan>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn peek_second(&self) -> Option<char> {
        self.rest().chars().nth(1)
    }

    /// Reads on while `wanted` holds, and gives what was read.
    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn push(&mut self, begin: usize, token: Token) -> Result<()> {
        match &token {
            Token::LParen => self.nesting += 1,
            Token::RParen => self.nesting = self.nesting.saturating_sub(1),
            Token::Word(word) if word.keyword == Keyword::CASE => self.nesting += 1,
            Token::Word(word) if word.keyword == Keyword::END => {
                self.nesting = self.nesting.saturating_sub(1);
            }
            _ => {}
        }
        self.prefixes = match &token {
            Token::Plus | Token::Minus | Token::Tilde => self.prefixes + 1,
            Token::Word(word) if word.keyword == Keyword::NOT => self.prefixes + 1,
            _ => 0,
        };
        if self.nesting > limits::NESTING_MAX || self.prefixes > limits::NESTING_MAX {
            return Err(too_large(
                self.source,
                begin,
                "the nesting",
                limits::NESTING_MAX,
            ));
        }
        let location = |byte: usize| Location::new(1, byte as u64 + 1);
        let span = Span::new(location(begin), location(self.at));
        self.tokens.push(TokenWithSpan::new(token, span));
        Ok(())
    }

    fn syntax(&self, byte: usize, expected: &str, found: impl Into<String>, hint: Hint) -> Error {
        Error::Syntax {
            at: self.source.at(byte),
            expected: expected.to_owned(),
            found: found.into(),
            hint,
        }
    }

    fn step(&mut self, character: char) -> Result<()> {
        let begin = self.at;
        match character {
            c if is_space(c) => {
                self.take_while(is_space);
            }
            '-' if self.peek_second() == Some('-') => {
                self.take_while(|c| c != '\n');
            }
            '/' if self.peek_second() == Some('*') => self.skip_comment()?,
            '\'' => {
                let value = self.quoted('\'', "the text")?;
                self.push(begin, Token::SingleQuotedString(value))?;
            }
            'x' | 'X' if self.peek_second() == Some('\'') => self.blob()?,
            '"' => {
                let value = self.quoted('"', "the name")?;
                self.check_name(begin, &value)?;
                self.push(
                    begin,
                    Token::Word(Word {
                        value,
                        quote_style: Some('"'),
                        keyword: Keyword::NoKeyword,
                    }),
                )?;
            }
            c if is_name_start(c) => {
                let name = self.take_while(is_name_part);
                self.check_name(begin, name)?;
                self.push(begin, Token::make_word(name, None))?;
            }
            c if c.is_ascii_digit() => self.number()?,
            '.' if self.peek_second().is_some_and(|c| c.is_ascii_digit()) => self.number()?,
            '?' | '$' => self.parameter(character)?,
            _ => self.operator(character)?,
        }
        Ok(())
    }

    fn skip_comment(&mut self) -> Result<()> {
        let begin = self.at;
        let mut depth = 0usize;
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() {
            match &bytes[self.at..(self.at + 2).min(bytes.len())] {
                b"/*" => {
                    depth += 1;
                    self.at += 2;
                }
                b"*/" => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => self.at += 1,
            }
        }
        Err(self.syntax(
            begin,
            "`*/` at the end of the comment that begins here",
            "the end of the statement",
            Hint::NONE,
        ))
    }

    /// Reads `'text'` or `"name"`; the quote itself is written twice inside.
    fn quoted(&mut self, quote: char, what: &str) -> Result<String> {
        let begin = self.at;
        let mut value = String::new();
        loop {
            // `at` is on a quote: the opening one, or the second of two.
            self.at += 1;
            let rest = self.rest();
            let Some(length) = rest.find(quote) else {
                return Err(self.syntax(
                    begin,
                    &format!("a closing `{quote}` for {what} that begins here"),
                    "the end of the statement",
                    Hint::NONE,
                ));
            };
            value.push_str(&rest[..length]);
            self.at += length + 1;
            if self.peek() != Some(quote) {
                return Ok(value);
            }
            value.push(quote);
        }
    }

    fn blob(&mut self) -> Result<()> {
        let begin = self.at;
        self.at += 1;
        let digits = self.quoted('\'', "the blob")?;
        if !digits.len().is_multiple_of(2) || !digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        {
            return Err(self.syntax(
                begin,
                "pairs of hexadecimal digits in X'..'",
                format!("X'{}'", shorten(&digits)),
                Hint::NONE,
            ));
        }
        self.push(begin, Token::HexStringLiteral(digits))
    }

    fn check_name(&self, begin: usize, name: &str) -> Result<()> {
        if name.is_empty() {
            return Err(self.syntax(begin, "a name", "\"\"", Hint::NONE));
        }
        if name.len() > limits::NAME_BYTES_MAX {
            return Err(too_large(
                self.source,
                begin,
                "the size of a name in bytes",
                limits::NAME_BYTES_MAX,
            ));
        }
        Ok(())
    }

    fn number(&mut self) -> Result<()> {
        let begin = self.at;
        self.take_while(|c| c.is_ascii_digit());
        if self.peek() == Some('.') {
            self.at += 1;
            self.take_while(|c| c.is_ascii_digit());
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            let mut after = self.rest()[1..].chars();
            let next = after.next();
            let signed = matches!(next, Some('+' | '-'));
            let digit = if signed { after.next() } else { next };
            if digit.is_some_and(|c| c.is_ascii_digit()) {
                self.at += 1 + usize::from(signed);
                self.take_while(|c| c.is_ascii_digit());
            }
        }
        let end = self.at;
        if self.peek().is_some_and(is_name_part) {
            self.take_while(is_name_part);
            let found = format!("`{}`", shorten(&self.text[begin..self.at]));
            return Err(self.syntax(
                begin,
                "a decimal number",
                found,
                Hint::new("names that begin with a digit need double quotes, sizes such as '64MiB' single ones"),
            ));
        }
        if end - begin > limits::NUMBER_BYTES_MAX {
            return Err(too_large(
                self.source,
                begin,
                "the length of a number",
                limits::NUMBER_BYTES_MAX,
            ));
        }
        self.push(
            begin,
            Token::Number(self.text[begin..end].to_owned(), false),
        )
    }

    /// Reads `?`, `?N` or `$N`. As in SQLite a bare `?` is one more than the highest number so far.
    fn parameter(&mut self, sigil: char) -> Result<()> {
        let begin = self.at;
        self.at += 1;
        let digits = self.take_while(|c| c.is_ascii_digit());
        let number = if digits.is_empty() && sigil == '?' {
            self.parameters + 1
        } else {
            digits.parse().unwrap_or(0)
        };
        if self.peek().is_some_and(is_name_part) || (digits.is_empty() && sigil == '$') {
            self.take_while(is_name_part);
            let found = format!("`{}`", shorten(&self.text[begin..self.at]));
            return Err(self.syntax(begin, "a parameter `?`, `?1` or `$1`", found, Hint::NONE));
        }
        if number == 0 || number > limits::PARAMETERS_MAX {
            return Err(Error::OutOfRange {
                at: self.source.at(begin),
                what: "a parameter's number".to_owned(),
                bounds: format!("in 1..={}", limits::PARAMETERS_MAX),
                found: shorten(&self.text[begin..self.at]),
                hint: Hint::NONE,
            });
        }
        self.parameters = self.parameters.max(number);
        self.push(begin, Token::Placeholder(format!("?{number}")))
    }

    fn operator(&mut self, character: char) -> Result<()> {
        let begin = self.at;
        let (length, token) = match (character, self.peek_second()) {
            (',', _) => (1, Token::Comma),
            ('(', _) => (1, Token::LParen),
            (')', _) => (1, Token::RParen),
            (';', _) => (1, Token::SemiColon),
            ('.', _) => (1, Token::Period),
            ('=', Some('=')) => (2, Token::DoubleEq),
            ('=', Some('>')) => (2, Token::RArrow),
            ('=', _) => (1, Token::Eq),
            ('!', Some('=')) | ('<', Some('>')) => (2, Token::Neq),
            ('<', Some('=')) => (2, Token::LtEq),
            ('<', Some('<')) => (2, Token::ShiftLeft),
            ('<', _) => (1, Token::Lt),
            ('>', Some('=')) => (2, Token::GtEq),
            ('>', Some('>')) => (2, Token::ShiftRight),
            ('>', _) => (1, Token::Gt),
            ('+', _) => (1, Token::Plus),
            ('-', _) => (1, Token::Minus),
            ('*', _) => (1, Token::Mul),
            ('/', _) => (1, Token::Div),
            ('%', _) => (1, Token::Mod),
            ('|', Some('|')) => (2, Token::StringConcat),
            ('|', _) => (1, Token::Pipe),
            ('&', _) => (1, Token::Ampersand),
            ('~', _) => (1, Token::Tilde),
            (':', Some(':')) => (2, Token::DoubleColon),
            _ => return Err(self.foreign(character)),
        };
        // All of these characters are ASCII.
        self.at += length;
        self.push(begin, token)
    }

    /// The error for a character that begins nothing here, but may elsewhere.
    fn foreign(&self, character: char) -> Error {
        let hint = match character {
            '`' | '[' | '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{ab}' | '\u{bb}' => {
                Hint::new("names are quoted as in \"name\"")
            }
            '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{b4}' => {
                Hint::new("text is quoted as in 'text'")
            }
            ':' | '@' => Hint::new("parameters are written `?`, `?1` or `$1`"),
            '#' => Hint::new("comments begin with `--`"),
            '\u{ff1b}' => Hint::new("statements end with `;`"),
            '\u{2212}' | '\u{2013}' | '\u{2014}' => Hint::new("the minus sign is `-`"),
            _ => Hint::NONE,
        };
        let found = if character.is_ascii_graphic() && character != '`' {
            format!("`{character}`")
        } else {
            format!("U+{:04X}", u32::from(character))
        };
        self.syntax(self.at, "a word, number, text or operator", found, hint)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn lexed(text: &str) -> Tokens {
        let source = Source {
            text: text.to_owned(),
            start: Position::START,
        };
        lex(&source).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn spans_give_back_the_text_of_each_token() {
        let text = "SELECT \u{e9}t\u{e9}, \"a \"\"b\"\"\", 'it''s' /* \u{1f600} */ <= 1.5e-3 || X'0aFF' ?2::x";
        let written: Vec<&str> = lexed(text)
            .tokens
            .iter()
            .map(|token| &text[byte_of(token.span).unwrap()..end_of(token.span).unwrap()])
            .collect();
        let expected = [
            "SELECT",
            "\u{e9}t\u{e9}",
            ",",
            "\"a \"\"b\"\"\"",
            ",",
            "'it''s'",
            "<=",
            "1.5e-3",
            "||",
            "X'0aFF'",
            "?2",
            "::",
            "x",
        ];
        assert_eq!(written, expected);
    }

    #[test]
    fn quotes_are_undoubled() {
        let tokens = lexed("'it''s' '''' \"a\"\"b\" ''").tokens;
        let values: Vec<&str> = tokens
            .iter()
            .map(|token| match &token.token {
                Token::SingleQuotedString(text) => text.as_str(),
                Token::Word(word) => word.value.as_str(),
                other => panic!("{other}"),
            })
            .collect();
        assert_eq!(values, ["it's", "'", "a\"b", ""]);
    }

    #[test]
    fn bare_parameters_count_on_from_the_highest() {
        let Tokens { tokens, parameters } = lexed("? ?5 ? $2 ?");
        let numbers: Vec<String> = tokens.iter().map(|token| token.token.to_string()).collect();
        assert_eq!(numbers, ["?1", "?5", "?6", "?2", "?7"]);
        assert_eq!(parameters, 7);
    }

    #[test]
    fn items_of_lists_do_not_count_as_a_chain() {
        let list = vec!["1"; limits::TOKENS_MAX / 2 - 10].join(",");
        lexed(&format!("a IN ({list})"));
        let source = Source {
            text: vec!["- 1"; limits::CHAIN_TOKENS_MAX].join(","),
            start: Position::START,
        };
        assert!(matches!(lex(&source), Err(Error::TooLarge { .. })));
    }
}
