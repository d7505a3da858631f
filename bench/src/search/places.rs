//! Part `places`: all places of words and phrases, and bytes of files; and what databases and indexes take.
//!
//! As in the collection of uiHRDC, times are for each place that is found, and for each byte that is extracted.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::timed::{Asked, Outcome, percentile};
use super::{Job, ours};
use crate::Result;
use crate::corpus::Corpus;
use crate::edited_copies::Random;
use crate::engines;
use crate::report::{Cell, MEGABYTE, Table};

/// Questions of each kind.
const QUESTIONS: usize = 1_000;

/// Occurrences of the words that are located: the least and the most.
const RARE: (u64, u64) = (2, 100);
const FREQUENT: (u64, u64) = (101, 50_000);

/// Bytes of extracts.
const SHORT: u64 = 80;
const LONG: u64 = 13_000;

/// The kinds of questions, as names begin.
const KINDS: [&str; 4] = [
    "word of 2 to 100 places",
    "word of 101 to 50,000 places",
    "80 bytes",
    "13,000 bytes",
];

/// The kinds of indexes, each created under its own name.
const INDEXES: [&str; 3] = ["postings", "occurrences", "suffixes"];

/// What is behind the rows.
pub fn note() -> String {
    format!(
        "Places: up to {QUESTIONS} words of each range by `search` of a snapshot, ns for each place; extracts from {QUESTIONS} random places, ns for \
         each byte, compared with the files. `us a question` is the warm median. Corpus `revisions`: a page of 8 KB that is edited, all revisions in one file, made of a seed."
    )
}

/// The table of a corpus, without indexes and with them.
pub fn table(without: &Outcome, with: &Outcome) -> Table {
    let columns = [
        "first",
        "warm",
        "us a question",
        "indexed first",
        "indexed",
        "us a question, indexed",
    ];
    let mut table = Table::new("ns a place or byte", columns);
    for kind in KINDS {
        let cells = [without, with].map(|outcome| {
            let asked = outcome.of_kind(kind);
            let found: u64 = asked.iter().map(|one| one.answer).sum();
            let again: Vec<&&Asked> = asked.iter().filter(|one| !one.again.is_empty()).collect();
            let found_again: u64 = again.iter().map(|one| one.answer).sum();
            let warm: Vec<f64> = again.iter().filter_map(|one| one.warm()).collect();
            let first: f64 = asked.iter().map(|one| one.first).sum();
            [
                Cell::from(first * 1e9 / found as f64),
                Cell::from(warm.iter().sum::<f64>() * 1e9 / found_again as f64),
                Cell::from(percentile(&warm, 50).map(|seconds| seconds * 1e6)),
            ]
        });
        table.row(kind, cells.into_iter().flatten().collect::<Vec<Cell>>());
    }
    table
}

/// What a database takes, and its indexes.
pub fn sizes(corpus: &Corpus, built: &engines::Outcome, indexes: &Outcome) -> Table {
    let mut table = Table::new("database", ["MB", "% of the text"]);
    let text = corpus.size() as f64;
    let mut row = |name: &str, bytes: u64| {
        table.row(name, [bytes as f64 / MEGABYTE, bytes as f64 * 100.0 / text]);
    };
    row("without indexes", built.size);
    for (kind, bytes) in &indexes.parts {
        row(&format!("index of {kind}"), *bytes);
    }
    table
}

/// Creates all indexes and says what they take.
pub fn index(job: &Job) -> Result<Outcome> {
    let database = engines::ours::open_to_write(&job.directory, job.threads)?;
    let mut parts = Vec::new();
    for kind in INDEXES {
        database.execute_batch(&format!("CREATE INDEX {kind} ON corpus USING {kind}"))?;
        let sql = "SELECT SUM(bytes) FROM indexes('corpus') WHERE kind = ?";
        let bytes: u64 = database.query_row(sql, [kind], |row| row.get(0))?;
        parts.push((kind.to_owned(), bytes));
    }
    Ok(Outcome {
        asked: Vec::new(),
        parts,
    })
}

/// Asks all kinds of questions.
pub fn ask(job: &Job) -> Result<Outcome> {
    let corpus = Corpus::open(&job.corpus)?;
    let database = ours::open(job)?;
    let snapshot = database.corpus("corpus")?.snapshot()?;
    let mut random = Random::new(job.seed);
    let counts = snapshot.words()?.to_vec();
    let mut asked = Vec::new();
    for (kind, (least, most)) in KINDS.iter().zip([RARE, FREQUENT]) {
        let words = counts
            .iter()
            .filter(|(_, count)| (least..=most).contains(count));
        let words: Vec<&Vec<u8>> = words.map(|(word, _)| word).collect();
        let drawn = (0..QUESTIONS.min(words.len()))
            .map(|_| words[random.below(words.len() as u64) as usize]);
        let drawn: Vec<&Vec<u8>> = drawn.collect();
        asked.extend(job.ask(&numbered(kind, drawn.len()), |index| {
            let files = snapshot.search(drawn[index])?;
            let places = files.iter().map(|(_, offsets)| offsets.len() as u64);
            Ok((places.sum(), Vec::new()))
        })?);
    }
    for (kind, length) in KINDS[2..].iter().zip([SHORT, LONG]) {
        let mut drawn: Vec<(usize, u64)> = Vec::new();
        let files = corpus.files.iter().enumerate();
        let long: Vec<usize> = files
            .filter(|(_, file)| file.size >= length)
            .map(|(number, _)| number)
            .collect();
        for _ in 0..QUESTIONS.min(long.len() * QUESTIONS) {
            let file = long[random.below(long.len() as u64) as usize];
            let size = corpus.files[file].size;
            drawn.push((file, random.below(size - length + 1)));
        }
        asked.extend(job.ask(&numbered(kind, drawn.len()), |index| {
            let (file, offset) = drawn[index];
            let bytes = snapshot.extract(&corpus.files[file].name, offset, length)?;
            Ok((bytes.len() as u64, Vec::new()))
        })?);
        for &(file, offset) in &drawn {
            let file = &corpus.files[file];
            let bytes = snapshot.extract(&file.name, offset, length)?;
            if bytes != read(&file.path, offset, length)? {
                return Err(format!("{}: other bytes at {offset}", file.name).into());
            }
        }
    }
    Ok(Outcome::of(asked))
}

fn numbered(kind: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{kind}, {number}"))
        .collect()
}

/// Bytes of a file on disk.
pub fn read(path: &Path, offset: u64, length: u64) -> Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}
