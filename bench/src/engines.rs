//! The engines that suites compare, and the child process that one run of one engine is.
//!
//! An engine's `ingest` takes a corpus to a durable database in an empty directory; time, memory and the size of that
//! directory are taken here, the same way for all. What an engine is configured to do is in its own file.

pub mod fts5;
pub mod ours;
pub mod tantivy;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use zipfdb::IngestMode;

use crate::corpus::Corpus;
use crate::{Options, Result};

/// A database engine under comparison.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    Ours,
    /// As [`Engine::Ours`], with text that is packed first; only where ingest and sizes are measured.
    Packed,
    Fts5,
    Tantivy,
}

impl Engine {
    /// All of them, in the order of the table.
    pub const ALL: [Engine; 3] = [Engine::Ours, Engine::Fts5, Engine::Tantivy];

    /// Engines that text is given to, in the order of the table.
    pub const INGESTING: [Engine; 4] =
        [Engine::Ours, Engine::Packed, Engine::Fts5, Engine::Tantivy];

    /// Its name for `--only`, `--engine` and in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Ours => "ours",
            Engine::Packed => "packed",
            Engine::Fts5 => "fts5",
            Engine::Tantivy => "tantivy",
        }
    }

    /// Its name in tables.
    pub fn title(self) -> &'static str {
        match self {
            Engine::Ours => "ZipfDB",
            Engine::Packed => "ZipfDB, packed text",
            Engine::Fts5 => "SQLite FTS5",
            Engine::Tantivy => "tantivy",
        }
    }

    /// What a reader of a table must know about how it was run, as a sentence.
    pub fn configuration(self, threads: usize) -> String {
        match self {
            Engine::Ours => ours::configuration(threads),
            Engine::Packed => ours::configuration_of_packed(),
            Engine::Fts5 => fts5::configuration(),
            Engine::Tantivy => tantivy::configuration(threads),
        }
    }
}

/// What the stages of our own ingest are, as a sentence.
pub fn stages_of_ours() -> String {
    ours::stages()
}

/// Whether a database is built for the clock or for the scales.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Purpose {
    /// Until everything is durable and can be queried, and no further.
    Ingest,
    /// Afterwards as small as the engine can make it.
    Size,
}

/// One engine's run over one corpus.
#[derive(Args)]
pub struct Job {
    #[arg(long)]
    pub engine: Engine,
    #[arg(long)]
    pub purpose: Purpose,
    #[arg(long)]
    pub corpus: PathBuf,
    /// An empty directory for the database.
    #[arg(long)]
    pub directory: PathBuf,
    #[arg(long)]
    pub threads: usize,
}

/// What an engine reports about its own run.
#[derive(Default)]
pub struct Account {
    /// Seconds of the stages it has, in order.
    pub stages: Vec<(String, f64)>,
    /// Bytes of the parts that its database has, in order.
    pub parts: Vec<(String, u64)>,
}

/// What one run was and cost.
#[derive(Clone, Serialize, Deserialize)]
pub struct Outcome {
    pub engine: Engine,
    /// Bytes of text.
    pub bytes: u64,
    /// From the first read to a durable database.
    pub seconds: f64,
    /// User and system time of all threads.
    pub cpu_seconds: f64,
    pub stages: Vec<(String, f64)>,
    /// Bytes of all files of the database.
    pub size: u64,
    pub parts: Vec<(String, u64)>,
    /// Largest resident set.
    pub memory_max: u64,
    /// Bytes that came from the disk and not from the page cache; none where the system does not report
    /// it.
    pub disk_bytes_read: Option<u64>,
}

/// Where a suite builds the database of one engine, gone when dropped.
pub fn database_directory(options: &Options) -> Result<TempDir> {
    Ok(match &options.directory {
        Some(parent) => tempfile::tempdir_in(parent)?,
        None => tempfile::tempdir()?,
    })
}

/// Builds a database in a process of its own, to be thrown away.
pub fn run_job(
    engine: Engine,
    purpose: Purpose,
    corpus: &Corpus,
    options: &Options,
) -> Result<Outcome> {
    build(
        engine,
        purpose,
        corpus,
        database_directory(options)?.path(),
        options,
    )
}

/// Builds a database in `directory`, in a process of its own with nothing of the corpus in the page cache.
pub fn build(
    engine: Engine,
    purpose: Purpose,
    corpus: &Corpus,
    directory: &Path,
    options: &Options,
) -> Result<Outcome> {
    eprintln!("{}: {}", corpus.name, engine.title());
    corpus.drop_cached()?;
    let purpose = match purpose {
        Purpose::Ingest => "ingest",
        Purpose::Size => "size",
    };
    run_self(
        "child",
        &[
            ("--engine", engine.name().as_ref()),
            ("--purpose", purpose.as_ref()),
            ("--corpus", corpus.path.as_os_str()),
            ("--directory", directory.as_os_str()),
            ("--threads", options.threads.to_string().as_ref()),
        ],
    )
}

/// Runs a subcommand of this program in a process of its own and waits for the JSON that it prints.
pub fn run_self<T: DeserializeOwned>(subcommand: &str, arguments: &[(&str, &OsStr)]) -> Result<T> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(subcommand);
    for (name, value) in arguments {
        command.arg(name).arg(value);
    }
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        let arguments = arguments.iter().map(|(_, value)| value.to_string_lossy());
        let arguments: Vec<_> = arguments.collect();
        return Err(format!(
            "{subcommand} {} failed: {}",
            arguments.join(" "),
            output.status
        )
        .into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The child's side: does the job and prints the outcome.
pub fn run_child(job: &Job) -> Result<()> {
    let corpus = Corpus::open(&job.corpus)?;
    let start = Instant::now();
    let account = match job.engine {
        Engine::Ours => ours::ingest(job, &corpus, IngestMode::Grammar)?,
        Engine::Packed => ours::ingest(job, &corpus, IngestMode::Fast)?,
        Engine::Fts5 => fts5::ingest(job, &corpus)?,
        Engine::Tantivy => tantivy::ingest(job, &corpus)?,
    };
    let seconds = start.elapsed().as_secs_f64();
    let mut parts = account.parts;
    if parts.is_empty() {
        parts = sizes_by_extension(&job.directory)?;
    }
    let outcome = Outcome {
        engine: job.engine,
        bytes: corpus.size(),
        seconds,
        cpu_seconds: cpu_seconds()?,
        stages: account.stages,
        size: directory_size(&job.directory)?,
        parts,
        memory_max: memory_max()?,
        disk_bytes_read: disk_bytes_read(),
    };
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

/// All files below `directory`.
pub fn files_below(directory: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let mut files = Vec::new();
    let mut pending = vec![directory.to_path_buf()];
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(&next)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                pending.push(entry.path());
            } else {
                files.push((entry.path(), metadata.len()));
            }
        }
    }
    files.sort();
    Ok(files)
}

pub fn directory_size(directory: &Path) -> Result<u64> {
    Ok(files_below(directory)?.iter().map(|(_, size)| size).sum())
}

fn sizes_by_extension(directory: &Path) -> Result<Vec<(String, u64)>> {
    let mut sizes: Vec<(String, u64)> = Vec::new();
    for (path, size) in files_below(directory)? {
        let extension = path.extension().map_or_else(
            || "other".to_owned(),
            |name| name.to_string_lossy().into_owned(),
        );
        match sizes.iter_mut().find(|(name, _)| *name == extension) {
            Some((_, sum)) => *sum += size,
            None => sizes.push((extension, size)),
        }
    }
    Ok(sizes)
}

/// Largest resident set of this process. Not `ru_maxrss`: that one starts at the parent's.
pub fn memory_max() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let kibibytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|value| value.trim().trim_end_matches(" kB").parse::<u64>().ok())
        .ok_or("/proc/self/status: no VmHWM")?;
    Ok(kibibytes * 1024)
}

/// Lets [`memory_max`] start again from what is resident now, where the system can.
pub fn reset_memory_max() {
    // Without it the largest resident set is that of the whole process, which is more and no less true.
    drop(fs::write("/proc/self/clear_refs", "5"));
}

/// User and system time of all threads of this process, in hundredths of a second.
pub fn cpu_seconds() -> Result<f64> {
    /// Linux counts process times in hundredths of a second for user space, whatever its own clock.
    const TICKS_PER_SECOND: f64 = 100.0;
    let status = fs::read_to_string("/proc/self/stat")?;
    // The second field is the program's name in parentheses and may hold anything; user and system time are the
    // 14th and 15th field, the 12th and 13th after it.
    let (_, fields) = status.rsplit_once(')').ok_or("/proc/self/stat: no name")?;
    let ticks: f64 = fields
        .split_ascii_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    Ok(ticks / TICKS_PER_SECOND)
}

fn disk_bytes_read() -> Option<u64> {
    let account = fs::read_to_string("/proc/self/io").ok()?;
    account
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes:"))?
        .trim()
        .parse()
        .ok()
}
