//! The clock around single questions and around batches.
//!
//! It knows neither questions nor engines.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::report::Cell;

/// Questions that are asked before the clock starts.
pub const WARMING: usize = 1_000;

/// What a search may take: seconds, and seconds for each hit.
const SEARCH_SECONDS: (f64, f64) = (20e-6, 1e-6);

/// What questions of one kind took.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Latencies {
    /// How many were asked.
    pub asked: usize,
    /// All together.
    pub seconds: f64,
    /// Seconds that half of the questions took at most; none of batches.
    pub p50: Option<f64>,
    p99: Option<f64>,
    /// Which part of the questions took at most [`SEARCH_SECONDS`].
    within: Option<f64>,
    /// Occurrences that were counted or found, or bytes.
    found: u64,
}

impl Latencies {
    /// Microseconds of half and of 99 % of the questions.
    pub fn percentiles(&self) -> [Cell; 2] {
        [self.p50, self.p99].map(|seconds| Cell::from(seconds.map(|seconds| seconds * 1e6)))
    }

    /// Microseconds of a question, on average.
    pub fn mean(&self) -> f64 {
        self.seconds * 1e6 / self.asked as f64
    }

    /// Which part of the questions took at most 20 us and 1 us a hit, in per cent.
    pub fn within(&self) -> Option<f64> {
        self.within.map(|part| part * 100.0)
    }
}

/// Asks questions one by one until all are asked or time is up. `ask` says how much it found.
pub fn single(
    questions: usize,
    budget: Duration,
    mut ask: impl FnMut(usize) -> Result<u64>,
) -> Result<Latencies> {
    let begin = Instant::now();
    for question in 0..questions.min(WARMING) {
        ask(question)?;
        if begin.elapsed() >= budget {
            break;
        }
    }
    let mut times = Vec::with_capacity(questions);
    let (mut found, mut within) = (0, 0);
    let begin = Instant::now();
    let mut last = begin;
    for question in 0..questions {
        let hits = ask(question)?;
        let now = Instant::now();
        let seconds = (now - last).as_secs_f64();
        times.push(seconds);
        found += hits;
        within += usize::from(seconds <= SEARCH_SECONDS.0 + hits as f64 * SEARCH_SECONDS.1);
        last = now;
        if now - begin >= budget {
            break;
        }
    }
    times.sort_by(f64::total_cmp);
    let part = |percent: usize| {
        times
            .get(times.len().saturating_sub(1) * percent / 100)
            .copied()
    };
    Ok(Latencies {
        asked: times.len(),
        seconds: (last - begin).as_secs_f64(),
        p50: part(50),
        p99: part(99),
        within: Some(within as f64 / times.len() as f64),
        found,
    })
}

/// Asks batches until all are asked or time is up; the first is asked twice, once untimed.
pub fn batches<T>(
    batches: &[&[T]],
    budget: Duration,
    mut ask: impl FnMut(&[T]) -> Result<u64>,
) -> Result<Latencies> {
    if let Some(first) = batches.first() {
        ask(first)?;
    }
    let (mut asked, mut found) = (0, 0);
    let begin = Instant::now();
    for batch in batches {
        found += ask(batch)?;
        asked += batch.len();
        if begin.elapsed() >= budget {
            break;
        }
    }
    Ok(Latencies {
        asked,
        seconds: begin.elapsed().as_secs_f64(),
        p50: None,
        p99: None,
        within: None,
        found,
    })
}
