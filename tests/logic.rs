//! Runs the sqllogictest scripts `tests/logic/*.slt`, each against an empty database of its own.
//!
//! Invariant: a script sees only what it made itself and the speeches of `cli/sample`, so scripts run in any order and
//! at once. Expected values are in the scripts and come from elsewhere, never from this database.
//!
//! Besides SQL a statement can be `write PATH`, with the content of that file in the lines below: `\n`, `\t`, `\\` and
//! `\xff` stand for a line feed, a tab, a backslash and any byte. `$DIR` is the script's own directory, also in SQL.
//! Columns of a result are parted by tabs. NULL is `NULL`, a BLOB `X'00ff'`, a text without characters `(empty)`; a text
//! with spaces around it stands in quotes, and control characters in texts are written as in Rust.

use std::fs;
use std::path::{Path, PathBuf};

use sqllogictest::harness::{Arguments, Failed, Trial, glob, run};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner, parse_file, strict_column_validator};
use tempfile::TempDir;
use zipfdb::{Database, Value};

fn main() {
    let scripts = glob("tests/logic/*.slt").expect("the pattern is valid");
    let tests: Vec<Trial> = scripts
        .map(|path| path.expect("tests/logic can be read"))
        .map(|path| Trial::test(name(&path), move || run_script(&path)))
        .collect();
    assert!(!tests.is_empty(), "tests/logic holds no script");
    run(&Arguments::from_args(), tests).exit();
}

fn name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// Runs all of a script and reports everything that fails.
fn run_script(path: &Path) -> Result<(), Failed> {
    let mut runner = Runner::new(async || Session::open());
    runner.with_normalizer(String::clone);
    runner.with_validator(|_, actual, expected| {
        let actual = actual.iter().map(|row| row.join("\t"));
        actual.eq(expected.iter().map(String::as_str))
    });
    runner.with_column_validator(strict_column_validator);
    let failures: Vec<String> = parse_file(path)?
        .into_iter()
        .filter_map(|record| runner.run(record).err())
        .map(|failure| failure.to_string())
        .collect();
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures.join("\n\n").into())
    }
}

/// A database with the directory it lies in.
struct Session {
    database: Database,
    directory: TempDir,
}

/// Why a statement of a script failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Database(#[from] zipfdb::Error),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(
        "`write` takes a path and escapes that are `\\n`, `\\t`, `\\\\` or `\\x` with two digits"
    )]
    Write,
}

impl Session {
    fn open() -> Result<Session, Failure> {
        let directory = TempDir::new()?;
        Ok(Session {
            database: Database::open(directory.path().join("logic.zdb"))?,
            directory,
        })
    }

    /// Writes a file of the script's directory.
    fn write(&self, text: &str) -> Result<(), Failure> {
        let (path, content) = text.split_once('\n').unwrap_or((text, ""));
        let path: PathBuf = self.directory.path().join(path.trim());
        fs::create_dir_all(path.parent().ok_or(Failure::Write)?)?;
        fs::write(path, unescape(content).ok_or(Failure::Write)?)?;
        Ok(())
    }
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let (byte, length) = match escape.as_bytes().first()? {
            b'n' => (b'\n', 1),
            b't' => (b'\t', 1),
            b'\\' => (b'\\', 1),
            b'x' => (u8::from_str_radix(escape.get(1..3)?, 16).ok()?, 3),
            _ => return None,
        };
        bytes.push(byte);
        rest = &escape[length..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

impl DB for Session {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        if let Some(text) = sql.strip_prefix("write ") {
            self.write(text)?;
            return Ok(DBOutput::StatementComplete(0));
        }
        let sql = sql.replace("$DIR", &self.directory.path().to_string_lossy());
        let rows = self.database.query(&sql, ())?;
        let columns = rows.columns().len();
        let rows = rows
            .map(|row| row.map(zipfdb::Row::into_values))
            .collect::<Result<Vec<Vec<Value>>, _>>()?;
        if columns == 0 {
            return Ok(DBOutput::StatementComplete(0));
        }
        Ok(DBOutput::Rows {
            types: (0..columns)
                .map(|column| column_type(&rows, column))
                .collect(),
            rows: (rows.iter())
                .map(|row| row.iter().map(show).collect())
                .collect(),
        })
    }

    fn engine_name(&self) -> &str {
        "zipfdb"
    }
}

/// The type that all values of a column have that are not NULL.
fn column_type(rows: &[Vec<Value>], column: usize) -> DefaultColumnType {
    let mut types = (rows.iter()).filter_map(|row| match &row[column] {
        Value::Null => None,
        Value::Integer(_) => Some(DefaultColumnType::Integer),
        Value::Real(_) => Some(DefaultColumnType::FloatingPoint),
        Value::Text(_) => Some(DefaultColumnType::Text),
        Value::Blob(_) => Some(DefaultColumnType::Any),
    });
    let first = types.next().unwrap_or(DefaultColumnType::Any);
    if types.all(|other| other == first) {
        first
    } else {
        DefaultColumnType::Any
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::Text(text) if text.is_empty() => "(empty)".into(),
        Value::Text(text) => {
            let mut shown = String::new();
            for character in text.chars() {
                if character.is_control() {
                    shown.extend(character.escape_debug());
                } else {
                    shown.push(character);
                }
            }
            if text.starts_with(' ') || text.ends_with(' ') {
                format!("'{shown}'")
            } else {
                shown
            }
        }
        value => value.to_string(),
    }
}
