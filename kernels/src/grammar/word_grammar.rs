//! The same texts as a grammar over words: what the tasks on words run on.
//!
//! In   a grammar over tokens; for each terminal its word, or [`GAP`]
//! Out  a grammar whose terminals are words, with gap tokens dropped and all tokens of a word one terminal;
//!      how often each symbol occurs in the files
//! Work O(symbols): one pass over the bodies of each level, one over the root
//!
//! The result obeys the invariant of [`GrammarView`], and no body has fewer
//! than two symbols: a rule left with none vanishes, one left with one symbol
//! is replaced by it. Within a level the rules that occur most come first, so
//! that what is known of them shares cache lines. Equal bodies that come of
//! tokens of one word stay apart: they have 0.9 to 2.7 % of the symbols. It knows no text: a word is a number.

use std::cmp::Reverse;

use rayon::prelude::*;

use crate::GrammarView;
use crate::grammar::weights::symbol_weights;
use crate::memory::huge_pages::on_huge_pages;
use crate::numbers::offsets::{offsets_of, split_mut};

/// In place of a word: the terminal is a gap token.
pub const GAP: u32 = u32::MAX;

/// A symbol without words.
const EMPTY: u32 = u32::MAX;

/// Rules or body symbols that a thread takes at least.
const SHARE_MIN: usize = 1 << 12;

/// Root symbols that are counted together.
const ROOT_PART: usize = 1 << 10;

/// Root symbols that are reduced together where they lie.
const PLACED_PART: usize = 1 << 16;

/// A grammar over words, with its arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordGrammar {
    word_count: u32,
    rule_offsets: Vec<u32>,
    symbols: Vec<u32>,
    level_offsets: Vec<u32>,
    root_offsets: Vec<u32>,
    root: Vec<u32>,
    weights: Vec<u32>,
}

impl WordGrammar {
    /// Drops the gaps of `view` and names words. `word_of` is `[terminal_count]`:
    /// a number below `word_count`, or [`GAP`].
    ///
    /// Parallel on the current rayon pool. While it runs it takes 16 bytes a
    /// symbol of `view` in addition to the result.
    ///
    /// # Panics
    ///
    /// When `word_of` has another length than there are terminals, or there are
    /// more words than terminals.
    pub fn new(view: GrammarView<'_>, word_of: &[u32], word_count: u32) -> WordGrammar {
        let (mut grammar, names) = WordGrammar::of_rules(view, word_of, word_count);
        (grammar.root_offsets, grammar.root) = reduce_root(view, &names);
        grammar
    }

    /// As [`WordGrammar::new`] of rules and a root that becomes the root over words, where it lies: so there are never two
    /// of them. The root of `rules` is not looked at.
    pub fn taking_root(
        rules: GrammarView<'_>,
        mut root: Vec<u32>,
        word_of: &[u32],
        word_count: u32,
    ) -> WordGrammar {
        let view = GrammarView {
            root: &root,
            ..rules
        };
        let (mut grammar, names) = WordGrammar::of_rules(view, word_of, word_count);
        grammar.root_offsets = reduced_root_offsets(view, &part_offsets(view, &names), &names);
        reduce_in_place(&mut root, &names);
        grammar.root = root;
        grammar
    }

    /// The grammar without its root, and the name of each symbol of `view` in it.
    fn of_rules(
        view: GrammarView<'_>,
        word_of: &[u32],
        word_count: u32,
    ) -> (WordGrammar, Vec<u32>) {
        assert_eq!(word_of.len(), view.terminal_count as usize);
        assert!(word_count <= view.terminal_count);
        let Reduced {
            mut names,
            sizes,
            levels,
        } = Reduced::new(view, word_of, word_count);

        // A rule occurs as often as before, a word as often as its terminals together.
        let old_weights = symbol_weights(view);
        let mut weights = vec![0; word_count as usize];
        for (&word, weight) in word_of.iter().zip(&old_weights) {
            if word != GAP {
                weights[word as usize] += weight;
            }
        }
        let rule_weights = &old_weights[word_of.len()..];

        // Rules that stay: by level, then by weight.
        let mut order: Vec<u32> = (0..view.rules() as u32).collect();
        order.retain(|&rule| levels[rule as usize] > 0);
        order.par_sort_unstable_by_key(|&rule| {
            let weight = rule_weights[rule as usize];
            (levels[rule as usize], Reverse(weight), rule)
        });
        let level_count = levels.iter().copied().max().unwrap_or(0);
        let ends = (1..=level_count).map(|level| {
            // Rules are u32.
            order.partition_point(|&rule| levels[rule as usize] <= level) as u32
        });
        let level_offsets: Vec<u32> = std::iter::once(0).chain(ends).collect();
        let rule_count = order.len();
        // By old rule.
        let mut numbers = vec![0u32; levels.len()];
        for (number, &rule) in (0..).zip(&order) {
            numbers[rule as usize] = number;
        }
        weights.extend(order.iter().map(|&rule| rule_weights[rule as usize]));
        drop(old_weights);
        drop(levels);
        (names.par_iter_mut().with_min_len(SHARE_MIN)).for_each(|name| {
            if *name != EMPTY && *name >= word_count {
                *name = word_count + numbers[(*name - word_count) as usize];
            }
        });
        drop(numbers);

        let mut rule_offsets = Vec::with_capacity(rule_count + 1);
        let mut end = 0;
        rule_offsets.push(0);
        for &rule in &order {
            end += sizes[rule as usize];
            rule_offsets.push(end);
        }
        drop(sizes);
        let mut symbols = on_huge_pages(vec![0; end as usize]);
        let cuts: Vec<usize> = (rule_offsets.iter().step_by(SHARE_MIN))
            .chain((!rule_count.is_multiple_of(SHARE_MIN)).then_some(&end))
            .map(|&offset| offset as usize)
            .collect();
        (split_mut(&mut symbols, &cuts).into_par_iter())
            .zip(order.par_chunks(SHARE_MIN))
            .for_each(|(target, rules)| {
                let bodies = rules.iter().flat_map(|&rule| view.body(rule));
                fill(target, bodies, &names);
            });
        drop(order);

        let grammar = WordGrammar {
            word_count,
            rule_offsets,
            symbols,
            level_offsets,
            root_offsets: Vec::new(),
            root: Vec::new(),
            weights,
        };
        (grammar, names)
    }

    /// The grammar; its terminals are the words.
    pub fn view(&self) -> GrammarView<'_> {
        GrammarView {
            terminal_count: self.word_count,
            rule_offsets: &self.rule_offsets,
            symbols: &self.symbols,
            level_offsets: &self.level_offsets,
            root_offsets: &self.root_offsets,
            root: &self.root,
        }
    }

    /// `[symbols]`: how often each symbol occurs in the files, words first.
    pub fn weights(&self) -> &[u32] {
        &self.weights
    }

    /// Size of the arrays.
    pub fn bytes(&self) -> usize {
        let arrays = [
            &self.rule_offsets,
            &self.symbols,
            &self.level_offsets,
            &self.root_offsets,
            &self.root,
            &self.weights,
        ];
        arrays
            .iter()
            .map(|array| array.len() * size_of::<u32>())
            .sum()
    }
}

/// What is left of each symbol without gaps.
struct Reduced {
    /// By old symbol: a word, `word_count` and the old number of a rule that
    /// stays, or [`EMPTY`].
    names: Vec<u32>,
    /// By old rule: symbols that are left in its body.
    sizes: Vec<u32>,
    /// By old rule: its new level from 1, or 0 if it goes.
    levels: Vec<u32>,
}

impl Reduced {
    fn new(view: GrammarView<'_>, word_of: &[u32], word_count: u32) -> Reduced {
        let terminals = word_of.len();
        let mut names = Vec::with_capacity(view.symbol_count());
        names.extend_from_slice(word_of);
        names.resize(view.symbol_count(), EMPTY);
        let mut sizes = vec![0; view.rules()];
        let mut levels = vec![0; view.rules()];
        for level in 0..view.levels() {
            let rules = view.level_rules(level);
            let (done, open) = names.split_at_mut(terminals + rules.start);
            let (done_levels, open_levels) = levels.split_at_mut(rules.start);
            (open.par_iter_mut().zip(&mut open_levels[..rules.len()]))
                .zip(&mut sizes[rules.clone()])
                .zip(rules.start as u32..rules.end as u32)
                .with_min_len(SHARE_MIN)
                .for_each(|(((name, level), size), rule)| {
                    let mut highest = 0;
                    for &symbol in view.body(rule) {
                        let symbol = done[symbol as usize];
                        if symbol == EMPTY {
                            continue;
                        }
                        *name = symbol;
                        *size += 1;
                        if symbol >= word_count {
                            highest = highest.max(done_levels[(symbol - word_count) as usize]);
                        }
                    }
                    if *size > 1 {
                        *name = word_count + rule;
                        *level = highest + 1;
                    }
                });
        }
        Reduced {
            names,
            sizes,
            levels,
        }
    }
}

/// Writes the names of `symbols` that have one, until `target` is full.
fn fill<'a>(target: &mut [u32], symbols: impl Iterator<Item = &'a u32>, names: &[u32]) {
    let mut filled = 0;
    for &symbol in symbols {
        let name = names[symbol as usize];
        if name != EMPTY {
            target[filled] = name;
            filled += 1;
        }
    }
}

/// How many symbols have a name.
fn named(symbols: &[u32], names: &[u32]) -> usize {
    let names = symbols.iter().map(|&symbol| names[symbol as usize]);
    names.filter(|&name| name != EMPTY).count()
}

/// Where the symbols of each part of the root begin among those with names.
fn part_offsets(view: GrammarView<'_>, names: &[u32]) -> Vec<usize> {
    let parts = view.root.par_chunks(ROOT_PART).with_min_len(4);
    let sizes: Vec<usize> = parts.map(|part| named(part, names)).collect();
    offsets_of(sizes)
}

/// The offsets of files among symbols with names; `offsets` are those of parts.
fn reduced_root_offsets(view: GrammarView<'_>, offsets: &[usize], names: &[u32]) -> Vec<u32> {
    let reduced = view.root_offsets.par_iter().map(|&start| {
        let start = start as usize;
        let part = start / ROOT_PART;
        // The new root is no longer than the old one.
        (offsets[part] + named(&view.root[part * ROOT_PART..start], names)) as u32
    });
    reduced.collect()
}

fn reduce_root(view: GrammarView<'_>, names: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let offsets = part_offsets(view, names);
    let mut root = on_huge_pages(vec![0; offsets[offsets.len() - 1]]);
    let parts = view.root.par_chunks(ROOT_PART);
    (split_mut(&mut root, &offsets).into_par_iter().zip(parts))
        .with_min_len(4)
        .for_each(|(target, symbols)| fill(target, symbols.iter(), names));
    (reduced_root_offsets(view, &offsets, names), root)
}

/// Gives symbols their names and drops those without: first in each part, then parts move together.
fn reduce_in_place(root: &mut Vec<u32>, names: &[u32]) {
    let reduce = |part: &mut [u32]| {
        let (mut kept, mut at) = (0, 0);
        while at < part.len() {
            let name = names[part[at] as usize];
            // Not a branch: which symbols are gaps is hard to predict.
            part[kept] = name;
            kept += usize::from(name != EMPTY);
            at += 1;
        }
        kept
    };
    let parts = root.par_chunks_mut(PLACED_PART);
    let sizes: Vec<usize> = parts.map(reduce).collect();
    let mut end = 0;
    for (start, size) in (0..).step_by(PLACED_PART).zip(sizes) {
        root.copy_within(start..start + size, end);
        end += size;
    }
    root.truncate(end);
    root.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::test_grammars::{self, TestGrammar, in_pools};
    use crate::weights;

    fn check(grammar: &TestGrammar) {
        let (word_of, word_count) = grammar.word_of();
        let words = WordGrammar::new(grammar.view(), &word_of, word_count);
        let view = words.view();
        let rules = GrammarView {
            root: &[],
            ..grammar.view()
        };
        let root = grammar.view().root.to_vec();
        assert_eq!(
            WordGrammar::taking_root(rules, root, &word_of, word_count),
            words
        );
        for file in 0..grammar.view().files() as u32 {
            let mut found = Vec::new();
            view.for_each_terminal(view.root_range(file), |word| found.push(word));
            assert_eq!(found, grammar.file_words(file), "{grammar:?}");
        }
        assert_eq!(view.files(), grammar.view().files());
        assert_eq!(view.level_offsets[view.levels()] as usize, view.rules());
        for rule in 0..view.rules() as u32 {
            assert!(view.body(rule).len() > 1);
            let heights = view.body(rule).iter();
            let heights = heights.map(|&s| view.rule(s).map_or(0, |r| 1 + view.level_index(r)));
            assert_eq!(heights.max(), Some(view.level_index(rule)));
        }
        let weights = weights(view, 0..view.root.len(), u64::MAX);
        assert!(words.weights().iter().map(|&n| u64::from(n)).eq(weights));
    }

    #[test]
    fn files_expand_to_their_words_and_levels_are_tight() {
        test_grammars::all_small().for_each(|grammar| check(&grammar));
        test_grammars::random_many(200).for_each(|grammar| check(&grammar));
        check(&test_grammars::deep_chain(2_000));
        check(&test_grammars::long_body(20_000));
        check(&test_grammars::runs(9));
        check(&test_grammars::repeated_text(5));
    }

    #[test]
    fn words_are_the_same_for_1_2_and_16_threads() {
        let grammar = test_grammars::repeated_text(30);
        let (word_of, word_count) = grammar.word_of();
        in_pools(|| WordGrammar::new(grammar.view(), &word_of, word_count));
    }

    #[test]
    fn a_corpus_of_gaps_has_files_without_words() {
        let grammar = test_grammars::long_body(100);
        let word_of = vec![GAP; grammar.tokens.len()];
        let words = WordGrammar::new(grammar.view(), &word_of, 0);
        assert_eq!(words.view().rules() + words.view().root.len(), 0);
        assert_eq!(words.view().root_offsets, [0, 0, 0]);
    }
}
