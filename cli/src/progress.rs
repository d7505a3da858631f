//! Progress bars for long work.
//!
//! Invariant: a bar is drawn only on a terminal and only once its statement took a moment, and it is gone when the stage
//! ends, so that it never mixes with rows. Nothing is drawn between the calls of [`Progress`].

use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use zipfdb::ingest::Progress;

/// Statements that end sooner show no bar.
const DELAY: Duration = Duration::from_millis(300);
/// How often a bar that does not advance is drawn again, for its clock.
const TICK: Duration = Duration::from_millis(200);

const BAR: &str =
    "{msg:<10} {wide_bar} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta}";
const BAR_WITHOUT_TOTAL: &str =
    "{msg:<10} {spinner} {decimal_bytes} {decimal_bytes_per_sec} {elapsed}";

/// Draws the stages of one statement on standard error.
pub struct Bars {
    is_enabled: bool,
    begun: Instant,
    stage: Mutex<Option<Stage>>,
}

struct Stage {
    bar: ProgressBar,
    is_drawn: bool,
}

impl Bars {
    /// Draws if standard error is a terminal.
    pub fn new() -> Bars {
        Bars {
            is_enabled: io::stderr().is_terminal(),
            begun: Instant::now(),
            stage: Mutex::new(None),
        }
    }

    fn with_stage(&self, change: impl FnOnce(&mut Option<Stage>)) {
        if self.is_enabled {
            change(&mut self.stage.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn draw_if_due(&self, stage: &mut Stage) {
        if !stage.is_drawn && self.begun.elapsed() >= DELAY {
            stage.bar.set_draw_target(ProgressDrawTarget::stderr());
            stage.bar.enable_steady_tick(TICK);
            stage.is_drawn = true;
        }
    }
}

impl Progress for Bars {
    fn begin(&self, stage: &str, total: u64) {
        self.with_stage(|current| {
            if let Some(unfinished) = current.take() {
                unfinished.bar.finish_and_clear();
            }
            let total = Some(total).filter(|total| *total > 0);
            let style = ProgressStyle::with_template(if total.is_some() {
                BAR
            } else {
                BAR_WITHOUT_TOTAL
            });
            let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden())
                .with_style(style.expect("the templates are constant and correct"))
                .with_message(stage.to_string());
            let mut stage = Stage {
                bar,
                is_drawn: false,
            };
            self.draw_if_due(&mut stage);
            *current = Some(stage);
        });
    }

    fn advance(&self, amount: u64) {
        self.with_stage(|current| {
            if let Some(stage) = current {
                self.draw_if_due(stage);
                stage.bar.inc(amount);
            }
        });
    }

    fn end(&self) {
        self.with_stage(|current| {
            if let Some(stage) = current.take() {
                stage.bar.finish_and_clear();
            }
        });
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_correct() {
        assert!(ProgressStyle::with_template(BAR).is_ok());
        assert!(ProgressStyle::with_template(BAR_WITHOUT_TOTAL).is_ok());
    }
}
