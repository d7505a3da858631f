//! The plans of all statements, as snapshots.
//!
//! Invariant: every form that docs/SQL.md promises is here. What is refused is in `errors`.

use crate::{Posts, plan_text};
use std::fmt::Write;
use std::sync::Arc;

use zipfdb_sql::query::{Expression, ExpressionId, WordsColumn};
use zipfdb_sql::{Plan, Schema, Value, ValueKind, bind, parse};

struct Corpora;

impl Schema for Corpora {
    fn corpora(&self) -> Vec<String> {
        ["reviews", "Books", "two words"].map(String::from).to_vec()
    }

    fn section_columns(&self) -> Vec<String> {
        ["dictionary_bytes", "root_bytes"]
            .map(String::from)
            .to_vec()
    }
}

/// A corpus whose files have columns of their own.
const POSTS: Posts = Posts(&[
    ("author", ValueKind::Text),
    ("day", ValueKind::Date),
    ("likes", ValueKind::Integer),
]);

/// Each statement of a script, followed by its plan for the first of the parameters.
fn plans(script: &str, parameters: &[Value]) -> String {
    plans_in(&Corpora, script, parameters)
}

fn plans_in(schema: &dyn Schema, script: &str, parameters: &[Value]) -> String {
    let parameters: Vec<Arc<Value>> = parameters.iter().cloned().map(Arc::new).collect();
    let mut shown = String::new();
    for statement in parse(script).unwrap_or_else(|error| panic!("{error}")) {
        let plan = bind(
            &statement,
            schema,
            &parameters[..statement.parameter_count()],
        )
        .unwrap_or_else(|error| panic!("{}\n{error}", statement.text()));
        let plan = match plan {
            Plan::Query(query) => plan_text::shown(&query),
            Plan::Explain { query, analyze, .. } => {
                format!(
                    "Explain {{ analyze: {analyze} }} {}",
                    plan_text::shown(&query)
                )
            }
            Plan::CopyQuery {
                query,
                path,
                format,
                compression,
            } => format!(
                "CopyQuery {{ path: {path:?}, format: {format:?}, compression: {compression:?} }} {}",
                plan_text::shown(&query)
            ),
            Plan::CopyTable {
                query,
                path,
                format,
                kinds,
            } => format!(
                "CopyTable {{ path: {path:?}, format: {format:?}, kinds: {kinds:?} }} {}",
                plan_text::shown(&query)
            ),
            Plan::Insert {
                corpus,
                columns,
                query,
                replace,
            } => plan_text::insert_shown(&corpus, &columns, &query, replace),
            Plan::Delete { corpus, query } => {
                format!("Delete from {corpus}: {}", plan_text::shown(&query))
            }
            Plan::Update {
                corpus,
                columns,
                query,
            } => {
                let columns: Vec<&str> =
                    columns.iter().map(|column| column.name.as_str()).collect();
                let columns = columns.join(", ");
                format!("Update {corpus} ({columns}): {}", plan_text::shown(&query))
            }
            other => format!("{other:?}"),
        };
        writeln!(shown, "{}\n    {plan}", statement.text()).unwrap();
    }
    shown
}

fn snapshot(name: &str, text: &str) {
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(name, text) });
}

#[test]
fn metadata_of_files() {
    let parameters = [Value::from(3)];
    snapshot(
        "metadata_of_files",
        &plans_in(
            &POSTS,
            r#"
        CREATE CORPUS notes (author TEXT, day DATE, at TIMESTAMP, likes INT, rating REAL, is_open BOOLEAN) WITH ();
        ALTER CORPUS posts ADD COLUMN "the language" VARCHAR(2);
        ALTER CORPUS posts ADD source TEXT;
        ALTER CORPUS posts DROP COLUMN Likes;
        UPDATE posts SET likes = ?, author = upper(author) WHERE day < DATE '2020-01-31' AND file LIKE 'a%';
        UPDATE posts SET likes = likes + 1;
        INSERT INTO posts (content, Author, day) VALUES ('a', 'b', '2020-01-31'), ('c', NULL, NULL);
        REPLACE INTO posts (file, content, likes) SELECT file, content, 1 FROM files('posts');
        DELETE FROM posts WHERE likes IS NULL OR file = 'a';
        SELECT * FROM posts WHERE word = 'war';
        SELECT year(day), COUNT(likes) FROM posts WHERE author IN ('a', 'b') GROUP BY 1 ORDER BY 1;
        SELECT p.day FROM term_vectors('posts', 3) AS p WHERE TIMESTAMP '2020-01-31T10:00Z' > p.day;
        "#,
            &parameters,
        ),
    );
}

#[test]
fn statements_about_corpora() {
    let parameters = [Value::from("reviews/*.txt"), Value::from("skip")];
    snapshot(
        "statements_about_corpora",
        &plans(
            r#"
        CREATE CORPUS notes;
        create corpus if not exists Reviews;
        CREATE CORPUS "a ""quoted"" name" WITH (tokenizer = 'WHITESPACE', segment_size = '64 MiB');
        CREATE CORPUS sized WITH (segment_size = 65536);
        CREATE CORPUS sized WITH ();
        DROP CORPUS REVIEWS;
        DROP CORPUS IF EXISTS "two words";
        DROP CORPUS IF EXISTS nothing;
        COPY reviews FROM 'reviews/2024';
        COPY "two words" FROM 'reviews/**/it''s.txt' WITH (on_error = 'skip');
        COPY books FROM '/x' WITH (ON_ERROR = 'Stop');
        COPY books FROM ? WITH (on_error = ?);
        COPY books FROM '/x' WITH (on_conflict = 'Replace', encoding = 'Shift_JIS');
        COPY books FROM '/x' WITH (encoding = 'AUTO', on_conflict = 'skip');
        COPY reviews TO 'target';
        COPY reviews TO 'target.TAR.zst';
        COPY reviews TO 'target.tgz';
        COPY books FROM 'x' WITH (format = 'JSONL', text = 'body', name = 'id', unpack_limit = '2GiB');
        COPY books FROM 'x.log' WITH (records = 'line', fields = '(?<host>\S+)', strip = 'tags');
        CHECK books;
        ALTER CORPUS books SET (segment_size = '1MiB');
        ALTER CORPUS books SET (ingest = 'Fast');
        CREATE CORPUS fast WITH (ingest = 'auto');
        COPY books FROM 'a' WITH (compression = 'fast');
        ALTER CORPUS books SET ();
        CREATE INDEX by_word ON books USING postings;
        CREATE INDEX places ON books USING occurrences;
        CREATE INDEX IF NOT EXISTS w2 ON books USING POSTINGS WITH (codec = 'EF');
        CREATE INDEX s ON books USING postings WITH ();
        CREATE INDEX b ON books USING postings WITH (unit = 'Block:4096', positions = 'off');
        CREATE INDEX r ON books USING postings WITH (reorder = 'on', unit = 'file');
        DROP INDEX by_word;
        DROP INDEX IF EXISTS s;
        "#,
            &parameters,
        ),
    );
}

#[test]
fn settings() {
    let parameters = [Value::from("cuda:3")];
    snapshot(
        "settings",
        &plans(
            r#"
        SET device = 'auto';
        SET device TO 'CPU';
        SET "Device" = 'cuda';
        SET device = ?;
        SET strategy = 'auto';
        SET strategy = 'root_stream';
        SET memory_limit = '256MiB';
        SET memory_limit = 1048576;
        SET statement_timeout = 250;
        SET statement_timeout = '5s';
        SET statement_timeout = '2 min';
        SET gpu_memory_limit = '2GiB';
        SET gpu_memory_limit = 'AUTO';
        SET recompress_interval = '10min';
        SET recompress_interval = 1500;
        SET recompress_rate = '20MiB';
        SET recompress_rate = 0;
        SET recompress_threads = 0;
        SET recompress_threads = '2';
        SET recompress_threads = 'Auto';
        RESET gpu_memory_limit;
        SET batch_window = '200us';
        SET batch_window = '2ms';
        SET batch_window = 1;
        RESET batch_window;
        RESET device;
        RESET memory_limit;
        RESET statement_timeout;
        RESET STRATEGY;
        SET value_size_limit = '16MiB';
        RESET value_size_limit;
        "#,
            &parameters,
        ),
    );
}

#[test]
fn explain_and_copy() {
    let parameters = [Value::from("x.tsv")];
    snapshot(
        "explain_and_copy",
        &plans(
            r#"
        EXPLAIN SELECT word FROM reviews;
        EXPLAIN ANALYZE SELECT COUNT(*) FROM reviews;
        COPY (SELECT word, COUNT(*) AS n FROM reviews GROUP BY word) TO 'counts.csv';
        COPY (SELECT 1) TO ?;
        COPY (SELECT 1) TO '/tmp/x.y/rows.JSON';
        COPY (SELECT 1) TO 'rows.jsonl';
        COPY (SELECT 1) TO 'rows.tsv.GZ';
        COPY (SELECT 1) TO 'rows.zst' WITH (format = 'json');
        COPY reviews TO 'rows.jsonl.zst';
        COPY (SELECT (1)) TO 'rows.txt' WITH (format = 'CSV');
        "#,
            &parameters,
        ),
    );
}

#[test]
fn table_functions() {
    snapshot(
        "table_functions",
        &plans(
            "
        SELECT * FROM corpora();
        SELECT corpus, size, ratio AS r FROM corpora() ORDER BY r DESC, corpus LIMIT 3;
        SELECT CORPUS FROM CORPORA() WHERE corpus IN ('reviews', 'books');
        SELECT COUNT(*) FROM corpora();
        SELECT * FROM segments('reviews');
        SELECT segment, Root_Bytes FROM segments('BOOKS') ORDER BY size DESC, segment;
        SELECT COUNT(segment) AS segments FROM segments(?);
        SELECT * FROM files('two words');
        SELECT file, bytes, words FROM files('reviews') ORDER BY 2 DESC, file LIMIT 10 OFFSET 20;
        SELECT f.*, f.bytes AS size FROM files('reviews') AS f WHERE f.file = 'a.txt';
        SELECT file FROM files('reviews') ORDER BY bytes;
        SELECT COUNT(*) FROM files('reviews') WHERE file IN ('b', 'a', 'b');
        ",
            &[Value::from("reviews")],
        ),
    );
}

#[test]
fn content_of_files() {
    let parameters = [Value::from("a.txt"), Value::Integer(7), Value::Null];
    snapshot(
        "content_of_files",
        &plans(
            "
        SELECT content FROM files('reviews') WHERE file = 'a.txt';
        SELECT substr(content, 101, 64) FROM files('reviews') WHERE file = 'a.txt';
        SELECT substr(content, -64) AS tail FROM files('reviews');
        SELECT SUBSTRING(content, +1), substring(content FROM 2 FOR 3) FROM files('reviews');
        SELECT substr(content, NULL), substr(content, 1, NULL) FROM files('reviews');
        SELECT substr(content, ?2, ?3), substr((content), ?2) FROM files('reviews') WHERE file = ?1;
        ",
            &parameters,
        ),
    );
}

#[test]
fn the_tasks_of_the_papers() {
    snapshot("the_tasks_of_the_papers", &plans(
        "
        SELECT word, COUNT(*) AS n FROM reviews GROUP BY word ORDER BY n DESC, word;
        SELECT word, file FROM reviews GROUP BY word, file ORDER BY word, file;
        SELECT file, word, COUNT(*) AS n FROM reviews GROUP BY file, word;
        SELECT * FROM term_vectors('reviews');
        SELECT * FROM term_vectors('reviews', k => 3);
        SELECT name, kind, bytes FROM indexes('reviews');
        SELECT file FROM files_with('reviews', 'good', 'bad') LIMIT 3;
        SELECT word FROM term_vectors('reviews', 5) WHERE rank = 1;
        SELECT * FROM next_words('reviews', 'the cat', backoff => TRUE);
        SELECT file, offset FROM phrase('reviews', 'the cat sat on the mat and the dog ran');
        SELECT * FROM longest_matches('reviews', 'the cat sat');
        SELECT * FROM attribute('reviews', 'the cat sat', 3);
        SELECT share FROM overlap('reviews', text => 'the cat sat');
        SELECT words, count FROM duplicates('reviews', words => 20) LIMIT 5;
        SELECT ngram, COUNT(*) FROM ngrams('reviews', 3) GROUP BY ngram;
        SELECT ngram, file, COUNT(*) AS n FROM ngrams('reviews', n => 3) GROUP BY ngram, file ORDER BY ngram, n DESC, file;
        SELECT COUNT(word) FROM reviews WHERE file = 'f' AND word = 'w';
        SELECT offset FROM reviews WHERE file = 'f' AND word = 'w' ORDER BY offset;
        SELECT file, offset FROM ngrams('reviews', 2) WHERE ngram = 'new york';
        SELECT substr(content, 101, 64) FROM files('reviews') WHERE file = 'f';
        SELECT * FROM settings();
        SELECT device, used FROM devices() WHERE failures > 0;
        ",
        &[],
    ));
}

#[test]
fn operators() {
    snapshot(
        "operators",
        &plans(
            r#"
        SELECT 1 + 2 * 3 - 4 / 5 % 6 || 'x';
        SELECT 1 - 2 - 3, 2 * (3 + 4), -1, - -1, -(1), +1, - 2 || 'x';
        SELECT NOT 1 = 2, NOT NOT 1, NOT 1 AND 2 OR 3 AND NOT 4;
        SELECT 1 < 2 = 3 > 4, 1 = 2 <> 3, 1 == 2, 1 != 2, 1 <= 2, 1 >= 2;
        SELECT 1 IS 2, 1 IS NOT 2, 1 IS DISTINCT FROM 2, 1 IS NOT DISTINCT FROM 2;
        SELECT 1 IS NULL, 1 IS NOT NULL, 1 ISNULL, 1 NOTNULL, 1 NOT NULL, 1 = 2 IS NULL;
        SELECT 1 IS TRUE, 1 IS FALSE, 1 IS NOT TRUE, 1 IS NOT FALSE, TRUE, FALSE;
        SELECT 1 IS NULL || 'x', 1 ISNULL || 'x', 1 IS (NULL), 1 IS NOT TRUE + 1, 1 IS DISTINCT FROM TRUE, 1 IS 1 IS NULL IS TRUE;
        SELECT 1 IN (), 1 NOT IN (1, NULL), 1 IN (2) IN (3), 1 + 1 IN (2);
        SELECT 1 BETWEEN 2 AND 3, 1 NOT BETWEEN 2 AND 3 AND 4, 1 BETWEEN 2 = 3 AND 4 + 5, lower('a') BETWEEN 'a' AND 'b';
        SELECT 'a' LIKE 'b', 'a' NOT LIKE 'b' ESCAPE '!', 'a' GLOB 'b', 'a' NOT GLOB 'b', 'a' REGEXP 'b', 'a' NOT REGEXP 'b';
        SELECT 'a' || 'b' LIKE 'c' || 'd', 'a' LIKE 'b' = 1, like('p', 'x'), like('p', 'x', '!'), glob('p', 'x'), regexp('p', 'x');
        SELECT CASE WHEN 1 THEN 2 END, CASE WHEN 1 THEN 2 WHEN 3 THEN 4 ELSE 5 END, CASE 1 WHEN 2 THEN 3 ELSE 4 END;
        SELECT CAST(1 AS TEXT), CAST('1' AS INTEGER), CAST(1 AS BIGINT), CAST(1 AS real), CAST('a' AS BLOB), CAST(1 + 1 AS text) || 'a';
        SELECT NULL, 1.5, 1e3, .5, X'00fF', 'it''s', -9223372036854775808, 9223372036854775807;
        "#,
            &[],
        ),
    );
}

#[test]
fn functions() {
    snapshot(
        "functions",
        &plans(
            r#"
        SELECT abs(1), char(65, 66), char(), coalesce(NULL, 1), concat('a', 1), concat_ws(',', 'a', 'b'), hex('a');
        SELECT ifnull(1, 2), iif(1, 2, 3), if(1, 2), instr('ab', 'b'), length('a'), char_length('a'), CHARACTER_LENGTH('a');
        SELECT lower('A'), upper('a'), ltrim(' a'), rtrim('a '), trim('xax', 'x'), max(1, 2), min(1, 2, 3), nullif(1, 2);
        SELECT octet_length('a'), quote('a'), replace('a', 'b', 'c'), round(1.5), round(1.25, 1), sign(-1);
        SELECT substr('abc', 2), substring('abc', 2, 1), substring('abc' FROM 2 FOR 1), typeof(1), unicode('a'), zipfdb_version(), binding();
        SELECT nullif('a', 'A' COLLATE NOCASE);
        "#,
            &[],
        ),
    );
}

#[test]
fn grouping() {
    snapshot("grouping", &plans(
        "
        SELECT word AS w FROM reviews GROUP BY w;
        SELECT r.word FROM reviews r GROUP BY 1;
        SELECT COUNT(*) FROM reviews GROUP BY word;
        SELECT word, COUNT(*), COUNT(word), COUNT(ALL word) FROM reviews GROUP BY word, word;
        SELECT word, COUNT(*) AS word FROM reviews GROUP BY word ORDER BY word;
        SELECT word FROM reviews GROUP BY word ORDER BY COUNT(*) DESC;
        SELECT lower(word) AS w, COUNT(*) AS n FROM reviews GROUP BY w HAVING n > 1 AND w LIKE 'a%' ORDER BY 2, w || 'x';
        SELECT upper(LOWER(Word)), length(lower(word)) + COUNT(*) FROM reviews GROUP BY lower(word);
        SELECT COUNT(DISTINCT word), SUM(length), TOTAL(length), AVG(length), MIN(word), MAX(word), MAX(DISTINCT word) FROM reviews;
        SELECT COUNT(*) FILTER (WHERE word = 'a'), SUM(length) FILTER (WHERE file = 'f' OR offset > 1) FROM reviews;
        SELECT COUNT(*) FROM reviews HAVING COUNT(*) > 1;
        SELECT 1 FROM reviews HAVING MAX(offset) > 1 ORDER BY MIN(offset);
        SELECT file FROM reviews GROUP BY file HAVING 1 AND COUNT(*) BETWEEN 1 AND 5;
        SELECT COUNT(*), 7, 'x' || 'y' FROM reviews;
        SELECT word FROM reviews GROUP BY word COLLATE NOCASE;
        SELECT word COLLATE NOCASE AS w, MAX(word COLLATE NOCASE), COUNT(DISTINCT word COLLATE NOCASE) FROM reviews GROUP BY w ORDER BY w;
        SELECT *, COUNT(*) FROM corpora() GROUP BY corpus, tokenizer, segments, files, bytes, words, size, ratio, pending, recompressed, recompress_error;
        SELECT offset / 10 FROM reviews GROUP BY offset / 10 ORDER BY offset / 10 + 1;
        SELECT offset % ?1 FROM reviews GROUP BY offset % 3;
        SELECT COUNT(*);
        SELECT MIN(1, 2), MIN(1);
        SELECT DISTINCT word COLLATE NOCASE AS w, COUNT(*) FROM reviews GROUP BY word ORDER BY w LIMIT 2 OFFSET 1;
        SELECT word, SUM(length) FROM reviews WHERE offset > 1 GROUP BY word HAVING (word > 'a' AND COUNT(*) > 1) AND word < 'b';
        SELECT word FROM reviews GROUP BY word COLLATE NOCASE HAVING word > 'a';
        SELECT max(word, 'a' COLLATE NOCASE), min('a', 'B' COLLATE NOCASE, word), nullif(word COLLATE NOCASE, 'a') FROM reviews;
        ",
        &[Value::Integer(3)],
    ));
}

#[test]
fn affinities_and_collations() {
    snapshot(
        "affinities_and_collations",
        &plans(
            "
        SELECT word = 1984, 1984 = word, word = 1.5, word = '1', word = X'00', word = NULL FROM reviews;
        SELECT offset = 1, offset = '1', offset = word, word = offset, '1' = offset, offset = 1.0, offset = length FROM reviews;
        SELECT ratio = '0.5', ratio = size, ratio = '0' || '.5' FROM corpora();
        SELECT +word = 1984, +offset = '1', CAST(word AS INTEGER) = '1', CAST(offset AS TEXT) = 1 FROM reviews;
        SELECT lower(word) = 1984, lower(word) = offset, word = lower(word), content = '1', content = word_ FROM
            (SELECT word, offset, word AS word_, X'00' AS content FROM reviews);
        SELECT word IN (1, '2', NULL, offset), offset IN ('1', 2, word), lower(word) IN (1, word), +word IN (1) FROM reviews;
        SELECT word BETWEEN 1 AND 2, offset BETWEEN '1' AND word, CASE word WHEN 1 THEN 2 WHEN offset THEN 3 END FROM reviews;
        SELECT word = 'a' COLLATE NOCASE, word COLLATE NOCASE = 'a' COLLATE BINARY, word COLLATE NOCASE || 'x' = 'ax' FROM reviews;
        SELECT word COLLATE NOCASE IN ('a'), word IN ('a' COLLATE NOCASE), CASE word COLLATE NOCASE WHEN 'a' THEN 1 END FROM reviews;
        SELECT w = 'a', 'a' = w, w = word, word = w, +w = 'a', CAST(w AS TEXT) = 'a' FROM (SELECT word COLLATE NOCASE AS w, word FROM reviews);
        SELECT n = '1', w = 1, c = 1 FROM (SELECT word AS w, COUNT(*) AS n, CAST(word AS INTEGER) AS c FROM reviews GROUP BY word);
        SELECT word FROM reviews ORDER BY word COLLATE NOCASE DESC NULLS LAST, offset NULLS LAST, file DESC NULLS FIRST;
        SELECT DISTINCT word COLLATE NOCASE AS w, file FROM reviews ORDER BY w DESC;
        ",
            &[],
        ),
    );
}

#[test]
fn subqueries_in_expressions_with_and_union() {
    snapshot(
        "subqueries_in_expressions_with_and_union",
        &plans(
            r#"
        SELECT word FROM reviews WHERE word IN (SELECT word FROM books) AND offset NOT IN (SELECT '1');
        SELECT word FROM reviews WHERE word COLLATE NOCASE IN (SELECT COUNT(*) FROM books GROUP BY word);
        SELECT EXISTS (SELECT 1), NOT EXISTS (SELECT * FROM books), (SELECT MAX(word) FROM books) = word FROM reviews;
        SELECT (SELECT offset FROM books LIMIT 1) = '1', (SELECT (SELECT 1));
        SELECT file, COUNT(*) FROM reviews GROUP BY file HAVING COUNT(*) > (SELECT AVG(n) FROM (SELECT 1 AS n));
        WITH a AS (SELECT word AS w FROM reviews), b(x) AS (SELECT w FROM a WHERE w > 'm') SELECT x, b.x FROM b;
        WITH a AS (SELECT 1 AS n) SELECT * FROM a UNION ALL SELECT n + 1 FROM a;
        WITH reviews AS (SELECT 1 AS n) SELECT n FROM reviews AS r WHERE r.n IN (SELECT n FROM reviews);
        SELECT 1 AS n UNION SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 ORDER BY n DESC LIMIT 2;
        SELECT 1 UNION ALL SELECT 2 UNION SELECT 3;
        SELECT word FROM reviews UNION (SELECT word FROM books ORDER BY offset LIMIT 3) UNION SELECT file FROM files('books');
        SELECT word COLLATE NOCASE AS w FROM reviews UNION SELECT word FROM books ORDER BY w;
        DELETE FROM reviews WHERE file IN (SELECT file FROM files('reviews') WHERE bytes = 0);
        INSERT INTO reviews (file, content) WITH a AS (SELECT 'f' AS f) SELECT f, 'text' FROM a UNION ALL SELECT 'g', 'text';
        EXPLAIN (ANALYZE, FORMAT json) WITH a AS (SELECT 1) SELECT * FROM a;
        CREATE TEMP VIEW IF NOT EXISTS v AS WITH a AS (SELECT 1 AS x) SELECT x FROM a;
        DROP VIEW IF EXISTS v;
        SELECT group_concat(word), string_agg(word, '-' ORDER BY offset DESC, word COLLATE NOCASE), median(length) FROM reviews;
        SELECT percentile_cont(length, 0.9), percentile_cont(0.1 + 0.2) WITHIN GROUP (ORDER BY offset) FILTER (WHERE word > 'a') FROM reviews;
        SELECT word FROM reviews LIMIT 2, 1 + 2 * 3;
        SELECT word::VARCHAR(10), -offset::REAL, CAST(length AS DOUBLE PRECISION), word ->> 'a' || 'b', word -> 0 FROM reviews;
        "#,
            &[],
        ),
    );
}

#[test]
fn subqueries_aliases_and_clauses() {
    let parameters = [Value::from("good"), Value::Integer(-1), Value::Null];
    snapshot(
        "subqueries_aliases_and_clauses",
        &plans(
            r#"
        SELECT * FROM (SELECT word, COUNT(*) AS n FROM reviews GROUP BY word) WHERE n > 10 ORDER BY n;
        SELECT t.w, T.* FROM (SELECT word AS w FROM reviews) AS t;
        SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM (SELECT DISTINCT file, word FROM reviews) GROUP BY file) x;
        SELECT a FROM (SELECT 1 AS a, 2 AS A LIMIT 5 OFFSET 1) LIMIT 10;
        SELECT "1 + 1" FROM (SELECT 1 + 1);
        SELECT "lower( word )", "count(*)" FROM (SELECT lower( word ), count(*) FROM reviews GROUP BY lower(word));
        SELECT DISTINCT word FROM reviews ORDER BY word;
        SELECT DISTINCT word AS w, length FROM reviews ORDER BY length DESC, 1;
        SELECT ALL word FROM reviews;
        SELECT length * 2 AS twice FROM reviews WHERE twice > 8 AND word <> 'x' ORDER BY twice + 1;
        SELECT -offset AS offset FROM reviews WHERE offset > 1 ORDER BY offset, -offset;
        SELECT word FROM reviews WHERE word = ? ORDER BY file, position LIMIT ? OFFSET 0;
        SELECT word FROM reviews WHERE (word) IN ('good', ('bad'), NULL) AND (file = 'a') AND (offset > 1 AND length BETWEEN 2 AND 3);
        SELECT word FROM reviews WHERE word = ?3 OR word = 'a' LIMIT -5 OFFSET -5;
        SELECT word FROM reviews OFFSET 2;
        SELECT lower(word), lower(word) || lower(word) FROM reviews WHERE lower(word) = 'a' ORDER BY lower(word);
        SELECT word total, offset AS "AS" FROM reviews LIMIT 0;
        "#,
            &parameters,
        ),
    );
}

#[test]
fn changes_of_files() {
    let parameters = [
        Value::from("a.txt"),
        Value::from(vec![0, 255]),
        Value::from(7),
    ];
    snapshot(
        "changes_of_files",
        &plans(
            r#"
        INSERT INTO reviews (file, content) VALUES ('a', 'b');
        insert into Reviews (content, FILE) values ('b', 'a'), (X'00ff', 'c');
        INSERT INTO reviews (file, offset, content) VALUES ('a', 0, 'x'), ('a', +7, 'y' || char(10)), (lower('A'), 1 + 1, hex('z'));
        INSERT INTO "two words" ("content", offset, file) VALUES (?2, ?3, ?1), ('it''s', -0, 'b');
        INSERT INTO reviews (file, content) VALUES (CASE WHEN 1 THEN 'a' END, CAST(('b') AS BLOB)), (coalesce(NULL, 'c', 'd'), (('e')));
        INSERT INTO reviews (file, content) SELECT file, content FROM files('books') WHERE bytes < 100;
        INSERT INTO reviews (content, offset, file) SELECT word, offset, file FROM reviews ORDER BY offset LIMIT 3;
        INSERT INTO reviews (file, content) SELECT w, COUNT(*) FROM (SELECT word AS w FROM books) GROUP BY w;
        REPLACE INTO reviews (file, content) VALUES (?1, 'new'), ('b', '');
        REPLACE INTO reviews (content, file) SELECT content, file FROM files('books');
        DELETE FROM reviews;
        DELETE FROM reviews WHERE file = ?1;
        DELETE FROM Reviews WHERE reviews.file LIKE 'a%' AND lower(file) NOT IN ('b', 'c') OR file IS NULL;
        BEGIN; BEGIN TRANSACTION; BEGIN DEFERRED; BEGIN IMMEDIATE TRANSACTION;
        COMMIT; COMMIT TRANSACTION; END; END TRANSACTION; ROLLBACK; rollback transaction;
        RECOMPRESS reviews;
        CREATE CORPUS c WITH (recompress_threshold = '8MiB');
        ALTER CORPUS reviews SET (recompress_threshold = 65536, segment_size = '1GiB');
        SET durability = 'normal'; SET durability TO 'OFF'; RESET durability;
        "#,
            &parameters,
        ),
    );
}

#[test]
fn names_comments_and_parameters() {
    let parameters = [Value::from("a"), Value::from("b"), Value::from("c")];
    snapshot(
        "names_comments_and_parameters",
        &plans(
            r#"
        SELECT COUNT ( * ) FROM "Reviews";
        SELECT COUNT(/* a /* nested */ comment */*) -- to the end of the line;
            FROM reviews;
        SELECT "OFFSET" FROM reviews WHERE "word" = 'it''s; -- no comment' LIMIT 0;
        SELECT "two words".offset FROM "two words" WHERE "two words".word = 'x';
        SELECT COUNT(*) FROM reviews WHERE word IN (?, ?3, ?1) AND file = $2;
        SELECT COUNT(*) FROM reviews WHERE word IN (?2, ?);
        "#,
            &parameters,
        ),
    );
}

#[test]
fn a_plan_shares_the_values_of_its_parameters() {
    let text = "INSERT INTO reviews (file, content) VALUES ('a', ?1), ('b', ?1)";
    let parameters = [Arc::new(Value::from("large"))];
    let plan = bind(&parse(text).unwrap()[0], &Corpora, &parameters).unwrap();
    let Plan::Insert { query, .. } = &plan else {
        panic!()
    };
    let expressions = query.blocks.iter().flat_map(|block| &block.expressions);
    let is_shared = |expression: &&Expression| matches!(expression, Expression::Value(value) if Arc::ptr_eq(value, &parameters[0]));
    assert_eq!(expressions.filter(is_shared).count(), 1);
    assert_eq!(Arc::strong_count(&parameters[0]), 2);
}

#[test]
fn conditions_are_columns_and_values_in_the_plan() {
    let text = "SELECT offset FROM reviews WHERE file = ? AND word IN ('a', 1984)";
    let statement = &parse(text).unwrap()[0];
    let Plan::Query(query) = bind(statement, &Corpora, &[Value::from("f").into()]).unwrap() else {
        panic!()
    };
    let [block] = &query.blocks[..] else { panic!() };
    let of = |id: ExpressionId| &block.expressions[id.0 as usize];
    let [file, word] = block.filter[..] else {
        panic!()
    };
    let Expression::Compare { left, right, .. } = of(file) else {
        panic!()
    };
    assert_eq!(*of(*left), Expression::Column(WordsColumn::File as usize));
    assert_eq!(*of(*right), Expression::Value(Value::from("f").into()));
    let Expression::In { operand, list, .. } = of(word) else {
        panic!()
    };
    assert_eq!(
        *of(*operand),
        Expression::Column(WordsColumn::Word as usize)
    );
    let values: Vec<&Expression> = list.iter().map(|id| of(*id)).collect();
    let expected = ["a", "1984"].map(|text| Expression::Value(Value::from(text).into()));
    assert_eq!(values, expected.iter().collect::<Vec<_>>());
    // Nothing else: every expression is needed, and equal ones are one.
    assert_eq!(block.expressions.len(), 8);
}

#[test]
fn counting_a_column_of_text_counts_rows() {
    let plan = |select: &str| {
        let shown = plans(&format!("SELECT {select} AS n FROM reviews"), &[]);
        shown.lines().skip(1).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(plan("COUNT(word)"), plan("COUNT(*)"));
    let both = plan("COUNT(*) AS m, COUNT(*)");
    assert_eq!(plan("COUNT(word) AS m, COUNT(file)"), both);
    assert_ne!(plan("COUNT(DISTINCT word)"), plan("COUNT(*)"));
    // The results of these functions may be NULL.
    assert_ne!(plan("COUNT(nullif(word, 'a'))"), plan("COUNT(*)"));
}

#[test]
fn equal_expressions_are_one_but_two_zeros_are_two() {
    let count = |text: &str| {
        let Plan::Query(query) = bind(&parse(text).unwrap()[0], &Corpora, &[]).unwrap() else {
            panic!()
        };
        query.blocks[0].expressions.len()
    };
    assert_eq!(
        count("SELECT lower(word), LOWER(r.Word) FROM reviews r WHERE lower(word) > 'a'"),
        4
    );
    assert_eq!(
        count("SELECT upper(word) BETWEEN 'a' AND 'b' FROM reviews"),
        7
    );
    assert_eq!(count("SELECT 0.0, -0.0, 0, 0.00"), 3);
    assert_eq!(count("SELECT 1, 1.0, '1', X'31', TRUE"), 4);
}
