//! Suite `tadoc`: TADOC on one thread, written from its papers, against ZipfDB on the CPU and on a CUDA device.
//!
//! Both have the same tokens and files. Every answer is compared, row by row, and texts after edits byte by byte; else the suite
//! fails. A run is a process of its own, in which both take turns; tables show medians of runs.

mod edits;
mod lookups;
mod small_files;
mod tasks;

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use zipfdb::{Database, Snapshot};
use zipfdb_tadoc::{Dictionary, Grammar, Lookups, Tasks, Traversal, WordTerminals};

use crate::corpus::Corpus;
use crate::energy::{Joules, Meter};
use crate::engines::{self, Engine, Purpose, cpu_seconds, memory_max, reset_memory_max};
use crate::gpu::{Arrays, Asked, resident};
use crate::lookups::questions::{BATCH_MAX, Questions};
use crate::report::{Cell, MEGABYTE, Report, Table};
use crate::{Options, Result};
use lookups::Baseline;

/// What the suite takes beside the options of all.
#[derive(Args)]
pub struct TadocOptions {
    #[command(flatten)]
    options: Options,
    /// Joins the text of all corpora, splits it into N small files and runs on these. Data set A of G-TADOC has 134631 files.
    #[arg(long, value_name = "N")]
    small_files: Option<usize>,
    /// Questions and edits of each kind.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    questions: usize,
    /// Where the random words and places begin.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Seconds after which no more questions of a kind are asked.
    #[arg(long, default_value_t = 2.0, value_name = "S")]
    budget: f64,
    /// The direction of TADOC's tasks by file; by default chosen by number and size of files.
    #[arg(long, value_name = "DIRECTION")]
    traversal: Option<Direction>,
}

/// A direction of a traversal.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Direction {
    TopDown,
    BottomUp,
}

/// One run on one corpus.
#[derive(Args)]
pub struct Job {
    #[arg(long)]
    corpus: PathBuf,
    /// Where the database is.
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    threads: usize,
    #[arg(long)]
    questions: usize,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    budget: f64,
    #[arg(long)]
    traversal: Option<Direction>,
}

/// What a figure is about, which is the table that it is in.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Part {
    Tasks,
    Lookups,
    Edits,
}

/// Seconds of a task, or of one question or edit.
#[derive(Clone, Serialize, Deserialize)]
struct Figure {
    part: Part,
    name: String,
    tadoc: f64,
    /// ZipfDB on one thread, the first time.
    first: Option<f64>,
    /// ZipfDB on one thread.
    one: Option<f64>,
    /// ZipfDB on all threads.
    all: Option<f64>,
    /// ZipfDB on a device, with copies of questions and answers.
    device: Option<f64>,
    /// Kernels alone.
    resident: Option<f64>,
    /// Joules of tasks: of TADOC, and of ZipfDB on one thread, on all and on a device, as far as they can be
    /// measured.
    joules: Vec<Joules>,
}

/// What a run found.
#[derive(Clone, Serialize, Deserialize)]
struct Outcome {
    baseline: Built,
    /// Figures of ours that a run does not find are those of the engine's own run.
    figures: Vec<Figure>,
    has_device: bool,
    has_energy: bool,
}

/// TADOC's construction.
#[derive(Clone, Serialize, Deserialize)]
struct Built {
    tokens: usize,
    rules: usize,
    symbols: usize,
    /// Seconds of Sequitur, from tokens in memory, and what of it the processor worked.
    seconds: f64,
    cpu_seconds: f64,
    /// Bytes beside those tokens at most.
    memory: u64,
    /// Bytes with 32 bits a symbol, and compressed by gzip.
    size: u64,
    gzip_size: u64,
    /// Seconds to make what tasks read, and what look-ups read.
    tasks_seconds: f64,
    lookups_seconds: f64,
    is_bottom_up: bool,
}

/// ZipfDB on one thread, on all, and on a device if there is one.
struct Subjects {
    snapshots: Vec<Snapshot>,
    _databases: Vec<Database>,
}

impl Subjects {
    fn open(job: &Job, subjects: &[(usize, &str)]) -> Result<Subjects> {
        let (mut snapshots, mut databases) = (Vec::new(), Vec::new());
        for &(threads, device) in subjects {
            let options = Database::options().threads(threads).read_only(true);
            let database = options.open(engines::ours::path(&job.directory))?;
            database.execute_batch(&format!("SET device = '{device}'"))?;
            snapshots.push(database.corpus("corpus")?.snapshot()?);
            databases.push(database);
        }
        Ok(Subjects {
            snapshots,
            _databases: databases,
        })
    }

    fn all(&self) -> impl Iterator<Item = &Snapshot> {
        self.snapshots.iter()
    }
}

/// All runs over one corpus.
struct Runs {
    ours: Vec<engines::Outcome>,
    runs: Vec<Outcome>,
}

/// Measures, compares, prints and writes.
pub fn run(tadoc: &TadocOptions) -> Result<()> {
    let options = &tadoc.options;
    let mut corpora = Vec::new();
    for path in &options.corpus {
        corpora.push(Corpus::open(path)?);
    }
    let scratch = engines::database_directory(options)?;
    if let Some(count) = tadoc.small_files {
        let folder = scratch.path().join("small_files");
        small_files::split(&corpora, count, &folder)?;
        corpora = vec![Corpus::open(&folder)?];
    }
    let mut report = Report::new("tadoc", &options.output)?;
    for corpus in &corpora {
        let runs = run_corpus(corpus, tadoc)?;
        let [construction, structures] = construction_tables(&runs);
        let is_detail = |figure: &Figure| {
            edits::KINDS.contains(&&*figure.name) || figure.name.ends_with(edits::SNAPSHOT)
        };
        let figures = |title, scale, wants: &dyn Fn(&Figure) -> bool| {
            table(&runs, title, scale, options.threads, wants)
        };
        let tables = vec![
            construction,
            figures("ms", 1e3, &|figure| figure.part == Part::Tasks),
            figures("us each", 1e6, &|figure| {
                figure.part != Part::Tasks && !is_detail(figure)
            }),
            figures("us of an edit alone, or with a snapshot", 1e6, &is_detail).detail(),
            structures.detail(),
            energy_table(&runs, options.threads).detail(),
        ];
        report.add(corpus, tables)?;
    }
    report.finish(notes(tadoc))
}

fn run_corpus(corpus: &Corpus, tadoc: &TadocOptions) -> Result<Runs> {
    let options = &tadoc.options;
    let mut runs = Runs {
        ours: Vec::new(),
        runs: Vec::new(),
    };
    for _ in 0..options.runs.max(1) {
        // The last edits are committed, so each run has a database of its own.
        let directory = engines::database_directory(options)?;
        let built = engines::build(
            Engine::Ours,
            Purpose::Ingest,
            corpus,
            directory.path(),
            options,
        )?;
        runs.ours.push(built);
        let (threads, questions) = (options.threads.to_string(), tadoc.questions.to_string());
        let (seed, budget) = (tadoc.seed.to_string(), tadoc.budget.to_string());
        let mut arguments = vec![
            ("--corpus", corpus.path.as_os_str()),
            ("--directory", directory.path().as_os_str()),
            ("--threads", threads.as_ref()),
            ("--questions", questions.as_ref()),
            ("--seed", seed.as_ref()),
            ("--budget", budget.as_ref()),
        ];
        if let Some(direction) = tadoc.traversal {
            let name = match direction {
                Direction::TopDown => "top-down",
                Direction::BottomUp => "bottom-up",
            };
            arguments.push(("--traversal", name.as_ref()));
        }
        runs.runs
            .push(engines::run_self("tadoc-child", &arguments)?);
    }
    Ok(runs)
}

/// The child's side: builds TADOC, runs everything and prints the outcome.
pub fn run_child(job: &Job) -> Result<()> {
    let corpus = Corpus::open(&job.corpus)?;
    let mut segments = Arrays::of_corpus(&engines::ours::path(&job.directory))?;
    let (Some(arrays), true) = (segments.pop(), segments.is_empty()) else {
        return Err(format!("{}: not one segment of text", corpus.name).into());
    };
    if !(arrays.files.iter()).eq(corpus.files.iter().map(|file| &file.name)) {
        return Err(format!("{}: files have changed", corpus.name).into());
    }
    eprintln!("{}: TADOC", corpus.name);
    reset_memory_max();
    let before = memory_max()?;
    let cpu_before = cpu_seconds()?;
    let begin = Instant::now();
    let grammar = Grammar::new(
        &arrays.tokens,
        &arrays.file_offsets,
        arrays.terminal_count(),
    );
    let seconds = begin.elapsed().as_secs_f64();
    let cpu_seconds = cpu_seconds()? - cpu_before;
    let memory = memory_max()?.saturating_sub(before);

    let texts = word_texts(&arrays);
    let begin = Instant::now();
    let mut tasks = Tasks::new(&grammar, &arrays.word_of, byte_ranks(&texts));
    let tasks_seconds = begin.elapsed().as_secs_f64();
    if let Some(direction) = job.traversal {
        tasks = tasks.with_traversal(match direction {
            Direction::TopDown => Traversal::TopDown,
            Direction::BottomUp => Traversal::BottomUp,
        });
    }
    let begin = Instant::now();
    let words = arrays.words.iter().map(|word| WordTerminals {
        first: word.first,
        spaced: word.spaced,
        end: word.end,
    });
    let words: Vec<WordTerminals> = words.collect();
    let lookups = Lookups::new(
        &grammar,
        Dictionary {
            offsets: &arrays.offsets,
            bytes: &arrays.bytes,
            words: &words,
        },
    );
    let lookups_seconds = begin.elapsed().as_secs_f64();
    let encoded = encode(&grammar, &arrays);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::new(6));
    gzip.write_all(&encoded)?;
    let baseline = Built {
        tokens: arrays.tokens.len(),
        rules: grammar.rules(),
        symbols: grammar.symbols(),
        seconds,
        cpu_seconds,
        memory,
        size: encoded.len() as u64,
        gzip_size: gzip.finish()?.len() as u64,
        tasks_seconds,
        lookups_seconds,
        is_bottom_up: tasks.traversal() == Traversal::BottomUp,
    };
    drop(encoded);

    let (questions, answers) = Questions::draw(&corpus, job.questions, job.seed)?;
    let edits = edits::draw(&corpus, &questions, job.seed)?;
    let files = questions.files.iter().map(|file| &file[..]).zip(0..);
    let named = Baseline {
        lookups: &lookups,
        files: files.collect(),
        words: texts.iter().copied().zip(0..).collect(),
    };
    let times = resident(&arrays, &asked(&named, &questions, &edits))?;
    let mut subjects = vec![(1, "cpu"), (job.threads, "cpu")];
    if times.is_some() {
        subjects.push((job.threads, "cuda"));
    }
    let meter = Meter::open();
    let opened = Subjects::open(job, &subjects)?;
    let mut figures = tasks::run(&tasks, &texts, &opened, &meter)?;
    let budget = Duration::try_from_secs_f64(job.budget)?;
    figures.extend(lookups::run(&named, &questions, &answers, &opened, budget)?);
    drop(opened);
    figures.extend(edits::run(
        &lookups,
        &edits,
        &questions.files,
        &job.directory,
        &subjects,
    )?);
    for (name, seconds) in times.iter().flatten() {
        if let Some(figure) = figures.iter_mut().find(|figure| figure.name == *name) {
            figure.resident = Some(*seconds);
        }
    }
    let outcome = Outcome {
        baseline,
        figures,
        has_device: times.is_some(),
        has_energy: meter.is_readable(),
    };
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

/// What a device is asked in one batch each.
fn asked(baseline: &Baseline<'_>, questions: &Questions, edits: &[edits::Edit]) -> Asked {
    let words =
        (questions.words.iter()).map(|(file, word)| (*file, baseline.words[word.as_bytes()]));
    let first_search = questions.search_ends.first().copied().unwrap_or(0);
    Asked {
        counts: words.clone().take(BATCH_MAX).collect(),
        searches: words.take(first_search).collect(),
        places: edits.iter().map(|edit| (edit.file, edit.offset)).collect(),
        moved: edits.iter().map(|edit| (edit.file, edit.moved)).collect(),
    }
}

/// The text of each word.
fn word_texts(arrays: &Arrays) -> Vec<&[u8]> {
    let text = |word: &zipfdb_kernels::WordTerminals| {
        // The first of its terminals has no space if one has none.
        let token = arrays.token(word.first);
        &token[usize::from(word.first == word.spaced)..]
    };
    arrays.words.iter().map(text).collect()
}

/// For each word its place in order of bytes.
fn byte_ranks(texts: &[&[u8]]) -> Vec<u32> {
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_unstable_by_key(|&word| texts[word]);
    let mut ranks = vec![0; order.len()];
    for (rank, word) in (0..).zip(order) {
        ranks[word] = rank;
    }
    ranks
}

/// The bytes that TADOC stores: texts of tokens with their lengths, then bodies with theirs, 32 bits a number.
fn encode(grammar: &Grammar, arrays: &Arrays) -> Vec<u8> {
    let mut bytes = Vec::new();
    for terminal in 0..arrays.terminal_count() {
        let token = arrays.token(terminal);
        // A token is shorter than a segment.
        bytes.extend((token.len() as u32).to_le_bytes());
        bytes.extend_from_slice(token);
    }
    for rule in 0..grammar.rules() {
        let body = grammar.body(rule);
        // A body has fewer symbols than a u32 counts.
        bytes.extend((body.len() as u32).to_le_bytes());
        body.iter()
            .for_each(|symbol| bytes.extend(symbol.to_le_bytes()));
    }
    bytes
}

/// What is built to store a corpus, and what TADOC's grammar and structures beside it are.
fn construction_tables(runs: &Runs) -> [Table; 2] {
    let of_tadoc =
        |value: fn(&Built) -> f64| Cell::of_runs(runs.runs.iter().map(|run| value(&run.baseline)));
    let of_ours = |value: fn(&engines::Outcome) -> f64| Cell::of_runs(runs.ours.iter().map(value));
    let mut table = Table::new("construction", ["TADOC", "ZipfDB"]);
    let mut row = |name: &str, tadoc: Cell, ours: Cell| table.row(name, [tadoc, ours]);
    row(
        "s of processor time",
        of_tadoc(|built| built.cpu_seconds),
        of_ours(|built| built.cpu_seconds),
    );
    row(
        "s",
        of_tadoc(|built| built.seconds),
        of_ours(|built| built.seconds),
    );
    row(
        "peak memory, MB",
        of_tadoc(|built| built.memory as f64 / MEGABYTE),
        of_ours(|built| built.memory_max as f64 / MEGABYTE),
    );
    row(
        "size, MB",
        of_tadoc(|built| built.size as f64 / MEGABYTE),
        of_ours(|built| built.size as f64 / MEGABYTE),
    );
    row(
        "size with gzip -6, MB",
        of_tadoc(|built| built.gzip_size as f64 / MEGABYTE),
        Cell::Empty,
    );
    let mut structures = Table::new("structures", ["TADOC"]);
    let mut row = |name: &str, value: fn(&Built) -> f64| structures.row(name, [of_tadoc(value)]);
    row("tokens, millions", |built| built.tokens as f64 / 1e6);
    row("rules, millions", |built| built.rules as f64 / 1e6);
    row("symbols, millions", |built| built.symbols as f64 / 1e6);
    row("for tasks, s", |built| built.tasks_seconds);
    row("for look-ups, s", |built| built.lookups_seconds);
    row("tasks by file are bottom-up, 1 if so", |built| {
        f64::from(u8::from(built.is_bottom_up))
    });
    [table, structures]
}

fn table(
    runs: &Runs,
    title: &str,
    scale: f64,
    threads: usize,
    wants: &dyn Fn(&Figure) -> bool,
) -> Table {
    let all = format!("{threads} threads");
    let titles = [
        "TADOC",
        "first",
        "1 thread",
        &all,
        "GPU, with copies",
        "GPU, resident",
    ];
    let mut table = Table::new(title, titles);
    let figures = runs.runs.first().map_or(&[][..], |run| &run.figures);
    for (index, figure) in figures
        .iter()
        .enumerate()
        .filter(|(_, figure)| wants(figure))
    {
        let cell = |value: fn(&Figure) -> Option<f64>| {
            let values = runs
                .runs
                .iter()
                .filter_map(|run| value(&run.figures[index]));
            Cell::of_runs(values.map(|seconds| seconds * scale))
        };
        let cells = [
            cell(|figure| Some(figure.tadoc)),
            cell(|figure| figure.first),
            cell(|figure| figure.one),
            cell(|figure| figure.all),
            cell(|figure| figure.device),
            cell(|figure| figure.resident),
        ];
        table.row(&*figure.name, cells);
    }
    table
}

/// Millijoules of a task, of processor and device.
fn energy_table(runs: &Runs, threads: usize) -> Table {
    let all = format!("ZipfDB, {threads} threads");
    let titles = ["TADOC", "ZipfDB, 1 thread", &all, "GPU: CPU", "GPU: device"];
    let mut table = Table::new("mJ", titles);
    let figures = runs.runs.first().map_or(&[][..], |run| &run.figures);
    for (index, figure) in figures.iter().enumerate() {
        let cell = |subject: usize, value: fn(&Joules) -> Option<f64>| {
            let runs = runs.runs.iter();
            let joules = runs.filter_map(|run| run.figures[index].joules.get(subject));
            Cell::of_runs(joules.filter_map(value).map(|joules| joules * 1e3))
        };
        // The device is idle while the CPU works.
        let mut cells: Vec<Cell> = (0..4).map(|one| cell(one, |joules| joules.cpu)).collect();
        cells.push(cell(3, |joules| joules.device));
        table.row(&figure.name, cells);
    }
    table
}

fn notes(tadoc: &TadocOptions) -> Vec<String> {
    let options = &tadoc.options;
    vec![
        format!(
            "Medians of {} runs, each a process in which both take turns, caches warm. All answers were compared: every word, sequence, file and count of the tasks, a \
             sample of look-ups, and whole texts after edits.",
            options.runs.max(1)
        ),
        "TADOC: our own, from its papers, on one thread: Sequitur over the tokens of ZipfDB, from memory, without reading, \
         tokenizing, encoding and writing, which ZipfDB's construction has. Its size is 32 bits a symbol. Tasks read bodies \
         without gaps between words, made beforehand. Look-ups read places of rules in the text, made beforehand. Counts and searches \
         include looking up the names of file and word."
            .to_owned(),
        format!(
            "{} `first` is the first time that the task is asked after \
             opening, in the order of the table; later times read what that made and kept.",
            Engine::Ours.configuration(options.threads)
        ),
        format!(
            "{} questions and edits of 64 bytes, seed {}, as far as they were done in {} s of each kind; `single` is the median, \
             `batch` and edits the mean; a batch is what TADOC does within that time. Edits are in memory and taken back: alone, with one extract after all of them, and with a \
             snapshot, in which counts, searches and tasks see them; those of TADOC do not, so its figure is that with the extract. \
             `and a commit`: synced, which TADOC's log is not.",
            tadoc.questions, tadoc.seed, tadoc.budget
        ),
        "GPU: `with copies` is through the database with `SET device = 'cuda'`; `resident` is kernels alone, on grammar and \
         questions that are there, answers left there, inserts only placed."
            .to_owned(),
        "Energy: joules of whole packages and their memory by RAPL, and of the device by NVML, over a second of the task, divided by \
         runs; what idles and what others do is in it."
            .to_owned(),
    ]
}
