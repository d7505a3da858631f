//! Suite `ingest`: text to a durable database, in MB of text a second, and what it needs of memory.
//!
//! Engines take turns, so that a slow minute of the machine does not hit one of them alone; the table shows the run
//! whose time is the median.

use serde::Serialize;

use crate::corpus::Corpus;
use crate::engines::{self, Engine, Outcome, Purpose};
use crate::report::{self, MEGABYTE, Table};
use crate::{Options, Result};

/// All runs over one corpus.
#[derive(Serialize)]
struct Runs {
    corpus: String,
    files: usize,
    bytes: u64,
    runs: Vec<Outcome>,
}

impl Runs {
    /// The run of `engine` with the median time.
    fn median(&self, engine: Engine) -> Option<&Outcome> {
        let mut runs: Vec<&Outcome> = self
            .runs
            .iter()
            .filter(|run| run.engine == engine)
            .collect();
        runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        runs.get(runs.len().saturating_sub(1) / 2).copied()
    }
}

/// Measures, prints and writes.
pub fn run(options: &Options) -> Result<()> {
    let corpora = options
        .corpus
        .iter()
        .map(|path| Corpus::open(path))
        .collect::<Result<Vec<_>>>()?;
    let run_count = options.runs.max(1);
    let mut results = Vec::new();
    for corpus in &corpora {
        let mut runs = Vec::new();
        for _ in 0..run_count {
            for engine in Engine::INGESTING
                .into_iter()
                .filter(|engine| options.wants(engine.name()))
            {
                runs.push(engines::run_job(engine, Purpose::Ingest, corpus, options)?);
            }
        }
        results.push(Runs {
            corpus: corpus.name.clone(),
            files: corpus.files.len(),
            bytes: corpus.size(),
            runs,
        });
    }
    let notes = notes(options, run_count, &results);
    table(&results).print(&notes);
    report::write_json("ingest", options, &notes, &results)
}

fn table(results: &[Runs]) -> Table {
    let mut titles = vec!["MB/s".to_owned()];
    titles.extend(results.iter().map(|runs| runs.corpus.clone()));
    let mut table = Table::new(titles);
    let rate = |runs: &Runs, seconds: f64| format!("{:.1}", runs.bytes as f64 / MEGABYTE / seconds);
    for engine in Engine::INGESTING {
        if results.iter().all(|runs| runs.median(engine).is_none()) {
            continue;
        }
        let cell = |runs: &Runs| {
            runs.median(engine)
                .map_or(String::new(), |run| rate(runs, run.seconds))
        };
        let title = if engine == Engine::Ours {
            "**ZipfDB**"
        } else {
            engine.title()
        };
        table.row(title, results.iter().map(cell));
        for stage in stage_names(results, engine) {
            let cell = |runs: &Runs| {
                let stages = &runs.median(engine)?.stages;
                stages
                    .iter()
                    .find(|(name, _)| *name == stage)
                    .map(|(_, seconds)| rate(runs, *seconds))
            };
            table.row(
                &format!("- {stage}"),
                results.iter().map(|runs| cell(runs).unwrap_or_default()),
            );
        }
    }
    for engine in Engine::INGESTING {
        if results.iter().all(|runs| runs.median(engine).is_none()) {
            continue;
        }
        let memory = |runs: &Runs| {
            runs.median(engine).map_or(String::new(), |run| {
                format!("{:.0}", run.memory_max as f64 / MEGABYTE)
            })
        };
        table.row(
            &format!("{}: peak memory, MB", engine.title()),
            results.iter().map(memory),
        );
    }
    table
}

/// Names of the stages of `engine`, in the order they are first met.
fn stage_names(results: &[Runs], engine: Engine) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in results
        .iter()
        .filter_map(|runs| runs.median(engine))
        .flat_map(|run| &run.stages)
    {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn notes(options: &Options, run_count: usize, results: &[Runs]) -> Vec<String> {
    let all_runs: Vec<(&Runs, &Outcome)> = results
        .iter()
        .flat_map(|runs| runs.runs.iter().map(move |run| (runs, run)))
        .collect();
    let cold = all_runs
        .iter()
        .filter(|(runs, run)| run.disk_bytes_read.is_some_and(|read| read >= runs.bytes))
        .count();
    let mut notes = vec![
        format!(
            "MB are 10^6 bytes of text; a stage's figure is all text over the stage's seconds. From opening the first file \
             to a durable database that can be queried. Median of {run_count}. Memory is the largest resident set, mapped \
             files included."
        ),
        format!(
            "The corpus was dropped from the page cache before each run; {cold} of {} runs then read all of it from the disk.",
            all_runs.len()
        ),
    ];
    for engine in Engine::INGESTING
        .into_iter()
        .filter(|engine| options.wants(engine.name()))
    {
        notes.push(engine.configuration(options.threads));
    }
    if options.wants(Engine::Ours.name()) {
        notes.push(engines::stages_of_ours());
    }
    notes
}
