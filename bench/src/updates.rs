//! Suite `updates`: appends, inserts and deletions, what queries cost with edits pending, and merging them.
//!
//! All engines get the same edits: texts of 64 bytes, taken from the corpus, at random places drawn from a seed that is
//! printed. What ZipfDB holds afterwards is compared with plain texts that were edited the same way; else the suite fails.

mod background;
mod others;
mod ours;
mod plain;

use std::fs;
use std::time::Instant;

use clap::Args;

use crate::corpus::Corpus;
use crate::engines::{self, Engine, Purpose};
use crate::report::{Cell, Report, Table};
use crate::{Options, Result};

/// What the suite takes beside the options of all.
#[derive(Args)]
pub struct UpdateOptions {
    #[command(flatten)]
    options: Options,
    /// Edits of each kind.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    edits: usize,
    /// Where the random places begin.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// Bytes of an edit.
const EDIT_BYTES: usize = 64;

/// Figures that explain others.
const DETAILS: [&str; 2] = [
    "inserts in sequence, in memory only",
    "first snapshot after that",
];

/// Commits of one row that are timed.
const COMMITS: usize = 200;

/// Edits to go into a corpus.
struct Edits {
    /// File, offset before any edit, offset when those before are made, text.
    inserts: Vec<Insert>,
}

struct Insert {
    /// Index among the files of the corpus.
    file: usize,
    /// A byte of the file as it was.
    offset: u64,
    /// A byte of the file as it is with the inserts before.
    moved: u64,
    text: Vec<u8>,
}

/// A number with what it means.
struct Figure {
    name: &'static str,
    /// The engine, or `plain` for texts in memory and on disk without any.
    engine: &'static str,
    unit: Unit,
    value: f64,
}

#[derive(Clone, Copy)]
enum Unit {
    /// Edits or commits a second.
    PerSecond,
    /// Seconds.
    Seconds,
    /// MB of text a second.
    MegabytesPerSecond,
    /// With edits pending over without.
    Ratio,
}

/// Measures, compares, prints and writes.
pub fn run(updates: &UpdateOptions) -> Result<()> {
    let options = &updates.options;
    let mut report = Report::new("updates", &options.output)?;
    for path in &options.corpus {
        let corpus = Corpus::open(path)?;
        let figures = run_corpus(&corpus, updates)?;
        report.add(&corpus, tables(&figures).into())?;
    }
    report.finish(notes(updates))
}

fn run_corpus(corpus: &Corpus, updates: &UpdateOptions) -> Result<Vec<Figure>> {
    let options = &updates.options;
    let edits = Edits::draw(corpus, updates.edits, updates.seed)?;
    let directory = engines::database_directory(options)?;
    let mut figures = Vec::new();
    if options.wants("plain") {
        eprintln!("{}: plain files", corpus.name);
        figures.extend(plain::run(corpus, &edits, directory.path())?);
    }
    for engine in Engine::ALL {
        if !options.wants(engine.name()) {
            continue;
        }
        eprintln!("{}: {}", corpus.name, engine.title());
        let database = directory.path().join(engine.name());
        fs::create_dir(&database)?;
        engines::build(engine, Purpose::Size, corpus, &database, options)?;
        figures.extend(match engine {
            Engine::Ours | Engine::Packed => ours::run(corpus, &edits, &database, options.threads)?,
            Engine::Fts5 => others::fts5(&edits, &database)?,
            Engine::Tantivy => others::tantivy(&edits, &database, options.threads)?,
        });
        fs::remove_dir_all(&database)?;
    }
    Ok(figures)
}

impl Edits {
    /// Draws edits: every byte of the corpus is as likely a place as any other.
    fn draw(corpus: &Corpus, count: usize, seed: u64) -> Result<Edits> {
        let mut starts = vec![0u64];
        for file in &corpus.files {
            starts.push(starts[starts.len() - 1] + file.size);
        }
        let total = starts[starts.len() - 1];
        let sample = fs::read(&corpus.files[corpus.files.len() / 2].path)?;
        let mut state = seed;
        let mut below = |limit: u64| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) % limit.max(1)
        };
        let mut grown = vec![0u64; corpus.files.len()];
        let inserts = (0..count).map(|_| {
            let place = below(total);
            let file = starts.partition_point(|&start| start <= place) - 1;
            let moved = below(corpus.files[file].size + grown[file] + 1);
            grown[file] += EDIT_BYTES as u64;
            // A file in memory has a usize of bytes.
            let from = below((sample.len().saturating_sub(EDIT_BYTES)) as u64) as usize;
            let mut text = sample[from..sample.len().min(from + EDIT_BYTES)].to_vec();
            text.resize(EDIT_BYTES, b' ');
            Insert {
                file,
                offset: place - starts[file],
                moved,
                text,
            }
        });
        Ok(Edits {
            inserts: inserts.collect(),
        })
    }
}

/// Runs something and gives how many times a second `count` of it were done.
fn per_second(count: usize, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    Ok(count as f64 / seconds(work)?)
}

fn seconds(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64().max(1e-9))
}

/// All figures, with those that explain others as details.
fn tables(figures: &[Figure]) -> [Table; 2] {
    let engines = ["ours", "plain", "fts5", "tantivy"];
    let titles = ["ZipfDB", "plain files", "SQLite FTS5", "tantivy"];
    let mut main = Table::new("", titles);
    let mut details = Table::new("details", titles).detail();
    let mut names: Vec<(&str, Unit)> = Vec::new();
    for figure in figures {
        if !names.iter().any(|(name, _)| *name == figure.name) {
            names.push((figure.name, figure.unit));
        }
    }
    for (name, unit) in names {
        let (title, scale) = match unit {
            Unit::PerSecond => (", a second", 1.0),
            Unit::Seconds => (", ms", 1e3),
            Unit::MegabytesPerSecond => (", MB/s", 1.0),
            Unit::Ratio => (", times", 1.0),
        };
        let cells = engines.map(|engine| {
            let mut figures = figures.iter();
            let found = figures.find(|figure| figure.name == name && figure.engine == engine);
            Cell::from(found.map(|figure| figure.value * scale))
        });
        let is_detail = DETAILS.contains(&name);
        let table = if is_detail { &mut details } else { &mut main };
        table.row(format!("{name}{title}"), cells);
    }
    [main, details]
}

fn notes(updates: &UpdateOptions) -> Vec<String> {
    let threads = updates.options.threads;
    vec![
        format!(
            "{} edits of {EDIT_BYTES} bytes, seed {}, at random bytes of the corpus. `in batch`: offsets are those before \
             all edits; `in sequence`: each sees those before. Rates include the commit, which is synced once.",
            updates.edits, updates.seed
        ),
        format!(
            "{} ZipfDB: `insert_many`, `mixed_many` with inserts only, `append_many`; recompression is held back by a large \
             threshold. `1 % pending`: inserts in batch whose texts are 1 % of the corpus; times with them over \
             times without, the best of five, after an untimed first. All texts were compared with plain ones.",
            Engine::Ours.configuration(threads)
        ),
        "Look-ups: counts, searches and extracts of 64 bytes, on one thread, with all edits pending; beside a recompression: while \
         it merges them in the background. Bytes written per byte: what the process writes, log, segments and catalog, per byte \
         of text committed, until the last background recompression; 32 MiB of new files of 16 KiB, then as much again in \
         inserts of 64 bytes all over them, with a threshold of 256 KiB."
            .to_owned(),
        "Plain files: the same inserts into texts in memory (`Vec::splice`), and files that changed written again and \
         synced; their commit of one row: 64 bytes appended to a file and synced."
            .to_owned(),
        format!(
            "{} Inserts: UPDATE of the row that holds the place; appends: a new row each. A sample of the edits, in one \
             transaction; commits: one row each.",
            Engine::Fts5.configuration(threads)
        ),
        format!(
            "{} Inserts: the document that holds the place is deleted and added again; appends: a new document each. A sample \
             of the edits, in one commit; commits: one document each.",
            Engine::Tantivy.configuration(threads)
        ),
    ]
}
