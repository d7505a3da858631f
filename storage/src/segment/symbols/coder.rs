//! `SymbolCoder`: counts symbols for the model and encodes them into blocks; the CPU and each device implement it.
//!
//! Invariant: every coder gives the same numbers and bytes, which are those of [`super::cpu_coder`]. A coder is asked in order:
//! frequencies, neighbours, counts of pasts, counts of events, blocks.

use super::chunks::CHUNK_SYMBOLS;
use super::classes::{CLASSES_MAX, Ends};
use super::contexts::{Contexts, GROUPS_MAX};
use super::history::{FILLS, HISTORY, REPEATS};
use super::model::{ACTIONS, Chunk, FREQUENCIES};
use super::runs::coded_symbols;
use crate::Grammar;
use crate::segment::coding::rans::{PROBABILITY_BITS, Share};
use std::borrow::Cow;

/// A repeat must save this factor of probability to be worth its own action.
pub const REPEAT_GAIN: u64 = 16;

/// The numbers of the format that coders share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolLimits {
    /// Coded symbols of a chunk of the roots.
    pub chunk_symbols: usize,
    /// Frequency classes are `1..=frequencies`.
    pub frequencies: usize,
    /// Actions that repeat a symbol; those above are new symbols by frequency class.
    pub repeats: usize,
    /// How full the history of a class may be.
    pub fills: usize,
    /// Symbols of a class among which a repeat is looked for.
    pub history: usize,
    /// Most classes.
    pub classes_max: usize,
    /// Groups of what is before the last symbol.
    pub groups_max: usize,
    /// A repeat must save this factor of probability to be looked for.
    pub repeat_gain: u64,
    /// Shares of a table add up to 2 to the power of this.
    pub probability_bits: u32,
}

impl SymbolLimits {
    /// The limits of segment files.
    pub const FORMAT: SymbolLimits = SymbolLimits {
        chunk_symbols: CHUNK_SYMBOLS,
        frequencies: FREQUENCIES,
        repeats: REPEATS,
        fills: FILLS,
        history: HISTORY,
        classes_max: CLASSES_MAX,
        groups_max: GROUPS_MAX,
        repeat_gain: REPEAT_GAIN,
        probability_bits: PROBABILITY_BITS,
    };
}

/// Where chunks are: runs of coded symbols, which are all but the first of each body, and all of the roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkOffsets {
    /// `[chunks + 1]`: where each begins among the coded symbols, and where the last one ends. None is empty.
    pub offsets: Vec<u32>,
    /// How many are of bodies, all before those of roots.
    pub bodies: usize,
    /// `[chunks]`: the symbols below which each may use.
    pub limits: Vec<u32>,
}

impl ChunkOffsets {
    /// The offsets of the chunks of a grammar.
    pub(super) fn new(grammar: &Grammar, chunks: &[Chunk]) -> ChunkOffsets {
        let mut places = ChunkOffsets {
            offsets: vec![0],
            bodies: chunks.iter().filter(|chunk| chunk.part() == 0).count(),
            limits: Vec::with_capacity(chunks.len()),
        };
        let mut end = 0;
        for chunk in chunks {
            // Symbols of bodies and roots fit u32, as their offsets do.
            end += coded_symbols(grammar, chunk) as u32;
            places.offsets.push(end);
            places.limits.push(match chunk {
                Chunk::Bodies(chunk) => grammar.terminal_count + grammar.level_offsets[chunk.level],
                Chunk::Root(_) => grammar.terminal_count + grammar.rule_count(),
            });
        }
        places
    }
}

/// A pair of items that stand next to each other, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourCount {
    /// The item at the right end of a symbol.
    pub right: u32,
    /// The item at the left end of the next one.
    pub left: u32,
    /// How often.
    pub count: u32,
}

/// How often the tables that events are coded under are asked for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventCounts {
    /// `[contexts + 1][classes]`; the first row is 0.
    pub classes: Vec<u32>,
    /// `[2][classes][fills][actions]`: for bodies, then roots.
    pub actions: Vec<u32>,
}

/// Counts and codes the symbols of one grammar.
pub trait SymbolCoder: Send {
    /// The error of the coder.
    type Error: Send;

    /// `[symbols]`: the width in bits of how often each is coded as new, 0 for never. A symbol is taken to be a repeat if its
    /// distance from the one before in the chunk, times how often it is coded, times the gain, is less than all coded symbols.
    ///
    /// # Errors
    /// Those of the coder.
    fn frequencies(&mut self) -> Result<Vec<u8>, Self::Error>;

    /// Counts `rights[symbol before]` and `lefts[symbol]` of every `step`-th chunk, in order; items are below `items`. Before the
    /// first coded symbol of a body is its first symbol, before that of a chunk of roots is none.
    ///
    /// # Errors
    /// Those of the coder.
    fn neighbours(
        &mut self,
        lefts: &[u32],
        rights: &[u32],
        items: usize,
        step: usize,
    ) -> Result<Vec<NeighbourCount>, Self::Error>;

    /// `[classes + 1][classes + 1][classes]`: how often each left class comes in every `step`-th chunk by past, its `last`, then
    /// its `before`.
    ///
    /// # Errors
    /// Those of the coder.
    fn past_counts(
        &mut self,
        ends: &[Ends],
        classes: usize,
        step: usize,
    ) -> Result<Vec<u32>, Self::Error>;

    /// Makes the events of all coded symbols, with the ends that were given last, and counts them.
    ///
    /// # Errors
    /// Those of the coder.
    fn event_counts(&mut self, contexts: &Contexts) -> Result<EventCounts, Self::Error>;

    /// The blocks of all chunks, under shares that are laid out as the counts of events.
    ///
    /// # Errors
    /// Those of the coder.
    fn blocks(
        &mut self,
        classes: &[Share],
        actions: &[Share],
    ) -> Result<Vec<Cow<'_, [u8]>>, Self::Error>;
}

const _: () = assert!(ACTIONS == REPEATS + FREQUENCIES);
