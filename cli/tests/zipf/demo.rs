//! `zipf demo`.

use std::path::Path;
use std::process::Command;

use super::{is_database, run, zipf};

fn demo(directory: &Path) -> Command {
    let mut command = zipf();
    command
        .current_dir(directory)
        .env("TMPDIR", directory)
        .env("TMP", directory)
        .arg("demo");
    command
}

#[test]
fn the_demo_builds_a_database_that_stays() {
    let directory = tempfile::tempdir().unwrap();
    let ended = run(&mut demo(directory.path()));
    let report = ended.rows();
    for part in [
        "98 files, 3,930,161 bytes",
        "gzip -6",
        "xz -6",
        "railroads",
        "17493",
        "the United States",
        " 17448 ",
        "path: ",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    assert!(
        report.contains("a world founded upon four essential human freedoms."),
        "{report}"
    );

    // The demo names the directory that it made and leaves nothing else behind.
    let path = report
        .lines()
        .find(|line| line.ends_with(".zdb"))
        .unwrap()
        .trim();
    assert!(is_database(Path::new(path)), "{path}");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
    let sql = "SELECT COUNT(*) AS n FROM sotu WHERE word = 'Moon'";
    let ended = run(zipf().args([path, "--readonly", "-c", sql]));
    assert_eq!(ended.rows(), "n\n5\n");

    let again = run(demo(directory.path()).arg(path));
    assert_eq!(
        (again.code, again.rows.as_str()),
        (Some(1), ""),
        "{again:?}"
    );
    assert!(
        again.messages.contains("exists and is a database; hint:"),
        "{again:?}"
    );
}

#[test]
fn the_demo_touches_no_directory_that_is_in_use() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("mine")).unwrap();
    std::fs::write(directory.path().join("mine/file"), "text").unwrap();
    let ended = run(demo(directory.path()).arg("mine"));
    assert_eq!(
        (ended.code, ended.rows.as_str()),
        (Some(1), ""),
        "{ended:?}"
    );
    assert!(
        ended
            .messages
            .contains("hint: give a directory that does not exist yet"),
        "{ended:?}"
    );
    assert_eq!(
        std::fs::read_dir(directory.path().join("mine"))
            .unwrap()
            .count(),
        1
    );
}
