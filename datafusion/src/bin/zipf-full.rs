//! `zipf-full`: statements on a database, answered by ZipfDB itself or through DataFusion, as tables on standard output; and
//! databases on object stores, published, pulled and collected.
//!
//! Invariant: data goes to standard output, all else to standard error; exit code 0 is done, 1 a statement that failed, 2 wrong
//! usage. Editing, paging and formats are what `zipf` is for.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use zipfdb::{Database, StatementStream, Value, give_back_large_blocks};
use zipfdb_remote::{CacheOptions, RemoteStore};

/// Statements on a database, answered by ZipfDB itself or through DataFusion; databases on object stores.
///
/// Without -c statements are read from standard input. Credentials, region and endpoint of an object store come from the
/// environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT, AWS_ALLOW_HTTP, ...
#[derive(Parser)]
#[command(
    name = "zipf-full",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<RemoteCommand>,
    /// A directory, or the URL of a database on an object store, which is opened for reading: s3://BUCKET/PATH
    #[arg(required = true)]
    database: Option<String>,
    /// Who answers
    #[arg(long, value_enum, default_value = "datafusion")]
    engine: Engine,
    /// The statements
    #[arg(short = 'c', value_name = "SQL")]
    sql: Option<String>,
    /// The version of a database on an object store, if not the newest
    #[arg(long, value_name = "NUMBER")]
    at: Option<u64>,
    /// A folder that keeps what was fetched of a database on an object store
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    /// Bytes in that folder at most
    #[arg(long, value_name = "MIB", default_value = "4096")]
    cache_mib: u64,
    /// Print what was asked of the object store, on standard error
    #[arg(long)]
    traffic: bool,
}

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    Own,
    #[value(name = "datafusion")]
    DataFusion,
}

#[derive(Subcommand)]
enum RemoteCommand {
    /// Publish a database on an object store as the next version, beside a writer too
    Push {
        database: PathBuf,
        url: String,
        /// Publish it whatever is there
        #[arg(long)]
        replace: bool,
    },
    /// Copy a version to a new directory
    Pull {
        url: String,
        database: PathBuf,
        /// The version, if not the newest
        #[arg(long, value_name = "NUMBER")]
        at: Option<u64>,
    },
    /// Print the numbers of the versions
    Versions { url: String },
    /// Remove versions that were replaced long ago, and what belongs to none
    Collect {
        url: String,
        /// Leave what was needed so long ago: 90min, 2days
        #[arg(long, value_name = "TIME", default_value = "1day", value_parser = humantime::parse_duration)]
        grace: Duration,
    },
}

fn main() -> ExitCode {
    give_back_large_blocks();
    let arguments = Arguments::parse();
    let done = match arguments.command {
        Some(command) => remote(command),
        None => run(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn remote(command: RemoteCommand) -> Result<(), Box<dyn Error>> {
    let mut output = io::stdout();
    match command {
        RemoteCommand::Push {
            database,
            url,
            replace,
        } => {
            let pushed = RemoteStore::new(&url)?.push(database, replace)?;
            let (version, files) = (pushed.version, pushed.files);
            let (uploaded, kept) = (pushed.uploaded, pushed.kept);
            writeln!(
                output,
                "version {version}: {files} files, {uploaded} bytes uploaded, {kept} there already"
            )?;
        }
        RemoteCommand::Pull { url, database, at } => {
            let version = RemoteStore::new(&url)?.pull(at, &database)?;
            writeln!(output, "version {version} in {}", database.display())?;
        }
        RemoteCommand::Versions { url } => {
            for version in RemoteStore::new(&url)?.versions()? {
                writeln!(output, "{version}")?;
            }
        }
        RemoteCommand::Collect { url, grace } => {
            let collected = RemoteStore::new(&url)?.collect(grace)?;
            let (versions, objects, bytes) =
                (collected.versions, collected.objects, collected.bytes);
            writeln!(
                output,
                "removed {versions} versions and {objects} objects of {bytes} bytes"
            )?;
        }
    }
    Ok(())
}

/// The database, and the object store that it lies on.
fn open(arguments: &Arguments) -> Result<(Database, Option<RemoteStore>), Box<dyn Error>> {
    let name = arguments.database.as_deref().unwrap_or_default();
    if !name.contains("://") {
        let options = Database::options().shared(true).create(false);
        return Ok((options.open(name)?, None));
    }
    let folder = arguments.cache.clone();
    let cache = CacheOptions {
        folder: folder.map(|folder| (folder, arguments.cache_mib << 20)),
        ..CacheOptions::default()
    };
    let store = RemoteStore::new(name)?;
    let database = store.open(arguments.at, Database::options(), &cache)?;
    Ok((database, Some(store)))
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let (database, store) = open(&arguments)?;
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
    if let Some(store) = store.filter(|_| arguments.traffic) {
        let traffic = store.traffic();
        eprintln!("{} requests, {} bytes read", traffic.requests, traffic.read);
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
