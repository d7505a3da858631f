//! Every answer equals the one on the plain text.
//!
//! Random texts go in through `COPY`, questions through SQL and the batch calls,
//! and a naive oracle answers them from the text itself with the reference
//! crate's words. Small segments make files span several of them.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use unicode_segmentation::UnicodeSegmentation;
use zipfdb::ingest::CopyOptions;
use zipfdb::{CorpusSettings, Database, Tokenizer, Value};

/// A file's words and where they begin.
fn words(tokenizer: Tokenizer, text: &str) -> Vec<(usize, &str)> {
    let runs = |inside: fn(char) -> bool| {
        let mut found = Vec::new();
        let mut begin = None;
        for (at, character) in text.char_indices().chain([(text.len(), '\0')]) {
            let in_word = at < text.len() && inside(character);
            match (begin, in_word) {
                (None, true) => begin = Some(at),
                (Some(from), false) => {
                    found.push((from, &text[from..at]));
                    begin = None;
                }
                _ => {}
            }
        }
        found
    };
    match tokenizer {
        Tokenizer::Unicode => text.unicode_word_indices().collect(),
        Tokenizer::Alnum => runs(char::is_alphanumeric),
        Tokenizer::Whitespace => runs(|character| !character.is_whitespace()),
    }
}

/// Text that repeats itself, with the cases that tokenizers trip over.
fn text() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        6 => prop::sample::select(vec![
            "the", "The", "quick", "brown", "can't", "3.14", "a.b", "x_y", "of", "law",
        ]).prop_map(str::to_owned),
        6 => prop::sample::select(vec![" ", "  ", "\n", "\r\n", ", ", ". ", "\t", "--"]).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["e\u{301}", "\u{1f468}\u{200d}\u{1f469}", "\u{4e2d}\u{6587}", "\u{e44}\u{e17}\u{e22}", "\0"]).prop_map(str::to_owned),
        1 => "\\PC{0,6}",
    ];
    let sentence = prop::collection::vec(fragment, 0..40).prop_map(|parts| parts.concat());
    (prop::collection::vec(sentence, 1..6), 1..40_usize)
        .prop_map(|(sentences, repeats)| sentences.concat().repeat(repeats))
}

fn integer(value: &Value) -> u64 {
    match value {
        Value::Integer(value) => u64::try_from(*value).unwrap(),
        other => panic!("{other:?} is no integer"),
    }
}

fn string(value: &Value) -> &str {
    match value {
        Value::Text(text) => text,
        other => panic!("{other:?} is no text"),
    }
}

fn check_corpus(tokenizer: Tokenizer, texts: &BTreeMap<String, String>, threads: usize) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in texts {
        let path = folder.path().join("in").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let database = Database::options()
        .threads(threads)
        .open(folder.path().join("test.zdb"))
        .unwrap();
    let settings = CorpusSettings {
        tokenizer,
        segment_size: 64 << 10,
        ..CorpusSettings::default()
    };
    let corpus = database.create_corpus("c", settings).unwrap();
    corpus
        .copy_from(folder.path().join("in"), &CopyOptions::default())
        .unwrap();

    let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
    let mut by_file: BTreeMap<(&str, &str), Vec<u64>> = BTreeMap::new();
    for (name, text) in texts {
        for (at, word) in words(tokenizer, text) {
            *totals.entry(word).or_default() += 1;
            by_file.entry((name, word)).or_default().push(at as u64);
        }
    }

    let rows = database
        .query(
            "SELECT word, COUNT(*) AS n FROM c GROUP BY word ORDER BY n DESC, word",
            (),
        )
        .unwrap();
    let mut expected: Vec<(&str, u64)> = totals.iter().map(|(word, n)| (*word, *n)).collect();
    expected.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let counted: Vec<(String, u64)> = rows
        .map(|row| row.unwrap())
        .map(|row| (string(&row[0]).to_owned(), integer(&row[1])))
        .collect();
    let counted: Vec<(&str, u64)> = counted
        .iter()
        .map(|(word, n)| (word.as_str(), *n))
        .collect();
    assert_eq!(counted, expected, "word count");

    for (name, text) in texts {
        let rows = database
            .query(
                "SELECT word, COUNT(*) FROM c WHERE file = ? GROUP BY word ORDER BY word",
                &[Value::Text(name.clone())],
            )
            .unwrap();
        let counted: Vec<(String, u64)> = rows
            .map(|row| row.unwrap())
            .map(|row| (string(&row[0]).to_owned(), integer(&row[1])))
            .collect();
        let expected: Vec<(String, u64)> = by_file
            .iter()
            .filter(|((file, _), _)| file == name)
            .map(|((_, word), offsets)| ((*word).to_owned(), offsets.len() as u64))
            .collect();
        assert_eq!(counted, expected, "word count of {name}");

        let mut rows = database
            .query(
                "SELECT content, bytes, words FROM files('c') WHERE file = ?",
                &[Value::Text(name.clone())],
            )
            .unwrap();
        let row = rows.next().unwrap().unwrap();
        assert!(
            row[0] == Value::Blob(text.clone().into_bytes()),
            "content of {name}"
        );
        assert_eq!(integer(&row[1]), text.len() as u64);
        assert_eq!(integer(&row[2]), words(tokenizer, text).len() as u64);
    }

    let snapshot = corpus.snapshot().unwrap();
    let mut questions: Vec<(&str, &str)> = by_file.keys().copied().collect();
    questions.extend(texts.keys().map(|name| (name.as_str(), "absent")));
    let counts = snapshot.count_in_many(&questions).unwrap();
    let offsets = snapshot.search_in_many(&questions).unwrap();
    for ((question, count), offsets) in questions.iter().zip(counts).zip(offsets) {
        let expected = by_file.get(question).cloned().unwrap_or_default();
        assert_eq!(count, expected.len() as u64, "count of {question:?}");
        assert_eq!(offsets, expected, "offsets of {question:?}");
    }
    for word in totals.keys().copied().take(20) {
        let rows = database
            .query(
                "SELECT file, offset FROM c WHERE word = ? ORDER BY file, offset",
                &[Value::Text(word.to_owned())],
            )
            .unwrap();
        let found: Vec<(String, u64)> = rows
            .map(|row| row.unwrap())
            .map(|row| (string(&row[0]).to_owned(), integer(&row[1])))
            .collect();
        let expected: Vec<(String, u64)> = by_file
            .iter()
            .filter(|((_, key), _)| *key == word)
            .flat_map(|((file, _), offsets)| offsets.iter().map(|at| ((*file).to_owned(), *at)))
            .collect();
        assert_eq!(found, expected, "offsets of {word}");
    }

    let mut ranges = Vec::new();
    for (name, text) in texts {
        let size = text.len() as u64;
        for (offset, length) in [
            (0, 1),
            (size / 2, 64),
            (size.saturating_sub(7), 64),
            (size, 5),
            (size / 3, size / 3),
        ] {
            ranges.push((name.as_str(), offset, length));
        }
    }
    let extracts = snapshot.extract_many(&ranges).unwrap();
    for ((name, offset, length), extract) in ranges.iter().zip(extracts) {
        let bytes = texts[*name].as_bytes();
        let begin = (*offset as usize).min(bytes.len());
        let end = (begin + *length as usize).min(bytes.len());
        assert!(
            extract == bytes[begin..end],
            "{name} at {offset}, {length} bytes"
        );
    }

    corpus
        .copy_to(folder.path().join("out"), &zipfdb::ingest::NoProgress)
        .unwrap();
    for (name, text) in texts {
        assert!(
            fs::read(folder.path().join("out").join(name)).unwrap() == text.as_bytes(),
            "{name}"
        );
    }
    let checks = corpus.check(&zipfdb::ingest::NoProgress).unwrap();
    assert!(
        checks.iter().all(|check| check.problem.is_none()),
        "{checks:?}"
    );
}

#[test]
fn every_answer_equals_the_one_on_the_plain_text() {
    let config = Config {
        cases: 24,
        rng_seed: RngSeed::Fixed(0x21af),
        failure_persistence: None,
        ..Config::default()
    };
    println!("seed: {:?}", config.rng_seed);
    let tokenizers = prop::sample::select(Tokenizer::ALL.to_vec());
    let threads = prop::sample::select(vec![1_usize, 2, 16]);
    let files = prop::collection::btree_map("[a-c]{1,2}(/[d-f])?x", text(), 1..6);
    TestRunner::new(config)
        .run(
            &(tokenizers, threads, files),
            |(tokenizer, threads, texts)| {
                check_corpus(tokenizer, &texts, threads);
                Ok(())
            },
        )
        .unwrap();
}

#[test]
fn a_file_larger_than_a_segment_answers_as_a_whole() {
    let line =
        "It was the best of times, it was the worst of times; can't stop 3.14 \u{4e2d}\u{6587}.\n";
    let mut long = String::new();
    for number in 0..4000 {
        long.push_str(line);
        long.push_str(&number.to_string());
    }
    let texts = BTreeMap::from([
        ("a".to_owned(), "the first".to_owned()),
        ("b/long".to_owned(), long),
        ("c".to_owned(), String::new()),
        ("d".to_owned(), "the last".to_owned()),
    ]);
    for tokenizer in Tokenizer::ALL {
        check_corpus(tokenizer, &texts, 2);
    }
}
