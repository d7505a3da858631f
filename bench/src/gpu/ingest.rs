//! Part `ingest`: files to a durable segment, with grammar construction on a device and without.
//!
//! The files are what the database has. The tables have the time of every stage of the fastest run, and what the device's part
//! is made of. Segments have the same bytes. A segment is encoded as it is written; what encoding takes is that
//! stage in a database in memory.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use zipfdb::ingest::{CopyOptions, NoProgress, Report};

use zipfdb::{CorpusSettings, Database};
use zipfdb_kernels::Parameters;
use zipfdb_kernels::gpu::{self, Gpu, Step};

use super::arrays::{Arrays, Scratch};
use crate::Result;
use crate::report::Table;

const RUNS: usize = 3;

/// Times an ingest of the files of a corpus.
pub fn run(path: &Path, gpu: &Gpu, device: usize, segments: &[Arrays]) -> Result<[Table; 2]> {
    let texts = tempfile::tempdir()?;
    let bytes: u64 = {
        let scratch = Scratch::of_corpus(path)?;
        let database = Database::open(&scratch.database)?;
        let corpus = database.corpus(&database.corpora()[0])?;
        corpus.copy_to(texts.path(), &NoProgress)?;
        corpus.files()?.iter().map(|file| file.bytes).sum()
    };
    let titles = [
        "all",
        "MB/s",
        "read",
        "tokenize",
        "dictionary",
        "rounds",
        "prune",
        "encode",
        "write",
        "commit",
    ];
    let mut table = Table::new("ingest, ms", titles);
    let device = format!("cuda:{device}");
    let mut written = Vec::new();
    for setting in ["cpu", &device] {
        let (all, times, segments) = ingest(setting, texts.path())?;
        let encode = encode(setting, texts.path())?;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let known = [
            times.read,
            times.tokenize,
            times.dictionary,
            times.rounds,
            times.prune,
            times.write,
        ];
        let known: Duration = known.iter().sum();
        let cells = [
            ms(all),
            bytes as f64 / all.as_secs_f64() / 1e6,
            ms(times.read),
            ms(times.tokenize),
            ms(times.dictionary),
            ms(times.rounds),
            ms(times.prune),
            ms(encode),
            ms(times.write.saturating_sub(encode)),
            ms(all.saturating_sub(known)),
        ];
        table.row(setting, cells);
        written.push(segments);
    }
    if written[0] != written[1] {
        return Err("a device and the CPU write different segments".into());
    }
    let titles = ["upload", "rounds", "prune and renumber", "download"];
    let mut parts = Table::new("construction on the device, ms", titles).detail();
    for arrays in segments {
        parts.row(&*arrays.name, on_device(gpu, arrays)?);
    }
    Ok([table, parts])
}

/// The fastest of some runs after a first one: its time and its stages; and the segments by name.
fn ingest(
    setting: &str,
    texts: &Path,
) -> Result<(Duration, zipfdb::ingest::Times, BTreeMap<String, Vec<u8>>)> {
    let mut best: Option<(Duration, zipfdb::ingest::Times)> = None;
    let mut segments = BTreeMap::new();
    for turn in 0..=RUNS {
        let folder = tempfile::tempdir()?;
        let directory = folder.path().join("new.zdb");
        let (all, report) = copy(Database::open(&directory)?, setting, texts)?;
        if turn > 0 && best.is_none_or(|(time, _)| all < time) {
            best = Some((all, report.times));
        }
        segments.clear();
        for entry in fs::read_dir(directory.join("segments"))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            segments.insert(name, fs::read(entry.path())?);
        }
    }
    let (all, times) = best.ok_or("no runs")?;
    Ok((all, times, segments))
}

/// What writing a segment takes without a disk.
fn encode(setting: &str, texts: &Path) -> Result<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..RUNS {
        let (_, report) = copy(Database::in_memory()?, setting, texts)?;
        best = best.min(report.times.write);
    }
    Ok(best)
}

fn copy(database: Database, setting: &str, texts: &Path) -> Result<(Duration, Report)> {
    database.execute_batch(&format!("SET device = '{setting}'"))?;
    let corpus = database.create_corpus("c", CorpusSettings::default())?;
    let begin = Instant::now();
    let report = corpus.copy_from(texts, &CopyOptions::default())?;
    Ok((begin.elapsed(), report))
}

/// Milliseconds that construction of a segment on the device is made of, by the host's clock.
fn on_device(gpu: &Gpu, arrays: &Arrays) -> Result<[f64; 4]> {
    let mut best = [f64::INFINITY; 4];
    for _ in 0..=RUNS {
        let clock = RefCell::new(Instant::now());
        let lap = || {
            gpu.synchronize()?;
            let now = Instant::now();
            let before = clock.replace(now);
            Ok::<f64, gpu::GpuError>((now - before).as_secs_f64() * 1e3)
        };
        let tokens = gpu.upload(&arrays.tokens)?;
        let files = gpu.upload(&arrays.file_offsets)?;
        let upload = lap()?;
        let mut rounds = Ok(0.0);
        let grammar = gpu::construct_resident(
            gpu,
            &tokens,
            &files,
            arrays.terminal_count(),
            &Parameters::default(),
            &mut |step| {
                if matches!(step, Step::Prune) {
                    rounds = lap();
                }
            },
            &AtomicBool::new(false),
        )?;
        let numbered = lap()?;
        grammar.download(gpu)?;
        let times = [upload, rounds?, numbered, lap()?];
        for (best, time) in best.iter_mut().zip(times) {
            *best = best.min(time);
        }
    }
    Ok(best)
}
