//! The clock around named questions that are asked in passes, and what a child prints.
//!
//! The invariant: an answer is the same in every pass, else there is an error. It knows neither questions nor engines.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::report::Cell;

/// One question with its answer and what it took.
#[derive(Clone, Serialize, Deserialize)]
pub struct Asked {
    pub name: String,
    /// A number that other engines give too.
    pub answer: u64,
    /// Names in the answer, where there are some.
    pub names: Vec<String>,
    /// Seconds of the first pass.
    pub first: f64,
    /// Seconds of each later pass.
    pub again: Vec<f64>,
}

impl Asked {
    /// The median of later passes, in seconds.
    pub fn warm(&self) -> Option<f64> {
        percentile(&self.again, 50)
    }
}

/// What a child has done.
#[derive(Serialize, Deserialize)]
pub struct Outcome {
    pub asked: Vec<Asked>,
    /// Bytes of the parts of a database, by name.
    pub parts: Vec<(String, u64)>,
}

impl Outcome {
    /// What was asked under names that begin so.
    pub fn of_kind(&self, kind: &str) -> Vec<&Asked> {
        let asked = self.asked.iter();
        asked.filter(|one| one.name.starts_with(kind)).collect()
    }

    /// One without a database of its own.
    pub fn of(asked: Vec<Asked>) -> Outcome {
        Outcome {
            asked,
            parts: Vec::new(),
        }
    }

    /// A question that was asked.
    pub fn find(&self, name: &str) -> Option<&Asked> {
        self.asked.iter().find(|one| one.name == name)
    }

    /// # Errors
    /// If a question that both were asked has two answers.
    pub fn compare(&self, other: &Outcome, this: &str, that: &str) -> Result<()> {
        for one in &self.asked {
            if let Some(same) = other.find(&one.name)
                && same.answer != one.answer
            {
                let (left, right) = (one.answer, same.answer);
                return Err(format!("{}: {left} of {this}, {right} of {that}", one.name).into());
            }
        }
        Ok(())
    }
}

/// Asks all questions in order, once and then up to `runs` times more, until the seconds are over.
pub fn ask_all(
    names: &[String],
    runs: usize,
    budget: f64,
    mut ask: impl FnMut(usize) -> Result<(u64, Vec<String>)>,
) -> Result<Vec<Asked>> {
    let budget = Duration::from_secs_f64(budget);
    let mut asked: Vec<Asked> = Vec::with_capacity(names.len());
    let start = Instant::now();
    for pass in 0..=runs {
        for (index, name) in names.iter().enumerate() {
            if start.elapsed() >= budget || (pass > 0 && index >= asked.len()) {
                return Ok(asked);
            }
            let begin = Instant::now();
            let (answer, found) = ask(index).map_err(|error| format!("{name}: {error}"))?;
            let seconds = begin.elapsed().as_secs_f64();
            if pass == 0 {
                asked.push(Asked {
                    name: name.clone(),
                    answer,
                    names: found,
                    first: seconds,
                    again: Vec::new(),
                });
                continue;
            }
            let before = &mut asked[index];
            if (before.answer, &before.names) != (answer, &found) {
                let first = before.answer;
                return Err(format!("{name}: {first} at first, then {answer}").into());
            }
            before.again.push(seconds);
        }
    }
    Ok(asked)
}

/// The number that a percentage of the numbers does not exceed.
pub fn percentile(numbers: &[f64], percent: usize) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    sorted.get(last * percent / 100).copied()
}

/// Medians of the first pass and of later ones, and the 99th percentile of these, in units of a second.
pub fn cells(asked: &[&Asked], unit: f64) -> [Cell; 3] {
    let first: Vec<f64> = asked.iter().map(|one| one.first).collect();
    let warm: Vec<f64> = asked.iter().filter_map(|one| one.warm()).collect();
    let found = [
        percentile(&first, 50),
        percentile(&warm, 50),
        percentile(&warm, 99),
    ];
    found.map(|seconds| Cell::from(seconds.map(|seconds| seconds * unit)))
}

/// Milliseconds of a question, first and warm.
pub fn milliseconds(outcome: &Outcome, name: &str) -> [Cell; 2] {
    outcome.find(name).map_or([Cell::Empty; 2], |one| {
        [Some(one.first), one.warm()].map(|seconds| Cell::from(seconds.map(|value| value * 1e3)))
    })
}
