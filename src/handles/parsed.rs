//! `ParsedStatements`: what texts of statements were parsed to lately.
//!
//! Invariant: that depends on nothing but the text, so it stays right for as long as it is kept.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;
use zipfdb_sql::Statement;

/// How many statements are kept, and how long their texts are at most, in bytes.
const STATEMENTS_MAX: NonZeroUsize = NonZeroUsize::new(64).expect("not 0");
const TEXT_BYTES_MAX: usize = 1024;

/// The statements that were asked for last, each by its whole text.
pub(crate) struct ParsedStatements(Mutex<LruCache<Box<str>, Arc<Statement>>>);

impl Default for ParsedStatements {
    fn default() -> ParsedStatements {
        ParsedStatements(Mutex::new(LruCache::new(STATEMENTS_MAX)))
    }
}

impl ParsedStatements {
    /// The statement that this text was parsed to, if it is kept.
    pub(crate) fn get(&self, text: &str) -> Option<Arc<Statement>> {
        self.0.lock().get(text).cloned()
    }

    /// Keeps what a text was parsed to, if it is short.
    pub(crate) fn keep(&self, text: &str, parsed: &Arc<Statement>) {
        if text.len() <= TEXT_BYTES_MAX {
            self.0.lock().put(text.into(), parsed.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parsed(text: &str) -> Arc<Statement> {
        let mut statements = zipfdb_sql::parse(text).unwrap();
        Arc::new(statements.pop().unwrap())
    }

    #[test]
    fn those_asked_for_last_are_kept_and_long_ones_never() {
        let statements = ParsedStatements::default();
        let text = |number: usize| format!("SELECT {number}");
        let first = parsed(&text(0));
        statements.keep(&text(0), &first);
        for number in 1..=STATEMENTS_MAX.get() {
            assert!(Arc::ptr_eq(&statements.get(&text(0)).unwrap(), &first));
            statements.keep(&text(number), &parsed(&text(number)));
        }
        assert!(statements.get(&text(1)).is_none());
        assert!(statements.get(&text(2)).is_some());
        let long = format!("SELECT 1{}", " ".repeat(TEXT_BYTES_MAX));
        statements.keep(&long, &parsed(&long));
        assert!(statements.get(&long).is_none());
    }
}
