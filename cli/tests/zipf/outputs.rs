//! Outputs that go away, are full or cannot be written to.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use super::prompt::Typist;
use super::{Ended, directory_with_database, run, zipf};

/// A pipe that nothing reads any more.
fn without_reader() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// A disk without room.
fn full() -> Stdio {
    File::options()
        .write(true)
        .open("/dev/full")
        .unwrap()
        .into()
}

/// Runs with an output that is not looked at.
fn run_into(command: &mut Command, output: Stdio) -> Ended {
    let child = command.stdout(output).stderr(Stdio::piped());
    Ended::new(child.spawn().unwrap().wait_with_output().unwrap())
}

const FULL: &str = "error: cannot write to standard output: no space left on device\n";

/// All that writes to standard output, by its arguments. `packed` is a packed file.
fn all_outputs() -> Vec<Vec<&'static str>> {
    const ROWS: &str = "SELECT word, COUNT(*) FROM c GROUP BY word";
    let mut all = vec![
        vec!["--help"],
        vec!["-h"],
        vec!["--version"],
        vec!["pack", "--help"],
        vec!["demo", "new.zdb"],
        vec!["unpack", "packed", "-"],
        vec!["unpack", "packed", "/dev/stdout"],
        vec!["pack", "texts/a.txt", "-", "--codec", "byte"],
        vec!["pack", "texts/a.txt", "/dev/stdout", "--codec", "bit"],
    ];
    for format in ["csv", "tsv", "json", "jsonl", "markdown", "table"] {
        all.push(vec!["c.zdb", "--format", format, "-c", ROWS]);
    }
    for sql in [
        "COPY (SELECT word FROM c) TO '-'",
        "COPY (SELECT word FROM c) TO '-' WITH (format = 'tsv')",
        "COPY (SELECT word FROM c) TO '-' WITH (format = 'json')",
        "COPY (SELECT word FROM c) TO '-' WITH (format = 'jsonl')",
        "COPY (SELECT word FROM c) TO '/dev/stdout' WITH (format = 'csv')",
        "COPY (SELECT word FROM c) TO '/dev/fd/1' WITH (format = 'csv')",
        "EXPLAIN SELECT word FROM c",
        "CHECK c",
        ".schema",
        ".corpora",
        ".settings",
        ".devices",
        ".indexes c",
        ".export - SELECT word FROM c",
    ] {
        all.push(vec!["c.zdb", "-c", sql]);
    }
    all
}

fn directory_with_packed_file() -> tempfile::TempDir {
    let directory = directory_with_database();
    let pack = ["pack", "texts/a.txt", "packed", "--codec", "byte"];
    let ended = run(zipf().current_dir(&directory).args(pack));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    directory
}

#[test]
fn a_reader_that_goes_away_ends_each_output_quietly() {
    let directory = directory_with_packed_file();
    for arguments in all_outputs() {
        let command = &mut zipf();
        command.current_dir(&directory).args(&arguments);
        let ended = run_into(command, without_reader());
        assert_eq!(
            (ended.code, ended.messages.as_str()),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
    assert!(!directory.path().join("new.zdb").exists());
}

#[test]
fn an_output_that_cannot_be_written_is_an_error_with_the_reason() {
    let directory = directory_with_packed_file();
    for arguments in all_outputs() {
        let command = &mut zipf();
        command.current_dir(&directory).args(&arguments);
        let ended = run_into(command, full());
        assert_eq!(
            (ended.code, ended.messages.as_str()),
            (Some(1), FULL),
            "{arguments:?}"
        );
        // Open, but not for writing.
        let command = &mut zipf();
        command.current_dir(&directory).args(&arguments);
        let ended = run_into(command, File::open("/dev/null").unwrap().into());
        assert_eq!(ended.code, Some(1), "{arguments:?} {ended:?}");
        let reason = "error: cannot write to standard output: bad file descriptor\n";
        assert_eq!(ended.messages, reason, "{arguments:?}");
    }
    assert!(!directory.path().join("new.zdb").exists());
}

#[test]
fn statements_before_a_reader_that_goes_away_stay_done_and_those_after_do_not_run() {
    let directory = directory_with_database();
    for (name, copy) in [
        ("one", "SELECT word FROM c"),
        ("two", "COPY (SELECT word FROM c) TO '-'"),
    ] {
        let sql = format!("CREATE CORPUS {name}; {copy}; CREATE CORPUS not");
        let command = &mut zipf();
        command.current_dir(&directory).args(["c.zdb", "-c", &sql]);
        assert_eq!(run_into(command, without_reader()).code, Some(0));
    }
    let corpora = [
        "c.zdb",
        "-c",
        "SELECT corpus FROM corpora() ORDER BY corpus",
    ];
    let ended = run(zipf().current_dir(&directory).args(corpora));
    assert_eq!(ended.rows(), "corpus\nc\none\ntwo\n");
}

#[test]
fn a_named_pipe_without_its_reader_ends_its_statement_only() {
    let directory = super::directory_with_long_file();
    let import = ["c.zdb", "-c", super::IMPORT];
    assert_eq!(run(zipf().current_dir(&directory).args(import)).rows(), "");
    let pipe = directory.path().join("pipe");
    super::make_pipe(&pipe);
    // Opened before, so that it is there when the statement opens the pipe, and gone while rows are written.
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            use std::io::Read;
            let mut first = [0];
            File::open(pipe).unwrap().read_exact(&mut first).unwrap();
            first
        }
    });
    let sql = "COPY (SELECT word FROM c) TO 'pipe' WITH (format = 'csv'); SELECT 'after' AS word";
    let ended = run(zipf().current_dir(&directory).args(["c.zdb", "-c", sql]));
    assert_eq!(ended.rows(), "word\nafter\n");
    assert_eq!(reader.join().unwrap(), *b"w");
    let full = "COPY (SELECT 1) TO '/dev/full' WITH (format = 'csv'); SELECT 'after' AS word";
    let ended = run(zipf().current_dir(&directory).args(["c.zdb", "-c", full]));
    assert_eq!((ended.code, &*ended.rows), (Some(1), ""), "{ended:?}");
    assert!(
        ended
            .messages
            .starts_with("error: cannot write /dev/full: "),
        "{ended:?}"
    );
}

#[test]
fn messages_that_cannot_be_written_change_nothing() {
    let directory = directory_with_database();
    std::os::unix::fs::symlink("nothing", directory.path().join("texts/broken")).unwrap();
    // A warning, a notice and a note.
    let sql = "CREATE CORPUS d; COPY d FROM 'texts' WITH (on_error = 'skip');
.mode
BEGIN; SELECT COUNT(*) AS n FROM files('d')";
    for output in [without_reader as fn() -> Stdio, full] {
        let command = &mut zipf();
        command.current_dir(&directory).args(["-c", sql]);
        let child = command.stdout(Stdio::piped()).stderr(output());
        let ended = Ended::new(child.spawn().unwrap().wait_with_output().unwrap());
        assert_eq!((ended.code, &*ended.rows), (Some(0), "n\n2\n"), "{ended:?}");
        for (arguments, code) in [(["-c", "nonsense"], 1), (["--format", "none"], 2)] {
            let child = &mut zipf();
            let child = child.args(arguments).stdout(Stdio::null()).stderr(output());
            assert_eq!(child.status().unwrap().code(), Some(code));
        }
    }
}

#[test]
fn the_prompt_ends_with_its_output() {
    let state = tempfile::tempdir().unwrap();
    let start = |output: Stdio| Typist::without_terminal(state.path(), output).end_and_messages();
    let (code, messages) = start(without_reader());
    assert_eq!(code, Some(0), "{messages}");
    assert!(!messages.contains("error"), "{messages}");
    let (code, messages) = start(full());
    assert_eq!(code, Some(1), "{messages}");
    let messages = messages.replace('\r', "");
    assert!(messages.contains(FULL), "{messages}");
}

#[test]
fn a_demo_that_is_not_built_leaves_nothing() {
    for (output, code) in [(without_reader as fn() -> Stdio, 0), (full, 1)] {
        let directory = tempfile::tempdir().unwrap();
        let command = &mut zipf();
        command.arg("demo").env("TMPDIR", directory.path());
        let ended = run_into(command, output());
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert_eq!(names(directory.path()), [""; 0]);
    }
}

/// The names in a directory.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string();
    let mut names: Vec<String> = entries.map(|entry| name(entry).unwrap()).collect();
    names.sort();
    names
}
