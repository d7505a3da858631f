//! Rounds that replace repeated pairs of adjacent symbols by rules.
//!
//! The simple version: one thread, hash maps, a vector for every step.
//! The invariant: every rule is a pair of symbols of smaller ids, and the
//! sequence always expands to the input. Pruning is not done here.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::construct::Parameters;

/// Ends a file in the sequence. In no pair, and no symbol.
pub(crate) const SEPARATOR: u32 = u32::MAX;

/// Depth above which priorities are the mix alone.
const DEPTH_MAX: u32 = 64;

/// Symbols and positions stay below this.
const LIMIT: u64 = (1 << 31) - 1;

/// What the rounds leave: rule `terminal_count + r` is `pairs[r]`, left symbol in the upper half.
pub(crate) struct Paired {
    pub(crate) pairs: Vec<u64>,
    /// The files' symbols, a [`SEPARATOR`] after each file.
    pub(crate) sequence: Vec<u32>,
    pub(crate) rounds: u32,
}

/// Mixes a pair: the finaliser of splitmix64, which maps no two values to one.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[derive(Default)]
struct PairHasher(u64);

impl Hasher for PairHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64")
    }
    fn write_u64(&mut self, x: u64) {
        self.0 = mix(x);
    }
}

type PairMap = HashMap<u64, u32, BuildHasherDefault<PairHasher>>;

pub(crate) fn check(
    tokens: &[u32],
    file_offsets: &[u32],
    terminal_count: u32,
    parameters: &Parameters,
) {
    assert!(parameters.alpha_denominator > 0, "alpha has denominator 0");
    assert!(
        file_offsets.first() == Some(&0),
        "file offsets do not begin with 0"
    );
    assert!(
        file_offsets
            .last()
            .is_some_and(|&l| l as usize == tokens.len()),
        "file offsets do not end with the number of tokens"
    );
    assert!(
        file_offsets.is_sorted(),
        "file offsets are not in ascending order"
    );
    assert!(
        terminal_count as u64 + tokens.len() as u64 / 2 <= LIMIT,
        "too many terminals: an id could reach 2^31"
    );
    assert!(
        tokens.len() as u64 + file_offsets.len() as u64 <= LIMIT,
        "too many tokens: a position could reach 2^31"
    );
    assert!(
        tokens.iter().all(|&t| t < terminal_count),
        "a token is not below the number of terminals"
    );
}

/// Puts a [`SEPARATOR`] behind each file.
pub(crate) fn insert_separators(tokens: &mut Vec<u32>, file_offsets: &[u32]) {
    let files = file_offsets.len() - 1;
    let mut end = tokens.len();
    tokens.reserve_exact(files);
    tokens.resize(end + files, SEPARATOR);
    for f in (0..files).rev() {
        let (first, last) = (file_offsets[f] as usize, file_offsets[f + 1] as usize);
        debug_assert_eq!(last, end);
        tokens[last + f] = SEPARATOR;
        tokens.copy_within(first..last, first + f);
        end = first;
    }
}

/// Calls `visit` for each candidate: positions of pairs, in a run of one symbol only at even offsets.
fn candidates(sequence: &[u32], mut visit: impl FnMut(usize, u64)) {
    let mut odd = false;
    for (i, window) in sequence.windows(2).enumerate() {
        let (a, b) = (window[0], window[1]);
        let skip = odd && a == b;
        odd = a == b && !odd;
        if !skip && a != SEPARATOR && b != SEPARATOR {
            visit(i, u64::from(a) << 32 | u64::from(b));
        }
    }
}

/// Takes each free position whose priority beats both neighbours'.
fn take_local_maxima(priorities: &mut [(u32, u64)], taken: &mut [bool]) {
    let none = (0, 0);
    let at = |i: usize| priorities.get(i).copied().unwrap_or(none);
    let maxima: Vec<usize> = (0..priorities.len())
        .filter(|&i| at(i) > none && at(i) > at(i.wrapping_sub(1)) && at(i) >= at(i + 1))
        .collect();
    for i in maxima {
        taken[i] = true;
        for j in i.saturating_sub(1)..(i + 2).min(priorities.len()) {
            priorities[j] = none;
        }
    }
}

pub(crate) fn pair_rounds(
    mut sequence: Vec<u32>,
    terminal_count: u32,
    parameters: &Parameters,
) -> Paired {
    let mut pairs: Vec<u64> = Vec::new();
    let mut depths: Vec<u32> = Vec::new();
    let mut depth_max = 0;
    let mut threshold = u32::MAX;
    let mut rounds = 0;
    loop {
        let mut counts = PairMap::default();
        candidates(&sequence, |_, pair| *counts.entry(pair).or_default() += 1);
        let most = counts.values().copied().max().unwrap_or(0);
        if most < 2 {
            break;
        }
        rounds += 1;
        let wanted = (u64::from(most) * u64::from(parameters.alpha_numerator))
            .div_ceil(u64::from(parameters.alpha_denominator));
        threshold = threshold.min(u32::try_from(wanted).unwrap_or(u32::MAX).min(most).max(2));
        let mut priorities = vec![(0, 0); sequence.len()];
        candidates(&sequence, |i, pair| {
            let count = counts[&pair];
            if count >= threshold {
                let rank = if depth_max > DEPTH_MAX { 1 } else { count };
                priorities[i] = (rank, mix(pair));
            }
        });
        let mut taken = vec![false; sequence.len()];
        take_local_maxima(&mut priorities, &mut taken);
        take_local_maxima(&mut priorities, &mut taken);
        let mut ids = PairMap::default();
        let pair_at = |s: &[u32], i: usize| (u64::from(s[i]) << 32) | u64::from(s[i + 1]);
        for i in (0..taken.len()).filter(|&i| taken[i]) {
            *ids.entry(pair_at(&sequence, i)).or_default() += 1;
        }
        ids.retain(|_, uses| *uses >= 2);
        let mut new: Vec<u64> = ids.keys().copied().collect();
        new.sort_unstable();
        for &pair in &new {
            ids.insert(pair, terminal_count + pairs.len() as u32);
            pairs.push(pair);
            let depth_of = |symbol: u32| match symbol.checked_sub(terminal_count) {
                Some(rule) => depths[rule as usize],
                None => 0,
            };
            let depth = 1 + depth_of((pair >> 32) as u32).max(depth_of(pair as u32));
            depths.push(depth);
            depth_max = depth_max.max(depth);
        }
        let before = sequence.len();
        let mut kept = 0;
        let mut i = 0;
        while i < before {
            sequence[kept] = sequence[i];
            if taken[i]
                && let Some(&id) = ids.get(&pair_at(&sequence, i))
            {
                sequence[kept] = id;
                i += 1;
            }
            kept += 1;
            i += 1;
        }
        sequence.truncate(kept);
        if threshold == 2 && (before - kept) * 200 < before {
            break;
        }
    }
    Paired {
        pairs,
        sequence,
        rounds,
    }
}
