//! Weights of symbols, each pulled from the rules that hold it.
//!
//! The invariant: weights are those of [`crate::grammar::weights`], bit for bit. What is kept between launches says of each value which
//! launch it is of, and sums of chunks are 0, so that nothing has to be made ready for a launch.
//!
//! High levels are small, and each costs a launch the time of a store and a load. They are joined into groups: a rule has what
//! rules of its own group give it from where they have it themselves, their counts in the root and higher groups.

use std::ops::RangeInclusive;

use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Launch, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::primitives::{self, SORT_MAX};
use crate::grammar::grammar_gpu::DeviceGrammar;

/// Inputs of a chunk at most.
const ITEMS: u32 = 8;

/// Flag of an input: the rule gives its count, not its weight.
const COUNTED: u32 = 1 << 31;

/// A level joins the group above it if the group grows by at most this many inputs.
const MORE_MAX: usize = 1 << 16;

/// The host examines levels, from the highest, while their bodies have together at most this many symbols.
const SYMBOLS_MAX: usize = 1 << 18;

/// Tiles of a block, about: more blocks that wait take processors from those that they wait for.
const TILES: u32 = 5;

/// Blocks of a multiprocessor.
const RESIDENT: RangeInclusive<u32> = 2..=4;

/// Numbers of [`PullState::state`].
const STATE_ITEMS: [u32; 3] = [0, 0, 1];

pub(crate) static SOURCE: Source = Source {
    name: "fan_in.cu",
    text: include_str!("fan_in.cu"),
    headers: &[],
    constants: &[
        ("FAN_IN_THREADS", THREADS as u64),
        ("FAN_IN_ITEMS", ITEMS as u64),
        ("FAN_IN_COUNTED", COUNTED as u64),
    ],
};

/// For each symbol the rules that hold it, once for each time, in chunks.
#[derive(Debug)]
pub(crate) struct FanIn {
    /// `[items]`: rules, some of them [`COUNTED`].
    inputs: Buffer<u32>,
    /// `[chunks + 1]`, into `inputs`.
    firsts: Buffer<u32>,
    /// `[chunks]`: the symbol of each, descending; each has one at least.
    symbols: Buffer<u32>,
    /// `[symbols + 1]`: where the chunks of each symbol begin, the last symbol first.
    chunk_offsets: Buffer<u32>,
    /// `[symbols + 1]`: how many symbols before have several chunks.
    slots: Buffer<u32>,
    /// How many symbols have.
    several: usize,
    terminals: u32,
}

/// What launches keep between them.
#[derive(Debug)]
pub(crate) struct PullState {
    /// `[rules * columns]`: launch and weight.
    values: Buffer<u64>,
    /// `[several * columns]`: of symbols with several chunks.
    sums: Buffer<u64>,
    /// The next tile, how many blocks have ended, and the number of the launch.
    state: Buffer<u32>,
    columns: usize,
}

impl FanIn {
    /// Sorts the symbols of bodies: each level for itself, for a launch or two.
    pub(crate) fn new(
        gpu: &Gpu,
        grammar: &DeviceGrammar,
        owners: &Buffer<u32>,
    ) -> Result<FanIn, GpuError> {
        FanIn::grouped(gpu, grammar, owners, &Groups::default())
    }

    /// As [`FanIn::new`], with levels joined: for many launches.
    pub(crate) fn joined(
        gpu: &Gpu,
        grammar: &DeviceGrammar,
        owners: &Buffer<u32>,
    ) -> Result<FanIn, GpuError> {
        FanIn::grouped(gpu, grammar, owners, &Groups::new(gpu, grammar, owners)?)
    }

    fn grouped(
        gpu: &Gpu,
        grammar: &DeviceGrammar,
        owners: &Buffer<u32>,
        groups: &Groups,
    ) -> Result<FanIn, GpuError> {
        let bodies = grammar.symbols.len();
        let items = bodies + groups.more.len();
        if items > SORT_MAX {
            return Err(GpuError::Limit {
                what: "symbols of bodies",
                items: items as u64,
                limit: SORT_MAX as u64,
            });
        }
        // Symbols are u32.
        let symbols = grammar.symbol_count() as u32;
        let last = symbols.saturating_sub(1);
        let (keys, inputs) = (gpu.allocate::<u32>(items)?, gpu.allocate::<u32>(items)?);
        let firsts = gpu.upload(&groups.firsts)?;
        let arguments = arguments! {
            symbols: &grammar.symbols,
            owners,
            items: bodies,
            terminals: grammar.terminal_count,
            last,
            groups: &firsts,
            group_count: firsts.len().saturating_sub(1) as u32,
            keys,
            inputs,
        };
        gpu.launch_looping(
            SOURCE.kernel("fan_in_keys_kernel").whole(),
            bodies,
            arguments,
        )?;
        let rows = groups.more.iter().map(|&(symbol, _)| last - symbol);
        gpu.upload_to(&keys, bodies, &rows.collect::<Vec<_>>())?;
        let more = groups.more.iter().map(|&(_, input)| input);
        gpu.upload_to(&inputs, bodies, &more.collect::<Vec<_>>())?;
        let bits = u32::BITS - last.leading_zeros();
        let (keys, inputs) = primitives::sort_pairs(gpu, keys, inputs, 0..bits)?;
        let offsets = primitives::offsets_of_keys(gpu, &keys, symbols)?;
        drop(keys);
        FanIn::in_chunks(gpu, inputs, &offsets, grammar.terminal_count)
    }

    /// Divides the inputs of each symbol, the last symbol first, into chunks.
    fn in_chunks(
        gpu: &Gpu,
        inputs: Buffer<u32>,
        offsets: &Buffer<u32>,
        terminals: u32,
    ) -> Result<FanIn, GpuError> {
        let rows = offsets.len() - 1;
        let (counts, several) = (gpu.allocate::<u32>(rows)?, gpu.allocate::<u32>(rows)?);
        // Rows and items are u32.
        let arguments = arguments! { offsets, rows: rows as u32, chunks: &counts, several };
        gpu.launch_looping(SOURCE.kernel("fan_in_rows_kernel").whole(), rows, arguments)?;
        let chunk_offsets = primitives::scan::<u32, u32>(gpu, &counts)?;
        let slots = primitives::scan::<u32, u32>(gpu, &several)?;
        let chunks = gpu.item(&chunk_offsets, rows)? as usize;
        let several = gpu.item(&slots, rows)? as usize;
        let chunk_rows = primitives::expand(gpu, &chunk_offsets, chunks)?;
        let firsts = gpu.allocate::<u32>(chunks + 1)?;
        let symbols = gpu.allocate::<u32>(chunks)?;
        let arguments = arguments! {
            offsets,
            chunk_offsets,
            rows: &chunk_rows,
            chunks: chunks as u32,
            last: rows.saturating_sub(1) as u32,
            items: inputs.len() as u32,
            firsts,
            chunk_symbols: &symbols,
        };
        gpu.launch_looping(
            SOURCE.kernel("fan_in_chunks_kernel").whole(),
            chunks + 1,
            arguments,
        )?;
        Ok(FanIn {
            inputs,
            firsts,
            symbols,
            chunk_offsets,
            slots,
            several,
            terminals,
        })
    }

    /// The state for launches with `columns` columns.
    pub(crate) fn state(&self, gpu: &Gpu, columns: usize) -> Result<PullState, GpuError> {
        let rules = self.slots.len() - 1 - self.terminals as usize;
        Ok(PullState {
            values: gpu.zeroed(rules * columns)?,
            sums: gpu.zeroed(self.several * columns)?,
            state: gpu.upload(&STATE_ITEMS)?,
            columns,
        })
    }

    /// `[symbols * columns]`: weights of symbols, from their counts in the root, or in that of each file.
    pub(crate) fn pull(
        &self,
        gpu: &Gpu,
        state: &PullState,
        counts: &Buffer<u32>,
    ) -> Result<Buffer<u32>, GpuError> {
        let rows = self.slots.len() - 1;
        let columns = state.columns;
        assert!(
            counts.len() == rows * columns,
            "a count a symbol and column"
        );
        let weights = gpu.allocate::<u32>(counts.len())?;
        // Lanes of a chunk are 2 to the power of this: 5 at most.
        let shift = columns.max(1).next_power_of_two().ilog2();
        let chunks = self.symbols.len();
        let tiles = Launch::tiles(chunks << shift, THREADS as usize);
        let processors = gpu.facts().processors;
        let resident = tiles.blocks / (processors * TILES);
        let resident = resident.clamp(*RESIDENT.start(), *RESIDENT.end());
        let launch = Launch {
            blocks: tiles.blocks.min(processors * resident),
            ..tiles
        };
        let arguments = arguments! {
            counts,
            inputs: &self.inputs,
            firsts: &self.firsts,
            chunk_symbols: &self.symbols,
            chunk_offsets: &self.chunk_offsets,
            slots: &self.slots,
            // Chunks are fewer than symbols and items.
            chunks: chunks as u32,
            terminals: self.terminals,
            last: rows.saturating_sub(1) as u32,
            // A few.
            columns: columns as u32,
            shift,
            values: &state.values,
            sums: &state.sums,
            state: &state.state,
            weights,
        };
        let values = self.inputs.len() * size_of::<u64>() * columns;
        let bytes = self.bytes() + values + 2 * counts.len() * size_of::<u32>();
        gpu.launch(
            SOURCE.kernel("pull_weights_kernel").moving(bytes),
            launch,
            arguments,
        )?;
        Ok(weights)
    }

    /// Bytes on the device.
    fn bytes(&self) -> usize {
        let items = self.inputs.len() + self.firsts.len() + self.symbols.len();
        (items + self.chunk_offsets.len() + self.slots.len()) * size_of::<u32>()
    }
}

/// The highest levels in groups.
#[derive(Default)]
struct Groups {
    /// The first rule of each group, ascending, and the end of the last.
    firsts: Vec<u32>,
    /// Symbol and input: what rules have beside those that hold them.
    more: Vec<(u32, u32)>,
}

impl Groups {
    /// Joins what pays. Work: O(symbols examined + inputs more).
    fn new(gpu: &Gpu, grammar: &DeviceGrammar, owners: &Buffer<u32>) -> Result<Groups, GpuError> {
        let (levels, symbols) = (grammar.levels(), grammar.symbols.len());
        let high = |&level: &usize| symbols - grammar.level_symbols[level] as usize <= SYMBOLS_MAX;
        let lowest = (0..levels).find(high).unwrap_or(levels);
        let first = grammar.level_offsets.get(lowest).copied().unwrap_or(0);
        let holders = Holders::download(gpu, grammar, owners, first)?;
        let mut groups = Groups {
            firsts: Vec::new(),
            more: Vec::new(),
        };
        // The inputs of each rule from `first` on: where they lie, and then those of its own group's rules.
        let mut inputs: Vec<u32> = Vec::new();
        let mut inputs_of = vec![0..0; grammar.rules() - first as usize];
        let place = |rule: u32| (rule - first) as usize;
        let (mut end, mut joined) = (0, 0);
        for level in (lowest..levels).rev() {
            let rules = grammar.level_rules(level);
            let own = |end: u32| move |&&holder: &&u32| holder < end;
            let used = rules
                .clone()
                .flat_map(|rule| holders.of(rule).iter().filter(own(end)));
            let more: usize = used.map(|&holder| inputs_of[place(holder)].len()).sum();
            joined += more;
            if groups.firsts.is_empty() || joined > MORE_MAX {
                end = rules.end;
                joined = 0;
                groups.firsts.push(end);
            }
            for rule in rules {
                let begin = inputs.len();
                let counted = |&holder: &u32| {
                    if holder < end {
                        holder | COUNTED
                    } else {
                        holder
                    }
                };
                inputs.extend(holders.of(rule).iter().map(counted));
                let more = inputs.len();
                for &holder in holders.of(rule).iter().filter(own(end)) {
                    inputs.extend_from_within(inputs_of[place(holder)].clone());
                }
                let symbol = grammar.terminal_count + rule;
                groups
                    .more
                    .extend(inputs[more..].iter().map(|&input| (symbol, input)));
                inputs_of[place(rule)] = begin..inputs.len();
            }
        }
        groups.firsts.push(first);
        groups.firsts.reverse();
        Ok(groups)
    }
}

/// For each rule from some rule on those that hold it, once for each time.
struct Holders {
    first: u32,
    offsets: Vec<u32>,
    holders: Vec<u32>,
}

impl Holders {
    fn download(
        gpu: &Gpu,
        grammar: &DeviceGrammar,
        owners: &Buffer<u32>,
        first: u32,
    ) -> Result<Holders, GpuError> {
        let rules = grammar.rules() - first as usize;
        let first_symbol = match rules {
            0 => grammar.symbols.len(),
            _ => gpu.item(&grammar.rule_offsets, first as usize)? as usize,
        };
        let mut symbols = vec![0u32; grammar.symbols.len() - first_symbol];
        gpu.download_from(&grammar.symbols, first_symbol, &mut symbols)?;
        let mut rules_of = vec![0u32; symbols.len()];
        gpu.download_from(owners, first_symbol, &mut rules_of)?;
        let held = |symbol: u32| Some(symbol.checked_sub(grammar.terminal_count + first)? as usize);
        let mut offsets = vec![0u32; rules + 2];
        for at in symbols.iter().filter_map(|&symbol| held(symbol)) {
            offsets[at + 2] += 1;
        }
        for at in 2..offsets.len() {
            offsets[at] += offsets[at - 1];
        }
        let mut holders = vec![0u32; offsets[rules + 1] as usize];
        for (&symbol, &owner) in symbols.iter().zip(&rules_of) {
            if let Some(at) = held(symbol) {
                holders[offsets[at + 1] as usize] = owner;
                offsets[at + 1] += 1;
            }
        }
        Ok(Holders {
            first,
            offsets,
            holders,
        })
    }

    fn of(&self, rule: u32) -> &[u32] {
        let at = (rule - self.first) as usize;
        &self.holders[self.offsets[at] as usize..self.offsets[at + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::test_devices::on_devices;
    use crate::grammar::test_grammars::{self, TestGrammar};

    #[test]
    fn weights_are_pulled_again_and_again_from_rules_of_many_inputs() {
        on_devices(|gpu| {
            for grammar in [
                test_grammars::held_often(2, 1),
                test_grammars::held_often(2, 40),
                test_grammars::held_often(7, 300),
                test_grammars::deep_chain(200),
                test_grammars::repeated_text(4),
            ] {
                let view = grammar.view();
                let device = DeviceGrammar::upload(gpu, view)?;
                let owners = primitives::expand(gpu, &device.rule_offsets, view.symbols.len())?;
                let fan_ins = [
                    FanIn::new(gpu, &device, &owners)?,
                    FanIn::joined(gpu, &device, &owners)?,
                ];
                let mut counts = vec![0u32; device.symbol_count()];
                for &symbol in view.root {
                    counts[symbol as usize] += 1;
                }
                let expected = crate::weights(view, 0..view.root.len(), u64::MAX);
                let counts = gpu.upload(&counts)?;
                for fan_in in fan_ins {
                    let state = fan_in.state(gpu, 1)?;
                    for _ in 0..3 {
                        let found = gpu.download(&fan_in.pull(gpu, &state, &counts)?)?;
                        let found = found.into_iter().map(u64::from);
                        assert!(found.eq(expected.iter().copied()), "{grammar:?}");
                    }
                }
            }
            Ok(())
        });
    }

    #[test]
    fn levels_are_joined_until_that_makes_too_many_inputs() {
        on_devices(|gpu| {
            let groups = |grammar: &TestGrammar| {
                let device = DeviceGrammar::upload(gpu, grammar.view())?;
                let count = device.symbols.len();
                let owners = primitives::expand(gpu, &device.rule_offsets, count)?;
                let groups = Groups::new(gpu, &device, &owners)?;
                let ends = groups.firsts.last().copied().unwrap_or(0) as usize;
                assert_eq!((groups.firsts[0], ends), (0, device.rules()));
                assert!(groups.firsts.is_sorted());
                Ok((groups.firsts.len() - 1, groups.more.len()))
            };
            // A chain of rules: each has what those above have.
            assert_eq!(groups(&test_grammars::deep_chain(50))?.0, 1);
            // Each level doubles what a rule has, if it joins.
            let (count, more) = groups(&test_grammars::doubling(90))?;
            assert!((2..30).contains(&count), "{count}");
            assert!(more <= count * MORE_MAX, "{more}");
            Ok::<_, GpuError>(())
        });
    }
}
