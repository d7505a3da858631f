//! How fast text becomes tokens: MB/s of one thread, for each tokenizer, with and without interning.
//!
//! `cargo run --release --example tokenize_speed -- PATH...` reads all files under the paths into memory and prints a
//! Markdown table, the median of five runs. Reading is not timed; nothing is written.

// The tokenizer is not part of the public API, so the example compiles it once more.
#[path = "../src/tokenize/mod.rs"]
#[allow(dead_code, unused_imports)]
mod tokenize;

use std::path::{Path, PathBuf};
use std::time::Instant;
use tokenize::{Interner, Sink};
use zipfdb_storage::Tokenizer;

const RUNS: usize = 5;

/// Bytes of text that share an interner, as in ingest.
const CHUNK_BYTES: usize = 4 << 20;

/// Only counts.
#[derive(Default)]
struct Counter {
    words: u64,
    gaps: u64,
    sum: usize,
}

impl Sink for Counter {
    #[inline(always)]
    fn word(&mut self, _text: &[u8], start: usize, _end: usize) {
        self.words += 1;
        self.sum ^= start;
    }

    #[inline(always)]
    fn gap(&mut self, _text: &[u8], start: usize, _end: usize) {
        self.gaps += 1;
        self.sum ^= start;
    }
}

fn read(path: &Path, texts: &mut Vec<Vec<u8>>) -> std::io::Result<()> {
    if path.is_dir() {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(path)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        paths.sort();
        paths.iter().try_for_each(|path| read(path, texts))
    } else {
        texts.push(std::fs::read(path)?);
        Ok(())
    }
}

/// Seconds that this thread has run, where the system tells, so that other work on the machine does not count.
fn thread_seconds(start: Instant) -> f64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|times| times.split(' ').next()?.parse().ok())
        .map_or(start.elapsed().as_secs_f64(), |nanoseconds: f64| {
            nanoseconds / 1e9
        })
}

/// Seconds of the median run.
fn median(mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut seconds: Vec<f64> = (0..RUNS)
        .map(|_| {
            let before = thread_seconds(start);
            run();
            thread_seconds(start) - before
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[RUNS / 2]
}

fn main() -> std::io::Result<()> {
    println!(
        "| path | tokenizer | MB | tokens | tokens/chunk dictionary | MB/s boundaries | MB/s interned | ns/token |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for path in std::env::args_os().skip(1) {
        let mut texts = Vec::new();
        read(Path::new(&path), &mut texts)?;
        let megabytes = texts.iter().map(Vec::len).sum::<usize>() as f64 / 1e6;
        for tokenizer in Tokenizer::ALL {
            let mut tokens = 0;
            let boundaries = median(|| {
                let mut counter = Counter::default();
                for text in &texts {
                    tokenize::tokenize(tokenizer, text, &mut counter);
                }
                tokens = counter.words + counter.gaps;
                std::hint::black_box(counter.sum);
            });
            let mut interner = Interner::new();
            let (mut distinct, mut chunks) = (0, 0);
            let interned = median(|| {
                (distinct, chunks) = (0, 0);
                let mut size = 0;
                for (index, text) in texts.iter().enumerate() {
                    for chunk in text.chunks(CHUNK_BYTES) {
                        tokenize::tokenize(tokenizer, chunk, &mut interner);
                        size += chunk.len();
                        if size >= CHUNK_BYTES || index + 1 == texts.len() {
                            let (ids, dictionary) = interner.take();
                            std::hint::black_box(ids);
                            distinct += dictionary.len();
                            chunks += 1;
                            size = 0;
                        }
                    }
                }
            });
            println!(
                "| {} | {tokenizer} | {megabytes:.1} | {tokens} | {} | {:.0} | {:.0} | {:.1} |",
                Path::new(&path).display(),
                distinct / chunks.max(1),
                megabytes / boundaries,
                megabytes / interned,
                interned * 1e9 / tokens as f64,
            );
        }
    }
    Ok(())
}
