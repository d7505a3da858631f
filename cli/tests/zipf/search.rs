//! `zipf search` and `zipf kwic`: files and hits, options, JSON, exit codes and errors of queries.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use super::{Ended, IMPORT, directory_of, directory_of_three, directory_with_long_file, run, zipf};

/// A directory with a database of a corpus `c` of three files.
fn directory() -> tempfile::TempDir {
    directory_of_three("\u{e9}\u{e9} to y")
}

/// A directory with a database of a corpus `c` of 100 files with one word each.
fn directory_with_many_files() -> tempfile::TempDir {
    directory_of((100..200).map(|number| (number.to_string(), "word")))
}

fn task(directory: &Path, task: &str, arguments: &[&str]) -> Ended {
    run(zipf()
        .current_dir(directory)
        .args([task, "c.zdb"])
        .args(arguments))
}

#[track_caller]
fn check(directory: &Path, name: &str, arguments: &[&str], expected: &str) {
    let ended = task(directory, name, arguments);
    assert_eq!(ended.rows(), expected, "{name} {arguments:?}");
}

#[test]
fn files_are_printed_best_first_as_the_options_say() {
    let directory = directory();
    let directory = directory.path();
    let check = |arguments: &[&str], expected: &str| {
        check(directory, "search", arguments, expected);
    };
    check(&["to"], "0.588  3  a.txt\n0.562  1  b.txt\n");
    check(&["to", "c", "--limit", "1"], "0.588  3  a.txt\n");
    check(&["-l", "to OR nothing"], "c.txt\na.txt\nb.txt\n");
    check(
        &["-l", "to nothing", "--limit", "0"],
        "c.txt\na.txt\nb.txt\n",
    );
    check(&["-l", "--", "-nothing"], "a.txt\nb.txt\n");
    check(&["-c", "to"], "2\n");
    check(&["-l", "to y"], "b.txt\na.txt\n");
    check(&["-l", "--all", "to y"], "b.txt\n");
    let lenient = task(directory, "search", &["-l", "--lenient", "y AND ("]);
    assert_eq!((lenient.code, &*lenient.rows), (Some(0), "b.txt\n"));
    assert_eq!(
        lenient.messages,
        "notice: the query is read leniently: 1:7: expected `)` for this, found the end of the query\n\
         notice: the query is read leniently: 1:7: `(` holds no word\n"
    );
    check(
        &["--json", "to"],
        "{\"file\":\"a.txt\",\"score\":0.5875045365571695,\"hits\":3}\n\
         {\"file\":\"b.txt\",\"score\":0.5619608610546838,\"hits\":1}\n",
    );
    check(
        &["--color", "always", "y"],
        "1.173  \u{1b}[32m1\u{1b}[0m  \u{1b}[35mb.txt\u{1b}[0m\n",
    );
}

#[test]
fn hits_are_printed_in_their_context_as_the_options_say() {
    let directory = directory();
    let directory = directory.path();
    let check = |arguments: &[&str], expected: &str| {
        check(directory, "kwic", arguments, expected);
    };
    check(
        &["\"to\""],
        "a.txt:1                one | to | be, or not to be three four To\n\
         a.txt:5  one to be, or not | to | be three four To do\n\
         b.txt:1                 \u{e9}\u{e9} | to | y\n",
    );
    check(
        &["\"to\"", "c", "--left", "2", "--right", "0"],
        "a.txt:1     one | to |\n\
         a.txt:5  or not | to |\n\
         b.txt:1      \u{e9}\u{e9} | to |\n",
    );
    check(
        &[
            "-I",
            "--left=1",
            "--right=1",
            "--sort",
            "-R1",
            "[lc=\"to\"]",
        ],
        "1    \u{e9}\u{e9} | to | y\n\
         9  four | To | do\n\
         1   one | to | be\n\
         5   not | to | be\n",
    );
    check(
        &[
            "--sample", "2", "--seed", "1", "--left", "1", "--right", "1", "\"to\"",
        ],
        "a.txt:1  one | to | be\n\
         b.txt:1   \u{e9}\u{e9} | to | y\n",
    );
    check(
        &["--limit", "1", "--left", "1", "--right", "1", "\"to\""],
        "a.txt:1  one | to | be\n",
    );
    check(&["-c", "\"to\""], "3\n");
    check(
        &["--color", "always", "--right", "0", "\"y\""],
        "\u{1b}[35mb.txt\u{1b}[0m:\u{1b}[32m2\u{1b}[0m  \u{e9}\u{e9} to | \u{1b}[1;31my\u{1b}[0m |\n",
    );
    // Bytes are cut at whole characters.
    check(
        &[
            "--json", "--bytes", "--left", "2", "--right", "6", "\"to\"", "--sort", "-file",
        ],
        "{\"file\":\"b.txt\",\"position\":1,\"words\":1,\"offset\":5,\"length\":2,\"left\":\" \",\"hit\":\"to\",\"right\":\" y\"}\n\
         {\"file\":\"a.txt\",\"position\":1,\"words\":1,\"offset\":4,\"length\":2,\"left\":\"e\\n\",\"hit\":\"to\",\"right\":\" be, o\"}\n\
         {\"file\":\"a.txt\",\"position\":5,\"words\":1,\"offset\":18,\"length\":2,\"left\":\"t \",\"hit\":\"to\",\"right\":\" be\\nth\"}\n",
    );
}

#[test]
fn exit_codes_are_those_of_grep() {
    let directory = directory();
    let directory = directory.path();
    for (name, arguments, rows) in [
        ("search", &["absent"][..], ""),
        ("search", &["-l", "absent"], ""),
        ("search", &["-c", "absent"], "0\n"),
        ("search", &["--json", "absent"], ""),
        ("kwic", &["\"absent\""], ""),
        ("kwic", &["-c", "\"absent\""], "0\n"),
        ("kwic", &["--json", "\"absent\""], ""),
    ] {
        let ended = task(directory, name, arguments);
        let got = (ended.code, &ended.rows[..], &ended.messages[..]);
        assert_eq!(got, (Some(1), rows, ""), "{name} {arguments:?}");
    }
    for (name, arguments, message) in [
        ("search", &["a", "none"][..], "no such corpus"),
        ("search", &["a", "--limit", "few"], "invalid value"),
        ("kwic", &["\"a\"", "none"], "no such corpus"),
        ("kwic", &["\"a\"", "--sort", "Q1"], "no such key `Q1`"),
        ("kwic", &["\"a\"", "--sample", "x%"], "no size of a sample"),
    ] {
        let ended = task(directory, name, arguments);
        assert_eq!((ended.code, &ended.rows[..]), (Some(2), ""), "{ended:?}");
        assert!(ended.messages.contains(message), "{ended:?}");
    }
}

#[test]
fn an_error_of_a_query_shows_its_place() {
    let directory = directory();
    for (name, query, message) in [
        (
            "search",
            "fox AND",
            "  1 | fox AND\n    |        ^\nerror: expected a term, found the end of the query\n",
        ),
        (
            "kwic",
            "\"to\" |\n freedom",
            "  2 |  freedom\n    |  ^\nerror: expected a pattern, found `freedom`\nhint: words stand in quotes: \"word\"\n",
        ),
    ] {
        for option in ["--json", "--count"] {
            let ended = task(directory.path(), name, &[option, query]);
            let got = (ended.code, &ended.rows[..], &ended.messages[..]);
            assert_eq!(got, (Some(2), "", message));
        }
    }
}

#[test]
fn a_notice_says_that_the_default_limit_leaves_rows_out() {
    let directory = directory_with_many_files();
    for (name, query, rows, things) in [
        ("search", "word", 10, "files"),
        ("kwic", "\"word\"", 50, "hits"),
    ] {
        let count = |arguments: &[&str]| {
            let ended = task(directory.path(), name, &[&[query], arguments].concat());
            assert_eq!(ended.code, Some(0), "{ended:?}");
            (ended.rows.lines().count(), ended.messages)
        };
        let notice = format!(
            "notice: there are more {things} than these {rows}; hint: --limit 0 prints all, --count their number\n"
        );
        assert_eq!(count(&[]), (rows, notice.clone()));
        assert_eq!(count(&["--json"]), (rows, notice));
        assert_eq!(count(&["--limit", "20"]), (20, String::new()));
        assert_eq!(count(&["--limit", "0"]), (100, String::new()));
        assert_eq!(count(&["--limit", "100"]), (100, String::new()));
        assert_eq!(count(&["--count"]), (1, String::new()));
    }
}

#[test]
fn a_reader_that_leaves_ends_a_concordance_quietly() {
    let directory = directory_with_long_file();
    let import = ["c.zdb", "-c", IMPORT];
    let imported = run(zipf().current_dir(&directory).args(import));
    assert_eq!(imported.rows(), "");
    for option in ["--json", "-I"] {
        let mut child = zipf()
            .current_dir(&directory)
            .args(["kwic", "c.zdb", "\"a\"", "--limit", "0", option])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = child.stdout.take().unwrap();
        output.read_exact(&mut [0; 100]).unwrap();
        drop(output);
        let ended = Ended::new(child.wait_with_output().unwrap());
        assert_eq!((ended.code, &ended.messages[..]), (Some(0), ""), "{option}");
    }
}
