//! `zipf-full`: statements on a database, answered by ZipfDB itself, through DataFusion or by workers, as tables on standard
//! output; databases on object stores, published, pulled and collected; and workers.
//!
//! Invariant: data goes to standard output, all else to standard error; exit code 0 is done, 1 a statement that failed, 2 wrong
//! usage. Editing, paging and formats are what `zipf` is for.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fs;
use std::io::{self, Read, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand, ValueEnum};
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use tokio::net::TcpListener;
use zipfdb::memory::give_back_large_blocks;
use zipfdb::sql::StatementStream;
use zipfdb::{Database, Value};
use zipfdb_datafusion::{Worker, WorkerLimits, WorkerOptions, WorkerPool};
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
    /// The engine that answers
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
    /// Print what was asked of the object store and came from workers, on standard error
    #[arg(long)]
    traffic: bool,
    /// Print how long each statement took, on standard error
    #[arg(long)]
    timer: bool,
    #[command(flatten)]
    workers: WorkerAddresses,
}

/// Workers, and how they are reached.
#[derive(Args)]
struct WorkerAddresses {
    /// Workers on a database on an object store: they read its segments, or make them
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',')]
    workers: Vec<String>,
    /// A file with the token that workers want
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificates (PEM) that sign those of workers; connections are encrypted with them
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Silence after which a worker is given up
    #[arg(long, value_name = "TIME", default_value = "6s", value_parser = humantime::parse_duration)]
    worker_silence: Duration,
    /// Time without rows after which another worker is asked too
    #[arg(long, value_name = "TIME", default_value = "2min", value_parser = humantime::parse_duration)]
    worker_patience: Duration,
}

/// The engine that answers.
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
    /// Have workers import what is at a path, which all of them have, to a corpus of a database on an object store: all of it
    /// becomes the next version, or nothing
    Import {
        url: String,
        corpus: String,
        path: PathBuf,
        #[command(flatten)]
        workers: WorkerAddresses,
    },
    /// Answer for segments of a database on an object store, until the process is terminated
    Worker(WorkerArguments),
    /// Remove versions that were replaced long ago, and what belongs to none
    Collect {
        url: String,
        /// Keep what was needed within this time: 90min, 2days
        #[arg(long, value_name = "TIME", default_value = "1day", value_parser = humantime::parse_duration)]
        grace: Duration,
    },
}

/// Arguments of a worker.
#[derive(Args)]
struct WorkerArguments {
    /// Where it waits for coordinators; port 0 takes a free one, which is printed
    #[arg(long, value_name = "HOST:PORT")]
    listen: String,
    /// The URL of the database
    #[arg(long, value_name = "URL")]
    database: String,
    /// A folder that keeps what was fetched
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    /// Bytes in that folder at most
    #[arg(long, value_name = "MIB", default_value = "4096")]
    cache_mib: u64,
    /// Threads; default: the number of cores of the machine
    #[arg(long, value_name = "NUMBER")]
    threads: Option<NonZero<u16>>,
    /// Memory of what is decoded and of queries, as SET memory_limit takes it: 512MiB
    #[arg(long, value_name = "SIZE")]
    memory_limit: Option<String>,
    /// Import what coordinators ask for if it lies in this folder
    #[arg(long, value_name = "FOLDER")]
    import_from: Option<PathBuf>,
    /// A folder in which segments are made before they are stored, if not the system's one for temporary files
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,
    /// A file with the token that coordinators must send
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The certificate of this worker, and what signs it (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
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
        RemoteCommand::Import {
            url,
            corpus,
            path,
            workers,
        } => {
            if workers.workers.is_empty() {
                return Err("workers import; hint: --workers HOST:PORT,...".into());
            }
            let store = RemoteStore::new(&url)?;
            let pool = Arc::new(worker_pool(&store, None, &workers)?);
            let path =
                fs::canonicalize(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let progress = |done, all| eprintln!("{done} of {all} parts");
            let imported = zipfdb_datafusion::import(&store, &pool, &corpus, &path, progress);
            let imported = tokio::runtime::Runtime::new()?.block_on(imported)?;
            for notice in &imported.notices {
                eprintln!("notice: {notice}");
            }
            let pushed = imported.pushed;
            let (version, files, uploaded) = (pushed.version, pushed.files, pushed.uploaded);
            writeln!(
                output,
                "version {version}: {files} files, {uploaded} bytes uploaded"
            )?;
        }
        RemoteCommand::Worker(arguments) => return work(arguments),
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

/// A database that is open.
struct Opened {
    database: Database,
    /// The object store that it lies on.
    store: Option<RemoteStore>,
    workers: Option<Arc<WorkerPool>>,
    context: SessionContext,
}

fn open(arguments: &Arguments) -> Result<Opened, Box<dyn Error>> {
    let name = arguments.database.as_deref().unwrap_or_default();
    if !name.contains("://") {
        if !arguments.workers.workers.is_empty() {
            let hint = "workers read databases on object stores; hint: zipf-full push DB URL";
            return Err(format!("{name}: {hint}").into());
        }
        let options = Database::options().shared(true).create(false);
        let database = options.open(name)?;
        return Ok(Opened {
            context: zipfdb_datafusion::context(&database),
            database,
            store: None,
            workers: None,
        });
    }
    let cache = cache_options(arguments.cache.clone(), arguments.cache_mib);
    let store = RemoteStore::new(name)?;
    let workers = if arguments.workers.workers.is_empty() {
        None
    } else {
        Some(Arc::new(worker_pool(
            &store,
            arguments.at,
            &arguments.workers,
        )?))
    };
    let at = workers.as_ref().map(|workers| workers.version().number);
    let database = store.open(at.or(arguments.at), Database::options(), &cache)?;
    let context = match &workers {
        None => zipfdb_datafusion::context(&database),
        Some(workers) => zipfdb_datafusion::context_with_workers(&database, workers.clone()),
    };
    Ok(Opened {
        database,
        store: Some(store),
        workers,
        context,
    })
}

/// The workers of a version, the newest if none is named.
fn worker_pool(
    store: &RemoteStore,
    at: Option<u64>,
    workers: &WorkerAddresses,
) -> Result<WorkerPool, Box<dyn Error>> {
    let mut options = WorkerOptions::default();
    options.token = workers.token_file.as_deref().map(token).transpose()?;
    options.certificates = workers.tls_ca.as_deref().map(read).transpose()?;
    options.silence = workers.worker_silence;
    options.patience = workers.worker_patience;
    let version = store.published(at)?;
    Ok(WorkerPool::new(version, &workers.workers, options)?)
}

fn cache_options(folder: Option<PathBuf>, mib: u64) -> CacheOptions {
    CacheOptions {
        folder: folder.map(|folder| (folder, mib << 20)),
        ..CacheOptions::default()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    let content = fs::read(path);
    content.map_err(|error| format!("{}: {error}", path.display()).into())
}

/// The token in a file, without what is white around it.
fn token(path: &Path) -> Result<String, Box<dyn Error>> {
    let content = String::from_utf8(read(path)?);
    let content = content.map_err(|_| format!("{}: the token is not UTF-8", path.display()))?;
    match content.trim() {
        "" => Err(format!("{}: there is no token", path.display()).into()),
        token => Ok(token.to_owned()),
    }
}

/// Answers coordinators until the process is terminated.
fn work(arguments: WorkerArguments) -> Result<(), Box<dyn Error>> {
    let mut limits = WorkerLimits::default();
    limits.cache = cache_options(arguments.cache, arguments.cache_mib);
    limits.import_from = arguments.import_from;
    limits.scratch = arguments.scratch;
    limits.threads = arguments.threads.map(|threads| usize::from(threads.get()));
    let limit = arguments.memory_limit.iter();
    limits.settings = limit
        .map(|limit| format!("SET memory_limit = '{}'", limit.replace('\'', "''")))
        .collect();
    let token = arguments.token_file.as_deref().map(token).transpose()?;
    let identity = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
        _ => None,
    };
    let store = RemoteStore::new(&arguments.database)?;
    // A database that cannot be read is an error at the start.
    let version = store.published(None)?.number;
    let worker = Worker::new(store, limits, token.as_deref())?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let listener = TcpListener::bind(&arguments.listen).await;
        let listener = listener.map_err(|error| format!("{}: {error}", arguments.listen))?;
        let address = listener.local_addr()?;
        writeln!(
            io::stdout(),
            "listening on {address}, newest version {version}"
        )?;
        Ok(worker.serve(listener, identity, ended()).await?)
    })
}

/// Waits for the signal to end.
async fn ended() {
    let interrupted = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = interrupted => {}
                _ = terminated.recv() => {}
            }
            return;
        }
    }
    // Without signals the process runs until it is killed.
    let _ = interrupted.await;
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    if arguments.engine == Engine::Own && !arguments.workers.workers.is_empty() {
        return Err("workers answer DataFusion; hint: leave --engine own out".into());
    }
    let Opened {
        database,
        store,
        workers,
        context,
    } = open(&arguments)?;
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
        let begin = Instant::now();
        let batches = match arguments.engine {
            Engine::Own => own(&database, &statement.text)?,
            Engine::DataFusion => runtime.block_on(through(&context, &statement.text))?,
        };
        if arguments.timer {
            eprintln!("{:.3} s", begin.elapsed().as_secs_f64());
        }
        if batches.iter().any(|batch| batch.num_columns() > 0) {
            writeln!(io::stdout(), "{}", pretty_format_batches(&batches)?)?;
        }
    }
    if let Some(store) = store.filter(|_| arguments.traffic) {
        let traffic = store.traffic();
        eprintln!("{} requests, {} bytes read", traffic.requests, traffic.read);
        if let Some(workers) = workers {
            eprintln!("{} bytes from workers", workers.received());
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
    let rows = database.query(sql, ())?;
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

/// The text of a value as Arrow shows it in tables, so that both engines print the same; `zipfdb::output` writes rows for programs.
fn shown(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Integer(integer) => Some(integer.to_string()),
        Value::Real(real) => Some(format!("{real:?}")),
        Value::Text(text) => Some(text),
        Value::Blob(bytes) => Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
    }
}
