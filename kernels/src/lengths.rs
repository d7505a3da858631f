//! How long expansions are, and where offsets lie in root and bodies.
//!
//! In   a grammar; terminal_bytes [terminals] u32; word_terminals: terminals below it are word tokens
//! Out  bytes and words of every rule's expansion; bytes and words before every
//!      16th root symbol and before every 16th symbol of bodies longer than 16
//! Work O(symbols) in all: one pass over the rules of each level, one over the
//!      root. A look-up is a binary search among samples and at most 15 lengths
//!
//! Root offsets count from the start of the segment, not of the file, so that
//! one monotone array serves all files; `file_bytes` and `file_words` give what
//! to subtract. Sums saturate: a rule longer than `u64` cannot occur in a file
//! whose length is known to be smaller, and an absurd grammar cannot wrap round.

use rayon::prelude::*;

use crate::GrammarView;

/// One sample is kept for so many symbols of the root or of a long body.
pub const SAMPLE_SYMBOLS: usize = 16;

/// Levels with fewer body symbols than this are not worth a parallel pass.
const PARALLEL_SYMBOLS_MIN: usize = 1 << 14;

/// For every rule the sum of `terminal_value` over the terminals of its
/// expansion, saturating.
///
/// Work: O(body symbols), level by level from below, parallel over the rules of
/// a level and inside very long bodies.
pub fn expansion_sums(
    view: GrammarView<'_>,
    terminal_value: impl Fn(u32) -> u64 + Sync,
) -> Vec<u64> {
    let mut sums = vec![0u64; view.rules()];
    for level in 0..view.levels() {
        let rules = view.level_rules(level);
        if rules.is_empty() {
            continue;
        }
        let (lower, upper) = sums.split_at_mut(rules.start);
        let level_sums = &mut upper[..rules.len()];
        let lower = &*lower;
        let value = |&symbol: &u32| match view.rule(symbol) {
            None => terminal_value(symbol),
            Some(rule) => lower[rule as usize],
        };
        let sum = |body: &[u32]| body.iter().map(value).fold(0, u64::saturating_add);
        let level_symbols =
            (view.rule_offsets[rules.end] - view.rule_offsets[rules.start]) as usize;
        if level_symbols < PARALLEL_SYMBOLS_MIN {
            for (rule, target) in rules.zip(level_sums) {
                *target = sum(view.body(rule as u32));
            }
            continue;
        }
        let first = rules.start;
        level_sums
            .par_iter_mut()
            .enumerate()
            .with_min_len(256)
            .for_each(|(index, target)| {
                let body = view.body((first + index) as u32);
                *target = if body.len() < PARALLEL_SYMBOLS_MIN {
                    sum(body)
                } else {
                    body.par_chunks(PARALLEL_SYMBOLS_MIN / 4)
                        .map(sum)
                        .reduce(|| 0, u64::saturating_add)
                };
            });
    }
    sums
}

/// Lengths of expansions and the samples that make offsets quick to find.
#[derive(Debug, PartialEq, Eq)]
pub struct Lengths {
    /// `[rules]`: bytes of each rule's expansion.
    pub rule_bytes: Vec<u64>,
    /// `[rules]`: words of each rule's expansion.
    pub rule_words: Vec<u64>,
    /// The rules with bodies longer than [`SAMPLE_SYMBOLS`], ascending.
    pub long_rules: Vec<u32>,
    /// `[long rules + 1]`: where the samples of each long rule lie in
    /// `long_bytes` and `long_words`.
    pub long_offsets: Vec<u32>,
    /// Bytes of a long body before its symbols 0, 16, 32, ...
    pub long_bytes: Vec<u64>,
    /// Words of a long body before its symbols 0, 16, 32, ...
    pub long_words: Vec<u64>,
    /// `[root symbols / 16 + 1]`: bytes of the segment before root symbols 0, 16, 32, ...
    pub root_bytes: Vec<u64>,
    /// `[root symbols / 16 + 1]`: words of the segment before root symbols 0, 16, 32, ...
    pub root_words: Vec<u64>,
    /// `[files + 1]`: bytes of the segment before each file; last, all of them.
    pub file_bytes: Vec<u64>,
    /// `[files + 1]`: words of the segment before each file; last, all of them.
    pub file_words: Vec<u64>,
}

impl Lengths {
    /// Measures all rules, long bodies and roots.
    ///
    /// Work: O(symbols), parallel on the current rayon pool. Memory: 16 bytes a
    /// rule, one byte a root symbol.
    pub fn new(view: GrammarView<'_>, terminal_bytes: &[u32], word_terminals: u32) -> Lengths {
        let terminal_words = |terminal: u32| u64::from(terminal < word_terminals);
        let rule_bytes = expansion_sums(view, |t| u64::from(terminal_bytes[t as usize]));
        let rule_words = expansion_sums(view, terminal_words);
        let bytes = |symbol: u32| match view.rule(symbol) {
            None => u64::from(terminal_bytes[symbol as usize]),
            Some(rule) => rule_bytes[rule as usize],
        };
        let words = |symbol: u32| match view.rule(symbol) {
            None => terminal_words(symbol),
            Some(rule) => rule_words[rule as usize],
        };

        let mut long_rules = Vec::new();
        let mut long_offsets = vec![0u32];
        let mut long_samples = 0u32;
        for rule in 0..view.rules() as u32 {
            let size = view.body_range(rule).len();
            if size > SAMPLE_SYMBOLS {
                long_rules.push(rule);
                // A sixteenth of the body symbols, which a u32 counts.
                long_samples += size.div_ceil(SAMPLE_SYMBOLS) as u32;
                long_offsets.push(long_samples);
            }
        }
        let long_block = |sample: usize| -> &[u32] {
            let long = long_offsets.partition_point(|&start| start as usize <= sample) - 1;
            let block = sample - long_offsets[long] as usize;
            let body = view.body(long_rules[long]);
            &body[block * SAMPLE_SYMBOLS..body.len().min((block + 1) * SAMPLE_SYMBOLS)]
        };
        let mut long_bytes = block_sums(long_samples as usize, &long_block, &bytes);
        let mut long_words = block_sums(long_samples as usize, &long_block, &words);
        for range in long_offsets.windows(2) {
            let range = range[0] as usize..range[1] as usize;
            sums_before(&mut long_bytes[range.clone()]);
            sums_before(&mut long_words[range]);
        }

        let root_samples = view.root.len() / SAMPLE_SYMBOLS + 1;
        let root_block = |sample: usize| -> &[u32] {
            let start = sample * SAMPLE_SYMBOLS;
            &view.root[start..view.root.len().min(start + SAMPLE_SYMBOLS)]
        };
        let mut root_bytes = block_sums(root_samples, &root_block, &bytes);
        let mut root_words = block_sums(root_samples, &root_block, &words);
        sums_before(&mut root_bytes);
        sums_before(&mut root_words);

        let mut lengths = Lengths {
            rule_bytes,
            rule_words,
            long_rules,
            long_offsets,
            long_bytes,
            long_words,
            root_bytes,
            root_words,
            file_bytes: Vec::new(),
            file_words: Vec::new(),
        };
        lengths.file_bytes = (view.root_offsets.iter())
            .map(|&start| lengths.root_byte(view, terminal_bytes, start as usize))
            .collect();
        lengths.file_words = (view.root_offsets.iter())
            .map(|&start| lengths.root_word(view, word_terminals, start as usize))
            .collect();
        lengths
    }

    /// Bytes of the expansion of `symbol`.
    #[inline]
    pub fn symbol_bytes(&self, view: GrammarView<'_>, terminal_bytes: &[u32], symbol: u32) -> u64 {
        match view.rule(symbol) {
            None => u64::from(terminal_bytes[symbol as usize]),
            Some(rule) => self.rule_bytes[rule as usize],
        }
    }

    /// Words of the expansion of `symbol`.
    #[inline]
    pub fn symbol_words(&self, view: GrammarView<'_>, word_terminals: u32, symbol: u32) -> u64 {
        match view.rule(symbol) {
            None => u64::from(symbol < word_terminals),
            Some(rule) => self.rule_words[rule as usize],
        }
    }

    /// Bytes of the segment before the root symbol at `position`, which may be
    /// the end of the root. Work: one sample, at most 15 lengths.
    pub fn root_byte(&self, view: GrammarView<'_>, terminal_bytes: &[u32], position: usize) -> u64 {
        let sample = position / SAMPLE_SYMBOLS;
        (view.root[sample * SAMPLE_SYMBOLS..position].iter())
            .map(|&symbol| self.symbol_bytes(view, terminal_bytes, symbol))
            .fold(self.root_bytes[sample], u64::saturating_add)
    }

    /// Words of the segment before the root symbol at `position`, which may be
    /// the end of the root. Work: one sample, at most 15 lengths.
    pub fn root_word(&self, view: GrammarView<'_>, word_terminals: u32, position: usize) -> u64 {
        let sample = position / SAMPLE_SYMBOLS;
        (view.root[sample * SAMPLE_SYMBOLS..position].iter())
            .map(|&symbol| self.symbol_words(view, word_terminals, symbol))
            .fold(self.root_words[sample], u64::saturating_add)
    }

    /// The samples of `rule` in `long_bytes`, or an empty slice if its body is short.
    fn long_samples(&self, rule: u32) -> &[u64] {
        match self.long_rules.binary_search(&rule) {
            Err(_) => &[],
            Ok(long) => {
                let range = self.long_offsets[long] as usize..self.long_offsets[long + 1] as usize;
                &self.long_bytes[range]
            }
        }
    }

    /// Bytes of the expansion of `rule` before the `index`-th symbol of its body.
    pub fn body_byte(
        &self,
        view: GrammarView<'_>,
        terminal_bytes: &[u32],
        rule: u32,
        index: usize,
    ) -> u64 {
        let body = view.body(rule);
        let (from, before) = if body.len() > SAMPLE_SYMBOLS && index >= SAMPLE_SYMBOLS {
            let sample = index / SAMPLE_SYMBOLS;
            (sample * SAMPLE_SYMBOLS, self.long_samples(rule)[sample])
        } else {
            (0, 0)
        };
        (body[from..index].iter())
            .map(|&symbol| self.symbol_bytes(view, terminal_bytes, symbol))
            .fold(before, u64::saturating_add)
    }

    /// The index of the body symbol whose expansion holds byte `offset` of the
    /// expansion of `rule`, and the byte's offset inside that symbol.
    ///
    /// `offset` must be less than the rule's length.
    /// Work: O(log body), at most 16 lengths.
    #[inline]
    pub fn find_in_body(
        &self,
        view: GrammarView<'_>,
        terminal_bytes: &[u32],
        rule: u32,
        offset: u64,
    ) -> (usize, u64) {
        let body = view.body(rule);
        let (mut index, mut offset) = (0, offset);
        if body.len() > SAMPLE_SYMBOLS {
            let samples = self.long_samples(rule);
            let sample = samples.partition_point(|&before| before <= offset) - 1;
            index = sample * SAMPLE_SYMBOLS;
            offset -= samples[sample];
        }
        loop {
            let bytes = self.symbol_bytes(view, terminal_bytes, body[index]);
            if offset < bytes {
                return (index, offset);
            }
            offset -= bytes;
            index += 1;
        }
    }

    /// The position of the root symbol of `file` whose expansion holds byte
    /// `offset` of the segment, and the byte's offset inside that symbol.
    ///
    /// The byte must lie in `file`. Work: O(log root symbols of the file), at
    /// most 16 lengths.
    #[inline]
    pub fn find_in_root(
        &self,
        view: GrammarView<'_>,
        terminal_bytes: &[u32],
        file: u32,
        offset: u64,
    ) -> (usize, u64) {
        let range = view.root_range(file);
        // Sample `first` is at or before the file's start, all later ones up to
        // `last` lie inside the file.
        let first = range.start / SAMPLE_SYMBOLS;
        let last = range.end / SAMPLE_SYMBOLS;
        let inside = self.root_bytes[first + 1..=last.max(first)]
            .partition_point(|&before| before <= offset);
        let (mut position, mut offset) = if inside == 0 {
            (range.start, offset - self.file_bytes[file as usize])
        } else {
            let sample = first + inside;
            (sample * SAMPLE_SYMBOLS, offset - self.root_bytes[sample])
        };
        loop {
            let bytes = self.symbol_bytes(view, terminal_bytes, view.root[position]);
            if offset < bytes {
                return (position, offset);
            }
            offset -= bytes;
            position += 1;
        }
    }
}

/// For each of `blocks` blocks the sum of `value` over its symbols.
fn block_sums<'a>(
    blocks: usize,
    block: &(impl Fn(usize) -> &'a [u32] + Sync),
    value: &(impl Fn(u32) -> u64 + Sync),
) -> Vec<u64> {
    (0..blocks)
        .into_par_iter()
        .with_min_len(PARALLEL_SYMBOLS_MIN / SAMPLE_SYMBOLS)
        .map(|index| {
            (block(index).iter())
                .map(|&symbol| value(symbol))
                .fold(0, u64::saturating_add)
        })
        .collect()
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
    use crate::test_grammars::{self, TestGrammar, in_pools};

    fn check(grammar: &TestGrammar) {
        let view = grammar.view();
        let (sizes, word_terminals) = (&grammar.terminal_bytes(), grammar.word_terminals);
        let lengths = Lengths::new(view, sizes, word_terminals);
        let bytes_of = |terminals: &[u32]| -> u64 {
            (terminals.iter())
                .map(|&t| u64::from(sizes[t as usize]))
                .sum()
        };
        let words_of =
            |terminals: &[u32]| (terminals.iter()).filter(|&&t| t < word_terminals).count() as u64;
        for rule in 0..view.rules() as u32 {
            let expansion = grammar.expand_symbols(&[view.terminal_count + rule]);
            assert_eq!(lengths.rule_bytes[rule as usize], bytes_of(&expansion));
            assert_eq!(lengths.rule_words[rule as usize], words_of(&expansion));
            let body = view.body(rule);
            let mut before = 0;
            for (index, &symbol) in body.iter().enumerate() {
                let found = lengths.body_byte(view, sizes, rule, index);
                assert_eq!(found, before);
                let bytes = bytes_of(&grammar.expand_symbols(&[symbol]));
                for inside in [0, bytes / 2, bytes.saturating_sub(1)] {
                    if inside < bytes {
                        let found = lengths.find_in_body(view, sizes, rule, before + inside);
                        assert_eq!(found, (index, inside));
                    }
                }
                before += bytes;
            }
        }
        let (mut bytes_before, mut words_before) = (0, 0);
        for file in 0..view.files() as u32 {
            assert_eq!(lengths.file_bytes[file as usize], bytes_before);
            assert_eq!(lengths.file_words[file as usize], words_before);
            for position in view.root_range(file) {
                let expansion = grammar.expand_symbols(&[view.root[position]]);
                assert_eq!(lengths.root_byte(view, sizes, position), bytes_before);
                assert_eq!(
                    lengths.root_word(view, word_terminals, position),
                    words_before
                );
                let bytes = bytes_of(&expansion);
                for inside in [0, bytes / 2, bytes.saturating_sub(1)] {
                    if inside < bytes {
                        let found = lengths.find_in_root(view, sizes, file, bytes_before + inside);
                        assert_eq!(found, (position, inside));
                    }
                }
                bytes_before += bytes;
                words_before += words_of(&expansion);
            }
        }
        assert_eq!(lengths.file_bytes.last(), Some(&bytes_before));
        assert_eq!(lengths.file_words.last(), Some(&words_before));
    }

    #[test]
    fn lengths_and_look_ups_equal_sums_over_the_expansion_on_all_small_grammars() {
        test_grammars::all_small().for_each(|grammar| check(&grammar));
    }

    #[test]
    fn lengths_and_look_ups_equal_sums_over_the_expansion_on_random_grammars() {
        test_grammars::random_many(60).for_each(|grammar| check(&grammar));
        check(&test_grammars::long_body(3_000));
        check(&test_grammars::deep_chain(300));
        check(&test_grammars::runs(9));
    }

    #[test]
    fn lengths_are_the_same_for_1_2_and_16_threads() {
        let grammar = test_grammars::long_body(200_000);
        in_pools(|| {
            Lengths::new(
                grammar.view(),
                &grammar.terminal_bytes(),
                grammar.word_terminals,
            )
        });
    }

    #[test]
    fn lengths_beyond_u64_saturate() {
        let grammar = test_grammars::doubling(70);
        let sums = expansion_sums(grammar.view(), |_| 1);
        assert_eq!(sums[62], 1 << 63);
        assert_eq!(sums[63], u64::MAX);
        assert_eq!(sums[69], u64::MAX);
    }
}
