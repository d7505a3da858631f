//! Answers through DataFusion: those of ZipfDB's own dialect, and those of naive oracles where it has none.
//!
//! All tests read one kind of corpus: several segments, and edits that are not merged yet.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::stats::Precision;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::prelude::SessionContext;
use zipfdb::ingest::CopyOptions;
use zipfdb::{CorpusSettings, Database, Value};

const WORDS: &[&str] = &[
    "the",
    "The",
    "cat",
    "Cat",
    "dog",
    "Dog",
    "can't",
    "don't",
    "na\u{ef}ve",
    "at",
    "that",
    "c3po",
    "hat",
    "mouse",
    "and",
];
const SEPARATORS: &[&str] = &[" ", " ", ", ", "\n", " - "];

/// Texts of the corpus, by file.
type Texts = BTreeMap<String, String>;

/// A word of a file, as a corpus has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Occurrence {
    file: String,
    word: String,
    position: i64,
    offset: i64,
}

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % end
    }

    fn text(&mut self, words: usize) -> String {
        let mut text = String::new();
        for _ in 0..words {
            text.push_str(WORDS[self.below(WORDS.len())]);
            text.push_str(SEPARATORS[self.below(SEPARATORS.len())]);
        }
        text
    }
}

/// A corpus `Pets` and what it holds.
fn pets() -> (Database, Texts) {
    let mut numbers = Numbers(1);
    let mut texts = Texts::new();
    let database = Database::in_memory().unwrap();
    let corpus = database
        .create_corpus("Pets", CorpusSettings::default())
        .unwrap();
    for folder in 0..3 {
        let directory = tempfile::tempdir().unwrap();
        for file in 0..4 {
            let (name, text) = (format!("{folder}{file}.txt"), numbers.text(40 * file));
            std::fs::write(directory.path().join(&name), &text).unwrap();
            texts.insert(name, text);
        }
        corpus
            .copy_from(directory.path(), &CopyOptions::default())
            .unwrap();
    }
    for name in ["a[1].txt", "a*b.txt", "50%.txt", "it's.txt", "01.txt"] {
        let text = numbers.text(30);
        corpus.append_many(&[(name, &text)]).unwrap();
        texts.entry(name.into()).or_default().push_str(&text);
    }
    corpus.insert_many(&[("12.txt", 0, "mouse that ")]).unwrap();
    texts
        .get_mut("12.txt")
        .unwrap()
        .insert_str(0, "mouse that ");
    corpus
        .replace_many(&[("13.txt", "the cat and the dog")])
        .unwrap();
    texts.insert("13.txt".into(), "the cat and the dog".into());
    corpus.delete_many(&["23.txt"]).unwrap();
    texts.remove("23.txt");
    assert!(corpus.segments().unwrap().len() >= 3);
    assert!(corpus.pending_bytes().unwrap() > 0);
    (database, texts)
}

fn occurrences(texts: &Texts) -> Vec<Occurrence> {
    let mut found = Vec::new();
    for (file, text) in texts {
        let is_word = |c: char| c.is_alphanumeric() || c == '\'';
        let (mut position, mut start) = (0, None);
        for (offset, c) in text.char_indices().chain([(text.len(), ' ')]) {
            match (is_word(c), start) {
                (true, None) => start = Some(offset),
                (false, Some(begin)) => {
                    found.push(Occurrence {
                        file: file.clone(),
                        word: text[begin..offset].into(),
                        position,
                        offset: begin as i64,
                    });
                    position += 1;
                    start = None;
                }
                _ => {}
            }
        }
    }
    found
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Integer(integer) => integer.to_string(),
        Value::Real(real) => format!("{real:?}"),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

fn cell_text(array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) {
        return "NULL".into();
    }
    match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::UInt64 => {
            let numbers = array.as_primitive::<datafusion::arrow::datatypes::UInt64Type>();
            numbers.value(row).to_string()
        }
        DataType::Float64 => format!("{:?}", array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8View => array.as_string_view().value(row).into(),
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::LargeBinary => {
            String::from_utf8_lossy(array.as_binary::<i64>().value(row)).into_owned()
        }
        other => panic!("no text of {other}"),
    }
}

async fn through(context: &SessionContext, sql: &str) -> Vec<Vec<String>> {
    let frame = context
        .sql(sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let batches = frame
        .collect()
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut rows = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            rows.push(batch.columns().iter().map(|c| cell_text(c, row)).collect());
        }
    }
    rows
}

fn own(database: &Database, sql: &str) -> Vec<Vec<String>> {
    let rows = database
        .query(sql, ())
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.map(|row| row.unwrap().values().iter().map(value_text).collect())
        .collect()
}

fn sorted(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    rows.sort();
    rows
}

async fn explained(context: &SessionContext, sql: &str) -> String {
    let rows = through(context, &format!("EXPLAIN {sql}")).await;
    rows.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

/// The statements that ZipfDB is asked for.
async fn statements(context: &SessionContext, sql: &str) -> Vec<String> {
    let plan = explained(context, sql).await;
    let scans = plan
        .lines()
        .filter_map(|line| line.split_once("ZipfScan: "));
    scans.map(|(_, statement)| statement.into()).collect()
}

#[tokio::test]
async fn rows_are_those_of_the_own_dialect() {
    let (database, _) = pets();
    let context = zipfdb_datafusion::context(&database);
    for sql in [
        "SELECT * FROM pets",
        "SELECT length, word FROM PETS WHERE word = 'cat'",
        "SELECT word, file FROM pets WHERE word <> 'cat' AND length >= 4",
        "SELECT * FROM pets WHERE word IN ('cat', 'Dog', 'can''t', 'nothing')",
        "SELECT * FROM pets WHERE word NOT IN ('cat', 'Dog') AND 3 > position",
        "SELECT * FROM pets WHERE NOT (word = 'cat' OR file = '11.txt') AND \"offset\" BETWEEN 20 AND 90",
        "SELECT * FROM pets WHERE word > 'cat' AND word <= 'hat' OR position = 0 AND file IS NOT NULL",
        "SELECT * FROM pets WHERE position NOT BETWEEN 1 AND 30",
        "SELECT file FROM pets WHERE file = 'it''s.txt'",
        "SELECT file FROM pets WHERE word = ''",
        "SELECT word, COUNT(*) FROM pets GROUP BY word",
        "SELECT file, COUNT(*) AS n, COUNT(word) FROM pets GROUP BY file",
        "SELECT word, file, COUNT(*) AS n FROM pets WHERE length < 5 GROUP BY file, word HAVING COUNT(*) > 2",
        "SELECT COUNT(*), COUNT(file) FROM pets WHERE word = 'the'",
        "SELECT COUNT(*) FROM pets WHERE word = 'nothing'",
        "SELECT COUNT(DISTINCT word) FROM pets",
        "SELECT file, COUNT(DISTINCT word) FROM pets GROUP BY file",
        "SELECT DISTINCT word FROM pets",
        "SELECT length, COUNT(*) FROM pets GROUP BY length",
        "SELECT file, SUM(length), MIN(word), MAX(\"offset\") FROM pets GROUP BY file",
        "SELECT lower(word) AS w, COUNT(*) FROM pets WHERE file <> '01.txt' GROUP BY lower(word)",
        "SELECT * FROM ngrams('pets', 2)",
        "SELECT * FROM ngrams('pets', 3) WHERE ngram = 'the cat and'",
        "SELECT * FROM ngrams('pets', 2) WHERE ngram = 'can''t don''t' OR ngram IN ('the cat', 'na\u{ef}ve dog')",
        "SELECT ngram, COUNT(*) FROM ngrams('pets', 2) GROUP BY ngram",
        "SELECT ngram, file, COUNT(*) FROM ngrams('pets', 1) WHERE file < '20' GROUP BY ngram, file",
        "SELECT * FROM files('pets')",
        "SELECT SUM(bytes), SUM(words), COUNT(*) FROM files('Pets') WHERE file < '2'",
        "SELECT * FROM term_vectors('pets')",
        "SELECT word, rank FROM term_vectors('pets', 3) WHERE count > 2",
        "SELECT * FROM files_with('pets', 'mouse', 'that')",
        "SELECT * FROM next_words('pets', 'the', 1)",
        "SELECT position, words, count FROM longest_matches('pets', 'the mouse and the cat')",
        "SELECT position, text_offset, text_length FROM attribute('pets', 'the mouse', 1)",
        "SELECT covered, share, longest FROM overlap('pets', 'the mouse', 1)",
        "SELECT words, count, files FROM duplicates('pets', 3)",
        "SELECT segment, files, bytes, ratio, recompressed, form FROM segments('pets')",
        "SELECT * FROM corpora()",
        "SELECT setting, value FROM settings()",
        "SELECT word FROM pets WHERE file = '01.txt' UNION SELECT word FROM pets WHERE position > 100",
        "SELECT word FROM pets WHERE word IN (SELECT word FROM term_vectors('pets', 1))",
        "SELECT MAX(n) FROM (SELECT file, COUNT(*) AS n FROM pets GROUP BY file)",
    ] {
        let (ours, theirs) = (own(&database, sql), through(&context, sql).await);
        assert_eq!(sorted(theirs), sorted(ours), "{sql}");
    }
    for sql in [
        "SELECT word, COUNT(*) AS n FROM pets GROUP BY word ORDER BY n DESC, word LIMIT 5",
        "SELECT word, file, COUNT(*) AS n FROM pets GROUP BY word, file ORDER BY n DESC, file, word DESC LIMIT 9 OFFSET 2",
        "SELECT p.file, p.word FROM pets AS p WHERE p.position < 2 ORDER BY p.file, p.position",
    ] {
        assert_eq!(through(&context, sql).await, own(&database, sql), "{sql}");
    }
}

/// LIKE as standard SQL has it.
fn is_like(text: &[char], pattern: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => (0..=text.len()).any(|at| is_like(&text[at..], rest)),
        ['_', rest @ ..] => !text.is_empty() && is_like(&text[1..], rest),
        [c, rest @ ..] => text.first() == Some(c) && is_like(&text[1..], rest),
    }
}

#[tokio::test]
async fn like_is_that_of_datafusion() {
    let (database, texts) = pets();
    let context = zipfdb_datafusion::context(&database);
    let all = occurrences(&texts);
    let chars = |text: &str| text.chars().collect::<Vec<_>>();
    let patterns = [
        ("word", "c%"),
        ("word", "C%"),
        ("word", "_at"),
        ("word", "%''t"),
        ("word", "na_ve"),
        ("word", "%a%"),
        ("word", "cat"),
        ("word", ""),
        ("file", "a[%"),
        ("file", "a[1]%"),
        ("file", "a*%"),
        ("file", "%*b.txt"),
        ("file", "50%"),
        ("file", "??.txt"),
        ("file", "_%.txt"),
        ("file", "%s.t_t"),
        ("file", "a^%"),
        ("file", "%]%"),
    ];
    for (column, pattern) in patterns {
        for not in ["", "NOT "] {
            let sql =
                format!("SELECT file, position FROM pets WHERE {column} {not}LIKE '{pattern}'");
            let plain = chars(&pattern.replace("''", "'"));
            let expected = all.iter().filter(|occurrence| {
                let text = if column == "word" {
                    &occurrence.word
                } else {
                    &occurrence.file
                };
                is_like(&chars(text), &plain) != (not == "NOT ")
            });
            let expected =
                expected.map(|found| vec![found.file.clone(), found.position.to_string()]);
            assert_eq!(
                sorted(through(&context, &sql).await),
                sorted(expected.collect()),
                "{sql}"
            );
            let pushed = statements(&context, &sql).await;
            assert!(
                pushed.iter().all(|statement| statement.contains("WHERE")),
                "{sql}: {pushed:?}"
            );
        }
    }
    // Escapes and other case rules are left to DataFusion.
    let sql = "SELECT DISTINCT file FROM pets WHERE file LIKE '50\\%%'";
    assert_eq!(through(&context, sql).await, [["50%.txt"]]);
    let sql = "SELECT COUNT(*) FROM pets WHERE word ILIKE 'THE'";
    let expected = all
        .iter()
        .filter(|found| found.word.eq_ignore_ascii_case("the"))
        .count();
    assert_eq!(through(&context, sql).await, [[expected.to_string()]]);
}

#[tokio::test]
async fn ngrams_equal_only_what_is_written_so() {
    let (database, texts) = pets();
    let context = zipfdb_datafusion::context(&database);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for pair in occurrences(&texts)
        .windows(2)
        .filter(|pair| pair[0].file == pair[1].file)
    {
        *counts
            .entry(format!("{} {}", pair[0].word, pair[1].word))
            .or_default() += 1;
    }
    let count = |ngram: &str| counts.get(ngram).copied().unwrap_or(0);
    let total: usize = counts.values().sum();
    assert!(count("the cat") > 0 && count("na\u{ef}ve dog") > 0);
    for ngram in [
        "the cat",
        "the-cat",
        "the  cat",
        "na\u{ef}ve dog",
        "don't",
        "the",
        "can't don't",
        "",
    ] {
        let literal = ngram.replace('\'', "''");
        for (condition, expected) in [
            (format!("ngram = '{literal}'"), count(ngram)),
            (format!("ngram <> '{literal}'"), total - count(ngram)),
            (
                format!("ngram IN ('{literal}', 'cat the')"),
                count(ngram) + count("cat the"),
            ),
            (
                format!("ngram NOT IN ('{literal}', 'cat the')"),
                total - count(ngram) - count("cat the"),
            ),
            (
                format!("NOT (ngram = '{literal}' OR ngram = 'cat the')"),
                total - count(ngram) - count("cat the"),
            ),
        ] {
            let sql = format!("SELECT COUNT(*) FROM ngrams('pets', 2) WHERE {condition}");
            assert_eq!(
                through(&context, &sql).await,
                [[expected.to_string()]],
                "{sql}"
            );
            assert_eq!(statements(&context, &sql).await.len(), 1, "{sql}");
        }
    }
}

#[tokio::test]
async fn joins_windows_and_set_operations_are_those_of_naive_oracles() {
    let (database, texts) = pets();
    let context = zipfdb_datafusion::context(&database);
    let all = occurrences(&texts);
    let names: Vec<&str> = texts
        .keys()
        .map(String::as_str)
        .chain(["missing.txt"])
        .collect();
    let years: Vec<i64> = (0..names.len() as i64)
        .map(|number| 1990 + number % 4)
        .collect();
    let year_of: BTreeMap<&str, i64> = names.iter().copied().zip(years.iter().copied()).collect();
    let batch = RecordBatch::try_from_iter([
        (
            "file",
            Arc::new(StringArray::from(names.clone())) as ArrayRef,
        ),
        ("year", Arc::new(Int64Array::from(years)) as ArrayRef),
    ]);
    context.register_batch("meta", batch.unwrap()).unwrap();

    let sql = "SELECT year, word, COUNT(*) FROM pets JOIN meta ON pets.file = meta.file GROUP BY year, word";
    let mut counts: BTreeMap<(i64, &str), usize> = BTreeMap::new();
    for found in &all {
        *counts
            .entry((year_of[found.file.as_str()], &found.word))
            .or_default() += 1;
    }
    let expected = counts
        .iter()
        .map(|((year, word), n)| vec![year.to_string(), word.to_string(), n.to_string()]);
    assert_eq!(
        sorted(through(&context, sql).await),
        sorted(expected.collect())
    );

    // Files without words are kept by the outer join.
    let sql = "SELECT meta.file, COUNT(word) FROM meta LEFT JOIN pets ON pets.file = meta.file AND word = 'the' \
               GROUP BY meta.file";
    let count_of = |file: &str| {
        all.iter()
            .filter(|found| found.file == file && found.word == "the")
            .count()
    };
    let expected = names
        .iter()
        .map(|file| vec![file.to_string(), count_of(file).to_string()]);
    assert_eq!(
        sorted(through(&context, sql).await),
        sorted(expected.collect())
    );

    let words_of = |file: &str| -> BTreeSet<String> {
        all.iter()
            .filter(|found| found.file == file)
            .map(|found| found.word.clone())
            .collect()
    };
    let (left, right) = (words_of("01.txt"), words_of("13.txt"));
    let query = |operator| {
        format!(
            "SELECT word FROM pets WHERE file = '01.txt' {operator} SELECT word FROM pets WHERE file = '13.txt'"
        )
    };
    let rows = |words: Vec<&String>| {
        words
            .into_iter()
            .map(|word| vec![word.clone()])
            .collect::<Vec<_>>()
    };
    assert_eq!(
        sorted(through(&context, &query("EXCEPT")).await),
        rows(left.difference(&right).collect())
    );
    assert_eq!(
        sorted(through(&context, &query("INTERSECT")).await),
        rows(left.intersection(&right).collect())
    );
    assert_eq!(
        sorted(through(&context, &query("UNION")).await),
        rows(left.union(&right).collect())
    );

    let sql = "SELECT file, position, LAG(word) OVER (PARTITION BY file ORDER BY position) FROM pets WHERE position < 5";
    let expected = all.iter().filter(|found| found.position < 5).map(|found| {
        let before =
            |other: &&Occurrence| other.file == found.file && other.position + 1 == found.position;
        let before = all
            .iter()
            .find(before)
            .map_or("NULL".into(), |other| other.word.clone());
        vec![found.file.clone(), found.position.to_string(), before]
    });
    assert_eq!(
        sorted(through(&context, sql).await),
        sorted(expected.collect())
    );

    let sql = "SELECT file, word FROM \
               (SELECT file, word, ROW_NUMBER() OVER (PARTITION BY file ORDER BY COUNT(*) DESC, word) AS r \
               FROM pets GROUP BY file, word) WHERE r = 1";
    let expected = texts.keys().filter_map(|file| {
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        all.iter()
            .filter(|found| found.file == *file)
            .for_each(|found| *counts.entry(&found.word).or_default() += 1);
        let top = counts.iter().min_by_key(|(word, n)| (-**n, **word))?;
        Some(vec![file.clone(), top.0.to_string()])
    });
    assert_eq!(
        sorted(through(&context, sql).await),
        sorted(expected.collect())
    );
}

#[tokio::test]
async fn the_first_rows_of_a_union_are_first_by_all_keys() {
    let (database, texts) = pets();
    let context = zipfdb_datafusion::context(&database);
    let files: Vec<&String> = texts.keys().take(3).collect();
    let branches: Vec<String> = (files.iter().zip(["z", "y", "x"]))
        .map(|(file, name)| format!("SELECT word, '{name}' AS k FROM pets WHERE file = '{file}'"))
        .collect();
    let sql = format!("{} ORDER BY 1, 2 LIMIT 9", branches.join(" UNION ALL "));
    let mut expected: Vec<Vec<String>> = occurrences(&texts)
        .into_iter()
        .filter_map(|Occurrence { file, word, .. }| {
            let branch = files.iter().position(|known| **known == file)?;
            Some(vec![word, ["z", "y", "x"][branch].to_owned()])
        })
        .collect();
    expected.sort();
    expected.truncate(9);
    let plan = explained(&context, &sql).await;
    let keys = "expr=[word@0 ASC NULLS LAST, k@1 ASC NULLS LAST], preserve_partitioning";
    assert!(plan.contains(keys), "{plan}");
    for _ in 0..20 {
        assert_eq!(through(&context, &sql).await, expected);
    }
}

#[tokio::test]
async fn explain_shows_the_statements_that_were_pushed_down() {
    let (database, _) = pets();
    let context = zipfdb_datafusion::context(&database);
    for (sql, expected) in [
        (
            "SELECT word FROM pets WHERE file = '01.txt' AND length > 3 LIMIT 7",
            "SELECT \"word\" FROM \"Pets\" WHERE \"file\" = '01.txt' AND \"length\" > 3 LIMIT 7",
        ),
        (
            "SELECT word, COUNT(*) FROM pets GROUP BY word",
            "SELECT \"word\", COUNT(*) FROM \"Pets\" GROUP BY \"word\"",
        ),
        (
            "SELECT p.file, p.word, COUNT(p.position) FROM pets AS p WHERE p.word LIKE 'c%' GROUP BY p.word, p.file",
            "SELECT \"word\", \"file\", COUNT(*) FROM \"Pets\" WHERE \"word\" GLOB 'c*' GROUP BY \"word\", \"file\"",
        ),
        (
            "SELECT word, COUNT(*) AS n FROM pets GROUP BY word ORDER BY n DESC LIMIT 3",
            "SELECT \"word\", COUNT(*) FROM \"Pets\" GROUP BY \"word\" ORDER BY COUNT(*) DESC LIMIT 3",
        ),
        (
            "SELECT ngram, COUNT(*) FROM ngrams('pets', 2) GROUP BY ngram",
            "SELECT \"ngram\", COUNT(*) FROM ngrams('pets', 2) GROUP BY \"ngram\"",
        ),
        (
            "SELECT COUNT(DISTINCT word) FROM pets",
            "SELECT COUNT(DISTINCT \"word\") FROM \"Pets\"",
        ),
        (
            "SELECT file, COUNT(DISTINCT word) AS n FROM pets GROUP BY file ORDER BY n DESC LIMIT 2",
            "SELECT \"file\", COUNT(DISTINCT \"word\") FROM \"Pets\" GROUP BY \"file\" \
             ORDER BY COUNT(DISTINCT \"word\") DESC LIMIT 2",
        ),
        (
            "SELECT COUNT(*) FROM pets WHERE word IN ('a', 'b', 'c', 'd')",
            "SELECT COUNT(*) FROM \"Pets\" WHERE \"word\" IN ('a', 'b', 'c', 'd')",
        ),
        (
            "SELECT file, bytes FROM files('pets') WHERE bytes > 100",
            "SELECT \"file\", \"bytes\" FROM files('pets') WHERE \"bytes\" > 100",
        ),
        (
            // Sums are made by DataFusion.
            "SELECT file, SUM(length) FROM pets GROUP BY file",
            "SELECT \"file\", \"length\" FROM \"Pets\"",
        ),
    ] {
        assert_eq!(
            statements(&context, sql).await,
            [expected],
            "{sql}\n{}",
            explained(&context, sql).await
        );
    }
    // A count of what DataFusion filters is not pushed down.
    let plan = explained(
        &context,
        "SELECT word, COUNT(*) FROM pets WHERE word ILIKE 'c%' GROUP BY word",
    )
    .await;
    assert!(
        plan.contains("FilterExec") && plan.contains("ZipfScan: SELECT \"word\" FROM \"Pets\"\n"),
        "{plan}"
    );
}

#[test]
fn conditions_beyond_what_a_statement_takes_are_left_to_datafusion() {
    // DataFusion walks a chain of conditions by calling itself.
    let thread = std::thread::Builder::new().stack_size(64 << 20);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let asked = thread.spawn(move || runtime.block_on(ask_many_conditions()));
    asked.unwrap().join().unwrap();
}

async fn ask_many_conditions() {
    let (database, texts) = pets();
    let context = zipfdb_datafusion::context(&database);
    let all = occurrences(&texts);
    let list: Vec<String> = (0..30_000).map(|n| format!("'x{n}'")).collect();
    let sql = format!(
        "SELECT COUNT(*) FROM pets WHERE word NOT IN ({}) AND word <> 'the'",
        list.join(", ")
    );
    let expected = all.iter().filter(|found| found.word != "the").count();
    assert_eq!(through(&context, &sql).await, [[expected.to_string()]]);

    let each = (0..900).map(|n| format!("(word > 'a{n}' OR position <> {n})"));
    let sql = format!(
        "SELECT COUNT(*) FROM pets WHERE {}",
        each.collect::<Vec<_>>().join(" AND ")
    );
    let is_kept = |found: &&Occurrence| found.word > format!("a{}", found.position);
    let expected = all.iter().filter(is_kept).count();
    assert_eq!(through(&context, &sql).await, [[expected.to_string()]]);
    let pushed = statements(&context, &sql).await;
    assert!(
        pushed[0].len() > 5000 && pushed[0].len() < 20_000,
        "{pushed:?}"
    );
}

#[tokio::test]
async fn rows_can_be_counted_without_columns() {
    let (database, texts) = pets();
    let context = zipfdb_datafusion::context(&database);
    let words = occurrences(&texts).len();
    assert_eq!(through(&context, "SELECT 1 FROM pets").await.len(), words);
    assert_eq!(
        through(&context, "SELECT 1 FROM pets LIMIT 7").await.len(),
        7
    );
    let sql = "SELECT COUNT(*) FROM files('pets') AS f, files('pets') AS g";
    assert_eq!(
        through(&context, sql).await,
        [[(texts.len() * texts.len()).to_string()]]
    );
    for (sql, expected) in [
        ("SELECT word FROM pets", words),
        ("SELECT file FROM files('pets')", texts.len()),
        ("SELECT file FROM files('pets') LIMIT 2", 2),
        (
            "SELECT file FROM ngrams('pets', 3)",
            through(&context, "SELECT file FROM ngrams('pets', 3)")
                .await
                .len(),
        ),
    ] {
        let plan = context
            .sql(sql)
            .await
            .unwrap()
            .create_physical_plan()
            .await
            .unwrap();
        let statistics = StatisticsContext::new();
        let statistics = statistics
            .compute(plan.as_ref(), &StatisticsArgs::new())
            .unwrap();
        assert_eq!(statistics.num_rows, Precision::Exact(expected), "{sql}");
    }
}

#[tokio::test]
async fn all_scans_of_a_query_see_one_snapshot() {
    let (database, _) = pets();
    let context = zipfdb_datafusion::context(&database);
    let sql = "SELECT COUNT(*) FROM files('pets') AS f LEFT JOIN pets AS p ON p.file = f.file AND p.position = 0";
    let before = through(&context, sql).await;
    let plan = context
        .sql(sql)
        .await
        .unwrap()
        .create_physical_plan()
        .await
        .unwrap();
    let corpus = database.corpus("pets").unwrap();
    corpus
        .append_many(&[("later.txt", "a later text")])
        .unwrap();
    let batches = datafusion::physical_plan::collect(plan, context.task_ctx())
        .await
        .unwrap();
    assert_eq!(cell_text(batches[0].column(0), 0), before[0][0]);
    let after: usize = before[0][0].parse::<usize>().unwrap() + 1;
    assert_eq!(through(&context, sql).await, [[after.to_string()]]);
}

#[tokio::test]
async fn corpora_come_and_go_and_other_tables_lie_beside_them() {
    let (database, _) = pets();
    let context = zipfdb_datafusion::context(&database);
    context
        .sql("CREATE TABLE notes AS VALUES (1), (2)")
        .await
        .unwrap();
    let error = context
        .sql("CREATE TABLE pets AS VALUES (1)")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("pets"), "{error}");
    database
        .create_corpus("later", CorpusSettings::default())
        .unwrap();
    assert_eq!(
        through(&context, "SELECT COUNT(*) FROM later").await,
        [["0"]]
    );
    database.drop_corpus("later").unwrap();
    assert!(context.sql("SELECT COUNT(*) FROM later").await.is_err());
    let error = context
        .sql("SELECT * FROM files('pest')")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("did you mean \"Pets\""), "{error}");
    let error = context
        .sql("SELECT * FROM ngrams('pets', 9)")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("ngrams('pets', 9)"), "{error}");
}

async fn failure(context: &SessionContext, sql: &str) -> String {
    let answer = async { context.sql(sql).await?.collect().await };
    answer.await.unwrap_err().to_string()
}

#[tokio::test]
async fn files_are_inserted_and_replaced_all_or_none() {
    let (database, _) = pets();
    let context = zipfdb_datafusion::context(&database);
    let contents = "SELECT file, content FROM files('pets') ORDER BY file";
    let insert = "INSERT INTO files.pets (content, file) VALUES (' mouse', 'a*b.txt'), ('new', 'n.txt'), ('er', 'n.txt')";
    let before = own(&database, contents);
    assert_eq!(through(&context, insert).await, [["3"]]);
    let after = own(&database, contents);
    assert_eq!(after.len(), before.len() + 1);
    for row in &after {
        let old = before.iter().find(|old| old[0] == row[0]);
        let old = old.map_or("", |old| &old[1]);
        let added = match row[0].as_str() {
            "a*b.txt" => " mouse",
            "n.txt" => "newer",
            _ => "",
        };
        assert_eq!(row[1], format!("{old}{added}"), "{}", row[0]);
    }
    let replace = "REPLACE INTO files.PETS (file, content) SELECT file, 'only' FROM files('pets') WHERE file LIKE 'n%'";
    assert_eq!(through(&context, replace).await, [["1"]]);
    let read = "SELECT word FROM pets WHERE file = 'n.txt'";
    assert_eq!(through(&context, read).await, [["only"]]);
    // A query of the corpus itself reads it as it was before the statement.
    let doubled = "INSERT INTO files.pets (file, content) SELECT file, content FROM files.pets";
    let files = after.len().to_string();
    assert_eq!(through(&context, doubled).await, [[files]]);
    let twice = own(&database, contents);
    for (row, once) in twice
        .iter()
        .zip(&after)
        .filter(|(row, _)| row[0] != "n.txt")
    {
        assert_eq!(row[1], once[1].repeat(2));
    }
    for (statement, reason) in [
        (
            "INSERT INTO files.pets (file, content) VALUES ('o.txt', 'x'), ('../o.txt', 'x')",
            "../o.txt",
        ),
        (
            "INSERT INTO files.pets (file, content) VALUES ('o.txt', 'x'), ('p.txt', NULL)",
            "null",
        ),
        (
            "INSERT INTO files.pets VALUES ('o.txt', 'x', 1, 1)",
            "\"bytes\" comes from the text",
        ),
        (
            "INSERT OVERWRITE files.pets (file, content) VALUES ('o.txt', 'x')",
            "REPLACE INTO files.Pets",
        ),
        (
            "INSERT INTO pets VALUES ('a', 'b', 1, 2, 3)",
            "INSERT INTO files.corpus",
        ),
    ] {
        let error = failure(&context, statement).await;
        assert!(error.contains(reason), "{statement}: {error}");
    }
    assert_eq!(own(&database, contents), twice);
}

#[tokio::test]
async fn corpora_are_joined_with_files_of_parquet_that_copy_wrote() {
    let (database, texts) = pets();
    let context = zipfdb_datafusion::context(&database);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shelves.parquet");
    let path = path.to_str().unwrap();
    let shelves = "SELECT file, bytes % 3 AS shelf FROM files('pets') WHERE bytes > 0";
    let files = texts.values().filter(|text| !text.is_empty()).count();
    let copied = through(&context, &format!("COPY ({shelves}) TO '{path}'")).await;
    assert_eq!(copied, [[files.to_string()]]);
    let table = format!("CREATE EXTERNAL TABLE shelves STORED AS PARQUET LOCATION '{path}'");
    context.sql(&table).await.unwrap();
    let mut counts: BTreeMap<(usize, String), usize> = BTreeMap::new();
    for occurrence in occurrences(&texts) {
        let shelf = texts[&occurrence.file].len() % 3;
        *counts.entry((shelf, occurrence.word)).or_default() += 1;
    }
    let expected = counts
        .into_iter()
        .map(|((shelf, word), count)| vec![shelf.to_string(), word, count.to_string()]);
    let sql =
        "SELECT shelf, word, COUNT(*) FROM pets JOIN shelves USING (file) GROUP BY shelf, word";
    assert_eq!(
        sorted(through(&context, sql).await),
        sorted(expected.collect())
    );
}

#[tokio::test]
async fn memory_of_queries_is_bounded_by_memory_limit() {
    let (database, _) = pets();
    let context = zipfdb_datafusion::context(&database);
    let sql = "SELECT a.word, b.word, COUNT(*) FROM pets AS a JOIN pets AS b ON a.position % 7 = b.position % 7 GROUP BY 1, 2";
    let all = through(&context, sql).await;
    let pool = &context.runtime_env().memory_pool;
    assert_eq!(pool.reserved(), 0);
    let limit =
        |bytes: usize| matches!(pool.memory_limit(), MemoryLimit::Finite(limit) if limit == bytes);
    database
        .execute_batch("SET memory_limit = '64MiB'")
        .unwrap();
    assert!(limit(64 << 20));
    let consumer = MemoryConsumer::new("test").register(pool);
    consumer.try_grow(60 << 20).unwrap();
    let error = consumer.try_grow(5 << 20).unwrap_err().to_string();
    assert!(error.contains("memory_limit"), "{error}");
    consumer.free();
    assert_eq!(pool.reserved(), 0);
    assert_eq!(sorted(through(&context, sql).await), sorted(all));
}

#[tokio::test]
async fn partitions_of_a_scan_have_each_row_once() {
    let (database, texts) = pets();
    let context = zipfdb_datafusion::context(&database);
    for setting in ["batch_size = 2", "target_partitions = 3"] {
        let set = format!("SET datafusion.execution.{setting}");
        context.sql(&set).await.unwrap();
    }
    let sql = "SELECT file, word, position, \"offset\" FROM pets";
    let plan = explained(&context, sql).await;
    assert!(plan.contains("partitions=3"), "{plan}");
    let expected = occurrences(&texts)
        .into_iter()
        .map(|o| vec![o.file, o.word, o.position.to_string(), o.offset.to_string()]);
    assert_eq!(
        sorted(through(&context, sql).await),
        sorted(expected.collect())
    );
    let few = format!("{sql} LIMIT 3");
    assert!(!explained(&context, &few).await.contains("partitions="));
}

/// The statements that ZipfDB was asked for, with what was known when they began.
async fn analyzed(context: &SessionContext, sql: &str) -> String {
    let rows = through(context, &format!("EXPLAIN ANALYZE {sql}")).await;
    rows.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn keys_of_joins_and_semi_joins_are_asked_for_once_they_are_known() {
    let (database, texts) = pets();
    let context = zipfdb_datafusion::context(&database);
    let wanted: ArrayRef = Arc::new(StringArray::from(vec!["cat", "zzz", "it's", "na\u{ef}ve"]));
    let batch = RecordBatch::try_from_iter([("wanted", wanted)]).unwrap();
    context.register_batch("list", batch).unwrap();
    let found: Vec<Occurrence> = occurrences(&texts);
    let found = found
        .iter()
        .filter(|o| o.word == "cat" || o.word == "na\u{ef}ve");
    let expected: Vec<Vec<String>> = found
        .map(|o| vec![o.file.clone(), o.word.clone(), o.position.to_string()])
        .collect();
    for sql in [
        "SELECT file, word, position FROM pets WHERE word IN (SELECT wanted FROM list)",
        "SELECT file, word, position FROM list JOIN pets ON word = wanted",
    ] {
        assert_eq!(
            sorted(through(&context, sql).await),
            sorted(expected.clone()),
            "{sql}"
        );
        let plan = explained(&context, sql).await;
        assert!(plan.contains("dynamic=DynamicFilter"), "{plan}");
        // The scan gave the rows of these words only.
        let plan = analyzed(&context, sql).await;
        let scan = plan
            .lines()
            .find(|line| line.contains("ZipfScan: "))
            .unwrap();
        assert!(
            scan.contains(&format!("output_rows={}", expected.len())),
            "{scan}"
        );
    }
    let counted = "SELECT n FROM (SELECT word, COUNT(*) AS n FROM pets GROUP BY word) AS w JOIN list ON word = wanted";
    let plan = analyzed(&context, counted).await;
    let scan = plan
        .lines()
        .find(|line| line.contains("ZipfScan: "))
        .unwrap();
    assert!(
        scan.contains("dynamic=") && scan.contains("output_rows=2"),
        "{scan}"
    );
    // A limit counts rows before they are joined.
    let limited =
        "SELECT word FROM (SELECT word FROM pets LIMIT 5) AS few JOIN list ON word = wanted";
    let plan = explained(&context, limited).await;
    assert!(!plan.contains("dynamic="), "{plan}");
}

/// The questions of `examples/text_analytics.sql`, asked of a corpus and of a table of DataFusion's own with its rows.
#[tokio::test]
async fn text_analytics_of_a_corpus_are_those_of_its_rows_in_a_table() {
    let (database, texts) = pets();
    let sources = "SELECT file, content FROM files('Pets')";
    database.execute_batch("CREATE CORPUS words").unwrap();
    let copy = format!("INSERT INTO words (file, content) {sources}");
    database.execute_batch(&copy).unwrap();
    let found = occurrences(&texts);
    let column = |text: fn(&Occurrence) -> &str| -> ArrayRef {
        Arc::new(found.iter().map(|o| Some(text(o))).collect::<StringArray>())
    };
    let positions: Int64Array = found.iter().map(|o| Some(o.position)).collect();
    let positions: ArrayRef = Arc::new(positions);
    let (files, words) = (column(|o| &o.file), column(|o| &o.word));
    let rows = [("file", files), ("position", positions), ("word", words)];
    let rows = RecordBatch::try_from_iter(rows).unwrap();
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(texts.keys()));
    let shelves: Int64Array = (0..texts.len() as i64).map(|file| Some(file % 3)).collect();
    let shelves: ArrayRef = Arc::new(shelves);
    let shelves = RecordBatch::try_from_iter([("file", names), ("shelf", shelves)]).unwrap();
    let (corpus, table) = (zipfdb_datafusion::context(&database), SessionContext::new());
    table.register_batch("words", rows).unwrap();
    for context in [&corpus, &table] {
        context.register_batch("shelves", shelves.clone()).unwrap();
    }
    let script = include_str!("../examples/text_analytics.sql").lines();
    let script: Vec<&str> = script.filter(|line| !line.starts_with("--")).collect();
    let script = script.join("\n");
    let questions = script
        .split(';')
        .map(str::trim)
        .filter(|sql| !sql.is_empty());
    let (mut asked, mut answered) = (0, 0);
    for sql in questions {
        let answer = through(&corpus, sql).await;
        assert_eq!(answer, through(&table, sql).await, "{sql}");
        asked += 1;
        answered += usize::from(!answer.is_empty());
    }
    assert_eq!(asked, 22);
    assert!(answered >= 20, "{answered}");
}

#[tokio::test]
async fn words_that_are_no_text_are_an_error_that_says_so() {
    let database = Database::in_memory().unwrap();
    database
        .execute_batch("CREATE CORPUS raw WITH (tokenizer = 'whitespace')")
        .unwrap();
    let corpus = database.corpus("raw").unwrap();
    corpus
        .append_many(&[("a.txt", &b"plain \xff\xfe words"[..])])
        .unwrap();
    let context = zipfdb_datafusion::context(&database);
    assert_eq!(through(&context, "SELECT COUNT(*) FROM raw").await, [["3"]]);
    assert_eq!(
        through(&context, "SELECT word FROM raw WHERE word LIKE 'p%'").await,
        [["plain"]]
    );
    let frame = context.sql("SELECT word FROM raw").await.unwrap();
    let error = frame.collect().await.unwrap_err().to_string();
    assert!(
        error.contains("column \"word\" has bytes that are not UTF-8"),
        "{error}"
    );
}

#[tokio::test]
async fn a_stream_that_is_dropped_ends_its_statement() {
    use futures::StreamExt;

    let (database, _) = pets();
    let context = zipfdb_datafusion::context(&database);
    let sql = "SELECT a.word FROM pets AS a, pets AS b, pets AS c";
    let mut stream = context
        .sql(sql)
        .await
        .unwrap()
        .execute_stream()
        .await
        .unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    drop(stream);
    assert_eq!(
        through(&context, "SELECT COUNT(*) FROM files('pets')")
            .await
            .len(),
        1
    );
}

/// Makes conditions on the columns of a corpus, or of n-grams.
struct Conditions {
    numbers: Numbers,
    texts: &'static [&'static str],
    integers: &'static [&'static str],
}

impl Conditions {
    fn one_of(&mut self, items: &[&str]) -> String {
        items[self.numbers.below(items.len())].into()
    }

    fn text(&mut self) -> String {
        let text = self.one_of(&[
            "the",
            "The",
            "cat",
            "can't",
            "na\u{ef}ve",
            "zzz",
            "",
            "the cat",
            "the-cat",
            "don't dog",
            "20.txt",
            "it's.txt",
        ]);
        format!("'{}'", text.replace('\'', "''"))
    }

    fn leaf(&mut self) -> String {
        let (text, integer) = (self.one_of(self.texts), self.one_of(self.integers));
        let comparison = self.one_of(&["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"]);
        let not = self.one_of(&["", "NOT "]);
        let (one, two, number) = (self.text(), self.text(), self.numbers.below(60));
        match self.numbers.below(14) {
            0..=2 => format!("({text} {comparison} {one})"),
            3 => format!("({one} {comparison} {text})"),
            4..=5 => format!("({integer} {comparison} {number})"),
            6 => format!("({number} {comparison} {integer})"),
            7 => format!("{text} {not}IN ({one}, {two}, 'dog', 'Dog')"),
            8 => format!("{text} {not}IN ({one}, NULL)"),
            9 => format!("{integer} {not}BETWEEN {} AND {number}", number / 2),
            10 => {
                let pattern = self.one_of(&[
                    "%a%", "c_t", "%'' %", "the%", "_0%", "*", "[%", "%", "CAT", "\\%",
                ]);
                let like = self.one_of(&["LIKE", "ILIKE"]);
                format!("{text} {not}{like} '{pattern}'")
            }
            11 => format!("{integer} IS {not}NULL"),
            12 => format!("{integer} % 3 = 1"),
            _ => format!("{text} = NULL"),
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        match self.numbers.below(if depth == 0 { 1 } else { 5 }) {
            0 | 1 => self.leaf(),
            2 => format!("NOT ({})", self.condition(depth - 1)),
            3 => format!(
                "({} AND {})",
                self.condition(depth - 1),
                self.condition(depth - 1)
            ),
            _ => format!(
                "({} OR {})",
                self.condition(depth - 1),
                self.condition(depth - 1)
            ),
        }
    }
}

/// The same questions of a corpus, of which some is pushed down, and of its rows in a table of DataFusion's own.
#[tokio::test]
async fn what_is_pushed_down_changes_no_answer() {
    let (database, _) = pets();
    let context = zipfdb_datafusion::context(&database);
    for (table, relation) in [("words", "pets"), ("pairs", "ngrams('pets', 2)")] {
        let frame = context
            .sql(&format!("SELECT * FROM {relation}"))
            .await
            .unwrap();
        context
            .register_table(table, frame.cache().await.unwrap().into_view())
            .unwrap();
    }
    let mut pushed = 0;
    for round in 0..160 {
        let is_ngrams = round % 3 == 0;
        let (key, table, relation) = if is_ngrams {
            ("ngram", "pairs", "ngrams('pets', 2)")
        } else {
            ("word", "words", "pets")
        };
        let mut conditions = Conditions {
            numbers: Numbers(round),
            texts: if is_ngrams {
                &["file", "ngram"]
            } else {
                &["file", "word"]
            },
            integers: &["position", "\"offset\""],
        };
        let (first, second) = (conditions.condition(3), conditions.condition(1));
        let sql = match round % 8 {
            0 => format!("SELECT * FROM {{}} WHERE {first}"),
            1 => format!("SELECT COUNT(*), COUNT(file) FROM {{}} WHERE {first}"),
            2 => format!("SELECT {key}, COUNT(*) FROM {{}} WHERE {first} GROUP BY {key}"),
            3 => {
                format!("SELECT file, COUNT(DISTINCT {key}) FROM {{}} WHERE {first} GROUP BY file")
            }
            4 => format!(
                "SELECT {key}, file, COUNT(*) AS n FROM {{}} WHERE {first} GROUP BY 2, 1 ORDER BY n DESC, 1, 2 LIMIT 4"
            ),
            5 => format!("SELECT COUNT(DISTINCT {key}) AS n FROM {{}} WHERE {first}"),
            6 => format!(
                "SELECT a.file, b.position FROM {{}} AS a JOIN {{}} AS b USING ({key}) WHERE a.position < 3 AND b.position < 3 \
                          AND a.{key} IN (SELECT {key} FROM {{}} WHERE {first})"
            ),
            _ => format!(
                "SELECT DISTINCT {key} FROM {{}} WHERE {first} EXCEPT SELECT {key} FROM {{}} WHERE {second}"
            ),
        };
        let (ours, plain) = (sql.replace("{}", relation), sql.replace("{}", table));
        let (answer, expected) = (
            through(&context, &ours).await,
            through(&context, &plain).await,
        );
        assert_eq!(sorted(answer), sorted(expected), "round {round}: {ours}");
        pushed += statements(&context, &ours)
            .await
            .iter()
            .filter(|sql| sql.contains("WHERE"))
            .count();
    }
    assert!(pushed > 80, "{pushed} statements with conditions");
}
