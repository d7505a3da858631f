//! A borrowed grammar: what every query kernel reads.
//!
//! The invariant all kernels lean on, checked by the owner of the arrays:
//! offsets are monotone, symbols are in range, and a body uses only terminals
//! and rules of lower levels. Rules are numbered level by level, so ascending
//! rule numbers visit every rule after all rules of its body.
//!
//! It neither checks nor owns anything, and holds no token text.

use std::ops::Range;

/// Symbols looked up ahead: more than memory answers at once.
pub(crate) const AHEAD_SYMBOLS: usize = 32;

/// A grammar as plain slices, cheap to copy.
///
/// A symbol below `terminal_count` is a terminal, any other symbol `s` is rule
/// `s - terminal_count`. The text of a file is the expansion of its root.
#[derive(Clone, Copy, Debug)]
pub struct GrammarView<'a> {
    /// Number of terminals.
    pub terminal_count: u32,
    /// `[rules + 1]`: the body of rule `r` is
    /// `symbols[rule_offsets[r]..rule_offsets[r + 1]]`.
    pub rule_offsets: &'a [u32],
    /// All bodies, one after the other.
    pub symbols: &'a [u32],
    /// `[levels + 1]`: level `k`, counted from 1, is the rules
    /// `level_offsets[k - 1]..level_offsets[k]`.
    pub level_offsets: &'a [u32],
    /// `[files + 1]`: the root of file `f` is
    /// `root[root_offsets[f]..root_offsets[f + 1]]`.
    pub root_offsets: &'a [u32],
    /// The roots of all files, one after the other.
    pub root: &'a [u32],
}

impl<'a> GrammarView<'a> {
    /// Number of rules.
    pub fn rules(&self) -> usize {
        self.rule_offsets.len().saturating_sub(1)
    }

    /// Number of levels; 0 if there are no rules.
    pub fn levels(&self) -> usize {
        self.level_offsets.len().saturating_sub(1)
    }

    /// Number of files.
    pub fn files(&self) -> usize {
        self.root_offsets.len().saturating_sub(1)
    }

    /// Number of distinct symbols: terminals and rules.
    pub fn symbol_count(&self) -> usize {
        self.terminal_count as usize + self.rules()
    }

    /// The rule that `symbol` names, or `None` for a terminal.
    #[inline]
    pub fn rule(&self, symbol: u32) -> Option<u32> {
        symbol.checked_sub(self.terminal_count)
    }

    /// Where the body of `rule` lies in `symbols`.
    #[inline]
    pub fn body_range(&self, rule: u32) -> Range<usize> {
        let rule = rule as usize;
        self.rule_offsets[rule] as usize..self.rule_offsets[rule + 1] as usize
    }

    /// The body of `rule`.
    #[inline]
    pub fn body(&self, rule: u32) -> &'a [u32] {
        &self.symbols[self.body_range(rule)]
    }

    /// Where the root of `file` lies in `root`.
    #[inline]
    pub fn root_range(&self, file: u32) -> Range<usize> {
        let file = file as usize;
        self.root_offsets[file] as usize..self.root_offsets[file + 1] as usize
    }

    /// The root of `file`.
    pub fn file_root(&self, file: u32) -> &'a [u32] {
        &self.root[self.root_range(file)]
    }

    /// The rules of the `index`-th level from below, counted from 0.
    pub fn level_rules(&self, index: usize) -> Range<usize> {
        self.level_offsets[index] as usize..self.level_offsets[index + 1] as usize
    }

    /// The index, counted from 0, of the level that holds `rule`; O(log levels).
    #[inline]
    pub fn level_index(&self, rule: u32) -> usize {
        // Every rule lies in a level, so at least the first offset is <= rule.
        self.level_offsets.partition_point(|&start| start <= rule) - 1
    }

    /// Calls `visit` with every terminal of the expansion of `root[positions]`,
    /// in order.
    ///
    /// Work: O(terminals visited + bodies entered).
    #[inline]
    pub fn for_each_terminal(&self, positions: Range<usize>, mut visit: impl FnMut(u32)) {
        self.traverse(
            positions,
            |_| true,
            |_| 0,
            |_| 0,
            |_, terminal| visit(terminal),
        );
    }

    /// Calls `visit` with terminals of the expansion of `root[positions]`, in
    /// order, and where each begins; passes over every symbol, rule or terminal,
    /// for which `enter` is false.
    ///
    /// `start` says where the root symbol at a position begins, and is asked
    /// about ascending positions that are entered; `length` is the length of a
    /// symbol.
    ///
    /// One explicit stack, at most as deep as the grammar; a frame is dropped
    /// when its last symbol is entered, so chains at body ends need no stack.
    /// Memory answers slowly but many questions at a time: bodies of a block of
    /// root symbols are looked up together before the first is entered.
    #[inline]
    pub(crate) fn traverse(
        &self,
        positions: Range<usize>,
        enter: impl Fn(u32) -> bool,
        mut start: impl FnMut(usize) -> u64,
        length: impl Fn(u32) -> u64,
        mut visit: impl FnMut(u64, u32),
    ) {
        let mut stack: Vec<(u32, u32, u64)> = Vec::new();
        let mut entered = [(0u32, 0u32); AHEAD_SYMBOLS];
        let mut bodies = [(0u32, 0u32); AHEAD_SYMBOLS];
        let first = positions.start;
        for (block, symbols) in self.root[positions].chunks(AHEAD_SYMBOLS).enumerate() {
            let mut count = 0;
            for (index, &symbol) in (0..).zip(symbols) {
                entered[count] = (index, symbol);
                count += usize::from(enter(symbol));
            }
            let entered = &entered[..count];
            let bodies = &mut bodies[..count];
            self.look_ahead(entered.iter().map(|&(_, symbol)| symbol), bodies);
            for (&(index, symbol), &(cursor, end)) in entered.iter().zip(&*bodies) {
                let mut at = start(first + block * AHEAD_SYMBOLS + index as usize);
                if symbol < self.terminal_count {
                    visit(at, symbol);
                    continue;
                }
                let (mut cursor, mut end) = (cursor, end);
                loop {
                    if cursor == end {
                        match stack.pop() {
                            Some(frame) => (cursor, end, at) = frame,
                            None => break,
                        }
                        continue;
                    }
                    let symbol = self.symbols[cursor as usize];
                    cursor += 1;
                    let next = at + length(symbol);
                    if enter(symbol) {
                        if let Some(rule) = self.rule(symbol) {
                            if cursor < end {
                                stack.push((cursor, end, next));
                            }
                            cursor = self.rule_offsets[rule as usize];
                            end = self.rule_offsets[rule as usize + 1];
                            continue;
                        }
                        visit(at, symbol);
                    }
                    at = next;
                }
            }
        }
    }

    /// Where the bodies of some symbols lie, (0, 0) for terminals, with their
    /// first symbols on the way into the cache.
    #[inline]
    pub(crate) fn look_ahead(&self, symbols: impl Iterator<Item = u32>, bodies: &mut [(u32, u32)]) {
        for (body, symbol) in bodies.iter_mut().zip(symbols) {
            *body = match self.rule(symbol) {
                None => (0, 0),
                Some(rule) => (
                    self.rule_offsets[rule as usize],
                    self.rule_offsets[rule as usize + 1],
                ),
            };
        }
        let touched = bodies.iter().fold(0, |touched, &(start, _)| {
            touched ^ self.symbols.get(start as usize).unwrap_or(&0)
        });
        // Reading is all: the value does not matter.
        std::hint::black_box(touched);
    }
}

#[cfg(test)]
mod tests {
    use crate::grammar::test_grammars;

    #[test]
    fn every_file_of_every_small_grammar_expands_as_by_definition() {
        for grammar in test_grammars::all_small() {
            let view = grammar.view();
            for file in 0..view.files() as u32 {
                let mut terminals = Vec::new();
                view.for_each_terminal(view.root_range(file), |t| terminals.push(t));
                assert_eq!(terminals, grammar.expand(file), "{grammar:?}");
            }
        }
    }

    #[test]
    fn every_rule_lies_in_the_level_that_level_index_names() {
        for grammar in test_grammars::random_many(20) {
            let view = grammar.view();
            for rule in 0..view.rules() as u32 {
                let level = view.level_index(rule);
                assert!(view.level_rules(level).contains(&(rule as usize)));
                for &symbol in view.body(rule) {
                    let below = view.rule(symbol).map(|r| view.level_index(r));
                    assert!(below.is_none_or(|below| below < level));
                }
            }
        }
    }
}
