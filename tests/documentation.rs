//! docs/SQL.md runs: every statement of the page, one after the other, in one database.
//!
//! What the statements are checked for beforehand, without a database, is in the tests of the SQL crate.

#![allow(clippy::unwrap_used)]

use std::env;
use std::fs;

use zipfdb::{Database, StatementStream, Value};

const PAGE: &str = include_str!("../docs/SQL.md");

/// The only test of this file, since it changes the directory that relative paths start from.
#[test]
fn every_statement_of_the_page_runs() {
    let sample = env::current_dir().unwrap().join("cli/sample/speeches");
    let folder = tempfile::tempdir().unwrap();
    env::set_current_dir(folder.path()).unwrap();
    for directory in ["speeches", "archive/old", "mail/may"] {
        fs::create_dir_all(directory).unwrap();
    }
    for entry in fs::read_dir(sample).unwrap().take(20) {
        let path = entry.unwrap().path();
        fs::copy(
            &path,
            folder
                .path()
                .join("speeches")
                .join(path.file_name().unwrap()),
        )
        .unwrap();
    }
    fs::write(
        "speeches/1941.txt",
        "the state of the union and freedom of speech",
    )
    .unwrap();
    fs::write("letter.txt", "Dear all, it rained.").unwrap();
    fs::write("archive/old/one.txt", "one old letter").unwrap();
    fs::write("mail/may/1.eml", "Subject: May").unwrap();

    let database = Database::in_memory().unwrap();
    let mut count = 0;
    let blocks = PAGE.split("```").skip(1).step_by(2);
    for block in blocks.filter_map(|block| block.strip_prefix("sql\n")) {
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
    assert!(count > 50, "{count}");
}
