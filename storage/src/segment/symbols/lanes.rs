//! Decoding chunks: several at a time on one thread, so that the loads of one hide behind the arithmetic of others.
//!
//! Invariant: what a chunk gives depends on its bytes and on symbols of lower levels only. A damaged chunk gives a fault, or
//! symbols that exist.

use super::classes::{CLASSES_MAX, Ends, NONE};
use super::contexts::{Contexts, GROUPS_MAX};
use super::history::{HISTORY, REPEATS, distance_bits, fill_of};
use super::model::{FREQUENCIES, action_row, class_row};
use super::rank_table::{NO_SYMBOL, RANKS_SPARE, UNRANKED};
#[cfg(target_arch = "x86_64")]
use super::wide::WideGroup;
use crate::segment::coding::rans::{Below, Decoder};
use crate::segment::coding::tables::Lookup;
use crate::segment::coding::{DecodeError, Fault, NoMemory, filled, reserve, reserved};
use rayon::prelude::*;
use std::hint::select_unpredictable;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

/// Chunks that one thread decodes at a time.
pub const LANES: usize = 4;

/// Symbols of which one task says what they leave behind, at least.
const TASK_TRACES: usize = 1 << 12;

/// Tasks that the chunks of a level or a root are cut into, for each thread, at most.
const TASKS_A_THREAD: usize = 4;

/// What a symbol leaves behind for the next ones: its right class and the group of what is before its end, or
/// [`Trace::OPEN`], if only the symbols before it decide that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trace(u16);

impl Trace {
    const OPEN: u16 = 1 << 15;
    const GROUP_BITS: u32 = GROUPS_MAX.ilog2();
    /// Traces without [`Trace::OPEN`] are below: `CLASSES_MAX` itself stands for nothing.
    const END: usize = (2 * CLASSES_MAX) << Trace::GROUP_BITS;

    /// The trace of a symbol with such ends.
    pub fn of(ends: Ends, contexts: &Contexts) -> Trace {
        let right = u16::from(ends.right) << Trace::GROUP_BITS;
        Trace(match ends.before {
            NONE => right | Trace::OPEN,
            before => right | u16::from(contexts.groups[usize::from(before)]),
        })
    }

    /// The right class.
    #[inline(always)]
    fn right(self) -> usize {
        usize::from(self.0 >> Trace::GROUP_BITS) % (2 * CLASSES_MAX)
    }

    /// With `group` where it is open.
    #[inline(always)]
    fn closed(self, group: u8) -> Trace {
        let is_open = (self.0 >> 15).wrapping_neg();
        Trace(self.0 & !Trace::OPEN | u16::from(group) & is_open)
    }

    /// With another right class.
    fn with_right(self, right: u8) -> Trace {
        let low = (1 << Trace::GROUP_BITS) - 1;
        Trace(u16::from(right) << Trace::GROUP_BITS | self.0 & (Trace::OPEN | low))
    }
}

/// Tables of classes.
pub type ClassLookup = Lookup<CLASSES_MAX>;

/// Tables of actions, those of bodies or those of the root.
pub type ActionLookup = Lookup<64>;

/// The tables that decode all chunks.
pub struct ChunkModel {
    /// The row of the class tables by closed trace.
    pub(super) rows: Box<[u16; Trace::END]>,
    /// The group of each class.
    pub(super) groups: Box<[u8; 2 * CLASSES_MAX]>,
    /// Before the first symbol.
    nothing: Trace,
    pub(super) class_lookup: ClassLookup,
    /// By class, then action.
    pub(super) buckets: Box<[[Bucket; BUCKETS]; CLASSES_MAX]>,
    /// By class and frequency class the first rank.
    starts: Vec<u32>,
    /// By rank what the symbol leaves behind: what decoding waits for, so kept small. Known level by level.
    pub(super) traces: Vec<AtomicU16>,
    /// By rank the symbol, looked up when a chunk is done.
    pub(super) symbols: Vec<AtomicU32>,
}

/// [`ACTIONS`], rounded up to a power of two.
const BUCKETS: usize = 64;

/// What an action of a class leads to: for new ones the symbols of one frequency class, for repeats distances.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket {
    /// Where they begin in the ranking; the least distance.
    pub(super) start: u32,
    /// How one of them is written.
    pub(super) below: Below,
}

impl ChunkModel {
    /// A model by which nothing may be used yet; `starts` and `symbols` are those of a rank table.
    pub fn new(
        classes: usize,
        contexts: &Contexts,
        class_lookup: ClassLookup,
        starts: Vec<u32>,
        symbols: Vec<AtomicU32>,
    ) -> Result<ChunkModel, NoMemory> {
        let mut rows = filled(0, Trace::END)?;
        for (row, &context) in rows.iter_mut().zip(&contexts.of) {
            *row = class_row(usize::from(context)) as u16; // at most CONTEXTS_MAX
        }
        let mut groups = filled(0, 2 * CLASSES_MAX)?;
        groups[..contexts.groups.len()].copy_from_slice(&contexts.groups);
        let nothing = Ends {
            left: 0,
            right: classes as u8, // at most CLASSES_MAX
            before: classes as u8,
        };
        // What may not be used leads to ranks that no symbol has.
        let nowhere = Bucket {
            start: (symbols.len() - RANKS_SPARE) as u32, // symbols are below 2^31
            below: Below::bits(0),
        };
        let mut actions = [nowhere; BUCKETS];
        for (action, bucket) in actions[..REPEATS].iter_mut().enumerate() {
            let (bits, start) = distance_bits(action);
            let below = Below::bits(bits);
            *bucket = Bucket { start, below };
        }
        let buckets = filled(actions, CLASSES_MAX)?;
        let mut traces = reserved(symbols.len())?;
        traces.resize_with(symbols.len(), AtomicU16::default);
        Ok(ChunkModel {
            rows: rows.try_into().expect("made with this length"),
            groups: groups.try_into().expect("made with this length"),
            nothing: Trace::of(nothing, contexts),
            class_lookup,
            buckets: buckets.try_into().expect("made with this length"),
            starts,
            traces,
            symbols,
        })
    }

    /// Says what symbols leave behind, of which the ranks are given. Parallel on the current pool.
    pub fn set_traces(&mut self, ranks: &[u32], traces: &[Trace]) {
        let own = &self.traces[..];
        let symbols = ranks.par_iter().zip(traces).with_min_len(TASK_TRACES);
        symbols.for_each(|(&rank, trace)| {
            if rank != UNRANKED {
                own[rank as usize].store(trace.0, Ordering::Relaxed);
            }
        });
    }

    /// Lets symbols be used up to `ends`, those of a level in a rank table.
    pub fn admit(&mut self, ends: &[u32]) {
        let starts = self.starts.chunks_exact(FREQUENCIES);
        let ranges = starts.zip(ends.chunks_exact(FREQUENCIES));
        for (actions, (starts, ends)) in self.buckets.iter_mut().zip(ranges) {
            let ranges = starts.iter().zip(ends);
            for (bucket, (&start, end)) in actions[REPEATS..].iter_mut().zip(ranges) {
                if *end > start {
                    let below = Below::new(end - start);
                    *bucket = Bucket { start, below };
                }
            }
        }
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        self.class_lookup.bytes()
            + size_of_val(&self.buckets[..])
            + size_of_val(&self.starts[..])
            + size_of_val(&self.traces[..])
            + size_of_val(&self.symbols[..])
    }

    /// A rank that no symbol has.
    pub(super) fn no_rank(&self) -> u32 {
        (self.symbols.len() - RANKS_SPARE) as u32 // symbols are below 2^31
    }

    /// The group before the first symbol.
    #[inline(always)]
    pub(super) fn nothing_group(&self) -> u8 {
        self.groups[self.nothing.right()]
    }

    /// The symbol of a rank, [`NO_SYMBOL`] if it has none.
    #[inline(always)]
    fn symbol(&self, rank: u32) -> u32 {
        self.symbols[rank as usize].load(Ordering::Relaxed)
    }
}

/// A chunk to be decoded.
pub struct ChunkWork<'a> {
    /// Its bytes.
    pub coded: &'a [u8],
    /// Where its symbols go, first symbols of bodies too.
    pub target: &'a mut [u32],
    /// The rules whose bodies they are; none for the root.
    pub bodies: Option<BodyWork<'a>>,
}

/// The rules of a chunk.
pub struct BodyWork<'a> {
    /// `[rules + 1]`: where each body begins.
    pub offsets: &'a [u32],
    /// The first symbol of each body.
    pub first: &'a [u32],
    /// What all symbols of lower levels leave behind.
    pub lower: &'a [Trace],
    /// The right class of each rule that has its own.
    pub own_right: &'a (dyn Fn(usize) -> Option<u8> + Sync),
    /// The first of the rules.
    pub first_rule: usize,
    /// What each rule leaves behind: an output.
    pub traces: &'a mut [Trace],
}

/// Decodes chunks of one part, whose action tables are given. Parallel on the current pool.
pub fn decode_chunks(
    work: Vec<ChunkWork<'_>>,
    model: &ChunkModel,
    actions: &ActionLookup,
) -> Result<(), DecodeError> {
    let tasks = TASKS_A_THREAD * rayon::current_num_threads();
    let task_chunks = work.len().div_ceil(tasks).max(LANES);
    let has_bodies = work.iter().any(|work| work.bodies.is_some());
    (work.into_par_iter().chunks(task_chunks)).try_for_each(|work| {
        if has_bodies {
            decode_in_turn::<true>(work, model, actions)
        } else {
            decode_in_turn::<false>(work, model, actions)
        }
    })
}

/// Decodes chunks, of bodies or of the root, on this thread, several at a time.
pub fn decode_in_turn<const BODIES: bool>(
    work: Vec<ChunkWork<'_>>,
    model: &ChunkModel,
    actions: &ActionLookup,
) -> Result<(), DecodeError> {
    let mut work = work.into_iter();
    let mut lanes: Vec<ScalarLane<'_, BODIES>> = reserved(LANES.min(work.len()))?;
    for chunk in work.by_ref().take(LANES) {
        lanes.push(ScalarLane::new(model, chunk)?);
    }
    while !lanes.is_empty() {
        if let Some(lanes) = lanes.first_chunk_mut::<LANES>() {
            step_together(lanes, model, actions);
        } else if let Some(lanes) = lanes.first_chunk_mut::<2>() {
            step_together(lanes, model, actions);
        } else if let Some(lanes) = lanes.first_chunk_mut::<1>() {
            step_together(lanes, model, actions);
        }
        let mut place = 0;
        while let Some(ScalarLane { lane, history }) = lanes.get_mut(place) {
            if lane.left() > 0 {
                place += 1;
                continue;
            }
            lane.look_up(model);
            lane.finish()?;
            match work.next() {
                Some(chunk) => {
                    lane.begin(model, chunk)?;
                    history.clear(model.no_rank());
                }
                None => drop(lanes.swap_remove(place)),
            }
        }
    }
    Ok(())
}

/// A chunk that is decoded symbol by symbol.
struct ScalarLane<'a, const BODIES: bool> {
    lane: Lane<'a, BODIES>,
    history: RankHistory,
}

impl<'a, const BODIES: bool> ScalarLane<'a, BODIES> {
    fn new(
        model: &'a ChunkModel,
        chunk: ChunkWork<'a>,
    ) -> Result<ScalarLane<'a, BODIES>, NoMemory> {
        let (lane, mut history) = (Lane::new(model, chunk)?, RankHistory::new());
        history.clear(model.no_rank());
        Ok(ScalarLane { lane, history })
    }
}

/// Decodes symbols of all lanes until one is done. Step by step: each step is a chain of loads, and those of different lanes
/// overlap.
fn step_together<const BODIES: bool, const N: usize>(
    lanes: &mut [ScalarLane<'_, BODIES>; N],
    model: &ChunkModel,
    actions: &ActionLookup,
) {
    let left = lanes.iter().map(|scalar| scalar.lane.left());
    let steps = left.min().unwrap_or(0);
    let traces = &model.traces[..];
    for _ in 0..steps {
        let mut classes = [0; N];
        for (ScalarLane { lane, .. }, class) in lanes.iter_mut().zip(&mut classes) {
            *class = lane.class(model);
        }
        let mut chosen = [0; N];
        for (place, ScalarLane { lane, history }) in lanes.iter_mut().enumerate() {
            chosen[place] = lane.action(actions, history, classes[place]);
        }
        let mut ranks = [0; N];
        for (place, ScalarLane { lane, history }) in lanes.iter_mut().enumerate() {
            ranks[place] = lane.rank(model, history, classes[place], chosen[place]);
        }
        for (ScalarLane { lane, .. }, &rank) in lanes.iter_mut().zip(&ranks) {
            let trace = Trace(traces[rank as usize].load(Ordering::Relaxed));
            lane.settle(model, rank, trace);
        }
    }
}

/// A chunk being decoded.
pub struct Lane<'a, const BODIES: bool> {
    decoder: Decoder<'a>,
    /// Holds the place in the ranking for a symbol until the end; coded symbols come after those that are not coded.
    target: &'a mut [u32],
    /// Where in the target the next coded symbol goes.
    place: usize,
    /// In bodies, for each coded symbol the trace that it follows, if that is not the one before; once decoded, its own
    /// trace.
    traces: Vec<Trace>,
    /// What the last symbol left behind, and the group of the one before it.
    last: Trace,
    group_before: u8,
    uncoded: usize,
    bodies: Option<BodyWork<'a>>,
    /// The group of each class.
    groups: &'a [u8; 2 * CLASSES_MAX],
    /// Words that a lane of a vector was given.
    #[cfg(target_arch = "x86_64")]
    given: usize,
}

/// The symbol follows the one before.
const GOES_ON: Trace = Trace(u16::MAX);

impl<'a, const BODIES: bool> Lane<'a, BODIES> {
    /// A lane that has taken up a chunk.
    pub fn new(model: &'a ChunkModel, chunk: ChunkWork<'a>) -> Result<Lane<'a, BODIES>, NoMemory> {
        let mut lane = Lane {
            decoder: Decoder::new(&[]),
            target: &mut [],
            place: 0,
            traces: Vec::new(),
            last: model.nothing,
            group_before: 0,
            uncoded: 0,
            bodies: None,
            groups: &model.groups,
            #[cfg(target_arch = "x86_64")]
            given: 0,
        };
        lane.begin(model, chunk)?;
        Ok(lane)
    }

    /// Takes up a chunk.
    pub fn begin(&mut self, model: &ChunkModel, chunk: ChunkWork<'a>) -> Result<(), NoMemory> {
        self.decoder = Decoder::new(chunk.coded);
        #[cfg(target_arch = "x86_64")]
        self.forget_words();
        self.target = chunk.target;
        self.last = model.nothing;
        self.group_before = model.nothing_group();
        self.uncoded = chunk.bodies.as_ref().map_or(0, |bodies| bodies.first.len());
        self.place = self.uncoded;
        self.bodies = chunk.bodies;
        if let Some(bodies) = &self.bodies {
            self.traces.clear();
            let coded = self.target.len() - self.uncoded;
            reserve(&mut self.traces, coded)?;
            self.traces.resize(coded, GOES_ON);
            let mut place = 0;
            for (offsets, &first) in bodies.offsets.windows(2).zip(bodies.first) {
                self.traces[place] = bodies.lower[first as usize];
                place += (offsets[1] - offsets[0]) as usize - 1;
            }
        }
        Ok(())
    }

    /// Symbols left.
    pub fn left(&self) -> usize {
        self.target.len() - self.place
    }

    /// The class of the next symbol.
    #[inline(always)]
    fn class(&mut self, model: &ChunkModel) -> usize {
        let mut group = self.group_before;
        if BODIES {
            let own = self.traces[self.place - self.uncoded];
            let begins = own != GOES_ON;
            self.last = select_unpredictable(begins, own, self.last);
            group = select_unpredictable(begins, model.nothing_group(), group);
        }
        let row = model.rows[usize::from(self.last.closed(group).0) % Trace::END];
        (model.class_lookup).symbol(&mut self.decoder, usize::from(row))
    }

    /// Which symbol of the class, roughly.
    #[inline(always)]
    fn action(&mut self, actions: &ActionLookup, history: &RankHistory, class: usize) -> usize {
        // The tables of the other part are not in it.
        let row = action_row(0, 0, class, history.fill(class));
        actions.symbol(&mut self.decoder, row)
    }

    /// Its place in the ranking.
    #[inline(always)]
    fn rank(
        &mut self,
        model: &ChunkModel,
        history: &mut RankHistory,
        class: usize,
        action: usize,
    ) -> u32 {
        // Both kinds of action lead to a place in the ranking without a branch: it would be mispredicted too often.
        let bucket = model.buckets[class % CLASSES_MAX][action % BUCKETS];
        let value = bucket.start.wrapping_add(self.decoder.below(bucket.below));
        let repeated = history.rank(class, value);
        let rank = select_unpredictable(action < REPEATS, repeated, value);
        history.push(class, rank);
        rank
    }

    /// Takes the symbol that was found.
    #[inline(always)]
    fn settle(&mut self, model: &ChunkModel, rank: u32, trace: Trace) {
        self.target[self.place] = rank;
        if BODIES {
            self.traces[self.place - self.uncoded] = trace;
        }
        self.place += 1;
        self.group_before = model.groups[self.last.right()];
        self.last = trace;
    }

    /// Says that the lane of the vector is another one, which has no words yet.
    #[cfg(target_arch = "x86_64")]
    pub fn forget_words(&mut self) {
        self.given = self.decoder.place();
    }

    /// Puts what the next steps need into a lane of a vector.
    #[cfg(target_arch = "x86_64")]
    pub fn enter(&mut self, group: &mut WideGroup, lane: usize, steps: usize) {
        group.states[lane] = self.decoder.state();
        let place = self.decoder.place();
        // Counted modulo 2^32, of which a ring is a part.
        group.used[lane] = place as u32;
        group.last[lane] = u32::from(self.last.0);
        group.group_before[lane] = u32::from(self.group_before);
        let ring = &mut group.words[lane];
        for word in self.given..place + ring.len() {
            ring[word % ring.len()] = self.decoder.word(word);
        }
        self.given = place + ring.len();
        if BODIES {
            let from = self.place - self.uncoded;
            let own = self.traces[from..from + steps].iter();
            for (traces, own) in group.traces.iter_mut().zip(own) {
                traces[lane] = u32::from(own.0);
            }
        }
    }

    /// Takes over the results of `steps` steps.
    #[cfg(target_arch = "x86_64")]
    pub fn leave(&mut self, group: &WideGroup, lane: usize, steps: usize) {
        let used = group.used[lane].wrapping_sub(self.decoder.place() as u32);
        (self.decoder).resume(group.states[lane], used as usize);
        // Traces and groups came out of tables of 16 and 8 bits.
        self.last = Trace(group.last[lane] as u16);
        self.group_before = group.group_before[lane] as u8;
        let target = &mut self.target[self.place..self.place + steps];
        for (symbol, symbols) in target.iter_mut().zip(&group.symbols[..]) {
            *symbol = symbols[lane];
        }
        if BODIES {
            let from = self.place - self.uncoded;
            let own = self.traces[from..from + steps].iter_mut();
            for (own, traces) in own.zip(&group.traces[..]) {
                *own = Trace(traces[lane] as u16);
            }
        }
        self.place += steps;
    }

    /// Puts symbols where their places in the ranking are.
    fn look_up(&mut self, model: &ChunkModel) {
        for symbol in &mut self.target[self.uncoded..] {
            *symbol = model.symbol(*symbol);
        }
    }

    /// Puts symbols where they belong, and says what rules leave behind.
    pub fn finish(&mut self) -> Result<(), Fault> {
        self.decoder.finish()?;
        let symbols = self.target[self.uncoded..].iter();
        if symbols.copied().fold(0, u32::max) == NO_SYMBOL {
            return Err(Fault("it uses a symbol that does not exist"));
        }
        let Some(bodies) = &mut self.bodies else {
            return Ok(());
        };
        // The symbols to come are never written over: as many bodies have begun as there are first symbols before them.
        let (mut target, mut coded) = (0, 0);
        for (rule, (offsets, &first)) in bodies.offsets.windows(2).zip(bodies.first).enumerate() {
            let length = (offsets[1] - offsets[0]) as usize;
            self.target[target] = first;
            for symbol in 1..length {
                self.target[target + symbol] = self.target[self.uncoded + coded + symbol - 1];
            }
            target += length;
            coded += length - 1;
            let before = match length {
                2 => bodies.lower[first as usize],
                _ => self.traces[coded - 2],
            };
            let mut trace = self.traces[coded - 1].closed(self.groups[before.right()]);
            if let Some(right) = (bodies.own_right)(bodies.first_rule + rule) {
                trace = trace.with_right(right);
            }
            bodies.traces[rule] = trace;
        }
        Ok(())
    }
}

/// The symbols that a chunk met lately, class by class, as [`super::history::History`], by rank.
struct RankHistory {
    /// Ring buffers, one a class.
    rings: [[u32; HISTORY]; CLASSES_MAX],
    /// Number of symbols that each class has met, up to 255: from 256 on less a multiple of [`HISTORY`].
    met: [u8; CLASSES_MAX],
}

impl RankHistory {
    /// The level of a history by the number of symbols that its class has met.
    const FILLS: [u8; 256] = {
        let mut fills = [0; 256];
        let mut met = 0;
        while met < 256 {
            fills[met] = fill_of(met as u32) as u8; // below FILLS
            met += 1;
        }
        fills
    };

    fn new() -> RankHistory {
        RankHistory {
            rings: [[0; HISTORY]; CLASSES_MAX],
            met: [0; CLASSES_MAX],
        }
    }

    /// Forgets all; `none` is the rank of what was not met.
    fn clear(&mut self, none: u32) {
        self.rings.as_flattened_mut().fill(none);
        self.met.fill(0);
    }

    #[inline(always)]
    fn fill(&self, class: usize) -> usize {
        usize::from(RankHistory::FILLS[usize::from(self.met[class % CLASSES_MAX])])
    }

    /// The rank of class `class` met `distance` ago; 0 is the last one.
    #[inline(always)]
    fn rank(&self, class: usize, distance: u32) -> u32 {
        let last = u32::from(self.met[class % CLASSES_MAX]).wrapping_sub(1);
        self.rings[class % CLASSES_MAX][last.wrapping_sub(distance) as usize % HISTORY]
    }

    #[inline(always)]
    fn push(&mut self, class: usize, rank: u32) {
        let met = self.met[class % CLASSES_MAX];
        self.rings[class % CLASSES_MAX][usize::from(met) % HISTORY] = rank;
        let wrapped = const { (256 - HISTORY) as u8 };
        self.met[class % CLASSES_MAX] = if met == u8::MAX { wrapped } else { met + 1 };
    }
}
