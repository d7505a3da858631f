//! Renumbering: rules by level, inside a level by body.
//!
//! The simple version. The invariant: a rule's body holds terminals and rules
//! of lower levels only, so a level is one contiguous range of rules. Rules
//! whose bodies turn out equal become one.

use crate::pair_rounds::SEPARATOR;
use crate::prune::Pruned;

/// A grammar in its final numbers; the sequence still has its separators.
pub(crate) struct Numbered {
    pub(crate) rule_offsets: Vec<u32>,
    pub(crate) symbols: Vec<u32>,
    pub(crate) level_offsets: Vec<u32>,
    pub(crate) sequence: Vec<u32>,
}

pub(crate) fn renumber(pruned: Pruned, terminal_count: u32) -> Numbered {
    let Pruned {
        bodies,
        mut sequence,
    } = pruned;
    let mut levels: Vec<usize> = Vec::with_capacity(bodies.len());
    let mut by_level: Vec<Vec<usize>> = Vec::new();
    for (rule, body) in bodies.iter().enumerate() {
        let level_of = |&symbol: &u32| match symbol.checked_sub(terminal_count) {
            Some(rule) => levels[rule as usize],
            None => 0,
        };
        let level = body.iter().map(level_of).max().map_or(0, |level| level + 1);
        levels.push(level);
        if level > 0 {
            by_level.resize(by_level.len().max(level), Vec::new());
            by_level[level - 1].push(rule);
        }
    }
    let mut ids = vec![0; bodies.len()];
    let map = |symbol: u32, ids: &[u32]| match symbol.checked_sub(terminal_count) {
        Some(rule) if symbol != SEPARATOR => ids[rule as usize],
        _ => symbol,
    };
    let mut rule_offsets = vec![0];
    let mut symbols: Vec<u32> = Vec::new();
    let mut level_offsets = vec![0];
    for rules in by_level {
        let mut level: Vec<(Vec<u32>, usize)> = rules
            .iter()
            .map(|&rule| (bodies[rule].iter().map(|&s| map(s, &ids)).collect(), rule))
            .collect();
        level.sort();
        let mut last: &[u32] = &[];
        for (body, rule) in &level {
            if body != last {
                symbols.extend_from_slice(body);
                rule_offsets.push(symbols.len() as u32);
                last = body;
            }
            ids[*rule] = terminal_count + rule_offsets.len() as u32 - 2;
        }
        level_offsets.push(rule_offsets.len() as u32 - 1);
    }
    for symbol in &mut sequence {
        *symbol = map(*symbol, &ids);
    }
    Numbered {
        rule_offsets,
        symbols,
        level_offsets,
        sequence,
    }
}
