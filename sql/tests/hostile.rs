//! Texts made to break parsers: long chains, deep nesting, huge literals, garbage.
//!
//! Invariant: each gives a plan or an error that names a limit or a place; none panics, overflows a stack or takes long.
//! Random texts are in `properties`.

use std::sync::Arc;

use zipfdb_sql::query::{Expression, Source};
use zipfdb_sql::{Error, Plan, Result, Schema, Value, bind, limits, parse};

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
fn a_hundred_thousand_rows_are_a_plan() {
    for row in [
        "('some-file.txt', 'some text that is kept')",
        "('f', X'00ff')",
        "('f', char(10) || 'x')",
    ] {
        let rows = vec![row; 20_000].join(",\n");
        let text = format!("INSERT INTO c (file, content) VALUES {rows}");
        let Ok(Plan::Insert { query, .. }) = plan(&text) else {
            panic!("{row}")
        };
        let Source::Values { width, values } = &query.blocks[0].source else {
            panic!()
        };
        assert_eq!((*width, values.len()), (2, 40_000));
    }
    let distinct: Vec<String> = (0..100_000)
        .map(|n| format!("('f{n}',{n},'t{n}')"))
        .collect();
    let text = format!(
        "INSERT INTO c (file, offset, content) VALUES {}",
        distinct.join(",")
    );
    assert!(plan(&text).is_ok());
}

#[test]
fn hostile_rows_are_errors() {
    let into = "INSERT INTO c (file, content) VALUES";
    let chain = longest(" || 'a'", 2);
    plan(&format!("{into} ('a'{chain}, 'b'), ('c', 'd'{chain})")).unwrap();
    let too_long = " || 'a'".repeat(limits::CHAIN_TOKENS_MAX);
    assert_too_large(&format!("{into} ('a', 'b'{too_long})"));
    assert_too_large(&format!("{into} ('a', {}1", "(".repeat(100)));
    assert_too_large(&format!("{into} ('a', {}1)", "- ".repeat(100)));
    let deep = |depth: usize| format!("({}'x'{})", "(".repeat(depth), ")".repeat(depth));
    let nested = format!("('a', {})", deep(limits::NESTING_MAX - 2));
    plan(&format!("{into} {}", vec![nested; 100].join(","))).unwrap();
    assert_syntax(&format!("{into} {}", "(".repeat(20)));
    assert_syntax(&format!("{into} {}", "('a', 'b'), ".repeat(1000)));
    assert_too_large(&format!("{into} {}", "('a', 'b'), ".repeat(200_000)));
    let columns = "file, content, ".repeat(10_000);
    assert!(plan(&format!("INSERT INTO c ({columns} file) VALUES ('a')")).is_err());
    assert_too_large(&format!(
        "DELETE FROM c WHERE file = 'a'{}",
        " OR 1".repeat(limits::CHAIN_TOKENS_MAX)
    ));
    let or = longest(" OR file = 'a'", 4);
    plan(&format!("DELETE FROM c WHERE file = 'a'{or}")).unwrap();
    let items = vec!["'a'"; 100_000].join(",");
    plan(&format!("DELETE FROM c WHERE file IN ({items})")).unwrap();
    assert_too_large(&format!(
        "INSERT INTO c (file, content) SELECT {}",
        "1,".repeat(limits::TOKENS_MAX)
    ));
}

#[test]
fn the_longest_chain_of_conditions_is_a_list_of_conditions() {
    let chain = longest(" AND word <> 'a'", 4);
    let text = format!("SELECT COUNT(*) FROM c WHERE file = 'f'{chain}");
    let Plan::Query(query) = plan(&text).unwrap() else {
        panic!()
    };
    // Equal conditions are one.
    assert_eq!(query.blocks[0].filter.len(), 2);
}

#[test]
fn the_longest_chains_of_every_operator_are_plans() {
    for (link, tokens) in [
        (" + 1", 2),
        (" - offset", 2),
        (" * 2", 2),
        (" / 2", 2),
        (" % 2", 2),
        (" || 'a'", 2),
        (" OR 1", 2),
        (" AND word", 2),
        (" = 1", 2),
        (" <> 1", 2),
        (" < 1", 2),
        (" >= offset", 2),
        (" IS 1", 2),
        (" IS NOT 1", 3),
        (" IS DISTINCT FROM 1", 4),
        (" IS NULL", 2),
        (" ISNULL", 1),
        (" NOT NULL", 2),
        (" IS NOT TRUE", 3),
        (" COLLATE NOCASE", 2),
        (" IN (1)", 4),
        (" NOT IN ()", 4),
        (" BETWEEN 1 AND 2", 4),
        (" NOT BETWEEN offset AND length", 5),
        (" NOT LIKE 'a'", 3),
        (" LIKE 'a' ESCAPE 'b'", 4),
        (" GLOB 'a'", 2),
        (" REGEXP 'a'", 2),
        (" OR NOT 1", 3),
        (" + - 1", 3),
        (" OR 1 AND 1 = 1 < 1 + 1 * 1 || 1 COLLATE BINARY", 16),
    ] {
        let chain = longest(link, tokens);
        let half = longest(link, 2 * tokens);
        for text in [
            format!("SELECT COUNT(*) FROM c WHERE offset{chain}"),
            format!("SELECT 1{chain} FROM c"),
            format!("SELECT word FROM c ORDER BY offset{chain}"),
            format!("SELECT 1 FROM c GROUP BY offset{chain}"),
            format!("SELECT offset{half} FROM c GROUP BY offset{half}"),
            format!("SELECT MAX(offset{chain}) FROM c"),
        ] {
            if let Err(error) = plan(&text) {
                panic!("{link}: {error}");
            }
        }
    }
    let cases = longest(" WHEN 1 THEN 2", 4);
    plan(&format!("SELECT CASE{cases} END")).unwrap();
    plan(&format!("SELECT CASE word{cases} END FROM c")).unwrap();
    let items = vec!["word"; limits::COLUMNS_MAX].join(",");
    plan(&format!(
        "SELECT {items} FROM c GROUP BY {items} ORDER BY {items}"
    ))
    .unwrap();
    let arguments = vec!["word"; 50_000].join(",");
    plan(&format!(
        "SELECT max({arguments}), concat({arguments}) FROM c"
    ))
    .unwrap();
}

#[test]
fn chains_that_nest_exceed_a_limit_before_the_stack_does() {
    for link in [
        " = NOT 1",
        " < - NOT 1",
        " + - + 1 = NOT - 1",
        " BETWEEN 1 AND NOT 1",
        " LIKE 1 ESCAPE - NOT 1",
    ] {
        assert_too_large(&format!("SELECT 1{}", longest(link, 8)));
    }
    assert_syntax(&format!("SELECT 1{}", longest(" BETWEEN 1", 2)));
}

#[test]
fn aliases_cost_no_more_than_what_they_stand_for() {
    let sum = longest(" + offset AND length", 4);
    let uses = "x AND x + x AND ".repeat(500);
    let text = format!(
        "SELECT offset{} AS x FROM c WHERE {uses} x",
        &sum[..sum.len() / 2]
    );
    let Plan::Query(query) = plan(&text).unwrap() else {
        panic!()
    };
    assert!(query.blocks[0].expressions.len() < 20_000);
    assert!(query.blocks[0].filter.len() < 20_000);
}

#[test]
fn subqueries_nest_up_to_the_limit() {
    let nested = |depth: usize, list: &str| {
        let mut text = "SELECT word FROM c".to_owned();
        for _ in 0..depth {
            text = format!("SELECT {list} FROM ({text})");
        }
        text
    };
    let Plan::Query(query) = plan(&nested(limits::NESTING_MAX, "*")).unwrap() else {
        panic!()
    };
    assert_eq!(query.blocks.len(), limits::NESTING_MAX + 1);
    for depth in [limits::NESTING_MAX + 1, 1_000, 2_000] {
        assert_too_large(&nested(depth, "*"));
    }
    // Columns would double at each level.
    assert_too_large(&nested(limits::NESTING_MAX, "*, *"));
}

#[test]
fn many_names_are_all_found() {
    let count = 2_000;
    let list = |item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(",");
    let inner = list(&|i| format!("word AS a{i}"));
    let outer = list(&|i| format!("A{}", count - 1 - i));
    let text =
        format!("SELECT {outer} FROM (SELECT {inner} FROM c ORDER BY {outer}) ORDER BY {outer}");
    let Plan::Query(query) = plan(&text).unwrap() else {
        panic!()
    };
    let block = &query.blocks[1];
    for (i, output) in block.outputs.iter().enumerate() {
        let expression = &block.expressions[output.expression.0 as usize];
        assert_eq!(*expression, Expression::Column(count - 1 - i));
        assert_eq!(output.name, format!("a{}", count - 1 - i));
    }
}

#[test]
fn the_longest_chains_of_clauses_are_refused() {
    assert_too_large(&format!("SELECT 1{}", longest(" UNION SELECT 1", 3)));
    assert_too_large(&format!("SELECT 1{}", longest(" UNION ALL SELECT 1", 4)));
    assert_not_supported(&format!("SELECT 1 FROM c{}", longest(" JOIN c ON 1", 4)));
    assert_not_supported(&format!("SELECT 1 FROM c{}", longest(", c", 2)));
    assert_not_supported(&format!("SELECT a{} FROM c", longest(".a", 2)));
    assert_not_supported(&format!("SELECT 1 FROM c{}", longest(".c", 2)));
    assert!(plan(&format!("SELECT 1{}", longest(" FROM c", 2))).is_err());
    assert!(plan(&format!("SELECT COUNT(*) FROM c{}", longest(" JOIN (c", 3))).is_err());
    assert!(plan(&longest("SELECT ", 1)).is_err());
    assert!(plan(&longest("EXPLAIN ", 1)).is_err());
    assert!(plan(&longest("COPY (", 2)).is_err());
    assert!(plan(&longest("COPY (SELECT ", 3)).is_err());
    assert!(plan(&longest("WITH a AS (SELECT ", 5)).is_err());
}

#[test]
fn what_unfolds_to_many_selects_exceeds_a_limit() {
    // Each name is read twice by the next.
    let doubled = |count: usize| {
        let names = (1..count).map(|i| {
            let inner = i - 1;
            format!(", a{i} AS (SELECT * FROM a{inner} UNION ALL SELECT * FROM a{inner})")
        });
        let names: String = names.collect();
        format!("WITH a0 AS (SELECT 1){names} SELECT * FROM a{}", count - 1)
    };
    plan(&doubled(8)).unwrap();
    assert_too_large(&doubled(12));
    assert_too_large(&doubled(100));
    let chain = |count: usize| {
        let names = (1..count).map(|i| format!(", a{i} AS (SELECT * FROM a{})", i - 1));
        let names: String = names.collect();
        format!("WITH a0 AS (SELECT 1){names} SELECT * FROM a{}", count - 1)
    };
    plan(&chain(limits::BLOCKS_DEEP_MAX - 1)).unwrap();
    assert_too_large(&chain(limits::BLOCKS_DEEP_MAX));
    let unions = |count: usize| format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(count - 1));
    plan(&unions(limits::BLOCKS_MAX - 1)).unwrap();
    assert_too_large(&unions(limits::BLOCKS_MAX + 1));
    let mixed = |count: usize| {
        let terms = " UNION SELECT 1 UNION ALL SELECT 1".repeat(count);
        format!("SELECT 1{terms}")
    };
    plan(&mixed(limits::BLOCKS_DEEP_MAX / 2)).unwrap();
    assert_too_large(&mixed(limits::BLOCKS_DEEP_MAX));
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
    let Plan::Query(query) = plan(&list(100_000)).unwrap() else {
        panic!()
    };
    assert_eq!(query.blocks[0].expressions.len(), 100_003);
    assert_too_large(&list(140_000));
    // Items that are more than one token count as a chain.
    assert_too_large(&list(10_000).replace(',', "+1,"));
}

#[test]
fn deep_nesting_exceeds_a_limit() {
    for (open, close, supported) in [
        ("(", ")", true),
        ("NOT ", "", true),
        ("- ", "", true),
        ("+", "", true),
        ("~", "", false),
        ("lower(", ")", true),
        ("coalesce(1, ", ")", true),
        ("1 + (", ")", true),
        ("CASE WHEN ", " THEN 1 END", true),
        ("CASE 1 WHEN 1 THEN ", " END", true),
        ("CASE ", " WHEN 1 THEN 2 END", true),
        ("1 IN (", ")", true),
        ("1 OR 1 AND NOT 1 = 1 < 1 + 1 * 1 || (", ")", true),
        ("(SELECT ", ")", true),
        ("EXISTS (SELECT ", ")", true),
        ("1 IN (SELECT ", ")", true),
        ("1 = ANY (", ")", false),
        ("CAST(", " AS INT)", true),
        ("INTERVAL ", "", false),
        ("NOT (", ")", true),
    ] {
        // The example with both NOT and parentheses nests twice at once.
        for depth in [15, 100, 1_000, 5_000, 50_000] {
            let nested = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            for text in [
                format!("SELECT {nested} FROM c"),
                format!("SELECT word FROM c WHERE {nested}"),
                format!("SELECT word FROM c WHERE word = {nested}"),
                format!("SELECT word FROM c GROUP BY word HAVING COUNT(*) > {nested}"),
                format!("SELECT SUM(offset) FILTER (WHERE {nested}) FROM c ORDER BY 1 + {nested}"),
            ] {
                let planned = plan(&text);
                assert_eq!(
                    planned.is_ok(),
                    supported && depth == 15,
                    "{text:.100} {depth}"
                );
            }
        }
    }
    assert_too_large(&format!("SELECT {}", "(".repeat(100_000)));
    assert_too_large(&format!("SELECT {}1", "NOT ".repeat(5_000)));
    assert_too_large(&format!("SELECT {}1", "- ".repeat(5_000)));
}

/// What nests deepest takes less than this much of a stack, however the limits are used up.
#[test]
fn parsing_and_binding_fit_a_small_stack() {
    let operators = "1 OR 1 AND 1 = 1 < 1 + 1 * 1 || ";
    let deepest = [
        format!(
            "SELECT {}1",
            format!("{operators}(").repeat(limits::NESTING_MAX)
        ),
        format!(
            "SELECT {}1",
            format!("{operators}CASE WHEN ").repeat(limits::NESTING_MAX)
        ),
        format!(
            "SELECT {}1",
            format!("{operators}lower(").repeat(limits::NESTING_MAX)
        ),
        format!(
            "SELECT {}1",
            format!("{operators}- ").repeat(limits::NESTING_MAX)
        ),
        format!("SELECT {}", "1 FROM (SELECT ".repeat(limits::NESTING_MAX)),
        format!("SELECT 1{}", longest(" OR word LIKE 'a%'", 4)),
    ];
    let thread = std::thread::Builder::new().stack_size(1 << 20);
    let parsed = thread.spawn(move || deepest.map(|text| plan(&text).is_ok()));
    parsed.unwrap().join().unwrap();
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
    let word = "x".repeat(9_000_000);
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
    assert!(error.to_string().len() < 300);
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
        "SELECT $ a",
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
        "SELECT * FROM ngrams('c', \"a\nb\" => 2)",
        "SELECT word AS w FROM c GROUP BY w HAVING \"a\nb\" > 1",
        "SELECT \"a\nb\" FROM (SELECT 1 AS \"c\nd\")",
        "SELECT \"a\nb\".x FROM (SELECT 1) AS \"c\nd\"",
        "SELECT \"c\nd\", COUNT(*) FROM (SELECT 1 AS \"c\nd\")",
        "SET \"a\nb\" = 1",
        "SET device = 'a\nb'",
        "SET strategy = 'a\nb'",
        "SET memory_limit = 'a\nb'",
        "SET value_size_limit = 'a\nb'",
        "SET statement_timeout = 'a\nb'",
        "COPY (SELECT 1) TO 'a\nb'",
        "COPY (SELECT 1) TO 'a' WITH (format = 'a\nb')",
        "ALTER CORPUS c SET (\"a\nb\" = 1)",
    ] {
        let error = plan(text).unwrap_err();
        assert!(
            !error.to_string().contains(char::is_control),
            "{text:?}: {error}"
        );
    }
}

/// What the longest messages quote: long texts, names as long as they may be, and characters that are escaped.
fn long_texts() -> Vec<String> {
    let long = |part: &str, bytes: usize| part.repeat(bytes / part.len());
    let mut texts = vec![long("x", 100_000)];
    texts.extend(["\u{e4}", "\u{1}", "(", "\\w{9}", "%", "$.", "0"].map(|part| long(part, 10_000)));
    texts.extend(["x", "\u{1}", "\u{1f600}"].map(|text| text.repeat(252 / text.len())));
    texts
}

#[test]
fn messages_are_short_however_long_the_text_is() {
    let statements = "
        SELECT 'T'
        SELECT T
        SELECT \"T\" FROM c
        SELECT \"T\".word FROM c
        SELECT \"T\"(word) FROM c
        SELECT word FROM \"T\"
        SELECT * FROM \"T\"('c')
        SELECT * FROM files('T')
        SELECT * FROM ngrams('c', 'T')
        SELECT * FROM files_with('c', \"T\" => 1)
        SELECT word COLLATE \"T\" FROM c
        SELECT CAST(word AS \"T\") FROM c
        SELECT word FROM c WHERE word REGEXP 'T'
        SELECT regexp_extract(word, 'T') FROM c
        SELECT regexp_replace(word, 'T', 'x') FROM c
        SELECT word AS \"T\", COUNT(*) FROM c ORDER BY offset
        SELECT word FROM c GROUP BY 'T'
        SELECT word FROM c LIMIT 'T'
        SELECT X'T'
        SELECT 1T
        SELECT ?T
        SELECT :T
        SELECT 1 /* T
        SELECT 'T
        SELECT \"T
        WITH \"T\" AS (SELECT 1), \"T\" AS (SELECT 2) SELECT 1
        WITH x(\"T\") AS (SELECT 1, 2) SELECT 1 FROM x
        SET \"T\" = 1
        SET device = 'T'
        SET memory_limit = 'T'
        SET strategy = 'T'
        SET statement_timeout = 'T'
        SET batch_window = 'T'
        SET recompress_threads = 'T'
        SET recompress_at_exit = 'T'
        SET durability = 'T'
        RESET \"T\"
        CREATE CORPUS \"T\" WITH (tokenizer = 'T')
        CREATE CORPUS x WITH (\"T\" = 1)
        CREATE CORPUS x WITH (\"T\" = 1, \"T\" = 2)
        CREATE CORPUS x WITH (segment_size = 'T')
        ALTER CORPUS \"T\" SET (ingest = 'T')
        ALTER CORPUS c SET (ingest = 'T')
        DROP CORPUS \"T\"
        COPY \"T\" FROM 'T'
        COPY c FROM '' WITH (encoding = 'T')
        COPY c FROM 'T' WITH (encoding = 'T')
        COPY c FROM 'T' WITH (on_error = 'T')
        COPY c FROM 'T' WITH (compression = 'T')
        COPY (SELECT 1) TO 'T'
        COPY (SELECT 1) TO 'x' WITH (format = 'T')
        COPY (SELECT 1) TO 'x.csv' WITH (\"T\" = 'T')
        COPY c TO X'T'
        CREATE VIEW \"T\" AS SELECT \"T\" FROM \"T\"
        CREATE INDEX \"T\" ON \"T\" (postings)
        CREATE INDEX \"T\" ON c (\"T\")
        INSERT INTO \"T\" VALUES ('T')
        INSERT INTO c (\"T\") VALUES ('T')
        INSERT INTO c (file, file) VALUES ('T', 'T')
        INSERT INTO c VALUES ('T')
        DELETE FROM c WHERE \"T\" = 'T'
        DELETE FROM c WHERE word = 'T'
        EXPLAIN (\"T\") SELECT 1
        \"T\"
        T 1
    ";
    let mut count = 0;
    for text in long_texts() {
        for statement in statements
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            let Err(error) = plan(&statement.replace('T', &text)) else {
                continue;
            };
            let message = error.to_string();
            assert!(
                message.len() < 1_000,
                "{} bytes of {statement}: {message}",
                message.len()
            );
            let hint = error.hint().unwrap_or_default();
            assert!(error.excerpt().len() < 1_000 && hint.len() < 1_000);
            count += 1;
        }
    }
    assert!(count > 300, "{count}");
}

#[test]
fn literals_of_regexp_are_checked_within_bounds() {
    // Each alone takes a tenth of a second or more.
    let slow = r"'(?i)[\x{0}-\x{10ffff}]{2}\p{Any}{3}[\W][\D]'".to_owned();
    let many = |last: &str| {
        let conditions: Vec<String> = (0..1_000)
            .map(|number| format!("word || {number} REGEXP {slow}"))
            .collect();
        format!(
            "SELECT COUNT(*) FROM c WHERE {} OR word REGEXP {last}",
            conditions.join(" OR ")
        )
    };
    // What is left is checked where it is compiled.
    plan(&many("'('")).unwrap();
    assert!(plan("SELECT COUNT(*) FROM c WHERE word REGEXP '('").is_err());
}

#[test]
fn messages_are_short_however_long_a_value_is() {
    let statements = "
        SET device = ?
        SET memory_limit = ?
        SET strategy = ?
        SET statement_timeout = ?
        SET batch_window = ?
        SET recompress_threads = ?
        SET durability = ?
        SELECT word FROM c LIMIT ?
        SELECT * FROM ngrams('c', ?)
        SELECT * FROM term_vectors('c', ?)
        COPY (SELECT 1) TO ?
        COPY (SELECT 1) TO 'x' WITH (format = ?)
        COPY c FROM 'x' WITH (encoding = ?)
        COPY c FROM 'x' WITH (on_error = ?)
        CREATE CORPUS x WITH (tokenizer = ?)
        CREATE CORPUS x WITH (segment_size = ?)
    ";
    let mut values: Vec<Value> = long_texts().into_iter().map(Value::Text).collect();
    values.push(Value::Blob(vec![0xff; 1_000_000]));
    for value in values.into_iter().map(Arc::new) {
        for statement in statements
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            let parsed = parse(statement).unwrap();
            let bound = bind(&parsed[0], &OneCorpus, std::slice::from_ref(&value));
            let message = bound
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            assert!(
                message.len() < 1_000,
                "{} bytes of {statement}: {message}",
                message.len()
            );
        }
    }
}
