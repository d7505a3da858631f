//! Queries and expressions, read by sqlparser.
//!
//! Invariant: sqlparser is recursive, and so are cloning, printing and dropping what it makes. So it runs on a stack that the
//! limits on nesting and chains cannot exceed. Its tree is turned into our flat types and dropped on that same stack, and is
//! never cloned or printed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use crate::cursor::Cursor;
use crate::dialect::{ZipfDialect, begins_query};
use crate::error::{Error, Hint, ParserFailure, Result};
use crate::lex;
use crate::limits;
use crate::lower;
use crate::mistake;
use crate::syntax::{NodeId, Nodes, Select};
use crate::translate;

/// Queries of at most this many tokens are first tried on the caller's stack, and with at most this much recursion.
/// `queries_fit_a_small_stack_directly` shows what that takes.
const DIRECT_TOKENS_MAX: usize = 256;
const DIRECT_RECURSION_MAX: usize = 8;

/// Recursion of the parser on its own thread: for each of `NESTING_MAX` one level for every strength of binding, of which there are
/// twelve, and some for a subquery.
const RECURSION_MAX: usize = 500;

/// Parses a query from its SELECT or WITH up to a token that cannot belong to it; a SELECT comes behind those that it reads.
pub(crate) fn query(cursor: &mut Cursor<'_>) -> Result<Vec<Select>> {
    let tokens = translate::tokens(cursor)?;
    let query = *cursor;
    let direct = tokens.len() <= DIRECT_TOKENS_MAX;
    let parsed = if direct {
        match parse_with_limit(query, tokens, DIRECT_RECURSION_MAX) {
            Err(Error::TooLarge { .. }) => {
                let tokens = translate::tokens(cursor)?;
                on_own_stack(query, || parse_with_limit(query, tokens, RECURSION_MAX))
            }
            done => done,
        }
    } else {
        on_own_stack(query, || parse_with_limit(query, tokens, RECURSION_MAX))
    };
    let (query, end) = parsed?;
    cursor.seek(end);
    Ok(query)
}

/// Parses an expression that ends before the token `end`, where `expected` must stand, and adds it to `nodes`, and the
/// subqueries in it to `subqueries`.
pub(crate) fn expression(
    cursor: &mut Cursor<'_>,
    end: usize,
    expected: &str,
    nodes: &mut Nodes,
    subqueries: &mut Vec<Select>,
) -> Result<NodeId> {
    lex::check_chain(cursor.source, cursor.tokens_until(end))?;
    let own = cursor.until(end);
    let tokens = translate::tokens(&own)?;
    let mark = nodes.mark();
    let known = subqueries.len();
    let mut parse = |tokens: Vec<TokenWithSpan>, recursion_max: usize| {
        nodes.reset(mark);
        subqueries.truncate(known);
        let target = (&mut *nodes, &mut *subqueries);
        expression_with_limit(*cursor, end, expected, target, tokens, recursion_max)
    };
    let direct = tokens.len() <= DIRECT_TOKENS_MAX;
    let root = if direct {
        match parse(tokens, DIRECT_RECURSION_MAX) {
            Err(Error::TooLarge { .. }) => {
                let tokens = translate::tokens(&own)?;
                on_own_stack(own, || parse(tokens, RECURSION_MAX))
            }
            done => done,
        }
    } else {
        on_own_stack(own, || parse(tokens, RECURSION_MAX))
    }?;
    cursor.seek(end);
    Ok(root)
}

fn expression_with_limit(
    cursor: Cursor<'_>,
    end: usize,
    expected: &str,
    (nodes, subqueries): (&mut Nodes, &mut Vec<Select>),
    tokens: Vec<TokenWithSpan>,
    recursion_max: usize,
) -> Result<NodeId> {
    caught(cursor, || {
        let mut parser = Parser::new(&ZipfDialect)
            .with_recursion_limit(recursion_max)
            .with_tokens_with_locations(tokens);
        let tree = parser
            .parse_expr()
            .map_err(|error| parser_error(cursor, end, &parser, error).1)?;
        let next = index_of_next(end, &parser);
        let mut lowered = cursor;
        let root = lower::expression(&mut lowered, nodes, subqueries, &tree)?;
        if lowered.index() != end || next != end {
            let at = lowered.index().min(next);
            return Err(mistake::explain(&cursor.at(at), expected));
        }
        Ok(root)
    })
}

/// Starting a thread costs some 20 to 50 microseconds; only what is long or nested gets here.
fn on_own_stack<A: Send>(
    cursor: Cursor<'_>,
    parse: impl FnOnce() -> Result<A> + Send,
) -> Result<A> {
    let failed = |reason| Error::Parser {
        at: cursor.source.at(cursor.byte()),
        reason,
    };
    thread::scope(|scope| {
        thread::Builder::new()
            .name("zipfdb-parser".to_owned())
            .stack_size(limits::PARSER_STACK_BYTES)
            .spawn_scoped(scope, parse)
            .map_err(|error| failed(ParserFailure::NoThread(error.kind())))?
            .join()
            .unwrap_or_else(|_| Err(failed(ParserFailure::Panicked)))
    })
}

/// The query, and the index of the token behind it.
fn parse_with_limit(
    cursor: Cursor<'_>,
    tokens: Vec<TokenWithSpan>,
    recursion_max: usize,
) -> Result<(Vec<Select>, usize)> {
    let end = cursor.index() + cursor.remaining();
    caught(cursor, || {
        let mut parser = Parser::new(&ZipfDialect)
            .with_recursion_limit(recursion_max)
            .with_tokens_with_locations(tokens);
        let query = match parser.parse_query() {
            Ok(query) => query,
            Err(error) => {
                let error = parser_error(cursor, end, &parser, error);
                let tokens = parser.into_tokens();
                return Err(subquery_error(cursor, tokens, recursion_max, error));
            }
        };
        let end = index_of_next(end, &parser);
        let mut lowered = cursor;
        let selects = lower::query(&mut lowered, &query)?;
        if lowered.index() != end {
            return Err(mistake::explain(&lowered, "the end of the statement"));
        }
        Ok((selects, end))
    })
}

/// A panic of sqlparser becomes an error. The process' panic hook, which is the host's to choose, still reports it.
fn caught<A>(cursor: Cursor<'_>, parse: impl FnOnce() -> Result<A>) -> Result<A> {
    catch_unwind(AssertUnwindSafe(parse)).unwrap_or_else(|_| {
        Err(Error::Parser {
            at: cursor.source.at(cursor.byte()),
            reason: ParserFailure::Panicked,
        })
    })
}

/// The index of the token that the parser stands before; `end` if that is behind all that it was given.
fn index_of_next(end: usize, parser: &Parser<'_>) -> usize {
    translate::index_of(parser.peek_token_ref().span.start).unwrap_or(end)
}

/// sqlparser's error in our words, and the index of the token where it is. Its message ends with the place, as
/// `translate` encodes it.
fn parser_error(
    cursor: Cursor<'_>,
    end: usize,
    parser: &Parser<'_>,
    error: ParserError,
) -> (usize, Error) {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
        ParserError::RecursionLimitExceeded => {
            let at = cursor.at(index_of_next(end, parser));
            return (at.index(), translate::too_deep(&at));
        }
    };
    let (message, index) = match message.rsplit_once(" at Line: 1, Column: ") {
        Some((message, column)) => (message, column.parse().ok()),
        None => (message.as_str(), None),
    };
    let index = index.and_then(|column| translate::index_of(Location::new(1, column)));
    let at = cursor.at(index.unwrap_or(end));
    let expected = message
        .strip_prefix("Expected: ")
        .and_then(|rest| rest.rsplit_once(", found"));
    let (at, expected) = match expected {
        Some((expected, _)) => (at, expected.trim()),
        // Both ALL and DISTINCT: the error is at the first.
        None if message.starts_with("Cannot specify") => {
            (cursor.at(at.index() + 1), "an expression")
        }
        None => (at, "valid SQL"),
    };
    (at.index(), mistake::explain_expected(&at, expected))
}

/// The error, or the one within a subquery that is the reason for it. sqlparser takes back what it could not read in the
/// parentheses behind FROM and IN, tries other readings, and reports only why those fail.
fn subquery_error(
    cursor: Cursor<'_>,
    mut tokens: Vec<TokenWithSpan>,
    recursion_max: usize,
    (mut index, mut error): (usize, Error),
) -> Error {
    let is_from = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::FROM);
    let opens = |tokens: &[TokenWithSpan]| {
        let pair = tokens.windows(2).position(|pair| {
            let is_open = pair[1].token == Token::LParen;
            is_open && is_from(&pair[0])
                || pair[0].token == Token::LParen && begins_query(&pair[1].token)
        })?;
        let in_from = is_from(&tokens[pair]);
        Some((pair + 1 + usize::from(in_from), in_from))
    };
    let end_of_query = cursor.index() + cursor.remaining();
    while let Some((first, in_from)) = opens(&tokens) {
        tokens.drain(..first);
        let first = tokens.first();
        let first = first.and_then(|token| translate::index_of(token.span.start));
        let begin = cursor.at(first.unwrap_or(usize::MAX));
        if index < begin.index() {
            break;
        }
        if !begin.peek_word("SELECT") && !begin.peek_word("WITH") {
            let hint = Hint::new("parentheses in FROM hold a subquery");
            return begin.unexpected("`SELECT`", hint);
        }
        let mut parser = Parser::new(&ZipfDialect)
            .with_recursion_limit(recursion_max)
            .with_tokens_with_locations(tokens);
        match parser.parse_query() {
            Err(inner) => (index, error) = parser_error(cursor, end_of_query, &parser, inner),
            Ok(_) => {
                let mut end = cursor.at(index_of_next(end_of_query, &parser));
                if !end.take(")") {
                    return mistake::explain(&end, "`)`");
                }
                if index < end.index() && in_from {
                    // What is left of the reading that was taken back is the alias.
                    return match end.alias() {
                        Err(error) => error,
                        Ok(_) if end.peek_symbol("(") => {
                            let (what, hint) = mistake::ALIAS_WITH_COLUMNS;
                            end.refuse(what, hint)
                        }
                        Ok(_) => error,
                    };
                }
            }
        }
        tokens = parser.into_tokens();
    }
    error
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::Position;
    use crate::lex::SourceText;
    use crate::parse::parse;

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
        "SELECT a = NOT ",
        "SELECT a BETWEEN b AND NOT ",
        "SELECT a LIKE b ESCAPE - ",
        "SELECT a OR b AND NOT c = d < e + f * g || - CASE a WHEN ",
        "SELECT a FROM (SELECT a OR (b) FROM ",
        "SELECT a FROM b GROUP BY ROLLUP (",
    ];

    fn source(text: &str) -> SourceText {
        SourceText {
            text: text.to_owned(),
            start: Position::START,
        }
    }

    fn with_limit(text: &str, recursion_max: usize) -> Result<Vec<Select>> {
        let source = source(text);
        let lexed = lex::lex(&source)?;
        let cursor = Cursor::new(&source, &lexed.tokens);
        let tokens = translate::tokens(&cursor)?;
        parse_with_limit(cursor, tokens, recursion_max).map(|(query, _)| query)
    }

    /// Whether a text stays within the limits that are checked before it is parsed.
    fn fits(text: &str) -> bool {
        let source = source(text);
        let tokens = lex::lex(&source).unwrap().tokens;
        translate::tokens(&Cursor::new(&source, &tokens)).is_ok()
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
                        Ok(lexed) if lexed.tokens.len() <= tokens && fits(&longer) => text = longer,
                        _ => break,
                    }
                }
                texts.push(text);
            }
        }
        texts
    }

    /// With everything built at opt-level 0 this takes less than 1 MiB, with dependencies at opt-level 2 less than 256 KiB.
    #[test]
    fn queries_fit_a_small_stack_directly() {
        for text in nested(DIRECT_TOKENS_MAX) {
            let name = text.clone();
            thread::Builder::new()
                .stack_size(1 << 20)
                .spawn(move || {
                    let _ = with_limit(&text, DIRECT_RECURSION_MAX);
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
            "SELECT ngram, COUNT(*) FROM ngrams('c', n => 2) GROUP BY ngram HAVING COUNT(*) > 1 ORDER BY 2 DESC",
            "SELECT file, SUM(length) FILTER (WHERE word LIKE 'a%') FROM c WHERE NOT (word = 'b' OR length BETWEEN 1 AND 2 + 3) GROUP BY file",
            "SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM c WHERE word = 'a' AND offset IS NOT NULL GROUP BY file) AS t",
        ] {
            let tokens = lex::lex(&source(text)).unwrap().tokens;
            assert!(tokens.len() <= DIRECT_TOKENS_MAX, "{text}");
            if let Err(error) = with_limit(text, DIRECT_RECURSION_MAX) {
                panic!("{text}: {error}");
            }
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
            cases: 5_000,
            rng_seed: RngSeed::Fixed(0x5eed),
            failure_persistence: None,
            ..Config::default()
        };
        TestRunner::new(config)
            .run(&(soup(3), soup(12)), |(items, conditions)| {
                let (items, conditions) = (items.join(" "), conditions.join(" "));
                let text = format!("SELECT word {items} FROM c WHERE word = 'a' {conditions}");
                let direct = with_limit(&text, DIRECT_RECURSION_MAX);
                if !matches!(direct, Err(Error::TooLarge { .. })) {
                    prop_assert_eq!(with_limit(&text, RECURSION_MAX), direct, "{}", text);
                }
                Ok(())
            })
            .unwrap();
    }
}
