//! `zipf pack` and `zipf unpack`.

use std::fs;
use std::path::Path;

use super::{Ended, run, zipf};

fn zipf_in(directory: &Path, arguments: &[&str]) -> Ended {
    run(zipf().current_dir(directory).args(arguments))
}

#[test]
fn files_are_packed_and_unpacked_to_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let text = "Four score and seven years ago our fathers brought forth.\n".repeat(20_000);
    fs::write(directory.join("text"), &text).unwrap();
    fs::write(directory.join("empty"), "").unwrap();
    let cases: [&[&str]; 4] = [
        &["--codec", "byte"],
        &["--codec", "bit"],
        &[
            "--codec",
            "byte",
            "--de",
            "--block-size",
            "65536",
            "--level",
            "1",
        ],
        &["--codec", "bit", "--de", "--window", "8192", "--level", "9"],
    ];
    for (number, options) in cases.into_iter().enumerate() {
        for source in ["text", "empty"] {
            let (packed, back) = (
                format!("{source}{number}.packed"),
                format!("{source}{number}"),
            );
            let arguments = [&["pack", source, &packed], options].concat();
            let ended = zipf_in(directory, &arguments);
            assert_eq!(
                (ended.code, ended.rows.as_str()),
                (Some(0), ""),
                "{ended:?}"
            );
            let ended = zipf_in(directory, &["unpack", &packed, &back]);
            assert_eq!(ended.code, Some(0), "{ended:?}");
            let read = |name: &str| fs::read(directory.join(name)).unwrap();
            assert!(read(&back) == read(source), "{options:?}");
            assert!(source == "empty" || read(&packed).len() < text.len() / 4);
        }
    }
}

#[test]
fn what_cannot_be_packed_or_unpacked_says_why_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fs::write(
        directory.join("text"),
        "some text, some more text ".repeat(100),
    )
    .unwrap();
    let fails = |arguments: &[&str], expected: &str| {
        let ended = zipf_in(directory, arguments);
        assert_eq!(
            (ended.code, ended.rows.as_str()),
            (Some(1), ""),
            "{ended:?}"
        );
        assert!(ended.messages.contains(expected), "{ended:?}");
    };
    fails(
        &["pack", "nothing", "out", "--codec", "bit"],
        "cannot pack: cannot open nothing: ",
    );
    fails(
        &["pack", ".", "out", "--codec", "bit"],
        "it is no regular file; hint: ",
    );
    fails(
        &["pack", "text", "text", "--codec", "bit"],
        "text: it exists; hint: ",
    );
    fails(
        &["pack", "text", "no/out", "--codec", "bit"],
        "cannot create no/out: ",
    );
    fails(
        &["unpack", "text", "out"],
        "cannot unpack: text: not packed text",
    );
    let ended = zipf_in(directory, &["pack", "text", "packed", "--codec", "byte"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let mut bytes = fs::read(directory.join("packed")).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    bytes[100] ^= 1;
    fs::write(directory.join("damaged"), &bytes).unwrap();
    fails(
        &["unpack", "damaged", "out"],
        "cannot unpack: damaged: block 0",
    );
    fs::write(directory.join("damaged"), &bytes[..bytes.len() - 4]).unwrap();
    fails(&["unpack", "damaged", "out"], "header and block table say");
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["damaged", "packed", "text"]);
}
