//! Suite `tasks`: the six tasks of TADOC, each from open structures to a whole answer in memory.
//!
//! Every engine's answer is reduced to an [`Answer`], and those that count the same words must have the same: else the
//! suite fails. Engines take turns, each run in a process of its own; the table shows medians.

mod answer;
mod databases;
mod scanned;

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::corpus::Corpus;
use crate::engines::{self, Engine, Purpose};
use crate::report::{Cell, MEGABYTE, Report, Table};
use crate::{Options, Result};
use answer::Answer;

/// Words of an n-gram.
const NGRAM_WORDS: usize = 3;

/// A task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Task {
    WordCount,
    Sort,
    InvertedIndex,
    TermVector,
    SequenceCount,
    RankedInvertedIndex,
}

impl Task {
    const ALL: [Task; 6] = [
        Task::WordCount,
        Task::Sort,
        Task::InvertedIndex,
        Task::TermVector,
        Task::SequenceCount,
        Task::RankedInvertedIndex,
    ];

    fn title(self) -> &'static str {
        match self {
            Task::WordCount => "word count",
            Task::Sort => "sort",
            Task::InvertedIndex => "inverted index",
            Task::TermVector => "term vector",
            Task::SequenceCount => "sequence count",
            Task::RankedInvertedIndex => "ranked inverted index",
        }
    }
}

/// The engines that do tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Subject {
    Ours,
    Scan,
    #[value(name = "zstd-3")]
    Zstd,
    Fts5,
    Tantivy,
}

impl Subject {
    const ALL: [Subject; 5] = [
        Subject::Ours,
        Subject::Scan,
        Subject::Zstd,
        Subject::Fts5,
        Subject::Tantivy,
    ];

    fn name(self) -> &'static str {
        match self {
            Subject::Scan => "scan",
            Subject::Zstd => "zstd-3",
            _ => self.engine().map_or("", Engine::name),
        }
    }

    fn title(self) -> &'static str {
        match self {
            Subject::Scan => "scan",
            Subject::Zstd => "zstd -3 + tokenize + scan",
            _ => self.engine().map_or("", Engine::title),
        }
    }

    /// The engine whose database it reads.
    fn engine(self) -> Option<Engine> {
        match self {
            Subject::Ours => Some(Engine::Ours),
            Subject::Fts5 => Some(Engine::Fts5),
            Subject::Tantivy => Some(Engine::Tantivy),
            Subject::Scan | Subject::Zstd => None,
        }
    }
}

/// One run of all tasks that a subject does.
#[derive(Args)]
pub struct Job {
    #[arg(long)]
    subject: Subject,
    #[arg(long)]
    corpus: PathBuf,
    /// Where the subject's database is.
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    threads: usize,
}

/// What a run was and cost.
#[derive(Clone, Serialize, Deserialize)]
struct Run {
    subject: Subject,
    /// Seconds to open a database.
    open: Option<f64>,
    /// Seconds of the first word count after that.
    first_query: Option<f64>,
    /// Seconds of the first query that needs the whole grammar after that.
    first_grammar: Option<f64>,
    /// Seconds from text, compressed or not, to word ids.
    read: Option<f64>,
    tasks: Vec<TaskRun>,
    /// Largest resident set.
    memory_max: u64,
    /// Bytes on disk.
    size: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct TaskRun {
    task: Task,
    seconds: f64,
    /// Seconds of the first run, which makes what later ones read.
    first: f64,
    answer: Answer,
}

impl Run {
    fn task(&self, task: Task) -> Option<&TaskRun> {
        self.tasks.iter().find(|run| run.task == task)
    }
}

/// A task is timed this number of times in a run, or until it took REPETITION_SECONDS.
const REPETITIONS_MAX: usize = 5;
const REPETITION_SECONDS: f64 = 0.5;

/// Seconds of untimed runs before a task whose later runs read structures that are only built after repeated
/// use.
const WARM_SECONDS: f64 = 4.0;

/// Runs a task once untimed and then timed, short ones several times; the median counts.
fn time<T>(
    task: Task,
    run: impl Fn() -> Result<T>,
    answer: impl FnOnce(&T) -> Answer,
) -> Result<TaskRun> {
    time_after(task, 0.0, run, answer)
}

/// The same, after `warm` seconds of untimed runs.
fn time_after<T>(
    task: Task,
    warm: f64,
    run: impl Fn() -> Result<T>,
    answer: impl FnOnce(&T) -> Answer,
) -> Result<TaskRun> {
    let begin = Instant::now();
    let mut found = run()?;
    let first = begin.elapsed().as_secs_f64();
    while begin.elapsed().as_secs_f64() < warm {
        drop(found);
        found = run()?;
    }
    let answer = answer(&found);
    drop(found);
    let mut times: Vec<f64> = Vec::new();
    while times.len() < REPETITIONS_MAX && times.iter().sum::<f64>() < REPETITION_SECONDS {
        let begin = Instant::now();
        let found = run()?;
        times.push(begin.elapsed().as_secs_f64());
        drop(found);
    }
    times.sort_by(f64::total_cmp);
    Ok(TaskRun {
        task,
        seconds: times[times.len() / 2],
        first,
        answer,
    })
}

/// All runs over one corpus.
struct Runs {
    corpus: String,
    runs: Vec<Run>,
}

impl Runs {
    /// What the runs of `subject` say.
    fn cell(&self, subject: Subject, value: impl Fn(&Run) -> Option<f64>) -> Cell {
        let runs = self.runs.iter().filter(|run| run.subject == subject);
        Cell::of_runs(runs.filter_map(value))
    }

    /// # Errors
    /// If two that do the same task on the same words answer differently.
    fn compare(&self) -> Result<()> {
        for task in Task::ALL {
            // FTS5 and tantivy cut other words; their runs are compared with each other.
            let groups = [
                &[Subject::Ours, Subject::Scan, Subject::Zstd][..],
                &[Subject::Fts5],
                &[Subject::Tantivy],
            ];
            for group in groups {
                let runs = self.runs.iter().filter(|run| group.contains(&run.subject));
                let answers = runs.filter_map(|run| Some((run.subject, run.task(task)?.answer)));
                let answers: Vec<(Subject, Answer)> = answers.collect();
                if let Some(other) = answers.iter().find(|(_, answer)| *answer != answers[0].1) {
                    return Err(format!(
                        "{}: answers to {} differ: {:?}, {other:?}",
                        self.corpus,
                        task.title(),
                        answers[0]
                    )
                    .into());
                }
            }
        }
        Ok(())
    }
}

/// Measures, compares, prints and writes.
pub fn run(options: &Options) -> Result<()> {
    let corpora = options.corpus.iter().map(|path| Corpus::open(path));
    let corpora = corpora.collect::<Result<Vec<_>>>()?;
    let subjects = Subject::ALL.into_iter();
    let subjects: Vec<Subject> = subjects.filter(|one| options.wants(one.name())).collect();
    let mut report = Report::new("tasks", &options.output)?;
    for corpus in &corpora {
        let runs = Runs {
            corpus: corpus.name.clone(),
            runs: run_corpus(corpus, &subjects, options)?,
        };
        runs.compare()?;
        report.add(corpus, vec![table(&runs, &subjects)])?;
    }
    report.finish(notes(options, &subjects))
}

fn run_corpus(corpus: &Corpus, subjects: &[Subject], options: &Options) -> Result<Vec<Run>> {
    let mut databases = Vec::new();
    for &subject in subjects {
        let directory = engines::database_directory(options)?;
        if let Some(engine) = subject.engine() {
            engines::build(engine, Purpose::Size, corpus, directory.path(), options)?;
        }
        databases.push((subject, directory));
    }
    let mut runs = Vec::new();
    for _ in 0..options.runs.max(1) {
        for (subject, directory) in &databases {
            eprintln!("{}: tasks of {}", corpus.name, subject.title());
            runs.push(engines::run_self(
                "tasks-child",
                &[
                    ("--subject", subject.name().as_ref()),
                    ("--corpus", corpus.path.as_os_str()),
                    ("--directory", directory.path().as_os_str()),
                    ("--threads", options.threads.to_string().as_ref()),
                ],
            )?);
        }
    }
    Ok(runs)
}

/// The child's side: runs the tasks and prints the outcome.
pub fn run_child(job: &Job) -> Result<()> {
    let corpus = Corpus::open(&job.corpus)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(job.threads);
    pool.build_global()?;
    let run = match job.subject {
        Subject::Ours => databases::ours(job)?,
        Subject::Fts5 => databases::fts5(job, &corpus)?,
        Subject::Tantivy => databases::tantivy(job, &corpus)?,
        Subject::Scan | Subject::Zstd => scanned::run(job, &corpus)?,
    };
    println!("{}", serde_json::to_string(&run)?);
    Ok(())
}

fn table(runs: &Runs, subjects: &[Subject]) -> Table {
    let mut table = Table::new("ms", subjects.iter().map(|subject| subject.title()));
    let mut row = |title: &str, scale: f64, value: &dyn Fn(&Run) -> Option<f64>| {
        let scaled = |run: &Run| value(run).map(|value| value * scale);
        table.row(title, subjects.iter().map(|&one| runs.cell(one, scaled)));
    };
    for task in Task::ALL {
        row(&format!("{}, first", task.title()), 1e3, &|run| {
            run.task(task).map(|run| run.first)
        });
        row(task.title(), 1e3, &|run| {
            run.task(task).map(|run| run.seconds)
        });
    }
    row("open", 1e3, &|run| run.open);
    row("first query: word count", 1e3, &|run| run.first_query);
    row("first query of the grammar", 1e3, &|run| run.first_grammar);
    row("read and tokenize", 1e3, &|run| run.read);
    row("peak memory, MB", 1.0 / MEGABYTE, &|run| {
        Some(run.memory_max as f64)
    });
    row("on disk, MB", 1.0 / MEGABYTE, &|run| Some(run.size as f64));
    table
}

fn notes(options: &Options, subjects: &[Subject]) -> Vec<String> {
    let mut notes = vec![
        format!(
            "Milliseconds from open structures to the whole answer in memory, {} threads. Each run is a process that does \
             every task once, shown as first, then up to {REPETITIONS_MAX} times timed, of \
             which the median counts, so caches are warm; of {} runs the median is shown, engines in turn. Sequences are {NGRAM_WORDS}-grams. Memory is the \
             largest resident set of the process with all answers, mapped files included.",
            options.threads,
            options.runs.max(1),
        ),
        "Answers of ZipfDB, scan and zstd were compared, every word, n-gram, file and count, once a run, and are equal."
            .to_owned(),
    ];
    for subject in subjects {
        notes.push(match subject {
            Subject::Ours => format!(
                "{} Through the crate's `Snapshot`. `first query`: the first word count after `open`, so decoding what it \
                 needs; then, before all tasks, the first that decodes the whole grammar and makes the one over words. The first inverted index and the term \
                 vectors, transposed from it, are kept, and later runs return them. Sequences are repeated for \
                 {WARM_SECONDS} s first: a suffix array over words, where those are at most four times the symbols, else a \
                 table of all distinct n-grams of eight words is built meanwhile and kept.",
                Engine::Ours.configuration(options.threads)
            ),
            Subject::Scan => "scan: resident uncompressed word ids (4 bytes a word) with offsets of the files, read and tokenized \
                 before; counting by arrays, n-grams packed into 64 bits, a radix partition and a radix sort in cache; counts \
                 of words and byte ranks are kept as ZipfDB keeps them. Memory counted from when the ids are there."
                .to_owned(),
            Subject::Zstd => "zstd: the text in frames of about 1 MiB (`zstd -3`) in memory; every task decompresses, tokenizes and \
                 scans. `read and tokenize` is timed once a run and added to each task. Words are cut by \
                 `unicode-segmentation`, lines of ASCII by its faster way."
                .to_owned(),
            Subject::Fts5 => format!(
                "{} Tasks through `fts5vocab`: `row` for counts, `instance` for lists of rows, which are made lists of files; \
                 one thread; up to 1 GiB mapped. Its words are folded and cut otherwise, so its answers are \
                 not compared. It has no n-grams.",
                Engine::Fts5.configuration(options.threads)
            ),
            Subject::Tantivy => format!(
                "{} Tasks through its dictionary and postings, which are made lists of files; one thread. Its words are \
                 folded and cut otherwise, so its answers are not compared. It has no n-grams.",
                Engine::Tantivy.configuration(options.threads)
            ),
        });
    }
    notes
}
