//! The text of a query in CQL to lexemes.
//!
//! Invariant: lexemes lie in the order of the text and apart; the last is the end. Strings keep their escapes, which mean
//! different things in different strings. A `#` and what follows it on its line is no lexeme.

use crate::error::{Error, Fault, Language, Result, quote};
use crate::limits::QUERY_BYTES_MAX;

/// Longer ones first, where one begins another.
const SYMBOLS: [&str; 38] = [
    "(?<=", "(?<!", "(?=", "(?!", "!==", "(?", "!=", "==", "<=", ">=", "::", "..", "</", "/>", "(",
    ")", "[", "]", "{", "}", "<", ">", "=", "!", "&", "|", ":", ".", ",", "+", "*", "?", "@", "-",
    "~", ";", "%", "/",
];

/// How the text of a string is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StringKind {
    /// `"..."`: a regular expression, or a text where the operator says so.
    Plain,
    /// `l"..."`: a text.
    Literal,
    /// `w"..."`: a text with wildcards.
    Wildcard,
}

/// What a lexeme is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// A string, what stands between its quotes.
    String(StringKind, &'t str),
    /// A name or keyword.
    Name(&'t str),
    /// Digits.
    Number(&'t str),
    /// The letters after `%`.
    Flags(&'t str),
    /// One of `SYMBOLS`.
    Symbol(&'static str),
    /// The end of the text.
    End,
}

/// A token and its place in the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lexeme<'t> {
    pub(super) token: Token<'t>,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// All lexemes of a text.
pub(super) fn lex(text: &str) -> Result<Vec<Lexeme<'_>>> {
    if text.len() > QUERY_BYTES_MAX {
        let fault = Fault::TooLarge {
            what: "the number of bytes of a query",
            limit: QUERY_BYTES_MAX,
        };
        return Err(Error::new(Language::Cql, text, 0, fault));
    }
    let mut lexemes = Vec::new();
    let mut at = 0;
    loop {
        at += spaces(&text[at..]);
        let (token, length) = first_token(text, at)?;
        let end = at + length;
        lexemes.push(Lexeme {
            token,
            start: at,
            end,
        });
        if token == Token::End {
            return Ok(lexemes);
        }
        at = end;
    }
}

/// Bytes of white space and comments that the text begins with.
fn spaces(text: &str) -> usize {
    let mut rest = text.trim_start();
    while rest.starts_with('#') {
        rest = rest.find('\n').map_or("", |newline| &rest[newline..]);
        rest = rest.trim_start();
    }
    text.len() - rest.len()
}

/// The token at a place and its length in bytes.
fn first_token(text: &str, at: usize) -> Result<(Token<'_>, usize)> {
    let rest = &text[at..];
    let run = |rest: &str, belongs: fn(&u8) -> bool| rest.bytes().take_while(belongs).count();
    let Some(first) = rest.chars().next() else {
        return Ok((Token::End, 0));
    };
    let second = rest.chars().nth(1).unwrap_or_default();
    match first {
        '"' | '\'' => string(text, at, StringKind::Plain, 0),
        'l' if matches!(second, '"' | '\'') => string(text, at, StringKind::Literal, 1),
        'w' if matches!(second, '"' | '\'') => string(text, at, StringKind::Wildcard, 1),
        '0'..='9' => {
            let length = run(rest, u8::is_ascii_digit);
            Ok((Token::Number(&rest[..length]), length))
        }
        'a'..='z' | 'A'..='Z' | '_' => {
            let length = run(rest, |byte| byte.is_ascii_alphanumeric() || *byte == b'_');
            Ok((Token::Name(&rest[..length]), length))
        }
        '%' if second.is_ascii_alphabetic() => {
            let length = 1 + run(&rest[1..], u8::is_ascii_alphabetic);
            Ok((Token::Flags(&rest[1..length]), length))
        }
        _ => match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(symbol) => Ok((Token::Symbol(symbol), symbol.len())),
            None => {
                let fault = Fault::Syntax {
                    expected: "a pattern".into(),
                    found: quote(first.encode_utf8(&mut [0; 4])),
                };
                let error = Error::new(Language::Cql, text, at, fault);
                Err(error.with_hint("words stand in quotes: \"word\""))
            }
        },
    }
}

/// The string at a place, whose opening quote stands `skipped` bytes behind it.
fn string(text: &str, at: usize, kind: StringKind, skipped: usize) -> Result<(Token<'_>, usize)> {
    let start = at + skipped + 1;
    let quote = text.as_bytes()[start - 1];
    let mut escaped = false;
    for (length, byte) in text.as_bytes()[start..].iter().copied().enumerate() {
        if byte == quote && !escaped {
            let content = &text[start..start + length];
            return Ok((Token::String(kind, content), skipped + length + 2));
        }
        escaped = byte == b'\\' && !escaped;
    }
    let fault = Fault::Syntax {
        expected: format!("`{}` at the end of the string", char::from(quote)).into(),
        found: "the end of the query".to_owned(),
    };
    Err(Error::new(Language::Cql, text, at, fault))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lexemes_are_the_longest_ones() {
        use Token::{End, Flags, Name, Number, String, Symbol};
        let tokens = |text| -> Vec<Token<'_>> {
            let lexemes = lex(text).expect("it is made of lexemes");
            lexemes.iter().map(|lexeme| lexeme.token).collect()
        };
        let plain = StringKind::Plain;
        assert_eq!(
            tokens("A:\"a\\\"b\"%cd # \" comment\n'x' l'y'"),
            [
                Name("A"),
                Symbol(":"),
                String(plain, "a\\\"b"),
                Flags("cd"),
                String(plain, "x"),
                String(StringKind::Literal, "y"),
                End
            ]
        );
        assert_eq!(
            tokens("(?<=<s/>!==1..2l#"),
            [
                Symbol("(?<="),
                Symbol("<"),
                Name("s"),
                Symbol("/>"),
                Symbol("!=="),
                Number("1"),
                Symbol(".."),
                Number("2"),
                Name("l"),
                End
            ]
        );
        assert_eq!(tokens(""), [End]);
    }
}
