//! Random texts: any characters, fragments of SQL in any order, and statements with small mistakes.
//!
//! Invariant: every text gives plans or an error with a place inside it, and the same plan however it is spaced. The seed
//! is fixed; ZIPFDB_SQL_SEED and ZIPFDB_SQL_CASES change seed and number.

#![allow(clippy::unwrap_used)]

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use zipfdb_sql::{Error, Plan, Schema, StatementStream, Value, bind, parse, parse_statement};

struct Corpora;

impl Schema for Corpora {
    fn corpora(&self) -> Vec<String> {
        ["c", "reviews", "two words"].map(String::from).to_vec()
    }

    fn section_columns(&self) -> Vec<String> {
        vec!["root_bytes".to_owned()]
    }
}

fn runner() -> TestRunner {
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |value| value.parse().unwrap());
    let seed = number("ZIPFDB_SQL_SEED", 0x5eed);
    println!("ZIPFDB_SQL_SEED={seed}");
    TestRunner::new(Config {
        cases: u32::try_from(number("ZIPFDB_SQL_CASES", 3_000)).unwrap(),
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::default()
    })
}

/// Parses and binds, and checks what must hold for any text.
fn check(text: &str) -> Result<(), TestCaseError> {
    let parameters = [
        Value::from("a"),
        Value::from(1),
        Value::Null,
        Value::from(1.5),
    ];
    let plans = parse(text).and_then(|statements| {
        for statement in &statements {
            let start = usize::try_from(statement.position().byte).unwrap();
            assert!(text[start..].starts_with(statement.text()));
            let given = statement.parameter_count().min(parameters.len());
            let first = bind(statement, &Corpora, &parameters[..given]);
            let again = parse_statement(statement.text().into()).unwrap();
            let second = bind(&again, &Corpora, &parameters[..given]);
            assert_eq!(first.as_ref().ok(), second.as_ref().ok());
            first?;
        }
        Ok(())
    });
    if let Err(error) = plans {
        let shown = error.to_string();
        prop_assert!(!shown.contains(char::is_control), "{shown:?}");
        prop_assert!(shown.len() < 2_000, "{shown}");
        prop_assert!(!matches!(error, Error::Parser { .. }), "{shown}");
        prop_assert_eq!(error.excerpt().lines().count(), 2);
        let position = error.position();
        let byte = usize::try_from(position.byte).unwrap();
        prop_assert!(text.is_char_boundary(byte), "{}", shown);
        let before = &text[..byte];
        prop_assert_eq!(before.matches('\n').count() as u64 + 1, position.line);
        let column = before.rsplit('\n').next().unwrap().chars().count() as u64 + 1;
        prop_assert_eq!(column, position.column);
    }
    Ok(())
}

/// Words, names, literals and operators: what SQL is made of, ours and foreign.
const FRAGMENTS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "LIMIT",
    "OFFSET",
    "AND",
    "OR",
    "NOT",
    "IN",
    "AS",
    "DESC",
    "ASC",
    "CREATE",
    "CORPUS",
    "DROP",
    "COPY",
    "TO",
    "CHECK",
    "IF",
    "EXISTS",
    "WITH",
    "IS",
    "NULL",
    "BETWEEN",
    "LIKE",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "UNION",
    "ALL",
    "DISTINCT",
    "JOIN",
    "ON",
    "HAVING",
    "CAST",
    "INTERVAL",
    "VALUES",
    "OVER",
    "FILTER",
    "COLLATE",
    "ANY",
    "LATERAL",
    "ARRAY",
    "STRUCT",
    "EXTRACT",
    "POSITION",
    "SUBSTRING",
    "TRIM",
    "DATE",
    "FOR",
    "FETCH",
    "NULLS FIRST",
    "RECURSIVE",
    "QUALIFY",
    "WINDOW",
    "USING",
    "INSERT",
    "EXPLAIN",
    "SET",
    "TABLE",
    "c",
    "reviews",
    "\"two words\"",
    "word",
    "file",
    "offset",
    "content",
    "bytes",
    "n",
    "count",
    "substr",
    "corpora",
    "files",
    "segments",
    "ngrams",
    "tokenizer",
    "segment_size",
    "on_error",
    "r.word",
    "c.*",
    "COUNT(*)",
    "COUNT(word)",
    "corpora()",
    "files('c')",
    "segments('reviews')",
    "substr(content, 1, 2)",
    "word = 'a'",
    "file IN ('a', 'b')",
    "'a'",
    "'it''s'",
    "''",
    "'64MiB'",
    "0",
    "1",
    "-1",
    "1.5",
    "9223372036854775808",
    "1e9",
    "X'00ff'",
    "?",
    "?2",
    "$1",
    "(",
    ")",
    ",",
    ".",
    "*",
    "=",
    "==",
    "<>",
    "!=",
    "<",
    ">",
    "<=",
    ">=",
    "+",
    "-",
    "/",
    "%",
    "||",
    "|",
    "&",
    "~",
    "<<",
    "::",
    "=>",
    ";",
    "--",
    "/*",
    "*/",
    "'",
    "\"",
    "\n",
    "\t",
    "`",
    "[",
    "]",
    "{",
    "}",
    ":",
    "@",
    "#",
    "\\",
    "^",
    "!",
    "\0",
    "\u{e9}",
    "\u{65e5}\u{672c}",
    "\u{1f600}",
    "\u{feff}",
    "\u{2019}",
    "1a",
    "_x",
    "\u{301}",
];

/// Statements that are plans, token by token.
const STATEMENTS: &[&str] = &[
    "SELECT word , COUNT ( * ) AS n FROM c WHERE file = 'a' GROUP BY word ORDER BY n DESC , word LIMIT 10 OFFSET 2",
    "SELECT COUNT ( word ) FROM reviews WHERE file = 'f' AND word IN ( 'a' , 'b' , NULL )",
    "SELECT r . file , offset FROM reviews AS r WHERE word = ? AND ( file = ? ) ORDER BY file , offset LIMIT - 1",
    "SELECT substr ( content , 101 , - 64 ) , substring ( content FROM 2 FOR 3 ) FROM files ( 'c' ) WHERE file = $1",
    "SELECT * FROM files ( 'two words' ) ORDER BY bytes DESC , 1",
    "SELECT corpus , ratio FROM corpora ( ) WHERE corpus IN ( 'c' ) ORDER BY 2",
    "SELECT s . * , root_bytes AS b FROM segments ( 'c' ) s ORDER BY b",
    "CREATE CORPUS IF NOT EXISTS \"new one\" WITH ( tokenizer = 'alnum' , segment_size = '64KiB' )",
    "DROP CORPUS IF EXISTS nothing",
    "COPY c FROM 'path; -- no comment' WITH ( on_error = 'skip' )",
    "COPY \"two words\" TO ?",
    "CHECK reviews",
];

#[test]
fn no_text_panics() {
    runner().run(&any::<String>(), |text| check(&text)).unwrap();
    let ascii = vec(0u8..128, 0..200).prop_map(|bytes| String::from_utf8(bytes).unwrap());
    runner().run(&ascii, |text| check(&text)).unwrap();
}

#[test]
fn no_mixture_of_fragments_panics() {
    let separator = select(&["", " ", " ", " ", " "][..]);
    let soup = vec((select(FRAGMENTS), separator), 0..60).prop_map(|parts| {
        let parts: Vec<String> = parts
            .iter()
            .map(|(part, separator)| format!("{part}{separator}"))
            .collect();
        parts.concat()
    });
    runner().run(&soup, |text| check(&text)).unwrap();
    runner()
        .run(&soup, |text| check(&format!("SELECT {text}")))
        .unwrap();
    runner()
        .run(&soup, |text| {
            check(&format!("SELECT word FROM c WHERE {text}"))
        })
        .unwrap();
}

#[test]
fn no_mistake_in_a_statement_panics() {
    let edit = (any::<prop::sample::Index>(), 0..4u8, select(FRAGMENTS));
    let edited = (select(STATEMENTS), vec(edit, 1..4)).prop_map(|(statement, edits)| {
        let mut tokens: Vec<&str> = statement.split(' ').collect();
        for (index, action, fragment) in edits {
            let index = index.index(tokens.len() + 1);
            match action {
                0 => tokens.insert(index, fragment),
                1 if index < tokens.len() => tokens[index] = fragment,
                2 if index < tokens.len() => {
                    tokens.remove(index);
                }
                _ => tokens.truncate(index),
            }
        }
        tokens.join(" ")
    });
    runner().run(&edited, |text| check(&text)).unwrap();
}

fn plan(text: &str) -> Plan {
    let statements = parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    assert_eq!(statements.len(), 1);
    let parameters = vec![Value::from("p"); statements[0].parameter_count()];
    let mut plan = bind(&statements[0], &Corpora, &parameters)
        .unwrap_or_else(|error| panic!("{text}\n{error}"));
    if let Plan::Query(query) = &mut plan {
        // Columns without an alias are named by their text, spaces and all.
        query.columns.clear();
    }
    plan
}

#[test]
fn plans_do_not_depend_on_spaces_comments_and_case() {
    let separator = select(
        &[
            " ",
            "\n",
            "\t \r\n",
            "/**/",
            " /* ; ' */ ",
            " -- ; '\n",
            "\u{a0}",
            "/* /* */ */",
        ][..],
    );
    let spaced = (select(STATEMENTS), vec((separator, any::<bool>()), 64));
    runner()
        .run(&spaced, |(statement, separators)| {
            let mut text = String::new();
            for (token, (separator, lower)) in
                split_outside_quotes(statement).iter().zip(separators)
            {
                let quoted = token.starts_with(['\'', '"']);
                text.push_str(&if lower && !quoted {
                    token.to_lowercase()
                } else {
                    (*token).to_owned()
                });
                text.push_str(separator);
            }
            prop_assert_eq!(plan(&text), plan(statement), "{}", text);
            Ok(())
        })
        .unwrap();
}

/// Tokens of `STATEMENTS`, which have spaces between all tokens, and within quotes too.
fn split_outside_quotes(statement: &str) -> Vec<&str> {
    let mut quote = None;
    statement
        .split(|c: char| {
            match quote {
                None if c == '\'' || c == '"' => quote = Some(c),
                Some(open) if c == open => quote = None,
                _ => {}
            }
            c == ' ' && quote.is_none()
        })
        .collect()
}

#[test]
fn a_stream_gives_the_same_statements_whatever_the_pieces() {
    let soup = vec(select(FRAGMENTS), 0..60).prop_map(|parts| parts.concat());
    let cuts = vec(any::<prop::sample::Index>(), 0..20);
    runner()
        .run(&(soup, cuts), |(text, cuts)| {
            let mut bounds: Vec<usize> = cuts
                .iter()
                .map(|cut| text.floor_char_boundary(cut.index(text.len() + 1)))
                .collect();
            bounds.extend([0, text.len()]);
            bounds.sort_unstable();
            let mut stream = StatementStream::new();
            let mut statements = Vec::new();
            for window in bounds.windows(2) {
                stream.feed(&text[window[0]..window[1]]);
                statements.extend(std::iter::from_fn(|| stream.next_statement()));
            }
            statements.extend(stream.finish());
            let mut whole = StatementStream::new();
            whole.feed(&text);
            let mut expected: Vec<_> = std::iter::from_fn(|| whole.next_statement()).collect();
            expected.extend(whole.finish());
            prop_assert_eq!(&statements, &expected);
            for statement in statements {
                let statement = statement.unwrap();
                let start = usize::try_from(statement.start.byte).unwrap();
                prop_assert!(text[start..].starts_with(&statement.text));
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_stream_cuts_where_a_naive_reader_does() {
    let parts = [
        "a", "1", ";", ";", "'", "''", "\"", "-", "--", "/", "*", "/*", "*/", "\n", " ", "\u{e9}",
        "'x;y'", "\"x;y\"",
    ];
    let soup = vec(select(parts.to_vec()), 0..40).prop_map(|parts| parts.concat());
    runner()
        .run(&soup, |text| {
            let mut stream = StatementStream::new();
            stream.feed(&text);
            let mut found: Vec<String> = Vec::new();
            while let Some(statement) = stream.next_statement() {
                found.push(statement.unwrap().text);
            }
            found.extend(stream.finish().map(|statement| statement.unwrap().text));
            prop_assert_eq!(found, naive_split(&text), "{:?}", text);
            Ok(())
        })
        .unwrap();
}

/// Reads with the whole text at hand: at each place it finds the end of what begins there.
fn naive_split(text: &str) -> Vec<String> {
    let mut statements = Vec::new();
    let mut begin = None;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let until = |end: Option<usize>| end.unwrap_or(rest.len());
        if rest.starts_with("--") {
            at += until(rest.find('\n'));
        } else if rest.starts_with("/*") {
            at += naive_comment(rest);
        } else if rest.starts_with(['\'', '"']) {
            begin = begin.or(Some(at));
            at += until(rest[1..].find(&rest[..1]).map(|length| length + 2));
        } else if rest.starts_with(';') {
            statements.extend(begin.take().map(|begin: usize| text[begin..at].to_owned()));
            at += 1;
        } else {
            let character = rest.chars().next().unwrap();
            if !character.is_whitespace() {
                begin = begin.or(Some(at));
            }
            at += character.len_utf8();
        }
    }
    statements.extend(begin.map(|begin| text[begin..].to_owned()));
    statements
}

fn naive_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}
