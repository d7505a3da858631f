//! Grammar construction: terminals in, a pruned and numbered grammar out.
//!
//! The driver of three stages, each a module of its own: [`pair_rounds`]
//! replaces repeated pairs by rules, [`prune`] inlines the rules that do not
//! pay, [`renumber`] orders what is left by level and body. The invariant: the
//! result is a function of the arguments alone, never of threads or memory.
//! This module knows nothing of text; a terminal is a number.
//!
//! [`pair_rounds`]: crate::pair_rounds
//! [`prune`]: crate::prune
//! [`renumber`]: crate::renumber

use crate::pair_rounds::{self, SEPARATOR};
use crate::prune;
use crate::renumber;

/// What a user may choose about construction; part of a corpus' settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Numerator of alpha: a round takes pairs at least alpha times as frequent as the most frequent one.
    pub alpha_numerator: u32,
    /// Denominator of alpha; not 0.
    pub alpha_denominator: u32,
}

impl Default for Parameters {
    /// Alpha 1/10: nearly as small as 1/2 with half of the rounds.
    fn default() -> Parameters {
        Parameters {
            alpha_numerator: 1,
            alpha_denominator: 10,
        }
    }
}

/// The parts of construction that are timed apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Repeated pairs become rules.
    Rounds,
    /// Rules that do not pay are inlined, the others numbered.
    Prune,
}

/// A grammar: rules by level, and one root for each file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constructed {
    /// `[rules + 1]`: the body of rule r is `symbols[rule_offsets[r]..rule_offsets[r + 1]]`.
    pub rule_offsets: Vec<u32>,
    /// Bodies; a value below `terminal_count` is a terminal, any other is rule `value - terminal_count`.
    pub symbols: Vec<u32>,
    /// `[levels + 1]`: level k, from 1, is the rules `level_offsets[k - 1]..level_offsets[k]`;
    /// their bodies hold terminals and rules of lower levels only.
    pub level_offsets: Vec<u32>,
    /// `[files + 1]`: the root of file f is `root[root_offsets[f]..root_offsets[f + 1]]`.
    pub root_offsets: Vec<u32>,
    /// The symbols whose expansions make the files.
    pub root: Vec<u32>,
    /// Rounds that construction took.
    pub rounds: u32,
}

/// Builds the grammar of some files.
///
/// `tokens` holds the terminals of all files one after the other, each below
/// `terminal_count`; its memory is reused. `file_offsets` is `[files + 1]` into
/// it. `on_stage` is called as each stage begins.
///
/// # Panics
///
/// When `file_offsets` does not rise from 0 to `tokens.len()`, a terminal is
/// out of range, alpha's denominator is 0, or an id could reach 2^31:
/// `terminal_count + tokens.len() / 2` and `tokens.len() + files` are at most 2^31 - 1.
pub fn construct(
    mut tokens: Vec<u32>,
    file_offsets: &[u32],
    terminal_count: u32,
    parameters: &Parameters,
    on_stage: &mut dyn FnMut(Stage),
) -> Constructed {
    on_stage(Stage::Rounds);
    pair_rounds::check(&tokens, file_offsets, terminal_count, parameters);
    pair_rounds::insert_separators(&mut tokens, file_offsets);
    let paired = pair_rounds::pair_rounds(tokens, terminal_count, parameters);
    on_stage(Stage::Prune);
    let rounds = paired.rounds;
    let pruned = prune::prune(paired.pairs, paired.sequence, terminal_count);
    let numbered = renumber::renumber(pruned, terminal_count);
    let mut root_offsets = Vec::with_capacity(file_offsets.len());
    let mut root = numbered.sequence;
    let mut kept = 0;
    root_offsets.push(0);
    for i in 0..root.len() {
        if root[i] == SEPARATOR {
            root_offsets.push(kept as u32);
        } else {
            root[kept] = root[i];
            kept += 1;
        }
    }
    root.truncate(kept);
    Constructed {
        rule_offsets: numbered.rule_offsets,
        symbols: numbered.symbols,
        level_offsets: numbered.level_offsets,
        root_offsets,
        root,
        rounds,
    }
}
