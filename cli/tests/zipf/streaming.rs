//! SQL on standard input, and outputs that go away.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::mpsc::channel;

use super::{DEADLINE, directory_with_database, run, run_with_input, zipf};

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
    assert!(
        ended
            .messages
            .contains("standard input: line 1: not UTF-8 at byte 54"),
        "{ended:?}"
    );
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("x.sql");
    let text =
        b"CREATE CORPUS c;\nBEGIN; INSERT INTO c (file, content) VALUES ('f', 'x'); COMMIT;\n\
        BEGIN; DELETE FROM c;\nSELECT \xff; COMMIT;";
    std::fs::write(&script, text).unwrap();
    let session = || {
        let mut command = zipf();
        command.current_dir(&directory).arg("x.zdb");
        command
    };
    let ended = run(session().args(["-f", "x.sql"]));
    assert_eq!(
        (ended.code, ended.rows.as_str()),
        (Some(1), ""),
        "{ended:?}"
    );
    assert!(
        ended
            .messages
            .contains("notice: the transaction was not committed"),
        "{ended:?}"
    );
    let offset = text.iter().position(|byte| *byte == 0xff).unwrap();
    let expected = format!("error: x.sql: line 4: not UTF-8 at byte {offset}; hint: ");
    assert!(ended.messages.contains(&expected), "{ended:?}");
    let left = run(session().args(["-c", "SELECT word FROM c"]));
    assert_eq!(left.rows(), "word\nx\n");
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

#[test]
fn a_session_that_waits_for_input_keeps_no_process_from_reading_or_writing() {
    let directory = directory_with_database();
    let mut child = zipf()
        .current_dir(&directory)
        .arg("c.zdb")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let count = "SELECT COUNT(*) FROM c WHERE word = 'new';";
    write!(
        input,
        "INSERT INTO c (file, content) VALUES ('f', 'new'); {count}"
    )
    .unwrap();
    input.flush().unwrap();
    let mut next = || output.next().unwrap().unwrap();
    assert_eq!((next(), next()), ("COUNT(*)".to_string(), "1".to_string()));
    let other = run(zipf().current_dir(&directory).args(["c.zdb", "-c", count]));
    assert_eq!(other.rows(), "COUNT(*)\n1\n");
    // The insert waits for the lock, which is given back before long.
    let insert = "SET busy_timeout = '1h'; INSERT INTO c (file, content) VALUES ('f', ' new');";
    assert_eq!(
        run(zipf().current_dir(&directory).args(["c.zdb", "-c", insert])).rows(),
        ""
    );
    write!(input, "{count}").unwrap();
    input.flush().unwrap();
    assert_eq!((next(), next()), ("COUNT(*)".to_string(), "2".to_string()));
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn much_that_is_left_pending_is_reported_at_the_end_or_recompressed_if_that_is_set() {
    let directory = directory_with_database();
    let text = "several words that come again and again ".repeat(100_000);
    let insert = |number: u32| {
        format!("INSERT INTO c (file, content) VALUES ('f{number}', '{text}');\n").into_bytes()
    };
    let session = || {
        let mut command = zipf();
        command.current_dir(&directory).arg("c.zdb");
        command
    };
    let pending = "SELECT pending > 0 FROM corpora()";
    // Less than a notice reports.
    assert_eq!(run_with_input(&mut session(), &insert(0)).rows(), "");
    let many = (1..5).flat_map(insert).collect::<Vec<u8>>();
    let ended = run_with_input(&mut session(), &many);
    assert_eq!((ended.code, &*ended.rows), (Some(0), ""), "{ended:?}");
    assert!(
        ended
            .messages
            .contains("MB of changes of corpus \"c\" are pending"),
        "{ended:?}"
    );
    // A session that only reads prints no notice.
    let read = run(session().args(["-c", pending]));
    assert_eq!(read.rows(), "pending > 0\n1\n");
    let set = [b"SET recompress_at_exit = 'on';\n".to_vec(), insert(6)].concat();
    assert_eq!(run_with_input(&mut session(), &set).rows(), "");
    assert_eq!(
        run(session().args(["-c", pending])).rows(),
        "pending > 0\n0\n"
    );
}

#[test]
fn a_session_that_leaves_packed_text_says_so_or_makes_it_a_grammar() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("text"),
        "words and more words\n".repeat(900_000),
    )
    .unwrap();
    let copy = |at_exit: &str| {
        let mut command = zipf();
        command.current_dir(&folder).arg(format!("{at_exit}.zdb"));
        command.args([
            "-c",
            &format!("SET recompress_threads = 0; SET recompress_at_exit = '{at_exit}'"),
            "-c",
            "CREATE CORPUS c; COPY c FROM 'text' WITH (compression = 'fast')",
        ]);
        run(&mut command)
    };
    let form = |at_exit: &str| {
        let mut command = zipf();
        command.current_dir(&folder).arg(format!("{at_exit}.zdb"));
        command.args(["--readonly", "-c", "SELECT form FROM segments('c')"]);
        run(&mut command)
    };
    let left = copy("off");
    assert!(
        left.messages
            .contains("18 MB of corpus \"c\" are packed text"),
        "{left:?}"
    );
    assert_eq!(form("off").rows(), "form\ntext\n");
    let made = copy("on");
    assert!(!made.messages.contains("packed text"), "{made:?}");
    assert_eq!(form("on").rows(), "form\ngrammar\n");
}
