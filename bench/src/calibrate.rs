//! `calibrate`: the constants at the top of `src/strategy.rs`, measured.
//!
//! Nanoseconds of one thread on warm structures, each the median over its repetitions, on every corpus, and where there is
//! a GPU those of its work. A corpus that comes as a database has only these. It prints Rust, the median of the corpora with
//! the spread above it; nobody is told what to believe, so look before pasting.

use std::hint::black_box;
use std::io;
use std::time::Instant;

use zipfdb::Snapshot;
use zipfdb_kernels::{
    FileCounting, FileOrder, GrammarView, NgramTable, Parameters, WordSuffixes, WordUses,
    construct, file_word_counts, weights,
};

use crate::corpus::Corpus;
use crate::engines::{self, Engine, Purpose};
use crate::lookups::questions::Questions;
use crate::words::{self, Words};
use crate::{Options, Result, gpu};

/// The constants in order, each with its first line of documentation.
const CONSTANTS: [(&str, &str); 13] = [
    ("FILE_COST", "Reading one file's summary."),
    ("WORD_COST", "Taking a stored count of a word."),
    (
        "SYMBOL_COST",
        "Visiting a symbol of a body or root in order.",
    ),
    (
        "FILE_SYMBOL_COST",
        "Adding the count of a symbol to a file.",
    ),
    ("EXPAND_COST", "Expanding one word."),
    (
        "LOOKUP_COST",
        "Looking a word up in a file by the rules that use it.",
    ),
    ("PLACE_COST", "Placing one occurrence that was found so."),
    (
        "SUFFIX_COST",
        "Taking a word from a suffix array, and with its file.",
    ),
    ("SUFFIX_FILE_COST", "With its file."),
    ("SUFFIX_BUILD_COST", "Building one, for each word."),
    (
        "TABLE_COST",
        "Taking n-grams, for each symbol, from a table of long ones, and with their files.",
    ),
    ("TABLE_FILE_COST", "With their files."),
    ("TABLE_BUILD_COST", "Building one, for each symbol."),
];

/// Words of the n-grams that are taken.
const NGRAM_WORDS: usize = 3;

/// Bytes for windows while something is built for n-grams.
const WINDOW_BYTES: usize = 1 << 28;

/// A segment of at most so many words a symbol keeps a suffix array.
const SYMBOL_WORDS_MAX: f64 = 4.0;

/// Questions that look-ups are taken from.
const QUESTIONS: usize = 20_000;

/// Rarer words are looked up, and words with so many places are placed.
const RARE_MAX: u64 = 4;
const FREQUENT_MIN: u64 = 1_000;

/// Measures on all corpora and prints.
pub fn run(options: &Options) -> Result<()> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build_global()?;
    let mut measured: Vec<Vec<f64>> = vec![Vec::new(); CONSTANTS.len()];
    let mut of_device: Vec<Vec<f64>> = vec![Vec::new(); gpu::CONSTANTS.len()];
    for path in &options.corpus {
        if !path.join("segments").is_dir() {
            let costs = costs(&Corpus::open(path)?, options)?;
            eprintln!("{}: {costs:.2?}", path.display());
            for (all, cost) in measured.iter_mut().zip(costs) {
                all.extend(cost);
            }
        }
        for costs in gpu::costs(path)? {
            eprintln!("{}, device: {costs:.3?}", path.display());
            for (all, cost) in of_device.iter_mut().zip(costs) {
                all.push(cost);
            }
        }
    }
    print(&CONSTANTS, measured);
    print(&gpu::CONSTANTS, of_device);
    Ok(())
}

/// Rust, for each constant that was measured.
fn print(constants: &[(&str, &str)], measured: Vec<Vec<f64>>) {
    for ((name, documentation), mut costs) in constants.iter().zip(measured) {
        costs.sort_by(f64::total_cmp);
        if let (Some(least), Some(most)) = (costs.first(), costs.last()) {
            let median = costs[costs.len() / 2];
            // Two digits, as a cost of a byte is far below a nanosecond.
            let digits = (1.0 - median.max(1e-6).log10().floor()).max(1.0) as usize;
            println!(
                "/// {documentation} Measured {least:.digits$} to {most:.digits$} on {} corpora.",
                costs.len()
            );
            println!("const {name}: f64 = {median:.digits$};");
        }
    }
}

/// The constants on one corpus, none where it has nothing to measure.
fn costs(corpus: &Corpus, options: &Options) -> Result<[Option<f64>; CONSTANTS.len()]> {
    let directory = engines::database_directory(options)?;
    engines::build(
        Engine::Ours,
        Purpose::Size,
        corpus,
        directory.path(),
        options,
    )?;
    let (_database, snapshot) = engines::ours::open(directory.path(), 1)?;
    let runs = options.runs.max(1);
    let words = snapshot.word_counts()?;
    let file = nanoseconds(runs, || {
        snapshot
            .files()
            .iter()
            .map(|file| file.bytes + file.words)
            .sum::<u64>()
    });
    let word = nanoseconds(runs, || snapshot.word_counts());
    let expand = nanoseconds(runs, || {
        let mut files = snapshot.files().iter();
        files.try_for_each(|file| snapshot.write_content(&file.name, &mut io::sink()))
    });
    let (lookup, place) = lookup_costs(corpus, &snapshot)?;
    let (symbol, file_symbol, [suffixes, table]) = symbol_costs(corpus, runs)?;
    Ok([
        Some(file / snapshot.files().len() as f64),
        Some(word / words.len() as f64),
        Some(symbol),
        Some(file_symbol),
        Some(expand / snapshot.total_words() as f64),
        lookup,
        place,
        suffixes.map(|costs| costs[0]),
        suffixes.map(|costs| costs[1]),
        suffixes.map(|costs| costs[2]),
        table.map(|costs| costs[0]),
        table.map(|costs| costs[1]),
        table.map(|costs| costs[2]),
    ])
}

/// A look-up and a place.
fn lookup_costs(corpus: &Corpus, snapshot: &Snapshot) -> Result<(Option<f64>, Option<f64>)> {
    let (questions, answers) = Questions::draw(corpus, QUESTIONS, 1)?;
    let (mut lookups, mut places) = (Vec::new(), Vec::new());
    for ((file, word), &count) in questions.words.iter().zip(&answers.counts) {
        let file = &questions.files[*file];
        if (1..=RARE_MAX).contains(&count) {
            lookups.push(nanoseconds(1, || snapshot.count_in(file, word)));
        } else if count >= FREQUENT_MIN && places.len() < QUESTIONS / 100 {
            places.push(nanoseconds(1, || snapshot.search_in(file, word)) / count as f64);
        }
    }
    Ok((median(lookups), median(places)))
}

/// N-grams, n-grams by file, and building what they are taken from.
type NgramCosts = [f64; 3];

/// A symbol and a symbol of a file, on the grammar of the words alone, and n-grams from a suffix array and from a table,
/// of which there is the one that a segment keeps.
fn symbol_costs(corpus: &Corpus, runs: usize) -> Result<(f64, f64, [Option<NgramCosts>; 2])> {
    let words = Words::new(&words::read_pieces(corpus)?, corpus.files.len())?;
    let word_count = words.words.len() as f64;
    // Words are numbered by u32.
    let terminal_count = words.dictionary.len() as u32;
    let parameters = Parameters::default();
    let built = construct(
        words.words,
        &words.file_offsets,
        terminal_count,
        &parameters,
        &mut |_| {},
    );
    let view = GrammarView {
        terminal_count,
        rule_offsets: &built.rule_offsets,
        symbols: &built.symbols,
        level_offsets: &built.level_offsets,
        root_offsets: &built.root_offsets,
        root: &built.root,
    };
    let symbols = (view.symbols.len() + view.root.len()) as f64;
    let go = Default::default();
    let symbol = nanoseconds(runs, || {
        weights(view, 0..view.root.len(), u64::from(u32::MAX))
    });
    let file_symbol = nanoseconds(runs, || file_word_counts(view, FileCounting::Rules, &go));
    let all = weights(view, 0..view.root.len(), u64::from(u32::MAX)).into_iter();
    // A corpus of the suite has fewer words than that.
    let all: Vec<u32> = all.map(|weight| weight as u32).collect();
    let (n, order) = (NGRAM_WORDS, FileOrder::Count);
    let mut ngrams = [None, None];
    if word_count <= symbols * SYMBOL_WORDS_MAX {
        let (found, build) = timed(|| WordSuffixes::new(view, &all, &go));
        let found = found.map_err(|_| "stopped")?;
        let counts = nanoseconds(runs, || found.ngram_counts(n, &go));
        let files = nanoseconds(runs, || found.ngram_file_counts(n, order, &go));
        ngrams[0] = Some([counts, files, build].map(|cost| cost / word_count));
    } else {
        let uses = WordUses::new(view);
        let (found, build) = timed(|| NgramTable::new(view, &all, &uses, WINDOW_BYTES, &go));
        let found = found.map_err(|_| "stopped")?;
        let counts = nanoseconds(runs, || found.ngram_counts(n, &go));
        let files = nanoseconds(runs, || found.ngram_file_counts(n, order, &go));
        ngrams[1] = Some([counts, files, build].map(|cost| cost / symbols));
    }
    Ok((symbol / symbols, file_symbol / symbols, ngrams))
}

/// What `run` gives, and how many nanoseconds it takes.
fn timed<T>(run: impl FnOnce() -> T) -> (T, f64) {
    let begin = Instant::now();
    let found = run();
    (found, begin.elapsed().as_secs_f64() * 1e9)
}

/// The median of `runs` runs after one that is not timed.
fn nanoseconds<T>(runs: usize, mut run: impl FnMut() -> T) -> f64 {
    black_box(run());
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let (found, time) = timed(&mut run);
        black_box(found);
        times.push(time);
    }
    median(times).unwrap_or(0.0)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
