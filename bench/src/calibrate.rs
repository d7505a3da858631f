//! `calibrate`: constants of `src/segment/cost.rs`, measured.
//!
//! Nanoseconds of one thread on warm structures, each the median over its repetitions, on every corpus, and where there is
//! a GPU those of its work. A corpus that comes as a database has only these. It prints Rust, the median of the corpora with
//! the spread above it; check both before pasting.

use std::hint::black_box;
use std::time::Instant;

use zipfdb_kernels::{
    FileCounting, FileOrder, GrammarView, Lengths, NgramTable, Parameters, Parents, Signatures,
    Structures, WordPlaces, WordSuffixes, WordTerminals, WordUses, construct, file_word_counts,
    locate_in_file, weights,
};

use crate::corpus::Corpus;
use crate::engines::{self, Engine, Purpose};
use crate::report::{Cell, MeasuredCorpus, Report, Table};
use crate::words::{self, Words};
use crate::{Options, Result, gpu};

/// The constants in order, each with its first line of documentation.
const CONSTANTS: [(&str, &str); 16] = [
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
    ("STREAM_COST", "Reading one word of a file with its place."),
    (
        "LOOKUP_COST",
        "Looking a word up in a file by the rules that use it.",
    ),
    (
        "OCCURRENCE_COST",
        "Placing one occurrence that was found so.",
    ),
    (
        "LISTS_LOOKUP_COST",
        "Looking a word up in a file in occurrence lists.",
    ),
    ("LISTS_OCCURRENCE_COST", "Taking one occurrence from them."),
    (
        "LISTS_BUILD_COST",
        "Building occurrence lists, for each word.",
    ),
    ("SUFFIX_COST", "Taking a word from a suffix array."),
    ("SUFFIX_FILE_COST", "Taking one with its file."),
    ("SUFFIX_BUILD_COST", "Building one, for each word."),
    (
        "TABLE_COST",
        "Taking n-grams from a table of long ones, for each symbol.",
    ),
    ("TABLE_FILE_COST", "Taking them with their files."),
    ("TABLE_BUILD_COST", "Building one, for each symbol."),
];

/// Words of the n-grams that are taken.
const NGRAM_WORDS: usize = 3;

/// Bytes for windows or keys while something is built for n-grams.
const WINDOW_BYTES: usize = 1 << 28;

/// Most words a symbol of a segment that keeps a suffix array.
const SYMBOL_WORDS_MAX: f64 = 4.0;

/// Words that are looked up.
const LOOKUP_WORDS: usize = 20_000;

/// Places in their file of the words that look-ups are timed by (at most RARE_MAX) and that a place is timed by
/// (at least FREQUENT_MIN).
const RARE_MAX: usize = 4;
const FREQUENT_MIN: usize = 1_000;
const FREQUENT_WORDS: usize = LOOKUP_WORDS / 100;

/// Measures on all corpora and prints.
pub fn run(options: &Options) -> Result<()> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build_global()?;
    let mut report = Report::new("calibrate", &options.output)?;
    let mut measured: Vec<Vec<f64>> = vec![Vec::new(); CONSTANTS.len()];
    let mut of_device: Vec<Vec<f64>> = vec![Vec::new(); gpu::CONSTANTS.len()];
    for path in &options.corpus {
        let corpus = Corpus::open(path)?;
        let is_text = !path.join("segments").is_dir();
        let mut table = Table::new("ns", [""]);
        if is_text {
            let costs = costs(&corpus, options)?;
            for ((all, cost), (name, _)) in measured.iter_mut().zip(costs).zip(CONSTANTS) {
                all.extend(cost);
                table.row(name, [cost]);
            }
        }
        let segments = gpu::costs(path)?;
        let mut device = Table::new("ns, with a device", [""]).detail();
        for (index, (all, (name, _))) in of_device.iter_mut().zip(gpu::CONSTANTS).enumerate() {
            let costs = segments.iter().map(|costs| costs[index]);
            all.extend(costs.clone());
            device.row(name, [Cell::of_runs(costs)]);
        }
        report.add_measured(MeasuredCorpus {
            name: corpus.name.clone(),
            bytes: corpus.size(),
            files: corpus.files.len(),
            is_utf8: !is_text || corpus.is_utf8()?,
            tables: vec![table, device],
        })?;
    }
    print(&CONSTANTS, measured);
    print(&gpu::CONSTANTS, of_device);
    report.finish(Vec::new())
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
            println!("pub(crate) const {name}: f64 = {median:.digits$};");
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
    let (database, snapshot) = engines::ours::open(directory.path(), 1)?;
    let runs = options.runs.max(1);
    let words = snapshot.words()?;
    let file = nanoseconds(runs, || {
        snapshot
            .files()
            .iter()
            .map(|file| file.bytes + file.words)
            .sum::<u64>()
    });
    let word = nanoseconds(runs, || snapshot.words());
    let stream = nanoseconds(runs, || {
        let rows = database.query("SELECT MAX(offset), MIN(position) FROM corpus", ());
        rows.and_then(|mut rows| rows.next_batch(usize::MAX))
    });
    let OfGrammar {
        symbol,
        file_symbol,
        lookups: [found, kept],
        places_build,
        ngrams: [suffixes, table],
    } = grammar_costs(corpus, runs)?;
    Ok([
        Some(file / snapshot.files().len() as f64),
        Some(word / words.len() as f64),
        Some(symbol),
        Some(file_symbol),
        Some(stream / snapshot.total_words() as f64),
        found[0],
        found[1],
        kept[0],
        kept[1],
        Some(places_build),
        suffixes.map(|costs| costs[0]),
        suffixes.map(|costs| costs[1]),
        suffixes.map(|costs| costs[2]),
        table.map(|costs| costs[0]),
        table.map(|costs| costs[1]),
        table.map(|costs| costs[2]),
    ])
}

/// A look-up of a word in a file, and each place that it finds.
type LookupCosts = [Option<f64>; 2];

/// Looks up words, each in its file: first those with few places there, then those with many. `find` gives how many.
fn lookup_costs(asked: &[Vec<(u32, u32)>; 2], find: impl Fn(u32, u32) -> usize) -> LookupCosts {
    let [rare, frequent] = asked.each_ref().map(|asked| {
        let found = asked.iter();
        found.map(|&(file, word)| timed(|| find(file, word)))
    });
    let lookups = rare.map(|(_, time)| time).collect();
    let places = frequent.map(|(count, time)| time / count as f64).collect();
    [median(lookups), median(places)]
}

/// N-grams, n-grams by file, and building what they are taken from.
type NgramCosts = [f64; 3];

/// What is measured on the grammar of the words alone.
struct OfGrammar {
    symbol: f64,
    file_symbol: f64,
    /// By the rules, and where all places are kept.
    lookups: [LookupCosts; 2],
    places_build: f64,
    /// From a suffix array, and from a table: the one that a segment keeps.
    ngrams: [Option<NgramCosts>; 2],
}

fn grammar_costs(corpus: &Corpus, runs: usize) -> Result<OfGrammar> {
    let words = Words::new(&words::read_pieces(corpus)?, corpus.files.len())?;
    let step = (words.words.len() / LOOKUP_WORDS).max(1);
    let indexes = (0..words.words.len()).step_by(step);
    // Files are numbered by u32.
    let asked = indexes.map(|index| (words.file_of(index) as u32, words.words[index]));
    let asked = asked.collect::<Vec<(u32, u32)>>();
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
    let lengths = &Lengths::new(view, |_| 1);
    let structures = Structures {
        view,
        lengths,
        signatures: &Signatures::new(view, |word| word),
        parents: Some(&Parents::new(view)),
    };
    let new = || WordPlaces::new(view, lengths, terminal_count, |word| (word, 0), &go);
    let (places, places_build) = timed(new);
    let places = places.map_err(|_| "stopped")?.ok_or("too many places")?;
    let kept = |file, word| places.places(word, lengths.file_range(file)).len();
    let by_rules = |file, word| {
        let (first, spaced, end) = (word, word + 1, word + 1);
        let word = WordTerminals { first, spaced, end };
        let tokens = lengths.file_range(file);
        locate_in_file(structures, word, file, tokens.end - tokens.start).len()
    };
    let mut of_words = [Vec::new(), Vec::new()];
    for (file, word) in asked {
        match kept(file, word) {
            0..=RARE_MAX => of_words[0].push((file, word)),
            FREQUENT_MIN.. if of_words[1].len() < FREQUENT_WORDS => of_words[1].push((file, word)),
            _ => {}
        }
    }
    let [found, kept] = [
        lookup_costs(&of_words, by_rules),
        lookup_costs(&of_words, kept),
    ];
    let all = weights(view, 0..view.root.len(), u64::from(u32::MAX)).into_iter();
    // A corpus of the suite has fewer words than that.
    let all: Vec<u32> = all.map(|weight| weight as u32).collect();
    let (n, order) = (NGRAM_WORDS, FileOrder::Count);
    let mut ngrams = [None, None];
    if word_count <= symbols * SYMBOL_WORDS_MAX {
        let (found, build) = timed(|| WordSuffixes::new(view, &all, WINDOW_BYTES, &go));
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
    Ok(OfGrammar {
        symbol: symbol / symbols,
        file_symbol: file_symbol / symbols,
        lookups: [found, kept],
        places_build: places_build / word_count,
        ngrams,
    })
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
