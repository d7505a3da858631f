//! Grammar construction once more, the simple way: one thread, hash maps, a
//! vector for every step and every body.
//!
//! This is the definition (DESIGN.md section 3) in code; the crate must give
//! the same numbers bit for bit. It shares nothing with the crate.

use std::collections::HashMap;

use zipfdb_kernels::{Constructed, Parameters};

const SEPARATOR: u32 = u32::MAX;
const DEPTH_MAX: u32 = 64;

type Pair = (u32, u32);

/// A grammar while it is made: rule r has symbol `terminal_count + r`; a rule that went has an empty body.
struct Grammar {
    bodies: Vec<Vec<u32>>,
    sequence: Vec<u32>,
}

/// The grammar of some files.
pub fn construct(files: &[&[u32]], terminal_count: u32, parameters: &Parameters) -> Constructed {
    let mut sequence = Vec::new();
    for file in files {
        sequence.extend_from_slice(file);
        sequence.push(SEPARATOR);
    }
    let (mut grammar, rounds) = pair_rounds(sequence, files.len(), terminal_count, parameters);
    prune(&mut grammar, terminal_count);
    renumber(grammar, terminal_count, rounds)
}

fn mix((left, right): Pair) -> u64 {
    let mut x = u64::from(left) << 32 | u64::from(right);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Calls `visit` for each candidate.
fn candidates(sequence: &[u32], mut visit: impl FnMut(usize, Pair)) {
    let mut odd = false;
    for (i, window) in sequence.windows(2).enumerate() {
        let (left, right) = (window[0], window[1]);
        let skip = odd && left == right;
        odd = left == right && !odd;
        if !skip && left != SEPARATOR && right != SEPARATOR {
            visit(i, (left, right));
        }
    }
}

type Priority = (u32, u64, Pair);

/// Takes each free position whose priority beats both neighbours'.
fn take_local_maxima(priorities: &mut [Option<Priority>], taken: &mut [bool]) {
    let at = |i: usize| priorities.get(i).copied().flatten();
    let maxima: Vec<usize> = (0..priorities.len())
        .filter(|&i| at(i).is_some() && at(i) > at(i.wrapping_sub(1)) && at(i) >= at(i + 1))
        .collect();
    for i in maxima {
        taken[i] = true;
        for j in i.saturating_sub(1)..(i + 2).min(priorities.len()) {
            priorities[j] = None;
        }
    }
}

fn pair_rounds(
    mut sequence: Vec<u32>,
    files: usize,
    terminal_count: u32,
    parameters: &Parameters,
) -> (Grammar, u32) {
    let mut bodies: Vec<Vec<u32>> = Vec::new();
    let mut depths: Vec<u32> = Vec::new();
    let mut threshold = u32::MAX;
    let mut rounds = 0;
    loop {
        let mut counts: HashMap<Pair, u32> = HashMap::new();
        candidates(&sequence, |_, pair| *counts.entry(pair).or_default() += 1);
        let most = counts.values().copied().max().unwrap_or(0);
        if most < 2 {
            break;
        }
        rounds += 1;
        let wanted = (u64::from(most) * u64::from(parameters.alpha_numerator))
            .div_ceil(u64::from(parameters.alpha_denominator))
            .min(u64::from(most)) as u32;
        threshold = threshold.min(wanted.max(2));
        let mix_only = depths.iter().any(|&depth| depth > DEPTH_MAX);
        let mut priorities = vec![None; sequence.len()];
        candidates(&sequence, |i, pair| {
            let count = counts[&pair];
            if count >= threshold {
                priorities[i] = Some((if mix_only { 0 } else { count }, mix(pair), pair));
            }
        });
        let mut taken = vec![false; sequence.len()];
        take_local_maxima(&mut priorities, &mut taken);
        take_local_maxima(&mut priorities, &mut taken);
        let mut uses: HashMap<Pair, u32> = HashMap::new();
        for i in (0..taken.len()).filter(|&i| taken[i]) {
            *uses.entry((sequence[i], sequence[i + 1])).or_default() += 1;
        }
        uses.retain(|_, uses| *uses >= 2);
        let mut pairs: Vec<Pair> = uses.into_keys().collect();
        pairs.sort();
        let mut ids: HashMap<Pair, u32> = HashMap::new();
        for (left, right) in pairs {
            ids.insert((left, right), terminal_count + bodies.len() as u32);
            bodies.push(vec![left, right]);
            let depth_of = |symbol: u32| match symbol.checked_sub(terminal_count) {
                Some(rule) => depths[rule as usize],
                None => 0,
            };
            depths.push(1 + depth_of(left).max(depth_of(right)));
        }
        let mut shorter = Vec::with_capacity(sequence.len());
        let mut i = 0;
        while i < sequence.len() {
            let pair = (sequence[i], *sequence.get(i + 1).unwrap_or(&SEPARATOR));
            match ids.get(&pair) {
                Some(&id) if taken[i] => {
                    shorter.push(id);
                    i += 2;
                }
                _ => {
                    shorter.push(sequence[i]);
                    i += 1;
                }
            }
        }
        let removed = sequence.len() - shorter.len();
        let length = sequence.len() - files;
        sequence = shorter;
        if threshold == 2 && removed * 200 < length {
            break;
        }
        if removed * 1000 < length {
            threshold = (threshold / 2).max(2);
        }
    }
    (Grammar { bodies, sequence }, rounds)
}

fn prune(grammar: &mut Grammar, terminal_count: u32) {
    for _ in 0..4 {
        while inline(grammar, terminal_count, |uses, _| uses <= 1) {}
        let costs = |uses: usize, length: usize| uses * length <= uses + length;
        if !inline(grammar, terminal_count, costs) {
            break;
        }
    }
}

/// Inlines, bottom up, the rules of which `goes(uses, length)`; says whether there were any.
fn inline(grammar: &mut Grammar, terminal_count: u32, goes: impl Fn(usize, usize) -> bool) -> bool {
    let Grammar { bodies, sequence } = grammar;
    let rules = bodies.len();
    let rule_of = |symbol: u32| {
        let rule = (symbol as usize).checked_sub(terminal_count as usize);
        rule.filter(|&rule| rule < rules)
    };
    let mut uses = vec![0; rules];
    for &symbol in bodies.iter().flatten().chain(&*sequence) {
        if let Some(rule) = rule_of(symbol) {
            uses[rule] += 1;
        }
    }
    let mut inlined = vec![false; rules];
    let expand = |symbols: &[u32], bodies: &[Vec<u32>], inlined: &[bool]| -> Vec<u32> {
        let mut expanded = Vec::new();
        for &symbol in symbols {
            match rule_of(symbol).filter(|&rule| inlined[rule]) {
                Some(rule) => expanded.extend_from_slice(&bodies[rule]),
                None => expanded.push(symbol),
            }
        }
        expanded
    };
    for rule in 0..rules {
        bodies[rule] = expand(&bodies[rule], bodies, &inlined);
        inlined[rule] = !bodies[rule].is_empty() && goes(uses[rule], bodies[rule].len());
    }
    *sequence = expand(sequence, bodies, &inlined);
    for rule in (0..rules).filter(|&rule| inlined[rule]) {
        bodies[rule].clear();
    }
    inlined.contains(&true)
}

fn renumber(grammar: Grammar, terminal_count: u32, rounds: u32) -> Constructed {
    let mut levels: Vec<usize> = Vec::new();
    for body in &grammar.bodies {
        let level_of = |&symbol: &u32| match symbol.checked_sub(terminal_count) {
            Some(rule) => levels[rule as usize],
            None => 0,
        };
        levels.push(body.iter().map(level_of).max().map_or(0, |level| level + 1));
    }
    let mut ids: Vec<u32> = vec![0; levels.len()];
    let renamed = |symbol: u32, ids: &[u32]| match symbol.checked_sub(terminal_count) {
        Some(rule) => ids[rule as usize],
        None => symbol,
    };
    let mut result = Constructed {
        rule_offsets: vec![0],
        symbols: Vec::new(),
        level_offsets: vec![0],
        root_offsets: vec![0],
        root: Vec::new(),
        rounds,
    };
    for level in 1..=levels.iter().copied().max().unwrap_or(0) {
        let mut sorted: Vec<(Vec<u32>, usize)> = Vec::new();
        for (rule, body) in grammar.bodies.iter().enumerate() {
            if levels[rule] == level {
                sorted.push((body.iter().map(|&s| renamed(s, &ids)).collect(), rule));
            }
        }
        sorted.sort();
        let mut previous: &[u32] = &[];
        for (body, rule) in &sorted {
            if body != previous {
                result.symbols.extend_from_slice(body);
                result.rule_offsets.push(result.symbols.len() as u32);
                previous = body;
            }
            ids[*rule] = terminal_count + result.rule_offsets.len() as u32 - 2;
        }
        result
            .level_offsets
            .push(result.rule_offsets.len() as u32 - 1);
    }
    for &symbol in &grammar.sequence {
        if symbol == SEPARATOR {
            result.root_offsets.push(result.root.len() as u32);
        } else {
            result.root.push(renamed(symbol, &ids));
        }
    }
    result
}
