//! `StatementCache`: a cache of parsed statements by their texts.
//!
//! Invariant: a parsed statement depends on nothing but its text, so it never becomes stale.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;
use zipfdb_sql::Statement;

/// Limits of the cache: the number of statements, and the bytes of a text.
const STATEMENTS_MAX: NonZeroUsize = NonZeroUsize::new(64).expect("not 0");
const TEXT_BYTES_MAX: usize = 1024;

/// The least recently used statements are evicted; each is found by its whole text.
pub(crate) struct StatementCache(Mutex<LruCache<Box<str>, Arc<Statement>>>);

impl Default for StatementCache {
    fn default() -> StatementCache {
        StatementCache(Mutex::new(LruCache::new(STATEMENTS_MAX)))
    }
}

impl StatementCache {
    /// The parsed statement of a text, if it is in the cache.
    pub(crate) fn get(&self, text: &str) -> Option<Arc<Statement>> {
        self.0.lock().get(text).cloned()
    }

    /// Stores the parsed statement of a text, if the text is short.
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
        let statements = StatementCache::default();
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
