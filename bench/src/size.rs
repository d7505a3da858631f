//! Suite `size`: bytes on disk of each corpus in every engine, and compressed by tools that cannot query it.
//!
//! Every size is of all files of the database, or of the compressed stream; ratios are to `xz -6`.

use std::sync::Mutex;

use crate::compressors::Compressor;
use crate::corpus::Corpus;
use crate::engines::{self, Engine, Outcome, Purpose};
use crate::report::{Cell, MEGABYTE, Report, Table};
use crate::{Options, Result};

/// Measures, prints and writes.
pub fn run(options: &Options) -> Result<()> {
    let corpora = options
        .corpus
        .iter()
        .map(|path| Corpus::open(path))
        .collect::<Result<Vec<_>>>()?;
    let compressed = compress_all(&corpora, options)?;
    let mut report = Report::new("size", &options.output)?;
    for (corpus, compressed) in corpora.iter().zip(compressed) {
        let mut engines = Vec::new();
        for engine in Engine::INGESTING
            .into_iter()
            .filter(|engine| options.wants(engine.name()))
        {
            // Building a database has one size, however often it is built.
            engines.push(engines::run_job(engine, Purpose::Size, corpus, options)?);
        }
        report.add(corpus, vec![table(corpus.size(), &engines, &compressed)])?;
    }
    report.finish(notes(options))
}

/// Runs every compressor over every corpus, `threads` at a time; the sizes of each corpus, in order of the table.
fn compress_all(corpora: &[Corpus], options: &Options) -> Result<Vec<Vec<(&'static str, u64)>>> {
    let wanted: Vec<Compressor> = Compressor::ALL
        .into_iter()
        .filter(|one| options.wants(one.name()))
        .collect();
    // The slowest first, so that no thread is left with one at the end.
    let jobs = wanted.iter().rev().flat_map(|compressor| {
        corpora
            .iter()
            .enumerate()
            .map(move |job| (*compressor, job))
    });
    let jobs = Mutex::new(jobs);
    let mut sizes = Vec::new();
    std::thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..options.threads.max(1))
            .map(|_| {
                scope.spawn(|| -> Result<Vec<(usize, &'static str, u64)>> {
                    let mut done = Vec::new();
                    loop {
                        let next = jobs
                            .lock()
                            .expect("no thread panics while it takes a job")
                            .next();
                        let Some((compressor, (index, corpus))) = next else {
                            return Ok(done);
                        };
                        eprintln!("{}: {}", corpus.name, compressor.title());
                        done.push((index, compressor.name(), compressor.size(corpus)?));
                    }
                })
            })
            .collect();
        for worker in workers {
            sizes.extend(worker.join().map_err(|_| "a compressor panicked")??);
        }
        Ok(())
    })?;
    let of = |index: usize, compressor: &Compressor| {
        let found = sizes
            .iter()
            .find(|(other, name, _)| *other == index && *name == compressor.name());
        found.map(|(_, name, size)| (*name, *size))
    };
    Ok((0..corpora.len())
        .map(|index| {
            wanted
                .iter()
                .filter_map(|compressor| of(index, compressor))
                .collect()
        })
        .collect())
}

fn table(bytes: u64, engines: &[Outcome], compressed: &[(&'static str, u64)]) -> Table {
    let mut table = Table::new("", ["MB", "of xz -6"]);
    let of = |compressor: Compressor| {
        let found = compressed
            .iter()
            .find(|(name, _)| *name == compressor.name());
        found.map(|(_, size)| *size)
    };
    let xz = of(Compressor::Xz6);
    let mut row = |title: &str, size: u64| {
        let ratio = xz.map(|xz| size as f64 / xz as f64);
        table.row(
            title,
            [Cell::from(size as f64 / MEGABYTE), Cell::from(ratio)],
        );
    };
    row("text", bytes);
    for outcome in engines {
        row(outcome.engine.title(), outcome.size);
        if outcome.engine == Engine::Ours {
            for (part, size) in &outcome.parts {
                row(&format!("- {part}"), *size);
            }
        }
    }
    for compressor in Compressor::ALL {
        if let Some(size) = of(compressor) {
            row(compressor.title(), size);
        }
    }
    table
}

fn notes(options: &Options) -> Vec<String> {
    let mut notes = vec![
        "MB are 10^6 bytes. Databases: all files of the directory, after everything was closed."
            .to_owned(),
    ];
    for engine in Engine::INGESTING
        .into_iter()
        .filter(|engine| options.wants(engine.name()))
    {
        notes.push(engine.configuration(options.threads));
    }
    notes.push(
        "Compressors: one thread, one stream over the files in order of name; `--long` has a window of 2^27 bytes. \
         They answer no query."
            .to_owned(),
    );
    notes
}
