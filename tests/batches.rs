//! Rows taken as columns are the rows taken one by one: random queries over corpora with edits, in batches of any size.

use std::cmp::Ordering;
use std::fs;

use proptest::prelude::*;
use zipfdb::batch::BatchColumn;
use zipfdb::ingest::CopyOptions;
use zipfdb::{CorpusSettings, Database, Rows, Tokenizer, Value};

/// Words of several spellings, gaps, and now and then bytes that are no UTF-8.
fn text(seed: u64, words: usize) -> Vec<u8> {
    const WORDS: [&[u8]; 10] = [
        b"the",
        b"The",
        b"cat",
        b"catalog",
        b"on",
        b"a",
        b"a-b",
        b"\xc3\xa9",
        b"\xff",
        b"THE",
    ];
    let mut text = Vec::new();
    let mut state = seed | 1;
    for _ in 0..words {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        text.extend_from_slice(WORDS[(state >> 33) as usize % WORDS.len()]);
        text.extend_from_slice(if state >> 60 == 0 { b".\n" } else { b" " });
    }
    text
}

/// Files over several segments, and edits that are pending.
fn database(tokenizer: Tokenizer) -> Database {
    let folder = tempfile::tempdir().unwrap();
    for (file, words) in [(0, 0), (1, 30), (2, 700), (3, 90)] {
        fs::write(folder.path().join(format!("f{file}")), text(file, words)).unwrap();
    }
    let database = Database::options().threads(2).in_memory().unwrap();
    let settings = CorpusSettings {
        tokenizer,
        segment_size: 2000,
        ..CorpusSettings::default()
    };
    let corpus = database.create_corpus("c", settings).unwrap();
    corpus
        .copy_from(folder.path(), &CopyOptions::default())
        .unwrap();
    for sql in [
        "INSERT INTO c (file, offset, content) VALUES ('f2', 40, ' new the ')",
        "INSERT INTO c (file, content) VALUES ('f9', 'the new cat')",
        "DELETE FROM c WHERE file = 'f1'",
    ] {
        database.query(sql, ()).unwrap();
    }
    database
}

fn one_by_one(rows: Rows) -> Vec<Vec<Value>> {
    rows.map(|row| row.unwrap().into_values()).collect()
}

/// All rows, in batches of these sizes in turn, and rows between them where a size is 0.
fn in_batches(mut rows: Rows, sizes: &[usize]) -> Vec<Vec<Value>> {
    let mut found = Vec::new();
    for &size in sizes.iter().cycle() {
        if size == 0 {
            match rows.next() {
                Some(row) => found.push(row.unwrap().into_values()),
                None => break,
            }
            continue;
        }
        let Some(batch) = rows.next_batch(size).unwrap() else {
            break;
        };
        assert!((1..=size).contains(&batch.len()));
        assert!(
            batch
                .columns()
                .iter()
                .all(|column| column.len() == batch.len())
        );
        found.extend((0..batch.len()).map(|row| batch.row(row)));
    }
    found
}

/// A query, by parts that fit together.
fn queries() -> impl Strategy<Value = String> {
    let plain = (
        prop::sample::select(vec![
            "word, file, offset",
            "DISTINCT word",
            "DISTINCT lower(word), length",
            "upper(word), offset + 1, NULL, 7",
            "word || '!', position, word",
            "*",
        ]),
        prop::sample::select(vec!["c", "(SELECT * FROM c WHERE position < 50)"]),
        prop::sample::select(vec![
            "",
            "WHERE word = 'the'",
            "WHERE word IN ('cat', 'The', 'new') AND file > 'f1'",
            "WHERE offset > position * 5",
            "WHERE word LIKE 'C%' AND offset < 900",
        ]),
        prop::sample::select(vec!["", "ORDER BY 1", "ORDER BY 1 DESC, 2"]),
    )
        .prop_map(|(items, source, condition, order)| {
            let order = if items.starts_with("DISTINCT word") {
                ""
            } else {
                order
            };
            format!("SELECT {items} FROM {source} {condition} {order}")
        });
    let grouped = (
        prop::sample::select(vec![
            "word",
            "file",
            "word, file",
            "lower(word)",
            "length, file",
        ]),
        prop::sample::select(vec![
            "COUNT(*) AS n",
            "COUNT(*) AS n, MAX(offset), MIN(position), SUM(length)",
            "COUNT(DISTINCT file) AS n, MAX(word)",
            "AVG(offset) AS n, COUNT(word) FILTER (WHERE position > 9)",
        ]),
        prop::sample::select(vec!["c", "(SELECT * FROM c)"]),
        prop::sample::select(vec!["", "HAVING COUNT(*) > 3"]),
        prop::sample::select(vec![
            "",
            "ORDER BY n DESC",
            "ORDER BY 1 COLLATE NOCASE, n",
            "ORDER BY n, 1 DESC",
        ]),
    )
        .prop_map(|(keys, aggregates, source, having, order)| {
            format!("SELECT {keys}, {aggregates} FROM {source} GROUP BY {keys} {having} {order}")
        });
    let ngrams = (
        1..4,
        prop::sample::select(vec![
            "SELECT ngram, COUNT(*) AS n FROM # GROUP BY ngram",
            "SELECT ngram, COUNT(*) AS n FROM # GROUP BY ngram ORDER BY n DESC, ngram",
            "SELECT ngram, file, COUNT(*) AS n FROM # GROUP BY ngram, file ORDER BY ngram, n DESC, file",
            "SELECT ngram, file, offset FROM # WHERE ngram LIKE 't%'",
            "SELECT file, COUNT(DISTINCT ngram) FROM # GROUP BY file",
            "SELECT DISTINCT file, position FROM # ORDER BY position",
        ]),
    )
        .prop_map(|(n, sql)| sql.replace('#', &format!("ngrams('c', {n})")));
    let others = prop::sample::select(vec![
        "SELECT * FROM files('c')",
        "SELECT file, words FROM files('c') ORDER BY words DESC",
        "SELECT * FROM term_vectors('c', 3)",
        "SELECT word, SUM(count) FROM term_vectors('c', 9) GROUP BY word",
        "SELECT COUNT(*), MAX(offset), MIN(word), TOTAL(length) FROM c",
        "SELECT COUNT(*), MAX(offset), SUM(offset), AVG(position) FROM c WHERE word = 'the'",
        "SELECT COUNT(*), MAX(offset) FROM c WHERE word = 'nowhere'",
        "SELECT 1, 'two', X'33'",
    ])
    .prop_map(str::to_owned);
    let cut = prop::sample::select(vec!["", "", "LIMIT 5", "LIMIT 40 OFFSET 3", "LIMIT 0"]);
    (
        prop_oneof![3 => plain, 3 => grouped, 2 => ngrams, 1 => others],
        cut,
    )
        .prop_map(|(sql, cut)| format!("{sql} {cut}"))
}

#[test]
fn batches_have_the_rows_that_come_one_by_one() {
    for tokenizer in [Tokenizer::Unicode, Tokenizer::Whitespace] {
        let database = database(tokenizer);
        let sizes = prop::collection::vec(0usize..20, 1..4).prop_map(|mut sizes| {
            sizes.push(4096);
            sizes
        });
        let config = ProptestConfig {
            cases: 300,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        proptest!(config, |(sql in queries(), sizes in sizes)| {
            let expected = one_by_one(database.query(&sql, ()).unwrap());
            let found = in_batches(database.query(&sql, ()).unwrap(), &sizes);
            prop_assert_eq!(found, expected, "{}", sql);
        });
    }
}

#[test]
fn words_and_files_come_as_numbers_with_their_dictionary() {
    let database = database(Tokenizer::Unicode);
    let sql = "SELECT word, file, COUNT(*) FROM c GROUP BY word, file";
    let mut rows = database.query(sql, ()).unwrap();
    let batch = rows.next_batch(usize::MAX).unwrap().unwrap();
    assert!(rows.next_batch(1).unwrap().is_none());
    let [words, files, BatchColumn::Integers(counts)] = batch.columns() else {
        panic!("{:?}", batch.columns());
    };
    assert_eq!(counts.len(), batch.len());
    for column in [words, files] {
        let BatchColumn::Words {
            indices,
            dictionary,
        } = column
        else {
            panic!("{column:?}");
        };
        let texts = dictionary.texts();
        assert_eq!(texts.len(), dictionary.len());
        for (row, &index) in indices.iter().enumerate() {
            assert_eq!(texts.get(index as usize), dictionary.bytes(index));
            assert_eq!(column.value(row), dictionary.value(index));
        }
    }
    let mut rows = database
        .query("SELECT ngram FROM ngrams('c', 2)", ())
        .unwrap();
    let batch = rows.next_batch(3).unwrap().unwrap();
    let mut text = Vec::new();
    assert!(batch.columns()[0].write_text(0, &mut text));
    assert_eq!(
        Value::Text(String::from_utf8(text).unwrap()),
        batch.row(0)[0]
    );
}

#[test]
fn the_first_rows_of_many_are_those_of_all_in_order() {
    for tokenizer in [Tokenizer::Unicode, Tokenizer::Whitespace] {
        let database = Database::options().threads(2).in_memory().unwrap();
        let settings = CorpusSettings {
            tokenizer,
            ..CorpusSettings::default()
        };
        let corpus = database.create_corpus("c", settings).unwrap();
        let texts = [(1, 9_000), (2, 25_000)].map(|(seed, words)| {
            let text = String::from_utf8_lossy(&text(seed, words)).into_owned();
            (format!("f{seed}"), text)
        });
        corpus.append_many(&texts).unwrap();
        for order in [
            "offset DESC, file",
            "word, offset, file",
            "word DESC, file DESC, offset",
            "length, file, word COLLATE NOCASE, offset DESC",
            "file, length DESC, offset",
        ] {
            let sql = format!("SELECT word, file, offset, length FROM c ORDER BY {order}");
            let all = one_by_one(database.query(&sql, ()).unwrap());
            assert!(all.len() > 25_000);
            for (limit, offset) in [(1, 0), (50, 3), (5_000, 0), (9_000, 100)] {
                let sql = format!("{sql} LIMIT {limit} OFFSET {offset}");
                let found = in_batches(database.query(&sql, ()).unwrap(), &[4096]);
                assert_eq!(found, all[offset..offset + limit], "{sql}");
            }
            // In little memory rows go through temporary files.
            database.query("SET memory_limit = '1MiB'", ()).unwrap();
            let found = in_batches(database.query(&sql, ()).unwrap(), &[4096, 0]);
            assert_eq!(found, all, "{sql}");
            database.query("SET memory_limit = 'auto'", ()).unwrap();
        }
        let sql = "SELECT word, COUNT(*), SUM(offset), COUNT(DISTINCT length) FROM c GROUP BY word ORDER BY word";
        let grouped = one_by_one(database.query(sql, ()).unwrap());
        let plain = "SELECT word, offset, length FROM c ORDER BY word";
        let mut expected: Vec<Vec<Value>> = Vec::new();
        for row in one_by_one(database.query(plain, ()).unwrap()) {
            let Value::Integer(offset) = row[1] else {
                panic!("{row:?}");
            };
            match expected.last_mut() {
                Some(last) if last[0] == row[0] => {
                    let [_, Value::Integer(count), Value::Integer(sum), _] = &mut last[..] else {
                        panic!("{last:?}");
                    };
                    *count += 1;
                    *sum += offset;
                }
                _ => expected.push(vec![
                    row[0].clone(),
                    Value::Integer(1),
                    Value::Integer(offset),
                    Value::Integer(1),
                ]),
            }
        }
        assert_eq!(grouped, expected);
    }
}

#[test]
fn an_error_ends_the_batches() {
    let database = database(Tokenizer::Unicode);
    let sql = "SELECT abs(iif(position = 5, -9223372036854775807 - 1, 1)) FROM c";
    let mut rows = database.query(sql, ()).unwrap();
    assert_eq!(rows.next_batch(5).unwrap().unwrap().len(), 5);
    assert!(rows.next_batch(5).is_err());
    assert!(rows.next_batch(5).unwrap().is_none());
    assert!(rows.next().is_none());
    // A limit keeps it from the row that fails.
    let mut rows = database.query(&format!("{sql} LIMIT 5"), ()).unwrap();
    assert_eq!(rows.next_batch(100).unwrap().unwrap().len(), 5);
    assert!(rows.next_batch(100).unwrap().is_none());
}

/// What sorting is compared with: all values of a row in the order of their columns, one of them the other way round.
fn sort_plainly(rows: &mut [Vec<Value>], keys: &[(usize, bool)]) {
    rows.sort_by(|left, right| {
        let keys = keys.iter().map(|&(column, descending)| {
            let order = left[column].compare(&right[column]);
            if descending { order.reverse() } else { order }
        });
        keys.fold(Ordering::Equal, Ordering::then)
    });
}

#[test]
fn rows_that_come_in_order_of_the_first_keys_are_sorted_by_the_others() {
    for tokenizer in [Tokenizer::Unicode, Tokenizer::Whitespace] {
        let database = Database::options().threads(2).in_memory().unwrap();
        let settings = CorpusSettings {
            tokenizer,
            ..CorpusSettings::default()
        };
        let corpus = database.create_corpus("c", settings).unwrap();
        let texts: Vec<(String, String)> = (0..23)
            .map(|file| {
                let text = text(file % 7, 2_000 + 10 * file as usize);
                (
                    format!("f{file:02}"),
                    String::from_utf8_lossy(&text).into_owned(),
                )
            })
            .collect();
        corpus.append_many(&texts).unwrap();
        let words = "SELECT file, word, offset FROM c";
        let pairs = "SELECT word, file, COUNT(*) AS n FROM c GROUP BY word, file";
        let ngrams = "SELECT ngram, file, COUNT(*) AS n FROM ngrams('c', 3) GROUP BY ngram, file";
        for (sql, order, keys) in [
            (
                words,
                "file, word, offset DESC",
                vec![(0, false), (1, false), (2, true)],
            ),
            (words, "file, offset DESC", vec![(0, false), (2, true)]),
            (
                pairs,
                "word, n DESC, file",
                vec![(0, false), (2, true), (1, false)],
            ),
            (pairs, "word, file DESC", vec![(0, false), (1, true)]),
            (
                pairs,
                "file, n, word DESC",
                vec![(1, false), (2, false), (0, true)],
            ),
            (
                ngrams,
                "ngram, n DESC, file",
                vec![(0, false), (2, true), (1, false)],
            ),
            (ngrams, "ngram, file", vec![(0, false), (1, false)]),
            (ngrams, "ngram, file DESC", vec![(0, false), (1, true)]),
        ] {
            let mut expected = one_by_one(database.query(sql, ()).unwrap());
            sort_plainly(&mut expected, &keys);
            let sql = format!("{sql} ORDER BY {order}");
            for limit in ["1GiB", "1MiB"] {
                let set = format!("SET memory_limit = '{limit}'");
                database.execute(&set, ()).unwrap();
                let found = in_batches(database.query(&sql, ()).unwrap(), &[5_000]);
                assert!(found == expected, "{sql} within {limit}");
            }
            let found = one_by_one(
                database
                    .query(&format!("{sql} LIMIT 70 OFFSET 9"), ())
                    .unwrap(),
            );
            let end = expected.len().min(79);
            assert_eq!(found, expected[9.min(end)..end], "{sql}");
        }
    }
}

#[test]
fn distinct_arguments_are_counted_as_a_subquery_counts_them() {
    for tokenizer in [Tokenizer::Unicode, Tokenizer::Whitespace] {
        let database = database(tokenizer);
        for (source, argument) in [
            ("c", "word"),
            ("c", "file"),
            ("c", "length"),
            ("c", "word COLLATE NOCASE"),
            ("c", "lower(word)"),
            ("c", "offset % 50"),
            ("ngrams('c', 2)", "ngram"),
            ("ngrams('c', 2)", "ngram COLLATE NOCASE"),
            ("(SELECT * FROM c WHERE position > 5)", "word"),
        ] {
            let conditions = ["", "WHERE file > 'f2'", "WHERE file IN ('f2', 'f3')"];
            for (condition, limit) in conditions.iter().zip(["1GiB", "2MiB", "1MiB"]) {
                let set = format!("SET memory_limit = '{limit}'");
                database.execute(&set, ()).unwrap();
                let rows = |sql: String| one_by_one(database.query(&sql, ()).unwrap());
                let whole = rows(format!(
                    "SELECT COUNT(*) FROM (SELECT 1 FROM {source} {condition} GROUP BY {argument})"
                ));
                let found = rows(format!(
                    "SELECT COUNT(DISTINCT {argument}) FROM {source} {condition}"
                ));
                assert_eq!(found, whole, "{argument} {condition} within {limit}");
                let by_file = rows(format!(
                    "SELECT file, COUNT(*), SUM(n) FROM (SELECT file, COUNT(*) AS n FROM {source} \
                     {condition} GROUP BY file, {argument}) GROUP BY file ORDER BY file"
                ));
                let found = rows(format!(
                    "SELECT file, COUNT(DISTINCT {argument}), COUNT(*) FROM {source} {condition} \
                     GROUP BY file ORDER BY file"
                ));
                assert_eq!(found, by_file, "{argument} {condition} within {limit}");
            }
        }
    }
}
