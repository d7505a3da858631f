//! Chunks on lanes of vectors: which chunk is in which lane, and what goes in and comes out of [`super::wide`].
//!
//! Invariant: a chunk gives what [`super::lanes::decode_in_turn`] gives. The output of a lane without a chunk is
//! ignored.

use super::classes::CLASSES_MAX;
use super::lanes::{self, ActionLookup, ChunkModel, ChunkWork, LANES, Lane, decode_in_turn};
use super::wide::{
    ACTIONS, GROUPS, STEPS, TRACES, WIDTH, WideGroup, WideTables, decode, is_supported,
};
use crate::segment::coding::{DecodeError, NoMemory, reserved};
use rayon::prelude::*;

/// Tasks that the chunks of a level or a root are cut into, for each thread, at most.
const TASKS_A_THREAD: usize = 4;

/// Decodes chunks of one part, whose action tables are given, in the form that suits the processor. Parallel on the current
/// pool.
pub fn decode_chunks(
    work: Vec<ChunkWork<'_>>,
    model: &ChunkModel,
    actions: &ActionLookup,
) -> Result<(), DecodeError> {
    if work.len() <= LANES || is_portable() || !is_supported() {
        return lanes::decode_chunks(work, model, actions);
    }
    let has_bodies = work.iter().any(|work| work.bodies.is_some());
    let threads = rayon::current_num_threads();
    let full = WIDTH * GROUPS;
    let tasks = (work.len() / full).clamp(threads, threads * TASKS_A_THREAD);
    let task_chunks = match work.len().div_ceil(tasks) {
        few @ ..WIDTH => few,
        many => many.next_multiple_of(WIDTH),
    };
    let numbers = TableNumbers::new(model)?;
    (work.into_par_iter().chunks(task_chunks)).try_for_each(|work| {
        match (has_bodies, work.len() > LANES) {
            (true, true) => decode_wide::<true>(work, model, actions, &numbers),
            (false, true) => decode_wide::<false>(work, model, actions, &numbers),
            (true, false) => decode_in_turn::<true>(work, model, actions),
            (false, false) => decode_in_turn::<false>(work, model, actions),
        }
    })
}

/// Decodes chunks of the root on this thread.
pub fn decode_wide_in_turn(
    work: Vec<ChunkWork<'_>>,
    model: &ChunkModel,
    actions: &ActionLookup,
    numbers: &TableNumbers,
) -> Result<(), DecodeError> {
    if work.len() > LANES {
        decode_wide::<false>(work, model, actions, numbers)
    } else {
        decode_in_turn::<false>(work, model, actions)
    }
}

/// Whether tests want the form that runs on every processor.
#[cfg(test)]
static PORTABLE: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

fn is_portable() -> bool {
    #[cfg(test)]
    return PORTABLE.load(std::sync::atomic::Ordering::Relaxed);
    #[cfg(not(test))]
    false
}

/// Tables of a model in 32 and 64 bits.
pub struct TableNumbers {
    rows: Box<[u32; TRACES]>,
    groups: Box<[u32; 2 * CLASSES_MAX]>,
    buckets: Box<[u64; CLASSES_MAX * ACTIONS]>,
}

impl TableNumbers {
    /// The tables of a model, if the processor can use them.
    pub fn if_supported(model: &ChunkModel) -> Result<Option<TableNumbers>, NoMemory> {
        let is_used = !is_portable() && is_supported();
        is_used.then(|| TableNumbers::new(model)).transpose()
    }

    fn new(model: &ChunkModel) -> Result<TableNumbers, NoMemory> {
        let made = "made with this length";
        let mut rows: Vec<u32> = reserved(TRACES)?;
        rows.extend(model.rows.iter().map(|&row| u32::from(row)));
        let mut groups: Vec<u32> = reserved(2 * CLASSES_MAX)?;
        groups.extend(model.groups.iter().map(|&group| u32::from(group)));
        let mut buckets: Vec<u64> = reserved(CLASSES_MAX * ACTIONS)?;
        buckets.extend(
            model
                .buckets
                .as_flattened()
                .iter()
                .map(|bucket| u64::from(bucket.start) | u64::from(bucket.below.count()) << 32),
        );
        Ok(TableNumbers {
            rows: rows.try_into().expect(made),
            groups: groups.try_into().expect(made),
            buckets: buckets.try_into().expect(made),
        })
    }
}

/// Decodes chunks, of bodies or of the root, on this thread, up to 32 at a time.
fn decode_wide<const BODIES: bool>(
    work: Vec<ChunkWork<'_>>,
    model: &ChunkModel,
    actions: &ActionLookup,
    numbers: &TableNumbers,
) -> Result<(), DecodeError> {
    let tables = WideTables {
        rows: &numbers.rows,
        groups: &numbers.groups,
        buckets: &numbers.buckets,
        classes: model.class_lookup.table(),
        actions: actions.table(),
        traces: &model.traces,
        symbols: &model.symbols,
        nothing_group: u32::from(model.nothing_group()),
    };
    let mut groups = [WideGroup::new()?, WideGroup::new()?];
    let mut work = work.into_iter();
    let mut lanes: Vec<Lane<'_, BODIES>> = reserved(WIDTH * GROUPS)?;
    for chunk in work.by_ref().take(WIDTH * GROUPS) {
        groups[lanes.len() / WIDTH].clear_history(lanes.len() % WIDTH, model.no_rank());
        lanes.push(Lane::new(model, chunk)?);
    }
    while !lanes.is_empty() {
        let steps = lanes.iter().map(Lane::left).min().unwrap_or(0).min(STEPS);
        for (place, lane) in lanes.iter_mut().enumerate() {
            lane.enter(&mut groups[place / WIDTH], place % WIDTH, steps);
        }
        let [first, _] = &mut groups;
        if lanes.len() <= WIDTH {
            decode::<BODIES, 1>(&tables, std::array::from_mut(first), steps);
        } else {
            decode::<BODIES, GROUPS>(&tables, &mut groups, steps);
        }
        for (place, lane) in lanes.iter_mut().enumerate() {
            lane.leave(&groups[place / WIDTH], place % WIDTH, steps);
        }
        let mut place = 0;
        while let Some(lane) = lanes.get_mut(place) {
            if lane.left() > 0 {
                place += 1;
                continue;
            }
            lane.finish()?;
            match work.next() {
                Some(chunk) => {
                    lane.begin(model, chunk)?;
                    groups[place / WIDTH].clear_history(place % WIDTH, model.no_rank());
                }
                None => {
                    let last = lanes.len() - 1;
                    let met = groups[last / WIDTH].history_of(last % WIDTH);
                    groups[place / WIDTH].take_history(place % WIDTH, &met);
                    drop(lanes.swap_remove(place));
                    if let Some(moved) = lanes.get_mut(place) {
                        moved.forget_words();
                    }
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{Coded, Counts, EncodedGrammar, decode, decode_rules};
    use super::PORTABLE;
    use crate::segment::coding::DecodeError;
    use crate::{Dictionary, Grammar};
    use std::sync::atomic::Ordering;

    /// Numbers that look random, small ones more often.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, end: u32) -> u32 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
            self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
            let scale = |number: u64| ((number * u64::from(end)) >> 16) as u32;
            let (one, other) = (scale(self.0 >> 48), scale((self.0 >> 32) & 0xffff));
            one.min(other)
        }
    }

    /// Text of some thousand words with enough symbols for several vectors of chunks, in rules and in the root.
    fn sample(numbers: &mut Numbers) -> (Dictionary, Grammar) {
        let tokens: Vec<String> = (0..3000)
            .map(|token| format!("{}{token}", ["a", " b", "Cd", " 7", "e."][token % 5]))
            .collect();
        let mut offsets = vec![0];
        offsets.extend(tokens.iter().scan(0, |end, token| {
            *end += token.len() as u64;
            Some(*end)
        }));
        let dictionary = Dictionary::new(offsets, tokens.concat().into(), 2500, Vec::new());
        let mut grammar = Grammar {
            terminal_count: 3000,
            rule_offsets: vec![0],
            level_offsets: vec![0],
            root_offsets: vec![0],
            ..Grammar::default()
        };
        for rules in [60_000, 9_000, 50] {
            let lower = 3000 + grammar.rule_count();
            for _ in 0..rules {
                let length = 2 + numbers.below(6);
                (grammar.symbols).extend((0..length).map(|_| numbers.below(lower)));
                grammar.rule_offsets.push(grammar.symbols.len() as u32);
            }
            grammar.level_offsets.push(grammar.rule_count());
        }
        let symbols = 3000 + grammar.rule_count();
        for length in [0, 200_000, 1, 150_000] {
            (grammar.root).extend((0..length).map(|_| numbers.below(symbols)));
            grammar.root_offsets.push(grammar.root.len() as u32);
        }
        (dictionary, grammar.check().unwrap())
    }

    /// Symbols of bodies and of the root.
    fn decoded(
        encoded: &EncodedGrammar,
        counts: Counts,
        dictionary: &Dictionary,
    ) -> Result<(Vec<u32>, Vec<u32>), DecodeError> {
        let coded = Coded {
            model: &encoded.model,
            bodies: &encoded.bodies,
            root: &encoded.root,
        };
        let rules = decode_rules(&encoded.rules, counts).map_err(|(_, error)| error)?;
        let bodies = decode(&coded, counts, rules, dictionary).map_err(|(_, error)| error)?;
        let whole = bodies.whole_root();
        let root = bodies.decode_root(&encoded.root[bodies.root_extent(&whole)], whole)?;
        let (pieces, mut target, mut all) = (bodies.root_pieces()?, Vec::new(), Vec::new());
        for piece in 0..pieces.len() {
            let positions = pieces.positions(piece);
            assert_eq!(positions.start, all.len());
            let coded = &encoded.root[bodies.root_extent(&positions)];
            pieces.decode(piece, coded, &mut target)?;
            all.append(&mut target);
        }
        assert!(all == root);
        Ok((bodies.rules().symbols.clone(), root))
    }

    #[test]
    fn vectors_and_their_twin_give_the_same_symbols_and_the_same_faults() {
        let mut numbers = Numbers(7);
        let (dictionary, grammar) = sample(&mut numbers);
        let counts = Counts {
            tokens: dictionary.len(),
            rules: grammar.rule_count(),
            levels: grammar.level_count(),
            symbols: grammar.symbols.len() as u64,
            root_symbols: grammar.root.len() as u64,
            files: 4,
        };
        let mut encoded = EncodedGrammar::new(&grammar, &dictionary);
        let both = |encoded: &EncodedGrammar| {
            let wide = decoded(encoded, counts, &dictionary);
            PORTABLE.store(true, Ordering::Relaxed);
            let portable = decoded(encoded, counts, &dictionary);
            PORTABLE.store(false, Ordering::Relaxed);
            // Of several faults the first one found is reported.
            assert!(wide.as_ref().ok() == portable.as_ref().ok());
            wide
        };
        assert!(both(&encoded) == Ok((grammar.symbols.clone(), grammar.root.clone())));
        for _ in 0..6 {
            let (size, bit) = (encoded.bodies.len() as u32, 1 << numbers.below(8));
            let place = numbers.below(size) as usize;
            encoded.bodies[place] ^= bit;
            drop(both(&encoded));
            encoded.bodies[place] ^= bit;
            let place = encoded.root.len() - 1 - numbers.below(100_000) as usize;
            encoded.root[place] ^= bit;
            drop(both(&encoded));
            encoded.root[place] ^= bit;
        }
    }
}
