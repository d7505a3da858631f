//! What pages show runs: every statement of README.md and docs/SQL.md, one after the other, in a database for each page.
//!
//! What the statements of docs/SQL.md are checked for beforehand, without a database, is in the tests of the SQL crate. The Rust of
//! README.md is lines of an example, which every build of the tests compiles.

#![allow(clippy::unwrap_used)]

use std::env;
use std::fs;
use std::io::Write;

use zipfdb::sql::StatementStream;
use zipfdb::{Database, Value};
use zipfdb_formats::{Compression, Compressor};

const README: &str = include_str!("../README.md");
const SQL_PAGE: &str = include_str!("../docs/SQL.md");
const RUST_PAGE: &str = include_str!("../docs/RUST.md");
const EXAMPLE: &str = include_str!("../examples/embed.rs");
const PROGRAMS: &str = include_str!("../examples/programs.rs");

/// The directory of the speeches that pages copy from.
const SAMPLE: &str = "cli/sample/speeches";

/// The code blocks of a page in this language.
fn blocks<'a>(page: &'a str, language: &str) -> impl Iterator<Item = &'a str> {
    let blocks = page.split("```").skip(1).step_by(2);
    blocks.filter_map(move |block| block.strip_prefix(language)?.strip_prefix('\n'))
}

#[test]
fn the_rust_of_pages_is_in_examples() {
    for (page, example) in [(README, EXAMPLE), (RUST_PAGE, PROGRAMS)] {
        let lines: Vec<&str> = blocks(page, "rust").flat_map(str::lines).collect();
        assert!(lines.len() > 5, "{lines:?}");
        for line in lines {
            let is_there = example.lines().any(|other| as_shown(other) == line.trim());
            assert!(is_there, "in no example: {line}");
        }
    }
}

/// A line of an example as pages show it: what an example writes to an output, which may be closed, a page prints.
fn as_shown(line: &str) -> String {
    let written = line.trim().strip_prefix("writeln!(out, ");
    match written.and_then(|written| written.strip_suffix(")?;")) {
        Some(written) => format!("println!({written});"),
        None => line.trim().to_owned(),
    }
}

/// The only test of this file that uses files, since it changes the directory that relative paths start from.
#[test]
fn every_statement_of_the_pages_runs() {
    let sample = env::current_dir().unwrap().join(SAMPLE);
    let folder = tempfile::tempdir().unwrap();
    env::set_current_dir(folder.path()).unwrap();
    for directory in [SAMPLE, "speeches", "archive/old", "mail/may", "old"] {
        fs::create_dir_all(directory).unwrap();
    }
    for entry in fs::read_dir(sample).unwrap().take(20) {
        let path = entry.unwrap().path();
        for directory in [SAMPLE, "speeches"] {
            let target = folder.path().join(directory);
            fs::copy(&path, target.join(path.file_name().unwrap())).unwrap();
        }
    }
    fs::write(
        "speeches/1941.txt",
        "the state of the union and freedom of speech",
    )
    .unwrap();
    fs::write("letter.txt", "Dear all, it rained.").unwrap();
    fs::write("archive/old/one.txt", "one old letter").unwrap();
    fs::write("mail/may/1.eml", "Subject: May").unwrap();
    fs::write("old/latin.txt", b"caf\xe9").unwrap();
    let posts = "{\"id\":\"p1\",\"body\":\"a first post\"}\n";
    write_compressed("posts.jsonl.zst", Compression::Zstd, posts);
    fs::create_dir("logs").unwrap();
    write_compressed("logs/1.log.gz", Compression::Gzip, "host GET /\n");
    fs::create_dir("dump").unwrap();
    fs::write("dump/large.txt", "words and words").unwrap();

    assert!(run_statements(README) > 10);
    assert!(run_statements(SQL_PAGE) > 50);
}

fn write_compressed(path: &str, compression: Compression, text: &str) {
    let file = fs::File::create(path).unwrap();
    let mut writer = Compressor::new(compression, file).unwrap().unwrap();
    writer.write_all(text.as_bytes()).unwrap();
    writer.finish().unwrap();
}

/// Runs the SQL of a page in a database of its own; how many statements that is.
fn run_statements(page: &str) -> usize {
    let database = Database::in_memory().unwrap();
    let mut count = 0;
    for block in blocks(page, "sql") {
        let mut stream = StatementStream::new();
        stream.feed(block);
        let mut statements = Vec::new();
        while let Some(statement) = stream.next_statement() {
            statements.push(statement.unwrap());
        }
        statements.extend(stream.finish().map(Result::unwrap));
        for statement in statements {
            let statement = statement.text;
            let prepared = database.prepare(&statement).unwrap();
            let values: [Value; 3] = ["1941.txt".into(), 101.into(), 64.into()];
            let rows = prepared.query(&values[..prepared.parameter_count()]);
            let rows = rows.unwrap_or_else(|error| panic!("{statement}\n{error}"));
            for row in rows {
                row.unwrap_or_else(|error| panic!("{statement}\n{error}"));
            }
            count += 1;
        }
    }
    count
}
