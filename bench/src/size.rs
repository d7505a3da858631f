//! Suite `size`: bytes on disk of each corpus in every engine, and compressed by tools that cannot query it.
//!
//! Every size is of all files of the database, or of the compressed stream; ratios are to `xz -6`.

use std::sync::Mutex;

use serde::Serialize;

use crate::compressors::Compressor;
use crate::corpus::Corpus;
use crate::engines::{self, Engine, Outcome, Purpose};
use crate::report::{self, MEGABYTE, Table};
use crate::{Options, Result};

/// All sizes of one corpus.
#[derive(Serialize)]
struct Sizes {
    corpus: String,
    files: usize,
    bytes: u64,
    engines: Vec<Outcome>,
    /// By the compressor's name.
    compressed: Vec<(&'static str, u64)>,
}

impl Sizes {
    fn engine(&self, engine: Engine) -> Option<&Outcome> {
        self.engines.iter().find(|outcome| outcome.engine == engine)
    }

    fn compressed(&self, compressor: Compressor) -> Option<u64> {
        self.compressed
            .iter()
            .find(|(name, _)| *name == compressor.name())
            .map(|(_, size)| *size)
    }
}

/// Measures, prints and writes.
pub fn run(options: &Options) -> Result<()> {
    let corpora = options
        .corpus
        .iter()
        .map(|path| Corpus::open(path))
        .collect::<Result<Vec<_>>>()?;
    let compressed = compress_all(&corpora, options)?;
    let mut results = Vec::new();
    for (corpus, compressed) in corpora.iter().zip(compressed) {
        let mut engines = Vec::new();
        for engine in Engine::INGESTING
            .into_iter()
            .filter(|engine| options.wants(engine.name()))
        {
            // Building a database has one size, however often it is built.
            engines.push(engines::run_job(engine, Purpose::Size, corpus, options)?);
        }
        results.push(Sizes {
            corpus: corpus.name.clone(),
            files: corpus.files.len(),
            bytes: corpus.size(),
            engines,
            compressed,
        });
    }
    let notes = notes(options);
    table(&results).print(&notes);
    report::write_json("size", options, &notes, &results)
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

fn table(results: &[Sizes]) -> Table {
    let mut titles = vec!["MB (of xz -6)".to_owned()];
    titles.extend(results.iter().map(|sizes| sizes.corpus.clone()));
    let mut table = Table::new(titles);
    let cell = |sizes: &Sizes, size: Option<u64>| match (size, sizes.compressed(Compressor::Xz6)) {
        (None, _) => String::new(),
        (Some(size), None) => format!("{:.2}", size as f64 / MEGABYTE),
        (Some(size), Some(xz)) => format!(
            "{:.2} ({:.2})",
            size as f64 / MEGABYTE,
            size as f64 / xz as f64
        ),
    };
    table.row(
        "text",
        results.iter().map(|sizes| cell(sizes, Some(sizes.bytes))),
    );
    for engine in Engine::INGESTING {
        if results.iter().all(|sizes| sizes.engine(engine).is_none()) {
            continue;
        }
        let size = |sizes: &Sizes| sizes.engine(engine).map(|outcome| outcome.size);
        let title = if engine == Engine::Ours {
            "**ZipfDB**"
        } else {
            engine.title()
        };
        table.row(title, results.iter().map(|sizes| cell(sizes, size(sizes))));
        if engine == Engine::Ours {
            for part in part_names(results) {
                let size = |sizes: &Sizes| {
                    let parts = &sizes.engine(engine)?.parts;
                    parts
                        .iter()
                        .find(|(name, _)| *name == part)
                        .map(|(_, size)| *size)
                };
                let cells = results.iter().map(|sizes| {
                    size(sizes).map_or(String::new(), |size| {
                        format!("{:.3}", size as f64 / MEGABYTE)
                    })
                });
                table.row(&format!("- {part}"), cells);
            }
        }
    }
    for compressor in Compressor::ALL {
        if results
            .iter()
            .any(|sizes| sizes.compressed(compressor).is_some())
        {
            table.row(
                compressor.title(),
                results
                    .iter()
                    .map(|sizes| cell(sizes, sizes.compressed(compressor))),
            );
        }
    }
    table
}

/// Names of the parts of our databases, in the order they are first met.
fn part_names(results: &[Sizes]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in results
        .iter()
        .filter_map(|sizes| sizes.engine(Engine::Ours))
        .flat_map(|outcome| &outcome.parts)
    {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
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
