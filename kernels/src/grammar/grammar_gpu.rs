//! A grammar in device memory.
//!
//! The invariant: the arrays are those of a [`GrammarView`], which was checked
//! by its owner; kernels trust them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::GrammarView;
use crate::gpu::device::{Buffer, Gpu};
use crate::gpu::error::GpuError;

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
        let grammar = DeviceGrammar::reserve(gpu, view)?;
        gpu.upload_to(&grammar.root_offsets, 0, view.root_offsets)?;
        grammar.fill(gpu, view)?;
        Ok(grammar)
    }

    /// Memory for a grammar.
    fn reserve(gpu: &Gpu, view: GrammarView<'_>) -> Result<DeviceGrammar, GpuError> {
        let level_symbols = view.level_offsets.iter();
        let level_symbols = level_symbols.map(|&rule| view.rule_offsets[rule as usize]);
        Ok(DeviceGrammar {
            terminal_count: view.terminal_count,
            rule_offsets: gpu.allocate(view.rule_offsets.len())?,
            symbols: gpu.allocate(view.symbols.len())?,
            level_offsets: view.level_offsets.to_vec(),
            level_symbols: level_symbols.collect(),
            root_offsets: gpu.allocate(view.root_offsets.len())?,
            root: gpu.allocate(view.root.len())?,
        })
    }

    /// Copies what may be large.
    fn fill(&self, gpu: &Gpu, view: GrammarView<'_>) -> Result<(), GpuError> {
        gpu.upload_to(&self.rule_offsets, 0, view.rule_offsets)?;
        gpu.upload_to(&self.symbols, 0, view.symbols)?;
        gpu.upload_to(&self.root, 0, view.root)
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

    /// Where the bodies of the `index`-th level from below lie in `symbols`.
    pub(crate) fn level_bodies(&self, index: usize) -> Range<u32> {
        self.level_symbols[index]..self.level_symbols[index + 1]
    }

    /// The rules of the `index`-th level from below.
    pub(crate) fn level_rules(&self, index: usize) -> Range<u32> {
        self.level_offsets[index]..self.level_offsets[index + 1]
    }

    /// Bytes of device memory.
    pub fn bytes(&self) -> u64 {
        let items = self.rule_offsets.len() + self.symbols.len();
        let items = items + self.root_offsets.len() + self.root.len();
        items as u64 * size_of::<u32>() as u64
    }
}

/// A grammar that is copied to a device beside other work.
#[derive(Debug)]
pub struct ComingGrammar {
    /// Works beside the device that the grammar is for.
    beside: Gpu,
    /// Until it has arrived.
    grammar: Option<DeviceGrammar>,
    is_copied: bool,
}

impl ComingGrammar {
    /// Takes memory for a grammar and begins to copy it, as soon as what was started until now is done.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn begin(gpu: &Gpu, view: GrammarView<'_>) -> Result<ComingGrammar, GpuError> {
        let grammar = DeviceGrammar::reserve(gpu, view)?;
        let beside = gpu.beside()?;
        // The memory may still be used by what was started before.
        beside.follow(gpu)?;
        let begun = beside.upload_to(&grammar.root_offsets, 0, view.root_offsets);
        let coming = ComingGrammar {
            beside,
            grammar: Some(grammar),
            is_copied: false,
        };
        begun.map(|()| coming)
    }

    /// Copies the rest, unless `stop` is set before the end: then it does not arrive. The caller waits for the copies
    /// and for what was started before they began, for nothing else.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn copy(&mut self, view: GrammarView<'_>, stop: &Arc<AtomicBool>) -> Result<(), GpuError> {
        if let Some(grammar) = &self.grammar {
            grammar.fill(&self.beside.until(stop), view)?;
            self.is_copied = true;
        }
        Ok(())
    }

    /// The grammar for what is started from now on; `None` if not all of it was copied.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn arrive(mut self, gpu: &Gpu) -> Result<Option<DeviceGrammar>, GpuError> {
        if !self.is_copied {
            return Ok(None);
        }
        gpu.follow(&self.beside)?;
        Ok(self.grammar.take())
    }
}

impl Drop for ComingGrammar {
    fn drop(&mut self) {
        // Memory that is copied to must not be given to another owner.
        if self.grammar.is_some()
            && let Err(error) = self.beside.synchronize()
        {
            tracing::warn!("{error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::gpu::test_devices::on_devices;
    use crate::gpu::{DeviceWords, weights};
    use crate::grammar::test_grammars;

    #[test]
    fn a_grammar_comes_beside_other_work() {
        on_devices(|gpu| {
            // Memory of its own, which no other test uses meanwhile.
            let gpu = &gpu.with_memory_limit(gpu.memory_limit());
            let words = test_grammars::repeated_text(3).word_grammar();
            let other = test_grammars::many_files(40).word_grammar();
            let expected = weights(gpu, &DeviceWords::upload(gpu, words.view())?)?;
            let stop = Arc::default();
            let coming = || {
                // Memory that was used just before.
                drop(weights(gpu, &DeviceWords::upload(gpu, words.view())?)?);
                ComingGrammar::begin(gpu, words.view())
            };
            let mut first = coming()?;
            let there = DeviceWords::upload(gpu, other.view())?;
            let before = gpu.download(&weights(gpu, &there)?)?;
            first.copy(words.view(), &stop)?;
            assert_eq!(gpu.download(&weights(gpu, &there)?)?, before);
            let arrived = first.arrive(gpu)?.expect("all was copied");
            let found = weights(gpu, &DeviceWords::new(gpu, arrived)?)?;
            assert_eq!(gpu.download(&found)?, gpu.download(&expected)?);

            let used = gpu.memory_used();
            assert!(coming()?.arrive(gpu)?.is_none());
            stop.store(true, Ordering::Relaxed);
            let mut stopped = coming()?;
            let copied = stopped.copy(words.view(), &stop);
            assert!(matches!(copied, Err(GpuError::Stopped(_))), "{copied:?}");
            assert!(stopped.arrive(gpu)?.is_none());
            assert_eq!(gpu.memory_used(), used);
            Ok(())
        });
    }
}
