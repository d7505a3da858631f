//! `grep()` and `lines()` give what a search of the plain text gives: random expressions, random texts, edits, files in several
//! segments, packed text.

use std::fs;
use std::ops::Range;

use regex_automata::meta::{Config, Regex};
use regex_automata::util::syntax;
use zipfdb::ingest::CopyOptions;
use zipfdb::{Corpus, CorpusSettings, Database, IngestMode, Value};
use zipfdb_test_model::{Texts, edit_at_random};
use zipfdb_test_support::harness::Random;

/// What tests draw.
trait Draw {
    fn one<'a, T>(&mut self, all: &'a [T]) -> &'a T;
    fn text(&mut self, pieces: usize) -> Vec<u8>;
    fn expression(&mut self, depth: usize) -> String;
}

impl Draw for Random {
    fn one<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    fn text(&mut self, pieces: usize) -> Vec<u8> {
        const PIECES: [&[u8]; 16] = [
            b"the ",
            b"cat ",
            b"sat",
            b" on ",
            b"mat. ",
            b"\n",
            b"\n\n",
            b"\r\n",
            "caf\u{e9} ".as_bytes(),
            b"3.14 ",
            b"don't ",
            b"x",
            b"\xff",
            b"aaaa",
            b"  ",
            "\u{4e2d}\u{6587}".as_bytes(),
        ];
        (0..pieces)
            .flat_map(|_| *self.one(&PIECES))
            .copied()
            .collect()
    }

    /// An expression with what evaluation depends on: literals within and across words, anchors, classes, long matches.
    fn expression(&mut self, depth: usize) -> String {
        const LEAVES: [&str; 22] = [
            "cat",
            "t s",
            "at",
            "the",
            "a",
            "\\n",
            ".",
            "\\w",
            "\\s",
            "\\b",
            "\\B",
            "^",
            "$",
            "[^t]",
            "\u{e9}",
            "(?-u:\\xff)",
            "\\d",
            "(?i:CAT)",
            "\\A",
            "\\z",
            "(?s:.)",
            "",
        ];
        if depth == 0 || self.below(3) == 0 {
            return (*self.one(&LEAVES)).to_owned();
        }
        let mut inner = || self.expression(depth - 1);
        let (first, second) = (inner(), inner());
        match self.below(4) {
            0 => format!("(?:{first}|{second})"),
            1 => format!(
                "(?:{first}){}",
                self.one(&["*", "+", "?", "+?", "{2}", "{1,3}"])
            ),
            _ => first + &second,
        }
    }
}

fn regex(expression: &str, flags: &str) -> Option<Regex> {
    let has = |flag| flags.contains(flag);
    let config = syntax::Config::new()
        .utf8(false)
        .case_insensitive(has('i'))
        .multi_line(has('m'))
        .dot_matches_new_line(has('s'))
        .swap_greed(has('U'));
    let engine = Config::new().utf8_empty(false);
    let mut builder = Regex::builder();
    builder
        .configure(engine)
        .syntax(config)
        .build(expression)
        .ok()
}

fn texts_of(rows: zipfdb::Rows) -> Vec<Vec<Value>> {
    rows.map(|row| {
        (0..5)
            .map(|column| row.as_ref().unwrap()[column].clone())
            .collect()
    })
    .collect()
}

fn integer(number: u64) -> Value {
    Value::Integer(number.try_into().unwrap())
}

fn text_or_blob(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::Text(text.to_owned()),
        Err(_) => Value::Blob(bytes.to_vec()),
    }
}

/// The rows of `grep()`.
fn matches(texts: &Texts, regex: &Regex) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for (name, text) in texts {
        let (mut counted, mut line) = (0, 1);
        for found in regex.find_iter(text) {
            let Range { start, end } = found.range();
            let more = &text[counted..start];
            line += more.iter().filter(|byte| **byte == b'\n').count();
            counted = start;
            rows.push(vec![
                Value::Text(name.clone()),
                integer(start as u64),
                integer((end - start) as u64),
                integer(line as u64),
                text_or_blob(&text[start..end]),
            ]);
        }
    }
    rows
}

/// The rows of `lines()`.
fn lines(texts: &Texts) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for (name, text) in texts {
        let mut offset = 0;
        for (number, line) in (1..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
            let shown = line.strip_suffix(b"\n").unwrap_or(line);
            rows.push(vec![
                Value::Text(name.clone()),
                integer(number),
                integer(offset),
                integer(shown.len() as u64),
                text_or_blob(shown),
            ]);
            offset += line.len() as u64;
        }
    }
    rows
}

fn check(database: &Database, texts: &Texts, expression: &str, flags: &str) {
    let Some(regex) = regex(expression, flags) else {
        return;
    };
    let sql = "SELECT * FROM grep('c', ?, ?) ORDER BY file, offset";
    let arguments = [Value::from(expression), Value::from(flags)];
    let found = texts_of(database.query(sql, &arguments).unwrap());
    let expected = matches(texts, &regex);
    assert!(
        found == expected,
        "{expression:?} {flags:?}: {} and {} rows\n{:?}\n{:?}",
        found.len(),
        expected.len(),
        found
            .iter()
            .zip(&expected)
            .find(|(found, expected)| found != expected),
        expected.last()
    );
    let counted = database
        .query("SELECT COUNT(*) FROM grep('c', ?, ?)", &arguments)
        .unwrap();
    let counted: Vec<Value> = counted.map(|row| row.unwrap()[0].clone()).collect();
    assert_eq!(
        counted,
        [integer(expected.len() as u64)],
        "{expression:?} {flags:?}"
    );
    let sql = "SELECT file, COUNT(*) FROM grep('c', ?, ?) GROUP BY file ORDER BY file";
    let counted = database.query(sql, &arguments).unwrap();
    let counted: Vec<[Value; 2]> = counted
        .map(|row| [0, 1].map(|column| row.as_ref().unwrap()[column].clone()))
        .collect();
    let of_file = |name: &String| {
        let is_of_file = |row: &&Vec<Value>| row[0] == Value::Text(name.clone());
        let count = expected.iter().filter(is_of_file).count() as u64;
        (count > 0).then(|| [Value::Text(name.clone()), integer(count)])
    };
    let by_file: Vec<[Value; 2]> = texts.keys().filter_map(of_file).collect();
    assert_eq!(counted, by_file, "{expression:?} {flags:?}");
    let sql = "SELECT DISTINCT file FROM grep('c', ?, ?) ORDER BY file";
    let files = database.query(sql, &arguments).unwrap();
    let files: Vec<Value> = files.map(|row| row.unwrap()[0].clone()).collect();
    let expected_files: Vec<Value> = by_file.iter().map(|row| row[0].clone()).collect();
    assert_eq!(files, expected_files, "{expression:?} {flags:?}");
    let sql = "SELECT * FROM grep('c', ?, ?) LIMIT 7";
    let first = texts_of(database.query(sql, &arguments).unwrap());
    assert_eq!(
        first,
        expected[..expected.len().min(7)],
        "{expression:?} {flags:?}"
    );
}

/// Conditions on content find the files that a search of the plain text finds.
fn check_conditions(database: &Database, texts: &Texts, numbers: &mut Random) {
    let (mut literal, is_long) = (numbers.text(3), numbers.below(2) == 0);
    if is_long {
        literal = literal.repeat(4);
    }
    // LIKE has wildcards, and a text of SQL is UTF-8.
    let literal = String::from_utf8_lossy(&literal).replace(['\u{fffd}', '%', '_'], "a");
    let lower = literal.to_ascii_lowercase();
    let found = |is_found: &dyn Fn(&[u8]) -> bool| {
        let files = texts.iter().filter(|(_, text)| is_found(text));
        files
            .map(|(name, _)| Value::Text(name.clone()))
            .collect::<Vec<Value>>()
    };
    let contains = |text: &[u8], sought: &str| {
        text.windows(sought.len())
            .any(|window| window == sought.as_bytes())
    };
    let like = found(&|text| contains(&text.to_ascii_lowercase(), &lower));
    let exact = found(&|text| contains(text, &literal));
    let escaped: String = (literal.chars())
        .map(|character| format!("\\x{{{:x}}}", u32::from(character)))
        .collect();
    for (condition, argument, expected) in [
        ("content LIKE ?", format!("%{literal}%"), &like),
        ("content REGEXP ?", escaped, &exact),
        ("instr(content, ?) > 0", literal.clone(), &exact),
        ("1 <= instr(content, ?)", literal.clone(), &exact),
        ("instr(content, ?)", literal.clone(), &exact),
    ] {
        let sql = format!("SELECT file FROM files('c') WHERE {condition} ORDER BY file");
        let rows = database.query(&sql, &[Value::Text(argument)]).unwrap();
        let files: Vec<Value> = rows.map(|row| row.unwrap()[0].clone()).collect();
        assert_eq!(files, *expected, "{condition} {literal:?}");
    }
}

fn check_all(database: &Database, texts: &Texts, numbers: &mut Random, expressions: usize) {
    let found = database.query("SELECT * FROM lines('c')", ()).unwrap();
    let expected = lines(texts);
    assert_eq!(texts_of(found), expected);
    for _ in 0..4 {
        let first = 1 + numbers.below(40) as u64;
        let last = first + numbers.below(5) as u64;
        let sql = "SELECT * FROM lines('c') WHERE line BETWEEN ? AND ?";
        let found = database
            .query(sql, &[integer(first), integer(last)])
            .unwrap();
        let is_within = |row: &&Vec<Value>| (first..=last).any(|line| row[1] == integer(line));
        let expected: Vec<Vec<Value>> = expected.iter().filter(is_within).cloned().collect();
        assert_eq!(texts_of(found), expected, "{first} to {last}");
    }
    check_conditions(database, texts, numbers);
    for _ in 0..expressions {
        let expression = numbers.expression(3);
        let flags = *numbers.one(&["", "", "i", "m", "s", "ims", "U", "mU"]);
        check(database, texts, &expression, flags);
    }
}

fn edit(random: &mut Random, corpus: &Corpus, texts: &mut Texts) {
    let count = 1 + random.below(12);
    let text = random.text(count);
    edit_at_random(random, corpus, texts, 6, text);
}

/// A database with corpus `c`, whose files lie in several segments.
fn database(
    numbers: &mut Random,
    texts: &mut Texts,
    options: &CopyOptions,
) -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..4 {
        // The first is longer than a segment.
        let (pieces, repeats) = match file {
            0 => (80, 250),
            _ => (20 + numbers.below(60), 1 + numbers.below(9)),
        };
        let mut text = numbers.text(pieces).repeat(repeats);
        text.extend(numbers.text(40));
        texts.insert(format!("d/{file}"), text);
    }
    texts.insert("d/empty".to_owned(), Vec::new());
    for (name, text) in &*texts {
        let path = folder.path().join("in").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let open = Database::options().threads(2);
    let database = open.open(folder.path().join("test.zdb")).unwrap();
    let settings = CorpusSettings {
        segment_size: 64 << 10,
        ..CorpusSettings::default()
    };
    let corpus = database.create_corpus("c", settings).unwrap();
    corpus.copy_from(folder.path().join("in"), options).unwrap();
    (folder, database)
}

#[test]
fn matches_and_lines_are_those_of_the_plain_text_with_edits() {
    for (seed, ingest) in [
        (0, IngestMode::Grammar),
        (1, IngestMode::Grammar),
        (2, IngestMode::Fast),
    ] {
        let (mut numbers, mut texts) = (Random::new(seed), Texts::new());
        let options = CopyOptions {
            ingest: Some(ingest),
            ..CopyOptions::default()
        };
        let (_folder, database) = database(&mut numbers, &mut texts, &options);
        let corpus = database.corpus("c").unwrap();
        check_all(&database, &texts, &mut numbers, 8);
        for _ in 0..3 {
            for _ in 0..4 {
                edit(&mut numbers, &corpus, &mut texts);
            }
            check_all(&database, &texts, &mut numbers, 4);
        }
    }
}
