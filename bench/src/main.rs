//! Comparisons of ZipfDB with other engines and compressors, one suite a subcommand.
//!
//! Every suite prints Markdown tables and writes the numbers behind it as JSON. Engines run in child processes of
//! this program, one a run, so that their peak memory is their own. What an engine is asked to do is in `engines`, not
//! here; suites only choose corpora, repeat and lay out.

mod calibrate;
mod codec;
mod cold;
mod compressors;
mod corpus;
mod edited_copies;
mod energy;
mod engines;
mod gpu;
mod ingest;
mod intersect;
mod lookups;
mod memory;
mod records;
mod report;
mod scan;
mod search;
mod size;
mod sql;
mod tadoc;
mod tasks;
mod tokenize;
mod updates;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// Any error: this program only ever prints it.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Parser)]
#[command(name = "zipfdb-bench", version, about)]
struct Arguments {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    /// Size on disk: ours by section, gzip, zstd, xz, SQLite FTS5 and tantivy.
    Size(Options),
    /// Text to a durable database: MB/s, by stage, and peak memory of ours, SQLite FTS5 and tantivy.
    Ingest(Options),
    /// The six tasks of TADOC: ms of ours, a scan of word ids, zstd and a scan, SQLite FTS5 and tantivy.
    Tasks(Options),
    /// Random questions: latency and throughput of ours, SQLite FTS5 and tantivy.
    Lookups(lookups::LookupOptions),
    /// Resident memory of tasks, statements and look-ups, by limit.
    Memory(memory::MemoryOptions),
    /// The first question of a database that was just opened, for each kind of question: ms of ours.
    Cold(Options),
    /// Edits a second, queries with edits pending, recompression: ours, plain files, SQLite FTS5 and tantivy.
    Updates(updates::UpdateOptions),
    /// TADOC on one thread, its tasks, look-ups and edits, with the same answers: construction, size, times and ratios.
    Tadoc(tadoc::TadocOptions),
    /// Large answers of SQL as columns, as rows and as CSV: ms of ours.
    Sql(Options),
    /// Searches: files by query, regular expressions, spans, phrases of any length, places; ours, SQLite FTS5, tantivy and ripgrep.
    Search(search::SearchOptions),
    /// Many small texts with metadata: import, size, look-ups, counts by year and author; ours and SQLite FTS5.
    Records(records::RecordsOptions),
    /// Text to tokens on one thread, by tokenizer: MB/s, with and without interning.
    Tokenize(Options),
    /// Packed text in blocks for warps: ratios, MB/s of each way to unpack, on a device too; zlib, LZ4, Snappy and Zstd.
    Codec(codec::CodecOptions),
    /// Lists of words by block and by file: size and speed of their codecs, and conjunctive queries on them.
    Intersect(intersect::IntersectOptions),
    /// Kernels on a CUDA device: construction, tasks, batches of look-ups, primitives; against the CPU and plain arrays.
    Gpu(gpu::GpuOptions),
    /// The constants of `src/segment/cost.rs`, measured on the corpora and printed as Rust.
    Calibrate(Options),
    /// Makes bench/RESULTS.md of the JSON that suites have written, checks it, or compares two folders of JSON.
    Report(report::ReportOptions),
    /// One engine's run over one corpus; prints its outcome as JSON. The suites start it.
    #[command(hide = true)]
    Child(engines::Job),
    /// One measurement of memory; prints its outcome as JSON. The suite starts it.
    #[command(hide = true)]
    MemoryChild(memory::Job),
    /// One first question; prints its outcome as JSON. The suite starts it.
    #[command(hide = true)]
    ColdChild(cold::Job),
    /// One run of all tasks; prints its outcome as JSON. The suite starts it.
    #[command(hide = true)]
    TasksChild(tasks::Job),
    /// TADOC and ZipfDB on one corpus; prints the outcome as JSON. The suite starts it.
    #[command(hide = true)]
    TadocChild(tadoc::Job),
    /// One engine's answers to all questions; prints its outcome as JSON. The suite starts it.
    #[command(hide = true)]
    LookupsChild(lookups::Job),
    /// One engine's searches; prints its outcome as JSON. The suite starts it.
    #[command(hide = true)]
    SearchChild(search::Job),
    /// One step of suite `records`; prints its outcome as JSON. The suite starts it.
    #[command(hide = true)]
    RecordsChild(records::Job),
}

/// What all suites take.
#[derive(Args)]
struct Options {
    /// A corpus: a file, or a directory with all files below it. May be given several times.
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    corpus: Vec<PathBuf>,
    /// Threads that an engine may use.
    #[arg(long, default_value_t = 2, value_name = "N")]
    threads: usize,
    #[command(flatten)]
    output: report::Output,
    /// Runs of each engine on each corpus where time is measured; the table shows the median.
    #[arg(long, default_value_t = 3, value_name = "N")]
    runs: usize,
    /// Only these rows, by name: ours, scan, plain, fts5, tantivy, ripgrep, gzip, zstd-3, zstd-19, xz.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// Where databases are built; by default the system's temporary directory.
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl Options {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == name)
    }
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().suite {
        Suite::Size(options) => size::run(&options),
        Suite::Ingest(options) => ingest::run(&options),
        Suite::Tasks(options) => tasks::run(&options),
        Suite::TasksChild(job) => tasks::run_child(&job),
        Suite::Memory(options) => memory::run(&options),
        Suite::MemoryChild(job) => memory::run_child(&job),
        Suite::Cold(options) => cold::run(&options),
        Suite::ColdChild(job) => cold::run_child(&job),
        Suite::Tadoc(options) => tadoc::run(&options),
        Suite::TadocChild(job) => tadoc::run_child(&job),
        Suite::Sql(options) => sql::run(&options),
        Suite::Tokenize(options) => tokenize::run(&options),
        Suite::Codec(options) => codec::run(&options),
        Suite::Intersect(options) => intersect::run(&options),
        Suite::Gpu(options) => gpu::run(&options),
        Suite::Calibrate(options) => calibrate::run(&options),
        Suite::Search(options) => search::run(&options),
        Suite::SearchChild(job) => search::run_child(&job),
        Suite::Records(options) => records::run(&options),
        Suite::RecordsChild(job) => records::run_child(&job),
        Suite::Lookups(options) => lookups::run(&options),
        Suite::Report(options) => report::run(&options),
        Suite::Updates(options) => updates::run(&options),
        Suite::LookupsChild(job) => lookups::run_child(&job),
        Suite::Child(job) => engines::run_child(&job),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("zipfdb-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
