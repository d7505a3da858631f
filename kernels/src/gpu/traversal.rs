//! A grammar in device memory, ready to be traversed.
//!
//! The invariant: it has the same texts as the grammar it was made of. The
//! highest levels, which have few symbols, are inlined into the root: each
//! costs a traversal as much as waiting for a flag, however small it is. The
//! rules that stay keep their numbers. Where order does not matter, the root is
//! kept as counts too. Which symbols are said to be frequent is only about speed.

use std::cmp::Reverse;
use std::ops::{Deref, Range};

use super::device::{Buffer, Gpu, arguments};
use super::driver::{Source, THREADS};
use super::error::GpuError;
use super::grammar::DeviceGrammar;
use super::joined_levels::JoinedLevels;
use super::levels::{STATE_ITEMS, Walk};
use super::weights::{self, COLUMNS_MAX};
use super::{local_tables, ngrams, primitives};
use crate::GrammarView;

/// Slots of the table of frequent symbols.
pub(crate) const HOT_SLOTS: usize = 1024;

/// Symbols of the root, and of bodies, that are looked at to find frequent ones.
const HOT_SAMPLE: usize = 1 << 13;

/// A symbol is frequent if it is seen so often among these.
const HOT_SEEN_MIN: usize = 4;

/// No symbol, in a slot.
const NO_SYMBOL: u32 = u32::MAX;

/// Inlining levels into the root may add this part of all symbols: 1 of 6.
const GAIN_SHARE: u64 = 6;

/// So many levels are inlined at most.
const INLINED_MAX: usize = 64;

pub(crate) static SOURCE: Source = Source {
    name: "traversal.cu",
    text: include_str!("traversal.cu"),
    constants: &[("TRAVERSAL_THREADS", THREADS as u64)],
};

/// A [`DeviceGrammar`] over words, ready to be traversed.
#[derive(Debug)]
pub struct DeviceWords {
    grammar: DeviceGrammar,
    /// `[symbols of bodies]`: the rule in whose body each lies.
    pub(crate) owners: Buffer<u32>,
    /// `[symbols of the root]`: the file of each.
    pub(crate) root_files: Buffer<u32>,
    /// `[files + 1]`: where the root of each file begins, on the host.
    pub(crate) file_starts: Vec<u32>,
    /// `[HOT_SLOTS]`: symbols that are frequent in the root or in bodies, each in its slot or the one beside it.
    pub(crate) hot: Buffer<u32>,
    /// How often each symbol occurs in the root itself, and in that of each file if there are few; there once levels have
    /// been inlined; behind the former zeros for shadows.
    pub(crate) root_counts: Option<Buffer<u32>>,
    pub(crate) root_cells: Option<Buffer<u32>>,
    /// Walks of traversals of the whole, there once levels have been inlined.
    pub(crate) walks: Option<Walks>,
    /// Counters of walks that leave them as they were.
    pub(crate) walk_state: Buffer<u32>,
}

/// The walks that traversals of all files take.
#[derive(Debug)]
pub(crate) struct Walks {
    /// The root and all levels.
    pub(crate) root: Walk,
    /// The counts of the root, then joined levels.
    pub(crate) weights: Walk,
    pub(crate) joined: JoinedLevels,
    /// The counts of the root in each of a few files, then all levels.
    pub(crate) cells: Option<Walk>,
    pub(crate) lengths: Walk,
    pub(crate) ends: Walk,
}

impl DeviceWords {
    /// Derives what traversals need.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn new(gpu: &Gpu, grammar: DeviceGrammar) -> Result<DeviceWords, GpuError> {
        let mut words = DeviceWords {
            owners: primitives::expand(gpu, &grammar.rule_offsets, grammar.symbols.len())?,
            root_files: primitives::expand(gpu, &grammar.root_offsets, grammar.root.len())?,
            file_starts: Vec::new(),
            hot: gpu.filled(HOT_SLOTS, u8::MAX)?,
            root_counts: None,
            root_cells: None,
            walks: None,
            walk_state: gpu.zeroed(STATE_ITEMS)?,
            grammar,
        };
        words.inline_levels(gpu)?;
        words.file_starts = gpu.download(&words.root_offsets)?;
        let mut seen = sample(gpu, &words.root)?;
        seen.extend(sample(gpu, &words.symbols)?);
        let hot = hot_symbols(seen);
        gpu.upload_to(&words.hot, 0, &hot)?;
        let columns = words.files().min(COLUMNS_MAX);
        let joined = JoinedLevels::new(gpu, &words)?;
        let counts = weights::of_root(gpu, &words, 1, joined.shadows)?;
        let mut cells = None;
        if (2..=COLUMNS_MAX).contains(&words.files()) {
            let counts = weights::of_root(gpu, &words, columns, 0)?;
            let levels = (0..words.levels()).rev();
            let levels: Vec<_> = levels.map(|level| words.level_bodies(level)).collect();
            cells = Some(weights::walk_from(gpu, &counts, &levels, columns)?);
            words.root_cells = Some(counts);
        }
        // Positions are u32.
        let root = 0..words.root.len() as u32;
        let weights = weights::walk_from(gpu, &counts, &joined.steps, 1)?;
        words.root_counts = Some(counts);
        words.walks = Some(Walks {
            root: weights::walk(gpu, &words, root, 1)?,
            weights,
            joined,
            cells,
            lengths: local_tables::lengths_walk(gpu, &words)?,
            ends: ngrams::ends_walk(gpu, &words)?,
        });
        Ok(words)
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
        let counts = [&self.root_counts, &self.root_cells].into_iter().flatten();
        let counts: usize = counts.map(Buffer::len).sum();
        let joined = self.walks.as_ref().map_or(0, |walks| {
            walks.joined.symbols.len() + walks.joined.owners.len()
        });
        let items = self.owners.len() + self.root_files.len() + self.hot.len() + counts + joined;
        self.grammar.bytes() + (items * size_of::<u32>()) as u64
    }

    /// Number of symbols of bodies and of the root.
    pub fn sizes(&self) -> (usize, usize) {
        (self.symbols.len(), self.root.len())
    }

    /// Where the bodies of the `index`-th level from below lie in `symbols`.
    pub(crate) fn level_bodies(&self, index: usize) -> Range<u32> {
        self.level_symbols[index]..self.level_symbols[index + 1]
    }

    /// The rules of the `index`-th level from below.
    pub(crate) fn level_rules(&self, index: usize) -> Range<u32> {
        self.level_offsets[index]..self.level_offsets[index + 1]
    }

    /// Inlines levels into the root, from the highest, as long as it does not grow much.
    fn inline_levels(&mut self, gpu: &Gpu) -> Result<(), GpuError> {
        let (levels, rules) = (self.levels(), self.rules());
        if rules == 0 {
            return Ok(());
        }
        let terminals = self.terminal_count as usize;
        let weights = weights::weights(gpu, self)?;
        let gains = gpu.zeroed::<u64>(levels)?;
        let level_offsets = gpu.upload(&self.level_offsets)?;
        // Rules and levels are u32.
        let arguments = arguments![
            &self.rule_offsets,
            rules as u32,
            &level_offsets,
            levels as u32,
            weights.at(terminals),
            &gains
        ];
        gpu.launch_looping(
            SOURCE.kernel("level_gains_kernel").moving(rules * 2 * 4),
            rules,
            arguments,
        )?;
        let gains = gpu.download(&gains)?;
        let most = (self.symbols.len() + self.root.len()) as u64 / GAIN_SHARE;
        let mut gained = 0u64;
        let inlined = (gains.iter().rev().take(INLINED_MAX))
            .take_while(|&&gain| {
                gained = gained.saturating_add(gain);
                gained <= most
            })
            .count();
        match inlined {
            0 => Ok(()),
            _ => self.keep_levels(gpu, levels - inlined, &weights),
        }
    }

    /// Inlines all but the lowest `kept` levels into the root.
    fn keep_levels(
        &mut self,
        gpu: &Gpu,
        kept: usize,
        weights: &Buffer<u32>,
    ) -> Result<(), GpuError> {
        let first_rule = self.level_offsets[kept];
        let first_symbol = self.level_symbols[kept];
        let first = self.terminal_count + first_rule;
        let rules = self.rules() - first_rule as usize;
        let mut offsets = vec![0u32; rules + 1];
        gpu.download_from(&self.rule_offsets, first_rule as usize, &mut offsets)?;
        let mut symbols = vec![0u32; self.symbols.len() - first_symbol as usize];
        gpu.download_from(&self.symbols, first_symbol as usize, &mut symbols)?;
        let mut uses = vec![0u32; rules];
        gpu.download_from(weights, first as usize, &mut uses)?;
        let (mut flat_offsets, mut flat) = (vec![0u32], Vec::new());
        for (body, &uses) in offsets.windows(2).zip(&uses) {
            let body = (body[0] - first_symbol) as usize..(body[1] - first_symbol) as usize;
            // What does not occur may be absurdly long.
            let body = if uses > 0 { &symbols[body] } else { &[] };
            for &symbol in body {
                match symbol.checked_sub(first) {
                    None => flat.push(symbol),
                    Some(rule) => {
                        let rule = rule as usize;
                        flat.extend_from_within(
                            flat_offsets[rule] as usize..flat_offsets[rule + 1] as usize,
                        );
                    }
                }
            }
            // No longer than the new root, which is little longer than the old one, for each level.
            flat_offsets.push(u32::try_from(flat.len()).expect("a root that u32 counts"));
        }
        let flat_offsets = gpu.upload(&flat_offsets)?;
        let flat = gpu.upload(&flat)?;

        let count = self.root.len();
        let sizes = gpu.allocate::<u32>(count)?;
        let arguments = arguments![&self.root, count, first, &flat_offsets, &sizes];
        gpu.launch_looping(
            SOURCE.kernel("flat_sizes_kernel").moving(count * 2 * 4),
            count,
            arguments,
        )?;
        let places = primitives::scan::<u32, u32>(gpu, &sizes)?;
        let count = gpu.item(&places, count)? as usize;
        let owners = primitives::expand(gpu, &places, count)?;
        let root = gpu.allocate::<u32>(count)?;
        let arguments = arguments![
            &self.root,
            &owners,
            &places,
            count,
            first,
            &flat_offsets,
            &flat,
            &root
        ];
        gpu.launch_looping(
            SOURCE.kernel("flat_root_kernel").moving(count * 2 * 4),
            count,
            arguments,
        )?;
        let starts = self.grammar.root_offsets.len();
        let root_offsets = gpu.allocate::<u32>(starts)?;
        let arguments = arguments![&places, &self.root_offsets, starts, &root_offsets];
        gpu.launch_looping(
            SOURCE.kernel("gather_kernel").moving(starts * 3 * 4),
            starts,
            arguments,
        )?;
        self.root_files = primitives::expand(gpu, &root_offsets, count)?;
        self.owners.truncate(first_symbol as usize);
        let grammar = &mut self.grammar;
        grammar.root = root;
        grammar.root_offsets = root_offsets;
        grammar.rule_offsets.truncate(first_rule as usize + 1);
        grammar.symbols.truncate(first_symbol as usize);
        grammar.level_offsets.truncate(kept + 1);
        grammar.level_symbols.truncate(kept + 1);
        Ok(())
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
    gpu.launch_looping(
        SOURCE.kernel("sample_kernel").moving(count * 2 * 4),
        count,
        arguments,
    )?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::test_devices::on_devices;
    use crate::test_grammars;

    #[test]
    fn a_grammar_without_its_highest_levels_has_the_same_texts() {
        on_devices(|gpu| {
            for grammar in [
                test_grammars::deep_chain(300),
                test_grammars::doubling(40),
                test_grammars::fibonacci(14),
                test_grammars::many_files(20),
                test_grammars::repeated_text(3),
            ] {
                let view = grammar.view();
                let words = DeviceWords::upload(gpu, view)?;
                let rule_offsets = gpu.download(&words.rule_offsets)?;
                let symbols = gpu.download(&words.symbols)?;
                let root_offsets = gpu.download(&words.root_offsets)?;
                let root = gpu.download(&words.root)?;
                assert!(words.levels() < view.levels() || view.levels() < 3);
                assert!(root.len() <= (view.symbols.len() + view.root.len()) * 7 / 6);
                assert_eq!(words.file_starts, root_offsets);
                let flat = GrammarView {
                    terminal_count: view.terminal_count,
                    rule_offsets: &rule_offsets,
                    symbols: &symbols,
                    level_offsets: &words.level_offsets,
                    root_offsets: &root_offsets,
                    root: &root,
                };
                for file in 0..view.files() as u32 {
                    let (mut found, mut expected) = (Vec::new(), Vec::new());
                    flat.for_each_terminal(flat.root_range(file), |t| found.push(t));
                    view.for_each_terminal(view.root_range(file), |t| expected.push(t));
                    assert!(found == expected, "file {file}");
                }
            }
            Ok(())
        });
    }
}
