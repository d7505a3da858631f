//! What recompression in the background costs: readers beside it, and bytes written for each byte committed.
//!
//! Readers ask from one thread: cycles of a count, a search and an extract of 64 bytes, each of which is a look-up, and one
//! word count for every 300 look-ups, on a snapshot that is taken anew for each cycle.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use zipfdb::{Corpus as Target, CorpusSettings, Database};

use super::{EDIT_BYTES, Edits, Figure, Unit};
use crate::Result;
use crate::corpus::Corpus;

/// How long readers are timed without a recompression.
const ALONE: Duration = Duration::from_secs(5);

/// Bytes pending when a recompression begins, unless a part of the corpus is more.
const THRESHOLD: u64 = 1 << 18;

/// Files and commits of the corpus that grows: bytes, and how many.
const FILE_BYTES: usize = 1 << 14;
const FILES_OF_COMMIT: usize = 4;

/// Text that goes into it at most.
const GROWN_BYTES: usize = 32 << 20;

/// Inserts of a commit.
const INSERTS_OF_COMMIT: usize = 200;

/// Seconds that each look-up and each word count took.
#[derive(Default)]
struct Times {
    lookups: Vec<f64>,
    word_counts: Vec<f64>,
}

/// Readers alone, then beside a recompression of all that is pending. The threshold of the corpus is changed.
pub fn readers(target: &Target, names: &[&str], words: &[String]) -> Result<Vec<Figure>> {
    let start = Instant::now();
    let alone = read(target, names, words, || start.elapsed() < ALONE)?;
    target.set_recompress_threshold(THRESHOLD)?;
    let beside = thread::scope(|scope| {
        // The writer waits until what is pending is merged.
        let writer = scope.spawn(|| target.append_many(&[(names[0], "the last one")]));
        let beside = read(target, names, words, || !writer.is_finished());
        writer.join().map_err(|_| "the writer panicked")??;
        beside
    })?;
    let mut figures = Vec::new();
    let mut push = |name, times: Vec<f64>, percent| {
        figures.push(Figure {
            name,
            engine: "ours",
            unit: Unit::Seconds,
            value: percentile(times, percent),
        });
    };
    push("look-up, median", alone.lookups.clone(), 50);
    push("- beside a recompression", beside.lookups.clone(), 50);
    push("look-up, p99", alone.lookups, 99);
    push("- p99 beside a recompression", beside.lookups, 99);
    push("word count, median", alone.word_counts.clone(), 50);
    push(
        "- word count beside a recompression",
        beside.word_counts.clone(),
        50,
    );
    push("word count, p99", alone.word_counts, 99);
    push(
        "- word count, p99 beside a recompression",
        beside.word_counts,
        99,
    );
    Ok(figures)
}

fn read(
    target: &Target,
    names: &[&str],
    words: &[String],
    go_on: impl Fn() -> bool,
) -> Result<Times> {
    let mut times = Times::default();
    let mut question = 0;
    while go_on() {
        let snapshot = target.snapshot()?;
        for _ in 0..100 {
            let file = names[question * 7919 % names.len()];
            let word = &words[question * question * 13 % words.len().min(20_000)];
            let size = snapshot.file(file).map_or(0, |file| file.bytes);
            let offset = question as u64 * 104_729 % size.max(1);
            let mut time = |work: &dyn Fn() -> zipfdb::Result<()>| {
                let start = Instant::now();
                let done = work();
                times.lookups.push(start.elapsed().as_secs_f64());
                done
            };
            time(&|| snapshot.count_in(file, word).map(drop))?;
            time(&|| snapshot.search_in(file, word).map(drop))?;
            time(&|| snapshot.extract(file, offset, 64).map(drop))?;
            question += 1;
        }
        let start = Instant::now();
        snapshot.words()?;
        times.word_counts.push(start.elapsed().as_secs_f64());
    }
    Ok(times)
}

fn percentile(mut times: Vec<f64>, percent: usize) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(at).copied().unwrap_or_default()
}

/// Bytes written for each byte of text that is committed: while a corpus grows by new files, and while texts are
/// inserted all over it. Nothing where the system does not count them.
pub fn amplification(
    corpus: &Corpus,
    edits: &Edits,
    directory: &Path,
    threads: usize,
) -> Result<Vec<Figure>> {
    let path = directory.join("growing.zdb");
    let database = Database::options().threads(threads).open(&path)?;
    let settings = CorpusSettings {
        recompress_threshold: THRESHOLD,
        ..CorpusSettings::default()
    };
    let target = database.create_corpus("growing", settings)?;
    let Some(before) = written_bytes() else {
        return Ok(Vec::new());
    };
    let mut names = Vec::new();
    let mut committed = 0;
    for file in &corpus.files {
        let text = fs::read(&file.path)?;
        let pieces: Vec<&[u8]> = text.chunks(FILE_BYTES).collect();
        for pieces in pieces.chunks(FILES_OF_COMMIT) {
            let first = names.len();
            names.extend((first..first + pieces.len()).map(|number| format!("f{number:06}")));
            let rows: Vec<(&String, &[u8])> = names[first..].iter().zip(pieces.to_vec()).collect();
            target.append_many(&rows)?;
            committed += pieces.iter().map(|piece| piece.len()).sum::<usize>();
        }
        if committed > GROWN_BYTES {
            break;
        }
    }
    let grown = written_bytes().unwrap_or(before);
    // As much again, in small pieces at random places.
    let files: Vec<(&String, u64)> = (names.iter())
        .map(|name| {
            Ok((
                name,
                target.snapshot()?.file(name).map_or(0, |file| file.bytes),
            ))
        })
        .collect::<Result<_>>()?;
    let count = committed / EDIT_BYTES;
    let inserts: Vec<(&String, u64, &[u8])> =
        (edits.inserts.iter().cycle().take(count).enumerate())
            .map(|(number, insert)| {
                let (name, size) = files[number * 7919 % files.len()];
                (name, insert.offset % (size + 1), &insert.text[..])
            })
            .collect();
    for rows in inserts.chunks(INSERTS_OF_COMMIT) {
        target.insert_many(rows)?;
    }
    drop((target, database));
    let end = written_bytes().unwrap_or(grown);
    let figure = |name, written: u64, committed: usize| Figure {
        name,
        engine: "ours",
        unit: Unit::Ratio,
        value: written as f64 / committed.max(1) as f64,
    };
    Ok(vec![
        figure(
            "bytes written per byte of new files",
            grown - before,
            committed,
        ),
        figure(
            "bytes written per byte inserted all over",
            end - grown,
            count * EDIT_BYTES,
        ),
    ])
}

/// Bytes that this process has given to the system to write, where it counts them.
fn written_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: "))?;
    line.trim().parse().ok()
}
