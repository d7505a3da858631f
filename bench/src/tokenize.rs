//! Suite `tokenize`: how fast text becomes tokens, on one thread, for each tokenizer, with and without interning.
//!
//! All files of a corpus are read into memory before. Reading is not timed; times are those that the thread ran, where the
//! system reports it, so that other work on the machine does not count.

use std::fs;
use std::hint::black_box;
use std::time::Instant;

use serde::Serialize;
use zipfdb::fuzzing::{Interner, Sink, Tokenizer, tokenize};

use crate::corpus::Corpus;
use crate::report::{self, MEGABYTE, Table};
use crate::{Options, Result};

/// Bytes of text that share an interner, as in ingest.
const CHUNK_BYTES: usize = 4 << 20;

/// One tokenizer on one corpus.
#[derive(Serialize)]
struct Measured {
    corpus: String,
    tokenizer: String,
    bytes: usize,
    tokens: u64,
    /// Tokens of the dictionary of a chunk.
    distinct: usize,
    /// Seconds of the median run.
    boundaries: f64,
    interned: f64,
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
    let mut results = Vec::new();
    let notes = [format!(
        "Median of {} runs on one thread.",
        options.runs.max(1)
    )];
    for path in &options.corpus {
        let corpus = Corpus::open(path)?;
        let files = corpus.files.iter().map(|file| fs::read(&file.path));
        let texts: Vec<Vec<u8>> = files.collect::<std::io::Result<_>>()?;
        report::heading(&corpus.name, corpus.size(), corpus.files.len());
        let titles = [
            "",
            "tokens",
            "in a dictionary",
            "MB/s of boundaries",
            "MB/s interned",
        ];
        let mut table = Table::new(titles.map(str::to_owned));
        for tokenizer in Tokenizer::ALL {
            let measured = measure(&corpus.name, tokenizer, &texts, options.runs.max(1));
            let rate = |seconds: f64| measured.bytes as f64 / MEGABYTE / seconds;
            table.row(
                &measured.tokenizer,
                [
                    measured.tokens.to_string(),
                    measured.distinct.to_string(),
                    report::digits(rate(measured.boundaries)),
                    report::digits(rate(measured.interned)),
                ],
            );
            results.push(measured);
        }
        table.print(&notes);
    }
    report::write_json("tokenize", options, &notes, &results)
}

fn measure(corpus: &str, tokenizer: Tokenizer, texts: &[Vec<u8>], runs: usize) -> Measured {
    let mut tokens = 0;
    let boundaries = median(runs, || {
        let mut counter = Counter::default();
        for text in texts {
            tokenize(tokenizer, text, &mut counter);
        }
        tokens = counter.tokens;
        black_box(counter.sum);
    });
    let mut interner = Interner::new();
    let (mut distinct, mut chunks) = (0, 0);
    let interned = median(runs, || {
        (distinct, chunks) = (0, 0);
        let mut size = 0;
        for (index, text) in texts.iter().enumerate() {
            for chunk in text.chunks(CHUNK_BYTES) {
                tokenize(tokenizer, chunk, &mut interner);
                size += chunk.len();
                if size >= CHUNK_BYTES || index + 1 == texts.len() {
                    let (ids, dictionary) = interner.take();
                    black_box(ids);
                    distinct += dictionary.len();
                    chunks += 1;
                    size = 0;
                }
            }
        }
    });
    Measured {
        corpus: corpus.to_owned(),
        tokenizer: tokenizer.to_string(),
        bytes: texts.iter().map(Vec::len).sum(),
        tokens,
        distinct: distinct / chunks.max(1),
        boundaries,
        interned,
    }
}

/// Seconds of the median run.
fn median(runs: usize, mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut seconds: Vec<f64> = (0..runs)
        .map(|_| {
            let before = thread_seconds(start);
            run();
            thread_seconds(start) - before
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[runs / 2]
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
