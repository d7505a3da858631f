//! Processes that get little memory or few descriptors.
//!
//! The invariant: a statement gives the right answer or an error, and what was acknowledged is there afterwards. Rust ends
//! a process whose allocator fails, which counts as an outcome of its own and no failure; any other signal is one.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::OnceLock;

use zipfdb::ingest::CopyOptions;

use zipfdb::{CorpusSettings, Database};

use crate::campaign::{Campaign, Outcome, Trial, ensure};
use crate::child::{report_line, run};
use crate::damage::{View, examine};
use zipfdb_test_model::killed::random_changes;
use zipfdb_test_model::{State, possible};
use zipfdb_test_support::harness::Random;

/// Changes before the queries.
const CHANGES: usize = 12;

const MIB: u64 = 1 << 20;

/// Different scenarios.
const SEEDS: u64 = 4;

pub fn attack(campaign: &mut Campaign) {
    let enough: Vec<OnceLock<String>> = (0..SEEDS).map(|_| OnceLock::new()).collect();
    let trials = campaign.share(60);
    campaign.run("memory", trials, |trial| {
        limited(
            trial,
            &enough,
            "memory",
            24 * MIB + trial.number * 360 * MIB / trials,
        )
    });
    let trials = campaign.share(40);
    campaign.run("descriptors", trials, |trial| {
        limited(
            trial,
            &enough,
            "descriptors",
            4 + trial.number * 76 / trials,
        )
    });
}

fn limited(trial: &Trial, enough: &[OnceLock<String>], resource: &str, value: u64) -> Outcome {
    let seed = trial.number % SEEDS;
    let work = |name: &str, resource: &str, value: u64| {
        let root = trial.path(name);
        std::fs::create_dir(&root).unwrap();
        let (seed, count) = (seed.to_string(), CHANGES.to_string());
        run(&[
            "limited",
            resource,
            &value.to_string(),
            &seed,
            &count,
            root.to_str().unwrap(),
        ])
    };
    // The output where memory and files suffice.
    let enough = enough[seed as usize].get_or_init(|| {
        let ended = work("enough", "memory", 1 << 40);
        ended.is_clean().unwrap();
        ended.output
    });
    let ended = work("root", resource, value);
    let context = format!("{resource} {value}, seed {seed}");
    let is_out_of_memory = resource == "memory" && ended.is_out_of_memory();
    if !is_out_of_memory {
        ended
            .is_clean()
            .map_err(|problem| format!("{context}: {problem}"))?;
    }
    let changes = random_changes(seed, CHANGES);
    let done = ended.output.lines().filter(|line| *line == "done").count();
    let path = trial.path("root").join("d.zdb");
    if path.exists() {
        let view = View::of(&examine("write", &path))
            .map_err(|problem| format!("{context}: {problem}"))?;
        let possible = possible(&State::new(), &changes, done, false);
        ensure(possible.iter().any(|state| view.is(state)), || {
            format!("{context}: after {done} changes: {:?}", view.reported())
        })?;
    }
    let mut failed = ended.lines("error").count();
    for answer in ended.lines("answer") {
        let line = format!("answer {answer}");
        let expected = enough.lines().any(|other| other == line);
        // Queries on a database of fewer changes have other answers.
        ensure(expected || done < CHANGES, || {
            format!("{context}: a wrong answer: {answer}")
        })?;
    }
    failed += usize::from(done < CHANGES);
    trial.passed(match (is_out_of_memory, failed) {
        (true, _) => "out of memory",
        (false, 0) => "right",
        (false, _) => "error",
    });
    Ok(())
}

/// Some queries, among them such that spill, and a number for what each gives.
pub fn queries(folder: &Path) {
    let database = match Database::options().threads(2).open(folder.join("q.zdb")) {
        Ok(database) => database,
        Err(error) => return report_line(&format!("error {error}")),
    };
    let mut random = Random::new(1);
    let import = folder.join("many");
    let prepared = std::fs::create_dir(&import).and_then(|()| {
        (0..30).try_for_each(|number| {
            let words = (0..1500).map(|_| format!("w{} ", random.below(20_000)));
            std::fs::write(import.join(format!("f{number}")), words.collect::<String>())
        })
    });
    if let Err(error) = prepared {
        return report_line(&format!("error {error}"));
    }
    let corpus = database.create_corpus("c", CorpusSettings::default());
    let copied = corpus.and_then(|corpus| corpus.copy_from(&import, &CopyOptions::default()));
    if let Err(error) = copied {
        return report_line(&format!("error {error}"));
    }
    for (number, sql) in [
        "SET memory_limit = '1MiB'",
        "SELECT word, COUNT(*) FROM c GROUP BY word ORDER BY 2 DESC, 1",
        "SELECT word, file, position FROM c ORDER BY 1, 2, 3",
        "SELECT file, content FROM files('c') ORDER BY content, file",
        "SELECT COUNT(*), COUNT(DISTINCT word || file) FROM c",
        "SELECT ngram, COUNT(*) FROM ngrams('c', 2) GROUP BY ngram ORDER BY 2 DESC, 1 LIMIT 100",
        "SELECT file, word, rank FROM term_vectors('c', 5) ORDER BY 1, 3",
    ]
    .into_iter()
    .enumerate()
    {
        let rows = database
            .query(sql, ())
            .and_then(Iterator::collect::<Result<Vec<_>, _>>);
        match rows {
            Ok(rows) => {
                let mut hasher = DefaultHasher::new();
                for row in rows {
                    format!("{:?}", row.values()).hash(&mut hasher);
                }
                report_line(&format!("answer {number} {:x}", hasher.finish()));
            }
            Err(error) => report_line(&format!("error {error}")),
        }
    }
}
