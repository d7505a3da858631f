//! A grammar in device memory.
//!
//! The invariant: the arrays are those of a [`GrammarView`], and what is
//! derived of them here agrees with them. Text is not known here.

use std::ops::Range;

use super::device::{Buffer, Gpu};
use super::error::GpuError;
use super::primitives;
use crate::GrammarView;

/// Slots of the table of symbols that are frequent in the root.
pub(crate) const HOT_SLOTS: usize = 1024;

/// Root symbols that are looked at to find frequent ones.
const HOT_SAMPLE: usize = 1 << 15;

/// A symbol is frequent if it is seen so often among these.
const HOT_SEEN_MIN: u32 = 8;

/// No symbol, in a slot.
const NO_SYMBOL: u32 = u32::MAX;

/// The arrays of a [`GrammarView`] on a device.
#[derive(Debug)]
pub struct DeviceGrammar {
    /// Number of terminals.
    pub(crate) terminal_count: u32,
    /// `[rules + 1]`.
    pub(crate) rule_offsets: Buffer<u32>,
    /// All bodies.
    pub(crate) symbols: Buffer<u32>,
    /// `[symbols]`: the rule in whose body each lies.
    pub(crate) owners: Buffer<u32>,
    /// `[levels + 1]`, on the host.
    pub(crate) level_offsets: Vec<u32>,
    /// `[levels + 1]`: where the bodies of each level begin, on the host.
    pub(crate) level_symbols: Vec<u32>,
    /// `[files + 1]`.
    pub(crate) root_offsets: Buffer<u32>,
    /// The roots of all files.
    pub(crate) root: Buffer<u32>,
    /// `[HOT_SLOTS]`: symbols that are frequent in the root, each in its slot or the one beside it.
    pub(crate) hot: Buffer<u32>,
}

impl DeviceGrammar {
    /// Copies a grammar to a device.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn upload(gpu: &Gpu, view: GrammarView<'_>) -> Result<DeviceGrammar, GpuError> {
        let rule_offsets = gpu.upload(view.rule_offsets)?;
        let symbols = gpu.upload(view.symbols)?;
        let owners = primitives::expand(gpu, &rule_offsets, view.symbols.len())?;
        let ends = view.level_offsets.iter();
        let level_symbols = ends.map(|&rule| view.rule_offsets[rule as usize]).collect();
        Ok(DeviceGrammar {
            terminal_count: view.terminal_count,
            rule_offsets,
            symbols,
            owners,
            level_offsets: view.level_offsets.to_vec(),
            level_symbols,
            root_offsets: gpu.upload(view.root_offsets)?,
            root: gpu.upload(view.root)?,
            hot: gpu.upload(&hot_symbols(view.root))?,
        })
    }

    /// Bytes of the arrays on the device.
    pub fn bytes(&self) -> u64 {
        let items = self.rule_offsets.len()
            + self.symbols.len()
            + self.owners.len()
            + self.root_offsets.len()
            + self.root.len()
            + self.hot.len();
        (items * size_of::<u32>()) as u64
    }

    /// Number of rules.
    pub fn rules(&self) -> usize {
        self.rule_offsets.len() - 1
    }

    /// Number of files.
    pub fn files(&self) -> usize {
        self.root_offsets.len() - 1
    }

    /// Number of terminals and rules.
    pub fn symbol_count(&self) -> usize {
        self.terminal_count as usize + self.rules()
    }

    /// Number of levels.
    pub(crate) fn levels(&self) -> usize {
        self.level_offsets.len().saturating_sub(1)
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

/// The table of symbols that are frequent in `root`, judged by some of it. A choice that is only about speed.
pub(crate) fn hot_symbols(root: &[u32]) -> Vec<u32> {
    let mut slots = vec![NO_SYMBOL; HOT_SLOTS];
    let step = (root.len() / HOT_SAMPLE).max(1);
    let mut sample: Vec<u32> = root.iter().step_by(step).copied().collect();
    sample.sort_unstable();
    let mut seen: Vec<(u32, u32)> = sample
        .chunk_by(|a, b| a == b)
        // A sample is far smaller than 2^32.
        .map(|equal| (equal.len() as u32, equal[0]))
        .filter(|&(count, symbol)| count >= HOT_SEEN_MIN && symbol != NO_SYMBOL)
        .collect();
    seen.sort_unstable_by_key(|&(count, symbol)| (std::cmp::Reverse(count), symbol));
    for (_, symbol) in seen {
        let slot = hot_slot(symbol);
        if let Some(free) = [slot, slot ^ 1]
            .into_iter()
            .find(|&slot| slots[slot] == NO_SYMBOL)
        {
            slots[free] = symbol;
        }
    }
    slots
}

/// As `hot_slot` of weights.cu.
fn hot_slot(symbol: u32) -> usize {
    (symbol.wrapping_mul(0x9e37_79b1) >> (u32::BITS - HOT_SLOTS.ilog2())) as usize
}
