//! Suite `tokenize`: how fast text becomes tokens, on one thread, for each tokenizer, with and without interning.
//!
//! All files of a corpus are read into memory before. Reading is not timed; times are those that the thread ran, where the
//! system reports it, so that other work on the machine does not count.

use std::fs;
use std::hint::black_box;
use std::time::Instant;

use zipfdb::fuzzing::{Interner, Sink, Tokenizer, tokenize};

use crate::corpus::Corpus;
use crate::report::{Cell, MEGABYTE, Report, Table};
use crate::{Options, Result};

/// Bytes of text that share an interner, as in ingest.
const CHUNK_BYTES: usize = 4 << 20;

/// One tokenizer on one corpus.
struct Measured {
    tokens: u64,
    /// Tokens of the dictionary of a chunk.
    distinct: u64,
    /// Seconds of each run.
    boundaries: Vec<f64>,
    interned: Vec<f64>,
}

/// Only counts.
#[derive(Default)]
struct Counter {
    tokens: u64,
    sum: usize,
}

impl Sink for Counter {
    #[inline(always)]
    fn word(&mut self, _text: &[u8], start: usize, _end: usize) {
        self.tokens += 1;
        self.sum ^= start;
    }

    #[inline(always)]
    fn gap(&mut self, _text: &[u8], start: usize, _end: usize) {
        self.tokens += 1;
        self.sum ^= start;
    }
}

/// Measures, prints and writes.
pub fn run(options: &Options) -> Result<()> {
    let runs = options.runs.max(1);
    let mut report = Report::new("tokenize", &options.output)?;
    for path in &options.corpus {
        let corpus = Corpus::open(path)?;
        let files = corpus.files.iter().map(|file| fs::read(&file.path));
        let texts: Vec<Vec<u8>> = files.collect::<std::io::Result<_>>()?;
        let titles = [
            "MB/s of boundaries",
            "MB/s interned",
            "tokens",
            "in a dictionary",
        ];
        let mut table = Table::new("", titles);
        for tokenizer in Tokenizer::ALL {
            let measured = measure(tokenizer, &texts, runs);
            let rates = |runs: &[f64]| {
                let rates = runs
                    .iter()
                    .map(|seconds| corpus.size() as f64 / MEGABYTE / seconds);
                Cell::of_runs(rates)
            };
            let cells = [
                rates(&measured.boundaries),
                rates(&measured.interned),
                Cell::from(measured.tokens),
                Cell::from(measured.distinct),
            ];
            table.row(tokenizer.to_string(), cells);
        }
        report.add(&corpus, vec![table])?;
    }
    report.finish(vec![format!("Median of {runs} runs on one thread.")])
}

fn measure(tokenizer: Tokenizer, texts: &[Vec<u8>], runs: usize) -> Measured {
    let mut tokens = 0;
    let boundaries = times(runs, || {
        let mut counter = Counter::default();
        for text in texts {
            tokenize(tokenizer, text, &mut counter);
        }
        tokens = counter.tokens;
        black_box(counter.sum);
    });
    let mut interner = Interner::new();
    let (mut distinct, mut chunks) = (0u64, 0u64);
    let interned = times(runs, || {
        (distinct, chunks) = (0, 0);
        let mut size = 0;
        for (index, text) in texts.iter().enumerate() {
            for chunk in text.chunks(CHUNK_BYTES) {
                tokenize(tokenizer, chunk, &mut interner);
                size += chunk.len();
                if size >= CHUNK_BYTES || index + 1 == texts.len() {
                    let (ids, dictionary) = interner.take();
                    black_box(ids);
                    distinct += dictionary.len() as u64;
                    chunks += 1;
                    size = 0;
                }
            }
        }
    });
    Measured {
        tokens,
        distinct: distinct / chunks.max(1),
        boundaries,
        interned,
    }
}

/// Seconds of each run.
fn times(runs: usize, mut run: impl FnMut()) -> Vec<f64> {
    let start = Instant::now();
    let timed = |_| {
        let before = thread_seconds(start);
        run();
        thread_seconds(start) - before
    };
    (0..runs).map(timed).collect()
}

/// Seconds that this thread has run, or since `start` where the system does not
/// report it.
pub fn thread_seconds(start: Instant) -> f64 {
    let times = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = times.and_then(|times| times.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or(start.elapsed().as_secs_f64(), |nanoseconds| {
        nanoseconds / 1e9
    })
}
