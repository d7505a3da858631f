//! A grammar over words in device memory, with what traversals of it need.

use std::ops::Deref;

use crate::gpu::GpuError;
use crate::gpu::device::{Buffer, Gpu};
use crate::gpu::levels::Walk;
use crate::grammar::fan_in_gpu::{FanIn, PullState};
use crate::grammar::grammar_gpu::DeviceGrammar;

/// Slots of the table of frequent symbols.
pub(crate) const HOT_SLOTS: usize = 1024;

/// Counters a symbol at most: a group of lanes has one a lane.
pub const COLUMNS_MAX: usize = 32;

/// Symbols of bodies of a piece of a walk over these.
pub(crate) const BODY_TILE: u32 = 2048;

/// Rules of a piece of a walk over these.
const RULE_TILE: u32 = 512;

/// The pieces of consecutive small levels of a walk that one block takes together, at most.
const LEVELS_JOINED: u32 = 4;

/// A [`DeviceGrammar`] over words, ready to be traversed.
#[derive(Debug)]
pub struct DeviceWords {
    pub(super) grammar: DeviceGrammar,
    /// `[symbols of bodies]`: the rule in whose body each lies.
    pub(crate) owners: Buffer<u32>,
    /// `[symbols of the root]`: the file of each.
    pub root_files: Buffer<u32>,
    /// Where weights come from.
    pub(crate) fan_in: FanIn,
    /// How often each symbol occurs in the root itself, and in that of each file if there are a few.
    pub(crate) whole: RootCounts,
    pub(crate) by_file: Option<RootCounts>,
    /// Walks over the bodies of all levels, and over the rules, from the lowest.
    pub(crate) bodies_walk: Walk,
    pub(crate) rules_walk: Walk,
}

/// Counts of the root, and what is kept between launches that begin with them.
#[derive(Debug)]
pub(crate) struct RootCounts {
    pub(crate) counts: Buffer<u32>,
    pub(crate) state: PullState,
}

/// Walks over the bodies of all levels, and over the rules, from the lowest.
pub(crate) fn level_walks(gpu: &Gpu, grammar: &DeviceGrammar) -> Result<[Walk; 2], GpuError> {
    let levels = 0..grammar.levels();
    let bodies: Vec<_> = (levels.clone())
        .map(|level| grammar.level_bodies(level))
        .collect();
    let rules: Vec<_> = levels.map(|level| grammar.level_rules(level)).collect();
    Ok([
        Walk::new(gpu, &[], &bodies, BODY_TILE, LEVELS_JOINED)?,
        Walk::new(gpu, &[], &rules, RULE_TILE, LEVELS_JOINED)?,
    ])
}

/// All bodies of a grammar, or all roots, one after the other.
pub(crate) struct SymbolSequence<'a> {
    pub(crate) symbols: &'a Buffer<u32>,
    /// `[symbols]`: the rule or file of each.
    pub(crate) owners: &'a Buffer<u32>,
    /// `[owners + 1]`: where each of these begins.
    pub(crate) offsets: &'a Buffer<u32>,
    pub(crate) is_root: bool,
}

impl DeviceWords {
    /// The roots, and the bodies.
    pub(crate) fn sequences(&self) -> [SymbolSequence<'_>; 2] {
        [
            SymbolSequence {
                symbols: &self.grammar.root,
                owners: &self.root_files,
                offsets: &self.grammar.root_offsets,
                is_root: true,
            },
            SymbolSequence {
                symbols: &self.grammar.symbols,
                owners: &self.owners,
                offsets: &self.grammar.rule_offsets,
                is_root: false,
            },
        ]
    }

    /// Number of symbols of bodies and of the root.
    pub fn sizes(&self) -> (usize, usize) {
        (self.symbols.len(), self.root.len())
    }
}

impl Deref for DeviceWords {
    type Target = DeviceGrammar;

    fn deref(&self) -> &DeviceGrammar {
        &self.grammar
    }
}
