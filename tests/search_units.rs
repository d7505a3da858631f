//! Search by unit, excerpts, stems and notices: answers equal those on the plain text.
//!
//! A unit is a document of its own for the oracle of ranks. Excerpts are made anew from the text by their definition in docs/SQL.md.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;
use zipfdb::{Database, Value, params};
use zipfdb_search::algebra::{SpanQuery, Strategy as SpanStrategy};
use zipfdb_search::matcher::MatcherLimits;
use zipfdb_search::naive::{SpanMatcher, TextWindow};
use zipfdb_search::simple::{self, FileQuery, QueryOptions};

use crate::search::{corpus, has_empty_line, has_line_end, text};
use crate::search_statistics::{
    SEARCHES, UnicodeWords, Words, apply, edit, evaluate, near, rows, runner,
};

const UNITS: [&str; 5] = [
    "unit => 'line'",
    "unit => 'paragraph'",
    "unit => 'sentence'",
    "unit => 'window', size => 4",
    "unit => 'file'",
];

/// The offsets and words of a text.
fn placed(text: &str) -> Vec<(usize, &str)> {
    text.unicode_word_indices().collect()
}

/// The ranges of words that are units of a text.
fn units(text: &str, unit: &str) -> Vec<Range<usize>> {
    let words = placed(text);
    if unit.contains("file") {
        return std::iter::once(0..words.len()).collect();
    }
    let mut sentences = Vec::new();
    let mut at = 0;
    for sentence in text.split_sentence_bounds() {
        at += sentence.len();
        sentences.push(at);
    }
    let is_bound = |place: usize| {
        let (before, word) = words[place - 1];
        let gap = before + word.len()..words[place].0;
        match unit {
            "unit => 'line'" => has_line_end(text[gap].as_bytes()),
            "unit => 'paragraph'" => has_empty_line(text[gap].as_bytes()),
            "unit => 'sentence'" => (sentences.iter()).any(|at| gap.start <= *at && *at <= gap.end),
            _ => place.is_multiple_of(4),
        }
    };
    let mut bounds: Vec<usize> = (1..words.len()).filter(|place| is_bound(*place)).collect();
    if !words.is_empty() {
        bounds.insert(0, 0);
        bounds.push(words.len());
    }
    bounds.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

/// The name of a unit, by which the oracle orders it.
fn name(file: &str, position: usize) -> String {
    format!("{file}@{position:06}")
}

/// The shortest hits of a term in some words.
fn hits(query: &FileQuery, words: &[&str]) -> Vec<Range<usize>> {
    let query = SpanQuery {
        span: query.span().unwrap(),
        constraint: None,
        strategy: SpanStrategy::Shortest,
        show: None,
    };
    let matcher = SpanMatcher::new(&query, MatcherLimits::default()).unwrap();
    let window = TextWindow {
        words: words.iter().map(|word| word.as_bytes()).collect(),
        gaps: vec![&b" "[..]; words.len() + 1],
        position: 0,
        offset: 0,
        frequency: &|_| 0,
        units: HashMap::new(),
    };
    let found = matcher.on(&window, u64::MAX).hits().unwrap();
    found.into_iter().map(|hit| hit.range).collect()
}

/// The terms of a query that do not exclude files.
fn terms<'q>(query: &'q FileQuery, found: &mut Vec<&'q FileQuery>) {
    match query {
        FileQuery::Word(_) | FileQuery::Phrase { .. } | FileQuery::Near { .. } => found.push(query),
        FileQuery::And(queries) | FileQuery::Or { queries, .. } => {
            queries.iter().for_each(|query| terms(query, found));
        }
        FileQuery::Boost { query, .. } => terms(query, found),
        _ => {}
    }
}

/// The words, or phrases, of a term that are marked.
fn marked(term: &FileQuery) -> Vec<FileQuery> {
    match term {
        FileQuery::Phrase { words, slop } if *slop > 0 => {
            words.iter().cloned().map(FileQuery::Word).collect()
        }
        FileQuery::Near { phrases, .. } => {
            let phrases = phrases.iter().map(|words| match &words[..] {
                [word] => FileQuery::Word(word.clone()),
                _ => FileQuery::Phrase {
                    words: words.clone(),
                    slop: 0,
                },
            });
            phrases.collect()
        }
        _ => vec![term.clone()],
    }
}

/// The excerpt of a document: some words of a text. `most`: the words of a snippet.
fn excerpt(
    text: &str,
    document: &Range<usize>,
    query: &FileQuery,
    most: Option<usize>,
    is_file: bool,
) -> String {
    let placed = placed(text);
    let words: Vec<&str> = placed[document.clone()]
        .iter()
        .map(|(_, word)| *word)
        .collect();
    let mut found = Vec::new();
    terms(query, &mut found);
    let of_terms: Vec<Vec<Range<usize>>> = found.iter().map(|term| hits(term, &words)).collect();
    let mut is_marked = vec![0; words.len()];
    let mut marks: Vec<Range<usize>> = Vec::new();
    for (term, of_term) in found.iter().zip(&of_terms) {
        for part in marked(term) {
            for mark in hits(&part, &words) {
                let is_in = |hit: &Range<usize>| hit.start <= mark.start && mark.end <= hit.end;
                if of_term.iter().any(is_in) {
                    mark.clone().for_each(|word| is_marked[word] = 1);
                    marks.push(mark);
                }
            }
        }
    }
    let mut shown = 0..words.len();
    if let Some(most) = most {
        // (terms, hits, how early), and what the stretch has.
        let mut best: Option<((usize, usize, i64), Range<usize>)> = None;
        for start in 0..words.len() {
            let end = start + most;
            let firsts = of_terms.iter().flatten().filter(|hit| hit.start == start);
            for first in firsts {
                let is_in = |hit: &&Range<usize>| {
                    hit.start >= start
                        && (hit.end <= end || *hit == first)
                        && (hit.start > start || hit.end >= first.end)
                };
                let inside = of_terms
                    .iter()
                    .map(|hits| hits.iter().filter(is_in).count());
                let inside: Vec<usize> = inside.collect();
                let last = of_terms
                    .iter()
                    .flatten()
                    .filter(is_in)
                    .map(|hit| hit.end.min(end));
                let rank = (
                    inside.iter().filter(|count| **count > 0).count(),
                    inside.iter().sum(),
                    -(start as i64),
                );
                if best.as_ref().is_none_or(|(known, _)| rank > *known) {
                    best = Some((rank, start..last.max().unwrap()));
                }
            }
        }
        let chosen = best.map_or(0..0, |(_, chosen)| chosen);
        let start = chosen.start.saturating_sub((most - chosen.len()) / 2);
        let start = start.min(words.len().saturating_sub(most));
        shown = start..(start + most).min(words.len());
    }
    let place = |word: usize| placed[document.start + word];
    let end_of = |word: usize| place(word).0 + place(word).1.len();
    let is_file = most.is_none() && is_file;
    let mut made = String::new();
    if shown.start > 0 {
        made.push('~');
    }
    let mut at = if is_file || shown.is_empty() {
        0
    } else {
        place(shown.start).0
    };
    let begins = |word: usize| {
        let first = shown.start.max(word);
        is_marked[word] == 1
            && (word == shown.start
                || is_marked[word - 1] == 0
                // Marks beside each other are two, those that overlap one.
                || marks.iter().all(|mark| !(mark.start < first && first < mark.end)))
    };
    for word in shown.clone() {
        if begins(word) {
            made.push_str(&text[at..place(word).0]);
            at = place(word).0;
            made.push('[');
        }
        if is_marked[word] == 1
            && (word + 1 == shown.end || is_marked[word + 1] == 0 || begins(word + 1))
        {
            made.push_str(&text[at..end_of(word)]);
            at = end_of(word);
            made.push(']');
        }
    }
    let end = if is_file {
        text.len()
    } else if shown.is_empty() {
        0
    } else {
        end_of(shown.end - 1)
    };
    made.push_str(&text[at..end]);
    if shown.end < words.len() {
        made.push('~');
    }
    made
}

fn compare(database: &Database, plain: &BTreeMap<String, String>) {
    for unit in UNITS {
        let mut places: BTreeMap<String, (String, Range<usize>)> = BTreeMap::new();
        for (file, text) in plain {
            for range in units(text, unit) {
                places.insert(name(file, range.start), (file.clone(), range));
            }
        }
        let words: BTreeMap<&str, Vec<&str>> = places
            .iter()
            .map(|(name, (file, range))| {
                let placed = placed(&plain[file]);
                let words = placed[range.clone()].iter().map(|(_, word)| *word);
                (name.as_str(), words.collect())
            })
            .collect();
        let words: Words<'_> = words;
        for text in SEARCHES {
            let query = simple::parse(text, &QueryOptions::default(), &UnicodeWords).unwrap();
            let wanted = evaluate(&query, &words, 1.0);
            let columns = "file, position, words, offset, length, score, hits, snippet('[', ']', '~', 5), highlight('[', ']')";
            let sql = format!("SELECT {columns} FROM search('c', '{text}', {unit})");
            let found = rows(database, &sql);
            let about = format!("{sql} in {plain:?}");
            let matches = wanted.values().filter(|found| found.0).count();
            assert_eq!(found.len(), matches, "{about}");
            let mut last: Option<(f64, String)> = None;
            for row in &found {
                let [
                    Value::Text(file),
                    Value::Integer(position),
                    Value::Integer(length),
                    Value::Integer(offset),
                    Value::Integer(bytes),
                    Value::Real(score),
                    Value::Integer(hits),
                    snippet,
                    highlight,
                ] = &row[..]
                else {
                    panic!("{row:?}");
                };
                let name = name(file, *position as usize);
                let (_, range) = &places[&name];
                let placed = placed(&plain[file]);
                let extent = match (unit, placed.get(range.clone())) {
                    ("unit => 'file'", _) => 0..plain[file].len(),
                    (_, Some([first, .., last])) => first.0..last.0 + last.1.len(),
                    (_, Some([only])) => only.0..only.0 + only.1.len(),
                    _ => panic!("{about}"),
                };
                assert_eq!(*length as usize, range.len(), "{about}");
                assert_eq!(
                    *offset as usize..(offset + bytes) as usize,
                    extent,
                    "{about}"
                );
                let (is_match, wanted_score, wanted_hits) = wanted[&name];
                assert!(
                    is_match && *hits as u64 == wanted_hits,
                    "{row:?} of {about}"
                );
                assert!(
                    near(Some(*score), Some(wanted_score)),
                    "{row:?}, not {wanted_score}: {about}"
                );
                if let Some((last, other)) = last {
                    assert!(
                        last > *score || last == *score && other < name,
                        "{row:?} of {about}"
                    );
                }
                last = Some((*score, name));
                let snippet_wanted =
                    excerpt(&plain[file], range, &query, Some(5), unit.contains("file"));
                assert_eq!(*snippet, Value::Text(snippet_wanted), "{row:?} of {about}");
                let highlight_wanted =
                    excerpt(&plain[file], range, &query, None, unit.contains("file"));
                assert_eq!(
                    *highlight,
                    Value::Text(highlight_wanted),
                    "{row:?} of {about}"
                );
            }
            for (limit, offset) in [(1, 0), (2, 1)] {
                let page = rows(database, &format!("{sql} LIMIT {limit} OFFSET {offset}"));
                let wanted = found.iter().skip(offset).take(limit);
                assert_eq!(page, wanted.cloned().collect::<Vec<_>>(), "{about}");
                let order = "ORDER BY score DESC, file, position";
                let page = rows(
                    database,
                    &format!("{sql} {order} LIMIT {limit} OFFSET {offset}"),
                );
                let wanted = found.iter().skip(offset).take(limit);
                assert_eq!(page, wanted.cloned().collect::<Vec<_>>(), "{about}");
            }
        }
    }
}

#[test]
fn units_and_excerpts_are_those_of_the_plain_text() {
    let input = (
        prop::collection::vec(text(), 1..4),
        prop::collection::vec(edit(), 1..4),
    );
    runner(4)
        .run(&input, |(texts, edits)| {
            let (_folder, database, mut plain) = corpus(&texts);
            compare(&database, &plain);
            for edit in &edits {
                apply(&database, &mut plain, edit);
            }
            compare(&database, &plain);
            Ok(())
        })
        .unwrap();
}

fn of_files(files: &[(&str, &[u8])]) -> Database {
    let database = Database::in_memory().unwrap();
    database.execute_batch("CREATE CORPUS c").unwrap();
    for (file, content) in files {
        let sql = "INSERT INTO c (file, content) VALUES (?, ?)";
        database
            .execute(sql, params![*file, content.to_vec()])
            .unwrap();
    }
    database
}

#[test]
fn excerpts_keep_bytes_and_whole_characters() {
    let database = of_files(&[
        (
            "a",
            "\u{201e}Die Stra\u{df}e \u{fc}ber K\u{f6}ln\u{201c} hei\u{df}t \u{dc}berweg."
                .as_bytes(),
        ),
        ("b", b"caf\xe9 stra\xc3\x9fe \xff end"),
    ]);
    let one = |expression: &str, file: &str| {
        let sql = format!(
            "SELECT {expression} FROM search('c', '\u{fc}ber* stra\u{df}e') WHERE file = '{file}'"
        );
        rows(&database, &sql).remove(0).remove(0)
    };
    let marked = "\u{201e}Die <b>Stra\u{df}e</b> <b>\u{fc}ber</b> K\u{f6}ln\u{201c} hei\u{df}t <b>\u{dc}berweg</b>.";
    assert_eq!(one("highlight()", "a"), Value::Text(marked.into()));
    let cut = "...\u{ab}Stra\u{df}e\u{bb} \u{ab}\u{fc}ber\u{bb}...";
    assert_eq!(
        one("snippet('\u{ab}', '\u{bb}', '...', 2)", "a"),
        Value::Text(cut.into())
    );
    let bytes = b"caf\xe9 <b>stra\xc3\x9fe</b> \xff end".to_vec();
    assert_eq!(one("highlight()", "b"), Value::Blob(bytes));
}

#[test]
fn excerpts_are_made_for_rows_of_groups_and_conditions_too() {
    let database = of_files(&[("x", b"one two"), ("y", b"two three four"), ("z", b"four")]);
    let found = |sql: &str| rows(&database, sql);
    let text = |text: &str| Value::Text(text.into());
    assert_eq!(
        found(
            "SELECT file, highlight('*', '*') AS h FROM search('c', 'two') WHERE h LIKE '%three%'"
        ),
        [vec![text("y"), text("*two* three four")]]
    );
    assert_eq!(
        found(
            "SELECT highlight('', ''), COUNT(*) FROM search('c', 'one four', unit => 'window', size => 1) GROUP BY 1 ORDER BY 1"
        ),
        [
            vec![text("four"), Value::Integer(2)],
            vec![text("one"), Value::Integer(1)]
        ]
    );
    assert_eq!(
        found(
            "SELECT snippet(?, ?, ?, ?) FROM search('c', 'three')"
                .replace("?, ?, ?, ?", "'(', ')', '', 1")
                .as_str()
        ),
        [vec![text("(three)")]]
    );
    assert_eq!(
        found("SELECT snippet() FROM search('c', 'file:z')"),
        [vec![text("four")]]
    );
    assert_eq!(
        found("SELECT upper(snippet('', '')) FROM search('c', 'one') ORDER BY file"),
        [vec![text("ONE TWO")]]
    );
}

#[test]
fn stems_match_inflected_words() {
    let database = of_files(&[
        ("a", b"The connection connects connected connecting wires"),
        ("b", b"Connect the flies"),
        ("c", b"A fly, connective"),
    ]);
    let files = |call: &str| {
        let sql = format!("SELECT file, hits FROM search('c', {call}) ORDER BY file");
        let rows = rows(&database, &sql).into_iter();
        let rows = rows.map(|row| format!("{}{}", row[0], row[1]));
        rows.collect::<Vec<String>>().concat().replace('\'', "")
    };
    assert_eq!(files("'connections'"), "");
    assert_eq!(files("'connections', stemmer => 'english'"), "a4b1c1");
    assert_eq!(files("'FLYING fly', stemmer => 'english'"), "b2c2");
    assert_eq!(files("'\"connections wire\"', stemmer => 'english'"), "a1");
    assert_eq!(files("'connecti*', stemmer => 'english'"), "a2c1");
    assert_eq!(files("'/connection/', stemmer => 'english'"), "a1");
    assert_eq!(files("'connections', stemmer => 'none'"), "");
}

#[test]
fn the_lenient_mode_says_what_it_ignores() {
    let database = of_files(&[("x", b"one two")]);
    let notices = |sql: &str| {
        let rows = database.query(sql, ()).unwrap();
        let notices = rows.notices().iter().map(ToString::to_string);
        notices.collect::<Vec<String>>()
    };
    assert_eq!(
        notices("SELECT file FROM search('c', '\"one', mode => 'lenient')"),
        [
            "the query is read leniently: 1:1: expected `\"` at the end of the phrase, found the end of the query"
        ]
    );
    assert_eq!(
        notices(
            "SELECT COUNT(*) FROM (SELECT file FROM search('c', 'one AND', mode => 'lenient'))"
        )
        .len(),
        1
    );
    assert!(notices("SELECT file FROM search('c', 'one', mode => 'lenient')").is_empty());
    assert!(notices("EXPLAIN SELECT file FROM search('c', '&', mode => 'lenient')").len() == 1);
}

#[test]
fn errors_of_units_and_excerpts_name_the_remedy() {
    let database = of_files(&[("x", b"one two")]);
    for (sql, parts) in [
        (
            "SELECT * FROM search('c', 'a', unit => 'page')",
            "no such unit `page`; hint: units are file, line, paragraph, sentence, window",
        ),
        (
            "SELECT * FROM search('c', 'a', unit => 'window')",
            "size of search(): a window has none; hint: unit => 'window', size => 50",
        ),
        (
            "SELECT * FROM search('c', 'a', size => 3)",
            "size of search(): only windows have a size; hint: ",
        ),
        (
            "SELECT * FROM search('c', 'a', stemmer => 'klingon')",
            "stemmer of search(): no such stemmer `klingon`; hint: stemmers are none, english",
        ),
        (
            "SELECT snippet() FROM hits('c', '\"a\"')",
            "snippet() shows rows of search(), and FROM has none; hint: ",
        ),
        (
            "SELECT highlight() FROM (SELECT file FROM search('c', 'a'))",
            "highlight() shows rows of search(), and FROM has none; hint: ",
        ),
        (
            "SELECT snippet('<b>', '</b>', '...', 0) FROM search('c', 'a')",
            "argument 4 of snippet() is not an integer from 1 to 1000, as a literal or parameter; hint: ",
        ),
        (
            "SELECT snippet(file) FROM search('c', 'a')",
            "argument 1 of snippet() is not a text, as a literal or parameter; hint: ",
        ),
        (
            "SELECT highlight('a', 'b', 'c') FROM search('c', 'a')",
            "perhaps a text before and after each match",
        ),
        (
            "SELECT snippet(), COUNT(*) FROM search('c', 'a')",
            "GROUP BY",
        ),
    ] {
        let error = database.query(sql, ()).map(|rows| rows.count());
        let error = error.unwrap_err().to_string();
        assert!(error.contains(parts), "{sql}: {error}");
    }
}
