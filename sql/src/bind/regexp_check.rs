//! Checks of regular expressions while a statement is bound.
//!
//! Invariant: all expressions of a statement together take a fraction of a second here, where nothing polls. Those that are left are
//! checked by the same rules where they are compiled.

use super::Binder;
use crate::error::{Hint, Result, quote};
use crate::regexp::parse_with_flags;

/// Nanoseconds of work on all regular expressions of a statement.
const WORK_MAX: u64 = 200_000_000;

/// Where a regular expression stands.
#[derive(Clone, Copy)]
pub(super) struct RegexpPlace {
    /// The byte of the statement.
    pub(super) at: usize,
    /// Whether it is a literal there, and no parameter.
    pub(super) is_literal: bool,
}

impl Binder<'_> {
    /// Checks a regular expression with these flags.
    pub(super) fn check_regexp(
        &self,
        pattern: &str,
        flags: &str,
        place: RegexpPlace,
    ) -> Result<()> {
        if self.regexp_work.get() > WORK_MAX {
            return Ok(());
        }
        let RegexpPlace { at, is_literal } = place;
        let fault = match parse_with_flags(pattern, flags, self.schema.regexp_memory_limit()) {
            Ok(parsed) => {
                self.regexp_work
                    .update(|work| work.saturating_add(parsed.work));
                return Ok(());
            }
            Err(fault) => fault,
        };
        let place = match fault.byte().filter(|_| is_literal) {
            None => at,
            // Behind the quote; quotes in the text are written twice.
            Some(byte) => {
                let before = pattern.get(..byte).unwrap_or(pattern);
                at + 1 + before.len() + before.matches('\'').count()
            }
        };
        let message = format!("regular expression {}: {fault}", quote(pattern));
        Err(self.conflict(place, message, Hint::maybe(fault.hint())))
    }
}
