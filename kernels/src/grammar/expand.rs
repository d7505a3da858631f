//! Roots to words, many at a time.
//!
//! In   a grammar, best one over words; a range of its root
//! Out  the terminals of its expansion, in order
//! Work O(terminals / 8 + root symbols + rules of more than 64 terminals on the way)
//!
//! The time goes into waiting for memory, not into copying. So the expansion of a
//! rule of up to three terminals lies in one slot of a quarter of a cache line, with its
//! length, and the slots of many root symbols are looked up before the first is
//! copied. A slot is copied whole, and terminals are copied as rules are, so that
//! nothing has to be predicted. Rules of up to 64 terminals are copied from
//! elsewhere, longer ones are followed by a stack.

use std::ops::Range;

use rayon::prelude::*;

use crate::memory::huge_pages::on_huge_pages;
use crate::{GrammarView, fold_expansions};

/// Words of a slot.
const SLOT: usize = 4;

/// Words that are copied at once from elsewhere.
const BLOCK: usize = 8;

/// Terminals that fit into a slot beside their number.
const SLOT_MAX: usize = SLOT - 1;

/// Longest expansion of a rule that is kept.
const KEPT_MAX: usize = 64;

/// Terminals that are handed out together, about.
const PIECE: usize = 2048;

/// Symbols that are looked up together, which overlaps the latency of memory.
const LOOKED_UP: usize = 128;

/// Rules of one parallel task.
const TASK_RULES: usize = 1 << 12;

/// Up to three terminals of a rule, or where they lie in `words`; then their number, or 0 for a rule that is not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(16))]
struct Slot([u32; SLOT]);

impl Slot {
    #[inline(always)]
    fn length(self) -> usize {
        self.0[SLOT_MAX] as usize
    }
}

/// The expansions of the short rules of a grammar, ready to be copied.
#[derive(Debug, PartialEq, Eq)]
pub struct Expansions {
    /// `[rules + 1]`: first one for any terminal.
    slots: Vec<Slot>,
    /// Expansions that fit into no slot, one after the other, and a block of zeros.
    words: Vec<u32>,
}

impl Expansions {
    /// Expands all rules of up to 64 terminals, or less, so that what fits into no slot is no larger than the grammar.
    ///
    /// Work: O(symbols), from below, parallel over the rules of a level. Memory: 16 bytes a rule and at most 4 bytes a
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
            let rules = (0..=longest).zip(&rules_of).skip(SLOT_MAX + 1);
            rules.map(|(length, rules)| length * rules).sum()
        };
        let mut longest = KEPT_MAX;
        while size(longest) > size_max {
            longest /= 2;
        }
        let mut any = Slot::default();
        any.0[SLOT_MAX] = 1;
        let mut kept = Expansions {
            slots: on_huge_pages(vec![any; view.rules() + 1]),
            words: on_huge_pages(vec![0; size(longest) + BLOCK]),
        };
        let mut done = 0;
        for level in 0..view.levels() {
            let rules = view.level_rules(level);
            done += kept.expand_level(view, rules.clone(), &lengths[rules], longest, done);
        }
        kept
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.slots[..]) + size_of_val(&self.words[..])
    }

    /// Bytes that the expansions of a grammar take, at most.
    pub fn bytes_max(view: GrammarView<'_>) -> usize {
        let symbols = view.symbols.len() + view.root.len();
        (view.rules() + 1) * size_of::<Slot>() + (symbols + BLOCK) * size_of::<u32>()
    }

    /// Takes the next terminals of what is left of a root: `count` or up to 64 more, or all if there are fewer.
    ///
    /// `stack` says what is left, outermost first, as places `[start, end)`: of the root in its first entry, which may be
    /// empty, and of bodies in the others.
    pub fn take(
        &self,
        view: GrammarView<'_>,
        stack: &mut Vec<(u32, u32)>,
        count: usize,
        terminals: &mut Vec<u32>,
    ) {
        terminals.resize(count + KEPT_MAX + BLOCK, 0);
        let (mut filled, mut looked_up) = (0, 0);
        while filled < count
            && let Some((start, end)) = stack.pop()
        {
            let is_root = stack.is_empty();
            let mut block_end = end;
            if is_root {
                // What is left of a block after a body was looked up before it.
                if start >= looked_up {
                    looked_up = end.min(start.saturating_add(LOOKED_UP as u32));
                    self.look_up(view, &view.root[start as usize..looked_up as usize]);
                }
                block_end = end.min(looked_up);
            }
            let symbols = if is_root { view.root } else { view.symbols };
            let block = &symbols[start as usize..block_end as usize];
            let (mut next, mut body) = (start, None);
            for &symbol in block {
                if filled >= count {
                    break;
                }
                next += 1;
                let length = self.copy(view, symbol, &mut terminals[filled..]);
                filled += length;
                if length == 0 {
                    let rule = view.rule(symbol).expect("terminals are kept");
                    body = Some(view.body_range(rule));
                    break;
                }
            }
            // What is left of the root stays below bodies even if it is nothing.
            if next < end || is_root && body.is_some() {
                stack.push((next, end));
            }
            // Offsets into bodies are u32.
            stack.extend(body.map(|body| (body.start as u32, body.end as u32)));
        }
        terminals.truncate(filled);
    }

    /// Writes the expansions of a level's rules, all lower ones being there and taking `done` words; says how many words
    /// these take.
    fn expand_level(
        &mut self,
        view: GrammarView<'_>,
        rules: Range<usize>,
        lengths: &[u32],
        longest: usize,
        done: usize,
    ) -> usize {
        let (slots, level_slots) = self.slots.split_at_mut(rules.start + 1);
        let (words, mut rest) = self.words.split_at_mut(done);
        let lower = Lower { view, slots, words };
        let write = |task: Task<'_>| task.write(lower, longest);
        let mut taken = 0;
        let mut tasks = Vec::new();
        let parts = lengths
            .chunks(TASK_RULES)
            .zip(level_slots.chunks_mut(TASK_RULES));
        for (index, (lengths, slots)) in parts.enumerate() {
            let sizes = lengths.iter().map(|&length| length as usize);
            let size = sizes
                .filter(|size| (SLOT_MAX + 1..=longest).contains(size))
                .sum();
            let (words, behind) = std::mem::take(&mut rest).split_at_mut(size);
            tasks.push(Task {
                first: rules.start + index * TASK_RULES,
                lengths,
                slots,
                start: done + taken,
                words,
            });
            taken += size;
            rest = behind;
        }
        if tasks.len() <= 1 {
            tasks.into_iter().for_each(write);
        } else {
            tasks.into_par_iter().for_each(write);
        }
        taken
    }

    /// Writes the expansion of `symbol`, if it is kept, and perhaps some words more; says how many terminals it has.
    #[inline(always)]
    fn copy(&self, view: GrammarView<'_>, symbol: u32, target: &mut [u32]) -> usize {
        copy(
            symbol,
            &self.slots[slot_of(view, symbol)],
            &self.words,
            target,
        )
    }

    /// Brings what at most [`LOOKED_UP`] symbols need into the cache. The processor waits for many loads together if
    /// little else lies between them, so terminals and then short rules are sorted out before.
    #[inline(always)]
    fn look_up(&self, view: GrammarView<'_>, symbols: &[u32]) {
        let (mut slots, mut starts) = ([0; LOOKED_UP], [0; LOOKED_UP]);
        let (mut rules, mut long, mut touched) = (0, 0, 0);
        for &symbol in symbols {
            let slot = slot_of(view, symbol);
            slots[rules % LOOKED_UP] = slot;
            rules += usize::from(slot > 0);
        }
        for &slot in &slots[..rules] {
            touched ^= self.slots[slot].0[SLOT_MAX];
        }
        for &slot in &slots[..rules] {
            let slot = &self.slots[slot];
            starts[long % LOOKED_UP] = slot.0[0] as usize;
            long += usize::from(slot.length() > SLOT_MAX);
        }
        for &start in &starts[..long] {
            touched ^= self.words[start];
        }
        // Reading is all: the values do not matter.
        std::hint::black_box(touched);
    }
}

/// The number of the slot of `symbol`; 0 for any terminal.
#[inline(always)]
fn slot_of(view: GrammarView<'_>, symbol: u32) -> usize {
    (symbol as usize + 1).saturating_sub(view.terminal_count as usize)
}

#[inline(always)]
fn copy(symbol: u32, slot: &Slot, words: &[u32], target: &mut [u32]) -> usize {
    let length = slot.length();
    copy_block::<SLOT>(&slot.0, target);
    // Not a branch: half of them would be guessed wrong.
    let is_rule = u32::from(length > 1).wrapping_neg();
    target[0] = slot.0[0] & is_rule | symbol & !is_rule;
    if length > SLOT_MAX {
        let source = &words[slot.0[0] as usize..];
        for done in (0..length).step_by(BLOCK) {
            copy_block::<BLOCK>(&source[done..], &mut target[done..]);
        }
    }
    length
}

/// Copies SIZE words, a length known at compile time; fewer where one slice is
/// shorter.
#[inline(always)]
fn copy_block<const SIZE: usize>(source: &[u32], target: &mut [u32]) {
    match (
        source.first_chunk::<SIZE>(),
        target.first_chunk_mut::<SIZE>(),
    ) {
        (Some(source), Some(target)) => *target = *source,
        _ => target
            .iter_mut()
            .zip(source)
            .take(SIZE)
            .for_each(|(target, &word)| *target = word),
    }
}

/// What the rules of lower levels have become.
#[derive(Clone, Copy)]
struct Lower<'a> {
    view: GrammarView<'a>,
    slots: &'a [Slot],
    words: &'a [u32],
}

/// Some rules of a level.
struct Task<'a> {
    first: usize,
    lengths: &'a [u32],
    slots: &'a mut [Slot],
    /// Where `words` lie in the words of all rules.
    start: usize,
    words: &'a mut [u32],
}

impl Task<'_> {
    fn write(self, lower: Lower<'_>, longest: usize) {
        let mut expansion = [0; KEPT_MAX + BLOCK];
        let mut written = 0;
        for ((rule, slot), &length) in (self.first..).zip(self.slots).zip(self.lengths) {
            let length = length as usize;
            slot.0[SLOT_MAX] = 0;
            // An expansion of one terminal would be mistaken for a terminal.
            if length > longest || length < 2 {
                continue;
            }
            let mut at = 0;
            // Rules are u32.
            for &symbol in lower.view.body(rule as u32) {
                let slot = &lower.slots[slot_of(lower.view, symbol)];
                at += copy(symbol, slot, lower.words, &mut expansion[at..]);
            }
            // Rules of fewer than two terminals are not kept, and what uses them neither.
            if at < length {
                continue;
            }
            if length <= SLOT_MAX {
                copy_block::<SLOT>(&expansion, &mut slot.0);
            } else {
                // All words together are fewer than a u32 counts.
                slot.0[0] = (self.start + written) as u32;
                self.words[written..written + length].copy_from_slice(&expansion[..length]);
                written += length;
            }
            slot.0[SLOT_MAX] = length as u32;
        }
    }
}

/// Expands ranges of a root, one after the other: keep one for each thread.
pub struct Expander<'a> {
    view: GrammarView<'a>,
    kept: &'a Expansions,
    stack: Vec<(u32, u32)>,
    piece: Vec<u32>,
}

impl<'a> Expander<'a> {
    /// Expands roots of `view`, of which `kept` was made. Takes 8 KiB.
    pub fn new(view: GrammarView<'a>, kept: &'a Expansions) -> Expander<'a> {
        Expander {
            view,
            kept,
            stack: Vec::new(),
            piece: Vec::new(),
        }
    }

    /// Calls `visit` with the terminals of the expansion of `root[positions]`, some thousand at a time, in order.
    #[inline]
    pub fn for_each_piece(&mut self, positions: Range<usize>, mut visit: impl FnMut(&[u32])) {
        self.stack.clear();
        // Offsets into the root are u32.
        (self.stack).push((positions.start as u32, positions.end as u32));
        loop {
            (self.kept).take(self.view, &mut self.stack, PIECE, &mut self.piece);
            if self.piece.is_empty() {
                break;
            }
            visit(&self.piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::test_grammars::{self, TestGrammar, in_pools};

    /// Compares files, and some of their parts, with the expansion by definition.
    fn check(grammar: &TestGrammar) {
        let view = grammar.view();
        let kept = Expansions::new(view);
        assert!(kept.words.len() <= view.symbols.len() + view.root.len() + BLOCK);
        let mut expander = Expander::new(view, &kept);
        for file in 0..view.files() as u32 {
            let range = view.root_range(file);
            let middle = range.start + range.len() / 3;
            for range in [range.start..middle, middle..range.end, range] {
                let expected = grammar.expand_symbols(&view.root[range.clone()]);
                let mut found = vec![7];
                expander.for_each_piece(range.clone(), |piece| found.extend_from_slice(piece));
                assert_eq!((found[0], &found[1..]), (7, &expected[..]), "{grammar:?}");
                let mut pieces = Vec::new();
                expander.for_each_piece(range.clone(), |piece| pieces.push(piece.to_vec()));
                assert_eq!(pieces.concat(), expected);
                for count in [1, 5, 300] {
                    // Places in roots are u32.
                    let mut stack = vec![(range.start as u32, range.end as u32)];
                    let (mut taken, mut terminals) = (Vec::new(), vec![9]);
                    loop {
                        kept.take(view, &mut stack, count, &mut terminals);
                        if terminals.is_empty() {
                            break;
                        }
                        assert!(terminals.len() <= count + KEPT_MAX);
                        assert!(terminals.len() >= count || stack.is_empty());
                        taken.extend_from_slice(&terminals);
                    }
                    assert_eq!(taken, expected, "{count} {grammar:?}");
                }
                let long = pieces.iter().find(|piece| piece.len() > PIECE + KEPT_MAX);
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
