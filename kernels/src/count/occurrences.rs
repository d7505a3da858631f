//! The occurrences of each symbol, and from them the count of a word in a file.
//!
//! In   a grammar; for counts a range of terminals (a word's tokens) and a file
//! Out  parents: for each symbol its places in bodies (rule, index) and in the root, both ascending;
//!      signatures: for each symbol 32 bits that rule out words its expansion cannot contain; counts u64
//! Work parents: O(symbols), two passes of a stable counting sort. Signatures: O(body symbols).
//!      A count: whichever is estimated least of
//!      walk   parents upward from the word: O(places of the word and of rules that contain it)
//!      scan   the file's root, entering only rules whose signature has the word's bits:
//!             O(root symbols of the file + steps down that find the word or seem to)
//!      table  a count for every rule, then the file's root: O(body symbols + root symbols of the file)
//!
//! The walk goes level by level, so a rule's count is final when it is used. Its
//! cost is known only on the way, so it gets a budget of a part of the best
//! other's cost and gives up when that is spent: the choice costs at most that
//! part more. Which way is taken depends on sizes alone, never on threads.

use std::ops::Range;

use rayon::prelude::*;

use crate::cost::{
    SCAN_SYMBOL_COST, SCAN_TOKEN_COST, TABLE_SYMBOL_COST, WALK_BUDGET_DIVISOR, WALK_PLACE_COST,
};
use crate::memory::huge_pages::on_huge_pages;
use crate::numbers::offsets::ranges_up_to;
use crate::numbers::symbol_slots::SymbolSlots;
use crate::{GrammarView, fold_expansions};

/// Every place where each symbol occurs.
#[derive(Debug, PartialEq, Eq)]
pub struct Parents {
    /// `[symbols + 1]`: where the places of a symbol lie in `rules` and `indexes`.
    pub offsets: Vec<u32>,
    /// The rule of each place; ascending for each symbol.
    pub rules: Vec<u32>,
    /// The index in that rule's body.
    pub indexes: Vec<u32>,
    /// `[symbols + 1]`: where the places of a symbol lie in `root_positions`.
    pub root_offsets: Vec<u32>,
    /// Positions in the root; ascending for each symbol.
    pub root_positions: Vec<u32>,
}

impl Parents {
    /// Size of the arrays.
    pub fn bytes(&self) -> usize {
        let Parents {
            offsets,
            rules,
            indexes,
            root_offsets,
            root_positions,
        } = self;
        let arrays = [offsets, rules, indexes, root_offsets, root_positions];
        arrays.map(|array| size_of_val(&array[..])).iter().sum()
    }

    /// Sorts all body and root symbols by symbol.
    ///
    /// Work: O(symbols), parallel on the current rayon pool. Memory: 8 bytes a
    /// body symbol, 4 a root symbol, 8 a distinct symbol; half as much more while
    /// built.
    pub fn new(view: GrammarView<'_>) -> Parents {
        let bodies = |range: Range<usize>| {
            let mut rule = (view.rule_offsets).partition_point(|&o| o as usize <= range.start);
            rule = rule.saturating_sub(1);
            let mut body = view.rule_offsets.get(rule).map_or(0, |&o| o as usize);
            let mut end = view.rule_offsets.get(rule + 1).map_or(0, |&o| o as usize);
            range.map(move |at| {
                while at >= end {
                    rule += 1;
                    body = end;
                    end = view.rule_offsets[rule + 1] as usize;
                }
                // Rules and body positions are u32.
                (view.symbols[at], (rule as u32, (at - body) as u32))
            })
        };
        let (offsets, places) = group(view.symbol_count(), view.symbols.len(), bodies);
        let (rules, indexes) = places.into_par_iter().unzip();
        // Root positions are u32.
        let positions = |range: Range<usize>| range.map(|at| (view.root[at], at as u32));
        let (root_offsets, root_positions) = group(view.symbol_count(), view.root.len(), positions);
        Parents {
            offsets,
            rules,
            indexes,
            root_offsets,
            root_positions,
        }
    }

    /// Where the places of `symbol` in bodies lie in `rules` and `indexes`.
    #[inline]
    pub fn places(&self, symbol: u32) -> Range<usize> {
        let symbol = symbol as usize;
        self.offsets[symbol] as usize..self.offsets[symbol + 1] as usize
    }

    /// The positions of `symbol` in the root, ascending.
    #[inline]
    pub fn positions(&self, symbol: u32) -> &[u32] {
        let symbol = symbol as usize;
        &self.root_positions
            [self.root_offsets[symbol] as usize..self.root_offsets[symbol + 1] as usize]
    }

    /// The positions of `symbol` among root positions `range`, ascending.
    #[inline]
    pub fn positions_in(&self, symbol: u32, range: &Range<usize>) -> &[u32] {
        let positions = self.positions(symbol);
        let from = positions.partition_point(|&at| (at as usize) < range.start);
        let positions = &positions[from..];
        &positions[..positions.partition_point(|&at| (at as usize) < range.end)]
    }
}

/// Keys below this many share a bucket at most, so that a bucket's counters
/// stay in the first-level cache.
const BUCKET_KEYS_MIN: usize = 1 << 10;

/// More buckets than this would not keep their write positions in cache.
const BUCKETS_MAX: usize = 1 << 10;

/// Fewer items than this are sorted by one task.
const TASK_ITEMS_MIN: usize = 1 << 16;

/// Most rounds that items are staged in: more rounds need less memory beside the result.
const ROUNDS: usize = 4;

/// Items of a round at least.
const STAGED_MIN: usize = 1 << 21;

/// Groups `items`, pairs of a key below `key_count` and a value, by key: the
/// values in order of key, for equal keys in the order given, and for each key
/// where its values start.
///
/// A stable counting sort of two passes: by the keys' high bits, parallel over
/// parts of the input, then inside each bucket by all bits, parallel over
/// buckets. Every task writes to slices of its own. Some buckets at a time go
/// through both passes.
fn group<V, I>(
    key_count: usize,
    item_count: usize,
    items: impl Fn(Range<usize>) -> I + Sync,
) -> (Vec<u32>, Vec<V>)
where
    V: Copy + Default + Send + Sync,
    I: Iterator<Item = (u32, V)>,
{
    let mut shift = BUCKET_KEYS_MIN.ilog2();
    while key_count >> shift >= BUCKETS_MAX {
        shift += 1;
    }
    let buckets = (key_count >> shift) + 1;
    let tasks = item_count.div_ceil(TASK_ITEMS_MIN);
    let tasks = tasks.min(rayon::current_num_threads() * 2).max(1);
    let part = item_count.div_ceil(tasks);
    let task_items = |task: usize| {
        let end = item_count.min((task + 1) * part);
        items((task * part).min(end)..end)
    };

    let counts: Vec<Vec<usize>> = (0..tasks)
        .into_par_iter()
        .map(|task| {
            let mut counts = vec![0; buckets];
            for (key, _) in task_items(task) {
                counts[key as usize >> shift] += 1;
            }
            counts
        })
        .collect();

    let bucket_sizes: Vec<usize> = (0..buckets)
        .map(|bucket| counts.iter().map(|counts| counts[bucket]).sum())
        .collect();
    let rounds = ranges_up_to(&bucket_sizes, STAGED_MIN.max(item_count / ROUNDS));
    let size_of_round = |round: &Range<usize>| bucket_sizes[round.clone()].iter().sum::<usize>();
    let staged_max = rounds.iter().map(size_of_round).max().unwrap_or(0);
    let mut staged = on_huge_pages(vec![(0u32, V::default()); staged_max]);
    let mut offsets = vec![0u32; key_count + 1];
    let mut values = on_huge_pages(vec![V::default(); item_count]);
    let mut chunks = offsets[1..].chunks_mut(1 << shift);
    let mut values_rest = &mut values[..];
    let mut start = 0;
    for round in rounds {
        // The first pass. Slices in order of bucket, in a bucket in order of task.
        let mut slices: Vec<Vec<&mut [(u32, V)]>> = (0..tasks)
            .map(|_| Vec::with_capacity(round.len()))
            .collect();
        let mut rest = &mut staged[..];
        for bucket in round.clone() {
            for (slices, counts) in slices.iter_mut().zip(&counts) {
                let (slice, behind) = rest.split_at_mut(counts[bucket]);
                slices.push(slice);
                rest = behind;
            }
        }
        (slices.into_par_iter().enumerate()).for_each(|(task, mut slices)| {
            let mut filled = vec![0usize; round.len()];
            for (key, value) in task_items(task) {
                let bucket = (key as usize >> shift).wrapping_sub(round.start);
                if bucket < round.len() {
                    slices[bucket][filled[bucket]] = (key, value);
                    filled[bucket] += 1;
                }
            }
        });

        // The second pass.
        let mut bucket_tasks = Vec::with_capacity(round.len());
        let mut staged_rest = &staged[..];
        for (&size, ends) in bucket_sizes[round].iter().zip(&mut chunks) {
            let (bucket_staged, staged_behind) = staged_rest.split_at(size);
            let (bucket_values, values_behind) = values_rest.split_at_mut(size);
            bucket_tasks.push((start, bucket_staged, bucket_values, ends));
            (staged_rest, values_rest) = (staged_behind, values_behind);
            start += size;
        }
        (bucket_tasks.into_par_iter()).for_each(|(start, staged, values, ends)| {
            let mask = (1u32 << shift) - 1;
            for &(key, _) in staged {
                ends[(key & mask) as usize] += 1;
            }
            let mut before = 0;
            for end in ends.iter_mut() {
                (*end, before) = (before, before + *end);
            }
            // Each key's entry goes from its start to its end.
            for &(key, value) in staged {
                let at = &mut ends[(key & mask) as usize];
                values[*at as usize] = value;
                *at += 1;
            }
            for end in ends {
                // A u32 counts all items.
                *end += start as u32;
            }
        });
    }
    (offsets, values)
}

/// Rules found on the way up from some symbols, in dense slots, to be processed
/// level by level.
pub(crate) struct Climb {
    slots: SymbolSlots,
    /// For each level the slots of rules found there and not processed yet.
    waiting: Vec<Vec<(u32, u32)>>,
}

impl Climb {
    pub(crate) fn new(view: GrammarView<'_>) -> Self {
        Climb {
            slots: SymbolSlots::new(),
            waiting: vec![Vec::new(); view.levels()],
        }
    }

    /// The slot of `rule`; true if the rule is new, and so waits for its level.
    #[inline]
    pub(crate) fn reach(&mut self, view: GrammarView<'_>, rule: u32) -> (u32, bool) {
        let (slot, new) = self.slots.find_or_add(rule);
        if new {
            self.waiting[view.level_index(rule)].push((rule, slot));
        }
        (slot, new)
    }

    /// The rules of a level with their slots. Every rule below must have been
    /// processed; what is reached from now on lies above.
    pub(crate) fn take_level(&mut self, level: usize) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.waiting[level])
    }

    /// The slot of `rule`, or [`NONE`] if it was not reached.
    #[inline]
    pub(crate) fn find(&self, rule: u32) -> u32 {
        self.slots.find(rule)
    }
}

/// For each symbol, which words its expansion may contain: a set of 32 bits by
/// a hash of the word, so that a missing bit is certain.
#[derive(Debug, PartialEq, Eq)]
pub struct Signatures {
    /// `[symbols]`, terminals first.
    pub bits: Vec<u32>,
}

impl Signatures {
    /// Size of the array.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.bits[..])
    }

    /// Joins the bits of every expansion. `group` gives the terminals of one
    /// word the same number, so that a word has one bit.
    ///
    /// Work: O(body symbols), parallel. Memory: 4 bytes a distinct symbol.
    pub fn new(view: GrammarView<'_>, group: impl Fn(u32) -> u32 + Sync) -> Signatures {
        let bit = |terminal| 1 << (group(terminal).wrapping_mul(0x9e37_79b9) >> 27);
        Signatures {
            bits: fold_expansions(view, bit, 0, |left, right| left | right),
        }
    }

    /// The bits of some terminals together.
    pub(crate) fn mask(&self, terminals: Range<u32>) -> u32 {
        (self.bits[terminals.start as usize..terminals.end as usize].iter())
            .fold(0, |mask, bit| mask | bit)
    }
}

/// How an answer for a word and a file is best found if not by a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fallback {
    Scan,
    Table,
}

/// The best way without a walk, and its cost.
fn costs(view: GrammarView<'_>, positions: &Range<usize>, tokens: u64) -> (Fallback, u64) {
    let root = positions.len() as u64;
    let scan = (root * SCAN_SYMBOL_COST).saturating_add(tokens.saturating_mul(SCAN_TOKEN_COST));
    let table = (view.symbols.len() as u64 + root) * TABLE_SYMBOL_COST;
    if scan <= table {
        (Fallback::Scan, scan)
    } else {
        (Fallback::Table, table)
    }
}

/// The best way without a walk, and how many places a walk may visit before it.
pub(crate) fn choose(
    view: GrammarView<'_>,
    positions: &Range<usize>,
    tokens: u64,
) -> (Fallback, u64) {
    let (fallback, cost) = costs(view, positions, tokens);
    (fallback, cost / (WALK_PLACE_COST * WALK_BUDGET_DIVISOR))
}

/// About how many nanoseconds an answer for a word takes without parents, in the
/// expansion of `root[positions]`, about `tokens` terminals.
///
/// [`Parents`] cost about [`PARENTS_SYMBOL_COST`](crate::PARENTS_SYMBOL_COST) for every symbol: build them once that much has
/// been spent without them.
pub fn cost_without_parents(view: GrammarView<'_>, positions: Range<usize>, tokens: u64) -> u64 {
    costs(view, &positions, tokens).1
}

/// How often terminals of `terminals` occur in `file`, which expands to about
/// `tokens` terminals. Without `parents` there is no walk.
pub fn count_in_file(
    view: GrammarView<'_>,
    parents: Option<&Parents>,
    signatures: &Signatures,
    terminals: Range<u32>,
    file: u32,
    tokens: u64,
) -> u64 {
    let positions = view.root_range(file);
    let (fallback, budget) = choose(view, &positions, tokens);
    if let Some(parents) = parents
        && let Some(count) = count_by_walk(view, parents, terminals.clone(), &positions, budget)
    {
        return count;
    }
    match fallback {
        Fallback::Scan => count_by_scan(view, signatures, terminals, positions),
        Fallback::Table => count_by_table(view, terminals, positions),
    }
}

/// Climbs from the terminals to all rules that contain them; `None` if that
/// takes more than `budget` places.
fn count_by_walk(
    view: GrammarView<'_>,
    parents: &Parents,
    terminals: Range<u32>,
    positions: &Range<usize>,
    budget: u64,
) -> Option<u64> {
    let mut walk = CountWalk {
        view,
        parents,
        positions,
        budget,
        climb: Climb::new(view),
        counts: Vec::new(),
        total: 0,
    };
    for terminal in terminals {
        walk.rise(terminal, 1)?;
    }
    for level in 0..view.levels() {
        for (rule, slot) in walk.climb.take_level(level) {
            let count = walk.counts[slot as usize];
            walk.rise(view.terminal_count + rule, count)?;
        }
    }
    Some(walk.total)
}

/// A climb that counts.
struct CountWalk<'a> {
    view: GrammarView<'a>,
    parents: &'a Parents,
    positions: &'a Range<usize>,
    /// Places that may still be visited.
    budget: u64,
    climb: Climb,
    /// By slot: how often the word occurs in the rule, final when its level is.
    counts: Vec<u64>,
    total: u64,
}

impl CountWalk<'_> {
    /// Adds up where `symbol`, which contains the word `count` times, occurs.
    fn rise(&mut self, symbol: u32, count: u64) -> Option<()> {
        let places = self.parents.places(symbol);
        self.budget = self.budget.checked_sub(places.len() as u64)?;
        let in_root = self.parents.positions_in(symbol, self.positions).len() as u64;
        self.total = self.total.wrapping_add(in_root.wrapping_mul(count));
        for &rule in &self.parents.rules[places] {
            let (slot, new) = self.climb.reach(self.view, rule);
            if new {
                self.counts.push(count);
            } else {
                let sum = &mut self.counts[slot as usize];
                *sum = sum.wrapping_add(count);
            }
        }
        Some(())
    }
}

fn count_by_scan(
    view: GrammarView<'_>,
    signatures: &Signatures,
    terminals: Range<u32>,
    positions: Range<usize>,
) -> u64 {
    let mask = signatures.mask(terminals.clone());
    let mut count = 0;
    view.traverse(
        positions,
        |symbol| signatures.bits[symbol as usize] & mask != 0,
        |_| 0,
        |_| 0,
        |_, terminal| count += u64::from(terminals.contains(&terminal)),
    );
    count
}

fn count_by_table(view: GrammarView<'_>, terminals: Range<u32>, positions: Range<usize>) -> u64 {
    let occurs = |terminal: u32| u64::from(terminals.contains(&terminal));
    let table = fold_expansions(view, occurs, 0, u64::wrapping_add);
    (view.root[positions].par_iter().with_min_len(TASK_ITEMS_MIN))
        .map(|&symbol| table[symbol as usize])
        .reduce(|| 0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::test_grammars::{self, TestGrammar, in_pools};

    fn check_parents(grammar: &TestGrammar) {
        let view = grammar.view();
        let parents = Parents::new(view);
        for symbol in 0..view.symbol_count() as u32 {
            let mut places = Vec::new();
            for rule in 0..view.rules() as u32 {
                for (index, &used) in view.body(rule).iter().enumerate() {
                    if used == symbol {
                        places.push((rule, index as u32));
                    }
                }
            }
            let range = parents.places(symbol);
            let found = (parents.rules[range.clone()].iter().copied())
                .zip(parents.indexes[range].iter().copied());
            assert_eq!(found.collect::<Vec<_>>(), places);
            let positions: Vec<u32> = (0..view.root.len() as u32)
                .filter(|&at| view.root[at as usize] == symbol)
                .collect();
            assert_eq!(parents.positions(symbol), positions);
        }
    }

    fn check_counts(grammar: &TestGrammar) {
        let view = grammar.view();
        let parents = Parents::new(view);
        let signatures = grammar.signatures();
        for word in grammar.words() {
            for file in 0..view.files() as u32 {
                let count = grammar.offsets(file, word).len() as u64;
                let terminals = word.first..word.end;
                let positions = view.root_range(file);
                assert_eq!(
                    count_by_walk(view, &parents, terminals.clone(), &positions, u64::MAX),
                    Some(count)
                );
                assert_eq!(
                    count_by_scan(view, &signatures, terminals.clone(), positions.clone()),
                    count
                );
                assert_eq!(count_by_table(view, terminals.clone(), positions), count);
                for parents in [None, Some(&parents)] {
                    for tokens in [0, 100, u64::MAX] {
                        let terminals = terminals.clone();
                        let found =
                            count_in_file(view, parents, &signatures, terminals, file, tokens);
                        assert_eq!(found, count);
                    }
                }
            }
        }
    }

    #[test]
    fn parents_list_every_place_of_every_symbol_in_order() {
        test_grammars::all_small().for_each(|grammar| check_parents(&grammar));
        test_grammars::random_many(60).for_each(|grammar| check_parents(&grammar));
        check_parents(&test_grammars::deep_chain(50));
    }

    #[test]
    fn all_ways_to_count_equal_a_scan_of_the_expansion() {
        test_grammars::all_small().for_each(|grammar| check_counts(&grammar));
        test_grammars::random_many(60).for_each(|grammar| check_counts(&grammar));
        check_counts(&test_grammars::deep_chain(1_000));
        check_counts(&test_grammars::long_body(50_000));
        check_counts(&test_grammars::runs(14));
    }

    #[test]
    fn grouping_sorts_stably_with_any_number_of_buckets() {
        let mut numbers = test_grammars::Numbers::new(3);
        for key_count in [1, 1_000, 1_024, 1_025, 5_000_000] {
            let keys: Vec<u32> = (0..200_000)
                .map(|_| numbers.below(key_count) as u32)
                .collect();
            let (offsets, values) = in_pools(|| {
                group(key_count as usize, keys.len(), |range| {
                    range.map(|at| (keys[at], at as u32))
                })
            });
            let mut sorted: Vec<u32> = (0..keys.len() as u32).collect();
            sorted.sort_by_key(|&at| keys[at as usize]);
            assert!(values == sorted);
            let end = |key: u64| sorted.partition_point(|&at| u64::from(keys[at as usize]) < key);
            for key in [0, 1, key_count / 2, key_count - 1, key_count] {
                assert_eq!(offsets[key as usize] as usize, end(key));
            }
        }
    }

    #[test]
    fn parents_are_the_same_for_1_2_and_16_threads() {
        let grammar = test_grammars::long_body(300_000);
        in_pools(|| Parents::new(grammar.view()));
    }
}
