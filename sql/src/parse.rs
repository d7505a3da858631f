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
const DIRECT_TOKENS_MAX: usize = 256;
const DIRECT_RECURSION_MAX: usize = 6;

/// Recursion of the parser on its own thread: three levels for each of `NESTING_MAX` and some more. Where sqlparser tries
/// one reading after another, it may go down this far for each token of a chain, so this also bounds the time.
const RECURSION_MAX: usize = 100;

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
        // Where sqlparser tries one reading after another, running out of depth may look like any error.
        Err(Error::TooLarge { .. } | Error::Syntax { .. }) => {
            on_own_stack(source, lex::lex(source)?.tokens)
        }
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
            return Err(unexpected(source, at, "the end of the statement"));
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
    if message.starts_with("No infix parser") {
        let operator = source.text[at..]
            .split_whitespace()
            .next()
            .unwrap_or_default();
        return Error::NotSupported {
            at: source.at(at),
            what: format!("`{}`", shorten(operator)),
            hint: Hint::NONE,
        };
    }
    let expected = message
        .strip_prefix("Expected: ")
        .or_else(|| message.strip_prefix("Expected "))
        .map(|rest| {
            rest.rsplit_once(", found")
                .map_or(rest, |(expected, _)| expected)
                .trim()
        });
    match expected {
        Some("end of statement") => unexpected(source, at, "the end of the statement"),
        Some("identifier") => unexpected(source, at, "a name"),
        Some(expected) if expected.chars().any(char::is_lowercase) => {
            unexpected(source, at, &shorten(expected))
        }
        Some(expected) => unexpected(source, at, &format!("`{}`", shorten(expected))),
        // The other messages are about syntax that is not ours.
        None => unexpected(source, at, "valid SQL"),
    }
}

/// The words that clauses begin with.
const CLAUSES: &[&str] = &[
    "FROM", "WHERE", "GROUP", "ORDER", "LIMIT", "OFFSET", "AND", "DESC", "SELECT",
];

/// A syntax error at the token that stands at `at`, with a hint if that or one shortly before is nearly a keyword.
fn unexpected(source: &Source, at: usize, expected: &str) -> Error {
    let tokens = lex::lex(source)
        .map(|lexed| lexed.tokens)
        .unwrap_or_default();
    let mut index =
        tokens.partition_point(|token| byte_of(token.span).is_some_and(|byte| byte < at));
    // sqlparser reads the FROM in `SELECT a, FROM c` as a name, and stumbles only behind it.
    let previous = index
        .checked_sub(1)
        .and_then(|previous| tokens.get(previous));
    if expected == "an expression" && previous.is_some_and(|token| is_word(token, "FROM")) {
        index -= 1;
    }
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
    let hint = misspelt.map_or(Hint::NONE, |(word, keyword)| {
        Hint::new(format!(
            "did you write `{}` for `{keyword}`?",
            shorten(word)
        ))
    });
    let found = tokens.get(index);
    let end = source.text.trim_end().len();
    Error::Syntax {
        at: source.at(found.and_then(|token| byte_of(token.span)).unwrap_or(end)),
        expected: expected.to_owned(),
        found: describe_token(source, found),
        hint,
    }
}

fn is_word(token: &TokenWithSpan, keyword: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(keyword))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Beginnings of everything that sqlparser parses by recursion.
    const NESTING: &[&str] = &[
        "SELECT (",
        "SELECT NOT ",
        "SELECT - ",
        "SELECT a OR ",
        "SELECT a = ",
        "SELECT NOT NOT NOT NOT (",
        "SELECT a AND NOT b = - + - c * (",
        "SELECT CASE ",
        "SELECT CASE WHEN ",
        "SELECT f(",
        "SELECT CAST(",
        "SELECT (SELECT ",
        "SELECT EXISTS (SELECT ",
        "SELECT a IN (SELECT ",
        "SELECT a IN (",
        "SELECT a = ANY (",
        "SELECT INTERVAL ",
        "SELECT SUBSTRING(",
        "SELECT POSITION(",
        "SELECT EXTRACT(DAY FROM ",
        "SELECT TRIM(",
        "SELECT a BETWEEN ",
        "SELECT a LIKE ",
        "SELECT a OR b AND NOT a = b + c * -",
        "SELECT * FROM (",
        "SELECT * FROM a JOIN (",
        "SELECT * FROM a JOIN b ON (",
        "SELECT * FROM (SELECT * FROM ",
        "SELECT * FROM f(",
        "SELECT * FROM a WHERE (",
        "SELECT 1 UNION ",
        "SELECT 1 UNION (",
        "(",
        "SELECT CAST(a AS ARRAY<",
        "SELECT STRUCT(",
        "SELECT a::INT(",
        "SELECT OVERLAY(",
        "SELECT CEIL(",
        "SELECT CONVERT(",
        "SELECT f(a => ",
        "SELECT f(a) OVER (PARTITION BY ",
        "SELECT f(a) FILTER (WHERE ",
        "SELECT f(a ORDER BY ",
        "SELECT GROUPING SETS ((",
        "SELECT a FROM b GROUP BY ROLLUP (",
    ];

    fn source(text: &str) -> Source {
        Source {
            text: text.to_owned(),
            start: Position::START,
        }
    }

    /// Each beginning, and its part behind `SELECT`, again and again up to a number of tokens or another limit.
    fn nested(tokens: usize) -> Vec<String> {
        let mut texts = Vec::new();
        for beginning in NESTING {
            let repeated = beginning.strip_prefix("SELECT ").unwrap_or(beginning);
            for unit in [repeated, beginning] {
                let mut text = (*beginning).to_owned();
                loop {
                    let longer = format!("{text}{unit}");
                    match lex::lex(&source(&longer)) {
                        Ok(lexed) if lexed.tokens.len() <= tokens => text = longer,
                        _ => break,
                    }
                }
                texts.push(text);
            }
        }
        texts
    }

    /// With dependencies built at opt-level 0 this takes between 640 and 768 KiB, at opt-level 2 less than 256.
    #[test]
    fn queries_fit_a_small_stack_directly() {
        for text in nested(DIRECT_TOKENS_MAX) {
            let name = text.clone();
            thread::Builder::new()
                .stack_size(1 << 20)
                .spawn(move || {
                    let source = source(&text);
                    if let Ok(lexed) = lex::lex(&source) {
                        let _ = parse_with_limit(&source, lexed.tokens, DIRECT_RECURSION_MAX);
                    }
                })
                .unwrap()
                .join()
                .unwrap_or_else(|_| panic!("{name}"));
        }
    }

    #[test]
    fn everyday_queries_need_no_thread() {
        for text in [
            "SELECT * FROM corpora()",
            "SELECT word, COUNT(*) AS n FROM c WHERE file = ? GROUP BY word ORDER BY n DESC, word LIMIT 10",
            "SELECT COUNT(word) FROM c WHERE file = 'f' AND word = 'w'",
            "SELECT file, offset FROM c WHERE word IN ('a', 'b') AND (file = 'x') ORDER BY file, offset LIMIT ?",
            "SELECT substr(content, -101, 64) FROM files('c') WHERE file = 'f' ORDER BY file LIMIT -1",
        ] {
            let source = source(text);
            let tokens = lex::lex(&source).unwrap().tokens;
            assert!(tokens.len() <= DIRECT_TOKENS_MAX, "{text}");
            parse_with_limit(&source, tokens, DIRECT_RECURSION_MAX).unwrap();
        }
    }

    #[test]
    fn every_kind_of_nesting_ends_in_an_error() {
        for text in nested(1000) {
            assert!(parse(&text).is_err(), "{text}");
        }
    }

    /// Running out of depth makes sqlparser take another reading where it tries several; none of those may be a plan.
    #[test]
    fn what_is_understood_at_little_depth_means_the_same_at_full_depth() {
        use proptest::prelude::*;
        use proptest::test_runner::{Config, RngSeed, TestRunner};

        let fragments = [
            "NOT",
            "(",
            ")",
            "-",
            "CASE",
            "WHEN",
            "THEN",
            "END",
            "word",
            "=",
            "'a'",
            "AND",
            "IN",
            "file",
            "1",
            ",",
            "f(",
            "COUNT(*)",
            "INTERVAL",
            "AS",
            "substr(content, 1)",
            "position",
            "(SELECT",
            "FROM",
            "c",
            "ANY",
            "LIKE",
        ];
        let soup = |size: usize| {
            proptest::collection::vec(proptest::sample::select(fragments.to_vec()), 0..size)
        };
        let config = Config {
            cases: 20_000,
            rng_seed: RngSeed::Fixed(0x5eed),
            failure_persistence: None,
            ..Config::default()
        };
        TestRunner::new(config)
            .run(&(soup(3), soup(12)), |(items, conditions)| {
                let (items, conditions) = (items.join(" "), conditions.join(" "));
                let source = source(&format!(
                    "SELECT word {items} FROM c WHERE word = 'a' {conditions}"
                ));
                let Ok(lexed) = lex::lex(&source) else {
                    return Ok(());
                };
                if let Ok(select) = parse_with_limit(&source, lexed.tokens, DIRECT_RECURSION_MAX) {
                    let tokens = lex::lex(&source).unwrap().tokens;
                    let deep = parse_with_limit(&source, tokens, RECURSION_MAX);
                    prop_assert_eq!(deep, Ok(select), "{}", source.text);
                }
                Ok(())
            })
            .unwrap();
    }
}
