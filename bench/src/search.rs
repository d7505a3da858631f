//! Suite `search`: files by query, regular expressions, spans and their statistics, phrases of any length, places and bytes.
//!
//! Every part is asked in processes of its own: the first pass over its questions is `first`, the median of later ones
//! `warm`. Answers that several engines give are numbers, and they are compared: where two differ, the suite fails.

mod files;
mod grep;
mod length;
mod ours;
mod peers;
mod places;
mod plain;
mod query;
mod revisions;
mod spans;
pub mod timed;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::corpus::Corpus;
use crate::engines::{self, Engine, Purpose};
use crate::report::Report;
use crate::{Options, Result};
use timed::Outcome;

/// What the suite takes beside the options of all.
#[derive(Args)]
pub struct SearchOptions {
    #[command(flatten)]
    options: Options,
    /// Only these parts.
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    parts: Vec<Part>,
    /// Queries of part `files`: a JSON object with `query` and `tags` on each line, as the Search Benchmark, the Game has them.
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Cuts files into pages of at most this size at line ends, each a file of its own; files stay whole without it.
    #[arg(long, value_name = "BYTES")]
    page_bytes: Option<usize>,
    /// MB of a corpus that is made for parts `length` and `places`: all revisions of a page that is edited; 0 for none.
    #[arg(long, default_value_t = 100.0, value_name = "MB")]
    revisions: f64,
    /// Seconds after which no more questions of a kind are asked of an engine.
    #[arg(long, default_value_t = 10.0, value_name = "S")]
    budget: f64,
    /// Where random places begin.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// A part of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Files that match a query: their number, and the ten best. Against tantivy and SQLite FTS5, with sizes.
    Files,
    /// Matches of regular expressions. Against ripgrep and the crate `regex-automata` on texts in memory.
    Grep,
    /// Concordances, groups of hits, collocations, dispersion, keywords.
    Spans,
    /// Counts and continuations of phrases, longest matches, repeated passages.
    Length,
    /// Places of words, and bytes of files.
    Places,
}

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Task {
    Files,
    Grep,
    GrepOnce,
    Spans,
    Length,
    Places,
    /// Creates all indexes.
    Index,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Subject {
    Ours,
    Fts5,
    Tantivy,
    /// Texts in memory.
    Plain,
}

/// One turn of one engine.
#[derive(Args)]
pub struct Job {
    #[arg(long)]
    task: Task,
    #[arg(long)]
    subject: Subject,
    /// Where the database of ZipfDB is; an empty directory for that of others.
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    corpus: PathBuf,
    /// A file with queries, or one pattern.
    #[arg(long)]
    questions: Option<String>,
    #[arg(long)]
    threads: usize,
    #[arg(long)]
    runs: usize,
    #[arg(long)]
    budget: f64,
    #[arg(long)]
    seed: u64,
}

impl SearchOptions {
    fn wants(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    /// Asks a pattern in a process of its own.
    fn once(&self, corpus: &Corpus, directory: &Path, pattern: &str) -> Result<Outcome> {
        self.child(
            Task::GrepOnce,
            Subject::Ours,
            corpus,
            directory,
            Some(pattern),
        )
    }

    /// Runs a task in a process of its own.
    fn child(
        &self,
        task: Task,
        subject: Subject,
        corpus: &Corpus,
        directory: &Path,
        questions: Option<&str>,
    ) -> Result<Outcome> {
        let (task, subject) = (value_name(task), value_name(subject));
        eprintln!("{}: {task} of {subject}", corpus.name);
        let numbers = [
            self.options.threads.to_string(),
            self.options.runs.max(1).to_string(),
            self.budget.to_string(),
            self.seed.to_string(),
        ];
        let mut arguments = vec![
            ("--task", task.as_ref()),
            ("--subject", subject.as_ref()),
            ("--corpus", corpus.path.as_os_str()),
            ("--directory", directory.as_os_str()),
            ("--threads", numbers[0].as_ref()),
            ("--runs", numbers[1].as_ref()),
            ("--budget", numbers[2].as_ref()),
            ("--seed", numbers[3].as_ref()),
        ];
        if let Some(questions) = questions {
            arguments.push(("--questions", questions.as_ref()));
        }
        engines::run_self("search-child", &arguments)
    }
}

/// A value as the command line has it.
fn value_name(value: impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Measures, compares, prints and writes.
pub fn run(search: &SearchOptions) -> Result<()> {
    if search.wants(Part::Files) && search.queries.is_none() {
        return Err(
            "part `files` has no queries; hint: give --queries FILE, or other parts with --parts"
                .into(),
        );
    }
    let mut report = Report::new("search", &search.options.output)?;
    for path in &search.options.corpus {
        let whole = Corpus::open(path)?;
        let scratch = engines::database_directory(&search.options)?;
        let corpus = match search.page_bytes {
            None => whole,
            Some(page_bytes) => pages(&whole, scratch.path(), page_bytes)?,
        };
        let tables = measure(&corpus, scratch.path(), search, |part| search.wants(part))?;
        report.add(&corpus, tables)?;
    }
    let is_of_revisions = |part| matches!(part, Part::Length | Part::Places) && search.wants(part);
    if search.revisions > 0.0
        && [Part::Length, Part::Places]
            .into_iter()
            .any(is_of_revisions)
    {
        let scratch = engines::database_directory(&search.options)?;
        // Sizes given in MB are far below 2^53.
        let bytes = (search.revisions * crate::report::MEGABYTE) as usize;
        let path = scratch.path().join("revisions.txt");
        fs::write(&path, revisions::text(bytes, search.seed))?;
        let corpus = Corpus::open(&path)?;
        let tables = measure(&corpus, scratch.path(), search, is_of_revisions)?;
        report.add(&corpus, tables)?;
    }
    report.finish(notes(search))
}

/// The tables of the parts of one corpus.
fn measure(
    corpus: &Corpus,
    scratch: &Path,
    search: &SearchOptions,
    wants: impl Fn(Part) -> bool,
) -> Result<Vec<crate::report::Table>> {
    let database = scratch.join("ours");
    fs::create_dir(&database)?;
    let built = engines::build(
        Engine::Ours,
        Purpose::Ingest,
        corpus,
        &database,
        &search.options,
    )?;
    let mut tables = Vec::new();
    if wants(Part::Files) {
        tables.extend(files::measure(corpus, scratch, &built, search)?);
    }
    if wants(Part::Grep) {
        tables.extend(grep::measure(corpus, scratch, search)?);
    }
    if wants(Part::Spans) {
        tables.push(spans::measure(corpus, &database, search)?);
    }
    let mut without = Vec::new();
    for (part, task) in [(Part::Length, Task::Length), (Part::Places, Task::Places)] {
        if wants(part) {
            without.push((
                task,
                search.child(task, Subject::Ours, corpus, &database, None)?,
            ));
        }
    }
    if !without.is_empty() {
        let indexes = search.child(Task::Index, Subject::Ours, corpus, &database, None)?;
        for (task, without) in without {
            let with = search.child(task, Subject::Ours, corpus, &database, None)?;
            without.compare(&with, "without indexes", "with indexes")?;
            tables.push(match task {
                Task::Places => places::table(&without, &with),
                _ => length::table(&without, &with),
            });
        }
        tables.push(places::sizes(corpus, &built, &indexes));
    }
    Ok(tables)
}

/// A copy of a corpus in which each file is one or more, cut at line ends.
fn pages(corpus: &Corpus, scratch: &Path, page_bytes: usize) -> Result<Corpus> {
    let folder = scratch.join(format!("{}-pages", corpus.name));
    for file in &corpus.files {
        let text = fs::read(&file.path)?;
        let below = folder.join(&file.name);
        fs::create_dir_all(&below)?;
        let (mut begin, mut number) = (0, 0);
        while begin < text.len() || number == 0 {
            let limit = text.len().min(begin + page_bytes.max(1));
            let page = &text[begin..limit];
            let line_end = page.iter().rposition(|&byte| byte == b'\n');
            // A last page, and one without a line end, is taken as it is.
            let end = match line_end {
                Some(at) if limit < text.len() => begin + at + 1,
                _ => limit,
            };
            fs::write(below.join(format!("{number:06}")), &text[begin..end])?;
            (begin, number) = (end, number + 1);
        }
    }
    Corpus::open(&folder)
}

/// The child's side: asks all questions of a task and prints the outcome.
pub fn run_child(job: &Job) -> Result<()> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(job.threads)
        .build_global()?;
    let outcome = match (job.task, job.subject) {
        (Task::Files, Subject::Tantivy) => peers::tantivy(job)?,
        (Task::Files, Subject::Fts5) => peers::fts5(job)?,
        (Task::Files, _) => ours::files(job)?,
        (Task::Grep, Subject::Plain) => plain::grep(job)?,
        (Task::Grep, _) => ours::grep(job, &grep::all())?,
        (Task::GrepOnce, _) => ours::grep(job, &[job.question()?])?,
        (Task::Spans, Subject::Plain) => plain::spans(job)?,
        (Task::Spans, _) => spans::ask(job)?,
        (Task::Length, _) => length::ask(job)?,
        (Task::Places, _) => places::ask(job)?,
        (Task::Index, _) => places::index(job)?,
    };
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

impl Job {
    fn question(&self) -> Result<&str> {
        Ok(self.questions.as_deref().ok_or("no questions")?)
    }

    /// Asks questions by number as often as the job says.
    fn ask(
        &self,
        names: &[String],
        ask: impl FnMut(usize) -> Result<(u64, Vec<String>)>,
    ) -> Result<Vec<timed::Asked>> {
        timed::ask_all(names, self.runs, self.budget, ask)
    }
}

fn notes(search: &SearchOptions) -> Vec<String> {
    let options = &search.options;
    let mut notes = vec![format!(
        "Every part runs in a process of its own for each engine, on {} threads. All questions of a kind are asked in order, which \
         is `first`, then at most {} times more; `warm` is the median of these. No more questions of a kind are asked of an engine \
         after {} s. Answers that several engines give are numbers and are equal, else the suite fails.",
        options.threads,
        options.runs.max(1),
        search.budget,
    )];
    if search.wants(Part::Files) {
        notes.push(files::note());
    }
    if search.wants(Part::Grep) {
        notes.push(grep::note());
    }
    if search.wants(Part::Spans) {
        notes.push(spans::note(options.threads));
    }
    if search.wants(Part::Length) {
        notes.push(length::note());
    }
    if search.wants(Part::Places) {
        notes.push(places::note());
    }
    notes
}
