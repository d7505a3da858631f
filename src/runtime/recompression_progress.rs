//! The progress of the running recompression, for queries to report.
//!
//! The invariant: at most one recompression runs in a database; its share grows from 0 to 1 while it runs. Stages are weighted by
//! the time they usually take, so the share is about one of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::ingest::Progress;

/// The running recompression, if there is one.
#[derive(Debug, Default)]
pub(crate) struct RecompressionProgress(Mutex<Option<Running>>);

#[derive(Clone, Debug)]
struct Running {
    corpus: u64,
    /// The segments that it replaces.
    replaced: Vec<u64>,
    work: Arc<Work>,
}

/// Units of work: bytes of text, times the weights of stages.
#[derive(Debug)]
struct Work {
    total: u64,
    done: AtomicU64,
    /// The weight of the current stage.
    weight: AtomicU64,
}

/// Counts the work of a recompression and passes its progress on. Dropped, it ends the recompression.
pub(crate) struct Meter<'a> {
    underway: &'a RecompressionProgress,
    work: Arc<Work>,
    progress: &'a dyn Progress,
}

/// The share of the time that each stage takes, in percent, about.
const WEIGHTS: [(&str, u64); 5] = [
    ("tokenize", 18),
    ("dictionary", 5),
    ("rounds", 54),
    ("prune", 6),
    ("write", 17),
];

impl RecompressionProgress {
    /// Begins a recompression that writes `bytes` of text in place of segments of a corpus.
    pub(crate) fn begin<'a>(
        &'a self,
        corpus: u64,
        replaced: &[u64],
        bytes: u64,
        progress: &'a dyn Progress,
    ) -> Meter<'a> {
        let weights: u64 = WEIGHTS.iter().map(|(_, weight)| weight).sum();
        let work = Arc::new(Work {
            total: bytes.saturating_mul(weights).max(1),
            done: AtomicU64::new(0),
            weight: AtomicU64::new(0),
        });
        *self.0.lock() = Some(Running {
            corpus,
            replaced: replaced.to_vec(),
            work: work.clone(),
        });
        Meter {
            underway: self,
            work,
            progress,
        }
    }

    /// The share that is done, if the corpus is being recompressed.
    pub(crate) fn of_corpus(&self, corpus: u64) -> Option<f64> {
        let running = self.0.lock();
        let running = running.as_ref();
        Some(running.filter(|running| running.corpus == corpus)?.share())
    }

    /// The share that is done, if the segment is being replaced.
    pub(crate) fn of_segment(&self, segment: u64) -> Option<f64> {
        let running = self.0.lock();
        let replaces = |running: &&Running| running.replaced.contains(&segment);
        Some(running.as_ref().filter(replaces)?.share())
    }
}

impl Running {
    fn share(&self) -> f64 {
        let done = self.work.done.load(Ordering::Relaxed);
        (done as f64 / self.work.total as f64).min(1.0)
    }
}

impl Progress for Meter<'_> {
    fn begin(&self, stage: &str, total: u64) {
        let weight = WEIGHTS.iter().find(|(name, _)| *name == stage);
        let weight = weight.map_or(0, |(_, weight)| *weight);
        self.work.weight.store(weight, Ordering::Relaxed);
        self.progress.begin(stage, total);
    }

    fn advance(&self, amount: u64) {
        let weight = self.work.weight.load(Ordering::Relaxed);
        let amount_done = amount.saturating_mul(weight);
        self.work.done.fetch_add(amount_done, Ordering::Relaxed);
        self.progress.advance(amount);
    }

    fn end(&self) {
        self.progress.end();
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        *self.underway.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::NoProgress;

    #[test]
    fn the_share_grows_by_the_weights_of_stages_and_is_gone_at_the_end() {
        let underway = RecompressionProgress::default();
        assert_eq!(underway.of_corpus(1), None);
        let meter = underway.begin(1, &[7], 1000, &NoProgress);
        assert_eq!(underway.of_corpus(1), Some(0.0));
        meter.begin("rounds", 1000);
        meter.advance(500);
        assert_eq!(underway.of_segment(7), Some(0.27));
        assert_eq!(
            (underway.of_corpus(2), underway.of_segment(8)),
            (None, None)
        );
        for (stage, _) in WEIGHTS {
            meter.begin(stage, 1000);
            meter.advance(1000);
        }
        assert_eq!(underway.of_corpus(1), Some(1.0), "never more");
        drop(meter);
        assert_eq!(underway.of_corpus(1), None);
    }
}
