//! `Throttle`: limits the rate of reading.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::ingest::Progress;
use crate::runtime::interrupt::check;

/// Delays the caller that reports read bytes, so that the total since the beginning stays within the rate.
///
/// The time of other stages counts too: reading after them is faster.
pub(crate) struct Throttle<'a> {
    /// Bytes a second; 0 for no limit.
    rate: u64,
    begun: Instant,
    read: AtomicU64,
    is_reading: AtomicBool,
    stop: &'a AtomicBool,
}

/// The stage in which text is read.
const READING_STAGE: &str = "tokenize";

/// Interval at which a delayed thread checks for interruption.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

impl<'a> Throttle<'a> {
    /// Limits reading to `rate` bytes a second, 0 for no limit; there are no delays once `stop` is set.
    pub(crate) fn new(rate: u64, stop: &'a AtomicBool) -> Throttle<'a> {
        Throttle {
            rate,
            begun: Instant::now(),
            read: AtomicU64::new(0),
            is_reading: AtomicBool::new(false),
            stop,
        }
    }

    /// The time from the beginning before which fewer than `bytes` may have been read.
    fn time_of(&self, bytes: u64) -> Duration {
        match self.rate {
            0 => Duration::ZERO,
            rate => Duration::from_secs_f64(bytes as f64 / rate as f64),
        }
    }
}

impl Progress for Throttle<'_> {
    fn begin(&self, stage: &str, _total: u64) {
        self.is_reading
            .store(stage == READING_STAGE, Ordering::Relaxed);
    }

    fn advance(&self, amount: u64) {
        if !self.is_reading.load(Ordering::Relaxed) {
            return;
        }
        let read = self.read.fetch_add(amount, Ordering::Relaxed) + amount;
        let time = self.time_of(read);
        while check(self.stop).is_ok() {
            let Some(left) = time.checked_sub(self.begun.elapsed()) else {
                return;
            };
            thread::sleep(left.min(LOOK_INTERVAL));
        }
    }

    fn end(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reading_is_held_up_and_only_until_it_is_stopped() {
        let stop = AtomicBool::new(false);
        let throttle = Throttle::new(1 << 20, &stop);
        throttle.begin("rounds", 0);
        throttle.advance(1 << 40);
        throttle.begin(READING_STAGE, 0);
        let begin = Instant::now();
        throttle.advance(1 << 14);
        throttle.advance(1 << 14);
        assert!(begin.elapsed() >= throttle.time_of(1 << 15) - Duration::from_millis(5));
        stop.store(true, Ordering::Relaxed);
        throttle.advance(1 << 40);
        assert_eq!(Throttle::new(0, &stop).time_of(u64::MAX), Duration::ZERO);
    }
}
