//! Counts, searches and extracts, of both, one by one and in batches, answers compared.
//!
//! Both get names of files and words as text. TADOC has no batches of its own on a CPU: it answers one after the other.

use std::collections::HashMap;
use std::time::Duration;

use zipfdb::Snapshot;
use zipfdb_tadoc::Lookups;

use super::{Figure, Part, Subjects};
use crate::Result;
use crate::lookups::measure::{Latencies, batches, single};
use crate::lookups::questions::{Answers, BATCH_MAX, LONG, Questions, SHORT};

/// Answers that are compared.
const COMPARED: usize = 2_000;

/// Questions that TADOC answers between looks at the clock.
const STRIDE: usize = 500;

/// TADOC with the names of files and words.
pub struct Baseline<'a> {
    pub lookups: &'a Lookups<'a>,
    pub files: HashMap<&'a str, usize>,
    pub words: HashMap<&'a [u8], usize>,
}

/// Asks all questions. `answers` are those of the plain text.
pub fn run(
    baseline: &Baseline<'_>,
    questions: &Questions,
    answers: &Answers,
    subjects: &Subjects,
    budget: Duration,
) -> Result<Vec<Figure>> {
    let file = |file: usize| &questions.files[file][..];
    let words = questions.words.iter();
    let words: Vec<(&str, &str)> = words.map(|(f, word)| (file(*f), &word[..])).collect();
    let number =
        |&(file, word): &(&str, &str)| (baseline.files[file], baseline.words[word.as_bytes()]);
    let asking = Asking { subjects, budget };
    let all: Vec<usize> = (1..)
        .map(|batch| batch * BATCH_MAX)
        .take_while(|&end| end < words.len())
        .collect();
    let all: Vec<usize> = all.into_iter().chain([words.len()]).collect();

    let mut figures = Vec::new();
    figures.extend(asking.ask(
        "count",
        &words,
        &all,
        &answers.counts,
        |question| {
            let (file, word) = number(question);
            baseline.lookups.count(file, word)
        },
        |snapshot, (file, word)| Ok(snapshot.count_in(file, word)?),
        |snapshot, questions| Ok(snapshot.count_many(questions)?),
    )?);
    figures.extend(asking.ask(
        "search",
        &words,
        &questions.search_ends,
        &answers.searches,
        |question| {
            let (file, word) = number(question);
            baseline.lookups.search(file, word)
        },
        |snapshot, (file, word)| Ok(snapshot.search_in(file, word)?),
        |snapshot, questions| Ok(snapshot.search_many(questions)?),
    )?);
    for (name, length, expected) in [
        ("extract 64 B", SHORT, &answers.short),
        ("extract 4 KiB", LONG, &answers.long),
    ] {
        let places = questions.places.iter();
        let places = places.map(|&(number, offset)| (file(number), offset, length));
        let places: Vec<(&str, u64, u64)> = places.collect();
        figures.extend(asking.ask(
            name,
            &places,
            &all,
            expected,
            |&(file, offset, length)| {
                baseline
                    .lookups
                    .extract(baseline.files[file], offset, length)
            },
            |snapshot, (file, offset, length)| Ok(snapshot.extract(file, *offset, *length)?),
            |snapshot, questions| Ok(snapshot.extract_many(questions)?),
        )?);
    }
    Ok(figures)
}

struct Asking<'a> {
    subjects: &'a Subjects,
    budget: Duration,
}

impl Asking<'_> {
    /// Asks questions of one kind singly and in batches that end at `ends`. `expected` are the first answers.
    #[expect(
        clippy::too_many_arguments,
        reason = "three ways to answer, and what they are asked"
    )]
    fn ask<Q, A: PartialEq>(
        &self,
        name: &str,
        questions: &[Q],
        ends: &[usize],
        expected: &[A],
        tadoc: impl Fn(&Q) -> A,
        one: impl Fn(&Snapshot, &Q) -> Result<A>,
        many: impl Fn(&Snapshot, &[Q]) -> Result<Vec<A>>,
    ) -> Result<[Figure; 2]> {
        eprintln!("  {name}");
        let compare = |who: &str, found: &[A], expected: &[A]| -> Result<()> {
            match found
                .iter()
                .zip(expected)
                .all(|(found, expected)| found == expected)
            {
                true => Ok(()),
                false => Err(format!("{name}: {who} answers otherwise").into()),
            }
        };
        let (answers, tadoc_single) = self.single(questions, |question| Ok(tadoc(question)))?;
        compare("TADOC", &answers, expected)?;
        let strides: Vec<&[Q]> = questions.chunks(STRIDE).collect();
        let tadoc_batch = batches(&strides, self.budget, |stride| {
            stride
                .iter()
                .map(&tadoc)
                .for_each(|answer| drop(std::hint::black_box(answer)));
            Ok(0)
        })?;
        let mut starts = vec![0];
        starts.extend(ends);
        let chunks = starts
            .windows(2)
            .map(|range| &questions[range[0]..range[1]]);
        let chunks: Vec<&[Q]> = chunks.collect();
        let (mut singles, mut batched) = (Vec::new(), Vec::new());
        for snapshot in self.subjects.all() {
            let (found, latencies) = self.single(questions, |question| one(snapshot, question))?;
            compare("ZipfDB", &found, &answers)?;
            singles.push(latencies.p50);
            let latencies = batches(&chunks, self.budget, |chunk| {
                let found = many(snapshot, chunk)?;
                if chunk.as_ptr() == questions.as_ptr() {
                    compare("ZipfDB, asked in a batch,", &found, &answers)?;
                }
                Ok(0)
            })?;
            batched.push(Some(mean(&latencies)));
        }
        let figure = |way: &str, tadoc: f64, ours: &[Option<f64>]| {
            let seconds = |subject: usize| ours.get(subject).copied().flatten();
            Figure {
                part: Part::Lookups,
                name: format!("{name}, {way}"),
                tadoc,
                first: None,
                one: seconds(0),
                all: seconds(1),
                device: seconds(2),
                resident: None,
            }
        };
        Ok([
            figure("single", tadoc_single.p50.unwrap_or(f64::NAN), &singles),
            figure("batch", mean(&tadoc_batch), &batched),
        ])
    }

    /// Asks one by one; the first answers.
    fn single<Q, A>(
        &self,
        questions: &[Q],
        ask: impl Fn(&Q) -> Result<A>,
    ) -> Result<(Vec<A>, Latencies)> {
        let mut answers = Vec::new();
        let latencies = single(questions.len(), self.budget, |question| {
            let answer = ask(&questions[question])?;
            // Questions are asked in order, the first ones twice.
            if question == answers.len() && question < COMPARED {
                answers.push(answer);
            }
            Ok(0)
        })?;
        Ok((answers, latencies))
    }
}

/// Seconds of a question.
fn mean(latencies: &Latencies) -> f64 {
    latencies.seconds / latencies.asked.max(1) as f64
}
