//! The program `zipf-full`: what it prints, and how it ends.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use zipfdb::{CorpusSettings, Database};

fn run(arguments: &[&str], input: &str) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_zipf-full"));
    program.args(arguments).stdin(Stdio::piped());
    program.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.spawn().unwrap();
    // A program that ends without reading closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

fn pets(directory: &Path) -> String {
    let path = directory.join("pets.zdb");
    let database = Database::open(&path).unwrap();
    let corpus = database.create_corpus("pets", CorpusSettings::default());
    corpus
        .unwrap()
        .append_many(&[("a.txt", "the cat and the dog")])
        .unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn both_engines_print_the_same_table() {
    let directory = tempfile::tempdir().unwrap();
    let path = pets(directory.path());
    let sql = "SELECT word, COUNT(*) AS n FROM pets GROUP BY word ORDER BY n DESC, word LIMIT 2";
    let table =
        "+------+---+\n| word | n |\n+------+---+\n| the  | 2 |\n| and  | 1 |\n+------+---+\n";
    for engine in ["own", "datafusion"] {
        let output = run(&["--engine", engine, &path, "-c", sql], "");
        assert_eq!(texts(&output), (table.into(), String::new()), "{engine}");
        // Several statements, and one that does nothing but end with a comment.
        let output = run(
            &[&path, "--engine", engine],
            &format!("{sql}; {sql} -- the end"),
        );
        assert_eq!(texts(&output).0, format!("{table}{table}"), "{engine}");
        assert_eq!(output.status.code(), Some(0));
    }
    let output = run(
        &[
            &path,
            "-c",
            "SELECT word FROM pets EXCEPT SELECT 'the' ORDER BY 1",
        ],
        "",
    );
    assert_eq!(texts(&output).0.lines().count(), 7);
}

#[test]
fn what_fails_says_why_and_how_badly() {
    let directory = tempfile::tempdir().unwrap();
    let path = pets(directory.path());
    for engine in ["own", "datafusion"] {
        let output = run(
            &["--engine", engine, &path, "-c", "SELECT wrod FROM pets"],
            "",
        );
        assert_eq!(output.status.code(), Some(1));
        assert!(
            texts(&output).1.starts_with("error: "),
            "{:?}",
            texts(&output)
        );
    }
    for wrong in [
        &[][..],
        &["--engine", "other", &path],
        &[&path, "--colour"],
        &[&path, "-c"],
    ] {
        let output = run(wrong, "");
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(texts(&output).1.contains("--help"));
    }
    let missing = directory.path().join("missing");
    assert_eq!(run(&[missing.to_str().unwrap()], "").status.code(), Some(1));
    assert!(!missing.exists());
}

#[test]
fn files_are_inserted_and_rows_are_copied_to_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = pets(directory.path());
    let target = directory.path().join("words.csv");
    let script = format!(
        "INSERT INTO files.pets (file, content) VALUES ('b.txt', 'the end'); \
         COPY (SELECT word, COUNT(*) AS n FROM pets GROUP BY word ORDER BY n DESC, word LIMIT 2) TO '{}'",
        target.display()
    );
    let output = run(&[&path], &script);
    assert_eq!(texts(&output).1, "");
    assert_eq!(output.status.code(), Some(0));
    let copied = std::fs::read_to_string(&target).unwrap();
    assert_eq!(copied, "word,n\nthe,3\nand,1\n");
}

#[test]
fn a_database_on_an_object_store_is_pushed_asked_pulled_and_collected() {
    let directory = tempfile::tempdir().unwrap();
    let path = pets(directory.path());
    let url = format!("file://{}/shelf/pets.zdb", directory.path().display());
    let done = |arguments: &[&str]| {
        let output = run(arguments, "");
        let (out, err) = texts(&output);
        assert_eq!((err, output.status.code()), (String::new(), Some(0)));
        out
    };
    let pushed = done(&["push", &path, &url]);
    assert!(pushed.starts_with("version 1: "), "{pushed}");
    Database::open(&path)
        .unwrap()
        .execute_batch("INSERT INTO pets (file, content) VALUES ('b.txt', 'the bird')")
        .unwrap();
    assert!(done(&["push", &path, &url]).starts_with("version 2: "));
    assert_eq!(done(&["versions", &url]), "1\n2\n");
    let sql = "SELECT COUNT(*) AS n FROM pets WHERE word = 'the'";
    let cache = directory.path().join("cache");
    let cache = cache.to_str().unwrap();
    for (at, count) in [("1", 2), ("2", 3)] {
        for engine in ["own", "datafusion"] {
            let arguments = [
                "--engine", engine, &url, "--at", at, "--cache", cache, "-c", sql,
            ];
            let table = format!("+---+\n| n |\n+---+\n| {count} |\n+---+\n");
            assert_eq!(done(&arguments), table);
        }
    }
    let target = directory.path().join("pulled.zdb");
    let target = target.to_str().unwrap();
    assert!(done(&["pull", &url, target]).starts_with("version 2 in "));
    assert!(done(&[target, "-c", sql]).contains("| 3 |"));
    let collected = done(&["collect", &url, "--grace", "0s"]);
    assert!(collected.starts_with("removed 1 versions"), "{collected}");
    let output = run(&[&url, "--at", "1", "-c", sql], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(texts(&output).1.contains("there is no version 1"));
}
