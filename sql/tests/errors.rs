//! The texts of all errors, as snapshots.
//!
//! Invariant: each error is one line that names its place, and says what to do where there is something to do.

use std::fmt::Write;
use std::sync::Arc;

use crate::Posts;
use zipfdb_sql::{
    Error, Result, Schema, StatementStream, Value, ValueKind, bind, limits, parse, parse_statement,
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

/// A database that does not exist yet.
struct Missing;

impl Schema for Missing {
    fn corpora(&self) -> Vec<String> {
        Vec::new()
    }

    fn missing_database(&self) -> Option<String> {
        Some("a.zdb".to_owned())
    }
}

const CORPORA: Corpora = Corpora(&["reviews", "books"]);

fn error_of(statement: &str, schema: &dyn Schema, parameters: &[Value]) -> Error {
    let parameters: Vec<Arc<Value>> = parameters.iter().cloned().map(Arc::new).collect();
    let plan = parse(statement).and_then(|statements| {
        let plans: Result<Vec<_>> = statements
            .iter()
            .map(|statement| bind(statement, schema, &parameters))
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
        COPY (SELECT 1) TO 'x.csv' WITH (header = 1)
        COPY reviews FROM 'x' WITH (format = 'jsno')
        COPY (SELECT 1) TO 'x' WITH (format = 'cvs')
        COPY (SELECT 1) TO 'x' WITH (format = 'orc')
        ALTER CORPUS reveiws SET (segment_size = 65536)
        ALTER CORPUS reviews SET (segmentsize = 65536)
        CREATE INDEX i ON reveiws USING postings
        CREATE INDEX i ON reviews USING posting
        CREATE INDEX i ON reviews USING postings WITH (codec = 'pdf')
        CREATE INDEX i ON reviews USING suffixes WITH (codec = 'ef')
        CREATE INDEX i ON reviews USING postings WITH (codek = 'ef')
        CREATE INDEX i ON reviews USING postings WITH (unit = 'block:7')
        CREATE INDEX i ON reviews USING postings WITH (reorder = 'yes')
        CREATE INDEX i ON reviews USING postings WITH (positions = 'on')
        CREATE INDEX i ON reviews USING postings WITH (unit = 'block:64', reorder = 'on')
        CREATE INDEX i ON reviews USING btree
        SET devise = 'cpu'
        SET colour = 'red'
        RESET devices
        SET strategy = 'wieghts'
        SET strategy = 'fast'
        SELECT * FROM settings
        SELECT * FROM ngrams
        SELECT * FROM ngram('reviews', 2)
        SELECT * FROM ngrams('reviews', m => 2)
        SELECT ngram FROM reviews
        SELECT bytes FROM reviews
        SELECT "good" FROM reviews
        SELECT nothing
        SELECT lenght(word) FROM reviews
        SELECT levenshtein(word, 'a') FROM reviews
        SELECT ucase(word), random() FROM reviews
        SELECT mean(length) FROM reviews
        SELECT position('a', word) FROM reviews
        SELECT word FROM reviews ORDER BY nn
        SELECT COUNT(*) AS total FROM reviews GROUP BY word HAVING totl > 1
        SELECT a.b FROM (SELECT 1 AS b)
        SELECT t.b FROM (SELECT 1 AS c) AS t
        SELECT t.b FROM (SELECT 1 AS b) AS s
        SELECT word FROM (SELECT word AS w FROM reviews)
        SELECT x.a
        "#,
        ),
    );
    let empty = error_of("CHECK reviews", &Corpora(&[]), &[]);
    assert_eq!(
        empty.to_string(),
        "1:7: no such corpus \"reviews\"; hint: there are no corpora yet; `CREATE CORPUS name` makes one"
    );
    let missing = error_of("CHECK reviews", &Missing, &[]);
    assert_eq!(
        missing.to_string(),
        "1:7: no such corpus \"reviews\"; hint: there is no database at a.zdb yet; `CREATE CORPUS name` makes it"
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
        SELECT 1 +
        SELECT (1
        SELECT 1 2
        SELECT 1 AS 'one'
        SELECT 1 AS select
        SELECT COUNT(DISTINCT *) FROM reviews
        SELECT ALL DISTINCT word FROM reviews
        SELECT COUNT(ALL DISTINCT word) FROM reviews
        SELECT word FROM (SELECT word FROM reviews WHERE) AS r
        SELECT word FROM (SELECT word FROM reviews) AS 'r'
        SELECT word FROM (SELECT word FROM reviews WHERE word = 'a' extra) AS r
        SELECT OR FROM (SELECT word FROM reviews WHERE)
        SELECT word BETWEEN 'a' BETWEEN 'b' AND 'c' AND 'd' FROM reviews
        SELECT word BETWEEN NOT 'a' NOT BETWEEN 'b' AND 'c' AND 'd' FROM reviews
        SELECT lower(reviews.*) FROM reviews
        SELECT word.* + 1 FROM reviews
        SELECT word, FROM reviews ORDER BY
        SELECT COUNT(*) FILTER (word = 'a') FROM reviews
        SELECT substring(word FROM 2 FROM 3) FROM reviews
        SELECT word FROM WHERE word = 'a'
        SELECT word FROM reviews LIMIT ALL
        SELECT word FROM reviews LIMIT 1 +
        SELECT word FROM reviews LIMIT 1,
        SELECT -(1 FROM reviews
        SELECT * + 1 FROM reviews
        SELECT word COLLATE FROM reviews
        SELECT word COLLATE RTRIM FROM reviews
        SELECT CAST(word AS NUMBERS) FROM reviews
        SELECT word:: FROM reviews
        SELECT word::'a' FROM reviews
        SELECT CAST(word AS DECIMAL(a)) FROM reviews
        SELECT CAST(word TEXT) FROM reviews
        SELECT CAST(word AS VARCHAR(10) FROM reviews
        SELECT word IN (SELECT word FROM reviews WHERE) FROM reviews
        SELECT word IN (SELECT word FORM reviews) FROM reviews
        SELECT (SELECT word FROM reviews GROUP word) FROM reviews
        SELECT EXISTS (SELECT) FROM reviews
        SELECT 1 UNION
        SELECT 1 UNION SELECT
        SELECT 1 UNION ALL DISTINCT SELECT 1
        WITH
        WITH a SELECT 1
        WITH a AS SELECT 1
        WITH a AS (SELECT 1)
        WITH a AS (SELECT 1), SELECT 2
        WITH a AS (SELECT 1), a AS (SELECT 2) SELECT 1
        WITH a(x) AS (SELECT 1, 2) SELECT * FROM a
        CREATE VIEW v
        CREATE VIEW v AS
        CREATE VIEW v AS VALUES (1)
        CREATE VIEW v AS SELECT 1 extra, 2 extra extra
        CREATE TEMP v AS SELECT 1
        DROP VIEW
        DROP INDEX
        CREATE INDEX ON reviews USING postings
        CREATE INDEX i ON reviews
        CREATE INDEX i ON reviews (word)
        CREATE INDEX i ON reviews USING postings codec = 'ef'
        EXPLAIN (FORMAT xml) SELECT 1
        EXPLAIN (JSON) SELECT 1
        EXPLAIN (FORMAT json SELECT 1
        SELECT group_concat(word ORDER) FROM reviews
        SELECT CASE word END FROM reviews
        SELECT CASE WHEN word THEN 1 FROM reviews
        SELECT CASE WHEN word END FROM reviews
        SELECT word BETWEEN 'a' FROM reviews
        SELECT word BETWEEN 'a' OR 'b' FROM reviews
        SELECT word LIKE FROM reviews
        SELECT word GLOB 'a' ESCAPE 'b' FROM reviews
        SELECT word IN 'a' FROM reviews
        SELECT word IN ('a' 'b') FROM reviews
        SELECT word NOT 'a' FROM reviews
        SELECT word IS FROM reviews
        SELECT r. FROM reviews AS r
        SELECT word FROM reviews GROUP word
        SELECT word FROM reviews ORDER BY word NULLS
        SELECT word FROM reviews ORDER BY word LIMIT 1 LIMIT 2
        SELECT word FROM reviews LIMIT 1 WHERE word = 'a'
        SELECT word FROM (reviews)
        SELECT word FROM (SELECT word FROM reviews
        SELECT word FROM ngrams('reviews', 2
        SELECT word FROM ngrams('reviews' 2)
        SELECT word FROM ngrams('reviews', 1 + 1)
        SET device
        SET device 'cpu'
        SET device = cpu
        SET device = 'cpu' 1
        RESET
        RESET device, strategy
        ALTER CORPUS reviews
        ALTER CORPUS reviews SET segment_size = 1
        EXPLAIN
        EXPLAIN (SELECT 1)
        EXPLAIN SELECT
        EXPLAIN ANALYZE
        COPY (reviews) TO 'x.csv'
        COPY (SELECT 1 TO 'x.csv'
        COPY (SELECT 1) FROM 'x.csv'
        COPY (SELECT 1)
        COPY (SELECT 1) TO x.csv
        "#,
        ),
    );
    let found = ["\u{201c}", "\u{2019}", "\0", "\u{7f}", "\u{1f600}"]
        .map(|text| error_of(text, &CORPORA, &[]).to_string())
        .join("\n");
    snapshot("foreign_characters", &found);
}

#[test]
fn what_is_not_supported() {
    snapshot(
        "what_is_not_supported",
        &errors(
            r#"
        UPDATE reviews SET file = 'b'
        MERGE INTO reviews
        START TRANSACTION
        SAVEPOINT a
        VACUUM
        EXPLAIN INSERT INTO reviews (file, content) VALUES ('a', 'b')
        EXPLAIN ANALYZE DELETE FROM reviews
        PRAGMA table_info(reviews)
        SHOW device
        DESCRIBE reviews
        VALUES (1)
        WITH RECURSIVE a AS (SELECT 1) SELECT * FROM a
        WITH a AS MATERIALIZED (SELECT 1) SELECT * FROM a
        CREATE TABLE t (a INT)
        DROP TABLE reviews
        ALTER TABLE reviews RENAME TO r
        ALTER CORPUS reviews RENAME TO r
        EXPLAIN DROP CORPUS reviews
        EXPLAIN ANALYZE CHECK reviews
        EXPLAIN QUERY PLAN SELECT 1
        COPY reviews TO 'x' WITH (on_error = 'skip')
        (SELECT COUNT(*) FROM reviews)
        SELECT COUNT(*) FROM reviews TABLESAMPLE (1)
        SELECT COUNT(*) INTO x FROM reviews
        SELECT COUNT(*) FROM reviews WINDOW w AS (ORDER BY word)
        SELECT word FROM reviews QUALIFY 1
        SELECT COUNT(*) FROM LATERAL (SELECT 1)
        SELECT COUNT(*) FROM unnest('a')
        SELECT COUNT(*) FROM reviews AS r (a, b)
        SELECT TOP 3 word FROM reviews
        SELECT DISTINCT ON (word) word FROM reviews
        TABLE reviews
        FROM reviews
        SELECT COUNT(*) FROM reviews UNION BY NAME SELECT COUNT(*) FROM books
        SELECT 1 EXCEPT SELECT 2
        SELECT word FROM (SELECT word FROM reviews INTERSECT SELECT word FROM books)
        SELECT COUNT(*) FROM reviews JOIN books ON reviews.word = books.word
        SELECT COUNT(*) FROM reviews r LEFT JOIN books USING (word)
        SELECT COUNT(*) FROM reviews, books
        SELECT COUNT(*) FROM main.reviews
        SELECT main.reviews.word FROM reviews
        SELECT word FROM reviews GROUP BY ALL
        SELECT COUNT(*) OVER () FROM reviews
        SELECT SUM(length) FILTER (WHERE word = 'a') OVER w FROM reviews
        SELECT array_agg(word) FROM reviews
        SELECT median(word) WITHIN GROUP (ORDER BY word) FROM reviews
        SELECT max(word LIMIT 1) FROM reviews
        SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY length DESC) FROM reviews
        SELECT random()
        SELECT lower(k => word) FROM reviews
        SELECT word::DATE FROM reviews
        SELECT CAST(word AS BOOLEAN) FROM reviews
        SELECT offset & 1, offset | 1 FROM reviews
        SELECT offset | 1, offset & 1 FROM reviews
        SELECT offset << 1 FROM reviews
        SELECT ~offset FROM reviews
        SELECT word ILIKE 'a' FROM reviews
        SELECT word NOT ILIKE 'a' FROM reviews
        SELECT word SIMILAR TO 'a' FROM reviews
        SELECT word MATCH 'a' FROM reviews
        SELECT 7 DIV 2
        SELECT INTERVAL '1' DAY
        SELECT (1, 2)
        SELECT (1, 2) = (1, 2)
        CREATE VIEW v (a) AS SELECT 1
        SELECT lower(SELECT 1)
        SELECT word FROM reviews AS r WHERE EXISTS (SELECT 1 FROM books WHERE books.word = r.word)
        SELECT word FROM reviews WHERE word = (SELECT content FROM (SELECT position) AS t)
        SELECT (SELECT n FROM (SELECT offset AS n)) FROM reviews
        INSERT INTO reviews (file, content) VALUES ('a', (SELECT 'b'))
        SELECT word FROM reviews WHERE word = ANY ('a')
        SELECT file FROM files('reviews') LIMIT length('a')
        SELECT file FROM files('reviews') LIMIT (SELECT 1)
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
        SELECT * FROM ngrams('reviews')
        SELECT * FROM ngrams('reviews', 0)
        SELECT * FROM ngrams('reviews', 9)
        SELECT * FROM ngrams('reviews', '2')
        SELECT * FROM ngrams('reviews', n => 2, n => 3)
        SELECT * FROM ngrams(n => 2)
        SELECT * FROM ngrams(n => 2, 'reviews')
        SELECT * FROM term_vectors('reviews', 0)
        SELECT * FROM next_words('reviews')
        SELECT * FROM next_words('reviews', 3)
        SELECT * FROM phrase('reviews')
        SELECT * FROM longest_matches('reviews', NULL)
        SELECT * FROM attribute('reviews', 'a', 0)
        SELECT * FROM overlap('reviews', 'a', 'b')
        SELECT * FROM duplicates('reviews', -1)
        SELECT * FROM files_with('reviews')
        SELECT * FROM files_with('reviews', 3)
        SELECT * FROM files_with('reviews', word => 'a')
        SELECT * FROM grep('reviews')
        SELECT * FROM grep('reviews', 3)
        SELECT * FROM grep('reviews', 'it''s (')
        SELECT * FROM grep('reviews', 'a(', 'im')
        SELECT * FROM grep('reviews', 'a', 'iq')
        SELECT * FROM grep('reviews', 'a\nb', flags => 'l')
        SELECT * FROM lines()
        CREATE INDEX "by word" ON reviews USING postings
        SELECT * FROM term_vectors('reviews', k => NULL)
        SELECT * FROM settings('device')
        SELECT * FROM devices(1)
        SELECT substr(content) FROM files('reviews')
        SELECT substr(content, 1, 2, 3) FROM files('reviews')
        SELECT lower(), upper('a', 'b')
        SELECT upper('a', 'b')
        SELECT coalesce(1)
        SELECT round(1, 2, 3)
        SELECT like('a')
        SELECT glob('a', 'b', 'c')
        SELECT binding(1)
        SELECT lower(*)
        SELECT lower(DISTINCT word) FROM reviews
        SELECT lower(word) FILTER (WHERE 1) FROM reviews
        SELECT max()
        SELECT max(*) FROM reviews
        SELECT max(DISTINCT word, file) FROM reviews
        SELECT sum() FROM reviews
        SELECT avg(offset, length) FROM reviews
        SELECT COUNT() FROM reviews
        SELECT COUNT(word, file) FROM reviews
        SELECT 9223372036854775808
        SELECT 1e999
        SET device = 'gpu'
        SET device = 'cuda:x'
        SET gpu_memory_limit = '1KiB'
        SET gpu_memory_limit = 'all'
        SET recompress_interval = '2d'
        SET recompress_rate = -1
        SET recompress_threads = 1025
        SET recompress_threads = 'many'
        SET recompress_threads = 1.5
        SET batch_window = '2s'
        SET batch_window = 'xus'
        SET device = 'cuda:99999999999'
        SET device = 1
        SET memory_limit = '1KiB'
        SET memory_limit = -1
        SET memory_limit = '1MB'
        SET value_size_limit = '1000B'
        SET statement_timeout = '5 days'
        SET statement_timeout = -1
        SET statement_timeout = NULL
        SET strategy = 1
        ALTER CORPUS reviews SET (segment_size = 1)
        COPY (SELECT 1) TO ''
        COPY (SELECT 1) TO 'x'
        COPY (SELECT 1) TO 'x.txt'
        COPY reviews FROM 7
        COPY reviews FROM ''
        COPY reviews TO X'00'
        COPY reviews FROM 'x' WITH (on_error = 'ignore')
        COPY reviews FROM 'x' WITH (on_conflict = 'ignore')
        COPY reviews FROM 'x' WITH (encoding = 'utf-99')
        COPY reviews FROM 'x' WITH (encoding = 'klingon')
        SELECT word FROM reviews WHERE word REGEXP 'it''s (a'
        SELECT regexp('[z-a]', word) FROM reviews
        SELECT regexp_extract(word, '(a|b') FROM reviews
        SELECT regexp_replace(word, 'it''s a*b\w{2000}', '') FROM reviews
        SELECT word REGEXP '(?:(?:a{1000}){1000}){1000}' FROM reviews
        CREATE CORPUS " c"
        CREATE CORPUS c WITH (tokenizer = 1)
        CREATE CORPUS c WITH (segment_size = 65535)
        CREATE CORPUS c WITH (segment_size = '2GiB')
        CREATE CORPUS c WITH (ingest = 'slow')
        COPY reviews FROM 'a' WITH (compression = 'auto')
        COPY reviews FROM 'a' WITH (records = 'word')
        COPY reviews FROM 'a' WITH (format = 'text', records = 'line')
        COPY reviews FROM 'a' WITH (strip = 'all')
        COPY reviews FROM 'a' WITH (unpack_limit = 0)
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
        SELECT max(word ORDER BY offset) FROM reviews
        SELECT lower(word ORDER BY word) FROM reviews
        SELECT group_concat(word, file) FROM reviews
        SELECT group_concat(DISTINCT word ORDER BY offset) FROM reviews
        SELECT 1 UNION SELECT 1, 2
        SELECT (SELECT 1, 2)
        SELECT 1 IN (SELECT * FROM reviews)
        SELECT word FROM reviews UNION SELECT word FROM books ORDER BY lower(word)
        CREATE VIEW reviews AS SELECT 1
        CREATE VIEW v AS SELECT ?
        SELECT word FROM reviews LIMIT 9223372036854775807 + 1
        SELECT word FROM reviews LIMIT 1 % 0
        CREATE CORPUS Reviews
        ALTER CORPUS reviews SET (tokenizer = 'alnum')
        SELECT word, COUNT(*) FROM reviews
        SELECT COUNT(*), word FROM reviews
        SELECT lower(word) || COUNT(*) FROM reviews
        SELECT COUNT(*) FROM reviews ORDER BY word
        SELECT file, COUNT(*) FROM reviews GROUP BY word
        SELECT * FROM reviews GROUP BY word
        SELECT *, COUNT(*) FROM reviews
        SELECT word FROM reviews GROUP BY lower(word)
        SELECT word FROM reviews GROUP BY word ORDER BY file
        SELECT word FROM reviews GROUP BY word HAVING offset > 1
        SELECT word FROM reviews GROUP BY COUNT(*)
        SELECT COUNT(*) AS n FROM reviews GROUP BY n
        SELECT COUNT(*) FROM reviews GROUP BY 1
        SELECT COUNT(*) FROM reviews WHERE COUNT(*) = 1
        SELECT word, COUNT(*) AS n FROM reviews WHERE n > 1 GROUP BY word
        SELECT SUM(COUNT(*)) FROM reviews
        SELECT COUNT(*) FILTER (WHERE MAX(offset) > 1) FROM reviews
        SELECT word FROM reviews HAVING word = 'a'
        SELECT word FROM reviews GROUP BY 'word'
        SELECT word FROM reviews ORDER BY 'word'
        SELECT word FROM reviews ORDER BY NULL COLLATE NOCASE
        SELECT DISTINCT word FROM reviews ORDER BY offset
        SELECT DISTINCT lower(word) FROM reviews ORDER BY word
        SELECT *
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
        error(&[Value::from("a"), Value::from(vec![0; 1000])]),
        error(&[Value::from("a"), Value::from("b".repeat(1000))]),
    ];
    snapshot("parameters", &shown.join("\n"));
}

#[test]
fn changes_of_files() {
    snapshot(
        "changes_of_files",
        &errors(
            r#"
        INSERT reviews (file, content) VALUES ('a', 'b')
        INSERT INTO reviws (file, content) VALUES ('a', 'b')
        INSERT INTO reviews VALUES ('a', 'b')
        INSERT INTO reviews SELECT 'a', 'b'
        INSERT INTO reviews (SELECT 'a', 'b')
        INSERT INTO reviews AS r (file, content) VALUES ('a', 'b')
        INSERT INTO files('reviews') VALUES ('a', 'b')
        INSERT INTO reviews () VALUES ()
        INSERT INTO reviews (file, content
        INSERT INTO reviews (file content) VALUES ('a', 'b')
        INSERT INTO reviews (file, 'content') VALUES ('a', 'b')
        INSERT INTO reviews (file) VALUES ('a')
        INSERT INTO reviews (content, offset) VALUES ('a', 1)
        INSERT INTO reviews (file, content, file) VALUES ('a', 'b', 'c')
        INSERT INTO reviews (file, word) VALUES ('a', 'b')
        INSERT INTO reviews (file, contents) VALUES ('a', 'b')
        INSERT INTO reviews (file, content, length) VALUES ('a', 'b', 1)
        INSERT INTO reviews (file, content) VALUE ('a', 'b')
        INSERT INTO reviews (file, content) DEFAULT VALUES
        INSERT INTO reviews (file, content) VALUES
        INSERT INTO reviews (file, content) VALUES 'a', 'b'
        INSERT INTO reviews (file, content) VALUES ('a')
        INSERT INTO reviews (file, content) VALUES ('a', 'b'), ('a', 'b', 'c')
        INSERT INTO reviews (file, content) VALUES ('a', 'b'),
        INSERT INTO reviews (file, content) VALUES ('a', 'b') ('c', 'd')
        INSERT INTO reviews (file, content) VALUES ('a', 'b'
        INSERT INTO reviews (file, content) VALUES ('a', )
        INSERT INTO reviews (file, content) VALUES ('a' 'b')
        INSERT INTO reviews (file, content) VALUES ('a', 1 +)
        INSERT INTO reviews (file, content) VALUES ('a', (1 + 2)
        INSERT INTO reviews (file, content) VALUES ('a', lower('b') 'c')
        INSERT INTO reviews (file, content) VALUES ('a', "b")
        INSERT INTO reviews (file, content) VALUES (file, content)
        INSERT INTO reviews (file, content) VALUES ('a', COUNT(*))
        INSERT INTO reviews (file, content) VALUES ('a', (SELECT 'b'))
        INSERT INTO reviews (file, content) VALUES ('a', DEFAULT)
        INSERT INTO reviews (file, content) VALUES ('a', nothing('b'))
        INSERT INTO reviews (file, content) VALUES ('a', NULL)
        INSERT INTO reviews (file, content) VALUES (NULL, 'b')
        INSERT INTO reviews (file, content) VALUES (7, 'b')
        INSERT INTO reviews (file, content) VALUES (X'00', 'b')
        INSERT INTO reviews (file, content) VALUES ('a', 1.5)
        INSERT INTO reviews (file, offset, content) VALUES ('a', -1, 'b')
        INSERT INTO reviews (file, offset, content) VALUES ('a', '1', 'b')
        INSERT INTO reviews (file, offset, content) VALUES ('a', 99999999999999999999, 'b')
        INSERT INTO reviews (file, content) VALUES ('a', 'b') ON CONFLICT DO NOTHING
        INSERT INTO reviews (file, content) VALUES ('a', 'b') RETURNING file
        INSERT INTO reviews (file, content) VALUES ('a', 'b') WHERE file = 'a'
        INSERT OR REPLACE INTO reviews (file, content) VALUES ('a', 'b')
        INSERT INTO reviews (file, content) SELECT file FROM files('reviews')
        INSERT INTO reviews (file, content) SELECT *, 1 FROM files('reviews')
        INSERT INTO reviews (file, content) SELECT fil, content FROM files('reviews')
        INSERT INTO reviews (file, content) SELECT 'a', 'b' UNION SELECT 'c'
        DELETE FROM reviews WHERE file IN (SELECT wrod FROM reviews)
        INSERT INTO reviews (file, content) SELECT 'a', 'b' ON CONFLICT DO NOTHING
        REPLACE INTO reviews (file, offset, content) VALUES ('a', 1, 'b')
        REPLACE INTO reviews (file) VALUES ('a')
        REPLACE reviews (file, content) VALUES ('a', 'b')
        DELETE reviews
        DELETE FROM reviws
        DELETE FROM reviews WHERE
        DELETE FROM reviews WHERE word = 'a'
        DELETE FROM reviews WHERE fil = 'a'
        DELETE FROM reviews WHERE file = "a"
        DELETE FROM reviews WHERE bytes > 10 AND file = 'a'
        DELETE FROM reviews WHERE books.file = 'a'
        DELETE FROM reviews WHERE COUNT(file) > 1
        DELETE FROM reviews WHERE file = 'a' ORDER BY file LIMIT 1
        DELETE FROM reviews LIMIT 1
        DELETE FROM reviews file = 'a'
        DELETE FROM reviews AS r WHERE r.file = 'a'
        DELETE reviews WHERE file = 'a'
        BEGIN EXCLUSIVE
        BEGIN WORK
        COMMIT AND CHAIN
        ROLLBACK TO a
        RECOMPRESS
        RECOMPRESS nothing
        RECOMPRESS reviews NOW
        SET durability = 'on'
        SET durability = 1
        CREATE CORPUS c WITH (recompress_threshold = '1KiB')
        ALTER CORPUS reviews SET (recompress_threshold = -1)
        ALTER CORPUS reviews SET (recompress = 1)
        "#,
        ),
    );
}

#[test]
fn limits_are_named() {
    let shown = [
        format!("SELECT '{}'", "x".repeat(limits::STATEMENT_BYTES_MAX)),
        format!("SELECT {}", "(".repeat(limits::NESTING_MAX + 1)),
        format!("SELECT {} FROM reviews", "*,".repeat(900) + "*"),
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
        "4:2: no such column \"nothing\"; hint: columns are file, word, position, offset, length"
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
        " nothing -- here\n ^\n3:2: no such column \"nothing\"; hint: columns are file, word, position, offset, length"
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

/// A corpus whose files have columns of their own.
const POSTS: Posts = Posts(&[
    ("author", ValueKind::Text),
    ("day", ValueKind::Date),
    ("at", ValueKind::Timestamp),
    ("likes", ValueKind::Integer),
    ("is_open", ValueKind::Boolean),
]);

#[test]
fn mistakes_in_metadata() {
    let statements = "
        CREATE CORPUS c (author)
        CREATE CORPUS c (author TXT)
        CREATE CORPUS c (a BLOB)
        CREATE CORPUS c (a TEXT b TEXT)
        CREATE CORPUS c (a TEXT, A DATE)
        CREATE CORPUS c (Word TEXT)
        CREATE CORPUS c (content TEXT)
        CREATE CORPUS c ()
        ALTER CORPUS posts ADD COLUMN likes TEXT
        ALTER CORPUS posts ADD COLUMN offset INTEGER
        ALTER CORPUS posts DROP COLUMN autor
        ALTER CORPUS posts DROP COLUMN word
        SELECT autor FROM posts
        UPDATE posts SET lykes = 1
        UPDATE posts SET word = 'a'
        UPDATE posts SET content = 'a'
        UPDATE posts SET likes = 1, likes = 2
        UPDATE posts SET likes = 'x'
        UPDATE posts SET likes
        UPDATE posts SET likes = 1 ORDER BY file
        UPDATE posts SET likes = 1 WHERE content = 'a'
        UPDATE posts SET day = 20200131
        UPDATE posts SET day = '2020-02-30'
        UPDATE posts SET at = '2020-01-31 25:00'
        UPDATE posts SET is_open = 2
        UPDATE posts likes = 1
        INSERT INTO posts (file, content, likes) VALUES ('a', 'b', 'c')
        INSERT INTO posts (file, likes) VALUES ('a', 1)
        INSERT INTO posts (content, offset) VALUES ('a', 1)
        INSERT INTO posts (content, autor) VALUES ('a', 'b')
        DELETE FROM posts WHERE bytes > 1
        SELECT DATE '2020-1-1'
        SELECT TIMESTAMP 'now'
        SELECT TIME '10:00'
    ";
    let mut shown = String::new();
    for statement in statements
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let error = error_of(statement, &POSTS, &[]);
        writeln!(shown, "{}{error}\n", error.excerpt()).unwrap();
    }
    snapshot("mistakes_in_metadata", &shown);
}
