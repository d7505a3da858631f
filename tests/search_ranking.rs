//! Ranks of many files: pages, counts and scores equal those of the definition, whichever files and blocks of files were passed over.
//!
//! Corpora have some hundred short files in several segments, so that blocks of files differ in their bounds, and pending edits. Each
//! question is asked twice: the second answer is made of what the first has kept.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use zipfdb::{Database, Value};
use zipfdb_search::simple::{self, QueryOptions};

use crate::search_statistics::{
    Edit, SEARCHES, UnicodeWords, Words, apply, edit, evaluate, near, rows, runner, words,
};

/// Queries that join what `SEARCHES` has alone.
const JOINED: [&str; 16] = [
    "\"a b\" c",
    "+\"a b\" +d",
    "+a +b +c",
    "+a +b -c",
    "+a -\"b c\"",
    "a b c d bb",
    "(a b)^0.25 \"b a\"^3 c",
    "a^0 b",
    "-a",
    "\"zz a\"",
    "\"a zz\" b",
    "\"a b a\"",
    "\"a a\"",
    "NEAR(a zz, 3) b",
    "NEAR(\"a b\" c, 2) d",
    "(+a +b) (+c +d) -bb",
];

const LIMITS: [usize; 5] = [0, 1, 3, 10, 70];

/// Texts of a few words, some of none; a word is frequent in some stretches of files and rare in others.
fn texts() -> impl Strategy<Value = Vec<String>> {
    let word = prop::sample::select(vec!["a", "A", "b", "c", "C", "d", "bb"]);
    let text = (prop::collection::vec(word, 0..12), 0..40_usize);
    let texts = prop::collection::vec(text, 90..300);
    texts.prop_map(|texts| {
        let texts = texts.into_iter().enumerate();
        let texts = texts.map(|(number, (mut words, repeated))| {
            // One file in 40 has one of its words very often.
            if repeated == 0 && !words.is_empty() {
                words.extend(vec![words[0]; 30]);
            }
            if number / 64 == 1 {
                words.retain(|word| *word != "d");
            }
            words.join(" ")
        });
        texts.collect()
    })
}

/// A corpus of three segments, or fewer if there are not enough texts.
fn corpus(texts: &[String]) -> (tempfile::TempDir, Database, BTreeMap<String, String>) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::in_memory().unwrap();
    database.execute_batch("CREATE CORPUS c").unwrap();
    let mut plain = BTreeMap::new();
    let numbered: Vec<(usize, &String)> = texts.iter().enumerate().collect();
    for (segment, texts) in numbered.chunks(texts.len().div_ceil(3).max(1)).enumerate() {
        let directory = folder.path().join(segment.to_string());
        fs::create_dir(&directory).unwrap();
        for (number, text) in texts {
            let name = format!("{number}.txt");
            fs::write(directory.join(&name), text).unwrap();
            plain.insert(name, (*text).clone());
        }
        let sql = format!("COPY c FROM '{}'", directory.display());
        database.execute(&sql, ()).unwrap();
    }
    (folder, database, plain)
}

fn compare(database: &Database, plain: &BTreeMap<String, String>) {
    let words: Words<'_> = words(plain);
    for text in SEARCHES.into_iter().chain(JOINED) {
        let query = simple::parse(text, &QueryOptions::default(), &UnicodeWords).unwrap();
        let wanted = evaluate(&query, &words, 1.0);
        let sql = format!("SELECT file, score, hits FROM search('c', '{text}')");
        let all = rows(database, &sql);
        let matches = wanted.values().filter(|found| found.0).count();
        assert_eq!(all.len(), matches, "{text} in {plain:?}");
        let mut last: Option<(f64, &String)> = None;
        for row in &all {
            let [Value::Text(file), Value::Real(score), Value::Integer(hits)] = &row[..] else {
                panic!("{row:?}");
            };
            let (is_match, wanted_score, wanted_hits) = wanted[file];
            let is_it = is_match && *hits as u64 == wanted_hits;
            assert!(is_it, "{text}: {row:?} in {plain:?}");
            let is_near = near(Some(*score), Some(wanted_score));
            assert!(is_near, "{text}: {row:?}, not {wanted_score} in {plain:?}");
            if let Some((before, name)) = last {
                let is_behind = before > *score || before == *score && name < file;
                assert!(is_behind, "{text}: {row:?} in {plain:?}");
            }
            last = Some((*score, file));
        }
        for _ in 0..2 {
            let counted = rows(
                database,
                &format!("SELECT COUNT(*) FROM search('c', '{text}')"),
            );
            let count = Value::Integer(matches as i64);
            assert_eq!(counted, [[count]], "{text} in {plain:?}");
            for limit in LIMITS {
                let page = rows(database, &format!("{sql} LIMIT {limit}"));
                let first = &all[..limit.min(all.len())];
                assert_eq!(page, first, "{text} LIMIT {limit} in {plain:?}");
            }
        }
    }
}

#[test]
fn pages_and_counts_of_many_files_are_those_of_full_scoring() {
    let input = (texts(), prop::collection::vec(edit(), 1..6));
    runner(4)
        .run(&input, |(texts, edits)| {
            let (_folder, database, mut plain) = corpus(&texts);
            compare(&database, &plain);
            for edit in &edits {
                apply(&database, &mut plain, edit);
            }
            compare(&database, &plain);
            // A file that many others come before, in a block of its own.
            apply(&database, &mut plain, &Edit::Add(999, "a b c d a b".into()));
            compare(&database, &plain);
            database.execute_batch("RECOMPRESS c").unwrap();
            compare(&database, &plain);
            Ok(())
        })
        .unwrap();
}
