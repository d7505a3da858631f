//! A grammar in device memory, with what traversals need beside its arrays.
//!
//! The invariant: what is derived here agrees with the grammar, and is known
//! as long as it lives. Which symbols are frequent is only about speed.

use std::cmp::Reverse;
use std::ops::{Deref, Range};

use super::device::{Buffer, Gpu, arguments};
use super::error::GpuError;
use super::grammar::DeviceGrammar;
use super::{primitives, weights};
use crate::GrammarView;

/// Slots of the table of symbols that are frequent in the root.
pub(crate) const HOT_SLOTS: usize = 1024;

/// Root symbols that are looked at to find frequent ones.
const HOT_SAMPLE: usize = 1 << 13;

/// A symbol is frequent if it is seen so often among these.
const HOT_SEEN_MIN: usize = 4;

/// No symbol, in a slot.
const NO_SYMBOL: u32 = u32::MAX;

/// A [`DeviceGrammar`] over words, ready to be traversed.
#[derive(Debug)]
pub struct DeviceWords {
    grammar: DeviceGrammar,
    /// `[symbols of bodies]`: the rule in whose body each lies.
    pub(crate) owners: Buffer<u32>,
    /// `[symbols of the root]`: the file of each.
    pub(crate) root_files: Buffer<u32>,
    /// `[HOT_SLOTS]`: symbols that are frequent in the root, each in its slot or the one beside it.
    pub(crate) hot: Buffer<u32>,
}

impl DeviceWords {
    /// Derives what traversals need.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn new(gpu: &Gpu, grammar: DeviceGrammar) -> Result<DeviceWords, GpuError> {
        let owners = primitives::expand(gpu, &grammar.rule_offsets, grammar.symbols.len())?;
        let root_files = primitives::expand(gpu, &grammar.root_offsets, grammar.root.len())?;
        let hot = hot_symbols(sample(gpu, &grammar.root)?);
        Ok(DeviceWords {
            owners,
            root_files,
            hot: gpu.upload(&hot)?,
            grammar,
        })
    }

    /// Copies a grammar to a device.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn upload(gpu: &Gpu, view: GrammarView<'_>) -> Result<DeviceWords, GpuError> {
        DeviceWords::new(gpu, DeviceGrammar::upload(gpu, view)?)
    }

    /// Bytes of device memory, those of the grammar included.
    pub fn bytes(&self) -> u64 {
        let items = self.owners.len() + self.root_files.len() + self.hot.len();
        self.grammar.bytes() + (items * size_of::<u32>()) as u64
    }

    /// Number of symbols of the root.
    pub fn root_symbols(&self) -> usize {
        self.root.len()
    }

    /// Where the bodies of the `index`-th level from below lie in `symbols`.
    pub(crate) fn level_bodies(&self, index: usize) -> Range<u32> {
        self.level_symbols[index]..self.level_symbols[index + 1]
    }

    /// The rules of the `index`-th level from below.
    pub(crate) fn level_rules(&self, index: usize) -> Range<u32> {
        self.level_offsets[index]..self.level_offsets[index + 1]
    }
}

impl Deref for DeviceWords {
    type Target = DeviceGrammar;

    fn deref(&self) -> &DeviceGrammar {
        &self.grammar
    }
}

/// Some of the symbols, at equal distances.
fn sample(gpu: &Gpu, symbols: &Buffer<u32>) -> Result<Vec<u32>, GpuError> {
    let step = (symbols.len() / HOT_SAMPLE).max(1);
    let count = symbols.len() / step;
    let sample = gpu.allocate::<u32>(count)?;
    let arguments = arguments![symbols, step, &sample, count];
    weights::launch(gpu, "sample_kernel", count, arguments)?;
    gpu.download(&sample)
}

/// The table of symbols that are frequent in a sample.
pub(crate) fn hot_symbols(mut sample: Vec<u32>) -> Vec<u32> {
    sample.sort_unstable();
    let equal = sample.chunk_by(|a, b| a == b);
    let mut seen: Vec<(Reverse<usize>, u32)> = equal
        .map(|equal| (Reverse(equal.len()), equal[0]))
        .filter(|&(Reverse(seen), symbol)| seen >= HOT_SEEN_MIN && symbol != NO_SYMBOL)
        .collect();
    seen.sort_unstable();
    let mut slots = vec![NO_SYMBOL; HOT_SLOTS];
    for (_, symbol) in seen {
        let slot = hot_slot(symbol);
        let mut both = [slot, slot ^ 1].into_iter();
        if let Some(free) = both.find(|&slot| slots[slot] == NO_SYMBOL) {
            slots[free] = symbol;
        }
    }
    slots
}

/// As `hot_slot` of weights.cu.
fn hot_slot(symbol: u32) -> usize {
    // The highest bits.
    (symbol.wrapping_mul(0x9e37_79b1) >> (u32::BITS - HOT_SLOTS.ilog2())) as usize
}
