//! Suites `search` and `records` on a corpus of a few files: all parts run, engines agree, and the JSON has the tables.
//!
//! Nothing depends on time: a row is there or not, and an answer is compared by the suite itself. Needs the feature
//! `smoke-tests`, since it builds the other engines.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Queries of every tag, as the file of the benchmark has them.
const QUERIES: &str = r#"{"query": "the", "tags": ["term"]}
{"query": "+quick +fox", "tags": ["intersection", "global", "intersection:num_tokens_2"]}
{"query": "\"quick brown fox\"", "tags": ["phrase", "phrase:num_tokens_3"]}
{"query": "quick dog", "tags": ["union", "global", "union:num_tokens_2"]}
{"query": "+quick lazy", "tags": ["intersection_union"]}
{"query": "+quick -lazy", "tags": ["negated"]}
{"query": "+\"the quick\" dog", "tags": ["two-phase-critic"]}
"#;

/// Some files of words in an order that depends on the number of the file; one has bytes that are no UTF-8.
fn write_corpus(folder: &Path) -> std::io::Result<()> {
    let words = [
        "The", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "in", "1984.",
    ];
    fs::create_dir(folder)?;
    for file in 0..12usize {
        let mut text = Vec::new();
        for line in 0..60 {
            for word in 0..9 {
                let number = if line % 3 == 0 {
                    word
                } else {
                    word * (file + 2) + line
                };
                text.extend_from_slice(words[number % words.len()].as_bytes());
                text.push(b' ');
            }
            if file == 5 {
                text.extend_from_slice(b"caf\xe9 \xff\xfe");
            }
            text.push(b'\n');
        }
        fs::write(folder.join(format!("{file}.txt")), text)?;
    }
    Ok(())
}

/// Runs the suite with further options and gives its JSON.
fn search(options: &[&str]) -> Value {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let [corpus, queries, json] =
        ["corpus", "queries.jsonl", "search.json"].map(|name| scratch.path().join(name));
    write_corpus(&corpus).expect("files");
    fs::write(&queries, QUERIES).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_zipfdb-bench"));
    command.args(["search", "--runs", "2", "--budget", "60", "--corpus"]);
    command.arg(&corpus).arg("--queries").arg(&queries);
    command
        .arg("--json")
        .arg(&json)
        .arg("--directory")
        .arg(scratch.path());
    let output = command.args(options).output().expect("the program starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = fs::read_to_string(&json).expect("JSON");
    serde_json::from_str(&text).expect("JSON")
}

/// The names of the rows of a table of a corpus.
fn rows(json: &Value, corpus: usize, title: &str) -> Vec<String> {
    let tables = json["corpora"][corpus]["tables"]
        .as_array()
        .expect("tables");
    let found = tables.iter().find(|table| table["title"] == title);
    let rows = found.unwrap_or_else(|| panic!("no table `{title}`"))["rows"].as_array();
    let rows = rows.expect("rows").iter();
    rows.map(|row| row["name"].as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn all_parts_of_search_run_and_agree() {
    let json = search(&["--revisions", "0.05"]);
    let by_tag = rows(&json, 0, "files, us");
    for tag in [
        "term",
        "intersection",
        "phrase",
        "union",
        "intersection_union",
        "negated",
        "two-phase-critic",
    ] {
        for kind in ["count", "top 10"] {
            let name = format!("{kind}: {tag}");
            assert!(by_tag.contains(&name), "no row `{name}` in {by_tag:?}");
        }
    }
    let sizes = rows(&json, 0, "size");
    assert!(sizes.contains(&"tantivy, index".to_owned()), "{sizes:?}");
    assert!(sizes.contains(&"FTS5, index".to_owned()), "{sizes:?}");
    assert_eq!(rows(&json, 0, "pattern, ms").len(), 50);
    let classes = rows(&json, 0, "grep, ms");
    assert!(
        classes.contains(&"frequent literals".to_owned()),
        "{classes:?}"
    );
    assert!(rows(&json, 0, "spans, ms").len() >= 15);
    for corpus in 0..2 {
        assert_eq!(rows(&json, corpus, "any length, us").len(), 5);
        assert_eq!(rows(&json, corpus, "ns a place or byte").len(), 4);
        assert_eq!(rows(&json, corpus, "database").len(), 4);
    }
    assert_eq!(json["corpora"][1]["name"], "revisions.txt");
    assert_eq!(json["corpora"][1]["bytes"], 50_000);
}

#[test]
fn files_are_cut_into_pages() {
    let json = search(&["--parts", "files", "--page-bytes", "500"]);
    let corpus = &json["corpora"][0];
    assert_eq!(corpus["name"], "corpus-pages");
    assert!(corpus["files"].as_u64().expect("a number") > 50);
    assert_eq!(rows(&json, 0, "files, us").len(), 14);
}

#[test]
fn records_of_all_workloads_come_in_and_are_counted() {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let [corpus, json, kept] =
        ["corpus", "records.json", "kept"].map(|name| scratch.path().join(name));
    write_corpus(&corpus).expect("files");
    let mut command = Command::new(env!("CARGO_BIN_EXE_zipfdb-bench"));
    command.args([
        "records", "--runs", "1", "--scale", "0.001", "--word", "quick",
    ]);
    command
        .arg("--corpus")
        .arg(&corpus)
        .arg("--json")
        .arg(&json);
    command
        .arg("--keep")
        .arg(&kept)
        .arg("--directory")
        .arg(scratch.path());
    let output = command.output().expect("the program starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = fs::read_to_string(&json).expect("JSON");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let names = ["posts", "short", "log", "files", "archive"];
    for (number, name) in names.into_iter().enumerate() {
        let found = json["corpora"][number]["name"].as_str().expect("a name");
        assert_eq!(found, format!("{name} of corpus"));
        let imports = rows(&json, number, "import");
        assert!(imports.contains(&"ZipfDB, COPY".to_owned()), "{imports:?}");
        let questions = rows(&json, number, "ms");
        assert!(
            questions.contains(&"10000 look-ups by name".to_owned()),
            "{questions:?}"
        );
    }
    assert!(kept.join("posts.jsonl").is_file());
    assert!(kept.join("access.log").is_file());
}
