//! Part `files`: how many files match a query, and the ten best.
//!
//! All engines have the same words of the same files, so counts are equal. Scores differ in their last digits, so the ten
//! best are compared as sets, and how many queries agree is printed.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::query::{self, Query};
use super::timed::{Asked, Outcome, cells};
use super::{SearchOptions, Subject, Task};
use crate::Result;
use crate::corpus::Corpus;
use crate::engines;
use crate::report::{Cell, MEGABYTE, Table};

/// Files of a page of results.
pub const TOP: usize = 10;

/// Rows of the table of the queries that are slowest beside tantivy.
const WORST: usize = 15;

/// The kinds of questions, as names begin: how many files match, and the best ones.
pub const KINDS: [&str; 2] = ["count", "top 10"];

/// The question that each query is for a kind.
pub fn names(queries: &[Query], kind: &str) -> Vec<String> {
    let names = queries
        .iter()
        .map(|query| format!("{kind}: {}", query.text));
    names.collect()
}

/// What is behind the tables.
pub fn note() -> String {
    format!(
        "Queries: those of the Search Benchmark, the Game (quickwit-oss), by tag. A file is a document. {}: words that ZipfDB has, \
         case folded, given as tokens with positions and lengths, one segment, the text stored in zstd blocks; counts by the collector `Count`, \
         pages by `TopDocs` with names that were read before. SQLite {} FTS5: the same words, `content=''`, `detail=full`, after \
         `optimize` and `VACUUM`, prepared statements. ZipfDB: `SELECT COUNT(*) FROM search(...)` and `SELECT file FROM search(...) \
         LIMIT {TOP}`, prepared. Counts are equal. `p99` is of the warm medians of all queries of a tag.",
        tantivy::version_string(),
        rusqlite::version(),
    )
}

/// Asks all engines and compares them.
pub fn measure(
    corpus: &Corpus,
    scratch: &Path,
    built: &engines::Outcome,
    search: &SearchOptions,
) -> Result<Vec<Table>> {
    let path = search.queries.as_deref().ok_or("no queries")?;
    let queries = query::read(path)?;
    let questions = path.to_str().ok_or("the path of queries is not UTF-8")?;
    let ask = |subject, directory: &Path| {
        search.child(Task::Files, subject, corpus, directory, Some(questions))
    };
    let ours = ask(Subject::Ours, &scratch.join("ours"))?;
    let mut outcomes = vec![("ZipfDB", ours)];
    let others = [
        ("tantivy", "tantivy", Subject::Tantivy),
        ("FTS5", "fts5", Subject::Fts5),
    ];
    for (title, name, subject) in others {
        if !search.options.wants(name) {
            continue;
        }
        let directory = scratch.join(name);
        fs::create_dir(&directory)?;
        let outcome = ask(subject, &directory)?;
        let compared = outcomes[0].1.compare(&outcome, "ZipfDB", title);
        compared.map_err(|error| format!("{}: {error}", corpus.name))?;
        fs::remove_dir_all(&directory)?;
        outcomes.push((title, outcome));
    }
    let mut tables = vec![by_tag(&queries, &outcomes), sizes(corpus, built, &outcomes)];
    tables.push(agreement(&outcomes).detail());
    if let Some((_, tantivy)) = outcomes.iter().find(|(title, _)| *title == "tantivy") {
        tables.push(worst(&outcomes[0].1, tantivy).detail());
    }
    Ok(tables)
}

fn by_tag(queries: &[Query], outcomes: &[(&str, Outcome)]) -> Table {
    let titles = outcomes
        .iter()
        .flat_map(|(title, _)| ["first", "warm", "p99"].map(|kind| format!("{title} {kind}")));
    let mut table = Table::new("files, us", titles);
    let mut tags: Vec<&str> = Vec::new();
    for query in queries {
        if !tags.contains(&&*query.tag) {
            tags.push(&query.tag);
        }
    }
    let names = queries.iter().map(|query| (&*query.text, &*query.tag));
    let tag_of: HashMap<&str, &str> = names.collect();
    for kind in KINDS {
        let text = |name: &str| {
            name.strip_prefix(kind)?
                .strip_prefix(": ")
                .map(str::to_owned)
        };
        for tag in &tags {
            let row = outcomes.iter().flat_map(|(_, outcome)| {
                let asked = outcome.asked.iter().filter(|one| {
                    text(&one.name).is_some_and(|text| tag_of.get(&*text) == Some(tag))
                });
                cells(&asked.collect::<Vec<_>>(), 1e6)
            });
            table.row(format!("{kind}: {tag}"), row.collect::<Vec<_>>());
        }
    }
    table
}

fn sizes(corpus: &Corpus, built: &engines::Outcome, outcomes: &[(&str, Outcome)]) -> Table {
    let mut table = Table::new("size", ["MB", "% of the text"]);
    let text = corpus.size() as f64;
    let mut row = |name: String, bytes: u64| {
        table.row(name, [bytes as f64 / MEGABYTE, bytes as f64 * 100.0 / text]);
    };
    row("text".to_owned(), corpus.size());
    row("ZipfDB, text and index".to_owned(), built.size);
    for (title, outcome) in outcomes {
        for (part, bytes) in &outcome.parts {
            row(format!("{title}, {part}"), *bytes);
        }
    }
    table
}

/// How many pages are those of ZipfDB.
fn agreement(outcomes: &[(&str, Outcome)]) -> Table {
    let mut table = Table::new("top 10", ["asked", "the same best", "the same ten"]);
    let pages = (outcomes[0].1.asked.iter()).filter(|one| one.name.starts_with(KINDS[1]));
    for (title, outcome) in &outcomes[1..] {
        let [mut asked, mut best, mut ten] = [0u64; 3];
        for ours in pages.clone() {
            let Some(theirs) = outcome.find(&ours.name) else {
                continue;
            };
            let is_theirs = |name| theirs.names.contains(name);
            asked += 1;
            best += u64::from(ours.names.first() == theirs.names.first());
            ten += u64::from(ours.names.iter().all(is_theirs));
        }
        table.row(*title, [asked, best, ten]);
    }
    table
}

/// The queries that take most beside tantivy.
fn worst(ours: &Outcome, tantivy: &Outcome) -> Table {
    let mut table = Table::new("worst, us", ["ZipfDB", "tantivy", "ratio", "files"]);
    let warm = |one: &Asked| one.warm().unwrap_or(one.first) * 1e6;
    let asked = ours.asked.iter();
    let pairs = asked.filter_map(|one| Some((one, warm(one), warm(tantivy.find(&one.name)?))));
    let mut pairs: Vec<(&Asked, f64, f64)> = pairs.collect();
    pairs.sort_by(|left, right| (right.1 / right.2).total_cmp(&(left.1 / left.2)));
    for (one, left, right) in pairs.into_iter().take(WORST) {
        let cells = [left, right, left / right].map(Cell::from);
        let files = [Cell::from(one.answer)];
        table.row(&*one.name, cells.into_iter().chain(files));
    }
    table
}
