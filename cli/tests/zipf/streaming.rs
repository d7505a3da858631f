//! SQL on standard input, and outputs that go away.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::mpsc::channel;

use super::{DEADLINE, directory_with_database, run_with_input, zipf};

#[test]
fn rows_come_before_the_next_statement_is_read() {
    let mut child = zipf()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (sender, lines) = channel();
    // On a thread of its own, so that rows that never come are a failure and not a hang.
    std::thread::spawn(move || {
        output
            .lines()
            .try_for_each(|line| sender.send(line.unwrap()))
    });
    let next = || lines.recv_timeout(DEADLINE).unwrap();
    for number in 0..3 {
        // No line end after the semicolon: the statement is complete without it.
        write!(
            input,
            "CREATE CORPUS c{number}; SELECT corpus FROM corpora() WHERE corpus = 'c{number}';"
        )
        .unwrap();
        input.flush().unwrap();
        assert_eq!(
            (next(), next()),
            ("corpus".to_string(), format!("c{number}"))
        );
    }
    // A statement in two pieces, cut inside a word, and without a semicolon at the end.
    write!(input, "SELECT corpus FROM corp").unwrap();
    input.flush().unwrap();
    write!(input, "ora() ORDER BY corpus LIMIT 1").unwrap();
    drop(input);
    assert_eq!((next(), next()), ("corpus".to_string(), "c0".to_string()));
    assert!(lines.recv().is_err());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn statements_before_bytes_that_are_not_text_run() {
    let ended = run_with_input(
        &mut zipf(),
        b"CREATE CORPUS c; SELECT corpus FROM corpora(); SELECT \xff",
    );
    assert_eq!(
        (ended.code, ended.rows.as_str()),
        (Some(1), "corpus\nc\n"),
        "{ended:?}"
    );
    assert!(ended.messages.contains("not UTF-8 at byte 54"), "{ended:?}");
}

#[test]
fn empty_input_and_comments_are_no_statements() {
    for input in ["", "\n\n", ";;", "-- nothing\n", "/* nothing; */ ;"] {
        assert_eq!(
            run_with_input(&mut zipf(), input.as_bytes()).rows(),
            "",
            "{input:?}"
        );
    }
}

#[test]
fn a_byte_order_mark_is_skipped() {
    let ended = run_with_input(&mut zipf(), "\u{feff}CREATE CORPUS c;".as_bytes());
    assert_eq!(ended.rows(), "");
}

#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    let directory = directory_with_database();
    for format in ["csv", "tsv", "json", "jsonl", "markdown", "table"] {
        let mut child = zipf()
            .current_dir(&directory)
            .args(["c.zdb", "--format", format])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut input = child.stdin.take().unwrap();
        // The second write is there in case the first is taken before the pipe is seen to be closed.
        for _ in 0..2 {
            let _ = input.write_all(b"SELECT word, COUNT(*) FROM c GROUP BY word;");
        }
        drop(input);
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), output.stderr.as_slice()),
            (Some(0), &b""[..]),
            "{format}"
        );
    }
}
