//! Text to `Statement`: limits, tokens, then the parser.
//!
//! Invariant: no text makes this panic, overflow a stack or run long. sqlparser is recursive, and so are cloning,
//! printing and dropping what it makes. So it runs on a stack that the limits on nesting and chains cannot exceed, its
//! tree is turned into our flat types and dropped on that same stack, and nobody clones or prints it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::dialect::ZipfDialect;
use crate::error::{Error, Hint, ParserFailure, Position, Result, shorten};
use crate::lex::{self, Source, byte_of};
use crate::limits;
use crate::lower;
use crate::split::{StatementStream, StatementText};
use crate::statement::{self, describe_token};
use crate::suggest;
use crate::syntax::{Select, Statement, StatementKind};

/// Queries of at most this many tokens are first tried on the caller's stack, and with at most this much recursion.
/// `queries_fit_a_small_stack_directly` shows what that takes.
const DIRECT_TOKENS_MAX: usize = 64;
const DIRECT_RECURSION_MAX: usize = 8;

/// Recursion of the parser on its own thread: parentheses, and operators that take an operand to their right.
const RECURSION_MAX: usize = 160;

/// Parses all statements of a text.
///
/// Statements are separated by `;`, empty ones are passed over. The first error wins, so either the whole text is
/// understood or nothing of it is returned. Linear in the text.
///
/// # Errors
/// Texts that are not SQL, that use what this version does not support, or that exceed one of the `limits`.
pub fn parse(sql: &str) -> Result<Vec<Statement>> {
    let mut stream = StatementStream::new();
    stream.feed(sql);
    let mut statements = Vec::new();
    while let Some(text) = stream.next_statement() {
        statements.push(parse_statement(text?)?);
    }
    if let Some(text) = stream.finish() {
        statements.push(parse_statement(text?)?);
    }
    Ok(statements)
}

/// Parses one statement as `StatementStream` gives it; positions of errors are those in the whole input.
///
/// # Errors
/// As `parse`.
pub fn parse_statement(text: StatementText) -> Result<Statement> {
    let source = Source {
        text: text.text,
        start: text.start,
    };
    let lexed = lex::lex(&source)?;
    let kind = match statement::parse(&source, &lexed.tokens)? {
        Some(kind) => kind,
        None => StatementKind::Select(parse_query(&source, lexed.tokens)?),
    };
    Ok(Statement {
        source,
        parameters: lexed.parameters,
        kind,
    })
}

impl From<&str> for StatementText {
    fn from(text: &str) -> StatementText {
        StatementText {
            text: text.to_owned(),
            start: Position::START,
        }
    }
}

fn parse_query(source: &Source, tokens: Vec<TokenWithSpan>) -> Result<Select> {
    if tokens.len() > DIRECT_TOKENS_MAX {
        return on_own_stack(source, tokens);
    }
    match parse_with_limit(source, tokens, DIRECT_RECURSION_MAX) {
        Err(Error::TooLarge { .. }) => on_own_stack(source, lex::lex(source)?.tokens),
        done => done,
    }
}

/// Starting a thread costs some 20 to 50 microseconds; only long or nested queries get here.
fn on_own_stack(source: &Source, tokens: Vec<TokenWithSpan>) -> Result<Select> {
    let failed = |reason| Error::Parser {
        at: source.at(0),
        reason,
    };
    thread::scope(|scope| {
        thread::Builder::new()
            .name("zipfdb-parser".to_owned())
            .stack_size(limits::PARSER_STACK_BYTES)
            .spawn_scoped(scope, || parse_with_limit(source, tokens, RECURSION_MAX))
            .map_err(|error| failed(ParserFailure::NoThread(error.kind())))?
            .join()
            .unwrap_or_else(|_| Err(failed(ParserFailure::Panicked)))
    })
}

fn parse_with_limit(
    source: &Source,
    tokens: Vec<TokenWithSpan>,
    recursion_max: usize,
) -> Result<Select> {
    let items = lower::item_texts(source, &tokens);
    let mut parser = Parser::new(&ZipfDialect)
        .with_recursion_limit(recursion_max)
        .with_tokens_with_locations(tokens);
    let parsed = catch_unwind(AssertUnwindSafe(|| {
        let query = parser
            .parse_query()
            .map_err(|error| syntax_error(source, error, recursion_max))?;
        let next = parser.peek_token_ref();
        if next.token != Token::EOF {
            let at = byte_of(next.span).unwrap_or(0);
            return Err(unexpected(
                source,
                at,
                "the end of the statement",
                Hint::NONE,
            ));
        }
        lower::query(source, &query, items)
    }));
    parsed.unwrap_or_else(|_| {
        Err(Error::Parser {
            at: source.at(0),
            reason: ParserFailure::Panicked,
        })
    })
}

/// sqlparser's error in our words. Its message ends with the place, as `lex` encodes it.
fn syntax_error(source: &Source, error: ParserError, recursion_max: usize) -> Error {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
        ParserError::RecursionLimitExceeded => {
            return Error::TooLarge {
                at: source.at(0),
                what: "the nesting of expressions",
                limit: recursion_max as u64,
                hint: Hint::NONE,
            };
        }
    };
    let (message, at) = match message.rsplit_once(" at Line: 1, Column: ") {
        Some((message, column)) => (
            message,
            column.parse::<usize>().ok().map(|column| column - 1),
        ),
        None => (message.as_str(), None),
    };
    let at = at.unwrap_or(source.text.len());
    let expected = message
        .strip_prefix("Expected: ")
        .or_else(|| message.strip_prefix("Expected "))
        .map(|rest| {
            rest.rsplit_once(", found")
                .map_or(rest, |(expected, _)| expected)
                .trim()
        });
    match expected {
        Some("end of statement") => unexpected(source, at, "the end of the statement", Hint::NONE),
        Some("identifier") => unexpected(source, at, "a name", Hint::NONE),
        Some(expected) if expected.chars().any(char::is_lowercase) => {
            unexpected(source, at, &shorten(expected), Hint::NONE)
        }
        Some(expected) => unexpected(source, at, &format!("`{}`", shorten(expected)), Hint::NONE),
        None => unexpected(source, at, "a query", Hint::new(shorten(message))),
    }
}

/// The words that clauses begin with.
const CLAUSES: &[&str] = &[
    "FROM", "WHERE", "GROUP", "ORDER", "LIMIT", "OFFSET", "AND", "DESC", "SELECT",
];

/// A syntax error at the token that stands at `at`, with a hint if that or one shortly before is nearly a keyword.
fn unexpected(source: &Source, at: usize, expected: &str, hint: Hint) -> Error {
    let tokens = lex::lex(source)
        .map(|lexed| lexed.tokens)
        .unwrap_or_default();
    let index = tokens.partition_point(|token| byte_of(token.span).is_some_and(|byte| byte < at));
    let misspelt = tokens[index.saturating_sub(2)..tokens.len().min(index + 1)]
        .iter()
        .filter_map(|token| match &token.token {
            Token::Word(word) if word.quote_style.is_none() && word.value.len() > 2 => {
                Some(word.value.as_str())
            }
            _ => None,
        })
        .filter(|word| {
            !CLAUSES
                .iter()
                .any(|clause| clause.eq_ignore_ascii_case(word))
        })
        .find_map(|word| Some((word, suggest::nearest(word, CLAUSES.iter().copied())?)));
    let hint = match misspelt {
        Some((word, keyword)) if hint == Hint::NONE => {
            Hint::new(format!("did you write `{word}` for `{keyword}`?"))
        }
        _ => hint,
    };
    let found = tokens.get(index);
    Error::Syntax {
        at: source.at(found
            .and_then(|token| byte_of(token.span))
            .unwrap_or(source.text.trim_end().len())),
        expected: expected.to_owned(),
        found: describe_token(source, found),
        hint,
    }
}
