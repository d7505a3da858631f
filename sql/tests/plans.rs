//! The plans of all statements, as snapshots.
//!
//! Invariant: every form that docs/SQL.md promises is here. What is refused is in `errors`.

#![allow(clippy::unwrap_used)]

use std::fmt::Write;

use zipfdb_sql::{Schema, Value, bind, parse};

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

/// Each statement of a script, followed by its plan for the first of the parameters.
fn plans(script: &str, parameters: &[Value]) -> String {
    let mut shown = String::new();
    for statement in parse(script).unwrap_or_else(|error| panic!("{error}")) {
        let plan = bind(
            &statement,
            &Corpora,
            &parameters[..statement.parameter_count()],
        )
        .unwrap_or_else(|error| panic!("{error}"));
        writeln!(shown, "{}\n    {plan:?}", statement.text()).unwrap();
    }
    shown
}

fn snapshot(name: &str, text: &str) {
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(name, text) });
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
        COPY reviews TO 'target';
        CHECK books;
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
fn word_counts() {
    snapshot("word_counts", &plans(
        "
        SELECT word, COUNT(*) AS n FROM reviews GROUP BY word;
        SELECT word, COUNT(*) AS n FROM reviews GROUP BY word ORDER BY n DESC, word;
        SELECT word, COUNT(*) AS n FROM reviews GROUP BY word ORDER BY n ASC, word DESC LIMIT 10;
        SELECT word, COUNT(*) FROM reviews WHERE file = 'a.txt' GROUP BY word ORDER BY 2 DESC, 1;
        SELECT count(word) total, word FROM reviews GROUP BY word ORDER BY COUNT(*);
        SELECT word FROM reviews GROUP BY word ORDER BY COUNT(*) DESC;
        SELECT word AS w FROM reviews GROUP BY w;
        SELECT r.word FROM reviews r GROUP BY 1;
        SELECT COUNT(*) FROM reviews GROUP BY word;
        SELECT word, COUNT(*), COUNT(word) FROM reviews WHERE word IN ('a', 'b') GROUP BY word, word;
        SELECT word, COUNT(*) AS word FROM reviews GROUP BY word ORDER BY word;
        ",
        &[],
    ));
}

#[test]
fn counts_and_occurrences() {
    let parameters = [Value::from("good"), Value::Integer(-1), Value::Null];
    snapshot("counts_and_occurrences", &plans(
        "
        SELECT COUNT(word) FROM reviews;
        SELECT COUNT(*) FROM reviews WHERE file = 'a.txt';
        SELECT COUNT(word) AS n FROM reviews WHERE file = 'a.txt' AND word = 'good' ORDER BY n;
        SELECT COUNT(*), COUNT(1), COUNT(file) FROM reviews WHERE 'good' = word;
        SELECT COUNT(*) FROM reviews WHERE word = 'good' AND word = 'bad';
        SELECT COUNT(*) FROM reviews WHERE word IN ();
        SELECT COUNT(*) FROM reviews WHERE word = ?3;
        SELECT offset FROM reviews WHERE file = 'a.txt' AND word = 'good' ORDER BY offset;
        SELECT file, offset FROM reviews WHERE word = 'good' ORDER BY file, offset LIMIT 5 OFFSET 2;
        SELECT offset FROM reviews WHERE word = ? ORDER BY file, offset LIMIT ?;
        SELECT word, offset, length FROM reviews WHERE (word) IN ('good', ('bad'), NULL) AND (file = 'a');
        ",
        &parameters,
    ));
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
