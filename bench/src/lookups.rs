//! Suite `lookups`: many small questions with random words and places, one by one and in batches.
//!
//! All engines get the same questions, drawn from a seed that is printed. What ZipfDB answers is compared with the plain
//! text: every count, and a sample of places and extracts; else the suite fails.

pub mod measure;
mod others;
mod ours;
pub mod questions;

use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::corpus::Corpus;
use crate::engines::{self, Engine, Purpose};
use crate::report::{Cell, MEGABYTE, Report, Table, milliseconds};
use crate::{Options, Result};
use measure::Latencies;
use questions::{Questions, SAMPLE};

/// What the suite takes beside the options of all.
#[derive(Args)]
pub struct LookupOptions {
    #[command(flatten)]
    options: Options,
    /// Questions of each kind.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    questions: usize,
    /// Where the random words and places begin.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Seconds after which no more questions of a kind are asked.
    #[arg(long, default_value_t = 5.0, value_name = "S")]
    budget: f64,
}

/// A kind of question.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Count,
    Search,
    ExtractShort,
    ExtractLong,
    Phrase,
}

impl Kind {
    const ALL: [Kind; 5] = [
        Kind::Count,
        Kind::Search,
        Kind::ExtractShort,
        Kind::ExtractLong,
        Kind::Phrase,
    ];

    fn title(self) -> &'static str {
        match self {
            Kind::Count => "count a word in a file",
            Kind::Search => "search a word in a file",
            Kind::ExtractShort => "extract 64 B",
            Kind::ExtractLong => "extract 4 KiB",
            Kind::Phrase => "count a phrase of 2 words",
        }
    }
}

/// How an engine is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Way {
    /// One by one through the engine's own interface.
    Single,
    /// Through the interface for batches.
    Batch,
    /// One by one as SQL with parameters.
    Sql,
    /// As SQL with many parameter sets.
    Sets,
}

/// One engine's turn.
#[derive(Args)]
pub struct Job {
    #[arg(long)]
    engine: Engine,
    /// Where its database is.
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    threads: usize,
    /// A file with [`Questions`].
    #[arg(long)]
    questions: PathBuf,
    #[arg(long)]
    budget: f64,
}

impl Job {
    fn budget(&self) -> Duration {
        Duration::from_secs_f64(self.budget)
    }
}

/// What an engine's turn was and cost.
#[derive(Serialize, Deserialize)]
struct Run {
    engine: Engine,
    /// Seconds.
    open: f64,
    /// Seconds of the first count after that.
    first_query: f64,
    measured: Vec<Measured>,
    /// What ZipfDB answered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    answers: Option<questions::Answers>,
    memory_max: u64,
}

#[derive(Serialize, Deserialize)]
struct Measured {
    kind: Kind,
    way: Way,
    latencies: Latencies,
}

impl Run {
    fn find(&self, way: Way, kind: Kind) -> Option<&Latencies> {
        let mut measured = self.measured.iter();
        let found = measured.find(|one| one.kind == kind && one.way == way)?;
        Some(&found.latencies)
    }
}

/// Measures, compares, prints and writes.
pub fn run(lookups: &LookupOptions) -> Result<()> {
    let options = &lookups.options;
    let corpora = options.corpus.iter().map(|path| Corpus::open(path));
    let corpora = corpora.collect::<Result<Vec<_>>>()?;
    let mut report = Report::new("lookups", &options.output)?;
    for corpus in &corpora {
        report.add(corpus, tables(&run_corpus(corpus, lookups)?))?;
    }
    report.finish(notes(lookups))
}

fn run_corpus(corpus: &Corpus, lookups: &LookupOptions) -> Result<Vec<Run>> {
    let options = &lookups.options;
    eprintln!("{}: questions", corpus.name);
    let directory = engines::database_directory(options)?;
    let (questions, expected) = Questions::draw(corpus, lookups.questions, lookups.seed)?;
    let path = directory.path().join("questions.json");
    serde_json::to_writer(BufWriter::new(File::create(&path)?), &questions)?;
    drop(questions);
    let mut runs = Vec::new();
    for engine in Engine::ALL {
        if !options.wants(engine.name()) {
            continue;
        }
        let database = directory.path().join(engine.name());
        fs::create_dir(&database)?;
        engines::build(engine, Purpose::Size, corpus, &database, options)?;
        eprintln!("{}: lookups of {}", corpus.name, engine.title());
        let mut run: Run = engines::run_self(
            "lookups-child",
            &[
                ("--engine", engine.name().as_ref()),
                ("--directory", database.as_os_str()),
                ("--threads", options.threads.to_string().as_ref()),
                ("--questions", path.as_os_str()),
                ("--budget", lookups.budget.to_string().as_ref()),
            ],
        )?;
        if let Some(answers) = run.answers.take() {
            let compared = expected.compare(&answers);
            compared.map_err(|error| format!("{}: {error}", corpus.name))?;
        }
        runs.push(run);
    }
    Ok(runs)
}

/// The child's side: asks all questions and prints the outcome.
pub fn run_child(job: &Job) -> Result<()> {
    let questions = BufReader::new(File::open(&job.questions)?);
    let questions: Questions = serde_json::from_reader(questions)?;
    let run = match job.engine {
        Engine::Ours | Engine::Packed => ours::run(job, &questions)?,
        Engine::Fts5 => others::fts5(job, &questions)?,
        Engine::Tantivy => others::tantivy(job, &questions)?,
    };
    println!("{}", serde_json::to_string(&run)?);
    Ok(())
}

/// Single calls of all engines, all ways of ours, and what engines take beside that.
fn tables(runs: &[Run]) -> Vec<Table> {
    let mut single = Table::new("us", ["p50", "p99"]);
    let mut ours = Table::new(
        "ZipfDB, us a question, mean",
        ["single", "batches", "SQL", "SQL sets"],
    );
    for kind in Kind::ALL {
        for run in runs {
            let name = format!("{}: {}", kind.title(), run.engine.title());
            let found = run.find(Way::Single, kind);
            single.row(name, found.map_or([Cell::Empty; 2], Latencies::percentiles));
        }
        for run in runs.iter().filter(|run| run.engine == Engine::Ours) {
            let ways = [Way::Single, Way::Batch, Way::Sql, Way::Sets];
            let means = ways.map(|way| run.find(way, kind).map(Latencies::mean));
            ours.row(kind.title(), means);
        }
    }
    let mut engines = Table::new("engine", runs.iter().map(|run| run.engine.title()));
    engines.row("open, ms", runs.iter().map(|run| milliseconds(run.open)));
    engines.row(
        "first query, ms",
        runs.iter().map(|run| milliseconds(run.first_query)),
    );
    engines.row(
        "peak memory, MB",
        runs.iter().map(|run| run.memory_max as f64 / MEGABYTE),
    );
    engines.row(
        "searches within 20 us + 1 us a hit, %",
        runs.iter().map(|run| {
            let found = run.find(Way::Single, Kind::Search);
            found.and_then(Latencies::within)
        }),
    );
    vec![single, ours, engines]
}

fn notes(lookups: &LookupOptions) -> Vec<String> {
    let options = &lookups.options;
    let mut notes = vec![
        format!(
            "{} questions of each kind, seed {}. Files and words: half are a random place of the text, so words come as \
             often as there and always occur; half a random file and a random word of the dictionary. Phrases: half two \
             words that follow each other at a random place, half two random words of the dictionary. Extracts: at \
             random bytes of the text. A search gives all hits.",
            lookups.questions, lookups.seed
        ),
        format!(
            "One process an engine asks everything once (`--runs` does not count here). Microseconds of single calls on one \
             thread after the first {} questions were asked untimed; caches are warm. No more questions are asked after \
             {} s. `first query`: the first count after `open`, with all that is \
             built for it.",
            measure::WARMING,
            lookups.budget
        ),
    ];
    for engine in Engine::ALL
        .into_iter()
        .filter(|one| options.wants(one.name()))
    {
        notes.push(match engine {
            Engine::Ours | Engine::Packed => format!(
                "{} Single calls: `count_in`, `search_in`, `extract`, `count_phrase`. Batches: `count_many`, `search_many`, \
                 `extract_many` on {} threads, at most {} questions and about {} million hits at once. SQL: `query`, \
                 so each question is parsed and planned; SQL sets: `query_many` with {} parameter sets at once. Every \
                 count that was asked for one by one was compared with the plain text, of words and of phrases, and so \
                 were {SAMPLE} searches and extracts of each length; they are equal. Batches, and SQL one by one, were \
                 compared with those.",
                engine.configuration(options.threads),
                options.threads,
                questions::BATCH_MAX,
                questions::BATCH_HITS_MAX >> 20,
                ours::SETS,
            ),
            Engine::Fts5 => format!(
                "{} Count and search in a file of one row: `MATCH` with `rowid =` and the marks that `highlight` puts into \
                 its text; in a file of more rows: `fts5vocab` of type `instance`, which gives numbers of words, not \
                 bytes. Extract: `substr` of the text as a BLOB. Phrase: rows that `MATCH` it, not how often. Prepared \
                 statements. Its words are folded and cut otherwise; not compared.",
                engine.configuration(options.threads)
            ),
            Engine::Tantivy => format!(
                "{} Count and search: the word's postings, from the first to the last document of the file; hits are \
                 numbers of words, not bytes. Extract: from the stored text, with its default cache of blocks. Phrase: \
                 positions of both words in the documents that have both. Its words are folded and cut otherwise; not \
                 compared.",
                engine.configuration(options.threads)
            ),
        });
    }
    notes
}
