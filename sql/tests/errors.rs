//! The texts of all errors, as snapshots.
//!
//! Invariant: each error is one line that names its place, and says what to do where there is something to do.

#![allow(clippy::unwrap_used)]

use std::fmt::Write;

use zipfdb_sql::{
    Error, Result, Schema, StatementStream, Value, bind, limits, parse, parse_statement,
};

struct Corpora(&'static [&'static str]);

impl Schema for Corpora {
    fn corpora(&self) -> Vec<String> {
        self.0.iter().map(|name| String::from(*name)).collect()
    }

    fn section_columns(&self) -> Vec<String> {
        vec!["dictionary_bytes".to_owned()]
    }
}

const CORPORA: Corpora = Corpora(&["reviews", "books"]);

fn error_of(statement: &str, schema: &Corpora, parameters: &[Value]) -> Error {
    let plan = parse(statement).and_then(|statements| {
        let plans: Result<Vec<_>> = statements
            .iter()
            .map(|statement| bind(statement, schema, parameters))
            .collect();
        plans
    });
    match plan {
        Ok(plan) => panic!("{statement}\n{plan:?}"),
        Err(error) => error,
    }
}

/// Each line, a statement, with a caret at the place of its error and the error.
fn errors(lines: &str) -> String {
    let mut shown = String::new();
    for statement in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let error = error_of(statement, &CORPORA, &[]);
        assert!(!error.to_string().contains('\n'));
        assert_eq!(error.position().line, 1);
        writeln!(shown, "{}{error}\n", error.excerpt()).unwrap();
    }
    shown
}

fn snapshot(name: &str, text: &str) {
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(name, text) });
}

#[test]
fn unknown_names() {
    snapshot(
        "unknown_names",
        &errors(
            r#"
        SELECT COUNT(*) FROM revews
        SELECT COUNT(*) FROM stories
        SELECT COUNT(*) FROM corpora
        SELECT COUNT(*) FROM files
        SELECT * FROM files('Reveiws')
        SELECT * FROM file('reviews')
        SELECT * FROM reviews()
        SELECT * FROM sqlite_master()
        DROP CORPUS book
        COPY boks FROM 'x'
        CHECK "Books "
        SELECT wrod FROM reviews WHERE word = 'x'
        SELECT title FROM reviews WHERE word = 'x'
        SELECT content FROM reviews WHERE word = 'x'
        SELECT word FROM files('reviews')
        SELECT offset FROM reviews WHERE wor = 'x'
        SELECT offset FROM reviews WHERE word = 'x' ORDER BY ofset
        SELECT r.offset FROM reviews WHERE word = 'x'
        SELECT reviews.offset FROM reviews AS r WHERE word = 'x'
        SELECT words.* FROM corpora()
        SELECT word, CUONT(*) FROM reviews GROUP BY word
        SELECT frobnicate(content) FROM files('reviews')
        SELECT files('reviews') FROM reviews
        CREATE CORPUS c WITH (tokeniser = 'unicode')
        CREATE CORPUS c WITH (colour = 'red')
        CREATE CORPUS c WITH (tokenizer = 'unicod')
        CREATE CORPUS c WITH (tokenizer = 'porter')
        COPY reviews FROM 'x' WITH (on_eror = 'skip')
        COPY reviews FROM 'x' WITH (header = 1)
        "#,
        ),
    );
    let empty = error_of("CHECK reviews", &Corpora(&[]), &[]);
    assert_eq!(
        empty.to_string(),
        "1:7: no such corpus \"reviews\"; hint: there are no corpora yet; `CREATE CORPUS name` makes one"
    );
}

#[test]
fn syntax() {
    snapshot(
        "syntax",
        &errors(
            r#"
        SELCT * FROM corpora()
        reviews
        42
        "SELECT" 1
        SELECT
        SELECT FROM reviews
        SELECT word, FROM reviews
        SELECT COUNT(* FROM reviews
        SELECT COUNT(*)) FROM reviews
        SELECT COUNT(*) FORM reviews
        SELECT COUNT(*) FROM reviews WHER word = 'x'
        SELECT COUNT(*) FROM reviews GRUOP BY word
        SELECT COUNT(*) FROM reviews WHERE word = 'x' ODRER BY 1
        SELECT COUNT(*) FROM reviews WHERE
        SELECT COUNT(*) FROM reviews WHERE word =
        SELECT COUNT(*) FROM reviews LIMIT
        SELECT COUNT(*) FROM 'reviews'
        SELECT COUNT(*) FROM reviews extra words
        SELECT COUNT(*) FROM reviews WHERE word = 'x
        SELECT COUNT(*) FROM reviews WHERE word = "x
        SELECT COUNT(*) FROM reviews /* comment
        SELECT COUNT(*) FROM reviews WHERE word = `x`
        SELECT COUNT(*) FROM reviews WHERE word = [x]
        SELECT COUNT(*) FROM reviews WHERE word = :word
        SELECT COUNT(*) FROM reviews WHERE word = $word
        SELECT COUNT(*) FROM reviews WHERE word = ?0
        SELECT COUNT(*) FROM reviews WHERE word = ?99999
        SELECT COUNT(*) FROM reviews WHERE word = X'abc'
        SELECT COUNT(*) FROM reviews LIMIT 10k
        SELECT COUNT(*) FROM reviews # comment
        SELECT COUNT(*) FROM 2024reviews
        CREATE CORPS c
        CREATE CORPUS
        CREATE CORPUS 'c'
        CREATE CORPUS select
        CREATE CORPUS IF EXISTS c
        CREATE CORPUS c WITH tokenizer = 'unicode'
        CREATE CORPUS c WITH (tokenizer 'unicode')
        CREATE CORPUS c WITH (tokenizer = unicode)
        CREATE CORPUS c WITH (tokenizer = 'unicode' segment_size = 1)
        CREATE CORPUS c WITH (tokenizer = 'unicode', tokenizer = 'alnum')
        CREATE CORPUS c (file TEXT)
        CREATE CORPUS c CREATE CORPUS d
        COPY reviews
        COPY reviews FROM
        COPY reviews FROM data
        COPY reviews FROM "data"
        COPY reviews INTO 'x'
        CHECK reviews books
        "#,
        ),
    );
    let found = ["\u{201c}", "\u{2019}", "\0", "\u{7f}", "\u{1f600}"]
        .map(|text| error_of(text, &CORPORA, &[]).to_string())
        .join("\n");
    snapshot("foreign_characters", &found);
}

#[test]
fn what_later_versions_will_have() {
    snapshot(
        "what_later_versions_will_have",
        &errors(
            r#"
        INSERT INTO reviews (file, content) VALUES ('a', 'b')
        DELETE FROM reviews WHERE file = 'a'
        UPDATE reviews SET file = 'b'
        ALTER CORPUS reviews SET (segment_size = 1)
        RECOMPRESS reviews
        BEGIN
        EXPLAIN SELECT COUNT(*) FROM reviews
        SET device = 'cpu'
        PRAGMA table_info(reviews)
        VALUES (1)
        WITH a AS (SELECT 1) SELECT * FROM a
        CREATE TABLE t (a INT)
        DROP TABLE reviews
        COPY (SELECT 1) TO 'x.csv'
        COPY reviews TO 'x' WITH (on_error = 'skip')
        (SELECT COUNT(*) FROM reviews)
        (SELECT COUNT(*) FROM reviews) ORDER BY 1
        SELECT COUNT(*) FROM reviews TABLESAMPLE (1)
        SELECT COUNT(*) INTO x FROM reviews
        SELECT COUNT(*) FROM reviews WINDOW w AS (ORDER BY word)
        SELECT COUNT(*) FROM LATERAL (SELECT 1)
        SELECT COUNT(*) FROM reviews AS r (a, b)
        SELECT TOP 3 word FROM reviews
        TABLE reviews
        FROM reviews
        SELECT 1
        SELECT COUNT(*) FROM reviews UNION ALL SELECT COUNT(*) FROM books
        SELECT COUNT(*) FROM reviews JOIN books ON reviews.word = books.word
        SELECT COUNT(*) FROM reviews, books
        SELECT COUNT(*) FROM (SELECT word FROM reviews)
        SELECT COUNT(*) FROM main.reviews
        SELECT ngram FROM ngrams('reviews', 2)
        SELECT * FROM term_vectors('reviews', k => 10)
        SELECT * FROM reviews
        SELECT word FROM reviews
        SELECT position FROM reviews WHERE word = 'a'
        SELECT DISTINCT word FROM reviews
        SELECT COUNT(DISTINCT word) FROM reviews
        SELECT word, file FROM reviews GROUP BY word, file
        SELECT file, COUNT(*) FROM reviews GROUP BY file
        SELECT word FROM reviews GROUP BY word HAVING COUNT(*) > 1
        SELECT tokenizer, COUNT(*) FROM corpora() GROUP BY tokenizer
        SELECT sum(bytes) FROM files('reviews')
        SELECT length(content) FROM files('reviews')
        SELECT substr(file, 1, 2) FROM files('reviews')
        SELECT substr(content, bytes) FROM files('reviews')
        SELECT bytes + 1 FROM files('reviews')
        SELECT 'x' FROM files('reviews')
        SELECT -bytes FROM files('reviews')
        SELECT CAST(bytes AS TEXT) FROM files('reviews')
        SELECT CASE bytes WHEN 1 THEN 2 END FROM files('reviews')
        SELECT bytes::TEXT FROM files('reviews')
        SELECT COUNT(*) OVER () FROM reviews
        SELECT COUNT(*) FILTER (WHERE word = 'a') FROM reviews
        SELECT COUNT(lower(word)) FROM reviews
        SELECT COUNT(*) FROM reviews WHERE word <> 'a'
        SELECT COUNT(*) FROM reviews WHERE word > 'a'
        SELECT COUNT(*) FROM reviews WHERE word = 'a' OR word = 'b'
        SELECT COUNT(*) FROM reviews WHERE NOT word = 'a'
        SELECT COUNT(*) FROM reviews WHERE word NOT IN ('a')
        SELECT COUNT(*) FROM reviews WHERE word IN (SELECT 'a')
        SELECT COUNT(*) FROM reviews WHERE word IN ('a', word)
        SELECT COUNT(*) FROM reviews WHERE word LIKE 'a%'
        SELECT COUNT(*) FROM reviews WHERE word NOT LIKE 'a%'
        SELECT COUNT(*) FROM reviews WHERE word GLOB 'a*'
        SELECT COUNT(*) FROM reviews WHERE word REGEXP 'a.*'
        SELECT COUNT(*) FROM reviews WHERE word BETWEEN 'a' AND 'b'
        SELECT COUNT(*) FROM reviews WHERE word IS NULL
        SELECT COUNT(*) FROM reviews WHERE word COLLATE NOCASE = 'a'
        SELECT COUNT(*) FROM reviews WHERE lower(word) = 'a'
        SELECT COUNT(*) FROM reviews WHERE EXISTS (SELECT 1)
        SELECT COUNT(*) FROM reviews WHERE word = (SELECT 'a')
        SELECT COUNT(*) FROM reviews WHERE word = file
        SELECT COUNT(*) FROM reviews WHERE word = "good"
        SELECT COUNT(*) FROM reviews WHERE word
        SELECT COUNT(*) FROM reviews WHERE 1 = 1
        SELECT COUNT(*) FROM reviews WHERE offset = 1
        SELECT file FROM files('reviews') WHERE bytes = 1
        SELECT segment FROM segments('reviews') WHERE segment = 1
        SELECT file FROM files('reviews') ORDER BY file, content
        SELECT file FROM files('reviews') ORDER BY substr(content, 1, 4)
        SELECT file FROM files('reviews') ORDER BY file NULLS FIRST
        SELECT file FROM files('reviews') ORDER BY 'file'
        SELECT file FROM files('reviews') ORDER BY bytes + 1
        SELECT file FROM files('reviews') LIMIT 1, 2
        SELECT file FROM files('reviews') LIMIT 1 + 1
        SELECT file FROM files('reviews') FETCH FIRST 1 ROW ONLY
        SELECT file FROM files('reviews') FOR UPDATE
        "#,
        ),
    );
}

#[test]
fn types_arguments_and_ranges() {
    snapshot(
        "types_arguments_and_ranges",
        &errors(
            r#"
        SELECT COUNT(*) FROM reviews WHERE word = 1984
        SELECT COUNT(*) FROM reviews WHERE word = 1.5
        SELECT COUNT(*) FROM reviews WHERE word = TRUE
        SELECT COUNT(*) FROM reviews WHERE file IN ('a', X'00ff')
        SELECT COUNT(*) FROM reviews LIMIT 'x'
        SELECT COUNT(*) FROM reviews LIMIT 1.5
        SELECT COUNT(*) FROM reviews LIMIT NULL
        SELECT COUNT(*) FROM reviews LIMIT 1 OFFSET 'x'
        SELECT COUNT(*) FROM reviews LIMIT 9223372036854775808
        SELECT COUNT(*) FROM reviews LIMIT 1e999
        SELECT COUNT(*) FROM reviews ORDER BY 2
        SELECT COUNT(*) FROM reviews ORDER BY 0
        SELECT word FROM reviews GROUP BY 7
        SELECT * FROM files(reviews)
        SELECT * FROM files(7)
        SELECT * FROM files()
        SELECT * FROM files('reviews', 'books')
        SELECT * FROM corpora('reviews')
        SELECT substr(content) FROM files('reviews')
        SELECT substr(content, 1, 2, 3) FROM files('reviews')
        SELECT substr(content, '1') FROM files('reviews')
        SELECT substr(content, 1, 2.0) FROM files('reviews')
        SELECT COUNT() FROM reviews
        SELECT COUNT(word, file) FROM reviews
        SELECT COUNT(NULL) FROM reviews
        COPY reviews FROM 7
        COPY reviews FROM ''
        COPY reviews TO X'00'
        COPY reviews FROM 'x' WITH (on_error = 'ignore')
        CREATE CORPUS " c"
        CREATE CORPUS c WITH (tokenizer = 1)
        CREATE CORPUS c WITH (segment_size = 65535)
        CREATE CORPUS c WITH (segment_size = '2GiB')
        CREATE CORPUS c WITH (segment_size = '64MB')
        CREATE CORPUS c WITH (segment_size = -1)
        CREATE CORPUS c WITH (segment_size = 1.5)
        "#,
        ),
    );
}

#[test]
fn conflicts() {
    snapshot(
        "conflicts",
        &errors(
            r#"
        CREATE CORPUS Reviews
        SELECT word, COUNT(*) FROM reviews
        SELECT COUNT(*), word FROM reviews
        SELECT COUNT(*) FROM reviews ORDER BY word
        SELECT file, COUNT(*) FROM reviews GROUP BY word
        SELECT * FROM reviews GROUP BY word
        SELECT word FROM reviews GROUP BY word ORDER BY file
        SELECT word FROM reviews GROUP BY COUNT(*)
        SELECT COUNT(*) FROM reviews WHERE COUNT(*) = 1
        SELECT offset FROM reviews WHERE word = 'a' ORDER BY COUNT(*)
        "#,
        ),
    );
}

#[test]
fn parameters() {
    let error = |parameters: &[Value]| {
        let statement = "SELECT COUNT(*) FROM reviews WHERE word = ? LIMIT ?2";
        error_of(statement, &CORPORA, parameters).to_string()
    };
    let shown = [
        error(&[]),
        error(&[Value::from("a")]),
        error(&[Value::from("a"), Value::from(1), Value::from(2)]),
        error(&[Value::from(1984), Value::from(1)]),
        error(&[Value::from(vec![0; 1000]), Value::from(1)]),
        error(&[Value::from("a"), Value::from("b".repeat(1000))]),
    ];
    snapshot("parameters", &shown.join("\n"));
}

#[test]
fn limits_are_named() {
    let shown = [
        format!("SELECT '{}'", "x".repeat(limits::STATEMENT_BYTES_MAX)),
        "(".repeat(limits::NESTING_MAX + 1),
        format!("SELECT 1{}", " OR 1".repeat(limits::CHAIN_TOKENS_MAX)),
        format!("SELECT {}", "1,".repeat(limits::TOKENS_MAX)),
        format!("CHECK {}", "x".repeat(limits::NAME_BYTES_MAX + 1)),
        format!("SELECT {}", "1".repeat(limits::NUMBER_BYTES_MAX + 1)),
    ]
    .map(|text| error_of(&text, &CORPORA, &[]).to_string())
    .join("\n");
    snapshot("limits_are_named", &shown);
}

#[test]
fn positions_count_lines_and_characters_of_the_whole_input() {
    let mut stream = StatementStream::new();
    stream.feed("CHECK reviews; -- \u{e9}\n\n  /* \u{65e5}\u{672c} */ SELECT '\u{65e5}\u{672c}\u{8a9e}',\n\tnothing FROM books;");
    let first = parse_statement(stream.next_statement().unwrap().unwrap()).unwrap();
    assert_eq!(first.position().line, 1);
    let second = parse_statement(stream.next_statement().unwrap().unwrap()).unwrap();
    assert_eq!((second.position().line, second.position().column), (3, 12));
    let error = bind(&second, &CORPORA, &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "3:19: a constant in SELECT is not supported in this version"
    );
    let mut stream = StatementStream::new();
    stream.feed("SELECT\n\toffset,\n\tnothing -- here\nFROM books WHERE word = 'x'");
    let statement = parse_statement(stream.finish().unwrap().unwrap()).unwrap();
    let error = bind(&statement, &CORPORA, &[]).unwrap_err();
    assert_eq!(
        (
            error.position().line,
            error.position().column,
            error.position().byte
        ),
        (3, 2, 17)
    );
    assert_eq!(
        format!("{}{error}", error.excerpt()),
        " nothing -- here\n ^\n3:2: no such column \"nothing\"; hint: columns are file, word, offset, length"
    );
}

#[test]
fn excerpts_of_long_lines_are_windows_around_the_caret() {
    let long = format!(
        "SELECT COUNT(*) FROM reviews WHERE word IN ({} nothing {})",
        "'\u{e9}', ".repeat(100),
        ", 'x'".repeat(100)
    );
    let error = error_of(&long, &CORPORA, &[]);
    snapshot(
        "excerpt_of_a_long_line",
        &error.excerpt().replace('\u{e9}', "e"),
    );
}
