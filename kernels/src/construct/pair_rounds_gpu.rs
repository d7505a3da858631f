//! Rounds that replace repeated pairs by rules, on a GPU.
//!
//! The invariant: rules, sequence and number of rounds are those of the CPU's
//! `pair_rounds`, which says what a round does. Here positions have numbers of
//! their pairs, numbers have exact counts, and only pairs that a round makes
//! are hashed. Once a round the host waits for a few words: how many pairs
//! are to be named, and what the threshold came from, which the kernels compute.

use std::sync::atomic::AtomicBool;

use crate::construct::constructed::Parameters;
use crate::construct::pairs::{DEPTH_MAX, LAST, WEAK};
use crate::construct::step::{Step, check_stop};
use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Launch, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::merge_sort::Items;

/// Positions, numbers or slots that a block takes.
const TILE: usize = 2048;

/// Items of a tile that a thread takes.
const SWEEP_ITEMS: usize = TILE / THREADS as usize;

/// Positions of a row, and of the rows of a tile that are its own when positions are taken.
const ROW: usize = 32;
const SELECT_TILE: usize = TILE - 2 * ROW;

/// Bytes of a symbol and of the number of its pair.
const POSITION_BYTES: usize = 2 * size_of::<u32>();

/// Slots of the table of new pairs, in halves of a pair: 2 of 3 are used at most.
const SLOTS_HALVES: usize = 3;

/// Most probes for a slot when all pairs are counted at first, with a table for fewer.
const PROBES_FIRST: u32 = 256;

/// Logarithm of the places in a block's cache of counts.
const CACHE_BITS: u64 = 10;

/// Tiles that a lane looks back at, at a time.
const LANE_TILES: u64 = 4;

/// The table of new pairs is swept if at least 1/SWEEP_SHARE of its slots is used, else the used slots are visited
/// one by one.
const SWEEP_SHARE: usize = 64;

/// Look-ups that a thread waits for at a time.
const LOOK_UPS: u64 = 4;

/// Blocks of a multiprocessor that take positions.
const SELECT_RESIDENT: u32 = 6;

/// Blocks of a multiprocessor that write the next sequence.
const REPLACE_RESIDENT: u64 = 6;

pub(crate) static SOURCE: Source = Source {
    name: "pair_rounds.cu",
    text: include_str!("pair_rounds.cu"),
    headers: &[],
    constants: &[
        ("PAIR_THREADS", THREADS as u64),
        ("PAIR_TILE", TILE as u64),
        ("PAIR_CACHE_BITS", CACHE_BITS),
        ("PAIR_LOOK_UPS", LOOK_UPS),
        ("PAIR_SWEEP_SHARE", SWEEP_SHARE as u64),
        ("PAIR_LANE_TILES", LANE_TILES),
        ("PAIR_REPLACE_RESIDENT", REPLACE_RESIDENT),
        ("PAIR_SELECT_RESIDENT", SELECT_RESIDENT as u64),
        ("PAIR_LAST", LAST as u64),
        ("PAIR_WEAK", WEAK as u64),
        ("PAIR_DEPTH_MAX", DEPTH_MAX as u64),
    ],
};

/// What the rounds leave: rule `terminal_count + r` is `pairs[r]`.
pub(super) struct DevicePaired {
    /// Left symbol in the upper half; the first [`DevicePaired::rules`] of them.
    pub(super) pairs: Buffer<u64>,
    /// By round: how many rules there are after it.
    pub(super) round_ends: Vec<usize>,
    /// The files' symbols, a separator after each file; the first [`DevicePaired::length`] of them.
    pub(super) sequence: Buffer<u32>,
    pub(super) length: usize,
}

impl DevicePaired {
    pub(super) fn rules(&self) -> usize {
        self.round_ends.last().copied().unwrap_or(0)
    }
}

/// `State` of the kernels.
#[derive(Clone, Copy, Debug)]
struct State {
    most: u32,
    length: usize,
    numbers: usize,
    named: usize,
    taken: usize,
    is_wrong: bool,
    fresh: usize,
    is_full: bool,
    threshold: u32,
    symbols_before: usize,
}

const STATE_WORDS: usize = 12;

/// Which word is the number of pairs that are listed, and which the threshold.
const NAMED: usize = 4;
const THRESHOLD: usize = 10;

impl State {
    fn download(gpu: &Gpu, words: &Buffer<u32>) -> Result<State, GpuError> {
        let mut state = [0; STATE_WORDS];
        gpu.download_from(words, 0, &mut state)?;
        let [
            most,
            length,
            numbers,
            _,
            named,
            taken,
            _,
            is_wrong,
            fresh,
            is_full,
            threshold,
            symbols_before,
        ] = state;
        Ok(State {
            most,
            length: length as usize,
            numbers: numbers as usize,
            named: named as usize,
            taken: taken as usize,
            is_wrong: is_wrong != 0,
            fresh: fresh as usize,
            is_full: is_full != 0,
            threshold,
            symbols_before: symbols_before as usize,
        })
    }

    /// The threshold of the next round; `None` if there is none. Kernels find the same.
    fn next_threshold(&self, files: usize, parameters: &Parameters) -> Option<u32> {
        let mut threshold = self.threshold;
        let mut is_over = self.most < 2;
        if self.symbols_before > 0 {
            let removed = self.symbols_before - (self.length - files);
            is_over |= threshold == 2 && removed * LAST < self.symbols_before;
            if removed * WEAK < self.symbols_before {
                threshold = (threshold / 2).max(2);
            }
        }
        (!is_over).then(|| threshold.min(parameters.threshold(self.most)))
    }
}

/// What is known of pairs by number.
struct Numbers {
    keys: Buffer<u64>,
    counts: Buffer<u32>,
    /// Zeros between rounds.
    uses: Buffer<u32>,
}

impl Numbers {
    fn new(gpu: &Gpu, capacity: usize) -> Result<Numbers, GpuError> {
        Ok(Numbers {
            keys: gpu.allocate(capacity)?,
            counts: gpu.allocate(capacity)?,
            uses: gpu.zeroed(capacity)?,
        })
    }

    /// Makes room; `used` numbers are in use, and their uses 0.
    fn reserve(&mut self, gpu: &Gpu, used: usize, capacity: usize) -> Result<(), GpuError> {
        if self.keys.len() < capacity {
            let larger = Numbers::new(gpu, capacity)?;
            gpu.copy(&larger.keys, 0, &self.keys, used)?;
            gpu.copy(&larger.counts, 0, &self.counts, used)?;
            *self = larger;
        }
        Ok(())
    }
}

/// A sequence with the numbers of its pairs.
struct Sequence {
    symbols: Buffer<u32>,
    numbers: Buffer<u32>,
}

impl Sequence {
    fn new(gpu: &Gpu, length: usize) -> Result<Sequence, GpuError> {
        Ok(Sequence {
            symbols: gpu.allocate(length)?,
            numbers: gpu.allocate(length)?,
        })
    }
}

/// Everything that rounds work on.
struct Rounds<'a> {
    gpu: &'a Gpu,
    /// The same device, for what is downloaded while it works.
    beside: Gpu,
    terminal_count: u32,
    state: Buffer<u32>,
    now: Sequence,
    /// Where the next sequence is written.
    next: Sequence,
    /// Upper bounds: files; symbols and separators; numbers in use.
    files: usize,
    length: usize,
    numbers_max: usize,
    numbers: Numbers,
    /// Numbers of pairs of equal symbols.
    equals: Buffer<u32>,
    /// The table of new pairs: key, count, number. Empty when a sequence is written.
    entries: Buffer<[u64; 2]>,
    /// How many slots of it the last sequence had for its new pairs, and those that are in use.
    size: usize,
    slots: Buffer<u32>,
    /// A ticket, and words of a look-back. Zeros when a sequence is written.
    look_back: Buffer<u64>,
    taken: Buffer<u32>,
    named: Items,
    pairs: Buffer<u64>,
    depths: Buffer<u32>,
    rules: usize,
}

/// Runs the rounds.
///
/// # Panics
///
/// When a token is not below `terminal_count`, or `file_offsets` does not rise from 0 to the number of tokens.
pub(super) fn pair_rounds(
    gpu: &Gpu,
    tokens: &Buffer<u32>,
    file_offsets: &Buffer<u32>,
    terminal_count: u32,
    parameters: &Parameters,
    on_step: &mut dyn FnMut(Step),
    stop: &AtomicBool,
) -> Result<DevicePaired, GpuError> {
    let files = file_offsets.len() - 1;
    on_step(Step::Count);
    let mut rounds = Rounds::new(gpu, tokens, file_offsets, terminal_count)?;
    rounds.count_all(PROBES_FIRST)?;
    let mut round_ends = Vec::new();
    loop {
        on_step(Step::Select);
        // What it is to do it finds itself; only then the host learns it.
        let state = rounds.select(parameters)?;
        assert!(
            !state.is_wrong,
            "a token is not below the number of terminals, or file offsets do not rise to the number of tokens"
        );
        if state.is_full {
            on_step(Step::Count);
            rounds.count_again()?;
            continue;
        }
        let Some(threshold) = state.next_threshold(files, parameters) else {
            break;
        };
        check_stop(stop)?;
        on_step(Step::Name);
        rounds.name(&state, threshold)?;
        round_ends.push(rounds.rules);
        on_step(Step::Replace);
        rounds.replace(&state, on_step)?;
    }
    Ok(DevicePaired {
        pairs: rounds.pairs,
        round_ends,
        sequence: rounds.now.symbols,
        length: rounds.length,
    })
}

impl<'a> Rounds<'a> {
    /// The sequence of files, all of whose pairs are new.
    fn new(
        gpu: &'a Gpu,
        tokens: &Buffer<u32>,
        file_offsets: &Buffer<u32>,
        terminal_count: u32,
    ) -> Result<Rounds<'a>, GpuError> {
        let files = file_offsets.len() - 1;
        let length = tokens.len() + files;
        let state = gpu.zeroed(STATE_WORDS)?;
        gpu.upload_to(&state, THRESHOLD, &[u32::MAX])?;
        let now = Sequence::new(gpu, length)?;
        // Bit 30 of a number says that its pair is new.
        gpu.fill(&now.numbers, 0x40)?;
        // The caller has checked that both are below a u32.
        let (token_count, file_count) = (tokens.len() as u32, files as u32);
        gpu.launch(
            SOURCE
                .kernel("separate_kernel")
                .moving((tokens.len() + length) * size_of::<u32>()),
            Launch::tiles(length, TILE),
            arguments! {
                tokens,
                count: token_count,
                file_offsets,
                files: file_count,
                terminal_count,
                symbols: &now.symbols,
                state,
            },
        )?;
        Ok(Rounds {
            gpu,
            beside: gpu.beside()?,
            terminal_count,
            state,
            now,
            next: Sequence::new(gpu, length)?,
            files,
            length,
            numbers_max: length / 2 + 1,
            // At least two of the pairs at first have one number.
            numbers: Numbers::new(gpu, length / 2 + 1)?,
            // A pair of equal symbols takes four symbols of text, two of which go when it is replaced.
            equals: gpu.allocate(length / 2 + 1)?,
            // Most texts have far fewer pairs than tokens.
            entries: gpu.filled(length / 2 + ROW, 0xff)?,
            size: 0,
            slots: gpu.allocate(length)?,
            look_back: gpu.zeroed(1 + length.div_ceil(TILE))?,
            taken: gpu.zeroed(length.div_ceil(ROW))?,
            named: Items::new(gpu, 0)?,
            // Every rule shortens the sequence by two symbols at least.
            pairs: gpu.allocate(length / 2 + 1)?,
            depths: gpu.allocate(length / 2 + 1)?,
            rules: 0,
        })
    }

    /// Counts and numbers all pairs, which may be too many for the table.
    fn count_all(&mut self, probes_max: u32) -> Result<(), GpuError> {
        self.write_next(0, self.entries.len(), probes_max)?;
        self.number(0)
    }

    /// Counts all pairs with a larger table.
    fn count_again(&mut self) -> Result<(), GpuError> {
        self.gpu.fill(&self.state, 0)?;
        self.gpu.upload_to(&self.state, THRESHOLD, &[u32::MAX])?;
        self.gpu.fill(&self.look_back, 0)?;
        self.gpu.fill(&self.now.numbers, 0x40)?;
        self.make_entries(slots(self.length))?;
        // What was numbered before was not all.
        self.numbers_max = self.length / 2 + 1;
        self.count_all(u32::MAX)
    }

    /// Makes an empty table.
    fn make_entries(&mut self, size: usize) -> Result<(), GpuError> {
        self.entries = self.gpu.allocate(0)?;
        self.entries = self.gpu.filled(size, 0xff)?;
        Ok(())
    }

    /// Takes positions of pairs that reach the threshold, lists those that were taken again, and begins to sort them. Nothing
    /// if there is no further round.
    fn select(&mut self, parameters: &Parameters) -> Result<State, GpuError> {
        // Every rule takes four symbols at least.
        let named_max = self.numbers_max.min(self.length / 4 + 1);
        if self.named.capacity() < named_max {
            self.named = Items::new(self.gpu, 0)?;
            self.named = Items::new(self.gpu, named_max)?;
        }
        assert!(
            self.numbers.uses.len() >= self.numbers_max,
            "uses by number"
        );
        let files = as_u32(self.files);
        let (alpha_numerator, alpha_denominator) =
            (parameters.alpha_numerator, parameters.alpha_denominator);
        let own_rows = self.length.next_multiple_of(ROW);
        let mut launch = Launch::tiles(own_rows, SELECT_TILE);
        launch.blocks = launch
            .blocks
            .min(self.gpu.facts().processors * SELECT_RESIDENT);
        self.gpu.launch(
            SOURCE
                .kernel("select_kernel")
                .moving(self.length * POSITION_BYTES + self.length / 8),
            launch,
            arguments! {
                symbols: &self.now.symbols,
                numbers: &self.now.numbers,
                entries: &self.entries,
                counts: &self.numbers.counts,
                files,
                alpha_numerator,
                alpha_denominator,
                uses: &self.numbers.uses,
                taken: &self.taken,
                named_keys: self.named.keys(),
                named_numbers: self.named.values(),
                look_back: &self.look_back,
                state: &self.state,
            },
        )?;
        // The host learns how many there are while tiles of them are sorted.
        self.beside.follow(self.gpu)?;
        let listed = self.state.at(NAMED);
        self.named.sort_tiles(self.gpu, named_max, listed, None)?;
        let state = State::download(&self.beside, &self.state)?;
        self.length = state.length;
        self.numbers_max = state.numbers;
        Ok(state)
    }

    /// Makes rules of the pairs that are listed, which reached this threshold, and empties the table.
    fn name(&mut self, state: &State, threshold: u32) -> Result<(), GpuError> {
        let State { named, fresh, .. } = *state;
        assert!(
            self.rules + named <= self.pairs.len(),
            "more rules than pairs"
        );
        self.named.merge_tiles(self.gpu, named, None)?;
        let swept = if fresh * SWEEP_SHARE > self.size {
            self.size
        } else {
            fresh
        };
        self.gpu.launch(
            SOURCE.kernel("name_kernel"),
            self.gpu.looping(named.max(swept)),
            arguments! {
                named_keys: self.named.keys(),
                named_numbers: self.named.values(),
                named: as_u32(named),
                terminal_count: self.terminal_count,
                rules: as_u32(self.rules),
                uses: &self.numbers.uses,
                rule_pairs: &self.pairs,
                depths: &self.depths,
                counts: &self.numbers.counts,
                equals: &self.equals,
                entries: &self.entries,
                size: as_u32(self.size),
                slots: &self.slots,
                fresh: as_u32(fresh),
                threshold,
                symbols_before: as_u32(self.length - self.files),
                state: &self.state,
            },
        )?;
        self.rules += named;
        Ok(())
    }

    /// Writes the next sequence and numbers its new pairs.
    fn replace(&mut self, state: &State, on_step: &mut dyn FnMut(Step)) -> Result<(), GpuError> {
        // Each position that is taken makes two new pairs at most, and a number is for two.
        let size = slots(2 * state.taken);
        if self.entries.len() < size {
            self.make_entries(size)?;
        }
        self.write_next(state.taken, size, u32::MAX)?;
        on_step(Step::Number);
        self.numbers_max = state.numbers + state.taken;
        self.numbers
            .reserve(self.gpu, state.numbers, self.numbers_max)?;
        self.number(state.numbers)
    }

    /// Writes the next sequence, in which `taken` positions were taken, with a table of `size` slots for
    /// new pairs.
    fn write_next(&mut self, taken: usize, size: usize, probes_max: u32) -> Result<(), GpuError> {
        self.size = size;
        self.gpu.launch(
            SOURCE
                .kernel("replace_kernel")
                .moving((2 * self.length - taken) * POSITION_BYTES + self.length / 8),
            Launch::tiles(self.length, TILE),
            arguments! {
                symbols: &self.now.symbols,
                numbers: &self.now.numbers,
                length: as_u32(self.length),
                taken: &self.taken,
                uses: &self.numbers.uses,
                counts: &self.numbers.counts,
                entries: &self.entries,
                size: as_u32(size),
                probes_max,
                slots: &self.slots,
                symbols_out: &self.next.symbols,
                numbers_out: &self.next.numbers,
                words: self.look_back.at(1),
                ticket: self.look_back.at(0),
                state: &self.state,
            },
        )?;
        std::mem::swap(&mut self.now, &mut self.next);
        Ok(())
    }

    /// Numbers the new pairs; `numbers` had one before.
    fn number(&mut self, numbers: usize) -> Result<(), GpuError> {
        self.gpu.launch(
            SOURCE.kernel("number_kernel"),
            self.gpu.looping(numbers.max(self.size / SWEEP_ITEMS)),
            arguments! {
                entries: &self.entries,
                size: as_u32(self.size),
                slots: &self.slots,
                numbers: as_u32(numbers),
                keys: &self.numbers.keys,
                counts: &self.numbers.counts,
                uses: &self.numbers.uses,
                equals: &self.equals,
                state: &self.state,
            },
        )
    }
}

/// Slots of a table for `pairs` pairs.
fn slots(pairs: usize) -> usize {
    pairs * SLOTS_HALVES / 2 + ROW
}

/// Lengths are checked once, by `construct`.
fn as_u32(length: usize) -> u32 {
    u32::try_from(length).expect("less than the most tokens times 1.5")
}
