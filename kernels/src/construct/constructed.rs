//! Parameters and results of construction.

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

/// What a round of construction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Symbols of the sequence before.
    pub length: u64,
    /// How often the most frequent pair occurred.
    pub most: u32,
    /// How often a pair had to occur.
    pub threshold: u32,
    /// New rules.
    pub rules: u32,
}
