//! Texts made to break parsers: long chains, deep nesting, huge literals, garbage.
//!
//! Invariant: each gives a plan or an error that names a limit or a place; none panics, overflows a stack or takes long.
//! Random texts are in `properties`.

#![allow(clippy::unwrap_used)]

use zipfdb_sql::{Error, Plan, Result, Schema, bind, limits, parse};

struct OneCorpus;

impl Schema for OneCorpus {
    fn corpora(&self) -> Vec<String> {
        vec!["c".to_owned()]
    }
}

fn plan(text: &str) -> Result<Plan> {
    let statements = parse(text)?;
    let plan = bind(&statements[0], &OneCorpus, &[])?;
    assert_eq!(
        bind(&statements[0].clone(), &OneCorpus, &[]).as_ref(),
        Ok(&plan)
    );
    Ok(plan)
}

#[track_caller]
fn assert_too_large(text: &str) {
    match plan(text) {
        Err(error @ Error::TooLarge { .. }) => assert!(error.to_string().len() < 200),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_not_supported(text: &str) {
    match plan(text) {
        Err(error @ Error::NotSupported { .. }) => assert!(error.to_string().len() < 300),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_syntax(text: &str) {
    match plan(text) {
        Err(error @ Error::Syntax { .. }) => assert!(error.to_string().len() < 300),
        other => panic!("{other:?}"),
    }
}

/// `link` as often as the limit on chains allows; `tokens` is the number of tokens in a link.
fn longest(link: &str, tokens: usize) -> String {
    link.repeat((limits::CHAIN_TOKENS_MAX - 16) / tokens)
}

#[test]
fn the_longest_chain_of_conditions_is_a_plan() {
    let chain = longest(" AND word = 'a'", 4);
    plan(&format!("SELECT COUNT(*) FROM c WHERE file = 'f'{chain}")).unwrap();
}

#[test]
fn the_longest_chains_of_every_operator_are_refused() {
    for (link, tokens) in [
        (" + 1", 2),
        (" || 'a'", 2),
        (" OR 1", 2),
        (" = 1", 2),
        (" IS NULL", 2),
        (" COLLATE x", 2),
        (" ::int", 2),
        (" IN (1)", 4),
        (" BETWEEN 1 AND 2", 4),
        (" NOT LIKE 'a'", 3),
        (" AT TIME ZONE 'a'", 4),
    ] {
        let text = format!("SELECT COUNT(*) FROM c WHERE 1{}", longest(link, tokens));
        assert!(plan(&text).is_err(), "{link}");
        let text = format!("SELECT 1{} FROM c", longest(link, tokens));
        assert!(plan(&text).is_err(), "{link}");
        let text = format!("SELECT word FROM c ORDER BY 1{}", longest(link, tokens));
        assert!(plan(&text).is_err(), "{link}");
    }
}

#[test]
fn the_longest_chains_of_clauses_are_refused() {
    assert_not_supported(&format!("SELECT 1{}", longest(" UNION SELECT 1", 3)));
    assert_not_supported(&format!("SELECT 1{}", longest(" UNION ALL SELECT 1", 4)));
    assert_not_supported(&format!("SELECT 1 FROM c{}", longest(" JOIN c ON 1", 4)));
    assert_not_supported(&format!("SELECT 1 FROM c{}", longest(", c", 2)));
    assert_not_supported(&format!("SELECT a{} FROM c", longest(".a", 2)));
    assert_not_supported(&format!("SELECT 1 FROM c{}", longest(".c", 2)));
    assert!(plan(&format!("SELECT 1{}", longest(" FROM c", 2))).is_err());
    assert!(plan(&format!("SELECT COUNT(*) FROM c{}", longest(" JOIN (c", 3))).is_err());
    assert!(plan(&longest("SELECT ", 1)).is_err());
    assert!(plan(&longest("EXPLAIN ", 1)).is_err());
    assert!(plan(&longest("WITH a AS (SELECT ", 5)).is_err());
}

#[test]
fn longer_chains_exceed_a_limit() {
    assert_too_large(&format!("SELECT 1{} FROM c", "+1".repeat(100_000)));
    assert_too_large(&format!("SELECT 1{} FROM c", "+1".repeat(10_000)));
    assert_too_large(&format!(
        "SELECT a FROM c WHERE a{}",
        " AND a".repeat(100_000)
    ));
    assert_too_large(&format!("SELECT a FROM c WHERE a{}", " OR a".repeat(5_000)));
    assert_too_large(&format!("SELECT 1{}", " UNION SELECT 1".repeat(10_000)));
}

#[test]
fn long_lists_are_plans_up_to_the_limit_on_tokens() {
    let list = |count: usize| {
        let items: Vec<String> = (0..count).map(|i| format!("'{i}'")).collect();
        format!("SELECT COUNT(*) FROM c WHERE word IN ({})", items.join(","))
    };
    plan(&list(60_000)).unwrap();
    assert_too_large(&list(100_000));
    // Items that are more than one token count as a chain.
    assert_too_large(&list(10_000).replace(',', "+1,"));
}

#[test]
fn deep_nesting_exceeds_a_limit() {
    for (open, close) in [
        ("(", ")"),
        ("NOT ", ""),
        ("- ", ""),
        ("+", ""),
        ("~", ""),
        ("f(", ")"),
        ("CASE WHEN ", " THEN 1 END"),
        ("CASE ", " END"),
        ("(SELECT ", ")"),
        ("EXISTS (SELECT ", ")"),
        ("1 IN (SELECT ", ")"),
        ("1 = ANY (", ")"),
        ("CAST(", " AS INT)"),
        ("INTERVAL ", ""),
        ("NOT (", ")"),
    ] {
        for depth in [30, 100, 1_000, 5_000, 50_000] {
            let nested = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            for text in [
                format!("SELECT {nested} FROM c"),
                format!("SELECT word FROM c WHERE {nested}"),
                format!("SELECT word FROM c WHERE word = {nested}"),
                format!("SELECT COUNT(*) FROM c LIMIT {nested}"),
            ] {
                // Parentheses alone mean nothing, so a few of them are fine.
                if open != "(" || depth > limits::NESTING_MAX {
                    assert!(plan(&text).is_err(), "{open} {depth}");
                }
            }
        }
    }
    assert_too_large(&"(".repeat(100_000));
    assert_too_large(&format!("SELECT * FROM {}c", "(".repeat(1_000)));
    assert_too_large(&format!("SELECT {}1", "NOT ".repeat(5_000)));
    assert_too_large(&format!("SELECT {}1", "- ".repeat(5_000)));
}

#[test]
fn half_open_nesting_does_not_take_exponential_time() {
    // Each of these once made sqlparser, or another parser, try 2^n readings.
    for unit in [
        "(",
        "((SELECT ",
        "f(",
        "CASE WHEN ",
        "a(b(",
        "(a, ",
        "INTERVAL (",
        "(SELECT * FROM (",
        "NOT (",
        "IF(",
        "x IN (",
        "EXISTS (",
        "CAST((",
        "(VALUES (",
        "CASE (",
        "TRIM((",
        "LATERAL (",
    ] {
        for count in [15, 30, limits::NESTING_MAX] {
            let nested = unit.repeat(count);
            assert!(plan(&format!("SELECT {nested}")).is_err());
            assert!(plan(&format!("SELECT * FROM {nested}")).is_err());
            assert!(plan(&format!("SELECT * FROM c WHERE {nested}")).is_err());
        }
    }
}

#[test]
fn huge_literals_are_values_or_exceed_a_limit() {
    let word = "x".repeat(1_000_000);
    plan(&format!("SELECT COUNT(*) FROM c WHERE word = '{word}'")).unwrap();
    assert_too_large(&format!(
        "SELECT COUNT(*) FROM c WHERE word = '{word}{word}'"
    ));
    assert_too_large(&format!(
        "SELECT COUNT(*) FROM c LIMIT {}",
        "9".repeat(10_000)
    ));
    assert_too_large(&format!("SELECT COUNT(*) FROM {word}"));
    assert_too_large(&format!("SELECT COUNT(*) FROM \"{word}\""));
    let error = plan(&format!("SELECT COUNT(*) FROM c LIMIT '{word}'")).unwrap_err();
    assert!(error.to_string().len() < 200);
    assert!(error.excerpt().len() < 400);
    let error = plan(&format!("SELECT COUNT(*) '{word}' 'x'")).unwrap_err();
    assert!(error.to_string().len() < 300);
    assert!(
        plan(&format!(
            "SELECT COUNT(*) FROM c LIMIT 1e{}",
            "9".repeat(300)
        ))
        .is_err()
    );
    assert!(plan("SELECT COUNT(*) FROM c LIMIT 9223372036854775807").is_ok());
    assert!(plan("SELECT COUNT(*) FROM c LIMIT -9223372036854775808").is_ok());
    assert!(plan("SELECT COUNT(*) FROM c LIMIT 9223372036854775808").is_err());
}

#[test]
fn garbage_is_a_syntax_error() {
    for text in [
        "\0",
        "SELECT \0 FROM c",
        "SELECT 1 FROM c\0",
        "SELECT 'unclosed",
        "SELECT \"unclosed",
        "SELECT /* unclosed",
        "SELECT /* /* */ unclosed",
        "SELECT X'0'",
        "SELECT X'zz'",
        "SELECT 1a",
        "SELECT \"\"",
        "SELECT $",
        "SELECT $a",
        "SELECT \\uD800",
        "\u{fffd}",
        "SELECT \u{202e} FROM c",
        "SELECT \u{1f600} FROM c",
        "SELECT \u{2018}a\u{2019}",
        "\u{10ffff}",
        "!",
        ")",
        "SELECT )",
        "SELECT * FROM c WHERE",
        "SELECT * FROM c WHERE word =",
        "SELECT * FROM c WHERE word = 'a' AND",
        "SELECT COUNT(*) FROM",
        "SELECT COUNT(*) FROM c GROUP",
        "SELECT COUNT(*) FROM c GROUP BY",
        "SELECT COUNT(*) FROM c ORDER BY ,",
        "COPY",
        "COPY c",
        "COPY c FROM",
        "CREATE",
        "CREATE CORPUS",
        "CREATE CORPUS d WITH",
        "CREATE CORPUS d WITH (",
        "CREATE CORPUS d WITH (tokenizer",
        "CREATE CORPUS d WITH (tokenizer =",
        "CREATE CORPUS d WITH (tokenizer = 'unicode'",
        "CREATE CORPUS d WITH (tokenizer = 'unicode',",
        "CREATE CORPUS d WITH (tokenizer = 'unicode')) ",
        "DROP CORPUS",
        "CHECK",
    ] {
        assert_syntax(text);
    }
    assert_eq!(parse(""), Ok(Vec::new()));
    assert_eq!(parse(" ; ;; -- nothing\n /* here */ ;"), Ok(Vec::new()));
    plan("\u{feff}SELECT\u{a0}COUNT(*) FROM c").unwrap();
    plan("SELECT COUNT(*) FROM c WHERE word = 'a\0\u{1f600}'").unwrap();
}

#[test]
fn errors_repeat_the_text_only_in_printable_characters() {
    for text in [
        "CHECK c '\0' d",
        "COPY c FROM '\n\t' d",
        "SELECT \"a\nb\"(DISTINCT word) FROM c",
        "SELECT \"a\nb\"(word) FROM c",
        "SELECT \"a\nb\" FROM files('c')",
        "SELECT COUNT(*) FROM \"a\nb\"",
        "SELECT COUNT(*) FROM \"a\nb\"()",
        "SELECT COUNT(*) FROM c AS \"a\nb\" WHERE c.word = 'x'",
        "SELECT COUNT(*) FROM c WHERE word = \"a\nb\"",
        "SELECT COUNT(*) FROM c LIMIT 'a\nb'",
        "SELECT COUNT(*) FROM c \"a\nb\" \"c\nd\"",
        "CREATE CORPUS 'a\nb'",
        "CREATE CORPUS \"a\nb\"",
        "CREATE CORPUS d WITH (\"a\nb\" = 1)",
        "CREATE CORPUS d WITH (\"a\nb\" = 1, \"a\nb\" = 1)",
        "CREATE CORPUS d WITH (tokenizer = \"a\nb\")",
        "CREATE CORPUS d WITH (tokenizer = 'a\nb')",
        "CREATE CORPUS d WITH (segment_size = 'a\nb')",
        "COPY c FROM 'x' WITH (on_error = 'a\nb')",
        "COPY c FROM 'a\0b'",
    ] {
        let error = plan(text).unwrap_err();
        assert!(
            !error.to_string().contains(char::is_control),
            "{text:?}: {error}"
        );
    }
}
