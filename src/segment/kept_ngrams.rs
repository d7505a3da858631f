//! What a segment keeps for n-grams, built once queries without it have taken as long as building it.
//!
//! The invariant: what is kept stays in proportion to the grammar, and answers do not depend on whether it is there. Text
//! that the grammar does not shorten much has all its places sorted (a suffix array), other text its distinct n-grams of
//! eight words. Nothing is built here that no query asked for twice.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use zipfdb_kernels::{NGRAM_WORDS_MAX, NgramTable, WordGrammar, WordSuffixes, WordUses};

use crate::Result;
use crate::segment::spent::Spent;
use crate::strategy::{SUFFIX_BUILD_COST, TABLE_BUILD_COST};

/// Words a symbol of the grammar at most: 9 bytes a word are then no more than some times the grammar.
const SYMBOL_WORDS_MAX: u64 = 4;

/// Bytes for windows while a table is built, about.
const BUILD_MEMORY: usize = 1 << 28;

/// What it is built of.
#[derive(Clone, Copy)]
pub(crate) struct NgramOrigin<'a> {
    pub(crate) grammar: &'a WordGrammar,
    pub(crate) uses: &'a dyn Fn() -> Result<&'a WordUses>,
    pub(crate) stop: &'a AtomicBool,
}

/// What can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NgramStructure {
    Suffixes,
    Table,
}

/// What is kept.
#[derive(Clone, Copy)]
pub(crate) enum NgramSource<'a> {
    Suffixes(&'a WordSuffixes),
    Table(&'a NgramTable),
}

impl NgramStructure {
    /// For EXPLAIN.
    pub(crate) fn name(self) -> &'static str {
        match self {
            NgramStructure::Suffixes => "a kept suffix array",
            NgramStructure::Table => "a kept table",
        }
    }
}

impl NgramSource<'_> {
    pub(crate) fn kind(self) -> NgramStructure {
        match self {
            NgramSource::Suffixes(_) => NgramStructure::Suffixes,
            NgramSource::Table(_) => NgramStructure::Table,
        }
    }
}

/// What is kept, once it is there.
pub(crate) struct KeptNgrams {
    suffixes: OnceLock<WordSuffixes>,
    table: OnceLock<NgramTable>,
    /// What will be built, and how many nanoseconds of one thread that takes, about.
    plan: OnceLock<(NgramStructure, f64)>,
    /// What queries took that would have gained.
    spent: Spent,
}

impl KeptNgrams {
    pub(crate) fn new() -> KeptNgrams {
        KeptNgrams {
            suffixes: OnceLock::new(),
            table: OnceLock::new(),
            plan: OnceLock::new(),
            spent: Spent::new(),
        }
    }

    /// What answers queries for n-grams of so many words, if it is there. Single words are answered elsewhere.
    pub(crate) fn get(&self, n: usize) -> Option<NgramSource<'_>> {
        if !(2..=NGRAM_WORDS_MAX).contains(&n) {
            return None;
        }
        let table = || self.table.get().map(NgramSource::Table);
        self.suffixes
            .get()
            .map(NgramSource::Suffixes)
            .or_else(table)
    }

    /// Says that a query for n-grams took until now, and builds what it lacked if that is due.
    pub(crate) fn spend(&self, n: usize, begin: Instant, of: NgramOrigin<'_>) {
        // Another query may have built it while this one went on without.
        if !(2..=NGRAM_WORDS_MAX).contains(&n) || self.get(n).is_some() {
            return;
        }
        self.spent.add_since(begin);
        // Once: to add up all words takes longer than to find a phrase.
        let &(kind, price) = self.plan.get_or_init(|| plan_of(of.grammar));
        let price = (price / rayon::current_num_threads() as f64) as u64;
        // An error ends no query that has its answer; a later one tries again.
        drop(self.spent.build_if_due(price, || self.build(kind, of)));
    }

    /// Likewise of a query for places, which a table does not tell.
    pub(crate) fn spend_on_places(&self, n: usize, begin: Instant, of: NgramOrigin<'_>) {
        if self.plan.get_or_init(|| plan_of(of.grammar)).0 == NgramStructure::Suffixes {
            self.spend(n, begin, of);
        }
    }

    /// Builds it now.
    pub(crate) fn build(&self, kind: NgramStructure, of: NgramOrigin<'_>) -> Result<()> {
        let (view, weights) = (of.grammar.view(), of.grammar.weights());
        match kind {
            NgramStructure::Suffixes => {
                let built = WordSuffixes::new(view, weights, of.stop)?;
                drop(self.suffixes.set(built));
            }
            NgramStructure::Table => {
                let uses = (of.uses)()?;
                let built = NgramTable::new(view, weights, uses, BUILD_MEMORY, of.stop)?;
                drop(self.table.set(built));
            }
        }
        Ok(())
    }
}

/// What to build of a grammar, and what it takes.
fn plan_of(grammar: &WordGrammar) -> (NgramStructure, f64) {
    let view = grammar.view();
    let counts = grammar.weights()[..view.terminal_count as usize].iter();
    let words: u64 = counts.map(|&count| u64::from(count)).sum();
    let symbols = (view.symbols.len() + view.root.len()) as u64;
    match words <= symbols * SYMBOL_WORDS_MAX {
        true => (NgramStructure::Suffixes, words as f64 * SUFFIX_BUILD_COST),
        false => (NgramStructure::Table, symbols as f64 * TABLE_BUILD_COST),
    }
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
    fn what_pays_is_built_when_queries_have_taken_as_long_as_that_takes() {
        let stop = AtomicBool::new(false);
        let stopped = AtomicBool::new(true);
        let now = Instant::now();
        // Text that the grammar shortens is better left in it.
        for (grammar, kind) in [
            (grammar(10, 2), NgramStructure::Suffixes),
            (grammar(10, 90), NgramStructure::Table),
        ] {
            let uses = WordUses::new(grammar.view());
            let of = NgramOrigin {
                grammar: &grammar,
                uses: &|| Ok(&uses),
                stop: &stop,
            };
            let kept = KeptNgrams::new();
            kept.spend(3, now + Duration::from_secs(60), of);
            assert!(kept.get(2).is_none());
            kept.spent.make_due();
            kept.spend(1, now, of);
            kept.spend(9, now, of);
            assert!(kept.get(2).is_none());
            let of_stopped = NgramOrigin {
                stop: &stopped,
                ..of
            };
            kept.spend(3, now, of_stopped);
            assert!(kept.get(2).is_none());
            kept.spent.make_due();
            kept.spend_on_places(2, now, of);
            assert_eq!(kept.get(2).is_some(), kind == NgramStructure::Suffixes);
            kept.spend(3, now, of);
            assert!(kept.get(2).is_some_and(|source| source.kind() == kind));
            assert!(kept.get(1).is_none() && kept.get(9).is_none());
            // What is there is not built again, which would begin to count anew.
            kept.spent.make_due();
            kept.spend(3, now, of);
            assert!(kept.spent.is_due(1));
        }
    }
}
