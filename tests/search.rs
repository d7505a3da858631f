//! Table functions of search: spans, statistics and ranking equal those on the plain text.
//!
//! Random texts go in through COPY and edits, queries in CQL through SQL; the oracle is `zipfdb_search::naive` on the words of the
//! reference crate, with boundaries of units that are found here by other means.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use unicode_segmentation::UnicodeSegmentation;
use zipfdb::{Database, params};
use zipfdb_search::algebra::Unit;
use zipfdb_search::cql;
use zipfdb_search::naive::{SpanMatcher, TextWindow, UnitPlaces};

/// Tests of words in queries; few words, so that they match.
const TOKENS: [&str; 14] = [
    "\"a\"",
    "\"b\"",
    "\"c\"%c",
    "[lc=\"d\"]",
    "[]",
    "\"[ab]\"",
    "[word!=\"a\"]",
    "\"zz\"",
    "\"c+\"%c",
    "[word=\"a\" | word=\"d\"]",
    "[f(word) > 3]",
    "[before=\".*\\\\n.*\"]",
    "[position < 5]",
    "w\"b*\"",
];

/// A gap of several tokens with an empty line across them.
const LONG_GAP: &str =
    "..............................................................\r\n                \n- - -";

fn span() -> impl Strategy<Value = String> {
    let token = prop::sample::select(TOKENS.to_vec()).prop_map(str::to_owned);
    token.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            4 => prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| parts.join(" ")),
            2 => (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("({left} | {right})")),
            2 => (inner.clone(), 0..3u32, 0..3u32)
                .prop_map(|(inner, from, more)| format!("({inner}){{{from},{}}}", from + more)),
            1 => inner.clone().prop_map(|inner| format!("({inner})+")),
            1 => (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("(near {left} {right} 2)")),
            1 => (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("(meet ({left}) ({right}) -2 2)")),
            1 => inner.clone().prop_map(|inner| format!("(?= {inner}) []")),
        ]
    })
}

fn query() -> impl Strategy<Value = String> {
    let modifier = prop::sample::select(vec!["", "(?longest) ", "(?all) ", "(?shortest) "]);
    let before = prop::sample::select(vec![
        "", "", "", "", "<line> ", "<s> ", "<p> ", "<file> ", "</line> ",
    ]);
    let behind = prop::sample::select(vec![
        "", "", "", "", " </line>", " </s>", " </p>", " </file>", " <line>",
    ]);
    let within = prop::sample::select(vec![
        "",
        "",
        " within line",
        " within p",
        " within s",
        " within file",
        " within 3",
        " within <window 4/>",
        " containing \"b\"",
    ]);
    (modifier, before, span(), behind, within).prop_map(
        |(modifier, before, span, behind, within)| {
            format!("{modifier}{before}{span}{behind}{within}")
        },
    )
}

/// A query of words that few others surround.
fn anchored_query() -> impl Strategy<Value = String> {
    let modifier = prop::sample::select(vec!["", "(?longest) ", "(?all) "]);
    let word = || prop::sample::select(vec!["\"a\"", "\"b\"", "\"c\"%c", "\"[ab]\""]);
    let between = prop::sample::select(vec!["", "[]{0,3}", "[]?", "[gap=\" \"]"]);
    let within = prop::sample::select(vec!["line", "p", "s", "3", "<window 4/>", "file"]);
    (modifier, word(), between, word(), within).prop_map(
        |(modifier, first, between, last, within)| {
            format!("{modifier}{first} {between} {last} within {within}")
        },
    )
}

pub(crate) fn text() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec!["a", "b", "c", "C", "d", "D", "bb", "a"]);
    let gap = prop::sample::select(vec![
        " ",
        " ",
        " ",
        "  ",
        "\n",
        ", ",
        "\n\n",
        ". ",
        "\r\n",
        "\r",
        "\n \t\r\n",
        "?\n",
        LONG_GAP,
    ]);
    prop::collection::vec((word, gap), 0..60).prop_map(|parts| {
        parts
            .into_iter()
            .map(|(word, gap)| format!("{word}{gap}"))
            .collect()
    })
}

/// The lines of a gap, of which the first and the last go on in the words beside it.
fn lines(gap: &[u8]) -> Vec<String> {
    let gap = String::from_utf8_lossy(gap);
    let gap = gap.replace("\r\n", "\n").replace('\r', "\n");
    gap.split('\n').map(str::to_owned).collect()
}

/// Whether a line ends in a gap.
pub(crate) fn has_line_end(gap: &[u8]) -> bool {
    lines(gap).len() > 1
}

/// Whether a paragraph ends in a gap.
pub(crate) fn has_empty_line(gap: &[u8]) -> bool {
    let lines = lines(gap);
    let is_empty = |line: &String| line.trim_matches([' ', '\t']).is_empty();
    let inner = lines.get(1..lines.len() - 1).unwrap_or_default();
    inner.iter().any(is_empty) || lines.concat().contains('\u{2029}')
}

/// The hits of a query in a text: position and number of words.
fn expected(matcher: &SpanMatcher, text: &str, totals: &HashMap<Vec<u8>, u64>) -> Vec<(u64, u64)> {
    let words: Vec<(usize, &str)> = text.unicode_word_indices().collect();
    let mut gaps = Vec::new();
    let mut at = 0;
    for (start, word) in &words {
        gaps.push(&text.as_bytes()[at..*start]);
        at = start + word.len();
    }
    gaps.push(&text.as_bytes()[at..]);
    let frequency = |word: &[u8]| totals.get(word).copied().unwrap_or(0);
    let mut units = HashMap::new();
    let sentences = text.split_sentence_bound_indices();
    let sentences: Vec<usize> = sentences.map(|(start, _)| start).collect();
    let has_sentence = |place: usize| {
        let (before, word) = words[place - 1];
        let gap = before + word.len()..=words[place].0;
        sentences.iter().any(|start| gap.contains(start))
    };
    let last = words.len();
    let places = |is_inner: &dyn Fn(usize) -> bool| {
        let inner = (1..last).filter(|place| is_inner(*place));
        let inner: Vec<usize> = inner.collect();
        let mut places = UnitPlaces::default();
        if last > 0 {
            places.starts = [0].into_iter().chain(inner.iter().copied()).collect();
            places.ends = inner.into_iter().chain([last]).collect();
        }
        places
    };
    units.insert(Unit::Line, places(&|place| has_line_end(gaps[place])));
    units.insert(
        Unit::Paragraph,
        places(&|place| has_empty_line(gaps[place])),
    );
    units.insert(Unit::Sentence, places(&has_sentence));
    units.insert(Unit::File, places(&|_| false));
    units.insert(Unit::Window(4), places(&|place| place % 4 == 0));
    let window = TextWindow {
        words: words.iter().map(|(_, word)| word.as_bytes()).collect(),
        gaps: gaps.clone(),
        position: 0,
        offset: 0,
        frequency: &frequency,
        units,
    };
    let hits = matcher.on(&window, u64::MAX).hits().unwrap();
    let hits = hits
        .iter()
        .map(|hit| (hit.range.start as u64, hit.range.len() as u64));
    hits.collect()
}

/// The hits of SQL by file.
fn found(database: &Database, query: &str) -> zipfdb::Result<BTreeMap<String, Vec<(u64, u64)>>> {
    let sql = "SELECT file, position, words FROM hits('c', ?)";
    let mut found: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for row in database.query(sql, params![query])? {
        let row = row?;
        let hit = (row.get::<u64>("position")?, row.get::<u64>("words")?);
        found.entry(row.get("file")?).or_default().push(hit);
    }
    Ok(found)
}

/// A corpus of some texts in several segments, and the texts by name.
pub(crate) fn corpus(texts: &[String]) -> (tempfile::TempDir, Database, BTreeMap<String, String>) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::in_memory().unwrap();
    database.execute_batch("CREATE CORPUS c").unwrap();
    let mut plain = BTreeMap::new();
    for (number, text) in texts.iter().enumerate() {
        let name = format!("{number}.txt");
        fs::write(folder.path().join(&name), text).unwrap();
        let path = folder.path().join(&name);
        let path = path.to_str().unwrap();
        let sql = format!("COPY c FROM '{path}'");
        database.execute(&sql, ()).unwrap();
        plain.insert(name, text.clone());
    }
    (folder, database, plain)
}

fn compare(database: &Database, plain: &BTreeMap<String, String>, query: &str) {
    let parsed = cql::parse(query).unwrap();
    let matcher = SpanMatcher::new(&parsed, Default::default()).unwrap();
    let mut totals: HashMap<Vec<u8>, u64> = HashMap::new();
    for text in plain.values() {
        for word in text.unicode_words() {
            *totals.entry(word.as_bytes().to_vec()).or_default() += 1;
        }
    }
    let wanted = plain
        .iter()
        .map(|(name, text)| (name.clone(), expected(&matcher, text, &totals)));
    let wanted: BTreeMap<_, _> = wanted.filter(|(_, hits)| !hits.is_empty()).collect();
    let found = found(database, query).unwrap_or_else(|error| panic!("{query}: {error}"));
    assert_eq!(found, wanted, "{query} in {plain:?}");
    let count: u64 = wanted.values().map(|hits| hits.len() as u64).sum();
    let counted: i64 = database
        .query_row("SELECT COUNT(*) FROM hits('c', ?)", params![query], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(counted as u64, count, "{query}");
}

fn runner(cases: u32) -> TestRunner {
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

/// Texts, and edits of them: a file, an offset, and what is inserted there.
type Texts = (Vec<String>, Vec<(usize, usize, String)>);

fn texts() -> impl Strategy<Value = Texts> {
    (
        prop::collection::vec(text(), 1..4),
        prop::collection::vec((0..4usize, 0..80usize, text()), 0..3),
    )
}

/// Compares queries before and after each edit.
fn compare_all(
    database: &Database,
    plain: &mut BTreeMap<String, String>,
    queries: &[String],
    edits: &[(usize, usize, String)],
) {
    let files = plain.len();
    for query in queries {
        compare(database, plain, query);
    }
    for (file, at, inserted) in edits {
        let name = format!("{}.txt", file % files);
        let text = plain.get_mut(&name).unwrap();
        let at = (0..=*at)
            .rev()
            .find(|&at| text.is_char_boundary(at))
            .unwrap();
        text.insert_str(at, inserted);
        database
            .execute(
                "INSERT INTO c (file, offset, content) VALUES (?, ?, ?)",
                params![name.as_str(), at as i64, inserted.as_str()],
            )
            .unwrap();
        for query in queries {
            compare(database, plain, query);
        }
    }
}

fn explained(database: &Database, query: &str) -> String {
    let sql = "EXPLAIN SELECT file FROM hits('c', ?)";
    let rows = database.query(sql, params![query]).unwrap();
    let lines = rows.map(|row| row.unwrap().get::<String>(0).unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn spans_are_those_of_the_definition() {
    let input = (texts(), prop::collection::vec(query(), 12));
    let run = |((texts, edits), queries): (Texts, Vec<String>)| {
        let (_folder, database, mut plain) = corpus(&texts);
        compare_all(&database, &mut plain, &queries, &edits);
        Ok(())
    };
    runner(32).run(&input, run).unwrap();
}

#[test]
fn spans_around_rare_words_are_those_of_the_definition() {
    // Words that no query asks for make the others rare.
    let many = "e e\n".repeat(4000);
    let input = (texts(), prop::collection::vec(anchored_query(), 4));
    let run = |((mut texts, edits), queries): (Texts, Vec<String>)| {
        texts.push(many.clone());
        let (_folder, database, mut plain) = corpus(&texts);
        for query in &queries {
            let plan = explained(&database, query);
            assert!(plan.contains("path: around"), "{query}: {plan}");
        }
        compare_all(&database, &mut plain, &queries, &edits);
        Ok(())
    };
    runner(4).run(&input, run).unwrap();
}

#[test]
fn lines_and_paragraphs_are_read_on_the_grammar_and_others_in_words() {
    let texts = ["a b\nc\n\nd a b. C d a".to_owned()];
    let (_folder, database, plain) = corpus(&texts);
    for (query, path) in [
        ("\"a\" []* \"b\"", "grammar"),
        ("\"a\" []* \"b\" within line", "grammar"),
        ("<p> [] []* \"a\"", "grammar"),
        ("\"a\" []* \"b\" within file", "grammar"),
        ("\"a\" []* \"b\" within s", "words"),
        ("\"a\" []* \"b\" within <window 4/>", "words"),
    ] {
        let plan = explained(&database, query);
        assert!(plan.contains(&format!("path: {path}")), "{query}: {plan}");
        compare(&database, &plain, query);
    }
}

#[test]
fn hits_of_a_large_file_are_those_of_its_parts() {
    let texts = ["a b c\nd e. a a b\n".repeat(1000)];
    let (_folder, database, mut plain) = corpus(&texts);
    let queries = [
        "\"a\" []{0,3} \"b\"",
        "(?all) \"a\" []{0,3} \"b\"",
        "(?longest) \"a\"+",
        "\"a\" \"b\" within line",
        "\"e\" []{0,2} \"b\" within s",
        "[position > 8100] \"b\" [position < 8300]",
        "\"b\" []{7} \"b\"",
    ];
    let edit = (0, 9000, " b a\n".to_owned());
    compare_all(&database, &mut plain, &queries.map(str::to_owned), &[edit]);
}
