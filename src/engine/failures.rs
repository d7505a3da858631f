//! Recompressions in the background that fail: why, and when they are tried again.
//!
//! The invariant: a corpus has an entry from a failure on until a recompression of it is done or it is gone. What fails in the
//! same way again and again is said once.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

/// The corpora of a database, by number, whose recompression fails.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<HashMap<u64, FailedCorpus>>);

#[derive(Debug)]
struct FailedCorpus {
    reason: String,
    /// After which time it is tried again.
    delay: Duration,
}

/// After which time it is tried again for the first time; twice as much each time.
const DELAY_MIN: Duration = Duration::from_millis(100);

/// It is tried again after so much time at most.
const DELAY_MAX: Duration = Duration::from_secs(60);

impl Failures {
    /// Notes a failure, and says after which time to try again.
    pub(crate) fn add(&self, corpus: u64, name: &str, reason: String) -> Duration {
        let mut failures = self.0.lock();
        let before = failures.remove(&corpus);
        // Files have another number each time.
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

    /// Why a corpus cannot be recompressed, if the last attempt failed.
    pub(crate) fn reason(&self, corpus: u64) -> Option<String> {
        let failures = self.0.lock();
        failures.get(&corpus).map(|failure| failure.reason.clone())
    }

    /// Forgets about a corpus that has been recompressed or is gone.
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
