//! `zipf-full`: statements on a database, answered by ZipfDB itself or through DataFusion, as tables on standard output.
//!
//! Invariant: data goes to standard output, all else to standard error; exit code 0 is done, 1 a statement that failed, 2 wrong
//! usage. Editing, paging and formats are what `zipf` is for.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use zipfdb::{Database, StatementStream, Value};

const USAGE: &str = "usage: zipf-full [--engine own|datafusion] DATABASE [-c SQL]
Without -c statements are read from standard input. The engine is datafusion by default.";

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Engine {
    Own,
    DataFusion,
}

/// What was asked for on the command line.
struct Arguments {
    engine: Engine,
    database: String,
    sql: Option<String>,
}

impl Arguments {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let (mut engine, mut database, mut sql) = (Engine::DataFusion, None, None);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--engine" => {
                    engine = match arguments.next().as_deref() {
                        Some("own") => Engine::Own,
                        Some("datafusion") => Engine::DataFusion,
                        _ => return Err("`--engine` takes `own` or `datafusion`".into()),
                    }
                }
                "-c" => sql = Some(arguments.next().ok_or("`-c` takes a text of SQL")?),
                flag if flag.starts_with('-') => return Err(format!("no such option `{flag}`")),
                _ if database.is_some() => return Err("more than one database".into()),
                _ => database = Some(argument),
            }
        }
        let database = database.ok_or("no database")?;
        Ok(Arguments {
            engine,
            database,
            sql,
        })
    }
}

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(mistake) => {
            eprintln!("error: {mistake}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let options = Database::options().shared(true).create(false);
    let database = options.open(&arguments.database)?;
    let context = zipfdb_datafusion::context(&database);
    let runtime = tokio::runtime::Runtime::new()?;
    let sql = match arguments.sql {
        Some(sql) => sql,
        None => {
            let mut sql = String::new();
            io::stdin().read_to_string(&mut sql)?;
            sql
        }
    };
    let mut statements = StatementStream::new();
    statements.feed(&sql);
    while let Some(statement) = statements
        .next_statement()
        .or_else(|| statements.finish())
        .transpose()?
    {
        let batches = match arguments.engine {
            Engine::Own => own(&database, &statement.text)?,
            Engine::DataFusion => runtime.block_on(through(&context, &statement.text))?,
        };
        if batches.iter().any(|batch| batch.num_columns() > 0) {
            writeln!(io::stdout(), "{}", pretty_format_batches(&batches)?)?;
        }
    }
    Ok(())
}

async fn through(
    context: &SessionContext,
    sql: &str,
) -> datafusion::error::Result<Vec<RecordBatch>> {
    let frame = context.sql(sql).await?;
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let mut batches = frame.collect().await?;
    if batches.is_empty() {
        batches.push(RecordBatch::new_empty(schema));
    }
    Ok(batches)
}

/// The rows of a statement as texts, in one batch.
fn own(database: &Database, sql: &str) -> Result<Vec<RecordBatch>, Box<dyn Error>> {
    let rows = database.query(sql)?;
    let names = rows.columns().iter().map(|column| column.name().to_owned());
    let fields = names.map(|name| Field::new(name, DataType::Utf8, true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut columns: Vec<Vec<Option<String>>> = vec![Vec::new(); schema.fields().len()];
    for row in rows {
        let values = row?.into_values();
        let pairs = columns.iter_mut().zip(values);
        pairs.for_each(|(column, value)| column.push(shown(value)));
    }
    if columns.is_empty() {
        return Ok(Vec::new());
    }
    let arrays = columns.into_iter();
    let arrays = arrays.map(|column| Arc::new(StringArray::from(column)) as ArrayRef);
    Ok(vec![RecordBatch::try_new(schema, arrays.collect())?])
}

fn shown(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Integer(integer) => Some(integer.to_string()),
        Value::Real(real) => Some(format!("{real:?}")),
        Value::Text(text) => Some(text),
        Value::Blob(bytes) => Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
    }
}
