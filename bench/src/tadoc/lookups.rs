//! Counts, searches and extracts, of both, one by one and in batches, answers compared.
//!
//! Both get names of files and words as text. TADOC has no batches of its own on a CPU: it answers one after the other.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Duration;

use zipfdb::Snapshot;
use zipfdb_tadoc::Lookups;

use super::{Figure, Part, Subjects};
use crate::Result;
use crate::lookups::measure::{Latencies, batches, single};
use crate::lookups::questions::{Answers, BATCH_MAX, LONG, Questions, SHORT};

/// Answers that are compared.
const COMPARED: usize = 2_000;

/// Most repetitions of a batch.
const BATCHES_MAX: usize = 100;

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
    // The searches before this one find together as many places as a batch may.
    let searches = questions.search_ends.first().copied().unwrap_or(0);

    let mut figures = Vec::new();
    figures.extend(asking.ask(
        "count",
        &words,
        BATCH_MAX,
        &answers.counts,
        |question| {
            let (file, word) = number(question);
            baseline.lookups.count(file, word)
        },
        |snapshot, (file, word)| Ok(snapshot.count_in(file, word)?),
        |snapshot, questions| Ok(snapshot.count_in_many(questions)?),
    )?);
    figures.extend(asking.ask(
        "search",
        &words,
        searches,
        &answers.searches,
        |question| {
            let (file, word) = number(question);
            baseline.lookups.search(file, word)
        },
        |snapshot, (file, word)| Ok(snapshot.search_in(file, word)?),
        |snapshot, questions| Ok(snapshot.search_in_many(questions)?),
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
            BATCH_MAX,
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
    /// Asks questions of one kind singly, and in one batch the first ones: those that TADOC answers within the budget, at
    /// most `batch_max`. `expected` are the first answers.
    #[expect(
        clippy::too_many_arguments,
        reason = "three ways to answer, and what they are asked"
    )]
    fn ask<Q, A: PartialEq>(
        &self,
        name: &str,
        questions: &[Q],
        batch_max: usize,
        expected: &[A],
        tadoc: impl Fn(&Q) -> A,
        one: impl Fn(&Snapshot, &Q) -> Result<A>,
        many: impl Fn(&Snapshot, &[Q]) -> Result<Vec<A>>,
    ) -> Result<[Figure; 2]> {
        eprintln!("  {name}");
        let compare = |interface: &str, found: &[A], expected: &[A]| -> Result<()> {
            if found
                .iter()
                .zip(expected)
                .all(|(found, expected)| found == expected)
            {
                Ok(())
            } else {
                Err(format!("{name}: {interface} answers otherwise").into())
            }
        };
        let (answers, tadoc_single) = self.single(questions, |question| Ok(tadoc(question)))?;
        compare("TADOC", &answers, expected)?;
        let batch = &questions[..tadoc_single.asked.min(batch_max)];
        let repeated = [batch; BATCHES_MAX];
        let tadoc_batch = batches(&repeated, self.budget, |batch| {
            black_box(batch.iter().map(&tadoc).collect::<Vec<A>>());
            Ok(0)
        })?;
        let (mut singles, mut batched) = (Vec::new(), Vec::new());
        for snapshot in self.subjects.all() {
            let (found, latencies) = self.single(questions, |question| one(snapshot, question))?;
            compare("ZipfDB", &found, &answers)?;
            singles.push(latencies.p50);
            compare(
                "ZipfDB, asked in a batch,",
                &many(snapshot, batch)?,
                &answers,
            )?;
            let latencies = batches(&repeated, self.budget, |batch| {
                black_box(many(snapshot, batch)?);
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
                joules: Vec::new(),
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
