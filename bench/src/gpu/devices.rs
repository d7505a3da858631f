//! Part `devices`: a corpus of several segments on one device, and on all that there are.
//!
//! Segments like one of the corpus are shared out among the devices, each of which copies its grammars, works with them and copies
//! the answers to the host: an inverted index and sequences of three words. Then the corpus itself, in as many segments, is asked
//! for its sequences and a batch of searches through the database, which puts the answers of segments together on the host. Prints
//! times with one device and with all, and whether the answers are equal.

use std::path::Path;
use std::thread;
use std::time::Instant;

use zipfdb::answers::NgramCounts as NgramTable;

use zipfdb::ingest::NoProgress;

use zipfdb::{Database, Snapshot};
use zipfdb_kernels::gpu::{
    self, DeviceGrammar, DeviceWords, FileUses, Gpu, GpuError, devices, word_file_counts,
};
use zipfdb_kernels::{CountTable, GrammarView, NgramCounts};

use super::arrays::{Arrays, Scratch};
use super::kernels::Work;
use super::lookups::{Numbers, QUERIES, draw_queries};
use crate::Result;
use crate::report::Table;

/// Segments of a corpus.
const SEGMENTS: usize = 12;

const RUNS: usize = 3;

/// Bytes for windows.
const MEMORY: usize = 1 << 30;

/// What is found in a segment.
#[derive(PartialEq)]
enum Found {
    Files(CountTable),
    Ngrams(Vec<NgramCounts>),
}

/// Times many segments like these, and the corpus in many segments.
pub fn run(path: &Path, device: usize, segments: &[Arrays]) -> Result<Table> {
    let all = devices().map_err(|absence| absence.to_string())?;
    let with_memory = |gpu: &Gpu| gpu.with_memory_limit(gpu.memory_limit());
    let one = [with_memory(&all[device])];
    let all: Vec<Gpu> = all.iter().map(with_memory).collect();
    let mut table = Table::new(
        format!("{SEGMENTS} segments, ms"),
        ["one device", "all devices", "devices"],
    );
    let gpus = all.len();
    for arrays in segments {
        let work = Work::new(&one[0], &arrays.tokens, &arrays.file_offsets, arrays)?;
        for (name, is_ngrams) in [("inverted index", false), ("sequence count, n = 3", true)] {
            let ask = |gpus: &[Gpu]| best(|| Ok(share_out(gpus, work.word_view(), is_ngrams)?));
            let name = format!("{name}, {}", arrays.name);
            let (one, all) = (ask(&one)?, ask(&all)?);
            compared(&mut table, &name, gpus, one, all, |one, all| one == all)?;
        }
    }
    through_database(path, device, gpus, segments, &mut table)?;
    Ok(table)
}

/// Has segments answered, each by the device whose turn it is.
fn share_out(
    gpus: &[Gpu],
    view: GrammarView<'_>,
    is_ngrams: bool,
) -> std::result::Result<Vec<Found>, GpuError> {
    let of_device = |number: usize| {
        let turns = (number..SEGMENTS).step_by(gpus.len());
        turns
            .map(|_| answer(&gpus[number], view, is_ngrams))
            .collect()
    };
    thread::scope(|scope| {
        let devices = (0..gpus.len()).map(|number| scope.spawn(move || of_device(number)));
        // All begin before the first is waited for.
        let devices: Vec<_> = devices.collect();
        let found = devices.into_iter().map(|device| {
            let found: std::result::Result<Vec<Found>, GpuError> =
                device.join().expect("work on a device does not panic");
            found
        });
        let found = found.collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(found.into_iter().flatten().collect())
    })
}

/// Answers one question of a segment, and copies the answer to the host.
fn answer(
    gpu: &Gpu,
    view: GrammarView<'_>,
    is_ngrams: bool,
) -> std::result::Result<Found, GpuError> {
    let words = DeviceWords::new(gpu, DeviceGrammar::upload(gpu, view)?)?;
    if is_ngrams {
        let counts = gpu::weights(gpu, &words)?;
        let mut found = Vec::new();
        let mut take = |part: gpu::DeviceNgrams, _| {
            found.push(part.download(gpu)?);
            Ok(())
        };
        gpu::each_ngram_counts(gpu, &words, &counts, 3, MEMORY, &mut take)?;
        return Ok(Found::Ngrams(found));
    }
    let uses = FileUses::new(gpu, &words)?;
    let table = word_file_counts(gpu, &words, &uses)?;
    Ok(Found::Files(table.download(gpu)?))
}

/// Times the corpus itself in several segments.
fn through_database(
    path: &Path,
    device: usize,
    all: usize,
    segments: &[Arrays],
    table: &mut Table,
) -> Result<()> {
    let scratch = Scratch::of_corpus(path)?;
    let text_bytes: u64 = segments.iter().map(|arrays| arrays.text_bytes).sum();
    {
        let database = Database::open(&scratch.database)?;
        database.execute_batch("SET device = 'cpu'")?;
        let corpus = database.corpus(&database.corpora()[0])?;
        corpus.set_segment_size(text_bytes.div_ceil(SEGMENTS as u64))?;
        corpus.recompress(&NoProgress)?;
    }
    let mut numbers = Numbers(5);
    let arrays = &segments[0];
    let questions: Vec<(&str, &[u8])> = (draw_queries(arrays, &mut numbers).iter())
        .take(QUERIES)
        .map(|query| {
            // The first of its tokens is without a space, if any is.
            let word = arrays.token(query.word.first);
            let word = word.strip_prefix(b" ").unwrap_or(word);
            (&arrays.files[query.file as usize][..], word)
        })
        .collect();
    // What lies on a device stays there: each has a database of its own.
    let with = |setting: &str| -> Result<Snapshot> {
        let database = Database::open(&scratch.database)?;
        database.execute_batch(&format!("SET device = '{setting}'"))?;
        Ok(database.corpus(&database.corpora()[0])?.snapshot()?)
    };
    let one = format!("cuda:{device}");
    let ngrams = |setting: &str| {
        let snapshot = with(setting)?;
        best(|| Ok(snapshot.ngrams(3)?))
    };
    let is_equal = |one: &NgramTable, all: &NgramTable| {
        let mut both = one.iter().zip(all.iter());
        one.len() == all.len()
            && both.all(|((left, n), (right, m))| n == m && left.words().eq(right.words()))
    };
    compared(
        table,
        "sequence count, n = 3, through the database",
        all,
        ngrams(&one)?,
        ngrams("cuda")?,
        is_equal,
    )?;
    let searches = |setting: &str| {
        let snapshot = with(setting)?;
        best(|| Ok(snapshot.search_in_many(&questions)?))
    };
    compared(
        table,
        "search, through the database",
        all,
        searches(&one)?,
        searches("cuda")?,
        |one, all| one == all,
    )?;
    Ok(())
}

/// Adds a row. Answers must be equal.
fn compared<A>(
    table: &mut Table,
    name: &str,
    count: usize,
    one: (f64, A),
    all: (f64, A),
    is_equal: impl Fn(&A, &A) -> bool,
) -> Result<()> {
    if !is_equal(&one.1, &all.1) {
        return Err(format!("{name}: one device and all differ").into());
    }
    table.row(name, [one.0, all.0, count as f64]);
    Ok(())
}

/// The best of some runs after a first one, in milliseconds, and the last answer.
fn best<A>(run: impl Fn() -> Result<A>) -> Result<(f64, A)> {
    let mut last = run()?;
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        drop(last);
        let begin = Instant::now();
        last = run()?;
        best = best.min(begin.elapsed().as_secs_f64() * 1e3);
    }
    Ok((best, last))
}
