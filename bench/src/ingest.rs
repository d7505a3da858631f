//! Suite `ingest`: text to a durable database, in MB of text a second, and what it needs of memory.
//!
//! Engines take turns, so that a slow minute of the machine does not hit one of them alone; the table shows medians
//! of their rates, stages and memory.

use crate::corpus::Corpus;
use crate::engines::{self, Engine, Outcome, Purpose};
use crate::report::{Cell, MEGABYTE, Report, Table};
use crate::{Options, Result};

/// Measures, prints and writes.
pub fn run(options: &Options) -> Result<()> {
    let run_count = options.runs.max(1);
    let mut report = Report::new("ingest", &options.output)?;
    let (mut cold, mut all) = (0, 0);
    for path in &options.corpus {
        let corpus = Corpus::open(path)?;
        let mut runs = Vec::new();
        for _ in 0..run_count {
            for engine in Engine::INGESTING
                .into_iter()
                .filter(|engine| options.wants(engine.name()))
            {
                runs.push(engines::run_job(engine, Purpose::Ingest, &corpus, options)?);
            }
        }
        let is_cold = |run: &&Outcome| {
            run.disk_bytes_read
                .is_some_and(|read| read >= corpus.size())
        };
        cold += runs.iter().filter(is_cold).count();
        all += runs.len();
        report.add(&corpus, vec![table(&corpus, &runs)])?;
    }
    let mut notes = notes(options, run_count);
    notes.insert(
        1,
        format!("The page cache was asked to drop the corpus before each run; {cold} of {all} runs then read all of it from the disk."),
    );
    report.finish(notes)
}

fn table(corpus: &Corpus, runs: &[Outcome]) -> Table {
    let mut table = Table::new("MB/s", [""]);
    let megabytes = corpus.size() as f64 / MEGABYTE;
    let of = |engine: Engine| runs.iter().filter(move |run| run.engine == engine);
    for engine in Engine::INGESTING {
        let rates = of(engine).map(|run| megabytes / run.seconds);
        table.row(engine.title(), [Cell::of_runs(rates)]);
        for (stage, _) in of(engine).next().into_iter().flat_map(|run| &run.stages) {
            let rates = of(engine)
                .flat_map(|run| &run.stages)
                .filter(|(name, _)| name == stage)
                .map(|(_, seconds)| megabytes / seconds);
            table.row(stage_title(engine, stage), [Cell::of_runs(rates)]);
        }
    }
    for engine in Engine::INGESTING {
        let memory = of(engine).map(|run| run.memory_max as f64 / MEGABYTE);
        let title = format!("{}: peak memory, MB", engine.title());
        table.row(title, [Cell::of_runs(memory)]);
    }
    table
}

/// Stages of two engines may have the same name.
fn stage_title(engine: Engine, stage: &str) -> String {
    if engine == Engine::Ours {
        format!("- {stage}")
    } else {
        format!("- {}: {stage}", engine.title())
    }
}

fn notes(options: &Options, run_count: usize) -> Vec<String> {
    let mut notes = vec![format!(
        "MB are 10^6 bytes of text; a stage's figure is all text over the stage's seconds. From opening the first file \
             to a durable database that can be queried. Median of {run_count}. Memory is the largest resident set, mapped \
             files included."
    )];
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
