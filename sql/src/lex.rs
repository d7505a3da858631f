//! Statement text to tokens.
//!
//! It knows the bytes of every token, holds the limits before anything is parsed, numbers the parameters, and says what
//! to write instead of foreign syntax.
//!
//! Invariant: `text[token.begin..token.end]` is the token as it was written. Whitespace and comments give no tokens.
//! Linear in the text. What the tokens mean together is not decided here: it does not know which words are keywords.

use std::collections::HashMap;

use crate::error::{Error, Hint, Place, Position, Result, shorten};
use crate::limits;

/// The text of one statement and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SourceText {
    pub(crate) text: String,
    /// Position of the text's first character within the whole input.
    pub(crate) start: Position,
}

impl SourceText {
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

/// A token and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    /// Byte of the statement's text at which it begins.
    pub(crate) begin: usize,
    /// The byte just behind it.
    pub(crate) end: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TokenKind {
    /// A keyword or a name that is not in quotes.
    Word,
    /// A name in double quotes, without them.
    QuotedName(String),
    /// A text in single quotes, without them.
    Text(String),
    /// X'..'.
    Blob(Vec<u8>),
    /// A number, without a sign.
    Number,
    /// A parameter, by its number from 1.
    Parameter(usize),
    /// An operator or a separator.
    Symbol(&'static str),
}

/// A statement's tokens.
#[derive(Debug)]
pub(crate) struct Tokens {
    pub(crate) tokens: Vec<Token>,
    /// The highest parameter number.
    pub(crate) parameters: usize,
    /// The names of parameters, by their numbers from 1.
    pub(crate) parameter_names: Vec<Option<String>>,
}

/// Cuts a statement into tokens, or says what is wrong with it or which limit it exceeds.
pub(crate) fn lex(source: &SourceText) -> Result<Tokens> {
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
        parameters: 0,
        parameter_names: HashMap::new(),
        tokens: Vec::with_capacity(source.text.len().min(1 << 12) / 4),
    };
    while let Some(character) = lexer.peek() {
        lexer.step(character)?;
        if lexer.tokens.len() > limits::TOKENS_MAX {
            let limit = if lexer.is_insert() {
                limits::INSERT_TOKENS_MAX
            } else {
                limits::TOKENS_MAX
            };
            if lexer.tokens.len() > limit {
                return Err(too_large(source, lexer.at, "the number of tokens", limit));
            }
        }
    }
    let is_insert = lexer.is_insert();
    let Lexer {
        tokens,
        parameters,
        parameter_names: numbers,
        ..
    } = lexer;
    let mut parameter_names = vec![None; if numbers.is_empty() { 0 } else { parameters }];
    for (name, number) in numbers {
        parameter_names[number - 1] = Some(name.to_owned());
    }
    // What of it another parser sees is checked there.
    if !is_insert {
        check_chain(source, &tokens)?;
    }
    Ok(Tokens {
        tokens,
        parameters,
        parameter_names,
    })
}

fn too_large(source: &SourceText, byte: usize, what: &'static str, limit: usize) -> Error {
    Error::TooLarge {
        at: source.at(byte),
        what,
        limit: limit as u64,
        hint: Hint::NONE,
    }
}

/// Counts the tokens outside of flat lists: see `CHAIN_TOKENS_MAX`.
pub(crate) fn check_chain(source: &SourceText, tokens: &[Token]) -> Result<()> {
    if tokens.len() <= limits::CHAIN_TOKENS_MAX {
        return Ok(());
    }
    let is = |token: Option<&Token>, symbol| {
        token.is_some_and(|token| token.kind == TokenKind::Symbol(symbol))
    };
    let mut chain = 0;
    for (index, token) in tokens.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| tokens.get(before));
        let after = tokens.get(index + 1);
        let is_item = (is(before, ",") || is(before, "(")) && (is(after, ",") || is(after, ")"));
        chain += usize::from(!is_item && token.kind != TokenKind::Symbol(","));
        if chain > limits::CHAIN_TOKENS_MAX {
            return Err(too_large(
                source,
                token.begin,
                "the number of tokens outside of lists",
                limits::CHAIN_TOKENS_MAX,
            ));
        }
    }
    Ok(())
}

struct Lexer<'a> {
    source: &'a SourceText,
    text: &'a str,
    at: usize,
    parameters: usize,
    /// The numbers of those that have names.
    parameter_names: HashMap<&'a str, usize>,
    tokens: Vec<Token>,
}

impl<'a> Lexer<'a> {
    /// Whether the statement is INSERT or REPLACE.
    fn is_insert(&self) -> bool {
        let first = self.tokens.first();
        first.is_some_and(|token| {
            let word = &self.text[token.begin..token.end];
            word.eq_ignore_ascii_case("INSERT") || word.eq_ignore_ascii_case("REPLACE")
        })
    }

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

    fn push(&mut self, begin: usize, kind: TokenKind) {
        let end = self.at;
        self.tokens.push(Token { kind, begin, end });
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
                self.push(begin, TokenKind::Text(value));
            }
            'x' | 'X' if self.peek_second() == Some('\'') => self.blob()?,
            '"' => {
                let value = self.quoted('"', "the name")?;
                self.check_name(begin, &value)?;
                self.push(begin, TokenKind::QuotedName(value));
            }
            c if is_name_start(c) => {
                let name = self.take_while(is_name_part);
                self.check_name(begin, name)?;
                self.push(begin, TokenKind::Word);
            }
            c if c.is_ascii_digit() => self.number()?,
            '.' if self.peek_second().is_some_and(|c| c.is_ascii_digit()) => self.number()?,
            '$' | ':' | '@' if self.peek_second().is_some_and(is_name_start) => {
                self.named_parameter()?;
            }
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
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => byte - b'0',
            _ => (byte | 0x20) - b'a' + 10,
        };
        let bytes = digits.as_bytes().chunks_exact(2);
        let blob = bytes.map(|pair| digit(pair[0]) << 4 | digit(pair[1]));
        self.push(begin, TokenKind::Blob(blob.collect()));
        Ok(())
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
        self.push(begin, TokenKind::Number);
        Ok(())
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
            return Err(self.syntax(begin, "a parameter `?`, `?1` or `:name`", found, Hint::NONE));
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
        self.push(begin, TokenKind::Parameter(number));
        Ok(())
    }

    /// Reads `:name`, `@name` or `$name`. As in SQLite a new name gets the number after the highest so far.
    fn named_parameter(&mut self) -> Result<()> {
        let begin = self.at;
        self.at += 1;
        let name = self.take_while(is_name_part);
        self.check_name(begin, name)?;
        let next = self.parameters + 1;
        if !self.parameter_names.contains_key(name) && next > limits::PARAMETERS_MAX {
            return Err(too_large(
                self.source,
                begin,
                "the number of parameters",
                limits::PARAMETERS_MAX,
            ));
        }
        let number = *self.parameter_names.entry(name).or_insert(next);
        self.parameters = self.parameters.max(number);
        self.push(begin, TokenKind::Parameter(number));
        Ok(())
    }

    fn operator(&mut self, character: char) -> Result<()> {
        let begin = self.at;
        let symbol = match (character, self.peek_second()) {
            (',', _) => ",",
            ('(', _) => "(",
            (')', _) => ")",
            (';', _) => ";",
            ('.', _) => ".",
            ('=', Some('=')) => "==",
            ('=', Some('>')) => "=>",
            ('=', _) => "=",
            ('!', Some('=')) => "!=",
            ('<', Some('>')) => "<>",
            ('<', Some('=')) => "<=",
            ('<', Some('<')) => "<<",
            ('<', _) => "<",
            ('>', Some('=')) => ">=",
            ('>', Some('>')) => ">>",
            ('>', _) => ">",
            ('+', _) => "+",
            ('-', Some('>')) if self.rest().starts_with("->>") => "->>",
            ('-', Some('>')) => "->",
            ('-', _) => "-",
            ('*', _) => "*",
            ('/', _) => "/",
            ('%', _) => "%",
            ('|', Some('|')) => "||",
            ('|', _) => "|",
            ('&', _) => "&",
            ('~', _) => "~",
            (':', Some(':')) => "::",
            _ => return Err(self.foreign(character)),
        };
        self.at += symbol.len();
        self.push(begin, TokenKind::Symbol(symbol));
        Ok(())
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
            ':' | '@' => Hint::new("parameters are written `?`, `?1` or `:name`"),
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
        let source = SourceText {
            text: text.to_owned(),
            start: Position::START,
        };
        lex(&source).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn tokens_know_their_text() {
        let text = "SELECT \u{e9}t\u{e9}, \"a \"\"b\"\"\", 'it''s' /* \u{1f600} */ <= 1.5e-3 || X'0aFF' ?2::x";
        let written: Vec<&str> = lexed(text)
            .tokens
            .iter()
            .map(|token| &text[token.begin..token.end])
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
            .map(|token| match &token.kind {
                TokenKind::Text(text) | TokenKind::QuotedName(text) => text.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(values, ["it's", "'", "a\"b", ""]);
    }

    #[test]
    fn names_of_parameters_have_numbers() {
        let Tokens {
            tokens,
            parameters,
            parameter_names,
        } = lexed("? :a @b ?7 $a ? :c");
        let kinds: Vec<TokenKind> = tokens.into_iter().map(|token| token.kind).collect();
        assert_eq!(kinds, [1, 2, 3, 7, 2, 8, 9].map(TokenKind::Parameter));
        assert_eq!(parameters, 9);
        let names: Vec<Option<&str>> = parameter_names.iter().map(Option::as_deref).collect();
        let expected = [
            None,
            Some("a"),
            Some("b"),
            None,
            None,
            None,
            None,
            None,
            Some("c"),
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn bare_parameters_count_on_from_the_highest() {
        let Tokens {
            tokens, parameters, ..
        } = lexed("? ?5 ? $2 ?");
        let kinds: Vec<TokenKind> = tokens.into_iter().map(|token| token.kind).collect();
        assert_eq!(kinds, [1, 5, 6, 2, 7].map(TokenKind::Parameter));
        assert_eq!(parameters, 7);
    }

    #[test]
    fn items_of_lists_do_not_count_as_a_chain() {
        let list = vec!["1"; limits::TOKENS_MAX / 2 - 10].join(",");
        lexed(&format!("a IN ({list})"));
        let source = SourceText {
            text: vec!["- 1"; limits::CHAIN_TOKENS_MAX].join(","),
            start: Position::START,
        };
        assert!(matches!(lex(&source), Err(Error::TooLarge { .. })));
    }
}
