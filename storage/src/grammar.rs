//! The grammar of a segment as it stands in memory: flat arrays, checked once.
//!
//! After [`Grammar::check`] every symbol is in range and every body uses only rules of lower levels, so a pass over
//! the rules in order sees each rule after all rules it uses. Nothing here expands or counts: that is for the kernels.

use crate::{Error, Result};
use rayon::prelude::*;

/// Most levels a grammar may have. Construction stays below 100 even on adversarial text.
pub(crate) const LEVELS_MAX: usize = 4096;

/// All rules of a segment and the root of each of its files.
///
/// A symbol below `terminal_count` is the terminal with that token id; symbol `terminal_count + r` is rule `r`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grammar {
    /// Number of terminals: that of the tokens in the dictionary.
    pub terminal_count: u32,
    /// `[rules + 1]`: the body of rule `r` is `symbols[rule_offsets[r]..rule_offsets[r + 1]]`.
    pub rule_offsets: Vec<u32>,
    /// All bodies, one after the other.
    pub symbols: Vec<u32>,
    /// `[levels + 1]`: rules of level `k` (from 1) are `level_offsets[k - 1]..level_offsets[k]`.
    pub level_offsets: Vec<u32>,
    /// `[files + 1]`: the root of file `f` is `root[root_offsets[f]..root_offsets[f + 1]]`.
    pub root_offsets: Vec<u32>,
    /// The roots of all files, one after the other.
    pub root: Vec<u32>,
}

impl Grammar {
    /// Checks every rule of this type; one pass over the symbols.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the first rule found broken.
    pub fn check(self) -> Result<Grammar> {
        match self.fault() {
            Some(fault) => Err(Error::Invalid {
                what: "grammar",
                fault,
            }),
            None => Ok(self),
        }
    }

    /// How many rules there are.
    pub fn rule_count(&self) -> u32 {
        // Bounded by `check`: the number of rules and terminals together fits u32.
        self.rule_offsets.len().saturating_sub(1) as u32
    }

    /// How many levels the rules have.
    pub fn level_count(&self) -> u32 {
        self.level_offsets.len().saturating_sub(1) as u32
    }

    /// Bytes of memory that its arrays take.
    pub fn bytes(&self) -> usize {
        let Grammar {
            terminal_count: _,
            rule_offsets,
            symbols,
            level_offsets,
            root_offsets,
            root,
        } = self;
        let arrays = [rule_offsets, symbols, level_offsets, root_offsets, root];
        arrays.map(|array| size_of_val(&array[..])).iter().sum()
    }

    /// The body of rule `rule`.
    ///
    /// # Panics
    /// If there is no such rule.
    pub fn body(&self, rule: u32) -> &[u32] {
        let rule = rule as usize;
        &self.symbols[self.rule_offsets[rule] as usize..self.rule_offsets[rule + 1] as usize]
    }

    /// The root of file `file`.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn root_of(&self, file: u32) -> &[u32] {
        let file = file as usize;
        &self.root[self.root_offsets[file] as usize..self.root_offsets[file + 1] as usize]
    }

    /// The first rule of this type that is broken.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        if !partitions(&self.rule_offsets, self.symbols.len()) {
            return Some("rule offsets do not divide the bodies");
        }
        if !partitions(&self.root_offsets, self.root.len()) {
            return Some("root offsets do not divide the root");
        }
        let rules = self.rule_offsets.len() - 1;
        if !partitions(&self.level_offsets, rules) {
            return Some("level offsets do not divide the rules");
        }
        if self.level_offsets.len() - 1 > LEVELS_MAX {
            return Some("too many levels");
        }
        let Some(symbol_end) = u32::try_from(rules)
            .ok()
            .and_then(|rules| self.terminal_count.checked_add(rules))
        else {
            return Some("terminals and rules do not fit 32 bits");
        };
        if self
            .rule_offsets
            .windows(2)
            .any(|pair| pair[1] - pair[0] < 2)
        {
            return Some("a body has fewer than two symbols");
        }
        for level in self.level_offsets.windows(2) {
            if level[0] == level[1] {
                return Some("a level has no rules");
            }
            let bodies = self.rule_offsets[level[0] as usize] as usize
                ..self.rule_offsets[level[1] as usize] as usize;
            // Cannot overflow: below `symbol_end`.
            let end = self.terminal_count + level[0];
            if has_from(&self.symbols[bodies], end) {
                return Some("a body uses a rule that is not of a lower level");
            }
        }
        if has_from(&self.root, symbol_end) {
            return Some("the root uses a symbol that does not exist");
        }
        None
    }
}

/// Symbols that one task examines.
const TASK_SYMBOLS: usize = 1 << 16;

/// Whether there is a symbol from `end` on. Parallel on the current pool.
pub(crate) fn has_from(symbols: &[u32], end: u32) -> bool {
    let largest = |symbols: &[u32]| symbols.iter().copied().fold(0, u32::max);
    let tasks = symbols.par_chunks(TASK_SYMBOLS);
    tasks.any(|symbols| largest(symbols) >= end)
}

/// Whether `offsets` starts at 0, never falls and ends at `end`.
fn partitions(offsets: &[u32], end: usize) -> bool {
    offsets.first() == Some(&0)
        && offsets.last().map(|&last| last as usize) == Some(end)
        && offsets.windows(2).all(|pair| pair[0] <= pair[1])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn small() -> Grammar {
        Grammar {
            terminal_count: 3,
            rule_offsets: vec![0, 2, 4, 7],
            symbols: vec![0, 1, 1, 2, 3, 4, 3],
            level_offsets: vec![0, 2, 3],
            root_offsets: vec![0, 2, 2, 3],
            root: vec![5, 0, 3],
        }
    }

    #[test]
    fn a_sound_grammar_passes_and_gives_bodies_and_roots() {
        let grammar = small().check().unwrap();
        assert_eq!((grammar.rule_count(), grammar.level_count()), (3, 2));
        assert_eq!(grammar.body(2), [3, 4, 3]);
        assert_eq!(grammar.root_of(0), [5, 0]);
        assert_eq!(grammar.root_of(1), [0u32; 0]);
    }

    #[test]
    fn a_grammar_without_rules_or_files_passes() {
        let empty = Grammar {
            rule_offsets: vec![0],
            level_offsets: vec![0],
            root_offsets: vec![0],
            ..Grammar::default()
        };
        assert!(empty.check().is_ok());
    }

    #[test]
    fn every_broken_rule_is_found() {
        let breakers: [fn(&mut Grammar); 11] = [
            |grammar| grammar.rule_offsets[1] = 5,
            |grammar| grammar.rule_offsets[0] = 1,
            |grammar| grammar.rule_offsets.clear(),
            |grammar| grammar.rule_offsets[1] = 1,
            |grammar| grammar.level_offsets[1] = 3,
            |grammar| grammar.level_offsets[2] = 2,
            |grammar| grammar.root_offsets[3] = 4,
            |grammar| grammar.symbols[0] = 3,
            |grammar| grammar.symbols[4] = 5,
            |grammar| grammar.root[1] = 6,
            |grammar| grammar.terminal_count = u32::MAX - 2,
        ];
        for (number, breaker) in breakers.iter().enumerate() {
            let mut grammar = small();
            breaker(&mut grammar);
            assert!(grammar.check().is_err(), "breaker {number}");
        }
    }
}
