//! A grammar in device memory.
//!
//! The invariant: the arrays are those of a [`GrammarView`], which was checked
//! by whoever owned it; kernels trust them.

use super::device::{Buffer, Gpu};
use super::error::GpuError;
use crate::GrammarView;

/// The arrays of a [`GrammarView`]; small ones on the host too.
#[derive(Debug)]
pub struct DeviceGrammar {
    /// Number of terminals.
    pub terminal_count: u32,
    /// `[rules + 1]`, into `symbols`.
    pub rule_offsets: Buffer<u32>,
    /// All bodies.
    pub symbols: Buffer<u32>,
    /// `[levels + 1]`, on the host: a level is a launch.
    pub level_offsets: Vec<u32>,
    /// `[levels + 1]`, on the host: where the bodies of levels begin in `symbols`.
    pub level_symbols: Vec<u32>,
    /// `[files + 1]`, into `root`.
    pub root_offsets: Buffer<u32>,
    /// The roots of all files.
    pub root: Buffer<u32>,
}

impl DeviceGrammar {
    /// Copies a grammar.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn upload(gpu: &Gpu, view: GrammarView<'_>) -> Result<DeviceGrammar, GpuError> {
        let level_symbols = view.level_offsets.iter();
        let level_symbols = level_symbols.map(|&rule| view.rule_offsets[rule as usize]);
        Ok(DeviceGrammar {
            terminal_count: view.terminal_count,
            rule_offsets: gpu.upload(view.rule_offsets)?,
            symbols: gpu.upload(view.symbols)?,
            level_offsets: view.level_offsets.to_vec(),
            level_symbols: level_symbols.collect(),
            root_offsets: gpu.upload(view.root_offsets)?,
            root: gpu.upload(view.root)?,
        })
    }

    /// Number of rules.
    pub fn rules(&self) -> usize {
        self.rule_offsets.len().saturating_sub(1)
    }

    /// Number of levels; 0 if there are no rules.
    pub fn levels(&self) -> usize {
        self.level_offsets.len().saturating_sub(1)
    }

    /// Number of files.
    pub fn files(&self) -> usize {
        self.root_offsets.len().saturating_sub(1)
    }

    /// Number of distinct symbols: terminals and rules.
    pub fn symbol_count(&self) -> usize {
        self.terminal_count as usize + self.rules()
    }

    /// Bytes of device memory.
    pub fn bytes(&self) -> u64 {
        let items = self.rule_offsets.len() + self.symbols.len();
        let items = items + self.root_offsets.len() + self.root.len();
        items as u64 * size_of::<u32>() as u64
    }
}
