//! The sequence after a round: what was taken becomes rules' symbols.
//!
//! Chunks are written over themselves. The invariants: afterwards every
//! position has the number of its pair, or is marked fresh; and the counts,
//! once [`apply_events`] has brought them up to date, are those of the new
//! sequence, fresh pairs excepted. Fresh pairs are numbered elsewhere.
//!
//! A pair is changed when either of its symbols is a new one. A changed pair is
//! a new pair, for a new symbol occurs in no older one, and it occurs at most
//! as often as the pair that was there before, since wherever it stands that
//! one stood. So in place of a pair that occurred once nothing ever can be
//! taken: such positions have number 0 from then on and cost nothing more.
//!
//! A run that loses its first symbol to a pair before it has its candidates at
//! the other half of its positions from then on.

use std::ops::Range;

use rayon::prelude::*;

use crate::construct::pair_rounds::chunked::{Chunk, Chunked};
use crate::construct::pair_rounds::number::Fresh;
use crate::construct::pair_rounds::select::Taken;
use crate::construct::pairs::ODD;
use crate::numbers::bits::Bits;

/// Flag of an event: one more, not one less.
const MORE: u32 = 1 << 31;

/// Parts of the range of numbers; the counts of one part fit into a core's cache.
const RANGES: usize = 16;

/// Chunks that share lists of events.
const GROUP: usize = 8;

/// Taken positions, as a fraction of all positions at first, whose events wait at a time.
const BATCH: usize = 16;

/// Pair numbers that lost a candidate, or won one if flagged, by part of their range.
type Events = [Vec<u32>; RANGES];

/// Replaces what was taken and brings the counts up to date, except for the fresh pairs, which
/// are returned by chunk; `live` are the numbers of the pairs that occur twice or more.
pub(super) fn replace(
    chunked: &mut Chunked,
    taken: &[Taken],
    live: &Bits,
    counts: &mut [u32],
) -> Vec<Fresh> {
    // A pair at the last position of a chunk takes the first symbol of the next.
    let spans = |k: usize| taken[k].contains(chunked.chunks[k].length - 1);
    let spans: Vec<bool> = (0..taken.len()).map(spans).collect();
    let first = |k: usize| usize::from(k > 0 && spans[k - 1]);
    let first_is_new = |k: usize| taken.get(k).is_some_and(|taken| taken.contains(first(k)));
    let waiting_max = chunked.symbols.len() / BATCH;
    let parts = chunked.parts();
    let arrays = parts.symbols.into_iter().zip(parts.numbers);
    let mut jobs: Vec<Job> = arrays
        .zip(parts.chunks)
        .enumerate()
        .map(|(k, ((symbols, numbers), chunk))| Job {
            symbols,
            numbers,
            left: first(k)..chunk.length,
            chunk,
            taken: &taken[k],
            next_is_new: first_is_new(k + 1),
            fresh: Vec::new(),
        })
        .collect();
    let mut rest = jobs.as_mut_slice();
    while !rest.is_empty() {
        let mut waiting = 0;
        let has_room = |job: &&Job| {
            let has_room = waiting <= waiting_max;
            waiting += job.taken.count();
            has_room
        };
        let batch_size = rest.iter().take_while(has_room).count();
        let (batch, behind) = rest.split_at_mut(batch_size);
        rest = behind;
        let shift = range_shift(counts);
        let write = |jobs: &mut [Job]| {
            let mut events = Events::default();
            for job in jobs {
                job.write(live, &mut events, shift);
            }
            events
        };
        let events: Vec<Events> = batch.par_chunks_mut(GROUP).map(write).collect();
        apply_events(counts, &events);
    }
    jobs.into_iter().map(|job| job.fresh).collect()
}

/// A chunk to be written.
struct Job<'a> {
    /// The chunk's, and what is behind.
    symbols: &'a mut [u32],
    numbers: &'a mut [u32],
    chunk: &'a mut Chunk,
    /// Positions that no pair takes which begins before the chunk.
    left: Range<usize>,
    taken: &'a Taken,
    /// Whether the symbol behind the chunk is a new one.
    next_is_new: bool,
    /// Positions written whose pairs are new, 64 a word.
    fresh: Fresh,
}

impl Job<'_> {
    fn write(&mut self, live: &Bits, events: &mut Events, shift: u32) {
        let mut writer = ChunkWriter {
            symbols: self.symbols,
            numbers: self.numbers,
            filled: 0,
            live,
            events,
            shift,
            fresh: vec![0; self.chunk.length.div_ceil(64)],
        };
        writer.write(self.left.clone(), self.taken, self.next_is_new);
        self.chunk.length = writer.filled;
        self.fresh = writer.fresh;
    }
}

/// Writes a chunk over itself: nothing is written before it was read.
struct ChunkWriter<'a> {
    /// The chunk, and what is behind it.
    symbols: &'a mut [u32],
    numbers: &'a mut [u32],
    /// Positions written.
    filled: usize,
    live: &'a Bits,
    events: &'a mut Events,
    /// See [`range_shift`].
    shift: u32,
    /// Positions written whose pairs are new, 64 a word.
    fresh: Fresh,
}

impl ChunkWriter<'_> {
    /// Writes the chunk, of which the positions of `range` are left;
    /// `next_is_new`: so is the symbol behind it.
    fn write(&mut self, range: Range<usize>, taken: &Taken, next_is_new: bool) {
        let mut i = range.start;
        let mut after_new = i > 0;
        let mut last_id = None;
        // Offset of the last symbol from the start of its run, if it is a new one.
        let mut run = 0;
        taken.for_each(|position, id| {
            if i == position && last_id == Some(id) {
                self.change_last(i - 1, if run % 2 == 0 { 0 } else { ODD });
                run += 1;
            } else {
                if last_id.is_some() {
                    self.change_last(i - 1, 0);
                }
                if i < position {
                    self.copy(i..position, after_new);
                    self.change_last(position - 1, 0);
                }
                run = 0;
            }
            self.lose(self.numbers[position]);
            self.symbols[self.filled] = id;
            self.filled += 1;
            i = position + 2;
            after_new = true;
            last_id = Some(id);
        });
        if last_id.is_some() {
            self.change_last(i - 1, 0);
        }
        if i < range.end {
            self.copy(i..range.end, after_new);
            if next_is_new {
                self.change_last(range.end - 1, 0);
            }
        }
    }

    /// Copies a stretch of which nothing is replaced; `after_new`: the symbol before it was.
    fn copy(&mut self, stretch: Range<usize>, after_new: bool) {
        let begin = self.filled;
        self.filled += stretch.len();
        if begin < stretch.start {
            self.symbols.copy_within(stretch.clone(), begin);
            self.numbers.copy_within(stretch, begin);
        }
        let number = self.numbers[begin];
        if after_new && number & ODD != 0 {
            self.shift_run(begin, number & !ODD);
        }
    }

    /// Makes `begin`, at an odd offset of a run up to now, the run's start.
    fn shift_run(&mut self, begin: usize, number: u32) {
        let symbols = self.symbols[begin..self.filled].windows(2);
        let length = symbols.take_while(|pair| pair[0] == pair[1]).count();
        for number in &mut self.numbers[begin..begin + length] {
            *number ^= ODD;
        }
        if length % 2 == 1 && self.live.get(number) == 1 {
            self.note(number, MORE);
        }
    }

    /// Records that the pair at the last position written is changed. It was at `old`; it gets
    /// `flag` as its number until it is numbered.
    fn change_last(&mut self, old: usize, flag: u32) {
        let number = self.numbers[old];
        let last = self.filled - 1;
        if self.live.get(number & !ODD) == 1 {
            self.lose(number);
            self.numbers[last] = flag;
            self.fresh[last / 64] |= 1 << (last % 64);
        } else {
            self.numbers[last] = 0;
        }
    }

    /// Notes that a pair that occurs twice or more is gone from a position.
    fn lose(&mut self, number: u32) {
        if number & ODD == 0 {
            self.note(number, 0);
        }
    }

    fn note(&mut self, number: u32, flag: u32) {
        self.events[(number >> self.shift) as usize % RANGES].push(number | flag);
    }
}

/// The shift that gives the range of a number: its bits from this one on.
fn range_shift(counts: &[u32]) -> u32 {
    counts.len().div_ceil(RANGES).next_power_of_two().ilog2()
}

/// Brings counts up to date.
fn apply_events(counts: &mut [u32], events: &[Events]) {
    let shift = range_shift(counts);
    let ranges = counts.par_chunks_mut(1 << shift).enumerate();
    ranges.for_each(|(range, counts)| {
        for &event in events.iter().flat_map(|events| &events[range]) {
            let count = &mut counts[event as usize & ((1 << shift) - 1)];
            if event & MORE == 0 {
                *count -= 1;
            } else {
                *count += 1;
            }
        }
    });
}
