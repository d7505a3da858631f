//! Lengths of expansions, and the places of offsets in root and bodies.
//!
//! In   a grammar; the length of every terminal in some unit: bytes, words
//! Out  the length of every symbol's expansion; the sums before every 16th root
//!      symbol and before every 16th symbol of bodies longer than 16
//! Work O(symbols) in all: one pass over the rules of each level, one over the
//!      root. A look-up is a binary search among samples and at most 15 lengths
//!
//! Offsets in the root count from the start of the segment, not of the file, so
//! that one monotone array serves all files; `file_starts` is what to subtract.
//! Sums saturate: no rule of a file is longer than the file, and an absurd
//! grammar cannot wrap round.

use std::ops::Range;

use rayon::prelude::*;

use crate::GrammarView;

/// Symbols of the root or of a long body for each sample.
pub const SAMPLE_SYMBOLS: usize = 16;

/// Levels with fewer body symbols than this are not worth a parallel pass.
const PARALLEL_SYMBOLS_MIN: usize = 1 << 14;

/// For every symbol, terminals first, the terminals of its expansion joined by
/// `join`, which must be associative; `identity` for none.
///
/// Work: O(terminals + body symbols), level by level from below, parallel over the rules of
/// a level and inside very long bodies.
pub fn fold_expansions<T: Copy + Send + Sync>(
    view: GrammarView<'_>,
    terminal: impl Fn(u32) -> T + Sync,
    identity: T,
    join: impl Fn(T, T) -> T + Sync,
) -> Vec<T> {
    let terminals = view.terminal_count as usize;
    let mut values: Vec<T> = Vec::with_capacity(view.symbol_count());
    let each = (0..terminals).into_par_iter();
    // Terminals are numbered by u32.
    values.par_extend(
        each.with_min_len(PARALLEL_SYMBOLS_MIN)
            .map(|number| terminal(number as u32)),
    );
    values.resize(view.symbol_count(), identity);
    for level in 0..view.levels() {
        let rules = view.level_rules(level);
        if rules.is_empty() {
            continue;
        }
        let (lower, upper) = values.split_at_mut(terminals + rules.start);
        let level_values = &mut upper[..rules.len()];
        let lower = &*lower;
        let fold = |symbols: &[u32]| {
            (symbols.iter()).fold(identity, |value, &symbol| {
                join(value, lower[symbol as usize])
            })
        };
        let first = rules.start as u32;
        let level_symbols =
            (view.rule_offsets[rules.end] - view.rule_offsets[rules.start]) as usize;
        if level_symbols < PARALLEL_SYMBOLS_MIN {
            for (rule, value) in (first..).zip(level_values) {
                *value = fold(view.body(rule));
            }
            continue;
        }
        (level_values.par_iter_mut().enumerate().with_min_len(256)).for_each(|(index, value)| {
            let body = view.body(first + index as u32);
            *value = if body.len() < PARALLEL_SYMBOLS_MIN {
                fold(body)
            } else {
                body.par_chunks(PARALLEL_SYMBOLS_MIN / 4)
                    .map(fold)
                    .reduce(|| identity, &join)
            };
        });
    }
    values
}

/// Lengths of expansions and the samples that make offsets quick to find.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// `[symbols]`: length of each symbol's expansion, terminals first.
    pub symbols: Vec<u64>,
    /// The rules with bodies longer than [`SAMPLE_SYMBOLS`], ascending.
    pub long_rules: Vec<u32>,
    /// `[long rules + 1]`: where the samples of each long rule lie in `long_samples`.
    pub long_offsets: Vec<u32>,
    /// The length of a long body before its symbols 0, 16, 32, ...
    pub long_samples: Vec<u64>,
    /// `[root symbols / 16 + 1]`: the length of the segment before root symbols 0, 16, 32, ...
    pub root_samples: Vec<u64>,
    /// `[files + 1]`: the length of the segment before each file; last, all of it.
    pub file_starts: Vec<u64>,
}

impl Lengths {
    /// Size of the arrays.
    pub fn bytes(&self) -> usize {
        let Lengths {
            symbols,
            long_rules,
            long_offsets,
            long_samples,
            root_samples,
            file_starts,
        } = self;
        let wide = [symbols, long_samples, root_samples, file_starts];
        let narrow = [long_rules, long_offsets];
        let wide: usize = wide.map(|array| size_of_val(&array[..])).iter().sum();
        wide + narrow
            .map(|array| size_of_val(&array[..]))
            .iter()
            .sum::<usize>()
    }

    /// Measures all rules, long bodies and roots in the unit of
    /// `terminal_length`.
    ///
    /// Work: O(symbols), parallel on the current rayon pool. Memory: 8 bytes a
    /// distinct symbol, half a byte a root symbol.
    pub fn new(view: GrammarView<'_>, terminal_length: impl Fn(u32) -> u64 + Sync) -> Lengths {
        let symbols = fold_expansions(view, terminal_length, 0, u64::saturating_add);
        let sum = |block: &[u32]| {
            (block.iter()).fold(0u64, |sum, &symbol| {
                sum.saturating_add(symbols[symbol as usize])
            })
        };

        let mut long_rules = Vec::new();
        let mut long_offsets = vec![0u32];
        let mut long_count = 0u32;
        for rule in 0..view.rules() as u32 {
            let size = view.body_range(rule).len();
            if size > SAMPLE_SYMBOLS {
                long_rules.push(rule);
                // A sixteenth of the body symbols, which a u32 counts.
                long_count += size.div_ceil(SAMPLE_SYMBOLS) as u32;
                long_offsets.push(long_count);
            }
        }
        let long_block = |sample: usize| {
            let long = long_offsets.partition_point(|&start| start as usize <= sample) - 1;
            let body = view.body(long_rules[long]);
            let start = (sample - long_offsets[long] as usize) * SAMPLE_SYMBOLS;
            sum(&body[start..body.len().min(start + SAMPLE_SYMBOLS)])
        };
        let mut long_samples: Vec<u64> = (0..long_count as usize)
            .into_par_iter()
            .with_min_len(PARALLEL_SYMBOLS_MIN / SAMPLE_SYMBOLS)
            .map(long_block)
            .collect();
        for range in long_offsets.windows(2) {
            sums_before(&mut long_samples[range[0] as usize..range[1] as usize]);
        }

        let mut root_samples: Vec<u64> = (0..view.root.len() / SAMPLE_SYMBOLS + 1)
            .into_par_iter()
            .with_min_len(PARALLEL_SYMBOLS_MIN / SAMPLE_SYMBOLS)
            .map(|sample| {
                let start = sample * SAMPLE_SYMBOLS;
                sum(&view.root[start..view.root.len().min(start + SAMPLE_SYMBOLS)])
            })
            .collect();
        sums_before(&mut root_samples);

        let mut lengths = Lengths {
            symbols,
            long_rules,
            long_offsets,
            long_samples,
            root_samples,
            file_starts: Vec::new(),
        };
        lengths.file_starts = (view.root_offsets.iter())
            .map(|&start| lengths.root_start(view, start as usize))
            .collect();
        lengths
    }

    /// Where `file` begins and ends in the segment.
    pub fn file_range(&self, file: u32) -> Range<u64> {
        self.file_starts[file as usize]..self.file_starts[file as usize + 1]
    }

    /// Where the root symbol at `position` begins in the segment; `position`
    /// may be the end of the root. Work: one sample, at most 15 lengths.
    pub fn root_start(&self, view: GrammarView<'_>, position: usize) -> u64 {
        let sample = position / SAMPLE_SYMBOLS;
        (view.root[sample * SAMPLE_SYMBOLS..position].iter())
            .fold(self.root_samples[sample], |sum, &symbol| {
                sum.saturating_add(self.symbols[symbol as usize])
            })
    }

    /// Where the `index`-th symbol of the body of `rule` begins in its
    /// expansion. Work: O(log long rules), one sample, at most 15 lengths.
    pub fn body_start(&self, view: GrammarView<'_>, rule: u32, index: usize) -> u64 {
        let (from, before) = if index >= SAMPLE_SYMBOLS {
            let sample = index / SAMPLE_SYMBOLS;
            (sample * SAMPLE_SYMBOLS, self.samples_of(rule)[sample])
        } else {
            (0, 0)
        };
        (view.body(rule)[from..index].iter()).fold(before, |sum, &symbol| {
            sum.saturating_add(self.symbols[symbol as usize])
        })
    }

    /// The samples of `rule`, which must have a long body.
    fn samples_of(&self, rule: u32) -> &[u64] {
        let long = self.long_rules.partition_point(|&long| long < rule);
        let range = self.long_offsets[long] as usize..self.long_offsets[long + 1] as usize;
        &self.long_samples[range]
    }

    /// The index of the body symbol whose expansion holds `offset` of the
    /// expansion of `rule`, and the offset inside that symbol.
    ///
    /// `offset` must be less than the rule's length.
    /// Work: O(log long rules + log body), at most 16 lengths.
    #[inline]
    pub fn find_in_body(&self, view: GrammarView<'_>, rule: u32, offset: u64) -> (usize, u64) {
        let body = view.body(rule);
        let (mut index, mut offset) = (0, offset);
        if body.len() > SAMPLE_SYMBOLS {
            let samples = self.samples_of(rule);
            let sample = samples.partition_point(|&start| start <= offset) - 1;
            index = sample * SAMPLE_SYMBOLS;
            offset -= samples[sample];
        }
        loop {
            let length = self.symbols[body[index] as usize];
            if offset < length {
                return (index, offset);
            }
            offset -= length;
            index += 1;
        }
    }

    /// The position of the root symbol of `file` whose expansion holds `offset`
    /// of the segment, and the offset inside that symbol.
    ///
    /// `offset` must lie in `file`. Work: O(log root symbols of the file), at
    /// most 16 lengths.
    #[inline]
    pub fn find_in_root(&self, view: GrammarView<'_>, file: u32, offset: u64) -> (usize, u64) {
        let range = view.root_range(file);
        // Sample `first` is at or before the file's start, all later ones up to
        // the last lie inside the file.
        let first = range.start / SAMPLE_SYMBOLS;
        let samples = &self.root_samples[first + 1..=range.end / SAMPLE_SYMBOLS];
        let file_range = self.file_range(file);
        let inside = interpolate(samples, &file_range, offset);
        let (mut position, mut offset) = if inside == 0 {
            (range.start, offset - file_range.start)
        } else {
            let sample = first + inside;
            (sample * SAMPLE_SYMBOLS, offset - self.root_samples[sample])
        };
        loop {
            let length = self.symbols[view.root[position] as usize];
            if offset < length {
                return (position, offset);
            }
            offset -= length;
            position += 1;
        }
    }
}

/// How many of `samples`, which ascend evenly over `range`, are at most `offset`.
///
/// Work: O(log error) from where it would be were they quite even: a search from
/// the middle would miss the cache at every step.
fn interpolate(samples: &[u64], range: &Range<u64>, offset: u64) -> usize {
    let part = (offset - range.start) as f64 / (range.end - range.start) as f64;
    let guess = ((part * samples.len() as f64) as usize).min(samples.len());
    let mut step = 4;
    if guess < samples.len() && samples[guess] <= offset {
        let mut from = guess + 1;
        while from + step < samples.len() && samples[from + step] <= offset {
            from += step + 1;
            step *= 2;
        }
        let to = samples.len().min(from + step);
        from + samples[from..to].partition_point(|&start| start <= offset)
    } else {
        let mut to = guess;
        while to > step && samples[to - step - 1] > offset {
            to -= step + 1;
            step *= 2;
        }
        let from = to.saturating_sub(step + 1);
        from + samples[from..to].partition_point(|&start| start <= offset)
    }
}

/// Replaces each item by the sum of all items before it.
fn sums_before(items: &mut [u64]) {
    let mut sum = 0u64;
    for item in items {
        (*item, sum) = (sum, sum.saturating_add(*item));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::test_grammars::{self, TestGrammar, in_pools};

    fn check_unit(grammar: &TestGrammar, terminal_length: impl Fn(u32) -> u64 + Sync) {
        let view = grammar.view();
        let lengths = Lengths::new(view, &terminal_length);
        let length_of = |symbol: u32| -> u64 {
            let expansion = grammar.expand_symbols(&[symbol]);
            expansion.into_iter().map(&terminal_length).sum()
        };
        for symbol in 0..view.symbol_count() as u32 {
            assert_eq!(lengths.symbols[symbol as usize], length_of(symbol));
        }
        for rule in 0..view.rules() as u32 {
            let mut start = 0;
            for (index, &symbol) in view.body(rule).iter().enumerate() {
                assert_eq!(lengths.body_start(view, rule, index), start);
                let length = lengths.symbols[symbol as usize];
                for inside in [0, length / 2, length.saturating_sub(1)] {
                    if inside < length {
                        let found = lengths.find_in_body(view, rule, start + inside);
                        assert_eq!(found, (index, inside));
                    }
                }
                start += length;
            }
        }
        let mut start = 0;
        for file in 0..view.files() as u32 {
            let file_start = start;
            for position in view.root_range(file) {
                assert_eq!(lengths.root_start(view, position), start);
                let length = lengths.symbols[view.root[position] as usize];
                for inside in [0, length / 2, length.saturating_sub(1)] {
                    if inside < length {
                        let found = lengths.find_in_root(view, file, start + inside);
                        assert_eq!(found, (position, inside));
                    }
                }
                start += length;
            }
            assert_eq!(lengths.file_range(file), file_start..start);
        }
        assert_eq!(lengths.root_start(view, view.root.len()), start);
    }

    fn check(grammar: &TestGrammar) {
        check_unit(grammar, |t| grammar.tokens[t as usize].len() as u64);
        check_unit(grammar, |t| u64::from(t < grammar.word_terminals));
    }

    #[test]
    fn lengths_and_look_ups_equal_sums_over_the_expansion_of_all_small_grammars() {
        test_grammars::all_small().for_each(|grammar| check(&grammar));
    }

    #[test]
    fn lengths_and_look_ups_equal_sums_over_the_expansion_of_random_and_extreme_grammars() {
        test_grammars::random_many(60).for_each(|grammar| check(&grammar));
        check(&test_grammars::long_body(3_000));
        check(&test_grammars::deep_chain(300));
        check(&test_grammars::runs(9));
    }

    #[test]
    fn interpolating_finds_what_a_search_finds_however_uneven_the_samples() {
        let even: Vec<u64> = (0..100).map(|i| 10 * i).collect();
        let early: Vec<u64> = (0..100).map(|i| if i < 95 { i } else { 10 * i }).collect();
        let late: Vec<u64> = (0..100).map(|i| if i < 5 { i } else { 900 + i }).collect();
        for samples in [&even[..], &early, &late, &[7; 30], &[999], &[]] {
            for offset in 0..1_000 {
                let found = samples.partition_point(|&start| start <= offset);
                assert_eq!(interpolate(samples, &(0..1_000), offset), found);
            }
        }
    }

    #[test]
    fn lengths_are_the_same_for_1_2_and_16_threads() {
        let grammar = test_grammars::long_body(200_000);
        in_pools(|| grammar.lengths());
    }

    #[test]
    fn lengths_beyond_u64_saturate() {
        let grammar = test_grammars::doubling(70);
        let lengths = Lengths::new(grammar.view(), |_| 1);
        let rules = &lengths.symbols[grammar.tokens.len()..];
        assert_eq!(rules[62], 1 << 63);
        assert_eq!(rules[63], u64::MAX);
        assert_eq!(rules[69], u64::MAX);
    }
}
