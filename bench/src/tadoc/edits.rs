//! Inserts and appends of 64 bytes, of both, alone and with what reads them; whole texts compared.
//!
//! TADOC's log of records is in memory. So are the edits of ZipfDB until they are committed, which a row of its own times.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use zipfdb::mixed::Operation;

use zipfdb::{Database, Snapshot, Transaction};
use zipfdb_tadoc::{Lookups, Records};

use super::{Figure, Part};
use crate::Result;
use crate::corpus::Corpus;
use crate::engines;
use crate::lookups::questions::{Questions, Random};

/// Bytes of an edit.
const EDIT_BYTES: usize = 64;

/// Bytes of an extract behind edits.
const EXTRACT_BYTES: u64 = 64;

/// A threshold in bytes that pending edits never reach.
const NO_RECOMPRESSION: u64 = 1 << 40;

/// Runs of each kind; the median counts.
const RUNS: usize = 3;

/// Names of the kinds, in order.
pub const KINDS: [&str; 3] = ["insert, in batch", "insert, in sequence", "append"];

/// An edit.
pub struct Edit {
    pub file: usize,
    /// A byte of the file as it was.
    pub offset: u64,
    /// A byte of the file with the inserts before.
    pub moved: u64,
    text: Vec<u8>,
}

/// An insert at each place that is extracted from, of text from the middle file.
pub fn draw(corpus: &Corpus, questions: &Questions, seed: u64) -> Result<Vec<Edit>> {
    let mut random = Random(seed);
    let mut grown = vec![0; corpus.files.len()];
    let sample = std::fs::read(&corpus.files[corpus.files.len() / 2].path)?;
    let edits = questions.places.iter().map(|&(file, offset)| {
        let size = corpus.files[file].size + grown[file];
        grown[file] += EDIT_BYTES as u64;
        let from = random.below(sample.len().saturating_sub(EDIT_BYTES).max(1));
        let mut text = sample[from..sample.len().min(from + EDIT_BYTES)].to_vec();
        text.resize(EDIT_BYTES, b' ');
        Edit {
            file,
            offset,
            // Sizes of files fit a usize.
            moved: random.below(size as usize + 1) as u64,
            text,
        }
    });
    Ok(edits.collect())
}

/// How far edits are timed: alone, with an extract after all of them, and with a snapshot that look-ups of words and tasks see
/// them in, which only ZipfDB has.
const STAGES: [&str; 3] = ["", ", and an extract", SNAPSHOT];

/// The last of them.
pub const SNAPSHOT: &str = ", and a snapshot";

/// Seconds of each stage, from the beginning.
type Seconds = [f64; STAGES.len()];

/// Times all kinds of edits on databases with these numbers of threads and devices, and at last one kind with a commit.
pub fn run(
    lookups: &Lookups<'_>,
    edits: &[Edit],
    files: &[String],
    directory: &Path,
    subjects: &[(usize, &str)],
) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (kind, name) in KINDS.into_iter().enumerate() {
        eprintln!("  {name}");
        let mut expected = Records::new(lookups, files.len());
        let tadoc = medians(|| {
            let mut records = Records::new(lookups, files.len());
            let begin = Instant::now();
            edit_records(&mut records, edits, kind);
            let edited = begin.elapsed().as_secs_f64();
            black_box(records.extract(edits[0].file, edits[0].offset, EXTRACT_BYTES));
            let extracted = begin.elapsed().as_secs_f64();
            expected = records;
            Ok([edited, extracted, extracted])
        })?;
        let mut ours = Vec::new();
        for &(threads, device) in subjects {
            let database = open(directory, threads, device)?;
            let mut is_compared = false;
            ours.push(medians(|| {
                let mut transaction = database.begin()?;
                let begin = Instant::now();
                edit_database(&mut transaction, edits, files, kind)?;
                let edited = begin.elapsed().as_secs_f64();
                transaction.mixed_many("corpus", &[extract(edits, files)])?;
                let extracted = begin.elapsed().as_secs_f64();
                let snapshot = transaction.snapshot("corpus")?;
                let seen = begin.elapsed().as_secs_f64();
                if !is_compared {
                    compare(name, files, &expected, &snapshot)?;
                    is_compared = true;
                }
                transaction.rollback();
                Ok([edited, extracted, seen])
            })?);
        }
        for (stage, suffix) in STAGES.into_iter().enumerate() {
            let ours: Vec<f64> = ours.iter().map(|seconds| seconds[stage]).collect();
            let name = format!("{name}{suffix}");
            figures.push(figure(name, tadoc[stage], &ours, edits.len()));
        }
    }
    let (threads, device) = subjects[1];
    let database = open(directory, threads, device)?;
    let mut transaction = database.begin()?;
    let begin = Instant::now();
    edit_database(&mut transaction, edits, files, 0)?;
    transaction.commit()?;
    let committed = begin.elapsed().as_secs_f64() / edits.len() as f64;
    figures.push(Figure {
        name: format!("{}, and a commit", KINDS[0]),
        one: None,
        all: Some(committed),
        device: None,
        ..figures[0].clone()
    });
    Ok(figures)
}

/// An extract that sees edits.
fn extract<'a>(edits: &[Edit], files: &'a [String]) -> Operation<'a> {
    Operation::Extract {
        file: &files[edits[0].file],
        offset: edits[0].offset,
        length: EXTRACT_BYTES,
    }
}

fn open(directory: &Path, threads: usize, device: &str) -> Result<Database> {
    let database = engines::ours::open_to_write(directory, threads)?;
    database.execute_batch(&format!("SET device = '{device}'"))?;
    database
        .corpus("corpus")?
        .set_recompress_threshold(NO_RECOMPRESSION)?;
    Ok(database)
}

fn edit_records(records: &mut Records<'_>, edits: &[Edit], kind: usize) {
    match kind {
        0 => {
            let rows = edits
                .iter()
                .map(|edit| (edit.file, edit.offset, &edit.text[..]));
            records.insert_in_batch(&rows.collect::<Vec<_>>());
        }
        1 => edits
            .iter()
            .for_each(|edit| records.insert(edit.file, edit.moved, &edit.text)),
        _ => edits
            .iter()
            .for_each(|edit| records.append(edit.file, &edit.text)),
    }
}

fn edit_database(
    transaction: &mut Transaction,
    edits: &[Edit],
    files: &[String],
    kind: usize,
) -> Result<()> {
    let file = |edit: &Edit| &files[edit.file][..];
    match kind {
        0 => {
            let rows = edits
                .iter()
                .map(|edit| (file(edit), edit.offset, &edit.text));
            transaction.insert_many("corpus", &rows.collect::<Vec<_>>())?;
        }
        1 => {
            let rows = edits.iter().map(|edit| Operation::Insert {
                file: &files[edit.file],
                offset: edit.moved,
                text: &edit.text,
            });
            transaction.mixed_many("corpus", &rows.collect::<Vec<_>>())?;
        }
        _ => {
            let rows = edits.iter().map(|edit| (file(edit), &edit.text));
            transaction.append_many("corpus", &rows.collect::<Vec<_>>())?;
        }
    }
    Ok(())
}

/// # Errors
/// If a file has another text.
fn compare(
    name: &str,
    files: &[String],
    expected: &Records<'_>,
    snapshot: &Snapshot,
) -> Result<()> {
    for (number, file) in files.iter().enumerate() {
        if snapshot.extract(file, 0, u64::MAX)? != expected.extract(number, 0, u64::MAX) {
            return Err(format!("{name}: {file} has other texts in TADOC and ZipfDB").into());
        }
    }
    Ok(())
}

fn medians(mut run: impl FnMut() -> Result<Seconds>) -> Result<Seconds> {
    let times: Result<Vec<Seconds>> = (0..RUNS).map(|_| run()).collect();
    let times = times?;
    Ok(std::array::from_fn(|stage| {
        let mut times: Vec<f64> = times.iter().map(|seconds| seconds[stage]).collect();
        times.sort_by(f64::total_cmp);
        times[RUNS / 2]
    }))
}

/// From seconds of all edits to those of one.
fn figure(name: String, tadoc: f64, ours: &[f64], edits: usize) -> Figure {
    let one = |seconds: &f64| seconds / edits as f64;
    Figure {
        part: Part::Edits,
        name,
        tadoc: one(&tadoc),
        first: None,
        one: ours.first().map(one),
        all: ours.get(1).map(one),
        device: ours.get(2).map(one),
        resident: None,
        joules: Vec::new(),
    }
}
