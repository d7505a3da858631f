//! Scans on the grammar compared with the plain scan, for every way a query can ask and every strategy.

#![allow(clippy::unwrap_used)]

use std::fs;

use zipfdb_sql::Plan;
use zipfdb_sql::query::Query;
use zipfdb_sql::setting::{Setting, Strategy};

use super::super::select_from;
use super::*;
use crate::Database;
use crate::Value;
use crate::ingest::CopyOptions;
use crate::runtime::interrupt::Interrupt;
use crate::segment::{NgramStructure, StructureKind};
use crate::{CorpusSettings, Rows, Tokenizer};

/// The scan that expands every file.
fn open_plain(
    session: &Arc<Session>,
    request: ScanRequest,
    context: &Context,
) -> Result<Box<dyn Scan>> {
    match &request.relation {
        Relation::Words { corpus }
        | Relation::Ngrams { corpus, .. }
        | Relation::TermVectors { corpus, .. } => {
            let corpus = session.corpus(corpus)?;
            Ok(Box::new(reference::ReferenceScan::new(
                &corpus, request, context,
            )?))
        }
        _ => open(session, request, context),
    }
}

/// Random numbers below the argument of each call, the same for the same seed.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed | 1;
    move |end| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % end
    }
}

/// Words of a few letters, so that rules, n-grams and equal words of several spellings occur.
fn text(seed: u64, words: usize) -> Vec<u8> {
    const WORDS: [&str; 12] = [
        "the",
        "The",
        "cat",
        "sat",
        "on",
        "mat",
        "a",
        "\u{c9}t\u{e9}",
        "\u{e9}t\u{e9}",
        "dog's",
        "x1",
        "THE",
    ];
    const GAPS: [&str; 6] = [" ", " ", " ", ", ", ".\n", "  "];
    let mut number = numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut next = |end: usize| number(end as u64) as usize;
    let mut text = Vec::new();
    while words > 0 && text.len() < words * 5 {
        // Phrases repeat, as in any text.
        let from = text.len().saturating_sub(400);
        match next(4) {
            0 if text.len() > 100 => text.extend_from_within(from..from + 90),
            _ => {
                text.extend(WORDS[next(WORDS.len())].bytes());
                text.extend(GAPS[next(GAPS.len())].bytes());
            }
        }
    }
    String::from_utf8_lossy(&text).into_owned().into_bytes()
}

fn database(tokenizer: Tokenizer, segment_size: u64, sizes: &[usize]) -> Database {
    let database = Database::options().threads(2).in_memory().unwrap();
    let settings = CorpusSettings {
        tokenizer,
        segment_size,
        ..CorpusSettings::default()
    };
    let corpus = database.create_corpus("c", settings).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (number, &words) in sizes.iter().enumerate() {
        let path = folder.path().join(format!("f{number}"));
        fs::write(path, text(number as u64 + 1, words)).unwrap();
    }
    let report = corpus.copy_from(folder.path(), &CopyOptions::default());
    report.unwrap();
    database
}

fn plan(database: &Database, sql: &str) -> Query {
    let statement = zipfdb_sql::parse(sql).unwrap().remove(0);
    match zipfdb_sql::bind(&statement, &**database.inner(), &[]) {
        Ok(Plan::Query(query)) => query,
        other => panic!("{sql}: {other:?}"),
    }
}

fn values(rows: Rows) -> Vec<Vec<Value>> {
    rows.map(|row| row.unwrap().into_values()).collect()
}

/// The values of all rows, taken as columns and at times as a row.
fn batched(mut rows: Rows) -> Vec<Vec<Value>> {
    let mut values = Vec::new();
    for size in [1, 7, 4096, 2].into_iter().cycle() {
        let Some(batch) = rows.next_batch(size).unwrap() else {
            break;
        };
        assert!((1..=size).contains(&batch.len()));
        values.extend((0..batch.len()).map(|row| batch.row(row)));
        values.extend(rows.next().map(|row| row.unwrap().into_values()));
    }
    values
}

fn sorted(mut rows: Vec<Vec<Value>>) -> Vec<String> {
    let mut rows: Vec<String> = rows.drain(..).map(|row| format!("{row:?}")).collect();
    rows.sort();
    rows
}

/// Compares the answers of all strategies; returns the number of those that could answer.
fn check(database: &Database, sql: &str) -> usize {
    let query = plan(database, sql);
    let settings = &database.inner().shared().runtime.settings;
    settings.lock().set(Setting::Strategy(None));
    let expected = values(
        select_from(
            database.inner(),
            vec![query.clone()],
            open_plain,
            &database.inner().shared().runtime.interrupt(),
        )
        .unwrap(),
    );
    let is_ordered = sql.contains("ORDER BY");
    let expected = if is_ordered {
        expected.iter().map(|row| format!("{row:?}")).collect()
    } else {
        sorted(expected)
    };
    let mut answers = 0;
    for strategy in std::iter::once(None).chain(Strategy::ALL.map(Some)) {
        settings.lock().set(Setting::Strategy(strategy));
        let answer = || {
            select_from(
                database.inner(),
                vec![query.clone()],
                open,
                &database.inner().shared().runtime.interrupt(),
            )
        };
        let rows = match answer() {
            Ok(rows) => rows,
            Err(error) => {
                assert!(strategy.is_some(), "{sql}: {error}");
                assert!(
                    error.to_string().contains("can be answered by"),
                    "{sql}: {error}"
                );
                continue;
            }
        };
        for found in [values(rows), batched(answer().unwrap())] {
            let found: Vec<String> = if is_ordered {
                found.iter().map(|row| format!("{row:?}")).collect()
            } else {
                sorted(found)
            };
            assert!(
                found == expected,
                "{sql} by {strategy:?}\nfound    {found:?}\nexpected {expected:?}"
            );
        }
        answers += 1;
    }
    settings.lock().set(Setting::Strategy(None));
    answers
}

const CONDITIONS: [&str; 14] = [
    "",
    "file = 'f3'",
    "file = 'nowhere'",
    "file IN ('f0', 'f2', 'f4')",
    "file LIKE 'f%' AND file <> 'f1'",
    "word = 'the'",
    "word = 'nowhere'",
    "word IN ('the', 'cat', 'nothing') AND file = 'f3'",
    "word = 'the' COLLATE NOCASE",
    "lower(word) = '\u{e9}t\u{e9}'",
    "word GLOB 't*' AND length < 4",
    "word > 'dog' AND file > 'f2'",
    "position < 7",
    "word = 'cat' AND offset BETWEEN 10 AND 500",
];

fn with(condition: &str, rest: &str) -> String {
    match condition {
        "" => rest.to_owned(),
        condition => format!("WHERE {condition} {rest}"),
    }
}

fn check_all(database: &Database, corpus: &str) {
    for condition in CONDITIONS {
        for (items, rest) in [
            ("COUNT(*), COUNT(DISTINCT word), MIN(word), SUM(length)", ""),
            ("COUNT(*)", ""),
            ("word, COUNT(*)", "GROUP BY word"),
            ("word, COUNT(*) AS n", "GROUP BY word ORDER BY n DESC, word"),
            ("file, COUNT(*)", "GROUP BY file"),
            ("file, word, COUNT(*)", "GROUP BY file, word"),
            (
                "word, COUNT(*) AS n",
                "GROUP BY word ORDER BY n DESC, word LIMIT 4 OFFSET 1",
            ),
            (
                "word, COUNT(*) AS n",
                "GROUP BY word HAVING word > 'cat' ORDER BY n DESC, word LIMIT 3",
            ),
            (
                "file, word, COUNT(*) AS n",
                "GROUP BY file, word ORDER BY n, word, file LIMIT 6",
            ),
            (
                "lower(word) AS l, COUNT(*) AS n",
                "GROUP BY lower(word) ORDER BY n DESC, l LIMIT 3",
            ),
            ("word, file", "GROUP BY word, file ORDER BY word, file"),
            (
                "word, file, COUNT(*) AS n",
                "GROUP BY word, file ORDER BY word, n DESC, file",
            ),
            ("lower(word), COUNT(*)", "GROUP BY lower(word)"),
            ("DISTINCT length", ""),
            (
                "file, position, offset, word, length",
                "ORDER BY file, position",
            ),
            ("offset", "ORDER BY file, offset LIMIT 5 OFFSET 2"),
            ("word", ""),
            ("file, MIN(position), MAX(offset)", "GROUP BY file"),
        ] {
            let sql = format!("SELECT {items} FROM {corpus} {}", with(condition, rest));
            assert!(check(database, &sql) >= 1);
        }
    }
}

#[test]
fn words_by_every_strategy_are_those_of_the_plain_text() {
    for tokenizer in [Tokenizer::Unicode, Tokenizer::Whitespace] {
        check_all(&database(tokenizer, 1 << 30, &[0, 40, 300, 2000, 90]), "c");
    }
}

#[test]
fn words_over_segments_and_parts_of_files_are_those_of_the_plain_text() {
    check_all(
        &database(Tokenizer::Unicode, 3000, &[0, 40, 300, 2000, 90]),
        "c",
    );
}

#[test]
fn one_file_and_no_file_answer_too() {
    check_all(&database(Tokenizer::Unicode, 1 << 30, &[500]), "c");
    check_all(&database(Tokenizer::Unicode, 1 << 30, &[]), "c");
}

#[test]
fn term_vectors_are_those_of_the_plain_text() {
    for segment_size in [1 << 30, 3000] {
        let database = database(Tokenizer::Unicode, segment_size, &[0, 40, 300, 2000, 90]);
        for k in [1, 3, 1000] {
            for condition in [
                "",
                "file = 'f3'",
                "file IN ('f1', 'f4') AND rank <= 2",
                "word = 'the' AND count > 1",
            ] {
                for (items, rest) in [
                    ("*", "ORDER BY file, rank"),
                    ("word, SUM(count)", "GROUP BY word"),
                    ("COUNT(*)", ""),
                ] {
                    let rest = with(condition, rest);
                    check(
                        &database,
                        &format!("SELECT {items} FROM term_vectors('c', {k}) {rest}"),
                    );
                }
            }
        }
    }
}

#[test]
fn ngrams_by_every_strategy_are_those_of_the_plain_text() {
    for segment_size in [1 << 30, 3000] {
        let database = database(Tokenizer::Unicode, segment_size, &[0, 1, 2, 40, 600, 90]);
        for n in [1, 2, 3, 8] {
            for condition in [
                "",
                "file = 'f4'",
                "file IN ('f1', 'f2', 'f4')",
                "ngram = 'the cat'",
                "ngram = 'the' AND file = 'f4'",
                "ngram IN ('the cat', 'on the mat', 'cat sat on', 'nothing')",
                "ngram LIKE 'the %'",
                "position < 3",
            ] {
                for (items, rest) in [
                    ("COUNT(*)", ""),
                    ("ngram, COUNT(*)", "GROUP BY ngram"),
                    (
                        "ngram, COUNT(*) AS n",
                        "GROUP BY ngram ORDER BY n DESC, ngram LIMIT 5 OFFSET 2",
                    ),
                    (
                        "ngram, COUNT(*) AS n",
                        "GROUP BY ngram ORDER BY n DESC, ngram",
                    ),
                    ("ngram, COUNT(*) AS n", "GROUP BY ngram ORDER BY n, ngram"),
                    (
                        "ngram, COUNT(*) AS n",
                        "GROUP BY ngram ORDER BY n DESC, ngram DESC",
                    ),
                    (
                        "ngram, file, COUNT(*) AS n",
                        "GROUP BY file, ngram ORDER BY n DESC, file, ngram LIMIT 7",
                    ),
                    ("file, COUNT(*)", "GROUP BY file"),
                    (
                        "ngram, file, COUNT(*) AS n",
                        "GROUP BY ngram, file ORDER BY ngram, n DESC, file",
                    ),
                    ("file, offset, position", "ORDER BY file, offset"),
                    ("*", ""),
                ] {
                    let rest = with(condition, rest);
                    check(
                        &database,
                        &format!("SELECT {items} FROM ngrams('c', {n}) {rest}"),
                    );
                }
            }
        }
    }
}

/// A text in which words at these places of each hundred are odd, or of the same length and plain. A vowel sign behind a space is
/// a word that begins with the space; ranks do not order words of control characters or of bytes that are not UTF-8.
fn odd_text(seed: u64, words: usize, tokenizer: Tokenizer, is_odd: bool) -> Vec<u8> {
    let mut next = numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut text = Vec::new();
    for place in 0..words {
        let odd: &[u8] = match (place % 100, tokenizer, is_odd) {
            (0 | 37 | 38, Tokenizer::Unicode, true) => "a  \u{93e} b".as_bytes(),
            (39, Tokenizer::Unicode, true) => "a  \u{fb9}".as_bytes(),
            (0 | 37 | 38, _, true) => b"a\x01 \xff b",
            (39, _, true) => b"a \xffx",
            (0 | 37 | 38 | 39, ..) => b"a plain b",
            _ => b"",
        };
        text.extend_from_slice(odd);
        text.extend_from_slice([&b" "[..], b" a ", b" b ", b" the cat "][next(4) as usize]);
    }
    text
}

fn odd_database(tokenizer: Tokenizer, segment_size: u64, is_odd: bool) -> Database {
    let database = Database::options().threads(2).in_memory().unwrap();
    let settings = CorpusSettings {
        tokenizer,
        segment_size,
        ..CorpusSettings::default()
    };
    let corpus = database.create_corpus("c", settings).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (number, words) in [0, 1, 60, 700, 200].into_iter().enumerate() {
        let text = odd_text(number as u64 + 1, words, tokenizer, is_odd);
        fs::write(folder.path().join(format!("f{number}")), text).unwrap();
    }
    corpus
        .copy_from(folder.path(), &CopyOptions::default())
        .unwrap();
    database
}

/// Items and the clauses after conditions: n-grams with and without files, the first ones, and all in each order.
const NGRAM_ROWS: [(&str, &str); 11] = [
    ("ngram, COUNT(*)", "GROUP BY ngram"),
    (
        "ngram, COUNT(*) AS n",
        "GROUP BY ngram ORDER BY n DESC, ngram LIMIT 5",
    ),
    (
        "ngram, COUNT(*) AS n",
        "GROUP BY ngram ORDER BY n, ngram LIMIT 3",
    ),
    (
        "ngram, COUNT(*) AS n",
        "GROUP BY ngram HAVING n BETWEEN 2 AND 4",
    ),
    (
        "ngram, COUNT(*) AS n",
        "GROUP BY ngram ORDER BY n DESC, ngram",
    ),
    ("ngram, COUNT(*) AS n", "GROUP BY ngram ORDER BY ngram"),
    (
        "ngram, COUNT(*) AS n",
        "GROUP BY ngram HAVING n > 1 ORDER BY ngram LIMIT 4",
    ),
    (
        "ngram, file, COUNT(*) AS n",
        "GROUP BY ngram, file ORDER BY n DESC, ngram, file LIMIT 7",
    ),
    ("ngram, file, COUNT(*) AS n", "GROUP BY ngram, file"),
    (
        "ngram, file, COUNT(*) AS n",
        "GROUP BY ngram, file ORDER BY ngram, file",
    ),
    (
        "ngram, file, COUNT(*) AS n",
        "GROUP BY ngram, file ORDER BY ngram, n DESC, file",
    ),
];

#[test]
fn ngrams_with_odd_words_are_rows_of_their_texts_in_every_order() {
    let edits = [
        "",
        "INSERT INTO c (file, offset, content) VALUES ('f3', 5, 'a  \u{93e} b'), ('f4', 100, ' cat  \u{93e} ');
         INSERT INTO c (file, content) VALUES ('new', 'the cat  \u{93e} the cat a  \u{93e} b')",
        "DELETE FROM c WHERE file = 'f2'; REPLACE INTO c (file, content) VALUES ('f4', 'a  \u{93e} b the')",
    ];
    for tokenizer in [Tokenizer::Unicode, Tokenizer::Whitespace] {
        for segment_size in [1 << 30, 1000] {
            let database = odd_database(tokenizer, segment_size, true);
            if segment_size < 1 << 30 {
                let snapshot = database.inner().reader("c", &Interrupt::never()).unwrap();
                let stored = snapshot.view().stored();
                stored.build_ngrams(NgramStructure::Suffixes).unwrap();
            }
            for edit in edits {
                database.execute_batch(edit).unwrap();
                for (n, condition) in [
                    (1, ""),
                    (2, ""),
                    (3, ""),
                    (3, "file <> 'f4'"),
                    (3, "ngram LIKE 'a %'"),
                    (2, "ngram LIKE '%b' AND file IN ('f3', 'f4')"),
                    (2, "ngram LIKE '% \u{fb9}%'"),
                    (3, "ngram GLOB '*b a*'"),
                    (2, "ngram REGEXP '^(a|the) .*[b\u{93e}]$'"),
                ] {
                    for (items, rest) in NGRAM_ROWS {
                        let rest = with(condition, rest);
                        let sql = format!("SELECT {items} FROM ngrams('c', {n}) {rest}");
                        assert!(check(&database, &sql) >= 2, "{sql}");
                    }
                }
            }
        }
    }
}

#[test]
fn odd_words_change_no_path_of_ngrams() {
    for segment_size in [1 << 30, 1000] {
        let [odd, plain] = [true, false].map(|is_odd| {
            let database = odd_database(Tokenizer::Unicode, segment_size, is_odd);
            database.execute_batch("SET device = 'cpu'").unwrap();
            database
        });
        for (items, rest) in NGRAM_ROWS {
            let sql = format!("EXPLAIN SELECT {items} FROM ngrams('c', 3) {rest}");
            let names = |database: &Database| -> Vec<String> {
                let lines = values(database.query(&sql, ()).unwrap()).into_iter();
                // Without estimates.
                let lines = lines.map(|line| format!("{line:?}"));
                lines
                    .map(|line| line.split(" (about").next().unwrap().to_owned())
                    .collect()
            };
            assert_eq!(names(&odd), names(&plain), "{sql}");
        }
    }
}

/// Conditions on places of a file of up to some thousand bytes and words.
fn place_conditions(seed: u64) -> Vec<String> {
    let mut next = numbers(seed);
    let mut conditions: Vec<String> = [
        "offset = 0",
        "position = 0",
        "offset BETWEEN 20 AND 10",
        "offset < 0",
        "offset >= 9223372036854775807",
        "position BETWEEN -5 AND 2.5",
        "position > 2.5 AND position < 9.0",
        "position > 30 AND position <> 33",
        "position IN (5, 700) AND position <= 700",
        "position > 9223372036854775807",
        "position >= 100 AND word = 'the' AND file IN ('f3', 'f4', 'new')",
        "offset > '7'",
        "offset IN (0, 5, 400)",
    ]
    .map(str::to_owned)
    .to_vec();
    for _ in 0..4 {
        let (offset, bytes) = (next(4000), next(200));
        let (position, words) = (next(800), next(40));
        let (offset_end, position_end) = (offset + bytes, position + words);
        conditions.extend([
            format!("offset BETWEEN {offset} AND {offset_end}"),
            format!("position BETWEEN {position} AND {position_end}"),
            format!("offset >= {offset} AND position < {position_end} AND file > 'f2'"),
            format!("(offset = {offset} OR position = {position}) AND offset > 1"),
            format!("(offset < {bytes} OR {offset} <= offset) AND file = 'f4'"),
            format!("word = 'the' AND {offset}.5 < offset AND offset < {offset_end}.0"),
            format!("word = 'the' AND position BETWEEN {position} AND {position_end}"),
            format!("word = 'the' AND position >= {position} AND file <> 'f3'"),
        ]);
    }
    conditions
}

#[test]
fn places_are_looked_up_in_parts_of_files_and_around_edits() {
    for segment_size in [1 << 30, 3000] {
        let database = database(Tokenizer::Unicode, segment_size, &[0, 1, 40, 700, 1500]);
        for seed in 1..4 {
            for condition in place_conditions(seed) {
                for (relation, items, sought) in [
                    ("c", "file, word, offset, position", "word ="),
                    ("c", "file, word, position", "word ="),
                    ("c", "COUNT(*), MIN(offset)", "word ="),
                    ("ngrams('c', 3)", "*", "ngram <>"),
                ] {
                    let condition = condition.replace("word =", sought);
                    let sql = format!("SELECT {items} FROM {relation} WHERE {condition}");
                    check(&database, &sql);
                }
            }
            let edits = [
                "INSERT INTO c (file, offset, content) VALUES ('f3', 5, 'the new cat'), ('f4', 1000, ' sat new '),
                 ('f4', 1003, 'x'), ('f4', 3000, ', the'), ('f2', 0, 'on the '), ('f0', 0, 'a cat sat')",
                "REPLACE INTO c (file, content) VALUES ('f1', 'the cat sat on the mat');
                 INSERT INTO c (file, content) VALUES ('f4', ' the end'), ('new', 'a new file')",
            ];
            if let Some(edit) = edits.get(seed as usize - 1) {
                database.execute_batch(edit).unwrap();
            }
        }
    }
}

/// The plan of a query as EXPLAIN shows it, and its rows.
fn explained(database: &Database, sql: &str) -> (String, Vec<String>) {
    let lines = values(database.query(&format!("EXPLAIN {sql}"), ()).unwrap());
    let rows = sorted(values(database.query(sql, ()).unwrap()));
    (format!("{lines:?}"), rows)
}

#[test]
fn explain_says_how_words_are_counted_by_file() {
    let database = database(Tokenizer::Unicode, 1 << 30, &[400, 300, 500]);
    database
        .execute_batch("SET strategy = 'file_weights'")
        .unwrap();
    for (sql, counts) in [
        (
            "SELECT word, file, COUNT(*) FROM c GROUP BY word, file",
            "path: file_weights (",
        ),
        (
            "SELECT file, word FROM term_vectors('c', 3)",
            "path: count_table (",
        ),
    ] {
        let (plan, _) = explained(&database, sql);
        assert!(plan.contains(counts), "{plan}");
    }
}

#[test]
fn counts_of_words_in_a_file_pay_for_a_table_when_all_of_its_words_are_counted() {
    let database = database(Tokenizer::Unicode, 1 << 20, &[300, 200]);
    let snapshot = database.corpus("c").unwrap().snapshot().unwrap();
    let segment = &snapshot.view().segments()[0];
    let has_table = || segment.has(StructureKind::WordFiles);
    database
        .execute_batch("SET strategy = 'file_weights'")
        .unwrap();
    let ask = |sql: &str| values(database.query(sql, ()).unwrap());
    let name = &snapshot.files()[0].name;
    segment.budgets.counts.make_due();
    // A statement that wants all words does not pay for the table.
    ask(&format!(
        "SELECT word, COUNT(*) FROM c WHERE file = '{name}' GROUP BY word"
    ));
    assert!(!has_table());
    let sql = format!("SELECT COUNT(*) FROM c WHERE file = '{name}' AND word = 'the'");
    let count = ask(&sql);
    assert!(has_table());
    database.execute_batch("SET strategy = 'auto'").unwrap();
    assert_eq!(ask(&sql), count);
    let (plan, _) = explained(&database, &sql);
    assert!(plan.contains("path: count_table ("), "{plan}");
}

#[test]
fn explain_names_occurrence_lists_once_they_are_there() {
    let database = database(Tokenizer::Unicode, 1 << 30, &[400, 300, 500]);
    database.execute_batch("SET strategy = 'parents'").unwrap();
    let explained = |columns: &str| {
        let sql = format!("SELECT file, {columns} FROM c WHERE word IN ('the', 'a', 'cat')");
        explained(&database, &sql)
    };
    let all_columns = ["offset", "position, offset"];
    let without = all_columns.map(explained);
    let snapshot = database.inner().reader("c", &Interrupt::never()).unwrap();
    snapshot.view().stored().build_lists().unwrap();
    for (columns, (plan, rows)) in all_columns.into_iter().zip(without) {
        assert!(!plan.contains("path: occurrence_lists"), "{plan}");
        let (plan, rows_of_kept) = explained(columns);
        assert!(plan.contains("path: occurrence_lists ("), "{plan}");
        assert_eq!(rows_of_kept, rows);
    }
}

/// Compares answers with hardly any memory to those with enough. Returns whether n-grams were answered in parts.
fn check_with_little_memory(database: &Database, sql: &str) -> bool {
    // Another test may have started the emulator, which counts as a GPU and is slow.
    let settings = "SET device = 'cpu'; SET memory_limit = '1GiB'";
    database.execute_batch(settings).unwrap();
    let (plan, expected) = explained(database, sql);
    assert!(!plan.contains("in parts"), "{plan}");
    database.execute_batch("SET memory_limit = '1MiB'").unwrap();
    let (plan, found) = explained(database, sql);
    assert!(found == expected, "{sql}");
    plan.contains("in parts")
}

/// Queries on n-grams, with and without files, conditions and an order.
const LARGE_NGRAMS: [&str; 9] = [
    "SELECT ngram, COUNT(*) FROM ngrams('c', 3) GROUP BY ngram",
    "SELECT ngram, COUNT(*) AS n FROM ngrams('c', 3) GROUP BY ngram ORDER BY n DESC, ngram LIMIT 20",
    "SELECT ngram, file, COUNT(*) FROM ngrams('c', 4) GROUP BY ngram, file",
    "SELECT ngram, COUNT(*) FROM ngrams('c', 3) WHERE ngram LIKE '%cat%' GROUP BY ngram",
    "SELECT ngram, COUNT(*) FROM ngrams('c', 4) WHERE file <> 'f2' GROUP BY ngram",
    "SELECT ngram, file, COUNT(*) FROM ngrams('c', 3) WHERE file <> 'f2' AND ngram > 'm' GROUP BY 1, 2",
    "SELECT file, COUNT(*) FROM ngrams('c', 3) WHERE ngram LIKE '%the%' GROUP BY file",
    "SELECT COUNT(*), COUNT(DISTINCT ngram) FROM ngrams('c', 3) WHERE ngram LIKE '%the%'",
    "SELECT COUNT(*) FROM ngrams('c', 3) WHERE ngram LIKE '%the%' AND file <> 'f2'",
];

#[test]
fn ngrams_that_would_not_fit_the_memory_limit_are_answered_in_parts() {
    // One segment, and several, of which files have parts.
    for segment_size in [1 << 30, 64 << 10] {
        let database = database(
            Tokenizer::Unicode,
            segment_size,
            &[0, 40, 40_000, 20_000, 40_000],
        );
        for round in 0..3 {
            match round {
                1 => database
                    .execute_batch(
                        "INSERT INTO c (file, offset, content) VALUES ('f3', 5, 'the new cat'), ('f2', 1000, ' sat new ');
                         REPLACE INTO c (file, content) VALUES ('f1', 'the cat sat on the mat');
                         INSERT INTO c (file, content) VALUES ('new', 'a new file \u{c9}t\u{e9}')",
                    )
                    .unwrap(),
                2 => database.execute_batch("DELETE FROM c WHERE file = 'f4'").unwrap(),
                _ => {}
            }
            for sql in LARGE_NGRAMS {
                // In the last round some are small enough.
                assert!(
                    check_with_little_memory(&database, sql) || round == 2,
                    "{sql}"
                );
            }
        }
    }
}

#[test]
fn words_with_spaces_make_one_row_of_equal_texts_with_little_memory() {
    let database = Database::options().threads(2).in_memory().unwrap();
    let corpus = database
        .create_corpus("c", CorpusSettings::default())
        .unwrap();
    // A vowel sign behind a space is a word that begins with the space.
    let text = |seed: u64| -> String {
        let words = (seed..seed + 40_000).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let words = words.map(|word| match (word ^ word >> 31) % 16_000 {
            0..1000 => "a \u{93e} ".to_owned(),
            1000..2000 => "a  \u{93e}b ".to_owned(),
            other => format!("w{} ", other % 977),
        });
        words.collect()
    };
    let files = [("f", text(1)), ("g", text(1 << 32))];
    corpus.append_many(&files).unwrap();
    database.execute_batch("RECOMPRESS c").unwrap();
    for sql in [
        "SELECT ngram, COUNT(*) FROM ngrams('c', 5) GROUP BY ngram",
        "SELECT ngram, file, COUNT(*) FROM ngrams('c', 3) GROUP BY ngram, file",
        "SELECT ngram, COUNT(*) FROM ngrams('c', 3) WHERE ngram LIKE '%w%' GROUP BY ngram",
    ] {
        assert!(check_with_little_memory(&database, sql), "{sql}");
    }
}

#[test]
fn tables_that_would_not_fit_the_memory_limit_are_not_built() {
    // Few words, many files.
    let database = database(Tokenizer::Unicode, 1 << 30, &[30; 3000]);
    for sql in [
        "SELECT word, file, COUNT(*) FROM c GROUP BY word, file ORDER BY word, file",
        "SELECT file, word FROM c WHERE word GLOB 't*' GROUP BY file, word",
    ] {
        database.execute_batch("SET memory_limit = '1GiB'").unwrap();
        let (_, expected) = explained(&database, sql);
        database.execute_batch("SET memory_limit = '1MiB'").unwrap();
        let (plan, found) = explained(&database, sql);
        assert!(plan.contains("file by file"), "{plan}");
        assert!(found == expected, "{sql}");
    }
}

#[test]
fn term_vectors_that_would_not_fit_the_memory_limit_are_counted_file_by_file() {
    let database = database(Tokenizer::Unicode, 1 << 30, &[30; 9000]);
    // Another test may have started the emulator, which counts as a GPU.
    database.execute_batch("SET device = 'cpu'").unwrap();
    let sql = "SELECT * FROM term_vectors('c', 1000000)";
    let (plan, expected) = explained(&database, sql);
    assert!(!plan.contains("file by file"), "{plan}");
    database.execute_batch("SET memory_limit = '1MiB'").unwrap();
    let (plan, found) = explained(&database, sql);
    assert!(plan.contains("file by file"), "{plan}");
    assert!(found == expected, "{sql}");
}
