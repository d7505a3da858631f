//! The scripts of the own dialect, `tests/logic/*.slt` of ZipfDB: what they select, DataFusion selects too.
//!
//! Each SELECT that ZipfDB answers is asked of DataFusion on the same database; rows are compared in any order. DataFusion
//! refuses some, whose functions and spellings it does not have; and in some the dialects mean different things.
//! `tests/scripts/refused.txt` and `differ.txt` have all of these: a statement that is not in its list fails the test, and so
//! does one that is and need not be. `UPDATE_SCRIPTS=1` writes the lists anew.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, UInt64Type};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner, parse_file};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use zipfdb::{Database, Value};

/// The outcome of the SELECTs of all scripts.
#[derive(Default)]
struct Outcome {
    same: usize,
    refused: BTreeSet<String>,
    differ: BTreeSet<String>,
}

struct Session<'a> {
    database: Database,
    directory: TempDir,
    script: String,
    runtime: &'a Runtime,
    outcome: &'a std::sync::Mutex<Outcome>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Failure(String);

fn failure(error: impl ToString) -> Failure {
    Failure(error.to_string())
}

impl DB for Session<'_> {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        if let Some(text) = sql.strip_prefix("write ") {
            self.write(text);
            return Ok(DBOutput::StatementComplete(0));
        }
        let sql = sql.replace("$DIR", &self.directory.path().to_string_lossy());
        let rows = self.database.query(&sql, ()).map_err(failure)?;
        let rows = rows.map(|row| Ok(row.map_err(failure)?.into_values()));
        let rows: Vec<Vec<Value>> = rows.collect::<Result<_, Failure>>()?;
        let statements = sql.trim_end().trim_end_matches(';');
        if statements
            .trim_start()
            .to_ascii_uppercase()
            .starts_with("SELECT")
            && !statements.contains(';')
        {
            self.compare(statements, &rows);
        }
        // What ZipfDB answers is tested there.
        Ok(DBOutput::StatementComplete(0))
    }
}

impl Session<'_> {
    fn write(&self, text: &str) {
        let (path, content) = text.split_once('\n').unwrap_or((text, ""));
        let path: PathBuf = self.directory.path().join(path.trim());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, unescaped(content)).unwrap();
    }

    fn compare(&self, sql: &str, rows: &[Vec<Value>]) {
        let line = sql.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = line.replace(&*self.directory.path().to_string_lossy(), "$DIR");
        let line = format!("{}: {line}", self.script);
        let through = self.runtime.block_on(through(&self.database, sql));
        let mut outcome = self.outcome.lock().unwrap();
        match through {
            Err(error) => {
                let error = error.to_string();
                let reason: String = error
                    .lines()
                    .take(1)
                    .flat_map(str::chars)
                    .take(80)
                    .collect();
                outcome
                    .refused
                    .insert(ascii(&format!("{line} -- {reason}")));
            }
            Ok(mut found) => {
                let mut expected: Vec<String> = rows.iter().map(|row| shown(row)).collect();
                expected.sort();
                found.sort();
                if found == expected {
                    outcome.same += 1;
                } else {
                    outcome.differ.insert(ascii(&line));
                }
            }
        }
    }
}

/// The bytes of a text with the escapes that scripts have.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let (byte, length) = match escape.as_bytes()[0] {
            b'n' => (b'\n', 1),
            b't' => (b'\t', 1),
            b'x' => (u8::from_str_radix(&escape[1..3], 16).unwrap(), 3),
            other => (other, 1),
        };
        bytes.push(byte);
        rest = &escape[length..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// A text with escapes for what is not ASCII.
fn ascii(text: &str) -> String {
    let escaped = |character: char| {
        if character.is_ascii() {
            character.to_string()
        } else {
            character.escape_unicode().to_string()
        }
    };
    text.chars().map(escaped).collect()
}

fn shown(row: &[Value]) -> String {
    let values = row.iter().map(|value| match value {
        Value::Null => "NULL".into(),
        Value::Integer(integer) => format!("{integer}"),
        Value::Real(real) => format!("{real:e}"),
        Value::Text(text) => format!("{text:?}"),
        Value::Blob(bytes) => format!("{bytes:?}"),
    });
    values.collect::<Vec<String>>().join(", ")
}

/// The rows of a statement through DataFusion, as `shown` has them.
async fn through(database: &Database, sql: &str) -> datafusion::error::Result<Vec<String>> {
    let context = zipfdb_datafusion::context(database);
    let batches = context.sql(sql).await?.collect().await?;
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let value = |column: &datafusion::arrow::array::ArrayRef| value(column, row);
            let values: Vec<Value> = batch.columns().iter().map(value).collect();
            rows.push(shown(&values));
        }
    }
    Ok(rows)
}

fn value(column: &dyn Array, row: usize) -> Value {
    if column.is_null(row) || *column.data_type() == DataType::Null {
        return Value::Null;
    }
    match column.data_type() {
        DataType::Int64 => Value::Integer(column.as_primitive::<Int64Type>().value(row)),
        DataType::Int32 => Value::Integer(column.as_primitive::<Int32Type>().value(row).into()),
        DataType::UInt64 => Value::Integer(column.as_primitive::<UInt64Type>().value(row) as i64),
        DataType::Float64 => Value::Real(column.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8View => Value::Text(column.as_string_view().value(row).into()),
        DataType::Utf8 => Value::Text(column.as_string::<i32>().value(row).into()),
        DataType::LargeUtf8 => Value::Text(column.as_string::<i64>().value(row).into()),
        DataType::Binary => Value::Blob(column.as_binary::<i32>().value(row).into()),
        DataType::LargeBinary => Value::Blob(column.as_binary::<i64>().value(row).into()),
        // Conditions are 0 and 1 in the own dialect.
        DataType::Boolean => Value::Integer(i64::from(column.as_boolean().value(row))),
        other => Value::Text(format!("{other}")),
    }
}

#[test]
fn what_scripts_select_datafusion_selects_too() {
    let logic = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/logic");
    let mut scripts: Vec<PathBuf> = fs::read_dir(logic)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .collect();
    scripts.sort();
    let runtime = Runtime::new().unwrap();
    let outcome = std::sync::Mutex::<Outcome>::default();
    for path in scripts {
        let script = path.file_stem().unwrap().to_string_lossy().into_owned();
        let session = async || {
            let directory = TempDir::new().unwrap();
            let database = Database::open(directory.path().join("logic.zdb"));
            Ok(Session {
                database: database.map_err(failure)?,
                directory,
                script: script.clone(),
                runtime: &runtime,
                outcome: &outcome,
            })
        };
        let mut runner = Runner::new(session);
        for record in parse_file(&path).unwrap() {
            // Errors that a script expects, and rows that are not compared here.
            let _ = runner.run(record);
        }
    }
    let outcome = outcome.into_inner().unwrap();
    let lists = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    for (name, found) in [
        ("refused.txt", &outcome.refused),
        ("differ.txt", &outcome.differ),
    ] {
        let path = lists.join(name);
        if std::env::var_os("UPDATE_SCRIPTS").is_some() {
            let lines = found.iter().map(|line| format!("{line}\n"));
            fs::write(&path, lines.collect::<String>()).unwrap();
        }
        let listed = fs::read_to_string(&path).unwrap();
        let listed: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
        let more: Vec<_> = found.difference(&listed).collect();
        let fewer: Vec<_> = listed.difference(found).collect();
        assert!(more.is_empty(), "{name} does not have {more:#?}");
        assert!(fewer.is_empty(), "{name} need not have {fewer:#?}");
    }
    let (same, refused, differ) = (outcome.same, outcome.refused.len(), outcome.differ.len());
    println!("{same} are the same, {refused} refused, {differ} differ");
    assert!(same > 500, "{same}");
}
