//! The six tasks, of both, each answer compared row by row.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

use rustc_hash::FxHashMap;
use zipfdb::Snapshot;
use zipfdb::answers::FileCounts;
use zipfdb_tadoc::{CountedRows, SEQUENCE_WORDS, SequenceFiles, Tasks};

use super::{Figure, Part, Subjects};
use crate::Result;
use crate::energy::Meter;

/// Most timed runs of a task, and the seconds after which no further run begins.
const REPETITIONS_MAX: usize = 5;
const REPETITION_SECONDS: f64 = 1.0;

/// Seconds of untimed runs of sequences, since later runs read structures that are only built after repeated
/// use.
const WARM_SECONDS: f64 = 4.0;

/// Times all tasks.
pub fn run(
    tadoc: &Tasks,
    texts: &[&[u8]],
    subjects: &Subjects,
    meter: &Meter,
) -> Result<Vec<Figure>> {
    let by = Measuring { subjects, meter };
    let numbers: HashMap<&[u8], u32> = texts.iter().copied().zip(0..).collect();
    Ok(vec![
        by.task(
            "word count",
            0.0,
            || tadoc.word_counts(),
            |snapshot| Ok(snapshot.words()?),
            |expected, found| {
                let expected = texts.iter().copied().zip(expected.iter().copied());
                expected.filter(|&(_, count)| count > 0).eq(found.iter())
            },
        )?,
        by.task(
            "sort",
            0.0,
            || tadoc.sorted(),
            |snapshot| {
                let counts = snapshot.words()?;
                black_box(counts.sorted());
                Ok(counts)
            },
            |expected, found| {
                let expected = expected.iter().filter(|&&(_, count)| count > 0);
                let expected = expected.map(|&(word, count)| (texts[word as usize], count));
                expected.eq(found.sorted())
            },
        )?,
        by.task(
            "inverted index",
            0.0,
            || tadoc.inverted_index(),
            |snapshot| Ok(snapshot.word_files()?),
            |expected, found| is_same_index(texts, expected, found),
        )?,
        by.task(
            "term vector",
            0.0,
            || tadoc.term_vectors(),
            |snapshot| Ok(snapshot.term_vectors()?),
            |expected, found| {
                expected.len() == found.files()
                    && (0..found.files()).all(|file| {
                        let expected = expected.row(file).iter();
                        let expected = expected.map(|&(word, count)| (texts[word as usize], count));
                        expected.eq(found.words(file))
                    })
            },
        )?,
        by.task(
            "sequence count",
            WARM_SECONDS,
            || tadoc.sequence_counts(),
            |snapshot| Ok(snapshot.ngrams(SEQUENCE_WORDS)?),
            |expected, found| {
                let counts = expected.sequences.iter().zip(&expected.counts);
                let counts: FxHashMap<_, _> = counts.collect();
                counts.len() == found.len()
                    && found.iter().all(|(ngram, count)| {
                        let words = sequence(&numbers, ngram.words());
                        words.is_some_and(|words| counts.get(&words) == Some(&&count))
                    })
            },
        )?,
        by.task(
            "ranked inverted index",
            WARM_SECONDS,
            || tadoc.ranked_inverted_index(),
            |snapshot| Ok(snapshot.ngram_files(SEQUENCE_WORDS)?),
            |expected, found| is_same_ranking(&numbers, expected, found),
        )?,
    ])
}

fn is_same_index(texts: &[&[u8]], expected: &CountedRows, found: &FileCounts) -> bool {
    let words = (0..expected.len()).filter(|&word| !expected.row(word).is_empty());
    let mut words = words.map(|word| (texts[word], expected.row(word)));
    let is_same = found.iter().all(|(ngram, files)| {
        words
            .next()
            .is_some_and(|(text, row)| ngram.words().eq([text]) && *files == *row)
    });
    is_same && words.next().is_none()
}

fn is_same_ranking(
    numbers: &HashMap<&[u8], u32>,
    expected: &SequenceFiles,
    found: &FileCounts,
) -> bool {
    let rows = expected.sequences.iter().zip(0..);
    let rows: FxHashMap<_, _> = rows.collect();
    rows.len() == found.len()
        && found.iter().all(|(ngram, files)| {
            let row = sequence(numbers, ngram.words()).and_then(|words| rows.get(&words).copied());
            row.is_some_and(|row| *files == *expected.files.row(row))
        })
}

/// The numbers of the first words of a sequence, if it is complete.
fn sequence<'a>(
    numbers: &HashMap<&[u8], u32>,
    words: impl Iterator<Item = &'a [u8]>,
) -> Option<[u32; SEQUENCE_WORDS]> {
    let words: Option<Vec<u32>> = words.map(|word| numbers.get(word).copied()).collect();
    words?.try_into().ok()
}

struct Measuring<'a> {
    subjects: &'a Subjects,
    meter: &'a Meter,
}

impl Measuring<'_> {
    /// Times a task of both, taking turns, and compares the answers.
    fn task<A, B>(
        &self,
        name: &str,
        warm: f64,
        tadoc: impl Fn() -> A,
        ours: impl Fn(&Snapshot) -> Result<B>,
        is_equal: impl Fn(&A, &B) -> bool,
    ) -> Result<Figure> {
        eprintln!("  {name}");
        let (expected, times) = timed(0.0, || Ok(tadoc()))?;
        let mut joules = Vec::new();
        joules.extend(self.meter.measure(|| {
            black_box(tadoc());
            Ok(())
        })?);
        let mut measured = Vec::new();
        for snapshot in self.subjects.all() {
            let (found, times) = timed(warm, || ours(snapshot))?;
            if !is_equal(&expected, &found) {
                return Err(format!("{name}: the answers of TADOC and ZipfDB differ").into());
            }
            drop(found);
            joules.extend(self.meter.measure(|| ours(snapshot).map(drop))?);
            measured.push(times);
        }
        let median = |subject: usize| measured.get(subject).map(|times| times.median);
        Ok(Figure {
            part: Part::Tasks,
            name: name.to_owned(),
            tadoc: times.median,
            first: measured.first().map(|times| times.first),
            one: median(0),
            all: median(1),
            device: median(2),
            resident: None,
            joules,
        })
    }
}

struct Times {
    /// Seconds of the first run, which makes what later ones read.
    first: f64,
    median: f64,
}

/// Runs something once, then untimed for some seconds, then timed; the last answer.
fn timed<T>(warm: f64, run: impl Fn() -> Result<T>) -> Result<(T, Times)> {
    let begin = Instant::now();
    let mut found = run()?;
    let first = begin.elapsed().as_secs_f64();
    while begin.elapsed().as_secs_f64() < warm {
        drop(found);
        found = run()?;
    }
    let mut times: Vec<f64> = Vec::new();
    while times.len() < REPETITIONS_MAX && times.iter().sum::<f64>() < REPETITION_SECONDS {
        drop(found);
        let begin = Instant::now();
        found = run()?;
        times.push(begin.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    Ok((found, Times { first, median }))
}
