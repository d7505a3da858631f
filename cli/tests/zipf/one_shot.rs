//! -c, -f, options and exit codes.

use std::fs;

use super::{
    IMPORT, SLOW, directory_with_database, directory_with_long_file, is_database, run,
    run_with_input, zipf,
};

const WORDS: &str = "SELECT word, COUNT(*) AS n FROM c GROUP BY word ORDER BY n DESC, word";

#[test]
fn csv_is_exactly_the_rows() {
    let directory = directory_with_database();
    let ended = run(zipf().current_dir(&directory).args(["c.zdb", "-c", WORDS]));
    assert_eq!(
        ended.rows(),
        "word,n\nto,4\nbe,3\ndo,1\nis,1\nnot,1\nor,1\n"
    );
    let sql = "SELECT content, bytes FROM files('c') ORDER BY file";
    let ended = run(zipf().current_dir(&directory).args(["c.zdb", "-c", sql]));
    assert_eq!(
        ended.rows(),
        "content,bytes\n\"to be, or not to be\n\",20\n\"to \"\"do\"\"\tis to be\",16\n"
    );
}

#[test]
fn every_format_prints_the_same_rows() {
    let directory = directory_with_database();
    for (format, expected) in [
        ("csv", "file,words\na.txt,6\nb.txt,5\n"),
        ("tsv", "file\twords\na.txt\t6\nb.txt\t5\n"),
        (
            "json",
            "[\n{\"file\":\"a.txt\",\"words\":6},\n{\"file\":\"b.txt\",\"words\":5}\n]\n",
        ),
        (
            "jsonl",
            "{\"file\":\"a.txt\",\"words\":6}\n{\"file\":\"b.txt\",\"words\":5}\n",
        ),
        (
            "markdown",
            "| file | words |\n| --- | --- |\n| a.txt | 6 |\n| b.txt | 5 |\n",
        ),
    ] {
        let sql = "SELECT file, words FROM files('c') ORDER BY file";
        let ended = run(zipf()
            .current_dir(&directory)
            .args(["c.zdb", "--format", format, "-c", sql]));
        assert_eq!(ended.rows(), expected);
    }
    let ended = run(zipf()
        .current_dir(&directory)
        .args(["c.zdb", "--format", "table", "-c", WORDS]));
    assert!(ended.rows().contains(" to "), "{ended:?}");
}

#[test]
fn commands_and_files_run_in_their_order() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(
        directory.path().join("two.sql"),
        "CREATE CORPUS two;\nCREATE CORPUS three",
    )
    .unwrap();
    let ended = run(zipf().current_dir(&directory).args([
        "new.zdb",
        "-c",
        "CREATE CORPUS one; SELECT corpus FROM corpora() ORDER BY corpus",
        "-f",
        "two.sql",
        "-c",
        "-- the rows of all statements follow each other\nSELECT corpus FROM corpora() ORDER BY corpus;",
    ]));
    assert_eq!(ended.rows(), "corpus\none\ncorpus\none\nthree\ntwo\n");
}

#[test]
fn no_database_is_a_database_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let sql = "CREATE CORPUS gone; SELECT corpus FROM corpora()";
    for _ in 0..2 {
        let ended = run(zipf().current_dir(&directory).args(["-c", sql]));
        assert_eq!(ended.rows(), "corpus\ngone\n");
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn the_first_failing_statement_is_the_last() {
    let directory = tempfile::tempdir().unwrap();
    let all = "CREATE CORPUS one; DROP CORPUS none; CREATE CORPUS two;";
    fs::write(directory.path().join("all.sql"), all).unwrap();
    let check = |name: &str, ended: super::Ended| {
        assert_eq!(
            (ended.code, ended.rows.as_str()),
            (Some(1), ""),
            "{ended:?}"
        );
        assert!(ended.messages.starts_with("error: "), "{ended:?}");
        assert!(ended.messages.contains("no such corpus"), "{ended:?}");
        let left =
            run(zipf()
                .current_dir(&directory)
                .args([name, "-c", "SELECT corpus FROM corpora()"]));
        assert_eq!(left.rows(), "corpus\none\n");
    };
    check(
        "1.zdb",
        run(zipf()
            .current_dir(&directory)
            .args(["1.zdb", "-c", all, "-c", "CREATE CORPUS three"])),
    );
    check(
        "2.zdb",
        run(zipf()
            .current_dir(&directory)
            .args(["2.zdb", "-f", "all.sql"])),
    );
    check(
        "3.zdb",
        run_with_input(zipf().current_dir(&directory).arg("3.zdb"), all.as_bytes()),
    );
}

#[test]
fn errors_show_the_line_and_a_caret() {
    let ended = run(zipf().args(["-c", "SELECT\n  wrd FROM corpora()"]));
    assert_eq!(ended.code, Some(1));
    let lines: Vec<&str> = ended.messages.lines().collect();
    assert_eq!(
        lines[1..],
        ["  |   wrd FROM corpora()", "  |   ^"],
        "{ended:?}"
    );
    assert!(
        !ended.messages.contains('\u{1b}'),
        "colour without a terminal: {ended:?}"
    );
}

#[test]
fn options_are_settings() {
    let ended = run(zipf().args([
        "--timeout",
        "1500",
        "--memory-limit",
        "64MiB",
        "-c",
        "SELECT value FROM settings() WHERE setting IN ('memory_limit', 'statement_timeout') ORDER BY setting",
    ]));
    assert_eq!(ended.rows(), "value\n64MiB\n1500ms\n");
}

#[test]
fn a_statement_ends_when_its_time_is_up() {
    let directory = directory_with_long_file();
    let ended =
        run(zipf()
            .current_dir(&directory)
            .args(["--timeout", "50", "-c", IMPORT, "-c", SLOW]));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.messages.contains("longer than 50 ms"), "{ended:?}");
}

#[test]
fn errors_in_a_file_name_its_line() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(
        directory.path().join("x.sql"),
        "CREATE CORPUS a;\n\nDROP CORPUS\n  b;\n",
    )
    .unwrap();
    let ended = run(zipf().current_dir(&directory).args(["-f", "x.sql"]));
    assert_eq!(ended.code, Some(1));
    assert!(ended.messages.contains("x.sql"), "{ended:?}");
    assert!(ended.messages.contains("line 3"), "{ended:?}");
}

#[test]
fn wrong_usage_exits_with_2_and_touches_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in [
        &["x.zdb", "--format", "xml"][..],
        &["x.zdb", "y.zdb"],
        &["--readonly"],
        &["x.zdb", "--timeout", "soon"],
        &["x.zdb", "--memory-limit", "much"],
        &["--no-such-option"],
    ] {
        let ended = run(zipf().current_dir(&directory).args(arguments));
        assert_eq!(
            (ended.code, ended.rows.as_str()),
            (Some(2), ""),
            "{ended:?}"
        );
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn help_and_version_exit_with_0() {
    let ended = run(zipf().arg("--help"));
    assert!(ended.rows().contains("Exit codes:"), "{ended:?}");
    assert!(ended.rows().contains("zipf demo [DIR]"), "{ended:?}");
    assert_eq!(
        run(zipf().arg("--version")).rows(),
        concat!("zipf ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn readonly_opens_but_never_creates_or_writes() {
    let directory = directory_with_database();
    let ended = run(zipf()
        .current_dir(&directory)
        .args(["no.zdb", "--readonly", "-c", WORDS]));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.messages.contains("no.zdb"), "{ended:?}");
    assert!(!directory.path().join("no.zdb").exists());

    let ended = run(zipf().current_dir(&directory).args([
        "c.zdb",
        "--readonly",
        "-c",
        "SELECT COUNT(*) AS n FROM c",
    ]));
    assert_eq!(ended.rows(), "n\n11\n");
    let ended =
        run(zipf()
            .current_dir(&directory)
            .args(["c.zdb", "--readonly", "-c", "DROP CORPUS c"]));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let ended = run(zipf().current_dir(&directory).args([
        "c.zdb",
        "--threads",
        "1",
        "-c",
        "SELECT COUNT(*) AS n FROM c",
    ]));
    assert_eq!(ended.rows(), "n\n11\n");
}

#[test]
fn an_unusable_database_path_is_an_error_and_not_wrong_usage() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), "not a database").unwrap();
    let ended =
        run(zipf()
            .current_dir(&directory)
            .args(["file", "-c", "SELECT corpus FROM corpora()"]));
    assert_eq!(
        (ended.code, ended.rows.as_str()),
        (Some(1), ""),
        "{ended:?}"
    );
    assert!(
        ended
            .messages
            .starts_with("error: cannot open database `file`"),
        "{ended:?}"
    );
    assert_eq!(
        fs::read(directory.path().join("file")).unwrap(),
        b"not a database"
    );
}

#[test]
fn a_missing_sql_file_is_an_error_before_anything_is_created() {
    let directory = tempfile::tempdir().unwrap();
    let ended = run(zipf()
        .current_dir(&directory)
        .args(["x.zdb", "-f", "no.sql"]));
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.messages.starts_with("error: cannot read `no.sql`"),
        "{ended:?}"
    );
    assert!(!directory.path().join("x.zdb").exists());
}

#[test]
fn a_database_called_demo_needs_a_path() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(
        run(zipf()
            .current_dir(&directory)
            .args(["./demo", "-c", "CREATE CORPUS c"]))
        .rows(),
        ""
    );
    assert!(is_database(&directory.path().join("demo")));
}

#[test]
fn repair_saves_what_is_sound_and_fails_if_something_is_lost() {
    let directory = directory_with_database();
    let repair = |target: &str| {
        let arguments = ["repair", "c.zdb", target];
        run(zipf().current_dir(&directory).args(arguments))
    };
    let ended = repair("whole.zdb");
    assert_eq!(
        (ended.code, ended.rows.as_str()),
        (Some(0), ""),
        "{ended:?}"
    );
    assert!(
        ended.messages.contains("1 corpora with 2 files"),
        "{ended:?}"
    );
    let count = ["whole.zdb", "-c", "SELECT COUNT(*) FROM c"];
    let ended = run(zipf().current_dir(&directory).args(count));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(repair("whole.zdb").code, Some(1), "it exists");

    let segments = directory.path().join("c.zdb/segments");
    for entry in fs::read_dir(segments).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "seg") {
            fs::write(path, "no segment").unwrap();
        }
    }
    let ended = repair("damaged.zdb");
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.messages.contains("lost: the files of a segment"),
        "{ended:?}"
    );
    assert_eq!(run(zipf().arg("repair")).code, Some(2));
}

#[cfg(target_os = "linux")]
#[test]
fn a_value_that_the_system_has_no_memory_for_is_an_error() {
    // Virtual memory of 4 GB, and values of 1 MB and 100 GB.
    let hundred = "replace('aaaaaaaaaa', 'a', 'aaaaaaaaaa')";
    let many = format!("replace({hundred}, 'a', {hundred})");
    let sql = format!(
        "SET value_size_limit = '1024GiB'; SET memory_limit = '1024GiB'; \
         SELECT length(replace(replace({many}, 'a', {hundred}), 'a', replace({many}, 'a', 'aaaaaaaaaa')))"
    );
    let ended = run(std::process::Command::new("sh")
        .args(["-c", "ulimit -v 4000000 && exec \"$0\" \"$@\""])
        .args([env!("CARGO_BIN_EXE_zipf"), "--threads", "1", "-c", &sql]));
    assert_eq!(ended.code, Some(1), "{}", ended.messages);
    let message = "cannot allocate 100000000000 bytes for the result of replace";
    assert!(ended.messages.contains(message), "{}", ended.messages);
}

#[cfg(target_os = "linux")]
#[test]
fn threads_that_cannot_be_started_are_an_error() {
    let directory = directory_with_database();
    // No address space has room for such a stack, so the system refuses every thread.
    let stack = (1u64 << 47).to_string();
    let mut command = zipf();
    command.current_dir(&directory).env("RUST_MIN_STACK", stack);
    let ended = run(command.args(["c.zdb", "-c", WORDS]));
    assert_eq!(ended.code, Some(1), "{}", ended.messages);
    assert!(ended.messages.contains("threads: "), "{}", ended.messages);
    assert!(ended.messages.contains("hint: "), "{}", ended.messages);
    assert!(!ended.messages.contains("panicked"), "{}", ended.messages);
}

#[test]
fn a_query_that_fails_prints_no_header() {
    let directory = directory_with_database();
    for format in ["csv", "tsv", "markdown", "json", "jsonl", "table"] {
        let sql = "SELECT abs(-9223372036854775807 - length(word) / length(word)) FROM c";
        let ended = run(zipf()
            .current_dir(&directory)
            .args(["c.zdb", "--format", format, "-c", sql]));
        assert_eq!(
            (ended.code, ended.rows.as_str()),
            (Some(1), ""),
            "{ended:?}"
        );
    }
}

#[test]
fn dot_commands_work_in_files_arguments_and_on_standard_input() {
    let directory = directory_with_database();
    let script = "SELECT 1 AS one;\n  .mode jsonl\nSELECT 2 AS two; SELECT\n.5 AS half;\n.read more.sql\n.quit\nnonsense";
    fs::write(directory.path().join("all.sql"), script).unwrap();
    fs::write(
        directory.path().join("more.sql"),
        ".mode csv\nSELECT 3 AS three\n",
    )
    .unwrap();
    let expected = "one\n1\n{\"two\":2}\n{\"half\":0.5}\nthree\n3\n";
    let ended = run(zipf()
        .current_dir(&directory)
        .args(["-f", "all.sql", "-c", "SELECT 4"]));
    assert_eq!(ended.rows(), expected);
    let ended = run_with_input(zipf().current_dir(&directory), script.as_bytes());
    assert_eq!(ended.rows(), expected);
    let arguments = [
        "c.zdb",
        "-c",
        ".mode jsonl",
        "-c",
        "SELECT COUNT(*) AS n FROM c",
    ];
    assert_eq!(
        run(zipf().current_dir(&directory).args(arguments)).rows(),
        "{\"n\":11}\n"
    );

    // One that is wrong ends the run, with its place.
    fs::write(
        directory.path().join("wrong.sql"),
        "SELECT 1 AS one;\n.mode jason\nSELECT 2;",
    )
    .unwrap();
    let ended = run(zipf().current_dir(&directory).args(["-f", "wrong.sql"]));
    assert_eq!(
        (ended.code, ended.rows.as_str()),
        (Some(1), "one\n1\n"),
        "{ended:?}"
    );
    assert!(
        ended.messages.contains("did you mean `json`?") && ended.messages.contains("line 2"),
        "{ended:?}"
    );
    // What comes after one has the right line.
    fs::write(
        directory.path().join("wrong.sql"),
        ".mode json\n\nSELECT wrd",
    )
    .unwrap();
    let ended = run(zipf().current_dir(&directory).args(["-f", "wrong.sql"]));
    assert!(ended.messages.contains("3:8: no such column"), "{ended:?}");
    fs::write(directory.path().join("circle.sql"), ".read circle.sql\n").unwrap();
    let ended = run(zipf().current_dir(&directory).args(["-f", "circle.sql"]));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.messages.contains("nests deeper than 16 files"),
        "{ended:?}"
    );
}

#[test]
fn a_transaction_that_is_not_committed_is_reported() {
    let directory = directory_with_database();
    let begun = "BEGIN; DELETE FROM c; SELECT COUNT(*) AS n FROM c;";
    let ended = run_with_input(
        zipf().current_dir(&directory).arg("c.zdb"),
        begun.as_bytes(),
    );
    assert_eq!(
        (ended.code, ended.rows.as_str()),
        (Some(0), "n\n0\n"),
        "{ended:?}"
    );
    let notice = "notice: the transaction was not committed and is rolled back; hint: COMMIT keeps what it changed\n";
    assert_eq!(ended.messages, notice);
    let arguments = ["c.zdb", "-c", "BEGIN; DELETE FROM c; COMMIT"];
    assert_eq!(
        run(zipf().current_dir(&directory).args(arguments)).rows(),
        ""
    );
}

#[test]
fn parameters_come_from_arguments_and_commands() {
    let directory = directory_with_database();
    let arguments = ["--param", "be", "--param", "least=1", "c.zdb", "-c"];
    let sql = "SELECT COUNT(*) AS n FROM c WHERE word = ?1 AND position > :least";
    let ended = run(zipf().current_dir(&directory).args(arguments).arg(sql));
    assert_eq!(ended.rows(), "n\n2\n");
    let script = ".parameter set word 'to'\nSELECT COUNT(*) AS n FROM c WHERE word = $word;\n.parameter clear\nSELECT :word;";
    let ended = run_with_input(
        zipf().current_dir(&directory).arg("c.zdb"),
        script.as_bytes(),
    );
    assert_eq!(
        (ended.code, ended.rows.as_str()),
        (Some(1), "n\n4\n"),
        "{ended:?}"
    );
    assert!(
        ended
            .messages
            .contains("parameter :word has no value; hint: `--param word=VALUE`"),
        "{ended:?}"
    );
}

#[test]
fn parameters_are_the_words_that_are_written() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(
        directory.path().join("agents.txt"),
        "agents 007 and 7, 1e5 and null, 1.10",
    )
    .unwrap();
    let run = |arguments: &[&str]| run(zipf().current_dir(&directory).args(arguments));
    let import = "CREATE CORPUS c; COPY c FROM 'agents.txt'";
    assert_eq!(run(&["c.zdb", "-c", import]).rows(), "");
    for word in ["007", "7", "1e5", "null", "1.10"] {
        let sql = "SELECT word FROM c WHERE word = ?";
        let ended = run(&["--param", word, "c.zdb", "-c", sql]);
        assert_eq!(ended.rows(), format!("word\n{word}\n"));
        let set = format!(".parameter set w {word}");
        let sql = "SELECT word FROM c WHERE word = :w";
        let ended = run(&["c.zdb", "-c", &set, "-c", sql]);
        assert_eq!(ended.rows(), format!("word\n{word}\n"));
    }
    let sql = "SELECT typeof(?1), typeof(?2), typeof(?3), ?1 + 1 AS two";
    let ended = run(&[
        "--param", "1", "--param", "1.5", "--param", "NULL", "-c", sql,
    ]);
    assert!(ended.rows().ends_with("integer,real,null,2\n"), "{ended:?}");
}

#[test]
fn a_mistyped_path_is_reported_and_makes_no_database() {
    let directory = tempfile::tempdir().unwrap();
    let run = |sql: &str| run(zipf().current_dir(&directory).args(["c.zbd", "-c", sql]));
    for sql in ["SELECT word FROM c", "COPY c FROM '.'", ".schema c"] {
        let ended = run(sql);
        assert_eq!((ended.code, ended.rows.as_str()), (Some(1), ""));
        let hint = "hint: there is no database at c.zbd yet";
        assert!(ended.messages.contains(hint), "{ended:?}");
    }
    let ended = run(".corpora");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(
        ended.messages,
        "notice: there is no database at c.zbd yet; hint: the first change makes it\n"
    );
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    assert_eq!(
        run("CREATE CORPUS c; SELECT corpus FROM corpora()").rows(),
        "corpus\nc\n"
    );
    assert!(is_database(&directory.path().join("c.zbd")));
}

#[test]
fn a_warning_is_given_once_and_without_fields() {
    let directory = directory_with_database();
    let path = directory.path().join("c.zdb");
    // No other process opens the database, so the manifest stays damaged.
    let holder = zipfdb::Database::open(&path).unwrap();
    let manifest = fs::read(path.join("MANIFEST")).unwrap();
    fs::write(path.join("MANIFEST"), "damaged").unwrap();
    let sql = "SELECT COUNT(*) AS n FROM c; SELECT 1 AS one; SELECT COUNT(*) AS n FROM c";
    let ended = run(zipf().current_dir(&directory).args(["c.zdb", "-c", sql]));
    assert_eq!(
        (ended.code, ended.rows.as_str()),
        (Some(0), "n\n11\none\n1\nn\n11\n")
    );
    let lines: Vec<&str> = ended.messages.lines().collect();
    assert_eq!(lines.len(), 1, "{ended:?}");
    assert!(
        lines[0].starts_with("warning: c.zdb: the manifest cannot be used"),
        "{ended:?}"
    );
    assert!(!lines[0].contains("database="), "{ended:?}");
    fs::write(path.join("MANIFEST"), manifest).unwrap();
    drop(holder);
}

#[cfg(target_os = "linux")]
#[test]
fn a_path_that_is_not_utf8_is_shown_as_it_can_be_given() {
    use std::os::unix::ffi::OsStrExt;
    let directory = directory_with_database();
    let texts = directory.path().join("more");
    let strange = texts.join(std::ffi::OsStr::from_bytes(b"na\xefme.txt"));
    fs::create_dir(&texts).unwrap();
    std::os::unix::fs::symlink("nowhere", &strange).unwrap();
    let run = |sql: &str| run(zipf().current_dir(&directory).args(["c.zdb", "-c", sql]));
    let ended = run("COPY c FROM 'more'");
    assert!(
        ended
            .messages
            .starts_with("error: more/na\\xefme.txt: No such file"),
        "{ended:?}"
    );
    fs::remove_file(&strange).unwrap();
    fs::write(&strange, "found").unwrap();
    assert_eq!(run("COPY c FROM 'more/na\\xefme.txt'").rows(), "");
    let sql = "SELECT word FROM c WHERE file = 'na\\xefme.txt'";
    assert_eq!(run(sql).rows(), "word\nfound\n");
}

#[test]
fn rows_are_written_to_standard_output_in_their_place() {
    let directory = directory_with_database();
    let sql = "SELECT 1 AS one; COPY (SELECT DISTINCT word FROM c WHERE word GLOB '[bt]*' ORDER BY word) TO '-'; SELECT 2 AS two";
    let expected = "one\n1\nword\nbe\nto\ntwo\n2\n";
    let arguments = ["c.zdb", "-c", sql];
    assert_eq!(
        run(zipf().current_dir(&directory).args(arguments)).rows(),
        expected
    );
    // Into a file, where each writer could have a place of its own.
    let file = fs::File::create(directory.path().join("out")).unwrap();
    let ended = run(zipf().current_dir(&directory).args(arguments).stdout(file));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(
        fs::read_to_string(directory.path().join("out")).unwrap(),
        expected
    );
    let sql = "COPY (SELECT abs(-9223372036854775807 - length(word) / length(word)) FROM c) TO '-' WITH (format = 'tsv')";
    let ended = run(zipf().current_dir(&directory).args(["c.zdb", "-c", sql]));
    assert_eq!(
        (ended.code, ended.rows.as_str()),
        (Some(1), ""),
        "{ended:?}"
    );
}

#[test]
fn files_that_are_not_utf8_are_reported() {
    let directory = directory_with_database();
    fs::write(directory.path().join("latin.txt"), b"caf\xe9").unwrap();
    let arguments = ["c.zdb", "-c", "COPY c FROM 'latin.txt'"];
    let ended = run(zipf().current_dir(&directory).args(arguments));
    assert_eq!(
        (ended.code, ended.rows.as_str()),
        (Some(0), ""),
        "{ended:?}"
    );
    let expected =
        "notice: 1 of the files are not UTF-8 and were copied byte for byte: latin.txt; hint: ";
    assert!(ended.messages.starts_with(expected), "{ended:?}");
}

#[test]
fn errors_of_the_system_end_with_its_reason() {
    let directory = directory_with_database();
    fs::create_dir(directory.path().join("folder")).unwrap();
    for (arguments, reason) in [
        (&["texts/a.txt", "-c", "SELECT 1"][..], "Not a directory"),
        (
            &["--readonly", "texts/a.txt", "-c", "SELECT 1"],
            "Not a directory",
        ),
        (&["texts/a.txt/x.zdb", "-c", "SELECT 1"], "Not a directory"),
        (&["-f", "folder"], "Is a directory"),
        (&["-f", "none.sql"], "No such file or directory"),
        (
            &["c.zdb", "-c", "COPY c FROM 'texts/a.txt/x'"],
            "Not a directory",
        ),
        (
            &["c.zdb", "-c", "COPY c FROM 'none'"],
            "No such file or directory",
        ),
        (
            &["c.zdb", "-c", "COPY c TO 'texts/a.txt'"],
            "Not a directory",
        ),
        (
            &[
                "c.zdb",
                "-c",
                "COPY (SELECT 1) TO 'folder' WITH (format = 'csv')",
            ],
            "Is a directory",
        ),
        (
            &["c.zdb", "-c", "COPY (SELECT 1) TO 'none/x.csv'"],
            "No such file or directory",
        ),
    ] {
        let ended = run(zipf().current_dir(&directory).args(arguments));
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let message = ended
            .messages
            .lines()
            .next()
            .unwrap_or_default()
            .to_lowercase();
        assert!(
            message.contains(&reason.to_lowercase()),
            "{arguments:?}: {message}"
        );
    }
}
