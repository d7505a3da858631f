//! `zipf grep`: lines, options, JSON and exit codes.

use std::path::Path;

use super::{Ended, directory_of_three, run, zipf};

/// A directory with a database of three files.
fn directory() -> tempfile::TempDir {
    directory_of_three("x to y")
}

fn grep(directory: &Path, arguments: &[&str]) -> Ended {
    run(zipf()
        .current_dir(directory)
        .args(["grep", "c.zdb"])
        .args(arguments))
}

#[track_caller]
fn check(directory: &Path, arguments: &[&str], expected: &str) {
    assert_eq!(grep(directory, arguments).rows(), expected, "{arguments:?}");
}

#[test]
fn lines_are_printed_once_each_as_the_options_say() {
    let directory = directory();
    let directory = directory.path();
    check(
        directory,
        &["to"],
        "a.txt:to be, or not to be\nb.txt:x to y\n",
    );
    check(
        directory,
        &["to", "-n", "c"],
        "a.txt:2:to be, or not to be\nb.txt:1:x to y\n",
    );
    check(directory, &["-iI", "^to"], "to be, or not to be\nTo do\n");
    check(directory, &["-w", "o|be"], "a.txt:to be, or not to be\n");
    check(directory, &["-F", "be, or"], "a.txt:to be, or not to be\n");
    check(
        directory,
        &["-o", "t[a-z]"],
        "a.txt:to\na.txt:to\na.txt:th\nb.txt:to\nc.txt:th\n",
    );
    check(directory, &["-c", "to"], "a.txt:1\nb.txt:1\n");
    check(directory, &["-co", "to"], "a.txt:2\nb.txt:1\n");
    check(directory, &["-l", "t"], "a.txt\nb.txt\nc.txt\n");
    check(
        directory,
        &["-m", "1", "o"],
        "a.txt:one\nb.txt:x to y\nc.txt:nothing\n",
    );
    check(
        directory,
        &["-vn", "o"],
        "a.txt:3:three\nc.txt:1:\nc.txt:2:\n",
    );
    check(directory, &["-cv", "o"], "a.txt:1\nc.txt:2\n");
}

#[test]
fn a_match_lies_within_a_line_unless_it_may_span_several() {
    let directory = directory();
    let directory = directory.path();
    assert_eq!(grep(directory, &["-n", "be[^x]*four"]).code, Some(1));
    check(
        directory,
        &["-nU", "be[^x]*four"],
        "a.txt:2:to be, or not to be\na.txt:3:three\na.txt:4:four\n",
    );
    check(directory, &["-n", "^$"], "c.txt:1:\nc.txt:2:\n");
    let ended = grep(directory, &["one\\nto"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.messages.contains("line feed"), "{ended:?}");
}

#[test]
fn context_is_printed_around_lines() {
    let directory = directory();
    let directory = directory.path();
    check(
        directory,
        &["-n", "-C1", "do|one"],
        "a.txt:1:one\na.txt-2-to be, or not to be\n--\na.txt-4-four\na.txt:5:To do\n",
    );
    check(
        directory,
        &["-B1", "-A1", "be|x|thing"],
        "a.txt-one\na.txt:to be, or not to be\na.txt-three\n--\nb.txt:x to y\n--\nc.txt-\nc.txt:nothing\n",
    );
}

#[test]
fn json_and_colours_are_those_of_ripgrep() {
    let directory = directory();
    let directory = directory.path();
    check(
        directory,
        &["--json", "x"],
        "{\"type\":\"begin\",\"data\":{\"path\":{\"text\":\"b.txt\"}}}\n\
         {\"type\":\"match\",\"data\":{\"path\":{\"text\":\"b.txt\"},\"lines\":{\"text\":\"x to y\"},\"line_number\":1,\
         \"absolute_offset\":0,\"submatches\":[{\"match\":{\"text\":\"x\"},\"start\":0,\"end\":1}]}}\n\
         {\"type\":\"end\",\"data\":{\"path\":{\"text\":\"b.txt\"},\"binary_offset\":null,\
         \"stats\":{\"searches_with_match\":1,\"matched_lines\":1,\"matches\":1}}}\n\
         {\"type\":\"summary\",\"data\":{\"stats\":{\"searches_with_match\":1,\"matched_lines\":1,\"matches\":1}}}\n",
    );
    check(
        directory,
        &["--color", "always", "-n", "x|y"],
        "\u{1b}[35mb.txt\u{1b}[0m:\u{1b}[32m1\u{1b}[0m:\u{1b}[1;31mx\u{1b}[0m to \u{1b}[1;31my\u{1b}[0m\n",
    );
}

#[test]
fn exit_codes_are_those_of_ripgrep() {
    let directory = directory();
    let directory = directory.path();
    let ended = grep(directory, &["absent"]);
    assert_eq!(
        (ended.code, &ended.messages[..]),
        (Some(1), ""),
        "{ended:?}"
    );
    for (arguments, message) in [
        (&["a("][..], "unclosed group"),
        (&["a", "none"], "no such corpus"),
        (&["a", "-m", "few"], "invalid value"),
    ] {
        let ended = grep(directory, arguments);
        assert_eq!((ended.code, &ended.rows[..]), (Some(2), ""), "{ended:?}");
        assert!(ended.messages.contains(message), "{ended:?}");
    }
    let ended = run(zipf()
        .current_dir(directory)
        .args(["grep", "none.zdb", "a"]));
    assert_eq!(ended.code, Some(2), "{ended:?}");
}
