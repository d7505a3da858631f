//! Roots to words, many at a time.
//!
//! In   a grammar, best one over words; a range of its root
//! Out  the terminals of its expansion, in order
//! Work O(terminals / 8 + root symbols + rules of more than 64 terminals on the way)
//!
//! Rules of up to 64 terminals are kept expanded, one after the other, and a symbol
//! is copied as blocks of eight: one, mostly. Terminals are copied as rules are, so
//! that nothing has to be predicted, and places of a block of symbols are looked up
//! before the first is copied, so that memory answers them together. Longer rules
//! are followed by a stack.

use std::ops::Range;

use rayon::prelude::*;

use crate::grammar_view::AHEAD_SYMBOLS;
use crate::{GrammarView, fold_expansions};

/// Terminals that are copied at once.
const BLOCK: usize = 8;

/// Longer rules are not kept.
const KEPT_MAX: usize = 64;

/// Terminals that are handed out together, at least.
const PIECE: usize = 2048;

/// Rules of one parallel task.
const TASK_RULES: usize = 1 << 12;

/// The expansions of the short rules of a grammar, ready to be copied.
#[derive(Debug, PartialEq, Eq)]
pub struct Expansions {
    /// `[rules + 2]` into `words`. First a place for any terminal; none for long rules.
    offsets: Vec<u32>,
    /// The expansions, one after the other, and a block of zeros.
    words: Vec<u32>,
}

impl Expansions {
    /// Expands all rules of up to 64 terminals, or fewer, so that there are no more of them than the grammar has symbols.
    ///
    /// Work: O(symbols), from below, parallel over the rules of a level. Memory: 4 bytes a rule and at most 4 bytes a
    /// symbol of bodies and root; while it is built 4 bytes a distinct symbol more.
    pub fn new(view: GrammarView<'_>) -> Expansions {
        let lengths = fold_expansions(view, |_| 1u32, 0, u32::saturating_add);
        let lengths = &lengths[view.terminal_count as usize..];
        let mut rules_of = [0usize; KEPT_MAX + 1];
        for &length in lengths {
            if let Some(rules) = rules_of.get_mut(length as usize) {
                *rules += 1;
            }
        }
        let size_max = (view.symbols.len() + view.root.len()).min(u32::MAX as usize / 2);
        let size = |longest: usize| -> usize {
            let rules = rules_of[..=longest].iter().enumerate();
            rules.map(|(length, rules)| length * rules).sum()
        };
        let mut longest = KEPT_MAX;
        while size(longest) > size_max {
            longest /= 2;
        }

        let mut offsets = Vec::with_capacity(lengths.len() + 2);
        offsets.push(0);
        let mut end = 1;
        offsets.push(end);
        offsets.extend(lengths.iter().map(|&length| {
            if length as usize <= longest {
                end += length;
            }
            end
        }));
        let mut words = vec![0; end as usize + BLOCK];
        let mut kept = Expansions {
            offsets,
            words: Vec::new(),
        };
        for level in 0..view.levels() {
            kept.expand_level(view, view.level_rules(level), &mut words);
        }
        kept.words = words;
        kept
    }

    /// Writes the expansions of a level's rules, all lower ones being there.
    fn expand_level(&self, view: GrammarView<'_>, rules: Range<usize>, words: &mut [u32]) {
        let start = |rule: usize| self.offsets[rule + 1] as usize;
        let (lower, mut rest) = words.split_at_mut(start(rules.start));
        let lower = &*lower;
        let write = |(rules, mut target): (Range<usize>, &mut [u32])| {
            for rule in rules {
                if start(rule) == start(rule + 1) {
                    continue;
                }
                // Rules are u32.
                for symbol in view.body(rule as u32) {
                    let expansion = match view.rule(*symbol) {
                        None => std::slice::from_ref(symbol),
                        Some(_) => {
                            let (from, to) = self.range(view, *symbol);
                            &lower[from as usize..to as usize]
                        }
                    };
                    let (front, behind) = target.split_at_mut(expansion.len());
                    front.copy_from_slice(expansion);
                    target = behind;
                }
            }
        };
        let mut tasks = Vec::new();
        for from in rules.clone().step_by(TASK_RULES) {
            let to = rules.end.min(from + TASK_RULES);
            let (target, behind) = rest.split_at_mut(start(to) - start(from));
            tasks.push((from..to, target));
            rest = behind;
        }
        if tasks.len() <= 1 {
            tasks.into_iter().for_each(write);
        } else {
            tasks.into_par_iter().for_each(write);
        }
    }

    /// Where the expansion of `symbol` lies, that of any terminal being the first; empty for a long rule.
    #[inline(always)]
    fn range(&self, view: GrammarView<'_>, symbol: u32) -> (u32, u32) {
        let index = (symbol as usize + 1).saturating_sub(view.terminal_count as usize);
        (self.offsets[index], self.offsets[index + 1])
    }

    /// Size of the arrays.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.offsets[..]) + size_of_val(&self.words[..])
    }
}

/// Expands ranges of a root, one after the other: keep one for each thread.
pub struct Expander<'a> {
    view: GrammarView<'a>,
    kept: &'a Expansions,
    /// Symbols that are still to be expanded, the next ones last.
    stack: Vec<&'a [u32]>,
    /// A piece, the symbols of a block more, and room for a whole block of terminals.
    piece: Vec<u32>,
}

impl<'a> Expander<'a> {
    /// Expands roots of `view`, of which `kept` was made. Takes 16 KiB.
    pub fn new(view: GrammarView<'a>, kept: &'a Expansions) -> Expander<'a> {
        Expander {
            view,
            kept,
            stack: Vec::new(),
            piece: vec![0; PIECE + AHEAD_SYMBOLS * KEPT_MAX + BLOCK],
        }
    }

    /// Appends the terminals of the expansion of `root[positions]` to `target`.
    pub fn expand(&mut self, positions: Range<usize>, target: &mut Vec<u32>) {
        self.for_each_piece(positions, |piece| target.extend_from_slice(piece));
    }

    /// Calls `visit` with the terminals of the expansion of `root[positions]`, some thousand at a time, in order.
    #[inline]
    pub fn for_each_piece(&mut self, positions: Range<usize>, mut visit: impl FnMut(&[u32])) {
        let Expander {
            view,
            kept,
            stack,
            piece,
        } = self;
        let piece = &mut piece[..];
        let mut filled = 0;
        stack.push(&view.root[positions]);
        'frames: while let Some(mut symbols) = stack.pop() {
            while !symbols.is_empty() {
                if filled >= PIECE {
                    visit(&piece[..filled]);
                    filled = 0;
                }
                let (block, rest) = symbols.split_at(symbols.len().min(AHEAD_SYMBOLS));
                let mut ranges = [(0, 0); AHEAD_SYMBOLS];
                for (range, &symbol) in ranges.iter_mut().zip(block) {
                    *range = kept.range(*view, symbol);
                }
                for (index, (&symbol, &(from, to))) in block.iter().zip(&ranges).enumerate() {
                    if from == to {
                        let rule = view.rule(symbol).expect("terminals are kept");
                        stack.push(&symbols[index + 1..]);
                        stack.push(view.body(rule));
                        continue 'frames;
                    }
                    let (from, length) = (from as usize, (to - from) as usize);
                    let target = &mut piece[filled..filled + BLOCK];
                    target.copy_from_slice(&kept.words[from..from + BLOCK]);
                    // Not a branch: half of them would be guessed wrong.
                    let is_terminal = u32::from(from == 0).wrapping_neg();
                    target[0] = symbol & is_terminal | target[0] & !is_terminal;
                    for done in (BLOCK..length).step_by(BLOCK) {
                        let source = &kept.words[from + done..from + done + BLOCK];
                        piece[filled + done..filled + done + BLOCK].copy_from_slice(source);
                    }
                    filled += length;
                }
                symbols = rest;
            }
        }
        if filled > 0 {
            visit(&piece[..filled]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_grammars::{self, TestGrammar, in_pools};

    /// Compares files, and some of their parts, with the expansion by definition.
    fn check(grammar: &TestGrammar) {
        let view = grammar.view();
        let kept = Expansions::new(view);
        assert!(kept.words.len() <= view.symbols.len() + view.root.len() + 1 + BLOCK);
        let mut expander = Expander::new(view, &kept);
        for file in 0..view.files() as u32 {
            let range = view.root_range(file);
            let middle = range.start + range.len() / 3;
            for range in [range.start..middle, middle..range.end, range] {
                let expected = grammar.expand_symbols(&view.root[range.clone()]);
                let mut found = vec![7];
                expander.expand(range.clone(), &mut found);
                assert_eq!((found[0], &found[1..]), (7, &expected[..]), "{grammar:?}");
                let mut pieces = Vec::new();
                expander.for_each_piece(range, |piece| pieces.push(piece.to_vec()));
                assert_eq!(pieces.concat(), expected);
                let long = pieces.iter().find(|piece| piece.len() > 3 * PIECE);
                assert_eq!(long, None);
            }
        }
    }

    #[test]
    fn roots_expand_as_by_definition() {
        test_grammars::all_small().for_each(|grammar| check(&grammar));
        test_grammars::random_many(200).for_each(|grammar| check(&grammar));
        check(&test_grammars::deep_chain(2_000));
        check(&test_grammars::long_body(20_000));
        check(&test_grammars::runs(16));
        check(&test_grammars::fibonacci(20));
        check(&test_grammars::thue_morse(12));
        check(&test_grammars::many_files(30));
        check(&test_grammars::repeated_text(3));
    }

    #[test]
    fn rules_that_no_file_could_hold_are_not_expanded() {
        check(&test_grammars::doubling(200));
    }

    #[test]
    fn expansions_are_the_same_for_1_2_and_16_threads() {
        for grammar in [
            test_grammars::repeated_text(30),
            test_grammars::deep_chain(100),
        ] {
            in_pools(|| Expansions::new(grammar.view()));
        }
    }
}
