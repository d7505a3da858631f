//! Suite `memory`: resident memory of the six tasks, of statements and of random look-ups, over the size of the text; and
//! of the same on a database that is much larger than its limit of memory.
//!
//! Every measurement is a process of its own, which opens the database, does one thing once, and says what its largest
//! resident set was, and what is resident afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use zipfdb::{Database, Snapshot};

use crate::corpus::Corpus;
use crate::edited_copies::edited;
use crate::engines::{self, Engine, Purpose, memory_max, reset_memory_max};
use crate::report::{Cell, MEGABYTE, MeasuredCorpus, Report, Table};
use crate::{Options, Result};

/// Words of an n-gram.
const NGRAM_WORDS: usize = 3;

/// Random look-ups of each kind.
const LOOKUPS: usize = 25_000;

/// Limits of memory, as SET memory_limit takes them.
const LIMITS: [&str; 3] = ["auto", "256MiB", "64MiB"];

/// The limit of memory on the large database.
const LARGE_LIMIT: &str = "256MiB";

/// Text and number of the edits that are recompressed there, each in a file of its own.
const EDIT: &str = " an inserted sentence with words.";
const EDITS: usize = 1_000;

/// Options of this suite.
#[derive(Args)]
pub struct MemoryOptions {
    #[command(flatten)]
    options: Options,
    /// Also measures a database of this number of copies of all corpora together, each edited another way.
    #[arg(long, default_value_t = 0, value_name = "N")]
    copies: u64,
    /// Such an existing database, or with `--copies` where it is made and stays. It is recompressed.
    #[arg(long, value_name = "DIR")]
    large: Option<PathBuf>,
}

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Work {
    WordCount,
    Sort,
    InvertedIndex,
    TermVector,
    SequenceCount,
    RankedInvertedIndex,
    Phrase,
    Search,
    Lookups,
    Recompression,
}

/// By what.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Interface {
    Rust,
    Sql,
}

impl Work {
    const ALL: [Work; 9] = [
        Work::WordCount,
        Work::Sort,
        Work::InvertedIndex,
        Work::TermVector,
        Work::SequenceCount,
        Work::RankedInvertedIndex,
        Work::Phrase,
        Work::Search,
        Work::Lookups,
    ];

    fn title(self) -> &'static str {
        match self {
            Work::WordCount => "word count",
            Work::Sort => "sort",
            Work::InvertedIndex => "inverted index",
            Work::TermVector => "term vector",
            Work::SequenceCount => "sequence count",
            Work::RankedInvertedIndex => "ranked inverted index",
            Work::Phrase => "places of a phrase",
            Work::Search => "search in all files",
            Work::Lookups => "100,000 look-ups",
            Work::Recompression => "recompression after 1,000 edits",
        }
    }

    /// The statement that does it, if one does.
    fn sql(self, corpus: &str, phrase: &str) -> Option<String> {
        let words = format!("FROM \"{corpus}\" GROUP BY word");
        let ngrams = format!("FROM ngrams('{corpus}', {NGRAM_WORDS})");
        Some(match self {
            Work::WordCount => format!("SELECT word, COUNT(*) {words}"),
            Work::Sort => format!("SELECT word, COUNT(*) {words} ORDER BY word"),
            Work::InvertedIndex => format!("SELECT word, file, COUNT(*) {words}, file"),
            Work::TermVector => {
                format!("SELECT file, word, count FROM term_vectors('{corpus}', 1000000)")
            }
            Work::SequenceCount => format!("SELECT ngram, COUNT(*) {ngrams} GROUP BY ngram"),
            Work::RankedInvertedIndex => {
                let ranked = "GROUP BY ngram, file ORDER BY ngram, n DESC, file";
                format!("SELECT ngram, file, COUNT(*) AS n {ngrams} {ranked}")
            }
            Work::Phrase => format!("SELECT file, offset {ngrams} WHERE ngram = '{phrase}'"),
            Work::Search => format!("SELECT file, offset FROM \"{corpus}\" WHERE word = 'which'"),
            Work::Lookups | Work::Recompression => return None,
        })
    }
}

/// One measurement.
#[derive(Args)]
pub struct Job {
    #[arg(long)]
    work: Work,
    #[arg(long)]
    interface: Interface,
    /// Where the database is.
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    threads: usize,
    /// As SET memory_limit takes it.
    #[arg(long)]
    limit: String,
}

/// What a measurement found.
#[derive(Clone, Serialize, Deserialize)]
struct Outcome {
    work: Work,
    interface: Interface,
    limit: String,
    /// Rows, entries or hits: the same for each limit.
    answers: u64,
    /// Largest resident set.
    memory_max: u64,
    /// Resident at the end, the answer dropped.
    memory: u64,
    seconds: f64,
}

/// Measures, compares, prints and writes.
pub fn run(options: &MemoryOptions) -> Result<()> {
    let MemoryOptions {
        options,
        copies,
        large,
    } = options;
    let mut report = Report::new("memory", &options.output)?;
    let mut is_utf8 = true;
    for path in &options.corpus {
        let corpus = Corpus::open(path)?;
        let directory = engines::database_directory(options)?;
        engines::build(
            Engine::Ours,
            Purpose::Size,
            &corpus,
            directory.path(),
            options,
        )?;
        let mut outcomes: Vec<Outcome> = Vec::new();
        for work in Work::ALL {
            for interface in [Interface::Rust, Interface::Sql] {
                for limit in LIMITS {
                    if work == Work::Lookups && interface == Interface::Sql {
                        continue;
                    }
                    eprintln!(
                        "{}: {} by {interface:?}, {limit}",
                        corpus.name,
                        work.title()
                    );
                    outcomes.push(child(
                        work,
                        interface,
                        limit,
                        directory.path().as_os_str(),
                        options,
                    )?);
                }
            }
        }
        let same = |left: &Outcome, right: &Outcome| {
            (left.work, left.interface) == (right.work, right.interface)
        };
        for outcomes in outcomes.chunk_by(same) {
            if outcomes
                .iter()
                .any(|outcome| outcome.answers != outcomes[0].answers)
            {
                let what = outcomes[0].work.title();
                return Err(format!("{}: answers to {what} differ by limit", corpus.name).into());
            }
        }
        is_utf8 &= corpus.is_utf8()?;
        report.add(&corpus, tables(&outcomes).into())?;
    }
    let built = engines::database_directory(options)?;
    let large = match large {
        None if *copies == 0 => None,
        None => {
            build_large(built.path(), options, *copies)?;
            Some(built.path())
        }
        Some(large) if *copies > 0 => {
            build_large(large, options, *copies)?;
            Some(&**large)
        }
        Some(large) => Some(&**large),
    };
    if let Some(directory) = large {
        report.add_measured(MeasuredCorpus {
            is_utf8,
            ..run_large(directory, options)?
        })?;
    }
    report.finish(vec![
        "Largest resident set of a process that opens the database and does one thing once, and how long that takes; of \
         look-ups, which Rust asks, what is resident after them."
            .to_owned(),
        format!("Edited copies: memory_limit is {LARGE_LIMIT}."),
    ])
}

/// Fills a database with edited copies of all corpora, one copy after the other.
fn build_large(directory: &Path, options: &Options, copies: u64) -> Result<()> {
    let (database, corpus) = engines::ours::create(directory, options.threads)?;
    for copy in 0..copies {
        let text = engines::database_directory(options)?;
        for path in &options.corpus {
            let source = Corpus::open(path)?;
            let below = text.path().join(format!("copy{copy}")).join(&source.name);
            for (number, file) in (0u64..).zip(&source.files) {
                let target = below.join(&file.name);
                fs::create_dir_all(target.parent().unwrap_or(&below))?;
                fs::write(target, edited(&fs::read(&file.path)?, copy << 32 | number))?;
            }
        }
        eprintln!("copy {copy}");
        corpus.copy_from(text.path(), &zipfdb::ingest::CopyOptions::default())?;
    }
    drop((corpus, database));
    Ok(())
}

/// Measures a database of edited copies.
fn run_large(directory: &Path, options: &Options) -> Result<MeasuredCorpus> {
    let (database, snapshot) = engines::ours::open(directory, options.threads)?;
    let files = snapshot.files();
    let (count, bytes) = (files.len(), files.iter().map(|file| file.bytes).sum());
    drop((snapshot, database));
    let mut outcomes: Vec<Outcome> = Vec::new();
    for work in Work::ALL.into_iter().chain([Work::Recompression]) {
        let interface = match work {
            Work::Lookups | Work::Recompression => Interface::Rust,
            _ => Interface::Sql,
        };
        eprintln!("edited copies: {} by {interface:?}", work.title());
        outcomes.push(child(
            work,
            interface,
            LARGE_LIMIT,
            directory.as_os_str(),
            options,
        )?);
    }
    let mut table = Table::new("beyond its limit", ["MB", "s"]);
    for outcome in &outcomes {
        let megabytes = outcome.memory_max as f64 / MEGABYTE;
        table.row(outcome.work.title(), [megabytes, outcome.seconds]);
    }
    Ok(MeasuredCorpus {
        name: "edited copies".to_owned(),
        files: count,
        bytes,
        is_utf8: true,
        tables: vec![table],
    })
}

fn child(
    work: Work,
    interface: Interface,
    limit: &str,
    directory: &std::ffi::OsStr,
    options: &Options,
) -> Result<Outcome> {
    let name = |value: Option<clap::builder::PossibleValue>| {
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    };
    engines::run_self(
        "memory-child",
        &[
            ("--work", name(work.to_possible_value()).as_ref()),
            ("--interface", name(interface.to_possible_value()).as_ref()),
            ("--directory", directory),
            ("--threads", options.threads.to_string().as_ref()),
            ("--limit", limit.as_ref()),
        ],
    )
}

/// What works take by SQL, look-ups by Rust; and the others by Rust.
fn tables(outcomes: &[Outcome]) -> [Table; 2] {
    let titles = ["MB", "s"].map(|unit| LIMITS.map(|limit| format!("{unit}, {limit}")));
    let mut main = Table::new("at most", titles.concat());
    let mut by_rust = Table::new("at most, by Rust", titles.concat()).detail();
    for work in Work::ALL {
        for interface in [Interface::Rust, Interface::Sql] {
            let found = LIMITS.map(|limit| {
                let is_it = |outcome: &&Outcome| {
                    (outcome.work, outcome.interface, &*outcome.limit) == (work, interface, limit)
                };
                outcomes.iter().find(is_it)
            });
            let megabytes = found.map(|found| {
                let memory = |outcome: &Outcome| match work {
                    Work::Lookups => outcome.memory,
                    _ => outcome.memory_max,
                };
                Cell::from(found.map(|found| memory(found) as f64 / MEGABYTE))
            });
            let seconds = found.map(|found| Cell::from(found.map(|found| found.seconds)));
            let is_main = interface == Interface::Sql || work == Work::Lookups;
            let table = if is_main { &mut main } else { &mut by_rust };
            table.row(work.title(), [megabytes, seconds].concat());
        }
    }
    [main, by_rust]
}

/// The child's side: does the work and prints what it cost.
pub fn run_child(job: &Job) -> Result<()> {
    reset_memory_max();
    let limit = format!("SET memory_limit = '{}'", job.limit);
    if job.work == Work::Recompression {
        let database = engines::ours::open_to_write(&job.directory, job.threads)?;
        database.execute_batch(&limit)?;
        return print(job, Instant::now(), recompress(&database)?);
    }
    let (database, snapshot) = engines::ours::open(&job.directory, job.threads)?;
    database.execute_batch(&limit)?;
    let begin = Instant::now();
    let answers = match job.interface {
        Interface::Rust => by_rust(job.work, &snapshot)?,
        Interface::Sql => by_sql(job.work, &database, &snapshot)?,
    };
    print(job, begin, answers)
}

fn print(job: &Job, begin: Instant, answers: u64) -> Result<()> {
    let seconds = begin.elapsed().as_secs_f64();
    let outcome = Outcome {
        work: job.work,
        interface: job.interface,
        limit: job.limit.clone(),
        answers,
        memory_max: memory_max()?,
        memory: resident()?,
        seconds,
    };
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

fn by_rust(work: Work, snapshot: &Snapshot) -> Result<u64> {
    Ok(match work {
        Work::WordCount => snapshot.words()?.iter().len() as u64,
        Work::Sort => snapshot.words()?.sorted().len() as u64,
        Work::InvertedIndex => snapshot.word_files()?.iter().count() as u64,
        Work::TermVector => {
            let vectors = snapshot.term_vectors()?;
            let words = (0..vectors.files()).map(|file| vectors.words(file).count() as u64);
            words.sum()
        }
        Work::SequenceCount => snapshot.ngrams(NGRAM_WORDS)?.len() as u64,
        Work::RankedInvertedIndex => snapshot.ngram_files(NGRAM_WORDS)?.iter().count() as u64,
        Work::Phrase => {
            let phrase = phrase(snapshot)?;
            let words: Vec<&str> = phrase.split(' ').collect();
            snapshot
                .phrase_search(&words)?
                .iter()
                .map(|(_, offsets)| offsets.len() as u64)
                .sum()
        }
        Work::Search => {
            let found = snapshot.search("which")?;
            found.iter().map(|(_, offsets)| offsets.len() as u64).sum()
        }
        Work::Lookups => lookups(snapshot)?,
        Work::Recompression => return Err("recompression writes".into()),
    })
}

fn by_sql(work: Work, database: &Database, snapshot: &Snapshot) -> Result<u64> {
    let corpus = database.corpora().into_iter().next().ok_or("no corpus")?;
    let phrase = match work {
        Work::Phrase => phrase(snapshot)?,
        _ => String::new(),
    };
    let sql = work.sql(&corpus, &phrase).ok_or("no statement")?;
    let mut rows = 0;
    for row in database.query(&sql, ())? {
        row?;
        rows += 1;
    }
    Ok(rows)
}

/// Edits some files and recompresses; how many files there are.
fn recompress(database: &Database) -> Result<u64> {
    let corpus = database.corpora().into_iter().next().ok_or("no corpus")?;
    let snapshot = database.corpus(&corpus)?.snapshot()?;
    let files = snapshot.files();
    let edited = files.iter().step_by(files.len().div_ceil(EDITS).max(1));
    let edits: Vec<(&str, u64, &str)> = edited
        .map(|file| (&*file.name, file.bytes / 2, EDIT))
        .collect();
    database.corpus(&corpus)?.insert_many(&edits)?;
    let count = files.len() as u64;
    drop(snapshot);
    database.execute_batch(&format!("RECOMPRESS \"{corpus}\""))?;
    Ok(count)
}

/// Three words that follow each other in the middle of the first file that has some.
fn phrase(snapshot: &Snapshot) -> Result<String> {
    for file in snapshot.files() {
        let bytes = snapshot.extract(&file.name, file.bytes / 2, 4096)?;
        let text = String::from_utf8_lossy(&bytes);
        let mut lines =
            text.split(|character: char| !character.is_ascii_alphabetic() && character != ' ');
        let found = lines.find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            // What is cut at both ends may be a part of a word.
            let inner = words.get(1..words.len().saturating_sub(1))?;
            let mut threes = inner.windows(NGRAM_WORDS);
            threes
                .find(|three| three.iter().all(|word| !word.is_empty()))
                .map(|three| three.join(" "))
        });
        if let Some(found) = found {
            return Ok(found);
        }
    }
    Err("no file has three words".into())
}

/// Counts, searches, extracts and phrases at random places.
fn lookups(snapshot: &Snapshot) -> Result<u64> {
    let files = snapshot.files();
    let mut state = 7u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below.max(1)
    };
    let mut answers = 0;
    for _ in 0..LOOKUPS {
        let file = &files[random(files.len() as u64) as usize];
        let bytes = snapshot.extract(&file.name, random(file.bytes), 64)?;
        answers += bytes.len() as u64;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let words = text.split(|character: char| !character.is_ascii_alphanumeric());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let Some(word) = words.get(words.len() / 2) else {
            continue;
        };
        answers += snapshot.count_in(&file.name, *word)?;
        answers += snapshot.search_in(&file.name, *word)?.len() as u64;
        if let Some(two) = words.windows(2).next() {
            answers += snapshot.phrase_count(two)?;
        }
    }
    Ok(answers)
}

/// What is resident now.
fn resident() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let mut lines = status.lines();
    let kibibytes = lines
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|value| value.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Ok(kibibytes.ok_or("/proc/self/status: no VmRSS")? * 1024)
}
