//! Statements keep within `memory_limit`, as the cache counts it.
//!
//! The count has the content of the cache and the reservations of operators. Only pins of running work, and what the last work
//! used, may exceed the limit.

#![allow(clippy::unwrap_used)]

use crate::ingest::NoProgress;
use crate::segment::cache::Cache;
use crate::{CorpusSettings, Database};

/// The limit in bytes.
const LIMIT: u64 = 1 << 20;

/// The six tasks, a search, a phrase, and operators that keep rows.
const STATEMENTS: &[&str] = &[
    "SELECT word, COUNT(*) FROM c GROUP BY word",
    "SELECT word, COUNT(*) AS n FROM c GROUP BY word ORDER BY n DESC, word",
    "SELECT word, file, COUNT(*) FROM c GROUP BY word, file",
    "SELECT file, word, count FROM term_vectors('c', 100)",
    "SELECT ngram, COUNT(*) FROM ngrams('c', 3) GROUP BY ngram",
    "SELECT ngram, file, COUNT(*) AS n FROM ngrams('c', 3) GROUP BY ngram, file ORDER BY ngram, n DESC",
    "SELECT file, offset FROM c WHERE word = 'w7' ORDER BY file, offset",
    "SELECT file, position FROM ngrams('c', 2) WHERE ngram = 'w3 w4'",
    "SELECT DISTINCT word, position FROM c ORDER BY position DESC, word LIMIT 9",
    "SELECT word || '!', COUNT(*) FROM c GROUP BY 1 ORDER BY 2, 1",
];

/// Text whose words repeat three at a time in places.
fn text(seed: u64, words: u64) -> String {
    let mut state = seed;
    let word = |_| {
        state = (state.wrapping_mul(6_364_136_223_846_793_005)).wrapping_add(1);
        let first = (state >> 33) % 2000;
        format!("w{first} w{} w{} ", first + 1, first + 2)
    };
    (0..words).map(word).collect()
}

/// The most text of a segment when memory is short.
const SHORT_SEGMENT: u64 = 16 << 20;

#[test]
fn segments_are_smaller_where_memory_is_short_and_grow_when_it_is_not() {
    let database = Database::in_memory().unwrap();
    let corpus = (database.create_corpus("c", CorpusSettings::default())).unwrap();
    let copies = usize::try_from(SHORT_SEGMENT).unwrap() / 14 / 2;
    let texts = [
        "some words and ",
        "other words or ",
        "more of them ",
        "no end ",
    ];
    let texts = (0..)
        .zip(texts)
        .map(|(f, text)| (format!("f{f}"), text.repeat(copies)));
    let texts: Vec<(String, String)> = texts.collect();
    corpus.append_many(&texts).unwrap();
    let sizes = || -> Vec<u64> {
        let segments = corpus.segments().unwrap();
        segments.iter().map(|segment| segment.bytes).collect()
    };
    for (limit, is_short) in [("1MiB", true), ("256MiB", false), ("1MiB", true)] {
        (database.execute_batch(&format!("SET memory_limit = '{limit}'"))).unwrap();
        database.execute_batch("RECOMPRESS c").unwrap();
        let made = sizes();
        assert_eq!(made.len() > 1, is_short, "{limit}: {made:?}");
        assert!(!is_short || made.iter().all(|&bytes| bytes <= SHORT_SEGMENT));
        assert!(corpus.recompress(&NoProgress).unwrap().is_none());
        for (file, text) in &texts {
            let content = corpus
                .snapshot()
                .unwrap()
                .extract(file, 0, u64::MAX)
                .unwrap();
            assert!(content == text.as_bytes(), "{limit}: {file}");
        }
        // Edits that cancel each other out are merged too.
        corpus.append_many(&[("f0", "")]).unwrap();
    }
}

fn check(cache: &Cache, when: &str) {
    assert!(
        cache.reserved() <= LIMIT,
        "{} reserved {when}",
        cache.reserved()
    );
    assert_eq!(cache.overdraft(), 0, "{when}");
}

#[test]
fn statements_keep_within_the_limit_by_the_books() {
    let database = Database::in_memory().unwrap();
    let settings = CorpusSettings {
        segment_size: 256 << 10,
        ..CorpusSettings::default()
    };
    let corpus = database.create_corpus("c", settings).unwrap();
    let texts: Vec<(String, String)> = (0..4).map(|f| (format!("f{f}"), text(f, 12_000))).collect();
    corpus.append_many(&texts).unwrap();
    database.execute_batch("RECOMPRESS c").unwrap();
    assert!(corpus.segments().unwrap().len() > 2);
    database
        .execute_batch(&format!("SET memory_limit = {LIMIT}"))
        .unwrap();
    let cache = database.inner().shared().cache.clone();
    let mut counts = Vec::new();
    for edits in [None, Some("w3 w4 brandnew ")] {
        if let Some(more) = edits {
            corpus.append_many(&[("f1", more), ("f9", more)]).unwrap();
        }
        for sql in STATEMENTS {
            let mut rows = 0u64;
            for row in database.query(sql, ()).unwrap() {
                row.unwrap();
                rows += 1;
                if rows.is_multiple_of(64) {
                    check(&cache, &format!("in row {rows} of {sql}"));
                }
            }
            check(&cache, &format!("after {sql}"));
            // The numbers of the words of edits stay as long as their view.
            assert!(edits.is_some() || cache.reserved() == 0, "after {sql}");
            counts.push(rows);
        }
    }
    assert!(counts.iter().all(|&rows| rows > 0), "{counts:?}");
}
