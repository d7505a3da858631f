//! Pruning: rules that do not pay are replaced by their bodies.
//!
//! Rules that are used once go. Of the others go, bottom up, those with
//! uses * length <= uses + length, where the length is that of the body after
//! what goes has been inlined in it. The invariant: what is left are the other
//! rules, with the ids they had, and the roots of the files, all without
//! symbols of rules that went. Numbering is not done here.
//!
//! One pass over the rules in the order of their ids finds them all, and
//! nothing is left to prune after it: inlining a rule that is used once moves
//! its body and changes no uses of other rules; inlining one that is used more
//! often copies its body, which only adds uses; and bodies never get shorter.
//! Every rule is used: a round replaces its pair twice at least, and a symbol
//! that goes from the sequence goes into a body.
//!
//! The condition holds for rules with two uses of two symbols: they save no
//! symbol, and cost a rule. Bottom up matters: a Fibonacci word's rules are all
//! of this kind, and if all went together the whole word would come back.
//! As it is, no rule is copied that holds a copy, and pruning adds no symbol.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

use rayon::prelude::*;

use crate::construct::pairs::{Paired, SEPARATOR};
use crate::numbers::offsets::{offsets_of, split_mut};

/// Symbols or rules that a thread takes at a time.
const SHARE: usize = 1 << 14;

/// Uses are counted up to here.
const USES_MAX: u8 = 3;

/// The rules that pay, by the ids they had, and the roots.
pub(crate) struct Pruned {
    /// By old rule: 1 + the highest level in its body; 0 if it is gone.
    pub(crate) levels: Vec<u32>,
    /// `[rules + 1]` into `symbols`, for the rules that are left.
    pub(crate) body_offsets: Vec<usize>,
    /// Bodies of the rules that are left, in the order of their old ids.
    pub(crate) symbols: Vec<u32>,
    /// `[files + 1]` into `root`.
    pub(crate) root_offsets: Vec<u32>,
    pub(crate) root: Vec<u32>,
}

/// Prunes the grammar that the rounds left.
pub(crate) fn prune(paired: Paired, terminal_count: u32) -> Pruned {
    let Paired {
        pairs, sequence, ..
    } = paired;
    let uses = count_uses(&pairs, &sequence, terminal_count);
    let grammar = Inlining::new(pairs, &uses, terminal_count);
    drop(uses);

    let kept: Vec<u32> = (0..grammar.pairs.len() as u32)
        .filter(|&rule| grammar.levels[rule as usize] != 0)
        .collect();
    let kept_lengths = kept.iter().map(|&rule| grammar.body_length(rule) as usize);
    let body_offsets = offsets_of(kept_lengths);
    let mut symbols = vec![0; body_offsets[kept.len()]];
    let shares = (0..kept.len()).step_by(SHARE).chain([kept.len()]);
    let share_offsets: Vec<usize> = shares.map(|rule| body_offsets[rule]).collect();
    split_mut(&mut symbols, &share_offsets)
        .into_par_iter()
        .zip(kept.par_chunks(SHARE))
        .for_each(|(target, kept)| {
            let mut writer = Writer::new(&grammar, target);
            for &rule in kept {
                for symbol in sides(grammar.pairs[rule as usize]) {
                    writer.write(symbol);
                }
            }
        });
    drop(kept);

    let share_lengths: Vec<usize> = sequence
        .par_chunks(SHARE)
        .map(|symbols| symbols.iter().map(|&s| grammar.length(s) as usize).sum())
        .collect();
    let share_offsets = offsets_of(share_lengths);
    let mut root = vec![0; share_offsets.last().copied().unwrap_or(0)];
    let ends: Vec<Vec<u32>> = split_mut(&mut root, &share_offsets)
        .into_par_iter()
        .zip(sequence.par_chunks(SHARE))
        .zip(&share_offsets)
        .map(|((target, symbols), &offset)| {
            let mut writer = Writer::new(&grammar, target);
            let mut ends = Vec::new();
            for &symbol in symbols {
                if symbol == SEPARATOR {
                    ends.push((offset + writer.filled) as u32);
                } else {
                    writer.write(symbol);
                }
            }
            ends
        })
        .collect();
    Pruned {
        levels: grammar.levels,
        body_offsets,
        symbols,
        root_offsets: std::iter::once(0)
            .chain(ends.into_iter().flatten())
            .collect(),
        root,
    }
}

/// The two symbols of a pair.
fn sides(pair: u64) -> [u32; 2] {
    [(pair >> 32) as u32, pair as u32]
}

/// How often each rule is used, up to [`USES_MAX`] or a few more.
fn count_uses(pairs: &[u64], sequence: &[u32], terminal_count: u32) -> Vec<AtomicU8> {
    let uses: Vec<AtomicU8> = pairs.iter().map(|_| AtomicU8::new(0)).collect();
    let count = |symbol: u32| {
        let rule = symbol.wrapping_sub(terminal_count) as usize;
        if symbol >= terminal_count
            && let Some(uses) = uses.get(rule)
            && uses.load(Relaxed) < USES_MAX
        {
            // Threads that come here at once can pass the limit, but not the 255.
            let _ = uses.fetch_update(Relaxed, Relaxed, |uses| uses.checked_add(1));
        }
    };
    pairs.par_iter().with_min_len(SHARE).for_each(|&pair| {
        sides(pair).into_iter().for_each(count);
    });
    sequence
        .par_iter()
        .with_min_len(SHARE)
        .for_each(|&s| count(s));
    uses
}

/// Which rules are inlined, and what becomes of the others.
struct Inlining {
    terminal_count: u32,
    pairs: Vec<u64>,
    /// By rule: symbols that its body has when all inlined rules are, if it is inlined, or 1.
    lengths: Vec<u32>,
    /// By rule: its level, or 0 if it is inlined.
    levels: Vec<u32>,
}

impl Inlining {
    fn new(pairs: Vec<u64>, uses: &[AtomicU8], terminal_count: u32) -> Inlining {
        let mut grammar = Inlining {
            terminal_count,
            lengths: Vec::with_capacity(pairs.len()),
            levels: Vec::with_capacity(pairs.len()),
            pairs,
        };
        // The levels that rules have, or would have.
        let mut heights: Vec<u32> = Vec::with_capacity(grammar.pairs.len());
        for (rule, uses) in uses.iter().enumerate() {
            let (mut length, mut height) = (0, 1);
            for symbol in sides(grammar.pairs[rule]) {
                length += grammar.length(symbol);
                if let Some(child) = grammar.rule(symbol) {
                    let stays = u32::from(grammar.levels[child] != 0);
                    height = height.max(heights[child] + stays);
                }
            }
            let uses = u64::from(uses.load(Relaxed));
            let pays = uses * u64::from(length) > uses + u64::from(length);
            heights.push(height);
            grammar.lengths.push(if pays { 1 } else { length });
            grammar.levels.push(if pays { height } else { 0 });
        }
        grammar
    }

    fn rule(&self, symbol: u32) -> Option<usize> {
        (symbol >= self.terminal_count).then(|| (symbol - self.terminal_count) as usize)
    }

    /// How many symbols stand for a symbol of the sequence or of a pair.
    fn length(&self, symbol: u32) -> u32 {
        match self.rule(symbol) {
            None => 1,
            Some(_) if symbol == SEPARATOR => 0,
            Some(rule) => self.lengths[rule],
        }
    }

    fn body_length(&self, rule: u32) -> u32 {
        let [left, right] = sides(self.pairs[rule as usize]);
        self.length(left) + self.length(right)
    }
}

/// Writes symbols, those of inlined rules expanded.
struct Writer<'a> {
    grammar: &'a Inlining,
    target: &'a mut [u32],
    filled: usize,
    stack: Vec<u32>,
}

impl<'a> Writer<'a> {
    fn new(grammar: &'a Inlining, target: &'a mut [u32]) -> Writer<'a> {
        Writer {
            grammar,
            target,
            filled: 0,
            stack: Vec::new(),
        }
    }

    fn write(&mut self, symbol: u32) {
        self.stack.push(symbol);
        while let Some(symbol) = self.stack.pop() {
            match self.grammar.rule(symbol) {
                Some(rule) if self.grammar.levels[rule] == 0 => {
                    let [left, right] = sides(self.grammar.pairs[rule]);
                    self.stack.push(right);
                    self.stack.push(left);
                }
                _ => {
                    self.target[self.filled] = symbol;
                    self.filled += 1;
                }
            }
        }
    }
}
