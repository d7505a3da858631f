//! Weights: how often each symbol occurs in the expansion of a root.
//!
//! In   a grammar; a range of root positions (the whole root, or one file's)
//! Out  weights [symbols] u64: occurrences of each terminal and rule. Sparse: the terminals that occur, with theirs
//! Work dense: O(root range + body symbols + symbols), whatever the range. Sparse: O(symbols the file can reach)
//!
//! Top-down: a rule's weight is final once all higher levels are done; then it
//! is added to every symbol of the body. No atomics: each of a few tasks adds
//! into an array of its own, and a weight is the sum over these arrays, taken
//! when its level is reached. The sums are of integers and wrap, so the result
//! does not depend on how work was cut.

use std::ops::Range;

use rayon::prelude::*;

use crate::GrammarView;
use crate::grammar::grammar_view::AHEAD_SYMBOLS;
use crate::numbers::symbol_slots::SymbolSlots;

/// Fewer symbols than this are counted by one task.
const TASK_SYMBOLS_MIN: usize = 1 << 15;

/// The dense pass reads its symbols in order, the sparse one hashes each: it is
/// chosen for a file with at most this part of the grammar's symbols.
const SPARSE_FACTOR: u64 = 8;

/// The weights of all symbols, terminals first, in the expansion of
/// `root[positions]`, which must have at most `tokens_max` terminals.
///
/// Parallel over the root and over the body symbols of each level, so one body
/// of any length is no bottleneck.
pub fn weights(view: GrammarView<'_>, positions: Range<usize>, tokens_max: u64) -> Vec<u64> {
    let root = &[&view.root[positions]];
    // No weight exceeds the number of terminals; narrow counters stay in cache.
    if tokens_max <= u64::from(u32::MAX) {
        let weights = count::<u32>(view, root);
        weights.into_iter().map(u64::from).collect()
    } else {
        count::<u64>(view, root)
    }
}

/// An unsigned integer to count in; sums wrap.
trait Counter: Copy + Default + PartialEq + Send + Sync {
    const ONE: Self;
    fn plus(self, other: Self) -> Self;
}

impl Counter for u32 {
    const ONE: u32 = 1;
    #[inline(always)]
    fn plus(self, other: u32) -> u32 {
        self.wrapping_add(other)
    }
}

impl Counter for u64 {
    const ONE: u64 = 1;
    #[inline(always)]
    fn plus(self, other: u64) -> u64 {
        self.wrapping_add(other)
    }
}

/// The weights of all symbols in all files, which have fewer terminals than a u32 counts.
pub(crate) fn symbol_weights(view: GrammarView<'_>) -> Vec<u32> {
    count::<u32>(view, &[view.root])
}

/// The weights of the terminals in some files together, which have fewer terminals than a u32 counts; each file once,
/// ascending.
///
/// Work: O(roots of the files + body symbols + symbols).
pub fn file_set_weights(view: GrammarView<'_>, files: &[u32]) -> Vec<u32> {
    let roots: Vec<&[u32]> = (files.chunk_by(|left, right| left + 1 == *right))
        .map(|run| {
            let (first, last) = (run[0], run[run.len() - 1]);
            &view.root[view.root_range(first).start..view.root_range(last).end]
        })
        .collect();
    let mut weights = count::<u32>(view, &roots);
    weights.truncate(view.terminal_count as usize);
    weights
}

/// Cuts slices into tasks of `size` symbols each except for the last, in order.
fn cut<'a>(slices: &[&'a [u32]], size: usize) -> Vec<Vec<&'a [u32]>> {
    let (mut tasks, mut room) = (Vec::new(), 0);
    for &slice in slices {
        let mut rest = slice;
        while !rest.is_empty() {
            if room == 0 {
                tasks.push(Vec::new());
                room = size;
            }
            let taken;
            (taken, rest) = rest.split_at(room.min(rest.len()));
            room -= taken.len();
            tasks.last_mut().expect("one was begun").push(taken);
        }
    }
    tasks
}

fn count<C: Counter>(view: GrammarView<'_>, roots: &[&[u32]]) -> Vec<C> {
    let symbol_count = view.symbol_count();
    // More arrays than this would cost more to clear and add than they save.
    let root_symbols: usize = roots.iter().map(|root| root.len()).sum();
    let paid = (root_symbols + view.symbols.len()) / symbol_count.max(1);
    let tasks = rayon::current_num_threads().min(paid).max(1);
    let mut partial: Vec<Vec<C>> = (0..tasks)
        .map(|_| vec![C::default(); symbol_count])
        .collect();

    let part = root_symbols.div_ceil(tasks).max(TASK_SYMBOLS_MIN);
    (partial.par_iter_mut().zip(cut(roots, part))).for_each(|(weights, part)| {
        for &symbol in part.into_iter().flatten() {
            let weight = &mut weights[symbol as usize];
            *weight = weight.plus(C::ONE);
        }
    });
    for level in (0..view.levels()).rev() {
        let rules = view.level_rules(level);
        if rules.is_empty() {
            continue;
        }
        let from = view.rule_offsets[rules.start] as usize;
        let to = view.rule_offsets[rules.end] as usize;
        let part = (to - from).div_ceil(tasks).max(TASK_SYMBOLS_MIN);
        let lowest = view.terminal_count as usize + rules.start;
        let (done, open): (Vec<&[C]>, Vec<&mut [C]>) = (partial.iter_mut())
            .map(|weights| {
                let (open, done) = weights.split_at_mut(lowest);
                (&*done, open)
            })
            .unzip();
        let scatter = |(task, open): (usize, &mut [C])| {
            let start = from + task * part;
            if start < to {
                let symbols = start..to.min(start + part);
                scatter_level(view, &rules, symbols, &done, open);
            }
        };
        if to - from <= part {
            open.into_iter().take(1).enumerate().for_each(scatter);
        } else {
            open.into_par_iter().enumerate().for_each(scatter);
        }
    }

    let mut total = partial.swap_remove(0);
    if !partial.is_empty() {
        (total.par_chunks_mut(TASK_SYMBOLS_MIN).enumerate()).for_each(|(index, total)| {
            let start = index * TASK_SYMBOLS_MIN;
            for other in &partial {
                for (sum, &weight) in total.iter_mut().zip(&other[start..]) {
                    *sum = sum.plus(weight);
                }
            }
        });
    }
    total
}

/// Adds the weights of a level's rules to the symbols at `symbols` of their bodies.
///
/// `done` holds every task's weights from the level's first rule on, `open` this
/// task's weights of all symbols below.
fn scatter_level<C: Counter>(
    view: GrammarView<'_>,
    rules: &Range<usize>,
    symbols: Range<usize>,
    done: &[&[C]],
    open: &mut [C],
) {
    let ends = &view.rule_offsets[rules.start + 1..=rules.end];
    let mut rule = ends.partition_point(|&end| end as usize <= symbols.start);
    let mut at = symbols.start;
    while at < symbols.end {
        let end = symbols.end.min(ends[rule] as usize);
        let weight = (done.iter()).fold(C::default(), |sum, weights| sum.plus(weights[rule]));
        if weight != C::default() {
            for &symbol in &view.symbols[at..end] {
                let sum = &mut open[symbol as usize];
                *sum = sum.plus(weight);
            }
        }
        at = end;
        rule += 1;
    }
}

/// The terminals that occur in `file`, ascending, with their weights.
///
/// `tokens` is about how many terminals the file expands to, `tokens_max` at
/// least as many. If they are few against the grammar, the file's rules are
/// followed with a hash table, and the cost does not depend on the grammar's
/// size. Otherwise the dense pass is filtered.
pub fn file_weights(
    view: GrammarView<'_>,
    file: u32,
    tokens: u64,
    tokens_max: u64,
) -> Vec<(u32, u64)> {
    let dense = view.symbols.len() + view.symbol_count();
    if tokens.saturating_mul(SPARSE_FACTOR) < dense as u64 {
        return sparse_weights(view, view.file_root(file));
    }
    let weights = weights(view, view.root_range(file), tokens_max);
    (weights[..view.terminal_count as usize].iter().enumerate())
        .filter(|&(_, &weight)| weight != 0)
        // A terminal's number is a u32.
        .map(|(terminal, &weight)| (terminal as u32, weight))
        .collect()
}

/// The terminals of the expansion of `root`, ascending, with their weights.
fn sparse_weights(view: GrammarView<'_>, root: &[u32]) -> Vec<(u32, u64)> {
    let mut descent = Descent {
        view,
        slots: SymbolSlots::new(),
        weights: Vec::new(),
        terminals: Vec::new(),
        waiting: vec![Vec::new(); view.levels()],
    };
    for &symbol in root {
        descent.add(symbol, 1);
    }
    for level in (0..view.levels()).rev() {
        for block in std::mem::take(&mut descent.waiting[level]).chunks(AHEAD_SYMBOLS) {
            let mut bodies = [(0, 0); AHEAD_SYMBOLS];
            let symbols = block.iter().map(|&(rule, _)| view.terminal_count + rule);
            view.look_ahead(symbols, &mut bodies[..block.len()]);
            for (&(_, slot), &(start, end)) in block.iter().zip(&bodies) {
                let weight = descent.weights[slot as usize];
                for &symbol in &view.symbols[start as usize..end as usize] {
                    descent.add(symbol, weight);
                }
            }
        }
    }
    descent.terminals.sort_unstable();
    (descent.terminals.iter())
        .map(|&(terminal, slot)| (terminal, descent.weights[slot as usize]))
        .collect()
}

/// Symbols found on the way down from a root.
struct Descent<'a> {
    view: GrammarView<'a>,
    slots: SymbolSlots,
    /// By slot.
    weights: Vec<u64>,
    /// Terminals found, with their slots.
    terminals: Vec<(u32, u32)>,
    /// For each level the rules found there, with their slots. A rule's weight
    /// is final when its level's turn comes.
    waiting: Vec<Vec<(u32, u32)>>,
}

impl Descent<'_> {
    #[inline]
    fn add(&mut self, symbol: u32, weight: u64) {
        let (slot, new) = self.slots.find_or_add(symbol);
        if !new {
            let sum = &mut self.weights[slot as usize];
            *sum = sum.wrapping_add(weight);
            return;
        }
        self.weights.push(weight);
        match self.view.rule(symbol) {
            None => self.terminals.push((symbol, slot)),
            Some(rule) => self.waiting[self.view.level_index(rule)].push((rule, slot)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::test_grammars::{self, TestGrammar, in_pools};

    /// How often each terminal occurs in each file, counted on the expansion.
    fn naive(grammar: &TestGrammar) -> Vec<Vec<u64>> {
        (0..grammar.view().files() as u32)
            .map(|file| {
                let mut counts = vec![0; grammar.tokens.len()];
                for terminal in grammar.expand(file) {
                    counts[terminal as usize] += 1;
                }
                counts
            })
            .collect()
    }

    fn check(grammar: &TestGrammar) {
        let view = grammar.view();
        let terminals = view.terminal_count as usize;
        let naive = naive(grammar);
        let mut total = vec![0; terminals];
        for (file, counts) in naive.iter().enumerate() {
            let file = file as u32;
            let nonzero: Vec<(u32, u64)> = (0..).zip(counts.iter().copied()).collect();
            let nonzero: Vec<_> = nonzero.into_iter().filter(|&(_, n)| n > 0).collect();
            assert_eq!(sparse_weights(view, view.file_root(file)), nonzero);
            for tokens_max in [1 << 20, u64::MAX] {
                let weights = weights(view, view.root_range(file), tokens_max);
                assert_eq!(&weights[..terminals], &counts[..]);
            }
            assert_eq!(file_weights(view, file, 0, 1 << 20), nonzero);
            assert_eq!(file_weights(view, file, u64::MAX, 1 << 20), nonzero);
            for (sum, count) in total.iter_mut().zip(counts) {
                *sum += count;
            }
        }
        assert_eq!(
            &weights(view, 0..view.root.len(), 1 << 20)[..terminals],
            &total[..]
        );
        // Every second file, the last two of three, and all.
        let chosen: [fn(u32) -> bool; 3] = [|file| file % 2 == 0, |file| file % 3 > 0, |_| true];
        for chosen in chosen {
            let files: Vec<u32> = (0..view.files() as u32)
                .filter(|&file| chosen(file))
                .collect();
            let sum = |terminal: usize| {
                files
                    .iter()
                    .map(|&file| naive[file as usize][terminal])
                    .sum()
            };
            let expected: Vec<u64> = (0..terminals).map(sum).collect();
            let found = file_set_weights(view, &files).into_iter().map(u64::from);
            assert_eq!(found.collect::<Vec<u64>>(), expected, "{files:?}");
        }
    }

    #[test]
    fn weights_equal_counts_on_the_expansion_of_all_small_grammars() {
        test_grammars::all_small().for_each(|grammar| check(&grammar));
    }

    #[test]
    fn weights_equal_counts_on_the_expansion_of_random_and_extreme_grammars() {
        test_grammars::random_many(200).for_each(|grammar| check(&grammar));
        check(&test_grammars::deep_chain(2_000));
        check(&test_grammars::long_body(100_000));
        check(&test_grammars::runs(16));
    }

    #[test]
    fn a_rule_weighs_its_occurrences() {
        let grammar = test_grammars::runs(5);
        let view = grammar.view();
        let weights = weights(view, view.root_range(0), 100);
        let rules = &weights[view.terminal_count as usize..];
        assert_eq!(rules, [16, 8, 4, 2, 1]);
    }

    #[test]
    fn weights_are_the_same_for_1_2_and_16_threads() {
        for grammar in [
            test_grammars::long_body(300_000),
            test_grammars::deep_chain(100),
        ] {
            let view = grammar.view();
            in_pools(|| weights(view, 0..view.root.len(), 1 << 20));
        }
    }
}
