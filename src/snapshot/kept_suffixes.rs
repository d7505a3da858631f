//! The suffix array of a segment, built once queries without it have taken as long as building it.
//!
//! The invariant: only for text that the grammar does not shorten much, so that what is kept stays in proportion to the
//! grammar; answers do not depend on whether it is there. Nothing is built here that no query asked for twice.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use zipfdb_kernels::{WordGrammar, WordSuffixes};

/// Words a symbol of the grammar at most: 9 bytes a word are then no more than some times the grammar.
const SYMBOL_WORDS_MAX: u64 = 4;

/// Nanoseconds of one thread that sorting a word takes, about.
const WORD_COST: u64 = 150;

/// A suffix array that may be there.
pub(super) struct KeptSuffixes {
    built: OnceLock<WordSuffixes>,
    /// Nanoseconds of one thread that building it takes, about; none where it is never built.
    price: OnceLock<Option<u64>>,
    /// How many nanoseconds queries took that would have gained.
    spent: AtomicU64,
}

impl KeptSuffixes {
    pub(super) fn new() -> KeptSuffixes {
        KeptSuffixes {
            built: OnceLock::new(),
            price: OnceLock::new(),
            spent: AtomicU64::new(0),
        }
    }

    /// What answers queries for n-grams, if it is there. Single words are answered elsewhere.
    pub(super) fn get(&self, n: usize) -> Option<&WordSuffixes> {
        match n > 1 && WordSuffixes::has(n) {
            true => self.built.get(),
            false => None,
        }
    }

    /// Says that a query for n-grams took until now. The query that reaches the price builds what it lacked: so neither
    /// a few queries nor a million pay much more than they must. The counter is of time, the answers do not depend on it.
    pub(super) fn spend(&self, n: usize, begin: Instant, grammar: &WordGrammar, stop: &AtomicBool) {
        if n < 2 || !WordSuffixes::has(n) {
            return;
        }
        // Once: to add up all words takes longer than to find a phrase.
        let Some(price) = *self.price.get_or_init(|| price_of(grammar)) else {
            return;
        };
        let price = price / rayon::current_num_threads() as u64;
        // 500 years fit.
        let taken = begin.elapsed().as_nanos() as u64;
        let before = self.spent.fetch_add(taken, Ordering::Relaxed);
        // Just one query passes the price, so just one thread builds.
        if before >= price || before + taken < price {
            return;
        }
        match WordSuffixes::new(grammar.view(), grammar.weights(), stop) {
            Ok(built) => drop(self.built.set(built)),
            // The query has its answer; a later one tries again.
            Err(_) => self.spent.store(0, Ordering::Relaxed),
        }
    }

    /// Builds it now.
    #[cfg(test)]
    pub(super) fn build(&self, grammar: &WordGrammar) {
        let stop = AtomicBool::new(false);
        let built = WordSuffixes::new(grammar.view(), grammar.weights(), &stop);
        drop(self.built.set(built.expect("not stopped")));
    }
}

/// What building takes, where it is worth its memory.
fn price_of(grammar: &WordGrammar) -> Option<u64> {
    let view = grammar.view();
    let counts = grammar.weights()[..view.terminal_count as usize].iter();
    let words: u64 = counts.map(|&count| u64::from(count)).sum();
    let symbols = (view.symbols.len() + view.root.len()) as u64;
    (words <= symbols * SYMBOL_WORDS_MAX).then_some(words * WORD_COST)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use zipfdb_kernels::GrammarView;

    use super::*;

    /// A file of so many words, each `copies` times in a row.
    fn grammar(words: u32, copies: u32) -> WordGrammar {
        let rules = (0..words).map(|rule| rule * copies).chain([words * copies]);
        let view = GrammarView {
            terminal_count: words,
            rule_offsets: &rules.collect::<Vec<u32>>(),
            symbols: &(0..words * copies)
                .map(|at| at / copies)
                .collect::<Vec<u32>>(),
            level_offsets: &[0, words],
            root_offsets: &[0, 8 * words],
            root: &(0..8 * words)
                .map(|at| words + at % words)
                .collect::<Vec<u32>>(),
        };
        WordGrammar::new(view, &(0..words).collect::<Vec<u32>>(), words)
    }

    #[test]
    fn a_suffix_array_is_built_when_queries_have_taken_as_long_as_that_takes() {
        let stop = AtomicBool::new(false);
        let long_ago = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        let short = grammar(10, 2);
        let kept = KeptSuffixes::new();
        kept.spend(3, Instant::now() + Duration::from_secs(60), &short, &stop);
        kept.spend(1, long_ago, &short, &stop);
        kept.spend(9, long_ago, &short, &stop);
        assert!(kept.get(2).is_none());
        let stopped = AtomicBool::new(true);
        kept.spend(3, long_ago, &short, &stopped);
        assert!(kept.get(2).is_none());
        kept.spend(3, long_ago, &short, &stop);
        assert!(kept.get(2).is_some());
        assert!(kept.get(1).is_none() && kept.get(9).is_none());
        // Text that the grammar shortens is better left in it.
        let kept = KeptSuffixes::new();
        kept.spend(3, long_ago, &grammar(10, 90), &stop);
        assert!(kept.get(2).is_none());
    }
}
