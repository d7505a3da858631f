//! Failed recompressions in the background: their reasons, and when they are tried again.
//!
//! The invariant: a corpus has an entry from a failure until its next successful recompression or its end. The same failure is
//! reported once.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

/// The corpora of a database, by number, whose recompression fails.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<HashMap<u64, FailedCorpus>>);

#[derive(Debug)]
struct FailedCorpus {
    reason: String,
    /// The wait before the next attempt.
    delay: Duration,
}

/// The wait before the first new attempt; it doubles with each failure.
const DELAY_MIN: Duration = Duration::from_millis(100);

/// The longest wait between attempts.
const DELAY_MAX: Duration = Duration::from_secs(60);

impl Failures {
    /// Records a failure, and returns the wait before the next attempt.
    pub(crate) fn add(&self, corpus: u64, name: &str, reason: String) -> Duration {
        let mut failures = self.0.lock();
        let before = failures.remove(&corpus);
        // File numbers differ between attempts.
        let is_digit = |character: char| character.is_ascii_digit();
        let is_same = |before: &FailedCorpus| {
            (before
                .reason
                .split(is_digit)
                .filter(|part| !part.is_empty()))
            .eq(reason.split(is_digit).filter(|part| !part.is_empty()))
        };
        if !before.as_ref().is_some_and(is_same) {
            tracing::warn!("cannot recompress corpus `{name}`, its edits stay pending: {reason}");
        }
        let delay = before.map_or(DELAY_MIN, |before| (before.delay * 2).min(DELAY_MAX));
        failures.insert(corpus, FailedCorpus { reason, delay });
        delay
    }

    /// The reason why a corpus cannot be recompressed, if the last attempt failed.
    pub(crate) fn reason(&self, corpus: u64) -> Option<String> {
        let failures = self.0.lock();
        failures.get(&corpus).map(|failure| failure.reason.clone())
    }

    /// Forgets the failures of a corpus that was recompressed or is gone.
    pub(crate) fn clear(&self, corpus: u64) {
        if self.0.lock().remove(&corpus).is_some() {
            tracing::info!("corpus {corpus} is recompressed in the background again");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn delays_double_up_to_a_minute_and_begin_anew_after_a_success() {
        let failures = Failures::default();
        let delays: Vec<u128> = (0..12)
            .map(|_| failures.add(1, "c", "full".into()).as_millis())
            .collect();
        assert_eq!(delays[..4], [100, 200, 400, 800]);
        assert_eq!(delays[9..], [51_200, 60_000, 60_000]);
        assert_eq!(failures.reason(1).unwrap(), "full");
        assert_eq!(failures.reason(2), None);
        failures.clear(1);
        assert_eq!(failures.reason(1), None);
        assert_eq!(failures.add(1, "c", "full".into()), DELAY_MIN);
    }
}
