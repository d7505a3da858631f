//! Renumbering: rules by level, inside a level by body.
//!
//! The invariant: a body holds terminals and rules of lower levels only, so a
//! level is one contiguous range of rules. Bodies are compared in the new ids,
//! symbol by symbol, a prefix first. Rules whose bodies are equal become one,
//! bottom up, so that no two bodies of the result are equal. (Two rules can
//! come to one body when others were inlined in them. On text that are ten in
//! a million; the rules that are used once after it stay.)

use rayon::prelude::*;

use crate::construct::constructed::Constructed;
use crate::construct::prune::Pruned;
use crate::numbers::offsets::offsets_of;

/// Symbols or rules that a thread takes at least.
const SHARE_MIN: usize = 1 << 12;

/// Puts the rules in order and makes the result.
pub(crate) fn renumber(pruned: Pruned, terminal_count: u32, rounds: u32) -> Constructed {
    let rules = rules_by_level(&pruned);
    let Pruned {
        levels,
        body_offsets,
        symbols: old_symbols,
        root_offsets,
        mut root,
    } = pruned;
    // By old rule.
    let mut ids: Vec<u32> = vec![0; levels.len()];
    drop(levels);
    let mut rule_offsets = vec![0];
    let mut symbols: Vec<u32> = Vec::with_capacity(old_symbols.len());
    let mut level_offsets = vec![0];
    for level in rules {
        let lengths = level.iter().map(|rule| {
            let kept = rule.kept as usize;
            body_offsets[kept + 1] - body_offsets[kept]
        });
        let offsets = offsets_of(lengths);
        let old_bodies = level.iter().map(|rule| {
            let kept = rule.kept as usize;
            &old_symbols[body_offsets[kept]..body_offsets[kept + 1]]
        });
        let mut bodies = old_bodies.collect::<Vec<_>>().concat();
        rename(&mut bodies, &ids, terminal_count);
        let body = |i: u32| &bodies[offsets[i as usize]..offsets[i as usize + 1]];
        // A body's first two symbols, and its index in the level.
        let mut order: Vec<(u64, u32)> = (0..level.len() as u32)
            .into_par_iter()
            .map(|i| (u64::from(body(i)[0]) << 32 | u64::from(body(i)[1]), i))
            .collect();
        order.par_sort_unstable_by(|a, b| {
            let heads = a.0.cmp(&b.0);
            heads.then_with(|| body(a.1)[2..].cmp(&body(b.1)[2..]))
        });
        let mut previous: &[u32] = &[];
        for &(_, i) in &order {
            if body(i) != previous {
                previous = body(i);
                symbols.extend_from_slice(previous);
                rule_offsets.push(symbols.len() as u32);
            }
            ids[level[i as usize].old as usize] = terminal_count + rule_offsets.len() as u32 - 2;
        }
        level_offsets.push(rule_offsets.len() as u32 - 1);
    }
    rename(&mut root, &ids, terminal_count);
    Constructed {
        rule_offsets,
        symbols,
        level_offsets,
        root_offsets,
        root,
        rounds,
    }
}

/// A rule that is left.
#[derive(Clone, Copy)]
struct Rule {
    /// Index among all rules that there were.
    old: u32,
    /// Index among those that are left.
    kept: u32,
}

/// The rules that are left, one item a level.
fn rules_by_level(pruned: &Pruned) -> Vec<Vec<Rule>> {
    let mut rules: Vec<Vec<Rule>> = Vec::new();
    let mut kept = 0;
    for (old, &level) in pruned.levels.iter().enumerate() {
        let level = level as usize;
        if level > 0 {
            if rules.len() < level {
                rules.resize(level, Vec::new());
            }
            let old = old as u32;
            rules[level - 1].push(Rule { old, kept });
            kept += 1;
        }
    }
    rules
}

/// Gives the rules among `symbols` their new ids.
fn rename(symbols: &mut [u32], ids: &[u32], terminal_count: u32) {
    let symbols = symbols.par_iter_mut().with_min_len(SHARE_MIN);
    symbols.for_each(|symbol| {
        if *symbol >= terminal_count {
            *symbol = ids[(*symbol - terminal_count) as usize];
        }
    });
}
