//! Rows as text: COPY writes what is printed, and readers of other languages get the values.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Ended, run, zipf};

const FORMATS: [&str; 4] = ["csv", "tsv", "json", "jsonl"];

/// Values as SQL, and what Python is to read: the type, and the value as Python or as hexadecimal digits of UTF-8.
const VALUES: [(&str, &str); 20] = [
    ("NULL", "null"),
    ("''", "text "),
    ("7", "integer 7"),
    ("-9223372036854775807 - 1", "integer -9223372036854775808"),
    ("1.0", "real 1.0"),
    ("-1.0 * 0", "real -0.0"),
    ("0.1 + 0.2", "real 0.30000000000000004"),
    ("1e15", "real 1000000000000000.0"),
    ("1e16", "real 1e+16"),
    ("-4.9e-324", "real -5e-324"),
    ("1e300 * 1e10", "real inf"),
    ("-1e300 * 1e10", "real -inf"),
    ("X'00ff'", "blob 00ff"),
    ("X''", "text "),
    ("CAST('a,\"' AS BLOB)", "text 612c22"),
    ("'X''00ff'''", "text 58273030666627"),
    ("'\\N'", "text 5c4e"),
    ("' a|b;'", "text 20617c623b"),
    (
        "char(1, 9, 10, 13, 34, 44, 92, 127)",
        "text 01090a0d222c5c7f",
    ),
    (
        "char(133, 233, 8232, 8233, 128512)",
        "text c285c3a9e280a8e280a9f09f9880",
    ),
];

/// Reads what was written, by the recipes of docs/SQL.md, and prints one value a line.
const READER: &str = r#"
import csv, json, re, sys

def shown(value):
    if value is None: return "null"
    if isinstance(value, int): return f"integer {value}"
    if isinstance(value, float): return f"real {value!r}"
    if isinstance(value, dict): return "blob " + value["hex"]
    return "text " + value.encode().hex()

def unescaped(field):
    letters = {"t": "\t", "n": "\n", "r": "\r"}
    return None if field == r"\N" else re.sub(r"\\(.)", lambda m: letters.get(m[1], m[1]), field)

def of_types(values):
    # Texts do not say of which type they are.
    for value, kind in zip(values, sys.argv[3:], strict=True):
        kind = kind.split(" ")[0]
        if kind == "blob" and re.fullmatch("X'[0-9a-f]*'", value): yield {"hex": value[2:-1]}
        elif kind == "null" and not value: yield None
        else: yield {"integer": int, "real": float}.get(kind, str)(value)

form, path = sys.argv[1:3]
file = open(path, encoding="utf-8", newline="\n" if form == "tsv" else "")
if form == "json": values = [row["v"] for row in json.load(file)]
# What a line is, Python has several rules for.
if form == "jsonl": values = [json.loads(line)["v"] for line in file.read().splitlines()]
if form == "csv": values = of_types([row["v"] for row in csv.DictReader(file)])
if form == "tsv": values = of_types([unescaped(line[:-1].split("\t")[1]) for line in file][1:])
for value in values: print(shown(value))
"#;

/// Runs a statement, printed in a format.
fn printed(directory: &Path, format: &str, sql: &str) -> Ended {
    let arguments = ["c.zdb", "--format", format, "-c", sql];
    run(zipf().current_dir(directory).args(arguments))
}

/// Runs COPY of the rows of a statement; gives the file as what was printed.
fn copied(directory: &Path, format: &str, sql: &str) -> Ended {
    let sql = format!("COPY ({sql}) TO 'rows' WITH (format = '{format}')");
    let mut ended = run(zipf().current_dir(directory).args(["c.zdb", "-c", &sql]));
    assert_eq!((ended.code, &*ended.rows), (Some(0), ""), "{ended:?}");
    ended.rows = fs::read_to_string(directory.join("rows")).unwrap();
    ended
}

/// A directory with the database `c.zdb`: words that are special in some format, and no UTF-8, so often that their texts are
/// looked through once for all rows.
fn directory_with_awkward_database() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let texts = directory.path().join("texts");
    fs::create_dir(&texts).unwrap();
    let words: [&[u8]; 8] = [
        b"plain",
        b"a,b",
        b"\"q\"",
        b"\\N",
        b"X'00ff'",
        b"caf\xe9",
        "\u{e9}\u{2028}".as_bytes(),
        b"a-word-of-more-than-sixteen-bytes",
    ];
    let many: Vec<&[u8]> = (0..9000).map(|number| words[number * 3 % 8]).collect();
    fs::write(texts.join("many, \"words\""), many.join(&b' ')).unwrap();
    fs::write(texts.join("bytes"), [0, 0xff, b'\n', b'"']).unwrap();
    fs::write(texts.join("empty"), "").unwrap();
    fs::write(texts.join("long"), "line, \"quoted\"\r\n".repeat(20_000)).unwrap();
    let sql = "CREATE CORPUS c WITH (tokenizer = 'whitespace'); COPY c FROM 'texts'";
    let ended = run(zipf().current_dir(&directory).args(["c.zdb", "-c", sql]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    directory
}

/// A row for each of the values.
fn values_sql() -> String {
    let rows = VALUES.iter().enumerate();
    let rows = rows.map(|(number, (sql, _))| format!("SELECT {number} AS number, {sql} AS v"));
    rows.collect::<Vec<String>>().join(" UNION ALL ") + " ORDER BY 1"
}

#[test]
fn copy_writes_what_is_printed() {
    let directory = directory_with_awkward_database();
    let values = values_sql();
    for sql in [
        &*values,
        "SELECT file, content, bytes FROM files('c') ORDER BY file",
        "SELECT word, file, offset FROM c ORDER BY file, offset",
        "SELECT ngram, COUNT(*) AS n, 1.5 AS r, NULL AS x FROM ngrams('c', 2) GROUP BY ngram, offset ORDER BY ngram, offset",
        "SELECT word FROM c WHERE word = 'none'",
        "SELECT NULL",
        "SELECT '' AS \"X'00ff'\", 1 AS \"a,b\", 2 AS \"a\tb\"",
        "SELECT 1 AS x, 2 AS x, 3 AS \"x_2\", 4 AS \"X\"",
        "SELECT COUNT(*) AS n FROM c WHERE word = 'of the'",
    ] {
        for format in FORMATS {
            let printed = printed(directory.path(), format, sql);
            let copied = copied(directory.path(), format, sql);
            assert_eq!(printed.code, Some(0), "{printed:?}");
            // Not `assert_eq`, for they are long.
            assert!(printed.rows == copied.rows, "{format}: {sql}");
            assert_eq!(printed.messages, copied.messages, "{format}: {sql}");
        }
    }
}

#[test]
fn columns_of_one_name_are_reported_and_renamed() {
    let directory = tempfile::tempdir().unwrap();
    let sql = "SELECT 1 AS x, 2 AS x, 3 AS x_2";
    let notice = "notice: columns of one name are written under names of their own: \"x_3\"; hint: AS names a column\n";
    for (format, expected) in [
        ("csv", "x,x_3,x_2\n1,2,3\n"),
        ("tsv", "x\tx_3\tx_2\n1\t2\t3\n"),
        ("json", "[\n{\"x\":1,\"x_3\":2,\"x_2\":3}\n]\n"),
        ("jsonl", "{\"x\":1,\"x_3\":2,\"x_2\":3}\n"),
    ] {
        let printed = printed(directory.path(), format, sql);
        assert_eq!((&*printed.rows, &*printed.messages), (expected, notice));
        let copied = copied(directory.path(), format, sql);
        assert_eq!((&*copied.rows, &*copied.messages), (expected, notice));
    }
    let table = printed(directory.path(), "markdown", sql);
    assert_eq!(
        table.rows(),
        "| x | x | x\\_2 |\n| --- | --- | --- |\n| 1 | 2 | 3 |\n"
    );
}

/// Whether a program is there; says so if not.
fn is_there(program: &str) -> bool {
    let mut command = Command::new(program);
    let command = command.arg("--version").stdout(Stdio::null());
    let is_there = command.status().is_ok_and(|status| status.success());
    if !is_there {
        eprintln!("skipped: no {program}");
    }
    is_there
}

#[test]
fn python_reads_the_values() {
    if !is_there("python3") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let sql = values_sql();
    let types = VALUES.map(|(_, read)| read);
    for format in FORMATS {
        fs::write(
            directory.path().join("rows"),
            printed(directory.path(), format, &sql).rows(),
        )
        .unwrap();
        let mut python = Command::new("python3");
        let read = run(python
            .current_dir(&directory)
            .args(["-c", READER, format, "rows"])
            .args(types));
        assert_eq!(
            read.rows().lines().collect::<Vec<&str>>(),
            types,
            "{format}"
        );
    }
}

#[test]
fn jq_reads_the_values() {
    if !is_there("jq") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let kinds = VALUES.map(|(_, read)| match read.split(' ').next() {
        Some("null") => "null",
        Some("blob") => "object",
        Some("text") => "string",
        _ if read.ends_with("inf") => "infinite",
        _ => "number",
    });
    let filter = "if type == \"number\" and isinfinite then \"infinite\" else type end";
    for (format, filter) in [
        ("json", format!(".[].v | {filter}")),
        ("jsonl", format!(".v | {filter}")),
    ] {
        let rows = printed(directory.path(), format, &values_sql());
        fs::write(directory.path().join("rows"), rows.rows()).unwrap();
        let mut jq = Command::new("jq");
        let read = run(jq.current_dir(&directory).args(["-r", &filter, "rows"]));
        assert_eq!(
            read.rows().lines().collect::<Vec<&str>>(),
            kinds,
            "{format}"
        );
    }
}
