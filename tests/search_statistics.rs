//! Table functions of search but `hits`: answers equal those on the plain text, and do not depend on how a corpus came about.
//!
//! Spans are taken from `hits`, which has tests of its own; what is made of them is computed anew from the words of the reference
//! crate. Ranks are held against the definition of a query in the simple language, evaluated on plain words.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::fs;
use std::ops::Range;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use unicode_segmentation::UnicodeSegmentation;
use zipfdb::{Database, Value, params};
use zipfdb_search::algebra::{SpanQuery, Strategy as SpanStrategy, TextTest};
use zipfdb_search::matcher::{MatcherLimits, TextMatcher};
use zipfdb_search::measures::{AssociationMeasure, Contingency, KeynessCounts, KeynessMeasure};
use zipfdb_search::naive::{SpanMatcher, TextWindow};
use zipfdb_search::simple::{self, FileQuery, QueryOptions, Tokenize};

use crate::search::{corpus, text};

pub(crate) type Row = Vec<Value>;

const SPANS: [&str; 6] = [
    "\"a\"",
    "\"zz\"",
    "[lc=\"c\"] []{0,2} \"b\"",
    "A:\"a\" B:[]",
    "[]",
    "(?longest) \"[ab]\"+ within line",
];

pub(crate) const SEARCHES: [&str; 16] = [
    "a",
    "A c",
    "\"a b\"",
    "a -b",
    "NOT d",
    "NEAR(a d, 2)",
    "\"a d\"~3",
    "b*",
    "/[bc]+/",
    "bb~1",
    "a^2.5 d",
    "(a b c)@2",
    "+a b",
    "file:1* a",
    "zz",
    "*",
];

/// Statements on the corpora `c` and `other`; `?` is a span.
const STATEMENTS: [&str; 30] = [
    "SELECT * FROM hits('c', ?)",
    "SELECT file, COUNT(*) FROM hits('c', ?) GROUP BY file ORDER BY file",
    "SELECT * FROM concordance('c', ?)",
    "SELECT * FROM concordance('c', ?, left => 2, right => 0) LIMIT 5 OFFSET 3",
    "SELECT * FROM concordance('c', ?, left => 7, right => 3, unit => 'bytes')",
    "SELECT * FROM concordance('c', ?, sort => 'R1,L2:i')",
    "SELECT * FROM concordance('c', ?, sort => '-file,-H-1,H1')",
    "SELECT * FROM concordance('c', ?, sample => 4, seed => 7)",
    "SELECT * FROM concordance('c', ?, sample => '40%', seed => 7, sort => '-position')",
    "SELECT * FROM frequencies('c', ?)",
    "SELECT * FROM frequencies('c', ?, by => 'lc', per => 1000)",
    "SELECT * FROM frequencies('c', ?, by => 'R1:i,file,L1')",
    "SELECT * FROM frequencies('c', ?, by => 'position')",
    "SELECT * FROM collocations('c', ?, min => 1)",
    "SELECT * FROM collocations('c', ?, window => '0:2', measures => 'g2,fisher,dice', window_factor => 0)",
    "SELECT * FROM dispersion('c', ?)",
    "SELECT * FROM dispersion('c', ?, slices => 3)",
    "SELECT * FROM dispersion('c')",
    "SELECT * FROM dispersion('c', slices => 5)",
    "SELECT * FROM distribution('c', ?, slices => 7)",
    "SELECT * FROM distribution('c', ?, by => 'file')",
    "SELECT * FROM distribution('c', ?)",
    "SELECT * FROM frequencies('c')",
    "SELECT * FROM frequencies('c', by => 'lc')",
    "SELECT * FROM keywords('c', 'other', min => 1)",
    "SELECT * FROM keywords('c', files => '1*', min => 1, measures => 'chi2,bic')",
    "SELECT * FROM keywords('c', 'other', files => '?.txt', min => 2)",
    "SELECT * FROM keywords('other', 'c', min => 1)",
    "SELECT * FROM vocabulary_growth('c')",
    "SELECT * FROM vocabulary_growth('c', steps => 7)",
];

pub(crate) fn rows(database: &Database, sql: &str) -> Vec<Row> {
    let rows = database
        .query(sql, ())
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.map(|row| {
        row.unwrap_or_else(|error| panic!("{sql}: {error}"))
            .into_values()
    })
    .collect()
}

fn insert(database: &Database, corpus: &str, file: &str, text: &str) {
    let sql = format!("INSERT INTO {corpus} (file, content) VALUES (?, ?)");
    database.execute(&sql, params![file, text]).unwrap();
}

fn other(database: &Database) {
    database.execute_batch("CREATE CORPUS other").unwrap();
    insert(database, "other", "x", "a b e e C c b a");
}

/// A corpus of some texts that were added at once.
fn fresh(plain: &BTreeMap<String, String>) -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in plain {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let database = Database::in_memory().unwrap();
    database.execute_batch("CREATE CORPUS c").unwrap();
    if !plain.is_empty() {
        let sql = format!("COPY c FROM '{}'", folder.path().display());
        database.execute(&sql, ()).unwrap();
    }
    other(&database);
    (folder, database)
}

/// Each statement has one of the spans, the first one that of this number.
fn assert_as_fresh(database: &Database, plain: &BTreeMap<String, String>, first_span: usize) {
    let (_folder, fresh) = fresh(plain);
    let spans = SPANS.into_iter().cycle().skip(first_span);
    for (statement, span) in STATEMENTS.into_iter().zip(spans) {
        let sql = statement.replacen("'c', ?", &format!("'c', '{span}'"), 1);
        assert_eq!(
            rows(database, &sql),
            rows(&fresh, &sql),
            "{sql} in {plain:?}"
        );
    }
    for query in SEARCHES {
        let sql = format!("SELECT * FROM search('c', '{query}')");
        assert_eq!(
            rows(database, &sql),
            rows(&fresh, &sql),
            "{sql} in {plain:?}"
        );
    }
}

pub(crate) fn runner(cases: u32) -> TestRunner {
    let seed = std::env::var("ZIPFDB_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(1);
    println!("seed {seed}");
    TestRunner::new(Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::default()
    })
}

#[derive(Debug, Clone)]
pub(crate) enum Edit {
    Insert(usize, usize, String),
    Delete(usize),
    Replace(usize, String),
    Add(usize, String),
}

pub(crate) fn edit() -> impl Strategy<Value = Edit> {
    let file = 0..4usize;
    prop_oneof![
        2 => (file.clone(), 0..80usize, text()).prop_map(|(file, at, text)| Edit::Insert(file, at, text)),
        1 => file.clone().prop_map(Edit::Delete),
        1 => (file.clone(), text()).prop_map(|(file, text)| Edit::Replace(file, text)),
        1 => (10..14usize, text()).prop_map(|(file, text)| Edit::Add(file, text)),
    ]
}

pub(crate) fn apply(database: &Database, plain: &mut BTreeMap<String, String>, edit: &Edit) {
    let name = |file: &usize| format!("{file}.txt");
    match edit {
        Edit::Insert(file, at, text) => {
            let file = name(file);
            let Some(content) = plain.get_mut(&file) else {
                return;
            };
            let at = (*at).min(content.len());
            content.insert_str(at, text);
            let sql = "INSERT INTO c (file, offset, content) VALUES (?, ?, ?)";
            database
                .execute(sql, params![file, at as i64, text.as_str()])
                .unwrap();
        }
        Edit::Delete(file) => {
            let file = name(file);
            plain.remove(&file);
            database
                .execute("DELETE FROM c WHERE file = ?", params![file])
                .unwrap();
        }
        Edit::Replace(file, text) | Edit::Add(file, text) => {
            let file = name(file);
            plain.insert(file.clone(), text.clone());
            let sql = "REPLACE INTO c (file, content) VALUES (?, ?)";
            database.execute(sql, params![file, text.as_str()]).unwrap();
        }
    }
}

#[test]
fn answers_do_not_depend_on_segments_and_edits() {
    let input = (
        prop::collection::vec(text(), 1..4),
        prop::collection::vec(edit(), 1..5),
        0..SPANS.len(),
    );
    runner(5)
        .run(&input, |(texts, edits, span)| {
            let (_folder, database, mut plain) = corpus(&texts);
            other(&database);
            assert_as_fresh(&database, &plain, span);
            for edit in &edits {
                apply(&database, &mut plain, edit);
            }
            assert_as_fresh(&database, &plain, span);
            Ok(())
        })
        .unwrap();
}

/// Statements on the corpus `c`, with a place for a condition; `?` is a span.
const OF_SUBCORPORA: [&str; 11] = [
    "SELECT * FROM frequencies('c', ?, by => 'R1:i,file') {}",
    "SELECT * FROM frequencies('c') {}",
    "SELECT * FROM collocations('c', ?, window => '2:3', min => 1) {}",
    "SELECT * FROM collocations('c', ?, window => '13:1', min => 1) {}",
    "SELECT * FROM dispersion('c', ?) {}",
    "SELECT * FROM dispersion('c', ?, slices => 3) {}",
    "SELECT * FROM dispersion('c') {}",
    "SELECT * FROM distribution('c', ?, by => 'file') {}",
    "SELECT * FROM distribution('c', ?, slices => 4) {}",
    "SELECT * FROM keywords('c', 'other', min => 1) {}",
    "SELECT * FROM vocabulary_growth('c', steps => 5) {}",
];

#[test]
fn statistics_of_files_with_a_value_are_those_of_a_corpus_of_them() {
    let value_of = |file: &str| ["x", "y", ""][file.bytes().map(usize::from).sum::<usize>() % 3];
    let input = (
        prop::collection::vec(text(), 3..6),
        prop::collection::vec(edit(), 0..5),
        0..SPANS.len(),
        any::<bool>(),
    );
    let check = |texts: &[String], edits: &[Edit], span: usize, has_segments: bool| {
        let (_folder, database, mut plain) = corpus(texts);
        other(&database);
        for edit in edits {
            apply(&database, &mut plain, edit);
        }
        database
            .execute_batch("ALTER CORPUS c ADD COLUMN lang TEXT")
            .unwrap();
        for file in plain.keys().filter(|file| !value_of(file).is_empty()) {
            let sql = "UPDATE c SET lang = ? WHERE file = ?";
            database
                .execute(sql, params![value_of(file), file.as_str()])
                .unwrap();
        }
        if has_segments {
            database.execute_batch("RECOMPRESS c").unwrap();
        }
        let of_value = |value: &str| {
            let files = plain.iter().filter(|(file, _)| value_of(file) == value);
            files
                .map(|(file, text)| (file.clone(), text.clone()))
                .collect::<BTreeMap<_, _>>()
        };
        let mut groups: Vec<(Value, i64, i64)> = Vec::new();
        for value in ["x", "y", ""] {
            let condition = match value {
                "" => "WHERE lang IS NULL".to_owned(),
                value => format!("WHERE LANG = '{value}'"),
            };
            let files = of_value(value);
            let (_folder, alone) = fresh(&files);
            let spans = SPANS.into_iter().cycle().skip(span);
            for (statement, span) in OF_SUBCORPORA.into_iter().zip(spans) {
                let sql = statement.replacen('?', &format!("'{span}'"), 1);
                assert_eq!(
                    rows(&database, &sql.replace("{}", &condition)),
                    rows(&alone, &sql.replace("{}", "")),
                    "{sql} {condition} in {plain:?}"
                );
            }
            let names: Vec<&String> = files.keys().collect();
            if let [name] = names[..] {
                let keywords = |rest: &str| {
                    rows(
                        &database,
                        &format!("SELECT * FROM keywords('c', min => 1{rest}"),
                    )
                };
                assert_eq!(
                    keywords(&format!(") {condition}")),
                    keywords(&format!(", files => '{name}')"))
                );
            }
            let spans = self::spans(&alone, SPANS[span]);
            let size = size(&words(&files)) as i64;
            if size > 0 {
                let value = match value {
                    "" => Value::Null,
                    value => Value::Text(value.to_owned()),
                };
                groups.push((value, size, spans.len() as i64));
            }
        }
        let order = |row: &Row| format!("{:?}", row[0]);
        let sorted = |mut rows: Vec<Row>| {
            rows.sort_by_key(order);
            rows
        };
        let rate = |size: i64, hits: i64| Value::Real(hits as f64 / size as f64 * 1e6);
        let span = SPANS[span];
        let sql = format!(
            "SELECT part, words, hits, per_million FROM distribution('c', '{span}', by => 'Lang')"
        );
        let wanted = groups.iter().map(|(value, size, hits)| {
            let numbers = [*size, *hits].map(Value::Integer);
            let start = std::iter::once(value.clone()).chain(numbers);
            start.chain([rate(*size, *hits)]).collect()
        });
        assert_eq!(
            sorted(rows(&database, &sql)),
            sorted(wanted.collect()),
            "{plain:?}"
        );
        let sql =
            format!("SELECT text, count, relative FROM frequencies('c', '{span}', by => 'lang')");
        let with_hits = groups.iter().filter(|(.., hits)| *hits > 0);
        let wanted = with_hits.map(|(value, size, hits)| {
            vec![value.clone(), Value::Integer(*hits), rate(*size, *hits)]
        });
        assert_eq!(
            sorted(rows(&database, &sql)),
            sorted(wanted.collect()),
            "{plain:?}"
        );
        let sql = format!("SELECT range FROM dispersion('c', '{span}', by => 'lang')");
        let range = groups.iter().filter(|(.., hits)| *hits > 0).count();
        assert_eq!(rows(&database, &sql), [[Value::Integer(range as i64)]]);
    };
    runner(4)
        .run(&input, |(texts, edits, span, has_segments)| {
            check(&texts, &edits, span, has_segments);
            Ok(())
        })
        .unwrap();
}

/// The words of each file.
pub(crate) type Words<'a> = BTreeMap<&'a str, Vec<&'a str>>;

pub(crate) fn words(plain: &BTreeMap<String, String>) -> Words<'_> {
    let files = plain.iter();
    files
        .map(|(file, text)| (file.as_str(), text.unicode_words().collect()))
        .collect()
}

fn totals<'a>(words: &Words<'a>) -> HashMap<&'a str, u64> {
    let mut totals = HashMap::new();
    for word in words.values().flatten() {
        *totals.entry(*word).or_default() += 1;
    }
    totals
}

fn size(words: &Words<'_>) -> u64 {
    words.values().map(|words| words.len() as u64).sum()
}

#[derive(Debug, Clone)]
struct Span {
    file: String,
    words: Range<usize>,
}

fn spans(database: &Database, query: &str) -> Vec<Span> {
    let rows = database
        .query(
            "SELECT file, position, words FROM hits('c', ?)",
            params![query],
        )
        .unwrap();
    rows.map(|row| {
        let row = row.unwrap();
        let (start, words) = (
            row.get::<u64>(1).unwrap() as usize,
            row.get::<u64>(2).unwrap() as usize,
        );
        Span {
            file: row.get(0).unwrap(),
            words: start..start + words,
        }
    })
    .collect()
}

/// The words of a key of a span, as written in SQL.
fn key<'a>(key: &str, span: &Span, words: &Words<'a>) -> Vec<&'a str> {
    let words = &words[span.file.as_str()];
    let Range { start, end } = span.words;
    let at = |place: Option<usize>| {
        place
            .and_then(|place| words.get(place))
            .copied()
            .into_iter()
            .collect()
    };
    match key {
        "hit" => words[start..end].to_vec(),
        "R1" => at(Some(end)),
        "R2" => at(Some(end + 1)),
        "L1" => at(start.checked_sub(1)),
        "L2" => at(start.checked_sub(2)),
        "H1" => at(Some(start)),
        "H-1" => at(Some(end - 1)),
        "H2" => at((start + 1 < end).then_some(start + 1)),
        "B" => at(Some(start + 1)),
        _ => panic!("{key}"),
    }
}

/// The order of dictionaries: by the folded word, then by bytes.
fn in_dictionary(word: &str) -> (String, String) {
    (word.to_lowercase(), word.to_owned())
}

pub(crate) fn near(left: Option<f64>, right: Option<f64>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => (left - right).abs() <= 1e-9 * left.abs().max(1.0),
        (left, right) => left == right,
    }
}

fn assert_frequencies(database: &Database, words: &Words<'_>, query: &str, by: &str) {
    let mut groups: BTreeMap<String, (u64, BTreeSet<String>)> = BTreeMap::new();
    for span in spans(database, query) {
        let keys = by.split(',').map(|name| match name.strip_suffix(":i") {
            _ if name == "file" => span.file.clone(),
            _ if name == "position" => span.words.start.to_string(),
            _ if name == "lc" => key("hit", &span, words).join(" ").to_lowercase(),
            Some(name) => key(name, &span, words).join(" ").to_lowercase(),
            None => key(name, &span, words).join(" "),
        });
        let text = keys.collect::<Vec<_>>().join("\t");
        let group = groups.entry(text).or_default();
        group.0 += 1;
        group.1.insert(span.file.clone());
    }
    let mut wanted: Vec<(String, u64, u64)> = groups
        .into_iter()
        .map(|(text, (count, files))| (text, count, files.len() as u64))
        .collect();
    wanted.sort_by(|left, right| right.1.cmp(&left.1).then(left.0.cmp(&right.0)));
    let sql = "SELECT text, count, files, relative FROM frequencies('c', ?, by => ?, per => 1000)";
    let found = database.query(sql, params![query, by]).unwrap();
    let found: Vec<(String, u64, u64)> = found
        .map(|row| {
            let row = row.unwrap();
            let count: u64 = row.get(1).unwrap();
            let relative = count as f64 * 1000.0 / size(words) as f64;
            assert!(near(Some(row.get(3).unwrap()), Some(relative)));
            (row.get(0).unwrap(), count, row.get(2).unwrap())
        })
        .collect();
    assert_eq!(found, wanted, "{query} by {by} in {words:?}");
}

fn assert_collocations(
    database: &Database,
    words: &Words<'_>,
    query: &str,
    window: (usize, usize),
    has_factor: bool,
) {
    let spans = spans(database, query);
    let mut counts: HashMap<&str, u64> = HashMap::new();
    for span in &spans {
        let words = &words[span.file.as_str()];
        let left = &words[span.words.start.saturating_sub(window.0)..span.words.start];
        let right = &words[span.words.end..(span.words.end + window.1).min(words.len())];
        for word in left.iter().chain(right) {
            *counts.entry(word).or_default() += 1;
        }
    }
    counts.retain(|_, count| *count >= 2);
    let totals = totals(words);
    let names: Vec<&str> = AssociationMeasure::all()
        .map(AssociationMeasure::name)
        .collect();
    let sql = format!(
        "SELECT * FROM collocations('c', '{query}', window => '{}:{}', min => 2, window_factor => {}, measures => '{}')",
        window.0,
        window.1,
        u8::from(has_factor),
        names.join(",")
    );
    let found = rows(database, &sql);
    assert_eq!(found.len(), counts.len(), "{sql} in {words:?}");
    let mut last = None;
    for row in found {
        let Value::Text(word) = &row[0] else {
            panic!("{row:?}")
        };
        let (count, total) = (counts[word.as_str()], totals[word.as_str()]);
        assert_eq!(
            row[1..3],
            [Value::Integer(count as i64), Value::Integer(total as i64)],
            "{sql} in {words:?}"
        );
        let contingency = Contingency {
            pairs: count,
            node: spans.len() as u64,
            collocate: total,
            size: size(words),
            window: if has_factor {
                (window.0 + window.1) as u64
            } else {
                1
            },
        };
        let values: Vec<Option<f64>> = AssociationMeasure::all()
            .map(|measure| measure.value(&contingency))
            .collect();
        let shown = values
            .iter()
            .map(|value| value.map_or(Value::Null, Value::Real));
        assert_eq!(
            row[3..],
            shown.collect::<Vec<_>>(),
            "{word}: {sql} in {words:?}"
        );
        // Greatest first, then by count and word.
        let rank = (
            values[0].is_none(),
            values[0].map(|value| -value),
            -(count as i64),
            in_dictionary(word),
        );
        assert!(
            last.is_none_or(|last| last < rank),
            "{rank:?}: {sql} in {words:?}"
        );
        last = Some(rank);
    }
}

fn assert_keywords(
    database: &Database,
    words: &Words<'_>,
    pattern: &str,
    is_target: impl Fn(&str) -> bool,
) {
    let (target, rest): (Words<'_>, Words<'_>) = words
        .clone()
        .into_iter()
        .partition(|(file, _)| is_target(file));
    let (in_target, in_rest) = (totals(&target), totals(&rest));
    let sql = format!(
        "SELECT * FROM keywords('c', files => '{pattern}', min => 1, measures => 'g2,log_ratio')"
    );
    let found = rows(database, &sql);
    assert_eq!(found.len(), in_target.len(), "{sql} in {words:?}");
    for row in found {
        let Value::Text(word) = &row[0] else {
            panic!("{row:?}")
        };
        let counts = KeynessCounts {
            target: in_target[word.as_str()],
            target_size: size(&target),
            reference: in_rest.get(word.as_str()).copied().unwrap_or(0),
            reference_size: size(&rest),
        };
        let rate = |count: u64, size: u64| match size {
            0 => Value::Null,
            size => Value::Real(count as f64 / size as f64 * 1e6),
        };
        let value =
            |measure: KeynessMeasure| measure.value(&counts, 1.0).map_or(Value::Null, Value::Real);
        let measures = KeynessMeasure::parse_list("g2,log_ratio").unwrap();
        let wanted = [
            Value::Text(word.clone()),
            Value::Integer(counts.target as i64),
            Value::Integer(counts.reference as i64),
            rate(counts.target, counts.target_size),
            rate(counts.reference, counts.reference_size),
            value(measures[0]),
            value(measures[1]),
        ];
        assert_eq!(row, wanted, "{sql} in {words:?}");
    }
}

fn assert_spread(database: &Database, words: &Words<'_>, query: &str) {
    let spans = spans(database, query);
    let (size, hits) = (size(words), spans.len() as u64);
    let mut starts = BTreeMap::new();
    let mut before = 0;
    for (file, words) in words {
        starts.insert(*file, before);
        before += words.len() as u64;
    }
    let places: Vec<u64> = spans
        .iter()
        .map(|span| starts[span.file.as_str()] + span.words.start as u64)
        .collect();
    let by_file: Vec<(u64, u64)> = words
        .iter()
        .filter(|(_, words)| !words.is_empty())
        .map(|(file, words)| (starts[file], words.len() as u64))
        .collect();
    let slices = 6.min(size);
    let bound = |slice: u64| slice * size / slices;
    let by_slice: Vec<(u64, u64)> = (0..slices)
        .map(|slice| (bound(slice), bound(slice + 1) - bound(slice)))
        .collect();
    for (parts, argument) in [(by_file, "by => 'file'"), (by_slice, "slices => 6")] {
        let counts: Vec<u64> = parts
            .iter()
            .map(|(first, words)| {
                places
                    .iter()
                    .filter(|place| (*first..first + words).contains(*place))
                    .count() as u64
            })
            .collect();
        let sql = format!(
            "SELECT position, words, hits, per_million FROM distribution('c', '{query}', {argument})"
        );
        let wanted: Vec<Row> = parts
            .iter()
            .zip(&counts)
            .map(|((first, words), count)| {
                let rate = *count as f64 / *words as f64 * 1e6;
                let numbers = [*first, *words, *count].map(|number| Value::Integer(number as i64));
                numbers.into_iter().chain([Value::Real(rate)]).collect()
            })
            .collect();
        assert_eq!(rows(database, &sql), wanted, "{sql} in {words:?}");
        let sql = format!(
            "SELECT hits, parts, range, dp, dp_norm, kld, arf, ald, awt FROM dispersion('c', '{query}', {argument})"
        );
        let found = rows(database, &sql).remove(0);
        let range = counts.iter().filter(|count| **count > 0).count();
        assert_eq!(
            found[..3],
            [hits as i64, parts.len() as i64, range as i64].map(Value::Integer),
            "{sql} in {words:?}"
        );
        let share = |part: &(u64, u64)| part.1 as f64 / size as f64;
        let terms = parts
            .iter()
            .zip(&counts)
            .map(|(part, count)| (share(part), *count as f64 / hits as f64));
        let dp = terms
            .clone()
            .map(|(share, hits)| (hits - share).abs())
            .sum::<f64>()
            / 2.0;
        let kld: f64 = terms
            .filter(|(_, hits)| *hits > 0.0)
            .map(|(share, hits)| hits * (hits / share).log2())
            .sum();
        let least = parts.iter().map(share).fold(1.0, f64::min);
        let circle = places.iter().zip(
            places
                .iter()
                .skip(1)
                .copied()
                .chain(places.first().map(|first| first + size)),
        );
        let distances: Vec<f64> = circle.map(|(place, next)| (next - place) as f64).collect();
        let (words_of_all, every) = (size as f64, size as f64 / hits as f64);
        let arf = distances
            .iter()
            .map(|distance| distance.min(every))
            .sum::<f64>()
            / every;
        let log = |distance: &f64| {
            if *distance > 0.0 {
                distance * distance.log10()
            } else {
                0.0
            }
        };
        let ald = distances.iter().map(log).sum::<f64>() / words_of_all;
        let awt = (1.0
            + distances
                .iter()
                .map(|distance| distance * distance)
                .sum::<f64>()
                / words_of_all)
            / 2.0;
        let has_hits = hits > 0;
        let wanted = [
            has_hits.then_some(dp),
            (has_hits && parts.len() > 1).then_some(dp / (1.0 - least)),
            has_hits.then_some(kld),
            has_hits.then_some(arf),
            has_hits.then_some(ald),
            has_hits.then_some(awt),
        ];
        for (found, wanted) in found[3..].iter().zip(wanted) {
            let found = match found {
                Value::Real(found) => Some(*found),
                _ => None,
            };
            assert!(
                near(found, wanted),
                "{found:?} {wanted:?}: {sql} in {words:?}"
            );
        }
    }
}

/// Every word is measured as a query for it is.
fn assert_spread_of_words(database: &Database, words: &Words<'_>) {
    for argument in ["by => 'file'", "slices => 4"] {
        let found = rows(
            database,
            &format!("SELECT * FROM dispersion('c', {argument})"),
        );
        assert_eq!(found.len(), totals(words).len(), "{words:?}");
        for row in found {
            let Some((Value::Text(word), measures)) = row.split_last() else {
                panic!("{row:?}")
            };
            let sql = format!("SELECT * FROM dispersion('c', '[word=\"{word}\"]', {argument})");
            let of_query = rows(database, &sql).remove(0);
            for (found, wanted) in measures.iter().zip(&of_query) {
                match (found, wanted) {
                    (Value::Real(found), Value::Real(wanted)) => {
                        assert!(near(Some(*found), Some(*wanted)), "{sql} in {words:?}");
                    }
                    (found, wanted) => assert_eq!(found, wanted, "{sql} in {words:?}"),
                }
            }
        }
    }
}

fn assert_growth(database: &Database, words: &Words<'_>, steps: u64) {
    let all: Vec<&str> = words.values().flatten().copied().collect();
    let step = (all.len() as u64).div_ceil(steps).max(1) as usize;
    let ends = (1..)
        .map(|number| (number * step).min(all.len()))
        .take(all.len().div_ceil(step));
    let wanted: Vec<Row> = ends
        .map(|end| {
            let mut counts: HashMap<&str, u64> = HashMap::new();
            all[..end]
                .iter()
                .for_each(|word| *counts.entry(word).or_default() += 1);
            let hapaxes = counts.values().filter(|count| **count == 1).count();
            vec![
                Value::Integer(end as i64),
                Value::Integer(counts.len() as i64),
                Value::Integer(hapaxes as i64),
                Value::Real(counts.len() as f64 / end as f64),
            ]
        })
        .collect();
    let sql = format!("SELECT * FROM vocabulary_growth('c', steps => {steps})");
    assert_eq!(rows(database, &sql), wanted, "{sql} in {words:?}");
}

fn assert_sorted(database: &Database, words: &Words<'_>, query: &str, keys: &str) {
    let mut wanted = spans(database, query);
    // Sorting is stable, so the least significant key comes first.
    for name in keys.split(',').rev() {
        let (is_descending, name) = name
            .strip_prefix('-')
            .map_or((false, name), |name| (true, name));
        let (ignores_case, name) = name
            .strip_suffix(":i")
            .map_or((false, name), |name| (true, name));
        let rank = |span: &Span| match name {
            "file" => (span.file.clone(), 0, Vec::new()),
            "position" => (String::new(), span.words.start, Vec::new()),
            name => {
                let words = key(name, span, words).into_iter().map(in_dictionary);
                let words = words.map(|(folded, word)| {
                    if ignores_case {
                        (folded, String::new())
                    } else {
                        (folded, word)
                    }
                });
                (String::new(), 0, words.collect::<Vec<_>>())
            }
        };
        wanted.sort_by(|left, right| {
            let order = rank(left).cmp(&rank(right));
            if is_descending {
                order.reverse()
            } else {
                order
            }
        });
    }
    let sql =
        format!("SELECT file, position, words FROM concordance('c', '{query}', sort => '{keys}')");
    let wanted: Vec<Row> = wanted
        .into_iter()
        .map(|span| {
            let Range { start, end } = span.words;
            vec![
                Value::Text(span.file),
                Value::Integer(start as i64),
                Value::Integer((end - start) as i64),
            ]
        })
        .collect();
    let found = rows(database, &sql);
    assert_eq!(found, wanted, "{sql} in {words:?}");
    let pages: Vec<Row> = (0..found.len().div_ceil(3))
        .flat_map(|page| rows(database, &format!("{sql} LIMIT 3 OFFSET {}", page * 3)))
        .collect();
    assert_eq!(pages, found, "{sql}");
}

fn assert_contexts(database: &Database, plain: &BTreeMap<String, String>, query: &str) {
    let spans = spans(database, query);
    for (left, right) in [(0, 0), (2, 1), (usize::MAX >> 1, usize::MAX >> 1)] {
        let context = |unit: &str| {
            format!(
                "SELECT left, hit, right FROM concordance('c', '{query}', left => {left}, right => {right}, unit => '{unit}')"
            )
        };
        let (mut by_words, mut by_bytes) = (Vec::new(), Vec::new());
        for span in &spans {
            let text = &plain[&span.file];
            let words: Vec<Range<usize>> = text
                .unicode_word_indices()
                .map(|(at, word)| at..at + word.len())
                .collect();
            let (start, end) = (words[span.words.start].start, words[span.words.end - 1].end);
            let row = |from: usize, to: usize| {
                let parts = [&text[from..start], &text[start..end], &text[end..to]];
                parts.map(|part| Value::Text(part.to_owned())).to_vec()
            };
            let first = span.words.start.saturating_sub(left);
            let last = span.words.end.saturating_add(right).min(words.len()) - 1;
            by_words.push(row(words[first].start, words[last].end));
            let mut from = start.saturating_sub(left);
            while !text.is_char_boundary(from) {
                from += 1;
            }
            by_bytes.push(row(
                from,
                text.floor_char_boundary(end.saturating_add(right)),
            ));
        }
        assert_eq!(
            rows(database, &context("words")),
            by_words,
            "{query} in {plain:?}"
        );
        assert_eq!(
            rows(database, &context("bytes")),
            by_bytes,
            "{query} in {plain:?}"
        );
    }
}

#[test]
fn statistics_are_those_of_the_plain_text() {
    let input = prop::collection::vec(text(), 1..4);
    runner(3)
        .run(&input, |texts| {
            let (_folder, database, plain) = corpus(&texts);
            let words = words(&plain);
            for query in SPANS {
                for by in ["hit", "lc", "R1", "R1:i", "L2,hit:i,file", "position,H2"] {
                    assert_frequencies(&database, &words, query, by);
                }
                assert_collocations(&database, &words, query, (2, 3), true);
                assert_collocations(&database, &words, query, (0, 1), false);
                assert_collocations(&database, &words, query, (12, 5), true);
                assert_collocations(&database, &words, query, (1, 13), true);
                assert_spread(&database, &words, query);
                for keys in ["R1", "R2:i,-L1", "-file,H-1", "-position,hit"] {
                    assert_sorted(&database, &words, query, keys);
                }
                assert_contexts(&database, &plain, query);
            }
            assert_frequencies(&database, &words, "A:\"a\" B:[]", "B,file");
            assert_sorted(&database, &words, "A:\"a\" B:[]", "-B,R1");
            assert_keywords(&database, &words, "0*", |file| file.starts_with('0'));
            assert_keywords(&database, &words, "*", |_| true);
            assert_spread_of_words(&database, &words);
            for steps in [1, 3, 100] {
                assert_growth(&database, &words, steps);
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn contexts_have_whole_characters() {
    let plain: BTreeMap<String, String> = [
        ("0.txt", "\u{e4}\u{20ac} a \u{1f600}\u{e4}"),
        ("1.txt", "a"),
        ("2.txt", "\u{e4} a \u{20ac}"),
    ]
    .map(|(file, text)| (file.to_owned(), text.to_owned()))
    .into();
    let (_folder, database) = fresh(&plain);
    assert_contexts(&database, &plain, "\"a\"");
    for width in 0..8 {
        let sql = format!(
            "SELECT typeof(left), typeof(right), octet_length(left) <= {width} AND octet_length(right) <= {width}
             FROM concordance('c', '\"a\"', left => {width}, right => {width}, unit => 'bytes')"
        );
        let text = || Value::Text("text".to_owned());
        let wanted = vec![text(), text(), Value::Integer(1)];
        assert!(
            rows(&database, &sql).iter().all(|row| *row == wanted),
            "{width}"
        );
    }
}

#[test]
fn samples_are_part_of_larger_ones_and_of_the_hits() {
    let database = Database::in_memory().unwrap();
    database.execute_batch("CREATE CORPUS c").unwrap();
    for file in ["x", "y"] {
        insert(&database, "c", file, &"a b c ".repeat(300));
    }
    let sampled = |arguments: &str| {
        let sql = format!("SELECT file, position FROM concordance('c', '\"b\"', {arguments})");
        rows(&database, &sql)
    };
    let all = sampled("left => 0");
    let is_part = |part: &[Row], whole: &[Row]| {
        let mut whole = whole.iter();
        part.iter().all(|row| whole.any(|other| other == row))
    };
    let (few, many) = (
        sampled("sample => 50, seed => 3"),
        sampled("sample => 200, seed => 3"),
    );
    assert_eq!((all.len(), few.len(), many.len()), (600, 50, 200));
    assert!(is_part(&few, &many) && is_part(&many, &all));
    assert_eq!(few, sampled("sample => '50', seed => 3"));
    assert_ne!(few, sampled("sample => 50, seed => 4"));
    let (few, many) = (
        sampled("sample => '5%', seed => 3"),
        sampled("sample => '20%', seed => 3"),
    );
    assert!(is_part(&few, &many) && is_part(&many, &all));
    assert!(few.len() > 5 && few.len() < 80 && many.len() > few.len());
    assert_eq!(sampled("sample => '100%'"), all);
    assert_eq!(sampled("sample => 0"), Vec::<Row>::new());
}

pub(crate) struct UnicodeWords;

impl Tokenize for UnicodeWords {
    fn words(&self, text: &str) -> Vec<Range<usize>> {
        text.unicode_word_indices()
            .map(|(at, word)| at..at + word.len())
            .collect()
    }
}

/// Whether a file matches, and its score and hits.
pub(crate) type Found = BTreeMap<String, (bool, f64, u64)>;

fn scored(words: &Words<'_>, boost: f64, count: impl Fn(&[&str]) -> u64) -> Found {
    let files = words.len() as f64;
    let average = size(words) as f64 / files;
    let counts: Vec<u64> = words.values().map(|words| count(words)).collect();
    let with = counts.iter().filter(|count| **count > 0).count() as f64;
    let rarity = (1.0 + (files - with + 0.5) / (with + 0.5)).ln();
    let scored = words.iter().zip(counts).map(|((file, words), count)| {
        let (frequency, length) = (count as f64, words.len() as f64 / average);
        let score = boost * rarity * frequency * 2.2 / (frequency + 1.2 * (0.25 + 0.75 * length));
        let found = if count > 0 {
            (true, score, count)
        } else {
            (false, 0.0, 0)
        };
        ((*file).to_owned(), found)
    });
    scored.collect()
}

pub(crate) fn evaluate(query: &FileQuery, words: &Words<'_>, boost: f64) -> Found {
    let constant = |is_match: bool| {
        words
            .keys()
            .map(|file| ((*file).to_owned(), (is_match, 0.0, 0)))
            .collect()
    };
    match query {
        FileQuery::All => constant(true),
        FileQuery::None => constant(false),
        FileQuery::Word(test) => {
            let matcher = TextMatcher::new(test, MatcherLimits::default()).unwrap();
            scored(words, boost, |words| {
                words
                    .iter()
                    .filter(|word| matcher.matches(word.as_bytes()))
                    .count() as u64
            })
        }
        FileQuery::Phrase { .. } | FileQuery::Near { .. } => {
            let query = SpanQuery {
                span: query.span().unwrap(),
                constraint: None,
                strategy: SpanStrategy::Shortest,
                show: None,
            };
            let matcher = SpanMatcher::new(&query, MatcherLimits::default()).unwrap();
            scored(words, boost, |words| {
                let window = TextWindow {
                    words: words.iter().map(|word| word.as_bytes()).collect(),
                    gaps: vec![&b" "[..]; words.len() + 1],
                    position: 0,
                    offset: 0,
                    frequency: &|_| 0,
                    units: HashMap::new(),
                };
                matcher.on(&window, u64::MAX).hits().unwrap().len() as u64
            })
        }
        FileQuery::Field { pattern, .. } => {
            let test = TextTest {
                pattern: pattern.clone(),
                folds_case: false,
                folds_diacritics: false,
            };
            let matcher = TextMatcher::new(&test, MatcherLimits::default()).unwrap();
            let files = words.keys();
            files
                .map(|file| {
                    (
                        (*file).to_owned(),
                        (matcher.matches(file.as_bytes()), 0.0, 0),
                    )
                })
                .collect()
        }
        FileQuery::And(queries) => sum(words, queries, boost, queries.len()),
        FileQuery::Or { queries, minimum } => sum(words, queries, boost, *minimum as usize),
        FileQuery::Not(query) => {
            let found = evaluate(query, words, boost).into_iter();
            found
                .map(|(file, (is_match, ..))| (file, (!is_match, 0.0, 0)))
                .collect()
        }
        FileQuery::Boost { query, factor } => evaluate(query, words, boost * f64::from(*factor)),
    }
}

/// Files that are in at least `minimum` of the sets.
fn sum(words: &Words<'_>, queries: &[FileQuery], boost: f64, minimum: usize) -> Found {
    let parts: Vec<Found> = queries
        .iter()
        .map(|query| evaluate(query, words, boost))
        .collect();
    let files = words.keys().map(|file| {
        let of_file: Vec<&(bool, f64, u64)> = parts
            .iter()
            .map(|part| &part[*file])
            .filter(|found| found.0)
            .collect();
        let found = if of_file.len() >= minimum {
            (
                true,
                of_file.iter().map(|found| found.1).sum(),
                of_file.iter().map(|found| found.2).sum(),
            )
        } else {
            (false, 0.0, 0)
        };
        ((*file).to_owned(), found)
    });
    files.collect()
}

#[test]
fn ranks_are_those_of_the_definition() {
    let input = prop::collection::vec(text(), 1..5);
    runner(10)
        .run(&input, |texts| {
            let (_folder, database, plain) = corpus(&texts);
            let words = words(&plain);
            for text in SEARCHES {
                let query = simple::parse(text, &QueryOptions::default(), &UnicodeWords).unwrap();
                let wanted = evaluate(&query, &words, 1.0);
                let found = rows(
                    &database,
                    &format!("SELECT file, score, hits FROM search('c', '{text}')"),
                );
                let matches = wanted.values().filter(|found| found.0).count();
                assert_eq!(found.len(), matches, "{text} in {plain:?}");
                let mut last: Option<(f64, String)> = None;
                for row in found {
                    let [Value::Text(file), Value::Real(score), Value::Integer(hits)] = &row[..]
                    else {
                        panic!("{row:?}");
                    };
                    let (is_match, wanted_score, wanted_hits) = wanted[file];
                    assert!(
                        is_match && *hits as u64 == wanted_hits,
                        "{text}: {row:?} in {plain:?}"
                    );
                    assert!(
                        near(Some(*score), Some(wanted_score)),
                        "{text}: {row:?}, not {wanted_score} in {plain:?}"
                    );
                    if let Some((last, name)) = last {
                        assert!(
                            last > *score || last == *score && name < *file,
                            "{text}: {row:?} in {plain:?}"
                        );
                    }
                    last = Some((*score, file.clone()));
                }
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn corpora_and_files_without_words_have_answers() {
    let no_hits = "SELECT hits, range, dp, dp_norm, juilland_d, carroll_d2, rosengren_s, kld, arf, ald, awt FROM dispersion('c', '\"a\"'";
    for files in [
        &[][..],
        &[("x", "")],
        &[("x", ""), ("y", " .\n")],
        &[("x", ""), ("y", "b")],
    ] {
        let database = Database::in_memory().unwrap();
        database.execute_batch("CREATE CORPUS c").unwrap();
        other(&database);
        for (file, text) in files {
            insert(&database, "c", file, text);
        }
        let words: usize = files
            .iter()
            .map(|(_, text)| text.unicode_words().count())
            .sum();
        for statement in STATEMENTS
            .iter()
            .filter(|statement| statement.contains("'c', ?"))
        {
            let sql = statement.replacen("'c', ?", "'c', '\"a\"'", 1);
            let has_rows =
                statement.contains("dispersion") || statement.contains("distribution") && words > 0;
            assert_eq!(
                !rows(&database, &sql).is_empty(),
                has_rows,
                "{sql} in {files:?}"
            );
        }
        for end in [")", ", slices => 3)"] {
            let wanted: Row = [Value::Integer(0), Value::Integer(0)]
                .into_iter()
                .chain(vec![Value::Null; 9])
                .collect();
            assert_eq!(rows(&database, &format!("{no_hits}{end}")), [wanted]);
        }
        for (query, count) in [
            ("a", 0),
            ("*", files.len()),
            ("NOT a", files.len()),
            ("\"a b\"", 0),
        ] {
            assert_eq!(
                rows(&database, &format!("SELECT * FROM search('c', '{query}')")).len(),
                count,
                "{query}"
            );
        }
        assert_eq!(
            rows(&database, "SELECT * FROM keywords('c', 'other', min => 1)").len(),
            words
        );
        assert_eq!(
            rows(
                &database,
                "SELECT * FROM keywords('c', files => '*', min => 1)"
            )
            .len(),
            words
        );
        assert_eq!(
            rows(
                &database,
                "SELECT * FROM keywords('c', files => 'none', min => 1)"
            )
            .len(),
            0
        );
        assert_eq!(
            rows(&database, "SELECT * FROM vocabulary_growth('c')").len(),
            words
        );
    }
}

#[test]
fn errors_name_the_argument_and_the_remedy() {
    let database = Database::in_memory().unwrap();
    database
        .execute_batch("CREATE CORPUS c (kind TEXT)")
        .unwrap();
    insert(&database, "c", "x", "a b c");
    let mut failed = String::new();
    for (call, parts) in [
        (
            "hits('c', '[lemma = \"go\"]')",
            &["query of hits(): 1:2: no such attribute `lemma`; hint: "][..],
        ),
        ("hits('c', '\"a\" \"b')", &["query of hits(): 1:5: "]),
        ("hits('c', '\"a\"{2')", &["query of hits(): 1:"]),
        ("hits('c', 1)", &["query of hits()", "TEXT"]),
        ("hits('c')", &["hits()", "a corpus and a query"]),
        ("hits('nothing', '\"a\"')", &["no such corpus", "nothing"]),
        ("search('c', '\"a')", &["query of search(): 1:1: "]),
        (
            "search('c', 'a', mode => 'some')",
            &["mode of search(): no such mode `some`; hint: modes are any, all, lenient"],
        ),
        (
            "search('c', 'a', k1 => -1)",
            &["k1 and b of search(): `k1` is -1; hint: "],
        ),
        ("search('c', 'a', b => 'x')", &["b of search()", "a number"]),
        (
            "search('c', 'title:a')",
            &["no such column `title`; hint: files have the column `file`"],
        ),
        (
            "concordance('c', '\"a\"', sort => 'X1')",
            &["sort of concordance(): no such key `X1`; hint: "],
        ),
        (
            "concordance('c', '\"a\"', sort => 'R0')",
            &["sort of concordance(): the number of a word is 0; hint: "],
        ),
        (
            "concordance('c', '\"a\"', unit => 'page')",
            &[
                "unit of concordance(): no such unit of context `page`; hint: units are words, bytes",
            ],
        ),
        (
            "concordance('c', '\"a\"', sample => 'few')",
            &["sample of concordance(): `few` is no size of a sample; hint: "],
        ),
        (
            "concordance('c', '\"a\"', sample => -1)",
            &["sample of concordance(): `-1` is no size of a sample; hint: "],
        ),
        (
            "concordance('c', '\"a\"', sample => '101%')",
            &["sample of concordance(): `101%` is no size of a sample; hint: "],
        ),
        (
            "concordance('c', '\"a\"', left => -1)",
            &["left", "at least 0"],
        ),
        (
            "concordance('c', '\"a\"', left => 'x')",
            &["left of concordance()", "INTEGER"],
        ),
        (
            "concordance('c', '\"a\"', lefts => 1)",
            &["no such argument", "lefts"],
        ),
        (
            "frequencies('c', '\"a\"', by => 'B')",
            &["by of frequencies(): no such key `B`; hint: "],
        ),
        (
            "frequencies('c', '\"a\"', by => 'file:i')",
            &["by of frequencies(): `file:i` is no key; hint: "],
        ),
        (
            "collocations('c', '\"a\"', window => '0')",
            &["window of collocations(): `0` is no window; hint: "],
        ),
        (
            "collocations('c', '\"a\"', measures => 'mii')",
            &[
                "measures of collocations(): no such",
                "`mii`",
                "did you mean `mi`?",
            ],
        ),
        (
            "collocations('c', '\"a\"', measures => 'g2,ll')",
            &[
                "measures of collocations(): ",
                "`g2` stands twice; hint: leave one of them out",
            ],
        ),
        (
            "collocations('c', '\"a\"', measures => 'mi', measures => 't')",
            &["argument", "measures", "given twice"],
        ),
        (
            "collocations('c', '\"a\"', min => 0)",
            &["min", "at least 1"],
        ),
        ("keywords('c', 'nothing')", &["no such corpus", "nothing"]),
        (
            "keywords('c', measures => 'mi')",
            &["measures of keywords(): no such", "`mi`"],
        ),
        (
            "keywords('c')",
            &[
                "reference of keywords(): nothing to compare with; hint: name another corpus, or some files by `files => 'pattern'` or by \
                 conditions on metadata",
            ],
        ),
        (
            "dispersion('c', '\"a\"', by => 'page')",
            &[
                "by of dispersion(): no such part `page`; hint: write `by => 'file'`, the name of a column of metadata, or `slices => 100`",
            ],
        ),
        (
            "dispersion('c', by => 'kind')",
            &["words are measured over files or slices; hint: write `by => 'file'`"],
        ),
        (
            "frequencies('c') WHERE kind = 'x' OR count > 1",
            &["column \"kind\": a row is of many files", "hint: "],
        ),
        (
            "(SELECT kind FROM collocations('c', '\"a\"'))",
            &["column \"kind\": a row is of many files", "hint: "],
        ),
        (
            "distribution('c', '\"a\"', by => 'file', slices => 3)",
            &["by of distribution(): parts are files or slices; hint: leave out `by` or `slices`"],
        ),
        (
            "distribution('c', '\"a\"', slices => 0)",
            &["slices", "at least 1"],
        ),
        (
            "vocabulary_growth('c', steps => 'x')",
            &["steps of vocabulary_growth()", "INTEGER"],
        ),
    ] {
        let sql = format!("SELECT * FROM {call}");
        let answer = database
            .query(&sql, ())
            .and_then(|rows| rows.collect::<Result<Vec<_>, _>>());
        let message = match answer {
            Ok(_) => "no error".to_owned(),
            Err(error) => error.to_string(),
        };
        if !parts.iter().all(|part| message.contains(part)) {
            writeln!(failed, "{call}\n    {message}\n    {parts:?}").unwrap();
        }
    }
    assert!(failed.is_empty(), "\n{failed}");
}

/// The invariant is as in `interrupts`: work that is longer than the time it has ends with the error, however fast the machine is.
#[test]
fn statistics_of_one_large_file_end_in_time() {
    let database = Database::in_memory().unwrap();
    database.execute_batch("CREATE CORPUS c").unwrap();
    insert(&database, "c", "x", &"a b c d ".repeat(1 << 17));
    database
        .execute_batch("SET statement_timeout = '300ms'")
        .unwrap();
    let sql = "SELECT * FROM collocations('c', '[]', window => '10000')";
    let answer = database
        .query(sql, ())
        .and_then(|rows| rows.collect::<Result<Vec<_>, _>>());
    assert!(
        matches!(answer, Err(zipfdb::Error::Timeout { .. })),
        "{answer:?}"
    );
}

#[test]
fn plans_name_the_way_to_spans() {
    let database = Database::in_memory().unwrap();
    database.execute_batch("CREATE CORPUS c").unwrap();
    insert(
        &database,
        "c",
        "x",
        &format!("{} rare.\n{}", "a b c ".repeat(200), "b a c ".repeat(200)),
    );
    for (query, way) in [
        ("\"a\" \"b\"", "path: grammar"),
        (
            "\"c\" \"rare\" []",
            "path: around 1 occurrences of \"rare\"",
        ),
        ("\"a\" \"b\" within line", "path: grammar"),
        ("\"a\" \"b\" within s", "path: words"),
    ] {
        let plan = rows(
            &database,
            &format!("EXPLAIN SELECT * FROM hits('c', '{query}')"),
        );
        assert!(
            format!("{plan:?}").replace('\\', "").contains(way),
            "{query}: {plan:?}"
        );
    }
}
