//! Part `mixed`: 100,000 counts, searches, extracts, inserts and appends in any order, through the database.
//!
//! Each sees the edits before it. Kinds are as likely, words any of a dictionary, in the file of one of their places, edits 64
//! bytes of the text, which go anywhere. Nothing is committed: times are those of placing and answering, with one
//! thread and all without a device, and with one. Answers are equal.

use std::path::Path;
use std::time::Instant;

use zipfdb::mixed::{Answer, Operation};

use zipfdb::Database;

use super::arrays::{Arrays, Scratch};
use super::lookups::{Numbers, QUERIES, draw_queries};
use crate::Result;
use crate::report::Table;

const EDIT_BYTES: usize = 64;
const EXTRACT_BYTES: u64 = 64;
const RUNS: usize = 3;

/// Times a mixed batch on a corpus.
pub fn run(path: &Path, device: usize, segments: &[Arrays]) -> Result<Table> {
    let scratch = Scratch::of_corpus(path)?;
    let edits = draw_texts(segments);
    let (one, expected, operations) = {
        let database = Database::options().threads(1).open(&scratch.database)?;
        database.execute_batch("SET device = 'cpu'")?;
        let operations = draw(&database, segments, &edits)?;
        let (time, answers) = time(&database, &operations, 1)?;
        (time, answers, operations)
    };
    let database = Database::open(&scratch.database)?;
    database.execute_batch("SET device = 'cpu'")?;
    let (all, answers) = time(&database, &operations, 1)?;
    let is_equal = answers == expected;
    database.execute_batch(&format!("SET device = 'cuda:{device}'"))?;
    let (whole, answers) = time(&database, &operations, RUNS)?;
    let is_equal = is_equal && answers == expected;
    if !is_equal {
        return Err("a device and the CPU answer a mixed batch differently".into());
    }
    let titles = ["whole", "CPU 1", "CPU all"];
    let mut table = Table::new("a mixed batch of 100,000, ms", titles);
    table.row("through the database", [whole, one, all]);
    Ok(table)
}

/// The best of some runs after a first one, in milliseconds, and the answers.
fn time(
    database: &Database,
    operations: &[Operation<'_>],
    runs: usize,
) -> Result<(f64, Vec<Answer>)> {
    let corpus = &database.corpora()[0];
    let mut best = f64::INFINITY;
    let mut last = Vec::new();
    for turn in 0..=runs {
        let mut transaction = database.begin()?;
        drop(std::mem::take(&mut last));
        let begin = Instant::now();
        last = transaction.mixed_many(corpus, operations)?;
        if turn > 0 {
            best = best.min(begin.elapsed().as_secs_f64() * 1e3);
        }
        transaction.rollback();
    }
    Ok((best, last))
}

/// Texts of edits: what stands somewhere in the corpus.
fn draw_texts(segments: &[Arrays]) -> Vec<Vec<u8>> {
    let mut numbers = Numbers(2);
    let mut draw = |index: usize| {
        let arrays = &segments[index % segments.len()];
        let mut text = Vec::new();
        let mut at = numbers.below(arrays.tokens.len() as u64) as usize;
        while text.len() < EDIT_BYTES {
            text.extend_from_slice(arrays.token(arrays.tokens[at]));
            at = (at + 1) % arrays.tokens.len();
        }
        text.truncate(EDIT_BYTES);
        text
    };
    (0..QUERIES).map(&mut draw).collect()
}

fn draw<'a>(
    database: &Database,
    segments: &'a [Arrays],
    edits: &'a [Vec<u8>],
) -> Result<Vec<Operation<'a>>> {
    let mut numbers = Numbers(3);
    let questions: Vec<_> = segments
        .iter()
        .map(|arrays| draw_queries(arrays, &mut numbers))
        .collect();
    let mut sizes = std::collections::HashMap::new();
    let mut all_bytes = 0;
    for file in database.corpus(&database.corpora()[0])?.files()? {
        all_bytes += file.bytes;
        sizes.insert(file.name, file.bytes);
    }
    let names: Vec<(&str, u64)> = (segments.iter().flat_map(|arrays| &arrays.files))
        .map(|name| (&name[..], sizes.get(name).copied().unwrap_or(0)))
        .collect();
    let mut ends = Vec::new();
    for &(_, bytes) in &names {
        ends.push(ends.last().copied().unwrap_or(0) + bytes);
    }
    let mut draw = |index: usize| {
        let place = numbers.below(all_bytes);
        let file = ends.partition_point(|&end| end <= place);
        let (name, bytes) = names[file];
        // Files only grow.
        let offset = place - (ends[file] - bytes);
        let arrays = &segments[index % segments.len()];
        let question = questions[index % segments.len()][index];
        let of_word = &arrays.files[question.file as usize];
        // The first of its tokens is without a space.
        let word = arrays.token(question.word.first);
        let word = if question.word.spaced > question.word.first {
            word
        } else {
            word.strip_prefix(b" ").unwrap_or(word)
        };
        match numbers.below(5) {
            0 => Operation::Count {
                file: of_word,
                word,
            },
            1 => Operation::Search {
                file: of_word,
                word,
            },
            2 => Operation::Extract {
                file: name,
                offset,
                length: EXTRACT_BYTES,
            },
            3 => Operation::Insert {
                file: name,
                offset,
                text: &edits[index],
            },
            _ => Operation::Append {
                file: name,
                text: &edits[index],
            },
        }
    };
    Ok((0..QUERIES).map(&mut draw).collect())
}
