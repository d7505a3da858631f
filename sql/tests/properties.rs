//! Random texts: any characters, fragments of SQL in any order, and statements with small mistakes.
//!
//! Invariant: every text gives plans or an error with a place inside it, and the same plan however it is spaced and
//! whatever needless parentheses it has. The seed
//! is fixed; ZIPFDB_SQL_SEED and ZIPFDB_SQL_CASES change seed and number.

use crate::plan_text;
use std::cell::Cell;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use zipfdb_sql::{Plan, Schema, StatementStream, Value, bind, parse, parse_statement};

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
    ]
    .map(Arc::new);
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
    "INSERT INTO",
    "REPLACE INTO",
    "DELETE FROM",
    "BEGIN",
    "COMMIT",
    "(file, content)",
    "VALUES ('a', 'b')",
    "INSERT INTO c (file, content) VALUES",
    "RECOMPRESS",
    "durability",
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
    "on_conflict",
    "encoding",
    "r.word",
    "c.*",
    "COUNT(*)",
    "COUNT(word)",
    "corpora()",
    "GLOB",
    "REGEXP",
    "ESCAPE",
    "ISNULL",
    "COLLATE NOCASE",
    "NOT NULL",
    "DISTINCT FROM",
    "ANALYZE",
    "RESET",
    "ALTER",
    "device",
    "sum(length)",
    "lower(word)",
    "ngrams('c', 2)",
    "n => 2",
    "(SELECT * FROM c)",
    "CAST(word AS TEXT)",
    "CASE WHEN word THEN 1 END",
    "max(",
    "FILTER (WHERE",
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
    "->",
    "->>",
    "VARCHAR(10)",
    "VIEW",
    "TEMP",
    "WITHIN",
    "group_concat(",
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
    "SELECT DISTINCT lower ( word ) AS w , - offset + 1 * 2 FROM c WHERE NOT ( word LIKE 'a%' ESCAPE '!' OR offset BETWEEN 1 AND 2 ) ORDER BY w COLLATE NOCASE DESC NULLS LAST",
    "SELECT file , COUNT ( DISTINCT word ) FILTER ( WHERE length > 3 ) AS n FROM c GROUP BY file HAVING n >= 1 AND MAX ( offset ) IS NOT NULL",
    "SELECT CASE word WHEN 'a' THEN 1 ELSE 2 END , CAST ( offset AS TEXT ) || 'x' FROM ( SELECT * FROM c LIMIT 5 ) AS t WHERE t . word GLOB 'a*' AND word NOT REGEXP '^b'",
    "SELECT ngram , COUNT ( * ) FROM ngrams ( 'c' , n => 3 ) GROUP BY 1 ORDER BY COUNT ( * ) DESC LIMIT 5",
    "SELECT * FROM term_vectors ( 'c' , 5 ) WHERE rank IS DISTINCT FROM 1 AND count IN ( 1 , ? )",
    "EXPLAIN ANALYZE SELECT COUNT ( * ) FROM c",
    "EXPLAIN ( ANALYZE , FORMAT json ) SELECT 1 UNION SELECT 2",
    "WITH t ( a , b ) AS ( SELECT word , COUNT ( * ) FROM c GROUP BY word ) SELECT a FROM t WHERE b > ( SELECT AVG ( b ) FROM t ) UNION ALL SELECT 'x' ORDER BY 1 LIMIT 2 , 3",
    "SELECT word FROM c WHERE word NOT IN ( SELECT word FROM reviews ) AND EXISTS ( SELECT 1 ) OR NOT EXISTS ( SELECT * FROM c )",
    "SELECT word :: VARCHAR ( 10 ) , word ->> 'a' -> 0 , CAST ( word AS DOUBLE PRECISION ) FROM c LIMIT 1 + 1",
    "SELECT group_concat ( DISTINCT word ORDER BY word DESC ) , percentile_cont ( 0.5 ) WITHIN GROUP ( ORDER BY length ) FILTER ( WHERE 1 ) FROM c",
    "COPY ( SELECT word FROM c WHERE word ISNULL ) TO 'x.csv' WITH ( format = 'json' )",
    "SET memory_limit = '64MiB'",
    "RESET device",
    "ALTER CORPUS c SET ( segment_size = 65536 )",
    "INSERT INTO c ( file , content ) VALUES ( 'a' , 'b; c' ) , ( ? , lower ( 'X' ) || - 1 )",
    "INSERT INTO \"two words\" ( file , offset , content ) VALUES ( 'a' , - 0 , X'00' ) , ( 'b' , ?1 + 2 , CASE WHEN 1 THEN 'x' END )",
    "INSERT INTO reviews ( content , file ) SELECT content , file FROM files ( 'c' ) WHERE bytes < 10",
    "REPLACE INTO c ( content , file ) VALUES ( 'a' , 'b' )",
    "DELETE FROM c WHERE file LIKE 'a%' AND NOT c . file IN ( 'a' , ? )",
    "BEGIN IMMEDIATE TRANSACTION",
    "COMMIT",
    "ROLLBACK",
    "RECOMPRESS reviews",
    "SET durability = 'off'",
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
    let parameters = vec![Value::from("p").into(); statements[0].parameter_count()];
    let mut plan = bind(&statements[0], &Corpora, &parameters)
        .unwrap_or_else(|error| panic!("{text}\n{error}"));
    // Columns without an alias are named by their text, spaces and all.
    if let Plan::Query(query)
    | Plan::Explain { query, .. }
    | Plan::CopyQuery { query, .. }
    | Plan::CopyTable { query, .. }
    | Plan::Insert { query, .. } = &mut plan
    {
        for output in query.blocks.iter_mut().flat_map(|block| &mut block.outputs) {
            output.name.clear();
        }
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

/// An operator tree, to be written with all parentheses or with the needed ones.
#[derive(Debug, Clone)]
enum Tree {
    Leaf(&'static str),
    Prefix(&'static str, u8, Box<Tree>),
    Postfix(&'static str, u8, Box<Tree>),
    Infix(&'static str, u8, Box<Tree>, Box<Tree>),
}

/// Operators from loose to tight, as https://www.sqlite.org/lang_expr.html lists them.
const INFIX: &[(&str, u8)] = &[
    ("OR", 1),
    ("AND", 2),
    ("=", 4),
    ("==", 4),
    ("<>", 4),
    ("!=", 4),
    ("IS", 4),
    ("IS NOT", 4),
    ("IS DISTINCT FROM", 4),
    ("IS NOT DISTINCT FROM", 4),
    ("LIKE", 4),
    ("NOT GLOB", 4),
    ("REGEXP", 4),
    ("<", 5),
    ("<=", 5),
    (">", 5),
    (">=", 5),
    ("+", 7),
    ("-", 7),
    ("*", 8),
    ("/", 8),
    ("%", 8),
    ("||", 9),
];

const POSTFIX: &[(&str, u8)] = &[
    ("IS NULL", 4),
    ("NOT NULL", 4),
    ("ISNULL", 4),
    ("NOTNULL", 4),
    ("IN (1, word)", 4),
    ("NOT IN ()", 4),
    ("BETWEEN 1 AND offset + 1", 4),
    ("COLLATE NOCASE", 10),
];

impl Tree {
    fn full(&self) -> String {
        match self {
            Tree::Leaf(leaf) => (*leaf).to_owned(),
            Tree::Prefix(operator, _, inner) => format!("({operator} ({}))", inner.full()),
            Tree::Postfix(operator, _, inner) => format!("(({}) {operator})", inner.full()),
            Tree::Infix(operator, _, left, right) => {
                format!("(({}) {operator} ({}))", left.full(), right.full())
            }
        }
    }

    fn precedence(&self) -> u8 {
        match self {
            Tree::Leaf(_) => 100,
            Tree::Prefix(_, precedence, _)
            | Tree::Postfix(_, precedence, _)
            | Tree::Infix(_, precedence, ..) => *precedence,
        }
    }

    /// With parentheses if it binds looser than `minimum`.
    fn within(&self, minimum: u8) -> String {
        let text = self.short();
        if self.precedence() < minimum {
            format!("({text})")
        } else {
            text
        }
    }

    fn short(&self) -> String {
        match self {
            Tree::Leaf(leaf) => (*leaf).to_owned(),
            Tree::Prefix(operator, precedence, inner) => {
                format!("{operator} {}", inner.within(*precedence))
            }
            Tree::Postfix(operator, precedence, inner) => {
                format!("{} {operator}", inner.within(*precedence))
            }
            Tree::Infix(operator, precedence, left, right) => {
                let (left, right) = (left.within(*precedence), right.within(precedence + 1));
                format!("{left} {operator} {right}")
            }
        }
    }
}

#[test]
fn operators_bind_as_in_sqlite() {
    let leaf =
        select(&["1", "'a'", "word", "offset", "?1", "lower(word)"][..]).prop_map(Tree::Leaf);
    let tree = leaf.prop_recursive(6, 24, 2, |inner| {
        prop_oneof![
            (select(INFIX), inner.clone(), inner.clone()).prop_map(
                |((operator, precedence), left, right)| {
                    Tree::Infix(operator, precedence, Box::new(left), Box::new(right))
                }
            ),
            (select(POSTFIX), inner.clone()).prop_map(|((operator, precedence), inner)| {
                Tree::Postfix(operator, precedence, Box::new(inner))
            }),
            (select(&[("NOT", 3), ("+", 11)][..]), inner).prop_map(
                |((operator, precedence), inner)| {
                    Tree::Prefix(operator, precedence, Box::new(inner))
                }
            ),
        ]
    });
    runner()
        .run(&tree, |tree| {
            let (short, full) = (tree.short(), tree.full());
            let of = |text: &str| plan(&format!("SELECT {text} FROM c WHERE {text}"));
            prop_assert_eq!(of(&short), of(&full), "{}", short);
            Ok(())
        })
        .unwrap();
}

/// Where sqlparser by itself would read something else.
#[test]
fn operators_that_sqlparser_reads_otherwise_bind_as_in_sqlite() {
    for (short, full) in [
        ("1 BETWEEN 2 = 3 AND 4", "1 BETWEEN (2 = 3) AND 4"),
        (
            "1 BETWEEN 2 IS NULL AND 3 IN (4)",
            "(1 BETWEEN (2 IS NULL) AND 3) IN (4)",
        ),
        (
            "1 BETWEEN 2 LIKE 3 IS 4 AND 5",
            "1 BETWEEN ((2 LIKE 3) IS 4) AND 5",
        ),
        (
            "1 BETWEEN 2 GLOB 3 ISNULL AND 4",
            "1 BETWEEN ((2 GLOB 3) ISNULL) AND 4",
        ),
        (
            "1 BETWEEN (2) AND 3 = 4 AND 5",
            "((1 BETWEEN 2 AND 3) = 4) AND 5",
        ),
        (
            "1 BETWEEN CASE WHEN 2 AND 3 THEN 4 END = 5 AND 6",
            "1 BETWEEN (CASE WHEN (2 AND 3) THEN 4 END = 5) AND 6",
        ),
        ("1 NOT GLOB NULL = 2", "(1 NOT GLOB (NULL)) = 2"),
        ("1 REGEXP NULL IS NOT NULL", "(1 REGEXP (NULL)) IS NOT NULL"),
        (
            "1 NOT LIKE NULL || 2 ESCAPE 3 || 4 = 5",
            "(1 NOT LIKE (NULL || 2) ESCAPE (3 || 4)) = 5",
        ),
        ("1 IS NULL || 2", "1 IS (NULL || 2)"),
        ("1 ISNULL || 2", "(1 ISNULL) || 2"),
        (
            "1 IS NOT DISTINCT FROM 2 < 3 = 4",
            "(1 IS NOT DISTINCT FROM (2 < 3)) = 4",
        ),
        (
            "- word COLLATE NOCASE || 1",
            "((- word) COLLATE NOCASE) || 1",
        ),
        ("- 1 || 2 * 3", "((-1) || 2) * 3"),
        ("1 * 2 || 3", "1 * (2 || 3)"),
        ("1 = 2 < 3", "1 = (2 < 3)"),
        ("NOT 1 IS NULL", "NOT (1 IS NULL)"),
        ("1 = NOT 2 = 3", "1 = (NOT (2 = 3))"),
        ("1 == 2 <> 3 != 4", "((1 == 2) <> 3) != 4"),
        (
            "substring(word FROM 2 FOR length)",
            "substr(word, 2, length)",
        ),
        (
            "word COLLATE NOCASE COLLATE BINARY = 'a'",
            "((word COLLATE NOCASE) COLLATE BINARY) = 'a'",
        ),
    ] {
        let of = |text: &str| plan(&format!("SELECT {text} FROM c WHERE {text}"));
        assert_eq!(of(short), of(full), "{short}");
    }
}

/// Any expression, as text; `aggregates` allows those.
fn expression(aggregates: bool) -> impl Strategy<Value = String> {
    let leaves = [
        "1",
        "-2",
        "1.5",
        "'a'",
        "'7'",
        "''",
        "NULL",
        "TRUE",
        "X'00'",
        "word",
        "c.file",
        "offset",
        "length",
        "position",
        "?1",
        "binding()",
        "9223372036854775807",
    ];
    let leaf = select(leaves.to_vec()).prop_map(String::from);
    leaf.prop_recursive(5, 32, 4, move |inner| {
        let pair = (inner.clone(), inner.clone());
        let triple = (inner.clone(), inner.clone(), inner.clone());
        let operators: Vec<&str> = INFIX.iter().map(|(operator, _)| *operator).collect();
        // Unary plus only takes an affinity away, which a plan does not show.
        let unary = [
            "NOT ({})", "-({})", "({}) IS NULL", "({}) NOTNULL", "({}) IS TRUE", "({}) IS NOT FALSE",
            "({}) COLLATE NOCASE", "({}) COLLATE BINARY", "CAST({} AS TEXT)", "CAST({} AS INTEGER)",
            "CAST({} AS REAL)", "CAST({} AS BLOB)", "lower({})", "length({})", "substr({}, 2)", "trim({})",
            "({}) IN ()", "CASE WHEN {} THEN 1 END", "abs({})", "round({}, 1)", "char({})",
        ];
        let ternary = [
            "({}) BETWEEN ({}) AND ({})", "({}) NOT BETWEEN ({}) AND ({})", "({}) IN ({}, {})",
            "({}) NOT IN ({}, {})", "({}) LIKE ({}) ESCAPE ({})", "CASE {} WHEN {} THEN {} END",
            "CASE WHEN {} THEN {} ELSE {} END", "iif({}, {}, {})", "coalesce({}, {}, {})", "substr({}, {}, {})",
            "max({}, {}, {})", "replace({}, {}, {})", "like({}, {}, {})",
        ];
        let aggregate = [
            "COUNT({})", "COUNT(DISTINCT {})", "SUM({})", "MIN({})", "MAX(DISTINCT {})",
            "AVG({}) FILTER (WHERE word = 'a')", "TOTAL({})",
        ];
        let mut unary = unary.to_vec();
        if aggregates {
            unary.extend(aggregate);
        }
        prop_oneof![
            4 => (select(operators), pair.clone()).prop_map(|(operator, (left, right))| format!("({left}) {operator} ({right})")),
            4 => (select(unary), inner).prop_map(|(form, inner)| form.replacen("{}", &inner, 1)),
            1 => pair.prop_map(|(left, right)| format!("nullif({left} || '', ({right}) || '')")),
            2 => (select(ternary.to_vec()), triple).prop_map(|(form, (a, b, c))| {
                let mut parts = form.split("{}");
                let mut text = parts.next().unwrap().to_owned();
                for (operand, part) in [a, b, c].iter().zip(parts) {
                    text += operand;
                    text += part;
                }
                text
            }),
        ]
    })
}

/// Binds a query, and the SQL that its plan is printed as, to the same plan. Counts the queries that are plans.
fn check_printed(text: &str, plans: &Cell<u32>) -> Result<(), TestCaseError> {
    let of = |text: &str| {
        let statement = &parse(text)?[0];
        let parameters = vec![Value::from("p").into(); statement.parameter_count()];
        bind(statement, &Corpora, &parameters)
    };
    let Ok(Plan::Query(query)) = of(text) else {
        return check(text);
    };
    plans.set(plans.get() + 1);
    let printed = plan_text::sql(&query);
    let again = of(&printed).unwrap_or_else(|error| panic!("{text}\n{printed}\n{error}"));
    let Plan::Query(again) = again else { panic!() };
    // Expressions may be numbered in another order: printed again, they are the same.
    prop_assert_eq!(plan_text::sql(&again), printed, "{}", text);
    prop_assert_eq!(
        plan_text::shown(&again),
        plan_text::shown(&query),
        "{}",
        text
    );
    prop_assert_eq!(
        again.columns().collect::<Vec<_>>(),
        query.columns().collect::<Vec<_>>()
    );
    Ok(())
}

#[test]
fn an_insert_printed_as_sql_is_the_same_plan() {
    let of = |text: &str| {
        let statement = &parse(text)?[0];
        let parameters = vec![Value::from("p").into(); statement.parameter_count()];
        bind(statement, &Corpora, &parameters)
    };
    let count = Cell::new(0);
    let rows = vec((expression(false), expression(false)), 1..4);
    runner()
        .run(&rows, |rows| {
            let rows: Vec<String> = rows
                .iter()
                .map(|(file, content)| format!("({file}, {content})"))
                .collect();
            let text = format!("INSERT INTO c (file, content) VALUES {}", rows.join(", "));
            // Constants only: what has columns is refused.
            for name in ["word", "c.file", "offset", "length", "position"] {
                if text.contains(name) {
                    return check(&text);
                }
            }
            let printed = |plan: &Plan| match plan {
                Plan::Insert {
                    corpus,
                    columns,
                    query,
                    replace,
                } => plan_text::insert_sql(corpus, columns, query, *replace),
                other => panic!("{other:?}"),
            };
            let Ok(plan) = of(&text) else {
                return check(&text);
            };
            count.set(count.get() + 1);
            let again = of(&printed(&plan)).unwrap_or_else(|error| panic!("{text}\n{error}"));
            prop_assert_eq!(printed(&again), printed(&plan), "{}", text);
            Ok(())
        })
        .unwrap();
    assert!(count.get() > 50, "{}", count.get());
}

#[test]
fn a_plan_printed_as_sql_is_the_same_plan() {
    let plans = Cell::new(0);
    let rows = (expression(false), expression(false), expression(false));
    runner()
        .run(&rows, |(a, b, c)| {
            check_printed(
                &format!(
                    "SELECT {a} AS a, {b}, * FROM c WHERE {c} ORDER BY 'x' || ({b}), 'x' || a DESC LIMIT 3"
                ),
                &plans,
            )
        })
        .unwrap();
    let rows = plans.take();
    let groups = (expression(false), expression(true), expression(true));
    runner()
        .run(&groups, |(a, b, c)| {
            let text = format!(
                "SELECT a, ({b}) AS b FROM (SELECT *, ({a}) AS a FROM c) AS c GROUP BY a, c.file, word, position, offset, length \
                 HAVING {c} ORDER BY 'x' || a, 'x' || b"
            );
            check_printed(&text, &plans)
        })
        .unwrap();
    // The rest nests aggregates, or asks for a collation that a function cannot have.
    assert!(rows > 2_000, "{rows}");
    assert!(plans.get() > 1_500, "{}", plans.get());
}
